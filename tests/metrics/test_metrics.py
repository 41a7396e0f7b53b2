"""What is read off a release of scores, and who pays for it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skpublicdp import PrivacyBudget
from skpublicdp.accounting import Gaussian
from skpublicdp.data import open_rows
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.metrics import (
    PrivateScores,
    make_private_scorer,
    private_accuracy_score,
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
    private_scores,
)
from tests.contracts.test_guard import LoudNumber, LoudText
from tests.helpers import FALSE_ALARM
from tests.internals.metrics import (
    NoisyTable,
    balanced_accuracy_kernel,
    nearest_nonnegative,
    ratio_interval,
    roc_auc_kernel,
)
from tests.kit import Recorder
from tests.privacy.test_budget_fits import Untouchable

RNG = np.random.default_rng(0)


class Silent(Recorder):
    """No noise is added, so that what is released is exact."""

    def add_noise(self, event, spread, table, sample, ledger):
        return table.copy()


class Scored:
    """Its only feature is its score."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0.5).astype(int)]


class Decided(Scored):
    predict_proba = None

    def __getattribute__(self, name):
        if name == "predict_proba":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]


class Predicting:
    classes_ = np.array(["a", "b", "c"])

    def predict(self, X):
        return self.classes_[X[:, 0].astype(int)]


def labels_for(scores, rng=RNG):
    return np.where(rng.random(len(scores)) < scores, "yes", "no")


def silently(estimator, X, y, **settings):
    with Silent():
        return private_scores(estimator, X, y, **settings)


def in_the_middle_of_cells(n, epsilon):
    """Scores that cells do not change."""
    edges = silently(Scored(), np.full((n, 1), 0.3), ["no"] * n, epsilon=epsilon).thresholds_
    ends = np.concatenate([[0], edges, [1]])
    return RNG.choice((ends[1:] + ends[:-1]) / 2, size=n)


