"""Learning from a release of the errors of rules, the easier half of Lemma 17."""

import itertools
import pickle

import numpy as np
import pytest

from skpublicdp import PAPQueryRelease
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.hypotheses import DecisionTrees, Stumps, Thresholds
from skpublicdp.query_release import ErrorQueries, learner_from_release
from tests.helpers import allowed_failures

LINE = np.arange(4.0)[:, None]
ERRORS = ErrorQueries.of(Thresholds(), LINE)
CELLS = np.array(list(itertools.product(range(4), range(2))), dtype=float)


class FixedRelease:
    """A release with fixed answers."""

    guarantee_ = 0.125

    def __init__(self, answers):
        self.answers = np.asarray(answers)

    def answer(self, Q):
        return self.answers[np.asarray(Q)[:, 0]]


def test_error_queries_of_all_rules():
    assert len(ERRORS.rules) == 5
    positions = np.arange(5)[:, None]
    errors = ERRORS.holds(positions, CELLS)
    for rule, row in zip(ERRORS.rules, errors, strict=True):
        np.testing.assert_array_equal(row, rule.predict(CELLS[:, :1]) != CELLS[:, 1])
    assert len({tuple(row) for row in errors}) == 5


def test_no_more_is_lost_than_twice_the_error_of_the_answers():
    """For all signs of the errors of answers, and many populations. The bound is attained."""
    rng = np.random.default_rng(0)
    max_loss, error = 0.0, FixedRelease.guarantee_
    errors = ERRORS.holds(np.arange(5)[:, None], CELLS)
    populations = [rng.dirichlet(np.full(8, 0.5)) for _ in range(30)]
    populations.append(np.array([1, 0, 0.125, 0, 0.125, 0, 6.75, 0]) / 8)
    for shares in populations:
        truth = errors @ shares
        for signs in itertools.product((-1, 0, 0.999, 1), repeat=5):
            learned = learner_from_release(FixedRelease(truth + error * np.array(signs)), ERRORS)
            position = [rule is learned.rule for rule in ERRORS.rules].index(True)
            loss = truth[position] - truth.min()
            assert loss <= learned.guarantee + 1e-12
            max_loss = max(max_loss, loss)
    assert max_loss > 0.8 * 2 * error


def test_no_guarantee_without_one_of_the_release():
    release = FixedRelease(np.zeros(5))
    release.guarantee_ = None
    assert learner_from_release(release, ERRORS).guarantee is None
    release.guarantee_ = 0.9
    assert learner_from_release(release, ERRORS).guarantee == 1


def test_with_beta_it_is_over_the_class_that_was_covered():
    """The best rule lies between two public rows, far from all listed rules."""
    beta, failures, max_ratio = 0.1, 0, 0.0
    for seed in range(200):
        X = np.random.default_rng(seed).random((60, 1))
        errors = ErrorQueries.of(Thresholds(), X)
        cuts = np.concatenate([[0.0], np.sort(X[:, 0]), [1.0]])
        gap = np.diff(cuts).argmax()
        best = cuts[gap : gap + 2].mean()  # the threshold without error, which is not listed
        grid = (np.arange(4000.0)[:, None] + 0.5) / 4000
        truth = np.array([(r.predict(grid) != (grid[:, 0] > best)).mean() for r in errors.rules])
        release = FixedRelease(truth)
        release.guarantee_ = 0.0
        learned = learner_from_release(release, errors, beta=beta)
        loss = truth[[rule is learned.rule for rule in errors.rules].index(True)]
        failures += loss > learned.guarantee
        max_ratio = max(max_ratio, loss / learned.guarantee)
        assert learner_from_release(release, errors).guarantee == 0  # of the listed rules
    assert failures <= allowed_failures(200, beta)
    assert max_ratio > 0.3


def test_cover_error_of_listed_rules():
    listed = ErrorQueries(ERRORS.rules)
    assert listed.cover_error(0.05) == 0
    assert learner_from_release(FixedRelease(np.zeros(5)), listed, beta=0.05).guarantee == 0.25
    radius = ERRORS.cover_error(0.05)
    assert 0.25 < radius <= 1
    assert pickle.loads(pickle.dumps(ERRORS)).cover_error(0.05) == radius


@pytest.mark.parametrize("method", ["auto", "pmw"])
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
def test_learning_from_pap_query_release(method):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, size=20_000)
    rows = np.column_stack([x, (x > 1) ^ (rng.random(len(x)) < 0.1)]).astype(float)
    release = PAPQueryRelease(ERRORS, method=method, epsilon=0.9, random_state=0)
    release.fit(rows, X_public=CELLS.repeat(25, axis=0))
    rule, guarantee = learner_from_release(release, ERRORS)
    np.testing.assert_array_equal(rule.predict(LINE), [0, 0, 1, 1])
    assert (guarantee is None) == (method == "auto")
    assert release.privacy_.epsilon == 0.9  # learning is post-processing


def test_too_many_rules_are_refused():
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(CoverSizeError, match="4096 are allowed"):
        ErrorQueries.of(DecisionTrees(), X)
    assert len(ErrorQueries.of(Stumps(), X, alpha=0.1).rules) < 100
