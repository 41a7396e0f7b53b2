"""The theorems as functions: against brute force, as inverses, in their shape."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom, dlaplace, norm

from skpublicdp.accounting import Gaussian, Pure, Sensitivity, gaussian_mu_squared
from skpublicdp.guarantees import (
    SampleSize,
    cover_radius,
    dichotomies_radius,
    epsilon_finite,
    excess_error,
    finite_excess,
    growth_function,
    n_blr_learner,
    n_finite,
    n_generic_learner,
    n_label_boost,
    n_ppm,
    n_ppm_paper,
    n_private,
    n_public,
    n_query_release,
    n_query_release_lower,
    n_stumps,
    n_subsampling,
    n_uniform,
    sampling_error,
    vc_dimension,
)
from tests.helpers import FALSE_ALARM
from tests.internals.guarantees import log_growth, population_share_bound
from tests.internals.privacy import Ledger

pytestmark = pytest.mark.once

# growth functions against brute force


def labelings(predicates, points):
    return {tuple(bool(predicate(point)) for point in points) for predicate in predicates}


@pytest.mark.parametrize("m", range(1, 9))
def test_growth_of_thresholds_and_intervals_is_exact(m):
    points = range(m)
    cuts = np.arange(m + 1) - 0.5
    thresholds = [lambda x, a=a: x > a for a in cuts]
    intervals = [lambda x, a=a, b=b: a < x < b for a in cuts for b in cuts]
    assert growth_function(m, 1) == len(labelings(thresholds, points))
    assert growth_function(m, 2) == len(labelings(intervals, points))


@pytest.mark.parametrize(("d", "m"), [(1, 6), (2, 4), (2, 6), (2, 7), (3, 5), (3, 6)])
def test_growth_of_halfspaces_in_general_position_is_exact(d, m):
    points = np.c_[np.random.default_rng(d * m).normal(size=(m, d)), np.ones(m)]
    separable = 0
    for signs in itertools.product((-1, 1), repeat=m):
        margins = -np.array(signs)[:, None] * points
        separable += linprog(np.zeros(d + 1), margins, -np.ones(m), bounds=(None, None)).success
    assert separable == 2 * growth_function(m - 1, d)  # Cover (1965), Theorem 1


class Stumps:
    """A level has C(m, k) labellings, and each feature gives two of them: its ends."""

    def growth(self, m, n_features):
        return 2 + sum(min(math.comb(m, k), 2 * n_features) for k in range(1, m))


@pytest.mark.parametrize("n_features", [1, 2, 3, 5])
@pytest.mark.parametrize("m", range(1, 8))
def test_growth_of_stumps_is_an_upper_bound(n_features, m):
    rng = np.random.default_rng(m)
    for _ in range(20):
        X = rng.normal(size=(m, n_features))
        cuts = itertools.product(range(n_features), rng.permutation(X.ravel()))
        stumps = [lambda x, f=f, t=t, s=s: (x[f] > t) == s for f, t in cuts for s in (True, False)]
        assert len(labelings(stumps, X)) <= Stumps().growth(m, n_features)


def test_stumps_shatter_as_many_rows_as_their_bound_allows():
    for n_features, orders in {1: ["ab"], 2: ["abc", "cab"], 3: ["abcd", "cadb", "bcda"]}.items():
        rows = sorted(orders[0])
        ends = {frozenset(order[:k]) for order in orders for k in range(len(order) + 1)}
        ends |= {frozenset(rows) - end for end in ends}
        assert len(ends) == 2 ** len(rows)
        assert vc_dimension(Stumps(), n_features) == len(rows)


def sauer(vc):
    """A class of a given VC dimension and nothing else known."""

    class Anonymous:
        def growth(self, m, n_features):
            return growth_function(m, vc(n_features))

    return Anonymous()


@pytest.mark.parametrize("n_features", [1, 2, 7, 200])
def test_vc_dimension_recovers_what_the_growth_function_knows(n_features):
    class Halfspaces:
        def growth(self, m, n_features):
            return 2 * growth_function(m - 1, n_features)

    class Finite:
        def growth(self, m, n_features):
            return min(1 << m, 1000)

    assert vc_dimension(Halfspaces(), n_features) == n_features + 1
    assert vc_dimension(Finite(), n_features) == 9
    for vc in (lambda d: 1, lambda d: 2, lambda d: 2 * d):
        assert vc_dimension(sauer(vc), n_features) == vc(n_features)


def shattered(concepts):
    """Return the VC dimension of a class, given by its concepts' labels on a finite domain."""
    width = len(next(iter(concepts)))
    size = 0
    while any(
        len({tuple(concept[i] for i in rows) for concept in concepts}) == 2 ** (size + 1)
        for rows in itertools.combinations(range(width), size + 1)
    ):
        size += 1
    return size


