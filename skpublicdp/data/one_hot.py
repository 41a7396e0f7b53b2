"""One-hot columns: adjacent 0/1 columns that together represent a single categorical column."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.column import Column
from skpublicdp.data.schema import Schema
from skpublicdp.typing import Floats

NONE = "(none)"
"""Name of the category that represents rows in which all columns are 0."""

MAX_CHANCE = 1e-3
"""Columns are folded only if a probability is at most this value: the probability that independent
columns, with the same numbers of public rows equal to 1, would be mutually exclusive by chance."""

ZERO, ONE, UNKNOWN, ABSENT = range(4)
"""Possible states of a value in a 0/1 column: 0, 1, an unknown category, or missing. For a boolean
column, these are the category codes."""

SEPARATORS = "_=-.:/| "
"""Characters that separate the name of an encoded column from a category."""


@dataclass(frozen=True, eq=False)
class OneHotColumn(Column):
    """Categorical column that replaces adjacent 0/1 columns, of which usually at most one is 1.

    The category of a row is determined by the column that is 1, and is `NONE` if all columns are 0.
    The category is `OTHER` if several columns are 1, or if only columns that are 0 in all public
    rows are 1. Every row has exactly one category, which depends on this row alone.
    """

    members: tuple[Column, ...] = ()  # the 0/1 columns, in their original order
    # For each member, the category code of a row in which only this member is 1. Members that are 0
    # in all public rows have the code of `OTHER`, and are ignored in rows where another member is
    # 1.
    category_codes: tuple[int, ...] = ()

    def fold(self, states: Sequence[NDArray[Any]]) -> NDArray[np.int32]:
        """Return the category code of each row, shape (n,), given the states of all members.

        Parameters
        ----------
        states : sequence of ndarray, shape (n,)
            Results of `indicator_states` for each member.
        """
        none, other, missing = np.arange(self.n_categories - 3, self.n_categories, dtype=np.int32)
        codes = np.full(len(states[0]), none)
        is_taken, is_other = np.zeros((2, len(codes)), dtype=bool)
        for code, member_states in zip(self.category_codes, states, strict=True):
            is_one = member_states == ONE
            if code == other:
                codes[is_one & ~is_taken] = other
            else:
                is_other |= is_one & is_taken
                is_taken |= is_one
                codes[is_one] = code
            is_other |= member_states == UNKNOWN
        codes[is_other] = other
        for member_states in states:
            codes[member_states == ABSENT] = missing
        return codes


def indicator_states(column: Column, values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the state of each raw value in a 0/1 column. Each state depends on its value alone."""
    encoded = column.as_numeric(values)
    return encoded_indicator_states(column, encoded)


