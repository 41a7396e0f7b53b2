"""Base learners: private classifiers that other learners fit with a share of their budget."""

from __future__ import annotations

import io
import logging
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skpublicdp._internal.progress import without_progress
from skpublicdp._internal.threads import RefCountedContext
from skpublicdp.accounting import Approximate, Event, PrivacyReceipt, Pure, basic_price
from skpublicdp.accounting.rounding import written_below
from skpublicdp.data.batch_predict import ScoreMixin
from skpublicdp.data.validation import check_rows
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.privacy.budget import has_seed
from skpublicdp.typing import Floats

_Method = TypeVar("_Method", bound=Callable[..., Any])


def available_if_inner_has(method: str) -> Callable[[_Method], _Method]:
    """Return a decorator that makes a method available only if the inner estimator has `method`."""

    def check(self: DelegatingClassifier) -> bool:
        """Indicate whether the inner estimator has the method."""
        return hasattr(self._inner_estimator(), method)

    return available_if(check)


class DelegatingClassifier(ScoreMixin):
    """Mixin that delegates predictions to a fitted inner estimator."""

    protects_all_rows = True
    """Whether all rows passed to `fit` are protected, according to the inner estimator."""

    def _inner_estimator(self) -> Any:
        """Return the fitted inner estimator or, before `fit`, the unfitted one."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels with the fitted inner estimator.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray, shape (n,)
            Predicted label of each row, which is one of `classes_`.
        """
        return self._delegate("predict", X)

    @available_if_inner_has("predict_proba")
    def predict_proba(self, X: Any) -> Floats:
        """Predict probabilities with the fitted inner estimator.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities, with one column for each label in `classes_`.
        """
        return self._delegate("predict_proba", X)

    @available_if_inner_has("decision_function")
    def decision_function(self, X: Any) -> Floats:
        """Return the decision function of the fitted inner estimator.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            Rows to predict.

        Returns
        -------
        ndarray, shape (n,) or (n, n_classes)
            Values of the decision function.
        """
        return self._delegate("decision_function", X)

    def _delegate(self, method: str, X: Any) -> NDArray[Any]:
        """Call a method of the fitted inner estimator on the rows `X`."""
        check_is_fitted(self)
        return getattr(self._inner_estimator(), method)(X)


class BaseDelegatingClassifier(DelegatingClassifier):
    """Mixin that delegates predictions to the fitted base learner, `estimator_`."""

    estimator_: Any
    n_features_in_: int

    def _base_learner(self) -> Any:
        """Return the base learner passed as a parameter, or the default base learner."""
        raise NotImplementedError

    def _inner_estimator(self) -> Any:
        return getattr(self, "estimator_", None) or self._base_learner()

    def _delegate(self, method: str, X: Any) -> NDArray[Any]:
        check_is_fitted(self, "estimator_")
        return super()._delegate(method, check_rows(self, X, reset=False))


def mechanism_event(epsilon: Fraction, delta: Fraction) -> Event:
    """Return the privacy event of an (ε, δ)-differentially private mechanism."""
    return Approximate(epsilon, delta) if delta else Pure(epsilon)


def epsilon_delta(event: Event) -> tuple[float, float]:
    """Return (ε, δ) of an event as floats, rounded down so that they do not exceed exact values."""
    epsilon, delta = (max(0.0, written_below(Fraction(price))) for price in basic_price(event))
    return epsilon, delta


def check_base(estimator: BaseEstimator) -> None:
    """Raise ValueError unless a base learner can be fitted privately with a share of the budget.

    Parameters
    ----------
    estimator : classifier
        Base learner. If the base learner contains another base learner, the inner one is also
        checked.

    Raises
    ------
    ValueError
        If the base learner is a regressor, lacks the parameter `epsilon`, has a `budget` of its
        own, or does not declare ``protects_all_rows = True``.
    """
    name, parameters = type(estimator).__name__, _parameters(estimator)
    if isinstance(estimator, RegressorMixin):
        raise ValueError(f"estimator must be a classifier, but {name} is a regressor.")
    if "epsilon" not in parameters:
        raise ValueError(
            "estimator must be a differentially private classifier with a parameter 'epsilon', "
            f"which is set to its share of the privacy budget; {name} has no such parameter."
        )
    if parameters.get("budget") is not None:
        raise ValueError(
            f"estimator must have budget=None, but {name} has a budget of its own. Pass the budget "
            "to the outer learner instead, so that the entire fit is charged to it."
        )
    protects_all_rows = getattr(estimator, "protects_all_rows", None)
    if protects_all_rows is None:
        raise ValueError(
            f"estimator must protect every row that its fit receives as X and y, but {name} does "
            "not declare that it does. Set protects_all_rows = True in the class or a subclass, "
            "but only if every row is protected regardless of its values."
        )
    if protects_all_rows is not True:
        raise ValueError(
            f"estimator must protect every row that its fit receives as X and y, but {name} treats "
            "some of these rows as public. Use another base learner."
        )
    if isinstance(estimator, BaseDelegatingClassifier):
        check_base(estimator._base_learner())


