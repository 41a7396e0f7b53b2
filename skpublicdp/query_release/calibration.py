"""Calibration of released tables to public totals by raking, which is pure post-processing.

Weighted rows that reproduce the released tables are raked to the known margins (Deming and Stephan
1940). Each cell of a released table is multiplied by the relative change in the weight of the rows
in this cell. The table is then raked to its own margins, starting with the lowest order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.schema import MISSING, OTHER, Column, Schema
from skpublicdp.query_release.answers import FittedRelease, TableAnswers, by_table
from skpublicdp.query_release.marginals.count import Attributes, ravel_codes
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.marginals.table import ipf
from skpublicdp.query_release.marginals.zeros import possible_cells
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.query_release.ratios import ratios
from skpublicdp.query_release.synthetic import MIN_SYNTHETIC_MASS, WeightedRows
from skpublicdp.typing import Floats, Integers

MAX_RAKING_SWEEPS = 2000
"""Maximum number of sweeps over the known margins. If there are few margins, raking converges in
about ten sweeps."""

RAKING_TOLERANCE = 1e-10
"""Raking stops when no fraction deviates from the known margin by more than this tolerance."""

MAX_CONTRADICTION = 1e-6
"""Largest accepted deviation from a total, as a fraction of the population; larger deviations raise
an error."""

TABLE_SWEEPS = 50
"""Maximum number of sweeps that rake a calibrated table to its own margins."""

ROWS_PER_EMPTY_CELL = 500
"""Number of rows that are added to each empty cell whose known total is positive."""

MIN_CALIBRATED_FRACTION = 1e-9
"""Fraction below which a cell counts as empty, so that its rows have no calibration factor."""

MIN_EIGENVALUE = 1e-10
"""Relative size below which an eigenvalue of the Gram matrix of known margins counts as 0. Since
the cells of each margin sum to 1, some eigenvalues are 0 up to rounding."""

MAX_NAMED_CELLS = 10
"""Maximum number of cells listed in an error message."""

Fractions = dict[Attributes, Floats]
"""Population fractions in the cells of tables, with one axis for each column."""


def calibrate_release(released: FittedRelease, totals: Mapping[Any, Any]) -> FittedRelease:
    """Return a release whose tables match the known margins in `totals`.

    The parameter `totals` is documented in `PAPQueryRelease.calibrate`.
    """
    answers = released.answers
    if not (isinstance(answers, TableAnswers) and answers.queries.has_tables):
        raise ValueError(
            "Only released tables can be calibrated. Use MarginalQueries with method='auto'."
        )
    tables = [*read_totals(totals, released.queries, released.schema).items()]
    if isinstance(answers, CalibratedAnswers):  # totals of an earlier call remain known
        tables = [*answers.known.items(), *tables]
        answers = answers.uncalibrated
    known = _with_own_margins(tables)
    for columns, table in known.items():
        answers.check_released(columns)
        possible = possible_cells(answers.release.zeros, columns, table.shape)
        if possible is not None and table[~possible].any():
            raise ValueError(
                "The totals are positive in cells that are declared impossible. Correct the "
                "totals, or release the tables without these zeros."
            )
    return replace(released, answers=CalibratedAnswers(answers, known))


class CalibratedAnswers(TableAnswers):
    """Answers from released tables after calibration to known margins."""

    has_column_intervals = False

    def __init__(self, uncalibrated: TableAnswers, known: Fractions) -> None:
        release = uncalibrated.release
        # Public rows are left out: dependences that only a few public rows show would add noise to
        # the calibration factors. Measured: including them doubled the errors of two-way tables.
        rows = uncalibrated.weighted_rows(public_size=0.0)
        codes = uncalibrated.codes(rows.rows)
        added = _rows_in_empty_cells(codes, rows.weights, known, release.sizes)
        if len(added):
            codes = np.concatenate([codes, added])
            added_weights = np.full(len(added), MIN_SYNTHETIC_MASS / ROWS_PER_EMPTY_CELL)
            rows = WeightedRows(
                np.concatenate([rows.rows, uncalibrated.encoded_rows(added)]),
                np.concatenate([rows.weights, added_weights]) / (1 + added_weights.sum()),
            )
        weights = rake_to_margins(codes, rows.weights, known, release.sizes)
        effect = _CalibrationEffect(codes, rows.weights, weights, release, known)
        fractions = effect.fractions()
        deviations = {columns: effect.deviations(columns, fractions) for columns in fractions}
        super().__init__(
            uncalibrated.queries,
            replace(release, fractions=fractions, deviations=deviations),
            uncalibrated._discretizer,
            uncalibrated._codes_public,
            uncalibrated._X_public,
        )
        self.uncalibrated, self.known = uncalibrated, known
        self._calibrated_rows = WeightedRows(rows.rows, weights)

    def __getstate__(self) -> dict[str, Any]:
        # skops and other formats have no tuples as keys, so the mapping becomes a list of pairs
        return {**vars(self), "known": list(self.known.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "known": dict(state["known"])})

    @cached_property
    def rows(self) -> WeightedRows:
        """Rows of the release, weighted to match the known margins."""
        return self._calibrated_rows

    def intervals(self, Q: NDArray[Any], level: float, *, simultaneous: bool) -> Floats:
        """Return confidence intervals for the answers to encoded queries, shape (n_queries, 2).

        The distance of each end from the answer is multiplied by the ratio of the standard
        deviation after calibration to that before calibration.
        """
        ends = self.uncalibrated.intervals(Q, level, simultaneous=simultaneous)
        for columns, indices, codes in by_table(self._cells(Q)):
            if columns:
                ends[indices] = self._rescale(ends[indices], columns, codes)
        return ends

    def _cell_intervals(
        self, columns: Attributes, codes: tuple[Integers, ...], level: float
    ) -> Floats:
        """Return intervals for cells, each with coverage `level`, shape (n_cells, 2)."""
        ends = self.uncalibrated._cell_intervals(columns, codes, level)
        return self._rescale(ends, columns, codes)

    def _rescale(self, ends: Floats, columns: Attributes, codes: tuple[Integers, ...]) -> Floats:
        """Return the intervals for cells after calibration, given the intervals before."""
        if columns in self.known:
            return np.repeat(self.known[columns][codes][:, None], 2, axis=1)
        old = self.uncalibrated.release
        new = self.release
        old_fractions = old.fractions[columns][codes]
        new_fractions = new.fractions[columns][codes]
        old_deviations = old.deviations[columns][codes]
        new_deviations = new.deviations[columns][codes]
        # no weighted row is in a cell whose deviation vanishes
        new_deviations = np.where(new_deviations > 0, new_deviations, old_deviations)
        ratio = ratios(new_deviations, old_deviations, 1.0)
        distances = ratio[:, None] * (ends - old_fractions[:, None])
        rescaled = new_fractions[:, None] + distances
        # a cell that may have been empty may still be, and none exceeds its known margins
        rescaled[ends[:, 0] <= 0, 0] = 0
        limits = self._known_margins(columns, codes)
        return np.clip(rescaled, 0, limits[:, None])

    def _known_margins(self, columns: Attributes, codes: tuple[Integers, ...]) -> Floats:
        """Return the smallest known margin that contains each cell, or 1, shape (n_cells,)."""
        limits = np.ones(len(codes[0]))
        code_of_column = dict(zip(columns, codes, strict=True))
        for known_columns, table in self.known.items():
            if set(known_columns) <= set(columns):
                margin_codes = tuple(code_of_column[column] for column in known_columns)
                limits = np.minimum(limits, table[margin_codes])
        return limits

    def share_intervals(
        self, cells: Integers, groups: Integers, level: float, *, simultaneous: bool
    ) -> Floats:
        """Return intervals for the share of each cell within a group of rows, shape (n_cells, 2).

        The distance of each end from the share is scaled by the change that calibration makes to
        the cell's standard deviation relative to the group.
        """
        uncalibrated = self.uncalibrated
        ends = uncalibrated.share_intervals(cells, groups, level, simultaneous=simultaneous)
        ((columns, _, codes),) = by_table(cells)
        group, share = _group_and_share(self, cells, groups)
        old_group, old_share = _group_and_share(uncalibrated, cells, groups)
        deviation = self.release.deviations[columns][codes]
        old_deviation = uncalibrated.release.deviations[columns][codes]
        rescaled = ratios(deviation * old_group, group, 1.0)
        change = ratios(rescaled, old_deviation, 1.0)
        old_distances = ends - old_share[:, None]
        distances = change[:, None] * old_distances
        calibrated = np.clip(share[:, None] + distances, 0, 1)
        low, high = ends.T
        is_known = (group > 0) & (high - low != 1)
        unknown = [0.0, 1.0]
        return np.where(is_known[:, None], calibrated, unknown)

    def distribution(self, position: int, column: Column) -> WeightedRows:
        """Return the calibrated distribution of a numeric column, which has no intervals."""
        return self.rows.column(position)


def _group_and_share(
    answers: TableAnswers, cells: Integers, groups: Integers
) -> tuple[Floats, Floats]:
    """Return the fraction of each cell's group, and the cell's share of the group or 0."""
    fractions, totals = answers.answer(cells), answers.answer(groups)
    return totals, ratios(fractions, totals)


@dataclass(frozen=True, eq=False)
class _CalibrationEffect:
    """Effect of calibration on each released table: the new fractions and standard deviations."""

    codes: Integers  # (n_rows, n_columns): codes of the weighted rows
    # (n_rows,): weights of the rows before and after raking to the known margins
    before: Floats
    after: Floats
    release: MarginalRelease  # release before calibration
    known: Fractions  # the known margins, including all lower-order margins that follow from them

    def fractions(self) -> Fractions:
        """Return the calibrated tables; wider tables match the margins of narrower ones."""
        calibrated: Fractions = {}
        for columns in sorted(self.release.fractions, key=len):
            if columns in self.known:
                calibrated[columns] = self.known[columns]
                continue
            table = self.release.fractions[columns]
            cells, released = self._cells(columns), table.ravel()
            masses = _masses(cells, self.after, table.size)
            change = _ratio(masses, _masses(cells, self.before, table.size))
            is_empty = released < MIN_CALIBRATED_FRACTION
            table = np.where(is_empty, masses, released * change).reshape(table.shape)
            if len(columns) == 1:
                calibrated[columns] = table / table.sum()
                continue
            margins = [
                np.expand_dims(calibrated[columns[:axis] + columns[axis + 1 :]], axis)[None]
                for axis in range(len(columns))
            ]
            calibrated[columns] = ipf(table[None], margins, TABLE_SWEEPS)[0]
        return calibrated

    def deviations(self, columns: Attributes, calibrated: Fractions) -> Floats:
        """Return the approximate standard deviation of each cell of a calibrated table.

        The standard deviation is computed for the linearised estimator (Deville and Särndal 1992):
        the fraction of a cell minus its regression on the known margins. The sampling variance is
        the variance of the residuals. Errors due to noise are added as if they were independent.
        """
        fractions = self.release.fractions[columns]
        if columns in self.known:
            return np.zeros(fractions.shape)
        cells = self._cells(columns)
        size = fractions.size
        coefficients = self._cross_table(cells, size, self.after) @ self._inverse_gram
        # sum of the squared residuals of each cell, weighted by `squared`
        squared = self.after * self._factors
        cross = self._cross_table(cells, size, squared)
        explained = (coefficients * cross).sum(axis=1)
        weighted = coefficients @ self._squared_gram
        square = (weighted * coefficients).sum(axis=1)
        total = np.bincount(cells, squared, minlength=size)
        residual = total - 2 * explained + square
        sampling = np.maximum(residual, 0) / self.release.persons
        change = _ratio(calibrated[columns].ravel(), fractions.ravel())
        noise = change**2 * self._noise_variance(columns)
        margin_noise = coefficients**2 @ self._margin_noise
        variances = sampling + (noise + margin_noise)
        return np.sqrt(variances).reshape(fractions.shape)

    def _cells(self, columns: Attributes) -> NDArray[np.integer]:
        """Return the flat index of the table cell that contains each weighted row."""
        return ravel_codes(self.codes, columns, self.release.sizes)

    def _noise_variance(self, columns: Attributes) -> Floats:
        """Return the variances of a table's cells, excluding sampling error, as a flat array."""
        fractions = self.release.fractions[columns].ravel()
        sampling = fractions * (1 - fractions) / self.release.persons
        return np.maximum(self.release.deviations[columns].ravel() ** 2 - sampling, 0)

    @cached_property
    def _factors(self) -> Floats:
        """Calibration factor of each weighted row."""
        return ratios(self.after, self.before)

    @cached_property
    def _margin_cells(self) -> list[tuple[NDArray[np.integer], int]]:
        """For each known margin, the cell of each weighted row and the number of cells."""
        return [(self._cells(columns), table.size) for columns, table in self.known.items()]

    @cached_property
    def _margin_noise(self) -> Floats:
        """Noise variance of each known margin cell, times the squared calibration factor."""
        variances: list[Floats] = []
        for columns, table in self.known.items():
            factor = _ratio(table.ravel(), self.release.fractions[columns].ravel())
            variances.append(factor**2 * self._noise_variance(columns))
        return np.concatenate(variances)

    @cached_property
    def _inverse_gram(self) -> Floats:
        """Pseudoinverse of the Gram matrix of the known margins' cells."""
        inverse: NDArray[Any] = np.linalg.pinv(
            self._gram(self.after), MIN_EIGENVALUE, hermitian=True
        )
        return inverse

    @cached_property
    def _squared_gram(self) -> Floats:
        """Gram matrix for the sampling variance, i.e. weighted by squared calibration factors."""
        return self._gram(self.after * self._factors)

    def _gram(self, weights: Floats) -> Floats:
        """Return the total weight of the rows that two known margin cells share, for each pair."""
        return np.concatenate(
            [self._cross_table(cells, size, weights) for cells, size in self._margin_cells]
        )

    def _cross_table(self, cells: NDArray[np.integer], size: int, weights: Floats) -> Floats:
        """For each pair of a table cell and a known margin cell, return the rows' total weight.

        The shape is (size, number of cells of all known margins).
        """
        tables = []
        for margin_cells, margin_size in self._margin_cells:
            pairs = cells * margin_size + margin_cells
            table = np.bincount(pairs, weights, minlength=size * margin_size)
            tables.append(table.reshape(size, margin_size))
        return np.concatenate(tables, axis=1)


