"""Exact draws of trees on weighted rows: they vote, or their leaves get scores of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity
from skpublicdp.boosting.moments import PROOF, cell_sums
from skpublicdp.boosting.posterior import PublicDesign, Release, Scores, update
from skpublicdp.boosting.questions import leaves
from skpublicdp.boosting.rows import Cells
from skpublicdp.boosting.scores import (
    HALF,
    UNIT,
    Integers,
    Model,
    probabilities,
    residuals,
    scale,
    weights,
)
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.ledger import Ledger

Floats = NDArray[np.float64]

HEAVIEST = 16
"""Weight of a row that the model gets wrong: weights are from 0 to this."""

LEAVES = Sensitivity(2 * HALF, (2 * HALF) ** 2)
"""How far one row moves sums over leaves, one column of cells: a label that turns moves 2 HALF in
one of them, a row HALF in two."""

LEAF_SCALE = 0.8
"""What the scores of leaves are expected to be, and their standard deviation."""


class Voters:
    """Adds trees to a model, each drawn on the rows that the model so far gets wrong.

    Parameters
    ----------
    model : Model
        The model to begin with.
    cover : TreeCover
        The trees.
    cells : Cells
        Private rows as cells.
    ledger : Ledger
        Pays.

    Attributes
    ----------
    model : Model
        The model so far.
    covariances : list of ndarray, shape (n_targets, n_leaves, n_leaves)
        How sure the scores of the leaves of each tree are, if they were measured.
    """

    def __init__(self, model: Model, cover: TreeCover, cells: Cells, ledger: Ledger) -> None:
        self.model = model
        self.covariances: list[Floats] = []
        self._cover, self._cells, self._ledger = cover, cells, ledger
        self._margins = cells.margins(model)

    def vote(self, drawn: Draw, rate: float) -> None:
        """Draw a tree for two labels; each leaf gets `rate` on either side of the margin."""
        tree = self._draw(drawn)
        self._add(tree, round(2 * rate * UNIT) * (2 * tree.leaves[None].astype(np.int64) - 1))

    def grow(self, drawn: Draw, noise: Gaussian | Pure, design: PublicDesign) -> float:
        """Draw a tree, release the residuals in its leaves and score these.

        Parameters
        ----------
        drawn : Draw
            What the draw costs.
        noise : Gaussian or Pure
            What the residuals cost.
        design : PublicDesign
            Weights of the public rows.

        Returns
        -------
        float
            Logarithm of the evidence for any scores over that for none.
        """
        pure = isinstance(noise, Pure)
        tree = self._draw(drawn)
        n_leaves = len(tree.leaves)
        measured = self._ledger.add_noise(
            leaf_sums(tree, self._cells, self._margins, pure=pure),
            LEAVES,
            noise,
            name="noisy sums of residuals over its leaves",
            proof=PROOF,
        )
        totals = measured.values / (2 * HALF)

        public_codes = self._cells.public_codes
        margins = self.model.margins(public_codes)
        baseline = probabilities(margins)
        factor = scale(baseline, pure)
        Z = np.eye(n_leaves)[leaves(tree.splits, public_codes)]
        covariance = measured.variance / (2 * HALF) ** 2 * np.eye(n_leaves)
        at = PublicDesign(Z, design.weights, design.n)
        scores = np.zeros((len(totals), n_leaves), dtype=np.int64)
        covariances = np.zeros((len(totals), n_leaves, n_leaves))
        gain = 0.0
        for target, total in enumerate(totals):
            released = Release(total, covariance, Z, factor, baseline[target])
            own = tree.leaves == (target if len(totals) > 1 else 1)
            found, evidence = _leaf_scores(at, released, margins[target] / UNIT, own)
            scores[target] = np.rint(UNIT * found.mean[:-1])
            covariances[target] = found.covariance[:-1, :-1]
            gain += evidence
        self.covariances.append(covariances)
        self._add(tree, scores)
        return gain

    def _draw(self, drawn: Draw) -> DecisionTree:
        """Draw a tree by its weighted errors; a row's weight is of its own and released things."""
        cells, y = self._cells, self._cells.rows.y

        def tabulated(at: slice) -> Integers:
            weight = weights(self._margins[:, at], y[at], HEAVIEST)
            X: NDArray[Any] = cells.codes(at).T
            return self._cover.tabulate(X, y[at], weight)

        path = self._ledger.draw(
            self._cover.family(cells.rows.fold(tabulated)),
            drawn,
            HEAVIEST,
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return self._cover.hypothesis(path)

    def _add(self, tree: DecisionTree, scores: Integers) -> None:
        self.model = self.model.with_tree(tree, scores)
        self._cells.move(self._margins, scores, self._cells.leaf_lines(tree.splits))


def leaf_sums(
    tree: DecisionTree, cells: Cells, margins: NDArray[np.int32], *, pure: bool
) -> Integers:
    """Add up residuals over the rows of each leaf, shape (n_targets, n_leaves)."""
    line = cells.leaf_lines(tree.splits)

    def of_chunk(at: slice) -> Integers:
        values = residuals(margins[:, at], cells.rows.y[at], pure)
        ends = np.array([0, len(tree.leaves)])
        return cell_sums(values, line(at)[None], ends)[:-1]

    total: Integers = cells.rows.fold(of_chunk)
    return total


def _leaf_scores(
    design: PublicDesign, released: Release, offset: Floats, own: NDArray[np.bool_]
) -> tuple[Scores, float]:
    """Return what is believed of the scores of leaves, and their log evidence over that of none.

    A tree that was drawn is likely to be right: leaves with the target's `own` label are expected
    to raise its margin, and the others to lower it.
    """

    def with_scale(scale: float) -> tuple[Scores, float]:
        mean = np.append(np.where(own, scale, -scale), 0.0)  # no intercept besides
        return update(Scores(mean, np.diag(mean**2)), design, released, offset)

    _, without = with_scale(0.0)
    best, evidence = with_scale(LEAF_SCALE)
    return best, evidence - without
