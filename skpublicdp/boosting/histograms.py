"""Gradient histograms over bins, computed with exact integers and released with exact noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from skpublicdp._internal.reproducible import with_stable_signs
from skpublicdp.accounting import Event, Sensitivity
from skpublicdp.boosting.additive_posterior import WeightedPublicRows, prior_covariances
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import BinCodes, Binner
from skpublicdp.boosting.budget_split import BALANCED, MISMATCH
from skpublicdp.boosting.model import MAX_GRADIENT, AdditiveModel, scaled_gradients
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats, Integers

STRATEGY_UNIT = 32
"""Integer that represents an entry of 1 in a strategy matrix. All entries are multiples of 1/32."""

MAX_OPTIMISED_BINS = 40
"""Maximum number of bins of a column for which the strategy is optimised, to limit run time."""

PRIOR_SCALE = np.exp(-1.0)
"""Prior variance of bin scores assumed when strategies are optimised (ablation: "little")."""

MAX_OPTIMISER_STEPS = 60
"""Maximum number of L-BFGS iterations. An approximate minimum suffices, since every strategy is
valid."""


@dataclass(frozen=True, eq=False)
class HistogramStrategy:
    """Matrix mechanism strategy: an integer matrix per column and a weighted total."""

    # (n_measured, n_bins): strategy matrix of each column, in units of 1 / STRATEGY_UNIT
    blocks: tuple[Integers, ...]
    is_identity: tuple[bool, ...]  # whether a column's strategy measures every bin separately
    total_weight: int  # Weight of the total over all rows. The total is the last measurement.
    # weight of each row in the counts, in the same integer units as gradients, whose norm is at
    # most `MAX_GRADIENT`
    count_weight: int

    def noise_variance(self, budget: StageBudget, ledger: Ledger) -> float:
        """Return the noise variance, in rows², of one histogram that spends the entire budget."""
        sensitivity = ledger.for_person(self.sensitivity(counts=False))
        return budget.variance(sensitivity) / (2 * MAX_GRADIENT * STRATEGY_UNIT) ** 2

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the measured combinations of bin values. The last one is the weighted total."""
        inner_ends = np.cumsum([block.shape[1] for block in self.blocks])[:-1]
        columns = np.split(values, inner_ends, axis=-1)
        combined = [column @ block.T for column, block in zip(columns, self.blocks, strict=True)]
        # the bins of every column add up to the total over all rows
        total = self.total_weight * columns[0].sum(-1, keepdims=True)
        return np.concatenate([*combined, total], axis=-1)

    def consistent_counts(self, counts: Floats, n: int) -> Floats:
        """Return noisy counts, adjusted so that the bins of each column add up to the public n."""
        adjusted = counts.copy()
        for block, is_identity in zip(self.column_slices, self.is_identity, strict=True):
            if is_identity:
                adjusted[block] += (n - counts[block].sum()) / (block.stop - block.start)
        return adjusted

    def estimate_total(self, sums: Floats) -> float:
        """Estimate the sum over all rows from noisy sums, shape (n_measured,).

        The estimate is a precision-weighted average of the measured total and, for each column with
        measured bins, the sum over its bins.
        """
        total_weight = self.total_weight / STRATEGY_UNIT
        estimates = [sums[-1] / total_weight]
        precisions = [total_weight**2]
        for block, is_identity in zip(self.column_slices, self.is_identity, strict=True):
            if is_identity:
                n_bins = block.stop - block.start
                estimates.append(sums[block].sum())
                precisions.append(1 / n_bins)
        return float(np.average(estimates, weights=precisions))

    @property
    def column_slices(self) -> list[slice]:
        """Positions of each column's measurements in the result of `apply`."""
        ends = np.cumsum([len(block) for block in self.blocks]).tolist()
        pairs = zip(ends, self.blocks, strict=True)
        return [slice(end - len(block), end) for end, block in pairs]

    def sensitivity(self, *, counts: bool) -> Sensitivity:
        """Return a bound on the change in all measurements when a single row is replaced.

        Each row contributes to the gradient sums its scaled gradient, whose norm is at most
        `MAX_GRADIENT`, multiplied by the strategy entries of its bins. To the counts, each row
        contributes the same entries multiplied by `count_weight`. Since the change is convex in the
        gradients, its maximum is attained at extreme gradients (docs/proofs/moments.md).
        """
        weight = self.count_weight if counts else 0
        # the total count is the number of rows, which is fixed, so only the total gradient changes
        total_change = 2 * MAX_GRADIENT * self.total_weight
        absolute, squared = total_change, total_change**2
        for block in self.blocks:
            # floats are exact for sums of small integers; the maximum is over all pairs of bins,
            # and a pair of equal bins represents a change of the label alone
            bin_vectors = block.T.astype(np.float64)  # (n_bins, n_measured)
            norms = np.abs(bin_vectors).sum(axis=1)
            # in the 1-norm, the two gradients may belong to different targets
            changes = MAX_GRADIENT * np.add.outer(norms, norms)
            distances = cdist(bin_vectors, bin_vectors, "cityblock")
            absolute += int((changes + weight * distances).max())
            # the old and the new gradient can have equal or opposite signs
            distances = cdist(bin_vectors, bin_vectors, "sqeuclidean")
            opposite_distances = cdist(bin_vectors, -bin_vectors, "sqeuclidean")
            changes = MAX_GRADIENT**2 * np.maximum(distances, opposite_distances)
            squared += int((changes + weight**2 * distances).max())
        return Sensitivity(absolute, squared)


