"""Trees drawn by the exponential mechanism: voting trees, and trees with noisy leaf values."""

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
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Floats, Integers

MAX_ROW_WEIGHT = 16
"""Weight of a row that the current model misclassifies: boosting weights are 0 to this."""

LEAF_SENSITIVITY = Sensitivity(2 * MAX_GRADIENT, (2 * MAX_GRADIENT) ** 2)
"""Sensitivity of gradient sums over leaves: a flipped label moves one leaf by 2 MAX_GRADIENT, a row
that changes leaves moves two by MAX_GRADIENT."""

LEAF_VALUE_PRIOR = 0.8
"""Prior mean of the absolute leaf value, and its standard deviation (ablation: "little")."""


class PrivateTreeBooster:
    """Adds trees to a model, each drawn with weights on the rows that the model misclassifies.

    Parameters
    ----------
    warm_starts : list of WarmStart
        Candidate initial models. The last one is used until the first tree's noisy leaf sums are
        released. Then the candidates are mixed by their evidence.
    cover : TreeCover
        All candidate trees.
    data : BinnedData
        Binned private and public rows.
    ledger : Ledger
        Ledger that pays and draws.

    Attributes
    ----------
    model : AdditiveModel
        Current model.
    column_covariances : list of ndarray, shape (n_targets, n_bins, n_bins)
        Posterior covariances of the bin scores of each column of the initial model.
    tree_covariances : list of ndarray, shape (n_targets, n_leaves, n_leaves)
        Posterior covariances of the leaf values of each tree; empty for voting trees.
    """

    def __init__(
        self, warm_starts: list[WarmStart], cover: TreeCover, data: BinnedData, ledger: Ledger
    ) -> None:
        self._warm_starts, self.tree_covariances = warm_starts, list[Floats]()
        self._cover, self._data, self._ledger = cover, data, ledger
        self._set(warm_starts[-1])

    def _set(self, start: WarmStart) -> None:
        self.model, self.column_covariances = start.model, start.covariances
        self._margins = self._data.margins(start.model)

    def add_voting_tree(self, event: Draw, rate: float) -> None:
        """Draw a tree for two labels whose leaves move the log-odds by 2 · `rate` up or down."""
        tree = self._draw(event)
        votes = 2 * tree.leaves[None].astype(np.int64) - 1
        self._add(tree, round(2 * rate * MARGIN_UNIT) * votes)

    def add_tree_with_noisy_leaves(
        self, event: Draw, noise: Gaussian | Pure, design: WeightedPublicRows
    ) -> float:
        """Draw a tree, release the gradient sums of its leaves and set the leaf values.

        Parameters
        ----------
        event : Draw
            Privacy event of the draw.
        noise : Gaussian or Pure
            Privacy event of the leaf sums.
        design : WeightedPublicRows
            Weights of the public rows.

        Returns
        -------
        float
            Log Bayes factor of the leaf values against zero values.
        """
        pure = isinstance(noise, Pure)
        tree = self._draw(event)
        n_leaves = len(tree.leaves)
        measured = self._ledger.add_noise(
            leaf_gradients(tree, self._data, self._margins, pure=pure),
            LEAF_SENSITIVITY,
            noise,
            name="noisy gradient sums of its leaves",
            proof=PROOF,
        )
        totals = measured.values / (2 * MAX_GRADIENT)

        public_codes = self._data.public_codes
        baseline = probabilities(self.model.raw_predict(public_codes))
        scale = gradient_scale(baseline, pure)
        Z = np.eye(n_leaves)[apply_tree(tree.splits, public_codes)]
        covariance = measured.variance / (2 * MAX_GRADIENT) ** 2 * np.eye(n_leaves)
        statistics = [
            NoisyStatistic(total, covariance, Z, scale, probability)
            for total, probability in zip(totals, baseline, strict=True)
        ]
        # leaves that were drawn with the label of the target
        is_positive = tree.leaves == (np.arange(len(totals))[:, None] if len(totals) > 1 else [[1]])
        leaf_rows = WeightedPublicRows(Z, design.weights, design.n)
        models = (
            [self.model] if self.tree_covariances else [start.model for start in self._warm_starts]
        )
        offsets = [model.raw_predict(public_codes) / MARGIN_UNIT for model in models]
        posteriors = [
            # the tree was drawn for the last model, so it may explain nothing under the others
            _leaf_values(leaf_rows, statistics, offset, is_positive, doubted=i > 0)
            for i, offset in enumerate(offsets)
        ]
        weights = evidence_weights(np.array([leaf.evidence for leaf in posteriors]))
        if len(models) > 1:
            self._set(mix_models(self._warm_starts, weights))
        values = np.tensordot(weights, [leaf.scores for leaf in posteriors], axes=1)
        self.tree_covariances.append(
            np.tensordot(weights, [leaf.covariances for leaf in posteriors], axes=1)
        )
        self._add(tree, np.rint(MARGIN_UNIT * values).astype(np.int64))
        return float(weights @ [leaf.gain for leaf in posteriors])

    def _draw(self, event: Draw) -> DecisionTree:
        """Draw a tree by weighted errors; a row's weight depends on its own margin and label."""
        data, y = self._data, self._data.rows.y

        def tabulate_chunk(chunk: slice) -> Integers:
            weights = boosting_weights(self._margins[:, chunk], y[chunk], MAX_ROW_WEIGHT)
            X: NDArray[Any] = data.codes(chunk).T
            return self._cover.tabulate(X, y[chunk], weights)

        path = self._ledger.draw(
            self._cover.family(data.rows.sum_over_chunks(tabulate_chunk)),
            event,
            MAX_ROW_WEIGHT,
            name="exponential mechanism, exact draw of a tree",
            proof="docs/proofs/selection.md",
        )
        return self._cover.hypothesis(path)

    def _add(self, tree: DecisionTree, scores: Integers) -> None:
        self.model = self.model.with_tree(tree, scores)
        self._data.add_scores(self._margins, scores, self._data.leaf_indexer(tree.splits))


