"""JSON export of a fitted model, sufficient for making predictions in another language."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from skpublicdp.boosting.bin_splits import BinSplits
from skpublicdp.boosting.binner import ColumnBins
from skpublicdp.boosting.fitted_model import PublicTerm
from skpublicdp.boosting.linear_stage import LinearStage
from skpublicdp.boosting.model import MARGIN_UNIT
from skpublicdp.data.one_hot import OneHotColumn
from skpublicdp.linear.linear_json import margins_to_json

SCHEMA_VERSION = 3
"""Version of the JSON schema that is described in docs/user_guide/boosting.md."""


def model_to_json(estimator: Any, **target_fields: Any) -> str:
    """Return a fitted model as JSON.

    Parameters
    ----------
    estimator : SemiPrivateBoosting
        Fitted estimator.
    **target_fields
        Fields that describe the target, namely its classes or its bounds.
    """
    model, binner = estimator._model, estimator._binner
    importances = np.add.reduceat(estimator.feature_importances_, binner.source_starts).tolist()
    columns = []
    for position, (bins, shape) in enumerate(zip(binner.columns, estimator.shapes_, strict=True)):
        start, stop = binner.offsets[position], binner.offsets[position + 1]
        scores = {
            "cells": list(shape.cells),
            "scores": model.scores[:, start:stop].tolist(),
            "deviations": shape.deviations.tolist(),
            "public_shares": shape.shares.tolist(),
            "importance": importances[position],
        }
        columns.append(_column_to_json(bins) | scores)
    trees = [
        {
            "questions": _splits_to_json(tree.splits, binner.names),
            "scores": leaf_scores.tolist(),
            "deviations": described.deviations.tolist(),
            "public_shares": described.shares.tolist(),
        }
        for tree, leaf_scores, described in zip(
            model.trees, model.leaf_scores, estimator.trees_, strict=True
        )
    ]
    return json.dumps(
        {
            "schema": "skpublicdp boosting",
            "version": SCHEMA_VERSION,
            "estimator": type(estimator).__name__,
            **target_fields,
            "unit": MARGIN_UNIT,
            "intercept": model.intercepts.tolist(),
            "columns": columns,
            "trees": trees,
            "linear_model": _linear_term_to_json(estimator),
            "public_model": _public_term_to_json(estimator._public_term),
            "drift": estimator.drift_,
            "privacy": estimator.privacy_.to_dict(),
        },
        ensure_ascii=False,
        allow_nan=False,
        default=str,  # categories and labels can have any type
    )


def _public_term_to_json(term: PublicTerm | None) -> dict[str, Any] | None:
    """Return a JSON object that refers to the public model, which itself cannot be exported.

    To apply the public model, multiply its margin by the slope, round the product to whole units,
    and multiply it by the weight.
    """
    if term is None or isinstance(term.public.model, LinearStage):
        return None
    estimators = term.public.model.estimator
    if not isinstance(estimators, tuple):
        estimators = (estimators,)
    return {
        "estimators": [type(estimator).__name__ for estimator in estimators],
        "slope": term.public.slope,
        "weight": term.weight,
    }


def _linear_term_to_json(estimator: Any) -> dict[str, Any] | None:
    """Return a JSON object of the linear model that was fitted before boosting, if there is one."""
    term = estimator._public_term
    if term is None or not isinstance(term.public.model, LinearStage):
        return None
    stage = term.public.model
    margins = margins_to_json(stage.linear, stage.schema)
    del margins["public_model"]
    return {"weight": term.weight, "logits": stage.loss.glm_unit, **margins}


def _column_to_json(bins: ColumnBins) -> dict[str, Any]:
    """Return the JSON object of a column, with its cut points or the categories that have a bin."""
    column = bins.column
    if column.categorical:
        # the last two entries of `bin_of_category` are for other and for missing values
        pairs = zip(column.values.tolist(), bins.bin_of_category.tolist(), strict=False)
        other_bin = bins.size - 2
        categories = [category for category, code in pairs if code < other_bin]
        described = {"name": column.name, "kind": "category", "categories": categories}
        if isinstance(column, OneHotColumn):
            described |= _members_to_json(column)
        return described
    return {
        "name": column.name,
        "kind": "date" if column.is_datetime else "number",
        "origin": column.offset,
        "cuts": bins.cuts.tolist(),
    }


def _members_to_json(column: OneHotColumn) -> dict[str, Any]:
    """Return the JSON fields of a one-hot column, with members that are 1 in public rows first."""
    has_category = np.array(column.category_codes) < len(column.values)
    names = np.array([member.name for member in column.members], dtype=object)
    return {
        "kind": "one-hot",
        "members": names[has_category].tolist(),
        "rare_members": names[~has_category].tolist(),
    }


def _splits_to_json(splits: BinSplits, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a JSON object for each split of a tree, with its column, bin range and description."""
    return [
        {
            "column": int(splits.features[node]),
            "first": int(splits.first_bin[node]),
            "last": int(splits.last_bin[node]),
            "text": splits.describe(node, names),
        }
        for node in range(len(splits))
    ]
