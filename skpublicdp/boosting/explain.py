"""Shape functions, trees and pairs of a fitted model, including their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes, Binner
from skpublicdp.boosting.fitted_model import FittedModel
from skpublicdp.boosting.model import MARGIN_UNIT, AdditiveModel
from skpublicdp.data.one_hot import OneHotColumn
from skpublicdp.hypotheses.base import PublicSample
from skpublicdp.hypotheses.trees import DecisionTree
from skpublicdp.typing import Floats


@dataclass(frozen=True, eq=False)
class Shape:
    """Shape function: the contribution of a single column to the log-odds or the mean outcome."""

    name: str  # name of the column
    cells: tuple[str, ...]  # Descriptions of the bins. The last bin is for missing values.
    cuts: Floats  # Cut points of a numeric column. The array is empty for a categorical column.
    # (n_bins,): fraction of the public rows in each bin. In bins without public rows, the scores
    # are determined by the prior alone.
    shares: Floats
    # (n_targets, n_bins): contribution of each bin, relative to the contribution for an average
    # public row
    scores: Floats
    # (n_targets, n_bins): posterior standard deviation of each score. The standard deviation
    # accounts for the noise and for the sampling errors of private and public rows. Zero for voting
    # trees.
    deviations: Floats


@dataclass(frozen=True, eq=False)
class Tree:
    """Description of a single tree of the model, including the values of its leaves."""

    # Description of the splits and of the label with which each leaf was drawn. Leaves that no row
    # can reach are omitted.
    rule: str
    names: tuple[str, ...]  # names of the columns that the tree depends on
    shares: Floats  # (n_leaves,): fraction of the public rows in each leaf
    # (n_targets, n_leaves): contribution of each leaf to the log-odds or the mean outcome. In the
    # first leaf no split is satisfied, and in the last leaf all splits are satisfied.
    scores: Floats
    # (n_targets, n_leaves): posterior standard deviation of each score. Zero for voting trees.
    deviations: Floats


@dataclass(frozen=True, eq=False)
class Pair:
    """Joint contribution of two columns: the sum of all trees on exactly these columns."""

    names: tuple[str, str]  # names of the columns
    trees: tuple[int, ...]  # positions of these trees in `trees_`
    # Descriptions of the bins of each column. The last bin is for missing values.
    cells: tuple[tuple[str, ...], tuple[str, ...]]
    # Cut points of each column. The array is empty for a categorical column.
    cuts: tuple[Floats, Floats]
    # (n_bins_first, n_bins_second): fraction of the public rows in each pair of bins
    shares: Floats
    # (n_targets, n_bins_first, n_bins_second): contribution of each pair of bins to the log-odds or
    # the mean outcome
    scores: Floats
    # (n_targets, n_bins_first, n_bins_second): posterior standard deviation of each score. Zero for
    # voting trees.
    deviations: Floats


def shape_functions(fitted: FittedModel, unit: float = 1.0) -> tuple[tuple[Shape, ...], Floats]:
    """Return the intercepts and each column's shape function, centred on the public rows.

    Parameters
    ----------
    unit : float, default=1.0
        Output per unit of margin. With a value of 1, the output is in log-odds.

    Returns
    -------
    tuple of Shape
        Shape function of each column.
    ndarray of float64, shape (n_targets,)
        Intercepts, which include the mean contribution of each column over the public rows.
    """
    model, binner = fitted.model, fitted.data.binner
    score_unit = np.float64(unit / MARGIN_UNIT)
    intercepts = model.intercepts.copy()
    shapes = []
    for position, bins in enumerate(binner.columns):
        start, stop = model.offsets[position], model.offsets[position + 1]
        scores = model.scores[:, start:stop]
        bin_of_row = fitted.data.public_codes[position]
        shares = np.bincount(bin_of_row, minlength=bins.size) / len(bin_of_row)
        # an integer keeps sums over columns exact
        public_mean = np.rint(scores @ shares).astype(np.int64)
        intercepts += public_mean
        centred = scores - public_mean[:, None]
        deviations = np.zeros(scores.shape)
        if fitted.covariances:
            deviations = unit * centred_deviations(fitted.covariances[position], shares)
        shape = Shape(
            name=bins.column.name,
            cells=tuple(bins.labels),
            cuts=bins.cuts,
            shares=shares,
            scores=centred * score_unit,
            deviations=deviations,
        )
        shapes.append(shape)
    return tuple(shapes), np.asarray(intercepts * score_unit, dtype=np.float64)


def centred_deviations(covariances: Floats, shares: Floats) -> Floats:
    """Return the posterior standard deviations of scores centred at their mean over public rows."""
    centring = np.eye(len(shares)) - shares
    variances = np.einsum("ij,tjk,ik->ti", centring, covariances, centring)
    return np.sqrt(np.maximum(variances, 0.0))


def describe_trees(
    fitted: FittedModel, labels: NDArray[Any], unit: float = 1.0
) -> tuple[Tree, ...]:
    """Return the rule of each tree, its leaf values and the fraction of public rows in each leaf.

    Parameters
    ----------
    labels : ndarray
        Names of the labels with which leaves can be drawn.
    unit : float, default=1.0
        Output per unit of margin. With a value of 1, the output is in log-odds.
    """
    model, binner = fitted.model, fitted.data.binner
    # the description of a tree's rule needs column and label names, but no rows
    names_and_labels = PublicSample(np.empty((0, len(binner.names))), labels, binner.names)
    tree_covariances = fitted.covariances[len(binner.columns) :]
    score_unit = np.float64(unit / MARGIN_UNIT)
    described = []
    for position, columns in enumerate(columns_of_trees(model)):
        tree = model.trees[position]
        leaf_scores = model.leaf_scores[position]
        n_leaves = leaf_scores.shape[1]
        deviations = np.zeros(leaf_scores.shape)
        if tree_covariances:
            variances = np.diagonal(tree_covariances[position], axis1=1, axis2=2)
            deviations = unit * np.sqrt(np.maximum(variances, 0.0))
        named_tree = DecisionTree(tree.splits, tree.leaves, names_and_labels)
        leaf_of_row = apply_tree(tree.splits, fitted.data.public_codes)
        described_tree = Tree(
            rule=named_tree.rule(),
            names=tuple(binner.names[column] for column in columns),
            shares=np.bincount(leaf_of_row, minlength=n_leaves) / len(leaf_of_row),
            scores=leaf_scores * score_unit,
            deviations=deviations,
        )
        described.append(described_tree)
    return tuple(described)


def columns_of_trees(model: AdditiveModel) -> list[tuple[int, ...]]:
    """For each tree, return the positions of the columns on which its value depends.

    A split is ignored if its two subtrees have equal scores.
    """
    columns = []
    for tree, leaf_scores in zip(model.trees, model.leaf_scores, strict=True):
        leaf_texts = [str(scores) for scores in leaf_scores.T.tolist()]  # equal scores, equal texts
        columns.append(tree.relevant_columns(leaf_texts))
    return columns


def describe_pairs(fitted: FittedModel, described_trees: Sequence[Tree]) -> tuple[Pair, ...]:
    """Return the joint contribution of each pair of columns on which some tree depends.

    For each pair, all trees that depend on exactly these two columns are evaluated on the grid of
    bins and added up. Trees that depend on a single column or on more than two columns are omitted.

    Parameters
    ----------
    described_trees : sequence of Tree
        Trees as returned by `describe_trees`.
    """
    model, binner, codes = fitted.model, fitted.data.binner, fitted.data.public_codes
    trees_of_pair: dict[tuple[int, ...], list[int]] = {}
    for position, columns in enumerate(columns_of_trees(model)):
        if len(columns) == 2:
            trees_of_pair.setdefault(columns, []).append(position)
    pairs = []
    for columns, positions in trees_of_pair.items():
        first, second = (binner.columns[column] for column in columns)
        table_shape = first.size, second.size
        first_bins, second_bins = np.indices(table_shape).reshape(2, -1)  # (n_cells,)
        # codes of all columns; since the trees depend on only two columns, the other codes are
        # arbitrary
        grid_codes: list[BinCodes] = [first_bins] * len(codes)
        grid_codes[columns[1]] = second_bins
        leaves = [apply_tree(model.trees[position].splits, grid_codes) for position in positions]
        trees = [described_trees[position] for position in positions]
        leaf_scores = [tree.scores for tree in trees]
        leaf_variances = [tree.deviations**2 for tree in trees]
        scores = _sum_leaf_values(leaf_scores, leaves)  # (n_targets, n_cells)
        variances = _sum_leaf_values(leaf_variances, leaves)
        first_codes, second_codes = (codes[column] for column in columns)
        cell_of_row = first_codes.astype(np.intp) * second.size + second_codes
        counts = np.bincount(cell_of_row, minlength=len(first_bins))
        described_pair = Pair(
            names=(first.column.name, second.column.name),
            trees=tuple(positions),
            cells=(tuple(first.labels), tuple(second.labels)),
            cuts=(first.cuts, second.cuts),
            shares=(counts / len(cell_of_row)).reshape(table_shape),
            scores=scores.reshape(-1, *table_shape),
            deviations=np.sqrt(variances).reshape(-1, *table_shape),
        )
        pairs.append(described_pair)
    return tuple(pairs)


def _sum_leaf_values(leaf_values: Sequence[Floats], leaves: Sequence[BinCodes]) -> Floats:
    """For each row, return the sum of its leaf values over several trees, shape (n_targets, n)."""
    contributions = [values[:, leaf] for values, leaf in zip(leaf_values, leaves, strict=True)]
    return np.sum(contributions, axis=0)


def feature_importances(model: AdditiveModel, public_codes: BinCodes) -> Floats:
    """Return the importance of each column, shape (n_columns,), in units of the margin.

    The importance is the mean absolute deviation of the column's contribution over the public rows.
    The deviation of a tree is divided equally among the columns on which the tree depends.

    Parameters
    ----------
    model : AdditiveModel
        Fitted model.
    public_codes : ndarray of int, shape (n_columns, m)
        Bin codes of the public rows.
    """
    importances = np.zeros(len(public_codes))
    for position, bin_of_row in enumerate(public_codes):
        start, stop = model.offsets[position], model.offsets[position + 1]
        contributions = model.scores[:, start:stop][:, bin_of_row] / MARGIN_UNIT
        importances[position] = _mean_absolute_deviation(contributions)
    for tree, leaf_scores, columns in zip(
        model.trees, model.leaf_scores, columns_of_trees(model), strict=True
    ):
        if not columns:  # a constant tree
            continue
        contributions = leaf_scores[:, tree.apply(public_codes.T)] / MARGIN_UNIT
        importances[list(columns)] += _mean_absolute_deviation(contributions) / len(columns)
    return importances


def source_importances(model: AdditiveModel, binner: Binner, public_codes: BinCodes) -> Floats:
    """Return the importance of each column of the user's table, in units of the margin.

    The importance of a one-hot column is divided among its members. The share of a member is
    proportional to the absolute deviations of the public rows in which the member is 1. If all
    deviations are zero, the shares are proportional to the number of these rows.

    Parameters
    ----------
    model : AdditiveModel
        Fitted model.
    public_codes : ndarray of int, shape (n_columns, m)
        Bin codes of the public rows.
    """
    importances = []
    for position, importance in enumerate(feature_importances(model, public_codes)):
        bins = binner.columns[position]
        if not isinstance(bins.column, OneHotColumn):
            importances.append([importance])
            continue
        start, stop = model.offsets[position], model.offsets[position + 1]
        counts = np.bincount(public_codes[position], minlength=bins.size).astype(np.float64)
        counts[-2] = 0  # the bin for other categories and for members that are 0 in all public rows
        scores = model.scores[:, start:stop]
        centred = scores - (scores @ counts)[:, None] / counts.sum()
        total_deviations = np.abs(centred).sum(axis=0) * counts  # (n_bins,)
        member_codes = list(bins.column.category_codes)
        bin_of_member = bins.bin_of_category[member_codes]
        weights = total_deviations[bin_of_member]
        if not weights.any():  # the model consists of trees only
            weights = counts[bin_of_member]
        importances.append(importance * weights / weights.sum())
    return np.concatenate(importances)


def _mean_absolute_deviation(contributions: Floats) -> float:
    """Return the mean absolute deviation over the rows, averaged over the targets."""
    centred = contributions - contributions.mean(axis=1, keepdims=True)
    return float(np.abs(centred).mean())
