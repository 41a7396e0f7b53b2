"""Changes of mechanism inputs observed between neighbours, and the resulting privacy loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import log_ndtr, logsumexp

from skpublicdp.accounting import Draw, Gaussian, Pure
from skpublicdp.audit.privacy_loss import PrivacyLosses
from skpublicdp.audit.recorder import MechanismCall
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Product
from skpublicdp.typing import Floats, Integers

NOISE_SCALE_TOLERANCE = Fraction(1, 1 << 20)
"""Accepted relative excess of noise, since noise scales are rounded up."""


class IncomparableError(Exception):
    """Raised if two families differ in more than their error counts."""


def error_range(family: Family, neighbour: Family) -> tuple[Integers, Integers]:
    """Return the minimum and maximum difference between any member's errors on two datasets.

    Parameters
    ----------
    family, neighbour : Family
        Two families of the same form, with the errors on two neighbouring datasets.

    Raises
    ------
    IncomparableError
        If the members or their prior weights differ.

    Examples
    --------
    >>> family, neighbour = (Leaf(np.array(errors)) for errors in ([0, 3, 1], [1, 1, 1]))
    >>> [int(end) for end in error_range(family, neighbour)]
    [-1, 2]
    """
    if type(family) is not type(neighbour) or family.batch != neighbour.batch:
        raise IncomparableError("families of different forms")
    match family, neighbour:
        case Leaf(errors), Leaf(neighbour_errors):
            if errors.shape != neighbour_errors.shape:
                raise IncomparableError(
                    f"{errors.shape[-1]} and {neighbour_errors.shape[-1]} members"
                )
            differences = errors - neighbour_errors
            return differences.min(axis=-1), differences.max(axis=-1)
        case Product(factors), Product(neighbour_factors):
            if len(factors) != len(neighbour_factors):
                raise IncomparableError(
                    f"products of {len(factors)} and {len(neighbour_factors)} factors"
                )
            lows, highs = _error_ranges(factors, neighbour_factors)
            return sum(lows), sum(highs)  # type: ignore
        case Choice(options, prior), Choice(neighbour_options, neighbour_prior):
            _check_same_weights(prior, neighbour_prior)
            low, high = error_range(options, neighbour_options)
            return low.min(axis=-1), high.max(axis=-1)
        case OneOf(options, prior), OneOf(neighbour_options, neighbour_prior):
            _check_same_weights(prior, neighbour_prior)
            if len(options) != len(neighbour_options):
                raise IncomparableError(
                    f"{len(options)} and {len(neighbour_options)} kinds of members"
                )
            lows, highs = _error_ranges(options, neighbour_options)
            return np.min(lows, axis=0), np.max(highs, axis=0)
        case Lazy(), Lazy():
            lows, highs = _error_ranges(family.chunks(), neighbour.chunks())
            return np.concatenate(lows), np.concatenate(highs)
    raise TypeError(f"unknown family {type(family).__name__}")


def _error_ranges(
    families: Iterable[Family], neighbours: Iterable[Family]
) -> tuple[list[Integers], list[Integers]]:
    """Return the lower and upper ends of `error_range` for each pair of families."""
    ranges = [error_range(*pair) for pair in zip(families, neighbours, strict=True)]
    return [low for low, _ in ranges], [high for _, high in ranges]


def _check_same_weights(prior: Any, neighbour_prior: Any) -> None:
    """Raise IncomparableError unless two priors are equal; None represents equal weights."""
    if (prior is None) != (neighbour_prior is None) or (
        prior is not None and list(prior) != list(neighbour_prior)
    ):
        raise IncomparableError("members of different prior weights")


def log_partition_function(family: Family, rate: float) -> Floats:
    """Return ln Σ prior e^(-rate errors) over the members, for each family of the batch.

    The result is the log normaliser of the exponential mechanism, which draws a member with
    probability proportional to prior e^(-rate errors). The rate is ε / (2 sensitivity).

    Examples
    --------
    >>> float(log_partition_function(Leaf(np.array([0, 2])), 0.5).round(4))
    0.3133
    """
    match family:
        case Leaf(errors):
            return np.asarray(logsumexp(-rate * errors, axis=-1))
        case Product(factors):
            return np.asarray(sum(log_partition_function(factor, rate) for factor in factors))
        case Choice(options, prior):
            return np.asarray(
                logsumexp(log_partition_function(options, rate), axis=-1, b=_weights(prior))
            )
        case OneOf(options, prior):
            masses = np.stack([log_partition_function(option, rate) for option in options], axis=-1)
            return np.asarray(logsumexp(masses, axis=-1, b=_weights(prior)))
        case Lazy():
            return np.concatenate(
                [log_partition_function(chunk, rate) for chunk in family.chunks()]
            )
    raise TypeError(f"unknown family {type(family).__name__}")


def _weights(prior: Any) -> Any:
    """Return prior weights as floats for `logsumexp`, where None represents equal weights."""
    return None if prior is None else np.asarray(prior, dtype=np.float64)


def member_errors(family: Family, path: Any) -> int:
    """Return the error count of one member, given its path in the tree of families.

    The path mirrors the structure of the family: an index for a `Leaf`, a tuple of the factors'
    paths for a `Product`, and (option, path within the option) for a choice.

    Examples
    --------
    >>> member_errors(Product([Leaf(np.array([1, 2])), Leaf(np.array([3]))]), (1, 0))
    5
    """
    match family:
        case Leaf(errors):
            return int(errors[path])
        case Product(factors):
            return sum(member_errors(*pair) for pair in zip(factors, path, strict=True))
        case Choice(options):
            return member_errors(options.at((path[0],)), path[1])
        case OneOf(options):
            return member_errors(options[path[0]], path[1])
    raise TypeError(f"unknown family {type(family).__name__}")


def log_noise(call: MechanismCall, noise: Integers) -> float:
    """Return the log probability of discrete Laplace or rounded Gaussian noise, up to a constant.

    Rounded Gaussian noise equals k with probability Φ((k + 1/2) / σ) - Φ((k - 1/2) / σ).
    """
    assert call.spread is not None
    spread = float(call.spread)
    if not call.gaussian:
        distance = float(np.abs(noise).sum())
        return -distance / spread
    sigma = math.sqrt(spread)
    # by symmetry at -|k|, since differences of Φ are only accurate in the lower tail
    distances = np.abs(noise.astype(np.float64))
    log_upper = log_ndtr((0.5 - distances) / sigma)
    log_lower = log_ndtr((-0.5 - distances) / sigma)
    log_shares = np.log(-np.expm1(log_lower - log_upper))  # of the upper tails
    return float((log_upper + log_shares).sum())


def add_loss(losses: PrivacyLosses, call: MechanismCall, neighbour_call: MechanismCall) -> float:
    """Add the privacy loss of one mechanism call to `losses`, in place.

    Parameters
    ----------
    losses : PrivacyLosses
        Losses of the earlier calls.
    call, neighbour_call : MechanismCall
        The same call on two neighbouring datasets.

    Returns
    -------
    float
        Ratio of the largest loss to the loss stated by the ledger entry; at most 1 if the entry is
        correct. For Gaussian noise, the result is the ratio of the μ² values. Random choices have
        no privacy loss.

    Raises
    ------
    IncomparableError
        If the two inputs have different forms.
    """
    if call.kind == "draw":
        return _add_draw_loss(losses, call, neighbour_call)
    if call.kind != "noise":
        return 0.0
    assert call.spread is not None
    if call.exact_input.shape != neighbour_call.exact_input.shape:
        raise IncomparableError(
            f"noise on {call.exact_input.shape} and on {neighbour_call.exact_input.shape} integers"
        )
    differences = (call.exact_input - neighbour_call.exact_input).ravel()
    changes = [abs(difference) for difference in differences.tolist()]  # exact Python integers
    spread = float(call.spread)
    if call.gaussian:
        mu_squared = sum(change * change for change in changes) / spread
        losses.mu_squared += mu_squared
        return _ratio(mu_squared, getattr(call.event, "mu_squared", 0))
    max_loss = sum(changes) / spread
    if max_loss:
        losses.ends.append((-max_loss, max_loss))
    return _ratio(max_loss, getattr(call.event, "epsilon", 0))


def _add_draw_loss(
    losses: PrivacyLosses, call: MechanismCall, neighbour_call: MechanismCall
) -> float:
    """Add the privacy loss of an exponential mechanism to `losses`, and return its ratio.

    The loss of a member is ln(Z' / Z) - rate (errors - errors'), with the partition functions Z and
    Z' of the two families. The extreme losses follow from the range of the difference between the
    errors.
    """
    assert call.epsilon is not None
    low, high = (int(end) for end in error_range(call.exact_input, neighbour_call.exact_input))
    rate = float(call.epsilon / (2 * Fraction(call.sensitivity)))
    if low == high:
        return 0.0
    log_ratio = float(
        log_partition_function(neighbour_call.exact_input, rate)
        - log_partition_function(call.exact_input, rate)
    )
    losses.ends.append((log_ratio - rate * high, log_ratio - rate * low))
    return _ratio(rate * (high - low), getattr(call.event, "epsilon", 0))


def _ratio(loss: float, paid: Any) -> float:
    """Return a loss divided by the loss that a ledger entry states; infinite without an entry."""
    if not loss:
        return 0.0
    return loss / float(paid) if paid else math.inf


def entry_mismatch(call: MechanismCall) -> str:
    """Return a description of any mismatch between a call and its ledger entry, or ""."""
    if call.kind not in ("draw", "noise"):
        return ""
    if call.event is None:
        return "has no ledger entry"
    if call.kind == "draw":
        if not isinstance(call.event, Draw):
            return f"is a draw, but its ledger entry is {call.event}"
        paid, cost, tolerance = call.event.epsilon, call.epsilon, Fraction(0)  # draws are exact
    else:
        if call.exact_input.dtype.kind != "i":
            return "adds noise to numbers that are not integers"
        if isinstance(call.event, Gaussian):
            paid = call.event.mu_squared
        elif isinstance(call.event, Pure):
            paid = call.event.epsilon
        else:
            return f"adds noise, but its ledger entry is {call.event}"
        cost, tolerance = call.cost, NOISE_SCALE_TOLERANCE
    assert cost is not None
    if cost > paid:
        return f"costs {float(cost):g}, but its ledger entry states {float(paid):g}"
    if cost < paid * (1 - tolerance):
        return f"costs {float(cost):g}, less than the {float(paid):g} of its ledger entry"
    return ""
