"""Covariances of few public rows: how much they are shrunk, and what a wide table gains by it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from skpublicdp import SemiPrivateBoostingClassifier
from tests.internals.boosting import (
    MAX_TREE_COLUMNS,
    VARIANCE_TOLERANCE,
    index_of_blocks,
    make_factor_basis,
    second_moment,
    shares_retained,
    shrunk_moment,
    training_data,
)

M = 400
EQUAL = np.full(M, 1 / M)


def columns_with(correlation, n_columns, seed=0):
    """Return columns of two coordinates each, whose first coordinates share a factor."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(M, 1))
    rows = [rng.normal(size=(M, 2)) for _ in range(n_columns)]
    for column in rows:
        column[:, :1] = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * column[:, :1]
    return rows


def test_independent_columns_are_told_from_dependent_ones():
    weights = [
        make_factor_basis(columns_with(correlation, 30), EQUAL).independence
        for correlation in (0.0, 0.1, 0.3, 0.9)
    ]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > 0.9
    assert weights[-1] < 0.05


def test_shrinkage_brings_covariances_closer_to_the_truth():
    correlation, n_columns = 0.1, 30
    rows = columns_with(correlation, n_columns)
    basis = make_factor_basis(rows, EQUAL)
    X, columns = np.hstack(rows), basis.columns
    truth = np.eye(2 * n_columns)
    first = np.arange(0, 2 * n_columns, 2)
    truth[np.ix_(first, first)] += correlation * (1 - np.eye(n_columns))
    plain, independent, shrunk = (
        shrunk_moment(X, X, EQUAL, shares_retained(columns, columns, share))
        for share in (1.0, 0.0, 1 - basis.independence)
    )
    np.testing.assert_allclose(plain, second_moment(X, EQUAL), atol=1e-12)
    errors = [np.linalg.norm(found - truth) for found in (shrunk, plain, independent)]
    assert errors[0] < 0.9 * min(errors[1:])


def test_equal_factors_are_kept_or_omitted_together():
    """Rounding errors of a processor must not choose among columns of equal variance."""
    rows = [np.repeat(np.eye(4), M // 4, axis=0) * [2, 1, 1, 0.5] for _ in range(300)]
    rng = np.random.default_rng(0)
    disturbed = [column * (1 + VARIANCE_TOLERANCE / 100 * rng.normal()) for column in rows]
    bases = [make_factor_basis(columns, EQUAL) for columns in (rows, disturbed)]
    for basis in bases:
        assert {block.shape for block in basis.directions} == {(4, 2)}
    assert index_of_blocks([2] * 300).tolist() == bases[0].columns.tolist()


def wide_table(n_columns=200, n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns))
    coefficients = rng.normal(size=n_columns)
    margins = 2 * X @ coefficients / np.linalg.norm(coefficients)
    return X, (rng.random(n) < 1 / (1 + np.exp(-margins))).astype(int)


def test_wide_tables_gain_from_more_budget():
    """With the sample covariance, the first areas are about .66 and .61.

    The last fit would be spoilt by trees, if it switched to Newton boosting.
    """
    X, y = wide_table()
    areas = []
    for epsilon in (2.0, 8.0, 60.0):
        model = SemiPrivateBoostingClassifier(epsilon=epsilon, public_model=None, random_state=0)
        model.fit(X[1000:], y[1000:], X_public=X[:300])
        areas.append(roc_auc_score(y[300:1000], model.decision_function(X[300:1000])))
    assert areas == sorted(areas)
    assert areas[1] > 0.74


@pytest.mark.parametrize(("n_columns", "n"), [(20, 2500), (100, 6000)])
def test_trees_split_few_columns(monkeypatch, n_columns, n):
    covers = []
    candidate_trees = training_data.TrainingData.candidate_trees

    def recording(self, data, columns=None):
        if columns is not None:
            covers.append(columns)
        return candidate_trees(self, data, columns)

    monkeypatch.setattr(training_data.TrainingData, "candidate_trees", recording)
    X, y = wide_table(n_columns, n)
    signal = X[:, 3] > 0
    y = np.where(np.arange(len(y)) % 3 == 0, y, signal)
    model = SemiPrivateBoostingClassifier(
        epsilon=4.0, public_model=None, random_state=0, max_rounds=1
    )
    model.fit(X[100:], y[100:], X_public=X[:100])
    assert covers
    for columns in covers:
        assert columns.sum() == min(n_columns, MAX_TREE_COLUMNS)
        assert columns[3]


def test_a_strong_column_among_few_is_found_in_every_fit():
    """Shrunk covariances of few columns made the area of the first of these fits .78."""
    rng = np.random.default_rng(3)

    def rows(n):
        ill = rng.random(n) < 0.1
        age, sex = rng.integers(18, 90, size=n), rng.choice(["F", "M"], size=n)
        marker = rng.normal(size=n) + 1.8 * ill
        return pd.DataFrame({"age": age, "sex": sex, "marker": marker}), np.where(
            ill, "ill", "well"
        )

    (public, _), (X, y) = rows(300), rows(10_000)
    for seed in (1, 2):
        model = SemiPrivateBoostingClassifier(epsilon=0.5, random_state=seed)
        model.fit(X, y, X_public=public)
        assert roc_auc_score(y == "well", model.decision_function(X)) > 0.86
