"""Release marginal tables: measure, estimate, allocate the rest of the budget, measure again.

The private rows enter through integer tables with exact integer noise, and nowhere else. What
follows is post-processing of released numbers. The sensitivity is proved in
docs/proofs/marginals.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Sensitivity, noise_scale
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
from skpublicdp.query_release.marginals.table import MarginalEstimate
from skpublicdp.query_release.spending import Noise, all_noise, mechanism_name, scaled_noise
from skpublicdp.typing import Floats, Integers

MAX_FIRST_ROUND_SHARE = Fraction(1, 2)
"""Largest share of the budget for the first round; measured in benchmarks/ablate.py."""

MIN_FIRST_ROUND_SHARE = Fraction(1, 4)
"""Smallest share for a first round with Gaussian noise, which finds where public rows have drifted;
measured in benchmarks/ablate.py."""

SHARE_DENOMINATOR = 1 << 30
"""Common denominator of the shares of the second round."""

TABLE_SENSITIVITY = Sensitivity(2, 2)
"""A replaced row changes two cells of a table by one each."""

MARGINALS_PROOF = "docs/proofs/marginals.md"


class TableMeasurement(NamedTuple):
    """Noisy fractions of a table, and the variance of the noise of each."""

    values: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class MarginalRelease:
    """Tables that are estimated from released and public numbers only.

    Attributes
    ----------
    fractions : mapping of tuple of int to ndarray
        The population's estimated fractions, for each table of the workload and each of its
        margins. One axis for each column; they add up to 1.
    deviations : mapping of tuple of int to ndarray
        The standard deviations of their errors.
    sizes : tuple of int
        How many codes each column has.
    effective_public_size : float
        How many private rows the public ones turned out to be worth.
    measured : mapping of tuple of int to Measured
        What was measured of these tables, with nothing from public rows.
    persons : float
        How many private persons there are.
    gaussian : bool
        Whether the noise was Gaussian, else Laplace.
    posteriors : mapping of tuple of int to TablePosterior
        The posteriors of the cells; none of lists of queries.
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
        """Return the noisy answers about some cells of a table."""
        measured = self.measured[columns]
        return NoisyFractions(
            measured.values[codes], measured.variance, self.persons, self.gaussian
        )

    def intervals(
        self, columns: Attributes, codes: tuple[NDArray[np.integer], ...], level: float
    ) -> Floats:
        """Return intervals of some cells of a table, shape (n, 2), each for itself."""
        cells = np.ravel_multi_index(codes, self.fractions[columns].shape)
        return self.posteriors[columns].intervals(cells, level, self.noisy(columns, codes))

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Return the estimated fractions of a released table.

        Parameters
        ----------
        columns : sequence of int
            In any order.

        Returns
        -------
        ndarray
            One axis for each column.
        """
        return self.fractions[tuple(sorted(columns))].transpose(np.argsort(np.argsort(columns)))


def release_marginals(
    codes_private: NDArray[np.integer],
    codes_public: NDArray[np.integer],
    sizes: Sequence[int],
    workload: Iterable[Sequence[int]],
    *,
    ledger: Ledger,
    trust: str | float = "auto",
) -> MarginalRelease:
    """Release marginals of private rows with the help of public ones.

    Parameters
    ----------
    codes_private : ndarray of int, shape (n_private, n_columns)
        Private rows, each column coded from 0 to below its size.
    codes_public : ndarray of int, shape (n_public, n_columns)
        Public rows, coded alike; there may be none.
    sizes : sequence of int
        How many codes each column has; public.
    workload : iterable of sequences of int
        The columns of each marginal.
    ledger : Ledger
        Pays with all it holds: Gaussian noise, or Laplace noise if δ = 0.
    trust : "auto" or float, default="auto"
        How many records the public rows count for; "auto" estimates it from the noisy answers.

    Returns
    -------
    MarginalRelease
        The release.

    Notes
    -----
    The first round spends a quarter to half of the budget evenly on the tables and all of their
    margins. With δ = 0 it spends up to half of the budget on the single columns. The second round
    spends the rest where that lowers the expected errors most. `MarginalModel` weighs both against
    the public rows, cell by cell.

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
) -> MarginalRelease:
    """Release marginals of private rows that are only counted.

    Parameters
    ----------
    count : callable
        Returns what `marginal_tables` does of given tables of the private rows.
    n_private : int
        Their number.
    public, sizes, workload, ledger, trust
        As in `release_marginals`.

    Returns
    -------
    MarginalRelease
        The release.
    """
    workload = check_workload(workload, sizes)
    if n_private == 0:
        raise ValueError("codes_private must have at least one row.")
    if trust != "auto" and not (isinstance(trust, int | float) and 0 < trust < math.inf):
        raise ValueError(f"trust must be 'auto' or a positive number; got {trust!r}.")
    persons = n_private / ledger.rows_per_person
    model = MarginalModel(public, sizes, workload, persons, trust)
    tables = list(model.tables.values())
    ends = np.cumsum([math.prod(table.shape) for table in tables])
    flat = np.split(count(list(model.tables)), ends[:-1])
    counts = [part.reshape(table.shape) for part, table in zip(flat, tables, strict=True)]

    def measure(noise: Noise, shares: Sequence[Fraction]) -> None:
        used = [place for place, share in enumerate(shares) if share]
        name = mechanism_name(f"{len(used)} tables", noise)
        paid = ledger.sub_ledger(noise, name=name, proof=MARGINALS_PROOF)
        for place in used:
            part = scaled_noise(noise, shares[place])
            found = paid.add_noise(
                counts[place], TABLE_SENSITIVITY, part, name=name, proof=MARGINALS_PROOF
            )
            values, variance = found.values / n_private, found.variance / n_private**2
            tables[place].add(values, 1 / variance)

    whole = all_noise(ledger)
    first, even = _first_round(model, whole, ledger, n_private)
    if not noise_is_representable(
        scaled_noise(whole, first * max(even)), ledger.for_person(TABLE_SENSITIVITY)
    ):
        raise ValueError(
            f"The noise for {len(tables)} tables is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}; release fewer tables."
        )
    measure(scaled_noise(whole, first), even)
    model.fit()
    rest = scaled_noise(whole, 1 - first)
    measure(rest, _plan_second_round(model, rest, ledger, n_private))
    model.fit()
    model.make_consistent()
    posteriors = model.posteriors()
    return MarginalRelease(
        fractions={columns: table.estimate for columns, table in model.tables.items()},
        deviations={columns: one.deviations(persons) for columns, one in posteriors.items()},
        sizes=sizes,
        effective_public_size=min(model.effective_public_size.values()),
        measured={columns: _measured(table) for columns, table in model.tables.items()},
        persons=persons,
        gaussian=isinstance(whole, Gaussian),
        posteriors=posteriors,
    )


