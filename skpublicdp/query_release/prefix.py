"""What is measured of the cells of a line: integer matrices with their exact sensitivities.

The proofs are in docs/proofs/prefix_sums.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp

import numpy as np
from numpy.typing import NDArray

from skpublicdp.mechanisms.noise import discrete_laplace
from skpublicdp.mechanisms.randomness import RandomBits
from skpublicdp.mechanisms.rounded_gaussian import rounded_gaussian

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SCALE_BITS = 12
"""Square-root coefficients are multiples of 2^-12 of the first: rounding moves none by 1%."""

LARGEST_SIGMA2_BITS = 59
"""The noise has room for σ² up to 2^60."""

ROUNDING_VARIANCE = 1 / 12
"""What rounding adds to the variance of Gaussian noise, or very nearly; for a small σ less."""

BRANCHING = 8


@dataclass(frozen=True)
class Strategy:
    """Integer combinations of cell counts that are measured together.

    Attributes
    ----------
    name : str
        What it is called in a receipt.
    matrix : ndarray of int64, shape (n_measurements, n_cells)
        The combinations, of full column rank once the total is known.
    sensitivity : int
        The most that moving one row to another cell changes the measurements: squared Euclidean
        distance if noise is Gaussian, absolute distance if it is Laplace.
    gaussian : bool
        Which of the two.
    """

    name: str
    matrix: Integers
    sensitivity: int
    gaussian: bool


@dataclass(frozen=True)
class Measurement:
    """Noisy integers: all that is ever learned of the private rows.

    Attributes
    ----------
    strategy : Strategy
        What was measured.
    values : ndarray of int64, shape (n_measurements,)
        Exact integers plus exact noise.
    spread : Fraction
        σ² of the Gaussian noise before it is rounded, or scale of the Laplace noise.
    """

    strategy: Strategy
    values: Integers
    spread: Fraction

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each value, or very nearly."""
        if self.strategy.gaussian:
            return float(self.spread) + ROUNDING_VARIANCE
        return laplace_variance(self.spread)


def prefix_strategy(n_cells: int, mu_squared: Fraction) -> Strategy:
    """Return the square root of prefix sums, in integers.

    Parameters
    ----------
    n_cells : int
        At least 2.
    mu_squared : Fraction
        The budget, which only decides how finely the coefficients are rounded.

    Returns
    -------
    Strategy
        A Toeplitz matrix: row i weighs cell j <= i by the coefficient of index i - j. The last
        cell has no row, the total being known.

    References
    ----------
    Fichtenberger, Henzinger and Upadhyay (2023), Constant matters; Henzinger, Upadhyay and
    Upadhyay (2023), Almost tight error bounds on differentially private continual counting.
    """
    n_rows = n_cells - 1
    log_budget = mu_squared.numerator.bit_length() - mu_squared.denominator.bit_length()
    # the squared sensitivity is at most 2^(2 bits + 4)
    bits = min(SCALE_BITS, max(0, (LARGEST_SIGMA2_BITS - 4 + log_budget) // 2))
    indices = np.arange(1, n_rows)
    root = np.concatenate([[1.0], np.cumprod(1 - 0.5 / indices)])
    coefficients = np.rint(root * 2**bits).astype(np.int64)
    matrix = np.zeros((n_rows, n_cells), dtype=np.int64)
    for cell in range(n_rows):
        matrix[cell:, cell] = coefficients[: n_rows - cell]
    # moving both cells of a pair towards the start only appends a square to its distance, so the
    # farthest pair has the first cell in it
    distances = np.square(matrix - matrix[:, :1]).sum(axis=0)
    return Strategy("square root of prefix sums", matrix, int(distances.max()), gaussian=True)


def histogram_strategy(n_cells: int) -> Strategy:
    """Return the cells themselves, for Laplace noise."""
    matrix = np.eye(n_cells, dtype=np.int64)
    return Strategy("histogram", matrix, 2, gaussian=False)


def hierarchy_strategy(n_cells: int) -> Strategy:
    """Return all nodes but the root of a tree over the cells, for Laplace noise.

    Every level above the cells joins 8 neighbours into one, until at most 8 are left.
    """
    levels = [np.eye(n_cells, dtype=np.int64)]
    while len(levels[-1]) > BRANCHING:
        starts = np.arange(0, len(levels[-1]), BRANCHING)
        levels.append(np.add.reduceat(levels[-1], starts, axis=0))
    # the first and the last cell differ at every level, and every cell is in one node of each
    return Strategy("hierarchy", np.concatenate(levels), 2 * len(levels), gaussian=False)


def laplace_variance(scale: Fraction) -> float:
    """Return the variance of discrete Laplace noise."""
    q = exp(-1 / float(scale))
    return 2 * q / (1 - q) ** 2


def measure(
    strategy: Strategy, counts: Integers, budget: Fraction, bits: RandomBits
) -> Measurement:
    """Add exact noise to the integer combinations.

    Parameters
    ----------
    strategy : Strategy
        What to measure.
    counts : ndarray of int64, shape (n_cells,)
        Private rows in each cell.
    budget : Fraction
        μ² for Gaussian noise, ε for Laplace noise; positive.
    bits : RandomBits
        Source of randomness.

    Returns
    -------
    Measurement
        μ-Gaussian or ε-differentially private, for replacing one row.
    """
    exact = strategy.matrix @ counts
    spread = strategy.sensitivity / budget
    sampler = rounded_gaussian if strategy.gaussian else discrete_laplace
    noise = sampler(spread, len(exact), bits)
    return Measurement(strategy, exact + noise, spread)
