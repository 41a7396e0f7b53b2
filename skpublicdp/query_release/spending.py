"""Budget of a release: its ledger, its default δ, its noise, and the names in the receipt."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from skpublicdp.accounting import Gaussian, Pure, Steps
from skpublicdp.accounting.rounding import written_below
from skpublicdp.data.roles import check_mask
from skpublicdp.data.streaming import as_rows, is_streamed
from skpublicdp.privacy.ledger import Ledger

Noise = Gaussian | Pure

LARGEST_DEFAULT_DELTA = Fraction(1, 10**6)
"""Upper bound of δ for ``delta=None``. For few rows, 1/n² alone would be too large."""

MIN_CELL_SNR = 4
"""Target signal-to-noise ratio of a cell: rows per standard deviation of the noise."""


def open_ledger(estimator: Any, X: Any, is_public: Any) -> Ledger:
    """Return the ledger of a fit, with the ε and δ of the estimator.

    The default δ depends on the number of private rows, which is not protected.
    """
    if estimator.method == "public":  # no private value is used, and nothing is spent
        return Ledger.from_estimator(estimator, delta=0, event=Steps(()))
    delta = estimator.delta
    if delta is None:
        n = _n_rows(X)
        n_marked_public = 0 if is_streamed(X) else int(check_mask(is_public, n).sum())
        delta = default_delta(n - n_marked_public)
    return Ledger.from_estimator(estimator, delta=delta)


def default_delta(n: int) -> float:
    """Return the δ that ``delta=None`` means for n private rows, rounded down to a float.

    Examples
    --------
    >>> default_delta(2), default_delta(10_000)
    (1e-06, 1e-08)
    """
    return written_below(min(LARGEST_DEFAULT_DELTA, Fraction(1, max(n, 1) ** 2)))


def _n_rows(X: Any) -> int:
    """Return the number of rows, or 0 if `X` is invalid. `read_fit_inputs` raises the error."""
    if is_streamed(X):
        return as_rows(X).n_rows
    try:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)
    except (IndexError, TypeError):
        return 0


def all_noise(ledger: Ledger) -> Noise:
    """Return the noise that spends the whole budget of a ledger: Gaussian, or Laplace if δ = 0."""
    event = ledger.event
    assert isinstance(event, Noise)
    return event


def scaled_noise(noise: Noise, share: Fraction) -> Noise:
    """Return noise of the same kind whose privacy cost is the fraction `share` of the given one.

    Examples
    --------
    >>> scaled_noise(Pure(Fraction(1)), Fraction(1, 20))
    Pure(epsilon=Fraction(1, 20))
    """
    if isinstance(noise, Gaussian):
        return Gaussian(share * noise.mu_squared)
    return Pure(share * noise.epsilon)


def signal_to_noise(noise: Noise, persons: float) -> float:
    """Return the number of persons n divided by the scale of the noise: n μ, or n ε / 2.

    The scale is the standard deviation 1/μ of Gaussian noise at sensitivity 1, or the scale 2/ε of
    Laplace noise at sensitivity 2.
    """
    if isinstance(noise, Gaussian):
        return persons * math.sqrt(noise.mu_squared)
    return persons * (float(noise.epsilon) / 2)


def mechanism_name(statistic: str, noise: Noise) -> str:
    """Return the receipt's name of the mechanism that adds `noise` to a statistic."""
    if isinstance(noise, Gaussian):
        return f"Gaussian noise, rounded (analytic Gaussian mechanism) on {statistic}"
    return f"discrete Laplace noise on {statistic}"
