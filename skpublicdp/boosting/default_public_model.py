"""Default public model: gradient boosting and a linear model, fitted to labelled public rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV

from skpublicdp.boosting.binner import Binner
from skpublicdp.boosting.public_model import PublicModel, TargetScale, columns_of_classes
from skpublicdp.data.one_hot import fold_rows
from skpublicdp.typing import Floats, Mask

MAX_NUMBER = 1e300
"""Upper limit to which numbers are clipped, because gradient boosting does not accept infinity."""

MAX_CUT = 1e150
"""Bound on the cuts to which the linear model clips numbers, so that their squares remain
finite."""


@dataclass(frozen=True, eq=False)
class DefaultPublicModel(PublicModel):
    """Mean of the margins of gradient boosting and a linear model, both fitted to public rows."""

    trees: Any  # fitted gradient boosting
    linear: Any  # fitted linear model of standardised columns
    binner: Binner
    # (n_columns,): whether a column had values in the training data of gradient boosting. Columns
    # that had no values are ignored.
    has_values: Mask
    # (n_design_columns,): means and standard deviations of the columns in the linear model
    centres: Floats
    widths: Floats
    target: TargetScale  # target of the margins

    @property
    def estimator(self) -> Any:
        """Both estimators."""
        return self.trees, self.linear

    @classmethod
    def fit(
        cls, binner: Binner, rows: Floats, outcomes: Floats, target: TargetScale
    ) -> DefaultPublicModel:
        """Return the model after fitting it to the labelled public rows.

        Parameters
        ----------
        rows : ndarray of float64, shape (m, n_source_columns)
            Encoded rows of the user's table.
        outcomes : ndarray of float64, shape (m,)
            Label codes, or outcomes between 0 and 1.
        target : TargetScale
            Target of the margins.
        """
        features = _tree_features(binner, rows)
        has_values: Mask = ~np.all(np.isnan(features), axis=0)
        features[:, ~has_values] = 0.0  # gradient boosting does not accept columns without values
        is_categorical = [bins.column.categorical for bins in binner.columns]
        make_trees: Any = HistGradientBoostingClassifier
        if target.classes is None:
            make_trees = HistGradientBoostingRegressor
        trees = make_trees(
            learning_rate=0.07,
            max_iter=40,
            max_leaf_nodes=8,
            min_samples_leaf=10,
            categorical_features=is_categorical if any(is_categorical) else None,
            early_stopping=False,
            random_state=0,
        ).fit(features, outcomes)
        design = _linear_design(binner, rows)
        centres, widths = design.mean(axis=0), design.std(axis=0)
        widths[widths == 0] = 1.0
        linear: Any = LogisticRegression(C=0.01, max_iter=1000)
        if target.classes is None:
            linear = RidgeCV(alphas=np.logspace(-1, 4, 11))
        linear.fit((design - centres) / widths, outcomes)
        return cls(trees, linear, binner, has_values, centres, widths, target)

    def predict_margins(self, rows: Floats) -> Floats:
        """For each row, return the mean of the margins of the two models."""
        if not len(rows):
            return np.empty((self.target.loss.n_targets, 0))
        target = self.target
        features = _tree_features(self.binner, rows)
        features[:, ~self.has_values] = 0.0
        scores = self._linear_scores(rows)
        if target.classes is None:
            tree_margins = target.margins_of_shares(self.trees.predict(features))
            return (tree_margins + target.margins_of_shares(scores[0])) / 2

        if len(scores) == 1:
            scores = np.array([np.zeros(len(rows)), scores[0]])
        exponentials = np.exp(scores - scores.max(axis=0))
        total = np.zeros(len(rows))
        for exponential in exponentials:  # in a fixed order, independent of the row's position
            total += exponential
        tree_probabilities = self.trees.predict_proba(features)
        linear_probabilities = (exponentials / total).T

        codes = np.arange(len(target.classes))
        tree_classes = np.asarray(self.trees.classes_, dtype=np.intp)
        linear_classes = np.asarray(self.linear.classes_, dtype=np.intp)
        tree_columns = columns_of_classes(tree_probabilities, tree_classes, codes)
        linear_columns = columns_of_classes(linear_probabilities, linear_classes, codes)
        tree_margins = target.margins_of_probabilities(tree_columns)
        return (tree_margins + target.margins_of_probabilities(linear_columns)) / 2

    def _linear_scores(self, rows: Floats) -> Floats:
        """Return the scores of the linear model, shape (n_scores, n).

        The products are added column by column, so that the score of a row does not depend on its
        position. A matrix product would not guarantee this.
        """
        coefficients = np.atleast_2d(self.linear.coef_)
        intercepts = np.atleast_1d(self.linear.intercept_)
        scores = np.repeat(intercepts[:, None].astype(np.float64), len(rows), axis=1)
        design = _linear_design(self.binner, rows)
        for values, centre, width, weights in zip(
            design.T, self.centres, self.widths, coefficients.T, strict=True
        ):
            scores += weights[:, None] * ((values - centre) / width)
        return scores


def _tree_features(binner: Binner, rows: Floats) -> Floats:
    """Return the input of gradient boosting: the numbers and category bins of folded columns."""
    folded = fold_rows([bins.column for bins in binner.columns], rows)
    features = np.clip(folded, -MAX_NUMBER, MAX_NUMBER)
    for position, bins in enumerate(binner.columns):
        if bins.column.categorical:
            features[:, position] = bins.encoded_codes(features[:, position])
    return features


def _linear_design(binner: Binner, rows: Floats) -> Floats:
    """Return the input of the linear model: the clipped numbers and category indicators.

    Numbers are clipped to the outermost cuts of their column, because outliers would otherwise have
    an unbounded effect. Missing numbers are replaced by the middle cut.
    """
    folded = fold_rows([bins.column for bins in binner.columns], rows)
    columns = []
    for bins, values in zip(binner.columns, folded.T, strict=True):
        if bins.column.categorical:
            codes = bins.encoded_codes(values)
            columns += [codes == code for code in range(bins.size - 1)]
            continue
        cuts = bins.cuts[np.abs(bins.cuts) < MAX_CUT]
        if len(cuts):
            is_missing = np.isnan(values)
            numbers = np.where(is_missing, cuts[len(cuts) // 2], values)
            columns += [np.clip(numbers, cuts[0], cuts[-1]), is_missing]
    if not columns:
        return np.zeros((len(rows), 1))
    return np.column_stack(columns).astype(np.float64)
