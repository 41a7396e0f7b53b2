"""What LabelBoost and the active learner promise in the population, against populations."""

import functools
import math

import numpy as np
import pytest

from skpublicdp import LabelBoostClassifier, SemiPrivateClassifier, SubsamplingActiveLearner
from skpublicdp.data import describe_columns
from skpublicdp.guarantees import growth_function, n_label_boost
from skpublicdp.guarantees.label_boost import Labeller, copied, labeller_error
from skpublicdp.hypotheses import Halfspaces, Intervals, Rectangles, Stumps, Thresholds
from skpublicdp.label_boost.relabel import relabel
from skpublicdp.ledger import Ledger
from tests.test_label_boost import Constant, Recorder

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
    @pytest.mark.parametrize("hypotheses", [Rectangles(), Halfspaces(), Intervals()])
    def test_it_is_kept_by_every_class(self, hypotheses):
        width = 1 if isinstance(hypotheses, Intervals) else 2
        base = SemiPrivateClassifier(hypotheses, beta=0.025)
        labelled = 150 if isinstance(hypotheses, Rectangles) else 3000  # of 255 that are listed
        sizes = {"n_labelled": labelled, "n_unlabelled": 50_000, "epsilon": 4.0, "n_base": 10**8}
        for seed in range(3):
            clf = boosted(seed, base, width=width, hypotheses=hypotheses, m=900, **sizes)
            assert clf.n_rounds_ >= 1
            assert excess(clf, width) <= clf.guarantee_

    @pytest.mark.slow
    def test_it_is_kept_at_the_size_that_is_counted(self):
        """As many rows as `n_label_boost` counts, and the default number of public ones."""
        alpha = 0.3
        sizes = n_label_boost(alpha, 0.05, 1.0, 1, 10**6, constants="tight")
        failed = 0
        for seed in range(20):
            clf = boosted(seed, BASE, *sizes, m=3000, n_base=10**6)
            assert clf.n_rounds_ >= 1
            failed += excess(clf) > min(alpha, clf.guarantee_)
        assert failed == 0  # four would be out of the ordinary at one in twenty

    def test_it_falls_with_rows_of_every_kind_and_with_the_budget(self):
        usual = boosted().guarantee_
        assert boosted(n_labelled=50_000).guarantee_ < usual - 0.05
        assert boosted(m=20_000).guarantee_ < usual - 0.01
        assert boosted(epsilon=4.0).guarantee_ < usual - 0.05
        assert boosted(beta=0.9).guarantee_ < usual

    def test_it_is_the_sum_that_the_reason_tells(self):
        clf = boosted()
        words = clf.guarantee_reason_.split("at most ")[1].split()
        assert float(words[0]) + float(words[7]) == pytest.approx(clf.guarantee_, abs=2e-3)
        few = boosted(n_labelled=300, n_unlabelled=9000)
        assert (few.n_rounds_, few.guarantee_) == (1, 1.0)
        assert few.guarantee_reason_.endswith("which for so few rows promises nothing.")

    def test_the_default_base_learner_makes_one(self):
        for hypotheses in (None, Stumps()):
            clf = boosted(base=None, hypotheses=hypotheses, n_labelled=20_000)
            assert clf.n_rounds_ == 1
            assert excess(clf) <= clf.guarantee_ < 0.65


NOTHING = {
    "third party": ({"base": Recorder()}, "is known of a SemiPrivateClassifier whose hypotheses"),
    "other class": (
        {"base": SemiPrivateClassifier(Intervals(), beta=0.025)},
        "hypotheses include the rules that label",
    ),
    "its beta": ({"base": SemiPrivateClassifier(Thresholds())}, "set its beta to 0.025 or less"),
    "no public rows": ({"m": 0, "base": None}, "no public rows"),
    "alone": ({"base": Constant(), "n_base": 1, "n_labelled": 9000}, "Constant promises nothing"),
    "added rows": ({"base": Recorder(), "n_base": 1, "classes": [0, 1]}, "rows of its own"),
}


@pytest.mark.parametrize("case", NOTHING)
def test_where_nothing_is_proved_the_reason_is_said(case):
    settings, reason = NOTHING[case]
    clf = boosted(**settings)
    assert clf.guarantee_ is None
    assert reason in clf.guarantee_reason_
    assert clf.guarantee_reason_.startswith("Nothing is proved: ")
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
        assert "written from a description" in learner.guarantee_reason_


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
        assert "Constant promises nothing of the population" in learner.guarantee_reason_


# the bounds themselves, each at sizes where it says something


def test_the_first_labeller_is_as_good_as_promised():
    """Relabelled rows, the draw and both samples included; how the rule goes on is the worst."""
    s, t, epsilon = 800, 4000, 2
    log_size = functools.partial(growth_log, d=1)
    bound = labeller_error([Labeller(s, s + t, epsilon)], log_size, 0.05)
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
            broken += widest > copied(inside / n, n, log_pairs, beta)
    assert broken == 0


def test_copied_rises_with_the_error_and_falls_with_rows():
    assert copied(0.0, 1000, 10.0, 0.05) < copied(0.01, 1000, 10.0, 0.05)
    assert 0.1 < copied(0.1, 10**8, 10.0, 0.05) < 0.101
    first, second = Labeller(50_000, 10**6, 1.0), Labeller(10**5, 10**7, 1.0)
    log_size = functools.partial(growth_log, d=2)
    one, two = (labeller_error(rounds, log_size, 0.05) for rounds in ([first], [first, second]))
    assert one < two < one + 0.02


def growth_log(n, d):
    return math.log(growth_function(int(n), d))
