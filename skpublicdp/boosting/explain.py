"""What a fitted model says, in public numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.features import Codes
from skpublicdp.boosting.learner import Learned
from skpublicdp.boosting.scores import UNIT, Model
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.trees import DecisionTree

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shape:
    """What one column adds to the log-odds, or to the mean outcome.

    Attributes
    ----------
    name : str
        Name of the column.
    cells : tuple of str
        Its cells in words; the last one is for missing values.
    cuts : ndarray of float64
        Where numbers are cut, empty for a categorical column.
    shares : ndarray of float64, shape (n_cells,)
        Share of the public rows in each cell; where it is 0 nothing but the prior is known.
    scores : ndarray of float64, shape (n_targets, n_cells)
        What a row in each cell adds to that of an average public row.
    deviations : ndarray of float64, shape (n_targets, n_cells)
        Standard deviation of what is believed of each: of the noise, of the private sample and of
        the public one. Zero where trees only vote.
    """

    name: str
    cells: tuple[str, ...]
    cuts: Floats
    shares: Floats
    scores: Floats
    deviations: Floats


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree of the model.

    Attributes
    ----------
    rule : str
        Its questions and the label each leaf was drawn with.
    scores : ndarray of float64, shape (n_targets, n_leaves)
        What a row in each leaf adds to the log-odds, or to the mean outcome, from the lowest to the
        highest side.
    """

    rule: str
    scores: Floats


def shapes(learned: Learned, unit: float = 1.0) -> tuple[tuple[Shape, ...], Floats]:
    """Return the shape of each column, and the intercepts that go with them.

    Parameters
    ----------
    learned : Learned
        What was learned.
    unit : float, default=1.0
        What a margin of 1 is called.
    """
    model, features = learned.model, learned.cells.features
    intercepts = np.asarray(model.intercepts * (unit / UNIT), dtype=np.float64)
    columns = []
    for position, (start, feature, line) in enumerate(
        zip(features.offsets, features.features, learned.cells.public_codes, strict=False)
    ):
        cells = slice(start, start + feature.size)
        shares = np.bincount(line, minlength=feature.size) / len(line)
        scores = model.scores[:, cells] * (unit / UNIT)
        level = scores @ shares
        deviations = np.zeros(scores.shape)
        if learned.covariances:
            deviations = unit * centred_deviations(learned.covariances[position], shares)
        name, labels = feature.column.name, tuple(feature.labels)
        centred = scores - level[:, None]
        columns.append(Shape(name, labels, feature.cuts, shares, centred, deviations))
        intercepts = intercepts + level
    return tuple(columns), intercepts


def centred_deviations(covariances: Floats, shares: Floats) -> Floats:
    """Return standard deviations of scores beside their mean, shape (n_targets, n_cells)."""
    centring = np.eye(len(shares)) - shares
    variances = np.einsum("ij,tjk,ik->ti", centring, covariances, centring)
    deviations: Floats = np.sqrt(np.maximum(variances, 0.0))
    return deviations


def describe(
    model: Model, labels: NDArray[Any], names: tuple[str, ...], unit: float = 1.0
) -> tuple[Tree, ...]:
    """Return the trees in words, those of given labels."""
    public = PublicSample(np.empty((0, len(names))), labels, names)
    words = [DecisionTree(tree.splits, tree.leaves, public).rule() for tree in model.trees]
    added = [(unit * scores / UNIT).astype(np.float64) for scores in model.leaf_scores]
    return tuple(map(Tree, words, added))


def importances(model: Model, public_codes: Codes) -> Floats:
    """Return each column's mean distance from its mean contribution over the public rows.

    What a tree adds is parted equally among the columns it asks about.
    """
    edges = zip(model.offsets[:-1], model.offsets[1:], strict=True)
    found = np.array(
        [
            _spread(model.scores[:, start:stop][:, line] / UNIT)
            for line, (start, stop) in zip(public_codes, edges, strict=True)
        ]
    )
    for tree, scores in zip(model.trees, model.leaf_scores, strict=True):
        asked = np.unique(tree.splits.features)
        if not len(asked):  # public rows that are all alike leave nothing to ask
            continue
        found[asked] += _spread(scores[:, tree.apply(public_codes.T)] / UNIT) / len(asked)
    return found


def _spread(contributions: Floats) -> float:
    centred = contributions - contributions.mean(axis=1, keepdims=True)
    return float(np.abs(centred).mean())


def summary(
    columns: Sequence[Shape],
    trees: Sequence[Tree],
    found: Floats,
    labels: Sequence[str],
    decimals: int = 2,
) -> str:
    """Return columns, the most important first, and trees as lines of text.

    There is a label for each target; an empty one is left out.
    """
    lines = []
    wanted = [f" for {label}" * bool(label) for label in labels]
    for position in np.argsort(-found, kind="stable").tolist():
        shape = columns[position]
        lines.append(f"{shape.name} (importance {found[position]:.{decimals}f})")
        width = max(map(len, shape.cells))
        for cell, share, scores, deviations in zip(
            shape.cells, shape.shares, shape.scores.T, shape.deviations.T, strict=True
        ):
            if share:
                parts = [
                    f"{score:+.{decimals}f} ± {2 * deviation:.{decimals}f}{label}"
                    for score, deviation, label in zip(scores, deviations, wanted, strict=True)
                ]
                lines.append(f"    {cell:{width}}  {', '.join(parts)}")
    for tree in trees:
        lines.append("tree")
        lines += [f"    {line}" for line in tree.rule.splitlines()]
        for scores, label in zip(tree.scores, wanted, strict=True):
            leaves = ", ".join(f"{score:+.{decimals}f}" for score in scores)
            lines.append(f"    leaves, from no to yes: {leaves}{label}")
    return "\n".join(lines)
