"""Learning from releases of features alone, Lemma 17 of Bassily et al. (2020)."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, dlaplace

from skpublicdp import PAPQueryRelease
from skpublicdp.guarantees import dichotomies_radius, n_public, n_release_learner, n_stumps
from skpublicdp.metrics import private_accuracy_score
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    ThresholdQueries,
    label_parts,
    learner_from_label_parts,
)
from tests.helpers import allowed_failures

VALUES = 4
THRESHOLDS = np.arange(-1.0, VALUES)[:, None]
BOTH_ENDS = np.array([[0.0], [VALUES - 1.0]])
CELLS = np.array(list(itertools.product(range(VALUES), range(2))), dtype=float)


class FixedRelease:
    """A release of thresholds with fixed answers."""

    queries_ = ThresholdQueries()

    def __init__(self, answers, guarantee):
        self.answers, self.guarantee_ = np.asarray(answers), guarantee

    def holds(self, Q, X):
        return self.queries_.holds(Q, np.asarray(X, dtype=float))

    def answer(self, Q):
        return self.answers[(np.asarray(Q)[:, 0] + 1).astype(int)]


def exact_answers(weights, fillers):
    """Return the shares of a population of `CELLS` that satisfy each threshold, in each table."""
    parts = label_parts(CELLS[:, :1], CELLS[:, 1], fillers)
    return [ThresholdQueries().holds(THRESHOLDS, part) @ weights for part in parts]


def true_errors(weights):
    return (ThresholdQueries().holds(THRESHOLDS, CELLS[:, :1]) != CELLS[:, 1]) @ weights


def test_a_replaced_row_replaces_one_row_of_each_table():
    """All data sets of three rows and all neighbours."""
    data_sets = list(itertools.product(range(len(CELLS)), repeat=3))
    for codes in data_sets:
        tables = label_parts(CELLS[list(codes), :1], CELLS[list(codes), 1], BOTH_ENDS)
        for row, cell in itertools.product(range(3), range(len(CELLS))):
            other = list(codes)
            other[row] = cell
            others = label_parts(CELLS[other, :1], CELLS[other, 1], BOTH_ENDS)
            for table, changed in zip(tables, others, strict=True):
                assert table.shape == changed.shape
                differs = (table != changed).any(axis=1)
                differs[row] = False
                assert not differs.any()


def test_exact_answers_give_the_best_query():
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights = rng.dirichlet(np.full(len(CELLS), 0.4))
        fillers = rng.integers(0, VALUES, size=(2, 1)).astype(float)
        if fillers[0] == fillers[1]:
            continue
        releases = [FixedRelease(answers, 0.0) for answers in exact_answers(weights, fillers)]
        learned = learner_from_label_parts(*releases, THRESHOLDS, fillers)
        errors = true_errors(weights)
        assert errors[int(learned.rule.query[0]) + 1] == pytest.approx(errors.min())
        assert learned.guarantee == 0
        predicted = learned.rule.predict(CELLS[:, :1])
        assert (predicted != CELLS[:, 1]) @ weights == pytest.approx(errors.min())


def test_no_more_is_lost_than_the_errors_of_the_answers_allow():
    """For all signs of the errors of two queries' answers. The bound is attained."""
    rng = np.random.default_rng(0)
    a, b, c = 0.04, 0.03, 0.02
    max_ratio = 0.0
    signs = np.array(list(itertools.product((-1, 1), repeat=5)))
    for _ in range(150):
        weights = rng.dirichlet(np.full(len(CELLS), 0.4))
        tables = exact_answers(weights, BOTH_ENDS)
        errors = true_errors(weights)
        releases = [
            FixedRelease(answers + scale * signs[rng.integers(len(signs))], scale)
            for answers, scale in zip(tables, (a, b, c), strict=True)
        ]
        learned = learner_from_label_parts(*releases, THRESHOLDS, BOTH_ENDS)
        assert learned.guarantee == pytest.approx(2 * (a + b + c))
        loss = errors[int(learned.rule.query[0]) + 1] - errors.min()
        assert loss <= learned.guarantee + 1e-12
        max_ratio = max(max_ratio, loss / learned.guarantee)
    # The worst signs, for two queries whose errors differ by nearly the bound: one below all values
    # and one up to value 1, which holds at the first filler and not at the second.
    total = 2 * (a + b + c) - 1e-9
    weights = np.zeros(len(CELLS))
    weights[2], weights[3] = (1 - total) / 2, (1 + total) / 2
    worse, better = 0, 2
    tables, errors = exact_answers(weights, BOTH_ENDS), true_errors(weights)
    assert errors[worse] - errors[better] == pytest.approx(total)
    tables[0][[better, worse]] += a, -a
    tables[1][[better, worse]] += -b, b
    tables[2][better] += c  # fewer rows of label 1
    releases = [FixedRelease(t, s) for t, s in zip(tables, (a, b, c), strict=True)]
    learned = learner_from_label_parts(*releases, THRESHOLDS[[worse, better]], BOTH_ENDS)
    max_ratio = max(max_ratio, (errors[int(learned.rule.query[0]) + 1] - errors[better]) / total)
    assert max_ratio > 0.99


