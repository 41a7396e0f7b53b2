"""SemiPrivateBoostingRegressor, which predicts means and intervals from noisy histograms."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions, validate_params
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import OptionalBudget, Seed, all_or_nothing
from skpublicdp._internal.reproducible import stable_floor
from skpublicdp.boosting.base import SemiPrivateBoosting
from skpublicdp.boosting.export import model_to_json
from skpublicdp.boosting.loss import OUTCOME_LOSSES, Loss
from skpublicdp.boosting.outcome_histogram import residual_fractions, residual_quantiles
from skpublicdp.boosting.training_data import LossTarget
from skpublicdp.boosting.uncertainty import PredictionVariance
from skpublicdp.data.batch_predict import Rule, StreamedScoreMixin, predict_batches
from skpublicdp.data.tables import Table

_Method = TypeVar("_Method", bound=Callable[..., Any])

_checked: Callable[[_Method], _Method] = validate_params(
    {
        "level": [Interval(Real, 0, 1, closed="neither")],
        "of": [StrOptions({"outcome", "mean"})],
    },
    prefer_skip_nested_validation=True,
)


class SemiPrivateBoostingRegressor(StreamedScoreMixin, RegressorMixin, SemiPrivateBoosting):
    """Differentially private boosting regressor for tables of numbers and categories.

    Outcomes are clipped to public bounds. The bins of each column are chosen from public rows,
    which need not have outcomes. A noisy histogram of the outcomes determines the range of most
    outcomes, and a first model is fitted within this range. After that, noisy histograms of clipped
    gradients are released in rounds. If the budget is large enough, small trees are drawn by the
    exponential mechanism. Finally, a noisy histogram of the residuals is released for prediction
    intervals.

    Parameters
    ----------
    loss : {"squared_error", "poisson"}, default="squared_error"
        Loss function. With ``"poisson"``, outcomes are counts or other numbers that are not
        negative, and the logarithm of the mean outcome is a sum of contributions. Hence all
        predictions are positive. `interval` is not available, and `fit` spends no budget on it.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=1e-6
        Privacy budget δ in [0, 1). With δ = 0, the fit satisfies pure ε-differential privacy and
        the noise is Laplace.
    method : {"auto", "moments"}, default="auto"
        With ``"moments"``, only noisy histograms are used and no tree is drawn. With ``"auto"``,
        trees are also drawn if the budget is large enough. For ``loss="squared_error"`` and tables
        with at least 40 numeric columns and twelve public rows, ``"auto"`` first fits a
        `SemiPrivateLinearRegression` unless `public_model` or `monotonic_cst` is set. If the budget
        is small for the number of columns, this is the whole model.
    max_rounds : int, default=None
        Maximum number of histogram rounds. By default, the number depends on the number of rows and
        the budget.
    outcome_bounds : pair of float, default=None
        Lowest and highest outcomes, 1e-150 to 1e150 apart. The bounds must not depend on private
        rows. Other outcomes are clipped. By default, the bounds are the 0.005 and 0.995 quantiles
        of the public outcomes. With fewer than 200 public outcomes, the bounds are the range of
        these outcomes, extended by one tenth of its length on either side. With
        ``loss="poisson"``, the lowest outcome must be 0, which is also the default.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest values of the numeric columns. The bounds must not depend on private
        rows. The bounds are used if there are fewer than twelve public rows, or if a column is
        constant in the public rows. If there are neither public rows nor bounds, columns are
        assumed to follow a standard normal distribution.
    monotonic_cst : array-like of int, shape (n_features,), or dict of column to int, default=None
        Monotone constraints of numeric columns: 1 if the predicted outcome must not decrease, -1 if
        it must not increase, and 0 for no constraint. The effect of missing values is not
        constrained. Scores are projected onto the constraints, which has no privacy cost. The
        predictions satisfy the constraints exactly.
    public_model : estimator, "auto" or None, default="auto"
        Model of public data to combine with the boosted model. The weights of both models are
        computed from noisy sums over the private rows. A fitted estimator, such as last year's
        model or a published score, is used unchanged. Its prediction for a row must depend on this
        row alone. It must have been trained without the private rows, or with privacy: the ε of its
        fit then adds up with that of this fit. An unfitted
        estimator is cross-fitted to the public rows with outcomes. ``"auto"`` cross-fits a
        weighted sum of gradient boosting, a linear model and a random forest, provided that at
        least 30 public rows have outcomes, which vary, and no monotone constraint is set. ``None``
        uses no model.
    n_jobs : int, default=None
        Number of threads. The results do not depend on this number.
    random_state : int, numpy Generator or RandomState, default=None
        With ``None``, random numbers come from the operating system's secure generator. Any other
        value makes the fit reproducible, which is intended for tests and papers only, and is
        recorded in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If this number is set, privacy is guaranteed for persons
        instead of rows. In this case, `fit` requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Budget from which the cost of each fit is deducted. If the budget is insufficient, `fit`
        raises an error before reading any private row.

    Attributes
    ----------
    outcome_bounds_ : tuple of float
        Bounds to which outcomes were clipped. All predictions lie within these bounds.
    shapes_ : tuple of Shape
        Contribution of each column's bins to the mean outcome, or to its logarithm for
        ``loss="poisson"``, with standard deviations. Adjacent one-hot columns are treated as a
        single categorical column.
    trees_ : tuple of Tree
        Rule of each tree, together with the scores of its leaves.
    pairs_ : tuple of Pair
        For each pair of columns, the sum of all trees that split on these two columns.
    intercept_ : float
        Mean outcome, or its logarithm for ``loss="poisson"``, predicted for an average public row
        before trees are added.
    feature_importances_ : ndarray of float64, shape (n_features_in_,)
        Mean absolute deviation of each column's contribution over the public rows. One-hot columns
        that are treated as a single categorical column share the importance of this column.
    public_model_ : estimator, tuple of estimators, or None
        The fitted public model or, with ``"auto"``, the three fitted models.
    public_weight_, linear_weight_, boosting_weight_ : float
        Weights of the margins of the public, the linear and the boosted model.
    drift_ : float or None
        Drift statistic of the public rows, which is about 1 without a covariate shift. Columns
        whose public values were generated by spreading them over `bounds` are ignored. The value is
        ``None`` if no counts of other columns were released, if there are no public rows, or if
        they come from `describe_columns`.
    drift_columns_ : dict or None
        Drift statistic of each column by name, in decreasing order. Adjacent one-hot columns are
        treated as a single column. The value is ``None`` if `drift_` is ``None``.
    guarantee_ : None
        Always ``None``, since no theorem bounds the population error.
    guarantee_reason_ : str
        Explanation of why `guarantee_` is ``None``.
    privacy_ : PrivacyReceipt
        Privacy loss of each step.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Feature names, if the column names of `X` are strings.

    Warns
    -----
    DriftWarning
        If the public rows have a significant covariate shift.
    LargeDeltaWarning
        If `delta` is not much smaller than 1 / n for n private rows.
    LargeEpsilonWarning
        If `epsilon` is so large that the fit provides almost no privacy protection.
    NoPublicDataWarning
        If there are no public rows, so that bins are data-independent. The warning is also issued
        if a column has too few public values and its bins are determined neither by `bounds` nor by
        the column type.
    SlicedPublicDataWarning
        If `X_public` and `X` have the same number of rows, in which case cross-validation would
        split `X_public` too.
    TooFewRowsWarning
        If the noise exceeds the strongest effect that any column can have with this number of rows.
    UnknownCategoriesWarning
        If a table passed to a later method has a categorical column in which most values are
        unknown categories.

    See Also
    --------
    SemiPrivateBoostingClassifier : Boosting for labels.

    Notes
    -----
    Neighbouring data sets differ in one private row, including its features and its outcome. The
    number of private rows, the column types, `outcome_bounds_` and all public rows are not
    protected. Noise is sampled exactly and added to integer sums (docs/proofs/moments.md), and
    trees are also drawn exactly.

    If the budget is too small for a histogram of the outcomes, the noise is proportional to the
    width of the outcome bounds. If the bounds are narrow, many outcomes are clipped, and the
    predictions are means of clipped outcomes.

    References
    ----------
    .. [1] B. Balle and Y. Wang (2018). Improving the Gaussian mechanism for differential privacy.
       ICML. Theorem 8.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = 20 + 5 * X[:, 0] + rng.normal(size=5000)
    >>> reg = SemiPrivateBoostingRegressor(outcome_bounds=(0, 40), random_state=0)
    >>> reg.fit(X, y, X_public=rng.normal(size=(300, 3))).score(X, y) > 0.7
    True
    >>> low, high = reg.interval([[1.0, 0.0, 0.0]])[0]
    >>> bool(low < 25 < high)
    True
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        **SemiPrivateBoosting._parameter_constraints,
        "loss": [StrOptions(set(OUTCOME_LOSSES))],
        "method": [StrOptions({"auto", "moments"})],
        "outcome_bounds": ["array-like", None],
    }

    def __init__(
        self,
        *,
        loss: Literal["squared_error", "poisson"] = "squared_error",
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 1e-6,
        method: Literal["auto", "moments"] = "auto",
        max_rounds: int | None = None,
        outcome_bounds: ArrayLike | None = None,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        monotonic_cst: ArrayLike | dict[Any, Any] | None = None,
        public_model: Any = "auto",
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.max_rounds = max_rounds
        self.outcome_bounds = outcome_bounds
        self.bounds = bounds
        self.monotonic_cst = monotonic_cst
        self.public_model = public_model
        self.n_jobs = n_jobs
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
        is_public: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit the model, spending the privacy budget (ε, δ).

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Training rows. All of them are private, except those marked by `is_public`.
        y : array-like, shape (n,)
            Outcomes. NaN marks public rows that have no outcome.
        X_public : DataFrame or array-like, shape (m, n_features), optional
            Separate public rows. In cross-validation, `X_public` and `X` must differ in their
            numbers of rows.
        y_public : array-like, shape (m,), optional
            Outcomes of `X_public`, where NaN marks missing outcomes. No noise is added to the
            outcomes of public rows. The weight of public outcomes depends on how well they agree
            with the released histograms.
        is_public : array-like of bool, shape (n,), optional
            Mask of the public rows of `X`. Using this mask is safe in cross-validation.
        groups : array-like, shape (n,), optional
            Person to whom each row belongs, used with `max_rows_per_group`. The entries of public
            rows are ignored.

        Returns
        -------
        self : SemiPrivateBoostingRegressor
            The fitted regressor.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The error message contains no private values. The
            error is also raised if no outcome bounds are available, or if `epsilon` is too small
            for histograms.
        PrivacyBudgetError
            If `budget` is insufficient.
        """
        training, fitted = self._fit(
            LossTarget(self.outcome_bounds, self.loss),
            X,
            y,
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
        )
        assert training.outcome_bounds is not None
        self.outcome_bounds_ = training.outcome_bounds
        self.intercept_ = float(self.intercept_[0])
        if fitted.residual_counts is None:  # the loss has no intervals
            for name in ("_residual_fractions", "_prediction_variance", "_mean_variance"):
                self.__dict__.pop(name, None)  # of an earlier fit
            return self
        self._residual_fractions = residual_fractions(fitted.residual_counts, training.rows.n)
        self._prediction_variance = PredictionVariance(fitted, self._output_unit)
        public_variances = self._prediction_variance.variances(
            fitted.data.public_codes, training.X_public
        )
        self._mean_variance = float(public_variances.mean())
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict mean outcomes.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of float64, shape (n,)
            Predicted means, within `outcome_bounds_`.
        """
        return predict_batches(self, X, self._rule())

    def _target_loss(self, classes: None) -> Loss:
        """Return the loss that the parameter `loss` names."""
        return OUTCOME_LOSSES[self.loss]

    def _read_target(self, y: Any) -> NDArray[Any]:
        return LossTarget(self.outcome_bounds).column(y)

    def _rule(self) -> Rule:
        """Return the function that maps a table to the predicted means."""
        check_is_fitted(self)
        low, high = self.outcome_bounds_
        mean = self._loss.mean
        return self._prediction_rule(lambda margins: low + (high - low) * mean(margins)[0])

    @_checked
    def interval(
        self, X: Any, level: float = 0.9, of: Literal["outcome", "mean"] = "outcome"
    ) -> NDArray[np.float64]:
        """Return prediction intervals of outcomes, or credible intervals of mean outcomes.

        The intervals are functions of released numbers, so computing them has no privacy cost. The
        coverage of the intervals was measured, but no theorem guarantees it. For rows from a
        different population, the coverage may be lower. With 5,000 rows at ε = 1, intervals of mean
        outcomes at level 0.9 contained 85% to 92% of the means. These intervals do not include
        the error of the model itself. If columns interact in ways that the trees do not represent,
        these intervals are too short, and more rows do not help.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to predict.
        level : float, default=0.9
            Nominal coverage, that is, the fraction of rows whose outcomes should lie inside their
            intervals.
        of : {"outcome", "mean"}, default="outcome"
            Whether the interval is for the outcome of a new row, clipped to the bounds, or for the
            mean outcome of rows with its features.

        Returns
        -------
        ndarray of float64, shape (n, 2)
            Lower and upper ends of the intervals, within `outcome_bounds_`.
        """
        check_is_fitted(self)
        if not self._loss.has_intervals:
            raise ValueError(
                "interval needs loss='squared_error', but the model was fitted with "
                f"loss={self._loss.name!r}, for which the spread of outcomes depends on their "
                "mean. Fit a regressor with loss='squared_error'."
            )
        binner, margins = self._binner, self._margins_rule()
        prediction_variance, mean_variance = self._prediction_variance, self._mean_variance
        low, high = self.outcome_bounds_
        mean = self._loss.mean
        tail = (1 - level) / 2
        levels = [tail, 1 - tail]
        if of == "mean":
            quantiles, residual_variance = norm.ppf(levels), None
        else:
            quantiles = (high - low) * residual_quantiles(
                self._residual_fractions, np.array(levels)
            )
            # variance of a normal distribution with an interval of the same width
            width = max(float(np.ptp(quantiles)) / (2 * norm.isf(tail)), 1e-9 * (high - low))
            residual_variance = width**2

        def predict_intervals(table: Table) -> NDArray[np.float64]:
            """Return the interval for each row of a table."""
            rows = binner.encode(table)
            codes = binner.encoded_codes(rows)
            variances = prediction_variance.variances(codes, rows)
            means = low + (high - low) * mean(margins(table))[0]
            if residual_variance is not None:
                # the residual histogram already includes the mean prediction variance
                excess = np.maximum(variances - mean_variance, 0)
                variances = 1 + excess / residual_variance
            intervals = means[:, None] + np.outer(np.sqrt(variances), quantiles)
            return np.clip(intervals, low, high)

        return predict_batches(self, X, predict_intervals)

    def explain(self) -> str:
        """Describe the model as text.

        Returns
        -------
        str
            The contributions of the ten most important columns, pairs and trees to the mean
            outcome, with error bars of two posterior standard deviations, followed by the names of
            the remaining terms. If a column has more than twelve bins, neighbouring bins are
            merged. The text may be published.
        """
        check_is_fitted(self)
        width = 4 * self._output_unit
        decimals = max(0, 3 - stable_floor(np.log10(width)))
        return self._explain_as_text(self._loss.output_name, [""], decimals)

    def to_json(self) -> str:
        """Return the model as JSON, which is sufficient for making predictions in another language.

        Returns
        -------
        str
            A JSON object, whose fields are described in the user guide on boosting. The JSON
            contains released numbers, functions of public rows and the receipt, and may be
            published.
        """
        check_is_fitted(self)
        return model_to_json(self, loss=self._loss.name, outcome_bounds=self.outcome_bounds_)

    def __sklearn_tags__(self) -> Any:
        """Declare that low scores are expected on the small data sets of scikit-learn's checks."""
        tags = super().__sklearn_tags__()
        # a check requires an R² of 0.5 on 200 rows without public rows
        tags.regressor_tags.poor_score = True
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags
