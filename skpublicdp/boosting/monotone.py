"""Monotone constraints, imposed by projecting fitted scores, which is post-processing."""

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
from skpublicdp.data.schema import Schema, column_position
from skpublicdp.hypotheses.trees import WHOLE_LINE, DecisionTree, IntervalUnion, intersect_interval
from skpublicdp.typing import Floats

Directions = NDArray[np.int8]
"""Constraint on each column: 1 for increasing, -1 for decreasing, and 0 for none."""

Projection = Callable[[Floats, Floats], Floats]
"""Function that maps the scores of a term and their variances, both of shape (size,), to the
nearest scores that satisfy a constraint."""


def validate_monotonic_cst(monotonic_cst: Any, schema: Schema) -> Directions | None:
    """Return each column's monotone constraint (1, 0 or -1), or None if no column has one.

    Raises
    ------
    ValueError
        If the values or the shape are invalid, a column is unknown, or a constrained column is
        categorical.
    """
    if monotonic_cst is None:
        return None
    names = list(schema.names)
    sequence = monotonic_cst
    if isinstance(monotonic_cst, Mapping):
        sequence = [0] * len(names)
        for column, direction in monotonic_cst.items():
            position = column_position(column, names, schema.labels)
            if position is None:
                raise ValueError(
                    f"monotonic_cst must name columns of X; X has no column {column!r}."
                )
            sequence[position] = direction
    values, failure = call_silently(np.asarray, sequence)
    if failure or values.shape != (len(names),) or not np.isin(values, (-1, 0, 1)).all():
        raise ValueError(
            f"monotonic_cst must be a dict from columns to values or a sequence of {len(names)} "
            "values, one per column. Each value must be 1 (increasing), -1 (decreasing) or 0; got "
            f"{monotonic_cst!r}."
        )
    directions = values.astype(np.int8)
    for column, direction in zip(schema.columns, directions, strict=True):
        if direction and column.categorical:
            raise ValueError(
                f"monotonic_cst must be 0 for categorical columns, and column {column.name} is "
                "categorical."
            )
    return directions if directions.any() else None


def isotonic_projection(direction: int) -> Projection:
    """Return a function that projects a column's bin scores onto monotone scores.

    The projection is an isotonic regression. The score of the last bin is not constrained, since
    this bin contains missing values.
    """

    def project(scores: Floats, variances: Floats) -> Floats:
        """Return the monotone scores that minimise the precision-weighted squared distance."""
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
    """Return a function for the isotonic projection of leaf values, or None if unconstrained.

    Two leaves are ordered if they contain rows that differ only in one constrained column. A tree
    is monotone if its values respect this partial order. An upper set contains all leaves above
    each of its members, and a lower set contains all leaves below each of its members. Since there
    are few leaves, the projection enumerates all upper and lower sets. Directions are 1 for
    increasing, -1 for decreasing, 0 for no constraint.
    """
    n_leaves, order = len(tree.leaves), list(_ordered_leaves(tree, sizes, directions))
    if not order:
        return None
    # every nonempty set of leaves is a bit mask
    masks = np.arange(1, 1 << n_leaves)
    contains = (masks[:, None] >> np.arange(n_leaves)) & 1 == 1  # (n_sets, n_leaves)
    is_upper_set, is_lower_set = np.ones(len(masks), dtype=bool), np.ones(len(masks), dtype=bool)
    for low, high in order:
        is_upper_set &= ~contains[:, low] | contains[:, high]
        is_lower_set &= ~contains[:, high] | contains[:, low]

    def project(scores: Floats, variances: Floats) -> Floats:
        """Compute the isotonic fit with the max-min formula over upper and lower sets.

        The result is the maximum over upper sets of the minimum over lower sets of weighted means
        (Robertson, Wright and Dykstra 1988, Theorem 1.4.4). The results are ordered exactly,
        despite rounding errors in the means.
        """
        weights = 1 / variances
        set_means = (contains @ (weights * scores)) / (contains @ weights)
        # indexed by the bit mask of the set; the empty set has no mean
        mean_of_mask = np.append(np.nan, set_means)
        intersections = masks[is_upper_set][:, None] & masks[is_lower_set]
        means = mean_of_mask[intersections]  # (n_upper_sets, n_lower_sets)
        projected = []
        for leaf in range(n_leaves):
            # an upper set and a lower set that both contain the leaf have a nonempty intersection
            in_upper_set = contains[is_upper_set, leaf]
            in_lower_set = contains[is_lower_set, leaf]
            means_with_leaf = means[in_upper_set][:, in_lower_set]
            projected.append(means_with_leaf.min(axis=1).max())
        return np.array(projected)

    return project


