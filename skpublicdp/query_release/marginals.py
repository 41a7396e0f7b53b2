"""Marginals: measure once with exact noise, then fit around the public prior.

The private rows enter through integer tables with exact integer noise, and nowhere else. What
follows (trust, tilt, weights) is post-processing of released numbers. The sensitivity is proved in
docs/proofs/marginals.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Gaussian, Sensitivity, noise_of
from skpublicdp.ledger import Ledger, drawable
from skpublicdp.query_release.marginal_fit import Answers, explain, trust_by_one_ways
from skpublicdp.query_release.marginal_parts import (
    UNIT,
    parted_incidence,
    parted_tables,
    worth_of_cells,
)
from skpublicdp.query_release.marginal_support import (
    Support,
    product_support,
    public_support,
    uniform_support,
)
from skpublicdp.query_release.marginal_tables import (
    Columns,
    Integers,
    cells,
    check_codes,
    check_sizes,
    check_workload,
    incidence,
    marginal_tables,
)
from skpublicdp.query_release.solver import Floats
from skpublicdp.query_release.spending import Noise, all_noise, noise_on, part_of

ONE_WAY_SHARE = Fraction(1, 20)
"""The budget of the one-way marginals: they are few, and show drift that the workload drowns in
noise."""

LOUDEST = 0.03
"""Noisier workload answers than this (as fractions) show nothing that marginals of fewer columns do
not show better, so those are measured instead; if all of them are as noisy, one-ways alone."""

LOUDEST_PURE = (0.4, 0.005)
"""With public rows and discrete Laplace noise, instead: the first over the root of their number,
but at least the second. Such noise grows with the number of tables and soon buries the prior."""

SMALLEST_SHARE = 1e-3
"""Rows drawn from noisy one-ways give every code at least this, divided by their number."""


PROOF = "docs/proofs/marginals.md"


@dataclass(frozen=True)
class MarginalRelease:
    """Weighted rows that answer marginals, from released and public numbers only.

    Attributes
    ----------
    support : ndarray of shape (n_support, n_columns)
        Distinct rows of codes.
    weights : ndarray of shape (n_support,)
        Non-negative, with sum 1.
    sizes : tuple of int
        How many codes each column has.
    effective_public_size : float
        How many private-like records the public rows count for, as far as the noise lets one see.
    tilted : bool
        Whether the one-way marginals showed drift, so that the public rows were tilted to them.
    converged : bool
        Whether each fit did; if not, a NotConvergedWarning was given.
    """

    support: Integers = field(repr=False)
    weights: Floats = field(repr=False)
    sizes: Columns
    effective_public_size: float
    tilted: bool
    converged: bool

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Estimate which fraction of the population falls in each cell.

        Parameters
        ----------
        columns : sequence of int
            Any columns, in any order.

        Returns
        -------
        ndarray
            One axis per column, with sum 1.
        """
        order = tuple(int(column) for column in columns)
        check_workload([order], self.sizes)
        shape = tuple(self.sizes[column] for column in order)
        cell = cells(self.support, order, self.sizes)
        table = np.bincount(cell, self.weights, minlength=math.prod(shape))
        return table.astype(np.float64, copy=False).reshape(shape)


