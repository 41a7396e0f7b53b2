"""A private agnostic learner gives a release: Lemma 10 of docs/proofs/multiplicative_weights.md."""

import math

import numpy as np
import pytest

from skpublicdp import SemiPrivateClassifier
from skpublicdp.guarantees import n_finite
from skpublicdp.hypotheses import FiniteClass

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning"),
]

N_VALUES = 8


class OneSide:
    """All values on one side of a cut, as a fitted classifier."""

    classes_ = np.array([0, 1])

    def __init__(self, cut, sign):
        self.cut, self.sign = cut, sign

    def predict(self, X):
        return (self.sign * (X[:, 0] - self.cut) > 0).astype(int)


CUTS = np.arange(N_VALUES + 1) - 0.5
SIDES = [OneSide(cut, sign) for cut in CUTS for sign in (-1, 1)]
DOMAIN = np.arange(float(N_VALUES))[:, None]
HOLDS = np.array([side.predict(DOMAIN) for side in SIDES])  # (n_queries, N_VALUES)


def release_by_learning(draw_rows, n_rounds, n, learner, rng):
    """Return the average weights: each round learns on rows of its own, labelled by a coin."""
    rate = math.sqrt(8 * math.log(N_VALUES) / n_rounds)
    log_weights, average = np.zeros(N_VALUES), np.zeros(N_VALUES)
    for seed in range(n_rounds):
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        average += weights / n_rounds
        is_private = rng.random(n) < 0.5
        rows = np.where(is_private, draw_rows(n), rng.choice(N_VALUES, size=n, p=weights))
        learner.set_params(random_state=seed).fit(
            rows[:, None].astype(float), is_private.astype(int)
        )
        log_weights += rate * learner.predict(DOMAIN)
    return average


def test_the_answers_are_within_the_bound():
    """A smoke test: the bound holds with probability .9, and no run comes near it."""
    a, beta, n_rounds = 0.06, 0.1, 60
    n = n_finite(a, beta / n_rounds, 1.0, len(SIDES))
    learner = SemiPrivateClassifier(FiniteClass(SIDES), beta=beta / n_rounds, classes=[0, 1])
    bound = math.sqrt(math.log(N_VALUES) / (2 * n_rounds)) + 2 * a
    largest = 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        population = rng.dirichlet(np.full(N_VALUES, 0.2))

        def draw_rows(n, rng=rng, population=population):
            return rng.choice(N_VALUES, size=n, p=population)

        weights = release_by_learning(draw_rows, n_rounds, n, learner, rng)
        assert learner.guarantee_ <= a
        errors = np.abs(HOLDS @ (weights - population))
        untaught = np.abs(HOLDS @ (1 / N_VALUES - population))
        assert errors.max() <= bound
        assert errors.max() < untaught.max() / 2
        largest = max(largest, errors.max())
    assert largest > bound / 10
