"""Terms of a fitted model: shapes, pairs and trees, their importance, and local explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes, Binner
from skpublicdp.boosting.fitted_model import FittedModel, PublicTerm
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

    With a unit of 1, the output is in log-odds. The intercepts, shape (n_targets,), include the
    mean contribution of each column over the public rows.
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


N_TERMS_SHOWN = 10
"""Number of terms that are described in full. For the remaining terms, only the names are given."""

MAX_LINES_PER_COLUMN = 12
"""Maximum number of lines per column. To stay below this maximum, neighbouring bins are merged and
rare categories are omitted."""


@dataclass(frozen=True)
class Term:
    """Summand of a fitted model, together with its importance.

    A term is a column, a pair of columns, another tree, or a public model.
    """

    # name of the column, both names of the pair joined by " & ", the number of the tree, or
    # "public model" or "linear model"
    name: str
    # Positions of the columns on which the term depends. The tuple is empty for a public model.
    columns: tuple[int, ...]
    # Positions of the term's trees in `trees_`. The tuple is empty for a column's shape function
    # and for a public model.
    trees: tuple[int, ...]
    # mean absolute deviation of the contribution over the public rows and the targets
    importance: float

    @property
    def is_public_model(self) -> bool:
        """Whether the term is the contribution of a public model."""
        return not self.columns and not self.trees


def list_terms(
    shapes: Sequence[Shape],
    pairs: Sequence[Pair],
    trees: Sequence[Tree],
    columns_of_trees: Sequence[tuple[int, ...]],
    public_term: PublicTerm | None,
    unit: float,
) -> tuple[Term, ...]:
    """Return the terms of a model: columns, pairs, trees in no pair, and the public model.

    The output changes by `unit` per unit of margin.
    """
    terms = [
        Term(shape.name, (position,), (), term_importance(shape))
        for position, shape in enumerate(shapes)
    ]
    for pair in pairs:
        name, columns = " & ".join(pair.names), columns_of_trees[pair.trees[0]]
        terms.append(Term(name, columns, pair.trees, term_importance(pair)))
    trees_in_pairs = {position for pair in pairs for position in pair.trees}
    for position, tree in enumerate(trees):
        if position in trees_in_pairs:
            continue
        name = f"tree {position + 1}"
        if tree.names:
            name += f" of {' & '.join(tree.names)}"
        terms.append(Term(name, columns_of_trees[position], (position,), term_importance(tree)))
    if public_term is not None:
        name, importance = public_term.public.model.name, unit * public_term.importance
        terms.append(Term(name, (), (), importance))
    return tuple(terms)


def term_importance(term: Shape | Pair | Tree) -> float:
    """Return the mean absolute deviation of a term's contribution over public rows and targets."""
    # a pair has a two-way table of bins, which is flattened to one axis
    scores, shares = term.scores.reshape(len(term.scores), -1), term.shares.ravel()
    public_means = (scores @ shares)[:, None]
    return float((np.abs(scores - public_means) @ shares).mean())


def describe_terms(
    terms: Sequence[Term],
    shapes: Sequence[Shape],
    trees: Sequence[Tree],
    model: AdditiveModel,
    labels: Sequence[str],
    decimals: int,
) -> str:
    """Return a description of the most important terms, and the names of the remaining terms.

    Empty names of targets are not printed.
    """
    suffixes = label_suffixes(labels)

    def format_scores(scores: Floats, deviations: Floats) -> str:
        """Format the scores of a bin or leaf as "0.52 ± 0.11 for label, ...".

        The error bar shows two posterior standard deviations. A deviation of 0 indicates that the
        deviation is unknown, in which case no error bar is printed.
        """
        texts = []
        for score, deviation, suffix in zip(scores, deviations, suffixes, strict=True):
            interval = f" ± {2 * deviation:.{decimals}f}" if deviation else ""
            texts.append(f"{score:+.{decimals}f}{interval}{suffix}")
        return ", ".join(texts)

    ranked = sorted(terms, key=lambda term: -term.importance)
    lines = []
    for term in ranked[:N_TERMS_SHOWN]:
        lines.append(f"{term.name} (importance {term.importance:.{decimals}f})")
        if term.columns and not term.trees:
            (column,) = term.columns
            lines += _describe_column(shapes[column], format_scores)
        for position in term.trees:
            tree = trees[position]
            leaf_texts = [*map(format_scores, tree.scores.T, tree.deviations.T)]
            indent = "    "
            if len(term.trees) > 1:
                lines.append(f"    tree {position + 1}")
                indent *= 2
            lines += [indent + line for line in model.trees[position].format_lines(leaf_texts)]
    weaker = ranked[N_TERMS_SHOWN:]
    if weaker:
        total_importance = sum(term.importance for term in weaker)
        names = ", ".join(term.name for term in weaker)
        lines.append(f"weaker (importance {total_importance:.{decimals}f} together): {names}")
    return "\n".join(lines)


