"""Selection of the shape functions, pairs and labels of a boosting model to draw."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from skpublicdp.boosting import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.boosting.explain import Pair, Shape
from skpublicdp.boosting.term_text import term_importance

Boosting = SemiPrivateBoostingClassifier | SemiPrivateBoostingRegressor
Feature = str | int | tuple[str | int, str | int]

MAX_PANELS = 6
"""Maximum number of columns and pairs that are drawn by default."""


def find_shapes(
    clf: Boosting, features: str | int | Sequence[Feature] | None
) -> list[Shape | Pair]:
    """Return the shapes and pairs to draw, by default the `MAX_PANELS` most important ones."""
    if features is None:
        single_columns = clf.shapes_ if any(shape.deviations.any() for shape in clf.shapes_) else ()
        ranked: list[tuple[float, Shape | Pair]] = [
            *zip(clf.feature_importances_, single_columns, strict=False),
            *((term_importance(pair), pair) for pair in clf.pairs_),
        ]
        return [shape for _, shape in sorted(ranked, key=lambda entry: -entry[0])[:MAX_PANELS]]
    if isinstance(features, str) or not np.iterable(features):
        features = [features]
    selected: list[Shape | Pair] = []
    for feature in features:
        if isinstance(feature, tuple) and len(feature) == 2:
            selected.append(find_pair(clf, feature))
        else:
            selected.append(clf.shapes_[column_position(clf, feature)])
    if not selected:
        raise ValueError("features must name at least one column.")
    return selected


def column_position(clf: Boosting, feature: Any) -> int:
    """Return the index of a column, given by name or index."""
    names = [shape.name for shape in clf.shapes_]
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, Integral) and 0 <= int(feature) < len(names):
        return int(feature)
    raise ValueError(
        f"A feature must be given by its name or by its position below {len(names)}; got "
        f"{feature!r}."
    )


def find_pair(clf: Boosting, columns: tuple[str | int, str | int]) -> Pair:
    """Return the pair term of two columns."""
    names = {clf.shapes_[column_position(clf, column)].name for column in columns}
    for pair in clf.pairs_:
        if set(pair.names) == names:
            return pair
    pairs = "; ".join(" & ".join(pair.names) for pair in clf.pairs_) or "none"
    raise ValueError(
        f"A pair must be a pair term of the model ({pairs}); got {' & '.join(map(str, columns))}."
    )


def find_target(clf: Boosting, target: Any) -> tuple[int, int, str]:
    """Return (index of the scores, their sign, axis label) of a label or a regression target.

    A binary classifier has scores of the second label only; the first label has the opposite sign.
    """
    if not hasattr(clf, "classes_"):
        if target is not None:
            raise ValueError("target must be None for a regressor: it selects a label.")
        return 0, 1, "mean outcome"
    labels = clf.classes_.tolist()
    if target is None and len(labels) == 2:
        target = labels[1]
    if target not in labels:
        raise ValueError(f"target must be one of the labels {labels}; got {target!r}.")
    label = f"log-odds of {target}"
    if len(labels) == 2:
        return 0, 1 if target == labels[1] else -1, label
    return labels.index(target), 1, label
