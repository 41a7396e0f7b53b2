"""Private release of marginal tables in two rounds of measurements.

In the second round, the remaining budget is allocated according to the estimates of the first
round.

Private rows are used only in integer tables, to which exact integer noise is added. Everything else
is post-processing. The sensitivity is proved in docs/proofs/marginals.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skpublicdp._internal.reproducible import stable_floor
from skpublicdp.accounting import Gaussian, Noise, Sensitivity, noise_scale
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.marginals.count import (
    WEIGHT_UNITS,
    Attributes,
    WeightTotals,
    check_codes,
    check_sizes,
    check_workload,
    marginal_tables,
    weighted_sensitivity,
)
from skpublicdp.query_release.marginals.intervals import TablePosterior
from skpublicdp.query_release.marginals.marginal_model import MarginalModel, downward_closure
from skpublicdp.query_release.marginals.noisy_fractions import NoisyFractions
from skpublicdp.query_release.marginals.table import MarginalEstimate, TableMeasurement
from skpublicdp.query_release.marginals.zeros import Zeros, possible_cells
from skpublicdp.typing import Codes, Floats, Integers, Mask

N_VARIANCE_BINS = 24
"""Number of groups into which the cells of each table are binned by prior variance."""

N_GRADIENT_STEPS = 300
"""Number of multiplicative gradient steps that update the shares."""


def allocate_budget(model: MarginalModel, precision: float, power: int) -> Floats:
    """Return each table's share of the budget, computed by multiplicative gradient descent.

    The objective is the sum of the expected posterior variances of all cells, weighted by the
    number of workload marginals that contain the table. A table with the share s has s**power times
    the `precision` of the entire budget: the power is 1 for Gaussian noise and 2 for Laplace noise.
    The objective depends only on public and released numbers.
    """
    tables = list(model.tables.values())
    n_tables = len(tables)
    variance, precision_so_far, weight, table_index = _bin_cells(model)
    # start with equal shares, and compute projection weights for the corresponding noise
    transfer = _transfer_matrix(tables, noise=n_tables**power / precision)
    transposed = transfer.T  # a transposition in the loop would dominate the run time
    shares: Floats = np.full(n_tables, 1 / n_tables)
    for _ in range(N_GRADIENT_STEPS):
        table_precision = precision * shares**power
        cell_precision = precision_so_far + (transfer @ table_precision)[table_index]
        posterior_variance = variance / (1 + variance * cell_precision)
        # a cell's variance falls by its square per unit of precision of its table
        table_gain = np.bincount(table_index, weight * posterior_variance**2, minlength=n_tables)
        # negative derivative with respect to each share, up to a factor; equal for all tables at
        # the optimum
        share_gain = (transposed @ table_gain) * shares ** (power - 1)
        shares = shares * np.sqrt(share_gain)
        shares /= shares.sum()
    return shares


def _bin_cells(model: MarginalModel) -> tuple[Floats, Floats, Floats, Codes]:
    """Group the cells of each table by prior variance into bins of nearly equal size.

    Optimising over bins rather than cells saves time. Returns four arrays of shape (n_bins,): the
    mean prior variance, the mean precision of the measurements so far, the number of cells times
    the number of marginals in the workload that contain the table, and the index of the table.
    """
    n_uses = Counter(margin for columns in model.workload for margin in downward_closure([columns]))
    bins = []
    for i, table in enumerate(model.tables.values()):
        variance = table.prior_variance().ravel()
        precision = table.precisions.ravel()
        increasing = np.argsort(variance, kind="stable")
        n_bins = min(N_VARIANCE_BINS, len(variance))
        n_uses_of_table = n_uses[table.columns]
        for cells in np.array_split(increasing, n_bins):
            mean_variance = variance[cells].mean()
            mean_precision = precision[cells].mean()
            weight = float(len(cells) * n_uses_of_table)
            bins.append((mean_variance, mean_precision, weight, i))
    variances, precisions, weights, table_indices = map(np.array, zip(*bins, strict=True))
    return variances, precisions, weights, table_indices


def _transfer_matrix(tables: Sequence[MarginalEstimate], noise: float) -> sp.csr_matrix:
    """Return the precision with which a measurement of one table also measures its margins."""
    index_of = {table.columns: i for i, table in enumerate(tables)}
    n_tables = len(tables)
    matrix = sp.lil_matrix((n_tables, n_tables))
    for i, table in enumerate(tables):
        matrix[i, i] = 1.0
        for wider in table.supermarginals:
            j = index_of[wider.columns]
            matrix[i, j] = wider.information_share(table, noise)
    return matrix.tocsr()


MAX_FIRST_ROUND_SHARE = Fraction(1, 2)
"""Maximum share of the budget for the first round, which was chosen in benchmarks/ablate.py."""

MIN_FIRST_ROUND_SHARE = Fraction(1, 4)
"""Minimum share for the first round with Gaussian noise, which is large enough to detect a shift of
the public rows. Chosen in benchmarks/ablate.py."""

SHARE_DENOMINATOR = 1 << 30
"""Largest denominator of the share of the first round."""

ALLOCATION_UNITS = 1 << 24
"""Denominator of the tables' shares in the second round. Shares are the result of an iteration in
floats, and have many more exact digits than these."""

TABLE_SENSITIVITY = Sensitivity(2, 2)
"""Sensitivity of a table: a replaced row changes two cells by one each."""

MARGINALS_PROOF = "docs/proofs/marginals.md"


_TABLE_MAPPINGS = ("fractions", "deviations", "measured", "posteriors", "zeros")
"""Fields of `MarginalRelease` that map the columns of a table to its numbers."""


@dataclass(frozen=True, eq=False)
class MarginalRelease:
    """Released marginal tables, which are estimated from noisy tables and public rows."""

    # Estimated fractions of the population for each table of the workload and each of its margins,
    # with one axis per column. The fractions of each table sum to 1.
    fractions: Mapping[Attributes, Floats] = field(repr=False)
    # standard deviation of the error in each fraction
    deviations: Mapping[Attributes, Floats] = field(repr=False)
    sizes: Attributes  # number of codes of each column
    effective_public_size: float  # effective size of the public sample, in private rows
    # pooled noisy answers for each table, computed without information from public rows
    measured: Mapping[Attributes, TableMeasurement] = field(default_factory=dict, repr=False)
    persons: float = 0.0  # number of private persons
    gaussian: bool = True  # Whether the noise is Gaussian. If False, it is Laplace noise.
    # Posteriors of the cells. The mapping is empty for lists of queries.
    posteriors: Mapping[Attributes, TablePosterior] = field(default_factory=dict, repr=False)
    sums: Sequence[Any] = ()  # measured sums of numeric columns by group (`MeasuredSum`)
    # impossible combinations of codes, for some sets of columns
    zeros: Mapping[Attributes, Mask] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # skops and other formats have no tuples as keys, so mappings become lists of pairs
        state = vars(self)
        return {**state, **{name: list(state[name].items()) for name in _TABLE_MAPPINGS}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, **{name: dict(state[name]) for name in _TABLE_MAPPINGS}})

    def noisy(self, columns: Attributes, codes: tuple[NDArray[np.integer], ...]) -> NoisyFractions:
        """Return the noisy fractions of selected cells in a table, without using a model."""
        values, variance = self.measured[columns]
        if np.ndim(variance):  # combined cells have different variances
            variance = np.asarray(variance)[codes]
        return NoisyFractions(values[codes], variance, self.persons, self.gaussian)

    def intervals(
        self, columns: Attributes, codes: tuple[NDArray[np.integer], ...], level: float
    ) -> Floats:
        """Return credible intervals for selected cells of a table, shape (n, 2).

        Each interval holds separately with probability `level`, not simultaneously. The parameters
        `columns` and `codes` are as in `noisy`.
        """
        cells = np.ravel_multi_index(codes, self.fractions[columns].shape)
        ends = self.posteriors[columns].intervals(cells, level, self.noisy(columns, codes))
        return np.where(self.are_impossible(columns, codes)[:, None], 0.0, ends)

    def are_impossible(
        self, columns: Attributes, codes: tuple[NDArray[np.integer], ...]
    ) -> NDArray[np.bool_]:
        """Indicate which of the selected cells of a table are impossible, as in `intervals`."""
        possible = possible_cells(self.zeros, columns, self.fractions[columns].shape)
        return np.zeros(len(codes[0]), dtype=bool) if possible is None else ~possible[codes]

    def share_intervals(
        self,
        columns: Attributes,
        codes: tuple[NDArray[np.integer], ...],
        group_columns: Attributes,
        level: float,
    ) -> Floats:
        """Return credible intervals for the shares of cells within groups of rows, shape (n, 2).

        The group of a cell consists of the rows that agree with the cell in `group_columns`, a
        subset of `columns`. All other parameters are as in `intervals`.
        """
        cells = np.ravel_multi_index(codes, self.fractions[columns].shape)
        ends = self.posteriors[columns].intervals(
            cells, level, self.noisy(columns, codes), self.posteriors[group_columns]
        )
        return np.where(self.are_impossible(columns, codes)[:, None], 0.0, ends)

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Return the estimated fractions of the population in the cells of a released table."""
        axis_of_column = np.argsort(np.argsort(columns))  # rank among the given columns
        return self.fractions[tuple(sorted(columns))].transpose(axis_of_column)


