"""A row is read as it is among others: its code is a function of this row alone."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime

import numpy as np
import pytest

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateLogisticRegression
from tests.data.containers import pa, pd, pl
from tests.data.internals import Column, Table, build_schema, tables

N = 120


def odd_frame():
    """A pandas frame of columns of many types, most with missing and unusual values."""
    rng = np.random.default_rng(0)

    def some(*values):
        return [values[code] for code in rng.integers(0, len(values), N)]

    words = some("a", "b", "c", "(other)", "(missing)", "10", "10.0", "new")
    noon = pd.Timestamp("2024-01-31 12:00")
    days = noon + pd.to_timedelta(rng.integers(0, 900, N), "D")
    frame = {
        "float": some(0.5, -0.0, np.nan, np.inf, -np.inf, 1e300, 5e-324),
        "single": np.array(some(0.1, 0.2, np.nan), dtype=np.float32),
        "integer": rng.integers(-5, 5, N),
        "large": np.array(some(2**62, 2**62 + 1, 2**62 - 1)),
        "word": np.array(some(0, 1, 255), dtype=np.uint8),
        "boolean": some(True, False),
        "text": pd.Series(some("a", "b", None, "new"), dtype="str"),
        "string": pd.Series(words, dtype="string").mask(rng.random(N) < 0.2),
        "category": pd.Categorical(some("a", "b", None), categories=["b", "a", "unused"]),
        "ordered": pd.Categorical(some("a", "b"), categories=["b", "a"], ordered=True),
        "codes": pd.Categorical(some(1, 2, None), categories=[2, 1, 7]),
        "many": pd.Categorical(words, categories=[*sorted(set(words)), *map(str, range(200, 400))]),
        "date": days.where(rng.random(N) < 0.8),
        "zone": days.tz_localize("Europe/Berlin").where(rng.random(N) < 0.8),
        "nullable": pd.array(some(1, 2**60, None), dtype="Int64"),
        "nullable boolean": pd.array(some(True, None, False), dtype="boolean"),
    }
    return pd.DataFrame(frame)


def with_objects(frame):
    """The same rows and columns of objects, which no other library holds."""
    rng = np.random.default_rng(1)

    def some(*values):
        column = np.empty(N, dtype=object)
        column[:] = [values[code] for code in rng.integers(0, len(values), N)]
        return column

    return frame.assign(
        numbers=some(1, 2.5, None, "3", np.nan, pd.NA, np.float32(0.1)),
        values=some("a", True, 1, 1.0, None, date(2024, 1, 31), (1, 2), b"a"),
        days=some(date(2024, 1, 31), datetime(2024, 2, 1, 12), None, "2024-01-31", pd.NaT),
    )


CONTAINERS = {
    "pandas": with_objects,
    "pandas on pyarrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda frame: pl.from_pandas(frame.assign(codes=frame["integer"])),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame.assign(codes=frame["integer"])),
    "an array": lambda frame: frame[["float", "integer", "single"]].to_numpy(),
    "an array of objects": lambda frame: with_objects(frame).drop(columns="zone").to_numpy(),
}


def part(table, start, stop):
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    return table[start:stop] if isinstance(table, np.ndarray) else table.slice(start, stop - start)


@pytest.fixture(scope="module", params=CONTAINERS)
def rows(request):
    with np.errstate(invalid="ignore"):  # pandas 2 casts infinity to integers
        return CONTAINERS[request.param](odd_frame())


def test_the_code_of_a_row_does_not_depend_on_other_rows(rows):
    schema = build_schema(Table(rows), [Table(part(rows, 0, 40))], nullable=True)
    codes = schema.encode(Table(rows), clamp=False)
    assert len(np.unique(codes[:, 0])) > 3
    # below and above the numbers of rows from which distinct values are searched for
    for size in (1, 7, 31, 32, 33, 64):
        parts = [
            schema.encode(Table(part(rows, start, min(start + size, N))), clamp=False)
            for start in range(0, N, size)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), codes)


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.UnknownCategoriesWarning")
@pytest.mark.parametrize(
    "estimator", [SemiPrivateBoostingClassifier, SemiPrivateLogisticRegression]
)
@pytest.mark.parametrize("labelled", [False, True])
def test_the_prediction_of_a_row_does_not_depend_on_other_rows(estimator, labelled):
    rows, is_public = odd_frame(), np.arange(N) < 60
    y = np.random.default_rng(0).integers(0, 2, N)
    if not labelled:
        y[is_public] = -1
    model = estimator(random_state=0, epsilon=10.0).fit(rows, y, is_public=is_public)
    together = model.predict_proba(rows)
    one_by_one = [model.predict_proba(rows.iloc[[row]]) for row in range(N)]
    np.testing.assert_array_equal(np.concatenate(one_by_one), together)


def test_what_a_column_looks_up_is_left_out_of_pickles():
    column = Column("c", np.array(["a", "b"], dtype=object), categorical=True)
    state = column.__getstate__()
    column.encode(np.array(["a"], dtype=object))
    assert column.kind_of_categories == "text"
    assert column.__getstate__() == state


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.UnknownCategoriesWarning")
def test_threads_predict_with_one_model():
    rows = odd_frame()
    y = np.random.default_rng(0).integers(0, 2, N)
    model = SemiPrivateBoostingClassifier(random_state=0, epsilon=10.0)
    model.fit(rows, y, is_public=np.arange(N) < 60)
    expected = pickle.loads(pickle.dumps(model)).predict_proba(rows)
    gate = threading.Barrier(8)

    def predict(start):
        gate.wait()  # so that all threads find no lookup table
        part = rows.iloc[start::8]
        return [model.predict_proba(part) for _ in range(3)][-1]

    with ThreadPoolExecutor(8) as pool:
        for start, found in enumerate(pool.map(predict, range(8))):
            np.testing.assert_array_equal(found, expected[start::8])


def test_narwhals_is_not_entered_for_columns_of_pandas(monkeypatch):
    """It costs more than all that a number in a row needs."""
    rng = np.random.default_rng(0)
    kinds = {"x": rng.normal(size=N), "n": rng.integers(0, 9, N), "t": rng.choice(["a", "b"], N)}
    rows = pd.DataFrame(kinds | {"c": pd.Categorical(kinds["t"])})
    model = SemiPrivateBoostingClassifier(random_state=0, epsilon=10.0)
    model.fit(rows, rng.integers(0, 2, N), is_public=np.arange(N) < 60)
    entries, from_native = [], tables.nw.from_native
    monkeypatch.setattr(
        tables.nw, "from_native", lambda *a, **k: entries.append(1) or from_native(*a, **k)
    )
    model.decision_function(pl.from_pandas(rows[:1]))
    assert entries
    entries.clear()
    model.decision_function(rows[:1])
    assert not entries
