"""Weighted and synthetic rows from a Chow-Liu tree and public rows, raked to released tables.

Rows are drawn until they satisfy the constraints of users, and are compared with the released
tables and CDFs.

All steps are post-processing of public rows and released numbers. The random seed is fixed, because
it does not affect privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.stats import binom

from skpublicdp.data.schema import Schema
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.marginals.count import (
    MEMORY_BYTES,
    Attributes,
    combination_ids,
    marginal_tables,
    ravel_codes,
)
from skpublicdp.query_release.marginals.release import MarginalRelease
from skpublicdp.query_release.marginals.zeros import Zeros, are_possible
from skpublicdp.query_release.queries.base import QueryClass
from skpublicdp.typing import Floats, Integers, Mask

N_TREE_ROWS = 50_000
"""Number of rows drawn from the tree; their sampling error is corrected by raking."""

MAX_REPEATED_DRAWS = 20
"""Maximum number of times that rows with impossible combinations are drawn again."""

MIN_SYNTHETIC_MASS = 1e-6
"""Minimum released mass of a cell that receives a synthetic row."""

SWEEP_RANGE = 3, 60
"""Minimum and maximum numbers of raking sweeps over the workload."""

MAX_WEIGHT_UPDATES = 400_000_000
"""Target number of weight updates in raking, i.e. rows times tables times sweeps. The number of
sweeps within `SWEEP_RANGE` is chosen to meet this target."""

MAX_CACHED_CELLS = MEMORY_BYTES // 16
"""Maximum number of cell indices (rows times tables) kept in memory, at 8 bytes each."""

UNDAMPED_SWEEPS = 10
"""Number of sweeps before damping (step ∝ 1/sweep), which is needed because noisy tables may
disagree."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Discrete distribution on public or synthetic rows, given by released weights."""

    rows: Floats  # (n_rows, n_features): encoded rows
    weights: Floats  # (n_rows,): non-negative weights that sum to 1

    def column(self, position: int) -> WeightedRows:
        """Return the distribution of one column among the rows that have a value."""
        values = self.rows[:, [position]]
        weights = self.weights
        has_value = ~np.isnan(values[:, 0])
        if has_value.all():
            return WeightedRows(values, weights)
        weights = weights[has_value]
        if not weights.sum() > 0:  # no row has a value: weight all values equally
            weights = np.ones(len(weights))
        return WeightedRows(values[has_value], weights / weights.sum())

    def answer(self, queries: QueryClass, Q: NDArray[Any]) -> Floats:
        """Return the total weight of the rows that satisfy each encoded query."""
        return np.clip(queries.weighted_mean(Q, self.rows, self.weights), 0, 1)

    def cdf(self, x: Floats) -> Floats:
        """Return the total weight of the rows whose value is at or below each number.

        The rows must have a single column.
        """
        values, cumulative = self._ecdf()
        n_values_up_to_x = np.searchsorted(values, x, side="right")
        return np.concatenate([[0.0], cumulative])[n_values_up_to_x]

    def quantile(self, p: Floats) -> Floats:
        """Return the smallest value at which `cdf` reaches each fraction in `p`.

        The rows must have a single column.
        """
        values, cumulative = self._ecdf()
        return values[np.minimum(np.searchsorted(cumulative, p), len(values) - 1)]

    def mean(self) -> float:
        """Return the weighted mean of the rows, which must have a single column."""
        return float(np.average(self.rows[:, 0], weights=self.weights))

    def sample(self, n: int, generator: np.random.Generator) -> Floats:
        """Draw n rows with replacement, using the weights as probabilities."""
        return self.rows[generator.choice(len(self.rows), size=n, p=self.weights)]

    def _ecdf(self) -> tuple[Floats, Floats]:
        """Return the sorted distinct values of the first column with their cumulative weights.

        Both arrays have the shape (n_values,). The last cumulative weight is 1.
        """
        values, value_of_row = np.unique(self.rows[:, 0], return_inverse=True)
        cumulative = np.cumsum(np.bincount(value_of_row.ravel(), weights=self.weights))
        return values, np.minimum(cumulative / cumulative[-1], 1)


