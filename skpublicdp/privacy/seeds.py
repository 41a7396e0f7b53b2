"""Detection of seeded fits, and the messages that budgets issue about such fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SEEDED_FIT = (
    "{} is charged to a budget, but its noise comes from a random_state, so anyone who knows the "
    "seed can remove the noise. The random_state belongs to this estimator or to a nested one, or "
    "was set by an ensemble such as BaggingClassifier. Set random_state=None and avoid such "
    "ensembles; for tests without private data, use PrivacyBudget(..., for_tests=True)."
)
"""Warning about a seeded fit that is charged to a budget; {} is replaced by the name of the fit."""

SEEDED_TWICE = (
    "A budget admits only one fit with a random_state, and this budget has already admitted one. "
    "Two fits with the same seed share their noise, which cancels in the difference of their "
    "results. Set random_state=None, also in nested estimators, and avoid ensembles that set "
    "seeds, such as BaggingClassifier; for tests without private data, use PrivacyBudget(..., "
    "for_tests=True)."
)
"""Error message for a second seeded fit that is charged to a budget."""


def has_seed(parameter: Any) -> bool:
    """Indicate whether a parameter is or contains a private estimator with a `random_state`.

    An estimator counts as private if it has a parameter `epsilon`. The search covers lists, tuples,
    dicts and the parameters of estimators.

    Seeds with other names, and seeds that are not parameters, cannot be detected.
    """
    if isinstance(parameter, Mapping):
        return any(map(has_seed, parameter.values()))
    if isinstance(parameter, list | tuple):
        return any(map(has_seed, parameter))
    if not hasattr(parameter, "get_params") or isinstance(parameter, type):
        return False
    parameters = parameter.get_params(deep=False)
    seeded = "epsilon" in parameters and parameters.get("random_state") is not None
    return seeded or any(map(has_seed, parameters.values()))
