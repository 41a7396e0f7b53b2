"""Integer margins of rows, and what they leave to be learned: exact, and each row on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import Codes
from skpublicdp.hypotheses.trees import DecisionTree

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MARGIN_UNIT = 1024
"""A margin of 1 (in logits) as an integer; scores are rounded to it, so that sums are exact."""

TARGET_LEVELS = 4096
"""Outcomes from 0 to 1 are rounded to multiples of one over this."""

MAX_MARGIN = 16 * MARGIN_UNIT
"""Margins beyond are treated alike: the probability is within 1.2e-7 of 0 or 1."""

MAX_GRADIENT = 256
"""The longest residual, ½, as an integer."""

SIGMOID_TABLE = 1 / (1 + np.exp(-np.arange(-MAX_MARGIN, MAX_MARGIN + 1) / MARGIN_UNIT))
"""The probability of each margin, looked up so that it depends on the margin alone."""


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """Scores of cells and votes of trees: everything about it is released.

    Attributes
    ----------
    scores : ndarray of int64, shape (n_targets, n_cells)
        What a cell adds to a margin. There is one target for two labels, and one for each label
        where there are more.
    intercepts : ndarray of int64, shape (n_targets,)
        What every row has.
    offsets : ndarray of intp
        Where the cells of each column begin.
    trees : tuple of DecisionTree
        Trees besides.
    leaf_scores : tuple of ndarray of int64, shape (n_targets, n_leaves)
        What each of their leaves adds.
    """

    scores: Integers
    intercepts: Integers
    offsets: NDArray[np.intp]
    trees: tuple[DecisionTree, ...] = ()
    leaf_scores: tuple[Integers, ...] = ()

    def raw_predict(self, codes: Codes) -> Integers:
        """Return integer margins, shape (n_targets, n); each row on its own."""
        margins = np.repeat(self.intercepts[:, None], codes.shape[1], axis=1)
        for line, start, stop in zip(codes, self.offsets[:-1], self.offsets[1:], strict=True):
            margins += np.take(self.scores[:, start:stop], line, axis=1)
        for tree, scores in zip(self.trees, self.leaf_scores, strict=True):
            margins += np.take(scores, apply_tree(tree.splits, codes), axis=1)
        return margins

    def with_tree(self, tree: DecisionTree, scores: Integers) -> AdditiveModel:
        """Add a tree."""
        trees, leaf_scores = (*self.trees, tree), (*self.leaf_scores, scores)
        return AdditiveModel(self.scores, self.intercepts, self.offsets, trees, leaf_scores)


def null_model(offsets: NDArray[np.intp], targets: int) -> AdditiveModel:
    """Return the model to begin with: every label is equally likely."""
    center = 0 if targets == 1 else -round(MARGIN_UNIT * np.log(targets - 1))
    scores = np.zeros((targets, int(offsets[-1])), dtype=np.int64)
    return AdditiveModel(scores, np.full(targets, center, dtype=np.int64), offsets)


def probabilities(margins: NDArray[np.integer[Any]]) -> Floats:
    """Return the probability of each target, shape (n_targets, n)."""
    looked_up: Floats = np.take(
        SIGMOID_TABLE, np.clip(margins, -MAX_MARGIN, MAX_MARGIN) + MAX_MARGIN
    )
    return looked_up


def gradient_scale(probability: Floats, pure: bool) -> Floats:
    """Return the v(x) with which no label leaves a residual of more than a half.

    Parameters
    ----------
    probability : ndarray of float64, shape (n_targets, n)
        Probability of each target.
    pure : bool
        Whether several targets are measured by their sum, or by their Euclidean length.

    Returns
    -------
    ndarray of float64, shape (n,)
        ½ / max over labels of the length of (1[label] - probability).
    """
    if len(probability) == 1:
        longest: Floats = np.maximum(probability[0], 1 - probability[0])
    elif pure:
        longest = probability.sum(axis=0) + (1 - 2 * probability).max(axis=0)
    else:
        longest = np.sqrt((probability**2).sum(axis=0) + (1 - 2 * probability).max(axis=0))
    scaled: Floats = 0.5 / longest
    return scaled


def scaled_gradients(
    margins: NDArray[np.integer[Any]], y: NDArray[np.intp], pure: bool
) -> Integers:
    """Return v(x) (1[y] - probability) as integers, shape (n_targets, n); y itself for one target.

    No row's residual is longer than `MAX_GRADIENT` (by the sum of the targets where `pure`).
    """
    probability = probabilities(margins)
    outcome = y == np.arange(len(probability))[:, None] if len(probability) > 1 else y
    exact = 2 * MAX_GRADIENT * gradient_scale(probability, pure) * (outcome - probability)
    # several targets: towards 0, and by a hair more, so that no sum of squares is too long
    rounded: Integers = (
        np.trunc(exact * (1 - 1e-12)) if len(exact) > 1 else np.rint(exact)
    ).astype(np.int64)
    return rounded


def boosting_weights(
    margins: NDArray[np.integer[Any]], y: NDArray[np.intp], heaviest: int
) -> Integers:
    """Return what a row weighs in the next tree: min(1, 2 (1 - p)), p being that of its label.

    Returns
    -------
    ndarray of int64, shape (n,)
        From 0 to `heaviest`.
    """
    if len(margins) == 1:
        own = np.where(y == 1, margins[0], -margins[0])
    else:
        # against the strongest other label
        others = margins.astype(np.int64)
        others[y, np.arange(len(y))] = np.iinfo(np.int64).min // 2
        own = margins[y, np.arange(len(y))] - others.max(axis=0)
    wrong = probabilities(-own)
    rounded: Integers = np.rint(heaviest * np.minimum(1, 2 * wrong)).astype(np.int64)
    return rounded
