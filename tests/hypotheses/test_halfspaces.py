"""Halfspaces: dichotomies against linear programs, exact tables, covers, accuracy."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from skpublicdp import SemiPrivateClassifier
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.hypotheses import DecisionTrees, Halfspaces, PublicSample, Stumps, Union
from tests.helpers import (
    all_data_sets,
    as_arrays,
    assert_private,
    neighbours_of,
    outcome_probabilities,
    public_sample,
)
from tests.internals.hypotheses import (
    MAX_SPARSE_FEATURES,
    DecisionTree,
    ParallelHyperplanes,
    RotatingHyperplanes,
    directions_around,
    draw_directions,
    tabulate,
)
from tests.kit import Recorder

LINE = np.arange(6.0)[:, None]
GRIDS = {
    "single point": [(0.5, -1.0, 2.0)],
    "equal points": [(0.5, -1.0, 2.0)] * 4,
    "two points": [(0.5, -1.0, 2.0), (0.5, 3.0, 2.0)],
    "line along an axis": LINE * [0.0, 1.0, 0.0],
    "line along no axis": LINE * [1.0, 2.0, -1.0] + [3.0, 0.0, 1.0],
    "two lines": [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (1, 1, 0), (2, 1, 0), (1, 1, 0)],
    "tilted plane": [(0, 0, 0), (1, 0, 1), (2, 0, 2), (0, 1, 2), (1, 1, 3), (2, 1, 4), (1, 2, 5)],
    "cube": list(itertools.product((0.0, 1.0), repeat=3)),
    "a star": [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)],
}
SHAPES = [
    pytest.param(np.array(points, dtype=float)[:, :d], id=f"{name}, d={d}")
    for name, points in GRIDS.items()
    for d in (1, 2, 3)
] + [
    pytest.param(
        np.random.default_rng(seed).integers(0, size, size=(7, d)).astype(float),
        id=f"grid of {size}, d={d}, {seed}",
    )
    for d in (1, 2, 3)
    for size in (2, 3, 5)
    for seed in range(2)
]


def make_cover(X, cover="exact", classes=(0, 1), alpha=0.05, **settings):
    hypotheses = Halfspaces(cover, **settings)
    return hypotheses.build_cover(public_sample(X, classes), alpha=alpha, beta=0.05)


def members(cover):
    return [cover.hypothesis(path) for path in range(cover.size)]


def dichotomies(cover, X):
    return [tuple(rule.predict(X).tolist()) for rule in members(cover)]


def separable(X):
    """All labellings of the rows by halfspaces: one linear program for each labelling."""
    found = set()
    lifted = np.column_stack([X, np.ones(len(X))])
    for labels in itertools.product((0, 1), repeat=len(X)):
        signs = 1 - 2 * np.array(labels)
        program = linprog(
            np.zeros(lifted.shape[1]),
            signs[:, None] * lifted,
            -np.ones(len(X)),
            bounds=(None, None),
        )
        if program.status == 0:
            found.add(labels)
    return found


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("m", [*range(1, 11), 25])
def test_points_in_general_position_have_as_many_dichotomies_as_cover_counted(d, m):
    """Cover (1965), Theorem 1; each dichotomy has one member."""
    X = np.random.default_rng(m).normal(size=(m, d))
    cover = make_cover(X)
    assert cover.size == 2 * sum(comb(m - 1, k) for k in range(d + 1))
    if m <= 10:
        assert len(set(dichotomies(cover, X))) == cover.size


def test_random_words_identify_dichotomies_of_many_points():
    """From 64 points on, dichotomies are numbered by sums of random words."""
    for m in (63, 64, 65, 300):
        size = make_cover(np.random.default_rng(m).normal(size=(m, 2))).size
        assert size == 2 * (1 + (m - 1) + comb(m - 1, 2))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("X", SHAPES)
def test_exact_covers_hold_all_dichotomies_of_degenerate_points(X):
    """Linear programs list the dichotomies of at most eight points."""
    X = np.unique(X, axis=0)
    found = dichotomies(make_cover(X), X)
    assert set(found) == separable(X)
    assert len(found) == len(set(found))


def rows_near(X, seed, n=20):
    """Rows on public points, on the lines through them, on a grid, and anywhere."""
    rng = np.random.default_rng(seed)
    pairs = X[rng.integers(len(X), size=(2, n))]
    on_lines = pairs[0] + rng.integers(-2, 4, size=(n, 1)) * (pairs[1] - pairs[0])
    grid = rng.integers(-1, 5, size=(n, X.shape[1])) / 2
    rows = np.concatenate([X, X, on_lines, grid, rng.normal(size=(n, X.shape[1]))])
    return rows, rng.integers(2, size=len(rows)), rng.integers(0, 4, size=len(rows))


def covers(d, seed):
    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 3, size=(6, d)).astype(float)
    yield grid, make_cover(grid)
    plain = rng.normal(size=(6, d))
    yield plain, make_cover(plain)
    yield plain, make_cover(plain, "directions", directions=7, thresholds=4)


every_dimension = pytest.mark.parametrize("d", [1, 2, 3])


@every_dimension
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 36))
@settings(max_examples=10)
def test_tables_are_additive_and_row_local(d, seed, cut):
    for points, cover in covers(d, seed):
        X, y, weights = rows_near(points, seed, n=8)
        order = np.random.default_rng(seed).permutation(len(X))
        whole = cover.tabulate(X, y, weights)
        parts = [
            cover.tabulate(X[rows], y[rows], weights[rows]) for rows in (order[:cut], order[cut:])
        ]
        assert whole.dtype == np.int64
        np.testing.assert_array_equal(whole, parts[0] + parts[1])
        alone = [cover.tabulate(X[i : i + 1], y[i : i + 1], weights[:1]) for i in range(len(X))]
        ones = np.full(len(X), weights[0])
        np.testing.assert_array_equal(cover.tabulate(X, y, ones), np.sum(alone, axis=0))


@every_dimension
@given(seed=st.integers(0, 10**6))
@settings(max_examples=5)
def test_predictions_agree_with_the_error_table(d, seed):
    """Scoring and predicting agree on every member and row, those on public points included."""
    for points, cover in covers(d, seed):
        X, y, weights = rows_near(points, seed)
        family = cover.family(cover.tabulate(X, y, weights))
        assert family.size == cover.size
        for path, errors, prior in family.members():
            predicted = cover.hypothesis(path).predict(X)
            assert prior == 1
            assert errors == weights[predicted != y].sum()
            alone = [cover.hypothesis(path).predict(X[i : i + 1])[0] for i in range(0, len(X), 9)]
            np.testing.assert_array_equal(predicted[::9], alone)


@every_dimension
@pytest.mark.parametrize("cover", ["exact", "directions"])
def test_exact_privacy_over_all_data_sets_and_neighbours(d, cover):
    public = np.array([[0.0, 0.0, 1.0], [1.0, 0.5, 1.0], [0.5, 3.0, 0.0], [0.0, 0.0, 2.0]])[:, :d]
    cover = make_cover(public, cover, directions=5, thresholds=3)
    points = [(0.0, 0.0, 1.0)[:d], (1.5, 1.0, 0.0)[:d], (0.2, 4.0, 2.0)[:d]]
    epsilon = Fraction(1, 2)
    chosen = list(all_data_sets(points, 2))
    data_sets = (as_arrays(points, rows) for rows in chosen)
    outcomes = dict(zip(chosen, outcome_probabilities(cover, data_sets, epsilon), strict=True))
    for rows, of_data in outcomes.items():
        assert 1 - Fraction(1, 2**60) < sum(lower for lower, _ in of_data.values()) <= 1
        for neighbour in neighbours_of(rows, points):
            assert_private(of_data, outcomes[neighbour], epsilon)


@every_dimension
def test_normal_and_offset_are_the_hyperplane(d):
    """Away from the hyperplane by more than rounding, the sign of normal @ x - offset decides."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(400, d))
    for _, cover in covers(d, 0):
        for rule in members(cover):
            distance = X @ rule.normal - rule.offset
            clear = np.abs(distance) > 1e-9
            np.testing.assert_array_equal(rule.predict(X)[clear], (distance > 0)[clear])


