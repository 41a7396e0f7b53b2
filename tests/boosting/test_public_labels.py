"""Public labels: the power prior, and the evidence of its exponents from released sums."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from tests.internals.boosting import (
    GaussianPosterior,
    WeightedPublicRows,
    additive_fit,
    evidence_weights,
    laplace_approximation,
    mix_gaussians,
    mix_models,
    read_training_data,
    warm_starts,
)

RNG = np.random.default_rng(0)


def belief(size, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    return GaussianPosterior(rng.normal(size=size), root @ root.T + 0.1 * np.eye(size))


@pytest.mark.parametrize("trust", [0.1, 1.0])
@pytest.mark.parametrize(("spread", "seed"), [(1.0, 0), (30.0, 0), (30.0, 12), (30.0, 26)])
def test_the_mode_and_its_curvature(trust, spread, seed):
    """Even of margins that are so large that steps stay limited for long."""
    before, rng = belief(4), np.random.default_rng(seed)
    X, outcomes = spread * rng.normal(size=(60, 3)), rng.random(60)
    precision = np.linalg.inv(before.covariance)

    def slope(point):
        miss = expit(X @ point[:-1] + point[-1]) - outcomes
        likelihood = np.append(X.T @ miss, miss.sum())
        return precision @ (point - before.mean) + trust * likelihood

    found = laplace_approximation(before, X, outcomes, trust)
    np.testing.assert_allclose(slope(found.mean), 0, atol=1e-6)
    curvature = approx_fprime(found.mean, slope, 1e-7)
    np.testing.assert_allclose(np.linalg.inv(found.covariance), curvature, rtol=1e-3, atol=1e-3)


def test_exponent_zero_or_no_rows_leave_the_prior():
    before = belief(4)
    for found in (
        laplace_approximation(before, RNG.normal(size=(9, 3)), np.ones(9), 0.0),
        laplace_approximation(before, np.empty((0, 3)), np.empty(0), 1.0),
    ):
        np.testing.assert_allclose(found.mean, before.mean)
        np.testing.assert_allclose(found.covariance, before.covariance)


def test_mix_gaussians_has_the_moments_of_a_mixture():
    beliefs, weights = [belief(3, seed) for seed in range(3)], np.array([0.25, 0.7, 0.05])
    found = mix_gaussians(beliefs, weights)
    pairs = [*zip(weights, beliefs, strict=True)]
    second = sum(w * (b.covariance + np.outer(b.mean, b.mean)) for w, b in pairs)
    np.testing.assert_allclose(found.mean, sum(w * b.mean for w, b in pairs))
    covariance = found.covariance + np.outer(found.mean, found.mean)
    np.testing.assert_allclose(covariance, second)


def test_evidence_weights_of_exponents():
    assert evidence_weights(np.array([-1e3])).tolist() == [1.0]
    np.testing.assert_allclose(evidence_weights(np.full(4, 700.0)), [1 / 2, 1 / 6, 1 / 6, 1 / 6])
    np.testing.assert_allclose(
        evidence_weights(np.array([0, -1e3, np.log(6), -1e3])), [1 / 3, 0, 2 / 3, 0]
    )


def rows(n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    odds = 1.2 * X[:, 0] - X[:, 1] + 0.6 * X[:, 2]
    return X, np.random.default_rng(seed + 1).random(n) < expit(odds)


X, Y = rows(3000, 0)
PUBLIC, PUBLIC_Y = rows(300, 2)
NEW, NEW_Y = rows(5000, 4)


def test_warm_starts():
    """A model for each trust, from rows whose labels say which; and any mean of them."""
    clf = SemiPrivateBoostingClassifier(classes=[0, 1, 2])
    labels = np.digitize(PUBLIC[:, 0], [-0.5, 0.5])
    read = read_training_data(
        clf, X, np.digitize(X[:, 0], [-0.5, 0.5]), X_public=PUBLIC, y_public=labels
    )
    cells = read.bin(12)
    design = WeightedPublicRows(
        cells.binner.indicators(cells.public_codes), np.full(300, 1 / 300), len(X)
    )
    begin = warm_starts(cells.binner, design, 3, read.public_labels)
    (none,) = warm_starts(cells.binner, design, 3, None)
    assert len(begin) == 4
    for start in (none, begin[0]):
        assert not start.model.scores.any()
        assert not any(of_column.any() for of_column in start.covariances)
    found = [
        (start.model.raw_predict(cells.public_codes).argmax(axis=0) == labels).mean()
        for start in begin[1:]
    ]
    assert found == sorted(found)
    assert found[-1] > 0.8
    before, after = (np.trace(start.covariances[0][0]) for start in (begin[1], begin[3]))
    assert 0 < after < before  # labels that are believed more tell more
    for place, weights in enumerate(np.eye(4)):
        one = mix_models(begin, weights)
        np.testing.assert_array_equal(one.model.scores, begin[place].model.scores)
        np.testing.assert_allclose(one.covariances[2], begin[place].covariances[2], atol=1e-12)
    half = mix_models([begin[0], begin[3]], np.array([0.5, 0.5]))
    np.testing.assert_allclose(half.model.scores, begin[3].model.scores / 2, atol=0.5)
    column = slice(*cells.binner.offsets[:2])
    apart = begin[3].model.scores[1, column] / (2 * 1024)
    mixed = begin[3].covariances[0][1] / 2 + np.outer(apart, apart)
    np.testing.assert_allclose(half.covariances[0][1], mixed, atol=0.01)


@pytest.mark.parametrize("method", ["auto", "votes"])
def test_trees_for_three_labels_start_from_public_labels(method):
    """As far as the leaves of the first tree agree with them."""

    def scored(y_public):
        clf = SemiPrivateBoostingClassifier(
            epsilon=0.1,
            delta=0,
            method=method,
            classes=[0, 1, 2],
            public_model=None,
            random_state=0,
        )
        clf.fit(X, three(X), X_public=PUBLIC, y_public=y_public)
        losses = log_loss(three(NEW), clf.predict_proba(NEW))
        return losses, max(shape.deviations.max() for shape in clf.shapes_)

    def three(rows):
        return np.digitize(rows[:, 0] - rows[:, 1], [-0.5, 0.5])

    right = three(PUBLIC)
    (none, unsure), (helped, sure), (misled, _) = map(scored, (None, right, (right + 1) % 3))
    assert helped < none - 0.15
    assert misled < np.log(3)  # that of a guess
    assert unsure == 0 < sure


def test_public_labels_help_with_large_noise():
    """A first tree that is as good as random does not undo what they say."""
    scores = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=(4, 4))
        private, public, new = (rng.normal(size=(n, 4)) for n in (500, 300, 2000))
        y, y_public, y_new = (
            (rows @ weights + rng.gumbel(size=(len(rows), 4))).argmax(axis=1)
            for rows in (private, public, new)
        )
        scores.append([])
        for known in (None, y_public):
            clf = SemiPrivateBoostingClassifier(
                epsilon=0.1, delta=0, classes=range(4), random_state=seed
            )
            clf.fit(private, y, X_public=public, y_public=known)
            scores[-1].append(clf.score(new, y_new))
    none, helped = np.mean(scores, axis=0)
    assert helped > none + 0.03


def decisions(y_public=None, **parameters):
    parameters = {"epsilon": 0.1, "public_model": None} | parameters
    found = []
    for seed in range(4):
        clf = SemiPrivateBoostingClassifier(**parameters, random_state=seed)
        clf.fit(X, Y, X_public=PUBLIC, y_public=y_public)
        found.append(clf.decision_function(NEW))
    return np.array(found)


def auc(found):
    return np.mean([roc_auc_score(NEW_Y, one) for one in found])


def test_correct_labels_help_and_wrong_labels_are_ignored():
    without = decisions()
    assert auc(decisions(PUBLIC_Y)) > auc(without) + 0.004
    np.testing.assert_allclose(decisions(~PUBLIC_Y), without, atol=0.01)


@pytest.mark.parametrize("parameters", [{}, {"epsilon": 4.0}, {"delta": 0.0}])
def test_exponent_zero_ignores_public_labels(monkeypatch, parameters):
    """They are in no sum that is released."""
    without = decisions(**parameters)
    monkeypatch.setattr(additive_fit, "POWER_PRIORS", (0.0, 0.0))
    np.testing.assert_array_equal(decisions(PUBLIC_Y, **parameters), without)


def test_three_labels_and_outcomes():
    labels = np.where(X[:, 3] > 1, 2, Y.astype(int))
    known = np.where(PUBLIC[:, 3] > 1, 2, PUBLIC_Y.astype(int))
    scores = []
    for y_public in (None, known):
        clf = SemiPrivateBoostingClassifier(epsilon=0.1, random_state=0)
        clf.fit(X, labels, X_public=PUBLIC, y_public=y_public)
        scores.append(clf.score(NEW, np.where(NEW[:, 3] > 1, 2, NEW_Y.astype(int))))
    assert scores[1] > scores[0]
    scores = []
    for y_public in (None, PUBLIC[:, 0]):
        reg = SemiPrivateBoostingRegressor(outcome_bounds=(-3, 3), epsilon=0.1, random_state=0)
        reg.fit(X, X[:, 0], X_public=PUBLIC, y_public=y_public)
        scores.append(r2_score(NEW[:, 0], reg.predict(NEW)))
    assert scores[1] > scores[0] + 0.05


def test_the_mode_is_found_where_newton_alone_would_overshoot():
    before = GaussianPosterior(np.zeros(2), np.diag([400.0, 400.0]))
    X = np.linspace(-1, 1, 40)[:, None]
    outcomes = (X[:, 0] > 0.1).astype(float)
    found = laplace_approximation(before, X, outcomes, 1.0)

    def negative(point):
        margins = X[:, 0] * point[0] + point[1]
        return point @ point / 800 + (np.logaddexp(0, margins) - outcomes * margins).sum()

    best = minimize(negative, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8}).x
    np.testing.assert_allclose(found.mean, best, rtol=1e-3)
