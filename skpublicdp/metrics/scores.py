"""`PrivateScores`: all metrics of one release, with simultaneous confidence intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpublicdp._internal.parameters import PROBABILITY, check_values
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.metrics.estimates import (
    Statistic,
    accuracies,
    balanced_accuracy_statistic,
    brier_scores,
    calibration,
    calibration_bins,
    confusion_shares,
    precisions,
    roc_auc_kernel,
    roc_rates,
)
from skpublicdp.metrics.noisy_counts import NoisyCount, NoisyTable
from skpublicdp.metrics.score_bins import ScoreBins
from skpublicdp.metrics.score_intervals import extend_interval, share_interval
from skpublicdp.typing import Floats

FAILURE_SHARES = {"accuracy": 0.6, "roc_auc": 0.32, "balanced_accuracy": 0.02, "brier": 0.02}
"""Share of the total failure probability 1 - level that the interval of each metric may use."""

OTHER_FAILURE_SHARE = 0.04
"""Share that all entries of the confusion matrix and all points of curves use together."""


class PrivateScores:
    """Metrics of a classifier and their intervals, computed from one private release.

    `private_scores` returns it. It holds noisy counts only, so further metrics are
    post-processing and cost no ε. Values are estimates for the population of the scored rows. Few
    rows, or rows of one class, give wide intervals and no errors.

    Attributes
    ----------
    classes_ : ndarray
        The labels of the estimator.
    metrics_ : tuple of str
        Metrics that `interval` accepts. For two classes and an estimator with scores: "accuracy",
        "balanced_accuracy", "confusion_matrix", "roc_auc", "roc_curve", "precision_recall_curve"
        and, if the scores are probabilities, "brier" and "calibration_curve". Otherwise the first
        three, or "accuracy" alone for a single class.
    thresholds_ : ndarray
        Thresholds of the curves: edges of the score bins, increasing.
    n_rows_ : int
        Number of scored rows.
    privacy_ : PrivacyReceipt
        Receipt of the release.

    See Also
    --------
    private_scores : Releases the counts.
    """

    def __init__(
        self,
        *,
        classes: list[Any],
        positive: int,
        score_bins: ScoreBins | None,
        count: NoisyCount,
        table: NoisyTable | None,
        privacy: PrivacyReceipt,
    ) -> None:
        self.classes_ = np.array(classes)
        self.n_rows_ = count.n
        self.privacy_ = privacy
        self.thresholds_ = np.empty(0)
        self._positive = positive
        self._score_bins = score_bins
        self._count = count
        self._table = table
        names = ["accuracy"]
        if table is not None:
            names += ["balanced_accuracy", "confusion_matrix"]
        if score_bins is not None and score_bins.n_bins > 2:  # two bins are the predicted labels
            names += ["roc_auc", "roc_curve", "precision_recall_curve"]
            self.thresholds_ = score_bins.edges.copy()
            if score_bins.centers is not None:
                names += ["brier", "calibration_curve"]
        self.metrics_ = tuple(names)

    @property
    def accuracy(self) -> float:
        """Fraction of rows that `predict` labels correctly."""
        return self._count.clipped / self._count.n

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
        """Area under the ROC curve. Scores in one bin count as ties."""
        return float(self._value("roc_auc"))

    @property
    def brier(self) -> float:
        """Brier score, with each probability replaced by the center of its bin."""
        return float(self._value("brier"))

    def accuracy_at(self, threshold: float) -> float:
        """Return the accuracy of predicting the positive class above a threshold.

        Parameters
        ----------
        threshold : float
            Decision threshold. It is replaced by the nearest of `thresholds_`.

        Returns
        -------
        float
            Estimated accuracy. Its interval is ``interval("accuracy", threshold=...)``.
        """
        table = self._table_for("roc_curve")
        values = accuracies(table.nonnegative.shape[1]).value(table)
        return float(values[self._nearest_edge(threshold)])

    def roc_curve(self) -> tuple[Floats, Floats, Floats]:
        """Return the ROC curve as scikit-learn's `roc_curve` does.

        Returns
        -------
        fpr, tpr, thresholds : ndarray of shape (n_thresholds + 1,)
            False and true positive rates at each threshold. Thresholds decrease from infinity.
        """
        fpr, tpr = self._value("roc_curve")
        return (
            np.concatenate([[0.0], fpr[::-1], [1.0]]),
            np.concatenate([[0.0], tpr[::-1], [1.0]]),
            np.concatenate([[np.inf], self.thresholds_[::-1], [-np.inf]]),
        )

    def precision_recall_curve(self) -> tuple[Floats, Floats, Floats]:
        """Return precision and recall as scikit-learn's `precision_recall_curve` does.

        Returns
        -------
        precision, recall : ndarray of shape (n_thresholds + 1,)
            Values at each threshold, followed by 1 and 0.
        thresholds : ndarray of shape (n_thresholds,)
            Increasing. Scores above a threshold are predicted positive.
        """
        precision, recall = self._value("precision_recall_curve"), self._value("roc_curve")[1]
        return np.append(precision, 1.0), np.append(recall, 0.0), self.thresholds_.copy()

    def calibration_curve(self) -> tuple[Floats, Floats]:
        """Return the calibration curve as scikit-learn's `calibration_curve` does.

        Returns
        -------
        prob_true, prob_pred : ndarray of shape (n_bins,)
            Fraction of positive rows and mean predicted probability in up to eight bins.
        """
        return self._value("calibration_curve"), self._mean_predictions()

    def interval(self, metric: str, level: float = 0.95, *, threshold: float | None = None) -> Any:
        """Return the confidence interval of a metric in the population.

        All intervals of one release, for all metrics and all points of curves, hold simultaneously
        with probability `level`, over the sampling of the test rows and the noise. Three fifths of
        the failure probability are for the accuracy, a third is for the area under the ROC curve,
        and the rest for all other intervals.

        Parameters
        ----------
        metric : str
            One of `metrics_`.
        level : float, default=0.95
            Probability, in (0, 1), that all intervals of the release hold.
        threshold : float, default=None
            With "accuracy": the threshold of `accuracy_at`.

        Returns
        -------
        tuple of float or ndarray
            Two ends. For a matrix or a curve, an array with one more axis of length 2: for each
            entry of the confusion matrix, for the true positive rate at each false positive rate
            of `roc_curve`, for each precision of `precision_recall_curve` but the last, or for
            each `prob_true` of `calibration_curve`.

        Raises
        ------
        ValueError
            If the metric is unknown or the level is not in (0, 1).
        """
        if metric not in self.metrics_:
            raise ValueError(f"metric must be one of {list(self.metrics_)}; got {metric!r}.")
        check_values({"level": PROBABILITY}, {"level": level}, caller="interval")
        if threshold is not None and metric != "accuracy":
            raise ValueError(f"threshold requires metric='accuracy'; got {metric!r}.")
        failure = self._failure(metric, level, threshold)
        if threshold is not None:
            intervals = accuracies(len(self.thresholds_) + 1).interval(
                self._table_for("roc_curve"), failure
            )
            interval = intervals[self._nearest_edge(threshold)]
            return extend_interval(interval, self.accuracy_at(threshold))
        if metric == "accuracy":
            return share_interval(self._count, failure)
        intervals = self._statistic(metric).interval(self._table_for(metric), failure)
        if metric == "roc_curve":
            return self._roc_band(intervals)
        if metric == "confusion_matrix":
            return self.n_rows_ * self._in_class_order(intervals)
        return extend_interval(intervals, self._value(metric))

    def plot(self, ax: Any = None) -> Any:
        """Draw the ROC curve with its confidence band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw into. The default is a new figure.

        Returns
        -------
        plotting.ScoresDisplay
            The display.
        """
        self._table_for("roc_curve")
        from skpublicdp import plotting  # matplotlib is optional

        display: Any = plotting.ScoresDisplay
        return display.from_scores(self, ax=ax)

    def __repr__(self) -> str:
        lines = [f"PrivateScores of {self.n_rows_} rows, epsilon = {self.privacy_.epsilon:g}"]
        for name in ("accuracy", "balanced_accuracy", "roc_auc", "brier"):
            if name in self.metrics_:
                low, high = self.interval(name)
                lines.append(f"  {name:<18}{getattr(self, name):.3f}  [{low:.3f}, {high:.3f}]")
        return "\n".join(lines)

    def _table_for(self, metric: str) -> NoisyTable:
        """Return the noisy table that a metric needs, or raise AttributeError without it."""
        if metric not in self.metrics_ or self._table is None:
            raise AttributeError(
                f"{metric} is not in this release; it has {', '.join(self.metrics_)}: curves need "
                "two classes and an estimator with scores, and Brier scores probabilities."
            )
        return self._table

    def _value(self, metric: str) -> Any:
        """Return the estimate of a metric, or raise AttributeError if the release has none."""
        table = self._table_for(metric)
        return self._statistic(metric).value(table)

    def _statistic(self, metric: str) -> Statistic:
        """Return the statistic of the noisy table that estimates a metric."""
        n_labels, score_bins = len(self.classes_), self._score_bins
        if metric == "balanced_accuracy":
            return balanced_accuracy_statistic(n_labels, score_bins)
        if metric == "confusion_matrix":
            return confusion_shares(n_labels, score_bins)
        assert score_bins is not None
        if metric == "roc_auc":
            return roc_auc_kernel(score_bins.n_bins)
        if metric == "roc_curve":
            return roc_rates(score_bins.n_bins)
        if metric == "precision_recall_curve":
            return precisions(score_bins.n_bins)
        if metric == "calibration_curve":
            return calibration(score_bins.n_bins, self._mean_predictions())
        assert score_bins.centers is not None
        return brier_scores(score_bins.centers)

    def _mean_predictions(self) -> Floats:
        """Return the mean predicted probability of each calibration bin.

        An empty bin gets the mean of its bin centers.
        """
        assert self._score_bins is not None
        assert self._score_bins.centers is not None
        table = self._table_for("calibration_curve")
        is_member = calibration_bins(self._score_bins.n_bins)
        weights = is_member * table.nonnegative.sum(0)
        is_empty = weights.sum(1) == 0
        weights[is_empty] = is_member[is_empty]
        return np.asarray(weights @ self._score_bins.centers / weights.sum(1))

    def _in_class_order(self, entries: Floats) -> Floats:
        """Return a confusion matrix in the order of `classes_`.

        Tables of two labels have the negative class first, which may be the second of `classes_`.
        """
        is_reversed = self._score_bins is not None and self._positive == 0
        return entries[::-1, ::-1] if is_reversed else entries

    def _nearest_edge(self, threshold: float) -> int:
        """Return the index of the element of `thresholds_` nearest to a threshold."""
        return int(np.argmin(np.abs(self.thresholds_ - threshold)))

    def _failure(self, metric: str, level: float, threshold: float | None) -> float:
        """Return the failure probability of each interval of a metric.

        The shares of the metrics that this release has are scaled up to add to 1. All entries and
        points of the metrics without a share of their own have equal parts of the rest.
        """
        share_of_release = sum(
            share for name, share in FAILURE_SHARES.items() if name in self.metrics_
        )
        share_of_release += OTHER_FAILURE_SHARE if self._table is not None else 0
        release_failure = (1 - level) / share_of_release
        if metric in FAILURE_SHARES and threshold is None:
            return release_failure * FAILURE_SHARES[metric]
        n_intervals = len(self.classes_) ** 2
        if self._score_bins is not None:
            n_bins = self._score_bins.n_bins
            # at each threshold: accuracy, precision, and two rates of the ROC curve
            n_intervals += 4 * (n_bins - 1) + len(calibration_bins(n_bins))
        return release_failure * OTHER_FAILURE_SHARE / n_intervals

    def _roc_band(self, intervals: Floats) -> Floats:
        """Return a confidence band of the true positive rate at each false positive rate.

        `intervals` are those of false and of true positive rates, shape (2, n_thresholds, 2).

        The ROC curve is monotone. At a false positive rate f, it is at least the lower end of the
        true positive rate at every threshold whose false positive rate is at most f, by the upper
        end of its interval. The upper band is symmetric.
        """
        (low_fpr, high_fpr), (low_tpr, high_tpr) = intervals.swapaxes(1, 2)
        fpr, tpr, _ = self.roc_curve()
        low = np.where(high_fpr <= fpr[:, None], low_tpr, 0.0).max(1)
        high = np.where(low_fpr >= fpr[:, None], high_tpr, 1.0).min(1)
        return np.stack([np.minimum(low, tpr), np.maximum(high, tpr)], axis=1)