def test_symmetric_differences_have_at_most_ten_times_the_dimension():
    """Observation 3.2 of Beimel, Nissim and Stemmer, and the sharper number of its proof."""

    def sharper(d):
        return max(v for v in range(10 * d + 1) if growth_function(v, d) ** 2 >= 2**v)

    points, cuts = range(7), np.arange(8) - 0.5
    thresholds = labelings([lambda x, a=a: x > a for a in cuts], points)
    intervals = labelings([lambda x, a=a, b=b: a < x < b for a in cuts for b in cuts], points)
    rng = np.random.default_rng(0)
    drawn = [set(map(tuple, rng.random((size, 7)) < 0.5)) for size in (1, 2, 5, 12, 30)]
    dimensions = []
    for concepts in (thresholds, intervals, *drawn):
        pairs = {tuple(np.logical_xor(h, f)) for h in concepts for f in concepts}
        dimensions.append((shattered(concepts), shattered(pairs)))
        d, of_pairs = dimensions[-1]
        assert of_pairs <= sharper(d) <= 10 * d
    assert dimensions[:2] == [(1, 2), (2, 4)]
    for d in range(1, 60):
        assert growth_function(10 * d, d) ** 2 < 2 ** (10 * d)


@pytest.mark.parametrize(("alpha", "domain_size"), [(0.3, 2), (0.5, 3), (0.5, 6), (0.8, 6)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("d", [1, 2])
def test_theorem_3_3_requires_no_fewer_rows_than_the_learner_needs(alpha, domain_size, epsilon, d):
    """So `sanitizers/test_blr.py` tests the promise of the theorem at a smaller size.

    On larger domains the sanitizer would draw from too many data sets.
    """
    theorem = n_generic_learner(alpha, 0.05, epsilon, d, domain_size)
    learner = n_blr_learner(alpha, 0.05, epsilon, d, domain_size)
    assert theorem.labelled >= learner.labelled
    assert theorem.unlabelled >= learner.unlabelled


def test_vc_dimension_says_what_it_lacks():
    with pytest.raises(TypeError, match="growth"):
        vc_dimension(object(), 3)
    with pytest.raises(ValueError, match="VC dimension"):
        vc_dimension(sauer(lambda d: 1 << 40), 1)


@given(st.integers(0, 300), st.integers(0, 300))
def test_growth_function_is_the_sum_of_binomials(m, d):
    assert growth_function(m, d) == sum(math.comb(m, k) for k in range(d + 1))


@given(st.integers(0, 2000), st.integers(1, 300))
def test_the_quick_logarithm_is_a_monotone_bound(m, d):
    assert log_growth(m, d) >= math.log(growth_function(m, d)) - 1e-9
    assert log_growth(m, d) <= min(log_growth(m + 1, d), log_growth(m, d + 1)) + 1e-9


def test_integers_of_numpy_do_not_overflow():
    assert growth_function(np.int64(200), np.int64(60)) == growth_function(200, 60)
    assert type(n_ppm(0.1, 0.05, 1.0, np.int64(2))) is int


# every number moves the right way in every argument

shares = st.floats(0.01, 0.99)
ARGUMENTS = {  # strategy, and whether a larger value asks for more
    "alpha": (shares, False),
    "beta": (st.floats(1e-9, 0.99), False),
    "delta": (st.floats(1e-12, 0.99), False),
    "epsilon": (st.floats(0.01, 20), False),
    "d": (st.integers(1, 70), True),
    "dual": (st.integers(1, 200), True),
    "size": (st.integers(1, 10**30), True),
    "n_base": (st.integers(1, 10**9), True),
    "n": (st.integers(1, 10**9), True),
    "epsilon_base": (st.floats(0.01, 5), True),
    "domain_size": (st.integers(1, 10**40), True),
}
FUNCTIONS = {
    n_public: "alpha beta d",
    n_uniform: "alpha beta d",
    n_finite: "alpha beta epsilon size",
    n_private: "alpha beta epsilon d",
    n_ppm: "alpha beta epsilon d",
    n_ppm_paper: "alpha beta epsilon d",
    n_generic_learner: "alpha beta epsilon d domain_size",
    n_label_boost: "alpha beta epsilon d n_base",
    n_subsampling: "n epsilon epsilon_base",
    n_query_release: "alpha beta epsilon delta d dual",
}
BELOW_ONE = {n_label_boost, n_subsampling, n_query_release}
"""Where the papers' lemmas stop."""

CASES = [(function, name) for function, names in FUNCTIONS.items() for name in names.split()]
OPTIONS = {
    n_public: [
        {"constants": constants, "realizable": realizable}
        for constants in ("paper", "tight")
        for realizable in (False, True)
    ],
    n_finite: [{}, {"realizable": True}],
    n_private: [
        {"constants": constants, "realizable": realizable}
        for constants in ("paper", "tight")
        for realizable in (False, True)
    ],
    n_ppm: [{"supports": None}, {"supports": None, "realizable": True}],
    n_ppm_paper: [{}, {"realizable": True}],
    n_label_boost: [{}, {"realizable": True}],
    n_subsampling: [{}, {"roles": "paper"}],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("function", "moved"), CASES, ids=lambda v: getattr(v, "__name__", v))
@settings(max_examples=6)
@given(data=st.data())
def test_sizes_are_monotone_in_every_argument(function, moved, data):
    def drawn(name):
        value = data.draw(ARGUMENTS[name][0], label=name)
        return min(value, 0.99) if name == "epsilon" and function in BELOW_ONE else value

    arguments = {name: drawn(name) for name in FUNCTIONS[function].split()}
    rises = ARGUMENTS[moved][1]
    other = drawn(moved)
    ends = sorted((arguments[moved], other), reverse=not rises)
    for options in OPTIONS.get(function, [{}]):
        low, high = (function(**{**arguments, moved: end}, **options) for end in ends)
        for less, more in zip(np.atleast_1d(low), np.atleast_1d(high), strict=True):
            assert 1 <= less <= more
        assert type(low) is SampleSize or type(low) is int


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.floats(1e-9, 0.99), st.integers(1, 80))
def test_cover_radius_is_monotone(m, other, beta, d):
    low, high = sorted((m, other))
    assert 0 < cover_radius(high, d, beta) <= cover_radius(low, d, beta) <= 1
    assert cover_radius(m, d, beta / 2) >= cover_radius(m, d, beta)
    assert cover_radius(m, d + 1, beta) >= cover_radius(m, d, beta)


@given(st.integers(1, 10**7), st.floats(1e-9, 0.5), st.integers(1, 9), st.floats(0, 0.9))
def test_a_coarser_cover_is_farther_from_the_class(m, beta, d, missed):
    assert cover_radius(m, d, beta, missed) >= max(missed, cover_radius(m, d, beta))
    assert cover_radius(m, d, beta, missed) <= cover_radius(m, d, beta, missed + 0.05)
    assert cover_radius(10**9, d, beta, missed) < missed + 0.005


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
def test_shares_are_bounded_as_often_as_promised(share):
    """At the share for which the bound is tightest: the least one that is above it."""
    m, beta = 400, 0.05
    seen = round(share * m)
    population = population_share_bound(seen / m, m, beta)
    assert scipy.stats.binom.cdf(seen, m, population) <= beta
    assert scipy.stats.binom.cdf(seen, m, 0.45 * population) > beta  # not much more than is needed
    assert population_share_bound(0.0, 0, beta) == 1


@given(shares, st.floats(1e-6, 0.9), st.floats(0.05, 1), st.integers(1, 6), st.integers(1, 10**6))
def test_realizable_targets_never_need_more(alpha, beta, epsilon, d, n_base):
    arguments = (alpha, beta, epsilon, d)
    paper = {"supports": None}
    assert n_ppm(*arguments, realizable=True, **paper) <= n_ppm(*arguments, **paper)
    easy = n_label_boost(*arguments, n_base, realizable=True)
    hard = n_label_boost(*arguments, n_base)
    assert easy.labelled <= hard.labelled
    assert easy.unlabelled == hard.unlabelled
    tight = [
        n_label_boost(*arguments, n_base, realizable=known, constants="tight")
        for known in (True, False)
    ]
    assert tight[0].labelled <= tight[1].labelled <= hard.labelled


# each is the least number with the property it claims


@given(shares, st.floats(1e-9, 0.99), st.integers(1, 80))
def test_public_rows_and_cover_radius_are_inverse(alpha, beta, d):
    def log_failure(m):
        return math.log(2) + 2 * d * math.log(2 * math.e * m / d) - alpha * m / 4

    m = n_public(alpha, beta, d)
    assert cover_radius(m, d, beta) <= alpha < cover_radius(m - 1, d, beta)
    for more in (0, 1, m, 100 * m):
        assert log_failure(m + more) <= math.log(beta) + 1e-9
    assert log_failure(m - 1) > math.log(beta) - 1e-9


@given(shares, st.floats(1e-9, 0.99), st.integers(1, 64))
def test_tight_public_rows_are_the_least_and_fewer(alpha, beta, d):
    def log_failure(m):
        return math.log(2) + 2 * math.log(growth_function(2 * m, d)) - alpha * m * math.log(2)

    m = n_public(alpha, beta, d, constants="tight")
    assert log_failure(m) <= math.log(beta) + 1e-9
    assert log_failure(m - 1) > math.log(beta) - 1e-9
    assert dichotomies_radius(m, beta, growth_function(2 * m, d)) <= alpha
    assert m <= n_public(alpha, beta, d)
    private = [n_private(alpha, beta, 1.0, d, constants=c) for c in ("tight", "paper")]
    assert private[0] <= private[1]


def test_inequality_one_is_not_trusted_where_sauer_does_not_hold():
    """The formula falls to nothing as m goes to 0, and proves nothing there."""
    assert 2 * (2 * math.e / 100) ** 200 < 1e-100
    assert cover_radius(1, 100, 0.05) == 1
    assert cover_radius(50, 100, 0.05) == 1


@given(shares, st.floats(1e-9, 0.99), st.integers(1, 64))
def test_uniform_convergence_size_is_the_least(alpha, beta, d):
    def log_failure(m):
        return math.log(4) + math.log(growth_function(2 * m, d)) - alpha**2 * m / 8

    m = n_uniform(alpha, beta, d)
    assert log_failure(m) <= math.log(beta) + 1e-9
    assert log_failure(m - 1) > math.log(beta) - 1e-9


@given(shares, st.floats(1e-6, 0.9), st.floats(0.05, 5), st.integers(1, 10**12))
def test_finite_size_is_the_least(alpha, beta, epsilon, size):
    def loss(n):
        every = math.sqrt(math.log(4 * size / beta) / (2 * n))
        best = math.sqrt(math.log(2 / beta) / (2 * n))
        return excess_error(size, n, epsilon, beta / 4) + every + best

    n = n_finite(alpha, beta, epsilon, size)
    assert loss(n) <= alpha * (1 + 1e-9)
    assert n == 1 or loss(n - 1) > alpha * (1 - 1e-9)


@given(shares, st.floats(1e-6, 0.9), st.integers(10, 10**7), st.integers(1, 10**12))
def test_finite_epsilon_is_the_least(alpha, beta, n, size):
    if sampling_error(n, 3 * beta / 4, size) >= alpha:
        with pytest.raises(ValueError, match=f"error of n = {n} rows"):
            epsilon_finite(alpha, beta, n, size)
    else:
        epsilon = epsilon_finite(alpha, beta, n, size)
        assert finite_excess(n, beta, epsilon, size) == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 20.0])
