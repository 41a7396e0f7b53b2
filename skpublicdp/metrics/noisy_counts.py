"""Release of noisy counts of rows by label and bin, with their noise covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from skpublicdp.accounting import Measurement, Noise, Sensitivity
from skpublicdp.exceptions import ImplausibleScoreWarning, warn
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.typing import Floats, Integers, Mask

SCORES_PROOF = "docs/proofs/scores.md"
COUNT_SENSITIVITY, TABLE_SENSITIVITY = Sensitivity(1, 1), Sensitivity(2, 2)
"""Replacing one row changes a count by at most 1, and at most two cells of a table by 1 each."""


TARGET_NOISE_RATIO = 0.3
"""Target noise (standard deviation) of the number of correct predictions, in units of √n.

The sampling error is up to 0.5 √n."""

MIN_ACCURACY_SHARE, MAX_ACCURACY_SHARE = 0.1, 0.8
"""Minimum and maximum share of the budget for the number of correct predictions."""

ACCURACY_SHARE_DENOMINATOR = 64
LABEL_SHARE_DENOMINATOR = 256
"""Denominators of budget shares, chosen so that privacy parameters remain short fractions."""


def others_sensitivity(n_labels: int) -> Sensitivity:
    """Return the sensitivity of the counts of each label's other rows.

    Each row belongs to the other rows of n_labels - 1 labels. A replacement decreases one cell of
    each of these labels by 1, and increases the same number of cells by 1.
    """
    return Sensitivity(2 * (n_labels - 1), 2 * (n_labels - 1))


@dataclass(frozen=True, eq=False)
class NoisyCount:
    """The released number of correct predictions among n rows, with its noise."""

    value: int  # the exact count plus exactly sampled noise
    n: int  # number of rows
    noise: Measurement  # the released measurement, including its noise scale
    event: Noise  # privacy cost of the noise, which determines the noise distribution
    # Design effect of cluster sampling, which is Σ nᵢ² / Σ nᵢ for persons with nᵢ rows. The
    # sampling variance is multiplied by this factor.
    design_effect: float = 1.0

    @property
    def clipped(self) -> float:
        """The noisy count, clipped to [0, n]."""
        return float(min(max(self.value, 0), self.n))


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Released counts by label and bin, adjusted without bias to match the released totals."""

    counts: Floats  # (n_labels, n_bins): noisy counts, which may be negative
    # (n_labels, n_bins): the nearest table, in Euclidean distance, that has no negative counts and
    # the same totals
    nonnegative: Floats
    n: int  # number of rows
    # (n_labels,): noise variance of each cell by label, before the adjustment to the totals
    variance: Floats
    total_variance: float  # noise variance of the total of the first group
    # (n_labels * n_bins,): groups of cells whose totals were adjusted: either all cells, or two
    # groups with released totals, such as correct and incorrect predictions. All cells of a group
    # have the same noise variance.
    groups: tuple[Mask, ...]
    event: Noise  # privacy event, which determines the distribution of the noise
    # factor by which persons with several rows increase sampling variances
    design_effect: float = 1.0

    def covariance(self, u: Floats, v: Floats) -> Floats:
        """Return the noise covariance of the weighted sums u · counts and v · counts.

        `u` and `v` have shape (..., n_labels * n_bins), and the result has shape (...).
        """
        products = self._cell_weights(u) * self._cell_weights(v)
        return np.asarray(
            self._sum_by_label(products) @ self.variance
            + self.total_variance * self._total_weight(u) * self._total_weight(v)
        )

    def fourth_cumulant(self, u: Floats) -> Floats:
        """Return the fourth cumulant of the noise of the weighted sum u · counts.

        The fourth cumulant is 0 for Gaussian noise. For independent noise, the fourth cumulants are
        additive, with the fourth powers of the weights as factors.
        """
        cell_part = self._sum_by_label(self._cell_weights(u) ** 4) @ self.variance**2
        total_part = self.total_variance**2 * self._total_weight(u) ** 4
        return np.asarray(self.event.excess_kurtosis * (cell_part + total_part))

    def without_noise(self) -> NoisyTable:
        """Return the same counts without noise, for intervals that reflect only sampling."""
        return replace(self, variance=np.zeros_like(self.variance), total_variance=0.0)

    def _sum_by_label(self, u: Floats) -> Floats:
        """Return the sum over the cells of each label: (..., n_labels * n_bins) to n_labels."""
        return np.asarray(u.reshape(*u.shape[:-1], *self.counts.shape).sum(-1))

    def _cell_weights(self, u: Floats) -> Floats:
        """Return the coefficient of each cell's noise in u · counts.

        The adjustment subtracts the mean noise of a group from each of its cells, so the mean
        weight of the group is subtracted here.
        """
        weights = np.array(u)
        for group in self.groups:
            weights[..., group] -= u[..., group].mean(-1, keepdims=True)
        return weights

    def _total_weight(self, u: Floats) -> Floats:
        """Return the coefficient, in u · counts, of the noise of the first group's total.

        This noise is added in equal parts to the cells of the first group, and subtracted from the
        other cells, since both totals sum to the number of rows.
        """
        if len(self.groups) == 1:  # adjusted to the exact number of rows
            return np.zeros(u.shape[:-1])
        first, second = self.groups
        return np.asarray(u[..., first].mean(-1) - u[..., second].mean(-1))


