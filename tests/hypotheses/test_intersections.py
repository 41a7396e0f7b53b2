"""Intersections of halfspaces: the family against the paper's, by exact integer geometry."""

import itertools
from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.hypotheses import HalfspaceIntersections, Halfspaces
from tests.helpers import public_sample
from tests.internals.hypotheses import (
    PERTURBATIONS,
    AffineHull,
    HalfspaceSet,
    all_supported_halfspaces,
    contingency_table,
    halfspaces_near,
    max_pool_size,
    tabulate,
    unrank,
)

LINE = np.arange(4)[:, None]
SHAPES = {
    "one": [(3, 1, 2)],
    "duplicated": [(3, 1, 2)] * 3,
    "two": [(0, 1, 2), (0, 3, 2)],
    "line along an axis": LINE * [0, 1, 0],
    "line along no axis": LINE * [1, 2, -1] + [3, 0, 1],
    "triangle and its middle": [(0, 0, 0), (4, 0, 0), (0, 4, 0), (2, 2, 0), (1, 1, 0)],
    "tilted plane": [(0, 0, 0), (1, 0, 1), (2, 0, 2), (0, 1, 2), (1, 1, 3), (2, 1, 4)],
    "simplex": [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)],
    "cube": list(itertools.product((0, 1), repeat=3)),
    "moment curve": [(t, t * t, t**3) for t in range(5)],
}
CASES = [
    pytest.param(np.unique(np.array(points)[:, :d], axis=0), id=f"{name}, d={d}")
    for name, points in SHAPES.items()
    for d in (1, 2, 3)
] + [
    pytest.param(
        np.unique(np.random.default_rng(seed).integers(0, size, size=(6, d)), axis=0),
        id=f"grid of {size}, d={d}, {seed}",
    )
    for d in (1, 2, 3)
    for size in (3, 9)
    for seed in range(2)
]
every_dimension = pytest.mark.parametrize("d", [1, 2, 3])


def make_cover(X, max_intersections=2, pool="paper", classes=(0, 1), **settings):
    hypotheses = HalfspaceIntersections(max_intersections, pool, **settings)
    return hypotheses.build_cover(public_sample(X, classes), alpha=0.05, beta=0.05)


def rank_of(points):
    if len(points) < 2:
        return len(points) - 1
    return int(np.linalg.matrix_rank(points[1:] - points[0]))


def sides(subset, X, points):
    """Exact sides of rows of the hull of `points`, of the hyperplane in it through a subset."""
    d = rank_of(points)
    if d > 1:  # drop axes until the hull is projected one to one
        axes = next(
            list(axes)
            for axes in itertools.combinations(range(points.shape[1]), d)
            if rank_of(points[:, axes]) == d
        )
    else:
        axes = [int(np.ptp(points, axis=0).argmax())]
    subset, X = subset[:, axes], X[:, axes]
    edges = subset[1:] - subset[0]
    return np.array([np.sign(round(np.linalg.det(np.vstack([edges, x - subset[0]])))) for x in X])


def spanned(points):
    """Points inside and on the border of each halfspace that d independent points span."""
    d = rank_of(points)
    found = set()
    for chosen in itertools.combinations(points, d):
        subset = np.array(chosen)
        if rank_of(subset) == d - 1:
            side = sides(subset, points, points)
            found |= {(tuple(side * sign >= 0), tuple(side == 0)) for sign in (1, -1)}
    return found


def within(points):
    """Integer rows in the affine hull of points."""
    grid = np.array(list(itertools.product(range(-1, 4), repeat=points.shape[1])))
    kept = [rank_of(np.vstack([points, row])) == rank_of(points) for row in grid]
    return np.concatenate([points, grid[kept]])


def listed(pool):
    """Halfspaces as tuples."""
    return [(*normal, offset) for normal, offset in zip(pool.normals, pool.offsets, strict=True)]


def members(cover):
    return [cover.hypothesis(path) for path in range(cover.size)]


def borders(pool, points):
    """Points inside each halfspace, and those also in its opposite, which must be unique."""
    inside = pool.contains(points.astype(float)).astype(bool)
    for index, normal in enumerate(pool.normals):
        (opposite,) = (
            other
            for other in np.flatnonzero((pool.normals == -normal).all(axis=1))
            if abs(pool.offsets[index] + pool.offsets[other]) < 1e-6
        )
        assert (inside[index] | inside[opposite]).all()
        yield tuple(inside[index]), tuple(inside[index] & inside[opposite])


