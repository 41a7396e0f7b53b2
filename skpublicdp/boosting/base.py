"""Base class with the parameters, fitting and explanations shared by both boosting estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    N_JOBS,
    SPENDING_PARAMETERS,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.boosting.covariate_shift import NO_DRIFT
from skpublicdp.boosting.explain import (
    LocalExplanation,
    Term,
    columns_of_trees,
    describe_pairs,
    describe_terms,
    describe_trees,
    explain_rows,
    label_suffixes,
    list_terms,
    shape_functions,
    source_importances,
)
from skpublicdp.boosting.fit import FitOptions, fit_boosting
from skpublicdp.boosting.fitted_model import FittedModel
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.boosting.public_model import PublicModelMixin, known_facts, model_lines
from skpublicdp.boosting.training_data import TrainingData, read_training_data
from skpublicdp.data.batch_predict import Rule, apply_rule
from skpublicdp.data.labels import TargetReader
from skpublicdp.data.schema import Column
from skpublicdp.data.tables import Table
from skpublicdp.exceptions import DriftWarning, warn
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.population_guarantee import NO_THEOREM, no_guarantee
from skpublicdp.typing import Integers

MAX_NAMED_COLUMNS = 3
"""Maximum number of columns that a `DriftWarning` names."""


class SemiPrivateBoosting(
    PublicModelMixin, ProgressMixin, HTMLReprMixin, VersionedMixin, BaseEstimator
):
    """Base class of boosting estimators.

    The class reads the inputs of `fit`, runs `fit_boosting`, and stores only released values.
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "delta": DELTA,
        "max_rounds": [Interval(Integral, 1, 1000, closed="both"), None],
        "bounds": ["array-like", dict, None],
        "monotonic_cst": ["array-like", dict, None],
        "public_model": [StrOptions({"auto"}), HasMethods("fit"), None],
        "n_jobs": N_JOBS,
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    intercept_: Any  # float, or ndarray of float64, shape (n_targets,)

    def _fit(
        self,
        target_reader: TargetReader,
        X: Any,
        y: Any,
        *,
        label_assumption: str = "",
        learning_rate: float | None = None,
        **inputs: Any,
    ) -> tuple[TrainingData, FittedModel]:
        """Fit the model, and set the attributes shared by the classifier and the regressor.

        The receipt lists `label_assumption`, a fact about the labels that may be known.
        """
        check_parameters(self)
        ledger = Ledger.from_estimator(self)
        training = read_training_data(
            self,
            X,
            y,
            target_reader,
            ledger=ledger,
            # voting trees can use labelled public rows only as training rows
            train_on_public_labels=self.method == "votes",
            **inputs,
        )
        directions = training.directions
        if directions is not None and training.classes is not None and len(training.classes) > 2:
            raise ValueError(
                "monotonic_cst is supported only for binary classification and regression; y has "
                f"{len(training.classes)} labels."
            )
        ledger.read(training.n_private, training.n_public)
        options = FitOptions(self.method, self.max_rounds, learning_rate, directions)
        fitted = fit_boosting(training, ledger, options)
        self._model, self._binner, self._loss = fitted.model, fitted.data.binner, fitted.loss
        self._public_term = fitted.public_term
        self.public_model_, self.public_weight_, self.linear_weight_ = None, 0.0, 0.0
        self.boosting_weight_ = fitted.boosting_weight
        term = fitted.public_term
        if term is not None and training.dataset is not None:
            self.linear_weight_ = term.weight
        elif term is not None:
            self.public_model_, self.public_weight_ = term.public.model.estimator, term.weight
        self._set_explanations(training, fitted)
        # without public rows, the statistic would compare the private rows with a reference grid
        drift = fitted.drift if training.n_joint_public else NO_DRIFT
        self.drift_ = drift.statistic
        self.drift_columns_ = drift.by_name(training.schema.names)
        self.guarantee_, self.guarantee_reason_ = no_guarantee(NO_THEOREM)
        self.privacy_ = ledger.receipt(
            assumptions=(
                known_facts(label_assumption),
                *training.assumptions,
                *model_lines(training.public_margins, self.budget),
            )
        )
        if drift.is_significant:
            warn(
                "The public rows appear to come from a different population than the private rows: "
                f"drift_ is {self.drift_:.1f}, compared with about 1 without a shift. "
                f"{_largest_drifts(self.drift_columns_)}The fit reweights the public rows or "
                "reduces their influence. For a better model, use public rows from the same "
                "population, and drop columns whose public and private values cannot overlap, such "
                "as row numbers.",
                DriftWarning,
            )
        return training, fitted

    def _set_explanations(self, training: TrainingData, fitted: FittedModel) -> None:
        """Set the attributes that explain the model in units of its output.

        The output scale is log-odds for classification, and the unit of the outcome for regression.
        """
        labels = training.classes
        if labels is None:
            labels = np.array(["lower", "higher"])
        unit, intercept = training.loss.output_scale(training.outcome_bounds)
        self._output_unit = unit
        self.shapes_, self.intercept_ = shape_functions(fitted, unit)
        if fitted.public_term is not None:
            self.intercept_ += fitted.public_term.public_means[:, 0] * (unit / MARGIN_UNIT)
        self.intercept_ = intercept + self.intercept_
        self.trees_ = describe_trees(fitted, labels, unit)
        self.pairs_ = describe_pairs(fitted, self.trees_)
        data = fitted.data
        importances = source_importances(fitted.model, data.binner, data.public_codes)
        term, dataset = fitted.public_term, training.dataset
        if term is not None and dataset is not None:
            linear = term.public.model.importances(dataset.X_public)
            importances = importances + term.weight * linear
        self.feature_importances_ = unit * importances

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        """Columns against which new tables are validated."""
        return self._binner.source_columns

    def _prediction_rule(self, f: Callable[[Integers], NDArray[Any]]) -> Rule:
        """Return a function that applies `f` to the margins of a table, to predict in batches."""
        check_is_fitted(self)
        margins = self._margins_rule()
        return lambda table: f(margins(table))

    def _margins_rule(self) -> Callable[[Table], Integers]:
        """Return a function that maps a table to integer margins, shape (n_targets, n)."""
        model, binner, term = self._model, self._binner, self._public_term
        if term is None:
            return lambda table: model.raw_predict(binner.codes(table))

        def margins(table: Table) -> Integers:
            """Return the sum of the contributions of the boosted and the public model."""
            rows = binner.encode_source(table)
            codes = binner.encoded_codes(binner.fold_rows(rows))
            return model.raw_predict(codes) + term.of_rows(rows)

        return margins

    def explain_local(self, X: Any) -> LocalExplanation:
        """Decompose each prediction into contributions of columns, pairs of columns and trees.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to explain.

        Returns
        -------
        LocalExplanation
            For a classifier, `intercept` and `contributions` add up exactly to `decision_function`.
            For a regressor, the same sum equals the result of `predict` before it is clipped to
            `outcome_bounds_`, or the logarithm of this result for ``loss="poisson"``. The text of
            the explanation lists the strongest contributions first. An explanation has no privacy
            cost for the private training rows, but it contains the
            rows of `X`.
        """
        check_is_fitted(self)
        binner, term, unit = self._binner, self._public_term, self._output_unit
        rows = apply_rule(self, X, binner.encode_source)
        of_public_model = None
        if term is not None:
            deviations = (term.of_rows(rows) - term.public_means).astype(np.float64)
            of_public_model = deviations * np.float64(unit / MARGIN_UNIT)
        return explain_rows(
            binner.encoded_codes(binner.fold_rows(rows)),
            self._model,
            self._terms(),
            self.shapes_,
            self.pairs_,
            self.trees_,
            np.atleast_1d(self.intercept_),
            of_public_model,
        )

    def _terms(self) -> tuple[Term, ...]:
        """Return the terms of the model, together with their importances."""
        columns = columns_of_trees(self._model)
        return list_terms(
            self.shapes_, self.pairs_, self.trees_, columns, self._public_term, self._output_unit
        )

    def _explain_as_text(self, target_name: str, labels: Sequence[str], decimals: int) -> str:
        """Return a text description of the intercepts and the strongest terms.

        Without public rows, the intercepts refer to rows of the data-independent grid.
        """
        intercepts = np.atleast_1d(self.intercept_)
        pairs = zip(intercepts, label_suffixes(labels), strict=True)
        base = ", ".join(f"{intercept:+.{decimals}f}{suffix}" for intercept, suffix in pairs)
        terms = describe_terms(
            self._terms(),
            shapes=self.shapes_,
            trees=self.trees_,
            model=self._model,
            labels=labels,
            decimals=decimals,
        )
        row = "public row" if self.privacy_.n_public else "row of the data-independent grid"
        return f"{target_name} of an average {row}: {base}; to it are added\n{terms}"


def _largest_drifts(columns: dict[str, float] | None) -> str:
    """Return a sentence that names the columns with the largest drift statistics."""
    if not columns:
        return ""
    mean = sum(columns.values()) / len(columns)
    largest = [f"{name} ({drift:.1f})" for name, drift in columns.items() if drift >= mean]
    return f"The columns that differ most are: {', '.join(largest[:MAX_NAMED_COLUMNS])}. "