class TestWithoutNoise:
    """Each metric is scikit-learn's."""

    n = 500
    x = in_the_middle_of_cells(n, 2.0)
    y = labels_for(x)
    scores = silently(Scored(), x[:, None], y, epsilon=2.0)
    predicted = Scored().predict(x[:, None])

    def test_numbers(self):
        assert self.scores.accuracy == accuracy_score(self.y, self.predicted)
        expected = balanced_accuracy_score(self.y, self.predicted)
        assert self.scores.balanced_accuracy == pytest.approx(expected)
        assert self.scores.roc_auc == pytest.approx(roc_auc_score(self.y, self.x))
        expected = brier_score_loss(self.y, self.x, pos_label="yes")
        assert self.scores.brier == pytest.approx(expected)
        matrix = confusion_matrix(self.y, self.predicted)
        np.testing.assert_allclose(self.scores.confusion_matrix, matrix)

    def test_curves(self):
        false, true, thresholds = self.scores.roc_curve()
        precision, recall, rising = self.scores.precision_recall_curve()
        np.testing.assert_array_equal(rising, thresholds[-2:0:-1])
        assert (precision[-1], recall[-1]) == (1, 0)
        np.testing.assert_array_equal(recall[:-1], true[-2:0:-1])
        for place, threshold in enumerate(rising):
            called = np.where(self.x > threshold, "yes", "no")
            own = len(false) - 2 - place
            expected = recall_score(self.y, called, pos_label="yes")
            assert true[own] == pytest.approx(expected)
            expected = 1 - recall_score(self.y, called, pos_label="no")
            assert false[own] == pytest.approx(expected)
            expected = precision_score(self.y, called, pos_label="yes")
            assert precision[place] == pytest.approx(expected)
            expected = accuracy_score(self.y, called)
            assert self.scores.accuracy_at(threshold) == pytest.approx(expected)
        assert np.trapezoid(true, false) == pytest.approx(self.scores.roc_auc)

    def test_calibration(self):
        observed, predicted = self.scores.calibration_curve()
        assert len(observed) == len(predicted) == 8
        distinct = np.unique(np.concatenate([self.x, self.x]))
        first = np.isin(self.x, distinct[: len(distinct) // 8])
        assert predicted[0] == pytest.approx(self.x[first].mean())
        assert observed[0] == pytest.approx((self.y[first] == "yes").mean())

    def test_the_other_class_may_be_the_positive_one(self):
        other = silently(Scored(), self.x[:, None], self.y, epsilon=2.0, pos_label="no")
        for name in ("accuracy", "balanced_accuracy", "roc_auc", "brier"):
            assert getattr(other, name) == pytest.approx(getattr(self.scores, name))
        np.testing.assert_allclose(other.confusion_matrix, self.scores.confusion_matrix)

    def test_decision_functions(self):
        x = RNG.normal(size=self.n).round(1)
        y = labels_for(1 / (1 + np.exp(-x)))
        scores = silently(Decided(), x[:, None], y, epsilon=2.0)
        assert scores.roc_auc == pytest.approx(roc_auc_score(y, x), abs=0.01)
        assert scores.accuracy == accuracy_score(y, Decided().predict(x[:, None]))
        assert 0.0 in scores.thresholds_
        assert "brier" not in scores.metrics_

    def test_many_classes(self):
        X, y = RNG.integers(3, size=(200, 1)), RNG.choice(["a", "b", "c"], size=200)
        scores = silently(Predicting(), X, y)
        predicted = Predicting().predict(X)
        np.testing.assert_allclose(scores.confusion_matrix, confusion_matrix(y, predicted))
        assert scores.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, predicted))
        assert scores.metrics_ == ("accuracy", "balanced_accuracy", "confusion_matrix")
        with pytest.raises(AttributeError, match="estimator with"):
            scores.roc_auc  # noqa: B018

    def test_plain_arrays(self):
        with Silent():
            y, predicted, labels = self.y, self.predicted, ["no", "yes"]
            assert float(private_accuracy_score(y, predicted)) == accuracy_score(y, predicted)
            value = private_balanced_accuracy_score(y, predicted, labels=labels)
            assert float(value) == pytest.approx(balanced_accuracy_score(y, predicted))
            value = private_confusion_matrix(y, predicted, labels=labels[::-1])
            expected = confusion_matrix(y, predicted, labels=labels[::-1])
            np.testing.assert_allclose(value.value, expected)
            value = private_roc_auc_score(y, self.x, pos_label="yes", epsilon=4.0)
            assert float(value) == pytest.approx(roc_auc_score(y, self.x), abs=0.01)
            three = private_balanced_accuracy_score([0, 1, 2, 2], [0, 1, 2, 1], labels=range(3))
            assert float(three) == pytest.approx(5 / 6)


