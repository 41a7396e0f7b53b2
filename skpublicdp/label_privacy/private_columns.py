"""`PrivateColumnsClassifier`, for tables in which the labels and some columns are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

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
from skpublicdp.accounting.receipts import PrivacyReceipt, receipt_for_private_columns
from skpublicdp.base_learner import DelegatingClassifier, check_base, check_not_private
from skpublicdp.boosting.additive_posterior import PublicLabels
from skpublicdp.boosting.binner import make_binner
from skpublicdp.boosting.loss import LOGISTIC, Loss, MultinomialLoss
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.boosting.public_model import (
    FittedModelMixin,
    TargetScale,
    is_fitted,
    make_public_margins,
    model_lines,
)
from skpublicdp.data.inputs import bounds_of_description
from skpublicdp.data.labels import LabelReader, Targets, check_length, require_target
from skpublicdp.data.public_rows import is_described, mark_described
from skpublicdp.data.roles import read_person_rows, read_public
from skpublicdp.data.schema import (
    build_schema,
    column_names,
    column_position,
    frame_labels,
)
from skpublicdp.data.tables import ANYTHING, DATE, Table, add_numbers, is_frame, pick_columns
from skpublicdp.data.validation import kind_of_type, read_table
from skpublicdp.label_privacy.classifier import is_private_estimator
from skpublicdp.linear import SemiPrivateLogisticRegression
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.population_guarantee import no_guarantee
from skpublicdp.typing import Floats

SCORE_NAME = "public score"
"""Beginning of the names of the columns with scores, which end with a number."""

SCORES_DEPEND_ON_EACH_OTHER = (
    "The scores of the public columns are fitted to the labels of all rows, so rows are not "
    "independent, and the theorems do not apply"
)
"""Reason why the private estimator has no bound on its error."""


class PrivateColumnsMixin(FittedModelMixin, ProgressMixin, HTMLReprMixin, VersionedMixin):
    """Mixin of estimators that fit a model of public columns, and a private estimator to the rest.

    A subclass defines how targets are read, which of them a public model predicts, and the
    estimator that turns scores into predictions.
    """

    estimator: Any
    private_columns: Sequence[str | int]
    public_model: Any
    epsilon: float | Fraction
    random_state: Seed
    max_rows_per_group: int | None
    budget: OptionalBudget

    # metadata with these names has only one meaning, so it is routed without a request
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "groups": True,
    }

    _targets_in_words = "labels"

    protects_all_rows = False
    """Some columns of all rows are public, so that this class cannot be a base learner."""

    def _fit(self, X: Any, y: Any, X_public: Any, y_public: Any, groups: Any) -> Self:
        """Fit the model of the public columns, and the private estimator to the other columns."""
        check_parameters(self)
        require_target(self, y)
        self._check_estimator()
        if not is_fitted(self.public_model):
            check_not_private(self.public_model)
        table = read_table(self, X, reset=True, numeric=False)
        names = column_names(table)
        self._positions = _positions_of(self.private_columns, table)
        self.private_columns_ = [names[position] for position in self._positions]
        self._kinds = _kinds_at_prediction(self._positions, table)
        self._check_names(table, y)
        public = read_public(self, table, X_public, numeric=False)
        targets = self._read_targets(y, y_public, table.shape[0])
        read_person_rows(self.max_rows_per_group, groups, np.ones(table.shape[0], dtype=bool))

        # each order of the rows is then equally likely, even if they were sorted
        order = Ledger.from_estimator(self, budget=None).order(table.shape[0])
        table, codes = table.take(order), targets.private[order]
        scores = self._fit_public_model(table, self._public_outcomes(codes))
        estimator = clone(self.estimator).set_params(**self._settings_of_estimator())
        arguments: dict[str, Any] = {}
        if public is not None:
            arguments["X_public"] = self._public_rows(public, X_public, names)
        if y_public is not None:
            arguments["y_public"] = y_public
        if groups is not None:
            arguments["groups"] = np.asarray(groups)[order]
        estimator.fit(self._scored(table, scores), self._decoded(codes), **arguments)
        if hasattr(estimator, "guarantee_"):
            reason = SCORES_DEPEND_ON_EACH_OTHER
            estimator.guarantee_, estimator.guarantee_reason_ = no_guarantee(reason)
        estimator.privacy_ = self._receipt(estimator.privacy_)
        self.estimator_, self.privacy_ = estimator, estimator.privacy_
        return self

    def _check_names(self, table: Table, y: Any) -> None:
        """Raise an error if a name shows that a private column would be treated as public."""
        names = self.private_columns_
        if self.budget is not None:
            self.budget.check_protects_columns(names)
            if not table.is_frame:
                raise ValueError(
                    "A budget for columns compares their names, so X must be a data frame if "
                    "budget is set; got an array."
                )
        names_of_y = Table(y).labels if is_frame(y) else [getattr(y, "name", None)]
        for name in names_of_y:
            if name is not None and str(name) in names:
                raise ValueError(f"y must not be a private column, but its name is {str(name)!r}.")
        reserved = [name for name in names if name.startswith(SCORE_NAME)]
        if reserved:
            raise ValueError(
                f"Names of private columns must not begin with {SCORE_NAME!r}, the name of the "
                f"columns with scores; got {reserved[0]!r}. Rename this column."
            )

    def _receipt(self, receipt: PrivacyReceipt) -> PrivacyReceipt:
        """Return the receipt of the fit, given that of the private estimator."""
        lines = [
            line.replace("without the private rows", "without the private columns")
            for line in model_lines(self._margins, self.budget)
        ]
        if self._margins is None:  # so that the private estimator keeps a model of its own
            lines = [text for text in receipt.assumptions if text.startswith("public_model")]
        return receipt_for_private_columns(
            receipt, self.private_columns_, lines, targets=self._targets_in_words
        )

    def _fit_public_model(self, table: Table, outcomes: Floats) -> Floats:
        """Fit the model of the public columns, and return out-of-fold scores, (n, n_scores)."""
        columns = self._public_columns(table)
        schema = build_schema(columns, [columns], nullable=True)
        rows = schema.encode(columns)
        margins = make_public_margins(
            self.public_model,
            schema,
            make_binner(schema, rows, max_bins=None),
            rows,
            PublicLabels(np.arange(len(rows)), outcomes),
            self._target_scale(),
        )
        self._schema, self._margins, self.public_model_ = schema, None, None
        if margins is None:
            return np.empty((len(rows), 0))
        self._margins = replace(margins, of_public=margins.of_public[:, :0])
        self.public_model_ = margins.model.estimator
        return self._scores_of_margins(margins.of_public)

    def _settings_of_estimator(self) -> dict[str, Any]:
        """Return the parameters of the private estimator that this class determines."""
        settings: dict[str, Any] = {
            "epsilon": self.epsilon,
            "budget": self.budget,
            "max_rows_per_group": self.max_rows_per_group,
            **self._target_settings(),
        }
        if self.random_state is not None:
            settings["random_state"] = self.random_state
        if self._margins is not None and "public_model" in self.estimator.get_params(deep=False):
            settings["public_model"] = self._score_model()
        return settings

    def _public_columns(self, table: Table) -> Table:
        """Return the public columns."""
        is_public = [i for i in range(table.shape[1]) if i not in self._positions]
        columns = pick_columns(table.native, is_public)
        if isinstance(columns, np.ndarray) and columns.dtype.kind == "b":
            # a private value could change the type of an array, but not of an array of objects
            columns = columns.astype(object)
        return Table(columns)

    def _scores(self, table: Table) -> Floats:
        """Return the scores of new rows, shape (n, n_scores)."""
        if self._margins is None:
            return np.empty((table.shape[0], 0))
        rows = self._schema.encode(self._public_columns(table))
        return self._scores_of_margins(self._margins.margins(rows))

    def _scored(self, table: Table, scores: Floats) -> Any:
        """Return the private columns and the scores, in a container like that of `table`."""
        columns = {f"{SCORE_NAME} {i}": score.copy() for i, score in enumerate(scores.T)}
        private = pick_columns(table.native, self._positions)
        return add_numbers(private, self.private_columns_, columns)

    def _public_rows(self, public: Table, X_public: Any, names: Sequence[str]) -> Any:
        """Return public rows for the private estimator. Descriptions remain marked as such."""
        scored = self._scored(public, self._scores(public))
        if not is_described(X_public):
            return scored
        bounds = bounds_of_description(X_public, names)
        of_private: dict[str, tuple[Any, Any]] = {}
        for name, old in zip(column_names(Table(scored)), self.private_columns_, strict=False):
            if old in bounds:
                of_private[name] = bounds[old]
        return mark_described(scored, of_private)

    def _check_estimator(self) -> None:
        """Raise an error unless the private estimator suits the target, and accepts public rows."""
        raise NotImplementedError

    def _read_targets(self, y: Any, y_public: Any, n: int) -> Targets:
        """Return the encoded targets of the rows, and set the attributes of the target."""
        raise NotImplementedError

    def _decoded(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the targets that have given codes."""
        raise NotImplementedError

    def _public_outcomes(self, codes: NDArray[Any]) -> Floats:
        """Return the outcomes of a public model, between 0 and 1, shape (n_targets, n)."""
        raise NotImplementedError

    def _target_scale(self) -> TargetScale:
        """Return the target of the public model."""
        raise NotImplementedError

    def _target_settings(self) -> dict[str, Any]:
        """Return the parameters of the private estimator that describe the target."""
        raise NotImplementedError

    def _scores_of_margins(self, margins: NDArray[np.int16]) -> Floats:
        """Return the scores of rows, shape (n, n_scores)."""
        raise NotImplementedError

    def _score_model(self) -> Any:
        """Return the public model of the private estimator, which reads the scores."""
        raise NotImplementedError

    @property
    def _charged_estimator(self) -> Any:
        """The estimator whose name is that of the entry in the budget."""
        return self.estimator_

    def _inner_estimator(self) -> Any:
        return getattr(self, "estimator_", self.estimator)

    def _delegate(self, method: str, X: Any) -> NDArray[Any]:
        """Call a method of the fitted private estimator on the private columns and the scores."""
        check_is_fitted(self)
        return super()._delegate(method, self._scored_rows(X))

    def _scored_rows(self, X: Any) -> Any:
        """Return the private columns and the scores of new rows."""
        table = read_table(self, X, reset=False, numeric=False)
        return self._scored(table, self._scores(table))

    def __sklearn_tags__(self) -> Any:
        """Return the tags, with the estimator's input tags."""
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


