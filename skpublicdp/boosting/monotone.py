"""Monotone constraints: projection of fitted scores, which is post-processing."""

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
from skpublicdp.boosting.binner import BinCodes, Binner
from skpublicdp.boosting.model import AdditiveModel
from skpublicdp.data.bounds import position_of
from skpublicdp.data.schema import Schema
from skpublicdp.hypotheses.trees import WHOLE_LINE, DecisionTree, IntervalUnion, intersect_interval
from skpublicdp.typing import Floats

Directions = NDArray[np.int8]

Projection = Callable[[Floats, Floats], Floats]
"""Maps scores and their variances to the nearest scores that satisfy a constraint."""


def validate_monotonic_cst(given: Any, schema: Schema) -> Directions | None:
    """Return 1, 0 or -1 for each column, or None if all are 0.

    Raises
    ------
    ValueError
        If values or shape are invalid, a column is unknown, or a constrained column is categorical.
    """
    if given is None:
        return None
    names = list(schema.names)
    sequence = given
    if isinstance(given, Mapping):
        sequence = [0] * len(names)
        for column, direction in given.items():
            position = position_of(column, names)
            if position is None:
                raise ValueError(
                    f"monotonic_cst must name columns of X; {column!r} is not one of them."
                )
            sequence[position] = direction
    values, failure = call_silently(np.asarray, sequence)
    if failure or values.shape != (len(names),) or not np.isin(values, (-1, 0, 1)).all():
        raise ValueError(
            f"monotonic_cst must be a dict of columns or a sequence of {len(names)} values, one "
            f"per column, each 1 (increasing), -1 (decreasing) or 0; got {given!r}."
        )
    directions = values.astype(np.int8)
    for column, direction in zip(schema.columns, directions, strict=True):
        if direction and column.categorical:
            raise ValueError(
                f"monotonic_cst must be 0 for categorical columns; column {column.name} is one."
            )
    return directions if directions.any() else None


def isotonic_projection(direction: int) -> Projection:
    """Return the isotonic regression of a column's bins; the last one (missing) is free."""

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
    """Return the isotonic projection of a tree's leaves, or None if nothing constrains them.

    Two leaves are ordered if they contain rows that differ in one constrained column only. A tree
    whose values respect this partial order is monotone.
    """
    n, edges = len(tree.leaves), list(_ordered_leaves(tree, sizes, directions))
    if not edges:
        return None
    # all sets of leaves as bit masks: upper and lower sets of the partial order
    masks = np.arange(1, 1 << n)
    contains = (masks[:, None] >> np.arange(n)) & 1 == 1
    is_upper, is_lower = np.ones(len(masks), dtype=bool), np.ones(len(masks), dtype=bool)
    for low, high in edges:
        is_upper &= ~contains[:, low] | contains[:, high]
        is_lower &= ~contains[:, high] | contains[:, low]

    def project(scores: Floats, variances: Floats) -> Floats:
        # max-min formula of Robertson, Wright and Dykstra (1988), Theorem 1.4.4: the result is
        # ordered exactly, in spite of rounding errors of the means
        weights = 1 / variances
        means = np.append(np.nan, (contains @ (weights * scores)) / (contains @ weights))
        table = means[masks[is_upper][:, None] & masks[is_lower]]
        projected = [
            table[contains[is_upper, leaf]][:, contains[is_lower, leaf]].min(axis=1).max()
            for leaf in range(n)
        ]
        return np.array(projected)

    return project


def _ordered_leaves(
    tree: DecisionTree, sizes: list[int], directions: Directions
) -> Iterator[tuple[int, int]]:
    """Yield pairs (lower, higher) of leaves that a constraint orders."""
    columns = np.unique(tree.splits.features).tolist()
    regions = [
        {
            column: intersect_interval(region.get(column, WHOLE_LINE), -1, sizes[column] - 1)
            for column in columns
        }
        for region in tree.regions()
    ]
    for (a, region_a), (b, region_b) in permutations(enumerate(regions), 2):
        for column in columns:
            if not directions[column]:
                continue
            others_overlap = all(
                _overlap(region_a[other], region_b[other]) for other in columns if other != column
            )
            # without the bin of missing values
            ranges = [
                intersect_interval(region[column], -1, sizes[column] - 2)
                for region in (region_a, region_b)
            ]
            if others_overlap and all(ranges) and ranges[0][0][0] + 1 < ranges[1][-1][1]:
                yield (a, b) if directions[column] > 0 else (b, a)


def _overlap(first: IntervalUnion, second: IntervalUnion) -> bool:
    return any(intersect_interval(first, low, high) for low, high in second)


def project_monotone(
    model: AdditiveModel,
    features: Binner,
    public_codes: BinCodes,
    directions: Directions,
    covariances: list[Floats],
) -> AdditiveModel:
    """Project each column and each tree of a model with one target on the constraints.

    Parameters
    ----------
    model : AdditiveModel
        Fitted model.
    features : Binner
        Bins of all columns.
    public_codes : ndarray of int, shape (n_columns, m)
        Bin codes of the public rows, whose mean margin is kept.
    directions : ndarray of int8, shape (n_columns,)
        1 for increasing, -1 for decreasing, 0 for no constraint.
    covariances : list of ndarray
        Posterior covariances of columns, then of trees. Where there are none, bins and leaves are
        weighted by their public rows.

    Returns
    -------
    AdditiveModel
        Model that is monotone exactly.
    """
    before = model.raw_predict(public_codes).mean()
    scores, leaf_scores = model.scores.copy(), list(model.leaf_scores)
    for column in np.flatnonzero(directions).tolist():
        bins = slice(int(model.offsets[column]), int(model.offsets[column + 1]))
        covariance = covariances[column] if covariances else None
        variances = _variances(covariance, public_codes[column], features.sizes[column])
        project = isotonic_projection(int(directions[column]))
        scores[0, bins] = np.rint(project(scores[0, bins].astype(np.float64), variances))
    tree_covariances = covariances[len(features.columns) :]
    for i, tree in enumerate(model.trees):
        projection = monotone_leaf_projection(tree, features.sizes, directions)
        if projection is not None:
            covariance = tree_covariances[i] if tree_covariances else None
            leaf_of_row = apply_tree(tree.splits, public_codes)
            variances = _variances(covariance, leaf_of_row, len(tree.leaves))
            projected = projection(leaf_scores[i][0].astype(np.float64), variances)
            leaf_scores[i] = np.rint(projected)[None].astype(np.int64)
    monotone = replace(model, scores=scores, leaf_scores=tuple(leaf_scores))
    change = np.rint(before - monotone.raw_predict(public_codes).mean()).astype(np.int64)
    return replace(monotone, intercepts=monotone.intercepts + change)


def _variances(covariances: Floats | None, codes: BinCodes, size: int) -> Floats:
    """Return the variances of scores, up to a common factor."""
    if covariances is None:
        return 1 / (np.bincount(codes, minlength=size) + 0.5)
    variances: Floats = np.maximum(np.diagonal(covariances[0]), 1e-9)
    return variances
