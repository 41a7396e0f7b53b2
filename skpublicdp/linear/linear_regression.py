"""SemiPrivateLinearRegression, a private linear model of outcomes that uses public rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import OptionalBudget, Seed, all_or_nothing
from skpublicdp.data.batch_predict import Rule, StreamedScoreMixin, predict_batches
from skpublicdp.data.outcomes import RegressionTarget
from skpublicdp.linear.glm_loss import SquaredGLMLoss
from skpublicdp.linear.linear_base import SemiPrivateLinear
from skpublicdp.linear.linear_json import linear_to_json
from skpublicdp.typing import Floats


class SemiPrivateLinearRegression(StreamedScoreMixin, RegressorMixin, SemiPrivateLinear):
    """Differentially private linear regression with a penalty chosen from noisy sums.

    The estimator is intended for embeddings of texts and images and for other tables with many
    numbers. Outcomes are clipped to public bounds. The covariance of the columns is estimated from
    public rows, which need no outcomes. A noisy sum of the private rows times their outcomes is
    released along the principal axes, with most precision where the rows vary most. Further
    releases correct the public covariance if its error is larger than the noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=1e-6
        Privacy budget δ in [0, 1). With δ = 0, the fit satisfies pure ε-differential privacy. The
        noise is then Laplace, and only the leading axes are measured.
    outcome_bounds : pair of float, default=None
        Lowest and highest outcomes, 1e-150 to 1e150 apart. The bounds must not depend on private
        rows. Other outcomes are clipped. By default, the bounds are the 0.005 and 0.995 quantiles
        of the public outcomes. With fewer than 200 public outcomes, the bounds are the range of
        these outcomes, extended by one tenth of its length on either side.
    fit_intercept : bool, default=True
        Whether to fit an intercept. Without an intercept, the rows are not centred, and the bounds
        of the outcomes are extended until 0 is their centre.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest values of the numeric columns. The bounds must not depend on private
        rows. Values outside of declared bounds are clipped. If there are neither public rows nor
        bounds, columns are assumed to follow a standard normal distribution.
    public_model : estimator, default=None
        Fitted regressor whose prediction for a row depends on this row alone. It must have been
        trained without the private rows, or with privacy: the ε of its fit then adds up with that
        of this fit. Its predictions are one more column, "public model", and the prior mean of the
        coefficients is the model itself. An unfitted estimator is refused.
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
    coef_ : ndarray of float64, shape (n_coefficients,)
        Coefficients of the outcome. There is one coefficient per numeric column, and one per
        category of every other column.
    intercept_ : float
        Predicted outcome of a row whose columns are all 0.
    coef_names_ : ndarray of str, shape (n_coefficients,)
        Name of each coefficient: the name of a numeric column, or ``column=category``.
    outcome_bounds_ : tuple of float
        Bounds to which outcomes were clipped. All predictions lie within these bounds.
    n_corrections_ : int
        Number of releases that correct public estimates, chosen from public numbers.
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
    LargeDeltaWarning
        If `delta` is not much smaller than 1 / n for n private rows.
    LargeEpsilonWarning
        If `epsilon` is so large that the fit provides almost no privacy protection.
    NoPublicDataWarning
        If there are no public rows, so that the scale of the columns is assumed.
    SlicedPublicDataWarning
        If `X_public` and `X` have the same number of rows, in which case cross-validation would
        split `X_public` too.
    UnknownCategoriesWarning
        If a table passed to a later method has a categorical column in which most values are
        unknown categories.

    See Also
    --------
    SemiPrivateLogisticRegression : Linear model of labels.
    SemiPrivateBoostingRegressor : Additive model for tables of few columns.

    Notes
    -----
    Neighbouring data sets differ in one private row, including its features and its outcome. The
    number of private rows, the column types, `outcome_bounds_` and all public rows are not
    protected. Every private row enters the releases as a vector of integers of bounded length, and
    noise is sampled exactly (docs/proofs/linear.md).

    Numbers are centred and scaled by public rows. Missing and infinite numbers are replaced by the
    public mean. Columns that are constant in the public rows have the coefficient 0.

    Outcomes of public rows are used without noise. The coefficients of the public rows with
    outcomes are the prior mean of the coefficients. The evidence of the private sums determines how
    far private coefficients deviate.

    `coef_interval` and `summary` return confidence intervals of the coefficients, from an estimate
    without a prior.

    References
    ----------
    .. [1] J. Dong, A. Roth and W. Su (2022). Gaussian differential privacy. JRSS B.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 50))
    >>> y = 20 + 5 * X[:, 0] + rng.normal(size=5000)
    >>> reg = SemiPrivateLinearRegression(outcome_bounds=(0, 40), random_state=0)
    >>> reg.fit(X, y, X_public=rng.normal(size=(300, 50))).score(X, y) > 0.7
    True
    >>> reg.coef_.shape
    (50,)
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        **SemiPrivateLinear._parameter_constraints,
        "fit_intercept": ["boolean"],
        "outcome_bounds": ["array-like", None],
    }

    def __init__(
        self,
        *,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 1e-6,
        outcome_bounds: ArrayLike | None = None,
        fit_intercept: bool = True,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        public_model: Any = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.outcome_bounds = outcome_bounds
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.public_model = public_model
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
            outcomes of public rows.
        is_public : array-like of bool, shape (n,), optional
            Mask of the public rows of `X`. Using this mask is safe in cross-validation.
        groups : array-like, shape (n,), optional
            Person to whom each row belongs, used with `max_rows_per_group`. The entries of public
            rows are ignored.

        Returns
        -------
        self : SemiPrivateLinearRegression
            The fitted regressor.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The error message contains no private values. The
            error is also raised if no outcome bounds are available, or if `epsilon` is too small
            for noise to be drawn.
        PrivacyBudgetError
            If `budget` is insufficient.
        """
        reader = RegressionTarget if self.fit_intercept else CentredTarget
        data = self._fit(
            reader(self.outcome_bounds),
            SquaredGLMLoss(),
            X,
            y,
            has_intercept=self.fit_intercept,
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
        )
        assert data.targets.bounds is not None
        self.outcome_bounds_ = data.targets.bounds
        width = self._margin_unit()
        self.coef_ = width * self._model.coefficients
        self.intercept_ = self._margin_zero() + width * self._raw_intercept()
        return self

    def _margin_unit(self) -> float:
        low, high = self.outcome_bounds_
        return high - low

    def _margin_zero(self) -> float:
        low, _ = self.outcome_bounds_
        return low + 0.5 * self._margin_unit()

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

    def to_json(self) -> str:
        """Return the model as JSON, which is sufficient for making predictions in another language.

        Returns
        -------
        str
            A JSON object, whose fields are described in the user guide on embeddings. The JSON
            contains released numbers, functions of public rows and the receipt, and may be
            published.
        """
        check_is_fitted(self)
        return linear_to_json(self, outcome_bounds=self.outcome_bounds_)

    def _predicted_quantity(self, position: int) -> str:
        return "outcome"

    def _read_target(self, y: Any) -> NDArray[Any]:
        return RegressionTarget(self.outcome_bounds).column(y)

    def _rule(self) -> Rule:
        """Return the function that maps a table to the predicted means."""
        check_is_fitted(self)
        low, high = self.outcome_bounds_

        def outcomes(margins: Floats) -> Floats:
            """Return the predicted means at the margins of rows."""
            return np.clip(low + (high - low) * (0.5 + margins), low, high)

        return self._prediction_rule(outcomes)

    def __sklearn_tags__(self) -> Any:
        """Declare that low scores are expected on the small data sets of scikit-learn's checks."""
        tags = super().__sklearn_tags__()
        # a check requires an R² of 0.5 on 200 rows without public rows
        tags.regressor_tags.poor_score = True
        return tags


class CentredTarget(RegressionTarget):
    """Reader of outcomes whose bounds have the centre 0, as a model without intercept requires."""

    def usable_bounds(self, bounds: tuple[float, float], public: Floats) -> tuple[float, float]:
        """Return the bounds, extended until 0 is their centre."""
        largest = max(map(abs, bounds))
        return -largest, largest
