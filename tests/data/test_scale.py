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

from tests.boosting import test_newton_privacy as whole_fits
from tests.data.internals import (
    Column,
    RefCountedContext,
    Table,
    newton,
    one_blas_thread,
    splits,
)

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
    asked = splits.Splits(features, rng.normal(size=n_splits).round(1))
    above = np.ones((n_splits + 1, n), dtype=np.int64)
    for split in range(n_splits):
        above[split + 1] = [X[row, features[split]] > asked.thresholds[split] for row in range(n)]
    expected = [(above * (weights * (y == label))) @ above.T for label in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "CELL_BLOCK_ROWS", 32)
        patch.setattr(splits, "contingency_table", None)  # that is for fewer splits
        np.testing.assert_array_equal(asked.tabulate(X, y, weights, 3, 2), expected)


def coded(values):
    return pa.array(values, pa.string()).dictionary_encode()


def in_halves(values):
    half = len(values) // 2
    return pa.chunked_array([coded(values[:half]), coded(values[half:])])


LIBRARIES = {
    "pyarrow": lambda values: pa.table({"c": values}),
    "polars": lambda values: pl.DataFrame({"c": values}),
    "dictionary": lambda values: pa.table({"c": coded(values)}),
    # of many words few occur
    "sliced": lambda values: pa.table({"c": coded([*map(str, range(99)), *values])[99:]}),
    "two chunks": lambda values: pa.concat_tables(
        [pa.table({"c": values})[:2], pa.table({"c": values})[2:]]
    ),
    "two dictionaries": lambda values: pa.table({"c": in_halves(values)}),
    "pandas text": lambda values: pd.DataFrame({"c": values}, dtype="string"),
    "pandas categories": lambda values: pd.DataFrame({"c": values}).astype("category"),
}
VALUES = (
    ["a", "b", None, "c", "a", "(other)", "(missing)", "zz"] * 4,
    [None, None, None],
    ["a"] * 5,
    ["a", "b", "c"],
    [*"aaaacccb"],
    ["a", "a", None, None, None],
)


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("values", VALUES)
def test_text_is_coded_by_distinct_values_as_value_by_value(make, values):
    column = Column("c", np.array(["a", "b", "c"], dtype=object), categorical=True)
    asked = []

    def noted(words):
        asked.append(len(words))
        return column.encode(words)

    codes = Table(make(values)).map_distinct(0, noted)
    one_by_one = [column.encode(np.array([value, None], dtype=object)[:1])[0] for value in values]
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes, one_by_one)
    if len(values) > 20:  # of so many values so few are looked at
        assert max(asked) < len(values) / 2


@pytest.mark.parametrize("name", ["labels", "one round", PERSONS])
def test_newton_boosting_on_a_subsample_pays_for_one_replaced_row(name, monkeypatch):
    sizes = []
    update_term = newton.NewtonBooster.update_term

    def noted(self, term, budget):
        sizes.append(self.data.rows.n)
        return update_term(self, term, budget)

    monkeypatch.setattr(whole_fits.budget_split, "MIN_ROWS_PER_COLUMN", 0)
    monkeypatch.setattr(newton, "subsample_size", lambda noise, cells: 16)
    monkeypatch.setattr(newton.NewtonBooster, "update_term", noted)
    options = whole_fits.GROWING[name]
    more = options | {
        "epsilon": min(10 * options["epsilon"], 2**20)
    }  # all stages run on fewer rows, too
    monkeypatch.setitem(whole_fits.GROWING, name, more)
    whole_fits.test_a_replaced_row_changes_newton_boosting_only_within_the_sensitivity(name)
    n = max(sizes)
    assert sizes[-1] == n
    assert name == "one round" or 16 <= min(sizes) <= n / 2


@contextlib.contextmanager
def another_thread_in(context):
    """Enter a context in another thread, and leave it there once `leave` is called."""
    inside, go_on = threading.Event(), threading.Event()

    def stay():
        with context:
            inside.set()
            go_on.wait(60)

    other = threading.Thread(target=stay)
    other.start()
    inside.wait(60)

    def leave():
        go_on.set()
        other.join()

    try:
        yield leave
    finally:
        leave()


def test_the_last_thread_leaves_a_shared_context():
    seen = []

    @contextlib.contextmanager
    def made():
        seen.append("entered")
        yield
        seen.append("left")

    shared = RefCountedContext(made)
    with another_thread_in(shared) as leave:
        with shared:
            pass
        assert seen == ["entered"]
        leave()
        assert seen == ["entered", "left"]
    with shared:
        assert seen[2:] == ["entered"]
    assert seen[2:] == ["entered", "left"]


def test_blas_gets_its_threads_back_when_the_last_fit_ends():
    def threads():
        found = threadpoolctl.threadpool_info()
        return {library["num_threads"] for library in found if library["user_api"] == "blas"}

    before = threads()
    with another_thread_in(one_blas_thread) as leave, one_blas_thread:
        assert threads() == {1}
        leave()
        assert threads() == {1}
    assert threads() == before
