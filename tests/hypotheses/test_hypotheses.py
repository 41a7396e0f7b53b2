"""The contract suite: every hypothesis class, through one list."""

import itertools
import warnings
from fractions import Fraction
from html import unescape as html_unescape

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skpublicdp import SemiPrivateClassifier
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import vc_dimension
from skpublicdp.hypotheses import (
    Conjunctions,
    Corrections,
    Cover,
    DecisionTrees,
    FiniteClass,
    HalfspaceIntersections,
    Halfspaces,
    Hypothesis,
    HypothesisClass,
    Intervals,
    ListedCover,
    PublicSample,
    Rectangles,
    Stumps,
    Thresholds,
    Union,
)
from tests.helpers import (
    all_data_sets,
    as_arrays,
    assert_private,
    neighbours_of,
    outcome_probabilities,
    public_sample,
)
from tests.internals.hypotheses import (
    TABULATION_CHUNK_ROWS,
    Splits,
    public_splits,
    quantile_thresholds,
    tabulate,
)
from tests.internals.mechanisms import Leaf


class Sphere(Hypothesis):
    """A user's own rule."""

    def __init__(self, radius):
        self.radius = radius

    def predict(self, X):
        return ((X**2).sum(axis=1) > self.radius**2).astype(np.intp)

    def rule(self):
        return f"predict 1 outside radius {self.radius:g}"


def test_growth_is_that_of_the_parts():
    for hypotheses in (Union([HalfspaceIntersections()]), Corrections(None, Spheres())):
        assert not hasattr(hypotheses, "growth")
    assert Union([Stumps()]).growth(3, 2) == Stumps().growth(3, 2)
    assert Corrections(None, Stumps()).growth(9, 2) == Stumps().growth(9, 2) + 1


class Spheres(HypothesisClass):
    """A user's own class, the short way: its hypotheses listed."""

    def build_cover(self, public, *, alpha, beta):
        radii = np.unique(np.sqrt((public.X**2).sum(axis=1)))
        return ListedCover([Sphere(radius) for radius in (*radii, -1.0)])


class SphereCover(Cover):
    """The same cover, the long way: a table of its own."""

    def __init__(self, radii):
        self.radii = radii

    @property
    def size(self):
        return len(self.radii)

    def tabulate(self, X, y, weights):
        wrong = [Sphere(radius).predict(X) != y for radius in self.radii]
        return np.array(wrong, dtype=np.int64) @ weights

    def family(self, table):
        return Leaf(table)

    def hypothesis(self, path):
        return Sphere(self.radii[path])


