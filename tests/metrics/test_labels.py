"""Scores of more than two labels: one label against the others, and means over the labels."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.svm import SVC

from skpublicdp.accounting import Pure
from skpublicdp.data import open_rows
from skpublicdp.metrics import private_scores
from tests.helpers import FALSE_ALARM
from tests.internals.metrics import LabelMean, release_contingency_table, roc_auc_kernel
from tests.kit import Recorder
from tests.metrics.test_coverage import Quick
from tests.metrics.test_metrics import numbers_of, silently

LABELS = np.array(["a", "b", "c", "d"])


class Rated:
    """The features are the scores of the labels."""

    def __init__(self, n_labels=4):
        self.classes_ = LABELS[:n_labels]

    def predict_proba(self, X):
        return np.asarray(X)

    def predict(self, X):
        return self.classes_[np.asarray(X).argmax(1)]


class Decided(Rated):
    """The features are decision functions, one for each label."""

    predict_proba = property()  # raises AttributeError

    def decision_function(self, X):
        return X


def labelled_rows(n, rng, concentration=(1, 1, 2, 0.5)):
    """Return calibrated scores, and labels that follow them."""
    X = rng.dirichlet(concentration, n)
    codes = (X.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=X.shape[1] - 1)
    return X, LABELS[codes]


class TestWithoutNoise:
    """Each metric is scikit-learn's, of scores that the bins do not change."""

    n = 3000
    X, y = labelled_rows(n, np.random.default_rng(0))
    edges = silently(Rated(), X, y, epsilon=8.0).thresholds_
    centers = np.convolve([0, *edges, 1], [0.5, 0.5], "valid")
    X = centers[np.searchsorted(edges, X)]
    scores = silently(Rated(), X, y, epsilon=8.0)

    def test_areas(self):
        areas = [roc_auc_score(self.y == label, self.X[:, k]) for k, label in enumerate(LABELS)]
        np.testing.assert_allclose(self.scores.roc_auc_per_class, areas)
        assert self.scores.roc_auc == pytest.approx(np.mean(areas))
        fractions = np.array([np.mean(self.y == label) for label in LABELS])
        assert self.scores.roc_auc_weighted == pytest.approx(fractions @ areas)

    def test_means_are_those_of_scikit_learn(self):
        """Of scores that add up to 1, which it requires. Bins change them little."""
        X, y = labelled_rows(4000, np.random.default_rng(1))
        scores = silently(Rated(), X, y, epsilon=8.0)
        for name, average in (("roc_auc", "macro"), ("roc_auc_weighted", "weighted")):
            expected = roc_auc_score(y, X, multi_class="ovr", average=average)
            assert getattr(scores, name) == pytest.approx(expected, abs=2e-3)
        assert scores.brier == pytest.approx(brier_score_loss(y, X), abs=2e-3)

    def test_predictions(self):
        predicted = Rated().predict(self.X)
        assert self.scores.accuracy == accuracy_score(self.y, predicted)
        expected = balanced_accuracy_score(self.y, predicted)
        assert self.scores.balanced_accuracy == pytest.approx(expected)
        matrix = confusion_matrix(self.y, predicted)
        np.testing.assert_allclose(self.scores.confusion_matrix, matrix)

    def test_the_brier_score(self):
        expected = ((self.X - (self.y[:, None] == LABELS)) ** 2).sum(1).mean()
        assert self.scores.brier == pytest.approx(expected)

    @pytest.mark.parametrize("column", range(4))
    def test_curves(self, column):
        label = LABELS[column]
        x, is_own = self.X[:, column], self.y == label
        false, true, thresholds = self.scores.roc_curve(label)
        precision, recall, rising = self.scores.precision_recall_curve(label)
        np.testing.assert_array_equal(rising, thresholds[-2:0:-1])
        np.testing.assert_array_equal(recall[:-1], true[-2:0:-1])
        for place, threshold in enumerate(rising):
            called, at = x > threshold, len(false) - 2 - place
            assert true[at] == pytest.approx(recall_score(is_own, called))
            assert false[at] == pytest.approx(1 - recall_score(~is_own, ~called))
            expected = precision_score(is_own, called, zero_division=1)
            assert precision[place] == pytest.approx(expected)
            expected = accuracy_score(is_own, called)
            assert self.scores.accuracy_at(threshold, label) == pytest.approx(expected)
        area = self.scores.roc_auc_per_class[column]
        assert np.trapezoid(true, false) == pytest.approx(area)

    def test_calibration(self):
        for column, label in enumerate(LABELS):
            observed, predicted = self.scores.calibration_curve(label)
            groups = np.array_split(np.arange(len(self.edges) + 1), len(observed))
            bins = np.searchsorted(self.edges, self.X[:, column])
            for group, fraction, mean in zip(groups, observed, predicted, strict=True):
                inside = np.isin(bins, group)
                if inside.any():
                    assert fraction == pytest.approx((self.y[inside] == label).mean())
                    assert mean == pytest.approx(self.X[inside, column].mean())

    def test_labels_in_any_order(self):
        other = silently(
            Rated(), self.X, self.y, epsilon=8.0, classes=["c", "a", "d", "b"], pos_label="a"
        )
        assert other.roc_auc == pytest.approx(self.scores.roc_auc)
        areas = dict(zip(other.classes_, other.roc_auc_per_class, strict=True))
        expected = dict(zip(LABELS, self.scores.roc_auc_per_class, strict=True))
        assert areas == pytest.approx(expected)
        for mine, yours in zip(other.roc_curve(), self.scores.roc_curve("a"), strict=True):
            np.testing.assert_allclose(mine, yours)

    def test_decision_functions_on_request(self):
        X = np.random.default_rng(2).normal(size=(self.n, 4)) + 3 * (self.y[:, None] == LABELS)
        plain = silently(Decided(), X, self.y, epsilon=8.0)
        assert plain.metrics_ == ("accuracy", "balanced_accuracy", "confusion_matrix")
        scores = silently(Decided(), X, self.y, epsilon=8.0, response_method="decision_function")
        assert "brier" not in scores.metrics_
        for k, label in enumerate(LABELS):
            expected = roc_auc_score(self.y == label, X[:, k])
            assert scores.roc_auc_per_class[k] == pytest.approx(expected, abs=0.01)

    def test_decisions_between_pairs_are_no_scores_of_labels(self):
        X, codes = np.random.default_rng(3).normal(size=(60, 2)), np.arange(60) % 4
        clf = SVC(decision_function_shape="ovo").fit(X, codes)
        assert "roc_auc" not in silently(clf, X, codes).metrics_
        with pytest.raises(ValueError, match="score for each class"):
            private_scores(clf, X, codes, response_method="decision_function")

    def test_a_label_without_a_score(self):
        """Labels that the estimator does not know have no column of scores."""
        scores = silently(Rated(), self.X, self.y, classes=["a", "b", "c", "d", "e"], pos_label="d")
        assert scores.metrics_ == ("accuracy", "balanced_accuracy", "confusion_matrix")


