"""Simulate how often a learner exceeds an excess error with a given number of rows.

The simulations are used by sample_sizes.py. Each function returns the fraction of failures in the
worst of a few populations.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skpublicdp import (
    GenericLearnerClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import Gaussian, Sensitivity, gaussian_mu_squared
from skpublicdp.guarantees import n_private, n_public
from skpublicdp.hypotheses import FiniteClass, Thresholds
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release import ThresholdQueries

BETA = 0.05
EPSILON = 1.0
RELEASE_EPSILON, DELTA = 0.5, 1e-6  # Lemma 7 is for ε below 1
N_RULES = 1000
N_COLUMNS = 10_000
N_RUNS = 40
LABELS = (False, True)

# Populations of one number, uniform on [0, 1]. The error of a threshold t is known exactly: each
# population labels x by the threshold 1/2 and flips the label with a constant probability.

FLIPS = (0.0, 0.25, 0.4)


def threshold_rows(n: int, flip: float, rng: np.random.Generator):
    """Return n rows with one uniform feature and noisy labels."""
    x = rng.random(n)
    return x[:, None], (x > 0.5) ^ (rng.random(n) < flip)


def threshold_excess(model, flip: float) -> float:
    """Return the excess population error of a threshold or constant model."""
    grid = (np.arange(4000) + 0.5) / 4000
    wrong = np.mean(model.predict(grid[:, None]).astype(bool) != (grid > 0.5))
    return float(wrong * (1 - 2 * flip))


def worst(failed: Callable[[float, np.random.Generator], bool], cases, seed: int) -> float:
    """Return the maximum fraction of failures in N_RUNS runs over the cases."""
    fractions = []
    for index, case in enumerate(cases):
        rng = np.random.default_rng([seed, index])
        fractions.append(np.mean([failed(case, rng) for _ in range(N_RUNS)]))
    return float(max(fractions))


class Column(ClassifierMixin, BaseEstimator):
    """Fitted rule that predicts the value of one binary column."""

    def __init__(self, column: int) -> None:
        self.column = column

    def fit(self, X, y=None):
        """Learn nothing."""
        self.classes_ = np.array([False, True])
        return self

    def predict(self, X):
        """Return the column as booleans."""
        return np.asarray(X)[:, self.column] > 0.5


RULES = FiniteClass([Column(column).fit(None) for column in range(N_RULES)])


def finite_failures(n: int, alpha: float, seed: int) -> float:
    """Simulate one column that agrees with the label slightly more than alpha above fair coins."""

    def failed(_, rng):
        X = rng.integers(2, size=(n, N_RULES))
        best = rng.integers(N_RULES)
        y = X[:, best].astype(bool) ^ (rng.random(n) < 0.5 - 1.01 * alpha)
        learner = SemiPrivateClassifier(
            RULES, epsilon=EPSILON, classes=LABELS, random_state=draw_seed(rng)
        )
        one_row = np.zeros((1, N_RULES))
        return learner.fit(X, y, X_public=one_row).hypothesis_.model.column != best

    return worst(failed, [None], seed)


def semi_private_failures(n: int, m: int, alpha: float, seed: int) -> float:
    """Simulate thresholds with n private and m public rows, and a member for each dichotomy."""

    def failed(flip, rng):
        learner = SemiPrivateClassifier(
            Thresholds(),
            epsilon=EPSILON,
            alpha=0.5 / m,
            classes=LABELS,
            random_state=draw_seed(rng),
        )
        X, y = threshold_rows(n, flip, rng)
        learner.fit(X, y, X_public=rng.random((m, 1)))
        return threshold_excess(learner, flip) > alpha

    return worst(failed, FLIPS, seed)


def private_failures(n: int, alpha: float, seed: int) -> float:
    """Simulate a number of private rows with the theorem's number of public rows."""
    return semi_private_failures(
        n, n_public(alpha / 2, BETA / 2, 1, constants="tight"), alpha, seed
    )


def public_failures(m: int, alpha: float, seed: int) -> float:
    """Simulate a number of public rows with the theorem's number of private rows."""
    return semi_private_failures(
        n_private(alpha, BETA, EPSILON, 1, constants="tight"), m, alpha, seed
    )


def generic_failures(labelled: int, unlabelled: int, alpha: float, seed: int) -> float:
    """Simulate the generic learner of thresholds without public rows."""

    def failed(flip, rng):
        X, y = threshold_rows(labelled + unlabelled, flip, rng)
        learner = GenericLearnerClassifier(
            Thresholds(),
            epsilon=EPSILON,
            alpha=0.01,
            classes=LABELS,
            random_state=draw_seed(rng),
        )
        known = np.arange(len(X)) < labelled
        learner.fit(X, y, is_labelled=known)
        return threshold_excess(learner, flip) > alpha

    return worst(failed, FLIPS, seed)


def release_failures(n: int, alpha: float, seed: int) -> float:
    """Simulate the release of all thresholds with multiplicative weights on a cover."""
    m = n_public(alpha / 4, BETA / 2, 1, constants="tight")

    def failed(atoms, rng):
        def numbers(size):
            if atoms:  # two values: the answer between them has the largest sampling error
                return rng.integers(2, size=(size, 1)).astype(float)
            return rng.random((size, 1))

        release = PAPQueryRelease(
            ThresholdQueries(),
            epsilon=RELEASE_EPSILON,
            delta=DELTA,
            method="pmw",
            alpha=alpha,
            random_state=draw_seed(rng),
        )
        release.fit(numbers(n), X_public=numbers(m))
        at = np.array([0.5]) if atoms else np.arange(1, 200) / 200
        truth = np.array([0.5]) if atoms else at
        return np.abs(release.cdf(at) - truth).max() > alpha

    return worst(failed, (False, True), seed)


def stump_failures(n: int, alpha: float, seed: int) -> float:
    """Simulate noisy counts of fair coins."""
    event = Gaussian(gaussian_mu_squared(Fraction(1), Fraction(DELTA)))

    def failed(_, rng):
        counts = rng.binomial(n, 0.5, size=N_COLUMNS)
        ledger = Ledger(1, Fraction(DELTA), random_state=draw_seed(rng))
        noisy = ledger.add_noise(
            counts, Sensitivity(N_COLUMNS, N_COLUMNS), event, name="counts", proof="noise"
        )
        return np.abs(noisy.values / n - 0.5).max() > alpha

    return worst(failed, [None], seed)


def mixture_failures(n: int, alpha: float, seed: int) -> float:
    """Simulate halfspaces in the plane, with unflipped rows of label 0 as the public half."""
    grid = np.random.default_rng(1).normal(size=(20_000, 2))

    def failed(flip, rng):
        X = rng.normal(size=(n, 2))
        normal = rng.normal(size=2)
        label = (X @ normal > 0) ^ ((rng.random(n) < flip) & (X @ normal > 0))
        learner = PPMHalfspaceClassifier(
            epsilon=EPSILON, pool="paper", private_label=True, random_state=draw_seed(rng)
        )
        learner.fit(X, label, is_public=~label)
        positive = grid @ normal > 0
        predicted = learner.predict(grid).astype(bool)
        # rows on the positive side have label 1 with probability 1 - flip
        excess = np.mean(predicted & ~positive) + (1 - 2 * flip) * np.mean(~predicted & positive)
        return excess > alpha

    return worst(failed, (0.0, 0.25), seed)


def draw_seed(rng: np.random.Generator) -> int:
    """Return a seed for one fit."""
    return int(rng.integers(2**31))
