"""Observed sensitivity of mechanism calls between neighbours, and their privacy loss."""

from __future__ import annotations

import math
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
"""Relative tolerance of the noise scale, for rounding."""


class IncomparableError(Exception):
    """Raised if two families differ in more than their error counts."""


def error_range(one: Family, other: Family) -> tuple[Integers, Integers]:
    """Return the smallest and the largest change of any member's errors.

    Raises
    ------
    IncomparableError
        If the members or their prior weights differ.

    Examples
    --------
    >>> one, other = (Leaf(np.array(errors)) for errors in ([0, 3, 1], [1, 1, 1]))
    >>> [int(end) for end in error_range(one, other)]
    [-1, 2]
    """
    if type(one) is not type(other) or one.batch != other.batch:
        raise IncomparableError("families of different forms")
    match one, other:
        case Leaf(mine), Leaf(yours):
            if mine.shape != yours.shape:
                raise IncomparableError(f"{mine.shape[-1]} and {yours.shape[-1]} members")
            moved = mine - yours
            return moved.min(axis=-1), moved.max(axis=-1)
        case Product(factors), Product(others):
            if len(factors) != len(others):
                raise IncomparableError(f"products of {len(factors)} and {len(others)} factors")
            ends = [error_range(*both) for both in zip(factors, others, strict=True)]
            return sum(low for low, _ in ends), sum(high for _, high in ends)  # type: ignore
        case Choice(mine, prior), Choice(yours, also):
            _check_weights(prior, also)
            low, high = error_range(mine, yours)
            return low.min(axis=-1), high.max(axis=-1)
        case OneOf(mine, prior), OneOf(yours, also):
            _check_weights(prior, also)
            if len(mine) != len(yours):
                raise IncomparableError(f"{len(mine)} and {len(yours)} kinds of members")
            ends = [error_range(*both) for both in zip(mine, yours, strict=True)]
            return (
                np.min([low for low, _ in ends], axis=0),
                np.max([high for _, high in ends], axis=0),
            )
        case Lazy(), Lazy():
            ends = [error_range(*both) for both in zip(one.chunks(), other.chunks(), strict=True)]
            return np.concatenate([low for low, _ in ends]), np.concatenate([h for _, h in ends])
    raise TypeError(f"unknown family {type(one).__name__}")


def _check_weights(one: Any, other: Any) -> None:
    if (one is None) != (other is None) or (one is not None and list(one) != list(other)):
        raise IncomparableError("members of different prior weights")


def log_partition_function(family: Family, rate: float) -> Floats:
    """Return ln Σ prior e^(-rate errors) over the members, of the whole batch.

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
    return None if prior is None else np.asarray(prior, dtype=np.float64)


def member_errors(family: Family, path: Any) -> int:
    """Return the error count of one member.

    Examples
    --------
    >>> member_errors(Product([Leaf(np.array([1, 2])), Leaf(np.array([3]))]), (1, 0))
    5
    """
    match family:
        case Leaf(errors):
            return int(errors[path])
        case Product(factors):
            return sum(member_errors(*both) for both in zip(factors, path, strict=True))
        case Choice(options):
            return member_errors(options.at((path[0],)), path[1])
        case OneOf(options):
            return member_errors(options[path[0]], path[1])
    raise TypeError(f"unknown family {type(family).__name__}")


def log_noise(call: MechanismCall, noise: Integers) -> float:
    """Return the log probability of noise, up to a constant.

    Discrete Laplace noise, or Gaussian noise that is rounded.
    """
    assert call.spread is not None
    spread = float(call.spread)
    if not call.gaussian:
        return -float(np.abs(noise).sum()) / spread
    far = np.abs(noise.astype(np.float64))  # in the tail a difference of Φ is exact
    ends = [log_ndtr((half - far) / math.sqrt(spread)) for half in (0.5, -0.5)]
    return float((ends[0] + np.log(-np.expm1(ends[1] - ends[0]))).sum())


def add_loss(losses: PrivacyLosses, mine: MechanismCall, yours: MechanismCall) -> float:
    """Add what one use loses, whose answers two data sets give, and return the share it may.

    Parameters
    ----------
    losses : PrivacyLosses
        Added to.
    mine, yours : Use
        What was asked of the ledger.

    Returns
    -------
    float
        How much of the movement that is paid for there was; no more than 1 if all is well.
    """
    if mine.kind == "draw":
        assert mine.epsilon is not None
        low, high = (int(end) for end in error_range(mine.exact_input, yours.exact_input))
        rate = float(mine.epsilon / (2 * Fraction(mine.sensitivity)))
        if low == high:
            return 0.0
        turn = float(
            log_partition_function(yours.exact_input, rate)
            - log_partition_function(mine.exact_input, rate)
        )
        losses.ends.append((turn - rate * high, turn - rate * low))
        return _share(rate * (high - low), getattr(mine.event, "epsilon", 0))
    if mine.kind != "noise":
        return 0.0
    assert mine.spread is not None
    if mine.exact_input.shape != yours.exact_input.shape:
        raise IncomparableError(
            f"noise on {mine.exact_input.shape} and on {yours.exact_input.shape} integers"
        )
    moved = [abs(step) for step in (mine.exact_input - yours.exact_input).ravel().tolist()]
    spread = float(mine.spread)
    if mine.gaussian:
        squared = sum(step * step for step in moved) / spread
        losses.mu_squared += squared
        return _share(squared, getattr(mine.event, "mu_squared", 0))
    most = sum(moved) / spread
    if most:
        losses.ends.append((-most, most))
    return _share(most, getattr(mine.event, "epsilon", 0))


def _share(moved: float, paid: Any) -> float:
    if not moved:
        return 0.0
    return moved / float(paid) if paid else math.inf


def faults_of_entry(call: MechanismCall) -> str:
    """Return the mismatch between a ledger entry and its mechanism call, or ""."""
    if call.kind not in ("draw", "noise"):
        return ""
    if call.event is None:
        return "was done without an entry"
    if call.kind == "draw":
        if not isinstance(call.event, Draw):
            return f"was a draw, and its entry is {call.event}"
        paid, done, more = call.event.epsilon, call.epsilon, Fraction(0)
    else:
        if call.exact_input.dtype.kind != "i":
            return "was noise on numbers that are not integers"
        if isinstance(call.event, Gaussian):
            paid = call.event.mu_squared
        elif isinstance(call.event, Pure):
            paid = call.event.epsilon
        else:
            return f"was noise, and its entry is {call.event}"
        done, more = call.cost, NOISE_SCALE_TOLERANCE
    assert done is not None
    if done > paid:
        return f"cost {float(done):g}, and its entry says {float(paid):g}"
    if done < paid * (1 - more):
        return f"used {float(done):g} of the {float(paid):g} of its entry"
    return ""