def check_classes(estimator: BaseEstimator, classes: NDArray[Any] | None) -> None:
    """Raise ValueError if a label is missing from the base learner's parameter `classes`.

    Without this check, `fit` would fail only if the label occurs in private rows, and the failure
    would reveal this fact.
    """
    base_classes = _parameters(estimator).get("classes")
    if base_classes is None or classes is None:
        return
    if not set(classes.tolist()) <= set(np.asarray(base_classes).tolist()):
        raise ValueError(
            "The parameter classes of estimator must list all labels, but some are missing. Add "
            "them, or leave classes unset."
        )


def is_repeatable(base: Any) -> bool:
    """Indicate whether a base learner was fitted with a seed, which makes its fit reproducible.

    The use of a seed is recorded in the receipt. If there is no receipt, the parameter
    `random_state` is checked.
    """
    receipt = getattr(base, "privacy_", None)
    if isinstance(receipt, PrivacyReceipt):
        return not receipt.secure_randomness
    return has_seed(base)


def add_row_per_label(
    estimator: BaseEstimator,
    X: Floats,  # (n, n_features)
    y: NDArray[Any],  # (n,)
    classes: NDArray[Any],  # (n_classes,)
    centre: Floats,  # (n_features,)
) -> tuple[Floats, NDArray[Any]]:
    """Return (rows, labels) with one row added for each label, so that every label occurs.

    Without the added rows, the attribute `classes_` of the base learner would reveal which labels
    occur in the private rows. If the base learner has a parameter `classes`, no rows are added.
    """
    if "classes" in _parameters(estimator):
        return X, y
    return np.vstack([X, np.tile(centre, (len(classes), 1))]), np.append(y, classes)


def fit_base(
    estimator: BaseEstimator,
    epsilon: float,
    X: Floats,
    y: NDArray[Any],
    *,
    delta: float = 0,
    random_state: int | None = None,
    classes: NDArray[Any] | None = None,
    **fit_params: Any,
) -> Any:
    """Return a fitted clone of a base learner, suppressing its warnings and error messages.

    Parameters
    ----------
    estimator : classifier
        Base learner, which is not modified.
    epsilon, delta : float
        Privacy budget of the base learner. The parameter `delta` is set only if the base learner
        has it.
    X : ndarray, shape (n, n_features)
        Rows to which the base learner is fitted.
    y : ndarray, shape (n,)
        Labels of the rows.
    random_state : int, optional
        Seed, which is set only if the base learner has this parameter. With ``None``, the user's
        value remains unchanged.
    classes : ndarray, optional
        All possible labels. The labels are set only if the base learner's parameter `classes` is
        unset.
    **fit_params
        Further arguments of `fit`. Arguments that are ``None`` or that `fit` does not accept are
        omitted.

    Raises
    ------
    ValueError
        If the base learner cannot be fitted. The original message is withheld. Instead, the error
        shows the message that random rows of the same shape produce. The error is also raised if
        the receipt does not cover all rows within this budget.

    Notes
    -----
    Only `NoPublicDataWarning` is passed on, since other warnings could depend on private rows or
    labels.
    """
    check_base(estimator)
    check_classes(estimator, classes)
    parameters = _parameters(estimator)
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if random_state is not None:
        settings["random_state"] = random_state
    if classes is not None and parameters.get("classes", classes) is None:
        settings["classes"] = classes
    settings = {name: value for name, value in settings.items() if name in parameters}
    passed_params = {
        name: value
        for name, value in fit_params.items()
        if value is not None and has_fit_parameter(estimator, name)
    }
    fitted, _ = _fit_or_reason(clone(estimator).set_params(**settings), X, y, passed_params)
    if fitted is not None:
        _check_receipt(fitted, epsilon, delta, len(X), len(passed_params.get("X_public", ())))
        return fitted
    # a base learner fitted to random rows cannot quote private values in its message
    random_rows = np.random.default_rng(0).normal(size=X.shape)
    labels = np.resize([0, 1] if classes is None else classes, len(X))
    _, reason = _fit_or_reason(
        clone(estimator).set_params(**settings), random_rows, labels, passed_params
    )
    reason_text = (
        f": {reason}"
        if reason
        else ". The error message is withheld because it may contain private values."
    )
    raise ValueError(f"{type(estimator).__name__} could not be fitted to its rows{reason_text}")