def release_marginals(
    codes_private: NDArray[np.integer],
    codes_public: NDArray[np.integer],
    sizes: Sequence[int],
    workload: Iterable[Sequence[int]],
    *,
    ledger: Ledger,
    trust: str | float = "auto",
) -> MarginalRelease:
    """Release differentially private marginals, using public rows as a prior.

    Parameters
    ----------
    codes_private : ndarray of int, shape (n_private, n_columns)
        Codes of the private rows, from 0 to the size of the column minus 1.
    codes_public : ndarray of int, shape (n_public, n_columns)
        Codes of the public rows; the array may be empty.
    sizes : sequence of int
        Public number of codes of each column.
    workload : iterable of sequences of int
        Columns of each marginal.
    ledger : Ledger
        Privacy ledger, whose entire budget is spent on Gaussian noise, or on Laplace noise
        if δ = 0.
    trust : "auto" or float, default="auto"
        Effective size of the public sample, in private rows. "auto" estimates it from the noisy
        answers.

    Returns
    -------
    MarginalRelease
        The released tables.

    Notes
    -----
    With Gaussian noise, the first round spends between a quarter and a half of the budget evenly on
    the tables and all of their margins. With δ = 0, the first round spends up to half of the budget
    on the single columns. In the second round, the remaining budget is allocated so as to minimise
    the expected errors. For each cell, `MarginalModel` combines both rounds with the public rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> private = rng.integers(2, size=(5000, 3))
    >>> release = release_marginals(
    ...     private, private[:100], (2, 2, 2), [(0, 1), (1, 2)], ledger=Ledger(1, 1e-8, 0)
    ... )
    >>> bool(abs(release.marginal((0, 1)) - 0.25).max() < 0.03)
    True
    """
    sizes = check_sizes(sizes)
    private = check_codes("codes_private", codes_private, sizes)
    public = check_codes("codes_public", codes_public, sizes).astype(np.int64)
    workload = check_workload(workload, sizes)
    return release_tables(
        lambda tables: marginal_tables(private, tables, sizes),
        len(private),
        public,
        sizes,
        workload,
        ledger=ledger,
        trust=trust,
    )


