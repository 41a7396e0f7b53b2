"""SemiPrivateBoostingClassifier: additive models and trees from noisy histograms and draws."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import OptionalBudget, Seed, all_or_nothing
from skpublicdp.boosting.base import SemiPrivateBoosting
from skpublicdp.boosting.export import model_to_json
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.data.batch_predict import Rule, StreamedScoreMixin, predict_batches
from skpublicdp.data.labels import LabelReader
from skpublicdp.typing import Floats, Integers


class SemiPrivateBoostingClassifier(StreamedScoreMixin, ClassifierMixin, SemiPrivateBoosting):
    """Private boosting on tables of numbers and categories, with scores for each label.

    Public rows, labelled or not, choose the bins of each column. Noisy counts compare the columns
    of public and private rows, and public rows are reweighted if they differ. Noisy histograms of
    the gradients are then released in rounds, and an additive logistic model is fitted to them on
    the public rows, which costs no privacy. Finally a small tree is drawn by the exponential
    mechanism. If it captures an interaction of columns, more trees follow.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=1e-6
        Privacy budget δ in [0, 1); 0 gives pure ε-differential privacy, with Laplace noise.
    method : {"auto", "moments", "votes"}, default="auto"
        ``"moments"`` fits noisy histograms only and draws no tree. ``"votes"`` fits trees only,
        which need no public rows: voting trees for two labels, trees with noisy leaves for more.
        ``"auto"`` uses both. It falls back to ``"votes"`` without public rows, or if the noise of
        histograms is too large to be drawn. For more than two labels it does so too if the budget
        is small for the numbers of columns and labels and public rows have no labels, or with
        ``delta=0``.
    max_rounds : int, default=None
        Maximum number of rounds of histograms or of trees with noisy leaves, or number of voting
        trees. By default it is chosen by the number of rows and the budget.
    learning_rate : float, default=None
        Step size of voting trees: each tree changes the log-odds of a row by
        ``2 * learning_rate`` towards the label of its leaf. By default it is a function of the
        number of trees. Other trees ignore it.
    classes : array-like, default=None
        All possible labels. By default the labels in `y` and among the public labels, whose set is
        then an unprotected quantity.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest value of numeric columns, which must not depend on private rows. They
        are used if there are fewer than twelve public rows, or if a column is constant in them.
        Without public rows and bounds, columns are assumed to be standard normal.
    monotonic_cst : array-like of int, shape (n_features,), or dict of column to int, default=None
        Monotone constraints of numeric columns: 1 if the probability of the second label must not
        decrease, -1 if it must not increase, and 0 for no constraint. Missing values are not
        constrained. Scores are projected onto the constraints, which costs no privacy. Predictions
        satisfy them exactly.
    public_model : estimator, "auto" or None, default="auto"
        Model of public data, which released sums of the private rows weigh against boosting. A
        fitted estimator, such as last year's model or a published score, is used as it is. It must
        have been made without the private rows, and predict each row from this row alone. An
        estimator that is not fitted is fitted to the public rows with labels, by
        cross-fitting. ``"auto"`` does this with the mean of gradient boosting and a linear model,
        if at least 30 public rows have labels, no monotone constraint is set and `method` is
        not ``"votes"``. ``None`` uses no model.
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Any other value makes the fit
        repeatable, for tests and papers only, and is noted in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows of each person. With it, persons are protected instead of rows:
        `fit` requires `groups`, and uses the first `max_rows_per_group` rows of each person.
    budget : PrivacyBudget, default=None
        Budget that the fit is charged to. If it is insufficient, `fit` raises an error before it
        reads a private row.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    shapes_ : tuple of Shape
        Contribution of each bin of each column to the log-odds, with standard deviations.
        One-hot columns are one column of categories.
    trees_ : tuple of Tree
        Rules of the trees, and the score of each leaf.
    pairs_ : tuple of Pair
        Sum of the trees that split on the same two columns.
    intercept_ : ndarray of float64, shape (n_targets,)
        Log-odds of an average public row before trees, of the second of two labels or of each of
        more labels.
    feature_importances_ : ndarray of float64, shape (n_features_in_,)
        Mean absolute deviation of a column's contribution, over the public rows. That of one-hot
        columns is divided among them.
    public_model_ : estimator, tuple of estimators, or None
        The fitted public model; the two models of ``"auto"``.
    public_weight_, boosting_weight_ : float
        Weights of the margins of the public model and of boosting.
    drift_ : float or None
        Drift statistic of the public rows, about 1 without a covariate shift. ``None`` if no counts
        were released.
    guarantee_ : None
        No theorem bounds the error in the population.
    guarantee_reason_ : str
        Reason for ``guarantee_ = None``.
    privacy_ : PrivacyReceipt
        Privacy loss of each step.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the features, if `X` has string column names.

    Warns
    -----
    DriftWarning
        If the public rows have a significant covariate shift.
    LargeDeltaWarning
        If `delta` is not far below one over the number of private rows.
    LargeEpsilonWarning
        If `epsilon` is so large that it protects almost nothing.
    NoPublicDataWarning
        If there are no public rows. Bins are then data-independent, and only voting trees are
        fitted. Or if a column has too few public values, and neither `bounds` nor its type
        determine its bins.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, so that cross-validation would cut it.
    TooFewRowsWarning
        If the noise exceeds the strongest effect that a column can have on this number of rows.
    UnknownCategoriesWarning
        If a categorical column has mostly unknown values in the input of a later method call.

    See Also
    --------
    SemiPrivateBoostingRegressor : Boosting of a numeric outcome.
    SemiPrivateClassifier : One exactly drawn rule, which is easier to read.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row, features and label. The number of
    private rows, the set of labels, the types of the columns and all public rows are not
    protected. The noise is exact, on integer sums (docs/proofs/moments.md), and so are the draws.
    Probabilities of more than two labels are the softmax of one margin for each label.

    Missing values of a column have a bin of their own. Categories without a public row are in the
    bin "(other)".

    References
    ----------
    .. [1] N. Alon, R. Bassily and S. Moran (2019). Limits of private learning with access to
       public data. NeurIPS.
    .. [2] B. Balle and Y. Wang (2018). Improving the Gaussian mechanism for differential privacy.
       ICML. Theorem 8.
    .. [3] J. Dong, D. Durfee and R. Rogers (2020). Optimal differential privacy composition for
       exponential mechanisms. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = np.where(X[:, 0] + X[:, 1] + rng.logistic(size=5000) > 0, "yes", "no")
    >>> clf = SemiPrivateBoostingClassifier(epsilon=1.0, random_state=0)
    >>> clf.fit(X, y, X_public=rng.normal(size=(300, 3))).score(X, y) > 0.7
    True
    >>> bool(clf.predict_proba([[2.0, 1.0, 0.0]])[0, 1] > 0.8)
    True
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        **SemiPrivateBoosting._parameter_constraints,
        "method": [StrOptions({"auto", "moments", "votes"})],
        "learning_rate": [Interval(Real, 0, 10, closed="right"), None],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        *,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 1e-6,
        method: Literal["auto", "moments", "votes"] = "auto",
        max_rounds: int | None = None,
        learning_rate: float | None = None,
        classes: ArrayLike | None = None,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        monotonic_cst: ArrayLike | dict[Any, Any] | None = None,
        public_model: Any = "auto",
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.max_rounds = max_rounds
        self.learning_rate = learning_rate
        self.classes = classes
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
        """Fit the model, and spend (ε, δ).

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows. All are private, except for the rows that `is_public` marks.
        y : array-like, shape (n,)
            Labels. The label -1 (or ``"-1"`` among text labels) marks unlabelled public rows,
            unless it is a label of some private row or one of `classes`.
        X_public : DataFrame or array-like, shape (m, n_features), optional
            Separate public rows. In cross-validation it must not have as many rows as `X`.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, where -1 marks unlabelled rows. Labels of public rows have no
            noise. They are weighted by their agreement with released histograms. Voting trees are
            trained on labelled public rows like on private ones.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Person of each row, for `max_rows_per_group`; ignored for public rows.

        Returns
        -------
        self : SemiPrivateBoostingClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid; the message contains no private value. Or if
            `epsilon` is too small for histograms and `method` does not allow trees alone.
        PrivacyBudgetError
            If `budget` is insufficient.
        """
        assumption = "" if self.classes is not None else " and the set of labels in y"
        training, _ = self._fit(
            LabelReader(self.classes, min_classes=2),
            X,
            y,
            label_assumption=assumption,
            learning_rate=self.learning_rate,
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
        )
        assert training.classes is not None
        self.classes_ = training.classes
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return log-odds of the second label, or a margin for each of more than two labels.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n,) or (n, n_classes)
            Log-odds of the second of two labels. For more labels the softmax of their margins are
            the probabilities.
        """
        return predict_batches(self, X, self._prediction_rule(_log_odds))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each label.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n, n_classes)
            Probabilities.
        """
        check_is_fitted(self)
        mean = self._loss.mean
        rule = self._prediction_rule(lambda margins: _class_probabilities(mean(margins)))
        return predict_batches(self, X, rule)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            Most probable label of each row.
        """
        return predict_batches(self, X, self._rule())

    def _rule(self) -> Rule:
        """Return the function that maps a table to predicted labels."""
        check_is_fitted(self)
        classes = self.classes_
        return self._prediction_rule(lambda margins: classes[_predicted_codes(margins)])

    def explain(self) -> str:
        """Describe the model as text.

        Returns
        -------
        str
            Contributions to the log-odds of the ten most important columns, pairs and trees, with
            two posterior standard deviations, and the names of the others. Neighbouring bins of a
            column are merged if there are more than twelve. The text may be published.
        """
        check_is_fitted(self)
        labels = [str(label) for label in self.classes_]
        if len(labels) == 2:
            return self._explain_as_text(f"log-odds of {labels[1]}", [""], decimals=2)
        return self._explain_as_text("log-odds", labels, decimals=2)

    def to_json(self) -> str:
        """Return the model as JSON, with all that is needed to predict in another language.

        Returns
        -------
        str
            A JSON object; the user guide on boosting describes its fields. It holds released
            numbers, functions of public rows, and the receipt, and may be published.
        """
        check_is_fitted(self)
        return model_to_json(self, classes=self.classes_.tolist())

    def __sklearn_tags__(self) -> Any:
        """Declare a low score on the small data of scikit-learn's estimator checks."""
        tags = super().__sklearn_tags__()
        # a check asks for 83% on 300 rows of three labels without public ones
        tags.classifier_tags.poor_score = True
        return tags


def _log_odds(margins: Integers) -> Floats:
    """Return integer margins as floats, shape (n,) for two labels and (n, n_classes) for more."""
    log_odds: Floats = margins / MARGIN_UNIT
    return log_odds[0] if len(log_odds) == 1 else log_odds.T


def _class_probabilities(means: Floats) -> Floats:
    """Return the probability of each class, shape (n, n_classes), from the mean of each target."""
    if len(means) > 1:
        return means.T
    second = means.T
    return np.hstack([1 - second, second])


def _predicted_codes(margins: Integers) -> NDArray[np.intp]:
    """Return the code of the most probable class of each row."""
    codes: NDArray[np.intp]
    codes = (margins[0] > 0).astype(np.intp) if len(margins) == 1 else margins.argmax(axis=0)
    return codes
