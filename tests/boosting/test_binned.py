"""Rows in fine bins: results do not depend on chunks, threads or the storage of codes."""

import pickle
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from tests.boosting.test_privacy import PUBLIC, cells_of, every_row, grid, some_rows, some_tree
from tests.internals.boosting import (
    LOGISTIC,
    MAX_MARGIN,
    SQUARED,
    Binner,
    ColumnBins,
    FineBinnedRows,
    MultinomialLoss,
    bin_splits,
    make_binner,
    refine_bins,
    sum_packed,
)
from tests.internals.boosting import binned as module
from tests.internals.data import (
    TARGET_LEVELS,
    Column,
    binning,
    count_below,
    cut_points,
    fine_edges,
    snap_to_edges,
    streaming,
)
from tests.internals.hypotheses import contingency_table

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")


def schema_of(n_columns, *, integral=False):
    numbers = [Column(f"x{k}", np.arange(3.0), False, integral=integral) for k in range(n_columns)]
    kinds = Column("kind", np.array(["a", "b", "c"]), categorical=True)
    return SimpleNamespace(columns=(*numbers, kinds))


def encoded(n, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 40, n), rng.integers(0, 5, n)])
    X[rng.random(n) < 0.1, 0] = np.nan
    return X.astype(float)


# Fits


def learned(estimator, n_classes, seed=4):
    """What a fit learned."""
    X, y = some_rows(seed, 700, n_classes)
    fitted = estimator.fit(X[:, :2], y, X_public=PUBLIC)
    model = fitted._model
    steps = [mechanism.name for mechanism in fitted.privacy_.mechanisms]
    if getattr(fitted, "method", "") == "auto":  # nothing of growth is left out
        assert "noisy gradient and hessian histogram of half bins" in steps
        assert "exponential mechanism, exact draw of a tree" in steps
    cuts = [shape.cuts for shape in fitted.shapes_]
    return pickle.dumps([model.scores, model.intercepts, model.leaf_scores, cuts, steps])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["two", "three", "outcomes", "votes", "pure"])
def test_the_model_is_the_same_bit_for_bit(name, monkeypatch):
    n_classes = 3 if name in {"three", "votes"} else 2

    def fit(n_jobs=None):
        if name == "outcomes":
            estimator = SemiPrivateBoostingRegressor(epsilon=9000, outcome_bounds=(0, 1))
        else:
            options = {"votes": {"epsilon": 3, "method": "votes"}, "pure": {"delta": 0}}
            estimator = SemiPrivateBoostingClassifier(epsilon=9000)
            estimator.set_params(**options.get(name, {}))
        return learned(estimator.set_params(n_jobs=n_jobs, random_state=1), n_classes)

    whole = fit()
    for size, n_jobs in ((1, None), (64, 2), (333, 3)):
        if size == 1 and name != "two":
            continue
        monkeypatch.setattr(module, "HISTOGRAM_CHUNK_ROWS", size)
        monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns, size=size: size)
        monkeypatch.setattr(streaming, "MIN_CHUNK_ROWS", 1)
        assert fit(n_jobs) == whole
    monkeypatch.setattr(module, "MAX_MEMORY_BYTES", 0)  # codes and margins in files
    assert fit() == whole


# Codes


@given(st.integers(0, 10**6), st.lists(st.integers(0, 300), max_size=6), st.integers(1, 90))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_codes_do_not_depend_on_the_chunks(seed, ends, size):
    X, public = encoded(300, seed), encoded(50, seed + 1)
    y = np.random.default_rng(seed).integers(0, 3, 300)
    fine = make_binner(schema_of(2), public, None)
    parts = np.split(np.arange(300), sorted(ends))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HISTOGRAM_CHUNK_ROWS", size)
        rows = FineBinnedRows.from_encoded(fine, ((X[at], y[at]) for at in parts), 300, np.uint8)
        assert rows.sum_over_chunks(lambda at: np.bincount(rows.y[at], minlength=3)).tolist() == [
            *np.bincount(y, minlength=3)
        ]
    np.testing.assert_array_equal(rows.columns, fine.encoded_codes(X))
    np.testing.assert_array_equal(rows.y, y)
    assert {column.dtype.itemsize for column in rows.columns} <= {1, 2}


