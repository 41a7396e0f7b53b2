"""Exact draws of trees on weighted rows: they vote, or their leaves get scores of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity
from skpublicdp.boosting.features import Codes
from skpublicdp.boosting.moments import PROOF
from skpublicdp.boosting.posterior import PublicDesign, Release, Scores, update
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
from skpublicdp.hypotheses.base import CHUNK_ROWS, tabulate_chunks
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.ledger import Ledger

Floats = NDArray[np.float64]

HEAVIEST = 16
"""Weight of a row that the model gets wrong: weights are from 0 to this."""

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
    codes : ndarray of int16, shape (n_columns, n)
        Cells of the private rows.
    y : ndarray of intp, shape (n,)
        Codes of their labels.
    ledger : Ledger
        Pays.
    n_jobs : int, optional
        Number of joblib threads.
    """

    def __init__(
        self,
        model: Model,
        cover: TreeCover,
        codes: Codes,
        y: NDArray[np.intp],
        ledger: Ledger,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self._cover = cover
        self._codes = codes
        self._y = y
        self._ledger = ledger
        self._n_jobs = n_jobs
        self._margins = model.margins(codes)

    def vote(self, drawn: Draw, rate: float) -> None:
        """Draw a tree; each leaf gets `rate` on either side of the margin."""
        tree = self._draw(drawn)
        targets, votes = len(self._margins), round(2 * rate * UNIT)
        scores = np.zeros((targets, len(tree.leaves)), dtype=np.int64)
        if targets == 1:
            scores[0] = votes * (2 * tree.leaves - 1)
        else:
            scores[tree.leaves, np.arange(len(tree.leaves))] = 2 * votes
        self._add(tree, scores)

    def grow(
        self, drawn: Draw, noise: Gaussian | Pure, design: PublicDesign, public_codes: Codes
    ) -> float:
        """Draw a tree, release the residuals in its leaves and score these.

        Parameters
        ----------
        drawn : Draw
            What the draw costs.
        noise : Gaussian or Pure
            What the residuals cost.
        design : PublicDesign
            Weights of the public rows.
        public_codes : ndarray of int16, shape (n_columns, m)
            Their cells.

        Returns
        -------
        float
            Logarithm of the evidence for any scores over that for none.
        """
        pure = isinstance(noise, Pure)
        tree = self._draw(drawn)
        leaves = len(tree.leaves)
        measured = self._ledger.add_noise(
            leaf_sums(tree, self._codes, self._margins, self._y, pure=pure),
            # one column of cells: a label that turns moves 2 HALF, a row HALF in two leaves
            Sensitivity(2 * HALF, (2 * HALF) ** 2),
            noise,
            name="noisy sums of residuals over its leaves",
            proof=PROOF,
        )
        totals = measured.values / (2 * HALF)

        margins = self.model.margins(public_codes)
        baseline = probabilities(margins)
        factor = scale(baseline, pure)
        Z = np.eye(leaves)[tree.apply(public_codes.T)]
        covariance = measured.variance / (2 * HALF) ** 2 * np.eye(leaves)
        at = PublicDesign(Z, design.weights, design.n)
        scores = np.zeros((len(totals), leaves), dtype=np.int64)
        gain = 0.0
        for target, total in enumerate(totals):
            released = Release(total, covariance, Z, factor, baseline[target])
            own = tree.leaves == (target if len(totals) > 1 else 1)
            found, evidence = _leaf_scores(at, released, margins[target] / UNIT, own)
            scores[target] = np.rint(UNIT * found)
            gain += evidence
        self._add(tree, scores)
        return gain

    def _draw(self, drawn: Draw) -> DecisionTree:
        """Draw a tree by its weighted errors; a row's weight is of its own and released things."""
        weight = weights(self._margins, self._y, HEAVIEST)
        table = tabulate_chunks(self._cover, self._codes.T, self._y, weight, self._n_jobs)
        path = self._ledger.draw(
            self._cover.family(table),
            drawn,
            HEAVIEST,
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return self._cover.hypothesis(path)

    def _add(self, tree: DecisionTree, scores: Integers) -> None:
        self.model = self.model.with_tree(tree, scores)
        self._margins += scores[:, tree.apply(self._codes.T)]


def leaf_sums(
    tree: DecisionTree, codes: Codes, margins: Integers, y: NDArray[np.intp], *, pure: bool
) -> Integers:
    """Add up residuals over the rows of each leaf, shape (n_targets, n_leaves)."""
    total = np.zeros((len(margins), len(tree.leaves)), dtype=np.int64)
    for start in range(0, len(y), CHUNK_ROWS):
        chunk = slice(start, start + CHUNK_ROWS)
        leaf = tree.apply(codes[:, chunk].T)
        values = residuals(margins[:, chunk], y[chunk], pure)
        for sums, value in zip(total, values, strict=True):
            sums += np.bincount(leaf, weights=value, minlength=len(sums)).astype(np.int64)
    return total


def _leaf_scores(
    design: PublicDesign, released: Release, offset: Floats, own: NDArray[np.bool_]
) -> tuple[Floats, float]:
    """Return the scores of leaves, and the logarithm of their evidence over that of none.

    A tree that was drawn is likely to be right: leaves with the target's `own` label are expected
    to raise its margin, and the others to lower it.
    """

    def with_scale(scale: float) -> tuple[Scores, float]:
        mean = np.append(np.where(own, scale, -scale), 0.0)  # no intercept besides
        return update(Scores(mean, np.diag(mean**2)), design, released, offset)

    _, without = with_scale(0.0)
    best, evidence = with_scale(LEAF_SCALE)
    return best.mean[:-1], evidence - without
