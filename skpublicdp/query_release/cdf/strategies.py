"""Measurement strategies (matrix mechanism), given by integer matrices of exact sensitivity.

The proofs are in docs/proofs/prefix_sums.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skpublicdp.accounting import Gaussian, Measurement, Noise, Sensitivity
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.typing import Integers

COEFFICIENT_BITS = 12
"""Number of bits for square-root coefficients, which are rounded to multiples of 2^-12 with errors
below 1%."""

MAX_SIGMA2_BITS = 59
"""Largest number of bits that the noise variance σ² of a strategy can have; the sampler allows
variances up to 2^60."""

MAX_STRATEGY_SENSITIVITY = Sensitivity(4, 4)
"""Largest sensitivity of any strategy with the coarsest coefficients. If noise for this sensitivity
can be sampled, so can the noise of all other strategies."""

PREFIX_SUMS_PROOF = "docs/proofs/prefix_sums.md"


@dataclass(frozen=True)
class MeasurementStrategy:
    """Integer combinations of cell counts, which are measured jointly."""

    name: str  # name of the strategy in the privacy receipt
    # (n_measurements, n_cells): the combinations, which determine all counts when the total is
    # known
    matrix: Integers
    sensitivity: Sensitivity  # exact sensitivity of the answers when one row moves to another cell


def prefix_strategy(n_cells: int, mu_squared: Fraction) -> MeasurementStrategy:
    """Return the square root factorization of prefix sums, with integer coefficients.

    Parameters
    ----------
    n_cells : int
        Number of cells, at least 2.
    mu_squared : Fraction
        Budget μ², which affects only the precision of the rounded coefficients.

    References
    ----------
    Fichtenberger, Henzinger and Upadhyay (2023), Constant matters; Henzinger, Upadhyay and
    Upadhyay (2023), Almost tight error bounds on differentially private continual counting.
    """
    n_rows = n_cells - 1
    log_budget = mu_squared.numerator.bit_length() - mu_squared.denominator.bit_length()
    # With coefficients of `bits` bits, the squared sensitivity is at most 2^(2 bits + 4). The noise
    # variance is this number divided by μ² and must have at most `MAX_SIGMA2_BITS` bits.
    max_bits = (MAX_SIGMA2_BITS - 4 + log_budget) // 2
    bits = min(COEFFICIENT_BITS, max(0, max_bits))
    # power series of (1 - x)^(-1/2), whose square is the series of prefix sums
    factors = 1 - 0.5 / np.arange(1, n_rows)
    square_root = np.concatenate([[1.0], np.cumprod(factors)])
    coefficients = np.rint(square_root * 2**bits).astype(np.int64)
    matrix = np.zeros((n_rows, n_cells), dtype=np.int64)
    for cell in range(n_rows):
        matrix[cell:, cell] = coefficients[: n_rows - cell]
    # Shifting two columns to the left adds a term to their distance. The first column and some
    # other column therefore attain the largest distance.
    differences = matrix - matrix[:, :1]
    absolute = np.abs(differences).sum(axis=0)
    squared = np.square(differences).sum(axis=0)
    sensitivity = Sensitivity(int(absolute.max()), int(squared.max()))
    return MeasurementStrategy("square root of prefix sums", matrix, sensitivity)


def histogram_strategy(n_cells: int) -> MeasurementStrategy:
    """Return the strategy that measures each cell separately, for Laplace noise."""
    # a replaced row leaves one cell and enters another
    return MeasurementStrategy("histogram", np.eye(n_cells, dtype=np.int64), Sensitivity(2, 2))


def hierarchy_strategy(n_cells: int) -> MeasurementStrategy:
    """Return the strategy that measures cells and blocks of √n_cells cells, for Laplace noise."""
    cells = np.eye(n_cells, dtype=np.int64)
    blocks = np.add.reduceat(cells, np.arange(0, n_cells, math.isqrt(n_cells)), axis=0)
    # each cell belongs to one block, and the first and the last cell belong to different blocks
    return MeasurementStrategy("hierarchy", np.concatenate([cells, blocks]), Sensitivity(4, 4))


def choose_strategy(
    n_cells: int, noise: Noise, ledger: Ledger, *, is_final: bool
) -> MeasurementStrategy:
    """Return the strategy for a grid before or, if `is_final`, after the refinement.

    The precisions of Gaussian measurements of the same cells add up, so the first measurement is
    not wasted if no cell is heavy. Laplace measurements do not combine in this way, so their first
    measurement is simpler.
    """
    if isinstance(noise, Gaussian):
        # the noise grows with the number of rows per person
        return prefix_strategy(n_cells, noise.mu_squared / ledger.rows_per_person**2)
    return hierarchy_strategy(n_cells) if is_final else histogram_strategy(n_cells)


def check_noise_scale(noise: Noise, ledger: Ledger) -> None:
    """Raise a ValueError if the noise for one column exceeds the range of the integer sampler.

    The check assumes the least favourable strategy and is made before anything is charged.
    """
    if not noise_is_representable(noise, ledger.for_person(MAX_STRATEGY_SENSITIVITY)):
        raise ValueError(
            "The noise of a column is too large to be drawn at epsilon = "
            f"{float(ledger.epsilon):g}. Release fewer columns, or release only public rows with "
            "method='public'."
        )


def measure(
    strategy: MeasurementStrategy, counts: Integers, noise: Noise, ledger: Ledger, suffix: str = ""
) -> Measurement:
    """Return a strategy's combinations of private counts with integer noise added."""
    name = f"{noise.noise_name} on the {strategy.name}{suffix}"
    exact = strategy.matrix @ counts
    return ledger.add_noise(exact, strategy.sensitivity, noise, name=name, proof=PREFIX_SUMS_PROOF)