class OwnSpheres(HypothesisClass):
    """A user's own class with a cover of its own."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def build_cover(self, public, *, alpha, beta):
        radii = np.sqrt((public.X**2).sum(axis=1))
        return SphereCover(self.scale * np.append(np.unique(radii), -1.0))


PUBLIC = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 0.5], [0.5, 3.0]])
TWO_SPLITS = np.array([[0.0, 0.0], [1.0, 0.5], [0.0, 0.5]])

MODELS = [
    DecisionTreeClassifier(max_depth=depth, random_state=0).fit(PUBLIC, [0, 1, 1, 0])
    for depth in (1, 2)
]

# one line per class: an instance, the labels it is tried with
CLASSES = [
    pytest.param(Thresholds(), (0, 1), id="Thresholds"),
    pytest.param(Thresholds(feature=1), (0, 1), id="Thresholds-second"),
    pytest.param(Stumps(), (0, 1), id="Stumps"),
    pytest.param(Stumps(), (0, 1, 2), id="Stumps-three"),
    pytest.param(DecisionTrees(max_depth=1), (0, 1), id="depth1"),
    pytest.param(DecisionTrees(max_depth=1), (0, 1, 2), id="depth1-three"),
    pytest.param(DecisionTrees(max_depth=2), (0, 1), id="depth2"),
    pytest.param(DecisionTrees(max_depth=2), (0, 1, 2), id="depth2-three"),
    pytest.param(DecisionTrees(max_depth=3), (0, 1), id="depth3"),
    pytest.param(DecisionTrees(), (7,), id="one-label"),
    pytest.param(Intervals(), (0, 1), id="Intervals"),
    pytest.param(Rectangles(), (0, 1), id="Rectangles"),
    pytest.param(Rectangles(features=[1]), (0, 1), id="Rectangles-one-feature"),
    pytest.param(Rectangles(features=[0, 1, 0]), (0, 1), id="Rectangles-three"),
    pytest.param(Rectangles(cuts=[[0.5, 1.0], [0.0]]), (0, 1), id="Rectangles-cuts"),
    pytest.param(Rectangles(), (7,), id="Rectangles-one-label"),
    pytest.param(Conjunctions(max_literals=1), (0, 1), id="conjunctions1"),
    pytest.param(Conjunctions(max_literals=2), (0, 1), id="conjunctions2"),
    pytest.param(Conjunctions(max_literals=3), (0, 1), id="conjunctions3"),
    pytest.param(Conjunctions(), (7,), id="conjunctions-one-label"),
    pytest.param(Halfspaces(), (0, 1), id="Halfspaces"),
    pytest.param(Halfspaces(cover="directions", directions=9), (0, 1), id="directions"),
    pytest.param(Halfspaces(), (7,), id="Halfspaces-one-label"),
    pytest.param(HalfspaceIntersections(), (0, 1), id="intersections"),
    pytest.param(HalfspaceIntersections(1), (0, 1), id="intersections1"),
    pytest.param(HalfspaceIntersections(3), (0, 1), id="intersections3"),
    pytest.param(HalfspaceIntersections(pool="paper"), (0, 1), id="intersections-paper"),
    pytest.param(HalfspaceIntersections(), (7,), id="intersections-one-label"),
    pytest.param(FiniteClass(MODELS), (0, 1), id="FiniteClass"),
    pytest.param(Corrections(MODELS[0], Stumps()), (0, 1), id="Corrections"),
    pytest.param(Corrections(MODELS[1], DecisionTrees(1)), (0, 1), id="Corrections-trees"),
    pytest.param(Union([Stumps(), Conjunctions(), Intervals()]), (0, 1), id="Union"),
    pytest.param(Union([DecisionTrees(1), Stumps()]), (0, 1, 2), id="Union-three"),
    pytest.param(Spheres(), (0, 1), id="user-listed"),
    pytest.param(OwnSpheres(), (0, 1), id="user-table"),
]

every_class = pytest.mark.parametrize(("hypotheses", "classes"), CLASSES)


def make_cover(hypotheses, classes, X=PUBLIC, alpha=0.01):
    if getattr(hypotheses, "max_depth", 0) == 3 and len(X) < 5:
        X = TWO_SPLITS  # 32,768 trees
    return hypotheses.build_cover(public_sample(X, classes), alpha=alpha, beta=0.05)


def random_rows(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    # a coarse grid, so that rows fall exactly on thresholds as well
    X = rng.integers(-2, 9, size=(n, 2)) / 4
    return X, rng.integers(n_classes, size=n), rng.integers(0, 5, size=n)


@every_class
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), cut=st.integers(0, 40))
@settings(max_examples=15)
def test_tables_are_additive(hypotheses, classes, seed, n, cut):
    cover = make_cover(hypotheses, classes)
    X, y, weights = random_rows(seed, n, len(classes))
    cut = min(cut, n)
    parts = [
        cover.tabulate(X[part], y[part], weights[part]) for part in (slice(cut), slice(cut, None))
    ]
    whole = cover.tabulate(X, y, weights)
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(whole, parts[0] + parts[1])


@every_class
@given(seed=st.integers(0, 10**6), n=st.integers(2, 20))
@settings(max_examples=15)
def test_tables_are_row_local(hypotheses, classes, seed, n):
    """The contribution of a row does not depend on the other rows or on its position."""
    cover = make_cover(hypotheses, classes)
    X, y, weights = random_rows(seed, n, len(classes))
    order = np.random.default_rng(seed).permutation(n)
    whole = cover.tabulate(X, y, weights)
    np.testing.assert_array_equal(whole, cover.tabulate(X[order], y[order], weights[order]))
    alone = cover.tabulate(X[:1], y[:1], weights[:1])
    np.testing.assert_array_equal(whole - cover.tabulate(X[1:], y[1:], weights[1:]), alone)
    np.testing.assert_array_equal(alone, cover.tabulate(X[:1], y[:1], np.array([1])) * weights[0])


@pytest.mark.one_in(2)
@every_class
@given(seed=st.integers(0, 10**6))
@settings(max_examples=8)
def test_predictions_agree_with_the_error_table(hypotheses, classes, seed):
    """Every member errs exactly as often as the table says: one membership function."""
    cover = make_cover(hypotheses, classes, PUBLIC[:3])
    X, y, weights = random_rows(seed, 25, len(classes))
    family = cover.family(cover.tabulate(X, y, weights))
    assert family.size == cover.size
    for path, errors, _ in itertools.islice(family.members(), 3000):
        assert errors == weights[cover.hypothesis(path).predict(X) != y].sum()


@every_class
def test_one_row_moves_every_error_count_by_at_most_its_weight(hypotheses, classes):
    cover = make_cover(hypotheses, classes, PUBLIC[:3])
    X, y, _ = random_rows(0, 6, len(classes))
    before = [errors for _, errors, _ in cover.family(tabulate(cover, X, y)).members()]
    other, labels, _ = random_rows(1, 20, len(classes))
    for row, label in zip(other, labels, strict=True):
        X[0], y[0] = row, label
        after = [errors for _, errors, _ in cover.family(tabulate(cover, X, y)).members()]
        assert np.abs(np.subtract(before, after)).max() <= 1


@pytest.mark.one_in(3)
@every_class
def test_exact_privacy_over_all_data_sets_and_neighbours(hypotheses, classes):
    """Output probabilities of all neighbours satisfy the ratio e^ε, with rational bounds."""
    cover = make_cover(hypotheses, classes, PUBLIC[[0, 1, 3]])
    points = [(0.0, 0.0), (1.5, 1.0), (0.2, 4.0)]
    codes = range(len(classes))
    few = cover.size < 1000
    chosen = list(all_data_sets(points, 2 if few else 1, codes))
    for epsilon in (Fraction(1, 10), Fraction(2))[0 if few else 1 :]:
        data_sets = (as_arrays(points, rows) for rows in chosen)
        outcomes = dict(zip(chosen, outcome_probabilities(cover, data_sets, epsilon), strict=True))
        for rows, of_data in outcomes.items():
            assert 1 - Fraction(1, 2**60) < sum(lower for lower, _ in of_data.values()) <= 1
            for neighbour in neighbours_of(rows, points, codes):
                assert_private(of_data, outcomes[neighbour], epsilon)


def dichotomies(rules, X):
    return {tuple(rule.predict(X).tolist()) for rule in rules}


def all_members(cover, n_features=2):
    table = tabulate(cover, np.zeros((0, n_features)), np.zeros(0, dtype=int))
    return [cover.hypothesis(path) for path, _, _ in cover.family(table).members()]


def all_cuts(X):
    """Every partition of the rows by one feature, trivial ones included."""
    cuts = set()
    for column in X.T:
        for threshold in (*column, -np.inf):
            cuts.add(tuple((column > threshold).tolist()))
    return sorted(cuts)


def labelled_cuts(X, labels, depth):
    """All labellings of the rows by trees of a depth, by recursion over all cuts."""
    if depth == 0:
        return {(label,) * len(X) for label in labels}
    below = labelled_cuts(X, labels, depth - 1)
    return {
        tuple(np.where(cut, left, right).tolist())
        for cut in all_cuts(X)
        for left in below
        for right in below
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("labels", [(0, 1), (0, 1, 2)])
def test_covers_hold_all_dichotomies_of_the_public_points(seed, labels):
    """Brute force on at most 8 points with ties: Algorithm 1 asks for one member of each."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(8 if len(labels) == 2 else 4, 2)).astype(float)
    depth2 = labelled_cuts(X[:5], labels, 2)
    assert dichotomies(all_members(make_cover(DecisionTrees(), labels, X[:5])), X[:5]) == depth2
    depth1 = labelled_cuts(X, labels, 1)
    assert dichotomies(all_members(make_cover(DecisionTrees(1), labels, X)), X) == depth1
    stumps = all_members(make_cover(Stumps(), labels, X))
    assert dichotomies(stumps, X) == depth1
    assert len(stumps) == len(depth1)  # one member for each dichotomy
    if len(labels) == 2:
        thresholds = all_members(make_cover(Thresholds(), labels, X))
        expected = {tuple((X[:, 0] > t).astype(int)) for t in (-1.0, *X[:, 0])}
        assert dichotomies(thresholds, X) == expected
        assert len(thresholds) == len(expected)


