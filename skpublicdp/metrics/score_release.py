"""private_scores: one release of the scores in each class."""

from __future__ import annotations

from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from skpublicdp._internal.parameters import DELTA, GROUP_PARAMETERS, SPENDING_PARAMETERS
from skpublicdp.budget import PrivacyBudget
from skpublicdp.ledger import Ledger
from skpublicdp.metrics.counts import Tally, test_rows
from skpublicdp.metrics.label_codes import known_labels
from skpublicdp.metrics.noisy_counts import (
    MOVED,
    ONE,
    check_drawable,
    noise_for_both,
    release_right,
    release_table,
)
from skpublicdp.metrics.score_bins import ONLY_PREDICTED, Cells, make_cells
from skpublicdp.metrics.scores import PrivateScores
from skpublicdp.model_selection.checks import unprotected_line

RESPONSES = ("predict_proba", "decision_function")

ASSUMPTIONS = (
    "the estimator, its labels and the number of rows are public",
    "what is predicted for a row depends on that row alone",
)
ELSEWHERE = "these steps, which declare no protection, were fitted on public rows only"


def private_scores(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    epsilon: Any = 1.0,
    delta: Any = 0.0,
    pos_label: Any = None,
    classes: Any = None,
    response_method: str = "auto",
    threshold: float | None = None,
    groups: Any = None,
    max_rows_per_group: int | None = None,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> PrivateScores:
    """Release how well a fitted classifier does on private rows, in every way at once.

    Scores are cut into cells that no private row decides, rows are counted by label and cell, and
    exact noise is added. Accuracy, ROC curve, calibration and the rest are read off the noisy
    counts, so all of them have one price.

    Parameters
    ----------
    estimator : classifier
        Fitted, on other rows, and public: without privacy or with it. Pipelines are welcome.
    X : array-like, DataFrame or streamed rows
        Private rows, anything that the estimator predicts. Of `open_rows`, a Dask frame and the
        like a few chunks are in memory at once, and the estimator predicts each chunk as it comes.
    y : array-like of shape (n,), or a column of the same streamed rows
        Their labels. One that the estimator does not know counts as an error.
    epsilon : float, default=1.0
        ε > 0 of the release.
    delta : float, default=0.0
        δ in [0, 1). With 0 the noise is discrete Laplace, which is quieter at the same ε for the
        few counts that are released here; more takes Gaussian noise, which is cheaper in a
        `PrivacyBudget` with a δ of its own.
    pos_label : label, default=None
        Of two classes the one that scores speak for; by default the second.
    classes : array-like, default=None
        Public set of labels, if the estimator has no `classes_`.
    response_method : {"auto", "predict_proba", "decision_function", "predict"}, default="auto"
        Where scores come from; "auto" takes the first that the estimator has, "predict" none.
    threshold : float, default=None
        Score above which the estimator predicts the positive class, if that is not 0.5 for
        probabilities or 0.
    groups : array-like of shape (n,), or a column of the same streamed rows, default=None
        Whose row each is, for `max_rows_per_group`; this is public.
    max_rows_per_group : int, default=None
        Protects persons instead of rows: the first so many rows of each person count, and the
        noise is for all of them. Intervals take a person's rows to be all alike.
    random_state : int, Generator, RandomState or None, default=None
        None for randomness of the operating system, which the guarantee needs; other values for
        tests.
    budget : PrivacyBudget, default=None
        What is charged, before anything is drawn.

    Returns
    -------
    PrivateScores
        Metrics, intervals and receipt.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot pay.
    ValueError
        If lengths differ, or the estimator does not predict.

    See Also
    --------
    make_private_scorer : A metric for searches and cross-validation.

    Notes
    -----
    The number of rows is public; how many are of a class is not. Proved in docs/proofs/scores.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skpublicdp.metrics import private_scores
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = X[:, 0] + rng.normal(size=3000) > 0
    >>> clf = LogisticRegression().fit(X[:1000], y[:1000])     # of public rows
    >>> scores = private_scores(clf, X[1000:], y[1000:], epsilon=1.0, random_state=0)
    >>> low, high = scores.interval("accuracy")
    >>> low < 0.75 < high and high - low < 0.06
    True
    >>> scores.privacy_.epsilon
    1.0
    """
    check_parameters(
        "private_scores",
        {
            "response_method": [StrOptions({"auto", "predict", *RESPONSES})],
            "threshold": [Interval(Real, None, None, closed="neither"), None],
            **GROUP_PARAMETERS,
        },
        epsilon=epsilon,
        delta=delta,
        random_state=random_state,
        budget=budget,
        response_method=response_method,
        threshold=threshold,
        max_rows_per_group=max_rows_per_group,
    )
    ledger = Ledger(
        epsilon,
        delta,
        random_state,
        budget,
        who="private_scores",
        rows_per_person=max_rows_per_group,
    )
    assumptions = ASSUMPTIONS + unprotected_line([estimator], ELSEWHERE)
    rows = test_rows(X, y, groups, max_rows_per_group)
    labels = labels_of(estimator, classes)
    response = _response(estimator, response_method, len(labels))
    has_classes = getattr(estimator, "classes_", None) is not None
    positive = _position(pos_label, labels)
    in_scores = _position(labels[positive], labels_of(estimator, None if has_classes else labels))
    for_right, for_table = noise_for_both(ledger, rows.n)
    check_drawable(for_right, ledger.for_person(ONE))
    check_drawable(for_table, ledger.for_person(MOVED))
    ledger.read(rows.n)
    cells, of_cells = None, np.eye(len(labels), dtype=bool)
    if len(labels) == 2:
        cells = _cells(for_table, rows.n / ledger.rows_per_person, response, threshold)
        is_right = np.arange(cells.size) >= cells.decided
        of_cells = np.stack([~is_right, is_right])
    tally = rows.count(Tally(estimator, labels, positive, in_scores, response, cells))
    # all is read: from here on nothing fails
    count, table = release_right(tally[:1], rows.n, for_right, ledger, rows.crowd), None
    if len(labels) > 1:
        counted = tally[1:].reshape(of_cells.shape)
        table = release_table(counted, rows.n, for_table, ledger, of_cells, count)
    return PrivateScores(
        classes=labels,
        positive=positive,
        cells=cells,
        count=count,
        table=table,
        privacy=ledger.receipt(assumptions=assumptions),
    )


def check_parameters(caller: str, others: dict[str, Any], **given: Any) -> None:
    """Check parameters as estimators do."""
    known = {
        name: float(value)
        if isinstance(value, Rational) and not isinstance(value, Integral)
        else value
        for name, value in given.items()
    }
    constraints = SPENDING_PARAMETERS | {"delta": DELTA} | others
    validate_parameter_constraints(constraints, known, caller_name=caller)


def labels_of(estimator: Any, classes: Any) -> list[Any]:
    """Return the public labels."""
    if classes is None:
        classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise ValueError(
            f"{type(estimator).__name__} must be a fitted classifier with classes_; fit it, or "
            "give its labels as classes."
        )
    return known_labels("classes", classes)


def _response(estimator: Any, wanted: str, n_labels: int) -> str:
    """Return the method that gives scores, or "predict"."""
    if n_labels != 2 or wanted == "predict":
        return "predict"
    if wanted == "auto":
        return next((name for name in RESPONSES if hasattr(estimator, name)), "predict")
    if not hasattr(estimator, wanted):
        raise ValueError(
            f"response_method must be a method of the estimator; {type(estimator).__name__} has "
            f"no {wanted}."
        )
    return wanted


def _position(pos_label: Any, labels: list[Any]) -> int:
    if pos_label is None:
        return len(labels) - 1
    if pos_label not in labels:
        raise ValueError(f"pos_label must be one of the labels {labels}; got {pos_label!r}.")
    return labels.index(pos_label)


def _cells(noise: Any, n: float, response: str, threshold: float | None) -> Cells:
    if response == "predict":
        return ONLY_PREDICTED
    if threshold is None:
        threshold = 0.5 if response == "predict_proba" else 0.0
    elif response == "predict_proba" and not 0 < threshold < 1:
        raise ValueError(f"threshold must be between 0 and 1 for probabilities; got {threshold!r}.")
    return make_cells(noise, n, response, float(threshold))