def test_many_rows_are_in_files_that_nobody_else_reads(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MAX_MEMORY_BYTES", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X = encoded(300, 0)
    fine = make_binner(schema_of(2), X, None)
    rows = FineBinnedRows.from_encoded(fine, [(X, np.ones(300))], 300, np.uint8)
    np.testing.assert_array_equal(rows.columns, fine.encoded_codes(X))
    assert rows.y.sum() == 300
    later = rows.allocate((2, 300), np.int32)
    later += 7
    assert not list(tmp_path.iterdir())  # no name, so nothing is left after a crash
    bases = [array.base for array in (*rows.columns, rows.y, later)]
    while any(isinstance(base, np.ndarray) for base in bases):
        bases = [base.base if isinstance(base, np.ndarray) else base for base in bases]
    assert None not in bases


@pytest.mark.parametrize("n", [9, 11])
def test_as_many_rows_as_were_said(n):
    X = encoded(10, 0)
    fine = make_binner(schema_of(2), X, None)
    with pytest.raises(ValueError, match=f"must contain {n} rows"):
        FineBinnedRows.from_encoded(fine, [(X, np.zeros(10))], n, np.uint8)


@given(st.integers(0, 10**6), st.sampled_from([5, 40, 65_000]), st.integers(2, 30))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_values_are_in_the_bins_of_their_fine_bins(seed, most, n_bins):
    """However cells are cut, and also where there are too many edges."""
    X, public = encoded(400, seed), encoded(90, seed + 1)
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(90))
    schema = schema_of(2, integral=bool(seed % 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binning, "MAX_FINE_EDGES", most)
        fine = make_binner(schema, public, None)
    coded = [
        FineBinnedRows.from_encoded(fine, [(of, np.zeros(len(of)))], len(of), int)
        for of in (X, public)
    ]
    coarse = make_binner(schema, public, n_bins, weights)
    for features in (coarse, refine_bins(coarse, public, weights)):
        cells = module.BinnedData.from_fine_bins(features, *coded)
        for rows, codes in ((X, cells.codes(slice(None))), (public, cells.public_codes)):
            np.testing.assert_array_equal(codes, cells.binner.encoded_codes(rows))
        if most == 65_000:  # nothing moved
            for found, wanted in zip(cells.binner.columns, features.columns, strict=True):
                np.testing.assert_array_equal(found.cuts, wanted.cuts)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=60), st.booleans())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_edges_are_public_and_hold_all_cuts(values, integral):
    values = np.array(values)
    edges = fine_edges(values, integral=integral, max_exact=12)
    assert (np.diff(edges) > 0).all()
    with np.errstate(over="ignore", invalid="ignore"):
        for n_bins in (2, 7, 100):
            cuts = cut_points(values, n_bins)
            assert np.isin(cuts[~np.isnan(cuts)], edges).all()
    if len(np.unique(values)) <= 12:
        assert len(edges) < 12


def test_many_public_values_leave_as_many_edges_as_there_may_be():
    values = np.random.default_rng(0).normal(size=100_000)
    edges = fine_edges(values, integral=False, max_exact=12)
    assert 30_000 < len(edges) <= binning.MAX_FINE_EDGES
    held = np.bincount(np.searchsorted(edges, values))
    assert held.max() <= 4
    some = np.array([-9.0, 9.0, np.nan, values[5]])
    found = snap_to_edges(edges, some)
    np.testing.assert_array_equal(found[:2], edges[[0, -1]])
    assert np.isnan(found[2])
    assert abs(found[3] - values[5]) == np.abs(edges - values[5]).min()


SCALES = {
    "even": lambda rng, k: rng.normal(size=k),
    "crowded": lambda rng, k: np.exp(9 * rng.normal(size=k)),
    "ties": lambda rng, k: rng.integers(-40, 40, k) / 2,
    "infinite": lambda rng, k: np.r_[-np.inf, rng.normal(size=k), np.inf],
    "huge": lambda rng, k: np.r_[-1.7e308, rng.normal(size=k), 1.7e308],
    "tiny": lambda rng, k: 1e-310 * rng.normal(size=k),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("k", [1, 2, 50, 2000])
def test_edges_below_values_are_counted_as_a_search_would(scale, k):
    rng = np.random.default_rng(k)
    edges = np.unique(SCALES[scale](rng, k))
    near = rng.choice(edges, 30_000)
    values = np.concatenate(
        [near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf), rng.normal(size=9000)]
    )
    values = np.concatenate([values, [np.inf, -np.inf, 1e308, -1e308, 0.0]])
    found = count_below(edges, values)
    np.testing.assert_array_equal(found, np.searchsorted(edges, values))
    assert not count_below(edges, np.full(99_999, np.nan)).any()


