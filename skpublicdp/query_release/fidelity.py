"""Fidelity of synthetic rows, i.e. the differences between their tables and the released tables.

Since reports use only released and public numbers, they may be published together with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from skpublicdp._internal.html import named_table, table
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.marginals.count import Attributes, marginal_tables
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.typing import Floats, Integers

MAX_LISTED_TABLES = 20
"""Maximum number of tables that the text of a report lists."""

HEADER = (
    "table",
    "numbers",
    "rms difference",
    "largest",
    "of release",
    "of drawing",
    "in interval",
)


class TableFidelity(NamedTuple):
    """Differences between synthetic rows and one released table or CDF.

    Attributes
    ----------
    name : str
        Names of the columns.
    n_numbers : int
        Number of cells in the table, or of levels of the CDF.
    rms_difference : float
        Root mean square difference between the synthetic rows' fractions and the released
        fractions.
    largest_difference : float
        Largest absolute difference.
    release_error : float
        Root mean square of the expected errors, due to noise and sampling, of the released
        fractions.
    drawing_error : float
        Expected root mean square difference due to the drawing of synthetic rows.
    inside : float
        Share of the synthetic rows' fractions that lie within the release's confidence intervals.
        For fractions that are known after `calibrate`, these are intervals for the drawing of rows.
    """

    name: str
    n_numbers: int
    rms_difference: float
    largest_difference: float
    release_error: float
    drawing_error: float
    inside: float

    @classmethod
    def from_differences(
        cls,
        name: str,
        counts: NDArray[np.integer],
        released: Floats,
        deviations: Floats,
        ends: Floats,
        n: int,
        level: float,
    ) -> TableFidelity:
        """Summarise the differences between synthetic rows and one released table.

        Parameters
        ----------
        name : str
            Names of the columns.
        counts, released, deviations : ndarray of shape (n_numbers,)
            Numbers of synthetic rows, the released fractions, and the expected errors of these
            fractions.
        ends : ndarray of shape (n_numbers, 2)
            Ends of the release's confidence intervals.
        n : int
            Number of synthetic rows, at least 1.
        level : float
            Coverage of the intervals.
        """
        fractions = counts / n
        differences = fractions - released
        # known fractions have no interval, so only the drawing of rows makes a difference
        is_known = deviations == 0
        drawn = np.column_stack(binom.interval(level, n, np.clip(released, 0, 1))) / n
        ends = np.where(is_known[:, None], drawn, ends)
        is_inside = (ends[:, 0] <= fractions) & (fractions <= ends[:, 1])
        return cls(
            name,
            len(fractions),
            math.sqrt(np.square(differences).mean()),
            float(np.abs(differences).max()),
            math.sqrt(np.square(deviations).mean()),
            math.sqrt((released * (1 - released)).mean() / n),
            float(is_inside.mean()),
        )


def compare_with_tables(
    codes: Integers,
    release: MarginalRelease,
    level: float,
    name_of: Callable[[Attributes], str],
    intervals: Callable[[Attributes, tuple[Integers, ...], float], Floats],
) -> list[TableFidelity]:
    """Compare rows with each released table.

    Parameters
    ----------
    codes : ndarray of int, shape (n, n_columns)
        Codes of the rows.
    release : MarginalRelease
        The tables.
    level : float
        Coverage of the intervals.
    name_of : callable
        Function that returns the name of a table, given its columns.
    intervals : callable
        Function that returns the intervals of cells, like `MarginalRelease.intervals`.
    """
    comparisons = []
    for columns, deviations in release.deviations.items():
        cells = tuple(np.indices(deviations.shape).reshape(len(columns), -1))
        comparison = TableFidelity.from_differences(
            name_of(columns),
            marginal_tables(codes, [columns], release.sizes),
            release.fractions[columns].ravel(),
            deviations.ravel(),
            intervals(columns, cells, level),
            len(codes),
            level,
        )
        comparisons.append(comparison)
    return comparisons


def compare_with_cdf(x: Floats, cdf: ReleasedCDF, name: str, level: float) -> TableFidelity:
    """Compare synthetic numbers with a released CDF at the edges of the CDF's cells."""
    edges = cdf.edges
    return TableFidelity.from_differences(
        name,
        np.searchsorted(np.sort(x), edges, side="right"),
        cdf.cdf(edges),
        cdf.deviations,
        cdf.fraction_intervals(np.full(len(edges), -np.inf), edges, level),
        len(x),
        level,
    )


