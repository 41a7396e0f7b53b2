"""How many edges are below values, looked up, is what a search finds, for numbers of any type."""

import pickle

import numpy as np
import pytest

from tests.data.internals import LOOKUP_BLOCK, Column, ColumnBins, SortedEdges

LAWS = {
    "even": lambda rng, k: rng.random(k),
    "rounded": lambda rng, k: rng.normal(size=k).round(1),
    "crowded": lambda rng, k: np.exp(9 * rng.normal(size=k)),
    "far tails": lambda rng, k: rng.standard_cauchy(k),
    "infinite": lambda rng, k: np.r_[-np.inf, rng.normal(size=k), np.inf],
    "huge": lambda rng, k: np.r_[-1.7e308, rng.normal(size=k), 1.7e308],
    "tiny": lambda rng, k: 1e-310 * rng.normal(size=k),
    "whole": lambda rng, k: rng.integers(-300, 300, k) / 2,
}
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64]


def expected(edges, values, missing):
    """As a search in floats of 64 bits finds it; NaN would be above all."""
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float64)
    return np.where(np.isnan(numbers), missing, np.searchsorted(edges, numbers))


def near(rng, edges, kind, n):
    """Values at edges, next to them and far from them, as a type has them."""
    with np.errstate(all="ignore"):
        at = rng.choice(edges, n).astype(kind)
        parts = [at, np.nextafter(at, kind(np.inf)), np.nextafter(at, kind(-np.inf))]
        ends = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30]).astype(kind)
    return rng.permutation(np.concatenate([*parts, ends, rng.normal(size=n).astype(kind)]))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_where_a_search_finds_them(law, kind):
    rng = np.random.default_rng(0)
    for k in (1, 2, 9, 700, 5000):
        edges = np.unique(LAWS[law](rng, k))
        # the last ones in a block of their own
        for n in (3, 300, LOOKUP_BLOCK // 4 + 5):
            values = near(rng, edges, kind, n)
            missing = len(edges) + 1
            found = SortedEdges(edges, missing).count_below(values)
            assert found.dtype == np.min_scalar_type(missing)
            np.testing.assert_array_equal(found, expected(edges, values, missing))
            strided = np.repeat(values, 2)[::2]
            np.testing.assert_array_equal(SortedEdges(edges, missing).count_below(strided), found)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_are_where_a_search_finds_them(kind):
    rng = np.random.default_rng(1)
    limits = np.iinfo(kind)
    for edges in ([-129.0, -128.5, -3, 0, 0.5, 1, 127, 130, 255.5, 40_000], [np.inf], [-0.5]):
        edges = np.array(edges)
        for n in (5, 40_000):
            some = rng.integers(max(limits.min, -200), min(limits.max, 300), n)
            far = rng.integers(limits.min, limits.max, n, dtype=kind, endpoint=True)
            ends = np.array([limits.min, limits.max], dtype=kind)
            values = np.concatenate([some.astype(kind), far, ends])
            np.testing.assert_array_equal(
                SortedEdges(edges).count_below(values), expected(edges, values, 0)
            )


def test_tables_are_no_part_of_a_model():
    column = Column("x", np.arange(3.0), False, nullable=True)
    feature = ColumnBins(column, np.array([0.5, 1.5]), 4, np.empty(0, dtype=np.int16))
    before = pickle.dumps(feature)
    values = np.random.default_rng(0).normal(size=5000)
    codes = feature.codes(values)
    assert pickle.dumps(feature) == before
    np.testing.assert_array_equal(pickle.loads(before).codes(values), codes)


@pytest.mark.parametrize("nullable", [False, True])
def test_cells_of_numbers_of_any_type_are_those_of_floats(nullable):
    """Also where numbers are looked up as they are."""
    rng = np.random.default_rng(3)
    column = Column("x", np.arange(3.0), False, low=-5, high=5, nullable=nullable)
    feature = ColumnBins(column, np.array([-2.0, 0.5, 3.0]), 5, np.empty(0, dtype=np.int16))
    whole = rng.integers(-9, 9, 3000)
    for kind in ("b", "h", "i", "q", "f", "d", "e", "?", "O"):
        values = whole.astype(kind)
        encoded = column.encode(values, clamp=False)
        np.testing.assert_array_equal(feature.codes(values), feature.encoded_codes(encoded))
    masked = np.ma.MaskedArray(whole, rng.random(3000) < 0.1)
    if nullable:
        codes = feature.codes(masked)
        assert (codes[np.ma.getmaskarray(masked)] == 4).all()
        np.testing.assert_array_equal(codes == 4, np.ma.getmaskarray(masked))
    counted = Column("x", np.arange(3.0), False, nullable=nullable, offset=2**60)
    moved = ColumnBins(counted, np.array([-2.0, 0.5, 3.0]), 5, np.empty(0, dtype=np.int16))
    np.testing.assert_array_equal(moved.codes(whole + 2**60), feature.codes(whole))
