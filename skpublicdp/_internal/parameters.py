"""Parameter constraints shared by estimators, and functions that validate them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from numbers import Integral, Rational, Real
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils._param_validation import Interval, validate_parameter_constraints

from skpublicdp._internal.progress import reported_fit, with_callbacks
from skpublicdp._internal.threads import one_blas_thread
from skpublicdp._internal.versions import VERSION_KEY
from skpublicdp.accounting.filters import MAX_FIT_EPSILON
from skpublicdp.privacy.budget import PrivacyBudget

Seed = int | np.random.RandomState | np.random.Generator | None
"""Types accepted for the parameter `random_state`."""

OptionalBudget = PrivacyBudget | None
"""Types accepted for the parameter `budget`."""

_Fit = TypeVar("_Fit", bound=Callable[..., Any])

EPSILON = [Interval(Real, 0, MAX_FIT_EPSILON, closed="right")]
"""Constraint of ε."""

DELTA = [Interval(Real, 0, 1, closed="left")]
"""Constraint of δ."""

PROBABILITY = [Interval(Real, 0, 1, closed="neither")]
"""Constraint for a probability strictly between 0 and 1."""

N_JOBS = [
    Interval(Integral, 1, None, closed="left"),
    Interval(Integral, None, -1, closed="right"),
    None,
]
"""Constraints for `n_jobs`, which has the same meaning as in joblib."""

SPENDING_PARAMETERS: dict[str, Any] = {
    "epsilon": EPSILON,
    "random_state": ["random_state", np.random.Generator],
    "budget": [PrivacyBudget, None],
}
"""Parameter constraints shared by all estimators that spend privacy budget."""

GROUP_PARAMETERS: dict[str, Any] = {
    "max_rows_per_group": [Interval(Integral, 1, 1 << 20, closed="both"), None]
}
"""Parameter constraints of estimators that can protect persons with several rows."""


def check_parameters(estimator: Any) -> None:
    """Validate the parameters of an estimator against its `_parameter_constraints`."""
    constraints, parameters = estimator._parameter_constraints, estimator.get_params(deep=False)
    check_values(constraints, parameters, caller=type(estimator).__name__)


def check_values(constraints: dict[str, Any], values: dict[str, Any], *, caller: str) -> None:
    """Validate values against scikit-learn's constraints, and name `caller` in error messages.

    Fractions are converted to floats for this check, since scikit-learn calls numpy.isnan, which
    does not accept fractions.
    """
    values = {
        name: float(value)
        if isinstance(value, Rational) and not isinstance(value, Integral)
        else value
        for name, value in values.items()
    }
    validate_parameter_constraints(constraints, values, caller_name=caller)


def all_or_nothing(fit: _Fit) -> _Fit:
    """Decorate a `fit` method so that an error restores all attributes of the estimator.

    The decorator also limits BLAS to a single thread during the fit, and reports its progress.
    """

    @wraps(fit)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with reported_fit(self):
            attributes = dict(vars(self))
            try:
                vars(self).pop(VERSION_KEY, None)  # of an earlier fit
                with one_blas_thread:
                    return fit(self, *args, **kwargs)
            except BaseException:
                vars(self).clear()
                vars(self).update(attributes)
                raise

    return cast(_Fit, with_callbacks(method))


def check_level(level: Any) -> float:
    """Return a confidence level as a float, after checking that it lies in (0, 1)."""
    if not (isinstance(level, Real) and 0 < float(level) < 1):
        raise ValueError(f"level must be in (0, 1); got {level!r}.")
    return float(level)
