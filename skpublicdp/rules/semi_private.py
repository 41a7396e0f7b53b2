"""SemiPrivateClassifier: one private draw from a cover that is built from public rows."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import PROBABILITY, OptionalBudget, Seed, all_or_nothing
from skpublicdp.data.batch_predict import Rule, StreamedScoreMixin, predict_batches
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.labels import LabelReader
from skpublicdp.data.public_rows import (
    describe_reference,
    reference_rows,
    warn_no_public,
)
from skpublicdp.data.schema import Column
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, FiniteClass, Hypothesis, HypothesisClass, PublicSample
from skpublicdp.hypotheses.base import FeatureName, assumptions_of_class, tabulate
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_classifier import (
    COVER_PARAMETERS,
    CoverClassifier,
    class_or_default,
    may_be_known,
    n_reference_rows,
)
from skpublicdp.rules.cover_search import DrawnRule, RuleSearch
from skpublicdp.rules.population_guarantee import (
    DEPENDENT_ROWS,
    NO_PUBLIC_ROWS,
    SYNTHETIC_VALUES,
    WRITTEN_FROM_DESCRIPTION,
    cover_error,
    excess_error_guarantee,
    is_whole_class,
    no_guarantee,
)
from skpublicdp.typing import Integers


class SemiPrivateClassifier(StreamedScoreMixin, CoverClassifier):
    """Pure ε-differentially private classifier that uses public rows.

    Public rows, labelled or not, determine a finite cover of a hypothesis class. One exact draw of
    the exponential mechanism then selects a rule of the cover according to its errors on the
    private rows. This is Algorithm 1 (A_SSPP) of [1]_, whose Lemma 3.2 proves privacy.

    Parameters
    ----------
    hypotheses : HypothesisClass, default=None
        Hypothesis class to learn; ``None`` means `DecisionTrees(max_depth=2)`.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, interpreted as an exact fraction.
    alpha : float, default=0.05
        Target approximation error, in (0, 1): some rule of the cover disagrees with the best rule
        of the class on at most approximately this fraction of the public rows. For split points,
        alpha is the spacing of the quantiles. A smaller alpha results in a larger cover and a
        larger error of the draw.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail; `guarantee_` may fail with the
        same probability.
    public_weight : int, default=1
        Weight of a labelled public row in the score, relative to a private row. Public labels cost
        no privacy; a weight of 0 ignores them.
    best_error : float, default=None
        Declared bound, in [0, 1), on the population error of the best rule of `hypotheses`; 0 in
        the realizable case. This is an assumption, must not be computed from private rows, and only
        changes `guarantee_`. It is not used if labelled public rows have a positive weight.
    smoothness : float, default=1.0
        Declared σ in (0, 1] for public rows from another population: the density of the private
        rows is at most 1/σ times the density of the public rows, for the features. `guarantee_`
        then holds in the population of the private rows, and its term for the cover is divided by
        σ. This is an assumption, and it only changes `guarantee_`. With labelled public rows of a
        positive weight and σ below 1, there is no bound.
    classes : array-like, default=None
        All possible labels. By default, the labels that occur in `y` and among the public labels;
        the set of these labels is then assumed to be public knowledge.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lower and upper bounds of the features, from public knowledge. The bounds are used if there
        are fewer than min(20, 1 / alpha) public rows, or if a feature is constant among the public
        rows. Without bounds and public rows, the features are assumed to be standard normal.
    n_jobs : int, default=None
        Number of threads that count rows; it does not affect the results.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator. Any other value makes
        the fit reproducible, for tests and papers, and the receipt states this.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `fit` then requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Privacy budget to which the fit is charged. If too little budget remains, `fit` raises an
        error before any private row is read.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    hypothesis_ : Hypothesis
        The drawn rule; ``print`` displays it in words.
    cover_size_ : int
        Number of hypotheses in the cover, or in the cover of the last round if there are several
        rounds.
    cover_radius_ : float or None
        Radius of the cover on the public rows (or on the reference sample, if there are no public
        rows): every rule of the class disagrees with some rule of the cover on at most this
        fraction of these rows. ``None`` if no bound is known, as for halfspaces along directions.
        In the population, the fraction may be larger, even if `cover_radius_` is 0; `guarantee_`
        accounts for this.
    privacy_ : PrivacyReceipt
        The privacy cost of the fit.
    certificate_ : Certificate
        Bound on the excess error of the drawn rule over the best rule of the cover (of the last
        round) on the scored rows.
    guarantee_ : float or None
        Bound on the excess population error over the best rule of `hypotheses`. The bound holds
        with probability 1 - beta over the private rows, the public rows and the draw, if all rows
        are independent draws from one population. ``None`` if no bound has been proved. With
        `best_error`, the bound is on the population error minus `best_error`. See
        ``guarantees.n_private`` for the number of rows that results in a given bound.
    guarantee_reason_ : str
        The terms of the bound, or the reason why no bound has been proved.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns, if all column names of `X` are strings.

    Warns
    -----
    LargeEpsilonWarning
        If `epsilon` is so large that it provides almost no protection.
    NoPublicDataWarning
        If there are no public rows, in which case the cover is data-independent. Also if there are
        too few public rows, or a column is constant among them, and `bounds` has no entry for the
        column.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, in which case cross-validation would slice it.
    TooFewRowsWarning
        If `guarantee_` is 1, which means that no accuracy bound holds. Not given in a search or
        cross-validation of scikit-learn.

    See Also
    --------
    PublicFit : Fits any transformer on the public rows only.

    Notes
    -----
    Neighbouring datasets differ by replacing the features and label of one private row. The number
    of private rows, the set of labels and all public rows are not protected. Only `hypothesis_`
    depends on the values of private rows.

    References
    ----------
    .. [1] N. Alon, R. Bassily and S. Moran (2019). Limits of private learning with access to
       public data. NeurIPS. Theorem 3.1, Lemmas 3.2 and 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = np.where((X[:, 0] > 0) & (X[:, 1] > 0.5), "yes", "no")
    >>> clf = SemiPrivateClassifier(epsilon=1.0, random_state=0)
    >>> clf.fit(X, y, X_public=rng.normal(size=(300, 3))).score(X, y) > 0.95
    True
    >>> clf.privacy_.epsilon, clf.privacy_.delta
    (1.0, 0.0)
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "hypotheses": [HypothesisClass, None],
        "alpha": PROBABILITY,
        "public_weight": [Interval(Integral, 0, 1 << 20, closed="both")],
        "best_error": [Interval(Real, 0, 1, closed="left"), None],
        "smoothness": [Interval(Real, 0, 1, closed="right")],
        "classes": ["array-like", None],
        "bounds": ["array-like", dict, None],
        **COVER_PARAMETERS,
    }

    # metadata with these names has only one meaning, so it is routed without a request
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    _numeric = True

    protects_all_rows = True
    """Every row of `X` is protected, except for rows that a mask marks as public.

    The classifier can therefore serve as a base learner."""

    def __init__(
        self,
        hypotheses: HypothesisClass | None = None,
        *,
        epsilon: float | Fraction = 1.0,
        alpha: float = 0.05,
        beta: float = 0.05,
        public_weight: int = 1,
        best_error: float | None = None,
        smoothness: float = 1.0,
        classes: ArrayLike | None = None,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.epsilon = epsilon
        self.alpha = alpha
        self.beta = beta
        self.public_weight = public_weight
        self.best_error = best_error
        self.smoothness = smoothness
        self.classes = classes
        self.bounds = bounds
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
        """Select a rule with the exponential mechanism, using its errors on the private rows.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows, all private except for those marked by `is_public`.
        y : array-like, shape (n,)
            Labels. For rows marked by `is_public`, -1 (or ``"-1"`` among string labels) means
            "unlabelled", unless -1 is the label of some private row or one of `classes`.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows. In cross-validation, `X_public` and `X` must have different
            numbers of rows.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, where -1 has the same meaning as in `y`. By default `X_public` has
            no labels.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. The mask is safe to use in cross-validation.
        groups : array-like, shape (n,), optional
            Person identifier of each row, for `max_rows_per_group`; not read for public rows.

        Returns
        -------
        self : SemiPrivateClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If too little of `budget` remains.
        CoverSizeError
            If the error counts of the cover would not fit in memory.
        """
        return self._fit(
            X, y, X_public=X_public, y_public=y_public, is_public=is_public, groups=groups
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            A label of `classes_` for each row.
        """
        return predict_batches(self, X, self._rule(), numeric=True)

    def _rule(self) -> Rule:
        """Return a function that predicts labels without keeping a reference to the estimator."""
        check_is_fitted(self)
        classes, hypothesis, schema = self.classes_, self.hypothesis_, self._schema
        return lambda table: classes[hypothesis.predict(schema.encode(table, clamp=False))]

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        """Return the columns that were passed to `fit`, with their names and types."""
        return self._schema.columns

    # `SemiPrivateSearchCV` calls some of the following steps of `fit` itself and makes one draw
    # for all candidates.

    def _read(self, X: Any, y: Any, **inputs: Any) -> Dataset:
        """Return the inputs of `fit` as a numeric dataset of private and public rows."""
        return read_fit_inputs(
            self,
            X,
            y,
            LabelReader(self.classes),
            **inputs,
            numeric=True,
            min_public_rows=self._min_public_rows(),
        )

    def _min_public_rows(self) -> int | None:
        """Return the number of public rows below which `bounds` are also used, or None.

        Quantiles at spacing alpha require 1 / alpha rows, but 20 rows are always enough. A finite
        class does not need public rows, so there is no minimum (None).
        """
        if isinstance(self.hypotheses, FiniteClass):
            return None
        return math.ceil(1 / max(self.alpha, 0.05))

    def _prepare(self, rows: Dataset, ledger: Ledger) -> RuleSearch:
        """Return the cover built from the public rows, and the rows used to score its rules.

        The sensitivity is 1, the weight of a private row, regardless of the weight of public rows.
        """
        return RuleSearch(
            cover=self._cover(rows),
            tabulate=lambda cover: self._table(cover, rows),
            ledger=ledger,
            scored=rows.n_private + int(self.public_weight) * len(rows.targets.public),
        )

    def _cover(self, rows: Dataset) -> Cover:
        """Return the cover of the hypothesis class, built from the public rows."""
        return class_or_default(self.hypotheses).build_cover(
            self._public_sample(rows), alpha=self.alpha, beta=self.beta
        )

    def _assumptions(self, rows: Dataset, described: tuple[str, ...]) -> tuple[str, ...]:
        return (
            may_be_known("the number of private rows", self.classes),
            *rows.assumptions,  # `described` included
            *assumptions_of_class(self.hypotheses),
        )

    def _guarantee(
        self,
        rows: Dataset,
        search: RuleSearch,
        drawn: DrawnRule,
        described: bool,
        rows_per_person: int,
    ) -> Promise:
        cover, hypotheses = search.cover, class_or_default(self.hypotheses)
        reason = self._why_no_guarantee(cover, rows, described, rows_per_person)
        if reason is not None:
            return no_guarantee(reason)
        public_weight, n_labelled = int(self.public_weight), len(rows.targets.public)
        growth = None
        if (
            public_weight
            and n_labelled
            and len(rows.classes) <= 2
            and hasattr(hypotheses, "growth")
        ):
            growth = hypotheses.growth(2 * n_labelled, self.n_features_in_)
        return excess_error_guarantee(
            cover,
            drawn,
            lambda beta: self._cover_error(cover, rows, beta),
            n=rows.n_private,
            beta=self.beta,
            public_weight=public_weight,
            n_labelled=n_labelled,
            growth=growth,
            hypotheses=hypotheses,
            best_error=self.best_error,
            epsilon=float(self.epsilon),
            smoothness=self.smoothness,
        )

    def _why_no_guarantee(
        self, cover: Cover, rows: Dataset, described: bool, rows_per_person: int
    ) -> str | None:
        """Return the reason why these rows do not permit a population bound, or None."""
        if rows_per_person > 1:
            return DEPENDENT_ROWS
        if is_whole_class(cover) and not len(rows.targets.public):
            return None  # the public rows are not used
        if not rows.n_public:
            return NO_PUBLIC_ROWS
        if rows.is_synthetic.any():
            return SYNTHETIC_VALUES
        return WRITTEN_FROM_DESCRIPTION if described else None

    def _cover_error(self, cover: Cover, rows: Dataset, beta: float) -> float | None:
        """Return the `population_guarantee.cover_error` bound for this class and these rows."""
        n_features, n_classes = self.n_features_in_, len(rows.classes)
        return cover_error(
            cover,
            class_or_default(self.hypotheses),
            n_features,
            n_classes,
            rows.n_public,
            beta,
            fixed_rule=self.best_error is not None,
        )

    def _store_rule(self, rows: Dataset, hypothesis: Hypothesis, cover: Cover) -> None:
        super()._store_rule(rows, hypothesis, cover)
        self.cover_radius_ = cover.radius
        self._schema = rows.schema

    def _table(self, cover: Cover, rows: Dataset) -> Integers:
        """Return the counts from which a cover computes the error of each rule on all scored rows.

        A labelled public row is counted `public_weight` times.
        """
        table = rows.fold(lambda X, y: tabulate(cover, X, y), n_jobs=self.n_jobs)
        y_public = rows.targets.public
        if self.public_weight and len(y_public):
            public_table = tabulate(cover, rows.X_labelled, y_public, n_jobs=self.n_jobs)
            table = table + int(self.public_weight) * public_table
        return table

    def _public_sample(self, rows: Dataset) -> PublicSample:
        """Return the public rows, or a reference sample if there are no public rows."""
        X_public = rows.X_public
        if not len(X_public):
            grid = describe_reference(rows.schema, rows.bounded, "features")
            warn_no_public(f"the hypotheses come from a data-independent grid over {grid}")
            X_public = reference_rows(rows.schema, rows.bounded, n_reference_rows(self.alpha))
        names = tuple(
            FeatureName(column.name, column.format) if column.has_offset else column.name
            for column in rows.schema.columns
        )
        return PublicSample(X_public, rows.classes, names)
