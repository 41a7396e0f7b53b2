"""Boosting of tables with many numbers, which starts from a linear model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from skpublicdp import (
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)
from skpublicdp.data import open_rows
from skpublicdp.exceptions import TooFewRowsWarning

pa = pytest.importorskip("pyarrow")

N_COLUMNS = 40
ROUNDING = 0.51 / 1024  # margins are multiples of 1/1024


def table(n=1500, seed=0):
    """Independent normal columns, and labels and outcomes of a linear truth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_COLUMNS))
    margins = X @ rng.normal(size=N_COLUMNS) / 3
    labels = (rng.random(n) < 1 / (1 + np.exp(-margins))).astype(int)
    return X, labels, margins + rng.normal(size=n)


X, LABELS, OUTCOMES = table()
PUBLIC, PUBLIC_LABELS, _ = table(200, seed=1)


def classifier(**settings):
    return SemiPrivateBoostingClassifier(**{"random_state": 0, **settings})


class TestALinearModelAlone:
    """With a small budget for the columns, the linear model is the whole model."""

    @pytest.mark.parametrize("delta", [1e-6, 0])
    @pytest.mark.parametrize("y_public", [None, PUBLIC_LABELS])
    def test_equals_logistic_regression(self, delta, y_public):
        public = {"X_public": PUBLIC, "y_public": y_public}
        boosted = classifier(delta=delta).fit(X, LABELS, **public)
        linear = SemiPrivateLogisticRegression(delta=delta, random_state=0)
        linear.fit(X, LABELS, **public)
        difference = boosted.decision_function(X) - linear.decision_function(X)
        assert np.abs(difference).max() < ROUNDING
        assert (boosted.linear_weight_, boosted.boosting_weight_) == (1.0, 1.0)
        assert boosted.privacy_.mechanisms == linear.privacy_.mechanisms

    def test_few_rows_per_column_are_not_boosted(self):
        """The budget is large, but a bin of a histogram has less than one row."""
        models = [
            model(epsilon=300, random_state=0).fit(X[:300], LABELS[:300], X_public=PUBLIC)
            for model in (SemiPrivateBoostingClassifier, SemiPrivateLogisticRegression)
        ]
        assert models[0].privacy_.mechanisms == models[1].privacy_.mechanisms
        assert not models[0].trees_

    @pytest.mark.parametrize("delta", [1e-6, 0])
    def test_trees_alone_are_fitted_if_sums_cannot_be_drawn(self, delta):
        epsilon = 1e-7
        with pytest.raises(ValueError, match="too large to be drawn"):
            SemiPrivateLogisticRegression(epsilon=epsilon, delta=delta).fit(
                X, LABELS, X_public=PUBLIC
            )
        with pytest.warns(TooFewRowsWarning):
            boosted = classifier(epsilon=epsilon, delta=delta).fit(X, LABELS, X_public=PUBLIC)
        assert boosted.linear_weight_ == 0
        assert boosted.trees_
        assert boosted.privacy_.epsilon <= epsilon

    def test_of_outcomes_leaves_the_residuals(self):
        boosted = SemiPrivateBoostingRegressor(outcome_bounds=(-6, 6), random_state=0)
        boosted.fit(X, OUTCOMES, X_public=PUBLIC)
        names = [mechanism.name for mechanism in boosted.privacy_.mechanisms]
        assert names[0] == "noisy sums of rows times targets"
        assert len(names) == 2  # the other is the histogram of residuals
        linear = SemiPrivateLinearRegression(outcome_bounds=(-6, 6), random_state=0)
        linear.fit(X, OUTCOMES, X_public=PUBLIC)
        # both have almost the same budget
        assert np.corrcoef(boosted.predict(X), linear.predict(X))[0, 1] > 0.95
        low, high = boosted.interval(X).T
        assert 0.8 < np.mean((low <= OUTCOMES) & (high >= OUTCOMES)) <= 1

    def test_explanations(self):
        boosted = classifier().fit(X, LABELS, X_public=PUBLIC)
        assert "linear model (importance" in boosted.explain()
        explained = boosted.explain_local(X[:5])
        total = explained.intercept + explained.contributions.sum(axis=-1)
        np.testing.assert_allclose(np.ravel(total), boosted.decision_function(X[:5]), atol=1e-9)
        coefficients = SemiPrivateLogisticRegression(random_state=0)
        coefficients.fit(X, LABELS, X_public=PUBLIC)
        # the mean absolute deviation of a normal column is proportional to its coefficient
        importance = boosted.feature_importances_ / np.abs(coefficients.coef_[0])
        deviations = np.abs(PUBLIC - PUBLIC.mean(axis=0)).mean(axis=0)
        np.testing.assert_allclose(importance, deviations, rtol=1e-6)


