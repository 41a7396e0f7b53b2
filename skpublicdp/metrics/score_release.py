"""`private_scores`: all metrics of a fitted estimator from one noisy release."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

from sklearn.model_selection import FixedThresholdClassifier
from sklearn.utils._param_validation import Interval, StrOptions

from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    check_values,
)
from skpublicdp.accounting import Noise
from skpublicdp.data.labels import label_entries, refuse_types
from skpublicdp.data.outcomes import read_outcome_bounds
from skpublicdp.data.roles import shares_memory
from skpublicdp.data.streaming import as_rows, is_streamed
from skpublicdp.data.tables import pick_column, to_narwhals
from skpublicdp.metrics.counts import (
    OTHER_GROUP,
    PREDICTED_LABEL_BINS,
    LabelCounter,
    RowGroups,
    ScoreBins,
    ScoredRows,
    make_score_bins,
    read_scored_rows,
)
from skpublicdp.metrics.label_tables import (
    check_label_kinds,
    check_lengths,
    public_labels,
    release_label_tables,
)
from skpublicdp.metrics.noisy_counts import (
    COUNT_SENSITIVITY,
    TABLE_SENSITIVITY,
    NoisyTable,
    SplitNoise,
    check_noise_scale,
    merge_groups,
    others_sensitivity,
    release_contingency_table,
    release_n_correct,
    split_noise,
    warn_if_below_chance,
)
from skpublicdp.metrics.residual_metrics import (
    SUM_SENSITIVITY,
    ResidualCounter,
    release_residual_sums,
)
from skpublicdp.metrics.scores import PrivateScores
from skpublicdp.model_selection.checks import unprotected_line
from skpublicdp.privacy.budget import PrivacyBudget
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats

RESPONSE_METHODS = ("predict_proba", "decision_function")
"""Methods that return scores, in order of preference."""

SCORE_ASSUMPTIONS = (
    "the estimator, its labels and the number of rows are public",
    "the prediction for a row depends on that row alone",
)
UNPROTECTED_STEPS = "these steps, which declare no protection, were fitted on public rows only"
"""Assumptions stated in the receipt of `private_scores`."""


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
    outcome_bounds: Any = None,
    groups: Any = None,
    max_rows_per_group: int | None = None,
    X_public: Any = None,
    by: Any = None,
    by_values: Any = None,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> PrivateScores:
    """Release all metrics of a fitted classifier or regressor on private rows.

    For a classifier, rows are counted by label and score bin, and exact noise is added to the
    counts. The bins are independent of private rows. Accuracy, ROC curve, calibration and the other
    metrics are computed from the noisy counts, so the total privacy cost of all metrics is ε. For a
    regressor, R² and the errors are computed from noisy sums of powers of the residuals and
    outcomes.

    Parameters
    ----------
    estimator : classifier or regressor
        Public estimator or pipeline that was fitted to other rows, with or without privacy.
    X : array-like, DataFrame or streamed rows
        Private rows in any container that the estimator accepts. For streamed rows (`open_rows`,
        Dask), predictions are made batch by batch, with few batches in memory at a time.
    y : array-like of shape (n,), or a column of the same streamed rows
        Labels or outcomes of the rows. A label that the estimator does not know is counted as an
        error, and a missing outcome is counted as a residual equal to the width of the bounds.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of the release.
    delta : float, default=0.0
        Privacy budget δ in [0, 1). If δ is 0, the noise is discrete Laplace, which is smaller at
        the same ε for the few counts released here. If δ is positive, the noise is Gaussian, which
        costs less in a `PrivacyBudget` with δ > 0.
    pos_label : label, default=None
        Positive class of the curves; the default is the last class. With more than two classes, the
        release contains one-versus-rest curves for each class.
    classes : array-like, default=None
        Public set of labels, if the estimator has no attribute `classes_`.
    response_method : {"auto", "predict_proba", "decision_function", "predict"}, default="auto"
        Method that returns scores, with one column per class for more than two classes. "auto" uses
        the first available method, except for decision functions with more than two classes, which
        may compare pairs. "predict" does not use scores.
    threshold : float, default=None
        Score above which the estimator predicts the positive class. The default is 0.5 for
        probabilities and 0 for decision functions.
    outcome_bounds : pair of float, default=None
        Public bounds of the outcomes of a regressor. Outcomes and predictions are clipped to these
        bounds, and the metrics refer to the clipped values. The default is the attribute
        `outcome_bounds_` of the estimator. The noise is proportional to the width of the bounds.
    groups : array-like of shape (n,), or a column of the same streamed rows, default=None
        Person identifier of each row, for `max_rows_per_group`. The identifiers are public.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows: at most this number of random rows of each
        person is counted, and the noise accounts for all of these rows. The intervals assume that
        all rows of a person are equal.
    X_public : array-like or DataFrame, default=None
        Public rows, without labels. Score bins then lie at quantiles of their scores, and are
        narrower where rows of the rarer class are. Without public rows, the bins are fixed.
    by : str or array-like of shape (n,), default=None
        Private value by which rows are grouped for `PrivateScores.rates_by_group`: the name of a
        column of X, or the values of the rows in memory. The noise in all other results grows as
        the square root of the number of groups.
    by_values : array-like, default=None
        Public values of the groups. All other values form a further group. The default is the
        values in the column of `X_public`.
    random_state : int, Generator, RandomState or None, default=None
        None uses the operating system's secure generator, which the privacy guarantee requires.
        Other values are only intended for tests.
    budget : PrivacyBudget, default=None
        Privacy budget that is charged before noise is drawn.

    Returns
    -------
    PrivateScores
        The metrics, their intervals and the receipt.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot cover `epsilon` and `delta`.
    ValueError
        If X and y have different lengths, the estimator cannot predict, or the declared types of y
        and of the labels are text and numbers, which never agree. No budget is spent.

    Warns
    -----
    ImplausibleScoreWarning
        If a released metric is far below that of random guesses, which suggests that the labels in
        y are coded differently from those of the estimator.

    See Also
    --------
    make_private_scorer : Creates a private scorer for searches and cross-validation.

    Notes
    -----
    The number of rows is public. The number of rows of each class is protected. Privacy is proved
    in docs/proofs/scores.md.

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

    Of a regressor:

    >>> from sklearn.linear_model import LinearRegression
    >>> y = X[:, 0] + rng.normal(size=3000)
    >>> reg = LinearRegression().fit(X[:1000], y[:1000])
    >>> scores = private_scores(reg, X[1000:], y[1000:], outcome_bounds=(-4, 4), random_state=0)
    >>> low, high = scores.interval("rmse")
    >>> low < 1.0 < high and high - low < 0.7
    True
    """
    check_score_parameters(
        "private_scores",
        {
            "response_method": [StrOptions({"auto", "predict", *RESPONSE_METHODS})],
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
    assumptions = SCORE_ASSUMPTIONS + unprotected_line([estimator], UNPROTECTED_STEPS)
    if X_public is not None and shares_memory(X, X_public):
        raise ValueError("X_public must be other rows than X, because their scores are public.")
    row_groups = _read_groups(X, X_public, by, by_values)
    by_row = None if isinstance(by, str) else by
    rows = read_scored_rows(X, y, groups, max_rows_per_group, ledger, by_row)
    bounds = outcome_bounds
    if bounds is None and classes is None:
        bounds = getattr(estimator, "outcome_bounds_", None)
    if bounds is None:
        counter = _label_counter(estimator, classes, pos_label, response_method)
        counter = replace(counter, groups=row_groups)
        if threshold is None and isinstance(estimator, FixedThresholdClassifier):
            threshold = _fixed_threshold(estimator, counter)
        return _score_classifier(counter, rows, threshold, ledger, assumptions, X_public)
    for name, value in {
        "classes": classes,
        "pos_label": pos_label,
        "threshold": threshold,
        "X_public": X_public,
        "by": by,
    }.items():
        if value is not None:
            raise ValueError(
                f"{name} applies only to classifiers, and outcome_bounds only to regressors."
            )
    regressor_rows = ResidualCounter(estimator, read_outcome_bounds(bounds))
    return _score_regressor(regressor_rows, rows, ledger, assumptions)


def _score_regressor(
    counter: ResidualCounter, rows: ScoredRows, ledger: Ledger, assumptions: tuple[str, ...]
) -> PrivateScores:
    """Return the private scores of a regressor."""
    refuse_types(rows.y_type, "outcomes, finite numbers")
    check_noise_scale(ledger.noise, ledger.for_person(SUM_SENSITIVITY))
    ledger.read(rows.n)
    exact = rows.count(counter)
    # the budget is charged from here on, and no later step can fail
    sums = release_residual_sums(exact, rows.n, counter.bounds, ledger, rows.design_effect)
    receipt = ledger.receipt(assumptions=assumptions)
    return PrivateScores(n_rows=rows.n, sums=sums, privacy=receipt)


def _score_classifier(
    counter: LabelCounter,
    rows: ScoredRows,
    threshold: float | None,
    ledger: Ledger,
    assumptions: tuple[str, ...],
    X_public: Any,
) -> PrivateScores:
    """Return the private scores of a classifier whose counter does not have score bins yet."""
    check_label_kinds(counter.labels, y=rows.y_type)
    noise = split_noise(ledger, rows.n, counter.n_scored_labels)
    _check_noise(noise, ledger, len(counter.labels))
    n_public, public_scores = 0, None
    if X_public is not None:
        n_public = check_lengths(X_public=X_public)
        if counter.n_scored_labels and counter.response != "predict":
            public_scores = counter.public_scores(X_public)
    ledger.read(rows.n, n_public)
    if counter.n_scored_labels:
        n_persons = rows.n / ledger.rows_per_person / counter.n_groups
        bins = _make_bins(noise.own or noise.table, n_persons, counter, threshold, public_scores)
        counter = replace(counter, score_bins=bins)
    exact = counter.split(rows.count(counter))
    # the budget is charged from here on, and no later step can fail
    count = release_n_correct(exact.n_correct, rows.n, noise.accuracy, ledger, rows.design_effect)
    table = group_table = None
    label_tables: tuple[NoisyTable, ...] = ()
    if len(counter.labels) > 1:
        table = release_contingency_table(
            exact.table, rows.n, noise.table, ledger, counter.is_correct, count
        )
        if counter.groups is not None:
            group_table, table = table, merge_groups(table, counter.n_groups)
        if noise.own is not None and noise.other is not None:
            label_tables = release_label_tables(
                exact.by_label, noise.own, noise.other, ledger, table
            )
    scores = PrivateScores(
        n_rows=rows.n,
        classes=tuple(counter.labels),
        positive=counter.positive,
        score_bins=counter.score_bins,
        count=count,
        table=table,
        label_tables=label_tables,
        group_table=group_table,
        groups=() if counter.groups is None else tuple(counter.groups.values),
        privacy=ledger.receipt(assumptions=assumptions),
    )
    _warn_if_implausible(scores)
    return scores


def _warn_if_implausible(scores: PrivateScores) -> None:
    """Warn if a released metric is far below chance."""
    n_labels = len(scores.classes_)
    for metric, n_guesses in (
        ("accuracy", n_labels),
        ("balanced_accuracy", n_labels),
        ("roc_auc", 2),
    ):
        if metric in scores.metrics_:
            upper = float(scores.interval(metric)[1])
            if warn_if_below_chance(metric.replace("_", " "), upper, n_guesses):
                return


def _check_noise(noise: SplitNoise, ledger: Ledger, n_labels: int) -> None:
    """Raise ValueError if the noise of a measurement is too large to be drawn."""
    sensitivities = (
        (noise.accuracy, COUNT_SENSITIVITY),
        (noise.table, TABLE_SENSITIVITY),
        (noise.own, TABLE_SENSITIVITY),
        (noise.other, others_sensitivity(n_labels)),
    )
    for event, sensitivity in sensitivities:
        if event is not None:
            check_noise_scale(event, ledger.for_person(sensitivity))


def _label_counter(
    estimator: Any, classes: Any, pos_label: Any, response_method: str
) -> LabelCounter:
    """Return the function that counts the rows of an estimator, without score bins.

    Without `pos_label`, the positive label is the last label. Score columns are in the order of the
    estimator's `classes_`.
    """
    labels = labels_of_estimator(estimator, classes)
    has_classes = getattr(estimator, "classes_", None) is not None
    score_labels = labels_of_estimator(estimator, None if has_classes else labels)
    positive = label_index(pos_label, labels)
    label_index(labels[positive], score_labels)
    response = _response_method(estimator, response_method, len(labels))
    if len(labels) > 2 and set(labels) != set(score_labels):
        response = "predict"  # some label has no score
    return LabelCounter(estimator, labels, positive, score_labels, response)


def check_score_parameters(
    caller: str, extra_constraints: dict[str, Any], **parameters: Any
) -> None:
    """Check the parameters of a metric function, both the common ones and its own."""
    constraints = SPENDING_PARAMETERS | {"delta": DELTA} | extra_constraints
    check_values(constraints, parameters, caller=caller)


def labels_of_estimator(estimator: Any, classes: Any) -> list[Any]:
    """Return the public labels: `classes` if given, or the estimator's `classes_`."""
    if classes is None:
        classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise ValueError(
            f"{type(estimator).__name__} must be a fitted classifier with classes_. Fit it or pass "
            "its labels as classes, or pass outcome_bounds for a regressor."
        )
    return public_labels("classes", classes)