def accuracy_share(noise: Noise, n_effective: float) -> Fraction:
    """Return the share of the budget for the number of correct predictions.

    The share is the geometric mean of `MAX_ACCURACY_SHARE` and the share at which the noise is
    `TARGET_NOISE_RATIO` · √n, so that the noise of both releases decreases as the budget grows.

    Examples
    --------
    >>> from skpublicdp.accounting import Pure
    >>> accuracy_share(Pure(Fraction(1)), 10_000), accuracy_share(Pure(Fraction(1, 5)), 1040)
    (Fraction(3, 16), Fraction(49, 64))
    """
    target_noise = TARGET_NOISE_RATIO * math.sqrt(n_effective)
    relative_variance = noise.variance(COUNT_SENSITIVITY) / target_noise**2
    target_share = relative_variance ** (1 / noise.variance_power)
    mean_share = math.sqrt(target_share * MAX_ACCURACY_SHARE)
    share = min(max(mean_share, MIN_ACCURACY_SHARE), MAX_ACCURACY_SHARE)
    numerator = round(ACCURACY_SHARE_DENOMINATOR * share)
    return Fraction(numerator, ACCURACY_SHARE_DENOMINATOR)


class SplitNoise(NamedTuple):
    """Budgets of the measurements of one release, which sum to the total budget."""

    accuracy: Noise  # budget for the number of correct predictions
    table: Noise  # budget for the table by label and bin
    # Budgets for the own rows and the other rows of each label, counted by the label's score. None
    # unless there are more than two labels with scores.
    own: Noise | None = None
    other: Noise | None = None


def split_noise(ledger: Ledger, n: int, n_scored_labels: int) -> SplitNoise:
    """Return the budgets of the measurements."""
    noise = ledger.noise
    # r rows per person multiply the noise by r. Relative to the sampling error, this corresponds to
    # the noise for n / r² rows
    share = accuracy_share(noise, n / ledger.rows_per_person**2)
    accuracy, tables = noise.scaled(share), noise.scaled(1 - share)
    if n_scored_labels <= 2:
        return SplitNoise(accuracy, tables)
    power = noise.variance_power
    other_part = (n_scored_labels - 1) ** ((power - 2) / (power + 1))
    own_share = Fraction(round(LABEL_SHARE_DENOMINATOR / (2 + other_part)), LABEL_SHARE_DENOMINATOR)
    own = tables.scaled(own_share)
    return SplitNoise(accuracy, own, own, tables.scaled(1 - 2 * own_share))


def check_noise_scale(noise: Noise, sensitivity: Sensitivity) -> None:
    """Raise ValueError, before the budget is charged, if the noise is too large to be sampled."""
    if not noise_is_representable(noise, sensitivity):
        raise ValueError(
            "epsilon is so small that the noise is too large to be drawn. Check that epsilon has "
            "the intended value."
        )


def release_n_correct(
    exact: Integers, n: int, noise: Noise, ledger: Ledger, design_effect: float = 1.0
) -> NoisyCount:
    """Release the number of correct predictions among n rows.

    `exact` is the exact number, as an array of shape (1,).
    """
    name = f"{noise.noise_name} on the number of correct predictions"
    noisy = ledger.add_noise(exact, COUNT_SENSITIVITY, noise, name=name, proof=SCORES_PROOF)
    return NoisyCount(int(noisy.values[0]), n, noisy, noise, design_effect)


def release_contingency_table(
    exact: Integers,
    n: int,
    noise: Noise,
    ledger: Ledger,
    is_correct: Mask | None = None,
    count: NoisyCount | None = None,
) -> NoisyTable:
    """Release the number of rows with each label in each bin, matching the known totals.

    Within each group of cells, the unbiased counts are shifted by a constant to match the total of
    the group: the number of rows, or the numbers of correct and incorrect predictions.

    Parameters
    ----------
    exact : ndarray of int64, shape (n_labels, n_bins)
        Exact private counts.
    n : int
        Number of rows.
    noise : Gaussian or Pure
        Privacy cost, which determines the noise scale.
    is_correct : ndarray of bool, shape (n_labels, n_bins), optional
        Mask of the cells of correct predictions.
    count : NoisyCount, optional
        The released number of correct predictions. The count must be given together with
        `is_correct`.
    """
    flat, shape = exact.ravel(), exact.shape
    name = f"{noise.noise_name} on counts by label and bin"
    noisy = ledger.add_noise(flat, TABLE_SENSITIVITY, noise, name=name, proof=SCORES_PROOF)
    values = noisy.values.astype(np.float64)
    groups: tuple[Mask, ...] = (np.ones(len(flat), dtype=bool),)
    totals = clipped_totals = [float(n)]
    total_variance = 0.0
    if is_correct is not None and count is not None:
        groups = (is_correct.ravel(), ~is_correct.ravel())
        totals = [float(count.value), float(n - count.value)]
        clipped_totals = [count.clipped, n - count.clipped]
        total_variance = count.noise.variance
    counts, nonnegative = adjust_to_totals(values, groups, totals, clipped_totals)
    return NoisyTable(
        counts=counts.reshape(shape),
        nonnegative=nonnegative.reshape(shape),
        n=n,
        variance=np.full(shape[0], noisy.variance),
        total_variance=total_variance,
        groups=groups,
        event=noise,
        design_effect=1.0 if count is None else count.design_effect,
    )


