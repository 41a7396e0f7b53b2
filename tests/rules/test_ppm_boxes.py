"""Axis-aligned boxes on mixtures: the family, its approximation, and the bound."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from skpublicdp import PPMHalfspaceClassifier
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import growth_function, n_ppm_boxes
from tests.helpers import allowed_failures, public_sample
from tests.internals.guarantees import MAX_AXIS_HALFSPACES
from tests.internals.hypotheses import (
    AxisBoxCover,
    axis_pool,
    build_axis_boxes,
    increasing_subsets,
    max_pool_size,
    tabulate,
    unrank,
)

pytestmark = pytest.mark.once

few_rows = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
BOXES = PPMHalfspaceClassifier(private_label=1, pool="axes", random_state=0)


def box_mixture(rng, n, d, *, private_inside, public_share=0.5, noise=0.0, status_error=0.0):
    """Rows of a box with two faces and rows off it; label 1 is private."""
    y = (rng.random(n) >= public_share).astype(int)
    X = rng.random(size=(n, d))
    # the box is x0 < 1/2 and x_last > 1/2; a row off it violates one condition or both
    inside = (y == 1) == private_inside
    first = np.where(rng.random(n) < 0.5, 0, d - 1)
    X[:, 0] = np.where(inside | (first != 0), X[:, 0] / 2, (1 + X[:, 0]) / 2)
    last = np.where(inside | (first != d - 1), (1 + X[:, -1]) / 2, X[:, -1] / 2)
    X[:, -1] = last
    y = np.where(rng.random(n) < noise, 1 - y, y)
    return X, y, (y == 0) & (rng.random(n) >= status_error)


class TestFamily:
    @pytest.mark.parametrize("max_faces", [1, 2, 3, 4])
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=5)
    def test_the_table_determines_the_errors_of_every_member(self, max_faces, seed):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 4, size=(6, 2)).astype(float)
        cover = AxisBoxCover(axis_pool(points, 3), max_faces, public_sample(points))
        X = np.concatenate([points, rng.integers(-2, 12, size=(25, 2)) / 2])
        y, weights = rng.integers(2, size=len(X)), rng.integers(0, 5, size=len(X))
        errors = cover.family(tabulate(cover, X, y, weights)).errors
        assert len(errors) == cover.size <= 2 * growth_function(len(cover.pool), max_faces)
        for path in range(0, cover.size, 1 + cover.size // 200):
            rule = cover.hypothesis(path)
            assert errors[path] == weights[rule.predict(X) != y].sum()
            assert len(rule.offsets) <= max_faces

    def test_members_are_boxes_with_either_label_inside(self):
        points = np.array([[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]])
        cover = AxisBoxCover(axis_pool(points, 3), 2, public_sample(points, ("no", "yes")))
        rules = [cover.hypothesis(path).rule() for path in range(cover.size)]
        assert rules[:2] == ["predict yes", "predict no"]
        closed = "if x0 >= 1\n   and x1 <= 6 (≈):\n    predict no\nelse:\n    predict yes"
        opened = "if x0 < 1\n   and x1 > 6 (≈):\n    predict yes\nelse:\n    predict no"
        assert {closed, opened} <= set(rules)
        X = np.array([[1.0, 6.0], [0.0, 7.0], [1.0, 7.0], [0.0, 6.0]])
        assert cover.hypothesis(rules.index(closed)).predict(X).tolist() == [0, 1, 1, 1]
        assert cover.hypothesis(rules.index(opened)).predict(X).tolist() == [0, 1, 0, 0]

    @pytest.mark.parametrize(("n", "size"), [(1, 1), (5, 1), (6, 2), (7, 3), (6, 5), (3, 4)])
    def test_subsets_are_in_the_order_of_their_indices(self, n, size):
        subsets = increasing_subsets(n, size)
        assert [*map(tuple, subsets.T)] == [*itertools.combinations(range(n), size)]
        for index in range(subsets.shape[1]):
            assert unrank(index, n, size).tolist() == subsets[:, index].tolist()

    @given(values=st.lists(st.integers(0, 6), min_size=1, max_size=30), n_cuts=st.integers(2, 9))
    def test_rows_between_values_of_the_pool(self, values, n_cuts):
        X = np.array(values, dtype=float)[:, None]
        pool = axis_pool(X, n_cuts)
        cuts = np.unique(np.abs(pool.halfspaces.offsets))
        assert set(pool.halfspaces.offsets) == {*cuts, *-cuts}
        assert {cuts[0], cuts[-1]} == {X.min(), X.max()}
        between = [((a < X) & (b > X)).sum() for a, b in itertools.pairwise(cuts)]
        assert pool.missed == max(between, default=0)
        assert pool.missed <= (len(X) - 1) / (n_cuts - 1)


class TestApproximation:
    """Some member errs no more than any box, but for the rows between values of the pool."""

    @pytest.mark.parametrize(("d", "max_faces"), [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2)])
    @given(
        seed=st.integers(0, 10**6),
        n_public=st.integers(1, 8),
        n_private=st.integers(1, 14),
        n_cuts=st.sampled_from([2, 3, 99]),
        has_odd_rows=st.booleans(),
    )
    @settings(max_examples=25)
    def test_by_all_boxes_on_a_grid(
        self, d, max_faces, seed, n_public, n_private, n_cuts, has_odd_rows
    ):
        rng = np.random.default_rng(seed)
        size = 3
        public = rng.integers(0, size, size=(n_public, d)).astype(float)
        if seed % 3 == 0:
            public[:, -1] = public[:, 0]
        X = np.concatenate([public, rng.integers(0, 2 * size, size=(n_private, d)) / 2])
        is_private = np.arange(len(X)) >= n_public
        y = rng.integers(2, size=len(X))
        if not has_odd_rows:
            y[is_private] = 1
        odd = is_private & (y == 0)  # private rows with the public label
        # conditions of all faces, at and between the values of the grid
        conditions = []
        for column, threshold in itertools.product(range(d), np.arange(-1, 2 * size + 2) / 4 * 2):
            x = X[:, column]
            conditions += [x >= threshold, x <= threshold, x > threshold, x < threshold]
        conditions = np.unique(conditions, axis=0)
        best = len(X)
        for n_faces in range(max_faces + 1):
            for faces in itertools.combinations(conditions, n_faces):
                inside = np.all(faces, axis=0) if faces else np.ones(len(X), dtype=bool)
                for predicted in (inside, ~inside):  # code 1 is the private label
                    best = min(best, ((predicted != y) | odd).sum())
        pool = axis_pool(public, n_cuts)
        cover = AxisBoxCover(pool, max_faces, public_sample(public))
        errors = cover.family(tabulate(cover, X, y)).errors.min()
        assert errors <= best + max_faces * pool.missed
        assert n_cuts < 99 or pool.missed == 0


@few_rows
class TestFit:
    @pytest.mark.parametrize("private_inside", [True, False])
    def test_it_finds_the_box_in_ten_columns(self, private_inside):
        rng = np.random.default_rng(1)
        X, y, _ = box_mixture(rng, 6000, 10, private_inside=private_inside)
        clf = clone(BOXES).fit(X, y)
        X, y, _ = box_mixture(rng, 6000, 10, private_inside=private_inside)
        assert (clf.predict(X) == y).mean() > 0.97
        normals, offsets = clf.halfspaces_
        inside = (offsets <= X @ normals.T).all(axis=1)
        np.testing.assert_array_equal(clf.predict(X) == private_inside, inside)
        assert clf.cover_size_ == 1 + 820 + 820 * 819 + 1

    def test_the_bound_adds_up_and_is_of_public_numbers(self):
        X, y, _ = box_mixture(np.random.default_rng(0), 3000, 4, private_inside=True)
        clf = clone(BOXES).fit(X, y)
        other = clone(BOXES).fit(np.where(y[:, None] == 1, X[::-1], X), y)
        assert (clf.guarantee_, clf.guarantee_reason_) == (
            other.guarantee_,
            other.guarantee_reason_,
        )
        n, share = len(y), 0.05 / 3
        missed = 2 * axis_pool(X[y == 0], 41).missed / n
        draw = 2 * math.log(clf.cover_size_ / share) / n
        rules = 2 * growth_function(2 * 4 * n, 2)
        sampling = 2 / n + math.sqrt(math.log(rules / share) / (2 * (n - 2)))
        best = math.sqrt(math.log(1 / share) / (2 * n))
        assert clf.guarantee_ == pytest.approx(missed + draw + sampling + best)
        assert "over the best box of 2 faces" in clf.guarantee_reason_
        assert missed <= 0.05 * (y == 0).mean()
        nearly = clone(BOXES).set_params(status_error=0.1).fit(X, y)
        assert nearly.guarantee_ == pytest.approx(clf.guarantee_ + 0.1)

    def test_settings(self):
        X, y, mask = box_mixture(np.random.default_rng(0), 2000, 3, private_inside=True)
        fine = clone(BOXES).set_params(alpha=0.02).fit(X, y)
        assert fine.cover_size_ > clone(BOXES).fit(X, y).cover_size_
        assert clone(BOXES).set_params(class_weight="balanced").fit(X, y).guarantee_ is None
        counted = clone(BOXES).set_params(evaluation_share=0.2).fit(X, y, is_public=mask)
        assert "held-out rows" in counted.guarantee_reason_
        one = clone(BOXES).set_params(max_intersections=1).fit(X, y)
        assert len(one.halfspaces_[0]) <= 1
        interval = clone(BOXES).fit(X[:, :1], y)
        assert interval.cover_size_ == 1 + 82 + 82 * 81 + 1

    def test_too_many_columns_are_refused(self):
        X, y, _ = box_mixture(np.random.default_rng(0), 100, 12, private_inside=True)
        model = clone(BOXES).set_params(max_halfspaces=40)
        with pytest.raises(CoverSizeError, match="axis-aligned"):
            model.fit(X, y)
        cover = build_axis_boxes(public_sample(X), 2, 48, 0.05)
        assert len(cover.pool) == 48


class TestSizes:
    def test_the_pool_is_the_shipped_one(self):
        assert {k: min(1400, max_pool_size(k)) for k in range(1, 6)} == MAX_AXIS_HALFSPACES

    def test_more_rows_for_a_smaller_alpha_and_more_faces(self):
        sizes = [n_ppm_boxes(alpha, 0.05, 1.0, 10, public_share=0.1) for alpha in (0.2, 0.1, 0.05)]
        assert sizes == sorted(sizes)
        faces = [n_ppm_boxes(0.2, 0.05, 1.0, 4, faces=k, public_share=0.1) for k in (1, 2, 3)]
        assert faces == sorted(faces)

    def test_what_no_number_of_rows_reaches(self):
        with pytest.raises(ValueError, match="2 faces"):
            n_ppm_boxes(0.1, 0.05, 1.0, 500)
        with pytest.raises(ValueError, match=r"faces .* got 6"):
            n_ppm_boxes(0.1, 0.05, 1.0, 5, faces=6)

    @pytest.mark.parametrize(("d", "faces", "share"), [(10, 2, 0.5), (3, 1, 1.0), (2, 3, 0.4)])
    def test_a_fit_at_this_size_promises_alpha(self, d, faces, share):
        alpha = 0.2
        n = n_ppm_boxes(alpha, 0.05, 1.0, d, faces=faces, public_share=share)
        X, y, _ = box_mixture(np.random.default_rng(0), n, d, private_inside=True)
        y = (np.arange(n) >= int(share * n)).astype(int)
        model = clone(BOXES).set_params(max_intersections=faces)
        assert 0.15 < model.fit(X, y).guarantee_ <= alpha


def n_violations(trials, n, d, beta, noise, status_error, alpha=None):
    """Count how often the excess error over the best box exceeds the bound."""
    failures = 0
    for seed in range(trials):
        kind = {"private_inside": seed % 2 == 0, "noise": noise, "public_share": 0.4}
        rng = np.random.default_rng(seed)
        X, y, mask = box_mixture(rng, n, d, status_error=status_error, **kind)
        eta = 0.4 * status_error + noise
        model = clone(BOXES).set_params(beta=beta, random_state=seed, status_error=eta)
        clf = model.fit(X, y, is_public=mask)
        X, y, _ = box_mixture(rng, 40_000, d, status_error=status_error, **kind)
        allowed = clf.guarantee_ if alpha is None else alpha
        assert allowed < 1
        failures += (clf.predict(X) != y).mean() - noise > allowed
    return failures


@few_rows
class TestFrequencies:
    def test_the_bound(self):
        """A smoke test, which sees gross errors only."""
        for noise, status_error in [(0.0, 0.0), (0.05, 0.2)]:
            failures = n_violations(12, 1500, 5, 0.2, noise, status_error)
            assert failures <= allowed_failures(12, 0.2)

    @pytest.mark.slow
    @pytest.mark.parametrize(("d", "noise", "status_error"), [(10, 0.0, 0.0), (10, 0.1, 0.2)])
    def test_the_bound_often(self, d, noise, status_error):
        """A smoke test, which sees gross errors only."""
        failures = n_violations(60, 4000, d, 0.2, noise, status_error)
        assert failures <= allowed_failures(60, 0.2)

    @pytest.mark.slow
    @pytest.mark.parametrize("noise", [0.0, 0.1])
    def test_the_size(self, noise):
        """A smoke test, which sees gross errors only."""
        n = n_ppm_boxes(0.1, 0.1, 1.0, 10, public_share=0.5)
        failures = n_violations(40, n, 10, 0.1, noise, 0.0, alpha=0.1)
        assert failures <= allowed_failures(40, 0.1)