def release_tables(
    count: Callable[[list[Attributes]], Integers],
    n_private: int,
    public: Integers,
    sizes: Attributes,
    workload: Iterable[Sequence[int]],
    *,
    ledger: Ledger,
    trust: str | float = "auto",
    weight_totals: WeightTotals | None = None,
    zeros: Zeros | None = None,
) -> MarginalRelease:
    """Release marginals of private rows, given a function that counts the rows.

    If `count` sums integer row weights, `weight_totals` are their released totals. The cells of
    `zeros` are impossible: they are not measured and have the fraction 0.
    """
    workload = check_workload(workload, sizes)
    if n_private == 0:
        raise ValueError("codes_private must have at least one row.")
    if trust != "auto" and not (isinstance(trust, int | float) and 0 < trust < math.inf):
        raise ValueError(f"trust must be 'auto' or a positive number; got {trust!r}.")
    noise = ledger.noise
    units = _row_units(n_private, weight_totals)
    model = MarginalModel(
        public, sizes, workload, units.sample_size / ledger.rows_per_person, trust, zeros
    )
    counts = _split_tables(count(list(model.tables)), model.tables)
    possible = {columns: table.possible for columns, table in model.tables.items()}
    for columns, cells in possible.items():
        if cells is not None:  # the rows in impossible cells are not counted
            counts[columns] = counts[columns][cells]

    first_share, table_shares = _plan_first_round(model, noise, ledger, units)
    first_noise = noise.scaled(first_share)
    _check_noise_scale(first_noise, table_shares, ledger, units)
    measurements = _measure(counts, possible, units, first_noise, table_shares, ledger)
    if weight_totals is not None:
        units, measurements = _refine_total(units, weight_totals, measurements)
    model.update(measurements)

    second_noise = noise.scaled(1 - first_share)
    table_shares = _plan_second_round(model, second_noise, ledger, units)
    model.update(_measure(counts, possible, units, second_noise, table_shares, ledger))

    model.make_consistent()
    released = _released_tables(model, sizes, gaussian=isinstance(noise, Gaussian))
    return replace(released, zeros=zeros or {})