class TestRows:
    def test_unknown_labels_are_errors(self):
        X = np.repeat([[0.2], [0.9]], 50, axis=0)
        y = np.array(["other"] * 5 + ["no"] * 45 + ["yes"] * 40 + ["other"] * 10)
        scores = silently(Scored(), X, y)
        assert scores.accuracy == 0.85
        np.testing.assert_allclose(scores.confusion_matrix, [[45, 10], [5, 40]])
        X3, y3 = np.zeros((10, 1)), ["a"] * 8 + ["z", None]
        assert silently(Predicting(), X3, y3).accuracy == 0.8

    def test_missing_scores_lie_at_the_threshold(self):
        class Unsure(Scored):
            def predict_proba(self, X):
                proba = super().predict_proba(X)
                proba[3:5] = np.nan
                return proba

        X = np.array([[0.1], [0.2], [0.9], [0.9], [0.1]])
        scores = silently(Unsure(), X, ["no", "no", "yes", "no", "no"], epsilon=20.0)
        assert (scores.accuracy, scores.roc_auc) == (0.8, 1.0)

    def test_predictions_decide_where_scores_disagree(self):
        class Cautious(Scored):
            def predict(self, X):
                return self.classes_[(X[:, 0] > 0.3).astype(int)]

        x = RNG.random(400)
        y = labels_for(x)
        expected = accuracy_score(y, Cautious().predict(x[:, None]))
        for threshold in (None, 0.3):
            scores = silently(Cautious(), x[:, None], y, threshold=threshold, epsilon=5.0)
            assert scores.accuracy == expected
            matrix = confusion_matrix(y, Cautious().predict(x[:, None]))
            np.testing.assert_allclose(scores.confusion_matrix, matrix)
        assert scores.roc_auc == pytest.approx(roc_auc_score(y, x), abs=0.01)

    @pytest.mark.parametrize("kind", ["text", "number", "none", "nan", "na", "list"])
    def test_no_label_is_heard(self, kind):
        loud = {"text": LoudText("SECRET"), "number": LoudNumber(7), "none": None}
        odd = (loud | {"nan": np.nan, "na": pd.NA, "list": [1]})[kind]
        X = np.array([[0.2], [0.9], [0.7]])
        y = np.array(["no", "yes", "yes"], dtype=object)
        with Recorder() as recorder:
            first = private_scores(Scored(), X, y, random_state=0)
        y[2] = odd
        with Recorder(recorder.outcomes) as other:
            second = private_scores(Scored(), X, list(y), random_state=0)
        assert pickle.dumps(first) == pickle.dumps(second)
        assert other.calls[0].exact_input == [2]
        with Silent():
            assert float(private_accuracy_score(y, ["no", "yes", "yes"])) == pytest.approx(2 / 3)

    def test_an_estimator_that_fails_quotes_nothing(self):
        class Failing(Scored):
            def predict(self, X):
                raise KeyError("SECRET")

        with pytest.raises(ValueError, match="withheld") as caught:
            private_scores(Failing(), np.zeros((3, 1)), ["no"] * 3)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    def test_predictions_in_a_list_are_compared_one_by_one(self):
        """An array would hold text only, which numbers are not equal to."""

        class Abstaining(Scored):
            def predict(self, X):
                return [1] * (len(X) - 1) + ["unknown"]

        def scored(estimator):
            y = np.full(100, 1, dtype=object)
            return make_private_scorer("accuracy", epsilon=1)(estimator, np.zeros((100, 1)), y)

        with Silent():
            assert scored(Abstaining()) == 0.99

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"y": ["no"]}, "X 3, y 1"),
            ({"X": np.zeros((0, 1)), "y": []}, "at least one row"),
            ({"pos_label": "maybe"}, "pos_label must"),
            ({"threshold": 1.5}, "for probabilities"),
            ({"response_method": "decision_function"}, "decision_function"),
            ({"y": [0, 1, 1]}, None),
            ({"y": np.array([0, 1, 1])}, "all numbers"),
            ({"estimator": LogisticRegression()}, "a fitted classifier"),
            ({"epsilon": 1e-30}, "to be drawn"),
            ({"epsilon": -1}, "'epsilon' parameter"),
            ({"threshold": "half"}, "'threshold' parameter"),
            ({"threshold": np.nan}, "'threshold' parameter"),
            ({"classes": 3}, "classes must .*got 3"),
        ],
    )
    def test_sentences(self, settings, sentence):
        known = {"estimator": Scored(), "X": np.zeros((3, 1)), "y": ["no", "no", "yes"]}
        if sentence is None:
            assert silently(**known | settings).accuracy == 0
            return
        budget = PrivacyBudget(10.0, for_tests=True)
        with pytest.raises(ValueError, match=sentence):
            private_scores(**known | settings, budget=budget)
        assert budget.ledger == []


