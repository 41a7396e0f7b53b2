"""Terms of a fitted model, with their importances, descriptions and contributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.boosting.explain import Pair, Shape, Tree
from skpublicdp.boosting.model import AdditiveModel
from skpublicdp.typing import Floats

PUBLIC_MODEL = "public model"
"""Name of the term that represents a public model."""

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
    # `PUBLIC_MODEL`
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
    public_importance: float | None,
) -> tuple[Term, ...]:
    """Return the terms of a model: columns, pairs, trees in no pair, and the public model.

    Parameters
    ----------
    shapes, pairs, trees
        Descriptions of the columns, pairs and trees of the model.
    columns_of_trees : sequence of tuple of int
        Positions of the columns on which each tree depends.
    public_importance : float, optional
        Importance of the public model, or None if there is no public model.
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
    if public_importance is not None:
        terms.append(Term(PUBLIC_MODEL, (), (), public_importance))
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

    Parameters
    ----------
    terms : sequence of Term
        All terms of the model.
    shapes, trees
        Descriptions of the model's columns and trees.
    model : AdditiveModel
        The model, which includes the splits of its trees.
    labels : sequence of str
        Name of each target. Empty names are not printed.
    decimals : int
        Number of decimals.
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

    Parameters
    ----------
    shape : Shape
        Shape function of the column.
    format_scores : callable
        Function that formats the scores and deviations of all targets, both of shape (n_targets,).
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

    Parameters
    ----------
    groups : list of list of int
        Initial groups of bins, in the order of the bins.
    shape : Shape
        Scores and public shares of the bins.
    max_groups : int
        Maximum number of groups that are returned.
    """
    missing_bin = len(shape.shares) - 1
    missing = [group for group in groups if group[-1] == missing_bin]
    groups = [group for group in groups if group not in missing]

    def squared_error(group: list[int]) -> float:
        """Return the weighted squared error of a group about its mean, summed over targets."""
        mass, scores = shape.shares[group], shape.scores[:, group]
        return float(((scores - (scores @ mass)[:, None] / mass.sum()) ** 2 @ mass).sum())

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
    codes: BinCodes,
    model: AdditiveModel,
    terms: Sequence[Term],
    shapes: Sequence[Shape],
    pairs: Sequence[Pair],
    trees: Sequence[Tree],
    intercepts: Floats,
    of_public_model: Floats | None,
) -> LocalExplanation:
    """Return the contribution of each term to the prediction of each row.

    Parameters
    ----------
    codes : ndarray of int, shape (n_columns, n)
        Bin codes of the rows.
    model : AdditiveModel
        The model, which includes the splits of its trees.
    terms : sequence of Term
        All terms of the model.
    shapes, pairs, trees
        Descriptions of the model's columns, pairs and trees, with their scores.
    intercepts : ndarray of float64, shape (n_targets,)
        Intercepts of the model, on the output scale.
    of_public_model : ndarray of float64, shape (n_targets, n), optional
        Contribution of the public model to each row.
    """
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
