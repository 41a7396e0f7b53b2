"""The exponential mechanism on error counts, without rounding error.

McSherry and Talwar (2007); Beimel, Nissim and Stemmer (2015), Algorithm 5. A member h is drawn
with probability proportional to ``prior(h) * exp(-epsilon * errors(h) / (2 * sensitivity))``.
The proof is docs/proofs/selection.md.

Sums of weights are computed bottom-up over the family, then options are drawn top-down. Both
steps are written once and run on two arithmetics. Floats with a proved error bound decide nearly
every draw. Fixed-point integers, whose precision grows as needed, decide the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

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
from skpublicdp.typing import Floats, Integers

V = TypeVar("V")
"""Array of non-negative numbers in one of the two arithmetics."""


def draw(family: Family, epsilon: Fraction, sensitivity: int, bits: RandomBits) -> Path:
    """Draw one member of a family by the exponential mechanism.

    Parameters
    ----------
    family : Family
        Members with integer error counts; batch shape ``()``. Only the error counts may depend on
        the private rows.
    epsilon : Fraction
        Privacy budget, positive.
    sensitivity : int
        Largest change of any member's error count when one private row is replaced.
    bits : RandomBits
        Source of randomness.

    Returns
    -------
    Path
        Path of the drawn member.

    Notes
    -----
    The draw is ε-differentially private (McSherry and Talwar 2007, Theorem 6). Its distribution is
    exactly the one above, because no rounded number decides an outcome.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> family = Leaf(np.array([40, 0, 40]))
    >>> draw(family, Fraction(1), 1, SeededBits(0))
    1
    """
    if family.batch:
        raise ValueError("draw takes one family, not a batch of families.")
    return _descend(family, _rate(epsilon, sensitivity), bits)


def probabilities(
    family: Family, epsilon: Fraction, sensitivity: int, precision: int = 256
) -> dict[Path, tuple[Fraction, Fraction]]:
    """Return rigorous bounds on the probability of every member, for small families.

    Parameters
    ----------
    family, epsilon, sensitivity
        As in `draw`.
    precision : int
        Number of binary digits of the computation.

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
    bounds_of_pair: dict[tuple[int, int], tuple[Fraction, Fraction]] = {}  # (errors, prior)
    for path, errors, prior in family.members():
        if (errors, prior) not in bounds_of_pair:
            lower, upper = arithmetic.powers(errors - int(offset))
            bounds_of_pair[errors, prior] = (
                Fraction(prior * lower, int(total_upper)),
                Fraction(prior * upper, int(total_lower)),
            )
        bounds[path] = bounds_of_pair[errors, prior]
    return bounds


class _UndecidedError(Exception):
    """The current precision does not determine the drawn option."""


class _Arithmetic(Protocol[V]):
    """Arithmetic on arrays `V` of non-negative numbers with proved error bounds."""

    bits: int
    """Number of random bits of the uniform number that selects an option."""

    def weights(self, exponents: Integers) -> V:
        """Return ``q**exponents`` for q = exp(-rate)."""

    def multiply(self, left: V, right: V) -> V:
        """Return the elementwise product."""

    def multiply_by_integers(self, values: V, factors: Prior) -> V:
        """Return the values, multiplied by integer factors along the last axis."""

    def total(self, values: V) -> V:
        """Return the sums over the last axis."""

    def stack(self, values: list[V], axis: int) -> V:
        """Stack values along a new axis (-1) or join them along the first (0)."""

    def pick(self, values: V, uniform: Fraction, width: Fraction) -> int:
        """Return the option i that every u in [uniform, uniform + width] selects.

        With cumulative sums c of the values, u selects the i for which c[i-1] <= u c[-1] <= c[i].

        Raises
        ------
        _UndecidedError
            If the error bounds do not prove that one option is selected by all u.
        """


def _mass(family: Family, arithmetic: _Arithmetic[V]) -> tuple[Integers, V]:
    """Return the least error count m and the relative mass S of each family of a batch.

    The sum Z of the members' weights is q^m S. Factoring out q^m keeps S >= 1, so that the masses
    of a large data set do not underflow.
    """
    match family:
        case Leaf(errors):
            offset = errors.min(axis=-1)
            return offset, arithmetic.total(arithmetic.weights(errors - offset[..., None]))
        case Product(factors):
            offset, mass = _mass(factors[0], arithmetic)
            for factor in factors[1:]:
                factor_offset, factor_mass = _mass(factor, arithmetic)
                offset = offset + factor_offset
                mass = arithmetic.multiply(mass, factor_mass)
            return offset, mass
        case Choice() | OneOf():
            offset, masses = _option_masses(family, arithmetic)
            return offset, arithmetic.total(masses)
        case Lazy():
            chunks = [_mass(chunk, arithmetic) for chunk in family.chunks()]
            offset = np.concatenate([offset for offset, _ in chunks])
            return offset, arithmetic.stack([mass for _, mass in chunks], axis=0)
    raise TypeError(f"family must be a node of mechanisms.families; got {type(family).__name__}.")


