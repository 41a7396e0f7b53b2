"""Released tables as frames, and distributions of a numeric column within each group of rows.

The cells of each group, divided by the group's fraction, form the bins of a `BinnedColumn`. All
steps are post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.dates import dates_in_utc
from skpublicdp.data.schema import Column
from skpublicdp.query_release.answers import ColumnDistribution, FittedRelease, TableAnswers
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.discretize import DEFAULT_BINS, bin_labels
from skpublicdp.query_release.marginals.marginal_model import downward_closure
from skpublicdp.query_release.marginals.noisy_fractions import NoisyFractions
from skpublicdp.query_release.marginals.shrinkage import CellBatch
from skpublicdp.query_release.queries.base import WILDCARD
from skpublicdp.query_release.ratios import ratios
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.query_release.table_rounding import finish, largest_remainders, publish
from skpublicdp.typing import Floats, Integers

GROUP_LEVEL = 0.95
"""Level of the interval for a group's fraction; if this interval contains 0, the group may be
empty."""

ALL_MISSING = 1 - 1e-6
"""If the interval for the fraction of missing values ends above this number, all values may be
missing. Ends are computed by bisection, so they are not exactly 1."""

MIN_SHOWN_COUNT = 1e-6
"""Smallest count that is displayed; smaller counts, which raking leaves in nearly empty cells, are
shown as 0."""

MIN_SHOWN_FRACTION = 1e-12
"""Smallest fraction that is displayed; smaller fractions are shown as 0."""

OUTER_SHARE = 0.005
"""Fraction of the rows in each tail of a numeric column; tails are not divided into bins."""

Columns = dict[str, Any]
"""Columns of a table, by name."""

GroupColumns = dict[int, list[Any]]
"""Categories or bins of the rows of a frame, by the position of their column in the schema."""


@dataclass(frozen=True)
class TableOptions:
    """Display options of a table."""

    level: float  # coverage of the intervals
    simultaneous: bool  # whether all intervals hold jointly with the given coverage
    # number of rows to which counts refer, or None if no counts are displayed
    n_rows: int | None = None
    whole: bool = False  # whether counts are whole numbers that add up
    limits: tuple[float, ...] | None = None  # limits of the grades A to D, if grades are shown
    suppress: str | None = None  # best grade of the cells that are hidden


def describe_table(
    released: FittedRelease,
    positions: Sequence[int],
    within: Sequence[int],
    options: TableOptions,
    wide: bool | str,
) -> Any:
    """Return all cells of a marginal with fractions and intervals, as a frame or a dict."""
    table_cells = released.queries.table_cells
    cells, names = table_cells(positions)
    last_cells, _ = table_cells(positions[-1:])
    values = cell_values(released, cells, within, options)
    values = finish(released, positions, values, options)
    keys = dict(zip(positions, names, strict=True))
    return arrange(released, keys, values, wide, len(last_cells))


def arrange(
    released: FittedRelease,
    keys: GroupColumns,
    values: Columns,
    wide: bool | str,
    n_columns: int,
    combined: Mapping[int, list[str]] | None = None,
) -> Any:
    """Return a table with one row per cell, or a wide table, as a frame or a dict."""
    if not wide:
        return as_frame(released, keys, values, combined)
    if wide is True:
        wide = "count" if "count" in values else next(iter(values))
    if wide not in values:
        raise ValueError(
            f"wide must be a bool or the name of a value column ({', '.join(values)}); got "
            f"{wide!r}."
        )
    *rows, last = keys
    groups = {position: keys[position][::n_columns] for position in rows}
    spread = _spread(released, keys[last], last, values[wide], groups)
    return as_frame(released, groups, spread, combined)


def describe_number(
    released: FittedRelease, position: int, options: TableOptions, wide: bool | str
) -> Any:
    """Return the table of a numeric column in a release without tables, as a frame or a dict.

    The bins are cut at round numbers. Parameters are as in `describe_table`.
    """
    column, distribution = released.schema.columns[position], released.distribution(position)
    cuts = _round_cuts(distribution, column)
    above = np.append(-np.inf, cuts)
    up_to = np.append(cuts, np.inf)
    fractions = distribution.cdf(up_to) - distribution.cdf(above)
    ends = None
    if not isinstance(distribution, WeightedRows):
        ends = distribution.fraction_intervals(
            above, up_to, options.level, simultaneous=options.simultaneous
        )
    edges = np.concatenate([[column.low], cuts, [column.high]])
    labels = bin_labels(edges, column)
    if not column.is_bounded and len(cuts):  # numbers beyond the bounds are counted at the ends
        texts = column.format_all(cuts)
        labels[0] = f"<= {texts[0]}"
        labels[-1] = f"> {texts[-1]}"
    keys: GroupColumns = {position: labels}
    values = _with_ends("fraction", fractions, ends) | _counts(fractions, ends, options)
    if options.whole:
        assert options.n_rows is not None
        values["count"] = largest_remainders(fractions, options.n_rows)
    values = publish(values, [len(fractions)], options)
    return arrange(released, keys, values, wide, len(fractions))


def _round_cuts(distribution: ColumnDistribution, column: Column) -> Floats:
    """Return bin cuts for a released distribution at multiples of a round step.

    Dates are cut at quantiles, since their encoded values are not round numbers.
    """
    if column.has_offset:
        levels = np.arange(1, DEFAULT_BINS) / DEFAULT_BINS
        cuts = np.unique(distribution.quantile(levels))
    else:
        outer_levels = np.array([OUTER_SHARE, 1 - OUTER_SHARE])
        start, end = distribution.quantile(outer_levels).tolist()
        min_step = (end - start) / DEFAULT_BINS
        if not min_step > 0:
            return np.empty(0)
        power = 10.0 ** math.floor(math.log10(min_step))
        steps = [factor * power for factor in (1, 2, 5, 10)]
        step = next(step for step in steps if step >= min_step)
        if column.integral:
            step = max(step, 1.0)
        cuts = step * np.arange(math.ceil(start / step), math.floor(end / step) + 1)
    is_inside = (cuts > column.low) & (cuts < column.high)
    return cuts[is_inside]


def describe_all_tables(released: FittedRelease, options: TableOptions) -> Iterator[Any]:
    """Yield all released tables as frames or dicts, starting with single columns.

    Simultaneous intervals hold jointly for all tables.
    """
    workload = downward_closure(released.queries.tables(released.schema))
    tables = sorted(workload, key=lambda positions: (len(positions), positions))
    n_cells = [len(released.queries.table_cells(positions)[0]) for positions in tables]
    for positions, size in zip(tables, n_cells, strict=True):
        if options.simultaneous:  # Bonferroni: each table has a share of the failure probability
            failure = (1 - options.level) * size / sum(n_cells)
            table_options = replace(options, level=1 - failure)
        else:
            table_options = options
        yield describe_table(released, positions, (), table_options, wide=False)


def group_mean_values(
    released: FittedRelease, position: int, groups: Sequence[int]
) -> tuple[list[int], Floats]:
    """Return the encoded means of a numeric column within groups of rows that have a value.

    The first list contains the positions of the groups among the cells of the group table. Groups
    that may be empty are omitted.
    """
    queries, answers = released.queries, released.answers
    cells, _ = queries.table_cells(groups)
    columns = [*groups, position]
    queries.table_cells(columns)  # raises an error for a repeated column
    answers.check_released(tuple(sorted(columns)))

    has_value = ~np.isnan(released.rows.rows[:, position])
    rows = released.rows.rows[has_value]
    weights = released.rows.weights[has_value]
    masses = queries.weighted_mean(cells, rows, weights)
    totals = queries.weighted_mean(cells, rows, weights * rows[:, position])

    exists = masses > 0
    if answers.has_intervals:  # a group that may be empty has no mean
        ends = answers.intervals(cells, GROUP_LEVEL, simultaneous=False)
        exists &= ends[:, 0] > 0
        if released.schema.columns[position].nullable:  # nor has one without values
            missing_cells = cells.copy()
            missing_cells[:, position] = len(queries.cell_names(position)) - 1
            missing = answers.share_intervals(missing_cells, cells, GROUP_LEVEL, simultaneous=False)
            exists &= missing[:, 1] < ALL_MISSING
    indices = np.flatnonzero(exists).tolist()
    return indices, totals[indices] / masses[indices]


def group_means(released: FittedRelease, position: int, groups: Sequence[int]) -> Any:
    """Return the mean of a numeric column within each group of rows, as a frame or a dict.

    The mean is taken over the rows that have a value. Groups that may be empty are omitted.
    """
    indices, means = group_mean_values(released, position, groups)
    user_means = released.schema.columns[position].to_user(means)
    return as_frame(released, group_keys(released, groups, indices), {"mean": user_means})


def group_keys(
    released: FittedRelease, groups: Sequence[int], indices: Sequence[int]
) -> GroupColumns:
    """Return the categories or bins of the groups at some positions of the group table."""
    names = released.queries.table_cells(groups)[1] if groups else []
    return {
        group: [column_names[index] for index in indices]
        for group, column_names in zip(groups, names, strict=True)
    }


def cell_values(
    released: FittedRelease, cells: Integers, within: Sequence[int], options: TableOptions
) -> Columns:
    """Return the values of the cells: fractions or shares, counts, and their intervals."""
    answers, level, simultaneous = released.answers, options.level, options.simultaneous
    ends = None
    if answers.has_intervals:
        # checked before the answers, so that an unreleased table raises an error instead of a
        # warning
        ends = answers.intervals(cells, level, simultaneous=simultaneous)
    fractions = answers.answer(cells)
    fractions = np.where(fractions < MIN_SHOWN_FRACTION, 0, fractions)
    values = _with_ends("fraction", fractions, ends)
    if within:
        groups = np.full(cells.shape, WILDCARD)
        groups[:, list(within)] = cells[:, list(within)]
        group_fractions = answers.answer(groups)
        shares = ratios(fractions, group_fractions, np.nan)
        share_ends = None
        if ends is not None:
            share_ends = answers.share_intervals(cells, groups, level, simultaneous=simultaneous)
            is_unknown = share_ends[:, 1] - share_ends[:, 0] == 1  # the group may be empty
            shares = np.where(is_unknown, np.nan, shares)
        values = _with_ends("share", shares, share_ends)
    return values | _counts(fractions, ends, options)


def _counts(fractions: Floats, ends: Floats | None, options: TableOptions) -> Columns:
    """Return columns with counts and their intervals, or no columns if counts are not requested."""
    if options.n_rows is None:
        return {}
    count_ends = None if ends is None else ends * options.n_rows
    counts = fractions * options.n_rows
    counts = np.where(counts < MIN_SHOWN_COUNT, 0, counts)
    return _with_ends("count", counts, count_ends, prefix="count_")


def _with_ends(name: str, estimates: Floats, ends: Floats | None, prefix: str = "") -> Columns:
    """Return a column of estimates, and columns with the ends of intervals if these are given."""
    columns: Columns = {name: estimates}
    if ends is not None:
        columns[f"{prefix}low"], columns[f"{prefix}high"] = ends.T
    return columns


def _spread(
    released: FittedRelease,
    categories: list[Any],
    position: int,
    values: Floats,  # (n_cells,)
    groups: GroupColumns,
) -> Columns:
    """Return the value columns of a wide table, one for each code of the last column.

    If a category has the same name as another column of the wide table, the name of the category's
    own column is added as a prefix.
    """
    n_rows = len(next(iter(groups.values()), [None]))
    n_columns = len(categories) // n_rows
    names = [released.schema.names[group] for group in groups]
    value_columns = values.reshape(n_rows, n_columns).T
    wide: Columns = {}
    for category, column in zip(categories[:n_columns], value_columns, strict=True):
        name = str(category)
        while name in wide or name in names:
            name = f"{released.schema.names[position]} = {name}"
        wide[name] = column
    return wide


def as_frame(
    released: FittedRelease,
    groups: GroupColumns,
    values: Columns,
    combined: Mapping[int, list[str]] | None = None,
) -> Any:
    """Return group columns and values as a frame of the library used in `fit`, or else as a dict.

    Each group column has the same type in all frames of a release, because the type is determined
    by all cells of the column. If its cells are of several types, such as numbers and the text
    "(missing)", they are text. Categories with a declared order are ordered categories in the
    libraries that have them. The names of all columns are distinct. `combined` contains the names
    of combined cells, which are text, for columns in which cells are combined.
    """
    names, columns = [], []
    time_zones: list[str | None] = []
    levels: dict[int, list[str]] = {}
    for position, cells in groups.items():
        column, queries = released.schema.columns[position], released.queries
        all_cells = queries.cell_names(position) if queries.has_tables else cells
        if combined and position in combined:
            all_cells = combined[position]
        if len(set(map(type, all_cells))) > 1:
            all_cells, cells = list(map(str, all_cells)), list(map(str, cells))
        names.append(column.name)
        is_dates = set(map(type, all_cells)) == {datetime}
        if is_dates:
            columns.append(column.dates_from_user(cells))
        else:
            columns.append(np.asarray(cells, dtype=np.asarray(all_cells).dtype))
        time_zones.append(column.time_zone if is_dates else None)
        if column.declared_order:
            ordered = [str(column.names[code]) for code in column.display_order]
            levels[len(columns) - 1] = (combined or {}).get(position, ordered)
    for name, array in values.items():
        while name in names:
            name += "_"
        names.append(name)
        values_in_utc, time_zone = dates_in_utc(np.asarray(array))
        columns.append(values_in_utc)
        time_zones.append(time_zone)
    container = released.schema.container
    if container.library is None:
        return dict(zip(names, columns, strict=True))
    container = replace(container, labels=tuple(names))
    return container.build(columns, time_zones=time_zones, levels=levels)


MIN_GROUP_SHARE = 1e-9
"""Minimum released fraction of the population for a group to count as non-empty."""


@dataclass(frozen=True, eq=False)
class ColumnByGroup:
    """A numeric column of released tables, split by groups of rows."""

    released: FittedRelease
    position: int  # position of the numeric column
    groups: Sequence[int]  # positions of the columns that define the groups

    @property
    def column(self) -> Column:
        """Description of the numeric column."""
        return self.released.schema.columns[self.position]

    def cdf(self, numbers: NDArray[Any], options: TableOptions | None = None) -> Any:
        """Return the CDF at numbers or dates of the user within each group, as a frame or a dict.

        With options, confidence intervals are added.
        """
        up_to = self.column.from_user(numbers)
        above = np.full(len(up_to), -np.inf)
        return self._fractions({"x": numbers}, above, up_to, options)

    def histogram(
        self, above: Floats, up_to: Floats, names: list[str], options: TableOptions | None = None
    ) -> Any:
        """Return the fraction in each bin above < x <= up_to within each group, as for `cdf`."""
        return self._fractions({"bin": np.array(names)}, above, up_to, options)

    def _fractions(
        self, labels: Columns, above: Floats, up_to: Floats, options: TableOptions | None
    ) -> Any:
        """Return the fractions of each group's rows with above < x <= up_to, with labels."""

        def evaluate(distribution: Any) -> Columns:
            """Return the columns of values for one group."""
            fractions = distribution.cdf(up_to) - distribution.cdf(above)
            ends = None
            if options is not None:
                ends = distribution.fraction_intervals(
                    above, up_to, self._level(options), simultaneous=options.simultaneous
                )
            return labels | _with_ends("fraction", fractions, ends)

        return self._describe(evaluate, with_intervals=options is not None)

    def quantile(self, levels: Floats, options: TableOptions | None = None) -> Any:
        """Return the quantiles within each group, as a frame or a dict."""

        def evaluate(distribution: Any) -> Columns:
            """Return the columns of values for one group."""
            quantiles = self.column.to_user(distribution.quantile(levels))
            ends = None
            if options is not None:
                encoded_ends = distribution.quantile_interval(
                    levels, self._level(options), simultaneous=options.simultaneous
                )
                ends = self.column.to_user(encoded_ends)
            return {"p": levels} | _with_ends("quantile", quantiles, ends)

        return self._describe(evaluate, with_intervals=options is not None)

    def mean(self, options: TableOptions) -> Any:
        """Return the mean within each group with its interval, as a frame or a dict.

        Groups that may be empty are omitted.
        """
        distributions = list(self._distributions(with_intervals=True))
        indices, means = group_mean_values(self.released, self.position, self.groups)
        mean_of_group = dict(zip(indices, means.tolist(), strict=True))
        level = self._level(options) if options.simultaneous else None
        low, high = [], []
        for number, distribution in distributions:
            if number in mean_of_group:
                mean = mean_of_group[number]
                ends = distribution.mean_interval(options.level, simultaneous_level=level)
                low.append(min(ends[0], mean))
                high.append(max(ends[1], mean))
        values = {
            name: self.column.to_user(np.array(numbers, dtype=np.float64))
            for name, numbers in (("mean", means), ("low", low), ("high", high))
        }
        return as_frame(self.released, group_keys(self.released, self.groups, indices), values)

    @property
    def _answers(self) -> TableAnswers:
        """The answers of the release, which must be table answers."""
        answers = self.released.answers
        if not (isinstance(answers, TableAnswers) and answers.queries.has_tables):
            raise ValueError("by requires released tables. Use MarginalQueries with method='auto'.")
        return answers

    def _level(self, options: TableOptions) -> float:
        """Return the level of the intervals for one group.

        Simultaneous intervals hold jointly for all groups (Bonferroni).
        """
        if not options.simultaneous:
            return options.level
        n_groups = len(self.released.queries.table_cells(self.groups)[0])
        return 1 - (1 - options.level) / n_groups

    def _describe(self, evaluate: Callable[[Any], Columns], *, with_intervals: bool) -> Any:
        """Return each group's values, and the categories or bins that define the group."""
        group_numbers: list[int] = []
        parts: list[Columns] = []
        for number, distribution in self._distributions(with_intervals=with_intervals):
            part = evaluate(distribution)
            n_values = len(next(iter(part.values())))
            group_numbers += [number] * n_values
            parts.append(part)
        values = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        keys = group_keys(self.released, self.groups, group_numbers)
        return as_frame(self.released, keys, values)

    def _distributions(self, *, with_intervals: bool) -> Iterator[tuple[int, Any]]:
        """Yield the number and the distribution of each group that is non-empty in the release.

        The number is the position of the group among the cells of the table of groups. Only a
        `BinnedColumn` provides intervals.

        The distribution covers the rows that have a value.
        """
        answers = self._answers
        order = [*self.groups, self.position]
        answers.queries.table_cells(order)  # raises an error for a repeated column
        columns = tuple(sorted(order))
        answers.check_released(columns)
        if with_intervals and not answers.has_column_intervals:
            raise ValueError(
                "Intervals for columns by group are not available after calling calibrate. Use the "
                "release as it was before calibration."
            )
        release, cuts = answers.release, answers.queries.bin_cuts(self.position)
        assert cuts is not None
        table = release.marginal(order)
        posterior, measured = release.posteriors[columns], release.measured[columns]
        axes = [columns.index(column) for column in order]
        cells = [
            array.reshape(release.fractions[columns].shape).transpose(axes)
            for array in posterior.cells
        ]
        noisy = measured.values.transpose(axes)
        if self.column.nullable:  # omit the last bin, which contains missing numbers
            table, noisy = table[..., :-1], noisy[..., :-1]
            cells = [array[..., :-1] for array in cells]
        # a shift of the column alone also affects the numbers inside the bins of a group
        rows_inside = min(
            posterior.sizes.smallest_likely,
            release.posteriors[self.position,].sizes.smallest_likely,
        )
        rows = answers.rows.column(self.position)
        bins = np.searchsorted(cuts, rows.rows[:, 0])
        bin_masses = np.bincount(bins, rows.weights, minlength=len(cuts) + 1)
        group_cells, _ = answers.queries.table_cells(self.groups)
        for number, codes in enumerate(group_cells[:, list(self.groups)].tolist()):
            group = tuple(codes)
            share = float(table[group].sum())
            if share < MIN_GROUP_SHARE:
                continue
            fractions = table[group] / share
            factors = ratios(fractions, bin_masses)
            weights = rows.weights * factors[bins]
            distribution = WeightedRows(rows.rows, weights / weights.sum())
            if not with_intervals:
                yield number, distribution
                continue
            group_posterior = replace(
                posterior,
                columns=(self.position,),
                cells=_condition(CellBatch(*(array[group] for array in cells)), share),
                estimate=fractions,
                sizes=posterior.sizes._replace(rows=posterior.sizes.rows * share),
            )
            group_noisy = NoisyFractions(
                noisy[group] / share,
                measured.variance / share**2,
                release.persons * share,
                release.gaussian,
            )
            bounds = (self.column.low, self.column.high)
            binned = BinnedColumn(
                distribution, cuts, bounds, group_posterior, group_noisy, rows_inside * share
            )
            yield number, binned


def _condition(cells: CellBatch, share: float) -> CellBatch:
    """Return the cells of a group as fractions of the group's rows."""
    return cells._replace(
        independence_estimate=cells.independence_estimate / share,
        public=cells.public / share,
        values=cells.values / share,
        precisions=cells.precisions * share**2,
    )
