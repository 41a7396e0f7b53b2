"""Sums of bounded numbers by group: their measurement, and means that combine them with bins.

Each number is divided into a share of its upper and a share of its lower bound, so that one table
of shares measures the sum and the count of each group (docs/proofs/marginals.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from skpublicdp.accounting import Gaussian, Noise, Pure, Steps
from skpublicdp.data.schema import Schema
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.bounded_numbers import UNITS, share_sensitivity, to_shares
from skpublicdp.query_release.marginals.count import Attributes, ravel_codes
from skpublicdp.typing import Floats, Integers

SUMS_PROOF = "docs/proofs/marginals.md"

SUMS_SHARE = Fraction(1, 2)
"""Share of the budget that is spent on sums. The remaining budget is spent on tables."""

ERROR_SCALES = 2.0 ** np.arange(-9, 2)
"""Possible sizes of the errors of means within bins, relative to their estimate from the numbers of
public rows in the bins of a group, which is cautious. They are equally likely a priori."""


class SumColumn(NamedTuple):
    """A column whose sum is measured in each cell of a table over other columns."""

    position: int  # the numeric column
    groups: Attributes  # the other columns, in increasing order
    low: float  # bounds of the encoded numbers
    high: float


@dataclass(frozen=True)
class MeasuredSum:
    """Noisy sums of the shares of the upper and the lower bound in each group."""

    column: SumColumn
    shares: Floats  # (*sizes of the groups, 2), in rows
    variance: float  # noise variance of each number
    n_rows: int  # number of private rows
    gaussian: bool  # whether the noise is Gaussian; if False, it is Laplace noise

    def over(self, groups: Attributes) -> MeasuredSum:
        """Return the sums over fewer columns."""
        axes = tuple(axis for axis, column in enumerate(self.column.groups) if column not in groups)
        n_added = math.prod(self.shares.shape[axis] for axis in axes)
        column = self.column._replace(groups=groups)
        shares = self.shares.sum(axis=axes)
        return replace(self, column=column, shares=shares, variance=self.variance * n_added)

    def reach(self, failure: float) -> float:
        """Return the number of standard deviations that noise exceeds with this probability."""
        normal = abs(float(ndtri(failure / 2)))
        return normal if self.gaussian else max(normal, -math.log(failure) / math.sqrt(2))


def read_sums(sums: Mapping[Any, Any] | None, schema: Schema) -> list[SumColumn]:
    """Return the columns and groups of the parameter `sums` of `MarginalQueries`."""
    read: list[SumColumn] = []
    if sums is None:
        return read
    if not isinstance(sums, Mapping) or not all(value != [] for value in sums.values()):
        raise ValueError(
            "sums must be a dict that maps numeric columns to groups, such as "
            f"{{'income': ['region', ('region', 'sex')]}}; got {sums!r}."
        )
    for name, groupings in sums.items():
        position = schema.position(name)
        column = schema.columns[position]
        if column.categorical or not 0 < (column.high - column.low) / 2 < math.inf:
            raise ValueError(
                f"sums has an entry for column {column.name}, which must be numeric, with a lower "
                "bound below the upper bound."
            )
        for grouping in groupings if isinstance(groupings, list) else [groupings]:
            names = grouping if isinstance(grouping, tuple) else (grouping,)
            groups = tuple(sorted(map(schema.position, names)))
            if not groups or len({position, *groups}) <= len(groups):
                raise ValueError(
                    f"The groups of the sums of column {column.name} must be a column or a tuple "
                    f"of distinct columns other than {column.name}; got {grouping!r}."
                )
            read.append(SumColumn(position, groups, column.low, column.high))
    return list(dict.fromkeys(read))


def sum_shares(
    rows: Floats, codes: Integers, columns: Sequence[SumColumn], sizes: Attributes
) -> Integers:
    """Return the sums of both shares in each group of each column, concatenated.

    Sums of several chunks of rows can be added.
    """
    parts = []
    for column in columns:
        cell = ravel_codes(codes, column.groups, sizes)
        n_cells = math.prod(sizes[group] for group in column.groups)
        numbers = rows[:, column.position]
        shares = to_shares(numbers, column.low, column.high)
        sums = np.empty((n_cells, 2), dtype=np.int64)
        for end in range(2):
            # float64 sums of these integers are exact below 2^53
            sums[:, end] = np.bincount(cell, weights=shares[:, end], minlength=n_cells)
        parts.append(sums.ravel())
    return np.concatenate(parts)


def plan_sums(ledger: Ledger, n_sums: int) -> tuple[Noise, Noise]:
    """Plan the noise of the sums and of the tables, and return both.

    If δ > 0 and Laplace noise is smaller than Gaussian noise for the sums, they receive half of ε.
    """
    noise = ledger.noise
    of_sums, of_tables = noise.scaled(SUMS_SHARE), noise.scaled(1 - SUMS_SHARE)
    if isinstance(noise, Gaussian):
        pure, share = Pure(SUMS_SHARE * ledger.epsilon), Fraction(1, n_sums)
        variances = [event.scaled(share).variance(share_sensitivity()) for event in (pure, of_sums)]
        if ledger.fits(pure) and variances[0] < variances[1]:
            scale = ledger.calibrate(lambda scale: Steps((pure, Gaussian(scale))))
            of_sums, of_tables = pure, Gaussian(scale)
            ledger.plan(Steps((of_sums, of_tables)))
    if not noise_is_representable(
        of_sums.scaled(Fraction(1, n_sums)), ledger.for_person(share_sensitivity())
    ):
        raise ValueError(
            f"The noise for {n_sums} tables of sums is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}. Release fewer sums."
        )
    return of_sums, of_tables


def release_sums(
    counts: Integers,
    columns: Sequence[SumColumn],
    sizes: Attributes,
    n_rows: int,
    *,
    ledger: Ledger,
    noise: Noise,
) -> list[MeasuredSum]:
    """Release the result of `sum_shares` for all private rows, with equal shares of the noise."""
    name = f"{noise.noise_name} on {len(columns)} tables of sums"
    sum_ledger = ledger.sub_ledger(noise, name=name, proof=SUMS_PROOF)
    event = noise.scaled(Fraction(1, len(columns)))
    measured, start = [], 0
    for column in columns:
        shape = (*(sizes[group] for group in column.groups), 2)
        stop = start + math.prod(shape)
        noisy = sum_ledger.add_noise(
            counts[start:stop], share_sensitivity(), event, name=name, proof=SUMS_PROOF
        )
        row = 2 * UNITS  # both shares of a row
        shares, variance = noisy.values.reshape(shape) / row, noisy.variance / row**2
        gaussian = isinstance(noise, Gaussian)
        measured.append(MeasuredSum(column, shares, variance, n_rows, gaussian))
        start = stop
    return measured


def find_sum(sums: Sequence[MeasuredSum], position: int, groups: Attributes) -> MeasuredSum | None:
    """Return the most precise sums of a column over groups, or None if they were not measured."""
    candidates = [
        measured.over(groups)
        for measured in sums
        if measured.column.position == position and set(groups) <= set(measured.column.groups)
    ]
    return min(candidates, key=lambda measured: measured.variance, default=None)


class BinnedMeans(NamedTuple):
    """Means of groups according to the bins of tables, in shares of the range of the column."""

    means: Floats
    variances: Floats  # due to the fractions of the bins
    inside: Floats  # standard deviations due to the means within bins
    counts: Floats  # released numbers of rows with a value
    count_variances: Floats  # due to noise


class GroupMeans(NamedTuple):
    """Means of groups in shares of the range of the column, without the sampling of rows."""

    means: Floats
    # (n_components, n_groups): the posterior is a mixture of normal distributions
    component_means: Floats
    component_variances: Floats
    weights: Floats  # (n_components,)
    # means according to the sums alone, and their standard deviations
    sum_means: Floats
    sum_deviations: Floats
    # covariance of the error of each mean with the error of the count of its group
    count_covariances: Floats
    counts: Floats  # number of rows with a value
    count_variances: Floats

    def variances(self) -> Floats:
        """Return the variance of each mean, (n_groups,)."""
        deviations = self.component_means - self.means
        return self.weights @ (self.component_variances + deviations**2)

    def interval(self, failure: float, sampling: Floats) -> Floats:
        """Return the ends between which each mean lies, given its sampling variance, (2, n)."""
        deviations = np.sqrt(self.component_variances + sampling)
        ends = []
        for probability in (failure / 2, 1 - failure / 2):
            max_score = 10 + abs(ndtri(probability))
            reach = max_score * deviations
            low = (self.component_means - reach).min(axis=0)
            high = (self.component_means + reach).max(axis=0)
            for _ in range(60):  # bisection of the distribution function
                middle = (low + high) / 2
                scores = (middle - self.component_means) / deviations
                is_below = self.weights @ ndtr(scores) < probability
                low = np.where(is_below, middle, low)
                high = np.where(is_below, high, middle)
            ends.append((low + high) / 2)
        return np.stack([np.minimum(ends[0], self.means), np.maximum(ends[1], self.means)])


def combine_means(measured_shares: Floats, measured: MeasuredSum, bins: BinnedMeans) -> GroupMeans:
    """Combine the means according to bins with those according to noisy sums.

    The error of a mean of bins has a part that all groups have in common and a part of its own,
    each proportional to `BinnedMeans.inside`. Both scales are estimated from the differences
    between the two means of all groups.
    """
    upper, lower = measured_shares.T
    # the count is averaged with the released count, and is independent of upper - lower
    own_variance = 2 * measured.variance
    share = bins.count_variances / (bins.count_variances + own_variance)
    counts = bins.counts + share * (upper + lower - bins.counts)
    counts = np.maximum(counts, 1)
    count_variances = share * own_variance
    sum_means = 0.5 + (upper - lower) / (2 * counts)
    offsets = sum_means - 0.5
    sum_variances = (2 * measured.variance / 4 + offsets**2 * count_variances) / counts**2
    gaps = sum_means - bins.means
    common, own = (scale.ravel() for scale in np.meshgrid(ERROR_SCALES, ERROR_SCALES))
    # variance of each gap apart from the common part, (n_components, n_groups)
    own_variances = (own[:, None] * bins.inside) ** 2 + bins.variances
    gap_variances = own_variances + sum_variances
    common_deviations = common[:, None] * bins.inside
    precision = 1 + (common_deviations**2 / gap_variances).sum(axis=1)
    projection = (common_deviations * gaps / gap_variances).sum(axis=1)
    common_error = projection / precision  # posterior mean in units of `common_deviations`
    log_likelihood = -0.5 * (
        np.log(gap_variances).sum(axis=1)
        + np.log(precision)
        + (gaps**2 / gap_variances).sum(axis=1)
        - projection * common_error
    )
    weights = np.exp(log_likelihood - log_likelihood.max())
    weights = weights / weights.sum()
    trust = own_variances / gap_variances  # weight of the sums
    shifts = common_deviations * common_error[:, None]
    component_means = bins.means + shifts + trust * (gaps - shifts)
    component_variances = (
        trust * sum_variances + ((1 - trust) * common_deviations) ** 2 / precision[:, None]
    )
    mean_trust = weights @ trust
    return GroupMeans(
        means=weights @ component_means,
        component_means=component_means,
        component_variances=component_variances,
        weights=weights,
        sum_means=sum_means,
        sum_deviations=np.sqrt(sum_variances),
        count_covariances=-mean_trust * offsets * count_variances / counts,
        counts=counts,
        count_variances=count_variances,
    )
