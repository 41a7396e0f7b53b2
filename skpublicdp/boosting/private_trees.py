"""Exact draws of trees on weighted rows: they vote, or their leaves get scores of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity
from skpublicdp.boosting.bin_splits import apply_tree
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.histograms import PROOF, histogram_sums
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    boosting_weights,
    gradient_scale,
    probabilities,
    scaled_gradients,
)
from skpublicdp.boosting.posterior import (
    GaussianPosterior,
    NoisyStatistic,
    WeightedPublicRows,
    gauss_newton_update,
)
from skpublicdp.boosting.public_labels import WarmStart, evidence_weights, mix_models
from skpublicdp.hypotheses.trees import DecisionTree, TreeCover
from skpublicdp.ledger import Ledger
from skpublicdp.typing import Floats, Integers

MAX_ROW_WEIGHT = 16
"""Weight of a row that the model gets wrong: weights are from 0 to this."""

LEAF_SENSITIVITY = Sensitivity(2 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2)
"""Sensitivity of gradient sums over leaves: a flipped label moves one leaf by 2 MAX_GRADIENT, a row
that changes leaves moves two by MAX_GRADIENT."""

LEAF_VALUE_PRIOR = 0.8
"""What the scores of leaves are expected to be, and their standard deviation."""


class PrivateTreeBooster:
    """Adds trees to a model, each drawn on the rows that the model so far gets wrong.

    Parameters
    ----------
    begin : list of WarmStart
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
    model : AdditiveModel
        The model so far.
    column_covariances : list of ndarray, shape (n_targets, n_bins, n_bins)
        Posterior covariances of the bin scores of each column of the initial model.
    tree_covariances : list of ndarray, shape (n_targets, n_leaves, n_leaves)
        How sure the scores of the leaves of each tree are, if they were measured.
    """

    def __init__(
        self, begin: list[WarmStart], cover: TreeCover, cells: BinnedData, ledger: Ledger
    ) -> None:
        self._begin, self.tree_covariances = begin, list[Floats]()
        self._cover, self._cells, self._ledger = cover, cells, ledger
        self._set(begin[-1])

    def _set(self, start: WarmStart) -> None:
        self.model, self.column_covariances = start.model, start.covariances
        self._margins = self._cells.margins(start.model)

    def add_voting_tree(self, drawn: Draw, rate: float) -> None:
        """Draw a tree for two labels; each leaf gets `rate` on either side of the margin."""
        tree = self._draw(drawn)
        self._add(
            tree, round(2 * rate * MARGIN_UNIT) * (2 * tree.leaves[None].astype(np.int64) - 1)
        )

    def add_tree_with_noisy_leaves(
        self, drawn: Draw, noise: Gaussian | Pure, design: WeightedPublicRows
    ) -> float:
        """Draw a tree, release the residuals in its leaves and score these.

        Parameters
        ----------
        drawn : Draw
            What the draw costs.
        noise : Gaussian or Pure
            What the residuals cost.
        design : WeightedPublicRows
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
            leaf_gradients(tree, self._cells, self._margins, pure=pure),
            LEAF_SENSITIVITY,
            noise,
            name="noisy sums of residuals over its leaves",
            proof=PROOF,
        )
        totals = measured.values / (2 * MAX_GRADIENT)

        public_codes = self._cells.public_codes
        baseline = probabilities(self.model.raw_predict(public_codes))
        factor = gradient_scale(baseline, pure)
        Z = np.eye(n_leaves)[apply_tree(tree.splits, public_codes)]
        covariance = measured.variance / (2 * MAX_GRADIENT) ** 2 * np.eye(n_leaves)
        releases = [
            NoisyStatistic(total, covariance, Z, factor, of_target)
            for total, of_target in zip(totals, baseline, strict=True)
        ]
        own = tree.leaves == (np.arange(len(totals))[:, None] if len(totals) > 1 else [[1]])
        at = WeightedPublicRows(Z, design.weights, design.n)
        models = [self.model] if self.tree_covariances else [start.model for start in self._begin]
        offsets = [model.raw_predict(public_codes) / MARGIN_UNIT for model in models]
        found = [
            # a tree drawn on what public labels get wrong may explain nothing
            _leaf_values(at, releases, offset, own, doubted=place > 0)
            for place, offset in enumerate(offsets)
        ]
        weights = evidence_weights(np.array([leaf.evidence for leaf in found]))
        if len(models) > 1:
            self._set(mix_models(self._begin, weights))
        scores = np.tensordot(weights, [leaf.scores for leaf in found], axes=1)
        self.tree_covariances.append(
            np.tensordot(weights, [leaf.covariances for leaf in found], axes=1)
        )
        self._add(tree, np.rint(MARGIN_UNIT * scores).astype(np.int64))
        return float(weights @ [leaf.gain for leaf in found])

    def _draw(self, drawn: Draw) -> DecisionTree:
        """Draw a tree by its weighted errors; a row's weight is of its own and released things."""
        cells, y = self._cells, self._cells.rows.y

        def tabulated(at: slice) -> Integers:
            weight = boosting_weights(self._margins[:, at], y[at], MAX_ROW_WEIGHT)
            X: NDArray[Any] = cells.codes(at).T
            return self._cover.tabulate(X, y[at], weight)

        path = self._ledger.draw(
            self._cover.family(cells.rows.sum_over_chunks(tabulated)),
            drawn,
            MAX_ROW_WEIGHT,
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return self._cover.hypothesis(path)

    def _add(self, tree: DecisionTree, scores: Integers) -> None:
        self.model = self.model.with_tree(tree, scores)
        self._cells.add_scores(self._margins, scores, self._cells.leaf_indexer(tree.splits))


def leaf_gradients(
    tree: DecisionTree, cells: BinnedData, margins: NDArray[np.int32], *, pure: bool
) -> Integers:
    """Add up residuals over the rows of each leaf, shape (n_targets, n_leaves)."""
    line = cells.leaf_indexer(tree.splits)

    def of_chunk(at: slice) -> Integers:
        values = scaled_gradients(margins[:, at], cells.rows.y[at], pure)
        ends = np.array([0, len(tree.leaves)])
        return histogram_sums(values, line(at)[None], ends)[:-1]

    total: Integers = cells.rows.sum_over_chunks(of_chunk)
    return total


@dataclass(frozen=True, eq=False)
class _LeafPosterior:
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


def _leaf_values(
    design: WeightedPublicRows,
    releases: Sequence[NoisyStatistic],
    offsets: Floats,
    own: NDArray[np.bool_],
    *,
    doubted: bool,
) -> _LeafPosterior:
    """Score leaves by released sums of each target.

    A tree that was drawn is likely to be right: leaves with the target's `own` label are expected
    to raise its margin, and the others to lower it. If it is `doubted` there are even odds that
    it explains nothing.
    """

    def with_scale(scale: float) -> list[tuple[GaussianPosterior, float]]:
        means = np.pad(np.where(own, scale, -scale), ((0, 0), (0, 1)))  # no intercept besides
        return [
            gauss_newton_update(GaussianPosterior(mean, np.diag(mean**2)), design, released, offset)
            for mean, released, offset in zip(means, releases, offsets, strict=True)
        ]

    best, without = with_scale(LEAF_VALUE_PRIOR), with_scale(0.0)
    evidence, none = (sum(told for _, told in found) for found in (best, without))
    right = float(expit(evidence - none)) if doubted else 1.0
    scores = np.array([found.mean[:-1] for found, _ in best])
    covariances = np.array([found.covariance[:-1, :-1] for found, _ in best])
    between = (1 - right) * scores[:, :, None] * scores[:, None]
    total = float(np.logaddexp(evidence, none) - np.log(2)) if doubted else evidence
    return _LeafPosterior(right * scores, right * (covariances + between), total, evidence - none)
