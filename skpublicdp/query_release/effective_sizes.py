"""How far one population may be from another, or cells from a model: what is tried and believed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIZES = np.concatenate([[0.0], np.geomspace(1e-6, 10, 29)])
"""Sizes that are tried, four to a power of ten."""

NO_DRIFT_PRIOR, SMALLEST_DRIFT = 0.2, 1e-2
"""Prior probability of no drift, for intervals, and the smallest size that counts as drift. Chosen
by coverage with drifted public rows (benchmarks/bench_intervals.py); benchmarks/ablate.py has what
they cost in interval score."""

LEVELS = np.array([0.0, 0.5, 0.75, 0.9, 0.975, 1.0])
"""Limits between the parts of the posterior of the drift. Its median stands for each part; parts
are finer in the upper tail, on which the ends of intervals depend."""

PART_WEIGHTS = np.diff(LEVELS)
"""Probabilities of the parts."""


class EffectiveSizes(NamedTuple):
    """Posterior distribution of how many private rows the public rows amount to.

    Attributes
    ----------
    rows : ndarray of shape (n_sizes,)
        Effective numbers of rows.
    parts : ndarray of shape (n_sizes, n_parts)
        Their probabilities, divided by the parts of the posterior of the drift (`LEVELS`) in which
        a size is the median. Each part has one size.
    """

    rows: Floats
    parts: Floats

    @property
    def weights(self) -> Floats:
        """The probability of each size."""
        weights: Floats = self.parts.sum(axis=1)
        return weights

    def given(self, other: EffectiveSizes) -> Floats:
        """Return the probabilities of these sizes given each of the other ones.

        Tables of one and of more columns drift alike: parts of the two posteriors go together.

        Returns
        -------
        ndarray of shape (n_other_sizes, n_sizes)
            Each row adds up to 1.
        """
        joint: Floats = other.parts @ (self.parts > 0).T.astype(np.float64)
        return joint / other.weights[:, None]


def certain_size(rows: float) -> EffectiveSizes:
    """Return an effective number of rows that is not in doubt."""
    return EffectiveSizes(np.array([rows]), PART_WEIGHTS[None, :])


def likely_worth(
    squared: Floats,
    spread: Floats,
    noise: Floats | float,
    known: float,
    weights: Floats | float = 1.0,
) -> float:
    """Return how many private rows public ones are worth: the median of what is possible.

    Before anything is measured, no drift is as likely as all other sizes together, and these are
    equally likely. So the noise of a measurement that says little is not taken for drift.

    Parameters
    ----------
    squared : ndarray
        Squared errors of noisy answers.
    spread : ndarray
        Their variance per drift.
    noise : ndarray or float
        Their variance from noise.
    known : float
        One over what the public rows are worth without drift.
    weights : ndarray or float, default=1
        How many independent errors each stands for: less than one where errors add up to zero.

    Examples
    --------
    >>> clear, hidden = (
    ...     likely_worth(np.full(9, 0.2), np.ones(9), noise, known=1e-3) for noise in (1e-4, 1e4)
    ... )
    >>> round(clear), round(hidden)
    (6, 1000)
    """
    odds = _likelihood(squared, spread, noise, known, weights)
    odds[0] *= len(odds) - 1
    total = np.cumsum(odds)
    return float(1 / (known + SIZES[np.searchsorted(total, total[-1] / 2)]))


def effective_sizes(
    squared: Floats,
    spread: Floats,
    noise: Floats | float,
    known: float,
    weights: Floats | float = 1.0,
) -> EffectiveSizes:
    """Return the posterior of the effective number of public rows, for intervals.

    An estimate should not take noise for drift, as `likely_worth` does not. An interval must hold
    where noise hides a drift, so that its prior has more mass on drift (`NO_DRIFT_PRIOR`).

    Parameters
    ----------
    squared, spread, noise, known, weights
        As in `likely_worth`.

    Examples
    --------
    >>> hidden = effective_sizes(np.full(9, 0.2), np.ones(9), 1e4, known=1e-3)
    >>> hidden.rows.round(1)
    array([90.9,  3.2,  0.3,  0.2,  0.1])
    """
    prior = np.where(SIZES >= SMALLEST_DRIFT, 1.0, 0.0)
    prior *= (1 - NO_DRIFT_PRIOR) / prior.sum()
    prior[0] = NO_DRIFT_PRIOR
    posterior = np.cumsum(prior * _likelihood(squared, spread, noise, known, weights))
    medians = np.searchsorted(posterior / posterior[-1], (LEVELS[1:] + LEVELS[:-1]) / 2)
    drifts, size_of_part = np.unique(np.minimum(medians, len(SIZES) - 1), return_inverse=True)
    parts = np.zeros((len(drifts), len(PART_WEIGHTS)))
    parts[size_of_part, np.arange(len(PART_WEIGHTS))] = PART_WEIGHTS
    return EffectiveSizes(1 / (known + SIZES[drifts]), parts)


def _likelihood(
    squared: Floats, spread: Floats, noise: Floats | float, known: float, weights: Floats | float
) -> Floats:
    """Return the likelihood of each size of a drift, divided by the largest."""
    variances = (spread * (known + drift) + noise + 1e-30 for drift in SIZES)
    logs = np.array([-float((weights * (squared / v + np.log(v))).sum()) / 2 for v in variances])
    likelihood: Floats = np.exp(logs - logs.max())
    return likelihood
