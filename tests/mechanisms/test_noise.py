"""Discrete Laplace noise: exact tables, exact distributions, the rare branches."""

import decimal
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import norm

from tests.helpers import FALSE_ALARM, assert_fits
from tests.internals.mechanisms import (
    SeededBits,
    discrete_laplace,
    random_bits,
    rounded_gaussian,
)
from tests.internals.mechanisms import discrete_laplace_module as module

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


@pytest.mark.parametrize("scale", [*SCALES, Fraction(2**30), Fraction(1, 10**30)])
def test_geometric_digits(scale):
    geometric = module._Geometric(1 / scale)
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


def laplace_shares(scale, edges):
    """P(edges[i] <= x < edges[i + 1]), from the geometric series."""
    q = math.exp(-1 / scale)
    edges = np.asarray(edges, dtype=float)
    upper = q ** np.maximum(edges, 0) / (1 + q)  # P(x >= edge) from 1 on, and at 0 by symmetry
    lower = q ** np.maximum(1 - edges, 0) / (1 + q)
    return np.diff(np.where(edges >= 1, 1 - upper, lower))


def assert_distribution(scale, size, seed=0):
    values = discrete_laplace(scale, size, SeededBits(seed))
    step = max(1, round(float(scale) / 4))
    edges = np.r_[-(2**40), np.arange(-30, 32) * step, 2**40]
    counts = np.histogram(values, bins=edges)[0]
    assert_fits(counts, laplace_shares(float(scale), edges))
    return values


@pytest.mark.parametrize("scale", SCALES)
def test_draws_fit_the_distribution(scale):
    values = assert_distribution(scale, 100_000)
    if scale > 1000:  # the low digits are uniform up to e^(-scale)
        for modulus in (2, 16, 4096):
            assert_fits(np.bincount(values % modulus), np.full(modulus, 1 / modulus))
        assert_fits(np.bincount(values % 2 + 2 * (values > 0)), np.full(4, 0.25))


@pytest.mark.parametrize("scale", [Fraction(7, 3), Fraction(10**6), Fraction(2**30)])
def test_mean_and_variance(scale):
    values = discrete_laplace(scale, 100_000, SeededBits(1)) / float(scale)
    variance = 1 / (2 * math.sinh(1 / (2 * scale)) ** 2 * float(scale) ** 2)
    fourth = 6 * variance**2
    limit = norm.isf(FALSE_ALARM / 2)
    assert abs(values.mean()) <= limit * math.sqrt(variance / len(values))
    spread = math.sqrt((fourth - variance**2) / len(values))
    assert abs((values**2).mean() - variance) <= limit * spread * 1.1  # 6.0 only roughly


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 3), Fraction(40), Fraction(10**5)])
def test_ends_of_the_tables(scale, monkeypatch):
    """With short tables, draws beyond the table are common."""
    monkeypatch.setattr(module, "GEOMETRIC_REACH", Fraction(1, 4))
    monkeypatch.setattr(module, "_geometric", lru_cache(module._Geometric))
    assert_distribution(scale, 100_000)


class Script:
    """Prescribed words and bits."""

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
    """A word that equals the digits of a threshold: the next digits decide the comparison."""

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
        table = module._Thresholds(lambda precision: [third(precision)])
        for word, expected in [(self.WORD - 1, 1), (self.WORD + 1, 0)]:
            assert table.count_above(1, Script([word])).tolist() == [expected]
        script = Script([self.WORD], answers)
        assert table.count_above(1, script).tolist() == [int(below)]
        assert script.answers == []

    @pytest.mark.parametrize(
        ("second", "count"), [(-1, 3), (0x100, 2), (0x1000, 2), (0x10000, 1), (1 << 60, 1)]
    )
    def test_thresholds_with_equal_words(self, second, count):
        def bounds(precision):
            one, shift = (1 << precision) - 1, Fraction(0x8000, 1 << 128)
            return [(one, one + 1), third(precision, shift), third(precision)]

        table = module._Thresholds(bounds)
        script = Script([self.WORD], [ONES // 3 + second])
        assert table.count_above(1, script).tolist() == [count]
        assert script.answers == []

    def test_bounds_that_are_too_wide_are_computed_again(self):
        precisions = []

        def bounds(precision):
            precisions.append(precision)
            return [third(precision) if precision > 200 else (0, 1 << precision)]

        table = module._Thresholds(bounds)
        assert precisions == [128, 256]
        assert table._words.tolist() == [self.WORD]

    def test_thresholds_of_zero_and_one(self):
        table = module._Thresholds(lambda precision: [(1 << precision,) * 2, (0, 0)])
        script = Script([ONES, 0], [ONES, 0])
        assert table.count_above(2, script).tolist() == [1, 1]
        assert script.answers == []

    @pytest.mark.parametrize(("answer", "value"), [(0, 3), (ONES, 2)])
    def test_a_complete_draw(self, answer, value):
        word = module._Geometric(Fraction(1, 10))._high._words[2]
        script = Script([word, ONES], [answer])
        assert discrete_laplace(Fraction(10), 1, script).tolist() == [value]

    def test_a_draw_beyond_the_table_is_continued(self):
        last = module._Geometric(Fraction(1, 10))._last
        script = Script([0, 0, ONES, ONES], [ONES])
        assert discrete_laplace(Fraction(10), 1, script).tolist() == [2 * last]


@pytest.mark.parametrize("draw", [discrete_laplace, rounded_gaussian])
class TestInterface:
    def test_seeds_repeat(self, draw):
        one, same, other = (draw(Fraction(2500), 1000, SeededBits(s)) for s in (3, 3, 4))
        assert one.tolist() == same.tolist() != other.tolist()

    @pytest.mark.parametrize("size", [0, 1, 17])
    def test_shape_and_type(self, draw, size):
        values = draw(Fraction(5), size, random_bits())
        assert values.shape == (size,)
        assert values.dtype == np.int64
        values += 1  # nobody else's memory

    @pytest.mark.parametrize("power", [4, 300, 700])
    def test_next_to_no_noise(self, draw, power):
        assert not draw(Fraction(1, 10**power), 1000, SeededBits(0)).any()

    @pytest.mark.parametrize("spread", [Fraction(0), Fraction(-1), Fraction(10**30)])
    def test_invalid_spreads_are_refused(self, draw, spread):
        with pytest.raises(ValueError, match=r"positive and at most|sigma2"):
            draw(spread, 1, SeededBits(0))

    def test_invalid_sizes_are_refused(self, draw):
        with pytest.raises(ValueError, match="size must"):
            draw(Fraction(1), -1, SeededBits(0))
