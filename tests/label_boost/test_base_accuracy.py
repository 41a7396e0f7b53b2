"""The promise of LabelBoost around a base learner whose accuracy is declared."""

import dataclasses
import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import laplace
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from skpublicdp import (
    LabelBoostClassifier,
    PrivacyBudget,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.guarantees import BaseAccuracy, excess_error, growth_function, n_label_boost
from skpublicdp.hypotheses import FiniteClass, Rectangles, Stumps, Thresholds
from tests.helpers import allowed_failures
from tests.internals.data import LabelledRows
from tests.internals.guarantees import LabellerDraw, labeller_error, relative_deviation_bound
from tests.internals.label_boost import (
    LabelBoostPlan,
    RelabellingRound,
    choose_plan,
    label_boost_guarantee,
    log_n_labelings,
    rows_for_base_learner,
)
from tests.internals.privacy import Ledger
from tests.label_boost.test_guarantees import (
    MODELS,
    Above,
    boosted,
    boxed,
    excess,
    excess_of_box,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning"),
]

CELLS, FLIPPED, CUT = 60, 0.1, 22


class Histogram(ClassifierMixin, BaseEstimator):
    """A third party's learner: each value of a column has counts of its own, with noise."""

    protects_all_rows = True
    n_cells = CELLS

    def __init__(self, epsilon=1.0, classes=None, random_state=None):
        self.epsilon, self.classes, self.random_state = epsilon, classes, random_state

    def fit(self, X, y):
        self.classes_ = np.asarray(self.classes)
        cells = self.cells(X)
        counts = [np.bincount(cells[y == c], minlength=self.n_cells) for c in self.classes_]
        noise = np.random.default_rng(self.random_state).laplace(
            scale=2 / self.epsilon, size=(len(self.classes_), self.n_cells)
        )
        self.labels_ = self.classes_[np.argmax(counts + noise, axis=0)]
        return self

    def predict(self, X):
        return self.labels_[self.cells(X)]

    def cells(self, X):
        return X[:, 0].astype(int)


class PointHistogram(Histogram):
    """The same with counts of each point of a grid of 16 rows and columns."""

    n_cells = 256

    def cells(self, X):
        return X.astype(int) @ [1, 16]


def histogram_error(n, epsilon, beta, n_cells=CELLS):
    """Bound the share of rows in cells of one label each in which noise outweighs the count.

    A cell of k rows is wrong if the difference D of two noises exceeds k, so the number of wrong
    rows is at most the sum of max(D, 0). Chernoff's bound has the moments of max(D, 0): the density
    of D is exp(-x) (1 + x) / 4 in units of the scale of the noise.
    """

    def log_moment(t):
        return math.log(0.5 + 0.25 / (1 - t) + 0.25 / (1 - t) ** 2)

    def bound(t):
        return (n_cells * log_moment(t) + math.log(1 / beta)) / t

    best = minimize_scalar(bound, bounds=(1e-3, 0.999), method="bounded")
    return min(1.0, 2 / epsilon * best.fun / n)


ACCURACY = BaseAccuracy(histogram_error, vc_dimension=CELLS)
PERFECT = BaseAccuracy(lambda n, epsilon, beta: 0.0 if n >= 10 else 1.0, vc_dimension=1)
POOR = BaseAccuracy(functools.partial(histogram_error, n_cells=5000), vc_dimension=5000)


def ages(seed, n_labelled=20_000, n_unlabelled=400_000, **settings):
    """Return LabelBoost around the histogram, on ages that a threshold labels, one in ten wrong."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, CELLS, size=(n_labelled + n_unlabelled, 1)).astype(float)
    y = ((X[:, 0] > CUT) ^ (rng.random(len(X)) < FLIPPED)).astype(int)
    y[n_labelled:] = -1
    settings = {"base_accuracy": ACCURACY, "n_base": 2_000_000, "random_state": seed, **settings}
    return LabelBoostClassifier(Histogram(), classes=[0, 1], **settings).fit(X, y)


def excess_of_ages(clf):
    grid = np.arange(CELLS, dtype=float)[:, None]
    return (1 - 2 * FLIPPED) * (clf.predict(grid) != (grid[:, 0] > CUT)).mean()


class TestThirdParty:
    def test_its_declaration_is_true(self):
        """Violations are as rare as declared, and half of the bound is violated."""
        n, epsilon, beta, runs = 3000, 0.5, 0.1, 400
        bound, failures, halves = histogram_error(n, epsilon, beta), 0, 0
        for seed in range(runs):
            X = np.random.default_rng(seed).integers(0, CELLS, size=(n, 1)).astype(float)
            y = (X[:, 0] > CUT).astype(int)
            base = Histogram(epsilon, [0, 1], seed).fit(X, y)
            error = (base.predict(X) != y).mean()
            failures += error > bound
            halves += error > 0.02 * bound
        assert failures <= allowed_failures(runs, beta)
        assert halves > 0
        # the sum of max(D, 0), which the bound is about, has no slack beyond Chernoff's
        rng = np.random.default_rng(0)
        D = laplace.rvs(size=(4000, CELLS, 2), random_state=rng) @ [1.0, -1.0]
        sums = 2 / epsilon * D.clip(0).sum(axis=1) / n
        assert (sums > bound).mean() <= beta
        assert (sums > 0.75 * bound).mean() > 0.2

    def test_it_has_a_promise_and_keeps_it(self):
        for seed in range(4):
            clf = ages(seed)
            assert clf.n_rounds_ == 1
            assert excess_of_ages(clf) <= clf.guarantee_ < 0.25
            assert clf.guarantee_reason_.endswith(
                "if the base learner is as accurate as base_accuracy declares."
            )

    def test_without_a_declaration_there_is_none(self):
        clf = ages(0, 5000, 50_000, base_accuracy=None)
        assert clf.guarantee_ is None
        assert "requires a base_accuracy" in clf.guarantee_reason_

    def test_a_released_labeler(self):
        for seed in range(3):
            clf = ages(seed, release_labeler=True, hypotheses=Stumps(), bounds=(0, CELLS))
            assert clf.guarantee_ is None  # the cover of bounds has no radius
            assert "no public rows" in clf.guarantee_reason_
        rng = np.random.default_rng(0)
        X = rng.integers(0, CELLS, size=(60_000, 1)).astype(float)
        y = np.where(np.arange(len(X)) < 10_000, X[:, 0] > CUT, -1)
        public = rng.integers(0, CELLS, size=(1000, 1)).astype(float)
        clf = LabelBoostClassifier(
            Histogram(),
            hypotheses=Stumps(),
            classes=[0, 1],
            release_labeler=True,
            base_accuracy=ACCURACY,
            random_state=0,
        ).fit(X, y, X_public=public)
        n = 50_000
        log_rules = math.log(growth_function(2 * n, CELLS))
        expected = relative_deviation_bound(histogram_error(n, 1.0, 0.0125), n, log_rules, 0.0125)
        assert clf.guarantee_ == pytest.approx(clf.labeler_.guarantee_ + expected)
        assert excess_of_ages(clf) <= clf.guarantee_ < 0.3

    @pytest.mark.slow
    @pytest.mark.parametrize("alpha", [0.1, 0.2, 0.3])
    def test_labels_without_errors_at_the_size_that_is_counted(self, alpha):
        """The round of `n_label_boost(realizable=True)`, on a threshold with the worst neighbour.

        Half of the rows have the values next to the cut, and the rules that err there have an
        error just above alpha.

        A smoke test, which sees gross errors only.
        """
        settings = {"constants": "tight"}
        sizes = n_label_boost(alpha, 0.05, 1.0, 1, ACCURACY, realizable=True, **settings)
        assert sizes.labelled < n_label_boost(alpha, 0.05, 1.0, 1, ACCURACY, **settings).labelled
        rates = (
            math.expm1(1) / (math.exp(0.5) * (1 + math.exp(0.25)) ** 2 - 1),
            math.expm1(1) / (4 * math.exp(0.5) - 1),
        )
        old, new = (math.floor(n * rate) for n, rate in zip(sizes, rates, strict=True))
        step = RelabellingRound(*sizes, old, new, Fraction(1, 2))
        plan = LabelBoostPlan(*sizes, (step,), old + new, 0.5, 0.0)
        shares = np.full(CELLS, (1 - 2.02 * alpha) / (CELLS - 2))
        shares[CUT : CUT + 2] = 1.01 * alpha
        runs, failures = 60, 0
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            X = rng.choice(CELLS, size=(sum(sizes), 1), p=shares).astype(float)
            is_labelled = np.arange(len(X)) < sizes.labelled
            rows = LabelledRows(
                X_labelled=X[is_labelled],
                y_labelled=(X[is_labelled, 0] > CUT).astype(np.intp),
                X_unlabelled=X[~is_labelled],
                labelled=is_labelled,
                classes=np.arange(2),
                X_public=np.empty((0, 1)),
            )
            ledger = Ledger(1, random_state=seed)
            stage = ledger.sub_ledger(ledger.event, name="rounds", proof="", by_theorem=True)
            X, y = rows_for_base_learner(plan, Thresholds(), rows, stage)
            base = Histogram(0.5, [0, 1], seed).fit(X, y)
            cells = np.arange(CELLS)
            failures += shares[base.predict(cells[:, None]) != (cells > CUT)].sum() > alpha
        assert failures <= allowed_failures(runs, 0.05)

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("accuracy", [ACCURACY, PERFECT, POOR])
    def test_a_fit_at_the_counted_size_promises_alpha(self, accuracy, epsilon):
        """With alpha / 4, as the docstring says; most of these fits have too many rows to run."""
        for alpha in (0.02, 0.05, 0.1, 0.2, 0.4):
            sizes = n_label_boost(alpha, 0.05, epsilon, 1, accuracy, constants="tight")
            plan = choose_plan(
                Thresholds(),
                1,
                2,
                n_labelled=sizes.labelled,
                n_unlabelled=sizes.unlabelled,
                epsilon=Fraction(epsilon),
                delta=Fraction(0),
                alpha=alpha / 4,
                beta=0.05,
                n_base=accuracy.n_rows(alpha / 4, 0.05 / 4),
                must_relabel=True,
            )
            assert len(plan.rounds) == 1
            log_labelings = functools.partial(
                log_n_labelings, Thresholds(), n_features=1, n_classes=2
            )
            guarantee = label_boost_guarantee(
                plan, Thresholds(), None, 0.05, plan.base_rows, log_labelings, accuracy
            )
            assert guarantee.bound <= alpha

    def test_few_unlabelled_rows_are_enough_for_an_accurate_learner(self):
        sizes = n_label_boost(0.1, 0.05, 1.0, 1, PERFECT, constants="tight")
        assert sizes.unlabelled == 4
        clf = ages(0, *sizes, base_accuracy=PERFECT, n_base=None, alpha=0.1 / 4)
        assert clf.n_rounds_ == 1
        assert clf.guarantee_ <= 0.1

    @pytest.mark.slow
    @pytest.mark.parametrize("alpha", [0.2, 0.3])
    def test_it_is_kept_at_the_size_that_is_counted(self, alpha):
        """A smoke test, which sees gross errors only."""
        sizes = n_label_boost(alpha, 0.05, 1.0, 1, ACCURACY, constants="tight")
        runs, failures = 20, 0
        for seed in range(runs):
            clf = ages(seed, *sizes, n_base=None, alpha=alpha / 4)
            assert clf.n_rounds_ == 1
            failures += excess_of_ages(clf) > min(alpha, clf.guarantee_)
        assert failures <= allowed_failures(runs, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.2, 0.3])
def test_rectangles_of_few_labels(alpha):
    """Corollary 4.17 at the size that is counted, around a learner that needs many rows.

    A smoke test, which sees gross errors only.
    """
    accuracy = BaseAccuracy(functools.partial(histogram_error, n_cells=256), vc_dimension=256)
    sizes = n_label_boost(alpha, 0.05, 1.0, 4, accuracy, constants="tight")
    assert sizes.labelled < sizes.unlabelled
    runs, failures = 10, 0
    settings = {"base_accuracy": accuracy, "alpha": alpha / 4, "classes": [0, 1]}
    for seed in range(runs):
        clf = boxed(seed, *sizes, base=PointHistogram(), **settings)
        assert clf.n_rounds_ == 1
        assert clf.guarantee_ <= alpha
        failures += excess_of_box(clf) > clf.guarantee_
    assert failures <= allowed_failures(runs, 0.05)


SIDE = 6
CUBE = Rectangles(cuts=[np.arange(0.5, SIDE - 1)] * 3)


class CubeHistogram(Histogram):
    """The same with counts of each point of a grid in three columns."""

    n_cells = SIDE**3

    def cells(self, X):
        return X.astype(int) @ SIDE ** np.arange(3)


def in_cube(X):
    """Return whether rows are in the box that labels them."""
    return ((X > 0) & (X < SIDE - 1)).all(axis=1)


def cubed(seed, n_labelled, n_unlabelled, base, **settings):
    """Return LabelBoost on a grid of three columns, which a box labels, one label in ten wrong."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, SIDE, size=(n_labelled + n_unlabelled, 3)).astype(float)
    y = in_cube(X) ^ (rng.random(len(X)) < FLIPPED)
    y = np.where(np.arange(len(X)) < n_labelled, y, -1)
    return LabelBoostClassifier(
        base, hypotheses=CUBE, classes=[0, 1], random_state=seed, **settings
    ).fit(X, y)


def excess_of_cube(clf):
    X = np.array(list(itertools.product(range(SIDE), repeat=3)), dtype=float)
    return (1 - 2 * FLIPPED) * (clf.predict(X) != in_cube(X)).mean()


def test_boxes_in_three_columns():
    """The package's own draw from the same boxes needs no declaration."""
    base = SemiPrivateClassifier(CUBE, beta=0.025)
    clf = cubed(0, 30_000, 200_000, base, n_base=10**6)
    assert clf.n_rounds_ == 1
    assert excess_of_cube(clf) <= clf.guarantee_ < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.2, 0.3])
