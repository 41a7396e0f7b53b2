"""`measure_drift`: differences of two private releases, with simultaneous intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skpublicdp._internal.parameters import PROBABILITY, check_values
from skpublicdp.data.tables import to_narwhals
from skpublicdp.metrics.residual_metrics import RESIDUAL_METRICS
from skpublicdp.metrics.scores import PrivateScores
from skpublicdp.typing import Floats

COMPARED_METRICS = ("accuracy", "balanced_accuracy", "roc_auc", "brier", *RESIDUAL_METRICS)
"""Metrics that are numbers, and so have a difference."""


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of the cells of a released table, or of a released metric.

    Instances are elements of `DriftComparison.tables`.

    Attributes
    ----------
    columns : tuple of str
        Columns of the table, or the name of the metric.
    cells : list of tuple
        Names of the cells, in the order of the arrays.
    difference : ndarray of shape (n_cells,)
        Fraction (or metric) of the second release minus that of the first.
    low, high : ndarray of shape (n_cells,)
        Ends of the simultaneous intervals of the differences.
    """

    columns: tuple[str, ...]
    cells: list[tuple[Any, ...]]
    difference: Floats
    low: Floats
    high: Floats

    @property
    def least_change(self) -> float:
        """Smallest change that the intervals admit.

        For a table, this is a lower bound on the total variation distance, the fraction of the rows
        that would have to change. It is 0 if the distributions may be equal.
        """
        increase = np.maximum(self.low, 0).sum()
        decrease = np.maximum(-self.high, 0).sum()
        return float(max(increase, decrease))


@dataclass(frozen=True, eq=False)
class DriftComparison:
    """Differences of two releases. Instances are returned by `measure_drift`.

    Attributes
    ----------
    tables : tuple of Differences
        The tables (or metrics) that both releases have. The largest `least_change` comes first.
    level : float
        Probability with which all intervals hold together.
    """

    tables: tuple[Differences, ...]
    level: float

    @property
    def drifted(self) -> tuple[str, ...]:
        """Names of the columns or metrics that have changed, those that changed most first.

        A table of several columns is named only if none of its columns is.
        """
        names: list[str] = []
        changed = [table for table in self.tables if table.least_change > 0]
        for table in sorted(changed, key=lambda table: len(table.columns) > 1):
            if not set(table.columns) & set(names):
                names.append(" × ".join(table.columns))
        return tuple(names)

    def __repr__(self) -> str:
        changes = [
            f"  {' × '.join(table.columns)}: changed by at least {table.least_change:.3f}"
            for table in self.tables
            if table.least_change > 0
        ]
        title = f"DriftComparison of {len(self.tables)} tables, level {self.level:g}"
        return "\n".join([title, *(changes or ["  no change is certain"])])


def measure_drift(before: Any, after: Any, *, level: float = 0.95) -> DriftComparison:
    """Compare two releases of tables, or two releases of scores, at no further privacy cost.

    For example, `before` describes the rows of the fit, and `after` the rows of this month. Two
    samples of the same population differ by chance, and two releases also by their noise. The
    intervals account for both, so a difference whose interval excludes 0 is a drift.

    Parameters
    ----------
    before, after : PAPQueryRelease or PrivateScores
        Two fitted releases with tables, or two results of `private_scores`. Tables have the same
        cells if both are fitted with the same public rows, bounds and `MarginalQueries`. The cells
        of a single numeric column without `MarginalQueries` depend on the measurements.
    level : float, default=0.95
        Probability, in (0, 1), with which the intervals of all differences hold simultaneously. It
        is the probability that the simultaneous intervals of both releases hold, each with half of
        the failure probability, whether or not the releases share rows.

    Returns
    -------
    DriftComparison
        The differences of all tables that both releases have, and the columns that have drifted.

    Raises
    ------
    TypeError
        If `before` and `after` are not two releases of the same kind.
    ValueError
        If no table or metric is the same in both, or the level is not in (0, 1).

    See Also
    --------
    private_scores : Releases scores.
    skpublicdp.PAPQueryRelease : Releases tables.

    Notes
    -----
    Every cell lies in its interval [a, b] before and in its interval [c, d] after, except with
    probability 1 - `level`. On this event, each difference lies in [c - b, d - a].

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skpublicdp import PAPQueryRelease
    >>> from skpublicdp.metrics import measure_drift
    >>> rng = np.random.default_rng(0)
    >>> def people(n, old):
    ...     age = np.where(rng.random(n) < old, "old", "young")
    ...     return pd.DataFrame({"age": age, "region": rng.choice(["north", "south"], size=n)})
    >>> public = people(300, old=0.5)
    >>> last_year, month = (
    ...     PAPQueryRelease(epsilon=0.5, random_state=seed).fit(people(n, old), X_public=public)
    ...     for seed, (n, old) in enumerate([(20_000, 0.5), (5_000, 0.6)])
    ... )
    >>> measure_drift(last_year, month).drifted
    ('age',)
    """
    check_values({"level": PROBABILITY}, {"level": level}, caller="measure_drift")
    each_level = (1 + level) / 2
    if isinstance(before, PrivateScores) and isinstance(after, PrivateScores):
        entries = [_metrics(scores, each_level) for scores in (before, after)]
    elif hasattr(before, "tables") and hasattr(after, "tables"):
        entries = [_tables(release, each_level) for release in (before, after)]
    else:
        raise TypeError(
            "measure_drift requires two fitted PAPQueryRelease, or two PrivateScores; got "
            f"{type(before).__name__} and {type(after).__name__}."
        )
    first, second = entries
    differences = []
    for key, (value, low, high) in second.items():
        if key in first:
            old_value, old_low, old_high = first[key]
            columns, cells = key
            differences.append(
                Differences(columns, list(cells), value - old_value, low - old_high, high - old_low)
            )
    if not differences:
        raise ValueError(
            "before and after must have a table or a metric with the same cells in common. Fit "
            "both with the same X_public, bounds and MarginalQueries."
        )
    differences.sort(key=lambda table: -table.least_change)
    return DriftComparison(tuple(differences), level)


Entries = dict[tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]], tuple[Floats, Floats, Floats]]
"""Values, low ends and high ends of all cells, by the columns and the cells of a table."""


def _metrics(scores: PrivateScores, level: float) -> Entries:
    """Return the metrics of a release that are numbers, as tables of one cell."""
    entries: Entries = {}
    for metric in COMPARED_METRICS:
        if metric in scores.metrics_:
            low, high = scores.interval(metric, level)
            value = np.array([getattr(scores, metric)])
            entries[(metric,), ((metric,),)] = value, np.array([low]), np.array([high])
    return entries


def _tables(release: Any, level: float) -> Entries:
    """Return all tables of a release, with intervals that hold together."""
    entries: Entries = {}
    for table in release.tables(level, simultaneous=True):
        frame = to_narwhals(table)
        names = list(frame) if isinstance(frame, dict) else frame.columns
        *columns, value, low, high = names  # the columns of cells come first
        cells = zip(*(np.asarray(frame[name]).tolist() for name in columns), strict=True)
        key = tuple(map(str, columns)), tuple(cells)
        entries[key] = (
            np.asarray(frame[value], dtype=float),
            np.asarray(frame[low], dtype=float),
            np.asarray(frame[high], dtype=float),
        )
    return entries