@pytest.mark.parametrize("weight", [0, 1, 1000, (1 << 24) - 1, 1 << 24, (1 << 40) + 1])
def test_large_weights_stay_exact(weight):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.integers(2, size=500)
    cover = make_cover(rng.normal(size=(9, 2)))
    unit = tabulate(cover, X, y)
    np.testing.assert_array_equal(tabulate(cover, X, y, np.full(500, weight)), weight * unit)


@given(st.lists(st.floats(allow_nan=False), min_size=0, max_size=12), st.integers(0, 10**6))
def test_bins_equal_a_sorted_search(cuts, seed):
    """The grid that makes binning fast does not decide it."""
    cuts = np.unique(np.array([cut for cut in cuts if np.isfinite(cut)], dtype=float))
    rng = np.random.default_rng(seed)
    sweep = ParallelHyperplanes(np.ones((1, 1)), [cuts])
    with np.errstate(over="ignore", under="ignore"):
        near = np.concatenate([np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308]
    keys = np.concatenate([cuts, near, rng.standard_cauchy(size=50), special])
    np.testing.assert_array_equal(sweep._find_bins(keys, 0), np.searchsorted(cuts, keys))


def test_huge_values_are_coded_alike_wherever_they_appear():
    """Overflow makes infinities and NaN of rows; the table and the rule still agree."""
    huge = np.array([[1e308, -1e308, 1e308], [-1e308, 1e308, 1e308], [1e308, 1e308, -1e308]])
    y = np.array([0, 1, 1])
    rng = np.random.default_rng(0)
    for d, cover in itertools.product((2, 3), ("exact", "directions")):
        cover = make_cover(1e-3 * rng.normal(size=(5, d)), cover, directions=9)
        errors = cover.family(tabulate(cover, huge[:, :d], y)).errors
        for path, rule in enumerate(members(cover)):
            assert errors[path] == (rule.predict(huge[:, :d]) != y).sum()


@pytest.mark.parametrize("d", [2, 3])
def test_zeros_of_either_sign_are_one_value(d):
    points = np.array([(0, 0, 0), (1, 0.5, 0), (2, -1, 1), (-1, 3, 2), (0, 0, 1)])[:, :d]
    rows = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=d)))
    for rule in members(make_cover(points)):
        np.testing.assert_array_equal(
            rule.predict(rows), rule.predict(np.where(rows == 0, -0.0, rows))
        )


