"""What noisy tables and public rows together say of all tables of a workload and their margins.

Tables of few columns come first: a table is then known up to what its margins leave open. No
private row is seen here. Fractions throughout; a precision is one over a variance.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skpublicdp.query_release.effective_sizes import (
    EffectiveSizes,
    certain_size,
    effective_sizes,
    likely_worth,
)
from skpublicdp.query_release.marginals.count import Columns, cells
from skpublicdp.query_release.marginals.intervals import TablePosterior, table_posteriors
from skpublicdp.query_release.marginals.ipf import TINY, Floats, meet_margins, weigh
from skpublicdp.query_release.marginals.shrinkage import Cells, shrink
from skpublicdp.query_release.marginals.table import NOTHING, Freed, Table, largest_shares

LEAST_OPEN = 1e-6
"""Margins never tell all of a cell."""

DOMINANT = 0.5
"""Share in the prior variance along an axis above which other cells hold a cell back: they have to
make up for its deviation, and vary less than it does."""

CLEAR = 0.3
"""Largest noise variance of a dominant cell that moves other priors, in its prior variances."""

COMMON = 0.1
"""Weight of the prior against a common deviation, in units of its weight against one of a cell."""

UNSEEN = 1e-3
"""Weight of a measurement that is left out."""

LEAST_WORTH = 1e-9
"""Of public rows, in private ones: a trust of less would be no more than this."""


class MarginalModel:
    """All tables of a workload and of their margins.

    Parameters
    ----------
    public : ndarray of int, shape (m, n_columns)
        Public rows, coded; there may be none.
    sizes : tuple of int
        How many codes each column has.
    workload : iterable of tuple of int
        The tables.
    n_private : float
        How many private persons there are, by which the population varies.
    trust : "auto" or float
        How many private rows the public ones count for.
    """

    def __init__(
        self,
        public: NDArray[np.integer],
        sizes: Columns,
        workload: Iterable[Columns],
        n_private: float,
        trust: str | float = "auto",
    ) -> None:
        self._public, self._sizes = public, sizes
        self.n_private = n_private
        self.trust = None if isinstance(trust, str) else float(trust)
        self.workload = tuple(workload)
        self.tables = {
            columns: Table(columns, tuple(sizes[column] for column in columns))
            for columns in closure(self.workload)
        }
        for columns, table in self.tables.items():
            for width in range(1, len(columns)):
                below = [self.tables[each] for each in itertools.combinations(columns, width)]
                table.below += below
                for other in below:
                    other.above.append(table)
            table.parents = [
                self.tables[columns[:axis] + columns[axis + 1 :]]
                for axis in range(len(columns))
                if len(columns) > 1
            ]
        self._orders = defaultdict(list)
        for columns, table in self.tables.items():
            self._orders[len(columns)].append(table)
        self.worth: dict[int, float] = {}
        """How many private rows the public ones are worth, for tables of so many columns."""
        self._effective_sizes: dict[int, EffectiveSizes] = {}

    def solve(self) -> None:
        """Estimate all tables from what was measured so far."""
        m = float(len(self._public))
        for width, tables in self._orders.items():
            for table in tables:
                self._collect(table)
            for group in _alike(tables):
                _find_bases(group)
            for table in tables:
                table.public = self._count_public(table)
            if width > 1 and m:
                for group in _alike(tables):
                    _move_public(group, m)
            self.worth[width], self._effective_sizes[width] = self._worth(tables, m)
            if width == 1:
                for table in tables:  # a public row more, anywhere
                    table.loose = np.full(table.shape, 1 / (1 + self.worth[1]))
                    table.prior = table.base + (1 - table.loose) * (table.public - table.base)
                    table.prior = np.maximum(table.prior, 1e-9)
                with np.errstate(divide="ignore"):  # nothing was measured
                    ratios = [1 / (table.loose * table.precisions) for table in tables]
            else:
                ratios = _disperse(tables, self.worth[width])
            _estimate(tables, ratios)

    def reconcile(self) -> None:
        """Free tables from fixed margins, and let them agree on the mean of each margin."""
        freed = {columns: table.freed() for columns, table in self.tables.items()}
        for tables in self._orders.values():
            for group in _alike(tables):
                means = np.stack([_mean_margin(table, freed) for table in group])
                agreed = _agreed(means, [freed[table.columns] for table in group], _margins(group))
                for table, fractions in zip(group, agreed, strict=True):
                    table.fractions = fractions

    def posteriors(self) -> dict[Columns, TablePosterior]:
        """Return the posteriors of all tables, of which intervals are made."""
        return table_posteriors(self._orders, self.worth, self._effective_sizes)

    def _collect(self, table: Table) -> None:
        """Gather the own measurement and what wider tables say."""
        total = table.precision * table.measured
        precisions = np.full(table.shape, table.precision)
        for other in table.above:
            if other.precision:
                values, precision = other.message(table)
                total, precisions = total + precision * values, precisions + precision
        table.values = np.divide(total, precisions, out=np.zeros(table.shape), where=precisions > 0)
        table.precisions = precisions

    def _count_public(self, table: Table) -> Floats:
        if not len(self._public):
            return table.base
        cell = cells(self._public, table.columns, self._sizes)
        counts = np.bincount(cell, minlength=math.prod(table.shape))
        fractions: Floats = counts.reshape(table.shape) / len(cell)
        return fractions

    def _worth(self, tables: Sequence[Table], m: float) -> tuple[float, EffectiveSizes]:
        """Return how many private rows the public ones are worth, and the posterior of that."""
        if not m:
            return 0.0, certain_size(0.0)
        if self.trust is not None:
            trusted = min(max(self.trust, LEAST_WORTH), m)
            return trusted, certain_size(trusted)
        known = 1 / m + 1 / self.n_private
        errors, spreads, noises, weights = [], [], [], []
        for table in tables:
            on = (table.precisions > 0) & (table.kept > 0)  # else margins tell all
            errors.append(table.residual()[on] ** 2)
            likely = table.base
            if len(table.columns) == 1:
                likely = (table.public + np.maximum(table.values, 0)) / 2
                likely = np.maximum(likely, table.base / (m + 1))
                likely = likely * np.maximum(1 - likely, LEAST_OPEN)
            else:
                likely = np.maximum(likely, 1e-12) * table.open
            spreads.append(likely[on])
            noises.append(table.kept / table.precisions[on])
            weights.append(np.full(len(spreads[-1]), table.kept))  # margins fix the other errors
        error, spread, noise, weight = map(np.concatenate, (errors, spreads, noises, weights))
        evidence = error, spread, noise, known, weight
        return likely_worth(*evidence), effective_sizes(*evidence)


def closure(workload: Iterable[Columns]) -> list[Columns]:
    """List the tables and all their margins, those of fewest columns first.

    Examples
    --------
    >>> closure([(0, 2), (1,)])
    [(0,), (1,), (2,), (0, 2)]
    """
    every = {
        margin
        for columns in workload
        for width in range(1, len(columns) + 1)
        for margin in itertools.combinations(columns, width)
    }
    return sorted(every, key=lambda columns: (len(columns), columns))


def _mean_margin(table: Table, freed: Mapping[Columns, Freed]) -> Floats:
    """Return the mean of a table and of the sums of wider ones, by their precisions."""
    total: Floats = np.zeros(table.shape)
    precision: Floats = np.zeros(table.shape)
    for other in (table, *table.above):
        axes = other.axes_without(table.columns)
        weights = 1 / freed[other.columns].variances().sum(axis=axes)
        total = total + weights * freed[other.columns].fractions.sum(axis=axes)
        precision = precision + weights
    return total / precision


def _agreed(means: Floats, freed: Sequence[Freed], margins: Sequence[Floats]) -> Floats:
    """Return the tables of given margins nearest to means, where uncertain cells move most.

    `weigh` from the means to the means: near them its curvature in a cell is the cell's posterior
    precision, 1/prior + 1/noise, and no cell becomes negative. Without a measurement tables are
    scaled in proportion.
    """
    _, prior, noise = map(np.stack, zip(*freed, strict=True))
    if noise.min() >= 1 / NOTHING:
        return meet_margins(means, margins, 50)
    return weigh(means, means * noise / prior, means, 1 / noise, margins)


def _alike(tables: Iterable[Table]) -> Iterable[list[Table]]:
    """Group tables that can be solved together."""
    groups = defaultdict(list)
    for table in tables:
        groups[table.shape, bool(table.precisions.flat[0] > 0)].append(table)
    return groups.values()


def _margins(group: Sequence[Table]) -> list[Floats]:
    return [np.stack(each) for each in zip(*(table.margins() for table in group), strict=True)]


def _find_bases(group: Sequence[Table]) -> None:
    """Set what the margins alone suggest: of all tables that have them the most even one."""
    width = len(group[0].columns)
    shape = (len(group), *group[0].shape)
    if width == 1:
        bases, opens = np.full(shape, 1 / shape[1]), np.full(shape, 1 - 1 / shape[1])
    else:
        bases, opens = np.ones(shape), np.ones(shape)
        for axis in range(width):
            ones = [table.below[axis].known.reshape(table.widened(table.below[axis]))
                    for table in group]  # fmt: skip
            bases, opens = bases * np.stack(ones), opens * (1 - np.stack(ones))
        if width > 2:
            bases = meet_margins(np.ones(shape), _margins(group), 50)
    for table, base, share in zip(group, bases, opens, strict=True):
        table.base, table.open = base, np.maximum(share, LEAST_OPEN)


def _move_public(group: Sequence[Table], m: float) -> None:
    """Move the public tables to the estimated margins; one row more is spread like the base."""
    tables = np.stack([(m * table.public + table.base) / (m + 1) for table in group])
    for table, moved in zip(group, meet_margins(tables, _margins(group), 50), strict=True):
        table.public = moved


def _disperse(tables: Sequence[Table], worth: float) -> list[Floats]:
    """Set the prior of each cell by how far cells like it are from their bases."""
    every = Cells(
        base=_joined(tables, "base"),
        public=_joined(tables, "public"),
        open=_joined(tables, "open"),
        values=np.concatenate([(t.public + t.residual()).ravel() for t in tables]),
        precisions=_joined(tables, "precisions"),
        kept=np.repeat([t.kept for t in tables], [t.base.size for t in tables]),
    )
    starts = np.concatenate([[0], np.cumsum([table.base.size for table in tables])])
    prior, loose, ratio = shrink(every, starts[:-1], worth)
    ratios = []
    for table, start, end in zip(tables, starts[:-1], starts[1:], strict=True):
        table.prior = prior[start:end].reshape(table.shape)
        table.loose = loose[start:end].reshape(table.shape)
        ratios.append(ratio[start:end].reshape(table.shape))
    return ratios


def _joined(tables: Sequence[Table], name: str) -> Floats:
    return np.concatenate([getattr(table, name).ravel() for table in tables])


def _estimate(tables: Sequence[Table], ratios: Sequence[Floats]) -> None:
    places = {id(table): place for place, table in enumerate(tables)}
    for group in _alike(tables):
        prior = np.stack([table.prior for table in group])
        margins = _margins(group)
        if group[0].precisions.flat[0] > 0:
            ratio = np.stack([ratios[places[id(table)]] for table in group])
            values = np.stack([table.values for table in group])
            precisions = np.stack([table.precisions for table in group])
            if group[0].parents:
                spread = np.stack([table.loose * table.prior * table.open for table in group])
                prior = _anchored(prior, spread, ratio, values, precisions, margins)
            found = weigh(prior, ratio, values, precisions, margins)
        else:
            found = meet_margins(prior, margins, 50)
        for table, fractions in zip(group, found, strict=True):
            table.fractions = fractions
            if not table.parents:
                table.open = np.maximum(1 - fractions, LEAST_OPEN)
            # an estimate that noise made too small is no less uncertain
            likely = np.maximum(fractions, table.prior)
            table.spread = np.maximum(table.loose * likely * table.open, 1e-30)
            table.variances = 1 / (1 / table.spread + table.precisions)


def _anchored(
    prior: Floats,
    spread: Floats,
    ratio: Floats,
    values: Floats,
    precisions: Floats,
    margins: Sequence[Floats],
) -> Floats:
    """Return priors that follow the measurements of dominant cells, from the arguments of `weigh`.

    Priors take the deviations of cells for independent. A heavy cell of an empty row and column may
    vary by more than all other cells there together, and their many small priors hold it back where
    all are wrong alike: two columns that exclude each other have an empty block, where products of
    margins have much mass. So common deviations are estimated first, from the dominant cells alone
    and with less weight on the priors. `spread` has the prior variances.
    """
    dominant = np.stack([largest_shares(each) for each in spread]) > DOMINANT
    dominant &= 1 / precisions < CLEAR * spread
    some = np.flatnonzero(dominant.any(axis=tuple(range(1, dominant.ndim))))
    if len(some):
        seen = np.where(dominant[some], 1, UNSEEN)
        prior = prior.copy()
        prior[some] = weigh(
            prior[some],
            COMMON * ratio[some] / seen,
            values[some],
            precisions[some] * seen,
            [margin[some] for margin in margins],
        )
    return np.maximum(prior, TINY)
