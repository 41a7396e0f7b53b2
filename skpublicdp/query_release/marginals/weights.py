"""Survey weights of private rows as bounded integers, and the noisy totals of these weights.

The sensitivity is proved in docs/proofs/marginals.md, section "Weighted tables".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from skpublicdp.accounting import Sensitivity
from skpublicdp.exceptions import UncoveredBoundsWarning, warn
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

WEIGHT_UNITS = 1 << 12
"""Integer weight of a row with the maximum weight. Weights are rounded to multiples of 1/4096 of
the maximum, with a rounding error of at most 1/8192 of the maximum."""

TOTALS_SHARE = Fraction(1, 16)
"""Share of the budget that is spent on the sums of the weights and of their squares."""

MAX_LOWERED_SHARE = 0.1
"""Largest fraction of public weights above the declared maximum that gives no warning. Offices
often trim a few percent of the weights."""

MAX_MEAN_WEIGHT = 0.9
"""Largest released mean weight, in units of the declared maximum, that gives no warning."""

WEIGHTS_PROOF = "docs/proofs/marginals.md"


@dataclass(frozen=True)
class WeightColumn:
    """Numeric column that contains the survey weights of the rows."""

    position: int
    maximum: float  # maximum weight, as declared by the user
    offset: float = 0.0  # number that is added to encoded values of the column

    def units(self, rows: Floats) -> Integers:
        """Return the weights of encoded rows as integers from 0 to `WEIGHT_UNITS`.

        The weight of a row depends only on this row and lies in this range for any number in the
        column.
        """
        shares = (rows[:, self.position] + self.offset) / self.maximum
        finite = np.where(np.isfinite(shares), shares, 0.0)
        return np.rint(np.clip(finite, 0, 1) * WEIGHT_UNITS).astype(np.int64)

    def totals(self, rows: Floats) -> Integers:
        """Return the sum of the weights and the sum of their squares, both in `WEIGHT_UNITS`.

        Squares are divided by `WEIGHT_UNITS` and rounded down, so that they lie in the same range
        as the weights.
        """
        units = self.units(rows)
        return np.array([units.sum(), (units * units // WEIGHT_UNITS).sum()], dtype=np.int64)


class WeightTotals(NamedTuple):
    """Released sums over the weights of all private rows."""

    # Sum of the weights, in units of the maximum weight. The sum lies between 1 and the number of
    # rows.
    total: float
    variance: float  # noise variance of `total`
    # Kish's effective sample size, i.e. the squared sum divided by the sum of squares.
    effective_rows: float


def warn_if_lowered(name: str, share: float) -> None:
    """Warn if many public weights of a column exceed the declared maximum.

    `share` is the fraction of public weights that are lowered to the maximum.
    """
    if share > MAX_LOWERED_SHARE:
        warn(
            f"{share:.0%} of the public weights in column {name} exceed the declared maximum. "
            "Weights above the maximum are lowered to it, so that weighted fractions are biased. "
            "Declare a larger maximum in bounds.",
            UncoveredBoundsWarning,
        )


def warn_of_mean_weight(name: str, mean: float) -> None:
    """Warn if the released mean weight, in units of the declared maximum, is close to it.

    Equal weights may be at the maximum. They have no effect on weighted fractions.
    """
    if mean > MAX_MEAN_WEIGHT:
        warn(
            f"The mean weight in column {name} is {mean:.0%} of the declared maximum, so many "
            "weights may have been lowered to the maximum. If weights differ much between rows, "
            "declare a larger maximum in bounds.",
            UncoveredBoundsWarning,
        )


def weighted_sensitivity(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity of summed integer weights, given the sensitivity of row counts."""
    absolute, squared = sensitivity
    return Sensitivity(WEIGHT_UNITS * absolute, WEIGHT_UNITS**2 * squared)


def release_weight_totals(
    count: Callable[[], Integers], n_private: int, ledger: Ledger
) -> WeightTotals:
    """Release the sums of the weights and of their squares, with a share of the budget."""
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
