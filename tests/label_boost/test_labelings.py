"""Labellings by boxes and halfplanes: each listed once, whatever the rows, as the proof needs."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.hypotheses import Halfspaces, Intervals, PublicSample, Rectangles, Stumps
from tests.internals.label_boost import (
    GridLabelings,
    HalfplaneLabelings,
    all_labelings,
    check_relabelling,
    log_n_labelings,
    max_relabelled_rows,
)
from tests.internals.mechanisms import Leaf, probabilities
from tests.internals.query_release import HalfspaceDichotomies

CLASSES = np.arange(2)


def errors_by_labeling(kind, X, y):
    """Return {labelling: errors} of a class, and refuse a labelling that is listed twice."""
    labelings = all_labelings(kind, X, CLASSES)
    found = {}
    for path, errors, prior in labelings.family(y).members():
        labeling = tuple(labelings.labels(path).tolist())
        assert labeling not in found
        assert prior == 1
        found[labeling] = errors
    return found


def box_labelings(X):
    """Return all labellings by boxes with sides at values of rows, and the empty one."""
    found = {(0,) * len(X)}
    sides = [itertools.combinations_with_replacement(np.unique(column), 2) for column in X.T]
    for box in itertools.product(*map(list, sides)):
        low, high = np.transpose(box)
        found.add(tuple(((low <= X) & (high >= X)).all(axis=1).astype(int).tolist()))
    return found


def halfplane_labelings(X):
    """Return all labellings by halfspaces, by the arrangement of all lines through two points."""
    points, point_of_row = np.unique(X, axis=0, return_inverse=True)
    return {
        tuple(signs[point_of_row.ravel()].astype(int).tolist())
        for signs in HalfspaceDichotomies(points).signs
    }


CUTS = [[0.5, 1.5], [-0.2, 0.7, 3.0], [0.3, 0.9]]


def grid_labelings(X):
    """Return all labellings by boxes between `CUTS`, and the empty one."""
    found = {(0,) * len(X)}
    ends = [[-np.inf, *cuts, np.inf] for cuts in CUTS[: X.shape[1]]]
    sides = [itertools.combinations(axis, 2) for axis in ends]
    for box in itertools.product(*map(list, sides)):
        low, high = np.transpose(box)
        found.add(tuple(((low < X) & (high >= X)).all(axis=1).astype(int).tolist()))
    return found


@pytest.mark.parametrize("width", [1, 2, 3])
def test_boxes_between_cuts_against_brute_force(width):
    """Each labelling by the class once, also if many rows are in one cell."""
    kind = Rectangles(cuts=CUTS[:width])
    rng = np.random.default_rng(width)
    for _ in range(60):
        n = int(rng.integers(1, 9))
        X = rng.integers(-1, 4, (n, width)) / 2
        y = rng.integers(0, 2, rng.integers(1, n + 1))
        found = errors_by_labeling(kind, X, y)
        assert set(found) == grid_labelings(X)
        for labeling, errors in found.items():
            assert errors == (np.array(labeling[: len(y)]) != y).sum()
        assert np.log(len(found)) <= log_n_labelings(kind, [n], width, 2)[0] + 1e-12


def test_boxes_between_cuts_relabel_any_number_of_rows():
    few = Rectangles(cuts=[np.arange(47.0)] * 2)
    three = Rectangles(cuts=[np.arange(18.0)] * 3)
    assert max_relabelled_rows(three, 3) is None
    assert np.exp(log_n_labelings(three, [10**9], 3, 2)[0]) == pytest.approx(1 + (19 * 20 / 2) ** 3)
    assert max_relabelled_rows(few, 2) is None
    assert max_relabelled_rows(Rectangles(cuts=[np.arange(48.0)] * 2), 2) == 255
    assert max_relabelled_rows(Rectangles(), 2) == 255
    assert np.exp(log_n_labelings(few, [10**9], 2, 2)[0]) == pytest.approx(1 + (48 * 49 / 2) ** 2)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (2, 1, 3), (2, 3, 2, 2)])
def test_boxes_of_a_grid_are_those_of_its_points(shape):
    """Summed-area tables find the labellings of `BoxLabelings`, in any number of columns."""
    rng = np.random.default_rng(len(shape))
    for n in (1, 5, 30):
        cells = np.array([rng.integers(0, n_cells, n) for n_cells in shape])
        y = rng.integers(0, 2, n // 2 + 1)
        labelings = GridLabelings(cells, shape)
        found = {}
        for path, errors, _ in labelings.family(y).members():
            labels = labelings.labels(path)
            assert errors == (labels[: len(y)] != y).sum()
            found[tuple(labels.tolist())] = errors
        assert len(found) == len(labelings.errors(y))
        assert set(found) == box_labelings(cells.T)
        if len(shape) == 2:
            assert found == errors_by_labeling(Rectangles(), cells.T.astype(float), y)


def test_three_columns_need_few_cuts():
    for hypotheses in (Rectangles(), Rectangles(cuts=[np.arange(19.0)] * 3)):
        with pytest.raises(ValueError, match="at most 8388608"):
            check_relabelling(hypotheses, 3, CLASSES)
    check_relabelling(Rectangles(cuts=[np.arange(18.0)] * 3), 3, CLASSES)
    check_relabelling(Rectangles(cuts=[np.arange(2.0), np.arange(70.0), [0.5]]), 3, CLASSES)
    with pytest.raises(ValueError, match="got 4 columns"):
        check_relabelling(Rectangles(cuts=[[0.0]] * 4), 4, CLASSES)
    with pytest.raises(ValueError, match="Halfspaces"):
        check_relabelling(Halfspaces(), 3, CLASSES)


BRUTE = {"boxes": (Rectangles(), box_labelings), "halfplanes": (Halfspaces(), halfplane_labelings)}


@pytest.mark.parametrize("name", BRUTE)
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("ties", [False, True])
def test_against_brute_force(name, width, ties):
    kind, brute = BRUTE[name]
    rng = np.random.default_rng(width + 2 * ties)
    for _ in range(40):
        n = int(rng.integers(1, 8))
        X = rng.integers(0, 3, (n, width)) / 1.0 if ties else rng.normal(size=(n, width))
        y = rng.integers(0, 2, rng.integers(1, n + 1))
        found = errors_by_labeling(kind, X, y)
        assert set(found) == brute(X)
        for labeling, errors in found.items():
            assert errors == (np.array(labeling[: len(y)]) != y).sum()
        assert np.log(len(found)) <= log_n_labelings(kind, [n], width, 2)[0] + 1e-12
        if not ties and name == "halfplanes":  # in general position the bound is the number
            assert np.log(len(found)) == pytest.approx(log_n_labelings(kind, [n], width, 2)[0])


def lines_through(X):
    """Return how many distinct points each line through two of them holds, by exact arithmetic."""
    points = sorted({tuple(map(Fraction, row)) for row in X.tolist()})
    lines = {}
    for (a, b), (c, d) in itertools.combinations(points, 2):
        slope = (d - b) / (c - a) if c != a else None
        lines.setdefault((slope, a if slope is None else b - slope * a), set()).update(
            [(a, b), (c, d)]
        )
    return [len(on) for on in lines.values()]


NEARLY = {
    "tenths": np.array([[k / 10, 3 * k / 10] for k in range(7)] + [[0.05, 0.3], [0.1, 0.25]]),
    "thirds": np.array([[k / 3, k / 7] for k in range(8)]),
    "apart": np.array([[0, 0], [1, 1], [2, 2], [3, np.nextafter(3, 4)], [4, 4], [1, 2.0]]),
    "huge": np.array([[0, 0], [1e308, 1e308], [-1e308, -1e308], [1e308, -1e308], [5e307, 5e307]]),
    "tiny": np.array([[0, 0], [5e-324, 1e308], [1e-323, 1e308], [5e-324, 0], [1.0, 1.0]]),
    "grid": np.array(list(itertools.product(range(3), range(3)))) * 2.0**-40,
    "one line": np.array([[1.0, k] for k in range(6)]),
    "wide": np.array([[2.0**60 + 2.0**10 * k, k] for k in range(5)] + [[0.0, 3.0]]),
}


@pytest.mark.parametrize("name", NEARLY)
def test_no_rounding_adds_or_loses_a_halfplane(name):
    """A line of k points gives 2 (k - 1) labellings that no other line does; 2 are constant."""
    X = NEARLY[name]
    found = errors_by_labeling(Halfspaces(), X, np.zeros(1, dtype=int))
    assert len(found) == 2 + sum(2 * (k - 1) for k in lines_through(X))
    # as the proof requires: without a row the other rows have the same labellings
    for row in range(len(X)):
        rest = errors_by_labeling(Halfspaces(), np.delete(X, row, axis=0), np.zeros(1, dtype=int))
        assert {labeling[:row] + labeling[row + 1 :] for labeling in found} == set(rest)


KINDS = [(Rectangles(), 2), (Halfspaces(), 2), (Rectangles(cuts=[[0.5, 1.5, 2.5]] * 3), 3)]


@pytest.mark.parametrize(("kind", "width"), KINDS)
def test_an_additional_row_extends_a_labeling_in_at_most_two_ways(kind, width):
    X = np.random.default_rng(3).integers(0, 4, (8, width)).astype(float)
    y = np.zeros(1, dtype=int)
    common = errors_by_labeling(kind, X[:-1], y)
    counts = dict.fromkeys(common, 0)
    for labeling in errors_by_labeling(kind, X, y):
        counts[labeling[:-1]] += 1
    assert set(counts.values()) == {1, 2}


def test_halfplanes_equal_the_cover_of_the_hypothesis_class():
    """The cover enumerates them in another way: rotating lines, with duplicates removed."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.random.default_rng(1).integers(0, 2, 40)
    cover = Halfspaces().build_cover(PublicSample(X, CLASSES, ("a", "b")), alpha=0.1, beta=0.1)
    errors = [int((cover.hypothesis(k).predict(X) != y).sum()) for k in range(cover.size)]
    assert sorted(errors) == sorted(HalfplaneLabelings(X).errors(y).tolist())


