"""Exact draws of trees on weighted rows: they vote, or their leaves get scores of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.known import Start, blended, trusted
from skpublicdp.boosting.moments import PROOF, cell_sums
from skpublicdp.boosting.posterior import PublicDesign, Release, Scores, update
from skpublicdp.boosting.questions import leaves
from skpublicdp.boosting.scores import (
    HALF,
    UNIT,
    Integers,
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
    begin : list of Start
        What to begin with: of several the last one, until the leaves of the first tree that is
        measured tell how far to believe in each.
    cover : TreeCover
        The trees.
    cells : BinnedData
        Private rows as cells.
    ledger : Ledger
        Pays.

    Attributes
    ----------
    model : Model
        The model so far.
    of_columns : list of ndarray, shape (n_targets, n_cells of a column, n_cells of a column)
        How sure the scores of columns are that it began with.
    of_trees : list of ndarray, shape (n_targets, n_leaves, n_leaves)
        How sure the scores of the leaves of each tree are, if they were measured.
    """

    def __init__(
        self, begin: list[Start], cover: TreeCover, cells: BinnedData, ledger: Ledger
    ) -> None:
        self._begin, self.of_trees = begin, list[Floats]()
        self._cover, self._cells, self._ledger = cover, cells, ledger
        self._set(begin[-1])

    def _set(self, start: Start) -> None:
        self.model, self.of_columns = start.model, start.covariances
        self._margins = self._cells.margins(start.model)

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
        baseline = probabilities(self.model.margins(public_codes))
        factor = scale(baseline, pure)
        Z = np.eye(n_leaves)[leaves(tree.splits, public_codes)]
        covariance = measured.variance / (2 * HALF) ** 2 * np.eye(n_leaves)
        releases = [
            Release(total, covariance, Z, factor, of_target)
            for total, of_target in zip(totals, baseline, strict=True)
        ]
        own = tree.leaves == (np.arange(len(totals))[:, None] if len(totals) > 1 else [[1]])
        at = PublicDesign(Z, design.weights, design.n)
        models = [self.model] if self.of_trees else [start.model for start in self._begin]
        offsets = [model.margins(public_codes) / UNIT for model in models]
        found = [
            # a tree drawn on what public labels get wrong may explain nothing
            _leaf_scores(at, releases, offset, own, doubted=place > 0)
            for place, offset in enumerate(offsets)
        ]
        weights = trusted(np.array([leaf.evidence for leaf in found]))
        if len(models) > 1:
            self._set(blended(self._begin, weights))
        scores = np.tensordot(weights, [leaf.scores for leaf in found], axes=1)
        self.of_trees.append(np.tensordot(weights, [leaf.covariances for leaf in found], axes=1))
        self._add(tree, np.rint(UNIT * scores).astype(np.int64))
        return float(weights @ [leaf.gain for leaf in found])

    def _draw(self, drawn: Draw) -> DecisionTree:
        """Draw a tree by its weighted errors; a row's weight is of its own and released things."""
        cells, y = self._cells, self._cells.rows.y

        def tabulated(at: slice) -> Integers:
            weight = weights(self._margins[:, at], y[at], HEAVIEST)
            X: NDArray[Any] = cells.codes(at).T
            return self._cover.tabulate(X, y[at], weight)

        path = self._ledger.draw(
            self._cover.family(cells.rows.sum_over_chunks(tabulated)),
            drawn,
            HEAVIEST,
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return self._cover.hypothesis(path)

    def _add(self, tree: DecisionTree, scores: Integers) -> None:
        self.model = self.model.with_tree(tree, scores)
        self._cells.add_scores(self._margins, scores, self._cells.leaf_indexer(tree.splits))


def leaf_sums(
    tree: DecisionTree, cells: BinnedData, margins: NDArray[np.int32], *, pure: bool
) -> Integers:
    """Add up residuals over the rows of each leaf, shape (n_targets, n_leaves)."""
    line = cells.leaf_indexer(tree.splits)

    def of_chunk(at: slice) -> Integers:
        values = residuals(margins[:, at], cells.rows.y[at], pure)
        ends = np.array([0, len(tree.leaves)])
        return cell_sums(values, line(at)[None], ends)[:-1]

    total: Integers = cells.rows.sum_over_chunks(of_chunk)
    return total


@dataclass(frozen=True, eq=False)
class _Leaves:
    """What is believed of the scores of leaves.

    Attributes
    ----------
    scores : ndarray of float64, shape (n_targets, n_leaves)
        Their means.
    covariances : ndarray of float64, shape (n_targets, n_leaves, n_leaves)
        How sure they are.
    evidence, gain : float
        Logarithm of the evidence, and how much of it is for any scores over none.
    """

    scores: Floats
    covariances: Floats
    evidence: float
    gain: float


def _leaf_scores(
    design: PublicDesign,
    releases: Sequence[Release],
    offsets: Floats,
    own: NDArray[np.bool_],
    *,
    doubted: bool,
) -> _Leaves:
    """Score leaves by released sums of each target.

    A tree that was drawn is likely to be right: leaves with the target's `own` label are expected
    to raise its margin, and the others to lower it. If it is `doubted` there are even odds that
    it explains nothing.
    """

    def with_scale(scale: float) -> list[tuple[Scores, float]]:
        means = np.pad(np.where(own, scale, -scale), ((0, 0), (0, 1)))  # no intercept besides
        return [
            update(Scores(mean, np.diag(mean**2)), design, released, offset)
            for mean, released, offset in zip(means, releases, offsets, strict=True)
        ]

    best, without = with_scale(LEAF_SCALE), with_scale(0.0)
    evidence, none = (sum(told for _, told in found) for found in (best, without))
    right = float(expit(evidence - none)) if doubted else 1.0
    scores = np.array([found.mean[:-1] for found, _ in best])
    covariances = np.array([found.covariance[:-1, :-1] for found, _ in best])
    between = (1 - right) * scores[:, :, None] * scores[:, None]
    total = float(np.logaddexp(evidence, none) - np.log(2)) if doubted else evidence
    return _Leaves(right * scores, right * (covariances + between), total, evidence - none)