def _option_masses(family: Choice | OneOf, arithmetic: _Arithmetic[V]) -> tuple[Integers, V]:
    """Return the least error count m and each option's mass relative to q^m, prior included."""
    if isinstance(family, Choice):
        offsets, masses = _mass(family.options, arithmetic)
    else:
        options = [_mass(option, arithmetic) for option in family.options]
        offsets = np.stack([offset for offset, _ in options], axis=-1)
        masses = arithmetic.stack([mass for _, mass in options], axis=-1)
    if family.prior is not None:  # before the weights, so that no prior magnifies an underflow
        masses = arithmetic.multiply_by_integers(masses, family.prior)
    offset = offsets.min(axis=-1)
    return offset, arithmetic.multiply(masses, arithmetic.weights(offsets - offset[..., None]))


def _descend(family: Family, rate: Fraction, bits: RandomBits) -> Path:
    """Return the path of a random member: an option by its mass, then a member within it."""
    match family:
        case Leaf(errors):
            # members with equal errors are equally likely: draw an error count, then a member
            counts, n_members = _histogram(errors)
            group = _pick_option(Choice(Leaf(counts[:, None]), n_members), rate, bits)
            candidates = np.flatnonzero(errors == counts[group])
            return int(candidates[uniform_below(len(candidates), bits)])
        case Product(factors):
            return tuple(_descend(factor, rate, bits) for factor in factors)
        case Choice(options):
            option = _pick_option(family, rate, bits)
            return option, _descend(options.at((option,)), rate, bits)
        case OneOf(options):
            option = _pick_option(family, rate, bits)
            return option, _descend(options[option], rate, bits)
    raise TypeError(f"family must be a node of mechanisms.families; got {type(family).__name__}.")


def _histogram(errors: Integers) -> tuple[Integers, Integers]:
    """Return the distinct error counts and the number of members that have each."""
    min_errors = errors.min()
    if int(errors.max() - min_errors) > 4 * errors.size + 1024:  # a table would be mostly zeros
        counts, n_members = np.unique(errors, return_counts=True)
        return counts, n_members
    table = np.bincount(errors - min_errors)
    counts = np.flatnonzero(table)
    return counts + min_errors, table[counts]


def _pick_option(family: Choice | OneOf, rate: Fraction, bits: RandomBits) -> int:
    """Return the index of an option, drawn with probability in proportion to its mass.

    A uniform number selects the option. Its binary digits and the precision of the masses are
    extended until the option is certain, so the distribution is exact.
    """
    digits = 0
    n_digits = 0
    for arithmetic in _arithmetics(rate):
        digits = digits << (arithmetic.bits - n_digits) | bits.bits(arithmetic.bits - n_digits)
        n_digits = arithmetic.bits
        uniform, width = Fraction(digits, 1 << n_digits), Fraction(1, 1 << n_digits)
        try:
            _, masses = _option_masses(family, arithmetic)
            return arithmetic.pick(masses, uniform, width)
        except _UndecidedError:
            continue
    raise AssertionError("_arithmetics yields without end")


def _arithmetics(rate: Fraction) -> Iterator[_Arithmetic[Any]]:
    """Yield float arithmetic first, then fixed-point arithmetics of growing precision."""
    yield _FloatArithmetic(rate)
    precision = 128
    while True:
        yield _FixedArithmetic(rate, precision)
        precision *= 2


class _ApproximateFloats(NamedTuple):
    """Floats v̂ that approximate exact values v within a proved relative error.

    |v̂ - v| <= γ(roundings) v + a negligible term for underflows (docs/proofs/selection.md), where
    γ(k) = k u / (1 - k u) and u = 2^-53.
    """

    values: Floats
    roundings: int


