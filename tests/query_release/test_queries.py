"""Query classes: exact answers, invalid queries, dual VC dimension, and the schema."""

import numpy as np
import pandas as pd
import pytest

from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from tests.internals.data import MISSING, OTHER, Table, build_schema, cut_points

INF = np.inf


def two_queries(X):
    return np.column_stack([X[:, 0] > X[:, 1], X.sum(axis=1) > 0])


# class, number of columns, one query, its direct evaluation on a row x
CASES = [
    (ThresholdQueries(), 1, [0.5], lambda x, q: x[0] <= q[0]),
    (IntervalQueries(), 1, [-0.5, 1.0], lambda x, q: q[0] <= x[0] <= q[1]),
    (
        RectangleQueries(),
        2,
        [[-0.5, 1.0], [-INF, 0.5]],
        lambda x, q: all(low <= value <= high for value, (low, high) in zip(x, q, strict=True)),
    ),
    (HalfspaceQueries(), 2, [1.0, -0.5, 0.25], lambda x, q: x[0] * q[0] + x[1] * q[1] >= q[2]),
    (StumpQueries(), 2, [1, 0.5], lambda x, q: x[q[0]] <= q[1]),
    (CustomQueries(two_queries), 2, [1], lambda x, q: [x[0] > x[1], x[0] + x[1] > 0][q[0]]),
]
BY_CLASS = pytest.mark.parametrize(
    ("queries", "width", "query", "rule"), CASES, ids=lambda value: type(value).__name__
)


@BY_CLASS
def test_holds_agrees_with_a_direct_evaluation(queries, width, query, rule):
    X = np.random.default_rng(0).integers(-2, 3, size=(60, width)) / 2.0  # many ties
    answers = queries.holds([query, query], X)
    assert answers.shape == (2, 60)
    assert answers.dtype == bool
    assert answers[0].tolist() == [bool(rule(x, query)) for x in X.tolist()]


@BY_CLASS
def test_answers_depend_on_each_row_alone(queries, width, query, rule):
    X = np.random.default_rng(1).normal(size=(40, width))
    holds = queries.holds([query], X)[0]
    assert holds.tolist() == [queries.holds([query], row[None])[0, 0] for row in X]
    np.testing.assert_array_equal(queries.holds([query], np.asfortranarray(X))[0], holds)
    weights = np.arange(40) / 780
    assert queries.weighted_mean(np.array([query]), X, weights)[0] == pytest.approx(
        weights[holds].sum()
    )


@BY_CLASS
@pytest.mark.parametrize("wrong", [0.0, [[["a"]]], np.zeros((2, 7)), np.zeros((1, 2, 3, 4)), "abc"])
def test_invalid_shapes(queries, width, query, rule, wrong):
    with pytest.raises(ValueError, match=type(queries).__name__):
        queries.holds(wrong, np.zeros((3, width)))


@BY_CLASS
def test_empty_queries(queries, width, query, rule):
    none = np.empty((0, *np.shape(query)))
    assert queries.holds(none, np.zeros((3, width))).shape == (0, 3)


