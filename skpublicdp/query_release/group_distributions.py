"""Distribution of a numeric column within each group of rows, from a released table.

The table contains the columns that define the groups and the numeric column. The cells of each
group, divided by the group's fraction, form the bins of a `BinnedColumn`. The CDF of this
`BinnedColumn` consists of prefix sums of released cells, and the intervals account for the noise in
these cells. All steps are post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.schema import Column
from skpublicdp.query_release.answers import FittedRelease, TableAnswers
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.marginals.noisy_fractions import NoisyFractions
from skpublicdp.query_release.marginals.shrinkage import CellBatch
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.query_release.table_frames import as_frame, group_mean_values
from skpublicdp.typing import Floats

MIN_GROUP_SHARE = 1e-9
"""Minimum released fraction of the population for a group to count as non-empty."""


class IntervalOptions(NamedTuple):
    """Confidence level of the intervals, and whether all intervals hold jointly."""

    level: float
    simultaneous: bool


class GroupDistribution(NamedTuple):
    """Distribution of a numeric column within one group."""

    # position of the group among the cells of the table of groups, in the order of `table`
    number: int
    distribution: Any  # The distribution. Only a `BinnedColumn` provides intervals.


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

    def cdf(self, numbers: NDArray[Any], options: IntervalOptions | None = None) -> Any:
        """Return the CDF at each number within each group, as a frame or a dict.

        Parameters
        ----------
        numbers : ndarray of shape (n,)
            Numbers or dates in the user's format.
        options : IntervalOptions, optional
            If given, confidence intervals are added.
        """
        encoded = self.column.from_user(numbers)

        def evaluate(distribution: Any) -> dict[str, NDArray[Any]]:
            """Return the columns of values for one group."""
            values = {"x": numbers, "fraction": distribution.cdf(encoded)}
            if options is not None:
                above = np.full(len(encoded), -np.inf)
                ends = distribution.fraction_intervals(
                    above, encoded, self._level(options), simultaneous=options.simultaneous
                )
                values["low"], values["high"] = ends.T
            return values

        return self._describe(evaluate, with_intervals=options is not None)

    def quantile(self, levels: Floats, options: IntervalOptions | None = None) -> Any:
        """Return the quantiles within each group, as a frame or a dict."""

        def evaluate(distribution: Any) -> dict[str, NDArray[Any]]:
            """Return the columns of values for one group."""
            quantiles = self.column.to_user(distribution.quantile(levels))
            values = {"p": levels, "quantile": quantiles}
            if options is not None:
                ends = distribution.quantile_interval(
                    levels, self._level(options), simultaneous=options.simultaneous
                )
                values["low"], values["high"] = self.column.to_user(ends).T
            return values

        return self._describe(evaluate, with_intervals=options is not None)

    def mean(self, options: IntervalOptions) -> Any:
        """Return the mean within each group with its interval, as a frame or a dict.

        Groups that may be empty are omitted.
        """
        _, names = self._answers.queries.table_cells(self.groups)
        groups = group_mean_values(self.released, self.position, self.groups)
        means = dict(zip(groups.indices, groups.means.tolist(), strict=True))
        low, high = [], []
        for number, distribution in self._distributions(with_intervals=True):
            if number in means:
                level = self._level(options) if options.simultaneous else None
                ends = distribution.mean_interval(options.level, simultaneous_level=level)
                low.append(min(ends[0], means[number]))
                high.append(max(ends[1], means[number]))
        keys = {
            group: [column[index] for index in groups.indices]
            for group, column in zip(self.groups, names, strict=True)
        }
        values = {
            name: self.column.to_user(np.array(numbers, dtype=np.float64))
            for name, numbers in (("mean", groups.means), ("low", low), ("high", high))
        }
        return as_frame(self.released, keys, values)

    @property
    def _answers(self) -> TableAnswers:
        """The answers of the release, which must be table answers."""
        answers = self.released.answers
        if not (isinstance(answers, TableAnswers) and answers.queries.has_tables):
            raise ValueError("by requires released tables. Use MarginalQueries with method='auto'.")
        return answers

    def _level(self, options: IntervalOptions) -> float:
        """Return the level of the intervals for one group.

        Simultaneous intervals hold jointly for all groups (Bonferroni).
        """
        if not options.simultaneous:
            return options.level
        n_groups = len(self.released.queries.table_cells(self.groups)[0])
        return 1 - (1 - options.level) / n_groups

    def _describe(
        self, evaluate: Callable[[Any], dict[str, NDArray[Any]]], *, with_intervals: bool
    ) -> Any:
        """Return each group's values, and the categories or bins that define the group."""
        _, names = self._answers.queries.table_cells(self.groups)
        numbers: list[int] = []
        parts: list[dict[str, NDArray[Any]]] = []
        for number, distribution in self._distributions(with_intervals=with_intervals):
            parts.append(evaluate(distribution))
            numbers += [number] * len(next(iter(parts[-1].values())))
        keys = {
            group: [group_names[number] for number in numbers]
            for group, group_names in zip(self.groups, names, strict=True)
        }
        values = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return as_frame(self.released, keys, values)

    def _distributions(self, *, with_intervals: bool) -> Iterator[GroupDistribution]:
        """Yield the distribution of each group that is non-empty in the release.

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
            factors = np.divide(
                fractions, bin_masses, out=np.zeros(len(fractions)), where=bin_masses > 0
            )
            weights = rows.weights * factors[bins]
            distribution = WeightedRows(rows.rows, weights / weights.sum())
            if not with_intervals:
                yield GroupDistribution(number, distribution)
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
            yield GroupDistribution(number, binned)


def _condition(cells: CellBatch, share: float) -> CellBatch:
    """Return the cells of a group as fractions of the group's rows."""
    return cells._replace(
        independence_estimate=cells.independence_estimate / share,
        public=cells.public / share,
        values=cells.values / share,
        precisions=cells.precisions * share**2,
    )
