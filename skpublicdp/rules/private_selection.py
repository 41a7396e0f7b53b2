"""PrivateSelectionClassifier: one private draw among classifiers fitted to public rows."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._param_validation import HasMethods, Interval

from skpublicdp._internal.parameters import OptionalBudget, Seed, all_or_nothing
from skpublicdp._internal.redaction import call_silently
from skpublicdp.base_learner import check_not_private, quietly, seeded_clone
from skpublicdp.data.batch_predict import FittedClassifierMixin
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.labels import LabelReader
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, FiniteClass, PublicSample
from skpublicdp.hypotheses.base import tabulate
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_classifier import COVER_PARAMETERS, CoverClassifier, may_be_known
from skpublicdp.rules.cover_search import DrawnRule, RuleSearch
from skpublicdp.rules.population_guarantee import (
    DEPENDENT_ROWS,
    excess_error_guarantee,
    no_guarantee,
)
from skpublicdp.typing import Codes, Floats

MIN_SAMPLE = 20
"""Minimum number of public rows to which a candidate is fitted, if there are as many."""

OFFSET_SCALE = 0.5
"""Standard deviation of the offsets of random scores, which have a variance of about 1.

With two labels, the share of the first label is then mostly between 0.15 and 0.85."""


class PrivateSelectionClassifier(FittedClassifierMixin, CoverClassifier):
    """Pure ε-differentially private version of any classifier, selected among public candidates.

    The classifier is fitted to public rows `n_candidates` times, each time with other labels. One
    exact draw of the exponential mechanism then selects a candidate according to its errors on the
    private rows. The candidates never depend on private rows, so the classifier itself does not
    need to be private.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier of numeric rows. The prediction for a row must depend on that
        row only. The default is ``DecisionTreeClassifier(max_depth=3)``.
    n_candidates : int, default=300
        Number of fits to public rows. More candidates contain a better one, and the error of the
        draw increases with the logarithm of their number.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, interpreted as an exact fraction.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail; `guarantee_` may fail with the
        same probability.
    classes : array-like, default=None
        All possible labels. By default, the labels that occur in `y` and among the public labels;
        the set of these labels is then assumed to be public knowledge.
    n_jobs : int, default=None
        Number of threads that count errors; it does not affect the results.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator for the draw. Any other
        value makes the fit reproducible, for tests and papers, and the receipt states this. The
        candidates are the same in either case.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `fit` then requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Privacy budget to which the fit is charged. If too little budget remains, `fit` raises an
        error before any private row is read.

    Attributes
    ----------
    estimator_ : classifier
        The selected candidate, a fitted clone of `estimator`. If it estimates probabilities, these
        belong to the labels of its public rows, which may be random.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    hypothesis_ : Hypothesis
        The selected candidate as a hypothesis of the draw.
    cover_size_ : int
        Number of candidates. Candidates whose fit failed are omitted.
    privacy_ : PrivacyReceipt
        The privacy cost of the fit.
    certificate_ : Certificate
        Bound on the excess error over the best candidate on the private rows.
    guarantee_ : float or None
        Bound on the excess population error over the best candidate. The bound holds with
        probability 1 - beta over the private rows and the draw, if the private rows are independent
        draws from one population. The public rows may come from any other population. ``None`` if
        no bound has been proved.
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
        If there are no public rows, so that the candidates are fitted to a reference sample.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, in which case cross-validation would slice it.
    TooFewRowsWarning
        If `guarantee_` is 1, which means that no accuracy bound holds.

    See Also
    --------
    PrivateVotesClassifier : Fits the classifier to blocks of private rows.
    SemiPrivateBoostingClassifier : More accurate, if any model will do.
    hypotheses.FiniteClass : Candidates of your own.

    Notes
    -----
    Without public labels, the labels of a candidate are those of a random additive model of a few
    columns. If at least two labels occur among the public rows, the first candidate is fitted to
    all labelled public rows, and half of the others to bootstrap samples of them.

    Every parameter `random_state` of the estimator is set to a fixed number for each candidate.
    Warnings of the fits are suppressed. Values far outside the range of public rows are clipped. A
    private row for which a candidate fails counts as a row with the first label.

    References
    ----------
    .. [1] F. McSherry and K. Talwar (2007). Mechanism design via differential privacy. FOCS.
       Theorems 6 and 7.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skpublicdp import PrivateSelectionClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 3))
    >>> y = np.where(X @ [1, -1, 0.5] > 0.2, "yes", "no")
    >>> clf = PrivateSelectionClassifier(LogisticRegression(), epsilon=1.0, random_state=0)
    >>> clf.fit(X, y, X_public=rng.normal(size=(300, 3))).score(X, y) > 0.85
    True
    >>> clf.privacy_.epsilon, clf.guarantee_ < 0.05
    (1.0, True)
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "classes": ["array-like", None],
        **COVER_PARAMETERS,
    }

    # metadata with these names has only one meaning, so it is routed without a request
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    protects_all_rows = True
    """Every row of `X` is protected, except for rows that a mask marks as public."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_candidates: int = 300,
        epsilon: float | Fraction = 1.0,
        beta: float = 0.05,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.n_candidates = n_candidates
        self.epsilon = epsilon
        self.beta = beta
        self.classes = classes
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
        """Fit candidates to the public rows, and select one by its errors on the private rows.

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
        self : PrivateSelectionClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If too little of `budget` remains.
        """
        return self._fit(
            X, y, X_public=X_public, y_public=y_public, is_public=is_public, groups=groups
        )

    def _base_learner(self) -> Any:
        return DecisionTreeClassifier(max_depth=3) if self.estimator is None else self.estimator

    def _open_ledger(self) -> Ledger:
        # a seed of the estimator concerns public fits only, not the draw
        return Ledger.from_estimator(self, seeded_parts=False)

    def _read(self, X: Any, y: Any, **inputs: Any) -> Dataset:
        check_not_private(self._base_learner())
        reader = LabelReader(self.classes, min_classes=2)
        return read_fit_inputs(
            self, X, y, reader, **inputs, numeric=True, clamp=True, use_reference=True
        )

    def _prepare(self, rows: Dataset, ledger: Ledger) -> RuleSearch:
        """Return the candidates as a cover, and the private rows that score them.

        Public labels are not scored, since candidates are fitted to them.
        """
        public = PublicRows(rows.X_public, rows.X_labelled, rows.targets.public)
        models = fit_candidates(self._base_learner(), public, rows.classes, int(self.n_candidates))
        sample = PublicSample(rows.X_public, rows.classes, rows.schema.names)
        candidates = [UnfailingClassifier(model) for model in models]
        cover = FiniteClass(candidates).build_cover(sample, alpha=0.5, beta=self.beta)
        return RuleSearch(
            cover=cover,
            tabulate=lambda cover: rows.fold(
                lambda X, y: tabulate(cover, X, y), n_jobs=self.n_jobs
            ),
            ledger=ledger,
            scored=rows.n_private,
        )

    def _assumptions(self, rows: Dataset, described: tuple[str, ...]) -> tuple[str, ...]:
        name = type(self._base_learner()).__name__
        return (
            may_be_known("the number of private rows", self.classes),
            *rows.assumptions,  # `described` included
            f"the prediction of {name} for a row depends on that row alone",
        )

    def _guarantee(
        self,
        rows: Dataset,
        search: RuleSearch,
        drawn: DrawnRule,
        described: bool,
        rows_per_person: int,
    ) -> Promise:
        if rows_per_person > 1:
            return no_guarantee(DEPENDENT_ROWS)
        return excess_error_guarantee(
            search.cover, drawn, lambda beta: 0.0, n=rows.n_private, beta=self.beta
        )

    def __sklearn_tags__(self) -> Any:
        """Declare that not every classifier passes scikit-learn's check without public rows."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _store_rule(self, rows: Dataset, hypothesis: Any, cover: Cover) -> None:
        super()._store_rule(rows, hypothesis, cover)
        self.estimator_ = hypothesis.model.model
        self._schema = rows.schema


