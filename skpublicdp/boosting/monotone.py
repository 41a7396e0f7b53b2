"""Monotone constraints: scores are projected onto them, which is post-processing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from skpublicdp._internal.redaction import call_silently
from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import Binner, Codes
from skpublicdp.boosting.model import AdditiveModel
from skpublicdp.data.bounds import position_of
from skpublicdp.data.schema import Schema
from skpublicdp.hypotheses.trees import WHOLE_LINE, DecisionTree, IntervalUnion, intersect_interval
from skpublicdp.typing import Floats

Directions = NDArray[np.int8]

Projection = Callable[[Floats, Floats], Floats]
"""Takes scores and their variances, and returns the nearest scores in order."""


def validate_monotonic_cst(given: Any, schema: Schema) -> Directions | None:
    """Return 1, 0 or -1 for each column; None if all are 0.

    Raises
    ------
    ValueError
        If that is not what is given, there is no such column, or it is a categorical one.
    """
    if given is None:
        return None
    names = list(schema.names)
    found = given
    if isinstance(given, Mapping):
        found = [0] * len(names)
        for column, direction in given.items():
            position = position_of(column, names)
            if position is None:
                raise ValueError(
                    f"monotonic_cst must name columns of X; got {column!r}, which is none."
                )
            found[position] = direction
    values, failure = call_silently(np.asarray, found)
    if failure or values.shape != (len(names),) or not np.isin(values, (-1, 0, 1)).all():
        raise ValueError(
            f"monotonic_cst must be a dict of columns, or hold one for each of {len(names)} "
            f"columns, of the values 1 (increasing), -1 (decreasing) and 0; got {given!r}."
        )
    directions = values.astype(np.int8)
    for column, direction in zip(schema.columns, directions, strict=True):
        if direction and column.categorical:
            raise ValueError(
                f"monotonic_cst must be 0 for categorical columns; column {column.name} is one."
            )
    return directions if directions.any() else None


def isotonic_projection(direction: int) -> Projection:
    """Return the projection of the cells of a column; missing values come last, and are free."""

    def project(scores: Floats, variances: Floats) -> Floats:
        projected = scores.copy()
        weights = 1 / variances[:-1]
        projected[:-1] = isotonic_regression(
            scores[:-1], sample_weight=weights, increasing=bool(direction > 0)
        )
        return projected

    return project


def monotone_leaf_projection(
    tree: DecisionTree, sizes: list[int], directions: Directions
) -> Projection | None:
    """Return the projection of the leaves of a tree; None if it breaks no constraint anyway.

    Two leaves are in order if there are rows in them that differ in nothing but a column with a
    constraint. A tree in which all such pairs are in order is monotone.
    """
    n, edges = len(tree.leaves), list(_ordered_leaves(tree, sizes, directions))
    if not edges:
        return None
    masks = np.arange(1, 1 << n)
    has = (masks[:, None] >> np.arange(n)) & 1 == 1
    upper, lower = np.ones(len(masks), dtype=bool), np.ones(len(masks), dtype=bool)
    for low, high in edges:
        upper &= ~has[:, low] | has[:, high]
        lower &= ~has[:, high] | has[:, low]

    def project(scores: Floats, variances: Floats) -> Floats:
        # Robertson, Wright and Dykstra (1988), Theorem 1.4.4: in order whatever is rounded
        weights = 1 / variances
        means = np.append(np.nan, (has @ (weights * scores)) / (has @ weights))
        table = means[masks[upper][:, None] & masks[lower]]
        found = [
            table[has[upper, leaf]][:, has[lower, leaf]].min(axis=1).max() for leaf in range(n)
        ]
        return np.array(found)

    return project


def _ordered_leaves(
    tree: DecisionTree, sizes: list[int], directions: Directions
) -> Iterator[tuple[int, int]]:
    """Yield (lower, higher) leaves."""
    asked = np.unique(tree.splits.features).tolist()
    regions = [
        {
            column: intersect_interval(region.get(column, WHOLE_LINE), -1, sizes[column] - 1)
            for column in asked
        }
        for region in tree.regions()
    ]
    for (a, one), (b, other) in permutations(enumerate(regions), 2):
        for column in asked:
            if not directions[column]:
                continue
            elsewhere = all(_overlap(one[c], other[c]) for c in asked if c != column)
            known = [
                intersect_interval(region[column], -1, sizes[column] - 2) for region in (one, other)
            ]
            if elsewhere and all(known) and known[0][0][0] + 1 < known[1][-1][1]:
                yield (a, b) if directions[column] > 0 else (b, a)


def _overlap(one: IntervalUnion, other: IntervalUnion) -> bool:
    return any(intersect_interval(one, low, high) for low, high in other)


def project_monotone(
    model: AdditiveModel,
    features: Binner,
    public_codes: Codes,
    directions: Directions,
    covariances: list[Floats],
) -> AdditiveModel:
    """Project the scores of a model of one target: each column and each tree by itself.

    Parameters
    ----------
    model : AdditiveModel
        What was learned.
    features : Binner
        The cells.
    public_codes : ndarray of int, shape (n_columns, m)
        Public rows, whose mean margin stays what it is.
    directions : ndarray of int8, shape (n_columns,)
        1 where the margin may not fall, -1 where it may not rise.
    covariances : list of ndarray
        Those of columns, then of trees, as far as they are known; others count by public rows.

    Returns
    -------
    AdditiveModel
        Monotone, exactly.
    """
    before = model.raw_predict(public_codes).mean()
    scores, leaf_scores = model.scores.copy(), list(model.leaf_scores)
    for column in np.flatnonzero(directions).tolist():
        cells = slice(int(model.offsets[column]), int(model.offsets[column + 1]))
        known = covariances[column] if covariances else None
        variances = _variances(known, public_codes[column], features.sizes[column])
        project = isotonic_projection(int(directions[column]))
        scores[0, cells] = np.rint(project(scores[0, cells].astype(np.float64), variances))
    of_trees = covariances[len(features.columns) :]
    for place, tree in enumerate(model.trees):
        order = monotone_leaf_projection(tree, features.sizes, directions)
        if order is not None:
            known = of_trees[place] if of_trees else None
            line = apply_tree(tree.splits, public_codes)
            variances = _variances(known, line, len(tree.leaves))
            projected = order(leaf_scores[place][0].astype(np.float64), variances)
            leaf_scores[place] = np.rint(projected)[None].astype(np.int64)
    found = replace(model, scores=scores, leaf_scores=tuple(leaf_scores))
    change = np.rint(before - found.raw_predict(public_codes).mean()).astype(np.int64)
    return replace(found, intercepts=found.intercepts + change)


def _variances(covariances: Floats | None, line: Codes, size: int) -> Floats:
    """Return variances of scores, up to a factor."""
    if covariances is None:
        return 1 / (np.bincount(line, minlength=size) + 0.5)
    variances: Floats = np.maximum(np.diagonal(covariances[0]), 1e-9)
    return variances
