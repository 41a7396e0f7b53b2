"""LabelBoostClassifier: plans from public numbers, what the base learner gets, what comes out."""

import itertools
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from skpublicdp import (
    GenericLearnerClassifier,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.accounting import Approximate
from skpublicdp.exceptions import (
    CoverSizeError,
    NoPublicDataWarning,
    SlicedPublicDataWarning,
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
from skpublicdp.label_boost import LabelBoostClassifier
from tests.helpers import assert_fits
from tests.internals.base_learner import check_base, fit_base
from tests.internals.label_boost import (
    all_labelings,
    log_n_labelings,
    record_stages,
    rounds_epsilon,
    tight_plan,
)
from tests.internals.mechanisms import SeededBits, random_indices, random_order, random_subset
from tests.internals.privacy import Ledger

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")

RNG = np.random.default_rng(0)
N, LABELLED = 20_000, 600
X = RNG.normal(size=(N, 3))
TRUTH = np.where(X[:, 1] > 0.2, "yes", "no")
Y = np.where(np.arange(N) < LABELLED, TRUTH, "-1")
SECRET = 8675309.25


class Recorder(ClassifierMixin, BaseEstimator):
    """A stand-in for a third-party private learner, which keeps what it is given."""

    protects_all_rows = True

    def __init__(self, epsilon=1.0, delta=1e-5, random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state

    def fit(self, X, y):
        self.X, self.y = X, y
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"one class only, {self.classes_[0]}, in {X}")
        self.model_ = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class Constant(ClassifierMixin, BaseEstimator):
    """Perfectly private: looks at no row, and warns of what it does not look at."""

    protects_all_rows = True

    def __init__(self, epsilon=1.0, classes=None):
        self.epsilon = epsilon
        self.classes = classes

    def fit(self, X, y, X_public=None):
        warnings.warn(f"I saw {X.max()}", stacklevel=2)
        self.classes_ = np.asarray(self.classes)
        self.n_public = None if X_public is None else len(X_public)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


def fitted(estimator=None, X=X, y=Y, X_public=None, is_labelled=None, groups=None, **parameters):
    clf = LabelBoostClassifier(estimator, **{"random_state": 0, "epsilon": 2.0, **parameters})
    return clf.fit(X, y, X_public=X_public, is_labelled=is_labelled, groups=groups)


def test_the_base_learner_gets_relabelled_rows():
    clf = fitted(Recorder(), delta=1e-6)
    base = clf.estimator_
    assert clf.n_rounds_ == 1
    (step,) = [m for m in clf.privacy_.mechanisms if m.name.startswith("round")]
    kept, total, new, others = (
        int(word) for word in step.name.split(",")[1].split() if word.isdigit()
    )
    assert (total, others) == (LABELLED, N - LABELLED)
    assert len(base.X) == kept + new + 2  # and one row for each label
    assert base.X[-2:].tolist() == [[0.0] * 3] * 2
    assert base.y[-2:].tolist() == ["no", "yes"]
    given = {tuple(row) for row in X}
    assert all(tuple(row) in given for row in base.X[:-2])
    # the labels are a stump's: they change once along one feature
    changes = [
        (np.diff((base.y[:-2] == "yes")[np.argsort(column)].astype(int)) != 0).sum()
        for column in base.X[:-2].T
    ]
    assert min(changes) == 1
    assert clf.classes_.tolist() == ["no", "yes"]
    assert (clf.predict(X) == TRUTH).mean() > 0.9
    assert clf.predict_proba(X).shape == (N, 2)
    assert not hasattr(clf, "decision_function")
    # budgets: all of it, rounded against us
    assert base.epsilon < 2.0
    assert base.delta > 0.999e-6
    assert clf.privacy_.mechanisms[-1].epsilon == base.epsilon
    assert 1.99 < step.epsilon <= 2.0 + 1e-12
    assert (clf.privacy_.epsilon, clf.privacy_.delta) == (2.0, 1e-6)
    assert clf.privacy_.n_private == N


def test_rows_reach_the_base_learner_in_random_order():
    order = fitted(Recorder()).estimator_.X[:-2]
    positions = np.array([np.flatnonzero((row == X).all(axis=1))[0] for row in order[:300]])
    assert abs(np.corrcoef(positions, np.arange(300))[0, 1]) < 0.3
    assert (np.sort(positions) != positions).any()


def test_without_enough_rows_the_base_learner_is_alone():
    y = np.where(np.arange(N) < 19_990, TRUTH, "-1")
    clf = fitted(Recorder(), y=y, delta=1e-6)
    assert clf.n_rounds_ == 0
    assert (clf.estimator_.epsilon, clf.estimator_.delta) == (2.0, 1e-6)
    assert np.array_equal(clf.estimator_.X, X[:19_990])
    assert np.array_equal(clf.estimator_.y, TRUTH[:19_990])
    few = fitted(X=X[:50], y=Y[:50])
    assert few.n_rounds_ == 0
    assert few.privacy_.mechanisms[-1].epsilon == 2.0


def test_one_class_after_relabelling_does_not_show():
    """All rows alike: relabelling can only give one label, and the base learner refuses that."""
    same = np.ones((N, 3))
    clf = fitted(Recorder(), X=same)
    assert clf.n_rounds_ == 1
    assert len(set(clf.estimator_.y[:-2])) == 1
    assert clf.estimator_.classes_.tolist() == ["no", "yes"]
    centred = fitted(Recorder(), X=same, bounds=(0, 4)).estimator_.X
    assert centred[-2:].tolist() == [[2.0] * 3] * 2
    public = fitted(Recorder(), X=same, X_public=[[1.0, 2.0, 3.0]]).estimator_.X
    assert public[-1].tolist() == [1.0, 2.0, 3.0]


def test_a_failing_base_learner_says_nothing_of_the_rows():
    class Failing(Constant):
        def fit(self, X, y):
            if X.max() == SECRET:
                raise KeyError(f"{X.max()} and {y[0]}")
            return super().fit(X, y)

    spoilt = np.where(np.arange(N)[:, None] < N, SECRET, X)
    with pytest.raises(ValueError, match=r"Failing .*private") as caught:
        fitted(Failing(), X=spoilt)
    assert caught.value.__context__ is None
    assert str(SECRET) not in str(caught.value)
    # what it says whatever the rows are may be shown
    with pytest.raises(ValueError, match="'alpha' parameter"):
        fitted(SemiPrivateClassifier(alpha=7))


def test_fit_base_hands_over_what_fits():
    with pytest.warns(NoPublicDataWarning):
        base = fit_base(SemiPrivateClassifier(), 0.5, X[:99], TRUTH[:99], random_state=3)
    assert (base.epsilon, base.random_state) == (0.5, 3)
    public = fit_base(Constant(), 0.5, X, TRUTH, classes=np.array(["a"]), X_public=X[:7].copy())
    assert public.n_public == 7
    assert public.classes_.tolist() == ["a"]
    wider = Constant(classes=["a", "b"])
    kept = fit_base(wider, 0.5, X, TRUTH, classes=np.array(["a"]), X_public=None)
    assert kept.classes_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="must list all labels"):
        fit_base(Constant(classes=["b"]), 0.5, X, TRUTH, classes=np.array(["a"]))
    model = Recorder()
    assert fit_base(model, 0.5, X, TRUTH, delta=0.25).delta == 0.25
    assert not hasattr(model, "model_")
    check_base(model)


def test_public_rows_reach_the_base_learner():
    clf = fitted(Constant(), X_public=X[:70].copy())
    assert clf.estimator_.n_public == 70
    assert clf.privacy_.n_public == 70
    with pytest.warns(SlicedPublicDataWarning, match=rf"\({N}\)"):
        fitted(Constant(), X_public=X.copy())


def test_released_labeler():
    clf = fitted(Recorder(), release_labeler=True, epsilon=1.0, delta=1e-6, bounds=(-4, 4))
    base = clf.estimator_
    assert (clf.labeler_.epsilon, base.epsilon, base.delta) == (1.0, 1.0, 1e-6)
    # the base learner sees the unlabelled rows, and labels that are the labeller's
    assert np.array_equal(base.X[:-2], X[LABELLED:])
    assert np.array_equal(base.y[:-2], clf.labeler_.predict(X[LABELLED:]))
    assert clf.labeler_.privacy_.n_private == LABELLED
    assert "if x1 > " in str(clf.labeler_.hypothesis_)
    assert [m.epsilon for m in clf.privacy_.mechanisms] == [1.0, 1.0]
    assert (clf.privacy_.epsilon, clf.privacy_.delta) == (1.0, 1e-6)
    assert "do not add up" in repr(clf.privacy_)
    assert (clf.predict(X) == TRUTH).mean() > 0.9
    named = fitted(Recorder(), release_labeler=True, bounds={"x1": (-4, 8)})
    assert named.estimator_.X[-1].tolist() == [0, 2, 0]  # where no row need be
    assert named.labeler_.bounds == fitted(bounds={"x1": (-4, 8)}).estimator_.bounds == {1: (-4, 8)}
    public = fitted(release_labeler=True, X_public=X[:300].copy(), hypotheses=Stumps())
    assert public.labeler_.cover_size_ < 100
    assert not hasattr(public.set_params(release_labeler=False).fit(X, Y), "labeler_")
    with pytest.raises(ValueError, match="unlabelled rows"):
        fitted(release_labeler=True, y=TRUTH)


class TestBaseLearners:
    """Rows that a base learner takes as public are in the clear, whatever our receipt says."""

    LEARNERS = (LabelBoostClassifier, SubsamplingActiveLearner)

    @staticmethod
    def refused(base, message):
        for learner in TestBaseLearners.LEARNERS:
            with pytest.raises(ValueError, match=message) as caught:
                learner(base).fit(X[:300], TRUTH[:300])
            assert "\n" not in str(caught.value)

    def test_those_that_make_some_rows_public_by_their_label(self):
        message = "but PPMHalfspaceClassifier treats some of these rows as public"
        for base in (
            PPMHalfspaceClassifier(),
            PPMHalfspaceClassifier(private_label="no"),
            LabelBoostClassifier(PPMHalfspaceClassifier()),
            LabelBoostClassifier(SubsamplingActiveLearner(PPMHalfspaceClassifier())),
        ):
            self.refused(base, message)

    @pytest.mark.parametrize("declared", [False, None, "yes", 1])
    def test_those_that_do_not_say_that_they_protect_all_rows(self, declared):
        class Other(Recorder):
            protects_all_rows = declared

        self.refused(Other(), "does not declare that it does. Set protects_all_rows = True in"
                     if declared is None else "Other treats some")  # fmt: skip

        class Silent(ClassifierMixin, BaseEstimator):
            def __init__(self, epsilon=1.0):
                self.epsilon = epsilon

            def fit(self, X, y):
                raise AssertionError("it has seen the rows")

            def predict(self, X):
                raise AssertionError

        self.refused(Silent(), "Silent does not declare that it does.*protects_all_rows = True")

    def test_those_that_are_not_told_a_budget(self):
        grid = GridSearchCV(SemiPrivateClassifier(), {"alpha": [0.1]})
        for base in (make_pipeline(FunctionTransformer(), SemiPrivateClassifier()), grid):
            self.refused(base, "must be a differentially private classifier with a parameter 'eps")

    def test_regressors(self):
        self.refused(SemiPrivateBoostingRegressor(), "must be a classifier, but .* is a regressor")

    def test_those_with_a_budget_of_their_own(self):
        budget = PrivacyBudget(3.0, for_tests=True)
        for base in (
            SemiPrivateClassifier(budget=budget),
            LabelBoostClassifier(budget=budget),
            LabelBoostClassifier(SemiPrivateClassifier(budget=budget)),
        ):
            self.refused(base, "estimator must have budget=None, but .* has a budget of its own")
        assert not budget.ledger

    def test_what_a_receipt_says_is_believed_more_than_a_declaration(self):
        class Claims(PPMHalfspaceClassifier):
            protects_all_rows = True

        self.refused(Claims(), "the receipt of Claims omits some of these rows or counts")

        class Thins(SemiPrivateClassifier):
            def fit(self, X, y):
                return super().fit(X[::2], y[::2])

        self.refused(
            Thins(), "the receipt of Thins omits some of these rows or counts them as public"
        )

        class Shows(SemiPrivateClassifier):
            def fit(self, X, y):
                return super().fit(X, y, X_public=X[:9].copy())

        self.refused(
            Shows(), "the receipt of Shows omits some of these rows or counts them as public"
        )

        class Spends(SemiPrivateClassifier):
            def fit(self, X, y):
                self.epsilon *= 2
                return super().fit(X, y)

        self.refused(Spends(), "its receipt, Spends did")

        class Sanitizer(BaseEstimator):
            def __init__(self, epsilon=1.0, delta=1e-6):
                self.epsilon, self.delta = epsilon, delta

            def fit(self, X):
                return self

            def sample(self, n):
                return np.random.default_rng(0).normal(size=(n, 3))

        # a delta that it is not told, where ours is 0
        self.refused(
            GenericLearnerClassifier(sanitizer=Sanitizer()), "its receipt, GenericLearner.* did"
        )

    def test_public_rows_that_were_handed_on_may_be_counted(self):
        clf = fitted(X_public=X[:70].copy())
        assert clf.estimator_.privacy_.n_public == 70

    def test_our_own_may_be_base_learners(self):
        for base in (None, GenericLearnerClassifier(bounds=(-4, 4)), LabelBoostClassifier()):
            assert fitted(base).privacy_.epsilon == 2.0
        inner = SubsamplingActiveLearner(Recorder(), n_labels=50)
        assert fitted(inner).privacy_.epsilon == 2.0


def test_labels_of_other_rows_choose_no_type():
    """Under a mask `y` is not looked at elsewhere; room that other labels take is not kept."""
    mask = np.arange(N) < LABELLED
    codes = (TRUTH == "yes").astype(int).tolist()
    for fill in (2.5, "a private text", None):
        y = [code if told else fill for code, told in zip(codes, mask, strict=True)]
        clf = fitted(Recorder(), y=y, is_labelled=mask)
        assert clf.classes_.dtype == clf.estimator_.y.dtype == int
    wide = np.where(mask, TRUTH, "a private text that is long")
    clfs = [fitted(Recorder(), y=y, is_labelled=mask) for y in (TRUTH, wide)]
    assert clfs[1].classes_.dtype == clfs[1].estimator_.y.dtype == "<U3"
    assert pickle.dumps(clfs[0]) == pickle.dumps(clfs[1])


class TestBudget:
    @pytest.mark.parametrize("release", [False, True])
    def test_delta(self, release):
        budget = PrivacyBudget(2.0, 1e-5, accountant="pure", for_tests=True)
        clf = fitted(Recorder(), delta=1e-6, budget=budget, release_labeler=release)
        assert clf.privacy_.event == Approximate(Fraction(2), Fraction(1, 10**6))
        assert budget.spent() == (2.0, 1e-6)

    def test_it_refuses_before_rows_are_read(self):
        budget = PrivacyBudget(1.0, for_tests=True)
        with pytest.raises(ValueError, match="unlabelled rows"):
            fitted(release_labeler=True, y=TRUTH, epsilon=1.0, budget=budget)
        with pytest.raises(ValueError, match="must list all labels"):
            fitted(Constant(classes=["no"]), epsilon=1.0, budget=budget)
        assert not budget.ledger


class TestPersons:
    GROUPS = np.random.default_rng(1).integers(0, 9000, N)
    """Some have one row and some have four, and some of these are labelled."""

    @classmethod
    def kept(cls, k):
        """Row numbers, by brute force: the labelled ones of a person alone, if there are any."""
        told, rows = np.arange(N) < LABELLED, []
        for who in np.unique(cls.GROUPS):
            own = np.flatnonzero(who == cls.GROUPS)
            rows += (own[told[own]] if told[own].any() else own)[:k].tolist()
        return np.sort(rows)

    @pytest.mark.usefixtures("keep_first_rows")
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    @pytest.mark.parametrize("release", [False, True])
    def test_the_whole_is_run_at_what_a_row_may_have(self, release, delta):
        """The same bits, on the rows that count, at ε / k."""
        rows, k = self.kept(2), 2
        settings = {"release_labeler": release, "n_base": 100_000}
        clf = fitted(Recorder(), groups=self.GROUPS, max_rows_per_group=k, delta=delta, **settings)
        share = Fraction(str(delta)) / k * Fraction(math.exp(-2) * (1 - 2**-40))
        plain = fitted(Recorder(), X=X[rows], y=Y[rows], epsilon=1.0, delta=share, **settings)
        assert release or clf.n_rounds_ == plain.n_rounds_ == 1
        for name in ("X", "y", "epsilon", "delta"):
            assert np.array_equal(*(getattr(one.estimator_, name) for one in (clf, plain)))
        if release:
            assert str(clf.labeler_.hypothesis_) == str(plain.labeler_.hypothesis_)
            assert [m.epsilon for m in clf.privacy_.mechanisms] == [2.0, 2.0]
        else:
            stages = zip(clf.privacy_.mechanisms, plain.privacy_.mechanisms, strict=True)
            assert all(one.event == other.event for one, other in stages)
            assert "to one row, the total applies to a person" in repr(clf.privacy_)
        assert (clf.privacy_.epsilon, clf.privacy_.delta) == (2.0, delta)
        assert clf.privacy_.unit == "replace one person, up to 2 private rows"
        assert clf.privacy_.n_private == len(rows) < N


@pytest.mark.parametrize(
    "hypotheses", [DecisionTrees(), Conjunctions(), Union([Stumps(), Thresholds()])]
)
def test_classes_that_list_a_labeling_twice_are_refused(hypotheses):
    with pytest.raises(ValueError, match="each labelling") as caught:
        fitted(hypotheses=hypotheses)
    assert type(hypotheses).__name__ in str(caught.value)


def test_subclasses_are_refused():
    class Odd(Stumps):
        pass

    with pytest.raises(ValueError, match="got Odd"):
        fitted(hypotheses=Odd())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": LogisticRegression()}, "'epsilon'.*Logistic"),
        ({"estimator": object()}, "'estimator' parameter"),
        ({"y": np.full(N, "-1")}, "marked as unlabelled"),
        ({"n_base": 0}, "'n_base' parameter"),
        ({"hypotheses": Thresholds(feature=3)}, "below 3; got 3"),
        ({"hypotheses": Rectangles()}, "got 3 columns"),
        ({"hypotheses": Halfspaces()}, "Halfspaces must"),
        ({"hypotheses": Rectangles([0, 3])}, "below 3"),
    ],
)
def test_bad_input_gets_one_clear_sentence(parameters, message):
    with pytest.raises((ValueError, CoverSizeError), match=message) as caught:
        fitted(**parameters)
    assert "\n" not in str(caught.value)
    assert str(SECRET) not in str(caught.value)