def test_boxes_in_three_columns_of_few_labels(alpha):
    """Corollary 4.17 at the size that is counted: boxes have VC dimension 6.

    A smoke test, which sees gross errors only.
    """
    error = functools.partial(histogram_error, n_cells=SIDE**3)
    accuracy = BaseAccuracy(error, vc_dimension=SIDE**3)
    sizes = n_label_boost(alpha, 0.05, 1.0, 6, accuracy, constants="tight")
    assert sizes.labelled < sizes.unlabelled
    runs, failures = 10, 0
    for seed in range(runs):
        clf = cubed(seed, *sizes, CubeHistogram(), base_accuracy=accuracy, alpha=alpha / 4)
        assert clf.n_rounds_ == 1
        assert clf.guarantee_ <= alpha
        failures += excess_of_cube(clf) > clf.guarantee_
    assert failures <= allowed_failures(runs, 0.05)


def test_it_is_this_sum():
    """docs/proofs/label_boost.md, written out."""
    beta, n, s = 0.08, 5 * 10**6, 10**6
    sizes = 2 * s, 8 * s
    step = RelabellingRound(*sizes, s, 4 * s, Fraction(1, 2))
    plan = LabelBoostPlan(*sizes, (step,), n, 0.5, 0.0)

    def n_labelings(rows):
        return math.log(rows + 1)

    found = label_boost_guarantee(
        plan, Thresholds(), Histogram(), beta, n, n_labelings, ACCURACY, 2
    )
    labelled = labeller_error([LabellerDraw(s, n, 0.5)], n_labelings, beta / 2)
    share = beta / 4
    log_pairs = math.log(2 * n + 1) + math.log(growth_function(2 * n, CELLS))
    lost = relative_deviation_bound(histogram_error(n, 0.5, share), n, log_pairs, share)
    assert found.bound == pytest.approx(labelled + lost, rel=1e-9)
    arguments = (plan, Thresholds(), Histogram(), beta)
    for rows, classes, reason in [(n + 2, 2, "rows for labels"), (n, 3, "for two labels")]:
        none = label_boost_guarantee(*arguments, rows, n_labelings, ACCURACY, classes)
        assert none.bound is None
        assert reason in none.reason
    none = label_boost_guarantee(
        dataclasses.replace(plan, rounds=()), *arguments[1:], n, n_labelings, ACCURACY
    )
    assert (none.bound, "no row was relabelled" in none.reason) == (None, True)