@pytest.mark.parametrize("points", CASES)
def test_the_paper_pool_is_the_pool_of_algorithm_1(points):
    """A halfspace and its opposite for each subset of at most d points, no halfspace twice."""
    pool = make_cover(points).pool
    assert len({tuple(np.round(one, 9) + 0.0) for one in listed(pool)}) == len(pool)
    found = list(borders(pool, points))
    d = rank_of(points)
    full = Counter((inside, on) for inside, on in found if rank_of(points[np.array(on)]) == d - 1)
    assert full == Counter(spanned(points)) if d else not found
    for size in range(1, d + 1):
        for subset in itertools.combinations(range(len(points)), size):
            assert any(all(on[i] for i in subset) for _, on in found)
    assert all(any(on) for _, on in found)
    assert len(found) <= 2 * sum(comb(len(points), size) for size in range(1, d + 1))


@every_dimension
@pytest.mark.parametrize("m", [1, 2, 3, 4, 6])
def test_sizes_in_general_position(d, m):
    points = np.random.default_rng(m).normal(size=(m, d))
    rank = min(d, m - 1)
    n = 2 * sum(comb(m, size) for size in range(1, rank + 1))
    for most in (1, 2, 3):
        cover = make_cover(points, most)
        assert len(cover.pool) == n
        assert cover.size == 2 + sum(comb(n, size) for size in range(1, most + 1))
        assert type(cover.size) is int


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("points", CASES[::3])
def test_members_are_all_intersections_once(points, most):
    """Line 8 of Algorithm 2, the empty set and, as our own addition, the hull alone."""
    points = points[:5]
    cover = make_cover(points, most)
    flat = Counter(listed(AffineHull(points.astype(float)).halfspaces))
    empty, *rest = members(cover)
    rows = np.concatenate([points, np.random.default_rng(0).normal(size=(9, points.shape[1]))])
    assert empty.predict(rows.astype(float)).tolist() == [1] * len(rows)
    found = Counter()
    for rule in rest:
        chosen = Counter(zip(map(tuple, rule.normals), rule.offsets, strict=True))
        chosen.subtract({(one[:-1], one[-1]): n for one, n in flat.items()})
        assert min(chosen.values(), default=0) >= 0
        found[frozenset((*normal, offset) for normal, offset in chosen.elements())] += 1
    expected = (
        frozenset(chosen)
        for size in range(min(most, len(cover.pool)) + 1)
        for chosen in itertools.combinations(listed(cover.pool), size)
    )
    assert found == Counter(expected)


@pytest.mark.parametrize("points", CASES)
def test_the_hull_is_the_affine_hull(points):
    """Rows of the hull are inside despite rounding, other rows are not."""
    rule = make_cover(points).hypothesis(1)
    assert (rule.predict(within(points).astype(float)) == 0).all()
    rng = np.random.default_rng(0)
    shares = rng.normal(size=(50, len(points)))
    combined = shares @ points / shares.sum(axis=1, keepdims=True)
    near = combined[(np.abs(combined) < 9).all(axis=1)]
    assert (rule.predict(near) == 0).all()
    if rank_of(points) < points.shape[1]:
        assert (rule.predict(rng.normal(size=(50, points.shape[1]))) == 1).all()


@pytest.mark.parametrize("seed", range(20))
def test_public_points_are_in_their_hull(seed):
    """Coefficients that are rounding must not push points off, where a feature is zero for all."""
    rng = np.random.default_rng(seed)
    line = rng.integers(-3, 4, size=(4, 1)) * [0, *rng.integers(-3, 4, size=2)]
    for points in (
        line + np.array([0.0, 2.0, 1.0]),
        line @ rng.normal(size=(3, 3)),
        line * 1e9 + 0.1,
    ):
        assert (make_cover(points).hypothesis(1).predict(points) == 0).all()


def test_compositional_rows_are_in_their_hull():
    """Sums that differ from 1 by rounding alone: few public rows must not decide which."""
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], size=2000)
    for scale in (1e-6, 1.0, 1e9):
        rule = make_cover(scale * shares[:4]).hypothesis(1)
        assert (rule.predict(scale * shares) == 0).all()
        assert (rule.predict(scale * (shares + 1e-6)) == 1).all()