def test_mask_and_marks_are_the_same_thing():
    mask = np.arange(N) < LABELLED
    marked, masked = fitted(Recorder()), fitted(Recorder(), y=TRUTH, is_labelled=mask)
    assert np.array_equal(marked.estimator_.X, masked.estimator_.X)
    assert np.array_equal(marked.estimator_.y, masked.estimator_.y)


def test_three_labels():
    truth = np.digitize(X[:, 0], [-0.3, 1.2])
    y = np.where(np.arange(N) < 5000, truth, -1)
    clf = fitted(Recorder(), y=y, epsilon=3.0, n_base=1_000_000)
    assert clf.n_rounds_ >= 1
    assert clf.classes_.tolist() == [0, 1, 2]
    assert len(set(clf.estimator_.y[:-3])) == 2  # a stump knows two
    two_labels = fitted(Recorder(), y=np.where(y == 2, 1, y), epsilon=3.0, n_base=1_000_000)
    assert len(clf.estimator_.X) < len(two_labels.estimator_.X)  # three cost more
    with pytest.raises(ValueError, match="Thresholds"):
        fitted(y=y, hypotheses=Thresholds())


def test_one_label_is_enough():
    clf = fitted(y=np.where(np.arange(N) < LABELLED, "yes", "-1"), classes=["yes"])
    assert clf.n_rounds_ == 0
    assert set(clf.predict(X[:9])) == {"yes"}
    declared = fitted(Recorder(), y=np.where(np.arange(N) < LABELLED, "yes", "-1"),
                      classes=["no", "yes"])  # fmt: skip
    assert declared.estimator_.classes_.tolist() == ["no", "yes"]