def boxes(X):
    """All labellings of rows by boxes, from the intervals of each column."""
    found = set()
    axes = []
    for column in X.T:
        ends = [-1.0, *np.unique(column)]
        axes.append([(a < column) & (column <= b) for a in ends for b in ends if a <= b])
    for sides in itertools.product(*axes):
        found.add(tuple(np.logical_and.reduce(sides).astype(int).tolist()))
    return found


def conjunctions(X, literals):
    """All labellings of rows by conjunctions of at most so many literals, and the constants."""
    cuts = [np.array(cut) for cut in all_cuts(X)]
    sides = [*cuts, *(~cut for cut in cuts)]
    found = {(0,) * len(X), (1,) * len(X)}
    for chosen in itertools.product(sides, repeat=literals):
        found.add(tuple(np.logical_and.reduce(chosen).astype(int).tolist()))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_boxes_and_conjunctions_hold_all_dichotomies(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(8, 2)).astype(float)
    intervals = all_members(make_cover(Intervals(), (0, 1), X))
    assert dichotomies(intervals, X) == boxes(X[:, :1])
    assert dichotomies(all_members(make_cover(Rectangles(), (0, 1), X)), X) == boxes(X)
    X3 = rng.integers(0, 3, size=(6, 3)).astype(float)
    members = all_members(make_cover(Rectangles(), (0, 1), X3), n_features=3)
    assert dichotomies(members, X3) == boxes(X3)
    for literals in (1, 2, 3):
        rows = X if literals < 3 else X[:5]
        members = all_members(make_cover(Conjunctions(literals), (0, 1), rows))
        assert dichotomies(members, rows) == conjunctions(rows, literals)


