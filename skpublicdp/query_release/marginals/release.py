"""Private release of marginal tables in two rounds of measurements.

The second round allocates the remaining budget by the estimates of the first one.

Private rows enter only through integer tables, to which exact integer noise is added. Everything
else is post-processing. The sensitivity is proved in docs/proofs/marginals.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Noise, Sensitivity, noise_scale
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.marginals.allocation import allocate_budget
from skpublicdp.query_release.marginals.count import (
    Attributes,
    check_codes,
    check_sizes,
    check_workload,
    marginal_tables,
)
from skpublicdp.query_release.marginals.intervals import NoisyFractions, TablePosterior
from skpublicdp.query_release.marginals.marginal_model import MarginalModel
from skpublicdp.query_release.marginals.table import MarginalEstimate, TableMeasurement
from skpublicdp.query_release.marginals.weights import (
    WEIGHT_UNITS,
    WeightTotals,
    weighted_sensitivity,
)
from skpublicdp.typing import Floats, Integers

MAX_FIRST_ROUND_SHARE = Fraction(1, 2)
"""Maximum share of the budget for the first round, measured in benchmarks/ablate.py."""

MIN_FIRST_ROUND_SHARE = Fraction(1, 4)
"""Minimum share for a first round with Gaussian noise, so that it can detect a shift of the public
rows. Measured in benchmarks/ablate.py."""

SHARE_DENOMINATOR = 1 << 30
"""Common denominator of the shares of the second round."""

TABLE_SENSITIVITY = Sensitivity(2, 2)
"""A replaced row changes two cells of a table by one each."""

MARGINALS_PROOF = "docs/proofs/marginals.md"


@dataclass(frozen=True, eq=False)
class MarginalRelease:
    """Released marginal tables, estimated from noisy tables and public rows.

    Attributes
    ----------
    fractions : mapping of tuple of int to ndarray
        Estimated fractions of the population, for each table of the workload and each of its
        margins. There is one axis for each column. The fractions of a table add up to 1.
    deviations : mapping of tuple of int to ndarray
        Standard deviations of the errors of the fractions.
    sizes : tuple of int
        Number of codes of each column.
    effective_public_size : float
        Effective public sample size, in private rows.
    measured : mapping of tuple of int to TableMeasurement
        Pooled noisy answers about each table, without information from public rows.
    persons : float
        Number of private persons.
    gaussian : bool
        Whether the noise is Gaussian, else Laplace.
    posteriors : mapping of tuple of int to TablePosterior
        Posteriors of the cells. Empty for lists of queries.
    """

    fractions: Mapping[Attributes, Floats] = field(repr=False)
    deviations: Mapping[Attributes, Floats] = field(repr=False)
    sizes: Attributes
    effective_public_size: float
    measured: Mapping[Attributes, TableMeasurement] = field(default_factory=dict, repr=False)
    persons: float = 0.0
    gaussian: bool = True
    posteriors: Mapping[Attributes, TablePosterior] = field(default_factory=dict, repr=False)

    def noisy(self, columns: Attributes, codes: tuple[NDArray[np.integer], ...]) -> NoisyFractions:
        """Return the noisy fractions of selected cells of a table, without a model.

        Parameters
        ----------
        columns : tuple of int
            Columns of the table, increasing.
        codes : tuple of ndarray of int, each of shape (n,)
            Codes of the cells, one array for each column.
        """
        measured = self.measured[columns]
        return NoisyFractions(
            measured.values[codes], measured.variance, self.persons, self.gaussian
        )

    def intervals(
        self, columns: Attributes, codes: tuple[NDArray[np.integer], ...], level: float
    ) -> Floats:
        """Return credible intervals of selected cells of a table, shape (n, 2).

        Each interval holds with probability `level`, not all of them simultaneously. Columns and
        codes are as in `noisy`.
        """
        cells = np.ravel_multi_index(codes, self.fractions[columns].shape)
        return self.posteriors[columns].intervals(cells, level, self.noisy(columns, codes))

    def share_intervals(
        self,
        columns: Attributes,
        codes: tuple[NDArray[np.integer], ...],
        group_columns: Attributes,
        level: float,
    ) -> Floats:
        """Return credible intervals of shares of cells within groups of rows, shape (n, 2).

        A group consists of the rows that agree with the cell in the columns `group_columns`, some
        of `columns`. The other parameters are as in `intervals`.
        """
        cells = np.ravel_multi_index(codes, self.fractions[columns].shape)
        return self.posteriors[columns].intervals(
            cells, level, self.noisy(columns, codes), self.posteriors[group_columns]
        )

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Return the estimated fractions of the population in the cells of a released table.

        Parameters
        ----------
        columns : sequence of int
            Columns of the table, in any order.

        Returns
        -------
        ndarray
            Fractions, with one axis for each column in the given order.
        """
        axis_of_column = np.argsort(np.argsort(columns))  # rank of each column among the given ones
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
    """Release marginals of private rows with differential privacy and public rows as a prior.

    Parameters
    ----------
    codes_private : ndarray of int, shape (n_private, n_columns)
        Codes of the private rows, from 0 to below the size of the column.
    codes_public : ndarray of int, shape (n_public, n_columns)
        Codes of the public rows; may be empty.
    sizes : sequence of int
        Number of codes of each column. It is public.
    workload : iterable of sequences of int
        Columns of each marginal.
    ledger : Ledger
        Privacy ledger. Its whole budget is spent on Gaussian noise, or on Laplace noise if δ = 0.
    trust : "auto" or float, default="auto"
        Effective public sample size, in private rows. "auto" estimates it from the noisy answers.

    Returns
    -------
    MarginalRelease
        The released tables.

    Notes
    -----
    With Gaussian noise, the first round spends a quarter to a half of the budget evenly on the
    tables and all of their margins. With δ = 0 it spends up to a half of the budget on the single
    columns. The second round allocates the remaining budget to minimise the expected errors.
    `MarginalModel` combines both rounds with the public rows, cell by cell.

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
) -> MarginalRelease:
    """Release marginals of private rows, given a function that counts the rows.

    Parameters
    ----------
    count : callable
        Returns `marginal_tables` of the private rows, given the columns of the tables.
    n_private : int
        Number of private rows.
    public : ndarray of int, shape (n_public, n_columns)
        Codes of the public rows; may be empty.
    sizes, workload, ledger, trust
        As in `release_marginals`.
    weight_totals : WeightTotals, optional
        Released totals of the weights, if `count` adds up integer weights of rows.

    Returns
    -------
    MarginalRelease
        The released tables.
    """
    workload = check_workload(workload, sizes)
    if n_private == 0:
        raise ValueError("codes_private must have at least one row.")
    if trust != "auto" and not (isinstance(trust, int | float) and 0 < trust < math.inf):
        raise ValueError(f"trust must be 'auto' or a positive number; got {trust!r}.")
    noise = ledger.noise
    units = _row_units(n_private, weight_totals)
    model = MarginalModel(
        public, sizes, workload, units.sample_size / ledger.rows_per_person, trust
    )
    counts = _split_tables(count(list(model.tables)), model.tables)

    first_round = _plan_first_round(model, noise, ledger, units)
    _check_noise_scale(first_round, noise, ledger, units)
    first_noise = noise.scaled(first_round.share)
    measurements = _measure(counts, units, first_noise, first_round.table_shares, ledger)
    if weight_totals is not None:
        units, measurements = _refine_total(units, weight_totals, measurements)
    model.update(measurements)

    second_noise = noise.scaled(1 - first_round.share)
    table_shares = _plan_second_round(model, second_noise, ledger, units)
    model.update(_measure(counts, units, second_noise, table_shares, ledger))

    model.make_consistent()
    return _released_tables(model, sizes, gaussian=isinstance(noise, Gaussian))


class _RowUnits(NamedTuple):
    """Integers that the tables of a release count, and the size of the sample behind them.

    Attributes
    ----------
    total : float
        Sum over all private rows: their number, or the released sum of weights, in units of the
        maximum weight.
    per_row : int
        Integer that a row with the maximum weight adds to a cell. It is 1 without weights.
    sensitivity : Sensitivity
        Largest change of a table when one row is replaced.
    sample_size : float
        Number of private rows, or their effective number under unequal weights.
    """

    total: float
    per_row: int
    sensitivity: Sensitivity
    sample_size: float


def _row_units(n_private: int, weight_totals: WeightTotals | None) -> _RowUnits:
    """Return the units of counts of rows, or of sums of weights if there are totals of weights."""
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
    """Return units with a more accurate sum of weights, and measurements divided by it.

    The cells of each measured table add up to the sum of the weights, too. All of these estimates
    are averaged by precision.
    """
    precision = units.total**2 / weight_totals.variance
    weighted_sum = precision  # of the ratio of each estimate and the released total
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
    """Return the counts of each table in its shape, given all counts as one flat array."""
    ends = np.cumsum([math.prod(table.shape) for table in tables.values()])
    return {
        columns: counts.reshape(table.shape)
        for (columns, table), counts in zip(
            tables.items(), np.split(flat_counts, ends[:-1]), strict=True
        )
    }


def _measure(
    counts: Mapping[Attributes, Integers],
    units: _RowUnits,
    noise: Noise,
    shares: Mapping[Attributes, Fraction],
    ledger: Ledger,
) -> dict[Attributes, TableMeasurement]:
    """Return noisy fractions of the tables whose share of the budget `noise` is not 0."""
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
        measurements[columns] = TableMeasurement(values, variance)
    return measurements


def _released_tables(model: MarginalModel, sizes: Attributes, *, gaussian: bool) -> MarginalRelease:
    """Return the estimates, measurements and posteriors of all tables of a consistent model."""
    persons, posteriors = model.n_private, model.posteriors()
    return MarginalRelease(
        fractions={columns: table.estimate for columns, table in model.tables.items()},
        deviations={
            columns: posterior.deviations(persons) for columns, posterior in posteriors.items()
        },
        sizes=sizes,
        effective_public_size=min(model.effective_public_size.values()),
        measured={columns: table.pooled_measurement() for columns, table in model.tables.items()},
        persons=persons,
        gaussian=gaussian,
        posteriors=posteriors,
    )


class _FirstRound(NamedTuple):
    """Budget of the first round of a marginal release, and its division among the tables.

    Attributes
    ----------
    share : Fraction
        Share of the whole budget.
    table_shares : dict of tuple of int to Fraction
        Share of each table in the budget of the round. It is 0 for tables that are not measured.
    """

    share: Fraction
    table_shares: dict[Attributes, Fraction]


def _plan_first_round(
    model: MarginalModel, noise: Noise, ledger: Ledger, units: _RowUnits
) -> _FirstRound:
    """Return the share of the budget for the first round, split evenly over the measured tables.

    The round gets the share at which the noise variance of a count is n, which is of the order of
    the sampling error. Gaussian noise is added to all tables, since the precisions of both rounds
    add up. Laplace noise is added to single columns alone: half of a Laplace budget gives only a
    quarter of the precision.

    Parameters
    ----------
    model : MarginalModel
        Only the columns of its tables are used.
    noise : Gaussian or Pure
        The whole budget.
    ledger : Ledger
        Privacy ledger, for the number of rows per person. Nothing is charged.
    units : _RowUnits
        What the tables count.
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
    return _FirstRound(share, shares)