def test_directions_depend_on_the_public_rows_alone():
    X = np.random.default_rng(0).normal(size=(40, 5)) * [1, 10, 100, 1, 1] + [0, 0, 0, 1e6, 0]
    X[:, 4] = 0.1  # constant, though its computed deviation is not zero
    weights = draw_directions(X, 200)
    np.testing.assert_array_equal(weights, draw_directions(X, 200))
    assert weights.shape[0] <= 200
    assert not weights[:, 4].any()
    n_used = (weights != 0).sum(axis=1)
    assert [(n_used == few).sum() >= 10 for few in (2, 3)] == [True, True]
    spread = (weights * X.std(axis=0))[:, :4]
    assert np.all(np.abs(spread).sum(axis=0) > 1)  # no feature is left out, whatever its unit
    np.testing.assert_allclose(
        draw_directions(X * 8.0, 200) * 8.0, weights, rtol=1e-9
    )  # units do not matter
    cover = make_cover(X, "directions")
    assert {len(cuts) for cuts in cover.sweeps.thresholds} == {cover.sweeps.thresholds.shape[1]}
    assert 0 < cover.sweeps.n_cuts.max() <= 31


def test_most_directions_are_differences_of_public_rows():
    X = np.random.default_rng(0).integers(2, size=(30, 25)).astype(float)
    standard = X / X.std(axis=0)
    differences = (standard[:, None] - standard[None]).reshape(-1, 25)
    either = np.concatenate([differences, -differences])
    for few, n_expected in ((0.2, 30), (0.1, 35)):
        drawn = draw_directions(X, 50, few) * X.std(axis=0)
        found = [np.abs(either - direction).max(axis=1).min() < 1e-9 for direction in drawn]
        assert sum(found) == n_expected


