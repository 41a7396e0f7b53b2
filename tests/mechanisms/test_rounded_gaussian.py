"""Rounded Gaussian noise: exact distribution, both paths, decisions by floats."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tests.helpers import FALSE_ALARM, assert_fits
from tests.internals.mechanisms import (
    SeededBits,
    _decide_by_integers,
    exp_minus,
    rounded_gaussian,
)
from tests.internals.mechanisms import rounded_gaussian_module as module
from tests.mechanisms.test_noise import ONES, Script, assert_table
from tests.mechanisms.test_noise import exp_minus as decimal_exp_minus

pytestmark = pytest.mark.once

SIGMAS = [0.2, 0.5, 1, Fraction(7, 3), 40, 10**5, 2**30]


def shares(sigma, edges):
    """P(edges[i] <= x < edges[i + 1]), without cancellation in either tail."""
    at = (np.asarray(edges, dtype=float) - 0.5) / float(sigma)
    return np.where(at[:-1] >= 0, -np.diff(norm.sf(at)), np.diff(norm.cdf(at)))


def assert_distribution(sigma, size, seed=0):
    values = rounded_gaussian(Fraction(sigma) ** 2, size, SeededBits(seed))
    step = max(1, round(float(sigma) / 4))
    edges = np.r_[-(2**40), np.arange(-30, 32) * step, 2**40]
    assert_fits(np.histogram(values, bins=edges)[0], shares(sigma, edges))
    return values


def test_the_table_of_blocks():
    table, last = module._blocks(), module.REACH * module.BLOCKS
    with decimal.localcontext(prec=80):
        blocks = [decimal_exp_minus(Fraction(h * h, 512)) for h in range(last)]
        tail, step = [], 0
        while not tail or tail[-1] > tail[0] * Decimal(10) ** -60:
            tail.append(decimal_exp_minus(Fraction(last**2 + 2 * last * step, 512)))
            step += 1
        total = sum(blocks) + sum(tail)
        beyond = [(sum(blocks[k:]) + sum(tail)) / total for k in range(1, last + 1)]
    assert_table(table, beyond)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_draws_fit_the_distribution(sigma):
    values = assert_distribution(sigma, 100_000)
    if sigma > 1000:  # the low digits are uniform up to e^(-sigma)
        for modulus in (2, 16, 4096):
            assert_fits(np.bincount(values % modulus), np.full(modulus, 1 / modulus))
        assert_fits(np.bincount(values % 2 + 2 * (values > 0)), np.full(4, 0.25))
        eighth = (4 * values / sigma % 1 * 8).astype(int)  # of a quarter of σ: inside the blocks
        edges = np.arange(-160, 161) / 32
        inside = np.diff(norm.cdf(edges)).reshape(-1, 8).sum(axis=0)
        assert_fits(np.bincount(eighth, minlength=8), inside / inside.sum())


def test_small_variances():
    """Where only the tails are not rounded to 0."""
    values = rounded_gaussian(Fraction(1, 50), 2_000_000, SeededBits(0))  # P(not 0) = 4e-4
    edges = np.array([-10, -1, 0, 1, 2, 10])
    assert_fits(np.histogram(values, bins=edges)[0], shares(math.sqrt(1 / 50), edges))


@pytest.mark.parametrize("sigma", [1, 10**6, 2**30])
def test_mean_and_variance(sigma):
    values = rounded_gaussian(Fraction(sigma) ** 2, 100_000, SeededBits(1)) / sigma
    limit = norm.isf(FALSE_ALARM / 2)
    variance = 1 + 1 / 12 / sigma**2
    assert abs(values.mean()) <= limit * math.sqrt(variance / len(values))
    assert abs((values**2).mean() - variance) <= limit * math.sqrt(2 * variance / len(values)) * 1.1


class TestBothPaths:
    """Outcomes that integers decide have the same distribution."""

    @pytest.mark.parametrize("sigma", [0.5, Fraction(7, 3), 10**5])
    @pytest.mark.parametrize("error", ["ERROR_OF_EXP", "ERROR_OF_SCALING"])
    def test_all_by_integers(self, sigma, error, monkeypatch):
        monkeypatch.setattr(module, error, 4.0)
        *_, certain = decide_by_floats(Fraction(sigma) ** 2, [3, 60], [5, 1 << 63], [0, 0])
        assert not certain.any()
        assert_distribution(sigma, 5_000)

    @pytest.mark.parametrize("sigma", [0.5, Fraction(7, 3), 10**5])
    def test_the_tail(self, sigma, monkeypatch):
        monkeypatch.setattr(module, "REACH", 1)
        monkeypatch.setattr(module, "_blocks", cache(module._blocks.__wrapped__))
        assert_distribution(sigma, 5_000)

    @pytest.mark.parametrize("scale", [1, 2**26])
    def test_the_tail_beyond_the_table(self, scale):
        """Given that the table ends, beyond 4 standard deviations."""
        bits, magnitudes = SeededBits(0), []
        factor = module._Scale(Fraction(16 * scale) ** 2)
        for inside, coin in zip(
            bits.words(3_000).tolist(), bits.words(3_000).tolist(), strict=True
        ):
            magnitude, keep = _decide_by_integers(factor, 64, inside, coin, bits)
            assert keep or magnitude == 0
            if keep:
                magnitudes.append(magnitude)
        assert len(magnitudes) > 2_300
        edges = np.r_[np.arange(64, 90, 2), 2000] * scale
        expected = -np.diff(norm.sf((edges - 0.5) / (16 * scale)))
        expected[0] = norm.sf(4) - norm.sf((edges[1] - 0.5) / (16 * scale))
        counts = np.histogram(magnitudes, bins=edges)[0]
        assert counts.sum() == len(magnitudes)
        assert_fits(counts, expected / norm.sf(4))


def decide_by_floats(sigma2, block, inside, coin):
    words = (np.array(values, dtype=np.uint64) for values in (inside, coin))
    return module._decide_by_floats(module._Scale(Fraction(sigma2)), np.array(block), *words)


PRECISE = decimal.Context(prec=70)


def possible_outcomes(sigma2, block, inside, coin):
    """Ranges of the acceptance probability, the coin and the rounded number, given the words."""
    with decimal.localcontext(PRECISE):
        ends = [block + Decimal((inside >> 1) + more) / 2**63 for more in (0, 1)]
        highest, lowest = ((-(x * x - block**2) / 512).exp() for x in ends)
        factor = (Decimal(sigma2.numerator) / sigma2.denominator).sqrt() / 16
        rounded = [
            int((factor * x + Decimal("0.5")).to_integral(decimal.ROUND_FLOOR)) for x in ends
        ]
        return (lowest, highest), (Decimal(coin) / 2**64, Decimal(coin + 1) / 2**64), rounded


def near(value, offset):
    """A word close to a number in [0, 1]."""
    return min(max(int(value * 2**64) + offset, 0), ONES)


words = st.integers(0, ONES)
offsets = st.integers(-70, 70).map(lambda k: int(math.copysign(2 ** (abs(k) / 2), k)))
variances = st.one_of(
    st.fractions(Fraction(1, 10**4), 100, max_denominator=10**6),
    st.integers(1, 2**60).map(Fraction),
    st.integers(0, 60).map(lambda k: Fraction(2**k)),
)


class TestFloats:
    """Floats are certain only if every continuation of the words gives the same result."""

    def check(self, sigma2, block, inside, coin):
        chances, coins, rounded = possible_outcomes(sigma2, block, inside, coin)
        (magnitude,), (keep,), (certain,) = decide_by_floats(sigma2, [block], [inside], [coin])
        if certain and keep:
            assert coins[1] <= chances[0]
            assert rounded[0] == rounded[1] == magnitude
        elif certain:
            assert coins[0] >= chances[1]
        return certain

    @settings(max_examples=300, deadline=None)
    @given(variances, st.integers(0, 63), words, words)
    def test_anywhere(self, sigma2, block, inside, coin):
        self.check(sigma2, block, inside, coin)

    @settings(max_examples=300, deadline=None)
    @given(variances, st.integers(0, 63), words, offsets)
    def test_near_the_acceptance_probability(self, sigma2, block, inside, offset):
        (lowest, _), *_ = possible_outcomes(sigma2, block, inside, 0)
        certain = self.check(sigma2, block, inside, near(lowest, offset))
        assert not (certain and abs(offset) < 2**10)

    @pytest.mark.parametrize("block", [0, 5, 31, 50, 63])
    @pytest.mark.parametrize("inside", [ONES, 3 * 2**62 + 12345, 2**62, 1])
    def test_decided_beyond_the_error_bound(self, block, inside):
        sigma2 = Fraction(1, 1000)  # rounds to 0
        (lowest, highest), *_ = possible_outcomes(sigma2, block, inside, 0)
        for coin in (near(lowest, -(2**17)), near(highest, 2**17)):
            assert coin == ONES or self.check(sigma2, block, inside, coin)

    @settings(max_examples=300, deadline=None)
    @given(variances, st.integers(0, 63), words, offsets)
    def test_near_a_half(self, sigma2, block, inside, offset):
        with decimal.localcontext(PRECISE):
            factor = (Decimal(sigma2.numerator) / sigma2.denominator).sqrt() / 16
            x = block + Decimal(inside) / 2**64
            half = int(factor * x) + Decimal("0.5")
            inside = (
                near(half / factor - block, offset) if 0 <= half / factor - block < 1 else inside
            )
        self.check(sigma2, block, inside, 0)

    def test_floats_decide_nearly_always(self):
        bits = SeededBits(0)
        block = np.arange(64).repeat(1000)
        for sigma2, share in [
            (Fraction(1, 3), 1e-4),
            (Fraction(10**6), 1e-4),
            (Fraction(2**60), 1e-3),
        ]:
            certain = decide_by_floats(sigma2, block, bits.words(64_000), bits.words(64_000))[2]
            assert (~certain).mean() <= share
        assert not decide_by_floats(1, [64], [5], [5])[2].any()  # the tail is for integers


class TestUndecided:
    """Words that leave the outcome undecided: the digits after them decide it."""

    # a whole number of blocks, so that boundaries are dyadic
    SCALE = module._Scale(Fraction(256))

    @pytest.mark.parametrize(("block", "inside"), [(0, 1 << 40), (5, ONES // 3), (63, ONES - 1)])
    @pytest.mark.parametrize("off", [-1000, 1000])
    def test_the_coin(self, block, inside, off):
        number = Fraction((block << 63) + (inside >> 1), 1 << 63)  # with zeros from there on
        chance, _ = exp_minus((number**2 - block**2) / 512, 128)
        script = Script([], [(chance + off) % 2**64, 0])
        magnitude, keep = _decide_by_integers(self.SCALE, block, inside, chance >> 64, script)
        assert keep == (off < 0)
        assert magnitude == (round(number) if keep else 0)
        assert script.answers == []
        # the very digits of the chance: twice as many are asked for
        longer, _ = exp_minus((number**2 - block**2) / 512, 256)
        coin, rest = chance >> 64, (longer >> 128) % 2**64
        script = Script([], [rest, 0, (longer + off) % 2**128, 0])
        assert _decide_by_integers(self.SCALE, block, inside, coin, script)[1] == (off < 0)
        assert script.answers == []

    @pytest.mark.parametrize("block", [0, 7, 63])
    @pytest.mark.parametrize(
        ("inside", "answers", "up"),
        [
            (1 << 63, [0], 1),  # 0.1000...
            ((1 << 63) - 2, [0], 0),  # 0.0111... and then zeros
            ((1 << 63) - 2, [2**65 - 1, 0], 0),
            ((1 << 63) - 2, [2**65 - 1, 2**128 - 1, 2**256 - 2], 0),
        ],
    )
    def test_the_boundary_of_two_integers(self, block, inside, answers, up):
        script = Script([], answers)
        number = module._Uniform(script, inside >> 1, 63)
        assert self.SCALE.round_exactly(block, number) == block + up
        assert script.answers == []
        # with the coin before it, whose digits keep the proposal for sure
        script = Script([], [0, *answers])
        assert _decide_by_integers(self.SCALE, block, inside, 0, script) == (block + up, True)
        (certain,) = decide_by_floats(Fraction(256), [block], [inside], [0])[2]
        assert not certain

    @settings(max_examples=100, deadline=None)
    @given(variances, st.integers(0, 63), words, st.integers(0, 2**65 - 1))
    def test_exact_rounding(self, sigma2, block, inside, rest):
        number = module._Uniform(Script([], [rest, 0]), inside >> 1, 63)
        found = module._Scale(sigma2).round_exactly(block, number)
        with decimal.localcontext(PRECISE):
            x = block + Decimal(((inside >> 1) << 65) + rest) / 2**128
            scaled = (Decimal(sigma2.numerator) / sigma2.denominator).sqrt() / 16 * x
            assert abs(scaled - found) <= Decimal("0.5") + Decimal(10) ** -25

    @pytest.mark.parametrize(("low_bit", "sign"), [(0, 1), (1, -1)])
    def test_a_complete_draw(self, low_bit, sign):
        """Block 2 of 16 blocks of 10 each, half-way: 25; the lowest bit is the sign."""
        block = int(module._blocks()._words[1]) - 1  # below the second threshold, above the third
        others = [ONES] * 16
        script = Script([block, *others, (1 << 63) | low_bit, *others, 0, *others])
        assert rounded_gaussian(Fraction(160**2), 1, script).tolist() == [25 * sign]

    def test_rejected_proposals_are_skipped(self):
        first = int(module._blocks()._words[1]) - 1
        words = [first, first, *[ONES] * 15, 1 << 63, 1 << 61, *[0] * 15, ONES, 0, *[0] * 15]
        assert rounded_gaussian(Fraction(160**2), 1, Script(words)).tolist() == [21]

    def test_digits_are_drawn_once(self):
        number = module._Uniform(Script([], [0b01]), 0b1011, 4)
        assert [number.digits(p) for p in (4, 6, 4, 2)] == [0b1011, 0b101101, 0b1011, 0b10]