def _measured(table: MarginalEstimate) -> TableMeasurement:
    values, precision = table.pooled_measurement()
    return TableMeasurement(values, 1 / precision)


def _first_round(
    model: MarginalModel, noise: Noise, ledger: Ledger, n_private: int
) -> tuple[Fraction, list[Fraction]]:
    """Return the budget's share for the first round, and the shares of the tables in that round.

    The noise of the first round need not be below the sampling error: what is left is spent where
    it helps most. Gaussian noise is on all tables, since the precisions of both rounds add up.
    Laplace noise is on single columns alone: half of a budget buys a quarter of the precision.
    """
    gaussian = isinstance(noise, Gaussian)
    measured = [gaussian or len(columns) == 1 for columns in model.tables]
    share = Fraction(1, sum(measured))
    variance = (
        noise_scale(scaled_noise(noise, share), ledger.for_person(TABLE_SENSITIVITY))[1] / n_private
    )
    least, wanted = (
        (MIN_FIRST_ROUND_SHARE, variance)
        if gaussian
        else (Fraction(1, SHARE_DENOMINATOR), math.sqrt(variance))
    )
    first = min(
        max(Fraction(wanted).limit_denominator(SHARE_DENOMINATOR), least), MAX_FIRST_ROUND_SHARE
    )
    return first, [share if included else Fraction(0) for included in measured]


def _plan_second_round(
    model: MarginalModel, noise: Noise, ledger: Ledger, n_private: int
) -> list[Fraction]:
    """Plan the shares of all tables in a budget, in whole parts; none so small as not to count."""
    power = 1 if isinstance(noise, Gaussian) else 2
    precision = n_private**2 / noise_scale(noise, ledger.for_person(TABLE_SENSITIVITY))[1]
    shares = [
        Fraction(int(share * SHARE_DENOMINATOR), SHARE_DENOMINATOR)
        for share in allocate_budget(model, precision, power)
    ]
    return [
        share
        if share
        and noise_is_representable(scaled_noise(noise, share), ledger.for_person(TABLE_SENSITIVITY))
        else Fraction(0)
        for share in shares
    ]