def test_receipt_tells_how_random_it_is():
    assert not fitted(Constant()).privacy_.secure_randomness
    assert fitted(Constant(), random_state=None).privacy_.secure_randomness
    assert not fitted(Recorder(random_state=1), random_state=None).privacy_.secure_randomness
    inner = SemiPrivateClassifier(random_state=1)
    assert not fitted(inner, random_state=None).privacy_.secure_randomness
    assert fitted(Recorder(), random_state=7).estimator_.random_state is not None


def test_receipts_have_the_cost_of_each_of_two_rounds():
    plan = plan_for(500, 10_000_000, 1, 10**6)
    first, second, base = stages_of(plan)
    assert (base.epsilon, base.delta) == (plan.base_epsilon, plan.base_delta)
    assert 0.99 < first.epsilon <= 1 + 1e-14
    assert first.delta == pytest.approx(1e-6)
    assert second.epsilon <= 1 + 1e-14
    assert plan.base_delta > second.delta >= first.delta * (1 - 1e-9)


def stages_of(plan):
    ledger = Ledger(1)
    record_stages(ledger, plan, 2, Recorder())
    return ledger.receipt().mechanisms


def plan_for(n_labelled=500, n_unlabelled=30_000, epsilon=1, n_base=None, n_classes=2):
    return tight_plan(
        n_labelled,
        n_unlabelled,
        epsilon=Fraction(epsilon),
        delta=Fraction(1, 10**6),
        alpha=0.1,
        beta=0.05,
        n_base=n_base,
        log_n_labelings=lambda n: log_n_labelings(Stumps(), n, 10, n_classes),
        n_classes=n_classes,
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), 1, 5, 300])
@pytest.mark.parametrize("n_labelled", [300, 5000, 60_000])
def test_plans_never_overspend(epsilon, n_labelled):
    for n_unlabelled, n_base in itertools.product((1000, 100_000, 5_000_000), (None, 10**6)):
        plan = plan_for(n_labelled, n_unlabelled, epsilon, n_base)
        spent = rounds_epsilon(plan.rounds, Fraction(plan.base_epsilon))
        assert not spent or max(spent[0]) <= epsilon * (1 + 1e-14)
        assert sum(step.n_new for step in plan.rounds) <= n_unlabelled
        labelled = n_labelled
        for step in plan.rounds:
            assert step.n_labelled == labelled
            assert 1 <= step.sampled_labelled <= labelled
            assert 1 <= step.sampled_new <= step.n_new
            labelled = step.n_relabelled
        assert plan.base_rows == labelled