@pytest.mark.parametrize("shift", [0.0, 1e6, 1e12])
def test_halfspaces_far_from_the_origin_stay_distinct(shift):
    points = np.random.default_rng(0).integers(0, 500, size=(6, 2))
    near = make_cover(points).pool.contains(points.astype(float))
    far = make_cover(points + shift).pool.contains(points + shift)
    assert Counter(map(tuple, near)) == Counter(map(tuple, far))


@given(n=st.integers(1, 9), size=st.integers(0, 3))
def test_unrank_lists_subsets_in_order(n, size):
    expected = list(itertools.combinations(range(n), size))
    assert [tuple(unrank(index, n, size)) for index in range(len(expected))] == expected


def best_halfspace(X, y):
    """The least number of errors of any halfspace, closed or open, either side up."""
    cover = Halfspaces("exact").build_cover(public_sample(X), alpha=0.05, beta=0.05)
    return cover.family(tabulate(cover, X, y)).errors.min()


def best_member(cover, X, y):
    return cover.family(tabulate(cover, X, y)).errors.min()


@every_dimension
@given(
    seed=st.integers(0, 10**6),
    n_public=st.integers(0, 6),
    n_private=st.integers(1, 14),
    size=st.integers(2, 6),
    noise=st.sampled_from([0.0, 0.2]),
    flat=st.booleans(),
    mixed=st.booleans(),
)
@settings(max_examples=60)
def test_some_member_is_as_good_as_the_best_halfspace(
    d, seed, n_public, n_private, size, noise, flat, mixed
):
    """Corollary 4.4, on grids: private rows lie on public hyperplanes and points."""
    rng = np.random.default_rng(seed)
    public = rng.integers(0, size, size=(n_public, d)).astype(float)
    private = rng.integers(0, size, size=(n_private, d)).astype(float)
    normal = rng.normal(size=d)
    if not noise:  # realizable
        above = [rows @ normal > np.median(private @ normal) for rows in (public, private)]
        public, private = public[~above[0]], private[above[1]]
    if flat and len(public):
        public = public[0] + rng.integers(-2, 3, size=(len(public), 1)) * rng.integers(-1, 2, d)
    X = np.concatenate([public, private])
    # private rows have label 1; under the second relaxation some of the public ones have, too
    labels = rng.integers(2, size=len(public)) if mixed else np.zeros(len(public), dtype=int)
    y = np.concatenate([labels, np.ones(len(private), dtype=int)])
    if not len(X):
        return
    cover = make_cover(public, max_intersections=d)
    assert best_member(cover, X, y) <= best_halfspace(X, y)


def test_one_intersection_fewer_is_not_enough():
    """The theorem needs d of them: a corner between private rows takes two halfspaces."""
    public = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    private = np.array([[5.0, -4.0], [-4.0, 5.0], [3.0, 3.0], [0.5, 0.5], [1.0, 1.0], [9.0, 0.5]])
    X, y = np.concatenate([public, private]), np.repeat([0, 1], [3, 6])
    errors = [best_member(make_cover(public, most), X, y) for most in (1, 2, 3)]
    assert errors[0] > errors[1] >= errors[2]


def grid_rows(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 6, size=(n, d)).astype(float)
    return X, rng.integers(2, size=n), rng.integers(0, 5, size=n)


@every_dimension
@pytest.mark.parametrize("pool", ["paper", "auto", "spread"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=5)
def test_the_table_determines_the_errors_of_every_member(d, pool, seed):
    """Membership does not depend on other rows, memory order or dtype."""
    points = np.random.default_rng(seed).integers(0, 4, size=(7 - d, d)).astype(float)
    if pool == "spread":
        points, d = np.hstack([points, points[:, ::-1] ** 2, points - 1, points]), 4 * d
    settings = {} if pool == "paper" else {"max_halfspaces": 12}
    cover = make_cover(points, 2, "paper" if pool == "paper" else "auto", **settings)
    X, y, weights = grid_rows(seed, 30, d)
    X[:3] = points[:1]
    family = cover.family(cover.tabulate(X, y, weights))
    assert family.size == cover.size
    for path in range(0, cover.size, 1 + cover.size // 100):
        rule = cover.hypothesis(path)
        predicted = rule.predict(X)
        assert family.errors[path] == weights[predicted != y].sum()
        np.testing.assert_array_equal(predicted, rule.predict(np.asfortranarray(X)))
        np.testing.assert_array_equal(predicted[::-1], rule.predict(X[::-1]))
        alone = [rule.predict(X[i : i + 1])[0] for i in range(0, 30, 7)]
        np.testing.assert_array_equal(predicted[::7], alone)


def test_table_and_rule_agree_on_huge_rows():
    huge = np.array([[1e308, -1e308], [-1e308, 1e308], [1.7e308, 1.7e308], [-1e308, -1e308]])
    y = np.array([0, 1, 1, 0])
    cover = make_cover(np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 3.0], [0.5, 0.1]]), 2)
    errors = cover.family(tabulate(cover, huge, y)).errors
    assert [(rule.predict(huge) != y).sum() for rule in members(cover)] == errors.tolist()


