"""What one private draw promises."""

from __future__ import annotations

import math
from dataclasses import dataclass


def excess_error(
    cover_size: int, n: int, epsilon: float, beta: float, sensitivity: int = 1
) -> float:
    """Bound the excess empirical error of a private draw over the best member of the cover.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses. Under a prior, the sum of the weights over the least
        one, rounded up (`Family.effective_size`).
    n : int
        Number (total weight) of the rows scored.
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
        least 1 - beta the drawn hypothesis errs on at most this fraction more of the rows.

    References
    ----------
    McSherry and Talwar (2007), Theorem 7; Beimel, Nissim and Stemmer (2015), Proposition A.1.

    Examples
    --------
    >>> round(excess_error(10**8, 10_000, epsilon=1.0, beta=0.05), 5)
    0.00428
    """
    return 2 * sensitivity * (math.log(cover_size) - math.log(beta)) / (float(epsilon) * n)


def n_rounds(cover_size: int, n: int, epsilon: float) -> int:
    """Count the draws that a search can afford to share its budget.

    Parameters
    ----------
    cover_size : int
        Number of equally likely hypotheses of a round.
    n : int
        Number of the rows scored; of weighted ones, their weight in units of a private row's.
    epsilon : float
        Privacy budget of all rounds.

    Returns
    -------
    int
        2 where ``2 ln(cover_size) / (epsilon n)``, the price of a single draw, is at most 0.015; 3
        where it is at most a third of that and 4 where it is at most a ninth; otherwise 1. A rule
        of thumb from public numbers.

    Examples
    --------
    >>> n_rounds(60_000, n=20_000, epsilon=0.1)
    2
    """
    price = 2 * math.log(cover_size) / (epsilon * n)
    return 1 + sum(price <= highest for highest in (0.015, 0.015 / 3, 0.015 / 9))


@dataclass(frozen=True)
class Certificate:
    """What the draw promises of the rows that it scored, from public numbers only.

    It says nothing of the population and nothing of rules outside the cover: the `guarantee_` of an
    estimator does.

    Attributes
    ----------
    excess_error : float
        Bound on the fraction of the scored rows on which the drawn hypothesis errs more than the
        best member of the cover. At 1 or above it promises nothing.
    probability : float
        Probability with which it holds, over the randomness of the draw.
    effective_size : int
        Size of the cover as the bound counts it: how many equally likely hypotheses would make
        each as rare as the least likely one is. The `cover_size` of `excess_error`.
    """

    excess_error: float
    probability: float
    effective_size: int

    def at(self, beta: float) -> float:
        """Return the bound that the same draw keeps with probability 1 - beta."""
        size = math.log(self.effective_size)
        mine, other = size - math.log1p(-self.probability), size - math.log(beta)
        return self.excess_error * other / mine

    def __str__(self) -> str:
        return (
            f"error on the scored rows within {self.excess_error:.4f} of the best in the cover, "
            f"with probability {self.probability:g}"
        )