def test_disagreements_in_the_population_are_rarer_than_declared_errors_allow():
    """Rules that fit their rows best are the worst case: 1 in beta may exceed the bound."""
    n, d, beta, runs, failures = 300, 3, 0.2, 300, 0
    rng = np.random.default_rng(0)
    for _ in range(runs):
        # labels of a threshold that is chosen by the rows; the rule is a union of d points' gaps
        rows = np.sort(rng.random(n))
        gaps = np.sort(np.diff(np.r_[0, rows, 1]))[::-1]
        disagreement = gaps[:d].sum()  # the rule errs on no row and on the largest gaps
        log_pairs = math.log(2 * n + 1) + math.log(growth_function(2 * n, 2 * d))
        failures += disagreement > relative_deviation_bound(0.0, n, log_pairs, beta)
    assert failures <= allowed_failures(runs, beta)


class Listed(ClassifierMixin, BaseEstimator):
    """A third party's exponential mechanism over the thresholds of `MODELS`."""

    protects_all_rows = True

    def __init__(self, epsilon=1.0, classes=None, random_state=None):
        self.epsilon, self.classes, self.random_state = epsilon, classes, random_state

    def fit(self, X, y):
        self.classes_ = np.asarray(self.classes)
        errors = np.array([(model.predict(X) != y).sum() for model in MODELS])
        noise = np.random.default_rng(self.random_state).gumbel(size=len(MODELS))
        self.model_ = MODELS[int(np.argmax(noise - self.epsilon / 2 * errors))]
        return self

    def predict(self, X):
        return self.model_.predict(X)