class TestIntervals:
    X, y = labelled_rows(2000, np.random.default_rng(4))

    def scores(self, **settings):
        return private_scores(Rated(), self.X, self.y, random_state=0, **settings)

    def test_failure_probabilities_add_up(self):
        """All intervals of a release hold simultaneously, by the union bound."""
        scores, n_thresholds, n_labels = self.scores(), len(self.scores().thresholds_), 4
        names = ("accuracy", "balanced_accuracy", "brier", "roc_auc", "roc_auc_weighted")
        n_intervals = dict.fromkeys(names, 1) | {
            "roc_auc_per_class": n_labels,
            "confusion_matrix": n_labels**2,
            "roc_curve": n_labels * 2 * n_thresholds,
            "precision_recall_curve": n_labels * n_thresholds,
            "calibration_curve": n_labels * len(scores.calibration_curve()[0]),
        }
        assert set(n_intervals) == set(scores.metrics_)
        failure = sum(n * scores._failure(name, 0.95, None) for name, n in n_intervals.items())
        failure += n_labels * n_thresholds * scores._failure("accuracy", 0.95, 0.5)
        assert failure == pytest.approx(0.05)

    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_the_noise_of_each_table(self, delta):
        """Weights of the noise are found by moving one released number at a time."""
        X, y = self.X[:40], self.y[:40]
        settings = {"delta": delta, "random_state": 0}
        with Recorder() as recorder:
            base = private_scores(Rated(), X, y, **settings)._label_tables
        outcomes = [call.outcome for call in recorder.calls]
        moves, variances = [], []
        for measurement, outcome in enumerate(outcomes):
            for cell in range(outcome.size):
                moved = [values.copy() for values in outcomes]
                moved[measurement].flat[cell] += 1
                with Recorder(moved):
                    scores = private_scores(Rated(), X, y, **settings)
                tables = zip(scores._label_tables, base, strict=True)
                moves.append([(table.counts - old.counts).ravel() for table, old in tables])
                variances.append(variance_of(recorder.calls[measurement]))
        moves, variances = np.array(moves), np.array(variances)
        for label, table in enumerate(base):
            u, v = np.random.default_rng(label).normal(size=(2, table.counts.size))
            expected = (moves[:, label] @ u * variances * (moves[:, label] @ v)).sum()
            assert table.covariance(u, v) == pytest.approx(expected)

    def test_a_table_has_the_rows_of_the_confusion_matrix(self):
        scores = self.scores(epsilon=0.5)
        rows = scores._table.counts.sum(1)
        for label, table in enumerate(scores._label_tables):
            assert table.counts[1].sum() == pytest.approx(rows[label])
            assert table.counts.sum() == pytest.approx(len(self.y))
            assert (table.nonnegative >= 0).all()

    def test_a_mean_of_labels_adds_up_noise_in_squares_and_sampling_linearly(self):
        scores = self.scores(epsilon=3.0)
        tables, failure = scores._label_tables, 0.01
        kernel = roc_auc_kernel(tables[0].counts.shape[1])
        mean = LabelMean(kernel, np.full(4, 0.25))
        values = np.array([kernel.value(table) for table in tables])
        ends = np.array([kernel.interval(table, failure) for table in tables])
        exact = np.array([kernel.interval(table.without_noise(), failure) for table in tables])
        sampling, whole = values - exact[:, 0], values - ends[:, 0]
        expected = (sampling.mean()) ** 2 + (whole**2 - sampling**2).sum() / 16
        low, high = mean.interval(tables, failure)
        assert low == pytest.approx(values.mean() - expected**0.5)
        assert high - low < (ends[:, 1] - ends[:, 0]).mean()

    def test_labels_lost_in_noise_leave_nothing_known_of_their_mean(self):
        X, y = labelled_rows(40, np.random.default_rng(5))
        low, high = private_scores(Rated(), X, y, epsilon=0.1, random_state=0).interval("roc_auc")
        assert high - low > 0.9

    def test_noise_averages_out_only_where_intervals_are_not_cut_off(self):
        scores = self.scores(epsilon=0.1)
        areas, mean = (np.array(scores.interval(name)) for name in ("roc_auc_per_class", "roc_auc"))
        assert (areas[:, 1] - areas[:, 0]).min() > 0.9
        assert mean[1] - mean[0] > 0.9

    def test_the_variance_of_estimated_weights(self):
        """Over drawn confusion matrices, of a sum of fixed values weighted by rows of labels."""
        rng, values, n = np.random.default_rng(8), np.array([0.9, 0.6, 0.7]), 2000
        law = np.array([[0.1, 0.02, 0.03], [0.1, 0.3, 0.05], [0.1, 0.1, 0.2]])
        ledger, noise = Quick(rng), Pure(Fraction(1, 10))
        sums, variances = [], []
        for _ in range(4000):
            exact = rng.multinomial(n, law.ravel()).reshape(3, 3)
            confusion = release_contingency_table(exact, n, noise, ledger)
            fractions = confusion.counts.sum(1) / n
            sums.append(values @ fractions)
            variances.append(LabelMean(None, fractions, confusion)._weight_variance(values))
        assert np.var(sums) == pytest.approx(np.mean(variances), rel=0.15)

    def test_the_positive_class(self):
        scores = self.scores()
        curve = scores.interval("roc_curve", pos_label="b")
        assert curve.shape == (len(scores.thresholds_) + 2, 2)
        at = scores.interval("accuracy", threshold=0.5, pos_label="b")
        assert at[0] <= scores.accuracy_at(0.5, "b") <= at[1]
        for ask in (scores.roc_curve, scores.calibration_curve, scores.precision_recall_curve):
            with pytest.raises(ValueError, match="pos_label"):
                ask("z")
        with pytest.raises(ValueError, match=r"\['b'\]; got 'a'"):
            private_scores(Rated(2), self.X[:, :2], np.repeat(["a", "b"], 1000)).roc_curve("a")

    def test_a_display_of_one_label(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        scores = self.scores()
        display = scores.plot(pos_label="b")
        np.testing.assert_array_equal(display.line_.get_xdata(), scores.roc_curve("b")[0])
        assert f"AUC of b {scores.roc_auc_per_class[1]:.3f}" in display.line_.get_label()
        assert "AUC of d" in scores.plot().line_.get_label()
        plt.close("all")


def variance_of(call):
    """Return the variance of the noise of a recorded call."""
    if call.gaussian:
        return float(call.spread) + 1 / 12
    return 0.5 / np.sinh(0.5 / float(call.spread)) ** 2


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("rows", ["one", "one label", "many"])
def test_there_are_always_numbers(rows, epsilon):
    X, y = labelled_rows({"one": 1, "one label": 40, "many": 500}[rows], np.random.default_rng(6))
    y = np.full(len(y), "b") if rows == "one label" else y
    scores = private_scores(Rated(), X, y, epsilon=epsilon, random_state=0)
    numbers_of(scores)
    assert repr(scores).startswith(f"PrivateScores of {len(X)} rows")


def test_chunks_give_what_rows_in_memory_give():
    pa = pytest.importorskip("pyarrow")
    X, y = labelled_rows(300, np.random.default_rng(7))
    table = pa.table({**{f"x{k}": X[:, k] for k in range(4)}, "y": y})
    rows = open_rows(table.to_batches(max_chunksize=70))

    class OfTables(Rated):
        def predict_proba(self, X):
            return np.column_stack([np.asarray(X[f"x{k}"]) for k in range(4)])

        def predict(self, X):
            return super().predict(self.predict_proba(X))

    found = silently(OfTables(), rows.drop("y"), rows["y"])
    assert numbers_of(found) == numbers_of(silently(Rated(), X, y))


@pytest.mark.once
@pytest.mark.parametrize(
    ("concentration", "n", "epsilon"), [((1, 1, 2, 0.5), 2000, 2.0), ((3, 2, 0.1), 4000, 0.5)]
)
def test_coverage(concentration, n, epsilon):
    """Of each metric by itself: the shares of the others in the failure probability are unused."""
    rng, repeats = np.random.default_rng(n), 60
    estimator = Rated(len(concentration))
    X, y = labelled_rows(200_000, rng, concentration)
    areas = np.array([roc_auc_score(y == a, X[:, k]) for k, a in enumerate(estimator.classes_)])
    fractions = np.array([(y == label).mean() for label in estimator.classes_])
    brier = ((X - (y[:, None] == estimator.classes_)) ** 2).sum(1).mean()
    truths = {
        "roc_auc": areas.mean(),
        "roc_auc_weighted": areas @ fractions,
        "roc_auc_per_class": areas,
        "brier": brier,
    }
    held = dict.fromkeys(truths, 0)
    for _ in range(repeats):
        X, y = labelled_rows(n, rng, concentration)
        scores = private_scores(estimator, X, y, epsilon=epsilon, random_state=rng)
        for name, truth in truths.items():
            # the level at which the interval of this metric fails in 5 of 100, if there is one
            level = max(1 - 0.05 * 0.05 / scores._failure(name, 0.95, None), 0.01)
            ends = np.array(scores.interval(name, level)).reshape(-1, 2)
            held[name] += ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()
    for name, covered in held.items():
        n_intervals = np.size(truths[name])
        assert covered >= binom.ppf(FALSE_ALARM, repeats, 1 - 0.06 * n_intervals), name


@pytest.mark.parametrize(("n_labels", "delta"), [(3, 0), (7, 0), (3, 1e-6), (7, 1e-6)])
def test_the_budget_of_the_areas_is_split_well(n_labels, delta):
    """No other division of the budget of own and other rows has less noise in an area."""
    X = np.zeros((1000, n_labels))
    X[np.arange(1000), np.arange(1000) % n_labels] = 1
    estimator = Rated()
    estimator.classes_ = np.arange(n_labels)
    with Recorder() as recorder:
        private_scores(estimator, X, np.arange(1000) % n_labels, delta=delta, random_state=0)
    calls = recorder.calls
    assert [call.outcome.ndim for call in calls] == [1, 1, 2, 2]
    own, other = (variance_of(call) for call in calls[2:])
    power = 1 if delta else 2
    shares = np.linspace(0.01, 0.99, 9801)
    # μ² or ε: the sensitivity, squared or absolute, over the scale of the noise
    costs = 2 / float(calls[2].spread), 2 * (n_labels - 1) / float(calls[3].spread)
    share = costs[0] / sum(costs)

    def noise(part):
        """Noise of an area, with equally many rows of each label."""
        return (
            own * (share / part) ** power
            + other * ((1 - share) / (1 - part)) ** power / (n_labels - 1) ** 2
        )

    assert noise(share) <= 1.001 * noise(shares).min()
