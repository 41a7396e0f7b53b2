"""Linear model that is fitted before boosting, if the table has many numbers.

The noise of histograms grows with the number of columns, whereas a linear model is measured along
few axes of the public rows. Stacking then weighs the linear and the boosted model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.public_model import PublicMargins, PublicModel, to_integers
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.linear.linear_fit import LinearModel, fit_linear
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats

LINEAR_SHARE = Fraction(2, 3)
"""Share of the budget for the linear model, if there is one (ablation: "linear stage")."""


@dataclass(frozen=True, eq=False)
class LinearStage(PublicModel):
    """Released linear model, which is combined with boosting like a public model."""

    linear: LinearModel
    loss: Loss  # loss of the margins

    @property
    def estimator(self) -> LinearModel:
        """The linear model."""
        return self.linear

    def predict_margins(self, rows: Floats) -> Floats:
        """Return the margins of encoded rows, shape (1, n).

        The products are added column by column, so that the margin of a row does not depend on its
        position. A matrix product would not guarantee this.
        """
        scores = np.full(len(rows), self.linear.intercept)
        deviations = self.linear.columns.deviations(rows)
        for values, slope in zip(deviations.T, self.linear.slopes, strict=True):
            scores += slope * values
        return self.loss.margins_of_glm(scores)[None]


def with_linear_model(training: TrainingData, ledger: Ledger, budget: StageBudget) -> TrainingData:
    """Fit a linear model to the private rows, and return the data with its margins of all rows."""
    dataset, glm_loss = training.dataset, training.loss.glm_loss
    assert dataset is not None
    assert glm_loss is not None
    linear = fit_linear(dataset, ledger, budget, glm_loss, has_intercept=True)
    stage = LinearStage(linear, training.loss)
    of_public = to_integers(stage.predict_margins(dataset.X_public))
    public_margins = PublicMargins(stage, slope=1.0, of_public=of_public)
    chunks = dataset.map(lambda X, y: public_margins.margins(X))
    rows = training.rows.with_margins(chunks, n_margins=len(of_public))
    return replace(training, rows=rows, public_margins=public_margins)
