"""guarantee_: what is promised in the population holds as often as promised, and no more is said.

Probabilities are exact where a population is tiny. Elsewhere failures are counted: a rate of beta
exceeds the limit with probability FALSE_ALARM only.
"""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom, multinomial
from sklearn.pipeline import make_pipeline

from skpublicdp import (
    GenericLearnerClassifier,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.data import describe_columns
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.guarantees import (
    Certificate,
    cuts_radius,
    dichotomies_radius,
    excess_error,
    finite_excess,
    n_finite,
    n_private,
    n_public,
    n_quantile_learner,
    quantile_error,
    sampling_error,
    uniform_error,
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
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.sanitizers import QuantileSanitizer
from tests.helpers import public_sample
from tests.internals.guarantees import UNBOUNDED_PRIOR_RATIO, _max_laplace_sum
from tests.internals.sanitizers import candidate_grid
from tests.rules.test_promises import Exceptions, assert_failures_allowed, label

pytestmark = pytest.mark.once

BETA = 0.2


class TestCover:
    """How near the cover is: order statistics for cuts, symmetrization for dichotomies."""

    @pytest.mark.parametrize("missed", [0, 1, 7])
    def test_a_cut_is_as_far_as_a_binomial_allows(self, missed):
        for m, columns in itertools.product((10, 300), (1, 5)):
            t = cuts_radius(m, BETA, 1, columns=columns, missed=missed)
            failing = columns * (m - missed + 1) * binom.cdf(missed, m, t)
            assert failing == pytest.approx(BETA)
            assert cuts_radius(m, BETA, 3, columns=columns, missed=missed) == min(1, 3 * t)
        assert cuts_radius(5, BETA, 1, missed=5) == 1

    @pytest.mark.parametrize("missed", [0, 3])
    def test_runs_of_few_rows_have_as_little_mass_as_promised(self, missed):
        rng = np.random.default_rng(0)
        m, trials = 100, 4000
        values = np.sort(rng.random((trials, m)), axis=1)
        ends = np.pad(values, ((0, 0), (1, 1)), constant_values=(0, 1))
        runs = (ends[:, missed + 1 :] - ends[:, : -missed - 1]).max(axis=1)
        promised = cuts_radius(m, BETA, 1, missed=missed)
        assert_failures_allowed((runs > promised).sum(), trials, BETA)
        assert (runs > 0.9 * promised).mean() > BETA  # a tenth less would be refuted

    def test_ties_make_nothing_worse(self):
        """Exact: all samples of a population of four values, all runs with at most so many rows."""
        shares = np.array([0.1, 0.2, 0.3, 0.4])
        m = 12
        for missed, beta in itertools.product((0, 2), (0.3, 0.6, 0.95)):
            promised, failing = cuts_radius(m, beta, 1, missed=missed), 0.0
            for counts in itertools.product(range(m + 1), repeat=4):
                if sum(counts) == m:
                    runs = [slice(a, b) for a in range(4) for b in range(a + 1, 5)]
                    worst = max(
                        (shares[run].sum() for run in runs if sum(counts[run]) <= missed), default=0
                    )
                    failing += (worst > promised) * multinomial.pmf(counts, m, shares)
            assert failing <= beta

    @given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.floats(0.001, 0.9))
    def test_the_bound_of_what_is_missed_does_not_depend_on_the_rows(self, column, alpha):
        cover = Thresholds().build_cover(
            public_sample(np.array(column, dtype=float)[:, None]), alpha=alpha, beta=BETA
        )
        assert cover.cuts.missed <= cover.cuts.allowed <= alpha * len(column) / 2 + 1e-6

    def test_the_steps_of_symmetrization(self):
        """Medians, the chance that half a sample misses all of some rows, and Serfling's bound."""
        for m, p in itertools.product(range(1, 60), np.linspace(0.01, 0.99, 25)):
            assert binom.sf(math.floor(m * p) - 1, m, p) >= 0.5
            assert binom.cdf(math.ceil(m * p), m, p) >= 0.5
        for m in (1, 2, 5, 20):
            for k in range(2 * m + 1):
                first = np.arange(max(0, k - m), min(k, m) + 1)
                assert hypergeom.pmf(0, 2 * m, k, m) <= 2.0**-k * (1 + 1e-9)
                for s in (k - 2 * first) / m:
                    if s > 0:  # how much worse the second half is than the first
                        tail = hypergeom.cdf((k - s * m) / 2, 2 * m, k, m)
                        assert tail <= math.exp(-(m**2) * s**2 / (m + 1)) * (1 + 1e-9)

    def test_dichotomies_cover_as_often_as_promised(self):
        rng = np.random.default_rng(0)
        m, trials = 200, 4000
        cuts = np.sort(rng.random((trials, m)), axis=1)
        radius = np.diff(cuts, axis=1, prepend=0, append=1).max(axis=1)
        promised = dichotomies_radius(m, BETA, growth=2 * m + 1)
        assert promised <= 0.1
        assert_failures_allowed((radius > promised).sum(), trials, BETA)

    def test_the_error_on_rows_of_unlike_rules_is_uniformly_near(self):
        """Rules that have nothing to do with each other or the labels; the luckiest looks best."""
        n, size, trials = 100, 2000, 500
        errors = np.random.default_rng(0).binomial(n, 0.5, (trials, size)).min(axis=1) / n
        promised = uniform_error(n, BETA, growth=size)
        assert_failures_allowed((0.5 - errors > promised).sum(), trials, BETA)
        assert (0.5 - errors > promised / 2).mean() > BETA  # half as much would be refuted

    def test_the_error_on_rows_is_uniformly_near(self):
        """Labels are coin flips: of all thresholds the luckiest looks best."""
        rng = np.random.default_rng(0)
        n, trials = 400, 1500
        steps = np.pad(np.cumsum(rng.choice([-1, 1], size=(trials, n)), axis=1), ((0, 0), (1, 0)))
        errors = 0.5 + (steps - steps[:, -1:] / 2).min(axis=1) / n  # of the best threshold
        promised = uniform_error(n, BETA, growth=2 * n + 1)
        assert promised < 0.25
        assert_failures_allowed((0.5 - errors > promised).sum(), trials, BETA)


def test_columns_that_part_the_rows_alike_cost_more():
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    twins = np.column_stack([X[:, 0], X[:, 0]])
    covers = [
        Stumps().build_cover(public_sample(rows), alpha=0.05, beta=BETA) for rows in (X, twins)
    ]
    assert [cover.cuts.merged for cover in covers] == [False, True]
    y = (X[:, 0] > 0.5).astype(int)
    one, other = (
        SemiPrivateClassifier(Stumps(), random_state=0).fit(
            rows[100:], y[100:], X_public=rows[:100]
        )
        for rows in (X, twins)
    )
    assert one.guarantee_ < other.guarantee_


def test_the_parts_of_a_draw():
    certificate = Certificate(excess_error(50, 1000, 0.5, 0.1), 0.9, 50)
    assert certificate.at(0.01) == pytest.approx(excess_error(50, 1000, 0.5, 0.01))
    n, size = 1000, 7
    expected = math.sqrt(math.log(30 * size) / (2 * n)) + math.sqrt(math.log(15) / (2 * n))
    assert sampling_error(n, 0.1, size) == pytest.approx(expected)


SQUARE = np.array(list(itertools.product(range(6), repeat=2)), dtype=float)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(
    "hypotheses",
    [
        *(Stumps(), Intervals(), Rectangles(), Conjunctions(), Halfspaces(), DecisionTrees()),
        Union([Stumps(), Rectangles()]),
    ],
    ids=repr,
)
def test_guarantees_hold_for_every_class(hypotheses, noise):
    """Conservative: a population of 36 points with random shares, a random rule and noise."""
    n, m, trials, alpha = 3000, 600, 12, 0.02
    whole = hypotheses.build_cover(public_sample(SQUARE), alpha=1e-9, beta=BETA)
    rng = np.random.default_rng(0)
    paths = [path for path, _, _ in itertools.islice(_members(whole), 0, 10**5, 97)]
    clf = SemiPrivateClassifier(hypotheses, alpha=alpha, beta=BETA, classes=(0, 1))
    failures = 0
    for trial in range(trials):
        shares = rng.dirichlet(np.full(len(SQUARE), 0.5))
        truth = whole.hypothesis(paths[rng.integers(len(paths))]).predict(SQUARE)
        cells = rng.choice(len(SQUARE), size=n, p=shares)
        y = label(truth[cells], noise, rng)
        X_public = SQUARE[rng.choice(len(SQUARE), size=m, p=shares)]
        clf.set_params(random_state=trial).fit(SQUARE[cells], y, X_public=X_public)
        excess = (1 - 2 * noise) * shares[clf.predict(SQUARE) != truth].sum()
        assert clf.guarantee_ < 0.6
        assert "With probability 0.8" in clf.guarantee_reason_
        failures += excess > clf.guarantee_
    assert_failures_allowed(failures, trials, BETA)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("labelled public rows", {"weight": 1}),
        ("heavy public rows", {"weight": 20}),
        ("three labels", {"n_classes": 3}),
        ("one of several classes", {"grid": {"hypotheses": [Stumps(), Intervals()]}}),
        ("no public rows, synthetic ones and shared ones", {"generic": True}),
    ],
)
def test_guarantees_of_every_kind_hold(name, settings):
    """Conservative, and every way to a promise: 0.03 is lost at most, and 0.1 to 0.4 promised."""
    n, m, trials, beta = 4000, 400, 40, 0.05
    weight, n_classes = settings.get("weight", 0), settings.get("n_classes", 2)
    rng, values = np.random.default_rng(0), np.arange(40.0)[:, None]
    clf = SemiPrivateClassifier(
        Stumps(), beta=beta, alpha=0.1, public_weight=weight, classes=range(n_classes)
    )
    if "grid" in settings:
        rule = SemiPrivateClassifier(beta=beta, public_weight=0)
        clf = SemiPrivateSearchCV(rule, settings["grid"], classes=(0, 1))
    if "generic" in settings:
        n, clf = 100_000, GenericLearnerClassifier(Stumps(), beta=beta, classes=(0, 1), epsilon=4.0)
    failures, promised = 0, []
    for trial in range(trials):
        shares = rng.dirichlet(np.full(len(values), 0.2))
        truth = np.where(np.arange(40) > rng.integers(40), *rng.permutation(n_classes)[:2])
        chances = np.full((len(values), n_classes), 0.3 / n_classes)
        chances[np.arange(40), truth] += 0.7
        cells = rng.choice(40, size=n + m, p=shares)
        y = (rng.random((n + m, 1)) > chances[cells].cumsum(axis=1)).sum(axis=1)
        given = {"X_public": values[cells[n:]]} | ({"y_public": y[n:]} if weight else {})
        if "generic" in settings:
            given["is_labelled"] = np.arange(n) < 4000
        clf.set_params(random_state=trial).fit(values[cells[:n]], y[:n], **given)
        promised.append(clf.guarantee_)
        failures += 0.7 * shares[clf.predict(values) != truth].sum() > clf.guarantee_
    assert max(promised) < 0.8
    assert_failures_allowed(failures, trials, beta)