def encoded_indicator_states(column: Column, encoded: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the state of each encoded value in a 0/1 column, where values above 1/2 count as 1."""
    if column.categorical:
        return encoded.astype(np.uint8)
    return np.where(np.isnan(encoded), ABSENT, encoded > 0.5).astype(np.uint8)


class ColumnRun(NamedTuple):
    """Adjacent columns of a table, from `start` up to but not including `stop`."""

    start: int
    stop: int


def find_one_hot_runs(
    schema: Schema, X_public: Floats, bounded: Collection[int]
) -> tuple[ColumnRun, ...]:
    """Return the runs of adjacent 0/1 columns, mutually exclusive in public rows, to be folded.

    The runs are chosen to minimise the number of remaining columns. A run requires evidence: the
    probability that its columns are mutually exclusive by chance must be at most `MAX_CHANCE`.
    Columns with few values of 1 therefore remain separate. Bounds other than (0, 1) indicate that a
    column has other values as well.
    """
    m, n_columns = X_public.shape
    ones = []
    for position, column in enumerate(schema.columns):
        ones.append(_public_ones(column, X_public[:, position], position in bounded))
    # dynamic programming: the smallest number of columns that replace the first columns
    fewest = [0, *[n_columns] * n_columns]
    best_start = list(range(-1, n_columns))
    for start in range(n_columns):
        n_replaced = fewest[start] + 1
        if n_replaced < fewest[start + 1]:
            fewest[start + 1] = n_replaced
            best_start[start + 1] = start
        for length in _stops_of_runs(ones[start:], m):
            stop = start + length
            if n_replaced <= fewest[stop]:
                fewest[stop] = n_replaced
                best_start[stop] = start
    ends = [n_columns]
    while ends[-1]:
        ends.append(best_start[ends[-1]])
    runs = (ColumnRun(start, stop) for start, stop in pairwise(reversed(ends)))
    return tuple(run for run in runs if run.stop - run.start > 1)


def _public_ones(column: Column, values: Floats, is_bounded: bool) -> int | None:
    """Return a bit mask of public rows in which a 0/1 column is 1, or None for other columns."""
    if column.categorical:
        is_binary = column.values.tolist() == [False, True]
    else:
        is_binary = not is_bounded or (column.low, column.high) == (0.0, 1.0)
    if not is_binary or not np.isin(values, (0.0, 1.0)).all():
        return None
    return int.from_bytes(np.packbits(values == 1.0).tobytes())


def _stops_of_runs(ones: Sequence[int | None], m: int) -> list[int]:
    """Return the possible numbers of leading columns to fold into one column."""
    taken, log_chance, stops = 0, 0.0, []
    for stop, bits in enumerate(ones, start=1):
        if bits is None or taken & bits:
            break
        # probability that this column is 1 only in rows without another 1: C(m - taken, n) / C(m,
        # n)
        log_chance += _log_binomial(m - taken.bit_count(), bits.bit_count())
        log_chance -= _log_binomial(m, bits.bit_count())
        taken |= bits
        if math.exp(log_chance) <= MAX_CHANCE:
            stops.append(stop)
    return stops


def _log_binomial(n: int, k: int) -> float:
    """Return the logarithm of the number of k-element subsets of n elements."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def folded_schema(schema: Schema, X_public: Floats, runs: Sequence[ColumnRun]) -> Schema:
    """Return the schema in which each run of 0/1 columns is replaced by a categorical column."""
    columns: list[Column] = []
    end = 0
    for start, stop in runs:
        columns += schema.columns[end:start]
        members = schema.columns[start:stop]
        is_one = X_public[:, start:stop] == 1.0
        has_ones = is_one.any(axis=0).tolist()
        names = {column.name for column in (*schema.columns, *columns)}
        columns.append(_one_hot_column(members, has_ones, names))
        end = stop
    columns += schema.columns[end:]
    return Schema(tuple(columns), schema.container)


def _one_hot_column(
    members: tuple[Column, ...], has_ones: Sequence[bool], names: Collection[str]
) -> OneHotColumn:
    """Return a categorical column with a category for each 0/1 column that is 1 in public rows.

    The name of the column is the common prefix of the members' names, unless this prefix is one of
    the other `names`.
    """
    seen = [column.name for column, is_seen in zip(members, has_ones, strict=True) if is_seen]
    categories = np.array([*seen, NONE], dtype=object)
    positions = np.cumsum(has_ones) - 1
    codes = np.where(has_ones, positions, len(categories))
    name = _common_prefix(seen)
    if not name or name in names:
        listed = seen if len(seen) < 4 else [*seen[:2], "...", seen[-1]]
        name = ", ".join(listed)
    return OneHotColumn(
        name, categories, categorical=True, members=members, category_codes=tuple(codes.tolist())
    )


def _common_prefix(names: Sequence[str]) -> str:
    """Return the longest common prefix of the names that ends before a separator.

    >>> _common_prefix(["job_farm", "job_sea", "job_shop"])
    'job'
    >>> _common_prefix(["x7", "x8"])
    ''
    """
    low, high = min(names), max(names)
    n_equal = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    end = max(low.rfind(separator, 0, n_equal) for separator in SEPARATORS)
    return low[: end + 1].strip(SEPARATORS)


def source_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of the user's table, with each one-hot column replaced by its members."""
    return tuple(
        source
        for column in columns
        for source in (column.members if isinstance(column, OneHotColumn) else (column,))
    )


def fold_rows(columns: Sequence[Column], rows: Floats) -> Floats:
    """Fold the encoded rows of the user's table, so that each one-hot column has a single code.

    Parameters
    ----------
    columns : sequence of Column
        Columns of the schema after folding.
    rows : ndarray of float64, shape (n, n_source_columns)
        Encoded rows of the user's table.
    """
    folded = np.empty((len(rows), len(columns)), order="F")
    start = 0
    for position, column in enumerate(columns):
        if isinstance(column, OneHotColumn):
            sources = rows[:, start : start + len(column.members)].T
            folded[:, position] = column.fold(
                [*map(encoded_indicator_states, column.members, sources)]
            )
            start += len(column.members)
        else:
            folded[:, position] = rows[:, start]
            start += 1
    return folded
