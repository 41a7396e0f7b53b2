"""Certificates: error bounds of a single private draw on the scored rows."""

from __future__ import annotations

import math
from dataclasses import dataclass


def excess_error(
    cover_size: int, n: int, epsilon: float, beta: float, sensitivity: int = 1
) -> float:
    """Return a bound on a private draw's excess empirical error over the best member of the cover.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses. If there is a prior, this is the sum of the weights
        divided by the smallest weight, rounded up (`Family.effective_size`).
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
        ``2 * sensitivity * (ln(cover_size) + ln(1 / beta)) / (epsilon * n)``. With probability at
        least 1 - beta, the excess error of the drawn hypothesis on the rows does not exceed this
        value.

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
"""Maximum excess errors of a single draw for which a search has at least 2, 3 and 4 draws."""


def n_rounds(cover_size: int, n: int, epsilon: float) -> int:
    """Return the number of draws over which a cover search divides its privacy budget.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses in a round.
    n : int
        Number of scored rows. For weighted rows, this is their total weight in units of a private
        row's weight.
    epsilon : float
        Privacy budget of all rounds together.

    Returns
    -------
    int
        The result is 2 if ``2 ln(cover_size) / (epsilon n)``, the excess error of a single draw, is
        at most 0.015. It is 3 if this error is at most a third of 0.015, 4 if it is at most a
        ninth, and 1 otherwise. The rule is a heuristic that depends only on public numbers.

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

    The bound applies to the scored rows and is relative to the cover. In contrast, the `guarantee_`
    of an estimator applies to the population and is relative to the entire class.

    Attributes
    ----------
    excess_error : float
        Upper bound on the error of the drawn hypothesis minus the error of the best member of the
        cover, as a fraction of the scored rows. A bound of 1 or more is vacuous.
    probability : float
        Probability, over the randomness of the draw, with which the bound holds.
    effective_size : int
        The `cover_size` of `excess_error`: the inverse prior probability of the least likely
        hypothesis, rounded up.
    """

    excess_error: float
    probability: float
    effective_size: int

    def at(self, beta: float) -> float:
        """Return the excess error bound that instead holds with probability 1 - beta.

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
