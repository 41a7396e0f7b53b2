"""`make_private_scorer`: scikit-learn scorers that make a private release at every call."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from skpublicdp.metrics.array_scores import release_accuracy, release_auc, release_balanced_accuracy
from skpublicdp.metrics.label_codes import call_estimator, check_label_kinds, check_lengths
from skpublicdp.metrics.score_release import (
    RESPONSE_METHODS,
    check_score_parameters,
    labels_of_estimator,
)
from skpublicdp.privacy.budget import PrivacyBudget
from skpublicdp.privacy.ledger import Ledger

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
    ) -> None:
        self.metric, self.epsilon, self.delta = metric, epsilon, delta
        self.random_state, self.budget = random_state, budget

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Release the metric of a fitted estimator on private rows."""
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
        response = next((name for name in RESPONSE_METHODS if hasattr(estimator, name)), None)
        if len(labels) != 2 or response is None:
            raise ValueError(
                "roc_auc requires an estimator with two classes and predict_proba or "
                f"decision_function; got {type(estimator).__name__} with {len(labels)} classes."
            )
        if response == "predict_proba":
            scores = call_estimator(estimator, response, X, n, width=2)[:, 1]
        else:
            scores = call_estimator(estimator, response, X, n)
        return float(release_auc(ledger, y, scores, labels[1], response))

    def __repr__(self) -> str:
        return f"make_private_scorer({self.metric!r}, epsilon={float(self.epsilon):g})"


def make_private_scorer(
    metric: str,
    *,
    epsilon: Any = 1.0,
    delta: Any = 0.0,
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
        A scorer that is called as ``scorer(estimator, X, y)``; greater is better.

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
        {"metric": [StrOptions(set(SCORER_METRICS))]},
        metric=metric,
        epsilon=epsilon,
        delta=delta,
        random_state=random_state,
        budget=budget,
    )
    if isinstance(random_state, Integral):
        # a generator advances from call to call, while a seed would repeat the same noise
        random_state = np.random.default_rng(int(random_state))
    return PrivateScorer(metric, epsilon, delta, random_state, budget)