def choose_strategy(
    binner: Binner,
    design: WeightedPublicRows,
    ledger: Ledger,
    budget: StageBudget,
    class_balance: float,
) -> HistogramStrategy:
    """Return the HDMM strategy for Gaussian noise and balanced classes, or else the identity."""
    identity = identity_strategy(binner, design.X, pure=budget.pure)
    if budget.pure or class_balance < BALANCED:
        return identity
    n = design.n
    information = n * class_balance / 4  # number of rows times p (1 - p)
    return optimised_strategy(
        binner,
        shares=design.weights @ design.X,
        kernels=prior_covariances(binner, design),
        variance=identity.noise_variance(budget, ledger),
        information=information,
        sampling=information * (1 + MISMATCH * n * design.concentration),
    )


def identity_strategy(binner: Binner, X: Floats, *, pure: bool) -> HistogramStrategy:
    """Return the strategy that measures every bin of every column and half of the total.

    With Laplace noise, if public rows occupy only two bins of a column, the difference between
    these bins is measured. With Gaussian noise, counts of weight `MAX_GRADIENT` do not increase the
    sensitivity: a row that moves to another bin affects two gradients and two counts, and this
    change has the same norm as the change due to a flipped label.
    """
    has_public_rows = X.sum(axis=0) > 0
    blocks, is_identity = [], []
    for start, size in zip(binner.offsets[:-1], binner.sizes, strict=True):
        bins = np.flatnonzero(has_public_rows[start : start + size])
        block = STRATEGY_UNIT * np.eye(size, dtype=np.int64)
        if pure and len(bins) == 2:
            block = np.zeros((1, size), dtype=np.int64)
            block[0, bins] = STRATEGY_UNIT, -STRATEGY_UNIT
        blocks.append(block)
        is_identity.append(len(block) == size)
    count_weight = MAX_GRADIENT // 2 if pure else MAX_GRADIENT
    return HistogramStrategy(
        tuple(blocks),
        tuple(is_identity),
        total_weight=STRATEGY_UNIT // 2,
        count_weight=count_weight,
    )