@pytest.mark.parametrize("weight", [1, 1 << 10, (1 << 10) + 1, 1 << 20, (1 << 40) + 1])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_large_weights_stay_exact(weight, order):
    """At 2^10 a block of rows still adds up below 2^24, where float32 is exact."""
    rng = np.random.default_rng(0)
    n = 17_000 if order < 3 else 500
    met = rng.integers(2, size=(3, n)).astype(np.float32)
    met[0] = 1
    X, y = np.arange(n, dtype=float)[:, None], np.zeros(n, dtype=np.intp)

    def indicators(rows, out):
        out[:] = met[:, rows[:, 0].astype(int)]

    weights = np.full(n, weight)
    weights[0] -= 1  # an odd sum, which rounding would show
    table = contingency_table(indicators, 3, X, y, weights, 1, order)
    inside = np.vstack([np.ones(n, dtype=np.int64), met.astype(np.int64)])
    for index in itertools.product(range(4), repeat=order):
        rows = inside[list(index)].all(axis=0)
        assert table[(0, *index)] == weights[rows].sum()


@every_dimension
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("most", [20, 101])
def test_a_random_pool_is_a_subset_of_the_papers(d, rank, most):
    """Each halfspace is supported by d points, its opposite is there, and a seed decides."""
    rng = np.random.default_rng(0)
    rank = min(rank, d)
    points = rng.integers(0, 30, size=(60, rank)) @ np.eye(rank, d, dtype=int)
    points = np.concatenate([points, points[:9]])  # some of them more often
    cover = make_cover(points, pool="auto", max_halfspaces=most)
    pool = cover.pool
    assert 2 <= len(pool) <= most
    for again in (points, points[::-1]):
        same = make_cover(again, pool="auto", max_halfspaces=most).pool
        assert listed(same) == listed(pool)
    distinct = np.unique(points, axis=0)
    for _, on in borders(pool, distinct):
        assert sum(on) >= rank
    assert len(set(listed(pool))) == len(pool)


class TestAlpha:
    """Some halfspace of the pool disagrees with any other on at most about a share `alpha`."""

    @staticmethod
    def pool(points, alpha, **settings):
        family = HalfspaceIntersections(**settings)
        return family.build_cover(public_sample(points), alpha=alpha, beta=0.05).pool

    @pytest.mark.parametrize("alpha", [0.5, 0.2, 0.07, 0.05])
    @pytest.mark.parametrize("ties", [1, 4, 60])
    @pytest.mark.parametrize("d", [1, 2])
    def test_the_radius_is_exact_on_a_line(self, alpha, ties, d):
        column = np.random.default_rng(0).lognormal(size=600).round(2)
        column = np.sort(column)[np.arange(600) // ties * ties]
        points = np.column_stack([column] * d)
        inside = self.pool(points, alpha).contains(points) == 1
        inside = np.vstack([inside, np.zeros(600, dtype=bool)])  # every cover has the empty set
        for value in np.unique(column):
            for wanted in (column >= value, column > value, column <= value, column < value):
                assert (inside != wanted).mean(axis=1).min() <= alpha

    @pytest.mark.parametrize("alpha", [0.5, 0.3, 0.2, 0.1])
    @pytest.mark.parametrize("d", [2, 3, 5])
    def test_the_radius_holds_for_nearly_every_halfspace_elsewhere(self, alpha, d):
        rng = np.random.default_rng(1)
        points = rng.normal(size=(600, d)) @ rng.normal(size=(d, d))
        inside = self.pool(points, alpha, max_halfspaces=5000).contains(points) == 1
        shares = []
        for normal in rng.normal(size=(150, d)):
            projected = points @ normal
            wanted = projected >= np.quantile(projected, rng.uniform(0.01, 0.99))
            shares.append((inside != wanted).mean(axis=1).min())
        assert np.quantile(shares, 0.9) <= alpha

    @pytest.mark.parametrize("d", [1, 2, 3, 5])
    def test_a_smaller_alpha_gives_a_larger_pool_up_to_the_cap(self, d):
        points = np.random.default_rng(0).normal(size=(400, d))
        sizes = [len(self.pool(points, alpha, max_halfspaces=900)) for alpha in (0.6, 0.3, 0.05)]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1] <= 900

    @pytest.mark.parametrize("d", [2, 3, 5])
    def test_the_default_is_the_cap(self, d):
        points = np.random.default_rng(0).normal(size=(400, d))
        pools = [self.pool(points, alpha) for alpha in (0.05, 0.01)]
        assert 1300 < len(pools[0]) <= 1400
        assert len(pools[0]) == len(pools[1])

    def test_the_papers_pool_ignores_alpha(self):
        points = np.random.default_rng(0).normal(size=(12, 2))
        settings = {"pool": "paper", "max_intersections": 2}
        pools = [self.pool(points, alpha, **settings) for alpha in (0.9, 0.01)]
        assert listed(pools[0]) == listed(pools[1])
        assert len(pools[0]) == 2 * (12 + 66)


