"""The calibrated public model used by a fit, together with its margins on the public rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.default_public_model import DefaultPublicModel
from skpublicdp.boosting.public_labels import PublicLabels
from skpublicdp.boosting.public_model import (
    EstimatorModel,
    PublicModel,
    TargetScale,
    check_classes,
    check_kind,
    check_rowwise,
    is_fitted,
    to_integers,
)
from skpublicdp.data.schema import Schema
from skpublicdp.typing import Floats

N_FOLDS = 10
"""Number of folds for computing out-of-fold margins of the labelled public rows."""

MIN_LABELLED_ROWS = 30
"""Minimum number of labelled public rows for which ``"auto"`` fits a model."""

SLOPE_DEVIATION = 0.5
"""Prior standard deviation of the slope that relates public labels to out-of-fold margins. Its mean
is 1."""

MAX_SLOPE = 3.0
"""Largest slope."""


@dataclass(frozen=True, eq=False)
class PublicMargins:
    """Public model of a fit, calibrated to public labels, with its margins on the public rows."""

    model: PublicModel
    slope: float  # factor by which the margins are multiplied, estimated from public labels
    # (n_targets, m): margins on the public rows. If the model was fitted to the labelled rows,
    # their margins are out-of-fold.
    of_public: NDArray[np.int16]
    assumptions: tuple[str, ...] = ()  # assumptions about the model, listed in the receipt

    def margins(self, rows: Floats) -> NDArray[np.int16]:
        """Return the calibrated margins of encoded rows, in units of 1 / MARGIN_UNIT."""
        return to_integers(self.slope * self.model.predict_margins(rows))


def make_public_margins(
    parameter: Any,
    schema: Schema,
    binner: Binner,
    rows: Floats,
    public_labels: PublicLabels | None,
    target: TargetScale,
) -> PublicMargins | None:
    """Return the public model with its margins on the public rows, or None if there is no model.

    The result does not depend on private rows.

    Parameters
    ----------
    parameter : None, "auto" or estimator
        Value of the parameter `public_model`.
    rows : ndarray of float64, shape (m, n_source_columns)
        Encoded public rows of the user's table.
    public_labels : PublicLabels or None
        Labels or outcomes of public rows.
    target : TargetScale
        Labels or bounds.
    """
    if parameter is None:
        return None
    codes = None if public_labels is None else _outcome_codes(public_labels)
    if isinstance(parameter, str):  # "auto"
        if public_labels is None or codes is None or not _are_enough(codes, target):
            return None

        def fit_default(X: Floats, outcomes: Floats) -> PublicModel:
            """Return the default model, fitted to the labelled rows."""
            return DefaultPublicModel.fit(binner, X, outcomes, target)

        return _cross_fitted(fit_default, rows, public_labels, codes, target)
    check_kind(parameter, target)
    if is_fitted(parameter):
        model = EstimatorModel(parameter, schema, target)
        check_classes(parameter, target)
        check_rowwise(model, rows)
        margins = model.predict_margins(rows)
        slope = 1.0 if public_labels is None else _slope(margins, public_labels, target)
        assumption = (
            "public_model was made without the private rows, and its prediction for a row depends "
            "on this row alone"
        )
        return PublicMargins(model, slope, to_integers(slope * margins), (assumption,))
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
    assumption = "the prediction of public_model for a row depends on this row alone"
    return PublicMargins(result.model, result.slope, result.of_public, (assumption,))


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
        likelihood = log_likelihood(means, outcomes, is_regression=target.classes is None)
        return ((slope - 1) / SLOPE_DEVIATION) ** 2 / 2 - likelihood

    return float(minimize_scalar(loss, bounds=(0.0, MAX_SLOPE), method="bounded").x)


def log_likelihood(means: Floats, outcomes: Floats, *, is_regression: bool) -> float:
    """Return the log-likelihood of outcomes given their means, both of shape (n_targets, k).

    The likelihood is Bernoulli or multinomial for labels. For outcomes, the likelihood is normal,
    with the maximum likelihood estimate of the variance.
    """
    if is_regression:
        squared_errors = (outcomes - means) ** 2
        variance = max(float(squared_errors.mean()), 1e-12)
        return -outcomes.size / 2 * float(np.log(variance))
    if len(means) == 1:  # a row for each of the two labels
        means = np.vstack([1 - means, means])
        outcomes = np.vstack([1 - outcomes, outcomes])
    log_means = np.log(np.maximum(means, 1e-12))
    return float((outcomes * log_means).sum())