def _response_method(estimator: Any, requested: str, n_labels: int) -> str:
    """Return the estimator's method for scores, or "predict" if no scores are used.

    Decision functions with more than two labels may compare pairs of labels, so they are used only
    on request.
    """
    if n_labels == 1 or requested == "predict":
        return "predict"
    if requested == "auto":
        methods = RESPONSE_METHODS if n_labels == 2 else RESPONSE_METHODS[:1]
        return next((name for name in methods if hasattr(estimator, name)), "predict")
    if not hasattr(estimator, requested):
        raise ValueError(
            f"response_method must be a method of the estimator, but {type(estimator).__name__} "
            f"has no {requested}."
        )
    return requested


def label_index(pos_label: Any, labels: list[Any]) -> int:
    """Return the index of `pos_label` in `labels`. None means the last label."""
    if pos_label is None:
        return len(labels) - 1
    if pos_label not in labels:
        raise ValueError(f"pos_label must be one of the labels {labels}; got {pos_label!r}.")
    return labels.index(pos_label)


def _read_groups(X: Any, X_public: Any, by: Any, by_values: Any) -> RowGroups | None:
    """Return the groups of `by`, or None. They depend on public values and names of columns."""
    if by is None:
        if by_values is not None:
            raise ValueError("by_values requires by, the column or the values that group the rows.")
        return None
    position = None
    if isinstance(by, str):
        position = _column_position("X", X, by)
        if by_values is None and X_public is not None:
            public_column = pick_column(X_public, _column_position("X_public", X_public, by))
            distinct = set(label_entries("X_public", public_column).tolist())
            by_values = sorted((value for value in distinct if value == value), key=str)
            by_values = [value for value in by_values if value is not None]
    elif is_streamed(X):
        raise ValueError("by must be the name of a column of X for streamed rows.")
    if by_values is None:
        raise ValueError(
            "by_values must list the public values of the groups, unless X_public has the column."
        )
    values = [value for value in public_labels("by_values", by_values) if value != OTHER_GROUP]
    if not is_streamed(X):
        check_label_kinds(values, by=by if position is None else pick_column(X, position))
    return RowGroups([*values, OTHER_GROUP], position)