def _check_noise_scale(
    first_round: _FirstRound, noise: Noise, ledger: Ledger, units: _RowUnits
) -> None:
    """Raise ValueError if the noise of the first round exceeds the range of the sampler."""
    smallest_event = noise.scaled(first_round.share * max(first_round.table_shares.values()))
    if not noise_is_representable(smallest_event, ledger.for_person(units.sensitivity)):
        raise ValueError(
            f"The noise for {len(first_round.table_shares)} tables is too large to be drawn at "
            f"epsilon = {float(ledger.epsilon):g}. Release fewer tables."
        )


def _plan_second_round(
    model: MarginalModel, noise: Noise, ledger: Ledger, units: _RowUnits
) -> dict[Attributes, Fraction]:
    """Return the share that each table gets of the remaining budget, by `allocate_budget`.

    Shares are rounded down to multiples of 2^-30. A share is 0 if its noise would exceed the range
    of the sampler. Parameters are as in `_plan_first_round`, with a fitted model.
    """
    sensitivity = ledger.for_person(units.sensitivity)
    _, variance = noise_scale(noise, sensitivity)
    precision = (units.total * units.per_row) ** 2 / variance
    shares = {}
    allocation = allocate_budget(model, precision, noise.variance_power)
    for columns, table_share in zip(model.tables, allocation, strict=True):
        share = Fraction(int(table_share * SHARE_DENOMINATOR), SHARE_DENOMINATOR)
        is_usable = share > 0 and noise_is_representable(noise.scaled(share), sensitivity)
        shares[columns] = share if is_usable else Fraction(0)
    return shares
