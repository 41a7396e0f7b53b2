"""Measurement strategies (matrix mechanism): integer matrices with exact sensitivities.

The proofs are in docs/proofs/prefix_sums.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skpublicdp.accounting import Measurement, Sensitivity
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.query_release.spending import Noise, mechanism_name
from skpublicdp.typing import Integers

COEFFICIENT_BITS = 12
"""Square-root coefficients are multiples of 2^-12 of the first: rounding moves none by 1%."""

MAX_SIGMA2_BITS = 59
"""The noise has room for σ² up to 2^60."""

MAX_STRATEGY_SENSITIVITY = Sensitivity(4, 4)
"""Largest sensitivity of any strategy with the coarsest coefficients. If its noise can be sampled,
the noise of all others can."""

PREFIX_SUMS_PROOF = "docs/proofs/prefix_sums.md"


@dataclass(frozen=True)
class MeasurementStrategy:
    """Integer combinations of cell counts that are measured together.

    Attributes
    ----------
    name : str
        Name in the receipt.
    matrix : ndarray of int64, shape (n_measurements, n_cells)
        The combinations, of full column rank once the total is known.
    sensitivity : Sensitivity
        Exact maximum change of the answers if one row moves to another cell.
    """

    name: str
    matrix: Integers
    sensitivity: Sensitivity


def prefix_strategy(n_cells: int, mu_squared: Fraction) -> MeasurementStrategy:
    """Return the integer square root factorization of prefix sums.

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
    bits = min(COEFFICIENT_BITS, max(0, (MAX_SIGMA2_BITS - 4 + log_budget) // 2))
    indices = np.arange(1, n_rows)
    root = np.concatenate([[1.0], np.cumprod(1 - 0.5 / indices)])
    coefficients = np.rint(root * 2**bits).astype(np.int64)
    matrix = np.zeros((n_rows, n_cells), dtype=np.int64)
    for cell in range(n_rows):
        matrix[cell:, cell] = coefficients[: n_rows - cell]
    # moving both cells of a pair towards the start only appends a term to its distance, so the
    # farthest pair has the first cell in it
    moved = matrix - matrix[:, :1]
    farthest = (int(norm(moved).sum(axis=0).max()) for norm in (np.abs, np.square))
    return MeasurementStrategy("square root of prefix sums", matrix, Sensitivity(*farthest))


def histogram_strategy(n_cells: int) -> MeasurementStrategy:
    """Return the identity strategy, for Laplace noise."""
    return MeasurementStrategy("histogram", np.eye(n_cells, dtype=np.int64), Sensitivity(2, 2))


def hierarchy_strategy(n_cells: int) -> MeasurementStrategy:
    """Return the cells and blocks of √n neighbours, for Laplace noise."""
    cells = np.eye(n_cells, dtype=np.int64)
    blocks = np.add.reduceat(cells, np.arange(0, n_cells, math.isqrt(n_cells)), axis=0)
    # the first and the last cell are in different blocks, and every cell is in one
    return MeasurementStrategy("hierarchy", np.concatenate([cells, blocks]), Sensitivity(4, 4))


def check_noise_scale(noise: Noise, ledger: Ledger) -> None:
    """Refuse a budget for one column whose noise cannot be drawn, before anything is charged."""
    if not noise_is_representable(noise, ledger.for_person(MAX_STRATEGY_SENSITIVITY)):
        raise ValueError(
            f"The noise of a column is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}; release fewer columns, or public rows alone with "
            "method='public'."
        )


def measure(
    strategy: MeasurementStrategy, counts: Integers, noise: Noise, ledger: Ledger, which: str = ""
) -> Measurement:
    """Add exact noise to the integer combinations.

    Parameters
    ----------
    strategy : Strategy
        What to measure.
    counts : ndarray of int64, shape (n_cells,)
        Private rows in each cell.
    noise : Gaussian or Pure
        What it costs.
    ledger : Ledger
        Pays.
    which : str
        Suffix for the receipt, if a strategy is measured twice.

    Returns
    -------
    Measurement
        One value for each row of the matrix.
    """
    name = mechanism_name(f"the {strategy.name}{which}", noise)
    exact = strategy.matrix @ counts
    return ledger.add_noise(exact, strategy.sensitivity, noise, name=name, proof=PREFIX_SUMS_PROOF)