@pytest.mark.parametrize("thresholds", [1, 3, 31])
def test_thresholds_are_spaced_as_asked(thresholds):
    X = np.random.default_rng(0).normal(size=(500, 4))
    cover = make_cover(X, "directions", directions=20, thresholds=thresholds, alpha=0.001)
    assert (cover.sweeps.n_cuts == thresholds).all()
    assert cover.size <= 20 * thresholds * 2 + 2
    wide = make_cover(X, "directions", directions=20, thresholds=thresholds, alpha=0.5)
    assert (wide.sweeps.n_cuts == 1).all()


@pytest.mark.parametrize(
    ("d", "m", "expected"),
    [
        (1, 1000, ParallelHyperplanes),
        (2, 90, RotatingHyperplanes),
        (3, 60, RotatingHyperplanes),
        (3, 61, ParallelHyperplanes),
        (4, 9, ParallelHyperplanes),
    ],
)
def test_auto_is_exact_for_few_points(d, m, expected):
    cover = make_cover(np.random.default_rng(0).normal(size=(m, d)), "auto", directions=8)
    assert isinstance(cover.sweeps, expected)
    if d == 1:
        assert cover.size == 2 * m


def test_an_exact_cover_too_large_is_refused_with_its_size_and_a_remedy():
    X = np.random.default_rng(0).normal(size=(5000, 3))
    for d in (2, 3):
        with pytest.raises(
            CoverSizeError, match=rf'5000 distinct.* {d} dim.*halfspaces.*fewer.*"directions"'
        ):
            make_cover(X[:, :d], "exact")
        assert isinstance(make_cover(X[:, :d], "auto", directions=8).sweeps, ParallelHyperplanes)


@pytest.mark.parametrize(
    ("arguments", "classes", "message"),
    [
        ({}, (0, 1, 2), "y has 3"),
        ({"cover": "lines"}, (0, 1), "cover must"),
        ({"directions": 0}, (0, 1), "directions must"),
        ({"thresholds": 2.5}, (0, 1), "thresholds must"),
        ({"rounds": True}, (0, 1), "rounds must"),
        ({"rounds": 0}, (0, 1), "rounds must"),
        ({"cover": "exact"}, (0, 1), 'X has 4.*"directions"'),
    ],
)
def test_invalid_settings_are_explained(arguments, classes, message):
    with pytest.raises(ValueError, match=message):
        make_cover(np.ones((3, 4)), classes=classes, **{"cover": "auto", **arguments})


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_without_differences_only_constants_remain(d):
    cover = make_cover(np.full((4, d), 0.1), "auto", classes=("no", "yes"))
    assert [str(rule) for rule in members(cover)] == ["predict no", "predict yes"]
    assert cover.family(tabulate(cover, np.zeros((3, d)), [0, 1, 1])).errors.tolist() == [2, 1]
    single = make_cover(np.random.default_rng(0).normal(size=(4, d)), "auto", classes=("only",))
    assert [str(rule) for rule in members(single)] == ["predict only"]