def spread_weights(
    codes: Integers,  # (n_combinations, n_columns)
    weights: Floats,  # (n_combinations,)
    codes_public: Integers,  # (m, n_columns)
    X_public: Floats,  # (m, n_features)
    representatives: Floats,  # (n_combinations, n_features)
) -> WeightedRows:
    """Divide the weight of each combination of codes evenly among the rows with these codes.

    These rows are the public rows with these codes, and the representative of the combination.
    Actual values inside the bins therefore come from public rows.
    """
    # a group contains all representatives and public rows with the same codes
    all_rows = np.concatenate([representatives, X_public])
    group_of_row = combination_ids(np.concatenate([codes, codes_public]))
    group_sizes = np.bincount(group_of_row)
    n_groups = len(group_sizes)
    group_of_weight = group_of_row[: len(codes)]
    totals = np.bincount(group_of_weight, weights, minlength=n_groups)
    weight_per_row = np.divide(totals, group_sizes, out=np.zeros(n_groups), where=totals > 0)
    row_weights = weight_per_row[group_of_row]
    is_positive = row_weights > 0
    return WeightedRows(all_rows[is_positive], row_weights[is_positive] / row_weights.sum())


def synthesize(
    fractions: Mapping[Attributes, Floats],
    workload: Sequence[Attributes],
    sizes: Attributes,
    public: Integers,
    public_size: float,
    zeros: Zeros | None = None,
) -> tuple[Integers, Floats]:
    """Return synthetic rows of codes, and positive weights that reproduce the released tables.

    The rows consist of public rows, a sample from the Chow-Liu tree of the two-way tables, and one
    row for each remaining cell of the workload. Public rows, with the total weight of `public_size`
    private rows, contribute the dependences that the tables do not contain. No row has an
    impossible combination of codes, which are the `zeros`.
    """
    generator = np.random.default_rng(0)
    tree_rows = _sample_chow_liu_tree(fractions, sizes, generator)
    if zeros:
        tree_rows = _possible_tree_rows(tree_rows, fractions, sizes, zeros, generator)
        public = public[are_possible(zeros, public)]
    # pool both distributions, counting the tree as one row per cell of an average table
    mean_cells = np.mean([fractions[columns].size for columns in workload])
    public_share = public_size / (public_size + mean_cells) if len(public) else 0.0
    rows = np.concatenate([public, tree_rows])
    public_weights = np.full(len(public), public_share / max(len(public), 1))
    tree_weights = np.full(len(tree_rows), (1 - public_share) / len(tree_rows))
    cell_rows = [
        _rows_in_empty_cells(
            rows, tree_rows, columns, table=fractions[columns], sizes=sizes, generator=generator
        )
        for columns in workload
    ]
    if zeros:
        cell_rows = [
            _possible_cell_rows(added, columns, tree_rows, zeros, generator)
            for columns, added in zip(workload, cell_rows, strict=True)
        ]
    n_cell_rows = sum(map(len, cell_rows))
    rows = np.concatenate([rows, *cell_rows])
    weights = np.concatenate(
        [public_weights, tree_weights, np.full(n_cell_rows, MIN_SYNTHETIC_MASS)]
    )
    is_positive = weights > 0
    rows, weights = rows[is_positive], weights[is_positive]
    return rows, rake_weights(rows, weights, fractions, workload, sizes)


def _rows_in_empty_cells(
    rows: Integers,
    tree_rows: Integers,
    columns: Attributes,
    table: Floats,
    sizes: Attributes,
    generator: np.random.Generator,
) -> Integers:
    """Return a row for each cell with positive released mass that contains none of `rows`.

    Masses up to `MIN_SYNTHETIC_MASS` count as zero. In the table's columns, the row has the codes
    of the cell. All other columns are copied from a random row of `tree_rows`.
    """
    masses = table.ravel()
    is_occupied = np.zeros(len(masses), dtype=bool)
    is_occupied[ravel_codes(rows, columns, sizes)] = True
    is_needed = ~is_occupied & (masses > MIN_SYNTHETIC_MASS)
    empty_cells = np.flatnonzero(is_needed)
    codes = np.unravel_index(empty_cells, table.shape)
    tree_row = generator.integers(len(tree_rows), size=len(empty_cells))
    cell_rows = tree_rows[tree_row]
    cell_rows[:, columns] = np.stack(codes, axis=1)
    return cell_rows


def _possible_tree_rows(
    rows: Integers,
    fractions: Mapping[Attributes, Floats],
    sizes: Attributes,
    zeros: Zeros,
    generator: np.random.Generator,
) -> Integers:
    """Return rows from the Chow-Liu tree without impossible combinations.

    The tree contains only some of the tables. Rows that are impossible are drawn again.
    """
    accepted = [rows[are_possible(zeros, rows)]]
    for _ in range(MAX_REPEATED_DRAWS):
        if sum(map(len, accepted)) >= N_TREE_ROWS / 2:
            break
        rows = _sample_chow_liu_tree(fractions, sizes, generator)
        accepted.append(rows[are_possible(zeros, rows)])
    possible_rows = np.concatenate(accepted)
    if not len(possible_rows):
        raise ValueError(
            "zeros and hierarchy exclude almost all combinations of columns without a common "
            "table, so that no synthetic row was found. Add tables of these columns to workload."
        )
    return possible_rows


