"""Survey weights of private rows: integers up to a declared maximum, and their noisy totals.

The sensitivity is proved in docs/proofs/marginals.md, section "Weighted tables".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from skpublicdp.accounting import Sensitivity
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

WEIGHT_UNITS = 1 << 12
"""Integer weight of a row with the maximum weight. Weights are rounded to this many steps, so that
the rounding error is at most 1/8192 of the maximum."""

TOTALS_SHARE = Fraction(1, 16)
"""Share of the budget for the sum of the weights and of their squares."""

WEIGHTS_PROOF = "docs/proofs/marginals.md"


@dataclass(frozen=True)
class WeightColumn:
    """A numeric column of the rows that contains their survey weights.

    Attributes
    ----------
    position : int
        Position of the column.
    maximum : float
        Declared maximum of a weight.
    offset : float
        Number that is added to encoded values of the column.
    """

    position: int
    maximum: float
    offset: float = 0.0

    def units(self, rows: Floats) -> Integers:
        """Return the weights of encoded rows as integers from 0 to `WEIGHT_UNITS`.

        The weight of a row depends on this row alone, and is in this range for every number.
        """
        shares = (rows[:, self.position] + self.offset) / self.maximum
        finite = np.where(np.isfinite(shares), shares, 0.0)
        units: Integers = np.rint(np.clip(finite, 0, 1) * WEIGHT_UNITS).astype(np.int64)
        return units

    def totals(self, rows: Floats) -> Integers:
        """Return the sum of the weights and the sum of their squares, both in `WEIGHT_UNITS`.

        A square is divided by `WEIGHT_UNITS` and rounded down, so that it is in the same range.
        """
        units = self.units(rows)
        return np.array([units.sum(), (units * units // WEIGHT_UNITS).sum()], dtype=np.int64)


class WeightTotals(NamedTuple):
    """Released sums of the weights of all private rows.

    Attributes
    ----------
    total : float
        Sum of the weights, in maximum weights. It is at least 1 and at most the number of rows.
    variance : float
        Variance of the noise of `total`.
    effective_rows : float
        Effective sample size of Kish: the squared sum over the sum of squares.
    """

    total: float
    variance: float
    effective_rows: float


def weighted_sensitivity(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity of sums of integer weights, given that of counts of rows."""
    absolute, squared = sensitivity
    return Sensitivity(WEIGHT_UNITS * absolute, WEIGHT_UNITS**2 * squared)


def release_weight_totals(
    count: Callable[[], Integers], n_private: int, ledger: Ledger
) -> WeightTotals:
    """Release the sum of the weights and of their squares, with a share of the ledger's budget.

    Parameters
    ----------
    count : callable
        Returns `WeightColumn.totals` of all private rows.
    n_private : int
        Number of private rows.
    ledger : Ledger
        Privacy ledger.
    """
    noisy = ledger.add_noise(
        count(),
        weighted_sensitivity(Sensitivity(2, 2)),
        ledger.noise.scaled(TOTALS_SHARE),
        name=f"{ledger.noise.noise_name} on the sums of weights and of their squares",
        proof=WEIGHTS_PROOF,
    )
    total, squares = (noisy.values / WEIGHT_UNITS).tolist()
    total = min(max(total, 1.0), float(n_private))
    # the sum of squares is at most the sum of weights, and at least total² / n (Cauchy-Schwarz)
    effective_rows = min(max(total**2 / max(squares, 1.0), total), float(n_private))
    return WeightTotals(total, noisy.variance / WEIGHT_UNITS**2, effective_rows)