def test_rules_read_well():
    public = PublicSample(np.array([[1.0], [2.0], [4.0]]), np.array(["no", "yes"]), ("age",))
    cover = Halfspaces().build_cover(public, alpha=0.05, beta=0.05)
    assert [" ".join(str(rule).split()) for rule in members(cover)] == [
        "predict no",
        "predict yes",
        "if age > 1.5: predict yes else: predict no",
        "if age > 1.5: predict no else: predict yes",
        "if age > 3: predict yes else: predict no",
        "if age > 3: predict no else: predict yes",
    ]
    X = np.array([[0.0, 0.0], [1.0, 7.0], [30.0, 2.0]])
    public = PublicSample(X, np.array(["no", "yes"]), ("age", "income"))
    rules = [str(rule) for rule in members(Halfspaces().build_cover(public, alpha=0.05, beta=0.05))]
    assert len(set(rules)) == 8
    assert all("age" in rule and "income" in rule and "(≈)" in rule for rule in rules[2:])
    assert {tuple(rule.splitlines()[1:]) for rule in rules[2:]} == {
        ("    predict yes", "else:", "    predict no"),
        ("    predict no", "else:", "    predict yes"),
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("d", "settings", "least"),
    [(1, {}, 0.98), (2, {}, 0.98), (3, {}, 0.96), (6, {"directions": 300}, 0.92), (6, {}, 0.95)],
)
def test_a_rotated_halfspace_is_learnt(d, settings, least):
    """Six dimensions are coarsely covered by 300 directions; 1000 of them come closer."""
    scores = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        normal = rng.normal(size=d)
        X = rng.normal(size=(5000, d))
        y = np.where(X @ normal > 0.3 * np.linalg.norm(normal), "yes", "no")
        clf = SemiPrivateClassifier(Halfspaces(**settings), epsilon=1, random_state=seed)
        clf.fit(X[:3000], y[:3000], X_public=rng.normal(size=(300, d)))
        scores.append(clf.score(X[3000:], y[3000:]))
    assert np.mean(scores) > least


def test_no_public_rows_use_the_reference():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = (X @ [1.0, -2.0] > 0.5).astype(int)
    clf = SemiPrivateClassifier(Halfspaces(), random_state=0)
    with pytest.warns(UserWarning, match="No public rows"):
        assert clf.fit(X, y).score(X, y) > 0.97
    assert clf.cover_size_ == 2 * (1 + 999 + comb(999, 2))