def test_a_union_gives_every_class_the_same_mass():
    union = Union([Stumps(), DecisionTrees(), Intervals()])
    cover = make_cover(union, (0, 1))
    family = cover.family(cover.tabulate(*random_rows(0, 9, 2)))
    masses = [0, 0, 0]
    for path, _, prior in family.members():
        masses[path[0]] += prior
    assert len(set(masses)) == 1
    assert cover.size == sum(one.size for one in cover.covers)


@pytest.mark.parametrize(
    ("hypotheses", "n_features", "expected"),
    [
        (Thresholds(), 3, 1),
        (Intervals(), 3, 2),
        (Rectangles(), 3, 6),
        (Rectangles([0, 2]), 9, 4),
        (Stumps(), 1, 2),
        (Halfspaces(), 4, 5),
        (FiniteClass(MODELS * 4), 2, 3),
    ],
)
def test_vc_dimensions(hypotheses, n_features, expected):
    assert vc_dimension(hypotheses, n_features) == expected


@pytest.mark.parametrize(
    "hypotheses",
    [
        *(Thresholds(), Stumps(), Intervals(), Rectangles(), Conjunctions(1), Conjunctions(2)),
        *(DecisionTrees(1), DecisionTrees(2), Union([Stumps(), Intervals()]), Halfspaces()),
    ],
    ids=lambda hypotheses: repr(hypotheses),
)
def test_growth_bounds_the_dichotomies(hypotheses):
    X = np.random.default_rng(0).normal(size=(5, 2))
    for m in (1, 3, 5):
        members = all_members(make_cover(hypotheses, (0, 1), X[:m]))
        assert len(dichotomies(members, X[:m])) <= hypotheses.growth(m, 2)


@pytest.mark.parametrize(
    "hypotheses",
    [
        *(Thresholds(), Stumps(), Intervals(), Rectangles(), Conjunctions(1), Conjunctions(2)),
        *(DecisionTrees(1), DecisionTrees(2), Halfspaces(), Union([Stumps(), Intervals()])),
    ],
    ids=lambda hypotheses: repr(hypotheses),
)
@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.3])
def test_every_dichotomy_lies_within_the_radius(hypotheses, alpha):
    """The radius a cover reports, against the finest cover of the same public rows."""
    X = np.random.default_rng(1).integers(0, 6, size=(7, 2)).astype(float)
    cover = make_cover(hypotheses, (0, 1), X, alpha)
    kept = np.array(list(dichotomies(all_members(cover), X)))
    for pattern in dichotomies(all_members(make_cover(hypotheses, (0, 1), X)), X):
        assert (kept != pattern).mean(axis=1).min() <= cover.radius + 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
