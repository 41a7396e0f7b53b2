"""Base class with the parameters and the fitting shared by both linear estimators."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t
from sklearn.base import BaseEstimator
from sklearn.utils import check_scalar
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.boosting.loss import LOGISTIC, SQUARED
from skpublicdp.boosting.public_model import (
    EstimatorModel,
    PublicModelMixin,
    TargetScale,
    check_classes,
    check_kind,
    check_rowwise,
    fitted_model_lines,
    in_container_of,
    is_fitted,
    known_facts,
)
from skpublicdp.data.batch_predict import Rule
from skpublicdp.data.container import Container
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.labels import TargetReader
from skpublicdp.data.schema import Column
from skpublicdp.linear.design_columns import ModelColumn
from skpublicdp.linear.glm_loss import GLMLoss, SoftmaxGLMLoss
from skpublicdp.linear.linear_fit import LinearModel, fit_linear
from skpublicdp.linear.softmax_fit import fit_softmax
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import make_stage_budget
from skpublicdp.rules.population_guarantee import NO_THEOREM, no_guarantee
from skpublicdp.typing import Floats

SQUARED_MARGIN_UNITS = 4
"""Difference of the margins of boosting between the two outcome bounds."""

MAX_EXPLAINED = 10
"""Maximum number of coefficients that are listed in the description of a model."""


class SemiPrivateLinear(
    PublicModelMixin, ProgressMixin, HTMLReprMixin, VersionedMixin, BaseEstimator
):
    """Base class of linear models.

    The class reads the inputs of `fit`, runs `fit_linear`, and stores only released values.
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "delta": DELTA,
        "bounds": ["array-like", dict, None],
        "public_model": [HasMethods("fit"), None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    def _fit(
        self,
        target_reader: TargetReader,
        loss: GLMLoss,
        X: Any,
        y: Any,
        *,
        label_assumption: str = "",
        has_intercept: bool = True,
        **inputs: Any,
    ) -> Dataset:
        """Fit the model, set the attributes shared by both estimators, and return the data set.

        The receipt lists `label_assumption`, a fact about the labels that may be known.
        """
        check_parameters(self)
        ledger = Ledger.from_estimator(self)
        data = read_fit_inputs(
            self,
            X,
            y,
            target_reader,
            ledger=ledger,
            nullable=True,
            use_reference=True,
            **inputs,
        )
        ledger.read(data.n_private, data.n_public)
        column, model_assumptions = self._model_column(data, inputs.get("X_public"))
        budget = make_stage_budget(ledger)
        # an estimator might store the rows that it predicts, so a copy predicts private rows
        copied = deepcopy(column)
        n_labels = 0 if data.targets.classes is None else len(data.classes)
        if n_labels > 2:
            softmax = SoftmaxGLMLoss(n_labels)
            model = fit_softmax(data, ledger, budget, softmax, has_intercept=has_intercept)
        else:
            model = fit_linear(
                data, ledger, budget, loss, has_intercept=has_intercept, model=copied
            )
        self._model = replace(model, columns=replace(model.columns, model=column))
        self._schema = data.schema
        self.n_corrections_ = self._model.n_corrections
        self.coef_names_ = np.array(self._model.columns.names, dtype=object)
        self.guarantee_, self.guarantee_reason_ = no_guarantee(NO_THEOREM)
        self.privacy_ = ledger.receipt(
            assumptions=(known_facts(label_assumption), *data.assumptions, *model_assumptions)
        )
        return data

    def _model_column(
        self, data: Dataset, X_public: Any
    ) -> tuple[ModelColumn | None, tuple[str, ...]]:
        """Return the column of `public_model`, and assumptions about the model."""
        if self.public_model is None:
            return None, ()
        classes, bounds = data.targets.classes, data.targets.bounds
        if classes is not None and len(classes) > 2:
            raise ValueError(
                f"public_model requires two labels or outcomes; y has {len(classes)} labels. "
                "Pass y_public, or use SemiPrivateBoostingClassifier."
            )
        target = TargetScale(classes, bounds, SQUARED if classes is None else LOGISTIC)
        check_kind(self.public_model, target)
        if not is_fitted(self.public_model):
            raise ValueError(
                "public_model must be fitted. If public rows have labels, pass y_public instead: "
                "their linear model is then the prior mean of the coefficients."
            )
        check_classes(self.public_model, target)
        model = EstimatorModel(self.public_model, in_container_of(X_public, data.schema), target)
        check_rowwise(model, data.X_public)
        low, high, zero, step, unit = -16.0, 16.0, 0.0, 1.0, 1.0
        if bounds is not None:
            low, high = bounds
            zero, unit = low / 2 + high / 2, high - low
            step = unit / SQUARED_MARGIN_UNITS
        column = ModelColumn(model.predict_margins, low, high, zero=zero, step=step, unit=unit)
        return column, fitted_model_lines(self.public_model, self.budget)

    coef_: Floats
    intercept_: Any
    public_model: Any

    def explain(self) -> str:
        """Describe the model as text.

        Returns
        -------
        str
            The intercept and the ten coefficients with the largest effect of one standard deviation
            of the public rows, followed by the number of the remaining ones. With more than two
            labels, there is one list per label. The text may be published.
        """
        check_is_fitted(self)
        slopes, coefficients = np.atleast_2d(self._model.slopes), np.atleast_2d(self.coef_)
        intercepts = np.atleast_1d(self.intercept_)
        descriptions = [
            self._describe(self._predicted_quantity(position), *margin)
            for position, margin in enumerate(zip(slopes, coefficients, intercepts, strict=True))
        ]
        return "\n".join(descriptions)

    def _describe(
        self, quantity: str, slopes: Floats, coefficients: Floats, intercept: float
    ) -> str:
        """Describe one row of coefficients."""
        ranking = np.argsort(-np.abs(slopes), kind="stable")
        ranking = ranking[slopes[ranking] != 0]
        lines = [f"{quantity}: {intercept:+.3g} if all columns are 0"]
        for index in ranking[:MAX_EXPLAINED]:
            lines.append(f"  {coefficients[index]:+.3g} × {self.coef_names_[index]}")
        n_remaining = len(ranking) - MAX_EXPLAINED
        if n_remaining > 0:
            lines.append(f"  ... ({n_remaining} smaller terms)")
        return "\n".join(lines)

    def coef_interval(self, level: float = 0.95) -> Floats:
        """Return confidence intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        ndarray of float64, shape (n_coefficients, 2)
            Lower and upper end for each name in `coef_names_`. Coefficients of columns that are
            constant in the public rows have NaN.

        Raises
        ------
        ValueError
            If `level` is invalid, or if intervals are not available. They require columns of
            numbers, at most 127 of them, 300 public rows and three per column, and enough private
            rows for every direction to be measured. They are not available for persons, nor for
            more than two labels.

        Notes
        -----
        The intervals have no additional privacy cost. They contain the sampling error of the
        private rows, the noise of the releases and the error of the public rows. Their centre is an
        estimate without a prior, which `summary` lists, since prior variances shrink `coef_`.
        Labels of public rows are not used.

        The intervals assume that the model holds, that private and public rows come from the same
        population, and that rows are independent.
        """
        check_is_fitted(self)
        check_scalar(level, "level", Real, min_val=0, max_val=1, include_boundaries="neither")
        estimate = self._model.estimate
        if isinstance(estimate, str):
            raise ValueError(f"Intervals of coefficients are not available, since {estimate}.")
        values, _, half_width = self._estimates(level)
        return np.column_stack([values - half_width, values + half_width])[1:]

    def summary(self, level: float = 0.95) -> Any:
        """Return a table of the coefficients, with standard errors and confidence intervals.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        DataFrame or dict of str to ndarray
            One row for the intercept, if there is one, and one per coefficient. With more than two
            labels, these are the rows of each label, named in the column ``label``. The columns are
            ``name``, ``coefficient`` (the value in `coef_`), ``estimate`` (without a prior),
            ``standard_error``, ``low`` and ``high``. Classifiers also have ``odds_ratio``,
            ``odds_ratio_low`` and ``odds_ratio_high``. If intervals are not available, the columns
            from ``estimate`` on are NaN, and `coef_interval` states the reason. The result is a
            frame of the same library as `X`, and a dict if `X` is an array.
        """
        check_is_fitted(self)
        check_scalar(level, "level", Real, min_val=0, max_val=1, include_boundaries="neither")
        values, deviations, half_width = self._estimates(level)
        names = np.array(["(intercept)", *self.coef_names_], dtype=object)
        intercepts = np.atleast_1d(self.intercept_)
        coefficients = np.column_stack([intercepts, np.atleast_2d(self.coef_)])
        columns: dict[str, NDArray[Any]] = {
            "name": np.tile(names, len(intercepts)),
            "coefficient": coefficients.ravel(),
            "estimate": values,
            "standard_error": deviations,
            "low": values - half_width,
            "high": values + half_width,
        }
        if self._has_odds:
            for name, column in zip(
                ("", "_low", "_high"), ("estimate", "low", "high"), strict=True
            ):
                with np.errstate(over="ignore"):
                    columns[f"odds_ratio{name}"] = np.exp(columns[column])
        if len(intercepts) > 1:
            columns = {"label": np.repeat(self.classes_, len(names)), **columns}
        if not self.fit_intercept:
            is_slope = np.tile(np.arange(len(names)) > 0, len(intercepts))
            columns = {name: column[is_slope] for name, column in columns.items()}
        library = self._schema.container.library
        if library is None:
            return columns
        return Container(library, tuple(columns)).build(list(columns.values()))

    fit_intercept: bool
    classes_: NDArray[Any]  # labels, which only classifiers have
    _has_odds = False  # whether coefficients are log-odds

    def _estimates(self, level: float) -> tuple[Floats, Floats, Floats]:
        """Return estimates without a prior, standard errors and half widths, intercept first."""
        estimate = self._model.estimate
        unit = self._margin_unit()
        n_coefficients = 1 + len(self.coef_names_)
        if isinstance(estimate, str):
            n_margins = np.size(self.intercept_)
            nothing = np.full(n_margins * n_coefficients, np.nan)
            return nothing, nothing, nothing
        is_constant = np.isinf(self._model.columns.scale)
        is_estimated = np.append(True, ~is_constant)
        pairs = np.ix_(is_estimated, is_estimated)
        # the intercept is the margin of a row whose columns are all 0
        to_zero = np.eye(n_coefficients)
        to_zero[0, 1:] = np.where(is_constant, 0, -self._centre())
        to_zero = to_zero[pairs]
        covariance = to_zero @ estimate.covariance[pairs] @ to_zero.T
        deviations = np.full(n_coefficients, np.nan)
        deviations[is_estimated] = unit * np.sqrt(np.diag(covariance))
        values = np.full(n_coefficients, np.nan)
        values[is_estimated] = unit * (to_zero @ estimate.coefficients[is_estimated])
        values[0] += self._margin_zero()
        quantiles = t.ppf((1 + level) / 2, estimate.degrees)
        return values, deviations, quantiles * deviations

    def _margin_unit(self) -> float:
        """Return the predicted quantity that a margin of 1 represents."""
        return 1.0

    def _margin_zero(self) -> float:
        """Return the predicted quantity that a margin of 0 represents."""
        return 0.0

    def _predicted_quantity(self, position: int) -> str:
        """Return the name of the quantity that a row of coefficients predicts."""
        raise NotImplementedError

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        """Columns against which new tables are validated."""
        return self._schema.columns

    def _prediction_rule(self, f: Callable[[Floats], NDArray[Any]]) -> Rule:
        """Return a function that applies `f` to the margins of a table, to predict in batches."""
        check_is_fitted(self)
        schema, model = self._schema, self._model
        return lambda table: f(_margins(model, schema.encode(table, clamp=False)))

    def _raw_intercept(self) -> Any:
        """Return the margin of a row whose columns are all 0, or one per label."""
        intercept = self._model.intercept - self._model.coefficients @ self._centre()
        return float(intercept) if np.ndim(intercept) == 0 else intercept

    def _centre(self) -> Floats:
        """Return the centre of the columns in the units of the user's table."""
        model, offsets = self._model, [column.offset for column in self._schema.columns]
        zero = np.array([float(offsets[source]) for source in model.columns.sources])
        # the predictions of a public model have no offset
        is_number = (np.array(model.columns.codes) < 0) & (np.array(model.columns.sources) >= 0)
        return np.asarray(model.columns.centre + np.where(is_number, zero, 0.0))


def _margins(model: LinearModel, rows: Floats) -> Floats:
    """Return the margins of encoded rows. Each margin is a function of its row alone."""
    deviations = np.ascontiguousarray(model.columns.deviations(rows))
    if model.slopes.ndim == 1:
        return np.asarray(model.intercept + np.einsum("ij,j->i", deviations, model.slopes))
    sums = [np.einsum("ij,j->i", deviations, slopes) for slopes in model.slopes]
    return np.column_stack(sums) + model.intercept