# What is summed


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, MultinomialLoss(3, pure=False)])
def test_packed_sums_are_exact(loss):
    """Exact also where a whole chunk is in one cell, and wrong."""
    n = module.HISTOGRAM_CHUNK_ROWS
    rng = np.random.default_rng(0)
    for margins in (np.full((loss.n_targets, n), -MAX_MARGIN), rng.integers(-9999, 9999, (1, n))):
        margins = np.resize(margins, (loss.n_targets, n)).astype(np.int32)
        y = np.ones(n, dtype=np.uint8)
        if loss is SQUARED:
            y = rng.integers(0, TARGET_LEVELS + 1, n) / TARGET_LEVELS
        line = np.zeros(n, dtype=np.uint8)
        line[:99] = 2
        found = sum_packed(line, 3, loss.packed_gradient_hessian(margins, y))
        for total, part in zip(found, loss.gradient_hessian(margins, y), strict=True):
            expected = [part[:, 99:].sum(axis=1), 0 * part[:, 0], part[:, :99].sum(axis=1)]
            np.testing.assert_array_equal(total, np.array(expected, dtype=np.int64).T)


@pytest.mark.parametrize("order", [2, 3])
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_joint_gradient_sums_equal_the_contingency_table(order, seed, n_columns, size):
    """By cells as by answers."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, size, (n_columns, 60)).astype(np.uint8)
    first = rng.integers(0, size, 9)
    asked = bin_splits.BinSplits(
        np.sort(rng.integers(0, n_columns, 9)),
        first,
        np.maximum(first, rng.integers(0, size, 9)),
        np.full((9, 2), ""),
    )
    values = rng.integers(-256, 257, 60).astype(float)
    weights, alike = values.astype(int), np.zeros(60, dtype=int)
    expected = contingency_table(asked.indicators, 9, codes.T, alike, weights, 1, order)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bin_splits, "MIN_TABLE_SPLITS", {order: 0})
        patch.setattr(bin_splits, "MIN_TABLE_ROWS", {order: 0})
        found = bin_splits.joint_gradient_sums(asked, order, codes, [size] * n_columns, values)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_leaves_are_those_of_the_tree(depth):
    features = grid(6, 4)
    codes, y = every_row(features, 2)
    asked = bin_splits.candidate_splits(features, codes)
    names, classes = features.names, np.arange(2)
    cover = bin_splits.tree_cover(asked, codes, names, classes, max(depth, 1))
    rng = np.random.default_rng(depth)
    for _ in range(20):
        splits = asked[rng.integers(0, len(asked), 2**depth - 1)]
        tree = type(some_tree(features, 2, 0))(splits, np.zeros(2**depth, int), cover._public)
        leaf = tree.apply(codes.T)
        np.testing.assert_array_equal(bin_splits.apply_tree(splits, codes), leaf)
        cells = cells_of(features, codes, y)
        np.testing.assert_array_equal(cells.leaf_indexer(splits)(slice(None)), leaf)


def test_refined_splits_give_the_same_leaves():
    coarse, fine = grid(5, 4), grid(5, 4)
    moved = tuple(
        ColumnBins(
            f.column, np.unique(np.r_[f.cuts, f.cuts + 0.25]), 2 * f.size - 2, f.bin_of_category
        )
        for f in fine.columns
    )
    X = np.random.default_rng(0).uniform(-1, 5, (200, 2))
    X[:20, 1] = np.nan
    rows = FineBinnedRows.from_encoded(Binner(moved), [(X, np.zeros(200))], 200, np.uint8)
    cells = module.BinnedData(coarse, rows, rows)
    codes = coarse.encoded_codes(X)
    np.testing.assert_array_equal(cells.codes(slice(None)), codes)
    tree = some_tree(coarse, 2, 1)
    np.testing.assert_array_equal(cells.leaf_indexer(tree.splits)(slice(None)), tree.apply(codes.T))
