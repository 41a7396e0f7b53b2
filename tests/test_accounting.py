"""Receipts, guarantees and zCDP."""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from skpublicdp.accounting import (
    Draw,
    Mechanism,
    PrivacyReceipt,
    exact_fraction,
    exponential_rho,
    gaussian_rho,
    pure_rho,
    zcdp,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from skpublicdp.guarantees import Certificate, excess_error
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.mechanisms.randomness import SeededBits
from skpublicdp.mechanisms.selection import draw, probabilities
from tests.helpers import readings, two_down, two_up


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        (0.1 + 0.2, Fraction("0.30000000000000004")),
        (5e-324, Fraction(5, 10**324)),
        (np.float64(0.7), Fraction(7, 10)),
        (np.float32(0.5), Fraction(1, 2)),
        (True, Fraction(1)),
        (np.int64(3), Fraction(3)),
        (10**30, Fraction(10**30)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_budgets_are_read_exactly(value, expected):
    fraction = exact_fraction(value)
    assert fraction == expected
    assert type(fraction.numerator) is int


def test_receipts_are_frozen_values():
    receipt = PrivacyReceipt(
        1.0, 0.0, "unit", 5, 3, (Mechanism("draw", 1.0, 0.0, "theorem"),), True, event=Draw(1)
    )
    assert receipt == PrivacyReceipt(**{**vars(receipt)})
    assert "secure generator" in repr(receipt)
    with pytest.raises(TypeError, match="event"):  # none would be free of charge
        PrivacyReceipt(1.0, 0.0, "unit", 5, 3, (), True)
    with pytest.raises(AttributeError):
        receipt.delta = 1.0


def test_excess_error_holds_as_often_as_it_says():
    """On the exact probabilities: the mass above the bound is at most beta."""
    rng = np.random.default_rng(0)
    n, beta = 200, 0.1
    for epsilon in (0.1, 1.0):
        for errors in (np.arange(n), np.r_[0, np.full(300, 40)], rng.integers(0, n, 500)):
            slack = excess_error(len(errors), n, epsilon, beta)
            bounds = probabilities(Leaf(errors.astype(np.int64)), exact_fraction(epsilon), 1)
            mass = [upper for _, upper in bounds.values()]
            above = errors > errors.min() + slack * n
            assert sum(np.array(mass)[above]) <= beta


def test_excess_error_is_monotone_and_scales():
    base = excess_error(10**6, 1000, 1.0, 0.05)
    assert excess_error(10**7, 1000, 1.0, 0.05) > base
    assert excess_error(10**6, 2000, 1.0, 0.05) == pytest.approx(base / 2)
    assert excess_error(10**6, 1000, 2.0, 0.05) == pytest.approx(base / 2)
    assert excess_error(10**6, 1000, 1.0, 0.05, sensitivity=3) == pytest.approx(3 * base)
    assert excess_error(10**6, 1000, 1.0, 0.5) < base
    assert excess_error(10**400, 1000, 1.0, 0.05) < 2  # beyond the range of floats


def test_certificate_reads_well():
    assert str(Certificate(0.0123, 0.95, 10)) == (
        "error on the scored rows within 0.0123 of the best in the cover, with probability 0.95"
    )


def test_a_draw_is_not_free_of_epsilon():
    """A sanity check of the direction: more budget, better draws."""
    errors = np.arange(100, dtype=np.int64)
    means = [
        np.mean([draw(Leaf(errors), Fraction(e), 1, SeededBits(s)) for s in range(200)])
        for e in (0.01, 0.1, 1.0)
    ]
    assert means[0] > means[1] > means[2]


def renyi(p, q, alpha):
    """The Rényi divergence of order alpha, by its definition, less what underflowed."""
    kept = (p > 0) & (q > 0)
    log_p, log_q = np.log(p[kept]), np.log(q[kept])
    return math.log(np.exp(alpha * log_p + (1 - alpha) * log_q).sum()) / (alpha - 1)


def discrete_gaussian_masses(sigma2, center):
    weights = np.exp(-((np.arange(-400, 401) - center) ** 2) / (2 * float(sigma2)))
    return weights / weights.sum()


ORDERS = [1.01, 1.5, 2, 5, 20]


class TestRho:
    """By the definition: Rényi divergences of at most α ρ."""

    @pytest.mark.parametrize("sigma2", [Fraction(1, 3), Fraction(50)])
    @pytest.mark.parametrize("shift", [1, 3])
    def test_gaussian(self, sigma2, shift):
        rho = gaussian_rho(shift**2, sigma2)
        assert rho == Fraction(shift**2) / (2 * sigma2)
        p, q = (discrete_gaussian_masses(sigma2, center) for center in (0, shift))
        for alpha in [1.5, 2, 3]:
            # integer orders shift by integers: equality, so that no smaller ρ would do
            assert renyi(p, q, alpha) <= alpha * rho * (1 + 1e-9)
            if alpha != 1.5:
                assert renyi(p, q, alpha) == pytest.approx(alpha * float(rho), rel=1e-9)

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
    def test_pure(self, epsilon):
        assert pure_rho(epsilon) == Fraction(str(epsilon)) ** 2 / 2
        p = np.array([math.exp(epsilon), 1]) / (1 + math.exp(epsilon))
        worst = max(renyi(p, p[::-1], alpha) / alpha for alpha in ORDERS)
        assert 0.2 * pure_rho(epsilon) <= worst <= pure_rho(epsilon)

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
    def test_exponential(self, epsilon):
        rho = exponential_rho(epsilon)
        assert rho == Fraction(str(epsilon)) ** 2 / 8
        worst = 0.0
        for errors in (np.array([0, 1]), np.array([0, 1, 1, 5]), np.r_[0, np.full(9, 2)]):
            for change in itertools.product([-1, 0, 1], repeat=min(len(errors), 4)):
                moved = errors.copy()
                moved[: len(change)] += change
                p, q = (np.exp(-epsilon * e / 2) for e in (errors, moved))
                p, q = p / p.sum(), q / q.sum()
                worst = max(worst, *(renyi(p, q, alpha) / alpha for alpha in ORDERS))
        assert worst <= rho * (1 + 1e-9)
        assert worst >= 0.6 * rho or epsilon > 1

    @pytest.mark.parametrize("value", [-1, math.inf, math.nan])
    def test_senseless_budgets_are_refused(self, value):
        for function in (pure_rho, exponential_rho):
            with pytest.raises(ValueError, match="epsilon must be a finite number"):
                function(value)

    def test_senseless_noise_is_refused(self):
        with pytest.raises(ValueError, match="sensitivity_squared must not be negative"):
            gaussian_rho(-1, 1)
        with pytest.raises(ValueError, match="sigma2 must be positive"):
            gaussian_rho(1, 0)


def best_delta(rho, epsilon):
    """The infimum of Corollary 13 by bisection on its derivative, with 90 digits."""
    with decimal.localcontext(prec=90):
        rho, epsilon = (decimal.Decimal(v.numerator) / v.denominator for v in (rho, epsilon))
        low, high = decimal.Decimal(10) ** -25, (epsilon + 70) / rho + 1
        for _ in range(220):
            beta = (low + high) / 2
            if (2 * beta + 1) * rho - epsilon - (1 + 1 / beta).ln() < 0:
                low = beta
            else:
                high = beta
        power = beta * (beta + 1) * rho - beta * epsilon
        return (power + beta * beta.ln() - (beta + 1) * (beta + 1).ln()).exp()


budgets = st.fractions(min_value=0, max_value=20, max_denominator=10**6)
rhos = st.fractions(min_value=Fraction(1, 10**6), max_value=20, max_denominator=10**6)


class TestConversion:
    @settings(max_examples=30)
    @given(rhos, budgets)
    def test_delta_is_the_infimum_rounded_up(self, rho, epsilon):
        delta, best = zcdp_delta(rho, epsilon), best_delta(rho, epsilon)
        assert min(readings(delta)) >= Fraction(best)
        assert two_down(delta) <= best * (1 + decimal.Decimal(10) ** -25)

    @settings(max_examples=30)
    @given(rhos, st.fractions(Fraction(1, 10**12), Fraction(999, 1000)))
    def test_epsilon_is_the_inverse_rounded_up(self, rho, delta):
        epsilon = zcdp_epsilon(rho, delta)
        margin = 1 + decimal.Decimal(10) ** -25
        target = decimal.Decimal(delta.numerator) / delta.denominator
        assert best_delta(rho, min(readings(epsilon))) <= target * margin
        if epsilon > 0:
            assert best_delta(rho, Fraction(two_down(epsilon))) >= target / margin

    @settings(max_examples=30)
    @given(budgets, st.fractions(Fraction(1, 10**12), Fraction(999, 1000)))
    def test_rho_is_the_inverse_rounded_down(self, epsilon, delta):
        rho = zcdp_rho(epsilon, delta)
        assert isinstance(rho, Fraction)
        target = decimal.Decimal(delta.numerator) / delta.denominator
        assert best_delta(rho, epsilon) <= target
        assert best_delta(rho * (1 + Fraction(1, 2**62)), epsilon) >= target
        assert (rho.numerator).bit_length() <= 66
        assert zcdp_epsilon(rho, delta) <= two_up(float(epsilon))

    @settings(max_examples=30)
    @given(rhos, budgets, st.fractions(1, 10, max_denominator=100))
    def test_monotone(self, rho, epsilon, factor):
        assert zcdp_delta(rho * factor, epsilon) >= zcdp_delta(rho, epsilon)
        assert zcdp_delta(rho, epsilon * factor) <= zcdp_delta(rho, epsilon)

    @pytest.mark.parametrize("rho", [0.001, 0.05, 0.5, 3.0])
    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
    def test_delta_covers_the_gaussian_mechanism(self, rho, epsilon):
        """The hockey-stick divergence of two normal densities at distance sqrt(2 rho)."""
        shift = math.sqrt(2 * rho)

        def excess(x):
            return max(0.0, norm.pdf(x, shift) - math.exp(epsilon) * norm.pdf(x))

        edge = epsilon / shift + shift / 2  # the excess is positive from here on
        true, error = quad(excess, edge, max(edge, shift) + 12, epsabs=1e-300)
        assert error <= 1e-6 * true
        assert true == pytest.approx(
            norm.cdf(shift / 2 - epsilon / shift)
            - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift),
            rel=1e-6,
        )
        delta = zcdp_delta(rho, epsilon)
        assert true <= delta
        assert delta <= 12 * true or true < 1e-20  # and it is not far off

    @pytest.mark.parametrize("sigma2", [Fraction(1, 2), Fraction(10), Fraction(300)])
    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
    def test_delta_covers_the_discrete_gaussian(self, sigma2, epsilon):
        p, q = (discrete_gaussian_masses(sigma2, center) for center in (0, 2))
        true = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert true <= zcdp_delta(gaussian_rho(4, sigma2), epsilon)

    @pytest.mark.parametrize("rho", [Fraction(1, 999), Fraction(1, 3)])
    @pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(7, 5)])
    def test_bounds_are_on_the_safe_side_before_they_are_floats(self, rho, epsilon, monkeypatch):
        monkeypatch.setattr(zcdp, "float_above", lambda value: value)
        best, near = best_delta(rho, epsilon), 1 + decimal.Decimal(10) ** -25
        with decimal.localcontext(prec=90):
            assert best < zcdp_delta(rho, epsilon) <= best * near
            if epsilon:
                above = Fraction(zcdp_epsilon(rho, Fraction(best)))
                assert epsilon < above <= epsilon * Fraction(near)

    def test_pure_budgets_come_back(self):
        """What is spent as ε costs no less than ε once it is converted twice, at a tiny δ."""
        assert zcdp_epsilon(exponential_rho(1), 1e-12) > 1

    def test_ends_of_the_range(self):
        assert zcdp_delta(0, 1) == zcdp_delta(0, 0) == zcdp_epsilon(0, 0.1) == 0.0
        assert 0 < zcdp_delta(1e-320, 1) <= 1e-323  # underflowed, not zero
        assert zcdp_delta(1e300, 1) == 1.0
        assert zcdp_epsilon(1e-60, 0.5) == 0.0
        assert zcdp_epsilon(1e300, 1e-9) >= 1e300
        assert 0 < zcdp_rho(0, 5e-324) < Fraction(1, 10**600)
        assert 0 < zcdp_rho(5e-324, 1e-6) <= zcdp_rho(1e-12, 1e-6)
        assert zcdp_rho(1, 1 - 2**-53) > 1

    @pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
    def test_senseless_deltas_are_refused(self, delta):
        for function in (zcdp_epsilon, zcdp_rho):
            with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
                function(1, delta)

    @pytest.mark.parametrize("value", [-1, math.inf, math.nan])
    def test_senseless_budgets_are_refused(self, value):
        for function, name in [
            (lambda v: zcdp_delta(v, 1), "rho"),
            (lambda v: zcdp_delta(1, v), "epsilon"),
            (lambda v: zcdp_epsilon(v, 0.1), "rho"),
            (lambda v: zcdp_rho(v, 0.1), "epsilon"),
        ]:
            with pytest.raises(ValueError, match=f"{name} must be a finite number"):
                function(value)

    def test_the_callers_decimals_are_left_alone(self):
        with decimal.localcontext(prec=5) as context:
            context.clear_flags()
            few = zcdp_delta(0.01, 1), zcdp_rho(1, 1e-6), zcdp_epsilon(0.01, 1e-6)
            assert context.prec == 5
            assert not context.flags[decimal.Inexact]
        assert few == (zcdp_delta(0.01, 1), zcdp_rho(1, 1e-6), zcdp_epsilon(0.01, 1e-6))