def numbers_of(scores):
    """Everything that can be asked, checked to be sound."""
    found = {}
    for name in scores.metrics_:
        value = getattr(scores, name)
        value = np.asarray(value if not callable(value) else value()[1 if "roc" in name else 0])
        ends = np.asarray(scores.interval(name))
        if name == "precision_recall_curve":
            value = value[:-1]
        brier = 1 if len(scores.classes_) == 2 else 2
        low, high = scores.outcome_bounds_ or (0, 1)
        most = {"confusion_matrix": scores.n_rows_, "brier": brier, "r2": 1}.get(name, high - low)
        assert ends.shape == (*value.shape, 2)
        assert name == "r2" or (ends[..., 0] >= 0).all()
        assert (ends[..., 1] <= most).all()
        assert (ends[..., 0] <= ends[..., 1]).all()
        if name != "confusion_matrix":
            assert (ends[..., 0] <= value).all()
            assert (value <= ends[..., 1]).all()
        found[name] = value.tolist(), ends.tolist()
    return found


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("rows", ["one", "one class", "ties", "perfect"])
def test_there_are_always_numbers(rows, epsilon, delta):
    X = {
        "one": [[0.3]],
        "one class": np.linspace(0, 1, 40)[:, None],
        "ties": [[0.5]] * 30,
        "perfect": [[0.1], [0.9]] * 20,
    }[rows]
    y = ["no"] * len(X) if rows != "perfect" else ["no", "yes"] * 20
    settings = {"epsilon": epsilon, "delta": delta, "random_state": 0}
    X = np.array(X, dtype=float)
    numbers_of(private_scores(Scored(), X, y, **settings))
    numbers_of(private_scores(Predicting(), np.zeros_like(X), ["a"] * len(X), **settings))
    only = private_scores(Predicting(), np.zeros_like(X), ["a"] * len(X), classes=["a"], **settings)
    assert only.metrics_ == ("accuracy",)
    numbers_of(only)
    scores = private_scores(Scored(), X, y, **settings)
    if rows in ("one", "one class", "ties"):
        low, high = scores.interval("roc_auc")
        assert high - low > 0.9
    assert repr(scores).startswith(f"PrivateScores of {len(X)} rows")


def test_few_rows_never_make_sure():
    y = [0, 1] * 20
    area = private_roc_auc_score(y, [0.1, 0.9] * 20, epsilon=1000)
    balanced = private_balanced_accuracy_score(y, y, labels=[0, 1], epsilon=1000)
    for value in (area, balanced, private_accuracy_score(y, y, epsilon=1000)):
        low, high = value.interval
        assert float(value) == high == 1
        assert 0.02 < high - low < 0.3


def test_levels_are_nested():
    X = RNG.random((500, 1))
    scores = private_scores(Scored(), X, labels_for(X[:, 0]), random_state=1)
    for name in ("accuracy", "roc_auc", "balanced_accuracy", "brier"):
        widths = [np.diff(scores.interval(name, level))[0] for level in (0.5, 0.9, 0.99)]
        assert widths == sorted(widths)
    at = scores.interval("accuracy", threshold=0.5)
    assert at[0] <= scores.accuracy_at(0.5) <= at[1]
    with pytest.raises(ValueError, match="metric"):
        scores.interval("f1")
    for level in (1.0, "x"):
        with pytest.raises(ValueError, match=f"'level' .* {level!r}"):
            scores.interval("accuracy", level)


def test_failure_probabilities_add_up():
    """All intervals of a release hold simultaneously, by the union bound."""
    X = RNG.random((500, 1))
    scores = private_scores(Scored(), X, labels_for(X[:, 0]), random_state=1)
    n_thresholds = len(scores.thresholds_)
    n_intervals = dict.fromkeys(("accuracy", "roc_auc", "balanced_accuracy", "brier"), 1) | {
        "confusion_matrix": scores.confusion_matrix.size,
        "roc_curve": 2 * n_thresholds,
        "precision_recall_curve": n_thresholds,
        "calibration_curve": len(scores.calibration_curve()[0]),
    }
    assert set(n_intervals) == set(scores.metrics_)
    failure = sum(n * scores._failure(name, 0.95, None) for name, n in n_intervals.items())
    failure += n_thresholds * scores._failure("accuracy", 0.95, 0.5)
    assert failure == pytest.approx(0.05)


