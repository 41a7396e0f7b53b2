"""Adapters of the catalogue, so that functions and rare stages are audited like estimators."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin

from skpublicdp import LabelPrivateClassifier, PrivateColumnsClassifier, PrivateColumnsRegressor
from skpublicdp.accounting import Steps
from skpublicdp.boosting import SemiPrivateBoostingClassifier
from skpublicdp.data import open_rows
from skpublicdp.exceptions import ReadError
from skpublicdp.metrics import (
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
    private_scores,
)
from skpublicdp.query_release import (
    LabelParts,
    PAPQueryRelease,
    ThresholdQueries,
    label_parts,
    learner_from_label_parts,
)
from tests.internals.audit import replaced
from tests.internals.base_learner import mechanism_event
from tests.internals.boosting import newton
from tests.internals.data import roles
from tests.internals.privacy import Ledger

SUBSAMPLE_SIZE = 20
"""Number of rows of the subsample of `RowSampledBoosting`."""


class PublishedScore:
    """Adapter whose `fit` releases a private score."""

    def __init__(self, release: Callable[..., Any], **settings: Any) -> None:
        self.release, self.settings = release, settings

    def fit(self, X: Any, y: Any) -> PublishedScore:
        """Release the score of the first column as a prediction of `y`, with its receipt."""
        self.score_ = self.release(np.asarray(X)[:, 0], y, **self.settings)
        self.privacy_ = self.score_.privacy_
        return self


class CarelessClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that quotes its rows in errors, warnings and output, and changes them."""

    def fit(self, X: Any, y: Any) -> CarelessClassifier:
        """Store the rows, and fail if one of them has a 2."""
        print(X, file=sys.stdout if len(X) % 2 else sys.stderr)
        warnings.warn(f"{X}", stacklevel=2)
        if (X == 2).any():
            raise RuntimeError(f"{X} has a 2")
        self.classes_ = np.unique(y)
        self.shift_ = X.mean() - y.mean()
        X[:], y[:] = 0, y[0]
        return self

    def predict(self, X: Any) -> Any:
        """Predict the labels of rows, some of which are not labels, and change the rows."""
        labels = np.where(X[:, 0] > 1, 7, X[:, 0] > self.shift_) if self.shift_ > 0.4 else None
        labels = (X[:, 0] > self.shift_).astype(int) if labels is None else labels
        X += self.shift_
        return labels


class ScoreClassifier:
    """Public classifier that returns its only feature as the probability of "yes"."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of "no" and of "yes"."""
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X: Any) -> Any:
        """Return "yes" for probabilities above 0.5."""
        return self.classes_[(X[:, 0] > 0.5).astype(int)]


