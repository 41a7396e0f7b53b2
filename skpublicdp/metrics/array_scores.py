"""Metrics of plain arrays, each with its interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from skpublicdp._internal.parameters import PROBABILITY
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.budget import PrivacyBudget
from skpublicdp.ledger import Ledger
from skpublicdp.metrics.estimates import balance, ranking, recalls, shares_of_all
from skpublicdp.metrics.label_codes import (
    check_lengths,
    equal_rows,
    known_labels,
    label_codes,
    score_column,
    table_of,
    wrong_if_unknown,
)
from skpublicdp.metrics.noisy_counts import MOVED, ONE, check_drawable, release_right, release_table
from skpublicdp.metrics.score_bins import ONLY_PREDICTED, make_cells
from skpublicdp.metrics.score_intervals import share_interval
from skpublicdp.metrics.score_release import RESPONSES, check_parameters
from skpublicdp.query_release.spending import all_noise

ASSUMPTIONS = ("the number of rows and the labels named in the call are public",)


@dataclass(frozen=True, eq=False)
class PrivateValue:
    """A released metric of the population, with its interval; `float` reads the value.

    Attributes
    ----------
    value : float or ndarray
        Estimate.
    interval : tuple of float or ndarray of shape (..., 2)
        Two ends between which it lies, all at once, with probability `level`, over the choice of
        the rows and the noise.
    level : float
        That probability.
    privacy_ : PrivacyReceipt
        What was spent.
    """

    value: Any
    interval: Any
    level: float
    privacy_: PrivacyReceipt = field(repr=False)

    def __float__(self) -> float:
        return float(self.value)


def _open(
    caller: str,
    epsilon: Any,
    delta: Any,
    level: Any,
    random_state: Any,
    budget: PrivacyBudget | None,
    others: dict[str, Any] | None = None,
    **given: Any,
) -> Ledger:
    check_parameters(
        caller,
        {"level": PROBABILITY} | (others or {}),
        epsilon=epsilon,
        delta=delta,
        level=level,
        random_state=random_state,
        budget=budget,
        **given,
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
    """Release the share of right predictions.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Labels and what was predicted, both private. What cannot be compared is wrong.
    epsilon, delta : float, default=1.0 and 0.0
        What is spent; Laplace noise for ``delta=0``, which is the better one here.
    level : float, default=0.95
        Of the interval.
    random_state : int, Generator, RandomState or None, default=None
        None for the randomness that the guarantee needs.
    budget : PrivacyBudget, default=None
        What is charged, before anything is drawn.

    Returns
    -------
    PrivateValue
        Value, interval and receipt.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot pay.
    ValueError
        If lengths differ.

    See Also
    --------
    private_scores : All scores of a model for one price.

    Examples
    --------
    >>> from skpublicdp.metrics import private_accuracy_score
    >>> y_true, y_pred = [0, 1] * 500, [0, 1, 1, 1] * 250
    >>> accuracy = private_accuracy_score(y_true, y_pred, epsilon=1.0, random_state=0)
    >>> low, high = accuracy.interval
    >>> low < 0.75 < high and high - low < 0.06
    True
    """
    ledger = _open("private_accuracy_score", epsilon, delta, level, random_state, budget)
    return accuracy_of(ledger, y_true, y_pred, level)


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
    """Release how many rows of each class are predicted each label.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Labels and what was predicted, both private.
    labels : array-like of at least two labels
        All labels, which are public. A private one that is none of them counts as an error: as the
        label that follows the other one of its row.
    epsilon, delta, level, random_state, budget
        As in `private_accuracy_score`.

    Returns
    -------
    PrivateValue
        Its value is an array of shape (n_labels, n_labels) that adds up to n, its interval one of
        shape (n_labels, n_labels, 2): expected counts among n rows of the population.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot pay.
    ValueError
        If lengths differ.

    See Also
    --------
    private_scores : All scores of a model for one price.

    Examples
    --------
    >>> from skpublicdp.metrics import private_confusion_matrix
    >>> y_true, y_pred = [0, 1] * 500, [0, 1, 1, 1] * 250
    >>> matrix = private_confusion_matrix(y_true, y_pred, labels=[0, 1], random_state=0)
    >>> matrix.value.round(-1)
    array([[250., 250.],
           [  0., 500.]])
    """
    ledger = _open("private_confusion_matrix", epsilon, delta, level, random_state, budget)
    table = _confusion(y_true, y_pred, labels, ledger)
    entries = shares_of_all(len(table.likely), None)
    ends = entries.interval(table, (1 - level) / table.likely.size)
    value = table.n * entries.value(table)
    return PrivateValue(value, table.n * ends, level, ledger.receipt(assumptions=ASSUMPTIONS))


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
    """Release the mean over classes of the share of right predictions.

    Parameters
    ----------
    y_true, y_pred, labels
        As in `private_confusion_matrix`.
    epsilon, delta, level, random_state, budget
        As in `private_accuracy_score`.

    Returns
    -------
    PrivateValue
        Value, interval and receipt. A class without rows counts one half.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot pay.
    ValueError
        If lengths differ.

    See Also
    --------
    private_scores : All scores of a model for one price.

    Examples
    --------
    >>> from skpublicdp.metrics import private_balanced_accuracy_score
    >>> y_true, y_pred = [0, 1] * 500, [0, 1, 1, 1] * 250
    >>> score = private_balanced_accuracy_score(y_true, y_pred, labels=[0, 1], random_state=0)
    >>> abs(float(score) - 0.75) < 0.05
    True
    """
    ledger = _open("private_balanced_accuracy_score", epsilon, delta, level, random_state, budget)
    return balanced_accuracy_of(ledger, y_true, y_pred, labels, level)


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
        Private labels; those that are not `pos_label` are negative.
    y_score : array-like of shape (n,)
        Private scores. They are cut into cells, and those in one cell are ties.
    pos_label : label, default=1
        The positive class, which is public.
    response_method : {"predict_proba", "decision_function"}, default="predict_proba"
        Whether scores are probabilities, or any numbers around 0 in units of log-odds.
    epsilon, delta, level, random_state, budget
        As in `private_accuracy_score`.

    Returns
    -------
    PrivateValue
        Value, interval and receipt; 0.5 where a class seems to be empty.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot pay.
    ValueError
        If lengths differ.

    See Also
    --------
    private_scores : All scores of a model for one price.

    Examples
    --------
    >>> from skpublicdp.metrics import private_roc_auc_score
    >>> y_true, y_score = [0, 1] * 500, [0.1, 0.2, 0.6, 0.7] * 250
    >>> auc = private_roc_auc_score(y_true, y_score, epsilon=1.0, random_state=0)
    >>> auc.interval[0] < 0.75 < auc.interval[1]
    True
    """
    ledger = _open(
        "private_roc_auc_score",
        epsilon,
        delta,
        level,
        random_state,
        budget,
        {"response_method": [StrOptions(set(RESPONSES))]},
        response_method=response_method,
    )
    return auc_of(ledger, y_true, y_score, pos_label, response_method, level)


