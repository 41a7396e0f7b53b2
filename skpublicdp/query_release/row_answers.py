"""Interface of released answers, and answers computed from weighted rows alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.schema import Column
from skpublicdp.query_release.binned_columns import BinnedColumn
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.fidelity import TableFidelity
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.synthetic import WeightedRows
from skpublicdp.typing import Floats, Integers

ColumnDistribution = ReleasedCDF | BinnedColumn | WeightedRows
"""Distribution that provides `cdf` and `quantile` for one numeric column. Only `WeightedRows`
provides no intervals."""


class ReleasedAnswers(ABC):
    """Released results that answer the encoded queries of one class at no privacy cost."""

    has_intervals = False
    answers_are_of_rows = False
    """Whether each answer is the total weight of the rows that satisfy the query."""

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
    answers_are_of_rows = True

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

    member_index: Any  # search index for the nearest members; see `QueryCover.member_index`
    member_answers: Floats  # (n_members,): released answers of the members
    answers_are_of_rows = False

    def answer(self, Q: NDArray[Any]) -> Floats:
        """Return the answer of the nearest member of the cover, clipped to [0, 1]."""
        members = self.queries.nearest_members(Q, self.member_index)
        return np.clip(self.member_answers[members], 0, 1)
