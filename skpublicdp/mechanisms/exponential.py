"""The exponential mechanism for error counts, sampled without rounding errors.

McSherry and Talwar (2007); Beimel, Nissim and Stemmer (2015), Algorithm 5. A member h is drawn
with probability proportional to ``prior(h) * exp(-epsilon * errors(h) / (2 * sensitivity))``.
The proof is docs/proofs/selection.md.

First, sums of weights are computed bottom-up over the family. Then options are drawn top-down. Both
steps are implemented once and run in two kinds of arithmetic. Floats with a proved error bound
decide almost all draws. Fixed-point integers, whose precision grows as needed, decide all other
draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from skpublicdp.mechanisms.exact_exp import FixedPowers, FloatPowers
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Prior, Product
from skpublicdp.mechanisms.randomness import RandomBits, uniform_below
from skpublicdp.typing import Floats, Integers

V = TypeVar("V")
"""Type of an array of non-negative numbers: `_ApproximateFloats` or a pair of integer arrays."""

FIRST_PRECISION = 128
"""Number of binary digits in the first attempt with fixed-point arithmetic, which doubles with each
retry."""


def draw(family: Family, epsilon: Fraction, sensitivity: int, bits: RandomBits) -> Path:
    """Draw one member of a family by the exponential mechanism.

    Notes
    -----
    The draw is ε-differentially private (McSherry and Talwar 2007, Theorem 6). The distribution of
    the draw is exact, because no outcome depends on a rounded number. This requires that the error
    count of each member, which is a sum over the factors of a product, is below 2**61 in magnitude.
    A `Leaf` refuses counts above 2**57, so this holds for products of up to 16 leaves, and for any
    product if the counts are numbers of rows.

    Examples
    --------
    >>> from skpublicdp.mechanisms.randomness import SeededBits
    >>> family = Leaf(np.array([40, 0, 40]))
    >>> draw(family, Fraction(1), 1, SeededBits(0))
    1
    """
    if family.batch:
        raise ValueError("draw requires a single family, not a batch of families.")
    return _draw_member(family, _error_rate(epsilon, sensitivity), bits)


def probabilities(
    family: Family, epsilon: Fraction, sensitivity: int, precision: int = 256
) -> dict[Path, tuple[Fraction, Fraction]]:
    """Return rigorous bounds on the probability that `draw` returns each member of a family.

    Since all members are listed, this function is suited only to small families in tests and
    audits.

    Parameters
    ----------
    family, epsilon, sensitivity
        As in `draw`.
    precision : int
        Number of binary digits used in the computation.

    Examples
    --------
    >>> bounds_of_path = probabilities(Leaf(np.array([0, 2])), Fraction(1), 1)
    >>> lower, upper = bounds_of_path[0]
    >>> float(lower)  # 1 / (1 + 1/e)
    0.7310585786300049
    """
    arithmetic = _FixedArithmetic(_error_rate(epsilon, sensitivity), precision)
    offset, (total_lower, total_upper) = _compute_mass(family, arithmetic)
    bounds_of_path = {}
    # members with equal errors and prior weights are equally likely, so each pair is computed once
    bounds_of_pair: dict[tuple[int, int], tuple[Fraction, Fraction]] = {}
    for path, errors, prior in family.members():
        if (errors, prior) not in bounds_of_pair:
            lower, upper = arithmetic.powers(errors - int(offset))
            bounds_of_pair[errors, prior] = (
                Fraction(prior * lower, int(total_upper)),
                Fraction(prior * upper, int(total_lower)),
            )
        bounds_of_path[path] = bounds_of_pair[errors, prior]
    return bounds_of_path


class _UndecidedError(Exception):
    """Raised if the error bounds do not yet determine which option is drawn."""


class _Arithmetic(Protocol[V]):
    """Arithmetic on arrays `V` of non-negative numbers, with proved error bounds."""

    bits: int
    """Number of random bits of the uniform number that selects an option."""

    def weights(self, exponents: Integers) -> V:
        """Return ``q**exponents`` for q = exp(-rate)."""

    def multiply(self, left: V, right: V) -> V:
        """Return the elementwise product of two arrays."""

    def multiply_by_integers(self, values: V, factors: Prior) -> V:
        """Multiply an array by integers, one for each index along the last axis."""

    def total(self, values: V) -> V:
        """Return the sums of an array along the last axis."""

    def stack(self, values: list[V], axis: int) -> V:
        """Stack arrays along a new last axis (-1), or concatenate them along the first axis (0)."""

    def pick(self, values: V, uniform: Fraction, width: Fraction) -> int:
        """Return the option i that every u in [uniform, uniform + width] selects.

        With cumulative sums c of the values, u selects the i for which c[i-1] <= u c[-1] <= c[i].
        """


def _compute_mass(family: Family, arithmetic: _Arithmetic[V]) -> tuple[Integers, V]:
    """For each family in a batch, return the minimum error count m and the relative mass S.

    The weight of a member is its prior times q^errors, for q = exp(-rate). The sum of these weights
    over a family is q^m S. Factoring out q^m ensures that S >= 1, so masses do not underflow for
    large data sets.

    Returns
    -------
    offset : ndarray of int64, of the batch shape of the family
        The minimum error count m of each family.
    mass : array of the arithmetic, of the batch shape of the family
        The relative mass S of each family.
    """
    match family:
        case Leaf(errors):
            offset = errors.min(axis=-1)
            return offset, arithmetic.total(arithmetic.weights(errors - offset[..., None]))
        case Product(factors):
            offset, mass = _compute_mass(factors[0], arithmetic)
            for factor in factors[1:]:
                factor_offset, factor_mass = _compute_mass(factor, arithmetic)
                offset = offset + factor_offset
                mass = arithmetic.multiply(mass, factor_mass)
            return offset, mass
        case Choice() | OneOf():
            offset, masses = _option_masses(family, arithmetic)
            return offset, arithmetic.total(masses)
        case Lazy():
            chunks = [_compute_mass(chunk, arithmetic) for chunk in family.chunks()]
            offset = np.concatenate([offset for offset, _ in chunks])
            return offset, arithmetic.stack([mass for _, mass in chunks], axis=0)
    raise TypeError(f"family must be a node of mechanisms.families; got {type(family).__name__}.")


def _option_masses(family: Choice | OneOf, arithmetic: _Arithmetic[V]) -> tuple[Integers, V]:
    """Return the minimum error count m and the mass of each option, prior weight included.

    As in `_compute_mass`, masses are relative to q^m, where m is the minimum error count over all
    options of a family.
    """
    if isinstance(family, Choice):
        offsets, masses = _compute_mass(family.options, arithmetic)
    else:
        options = [_compute_mass(option, arithmetic) for option in family.options]
        offsets = np.stack([offset for offset, _ in options], axis=-1)
        masses = arithmetic.stack([mass for _, mass in options], axis=-1)
    # priors are applied before the weights, so that no prior magnifies an underflow
    if family.prior is not None:
        masses = arithmetic.multiply_by_integers(masses, family.prior)
    offset = offsets.min(axis=-1)
    weights = arithmetic.weights(offsets - offset[..., None])
    return offset, arithmetic.multiply(masses, weights)


def _draw_member(family: Family, rate: Fraction, bits: RandomBits) -> Path:
    """Return the path of a randomly drawn member of a family with batch shape ().

    First, an option is drawn with probability proportional to its mass. Then a member of this
    option is drawn. In a product, the members of the factors are drawn independently.
    """
    match family:
        case Leaf(errors):
            # members with equal errors are equally likely: draw an error count, then a member
            error_counts, n_members = _histogram(errors)
            group = _pick_option(Choice(Leaf(error_counts[:, None]), n_members), rate, bits)
            candidates = np.flatnonzero(errors == error_counts[group])
            return int(candidates[uniform_below(len(candidates), bits)])
        case Product(factors):
            return tuple(_draw_member(factor, rate, bits) for factor in factors)
        case Choice(options):
            option = _pick_option(family, rate, bits)
            return option, _draw_member(options.at((option,)), rate, bits)
        case OneOf(options):
            option = _pick_option(family, rate, bits)
            return option, _draw_member(options[option], rate, bits)
    raise TypeError(f"family must be a node of mechanisms.families; got {type(family).__name__}.")


def _histogram(errors: Integers) -> tuple[Integers, Integers]:
    """Return the distinct error counts, increasing, and the number of members with each."""
    min_errors = errors.min()
    # sorting is faster if a table of all intermediate values would be mostly zeros
    max_table_length = 4 * errors.size + 1024
    if int(errors.max() - min_errors) > max_table_length:
        error_counts, n_members = np.unique(errors, return_counts=True)
        return error_counts, n_members
    table = np.bincount(errors - min_errors)
    excesses = np.flatnonzero(table)
    return excesses + min_errors, table[excesses]


def _pick_option(family: Choice | OneOf, rate: Fraction, bits: RandomBits) -> int:
    """Return the index of an option, drawn with probability proportional to its mass.

    A uniform number selects the option. More binary digits of this number are drawn, and the
    precision of the masses is increased, until the option is determined. The distribution is
    therefore exact.
    """
    digits = 0
    n_digits = 0
    for arithmetic in _arithmetics(rate):
        # earlier digits are kept: new ones would change the distribution of undecided draws
        n_new_digits = arithmetic.bits - n_digits
        digits = digits << n_new_digits | bits.bits(n_new_digits)
        n_digits = arithmetic.bits
        uniform, width = Fraction(digits, 1 << n_digits), Fraction(1, 1 << n_digits)
        try:
            _, masses = _option_masses(family, arithmetic)
            return arithmetic.pick(masses, uniform, width)
        except _UndecidedError:
            continue
    raise AssertionError("_arithmetics yields without end")


def _arithmetics(rate: Fraction) -> Iterator[_Arithmetic[Any]]:
    """Yield float arithmetic first, followed by fixed-point arithmetic of increasing precision."""
    yield _FloatArithmetic(rate)
    precision = FIRST_PRECISION
    while True:
        yield _FixedArithmetic(rate, precision)
        precision *= 2


class _ApproximateFloats(NamedTuple):
    """Floats v̂ that approximate exact values v with a proved bound on the relative error.

    |v̂ - v| <= γ(roundings) v + a negligible term for underflows (docs/proofs/selection.md), where
    γ(k) = k u / (1 - k u) and u = 2^-53.
    """

    values: Floats
    """The approximations v̂."""

    roundings: int
    """Number of roundings counted for each value."""


class _FloatArithmetic:
    """IEEE double precision with counted roundings (Higham 2002, Lemma 3.1 and section 4.2).

    Implements the methods of `_Arithmetic`. A result above `max_mass` raises `_UndecidedError`,
    after which fixed-point arithmetic is used.
    """

    bits = 64
    max_mass = 2.0**900
    """Largest mass for which absolute underflow errors of 2^-999 per operation remain
    negligible."""

    def __init__(self, rate: Fraction) -> None:
        self._powers = FloatPowers(rate)

    def weights(self, exponents: Integers) -> _ApproximateFloats:
        """Return ``q**exponents`` for q = exp(-rate)."""
        return _ApproximateFloats(self._powers(exponents), self._powers.roundings)

    def multiply(self, left: _ApproximateFloats, right: _ApproximateFloats) -> _ApproximateFloats:
        """Return the elementwise product of two arrays, adding up the counts of roundings."""
        with np.errstate(over="ignore"):
            product = self._check_mass(left.values * right.values)
        return _ApproximateFloats(product, left.roundings + right.roundings + 1)

    def multiply_by_integers(
        self, values: _ApproximateFloats, factors: Prior
    ) -> _ApproximateFloats:
        """Multiply an array by integers, one for each index along the last axis."""
        if np.max(factors) > self.max_mass:
            raise _UndecidedError
        product = self._check_mass(values.values * np.asarray(factors, dtype=np.float64))
        # one rounding for the conversion of the factors, one for the product
        return _ApproximateFloats(product, values.roundings + 2)

    def total(self, values: _ApproximateFloats) -> _ApproximateFloats:
        """Return the sums of an array along the last axis."""
        sums = self._check_mass(values.values.sum(axis=-1))
        # n terms take n - 1 roundings in any order; one more covers the underflow errors
        n_terms = values.values.shape[-1]
        return _ApproximateFloats(sums, values.roundings + n_terms)

    def stack(self, values: list[_ApproximateFloats], axis: int) -> _ApproximateFloats:
        """Stack arrays along a new last axis (-1), or concatenate them along the first axis (0)."""
        join = np.stack if axis == -1 else np.concatenate
        roundings = max(value.roundings for value in values)
        return _ApproximateFloats(join([value.values for value in values], axis=axis), roundings)

    def pick(self, values: _ApproximateFloats, uniform: Fraction, width: Fraction) -> int:
        """Return the option that every u in the interval selects, as in `_Arithmetic.pick`."""
        cumulative = np.cumsum(self._check_mass(values.values))
        last = len(cumulative) - 1
        # relative error γ(k) = k u / (1 - k u), u = 2^-53, and absolute underflow error, for which
        # partial sums below 1 have no relative bound (docs/proofs/selection.md, Comparison)
        n_roundings = values.roundings + len(cumulative) + 1
        gamma = Fraction(n_roundings, (1 << 53) - n_roundings)
        absolute_error = Fraction(n_roundings, 1 << 80)
        guess = int(np.searchsorted(cumulative, float(uniform) * cumulative[last], side="right"))
        guess = min(guess, last)

        def enclose(index: int) -> tuple[Fraction, Fraction]:
            """Return lower and upper bounds on a cumulative sum."""
            value = Fraction(float(cumulative[index]))
            return value * (1 - gamma) - absolute_error, value * (1 + gamma) + absolute_error

        total_lower, total_upper = enclose(last)
        _, start_upper = enclose(guess - 1)
        end_lower, _ = enclose(guess)
        # no proof is needed at the ends: the first option begins at 0 and the last ends at the
        # total
        if guess > 0 and uniform * total_lower < start_upper:
            raise _UndecidedError
        if guess < last and (uniform + width) * total_upper > end_lower:
            raise _UndecidedError
        return guess

    def _check_mass(self, values: Floats) -> Floats:
        """Return the values; raise `_UndecidedError` unless all are at most `max_mass`."""
        if not values.max() <= self.max_mass:
            raise _UndecidedError
        return values


class _FixedArithmetic:
    """Fixed-point arithmetic on enclosures, with the methods of `_Arithmetic`.

    Each array is represented by two object arrays of Python integers: lower and upper bounds, as
    multiples of 2^-precision. Lower bounds are rounded down and upper bounds are rounded up.
    """

    def __init__(self, rate: Fraction, precision: int) -> None:
        self.bits = precision
        self._precision = precision
        self.powers = FixedPowers(rate, precision)

    def weights(self, exponents: Integers) -> tuple[Any, Any]:
        """Return enclosures of ``q**exponents`` for q = exp(-rate)."""
        distinct, inverse = np.unique(exponents, return_inverse=True)
        distinct_bounds = np.empty((len(distinct), 2), dtype=object)
        distinct_bounds[:] = [self.powers(exponent) for exponent in distinct.tolist()]
        weight_bounds = distinct_bounds[inverse.reshape(exponents.shape)]
        return weight_bounds[..., 0], weight_bounds[..., 1]

    def multiply(self, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return enclosures of the elementwise product of two arrays."""
        left_lower, left_upper = left
        right_lower, right_upper = right
        lower = left_lower * right_lower >> self._precision
        upper = -(-(left_upper * right_upper) >> self._precision)
        return lower, upper

    def multiply_by_integers(self, values: tuple[Any, Any], factors: Prior) -> tuple[Any, Any]:
        """Multiply an array by integers, one for each index along the last axis."""
        lower, upper = values
        multipliers = np.array(factors, dtype=object)
        return lower * multipliers, upper * multipliers

    def total(self, values: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return enclosures of the sums of an array along the last axis."""
        lower, upper = values
        return lower.sum(axis=-1), upper.sum(axis=-1)

    def stack(self, values: list[tuple[Any, Any]], axis: int) -> tuple[Any, Any]:
        """Stack arrays along a new last axis (-1), or concatenate them along the first axis (0)."""
        join = np.stack if axis == -1 else np.concatenate
        lower, upper = zip(*values, strict=True)
        return (
            join([np.asarray(value, dtype=object) for value in lower], axis=axis),
            join([np.asarray(value, dtype=object) for value in upper], axis=axis),
        )

    def pick(self, values: tuple[Any, Any], uniform: Fraction, width: Fraction) -> int:
        """Return the option that every u in the interval selects, as in `_Arithmetic.pick`."""
        lower, upper = map(np.cumsum, values)
        target_lower = uniform * int(lower[-1])
        target_upper = (uniform + width) * int(upper[-1])
        last = len(lower) - 1
        n_up_to_target = np.searchsorted(lower, target_lower.__floor__(), side="right")
        guess = min(int(n_up_to_target), last)
        if guess > 0 and target_lower < int(upper[guess - 1]):
            raise _UndecidedError
        if guess < last and target_upper > int(lower[guess]):
            raise _UndecidedError
        return guess


def _error_rate(epsilon: Fraction, sensitivity: int) -> Fraction:
    """Return γ = ε / (2 sensitivity): a member with k errors has weight exp(-γ k)."""
    if epsilon <= 0 or sensitivity < 1:
        raise ValueError(
            "epsilon must be positive and sensitivity a positive integer; "
            f"got epsilon={epsilon} and sensitivity={sensitivity}."
        )
    return epsilon / (2 * sensitivity)
