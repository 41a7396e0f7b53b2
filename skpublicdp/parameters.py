"""What estimators share about their parameters: which are allowed, and the check of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from numbers import Integral, Rational, Real
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils._param_validation import Interval, validate_parameter_constraints

from skpublicdp.budget import PrivacyBudget
from skpublicdp.threads import one_blas_thread

Seed = int | np.random.RandomState | np.random.Generator | None
"""What `random_state` may be."""

Budget = PrivacyBudget | None
"""What `budget` may be."""

_Fit = TypeVar("_Fit", bound=Callable[..., Any])

EPSILON = [Interval(Real, 0, 1 << 20, closed="right")]
DELTA = [Interval(Real, 0, 1, closed="left")]
PROBABILITY = [Interval(Real, 0, 1, closed="neither")]

N_JOBS = [
    Interval(Integral, 1, None, closed="left"),
    Interval(Integral, None, -1, closed="right"),
    None,
]

FIT: dict[str, Any] = {
    "epsilon": EPSILON,
    "random_state": ["random_state", np.random.Generator],
    "budget": [PrivacyBudget, None],
}
"""Parameters of every estimator that spends."""

ROWS: dict[str, Any] = {"max_rows_per_group": [Interval(Integral, 1, 1 << 20, closed="both"), None]}
"""Parameters of those that protect persons with several rows."""


def check_parameters(estimator: Any) -> None:
    """Check the parameters of an estimator by its `_parameter_constraints`."""
    given = {
        # scikit-learn asks numpy whether a number is NaN, and numpy does not know fractions
        name: float(value)
        if isinstance(value, Rational) and not isinstance(value, Integral)
        else value
        for name, value in estimator.get_params(deep=False).items()
    }
    validate_parameter_constraints(
        estimator._parameter_constraints, given, caller_name=type(estimator).__name__
    )


def all_or_nothing(fit: _Fit) -> _Fit:
    """Make a method that fits leave its object as it was where it fails; BLAS has one thread."""

    @wraps(fit)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            with one_blas_thread:
                return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(_Fit, method)