def _possible_cell_rows(
    rows: Integers,
    columns: Attributes,
    tree_rows: Integers,
    zeros: Zeros,
    generator: np.random.Generator,
) -> Integers:
    """Return rows with the given codes in some columns, and possible codes in all others.

    Impossible rows receive the other codes of another tree row, first of any row, then of rows that
    have the same code in one of the columns. Rows that remain impossible are left out.
    """
    rows = rows.copy()
    for shared in (None, *columns):
        order = np.arange(len(tree_rows))
        if shared is not None:
            order = np.argsort(tree_rows[:, shared], kind="stable")
        for _ in range(MAX_REPEATED_DRAWS):
            impossible = np.flatnonzero(~are_possible(zeros, rows))
            n_impossible = len(impossible)
            if not n_impossible:
                return rows
            first = np.zeros(n_impossible)
            last = np.full(n_impossible, len(order))
            if shared is not None:
                sorted_codes = tree_rows[order, shared]
                codes = rows[impossible, shared]
                first = np.searchsorted(sorted_codes, codes, side="left")
                last = np.searchsorted(sorted_codes, codes, side="right")
            steps = np.floor(generator.random(n_impossible) * (last - first))
            drawn = (first + steps).astype(np.intp)
            donors = tree_rows[order[np.minimum(drawn, len(order) - 1)]]
            donors[:, columns] = rows[impossible][:, columns]
            rows[impossible] = donors
    return rows[are_possible(zeros, rows)]