class TestRounds:
    """Several draws share one budget, each around the halfspace released before."""

    RNG = np.random.default_rng(0)
    X = RNG.normal(size=(3000, 6))
    Y = (X @ np.array([1.0, -2.0, 0.5, 0.0, 1.5, 1.0]) > 0.4).astype(int)
    PUBLIC = RNG.normal(size=(300, 6))

    def fitted(self, rounds, epsilon=2.0):
        hypotheses = Halfspaces(directions=400, rounds=rounds)
        clf = SemiPrivateClassifier(hypotheses, epsilon=epsilon, random_state=0)
        return clf.fit(self.X, self.Y, X_public=self.PUBLIC)

    def test_the_receipt_lists_every_round(self):
        for rounds in (1, 3):
            clf = self.fitted(rounds)
            spent = [mechanism.epsilon for mechanism in clf.privacy_.mechanisms]
            shares = rounds * (rounds + 1) / 2  # round t has t of them
            assert spent == [2.0 * t / shares for t in range(1, rounds + 1)]
            assert clf.privacy_.epsilon == 2.0

    @pytest.mark.parametrize("rounds", [1, 2, 3])
    def test_the_draws_together_spend_the_budget(self, rounds):
        with Recorder() as recorder:
            self.fitted(rounds, epsilon=0.7)
        assert len(recorder.calls) == rounds
        assert sum(call.cost for call in recorder.calls) == Fraction(7, 10)
        assert {call.sensitivity for call in recorder.calls} == {1}

    def test_a_constant_is_followed_by_one_last_draw(self):
        X = np.random.default_rng(0).normal(size=(3000, 6))
        clf = SemiPrivateClassifier(Halfspaces(rounds=4), epsilon=8.0, random_state=0)
        clf.fit(X, np.r_[0, np.ones(2999)], X_public=self.PUBLIC)
        assert [mechanism.epsilon for mechanism in clf.privacy_.mechanisms] == [0.8, 7.2]

    def test_refinement_pays(self):
        one, three = self.fitted(1), self.fitted(3)
        assert three.score(self.X, self.Y) > one.score(self.X, self.Y) + 0.01

    def test_rounds_follow_from_public_numbers(self):
        budgets = (0.01, 1.0, 3.0, 9.0)
        counts = [len(self.fitted("auto", epsilon).privacy_.mechanisms) for epsilon in budgets]
        assert counts == [1, 2, 3, 4]

    def test_a_refined_cover_depends_on_the_released_halfspace_alone(self):
        public = public_sample(self.PUBLIC)
        cover = Halfspaces(directions=50).build_cover(public, alpha=0.05, beta=0.05)
        halfspace = cover.hypothesis(30)
        one, other = cover.refine(halfspace, 1), cover.refine(halfspace, 1)
        np.testing.assert_array_equal(one.sweeps.weights, other.sweeps.weights)
        kept = one.sweeps.weights / np.abs(one.sweeps.weights).max(axis=1, keepdims=True)
        assert np.isclose(np.abs(kept), np.abs(halfspace.normal)).all(axis=1).any()
        assert cover.refine(cover.hypothesis(0), 1) is cover  # a constant has no direction

    @pytest.mark.parametrize("n_features", [1, 2, 6])
    def test_refined_directions_are_near_and_each_step_halves_their_distance(self, n_features):
        points = np.column_stack([self.PUBLIC[:, :n_features] * 3, np.ones(300)])
        normal = np.append(np.ones(n_features), 0.0)
        scale = points.std(axis=0) + (points.std(axis=0) == 0)
        middle = normal * scale / np.linalg.norm(normal * scale)
        for step in (1, 2):
            found = directions_around(normal, points, 300, step) * scale
            assert len(found) == 300
            assert not found[:, -1].any()  # constant among the public rows
            along = found @ middle
            apart = np.sqrt(np.maximum((found**2).sum(axis=1) - along**2, 0)) / np.abs(along)
            # a move of length r turns by arcsin(r) at most
            reach = 0.8 / 2 ** (step - 1)
            assert apart.max() <= reach / np.sqrt(1 - reach**2) + 1e-9

    def test_a_direction_of_few_features_mostly_keeps_to_them(self):
        points = np.random.default_rng(0).normal(size=(300, 12))
        for n_used in (1, 4, 6, 7):
            found = directions_around(np.arange(12) < n_used, points, 301, 1)
            outside = (found[:, n_used:] != 0).sum(axis=1)
            enough = [(outside == n_more).sum() >= 90 for n_more in (0, 1)]
            # a single feature has no other direction within it
            assert enough == [1 < n_used <= MAX_SPARSE_FEATURES, n_used <= MAX_SPARSE_FEATURES]

    @pytest.mark.filterwarnings("ignore:The public rows contain")
    @pytest.mark.parametrize("n_constant", [0, 2])
    def test_a_single_feature_takes_one_round(self, n_constant):
        one, constant = self.PUBLIC[:, :1], np.ones((len(self.PUBLIC), n_constant))
        hypotheses = Halfspaces(cover="directions", rounds=3)
        clf = SemiPrivateClassifier(hypotheses, epsilon=5.0, random_state=0)
        X = np.column_stack([self.X[:, :1], np.ones((len(self.X), n_constant))])
        clf.fit(X, self.X[:, 0] > 0.5, X_public=np.column_stack([one, constant]))
        assert len(clf.privacy_.mechanisms) == 1
        assert clf.score(X, self.X[:, 0] > 0.5) > 0.95

    def test_exact_covers_take_one_round(self):
        clf = SemiPrivateClassifier(Halfspaces(), epsilon=50, random_state=0)
        clf.fit(self.X[:, :2], self.Y, X_public=self.PUBLIC[:, :2])
        assert len(clf.privacy_.mechanisms) == 1