class LabelsOfFixedRows(LabelPrivateClassifier):
    """Classifier of three rows whose features are public, so that neighbours differ in a label."""

    FEATURES = np.array([[0.0], [1.0], [2.0]])

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Fit to the fixed features. Only the number of rows of `X` is used."""
        return super().fit(self.FEATURES[: len(X)], y, groups=groups)


class FixedRowsMixin:
    """Six rows with a public column and target, so that neighbours differ in the column "x".

    More rows than folds are needed for their order to have an effect.
    """

    PUBLIC, LABELS = [0.0, 1.0, 2.0, 0.5, 1.5, 2.5], [0, 1, 1, 1, 0, 1]

    def fit(self, X: Any, y: Any = None, *, X_public: Any = None, groups: Any = None) -> Any:
        """Fit to the private column `X` and the fixed values, and ignore `y`."""
        n = len(X)
        frame, public = self._frame(X, self.PUBLIC[:n]), self._frame(X_public, self.PUBLIC[:3])
        return super().fit(frame, self.LABELS[:n], X_public=public, groups=groups)

    def _delegate(self, method: str, X: Any) -> Any:
        """Predict rows with the first public value."""
        return super()._delegate(method, self._frame(X, self.PUBLIC[:1] * len(X)))

    def _frame(self, X: Any, public: Any) -> Any:
        return pd.DataFrame({"public": public, "x": np.asarray(X)[:, 0]})


class ColumnOfFixedRows(FixedRowsMixin, PrivateColumnsClassifier):
    """Classifier of rows that differ in a private column alone."""


class ColumnOfFixedOutcomes(FixedRowsMixin, PrivateColumnsRegressor):
    """Regressor of rows that differ in a private column alone."""


class RiskScore(ClassifierMixin, BaseEstimator):
    """Published model: the sum of the two first columns decides among labels 0, 1, ..."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    @property
    def classes_(self) -> Any:
        """The labels."""
        return np.arange(self.n_classes)

    def __sklearn_is_fitted__(self) -> bool:
        """Declare that the model is given."""
        return True

    def fit(self, X: Any, y: Any) -> RiskScore:
        """Change nothing, since the model is given."""
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities in proportion to exp(label · score), for a bounded score."""
        numbers = np.nan_to_num(np.asarray(X, dtype=np.float64)[:, :2], posinf=9, neginf=-9)
        score = np.clip(numbers[:, 0] + numbers[:, -1], -3, 3)
        weights = np.exp(score[:, None] * self.classes_ / max(1, len(self.classes_) - 1))
        return weights / weights.sum(axis=1, keepdims=True)


class LabelClassifier:
    """Public classifier of three labels, whose probabilities follow from its only feature."""

    classes_ = np.array(["no", "yes", "other"])

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of "no", "yes" and "other"."""
        return np.column_stack([1 - X[:, 0], X[:, 0] / 2, X[:, 0] / 2])

    def predict(self, X: Any) -> Any:
        """Return "yes" for features above 0.5."""
        return self.classes_[(X[:, 0] > 0.5).astype(int)]


class ScoreRegressor:
    """Public regressor that predicts its only feature."""

    def predict(self, X: Any) -> Any:
        """Return the feature."""
        return X[:, 0]


class RowSampledBoosting(SemiPrivateBoostingClassifier):
    """Boosting that draws a small subsample of rows, for which it would need millions of rows."""

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        """Fit with a subsample of fixed size."""
        with replaced(newton, "subsample_size", lambda *arguments: SUBSAMPLE_SIZE):
            return super().fit(*args, **kwargs)


def as_frame(X: Any) -> Any:
    """Return an array as a frame with named columns."""
    array = np.asarray(X, dtype=np.float64)
    return pd.DataFrame(array, columns=[f"x{column}" for column in range(array.shape[1])])


class ReleaseOfUnsteadyRows(PAPQueryRelease):
    """Release of streamed rows whose order changes after the pass that reads persons.

    The fit is refused, and the rows are then read from memory. If later passes were not compared
    with the first, the mask of kept rows would apply to other rows.
    """

    def fit(self, X: Any, *, X_public: Any, groups: Any) -> Any:
        """Fit to Arrow batches or, if they are refused, to rows in memory."""
        import pyarrow as pa

        frame = as_frame(X).assign(person=groups)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        # persons of three rows each: all first rows come first
        order = pa.array(np.arange(len(frame)).reshape(-1, 3).T.ravel())
        is_steady = True

        def batches() -> Any:
            """Return an iterator over the rows in the present order."""
            return iter((table if is_steady else table.take(order)).to_batches())

        def read_persons(*arguments: Any) -> Any:
            """Read persons in the first order, which then changes."""
            nonlocal is_steady
            persons = roles_of_steady_rows(*arguments)
            is_steady = False
            return persons

        rows = open_rows(batches)
        roles_of_steady_rows = roles.read_persons
        names = [name for name in frame if name != "person"]
        try:
            with replaced(roles, "read_persons", read_persons):
                return super().fit(rows[names], X_public=as_frame(X_public), groups=rows["person"])
        except ReadError:
            return super().fit(frame[names], X_public=as_frame(X_public), groups=groups)


