"""Risks of an attacker who guesses between two persons, and the ε of a risk, computed exactly."""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from skpublicdp.accounting import (
    Approximate,
    Draw,
    Gaussian,
    PrivacyReceipt,
    Pure,
    epsilon_from_risk,
    exact_fraction,
    gaussian_mu_squared,
    risk_from_epsilon,
)
from tests.helpers import two_down, two_up
from tests.internals.mechanisms import Leaf, probabilities

pytestmark = pytest.mark.once

EPSILONS = [1e-30, 1e-6, 0.1, 0.5, 1.0, 2.0, 7.0, 20.0]
DELTAS = [0.0, 1e-9, 1e-3, 0.2]
RISKS = [1e-20, 1e-6, 0.01, 0.05, 0.2, 0.4, 0.499]


def success(p, q):
    """The success rate of the best guess: all rules that map outcomes to p or q are tried."""
    rules = itertools.product((0, 1), repeat=len(p))
    return max(sum((p, q)[said][o] for o, said in enumerate(rule)) for rule in rules) / 2


def precise(epsilon, delta):
    """The risk by its formula, with 120 digits."""
    epsilon, delta = exact_fraction(epsilon), exact_fraction(delta)
    growth = (Decimal(epsilon.numerator) / epsilon.denominator).exp()
    return (growth - 1 + 2 * Decimal(delta.numerator) / delta.denominator) / (2 * (growth + 1))


@pytest.fixture(autouse=True)
def digits():
    with decimal.localcontext(prec=120):
        yield


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_randomised_response_that_may_reveal_attains_the_risk(epsilon, delta):
    """Four outcomes: S or S' for certain with probability δ, else a truthful or a false answer."""
    share = exact_fraction(delta)
    growth = (Decimal(repr(epsilon))).exp()
    truth = growth / (growth + 1)
    certain, open_ = (Decimal(v.numerator) / v.denominator for v in (share, 1 - share))
    p = [certain, Decimal(0), open_ * truth, open_ * (1 - truth)]
    q = [p[1], p[0], p[3], p[2]]
    # it is (ε, δ)-private: the largest excess over all events
    tolerance = Decimal(10) ** -100
    assert sum(max(Decimal(0), a - growth * b) for a, b in zip(p, q, strict=True)) <= (
        certain + tolerance
    )
    risk = risk_from_epsilon(epsilon, delta)
    best = success(p, q) - Decimal("0.5")
    assert two_down(risk) <= best <= Decimal(risk)
    assert abs(best - precise(epsilon, delta)) < tolerance


@pytest.mark.parametrize(("epsilon", "delta"), itertools.product([0.1, 1.0, 3.0], DELTAS))
def test_no_pair_that_is_close_has_a_larger_risk(epsilon, delta):
    """A linear programme over all pairs of four outcomes with two-sided excess at most δ."""
    growth, k = math.exp(epsilon), 4
    best = 0.0
    for above in range(1, k):  # the rule says p on the first outcomes
        # variables: p, q, and the excesses max(0, p - e^ε q) and max(0, q - e^ε p)
        gain = np.concatenate([-np.ones(above), np.zeros(k - above)])
        cost = np.concatenate([gain, -gain, np.zeros(2 * k)])
        eye, zero = np.eye(k), np.zeros((k, k))
        excess = np.block([[eye, -growth * eye, -eye, zero], [-growth * eye, eye, zero, -eye]])
        total = np.zeros((2, 4 * k))
        total[0, 2 * k : 3 * k] = total[1, 3 * k :] = 1
        mass = np.zeros((2, 4 * k))
        mass[0, :k] = mass[1, k : 2 * k] = 1
        found = linprog(
            cost,
            A_ub=np.vstack([excess, total]),
            b_ub=np.concatenate([np.zeros(2 * k), [delta, delta]]),
            A_eq=mass,
            b_eq=[1, 1],
        )
        best = max(best, -found.fun / 2)
    assert best == pytest.approx(risk_from_epsilon(epsilon, delta), abs=1e-8)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_draws(epsilon):
    """Exact probabilities of the draw of one of two rules, over all neighbours."""
    best = Fraction(0)
    for n in (1, 2, 3):
        for ones in range(n):  # one row turns from the one label to the other
            laws = []
            for errors in ([ones, n - ones], [ones + 1, n - ones - 1]):
                bounds = probabilities(Leaf(np.array(errors)), epsilon, 1)
                laws.append([bounds[rule][0] for rule in (0, 1)])
            best = max(best, success(*laws) - Fraction(1, 2))
    risk = risk_from_epsilon(float(epsilon), kind="draw")
    assert float(best) == pytest.approx(risk, rel=1e-12)
    assert best <= Fraction(risk)


def worst_distance(budgets, u=1.0):
    """The operators of the draws applied to max(0, 1 - u), with adaptive intervals."""
    u = np.asarray(u, dtype=float)
    if not budgets:
        return np.maximum(0, 1 - u)
    epsilon, *later = budgets
    low = np.exp(-np.linspace(0, epsilon, 41))  # the ratio is either this or e^ε times as large
    high = math.exp(epsilon) * low
    share = (high - 1) / (high - low)
    ends = (worst_distance(later, u[..., None] * end) for end in (low, high))
    return sum(part * end for part, end in zip((share, 1 - share), ends, strict=True)).max(axis=-1)