def listed_error(n, epsilon, beta):
    return excess_error(len(MODELS), n, epsilon, beta)


class TestEveryBaseLearner:
    """Theorem 4.13 is for every base learner."""

    def test_a_third_partys_draw(self):
        accuracy = BaseAccuracy(listed_error, vc_dimension=1)
        models = FiniteClass(MODELS, vc_dimension=1)
        settings = {"hypotheses": models, "n_labelled": 40_000, "classes": [0, 1], "m": 0}
        clf = boosted(0, Listed(), base_accuracy=accuracy, **settings)
        assert clf.n_rounds_ == 1
        assert excess(clf) <= clf.guarantee_ < 0.3
        # the package's own draw from the same models needs no declaration
        own = boosted(0, SemiPrivateClassifier(models, beta=0.025), **settings)
        assert own.guarantee_ == pytest.approx(clf.guarantee_, abs=0.01)
        assert "declares" not in own.guarantee_reason_

    def test_the_same_finite_class_survives_a_clone(self):
        models = FiniteClass(MODELS, vc_dimension=1)
        learner = LabelBoostClassifier(
            SemiPrivateClassifier(models, beta=0.025),
            hypotheses=models,
            n_base=10**6,
            random_state=0,
        )
        X = np.random.default_rng(0).random((60_000, 1))
        y = np.where(np.arange(60_000) < 20_000, X[:, 0] > 0.4, -1)
        assert clone(learner).fit(X, y).guarantee_ < 1

    def test_boosting(self):
        """Its declaration is the user's: one in fifty, and what its noise costs."""
        accuracy = BaseAccuracy(lambda n, epsilon, _: 0.02 + 2000 / (epsilon * n), 300)
        base = SemiPrivateBoostingClassifier()
        clf = boosted(0, base, n_labelled=40_000, base_accuracy=accuracy, n_base=10**6)
        assert clf.n_rounds_ == 1
        assert excess(clf) <= clf.guarantee_ < 0.5
        assert clf.guarantee_reason_.endswith("as base_accuracy declares.")

    def test_a_declared_semi_private_learner_uses_the_declaration(self):
        accuracy = BaseAccuracy(lambda *_: 0.25, vc_dimension=1)
        clf = boosted(0, n_labelled=20_000, base_accuracy=accuracy)
        assert clf.guarantee_ > 0.25


