"""Certificates: error bounds of one private draw, on the scored rows."""

from __future__ import annotations

import math
from dataclasses import dataclass


def excess_error(
    cover_size: int, n: int, epsilon: float, beta: float, sensitivity: int = 1
) -> float:
    """Return a bound on the excess empirical error of a private draw over the best of the cover.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses. Under a prior, the sum of the weights divided by the
        smallest one, rounded up (`Family.effective_size`).
    n : int
        Number (total weight) of the scored rows.
    epsilon : float
        Privacy budget.
    beta : float
        Probability with which the bound may fail.
    sensitivity : int, default=1
        Weight of one private row.

    Returns
    -------
    float
        ``2 * sensitivity * (ln(cover_size) + ln(1 / beta)) / (epsilon * n)``: with probability at
        least 1 - beta, the excess error of the drawn hypothesis on the rows is at most this.

    References
    ----------
    McSherry and Talwar (2007), Theorem 7; Beimel, Nissim and Stemmer (2015), Proposition A.1.

    Examples
    --------
    >>> round(excess_error(10**8, 10_000, epsilon=1.0, beta=0.05), 5)
    0.00428
    """
    return 2 * sensitivity * (math.log(cover_size) - math.log(beta)) / (float(epsilon) * n)


MAX_DRAW_ERRORS = (0.015, 0.015 / 3, 0.015 / 9)
"""Maximum excess errors of a single draw at which a search has at least 2, 3 and 4 draws."""


def n_rounds(cover_size: int, n: int, epsilon: float) -> int:
    """Return the number of draws among which a search of a cover divides its budget.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses of a round.
    n : int
        Number of the scored rows. For weighted rows, their total weight in units of the weight of
        a private row.
    epsilon : float
        Privacy budget of all rounds.

    Returns
    -------
    int
        2 if ``2 ln(cover_size) / (epsilon n)``, the excess error of a single draw, is at most
        0.015; 3 if it is at most a third of that; 4 if it is at most a ninth; otherwise 1. This is
        a heuristic that depends on public numbers only.

    Examples
    --------
    >>> n_rounds(60_000, n=20_000, epsilon=0.1)
    2
    """
    draw_error = 2 * math.log(cover_size) / (epsilon * n)
    return 1 + sum(draw_error <= max_error for max_error in MAX_DRAW_ERRORS)


@dataclass(frozen=True)
class Certificate:
    """Bound on the excess error of a private draw on the scored rows, from public numbers only.

    It holds for the scored rows and relative to the cover. The `guarantee_` of an estimator is for
    the population and relative to the whole class.

    Attributes
    ----------
    excess_error : float
        Upper bound on the error of the drawn hypothesis minus the error of the best member of the
        cover, as a fraction of the scored rows. At 1 or above it is no restriction.
    probability : float
        Probability with which the bound holds, over the randomness of the draw.
    effective_size : int
        The `cover_size` of `excess_error`: the inverse of the prior probability of the least likely
        hypothesis, rounded up.
    """

    excess_error: float
    probability: float
    effective_size: int

    def at(self, beta: float) -> float:
        """Return the bound on the excess error that holds with probability 1 - beta instead.

        The bound is proportional to ln(effective_size / beta), see `excess_error`.
        """
        log_size = math.log(self.effective_size)
        log_ratio = log_size - math.log1p(-self.probability)
        new_log_ratio = log_size - math.log(beta)
        return self.excess_error * new_log_ratio / log_ratio

    def __str__(self) -> str:
        return (
            f"error on the scored rows within {self.excess_error:.4f} of the best in the cover, "
            f"with probability {self.probability:g}"
        )
