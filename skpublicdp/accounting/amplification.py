"""What subsampling does to a budget, with every rounding against us.

A fixed-size subsample without replacement of a share q of the rows, the rest of them unseen, turns
(ε, δ)-differential privacy into (ln(1 + q (e^ε - 1)), q δ) when one row is replaced (Balle, Barthe
and Gaboardi 2018, Theorem 9).
"""

from __future__ import annotations

from decimal import localcontext
from fractions import Fraction

from skpublicdp.accounting.decimals import (
    float_above,
    float_below,
    non_negative,
    precise,
    relative_error,
    to_decimal,
)
from skpublicdp.accounting.receipts import exact_fraction


def subsampled_epsilon(epsilon: Fraction, rate: Fraction) -> float:
    """Return the ε of an ε-differentially private algorithm on a subsample.

    Parameters
    ----------
    epsilon : Fraction
        Budget of the algorithm, non-negative.
    rate : Fraction
        Share of the rows that it is run on, in (0, 1]: a uniform subset of a fixed size.

    Returns
    -------
    float
        ln(1 + q (e^ε - 1)), rounded up.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Theorem 9.

    Examples
    --------
    >>> subsampled_epsilon(1, Fraction(1, 10))
    0.1585...
    """
    epsilon, rate = non_negative("epsilon", epsilon), _rate(rate)
    with localcontext(precise(epsilon, rate)):
        grown = to_decimal(rate) * (to_decimal(epsilon).exp() - 1)
        return float_above((1 + grown).ln() * (1 + relative_error()))


def base_epsilon(epsilon: Fraction, rate: Fraction) -> float:
    """Return the largest ε with which an algorithm may be run on a subsample.

    Parameters
    ----------
    epsilon : Fraction
        Budget of the whole, non-negative.
    rate : Fraction
        Share of the rows in the subsample, in (0, 1].

    Returns
    -------
    float
        The inverse of `subsampled_epsilon`, ln(1 + (e^ε - 1) / q), rounded down.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Theorem 9.

    Examples
    --------
    >>> base_epsilon(0.1, Fraction(1, 10))
    0.7186...
    """
    epsilon, rate = non_negative("epsilon", epsilon), _rate(rate)
    with localcontext(precise(epsilon, rate)):
        grown = (to_decimal(epsilon).exp() - 1) / to_decimal(rate)
        return float_below((1 + grown).ln() * (1 - relative_error()))


def _rate(rate: Fraction) -> Fraction:
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be above 0 and at most 1; got {rate}.")
    return exact_fraction(rate)
