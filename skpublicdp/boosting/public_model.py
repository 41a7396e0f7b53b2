"""Public models: the user's or the default one, and their margins on public and private rows."""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import unwrap_pipeline
from skpublicdp._internal.redaction import RefusedError, call_or_raise
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.boosting.additive_posterior import PublicLabels
from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.data.one_hot import fold_rows
from skpublicdp.data.schema import Schema
from skpublicdp.data.tables import Table, is_frame
from skpublicdp.typing import Floats, Mask

MIN_PROBABILITY = 0.005
"""Lower bound to which a public model's probabilities are clipped, for two labels."""

MIN_PROBABILITY_SEVERAL = 0.01
"""Lower bound to which a public model's probabilities are clipped, for more than two labels."""


ROWWISE_SAMPLE, N_SINGLE_ROWS = 64, 4
"""Number of public rows that are used to check whether predictions depend on other rows, and number
of these rows that are predicted individually. Both limits keep the run time short."""

EXTREME_NUMBER = 1e30
"""Value of every column in an extreme row, whose presence must not change the predictions for other
rows."""


@dataclass(frozen=True, eq=False)
class TargetScale:
    """Target of a public model, consisting of the labels or outcome bounds and the loss."""

    classes: NDArray[Any] | None  # sorted labels, or None for a regression
    # the two outcomes that are encoded as 0 and 1, or None for labels
    bounds: tuple[float, float] | None
    loss: Loss

    def margins_of_probabilities(self, probabilities: Floats) -> Floats:
        """Convert clipped probabilities to margins in logits, shape (n_targets, n)."""
        if self.loss.n_targets == 1:
            second = np.clip(probabilities[:, 1], MIN_PROBABILITY, 1 - MIN_PROBABILITY)
            margins: Floats = np.log(second) - np.log1p(-second)
            return margins[None]
        return np.log(np.maximum(probabilities.T, MIN_PROBABILITY_SEVERAL))


class PublicModel(ABC):
    """Model whose margin for a row depends on this row alone, and which is public or released."""

    name = "public model"  # name of its term in explanations

    @abstractmethod
    def predict_margins(self, rows: Floats) -> Floats:
        """Return the margins of rows in logits, shape (n_targets, n)."""

    @property
    @abstractmethod
    def estimator(self) -> Any:
        """The fitted estimator or estimators, which become `public_model_`."""

    def importances(self, rows: Floats) -> Floats:
        """Return the importance of each column of encoded rows, or zeros if it is unknown."""
        return np.zeros(rows.shape[1])


@dataclass(frozen=True, eq=False)
class EstimatorModel(PublicModel):
    """Public model that applies the user's estimator to decoded rows."""

    fitted: Any
    schema: Schema
    target: TargetScale  # target of the margins

    @property
    def estimator(self) -> Any:
        """The estimator."""
        return self.fitted

    def predict_margins(self, rows: Floats) -> Floats:
        """Return the margins of rows. Error messages never quote a row."""
        if not len(rows):
            return np.empty((self.target.loss.n_targets, 0))
        refusal = RefusedError(
            "public_model cannot predict some rows. It must accept any row with the columns of X, "
            'including the category "(other)", which replaces categories that do not occur in the '
            'public rows, and "(missing)", which replaces missing categories. For example, use '
            "OneHotEncoder(handle_unknown='ignore')."
        )
        margins: Floats = call_or_raise(self.margins_of_rows, rows, error=refusal)
        if not np.isfinite(margins).all():
            raise refusal
        return margins

    def margins_of_rows(self, rows: Floats) -> Floats:
        """Return the margins of one or more rows, in logits. Error messages can quote the rows."""
        X = self.schema.decode_rowwise(rows)
        classes = self.target.classes
        if classes is None:
            assert self.target.bounds is not None
            low, high = self.target.bounds
            outcomes = np.asarray(self.fitted.predict(X), dtype=np.float64)
            shares = (outcomes.reshape(len(rows)) - low) / (high - low)
            return self.target.loss.margins_of_means(shares[None])
        if not hasattr(self.fitted, "predict_proba"):
            scores = np.asarray(self.fitted.decision_function(X), dtype=np.float64)
            if len(classes) == 2:
                scores = np.column_stack([np.zeros(len(rows)), scores])
            exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
            probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        else:
            probabilities = np.asarray(self.fitted.predict_proba(X), dtype=np.float64)
        by_class = columns_of_classes(probabilities, self.fitted.classes_, classes)
        return self.target.margins_of_probabilities(by_class)