def rake_weights(
    rows: Integers,
    weights: Floats,
    fractions: Mapping[Attributes, Floats],
    workload: Sequence[Attributes],
    sizes: Attributes,
) -> Floats:
    """Return weights by damped IPF (raking), so that tables of the rows match the released tables.

    Each sweep passes over all tables of the workload. For each cell of a table, the weights of the
    rows in the cell are multiplied by a power of the ratio of the released mass to the current
    mass. The power is 1 in the first `UNDAMPED_SWEEPS`, as in IPF. Smaller powers in later sweeps
    make the weights converge to a compromise if noisy tables contradict each other.
    """
    updates_per_sweep = len(rows) * len(workload)
    n_sweeps = int(np.clip(MAX_WEIGHT_UPDATES // updates_per_sweep, *SWEEP_RANGE))
    is_cached = updates_per_sweep <= MAX_CACHED_CELLS
    cached_cells = {}
    if is_cached:
        cached_cells = {columns: ravel_codes(rows, columns, sizes) for columns in workload}
    for sweep in range(n_sweeps):
        exponent = min(1.0, UNDAMPED_SWEEPS / (sweep + 1))
        for columns in workload:
            target = fractions[columns].ravel()
            cell_of_row = cached_cells[columns] if is_cached else ravel_codes(rows, columns, sizes)
            masses = np.bincount(cell_of_row, weights, minlength=len(target))
            is_positive = masses > np.finfo(np.float64).tiny  # below, the ratio could overflow
            ratios = np.ones(len(target))
            np.divide(target, masses, out=ratios, where=is_positive)
            factors = ratios**exponent
            weights = weights * factors[cell_of_row]
    return weights / weights.sum()


def _sample_chow_liu_tree(
    fractions: Mapping[Attributes, Floats], sizes: Attributes, generator: np.random.Generator
) -> Integers:
    """Draw `N_TREE_ROWS` rows from the Chow-Liu tree of the two-way tables (Chow and Liu 1968).

    The tree maximises the sum of the mutual informations between columns joined by an edge. Each
    column is drawn given its parent. A column that occurs in no table is drawn uniformly. The graph
    is a forest if some pairs of columns have no table.
    """
    n_columns = len(sizes)
    information = np.zeros((n_columns, n_columns))
    for columns, table in fractions.items():
        if len(columns) == 2:
            information[columns] = _mutual_information(table)
    tree = minimum_spanning_tree(csr_matrix(-information))
    tree = tree + tree.T
    rows = np.zeros((N_TREE_ROWS, n_columns), dtype=np.int64)
    remaining_columns = set(range(n_columns))
    while remaining_columns:  # each pass handles one connected component of the forest
        order, parents = breadth_first_order(tree, min(remaining_columns), directed=False)
        for column in order:
            parent = parents[column]
            if (column,) not in fractions:
                rows[:, column] = generator.integers(sizes[column], size=N_TREE_ROWS)
            elif parent < 0:  # scipy's convention for the root
                rows[:, column] = _systematic_sample(fractions[column,], N_TREE_ROWS, generator)
            else:
                pair = (min(parent, column), max(parent, column))
                table = fractions[pair] if parent < column else fractions[pair].T
                for parent_code, shares in enumerate(table):
                    children = np.flatnonzero(rows[:, parent] == parent_code)
                    codes = _systematic_sample(shares, len(children), generator)
                    rows[children, column] = codes
        remaining_columns -= set(order.tolist())
    return rows


def _systematic_sample(fractions: Floats, n: int, generator: np.random.Generator) -> Integers:
    """Draw n codes by systematic sampling, and return them in random order.

    The number of draws of each code differs from n times its fraction by less than 1. Fractions are
    normalised so that they sum to 1. If all fractions are zero, the distribution is uniform.
    """
    if not fractions.sum() > 0:
        fractions = np.ones(len(fractions))
    cumulative = np.cumsum(fractions) / fractions.sum()
    shift = generator.random()
    levels = (np.arange(n) + shift) / max(n, 1)
    codes = np.searchsorted(cumulative, levels, side="right")
    codes = np.minimum(codes, len(fractions) - 1)
    return generator.permutation(codes)


def _mutual_information(table: Floats) -> float:
    """Return the mutual information, in nats, between the columns of a two-way table of fractions.

    Mutual information is the Kullback-Leibler divergence of the table from the product of its
    margins.
    """
    rows, columns = np.nonzero(table)
    joint = table[rows, columns]
    # a sum of logarithms, since the product of two tiny margins could underflow
    log_product = np.log(table.sum(axis=1)[rows]) + np.log(table.sum(axis=0)[columns])
    return float((joint * (np.log(joint) - log_product)).sum())


Constraint = Callable[[Any], Any]
"""A function from rows, in the container type of `fit`, to one boolean for each row."""


def check_constraints(constraints: Any) -> tuple[Constraint, ...]:
    """Return the user's constraints as a tuple, given None, a single function or a sequence."""
    if constraints is None:
        constraints = ()
    elif not isinstance(constraints, list | tuple):
        constraints = (constraints,)
    for constraint in constraints:
        if not callable(constraint):
            raise ValueError(
                "constraints must be functions of rows that return one boolean for each row; got "
                f"{type(constraint).__name__}."
            )
    return tuple(constraints)


def satisfies(constraints: Sequence[Constraint], rows: Floats, schema: Schema) -> Mask:
    """Indicate whether each encoded row satisfies all constraints, shape (n,)."""
    n = len(rows)
    holds = np.ones(n, dtype=bool)
    if not n:
        return holds
    for constraint in constraints:
        mask = np.asarray(constraint(schema.decode(rows)))
        if mask.shape != (n,) or mask.dtype != bool:
            raise ValueError(
                f"A function in constraints must return one boolean for each of {n} rows; got "
                f"{mask.dtype} of shape {mask.shape}."
            )
        holds &= mask
    return holds


MIN_ACCEPTANCE_RATE, MIN_DRAWS = 1 / 1000, 20_000
"""Minimum share of accepted rows, and the number of draws after which this minimum is enforced."""

MAX_DRAWN_ROWS = 1_000_000
"""Maximum number of rows that are drawn at once, which limits memory use."""


def draw_accepted_rows(
    draw: Callable[[int], Floats], is_accepted: Callable[[Floats], Mask], n: int
) -> Floats:
    """Return n independent draws from the distribution of `draw`, conditional on acceptance."""
    rows = draw(n)
    accepted = [rows[is_accepted(rows)]]
    n_drawn, n_accepted = n, len(accepted[0])
    while n_accepted < n:
        if n_drawn >= MIN_DRAWS and n_accepted < MIN_ACCEPTANCE_RATE * n_drawn:
            raise ValueError(
                f"Only {n_accepted} of {n_drawn} synthetic rows satisfy the constraints, because "
                "the constraints contradict the release. Relax the constraints."
            )
        rate = max(n_accepted / n_drawn, MIN_ACCEPTANCE_RATE)
        n_more = math.ceil((n - n_accepted) / rate) + 10
        rows = draw(min(n_more, MAX_DRAWN_ROWS))
        accepted.append(rows[is_accepted(rows)])
        n_drawn, n_accepted = n_drawn + len(rows), n_accepted + len(accepted[-1])
    return np.concatenate(accepted)[:n]


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