class UnfailingClassifier:
    """A fitted classifier that predicts its first label for rows for which it fails.

    An error would reveal that such a row is among the private rows. Each prediction depends on its
    row alone, if those of the classifier do.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.classes_ = model.classes_

    def predict(self, X: Floats) -> NDArray[Any]:
        """Return the predicted label of each row, without any output."""
        with quietly(0):
            labels, failure = call_silently(self._labels_of_model, X)
            if failure is None:
                return labels
            predictions = np.full(len(X), self.classes_[0], dtype=self.classes_.dtype)
            for position in range(len(X)):
                label, failure = call_silently(self._labels_of_model, X[[position]])
                if failure is None:
                    predictions[position] = label[0]
        return predictions

    def _labels_of_model(self, X: Floats) -> NDArray[Any]:
        """Return the labels of the classifier, or raise an error unless each is known."""
        try:
            labels = np.reshape(self.model.predict(X), len(X))
        except (SystemExit, GeneratorExit):  # which are no errors, and may quote a value
            raise ValueError from None
        if not np.isin(labels, self.classes_).all():
            raise ValueError
        return labels

    def __repr__(self) -> str:
        return repr(self.model)


class PublicRows(NamedTuple):
    """Public rows to which candidates are fitted."""

    X: Floats  # (n_public, n_features): all public rows, or a reference sample
    X_labelled: Floats  # (n_labelled, n_features)
    y_labelled: Codes  # (n_labelled,)


def fit_candidates(
    estimator: Any, public: PublicRows, classes: NDArray[Any], n_candidates: int
) -> list[Any]:
    """Return clones of an estimator, each fitted to public rows with other labels.

    The labels and all seeds are functions of the public rows. Candidates whose fit fails are
    omitted, for example because a random labelling has a single label. If all fail, the last error
    is raised.
    """
    rng = np.random.default_rng(0)
    n_rows, n_labelled = len(public.X), len(public.X_labelled)
    has_labels = len(np.unique(public.y_labelled)) > 1
    ranks = rankdata(public.X, axis=0)
    ranks = (ranks - ranks.mean(axis=0)) / n_rows * math.sqrt(12)  # unit variance
    models, failure = [], None
    for candidate in range(n_candidates):
        if has_labels and candidate % 2 == 0:
            sample = rng.integers(n_labelled, size=n_labelled) if candidate else slice(None)
            X, codes = public.X_labelled[sample], public.y_labelled[sample]
        else:
            size = rng.integers(min(MIN_SAMPLE, n_rows), n_rows + 1)
            sample = rng.integers(n_rows, size=size)
            X, codes = public.X[sample], random_labels(ranks, len(classes), rng)[sample]
        model = seeded_clone(estimator, candidate)
        _, error = call_silently(model.fit, X, classes[codes])
        if error is None:
            models.append(model)
        else:
            failure = error
    if not models and failure is not None:
        raise failure
    return models


def random_labels(ranks: Floats, n_classes: int, rng: np.random.Generator) -> Codes:
    """Return the label codes of a random additive model, shape (n_rows,).

    The score of a class is a weighted sum of columns, each by its rank or cut at a random row. The
    number of columns is log-uniform, so that models of few columns are frequent.
    """
    n_rows, n_columns = ranks.shape
    n_used = math.ceil(n_columns ** rng.random())
    columns = rng.choice(n_columns, n_used, replace=False)
    used = ranks[:, columns]  # (n_rows, n_used)
    cut_rows = rng.integers(n_rows, size=n_used)
    cuts = used[cut_rows, np.arange(n_used)]
    is_cut = rng.random(n_used) < 0.5
    terms = np.where(is_cut, np.sign(used - cuts), used)
    weights = rng.normal(scale=n_used**-0.5, size=(n_used, n_classes))
    offsets = rng.normal(scale=OFFSET_SCALE, size=n_classes)
    scores = terms @ weights + offsets
    return scores.argmax(axis=1)