def label_suffixes(labels: Sequence[str]) -> list[str]:
    """Return the suffix " for LABEL" for each target's score, or nothing if the label is empty."""
    return [f" for {label}" if label else "" for label in labels]


def _describe_column(shape: Shape, format_scores: Callable[[Floats, Floats], str]) -> list[str]:
    """Return the lines that describe a column, with the score of each bin or group of bins.

    Bins without public rows are omitted, since their scores are determined by the prior alone.
    """
    bins = np.flatnonzero(shape.shares).tolist()
    n_rare = 0
    is_numeric = len(shape.cuts) > 0
    if is_numeric:
        groups = merge_bins([[i] for i in bins], shape, MAX_LINES_PER_COLUMN)
    else:
        most_common = sorted(bins, key=lambda i: -shape.shares[i])[:MAX_LINES_PER_COLUMN]
        groups = [[i] for i in bins if i in most_common]
        n_rare = len(bins) - len(groups)
    texts = [range_text(shape.cells, group[0], group[-1]) for group in groups]
    width = max(map(len, texts))
    lines = []
    for text, group in zip(texts, groups, strict=True):
        weights = shape.shares[group] / shape.shares[group].sum()
        deviations = shape.deviations[:, group].max(axis=1)
        scores_text = format_scores(shape.scores[:, group] @ weights, deviations)
        lines.append(f"    {text:{width}}  {scores_text}")
    if n_rare:
        lines.append(f"    and {n_rare} rarer categories")
    return lines


def merge_bins(groups: list[list[int]], shape: Shape, max_groups: int) -> list[list[int]]:
    """Merge neighbouring groups of bins greedily, so that the squared error increases least.

    The error is the squared difference between a score and the mean of its group, weighted by the
    number of public rows. The bin for missing values is never merged. Each group is a list of bin
    positions.
    """
    missing_bin = len(shape.shares) - 1
    missing = [group for group in groups if group[-1] == missing_bin]
    groups = [group for group in groups if group not in missing]

    def squared_error(group: list[int]) -> float:
        """Return the weighted squared error of a group about its mean, summed over targets."""
        mass, scores = shape.shares[group], shape.scores[:, group]
        means = (scores @ mass)[:, None] / mass.sum()
        squares = (scores - means) ** 2
        return float((squares @ mass).sum())

    while len(groups) + len(missing) > max_groups:
        increases = [
            squared_error(left + right) - squared_error(left) - squared_error(right)
            for left, right in pairwise(groups)
        ]
        first = int(np.argmin(increases))
        groups[first : first + 2] = [groups[first] + groups[first + 1]]
    return groups + missing


def range_text(cells: Sequence[str], first: int, last: int) -> str:
    """Describe the bins from `first` to `last`, both included, as a single interval.

    Examples
    --------
    >>> range_text(["<= 1", "1 to 2", "2 to 5", "> 5", "(missing)"], 1, 2)
    '1 to 5'
    >>> range_text(["<= 1", "1 to 2", "2 to 5", "> 5", "(missing)"], 2, 3)
    '> 2'
    """
    if first == last:
        return cells[first]
    low = cells[first].split(" to ")[0].removeprefix("> ")
    high = cells[last].split(" to ")[-1].removeprefix("<= ")
    # a remaining prefix marks an open end, in the first or the last numeric bin
    if low.startswith("<= "):
        return "any" if high.startswith("> ") else f"<= {high}"
    return f"> {low}" if high.startswith("> ") else f"{low} to {high}"