class PrivateColumnsClassifier(
    PrivateColumnsMixin,
    DelegatingClassifier,
    MetaEstimatorMixin,
    ClassifierMixin,
    BaseEstimator,
):
    """A private classifier for tables in which only some columns are private.

    All other columns and the labels are public, for all rows. A model of the public columns is
    fitted without noise and predicts a *score* for each row. The private estimator is fitted to the
    private columns and the score. All of its budget is spent on what the private columns add.

    Parameters
    ----------
    estimator : classifier
        Private classifier whose `fit` accepts `X_public`, such as `SemiPrivateBoostingClassifier`,
        which is cloned. Its parameters `epsilon`, `budget` and `max_rows_per_group` are replaced by
        those of this class, `classes` by all labels, `random_state` unless that of this class is
        None, and `public_model` by the score, except for linear models of more than two labels.
        Its δ is part of the privacy cost.
    private_columns : list of str or int
        Private columns of `X`, by name or position. Nothing is protected about any other column.
    public_model : estimator, "auto" or None, default="auto"
        Model of the public columns, with `fit` and `predict_proba` or `decision_function`. An
        unfitted model is cloned and fitted. ``"auto"`` is a weighted sum of gradient boosting, a
        linear model and a random forest, which needs 30 rows. With ``None``, there is no score,
        and the public columns are not used.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    classes : array-like, default=None
        All possible labels. With ``None``, they are the labels in `y`.
    random_state : int, numpy Generator or RandomState, default=None
        With ``None``, random numbers come from the operating system's secure generator. Any other
        value makes the fit reproducible, which is intended for tests and papers only, and is
        recorded in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If this number is set, the private columns of all rows of
        a person are protected together, and `fit` requires `groups`. At most `max_rows_per_group`
        rows of each person, chosen at random, are used by the private estimator.
    budget : PrivacyBudget, default=None
        Budget from which the cost of each fit is deducted, created with ``protects=[...]``, the
        names of columns that are all private here. If the budget is insufficient, `fit` raises an
        error before any private column is used.

    Attributes
    ----------
    estimator_ : classifier
        The fitted private estimator of the private columns and the scores.
    public_model_ : estimator, tuple of estimators, or None
        The fitted model of the public columns.
    private_columns_ : list of str
        Names of the private columns.
    classes_ : ndarray, shape (n_classes,)
        The labels.
    privacy_ : PrivacyReceipt
        Privacy receipt, whose unit names the private columns.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Feature names, if those of `X` are strings.

    See Also
    --------
    LabelPrivateClassifier : Protects the label of each row, and no feature.
    SemiPrivateBoostingClassifier : Protects features and labels.
    PrivacyBudget : ``PrivacyBudget(..., protects=["income"])`` admits this classifier.

    Notes
    -----
    Neighbouring data sets differ in the private columns of one row (or person), and have the same
    public columns and labels [1]_. *Nothing is protected about these*, nor about what they reveal
    of the private columns: anybody may know them, and the fitted model contains values of them.
    The labels must not be made from a private column. The fit has the ε and δ of the private
    estimator (docs/proofs/label_privacy.md, Theorem 6).

    The rows are shuffled first, so their order may depend on private columns.

    The score of a row of the fit comes from a model of other rows: the rows are divided into five
    folds, and each fold is predicted by a model of the other four. For more than two labels, there
    is one score for each label. The private estimator reads the private columns in their order,
    and then the scores. Its parameters that refer to columns refer to these; for arrays, they are
    called x0, x1 and so on.

    References
    ----------
    .. [1] Z. Shen, A. Krishnaswamy, J. Kulkarni and K. Munagala (2023). Classification with
       partially private features. arXiv:2312.07583.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import PrivateColumnsClassifier, SemiPrivateBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = X[:, 0] + X[:, 1] + X[:, 2] + rng.normal(size=5000) > 0
    >>> clf = PrivateColumnsClassifier(
    ...     SemiPrivateBoostingClassifier(), private_columns=[2], epsilon=0.5, random_state=0
    ... )
    >>> clf = clf.fit(X, y, X_public=rng.normal(size=(300, 3)))
    >>> clf.score(X, y) > 0.78
    True
    >>> print(clf.privacy_.unit)
    replace one private row (not protected: labels, and all columns but x2)
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"])],
        "private_columns": ["array-like"],
        "public_model": [StrOptions({"auto"}), HasMethods("fit"), None],
        "classes": ["array-like", None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    def __init__(
        self,
        estimator: Any,
        *,
        private_columns: Sequence[str | int],
        public_model: Any = "auto",
        epsilon: float | Fraction = 1.0,
        classes: ArrayLike | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.private_columns = private_columns
        self.public_model = public_model
        self.epsilon = epsilon
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
        groups: Any = None,
    ) -> Self:
        """Fit the model of the public columns, and the private estimator to the other columns.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Training rows. Only their private columns are protected.
        y : array-like, shape (n,)
            Public labels.
        X_public : array-like or DataFrame, shape (m, n_features), optional
            Public rows of the private estimator, with the columns of `X`. In cross-validation,
            `X_public` and `X` must have different numbers of rows.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, where -1 means "unlabelled".
        groups : array-like, shape (n,), optional
            Person to whom each row belongs, used with `max_rows_per_group`. Persons are public.

        Returns
        -------
        self : PrivateColumnsClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If `budget` is insufficient, or protects other columns as well.
        """
        return self._fit(X, y, X_public, y_public, groups)

    def _check_estimator(self) -> None:
        check_base(self.estimator)
        if not is_private_estimator(self.estimator):
            raise ValueError(
                "estimator must be a private classifier whose fit accepts X_public, such as "
                f"SemiPrivateBoostingClassifier; got {type(self.estimator).__name__}."
            )

    def _read_targets(self, y: Any, y_public: Any, n: int) -> Targets:
        check_length(y, n)
        reader = LabelReader(self.classes, min_classes=2)
        labels = reader.column(y)
        public_labels = labels[:0] if y_public is None else reader.column(y_public, "y_public")
        targets = reader.targets(labels, [public_labels])
        assert targets.classes is not None
        self.classes_ = targets.classes
        return targets

    def _decoded(self, codes: NDArray[Any]) -> NDArray[Any]:
        decoded: NDArray[Any] = self.classes_[codes]
        return decoded

    def _public_outcomes(self, codes: NDArray[Any]) -> Floats:
        is_of_class = codes == np.arange(len(self.classes_))[:, None]
        outcomes = is_of_class[1:] if len(self.classes_) == 2 else is_of_class
        return outcomes.astype(np.float64)

    def _target_scale(self) -> TargetScale:
        n_classes = len(self.classes_)
        loss: Loss = LOGISTIC if n_classes == 2 else MultinomialLoss(n_classes, pure=True)
        return TargetScale(self.classes_, None, loss)

    def _target_settings(self) -> dict[str, Any]:
        return {"classes": self.classes_}

    def _scores_of_margins(self, margins: NDArray[np.int16]) -> Floats:
        return margins.T / MARGIN_UNIT

    def _score_model(self) -> Any:
        is_linear = isinstance(self.estimator, SemiPrivateLogisticRegression)
        if is_linear and len(self.classes_) > 2:  # it supports no public model of several labels
            return None
        return _ScoreModel(self.classes_)


class _ScoreModel(ClassifierMixin, BaseEstimator):
    """Model whose probabilities are those of the scores, which are the last columns of a row."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return self.classes

    def fit(self, X: Any, y: Any) -> Self:
        """Do nothing, since there are no parameters."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each label, shape (n, n_classes)."""
        table = Table(X)
        n, n_columns = table.shape
        is_binary = len(self.classes) == 2
        n_scores = 1 if is_binary else len(self.classes)
        scores = np.empty((n, n_scores))
        for i in range(n_scores):
            scores[:, i] = table.column(n_columns - n_scores + i)
        if is_binary:
            p = expit(scores[:, 0])
            return np.column_stack([1 - p, p])
        return softmax(scores, axis=1)


