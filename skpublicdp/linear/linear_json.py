"""JSON export of linear models, sufficient for making predictions in another language."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from skpublicdp.data.column import MISSING, OTHER
from skpublicdp.data.schema import Schema
from skpublicdp.linear.linear_fit import LinearModel

LINEAR_SCHEMA_VERSION = 1
"""Version of the JSON schema that is described in docs/user_guide/embeddings.md."""


def linear_to_json(estimator: Any, **target_fields: Any) -> str:
    """Return a fitted linear estimator as JSON, with fields that describe the target."""
    return json.dumps(
        {
            "schema": "skpublicdp linear",
            "version": LINEAR_SCHEMA_VERSION,
            "estimator": type(estimator).__name__,
            **target_fields,
            **margins_to_json(estimator._model, estimator._schema),
            "privacy": estimator.privacy_.to_dict(),
        },
        ensure_ascii=False,
        allow_nan=False,
        default=str,  # categories and labels can have any type
    )


def margins_to_json(model: LinearModel, schema: Schema) -> dict[str, Any]:
    """Return the intercepts and the columns of a model, each with one coefficient per margin."""
    design = model.columns
    coefficients = np.atleast_2d(model.coefficients)  # (n_margins, n_design)
    intercepts = np.atleast_1d(model.intercept).astype(np.float64)
    sources = np.array(design.sources)
    columns = []
    for position, column in enumerate(schema.columns):
        members = np.flatnonzero(sources == position)
        of_members = coefficients[:, members]
        if column.categorical:
            intercepts = intercepts - of_members @ design.centre[members]
            categories = [*column.values.tolist(), OTHER, MISSING]
            described = {"kind": "category", "categories": categories}
            columns.append(
                {"name": column.name, **described, "coefficients": of_members.T.tolist()}
            )
            continue
        member = int(members[0])
        limits = [_finite(design.low[member]), _finite(design.high[member])]
        columns.append(
            {
                "name": column.name,
                "kind": "date" if column.is_datetime else "number",
                "origin": column.offset,
                "missing": design.fill[member],
                "limits": limits,
                "centre": design.centre[member],
                "coefficients": of_members[:, 0].tolist(),
            }
        )
    public_model = None
    if (sources < 0).any():
        member = len(sources) - 1
        public_model = {
            "missing": design.fill[member],
            "limits": [design.low[member], design.high[member]],
            "centre": design.centre[member],
            "coefficients": coefficients[:, member].tolist(),
        }
    return {"intercept": intercepts.tolist(), "columns": columns, "public_model": public_model}


def _finite(limit: float) -> float | None:
    """Return a limit, or None if it is infinite."""
    return float(limit) if np.isfinite(limit) else None
