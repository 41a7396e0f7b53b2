"""The theorems on data: what is promised holds as often as promised.

Most promises are conservative: they allow for the worst distribution and, by the union bound, for
every member to be bad. On easy data the learner fails far less often than beta, and a test finds
a broken draw but not a slightly wrong constant. The cases named tight have one good member,
and all others just too bad: half of epsilon is enough to break them.
"""

import itertools

import numpy as np
import pytest

from skpublicdp import SemiPrivateClassifier
from skpublicdp.accounting import exact_fraction
from skpublicdp.guarantees import (
    cover_radius,
    excess_error,
    n_finite,
    n_private,
    n_public,
    vc_dimension,
)
from skpublicdp.hypotheses import (
    Conjunctions,
    DecisionTrees,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
    Union,
)
from tests.helpers import allowed_failures, public_sample
from tests.internals.hypotheses import tabulate
from tests.internals.mechanisms import SeededBits, draw

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:Only .* public row")]

BETA = 0.2


class Exceptions:
    """A classifier by hand: the second label on some values of the first feature only."""

    classes_ = np.array([0, 1])

    def __init__(self, *values):
        self.values = values

    def predict(self, X):
        return np.isin(X[:, 0], self.values).astype(int)


def assert_failures_allowed(failures, trials, beta):
    """A rate of beta exceeds the limit with probability FALSE_ALARM only."""
    assert failures <= allowed_failures(trials, beta)


def predictions(cover, points):
    """Evaluate every member on every point, shape (members, points)."""
    family = cover.family(tabulate(cover, points[:0], []))
    return np.array([cover.hypothesis(path).predict(points) for path, _, _ in family.members()])


def label(truth, noise, rng):
    """Flip labels at random."""
    return truth ^ (rng.random(len(truth)) < noise)


# one draw: excess_error and certificate_

SQUARE = np.array(list(itertools.product(range(5), repeat=2)), dtype=float)
FEW = np.array([[0, 3], [1, 1], [2, 4], [3, 0], [4, 2]], dtype=float)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize(
    "hypotheses",
    [
        *(DecisionTrees(max_depth=2), Stumps(), Intervals(), Rectangles(), Conjunctions()),
        *(Halfspaces(), Union([Stumps(), Rectangles()])),
        FiniteClass([Exceptions(*range(low, low + 3)) for low in range(-2, 5)]),
    ],
    ids=lambda hypotheses: repr(hypotheses).split("[")[0],
)
def test_certificates_hold_for_every_class(hypotheses, noise):
    """Conservative: many members are nearly as good as the best one."""
    n, trials = 100, 60
    cover = hypotheses.build_cover(public_sample(FEW), alpha=0.1, beta=BETA)
    members = predictions(cover, SQUARE)
    clf = SemiPrivateClassifier(hypotheses, epsilon=1, alpha=0.1, beta=BETA, classes=(0, 1))
    rng = np.random.default_rng(0)
    failures = 0
    for trial in range(trials):
        cells = rng.integers(len(SQUARE), size=n)
        y = label(members[rng.integers(len(members)), cells], noise, rng)
        clf.set_params(random_state=trial).fit(SQUARE[cells], y, X_public=FEW)
        best = (members[:, cells] != y).mean(axis=1).min()
        assert clf.certificate_.excess_error < 0.5  # it promises something
        excess = np.mean(clf.predict(SQUARE[cells]) != y) - best
        failures += excess > clf.certificate_.excess_error
    assert_failures_allowed(failures, trials, BETA)


def test_a_certificate_is_nearly_used_up():
    """Tight: one model is always right, all others err on one more row than promised."""
    n, size, trials = 200, 30, 300
    promised = int(excess_error(size, n, 1.0, BETA) * n)
    X = (np.arange(n) <= promised).astype(float)[:, None]
    models = FiniteClass([Exceptions(), *[Exceptions(1.0)] * (size - 1)])
    clf = SemiPrivateClassifier(models, epsilon=1, beta=BETA, classes=(0, 1))
    failures = 0
    for trial in range(trials):
        clf.set_params(random_state=trial).fit(X, np.zeros(n, dtype=int), X_public=X[:1].copy())
        failures += clf.predict(X).mean() > clf.certificate_.excess_error
    assert failures > BETA * trials / 2  # and so a certificate of half the size would be refuted
    assert_failures_allowed(failures, trials, BETA)


# private rows: n_finite and n_private

DOMAIN = np.arange(10.0)[:, None]


