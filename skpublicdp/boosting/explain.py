"""What a fitted model says, in public numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.features import Codes, FeatureMap
from skpublicdp.boosting.learner import Learned
from skpublicdp.boosting.scores import UNIT, Model

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shape:
    """What one column adds to the log-odds.

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
        What a row in each leaf adds to the log-odds, from the lowest to the highest side.
    """

    rule: str
    scores: Floats


def shapes(
    features: FeatureMap, learned: Learned, public_codes: Codes
) -> tuple[tuple[Shape, ...], Floats]:
    """Return the shape of each column, and the intercepts that go with them."""
    model = learned.model
    intercepts: Floats = model.intercepts / UNIT
    columns = []
    for start, feature, line in zip(
        features.offsets, features.features, public_codes, strict=False
    ):
        cells = slice(start, start + feature.size)
        shares = np.bincount(line, minlength=feature.size) / len(line)
        scores = model.scores[:, cells] / UNIT
        level = scores @ shares
        centring = np.eye(feature.size) - shares
        deviations = np.zeros(scores.shape)
        for target, belief in enumerate(learned.beliefs):
            covariance = centring @ belief.covariance[cells, cells] @ centring.T
            deviations[target] = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        name, labels = feature.column.name, tuple(feature.labels)
        centred = scores - level[:, None]
        columns.append(Shape(name, labels, feature.cuts, shares, centred, deviations))
        intercepts = intercepts + level
    return tuple(columns), intercepts


def describe(model: Model) -> tuple[Tree, ...]:
    """Return the trees in words."""
    pairs = zip(model.trees, model.leaf_scores, strict=True)
    return tuple(Tree(tree.rule(), scores / UNIT) for tree, scores in pairs)


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
    columns: Sequence[Shape], trees: Sequence[Tree], found: Floats, labels: Sequence[str]
) -> str:
    """Return columns, the most important first, and trees as lines of text."""
    lines = []
    for position in np.argsort(-found, kind="stable").tolist():
        shape = columns[position]
        lines.append(f"{shape.name} (importance {found[position]:.2f})")
        width = max(map(len, shape.cells))
        for cell, share, scores, deviations in zip(
            shape.cells, shape.shares, shape.scores.T, shape.deviations.T, strict=True
        ):
            if share:
                parts = [
                    f"{score:+.2f} ± {2 * deviation:.2f} for {label}"
                    for score, deviation, label in zip(scores, deviations, labels, strict=True)
                ]
                lines.append(f"    {cell:{width}}  {', '.join(parts)}")
    for tree in trees:
        lines.append("tree")
        lines += [f"    {line}" for line in tree.rule.splitlines()]
        for scores, label in zip(tree.scores, labels, strict=True):
            leaves = ", ".join(f"{score:+.2f}" for score in scores)
            lines.append(f"    leaves, from no to yes: {leaves} for {label}")
    return "\n".join(lines)