def test_a_counted_share_takes_the_place_of_the_third_release():
    rng = np.random.default_rng(0)
    for _ in range(100):
        weights = rng.dirichlet(np.full(len(CELLS), 0.4))
        releases = [FixedRelease(table, 0.1) for table in exact_answers(weights, BOTH_ENDS)]
        share = float(weights @ CELLS[:, 1])
        learned = learner_from_label_parts(*releases[:2], (share, 0.02), THRESHOLDS, BOTH_ENDS)
        released = learner_from_label_parts(*releases, THRESHOLDS, BOTH_ENDS)
        assert learned.rule.query == released.rule.query
        assert learned.guarantee == pytest.approx(2 * (0.1 + 0.1 + 0.02))
    with pytest.raises(ValueError, match="error must"):
        learner_from_label_parts(*releases[:2], (share, -0.1), THRESHOLDS, BOTH_ENDS)


def test_the_count_is_as_accurate_as_its_size():
    """The exact probability for fair labels, which are the hardest to count."""
    alpha, beta, epsilon = 0.4, 0.05, 1.0
    n = n_stumps(alpha / 100, beta / 4, 0.02 * epsilon, 0, p=1)
    assert n <= n_release_learner(alpha, beta, epsilon, 1e-6, 1, 1)
    k = np.arange(n + 1)
    is_within = dlaplace.cdf(np.floor(n / 2 + alpha / 100 * n - k), 0.02 * epsilon)
    is_below = dlaplace.cdf(np.ceil(n / 2 - alpha / 100 * n - k) - 1, 0.02 * epsilon)
    failure = 1 - binom.pmf(k, n, 0.5) @ (is_within - is_below)
    assert failure <= beta / 4
    y = np.arange(n) < n // 2
    share = private_accuracy_score(y, np.ones(n), epsilon=0.02 * epsilon, random_state=0)
    assert abs(float(share) - 0.5) <= alpha / 100


def test_the_labels_are_not_needed_where_all_queries_agree():
    weights = np.full(len(CELLS), 1 / len(CELLS))
    tables = exact_answers(weights, BOTH_ENDS)
    releases = [FixedRelease(answers, 0.1) for answers in tables]
    above = THRESHOLDS[1:]  # all hold at the first filler
    learned = learner_from_label_parts(*releases[:2], None, above, BOTH_ENDS)
    assert learned.guarantee == pytest.approx(0.4)
    with pytest.raises(ValueError, match="of the labels"):
        learner_from_label_parts(*releases[:2], None, THRESHOLDS, BOTH_ENDS)
    same = np.zeros((2, 1))
    with pytest.raises(ValueError, match="fillers"):
        learner_from_label_parts(*releases, THRESHOLDS, same)
    releases[1].guarantee_ = None
    assert learner_from_label_parts(*releases, THRESHOLDS, BOTH_ENDS).guarantee is None


def test_with_public_rows_it_is_over_the_class():
    """Thresholds at public rows, and the best threshold in the widest gap between them."""
    beta, failures, runs, m = 0.1, 0, 200, 40
    for seed in range(runs):
        public = np.random.default_rng(seed).random((m, 1))
        cuts = np.concatenate([[0.0], np.sort(public[:, 0]), [1.0]])
        gap = np.diff(cuts).argmax()
        best = cuts[gap : gap + 2].mean()
        Q = cuts[:-1, None]  # one threshold for each labelling of the public rows
        rows = (np.arange(4000.0)[:, None] + 0.5) / 4000
        fillers = np.array([[0.1], [0.9]])
        releases = []
        for part in label_parts(rows, rows[:, 0] <= best, fillers):
            release = FixedRelease([], 0.0)
            release.answer = lambda Q, part=part: ThresholdQueries().holds(Q, part).mean(axis=1)
            releases.append(release)
        learned = learner_from_label_parts(*releases, Q, fillers, X_public=public, beta=beta)
        assert learned.guarantee == dichotomies_radius(m, beta, 2 * m + 1)
        failures += abs(learned.rule.query[0] - best) > learned.guarantee
        assert learner_from_label_parts(*releases, Q, fillers).guarantee == 0
    assert failures <= allowed_failures(runs, beta)
    with pytest.raises(ValueError, match="beta must be given"):
        learner_from_label_parts(*releases, Q, fillers, X_public=public)