def test_plans_depend_on_the_sample_size_of_the_base_learner():
    """A larger n_base gets more rows; many labelled rows need no round; two rounds may be best."""
    assert not plan_for(n_base=1000).rounds
    assert not plan_for(n_labelled=60_000).rounds
    small, large = plan_for(n_base=10_000), plan_for(n_base=100_000)
    assert large.base_epsilon * large.base_rows > small.base_epsilon * small.base_rows
    assert small.rounds[0].sampled_labelled > large.rounds[0].sampled_labelled
    assert len(plan_for(500, 10_000_000, 1, 10**6).rounds) == 2


def test_pure_and_proper_as_the_base_learner():
    """Remark 4.15: the result is the base learner's own rule, at δ = 0 if it is pure."""
    x = X[:, 1:2]
    grid = np.linspace(-4, 4, 2001)[:, None]
    for settings, n_rounds in (({}, 1), ({"y": TRUTH, "X": x}, 0), ({"release_labeler": True}, 1)):
        base = SemiPrivateClassifier(Thresholds(), bounds=[(-4, 4)])
        clf = fitted(base, hypotheses=Thresholds(), **{"X": x, **settings})
        assert clf.n_rounds_ == n_rounds
        # proper: a rule of the base learner's class, and nothing is added to it
        assert type(clf.estimator_) is SemiPrivateClassifier
        cuts = np.diff((clf.predict(grid) == "yes").astype(int))
        assert np.count_nonzero(cuts) == 1
        assert cuts.max() == 1
        assert (clf.predict(grid) == clf.estimator_.predict(grid)).all()
        # pure: no step of the receipt has a δ
        assert clf.privacy_.delta == clf.estimator_.privacy_.delta == 0
        assert all(mechanism.delta == 0 for mechanism in clf.privacy_.mechanisms)
    assert fitted(Recorder(), delta=1e-6).privacy_.delta == 1e-6  # it passes on what is not pure


