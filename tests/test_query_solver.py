"""The solver against brute force: a general optimiser, the optimality conditions, monotonicity."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from skpublicdp.query_release.solver import NotConvergedWarning, fit_weights


def problem(seed, n_support, n_measurements, noise):
    generator = np.random.default_rng(seed)
    incidence = (generator.random((n_measurements, n_support)) < 0.4).astype(float)
    prior = generator.dirichlet(np.ones(n_support))
    truth = generator.dirichlet(np.ones(n_support))
    variances = noise**2 * generator.uniform(0.5, 2, n_measurements)
    targets = incidence @ truth + generator.normal(0, np.sqrt(variances))
    return sp.csr_matrix(incidence), prior, targets, variances


def objective(weights, incidence, prior, targets, variances, trust):
    kept = weights > 0
    divergence = np.sum(weights[kept] * np.log(weights[kept] / prior[kept]))
    return trust * divergence + 0.5 * np.sum((incidence @ weights - targets) ** 2 / variances)


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("trust", [1.0, 30.0, 1000.0])
def test_no_optimiser_does_better(seed, trust):
    parts = problem(seed, 7, 5, 0.05)
    fit = fit_weights(*parts, trust, tolerance=1e-12)

    brute = minimize(
        lambda scores: objective(softmax(scores), *parts, trust), np.log(parts[1]), tol=1e-12
    )
    ours = objective(fit.weights, *parts, trust)
    assert fit.converged
    assert ours <= brute.fun + 1e-8 * abs(brute.fun)
    np.testing.assert_allclose(fit.weights, softmax(brute.x), atol=1e-4)


@pytest.mark.parametrize("noise", [1e-4, 0.01])
@pytest.mark.parametrize("trust", [1.0, 1000.0])
def test_rows_may_add_more_or_less_than_one(noise, trust):
    incidence, prior, _, variances = problem(0, 300, 100, noise)
    generator = np.random.default_rng(1)
    incidence.data *= generator.uniform(0, 4, len(incidence.data))
    targets = incidence @ generator.dirichlet(np.ones(300)) + noise * generator.normal(size=100)
    fit = fit_weights(incidence, prior, targets, variances, trust, tolerance=1e-6)
    assert fit.converged
    np.testing.assert_allclose(
        fit.weights, softmax(np.log(prior) + incidence.T @ fit.multipliers / trust), rtol=1e-6
    )
    gradient = incidence @ fit.weights - targets + variances * fit.multipliers
    assert np.sum(gradient**2 / variances) < 1e-4


@pytest.mark.parametrize("noise", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("trust", [0.1, 10.0, 1e4, 1e7])
@pytest.mark.parametrize(("n_support", "n_measurements"), [(6, 3), (40, 90), (300, 100)])
def test_optimality_conditions(noise, trust, n_support, n_measurements):
    incidence, prior, targets, variances = problem(0, n_support, n_measurements, noise)
    fit = fit_weights(incidence, prior, targets, variances, trust)
    assert fit.converged
    assert fit.weights.min() >= 0
    assert fit.weights.sum() == pytest.approx(1)
    answers = incidence @ fit.weights
    spread = answers * (1 - answers) / trust
    gradient = answers - targets + variances * fit.multipliers  # λ = (target - answer) / variance
    assert np.sum(gradient**2 / (variances + spread)) < 0.01
    assert np.sum(gradient**2 / (variances + spread) * spread / variances) < 0.01
    expected = prior * np.exp((tilt := incidence.T @ fit.multipliers / trust) - tilt.max())
    np.testing.assert_allclose(fit.weights, expected / expected.sum(), rtol=1e-6, atol=1e-12)


def test_prior_when_nothing_is_known():
    incidence, prior, targets, _ = problem(1, 20, 10, 0.1)
    fit = fit_weights(incidence, prior, targets, np.full(10, 1e12), 100.0)
    np.testing.assert_allclose(fit.weights, prior, rtol=1e-6)
    assert fit.n_newton <= 1


def test_less_trust_fits_measurements_better():
    incidence, prior, targets, variances = problem(2, 50, 30, 0.01)
    trusts = (1e5, 1e4, 1e3, 100.0, 10.0)
    fits = [fit_weights(incidence, prior, targets, variances, t, tolerance=1e-10) for t in trusts]
    misfits = [np.sum((incidence @ f.weights - targets) ** 2 / variances) for f in fits]
    divergences = [np.sum(f.weights * np.log(f.weights / prior)) for f in fits]
    assert misfits == sorted(misfits, reverse=True)
    assert divergences == sorted(divergences)


def test_start_changes_the_path_and_not_the_answer():
    parts = problem(3, 60, 40, 0.02)
    cold = fit_weights(*parts, 50.0, tolerance=1e-12)
    warm = fit_weights(*parts, 50.0, start=cold.multipliers, tolerance=1e-12)
    assert warm.n_newton == 0
    other = fit_weights(*parts, 50.0, start=np.ones(40), tolerance=1e-12)
    np.testing.assert_allclose(other.weights, cold.weights, atol=1e-7)


def test_stopping_short_is_loud():
    parts = problem(4, 60, 40, 0.001)
    with pytest.warns(NotConvergedWarning, match="did not converge"):
        fit = fit_weights(*parts, 1.0, max_newton=1)
    assert not fit.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_weights(*parts, 1.0).converged
