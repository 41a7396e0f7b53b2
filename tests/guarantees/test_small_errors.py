"""Bounds and sizes where some rule makes no error, or few: exact probabilities and frequencies."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from skpublicdp import LabelBoostClassifier, SemiPrivateClassifier
from skpublicdp.accounting import exact_fraction
from skpublicdp.guarantees import (
    cuts_radius,
    dichotomies_radius,
    finite_excess,
    growth_function,
    n_finite,
    n_private,
    n_public,
)
from skpublicdp.hypotheses import FiniteClass, Halfspaces, Intervals, Stumps, Thresholds
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.helpers import allowed_failures, public_sample
from tests.internals.guarantees import _small_error_excess, _tilted_error
from tests.internals.hypotheses import tabulate
from tests.internals.mechanisms import SeededBits, draw

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:Only .* public row")]

BETA = 0.2
SHARES = st.floats(1e-3, 0.9)
EPSILONS = st.floats(0.01, 20)


def assert_failures_allowed(failures, trials, beta):
    """A rate of beta exceeds the limit with probability FALSE_ALARM only."""
    assert failures <= allowed_failures(trials, beta)


class TestOneFixedRule:
    """`n_public(realizable=True)`: rules that agree with one rule on the rows."""

    @pytest.mark.parametrize(("d", "n_cells", "m"), [(1, 2, 12), (1, 3, 8), (2, 3, 8), (2, 4, 6)])
    def test_the_inequality_against_all_samples(self, d, n_cells, m):
        """The class has all sets of at most d cells, and the fixed rule is the empty set."""
        samples = np.array(list(itertools.product(range(n_cells), repeat=m)))
        unseen = (samples[:, :, None] != np.arange(n_cells)).all(axis=1)
        growth = growth_function(2 * m, d)
        for seed in range(10):
            masses = np.random.default_rng(seed).dirichlet(np.full(n_cells, 0.7))
            probabilities = masses[samples].prod(axis=1)
            # the worst rule without an error on the rows has the d heaviest cells that are unseen
            worst = np.sort(unseen * masses, axis=1)[:, -d:].sum(axis=1)
            for b in range(1, m):
                failure = probabilities[worst > b / m].sum()
                assert failure <= 2 * growth / 2**b

    @given(SHARES, st.floats(1e-9, 0.99), st.integers(1, 64))
    def test_the_sizes_are_the_least(self, alpha, beta, d):
        def log_tight(m):
            return math.log(4 * growth_function(2 * m, d)) - alpha * m * math.log(2)

        def log_paper(m):
            return math.log(2) + d * math.log(2 * math.e * m / d) - alpha * m / 4

        for constants, log_failure in (("tight", log_tight), ("paper", log_paper)):
            m = n_public(alpha, beta, d, realizable=True, constants=constants)
            for more in (0, 1, m, 100 * m):
                assert log_failure(m + more) <= math.log(beta) + 1e-9
            assert log_failure(m - 1) > math.log(beta) - 1e-9
            assert m <= n_public(alpha, beta, d, constants=constants)
            log_sets = math.log(2 * growth_function(2 * m, d))
            assert log_sets <= math.log(beta) + math.floor(alpha * m) * math.log(2) + 1e-9
        tight = n_public(alpha, beta, d, realizable=True, constants="tight")
        # Theorem B.4 of Beimel, Nissim and Stemmer
        theorem = 8 / alpha * (d * math.log(16 / alpha) + math.log(2 / beta))
        assert tight <= m <= theorem + 1

    @pytest.mark.parametrize("constants", ["paper", "tight"])
    @pytest.mark.parametrize("d", [1, 3])
    def test_no_rule_is_missed_more_often_than_promised(self, d, constants):
        """Sets of at most d of n equal cells, d of which are just too heavy to be missed."""
        n_cells, beta, trials = 8 * d, 0.2, 2000
        m = n_public(0.99 / 8, beta, d, realizable=True, constants=constants)
        rng = np.random.default_rng(d)
        counts = rng.multinomial(m, np.full(n_cells, 1 / n_cells), size=trials)
        assert_failures_allowed(((counts == 0).sum(axis=1) >= d).sum(), trials, beta)


def wrong_counts(errors, samples):
    """Return the number of rows of each sample on which each rule errs."""
    return errors[:, samples].sum(axis=2)


class TestFinite:
    """One draw of a finite family: `finite_excess(best_error=...)` and `n_finite`."""

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
    @pytest.mark.parametrize("realizable", [False, True])
    def test_each_step_against_all_samples(self, realizable, epsilon):
        """Rules are their errors on four cells. The draw is exact, and so are all expectations."""
        n, n_cells, size = 5, 4, 6
        samples = np.array(list(itertools.product(range(n_cells), repeat=n)))
        for seed in range(20):
            rng = np.random.default_rng(seed)
            masses = rng.dirichlet(np.ones(n_cells))
            probabilities = masses[samples].prod(axis=1)
            errors = rng.integers(0, 2, (size, n_cells))
            errors[0] = 0 if realizable else [0, 0, 0, 1]
            rates = errors @ masses
            counts = wrong_counts(errors, samples)
            weights = np.exp(-epsilon * counts / 2)
            draws = weights / weights.sum(axis=0)
            for p in np.linspace(0.05, 0.95, 10):
                bad = rates > p
                failure = probabilities @ draws[bad].sum(axis=0)
                for t in (epsilon / 2, epsilon / 3, epsilon / 9):
                    expected = np.exp(-t * counts) @ probabilities
                    assert expected == pytest.approx((1 + rates * math.expm1(-t)) ** n)
                    for q in (0.0, 0.2, 0.5):
                        above = probabilities @ (counts[0] > q * n + 1e-9)
                        per_rule = (math.exp(t * q) * (1 + p * math.expm1(-t))) ** n
                        assert failure <= above + size * per_rule + 1e-12

    @given(st.integers(1, 3000), st.floats(1e-9, 0.9), EPSILONS, st.integers(1, 10**12), SHARES)
    def test_the_bound_against_binomial_probabilities(self, n, beta, epsilon, size, best_error):
        """The best rule and the bad ones, in the exact tails that the proof bounds."""
        p = best_error + _small_error_excess(n, beta, epsilon, size, best_error)
        if p >= 1:
            return
        counts = np.arange(n + 1)
        least = binom.isf(beta / 2, n, best_error)  # its count is above with at most this beta
        survival = np.minimum(0.0, -epsilon / 2 * (counts - least))
        bad = np.exp(np.logaddexp.reduce(binom.logpmf(counts, n, p) + survival))
        assert size * bad <= beta / 2 * (1 + 1e-6)

    @given(st.integers(1, 10**6), st.floats(1e-9, 0.9), EPSILONS, st.integers(1, 10**30))
    def test_a_rule_without_errors(self, n, beta, epsilon, size):
        """The error at which all rules together are drawn with probability beta."""
        p = _small_error_excess(n, beta, epsilon, size, 0)
        rate = -math.log1p(p * math.expm1(-epsilon / 2)) if p < 1 else math.inf
        assert p >= 1 or rate * n == pytest.approx(math.log(size / beta), rel=1e-6)
        assert finite_excess(n, beta, epsilon, size, best_error=0) <= min(1, p)

    @given(st.integers(1, 10**7), st.floats(1e-9, 0.9), EPSILONS, st.integers(1, 10**30), SHARES)
    def test_the_order_of_small_errors(self, n, beta, epsilon, size, best_error):
        """At most L + O(sqrt(L r) + r) with the constants of the proof, and never worse."""
        a = math.log(2 / beta) / n
        q = best_error + a / 3 + math.sqrt(a * a / 9 + 2 * best_error * (1 - best_error) * a)
        assert binom.sf(math.floor(q * n), n, best_error) <= beta / 2  # Bernstein
        c = math.log(2 * size / beta) / n
        order = q + max(c + math.sqrt(c * c + 2 * q * c), 4 * c / epsilon)
        excess = _small_error_excess(n, beta, epsilon, size, best_error)
        assert best_error + excess <= order * (1 + 1e-6)
        for t in epsilon / 2 * np.geomspace(1e-3, 1, 30):  # and the minimum is one
            assert best_error + excess <= _tilted_error(t, q, c) * (1 + 1e-6)
        capped = finite_excess(n, beta, epsilon, size, best_error=best_error)
        assert capped == min(finite_excess(n, beta, epsilon, size), 1 - best_error, excess)

    @given(st.floats(1e-4, 0.9), st.floats(1e-6, 0.9), EPSILONS, st.integers(1, 10**12))
    def test_the_size_of_a_rule_without_errors(self, alpha, beta, epsilon, size):
        n = n_finite(alpha, beta, epsilon, size, realizable=True)
        closed = math.log(size / beta) / -math.log1p(alpha * math.expm1(-epsilon / 2))
        assert n <= min(math.ceil(closed * (1 + 1e-9)), n_finite(alpha, beta, epsilon, size))
        assert n == 1 or finite_excess(n - 1, beta, epsilon, size, best_error=0) > alpha

    @pytest.mark.parametrize("realizable", [False, True])
    def test_a_tenth_of_alpha_takes_ten_times_the_rows(self, realizable):
        ratios = {
            n_finite(alpha / 10, 0.05, 1.0, 1000, realizable=realizable)
            / n_finite(alpha, 0.05, 1.0, 1000, realizable=realizable)
            for alpha in (0.1, 0.01, 0.001)
        }
        low, high = (9.5, 11) if realizable else (75, 100)
        assert low < min(ratios) <= max(ratios) < high

    @given(st.floats(1e-3, 0.9), st.floats(1e-6, 0.9), EPSILONS, st.integers(1, 10**12), SHARES)
    def test_the_size_is_the_least_for_a_best_error(self, alpha, beta, epsilon, size, best_error):
        n = n_finite(alpha, beta, epsilon, size, best_error=best_error)
        assert finite_excess(n, beta, epsilon, size, best_error=best_error) <= alpha
        assert n == 1 or finite_excess(n - 1, beta, epsilon, size, best_error=best_error) > alpha
        assert n <= n_finite(alpha, beta, epsilon, size)

    def test_no_best_error_is_realizable(self):
        usual = (0.1, 0.05, 1.0, 1000)
        assert n_finite(*usual, best_error=0) == n_finite(*usual, realizable=True)
        with pytest.raises(ValueError, match="realizable=True"):
            n_finite(*usual, best_error=0.1, realizable=True)
        assert n_private(*usual[:3], 2, best_error=0) == n_private(*usual[:3], 2, realizable=True)
        sizes = [n_private(0.01, 0.05, 1.0, 2, best_error=error) for error in (0, 0.01, 0.1)]
        assert 2 * sizes[0] < sizes[1] < sizes[2] / 2
        assert 15 * sizes[1] < n_private(0.01, 0.05, 1.0, 2)
        assert n_private(0.1, 0.05, 1.0, 2, best_error=0.95) == 1
        for size in (n_finite, n_private):
            with pytest.raises(ValueError, match=r"best_error .* got 1"):
                size(*usual, best_error=1)

    @pytest.mark.parametrize(
        ("best_error", "epsilon", "trials"),
        [
            (0.02, 1.0, 60),
            pytest.param(0, 0.02, 400, marks=pytest.mark.slow),
            pytest.param(0, 1.0, 400, marks=pytest.mark.slow),
            pytest.param(0.02, 1.0, 400, marks=pytest.mark.slow),
        ],
    )
    def test_the_draw_keeps_its_promise_at_its_own_size(self, best_error, epsilon, trials):
        failures = count_failures(best_error, epsilon, share=1.0, trials=trials)
        assert_failures_allowed(failures, trials, BETA)

    @pytest.mark.slow
    def test_four_fifths_of_the_rows_are_too_few(self):
        """Nothing is lost at small epsilon: the bound is reached but for the normalization."""
        failures = count_failures(0, 0.02, share=0.8, trials=400)
        assert failures > allowed_failures(400, BETA)


class Exceptions:
    """A classifier by hand: the second label on some values of the first feature only."""

    classes_ = np.array([0, 1])

    def __init__(self, *values):
        self.values = values

    def predict(self, X):
        return np.isin(X[:, 0], self.values).astype(int)


def count_failures(best_error, epsilon, *, share, trials):
    """Return how often a bad rule is drawn: all but the first of 46 are just too bad."""
    domain = np.arange(10.0)[:, None]
    pairs = list(itertools.combinations(domain[:, 0], 2))
    models = FiniteClass([Exceptions(), *(Exceptions(*pair) for pair in pairs)])
    alpha = 0.99 * (1 - 2 * best_error) * 2 / len(domain)  # the others' excess error is larger

    n = math.ceil(share * n_finite(alpha, BETA, epsilon, 1 + len(pairs), best_error=best_error))
    clf = SemiPrivateClassifier(models, epsilon=epsilon, classes=(0, 1))
    rng = np.random.default_rng(0)
    failures = 0
    for trial in range(trials):
        X = rng.choice(domain, size=n)
        y = (rng.random(n) < best_error).astype(int)
        clf.set_params(random_state=trial).fit(X, y, X_public=domain)
        failures += clf.predict(domain).any()
    return failures


@pytest.mark.parametrize("best_error", [None, 0.0, 0.02])
@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize(
    ("hypotheses", "d", "width"),
    [(Thresholds(), 1, 1), (Intervals(), 2, 1), (Stumps(), 2, 1), (Halfspaces(), 3, 2)],
    ids=repr,
)
def test_the_classifier_states_the_error_of_its_sizes(hypotheses, d, width, alpha, best_error):
    if isinstance(hypotheses, Halfspaces) and alpha < 0.3:
        alpha = 0.2  # fewer public rows
    usual = {"constants": "tight", "best_error": best_error}
    n = n_private(alpha, 0.05, 1.0, d, **usual)
    m = n_public(alpha / 2, 0.025, d, constants="tight", realizable=best_error is not None)
    rng = np.random.default_rng(0)
    X, X_public = rng.random((n, width)), rng.random((m, width))
    clf = SemiPrivateClassifier(
        hypotheses, alpha=1 / (2 * m), best_error=best_error, classes=[0, 1], random_state=0
    ).fit(X, X[:, 0] > 0.3, X_public=X_public)
    assert clf.guarantee_ <= alpha
    assert clf.guarantee_ > alpha / 3
    assert ("as best_error declares" in clf.guarantee_reason_) == (best_error is not None)


class TestDeclaredError:
    def fit(self, **settings):
        rng = np.random.default_rng(0)
        X, X_public = rng.random((3000, 1)), rng.random((300, 1))
        y, y_public = X[:, 0] > 0.3, X_public[:, 0] > 0.3
        if not settings.pop("labelled", False):
            y_public = None
        clf = SemiPrivateClassifier(Thresholds(), classes=[0, 1], random_state=0, **settings)
        return clf.fit(X, y, X_public=X_public, y_public=y_public)

    def test_it_changes_the_bound_only(self):
        usual, declared = self.fit(), self.fit(best_error=0.0)
        assert str(usual.hypothesis_) == str(declared.hypothesis_)
        assert usual.certificate_ == declared.certificate_
        assert declared.guarantee_ < 0.7 * usual.guarantee_
        assert self.fit(best_error=0.99).guarantee_ <= 1

    def test_labelled_public_rows_do_not_use_it(self):
        usual, declared = (self.fit(labelled=True, best_error=error) for error in (None, 0.0))
        assert "best_error" not in declared.guarantee_reason_
        assert declared.guarantee_ <= usual.guarantee_  # one fixed rule
        unused = self.fit(labelled=True, best_error=0.0, public_weight=0)
        assert "best_error" in unused.guarantee_reason_

    def test_label_boost_does_not_rely_on_it(self):
        """Its base learner has labels of another rule."""
        rng = np.random.default_rng(0)
        X = rng.random((30_000, 1))
        y = np.where(np.arange(len(X)) < 10_000, X[:, 0] > 0.3, -1)
        declared = ({"best_error": 0.0}, {"smoothness": 0.5})
        for released, settings in itertools.product((False, True), declared):
            base = SemiPrivateClassifier(Thresholds(), beta=0.0125, **settings)
            clf = LabelBoostClassifier(
                base, hypotheses=Thresholds(), n_base=10**6, release_labeler=released
            ).fit(X, y, X_public=rng.random((300, 1)))
            assert clf.guarantee_ is None
            assert f"relies on {next(iter(settings))}" in clf.guarantee_reason_

    @pytest.mark.parametrize(("cuts", "missed"), [(1, 0), (2, 0), (2, 3)])
    def test_a_fixed_rule_of_cuts(self, cuts, missed):
        """Rows next to fixed cuts: the bound fails in less than beta, and 0.7 of it in more."""
        m, beta, trials = 40, 0.3, 4000
        rows = np.sort(np.random.default_rng(0).random((trials, m)), axis=1)
        radius = cuts_radius(m, beta, cuts, missed=missed, fixed_rule=True)
        assert radius < cuts_radius(m, beta, cuts, missed=missed)
        padded = np.pad(rows, ((0, 0), (m, m)), constant_values=((0, 0), (0, 1)))
        total = 0.0
        for cut in np.linspace(0, 1, cuts + 2)[1:-1]:
            below = m + (rows < cut).sum(axis=1)
            left = cut - padded[np.arange(trials), below - 1 - missed]
            right = padded[np.arange(trials), below + missed] - cut
            total += np.maximum(left, right)
        assert_failures_allowed((total > radius).sum(), trials, beta)
        assert (total > 0.7 * radius).mean() > 0.3 * beta

    def test_a_shift_divides_the_radius(self):
        usual, shifted = self.fit(), self.fit(smoothness=0.25)
        assert str(usual.hypothesis_) == str(shifted.hypothesis_)
        radius, shifted_radius = (
            float(clf.guarantee_reason_.split("at most ")[-1].split()[0])
            for clf in (usual, shifted)
        )
        assert shifted_radius == pytest.approx(4 * radius, rel=0.02)
        assert shifted.guarantee_ - usual.guarantee_ == pytest.approx(3 * radius, rel=0.02)
        assert "at most 4 times that of public rows" in shifted.guarantee_reason_
        both = self.fit(smoothness=0.25, best_error=0.0)
        assert "as smoothness declares" in both.guarantee_reason_
        labelled = self.fit(smoothness=0.25, labelled=True)
        assert labelled.guarantee_ is None
        assert "smoothness" in labelled.guarantee_reason_

    def test_a_search_has_no_bound_under_a_shift(self):
        rng = np.random.default_rng(0)
        X = rng.random((2000, 1))
        base = SemiPrivateClassifier(Thresholds(), smoothness=0.5)
        search = SemiPrivateSearchCV(base, {"alpha": [0.05, 0.1]}, random_state=0)
        search.fit(X, X[:, 0] > 0.3, X_public=rng.random((300, 1)))
        assert search.guarantee_ is None
        assert "smoothness" in search.guarantee_reason_

    def test_the_radius_under_a_shift_is_needed(self):
        """Private rows where the public rows are rarest: the bound without the factor fails."""
        sigma, m, beta, failures, uncorrected, trials = 0.2, 300, 0.1, 0, 0, 400
        radius = cuts_radius(m, beta, 1)
        assert radius / sigma < 0.5
        for seed in range(trials):
            ends = np.sort(np.r_[0.0, np.random.default_rng(seed).random(m), 1.0])
            missed = min(1.0, np.diff(ends).max() / sigma)  # by a threshold in the widest gap
            failures += missed > radius / sigma
            uncorrected += missed > radius
        assert_failures_allowed(failures, trials, beta)
        assert uncorrected > 0.9 * trials

    def test_a_fixed_rule_of_dichotomies(self):
        """`n_public(realizable=True)` is the inverse."""
        for alpha, beta, d in itertools.product((0.05, 0.2), (0.01, 0.2), (1, 3)):
            m = n_public(alpha, beta, d, realizable=True, constants="tight")
            growth = growth_function(2 * m, d)
            radius = dichotomies_radius(m, beta, growth, fixed_rule=True)
            assert radius <= alpha < dichotomies_radius(m, beta, growth)


@pytest.mark.parametrize("constants", ["paper", "tight"])
@pytest.mark.parametrize("best_error", [0.0, 0.02])
@pytest.mark.parametrize(("hypotheses", "d"), [(Thresholds(), 1), (Intervals(), 2)], ids=repr)
def test_the_semi_private_learner_of_a_rule_with_few_errors(hypotheses, d, best_error, constants):
    """`n_private` and `n_public` together, for rules on a uniform feature at random.

    Fails from a rate of .4 on.
    """
    alpha, beta, epsilon, trials = 0.3, 0.2, 1.0, 100
    m = n_public(alpha / 2, beta / 2, d, realizable=True, constants=constants)
    n = n_private(alpha, beta, epsilon, d, best_error=best_error, constants=constants)
    assert n < n_private(alpha, beta, epsilon, d, constants=constants)
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 2001)[:, None]
    failures = 0
    for trial in range(trials):
        low, high = np.sort(rng.random(2))
        high = high if d == 2 else 2.0
        cover = hypotheses.build_cover(public_sample(rng.random((m, 1))), alpha=1e-9, beta=0.1)
        X = rng.random((n, 1))
        y = (X[:, 0] > low) & (X[:, 0] <= high)
        y ^= rng.random(n) < best_error
        path = draw(
            cover.family(tabulate(cover, X, y)), exact_fraction(epsilon), 1, SeededBits(trial)
        )
        wrong = cover.hypothesis(path).predict(grid) != ((grid > low) & (grid <= high))[:, 0]
        failures += (1 - 2 * best_error) * wrong.mean() > alpha
    assert_failures_allowed(failures, trials, beta)
