"""SemiPrivateLogisticRegression, a private logistic regression that uses public rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import OptionalBudget, Seed, all_or_nothing
from skpublicdp.data.batch_predict import Rule, StreamedScoreMixin, predict_batches
from skpublicdp.data.labels import LabelReader
from skpublicdp.linear.glm_loss import LogisticGLMLoss
from skpublicdp.linear.linear_base import SemiPrivateLinear
from skpublicdp.linear.linear_json import linear_to_json
from skpublicdp.typing import Codes, Floats


class SemiPrivateLogisticRegression(StreamedScoreMixin, ClassifierMixin, SemiPrivateLinear):
    """Differentially private logistic regression, or softmax regression for more than two labels.

    The estimator is intended for embeddings of texts and images and for other tables with many
    numbers. The principal axes of the rows, and the curvature of the likelihood, are estimated from
    public rows, which need no labels. A noisy sum of the private rows times their labels is
    released along these axes, with most precision where the rows vary most. Further releases
    correct the public estimates if their error is larger than the noise.

    With more than two labels, the sum of the rows of each label is released, and further releases
    are noisy sums of clipped residuals times rows.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=1e-6
        Privacy budget δ in [0, 1). With δ = 0, the fit satisfies pure ε-differential privacy. The
        noise is then Laplace, and only the leading axes are measured.
    fit_intercept : bool, default=True
        Whether to fit an intercept. Without an intercept, the rows are not centred.
    classes : array-like, default=None
        All possible labels. By default, these are all labels in `y` and all public labels, in
        which case the set of labels is not protected.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest values of the numeric columns. The bounds must not depend on private
        rows. Values outside of declared bounds are clipped. If there are neither public rows nor
        bounds, columns are assumed to follow a standard normal distribution.
    public_model : estimator, default=None
        Fitted classifier whose prediction for a row depends on this row alone. It must have been
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
    coef_ : ndarray of float64, shape (1, n_coefficients) or (n_classes, n_coefficients)
        Coefficients of the log-odds of the second label. With more than two labels, there is one
        row of coefficients per label. There is one coefficient per numeric column, and one per
        category of every other column.
    intercept_ : ndarray of float64, shape (1,) or (n_classes,)
        Log-odds of a row whose columns are all 0. With more than two labels, margins of this row.
    coef_names_ : ndarray of str, shape (n_coefficients,)
        Name of each coefficient: the name of a numeric column, or ``column=category``.
    classes_ : ndarray, shape (n_classes,)
        Sorted array of all labels.
    n_corrections_ : int
        Number of releases after the first one, chosen from public numbers.
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
    SemiPrivateLinearRegression : Linear model of numeric outcomes.
    SemiPrivateBoostingClassifier : Additive model for tables of few columns.

    Notes
    -----
    Neighbouring data sets differ in one private row, including its features and its label. The
    number of private rows, the set of labels, the column types and all public rows are not
    protected. Every private row enters the releases as a vector of integers of bounded length, and
    noise is sampled exactly (docs/proofs/linear.md).

    Numbers are centred and scaled by public rows. Missing and infinite numbers are replaced by the
    public mean. Columns that are constant in the public rows have the coefficient 0.

    Labels of public rows are used without noise. The coefficients of the labelled public rows are
    the prior mean of the coefficients. The evidence of the private sums determines how far private
    coefficients deviate.

    `coef_interval` and `summary` return confidence intervals of the coefficients, from an estimate
    without a prior.

    References
    ----------
    .. [1] D. Wang, L. Hu, H. Zhang, M. Gaboardi and J. Xu (2023). Generalized linear models in
       non-interactive local differential privacy with public data. JMLR.
    .. [2] J. Dong, A. Roth and W. Su (2022). Gaussian differential privacy. JRSS B.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 50))
    >>> y = np.where(X[:, 0] + X[:, 1] + rng.logistic(size=5000) > 0, "yes", "no")
    >>> clf = SemiPrivateLogisticRegression(epsilon=1.0, random_state=0)
    >>> clf.fit(X, y, X_public=rng.normal(size=(300, 50))).score(X, y) > 0.7
    True
    >>> clf.coef_.shape
    (1, 50)
    >>> clf.coef_interval(level=0.9)[0] > 0.5
    array([ True,  True])
    """

    _has_odds = True

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        **SemiPrivateLinear._parameter_constraints,
        "fit_intercept": ["boolean"],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        *,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 1e-6,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        public_model: Any = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.classes = classes
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
            Labels. The label -1 (or ``"-1"`` for text labels) marks unlabelled public rows, unless
            -1 is the label of a private row or an element of `classes`.
        X_public : DataFrame or array-like, shape (m, n_features), optional
            Separate public rows. In cross-validation, `X_public` and `X` must differ in their
            numbers of rows.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, where -1 marks unlabelled rows. No noise is added to the labels of
            public rows.
        is_public : array-like of bool, shape (n,), optional
            Mask of the public rows of `X`. Using this mask is safe in cross-validation.
        groups : array-like, shape (n,), optional
            Person to whom each row belongs, used with `max_rows_per_group`. The entries of public
            rows are ignored.

        Returns
        -------
        self : SemiPrivateLogisticRegression
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The error message contains no private values. The
            error is also raised if `epsilon` is too small for noise to be drawn.
        PrivacyBudgetError
            If `budget` is insufficient.
        """
        assumption = "" if self.classes is not None else "the set of labels in y"
        data = self._fit(
            LabelReader(self.classes, min_classes=2),
            LogisticGLMLoss(),
            X,
            y,
            label_assumption=assumption,
            has_intercept=self.fit_intercept,
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
        )
        self.classes_ = data.classes
        self.coef_ = np.atleast_2d(self._model.coefficients)
        self.intercept_ = np.atleast_1d(self._raw_intercept())
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds of the second label, or the margins of all labels if there are more.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of float64, shape (n,) or (n, n_classes)
            Log-odds of the second label. With more than two labels, margins whose softmax is the
            probability of each label.
        """
        return predict_batches(self, X, self._prediction_rule(lambda margins: margins))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each label.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of float64, shape (n, n_classes)
            Probabilities.
        """
        return predict_batches(self, X, self._prediction_rule(_probabilities))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each label.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of float64, shape (n, n_classes)
            Logarithms of probabilities.
        """
        return predict_batches(self, X, self._prediction_rule(_log_probabilities))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray, shape (n,)
            The most probable label of each row.
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
        return linear_to_json(self, classes=self.classes_.tolist())

    def _predicted_quantity(self, position: int) -> str:
        if len(self.classes_) > 2:
            return f"margin of {self.classes_[position]}"
        return f"log-odds of {self.classes_[1]}"

    def _rule(self) -> Rule:
        """Return the function that maps a table to the predicted labels."""
        rule = self._prediction_rule(_positions)
        classes = self.classes_
        return lambda table: classes[rule(table).astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        """Declare that the estimator needs many rows."""
        tags = super().__sklearn_tags__()
        # a check requires 83% accuracy on 300 rows without public rows
        tags.classifier_tags.poor_score = True
        return tags


def _positions(margins: Floats) -> Codes:
    """Return the positions of the most probable labels."""
    if margins.ndim > 1:
        return np.asarray(margins.argmax(axis=1))
    return (margins > 0).astype(np.intp)


def _probabilities(margins: Floats) -> Floats:
    """Return the probabilities of all labels, shape (n, n_classes)."""
    if margins.ndim > 1:
        return np.asarray(softmax(margins, axis=1))
    return np.column_stack([expit(-margins), expit(margins)])


def _log_probabilities(margins: Floats) -> Floats:
    """Return the logarithms of the probabilities of all labels, shape (n, n_classes)."""
    if margins.ndim > 1:
        return np.asarray(log_softmax(margins, axis=1))
    return np.column_stack([-np.logaddexp(0, margins), -np.logaddexp(0, -margins)])