def test_halfspace_size_is_where_the_bound_first_holds_and_stays(d, epsilon):
    """The bound as the docstring spells it, row by row: it fails up to the size, then holds."""
    alpha, beta, k = 0.3, 0.1, d * (d + 1)
    found = n_ppm_paper(alpha, beta, epsilon, d)
    for n in range(k + 1, 3 * found):
        subsets = sum(math.comb(n, j) for j in range(d + 1))
        family = sum(math.comb(2 * subsets, j) for j in range(d + 1))
        t = 2 * math.log(family * 3 / beta) / (epsilon * n)
        every = math.sqrt(math.log(3 * family * subsets / beta) / (2 * (n - k)))
        best = math.sqrt(math.log(3 / beta) / (2 * n))
        assert (t + k / n + every + best <= alpha) == (n >= found)


def test_chernoff_in_the_form_the_halfspace_learner_uses():
    for n, p in itertools.product((1, 7, 50, 400), (0.01, 0.1, 0.5, 0.9)):
        k = np.arange(math.floor(n * p) + 1)
        bound = np.exp(-n * (np.sqrt(p) - np.sqrt(k / n)) ** 2)
        assert (binom.cdf(k, n, p) <= bound * (1 + 1e-9)).all()


@given(st.integers(1, 10**6), st.floats(0.01, 3), st.floats(0.01, 3))
def test_subsampling_pools_are_as_small_as_amplification_allows(n, epsilon, epsilon_base):
    def amplified(t):
        return math.log1p(n / t * math.expm1(epsilon_base))

    t = n_subsampling(n, epsilon, epsilon_base)
    assert t >= n
    assert min(amplified(t), epsilon_base) <= epsilon * (1 + 1e-9)
    assert t == n or amplified(t - 1) > epsilon * (1 - 1e-9)
    if epsilon <= 1:
        assert t <= n_subsampling(n, epsilon, epsilon_base, roles="paper")