DRAWS = [[1], [6], [0.5, 0.5], [1, 2], [2, 1], [0.01, 5], [5, 0.01], [0.3, 0.3, 0.4], [3, 1, 0.5]]


@pytest.mark.parametrize("budgets", DRAWS)
def test_several_draws_have_no_larger_risk_than_one(budgets):
    """Theorem 10 of docs/proofs/plans.md, by its bound on the Hellinger affinity."""
    distance = float(worst_distance(budgets))
    risk = risk_from_epsilon(math.fsum(budgets), kind="draw")
    affinity = math.prod(1 / math.cosh(budget / 4) for budget in budgets)
    bound = math.sqrt(1 - affinity**2)
    assert distance <= bound + 1e-12
    assert bound <= 2 * risk + 1e-12
    if len(budgets) == 1:
        assert distance == pytest.approx(2 * risk)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 0.01])
def test_gaussian_noise(epsilon, delta):
    """The best threshold between N(0, 1) and N(μ, 1) is the middle."""
    mu = math.sqrt(gaussian_mu_squared(exact_fraction(epsilon), exact_fraction(delta)))
    at = np.linspace(mu / 2 - 1, mu / 2 + 1, 2001)
    rates = (norm.cdf(at) + norm.sf(at, loc=mu)) / 2
    risk = risk_from_epsilon(epsilon, delta, kind="gaussian")
    assert rates.max() - 0.5 == pytest.approx(risk, rel=1e-9, abs=1e-15)
    assert risk <= risk_from_epsilon(epsilon, delta)


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("delta", DELTAS)
def test_inverse_of_any(risk, delta):
    if delta >= 2 * risk:
        with pytest.raises(ValueError, match="risk must lie"):
            epsilon_from_risk(risk, delta)
        return
    epsilon = epsilon_from_risk(risk, delta)
    exact = Decimal(repr(risk))
    assert precise(epsilon, delta) <= exact < precise(two_up(epsilon), delta)
    if not delta:
        assert epsilon_from_risk(risk, kind="draw") == 2 * epsilon


@pytest.mark.parametrize("risk", [1e-5, 0.01, 0.05, 0.2, 0.4, 0.499])
@pytest.mark.parametrize("delta", [1e-12, 1e-6])
def test_inverse_of_gaussian_noise(risk, delta):
    epsilon = epsilon_from_risk(risk, delta, kind="gaussian")
    assert risk_from_epsilon(epsilon, delta, kind="gaussian") <= two_up(risk)
    assert risk_from_epsilon(epsilon * (1 + 1e-12), delta, kind="gaussian") > risk
    assert epsilon > epsilon_from_risk(risk, delta)


def test_ends():
    assert risk_from_epsilon(0) == 0.0
    assert risk_from_epsilon(0, 0.2) == pytest.approx(0.1)
    assert risk_from_epsilon(1e9) == risk_from_epsilon(1e9, kind="draw") == 0.5
    assert epsilon_from_risk(0.05, kind="draw") == pytest.approx(2 * math.log(0.55 / 0.45))


@pytest.mark.parametrize(
    ("event", "epsilon", "delta", "kind"),
    [
        (Pure(Fraction(1)), 1.0, 0.0, "any"),
        (Draw(Fraction(1)), 1.0, 0.0, "draw"),
        (Approximate(Fraction(1), Fraction(1, 1000)), 1.0, 0.001, "any"),
        (Gaussian(gaussian_mu_squared(Fraction(1), Fraction(1, 10**6))), 1.0, 1e-6, "gaussian"),
    ],
)
def test_receipts_of_one_mechanism_have_these_risks(event, epsilon, delta, kind):
    receipt = PrivacyReceipt(epsilon, delta, "row", 100, 10, (), True, event=event)
    risk = risk_from_epsilon(epsilon, delta, kind=kind)
    assert risk <= two_up(receipt.risk)
    assert receipt.risk == pytest.approx(risk, rel=4e-3)  # the grid of the plan
    percent = math.ceil(10 * (50 + 100 * receipt.risk)) / 10
    assert f"at most {percent:.1f}% of the time" in receipt.in_words()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1, 0.0, "any"), "epsilon must"),
        ((1, -0.1, "any"), "delta must"),
        ((1, 1.0, "any"), "delta must be a"),
        ((1, 1e-6, "draw"), "kind='draw'"),
        ((1, 0.0, "gaussian"), "delta must lie"),
        ((1, 0.0, "laplace"), "kind must"),
    ],
)
def test_what_is_refused(values, message):
    epsilon, delta, kind = values
    with pytest.raises(ValueError, match=message):
        risk_from_epsilon(epsilon, delta, kind=kind)
    if epsilon > 0:
        with pytest.raises(ValueError, match=message):
            epsilon_from_risk(0.3, delta, kind=kind)
    for risk in (0.5, 0.7):
        with pytest.raises(ValueError, match="risk must lie"):
            epsilon_from_risk(risk)
    with pytest.raises(TypeError, match="risk must be a number"):
        epsilon_from_risk("0.05")