class TestRoundsOfUnions:
    """A union refines what its members can, and draws once more from the rest."""

    X, PUBLIC = TestRounds.X, TestRounds.PUBLIC

    def fitted(self, y):
        union = Union([DecisionTrees(), Halfspaces(directions=400, rounds=3)])
        clf = SemiPrivateClassifier(union, epsilon=6.0, random_state=0)
        return clf.fit(self.X, y, X_public=self.PUBLIC)

    def test_halfspaces_are_refined(self):
        clf = self.fitted(TestRounds.Y)
        assert [mechanism.epsilon for mechanism in clf.privacy_.mechanisms] == [1.0, 2.0, 3.0]
        single = Union([DecisionTrees(), Halfspaces(directions=400, rounds=1)])
        once = SemiPrivateClassifier(single, epsilon=6.0, random_state=0)
        once.fit(self.X, TestRounds.Y, X_public=self.PUBLIC)
        assert len(once.privacy_.mechanisms) == 1
        assert clf.score(self.X, TestRounds.Y) > once.score(self.X, TestRounds.Y) + 0.01

    def test_the_remaining_budget_goes_to_one_draw(self):
        clf = self.fitted(np.r_[0, np.ones(len(self.X) - 1)])  # a constant is drawn first
        assert [mechanism.epsilon for mechanism in clf.privacy_.mechanisms] == [1.0, 5.0]

    def test_a_refined_cover_is_one_of_many(self):
        public = public_sample(self.PUBLIC)
        classes = [Stumps(), Halfspaces(directions=20)]
        union = Union(classes).build_cover(public, alpha=0.1, beta=0.1)
        stumps, halfspaces = union.covers
        finer = union.refine(halfspaces.hypothesis(5), 1)
        finest = finer.refine(finer.covers[1].hypothesis(5), 2)
        sizes = halfspaces.size, finer.covers[1].size
        for one, rarity in [(union, 1), (finer, sizes[0]), (finest, max(sizes))]:
            assert one.covers[0] is stumps
            assert one.inverse_masses == (1, rarity)
            family = one.family(tabulate(one, self.X[:50], TestRounds.Y[:50]))
            prior = [0, 0]
            for (chosen, _), _, weight in family.members():
                prior[chosen] += weight
            assert prior[0] == rarity * prior[1]

    def test_other_members_do_not_cost_rounds(self):
        """What is shared out among the draws is what halfspaces alone would share."""
        union = Union([DecisionTrees(2), Halfspaces(directions=100)])
        for epsilon in (0.5, 1.2, 4.2):
            counts = []
            for hypotheses in (Halfspaces(directions=100), union):
                clf = SemiPrivateClassifier(hypotheses, epsilon=epsilon, random_state=0)
                clf.fit(self.X, TestRounds.Y, X_public=self.PUBLIC)
                counts.append(len(clf.privacy_.mechanisms))
            assert counts[0] == counts[1]

    def test_covers_without_refinement_wait_for_the_last_draw(self):
        clf = self.fitted((self.X[:, 2] * self.X[:, 3] > 0).astype(int))
        assert [mechanism.epsilon for mechanism in clf.privacy_.mechanisms] == [1.0, 2.0, 3.0]
        assert isinstance(clf.hypothesis_, DecisionTree)
        public = public_sample(self.PUBLIC)
        for classes, refinable_classes in [
            ([Stumps(), Halfspaces(rounds=3)], [Halfspaces(rounds=3)]),
            ([Stumps(), DecisionTrees(1)], [Stumps(), DecisionTrees(1)]),
            ([Halfspaces(), Stumps(), Halfspaces()], [Halfspaces(), Halfspaces()]),
        ]:
            cover = Union(classes).build_cover(public, alpha=0.1, beta=0.1)
            covers = [h.build_cover(public, alpha=0.1, beta=0.1) for h in refinable_classes]
            sizes = [refinable.size for refinable in covers]
            assert cover.refinable_members.size == sum(sizes)

    def test_members_of_one_round_stay_as_they_are(self):
        public = public_sample(self.PUBLIC)
        classes = [Halfspaces(directions=20, rounds=1), Halfspaces(directions=20, rounds=2)]
        union = Union(classes).build_cover(public, alpha=0.1, beta=0.1)
        once, twice = union.covers
        finer = union.refine(twice.hypothesis(5), 1)
        assert finer.covers[0] is once
        assert finer.covers[1] is not twice
        assert finer.inverse_masses == (1, twice.size)

    def test_a_union_has_the_rounds_of_its_members(self):
        public = public_sample(self.PUBLIC)
        for classes, rounds in [
            ([DecisionTrees(1), Stumps()], 1),
            ([Halfspaces(rounds=2), Stumps(), Halfspaces(rounds=3)], 3),
            ([Halfspaces(rounds=2), Halfspaces()], "auto"),
        ]:
            assert Union(classes).build_cover(public, alpha=0.1, beta=0.1).rounds == rounds