def releases_of(queries, X, y, m, fillers, **settings):
    private = label_parts(X[m:], y[m:], fillers)
    public = label_parts(X[:m], y[:m], fillers)
    return [
        PAPQueryRelease(queries, method="pmw", **settings).fit(rows, X_public=public_rows)
        for rows, public_rows in zip(private, public, strict=True)
    ]


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
@pytest.mark.parametrize(
    ("queries", "Q"),
    [
        (ThresholdQueries(), np.arange(-1.0, 10)[:, None]),
        (CustomQueries(lambda X: X[:, :1] % np.arange(1, 5) == 0), np.arange(4)[:, None]),
        (
            HalfspaceQueries(),
            np.array([[1.0, b] for b in range(11)] + [[-1.0, -b] for b in range(11)]),
        ),
    ],
    ids=["thresholds", "custom", "halfspaces"],
)
def test_every_query_class_learns(queries, Q):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, size=(31_000, 1)).astype(float)
    truth = X[:, 0] % 3 == 0 if isinstance(queries, CustomQueries) else X[:, 0] <= 3
    y = truth ^ (rng.random(len(X)) < 0.1)
    fillers = np.array([[1.0], [6.0]])
    releases = releases_of(queries, X, y, 1000, fillers, epsilon=0.3, random_state=0)
    learned = learner_from_label_parts(*releases, Q, fillers)
    assert (learned.rule.predict(X) != truth).mean() < 0.12
    expected = 2 * sum(release.guarantee_ for release in releases)
    assert learned.guarantee == pytest.approx(min(1, expected))
    assert "predict 1 where the query" in str(learned.rule)


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
@pytest.mark.parametrize("swapped", [False, True], ids=["in-order", "swapped"])
@pytest.mark.parametrize("Q", [[[-1.0], [5.0], [20.0]], [[5.0], [7.0]]], ids=["any", "agreeing"])
def test_rows_of_one_label_are_not_moved_to_those_of_the_other(Q, swapped):
    """The bounds of a release are around the rows of one label, and here far from the others."""
    rng = np.random.default_rng(0)
    X = rng.random((31_000, 1)) + 10 * (rng.random((31_000, 1)) < 0.5)
    y = X[:, 0] < 5
    fillers = np.array([[0.5], [10.5]])[:: -1 if swapped else 1]
    releases = releases_of(ThresholdQueries(), X, y, 1000, fillers, epsilon=1, random_state=0)
    rule = learner_from_label_parts(*releases, Q, fillers).rule
    assert rule.query[0] == 5
    assert (rule.predict(X) == y).all()
    assert releases[1].holds([[5.0]], X[~y]).all() != swapped  # the release itself is unchanged


@pytest.mark.slow
def test_the_promise_is_kept_at_the_size_that_is_counted():
    """A smoke test: with so many rows no run comes near the bound."""
    alpha, beta = 0.8, 0.2
    n = n_release_learner(alpha, beta, 3.0, 1e-6, 1, 1)
    m = n_public(0.23 * alpha / 4, beta / 8, 1, constants="tight")
    failures, runs = 0, 20
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X = rng.random((m + n, 1))
        y = (X[:, 0] <= 0.4) ^ (rng.random(len(X)) < 0.1)
        fillers = np.array([[0.2], [0.8]])
        releases = releases_of(
            ThresholdQueries(),
            X,
            y,
            m,
            fillers,
            epsilon=0.49 * 3,
            delta=1e-6 / 2,
            beta=beta / 4,
            random_state=seed,
        )
        share = private_accuracy_score(y[m:], np.ones(n), epsilon=0.02 * 3, random_state=seed)
        labels = (float(share), alpha / 100)
        Q = np.concatenate([[0.0], X[:m, 0]])[:, None]
        learned = learner_from_label_parts(
            *releases[:2], labels, Q, fillers, X_public=X[:m], beta=beta / 4
        )
        assert learned.guarantee <= alpha
        assert learned.guarantee > 0.5 * alpha
        failures += 0.8 * abs(learned.rule.query[0] - 0.4) > learned.guarantee
    assert failures <= allowed_failures(runs, beta)


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="must have shapes"):
        label_parts([[0.0]], [0, 1], BOTH_ENDS)
    with pytest.raises(ValueError, match="must have shapes"):
        label_parts([[0.0]], [0], [[1.0]])
    for y in ([2], [math.nan], [-1], ["secret"], [None], [[0], 1]):
        with pytest.raises(ValueError, match="labels 0") as error:
            label_parts([[0.0]], y, BOTH_ENDS)
        assert "secret" not in str(error.value)
    for X in ([["secret"]], np.array([["secret"]]), [[0.0, "secret"]], [[10**400]]):
        with pytest.raises(ValueError, match="numbers only") as error:
            label_parts(X, [0], BOTH_ENDS)
        assert "secret" not in str(error.value)
