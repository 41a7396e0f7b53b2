"""What boosting of labels and of outcomes have in common: parameters, stages, explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    N_JOBS,
    SPENDING_PARAMETERS,
    check_parameters,
)
from skpublicdp.boosting.explain import (
    columns_of_trees,
    explained_pairs,
    explained_trees,
    feature_importances,
    shape_functions,
)
from skpublicdp.boosting.fit import BoostingFit, FittedModel
from skpublicdp.boosting.local_explanation import LocalExplanation, explain_rows
from skpublicdp.boosting.monotone import validate_monotonic_cst
from skpublicdp.boosting.term_text import Term, describe_terms, list_terms
from skpublicdp.boosting.training_data import TrainingData, read_training_data
from skpublicdp.data.batch_predict import Rule, apply_rule
from skpublicdp.data.labels import TargetReader
from skpublicdp.data.schema import Column
from skpublicdp.exceptions import DriftWarning, TooFewRowsWarning, warn
from skpublicdp.ledger import Ledger
from skpublicdp.population_guarantee import NO_THEOREM, no_guarantee
from skpublicdp.typing import Integers


class SemiPrivateBoosting(HTMLReprMixin, BaseEstimator):
    """Reads rows, runs the stages and keeps what was released."""

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "delta": DELTA,
        "max_rounds": [Interval(Integral, 1, 1000, closed="both"), None],
        "bounds": ["array-like", dict, None],
        "monotonic_cst": ["array-like", dict, None],
        "n_jobs": N_JOBS,
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    # public rows are routed without being asked for: there is nothing else they could be meant for
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    protects_all_rows = True
    """Every row of `X` is private unless a mask says otherwise: it may be a base learner."""

    intercept_: float | NDArray[np.float64]

    def _learn(
        self,
        kind: TargetReader,
        stages: Callable[[BoostingFit], FittedModel],
        X: Any,
        y: Any,
        *,
        assumption: str = "",
        learning_rate: float | None = None,
        **given: Any,
    ) -> tuple[TrainingData, FittedModel]:
        """Spend the budget on the stages, and set all attributes but those of a kind of target.

        Parameters
        ----------
        kind : Kind
            How `y` is read.
        stages : callable
            Has a learner spend.
        X, y
            Rows.
        assumption : str
            What else may be known.
        learning_rate : float, optional
            Of votes.
        **given
            Public rows and persons.

        Returns
        -------
        rows : TrainingData
            What was read.
        learned : FittedModel
            What was learned.
        """
        check_parameters(self)
        ledger = Ledger.of(self)
        # votes, for two labels, know no other use of public ones
        rows = read_training_data(self, X, y, kind, together=self.method == "votes", **given)
        directions = validate_monotonic_cst(self.monotonic_cst, rows.schema)
        if directions is not None and rows.classes is not None and len(rows.classes) > 2:
            raise ValueError(
                f"monotonic_cst is for two labels and for outcomes; there are {len(rows.classes)} "
                "labels."
            )
        ledger.read(rows.n_private, rows.n_public)
        learner = BoostingFit(
            rows,
            ledger,
            max_rounds=self.max_rounds,
            learning_rate=learning_rate,
            directions=directions,
        )
        if learner.too_few_rows(self.method):
            expected = (
                "predictions close to chance"
                if rows.public_labels is None
                else "predictions no better than those of a model of the labelled public rows"
            )
            warn(
                f"For {rows.n_private} private rows at epsilon = {float(ledger.epsilon):g} the "
                "noise is larger than the strongest effect that a column can have, so expect "
                f"{expected} (privacy is unaffected); use more rows or fewer columns.",
                TooFewRowsWarning,
            )
        learned = stages(learner)
        unit, labels = 1.0, rows.classes
        if rows.outcome_bounds is not None:
            low, high = rows.outcome_bounds
            unit, labels = (high - low) / 4, np.array(["lower", "higher"])
        assert labels is not None
        model, self._binner = learned.model, learned.data.binner
        self._model, self._loss = model, learned.loss
        self.shapes_, self.intercept_ = shape_functions(learned, unit)
        self.trees_ = explained_trees(learned, labels, unit)
        self.pairs_ = explained_pairs(learned, self.trees_)
        self.feature_importances_ = unit * feature_importances(model, learned.data.public_codes)
        # a mere reference is unlike any rows
        self.drift_ = learned.drift if rows.n_public else None
        self.guarantee_, self.guarantee_reason_ = no_guarantee(NO_THEOREM)
        self.privacy_ = ledger.receipt(
            assumptions=(
                f"the number of private rows, the types of the columns{assumption} may be known",
                *rows.assumptions,
            )
        )
        if learned.drifted and rows.n_public:
            warn(
                f"The public rows look unlike the private ones (drift_ is {self.drift_:.1f}, about "
                "1 is expected), so they are reweighed or trusted less; public rows of the same "
                "population give better models.",
                DriftWarning,
            )
        return rows, learned

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        return tuple(feature.column for feature in self._binner.columns)

    def _of_margins(self, f: Callable[[Integers], NDArray[Any]]) -> Rule:
        """Return the rule that makes predictions of margins."""
        check_is_fitted(self)
        model, features = self._model, self._binner
        return lambda table: f(model.raw_predict(features.codes(table)))

    def explain_local(self, X: Any) -> LocalExplanation:
        """Say what each column, pair of columns and tree adds to what is predicted of rows.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        LocalExplanation
            With `contributions` to `intercept`, which add up: to what `decision_function` returns,
            exactly; or to what `predict` of a regressor returns before it is clipped to
            `outcome_bounds_`. Printed, it lists the strongest first. It tells nothing of private
            rows that predictions do not; but the rows that are given are in it.
        """
        check_is_fitted(self)
        return explain_rows(
            apply_rule(self, X, self._binner.codes),
            self._model,
            self._terms(),
            self.shapes_,
            self.pairs_,
            self.trees_,
            np.atleast_1d(self.intercept_),
        )

    def _terms(self) -> tuple[Term, ...]:
        return list_terms(self.shapes_, self.pairs_, self.trees_, columns_of_trees(self._model))

    def _in_words(self, adds_to: str, labels: Sequence[str], decimals: int) -> str:
        intercepts = np.atleast_1d(self.intercept_)
        named = [f" for {label}" * bool(label) for label in labels]
        base = ", ".join(f"{i:+.{decimals}f}{n}" for i, n in zip(intercepts, named, strict=True))
        return f"{adds_to} of an average public row: {base}; to it are added\n" + describe_terms(
            self._terms(),
            self.shapes_,
            self.trees_,
            self._model,
            labels,
            decimals,
        )

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that missing values and categories are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