def _kinds_at_prediction(private: Sequence[int], table: Table) -> tuple[str, ...]:
    """Return the kinds that new columns must have: any kind, if private values determine it."""
    if not table.is_frame:
        return (ANYTHING,) * table.shape[1]
    kinds = enumerate(map(kind_of_type, table.types))
    return tuple(ANYTHING if i in private else kind for i, kind in kinds)


def _positions_of(columns: Sequence[Any], table: Table) -> list[int]:
    """Return the positions of the private columns in increasing order."""
    names, labels = column_names(table), frame_labels(table)
    if not table.is_frame and table.types[0].kind == DATE:
        raise ValueError("X must be a data frame if it contains dates; got an array.")
    listed = [
        None if isinstance(column, bool | np.bool_) else column_position(column, names, labels)
        for column in columns
    ]
    unknown = [column for column, i in zip(columns, listed, strict=True) if i is None]
    if isinstance(columns, str) or unknown or not listed:
        got = repr(columns) if isinstance(columns, str) or not unknown else repr(unknown[0])
        raise ValueError(
            "private_columns must be a list of columns of X by name or position; got "
            f"{got}. The columns of X are {', '.join(names[:10])}"
            f"{', ...' if len(names) > 10 else ''}."
        )
    positions = sorted({position for position in listed if position is not None})
    if len(positions) == len(names):
        raise ValueError(
            "At least one column must be public, but private_columns lists all columns. Fit the "
            "private estimator itself."
        )
    return positions