NAMES = [f"x{i}" for i in range(N_COLUMNS)]
FRAME, PUBLIC_FRAME = pd.DataFrame(X, columns=NAMES), pd.DataFrame(PUBLIC, columns=NAMES)


class ShuffledRows:
    """Arrow stream that returns the rows in another order in every pass."""

    def __init__(self, rows):
        self.rows, self.rng = rows, np.random.default_rng(0)

    def __arrow_c_stream__(self, requested_schema=None):
        order = self.rng.permutation(len(self.rows))
        return self.rows.take(pa.array(order)).__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def beside():
    """A classifier with a linear model and columns."""
    return classifier(epsilon=100).fit(FRAME, LABELS, X_public=PUBLIC_FRAME)


class TestALinearModelBesideBoosting:
    """With a large budget, a part of it is spent on columns and trees."""

    def test_interactions_are_found(self):
        X, labels, _ = table(80 * N_COLUMNS)  # enough rows per column for trees
        labels = labels ^ (X[:, 0] * X[:, 1] > 0)
        boosted = classifier(epsilon=100).fit(X, labels, X_public=PUBLIC)
        assert boosted.linear_weight_ < 1
        linear = SemiPrivateLogisticRegression(epsilon=100, random_state=0)
        linear.fit(X, labels, X_public=PUBLIC)
        scores = [roc_auc_score(labels, model.decision_function(X)) for model in (boosted, linear)]
        assert scores[0] > scores[1] + 0.02

    def test_rows_in_chunks(self, beside):
        chunks = pa.Table.from_pandas(FRAME).to_batches(max_chunksize=70)
        streamed = classifier(epsilon=100).fit(chunks, LABELS, X_public=PUBLIC_FRAME)
        assert beside.to_json() == streamed.to_json()
        assert (beside.decision_function(FRAME) == streamed.decision_function(FRAME)).all()

    def test_rows_whose_order_differs_between_passes(self, beside):
        chunks = pa.Table.from_pandas(FRAME.assign(label=LABELS))
        rows = open_rows(ShuffledRows(chunks))
        assert not rows.ordered
        streamed = classifier(epsilon=100)
        streamed.fit(rows.drop("label"), rows["label"], X_public=PUBLIC_FRAME)
        assert beside.to_json() == streamed.to_json()

    def test_a_margin_does_not_depend_on_other_rows(self, beside):
        margins = beside.decision_function(FRAME)
        order = np.random.default_rng(2).permutation(len(X))
        assert (beside.decision_function(FRAME.iloc[order]) == margins[order]).all()
        assert (beside.decision_function(FRAME[3:4]) == margins[3:4]).all()


@pytest.mark.parametrize("make", [SemiPrivateBoostingClassifier, SemiPrivateLogisticRegression])
def test_predictions_at_the_end_of_floats(make):
    model = make(random_state=0).fit(X, LABELS, X_public=1e-3 * PUBLIC)
    signs = np.sign(np.random.default_rng(0).normal(size=(20, N_COLUMNS)))
    with np.errstate(all="raise", under="ignore"):
        margins = model.decision_function(1.7e308 * signs)
    assert np.isfinite(margins).all()
    assert np.abs(margins).min() > 15  # also boosted margins, which are limited


@pytest.mark.parametrize(
    "settings",
    [
        {"public_model": None},
        {"method": "moments"},
        {"monotonic_cst": [1] + [0] * (N_COLUMNS - 1)},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_without_a_linear_model(settings):
    boosted = classifier(**settings).fit(X, LABELS, X_public=PUBLIC)
    assert boosted.linear_weight_ == 0


def test_fewer_columns_have_no_linear_model():
    boosted = classifier().fit(X[:, 1:], LABELS, X_public=PUBLIC[:, 1:])
    assert boosted.linear_weight_ == 0


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
def test_few_public_rows_have_no_linear_model():
    boosted = classifier().fit(X, LABELS, X_public=PUBLIC[:11])
    assert boosted.linear_weight_ == 0


def test_counts_have_no_linear_model():
    counts = np.random.default_rng(0).poisson(np.exp(np.clip(OUTCOMES, -2, 2)))
    boosted = SemiPrivateBoostingRegressor(
        loss="poisson", outcome_bounds=(0, 20), random_state=0
    ).fit(X, counts, X_public=PUBLIC)
    assert boosted.linear_weight_ == 0
