"""Discrete Laplace and Gaussian noise: exact tables, exact distributions, the rare branches."""

import decimal
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import norm

from skpublicdp.mechanisms import noise
from skpublicdp.mechanisms.noise import discrete_gaussian, discrete_laplace
from skpublicdp.mechanisms.randomness import SeededBits, random_bits
from tests.helpers import FALSE_ALARM, assert_fits

SCALES = [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(0.1), Fraction(40), Fraction(10**5)]
ONES = (1 << 64) - 1
PRECISE = decimal.Context(prec=80)


def exp_minus(x):
    with decimal.localcontext(PRECISE):
        return (decimal.Decimal(-x.numerator) / decimal.Decimal(x.denominator)).exp()


def assert_table(table, exact):
    """Check the words of a table, and its bounds, against 80-digit decimals."""
    bounds = table._bounds(160)
    with decimal.localcontext(PRECISE):
        assert len(table._words) == len(bounds) == len(exact)
        slack = decimal.Decimal(10) ** -15
        for word, (lower, upper), value in zip(table._words.tolist(), bounds, exact, strict=True):
            assert word - slack <= value * 2**64 <= word + 1 + slack
            assert lower - slack <= value * 2**160 <= upper + slack
            assert upper - lower <= 64


class TestTables:
    @pytest.mark.parametrize("scale", [*SCALES, Fraction(2**30), Fraction(1, 10**30)])
    def test_geometric_digits(self, scale):
        geometric = noise._Geometric(1 / scale)
        rate = 1 / scale
        for digit in geometric._digits:
            powers = [exp_minus(rate * k) for k in range(4097)]
            with decimal.localcontext(PRECISE):
                survival = [(p - powers[-1]) / (1 - powers[-1]) for p in powers[1:-1]]
            assert_table(digit, survival)
            rate *= 4096
        powers = [exp_minus(rate * k) for k in range(1, geometric._last + 1)]
        assert_table(geometric._high, powers)
        assert float(rate) * geometric._last >= 8  # few start anew

    @pytest.mark.parametrize("sigma2", [s**2 for s in SCALES])
    def test_blocks(self, sigma2):
        gaussian = noise._Gaussian(sigma2)
        rate = gaussian._width**2 / (2 * sigma2)
        last = gaussian._last
        assert gaussian._width * last > 4 * math.sqrt(sigma2)
        with decimal.localcontext(PRECISE):
            blocks = [exp_minus(rate * h * h) for h in range(last)]
            tail, step = [], 0
            while not tail or tail[-1] > tail[0] * decimal.Decimal(10) ** -60:
                tail.append(exp_minus(rate * (last**2 + 2 * last * step)))
                step += 1
            total = sum(blocks) + sum(tail)
            beyond = [(sum(blocks[k:]) + sum(tail)) / total for k in range(1, last + 1)]
        assert_table(gaussian._blocks, beyond)

    @pytest.mark.parametrize("sigma2", [Fraction(32**2), Fraction(10**10), Fraction(2**60)])
    def test_coins_cover_all_exponents(self, sigma2):
        gaussian = noise._Gaussian(sigma2)
        width, last = gaussian._width, gaussian._last
        largest = (width - 1) * (2 * width * last + width - 1)
        assert largest < 1 << 12 * len(gaussian._coins._digits)
        assert largest < 1 << 62
        assert 16 * width <= math.isqrt(int(sigma2))
        for position, digit in enumerate(gaussian._coins._digits):
            rate = 4096**position / (2 * sigma2)
            assert_table(digit, [exp_minus(rate * k) for k in range(4096)])


def laplace_shares(scale, edges):
    """P(edges[i] <= x < edges[i + 1]), from the geometric series."""
    q = math.exp(-1 / scale)
    edges = np.asarray(edges, dtype=float)
    upper = q ** np.maximum(edges, 0) / (1 + q)  # P(x >= edge) from 1 on, and at 0 by symmetry
    lower = q ** np.maximum(1 - edges, 0) / (1 + q)
    return np.diff(np.where(edges >= 1, 1 - upper, lower))


def gaussian_shares(scale, edges):
    if scale >= 1000:  # the discrete and the continuous agree far beyond what draws can tell
        return np.diff(norm.cdf((np.asarray(edges) - 0.5) / scale))
    reach = int(40 * scale) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * scale**2))
    cumulative = np.concatenate([[0], np.cumsum(weights / weights.sum())])
    return np.diff(cumulative[np.clip(np.asarray(edges) + reach, 0, len(cumulative) - 1)])


