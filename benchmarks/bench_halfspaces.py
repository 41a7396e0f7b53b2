"""Which estimators learn a halfspace of d columns from n private rows at ε, and how well.

``python benchmarks/bench_halfspaces.py`` writes halfspaces.csv with means over three seeds, from
which docs/user_guide/theory.md is written. It takes about twenty minutes.
"""

from __future__ import annotations

import csv
import itertools
import warnings
from pathlib import Path

import numpy as np

from skpublicdp import (
    PPMHalfspaceClassifier,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
    SemiPrivateLogisticRegression,
)
from skpublicdp.hypotheses import Halfspaces

RESULTS = Path(__file__).parent / "halfspaces.csv"
N_SEEDS, N_PUBLIC, N_TEST = 3, 300, 20_000
DIMENSIONS, SIZES, EPSILONS = (1, 2, 3, 5, 10, 50), (1_000, 10_000), (0.1, 1.0, 8.0)


def learners(epsilon: float, seed: int) -> dict[str, object]:
    """Return the estimators by their names in the table."""
    settings = {"epsilon": epsilon, "random_state": seed}
    return {
        "cover": SemiPrivateClassifier(Halfspaces(), **settings),
        "mixture": PPMHalfspaceClassifier(private_label=1, evaluation_share=0.1, **settings),
        "logistic": SemiPrivateLogisticRegression(**settings),
        "boosting": SemiPrivateBoostingClassifier(**settings),
    }


def measure(name: str, d: int, n: int, epsilon: float, seed: int) -> tuple[float, float]:
    """Return the accuracy and `guarantee_` (NaN if there is none) of one fit."""
    rng = np.random.default_rng([d, n, seed])
    normal = rng.normal(size=d)
    X, X_public, X_test = (rng.normal(size=(m, d)) for m in (n, N_PUBLIC, N_TEST))
    y, y_test = (rows @ normal > 0 for rows in (X, X_test))
    learner = learners(epsilon, seed)[name]
    if name == "mixture":  # the rows outside the halfspace are public
        learner.fit(X, y.astype(int))
    else:
        y = y ^ (rng.random(n) < 0.05)
        learner.fit(X, y.astype(int), X_public=X_public)
    guarantee = getattr(learner, "guarantee_", None)
    accuracy = (learner.predict(X_test) == y_test).mean()
    bound = np.nan if guarantee is None else guarantee
    return accuracy, bound


def main() -> None:
    """Write a line for each dimension, learner, number of rows and ε."""
    warnings.simplefilter("ignore")
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["d", "learner", "n", "epsilon", "accuracy", "bound"])
        for setting in itertools.product(DIMENSIONS, learners(1.0, 0), SIZES, EPSILONS):
            d, name, n, epsilon = setting
            results = [measure(name, d, n, epsilon, seed) for seed in range(N_SEEDS)]
            accuracy, bound = np.mean(results, axis=0)
            writer.writerow([d, name, n, epsilon, f"{accuracy:.3f}", f"{bound:.2f}"])


if __name__ == "__main__":
    main()
