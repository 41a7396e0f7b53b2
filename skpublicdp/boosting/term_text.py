"""Terms of a fitted model, ranked by importance and rendered as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from skpublicdp.boosting.explain import Pair, Shape, Tree
from skpublicdp.boosting.model import AdditiveModel
from skpublicdp.typing import Floats

N_TERMS_SHOWN = 10
"""Number of terms that are shown in full; the others are only named."""

MAX_LINES_PER_COLUMN = 12
"""Maximum number of lines of a column: neighbouring bins are merged, rare categories left out."""


@dataclass(frozen=True)
class Term:
    """Unit of explanation: a column, a pair of columns, or another tree.

    Attributes
    ----------
    name : str
        Name of the term.
    columns : tuple of int
        Positions of its columns.
    trees : tuple of int
        Positions of its trees; none if it is the column itself.
    importance : float
        Mean absolute deviation of its contribution, over the public rows and the targets.
    """

    name: str
    columns: tuple[int, ...]
    trees: tuple[int, ...]
    importance: float


def list_terms(
    shapes: Sequence[Shape],
    pairs: Sequence[Pair],
    trees: Sequence[Tree],
    asked: Sequence[tuple[int, ...]],
) -> tuple[Term, ...]:
    """Return the terms: columns, then pairs, then the other trees.

    Parameters
    ----------
    shapes, pairs, trees
        What was learned.
    asked : sequence of tuple of int
        The columns each tree depends on.
    """
    found = [
        Term(shape.name, (position,), (), term_importance(shape))
        for position, shape in enumerate(shapes)
    ]
    for pair in pairs:
        name, importance = " & ".join(pair.names), term_importance(pair)
        found.append(Term(name, asked[pair.trees[0]], pair.trees, importance))
    paired = {position for pair in pairs for position in pair.trees}
    for position, tree in enumerate(trees):
        if position not in paired:
            name = f"tree {position + 1}"
            name += f" of {' & '.join(tree.names)}" if tree.names else ""
            found.append(Term(name, asked[position], (position,), term_importance(tree)))
    return tuple(found)


def term_importance(part: Shape | Pair | Tree) -> float:
    """Return the mean absolute deviation of a contribution over the public rows."""
    scores, shares = part.scores.reshape(len(part.scores), -1), part.shares.ravel()
    centred = scores - (scores @ shares)[:, None]
    return float((np.abs(centred) @ shares).mean())


def describe_terms(
    listed: Sequence[Term],
    shapes: Sequence[Shape],
    trees: Sequence[Tree],
    model: AdditiveModel,
    labels: Sequence[str],
    decimals: int,
) -> str:
    """Return the text of the most important terms, and the names of the others.

    Parameters
    ----------
    listed : sequence of Term
        The terms.
    shapes, trees
        What was learned.
    model : AdditiveModel
        Where the trees are from.
    labels : sequence of str
        One for each target; an empty one is left out.
    decimals : int
        Places after the point.
    """
    wanted = [f" for {label}" * bool(label) for label in labels]

    def number(scores: Floats, deviations: Floats) -> str:
        parts = []
        for score, deviation, label in zip(scores, deviations, wanted, strict=True):
            band = f" ± {2 * deviation:.{decimals}f}" * bool(deviation)
            parts.append(f"{score:+.{decimals}f}{band}{label}")
        return ", ".join(parts)

    ranked = sorted(listed, key=lambda term: -term.importance)
    lines = []
    for term in ranked[:N_TERMS_SHOWN]:
        lines.append(f"{term.name} (importance {term.importance:.{decimals}f})")
        if not term.trees:
            (column,) = term.columns
            lines += _describe_column(shapes[column], number)
        for position in term.trees:
            tree = trees[position]
            said = [*map(number, tree.scores.T, tree.deviations.T)]
            indent = "    "
            if len(term.trees) > 1:
                lines.append(f"    tree {position + 1}")
                indent *= 2
            lines += [indent + line for line in model.trees[position].lines(said)]
    weaker = ranked[N_TERMS_SHOWN:]
    if weaker:
        added = sum(term.importance for term in weaker)
        names = ", ".join(term.name for term in weaker)
        lines.append(f"weaker (importance {added:.{decimals}f} together): {names}")
    return "\n".join(lines)


def _describe_column(shape: Shape, number: Callable[[Floats, Floats], str]) -> list[str]:
    """Return one line for each bin of a column that public rows have."""
    seen = np.flatnonzero(shape.shares).tolist()
    groups = [[cell] for cell in seen]
    left = ""
    if not len(shape.cuts):
        common = sorted(seen, key=lambda cell: -shape.shares[cell])[:MAX_LINES_PER_COLUMN]
        groups = [[cell] for cell in seen if cell in common]
        if len(groups) < len(seen):
            left = f"    and {len(seen) - len(groups)} rarer categories"
    else:
        groups = merge_bins(groups, shape, MAX_LINES_PER_COLUMN)
    texts = [range_text(shape.cells, group[0], group[-1]) for group in groups]
    width = max(map(len, texts))
    lines = []
    for text, group in zip(texts, groups, strict=True):
        mass = shape.shares[group] / shape.shares[group].sum()
        said = number(shape.scores[:, group] @ mass, shape.deviations[:, group].max(axis=1))
        lines.append(f"    {text:{width}}  {said}")
    return [*lines, left] if left else lines


def merge_bins(groups: list[list[int]], shape: Shape, most: int) -> list[list[int]]:
    """Merge neighbouring bins greedily, those with the smallest loss of squared error first.

    The bin of missing values stays separate.

    Parameters
    ----------
    groups : list of list of int
        Cells in order.
    shape : Shape
        Their scores and shares.
    most : int
        Groups that are left at most.
    """
    missing = [group for group in groups if group[-1] == len(shape.shares) - 1]
    groups = [group for group in groups if group not in missing]

    def loss(group: list[int]) -> float:
        mass, scores = shape.shares[group], shape.scores[:, group]
        return float(((scores - (scores @ mass)[:, None] / mass.sum()) ** 2 @ mass).sum())

    while len(groups) + len(missing) > most:
        costs = [loss(a + b) - loss(a) - loss(b) for a, b in pairwise(groups)]
        best = int(np.argmin(costs))
        groups[best : best + 2] = [groups[best] + groups[best + 1]]
    return groups + missing


def range_text(cells: Sequence[str], first: int, last: int) -> str:
    """Return the text of one bin, or of a range of bins.

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
    if low.startswith("<= "):
        return "any" if high.startswith("> ") else f"<= {high}"
    return f"> {low}" if high.startswith("> ") else f"{low} to {high}"