@dataclass(frozen=True, eq=False)
class FidelityReport:
    """Comparison of synthetic rows with all measurements of a release.

    Reports are created by `PAPQueryRelease.fidelity`. Reports cost no privacy and contain no
    private values.

    Attributes
    ----------
    rows : DataFrame or ndarray, shape (n, n_features)
        The synthetic rows that were compared.
    tables : list of TableFidelity
        One entry for each released table or CDF. The list is empty for ``method="pmw"`` and
        ``"public"``.
    level : float
        Coverage of the intervals.
    acceptance_rate : float
        Share of the drawn rows that satisfied the constraints.
    short_columns : list of str
        Numeric columns whose bounds are wider than the public range, although all synthetic numbers
        lie within this range.

    See Also
    --------
    skpublicdp.plotting.FidelityDisplay : Picture of a report.

    Examples
    --------
    >>> import pandas as pd
    >>> import numpy as np
    >>> from skpublicdp import PAPQueryRelease
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"sex": rng.choice(["f", "m"], 9000), "works": rng.random(9000) < 0.6})
    >>> release = PAPQueryRelease(random_state=0).fit(X[90:], X_public=X[:90])
    >>> print(release.fidelity(5000, keep_other=False, keep_missing=False))
    Fidelity of 5000 synthetic rows to the release
      accepted       ...% of the drawn rows satisfy all constraints
      tables         3, with ...% of all fractions of the rows in the 95% intervals
      table ...
    """

    rows: Any
    tables: Sequence[TableFidelity]
    level: float
    acceptance_rate: float
    short_columns: Sequence[str]

    def __str__(self) -> str:
        """Return the report as text, starting with the tables that differ most."""
        lines = [f"Fidelity of {len(self.rows)} synthetic rows to the release"]
        lines += [f"  {name:<14} {text}" for name, text in self._summary()]
        if self.tables:
            lines += ["  " + "  ".join(cells) for cells in _align([HEADER, *self._cells()])]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the report as HTML."""
        title = f"<p>Fidelity of {len(self.rows)} synthetic rows to the release</p>"
        tables = table(self._cells(), header=HEADER) if self.tables else ""
        return title + named_table(self._summary()) + tables

    def _summary(self) -> list[tuple[str, str]]:
        """Return the lines that precede the tables, as pairs of name and text."""
        lines = [
            ("accepted", f"{self.acceptance_rate:.1%} of the drawn rows satisfy all constraints")
        ]
        if self.short_columns:
            names = ", ".join(self.short_columns)
            lines.append(("tails", f"synthetic numbers of {names} stay in the public range"))
        if not self.tables:
            lines.append(
                ("tables", "no table was measured: rows are weighted cells or public rows")
            )
        else:
            inside = np.average(
                [each.inside for each in self.tables],
                weights=[each.n_numbers for each in self.tables],
            )
            text = f"{len(self.tables)}, with {inside:.1%} of all fractions of the rows in the "
            lines.append(("tables", f"{text}{self.level:.0%} intervals"))
        return lines

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the cells of the report's table as text, sorted by decreasing difference."""
        order = sorted(self.tables, key=lambda each: -each.rms_difference)
        return [
            (
                each.name,
                str(each.n_numbers),
                f"{each.rms_difference:.4f}",
                f"{each.largest_difference:.4f}",
                f"{each.release_error:.4f}",
                f"{each.drawing_error:.4f}",
                f"{each.inside:.0%}",
            )
            for each in order[:MAX_LISTED_TABLES]
        ]


def _align(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return texts padded to the width of their column; the first column is left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [
            row[0].ljust(widths[0]),
            *(text.rjust(w) for text, w in zip(row[1:], widths[1:], strict=True)),
        ]
        for row in rows
    ]
