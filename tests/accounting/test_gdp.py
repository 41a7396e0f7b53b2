"""Gaussian differential privacy: the exact curve, its inverses, every rounding on the safe side."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from skpublicdp.accounting import gaussian_delta, gaussian_epsilon, gaussian_mu_squared, zcdp_rho
from tests.helpers import best_delta, readings, two_down, two_up
from tests.internals.accounting import gdp

pytestmark = pytest.mark.once

TINY = Decimal(10) ** -25
PRECISION = 500


def as_decimal(value):
    value = Fraction(value)
    return Decimal(value.numerator) / value.denominator


@lru_cache
def pi():
    """Gauss and Legendre's means, independent of the code's series."""
    a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), Decimal(1)
    for _ in range(10):
        mean = (a + b) / 2
        a, b, t, p = mean, (a * b).sqrt(), t - p * (a - mean) ** 2, 2 * p
    return (a + b) ** 2 / (4 * t)


def distribution(z):
    """Φ by the alternating series of the error function, to the last but cancelled digits."""
    term, total, k = z, Decimal(0), 0
    while abs(term) > Decimal(10) ** -(PRECISION - 10):
        total += term / (2 * k + 1)
        k += 1
        term = -term * z * z / (2 * k)
    return Decimal("0.5") + total / (2 * pi()).sqrt()


def reference(mu_squared, epsilon):
    """Theorem 8 of Balle and Wang by its formula, with 500 digits; enough up to 30 deviations."""
    with decimal.localcontext(prec=PRECISION, Emin=-999_999, Emax=999_999):
        mu, epsilon = as_decimal(mu_squared).sqrt(), as_decimal(epsilon)
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        assert b < 30
        return distribution(-a) - epsilon.exp() * distribution(-b)


budgets = st.fractions(min_value=0, max_value=20, max_denominator=10**6)
squares = st.fractions(min_value=Fraction(1, 10**4), max_value=400, max_denominator=10**6)
deltas = st.fractions(Fraction(1, 10**12), Fraction(999, 1000))


def computable(mu_squared, epsilon):
    mu = math.sqrt(mu_squared)
    return epsilon / mu + mu / 2 < 29


def test_the_reference():
    with decimal.localcontext(prec=PRECISION):
        assert str(pi()).startswith(
            "3.14159265358979323846264338327950288419716939937510582097494459"
        )
        for z in (-9, -1, 0, 0.5, 3):
            assert float(distribution(Decimal(z))) == pytest.approx(norm.cdf(z), rel=1e-12)


class TestCurve:
    @settings(max_examples=60, deadline=None)
    @given(squares, budgets)
    def test_delta_is_the_formula_rounded_up(self, mu_squared, epsilon):
        assume(computable(mu_squared, epsilon))
        delta, best = gaussian_delta(mu_squared, epsilon), reference(mu_squared, epsilon)
        assert min(readings(delta)) >= Fraction(best)
        assert two_down(delta) <= best * (1 + TINY)

    @settings(max_examples=40, deadline=None)
    @given(squares, deltas)
    def test_epsilon_is_the_inverse_rounded_up(self, mu_squared, delta):
        epsilon = gaussian_epsilon(mu_squared, delta)
        assume(computable(mu_squared, epsilon))
        assert reference(mu_squared, min(readings(epsilon))) <= as_decimal(delta)
        if epsilon > 0:
            assert reference(mu_squared, two_down(epsilon)) >= as_decimal(delta) / (1 + TINY)

    @settings(max_examples=40, deadline=None)
    @given(budgets, deltas)
    def test_mu_squared_is_the_inverse_rounded_down(self, epsilon, delta):
        mu_squared = gaussian_mu_squared(epsilon, delta)
        assert isinstance(mu_squared, Fraction)
        assume(computable(mu_squared, epsilon))
        assert reference(mu_squared, epsilon) <= as_decimal(delta)
        assert reference(mu_squared * (1 + Fraction(1, 2**62)), epsilon) >= as_decimal(delta)
        assert mu_squared.numerator.bit_length() <= 66
        assert gaussian_epsilon(mu_squared, delta) <= two_up(float(epsilon))

    @settings(max_examples=30, deadline=None)
    @given(squares, budgets, deltas, st.fractions(1, 10, max_denominator=100))
    def test_monotone(self, mu_squared, epsilon, delta, factor):
        more = mu_squared * factor
        assert gaussian_delta(more, epsilon) >= gaussian_delta(mu_squared, epsilon)
        assert gaussian_delta(mu_squared, epsilon * factor) <= gaussian_delta(mu_squared, epsilon)
        assert gaussian_epsilon(more, delta) >= gaussian_epsilon(mu_squared, delta)
        assert gaussian_mu_squared(epsilon * factor, delta) >= gaussian_mu_squared(epsilon, delta)

    @settings(max_examples=30, deadline=None)
    @given(squares, budgets, deltas)
    def test_never_worse_than_zcdp(self, mu_squared, epsilon, delta):
        by_zcdp = max(float(best_delta(mu_squared / 2, epsilon)), 5e-324)
        assert gaussian_delta(mu_squared, epsilon) <= by_zcdp
        assert gaussian_mu_squared(epsilon, delta) >= 2 * zcdp_rho(epsilon, delta)

    def test_how_much_better(self):
        gain = [
            gaussian_mu_squared(epsilon, 1e-6) / (2 * zcdp_rho(epsilon, 1e-6))
            for epsilon in (0.1, 0.5, 1)
        ]
        assert [round(float(g), 2) for g in gain] == [1.18, 1.16, 1.15]

    @pytest.mark.parametrize("mu_squared", [0.01, 1.0, 9.0])
    @pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.5])
    def test_agrees_with_scipy(self, mu_squared, epsilon):
        mu = math.sqrt(mu_squared)
        first, second = norm.cdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        found = gaussian_delta(mu_squared, epsilon)
        assert found == pytest.approx(first - math.exp(epsilon) * second, rel=1e-9, abs=1e-15)


CASES = [
    *((Fraction(m), Fraction(e)) for m in (0.01, 0.3, 25) for e in (0, 0.03, 1)),
    (Fraction(1, 10**30), Fraction(1, 10**16)),
    (Fraction(300), Fraction(3)),
    (Fraction(1, 3), Fraction(12)),
]


class TestSafeSide:
    """Bounds are safe before they are floats."""

    @pytest.mark.parametrize(("mu_squared", "epsilon"), CASES)
    def test_the_enclosure(self, mu_squared, epsilon):
        true = reference(mu_squared, epsilon)
        lower, upper = gdp._enclose_to_tolerance(mu_squared, epsilon)
        with decimal.localcontext(prec=PRECISION):
            assert lower < true < upper <= lower * (1 + 2 * gdp.ENCLOSURE_TOLERANCE)
        for digits in (20, 30, 50, 100, 300):
            with decimal.localcontext(gdp.decimal_context(digits)):
                lower, upper = gdp._enclose_delta(mu_squared, epsilon)
            assert lower <= true <= upper

    @pytest.mark.parametrize("z", ["0", "1e-40", "0.5", "3", "4.9999", "5", "5.0001", "12", "29"])
    @pytest.mark.parametrize("digits", [20, 60, 120])
    def test_mills_ratio(self, z, digits):
        z = Decimal(z)
        with decimal.localcontext(gdp.decimal_context(digits)):
            ratio, error = gdp._mills_ratio(z)
        with decimal.localcontext(prec=PRECISION):
            true = distribution(-z) * (z * z / 2).exp() * (2 * pi()).sqrt()
            assert abs(ratio - true) <= error <= Decimal(10) ** (8 - digits // 2) * true

    @pytest.mark.parametrize("z", ["1e3", "1e9", "1e150"])
    def test_mills_ratio_far_out(self, z):
        z = Decimal(z)
        with decimal.localcontext(gdp.decimal_context(700)):
            ratio, error = gdp._mills_ratio(z)
            assert error < ratio * Decimal(10) ** -300
            assert (1 - Decimal("1.1") / z**2) / z < ratio < 1 / z

    @pytest.mark.parametrize("digits", [1, 20, 50, 300])
    def test_pi(self, digits):
        with decimal.localcontext(prec=PRECISION):
            assert abs(gdp._compute_pi(digits) - pi()) < Decimal(10) ** -(digits + 3)

    @pytest.mark.parametrize("mu_squared", [Fraction(1, 999), Fraction(1, 3)])
    @pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 50)])
    def test_before_they_are_floats(self, mu_squared, epsilon, monkeypatch):
        monkeypatch.setattr(gdp, "float_above", lambda value: value)
        true = reference(mu_squared, epsilon)
        with decimal.localcontext(prec=90):
            assert true < gaussian_delta(mu_squared, epsilon) <= true * (1 + TINY)


class TestNoise:
    """What the curve covers and what it does not."""

    @pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 4.0])
    @pytest.mark.parametrize("shift", [1, 2])
    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
    def test_it_covers_rounded_noise(self, sigma, shift, epsilon):
        edges = np.arange(-60, 62) - 0.5
        p, q = (np.diff(norm.cdf(edges, center, sigma)) for center in (0, shift))
        true = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        delta = gaussian_delta(Fraction(shift**2) / Fraction(sigma) ** 2, epsilon)
        assert 0 < true <= delta * (1 + 1e-12)
        if epsilon == 0 and shift == 1:
            assert true == pytest.approx(delta)  # nothing less would do: the boundary is a half

    def test_it_does_not_cover_the_discrete_gaussian(self):
        weights = np.exp(-2.0 * np.arange(-20, 21) ** 2)  # sigma2 = 1/4
        p = np.r_[weights, 0] / weights.sum()
        true = np.maximum(p - np.roll(p, 1), 0).sum()
        assert gaussian_delta(4, 0) < 0.69 < 0.78 < true
        assert true <= best_delta(Fraction(2), Fraction(0))  # zCDP does

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0])
    def test_it_does_not_cover_exponential_mechanisms(self, epsilon):
        """Two rules whose scores a row can swap, as far as a budget of ε goes."""
        p = 1 / (1 + math.exp(-epsilon / 2))
        true = p - (1 - p)
        assert true == pytest.approx(math.tanh(epsilon / 4))
        assert true > gaussian_delta(Fraction(epsilon) ** 2 / 4, 0)

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0])
    def test_what_holds_for_pure_budgets(self, epsilon):
        """Randomised response of budget ε is of μ = 2 Φ^-1(e^ε / (1 + e^ε)), and of no less."""
        p = 1 / (1 + math.exp(-epsilon))
        mu = 2 * norm.ppf(p)
        assert gaussian_delta(mu**2 * (1 + 1e-9), 0) >= 2 * p - 1
        assert gaussian_delta(mu**2 * (1 - 1e-6), 0) < 2 * p - 1
        for other in np.linspace(0, epsilon, 9)[:-1]:
            assert gaussian_delta(mu**2 * (1 + 1e-9), other) >= p - math.exp(other) * (1 - p)

    def test_measurements_compose_by_squares(self):
        """Two independent measurements, each of its own scale: the curve of the sum is theirs."""
        one, two, epsilon = 0.3, 0.8, 0.4
        grid = np.linspace(-9, 9, 1201)
        x, y = np.meshgrid(grid, grid)
        p = norm.pdf(x, one) * norm.pdf(y, two)
        q = norm.pdf(x) * norm.pdf(y)
        true = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (grid[1] - grid[0]) ** 2
        assert gaussian_delta(one**2 + two**2, epsilon) == pytest.approx(true, rel=1e-4)


class TestEnds:
    def test_ends_of_the_range(self):
        assert gaussian_delta(0, 1) == gaussian_delta(0, 0) == gaussian_epsilon(0, 0.1) == 0.0
        assert 0 < gaussian_delta(1e-320, 1) <= 1e-323  # underflowed, not zero
        assert 1e-272 < gaussian_delta(Fraction(1, 35**2), 1) < 1e-270  # far out, and computed
        assert gaussian_delta(1e300, 1) == 1.0
        assert gaussian_delta(1e6, 1) == 1.0
        assert gaussian_delta(1e-300, 0) == pytest.approx(1e-150 / math.sqrt(2 * math.pi))
        assert gaussian_epsilon(1e-60, 0.5) == 0.0
        assert gaussian_epsilon(1e300, 1e-9) >= 5e299
        assert 0 < gaussian_mu_squared(0, 5e-324) < Fraction(1, 10**600)
        assert 0 < gaussian_mu_squared(5e-324, 1e-6) <= gaussian_mu_squared(1e-12, 1e-6)
        assert gaussian_mu_squared(1, 1 - 2**-53) > 200
        assert gaussian_mu_squared(1e300, 1e-9) == pytest.approx(2e300)

    def test_nothing_spent_beyond_the_curve_at_0(self):
        delta = Fraction(gaussian_delta(1, 0))
        assert gaussian_epsilon(1, delta) == 0.0
        assert 0 < gaussian_epsilon(1, delta * (1 - Fraction(1, 10**12))) < 1e-10

    @pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan, Fraction(1, 10**100_001)])
    def test_senseless_deltas_are_refused(self, delta):
        for function in (gaussian_epsilon, gaussian_mu_squared):
            with pytest.raises(ValueError, match="delta"):
                function(1, delta)

    @pytest.mark.parametrize("value", [-1, math.inf, math.nan])
    def test_senseless_budgets_are_refused(self, value):
        for function, name in [
            (lambda v: gaussian_delta(v, 1), "mu_squared"),
            (lambda v: gaussian_delta(1, v), "epsilon"),
            (lambda v: gaussian_epsilon(v, 0.1), "mu_squared"),
            (lambda v: gaussian_mu_squared(v, 0.1), "epsilon"),
        ]:
            with pytest.raises(ValueError, match=f"{name} must"):
                function(value)

    def test_the_callers_decimals_are_left_alone(self):
        def few():
            return (
                gaussian_delta(0.01, 1),
                gaussian_mu_squared(1, 1e-6),
                gaussian_epsilon(0.01, 1e-6),
            )

        with decimal.localcontext(prec=5) as context:
            context.clear_flags()
            found = few()
            assert context.prec == 5
            assert not context.flags[decimal.Inexact]
        assert found == few()


@pytest.mark.parametrize("sigma", [0.7, 3.0, 40.0])
def test_agrees_with_dp_accounting(sigma):
    mechanism = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    loss = mechanism.GaussianPrivacyLoss(sigma)
    for epsilon in (0.0, 0.1, 1.0):
        delta = gaussian_delta(1 / Fraction(sigma) ** 2, epsilon)
        if delta > 1e-12:  # theirs is a difference of floats
            assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-4)
    for delta in (1e-6, 1e-2):
        found = mechanism.GaussianPrivacyLoss.from_privacy_guarantee(
            mechanism.common.DifferentialPrivacyParameters(1.0, delta)
        )
        expected = 1 / gaussian_mu_squared(1, delta)
        assert found.standard_deviation**2 == pytest.approx(float(expected), rel=1e-4)
