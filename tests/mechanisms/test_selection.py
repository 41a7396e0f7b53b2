"""The exponential mechanism: exact distributions, both arithmetics, ends of the range."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import assert_fits
from tests.internals.mechanisms import (
    Choice,
    Lazy,
    Leaf,
    OneOf,
    Product,
    SeededBits,
    draw,
    exponential,
    probabilities,
    random_bits,
)


def leaf(*errors):
    return Leaf(np.array(errors, dtype=np.int64))


def nested(prior=(1, 10**6, 3)):
    """Every kind of node, with priors and uneven depths."""
    grid = np.random.default_rng(0).integers(0, 9, size=(3, 4, 2))
    side = Choice(Product([Leaf(grid), Leaf(grid[:, ::-1].copy())]), [1, 2, 1, 5])
    lazy = Lazy(3, lambda a, b: Product([side.at((slice(a, b),)), side.at((slice(a, b),))]), 2)
    return OneOf([Choice(lazy), leaf(3, 0, 7), Choice(Leaf(grid[0]), [7, 1, 1, 1])], prior)


def brute_force(family, epsilon, sensitivity=1):
    """Probabilities from the listed members, in floats."""
    weights = {
        path: prior * math.exp(-float(epsilon) * errors / (2 * sensitivity))
        for path, errors, prior in family.members()
    }
    total = math.fsum(weights.values())
    return {path: weight / total for path, weight in weights.items()}


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(0.1), Fraction(9, 2)])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_probabilities_agree_with_brute_force(epsilon, sensitivity):
    family = nested()
    bounds = probabilities(family, epsilon, sensitivity)
    assert len(bounds) == family.size
    for path, expected in brute_force(family, epsilon, sensitivity).items():
        lower, upper = bounds[path]
        assert lower <= upper
        assert float(upper - lower) <= 2**-200
        assert float(lower) == pytest.approx(expected, rel=1e-12)
    assert sum(lower for lower, _ in bounds.values()) <= 1
    assert sum(upper for _, upper in bounds.values()) >= 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arithmetic", ["float", "fixed"])
def test_draws_fit_the_exact_probabilities(arithmetic, monkeypatch):
    if arithmetic == "fixed":
        monkeypatch.setattr(exponential, "_arithmetics", fixed_only)
    # options come up often enough: of wrong priors and twice the budget 1000 draws are noticed, and
    # 3000 of nine tenths of the budget, with a chance of 0.99 and more
    family, bits = nested([1, 10, 10]), SeededBits(1)
    expected = probabilities(family, Fraction(1), 1)
    counts = dict.fromkeys(expected, 0)
    for _ in range(1000 if arithmetic == "fixed" else 3000):
        counts[draw(family, Fraction(1), 1, bits)] += 1
    assert_fits(list(counts.values()), [float(lower) for lower, _ in expected.values()])


def fixed_only(rate):
    return itertools.islice(_all_arithmetics(rate), 1, None)


_all_arithmetics = exponential._arithmetics


class ReplayedBits:
    """A fixed sequence of bits, independent of the sizes in which it is read."""

    secure = False

    def __init__(self, seed):
        tape = np.random.default_rng(seed).bytes(4096)
        self._tape = int.from_bytes(tape)
        self._left = 8 * len(tape)

    def bits(self, count):
        self._left -= count
        return self._tape >> self._left & ((1 << count) - 1)


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=30),
    st.fractions(min_value=Fraction(1, 10**6), max_value=20),
    st.integers(0, 10**9),
)
@settings(max_examples=60)
def test_both_arithmetics_decide_alike(errors, epsilon, seed):
    family = Choice(Leaf(np.array(errors, dtype=np.int64)[:, None]))
    rate = epsilon / 2
    by_float = exponential._pick_option(family, rate, ReplayedBits(seed))
    try:
        exponential._arithmetics = fixed_only
        by_fixed = exponential._pick_option(family, rate, ReplayedBits(seed))
    finally:
        exponential._arithmetics = _all_arithmetics
    assert by_float == by_fixed


class EdgeBits:
    """Bits whose first 64 put the uniform number next to 1/2; the next ones decide its side."""

    secure = False

    def __init__(self, *answers):
        self.answers = list(answers)

    def bits(self, count):
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("first", "second", "option"),
    # the last one lies a few float steps below the edge, so that only the upper bound is in doubt
    [
        (1 << 63, 2, 1),
        (1 << 63, 2**64 - 1, 1),
        ((1 << 63) - 1, 2**64 - 3, 0),
        ((1 << 63) - 8192, 0, 0),
    ],
)
def test_undecided_draws_fall_back_to_integers(first, second, option):
    # 2 + 1/e against 1 + 1/e + 1: u = 1/2 is the edge, and no float tells which side of it u is
    family = Choice(Leaf(np.array([[0, 0, 2], [0, 2, 0]])))
    bits = EdgeBits(first, second)
    assert exponential._pick_option(family, Fraction(1, 2), bits) == option
    assert bits.answers == []  # all 128 bits were needed


def test_masses_too_large_for_floats_are_left_to_integers():
    family = OneOf([leaf(0), leaf(0)], [10**400, 10**400])
    counts = np.bincount([draw(family, Fraction(1), 1, SeededBits(s))[0] for s in range(200)])
    assert_fits(counts, [0.5, 0.5])
    big = Product([Choice(leaf_batch(2), [2**600, 2**600]) for _ in range(2)])
    assert len(draw(big, Fraction(1), 1, SeededBits(0))) == 2


def leaf_batch(options):
    return Leaf(np.zeros((options, 1), dtype=np.int64))


@pytest.mark.parametrize("errors", [[0, 10**15], [10**17, 10**17 + 1], [5]])
@pytest.mark.parametrize("epsilon", [Fraction(5e-324), Fraction(1, 10**6), Fraction(10**6)])
def test_ends_of_the_range(errors, epsilon):
    path = draw(leaf(*errors), epsilon, 1, random_bits(0))
    assert path in range(len(errors))
    lower, upper = probabilities(leaf(*errors), epsilon, 1)[0]
    assert 0 <= lower <= upper
    assert upper - lower < Fraction(1, 2**200)


def test_wide_and_narrow_histograms_agree():
    narrow = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.int64)
    wide = narrow * 10**6
    for errors in (narrow, wide):
        counts, members = exponential._histogram(errors)
        assert counts.tolist() == sorted(set(errors.tolist()))
        assert members.tolist() == [2, 1, 1, 1, 1, 1, 1]


def test_equal_errors_are_drawn_uniformly():
    family = leaf(*[2, 7] * 4)
    bits = SeededBits(5)
    counts = np.bincount([draw(family, Fraction(1), 1, bits) for _ in range(8000)], minlength=8)
    expected = probabilities(family, Fraction(1), 1)
    assert_fits(counts, [float(expected[member][0]) for member in range(8)])


def test_mass_is_invariant_to_a_shift_of_all_errors():
    family, shifted = leaf(0, 3, 8), leaf(1000, 1003, 1008)
    assert probabilities(family, Fraction(1), 1) == probabilities(shifted, Fraction(1), 1)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0, 1), (-1, 1), (1, 0)])
def test_invalid_budgets_are_refused(epsilon, sensitivity):
    with pytest.raises(ValueError, match="epsilon must"):
        draw(leaf(0), Fraction(epsilon), sensitivity, random_bits(0))


def test_a_batch_is_not_a_family():
    with pytest.raises(ValueError, match="batch"):
        draw(leaf_batch(2), Fraction(1), 1, random_bits(0))


class TestPicking:
    """Options of mass 1 and 1, near the edge: only certain options are returned."""

    RATE = Fraction(1)
    WIDTH = Fraction(1, 1 << 64)

    def floats(self, roundings, *masses):
        return exponential._ApproximateFloats(np.array(masses), roundings)

    @pytest.mark.parametrize("side", [-1, 1])
    def test_floats_account_for_roundings(self, side):
        arithmetic = exponential._FloatArithmetic(self.RATE)
        near = Fraction(1, 2) + side * Fraction(100, 1 << 53)
        expected = 0 if side < 0 else 1
        assert arithmetic.pick(self.floats(10, 1.0, 1.0), near, self.WIDTH) == expected
        with pytest.raises(exponential._UndecidedError):
            arithmetic.pick(self.floats(1000, 1.0, 1.0), near, self.WIDTH)

    def test_floats_account_for_underflow(self):
        # an option of mass 0 may have lost up to 2^-999: a draw below that is not sure
        arithmetic = exponential._FloatArithmetic(self.RATE)
        values = self.floats(0, 0.0, 1.0)
        with pytest.raises(exponential._UndecidedError):
            arithmetic.pick(values, Fraction(0), Fraction(1, 1 << 200))
        assert arithmetic.pick(values, Fraction(1, 1 << 60), self.WIDTH) == 1

    @pytest.mark.parametrize("arithmetic", ["float", "fixed"])
    def test_the_width_of_the_uniform_number_counts(self, arithmetic):
        if arithmetic == "float":
            arithmetic, values = exponential._FloatArithmetic(self.RATE), self.floats(0, 1.0, 1.0)
        else:
            arithmetic = exponential._FixedArithmetic(self.RATE, 128)
            one = np.array([1 << 128, 1 << 128], dtype=object)
            values = one, one
        below = Fraction(1, 2) - Fraction(1, 1 << 20)
        assert arithmetic.pick(values, below, Fraction(1, 1 << 21)) == 0
        with pytest.raises(exponential._UndecidedError):
            arithmetic.pick(values, below, Fraction(1, 1 << 19))

    @pytest.mark.parametrize(("numerator", "option"), [(399, 0), (450, None), (501, 1)])
    def test_integers_account_for_the_width_of_their_bounds(self, numerator, option):
        # c_0 in [4, 5], c_1 = 10 in units of 2^-128
        arithmetic = exponential._FixedArithmetic(self.RATE, 128)
        values = np.array([4, 6], dtype=object), np.array([5, 5], dtype=object)
        uniform = Fraction(numerator, 1000)
        if option is not None:
            assert arithmetic.pick(values, uniform, self.WIDTH) == option
        else:
            with pytest.raises(exponential._UndecidedError):
                arithmetic.pick(values, uniform, self.WIDTH)

    def test_roundings_are_counted(self):
        arithmetic = exponential._FloatArithmetic(self.RATE)
        one = arithmetic._powers.roundings
        values = arithmetic.weights(np.array([[0, 1, 2]]))
        assert values.roundings == one
        assert arithmetic.total(values).roundings == one + 3
        assert arithmetic.multiply(values, values).roundings == 2 * one + 1
        assert arithmetic.multiply_by_integers(values, [1, 2, 3]).roundings == one + 2
        few, many = self.floats(1, 1.0), self.floats(9, 1.0)
        assert arithmetic.stack([few, many], axis=0).roundings == 9
        assert arithmetic.stack([many, few], axis=-1).roundings == 9

    @pytest.mark.parametrize("mass", [2.0**901, 1e300, np.inf])
    def test_floats_leave_large_masses_alone(self, mass):
        arithmetic = exponential._FloatArithmetic(self.RATE)
        with pytest.raises(exponential._UndecidedError):
            arithmetic.pick(self.floats(1, mass, mass), Fraction(1, 4), self.WIDTH)
        with pytest.raises(exponential._UndecidedError):
            arithmetic.multiply(self.floats(1, mass), self.floats(1, 1.0))

    def test_integers_enclose_products(self):
        arithmetic = exponential._FixedArithmetic(self.RATE, 4)
        odd = np.array([7], dtype=object), np.array([7], dtype=object)
        lower, upper = arithmetic.multiply(odd, odd)
        assert (lower[0], upper[0]) == (3, 4)  # 49 / 16