def _members(cover):
    family = cover.family(np.zeros_like(cover.tabulate(SQUARE[:0], *np.zeros((2, 0), dtype=int))))
    return family.members()


def test_a_coarse_cover_is_paid_for():
    """The best threshold lies between two kept ones: without the cover's part it would fail."""
    rng = np.random.default_rng(0)
    n, m, trials, alpha = 200_000, 4000, 20, 0.4
    clf = SemiPrivateClassifier(Thresholds(), alpha=alpha, beta=BETA)
    failures = without = 0
    for trial in range(trials):
        X, public = rng.random((n, 1)), rng.random((m, 1))
        clf.set_params(random_state=trial).fit(X, X[:, 0] > 0.2, X_public=public)
        excess = np.mean(
            clf.predict(np.linspace(0, 1, 5001)[:, None]) != (np.linspace(0, 1, 5001) > 0.2)
        )
        failures += excess > clf.guarantee_
        without += excess > clf.guarantee_ - clf.cover_radius_ / 2
    assert clf.cover_radius_ == pytest.approx(alpha / 2, rel=0.05)
    assert_failures_allowed(failures, trials, BETA)
    assert without > trials / 2


def test_a_finite_class_needs_no_public_rows():
    models = FiniteClass([Exceptions(), Exceptions(1.0), Exceptions(2.0)])
    X = np.arange(500.0)[:, None] % 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoPublicDataWarning)
        clf = SemiPrivateClassifier(models, epsilon=0.5, beta=0.1, random_state=0)
        clf.fit(X, (X[:, 0] == 1).astype(int))
    assert clf.guarantee_ == pytest.approx(finite_excess(500, 0.1, 0.5, 3))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 2))