class _RowUnits(NamedTuple):
    """Units of a release's integer tables, and the size of the underlying sample."""

    # Total over all private rows, i.e. the number of rows, or the released sum of weights in units
    # of the maximum weight.
    total: float
    # integer that a row with the maximum weight adds to a cell, which is 1 without weights
    per_row: int
    sensitivity: Sensitivity  # largest change in a table when one row is replaced
    sample_size: float  # number of private rows, or the effective number if weights are unequal


def _row_units(n_private: int, weight_totals: WeightTotals | None) -> _RowUnits:
    """Return the units of row counts or, if weight totals are given, of weight sums."""
    if weight_totals is None:
        return _RowUnits(n_private, 1, TABLE_SENSITIVITY, n_private)
    return _RowUnits(
        weight_totals.total,
        WEIGHT_UNITS,
        weighted_sensitivity(TABLE_SENSITIVITY),
        weight_totals.effective_rows,
    )


def _refine_total(
    units: _RowUnits,
    weight_totals: WeightTotals,
    measurements: dict[Attributes, TableMeasurement],
) -> tuple[_RowUnits, dict[Attributes, TableMeasurement]]:
    """Return units with a more accurate sum of weights, and the rescaled measurements.

    The cells of each measured table also add up to the sum of the weights. All of these estimates
    are averaged with precision weights.
    """
    precision = units.total**2 / weight_totals.variance
    weighted_sum = precision  # of the ratio between each estimate and the released total
    for measurement in measurements.values():
        sum_precision = 1 / (measurement.values.size * measurement.variance)
        precision += sum_precision
        weighted_sum += sum_precision * float(measurement.values.sum())
    total = min(max(units.total * weighted_sum / precision, 1.0), units.sample_size)
    ratio = units.total / total
    refined = {
        columns: TableMeasurement(measurement.values * ratio, measurement.variance * ratio**2)
        for columns, measurement in measurements.items()
    }
    return units._replace(total=total), refined


def _split_tables(
    flat_counts: Integers, tables: Mapping[Attributes, MarginalEstimate]
) -> dict[Attributes, Integers]:
    """Split a flat array of counts into tables, each with its own shape."""
    ends = np.cumsum([math.prod(table.shape) for table in tables.values()])
    return {
        columns: counts.reshape(table.shape)
        for (columns, table), counts in zip(
            tables.items(), np.split(flat_counts, ends[:-1]), strict=True
        )
    }


def _measure(
    counts: Mapping[Attributes, Integers],
    possible: Mapping[Attributes, Mask | None],
    units: _RowUnits,
    noise: Noise,
    shares: Mapping[Attributes, Fraction],
    ledger: Ledger,
) -> dict[Attributes, TableMeasurement]:
    """Return noisy fractions of all tables with a nonzero share of the budget `noise`.

    `counts` contains only the possible cells of a table with impossible cells.
    """
    measured = [columns for columns, share in shares.items() if share]
    name = f"{noise.noise_name} on {len(measured)} tables"
    round_ledger = ledger.sub_ledger(noise, name=name, proof=MARGINALS_PROOF)
    measurements = {}
    for columns in measured:
        event = noise.scaled(shares[columns])
        noisy = round_ledger.add_noise(
            counts[columns], units.sensitivity, event, name=name, proof=MARGINALS_PROOF
        )
        total = units.total * units.per_row
        values, variance = noisy.values / total, noisy.variance / total**2
        cells = possible[columns]
        if cells is not None:
            measured_values, values = values, np.zeros(cells.shape)
            values[cells] = measured_values
        measurements[columns] = TableMeasurement(values, variance)
    return measurements