def _ordered_leaves(
    tree: DecisionTree, sizes: list[int], directions: Directions
) -> Iterator[tuple[int, int]]:
    """Yield all pairs (lower, higher) of leaves whose values a monotone constraint orders.

    Two leaves are ordered if their regions overlap in all columns except one constrained column,
    and if in this column some bin of the first region precedes some bin of the second region.
    """
    columns = np.unique(tree.splits.features).tolist()
    # bins of each leaf in each column, as unions of half-open intervals (low, high]
    regions = [
        {
            column: intersect_interval(region.get(column, WHOLE_LINE), -1, sizes[column] - 1)
            for column in columns
        }
        for region in tree.regions()
    ]
    constrained_columns = [column for column in columns if directions[column]]
    for (a, region_a), (b, region_b) in permutations(enumerate(regions), 2):
        for column in constrained_columns:
            overlap_elsewhere = all(
                _overlap(region_a[other], region_b[other]) for other in columns if other != column
            )
            # excluding the last bin, which contains missing values
            last_number_bin = sizes[column] - 2
            bins_a = intersect_interval(region_a[column], -1, last_number_bin)
            bins_b = intersect_interval(region_b[column], -1, last_number_bin)
            if not (overlap_elsewhere and bins_a and bins_b):
                continue
            first_bin_of_a, last_bin_of_b = bins_a[0][0] + 1, bins_b[-1][1]
            if first_bin_of_a < last_bin_of_b:
                yield (a, b) if directions[column] > 0 else (b, a)


def _overlap(first: IntervalUnion, second: IntervalUnion) -> bool:
    """Indicate whether two unions of intervals intersect."""
    return any(intersect_interval(first, low, high) for low, high in second)


def project_monotone(
    model: AdditiveModel,
    binner: Binner,
    public_codes: BinCodes,  # (n_columns, m)
    directions: Directions,  # (n_columns,)
    covariances: list[Floats],
) -> AdditiveModel:
    """Return the nearest monotone model, obtained by projecting each column and tree separately.

    Since every term is monotone, so is their sum. The mean margin of the public rows is preserved.
    The model must have one target. The covariances are those of the columns, followed by those of
    the trees. Terms without one are weighted by the number of public rows in each bin or leaf.
    """
    scores = model.scores.copy()
    for column in np.flatnonzero(directions).tolist():
        start, stop = model.offsets[column], model.offsets[column + 1]
        column_scores = scores[0, start:stop]  # a view of `scores`
        n_bins = binner.sizes[column]
        covariance = covariances[column] if covariances else None
        variances = _variances(covariance, public_codes[column], n_bins)
        direction = int(directions[column])
        project = isotonic_projection(direction)
        projected = project(column_scores.astype(np.float64), variances)
        column_scores[:] = np.rint(projected)

    leaf_scores = list(model.leaf_scores)
    tree_covariances = covariances[len(binner.columns) :]
    for i, tree in enumerate(model.trees):
        projection = monotone_leaf_projection(tree, binner.sizes, directions)
        if projection is None:
            continue
        covariance = tree_covariances[i] if tree_covariances else None
        leaf_of_row = apply_tree(tree.splits, public_codes)
        variances = _variances(covariance, leaf_of_row, len(tree.leaves))
        unconstrained = leaf_scores[i][0].astype(np.float64)
        projected = projection(unconstrained, variances)
        leaf_scores[i] = np.rint(projected)[None].astype(np.int64)

    monotone = replace(model, scores=scores, leaf_scores=tuple(leaf_scores))
    mean_margin = model.raw_predict(public_codes).mean()
    projected_mean = monotone.raw_predict(public_codes).mean()
    change = np.rint(mean_margin - projected_mean).astype(np.int64)
    return replace(monotone, intercepts=monotone.intercepts + change)


def _variances(covariances: Floats | None, codes: BinCodes, size: int) -> Floats:
    """Return the relative variances of one term's scores, shape (size,).

    Variances are defined up to a common factor. If there is no posterior covariance, the variance
    of a bin with k public rows is 1 / (k + 1/2).
    """
    if covariances is None:
        return 1 / (np.bincount(codes, minlength=size) + 0.5)
    return np.maximum(np.diagonal(covariances[0]), 1e-9)
