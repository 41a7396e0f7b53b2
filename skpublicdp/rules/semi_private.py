"""SemiPrivateClassifier: the learner A_SSPP of Alon, Bassily and Moran (2019)."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    GROUP_PARAMETERS,
    N_JOBS,
    PROBABILITY,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp.accounting import Draw, PrivacyReceipt, exact_fraction
from skpublicdp.data.batch_predict import Rule, StreamedScoreMixin, predict_batches
from skpublicdp.data.description import public_data_assumptions
from skpublicdp.data.fit_inputs import Dataset, read_fit_inputs
from skpublicdp.data.labels import LabelReader
from skpublicdp.data.reference import describe_reference, reference_rows, warn_no_public
from skpublicdp.data.schema import Column
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import (
    Cover,
    DecisionTrees,
    FiniteClass,
    Hypothesis,
    HypothesisClass,
    PublicSample,
)
from skpublicdp.hypotheses.base import (
    FeatureName,
    assumptions_of_class,
    tabulate,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_search import DrawnRule, search_cover
from skpublicdp.rules.population_guarantee import (
    DEPENDENT_ROWS,
    NO_PUBLIC_ROWS,
    SYNTHETIC_VALUES,
    WRITTEN_FROM_DESCRIPTION,
    cover_error,
    excess_error_guarantee,
    no_guarantee,
    warn_if_vacuous,
    with_class_assumptions,
)
from skpublicdp.typing import Integers


class SemiPrivateClassifier(HTMLReprMixin, StreamedScoreMixin, ClassifierMixin, BaseEstimator):
    """Pure ε-differentially private classifier, helped by public rows.

    Public rows, labelled or not, choose a finite cover of a hypothesis class; one exact draw of
    the exponential mechanism picks its member by the errors on the private rows. This is
    Algorithm 1 (A_SSPP) of [1]_; Lemma 3.2 there is its privacy.

    Parameters
    ----------
    hypotheses : HypothesisClass, default=None
        Class to learn; ``None`` means `DecisionTrees(max_depth=2)`.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    alpha : float, default=0.05
        Target of approximation, in (0, 1): some rule of the cover disagrees with the best of the
        class on at most about this share of the public rows. For splits it is the spacing of the
        quantiles they are put at. A smaller value pays more for its choice.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail, and with which `guarantee_` may.
    public_weight : int, default=1
        Weight of a labelled public row in the score, relative to a private one. It costs no
        privacy; 0 ignores public labels.
    classes : array-like, default=None
        All possible labels. By default those that occur in `y` and among the public labels, whose
        set is then taken to be public knowledge.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest value of the features, known without looking at private rows. Used where
        public rows are fewer than 1 / alpha and than 20, or all alike in a feature; if there are
        none, the features are taken to be standard normal without it.
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
    hypothesis_ : Hypothesis
        The drawn rule; ``print`` shows it in words.
    cover_size_ : int
        Number of hypotheses it was drawn from, in the last round where there are several.
    cover_radius_ : float or None
        Of the public rows (of the reference, where there are none), and of no others: each member
        of the class disagrees with some member of the cover on at most this share of them. ``None``
        where no bound is known, as for halfspaces along directions. The share of the population may
        be larger, also where this is 0: it is part of `guarantee_`.
    privacy_ : PrivacyReceipt
        What was spent.
    certificate_ : Certificate
        Of the rows scored and of the draw alone: on them the drawn rule errs little more than the
        best in the cover (of the last round).
    guarantee_ : float or None
        Of the population: with probability 1 - beta over the private rows, the public rows and the
        draw, the drawn rule errs on at most this share more than the best of `hypotheses`, if all
        rows were drawn independently from one population. ``None`` where nothing is proved.
    guarantee_reason_ : str
        What the guarantee is made of, or why there is none, in one sentence.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    LargeEpsilonWarning
        If `epsilon` is so large that it protects almost nothing.
    NoPublicDataWarning
        If there are no public rows: the cover is then data-independent. Or if these say too little
        of a column, and `bounds` does not say more.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, so that cross-validation would cut it.
    TooFewRowsWarning
        If `guarantee_` is 1: nothing is promised for so few rows.

    See Also
    --------
    PublicFit : Fits any transformer on the public rows only.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row, features and label. The number of
    private rows, the set of labels and all public rows are not protected. Nothing that depends on
    the private rows is stored save `hypothesis_`.

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
        "beta": PROBABILITY,
        "public_weight": [Interval(Integral, 0, 1 << 20, closed="both")],
        "classes": ["array-like", None],
        "bounds": ["array-like", dict, None],
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

    _numeric = True

    protects_all_rows = True
    """Every row of `X` is private unless a mask says otherwise: it may be a base learner."""

    def __init__(
        self,
        hypotheses: HypothesisClass | None = None,
        *,
        epsilon: float | Fraction = 1.0,
        alpha: float = 0.05,
        beta: float = 0.05,
        public_weight: int = 1,
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
        """Spend ε on one draw, or on a few that share it.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows, all private unless `is_public` says otherwise.
        y : array-like, shape (n,)
            Labels. Under the mask, -1 (or ``"-1"`` among text labels) means unlabelled, unless -1
            is a label of some private row or one of `classes`.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows. In cross-validation it must not have as many rows as `X`.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, -1 as above; without it `X_public` has no labels.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Whose row each is, for `max_rows_per_group`; not looked at for public rows.

        Returns
        -------
        self : SemiPrivateClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        PrivacyBudgetError
            If `budget` cannot pay.
        CoverSizeError
            If the cover's table would not fit in memory.
        """
        check_parameters(self)
        ledger = Ledger.of(self, event=Draw(exact_fraction(self.epsilon)))
        rows = self._read(X, y, X_public, y_public, is_public, groups)
        ledger.read(rows.n_private, rows.n_public)
        cover = self._cover(rows)

        scored = rows.n_private + int(self.public_weight) * len(rows.targets.public)
        drawn = search_cover(
            cover,
            lambda cover: self._table(cover, rows),
            ledger,
            sensitivity=1,  # a replaced private row has weight 1 whatever the public ones weigh
            scored=scored,
            beta=self.beta,
        )

        labels = "" if self.classes is not None else " and the set of labels in y"
        receipt = ledger.receipt(
            assumptions=(
                f"the number of private rows{labels} may be known",
                *rows.assumptions,
                *assumptions_of_class(self.hypotheses),
            )
        )
        self.certificate_ = drawn.certificate
        guarantee = self._promise(
            rows, cover, drawn, public_data_assumptions(X_public), ledger.rows_per_person
        )
        self.guarantee_, self.guarantee_reason_ = guarantee
        warn_if_vacuous(guarantee, rows.n_private, rows.n_public, float(self.epsilon))
        return self._keep(rows, drawn.hypothesis, drawn.cover, receipt)

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
        check_is_fitted(self)
        classes, hypothesis, schema = self.classes_, self.hypothesis_, self._schema
        return lambda table: classes[hypothesis.predict(schema.encode(table, clamp=False))]

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        return self._schema.columns

    # a search reads, covers and keeps as fit does, with one draw for many classifiers

    def _read(
        self,
        X: Any,
        y: Any,
        X_public: Any = None,
        y_public: Any = None,
        is_public: Any = None,
        groups: Any = None,
    ) -> Dataset:
        return read_fit_inputs(
            self,
            X,
            y,
            LabelReader(self.classes),
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
            numeric=True,
            min_public_rows=self._least(),
        )

    def _least(self) -> int | None:
        """Return how many public rows see a share of alpha; a finite class needs none."""
        if isinstance(self.hypotheses, FiniteClass):
            return None
        return math.ceil(1 / max(self.alpha, 0.05))

    def _cover(self, rows: Dataset) -> Cover:
        return self._class().build_cover(
            self._public_sample(rows), alpha=self.alpha, beta=self.beta
        )

    def _class(self) -> HypothesisClass:
        return DecisionTrees() if self.hypotheses is None else self.hypotheses

    def _promise(
        self,
        rows: Dataset,
        cover: Cover,
        drawn: DrawnRule,
        described: tuple[str, ...],
        rows_per_person: int,
    ) -> Promise:
        """Say how far the drawn rule may be from the best of the class in the population."""
        hypotheses, n_classes = self._class(), len(rows.classes)
        doubt = self._doubt(cover, rows, described, rows_per_person)
        if doubt is not None:
            return no_guarantee(doubt)
        weight, labelled = int(self.public_weight), len(rows.targets.public)
        growth = None
        if weight and labelled and n_classes <= 2 and hasattr(hypotheses, "growth"):
            growth = hypotheses.growth(2 * labelled, self.n_features_in_)
        guarantee = excess_error_guarantee(
            cover,
            drawn,
            lambda beta: self._near(cover, rows, beta),
            n=rows.n_private,
            beta=self.beta,
            public_weight=weight,
            n_labelled=labelled,
            growth=growth,
        )
        counted = growth is not None or cover.cuts is None  # labelings of the class
        return with_class_assumptions(guarantee, hypotheses) if counted else guarantee

    def _doubt(
        self, cover: Cover, rows: Dataset, described: tuple[str, ...], rows_per_person: int
    ) -> str | None:
        """Return what is in the way of any promise, or None."""
        if rows_per_person > 1:
            return DEPENDENT_ROWS
        if cover.cuts is not None and not cover.cuts.per_rule and not len(rows.targets.public):
            return None  # the class is its own cover, whatever the public rows are
        if not rows.n_public:
            return NO_PUBLIC_ROWS
        if rows.is_synthetic.any():
            return SYNTHETIC_VALUES
        return WRITTEN_FROM_DESCRIPTION if described else None

    def _near(self, cover: Cover, rows: Dataset, beta: float) -> float | None:
        """Bound how far any rule of the class is from the cover in the population."""
        shape = self.n_features_in_, len(rows.classes)
        return cover_error(cover, self._class(), *shape, rows.n_public, beta)

    def _keep(
        self, rows: Dataset, hypothesis: Hypothesis, cover: Cover, receipt: PrivacyReceipt
    ) -> Self:
        """Keep a rule drawn from a cover."""
        self.classes_ = rows.classes
        self._schema = rows.schema
        self.hypothesis_ = hypothesis
        self.cover_size_ = cover.size
        self.cover_radius_ = cover.radius
        self.privacy_ = receipt
        return self

    def _table(self, cover: Cover, rows: Dataset) -> Integers:
        """Tabulate the private rows, and the labelled public ones at their weight."""
        table = rows.fold(lambda X, y: tabulate(cover, X, y), n_jobs=self.n_jobs)
        labelled = rows.targets.public
        if self.public_weight and len(labelled):
            table = table + int(self.public_weight) * tabulate(
                cover, rows.X_labelled, labelled, n_jobs=self.n_jobs
            )
        return table

    def _public_sample(self, rows: Dataset) -> PublicSample:
        X_public = rows.X_public
        if not len(X_public):
            where = describe_reference(rows.schema, rows.bounded, "features")
            warn_no_public(f"the hypotheses come from a data-independent grid over {where}")
            size = int(min(max(1000, 2 / self.alpha), 20_000))
            X_public = reference_rows(rows.schema, rows.bounded, size)
        names = tuple(
            FeatureName(column.name, column.format) if column.has_offset else column.name
            for column in rows.schema.columns
        )
        return PublicSample(X_public, rows.classes, names)
