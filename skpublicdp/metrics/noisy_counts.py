"""Noisy counts of rows, by label and cell, and what is known of their noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Measurement, Pure, Sensitivity
from skpublicdp.ledger import Ledger, drawable
from skpublicdp.query_release.spending import Noise, all_noise, noise_on, part_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

PROOF = "docs/proofs/scores.md"
ONE, MOVED = Sensitivity(1, 1), Sensitivity(2, 2)
"""A replaced row moves a count by one; it leaves a cell of a table and enters another."""

QUIET = 0.3
"""Noise of the number of right predictions that would do, in units of √n."""

LEAST_SHARE, MOST_SHARE = 0.1, 0.8
"""Of the budget, for the number of right predictions beside a table."""

LAPLACE_KURTOSIS = 3.0


@dataclass(frozen=True, eq=False)
class NoisyCount:
    """How many predictions are right, with noise.

    Attributes
    ----------
    value : int
        Exact count plus exact noise.
    n : int
        How many rows there are.
    noise : Measurement
        With the same noise; it has its spread.
    laplace : bool
        Whether the noise is Laplace noise.
    crowd : float
        How many rows the mean row's person has: so many times as much the choice of persons adds.
    """

    value: int
    n: int
    noise: Measurement
    laplace: bool
    crowd: float = 1.0

    @property
    def likely(self) -> float:
        """The nearest number that there can be."""
        return float(min(max(self.value, 0), self.n))


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Counts by label and cell, unbiased, that add up to what else is known.

    Attributes
    ----------
    counts : ndarray of shape (n_labels, n_cells)
        Noisy; they may be negative.
    likely : ndarray of shape (n_labels, n_cells)
        The nearest table without negative counts.
    n : int
        How many rows there are.
    variance : float
        Of the noise of each cell, before totals were set right.
    total_variance : float
        Of the noise of the number of right predictions.
    groups : tuple of ndarray of bool, shape (n_labels * n_cells,)
        Cells whose total was set right: all, or those that are right and those that are wrong.
    laplace : bool
        Whether the noise is Laplace noise.
    crowd : float
        As of a `NoisyCount`.
    """

    counts: Floats
    likely: Floats
    n: int
    variance: float
    total_variance: float
    groups: tuple[Mask, ...]
    laplace: bool
    crowd: float = 1.0

    def covariance(self, u: Floats, v: Floats) -> Floats:
        """Return the covariance, by noise, of sums of cells with weights u and v."""
        products = (self._inside(u) * self._inside(v)).sum(-1)
        return np.asarray(
            self.variance * products + self.total_variance * self._across(u) * self._across(v)
        )

    def fourth(self, u: Floats) -> Floats:
        """Return the fourth cumulant of the noise of sums of cells with weights u."""
        if not self.laplace:
            return np.zeros(u.shape[:-1])
        inside = self.variance**2 * (self._inside(u) ** 4).sum(-1)
        return np.asarray(
            LAPLACE_KURTOSIS * (inside + self.total_variance**2 * self._across(u) ** 4)
        )

    def _inside(self, u: Floats) -> Floats:
        """Return by how much the noise of a cell moves the sum, the totals being set right."""
        moved = np.array(u)
        for group in self.groups:
            moved[..., group] -= u[..., group].mean(-1, keepdims=True)
        return moved

    def _across(self, u: Floats) -> Floats:
        """Return by how much the noise of the number of right predictions moves the sum."""
        if len(self.groups) == 1:
            return np.zeros(u.shape[:-1])
        right, wrong = self.groups
        return np.asarray(u[..., right].mean(-1) - u[..., wrong].mean(-1))


