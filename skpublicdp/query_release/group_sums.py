"""Means, totals and ratios of totals of numeric columns by group, from measured sums and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skpublicdp.data.schema import Column
from skpublicdp.query_release.answers import FittedRelease, TableAnswers
from skpublicdp.query_release.measured_sums import (
    BinnedMeans,
    GroupMeans,
    MeasuredSum,
    combine_means,
    find_sum,
)
from skpublicdp.query_release.table_frames import (
    ColumnByGroup,
    GroupColumns,
    TableOptions,
    as_frame,
    group_keys,
    group_mean_values,
    group_means,
)
from skpublicdp.typing import Codes, Floats

SMALLEST = np.finfo(np.float64).tiny
"""Divisor in place of 0."""


class Totals(NamedTuple):
    """Totals of groups per private row, (n_groups,) each."""

    fractions: Floats  # of the rows that have a value
    means: Floats  # of these rows
    noise: Floats  # variance of the total due to noise and bins
    row_variances: Floats  # variance of the numbers within the group

    def at(self, groups: Codes) -> Totals:
        """Return the totals of some groups."""
        return Totals(*(values[groups] for values in self))

    def values(self) -> Floats:
        """Return the totals."""
        return self.fractions * self.means

    def variances(self, persons: float) -> Floats:
        """Return the variances of the totals as estimates of the population."""
        squares = self.fractions * (self.row_variances + self.means**2)
        return self.noise + (squares - self.values() ** 2) / persons


class CombinedMeans(NamedTuple):
    """Means of groups from bins and measured sums."""

    indices: list[int]  # positions of the groups among the cells of the group table
    column: Column
    groups: GroupMeans  # in shares of the range of the column
    sampling: Floats  # variances of the means due to the sampling of private rows
    measured: MeasuredSum
    persons: float  # number of private persons

    def means(self) -> Floats:
        """Return the encoded means."""
        return self._encoded(self.groups.means)

    def intervals(self, level: float, simultaneous_level: float | None) -> Floats:
        """Return the ends of intervals for the encoded means, shape (2, n_groups)."""
        low, high = self.groups.interval(1 - level, self.sampling)
        if simultaneous_level is not None:
            reach = self.measured.reach(1 - simultaneous_level)
            variances = self.groups.sum_deviations**2 + self.sampling
            radius = reach * np.sqrt(variances)
            sum_low = self.groups.sum_means - radius
            sum_high = self.groups.sum_means + radius
            low = np.minimum(low, sum_low)
            high = np.maximum(high, sum_high)
        return self._encoded(np.stack([low, high]))

    def totals(self) -> Totals:
        """Return the total of each group per private row, whose error is that of a product."""
        groups = self.groups
        n_rows = self.measured.n_rows
        width = self.column.high - self.column.low
        user_means = self.column.to_user(self.means())
        means = np.asarray(user_means, dtype=np.float64)
        fractions = groups.counts / n_rows
        noise = (
            fractions**2 * width**2 * groups.variances()
            + means**2 * groups.count_variances / n_rows**2
            + 2 * fractions * means * width * groups.count_covariances / n_rows
        )
        row_variances = width**2 * self.sampling * self.persons * fractions
        return Totals(fractions, means, np.maximum(noise, 0), row_variances)

    def _encoded(self, shares: Floats) -> Floats:
        """Return numbers within the bounds, given as shares of their range."""
        low, high = self.column.low, self.column.high
        return low + (high - low) * np.clip(shares, 0, 1)


def combined_means(
    released: FittedRelease, position: int, groups: Sequence[int]
) -> CombinedMeans | None:
    """Return the means of a numeric column within groups of rows, if their sums were measured.

    Without groups, there is a single mean of all rows.
    """
    answers = released.answers
    if not (isinstance(answers, TableAnswers) and answers.has_column_intervals):
        return None
    release, columns = answers.release, tuple(sorted(groups))
    measured = find_sum(release.sums, position, columns)
    if measured is None:
        return None
    column = released.schema.columns[position]
    if groups:
        cells, _ = released.queries.table_cells(groups)
        indices, means = group_mean_values(released, position, groups)
        by_group = ColumnByGroup(released, position, groups)
        distributions = dict(by_group._distributions(with_intervals=True))
        means = means[[index in distributions for index in indices]]
        indices = [index for index in indices if index in distributions]
        codes = tuple(cells[indices][:, list(columns)].T)
        sampled = release.fractions[columns][codes]
        count_variances = release.deviations[columns][codes] ** 2
        count_variances -= sampled * (1 - sampled) / release.persons
    else:
        distribution = answers.distribution(position, column)
        indices, means, distributions = [0], np.array([distribution.mean()]), {0: distribution}
        codes, count_variances = (), np.zeros(1)
    if column.nullable:  # the missing numbers of each group are not counted
        with_column = tuple(sorted((*columns, position)))
        code_of = dict(zip(columns, codes, strict=True))
        missing = len(released.queries.cell_names(position)) - 1
        cell = tuple(code_of.get(name, missing) for name in with_column)
        share = release.fractions[with_column][cell]
        count_variances = count_variances + release.deviations[with_column][cell] ** 2
        count_variances -= share * (1 - share) / release.persons
    parts = np.array([distributions[index].mean_variances(release.persons) for index in indices])
    parts = parts.reshape(len(indices), 3)
    persons = np.array([float(distributions[index].noisy.persons) for index in indices])
    n_rows = measured.n_rows
    bins = BinnedMeans(
        means=(means - column.low) / (column.high - column.low),
        variances=parts[:, 0],
        inside=np.sqrt(parts[:, 1]),
        counts=n_rows * persons / release.persons,
        count_variances=n_rows**2 * np.maximum(count_variances, 0),
    )
    shares = measured.shares[codes].reshape(len(indices), 2)
    means_of_groups = combine_means(shares, measured, bins)
    return CombinedMeans(indices, column, means_of_groups, parts[:, 2], measured, release.persons)


def mean_frame(
    released: FittedRelease,
    position: int,
    groups: Sequence[int],
    options: TableOptions | None = None,
) -> Any:
    """Return the means of groups as a frame or a dict, with intervals if options are given."""
    combined = combined_means(released, position, groups)
    if combined is None:
        if options is None:
            return group_means(released, position, groups)
        return ColumnByGroup(released, position, groups).mean(options)
    to_user = released.schema.columns[position].to_user
    values = {"mean": to_user(combined.means())}
    if options is not None:
        level = 1 - _single_failure(released, groups, options) if options.simultaneous else None
        low, high = combined.intervals(options.level, level)
        values |= {"low": to_user(low), "high": to_user(high)}
    return as_frame(released, group_keys(released, groups, combined.indices), values)


def group_totals(
    released: FittedRelease, position: int, groups: Sequence[int], options: TableOptions
) -> tuple[GroupColumns, Floats]:
    """Return groups, and their totals of a numeric column with intervals, shape (3, n_groups)."""
    assert options.n_rows is not None
    combined = _measured_means(released, position, groups)
    totals = combined.totals()
    values = totals.values()
    deviations = np.sqrt(totals.variances(combined.persons))
    failure = _single_failure(released, groups, options)
    radius = combined.measured.reach(failure) * deviations
    ends = np.stack([values, values - radius, values + radius])
    # a group may be empty, or have all rows at one of the bounds
    column = combined.column
    encoded_bounds = np.array([column.low, column.high])
    bounds = column.to_user(encoded_bounds)
    low, high = np.asarray(bounds, dtype=np.float64)
    ends = np.clip(ends, min(low, 0), max(high, 0))
    keys = group_keys(released, groups, combined.indices)
    return keys, options.n_rows * ends


def group_ratios(
    released: FittedRelease, columns: tuple[int, int], groups: Sequence[int], options: TableOptions
) -> tuple[GroupColumns, Floats]:
    """Return groups, and ratios of their totals of two columns with intervals, (3, n_groups).

    Errors are linearized (delta method).
    """
    both = [_measured_means(released, position, groups) for position in columns]
    indices = [index for index in both[0].indices if index in both[1].indices]
    upper, lower = (
        combined.totals().at(np.searchsorted(combined.indices, indices)) for combined in both
    )
    persons = both[0].persons
    divisor = lower.values()
    ratio = upper.values() / divisor
    squared_ratio = ratio**2

    correlation = _lowered_correlation(released, columns, np.sign(ratio))
    upper_variances = upper.row_variances
    lower_variances = lower.row_variances
    deviations = np.sqrt(upper_variances * lower_variances)
    covariances = np.abs(ratio) * correlation * deviations
    residuals = upper_variances + squared_ratio * lower_variances - 2 * covariances
    offsets = upper.means - ratio * lower.means  # not 0 if other rows have values
    squares = residuals + offsets**2
    sampling = lower.fractions * squares / persons
    noise = upper.noise + squared_ratio * lower.noise
    squared_divisor = divisor**2
    variances = (noise + sampling) / squared_divisor

    failure = _single_failure(released, groups, options)
    reach = max(combined.measured.reach(failure) for combined in both)
    radius = reach * np.sqrt(variances)
    # if the denominator may be 0, the ratio may be any number
    divisor_radius = reach * np.sqrt(lower.variances(persons))
    is_unknown = np.abs(divisor) <= divisor_radius
    radius = np.where(is_unknown, np.inf, radius)
    ends = np.stack([ratio, ratio - radius, ratio + radius])
    keys = group_keys(released, groups, indices)
    return keys, ends


def _lowered_correlation(
    released: FittedRelease, columns: tuple[int, int], signs: Floats
) -> Floats:
    """Return signs times the correlation of two columns, lowered by two standard errors.

    The correlation is that of the released rows that have both values.
    """
    distribution = released.rows
    rows = distribution.rows[:, list(columns)]
    has_values = ~np.isnan(rows).any(axis=1)
    weights = distribution.weights[has_values]
    covariance = np.cov(rows[has_values].T, aweights=weights)
    product = covariance[0, 0] * covariance[1, 1]
    scale = np.sqrt(max(product, SMALLEST))
    correlation = covariance[0, 1] / scale
    n_public = max(released.effective_public_size, 1.0)
    two_errors = 2 / np.sqrt(n_public)
    return np.maximum(signs * correlation - two_errors, -1)


def _measured_means(released: FittedRelease, position: int, groups: Sequence[int]) -> CombinedMeans:
    """Return the means of a column in groups, or raise an error if they were not measured."""
    column = released.schema.columns[position]
    combined = combined_means(released, position, groups)
    if combined is None or column.is_datetime:
        raise ValueError(
            f"Totals of column {column.name} in these groups were not measured. Pass "
            f"MarginalQueries(sums={{{column.name!r}: [groups]}}) before the fit; totals of dates, "
            "and totals after calling calibrate, are not available."
        )
    return combined


def _single_failure(released: FittedRelease, groups: Sequence[int], options: TableOptions) -> float:
    """Return the failure probability of each interval; all hold jointly if simultaneous."""
    n_groups = 1
    if options.simultaneous and groups:  # Bonferroni
        n_groups = len(released.queries.table_cells(groups)[0])
    return (1 - options.level) / n_groups