@dataclass(frozen=True, eq=False, repr=False)
class LocalExplanation:
    """Predictions, decomposed into the contributions of a model's terms."""

    # names of the terms, which are columns, pairs of columns used by trees, and other trees
    terms: tuple[str, ...]
    cells: NDArray[Any]  # (n, n_terms): description of each row's bins in the columns of each term
    # (n, n_terms): contribution of each term: to the log-odds of the second label if there are two
    # labels, to the log-odds of each label if there are more, or to the mean outcome
    contributions: Floats
    intercept: Any  # (n_classes,): intercept, to which the contributions are added

    @property
    def total(self) -> Floats:
        """Sum of the intercept and all contributions, shape (n,) or (n, n_classes)."""
        return self.intercept + self.contributions.sum(axis=1)

    def __len__(self) -> int:
        return len(self.contributions)

    def __str__(self) -> str:
        return "\n\n".join(self._describe_row(row) for row in range(len(self)))

    def _describe_row(self, row: int) -> str:
        """Return a text table for one row: its strongest terms, the remainder, and the total."""
        n_terms = len(self.terms)
        contributions = self.contributions[row].reshape(n_terms, -1)  # (n_terms, n_targets)
        strengths = np.abs(contributions).max(axis=1)
        order = np.argsort(-strengths, kind="stable")
        intercept = np.atleast_1d(self.intercept)
        table = [("intercept", "", intercept)]
        for term in order[:N_TERMS_SHOWN].tolist():
            name, cell = self.terms[term], self.cells[row, term]
            table.append((name, cell, contributions[term]))
        weak = order[N_TERMS_SHOWN:]
        n_weak = len(weak)
        if n_weak:
            weak_total = contributions[weak].sum(axis=0)
            table.append((f"{n_weak} weaker", "", weak_total))
        total = np.atleast_1d(self.total[row])
        table.append(("total", "", total))

        names, cells, _ = zip(*table, strict=True)
        name_width, cell_width = max(map(len, names)), max(map(len, cells))
        lines = []
        for name, cell, by_target in table:
            texts = [f"{number:+9.4g}" for number in by_target]
            numbers = "  ".join(texts)
            lines.append(f"{name:{name_width}}  {cell:{cell_width}}  {numbers}")
        return "\n".join(lines)


def explain_rows(
    codes: BinCodes,  # (n_columns, n)
    model: AdditiveModel,
    terms: Sequence[Term],
    shapes: Sequence[Shape],
    pairs: Sequence[Pair],
    trees: Sequence[Tree],
    intercepts: Floats,  # (n_targets,)
    of_public_model: Floats | None,  # (n_targets, n)
) -> LocalExplanation:
    """Return the contribution of each term to the prediction of each row."""
    pair_of_trees = {pair.trees: pair for pair in pairs}
    contributions_by_term = []
    cells = np.empty((codes.shape[1], len(terms)), dtype=object)
    for position, term in enumerate(terms):
        bins = [codes[column] for column in term.columns]
        if term.is_public_model:
            assert of_public_model is not None
            scores = of_public_model
        elif not term.trees:  # a column
            scores = shapes[term.columns[0]].scores[:, bins[0]]
        elif term.trees in pair_of_trees:
            scores = pair_of_trees[term.trees].scores[:, bins[0], bins[1]]
        else:
            (tree,) = term.trees
            scores = trees[tree].scores[:, apply_tree(model.trees[tree].splits, codes)]
        contributions_by_term.append(scores)
        cells[:, position] = _cell_texts([shapes[column] for column in term.columns], bins)
    # from (n_terms, n_targets, n) to (n, n_terms, n_targets)
    contributions = np.array(contributions_by_term).transpose(2, 0, 1)
    intercept: Any = intercepts
    if len(intercepts) == 1:  # with one target, the target axis is dropped
        contributions, intercept = contributions[:, :, 0], float(intercepts[0])
    return LocalExplanation(tuple(term.name for term in terms), cells, contributions, intercept)


def _cell_texts(shapes: Sequence[Shape], bins: Sequence[BinCodes]) -> list[str] | str:
    """Describe each row's bins in the columns of a term, joined by commas.

    For a term without columns, which is a constant tree or a public model, the description of every
    row is empty.
    """
    if not shapes:
        return ""
    texts = [
        np.array(shape.cells, dtype=object)[bin_of_row]
        for shape, bin_of_row in zip(shapes, bins, strict=True)
    ]
    return [", ".join(row) for row in zip(*texts, strict=True)]