class TestMathematics:
    @given(st.lists(st.floats(-50, 50), min_size=1, max_size=9), st.floats(0.1, 60))
    def test_the_nearest_table(self, values, total):
        values = np.array(values)
        found = nearest_nonnegative(values, total)
        assert found.sum() == pytest.approx(total)
        assert (found >= 0).all()
        moved = values - found  # the same where something is left, and no less elsewhere
        assert moved[found > 0] == pytest.approx(moved[found > 0].max(), abs=1e-9)
        assert (moved[found == 0] <= moved[found > 0].max() + 1e-9).all()

    def test_the_noise_of_sums(self):
        """Weights of the noise are found by moving one released number at a time."""
        X, y = np.linspace(0, 1, 12)[:, None], ["no", "yes"] * 6
        with Recorder() as recorder:
            base = private_scores(Scored(), X, y, random_state=0)._table.counts
        right, table = recorder.calls
        moves = []
        for at in range(len(table.outcome) + 1):
            outcomes = [right.outcome.copy(), table.outcome.copy()]
            outcomes[at > 0][max(at - 1, 0)] += 1
            with Recorder(outcomes):
                moved = private_scores(Scored(), X, y, random_state=0)._table
            moves.append((moved.counts - base).ravel())
        moves = np.array(moves)
        variances = np.array([moved.total_variance, *np.repeat(moved.variance, base.shape[1])])
        u, v = RNG.normal(size=(2, base.size))
        expected = (moves @ u * variances * (moves @ v)).sum()
        assert moved.covariance(u, v) == pytest.approx(expected)
        expected = 3 * (variances**2 * (moves @ u) ** 4).sum()
        assert moved.fourth_cumulant(u) == pytest.approx(expected)

    @pytest.mark.parametrize("kind", ["ranking", "balance"])
    def test_gradients(self, kind):
        scores = silently(Scored(), np.full((9, 1), 0.3), ["no"] * 9)
        bins = scores._score_bins
        mean = roc_auc_kernel(bins.n_bins) if kind == "ranking" else balanced_accuracy_kernel(bins)
        counts = RNG.normal(size=(2, bins.n_bins))
        upper, lower, over, under = mean.gradients_and_sums(counts)
        for at in range(counts.size):
            step = np.zeros(counts.size)
            step[at] = 1e-6
            _, _, over2, under2 = mean.gradients_and_sums(counts + step.reshape(counts.shape))
            assert (over2 - over) / 1e-6 == pytest.approx(upper[at], abs=1e-4)
            assert (under2 - under) / 1e-6 == pytest.approx(lower[at], abs=1e-4)

    def test_intervals_are_all_ratios_that_are_not_refuted(self):
        counts = np.array([[30.0, 20.0], [12.0, 40.0]])
        whole = (np.ones(4, dtype=bool),)
        table = NoisyTable(counts, counts, 102, np.full(2, 9.0), 0.0, whole, Gaussian(1))
        upper, lower = np.array([0.0, 0, 0, 1]), np.array([0.0, 0, 1, 1])
        flat = counts.ravel()
        low, high = ratio_interval(
            table, upper, lower, (upper @ flat, lower @ flat), 0.05, flat, pseudo_rows=1.5
        )
        kept = []
        for share in np.linspace(0, 1, 2001):
            weights = upper - share * lower
            distance = weights @ flat + 1.5 * (1 - 2 * share)
            variance = 9 * ((weights - weights.mean()) ** 2).sum() + weights**2 @ flat
            variance += 1.5 * ((1 - share) ** 2 + share**2)
            if distance**2 <= 1.959964**2 * variance:
                kept.append(share)
        assert (low, high) == pytest.approx((min(kept), max(kept)), abs=6e-4)