Y = (X[:, 0] > 0).astype(int)
PUBLIC = RNG.normal(size=(400, 2))
LABELS = (PUBLIC[:, 0] > 0).astype(int)


def fitted(hypotheses=None, X_public=PUBLIC, y=Y, y_public=None, groups=None, **settings):
    settings = {"random_state": 0, **settings}
    clf = SemiPrivateClassifier(hypotheses or Stumps(), **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoPublicDataWarning)
        return clf.fit(X, y, X_public=X_public, y_public=y_public, groups=groups)


class TestNothing:
    """Where nothing is proved nothing is promised, and the reason is one plain sentence."""

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"X_public": None}, "there are no public rows"),
            ({"X_public": describe_columns({"a": (-3, 3), "b": (-3, 3)})}, "from a description"),
            ({"max_rows_per_group": 2, "groups": np.arange(4000) // 2}, "several rows"),
            ({"hypotheses": Halfspaces(cover="directions", rounds=1)}, "is not known"),
            ({"hypotheses": Halfspaces(cover="directions", rounds=2)}, "depends on earlier draws"),
        ],
    )
    def test_of_a_rule(self, settings, reason):
        clf = fitted(**settings)
        assert clf.guarantee_ is None
        assert clf.guarantee_reason_.startswith("No error bound is proved: ")
        assert reason in clf.guarantee_reason_
        assert clf.guarantee_reason_.count(".") == 1

    def test_of_boosting(self):
        boosted = SemiPrivateBoostingClassifier(max_rounds=1, random_state=0)
        boosted.fit(X[:500], Y[:500], X_public=PUBLIC)
        other = SemiPrivateBoostingRegressor(outcome_bounds=(-4, 4), max_rounds=1, random_state=1)
        other.fit(X[:500], X[:500, 0], X_public=PUBLIC)
        for model in (boosted, other):
            assert model.guarantee_ is None
            assert "no theorem bounds the error" in model.guarantee_reason_

    def test_one_row_of_each_person_is_fine(self):
        clf = fitted(max_rows_per_group=1, groups=np.arange(4000))
        assert clf.guarantee_ == fitted().guarantee_