def _rows_in_empty_cells(
    codes: Integers, weights: Floats, known: Fractions, sizes: Attributes
) -> Integers:
    """Return codes of new rows for empty cells whose known totals are positive.

    Each of these cells receives `ROWS_PER_EMPTY_CELL` rows, whose other columns are copied from
    random rows. The seed is fixed, because it does not affect privacy.
    """
    generator = np.random.default_rng(0)
    added = [np.zeros((0, codes.shape[1]), dtype=codes.dtype)]
    for columns, table in known.items():
        cells = ravel_codes(codes, columns, sizes)
        masses = np.bincount(cells, weights, minlength=table.size)
        is_needed = (masses == 0) & (table.ravel() > 0)
        for cell in np.flatnonzero(is_needed):
            copied = generator.choice(len(codes), size=ROWS_PER_EMPTY_CELL, p=weights)
            rows = codes[copied]
            rows[:, columns] = np.array(np.unravel_index(cell, table.shape))
            added.append(rows)
    return np.concatenate(added)


def _masses(cells: NDArray[np.integer], weights: Floats, size: int) -> Floats:
    """Return the total weight of the rows in each cell, shape (size,)."""
    masses: NDArray[Any] = np.bincount(cells, weights, minlength=size)
    return masses


def _ratio(new: Floats, old: Floats) -> Floats:
    """Return the ratio of new to old fractions, or 1 for cells that were empty."""
    return np.divide(new, old, out=np.ones(len(old)), where=old > MIN_CALIBRATED_FRACTION)