class TestBudgets:
    def test_nothing_is_read_before_it_is_paid(self):
        budget = PrivacyBudget(0.001, for_tests=True)
        rows = Untouchable()
        scorer = make_private_scorer("accuracy", budget=budget)
        for call in (
            lambda: private_scores(Scored(), rows, rows, budget=budget),
            lambda: private_accuracy_score(rows, rows, budget=budget),
            lambda: private_roc_auc_score(rows, rows, budget=budget),
            lambda: private_confusion_matrix(rows, rows, labels=[0, 1], budget=budget),
            lambda: private_balanced_accuracy_score(rows, rows, labels=[0, 1], budget=budget),
            lambda: scorer(Scored(), rows, rows),
        ):
            with pytest.raises(PrivacyBudgetError, match=r"0\.001 is left"):
                call()
        assert budget.ledger == []

    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_one_release_is_one_entry(self, delta):
        budget = PrivacyBudget(1.0, delta, for_tests=True)
        X = RNG.random((50, 1))
        scores = private_scores(
            Scored(), X, labels_for(X[:, 0]), epsilon=0.4, delta=delta, budget=budget
        )
        numbers_of(scores)
        (entry,) = budget.ledger
        assert (entry.who, entry.n_rows, scores.privacy_.entry) == ("private_scores", 50, 1)
        assert scores.privacy_.epsilon == 0.4
        assert len(scores.privacy_.mechanisms) == 2
        assert scores.privacy_.secure_randomness

    @pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "roc_auc"])
    def test_scorers(self, metric):
        X = RNG.normal(size=(400, 2))
        y = labels_for(1 / (1 + np.exp(-9 * X[:, 0])))
        budget = PrivacyBudget(100.0, for_tests=True)
        scorer = make_private_scorer(metric, epsilon=0.5, budget=budget, random_state=0)
        found = cross_val_score(LogisticRegression(), X, y, scoring=scorer, cv=4)
        assert (found > 0.7).all()
        assert len({scorer(LogisticRegression().fit(X, y), X, y) for _ in range(5)}) > 1
        assert len(budget.ledger) == 9
        assert {entry.who for entry in budget.ledger} == {f"private scorer of {metric}"}
        copied = pickle.loads(pickle.dumps(scorer))
        copied(LogisticRegression().fit(X, y), X, y)
        assert len(budget.ledger) == 10

    def test_searches(self):
        X = RNG.normal(size=(200, 2))
        y = X[:, 0] > 0
        budget = PrivacyBudget(6.0, for_tests=True)
        scorer = make_private_scorer("accuracy", epsilon=1.0, budget=budget)
        search = GridSearchCV(
            DecisionTreeClassifier(), {"max_depth": [1, 2, 3]}, scoring=scorer, cv=2
        )
        clone(search).fit(X, y)
        assert (len(budget.ledger), budget.remaining("pure")) == (6, 0.0)
        with pytest.raises(PrivacyBudgetError):
            scorer(DecisionTreeClassifier().fit(X, y), X, y)

    def test_roc_auc_needs_scores_of_two_classes(self):
        X, y = RNG.normal(size=(60, 2)), np.arange(60) % 3
        scorer = make_private_scorer("roc_auc")
        with pytest.raises(ValueError, match="two classes"):
            scorer(LogisticRegression().fit(X, y), X, y)
        assert 0 <= scorer(LinearSVC().fit(X, y > 0), X, y > 0) <= 1
        with pytest.raises(ValueError, match="metric"):
            make_private_scorer("f1")


def test_the_picture():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    X = RNG.random((3000, 1))
    scores = private_scores(Scored(), X, labels_for(X[:, 0]), random_state=0)
    display = scores.plot()
    false, true, _ = scores.roc_curve()
    np.testing.assert_array_equal(display.line_.get_xdata(), false)
    np.testing.assert_array_equal(display.line_.get_ydata(), true)
    assert "AUC" in display.line_.get_label()
    low, high = scores.interval("roc_curve").T
    assert (low <= true).all()
    assert (true <= high).all()
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()
    plt.close(display.figure_)


