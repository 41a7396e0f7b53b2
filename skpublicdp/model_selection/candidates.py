"""What a search chooses from: settings of a learner, and of the steps before it."""

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
from skpublicdp.ledger import has_seed
from skpublicdp.preprocessing import PublicFit
from skpublicdp.semi_private import SemiPrivateClassifier

SEARCH = ("epsilon", "delta", "budget", "random_state", "classes", "max_rows_per_group")
"""Parameters of a learner that are the search's to set."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A setting to try.

    Attributes
    ----------
    params : dict
        As in the grid.
    pipeline : Pipeline or None
        What the learner is the last step of.
    learner : classifier
        Not fitted.
    features : tuple
        Names the steps before the learner: candidates that agree in it have equal ones.
    """

    params: dict[str, Any]
    pipeline: Pipeline | None
    learner: Any
    features: tuple[Any, ...]

    @property
    def steps(self) -> list[tuple[str, Any]]:
        """The steps before the learner that do something."""
        steps = [] if self.pipeline is None else self.pipeline.steps[:-1]
        return [(name, step) for name, step in steps if does_something(step)]

    @property
    def in_family(self) -> bool:
        """Whether one draw can choose between it and others of its kind."""
        return isinstance(self.learner, SemiPrivateClassifier)

    def with_learner(self, **settings: Any) -> Candidate:
        """Return it with a learner of other settings."""
        return replace(self, learner=clone(self.learner).set_params(**settings))

    def assembled(self, steps: list[tuple[str, Any]], learner: Any) -> Any:
        """Return the fitted whole from its fitted parts."""
        if self.pipeline is None:
            return learner
        fitted = dict(steps)
        names = [name for name, _ in self.pipeline.steps[:-1]]
        whole: list[tuple[str, Any]] = [(name, fitted.get(name, "passthrough")) for name in names]
        whole.append((self.pipeline.steps[-1][0], learner))
        return clone(self.pipeline).set_params(steps=whole)


class Fit(NamedTuple):
    """What came of a candidate.

    Attributes
    ----------
    position : int
        Its place in the search.
    learner : classifier
        Fitted, but for its receipt.
    """

    position: int
    learner: Any


def does_something(step: Any) -> bool:
    """Tell whether a step of a pipeline is not left out."""
    return step is not None and not (isinstance(step, str) and step == "passthrough")


def sees_no_rows(step: Any) -> bool:
    """Tell whether fitting a step looks at no private row."""
    return isinstance(step, PublicFit) or not get_tags(step).requires_fit


def in_scikit_learn(step: Any) -> bool:
    """Indicate whether the class of a step is scikit-learn's own."""
    return type(step).__module__.split(".")[0] == "sklearn"


def may_couple_rows(step: Any) -> bool:
    """Indicate whether a step that is not fitted may compute a row from several rows.

    Of scikit-learn's own, only a `FunctionTransformer` may. A numpy function of single numbers
    cannot.
    """
    if isinstance(step, FunctionTransformer):
        single = (
            isinstance(step.func, np.ufunc) and step.func.nin == 1 and step.func.signature is None
        )
        return step.func is not None and (not single or bool(step.kw_args))
    foreign = not in_scikit_learn(step) and not type(step).__module__.startswith("skpublicdp.")
    return foreign and hasattr(step, "__sklearn_tags__") and not get_tags(step).requires_fit


def has_function(step: Any) -> bool:
    """Indicate whether a step, or a part of it, may compute a row from several rows."""
    parts = step.get_params().values() if hasattr(step, "get_params") else ()
    return any(hasattr(part, "transform") and may_couple_rows(part) for part in (step, *parts))


def list_candidates(estimator: Any, param_grid: Any) -> list[Candidate]:
    """Return the candidates of a grid.

    Raises
    ------
    ValueError
        If the grid is empty or sets what is the search's to set, or if a candidate has a step that
        would be fitted to private rows, or a learner that cannot be told its budget.
    """
    candidates = [_candidate(estimator, params) for params in ParameterGrid(param_grid)]
    if not candidates:
        raise ValueError("param_grid must hold at least one setting; got none.")
    return candidates


def _candidate(estimator: Any, params: dict[str, Any]) -> Candidate:
    for name in params:
        if name.rsplit("__", 1)[-1] in SEARCH:
            raise ValueError(
                f"param_grid must not hold {name!r}: all candidates share what the search has; "
                "set it there."
            )
    values = {name: clone(value, safe=False) for name, value in params.items()}
    whole = clone(estimator).set_params(**values)
    pipeline = whole if isinstance(whole, Pipeline) else None
    learner = whole if pipeline is None else pipeline.steps[-1][1]
    last = None if pipeline is None else pipeline.steps[-1][0]
    for name, step in [] if pipeline is None else pipeline.steps[:-1]:
        if does_something(step) and not sees_no_rows(step):
            raise ValueError(
                f"every step before the learner must be fitted on public rows only, and step "
                f"{name!r} is a {type(step).__name__}; wrap it in PublicFit."
            )
    check_base(learner)
    seeded = [
        name
        for name, value in learner.get_params().items()
        if name.rsplit("__", 1)[-1] == "random_state" and value is not None
    ]
    if not seeded and has_seed(learner):
        seeded = ["random_state"]  # of a learner in a list
    if seeded:
        raise ValueError(
            f"estimator must have {seeded[0]}=None, and {type(learner).__name__} has its own: "
            "fits with one seed repeat their noise; the search draws, give random_state to that."
        )
    if learner.get_params(deep=False).get("max_rows_per_group") is not None:
        raise ValueError(
            f"estimator must have max_rows_per_group=None, and {type(learner).__name__} has one of "
            "its own: the search protects persons for all candidates, give it to that."
        )
    # the values of a grid are the same objects in all of its settings
    features = tuple(
        (name, id(value))
        for name, value in sorted(params.items(), key=lambda item: item[0])
        if pipeline is not None and name.split("__", 1)[0] != last
    )
    return Candidate(params, pipeline, learner, features)
