"""Base class with the parameters and the fitting shared by both linear estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    check_parameters,
)
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.data.batch_predict import Rule
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.labels import TargetReader
from skpublicdp.data.schema import Column
from skpublicdp.linear.glm_loss import GLMLoss
from skpublicdp.linear.linear_fit import LinearModel, fit_linear
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget, make_stage_budget
from skpublicdp.rules.population_guarantee import NO_THEOREM, no_guarantee
from skpublicdp.typing import Floats

MAX_EXPLAINED = 10
"""Maximum number of coefficients that are listed in the description of a model."""


class SemiPrivateLinear(HTMLReprMixin, VersionedMixin, BaseEstimator):
    """Base class of linear models.

    The class reads the inputs of `fit`, runs `fit_linear`, and stores only released values.
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "delta": DELTA,
        "bounds": ["array-like", dict, None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

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

        Parameters
        ----------
        target_reader : TargetReader
            Reader that validates and encodes `y`.
        label_assumption : str
            Fact about the labels that may be known, to be listed in the receipt.
        has_intercept : bool, default=True
            Whether to fit an intercept.
        **inputs
            `X_public`, `y_public`, `is_public` and `groups`.
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
        budget = make_stage_budget(ledger)
        self._model = self._fit_model(data, ledger, budget, loss, has_intercept)
        self._schema = data.schema
        self.n_corrections_ = self._model.n_corrections
        self.coef_names_ = np.array(self._model.columns.names, dtype=object)
        self.guarantee_, self.guarantee_reason_ = no_guarantee(NO_THEOREM)
        public_facts = "the number of private rows and the types of the columns"
        if label_assumption:
            public_facts = (
                f"the number of private rows, the types of the columns and {label_assumption}"
            )
        self.privacy_ = ledger.receipt(
            assumptions=(f"{public_facts} may be known", *data.assumptions)
        )
        return data

    def _fit_model(
        self,
        data: Dataset,
        ledger: Ledger,
        budget: StageBudget,
        loss: GLMLoss,
        has_intercept: bool,
    ) -> LinearModel:
        """Release the sums of private rows, and return the coefficients."""
        return fit_linear(data, ledger, budget, loss, has_intercept=has_intercept)

    coef_: Floats
    intercept_: Any

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
        model, offsets = self._model, [column.offset for column in self._schema.columns]
        zero = np.array([float(offsets[source]) for source in model.columns.sources])
        is_number = np.array(model.columns.codes) < 0
        centre = model.columns.centre + np.where(is_number, zero, 0.0)
        intercept = model.intercept - model.coefficients @ centre
        return float(intercept) if np.ndim(intercept) == 0 else intercept

    def __sklearn_tags__(self) -> Any:
        """Declare that missing values, categories and strings are supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _margins(model: LinearModel, rows: Floats) -> Floats:
    """Return the margins of encoded rows. Each margin is a function of its row alone."""
    deviations = np.ascontiguousarray(model.columns.deviations(rows))
    if model.slopes.ndim == 1:
        return np.asarray(model.intercept + np.einsum("ij,j->i", deviations, model.slopes))
    sums = [np.einsum("ij,j->i", deviations, slopes) for slopes in model.slopes]
    return np.column_stack(sums) + model.intercept
