"""The shift test of boosting: median splits, their counts, and importance weights."""

import math
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import binom, multivariate_normal, norm

from skpublicdp import SemiPrivateBoostingClassifier
from skpublicdp.accounting import Sensitivity
from skpublicdp.exceptions import DriftWarning
from tests.boosting.test_privacy import grid
from tests.internals.boosting import (
    CLASS_COUNT_SHARE,
    FALSE_ALARM_RATE,
    MAX_SHIFT_FRACTION,
    MAX_SHIFT_NOISE,
    MAX_SHIFT_SHARE,
    MIN_HISTOGRAM_SHARE,
    MIN_KEPT_FRACTION,
    MIN_SHIFT_EVIDENCE,
    MIN_SHIFT_SHARE,
    TILT_VARIANCES,
    Binner,
    WeightedPublicRows,
    _categorical_bins,
    estimate_shift,
    expected_bin_shares,
    fit_additive,
    flattened_weights,
    histogram_drift,
    make_binner,
    median_split_indicators,
    n_removable_rows,
    noisy_shift,
    normal_scores,
    overlapping_columns,
    plan_tree_trial,
    read_training_data,
    shift_features,
    shift_share,
)
from tests.internals.boosting import binner as binner_module
from tests.internals.boosting import covariate_shift as module
from tests.internals.data import Column, cut_points
from tests.internals.privacy import Ledger, StageBudget, make_stage_budget
from tests.kit import Recorder

SHIFT_TEST = "noisy counts of lower halves of columns"


def table(sizes, seed=0, m=40, *, categorical=False):
    """Return a grid of bins, and public rows in it."""
    rng = np.random.default_rng(seed)
    features = grid(*sizes)
    if categorical:
        columns = [SimpleNamespace(column=SimpleNamespace(categorical=True), size=k) for k in sizes]
        features = SimpleNamespace(columns=columns, offsets=features.offsets)
    codes = np.array([rng.integers(0, size, m) for size in sizes], dtype=np.int16)
    weights = rng.dirichlet(np.full(m, 5.0))
    return features, WeightedPublicRows(grid(*sizes).indicators(codes), weights, 500)


@pytest.mark.parametrize("categorical", [False, True])
def test_lower_halves_are_closest_to_one_half(categorical):
    for seed in range(20):
        sizes = (2, 3, 5)
        features, design = table(sizes, seed, m=4 + seed, categorical=categorical)
        shares = design.weights @ design.X
        chosen = median_split_indicators(features, design)
        assert set(np.unique(chosen)) == {0, 1}
        for row in chosen:
            (position,) = {
                int(np.searchsorted(features.offsets, c, "right")) for c in row.nonzero()[0]
            }
            start, stop = features.offsets[position - 1], features.offsets[position]
            share = shares[start:stop]
            order = np.flatnonzero(share > 0)
            parts = [set(order[:k]) for k in range(1, len(order))]
            away = [abs(sum(share[list(part)]) - 0.5) for part in parts]
            assert set(row[start:stop].nonzero()[0]) in parts
            assert abs(shares @ row - 0.5) == pytest.approx(min(away))


def test_shift_features_are_ranks_and_categories():
    schema_column = SimpleNamespace(categorical=False, n_categories=0)
    numbers = np.array([[3.0], [np.nan], [1.0], [3.0], [7.0]])
    features = make_binner(SimpleNamespace(columns=[schema_column]), numbers, 4)
    X = features.indicators(features.encoded_codes(numbers))
    found = shift_features(features, X, numbers)
    ranks = (np.array([2.5, 1.0, 2.5, 4.0]) - 0.5) / 4
    np.testing.assert_allclose(found[[0, 2, 3, 4], 0], np.log(ranks / (1 - ranks)))
    np.testing.assert_array_equal(found[1], [0, 1])
    np.testing.assert_array_equal(found[[0, 2, 3, 4], 1], 0)
    categories, design = table((3,), categorical=True)
    np.testing.assert_array_equal(shift_features(categories, design.X, np.zeros((40, 1))), design.X)