# the shapes of the theorems, with a constant that holds over orders of magnitude


GRID = list(itertools.product((0.3, 0.03, 0.003), (0.2, 1e-6), (0.1, 1.0), (1, 3, 10)))


def test_sizes_have_the_shapes_of_the_theorems():
    for alpha, beta, epsilon, d in GRID:
        cover = d * math.log(1 / alpha) + math.log(1 / beta)
        rate = max(1 / alpha**2, 1 / (epsilon * alpha))
        assert n_public(alpha, beta, d) < 60 * cover / alpha
        assert n_private(alpha, beta, epsilon, d) < 150 * cover * rate
        halfspaces = d**2 * math.log(2 * d / (epsilon * alpha)) + math.log(1 / beta)
        assert n_ppm(alpha, beta, epsilon, d, supports=None) < 40 * halfspaces * rate
        consistent = n_ppm(alpha, beta, epsilon, d, supports=None, realizable=True)
        assert consistent < 40 * halfspaces / (epsilon * alpha)
        queries = n_query_release(alpha, beta, min(epsilon, 0.99), 1e-6, d, dual=d)
        answers = cover**1.5 * math.sqrt(d * math.log(1e6)) / (epsilon * alpha**2)
        assert queries < 20_000 * answers


def test_labels_of_label_boost_do_not_depend_on_the_base_learner():
    few, many = (n_label_boost(0.1, 0.05, 1.0, 2, n, realizable=True) for n in (10, 10**9))
    assert few.labelled == many.labelled
    assert many.unlabelled == 90_000 * 10**9


