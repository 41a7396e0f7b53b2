"""HTML representation and model card of a fitted estimator, which use only released values."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from skpublicdp._internal.html import named_list

RULE_STYLE = "max-height:24em;overflow:auto;border:1px solid #ccc;padding:.5em"
"""CSS style of the box that displays the learned rule."""


def describe_fitted(estimator: Any) -> str:
    """Describe in words what a fitted estimator has learned, or return "" if this is unknown."""
    inner = inner_estimator(estimator)
    if hasattr(estimator, "explain"):
        return str(estimator.explain())
    if hasattr(estimator, "hypothesis_"):
        return str(estimator.hypothesis_)
    if inner is not None:
        text = describe_fitted(inner)
        return f"{type(inner).__name__}\n{text}" if text else type(inner).__name__
    if hasattr(estimator, "queries_"):
        return f"Answers to any query of {type(estimator.queries_).__name__}."
    if hasattr(estimator, "transformer_"):
        return f"{type(estimator.transformer_).__name__}, fitted to public rows alone."
    return ""


def inner_estimator(estimator: Any) -> Any:
    """Return the fitted estimator inside a meta-estimator or pipeline, or None if there is none."""
    inner: Any = getattr(estimator, "best_estimator_", getattr(estimator, "estimator_", None))
    return inner.steps[-1][1] if hasattr(inner, "steps") else inner


def unwrap_pipeline(estimator: Any) -> tuple[Any, list[tuple[str, Any]], list[Any]]:
    """Find the estimator whose privacy receipt covers a fitted pipeline or search.

    Returns
    -------
    estimator
        The outermost estimator with a receipt, or the innermost estimator if no receipt exists.
    steps : list of (str, transformer)
        Transformers of all pipelines around this estimator, with their names.
    searches : list of estimator
        Searches around this estimator that have no receipts of their own.
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


def fit_notes(estimator: Any) -> Iterator[tuple[str, str]]:
    """Yield (heading, sentence) pairs that describe the public rows and the guarantee of a fit."""
    inner = inner_estimator(estimator)
    if inner is not None and not hasattr(estimator, "drift_"):
        yield from ((name, text) for name, text in fit_notes(inner) if name == "public rows")
    if hasattr(estimator, "drift_"):
        drift = estimator.drift_
        comparison = "their distribution was not compared with that of the private rows"
        if drift is not None:
            comparison = f"drift_ is {drift:.1f}; it is about 1 without covariate shift"
        yield "public rows", f"{comparison}."
    if hasattr(estimator, "effective_public_size_"):
        size = estimator.effective_public_size_
        yield "public rows", f"their effective sample size is {size:.0f} private rows."
    if hasattr(estimator, "guarantee_reason_"):
        bound = estimator.guarantee_
        text = "" if bound is None else f"excess error of at most {bound:.3g}. "
        yield "guarantee", text + estimator.guarantee_reason_


def fit_html(estimator: Any) -> str:
    """Return the HTML displayed below the diagram of a fitted estimator, or "" before `fit`."""
    receipt = getattr(estimator, "privacy_", None)
    if receipt is None and not hasattr(estimator, "transformer_"):
        return ""
    text = describe_fitted(estimator)
    box = f"<pre style='{RULE_STYLE}'>{escape(text)}</pre>"
    rule = f"<p><b>What was learned</b></p>{box}" if text else ""
    spent = "" if receipt is None else receipt._repr_html_()
    notes = [*fit_notes(estimator)]
    return f"<div>{rule}{spent}{named_list(notes) if notes else ''}</div>"


class HTMLReprMixin:
    """Mixin that adds the learned rule and the privacy receipt to the HTML of an estimator."""

    @property
    def _repr_html_(self) -> Any:
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + fit_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return scikit-learn's representations, and add information about the fit to the HTML."""
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += fit_html(self)
        return bundle


MAX_SETTING_LENGTH = 80
"""Maximum number of characters in a parameter value. If a value is longer, only its type is
shown."""

HIDDEN_PARAMETERS = frozenset({"random_state", "budget"})
"""Parameters that are never shown, because a known seed would void the guarantee and a budget
contains a path."""


def public_settings(estimator: Any) -> Iterator[tuple[str, str]]:
    """Yield an estimator's (parameter, text) pairs for publication in a model card.

    Seeds, paths and data are omitted, and so are parameters that the chosen method does not use.
    """
    hidden = HIDDEN_PARAMETERS.union(getattr(estimator, "_unused_parameters", ()))
    for name, value in estimator.get_params(deep=False).items():
        if name not in hidden and value is not None:
            yield name, _setting_text(value)


def _setting_text(value: Any) -> str:
    """Return the text that represents a parameter value in a model card.

    For objects and long strings, only the name of the type is returned.
    """
    if isinstance(value, str | bool | int | float | np.number):
        return str(value)
    if isinstance(value, dict):
        texts = [f"{key}: {_setting_text(item)}" for key, item in value.items()]
    elif isinstance(value, list | tuple):
        texts = list(map(_setting_text, value))
    else:
        return type(value).__name__
    text = ", ".join(texts)
    return text if len(text) <= MAX_SETTING_LENGTH else type(value).__name__