class _FloatArithmetic:
    """IEEE double precision with counted roundings (Higham 2002, Lemma 3.1 and section 4.2)."""

    bits = 64
    limit = 2.0**900
    """Larger masses are left to fixed-point arithmetic: underflows (2^-999) stay negligible."""

    def __init__(self, rate: Fraction) -> None:
        self._powers = FloatPowers(rate)

    def weights(self, exponents: Integers) -> _ApproximateFloats:
        """Return ``q**exponents`` for q = exp(-rate)."""
        return _ApproximateFloats(self._powers(exponents), self._powers.roundings)

    def multiply(self, left: _ApproximateFloats, right: _ApproximateFloats) -> _ApproximateFloats:
        """Return the elementwise product."""
        with np.errstate(over="ignore"):
            product = self._checked(left.values * right.values)
        return _ApproximateFloats(product, left.roundings + right.roundings + 1)

    def multiply_by_integers(
        self, values: _ApproximateFloats, factors: Prior
    ) -> _ApproximateFloats:
        """Return the values, multiplied by integer factors along the last axis."""
        if np.max(factors) > self.limit:
            raise _UndecidedError
        product = self._checked(values.values * np.asarray(factors, dtype=np.float64))
        return _ApproximateFloats(product, values.roundings + 2)

    def total(self, values: _ApproximateFloats) -> _ApproximateFloats:
        """Return the sums over the last axis."""
        terms = values.values.shape[-1]
        return _ApproximateFloats(
            self._checked(values.values.sum(axis=-1)), values.roundings + terms
        )

    def stack(self, values: list[_ApproximateFloats], axis: int) -> _ApproximateFloats:
        """Stack values along a new axis (-1) or join them along the first (0)."""
        join = np.stack if axis == -1 else np.concatenate
        roundings = max(value.roundings for value in values)
        return _ApproximateFloats(join([value.values for value in values], axis=axis), roundings)

    def pick(self, values: _ApproximateFloats, uniform: Fraction, width: Fraction) -> int:
        """Return the option that a uniform number surely selects (see `_Arithmetic.pick`)."""
        cumulative = np.cumsum(self._checked(values.values))
        last = len(cumulative) - 1
        # one rounding more than there are terms: it covers underflows of masses below 1
        n_roundings = values.roundings + len(cumulative) + 1
        gamma = Fraction(n_roundings, (1 << 53) - n_roundings)
        negligible = Fraction(n_roundings, 1 << 80)
        guess = int(np.searchsorted(cumulative, float(uniform) * cumulative[last], side="right"))
        guess = min(guess, last)

        def bounds(index: int) -> tuple[Fraction, Fraction]:
            """Enclose a cumulative sum."""
            value = Fraction(float(cumulative[index]))
            return value * (1 - gamma) - negligible, value * (1 + gamma) + negligible

        total_lower, total_upper = bounds(last)
        if guess > 0 and uniform * total_lower < bounds(guess - 1)[1]:
            raise _UndecidedError
        if guess < last and (uniform + width) * total_upper > bounds(guess)[0]:
            raise _UndecidedError
        return guess

    def _checked(self, values: Floats) -> Floats:
        """Return the values if all are within `limit`; otherwise leave them to integers."""
        if not values.max() <= self.limit:
            raise _UndecidedError
        return values


class _FixedArithmetic:
    """Pairs of integer arrays: lower and upper bounds in units of 2^-precision."""

    def __init__(self, rate: Fraction, precision: int) -> None:
        self.bits = precision
        self._precision = precision
        self.powers = FixedPowers(rate, precision)

    def weights(self, exponents: Integers) -> tuple[Any, Any]:
        """Return ``q**exponents`` for q = exp(-rate)."""
        distinct, inverse = np.unique(exponents, return_inverse=True)
        bounds = np.empty((len(distinct), 2), dtype=object)
        bounds[:] = [self.powers(exponent) for exponent in distinct.tolist()]
        bounds_of_weights = bounds[inverse.reshape(exponents.shape)]
        return bounds_of_weights[..., 0], bounds_of_weights[..., 1]

    def multiply(self, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return the elementwise product."""
        lower = left[0] * right[0] >> self._precision
        return lower, -(-(left[1] * right[1]) >> self._precision)

    def multiply_by_integers(self, values: tuple[Any, Any], factors: Prior) -> tuple[Any, Any]:
        """Return the values, multiplied by integer factors along the last axis."""
        multipliers = np.array(factors, dtype=object)
        return values[0] * multipliers, values[1] * multipliers

    def total(self, values: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return the sums over the last axis."""
        return values[0].sum(axis=-1), values[1].sum(axis=-1)

    def stack(self, values: list[tuple[Any, Any]], axis: int) -> tuple[Any, Any]:
        """Stack values along a new axis (-1) or join them along the first (0)."""
        join = np.stack if axis == -1 else np.concatenate
        lower, upper = zip(*values, strict=True)
        return (
            join([np.asarray(value, dtype=object) for value in lower], axis=axis),
            join([np.asarray(value, dtype=object) for value in upper], axis=axis),
        )

    def pick(self, values: tuple[Any, Any], uniform: Fraction, width: Fraction) -> int:
        """Return the option that a uniform number surely selects (see `_Arithmetic.pick`)."""
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
    """Return the factor of the error count in the exponent: ε / (2 sensitivity)."""
    if epsilon <= 0 or sensitivity < 1:
        raise ValueError(
            "epsilon must be positive and sensitivity a positive integer; "
            f"got epsilon={epsilon} and sensitivity={sensitivity}."
        )
    return epsilon / (2 * sensitivity)
