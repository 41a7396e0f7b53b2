"""SemiPrivateBoostingClassifier: an additive model and trees from noisy sums and exact draws."""

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
from skpublicdp.boosting.fit import BoostingFit, FittedModel
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.data.batch_predict import Rule, StreamedScoreMixin, predict_batches
from skpublicdp.data.labels import LabelReader
from skpublicdp.typing import Integers

Floats = NDArray[np.float64]


class SemiPrivateBoostingClassifier(StreamedScoreMixin, ClassifierMixin, SemiPrivateBoosting):
    """Private boosting on tables of numbers and categories, with scores for each label.

    Public rows, labelled or not, cut the columns into cells. A first look compares each column with
    the private rows and reweighs public rows that look unlike. Noisy sums of what the model so far
    leaves unexplained are released, cell by cell and round by round; an additive logistic model is
    fitted to them on the public rows, which costs no privacy. A small tree is then drawn exactly to
    see if columns act together; if so, more follow.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=1e-6
        Privacy budget δ in [0, 1); 0 gives pure ε-differential privacy, with Laplace noise.
    method : {"auto", "moments", "votes"}, default="auto"
        ``"moments"`` is sums only and never draws a tree; ``"votes"`` is trees only, which do
        without public rows: for two labels they vote, for more their leaves are measured.
        ``"auto"`` is both, and ``"votes"`` where there are no public rows, where the noise of sums
        would be too large to be drawn, and for more than two labels with a small budget and
        ``delta=0``.
    max_rounds : int, default=None
        Most rounds of sums, or trees with measured leaves, or number of trees that vote. By default
        rules of the numbers of rows and of the budget choose it.
    learning_rate : float, default=None
        What the vote of a tree adds to the log-odds of its label, half of it on either side; by
        default a rule of the number of trees. Only trees that vote have it.
    classes : array-like, default=None
        All possible labels. By default those that occur in `y` and among the public labels, whose
        set is then taken to be public knowledge.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest value of numeric columns, known without looking at private rows. Used
        where there are fewer than twelve public rows or these are all alike in a column; if there
        are none, the columns are taken to be standard normal without it.
    monotonic_cst : array-like of int, shape (n_features,), or dict of column to int, default=None
        1 for columns of numbers in which the probability of the second label may not fall, -1
        for those in which it may not rise, and 0. Missing values are free. Scores are projected
        onto the constraints, which costs no privacy: predictions keep them exactly.
    n_jobs : int, default=None
        Number of threads that tabulate rows; results do not depend on it.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers; the receipt then says so.
    max_rows_per_group : int, default=None
        Protects persons instead of rows: `fit` then takes `groups`, and no more than the first so
        many rows of a person count.
    budget : PrivacyBudget, default=None
        What the fit is charged to; one that cannot pay refuses before a private row is read.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    shapes_ : tuple of Shape
        What each cell of each column adds to the log-odds, and how sure that is.
    trees_ : tuple of Tree
        The trees in words, and what each leaf adds.
    pairs_ : tuple of Pair
        What the trees that ask about the same two columns add together.
    intercept_ : ndarray of float64, shape (n_targets,)
        Log-odds of an average public row before trees: of the second label, or of each where there
        are more than two.
    feature_importances_ : ndarray of float64, shape (n_features_in_,)
        Mean distance of a column's contribution from its mean, over the public rows.
    drift_ : float or None
        How unlike the public rows are: about 1 if they are of the private rows' population.
        ``None`` where nothing was counted.
    guarantee_ : None
        No theorem bounds the error in the population.
    guarantee_reason_ : str
        The same, in one sentence.
    privacy_ : PrivacyReceipt
        What was spent, stage by stage.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    DriftWarning
        If the public rows look unlike the private ones.
    LargeDeltaWarning
        If `delta` is not far below one over the number of private rows.
    LargeEpsilonWarning
        If `epsilon` is so large that it protects almost nothing.
    NoPublicDataWarning
        If there are no public rows: cells are then data-independent, and trees vote. Or if these
        say too little of a column, and `bounds` or its type do not say more.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, so that cross-validation would cut it.
    TooFewRowsWarning
        If noise is larger than the strongest effect that a column can have on so few rows.
    UnknownCategoriesWarning
        If a categorical column that any method is given later has mostly unknown values.

    See Also
    --------
    SemiPrivateBoostingRegressor : The same for numeric outcomes.
    SemiPrivateClassifier : One exactly drawn rule, which is easier to read.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row, features and label. The number of
    private rows, the set of labels, the types of the columns and all public rows are not
    protected. The noise is exact, on integer sums (docs/proofs/moments.md), and so are the draws.
    Probabilities of more than two labels are the softmax of one margin for each.

    Numbers and categories may be missing: that is a cell of its own. A category that no public row
    has falls into a cell "(other)".

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
        """Spend (ε, δ).

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows, all private unless `is_public` says otherwise.
        y : array-like, shape (n,)
            Labels. Under the mask, -1 (or ``"-1"`` among text labels) means unlabelled, unless -1
            is a label of some private row or one of `classes`.
        X_public : DataFrame or array-like, shape (m, n_features), optional
            Separate public rows. In cross-validation it must not have as many rows as `X`.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, -1 as above; without it `X_public` has no labels. Labels of
            public rows are known without noise; they are believed as far as released sums agree
            with them. Where trees vote such a row is like a private one.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Whose row each is, for `max_rows_per_group`; not looked at for public rows.

        Returns
        -------
        self : SemiPrivateBoostingClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described, no private value being quoted; or if
            `epsilon` is too small for sums and `method` allows nothing else.
        PrivacyBudgetError
            If `budget` cannot pay.
        """
        known = "" if self.classes is not None else " and the set of labels in y"
        rows, _ = self._learn(
            LabelReader(self.classes, least=2),
            self._stages,
            X,
            y,
            assumption=known,
            learning_rate=self.learning_rate,
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
        )
        assert rows.classes is not None
        self.classes_ = rows.classes
        return self

    def _stages(self, learner: BoostingFit) -> FittedModel:
        if self.method == "auto":
            return learner.fit_auto()
        return (
            learner.fit_tree_ensemble()
            if self.method == "votes"
            else learner.fit_additive(trees=False)
        )

    def decision_function(self, X: Any) -> Floats:
        """Return log-odds.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n,) or (n, n_classes)
            Of the second label; where there are more than two, a margin for each whose softmax is
            its probability.
        """
        return predict_batches(self, X, self._of_margins(_log_odds))

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
        return predict_batches(
            self, X, self._of_margins(lambda margins: _probabilities(mean(margins)))
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : DataFrame or array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            The likeliest of `classes_` for each row.
        """
        return predict_batches(self, X, self._rule())

    def _rule(self) -> Rule:
        check_is_fitted(self)
        classes = self.classes_
        return self._of_margins(lambda margins: classes[_likeliest(margins)])

    def explain(self) -> str:
        """Put the model into words.

        Returns
        -------
        str
            What the ten strongest of columns, pairs and trees add to the log-odds, with twice the
            standard deviation of what is believed of it, and the names of the others. Neighbouring
            cells of a column are joined where there are more than twelve. All of it may be shown to
            anybody.
        """
        check_is_fitted(self)
        labels = [str(label) for label in self.classes_]
        if len(labels) == 2:
            return self._in_words(f"log-odds of {labels[1]}", [""], decimals=2)
        return self._in_words("log-odds", labels, decimals=2)

    def to_json(self) -> str:
        """Return the model as JSON, with all that is needed to predict in another language.

        Returns
        -------
        str
            An object; the user guide on boosting describes its fields. Everything in it is public:
            released numbers, what public rows told, and the receipt.
        """
        check_is_fitted(self)
        return model_to_json(self, classes=self.classes_.tolist())

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn how good to expect it to be."""
        tags = super().__sklearn_tags__()
        # a check asks for 83% on 300 rows of three labels without public ones
        tags.classifier_tags.poor_score = True
        return tags


def _log_odds(margins: Integers) -> Floats:
    odds: Floats = margins / MARGIN_UNIT
    return odds[0] if len(odds) == 1 else odds.T


def _probabilities(means: Floats) -> Floats:
    each = means.T
    return np.hstack([1 - each, each]) if each.shape[1] == 1 else each


def _likeliest(margins: Integers) -> NDArray[np.intp]:
    likeliest: NDArray[np.intp]
    likeliest = (margins[0] > 0).astype(np.intp) if len(margins) == 1 else margins.argmax(axis=0)
    return likeliest