class TestDeclaration:
    def test_rows(self):
        for alpha, beta, epsilon in itertools.product([0.01, 0.1], [0.05], [0.5, 1.0]):
            n = ACCURACY.n_rows(alpha, beta, epsilon)
            assert ACCURACY.error_on_rows(n, epsilon, beta) <= alpha
            assert ACCURACY.error_on_rows(n - 1, epsilon, beta) > alpha
        clf = ages(0, 5000, 50_000, n_base=None)
        assert clf._n_base() == ACCURACY.n_rows(0.1, 0.05 / 4)

    def test_sizes(self):
        """The smallest rows of the base learner, at half of ε, and enough labels."""
        alpha, beta, epsilon = 0.2, 0.05, 1.0
        labelled, unlabelled = n_label_boost(alpha, beta, epsilon, 1, ACCURACY, constants="tight")

        def is_enough(n):
            log_pairs = math.log(2 * n + 1) + math.log(growth_function(2 * n, CELLS))
            error = histogram_error(n, epsilon / 2, beta / 4)
            return relative_deviation_bound(error, n, log_pairs, beta / 4) <= alpha / 2

        rates = (
            math.expm1(epsilon) / (math.exp(0.5) * (1 + math.exp(0.25)) ** 2 - 1),
            math.expm1(epsilon) / (4 * math.exp(0.5) - 1),
        )
        n = math.floor(labelled * rates[0]) + math.floor(unlabelled * rates[1])
        assert is_enough(n + 1)
        assert not is_enough(n - 2)
        number = n_label_boost(
            alpha, beta, epsilon, 1, ACCURACY.n_rows(alpha / 4, beta / 4), constants="tight"
        )
        assert labelled == pytest.approx(number.labelled, rel=0.05)  # labels are the class's

    def test_what_is_wrong_is_said(self):
        for d in (0, 1.5, True):
            with pytest.raises(ValueError, match=r"vc_dimension .*>= 1"):
                BaseAccuracy(histogram_error, d)
        for value in (-0.1, math.nan):
            with pytest.raises(ValueError, match="negative or NaN"):
                BaseAccuracy(lambda *_, value=value: value, 1).error_on_rows(10, 1.0, 0.1)
        poor = BaseAccuracy(lambda *_: 0.2, 1)
        with pytest.raises(ValueError, match=r"reach alpha = 0\.1"):
            poor.n_rows(0.1, 0.05)
        with pytest.raises(ValueError, match=r"alpha / 2 = 0\.1"):
            n_label_boost(0.2, 0.05, 1.0, 1, poor, constants="tight")
        with pytest.raises(ValueError, match="n_base"):
            n_label_boost(0.2, 0.05, 1.0, 1, ACCURACY)
        with pytest.raises(ValueError, match="base_accuracy"):
            LabelBoostClassifier(Above(), base_accuracy=0.1).fit([[0.0]], [0])

    @pytest.mark.parametrize("release_labeler", [False, True])
    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (lambda n, epsilon, beta: 1 / 0, "it raised ZeroDivisionError: division by zero"),
            (lambda n, epsilon, beta: None, "it raised TypeError"),
            (lambda n, epsilon, beta: math.nan, "must not be negative or NaN; got nan"),
            (lambda n, epsilon: 0.1, "takes 2 positional arguments but 3 were given"),
        ],
    )
    def test_an_invalid_error_is_noticed_before_budget_is_spent(
        self, release_labeler, error, message, monkeypatch
    ):
        budget, draws = PrivacyBudget(2, for_tests=True), []
        for name in ("subset", "draw"):
            monkeypatch.setattr(Ledger, name, lambda *args, **settings: draws.append(args))
        with pytest.raises(ValueError, match="BaseAccuracy") as raised:
            ages(
                0,
                5000,
                5000,
                base_accuracy=BaseAccuracy(error, CELLS),
                n_base=5000,
                release_labeler=release_labeler,
                budget=budget,
                random_state=None,
            )
        assert message in str(raised.value)
        assert len(budget.ledger) == len(draws) == 0

    @pytest.mark.parametrize("release_labeler", [False, True])
    def test_the_error_is_called_once_with_numbers_of_the_fit(self, release_labeler):
        calls = []

        def error(*numbers):
            calls.append(numbers)
            return histogram_error(*numbers)

        settings = {"release_labeler": release_labeler, "n_base": 5000}
        clf = ages(0, 5000, 50_000, base_accuracy=BaseAccuracy(error, CELLS), **settings)
        ((n, epsilon, beta),) = calls
        assert n == 50_000 if release_labeler else n >= 5000
        assert epsilon == clf.estimator_.epsilon
        assert beta == clf.beta / 4
        assert clf.guarantee_ is None or clf.guarantee_ > 0