def leaf_gradients(
    tree: DecisionTree, data: BinnedData, margins: NDArray[np.int32], *, pure: bool
) -> Integers:
    """Return the sums of scaled gradients in each leaf, shape (n_targets, n_leaves)."""
    leaf_of_row = data.leaf_indexer(tree.splits)

    def tabulate_chunk(chunk: slice) -> Integers:
        gradients = scaled_gradients(margins[:, chunk], data.rows.y[chunk], pure)
        offsets = np.array([0, len(tree.leaves)])
        return histogram_sums(gradients, leaf_of_row(chunk)[None], offsets)[:-1]

    total: Integers = data.rows.sum_over_chunks(tabulate_chunk)
    return total


@dataclass(frozen=True, eq=False)
class _LeafPosterior:
    """Gaussian posterior of leaf values.

    Attributes
    ----------
    scores : ndarray of float64, shape (n_targets, n_leaves)
        Posterior means.
    covariances : ndarray of float64, shape (n_targets, n_leaves, n_leaves)
        Posterior covariances.
    evidence, gain : float
        Log evidence, and the log Bayes factor of the leaf values against zero values.
    """

    scores: Floats
    covariances: Floats
    evidence: float
    gain: float


def _leaf_values(
    design: WeightedPublicRows,
    statistics: Sequence[NoisyStatistic],
    offsets: Floats,
    is_positive: NDArray[np.bool_],
    *,
    doubted: bool,
) -> _LeafPosterior:
    """Return the posterior of leaf values given the noisy gradient sums of each target.

    The prior trusts the drawn tree: leaves with the target's label raise its margin, others lower
    it. If the tree is `doubted`, the values are mixed with zero values at prior odds of 1.

    Parameters
    ----------
    design : WeightedPublicRows
        Leaf indicators and weights of the public rows.
    statistics : sequence of NoisyStatistic
        Gradient sums of each target.
    offsets : ndarray of float64, shape (n_targets, m)
        Margins of the public rows without the tree.
    is_positive : ndarray of bool, shape (n_targets, n_leaves)
        Whether a leaf was drawn with the label of the target.
    doubted : bool
        Whether the tree may explain nothing.
    """

    def fit(scale: float) -> list[tuple[GaussianPosterior, float]]:
        means = np.pad(np.where(is_positive, scale, -scale), ((0, 0), (0, 1)))  # no intercept
        return [
            gauss_newton_update(
                GaussianPosterior(mean, np.diag(mean**2)), design, statistic, offset
            )
            for mean, statistic, offset in zip(means, statistics, offsets, strict=True)
        ]

    fitted, zero = fit(LEAF_VALUE_PRIOR), fit(0.0)
    evidence, null_evidence = (sum(value for _, value in fits) for fits in (fitted, zero))
    weight = float(expit(evidence - null_evidence)) if doubted else 1.0
    scores = np.array([posterior.mean[:-1] for posterior, _ in fitted])
    covariances = np.array([posterior.covariance[:-1, :-1] for posterior, _ in fitted])
    between = (1 - weight) * scores[:, :, None] * scores[:, None]
    total = float(np.logaddexp(evidence, null_evidence) - np.log(2)) if doubted else evidence
    return _LeafPosterior(
        weight * scores, weight * (covariances + between), total, evidence - null_evidence
    )
