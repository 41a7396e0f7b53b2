"""Lower bound on the privacy loss of a receipt's event, independent of `accounting` on purpose."""

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
from skpublicdp.audit.privacy_loss import PrivacyLosses

MAX_OPTION_CASES = 64
"""Maximum number of combinations of options that are evaluated."""


def smallest_losses(event: Event, pure: bool) -> list[PrivacyLosses]:
    """Return the losses of mechanisms with this event, one for each combination of its options.

    Parameters
    ----------
    event : Event
        Of a receipt.
    pure : bool
        Whether ε is asked for at δ = 0, where a draw may lose all of its ε; in a sum at δ above 0
        it loses most with its ends at half of it.

    Returns
    -------
    list of PrivacyLosses
        What is claimed must be no less than each.

    Examples
    --------
    >>> [each.epsilon(0) for each in smallest_losses(Steps((Draw(1), Pure(2))), pure=True)]
    [3.0]
    """
    match event:
        case Pure(epsilon) | Approximate(epsilon, _):
            return [PrivacyLosses([(-float(epsilon), float(epsilon))] if epsilon else [])]
        case Draw(epsilon):
            most = float(epsilon) if pure else float(epsilon) / 2
            return [PrivacyLosses([(-most, most)])]
        case Gaussian(mu_squared):
            return [PrivacyLosses([], float(mu_squared))]
        case Subsampled(rate, base, _):
            return [
                PrivacyLosses(
                    [(-_amplified(rate, high), _amplified(rate, high)) for _, high in each.ends],
                    float(rate) ** 2 * each.mu_squared,
                )
                for each in smallest_losses(base, pure=True)
            ]
        case Either(options):
            return [each for option in options for each in smallest_losses(option, pure)][
                :MAX_OPTION_CASES
            ]
        case Steps(parts):
            ways = itertools.product(*(smallest_losses(part, pure) for part in parts))
            return [
                PrivacyLosses(
                    [end for each in way for end in each.ends],
                    sum(each.mu_squared for each in way),
                )
                for way in itertools.islice(ways, MAX_OPTION_CASES)
            ]
    raise TypeError(f"unknown event {type(event).__name__}")


def _amplified(rate: object, epsilon: float) -> float:
    """Return the ε amplified by subsampling (Balle, Barthe and Gaboardi 2018, Theorem 9)."""
    return math.log1p(float(rate) * math.expm1(epsilon))  # type: ignore[arg-type]
