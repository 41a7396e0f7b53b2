"""Private metrics computed from arrays of labels and predictions, each with an interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from skpublicdp._internal.parameters import PROBABILITY
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.metrics.counts import PREDICTED_LABEL_BINS, make_score_bins
from skpublicdp.metrics.estimates import (
    Statistic,
    balanced_accuracy_statistic,
    confusion_shares,
    roc_auc_kernel,
)
from skpublicdp.metrics.label_tables import (
    call_estimator,
    check_label_kinds,
    check_lengths,
    contingency_table,
    label_codes,
    labels_agree,
    public_labels,
    score_column,
    unknown_as_error,
)
from skpublicdp.metrics.noisy_counts import (
    COUNT_SENSITIVITY,
    TABLE_SENSITIVITY,
    NoisyTable,
    alarm_failure,
    check_noise_scale,
    release_contingency_table,
    release_n_correct,
    warn_if_below_chance,
    warn_if_rare,
)
from skpublicdp.metrics.score_intervals import extend_interval, share_interval
from skpublicdp.metrics.score_release import (
    RESPONSE_METHODS,
    check_score_parameters,
    label_index,
    labels_of_estimator,
)
from skpublicdp.privacy.budget import PrivacyBudget
from skpublicdp.privacy.ledger import Ledger

ARRAY_ASSUMPTIONS = ("the number of rows and the labels named in the call are public",)
"""Assumptions stated in the receipts of these functions."""


@dataclass(frozen=True, eq=False)
class PrivateValue:
    """A released metric with its confidence interval. `float` returns the value.

    Attributes
    ----------
    value : float or ndarray
        Estimated value of the metric.
    interval : tuple of float or ndarray of shape (..., 2)
        Lower and upper ends of the interval. All intervals simultaneously contain the population
        values with probability `level`, over the sampling of the rows and the noise.
    level : float
        Confidence level.
    privacy_ : PrivacyReceipt
        Privacy receipt of the release.
    """

    value: Any
    interval: Any
    level: float
    privacy_: PrivacyReceipt = field(repr=False)

    def __float__(self) -> float:
        return float(self.value)


def _release_ledger(
    caller: str,
    epsilon: Any,
    delta: Any,
    level: Any,
    random_state: Any,
    budget: PrivacyBudget | None,
    constraints: dict[str, Any] | None = None,
    **parameters: Any,
) -> Ledger:
    """Check the parameters of a metric function, and return the ledger that is charged.

    `parameters` contains additional parameters of the function. `constraints` contains the
    constraints on these parameters in scikit-learn's format.
    """
    check_score_parameters(
        caller,
        {"level": PROBABILITY} | (constraints or {}),
        epsilon=epsilon,
        delta=delta,
        level=level,
        random_state=random_state,
        budget=budget,
        **parameters,
    )
    return Ledger(epsilon, delta, random_state, budget, who=caller)


def private_accuracy_score(
    y_true: Any,
    y_pred: Any,
    *,
    epsilon: Any = 1.0,
    delta: Any = 0.0,
    level: float = 0.95,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> PrivateValue:
    """Release the accuracy, the fraction of correct predictions.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels, both private. Rows whose labels cannot be compared are counted as
        errors.
    epsilon, delta : float, default=1.0 and 0.0
        Privacy parameters. With ``delta=0``, the noise is discrete Laplace, which is smaller here.
    level : float, default=0.95
        Confidence level of the interval.
    random_state : int, Generator, RandomState or None, default=None
        None uses the operating system's secure generator, which the privacy guarantee requires.
    budget : PrivacyBudget, default=None
        Privacy budget that is charged before noise is drawn.

    Returns
    -------
    PrivateValue
        Value, interval and receipt of the release.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot cover `epsilon` and `delta`.
    ValueError
        If the arrays have different lengths, or their declared types are text and numbers, which
        never agree. No budget is spent.

    Warns
    -----
    ImplausibleScoreWarning
        If the released metric is far below that of random guesses, or hardly any row has the
        positive label, which suggests that labels are coded differently.

    See Also
    --------
    private_scores : All metrics of a classifier for the ε of a single release.

    Examples
    --------
    >>> from skpublicdp.metrics import private_accuracy_score
    >>> y_true, y_pred = [0, 1] * 500, [0, 1, 1, 1] * 250
    >>> accuracy = private_accuracy_score(y_true, y_pred, epsilon=1.0, random_state=0)
    >>> low, high = accuracy.interval
    >>> low < 0.75 < high and high - low < 0.06
    True
    """
    ledger = _release_ledger("private_accuracy_score", epsilon, delta, level, random_state, budget)
    return release_accuracy(ledger, y_true, y_pred, level)


def private_confusion_matrix(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Any,
    epsilon: Any = 1.0,
    delta: Any = 0.0,
    level: float = 0.95,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> PrivateValue:
    """Release the confusion matrix.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels, both private.
    labels : array-like of at least two labels
        All possible labels, which are public. A private label outside this list is counted as an
        error: it is replaced by the label that follows the other label of its row.
    epsilon, delta, level, random_state, budget
        See `private_accuracy_score`, which also lists the exceptions.

    Returns
    -------
    PrivateValue
        The released matrix; its value has shape (n_labels, n_labels), and the entries sum to n. The
        interval has shape (n_labels, n_labels, 2) and applies to the expected counts among n rows
        of the population.

    See Also
    --------
    private_scores : All metrics of a classifier for the ε of a single release.

    Examples
    --------
    >>> from skpublicdp.metrics import private_confusion_matrix
    >>> y_true, y_pred = [0, 1] * 500, [0, 1, 1, 1] * 250
    >>> matrix = private_confusion_matrix(y_true, y_pred, labels=[0, 1], random_state=0)
    >>> matrix.value.round(-1)
    array([[250., 250.],
           [  0., 500.]])
    """
    ledger = _release_ledger(
        "private_confusion_matrix", epsilon, delta, level, random_state, budget
    )
    table = _release_confusion(y_true, y_pred, labels, ledger, level)
    shares = confusion_shares(len(table.nonnegative), None)
    # union bound over the entries
    interval = table.n * shares.interval(table, (1 - level) / table.nonnegative.size)
    value = table.n * shares.value(table)
    receipt = ledger.receipt(assumptions=ARRAY_ASSUMPTIONS)
    return PrivateValue(value, interval, level, receipt)


def private_balanced_accuracy_score(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Any,
    epsilon: Any = 1.0,
    delta: Any = 0.0,
    level: float = 0.95,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> PrivateValue:
    """Release the balanced accuracy, which is the mean recall of the classes.

    Parameters
    ----------
    y_true, y_pred, labels
        See `private_confusion_matrix`.
    epsilon, delta, level, random_state, budget
        See `private_accuracy_score`, which also lists the exceptions.

    Returns
    -------
    PrivateValue
        Value, interval and receipt of the release. The recall of a class that has no rows is set to
        0.5.

    See Also
    --------
    private_scores : All metrics of a classifier for the ε of a single release.

    Examples
    --------
    >>> from skpublicdp.metrics import private_balanced_accuracy_score
    >>> y_true, y_pred = [0, 1] * 500, [0, 1, 1, 1] * 250
    >>> score = private_balanced_accuracy_score(y_true, y_pred, labels=[0, 1], random_state=0)
    >>> abs(float(score) - 0.75) < 0.05
    True
    """
    ledger = _release_ledger(
        "private_balanced_accuracy_score", epsilon, delta, level, random_state, budget
    )
    return release_balanced_accuracy(ledger, y_true, y_pred, labels, level)


def private_roc_auc_score(
    y_true: Any,
    y_score: Any,
    *,
    pos_label: Any = 1,
    response_method: str = "predict_proba",
    epsilon: Any = 1.0,
    delta: Any = 0.0,
    level: float = 0.95,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> PrivateValue:
    """Release the area under the ROC curve.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Private labels. Labels other than `pos_label` are treated as negative.
    y_score : array-like of shape (n,)
        Private scores. The scores are discretized, and scores in the same bin are treated as ties.
    pos_label : label, default=1
        The positive class, which is public information.
    response_method : {"predict_proba", "decision_function"}, default="predict_proba"
        Scale of the scores: probabilities, or log-odds with 0 as the decision threshold.
    epsilon, delta, level, random_state, budget
        See `private_accuracy_score`, which also lists the exceptions.

    Returns
    -------
    PrivateValue
        Value, interval and receipt of the release. The value is 0.5 if a class has no rows left
        after adding noise.

    See Also
    --------
    private_scores : All metrics of a classifier for the ε of a single release.

    Examples
    --------
    >>> from skpublicdp.metrics import private_roc_auc_score
    >>> y_true, y_score = [0, 1] * 500, [0.1, 0.2, 0.6, 0.7] * 250
    >>> auc = private_roc_auc_score(y_true, y_score, epsilon=1.0, random_state=0)
    >>> auc.interval[0] < 0.75 < auc.interval[1]
    True
    """
    ledger = _release_ledger(
        "private_roc_auc_score",
        epsilon,
        delta,
        level,
        random_state,
        budget,
        {"response_method": [StrOptions(set(RESPONSE_METHODS))]},
        response_method=response_method,
    )
    return release_auc(ledger, y_true, y_score, pos_label, response_method, level)


def release_accuracy(ledger: Ledger, y_true: Any, y_pred: Any, level: float = 0.95) -> PrivateValue:
    """Release the accuracy of predictions, spending the entire budget of a ledger."""
    n = check_lengths(y_true=y_true, y_pred=y_pred)
    check_label_kinds(y_true=y_true, y_pred=y_pred)
    check_noise_scale(ledger.noise, COUNT_SENSITIVITY)
    ledger.read(n)
    n_correct = np.count_nonzero(labels_agree(y_true, y_pred))
    exact = np.array([n_correct], dtype=np.int64)
    count = release_n_correct(exact, n, noise=ledger.noise, ledger=ledger)
    value = count.clipped / n
    interval = np.array(share_interval(count, 1 - level))
    _, highest_accuracy = share_interval(count, alarm_failure(level))
    warn_if_below_chance("accuracy", highest_accuracy)
    receipt = ledger.receipt(assumptions=ARRAY_ASSUMPTIONS)
    return PrivateValue(value, extend_interval(interval, value), level, receipt)


def release_balanced_accuracy(
    ledger: Ledger, y_true: Any, y_pred: Any, labels: Any, level: float = 0.95
) -> PrivateValue:
    """Release the balanced accuracy, spending the entire budget of a ledger."""
    table = _release_confusion(y_true, y_pred, labels, ledger, level)
    n_labels = len(table.nonnegative)
    bins = PREDICTED_LABEL_BINS if n_labels == 2 else None
    return _estimate(balanced_accuracy_statistic(n_labels, bins), table, level, ledger)


def release_auc(
    ledger: Ledger,
    y_true: Any,
    y_score: Any,
    pos_label: Any,
    response_method: str,
    level: float = 0.95,
) -> PrivateValue:
    """Release the area under the ROC curve, spending the entire budget of a ledger."""
    n = check_lengths(y_true=y_true, y_score=y_score)
    positive = public_labels("pos_label", [pos_label])
    check_label_kinds(positive, y_true=y_true)
    noise = ledger.noise
    check_noise_scale(noise, TABLE_SENSITIVITY)
    ledger.read(n)
    threshold = 0.5 if response_method == "predict_proba" else 0.0
    score_bins = make_score_bins(noise, n, response_method, threshold)
    # label_codes returns 0 for `pos_label` and -1 for others; row 1 of the table has the positives
    is_positive = label_codes("y_true", y_true, positive) + 1
    bins = score_bins.bin_of_score(score_column("y_score", y_score), predicted=None)
    counts = contingency_table(is_positive, bins, (2, score_bins.n_bins))
    table = release_contingency_table(counts, n, noise, ledger)
    warn_if_rare(table)
    auc = roc_auc_kernel(score_bins.n_bins)
    warn_if_below_chance("ROC AUC", float(auc.interval(table, alarm_failure(level))[1]), 2)
    return _estimate(auc, table, level, ledger)


def _release_confusion(
    y_true: Any, y_pred: Any, labels: Any, ledger: Ledger, level: float
) -> NoisyTable:
    """Release the confusion matrix (rows: true labels), spending the entire budget of a ledger."""
    n = check_lengths(y_true=y_true, y_pred=y_pred)
    classes = public_labels("labels", labels)
    if len(classes) < 2:
        raise ValueError("labels must contain at least two labels; got one.")
    check_label_kinds(classes, y_true=y_true, y_pred=y_pred)
    noise = ledger.noise
    check_noise_scale(noise, TABLE_SENSITIVITY)
    ledger.read(n)
    codes, predicted = unknown_as_error(
        label_codes("y_true", y_true, classes), label_codes("y_pred", y_pred, classes), len(classes)
    )
    counts = contingency_table(codes, predicted, (len(classes), len(classes)))
    table = release_contingency_table(counts, n, noise, ledger)
    statistic = balanced_accuracy_statistic(len(classes), None)
    upper = float(statistic.interval(table, alarm_failure(level))[1])
    warn_if_below_chance("balanced accuracy", upper, len(classes))
    return table


def _estimate(
    statistic: Statistic, table: NoisyTable, level: float, ledger: Ledger
) -> PrivateValue:
    """Return a metric computed from a released table, with its interval and receipt."""
    value = statistic.value(table)
    interval = extend_interval(statistic.interval(table, 1 - level), value)
    return PrivateValue(value, interval, level, ledger.receipt(assumptions=ARRAY_ASSUMPTIONS))


SCORER_METRICS = ("accuracy", "balanced_accuracy", "roc_auc")
"""Metrics available in `make_private_scorer`."""


class PrivateScorer:
    """Scorer that releases a private metric at each call.

    Instances are created by `make_private_scorer`.
    """

    is_private = True
    """Declares that every call is a private release."""

    def __init__(
        self,
        metric: str,
        epsilon: Any,
        delta: Any,
        random_state: Any,
        budget: PrivacyBudget | None,
        pos_label: Any = None,
        response_method: Any = RESPONSE_METHODS,
    ) -> None:
        self.metric, self.epsilon, self.delta = metric, epsilon, delta
        self.random_state, self.budget = random_state, budget
        self.pos_label, self.response_method = pos_label, response_method

    def __call__(self, estimator: Any, X: Any, y_true: Any, sample_weight: Any = None) -> float:
        """Release the metric of a fitted estimator on private rows."""
        y = y_true
        if sample_weight is not None:
            raise ValueError("sample_weight must be None: private scores count each row once.")
        caller = f"private scorer of {self.metric}"
        ledger = Ledger(self.epsilon, self.delta, self.random_state, self.budget, who=caller)
        n = check_lengths(X=X, y=y)
        labels = labels_of_estimator(estimator, None)
        check_label_kinds(labels, y=y)
        if self.metric == "accuracy":
            return float(release_accuracy(ledger, y, call_estimator(estimator, "predict", X, n)))
        if self.metric == "balanced_accuracy":
            predicted = call_estimator(estimator, "predict", X, n)
            return float(release_balanced_accuracy(ledger, y, predicted, labels))
        methods = self.response_method
        methods = (methods,) if isinstance(methods, str) else methods
        response = next((name for name in methods if hasattr(estimator, name)), None)
        if len(labels) != 2 or response is None:
            raise ValueError(
                f"roc_auc requires an estimator with two classes and {' or '.join(methods)}; got "
                f"{type(estimator).__name__} with {len(labels)} classes."
            )
        positive = label_index(self.pos_label, labels)
        if response == "predict_proba":
            scores = call_estimator(estimator, response, X, n, width=2)[:, positive]
        else:  # the scores of classes_[1]
            scores = call_estimator(estimator, response, X, n)
            scores = scores if positive else -score_column(response, scores)
        return float(release_auc(ledger, y, scores, labels[positive], response))

    def __repr__(self) -> str:
        return f"make_private_scorer({self.metric!r}, epsilon={float(self.epsilon):g})"


def make_private_scorer(
    metric: str,
    *,
    epsilon: Any = 1.0,
    delta: Any = 0.0,
    pos_label: Any = None,
    response_method: Any = RESPONSE_METHODS,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> PrivateScorer:
    """Return a scorer that releases a private metric and charges a budget at each call.

    Parameters
    ----------
    metric : {"accuracy", "balanced_accuracy", "roc_auc"}
        Metric to release.
    epsilon, delta : float, default=1.0 and 0.0
        Privacy parameters of each call, which apply to the rows that the call scores.
    pos_label : label, default=None
        Positive class of "roc_auc". The default is the second element of `classes_`.
    response_method : str or sequence of str, default=("predict_proba", "decision_function")
        Method that returns the scores for "roc_auc", as in scikit-learn's `make_scorer`. The first
        method that the estimator has is used.
    random_state : int, Generator, RandomState or None, default=None
        None uses the operating system's secure generator, which the privacy guarantee requires.
        With a seed, each call within a process draws new noise, and parallel workers start from
        copies of the seed.
    budget : PrivacyBudget, default=None
        Privacy budget that is charged by each call before noise is drawn. Copies of the scorer,
        such as those made by searches, charge the same privacy budget.

    Returns
    -------
    PrivateScorer
        A scorer that is called as ``scorer(estimator, X, y_true)``; greater is better.

    Raises
    ------
    ValueError
        If the metric is unknown.

    See Also
    --------
    private_scores : Releases all metrics of a classifier, with intervals, in one release.

    Notes
    -----
    A search over 20 settings and 5 folds calls the scorer 100 times. Folds share no rows, so the
    privacy loss of each person corresponds to 20 calls. Since the budget has no information about
    the folds, it adds up all 100 calls.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> from skpublicdp import PrivacyBudget
    >>> from skpublicdp.metrics import make_private_scorer
    >>> X, y = np.zeros((1000, 1)), np.arange(1000) % 4 > 0
    >>> budget = PrivacyBudget(5.0)
    >>> scorer = make_private_scorer("accuracy", epsilon=1.0, budget=budget)
    >>> scores = cross_val_score(DummyClassifier(), X, y, scoring=scorer)
    >>> bool((abs(scores - 0.75) < 0.1).all())
    True
    >>> len(budget.ledger), budget.remaining("pure")
    (5, 0.0)
    """
    check_score_parameters(
        "make_private_scorer",
        {
            "metric": [StrOptions(set(SCORER_METRICS))],
            "response_method": [StrOptions(set(RESPONSE_METHODS)), tuple, list],
        },
        metric=metric,
        response_method=response_method,
        epsilon=epsilon,
        delta=delta,
        random_state=random_state,
        budget=budget,
    )
    if isinstance(random_state, Integral):
        # a generator advances from call to call, while a seed would repeat the same noise
        random_state = np.random.default_rng(int(random_state))
    if metric != "roc_auc" and pos_label is not None:
        raise ValueError(f"pos_label applies only to the metric roc_auc; got {metric!r}.")
    return PrivateScorer(metric, epsilon, delta, random_state, budget, pos_label, response_method)