def _released_tables(model: MarginalModel, sizes: Attributes, *, gaussian: bool) -> MarginalRelease:
    """Return the estimates, measurements and posteriors of all tables of a consistent model."""
    persons, posteriors = model.n_private, model.posteriors()
    return MarginalRelease(
        fractions={columns: table.estimate for columns, table in model.tables.items()},
        deviations={
            columns: model.tables[columns].on_possible(posterior.deviations(persons))
            for columns, posterior in posteriors.items()
        },
        sizes=sizes,
        effective_public_size=min(model.effective_public_size.values()),
        measured={columns: table.pooled_measurement() for columns, table in model.tables.items()},
        persons=persons,
        gaussian=gaussian,
        posteriors=posteriors,
    )


def _plan_first_round(
    model: MarginalModel, noise: Noise, ledger: Ledger, units: _RowUnits
) -> tuple[Fraction, dict[Attributes, Fraction]]:
    """Return the first round's share of the budget, and the share of the round for each table.

    The round is split evenly over the measured tables. It receives the share at which the noise
    variance of a count equals n, since the sampling variance is of the same order. With Gaussian
    noise, all tables are measured, since the precisions of both rounds add up. With Laplace noise,
    only single columns are measured, since half of a Laplace budget gives only a quarter of the
    precision.
    """
    is_gaussian = isinstance(noise, Gaussian)
    is_measured = {columns: is_gaussian or len(columns) == 1 for columns in model.tables}
    table_share = Fraction(1, sum(is_measured.values()))
    sensitivity = ledger.for_person(TABLE_SENSITIVITY)
    _, variance = noise_scale(noise.scaled(table_share), sensitivity)
    variance_per_row = variance / units.total
    # the noise variance is proportional to 1 / share (Gaussian) or 1 / share² (Laplace)
    if is_gaussian:
        min_share, share = MIN_FIRST_ROUND_SHARE, Fraction(variance_per_row)
    else:
        min_share, share = Fraction(1, SHARE_DENOMINATOR), Fraction(math.sqrt(variance_per_row))
    share = max(share.limit_denominator(SHARE_DENOMINATOR), min_share)
    share = min(share, MAX_FIRST_ROUND_SHARE)
    shares = {
        columns: table_share if used else Fraction(0) for columns, used in is_measured.items()
    }
    return share, shares


def _check_noise_scale(
    first_noise: Noise, table_shares: dict[Attributes, Fraction], ledger: Ledger, units: _RowUnits
) -> None:
    """Raise a ValueError if the noise of the first round exceeds the sampler's range."""
    smallest_event = first_noise.scaled(max(table_shares.values()))
    if not noise_is_representable(smallest_event, ledger.for_person(units.sensitivity)):
        raise ValueError(
            f"The noise for {len(table_shares)} tables is too large to be drawn at "
            f"epsilon = {float(ledger.epsilon):g}. Release fewer tables."
        )


def _plan_second_round(
    model: MarginalModel, noise: Noise, ledger: Ledger, units: _RowUnits
) -> dict[Attributes, Fraction]:
    """Return each table's share of the remaining budget, computed by `allocate_budget`.

    Shares are rounded down to multiples of 2^-24. A share is 0 if the required noise would exceed
    the range of the sampler. The model must be fitted.
    """
    sensitivity = ledger.for_person(units.sensitivity)
    _, variance = noise_scale(noise, sensitivity)
    precision = (units.total * units.per_row) ** 2 / variance
    shares = {}
    allocation = allocate_budget(model, precision, noise.variance_power)
    for columns, table_share in zip(model.tables, allocation, strict=True):
        share = Fraction(stable_floor(table_share * ALLOCATION_UNITS), ALLOCATION_UNITS)
        is_usable = share > 0 and noise_is_representable(noise.scaled(share), sensitivity)
        shares[columns] = share if is_usable else Fraction(0)
    return shares
