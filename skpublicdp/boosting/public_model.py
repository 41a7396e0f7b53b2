"""Public models, which are trained on public data and predict integer margins.

The privacy proof requires that the margin of a row depend only on that row and on public data.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.redaction import RefusedError, call_or_raise
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.data.schema import Schema
from skpublicdp.typing import Floats

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

    def margins_of_shares(self, shares: Floats) -> Floats:
        """Convert mean outcomes, scaled to [0, 1], to margins, shape (1, n)."""
        return self.loss.link(np.clip(shares, 0.0, 1.0))[None]


class PublicModel(ABC):
    """Model of public data whose margin for a row depends on this row alone."""

    @abstractmethod
    def predict_margins(self, rows: Floats) -> Floats:
        """Return the margins of rows in logits, shape (n_targets, n)."""

    @property
    @abstractmethod
    def estimator(self) -> Any:
        """The fitted estimator or estimators, which become `public_model_`."""


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
            return self.target.margins_of_shares(shares)
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
    together, apart = (
        to_integers(margins).astype(np.int64)
        for margins in (
            model.predict_margins(sample),
            np.hstack([model.predict_margins(part) for part in parts]),
        )
    )
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
