"""What makes large tables quick changes no count, and no row counts for more."""

import contextlib
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st

from skpublicdp._internal.threads import RefCountedContext, one_blas_thread
from skpublicdp.boosting import newton_boosting, newton_fit
from skpublicdp.data.schema import Column
from skpublicdp.data.tables import Table
from skpublicdp.hypotheses import splits as splits_module
from skpublicdp.hypotheses.splits import Splits
from tests.boosting import test_newton_privacy as whole_fits

PERSONS = "persons, pure, three labels"


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans(), st.sampled_from("fd"))
def test_pairs_of_splits_are_counted_as_they_are(seed, n_features, heavy, kind):
    rng = np.random.default_rng(seed)
    n, n_splits = int(rng.integers(0, 80)), 8 * n_features
    X = rng.normal(size=(n, n_features)).round(1).astype(kind)
    y = rng.integers(0, 3, n)
    weights = rng.integers(0, 9, n) if heavy else np.ones(n, dtype=np.int64)
    # in any order, some alike, and some between neighbouring floats
    features = rng.permutation(np.resize(np.arange(n_features), n_splits))
    splits = Splits(features, rng.normal(size=n_splits).round(1))
    above = np.ones((n_splits + 1, n), dtype=np.int64)
    for split in range(n_splits):
        above[split + 1] = [X[row, features[split]] > splits.thresholds[split] for row in range(n)]
    expected = [(above * (weights * (y == label))) @ above.T for label in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits_module, "CELL_BLOCK_ROWS", 32)
        patch.setattr(splits_module, "contingency_table", None)  # that is for fewer splits
        np.testing.assert_array_equal(splits.tabulate(X, y, weights, 3, 2), expected)


LIBRARIES = {
    "pyarrow": pa.table,
    "polars": pl.DataFrame,
    "dictionary": lambda data: pa.table(
        {name: pa.array(values, pa.string()).dictionary_encode() for name, values in data.items()}
    ),
    # of many words few occur
    "sliced": lambda data: pa.table(
        {
            name: pa.array([*map(str, range(99)), *values], pa.string()).dictionary_encode()[99:]
            for name, values in data.items()
        }
    ),
    "two chunks": lambda data: pa.concat_tables([pa.table(data)[:2], pa.table(data)[2:]]),
    "two dictionaries": lambda data: pa.table(
        {
            name: pa.chunked_array(
                [
                    pa.array(part, pa.string()).dictionary_encode()
                    for part in (values[: len(values) // 2], values[len(values) // 2 :])
                ]
            )
            for name, values in data.items()
        }
    ),
    "pandas text": lambda data: pd.DataFrame(data, dtype="string"),
    "pandas categories": lambda data: pd.DataFrame(data).astype("category"),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", None, "c", "a", "(other)", "(missing)", "zz"] * 4,
        [None, None, None],
        ["a"] * 5,
        ["a", "b", "c"],
        [*"aaaa", *"cccb"],
        ["a", "a", None, None, None],
    ],
)
def test_text_is_coded_by_distinct_values_as_value_by_value(library, values):
    column = Column("c", np.array(["a", "b", "c"], dtype=object), categorical=True)
    asked = []

    def noted(words):
        asked.append(len(words))
        return column.encode(words)

    codes = Table(LIBRARIES[library]({"c": values})).map_distinct(0, noted)
    one_by_one = [column.encode(np.array([value, None], dtype=object)[:1])[0] for value in values]
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes, one_by_one)
    if len(values) > 20:  # of so many values so few are looked at
        assert max(asked) < len(values) / 2


@pytest.mark.parametrize("name", ["labels", "pure, three labels", "one round", PERSONS])
def test_newton_boosting_on_a_subsample_pays_for_one_replaced_row(name, monkeypatch):
    sizes = []
    update_term = newton_boosting.NewtonBooster.update_term

    def noted(self, term, budget):
        sizes.append(self.data.rows.n)
        return update_term(self, term, budget)

    monkeypatch.setattr(newton_fit, "subsample_size", lambda noise, cells: 16)
    monkeypatch.setattr(newton_boosting.NewtonBooster, "update_term", noted)
    options = whole_fits.GROWING[name]
    more = options | {
        "epsilon": min(10 * options["epsilon"], 2**20)
    }  # all stages run on fewer rows, too
    monkeypatch.setitem(whole_fits.GROWING, name, more)
    whole_fits.test_a_replaced_row_changes_newton_boosting_only_within_the_sensitivity(name)
    n = max(sizes)
    assert sizes[-1] == n
    assert name == "one round" or 16 <= min(sizes) <= n / 2


def test_the_last_thread_leaves_a_shared_context():
    left = []

    @contextlib.contextmanager
    def made():
        left.append("entered")
        yield
        left.append("left")

    shared, inside, go_on = RefCountedContext(made), threading.Event(), threading.Event()

    def stay():
        with shared:
            inside.set()
            go_on.wait(60)

    other = threading.Thread(target=stay)
    other.start()
    inside.wait(60)
    with shared:
        pass
    assert left == ["entered"]
    go_on.set()
    other.join()
    assert left == ["entered", "left"]
    with shared:
        assert left[2:] == ["entered"]
    assert left[2:] == ["entered", "left"]


def test_blas_gets_its_threads_back_when_the_last_fit_ends():
    def threads():
        found = threadpoolctl.threadpool_info()
        return [library["num_threads"] for library in found if library["user_api"] == "blas"]

    before, inside, go_on = threads(), threading.Event(), threading.Event()

    def fit():
        with one_blas_thread:
            inside.set()
            go_on.wait(60)

    other = threading.Thread(target=fit)
    other.start()
    inside.wait(60)
    with one_blas_thread:
        assert set(threads()) == {1}
        go_on.set()
        other.join()
        assert set(threads()) == {1}
    assert threads() == before
