"""Group privacy: sensitivities and guarantees for persons with several rows."""

from __future__ import annotations

import math
from fractions import Fraction

from skpublicdp.accounting.events import Sensitivity


def group_sensitivity(sensitivity: Sensitivity, n_rows: int) -> Sensitivity:
    """Return the sensitivity for replacing `n_rows` rows, from the sensitivity for one row.

    In the worst case all changes add up in the same integer.
    """
    return Sensitivity(n_rows * sensitivity.absolute, n_rows * n_rows * sensitivity.squared)


def row_level_guarantee(
    epsilon: Fraction, delta: Fraction, n_rows: int
) -> tuple[Fraction, Fraction]:
    """Return a row-level (ε, δ) that implies the given (ε, δ) for persons of `n_rows` rows.

    References
    ----------
    Dwork and Roth (2014), Theorem 2.2; with δ, docs/proofs/budgets.md.
    """
    if n_rows == 1:
        return epsilon, delta
    # δ_person <= n_rows e^ε δ_row, since e^ε bounds each of the n_rows factors. The last factor
    # covers the rounding error of exp, so that δ is rounded down
    return epsilon / n_rows, delta / n_rows * Fraction(math.exp(-float(epsilon)) * (1 - 2**-40))
