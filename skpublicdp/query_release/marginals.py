"""Marginals: measure once with exact noise, then fit around the public prior.

The private rows enter through integer tables with exact integer noise, and nowhere else. What
follows (trust, tilt, weights) is post-processing of released numbers. The sensitivity is proved in
docs/proofs/marginals.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import gaussian_mu_squared
from skpublicdp.mechanisms.noise import LARGEST_SCALE, discrete_laplace
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.mechanisms.rounded_gaussian import rounded_gaussian
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
from skpublicdp.query_release.prefix import ROUNDING_VARIANCE
from skpublicdp.query_release.solver import Floats

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


@dataclass(frozen=True)
class Measurement:
    """Marginals that were measured together, each cell with independent noise.

    Attributes
    ----------
    marginals : tuple of tuple of int
        The columns of each.
    unit : int
        A row adds so many units to each of its cells, or other numbers whose squares have a mean
        of at most unit².
    sigma2 : Fraction or None
        σ² of Gaussian noise before it is rounded to units, as a count of rows.
    mu_squared : Fraction or None
        Its μ² of Gaussian differential privacy: 2 · number of marginals / σ².
    scale : Fraction or None
        Scale of the discrete Laplace.
    epsilon : Fraction or None
        Its pure ε: 2 · number of marginals / scale.
    """

    marginals: tuple[Columns, ...] = field(repr=False)
    unit: int = 1
    sigma2: Fraction | None = None
    mu_squared: Fraction | None = None
    scale: Fraction | None = None
    epsilon: Fraction | None = None

    @property
    def n_marginals(self) -> int:
        """How many marginals share the noise."""
        return len(self.marginals)

    @property
    def variance(self) -> float:
        """Variance of the noise on a count."""
        if self.sigma2 is not None:
            return float(self.sigma2) + ROUNDING_VARIANCE / self.unit**2
        assert self.scale is not None
        return 0.5 / math.sinh(0.5 / float(self.scale)) ** 2

    def draw(self, size: int, bits: RandomBits) -> Integers:
        """Draw the noise of so many cells, in units."""
        if self.sigma2 is not None:
            return rounded_gaussian(self.sigma2 * self.unit**2, size, bits)
        assert self.scale is not None
        return discrete_laplace(self.scale, size, bits)


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
    epsilon, delta : float
        The privacy of everything here.
    measurements : tuple of Measurement
        Every use of the private rows.
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
    epsilon: float
    delta: float
    measurements: tuple[Measurement, ...]
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
    epsilon: float,
    delta: float | None,
    bits: RandomBits,
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
    epsilon : float
        Positive budget.
    delta : float or None
        0 gives pure ε-differential privacy, and None means 1 / n_private².
    bits : RandomBits
        Source of the noise.
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
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> rng = np.random.default_rng(0)
    >>> private = rng.integers(2, size=(5000, 3))
    >>> release = release_marginals(
    ...     private, private[:100], (2, 2, 2), [(0, 1), (1, 2)],
    ...     epsilon=1.0, delta=1e-8, bits=SeededBits(0),
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
    delta = 1 / n_private**2 if delta is None else delta
    budget = _Budget.of(epsilon, delta)
    one_ways = tuple(sorted({(column,) for columns in workload for column in columns}))
    joint = _quiet_parts(workload, budget, n_private, len(public))
    share = ONE_WAY_SHARE if joint else Fraction(1)

    first = budget.measurement(one_ways, share)
    tables = marginal_tables(private, one_ways, sizes, n_jobs)
    fractions = [(table + first.draw(len(table), bits)) / n_private for table in tables]

    support = _support(public, sizes, one_ways, fractions)
    placed = incidence(support.rows, one_ways, sizes)
    near = Answers.of(placed, fractions, first.variance / n_private**2)
    measurements: tuple[Measurement, ...] = (first,)
    far = None
    if joint:
        second = budget.measurement(joint, 1 - share)
        placed = incidence(support.rows, joint, sizes)
        # cells without support say nothing of the weights: they are not released
        finest = (LARGEST_SCALE // UNIT) ** 2  # louder noise cannot be drawn in parts of a row
        if len(public) and second.sigma2 is not None and second.sigma2 <= finest:
            second = replace(second, unit=UNIT)
            records = trust
            if isinstance(records, str):
                records = trust_by_one_ways(support.prior, near, len(public), n_private)
            belief = min(1.0, records / len(public))
            sampling = 1 / (belief * len(public)) + 1 / n_private
            # drift moves light cells by more than a smaller sample would
            known = belief * second.variance / n_private**2 / sampling
            worth = worth_of_cells(placed, joint, support.prior, known)
            matrix = parted_incidence(placed, worth)
            tables = parted_tables(private, joint, sizes, placed, worth, n_jobs)
        else:
            matrix = placed.matrix
            counts = marginal_tables(private, joint, sizes, n_jobs)
            tables = [table[cell] for table, cell in zip(counts, placed.reached, strict=True)]
        measurements += (second,)
        noisy = [table + second.draw(len(table), bits) for table in tables]
        values = np.concatenate(noisy) / (second.unit * n_private)
        far = Answers(matrix, values, second.variance / n_private**2)
    explained = explain(support.prior, near, far, trust, len(public), n_private)
    return MarginalRelease(
        support=support.rows,
        weights=explained.weights,
        sizes=sizes,
        epsilon=float(epsilon),
        delta=float(delta),
        measurements=measurements,
        effective_public_size=explained.trust,
        tilted=explained.tilted,
        converged=explained.converged,
    )


@dataclass(frozen=True)
class _Budget:
    """What may be spent: pure ε if there is no μ²."""

    epsilon: Fraction
    mu_squared: Fraction | None

    @classmethod
    def of(cls, epsilon: float, delta: float) -> _Budget:
        if not 0 < epsilon < math.inf:
            raise ValueError(f"epsilon must be positive and finite; got {epsilon}.")
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1; got {delta}.")
        exact, failure = Fraction(epsilon), Fraction(delta)
        return cls(exact, gaussian_mu_squared(exact, failure) if failure else None)

    def measurement(self, marginals: tuple[Columns, ...], share: Fraction) -> Measurement:
        """Calibrate the noise: a replaced row moves two cells of each marginal by one."""
        sensitivity = 2 * len(marginals)  # squared Euclidean, and absolute as well
        if self.mu_squared is None:
            spent = share * self.epsilon
            return Measurement(marginals, scale=sensitivity / spent, epsilon=spent)
        spent = share * self.mu_squared
        return Measurement(marginals, sigma2=sensitivity / spent, mu_squared=spent)


def _quiet_parts(
    workload: tuple[Columns, ...], budget: _Budget, n_private: int, n_public: int
) -> tuple[Columns, ...]:
    """Return the widest parts of the workload that the budget measures well, or none."""
    loudest = LOUDEST
    if budget.mu_squared is None and n_public:
        by_rows, least = LOUDEST_PURE
        loudest = min(loudest, max(by_rows / math.sqrt(n_public), least))
    for width in range(max(map(len, workload)), 1, -1):
        joint = _parts(workload, width)
        if math.sqrt(budget.measurement(joint, Fraction(1)).variance) <= loudest * n_private:
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