def tilted_rows(seed=0, m=400, n=20_000, bend=(0.8, 0.0, -0.6)):
    """Return public rows, and counts of a population with the density ratio exp(bend · x)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, 3))
    features, weights = grid(8, 8, 8), np.full(m, 1 / m)
    codes = np.array([np.searchsorted(np.quantile(c, np.arange(1, 8) / 8), c) for c in x.T])
    design = WeightedPublicRows(features.indicators(codes.astype(np.int16)), weights, n)
    true = np.exp(x @ bend)
    chosen = median_split_indicators(features, design)
    counts = n * (true / true.sum()) @ design.X @ chosen.T
    return x, design, chosen, counts, true / true.sum()


def test_weights_recover_the_density_ratio():
    x, design, chosen, counts, true = tilted_rows()
    found = estimate_shift(design, chosen, x, counts, 100.0, MIN_SHIFT_EVIDENCE)
    assert found.drift > 5
    assert found.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.weights @ design.X @ chosen.T, counts / design.n, atol=0.02)
    fit = np.linalg.lstsq(np.c_[np.ones(400), x], np.log(found.weights), rcond=None)[0][1:]
    np.testing.assert_allclose(fit, [0.8, 0.0, -0.6], atol=0.15)
    assert np.corrcoef(found.weights, true)[0, 1] > 0.9
    # after reweighting there is no shift left
    again = estimate_shift(
        WeightedPublicRows(design.X, true, design.n), chosen, x, counts, 100.0, MIN_SHIFT_EVIDENCE
    )
    assert again.weights is None
    assert again.drift < 0.1


def test_weights_are_updated_from_the_current_ones():
    x, design, chosen, counts, true = tilted_rows(bend=(0.4, 0.0, -0.3))
    design = WeightedPublicRows(design.X, true, design.n)
    noisy = estimate_shift(design, chosen, x, counts, 1e12, -np.inf)
    np.testing.assert_allclose(noisy.weights, true, rtol=1e-3)
    # no weight is 0, since their logarithms are taken
    dropped = WeightedPublicRows(design.X, np.where(np.arange(400) < 40, 0, true), design.n)
    assert estimate_shift(dropped, chosen, x, counts, 1e12, -np.inf).weights.min() > 0


def test_evidence_equals_a_gaussian_density_ratio():
    x, design, chosen, counts, _ = tilted_rows(bend=(0.12, 0.05, 0.0))
    variance, n = 2e4, design.n
    Z = design.X @ chosen.T
    shares = design.weights @ Z
    spread = np.cov(Z.T, aweights=design.weights, bias=True)
    chance = spread * (design.concentration + 1 / n) + variance / n**2 * np.eye(3)
    moved = (Z - shares).T @ (design.weights[:, None] * (x - design.weights @ x))
    density = [
        multivariate_normal(shares, chance + s * moved @ moved.T).logpdf(counts / n)
        for s in (0.0, *TILT_VARIANCES)
    ]
    evidence = max(density[1:]) - density[0]
    assert evidence > 0
    for factor, weighed in ((1 - 1e-6, True), (1 + 1e-6, False)):
        found = estimate_shift(design, chosen, x, counts, variance, factor * evidence)
        assert (found.weights is not None) == weighed


def test_the_gradient_of_the_loss(monkeypatch):
    x, design, chosen, counts, _ = tilted_rows(m=60)
    minimize, checked = module.minimize, []

    def checking(function, start, **options):
        for point in (start, start + np.array([0.3, -0.2, 0.5])):
            numeric = approx_fprime(point, lambda p: function(p)[0], 1e-6)
            np.testing.assert_allclose(function(point)[1], numeric, rtol=1e-3, atol=1e-4)
            checked.append(point)
        return minimize(function, start, **options)

    monkeypatch.setattr(module, "minimize", checking)
    estimate_shift(design, chosen, x, counts, 100.0, MIN_SHIFT_EVIDENCE)
    assert len(checked) == 2


@pytest.mark.parametrize(("pure", "deviation"), [(False, 150.0), (True, 150.0), (True, 900.0)])
def test_rows_of_the_same_population_are_seldom_reweighted(pure, deviation):
    weighed, drifts, runs = 0, [], 300
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 4, (6, 200)).astype(np.int16)
        features = grid(*6 * [4])
        design = WeightedPublicRows(features.indicators(codes), np.full(200, 1 / 200), 3000)
        chosen = median_split_indicators(features, design)
        private = features.indicators(rng.integers(0, 4, (6, 3000)).astype(np.int16))
        noise = rng.laplace(0, deviation / np.sqrt(2), 6) if pure else rng.normal(0, deviation, 6)
        counts = (private @ chosen.T).sum(axis=0) + noise
        found = estimate_shift(
            design, chosen, codes.T - 1.5, counts, deviation**2, MIN_SHIFT_EVIDENCE, pure=pure
        )
        weighed += found.weights is not None
        drifts.append(found.drift)
    assert weighed <= binom.isf(1e-6, runs, 0.03)
    assert np.mean(drifts) == pytest.approx(1, abs=0.15)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 12), st.sampled_from([-1, 1]))
def test_normal_scores_have_the_same_tail_probabilities(log_sampling, log_noise, units, sign):
    sampling, noise = np.exp(log_sampling), np.exp(log_noise)
    both = np.hypot(sampling, noise)
    x, scale = units * both, noise / np.sqrt(2)

    def density(error):
        """Normal density times the tail of Laplace noise: `scipy.stats` takes ten times longer."""
        normal = math.exp(-((error / sampling) ** 2) / 2) / (sampling * math.sqrt(2 * math.pi))
        half = math.exp(-abs(x - error) / scale) / 2
        return normal * (half if x > error else 1 - half)

    score = normal_scores(np.array([sign * x]), np.array([sampling**2]), noise**2)[0]
    tail = quad(
        density,
        -9 * sampling,
        max(9 * sampling, x + 9 * both),
        points=[0, min(x, 9 * sampling)],
        epsabs=0,
        epsrel=1e-9,
        limit=500,
    )[0]
    assert np.sign(score) == sign
    assert norm.sf(abs(score), scale=both) == pytest.approx(tail, rel=1e-5, abs=1e-14)


def test_laplace_noise_of_likely_size_is_no_shift():
    x, design, chosen, _, _ = tilted_rows()
    scale = 1000.0  # twice the sampling error
    counts = design.n * design.weights @ design.X @ chosen.T + [5.2 * scale, 0, 0]
    variance = 2 * scale**2
    gaussian = estimate_shift(design, chosen, x, counts, variance, MIN_SHIFT_EVIDENCE)
    laplace = estimate_shift(design, chosen, x, counts, variance, MIN_SHIFT_EVIDENCE, pure=True)
    assert gaussian.drifted
    assert not laplace.drifted  # 20 times as likely as Gaussian noise of this size
    assert laplace.drift < gaussian.drift


def test_extreme_weights_are_rejected():
    x, design, chosen, _, _ = tilted_rows(m=100)
    counts = np.where(np.arange(3) == 1, 0.5, 0.999) * design.n
    found = estimate_shift(design, chosen, x[:, [1, 1, 1]] ** 3, counts, 1.0, MIN_SHIFT_EVIDENCE)
    assert found.weights is None
    assert found.drifted
    assert found.drift > 5


def test_weighted_cuts_equal_cuts_of_repeated_rows():
    @given(
        st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), min_size=1, max_size=30),
        st.integers(2, 9),
    )
    def check(rows, n_bins):
        values, times = map(np.array, zip(*rows, strict=True))
        repeated = cut_points(np.repeat(values, times).astype(float), n_bins)
        found = cut_points(values.astype(float), n_bins, times.astype(float))
        np.testing.assert_array_equal(found, repeated)

    check()


def test_shift_share_is_the_smallest_sufficient_share():
    for pure in (False, True):
        budget = StageBudget(Fraction(1, 1000), pure)
        once = Sensitivity(12, 12)
        sizes = [0, *np.geomspace(100, 10**8, 60).astype(int).tolist()]
        found = [shift_share(budget, n, once) for n in sizes]
        assert found[:2] == [None, None]
        shares = [share for share in found if share is not None]
        assert shares == sorted(shares, reverse=True)
        assert shares[-1] == MIN_SHIFT_SHARE
        assert len(set(shares)) > 1
        for n, share in zip(sizes, found, strict=True):
            if share is not None:
                assert MIN_SHIFT_SHARE <= share <= MAX_SHIFT_SHARE
                deviation = np.sqrt(budget.fraction(share).variance(once)) / n
                assert deviation <= MAX_SHIFT_NOISE * (1 + 1e-6)
        # persons with four rows count like a quarter of the rows
        fourfold = Ledger(1, rows_per_person=4).for_person(once)
        assert [shift_share(budget, 4 * n, fourfold) for n in sizes] == found
    assert shift_share(StageBudget(Fraction(1), pure=False), 1000, Sensitivity(0, 0)) is None


def biased_rows(n=3000, m=300, strength=4.0, seed=0):
    """A population, and public rows of which most have large numbers in the first column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 40 * m, 4))
    X[:, 1] += X[:, 0]
    y = (X[:, 0] + X[:, 2] + rng.logistic(size=len(X)) > 0).astype(int)
    ranks = X[n:, 0].argsort().argsort() / (40 * m)
    keys = rng.exponential(size=40 * m) / np.exp(strength * ranks)
    return X[:n], y[:n], X[n:][np.argsort(keys)[:m]]


