"""Warnings for guarantees that protect too little: a large ε or a large δ."""

from __future__ import annotations

import math
from fractions import Fraction

from skpublicdp.accounting import Event, plan_delta
from skpublicdp.exceptions import LargeDeltaWarning, LargeEpsilonWarning, warn

LARGE_DELTA = 0.1
"""Largest product δ · n_private for which no warning is given."""

LARGE_EPSILON = 10
"""Largest ε of a pure guarantee for which no warning is given.

At ε = 10, an attacker who knows all other rows and considers two values of the last one equally
likely is right with probability at most 1 / (1 + e^-10) = 99.995%. A larger ε is tier 3 of
Ponomareva et al. (2023), How to DP-fy ML. The same probability is the limit for plans with δ > 0.
"""


def warn_if_delta_is_large(delta: Fraction, n_private: int) -> None:
    """Warn if δ is not far below one over the number of private rows."""
    if delta * n_private > LARGE_DELTA:
        warn(
            f"delta = {float(delta):g} is large for {n_private} private rows: it should "
            "be far below one over their number; lower delta.",
            LargeDeltaWarning,
        )


def warn_if_epsilon_is_large(plan: Event, epsilon: Fraction, delta: Fraction) -> None:
    """Warn if a plan within (ε, δ) lets an attacker identify a row almost always.

    The success probability of the best attack on two equally likely rows is (1 + δ(0)) / 2.
    """
    max_delta_at_zero = math.tanh(LARGE_EPSILON / 2)  # 2 / (1 + e^-LARGE_EPSILON) - 1
    if epsilon <= LARGE_EPSILON and delta <= LARGE_DELTA:
        return  # the guarantee alone implies a smaller probability
    if plan_delta(plan, Fraction(0)) > max_delta_at_zero:
        warn(
            f"epsilon = {float(epsilon):g} protects almost nothing: an attacker who "
            "knows all other rows and considers two values of the last one equally likely may "
            "be right more than 99.99% of the time; lower epsilon, as about 1 is usual.",
            LargeEpsilonWarning,
        )
