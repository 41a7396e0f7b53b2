"""Any private classifier as a part of another: its share of the budget, and its silence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.public import check_rows, warn_if_sliced


def _base_has(method: str) -> Any:
    """Tell whether the base learner has a method, for `available_if`."""

    def check(self: Any) -> bool:
        return hasattr(getattr(self, "estimator_", None) or self._base(), method)

    return check


class DelegatesToBase:
    """Predictions of a meta-learner that are those of its fitted base learner, `estimator_`."""

    estimator_: Any
    n_features_in_: int

    def predict(self, X: ArrayLike) -> Any:
        """Predict labels with the base learner.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            A label of `classes_` for each row.
        """
        return self._delegate("predict", X)

    @available_if(_base_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Any:
        """Predict probabilities with the base learner.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n, n_classes)
            One column for each label of `classes_`.
        """
        return self._delegate("predict_proba", X)

    @available_if(_base_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> Any:
        """Return the base learner's decision function.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,) or (n, n_classes)
            Its values.
        """
        return self._delegate("decision_function", X)

    def _delegate(self, method: str, X: ArrayLike) -> Any:
        check_is_fitted(self, "estimator_")
        return getattr(self.estimator_, method)(check_rows(self, X, reset=False))

    def _public_rows(self, X_public: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
        """Check the public rows that the base learner gets, of `n` private ones."""
        if X_public is None or np.shape(X_public) == (0, self.n_features_in_):
            return None
        try:
            public = check_rows(self, X_public, reset=False)
        except ValueError as error:
            raise ValueError(f"X_public is not usable: {error}") from None
        # this method, fit and scikit-learn's wrapper of it stand before the caller
        warn_if_sliced(n, len(public), stacklevel=5)
        return public


def check_base(estimator: BaseEstimator) -> None:
    """Refuse a base learner that cannot be told its budget.

    Parameters
    ----------
    estimator : classifier
        Anything with scikit-learn's parameters.

    Raises
    ------
    ValueError
        If it has no parameter `epsilon`.
    """
    if "epsilon" not in _parameters(estimator):
        raise ValueError(
            "estimator must be a differentially private classifier with a parameter 'epsilon', "
            f"which is set to its share of the budget; {type(estimator).__name__} has none."
        )


def fit_base(
    estimator: BaseEstimator,
    epsilon: float,
    X: NDArray[np.float64],
    y: NDArray[Any],
    *,
    delta: float = 0,
    random_state: int | None = None,
    classes: NDArray[Any] | None = None,
    **fit_params: Any,
) -> Any:
    """Fit a clone of a base learner and let nothing out of it but the fitted clone.

    Parameters
    ----------
    estimator : classifier
        Base learner; it is left as it is.
    epsilon, delta : float
        Its budget. `delta` is set where there is such a parameter.
    X : ndarray, shape (n, n_features)
        Rows.
    y : ndarray, shape (n,)
        Their labels.
    random_state : int, optional
        Set where there is such a parameter; ``None`` leaves it as the user has set it.
    classes : ndarray, optional
        All possible labels, set where there is such a parameter that is still ``None``.
    **fit_params
        Further arguments; those that are ``None`` or that `fit` does not take are left out.

    Returns
    -------
    classifier
        The fitted clone.

    Raises
    ------
    ValueError
        If it cannot be fitted. What it says of the rows is withheld; what it says of others of the
        same shape, made without looking at them, is shown.

    Notes
    -----
    Of its warnings only `NoPublicDataWarning` is passed on: others may tell of rows or labels.
    """
    check_base(estimator)
    known = _parameters(estimator)
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if random_state is not None:
        settings["random_state"] = random_state
    if classes is not None and known.get("classes", classes) is None:
        settings["classes"] = classes
    elif classes is not None and "classes" in known:
        _check_classes(known["classes"], classes)
    settings = {name: value for name, value in settings.items() if name in known}
    wanted = {
        name: value
        for name, value in fit_params.items()
        if value is not None and has_fit_parameter(estimator, name)
    }
    fitted, _ = _attempt(clone(estimator).set_params(**settings), X, y, wanted)
    if fitted is not None:
        return fitted
    # the same fit to rows that nobody gave: what it objects to there is not a private value
    stand_in = np.random.default_rng(0).normal(size=X.shape)
    labels = np.resize([0, 1] if classes is None else classes, len(X))
    _, reason = _attempt(clone(estimator).set_params(**settings), stand_in, labels, wanted)
    told = f": {reason}" if reason else ", and what it says of them may be private."
    raise ValueError(f"{type(estimator).__name__} could not be fitted to its rows{told}")


def fit_silently(estimator: Any, X: NDArray[np.float64]) -> None:
    """Fit something to private rows and let nothing out of it but what it then holds.

    Raises
    ------
    ValueError
        If it cannot be fitted; what it says of the rows is withheld.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, _ = _attempt(estimator, X, None, {})
    if fitted is None:
        raise ValueError(
            f"{type(estimator).__name__} could not be fitted to its rows, and what it says of them "
            "may be private."
        )


def _check_classes(own: Any, classes: NDArray[Any]) -> None:
    """Refuse a base learner that does not know a label: it would fail where that is drawn."""
    if not set(classes.tolist()) <= set(np.asarray(own).tolist()):
        raise ValueError(
            "estimator must know every label; its parameter classes lists fewer than there are."
        )


def _attempt(
    estimator: Any, X: NDArray[np.float64], y: NDArray[Any] | None, fit_params: dict[str, Any]
) -> tuple[Any, str]:
    """Return (fitted, "") or (None, why not)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            given = (X,) if y is None else (X, y)
            estimator.fit(*given, **fit_params)
            fitted, reason = estimator, ""
        except Exception as error:
            fitted, reason = None, str(error)
    for warning in caught:
        if issubclass(warning.category, NoPublicDataWarning):
            # this function, fit_base, fit and scikit-learn's wrapper of it stand before the caller
            warnings.warn(str(warning.message), NoPublicDataWarning, stacklevel=5)
            break
    return fitted, reason


def _parameters(estimator: BaseEstimator) -> dict[str, Any]:
    get_params = getattr(estimator, "get_params", None)
    if not callable(get_params) or isinstance(estimator, type):
        return {}
    known: dict[str, Any] = get_params(deep=False)
    return known