@pytest.mark.parametrize("hypotheses", [Rectangles([0, 2]), Rectangles([1]), Halfspaces()])
def test_boxes_and_halfplanes_relabel(hypotheses):
    """What the base learner gets is labelled by a member of the class, in one round or two."""
    rows = X[:90] if isinstance(hypotheses, Rectangles) else X[:90, :2]
    clf = fitted(
        Recorder(), X=rows, y=np.where(np.arange(90) < 30, TRUTH[:90], "-1"),
        hypotheses=hypotheses, epsilon=30.0, n_base=10**6,
    )  # fmt: skip
    assert clf.n_rounds_ >= 1
    given, labels = clf.estimator_.X[:-2], clf.estimator_.y[:-2] == "yes"
    assert len(given) > 30
    if isinstance(hypotheses, Rectangles):
        sides = given[:, hypotheses.features]
        low, high = sides[labels].min(axis=0), sides[labels].max(axis=0)
        assert np.array_equal(labels, ((low <= sides) & (sides <= high)).all(axis=1))
    else:
        signs = np.where(labels, 1.0, -1.0)[:, None] * np.column_stack([given, np.ones(len(given))])
        found = linprog(np.zeros(3), -signs, -np.ones(len(given)), bounds=(None, None))
        assert found.status == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_dichotomies_are_listed_once(count):
    """Against brute force: every labelling by a split of any feature, and its errors."""
    rng = np.random.default_rng(count)
    for _ in range(150):
        n, d, values = rng.integers(1, 7), rng.integers(1, 4), rng.integers(1, 5)
        rows = rng.integers(0, values, (n, d)).astype(float)
        y = rng.integers(0, count, rng.integers(1, n + 1))
        kinds = [Stumps()] + [Thresholds(), Intervals()] * (count == 2)
        for kind in kinds:
            ways = all_labelings(kind, rows, np.arange(count))
            errors = ways.errors(y)
            listed = [tuple(ways.labels(member).tolist()) for member in range(len(errors))]
            assert len(set(listed)) == len(listed)
            assert set(listed) == labelings(kind, rows, count)
            assert [int((np.array(z)[: len(y)] != y).sum()) for z in listed] == errors.tolist()
            assert np.log(len(listed)) <= log_n_labelings(kind, [n], d, count)[0] + 1e-9


