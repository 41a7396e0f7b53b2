"""Released tables as frames, with fractions or shares, counts and intervals, in long or wide form.

All steps are post-processing of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skpublicdp.data.schema import Column
from skpublicdp.query_release.answers import FittedRelease
from skpublicdp.query_release.marginals.marginal_model import downward_closure
from skpublicdp.query_release.queries.base import WILDCARD
from skpublicdp.query_release.queries.bin_edges import DEFAULT_BINS, bin_labels
from skpublicdp.query_release.row_answers import ColumnDistribution
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.typing import Floats, Integers

GROUP_LEVEL = 0.95
"""Level of the interval for a group's fraction; if this interval contains 0, the group may be
empty."""

MIN_SHOWN_COUNT = 1e-6
"""Smallest count that is displayed; smaller counts, which raking leaves in nearly empty cells, are
shown as 0."""

OUTER_SHARE = 0.005
"""Fraction of the rows in each tail of a numeric column; tails are not divided into bins."""

Columns = dict[str, Any]
"""Columns of a table, by name."""


@dataclass(frozen=True)
class TableOptions:
    """Display options of a table.

    Attributes
    ----------
    level : float
        Coverage of the intervals.
    simultaneous : bool
        Whether all intervals hold jointly with the given coverage.
    n_rows : int or None
        Number of rows to which counts refer, or None if no counts are displayed.
    """

    level: float
    simultaneous: bool
    n_rows: int | None = None


def describe_table(
    released: FittedRelease,
    positions: Sequence[int],
    within: Sequence[int],
    options: TableOptions,
    wide: bool | str,
) -> Any:
    """Return all cells of a marginal with fractions and intervals, as a frame or a dict.

    Parameters
    ----------
    released : FittedRelease
        A release of tables.
    positions : sequence of int
        Positions of the columns, in the order of the table.
    within : sequence of int
        Positions of the columns that define groups. If there are any, the fractions are shares of a
        group's rows.
    options : TableOptions
        Display options for intervals and counts.
    wide : bool or str
        Name of the value column to spread over the categories of the last column. True selects the
        counts if there are any, and the fractions otherwise. False returns one row per cell.
    """
    cells, names = released.queries.table_cells(positions)
    keys = {
        released.schema.names[position]: column
        for position, column in zip(positions, names, strict=True)
    }
    values = _cell_values(released, cells, within, options)
    n_columns = len(released.queries.table_cells(positions[-1:])[0])
    return _arrange(released, keys, values, wide, n_columns)


def _arrange(
    released: FittedRelease, keys: Columns, values: Columns, wide: bool | str, n_columns: int
) -> Any:
    """Return a table with one row per cell, or a wide table, as a frame or a dict.

    Parameters
    ----------
    released : FittedRelease
        The release.
    keys, values : dict of str to list or ndarray
        Categories or bins of the cells, and the values of the cells.
    wide : bool or str
        As in `describe_table`.
    n_columns : int
        Number of value columns of a wide table.
    """
    if not wide:
        return as_frame(released, {**keys, **values})
    if wide is True:
        wide = "count" if "count" in values else next(iter(values))
    if wide not in values:
        raise ValueError(
            f"wide must be a bool or the name of a value column ({', '.join(values)}); got "
            f"{wide!r}."
        )
    return as_frame(released, _spread(keys, values[wide], n_columns))


def describe_number(
    released: FittedRelease, position: int, options: TableOptions, wide: bool | str
) -> Any:
    """Return the table of a numeric column in a release without tables, as a frame or a dict.

    The bins are cut at round numbers. Parameters are as in `describe_table`.
    """
    column, distribution = released.schema.columns[position], released.distribution(position)
    cuts = _round_cuts(distribution, column)
    above, up_to = np.append(-np.inf, cuts), np.append(cuts, np.inf)
    fractions = distribution.cdf(up_to) - distribution.cdf(above)
    ends = None
    if not isinstance(distribution, WeightedRows):
        ends = distribution.fraction_intervals(
            above, up_to, options.level, simultaneous=options.simultaneous
        )
    edges = np.concatenate([[column.low], cuts, [column.high]])
    keys: Columns = {column.name: bin_labels(edges, column)}
    values = _with_ends("fraction", fractions, ends) | _counts(fractions, ends, options)
    return _arrange(released, keys, values, wide, len(fractions))


def _round_cuts(distribution: ColumnDistribution, column: Column) -> Floats:
    """Return bin cuts for a released distribution at multiples of a round step.

    Dates are cut at quantiles, since their encoded values are not round numbers.
    """
    if column.has_offset:
        cuts = np.unique(distribution.quantile(np.arange(1, DEFAULT_BINS) / DEFAULT_BINS))
    else:
        start, end = distribution.quantile(np.array([OUTER_SHARE, 1 - OUTER_SHARE])).tolist()
        step = (end - start) / DEFAULT_BINS
        if not step > 0:
            return np.empty(0)
        power = 10.0 ** math.floor(math.log10(step))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)
        if column.integral:
            step = max(step, 1.0)
        cuts = step * np.arange(math.ceil(start / step), math.floor(end / step) + 1)
    cuts = cuts[(cuts > column.low) & (cuts < column.high)]
    return cuts


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


class GroupMeans(NamedTuple):
    """Means of a numeric column within groups of rows.

    Attributes
    ----------
    indices : list of int
        Positions of the groups among the cells of the group table. Groups that may be empty are
        omitted.
    means : ndarray of shape (n_groups,)
        Encoded mean of each of these groups among the rows that have a value.
    """

    indices: list[int]
    means: Floats


def group_mean_values(released: FittedRelease, position: int, groups: Sequence[int]) -> GroupMeans:
    """Return the encoded means of a numeric column within groups of rows."""
    cells, _ = released.queries.table_cells(groups)
    released.queries.table_cells([*groups, position])  # raises an error for a repeated column
    released.answers.check_released(tuple(sorted([*groups, position])))
    rows = released.rows
    has_value = ~np.isnan(rows.rows[:, position])
    rows = WeightedRows(rows.rows[has_value], rows.weights[has_value])
    weights = released.queries.weighted_mean(cells, rows.rows, rows.weights)
    totals = released.queries.weighted_mean(cells, rows.rows, rows.weights * rows.rows[:, position])
    exists = weights > 0
    if released.answers.has_intervals:  # a group that may be empty has no mean
        exists &= released.answers.intervals(cells, GROUP_LEVEL, simultaneous=False)[:, 0] > 0
    indices = np.flatnonzero(exists).tolist()
    return GroupMeans(indices, totals[indices] / weights[indices])


def group_means(released: FittedRelease, position: int, groups: Sequence[int]) -> Any:
    """Return the mean of a numeric column within each group of rows, as a frame or a dict.

    The mean is taken over the rows that have a value. Groups that may be empty are omitted.

    Parameters
    ----------
    released : FittedRelease
        A release of tables, one of which contains the column and all group columns.
    position : int
        Position of the numeric column.
    groups : sequence of int
        Positions of the columns that define the groups.
    """
    _, names = released.queries.table_cells(groups)
    values = group_mean_values(released, position, groups)
    means: Columns = {
        released.schema.names[group]: [column[index] for index in values.indices]
        for group, column in zip(groups, names, strict=True)
    }
    means["mean"] = released.schema.columns[position].to_user(values.means)
    return as_frame(released, means)


def _cell_values(
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
    values = _with_ends("fraction", fractions, ends)
    if within:
        groups = np.full(cells.shape, WILDCARD)
        groups[:, list(within)] = cells[:, list(within)]
        group_fractions = answers.answer(groups)
        shares = np.divide(
            fractions, group_fractions, out=np.full(len(cells), np.nan), where=group_fractions > 0
        )
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


def _spread(keys: Columns, values: Floats, n_columns: int) -> Columns:
    """Return a wide table, whose columns are the codes of the last column of a long table.

    If a category has the same name as another column of the wide table, the name of the category's
    own column is added as a prefix.

    Parameters
    ----------
    keys : dict of str to list
        Categories or bins of each cell, in C order of the table.
    values : ndarray of shape (n_cells,)
        Values of the cells.
    n_columns : int
        Number of codes of the last column.
    """
    *row_names, last = keys
    wide: Columns = {name: keys[name][::n_columns] for name in row_names}
    spread = values.reshape(-1, n_columns).T
    for category, column in zip(keys[last][:n_columns], spread, strict=True):
        name = str(category)
        while name in wide:
            name = f"{last} = {name}"
        wide[name] = column
    return wide


def as_frame(released: FittedRelease, columns: Columns) -> Any:
    """Return columns as a frame of the library used in `fit`, or otherwise as a dict of arrays."""
    container = released.schema.container
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if container.library is None:
        return arrays
    return replace(container, labels=tuple(arrays)).build(list(arrays.values()))
