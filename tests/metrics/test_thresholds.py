"""Thresholds with a rate, rates by group, and calibration: all of one release."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, precision_score, recall_score
from sklearn.model_selection import FixedThresholdClassifier

from skpublicdp import PrivacyBudget
from skpublicdp.data import open_rows
from skpublicdp.metrics import make_private_scorer, private_scores
from tests.internals.metrics import OTHER_GROUP, RATES, merge_groups
from tests.kit import Recorder
from tests.metrics.test_metrics import Decided, Predicting, Scored, Silent, silently

PRIVATE_ROWS, PUBLIC_ROWS, SHARE = 5000, 300, 0.1


def rare(n, rng, gap=1.7, share=SHARE):
    """Scores that are the probabilities of a rare label, and labels."""
    is_positive = rng.random(n) < share
    scores = expit(gap * (rng.normal(size=n) + gap * is_positive) - gap**2 / 2 + logit(share))
    return scores[:, None], np.where(is_positive, "yes", "no")


class OfFrame(Scored):
    """Its score is the first column of a frame."""

    def predict_proba(self, X):
        return super().predict_proba(np.asarray(X))

    def predict(self, X):
        return super().predict(np.asarray(X))


def rates_of(x, y, threshold):
    predicted = np.where(x.ravel() > threshold, "yes", "no")
    return (
        recall_score(y, predicted, pos_label="yes"),
        recall_score(y, predicted, pos_label="no"),
        precision_score(y, predicted, pos_label="yes", zero_division=1),
        accuracy_score(y, predicted),
    )


def threshold_with(sensitivity, x, y):
    return np.quantile(x[y == "yes"], 1 - sensitivity)


def values(point):
    return tuple(getattr(point, rate) for rate in RATES)


@pytest.mark.once
@pytest.mark.parametrize("gap", [1.3, 1.8])
def test_the_false_positive_rate_at_a_sensitivity_is_nearly_the_exact_one(gap):
    """And the intervals hold in at least 19 of 20 releases."""
    population, label = rare(200_000, np.random.default_rng(99), gap)
    errors, held = [], 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = rare(PRIVATE_ROWS, rng, gap)
        X_public, _ = rare(PUBLIC_ROWS, rng, gap)
        scores = private_scores(Scored(), x, y, X_public=X_public, random_state=seed)
        point = scores.threshold_for(sensitivity=0.9)
        exact = threshold_with(0.9, x, y)
        errors.append((x[y == "no"] > point.threshold).mean() - (x[y == "no"] > exact).mean())
        true = rates_of(population, label, point.threshold)
        held += all(
            low <= value <= high
            for value, (low, high) in zip(true, point.intervals.values(), strict=True)
        )
    assert np.abs(errors).mean() < 0.03
    assert held >= 19


class TestWithoutNoise:
    rng = np.random.default_rng(0)
    x, y = rare(4000, rng)
    X_public, _ = rare(2000, rng)
    scores = silently(Scored(), x, y, X_public=X_public)

    @pytest.mark.parametrize("rate", RATES[:3])
    @pytest.mark.parametrize("target", [0.3, 0.6])
    def test_the_rate_is_as_asked(self, rate, target):
        point = self.scores.threshold_for(**{rate: target})
        assert getattr(point, rate) >= target - 1e-9
        if rate != "precision":
            assert getattr(point, rate) == pytest.approx(target)
        np.testing.assert_allclose(
            values(point), rates_of(self.x, self.y, point.threshold), atol=0.04
        )

    def test_a_rate_that_no_threshold_has(self):
        with pytest.raises(ValueError, match=r"No threshold has a released precision of 0\.999"):
            self.scores.threshold_for(precision=0.999)

    def test_at_edges_rates_are_exact(self):
        by = np.full(len(self.y), "all")
        scores = silently(
            Scored(), self.x, self.y, X_public=self.X_public, by=by, by_values=["all"]
        )
        for edge in scores.thresholds_:
            found = scores.rates_by_group(edge)["all"]
            np.testing.assert_allclose(values(found), rates_of(self.x, self.y, edge), atol=1e-9)

    def test_inside_a_bin_rates_lie_between_those_of_the_worst_and_of_the_best_case(self):
        by = np.full(len(self.y), "all")
        scores = silently(
            Scored(), self.x, self.y, X_public=self.X_public, by=by, by_values=["all"]
        )
        for threshold in np.linspace(0.02, 0.6, 30):
            point = scores.rates_by_group(threshold)["all"]
            for true, (low, high) in zip(
                rates_of(self.x, self.y, threshold), point.intervals.values(), strict=True
            ):
                assert low <= true <= high

    def test_the_other_class_may_be_the_positive_one(self):
        other = silently(Scored(), self.x, self.y, X_public=self.X_public, pos_label="no")
        point = other.threshold_for(specificity=0.9)
        mine = self.scores.threshold_for(sensitivity=0.9)
        assert point.threshold == pytest.approx(1 - mine.threshold, abs=0.01)
        assert point.sensitivity == pytest.approx(mine.specificity, abs=0.02)

    def test_decision_functions(self):
        x = logit(self.x)
        scores = silently(Decided(), x, self.y, X_public=logit(self.X_public))
        point = scores.threshold_for(sensitivity=0.9)
        np.testing.assert_allclose(values(point), rates_of(x, self.y, point.threshold), atol=0.04)

    def test_without_public_rows_thresholds_are_edges(self):
        scores = silently(Scored(), self.x, self.y, epsilon=4.0)
        for rate in RATES[:2]:
            point = scores.threshold_for(**{rate: 0.8})
            assert np.nextafter(point.threshold, 0) in scores.thresholds_
            assert getattr(point, rate) >= 0.8
            np.testing.assert_allclose(values(point), rates_of(self.x, self.y, point.threshold))
        with pytest.raises(ValueError, match="pass X_public"):
            silently(Scored(), self.x**4, self.y).threshold_for(sensitivity=0.9999)

    @pytest.mark.parametrize("settings", [{}, {"X_public": np.array([[0.4], [0.5], [0.6]] * 50)}])
    def test_scores_that_equal_an_edge(self, settings):
        """Half of the rows have the score 1/2. `FixedThresholdClassifier` compares with >=."""
        rng = np.random.default_rng(5)
        x = rng.choice([0.4, 0.5, 0.6], p=[0.2, 0.5, 0.3], size=4000)[:, None]
        y = np.where(rng.random(4000) < 2 * x.ravel() - 0.6, "yes", "no")
        scores = silently(Scored(), x, y, by=["a"] * 4000, by_values=["a"], epsilon=4.0, **settings)
        for target in (0.2, 0.5, 0.8, 0.95):
            point = scores.threshold_for(specificity=target)
            predicted = np.where(x.ravel() >= point.threshold, "yes", "no")
            for label, rate in (("yes", "sensitivity"), ("no", "specificity")):
                low, high = point.intervals[rate]
                assert low <= recall_score(y, predicted, pos_label=label) <= high
        by_group = scores.rates_by_group(np.nextafter(0.5, 1))["a"]
        assert by_group.threshold == 0.5
        np.testing.assert_allclose(values(by_group), rates_of(x, y, 0.5), atol=0.02)
        low, high = by_group.intervals["sensitivity"]
        assert high - low < 0.2

    def test_more_labels(self):
        class Three:
            classes_ = np.array(["a", "b", "c"])

            def predict_proba(self, X):
                return np.column_stack([1 - X.sum(1), X])

            def predict(self, X):
                return self.classes_[self.predict_proba(X).argmax(1)]

        rng = np.random.default_rng(1)
        X, X_public = rng.dirichlet([5, 1, 1], 3000)[:, 1:], rng.dirichlet([5, 1, 1], 400)[:, 1:]
        draws = rng.random(3000)
        y = np.where(draws < X[:, 0], "b", np.where(draws < X.sum(1), "c", "a"))
        by = rng.choice([0, 1], size=3000)
        scores = silently(Three(), X, y, X_public=X_public, by=by, by_values=[0, 1], pos_label="b")
        point = scores.threshold_for(sensitivity=0.8, pos_label="c")
        assert point.sensitivity == pytest.approx(0.8)
        called = X[:, 1] > point.threshold
        assert called[y == "c"].mean() == pytest.approx(0.8, abs=0.03)
        predicted = Three().predict(X)
        group = scores.rates_by_group()[1]
        own = by == 1
        assert group.threshold is None
        assert group.accuracy == pytest.approx((predicted == y)[own].mean())
        assert group.sensitivity == pytest.approx((predicted == "b")[own & (y == "b")].mean())
        assert group.specificity == pytest.approx((predicted != "b")[own & (y != "b")].mean())
        with pytest.raises(ValueError, match="two labels"):
            scores.rates_by_group(0.3)


class TestBins:
    def test_they_are_fine_where_the_rare_class_is(self):
        rng = np.random.default_rng(3)
        x, y = rare(PRIVATE_ROWS, rng)
        X_public, _ = rare(PUBLIC_ROWS, rng)
        edges = silently(Scored(), x, y, X_public=X_public).thresholds_
        below = np.searchsorted(np.sort(x[y == "yes"].ravel()), edges) / (y == "yes").sum()
        assert np.diff(below).max() < 0.12

    def test_the_order_of_public_rows_and_small_rounding_do_not_matter(self):
        x, y = rare(500, np.random.default_rng(4))
        public = np.random.default_rng(5).random((60, 1)).round(1)
        expected = silently(Scored(), x, y, X_public=public).thresholds_
        moved = public[::-1] * (1 + np.random.default_rng(6).choice([-1e-15, 1e-15], (60, 1)))
        np.testing.assert_allclose(
            silently(Scored(), x, y, X_public=moved).thresholds_, expected, rtol=1e-12
        )
        assert not np.isin(expected, public).any() or set(expected) & set(public.ravel()) <= {0.5}

    @pytest.mark.parametrize("score", [0.0, 0.3, 0.5, 1.0])
    def test_equal_public_scores(self, score):
        x, y = rare(500, np.random.default_rng(4))
        scores = silently(Scored(), x, y, X_public=np.full((9, 1), score))
        np.testing.assert_array_equal(scores.thresholds_, silently(Scored(), x, y).thresholds_)
        assert scores.accuracy == accuracy_score(y, Scored().predict(x))

    @pytest.mark.parametrize("rows", [slice(None), slice(0, 20)])
    def test_private_rows_are_not_public(self, rows):
        x, y = rare(500, np.random.default_rng(4))
        with pytest.raises(ValueError, match="X_public must be other rows than X"):
            private_scores(Scored(), x, y, X_public=x[rows])
        private_scores(Scored(), x[20:], y[20:], X_public=x[:20], random_state=0)

    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
    def test_private_rows_of_frames_are_not_public(self, library):
        x, y = rare(500, np.random.default_rng(4))
        frame = library({"score": x.ravel(), "other": x.ravel()})
        with pytest.raises(ValueError, match="X_public must be other rows than X"):
            private_scores(OfFrame(), frame, y, X_public=frame[:20])
        copied = library({"score": x[:20].ravel().copy(), "other": x[:20].ravel().copy()})
        private_scores(OfFrame(), frame, y, X_public=copied, random_state=0)

    def test_no_public_score(self):
        with pytest.raises(ValueError, match="whose score is a number"):
            private_scores(Scored(), [[0.5]], ["no"], X_public=np.full((3, 1), np.nan))


class TestGroups:
    rng = np.random.default_rng(7)
    x, y = rare(3000, rng, share=0.4)
    X_public, _ = rare(200, rng, share=0.4)
    sex = rng.choice(["F", "M", None], size=3000, p=[0.5, 0.4, 0.1])
    frame = pd.DataFrame({"x": x.ravel(), "sex": sex, "y": y})
    public_frame = pd.DataFrame({"x": X_public.ravel(), "sex": ["M", "F"] * 100})

    def released(self, **settings):
        return silently(Scored(), self.x, self.y, X_public=self.X_public, by=self.sex, **settings)

    def test_rates_are_those_of_the_rows_of_each_group(self):
        scores = self.released(by_values=["F", "M"])
        assert scores.groups_ == ("F", "M", OTHER_GROUP)
        predicted = Scored().predict(self.x)
        for group, point in scores.rates_by_group().items():
            own = self.sex == group if group != OTHER_GROUP else np.equal(self.sex, None)
            assert point.n_rows == pytest.approx(own.sum())
            found = rates_of(self.x[own], self.y[own], 0.5)
            np.testing.assert_allclose(values(point), found)
            assert point.accuracy == pytest.approx((predicted == self.y)[own].mean())

    def test_the_sum_of_the_groups_is_the_release_of_all_rows(self):
        scores, plain = self.released(by_values=["F"]), self.released(by_values=["M"])
        for metric in ("accuracy", "roc_auc", "brier", "balanced_accuracy"):
            assert getattr(scores, metric) == pytest.approx(getattr(plain, metric))
        assert scores.accuracy == accuracy_score(self.y, Scored().predict(self.x))

    def test_a_column_an_array_and_a_stream_are_the_same(self):
        pytest.importorskip("pyarrow")

        class OfFrame(Scored):
            def predict_proba(self, X):
                return super().predict_proba(X[["x"]].to_numpy())

            def predict(self, X):
                return super().predict(X[["x"]].to_numpy())

        rows = open_rows(self.frame)
        counts = []
        for estimator, X, y, settings in (
            (OfFrame(), self.frame[["x", "sex"]], self.y, {"by": "sex"}),
            (
                OfFrame(),
                self.frame[["x", "sex"]],
                self.y,
                {"by": self.sex, "by_values": ["F", "M"]},
            ),
            (OfFrame(), rows.drop("y"), rows["y"], {"by": "sex"}),
        ):
            with Recorder() as recorder:
                private_scores(
                    estimator, X, y, X_public=self.public_frame, random_state=0, **settings
                )
            counts.append([call.exact_input for call in recorder.calls])
        for other in counts[1:]:
            for one, two in zip(counts[0], other, strict=True):
                np.testing.assert_array_equal(one, two)

    def test_a_person_s_rows(self):
        scores = self.released(
            by_values=["F"], groups=np.arange(3000) // 2, max_rows_per_group=1, random_state=0
        )
        assert scores.n_rows_ == 1500
        assert sum(p.n_rows for p in scores.rates_by_group().values()) == pytest.approx(1500)

    def test_the_noise_of_all_rows_is_the_sum_of_the_groups(self):
        scores = private_scores(
            Scored(), self.x, self.y, by=self.sex, by_values=["F", "M"], random_state=0
        )
        table, merged = scores._group_table, merge_groups(scores._group_table, 3)
        rng = np.random.default_rng(0)
        u, v = rng.random((2, merged.counts.size))
        assert merged.covariance(u, v) == pytest.approx(
            table.covariance(np.tile(u, 3), np.tile(v, 3))
        )
        assert merged.fourth_cumulant(u) >= table.fourth_cumulant(np.tile(u, 3))
        np.testing.assert_allclose(merged.counts.sum(), 3000)
        assert (merged.nonnegative >= 0).all()

    @pytest.mark.once
    def test_intervals_hold(self):
        population, label = rare(100_000, np.random.default_rng(98), share=0.4)
        true = rates_of(population, label, 0.2)
        held = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            x, y = rare(4000, rng, share=0.4)
            by = rng.choice(["a", "b"], size=4000, p=[0.8, 0.2])
            scores = private_scores(
                Scored(),
                x,
                y,
                by=by,
                by_values=["a", "b"],
                X_public=self.X_public,
                random_state=seed,
            )
            points = scores.rates_by_group(0.2)
            held += all(
                low <= value <= high
                for group in "ab"
                for value, (low, high) in zip(true, points[group].intervals.values(), strict=True)
            )
        assert held >= 19

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"by": "age"}, "name of a column of X"),
            ({"by_values": ["a"]}, "by_values requires by"),
            ({"by": ["a"] * 3}, "by_values must list"),
            ({"by": ["a"] * 2, "by_values": ["a"]}, "by 2"),
            ({"by": np.array(["a"] * 3), "by_values": [1, 2]}, "never"),
        ],
    )
    def test_refusals(self, settings, sentence):
        budget = PrivacyBudget(1.0)
        with pytest.raises((ValueError, TypeError), match=sentence):
            private_scores(Scored(), np.full((3, 1), 0.3), ["no"] * 3, budget=budget, **settings)
        assert budget.ledger == []

    def test_without_groups(self):
        scores = silently(Predicting(), np.zeros((9, 1)), ["a"] * 9)
        with pytest.raises(AttributeError, match="Pass by to private_scores"):
            scores.rates_by_group()
        assert scores.groups_ == ()


class TestCalibration:
    def test_it_corrects_probabilities_and_is_monotone(self):
        rng = np.random.default_rng(8)
        x, y = rare(8000, rng, share=0.3)
        X_public, _ = rare(400, rng, share=0.3)
        wrong = expit(2.5 * logit(x) + 1)  # overconfident, and too high
        scores = private_scores(
            Scored(), wrong, y, X_public=expit(2.5 * logit(X_public) + 1), random_state=0
        )
        calibrator = scores.calibration()
        grid = calibrator.predict(np.linspace(0, 1, 200))
        assert (np.diff(grid) >= 0).all()
        assert grid.min() >= 0
        assert grid.max() <= 1
        test, label = rare(20_000, rng, share=0.3)
        test_wrong = expit(2.5 * logit(test) + 1).ravel()
        is_yes = label == "yes"
        before, best = brier_score_loss(is_yes, test_wrong), brier_score_loss(is_yes, test.ravel())
        after = brier_score_loss(is_yes, calibrator.predict(test_wrong))
        assert after - best < 0.2 * (before - best)

    def test_of_a_decision_function(self):
        rng = np.random.default_rng(9)
        x, y = rare(4000, rng, share=0.3)
        for X_public in (None, logit(rare(200, rng, share=0.3)[0])):
            scores = silently(Decided(), logit(x), y, epsilon=4.0, X_public=X_public)
            found = scores.calibration().predict(logit(x).ravel())
            assert np.abs(found - x.ravel()).mean() < 0.05


class TestFixedThresholds:
    X = np.random.default_rng(10).normal(size=(3000, 2))
    y = np.where(X[:, 0] + np.random.default_rng(11).normal(size=3000) > 1.2, "ill", "well")
    clf = LogisticRegression().fit(X[:1000], y[:1000])

    @pytest.mark.parametrize("response", ["predict_proba", "decision_function"])
    @pytest.mark.parametrize("pos_label", ["ill", "well"])
    @pytest.mark.parametrize("counted", ["ill", "well"])
    def test_the_threshold_of_the_classifier_is_that_of_the_scores(
        self, response, pos_label, counted
    ):
        threshold = 0.2 if response == "predict_proba" else -1.0
        fixed = FixedThresholdClassifier(
            FrozenEstimator(self.clf),
            threshold=threshold,
            pos_label=pos_label,
            response_method=response,
        ).fit(self.X, self.y)
        scores = silently(
            fixed, self.X[1000:], self.y[1000:], pos_label=counted, response_method=response
        )
        mine = threshold if pos_label == counted else -threshold + (response == "predict_proba")
        assert mine in scores.thresholds_
        assert scores.accuracy_at(mine) == pytest.approx(scores.accuracy)

    def test_the_rates_are_those_of_the_shipped_classifier(self):
        scores = silently(
            self.clf, self.X[1000:], self.y[1000:], pos_label="ill", X_public=self.X[:1000]
        )
        point = scores.threshold_for(sensitivity=0.9)
        shipped = FixedThresholdClassifier(
            FrozenEstimator(self.clf), threshold=point.threshold, pos_label="ill"
        ).fit(self.X[:10], self.y[:10])
        predicted = shipped.predict(self.X[1000:])
        assert recall_score(self.y[1000:], predicted, pos_label="ill") == pytest.approx(
            0.9, abs=0.03
        )


class TestScorers:
    x, y = rare(2000, np.random.default_rng(12))

    def test_the_positive_label_and_the_method(self):
        with Silent():
            expected = make_private_scorer("roc_auc")(Scored(), self.x, self.y)
            for scorer, estimator in (
                (make_private_scorer("roc_auc", pos_label="no"), Scored()),
                (make_private_scorer("roc_auc", response_method="predict_proba"), Scored()),
                (make_private_scorer("roc_auc", pos_label="no"), Decided()),
            ):
                x = self.x if estimator.__class__ is Scored else logit(self.x)
                assert scorer(estimator, x, y_true=self.y) == pytest.approx(expected, abs=0.02)

    def test_refusals(self):
        with pytest.raises(ValueError, match="applies only to the metric roc_auc"):
            make_private_scorer("accuracy", pos_label="no")
        with pytest.raises(ValueError, match="pos_label must be one of"):
            make_private_scorer("roc_auc", pos_label=7)(Scored(), self.x, self.y)
        with pytest.raises(ValueError, match="sample_weight must be None"):
            make_private_scorer("accuracy")(Scored(), self.x, self.y, sample_weight=self.x)
        scorer = make_private_scorer("roc_auc", response_method="decision_function")
        with pytest.raises(ValueError, match="and decision_function; got Scored"):
            scorer(Scored(), self.x, self.y)


@pytest.mark.parametrize(
    "rates", [{}, {"sensitivity": 0.9, "specificity": 0.9}, {"precision": 0}, {"sensitivity": 1.0}]
)
def test_rates_that_cannot_be_asked(rates):
    scores = silently(Scored(), np.full((30, 1), 0.3), ["no"] * 30)
    with pytest.raises(ValueError, match="threshold_for"):
        scores.threshold_for(**rates)


def test_the_repr_of_a_point():
    x, y = rare(500, np.random.default_rng(13))
    scores = silently(Scored(), x, y, X_public=x.copy())
    text = repr(scores.threshold_for(sensitivity=0.9))
    assert "sensitivity 0.900" in text