def release_marginals(
    codes_private: NDArray[np.integer],
    codes_public: NDArray[np.integer] | None,
    sizes: Sequence[int],
    workload: Iterable[Sequence[int]],
    *,
    ledger: Ledger,
    trust: str | float = "auto",
    n_jobs: int | None = None,
) -> MarginalRelease:
    """Release marginals of private rows with the help of public ones.

    Parameters
    ----------
    codes_private : ndarray of int, shape (n_private, n_columns)
        Private rows, each column coded from 0 to below its size.
    codes_public : ndarray of int, shape (n_public, n_columns), or None
        Public rows, coded alike; there may be none.
    sizes : sequence of int
        How many codes each column has; public.
    workload : iterable of sequences of int
        The columns of each marginal.
    ledger : Ledger
        Pays with all it holds: Gaussian noise, or Laplace noise if δ = 0.
    trust : "auto" or float, default="auto"
        How many records the public rows count for, at least one; "auto" estimates it from the noisy
        answers.
    n_jobs : int, optional
        Threads that count.

    Returns
    -------
    MarginalRelease
        The release.

    Warns
    -----
    NotConvergedWarning
        If a fit stopped short of its solution.

    Notes
    -----
    A twentieth of the budget goes to the one-way marginals, the rest to the workload. If answers
    to it would be too noisy, its parts of fewer columns are measured instead: of one column less
    than the widest, or two less, and so on to pairs, where that is quiet enough; else all of the
    budget goes to the one-ways. Noisier than ±.03 is too noisy; with m public rows and δ = 0,
    noisier than ±.4 / √m is, between ±.005 and ±.03. The weights minimise
    trust · KL(p ‖ public) + χ²(measurements) / 2. If the one-ways show drift, the public rows are
    first tilted to the one-ways, and the workload is fitted around them: each measurement is used
    once. Cells of the workload that no support row reaches are not released. With public rows and
    Gaussian noise, a row adds more to the cells that neither public rows nor other tables tell.

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
    workload = check_workload(workload, sizes)
    private = check_codes("codes_private", codes_private, sizes)
    n_private = len(private)
    if n_private == 0:
        raise ValueError("codes_private must have at least one row.")
    public = np.empty((0, len(sizes)), dtype=np.int64)
    if codes_public is not None:
        public = check_codes("codes_public", codes_public, sizes).astype(np.int64)
    if trust != "auto" and not (isinstance(trust, int | float) and 0 < trust < math.inf):
        raise ValueError(f"trust must be 'auto' or a positive number; got {trust!r}.")
    if not isinstance(trust, str):
        trust = max(1.0, float(trust))  # less than a record would fit noise alone
    one_ways = tuple(sorted({(column,) for columns in workload for column in columns}))
    joint = _quiet_parts(workload, ledger, n_private, len(public))
    share = ONE_WAY_SHARE if joint else Fraction(1)

    noise = part_of(all_noise(ledger), share)
    tables = marginal_tables(private, one_ways, sizes, n_jobs)
    noisy = _measure(tables, noise, ledger, "one column")
    fractions = [table / n_private for table in noisy]

    support = _support(public, sizes, one_ways, fractions)
    placed = incidence(support.rows, one_ways, sizes)
    near = Answers.of(placed, fractions, _variance(noise, ledger, len(one_ways)) / n_private**2)
    far = None
    if joint:
        noise = part_of(all_noise(ledger), 1 - share)
        placed = incidence(support.rows, joint, sizes)
        # cells without support say nothing of the weights: they are not released
        unit = 1
        if len(public) and isinstance(noise, Gaussian):
            quiet = drawable(noise, ledger.for_person(_sensitivity(len(joint), UNIT)))
            unit = UNIT if quiet else 1  # louder noise cannot be drawn in parts of a row
        variance = _variance(noise, ledger, len(joint), unit) / n_private**2
        if unit > 1:
            records = trust
            if isinstance(records, str):
                records = trust_by_one_ways(support.prior, near, len(public), n_private)
            belief = min(1.0, records / len(public))
            sampling = 1 / (belief * len(public)) + 1 / n_private
            # drift moves light cells by more than a smaller sample would
            worth = worth_of_cells(placed, joint, support.prior, belief * variance / sampling)
            matrix = parted_incidence(placed, worth)
            tables = parted_tables(private, joint, sizes, placed, worth, n_jobs)
        else:
            matrix = placed.matrix
            counts = marginal_tables(private, joint, sizes, n_jobs)
            tables = [table[cell] for table, cell in zip(counts, placed.reached, strict=True)]
        noisy = _measure(tables, noise, ledger, "several columns", unit)
        far = Answers(matrix, np.concatenate(noisy) / (unit * n_private), variance)
    explained = explain(support.prior, near, far, trust, len(public), n_private)
    return MarginalRelease(
        support=support.rows,
        weights=explained.weights,
        sizes=sizes,
        effective_public_size=explained.trust,
        tilted=explained.tilted,
        converged=explained.converged,
    )


def _measure(
    tables: list[Integers], noise: Noise, ledger: Ledger, of: str, unit: int = 1
) -> list[Integers]:
    """Add noise to tables that pay for it together: a row is in all of them."""
    name = noise_on(f"{len(tables)} tables of {of}", noise)
    paid = ledger.child(noise, name=name, proof=PROOF, by_theorem=True)
    together = _sensitivity(len(tables), unit)
    return [
        paid.add_noise(table, together, noise, name=name, proof=PROOF).values for table in tables
    ]


def _sensitivity(n_marginals: int, unit: int = 1) -> Sensitivity:
    """Return that of all tables together, in units: a replaced row moves two cells of each."""
    return Sensitivity(2 * n_marginals * unit, 2 * n_marginals * unit**2)


def _variance(noise: Noise, ledger: Ledger, n_marginals: int, unit: int = 1) -> float:
    """Return the variance of noise on a count."""
    return noise_of(noise, ledger.for_person(_sensitivity(n_marginals, unit)))[1] / unit**2


def _quiet_parts(
    workload: tuple[Columns, ...], ledger: Ledger, n_private: int, n_public: int
) -> tuple[Columns, ...]:
    """Return the widest parts of the workload that the budget measures well, or none."""
    loudest, noise = LOUDEST, all_noise(ledger)
    if n_public and not isinstance(noise, Gaussian):
        by_rows, least = LOUDEST_PURE
        loudest = min(loudest, max(by_rows / math.sqrt(n_public), least))
    for width in range(max(map(len, workload)), 1, -1):
        joint = _parts(workload, width)
        if math.sqrt(_variance(noise, ledger, len(joint))) <= loudest * n_private:
            return joint
    return ()


def _parts(workload: tuple[Columns, ...], width: int) -> tuple[Columns, ...]:
    """Replace marginals of more columns by those of all their subsets of so many columns."""
    parts = (
        itertools.combinations(columns, min(width, len(columns)))
        for columns in workload
        if len(columns) > 1
    )
    return tuple(dict.fromkeys(itertools.chain.from_iterable(parts)))


def _support(
    public: Integers, sizes: Columns, one_ways: tuple[Columns, ...], fractions: list[Floats]
) -> Support:
    if len(public):
        return public_support(public, sizes)
    every_row = uniform_support(sizes)
    if every_row is not None:
        return every_row
    shares = [np.full(size, 1 / size) for size in sizes]
    for (column,), noisy in zip(one_ways, fractions, strict=True):
        shares[column] = np.maximum(noisy, SMALLEST_SHARE / sizes[column])
    return product_support(shares, sizes)
