"""Fidelity of synthetic rows, i.e. the differences between their tables and the released tables.

Since all numbers are computed from released and public numbers, they may be published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.marginals.count import Attributes, marginal_tables
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.typing import Floats, Integers


class TableFidelity(NamedTuple):
    """Differences between synthetic rows and one released table or CDF, a row of the result."""

    table: str  # names of the columns
    n_numbers: int  # number of cells in the table, or of levels of the CDF
    rms_difference: float  # between the fractions of the synthetic rows and the released fractions
    largest_difference: float  # the largest absolute difference
    release_error: float  # expected rms error of the released fractions, from noise and sampling
    drawing_error: float  # expected rms difference due to the drawing of the synthetic rows
    inside: float  # share of the rows' fractions within the intervals of the release


def fidelity_columns(tables: Sequence[TableFidelity]) -> dict[str, NDArray[Any]]:
    """Return the columns of the result, by name."""
    types = {"table": str, "n_numbers": int}
    return {
        name: np.array([getattr(table, name) for table in tables], dtype=types.get(name, float))
        for name in TableFidelity._fields
    }


def compare_with_tables(
    codes: Integers,
    release: MarginalRelease,
    *,
    level: float,
    name_of: Callable[[Attributes], str],
    intervals: Callable[[Attributes, tuple[Integers, ...], float], Floats],
) -> list[TableFidelity]:
    """Compare rows, given by their codes of shape (n, n_columns), with each released table.

    `name_of` returns the name of a table, and `intervals` the intervals of its cells.
    """
    comparisons = []
    for columns, deviations in release.deviations.items():
        cells = tuple(np.indices(deviations.shape).reshape(len(columns), -1))
        comparison = _compare_fractions(
            name_of(columns),
            marginal_tables(codes, [columns], release.sizes),
            release.fractions[columns].ravel(),
            deviations=deviations.ravel(),
            ends=intervals(columns, cells, level),
            n=len(codes),
            level=level,
        )
        comparisons.append(comparison)
    return comparisons


def compare_with_cdf(x: Floats, cdf: ReleasedCDF, name: str, level: float) -> TableFidelity:
    """Compare synthetic numbers with a released CDF at the edges of the CDF's cells."""
    edges = cdf.edges
    return _compare_fractions(
        name,
        np.searchsorted(np.sort(x), edges, side="right"),
        cdf.cdf(edges),
        deviations=cdf.deviations,
        ends=cdf.fraction_intervals(np.full(len(edges), -np.inf), edges, level),
        n=len(x),
        level=level,
    )


def _compare_fractions(
    name: str,
    counts: NDArray[np.integer],
    released: Floats,
    *,
    deviations: Floats,
    ends: Floats,
    n: int,
    level: float,
) -> TableFidelity:
    """Summarise the differences between n synthetic rows and one released table.

    `deviations` contains the expected errors of the released fractions, and `ends` the intervals of
    the release, shape (n_numbers, 2).
    """
    fractions = counts / n
    differences = fractions - released
    # fractions known after `calibrate` have no interval: only the drawing of rows differs
    is_known = deviations == 0
    drawn = np.column_stack(binom.interval(level, n, np.clip(released, 0, 1))) / n
    ends = np.where(is_known[:, None], drawn, ends)
    is_inside = (ends[:, 0] <= fractions) & (fractions <= ends[:, 1])
    return TableFidelity(
        name,
        len(fractions),
        rms_difference=math.sqrt(np.square(differences).mean()),
        largest_difference=float(np.abs(differences).max()),
        release_error=math.sqrt(np.square(deviations).mean()),
        drawing_error=math.sqrt((released * (1 - released)).mean() / n),
        inside=float(is_inside.mean()),
    )
