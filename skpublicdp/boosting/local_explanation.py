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
    """Predictions of rows as sums of contributions.

    Attributes
    ----------
    terms : tuple of str
        Columns, pairs of columns that trees ask about, and other trees.
    cells : ndarray of object, shape (n, n_terms)
        Texts of the bins of each row.
    contributions : ndarray of float64, shape (n, n_terms) or (n, n_terms, n_classes)
        What each term adds to the log-odds of the second label, or of each where there are more
        than two, or to the mean outcome.
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
        return "\n\n".join(self._row(row) for row in range(len(self)))

    def _row(self, row: int) -> str:
        added = self.contributions[row].reshape(len(self.terms), -1)
        order = np.argsort(-np.abs(added).max(axis=1), kind="stable")
        strong, weak = order[:N_TERMS_SHOWN], order[N_TERMS_SHOWN:]
        said = [
            ("intercept", "", np.atleast_1d(self.intercept)),
            *((self.terms[term], self.cells[row, term], added[term]) for term in strong.tolist()),
        ]
        if len(weak):
            said.append((f"{len(weak)} weaker", "", added[weak].sum(axis=0)))
        said.append(("total", "", np.atleast_1d(self.total[row])))
        wide, wider = (max(len(one[place]) for one in said) for place in (0, 1))
        return "\n".join(
            f"{name:{wide}}  {cell:{wider}}  {'  '.join(f'{part:+9.4g}' for part in parts)}"
            for name, cell, parts in said
        )


def explain_rows(
    codes: BinCodes,
    model: AdditiveModel,
    listed: Sequence[Term],
    shapes: Sequence[Shape],
    pairs: Sequence[Pair],
    trees: Sequence[Tree],
    intercepts: Floats,
) -> LocalExplanation:
    """Return the contribution of each term to each row.

    Parameters
    ----------
    codes : ndarray of int, shape (n_columns, n)
        The cells of the rows.
    model : AdditiveModel
        Where the trees are from.
    listed : sequence of Term
        The terms.
    shapes, pairs, trees
        What was learned.
    intercepts : ndarray of float64, shape (n_targets,)
        What every row has.
    """
    found, cells = [], np.empty((codes.shape[1], len(listed)), dtype=object)
    of_pair = {pair.trees: pair for pair in pairs}
    for place, term in enumerate(listed):
        lines = [codes[column] for column in term.columns]
        if not term.trees:
            found.append(shapes[term.columns[0]].scores[:, lines[0]])
        elif term.trees in of_pair:
            found.append(of_pair[term.trees].scores[:, lines[0], lines[1]])
        else:
            (tree,) = term.trees
            found.append(trees[tree].scores[:, apply_tree(model.trees[tree].splits, codes)])
        words = [np.array(shapes[column].cells, dtype=object) for column in term.columns]
        parts = [labels[line] for labels, line in zip(words, lines, strict=True)]
        cells[:, place] = [", ".join(row) for row in zip(*parts, strict=True)] if parts else ""
    contributions = np.array(found).transpose(2, 0, 1)
    intercept: Any = intercepts
    if len(intercepts) == 1:
        contributions, intercept = contributions[:, :, 0], float(intercepts[0])
    return LocalExplanation(tuple(term.name for term in listed), cells, contributions, intercept)
