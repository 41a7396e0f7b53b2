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
from scipy.special import logsumexp
from scipy.stats import norm

from skpublicdp.accounting import (
    Draw,
    Gaussian,
    Mechanism,
    PrivacyReceipt,
    Pure,
    exact_fraction,
    rho_price,
    zcdp_epsilon,
    zcdp_rho,
)
from skpublicdp.guarantees import excess_error
from tests.helpers import best_delta, readings, two_down, two_up
from tests.internals.accounting import zcdp
from tests.internals.mechanisms import Leaf, SeededBits, draw, probabilities


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


def test_receipts_say_once_what_happened_often():
    """A growing fit visits each column several times; all uses stay in its rows."""
    visits, other = Mechanism("visit", 0.1, 0.0, "theorem"), Mechanism("visit", 0.2, 0.0, "theorem")
    used = (visits, other, visits, visits)
    receipt = PrivacyReceipt(1.0, 0.0, "unit", 5, 3, used, True, event=Draw(1))
    assert "mechanisms  3 × visit (ε = 0.1, δ = 0)\n" in repr(receipt)
    assert " visit (ε = 0.2, δ = 0)\n" in repr(receipt)
    assert receipt._repr_html_().count("visit") == 2
    assert "<td>3 × visit</td>" in receipt._repr_html_()
    assert len(receipt.rows()) == 4


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
    return logsumexp(alpha * log_p + (1 - alpha) * log_q) / (alpha - 1)


ORDERS = [1.01, 1.5, 2, 5, 20]


class TestRho:
    """By the definition: Rényi divergences of at most α ρ."""

    @pytest.mark.parametrize("sigma", [0.5, 7.0])
    @pytest.mark.parametrize("shift", [1, 3])
    def test_gaussian(self, sigma, shift):
        rho = rho_price(Gaussian(Fraction(shift) ** 2 / Fraction(sigma) ** 2))
        edges = np.arange(-400, 402) - 0.5
        p, q = (np.diff(norm.cdf(edges, center, sigma)) for center in (0, shift))
        for alpha in ORDERS:
            assert renyi(p, q, alpha) <= alpha * rho * (1 + 1e-9)
        if sigma > 1:  # rounding tells next to nothing, so that no smaller ρ would do
            assert renyi(p, q, 2) == pytest.approx(2 * float(rho), rel=0.01)

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
    def test_pure(self, epsilon):
        rho = rho_price(Pure(epsilon))
        p = np.array([math.exp(epsilon), 1]) / (1 + math.exp(epsilon))
        worst = max(renyi(p, p[::-1], alpha) / alpha for alpha in ORDERS)
        assert 0.2 * rho <= worst <= rho

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
    def test_exponential(self, epsilon):
        rho = rho_price(Draw(epsilon))
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


budgets = st.fractions(min_value=0, max_value=20, max_denominator=10**6)
deltas = st.fractions(Fraction(1, 10**12), Fraction(999, 1000))
rhos = st.fractions(min_value=Fraction(1, 10**6), max_value=20, max_denominator=10**6)


