"""`PrivateColumnsRegressor`, for tables in which the outcomes and some columns are public."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, is_regressor
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import (
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
)
from skpublicdp.base_learner import DelegatingClassifier, available_if_inner_has
from skpublicdp.boosting.loss import SQUARED
from skpublicdp.boosting.public_model import TargetScale
from skpublicdp.boosting.training_data import LossTarget
from skpublicdp.data.labels import Targets, check_length
from skpublicdp.data.outcomes import RegressionTarget
from skpublicdp.data.tables import Table
from skpublicdp.label_privacy.classifier import is_private_estimator
from skpublicdp.label_privacy.private_columns import PrivateColumnsMixin
from skpublicdp.typing import Floats


class PrivateColumnsRegressor(
    PrivateColumnsMixin,
    DelegatingClassifier,
    MetaEstimatorMixin,
    RegressorMixin,
    BaseEstimator,
):
    """A private regressor for tables in which only some columns are private.

    All other columns and the outcomes are public, for all rows. A model of the public columns is
    fitted without noise and predicts a *score* for each row. The private estimator is fitted to the
    private columns and the score. All of its budget is spent on what the private columns add.

    Parameters
    ----------
    estimator : regressor
        `SemiPrivateBoostingRegressor` or `SemiPrivateLinearRegression`, which is cloned. Its
        parameters `epsilon`, `budget`, `max_rows_per_group` and `public_model` are replaced by
        those of this class and the score, `random_state` unless that of this class is None, and
        `outcome_bounds`, if they are None, by extreme quantiles of the outcomes. Its δ is part of
        the privacy cost.
    private_columns : list of str or int
        Private columns of `X`, by name or position. Nothing is protected about any other column.
    public_model : estimator, "auto" or None, default="auto"
        Model of the public columns, with `fit` and `predict`. An unfitted model is cloned and
        fitted. ``"auto"`` is a weighted sum of gradient boosting, a linear model and a random
        forest, which needs 30 rows. With ``None``, there is no score, and the public columns are
        not used.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    random_state : int, numpy Generator or RandomState, default=None
        With ``None``, random numbers come from the operating system's secure generator. Any other
        value makes the fit reproducible, which is intended for tests and papers only, and is
        recorded in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If this number is set, the private columns of all rows of
        a person are protected together, and `fit` requires `groups`. At most `max_rows_per_group`
        rows of each person, chosen at random, are used by the private estimator.
    budget : PrivacyBudget, default=None
        Budget from which the cost of each fit is deducted, created with ``protects=[...]``, the
        names of columns that are all private here. If the budget is insufficient, `fit` raises an
        error before any private column is used.

    Attributes
    ----------
    estimator_ : regressor
        The fitted private estimator of the private columns and the scores.
    public_model_ : estimator, tuple of estimators, or None
        The fitted model of the public columns.
    private_columns_ : list of str
        Names of the private columns.
    outcome_bounds_ : tuple of float
        Bounds to which outcomes are clipped.
    privacy_ : PrivacyReceipt
        Privacy receipt, whose unit names the private columns.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Feature names, if those of `X` are strings.

    See Also
    --------
    PrivateColumnsClassifier : The same for labels, with further notes.
    SemiPrivateBoostingRegressor : Protects features and outcomes.

    Notes
    -----
    Neighbouring data sets differ in the private columns of one row (or person), and have the same
    public columns and outcomes. *Nothing is protected about these.* The outcomes must not be made
    from a private column. The fit has the ε and δ of the private estimator
    (docs/proofs/label_privacy.md, Theorem 6).

    The score of a row of the fit is the outcome that a model of other rows predicts. The private
    estimator reads the private columns in their order, and then the score. Its parameters that
    refer to columns refer to these; for arrays, they are called x0, x1 and so on.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import PrivateColumnsRegressor, SemiPrivateBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = X[:, 0] + X[:, 1] + X[:, 2] + rng.normal(size=5000) / 2
    >>> reg = PrivateColumnsRegressor(
    ...     SemiPrivateBoostingRegressor(), private_columns=[2], epsilon=0.5, random_state=0
    ... )
    >>> reg = reg.fit(X, y, X_public=rng.normal(size=(300, 3)))
    >>> reg.score(X, y) > 0.8
    True
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"])],
        "private_columns": ["array-like"],
        "public_model": [StrOptions({"auto"}), HasMethods("fit"), None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    _targets_in_words = "outcomes"

    def __init__(
        self,
        estimator: Any,
        *,
        private_columns: Sequence[str | int],
        public_model: Any = "auto",
        epsilon: float | Fraction = 1.0,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.private_columns = private_columns
        self.public_model = public_model
        self.epsilon = epsilon
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        y_public: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit the model of the public columns, and the private estimator to the other columns.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Training rows. Only their private columns are protected.
        y : array-like, shape (n,)
            Public outcomes.
        X_public : array-like or DataFrame, shape (m, n_features), optional
            Public rows of the private estimator, with the columns of `X`. In cross-validation,
            `X_public` and `X` must have different numbers of rows.
        y_public : array-like, shape (m,), optional
            Outcomes of `X_public`, where NaN marks missing outcomes.
        groups : array-like, shape (n,), optional
            Person to whom each row belongs, used with `max_rows_per_group`. Persons are public.

        Returns
        -------
        self : PrivateColumnsRegressor
            The fitted regressor.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If `budget` is insufficient, or protects other columns as well.
        """
        return self._fit(X, y, X_public, y_public, groups)

    @available_if_inner_has("interval")
    def interval(
        self, X: Any, level: float = 0.9, of: Literal["outcome", "mean"] = "outcome"
    ) -> Floats:
        """Return the intervals of `SemiPrivateBoostingRegressor.interval`.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to predict.
        level : float, default=0.9
            Level of the intervals.
        of : {"outcome", "mean"}, default="outcome"
            Whether intervals are about outcomes or about mean outcomes.

        Returns
        -------
        ndarray of float64, shape (n, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        intervals: Floats = self.estimator_.interval(self._scored_rows(X), level, of)
        return intervals

    def _check_estimator(self) -> None:
        name = type(self.estimator).__name__
        if not is_private_estimator(self.estimator) or not is_regressor(self.estimator):
            raise ValueError(
                "estimator must be SemiPrivateBoostingRegressor or SemiPrivateLinearRegression; "
                f"got {name}."
            )
        if self.estimator.budget is not None:
            raise ValueError(
                f"estimator must have budget=None, but {name} has a budget of its own. Pass the "
                "budget to PrivateColumnsRegressor instead."
            )

    def _read_targets(self, y: Any, y_public: Any, n: int) -> Targets:
        check_length(y, n)
        loss = getattr(self.estimator, "loss", "squared_error")
        reader = LossTarget(self.estimator.outcome_bounds, loss)
        outcomes = reader.column(y)
        # bounds that are not declared are quantiles of the public outcomes, which are all of them
        targets = reader.targets(outcomes, [outcomes])
        assert targets.bounds is not None
        self.outcome_bounds_ = targets.bounds
        return targets

    def _read_target(self, y: Any) -> NDArray[Any]:
        return RegressionTarget(None).column(y)

    def _decoded(self, codes: NDArray[Any]) -> NDArray[Any]:
        low, high = self.outcome_bounds_
        return low + (high - low) * codes.astype(np.float64)

    def _public_outcomes(self, codes: NDArray[Any]) -> Floats:
        return codes.astype(np.float64)[None]

    def _target_scale(self) -> TargetScale:
        return TargetScale(None, self.outcome_bounds_, SQUARED)

    def _target_settings(self) -> dict[str, Any]:
        return {"outcome_bounds": self.outcome_bounds_}

    def _scores_of_margins(self, margins: NDArray[np.int16]) -> Floats:
        return self._decoded(SQUARED.mean(margins.astype(np.int64))).T

    def _score_model(self) -> Any:
        return _ScoreOutcome()


class _ScoreOutcome(RegressorMixin, BaseEstimator):
    """Model that predicts the score, which is the last column of a row."""

    def fit(self, X: Any, y: Any) -> Self:
        """Do nothing, since there are no parameters."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Floats:
        """Return the scores of rows."""
        table = Table(X)
        return np.asarray(table.column(table.shape[1] - 1), dtype=np.float64)
