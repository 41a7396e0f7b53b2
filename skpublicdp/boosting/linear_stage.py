"""Linear model that is fitted before boosting, if the table has many numbers.

The noise of histograms grows with the number of columns, whereas a linear model is measured along
few axes of the public rows. Stacking then weighs the linear and the boosted model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from skpublicdp.boosting.additive_posterior import WeightedPublicRows
from skpublicdp.boosting.fitted_model import FittedModel, LogisticFit, PublicTerm
from skpublicdp.boosting.histograms import count_sensitivity
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import null_model
from skpublicdp.boosting.public_model import PublicMargins, PublicModel, to_integers
from skpublicdp.boosting.training_data import TrainingData, encoded_chunks
from skpublicdp.data.schema import Schema
from skpublicdp.linear.glm_loss import LogisticGLMLoss, SoftmaxGLMLoss, SquaredGLMLoss
from skpublicdp.linear.linear_fit import LinearModel, fit_linear
from skpublicdp.linear.softmax_fit import fit_softmax
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats

LINEAR_SHARE = Fraction(2, 3)
"""Share of the budget for the linear model, if there is one (ablation: "linear stage")."""


MIN_ROWS_PER_NOISE_BESIDE_LINEAR = 150
"""Smallest ratio of the number of rows to the noise, as in `budget_split.MIN_ROWS_PER_NOISE`, at
which boosting is fitted beside a linear model (ablation: "linear stage")."""

MIN_ROWS_PER_COLUMN_BESIDE_LINEAR = 10
"""Smallest number of private rows per column at which boosting is fitted beside a linear model.
With fewer rows, a bin of a histogram has less than one row (ablation: "linear stage")."""


@dataclass(frozen=True, eq=False)
class LinearStage(PublicModel):
    """Released linear model, which is combined with boosting like a public model."""

    linear: LinearModel
    loss: Loss  # loss of the margins
    schema: Schema  # columns of the rows

    name = "linear model"

    @property
    def estimator(self) -> LinearModel:
        """The linear model."""
        return self.linear

    def predict_margins(self, rows: Floats) -> Floats:
        """Return the margins of encoded rows, shape (n_targets, n).

        The products are added column by column, so that the margin of a row does not depend on its
        position. A matrix product would not guarantee this.
        """
        slopes = np.atleast_2d(self.linear.slopes)  # (n_targets, n_design)
        intercepts = np.atleast_1d(self.linear.intercept)
        deviations = self.linear.columns.deviations(rows)
        scores = np.empty((len(slopes), len(rows)))
        scores[:] = intercepts[:, None]
        for position in range(slopes.shape[1]):
            weights = slopes[:, position, None]
            values = deviations[:, position]
            scores += weights * values
        return self.loss.glm_unit * scores

    def importances(self, rows: Floats) -> Floats:
        """Return the mean absolute contribution of each source column to encoded public rows."""
        columns = self.linear.columns
        slopes = np.atleast_2d(self.linear.slopes)
        deviations = columns.deviations(rows)
        contributions = np.zeros((rows.shape[1], len(slopes), len(rows)))
        for position, source in enumerate(columns.sources):
            weights = slopes[:, position, None]
            contributions[source] += weights * deviations[:, position]
        means = contributions.mean(axis=2, keepdims=True)
        contributions -= means
        importances = np.abs(contributions).mean(axis=(1, 2))
        return self.loss.glm_unit * importances


def linear_model_suffices(training: TrainingData, ledger: Ledger, budget: StageBudget) -> bool:
    """Indicate whether the noise of histograms of all columns hides what a linear model lacks."""
    n, n_columns = training.rows.n, len(training.rows.columns)
    noise = math.sqrt(budget.variance(ledger.for_person(count_sensitivity(n_columns))))
    has_few_rows = n < MIN_ROWS_PER_COLUMN_BESIDE_LINEAR * n_columns
    return has_few_rows or n < MIN_ROWS_PER_NOISE_BESIDE_LINEAR * noise


def with_linear_model(training: TrainingData, ledger: Ledger, budget: StageBudget) -> TrainingData:
    """Fit a linear model to the private rows, and return the data with its margins of all rows."""
    dataset, n_targets = training.dataset, training.n_targets
    assert dataset is not None
    if n_targets > 1:
        softmax = SoftmaxGLMLoss(n_targets)
        linear = fit_softmax(dataset, ledger, budget, softmax, has_intercept=True)
    else:
        loss = LogisticGLMLoss() if training.loss.has_labels else SquaredGLMLoss()
        linear = fit_linear(dataset, ledger, budget, loss, has_intercept=True)
    stage = LinearStage(linear, training.loss, dataset.schema)
    of_public = to_integers(stage.predict_margins(dataset.X_public))
    public_margins = PublicMargins(stage, slope=1.0, of_public=of_public)
    rows = training.rows
    rows.public_margins = rows.allocate((len(of_public), rows.n), np.int16)
    # the bins are encoded again, since the order of rows may differ between passes
    rows.fill(encoded_chunks(dataset, rows.fine_binner, public_margins, rows.y.dtype, rows.n_jobs))
    return replace(training, public_margins=public_margins)


def linear_model_alone(training: TrainingData) -> FittedModel:
    """Return a fitted model whose only term is the linear model."""
    data, loss, public_margins = training.binned, training.loss, training.public_margins
    assert public_margins is not None
    n_targets = training.n_targets
    null = null_model(data.binner.offsets, n_targets)
    no_covariances = [np.zeros((n_targets, bins.size, bins.size)) for bins in data.binner.columns]
    design = WeightedPublicRows.from_data(data)
    fitted = LogisticFit(null, data, design, covariances=no_covariances).with_loss(loss)

    linear = public_margins.model.estimator
    variance = loss.glm_unit**2 * linear.margin_variance
    term = PublicTerm(public_margins, weight=1.0, variance=variance)
    return replace(fitted, public_term=term)
