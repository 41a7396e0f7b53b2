"""JSON export of a fitted model, complete enough to predict in another language."""

from __future__ import annotations

import json
from typing import Any

from skpublicdp.boosting.bin_splits import BinSplits
from skpublicdp.boosting.binner import ColumnBins
from skpublicdp.boosting.model import MARGIN_UNIT

SCHEMA_VERSION = 1
"""Version of the JSON schema, which docs/user_guide/boosting.md describes."""


def model_to_json(estimator: Any, **of_target: Any) -> str:
    """Return a fitted model as JSON.

    Parameters
    ----------
    estimator : SemiPrivateBoosting
        Fitted estimator.
    **of_target
        Fields of its kind of target: classes or outcome bounds.
    """
    model, features = estimator._model, estimator._binner
    edges = zip(features.offsets, features.offsets[1:], strict=False)
    columns = [
        _column_to_json(feature)
        | {
            "cells": list(shape.cells),
            "scores": model.scores[:, start:stop].tolist(),
            "deviations": shape.deviations.tolist(),
            "public_shares": shape.shares.tolist(),
            "importance": importance,
        }
        for feature, shape, importance, (start, stop) in zip(
            features.columns,
            estimator.shapes_,
            estimator.feature_importances_.tolist(),
            edges,
            strict=True,
        )
    ]
    trees = [
        {
            "questions": _splits_to_json(tree.splits, features.names),
            "scores": scores.tolist(),
            "deviations": described.deviations.tolist(),
            "public_shares": described.shares.tolist(),
        }
        for tree, scores, described in zip(
            model.trees, model.leaf_scores, estimator.trees_, strict=True
        )
    ]
    return json.dumps(
        {
            "schema": "skpublicdp boosting",
            "version": SCHEMA_VERSION,
            "estimator": type(estimator).__name__,
            **of_target,
            "unit": MARGIN_UNIT,
            "intercept": model.intercepts.tolist(),
            "columns": columns,
            "trees": trees,
            "drift": estimator.drift_,
            "privacy": estimator.privacy_.to_dict(),
        },
        ensure_ascii=False,
        allow_nan=False,
        default=str,  # categories and labels may be of any type
    )


def _column_to_json(feature: ColumnBins) -> dict[str, Any]:
    column = feature.column
    if not column.categorical:
        kind = "date" if column.is_datetime else "number"
        return {
            "name": column.name,
            "kind": kind,
            "origin": column.offset,
            "cuts": feature.cuts.tolist(),
        }
    codes = zip(column.values.tolist(), feature.bin_of_category.tolist(), strict=False)
    kept = [value for value, cell in codes if cell < feature.size - 2]
    return {"name": column.name, "kind": "category", "categories": kept}


def _splits_to_json(asked: BinSplits, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "column": int(asked.features[node]),
            "first": int(asked.first_bin[node]),
            "last": int(asked.last_bin[node]),
            "text": asked.describe(node, names),
        }
        for node in range(len(asked))
    ]
