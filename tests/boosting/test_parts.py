"""Parts of the additive fit: posteriors, priors, weights of public rows, rules and costs."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, ndtri, softmax

from skpublicdp.accounting import Draw, Either, Gaussian, Steps, gaussian_mu_squared, plan_delta
from tests.boosting.test_privacy import grid
from tests.internals.boosting import (
    CLASS_COUNT_SHARE,
    LEAF_SHARE,
    MAX_TREES,
    MISMATCH,
    ROUND_SHARES,
    TREE_TRIALS,
    AdditiveFit,
    BinnedData,
    GaussianPosterior,
    NoisyStatistic,
    WeightedPublicRows,
    _leaf_posterior,
    additive_posterior,
    basic_composition_is_better,
    calibrate_weights,
    choose_trial,
    expected_bin_shares,
    fit_prior_variances,
    gauss_newton_update,
    n_histogram_rounds,
    n_measured_trees,
    n_voting_trees,
    noisy_histograms,
    plan_tree_trial,
    prior_covariances,
    signal_to_noise,
    vote_step,
)
from tests.internals.privacy import Ledger, StageBudget, make_stage_budget

FEATURES = grid(4, 3)
N, M = 500, 40


def design(seed=0, n=N, m=M):
    rng = np.random.default_rng(seed)
    codes = np.array([rng.integers(0, size, m) for size in FEATURES.sizes], dtype=np.int16)
    return WeightedPublicRows(FEATURES.indicators(codes), rng.dirichlet(np.full(m, 5.0)), n)


def some_release(at, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, at.X.shape[1]))
    margins = 0.5 * rng.normal(size=len(at.X))
    covariance = np.diag(rng.uniform(50, 100, 4))
    scale = rng.uniform(0.5, 1, len(at.X))
    return NoisyStatistic(rng.normal(0, 30, 4), covariance, at.X @ A.T, scale, expit(margins))


def some_belief(at, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(at.X.shape[1] + 1,) * 2) / 3
    return GaussianPosterior(rng.normal(0, 0.3, len(root)), root @ root.T + 0.1 * np.eye(len(root)))


def expected_sums(at, release, point, offset=0.0):
    """What a model leads to expect of the sums, as `Release` describes them."""
    left = expit(at.X @ point[:-1] + point[-1] + offset) - release.baseline
    return at.n * release.Z.T @ (at.weights * release.scale * left)


def test_one_step_is_gaussian_conditioning():
    at, offset = design(), np.random.default_rng(3).normal(size=M)
    release, belief = some_release(at), some_belief(at)
    found, evidence = gauss_newton_update(belief, at, release, offset, steps=1)
    # the joint Gaussian distribution of scores and sums, its Jacobian by finite differences
    H = approx_fprime(belief.mean, lambda p: expected_sums(at, release, p, offset), 1e-7)
    probability = expit(belief.margins(at.X) + offset)
    S = release.covariance.copy()
    mismatch = 1 + MISMATCH * N * at.concentration
    for z, w, v, p, b in zip(
        release.Z, at.weights, release.scale, probability, release.baseline, strict=True
    ):
        S += (N * mismatch * w * p * (1 - p) * v**2 + (N * w * v * (p - b)) ** 2) * np.outer(z, z)
    precision = np.linalg.inv(belief.covariance) + H.T @ np.linalg.solve(S, H)
    surprise = release.total - expected_sums(at, release, belief.mean, offset)
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-5)
    np.testing.assert_allclose(
        found.mean, belief.mean + covariance @ H.T @ np.linalg.solve(S, surprise), atol=1e-5
    )
    total = H @ belief.covariance @ H.T + S
    log_density = -(surprise @ np.linalg.solve(total, surprise) + np.linalg.slogdet(total)[1]) / 2
    assert evidence == pytest.approx(log_density, rel=1e-5)


def test_gauss_newton_converges_to_the_posterior_mode():
    at = design(n=50)
    release, belief = some_release(at), some_belief(at)
    found, _ = gauss_newton_update(belief, at, release, steps=60)
    q = expit(found.margins(at.X))
    mismatch = 1 + MISMATCH * at.n * at.concentration
    own = at.n * mismatch * at.weights * q * (1 - q) * release.scale**2
    own += (at.n * at.weights * release.scale * (q - release.baseline)) ** 2
    S = (release.Z * own[:, None]).T @ release.Z + release.covariance  # as it is in the end

    def loss(point):
        surprise = release.total - expected_sums(at, release, point)
        away = point - belief.mean
        misfit = surprise @ np.linalg.solve(S, surprise)
        return (misfit + away @ np.linalg.solve(belief.covariance, away)) / 2

    best = minimize(loss, belief.mean, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.mean, best.x, atol=1e-4)


def test_a_constant_column_costs_nothing():
    """It would raise the noise of all others, and tells no more than the sum of all rows."""
    found = noisy_histograms.optimised_strategy(
        grid(3), np.array([1.0, 0.0, 0.0]), [np.eye(3)], 30.0, 100.0, 200.0
    )
    assert not found.blocks[0].any()
    assert (
        found.sensitivity(counts=True).squared
        == (2 * noisy_histograms.MAX_GRADIENT * found.total_weight) ** 2
    )


@pytest.mark.parametrize(
    ("module", "run"),
    [
        (
            additive_posterior,
            lambda at: fit_prior_variances(
                prior_covariances(FEATURES, at), at, some_release(at), 0.4
            ),
        ),
        (
            noisy_histograms,
            lambda at: noisy_histograms.optimised_strategy(
                FEATURES, at.weights @ at.X, prior_covariances(FEATURES, at), 30.0, 100.0, 200.0
            ),
        ),
    ],
)
def test_gradients(monkeypatch, module, run):
    checked = []

    def checking(function, start, **options):
        rng = np.random.default_rng(0)
        for point in (start, start + 0.5 * rng.normal(size=len(start))):
            numeric = approx_fprime(point, lambda p: function(p)[0], 1e-6)
            np.testing.assert_allclose(function(point)[1], numeric, rtol=1e-3, atol=1e-4)
            checked.append(len(point))
        return minimize(function, start, **options)

    monkeypatch.setattr(module, "minimize", checking)
    run(design())
    assert len(checked) == 4


def test_calibrated_weights_are_closest_to_the_current_ones():
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.full(7, 5.0))
    at = WeightedPublicRows(np.eye(7), base, 300)
    Z = rng.normal(size=(7, 3))
    counts, variance = 300 * Z.T @ softmax(rng.normal(size=7)), 200.0

    def loss(logits):
        w = softmax(logits)
        left = counts - 300 * Z.T @ w
        return w @ np.log(w / base) / (base @ base) + left @ left / (2 * variance)

    found = calibrate_weights(at, Z, counts, variance)
    best = minimize(loss, np.zeros(7), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(found.weights, softmax(best.x), atol=1e-5)
    assert found.weights.sum() == pytest.approx(1)
    # with little noise counts are met, with much nothing is learned
    np.testing.assert_allclose(
        300 * Z.T @ calibrate_weights(at, Z, counts, 1e-3).weights, counts, atol=1e-2
    )
    np.testing.assert_allclose(calibrate_weights(at, Z, counts, 1e12).weights, base, atol=1e-5)


def test_expected_shares_are_those_of_public_rows():
    at = design()
    shares = expected_bin_shares(FEATURES, at, np.zeros((M, 2))).means
    np.testing.assert_allclose(shares, at.weights @ at.X)
    for start, stop in zip(FEATURES.offsets[:-1], FEATURES.offsets[1:], strict=True):
        assert shares[start:stop].sum() == pytest.approx(1)


def test_rows_without_weight_do_not_count():
    at = design()
    kept = WeightedPublicRows(at.X[:15], np.full(15, 1 / 15), N)
    padded = WeightedPublicRows(at.X, np.where(np.arange(M) < 15, 1 / 15, 0), N)
    assert kept.effective_size == pytest.approx(padded.effective_size) == pytest.approx(15)
    measured = noisy_histograms.identity_strategy(FEATURES, at.X, pure=False)
    data = BinnedData(FEATURES, rows=None, public=None)
    fits = [
        AdditiveFit(data, rows, np.zeros((len(rows.X), 2)), measured, 1, pure=False)
        for rows in (kept, padded)
    ]
    np.testing.assert_allclose(*(fit._expected_counts for fit in fits))
    np.testing.assert_allclose(*(fit._expected_count_variances for fit in fits))


def test_rules_are_monotone():
    rounds = [n_histogram_rounds(n, 200, 50.0) for n in (0, 10, 1e3, 3e3, 1e4, 1e5, 1e7)]
    assert rounds == sorted(rounds)
    assert (rounds[0], rounds[-1]) == (1, 2)
    for others in ([(m, 50.0) for m in (10, 100, 1000)], [(100, v) for v in (1.0, 1e2, 1e4)]):
        found = [n_histogram_rounds(1000, *other) for other in others]
        assert found == sorted(found, reverse=True)
        assert found[0] > found[-1]
    for rounds, shares in ROUND_SHARES.items():
        assert (len(shares), sum(shares)) == (rounds, 1)
        assert list(shares) == sorted(shares)
    voting = [n_voting_trees(signal) for signal in (0.0, 2.5, 25.0, 250.0, 1e5)]
    assert voting == sorted(voting)
    assert (voting[0], voting[-1]) == (1, MAX_TREES)
    measured = [n_measured_trees(found) for found in (0.0, 50.0, 100.0, 1e3, 1e9)]
    assert measured == sorted(measured)
    assert (measured[:2], measured[-1]) == ([1, 1], MAX_TREES)
    for is_pure in (True, False):
        rates = [vote_step(count, pure=is_pure) for count in range(1, MAX_TREES + 1)]
        assert all(0 < rate <= 0.4 for rate in rates)
        total = [count * rate for count, rate in enumerate(rates, 1)]
        assert is_pure or all(one <= other + 1e-9 for one, other in pairwise(total))
    assert signal_to_noise(StageBudget(Fraction(1), pure=True), 100, 0.0) == 0.0
    assert [choose_trial(q) for q in (8.9, 9.0, 13.0)] == [None, TREE_TRIALS[1], TREE_TRIALS[0]]


def test_budgets_grow_with_both_parameters_and_are_spent_in_full():
    def amount(epsilon, delta, trees):
        ledger = Ledger(epsilon, delta)
        return (plan_tree_trial(ledger)[0] if trees else make_stage_budget(ledger)).amount

    for trees in (True, False):
        amounts = [amount(epsilon, 1e-6, trees) for epsilon in (0.1, 1, 5)]
        amounts += [amount(5, 1e-3, trees)]
        assert amounts == sorted(amounts)
        whole = gaussian_mu_squared(Fraction(5), Fraction(1, 10**6))
        assert 0.95 * whole < amounts[2] <= whole
    assert make_stage_budget(Ledger(2)) == StageBudget(Fraction(2), pure=True)


def test_number_of_voting_trees():
    ledger = Ledger(1, 1e-6)
    assert [basic_composition_is_better(ledger, count) for count in (1, 4, 7, 32)] == [
        True,
        True,
        False,
        False,
    ]
    assert basic_composition_is_better(Ledger(1), 1000)
    for count in (1, 4, 7, 32):  # whatever the rule says, no draw has less than by adding up
        assert ledger.equal_draws(count) >= Fraction(1, count)


# What may be added up, and how (docs/proofs/moments.md)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("attempt", TREE_TRIALS)
@pytest.mark.parametrize("later_share", [Fraction(0), Fraction(1, 25)])
def test_the_plan_holds_however_late_the_choice_of_a_tree_is_made(attempt, epsilon, later_share):
    delta = Fraction(1, 10**6)
    budget, later = plan_tree_trial(Ledger(epsilon, delta), later_share)
    amount = budget.amount

    def tree(part):
        drawn = StageBudget(part * (1 - LEAF_SHARE), pure=False).draw
        return [drawn, Gaussian(part * LEAF_SHARE)]

    probe, rest = attempt.first, attempt.second
    last = Either((Gaussian(amount * rest), Steps(tree(amount * rest))))
    trees = Steps((*tree(amount * probe), last))
    at_the_end = (later.event,) if later_share else ()
    for before in (Fraction(0), CLASS_COUNT_SHARE, Fraction(1, 4), 1 - probe - rest):
        then = Steps((Gaussian(amount * (1 - probe - rest - before)), trees))
        options = Either((Gaussian(amount * (1 - before)), then))
        cost = plan_delta(Steps((Gaussian(amount * before), options, *at_the_end)), epsilon)
        assert cost <= delta * 1.005
    assert attempt != TREE_TRIALS[0] or cost > delta * 0.97


def test_a_draw_is_dominated_by_gaussian_noise():
    def normal(log_odds):
        return np.where(log_odds < 0, ndtri(expit(log_odds)), -ndtri(expit(-log_odds)))

    middle = np.linspace(-30, 30, 2001)
    for epsilon in (0.01, 0.5, 2.0, 8.0):
        mu_squared = Fraction(epsilon) ** 2 * Fraction(355, 113) / 8  # just above π/8
        budget = StageBudget(mu_squared, pure=False)
        assert epsilon * (1 - 1e-3) < budget.draw_as_gaussian.epsilon < epsilon
        # two points whose log-odds are ε apart are the worst, and those around 1/2 most of all
        gap = normal(middle + epsilon / 2) - normal(middle - epsilon / 2)
        assert gap.max() <= np.sqrt(float(mu_squared)) * (1 + 1e-9)
        assert gap.argmax() == 1000
        assert epsilon > 1 or gap.max() > 0.95 * np.sqrt(float(mu_squared))
        for at in (0.1, 1.0, 3.0):
            drawn = plan_delta(Draw(Fraction(epsilon)), Fraction(at))
            assert drawn <= plan_delta(Gaussian(mu_squared), Fraction(at)) * (1 + 1e-6)


def test_leaf_priors_follow_the_drawn_labels():
    own = np.array([True, False, True])
    at = WeightedPublicRows(np.eye(3), np.full(3, 1 / 3), 300)
    half = np.full(3, 0.5)

    def scores(total, variance, may_be_zero=False):
        released = NoisyStatistic(np.array(total), variance * np.eye(3), at.X, half, half)
        return _leaf_posterior(at, [released], np.zeros((1, 3)), own[None], may_be_zero=may_be_zero)

    found = scores([0.0, 0.0, 0.0], 1e12)  # sums that say nothing
    assert (np.sign(found.scores[0]) == [1, -1, 1]).all()
    assert abs(found.gain) < 0.01
    assert scores([9.0, -9.0, 9.0], 1.0).gain > scores([-9.0, 9.0, -9.0], 1.0).gain
    # with even odds that it explains nothing it counts half before anything is known
    half_sure = scores([0.0, 0.0, 0.0], 1e12, may_be_zero=True)
    np.testing.assert_allclose(half_sure.scores, found.scores / 2, atol=0.01)
    second = found.covariances + found.scores[:, :, None] * found.scores[:, None]
    np.testing.assert_allclose(
        half_sure.covariances + half_sure.scores[:, :, None] * half_sure.scores[:, None],
        second / 2,
        atol=0.01,
    )
    assert half_sure.evidence == pytest.approx(found.evidence, abs=0.01)
    sure = [
        scores([90.0, -90.0, 90.0], 1.0, may_be_zero=may_be_zero) for may_be_zero in (False, True)
    ]
    np.testing.assert_allclose(sure[0].scores, sure[1].scores, rtol=1e-3)
    assert sure[1].evidence == pytest.approx(sure[0].evidence - np.log(2), abs=0.01)
