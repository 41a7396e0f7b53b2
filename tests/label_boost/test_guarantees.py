"""What LabelBoost and the active learner promise in the population, against populations."""

import dataclasses
import functools
import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.tree import DecisionTreeClassifier

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.data import describe_columns
from skpublicdp.exceptions import TooFewRowsWarning
from skpublicdp.guarantees import (
    Certificate,
    cuts_radius,
    excess_error,
    growth_function,
    n_label_boost,
    n_uniform,
)
from skpublicdp.hypotheses import (
    DecisionTrees,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from tests.helpers import allowed_failures
from tests.internals.guarantees import (
    LabellerDraw,
    labeller_error,
    relative_deviation_bound,
    smallest_integer,
)
from tests.internals.hypotheses import n_boxes
from tests.internals.label_boost import (
    LabelBoostPlan,
    RelabellingRound,
    _is_subclass,
    label_boost_guarantee,
    log_n_labelings,
    relabel,
)
from tests.internals.privacy import Ledger
from tests.label_boost.test_label_boost import Constant, Recorder

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")

CUT, FLIPPED = 0.37, 0.1
BASE = SemiPrivateClassifier(Thresholds(), beta=0.025)


def population(rng, n, width=1):
    """Uniform rows; a threshold labels them, and one in ten labels is wrong."""
    X = rng.random((n, width))
    return X, ((X[:, 0] > CUT) ^ (rng.random(n) < FLIPPED)).astype(int)


def boosted(seed=0, base=BASE, n_labelled=5000, n_unlabelled=300_000, width=1, m=1000, **settings):
    rng = np.random.default_rng(seed)
    X, y = population(rng, n_labelled + n_unlabelled, width)
    y[n_labelled:] = -1
    settings = {"n_base": 10**6, "random_state": seed, **settings}
    clf = LabelBoostClassifier(base, **settings)
    return clf.fit(X, y, X_public=rng.random((m, width)) if m else None)


def excess(clf, width=1):
    """Return the error in the population over that of the best threshold."""
    # the first column decides, on a grid that is finer than what is told apart
    X = np.random.default_rng(9).random((50_000, width))
    X[:, 0] = (np.arange(len(X)) + 0.5) / len(X)
    return (1 - 2 * FLIPPED) * (clf.predict(X) != (X[:, 0] > CUT)).mean()


class TestBoosted:
    def test_it_is_kept(self):
        for seed in range(6):
            clf = boosted(seed)
            assert clf.n_rounds_ == 1
            assert excess(clf) <= clf.guarantee_ < 0.37

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("hypotheses", "labelled"), [(Rectangles(), 150), (Halfspaces(), 1000), (Intervals(), 3000)]
    )
    def test_it_is_kept_by_every_class(self, hypotheses, labelled):
        """Of 255 and 2048 rows that boxes and halfplanes can relabel nothing is promised yet."""
        width = 1 if isinstance(hypotheses, Intervals) else 2
        base = SemiPrivateClassifier(hypotheses, beta=0.025)
        sizes = {"n_labelled": labelled, "n_unlabelled": 50_000, "epsilon": 4.0, "n_base": 10**8}
        for seed in range(2):
            clf = boosted(seed, base, width=width, hypotheses=hypotheses, m=900, **sizes)
            assert clf.n_rounds_ >= 1
            assert (clf.guarantee_ < 1) == (width == 1)
            assert excess(clf, width) <= min(clf.guarantee_, 0.3)

    @pytest.mark.slow
    def test_it_is_kept_at_the_size_that_is_counted(self):
        """As many rows as `n_label_boost` counts, and the default number of public ones.

        A smoke test, which sees gross errors only.
        """
        alpha = 0.3
        sizes = n_label_boost(alpha, 0.05, 1.0, 1, 10**6, constants="tight")
        failed = 0
        for seed in range(20):
            clf = boosted(seed, BASE, *sizes, m=3000, n_base=10**6)
            assert clf.n_rounds_ >= 1
            failed += excess(clf) > min(alpha, clf.guarantee_)
        assert failed == 0  # four would be out of the ordinary at one in twenty

    @pytest.mark.slow
    def test_it_is_kept_after_two_rounds(self):
        for seed in range(3):
            clf = boosted(seed, n_labelled=1000, n_unlabelled=3_000_000, epsilon=2.0, m=3000)
            assert clf.n_rounds_ == 2
            assert excess(clf) <= clf.guarantee_ < 0.5

    def test_it_falls_with_rows_of_every_kind_and_with_the_budget(self):
        usual = boosted().guarantee_
        assert boosted(n_labelled=50_000).guarantee_ < usual - 0.05
        assert boosted(m=20_000).guarantee_ < usual - 0.01
        assert boosted(epsilon=4.0).guarantee_ < usual - 0.05
        assert boosted(beta=0.9).guarantee_ < usual

    def test_it_is_the_sum_that_the_reason_tells(self):
        clf = boosted()
        words = clf.guarantee_reason_.split("at most ")[1].split()
        assert float(words[0]) + float(words[4]) == pytest.approx(clf.guarantee_, abs=2e-3)
        few = boosted(n_labelled=300, n_unlabelled=9000)
        assert (few.n_rounds_, few.guarantee_) == (1, 1.0)
        assert few.guarantee_reason_.endswith("this bound is vacuous.")

    def test_the_default_base_learner_makes_one(self):
        for hypotheses in (None, Stumps()):
            clf = boosted(base=None, hypotheses=hypotheses, n_labelled=20_000)
            assert clf.n_rounds_ == 1
            assert excess(clf) <= clf.guarantee_ < 0.65