def rake_to_margins(
    codes: Integers, weights: Floats, known: Fractions, sizes: Attributes
) -> Floats:
    """Return row weights that match known margins and sum to 1, by iterative proportional fitting.

    A ValueError is raised if no weights for these rows match the margins.
    """
    margins = [(ravel_codes(codes, columns, sizes), known[columns].ravel()) for columns in known]
    for _ in range(MAX_RAKING_SWEEPS):
        max_deviation = 0.0
        for cells, fractions in margins:
            masses = np.bincount(cells, weights, minlength=len(fractions))
            max_deviation = max(max_deviation, float(np.abs(masses - fractions).max()))
            weights = weights * ratios(fractions, masses)[cells]
        if max_deviation < RAKING_TOLERANCE:
            break
    if max_deviation > MAX_CONTRADICTION:
        raise ValueError(
            "The totals contradict each other, so they cannot all be satisfied: tables that share "
            "columns imply different values. Correct the totals, or pass fewer."
        )
    return weights / weights.sum()


def read_totals(totals: Mapping[Any, Any], queries: QueryClass, schema: Schema) -> Fractions:
    """Return the user's totals as population fractions, keyed by increasing column positions."""
    if not isinstance(totals, Mapping) or not totals:
        raise ValueError(
            "totals must be a dict that maps each column or tuple of columns to its known totals."
        )
    known: Fractions = {}
    for key, values in totals.items():
        if hasattr(values, "columns"):
            raise ValueError(
                "Each value of totals must be a dict or a Series that maps cells to totals; got a "
                "frame. Use frame.set_index(columns)[name], with the name of the column of totals."
            )
        columns = list(key) if isinstance(key, tuple) else [key]
        positions = [schema.position(column) for column in columns]
        fractions = _read_table(dict(values), positions, queries, schema)
        order = np.argsort(positions)
        known[tuple(sorted(positions))] = fractions.transpose(order)
    return known


