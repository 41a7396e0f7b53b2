"""Static checks of pipelines: unprotected steps, repeated fits, seeds and coupled rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any, NamedTuple

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from skpublicdp.model_selection.candidates import (
    fits_no_private_rows,
    is_active_step,
    is_scikit_learn_class,
    may_couple_rows,
)
from skpublicdp.model_selection.wrappers import (
    UNKNOWN_N_FITS,
    fit_of_its_own,
    fits_nothing,
    folds_by_labels,
    n_fits,
    sets_seeds,
    was_fitted_before,
)
from skpublicdp.preprocessing import PublicFit

UNDECLARED_PROTECTION = (
    "these declare no protection, and are taken to have the one they are paid for"
)
"""Assumption in the receipt of a search."""

ROWWISE_STEPS = "what these steps make of a row depends on that row alone"
"""Assumption about steps with a user-defined function, in the receipt of a search."""


class Finding(NamedTuple):
    """A privacy problem of a pipeline step that no receipt covers.

    Attributes
    ----------
    step : str
        Name of the step, after the names of the steps that contain it, with dots.
    problem : str
        What is wrong.
    remedy : str
        What to do.
    """

    step: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.step}: {self.problem}; {self.remedy}."


def check_pipeline(pipeline: Any) -> list[Finding]:
    """List the steps that would be fitted to private rows without protection, or repeat a row.

    Nothing is fitted: the findings depend on the types and parameters of the steps alone.
    Meta-estimators, such as `StackingClassifier`, are searched for nested estimators. The list
    also has models and seeds of meta-estimators themselves, functions that may compute a row from
    other rows, steps that were fitted before, `memory`, which writes private rows to disk, and
    pipelines that transform `X`, but not the `X_public` given to `fit`.

    Parameters
    ----------
    pipeline : Pipeline or estimator
        The estimator to check, fitted or not.

    Returns
    -------
    list of Finding
        Step, problem and remedy of each finding. Empty if each step declares protection.

    See Also
    --------
    skpublicdp.PublicFit : Fits a step on the public rows only.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpublicdp import PublicFit, SemiPrivateClassifier
    >>> from skpublicdp.model_selection import check_pipeline
    >>> public = {"transform_input": ["X_public"]}
    >>> steps = PublicFit(StandardScaler()), SemiPrivateClassifier()
    >>> check_pipeline(make_pipeline(*steps, **public))
    []
    >>> steps = StandardScaler(), SemiPrivateClassifier()
    >>> for finding in check_pipeline(make_pipeline(*steps, **public)):
    ...     print(finding)
    standardscaler: StandardScaler is fitted to private rows; wrap it in PublicFit.
    """
    raw = _raw_public_rows(pipeline) if isinstance(pipeline, Pipeline) else []
    return [*(issue.finding for issue in _issues(pipeline, _root(pipeline))), *raw]


def unprotected_line(estimators: Iterable[Any], meaning: str) -> tuple[str, ...]:
    """Return the receipt line that names the unprotected steps, or no line."""
    return _line(estimators, meaning, "unprotected")


def coupling_line(estimators: Iterable[Any]) -> tuple[str, ...]:
    """Return the receipt line that names the steps that may couple rows, or no line."""
    return _line(estimators, ROWWISE_STEPS, "coupling")


def _line(estimators: Iterable[Any], meaning: str, kind: str) -> tuple[str, ...]:
    steps = [
        issue.finding.step
        for estimator in estimators
        for issue in _issues(estimator, _root(estimator))
        if issue.kind == kind
    ]
    return (f"{meaning}: {', '.join(dict.fromkeys(steps))}",) if steps else ()


def _root(estimator: Any) -> str:
    return "" if isinstance(estimator, Pipeline) else type(estimator).__name__


def _raw_public_rows(pipeline: Pipeline) -> list[Finding]:
    """Report an `X_public` that the pipeline would pass on untransformed."""
    *earlier_steps, (name, learner) = pipeline.steps
    transforms = any(is_active_step(step) for _, step in earlier_steps)
    routes_public_rows = "X_public" in (getattr(pipeline, "transform_input", None) or ())
    takes_public_rows = is_active_step(learner) and "X_public" in signature(learner.fit).parameters
    if routes_public_rows or not takes_public_rows or not transforms:
        return []
    return [
        Finding(
            name,
            f"the steps before {type(learner).__name__} transform X and not an X_public given to "
            "fit",
            'pass transform_input=["X_public"] to Pipeline, or mark public rows by is_public',
        )
    ]


class _Issue(NamedTuple):
    """A finding with its kind.

    Attributes
    ----------
    kind : {"unprotected", "seed", "cost", "coupling", "fitted before", "memory"}
        The first two are not private at any ε.
    finding : Finding
        The finding.
    """

    kind: str
    finding: Finding


def _issues(step: Any, name: str) -> Iterator[_Issue]:
    """Yield the issues of a step and of its parts."""
    if not is_active_step(step) or isinstance(step, str):  # "drop" and "passthrough"
        return
    if isinstance(step, Pipeline | FeatureUnion | ColumnTransformer):
        if isinstance(step, Pipeline):
            yield from _memory(step, name)
        for part_name, part in _steps_of(step):
            yield from _issues(part, _path(name, part_name))
    elif hasattr(step, "fit_resample"):
        problem = (
            f"{type(step).__name__} may repeat a row k times or make new rows from it, and then "
            "what follows costs k·ε"
        )
        remedy = "leave it out, or resample public rows only, before they are given to fit"
        yield _Issue("cost", Finding(name, problem, remedy))
    elif may_couple_rows(step):
        yield _coupling(step, name)
    elif _protected(step):
        yield from _issues_of_protected(step, name)
    elif any(map(_is_private, _estimators(step))):
        yield from _issues_of_wrapper(step, name)
    elif fits_nothing(step, _parameters(step)):
        yield _fitted_before(step, name)
    else:
        yield _leaf(step, name)


def _steps_of(step: Any) -> list[tuple[str, Any]]:
    """Return the named steps of a pipeline, union or column transformer, fitted or not."""
    if isinstance(step, Pipeline):
        return list(step.steps)
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    return [(name, part) for name, part, _ in step.transformers] + [("remainder", step.remainder)]


def _parts_of(wrapper: Any) -> list[tuple[str, Any]]:
    """Return the named estimators among the parameters of a meta-estimator."""
    parts = []
    for name, value in _parameters(wrapper).items():
        if _is_estimator(value):
            parts.append((name, value))
        for index, entry in enumerate(value if isinstance(value, list | tuple) else ()):
            fields = entry if isinstance(entry, tuple) else (entry,)
            label = fields[0] if isinstance(fields[0], str) else f"{name}[{index}]"
            parts.extend((label, field) for field in fields if _is_estimator(field))
    return parts


def _estimators(step: Any) -> list[Any]:
    """Return the estimators that a step contains."""
    if isinstance(step, Pipeline | FeatureUnion | ColumnTransformer):
        return [part for _, part in _steps_of(step) if _is_estimator(part)]
    return [part for _, part in _parts_of(step)]


def _parameters(step: Any) -> dict[str, Any]:
    return step.get_params(deep=False) if hasattr(step, "get_params") else {}


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "fit") and not isinstance(value, type)


def _path(name: str, part_name: str) -> str:
    return f"{name}.{part_name}" if name else part_name


def _protected(step: Any) -> bool:
    """Indicate whether a step sees no private row, or protects the rows it sees."""
    # not hasattr(step, ...): FrozenEstimator and others delegate to their inner estimator
    declares = hasattr(type(step), "protects_all_rows") or "protects_all_rows" in vars(step)
    if _is_own(step) or (declares and step.protects_all_rows is True):
        return True
    return hasattr(step, "__sklearn_tags__") and fits_no_private_rows(step)


def _is_own(step: Any) -> bool:
    return type(step).__module__.startswith("skpublicdp.")


def _is_private(estimator: Any) -> bool:
    """Indicate whether an estimator, or a part of it, spends a budget."""
    if _protected(estimator) and "epsilon" in _parameters(estimator):
        return True
    return any(map(_is_private, _estimators(estimator)))


def _private_name(estimator: Any) -> str:
    """Return the class name of the first private estimator in another."""
    if _protected(estimator) and "epsilon" in _parameters(estimator):
        return type(estimator).__name__
    return _private_name(next(part for part in _estimators(estimator) if _is_private(part)))


def _leaf(step: Any, name: str) -> _Issue:
    """Return the issue of a step without a private part that is fitted to private rows."""
    kind = type(step).__name__
    problem, remedy = f"{kind} is fitted to private rows", "wrap it in PublicFit"
    if not hasattr(step, "transform"):
        problem += " and declares no protection"
        remedy = "use a private estimator, such as SemiPrivateClassifier"
    return _Issue("unprotected", Finding(name, problem, remedy))


def _memory(pipeline: Pipeline, name: str) -> Iterator[_Issue]:
    """Report a cache of transformed rows."""
    transforms = any(is_active_step(step) for _, step in pipeline.steps[:-1])
    if pipeline.memory is not None and transforms:
        problem = "memory writes transformed private rows to disk, without any protection"
        yield _Issue("memory", Finding(name or "Pipeline", problem, "set memory=None"))


def _coupling(step: Any, name: str, function: str = "") -> _Issue:
    """Return the issue of a function that may compute a row from other rows."""
    problem = (
        f"the result of {function or type(step).__name__} for a row must depend on that row "
        "alone, which cannot be seen from outside"
    )
    remedy = "if it uses statistics of the rows, put a transformer within PublicFit in its place"
    return _Issue("coupling", Finding(name, problem, remedy))


def _fitted_before(step: Any, name: str) -> _Issue:
    """Return the issue of a part that was fitted before, to unknown rows."""
    parts = _estimators(step)
    fitted = type(parts[0]).__name__ if len(parts) == 1 else "its estimators"
    problem = (
        f"{type(step).__name__} does not fit {fitted}, and the rows of the earlier fit cannot be "
        "seen"
    )
    remedy = "make sure that no private row was among them"
    if any(map(_is_private, parts)):
        remedy = "make sure that the budget counts the earlier fit"
    return _Issue("fitted before", Finding(name, problem, remedy))


def _issues_of_protected(step: Any, name: str) -> Iterator[_Issue]:
    """Yield coupled rows and earlier fits inside a step of this package."""
    if not _is_own(step):
        return
    for part_name, part in _parts_of(step):
        # the transformer of a PublicFit is reported under the name of its step
        path = name if isinstance(step, PublicFit) else _path(name, part_name)
        for issue in _issues(part, path):
            if issue.kind in ("coupling", "fitted before"):
                yield issue


def _issues_of_wrapper(wrapper: Any, name: str) -> Iterator[_Issue]:
    """Yield the issues of a meta-estimator with a private part, and of its parts."""
    kind, parameters = type(wrapper).__name__, _parameters(wrapper)
    learner = _private_name(wrapper)
    is_prefitted = was_fitted_before(wrapper, parameters)
    if is_prefitted:
        yield _fitted_before(wrapper, name)
        if fits_nothing(wrapper, parameters):
            return
    kinds: dict[str, set[str]] = {}
    for part_name, part in _parts_of(wrapper):
        if is_prefitted and part_name != "final_estimator":
            continue
        issues = list(_issues(part, _path(name, part_name)))
        if part_name == "transformer" and is_scikit_learn_class(wrapper):  # of a target
            remedy = "use func and inverse_func instead, with public numbers"
            issues = [_Issue(issue.kind, issue.finding._replace(remedy=remedy)) for issue in issues]
        for issue in issues:
            kinds.setdefault(issue.kind, set()).add(part_name)
        yield from issues
    function = parameters.get("func")
    if function is not None and may_couple_rows(FunctionTransformer(function)):
        yield _coupling(wrapper, name, "func")

    wrapper_fit = fit_of_its_own(wrapper, parameters)
    unprotected = sorted(kinds.get("unprotected", set()) | kinds.get("seed", set()))
    if wrapper_fit is not None:
        yield _unprotected(
            name, f"{kind} {wrapper_fit.problem}", wrapper_fit.remedy.format(learner=learner)
        )
    elif unprotected:
        problem = f"{kind} is not private at any ε, since it contains {', '.join(unprotected)}"
        yield _unprotected(name, problem, "protect every part of it, or leave that out")
    seeds = sets_seeds(wrapper) if _takes_seed(wrapper) else ""
    if seeds:
        repetition = ", and repeats rows within a fit" if parameters.get("bootstrap") else ""
        problem = f"{kind} {seeds.format(learner=learner)}, so the noise can be undone{repetition}"
        remedy = f"fit {learner} without it, with random_state=None"
        yield _Issue("seed", Finding(name, problem, remedy))
    if wrapper_fit is None and not unprotected:
        yield from _repeated(wrapper, name, learner, seeds=bool(seeds), nested="cost" in kinds)


def _repeated(
    wrapper: Any, name: str, learner: str, *, seeds: bool, nested: bool
) -> Iterator[_Issue]:
    """Report several private fits to the same rows."""
    kind, parameters = type(wrapper).__name__, _parameters(wrapper)
    fits, parts = n_fits(wrapper, parameters), sum(map(_is_private, _estimators(wrapper)))
    remedy = f"fit {learner} once, or give it a budget that counts the fits"
    if fits is None:
        doubt = f"of how often it fits {learner}"
        if "random_state" in parameters:
            doubt += ", and of seeds that it sets in its clones"
        problem = f"nothing is known of what {kind} itself fits to private rows, and {doubt}"
        yield _unprotected(name, problem, f"fit {learner} without it")
    elif seeds:
        return  # a budget cannot account for known noise
    elif folds_by_labels(wrapper, parameters):
        problem = (
            f"{kind} fits {learner} in folds that may go by labels: one changed label then moves "
            "other rows from fold to fold, which costs more than the sum of the fits"
        )
        yield _Issue("cost", Finding(name, problem, "give it cv=KFold() and a budget"))
    elif fits == "1" and parts > 1:
        problem = f"{kind} fits {parts} private estimators to the same rows, and their ε add up"
        yield _Issue(
            "cost", Finding(name, problem, "keep one of them, or give all of them a budget")
        )
    elif fits != "1":
        count = "several" if nested or fits == UNKNOWN_N_FITS else fits
        cost = "k·ε, k being the number of its fits" if count == "several" else f"{fits}·ε"
        problem = f"{kind} fits {learner} {count} times to the same rows, which costs {cost}"
        yield _Issue("cost", Finding(name, problem, remedy))


def _unprotected(name: str, problem: str, remedy: str) -> _Issue:
    return _Issue("unprotected", Finding(name, problem, remedy))


def _takes_seed(wrapper: Any) -> bool:
    """Indicate whether the parts of a meta-estimator have a seed that can be set."""
    return any(
        parameter.rsplit("__", 1)[-1] == "random_state"
        for part in _estimators(wrapper)
        if hasattr(part, "get_params")
        for parameter in part.get_params()
    )