def test_few_rows_are_promised_nothing():
    clf = fitted(epsilon=1e-3)
    assert clf.guarantee_ == 1
    assert "this bound is vacuous" in clf.guarantee_reason_


def test_labelled_public_rows_are_bounded_by_the_whole_class():
    """They chose the cover, so what they say counts as far as it is true of every rule."""
    alone, light = fitted(), fitted(y_public=LABELS)
    heavy = fitted(y_public=LABELS, public_weight=100)
    assert alone.guarantee_ < light.guarantee_ < heavy.guarantee_
    assert fitted(y_public=LABELS, public_weight=0).guarantee_ == alone.guarantee_
    several = np.digitize(X[:, 0], [-1, 1]), np.digitize(PUBLIC[:, 0], [-1, 1])
    many = fitted(y=several[0], y_public=several[1])
    assert many.guarantee_ > light.guarantee_


class TestSearch:
    GRID = {"alpha": [0.02, 0.2], "hypotheses": [Stumps(), Intervals()]}  # noqa: RUF012

    def searched(self, grid=GRID, estimator=None, **given):
        estimator = SemiPrivateClassifier() if estimator is None else estimator
        search = SemiPrivateSearchCV(estimator, grid, random_state=0)
        return search.fit(X, Y, **{"X_public": PUBLIC, **given})

    def test_one_draw_is_a_union_of_classes(self):
        search = self.searched()
        assert search.chosen_by_ == "one draw"
        coarsest = fitted(Intervals(), alpha=0.2)
        assert coarsest.guarantee_ < search.guarantee_ < coarsest.guarantee_ + 0.05
        best = search.best_estimator_
        assert (best.guarantee_, best.guarantee_reason_) == (
            search.guarantee_,
            search.guarantee_reason_,
        )

    def test_all_covers_hold_at_once(self):
        search = self.searched({"hypotheses": [Stumps()], "alpha": [0.2, 0.2]})
        share = 0.05 / 2 / 2 / 3  # half for the cover, of two candidates, one of three bounds
        cover = cuts_radius(400, share, 1, columns=2, missed=40)
        assert f"at most {cover:.3g} for the cover" in search.guarantee_reason_

    def test_one_candidate_is_a_rule(self):
        search = self.searched({"hypotheses": [Stumps()]})
        assert search.guarantee_ == pytest.approx(fitted().guarantee_)

    def test_of_what_was_chosen_before_nothing(self):
        boosting = SemiPrivateBoostingClassifier(max_rounds=1, delta=0)
        trials = SemiPrivateSearchCV(boosting, {"max_rounds": [1, 2]}, random_state=0)
        trials.fit(X[:500], Y[:500], X_public=PUBLIC)
        public = self.searched({"hypotheses": [Stumps(), Thresholds(1)]}, y_public=LABELS)
        assert (trials.chosen_by_, public.chosen_by_) == ("trials", "public rows")
        for search in (trials, public):
            assert search.guarantee_ is None
            assert "to choose among the candidates" in search.guarantee_reason_
            assert search.best_estimator_.guarantee_ is None

    def test_steps_that_saw_the_public_rows(self):
        pipeline = make_pipeline(PublicFit(), SemiPrivateClassifier())
        search = self.searched({"semiprivateclassifier__alpha": [0.02, 0.2]}, pipeline)
        assert search.guarantee_ is None
        assert "fitted to the public rows" in search.guarantee_reason_

    def test_weights_that_differ(self):
        search = self.searched({"public_weight": [1, 2]}, y_public=LABELS)
        assert search.guarantee_ is None
        assert "different total weights" in search.guarantee_reason_