def test_few_points_give_the_papers_pool_itself():
    points = np.random.default_rng(0).normal(size=(8, 2))
    assert listed(make_cover(points, pool="auto").pool) == listed(make_cover(points).pool)


def test_random_halfspaces_are_standardised_and_have_opposites():
    X = np.random.default_rng(0).normal(size=(300, 5)) * [1, 10, 100, 1, 0] + [0, 0, 0, 1e6, 3]
    pool = make_cover(X, pool="auto", max_halfspaces=200).pool
    assert 150 < len(pool) <= 200
    np.testing.assert_array_equal(np.abs(pool.normals).max(axis=1), 1)
    assert not pool.normals[:, 4].any()  # a feature that is constant among public rows
    half = len(pool) // 2
    np.testing.assert_array_equal(pool.normals[half:], -pool.normals[:half])
    np.testing.assert_array_equal(pool.offsets[half:], -pool.offsets[:half])
    units = make_cover(X * 8.0, pool="auto", max_halfspaces=200).pool
    np.testing.assert_allclose(units.normals, pool.normals, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(units.offsets, 8 * pool.offsets, rtol=1e-9)


@pytest.mark.parametrize("m", [1, 2, 50])
@pytest.mark.parametrize("most", [2, 3, 9])
def test_small_random_pools(m, most):
    cover = make_cover(
        np.random.default_rng(0).normal(size=(m, 5)), pool="auto", max_halfspaces=most
    )
    assert len(cover.pool) <= most
    assert cover.size == cover.family(tabulate(cover, np.zeros((1, 5)), [0])).size


class TestRefinement:
    PUBLIC = np.random.default_rng(0).normal(size=(200, 3)) * [1, 10, 100] + [0, 5, 1e4]
    SIDES = HalfspaceSet(np.array([[1.0, 0.1, 0.0], [-0.5, 0.0, 1.0]]), np.array([0.5, 1e4]))

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_halfspaces_are_near_and_each_step_halves_the_distances(self, step):
        mean, scale = self.PUBLIC.mean(axis=0), self.PUBLIC.std(axis=0)
        pool = halfspaces_near(self.SIDES, self.PUBLIC, 400, step)
        assert len(pool) == 400
        assert listed(pool[np.arange(2)]) == listed(self.SIDES)
        np.testing.assert_array_equal(np.abs(pool.normals[2:]).max(axis=1), 1)
        normals = pool.normals * scale
        lengths = np.linalg.norm(normals, axis=1)
        offsets = (pool.offsets - pool.normals @ mean) / lengths
        normals /= lengths[:, None]
        reach = np.array(PERTURBATIONS) / 2 ** (step - 1)
        norms = np.linalg.norm((self.PUBLIC - mean) / scale, axis=1).max()
        for side in (0, 1):
            around = np.arange(2 + side, 400, 2)
            # a move of length r turns by arcsin(r) at most, and mostly by more than a third of it
            sines = np.linalg.norm(np.cross(normals[around], normals[side]), axis=1)
            allowed = np.resize(reach, len(around))
            assert (sines <= allowed / np.sqrt(1 - allowed**2)).all()
            assert np.quantile(sines / allowed, 0.2) > 1 / 3
            # what is turned about a point this far away moves no farther than that at the mean
            moved = np.abs(offsets[around] - offsets[side])
            assert (moved <= allowed * (2 * norms + 2)).all()
            assert np.median(moved / allowed) > 0.1

    def test_hyperplanes_are_shifted_and_rotated(self):
        sides = HalfspaceSet(np.ones((1, 1)), np.array([0.25]))
        pool = halfspaces_near(sides, self.PUBLIC[:, :1], 50, 1)  # a point cannot be turned
        assert (pool.normals == 1).all()
        assert len(set(pool.offsets)) == 50
        assert (np.abs(pool.offsets - 0.25) < 2).all()

    def test_the_order_of_public_rows_does_not_matter(self):
        there, back = (
            halfspaces_near(self.SIDES, X, 50, 1) for X in (self.PUBLIC, self.PUBLIC[::-1])
        )
        assert listed(there) == listed(back)

    def test_constant_features_get_no_weight(self):
        X = np.column_stack([self.PUBLIC, np.full(200, 3.0)])
        sides = HalfspaceSet(np.column_stack([self.SIDES.normals, np.zeros(2)]), self.SIDES.offsets)
        pool = halfspaces_near(sides, X, 50, 1)
        assert not pool.normals[:, 3].any()
        assert np.isfinite(pool.normals).all()
        assert np.isfinite(pool.offsets).all()

    @pytest.mark.parametrize("d", [1, 2, 3, 5])
    def test_refined_covers_contain_the_released_halfspaces_and_are_valid(self, d):
        rng = np.random.default_rng(d)
        cover = make_cover(rng.normal(size=(60, d)), pool="auto", max_halfspaces=40)
        X, y = rng.normal(size=(80, d)), rng.integers(2, size=80)
        finer = cover
        for step in (1, 2):
            released = finer.hypothesis(finer.size - 7)
            finer = finer.refine(released, step)
            assert len(finer.pool) == 40
            rules = list(members(finer))
            predicted = np.array([rule.predict(X) for rule in rules])
            assert (predicted == released.predict(X)).all(axis=1).any()
            errors = finer.family(tabulate(finer, X, y)).errors
            assert errors.tolist() == (predicted != y).sum(axis=1).tolist()
        again = cover.refine(cover.hypothesis(cover.size - 7), 1)
        assert listed(again.pool) == listed(cover.refine(cover.hypothesis(cover.size - 7), 1).pool)

    def test_the_affine_hull_is_part_of_every_member_and_never_refined(self):
        line = np.arange(60)[:, None] * [1.0, 2.0]
        cover = make_cover(line, 1, pool="auto", max_halfspaces=20)
        released = cover.hypothesis(cover.size - 3)
        assert len(released.offsets) > len(released.sides) == 1
        finer = cover.refine(released, 1)
        assert listed(finer.pool[:1]) == listed(released.sides)
        rows = np.concatenate([line, line + 1.0])  # beside it all get the second label
        assert all(rule.predict(rows)[60:].all() for rule in members(finer))
        assert cover.refine(cover.hypothesis(1), 1) is cover  # the affine hull

    def test_a_sample_of_the_pool_remains_if_a_polytope_has_one_side(self):
        rng = np.random.default_rng(0)
        cover = make_cover(rng.normal(size=(90, 2)), pool="auto", max_halfspaces=60)
        one, two = cover.hypothesis(9), cover.hypothesis(cover.size - 1)
        assert (len(one.sides), len(two.sides)) == (1, 2)
        kept = [set(listed(cover.refine(h, 1).pool)) & set(listed(cover.pool)) for h in (one, two)]
        assert 30 <= len(kept[0]) <= 31
        assert kept[1] == set(listed(two.sides))

    def test_covers_that_cannot_be_refined(self):
        X = np.random.default_rng(0).normal(size=(90, 2))
        drawn = make_cover(X, pool="auto", max_halfspaces=60)
        whole = make_cover(X[:9], pool="auto")
        spread = make_cover(np.column_stack([X, X * X]), pool="auto", max_halfspaces=60)
        assert (drawn.rounds, spread.rounds) == ("auto", "auto")
        assert (whole.rounds, make_cover(X[:9]).rounds) == (1, 1)
        for cover, path in [(drawn, 0), (drawn, 1), (whole, 9)]:
            assert cover.refine(cover.hypothesis(path), 1) is cover
        line = Halfspaces().build_cover(public_sample(X[:9]), alpha=0.5, beta=0.05)
        assert drawn.refine(line.hypothesis(9), 1) is drawn
        # in a union, what another member drew may have too many sides; triples take too long
        singles = make_cover(X, 1, pool="auto", max_halfspaces=60)
        assert singles.refine(drawn.hypothesis(drawn.size - 1), 1) is singles
        assert make_cover(X, 3, pool="auto", max_halfspaces=60).rounds == 1


def test_no_public_points_leave_the_empty_set():
    cover = make_cover(np.empty((0, 3)), classes=("no", "yes"))
    assert [str(rule) for rule in members(cover)] == ["predict yes"]
    assert cover.family(tabulate(cover, np.zeros((3, 3)), [0, 0, 1])).errors.tolist() == [2]


def test_too_many_halfspaces_are_refused_with_their_number_and_a_remedy():
    X = np.random.default_rng(0).normal(size=(400, 3))
    for d, most in ((2, 2), (3, 1), (3, 3)):
        with pytest.raises(
            CoverSizeError, match=rf'400 distinct.* {d} dim.*halfspaces.*=3?{most}?.*fewer.*"auto"'
        ):
            make_cover(X[:, :d], most if d == 2 or most == 3 else 2)
    assert make_cover(X, 3, "auto", max_halfspaces=30).size == 2 + 30 + comb(30, 2) + comb(30, 3)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_largest_pool_fits(most):
    size = max_pool_size(most)
    assert comb(size, most) <= 1 << 24
    assert 16 * (size + 2) ** most <= 1 << 30
    assert size >= 400


@pytest.mark.parametrize(
    ("arguments", "classes", "message"),
    [
        ({}, (0, 1, 2), "y has 3"),
        ({"max_intersections": 0}, (0, 1), "max_intersections must"),
        ({"max_intersections": True}, (0, 1), "got True"),
        ({"max_halfspaces": 1}, (0, 1), "max_halfspaces must"),
        ({"max_halfspaces": 9.0}, (0, 1), "max_halfspaces must"),
        ({"pool": "all"}, (0, 1), "pool must"),
    ],
)
def test_invalid_settings_are_explained(arguments, classes, message):
    with pytest.raises(ValueError, match=message):
        make_cover(np.ones((3, 2)), classes=classes, **arguments)


def test_rules_read_well():
    X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    rules = [str(rule) for rule in members(make_cover(X, 2, classes=("ill", "well")))]
    assert rules[:2] == ["predict well", "predict ill"]
    assert len(set(rules)) == len(rules)
    axis = [rule for rule in rules if rule.startswith("if x0 >= 0 (≈):\n    predict ill\nelse:")]
    assert len(axis) == 1
    assert sum("\n   and " in rule for rule in rules) == comb(12, 2)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_sides_through_as_many_points_as_dimensions_cut_out_every_hull(d):
    """The lemma of docs/proofs/tables.md, for points in flats of fewer dimensions, too."""
    generator = np.random.default_rng(d)
    dimensions = set()
    for _ in range(6):
        points = np.unique(generator.integers(0, 3, size=(7, d)), axis=0).astype(float)
        if np.linalg.matrix_rank(points[1:] - points[0]) < d:
            continue
        pool = all_supported_halfspaces(AffineHull(points), d)
        for size in range(1, len(points) + 1):
            kept = points[generator.permutation(len(points))[:size]]
            dimensions.add(int(np.linalg.matrix_rank(kept - kept[0])))
            sides = pool.contains(kept).all(axis=1)
            rows = np.concatenate([points, (points[:1] + points) / 2, kept.mean(axis=0)[None]])
            height = pool.normals[sides] @ rows.T - pool.offsets[sides, None]
            inside = (height >= -1e-9).all(axis=0)
            for row, within in zip(rows, inside, strict=True):
                # a convex combination of the points that are kept
                equations = np.vstack([kept.T, np.ones(size)])
                found = linprog(np.zeros(size), A_eq=equations, b_eq=np.append(row, 1.0))
                assert bool(within) == (found.status == 0)
    assert dimensions == set(range(d + 1))