@pytest.mark.parametrize("rho", [0.001, 0.03125, 1.0])
def test_agrees_with_dp_accounting(rho):
    accountant = pytest.importorskip("dp_accounting.rdp").rdp_privacy_accountant
    orders = 1 + np.geomspace(1e-2, 1e4, 4000)
    delta, _ = accountant.compute_delta(orders, orders * rho, 1.0)
    epsilon, _ = accountant.compute_epsilon(orders, orders * rho, 1e-6)
    # theirs is the best of the listed orders, so that it may be a little larger
    assert zcdp_delta(rho, 1) * (1 - 1e-9) <= delta <= zcdp_delta(rho, 1) * (1 + 1e-3)
    assert zcdp_epsilon(rho, 1e-6) * (1 - 1e-9) <= epsilon <= zcdp_epsilon(rho, 1e-6) * (1 + 1e-4)


@pytest.mark.parametrize("scale", [1.0, 4.0, 50.0])
def test_agrees_with_opendp(scale):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    gaussian = dp.m.make_gaussian(*space, scale)
    rho = gaussian_rho(1, Fraction(scale) ** 2)
    assert gaussian.map(1) == pytest.approx(float(rho), rel=1e-12)
    profile = dp.c.make_zCDP_to_approxDP(gaussian).map(1)
    for epsilon in (0.1, 0.5):
        assert profile.delta(epsilon) == pytest.approx(zcdp_delta(rho, epsilon), rel=1e-6)
    for delta in (1e-9, 1e-3):
        assert profile.epsilon(delta) == pytest.approx(zcdp_epsilon(rho, delta), rel=1e-6)
    laplace = dp.m.make_laplace(*space, scale)
    pure = Fraction(laplace.map(1))
    assert dp.c.make_pureDP_to_zCDP(laplace).map(1) == pytest.approx(float(pure_rho(pure)))