def test_it_survives_a_pickle():
    X = RNG.random((100, 1))
    scores = private_scores(Scored(), X, labels_for(X[:, 0]), random_state=0)
    other = pickle.loads(pickle.dumps(scores))
    assert isinstance(other, PrivateScores)
    assert numbers_of(other) == numbers_of(scores)


class TestStreamsAndPersons:
    n = 600
    x = np.random.default_rng(7).random(n)
    frame = pd.DataFrame({"x": x, "y": labels_for(x, np.random.default_rng(8))})
    persons = np.arange(n) // 3

    class OfColumn(Scored):
        def predict_proba(self, X):
            return super().predict_proba(np.asarray(X["x"], dtype=float)[:, None])

        def predict(self, X):
            return super().predict(np.asarray(X["x"], dtype=float)[:, None])

    def in_memory(self, **settings):
        return numbers_of(silently(self.OfColumn(), self.frame[["x"]], self.frame["y"], **settings))

    @pytest.mark.usefixtures("keep_first_rows")
    def test_chunks_give_what_rows_in_memory_give(self):
        pa = pytest.importorskip("pyarrow")
        table = pa.Table.from_pandas(self.frame.assign(who=self.persons))
        rows = open_rows(table.to_batches(max_chunksize=70))
        parts = rows.drop("y", "who"), rows["y"]
        assert numbers_of(silently(self.OfColumn(), *parts)) == self.in_memory()
        settings = {"max_rows_per_group": 2}
        found = silently(self.OfColumn(), *parts, groups=rows["who"], **settings)
        assert numbers_of(found) == self.in_memory(groups=self.persons, **settings)
        assert found.n_rows_ == 400

    def test_dask(self):
        dask = pytest.importorskip("dask.dataframe")
        rows = dask.from_pandas(self.frame, npartitions=4)
        found = silently(Scored(), rows[["x"]].to_dask_array(lengths=True), rows["y"])
        assert numbers_of(found) == self.in_memory()

    def test_nothing_is_quoted_and_nothing_spent_when_a_chunk_fails(self):
        pa = pytest.importorskip("pyarrow")
        rows = open_rows(pa.Table.from_pandas(self.frame).to_batches(max_chunksize=70))
        budget = PrivacyBudget(1.0, for_tests=True)
        with pytest.raises(ValueError, match="predict of") as caught:
            private_scores(Scored(), rows.drop("y"), rows["y"], budget=budget)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert not budget.ledger

    def test_persons_widen_what_rows_know(self):
        def half(**settings):
            low, high = silently(
                self.OfColumn(), self.frame, self.frame["y"], epsilon=100.0, **settings
            ).interval("accuracy")
            return (high - low) / 2

        one = half()
        assert half(groups=np.arange(self.n), max_rows_per_group=1) == pytest.approx(one)
        # three rows of one mind are worth one
        widened = half(groups=self.persons, max_rows_per_group=3)
        assert widened == pytest.approx(3**0.5 * one, rel=0.05)

    def test_intervals_hold_for_persons_whose_rows_agree(self):
        rng = np.random.default_rng(9)
        scores, persons = np.full((300, 1), 0.7), np.arange(300) // 3
        held = 0
        for _ in range(200):
            y = np.repeat(np.where(rng.random(100) < 0.7, "yes", "no"), 3)
            settings = {"groups": persons, "max_rows_per_group": 3, "random_state": rng}
            low, high = private_scores(Scored(), scores, y, epsilon=3.0, **settings).interval(
                "accuracy", 0.95
            )
            held += low <= 0.7 <= high
        assert held >= binom.ppf(FALSE_ALARM, 200, 0.95)

    def test_both_or_none(self):
        for settings in ({"groups": self.persons}, {"max_rows_per_group": 2}):
            with pytest.raises(ValueError, match="given together"):
                private_scores(self.OfColumn(), self.frame, self.frame["y"], **settings)
        with pytest.raises(ValueError, match="max_rows_per_group"):
            private_scores(
                self.OfColumn(), self.frame, self.frame["y"], groups=[0], max_rows_per_group=0
            )
