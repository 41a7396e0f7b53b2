"""Fitted model: the result of a boosting fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from skpublicdp.boosting.additive_posterior import WeightedPublicRows
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.binner import BinCodes
from skpublicdp.boosting.covariate_shift import NO_DRIFT, DriftReport
from skpublicdp.boosting.loss import DECLARED_RANGE, Loss, Margins, OutcomeRange
from skpublicdp.boosting.model import MARGIN_UNIT, AdditiveModel, probabilities
from skpublicdp.boosting.public_model import PublicMargins
from skpublicdp.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class PublicTerm:
    """Weighted contribution of a public model to the margins."""

    public: PublicMargins  # the public model
    weight: float  # factor applied to the public model's margins
    variance: float  # expected squared error of the contribution, in squared logits

    def of_margins(self, margins: Margins) -> Integers:
        """Return the contribution to each row's margins, given the margins of the public model.

        Margins and contributions are in units of 1 / MARGIN_UNIT, shape (n_targets, n).
        """
        return np.rint(self.weight * margins).astype(np.int64)

    @property
    def public_means(self) -> Integers:
        """Mean contribution to the margins of the public rows, rounded, shape (n_targets, 1)."""
        means = self.of_margins(self.public.of_public).mean(axis=1, keepdims=True)
        return np.rint(means).astype(np.int64)

    @property
    def importance(self) -> float:
        """Mean absolute deviation, in logits, of the contribution over public rows and targets."""
        contributions = self.of_margins(self.public.of_public)
        return float(np.abs(contributions - self.public_means).mean() / MARGIN_UNIT)

    def of_rows(self, rows: Floats) -> Integers:
        """Return the contribution to the margins of encoded rows of the user's table."""
        return self.of_margins(self.public.margins(rows))


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Result of a fit, whose values are all released except the private rows in `data.rows`."""

    model: AdditiveModel  # integer scores of bins and trees
    data: BinnedData
    loss: Loss
    # (n_targets, n_bins of a column, n_bins of a column): posterior covariances of the scores of
    # each column, followed by those of each tree with noisy leaves. Empty for voting trees.
    covariances: list[Floats]
    drift: DriftReport  # drift of the public rows
    row_weights: Floats  # (m,): weights of the public rows, which sum to 1
    # Posterior variance of an average public row's centred margins, in squared logits, summed over
    # the targets. Zero for voting trees.
    variance: float = 0.0
    # (len(RESIDUAL_EDGES): noisy histogram of the residuals of a regression, from -1 to 1
    residual_counts: Integers | None = None
    public_term: PublicTerm | None = None  # contribution of a public model that is added to `model`
    # factor applied to all scores of `model`, which is the weight of the boosted model relative to
    # the public model
    boosting_weight: float = 1.0
    # Expected products of the errors of the scores, in the format of `covariances`. They include
    # the errors of the initial scores, and default to `covariances`.
    error_covariances: list[Floats] | None = None

    def margins(self, chunk: slice) -> Integers:
        """Return the margins of a slice of the private rows of `data`, shape (n_targets, k)."""
        margins = self.model.raw_predict(self.data.codes(chunk))
        if self.public_term is not None:
            margins += self.public_term.of_margins(self.data.rows.public_margins[:, chunk])
        return margins


def mean_variances(
    codes: Iterable[BinCodes], covariances: Sequence[Floats], row_weights: Floats
) -> Floats:
    """Return the variance of each target's centred margins, averaged over the public rows.

    The scores of different terms are treated as independent.
    """
    total = np.zeros(1)
    for bins, covariance in zip(codes, covariances, strict=True):
        shares = np.bincount(bins, row_weights, minlength=covariance.shape[-1])
        variances = np.diagonal(covariance, axis1=1, axis2=2)  # (n_targets, n_bins)
        variance_of_mean = np.einsum("j,tjk,k->t", shares, covariance, shares)
        total = total + variances @ shares - variance_of_mean
    return np.maximum(total, 0.0)


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Additive model with one logistic margin per target, before conversion to the final loss."""

    model: AdditiveModel  # integer scores of bins and trees
    data: BinnedData
    design: WeightedPublicRows  # public rows with their weights
    # (n_targets, n_bins of a column, n_bins of a column): posterior covariances of the scores of
    # each column, followed by those of each tree with noisy leaves
    covariances: list[Floats]
    drift: DriftReport = NO_DRIFT  # drift of the public rows
    # (n_targets,): posterior variance of an average public row's centred margins, for each target
    variances: Floats = field(default_factory=lambda: np.zeros(1))
    # range of regression outcomes, which the model scales to [0, 1]
    outcome_range: OutcomeRange = DECLARED_RANGE

    def with_loss(self, loss: Loss) -> FittedModel:
        """Return the fit with its scores rescaled for a given loss."""
        codes, weights = self.data.public_codes, self.design.weights
        margins = self.model.raw_predict(codes)
        rates = probabilities(margins) @ weights  # (n_targets,)
        factors = loss.logistic_rescaling(rates, self.outcome_range)
        squared_factors = factors**2
        return FittedModel(
            model=loss.from_logistic(self.model, codes, weights, self.outcome_range),
            data=self.data,
            loss=loss,
            covariances=[squared_factors[:, None, None] * block for block in self.covariances],
            drift=self.drift,
            row_weights=weights,
            variance=float((squared_factors * self.variances).sum()),
        )
