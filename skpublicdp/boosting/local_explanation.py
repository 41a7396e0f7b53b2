"""Local explanations: contribution of each term to the prediction of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.boosting.explain import Pair, Shape, Tree
from skpublicdp.boosting.model import AdditiveModel
from skpublicdp.boosting.term_text import N_TERMS_SHOWN, Term
from skpublicdp.typing import Floats


@dataclass(frozen=True, eq=False, repr=False)
class LocalExplanation:
    """Predictions of rows as sums of the contributions of a model's terms.

    Attributes
    ----------
    terms : tuple of str
        Names of the terms: columns, pairs of columns that trees split on, and other trees.
    cells : ndarray of object, shape (n, n_terms)
        Text of the bins of each row in the columns of each term.
    contributions : ndarray of float64, shape (n, n_terms) or (n, n_terms, n_classes)
        Contribution of each term to the log-odds of the second of two labels, to the log-odds of
        each of more labels, or to the mean outcome.
    intercept : float or ndarray of float64, shape (n_classes,)
        Intercept of the sum.
    """

    terms: tuple[str, ...]
    cells: NDArray[Any]
    contributions: Floats
    intercept: Any

    @property
    def total(self) -> Floats:
        """Sum of the intercept and all contributions, shape (n,) or (n, n_classes)."""
        total: Floats = self.intercept + self.contributions.sum(axis=1)
        return total

    def __len__(self) -> int:
        return len(self.contributions)

    def __str__(self) -> str:
        return "\n\n".join(self._describe_row(row) for row in range(len(self)))

    def _describe_row(self, row: int) -> str:
        """Return a text table of one row: its strongest terms, the sum of the others, the total."""
        # one column of numbers for each target
        contributions = self.contributions[row].reshape(len(self.terms), -1)
        order = np.argsort(-np.abs(contributions).max(axis=1), kind="stable")
        strong, weak = order[:N_TERMS_SHOWN], order[N_TERMS_SHOWN:]
        table = [("intercept", "", np.atleast_1d(self.intercept))]
        for term in strong.tolist():
            table.append((self.terms[term], self.cells[row, term], contributions[term]))
        if len(weak):
            table.append((f"{len(weak)} weaker", "", contributions[weak].sum(axis=0)))
        table.append(("total", "", np.atleast_1d(self.total[row])))
        name_width = max(len(name) for name, _, _ in table)
        cell_width = max(len(cell) for _, cell, _ in table)
        lines = []
        for name, cell, values in table:
            numbers = "  ".join(f"{value:+9.4g}" for value in values)
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
) -> LocalExplanation:
    """Return the contribution of each term to the prediction of each row.

    Parameters
    ----------
    codes : ndarray of int, shape (n_columns, n)
        Bin codes of the rows.
    model : AdditiveModel
        The model, for the splits of its trees.
    terms : sequence of Term
        All terms of the model.
    shapes, pairs, trees
        Descriptions of its columns, pairs and trees, with their scores.
    intercepts : ndarray of float64, shape (n_targets,)
        Intercepts of the model, on the output scale.
    """
    pair_of_trees = {pair.trees: pair for pair in pairs}
    contributions_by_term = []
    cells = np.empty((codes.shape[1], len(terms)), dtype=object)
    for position, term in enumerate(terms):
        bins = [codes[column] for column in term.columns]
        if not term.trees:  # a column
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
    if len(intercepts) == 1:  # one target has no axis of its own
        contributions, intercept = contributions[:, :, 0], float(intercepts[0])
    return LocalExplanation(tuple(term.name for term in terms), cells, contributions, intercept)


def _cell_texts(shapes: Sequence[Shape], bins: Sequence[BinCodes]) -> list[str] | str:
    """Return the text of each row's bins in the columns of a term, joined by commas.

    A term without columns is a constant tree, and has one empty text for all rows.
    """
    if not shapes:
        return ""
    texts = [
        np.array(shape.cells, dtype=object)[bin_of_row]
        for shape, bin_of_row in zip(shapes, bins, strict=True)
    ]
    return [", ".join(row) for row in zip(*texts, strict=True)]