NOTHING = {
    "third party": ({"base": Recorder()}, "must be a SemiPrivateClassifier"),
    "other class": (
        {"base": SemiPrivateClassifier(Intervals(), beta=0.025)},
        "hypotheses include the labelling rules",
    ),
    "its beta": ({"base": SemiPrivateClassifier(Thresholds())}, "set its beta to 0.025 or less"),
    "no public rows": ({"m": 0, "base": None}, "no public rows"),
    "alone": (
        {"base": Constant(), "n_base": 1, "n_labelled": 9000},
        "Constant does not state a bound",
    ),
    "added rows": ({"base": Recorder(), "n_base": 1, "classes": [0, 1]}, "rows for labels"),
}


@pytest.mark.parametrize("case", NOTHING)
def test_where_nothing_is_proved_the_reason_is_said(case):
    settings, reason = NOTHING[case]
    clf = boosted(**settings)
    assert clf.guarantee_ is None
    assert reason in clf.guarantee_reason_
    assert clf.guarantee_reason_.startswith("No error bound is proved: ")
    assert clf.guarantee_reason_.count(". ") == 0  # one sentence


def test_persons_and_descriptions_are_no_samples():
    X, y = population(np.random.default_rng(0), 4000)
    clf = LabelBoostClassifier(BASE, max_rows_per_group=2, random_state=0)
    clf.fit(X, y, X_public=X[:300].copy(), groups=np.arange(4000) // 2)
    assert (clf.guarantee_, "a person may have" in clf.guarantee_reason_) == (None, True)
    described = describe_columns({"x": (0.0, 1.0, 0.5)}, size=300)
    for learner in (LabelBoostClassifier(BASE), SubsamplingActiveLearner(BASE)):
        learner.set_params(random_state=0).fit(X, y, X_public=described)
        assert learner.guarantee_ is None
        assert "created from a description" in learner.guarantee_reason_


def test_without_rounds_it_is_the_base_learners():
    clf = boosted(n_base=1, n_labelled=20_000)
    assert clf.n_rounds_ == 0
    assert clf.guarantee_ == clf.estimator_.guarantee_ < 0.2
    assert excess(clf) <= clf.guarantee_


def test_released_labelers_and_their_base_learners_add_up():
    for seed in range(4):
        clf = boosted(seed, hypotheses=Thresholds(), release_labeler=True)
        parts = clf.labeler_.guarantee_, clf.estimator_.guarantee_
        assert clf.guarantee_ == pytest.approx(sum(parts))
        assert excess(clf) <= clf.guarantee_ < 0.25
    other = boosted(hypotheses=Intervals(), release_labeler=True)
    assert other.guarantee_ is None
    usual = SemiPrivateClassifier(Thresholds())
    usual = boosted(base=usual, hypotheses=Thresholds(), release_labeler=True)
    assert "set its beta to 0.025 or less" in usual.guarantee_reason_


class TestActive:
    @staticmethod
    def asked(seed, **settings):
        rng = np.random.default_rng(seed)
        X, y = population(rng, 20_000)
        learner = SubsamplingActiveLearner(BASE, n_labels=2000, random_state=seed, **settings)
        return learner.fit(X, y, X_public=rng.random((1000, 1)))

    def test_it_is_the_base_learners_and_kept(self):
        for seed in range(4):
            learner = self.asked(seed)
            assert learner.guarantee_ == learner.estimator_.guarantee_ < 0.2
            assert learner.guarantee_reason_ == learner.estimator_.guarantee_reason_
            assert excess(learner) <= learner.guarantee_

    def test_a_base_learner_that_makes_none(self):
        X, y = population(np.random.default_rng(0), 300)
        learner = SubsamplingActiveLearner(Constant(), n_labels=50).fit(X, y)
        assert learner.guarantee_ is None
        assert (
            "Constant does not state a bound on its error in the population"
            in learner.guarantee_reason_
        )

    def test_rows_that_are_no_sample(self):
        class Promises(Recorder):  # it cannot be told the labels, so it is given a row of each
            guarantee_, guarantee_reason_ = 0.1, "its own"

        X, y = population(np.random.default_rng(0), 400)
        learner = SubsamplingActiveLearner(Promises(), n_labels=50).fit(X, y)
        assert "rows for labels" in learner.guarantee_reason_
        learner = SubsamplingActiveLearner(BASE, n_labels=50, max_rows_per_group=2)
        learner.fit(X, y, X_public=X[:90].copy(), groups=np.arange(400) // 2)
        assert "a person may have several" in learner.guarantee_reason_


# the bounds themselves, each at sizes where it says something


def test_the_first_labeller_is_as_good_as_promised():
    """Relabelled rows, the draw and both samples included; how the rule goes on is the worst."""
    s, t, epsilon = 800, 4000, 2
    log_n_labelings = functools.partial(growth_log, d=1)
    bound = labeller_error([LabellerDraw(s, s + t, epsilon)], log_n_labelings, 0.05)
    assert bound < 0.25
    worst = 0.0
    for seed in range(40):
        X, y = population(np.random.default_rng(seed), s + t)
        codes = relabel(Thresholds(), X, y[:s], np.arange(2), epsilon, Ledger(5, 0, seed))
        ends = X[codes == 1].min(), X[codes == 0].max()
        worst = max(worst, *(abs(end - CUT) * (1 - 2 * FLIPPED) for end in ends))
    assert 0.005 < worst <= bound


@pytest.mark.parametrize("n", [200, 2000])
def test_copies_are_as_near_in_the_population_as_promised(n):
    """All pairs of thresholds at once: they disagree on an interval."""
    beta, broken = 0.2, 0
    log_pairs = 2 * growth_log(2 * n, 1)
    for seed in range(60):
        values = np.sort(np.random.default_rng(seed).random(n))
        places = np.concatenate([[0.0], values, [1.0]])
        for inside in range(0, n, max(n // 20, 1)):  # the widest interval with so many rows
            widest = (places[inside + 1 :] - places[: -inside - 1]).max()
            broken += widest > relative_deviation_bound(inside / n, n, log_pairs, beta)
    assert broken == 0


def test_a_promise_is_this_sum():
    """docs/proofs/label_boost.md, written out: one round, and two."""
    beta, cover_size, base_bound, n_listed = 0.08, 300, 0.02, functools.partial(growth_log, d=1)
    base = SemiPrivateClassifier(Thresholds(), beta=beta / 2)
    base.guarantee_, base.guarantee_reason_, base.cover_size_ = base_bound, "its own", cover_size
    base.certificate_ = Certificate(excess_error(cover_size, 10**6, 2.0, 0.1), 0.9, cover_size)
    first = RelabellingRound(2 * 10**6, 8 * 10**6, 10**6, 4 * 10**6, Fraction(1, 2))
    second = RelabellingRound(5 * 10**6, 10**6, 3 * 10**6, 10**6, Fraction(3, 4))
    for rounds in [(first,), (first, second)]:
        n = rounds[-1].n_relabelled
        sizes = 2 * 10**6, 9 * 10**6
        plan = LabelBoostPlan(*sizes, rounds, n, 0.5, 0.0)
        found = label_boost_guarantee(plan, Thresholds(), base, beta, n, n_listed)
        # half of beta for the labellers: three shares of the first, two more of a second
        b, s = beta / 2 / (2 * len(rounds) + 1), 10**6
        labelled = (1 + math.sqrt((s + 1) * (n_listed(2 * s) + math.log(2 / b)))) / s
        labelled += math.sqrt(math.log(1 / b) / 2 / s)
        labelled += 2 * (n_listed(5 * s) + math.log(1 / b)) / (s / 2)
        if len(rounds) == 2:
            s = 3 * 10**6
            drawn = 2 * (n_listed(4 * 10**6) + math.log(1 / b)) / (0.75 * s)
            labelled += relative_deviation_bound(drawn, s, 2 * n_listed(2 * s), b)
        # a quarter for the base learner: its draw, and from rows to population and back
        b, pairs = beta / 4 / 3, math.log(cover_size) + n_listed(2 * n)
        lost = relative_deviation_bound(base_bound, n, pairs, b)
        lost += excess_error(cover_size, 10**6, 2.0, b)
        lost = relative_deviation_bound(lost, n, pairs, b)
        assert found.bound == pytest.approx(labelled + lost, rel=1e-12)
        assert f"at most {labelled:.3g} for relabelling plus {lost:.3g}" in found.reason
    none = dataclasses.replace(plan, rounds=())
    assert label_boost_guarantee(none, Thresholds(), base, beta, n, n_listed).bound == base_bound
    assert label_boost_guarantee(none, Thresholds(), base, beta, n + 2, n_listed).bound is None
    assert label_boost_guarantee(none, Thresholds(), base, beta / 4, n, n_listed).bound is None
    late = label_boost_guarantee(plan, Thresholds(), base, beta * 0.99, n, n_listed)
    assert "set its beta to" in late.reason


class Above(ClassifierMixin, BaseEstimator):
    """A threshold, fitted to nothing."""

    def __init__(self, cut=0.0):
        self.cut = cut
        self.classes_ = np.array([0, 1])

    def predict(self, X):
        return (X[:, 0] > self.cut).astype(int)


MODELS = [Above(cut) for cut in np.linspace(0, 1, 101)]


class TestFinite:
    """A finite class around itself, as the paper runs LabelBoost around its base learner [21]."""

    @pytest.mark.parametrize("vc", [None, 1])
    def test_it_has_a_promise_and_keeps_it(self, vc):
        models = FiniteClass(MODELS, vc_dimension=vc)
        base = SemiPrivateClassifier(models, beta=0.025)
        for seed in range(2):
            settings = {"hypotheses": models, "n_labelled": 40_000, "n_base": 10**6}
            clf = boosted(seed, base, m=0, **settings)
            assert clf.n_rounds_ == 1
            assert excess(clf) <= clf.guarantee_ < 0.3
            declared = "if the VC dimension of FiniteClass is at most 1, as declared."
            assert clf.guarantee_reason_.endswith(declared) == (vc is not None)

    def test_it_is_this_sum(self):
        """docs/proofs/label_boost.md, written out, with r = 0 and M = |C|."""
        beta, models, n = 0.08, FiniteClass(MODELS, vc_dimension=1), 5 * 10**6
        base = SemiPrivateClassifier(models, beta=0.9)  # the cover of a finite class cannot fail
        base.guarantee_, base.guarantee_reason_, base.cover_size_ = 0.02, "its own", 101
        base.certificate_ = Certificate(excess_error(101, 10**6, 2.0, 0.1), 0.9, 101)
        step = RelabellingRound(2 * 10**6, 8 * 10**6, 10**6, 4 * 10**6, Fraction(1, 2))
        plan = LabelBoostPlan(2 * 10**6, 8 * 10**6, (step,), n, 0.5, 0.0)
        n_listed = functools.partial(log_n_labelings, models, n_features=1, n_classes=2)
        found = label_boost_guarantee(plan, models, base, beta, n, n_listed)
        labelled = labeller_error([LabellerDraw(10**6, n, 0.5)], n_listed, beta / 2)
        share, pairs = beta / 4, 2 * math.log(101)
        lost = relative_deviation_bound(excess_error(101, 10**6, 2.0, share), n, pairs, share)
        assert found.bound == pytest.approx(labelled + lost, rel=1e-12)

    def test_what_is_declared_is_used(self):
        few, rows = FiniteClass(MODELS, vc_dimension=1), np.array([1.0, 5.0, 50.0, 1000.0])
        assert np.exp(log_n_labelings(few, rows, 1, 2)) == pytest.approx([2, 6, 51, 101])
        assert np.exp(log_n_labelings(few, rows, 1, 3)) == pytest.approx([101] * 4)
        assert np.exp(log_n_labelings(FiniteClass(MODELS), rows, 1, 2)) == pytest.approx([101] * 4)
        many = FiniteClass([Above(0.0)] * 20_000)
        s = LabellerDraw(500, 2000, 1.0)
        bounds = [
            labeller_error([s], lambda n, own=own: float(log_n_labelings(own, n, 1, 2)), 0.05)
            for own in (many, FiniteClass(many.models, vc_dimension=1))
        ]
        assert bounds[1] < bounds[0] - 0.01

    def test_a_declaration_is_checked_as_far_as_it_can_be(self):
        X, y = population(np.random.default_rng(0), 300)
        for vc in (-1, 0.5, True):
            base = SemiPrivateClassifier(FiniteClass(MODELS, vc_dimension=vc))
            with pytest.raises(ValueError, match=r"vc_dimension .*>= 0"):
                base.fit(X[:, :1], np.maximum(y, 0))
        assert (
            clone(
                SemiPrivateClassifier(FiniteClass(MODELS, vc_dimension=1))
            ).hypotheses.vc_dimension
            == 1
        )

    def test_labelled_public_rows_say_that_it_was_declared(self):
        rng = np.random.default_rng(0)
        X, truth = rng.random((4000, 1)), rng.integers(2, size=4000)
        for vc in (None, 1):
            base = SemiPrivateClassifier(FiniteClass(MODELS, vc_dimension=vc), random_state=0)
            base.fit(X[:3000], truth[:3000], X_public=X[3000:], y_public=truth[3000:])
            assert ("as declared" in base.guarantee_reason_) == (vc == 1)

    @pytest.mark.slow
    def test_it_is_kept_at_the_size_that_is_counted(self):
        """With more rows for the base learner than it needs, so that a round pays.

        A smoke test, which sees gross errors only.
        """
        models, runs, failures = FiniteClass(MODELS, vc_dimension=1), 20, 0
        alpha, beta, n_base = 0.3, 0.05, 20_000
        assert excess_error(101, n_base, 1.0, beta / 4) <= alpha / 4
        sizes = n_label_boost(alpha, beta, 1.0, 1, n_base, constants="tight")
        base = SemiPrivateClassifier(models, beta=beta / 2)
        settings = {"hypotheses": models, "n_base": n_base, "alpha": alpha / 4, "m": 0}
        for seed in range(runs):
            clf = boosted(seed, base, *sizes, **settings)
            assert clf.n_rounds_ == 1
            failures += excess(clf) > min(alpha, clf.guarantee_)
        assert failures <= allowed_failures(runs, beta)

    @pytest.mark.parametrize("alpha", [0.05, 0.15, 0.3])
    def test_a_fit_at_the_counted_size_promises_alpha(self, alpha):
        """The base learner needs n_base rows to be within alpha / 4, as it must."""
        models, beta = FiniteClass(MODELS, vc_dimension=1), 0.05
        n_base = smallest_integer(lambda n: excess_error(101, n, 1.0, beta / 4) <= alpha / 4)
        sizes = n_label_boost(alpha, beta, 1.0, 1, n_base, constants="tight")
        base = SemiPrivateClassifier(models, beta=beta / 2)
        settings = {"hypotheses": models, "n_base": n_base, "alpha": alpha / 4, "m": 0}
        clf = boosted(0, base, *sizes, **settings)
        assert clf.guarantee_ <= alpha
        # the one round that is counted, at its own rates
        spent = math.expm1(1)
        rates = (
            spent / (math.exp(0.5) * (1 + math.exp(0.25)) ** 2 - 1),
            spent / (4 * math.exp(0.5) - 1),
        )
        old, new = (math.floor(n * rate) for n, rate in zip(sizes, rates, strict=True))
        step = RelabellingRound(sizes[0], sizes[1], old, new, Fraction(1, 2))
        plan = LabelBoostPlan(*sizes, (step,), old + new, 0.5, 0.0)
        base.guarantee_, base.guarantee_reason_, base.cover_size_ = 0.1, "its own", 101
        base.certificate_ = Certificate(excess_error(101, old + new, 0.5, 0.1), 0.9, 101)
        n_listed = functools.partial(log_n_labelings, models, n_features=1, n_classes=2)
        found = label_boost_guarantee(plan, models, base, beta, old + new, n_listed)
        assert found.bound <= alpha


GRID = [np.arange(0.5, 15.0)] * 2  # between the 16 values of each column
BOX = Rectangles(cuts=GRID)


def boxed(seed, n_labelled, n_unlabelled, base=None, **settings):
    """Return LabelBoost on a grid of 256 points, which a box labels, one label in ten wrong."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 16, size=(n_labelled + n_unlabelled, 2)).astype(float)
    y = ((X > 3) & (X < 13)).all(axis=1) ^ (rng.random(len(X)) < FLIPPED)
    y = np.where(np.arange(len(X)) < n_labelled, y, -1)
    base = base or SemiPrivateClassifier(Rectangles(cuts=GRID), beta=0.025)
    return LabelBoostClassifier(base, hypotheses=BOX, random_state=seed, **settings).fit(X, y)


def excess_of_box(clf):
    X = np.array(list(itertools.product(range(16), repeat=2)), dtype=float)
    return (1 - 2 * FLIPPED) * (clf.predict(X) != ((X > 3) & (X < 13)).all(axis=1)).mean()


class TestCorollary417:
    """Rectangles over a finite grid; `test_base_accuracy.py` has them at the counted size."""

    def test_boxes_between_cuts_have_a_promise_and_keep_it(self):
        clf = boxed(0, 30_000, 200_000, n_base=10**6)
        assert clf.n_rounds_ == 1
        assert excess_of_box(clf) <= clf.guarantee_ < 0.15

    @pytest.mark.slow
    def test_boxes_around_themselves_at_the_size_that_is_counted(self):
        """A smoke test, which sees gross errors only."""
        alpha, beta, n_base, runs, failures = 0.3, 0.05, 10**5, 10, 0
        assert excess_error(n_boxes(GRID), n_base, 1.0, beta / 4) <= alpha / 4
        sizes = n_label_boost(alpha, beta, 1.0, 4, n_base, constants="tight")
        for seed in range(runs):
            clf = boxed(seed, *sizes, n_base=n_base, alpha=alpha / 4)
            assert clf.n_rounds_ == 1
            failures += excess_of_box(clf) > min(alpha, clf.guarantee_)
        assert failures <= allowed_failures(runs, beta)

    def test_boxes_between_cuts_at_public_rows_are_near_all_boxes(self):
        """Each of four sides moves by at most half of the largest gap between cuts or ends."""
        m, alpha, beta, runs, failures = 300, 0.1, 0.05, 300, 0
        missed = math.ceil(alpha * m / 2)
        radius = cuts_radius(m, beta, 4, columns=2, missed=missed)
        for seed in range(runs):
            boxes = Rectangles.between_quantiles(
                np.random.default_rng(seed).random((m, 3)), alpha, features=[2, 0]
            )
            assert boxes.features == [2, 0]
            gaps = [np.diff([0, *cuts, 1]).max() for cuts in boxes.cuts]
            failures += 2 * sum(gap / 2 for gap in gaps) > radius
        assert failures <= allowed_failures(runs, beta)

    def test_cuts_at_public_rows(self):
        """The sides that label rows are between the cuts, and the bound is over all boxes."""
        rng = np.random.default_rng(1)
        low, high, m, alpha = 0.24, 0.83, 2000, 0.06
        X = rng.random((230_000, 2))
        y = ((low < X) & (high > X)).all(axis=1) ^ (rng.random(len(X)) < FLIPPED)
        y = np.where(np.arange(len(X)) < 30_000, y, -1)
        boxes = Rectangles.between_quantiles(rng.random((m, 2)), alpha)
        base = SemiPrivateClassifier(boxes, beta=0.025)
        clf = LabelBoostClassifier(base, hypotheses=boxes, n_base=10**6, random_state=0).fit(X, y)
        assert clf.n_rounds_ == 1
        X_new = rng.random((100_000, 2))
        errors = clf.predict(X_new) != ((low < X_new) & (X_new < high)).all(axis=1)
        radius = cuts_radius(m, 0.05, 4, columns=2, missed=math.ceil(alpha * m / 2))
        assert (1 - 2 * FLIPPED) * errors.mean() <= clf.guarantee_ + radius < 0.5


def test_sizes_at_which_the_learner_cannot_run_are_refused():
    """Boxes over two columns relabel at most 255 rows, and these cannot reach an error of .2."""
    arguments = (0.2, 0.05, 1.0, 4, 20_000)
    for settings in ({"constants": "tight"}, {"realizable": True, "constants": "tight"}, {}):
        with pytest.raises(ValueError, match="most_rows is 255"):
            n_label_boost(*arguments, most_rows=255, **settings)
        size = n_label_boost(*arguments, **settings)
        assert n_label_boost(*arguments, most_rows=10**12, **settings) == size
    # rows that the base learner has without a round are not relabelled
    assert n_label_boost(*arguments[:4], 1, realizable=True, most_rows=255).unlabelled == 90_000
    # intervals relabel enough of them
    assert n_label_boost(0.5, 0.05, 8.0, 2, 100, constants="tight", most_rows=11_584).labelled > 0


def test_which_classes_have_the_rules_of_which():
    known = [Thresholds(), Thresholds(1), Stumps(), Intervals(), Rectangles(), Rectangles([0, 1])]
    known += [DecisionTrees(), Halfspaces(), Halfspaces(cover="directions")]
    models = FiniteClass([DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])])
    for own, other in itertools.product(known, [*known, models]):
        same = type(own) is type(other) and (
            isinstance(own, Halfspaces) or repr(own) == repr(other)
        )
        same &= type(own) not in (DecisionTrees, FiniteClass)  # nobody relabels by trees
        less = isinstance(other, Thresholds) and type(own) in (Stumps, DecisionTrees)
        less |= isinstance(other, Stumps) and type(own) is DecisionTrees
        assert _is_subclass(other, own) == (same or less), (own, other)
    assert _is_subclass(Stumps(), None)
    assert _is_subclass(BOX, Rectangles(cuts=[axis.tolist() for axis in GRID]))
    assert _is_subclass(BOX, Rectangles())
    assert not _is_subclass(Rectangles(), BOX)
    assert not _is_subclass(BOX, Rectangles(cuts=GRID[:1]))
    assert not _is_subclass(BOX, Rectangles(cuts=[GRID[0], GRID[0][1:]]))
    assert not _is_subclass(BOX, Rectangles([0, 1], cuts=GRID))  # as far as it is compared
    two = [*models.models, DecisionTreeClassifier().fit([[0.0], [1.0]], [1, 0])]
    assert _is_subclass(models, models)
    assert _is_subclass(models, FiniteClass(two))
    assert _is_subclass(
        FiniteClass(tuple(models.models), vc_dimension=0), FiniteClass(models.models)
    )
    assert not _is_subclass(FiniteClass(two), models)
    assert not _is_subclass(models, FiniteClass([two[1]]))  # as far as anybody can tell
    assert not _is_subclass(Thresholds(), models)


def test_the_copy_is_where_relative_deviations_end():
    """The least p with (p - x)^2 = 4 p (ln pairs + ln 4/beta) / n."""
    for error, n, log_pairs, beta in itertools.product((0, 0.1), (500, 10**6), (3.0, 40.0), (0.1,)):
        p = relative_deviation_bound(error, n, log_pairs, beta)
        assert (p - error) ** 2 == pytest.approx(4 * p * (log_pairs + math.log(4 / beta)) / n)


@pytest.mark.parametrize("realizable", [False, True])
@pytest.mark.parametrize("n_base", [1000, 10**6])
def test_tight_sizes_are_the_least(n_base, realizable):
    """One round at half of epsilon: every part of the promise fits, and with fewer rows not."""
    alpha, beta, epsilon, n_listed = 0.2, 0.05, 1.0, functools.partial(growth_log, d=2)
    sizes = n_label_boost(alpha, beta, epsilon, 2, n_base, realizable=realizable, constants="tight")
    spent = math.expm1(epsilon)
    rates = spent / (math.exp(0.5) * (1 + math.exp(0.25)) ** 2 - 1), spent / (4 * math.exp(0.5) - 1)
    n_scored, new = (math.floor(n * rate) for n, rate in zip(sizes, rates, strict=True))
    kept = n_scored + new
    assert kept >= n_base / 0.5 - 2

    def near(n):
        return relative_deviation_bound(alpha / 4, n, 2 * n_listed(2 * n), beta / 4) <= alpha / 2

    assert near(kept + 1)
    assert n_base > 10**5 or not near(kept - 2) or new <= 1

    def good(s):
        every = max(s, kept)
        if labeller_error([LabellerDraw(s, every, 0.5)], n_listed, beta / 2) <= alpha / 2:
            return True
        drawn = 2 * (n_listed(every) + math.log(4 / beta)) / (0.5 * s)
        return (
            realizable
            and relative_deviation_bound(drawn, s, 2 * n_listed(2 * s), beta / 4) <= alpha / 2
        )

    assert good(n_scored + 1)
    assert not good(n_scored - 2)


def test_the_papers_sizes():
    """No fit of the test suite has this many rows, so frequencies are counted for tight sizes only.

    For each alpha and beta at ε = 1, the paper's constants require more than 11 million labelled
    rows, and 90,000 unlabelled rows for each row that the base learner requires.
    """
    easiest = n_label_boost(1 - 1e-9, 1 - 1e-9, 1.0, 1, 1, realizable=True)
    assert easiest.labelled > 11_000_000
    assert easiest.unlabelled == 90_000
    a, b = 0.1 / 11, 0.05 / 2
    easy = n_label_boost(0.1, 0.05, 1.0, 2, 1000, realizable=True)
    assert easy == (math.ceil(96_000 * 2 / a * math.log(2240 / (a * b))), 90_000_000)
    hard = n_label_boost(0.1, 0.05, 1.0, 2, 1000)
    assert hard == (max(easy.labelled, 100 * n_uniform(a / 20, b / 8, 2)), 90_000_000)
    half = n_label_boost(0.1, 0.05, 0.5, 2, 1000, realizable=True)
    rate = math.expm1(1) / math.expm1(0.5)
    assert half == tuple(math.ceil(n * rate) for n in easy)


def test_copied_rises_with_the_error_and_falls_with_rows():
    assert relative_deviation_bound(0.0, 1000, 10.0, 0.05) < relative_deviation_bound(
        0.01, 1000, 10.0, 0.05
    )
    assert 0.1 < relative_deviation_bound(0.1, 10**8, 10.0, 0.05) < 0.101
    first, second = LabellerDraw(50_000, 10**6, 1.0), LabellerDraw(10**5, 10**7, 1.0)
    log_n_labelings = functools.partial(growth_log, d=2)
    one, two = (
        labeller_error(rounds, log_n_labelings, 0.05) for rounds in ([first], [first, second])
    )
    assert one < two < one + 0.02


def growth_log(n, d):
    return math.log(growth_function(int(n), d))


# where nothing is promised that is said, by every learner that makes promises


def labels(X):
    return (X[:, 0] > CUT).astype(int)


@pytest.mark.parametrize(
    ("make", "n"),
    [
        (lambda: SemiPrivateClassifier(Rectangles()), 60),
        (lambda: SubsamplingActiveLearner(SemiPrivateClassifier(Stumps()), n_labels=9), 400),
        (lambda: LabelBoostClassifier(SemiPrivateClassifier(Rectangles(), beta=0.025)), 60),
        (lambda: GenericLearnerClassifier(Stumps(), epsilon=0.01), 60),
    ],
    ids=["semi-private", "active", "boosted", "generic"],
)
def test_who_is_promised_nothing_is_told(make, n):
    """By the numbers of rows alone, and not where there are enough."""
    rng = np.random.default_rng(0)
    public, texts = rng.random((300, 2)), []
    for _ in range(2):
        X = rng.random((n, 2))
        with pytest.warns(TooFewRowsWarning) as caught:
            clf = (
                make().set_params(classes=[0, 1], random_state=0).fit(X, labels(X), X_public=public)
            )
        assert clf.guarantee_ == 1
        texts += [str(warning.message) for warning in caught]
        assert [warning.filename for warning in caught] == [__file__]
    assert len(texts) == 2
    assert texts[0] == texts[1]
    assert f"{n} private and 300 public" in texts[0]
    X = rng.random((6000, 2))
    clf = make().set_params(classes=[0, 1], random_state=0, epsilon=1.0)
    if hasattr(clf, "n_labels"):
        clf.set_params(n_labels=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clf.fit(X, labels(X), X_public=public).guarantee_ < 1
