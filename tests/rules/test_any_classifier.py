"""Learners that make any classifier private: public candidates and votes of blocks."""

import io
import logging
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from skpublicdp import (
    PrivacyBudget,
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    PublicFit,
    SemiPrivateClassifier,
)
from skpublicdp.hypotheses import FiniteClass
from tests.audit.subjects import CarelessClassifier
from tests.internals.base_learner import quietly, seeded_clone
from tests.internals.rules import (
    PublicRows,
    UnfailingClassifier,
    copies_of_points,
    count_votes,
    fit_candidates,
)

RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(12_000, 3)), RNG.normal(size=(300, 3))
Y = np.where(X @ [1.0, -1.0, 0.5] > 0.2, "yes", "no")
Y_PUBLIC = np.where(PUBLIC @ [1.0, -1.0, 0.5] > 0.2, "yes", "no")
CLASSES = np.array(["no", "yes"])
CLASSIFIERS = [
    DecisionTreeClassifier(max_depth=3),
    LogisticRegression(),
    GaussianNB(),
    RandomForestClassifier(3, max_depth=3),
    make_pipeline(StandardScaler(), RidgeClassifier()),
]
BY_CLASSIFIER = pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)


class NeverFits(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("never")

    def predict(self, X):
        raise AssertionError


class GlobalCoin(DecisionTreeClassifier):
    """A classifier that predicts by numpy's global generator."""

    def predict(self, X):
        return np.random.randint(2, size=len(X))  # noqa: NPY002


class Exits(DecisionTreeClassifier):
    def predict(self, X):
        raise SystemExit(f"row {X[0]}")


class TalkingClassifier(DecisionTreeClassifier):
    """A classifier that logs each of its fits."""

    def fit(self, X, y):
        logging.getLogger("another").info("a fit")
        return super().fit(X, y)


def private():
    return SemiPrivateClassifier()


class SomeFit(DecisionTreeClassifier):
    """A classifier that refuses balanced labels."""

    def fit(self, X, y):
        if 0.4 < np.mean(y == y[0]) < 0.6:
            raise ValueError("balanced")
        return super().fit(X, y)


def candidates(estimator, n, y=()):
    labelled = PUBLIC[: len(y)]
    codes = np.searchsorted(CLASSES, np.asarray(y, dtype=str))
    return fit_candidates(estimator, PublicRows(PUBLIC, labelled, codes), CLASSES, n)


class TestCandidates:
    @BY_CLASSIFIER
    def test_they_are_a_function_of_public_rows(self, estimator):
        first = candidates(estimator, 10)
        np.random.seed(1)  # noqa: NPY002 - the global generator must not matter
        second = candidates(estimator, 10)
        for one, other in zip(first, second, strict=True):
            assert (one.predict(X[:500]) == other.predict(X[:500])).all()

    def test_most_are_different(self):
        models = candidates(DecisionTreeClassifier(max_depth=2), 50)
        predictions = [model.predict(PUBLIC) for model in models]
        assert len({tuple(labels) for labels in predictions}) > 40
        shares = [np.mean(labels == "yes") for labels in predictions]
        assert min(shares) < 0.35 < 0.65 < max(shares)

    def test_public_labels_are_used(self):
        estimator = GaussianNB()
        models = candidates(estimator, 4, Y_PUBLIC[:100])
        expected = estimator.fit(PUBLIC[:100], Y_PUBLIC[:100])
        assert (models[0].predict(X) == expected.predict(X)).all()
        assert 0.7 < models[2].score(X, Y) != models[0].score(X, Y)
        assert models[1].score(X, Y) < 0.7  # a random labelling
        alone = candidates(estimator, 4, Y_PUBLIC[:1])  # one label is not enough
        assert alone[0].score(X, Y) < 0.8

    def test_failures_are_omitted(self):
        assert 10 < len(candidates(SomeFit(), 50)) < 50
        with pytest.raises(RuntimeError, match="never"):
            candidates(NeverFits(), 3)


class TestSelection:
    @BY_CLASSIFIER
    def test_the_draw_finds_a_good_candidate(self, estimator):
        clf = PrivateSelectionClassifier(estimator, n_candidates=60, random_state=0)
        clf.fit(X, Y, X_public=PUBLIC)
        errors = [np.sum(m.predict(X) != Y) for m in candidates(estimator, 60)]
        assert np.sum(clf.predict(X) != Y) <= min(errors) + 30
        assert (clf.estimator_.predict(X) == clf.predict(X)).mean() > 0.999
        assert (clf.privacy_.epsilon, clf.privacy_.delta) == (1.0, 0.0)

    def test_public_labels_help(self):
        settings = {"X_public": PUBLIC, "y_public": Y_PUBLIC}
        clf = PrivateSelectionClassifier(GaussianNB(), n_candidates=40, random_state=0)
        assert clf.fit(X, Y, **settings).score(X, Y) > 0.95

    def test_the_bound_is_that_of_a_finite_class(self):
        estimator = GaussianNB()
        clf = PrivateSelectionClassifier(estimator, n_candidates=40, random_state=0)
        clf.fit(X, Y, X_public=PUBLIC, y_public=Y_PUBLIC)
        finite = FiniteClass(candidates(estimator, 40, Y_PUBLIC))
        expected = SemiPrivateClassifier(finite, public_weight=0, random_state=0)
        expected.fit(X, Y, X_public=PUBLIC, y_public=Y_PUBLIC)
        assert clf.cover_size_ == expected.cover_size_ == 40
        assert clf.guarantee_ == expected.guarantee_ < 0.05
        assert clf.certificate_ == expected.certificate_

    def test_persons_have_no_bound(self):
        clf = PrivateSelectionClassifier(GaussianNB(), n_candidates=5, max_rows_per_group=2)
        clf.fit(X, Y, X_public=PUBLIC, groups=np.arange(len(X)) // 2)
        assert clf.guarantee_ is None

    def test_a_row_far_away_does_not_fail(self):
        rows, clf = X.copy(), PrivateSelectionClassifier(n_candidates=5, random_state=0)
        rows[-1] = 1e300  # beyond float32, the type of scikit-learn's trees
        clf.fit(rows, Y, X_public=PUBLIC).predict(rows)


class TestRowsThatFail:
    """A category that no public row has makes some classifiers fail."""

    def test_they_count_as_rows_of_the_first_label(self):
        rng = np.random.default_rng(0)
        public = rng.choice([0.0, 1.0, 3.0], (200, 1))
        rows = rng.choice([0.0, 1.0, 3.0], (400, 1))
        labels = np.where(rows[:, 0] > 0, "longer", "a")
        coder = make_pipeline(OneHotEncoder(), LogisticRegression())
        for unseen in (0, 1, 399):
            rows[:unseen] = 2.0
            clf = PrivateSelectionClassifier(coder, n_candidates=20, classes=["a", "longer"])
            clf.fit(rows, labels, X_public=public)
        model = UnfailingClassifier(clf.estimator_)
        failing = np.array([[0.0], [2.0], [3.0]])
        expected = clf.estimator_.predict(failing[[0, 2]])
        assert model.predict(failing).tolist() == [expected[0], "a", expected[1]]
        assert UnfailingClassifier(Exits().fit(X[:9], np.arange(9) % 2)).predict(X[:2]).sum() == 0


class TestVotes:
    @pytest.mark.parametrize(
        "estimator", [*CLASSIFIERS, CarelessClassifier()], ids=lambda e: type(e).__name__
    )
    def test_one_row_changes_one_vote_per_point(self, estimator):
        rng = np.random.default_rng(1)
        rows, codes = X[:60].copy(), rng.integers(0, 3, 60)
        points, classes = PUBLIC[:20], np.array([3, 5, 8])
        votes = count_votes(estimator, rows, codes, points, classes, 7)
        assert (votes.sum(axis=1) == 7).all()
        changes = set()
        for _ in range(30):
            other_rows, other_codes = rows.copy(), codes.copy()
            position = rng.integers(60)
            other_rows[position], other_codes[position] = 2.0, rng.integers(3)
            other = count_votes(estimator, other_rows, other_codes, points, classes, 7)
            changes.update(np.abs(votes - other).sum(axis=1).tolist())
        assert changes == {0, 2}

    def test_a_failing_block_votes_for_its_most_frequent_label(self):
        codes = np.array([0, 1, 1, 2, 2, 2, 1, 0, 0])  # blocks: 0 2 1, 1 2 0, 1 2 0
        codes[3:6] = [0, 1, 2]  # blocks: 0 0 1, 1 1 0, 1 2 0
        votes = count_votes(NeverFits(), X[:9], codes, PUBLIC[:2], np.arange(3), 3)
        assert votes.tolist() == [[2, 1, 0], [2, 1, 0]]
        assert count_votes(NeverFits(), X[:0], codes[:0], PUBLIC[:1], np.arange(2), 1).sum() == 1

    def test_private_classifiers_are_refused(self):
        for estimator in (SemiPrivateClassifier(), make_pipeline(StandardScaler(), private())):
            with pytest.raises(ValueError, match="budget of its own"):
                PrivateVotesClassifier(estimator).fit(X, Y, X_public=PUBLIC)

    def test_logs_and_callbacks_do_not_depend_on_the_rows(self, caplog):
        """One positive row makes one block of two labels, whose fit must not be heard of."""
        caplog.set_level("INFO")
        heard = []
        for n_positive in (0, 1):
            caplog.clear()
            codes = np.zeros(60, dtype=int)
            codes[:n_positive] = 1
            steps = make_pipeline(PublicFit(StandardScaler()), TalkingClassifier())
            clf = PrivateVotesClassifier(steps, classes=[0, 1], n_blocks=3, random_state=0)
            clf.fit(X[:60], codes, X_public=PUBLIC)
            heard.append([record.getMessage() for record in caplog.records])
        assert heard[0] == heard[1]

    def test_global_generators_are_those_of_the_block(self):
        """A block of one label draws nothing, which must not shift the draws of others."""
        rows, points = X[:60], PUBLIC[:20]
        codes = np.arange(60) % 2
        votes = count_votes(GlobalCoin(), rows, codes, points, np.arange(2), 6)
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        codes[::6] = 0  # the first block
        other = count_votes(GlobalCoin(), rows, codes, points, np.arange(2), 6)
        assert np.abs(votes - other).sum(axis=1).max() <= 2
        assert (np.random.get_state()[1] == state).all()  # noqa: NPY002

    def test_a_block_may_exit(self):
        votes = count_votes(Exits(), X[:9], np.arange(9) % 2, PUBLIC[:2], np.arange(2), 1)
        assert votes.tolist() == [[1, 0], [1, 0]]

    def test_concurrent_fits_restore_output_and_loggers(self):
        """Threads leave the process-wide settings in any order."""
        first, second = quietly(0), quietly(1)
        stdout = sys.stdout
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert sys.stdout is not stdout
        second.__exit__(None, None, None)
        assert sys.stdout is stdout
        assert logging.root.manager.disable == logging.NOTSET

    def test_clones_are_silent(self):
        estimator = make_pipeline(StandardScaler(), SVC(verbose=True))
        estimator.callbacks_ = estimator[-1]._skl_callbacks = [print]
        copied = seeded_clone(estimator, 3)
        assert copied[-1].verbose is False
        assert copied.verbose is False
        assert copied[-1].random_state == 3
        assert not any("callback" in name for step in (copied, copied[-1]) for name in vars(step))

    def test_nothing_is_shown(self):
        text = io.StringIO()
        codes = (X[:50, 0] > 0).astype(int)
        with (
            redirect_stdout(text),
            redirect_stderr(text),
            warnings.catch_warnings(record=True) as shown,
        ):
            warnings.simplefilter("always")
            votes = count_votes(CarelessClassifier(), X[:50], codes, PUBLIC, np.arange(2), 5)
        assert (text.getvalue(), shown) == ("", [])
        assert (votes.sum(axis=1) == 5).all()

    @BY_CLASSIFIER
    def test_the_student_is_good(self, estimator):
        clf = PrivateVotesClassifier(estimator, epsilon=4, random_state=0)
        clf.fit(X, Y, X_public=PUBLIC)
        assert clf.score(X, Y) > 0.8
        assert (clf.privacy_.epsilon, clf.privacy_.delta) == (4.0, 1e-6)
        assert hasattr(clf, "predict_proba") == hasattr(clf.estimator_, "predict_proba")
        assert clf.estimator_.classes_.tolist() == ["no", "yes"]

    def test_the_noise_is_as_paid_for(self):
        def votes(seed, **settings):
            clf = PrivateVotesClassifier(GaussianNB(), n_blocks=30, random_state=seed, **settings)
            return clf.fit(X[:900], Y[:900], X_public=PUBLIC, **groups)

        groups = {}
        fits = [votes(seed) for seed in range(2)]
        difference = (fits[0].votes_ - fits[1].votes_) / fits[0].votes_std_
        assert 1.2 < np.std(difference) < 1.65  # √2, with blocks that differ a little
        groups = {"groups": np.arange(900) // 3}
        persons = votes(0, max_rows_per_group=3)
        assert persons.votes_std_ == pytest.approx(3 * fits[0].votes_std_, rel=1e-3)

    def test_every_label_has_a_copy(self):
        votes = np.array([[9, 0, 0], [9, 0, -5], [9, 1, 0]])
        assert (copies_of_points(votes).sum(axis=0) > 0).all()
        assert copies_of_points(np.zeros((3, 2), dtype=np.int64)).sum() == 2

    def test_the_number_of_blocks_is_public(self):
        def n_blocks(rows, labels, **settings):
            clf = PrivateVotesClassifier(GaussianNB(), random_state=0, **settings)
            return clf.fit(rows, labels, X_public=PUBLIC).n_blocks_

        few = n_blocks(X[:2000], Y[:2000], epsilon=8)
        assert few == n_blocks(X[2000:4000], Y[4000:6000], epsilon=8) < 200
        assert n_blocks(X[:2000], Y[:2000], epsilon=0.1) == 200  # ten rows each
        assert n_blocks(X[:50], Y[:50], n_blocks=80) == 50

    def test_an_estimator_that_fails_spends_nothing(self):
        budget = PrivacyBudget(1, 1e-6)
        with pytest.raises(RuntimeError, match="never"):
            PrivateVotesClassifier(NeverFits(), budget=budget).fit(X, Y, X_public=PUBLIC)
        assert len(budget.ledger) == 0

    def test_labelled_public_rows_count_as_unanimous(self):
        clf = PrivateVotesClassifier(GaussianNB(), n_blocks=50, epsilon=0.001, random_state=0)
        alone = clf.fit(X, Y, X_public=PUBLIC).score(X, Y)
        clf.fit(X, Y, X_public=PUBLIC, y_public=Y_PUBLIC)
        assert clf.score(X, Y) > 0.9 > alone
