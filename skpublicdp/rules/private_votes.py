"""PrivateVotesClassifier: a student of noisy votes of classifiers on public rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Integral
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.redaction import call_silently
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import Sensitivity
from skpublicdp.accounting.measurements import noise_scale
from skpublicdp.base_learner import check_not_private, quietly, seeded_clone
from skpublicdp.data.batch_predict import FittedClassifierMixin, predict_batches
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.labels import LabelReader
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_classifier import may_be_known
from skpublicdp.typing import Codes, Floats, Integers

MAX_POINTS = 300
"""Maximum number of public rows that are voted on.

More rows share the same budget, so each has noisier votes. The accuracy of trees and logistic
regression was nearly the same for 100 to 1000 rows of three synthetic tables of 8 to 20 columns."""

VOTES_PER_NOISE = 4
"""Number of blocks, as a multiple of the standard deviation of the noise in a vote count."""

MIN_BLOCK = 10
"""Minimum mean number of rows per block, unless `n_blocks` is given."""

MAX_COPIES = 16
"""Maximum number of copies of a public row in the rows of the student, which represent weights."""

VOTES_PROOF = "docs/proofs/votes.md"

_Method = TypeVar("_Method", bound=Callable[..., Any])
_available_if_probabilities: Callable[[_Method], _Method] = available_if(
    lambda self: hasattr(self._base_learner(), "predict_proba")
)


class PrivateVotesClassifier(
    ProgressMixin,
    FittedClassifierMixin,
    HTMLReprMixin,
    VersionedMixin,
    ClassifierMixin,
    BaseEstimator,
):
    """(ε, δ)-differentially private version of any classifier, by votes on public rows.

    A clone of the classifier is fitted to each of many disjoint blocks of private rows. The clones
    vote on the labels of public rows. Gaussian noise is added to the numbers of votes, and a last
    clone is fitted to the public rows with the noisy votes as labels. A private row affects one
    vote per public row, whatever the classifier does, so the classifier itself does not need to be
    private. This is sample and aggregate [1]_, or PATE [2]_, with public rows as queries [3]_.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier of numeric rows, whose fit must depend on its rows and
        parameters only, and which has no privacy budget of its own. The default is
        ``LogisticRegression()``.
    n_blocks : int, default=None
        Number of blocks. With more blocks, the noise matters less, but each clone has fewer rows.
        By default, four times the standard deviation of the noise in a number of votes, with at
        least 10 rows per block.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, interpreted as an exact fraction.
    delta : float, default=1e-6
        Privacy budget δ of one `fit`, in [0, 1). With 0, Laplace noise is added, which requires far
        more private rows.
    classes : array-like, default=None
        All possible labels. By default, the labels that occur in `y` and among the public labels;
        the set of these labels is then assumed to be public knowledge.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator for the noise. Any other
        value makes the fit reproducible, for tests and papers, and the receipt states this.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `fit` then requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random. Noise increases in proportion.
    budget : PrivacyBudget, default=None
        Privacy budget to which the fit is charged. If too little budget remains, `fit` raises an
        error before any private row is read.

    Attributes
    ----------
    estimator_ : classifier
        The fitted student, a clone of `estimator`.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    votes_ : ndarray of int64, shape (n_points, n_classes)
        Noisy numbers of votes for each label of each public row that was voted on.
    votes_std_ : float
        Standard deviation of the noise in each number of votes.
    n_blocks_ : int
        Number of blocks of private rows.
    privacy_ : PrivacyReceipt
        The privacy cost of the fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns, if all column names of `X` are strings.

    Warns
    -----
    LargeEpsilonWarning
        If `epsilon` is so large that it provides almost no protection.
    LargeDeltaWarning
        If `delta` is not far below one divided by the number of private rows.
    NoPublicDataWarning
        If there are no public rows, so that a reference sample is voted on.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, in which case cross-validation would slice it.

    See Also
    --------
    PrivateSelectionClassifier : Fits the classifier to public rows only, and has an error bound.
    SemiPrivateBoostingClassifier : More accurate, if any model will do.

    Notes
    -----
    The rows are assigned to blocks at random, independently of their values. Values far outside the
    range of the public rows are clipped. If the fit to a block fails, the clone votes for the most
    frequent label of the block. Warnings, logs and output of Python in these fits are suppressed,
    and callbacks are removed. Every parameter `random_state` of the estimator is set to the number
    of the block, `verbose` to 0 or False, `n_jobs` to 1 and `memory` to None. Output that compiled
    code prints without being asked for cannot be suppressed.

    The student is fitted to each public row once for each label, except for the label with the
    fewest votes. The number of copies is proportional to the excess over these votes. The expected
    number of errors that the student minimises is then unaffected by the noise. Labelled public
    rows have as many copies as possible.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova and A. Smith (2007). Smooth sensitivity and sampling in
       private data analysis. STOC.
    .. [2] N. Papernot, M. Abadi, U. Erlingsson, I. Goodfellow and K. Talwar (2017). Semi-supervised
       knowledge transfer for deep learning from private training data. ICLR.
    .. [3] R. Bassily, O. Thakkar and A. Thakurta (2018). Model-agnostic private learning. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skpublicdp import PrivateVotesClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 3))
    >>> y = np.where(X @ [1, -1, 0.5] > 0.2, "yes", "no")
    >>> clf = PrivateVotesClassifier(LogisticRegression(), epsilon=1.0, random_state=0)
    >>> clf.fit(X, y, X_public=rng.normal(size=(300, 3))).score(X, y) > 0.95
    True
    >>> clf.privacy_.epsilon, clf.privacy_.delta, clf.predict_proba(X).shape
    (1.0, 1e-06, (20000, 2))
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_blocks": [Interval(Integral, 1, None, closed="left"), None],
        "delta": DELTA,
        "classes": ["array-like", None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
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
        n_blocks: int | None = None,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 1e-6,
        classes: ArrayLike | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.n_blocks = n_blocks
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
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
        """Fit clones to blocks of private rows, and a student to their noisy votes.

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
        self : PrivateVotesClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If too little of `budget` remains.
        """
        check_parameters(self)
        check_not_private(self._base_learner())
        # a seed of the estimator does not affect the noise
        ledger = Ledger.from_estimator(self, seeded_parts=False)
        rows = read_fit_inputs(
            self,
            X,
            y,
            LabelReader(self.classes, min_classes=2),
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
            ledger=ledger,
            numeric=True,
            clamp=True,
            use_reference=True,
        )
        ledger.read(rows.n_private, rows.n_public)
        estimator, classes = self._base_learner(), rows.classes
        positions = np.linspace(0, len(rows.X_public) - 1, MAX_POINTS).round().astype(np.intp)
        points = rows.X_public[np.unique(positions)]
        # an estimator that cannot be fitted raises its error before the budget is charged
        fit_student(estimator, points, classes[np.arange(len(points)) % len(classes)])
        # a replaced row changes one vote per point: one number decreases by 1, another increases
        sensitivity = Sensitivity(2 * len(points), 2 * len(points))
        self.n_blocks_ = self._n_blocks(ledger, sensitivity, rows.n_private)
        X_private, codes = rows.to_arrays()
        order = ledger.order(rows.n_private)
        measurement = ledger.add_noise(
            count_votes(estimator, X_private[order], codes[order], points, classes, self.n_blocks_),
            sensitivity,
            ledger.noise,
            name="votes on public rows",
            proof=VOTES_PROOF,
        )
        self.votes_ = measurement.values
        self.votes_std_ = math.sqrt(measurement.variance)
        self.classes_, self._schema = classes, rows.schema
        copies = copies_of_points(self.votes_)
        point, label = np.nonzero(copies)
        n_copies = copies[point, label]
        X_student = np.concatenate(
            [np.repeat(points[point], n_copies, axis=0), np.repeat(rows.X_labelled, MAX_COPIES, 0)]
        )
        y_student = np.concatenate(
            [np.repeat(label, n_copies), np.repeat(rows.targets.public, MAX_COPIES)]
        )
        self.estimator_ = fit_student(estimator, X_student, classes[y_student])
        name = type(estimator).__name__
        self.privacy_ = ledger.receipt(
            assumptions=(
                may_be_known("the number of private rows", self.classes),
                *rows.assumptions,
                f"a fit of {name} depends on its rows and parameters alone",
            )
        )
        return self

    def _base_learner(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _n_blocks(self, ledger: Ledger, sensitivity: Sensitivity, n_private: int) -> int:
        """Return the number of blocks, a function of public numbers."""
        if self.n_blocks is not None:
            return min(int(self.n_blocks), n_private)
        _, variance = noise_scale(ledger.noise, ledger.for_person(sensitivity))
        n_blocks = math.ceil(VOTES_PER_NOISE * math.sqrt(variance))
        return max(1, min(n_blocks, n_private // MIN_BLOCK))

    def __sklearn_tags__(self) -> Any:
        """Declare that the few rows of scikit-learn's checks are not enough for a vote."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    @_available_if_probabilities
    def predict_proba(self, X: Any) -> Floats:
        """Predict the probabilities of the student, which are not calibrated.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities, with one column for each label in `classes_`.
        """
        return predict_batches(self, X, self._rule("predict_proba"), numeric=True)


def count_votes(
    estimator: Any,
    X: Floats,  # (n, n_features): private rows
    codes: Codes,  # (n,)
    points: Floats,  # (n_points, n_features): public rows
    classes: NDArray[Any],
    n_blocks: int,
) -> Integers:
    """Return the number of blocks that vote for each label of each point, (n_points, n_classes).

    Row i belongs to block i modulo `n_blocks`, which is independent of all values.
    """
    n_points = len(points)
    votes = np.zeros((n_points, len(classes)), dtype=np.int64)
    for block in range(n_blocks):
        members = slice(block, None, n_blocks)
        rows = X[members].copy()
        labels = block_votes(estimator, rows, codes[members], points, classes, block)
        votes[np.arange(n_points), labels] += 1
    return votes


def block_votes(
    estimator: Any, X: Floats, codes: Codes, points: Floats, classes: NDArray[Any], seed: int
) -> Codes:
    """Return the votes of one block, one label code for each point, shape (n_points,).

    The votes are a function of the block and of public values. Failures do not leave this function:
    the block then votes for its most frequent label.
    """
    counts = np.bincount(codes, minlength=len(classes))
    frequent = np.full(len(points), counts.argmax())
    if np.count_nonzero(counts) < 2:
        return frequent

    def predict_points() -> Codes:
        """Fit a clone to the block, and return the codes of its predictions."""
        try:
            model = seeded_clone(estimator, seed).fit(X, classes[codes])
            labels = model.predict(points.copy())
        except (SystemExit, GeneratorExit):  # which are no errors, and may quote a value
            raise ValueError from None
        column = np.reshape(labels, (len(points), 1))
        is_label = column == classes  # (n_points, n_classes)
        if not is_label.any(axis=1).all():
            raise ValueError  # not seen outside of this function
        return is_label.argmax(axis=1)

    with quietly(seed):
        votes, failure = call_silently(predict_points)
    return votes if failure is None else frequent


def fit_student(estimator: Any, X: Floats, y: NDArray[Any]) -> Any:
    """Return a clone that is fitted to public rows, without warnings."""
    student = seeded_clone(estimator, 0)
    _, failure = call_silently(student.fit, X, y)
    if failure is not None:
        raise failure
    return student


def copies_of_points(votes: Integers) -> Integers:
    """Return how many copies of each point have each label in the rows of the student.

    The numbers are proportional to the votes minus the fewest votes for the point. Each label
    occurs at least once, so the student knows all labels.
    """
    fewest = votes.min(axis=1, keepdims=True)
    excess = votes - fewest  # (n_points, n_classes)
    unit = MAX_COPIES / max(excess.max(), 1)
    copies = np.rint(unit * excess).astype(np.int64)
    best_points = votes.argmax(axis=0)  # (n_classes,)
    for label, point in enumerate(best_points):
        copies[point, label] = max(copies[point, label], 1)
    return copies
