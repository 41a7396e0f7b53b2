"""What a receipt's event loses at least, by the formulas of `losses` alone."""

from __future__ import annotations

import itertools
import math

from skpublicdp.accounting import (
    Approximate,
    Draw,
    Either,
    Event,
    Gaussian,
    Pure,
    Steps,
    Subsampled,
)
from skpublicdp.audit.losses import Losses

MOST_CASES = 64
"""Combinations of options that are looked at."""


def least_losses(event: Event, pure: bool) -> list[Losses]:
    """Return losses that mechanisms with this event have, one for each way its options fall out.

    Parameters
    ----------
    event : Event
        Of a receipt.
    pure : bool
        Whether ε is asked for at δ = 0, where a draw may lose all of its ε; in a sum at δ above 0
        it loses most with its ends at half of it.

    Returns
    -------
    list of Losses
        What is claimed must be no less than each.

    Examples
    --------
    >>> [each.epsilon(0) for each in least_losses(Steps((Draw(1), Pure(2))), pure=True)]
    [3.0]
    """
    match event:
        case Pure(epsilon) | Approximate(epsilon, _):
            return [Losses([(-float(epsilon), float(epsilon))] if epsilon else [])]
        case Draw(epsilon):
            most = float(epsilon) if pure else float(epsilon) / 2
            return [Losses([(-most, most)])]
        case Gaussian(mu_squared):
            return [Losses([], float(mu_squared))]
        case Subsampled(rate, base, _):
            return [
                Losses(
                    [(-_amplified(rate, high), _amplified(rate, high)) for _, high in each.ends],
                    float(rate) ** 2 * each.mu_squared,
                )
                for each in least_losses(base, pure=True)
            ]
        case Either(options):
            return [each for option in options for each in least_losses(option, pure)][:MOST_CASES]
        case Steps(parts):
            ways = itertools.product(*(least_losses(part, pure) for part in parts))
            return [
                Losses(
                    [end for each in way for end in each.ends],
                    sum(each.mu_squared for each in way),
                )
                for way in itertools.islice(ways, MOST_CASES)
            ]
    raise TypeError(f"unknown event {type(event).__name__}")


def _amplified(rate: object, epsilon: float) -> float:
    """Return the ε on a random subset (Balle, Barthe and Gaboardi 2018, Theorem 9)."""
    return math.log1p(float(rate) * math.expm1(epsilon))  # type: ignore[arg-type]
