"""Any private classifier as a part of another: its share of the budget, and its silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skpublicdp.accounting import Approximate, Event, PrivacyReceipt, Pure, basic_price
from skpublicdp.accounting.decimals import written_below
from skpublicdp.data.containers import height
from skpublicdp.data.reading import check_rows
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.ledger import has_seed

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _if_inside_has(method: str) -> Callable[[_Method], _Method]:
    def check(self: Delegates) -> bool:
        return hasattr(self._inside(), method)

    decorator: Callable[[_Method], _Method] = available_if(check)
    return decorator


class Delegates:
    """Predictions of a meta-learner that are those of a fitted estimator inside."""

    protects_all_rows = True
    """It may itself be a base learner, of another one, if what is inside may."""

    def _inside(self) -> Any:
        """Return the fitted estimator, or what is going to be fitted."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels with the fitted estimator inside.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            A label of `classes_` for each row.
        """
        return self._delegate("predict", X)

    @_if_inside_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities with the fitted estimator inside.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n, n_classes)
            One column for each label of `classes_`.
        """
        return self._delegate("predict_proba", X)

    @_if_inside_has("decision_function")
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the decision function of the fitted estimator inside.

        Parameters
        ----------
        X : array-like, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,) or (n, n_classes)
            Its values.
        """
        return self._delegate("decision_function", X)

    def _delegate(self, method: str, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        found: NDArray[Any] = getattr(self._inside(), method)(X)
        return found


class DelegatesToBase(Delegates):
    """Predictions of a meta-learner that are those of its fitted base learner, `estimator_`."""

    estimator_: Any
    n_features_in_: int

    def _base(self) -> Any:
        """Return the base learner that the user has set, or the default."""
        raise NotImplementedError

    def _inside(self) -> Any:
        return getattr(self, "estimator_", None) or self._base()

    def _delegate(self, method: str, X: Any) -> NDArray[Any]:
        check_is_fitted(self, "estimator_")
        return super()._delegate(method, check_rows(self, X, reset=False))


def spends(epsilon: Fraction, delta: Fraction) -> Event:
    """Return what a mechanism costs of which (ε, δ) is known."""
    return Approximate(epsilon, delta) if delta else Pure(epsilon)


def n_rows(X: Any) -> int:
    """Return how many rows a container has, which is public, or 0 if it has no rows at all."""
    return height(X)


def as_parameters(event: Event) -> tuple[float, float]:
    """Return (ε, δ) of a mechanism as floats that are read as no more."""
    epsilon, delta = (max(0.0, written_below(Fraction(price))) for price in basic_price(event))
    return epsilon, delta


def check_base(estimator: BaseEstimator) -> None:
    """Refuse a base learner that cannot be told its budget, or may take private rows for public.

    Parameters
    ----------
    estimator : classifier
        Anything with scikit-learn's parameters. The base learner of a base learner is checked, too.

    Raises
    ------
    ValueError
        If it has no parameter `epsilon` or a `budget` of its own, or does not declare
        ``protects_all_rows = True``.
    """
    name, known = type(estimator).__name__, _parameters(estimator)
    if "epsilon" not in known:
        raise ValueError(
            "estimator must be a differentially private classifier with a parameter 'epsilon', "
            f"which is set to its share of the budget; {name} has none."
        )
    if known.get("budget") is not None:
        raise ValueError(
            f"estimator must have budget=None, and {name} has a budget of its own: the learner "
            "around it pays for all, give the budget to that one."
        )
    declared = getattr(estimator, "protects_all_rows", None)
    if declared is None:
        raise ValueError(
            "estimator must protect all rows that its fit gets as X and y, whatever they hold, and "
            f"{name} does not say whether it does; if so, and only then, declare it by "
            "protects_all_rows = True in the class or a subclass."
        )
    if declared is not True:
        raise ValueError(
            f"estimator must protect all rows that its fit gets as X and y, and {name} takes some "
            "of them as public; use another one."
        )
    if isinstance(estimator, DelegatesToBase):
        check_base(estimator._base())


def check_classes(estimator: BaseEstimator, classes: NDArray[Any] | None) -> None:
    """Refuse a base learner that does not know a label: it would fail where that is drawn."""
    own = _parameters(estimator).get("classes")
    if own is None or classes is None:
        return
    if not set(classes.tolist()) <= set(np.asarray(own).tolist()):
        raise ValueError(
            "estimator must know every label; its parameter classes lists fewer than there are."
        )


def is_seeded(base: Any) -> bool:
    """Tell whether a fitted base learner is repeatable, as far as it lets anybody know."""
    own = getattr(base, "privacy_", None)
    if isinstance(own, PrivacyReceipt):
        return not own.secure_randomness
    return has_seed(base)


def with_all_labels(
    estimator: BaseEstimator,
    X: NDArray[np.float64],
    y: NDArray[Any],
    classes: NDArray[Any],
    centre: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Add a row for each label, where a base learner cannot be told the labels otherwise.

    Else it would tell by what it knows which labels its rows have. The rows are at a point that no
    private row decides.
    """
    if "classes" in _parameters(estimator):
        return X, y
    return np.vstack([X, np.tile(centre, (len(classes), 1))]), np.append(y, classes)


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
        same shape, made without looking at them, is shown. Also if its receipt is not one for all
        these rows at this budget.

    Notes
    -----
    Of its warnings only `NoPublicDataWarning` is passed on: others may tell of rows or labels.
    """
    check_base(estimator)
    check_classes(estimator, classes)
    known = _parameters(estimator)
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if random_state is not None:
        settings["random_state"] = random_state
    if classes is not None and known.get("classes", classes) is None:
        settings["classes"] = classes
    settings = {name: value for name, value in settings.items() if name in known}
    wanted = {
        name: value
        for name, value in fit_params.items()
        if value is not None and has_fit_parameter(estimator, name)
    }
    fitted, _ = _attempt(clone(estimator).set_params(**settings), X, y, wanted)
    if fitted is not None:
        _check_receipt(fitted, epsilon, delta, len(X), len(wanted.get("X_public", ())))
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


def _check_receipt(base: Any, epsilon: float, delta: float, n_private: int, n_public: int) -> None:
    """Refuse a base learner that protected fewer rows than it was given, or spent more."""
    own = getattr(base, "privacy_", None)
    if not isinstance(own, PrivacyReceipt):
        return
    name = type(base).__name__
    if own.n_public > n_public or own.n_private < n_private:
        # not how many: labels may decide that
        raise ValueError(
            f"estimator must protect all rows that its fit gets as X and y, and the receipt of "
            f"{name} counts some of them as public or not at all; use another one."
        )
    if own.epsilon > epsilon or own.delta > delta:
        raise ValueError(
            f"estimator must not spend more than its share, and the receipt of {name} says that it "
            "did: what is inside it must have no delta of its own."
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
            warn(str(warning.message), NoPublicDataWarning)
            break
    return fitted, reason


def _parameters(estimator: BaseEstimator) -> dict[str, Any]:
    get_params = getattr(estimator, "get_params", None)
    if not callable(get_params) or isinstance(estimator, type):
        return {}
    known: dict[str, Any] = get_params(deep=False)
    return known