def optimised_strategy(
    binner: Binner,
    shares: Floats,  # (n_bins,)
    kernels: Sequence[Floats],
    variance: float,
    information: float,
    sampling: float,
) -> HistogramStrategy:
    """Return the strategy that minimises the posterior variance of the scores (HDMM).

    The matrix of each column is optimised separately, among matrices whose columns have norm 1.
    Bins without public rows are omitted, as are columns with a single public bin. Counts have half
    the weight of the largest gradient, because this strategy is used for balanced classes, where
    counts provide less information about the scores. The number of rows times p (1 - p), for a
    fraction p of rows with the label, is `information`. The sampling variance of a gradient sum
    over all rows is `sampling`.

    References
    ----------
    R. McKenna, G. Miklau, M. Hay, A. Machanavajjhala (2018). Optimizing error of high-dimensional
    statistical queries under differential privacy. PVLDB 11(10).
    """
    blocks, is_identity = [], []
    for start, size, kernel in zip(binner.offsets[:-1], binner.sizes, kernels, strict=True):
        mass = shares[start : start + size]
        bins = np.flatnonzero(mass > 0)
        if len(bins) > MAX_OPTIMISED_BINS:
            blocks.append(STRATEGY_UNIT * np.eye(size, dtype=np.int64))
            is_identity.append(True)
            continue
        if len(bins) == 1:  # the bin equals the total, which is measured anyway
            blocks.append(np.zeros((1, size), dtype=np.int64))
            is_identity.append(False)
            continue
        # in units of scores: increasing all scores by 1 changes the total by `information`
        noise = (variance + sampling / len(bins)) / information**2
        A = _minimise_posterior_variance(
            PRIOR_SCALE * kernel[np.ix_(bins, bins)], mass[bins] / mass[bins].sum(), noise
        )
        block = np.zeros((len(A), size), dtype=np.int64)
        block[:, bins] = np.rint(STRATEGY_UNIT * A)
        blocks.append(block)
        is_identity.append(False)
    return HistogramStrategy(
        tuple(blocks),
        tuple(is_identity),
        total_weight=STRATEGY_UNIT,
        count_weight=MAX_GRADIENT // 2,
    )


def _minimise_posterior_variance(prior: Floats, shares: Floats, noise: float) -> Floats:
    """Return the strategy A, with columns of norm 1, that minimises tr C (K⁻¹ + C AᵀA C / noise)⁻¹.

    The trace is the row-weighted posterior variance of the scores, where C is the covariance of a
    row's bin indicators and K is the prior covariance. The result is equivalent to A, without the
    directions that A hardly measures. The noise variance is in units of scores.
    """
    size = len(shares)
    identity = np.eye(size)
    C = np.diag(shares) - np.outer(shares, shares)
    values, vectors = np.linalg.eigh(prior)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    # the loss is relative to the prior variance, which suits the optimiser's tolerances
    scale = 1 / max(float(np.trace(C @ prior)), 1e-12)

    def loss(flat: Floats) -> tuple[float, Floats]:
        """Return the scaled trace and its gradient with respect to B, the unnormalised A."""
        B = flat.reshape(size, size)
        norms = np.sqrt((B**2).sum(axis=0))
        A = B / norms
        design = A @ C @ root
        # the scores are root @ z for standard normal variables z
        precision = identity + design.T @ design / noise
        covariance = np.linalg.inv(precision)
        posterior = root @ covariance @ root.T
        weighted = C @ posterior
        trace = float(np.trace(weighted))
        inner_slope = weighted @ C @ posterior @ C
        slope_of_A = -2 / noise * A @ inner_slope
        # B changes A only orthogonally to the columns of A, whose norms are fixed
        parallel = (A * slope_of_A).sum(axis=0)
        slope_of_B = (slope_of_A - A * parallel) / norms
        return scale * trace, scale * slope_of_B.ravel()

    # start near AᵀA = K^(1/2), with a random part that breaks symmetries at which gradients vanish
    start = (vectors * np.maximum(values, 1e-9) ** 0.25) @ vectors.T
    start = start + 0.05 * np.random.default_rng(0).normal(size=start.shape)
    options = {"maxiter": MAX_OPTIMISER_STEPS}
    result = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    B = result.x.reshape(size, size)
    A = B / np.sqrt((B**2).sum(axis=0))
    # the posterior depends only on AᵀA, so scaled eigenvectors of AᵀA form an equivalent strategy
    weights, directions = np.linalg.eigh(A.T @ A)
    is_measured = weights > 1e-3
    reduced = (directions[:, is_measured] * np.sqrt(weights[is_measured])).T
    return with_stable_signs(reduced)


BOOSTING_PROOF = "docs/proofs/moments.md"
"""Proof page for the sensitivities of all sums that boosting releases, cited in receipts."""


def count_sensitivity(n_counts: int) -> Sensitivity:
    """Return the sensitivity of `n_counts` counts, if a single row changes each by at most 1."""
    return Sensitivity(n_counts, n_counts)


