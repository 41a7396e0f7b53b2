"""Selection of the shape functions, pairs and labels of a boosting model to be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skpublicdp.boosting import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.boosting.explain import Pair, Shape, term_importance

Boosting = SemiPrivateBoostingClassifier | SemiPrivateBoostingRegressor
Feature = str | int | tuple[str | int, str | int]
"""A column, given by name or position, or a pair of columns."""

MAX_PANELS = 6
"""Maximum number of columns and pairs that are drawn by default."""


def find_shapes(
    clf: Boosting, features: str | int | Sequence[Feature] | None
) -> list[Shape | Pair]:
    """Return the shape functions and pair terms that are to be drawn.

    Parameters
    ----------
    clf : SemiPrivateBoostingClassifier or SemiPrivateBoostingRegressor
        A fitted model.
    features : str, int, sequence of these or of pairs of these, or None
        Columns and pairs to draw. ``None`` selects the `MAX_PANELS` most important columns and
        pairs.
    """
    if features is None:
        candidates: list[tuple[float, Shape | Pair]] = []
        # without any posterior deviation, the model only has trees, and its columns are empty
        if any(shape.deviations.any() for shape in clf.shapes_):
            starts = clf._binner.source_starts
            importances = np.add.reduceat(clf.feature_importances_, starts).tolist()
            candidates += zip(importances, clf.shapes_, strict=True)
        candidates += [(term_importance(pair), pair) for pair in clf.pairs_]
        ranked = sorted(candidates, key=lambda candidate: -candidate[0])
        return [shape for _, shape in ranked[:MAX_PANELS]]
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
    """Return the position in `shapes_` of a column given by name or position.

    A member of a one-hot column selects the entire column.
    """
    names = [shape.name for shape in clf.shapes_]
    source_names = [column.name for column in clf._binner.source_columns]
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, str) and feature in source_names:
        feature = source_names.index(feature)
    if isinstance(feature, Integral) and 0 <= int(feature) < len(source_names):
        starts = clf._binner.source_starts
        return int(np.searchsorted(starts, int(feature), side="right")) - 1
    raise ValueError(
        f"A feature must be given by its name or by its position below {len(source_names)}; got "
        f"{feature!r}."
    )


def find_pair(clf: Boosting, columns: tuple[str | int, str | int]) -> Pair:
    """Return the pair term of a model for two columns given by names or positions."""
    names = {clf.shapes_[column_position(clf, column)].name for column in columns}
    for pair in clf.pairs_:
        if set(pair.names) == names:
            return pair
    pairs = "; ".join(" & ".join(pair.names) for pair in clf.pairs_) or "none"
    raise ValueError(
        f"A pair must be one of the pair terms of the model ({pairs}); got "
        f"{' & '.join(map(str, columns))}."
    )


class ScoreSelection(NamedTuple):
    """The scores of a model that are to be drawn."""

    target: int  # index of the target, which is the first axis of the scores
    sign: int  # factor by which the scores are multiplied
    label: str  # label of the axis, which names the quantity to which scores are added


def find_target(clf: Boosting, target: Any) -> ScoreSelection:
    """Return the scores to draw for a label of a classifier, or for a regressor.

    A binary classifier has scores only for the second label; the scores of the first label have the
    opposite sign.
    """
    if not hasattr(clf, "classes_"):
        if target is not None:
            raise ValueError(
                "target must be None for a regressor, because it selects a label and a regressor "
                "has none."
            )
        return ScoreSelection(0, 1, clf._loss.output_name)
    labels = clf.classes_.tolist()
    if target is None and len(labels) == 2:
        target = labels[1]
    if target not in labels:
        raise ValueError(f"target must be one of the labels {labels}; got {target!r}.")
    label = f"log-odds of {target}"
    if len(labels) == 2:
        return ScoreSelection(0, 1 if target == labels[1] else -1, label)
    return ScoreSelection(labels.index(target), 1, label)