def test_the_dual_dimension_defaults_to_assouads_bound():
    assert n_query_release(0.1, 0.05, 0.5, 1e-6, 2) == n_query_release(
        0.1, 0.05, 0.5, 1e-6, 2, dual=7
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: n_public(0.0, 0.1, 1), "alpha must"),
        (lambda: n_public(0.1, 1.0, 1), "beta must"),
        (lambda: n_private(0.1, 0.1, 0.0, 1), "epsilon must"),
        (lambda: finite_excess(9, 0.1, 1, 5, best_error=1), "best_error must"),
        (lambda: n_uniform(0.1, 0.1, 0), "d must"),
        (lambda: n_finite(0.1, 0.1, math.inf, 5), "epsilon must"),
        (lambda: n_query_release(0.1, 0.1, 1, 2.0, 1), "delta must lie"),
        (lambda: n_subsampling(5, 1.0, roles="first"), "roles must"),
        (lambda: n_subsampling(5, 1.1, roles="paper"), r"Claims 4\.3 .*got 1\.1"),
        (lambda: n_query_release(0.1, 0.1, 1.0, 0.1, 1), "Lemma 7"),
        (lambda: n_ppm(0.1, 0.1, 1.0, 2, public_share=1.5), "public_share must"),
        (lambda: n_ppm(0.1, 0.1, 1.0, 7), "got 7.* supports=None"),
        (lambda: n_label_boost(0.1, 0.1, 1.1, 1, 9), r"epsilon .*got 1\.1"),
        (lambda: n_label_boost(0.1, 0.1, 1, 1, 9, constants="own"), "'paper' or 'tight'"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("d", [1, 3, 10])
def test_a_cover_takes_fewer_public_rows_than_estimating_errors(d):
    """Definition 2.3 of Alon, Bassily and Moran: order 1/α for order 1/α²."""
    ratios = []
    for alpha in (0.1, 0.01, 0.001):
        few, many = n_public(alpha, 0.05, d, constants="tight"), n_uniform(alpha, 0.05, d)
        ratios.append(many / few)
        assert alpha * few < 40 * d * math.log(1 / alpha)
    assert ratios[1] > 5 * ratios[0]
    assert ratios[2] > 5 * ratios[1]


@pytest.mark.parametrize("realizable", [False, True])
def test_labels_of_the_tight_round_are_monotone(realizable):
    """Its unlabelled rows are what the base learner lacks, so they may fall as labels rise."""
    usual = {"alpha": 0.1, "beta": 0.05, "epsilon": 1.0, "d": 2, "n_base": 10**5}
    settings = {"realizable": realizable, "constants": "tight"}
    size = n_label_boost(**usual, **settings)
    for name, easier in (("alpha", 0.2), ("beta", 0.3), ("epsilon", 2.0), ("d", 1), ("n_base", 99)):
        assert n_label_boost(**{**usual, name: easier}, **settings).labelled < size.labelled
    assert n_label_boost(**{**usual, "n_base": 10**6}, **settings).unlabelled > size.unlabelled


class TestStumps:
    """Shares of p binary columns by noisy counts, the upper bound beside Theorem 13."""

    @pytest.mark.parametrize("delta", [0, 1e-6])
    @pytest.mark.parametrize("p", [1, 8, 300])
    def test_answers_are_as_good_as_promised(self, p, delta):
        """Columns of fair coins have the largest sampling error. Fails from a rate of .3 on."""
        alpha, beta, epsilon, runs = 0.1, 0.2, 0.5, 800
        n = n_stumps(alpha, beta, epsilon, delta, p)
        rng = np.random.default_rng(p)
        ledger = Ledger(runs * epsilon, 0.5 if delta else 0, random_state=p)
        event = Pure(Fraction(1, 2))
        if delta:
            event = Gaussian(gaussian_mu_squared(Fraction(1, 2), Fraction(delta)))
        broken = 0
        for _ in range(runs):
            counts = rng.binomial(n, 0.5, size=p)
            noisy = ledger.add_noise(counts, Sensitivity(p, p), event, name="counts", proof="noise")
            broken += np.abs(noisy.values / n - 0.5).max() > alpha
        assert binom.sf(broken - 1, runs, beta) > FALSE_ALARM

    @pytest.mark.parametrize(
        ("alpha", "epsilon", "delta", "p"),
        [(0.02, 1.0, 0, 30), (0.05, 0.3, 0, 20), (0.01, 1.0, 1e-6, 50), (0.05, 0.1, 1e-6, 50)],
    )
    def test_the_size_is_nearly_used_up(self, alpha, epsilon, delta, p):
        """The exact failure probability of p columns of fair coins is near beta."""
        beta = 0.2
        n = n_stumps(alpha, beta, epsilon, delta, p)

        def failure(n):
            k = np.arange(n + 1)
            if delta:
                mu = math.sqrt(gaussian_mu_squared(Fraction(epsilon), Fraction(delta)))
                tail = 2 * norm.sf(alpha * n + 0.5 - (k - n / 2), scale=math.sqrt(p) / mu)
            else:
                tail = 2 * dlaplace.sf(np.floor(alpha * n - (k - n / 2)), epsilon / p)
            return 1 - (1 - binom.pmf(k, n, 0.5) @ tail) ** p

        assert failure(n) <= beta
        assert failure(math.ceil(0.65 * n)) > beta

    @given(shares, st.floats(1e-6, 0.9), st.floats(0.05, 5), st.integers(1, 10**6))
    def test_the_two_orders(self, alpha, beta, epsilon, p):
        """Sampling goes by log(p) / alpha^2 and noise by sqrt(p) / alpha, or by p without delta."""
        sampling = math.log(4 * p / beta) / (2 * alpha**2)
        pure = n_stumps(alpha, beta, epsilon, 0, p)
        gaussian = n_stumps(alpha, beta, epsilon, 1e-6, p)
        noise = p * math.log(4 * p / beta) / (epsilon * alpha)
        assert pure <= (sampling**0.5 + noise**0.5) ** 2 * (1 + 1e-4) + 1
        four_times = n_stumps(alpha, beta, epsilon, 1e-6, 4 * p)
        assert gaussian <= four_times <= 4 * gaussian + 4

    def test_no_release_of_so_few_columns_beats_the_lower_bound(self):
        for p in (100, 10**4, 10**6):
            lower = n_query_release_lower(0.01, 0.001, 1.0, p, m=0, delta=1e-12)
            assert lower < n_stumps(0.01, 0.001, 1.0, 1e-12, p)