def accuracy_of(ledger: Ledger, y_true: Any, y_pred: Any, level: float = 0.95) -> PrivateValue:
    """Release the share of right predictions with all that a ledger holds."""
    n = check_lengths(y_true=y_true, y_pred=y_pred)
    noise = all_noise(ledger)
    check_drawable(noise, ONE)
    ledger.read(n)
    right = np.count_nonzero(equal_rows(y_true, y_pred))
    count = release_right(np.array([right], dtype=np.int64), n, noise, ledger)
    return _value(count.likely / n, share_interval(count, 1 - level), level, ledger)


def balanced_accuracy_of(
    ledger: Ledger, y_true: Any, y_pred: Any, labels: Any, level: float = 0.95
) -> PrivateValue:
    """Release the mean over classes of right predictions with all that a ledger holds."""
    table = _confusion(y_true, y_pred, labels, ledger)
    k = len(table.likely)
    if k == 2:
        mean = balance(ONLY_PREDICTED)
        value, ends = mean.value(table), mean.interval(table, 1 - level)
    else:
        shares = recalls(k)
        value = float(shares.value(table).mean())
        ends = shares.interval(table, (1 - level) / k).mean(0)
    return _value(value, ends, level, ledger)


def auc_of(
    ledger: Ledger,
    y_true: Any,
    y_score: Any,
    pos_label: Any,
    response_method: str,
    level: float = 0.95,
) -> PrivateValue:
    """Release the area under the ROC curve with all that a ledger holds."""
    n = check_lengths(y_true=y_true, y_score=y_score)
    noise = all_noise(ledger)
    check_drawable(noise, MOVED)
    ledger.read(n)
    cells = make_cells(noise, n, response_method, 0.5 if response_method == RESPONSES[0] else 0.0)
    positive = label_codes("y_true", y_true, known_labels("pos_label", [pos_label])) + 1
    places = cells.place(score_column("y_score", y_score), None)
    table = release_table(table_of(positive, places, (2, cells.size)), n, noise, ledger)
    mean = ranking(cells.size)
    return _value(mean.value(table), mean.interval(table, 1 - level), level, ledger)


def _confusion(y_true: Any, y_pred: Any, labels: Any, ledger: Ledger) -> Any:
    n = check_lengths(y_true=y_true, y_pred=y_pred)
    known = known_labels("labels", labels)
    if len(known) < 2:
        raise ValueError("labels must hold at least two labels; got one.")
    noise = all_noise(ledger)
    check_drawable(noise, MOVED)
    ledger.read(n)
    codes = label_codes("y_true", y_true, known), label_codes("y_pred", y_pred, known)
    counted = table_of(*wrong_if_unknown(*codes, len(known)), (len(known),) * 2)
    return release_table(counted, n, noise, ledger)


def _value(value: float, ends: Any, level: float, ledger: Ledger) -> PrivateValue:
    inside = min(float(ends[0]), value), max(float(ends[1]), value)
    return PrivateValue(value, inside, level, ledger.receipt(assumptions=ASSUMPTIONS))