def labelings(kind, rows, count):
    pairs = [(1, 0)] if isinstance(kind, Thresholds) else itertools.product(range(count), repeat=2)
    found = set()
    first = rows[:, 0]
    if isinstance(kind, Intervals):
        return {tuple(((low <= first) & (first <= high)).astype(int).tolist())
                for low in first for high in first} | {(0,) * len(rows)}  # fmt: skip
    for over, under in pairs:
        for column in rows.T if isinstance(kind, Stumps) else [first]:
            for cut in [-np.inf, *column]:
                found.add(tuple(np.where(column > cut, over, under).tolist()))
    return found


def test_twins_are_found_at_scale():
    rng = np.random.default_rng(0)
    column = rng.normal(size=4000)
    rows = np.column_stack([column, -column, column**3, rng.normal(size=4000), np.ones(4000)])
    ways = all_labelings(Stumps(), rows, np.arange(2))
    # of the four columns that vary two are others in disguise
    assert len(ways.errors(np.zeros(1, dtype=int))) == 2 * 2 * 3999 + 2 - 2 * shared(rows)


def shared(rows):
    """Partitions that both random columns make."""
    one, other = (np.argsort(np.argsort(rows[:, column])) for column in (0, 3))
    both = 0
    for k in range(1, len(rows)):
        low = other[one < k]
        both += low.max() < k or low.min() >= len(rows) - k
    return both


