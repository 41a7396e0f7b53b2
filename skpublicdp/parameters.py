"""What estimators share about their parameters: which are allowed, and the check of them."""

from __future__ import annotations

from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, validate_parameter_constraints

from skpublicdp.budget import PrivacyBudget

EPSILON = [Interval(Real, 0, 1 << 20, closed="right")]
DELTA = [Interval(Real, 0, 1, closed="left")]
PROBABILITY = [Interval(Real, 0, 1, closed="neither")]

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
