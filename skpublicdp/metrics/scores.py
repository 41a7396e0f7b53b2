"""PrivateScores: every metric of one release, each with its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import validate_parameter_constraints

from skpublicdp._internal.parameters import PROBABILITY
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.metrics.estimates import (
    Ratios,
    balance,
    bins,
    observed,
    precisions,
    ranking,
    rates,
    recalls,
    right_shares,
    shares_of_all,
    squared_errors,
)
from skpublicdp.metrics.noisy_counts import NoisyCount, NoisyTable
from skpublicdp.metrics.score_bins import Cells
from skpublicdp.metrics.score_intervals import share_interval

Floats = NDArray[np.float64]

SHARES = {"accuracy": 0.6, "roc_auc": 0.32, "balanced_accuracy": 0.02, "brier": 0.02}
"""Of how often some interval may fail; all others have the rest together."""

OTHERS = 0.04


class PrivateScores:
    """What one private release says of an estimator: metrics and intervals, in any number.

    `private_scores` makes it. Nothing in it is private: it holds noisy counts. Values are those of
    the population that the test rows were drawn from, estimated; rows of one class, or few rows,
    give wide intervals and no errors.

    Attributes
    ----------
    classes_ : ndarray
        The labels, as the estimator knows them.
    metrics_ : tuple of str
        What `interval` may be asked for. For two classes and an estimator with scores: "accuracy",
        "balanced_accuracy", "confusion_matrix", "roc_auc", "roc_curve", "precision_recall_curve"
        and, where the scores are probabilities, "brier" and "calibration_curve". For two classes or
        more without scores: the first three.
    thresholds_ : ndarray
        Scores at which curves are known: edges of the cells, increasing.
    n_rows_ : int
        How many rows were scored.
    privacy_ : PrivacyReceipt
        What was spent.

    See Also
    --------
    private_scores : Makes it.
    """

    def __init__(
        self,
        *,
        classes: list[Any],
        positive: int,
        cells: Cells | None,
        count: NoisyCount,
        table: NoisyTable | None,
        privacy: PrivacyReceipt,
    ) -> None:
        self.classes_ = np.array(classes)
        self.n_rows_ = count.n
        self.privacy_ = privacy
        self.thresholds_ = np.empty(0)
        self._positive, self._cells, self._count, self._table = positive, cells, count, table
        names = ["accuracy"]
        if table is not None:
            names += ["balanced_accuracy", "confusion_matrix"]
        if cells is not None and cells.size > 2:
            names += ["roc_auc", "roc_curve", "precision_recall_curve"]
            self.thresholds_ = cells.edges.copy()
            if cells.centers is not None:
                names += ["brier", "calibration_curve"]
        self.metrics_ = tuple(names)

    @property
    def accuracy(self) -> float:
        """Share of rows that `predict` is right about."""
        return self._count.likely / self._count.n

    @property
    def balanced_accuracy(self) -> float:
        """Mean over classes of the share of right predictions."""
        table = self._need("balanced_accuracy")
        if self._cells is None:
            return float(recalls(len(self.classes_)).value(table).mean())
        return balance(self._cells).value(table)

    @property
    def confusion_matrix(self) -> Floats:
        """Estimated number of rows of each class (row) that are predicted each label (column)."""
        table = self._need("confusion_matrix")
        return self.n_rows_ * self._oriented(self._entries().value(table))

    @property
    def roc_auc(self) -> float:
        """Area under the ROC curve; scores in one cell are ties."""
        table = self._need("roc_auc")
        return ranking(table.likely.shape[1]).value(table)

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities, those in a cell taken as its middle."""
        return float(self._ratios("brier").value(self._need("brier"), unbiased=True))

    def accuracy_at(self, threshold: float) -> float:
        """Return the accuracy if scores above a threshold were called positive.

        Parameters
        ----------
        threshold : float
            The nearest of `thresholds_` is taken.

        Returns
        -------
        float
            Estimate; its interval is ``interval("accuracy", threshold=...)``.
        """
        table = self._need("roc_curve")
        return float(right_shares(table.likely.shape[1]).value(table)[self._nearest(threshold)])

    def roc_curve(self) -> tuple[Floats, Floats, Floats]:
        """Return the ROC curve as scikit-learn's `roc_curve` does.

        Returns
        -------
        fpr, tpr, thresholds : ndarray of shape (n_thresholds + 1,)
            False and true positive rates if scores above each threshold are called positive;
            thresholds decrease from infinity.
        """
        false, true = self._ratios("roc_curve").value(self._need("roc_curve"))
        return (
            np.concatenate([[0.0], false[::-1], [1.0]]),
            np.concatenate([[0.0], true[::-1], [1.0]]),
            np.concatenate([[np.inf], self.thresholds_[::-1], [-np.inf]]),
        )

    def precision_recall_curve(self) -> tuple[Floats, Floats, Floats]:
        """Return precision and recall as scikit-learn's `precision_recall_curve` does.

        Returns
        -------
        precision, recall : ndarray of shape (n_thresholds + 1,)
            At each threshold; the last are 1 and 0.
        thresholds : ndarray of shape (n_thresholds,)
            Increasing; scores above are called positive.
        """
        table = self._need("precision_recall_curve")
        precision = self._ratios("precision_recall_curve").value(table)
        recall = self._ratios("roc_curve").value(table)[1]
        return np.append(precision, 1.0), np.append(recall, 0.0), self.thresholds_.copy()

    def calibration_curve(self) -> tuple[Floats, Floats]:
        """Return how often rows are positive, and how often they are said to be.

        Returns
        -------
        prob_true, prob_pred : ndarray of shape (n_bins,)
            Of up to eight bins of cells.
        """
        table = self._need("calibration_curve")
        return self._ratios("calibration_curve").value(table), self._predicted()

    def interval(self, metric: str, level: float = 0.95, *, threshold: float | None = None) -> Any:
        """Return where a metric of the population lies.

        All intervals of one release, of all metrics and of all points of curves, hold at once with
        probability `level`, over the choice of the test rows and the noise. Three fifths of what
        may fail are given to the accuracy, a third to the area under the curve and the rest to
        everything else.

        Parameters
        ----------
        metric : str
            One of `metrics_`.
        level : float, default=0.95
            In (0, 1).
        threshold : float, default=None
            With "accuracy": that of `accuracy_at`.

        Returns
        -------
        tuple of float or ndarray
            Two ends. Of a matrix or a curve, an array with one more axis of length 2: for each
            entry of the confusion matrix; for the true positive rate at each false positive rate
            of `roc_curve`; for each precision of `precision_recall_curve` but the last; for each
            `prob_true` of `calibration_curve`.

        Raises
        ------
        ValueError
            If there is no such metric or the level is no probability.
        """
        if metric not in self.metrics_:
            raise ValueError(f"metric must be one of {list(self.metrics_)}; got {metric!r}.")
        validate_parameter_constraints(
            {"level": PROBABILITY}, {"level": level}, caller_name="interval"
        )
        if threshold is not None and metric != "accuracy":
            raise ValueError(f"threshold goes with metric='accuracy'; got {metric!r}.")
        offered = sum(share for name, share in SHARES.items() if name in self.metrics_)
        failure = (1 - level) / (offered + (OTHERS if self._table is not None else 0))
        if metric == "accuracy" and threshold is None:
            return share_interval(self._count, failure * SHARES["accuracy"])
        table = self._need("roc_curve" if threshold is not None else metric)
        single = failure * SHARES.get(metric, OTHERS) / self._how_many(metric, threshold)
        if threshold is not None:
            ends = right_shares(table.likely.shape[1]).interval(table, single)
            return _wide(ends[self._nearest(threshold)], self.accuracy_at(threshold))
        if metric == "roc_curve":
            return self._roc_band(table, single)
        if metric == "confusion_matrix":
            return self.n_rows_ * self._oriented(self._entries().interval(table, single))
        if metric == "roc_auc":
            return _wide(ranking(table.likely.shape[1]).interval(table, single), self.roc_auc)
        if metric == "balanced_accuracy":
            if self._cells is None:
                ends = recalls(len(self.classes_)).interval(table, single).mean(0)
            else:
                ends = balance(self._cells).interval(table, single)
            return _wide(ends, self.balanced_accuracy)
        ratios = self._ratios(metric)
        value = ratios.value(table, unbiased=metric == "brier")
        ends = ratios.interval(table, single)
        ends = np.stack([np.minimum(ends[..., 0], value), np.maximum(ends[..., 1], value)], axis=-1)
        return (float(ends[0]), float(ends[1])) if ends.ndim == 1 else ends

    def plot(self, ax: Any = None) -> Any:
        """Draw the ROC curve with a band in which it lies.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        plotting.ScoresDisplay
            The picture.
        """
        self._need("roc_curve")
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

    def _need(self, metric: str) -> NoisyTable:
        if metric not in self.metrics_ or self._table is None:
            raise AttributeError(
                f"{metric} is not in this release; it has {', '.join(self.metrics_)}: curves need "
                "two classes and an estimator with scores, and Brier scores probabilities."
            )
        return self._table

    def _ratios(self, metric: str) -> Ratios:
        cells = self._cells
        assert cells is not None
        if metric == "roc_curve":
            return rates(cells.size)
        if metric == "precision_recall_curve":
            return precisions(cells.size)
        self._need(metric)
        if metric == "brier":
            assert cells.centers is not None
            return squared_errors(cells.centers)
        return observed(cells.size, self._predicted())

    def _predicted(self) -> Floats:
        """Return the mean probability of each bin; of its cells where it is empty."""
        assert self._cells is not None
        assert self._cells.centers is not None
        table, inside = self._need("calibration_curve"), bins(self._cells.size)
        weights = inside * table.likely.sum(0)
        empty = weights.sum(1) == 0
        weights[empty] = inside[empty]
        return np.asarray(weights @ self._cells.centers / weights.sum(1))

    def _entries(self) -> Ratios:
        return shares_of_all(len(self.classes_), self._cells)

    def _oriented(self, entries: Floats) -> Floats:
        """Order a confusion matrix by `classes_`."""
        return entries if self._positive or self._cells is None else entries[::-1, ::-1]

    def _nearest(self, threshold: float) -> int:
        return int(np.argmin(np.abs(self.thresholds_ - threshold)))

    def _how_many(self, metric: str, threshold: float | None) -> int:
        """Return among how many intervals a part of what may fail is shared."""
        if threshold is None and metric in ("roc_auc", "brier"):
            return 1
        if metric == "balanced_accuracy":
            return len(self.classes_) if self._cells is None else 1
        entries = len(self.classes_) ** 2
        if self._cells is None:
            return entries
        return entries + 4 * (self._cells.size - 1) + len(bins(self._cells.size))

    def _roc_band(self, table: NoisyTable, single: float) -> Floats:
        """Bound the true positive rate at each false positive rate, by monotony."""
        ends = self._ratios("roc_curve").interval(table, single)
        (low_fpr, high_fpr), (low_tpr, high_tpr) = ends[0].T, ends[1].T
        fpr, tpr, _ = self.roc_curve()
        low = np.where(high_fpr <= fpr[:, None], low_tpr, 0.0).max(1)
        high = np.where(low_fpr >= fpr[:, None], high_tpr, 1.0).min(1)
        return np.stack([np.minimum(low, tpr), np.maximum(high, tpr)], axis=1)


def _wide(ends: Floats, value: float) -> tuple[float, float]:
    """Return ends that have the value between them."""
    return min(float(ends[0]), value), max(float(ends[1]), value)