@contextmanager
def _without_output() -> Iterator[None]:
    """Context manager that discards what Python prints, and the messages of all loggers."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


def seeded_clone(estimator: Any, seed: int) -> Any:
    """Return a silent clone, without callbacks, whose parameters `random_state` are set to a seed.

    The parameters of nested estimators are set, too. Every `verbose` is 0 or False, every `n_jobs`
    is 1 and every `memory` is None, so that no other process or file receives the rows.
    """
    shared = {id(value) for value in estimator.get_params().values()}
    copied = clone(estimator)
    settings: dict[str, Any] = {}
    for name, value in copied.get_params().items():
        match name.rpartition("__")[2]:
            case "random_state":
                settings[name] = seed
            case "verbose":  # some estimators accept booleans only, and others numbers only
                settings[name] = False if isinstance(value, bool) else 0
            case "n_jobs":
                settings[name] = 1
            case "memory":
                settings[name] = None
    copied.set_params(**settings)
    for nested in (copied, *copied.get_params().values()):
        if id(nested) in shared:  # a fitted estimator that clones share
            continue
        for name in [name for name in getattr(nested, "__dict__", ()) if "callback" in name]:
            delattr(nested, name)
    return copied


_NO_OUTPUT = RefCountedContext(_without_output)


@contextmanager
def quietly(seed: int) -> Iterator[None]:
    """Context manager for calls that read private rows, with global generators that are seeded.

    Output, logs and progress are discarded. The states of the generators are restored, so that one
    call does not affect another.
    """
    states = np.random.get_state(), random.getstate()  # noqa: NPY002 - global ones are meant
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        with _NO_OUTPUT, without_progress():
            yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


def check_not_private(estimator: Any) -> None:
    """Raise ValueError if an estimator or a nested one has a privacy budget of its own.

    Its progress and its budget would depend on the rows to which it is fitted.
    """
    for nested in (estimator, *_parameters(estimator, deep=True).values()):
        names = _parameters(nested).keys()
        if {"epsilon", "random_state"} <= names or "budget" in names:
            raise ValueError(
                "estimator must not contain a classifier with a privacy budget of its own; got "
                f"{type(nested).__name__}. Fit this classifier itself."
            )


def fit_without_leaks(estimator: Any, X: Floats) -> None:
    """Fit an estimator to private rows in place, suppressing its warnings and error messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, _ = _fit_or_reason(estimator, X, None, {})
    if fitted is None:
        raise ValueError(
            f"{type(estimator).__name__} could not be fitted to its rows. The error message is "
            "withheld because it may contain private values."
        )


def _check_receipt(base: Any, epsilon: float, delta: float, n_private: int, n_public: int) -> None:
    """Raise ValueError unless a base learner's receipt covers all rows and stays within the budget.

    Base learners without a receipt are accepted.

    Parameters
    ----------
    base : classifier
        Fitted base learner.
    epsilon, delta : float
        Budget of the base learner.
    n_private : int
        Number of rows that were passed as `X`.
    n_public : int
        Number of rows that were passed as `X_public`.
    """
    receipt = getattr(base, "privacy_", None)
    if not isinstance(receipt, PrivacyReceipt):
        return
    name = type(base).__name__
    if receipt.n_public > n_public or receipt.n_private < n_private:
        # the number of rows is withheld, since it could depend on labels
        raise ValueError(
            "estimator must protect every row that its fit receives as X and y, but the receipt of "
            f"{name} omits some of these rows or counts them as public. Use another base learner."
        )
    if receipt.epsilon > epsilon or receipt.delta > delta:
        raise ValueError(
            "estimator must not spend more than its share of the privacy budget, but according to "
            f"its receipt, {name} did. Do not set delta in its nested estimators."
        )


def _fit_or_reason(
    estimator: Any, X: Floats, y: NDArray[Any] | None, fit_params: dict[str, Any]
) -> tuple[Any, str]:
    """Fit an estimator in place, and return (estimator, "") or (None, error message).

    The first `NoPublicDataWarning` is reissued, and other warnings are suppressed.

    Parameters
    ----------
    estimator : estimator
        Estimator to fit in place.
    X : ndarray, shape (n, n_features)
        Rows to which the base learner is fitted.
    y : ndarray, shape (n,), or None
        Labels, or None for an estimator whose `fit` accepts only rows.
    fit_params : dict
        Further arguments of `fit`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            data = (X,) if y is None else (X, y)
            estimator.fit(*data, **fit_params)
            fitted, reason = estimator, ""
        except Exception as error:
            fitted, reason = None, str(error)
    for warning in caught:
        if issubclass(warning.category, NoPublicDataWarning):
            warn(str(warning.message), NoPublicDataWarning)
            break
    return fitted, reason


def _parameters(estimator: BaseEstimator, *, deep: bool = False) -> dict[str, Any]:
    """Return an estimator's parameters by name, or an empty dict for classes and other objects."""
    get_params = getattr(estimator, "get_params", None)
    if not callable(get_params) or isinstance(estimator, type):
        return {}
    return get_params(deep=deep)
