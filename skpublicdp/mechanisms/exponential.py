"""The exponential mechanism on error counts, exactly; the proof is docs/proofs/selection.md.

McSherry and Talwar (2007); Beimel, Nissim and Stemmer (2015), Algorithm 5. A member h is drawn
with probability proportional to ``prior(h) * exp(-epsilon * errors(h) / (2 * sensitivity))``.

Sums of weights are computed bottom-up over the family, then options are drawn top-down. Both are
written once and run on two arithmetics: floats with a proved error bound, which decide nearly
every draw, and integers in fixed point, whose precision grows until the draw is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from skpublicdp.mechanisms.exact_exp import FixedPowers, FloatPowers
from skpublicdp.mechanisms.families import (
    Choice,
    Family,
    Lazy,
    Leaf,
    OneOf,
    Path,
    Prior,
    Product,
)
from skpublicdp.mechanisms.randomness import RandomBits, uniform_below

Offsets = NDArray[np.int64]
V = TypeVar("V")


def draw(family: Family, epsilon: Fraction, sensitivity: int, bits: RandomBits) -> Path:
    """Draw one member of a family by the exponential mechanism.

    Parameters
    ----------
    family : Family
        Members with integer error counts; batch shape ``()``. The expression, less its error
        counts, must not depend on the private rows.
    epsilon : Fraction
        Privacy budget, positive.
    sensitivity : int
        Bound on how much replacing one private row changes any member's error count.
    bits : RandomBits
        Source of randomness.

    Returns
    -------
    Path
        Name of the drawn member.

    Notes
    -----
    The draw is ε-DP with respect to the rows behind the counts (McSherry and Talwar 2007, Theorem
    6): its distribution is exactly the one above, no outcome being decided by a rounded number.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> family = Leaf(np.array([40, 0, 40]))
    >>> draw(family, Fraction(1), 1, SeededBits(0))
    1
    """
    if family.batch:
        raise ValueError("draw takes one family, not a batch of them")
    return _descend(family, _rate(epsilon, sensitivity), bits)


def probabilities(
    family: Family, epsilon: Fraction, sensitivity: int, precision: int = 256
) -> dict[Path, tuple[Fraction, Fraction]]:
    """Bound the exact probability of every member, for families small enough to list.

    Parameters
    ----------
    family, epsilon, sensitivity
        As in `draw`.
    precision : int
        Binary digits of the computation.

    Returns
    -------
    dict of path to (Fraction, Fraction)
        Rigorous lower and upper bounds.

    Examples
    --------
    >>> bounds = probabilities(Leaf(np.array([0, 2])), Fraction(1), 1)
    >>> float(bounds[0][0])  # 1 / (1 + 1/e)
    0.7310585786300049
    """
    arithmetic = _FixedArithmetic(_rate(epsilon, sensitivity), precision)
    offset, (total_lower, total_upper) = _mass(family, arithmetic)
    bounds = {}
    known: dict[tuple[int, int], tuple[Fraction, Fraction]] = {}  # many members are alike
    for path, errors, prior in family.members():
        if (errors, prior) not in known:
            lower, upper = arithmetic.powers(errors - int(offset))
            known[errors, prior] = (
                Fraction(prior * lower, int(total_upper)),
                Fraction(prior * upper, int(total_lower)),
            )
        bounds[path] = known[errors, prior]
    return bounds


class _UndecidedError(Exception):
    """The precision at hand does not settle the draw."""


class _Arithmetic(Protocol[V]):
    """Arrays `V` of non-negative numbers known within proved bounds."""

    bits: int
    """Random bits to compare the values with."""

    def weights(self, exponents: Offsets) -> V:
        """Return q^exponents."""

    def times(self, left: V, right: V) -> V:
        """Multiply elementwise."""

    def scaled(self, values: V, factors: Prior) -> V:
        """Multiply the last axis by integers."""

    def total(self, values: V) -> V:
        """Add up the last axis."""

    def stacked(self, values: list[V], axis: int) -> V:
        """Stack values along a new axis (-1) or join them along the first (0)."""

    def pick(self, values: V, uniform: Fraction, width: Fraction) -> int:
        """Return i with c_{i-1} <= u c <= c_i surely, for any u in [uniform, uniform + width]."""


def _mass(family: Family, arithmetic: _Arithmetic[V]) -> tuple[Offsets, V]:
    """Return (m, S) with Z = q^m S and S >= 1, over the whole batch."""
    match family:
        case Leaf(errors):
            offset = errors.min(axis=-1)
            return offset, arithmetic.total(arithmetic.weights(errors - offset[..., None]))
        case Product(factors):
            offset, mass = _mass(factors[0], arithmetic)
            for factor in factors[1:]:
                factor_offset, factor_mass = _mass(factor, arithmetic)
                offset = offset + factor_offset
                mass = arithmetic.times(mass, factor_mass)
            return offset, mass
        case Choice() | OneOf():
            offset, masses = _option_masses(family, arithmetic)
            return offset, arithmetic.total(masses)
        case Lazy():
            parts = [_mass(chunk, arithmetic) for chunk in family.chunks()]
            offset = np.concatenate([part[0] for part in parts])
            return offset, arithmetic.stacked([part[1] for part in parts], axis=0)
    raise TypeError(f"unknown family {type(family).__name__}")


def _option_masses(family: Choice | OneOf, arithmetic: _Arithmetic[V]) -> tuple[Offsets, V]:
    """Return (m, masses of the options relative to q^m, priors included)."""
    if isinstance(family, Choice):
        offsets, masses = _mass(family.options, arithmetic)
    else:
        parts = [_mass(option, arithmetic) for option in family.options]
        offsets = np.stack([part[0] for part in parts], axis=-1)
        masses = arithmetic.stacked([part[1] for part in parts], axis=-1)
    if family.prior is not None:  # before the weights, so that no underflow is blown up again
        masses = arithmetic.scaled(masses, family.prior)
    offset = offsets.min(axis=-1)
    return offset, arithmetic.times(masses, arithmetic.weights(offsets - offset[..., None]))


def _descend(family: Family, rate: Fraction, bits: RandomBits) -> Path:
    """Draw top-down: an option in proportion to its mass, then a member within it."""
    match family:
        case Leaf(errors):
            # members with equal errors are equally likely: draw the error count, then the member
            counts, members = _histogram(errors)
            group = _pick_option(Choice(Leaf(counts[:, None]), members), rate, bits)
            equals = np.flatnonzero(errors == counts[group])
            return int(equals[uniform_below(len(equals), bits)])
        case Product(factors):
            return tuple(_descend(factor, rate, bits) for factor in factors)
        case Choice(options):
            option = _pick_option(family, rate, bits)
            return option, _descend(options.at((option,)), rate, bits)
        case OneOf(options):
            option = _pick_option(family, rate, bits)
            return option, _descend(options[option], rate, bits)
    raise TypeError(f"unknown family {type(family).__name__}")


def _histogram(errors: Offsets) -> tuple[Offsets, Offsets]:
    """Return the distinct errors and how many members have each."""
    least = errors.min()
    if int(errors.max() - least) > 4 * errors.size + 1024:  # too spread to count: sort instead
        counts, members = np.unique(errors, return_counts=True)
        return counts, members
    table = np.bincount(errors - least)
    counts = np.flatnonzero(table)
    return counts + least, table[counts]


def _pick_option(family: Choice | OneOf, rate: Fraction, bits: RandomBits) -> int:
    """Draw an option exactly: more random bits and more precision until it is decided."""
    known = 0
    drawn = 0
    for arithmetic in _arithmetics(rate):
        known = known << (arithmetic.bits - drawn) | bits.bits(arithmetic.bits - drawn)
        drawn = arithmetic.bits
        try:
            _, masses = _option_masses(family, arithmetic)
            return arithmetic.pick(masses, Fraction(known, 1 << drawn), Fraction(1, 1 << drawn))
        except _UndecidedError:
            continue
    raise AssertionError("the precisions never end")


def _arithmetics(rate: Fraction) -> Iterator[_Arithmetic[Any]]:
    """Yield arithmetics of growing precision."""
    yield _FloatArithmetic(rate)
    precision = 128
    while True:
        yield _FixedArithmetic(rate, precision)
        precision *= 2


class _Floats(NamedTuple):
    """Floats v̂ with |v̂ - v| <= γ(roundings) v + negligible; see the proof for the last term."""

    values: NDArray[np.float64]
    roundings: int


class _FloatArithmetic:
    """IEEE double precision with counted roundings (Higham 2002, Lemma 3.1 and section 4.2)."""

    bits = 64
    limit = 2.0**900
    """Masses above this are left to integers, so that underflows (2^-999) stay negligible."""

    def __init__(self, rate: Fraction) -> None:
        self._powers = FloatPowers(rate)

    def weights(self, exponents: Offsets) -> _Floats:
        return _Floats(self._powers(exponents), self._powers.roundings)

    def times(self, left: _Floats, right: _Floats) -> _Floats:
        with np.errstate(over="ignore"):
            product = self._checked(left.values * right.values)
        return _Floats(product, left.roundings + right.roundings + 1)

    def scaled(self, values: _Floats, factors: Prior) -> _Floats:
        if np.max(factors) > self.limit:
            raise _UndecidedError
        product = self._checked(values.values * np.asarray(factors, dtype=np.float64))
        return _Floats(product, values.roundings + 2)

    def total(self, values: _Floats) -> _Floats:
        terms = values.values.shape[-1]
        return _Floats(self._checked(values.values.sum(axis=-1)), values.roundings + terms)

    def stacked(self, values: list[_Floats], axis: int) -> _Floats:
        join = np.stack if axis == -1 else np.concatenate
        roundings = max(value.roundings for value in values)
        return _Floats(join([value.values for value in values], axis=axis), roundings)

    def pick(self, values: _Floats, uniform: Fraction, width: Fraction) -> int:
        cumulative = np.cumsum(self._checked(values.values))
        last = len(cumulative) - 1
        # one more rounding than terms covers the underflows of relative masses below 1
        count = values.roundings + len(cumulative) + 1
        gamma = Fraction(count, (1 << 53) - count)
        negligible = Fraction(count, 1 << 80)
        guess = int(np.searchsorted(cumulative, float(uniform) * cumulative[last], side="right"))
        guess = min(guess, last)

        def bounds(index: int) -> tuple[Fraction, Fraction]:
            value = Fraction(float(cumulative[index]))
            return value * (1 - gamma) - negligible, value * (1 + gamma) + negligible

        total_lower, total_upper = bounds(last)
        if guess > 0 and uniform * total_lower < bounds(guess - 1)[1]:
            raise _UndecidedError
        if guess < last and (uniform + width) * total_upper > bounds(guess)[0]:
            raise _UndecidedError
        return guess

    def _checked(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if not values.max() <= self.limit:
            raise _UndecidedError
        return values


class _FixedArithmetic:
    """Pairs of integer arrays: lower and upper bounds in units of 2^-precision."""

    def __init__(self, rate: Fraction, precision: int) -> None:
        self.bits = precision
        self._precision = precision
        self.powers = FixedPowers(rate, precision)

    def weights(self, exponents: Offsets) -> tuple[Any, Any]:
        distinct, inverse = np.unique(exponents, return_inverse=True)
        bounds = np.empty((len(distinct), 2), dtype=object)
        bounds[:] = [self.powers(exponent) for exponent in distinct.tolist()]
        both = bounds[inverse.reshape(exponents.shape)]
        return both[..., 0], both[..., 1]

    def times(self, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        lower = left[0] * right[0] >> self._precision
        return lower, -(-(left[1] * right[1]) >> self._precision)

    def scaled(self, values: tuple[Any, Any], factors: Prior) -> tuple[Any, Any]:
        multipliers = np.array(factors, dtype=object)
        return values[0] * multipliers, values[1] * multipliers

    def total(self, values: tuple[Any, Any]) -> tuple[Any, Any]:
        return values[0].sum(axis=-1), values[1].sum(axis=-1)

    def stacked(self, values: list[tuple[Any, Any]], axis: int) -> tuple[Any, Any]:
        join = np.stack if axis == -1 else np.concatenate
        lower, upper = zip(*values, strict=True)
        return (
            join([np.asarray(value, dtype=object) for value in lower], axis=axis),
            join([np.asarray(value, dtype=object) for value in upper], axis=axis),
        )

    def pick(self, values: tuple[Any, Any], uniform: Fraction, width: Fraction) -> int:
        lower, upper = np.cumsum(values[0]), np.cumsum(values[1])
        target_lower = uniform * int(lower[-1])
        target_upper = (uniform + width) * int(upper[-1])
        guess = int(np.searchsorted(lower, target_lower.__floor__(), side="right"))
        guess = min(guess, len(lower) - 1)
        if guess > 0 and target_lower < int(upper[guess - 1]):
            raise _UndecidedError
        if guess < len(lower) - 1 and target_upper > int(lower[guess]):
            raise _UndecidedError
        return guess


def _rate(epsilon: Fraction, sensitivity: int) -> Fraction:
    if epsilon <= 0 or sensitivity < 1:
        raise ValueError("epsilon must be positive and sensitivity a positive integer")
    return epsilon / (2 * sensitivity)