def _column_position(name: str, X: Any, column: str) -> int:
    """Return the position of a named column of a frame or of streamed rows."""
    names = as_rows(X).names if is_streamed(X) else getattr(to_narwhals(X), "columns", ())
    names = [*map(str, names or ())]
    if column not in names:
        raise ValueError(f"by must be the name of a column of {name}; got {column!r}.")
    return names.index(column)


def _fixed_threshold(estimator: FixedThresholdClassifier, counter: LabelCounter) -> float | None:
    """Return the threshold that a fitted classifier applies to the counted scores, or None."""
    threshold = estimator.threshold
    if threshold == "auto" or estimator.response_method not in ("auto", counter.response):
        return None
    pos_label = counter.score_labels[1] if estimator.pos_label is None else estimator.pos_label
    if pos_label == counter.labels[counter.positive]:
        return float(threshold)
    return float(1 - threshold if counter.response == "predict_proba" else -threshold)


def _make_bins(
    noise: Noise,
    n: float,
    counter: LabelCounter,
    threshold: float | None,
    public_scores: Floats | None,
) -> ScoreBins:
    """Return the score bins of a counter.

    If `threshold` is None, it is 0.5 for probabilities or 0 for log-odds.
    """
    response = counter.response
    if response == "predict":
        return PREDICTED_LABEL_BINS
    if threshold is None:
        threshold = 0.5 if response == "predict_proba" else 0.0
    elif response == "predict_proba" and not 0 < threshold < 1:
        raise ValueError(f"threshold must be between 0 and 1 for probabilities; got {threshold!r}.")
    return make_score_bins(
        noise, n, response, float(threshold), counter.n_scored_labels, public_scores
    )
