"""`PrivateScores`: all metrics from one release, with simultaneous confidence intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from skpublicdp._internal.parameters import PROBABILITY, check_values
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.metrics.counts import ScoreBins
from skpublicdp.metrics.estimates import (
    LabelMean,
    RatioMetrics,
    Statistic,
    accuracies,
    balanced_accuracy_statistic,
    calibration,
    calibration_bins,
    confusion_shares,
    precisions,
    roc_auc_kernel,
    roc_rates,
)
from skpublicdp.metrics.noisy_counts import NoisyCount, NoisyTable
from skpublicdp.metrics.operating_points import (
    RATES,
    OperatingPoint,
    find_threshold,
    n_simultaneous,
    operating_point,
    predicted_rates,
    rates_at,
)
from skpublicdp.metrics.residual_metrics import (
    RESIDUAL_METRICS,
    NoisySums,
    residual_interval,
    residual_value,
)
from skpublicdp.metrics.score_intervals import extend_interval, share_interval
from skpublicdp.typing import Floats

FAILURE_SHARES = {"accuracy": 0.6, "roc_auc": 0.32, "balanced_accuracy": 0.02, "brier": 0.02}
RESIDUAL_FAILURE_SHARES = {"r2": 0.4, "rmse": 0.3, "mae": 0.3}
"""Share of the total failure probability 1 - level assigned to the interval of each metric."""

LABEL_FAILURE_SHARES = FAILURE_SHARES | {
    "roc_auc": 0.16,
    "roc_auc_weighted": 0.04,
    "roc_auc_per_class": 0.12,
}
"""The corresponding shares if there are more than two labels.

The areas of all labels receive equal parts of their share."""

OTHER_FAILURE_SHARE = 0.04
"""Share assigned jointly to all entries of the confusion matrix and all points of curves."""

TABLE_METRICS = {"balanced_accuracy", "confusion_matrix"}
"""Metrics computed from the table of all labels.

