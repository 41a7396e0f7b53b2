"""Additive model with integer scores, and the scaled gradients of rows under this model.

All values are integers, and the values of each row depend only on this row and the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.typing import Floats, Integers

MARGIN_UNIT = 1024
"""Integer that represents a margin of 1 in log-odds. Because scores are integers, their sums are
exact."""

MAX_MARGIN = 16 * MARGIN_UNIT
"""Upper bound on the absolute margin in lookup tables. At ±16, the probability is within 1.2e-7 of
0 or 1."""

MAX_GRADIENT = 256
"""Integer that represents 1/2, which is the largest norm of a scaled gradient."""

SIGMOID_TABLE = 1 / (1 + np.exp(-np.arange(-MAX_MARGIN, MAX_MARGIN + 1) / MARGIN_UNIT))
"""Probability for each integer margin. With a lookup table, equal margins have equal results,
regardless of the row's position in an array."""


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """Additive model with integer scores of bins and tree leaves, all of which are released."""

    # (n_targets, n_bins): contribution of each bin to the margin, in units of 1 / MARGIN_UNIT.
    # There is a single target for two labels, and one target per label otherwise.
    scores: Integers
    intercepts: Integers  # (n_targets,)
    # (n_columns + 1,): index of the first bin of each column among all bins, followed by the total
    # number of bins
    offsets: NDArray[np.intp]
    trees: tuple[DecisionTree, ...] = ()  # interaction or voting trees
    # (n_targets, n_leaves): contribution of each leaf to the margin, one array for each tree
    leaf_scores: tuple[Integers, ...] = ()

    def raw_predict(self, codes: BinCodes) -> Integers:
        """Return the margins of binned rows, as integers in units of 1 / MARGIN_UNIT."""
        n_rows = codes.shape[1]
        margins = np.repeat(self.intercepts[:, None], n_rows, axis=1)
        for bins, (start, stop) in zip(codes, pairwise(self.offsets), strict=True):
            column_scores = self.scores[:, start:stop]
            margins += np.take(column_scores, bins, axis=1)
        for tree, leaf_scores in zip(self.trees, self.leaf_scores, strict=True):
            leaves = apply_tree(tree.splits, codes)
            margins += np.take(leaf_scores, leaves, axis=1)
        return margins

    def with_tree(self, tree: DecisionTree, scores: Integers) -> AdditiveModel:
        """Return the model extended by a tree and its scores, shape (n_targets, n_leaves)."""
        trees, leaf_scores = (*self.trees, tree), (*self.leaf_scores, scores)
        return AdditiveModel(self.scores, self.intercepts, self.offsets, trees, leaf_scores)


def null_model(offsets: NDArray[np.intp], n_targets: int) -> AdditiveModel:
    """Return the null model, which assigns the same probability to every label in all rows."""
    # one target represents two labels; the log-odds of the probability 1 / K are -log(K - 1)
    intercept = 0 if n_targets == 1 else -round(MARGIN_UNIT * np.log(n_targets - 1))
    scores = np.zeros((n_targets, int(offsets[-1])), dtype=np.int64)
    return AdditiveModel(scores, np.full(n_targets, intercept, dtype=np.int64), offsets)


def probabilities(margins: NDArray[np.integer[Any]]) -> Floats:
    """Return the logistic function of integer margins, looked up in a table."""
    return np.take(SIGMOID_TABLE, np.clip(margins, -MAX_MARGIN, MAX_MARGIN) + MAX_MARGIN)


def gradient_scale(probability: Floats, pure: bool) -> Floats:
    """Return the factor v(x) by which gradients are scaled so that their norm is at most 1/2.

    The factor is 1/2 divided by the largest norm of (1[label] - probability) over all labels. The
    factor does not depend on the row's own label.
    """
    if len(probability) == 1:
        max_norm: Floats = np.maximum(probability[0], 1 - probability[0])
    elif pure:
        max_norm = probability.sum(axis=0) + (1 - 2 * probability).max(axis=0)
    else:
        max_norm = np.sqrt((probability**2).sum(axis=0) + (1 - 2 * probability).max(axis=0))
    return 0.5 / max_norm


def scaled_gradients(
    margins: NDArray[np.integer[Any]], y: NDArray[np.intp], pure: bool
) -> Integers:
    """Return the scaled gradients v(x) (1[y] - probability), shape (n_targets, n).

    Gradients are integers in units of 1 / (2 MAX_GRADIENT). The norm of a row's gradient over the
    targets is at most `MAX_GRADIENT`. The norm used is the 1-norm if `pure` is true, and otherwise
    the Euclidean norm.
    """
    probability = probabilities(margins)
    n_targets = len(probability)
    has_one_target = n_targets == 1
    labels = np.arange(n_targets)
    outcome = y if has_one_target else y == labels[:, None]
    scale = gradient_scale(probability, pure)
    exact = 2 * MAX_GRADIENT * scale * (outcome - probability)
    # with several targets, rounding towards 0 does not increase the norm, apart from floating-point
    # errors that are absorbed by the factor 1 - 1e-12
    integers = np.rint(exact) if has_one_target else np.trunc(exact * (1 - 1e-12))
    return integers.astype(np.int64)


def boosting_weights(
    margins: NDArray[np.integer[Any]], y: NDArray[np.intp], max_weight: int
) -> Integers:
    """Return each row's boosting weight min(1, 2 (1 - p)), where p is the probability of its label.

    Misclassified rows have full weight, and all other rows have smaller weights. A weight of 1 is
    the integer `max_weight`.
    """
    if len(margins) == 1:
        margin_of_label = np.where(y == 1, margins[0], -margins[0])
    else:
        # margin relative to the largest margin of any other label
        rows = np.arange(len(y))
        other_margins = margins.astype(np.int64)
        # too low to be the maximum, but only half of the lowest integer, so that no difference
        # overflows
        other_margins[y, rows] = np.iinfo(np.int64).min // 2
        largest_other = other_margins.max(axis=0)
        margin_of_label = margins[y, rows] - largest_other
    error_probability = probabilities(-margin_of_label)
    weights = max_weight * np.minimum(1, 2 * error_probability)
    return np.rint(weights).astype(np.int64)