KINDS = {
    "laplace": (discrete_laplace, laplace_shares, lambda scale: scale),
    "gaussian": (discrete_gaussian, gaussian_shares, lambda scale: scale**2),
}


def assert_distribution(kind, scale, size, seed=0):
    sample, shares, parameter = KINDS[kind]
    values = sample(parameter(scale), size, SeededBits(seed))
    step = max(1, round(float(scale) / 4))
    edges = np.r_[-(2**40), np.arange(-30, 32) * step, 2**40]
    counts = np.histogram(values, bins=edges)[0]
    assert_fits(counts, shares(float(scale), edges))
    return values


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", KINDS)
def test_draws_fit_the_distribution(kind, scale):
    values = assert_distribution(kind, scale, 100_000)
    if scale > 1000:  # the low digits are uniform up to e^(-scale)
        for modulus in (2, 16, 4096):
            assert_fits(np.bincount(values % modulus), np.full(modulus, 1 / modulus))
        assert_fits(np.bincount(values % 2 + 2 * (values > 0)), np.full(4, 0.25))


@pytest.mark.parametrize("scale", [Fraction(7, 3), Fraction(10**6), Fraction(2**30)])
@pytest.mark.parametrize("kind", KINDS)
def test_mean_and_variance(kind, scale):
    sample, _, parameter = KINDS[kind]
    values = sample(parameter(scale), 100_000, SeededBits(1)) / float(scale)
    if kind == "laplace":
        variance = 1 / (2 * math.sinh(1 / (2 * scale)) ** 2 * float(scale) ** 2)
        fourth = 6 * variance**2
    else:
        variance = 1.0  # up to e^(-2 pi^2 scale^2)
        fourth = 3.0
    limit = norm.isf(FALSE_ALARM / 2)
    assert abs(values.mean()) <= limit * math.sqrt(variance / len(values))
    spread = math.sqrt((fourth - variance**2) / len(values))
    assert abs((values**2).mean() - variance) <= limit * spread * 1.1  # Laplace: 6.0 only roughly


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 3), Fraction(40), Fraction(10**5)])
@pytest.mark.parametrize("kind", KINDS)
def test_ends_of_the_tables(kind, scale, monkeypatch):
    """With tables that end early, the rare ways out of them are common."""
    monkeypatch.setattr(noise, "GEOMETRIC_REACH", Fraction(1, 4))
    monkeypatch.setattr(noise, "GAUSSIAN_REACH", 1)
    monkeypatch.setattr(noise, "_geometric", lru_cache(noise._Geometric))
    monkeypatch.setattr(noise, "_gaussian", lru_cache(noise._Gaussian))
    assert_distribution(kind, scale, 100_000 if kind == "laplace" else 5_000)


def test_coins_of_many_digits():
    exponents = np.array([0, 1, 4095, 4096, 3 * 4096 + 17, 3 * 4096**2 + 5])
    rate = Fraction(1, 10**7)
    coins = noise._Coins(rate, int(exponents.max()) + 1)
    n = 20_000
    true = coins.flip(np.repeat(exponents, n), SeededBits(0)).reshape(-1, n).sum(axis=1)
    assert true[0] == n
    for exponent, count in zip(exponents[1:].tolist(), true[1:], strict=True):
        probability = math.exp(-float(rate) * exponent)
        assert_fits([count, n - count], [probability, 1 - probability])


@pytest.mark.parametrize("sigma2", [Fraction(10**12, 7), Fraction(2**60)])
def test_rejection_makes_up_for_the_blocks(sigma2, monkeypatch):
    """A magnitude n in the block that starts at m is kept with probability e^(-(n² - m²) r)."""
    gaussian, exponents = noise._Gaussian(sigma2), []

    def flip(chances, bits):
        exponents.extend(chances.tolist())
        return np.ones(len(chances), dtype=bool)

    monkeypatch.setattr(gaussian._coins, "flip", flip)
    monkeypatch.setattr(gaussian, "_propose_in_tail", lambda rest, bits: (rest, True))
    magnitudes = abs(gaussian.try_some(3000, SeededBits(0))).tolist()
    starts = [n - n % gaussian._width for n in magnitudes]
    expected = [n**2 - start**2 for n, start in zip(magnitudes, starts, strict=True)]
    assert sum(e == f for e, f in zip(expected, exponents, strict=True)) >= 2990  # less the tail


class Script:
    """Words and bits as they are dictated."""

    secure = False

    def __init__(self, words, answers=()):
        self.dictated = list(words)
        self.answers = list(answers)

    def words(self, count):
        taken, self.dictated = self.dictated[:count], self.dictated[count:]
        return np.array(taken, dtype=np.uint64)

    def bits(self, count):
        return self.answers.pop(0) & ((1 << count) - 1)