def shift_tests(clf):
    return [m for m in clf.privacy_.mechanisms if m.name == SHIFT_TEST]


@pytest.mark.parametrize("delta", [1e-6, 0])
def test_biased_public_rows_are_detected_before_histograms(delta):
    X, y, X_public = biased_rows()
    epsilon = 0.4 if delta else 1.0
    clf = SemiPrivateBoostingClassifier(epsilon=epsilon, delta=delta, random_state=1)
    with pytest.warns(DriftWarning, match="come from a different population"):
        clf.fit(X, y, X_public=X_public)
    assert len(shift_tests(clf)) == 2
    assert clf.drift_ > 1.6
    names = [m.name for m in clf.privacy_.mechanisms]
    sums = [k for k, name in enumerate(names) if "gradient histogram" in name]
    assert max(k for k, name in enumerate(names) if name == SHIFT_TEST) < min(sums)
    # bins follow the private rows: three quarters of the public rows are in the last bins
    below = clf.shapes_[0].shares[: len(clf.shapes_[0].cuts) // 2]
    assert below.sum() < 0.3
    _, _, alike = biased_rows(strength=0.0, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        clf.fit(X, y, X_public=alike)
    assert len(shift_tests(clf)) == 1
    assert clf.drift_ < 1.6


@pytest.mark.parametrize("found", ["", "w", "ww"])
def test_the_last_weights_count_and_the_first_drift(monkeypatch, found):
    X, y, X_public = biased_rows()
    clf = SemiPrivateBoostingClassifier(epsilon=0.4, random_state=0)
    training = read_training_data(clf, X, y, X_public=X_public)
    ledger = Ledger.from_estimator(clf)
    budget = make_stage_budget(ledger)
    weights = np.random.default_rng(0).dirichlet(np.full(300, 5.0), size=2)
    seen = []

    def forced_estimate(design, chosen, T, counts, variance, unlikely, *, expected, pure):
        seen.append((design.weights, unlikely))
        position = len(seen) - 1
        seen_unlike = position < len(found)
        return module.ShiftEstimate(
            2.0 + position, weights[position] if seen_unlike else None, seen_unlike
        )

    monkeypatch.setattr(module, "estimate_shift", forced_estimate)
    with Recorder() as recorder:
        shift, spent = noisy_shift(training, ledger, budget, Fraction(1))
    share = shift_share(budget, len(X), Sensitivity(4, 4))
    shift_tests = 2 if found else 1
    assert spent == shift_tests * share
    assert spent == sum(call.event.mu_squared for call in recorder.calls) / budget.amount
    assert shift.drift == 2.0
    np.testing.assert_array_equal(shift.weights, weights[len(found) - 1] if found else None)
    assert [unlikely for _, unlikely in seen] == [MIN_SHIFT_EVIDENCE, 0.0][:shift_tests]
    for (used, _), wanted in zip(seen[1:], weights, strict=False):
        np.testing.assert_array_equal(used, wanted)
    # no more than may be spent
    seen.clear()
    ledger = Ledger.from_estimator(clf)
    assert noisy_shift(training, ledger, budget, share * 3 / 2)[1] == share
    assert noisy_shift(training, ledger, budget, share / 2) == (None, 0)


@pytest.mark.parametrize(("columns", "n"), [(15, 530), (22, 672), (30, 740), (4, 3000)])
def test_shift_tests_leave_half_of_the_budget(monkeypatch, columns, n):
    """Even where trees have set aside most of the budget, and every shift test leads to another."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, columns)) + rng.normal(size=(n, 1)) > 0).astype(float)
    X_public = (rng.normal(size=(200, columns)) > 0).astype(float)
    y = (X[:, :3].sum(axis=1) + rng.normal(size=n) > 1.5).astype(int)
    weights = rng.dirichlet(np.full(200, 5.0))
    monkeypatch.setattr(
        module, "estimate_shift", lambda *_, **__: module.ShiftEstimate(3.0, weights, True)
    )
    clf = SemiPrivateBoostingClassifier(epsilon=1, random_state=0)
    training = read_training_data(clf, X, y, X_public=X_public)
    ledger = Ledger.from_estimator(clf)
    log_n_trees = math.log(training.candidate_trees(training.binned).size)
    with Recorder() as recorder:
        fit_additive(training, ledger, make_stage_budget(ledger), log_n_trees, max_rounds=None)
    whole = plan_tree_trial(Ledger.from_estimator(clf))[0].amount
    # a draw of a plan counts as ε² / 4
    amounts = [
        call.cost**2 / 4 if call.kind == "draw" else call.event.mu_squared
        for call in recorder.calls
    ]
    shares = [
        (call.name, amount / whole) for call, amount in zip(recorder.calls, amounts, strict=True)
    ]
    shift_tests = [share for name, share in shares if name == SHIFT_TEST]
    assert sum(share for _, share in shares) <= 1
    assert shift_tests
    sums = [share for name, share in shares if "gradient histogram" in name]
    assert min(sums) >= MIN_HISTOGRAM_SHARE
    later = sum(taken_by_trees(name, share) for name, share in shares)
    assert sum(shift_tests) <= MAX_SHIFT_FRACTION * (1 - CLASS_COUNT_SHARE - later)


def taken_by_trees(name, share):
    """The share, if a tree or its leaves took it."""
    return share if "tree" in name or "leaves" in name else 0


def test_unaffordable_shift_tests_are_skipped():
    X, y, X_public = biased_rows(strength=0.0)
    few = SemiPrivateBoostingClassifier(epsilon=0.01, random_state=0)
    assert not shift_tests(few.fit(X, y, X_public=X_public))  # too noisy
    votes = SemiPrivateBoostingClassifier(method="votes", random_state=0)
    assert not shift_tests(votes.fit(X, y, X_public=X_public))


class TestDriftOfSyntheticPublicValues:
    """Public rows are spread over bounds where they show one value, which is no drift."""

    def warned(self, seed, *, n_public=300, shift=0.0, **settings):
        rng = np.random.default_rng(seed)
        size = rng.gamma(2.0, 20.0, size=2500 + n_public)
        rows = pd.DataFrame({"size": size, "one": 3.0, "job": rng.choice(["x", "y"], len(size))})
        y = (size + rng.normal(0, 10, len(size)) > 40).astype(int)[n_public:]
        public, rows = rows[:n_public], rows[n_public:]
        clf = SemiPrivateBoostingClassifier(bounds={"one": (0, 10)}, random_state=seed, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf.fit(rows, y, X_public=public.assign(size=public["size"] + shift))
        is_drift = [issubclass(warning.category, DriftWarning) for warning in caught]
        return any(is_drift), clf.drift_

    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_a_constant_column_with_bounds_has_not_drifted(self, delta):
        warned, drifts = zip(*(self.warned(seed, delta=delta) for seed in range(4)), strict=True)
        assert not any(warned)
        assert max(drifts) < 3

    def test_another_column_has_drifted(self):
        warned, drift = self.warned(0, shift=25.0)
        assert warned
        assert drift > 5

    def test_few_public_rows_are_no_sample(self):
        assert self.warned(0, n_public=8) == (False, None)

    def test_without_another_column_there_is_no_report(self):
        X = np.full((2000, 1), 3.0)
        y = np.arange(2000) % 2
        clf = SemiPrivateBoostingClassifier(bounds=(0, 10), random_state=0)
        clf.fit(X, y, X_public=X[:100].copy())
        assert clf.drift_ is None


def coded_column(n_values, *, is_closed=False):
    values = np.array([f"c{i}" for i in range(n_values)], dtype=object)
    return Column("code", values, categorical=True, is_closed=is_closed)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=20), st.booleans())
def test_removable_rows_are_those_without_which_a_category_keeps_its_bin(codes, is_closed):
    """The bins are chosen again without one or two rows of a category."""
    codes = np.unique(codes, return_inverse=True)[1].astype(float)
    column = coded_column(int(codes.max()) + 1, is_closed=is_closed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binner_module, "MAX_CATEGORIES", 3)
        bins = _categorical_bins(column, codes)
        other_bin = bins.size - 2
        chosen = np.flatnonzero(bins.bin_of_category[:-2] < other_bin)
        found = n_removable_rows(bins, codes)
        for category, n_removable in zip(chosen, found, strict=True):
            kept = 0
            for n_removed in (1, 2):
                rows = np.flatnonzero(codes == category)[n_removed:]
                rest = np.concatenate([codes[rows], codes[codes != category]])
                has_bin = _categorical_bins(column, rest).bin_of_category[category] < other_bin
                kept += has_bin and (is_closed or len(rows) > 0)
            assert n_removable == kept


def coded_design(counts, n=1000):
    """Return bins of one column of codes with given counts, public rows, and their codes."""
    codes = np.repeat(np.arange(len(counts)), counts).astype(float)[:, None]
    binner = Binner((_categorical_bins(coded_column(len(counts)), codes[:, 0]),))
    X = binner.indicators(binner.encoded_codes(codes))
    return binner, WeightedPublicRows(X, np.full(len(X), 1 / len(X)), n), codes


def test_unseen_categories_have_the_mass_of_good_and_turing():
    binner, design, codes = coded_design([9, 6, 2, 2, 1, 1, 1])
    m = len(codes)
    expected = expected_bin_shares(binner, design, codes)
    assert expected.means.sum() == pytest.approx(1)
    assert expected.means[-2] == pytest.approx(3 / m)  # three categories with one row
    assert expected.transfer_variances == pytest.approx([(3 + 2 * 2) / m**2])  # Esty (1983)
    # the mass comes from all categories alike
    np.testing.assert_allclose(expected.means[:7], np.array([9, 6, 2, 2, 1, 1, 1]) / m - 3 / 7 / m)


def test_categories_that_were_chosen_for_their_counts_are_expected_to_be_rarer():
    rng = np.random.default_rng(0)
    deviations = []
    for _ in range(200):
        binner, design, codes = coded_design(rng.multinomial(1000, np.full(100, 0.01)))
        kept = len(np.flatnonzero(binner.columns[0].bin_of_category[:100] < 64))
        expected = expected_bin_shares(binner, design, codes)
        deviation = (1 - kept / 100) - expected.means[-2]
        deviations.append(deviation / np.sqrt(expected.transfer_variances[0]))
        assert design.weights @ design.X[:, -2] < expected.means[-2]
    assert abs(np.mean(deviations)) < 0.5
    assert np.mean(np.square(deviations)) < 1.2


@pytest.mark.parametrize("kind", ["uniform", "Zipf", "free text"])
def test_codes_of_a_random_sample_have_not_drifted(kind):
    warned, runs = 0, 40
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        k = {"uniform": 100, "Zipf": 1000, "free text": 10**9}[kind]
        size = 2300
        if kind == "Zipf":
            shares = 1 / np.arange(1, k + 1)
            codes = rng.choice(k, size, p=shares / shares.sum())
        else:
            codes = rng.integers(0, k, size)
        rows = pd.DataFrame({"number": rng.normal(size=size), "code": codes.astype(str)})
        clf = SemiPrivateBoostingClassifier(
            epsilon=3, method="moments", max_rounds=1, random_state=seed
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf.fit(rows[300:], rng.integers(0, 2, 2000), X_public=rows[:300])
        warned += any(issubclass(warning.category, DriftWarning) for warning in caught)
    assert warned <= binom.isf(1e-6, runs, 0.04)


def test_the_threshold_allows_for_related_columns():
    rng = np.random.default_rng(0)
    runs, copies, m = 2000, 8, 30
    shared = rng.normal(size=(m, 1)) / np.sqrt(m)
    errors = np.repeat(shared / np.linalg.norm(shared), copies, axis=1) * np.sqrt(0.9)
    slices, identity = [slice(i, i + 1) for i in range(copies)], [False] * copies
    found = 0
    for _ in range(runs):
        deviations = rng.normal(size=m) @ errors + np.sqrt(0.1) * rng.normal(size=copies)
        report = histogram_drift(deviations**2, errors, np.full(copies, 0.1), slices, identity)
        np.testing.assert_allclose(report.columns, deviations**2)
        found += report.is_significant
    assert binom.ppf(1e-6, runs, FALSE_ALARM_RATE / 2) <= found
    assert found <= binom.isf(1e-6, runs, 2 * FALSE_ALARM_RATE)


def test_flattened_weights_keep_half_of_the_rows():
    x = np.linspace(-3, 3, 50)
    for slope in (0.1, 1.0, 10.0, 30.0):
        weights = np.exp(slope * x - 3 * slope)
        weights /= weights.sum()
        flat = flattened_weights(weights)
        assert flat.sum() == pytest.approx(1)
        size = 1 / (flat @ flat)
        assert size == pytest.approx(max(1 / (weights @ weights), MIN_KEPT_FRACTION * 50))
        assert (np.diff(flat) > 0).all()


def test_columns_beside_the_public_rows_do_not_overlap():
    codes = np.array([np.arange(60) % 6, np.arange(60) // 10], dtype=np.int16)
    Z, weights = grid(6, 6).indicators(codes), np.full(60, 1 / 60)
    slices = [slice(0, 6), slice(6, 12)]
    beside = np.array([0, 0, 0, 0, 0, 1]) - 1 / 6
    near = np.array([-1, 0, 0, 0, 0, 1]) / 20
    for deviations in (np.r_[near, beside], np.r_[beside, near]):
        found = overlapping_columns(deviations, Z, weights, 1e-4, slices)
        assert found.tolist() == [np.allclose(deviations[block], near) for block in slices]
    # noise may hide an overlap
    assert overlapping_columns(np.r_[near, beside], Z, weights, 1.0, slices).all()


def numbered_rows(seed):
    """Rows that are public if they come first, with and without their number."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(6300, 6)), columns=list("abcdef"))
    X[["b", "c"]] += 0.7 * X[["a"]].to_numpy()
    y = (X["a"] + X["b"] - X["c"] + 0.5 * rng.logistic(size=len(X)) > 0).astype(int).to_numpy()
    return X, X.assign(number=np.arange(len(X))), y


def test_a_row_number_does_not_spoil_other_columns():
    losses = []
    for seed in range(6):
        plain, numbered, y = numbered_rows(seed)
        scores = []
        for X in (plain, numbered):
            clf = SemiPrivateBoostingClassifier(random_state=seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                clf.fit(X[300:4300], y[300:4300], X_public=X[:300])
            scores.append(clf.score(X[4300:], y[4300:]))
        (message,) = [str(w.message) for w in caught if issubclass(w.category, DriftWarning)]
        assert "The columns that differ most are: number (" in message
        assert next(iter(clf.drift_columns_)) == "number"
        assert set(clf.drift_columns_) == set(numbered.columns)
        assert list(clf.drift_columns_.values()) == sorted(
            clf.drift_columns_.values(), reverse=True
        )
        losses.append(scores[0] - scores[1])
    assert np.mean(losses) < 0.02
