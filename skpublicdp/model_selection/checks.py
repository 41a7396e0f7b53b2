"""Which steps of a pipeline see private rows without protection, and what repeats a row."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any, NamedTuple

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from skpublicdp.model_selection.candidates import does_something, sees_no_rows

UNDECLARED = "these declare no protection, and are taken to have the one they are paid for"
"""Of a search, in its receipt."""


class Finding(NamedTuple):
    """Something about a step that a receipt does not cover.

    Attributes
    ----------
    step : str
        Its name; those of the steps it is in come before it, with dots.
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
    """List steps that would be fitted to private rows without protection, or repeat a row.

    Nothing is fitted: the answer follows from the types and parameters of the steps, fitted or not.
    Listed as well is a pipeline that would transform `X`, but not the `X_public` given to `fit`.

    Parameters
    ----------
    pipeline : Pipeline or estimator
        What is going to be fitted, or was.

    Returns
    -------
    list of Finding
        Rows of step, problem and remedy. Empty if each step is protected, as far as it says.

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
    name = "" if isinstance(pipeline, Pipeline) else type(pipeline).__name__
    raw = _raw_public_rows(pipeline) if isinstance(pipeline, Pipeline) else []
    return [*_findings(pipeline, name), *raw]


def unprotected_line(estimator: Any, meaning: str) -> tuple[str, ...]:
    """Return a line for a receipt that names the steps without protection, if there are any."""
    name = "" if isinstance(estimator, Pipeline) else type(estimator).__name__
    found = ", ".join(finding.step for finding in _findings(estimator, name))
    return (f"{meaning}: {found}",) if found else ()


def _raw_public_rows(pipeline: Pipeline) -> list[Finding]:
    """Tell of public rows that pass by the steps which transform the private ones."""
    *before, (name, learner) = pipeline.steps
    changes = any(does_something(step) for _, step in before)
    given = "X_public" in (getattr(pipeline, "transform_input", None) or ())
    takes = does_something(learner) and "X_public" in signature(learner.fit).parameters
    if given or not takes or not changes:
        return []
    return [
        Finding(
            name,
            f"the steps before {type(learner).__name__} transform X and not an X_public given to "
            "fit",
            'pass transform_input=["X_public"] to Pipeline, or mark public rows by is_public',
        )
    ]


def _findings(step: Any, name: str) -> Iterator[Finding]:
    if not does_something(step) or isinstance(step, str):  # "drop" and "passthrough"
        return
    if isinstance(step, Pipeline | FeatureUnion | ColumnTransformer):
        for inner_name, inner in _inside(step):
            yield from _findings(inner, f"{name}.{inner_name}" if name else inner_name)
    elif hasattr(step, "fit_resample"):
        yield Finding(
            name,
            f"{type(step).__name__} may repeat a row k times or make new rows from it, and then "
            "what follows costs k·ε",
            "leave it out, or resample public rows only, before they are given to fit",
        )
    elif not _protected(step):
        yield _unprotected(step, name)


def _inside(step: Any) -> list[tuple[str, Any]]:
    """Return the named parts of something that is made of steps, fitted or not."""
    if isinstance(step, Pipeline):
        return list(step.steps)
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    return [(name, part) for name, part, _ in step.transformers] + [("remainder", step.remainder)]


def _protected(step: Any) -> bool:
    """Tell whether a step sees no private row, or protects those that it sees."""
    own = type(step).__module__.startswith("skpublicdp.")
    declared = getattr(step, "protects_all_rows", None) is True
    return own or declared or (hasattr(step, "__sklearn_tags__") and sees_no_rows(step))


def _unprotected(step: Any, name: str) -> Finding:
    """Say what is wrong with a step that is of nobody's promise."""
    kind = type(step).__name__
    parameters = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    repeated = [one for one in _learners(parameters) if _is_private(one)]
    if not repeated:
        if hasattr(step, "transform"):
            return Finding(name, f"{kind} is fitted to private rows", "wrap it in PublicFit")
        return Finding(
            name,
            f"{kind} is fitted to private rows and declares no protection",
            "use a private estimator, such as SemiPrivateClassifier",
        )
    learner = type(_last(repeated[0])).__name__
    if any(grid in parameters for grid in ("param_grid", "param_distributions")):
        return Finding(
            name,
            f"{kind} pays ε for every fit of {learner}, and its scores and its choice are not "
            "private at any ε",
            "use SemiPrivateSearchCV",
        )
    fits = "k" if len(repeated) == 1 else str(len(repeated))
    count = parameters.get("n_estimators")
    if isinstance(count, int):
        fits = str(count)
    again = " and repeats rows within a fit, which costs more" if _repeats(parameters) else ""
    cost = "k·ε, k being the number of its fits" if fits == "k" else f"{fits}·ε"
    return Finding(
        name,
        f"{kind} fits {learner} {'several' if fits == 'k' else fits} times to the same rows, which "
        f"costs {cost}{again}",
        f"fit {learner} once, or give it a budget that counts the fits"
        + (" and set bootstrap=False" if again else ""),
    )


def _learners(parameters: dict[str, Any]) -> list[Any]:
    """Return what an estimator is made of."""
    named = parameters.get("estimators") or []
    listed = [part[-1] if isinstance(part, tuple) else part for part in named]
    singles = [parameters.get(name) for name in ("estimator", "final_estimator")]
    return [part for part in (*listed, *singles) if part is not None and not isinstance(part, str)]


def _is_private(estimator: Any) -> bool:
    """Tell whether an estimator, or the last step of a pipeline, spends a budget."""
    return "epsilon" in _last(estimator).get_params(deep=False)


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def _repeats(parameters: dict[str, Any]) -> bool:
    return bool(parameters.get("bootstrap"))