@pytest.mark.parametrize(
    ("noise", "trials"),
    [(0.1, 50), *(pytest.param(noise, 200, marks=pytest.mark.slow) for noise in (0.0, 0.1))],
)
def test_rows_for_a_finite_family_suffice(noise, trials):
    """Tight for small epsilon: every pair of ten equally likely values is excepted by a model."""
    pairs = list(itertools.combinations(DOMAIN[:, 0], 2))
    models = FiniteClass([Exceptions(), *(Exceptions(*pair) for pair in pairs)])
    true_excess = (1 - 2 * noise) * 2 / len(DOMAIN)  # of every model but the first
    alpha, epsilon = 0.99 * true_excess, 0.01
    n = n_finite(alpha, BETA, epsilon, 1 + len(pairs))
    clf = SemiPrivateClassifier(models, epsilon=epsilon, classes=(0, 1))
    rng = np.random.default_rng(0)
    failures = 0
    for trial in range(trials):
        X = rng.choice(DOMAIN, size=n)
        y = label(np.zeros(n, dtype=int), noise, rng)
        clf.set_params(random_state=trial).fit(X, y, X_public=DOMAIN)
        failures += clf.predict(DOMAIN).any()
    assert_failures_allowed(failures, trials, BETA)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("noise", "constants"), [(0, "paper"), (0.1, "paper"), (0.1, "tight")])
def test_the_semi_private_learner_keeps_its_promise(noise, constants):
    """Thresholds of a uniform feature, labels flipped at random: the true error is known.

    A smoke test, which sees gross errors only.
    """
    alpha, beta, epsilon, trials = 0.3, 0.2, 1.0, 200
    m = n_public(alpha / 2, beta / 2, 1, constants=constants)
    n = n_private(alpha, beta, epsilon, 1, constants=constants)
    rng = np.random.default_rng(0)
    failures = 0
    for trial in range(trials):
        target = rng.random()
        public = public_sample(rng.random((m, 1)))
        X = rng.random((n, 1))
        y = (X[:, 0] > target) ^ (rng.random(n) < noise)
        cover = Thresholds().build_cover(public, alpha=1e-9, beta=beta / 2)
        assert cover.size == m + 1  # one member for each dichotomy
        family = cover.family(tabulate(cover, X, y))
        path = draw(family, exact_fraction(epsilon), 1, SeededBits(trial))
        grid = np.linspace(0, 1, 2001)[:, None]
        wrong = cover.hypothesis(path).predict(grid) != (grid[:, 0] > target)
        failures += (1 - 2 * noise) * wrong.mean() > alpha
    assert_failures_allowed(failures, trials, beta)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("hypotheses", [Stumps(), Intervals(), Halfspaces()], ids=repr)
def test_both_kinds_of_rows_suffice_on_a_finite_domain(hypotheses, noise):
    """Conservative: a few public rows already show the values that matter."""
    alpha, epsilon, trials = 0.25, 1.0, 40
    d = vc_dimension(hypotheses, 2)
    m, n = n_public(alpha / 2, BETA / 2, d), n_private(alpha, BETA, epsilon, d)
    whole = hypotheses.build_cover(public_sample(SQUARE), alpha=1e-9, beta=BETA)
    members = predictions(whole, SQUARE)
    clf = SemiPrivateClassifier(hypotheses, epsilon=epsilon, alpha=1e-9, classes=(0, 1))
    rng = np.random.default_rng(0)
    failures = 0
    for trial in range(trials):
        shares = rng.dirichlet(np.full(len(SQUARE), 1.0))
        truth = members[rng.integers(len(members))]
        cells = rng.choice(len(SQUARE), size=n, p=shares)
        X_public = rng.choice(SQUARE, size=m, p=shares)
        y = label(truth[cells], noise, rng)
        clf.set_params(random_state=trial).fit(SQUARE[cells], y, X_public=X_public)
        wrong = clf.predict(SQUARE) != truth
        failures += (1 - 2 * noise) * shares[wrong].sum() > alpha
    assert_failures_allowed(failures, trials, BETA)


# public rows: cover_radius


def test_public_thresholds_cover_as_often_as_promised():
    rng = np.random.default_rng(0)
    beta, trials = 0.1, 2000
    for m in (100, 400):
        cuts = np.sort(rng.random((trials, m)), axis=1)
        # the member that stands for a gap may be at its far end
        radius = np.diff(cuts, axis=1, prepend=0, append=1).max(axis=1)
        failures = (radius > cover_radius(m, 1, beta)).sum()
        assert_failures_allowed(failures, trials, beta)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("hypotheses", [Stumps(), Intervals(), Halfspaces()], ids=repr)
def test_public_rows_cover_a_finite_domain_as_often_as_promised(hypotheses):
    """Every dichotomy of the domain against its nearest member; conservative."""
    m, trials = 600, 40
    promised = cover_radius(m, vc_dimension(hypotheses, 2), BETA)
    assert promised < 0.4  # the constants alone are within a half of any rule
    whole = hypotheses.build_cover(public_sample(SQUARE), alpha=1e-9, beta=BETA)
    dichotomies = predictions(whole, SQUARE)
    rng = np.random.default_rng(0)
    failures = 0
    for _ in range(trials):
        shares = rng.dirichlet(np.full(len(SQUARE), 1.0))
        public = public_sample(rng.choice(SQUARE, size=m, p=shares))
        members = predictions(hypotheses.build_cover(public, alpha=1e-9, beta=BETA), SQUARE)
        agreement = dichotomies * shares @ members.T + (1 - dichotomies) * shares @ (1 - members).T
        failures += 1 - agreement.max(axis=1).min() > promised
    assert_failures_allowed(failures, trials, BETA)