class LabelPartsLearner(BaseEstimator):
    """Threshold from three releases of features, each with a third of the budget."""

    fillers = ((0.0,), (2.0,))
    thresholds = ((-1.0,), (0.0,), (1.0,), (2.0,))

    def __init__(
        self, epsilon: float = 6, delta: float = 0, random_state: Any = None, budget: Any = None
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.random_state, self.budget = random_state, budget

    def fit(self, X: Any, y: Any, *, X_public: Any, y_public: Any) -> LabelPartsLearner:
        """Release the three tables, and store the releases and the best threshold."""
        ledger = Ledger.from_estimator(self)
        ledger.read(len(X), len(X_public))
        epsilon, delta = ledger.epsilon / 3, ledger.delta / 3
        event = mechanism_event(epsilon, delta)
        ledger.plan(Steps((event,) * 3))
        public = label_parts(X_public, y_public, self.fillers)
        private = label_parts(X, y, self.fillers)
        self.releases_ = []
        for name in LabelParts._fields:
            release = PAPQueryRelease(
                ThresholdQueries(),
                epsilon=epsilon,
                delta=delta,
                bounds=(0, 3),
                random_state=ledger.sub_ledger(event, name=name, proof="its own").seed(),
            )
            rows, public_rows = getattr(private, name), getattr(public, name)
            self.releases_.append(release.fit(rows, X_public=public_rows))
        learned = learner_from_label_parts(*self.releases_, self.thresholds, self.fillers)
        self.rule_, self.guarantee_ = str(learned.rule), learned.guarantee
        self.privacy_ = ledger.receipt()
        return self


def release_scores(scores: Any, y: Any, **settings: Any) -> Any:
    """Return private scores of `ScoreClassifier`, such as its ROC curve."""
    return private_scores(ScoreClassifier(), scores[:, None], y, **settings)


def release_label_scores(scores: Any, y: Any, **settings: Any) -> Any:
    """Return private scores of `LabelClassifier`, such as the area of each label."""
    return private_scores(LabelClassifier(), scores[:, None], y, **settings)


def release_group_scores(scores: Any, y: Any, **settings: Any) -> Any:
    """Return private scores by group, with score bins at quantiles of public rows."""
    return private_scores(
        ScoreClassifier(),
        scores[:, None],
        y,
        X_public=np.array([[0.05], [0.3], [0.7], [0.8]]),
        by=scores,
        by_values=[0.1, 0.6],
        **settings,
    )


def release_residuals(scores: Any, y: Any, **settings: Any) -> Any:
    """Return private scores of `ScoreRegressor`, for outcomes from 0 to 1."""
    return private_scores(ScoreRegressor(), scores[:, None], y, outcome_bounds=(0, 1), **settings)


def release_roc_auc(scores: Any, y: Any, **settings: Any) -> Any:
    """Return the private area under the ROC curve of given scores."""
    return private_roc_auc_score(y, scores, pos_label="yes", **settings)


def release_confusion_matrix(scores: Any, y: Any, **settings: Any) -> Any:
    """Return the private confusion matrix of `ScoreClassifier`."""
    return private_confusion_matrix(
        y, ScoreClassifier().predict(scores[:, None]), labels=["no", "yes"], **settings
    )


def release_balanced_accuracy(scores: Any, y: Any, **settings: Any) -> Any:
    """Return the private balanced accuracy of `ScoreClassifier`."""
    return private_balanced_accuracy_score(
        y, ScoreClassifier().predict(scores[:, None]), labels=["no", "yes"], **settings
    )


def exceed_half(X: Any) -> Any:
    """Return whether each of the first two features exceeds 0.5, shape (n_rows, 2)."""
    return np.column_stack([X[:, 0] > 0.5, X[:, 1] > 0.5])


def weigh(X: Any) -> Any:
    """Return two numbers, of which both may lie beyond -1 and 2, shape (n_rows, 2)."""
    return np.column_stack([5 * X[:, 0] - 2, X[:, 1]])


def is_sick(rows: Any) -> Any:
    """Return the boolean column "sick", shape (n_rows,)."""
    return np.asarray(rows["sick"]).astype(bool)
