"""Fitted model: the result of a boosting fit."""

from __future__ import annotations

from dataclasses import dataclass

from skpublicdp.boosting.additive_posterior import WeightedPublicRows
from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import AdditiveModel, probabilities
from skpublicdp.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Result of a fit. All values are released, except for the private rows in `data.rows`.

    Attributes
    ----------
    model : AdditiveModel
        Integer scores of bins and trees.
    data : BinnedData
        The rows in the bins of the model.
    loss : Loss
        Maps margins to mean targets.
    covariances : list of ndarray, shape (n_targets, n_bins of a column, n_bins of a column)
        Posterior covariance of the scores of each column, then of each tree with noisy leaves.
        Empty for voting trees.
    drift : float or None
        Drift statistic of the public rows; about 1 if both samples are of one population.
    drifted : bool
        Whether the drift is statistically significant.
    residual_counts : ndarray of int64, shape (len(RESIDUAL_EDGES) - 1,), or None
        Noisy histogram of the residuals of a regression, from -1 to 1.
    """

    model: AdditiveModel
    data: BinnedData
    loss: Loss
    covariances: list[Floats]
    drift: float | None
    drifted: bool
    residual_counts: Integers | None = None


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Additive model with one logistic margin for each target, before it has its final loss.

    Attributes
    ----------
    model : AdditiveModel
        Integer scores of bins and trees.
    data : BinnedData
        The rows in the bins of the model.
    design : WeightedPublicRows
        Public rows with their weights.
    covariances : list of ndarray, shape (n_targets, n_bins of a column, n_bins of a column)
        As in `FittedModel`.
    drift : float or None
        Drift statistic of the public rows.
    drifted : bool
        Whether the drift is statistically significant.
    """

    model: AdditiveModel
    data: BinnedData
    design: WeightedPublicRows
    covariances: list[Floats]
    drift: float | None = None
    drifted: bool = False

    def with_loss(self, loss: Loss) -> FittedModel:
        """Return the fit with its scores rescaled to a loss."""
        codes, weights = self.data.public_codes, self.design.weights
        factors = loss.logistic_rescaling(probabilities(self.model.raw_predict(codes)) @ weights)
        model = loss.from_logistic(self.model, codes, weights)
        covariances = [factors[:, None, None] ** 2 * block for block in self.covariances]
        return FittedModel(model, self.data, loss, covariances, self.drift, self.drifted)