def columns_of_classes(probabilities: Floats, of: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """Return probabilities for each of `classes`, with zeros for labels that are not in `of`."""
    columns = np.zeros((len(probabilities), len(classes)))
    columns[:, np.searchsorted(classes, of)] = probabilities
    return columns


def to_integers(margins: Floats) -> NDArray[np.int16]:
    """Convert margins to integers in units of 1 / MARGIN_UNIT, clipped to ±16 logits."""
    return np.rint(MARGIN_UNIT * np.clip(margins, -16.0, 16.0)).astype(np.int16)


class FittedModelMixin:
    """Mixin of estimators whose copies share a fitted `public_model`."""

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy of the estimator that keeps a fitted `public_model`."""
        estimator: Any = self
        parameters = {
            name: value if name == "public_model" and is_fitted(value) else clone(value, safe=False)
            for name, value in estimator.get_params(deep=False).items()
        }
        copied = type(estimator)(**parameters)
        if hasattr(estimator, "_metadata_request"):  # set by `set_fit_request`
            copied._metadata_request = copy.deepcopy(estimator._metadata_request)
        return copied


class PublicModelMixin(FittedModelMixin):
    """Mixin of estimators of tables of all kinds that have a `public_model`."""

    # these arguments are requested by default, since no other step of a pipeline could use public
    # rows
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    protects_all_rows = True
    """As base learners require, every row of `X` is private unless `is_public` marks it as
    public."""

    def __sklearn_tags__(self) -> Any:
        """Declare that missing values, categories and strings are supported."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def known_facts(label_assumption: str) -> str:
    """Return the receipt's line about public facts, given what is assumed of the labels."""
    facts = "the number of private rows and the types of the columns"
    if label_assumption:
        facts = f"the number of private rows, the types of the columns and {label_assumption}"
    return f"{facts} may be known"


def in_container_of(X_public: Any, schema: Schema) -> Schema:
    """Return the schema with the data frame library of `X_public`, if it is a data frame.

    As a result, a public model receives the same kind of table whether `X` is in memory or
    streamed.
    """
    if X_public is None or not is_frame(X_public):
        return schema
    library = Table(X_public).container.library
    return replace(schema, container=replace(schema.container, library=library))


def check_kind(estimator: Any, target: TargetScale) -> None:
    """Raise an error if the estimator does not support this kind of target."""
    methods = ("predict_proba", "decision_function")
    is_suitable = any(hasattr(estimator, method) for method in methods)
    needed = "a classifier with predict_proba or decision_function"
    if target.classes is None:
        is_suitable = hasattr(estimator, "predict") and not is_suitable
        needed = "a regressor with predict"
    if not is_suitable:
        raise ValueError(
            f"public_model must be {needed}, None or 'auto'; got {type(estimator).__name__}."
        )


ROW_ALONE = "its prediction for a row depends on this row alone"


def model_lines(public_margins: PublicMargins | None, budget: Any) -> tuple[str, ...]:
    """Return the receipt lines about a public model of the user's class."""
    model = None if public_margins is None else public_margins.model
    if public_margins is None or not isinstance(model, EstimatorModel):
        return ()
    if not public_margins.is_given:
        return (f"public_model: {ROW_ALONE}",)
    return fitted_model_lines(model.estimator, budget)


def fitted_model_lines(estimator: Any, budget: Any) -> tuple[str, ...]:
    """Return the receipt lines about a public model that was fitted before.

    A private fit of this package is an earlier result of an adaptive sequence, so its rows may be
    the private rows (docs/proofs/moments.md). The budget states whether it adds up both fits.
    """
    learner, steps, searches = unwrap_pipeline(estimator)
    receipt = getattr(learner, "privacy_", None)
    # `transformer_` marks a `PublicFit`, which is fitted to public rows only
    is_covered = not searches and all(hasattr(step, "transformer_") for _, step in steps)
    is_covered &= getattr(learner, "_receipt_covers_estimator", True)
    if not isinstance(receipt, PrivacyReceipt) or not is_covered:
        return (f"public_model was made without the private rows, and {ROW_ALONE}",)
    line = f"public_model is a private fit with (ε, δ) = ({receipt.epsilon:g}, {receipt.delta:g}), "
    if receipt.protects == "rows":
        line += "which adds up with this fit for everybody whose rows are in both"
    else:
        line += (
            f"which protects {receipt.protects} only and adds up with this fit for what both "
            "protect; nothing else of its rows is protected"
        )
    if budget is not None:
        # entries of two budgets can be equal
        adds_up = budget._adds_up_with(getattr(learner, "budget", None))
        # a private estimator of `LabelPrivateClassifier` is charged itself
        charged = getattr(learner, "_charged_estimator", learner)
        is_counted = adds_up and any(
            (entry.number, entry.who, entry.event, entry.n_rows)
            == (receipt.entry, type(charged).__name__, receipt.event, receipt.n_private)
            for entry in budget.ledger
        )
        line += (
            f"; both are entries of the same budget (that of public_model is {receipt.entry})"
            if is_counted
            else "; the budget of this fit does not contain it"
        )
    earlier = (
        f"public_model: its receipt assumes that {assumption}"
        for assumption in receipt.assumptions
        if assumption.startswith("public_model")
    )
    unit = f"public_model: its unit of privacy is to {receipt.unit}"
    if not receipt.secure_randomness:
        unit += ", and its noise was seeded, which does not protect against those who know the seed"
    return line, unit, *earlier, f"public_model: {ROW_ALONE}"


def is_fitted(estimator: Any) -> bool:
    """Indicate whether an estimator is fitted."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError, AttributeError):  # or not an estimator at all
        return False
    return True


def check_classes(estimator: Any, target: TargetScale) -> None:
    """Raise an error if a fitted classifier has labels that do not occur in the target."""
    if target.classes is None:
        return
    known = np.asarray(getattr(estimator, "classes_", []))
    if len(known) < 2 or not set(known.tolist()) <= set(target.classes.tolist()):
        got = ", ".join(map(repr, known.tolist()[:10])) or "none"
        raise ValueError(
            "public_model must be a classifier whose classes_ are at least two of the labels of "
            f"this fit; got {got}. Fit public_model to labels of the same form as those in y."
        )


def check_rowwise(model: EstimatorModel, rows: Floats) -> None:
    """Raise an error if prediction fails, or if a row's margin depends on other rows."""
    sample = rows[:: max(1, len(rows) // ROWWISE_SAMPLE)][:ROWWISE_SAMPLE]
    try:
        model.margins_of_rows(sample)
    except Exception as error:  # the error may be shown, since it only concerns public rows
        kind = type(model.schema.decode_rowwise(sample))
        raise ValueError(
            "public_model cannot predict the public rows, which have the columns of X and are "
            f"passed as {kind.__module__.partition('.')[0]}.{kind.__name__}. Fit public_model on "
            "rows of this form."
        ) from error
    half = len(sample) // 2
    parts = [sample[[i]] for i in range(min(N_SINGLE_ROWS, half))]
    parts += [sample[len(parts) : half], sample[half:]]
    together = to_integers(model.predict_margins(sample)).astype(np.int64)
    margins_apart = np.hstack([model.predict_margins(part) for part in parts])
    apart = to_integers(margins_apart).astype(np.int64)
    beside_others = [apart]
    with contextlib.suppress(Exception):  # estimators may reject such numbers
        extreme = np.where(model.schema.numeric, EXTREME_NUMBER, sample[:1])
        margins = model.margins_of_rows(np.vstack([sample, extreme]))
        beside_others.append(to_integers(margins[:, : len(sample)]).astype(np.int64))
    if any((np.abs(together - others) > 1).any() for others in beside_others):  # 1 for rounding
        raise ValueError(
            "public_model must predict each row independently of the others, but its prediction "
            "for some public rows depends on other rows. Remove any step that computes statistics "
            "of the rows to be predicted."
        )


MAX_NUMBER = 1e300
"""Upper limit to which numbers are clipped, because gradient boosting does not accept infinity."""

MAX_CUT = 1e150
"""Bound on the cuts to which the linear model clips numbers, so that their squares remain
finite."""


MAX_STANDARDISED = 1e30
"""Bound on standardised numbers, because forests compute in single precision."""


@dataclass(frozen=True, eq=False)
class DefaultPublicModel(PublicModel):
    """Weighted sum of the margins of three models of public rows.

    Gradient boosting finds interactions, a linear model needs few rows, and a forest averages trees
    that are deeper than those of gradient boosting.
    """

    trees: Any  # fitted gradient boosting
    linear: Any  # fitted linear model of standardised columns
    forest: Any  # fitted forest of standardised columns, or None for a fold
    weights: Floats  # (n_members,)
    binner: Binner
    # (n_columns,): whether a column had values in the training data of gradient boosting. Columns
    # that had no values are ignored.
    has_values: Mask
    # (n_design_columns,): means and standard deviations of the columns of the design
    centres: Floats
    widths: Floats
    target: TargetScale  # target of the margins

    @property
    def estimator(self) -> Any:
        """All estimators."""
        return self.trees, self.linear, self.forest

    @classmethod
    def fit(
        cls,
        binner: Binner,
        rows: Floats,  # (m, n_source_columns)
        outcomes: Floats,  # (m,)
        target: TargetScale,
        has_forest: bool = True,
    ) -> DefaultPublicModel:
        """Return the model with equal weights, after fitting it to the labelled public rows.

        Outcomes are label codes, or numbers between 0 and 1.
        """
        features = _tree_features(binner, rows)
        has_values: Mask = ~np.all(np.isnan(features), axis=0)
        features[:, ~has_values] = 0.0  # gradient boosting does not accept columns without values
        is_categorical = [bins.column.categorical for bins in binner.columns]
        trees, linear, forest = target.loss.public_estimators(
            learning_rate=0.07,
            max_iter=40,
            max_leaf_nodes=8,
            min_samples_leaf=10,
            categorical_features=is_categorical if any(is_categorical) else None,
            early_stopping=False,
            random_state=0,
        )
        trees.fit(features, outcomes)
        design = _linear_design(binner, rows)
        centres, widths = design.mean(axis=0), design.std(axis=0)
        widths[widths == 0] = 1.0
        standardised = _standardised(design, centres, widths)
        linear.fit(standardised, outcomes)
        fitted_forest = forest.fit(standardised, outcomes) if has_forest else None
        equal = np.full(3, 1 / 3)
        return cls(trees, linear, fitted_forest, equal, binner, has_values, centres, widths, target)

    def predict_margins(self, rows: Floats) -> Floats:
        """For each row, return the weighted sum of the margins of the models."""
        margins = np.zeros((self.target.loss.n_targets, len(rows)))
        if len(rows):
            for weight, member in zip(self.weights, self.margins_of_members(rows), strict=True):
                margins += weight * member
        return margins

    def margins_of_members(self, rows: Floats) -> list[Floats]:
        """Return the margins of one or more rows according to each model."""
        features = _tree_features(self.binner, rows)
        features[:, ~self.has_values] = 0.0
        design = _linear_design(self.binner, rows)
        standardised = _standardised(design, self.centres, self.widths)
        scores = self._linear_scores(standardised)
        has_forest = self.forest is not None
        if self.target.classes is None:
            loss = self.target.loss
            margins = [loss.margins_of_means(self.trees.predict(features)[None])]
            margins.append(loss.margins_of_linear_model(scores))
            if has_forest:
                means = self.forest.predict(standardised)
                margins.append(loss.margins_of_means(means[None]))
            return margins

        if len(scores) == 1:
            scores = np.array([np.zeros(len(rows)), scores[0]])
        exponentials = np.exp(scores - scores.max(axis=0))
        total = np.zeros(len(rows))
        for exponential in exponentials:  # in a fixed order, independent of the row's position
            total += exponential
        shares = (exponentials / total).T
        members = [(self.trees, self.trees.predict_proba(features)), (self.linear, shares)]
        if has_forest:
            members.append((self.forest, self.forest.predict_proba(standardised)))
        return [self._margins_of_classes(model, shares) for model, shares in members]

    def out_of_bag_margins(self) -> Floats:
        """Return the margins of the training rows according to trees fitted without these rows."""
        if self.target.classes is None:
            return self.target.loss.margins_of_means(self.forest.oob_prediction_[None])
        return self._margins_of_classes(self.forest, self.forest.oob_decision_function_)

    def _margins_of_classes(self, model: Any, probabilities: Floats) -> Floats:
        """Return margins for all classes, given the probabilities of the classes of a model."""
        assert self.target.classes is not None
        known_classes = np.asarray(model.classes_, dtype=np.intp)
        columns = columns_of_classes(
            probabilities, known_classes, np.arange(len(self.target.classes))
        )
        return self.target.margins_of_probabilities(columns)

    def _linear_scores(self, standardised: Floats) -> Floats:
        """Return the scores of the linear model, shape (n_scores, n).

        The products are added column by column, so that the score of a row does not depend on its
        position. A matrix product would not guarantee this.
        """
        coefficients = np.atleast_2d(self.linear.coef_)
        intercepts = np.atleast_1d(self.linear.intercept_)
        n = len(standardised)
        scores = np.repeat(intercepts[:, None].astype(np.float64), n, axis=1)
        for values, weights in zip(standardised.T, coefficients.T, strict=True):
            scores += weights[:, None] * values
        return scores


def _standardised(design: Floats, centres: Floats, widths: Floats) -> Floats:
    """Return the columns of a design, standardised and bounded."""
    return np.clip((design - centres) / widths, -MAX_STANDARDISED, MAX_STANDARDISED)


def _tree_features(binner: Binner, rows: Floats) -> Floats:
    """Return the input of gradient boosting: the numbers and category bins of folded columns."""
    folded = fold_rows([bins.column for bins in binner.columns], rows)
    features = np.clip(folded, -MAX_NUMBER, MAX_NUMBER)
    for position, bins in enumerate(binner.columns):
        if bins.column.categorical:
            features[:, position] = bins.encoded_codes(features[:, position])
    return features


def _linear_design(binner: Binner, rows: Floats) -> Floats:
    """Return the input of the linear model: the clipped numbers and category indicators.

    Numbers are clipped to the outermost cuts of their column, because outliers would otherwise have
    an unbounded effect. Missing numbers are replaced by the middle cut.
    """
    folded = fold_rows([bins.column for bins in binner.columns], rows)
    columns = []
    for bins, values in zip(binner.columns, folded.T, strict=True):
        if bins.column.categorical:
            codes = bins.encoded_codes(values)
            columns += [codes == code for code in range(bins.size - 1)]
            continue
        cuts = bins.cuts[np.abs(bins.cuts) < MAX_CUT]
        if len(cuts):
            is_missing = np.isnan(values)
            numbers = np.where(is_missing, cuts[len(cuts) // 2], values)
            columns += [np.clip(numbers, cuts[0], cuts[-1]), is_missing]
    if not columns:
        return np.zeros((len(rows), 1))
    return np.column_stack(columns).astype(np.float64)


N_FOLDS = 5
"""Number of folds for computing out-of-fold margins of the labelled public rows."""

MIN_LABELLED_ROWS = 30
"""Minimum number of labelled public rows for which ``"auto"`` fits a model."""

SLOPE_DEVIATION = 0.5
"""Prior standard deviation of the slope that relates public labels to out-of-fold margins. Its mean
is 1."""

MAX_SLOPE = 3.0
"""Largest slope, and largest weight of a member of the default public model."""

WEIGHT_DEVIATION = 0.25
"""Prior standard deviation of the weight of a member of the default public model, whose mean is 1/3
(ablation: "public model")."""


@dataclass(frozen=True, eq=False)
class PublicMargins:
    """Public model of a fit, calibrated to public labels, with its margins on the public rows."""

    model: PublicModel
    slope: float  # factor by which the margins are multiplied, estimated from public labels
    # (n_targets, m): margins on the public rows. If the model was fitted to the labelled rows,
    # their margins are out-of-fold.
    of_public: NDArray[np.int16]
    is_given: bool = False  # whether the user fitted the model

    def margins(self, rows: Floats) -> NDArray[np.int16]:
        """Return the calibrated margins of encoded rows, in units of 1 / MARGIN_UNIT."""
        return to_integers(self.slope * self.model.predict_margins(rows))


def make_public_margins(
    parameter: Any,
    schema: Schema,
    binner: Binner,
    rows: Floats,  # (m, n_source_columns)
    public_labels: PublicLabels | None,
    target: TargetScale,
) -> PublicMargins | None:
    """Return the public model with its margins on the public rows, or None if there is no model.

    The result does not depend on private rows.
    """
    if parameter is None:
        return None
    codes = None if public_labels is None else _outcome_codes(public_labels)
    if isinstance(parameter, str):  # "auto"
        if public_labels is None or codes is None or not _are_enough(codes, target):
            return None

        return _stacked(binner, rows, public_labels, codes, target)
    check_kind(parameter, target)
    if is_fitted(parameter):
        model = EstimatorModel(parameter, schema, target)
        check_classes(parameter, target)
        check_rowwise(model, rows)
        margins = model.predict_margins(rows)
        slope = 1.0 if public_labels is None else _slope(margins, public_labels, target)
        return PublicMargins(model, slope, to_integers(slope * margins), is_given=True)
    if public_labels is None or codes is None:
        raise ValueError(
            "public_model is not fitted, and there are no labelled public rows to fit it on. Fit "
            "it on public data first, or pass y_public."
        )

    def fit_clone(X: Floats, outcomes: Floats) -> PublicModel:
        """Return a clone of the estimator, fitted to the labelled rows."""
        y: NDArray[Any] = outcomes
        if target.classes is not None:
            y = target.classes[outcomes.astype(np.intp)]
        elif target.bounds is not None:
            low, high = target.bounds
            y = low + (high - low) * outcomes
        fitted = clone(parameter).fit(schema.decode_rowwise(X), y)
        return EstimatorModel(fitted, schema, target)

    result = _cross_fitted(fit_clone, rows, public_labels, codes, target)
    assert isinstance(result.model, EstimatorModel)
    check_rowwise(result.model, rows)
    return PublicMargins(result.model, result.slope, result.of_public)


def _outcome_codes(public_labels: PublicLabels) -> Floats:
    """Return label codes, or outcomes between 0 and 1, shape (k,)."""
    outcomes = public_labels.outcomes
    return outcomes[0] if len(outcomes) == 1 else outcomes.argmax(axis=0).astype(float)


def _are_enough(codes: Floats, target: TargetScale) -> bool:
    """Indicate whether there are enough labelled rows, and at least two labels, to fit a model."""
    if len(codes) < MIN_LABELLED_ROWS:
        return False
    if target.classes is None:
        return bool(np.ptp(codes) > 0)
    counts = np.bincount(codes.astype(np.intp))
    return int((counts >= 2).sum()) >= 2


def _cross_fitted(
    fit: Callable[[Floats, Floats], PublicModel],
    rows: Floats,
    public_labels: PublicLabels,
    codes: Floats,  # (k,)
    target: TargetScale,
) -> PublicMargins:
    """Return a model fitted to all labelled rows, and out-of-fold margins for these rows."""
    labelled = rows[public_labels.rows]
    model = fit(labelled, codes)
    margins = model.predict_margins(rows)
    out_of_fold = np.empty((target.loss.n_targets, len(codes)))
    folds = make_folds(codes)
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold
        is_fitted_to = ~is_held_out
        fold_model = fit(labelled[is_fitted_to], codes[is_fitted_to])
        out_of_fold[:, is_held_out] = fold_model.predict_margins(labelled[is_held_out])
    margins[:, public_labels.rows] = out_of_fold
    slope = _slope(margins, public_labels, target)
    return PublicMargins(model, slope, to_integers(slope * margins))


def _stacked(
    binner: Binner,
    rows: Floats,
    public_labels: PublicLabels,
    codes: Floats,  # (k,)
    target: TargetScale,
) -> PublicMargins:
    """Return the default model, with weights that suit held-out labels, and its margins."""
    labelled = rows[public_labels.rows]
    model = DefaultPublicModel.fit(binner, labelled, codes, target)
    out_of_fold = np.empty((3, target.loss.n_targets, len(codes)))
    out_of_fold[2] = model.out_of_bag_margins()  # saves the time of fitting a forest to each fold
    folds = make_folds(codes)
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold
        fold_model = DefaultPublicModel.fit(
            binner, labelled[~is_held_out], codes[~is_held_out], target, has_forest=False
        )
        out_of_fold[:2, :, is_held_out] = fold_model.margins_of_members(labelled[is_held_out])

    def loss(weights: Floats) -> float:
        """Return the negative log posterior density of weights."""
        of_labelled = np.tensordot(weights, out_of_fold, axes=1)
        means = target.loss.mean(to_integers(of_labelled).astype(np.int64))
        likelihood = target.loss.log_likelihood(means, public_labels.outcomes)
        distances = (weights - model.weights) / WEIGHT_DEVIATION
        return float((distances**2).sum() / 2 - likelihood)

    bounds = [(0.0, MAX_SLOPE)] * 3
    weights = minimize(loss, model.weights, method="Powell", bounds=bounds).x
    model = replace(model, weights=weights)
    margins = model.predict_margins(rows)
    margins[:, public_labels.rows] = np.tensordot(weights, out_of_fold, axes=1)
    return PublicMargins(model, 1.0, to_integers(margins))


def make_folds(codes: Floats) -> NDArray[np.intp]:
    """Assign each labelled row to a fold. Labels or outcomes are spread evenly over the folds."""
    order = np.lexsort((np.random.default_rng(0).random(len(codes)), codes))
    folds = np.empty(len(codes), dtype=np.intp)
    folds[order] = np.arange(len(codes)) % min(N_FOLDS, len(codes))
    return folds


def _slope(margins: Floats, public_labels: PublicLabels, target: TargetScale) -> float:
    """Return the posterior mode of the factor by which margins are multiplied."""
    of_labelled, outcomes = margins[:, public_labels.rows], public_labels.outcomes

    def loss(slope: float) -> float:
        """Return the negative log posterior density of a slope."""
        means = target.loss.mean(to_integers(slope * of_labelled).astype(np.int64))
        likelihood = target.loss.log_likelihood(means, outcomes)
        return ((slope - 1) / SLOPE_DEVIATION) ** 2 / 2 - likelihood

    return float(minimize_scalar(loss, bounds=(0.0, MAX_SLOPE), method="bounded").x)
