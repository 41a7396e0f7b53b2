"""Fitted model: the result of a boosting fit."""

from __future__ import annotations

from dataclasses import dataclass

from skpublicdp.boosting.binned import BinnedData
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import AdditiveModel
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
    residual_counts: Integers | None