def test_fitted_models_as_labelers():
    models = [LogisticRegression(C=C).fit(X[:200], TRUTH[:200]) for C in (0.01, 1, 1, 10)]
    ways = all_labelings(FiniteClass(models), X[:500], np.array(["no", "yes"]))
    assert 1 <= len(ways.errors(np.zeros(5, dtype=int))) <= 3
    clf = fitted(Recorder(), hypotheses=FiniteClass(models))
    assert clf.n_rounds_ == 1


def test_random_subsets_are_uniform():
    bits = SeededBits(0)
    few = dict.fromkeys(itertools.combinations(range(5), 2), 0)
    many = dict.fromkeys(itertools.combinations(range(5), 3), 0)
    orders = dict.fromkeys(itertools.permutations(range(3)), 0)
    drawn = np.zeros(5)
    for _ in range(6000):
        few[tuple(random_subset(5, 2, bits).tolist())] += 1
        many[tuple(random_subset(5, 3, bits).tolist())] += 1
        orders[tuple(random_order(3, bits).tolist())] += 1
        drawn += np.bincount(random_indices(5, 3, bits), minlength=5)
    for seen in (few.values(), many.values(), orders.values(), drawn):
        assert_fits(list(seen), np.full(len(seen), 1 / len(seen)))
    assert random_subset(4, 4, bits).tolist() == [0, 1, 2, 3]
    assert random_subset(4, 0, bits).tolist() == []
    with pytest.raises(ValueError, match="k=5 and n=4"):
        random_subset(4, 5, bits)


class TiedWords:
    """Words that tie at first."""

    secure = False

    def __init__(self, *first):
        self.calls, self.first = 0, first

    def words(self, count):
        self.calls += 1
        tied = np.array(self.first[:count], dtype=np.uint64)
        return tied if self.calls == 1 else np.array([4, 3, 2, 1][:count], dtype=np.uint64)


def test_ties_are_drawn_anew():
    top = (1 << 64) - 1
    bits = TiedWords(top, 5, 5, 1)
    assert random_subset(4, 3, bits).tolist() == [1, 2, 3]  # a tie that decides nothing stays
    assert bits.calls == 1
    bits = TiedWords(5, 0, 5, 1)
    assert random_subset(4, 3, bits).tolist() == [1, 2, 3]  # 5 would tie with 5
    assert bits.calls == 2
    assert random_subset(6, 2, TiedWords(7, 7)).tolist() == [1, 4]  # 1, 1 again, and then 4
    assert random_order(4, TiedWords(top, 5, 5, 1)).tolist() == [3, 2, 1, 0]
    # the top word is too high
    assert random_indices(3, 2, TiedWords(top, 5)).tolist() == [5 % 3, 4 % 3]
