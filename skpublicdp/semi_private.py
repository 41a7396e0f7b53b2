"""SemiPrivateClassifier: the learner A_SSPP of Alon, Bassily and Moran (2019)."""

from __future__ import annotations

from numbers import Integral

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpublicdp.accounting import Draw, exact_fraction
from skpublicdp.data.door import read
from skpublicdp.data.labels import Labels
from skpublicdp.data.predicting import ScoresRows, each_row
from skpublicdp.data.reference import reference_sample, warn_no_public
from skpublicdp.hypotheses import DecisionTrees, HypothesisClass, PublicSample
from skpublicdp.hypotheses.base import FeatureName, tabulate
from skpublicdp.ledger import Ledger
from skpublicdp.parameters import FIT, N_JOBS, PROBABILITY, ROWS, all_or_nothing, check_parameters
from skpublicdp.rounds import draw_in_rounds


class SemiPrivateClassifier(ScoresRows, ClassifierMixin, BaseEstimator):
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
        Probability, in (0, 1), with which `certificate_` may fail.
    public_weight : int, default=1
        Weight of a labelled public row in the score, relative to a private one. It costs no
        privacy; 0 ignores public labels.
    classes : array-like, default=None
        All possible labels. By default those that occur in `y` and among the public labels, whose
        set is then taken to be public knowledge.
    bounds : array-like of float, shape (2,) or (n_features, 2), default=None
        Lowest and highest value of the features, known without looking at private rows. Used only
        where there are no public rows; without it the features are taken to be standard normal.
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
        Radius reached: each member of the class disagrees with some member of the cover on at most
        this share of the public rows (of the reference, where there are none). ``None`` where no
        bound is known, as for halfspaces along directions. What it means for the population is
        `guarantees.cover_radius`.
    privacy_ : PrivacyReceipt
        What was spent.
    certificate_ : Certificate
        How far the drawn rule may be from the best in the cover (of the last round).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    NoPublicDataWarning
        If there are no public rows: the cover is then data-independent.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, so that cross-validation would cut it.

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
        "bounds": ["array-like", None],
        "n_jobs": N_JOBS,
        **FIT,
        **ROWS,
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
        hypotheses=None,
        *,
        epsilon=1.0,
        alpha=0.05,
        beta=0.05,
        public_weight=1,
        classes=None,
        bounds=None,
        n_jobs=None,
        random_state=None,
        max_rows_per_group=None,
        budget=None,
    ):
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
    def fit(self, X, y, *, X_public=None, y_public=None, is_public=None, groups=None):
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

        scored = rows.n_private + int(self.public_weight) * len(rows.targets.labelled)
        drawn = draw_in_rounds(
            cover,
            lambda cover: self._table(cover, rows),
            ledger,
            sensitivity=1,  # a replaced private row has weight 1 whatever the public ones weigh
            scored=scored,
            beta=self.beta,
        )

        labels = "" if self.classes is not None else " and the set of labels in y"
        receipt = ledger.receipt(
            assumptions=(f"the number of private rows{labels} may be known", *rows.assumptions)
        )
        self.certificate_ = drawn.certificate
        return self._keep(rows, drawn.hypothesis, drawn.cover, receipt)

    def predict(self, X):
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
        return each_row(self, X, self._rule(), numeric=True)

    def _rule(self):
        check_is_fitted(self)
        classes, hypothesis, schema = self.classes_, self.hypothesis_, self._schema
        return lambda table: classes[hypothesis.predict(schema.encode(table, clamp=False))]

    # a search reads, covers and keeps as fit does, with one draw for many classifiers

    def _read(self, X, y, X_public=None, y_public=None, is_public=None, groups=None):
        return read(
            self,
            X,
            y,
            Labels(self.classes),
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
            numeric=True,
        )

    def _cover(self, rows):
        hypotheses = DecisionTrees() if self.hypotheses is None else self.hypotheses
        return hypotheses.build_cover(self._public_sample(rows), alpha=self.alpha, beta=self.beta)

    def _keep(self, rows, hypothesis, cover, receipt):
        """Keep a rule drawn from a cover."""
        self.classes_ = rows.targets.classes
        self._schema = rows.schema
        self.hypothesis_ = hypothesis
        self.cover_size_ = cover.size
        self.cover_radius_ = cover.radius
        self.privacy_ = receipt
        return self

    def _table(self, cover, rows):
        """Tabulate the private rows, and the labelled public ones at their weight."""
        table = rows.fold(lambda X, y: tabulate(cover, X, y), n_jobs=self.n_jobs)
        labelled = rows.targets.labelled
        if self.public_weight and len(labelled):
            table = table + int(self.public_weight) * tabulate(
                cover, rows.X_labelled, labelled, n_jobs=self.n_jobs
            )
        return table

    def _public_sample(self, rows):
        X_public = rows.X_public
        if not len(X_public):
            where = "standard-normal features" if self.bounds is None else "the given bounds"
            warn_no_public(f"the hypotheses come from a data-independent grid over {where}")
            size = int(min(max(1000, 2 / self.alpha), 20_000))
            X_public = reference_sample(self.n_features_in_, self.bounds, size)
        names = tuple(
            FeatureName(column.name, column.text) if column.counted else column.name
            for column in rows.schema.columns
        )
        return PublicSample(X_public, rows.targets.classes, names)
