"""Shape functions, trees and pairs of a fitted model, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.boosting.fit import FittedModel
from skpublicdp.boosting.model import MARGIN_UNIT, AdditiveModel
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.typing import Floats


@dataclass(frozen=True, eq=False)
class Shape:
    """Shape function: contribution of one column to the log-odds or the mean outcome.

    Attributes
    ----------
    name : str
        Name of the column.
    cells : tuple of str
        Texts of its bins; the last one is for missing values.
    cuts : ndarray of float64
        Cut points of a number; empty for a categorical column.
    shares : ndarray of float64, shape (n_bins,)
        Fraction of the public rows in each bin; where it is 0, the score comes from the prior.
    scores : ndarray of float64, shape (n_targets, n_cells)
        Contribution of each bin, relative to an average public row.
    deviations : ndarray of float64, shape (n_targets, n_cells)
        Posterior standard deviation of each score: noise, private and public sampling error. Zero
        for voting trees.
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
        Its questions and the label each leaf was drawn with; what no row can reach is left out.
    names : tuple of str
        The columns it depends on.
    shares : ndarray of float64, shape (n_leaves,)
        Share of the public rows in each leaf.
    scores : ndarray of float64, shape (n_targets, n_leaves)
        What a row in each leaf adds to the log-odds, or to the mean outcome, from the lowest to the
        highest side.
    deviations : ndarray of float64, shape (n_targets, n_leaves)
        Standard deviation of what is believed of each. Zero where trees only vote.
    """

    rule: str
    names: tuple[str, ...]
    shares: Floats
    scores: Floats
    deviations: Floats


@dataclass(frozen=True, eq=False)
class Pair:
    """What two columns add together: all trees that depend on these two and no other.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    trees : tuple of int
        Positions in `trees_`.
    cells : tuple of tuple of str
        The cells of either in words; the last one is for missing values.
    cuts : tuple of ndarray of float64
        Where numbers are cut, empty for a categorical column.
    shares : ndarray of float64, shape (n_cells, n_cells of the other)
        Share of the public rows in each pair of cells.
    scores : ndarray of float64, shape (n_targets, n_cells, n_cells of the other)
        What a row in each pair of cells adds to the log-odds, or to the mean outcome.
    deviations : ndarray of float64, shape (n_targets, n_cells, n_cells of the other)
        Standard deviation of what is believed of each. Zero where trees only vote.
    """

    names: tuple[str, str]
    trees: tuple[int, ...]
    cells: tuple[tuple[str, ...], tuple[str, ...]]
    cuts: tuple[Floats, Floats]
    shares: Floats
    scores: Floats
    deviations: Floats


def shape_functions(fitted: FittedModel, unit: float = 1.0) -> tuple[tuple[Shape, ...], Floats]:
    """Return the shape function of each column, centred on the public rows, and the intercepts.

    Parameters
    ----------
    fitted : FittedModel
        Fitted model.
    unit : float, default=1.0
        Size of one margin unit on the output scale.
    """
    model, features = fitted.model, fitted.data.binner
    intercepts = model.intercepts.copy()
    columns = []
    for position, (start, feature, line) in enumerate(
        zip(features.offsets, features.columns, fitted.data.public_codes, strict=False)
    ):
        shares = np.bincount(line, minlength=feature.size) / len(line)
        scores = model.scores[:, start : start + feature.size]
        # an integer, so that sums over columns stay exact
        level = np.rint(scores @ shares).astype(np.int64)
        deviations = np.zeros(scores.shape)
        if fitted.covariances:
            deviations = unit * centred_deviations(fitted.covariances[position], shares)
        name, labels = feature.column.name, tuple(feature.labels)
        centred: Floats = (scores - level[:, None]) * np.float64(unit / MARGIN_UNIT)
        columns.append(Shape(name, labels, feature.cuts, shares, centred, deviations))
        intercepts += level
    return tuple(columns), np.asarray(intercepts * (unit / MARGIN_UNIT), dtype=np.float64)


def centred_deviations(covariances: Floats, shares: Floats) -> Floats:
    """Return the standard deviations of centred scores, shape (n_targets, n_bins)."""
    centring = np.eye(len(shares)) - shares
    variances = np.einsum("ij,tjk,ik->ti", centring, covariances, centring)
    deviations: Floats = np.sqrt(np.maximum(variances, 0.0))
    return deviations


def explained_trees(
    fitted: FittedModel, labels: NDArray[Any], unit: float = 1.0
) -> tuple[Tree, ...]:
    """Return the trees of a model, with their rules as text."""
    model, features = fitted.model, fitted.data.binner
    public = PublicSample(np.empty((0, len(features.names))), labels, features.names)
    known = fitted.covariances[len(features.columns) :]
    found = []
    trees_ = zip(model.trees, model.leaf_scores, columns_of_trees(model), strict=True)
    for position, (tree, scores, columns) in enumerate(trees_):
        deviations = np.zeros(scores.shape)
        if known:
            variances = np.diagonal(known[position], axis1=1, axis2=2)
            deviations = unit * np.sqrt(np.maximum(variances, 0.0))
        rule = DecisionTree(tree.splits, tree.leaves, public).rule()
        names = tuple(features.names[column] for column in columns)
        line = apply_tree(tree.splits, fitted.data.public_codes)
        shares = np.bincount(line, minlength=scores.shape[1]) / len(line)
        added: Floats = scores * np.float64(unit / MARGIN_UNIT)
        found.append(Tree(rule, names, shares, added, deviations))
    return tuple(found)


def columns_of_trees(model: AdditiveModel) -> list[tuple[int, ...]]:
    """Return the columns that the value of each tree depends on."""
    pairs = zip(model.trees, model.leaf_scores, strict=True)
    return [tree.depends_on([*map(str, scores.T.tolist())]) for tree, scores in pairs]


def explained_pairs(fitted: FittedModel, described: Sequence[Tree]) -> tuple[Pair, ...]:
    """Return the joint contribution of each pair of columns that trees depend on."""
    model, features, codes = fitted.model, fitted.data.binner, fitted.data.public_codes
    found: dict[tuple[int, ...], list[int]] = {}
    for position, columns in enumerate(columns_of_trees(model)):
        if len(columns) == 2:
            found.setdefault(columns, []).append(position)
    listed = []
    for columns, positions in found.items():
        first, second = (features.columns[column] for column in columns)
        rows = np.indices((first.size, second.size)).reshape(2, -1)
        lines = [rows[0]] * len(codes)  # of other columns nothing is asked
        lines[columns[1]] = rows[1]
        asked = [apply_tree(model.trees[position].splits, lines) for position in positions]
        leaf_scores = [described[position].scores for position in positions]
        variances = [described[position].deviations ** 2 for position in positions]
        shape = (len(model.intercepts), first.size, second.size)
        both = codes[columns[0]].astype(np.intp) * second.size + codes[columns[1]]
        counts = np.bincount(both, minlength=first.size * second.size)
        listed.append(
            Pair(
                names=(first.column.name, second.column.name),
                trees=tuple(positions),
                cells=(tuple(first.labels), tuple(second.labels)),
                cuts=(first.cuts, second.cuts),
                shares=(counts / len(both)).reshape(shape[1:]),
                scores=_sum_of_trees(leaf_scores, asked).reshape(shape),
                deviations=np.sqrt(_sum_of_trees(variances, asked)).reshape(shape),
            )
        )
    return tuple(listed)


def _sum_of_trees(of_leaves: Sequence[Floats], asked: Sequence[BinCodes]) -> Floats:
    """Return the sum of the leaf values of several trees."""
    parts = [values[:, leaf] for values, leaf in zip(of_leaves, asked, strict=True)]
    total: Floats = np.sum(parts, axis=0)
    return total


def feature_importances(model: AdditiveModel, public_codes: BinCodes) -> Floats:
    """Return each column's mean absolute deviation of its contribution over the public rows.

    The deviation of a tree is divided equally among the columns it depends on.
    """
    edges = zip(model.offsets[:-1], model.offsets[1:], strict=True)
    found = np.array(
        [
            _mean_absolute_deviation(model.scores[:, start:stop][:, line] / MARGIN_UNIT)
            for line, (start, stop) in zip(public_codes, edges, strict=True)
        ]
    )
    for tree, scores, asked in zip(
        model.trees, model.leaf_scores, columns_of_trees(model), strict=True
    ):
        if not asked:  # a constant tree
            continue
        found[list(asked)] += _mean_absolute_deviation(
            scores[:, tree.apply(public_codes.T)] / MARGIN_UNIT
        ) / len(asked)
    return found


def _mean_absolute_deviation(contributions: Floats) -> float:
    centred = contributions - contributions.mean(axis=1, keepdims=True)
    return float(np.abs(centred).mean())