def _read_table(
    values: dict[Any, Any], positions: list[int], queries: QueryClass, schema: Schema
) -> Floats:
    """Return the known totals of one table as fractions, with one axis for each column."""
    cells, names = queries.table_cells(positions)
    labels = list(zip(*names, strict=True))
    # in a table with text, such as ">= 2", the names of all cells are text
    label_of_text = {tuple(map(str, label)): label for label in labels}
    is_ambiguous = len(label_of_text) < len(labels)  # such as the number 1 and the text "1"
    title = " and ".join(schema.names[position] for position in positions)
    given: dict[Any, Any] = {}
    for key, total in values.items():
        label = key if isinstance(key, tuple) else (key,)
        if not is_ambiguous:
            label = label_of_text.get(tuple(map(str, label)), label)
        if label in given:
            raise ValueError(
                f"The totals of {title} contain the cell {_list_cells([label])} twice, as text and "
                "as a number. Pass one of them."
            )
        given[label] = total
    unknown = [label for label in given if label not in set(labels)]
    # population totals may omit rows without a value
    missing = [
        label
        for label in labels
        if label not in given and not {OTHER, MISSING}.intersection(map(str, label))
    ]
    if unknown:
        raise ValueError(
            f"The totals of {title} contain cells that do not exist: {_list_cells(unknown)}. Use "
            f"the cells that table returns; the first cells are {_list_cells(labels)}."
        )
    if missing:
        raise ValueError(
            f"The totals of {title} do not contain these cells: {_list_cells(missing)}. Pass a "
            'total for each cell that table returns; totals of "(other)" and "(missing)" may be '
            "omitted."
        )
    array = np.array([given.get(label, 0) for label in labels], dtype=np.float64)
    if not (np.isfinite(array).all() and (array >= 0).all() and array.sum() > 0):
        raise ValueError(
            f"The totals of {title} must be non-negative numbers and must not all be zero."
        )
    codes = tuple(cells[:, position] for position in positions)
    fractions: Floats = np.zeros([column_codes.max() + 1 for column_codes in codes])
    fractions[codes] = array / array.sum()  # cells are in the display order of the table
    return fractions


def _list_cells(labels: list[tuple[Any, ...]]) -> str:
    """Return the values of the first few cells as a string."""
    texts = [repr(label[0]) if len(label) == 1 else repr(label) for label in labels]
    return ", ".join(texts[:MAX_NAMED_CELLS])


def _with_own_margins(tables: list[tuple[Attributes, Floats]]) -> Fractions:
    """Return the known tables and all lower-order margins, which are known as a consequence."""
    closure: Fractions = {}
    for columns, table in tables:
        for n_columns in range(1, len(columns) + 1):
            for axes in combinations(range(len(columns)), n_columns):
                summed = tuple(axis for axis in range(len(columns)) if axis not in axes)
                margin, subset = table.sum(axis=summed), tuple(columns[axis] for axis in axes)
                if np.abs(closure.get(subset, margin) - margin).max() > MAX_CONTRADICTION:
                    raise ValueError(
                        "The totals contradict each other: two tables have different shares for "
                        "the same cells. Correct the totals, or pass only one of the two tables."
                    )
                closure[subset] = margin
    return closure
