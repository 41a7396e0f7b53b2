"""What a fitted estimator may say of itself to anybody: rule, receipt, drift and promise."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

STYLE = "max-height:24em;overflow:auto;border:1px solid #ccc;padding:.5em"


def learned(estimator: Any) -> str:
    """Return in words what was learned; empty where there is nothing to tell."""
    inner = inner_estimator(estimator)
    if hasattr(estimator, "explain"):
        return str(estimator.explain())
    if hasattr(estimator, "hypothesis_"):
        return str(estimator.hypothesis_)
    if inner is not None:
        text = learned(inner)
        return f"{type(inner).__name__}\n{text}" if text else type(inner).__name__
    if hasattr(estimator, "queries_"):
        return f"Answers to any query of {type(estimator.queries_).__name__}."
    if hasattr(estimator, "transformer_"):
        return f"{type(estimator.transformer_).__name__}, fitted to public rows alone."
    return ""


def inner_estimator(estimator: Any) -> Any:
    """Return the fitted estimator that another one runs, the last step of a pipeline; or None."""
    inner: Any = getattr(estimator, "best_estimator_", getattr(estimator, "estimator_", None))
    return inner.steps[-1][1] if hasattr(inner, "steps") else inner


def unwrapped(estimator: Any) -> tuple[Any, list[tuple[str, Any]], list[Any]]:
    """Return what a pipeline or a search has a receipt of, and what that receipt leaves out.

    Returns
    -------
    estimator
        The first one with a receipt; where there is none, the innermost.
    list of (str, transformer)
        The steps before it, by their names.
    list of estimator
        The searches that chose it.
    """
    steps: list[tuple[str, Any]] = []
    searches: list[Any] = []
    inner = estimator
    while inner is not None:
        if not hasattr(estimator, "privacy_"):
            estimator = inner
            if hasattr(inner, "best_estimator_") and not hasattr(inner, "privacy_"):
                searches.append(inner)
        if hasattr(inner, "steps"):
            steps += [(name, step) for name, step in inner.steps[:-1] if hasattr(step, "transform")]
            inner = inner.steps[-1][1]
        else:
            inner = getattr(inner, "best_estimator_", None)
    return estimator, steps, searches


def findings(estimator: Any) -> Iterator[tuple[str, str]]:
    """Yield (heading, sentence) about public rows and about what is promised."""
    inner = inner_estimator(estimator)
    if inner is not None and not hasattr(estimator, "drift_"):
        yield from ((name, text) for name, text in findings(inner) if name == "public rows")
    if hasattr(estimator, "drift_"):
        drift = estimator.drift_
        found = "nothing was counted that would tell whether they are like the private ones"
        if drift is not None:
            found = f"drift_ is {drift:.1f}, and about 1 where they are like the private ones"
        yield "public rows", f"{found}."
    if hasattr(estimator, "effective_public_size_"):
        worth = estimator.effective_public_size_
        yield "public rows", f"they turned out to be worth {worth:.0f} private ones."
    if hasattr(estimator, "guarantee_reason_"):
        promised = estimator.guarantee_
        text = "" if promised is None else f"excess error of at most {promised:.3g}. "
        yield "guarantee", text + estimator.guarantee_reason_


def as_html(estimator: Any) -> str:
    """Return what is below the diagram of a fitted estimator; empty before it is fitted."""
    receipt = getattr(estimator, "privacy_", None)
    if receipt is None and not hasattr(estimator, "transformer_"):
        return ""
    text = learned(estimator)
    rule = (
        f"<p><b>What was learned</b></p><pre style='{STYLE}'>{escape(text)}</pre>" if text else ""
    )
    listed = "".join(
        f"<li><b>{escape(name)}</b> {escape(said)}</li>" for name, said in findings(estimator)
    )
    spent = "" if receipt is None else receipt._repr_html_()
    return f"<div>{rule}{spent}<ul>{listed}</ul></div>" if listed else f"<div>{rule}{spent}</div>"


class ShowsCard:
    """Adds what was learned and what it cost to scikit-learn's diagram of a fitted estimator."""

    @property
    def _repr_html_(self) -> Any:
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + as_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += as_html(self)
        return bundle


SHORT = 80
"""Longer settings are not written out."""

SECRET = frozenset({"random_state", "budget"})
"""Who knows the seed is not bound by the guarantee; a budget may hold the path of a file."""


def settings(estimator: Any) -> Iterator[tuple[str, str]]:
    """Yield (parameter, value) of a model card, without what might hold a seed or rows."""
    for name, value in estimator.get_params(deep=False).items():
        if name not in SECRET and value is not None:
            yield name, _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, str | bool | int | float | np.number):
        return str(value)
    if isinstance(value, dict):
        text = ", ".join(f"{key}: {_plain(one)}" for key, one in value.items())
    elif isinstance(value, list | tuple):
        text = ", ".join(map(_plain, value))
    else:
        return type(value).__name__
    return text if len(text) <= SHORT else type(value).__name__
