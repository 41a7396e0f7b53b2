"""Candidates of a search: settings of a learner and of the pipeline steps before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from skpublicdp.base_learner import check_base
from skpublicdp.preprocessing import PublicFit
from skpublicdp.privacy.budget import has_seed
from skpublicdp.rules.semi_private import SemiPrivateClassifier

SEARCH_PARAMETERS = ("epsilon", "delta", "budget", "random_state", "classes", "max_rows_per_group")
"""Learner parameters that are set by the search itself."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting from the parameter grid, with its unfitted learner and pipeline."""

    params: dict[str, Any]  # parameter names and values, as given in the grid
    # unfitted pipeline whose last step is the learner, or None if there is only a learner
    pipeline: Pipeline | None
    learner: Any  # the unfitted private classifier
    # Settings of the steps before the learner, used as a hashable key. Candidates with equal keys
    # have identical features, which are computed only once.
    features: tuple[Any, ...]

    @property
    def steps(self) -> list[tuple[str, Any]]:
        """The steps before the learner, excluding passthrough steps."""
        steps = [] if self.pipeline is None else self.pipeline.steps[:-1]
        return [(name, step) for name, step in steps if is_active_step(step)]

    @property
    def is_semi_private(self) -> bool:
        """Whether the learner is a `SemiPrivateClassifier`, so one draw can choose its setting."""
        return isinstance(self.learner, SemiPrivateClassifier)

    def with_draw_settings(self, **settings: Any) -> Candidate:
        """Return the candidate, with parameters replaced if one draw can choose its setting."""
        if not self.is_semi_private:
            return self
        return replace(self, learner=clone(self.learner).set_params(**settings))

    def assemble(self, steps: list[tuple[str, Any]], learner: Any) -> Any:
        """Return a pipeline of fitted steps and learner, or the learner if there are no steps."""
        if self.pipeline is None:
            return learner
        fitted_steps = dict(steps)
        names = [name for name, _ in self.pipeline.steps[:-1]]
        steps_and_learner: list[tuple[str, Any]] = [
            (name, fitted_steps.get(name, "passthrough")) for name in names
        ]
        steps_and_learner.append((self.pipeline.steps[-1][0], learner))
        return clone(self.pipeline).set_params(steps=steps_and_learner)


class FittedCandidate(NamedTuple):
    """The chosen candidate, together with its fitted learner."""

    position: int  # index of the candidate in the search
    learner: Any  # the fitted learner, without a receipt


def is_active_step(step: Any) -> bool:
    """Return whether a pipeline step is something other than None and "passthrough"."""
    return step is not None and not (isinstance(step, str) and step == "passthrough")


def fits_no_private_rows(step: Any) -> bool:
    """Return whether a step is fitted only to public rows, or does not need to be fitted."""
    return isinstance(step, PublicFit) or not get_tags(step).requires_fit


def is_scikit_learn_class(step: Any) -> bool:
    """Return whether the class of a step is defined in scikit-learn."""
    return type(step).__module__.split(".")[0] == "sklearn"


def may_couple_rows(step: Any) -> bool:
    """Return whether the result of a stateless step for a row may depend on other rows.

    Among scikit-learn's classes, this is only possible for a `FunctionTransformer` with a
    user-defined function. A unary numpy ufunc processes each value separately.
    """
    if isinstance(step, FunctionTransformer):
        is_elementwise = (
            isinstance(step.func, np.ufunc) and step.func.nin == 1 and step.func.signature is None
        )
        return step.func is not None and (not is_elementwise or bool(step.kw_args))
    is_third_party = not is_scikit_learn_class(step) and not type(step).__module__.startswith(
        "skpublicdp."
    )
    return is_third_party and hasattr(step, "__sklearn_tags__") and not get_tags(step).requires_fit


def has_row_function(step: Any) -> bool:
    """Return whether a step, or a nested transformer, may compute a row from other rows."""
    parameters = step.get_params().values() if hasattr(step, "get_params") else ()
    transformers = [value for value in (step, *parameters) if hasattr(value, "transform")]
    return any(map(may_couple_rows, transformers))


def make_candidates(estimator: Any, param_grid: Any) -> list[Candidate]:
    """Return the candidates of a grid."""
    candidates = [_make_candidate(estimator, params) for params in ParameterGrid(param_grid)]
    if not candidates:
        raise ValueError(
            "param_grid must contain at least one combination of parameters; got none."
        )
    return candidates


def _make_candidate(estimator: Any, params: dict[str, Any]) -> Candidate:
    """Return the candidate for a single setting, or raise ValueError if it is not allowed."""
    for name in params:
        if name.rsplit("__", 1)[-1] in SEARCH_PARAMETERS:
            raise ValueError(
                f"param_grid must not contain {name!r}, because this parameter is the same for all "
                "candidates. Set it in the search."
            )
    values = {name: clone(value, safe=False) for name, value in params.items()}
    estimator_with_params = clone(estimator).set_params(**values)
    pipeline = estimator_with_params if isinstance(estimator_with_params, Pipeline) else None
    learner = estimator_with_params if pipeline is None else pipeline.steps[-1][1]
    learner_name = None if pipeline is None else pipeline.steps[-1][0]
    for name, step in [] if pipeline is None else pipeline.steps[:-1]:
        if is_active_step(step) and not fits_no_private_rows(step):
            raise ValueError(
                "Every step before the learner must be fitted on public rows only, but step "
                f"{name!r} ({type(step).__name__}) is not. Wrap it in PublicFit."
            )
    _check_learner(learner)
    # all settings of a grid share the same objects, so `id` identifies values without comparing
    # them
    features = tuple(
        (name, id(value))
        for name, value in sorted(params.items(), key=lambda item: item[0])
        if pipeline is not None and name.split("__", 1)[0] != learner_name
    )
    return Candidate(params, pipeline, learner, features)


def _check_learner(learner: Any) -> None:
    """Raise an error unless a learner is private and leaves the search's parameters unset."""
    check_base(learner)
    seeded_names = [
        name
        for name, value in learner.get_params().items()
        if name.rsplit("__", 1)[-1] == "random_state" and value is not None
    ]
    if not seeded_names and has_seed(learner):
        seeded_names = ["random_state"]  # of a nested learner in a list
    if seeded_names:
        raise ValueError(
            f"estimator must have {seeded_names[0]}=None, but {type(learner).__name__} has a seed, "
            "and candidates with the same seed would have the same noise. Set random_state of the "
            "search instead."
        )
    if learner.get_params(deep=False).get("max_rows_per_group") is not None:
        raise ValueError(
            f"estimator must have max_rows_per_group=None, but {type(learner).__name__} sets it. "
            "Set it in the search, which then protects each person across all candidates."
        )
