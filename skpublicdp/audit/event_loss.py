"""Lower bound on the privacy loss of an event, deliberately independent of `accounting`."""

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
"""Maximum number of combinations of options to evaluate."""


def smallest_losses(event: Event, pure: bool) -> list[PrivacyLosses]:
    """Return the privacy losses that mechanisms with a given event can attain.

    There is one result for each combination of options, since an `Either` event states that one of
    several mechanisms is used.

    Parameters
    ----------
    event : Event
        Privacy event of a receipt.
    pure : bool
        Whether the claim has δ = 0. In this case, a draw may lose its entire ε. In a composition
        with δ above 0, the loss of a draw lies between -ε/2 and ε/2.

    Examples
    --------
    >>> [losses.epsilon(0) for losses in smallest_losses(Steps((Draw(1), Pure(2))), pure=True)]
    [3.0]
    """
    match event:
        case Pure(epsilon) | Approximate(epsilon, _):
            return [PrivacyLosses([(-float(epsilon), float(epsilon))] if epsilon else [])]
        case Draw(epsilon):
            max_loss = float(epsilon) if pure else float(epsilon) / 2
            return [PrivacyLosses([(-max_loss, max_loss)])]
        case Gaussian(mu_squared):
            return [PrivacyLosses([], float(mu_squared))]
        case Subsampled(rate, base, _):
            return [_subsampled(losses, rate) for losses in smallest_losses(base, pure=True)]
        case Either(options):
            cases = [losses for option in options for losses in smallest_losses(option, pure)]
            return cases[:MAX_OPTION_CASES]
        case Steps(parts):
            combinations = itertools.product(*(smallest_losses(part, pure) for part in parts))
            return [
                PrivacyLosses(
                    [end for losses in steps for end in losses.ends],
                    sum(losses.mu_squared for losses in steps),
                )
                for steps in itertools.islice(combinations, MAX_OPTION_CASES)
            ]
    raise TypeError(f"unknown event {type(event).__name__}")


def _subsampled(losses: PrivacyLosses, rate: object) -> PrivacyLosses:
    """Return the losses of a mechanism when each row is included with probability `rate`."""
    epsilons = [_amplified(rate, high) for _, high in losses.ends]
    mu_squared = float(rate) ** 2 * losses.mu_squared  # type: ignore[arg-type]
    return PrivacyLosses([(-epsilon, epsilon) for epsilon in epsilons], mu_squared)


def _amplified(rate: object, epsilon: float) -> float:
    """Return the ε amplified by subsampling (Balle, Barthe and Gaboardi 2018, Theorem 9)."""
    return math.log1p(float(rate) * math.expm1(epsilon))  # type: ignore[arg-type]