class TestQuantiles:
    """The shipped sanitizer: its distribution functions, and what the learner makes of them."""

    def test_sums_of_noise(self):
        rng = np.random.default_rng(0)
        scale, parts, trials = 7.0, 31, 4000
        p = math.exp(-1 / scale)
        noise = rng.geometric(1 - p, (trials, parts)) - rng.geometric(1 - p, (trials, parts))
        worst = np.abs(noise.cumsum(axis=1)).max(axis=1)
        promised = _max_laplace_sum(parts, scale, BETA)
        assert_failures_allowed((worst > promised).sum(), trials, BETA)
        assert (worst > promised / 2).mean() > BETA

    def test_the_odds_are_those_of_the_candidates(self):
        prior = candidate_grid().prior
        assert (
            prior.sum() / prior.min() <= UNBOUNDED_PRIOR_RATIO <= 1.0001 * prior.sum() / prior.min()
        )

    def test_spaces_are_no_smaller_than_levels_make_them(self):
        for epsilon, n_columns in itertools.product((0.5, 2.0), (1, 7)):
            assert (
                2**-6
                < quantile_error(10**9, BETA, epsilon, UNBOUNDED_PRIOR_RATIO, n_columns)
                < 1.05 * 2**-6
            )
            assert quantile_error(20, BETA, epsilon, UNBOUNDED_PRIOR_RATIO, n_columns) == 1

    @pytest.mark.parametrize("kind", ["spread", "atoms", "far"])
    def test_distribution_functions_are_as_near_as_promised(self, kind):
        rng = np.random.default_rng(0)
        n, epsilon, trials = 40_000, 4.0, 12
        values = {
            "spread": np.arange(2000.0),
            "atoms": np.array([0.0, 1.0, 5.0, 70.0]),
            "far": np.append(np.arange(100.0), 2e12),
        }[kind]
        promised = quantile_error(n, BETA, epsilon, UNBOUNDED_PRIOR_RATIO)
        assert promised < 0.3
        failures = 0
        for trial in range(trials):
            shares = rng.dirichlet(np.full(len(values), 0.5))
            rows = rng.choice(values, size=(n, 1), p=shares)
            sanitizer = QuantileSanitizer(epsilon=epsilon, random_state=trial).fit(rows)
            points = np.sort(sanitizer.sample(20_000)[:, 0])
            released = np.searchsorted(points, values, side="right") / len(points)
            distance = np.abs(released - np.cumsum(shares)).max()
            failures += distance > promised + 1 / len(points)
        assert_failures_allowed(failures, trials, BETA)

    def test_the_learner_says_what_it_rests_on(self):
        rows = np.random.default_rng(0).integers(0, 500, size=(400_000, 1)).astype(float)
        y = np.where(np.arange(len(rows)) < 5000, rows[:, 0] > 200, -1)
        settings = {"epsilon": 4.0, "classes": [0, 1], "random_state": 0}
        clf = GenericLearnerClassifier(Stumps(), **settings).fit(rows, y)
        error = quantile_error(395_000, 0.025, 4.0, UNBOUNDED_PRIOR_RATIO)
        cover = 0.025 + 2 * (error + 1 / 1000)
        assert f"at most {cover:.3g} for the cover" in clf.guarantee_reason_
        assert clf.guarantee_ < 0.2
        assert np.mean(clf.predict(np.arange(500.0)[:, None]) != (np.arange(500) > 200)) < 0.1
        other = GenericLearnerClassifier(Halfspaces(), **settings).fit(rows, y)
        assert other.guarantee_ is None
        assert "is not known" in other.guarantee_reason_

    def test_too_few_rows_and_no_public_ones(self):
        settings = {"classes": [0, 1], "random_state": 0}
        with pytest.warns(NoPublicDataWarning):
            clf = GenericLearnerClassifier(Stumps(), **settings).fit(X, Y)
        assert clf.guarantee_ is None
        assert "no public rows" in clf.guarantee_reason_
        clf = GenericLearnerClassifier(Stumps(), **settings).fit(X, Y, X_public=PUBLIC)
        assert clf.guarantee_ == pytest.approx(fitted(classes=[0, 1]).guarantee_)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hypotheses", "alpha", "cuts", "n_columns", "trials"),
    [(Thresholds(), 0.2, 1, 1, 40), (Intervals(), 0.35, 2, 1, 12), (Stumps(), 0.25, 1, 2, 12)],
    ids=repr,
)
def test_the_shipped_learner_keeps_its_promise_at_its_own_size(
    hypotheses, alpha, cuts, n_columns, trials
):
    """A smoke test, which sees gross errors only."""
    epsilon = 4.0
    size = n_quantile_learner(alpha, BETA, epsilon, cuts, n_columns)
    clf = GenericLearnerClassifier(
        hypotheses, epsilon=epsilon, alpha=0.01, beta=BETA, classes=[0, 1]
    )
    rng = np.random.default_rng(0)
    values, failures = np.arange(300.0), 0
    for trial in range(trials):
        shares = rng.dirichlet(np.full(len(values), 0.3))
        truth = values > rng.integers(300)
        if cuts == 2:
            truth &= values < rng.integers(300)
        cells = rng.choice(len(values), size=sum(size), p=shares)
        y = np.where(np.arange(len(cells)) < size.labelled, label(truth[cells], 0.1, rng), -1)
        X, points = (  # the other column tells nothing
            np.column_stack([values[at]] + [rng.integers(9, size=len(at))] * (n_columns - 1))
            for at in (cells, np.arange(300))
        )
        clf.set_params(random_state=trial).fit(X, y)
        assert clf.guarantee_ <= alpha
        failures += 0.8 * shares[clf.predict(points) != truth].sum() > clf.guarantee_
    assert_failures_allowed(failures, trials, BETA)


