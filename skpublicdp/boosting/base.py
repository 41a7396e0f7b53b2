"""What boosting of labels and of outcomes have in common: parameters, stages, explanations."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpublicdp.boosting.door import read_rows
from skpublicdp.boosting.explain import describe, importances, shapes
from skpublicdp.boosting.learner import Learner
from skpublicdp.exceptions import DriftWarning, warn
from skpublicdp.ledger import Ledger
from skpublicdp.parameters import DELTA, FIT, N_JOBS, ROWS, check_parameters


class SemiPrivateBoosting(BaseEstimator):
    """Reads rows, runs the stages and keeps what was released."""

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "delta": DELTA,
        "max_rounds": [Interval(Integral, 1, 1000, closed="both"), None],
        "bounds": ["array-like", dict, None],
        "n_jobs": N_JOBS,
        **FIT,
        **ROWS,
    }

    # public rows are routed without being asked for: there is nothing else they could be meant for
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    protects_all_rows = True
    """Every row of `X` is private unless a mask says otherwise: it may be a base learner."""

    def _learn(self, kind, stages, X, y, *, assumption="", learning_rate=None, **given):
        """Spend the budget on the stages, and set all attributes but those of a kind of target.

        Parameters
        ----------
        kind : Kind
            How `y` is read.
        stages : callable
            Has a learner spend.
        X, y
            Rows.
        assumption : str
            What else may be known.
        learning_rate : float, optional
            Of votes.
        **given
            Public rows and persons.

        Returns
        -------
        rows : BoostingRows
            What was read.
        learned : Learned
            What was learned.
        """
        check_parameters(self)
        ledger = Ledger.of(self)
        rows = read_rows(self, X, y, kind, **given)
        ledger.read(rows.n_private, rows.n_public)
        learner = Learner(
            rows,
            ledger,
            max_rounds=self.max_rounds,
            learning_rate=learning_rate,
        )
        learned = stages(learner)
        unit, labels = 1.0, rows.classes
        if rows.outcome_bounds is not None:
            low, high = rows.outcome_bounds
            unit, labels = (high - low) / 4, np.array(["lower", "higher"])
        model, self._features = learned.model, learned.cells.features
        self._model, self._loss = model, learned.loss
        self.shapes_, self.intercept_ = shapes(learned, unit)
        self.trees_ = describe(model, labels, self._features.names, unit)
        self.feature_importances_ = unit * importances(model, learned.cells.public_codes)
        # a mere reference is unlike any rows
        self.drift_ = learned.drift if rows.n_public else None
        self.privacy_ = ledger.receipt(
            assumptions=(
                f"the number of private rows, the types of the columns{assumption} may be known",
                "stages add up as docs/proofs/moments.md says, to less than the sum of their ε",
                *rows.assumptions,
            )
        )
        if learned.drifted and rows.n_public:
            warn(
                f"The public rows look unlike the private ones (drift_ is {self.drift_:.1f}, about "
                "1 is expected), so they are reweighed or trusted less; public rows of the same "
                "population give better models.",
                DriftWarning,
            )
        return rows, learned

    def _of_margins(self, f):
        """Return the rule that makes predictions of margins."""
        check_is_fitted(self)
        model, features = self._model, self._features
        return lambda table: f(model.margins(features.codes(table)))

    def __sklearn_tags__(self):
        """Tell scikit-learn that missing values and categories are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