def third(precision, plus=0):
    """Enclose 1/3 + plus, plus a multiple of 2^-128."""
    lower = (1 << precision) // 3 + int(plus * (1 << precision))
    return lower, lower + 1


class TestUndecided:
    """A word that equals the digits of a threshold decides nothing; the next digits do."""

    WORD = ONES // 3  # binary 0101...

    @pytest.mark.parametrize(
        ("answers", "below"),
        [
            ([ONES // 3 - 1], True),
            ([ONES // 3 + 1], False),
            ([ONES // 3, (1 << 128) // 3 - 1], True),
            ([ONES // 3, (1 << 128) // 3 + 1], False),
        ],
    )
    def test_one_threshold(self, answers, below):
        table = noise._Thresholds(lambda precision: [third(precision)])
        for index, word, expected in [(0, self.WORD - 1, True), (0, self.WORD + 1, False)]:
            assert table.below(np.array([index]), Script([word])).tolist() == [expected]
            assert table.count_above(1, Script([word])).tolist() == [int(expected)]
        script = Script([self.WORD], answers)
        assert table.below(np.array([0]), script).tolist() == [below]
        assert script.answers == []
        assert table.count_above(1, Script([self.WORD], answers)).tolist() == [int(below)]

    @pytest.mark.parametrize(
        ("second", "count"),
        [(-1, 3), (0x100, 2), (0x1000, 2), (0x10000, 1), (1 << 60, 1)],
    )
    def test_thresholds_with_equal_words(self, second, count):
        def bounds(precision):
            one, shift = (1 << precision) - 1, Fraction(0x8000, 1 << 128)
            return [(one, one + 1), third(precision, shift), third(precision)]

        table = noise._Thresholds(bounds)
        script = Script([self.WORD], [ONES // 3 + second])
        assert table.count_above(1, script).tolist() == [count]
        assert script.answers == []

    def test_words_that_prove_nothing_are_computed_again(self):
        asked = []

        def bounds(precision):
            asked.append(precision)
            return [third(precision) if precision > 200 else (0, 1 << precision)]

        table = noise._Thresholds(bounds)
        assert asked == [128, 256]
        assert table._words.tolist() == [self.WORD]

    def test_certainty(self):
        table = noise._Thresholds(lambda precision: [(1 << precision,) * 2, (0, 0)])
        words = [ONES, ONES, 0]
        script = Script(words, [ONES, ONES, 0])
        assert table.below(np.array([0, 1, 1]), script).tolist() == [True, False, False]

    @pytest.mark.parametrize(("answer", "value"), [(0, 3), (ONES, 2)])
    def test_a_whole_draw(self, answer, value):
        word = noise._Geometric(Fraction(1, 10))._high._words[2]
        script = Script([word, ONES], [answer])
        assert discrete_laplace(Fraction(10), 1, script).tolist() == [value]

    def test_the_end_of_the_table_starts_anew(self):
        last = noise._Geometric(Fraction(1, 10))._last
        script = Script([0, 0, ONES, ONES], [ONES])
        assert discrete_laplace(Fraction(10), 1, script).tolist() == [2 * last]


@pytest.mark.parametrize("kind", KINDS)
class TestInterface:
    def test_seeds_repeat(self, kind):
        sample, _, parameter = KINDS[kind]
        one, same, other = (sample(parameter(50), 1000, SeededBits(s)) for s in (3, 3, 4))
        assert one.tolist() == same.tolist() != other.tolist()

    @pytest.mark.parametrize("size", [0, 1, 17])
    def test_shape_and_type(self, kind, size):
        values = KINDS[kind][0](Fraction(5), size, random_bits())
        assert values.shape == (size,)
        assert values.dtype == np.int64
        values += 1  # nobody else's memory

    @pytest.mark.parametrize("parameter", [Fraction(1, 10**30), Fraction(1, 10**300)])
    def test_next_to_no_noise(self, kind, parameter):
        assert not KINDS[kind][0](parameter, 1000, SeededBits(0)).any()

    @pytest.mark.parametrize("parameter", [Fraction(0), Fraction(-1), Fraction(10**30)])
    def test_senseless_scales_are_refused(self, kind, parameter):
        with pytest.raises(ValueError, match="must be positive and at most"):
            KINDS[kind][0](parameter, 1, SeededBits(0))

    def test_senseless_sizes_are_refused(self, kind):
        with pytest.raises(ValueError, match="size must not be negative"):
            KINDS[kind][0](Fraction(1), -1, SeededBits(0))