def adjust_to_totals(
    values: Floats, groups: tuple[Mask, ...], totals: list[float], clipped_totals: list[float]
) -> tuple[Floats, Floats]:
    """Return unbiased and nonnegative noisy counts that match given totals of groups of cells.

    The least-squares adjustment to a group's total shifts all cells of the group equally. The
    nonnegative counts sum to the clipped totals.
    """
    counts, nonnegative = values.copy(), values.copy()
    for group, total, clipped_total in zip(groups, totals, clipped_totals, strict=True):
        counts[group] += (total - values[group].sum()) / np.count_nonzero(group)
        nonnegative[group] = nearest_nonnegative(counts[group], clipped_total)
    return counts, nonnegative


def merge_groups(table: NoisyTable, n_groups: int) -> NoisyTable:
    """Return the sum of a released table over groups of rows, which lie below each other.

    The fourth cumulant of the noise is that of one cell with the summed variance, which is larger
    than that of the sum.
    """
    n_bins = table.counts.shape[1]
    by_group = (n_groups, -1, n_bins)
    counts = table.counts.reshape(by_group).sum(0)
    masks = tuple(group.reshape(n_groups, -1)[0] for group in table.groups)
    nonnegative = counts.ravel().copy()
    for mask, group in zip(masks, table.groups, strict=True):
        total = float(table.nonnegative.ravel()[group].sum())
        nonnegative[mask] = nearest_nonnegative(nonnegative[mask], total)
    return replace(
        table,
        counts=counts,
        nonnegative=nonnegative.reshape(counts.shape),
        variance=n_groups * table.variance[: len(counts)],
        groups=masks,
    )


def nearest_nonnegative(values: Floats, total: float) -> Floats:
    """Return the Euclidean projection onto the nonnegative vectors with a given total.

    Examples
    --------
    >>> nearest_nonnegative(np.array([3.0, -1.0, 2.0]), 3.0)
    array([2., 0., 1.])
    """
    if total <= 0:
        return np.zeros_like(values)
    # shifts[k - 1] is the shift if the k largest values stay positive (Held et al. 1974)
    descending = np.sort(values)[::-1]
    excesses = np.cumsum(descending) - total
    shifts = excesses / np.arange(1, len(values) + 1)
    last_positive = np.flatnonzero(descending > shifts)[-1]
    return np.maximum(values - shifts[last_positive], 0.0)


ALARM_LEVEL = 0.95
"""Minimum confidence level of the bounds on which a warning is based."""

UNKNOWN_N_LABELS = 10
"""Number of labels that is assumed if the labels are private."""

MAX_RARE_SHARE, RARE_SDS = 0.05, 3
"""A label is reported as rare if its number of rows is below this share of all rows, and below this
number of standard deviations of the noise."""

_ADVICE = (
    "Labels may be coded differently, for example as text instead of numbers: compare the types "
    "and the spelling of both, and convert one of them."
)


def alarm_failure(level: float) -> float:
    """Return the failure probability of bounds at a user's level, but not above 1 - ALARM_LEVEL."""
    return 1 - max(level, ALARM_LEVEL)


def warn_if_below_chance(metric: str, upper: float, n_labels: int = UNKNOWN_N_LABELS) -> bool:
    """Warn if the upper bound of a released metric is below half of what random guesses achieve."""
    is_far_below = upper < 0.5 / n_labels
    if is_far_below:
        warn(
            f"The released {metric} is far below chance: it is at most {upper:.2g}, but random "
            f"guesses among {n_labels} labels achieve {1 / n_labels:.2g}. {_ADVICE}",
            ImplausibleScoreWarning,
        )
    return is_far_below


def warn_if_rare(table: NoisyTable) -> None:
    """Warn if the positive label, in row 1 of a released table, hardly occurs."""
    positive_cells = np.repeat([0.0, 1.0], table.counts.shape[1])
    n_positive = table.counts[1].sum()
    noise_sd = float(np.sqrt(table.covariance(positive_cells, positive_cells)))
    upper = n_positive + RARE_SDS * noise_sd
    if n_positive < RARE_SDS * noise_sd and upper < MAX_RARE_SHARE * table.n:
        warn(
            f"Hardly any row has the label pos_label: at most about {upper:.0f} of {table.n} rows, "
            f"according to the released counts. {_ADVICE}",
            ImplausibleScoreWarning,
        )