class TestConversion:
    @settings(max_examples=30)
    @given(rhos, deltas)
    def test_epsilon_is_the_inverse_rounded_up(self, rho, delta):
        epsilon = zcdp_epsilon(rho, delta)
        margin = 1 + decimal.Decimal(10) ** -25
        target = decimal.Decimal(delta.numerator) / delta.denominator
        assert best_delta(rho, min(readings(epsilon))) <= target * margin
        if epsilon > 0:
            assert best_delta(rho, Fraction(two_down(epsilon))) >= target / margin

    @settings(max_examples=30)
    @given(budgets, deltas)
    def test_rho_is_the_inverse_rounded_down(self, epsilon, delta):
        rho = zcdp_rho(epsilon, delta)
        assert isinstance(rho, Fraction)
        target = decimal.Decimal(delta.numerator) / delta.denominator
        assert best_delta(rho, epsilon) <= target
        assert best_delta(rho * (1 + Fraction(1, 2**62)), epsilon) >= target
        assert (rho.numerator).bit_length() <= 66
        assert zcdp_epsilon(rho, delta) <= two_up(float(epsilon))

    @settings(max_examples=30)
    @given(rhos, deltas, st.fractions(1, 10, max_denominator=100))
    def test_monotone(self, rho, delta, factor):
        assert zcdp_epsilon(rho * factor, delta) >= zcdp_epsilon(rho, delta)
        assert zcdp_epsilon(rho, delta / factor) >= zcdp_epsilon(rho, delta)

    @pytest.mark.parametrize("rho", [0.001, 0.05, 0.5, 3.0])
    @pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
    def test_epsilon_covers_the_gaussian_mechanism(self, rho, delta):
        """The hockey-stick divergence of two normal densities at distance sqrt(2 rho)."""
        shift, epsilon = math.sqrt(2 * rho), zcdp_epsilon(rho, delta)

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
        assert true <= delta <= 12 * true  # and it is not far off

    @pytest.mark.parametrize("rho", [Fraction(1, 999), Fraction(1, 3)])
    def test_epsilon_is_on_the_safe_side_before_it_is_a_float(self, rho, monkeypatch):
        monkeypatch.setattr(zcdp, "float_above", lambda value: value)
        epsilon = Fraction(7, 5)
        above = Fraction(zcdp_epsilon(rho, Fraction(best_delta(rho, epsilon))))
        assert epsilon < above <= epsilon * (1 + Fraction(1, 10**25))

    def test_pure_budgets_come_back(self):
        """What is spent as ε costs no less than ε once it is converted twice, at a tiny δ."""
        assert zcdp_epsilon(rho_price(Draw(1)), 1e-12) > 1

    def test_ends_of_the_range(self):
        assert zcdp_epsilon(0, 0.1) == zcdp_epsilon(1e-60, 0.5) == 0.0
        assert zcdp_epsilon(1e300, 1e-9) >= 1e300
        assert 0 < zcdp_rho(0, 5e-324) < Fraction(1, 10**600)
        assert 0 < zcdp_rho(5e-324, 1e-6) <= zcdp_rho(1e-12, 1e-6)
        assert zcdp_rho(1, 1 - 2**-53) > 1

    @pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
    def test_senseless_deltas_are_refused(self, delta):
        for function in (zcdp_epsilon, zcdp_rho):
            with pytest.raises(ValueError, match="delta must lie"):
                function(1, delta)

    @pytest.mark.parametrize("value", [-1, math.inf, math.nan])
    def test_senseless_budgets_are_refused(self, value):
        for function, name in [
            (lambda v: zcdp_epsilon(v, 0.1), "rho"),
            (lambda v: zcdp_rho(v, 0.1), "epsilon"),
        ]:
            with pytest.raises(ValueError, match=f"{name} must"):
                function(value)

    def test_the_callers_decimals_are_left_alone(self):
        with decimal.localcontext(prec=5) as context:
            context.clear_flags()
            few = zcdp_rho.__wrapped__(1, 1e-6), zcdp_epsilon(0.01, 1e-6)
            assert context.prec == 5
            assert not context.flags[decimal.Inexact]
        assert few == (zcdp_rho.__wrapped__(1, 1e-6), zcdp_epsilon(0.01, 1e-6))


@pytest.mark.parametrize("rho", [0.001, 0.03125, 1.0])
def test_agrees_with_dp_accounting(rho):
    accountant = pytest.importorskip("dp_accounting.rdp").rdp_privacy_accountant
    orders = 1 + np.geomspace(1e-2, 1e4, 4000)
    epsilon, _ = accountant.compute_epsilon(orders, orders * rho, 1e-6)
    # theirs is the best of the listed orders, so that it may be a little larger
    assert zcdp_epsilon(rho, 1e-6) * (1 - 1e-9) <= epsilon <= zcdp_epsilon(rho, 1e-6) * (1 + 1e-4)


@pytest.mark.parametrize("scale", [1.0, 4.0, 50.0])
def test_agrees_with_opendp(scale):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    gaussian = dp.m.make_gaussian(*space, scale)
    rho = rho_price(Gaussian(1 / Fraction(scale) ** 2))
    assert gaussian.map(1) == pytest.approx(float(rho), rel=1e-12)
    profile = dp.c.make_zCDP_to_approxDP(gaussian).map(1)
    for delta in (1e-9, 1e-3):
        assert profile.epsilon(delta) == pytest.approx(zcdp_epsilon(rho, delta), rel=1e-6)
    laplace = dp.m.make_laplace(*space, scale)
    pure = Pure(Fraction(laplace.map(1)))
    assert dp.c.make_pureDP_to_zCDP(laplace).map(1) == pytest.approx(float(rho_price(pure)))