@pytest.mark.parametrize(("kind", "width"), KINDS)
def test_draws_follow_the_exponential_mechanism(kind, width):
    X = np.random.default_rng(5).integers(0, 3, (6, width)).astype(float)
    y = np.array([0, 1, 1, 0])
    labelings = all_labelings(kind, X, CLASSES)
    family, flat = labelings.family(y), errors_by_labeling(kind, X, y)
    plain = probabilities(Leaf(np.array(list(flat.values()), dtype=np.int64)), Fraction(3, 2), 1)
    expected = {labeling: plain[k] for k, labeling in enumerate(flat)}
    for path, (low, high) in probabilities(family, Fraction(3, 2), 1).items():
        low_high = expected[tuple(labelings.labels(path).tolist())]
        assert max(low, low_high[0]) <= min(high, low_high[1])


def test_columns_may_be_named():
    X = np.random.default_rng(6).normal(size=(5, 3))
    y = np.array([0, 1])
    both = errors_by_labeling(Rectangles([0, 2]), X, y)
    assert both == errors_by_labeling(Rectangles(), X[:, [0, 2]], y)
    assert errors_by_labeling(Rectangles([1]), X, y) == errors_by_labeling(Intervals(1), X, y)


def test_maximum_numbers_of_rows():
    for kind, width, most in (
        (Intervals(), 1, 11584),
        (Rectangles(), 2, 255),
        (Rectangles([0]), 2, 11584),
        (Halfspaces(), 2, 2048),
    ):
        assert max_relabelled_rows(kind, width) == most
    assert max_relabelled_rows(Halfspaces(), 1) is None
    assert max_relabelled_rows(Stumps(), 9) is None