def test_depth_two_family_against_all_trees(n_classes):
    """The factored family lists the same errors as every tree evaluated on its own."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(40, 2))
    y = rng.integers(n_classes, size=40)
    cover = make_cover(DecisionTrees(), tuple(range(n_classes)), rng.normal(size=(4, 2)), 0.4)
    splits, sides = cover.splits, cover.splits.indicators(X).astype(bool)
    expected = []
    for root, low, high in itertools.product(range(len(splits)), repeat=3):
        inner = np.where(sides[root], sides[high], sides[low])
        for leaves in itertools.product(range(n_classes), repeat=4):
            predicted = np.array(leaves)[2 * sides[root] + inner]
            expected.append((predicted != y).sum())
    family = cover.family(tabulate(cover, X, y))
    assert sorted(errors for _, errors, _ in family.members()) == sorted(expected)
    assert cover.size == len(expected)


def test_depth_three_family_against_all_trees():
    rng = np.random.default_rng(3)
    X, y, weights = rng.normal(size=(30, 2)), rng.integers(2, size=30), rng.integers(0, 4, 30)
    cover = make_cover(DecisionTrees(max_depth=3), (0, 1), rng.normal(size=(5, 2)), 0.7)
    k = len(cover.splits)
    assert k == 2
    above = cover.splits.indicators(X).astype(int)
    expected = []
    for nodes in itertools.product(range(k), repeat=7):
        first = above[nodes[0]]
        second = np.where(first, above[nodes[2]], above[nodes[1]])
        third = np.choose(2 * first + second, above[list(nodes[3:])])
        leaf = 4 * first + 2 * second + third
        wrong = np.array([np.bincount(leaf, weights * (y != label), 8) for label in (0, 1)])
        for leaves in itertools.product((0, 1), repeat=8):
            expected.append(int(wrong[list(leaves), range(8)].sum()))
    family = cover.family(cover.tabulate(X, y, weights))
    assert sorted(errors for _, errors, _ in family.members()) == sorted(expected)
    assert cover.size == len(expected)


def test_table_does_not_depend_on_chunks_and_workers():
    rng = np.random.default_rng(0)
    n = TABULATION_CHUNK_ROWS * 2 + 77
    X, y = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    cover = make_cover(DecisionTrees(), (0, 1), rng.normal(size=(50, 2)), 0.1)
    whole = cover.tabulate(X, y, np.ones(n, dtype=np.int64))
    for n_jobs in (None, 2):
        np.testing.assert_array_equal(tabulate(cover, X, y, n_jobs=n_jobs), whole)


@pytest.mark.parametrize("weight", [1, 1000, 1 << 20, (1 << 40) + 1])
def test_large_weights_stay_exact(weight):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.integers(2, size=500)
    cover = make_cover(DecisionTrees(), (0, 1), rng.normal(size=(20, 2)), 0.2)
    unit = tabulate(cover, X, y)
    np.testing.assert_array_equal(tabulate(cover, X, y, np.full(500, weight)), weight * unit)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.floats(0.005, 0.9))
def test_quantile_thresholds_form_an_alpha_cover(values, alpha):
    """Any cut of the column lies within a mass alpha of a kept one, or of a trivial one."""
    column = np.array(values, dtype=float)
    cuts = quantile_thresholds(column, alpha)
    assert (np.diff(cuts) > 0).all()
    assert not np.isin(cuts, column).any()
    kept = [np.mean(column <= cut) for cut in (-1, *cuts, 31)]
    for value in column:
        assert min(abs(np.mean(column <= value) - mass) for mass in kept) <= alpha + 1e-6
    below_resolution = quantile_thresholds(column, 0.9 / len(column) / 2)
    assert len(below_resolution) == len(np.unique(column)) - 1


def test_thresholds_of_special_columns():
    assert quantile_thresholds(np.full(9, 2.0), 0.05).size == 0
    np.testing.assert_array_equal(quantile_thresholds(np.array([0.0] * 99 + [1.0]), 0.5), [0.5])
    zero_inflated = np.concatenate([np.zeros(900), np.arange(1.0, 101.0)])
    assert len(quantile_thresholds(zero_inflated, 0.1)) == 10
    low = 1.0
    high = np.nextafter(low, 2.0)
    (cut,) = quantile_thresholds(np.array([low, high]), 0.1)
    assert not low > cut
    assert high > cut
    (cut,) = quantile_thresholds(np.array([-1.7e308, 1.7e308]), 0.1)
    assert cut == 0.0
    (cut,) = quantile_thresholds(np.array([1.6e308, 1.79e308]), 0.1)
    assert 1.6e308 <= cut < 1.79e308


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=8))
def test_printed_thresholds_are_the_thresholds(values):
    column = np.array(values)
    cuts = quantile_thresholds(column, 1e-6)
    for low, cut, high in zip(np.unique(column), cuts, np.unique(column)[1:], strict=False):
        assert not low > cut
        assert high > cut
        printed = Splits(np.array([0]), np.array([cut])).describe(0, ("x",))
        assert float(printed.removeprefix("x > ")) == cut


def test_thresholds_are_short_decimals():
    column = np.array([36.21874, 38.9034, 0.1234567, 0.1234569, 4e7, 5.1e7])
    expected = [0.1234568, 20.0, 38.0, 2e7, 4.6e7]
    assert quantile_thresholds(column, 0.01).tolist() == expected


def test_splits_with_the_same_partition_count_once():
    rng = np.random.default_rng(0)
    column = rng.normal(size=(30, 1))
    gender = rng.integers(2, size=(30, 1)).astype(float)
    X = np.hstack([column, 3 * column + 1, -column, gender, 1 - gender, np.ones((30, 1))])
    splits = public_splits(public_sample(X), alpha=0.01)
    assert sorted(set(splits.features.tolist())) == [0, 3]
    assert len(splits) == 29 + 1


def test_membership_is_strict_and_shared():
    splits = Splits(np.array([0, 0]), np.array([1.0, 2.0]))
    X = np.array([[1.0], [np.nextafter(1.0, 2)], [2.0], [np.inf]])
    np.testing.assert_array_equal(splits.indicators(X), [[0, 1, 1, 1], [0, 0, 0, 1]])


def test_rules_read_well():
    public = public_sample([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], ("no", "yes"))
    cover = DecisionTrees().build_cover(public, alpha=0.01, beta=0.05)
    merged = cover.hypothesis((0, ((1, (0, 0)), (1, (0, 1)))))
    assert str(merged).splitlines() == [
        "if x0 > 0.5:",
        "    if x1 > 0.5:",
        "        predict yes",
        "    else:",
        "        predict no",
        "else:",
        "    predict no",
    ]
    assert str(cover.hypothesis((0, ((1, (1, 1)), (1, (1, 1)))))) == "predict yes"


@every_class
def test_the_repr_of_a_rule(hypotheses, classes):
    named = PublicSample(np.vstack([PUBLIC, PUBLIC + 0.3]), np.array(classes), ("a<b", "b & c"))
    if getattr(hypotheses, "max_depth", 0) == 3:
        named = PublicSample(TWO_SPLITS, np.array(classes), ("a<b", "b & c"))
    cover = hypotheses.build_cover(named, alpha=0.01, beta=0.05)
    table = tabulate(cover, named.X, np.arange(len(named.X)) % len(classes))
    paths = [path for path, _, _ in itertools.islice(cover.family(table).members(), 40)]
    for rule in map(cover.hypothesis, paths):
        text, html = repr(rule), rule._repr_html_()
        assert text.startswith(f"<{type(rule).__name__}: ")
        assert text.endswith(">")
        assert "\n" not in text
        assert len(text) < 340
        if len(text) < 300:
            assert text.split(": ", 1)[1] == " ".join(str(rule).split()) + ">"
        assert html_unescape(html.split("<pre>")[1].split("</pre>")[0]) == str(rule)
        assert "a<b" not in html
        assert "b & c" not in html


def test_the_repr_of_a_long_rule_is_shortened():
    names = tuple(f"{column} of a long name, so long that no line holds it" * 5 for column in "xy")
    public = PublicSample(PUBLIC, np.array(["no", "yes"]), names)
    cover = DecisionTrees().build_cover(public, alpha=0.01, beta=0.05)
    rule = cover.hypothesis((0, ((1, (0, 0)), (1, (0, 1)))))
    assert len(str(rule)) > 400
    assert repr(rule).endswith("...>")
    assert len(repr(rule)) < 340


def test_no_splits_leave_the_constants():
    cover = make_cover(DecisionTrees(), (0, 1, 2), np.ones((5, 2)))
    assert cover.size == 3
    family = cover.family(tabulate(cover, np.zeros((4, 2)), [0, 0, 2, 2]))
    assert [errors for _, errors, _ in family.members()] == [2, 4, 2]
    assert str(cover.hypothesis(2)) == "predict 2"


@pytest.mark.parametrize(
    ("hypotheses", "classes", "message"),
    [
        (Thresholds(), (0, 1, 2), r"Use Stumps\(\)"),
        (Thresholds(feature=2), (0, 1), "below 2; got 2"),
        (Thresholds(feature=1.0), (0, 1), r"below 2; got 1\.0"),
        (DecisionTrees(max_depth=4), (0, 1), "max_depth must"),
        (Intervals(), (0, 1, 2), "Rectangles .*Stumps"),
        (Conjunctions(), (0, 1, 2), "Conjunctions .*3"),
        (Conjunctions(max_literals=4), (0, 1), "max_literals must"),
        (Rectangles(features=[0, 5]), (0, 1), "features must .*below 2"),
        (Rectangles(features=[]), (0, 1), "features must"),
        (Rectangles(cuts=[[0.0]]), (0, 1), "cuts must"),
        (Rectangles(cuts=[[1.0, 0.0], [0.0]]), (0, 1), "cuts must"),
        (Rectangles(cuts=[[np.nan], [0.0]]), (0, 1), "cuts must"),
        (FiniteClass([]), (0, 1), "fitted classifier"),
        (FiniteClass([DecisionTreeClassifier()]), (0, 1), "is not fitted"),
        (FiniteClass(MODELS), ("a", "b"), "is not fitted"),
        (Union([]), (0, 1), "one hypothesis class"),
    ],
)
def test_invalid_classes_are_explained(hypotheses, classes, message):
    with pytest.raises(ValueError, match=message):
        make_cover(hypotheses, classes)


@pytest.mark.parametrize(
    ("hypotheses", "n_features", "message"),
    [(Rectangles(), 4, "4 features .*Select"), (Rectangles(), 3, "3 features .*alpha")],
)
def test_too_many_boxes_are_refused(hypotheses, n_features, message):
    public = public_sample(np.random.default_rng(0).normal(size=(300, n_features)))
    with pytest.raises(CoverSizeError, match=message):
        hypotheses.build_cover(public, alpha=0.01, beta=0.05)


def test_a_table_too_large_is_refused_with_its_size_and_a_remedy():
    public = public_sample(np.random.default_rng(0).normal(size=(400, 30)))
    with pytest.raises(CoverSizeError, match=r"splits.*alpha"):
        DecisionTrees().build_cover(public, alpha=0.001, beta=0.05)


class LeakyModel(LogisticRegression):
    """A model whose warnings and errors quote the rows that it predicts."""

    def predict(self, X):
        warnings.warn(f"the largest is {X.max()}", UserWarning, stacklevel=2)
        if X.max() > 1000:
            raise ValueError(f"cannot predict {X.max()}")
        return super().predict(X)


def test_messages_of_models_are_suppressed():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
    model = LeakyModel().fit(X, y)
    cover = FiniteClass([model]).build_cover(public_sample(X), alpha=0.5, beta=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tabulate(cover, X, y).shape == (1,)
        with pytest.raises(ValueError, match="finite numbers") as caught:
            tabulate(cover, 4242 * X, y)
    assert "4242" not in str(caught.value)
    assert caught.value.__context__ is None


def test_clones_keep_models_fitted():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
    model = LogisticRegression().fit(X, y)
    assert clone(SemiPrivateClassifier(FiniteClass([model]))).hypotheses.models[0] is model
