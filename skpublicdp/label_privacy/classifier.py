"""`LabelPrivateClassifier`, which fits any classifier to labels that are released with noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import has_fit_parameter

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import REPLACE_LABEL, Pure, Sensitivity, exact_fraction
from skpublicdp.accounting.receipts import PUBLIC_FEATURES, receipt_for_labels
from skpublicdp.base_learner import DelegatingClassifier, check_not_private
from skpublicdp.data.labels import LabelReader, check_length, require_target
from skpublicdp.data.roles import cap_rows_per_group
from skpublicdp.data.tables import table_height, take_rows
from skpublicdp.data.validation import check_container
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.population_guarantee import no_guarantee
from skpublicdp.typing import Codes

RELEASE_PROOF = "Warner (1965); docs/proofs/label_privacy.md"

MAX_PUBLIC_ROWS = 10_000
"""Maximum number of rows whose features serve as the public rows of a private learner. More rows
would take time, but show hardly more of the structure of the features."""

FEATURES_ARE_USED_TWICE = (
    "The rows of the fit also determine the candidate rules, so the theorems about independent "
    "public rows do not apply. See the section on label privacy of docs/user_guide/theory.md"
)
"""Reason why a private learner has no bound on its error."""


class LabelPrivateClassifier(
    ProgressMixin,
    DelegatingClassifier,
    HTMLReprMixin,
    VersionedMixin,
    MetaEstimatorMixin,
    ClassifierMixin,
    BaseEstimator,
):
    """Any classifier, if the labels are private and all features are public.

    The label of each row, one of two, is released once, with randomised response: it is replaced by
    the other label with probability 1 / (1 + e^ε). The estimator is then fitted to the features and
    the released labels. All that follows the release is free of privacy cost, such as
    cross-validation and a search among settings inside the estimator.

    A private classifier of this package is fitted to the private labels instead, with the whole
    budget, and takes the features as its public rows. It is more accurate for a small ε, and
    supports more than two labels.

    Parameters
    ----------
    estimator : classifier
        Classifier, pipeline or search with `fit` and `predict`, which is cloned. Alternatively, a
        private classifier whose `fit` accepts `X_public`, such as
        `SemiPrivateBoostingClassifier`. Its parameters `epsilon`, `budget` and
        `max_rows_per_group` are replaced by those of this class, and `random_state` and `classes`
        are replaced unless those of this class are None. Its δ is part of the privacy cost.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    classes : array-like, default=None
        All possible labels. With ``None``, they are the labels in `y`, which may then be known.
    random_state : int, numpy Generator or RandomState, default=None
        With ``None``, random numbers come from the operating system's secure generator. Any other
        value makes the fit reproducible, which is intended for tests and papers only, and is
        recorded in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If this number is set, the labels of persons are
        protected instead of those of rows. In this case, `fit` requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Budget from which the cost of each fit is deducted, created with ``protects="labels"``. If
        the budget is insufficient, `fit` raises an error before reading any label.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator. It predicts the labels as released, so its probabilities are closer
        to 1/2 than those of this class.
    released_labels_ : ndarray, shape (n,)
        Released labels of the rows that were used, which may be published. Not set for a private
        estimator.
    flip_probability_ : float
        Probability with which a released label differs from the private label. It is 0 for a
        private estimator, which sees no released labels.
    classes_ : ndarray, shape (2,)
        The labels.
    privacy_ : PrivacyReceipt
        Privacy receipt, whose unit is the label of one private row.
    n_features_in_ : int
        Number of features, if the estimator has this attribute.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Feature names, if the estimator has this attribute.

    See Also
    --------
    SemiPrivateBoostingClassifier : Protects features and labels.
    PrivacyBudget : ``PrivacyBudget(..., protects="labels")`` admits this classifier.

    Notes
    -----
    Neighbouring data sets differ in the label of one row and have the same features. *Nothing is
    protected about the features*, nor about what they reveal of the labels: anybody may know
    every row of `X`, the fitted estimator may contain them, and they are not counted by the budget.

    Randomised response with the flip probability above is ε-differentially private [1]_ [2]_
    (docs/proofs/label_privacy.md). With `max_rows_per_group=k`, ε / k takes the place of ε.

    `predict_proba` corrects the probabilities of the estimator for the flips, and clips them to
    [0, 1]. Use `decision_function` to rank rows, since clipped probabilities are equal.

    References
    ----------
    .. [1] S. L. Warner (1965). Randomized response: a survey technique for eliminating evasive
       answer bias. JASA.
    .. [2] B. Ghazi, N. Golowich, R. Kumar, P. Manurangsi and C. Zhang (2021). Deep learning with
       label differential privacy. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skpublicdp import LabelPrivateClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = np.where(X[:, 0] + 0.3 * rng.normal(size=5000) > 0, "ill", "well")
    >>> clf = LabelPrivateClassifier(LogisticRegression(), epsilon=2.0, random_state=0)
    >>> clf = clf.fit(X, y)
    >>> round(clf.flip_probability_, 2), bool((clf.released_labels_ != y).mean() < 0.13)
    (0.12, True)
    >>> clf.score(X, y) > 0.89
    True
    >>> print(clf.privacy_.unit)
    replace the label of one private row (its features are not protected)
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"])],
        "classes": ["array-like", None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    __metadata_request__fit = {"groups": True}  # noqa: RUF012 - routed without being asked for

    protects_all_rows = False
    """The features of all rows are public, so that this class cannot be a base learner."""

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float | Fraction = 1.0,
        classes: ArrayLike | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.classes = classes
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Release the labels and fit the estimator, or fit a private estimator.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Public features of all rows, in any container that the estimator accepts.
        y : array-like, shape (n,)
            Private labels.
        groups : array-like, shape (n,), optional
            Person to whom each row belongs, used with `max_rows_per_group`. Persons are public.

        Returns
        -------
        self : LabelPrivateClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The error message contains no private label.
        PrivacyBudgetError
            If `budget` is insufficient, or protects whole rows.
        """
        check_parameters(self)
        if self.budget is not None:
            self.budget.check_protects_labels()
        require_target(self, y)
        if is_private_estimator(self.estimator):
            self._fit_private_estimator(X, y, groups)
        else:
            check_not_private(self.estimator)
            self._fit_to_released_labels(X, y, groups)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _fit_to_released_labels(self, X: Any, y: Any, groups: Any) -> None:
        """Release a noisy label for each row, and fit a copy of the estimator to these labels."""
        event = Pure(exact_fraction(self.epsilon))
        ledger = Ledger.from_estimator(self, event=event)
        check_container(self, X, accept_sparse=True)
        n = table_height(X)
        check_length(y, n)
        reader = LabelReader(self.classes, min_classes=2)
        column = reader.column(y)
        is_counted = cap_rows_per_group(
            self.max_rows_per_group, groups, np.ones(n, dtype=bool), ledger
        )
        targets = reader.targets(column[is_counted], [column[:0]])
        classes = targets.classes
        assert classes is not None
        if len(classes) != 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass; "
                f"got {len(classes)} labels in y. For more labels, use a private estimator, such "
                "as SemiPrivateBoostingClassifier."
            )
        ledger.read(len(targets.private))
        codes = release_labels(targets.private, ledger)
        self.classes_ = classes
        self.released_labels_ = classes[codes]
        # float arithmetic is sufficient, since this number only corrects predictions
        odds = math.exp(-self.epsilon / ledger.rows_per_person)
        self.flip_probability_ = odds / (1 + odds)
        if not is_counted.all():
            X = take_rows(X, np.flatnonzero(is_counted))
        self.estimator_ = clone(self.estimator).fit(X, self.released_labels_)
        assumption = PUBLIC_FEATURES
        if self.classes is None:
            assumption += ", and so is the set of labels"
        self.privacy_ = ledger.receipt(unit=REPLACE_LABEL, assumptions=(assumption,))

    def _fit_private_estimator(self, X: Any, y: Any, groups: Any) -> None:
        """Fit a private estimator whose public rows are the features of the same rows.

        The public rows are the same in neighbouring data sets, since these have equal features.
        """
        settings: dict[str, Any] = {
            "epsilon": self.epsilon,
            "budget": self.budget,
            "max_rows_per_group": self.max_rows_per_group,
        }
        if self.random_state is not None:
            settings["random_state"] = self.random_state
        if self.classes is not None:
            settings["classes"] = self.classes
        check_container(self, X)
        n = table_height(X)
        arguments = {} if groups is None else {"groups": groups}
        if n > 1:
            # evenly spaced; not all rows, since X_public should not have as many rows as X
            n_public = min(n - 1, MAX_PUBLIC_ROWS)
            positions = np.arange(n_public, dtype=np.intp) * n // n_public
            table = X if hasattr(X, "__getitem__") else np.asarray(X)
            arguments["X_public"] = take_rows(table, positions)
        estimator = clone(self.estimator).set_params(**settings)
        estimator.fit(X, y, **arguments)
        estimator.guarantee_, estimator.guarantee_reason_ = no_guarantee(FEATURES_ARE_USED_TWICE)
        self.__dict__.pop("released_labels_", None)  # of an earlier fit
        self.flip_probability_ = 0.0
        self.estimator_, self.classes_ = estimator, estimator.classes_
        estimator.privacy_ = receipt_for_labels(estimator.privacy_, self.max_rows_per_group)
        self.privacy_ = estimator.privacy_

    @property
    def _charged_estimator(self) -> Any:
        """The estimator whose name is that of the entry in the budget."""
        return self if hasattr(self, "released_labels_") else self.estimator_

    def _inner_estimator(self) -> Any:
        return getattr(self, "estimator_", self.estimator)

    def _delegate(self, method: str, X: Any) -> NDArray[Any]:
        """Call a method of the fitted estimator, and correct probabilities for the flips."""
        result = np.asarray(super()._delegate(method, X))
        if method != "predict_proba" or not self.flip_probability_:
            return result
        # all released labels may be equal
        is_second = self.estimator_.classes_ == self.classes_[1]
        p_released = result[:, is_second].sum(axis=1)
        flip = self.flip_probability_
        p = (p_released - flip) / (1 - 2 * flip)
        p = np.clip(p, 0.0, 1.0)
        return np.column_stack([1 - p, p])

    def __sklearn_tags__(self) -> Any:
        """Return the tags, with the estimator's input tags."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = is_private_estimator(self.estimator)
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def release_labels(codes: Codes, ledger: Ledger) -> Codes:
    """Release label codes 0 and 1 with randomised response, spending the ledger's whole plan.

    A code plus discrete Laplace noise of scale 1 / ε is at least 1 with probability
    e^ε / (1 + e^ε) if the code is 1, and 1 / (1 + e^ε) if it is 0.
    """
    noisy = ledger.add_noise(
        codes.astype(np.int64),
        Sensitivity(1, 1),
        ledger.noise,
        name="randomised response, one label for each row",
        proof=RELEASE_PROOF,
    )
    return (noisy.values >= 1).astype(np.intp)


def is_private_estimator(estimator: Any) -> bool:
    """Indicate whether an estimator is a private estimator that accepts public rows.

    Raise ValueError if it is one, but contains another estimator.
    """
    is_private = getattr(estimator, "protects_all_rows", False) is True
    if not is_private or not has_fit_parameter(estimator, "X_public"):
        return False
    if "estimator" in estimator.get_params(deep=False):
        raise ValueError(
            "A private estimator must not contain another estimator; got "
            f"{type(estimator).__name__}. Use one of SemiPrivateBoostingClassifier, "
            "SemiPrivateLogisticRegression and SemiPrivateClassifier."
        )
    return True