If there are more than two labels, each label has its own table for its curves."""

LABEL_MEANS = {"roc_auc": 1, "roc_auc_weighted": 1, "roc_auc_per_class": 1, "brier": 2}
"""Metrics that combine the tables of more than two labels, and their maximum values."""


class PrivateScores:
    """Metrics of a classifier or regressor, with intervals, computed from one private release.

    Instances are returned by `private_scores`. The object contains only noisy counts or sums, so
    further metrics are post-processing and cost no ε. Values are estimates for the population from
    which the scored rows were drawn. If there are few rows, or rows of only one class, the
    intervals are wide and no error is raised.

    Attributes
    ----------
    classes_ : ndarray
        The labels of the estimator. The array is empty for a regressor.
    pos_label_ : label or None
        The positive class of the curves.
    outcome_bounds_ : tuple of float, or None
        Bounds to which outcomes and predictions of a regressor are clipped.
    metrics_ : tuple of str
        Metrics that `interval` accepts. For an estimator with scores: "accuracy",
        "balanced_accuracy", "confusion_matrix", "roc_auc", "roc_curve", "precision_recall_curve"
        and, if the scores are probabilities, "brier" and "calibration_curve". With more than two
        classes, "roc_auc_weighted" and "roc_auc_per_class" are also available. Without scores, only
        the first three metrics are available, or only "accuracy" for a single class. For a
        regressor, the metrics are "r2", "rmse" and "mae".
    thresholds_ : ndarray
        Thresholds of the curves: the edges of the score bins, in increasing order.
    groups_ : tuple
        Values of `by`, followed by "(other)" for all other values. Empty without `by`.
    n_rows_ : int
        Number of scored rows.
    privacy_ : PrivacyReceipt
        Privacy receipt of the release.

    See Also
    --------
    private_scores : Releases the counts.
    """

    def __init__(
        self,
        *,
        n_rows: int,
        privacy: PrivacyReceipt,
        classes: tuple[Any, ...] = (),
        positive: int = 0,
        score_bins: ScoreBins | None = None,
        count: NoisyCount | None = None,
        table: NoisyTable | None = None,
        label_tables: tuple[NoisyTable, ...] = (),
        sums: NoisySums | None = None,
        group_table: NoisyTable | None = None,
        groups: tuple[Any, ...] = (),
    ) -> None:
        self.classes_ = np.array(classes)
        self.pos_label_ = classes[positive] if classes else None
        self.outcome_bounds_ = None if sums is None else sums.bounds
        self.n_rows_ = n_rows
        self.privacy_ = privacy
        self.thresholds_ = np.empty(0)
        self._positive = positive
        self._score_bins = score_bins
        self._count = count
        self._table = table
        self._label_tables = label_tables
        self._sums = sums
        self._group_table = group_table
        self.groups_ = groups
        names = ["accuracy"] if count is not None else list(RESIDUAL_METRICS)
        if table is not None:
            names += ["balanced_accuracy", "confusion_matrix"]
        if score_bins is not None and score_bins.n_bins > 2:  # two bins are the predicted labels
            names += ["roc_auc", "roc_curve", "precision_recall_curve"]
            if label_tables:
                names += ["roc_auc_weighted", "roc_auc_per_class"]
            self.thresholds_ = score_bins.edges.copy()
            if score_bins.centers is not None:
                names += ["brier", "calibration_curve"]
        self.metrics_ = tuple(names)

    @property
    def accuracy(self) -> float:
        """Fraction of rows for which `predict` returns the correct label."""
        return self._count_for("accuracy").clipped / self.n_rows_

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the classes."""
        return float(self._value("balanced_accuracy"))

    @property
    def confusion_matrix(self) -> Floats:
        """Estimated number of rows by true class (row) and predicted class (column)."""
        return self.n_rows_ * self._in_class_order(self._value("confusion_matrix"))

    @property
    def roc_auc(self) -> float:
        """Area under the ROC curve. Scores in the same bin are counted as ties.

        With more than two classes, this is the mean of the one-versus-rest areas of all classes, as
        in scikit-learn's `roc_auc_score` with ``multi_class="ovr"``.
        """
        return float(self._value("roc_auc"))

    @property
    def roc_auc_weighted(self) -> float:
        """Mean of the areas of more than two classes, weighted by their numbers of rows."""
        return float(self._value("roc_auc_weighted"))

    @property
    def roc_auc_per_class(self) -> Floats:
        """One-versus-rest area under the ROC curve of each class, for more than two classes."""
        return np.asarray(self._value("roc_auc_per_class"))

    @property
    def brier(self) -> float:
        """Brier score, with each probability replaced by the center of its bin.

        With more than two classes, the Brier score is the sum over the classes, which is at most 2.
        """
        return float(self._value("brier"))

    @property
    def r2(self) -> float:
        """R², the coefficient of determination, of clipped outcomes and predictions."""
        return residual_value("r2", self._sums_for("r2"))

    @property
    def rmse(self) -> float:
        """Root mean squared error of clipped outcomes and predictions."""
        return residual_value("rmse", self._sums_for("rmse"))

    @property
    def mae(self) -> float:
        """Mean absolute error of clipped outcomes and predictions."""
        return residual_value("mae", self._sums_for("mae"))

    def accuracy_at(self, threshold: float, pos_label: Any = None) -> float:
        """Return the accuracy of predicting the positive class above a threshold.

        Parameters
        ----------
        threshold : float
            Decision threshold. The value in `thresholds_` that is nearest to it is used.
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        float
            Estimated accuracy at the threshold. The corresponding interval is
            ``interval("accuracy", threshold=...)``.
        """
        table = self._table_for("roc_curve", pos_label)
        values = accuracies(table.nonnegative.shape[1]).value(table)
        return float(values[self._nearest_edge(threshold)])

    def roc_curve(self, pos_label: Any = None) -> tuple[Floats, Floats, Floats]:
        """Return the ROC curve in the format of scikit-learn's `roc_curve`.

        Parameters
        ----------
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        fpr, tpr, thresholds : ndarray of shape (n_thresholds + 1,)
            False and true positive rates at each threshold. Thresholds decrease from infinity.
        """
        fpr, tpr = self._value("roc_curve", pos_label)
        fpr = np.concatenate([[0.0], fpr[::-1], [1.0]])
        tpr = np.concatenate([[0.0], tpr[::-1], [1.0]])
        thresholds = np.concatenate([[np.inf], self.thresholds_[::-1], [-np.inf]])
        return fpr, tpr, thresholds

    def precision_recall_curve(self, pos_label: Any = None) -> tuple[Floats, Floats, Floats]:
        """Return precision and recall in the format of scikit-learn's `precision_recall_curve`.

        Parameters
        ----------
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        precision, recall : ndarray of shape (n_thresholds + 1,)
            Precision and recall at each threshold, followed by 1 and 0.
        thresholds : ndarray of shape (n_thresholds,)
            Thresholds in increasing order. Rows with scores above a threshold are predicted
            positive.
        """
        precision = self._value("precision_recall_curve", pos_label)
        recall = self._value("roc_curve", pos_label)[1]
        return np.append(precision, 1.0), np.append(recall, 0.0), self.thresholds_.copy()

    def calibration_curve(self, pos_label: Any = None) -> tuple[Floats, Floats]:
        """Return the calibration curve in the format of scikit-learn's `calibration_curve`.

        Parameters
        ----------
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        prob_true, prob_pred : ndarray of shape (n_bins,)
            The fraction of positive rows and the mean predicted probability, in up to eight bins.
        """
        table = self._table_for("calibration_curve", pos_label)
        return self._value("calibration_curve", pos_label), self._mean_predictions(table)

    def calibration(self, pos_label: Any = None) -> IsotonicRegression:
        """Return a released map from scores to probabilities, at no further privacy cost.

        The map is the isotonic regression of the released fractions of positive rows on the scores.
        Its `predict` corrects scores of new rows: for two labels, the column of `predict_proba` of
        the positive class, or the decision function.

        Parameters
        ----------
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        sklearn.isotonic.IsotonicRegression
            The fitted map, which increases in the score and whose values are in [0, 1].
        """
        table = self._table_for("roc_curve", pos_label)
        assert self._score_bins is not None
        n_rows = np.maximum(table.counts.sum(0), 1.0)
        fractions = table.counts[1] / n_rows  # unbiased, so they may lie outside [0, 1]
        calibrator = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        return calibrator.fit(self._score_bins.positions, fractions, sample_weight=n_rows)

    def threshold_for(
        self,
        *,
        sensitivity: float | None = None,
        specificity: float | None = None,
        precision: float | None = None,
        level: float = 0.95,
        pos_label: Any = None,
    ) -> OperatingPoint:
        """Return the threshold with a given rate, its released rates and their intervals.

        Exactly one rate is given. The result is the largest threshold with this sensitivity, or the
        smallest with this specificity or precision, according to the released counts. If the
        release has public rows (`X_public`), thresholds are interpolated inside the score bins.
        Otherwise, they are the next floats above the elements of `thresholds_`, so that rows whose
        score equals an element are not predicted to be positive.

        The intervals hold simultaneously for all thresholds and labels of the release with
        probability `level`, over the sampling of the test rows and the noise. Therefore they remain
        valid although the threshold is chosen by the same release, and for any number of calls.
        Their failure probability is their own, apart from those of `interval` and of
        `rates_by_group`.

        Parameters
        ----------
        sensitivity, specificity, precision : float, default=None
            Required rate, in (0, 1).
        level : float, default=0.95
            Confidence level, in (0, 1).
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        OperatingPoint
            The threshold and its rates. scikit-learn's `FixedThresholdClassifier` around the fitted
            estimator applies the threshold. It rounds the threshold if scores are float32, and then
            predicts rows whose score equals an element of `thresholds_` to be positive.

        Raises
        ------
        ValueError
            If not exactly one rate is given, or no threshold has it.
        """
        rates = {"sensitivity": sensitivity, "specificity": specificity, "precision": precision}
        given = {name: rate for name, rate in rates.items() if rate is not None}
        if len(given) != 1:
            raise ValueError(
                "threshold_for requires exactly one of sensitivity, specificity and precision; got "
                f"{list(given) or 'none'}."
            )
        constraints = dict.fromkeys([*given, "level"], PROBABILITY)
        check_values(constraints, given | {"level": level}, caller="threshold_for")
        table = self._table_for("roc_curve", pos_label)
        assert self._score_bins is not None
        ((name, target),) = given.items()
        threshold, highest = find_threshold(self._score_bins, table.nonnegative, name, target)
        if threshold is None:
            raise ValueError(
                f"No threshold has a released {name} of {target}: the highest is {highest:.3g}. "
                "Pass a lower value, or pass X_public to private_scores for more thresholds."
            )
        n_intervals = n_simultaneous(len(self.thresholds_)) * max(len(self._label_tables), 1)
        rates_of_table = rates_at(self._score_bins, threshold, np.eye(2))
        # rows whose score equals an edge are counted below it, and scikit-learn predicts rows whose
        # score equals a threshold to be positive
        next_number = float(np.nextafter(threshold, np.inf))
        return operating_point(table, rates_of_table, next_number, level, n_intervals)

    def rates_by_group(
        self, threshold: float | None = None, *, level: float = 0.95, pos_label: Any = None
    ) -> dict[Any, OperatingPoint]:
        """Return the accuracy and the rates in each group of rows, with intervals.

        The groups are those of `by` in `private_scores`. All groups are counted in one release, in
        which each row counts in one cell, so groups have no further privacy cost.

        Parameters
        ----------
        threshold : float, default=None
            Threshold above which rows are predicted to be positive, such as that of
            `threshold_for`. The default is the prediction of the estimator, which must not have
            been chosen by scores of the same rows. With more than two labels, no other is possible.
        level : float, default=0.95
            Probability, in (0, 1), with which the intervals of all groups and rates hold
            simultaneously. If a threshold is given, they also hold simultaneously for all
            thresholds, so it may be chosen by the same release.
        pos_label : label, default=None
            The positive class if there are more than two labels, which is compared with all others.

        Returns
        -------
        dict of OperatingPoint
            The rates and the estimated number of rows of each group, in the order of `groups_`.
        """
        check_values({"level": PROBABILITY}, {"level": level}, caller="rates_by_group")
        if self._group_table is None:
            raise AttributeError(
                "Rates by group were not released. Pass by to private_scores to count each group."
            )
        n_labels, n_groups = len(self.classes_), len(self.groups_)
        pos_label = self._known_label(pos_label, is_each_known=n_labels > 2)
        rows_of_group = np.repeat(np.eye(n_groups), n_labels, axis=1)  # of the released table
        cut = None
        n_intervals = len(RATES) * n_groups
        if n_labels > 2:
            if threshold is not None:
                raise ValueError("threshold requires an estimator with two labels; got more.")
            n_intervals *= n_labels
            position = self.classes_.tolist().index(pos_label)
            rates = [predicted_rates(n_labels, position, rows) for rows in rows_of_group]
        else:
            score_bins = self._score_bins
            assert score_bins is not None
            cut = float(score_bins.edges[score_bins.first_positive - 1])
            if threshold is not None:
                n_intervals = n_groups * n_simultaneous(len(score_bins.edges))
                cut = threshold
                nearest = float(score_bins.edges[self._nearest_edge(threshold)])
                # `threshold_for` returns the next float above an edge
                if score_bins.curve is None or threshold == np.nextafter(nearest, np.inf):
                    cut = nearest
            is_label = np.tile(np.eye(2), n_groups)  # indicator of negatives, and of positives
            rates = [rates_at(score_bins, cut, is_label * rows) for rows in rows_of_group]
        points = [
            operating_point(self._group_table, bounded, cut, level, n_intervals)
            for bounded in rates
        ]
        return dict(zip(self.groups_, points, strict=True))

    def interval(
        self,
        metric: str,
        level: float = 0.95,
        *,
        threshold: float | None = None,
        pos_label: Any = None,
    ) -> Any:
        """Return the confidence interval for the population value of a metric.

        All intervals of one release, for all metrics and all points of curves, simultaneously
        contain the population values with probability `level`, over the sampling of the test rows
        and the noise. Three fifths of the failure probability are assigned to the accuracy, one
        third to the area under the ROC curve, and the rest to all other intervals. For a regressor,
        two fifths are assigned to R² and the rest to the two errors.

        Parameters
        ----------
        metric : str
            One of `metrics_`.
        level : float, default=0.95
            Probability, in (0, 1), with which all intervals of the release contain the population
            values.
        threshold : float, default=None
            The threshold of `accuracy_at`, used with the metric "accuracy".
        pos_label : label, default=None
            The positive class of a curve and of `accuracy_at`. The default is the positive class of
            the release.

        Returns
        -------
        tuple of float or ndarray
            The two ends of the interval. For a matrix or a curve, the result is an array with one
            additional axis of length 2. The array contains one interval for each entry of the
            confusion matrix or class of `roc_auc_per_class`, for the true positive rate at each
            false positive rate of `roc_curve`, for each precision of `precision_recall_curve`
            except the last, or for each `prob_true` of `calibration_curve`.

        Raises
        ------
        ValueError
            If the metric or the label is unknown or the level is not in (0, 1).
        """
        if metric not in self.metrics_:
            raise ValueError(f"metric must be one of {list(self.metrics_)}; got {metric!r}.")
        check_values({"level": PROBABILITY}, {"level": level}, caller="interval")
        if threshold is not None and metric != "accuracy":
            raise ValueError(f"threshold requires metric='accuracy'; got {metric!r}.")
        failure = self._failure(metric, level, threshold)
        if threshold is not None:
            intervals = accuracies(len(self.thresholds_) + 1).interval(
                self._table_for("roc_curve", pos_label), failure
            )
            interval = intervals[self._nearest_edge(threshold)]
            return extend_interval(interval, self.accuracy_at(threshold, pos_label))
        if metric == "accuracy":
            return share_interval(self._count_for(metric), failure)
        if self._sums is not None:
            ends = residual_interval(metric, self._sums, failure)
            return extend_interval(ends, residual_value(metric, self._sums))
        if metric == "roc_auc_per_class":
            return self._label_mean(metric).intervals(self._label_tables, failure)
        if metric in LABEL_MEANS and self._label_tables:
            ends = self._label_mean(metric).interval(self._label_tables, failure)
            return extend_interval(np.clip(ends, 0, LABEL_MEANS[metric]), self._value(metric))
        table = self._table_for(metric, pos_label)
        intervals = self._statistic(metric, table).interval(table, failure)
        if metric == "roc_curve":
            return self._roc_band(intervals, pos_label)
        if metric == "confusion_matrix":
            return self.n_rows_ * self._in_class_order(intervals)
        return extend_interval(intervals, self._value(metric, pos_label))

    def plot(self, ax: Any = None, *, pos_label: Any = None) -> Any:
        """Draw the ROC curve with its confidence band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes in which to draw. The default is a new figure.
        pos_label : label, default=None
            The positive class, which is compared with all other classes. The default is the
            positive class of the release.

        Returns
        -------
        plotting.ScoresDisplay
            The display.
        """
        self._table_for("roc_curve")
        from skpublicdp import plotting  # matplotlib is optional

        display: Any = plotting.ScoresDisplay
        return display.from_scores(self, ax=ax, pos_label=pos_label)

    def __repr__(self) -> str:
        names = ("accuracy", "balanced_accuracy", "roc_auc", "brier", *RESIDUAL_METRICS)
        lines = [f"PrivateScores of {self.n_rows_} rows, epsilon = {self.privacy_.epsilon:g}"]
        for name in names:
            if name in self.metrics_:
                estimate = getattr(self, name)
                low, high = self.interval(name)
                lines.append(f"  {name:<18}{estimate:.3f}  [{low:.3f}, {high:.3f}]")
        return "\n".join(lines)

    def _table_for(self, metric: str, pos_label: Any = None) -> NoisyTable:
        """Return the noisy table required by a metric, or raise AttributeError."""
        if metric not in self.metrics_ or self._table is None:
            raise self._absent(metric)
        if metric in TABLE_METRICS:
            return self._table
        pos_label = self._known_label(pos_label, is_each_known=bool(self._label_tables))
        if not self._label_tables:
            return self._table
        return self._label_tables[self.classes_.tolist().index(pos_label)]

    def _known_label(self, pos_label: Any, *, is_each_known: bool) -> Any:
        """Return the positive label; with two labels, tables are those of one positive label."""
        known = self.classes_.tolist() if is_each_known else [self.pos_label_]
        pos_label = self.pos_label_ if pos_label is None else pos_label
        if pos_label not in known:
            raise ValueError(f"pos_label must be one of the labels {known}; got {pos_label!r}.")
        return pos_label

    def _count_for(self, metric: str) -> NoisyCount:
        """Return the number of correct predictions, or raise AttributeError without a release."""
        if self._count is None:
            raise self._absent(metric)
        return self._count

    def _sums_for(self, metric: str) -> NoisySums:
        """Return the sums of a regressor, or raise AttributeError if they are not released."""
        if self._sums is None:
            raise self._absent(metric)
        return self._sums

    def _absent(self, metric: str) -> AttributeError:
        """Return the error to raise for a metric that the release does not contain."""
        return AttributeError(
            f"{metric} was not released; the metrics of this release are "
            f"{', '.join(self.metrics_)}. Curves require an estimator with scores, Brier scores "
            "require probabilities, and errors require a regressor."
        )

    def _value(self, metric: str, pos_label: Any = None) -> Any:
        """Return the estimate of a metric, or raise AttributeError if it is not available."""
        table = self._table_for(metric, pos_label)
        if metric == "roc_auc_per_class":
            return self._label_mean(metric).values(self._label_tables)
        if metric in LABEL_MEANS and self._label_tables:
            value = self._label_mean(metric).value(self._label_tables)
            return min(value, LABEL_MEANS[metric])
        return self._statistic(metric, table).value(table)

    def _label_mean(self, metric: str) -> LabelMean:
        """Return the weighted sum over more than two labels that estimates a metric."""
        n_labels = len(self.classes_)
        statistic = self._statistic(metric, self._label_tables[0])
        if metric == "roc_auc_weighted":
            assert self._table is not None
            fractions = self._table.nonnegative.sum(1) / self.n_rows_
            return LabelMean(statistic, fractions, self._table)
        return LabelMean(statistic, np.full(n_labels, 1.0 if metric == "brier" else 1 / n_labels))

    def _statistic(self, metric: str, table: NoisyTable) -> Statistic:
        """Return the statistic of a noisy table that estimates a metric."""
        n_labels, score_bins = len(self.classes_), self._score_bins
        table_bins = None if self._label_tables else score_bins
        if metric == "balanced_accuracy":
            return balanced_accuracy_statistic(n_labels, table_bins)
        if metric == "confusion_matrix":
            return confusion_shares(n_labels, table_bins)
        assert score_bins is not None
        if metric.startswith("roc_auc"):
            return roc_auc_kernel(score_bins.n_bins)
        if metric == "roc_curve":
            return roc_rates(score_bins.n_bins)
        if metric == "precision_recall_curve":
            return precisions(score_bins.n_bins)
        if metric == "calibration_curve":
            return calibration(score_bins.n_bins, self._mean_predictions(table))
        assert score_bins.centers is not None
        centers = score_bins.centers  # as the predicted probabilities
        squared_errors = np.stack([centers**2, (1 - centers) ** 2])
        return RatioMetrics(
            squared_errors, np.ones_like(squared_errors), np.array(0.0), unbiased=True
        )

    def _mean_predictions(self, table: NoisyTable) -> Floats:
        """Return the mean predicted probability of each calibration bin of a table.

        For an empty bin, the result is the mean of its bin centres.
        """
        assert self._score_bins is not None
        assert self._score_bins.centers is not None
        is_member = calibration_bins(self._score_bins.n_bins)
        weights = is_member * table.nonnegative.sum(0)
        is_empty = weights.sum(1) == 0
        weights[is_empty] = is_member[is_empty]
        return np.asarray(weights @ self._score_bins.centers / weights.sum(1))

    def _in_class_order(self, entries: Floats) -> Floats:
        """Return a confusion matrix in the order of `classes_`: tables begin with the negative."""
        is_reversed = len(self.classes_) == 2 and self._positive == 0
        return entries[::-1, ::-1] if is_reversed else entries

    def _nearest_edge(self, threshold: float) -> int:
        """Return the index of the element of `thresholds_` nearest to a threshold."""
        return int(np.argmin(np.abs(self.thresholds_ - threshold)))

    def _failure(self, metric: str, level: float, threshold: float | None) -> float:
        """Return the failure probability of each interval of a metric.

        The shares of the metrics that this release contains are scaled up to sum to 1. All entries
        and points of the remaining metrics share the rest of the probability equally.
        """
        if self._sums is not None:
            return (1 - level) * RESIDUAL_FAILURE_SHARES[metric]
        shares = LABEL_FAILURE_SHARES if self._label_tables else FAILURE_SHARES
        share_of_release = sum(share for name, share in shares.items() if name in self.metrics_)
        if self._table is not None:
            share_of_release += OTHER_FAILURE_SHARE
        release_failure = (1 - level) / share_of_release
        if metric in shares and threshold is None:
            n_intervals = len(self.classes_) if metric == "roc_auc_per_class" else 1
            return release_failure * shares[metric] / n_intervals
        n_intervals = len(self.classes_) ** 2
        if self._score_bins is not None:
            n_bins = self._score_bins.n_bins
            n_curves = max(len(self._label_tables), 1)
            # at each threshold: accuracy, precision, and two rates of the ROC curve
            n_points = 4 * (n_bins - 1) + len(calibration_bins(n_bins))
            n_intervals += n_curves * n_points
        return release_failure * OTHER_FAILURE_SHARE / n_intervals

    def _roc_band(self, intervals: Floats, pos_label: Any) -> Floats:
        """Return a confidence band for the true positive rate at each false positive rate.

        The ROC curve is monotone, so at a false positive rate f it is not below the lower limit at
        any threshold whose false positive rate is at most f, by the upper end of its interval.
        """
        (low_fpr, high_fpr), (low_tpr, high_tpr) = intervals.swapaxes(1, 2)
        fpr, tpr, _ = self.roc_curve(pos_label)
        low = np.where(high_fpr <= fpr[:, None], low_tpr, 0.0).max(1)
        high = np.where(low_fpr >= fpr[:, None], high_tpr, 1.0).min(1)
        return np.stack([np.minimum(low, tpr), np.maximum(high, tpr)], axis=1)