def share_of_right(noise: Noise, persons: float) -> Fraction:
    """Return which share of the budget the number of right predictions gets.

    What would do for three tenths of the noise that the choice of the rows adds by itself, and as
    many times more as would have been possible at most: so more budget is always less noise.

    Examples
    --------
    >>> share_of_right(Pure(Fraction(1)), 10_000), share_of_right(Pure(Fraction(1, 5)), 1040)
    (Fraction(3, 16), Fraction(49, 64))
    """
    quiet = QUIET * math.sqrt(persons)
    if isinstance(noise, Gaussian):
        share = 1 / (float(noise.mu_squared) * quiet**2)
    else:
        share = math.sqrt(2) / (float(noise.epsilon) * quiet)
    share = min(max(math.sqrt(share * MOST_SHARE), LEAST_SHARE), MOST_SHARE)
    return Fraction(round(64 * share), 64)


def noise_for_both(ledger: Ledger, n: int) -> tuple[Noise, Noise]:
    """Return the noise of the number of right predictions and that of a table."""
    noise = all_noise(ledger)
    # noise is as many times larger as a person has rows, and rows matter by their root
    share = share_of_right(noise, n / ledger.rows_per_person**2)
    return part_of(noise, share), part_of(noise, 1 - share)


def check_drawable(noise: Noise, sensitivity: Sensitivity) -> None:
    """Refuse noise that is too large to be drawn, before anything is charged."""
    if not drawable(noise, sensitivity):
        raise ValueError("epsilon must be larger: its noise is too large to be drawn.")


def release_right(
    exact: Integers, n: int, noise: Noise, ledger: Ledger, crowd: float = 1.0
) -> NoisyCount:
    """Release how many predictions of n rows are right, an array of one number."""
    name = noise_on("the number of right predictions", noise)
    noisy = ledger.add_noise(exact, ONE, noise, name=name, proof=PROOF)
    return NoisyCount(int(noisy.values[0]), n, noisy, isinstance(noise, Pure), crowd)


def release_table(
    exact: Integers,
    n: int,
    noise: Noise,
    ledger: Ledger,
    right: Mask | None = None,
    count: NoisyCount | None = None,
) -> NoisyTable:
    """Release how many rows there are with each label in each cell.

    Parameters
    ----------
    exact : ndarray of int64, shape (n_labels, n_cells)
        How many there are.
    n : int
        Number of rows.
    noise : Gaussian or Pure
        What it costs.
    ledger : Ledger
        Pays.
    right : ndarray of bool, the shape of the table, optional
        Which entries are right predictions; their number was released before, as `count`.
    count : NoisyCount, optional
        That number.
    """
    flat, shape = exact.ravel(), exact.shape
    name = noise_on("counts of labels and cells of scores", noise)
    noisy = ledger.add_noise(flat, MOVED, noise, name=name, proof=PROOF)
    values = noisy.values.astype(np.float64)
    laplace = isinstance(noise, Pure)
    groups: tuple[Mask, ...] = (np.ones(len(flat), dtype=bool),)
    totals, floors, variance = [float(n)], [float(n)], 0.0
    if right is not None and count is not None:
        groups = (right.ravel(), ~right.ravel())
        totals, variance = [float(count.value), float(n - count.value)], count.noise.variance
        floors = [count.likely, n - count.likely]
    counts, likely = values.copy(), values.copy()
    for group, total, floor in zip(groups, totals, floors, strict=True):
        counts[group] += (total - values[group].sum()) / np.count_nonzero(group)
        likely[group] = nearest(counts[group], floor)
    return NoisyTable(
        counts=counts.reshape(shape),
        likely=likely.reshape(shape),
        n=n,
        variance=noisy.variance,
        total_variance=variance,
        groups=groups,
        laplace=laplace,
        crowd=1.0 if count is None else count.crowd,
    )


def nearest(values: Floats, total: float) -> Floats:
    """Return the nearest numbers that are not negative and have a total.

    Examples
    --------
    >>> nearest(np.array([3.0, -1.0, 2.0]), 3.0)
    array([2., 0., 1.])
    """
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(falling > excess)[-1]
    moved: Floats = np.maximum(values - excess[kept], 0.0)
    return moved