@BY_CLASS
def test_nan_is_refused(queries, width, query, rule):
    with_nan = np.array([query], dtype=float)
    with_nan.flat[-1] = np.nan
    with pytest.raises(ValueError, match="must not contain NaN"):
        queries.holds(with_nan, np.zeros((3, width)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("queries", "width", "dual"),
    [
        (ThresholdQueries(), 1, 1),
        (IntervalQueries(), 1, 2),
        (StumpQueries(), 3, 3),
        (RectangleQueries(), 2, 4),
        (HalfspaceQueries(), 1, 1),
        (HalfspaceQueries(), 2, 2),
    ],
)
def test_dual_vc_dimension(queries, width, dual):
    """Some `dual` queries make all 2^dual cells, and of many random queries no more do."""
    rng = np.random.default_rng(0)
    X = rng.integers(-20, 21, size=(800, width)) / 10.0
    ends = np.sort(rng.normal(size=(60_000, width, 2)), axis=2)
    ends[rng.random(ends.shape[:2]) < 0.4] = -INF, INF
    Q = {
        ThresholdQueries: ends[:, :, 1].clip(-2, 2),
        IntervalQueries: ends[:, 0],
        StumpQueries: np.column_stack([rng.integers(width, size=60_000), ends[:, 0, 0].clip(-1)]),
        RectangleQueries: ends,
        HalfspaceQueries: rng.normal(size=(60_000, width + 1)) * ([1] * width + [0.3]),
    }[type(queries)]

    def max_cells(k):
        """Return the maximum number of cells that k of the queries make."""
        groups = Q[: len(Q) // k * k].reshape(-1, k, *Q.shape[1:])[:4000]
        return max(len(np.unique(2 ** np.arange(k) @ queries.holds(group, X))) for group in groups)

    assert queries.dual_vc_dimension(width) == dual
    assert max_cells(dual) == 2**dual
    assert max_cells(dual + 1) < 2 ** (dual + 1)


def test_marginals():
    codes = np.random.default_rng(0).integers(3, size=(50, 3))
    queries = MarginalQueries(k=2)
    Q = np.array([[0, -1, 2], [-1, 1, -1], [-1, -1, -1], [2, 2, 2]])
    naive = [
        [all(q in (-1, x) for q, x in zip(query, row, strict=True)) for row in codes.tolist()]
        for query in Q.tolist()
    ]
    np.testing.assert_array_equal(queries.holds(Q, codes), naive)
    np.testing.assert_allclose(
        queries.weighted_mean(Q, codes, np.full(50, 0.02)), np.mean(naive, axis=1)
    )
    with pytest.raises(ValueError, match="codes of shape"):
        queries.holds([[0.5, 1, 2]], codes)


def test_invalid_custom_functions():
    X = np.full((3, 2), 8675309.0)

    def fails(rows):
        raise KeyError(f"no {rows[0]}")

    with pytest.raises(ValueError, match="raised KeyError") as caught:
        CustomQueries(fails).holds([[0]], X)
    assert "8675309" not in str(caught.value)
    assert caught.value.__context__ is None
    for bad in (lambda X: X[:, 0], lambda X: np.array([True]), lambda X: True):
        with pytest.raises(ValueError, match="must return booleans"):
            CustomQueries(bad).holds([[0]], X)
    with pytest.raises(ValueError, match="positions"):
        CustomQueries(two_queries).holds([[2]], X)
    with pytest.raises(ValueError, match="whole numbers"):
        CustomQueries(two_queries).holds([[0.5]], X)
    one = CustomQueries(lambda X: X[:, 0] > 0)
    assert one.holds([[0]], X).shape == (1, 3)


class TestSchema:
    FRAME = pd.DataFrame(
        {
            "age": [20, 30, 40, 50],
            "job": ["a", "b", None, "a"],
            "sex": pd.Categorical(["m", "f", "m", "f"]),
            "own": [True, False, True, True],
        }
    )

    def schema(self, public=None, **settings):
        public = self.FRAME if public is None else public
        return build_schema(Table(self.FRAME), list(map(Table, [public])), **settings)

    def test_columns(self):
        schema = self.schema()
        assert schema.numeric.tolist() == [True, False, False, False]
        assert [column.values.tolist() for column in schema.columns[1:]] == [
            ["a", "b"],
            ["f", "m"],
            [False, True],
        ]
        assert (schema.columns[0].low, schema.columns[0].high) == (-10.0, 80.0)

    def test_encode_and_decode(self):
        schema = self.schema()
        codes = schema.encode(Table(self.FRAME))
        assert codes[:, 1].tolist() == [0, 1, 3, 0]
        back = schema.decode(codes)
        pd.testing.assert_frame_equal(back, self.FRAME)
        assert back["own"].tolist() == [True, False, True, True]
        assert list(back.columns) == list(self.FRAME.columns)

    def test_only_public_rows_decide(self):
        schema = self.schema(self.FRAME.iloc[:1])
        assert schema.columns[1].values.tolist() == ["a"]
        assert schema.columns[2].values.tolist() == ["f", "m"]  # declared by its type
        decoded = schema.decode(schema.encode(Table(self.FRAME)))
        assert decoded["job"].fillna(MISSING).tolist() == ["a", OTHER, MISSING, "a"]
        assert decoded["sex"].tolist() == ["m", "f", "m", "f"]

    def test_bounds(self):
        schema = self.schema(bounds={"age": (25, 45)})
        assert schema.encode(Table(self.FRAME))[:, 0].tolist() == [25, 30, 40, 45]
        with pytest.raises(ValueError, match="'ages'"):
            self.schema(bounds={"ages": (0, 1)})
        with pytest.raises(ValueError, match="finite with low"):
            self.schema(bounds={"age": (1, 0)})

    def test_dates(self):
        days = ["2020-01-01", "2020-01-31 12:00", None]
        frame = pd.DataFrame({"day": pd.to_datetime(days, format="mixed")})
        schema = build_schema(Table(frame), [Table(frame)], nullable=True)
        (column,) = schema.columns
        encoded = schema.encode(Table(frame), clamp=False)[:, 0]
        assert [column.format(number) for number in encoded[:2]] == [
            "2020-01-01",
            "2020-01-31 12:00:00",
        ]
        assert encoded[1] - encoded[0] == 30.5 * 24 * 3600e6
        assert np.isnan(encoded[2])
        assert schema.decode(encoded[:2, None])["day"].tolist() == frame["day"].tolist()[:2]

    @pytest.mark.parametrize("n", [1, 2, 12])
    def test_places_within_a_day(self, n):
        """Few values that are whole days do not say that all are; half-way cuts tell days apart."""
        frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=n)})
        (column,) = build_schema(Table(frame), [Table(frame)], nullable=True).columns
        first = column.values[0]
        texts = [column.format(first + hours * 3600e6) for hours in (6, 12, 18)]
        noon = "2020-01-01 12:00:00" if n == 1 else "2020-01-01"
        few = ["2020-01-01 06:00:00", noon, "2020-01-01 18:00:00"]
        assert texts == (["2020-01-01"] * 3 if n == 12 else few)

    def test_cuts(self):
        few = cut_points(np.array([1.0, 2.0, 2.0, 5.0]), 4)
        assert few.tolist() == [1.5, 3.5]
        values = np.random.default_rng(0).normal(size=1000)
        shares = np.bincount(np.searchsorted(cut_points(values, 10), values))
        assert len(shares) == 10
        assert shares.max() <= 101
        assert cut_points(np.ones(50), 8).tolist() == []
        heavy = np.concatenate([np.zeros(900), np.arange(1, 101)])
        assert np.searchsorted(cut_points(heavy, 8), [0, 1])[0] == 0
