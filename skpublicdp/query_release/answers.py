"""Fitted releases, with answers and intervals from a CDF, from tables, or from weighted rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skpublicdp.data.schema import Column, Schema
from skpublicdp.exceptions import UnmeasuredWarning, warn
from skpublicdp.guarantees import Promise
from skpublicdp.query_release.binned_columns import BinnedColumn, condition_on_value
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.discretize import Discretizer, PublicBins, ReleasedBins
from skpublicdp.query_release.marginals.count import warn_of_mean_weight
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.queries.base import WILDCARD, OneColumnQueries, QueryClass
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.synthetic import (
    TableFidelity,
    WeightedRows,
    compare_with_cdf,
    compare_with_tables,
    rake_weights,
    spread_weights,
    synthesize,
)
from skpublicdp.rules.population_guarantee import no_guarantee
from skpublicdp.typing import Floats, Integers

ColumnDistribution = ReleasedCDF | BinnedColumn | WeightedRows
"""Distribution that provides `cdf` and `quantile` for one numeric column. Only `WeightedRows`
provides no intervals."""


class ReleasedAnswers(ABC):
    """Released results that answer the encoded queries of one class at no privacy cost."""

    has_intervals = False
    rows_error: float | None = None
    """Error that `guarantee_` does not contain if queries are evaluated on `rows`, if known."""

    @property
    def ends_with_public_rows(self) -> bool:
        """Whether the numbers in sampled rows are copied from public rows."""
        return True

    @property
    @abstractmethod
    def rows(self) -> WeightedRows:
        """The released distribution as weighted rows, on which any query can be evaluated."""

    @abstractmethod
    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the estimated fraction of rows that satisfy each encoded query."""

    def intervals(self, Q: NDArray[Any], level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for the answers to encoded queries, shape (n_queries, 2)."""
        raise ValueError(
            'Intervals are not available for this method. Use method="auto" for intervals, or '
            'method="pmw" for an error bound in guarantee_.'
        )

    def share_intervals(
        self, cells: Integers, groups: Integers, level: float, *, simultaneous: bool
    ) -> Floats:
        """Return intervals for the share of each cell within a group, shape (n_cells, 2)."""
        raise NotImplementedError  # implemented only for answers from tables with `has_intervals`

    def check_released(self, columns: tuple[int, ...]) -> None:
        """Raise a ValueError if a table of these columns is required but was not released.

        Weighted rows can answer queries about any columns without a table.
        """
        return None

    def expected_error(self) -> float | None:
        """Return the expected root mean square error over the cells of the workload, or None."""
        return None

    def column_marginal(self, position: int) -> Floats | None:
        """Return the released one-way table of a column, or None if there is no such table."""
        return None

    def is_measured(self, position: int) -> bool:
        """Return False if tables were released, and none of them contains the column."""
        return True

    def distribution(self, position: int, column: Column) -> ColumnDistribution:
        """Return the released distribution of the numeric column at a position.

        The distribution covers the rows that have a value in the column.
        """
        return self.rows.column(position)

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw n encoded rows from the released distribution, shape (n, n_features)."""
        return self.rows.sample(n, generator)

    def compare_rows(self, rows: Floats, level: float, names: Sequence[str]) -> list[TableFidelity]:
        """Compare encoded rows with each released table and CDF, if there are any."""
        return []


@dataclass(frozen=True, eq=False)
class RowAnswers(ReleasedAnswers):
    """Answers computed from weighted rows alone.

    These rows are public rows or, with ``method="pmw"``, representatives of cells.
    """

    queries: QueryClass
    weighted_rows: WeightedRows
    rows_error: float | None = 0.0

    @property
    def rows(self) -> WeightedRows:
        """The weighted rows."""
        return self.weighted_rows

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the total weight of the rows that satisfy each encoded query."""
        return self.rows.answer(self.queries, Q)


@dataclass(frozen=True, eq=False)
class MemberAnswers(RowAnswers):
    """Answers to arbitrary queries, each taken from the nearest member of a cover."""

    member_index: Any = None  # search index for the nearest members; see `QueryCover.member_index`
    member_answers: Any = None  # (n_members,): released answers of the members

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the answer of the nearest member of the cover, clipped to [0, 1]."""
        members = self.queries.nearest_members(Q, self.member_index)
        return np.clip(self.member_answers[members], 0, 1)


UNPROVED = no_guarantee(
    'only method="pmw" bounds the largest error of all answers; intervals bound the errors of '
    "single answers"
)


@dataclass(frozen=True, eq=False)
class CDFAnswers(ReleasedAnswers):
    """Answers to thresholds and intervals from the released CDF of a single column."""

    queries: OneColumnQueries
    cdf: ReleasedCDF
    has_intervals = True
    ends_with_public_rows = False

    @cached_property
    def rows(self) -> WeightedRows:
        """Weighted rows, with one row at the median of each cell of the CDF."""
        weights = self.cdf.weights
        median_levels = np.cumsum(weights) - weights / 2
        medians = np.asarray(self.cdf.quantile(np.clip(median_levels, 0, 1)))
        return WeightedRows(medians[:, None], weights / weights.sum())

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the released fraction of each threshold or interval."""
        return self.cdf.fraction(*self.queries.ranges(Q))

    def intervals(self, Q: NDArray[Any], level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for encoded thresholds or intervals, shape (n_queries, 2)."""
        above, up_to = self.queries.ranges(Q)
        return self.cdf.fraction_intervals(above, up_to, level, simultaneous=simultaneous)

    def distribution(self, position: int, column: Column) -> ReleasedCDF:
        """Return the released CDF."""
        return self.cdf

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw n numbers by inverse transform sampling, and return them with shape (n, 1)."""
        return self.cdf.quantile(generator.random(n))[:, None]

    def compare_rows(self, rows: Floats, level: float, names: Sequence[str]) -> list[TableFidelity]:
        """Compare encoded rows with the released CDF."""
        return [compare_with_cdf(rows[:, 0], self.cdf, "CDF", level)]


@dataclass(eq=False, repr=False)
class TableAnswers(ReleasedAnswers):
    """Answers computed from released tables over columns of integer codes.

    The answer to a query about a cell is the cell's fraction in its released table. All other
    queries are evaluated on `rows`, whose weights reproduce the tables.
    """

    queries: QueryClass
    release: MarginalRelease
    _discretizer: Discretizer
    _codes_public: Integers  # of the public rows, or of a reference sample, (m, n_columns)
    _X_public: Floats  # the same rows, encoded, (m, n_features)
    has_intervals = True
    has_column_intervals = True

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the estimated fraction of rows that satisfy each encoded query."""
        if not self._is_about_cells:
            return self.rows.answer(self.queries, Q)
        answers = np.empty(len(Q))
        for columns, indices, codes in by_table(self._cells(Q)):
            if columns in self.release.fractions:
                answers[indices] = self.release.fractions[columns][codes]
            elif not columns:  # the query restricts no column
                answers[indices] = 1.0
            else:
                warn(
                    "No released table contains all columns of this query, so its answer is "
                    "estimated from other tables. To measure the answer directly, add a table of "
                    "these columns to the workload.",
                    UnmeasuredWarning,
                )
                answers[indices] = self.rows.answer(self.queries, Q[indices])
        return answers

    def expected_error(self) -> float | None:
        """Return the expected root mean square error over all cells of all tables of the workload.

        The result is None if synthetic rows answer the query class, since their error is unknown.
        """
        if not self._is_about_cells:
            return None
        deviations = [
            self.release.deviations[columns].ravel() for columns in self._discretizer.workload
        ]
        return float(np.sqrt(np.square(np.concatenate(deviations)).mean()))

    def intervals(self, Q: NDArray[Any], level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for the answers to encoded queries, shape (n_queries, 2).

        Simultaneous intervals hold jointly (Bonferroni). Simultaneous intervals contain the
        intervals computed from the noisy counts alone, and therefore hold without assumptions about
        public rows.
        """
        if not self._is_about_cells:
            raise ValueError(
                f"Intervals are not available for {type(self.queries).__name__}, because the "
                "answers come from synthetic rows, whose error is known only for the released "
                "tables."
            )
        failure = (1 - level) / (2 * max(len(Q), 1))  # Bonferroni, over both ends of all intervals
        ends = np.ones((len(Q), 2))  # the interval [1, 1] for queries that restrict no column
        for columns, indices, codes in by_table(self._cells(Q)):
            if columns:
                self.check_released(columns)
                table_ends = self._cell_intervals(columns, codes, level)
                if simultaneous:
                    table_ends = self._with_noise_bounds(table_ends, columns, codes, failure)
                ends[indices] = table_ends
        return ends

    def share_intervals(
        self, cells: Integers, groups: Integers, level: float, *, simultaneous: bool
    ) -> Floats:
        """Return intervals for the share of each cell within a group of rows, shape (n_cells, 2).

        Simultaneous intervals are derived from simultaneous intervals for all cells and for all
        groups.
        """
        ((columns, _, codes),) = by_table(cells)
        self.check_released(columns)
        ((group_columns, _, _),) = by_table(groups)
        ends = self.release.share_intervals(columns, codes, group_columns, level)
        if not simultaneous:
            return ends
        distinct_groups, group_of_cell = np.unique(groups, axis=0, return_inverse=True)
        together = np.concatenate([cells, distinct_groups])
        joint_ends = self.intervals(together, level, simultaneous=True)
        cell_ends, group_ends = np.split(joint_ends, [len(cells)])
        low, high = cell_ends.T
        group_low, group_high = group_ends[group_of_cell.ravel()].T
        min_share = np.zeros(len(cells))
        max_share = np.ones(len(cells))
        np.divide(low, group_high, out=min_share, where=group_high > 0)
        np.divide(high, group_low, out=max_share, where=group_low > high)
        share_low, share_high = ends.T
        share_low = np.minimum(min_share, share_low)
        share_high = np.maximum(max_share, share_high)
        return np.column_stack([share_low, share_high])

    def is_measured(self, position: int) -> bool:
        """Return False if no released table contains the column."""
        return not self.queries.has_tables or (position,) in self.release.fractions

    def column_marginal(self, position: int) -> Floats | None:
        """Return the released one-way table of a column, or None if there is no such table."""
        return self.release.fractions.get((position,)) if self.queries.has_tables else None

    def distribution(self, position: int, column: Column) -> ColumnDistribution:
        """Return the released distribution of the numeric column at a position.

        The result is the most accurate distribution available: a released CDF, otherwise a released
        one-way table, otherwise weighted rows.
        """
        if position in self.cdfs:
            return self.cdfs[position]
        rows, cuts = super().distribution(position, column), self.queries.bin_cuts(position)
        if cuts is None or self.column_marginal(position) is None:
            return rows
        assert isinstance(rows, WeightedRows)
        posterior = self.release.posteriors[position,]
        noisy = self.release.noisy((position,), (np.arange(self.release.sizes[position]),))
        if column.nullable:
            posterior, noisy = condition_on_value(posterior, noisy)
        bounds = (column.low, column.high)
        rows_inside = posterior.sizes.smallest_likely
        return BinnedColumn(rows, cuts, bounds, posterior, noisy, rows_inside)

    @property
    def ends_with_public_rows(self) -> bool:
        """Whether numbers are drawn from public rows rather than from released CDFs."""
        return not self.cdfs

    @property
    def cdfs(self) -> dict[int, ReleasedCDF]:
        """The released CDFs of numeric columns, by column position.

        This dict is empty if only tables were released.
        """
        return self._discretizer.cdfs

    @cached_property
    def rows(self) -> WeightedRows:
        """Synthetic and public rows whose weights reproduce the released tables."""
        return self.weighted_rows(self.release.effective_public_size)

    def weighted_rows(self, public_size: float) -> WeightedRows:
        """Return rows whose weights reproduce the released tables.

        Public rows, with the total weight of `public_size` private rows, contribute the dependences
        that no table measures.
        """
        codes, weights = synthesize(
            self.release.fractions,
            self._discretizer.workload,
            self.release.sizes,
            self._codes_public,
            public_size,
            self.release.zeros,
        )
        representatives = self.encoded_rows(codes)
        return spread_weights(codes, weights, self._codes_public, self._X_public, representatives)

    def codes(self, rows: Floats) -> Integers:
        """Return the codes of encoded rows in the columns of the tables."""
        return self._discretizer.codes(rows)

    def compare_rows(self, rows: Floats, level: float, names: Sequence[str]) -> list[TableFidelity]:
        """Compare encoded rows with each measured table and with the released CDFs."""
        codes = self.codes(rows)
        tables = compare_with_tables(
            codes,
            self.release,
            level=level,
            name_of=partial(self._table_name, names),
            intervals=self._cell_intervals,
        )
        cdfs = [
            compare_with_cdf(rows[:, position], cdf, f"CDF of {names[position]}", level)
            for position, cdf in self.cdfs.items()
        ]
        return tables + cdfs

    def _table_name(self, names: Sequence[str], columns: tuple[int, ...]) -> str:
        """Return the names of the columns of a table."""
        return ", ".join(names[column] for column in columns)

    def encoded_rows(self, codes: Integers) -> Floats:
        """Return an encoded row for each combination of codes, using public values within bins."""
        assert isinstance(self._discretizer, PublicBins)
        return self._discretizer.rows(codes)

    @property
    def _is_about_cells(self) -> bool:
        """Indicate whether each query is about a table cell and thus needs no synthetic rows."""
        return self.queries.has_tables

    def _cells(self, Q: NDArray[Any]) -> NDArray[np.integer]:
        """Return the code or `WILDCARD` that each query requires in each table column.

        The result has shape (n_queries, n_columns).
        """
        return Q

    def check_released(self, columns: tuple[int, ...]) -> None:
        """Raise a ValueError if no table of these columns was released."""
        if columns not in self.release.deviations:
            names = [self.queries._schema.names[column] for column in columns]
            raise ValueError(
                f"The table for {' and '.join(names)} was not released, because it is not in the "
                "workload. Add it to the workload."
            )

    def _cell_intervals(
        self, columns: tuple[int, ...], codes: tuple[Integers, ...], level: float
    ) -> Floats:
        """Return intervals for cells, each with coverage `level`, shape (n_cells, 2)."""
        return self.release.intervals(columns, codes, level)

    def _with_noise_bounds(
        self, ends: Floats, columns: tuple[int, ...], codes: tuple[Integers, ...], failure: float
    ) -> Floats:
        """Return intervals for cells, widened to contain the intervals from the noisy counts alone.

        Each end of the noisy-count interval fails with probability `failure`.
        """
        noisy_low, noisy_high = self.release.noisy(columns, codes).bounds(failure)
        low, high = ends.T
        ends = np.column_stack([np.minimum(noisy_low, low), np.maximum(noisy_high, high)])
        return np.where(self.release.are_impossible(columns, codes)[:, None], 0.0, ends)


class CountAnswers(TableAnswers):
    """Answers to listed queries, each of which has a table of two cells (does not hold, holds)."""

    _is_about_cells = True
    queries: CustomQueries

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the estimated mean of each encoded query."""
        return self.queries.from_shares(Q, super().answer(Q))

    def intervals(self, Q: NDArray[Any], level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for the answers to encoded queries, shape (n_queries, 2)."""
        ends = super().intervals(Q, level, simultaneous=simultaneous)
        return self.queries.from_shares(Q, ends)

    def expected_error(self) -> float | None:
        """Return the expected root mean square error over all queries, or None for numbers."""
        return None if self.queries.are_numbers else super().expected_error()

    @cached_property
    def rows(self) -> WeightedRows:
        """Public rows whose weights reproduce the released fractions.

        Synthetic rows are not used, since the answers to custom queries do not determine rows.
        """
        if self.queries.are_numbers:
            raise ValueError("CustomQueries with bounds have no synthetic rows.")
        equal_weights = np.full(len(self._X_public), 1 / len(self._X_public))
        weights = rake_weights(
            self._codes_public,
            equal_weights,
            self.release.fractions,
            self._discretizer.workload,
            self.release.sizes,
        )
        return WeightedRows(self._X_public, weights)

    def _table_name(self, names: Sequence[str], columns: tuple[int, ...]) -> str:
        """Return the name of one listed query."""
        return f"query {columns[0]}"

    def _cells(self, Q: NDArray[Any]) -> NDArray[np.integer]:
        """Return the cell of each query, i.e. code 1 in the query's own column."""
        cells = np.full((len(Q), len(self.release.sizes)), WILDCARD)
        np.put_along_axis(cells, Q, 1, axis=1)
        return cells

    def _cell_intervals(
        self, columns: tuple[int, ...], codes: tuple[Integers, ...], level: float
    ) -> Floats:
        """Return normal confidence intervals for cells, clipped to [0, 1], shape (n_cells, 2)."""
        fractions = self.release.fractions[columns][codes]
        half_width = norm.isf((1 - level) / 2) * self.release.deviations[columns][codes]
        ends = np.column_stack([fractions - half_width, fractions + half_width])
        return np.clip(ends, 0, 1)


def by_table(
    cells: NDArray[np.integer],
) -> Iterator[tuple[tuple[int, ...], NDArray[np.intp], tuple[Integers, ...]]]:
    """Group the queries about cells by their restricted columns, i.e. by the table that has them.

    Yields the positions of the columns, the positions of the group's queries in `cells`, and for
    each column the codes that the queries require. If queries restrict no column, and therefore
    hold for all rows, the tuple of columns is empty.
    """
    is_restricted = cells != WILDCARD  # (n_queries, n_columns)
    patterns, pattern_of_query = np.unique(is_restricted, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        is_in_table = pattern_of_query.ravel() == number
        indices = np.flatnonzero(is_in_table)
        columns = np.flatnonzero(pattern)
        codes = cells[np.ix_(indices, columns)]  # (n_table_queries, n_table_columns)
        yield tuple(columns.tolist()), indices, tuple(codes.T)


@dataclass(frozen=True, eq=False)
class FittedRelease:
    """Results of a single fit, in a format common to all methods."""

    queries: QueryClass  # query class, which is bound to the schema
    schema: Schema
    answers: ReleasedAnswers  # the released results
    effective_public_size: float  # effective size of the public sample, in private rows
    # error bound of ``method="pmw"``, or the reason why no bound is available
    promise: Promise = UNPROVED
    # released mean of the survey weights, in units of the declared maximum
    mean_weight: float | None = None

    def warn_of_mean_weight(self) -> None:
        """Warn if the released mean weight is close to the declared maximum."""
        weights = self.queries.weights
        if weights is not None and self.mean_weight is not None:
            warn_of_mean_weight(self.schema.names[weights.position], self.mean_weight)

    def answer(self, Q: Any) -> Floats:
        """Return the estimated fractions of rows that satisfy the user's queries."""
        return self.answers.answer(self.queries.encode(Q, self.schema))

    def intervals(self, Q: Any, level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for the population fractions of the user's queries."""
        encoded = self.queries.encode(Q, self.schema)
        return self.answers.intervals(encoded, level, simultaneous=simultaneous)

    def mean_error(self, X: Floats) -> float:
        """Return the mean absolute error of the answers on the encoded rows `X`.

        The average is taken over the `holdout_queries` of the class.
        """
        Q = self.queries.holdout_queries(X)
        weights = np.ones(len(X))
        weight_column = self.queries.weights
        if weight_column is not None:
            weights = weight_column.units(X).astype(np.float64)
        shares = weights / weights.sum()
        fractions = self.queries.weighted_mean(Q, X, shares)
        errors = np.abs(self.answers.answer(Q) - fractions)
        return float(errors.mean())

    @property
    def rows(self) -> WeightedRows:
        """The released distribution as weighted rows, on which any query can be evaluated."""
        return self.answers.rows

    def distribution(self, position: int) -> ColumnDistribution:
        """Return the released distribution of the numeric column at a position."""
        return self.answers.distribution(position, self.schema.columns[position])

    @property
    def only_column(self) -> ColumnDistribution | None:
        """The released distribution of the single column, if that column is numeric."""
        return self.distribution(0) if self.schema.numeric.tolist() == [True] else None


@dataclass(eq=False, repr=False)
class ColumnAnswers(TableAnswers):
    """Answers to stumps from the CDF of a numeric column or the table of a categorical column.

    The first entry of an encoded stump is the position of a numeric column, or -1 - position of a
    categorical column (see `StumpQueries`).
    """

    def __post_init__(self) -> None:
        assert isinstance(self._discretizer, ReleasedBins)
        # synthetic rows need a table of every column
        fractions = {**self.release.fractions, **self._discretizer.column_marginals()}
        self.release = replace(self.release, fractions=fractions)

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the estimated fraction of rows for which each encoded stump holds."""
        answers = np.empty(len(Q))
        for column, indices in _stumps_by_column(Q):
            if column < 0:  # categorical
                fractions = self.release.fractions[-1 - column,]
                answers[indices] = fractions[Q[indices, 1].astype(np.intp)]
            else:
                answers[indices] = self._discretizer.cdfs[column].cdf(Q[indices, 1])
        return answers

    def intervals(self, Q: NDArray[Any], level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for the answers to encoded stumps, shape (n_queries, 2)."""
        n_simultaneous = max(len(Q), 1) if simultaneous else 1
        single_level = 1 - (1 - level) / n_simultaneous  # Bonferroni
        failure = (1 - single_level) / 2  # of each end
        ends = np.empty((len(Q), 2))
        for column, indices in _stumps_by_column(Q):
            values = Q[indices, 1]
            if column >= 0:
                cdf = self._discretizer.cdfs[column]
                above = np.full(len(indices), -np.inf)
                ends[indices] = cdf.fraction_intervals(above, values, single_level)
                continue
            columns = (-1 - column,)  # of the table of a categorical column
            codes = (values.astype(np.intp),)
            cell_ends = self._cell_intervals(columns, codes, level)
            if n_simultaneous > 1:
                cell_ends = self._with_noise_bounds(cell_ends, columns, codes, failure)
            ends[indices] = cell_ends
        return ends


def _stumps_by_column(Q: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """For each distinct encoded column of Q, yield it and the indices of its stumps."""
    for column in np.unique(Q[:, 0]).astype(int).tolist():
        yield column, np.flatnonzero(Q[:, 0] == column)
