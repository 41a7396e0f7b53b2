"""Accuracy of simpler private linear models on the tables of ``bench_linear.py``.

``python benchmarks/bench_linear_rivals.py --embeddings DIRECTORY > benchmarks/linear_rivals.csv``
prints one line per table, method, setting and ε: the mean AUC (R² for outcomes) over five seeds,
with its standard error. All methods are short implementations with noise from NumPy, for comparison
only. They protect a replaced row with the same (ε, δ) as linear models of this package, except
objective perturbation, whose proof covers an added or removed row. A method has several settings.
The documentation contains the best one, chosen on the test rows, which favours these methods.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from bench_linear import EPSILONS, SEEDS, Split, parse_tables, summary, write_row
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score, roc_auc_score

from skpublicdp.accounting import gaussian_mu_squared

DELTA = 1e-6
MAX_OUTCOME = 4.0  # as the bounds of bench_linear.py
CLIPPING_QUANTILE = 0.8
STEPS = (10, 50)
RIDGES = (0.01, 0.1, 1.0, 10.0)


class Rows(NamedTuple):
    """Private and test rows of one table in one scale, clipped to length 1 by public rows."""

    X: Any
    y: Any  # labels as ±1/2, outcomes in units of the largest absolute outcome
    X_test: Any
    public: Any
    public_fit: Any  # coefficients of a fit without privacy to the labelled public rows
    is_regression: bool


def prepare(table: Split, standardised: bool) -> Rows:
    """Return rows that are centred, scaled and clipped by public rows, and have an intercept."""
    public, y_public = table.public
    scale = public.std(axis=0) if standardised else np.ones(public.shape[1])
    scale[scale == 0] = np.inf
    centre = public.mean(axis=0)
    clipped = []
    length = np.quantile(np.linalg.norm((public - centre) / scale, axis=1), CLIPPING_QUANTILE)
    for X in (table.private[0], table.test[0], public):
        scaled = (X - centre) / scale / length
        lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
        rows = scaled if X is table.test[0] else scaled / np.maximum(1, lengths)
        intercept = np.zeros((len(X), 0 if table.is_regression else 1)) + 0.5
        clipped.append(np.hstack([rows, intercept]) / math.sqrt(1 + intercept.shape[1] / 4))
    X, X_test, public = clipped
    if table.is_regression:
        y = np.clip(table.private[1] / MAX_OUTCOME, -1, 1)
        fitted = RidgeCV(np.logspace(-4, 2, 20), fit_intercept=False)
        fitted.fit(public, y_public / MAX_OUTCOME)
    else:
        y = table.private[1] - 0.5
        fitted = LogisticRegression(fit_intercept=False, max_iter=500).fit(public, y_public)
    return Rows(X, y, X_test, public, np.ravel(fitted.coef_), table.is_regression)


@lru_cache
def gdp_mu(epsilon: float) -> float:
    """Return the largest μ for which μ-GDP implies (ε, δ)."""
    return math.sqrt(gaussian_mu_squared(Fraction(str(epsilon)), Fraction(DELTA)))


def gradient(rows: Rows, X: Any, y: Any, w: Any) -> Any:
    """Return the sum of the gradients, each of length at most 1."""
    if rows.is_regression:
        return np.clip(X @ w - y, -1, 1) @ X
    return (expit(X @ w) - 0.5 - y) @ X


def gradient_descent(rows: Rows, mu: float, rng: Any, *, steps: int, warm: bool) -> Any:
    """Return the mean of the second half of the iterates of noisy gradient descent.

    The rate is the inverse of the largest curvature of the loss of the public rows.
    """
    n, d = rows.X.shape
    curvature = 1.0 if rows.is_regression else 0.25
    moments = rows.public.T @ rows.public / len(rows.public)
    rate = 1 / (curvature * np.linalg.eigvalsh(moments)[-1])
    noise = 2 * math.sqrt(steps) / mu
    w = rows.public_fit.copy() if warm else np.zeros(d)
    iterates = []
    for _ in range(steps):
        noisy = gradient(rows, rows.X, rows.y, w) + noise * rng.normal(size=d)
        w = w - rate * noisy / n
        iterates.append(w)
    return np.mean(iterates[steps // 2 :], axis=0)


def one_shot(rows: Rows, mu: float, rng: Any, *, ridge: float) -> Any:
    """Return a ridge solution with private sums of rows times targets, and public moments."""
    n, d = rows.X.shape
    sums = rows.y @ rows.X + 2 / mu * np.abs(rows.y).max() * rng.normal(size=d)
    curvature = 1.0 if rows.is_regression else 0.25
    moments = curvature * rows.public.T @ rows.public / len(rows.public)
    return np.linalg.solve(n * (moments + ridge * np.trace(moments) / d * np.eye(d)), sums)


def objective_perturbation(rows: Rows, epsilon: float, rng: Any, *, ridge: float) -> Any:
    """Return the minimum of the loss plus a random linear term (Kifer, Smith, Thakurta 2012)."""
    n, d = rows.X.shape
    variance = (8 * math.log(2 / DELTA) + 4 * epsilon) / epsilon**2
    penalty = max(2 * 0.25 / epsilon, ridge * n / d)
    noise = math.sqrt(variance) * rng.normal(size=d)

    def objective(w: Any) -> tuple[float, Any]:
        """Return the perturbed loss and its gradient."""
        margins = rows.X @ w
        loss = np.logaddexp(0, margins).sum() - (rows.y + 0.5) @ margins
        value = loss + penalty / 2 * w @ w + noise @ w
        return value, gradient(rows, rows.X, rows.y, w) + penalty * w + noise

    return minimize(objective, np.zeros(d), jac=True, method="L-BFGS-B").x


def ada_ssp(rows: Rows, mu: float, rng: Any, *, published: bool) -> Any:
    """Return the solution of adaptive sufficient statistics perturbation (Wang 2018).

    The ridge bounds the spectral norm of the noise, with the published bound or its usual size.
    """
    d = rows.X.shape[1]
    noise = math.sqrt(3) / mu  # a third of μ² each for the eigenvalue, the moments and the sums
    moments = rows.X.T @ rows.X
    failure = 0.05
    smallest = np.linalg.eigvalsh(moments)[0] + noise * (rng.normal() - math.log(6 / failure))
    bound = math.sqrt(d * math.log(6 / failure) * math.log(2 * d**2 / failure))
    wanted = noise * math.sqrt(2) * (bound if published else 2 * math.sqrt(d))
    ridge = max(0.0, wanted - max(0.0, smallest))
    upper = np.triu(rng.normal(size=(d, d)))
    noisy = moments + math.sqrt(2) * noise * (upper + np.triu(upper, 1).T)
    sums = rows.X.T @ rows.y + 2 * noise * rng.normal(size=d)
    return np.linalg.solve(noisy + ridge * np.eye(d), sums)


def methods(rows: Rows, epsilon: float) -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """Yield the name, the setting and the function of each method."""
    mu = gdp_mu(epsilon)
    for steps in STEPS:
        for warm in (False, True):
            kind = "labelled" if warm else "unlabelled"
            yield (
                f"noisy gradient descent, {kind} public rows",
                f"{steps} steps",
                lambda rng, s=steps, w=warm: gradient_descent(rows, mu, rng, steps=s, warm=w),
            )
    for ridge in RIDGES:
        yield (
            "one noisy sum, public moments",
            f"ridge {ridge:g}",
            lambda rng, r=ridge: one_shot(rows, mu, rng, ridge=r),
        )
        if not rows.is_regression:
            yield (
                "objective perturbation",
                f"ridge {ridge:g}",
                lambda rng, r=ridge: objective_perturbation(rows, epsilon, rng, ridge=r),
            )
    if rows.is_regression:
        for published in (True, False):
            yield (
                "AdaSSP",
                "published bound" if published else "usual size",
                lambda rng, p=published: ada_ssp(rows, mu, rng, published=p),
            )


def score(table: Split, rows: Rows, w: Any) -> float:
    """Return the AUC or R² on the test rows."""
    margins = rows.X_test @ w
    if table.is_regression:
        return float(r2_score(table.test[1], MAX_OUTCOME * margins))
    return float(roc_auc_score(table.test[1], margins))


def main() -> None:
    """Print the scores of all methods."""
    warnings.simplefilter("ignore")
    write_row("table", "fit", "setting", "epsilon", "score", "standard error")
    for name, tables in parse_tables(__doc__).items():
        for standardised in (False, True):
            kind = "standardised" if standardised else "raw"
            all_rows = [prepare(table, standardised) for table in tables]
            for epsilon in EPSILONS:
                scores: dict[tuple[str, str], list[float]] = {}
                for seed, table, rows in zip(SEEDS, tables, all_rows, strict=True):
                    for fit, setting, function in methods(rows, epsilon):
                        w = function(np.random.default_rng(seed))
                        key = fit, f"{kind}, {setting}"
                        scores.setdefault(key, []).append(score(table, rows, w))
                for (fit, setting), values in scores.items():
                    write_row(name, fit, setting, epsilon, *summary(values))


if __name__ == "__main__":
    main()