def noisy_class_balance(training: TrainingData, ledger: Ledger, budget: StageBudget) -> float:
    """Spend a budget on noisy counts of the labels, and return the class balance.

    The class balance is 4 p (1 - p) for two labels and min(1, 2 (1 - Σ p²)) for more labels. The
    class balance equals 1 if all labels have the same frequency p.
    """
    rows, n_targets = training.rows, training.n_targets

    def count_chunk(chunk: slice) -> Integers:
        """Return the class counts of one chunk of rows (for two labels, the number of ones)."""
        y = rows.y[chunk]
        if n_targets == 1:
            return np.array([y.sum(dtype=np.int64)])
        return np.bincount(y, minlength=n_targets)

    counts = ledger.add_noise(
        rows.sum_over_chunks(count_chunk),
        # with more than two labels, one count decreases by 1 and another count increases by 1
        Sensitivity(1, 1) if n_targets == 1 else Sensitivity(2, 2),
        budget.event,
        name="noisy counts of the labels",
        proof=BOOSTING_PROOF,
    ).values
    n = rows.n
    shares = np.clip(counts / n, min(3 / n, 0.5), max(1 - 3 / n, 0.5))
    if n_targets == 1:
        return float(4 * shares[0] * (1 - shares[0]))
    shares = shares / shares.sum()
    return min(1.0, float(2 * (1 - shares @ shares)))


def gradient_histogram(model: AdditiveModel, data: BinnedData, *, pure: bool) -> Integers:
    """For each bin, return the sum of the scaled gradients and the number of rows."""

    def tabulate_chunk(chunk: slice) -> Integers:
        """Return the gradient sums and counts of one chunk of rows, (n_targets + 1, n_bins)."""
        codes = data.codes(chunk)
        gradients = scaled_gradients(model.raw_predict(codes), data.rows.y[chunk], pure)
        return histogram_sums(gradients, codes, model.offsets)

    return data.rows.sum_over_chunks(tabulate_chunk)


def histogram_sums(values: NDArray[Any], codes: BinCodes, offsets: NDArray[np.intp]) -> Integers:
    """For each bin, return the sum of the integer values and the number of rows."""
    n_bins = int(offsets[-1])
    table = np.empty((len(values) + 1, n_bins), dtype=np.int64)
    for bin_of_row, (start, stop) in zip(codes, pairwise(offsets), strict=True):
        size = stop - start
        column_table = table[:, start:stop]  # a view of `table`
        for target, target_values in enumerate(values):
            # doubles are exact here: the sums are integers far below 2^53
            sums = np.bincount(bin_of_row, weights=target_values, minlength=size)
            column_table[target] = sums
        column_table[-1] = np.bincount(bin_of_row, minlength=size)
    return table


@dataclass(frozen=True, eq=False)
class NoisyHistogram:
    """Noisy measurements of a gradient histogram, which are linear combinations of its bins."""

    # (n_targets, n_measured): linear combinations of gradient sums, in units of gradients
    sums: Floats
    # (n_measured,): the same linear combinations of row counts, or None if counts were not measured
    counts: Floats | None
    # Noise variances of a combination of gradient sums and of a combination of counts. Without
    # counts, `count_variance` is infinite.
    variance: float
    count_variance: float


def measure(
    table: Integers, strategy: HistogramStrategy, event: Event, ledger: Ledger, *, counts: bool
) -> NoisyHistogram:
    """Release the result of measuring a gradient histogram with a strategy and exact noise."""
    weight = strategy.count_weight
    combined = strategy.apply(table)
    combined[-1] *= weight  # the last row holds counts
    measured = ledger.add_noise(
        combined if counts else combined[:-1],
        strategy.sensitivity(counts=counts),
        event,
        name="noisy gradient histogram",
        proof=BOOSTING_PROOF,
    )
    values = measured.values.astype(np.float64)
    gradient_unit, count_unit = 2 * MAX_GRADIENT * STRATEGY_UNIT, weight * STRATEGY_UNIT
    n_targets = len(table) - 1
    return NoisyHistogram(
        sums=values[:n_targets] / gradient_unit,
        counts=values[-1] / count_unit if counts else None,
        variance=measured.variance / gradient_unit**2,
        count_variance=measured.variance / count_unit**2 if counts else np.inf,
    )