@pytest.mark.parametrize("constants", ["paper", "tight"])
def test_a_fit_at_the_size_of_the_semi_private_learner_promises_alpha(constants):
    alpha, beta = 0.3, 0.05
    n = n_private(alpha, beta, 1.0, 1, constants=constants)
    m = n_public(alpha / 2, beta / 2, 1, constants=constants)
    X = np.random.default_rng(0).random((n, 1))
    clf = SemiPrivateClassifier(Thresholds(), alpha=1e-9, beta=beta, classes=[0, 1], random_state=0)
    clf.fit(X, (X[:, 0] > 0.4).astype(int), X_public=np.random.default_rng(1).random((m, 1)))
    assert 0 < clf.guarantee_ <= alpha


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
def test_a_fit_at_the_size_of_a_finite_class_promises_alpha():
    alpha, beta = 0.2, 0.05
    models = FiniteClass([Exceptions(), *[Exceptions(1.0)] * 99])
    X = np.random.default_rng(0).integers(0, 3, size=(n_finite(alpha, beta, 1.0, 100), 1)) * 1.0
    clf = SemiPrivateClassifier(models, beta=beta, classes=[0, 1], random_state=0)
    clf.fit(X, np.zeros(len(X), dtype=int))
    assert 0.95 * alpha < clf.guarantee_ <= alpha
