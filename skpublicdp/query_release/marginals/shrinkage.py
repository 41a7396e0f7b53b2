"""Empirical Bayes shrinkage of cells to their independence estimates.

A cell with independence estimate b has prior variance g √b with its own scale g. The mixture over g
is estimated from all cells of a table and, for small tables, from the other tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skpublicdp.query_release.effective_sizes import SHIFT_VARIANCE_GRID
from skpublicdp.typing import Floats

DEVIATION_SCALES = SHIFT_VARIANCE_GRID[:, None]
"""Grid of the scale g."""

NO_PUBLIC_SCALE_PRIOR = 1 / np.sqrt(np.maximum(DEVIATION_SCALES, DEVIATION_SCALES[1]))
NO_PUBLIC_SCALE_PRIOR /= NO_PUBLIC_SCALE_PRIOR.sum()
"""Prior of g without public rows. Small scales have more mass."""

PRIOR_PSEUDO_CELLS = 5.0
"""Prior weight, in cells: of the initial mixture for all tables, and of theirs for each table."""

MIN_LOGLIK_RANGE = 0.05
"""Cells whose log-likelihood varies by less over the grid are not used to fit the mixture."""

MAX_TRAINING_CELLS = 1 << 14
"""Maximum number of cells used to fit the mixture; a larger table is subsampled evenly."""


class CellBatch(NamedTuple):
    """Concatenated cells of several tables; arrays of shape (n_cells,).

    Attributes
    ----------
    base, public : ndarray
        What the margins suggest, and the public fractions under these margins.
    open : ndarray
        Share of a cell's variance that the margins leave.
    values, precisions : ndarray
        Measured fractions under these margins, and one over the variance of the noise of each.
    kept : ndarray
        Share of the noise's variance that the margins leave.
    """

    independence_estimate: Floats
    public: Floats
    unexplained_share: Floats
    values: Floats
    precisions: Floats
    residual_noise_share: Floats

    def at(self, where: NDArray[np.integer] | slice) -> CellBatch:
        """Select some of the cells."""
        return CellBatch(*(each[where] for each in self))


def shrink_to_margins(
    cells: CellBatch, starts: NDArray[np.integer], worth: float
) -> tuple[Floats, ...]:
    """Fit the mixture over g, and return the prior of each cell under it.

    Parameters
    ----------
    cells : CellBatch
        Of all tables of one number of columns.
    starts : ndarray of int, shape (n_tables,)
        Where the tables begin.
    worth : float
        Effective public sample size.

    Returns
    -------
    prior, loose, ratio : ndarray of shape (n_cells,)
        Prior mean; prior variance per unit of the fraction; weight of the prior relative to the
        measured value, infinite for unmeasured cells.
    """
    n_cells = len(cells.independence_estimate)
    cells = cells._replace(independence_estimate=np.maximum(cells.independence_estimate, 1e-12))
    of_table = np.searchsorted(starts, np.arange(n_cells), side="right") - 1
    learners = np.unique(
        np.linspace(0, n_cells - 1, min(n_cells, MAX_TRAINING_CELLS)).astype(np.intp)
    )
    logs = log_likelihood(cells.at(learners), worth)
    telling = np.ptp(logs, axis=0) >= MIN_LOGLIK_RANGE
    likelihood = np.exp(logs[:, telling] - logs[:, telling].max(axis=0, initial=-np.inf))
    first = (
        np.full_like(NO_PUBLIC_SCALE_PRIOR, 1 / len(DEVIATION_SCALES))
        if worth
        else NO_PUBLIC_SCALE_PRIOR
    )
    pooled = _fit_mixture(
        likelihood, np.array([likelihood.shape[1]]), first, PRIOR_PSEUDO_CELLS, 60
    )
    ends = np.searchsorted(of_table[learners[telling]], np.arange(len(starts)), side="right")
    alike = np.repeat(pooled, len(starts), axis=1)
    mixture = _fit_mixture(likelihood, ends, alike, PRIOR_PSEUDO_CELLS, 30)
    prior, loose, ratio = np.empty((3, n_cells))
    for start in range(0, n_cells, MAX_TRAINING_CELLS):
        part = slice(start, start + MAX_TRAINING_CELLS)
        some = cells.at(part)
        logs = log_likelihood(some, worth)
        weights = np.exp(logs - logs.max(axis=0)) * mixture[:, of_table[part]]
        weights /= weights.sum(axis=0)
        spread = DEVIATION_SCALES * np.sqrt(some.independence_estimate)
        left = spread / (1 + spread * worth)
        loose[part] = (weights * left).sum(axis=0)
        means = np.maximum(
            some.independence_estimate + left * worth * (some.public - some.independence_estimate),
            1e-12,
        )
        # average over g: each scale has its own prior mean and its own weight of the prior
        own = weights / (1 + left * means * some.precisions)
        kept = own.sum(axis=0)
        prior[part] = (own * means).sum(axis=0) / kept
        ratio[part] = np.divide(
            prior[part] * kept, 1 - kept, out=np.full(len(kept), np.inf), where=kept < 1 - 1e-12
        )
    return prior, loose, ratio


def _fit_mixture(
    likelihood: Floats, ends: NDArray[np.integer], start: Floats, strength: float, rounds: int
) -> Floats:
    """Return the mixture of each group by expectation maximisation, shape (n_scales, n_groups).

    The cells of a group are neighbours; `ends` says where each group ends.
    """
    mixture = start
    counts = np.diff(ends, prepend=0)
    groups = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    for _ in range(rounds):
        total = np.zeros(start.shape)
        for group, cells in enumerate(groups):
            of_group = likelihood[:, cells]  # the weights of all g need not be written down
            total[:, group] = of_group @ (1 / (mixture[:, group] @ of_group))
        found = (total * mixture + strength * start) / (counts + strength)
        moved = float(np.abs(found - mixture).max())
        mixture = found
        if moved < 1e-4:
            break
    return mixture


def log_likelihood(cells: CellBatch, worth: float) -> Floats:
    """Return the log-likelihood of each g, shape (n_scales, n_cells), but for constants.

    Public counts are negative binomial about the base (a Poisson number whose mean is a gamma
    variable), and measured values normal about what the public counts then suggest.
    """
    base, public = cells.independence_estimate, cells.public
    spread = DEVIATION_SCALES * np.sqrt(base)
    logs = np.zeros((len(DEVIATION_SCALES), len(base)))
    if worth:
        count = np.maximum(worth * (base + (public - base) / np.sqrt(cells.unexplained_share)), 0)
        shape, mean = base / np.maximum(spread, 1e-30), worth * spread
        steady = shape > 1e8  # as good as Poisson
        shape = np.where(steady, 1.0, shape)
        mixed = -shape * np.log1p(mean)
        seen = count > 0  # most cells of large tables are empty, and gamma functions are slow
        some, mean = shape[:, seen], mean[:, seen]
        mixed[:, seen] += (
            gammaln(count[seen] + some)
            - gammaln(some)
            + count[seen] * (np.log(np.maximum(mean, 1e-300)) - np.log1p(mean))
        )
        poisson = count * np.log(worth * base) - worth * base
        logs = np.where(steady, poisson, mixed)
    free = cells.residual_noise_share > 0  # elsewhere margins tell all, and nothing is learned
    measured = free & (cells.precisions > 0)
    noise = np.divide(
        cells.residual_noise_share, cells.precisions, out=np.ones(len(base)), where=measured
    )
    left = spread / (1 + spread * worth)
    expected = base + left * worth * (public - base)
    variance = left * np.maximum(expected, 0) * cells.unexplained_share + noise
    error = -0.5 * ((cells.values - expected) ** 2 / variance + np.log(variance))
    total: Floats = np.where(free, logs, 0) + np.where(measured, error, 0)
    return total
