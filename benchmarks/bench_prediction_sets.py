"""Coverage and size of private prediction sets, beside split conformal sets without privacy.

``python benchmarks/bench_prediction_sets.py > benchmarks/prediction_sets.csv`` takes two minutes.
Estimators are fitted to 300 public rows and, except for the digits, to private rows with ε = 1. The
other rows are divided at random into 1,000 calibration rows and test rows. One line per table and ε
contains the mean coverage of the test rows for a nominal coverage of 0.9, and the mean size: labels
per set, or length of the interval as a share of the width of the outcome bounds. The standard error
is that of the coverage over the fits.
"""

from __future__ import annotations

import csv
import os
import sys
import warnings
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait slow small fits down

import numpy as np
from datasets import load, load_outcomes
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from skpublicdp import (
    ConformalClassifier,
    ConformalRegressor,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
)

COVERAGE = 0.9
EPSILONS = (0.3, 1, 8)
SEEDS = range(8)
DIVISIONS = 10
N_PUBLIC, N_CALIBRATION, MAX_TEST = 300, 1000, 4000
LABELS = ("digits", "credit_data", "wa_churn")
OUTCOMES = ("CollegeDistance", "ames", "diamonds")


class Fit(NamedTuple):
    """A fitted estimator, its width of outcome bounds (0 for labels), and rows it has not seen."""

    estimator: Any
    width: float
    X: Any
    y: NDArray[Any]


def fit_to(name: str, seed: int) -> Fit:
    """Return an estimator that was fitted to some rows of a table, and the other rows."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(y))
        X, y = X[order], y[order]
        estimator = LogisticRegression(max_iter=1000).fit(X[:N_PUBLIC], y[:N_PUBLIC])
        return Fit(estimator, 0.0, X[N_PUBLIC:], y[N_PUBLIC:])
    rows: Any
    learner: Any
    if name in LABELS:
        rows = load(name, None, N_PUBLIC, seed)
        learner, width = SemiPrivateBoostingClassifier(random_state=seed), 0.0
    else:
        rows = load_outcomes(name, None, N_PUBLIC, seed)
        learner = SemiPrivateBoostingRegressor(outcome_bounds=rows.bounds, random_state=seed)
        width = rows.bounds[1] - rows.bounds[0]
    n_fit = min((len(rows.y) - N_CALIBRATION) // 2, 5000)
    learner.fit(rows.X[:n_fit], rows.y[:n_fit], X_public=rows.X_public)
    end = n_fit + N_CALIBRATION + MAX_TEST
    return Fit(learner, width, rows.X[n_fit:end], rows.y[n_fit:end])


def is_covered(fit: Fit, threshold: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return whether each row is covered by its set, and the size of its set."""
    if fit.width:
        residuals = np.abs(fit.y - fit.estimator.predict(fit.X))
        return residuals <= threshold, np.full(len(fit.y), 2 * threshold / fit.width)
    probabilities = fit.estimator.predict_proba(fit.X)
    own = probabilities[np.arange(len(fit.y)), np.searchsorted(fit.estimator.classes_, fit.y)]
    return own >= threshold, (probabilities >= threshold).sum(axis=1)


def split_conformal(fit: Fit, calibration: NDArray[Any]) -> float:
    """Return the threshold of split conformal prediction, which is not private."""
    n = len(calibration)
    rank = int(np.ceil(COVERAGE * (n + 1)))
    y = fit.y[calibration]
    if fit.width:
        scores = np.abs(y - fit.estimator.predict(take(fit.X, calibration)))
        return float(np.sort(scores)[rank - 1])
    probabilities = fit.estimator.predict_proba(take(fit.X, calibration))
    own = probabilities[np.arange(n), np.searchsorted(fit.estimator.classes_, y)]
    return float(np.sort(own)[n - rank])


def take(X: Any, rows: NDArray[Any]) -> Any:
    """Return rows of an array or of a data frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def private_threshold(fit: Fit, calibration: NDArray[Any], epsilon: float, seed: int) -> float:
    """Return the released threshold."""
    settings: dict[str, Any] = {"coverage": COVERAGE, "epsilon": epsilon, "random_state": seed}
    frozen = FrozenEstimator(fit.estimator)
    X, y = take(fit.X, calibration), fit.y[calibration]
    if fit.width:
        bounds = (0.0, fit.width)
        intervals = ConformalRegressor(frozen, outcome_bounds=bounds, **settings)
        return float(intervals.fit(X, y).half_width_)
    return float(ConformalClassifier(frozen, **settings).fit(X, y).min_probability_)


def measure(name: str) -> dict[Any, NDArray[Any]]:
    """Return coverages and sizes of each kind of sets, of shape (n_fits, 2)."""
    results: dict[Any, list[Any]] = {kind: [] for kind in ("split conformal", *EPSILONS)}
    for seed in SEEDS:
        fit = fit_to(name, seed)
        rng = np.random.default_rng(seed)
        of_fit: dict[Any, list[Any]] = {kind: [] for kind in results}
        for division in range(DIVISIONS):
            order = rng.permutation(len(fit.y))
            calibration, test = order[:N_CALIBRATION], order[N_CALIBRATION:]
            thresholds = {"split conformal": split_conformal(fit, calibration)}
            for epsilon in EPSILONS:
                draw = DIVISIONS * seed + division
                thresholds[epsilon] = private_threshold(fit, calibration, epsilon, draw)
            for kind, threshold in thresholds.items():
                covered, sizes = is_covered(fit, threshold)
                of_fit[kind].append((covered[test].mean(), sizes[test].mean()))
        for kind, values in of_fit.items():
            results[kind].append(np.mean(values, axis=0))
    return {kind: np.array(values) for kind, values in results.items()}


def main(*names: str) -> None:
    """Print the results of all tables, or of those that are named."""
    warnings.simplefilter("ignore")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("table", "epsilon", "coverage", "standard error", "size"))
    for name in names or LABELS + OUTCOMES:
        for kind, values in measure(name).items():
            epsilon = "" if kind == "split conformal" else kind
            coverage, size = values.mean(axis=0)
            error = values[:, 0].std(ddof=1) / np.sqrt(len(values))
            row = (name, epsilon, f"{coverage:.4f}", f"{error:.4f}", f"{size:.3f}")
            writer.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
