"""What the marginal engine computes, against general optimisers, integrals and linear algebra."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import chi2, norm

from tests.helpers import FALSE_ALARM
from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    DEVIATION_SCALES,
    CellBatch,
    MarginalEstimate,
    MarginalModel,
    UnconstrainedEstimate,
    _nearest_consistent,
    allocate_budget,
    downward_closure,
    effective_sample_size,
    fit_with_fixed_margins,
    ipf,
    ravel_codes,
    release_marginals,
    shrink_to_margins,
)

SHAPES = [(2, 2), (2, 3), (4, 2), (2, 2, 2), (2, 3, 2)]
seeds = st.integers(0, 2**32 - 1)


def margins_of(tables):
    return [tables.sum(axis=axis, keepdims=True) for axis in range(1, tables.ndim)]


def joint(generator, shape, evenness=1.0):
    """A table of fractions, as the only one of its kind."""
    cells = generator.dirichlet(np.full(np.prod(shape), evenness))
    return cells.reshape(1, *shape)


def constraints(margins, shape):
    """The margins of a table as linear equations on its cells."""
    places = np.arange(np.prod(shape)).reshape(shape)
    rows, sums = [], []
    for axis, margin in enumerate(margins):
        for together, total in zip(
            np.moveaxis(places, axis, -1).reshape(-1, shape[axis]), margin.ravel(), strict=True
        ):
            rows.append(np.isin(places.ravel(), together).astype(float))
            sums.append(total)
    return np.array(rows), np.array(sums)


def best(objective, gradient, margins, shape):
    """Minimise over tables with these margins: a feasible table, and moves that keep margins."""
    rows, sums = constraints(margins, shape)
    start = ipf(np.ones((1, *shape)), margins, 3000).ravel()
    np.testing.assert_allclose(rows @ start, sums, atol=1e-9)
    moves = np.linalg.svd(rows)[2][np.linalg.matrix_rank(rows) :].T

    def table(z):
        return np.maximum(start + moves @ z, 1e-12)  # steps may look at negative cells

    found = minimize(
        lambda z: objective(table(z)),
        np.zeros(moves.shape[1]),
        jac=lambda z: moves.T @ gradient(table(z)),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda z: start + moves @ z - 1e-9},
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    return (start + moves @ found.x).reshape(1, *shape)


class TestMeetMargins:
    @given(seeds, st.sampled_from(SHAPES))
    def test_margins_that_go_together_are_met(self, seed, shape):
        generator = np.random.default_rng(seed)
        margins = margins_of(joint(generator, shape))
        met = ipf(generator.uniform(0.5, 1, (1, *shape)), margins, 5000)
        assert met.min() >= 0
        for mine, wanted in zip(margins_of(met), margins, strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("shape", [(2, 3), (2, 2, 2)])
    def test_no_table_of_these_margins_has_more_entropy(self, shape):
        margins = margins_of(joint(np.random.default_rng(0), shape, 3))
        brute = best(lambda t: np.sum(t * np.log(t)), lambda t: np.log(t) + 1, margins, shape)
        met = ipf(np.ones((1, *shape)), margins, 3000)
        np.testing.assert_allclose(met, brute, atol=1e-6)

    @pytest.mark.parametrize("shape", [(2, 3), (2, 2, 2)])
    def test_no_table_of_these_margins_is_nearer(self, shape):
        generator = np.random.default_rng(1)
        prior, margins = joint(generator, shape, 3), margins_of(joint(generator, shape, 3))
        q = prior.ravel()
        brute = best(
            lambda t: np.sum(t * np.log(t / q)), lambda t: np.log(t / q) + 1, margins, shape
        )
        np.testing.assert_allclose(ipf(prior, margins, 3000), brute, atol=1e-6)

    def test_zeros_stay_and_tables_are_solved_apart(self):
        generator = np.random.default_rng(2)
        tables = np.concatenate([joint(generator, (3, 4)) for _ in range(5)])
        priors = generator.uniform(0.5, 1, tables.shape)
        priors[2, 1, 1] = tables[2, 1, 1] = 0
        margins = margins_of(tables)
        together = ipf(priors, margins, 3000)
        assert together[2, 1, 1] == 0
        for place in range(5):
            alone = ipf(priors[[place]], [m[[place]] for m in margins], 3000)
            np.testing.assert_allclose(together[[place]], alone, atol=1e-9)


def problem(seed, shape, noise=0.05, ratio=0.1):
    generator = np.random.default_rng(seed)
    prior, truth = joint(generator, shape, 2), joint(generator, shape, 2)
    precisions = generator.uniform(0.5, 2, truth.shape) / noise**2
    values = truth + generator.normal(size=truth.shape) / np.sqrt(precisions)
    ratios = ratio * generator.uniform(0.1, 3, truth.shape)
    return prior, ratios, values, precisions, margins_of(joint(generator, shape, 9))


class TestWeigh:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize(("noise", "ratio"), [(0.05, 0.1), (0.3, 0.01), (0.01, 1.0)])
    def test_no_table_does_better(self, shape, noise, ratio):
        prior, r, y, w, margins = problem(3, shape, noise, ratio)
        found = fit_with_fixed_margins(prior, r, y, w, margins)
        for mine, wanted in zip(margins_of(found), margins, strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=0, atol=1e-5)
        q, r, y, w = (each.ravel() for each in (prior, r, y, w))

        def objective(t):
            return np.sum(w * (r * t * np.log(t / q) - r * t + (t - y) ** 2 / 2))

        def slope(t):
            return w * (r * np.log(t / q) + t - y)

        brute = best(objective, slope, margins, shape)
        np.testing.assert_allclose(found, brute, atol=1e-4)
        # at a minimum, no move that keeps the margins has a slope
        rows, _ = constraints(margins, shape)
        force = slope(found.ravel())
        along = force - rows.T @ np.linalg.lstsq(rows.T, force, rcond=None)[0]
        assert np.abs(along).max() < 1e-3 * np.abs(force).max()

    def test_prior_and_values_are_its_ends(self):
        prior, _, _, precisions, _ = problem(4, (2, 3))
        generator = np.random.default_rng(4)
        values = joint(generator, (2, 3))
        for ratio, expected in ((np.inf, prior), (1e-12, values)):
            found = fit_with_fixed_margins(
                prior, np.full_like(prior, ratio), values, precisions, margins_of(expected)
            )
            np.testing.assert_allclose(found, expected, atol=1e-5)

    def test_one_column_adds_up_to_one(self):
        generator = np.random.default_rng(5)
        prior = generator.dirichlet(np.ones(6), 3)
        values = prior + generator.normal(size=(3, 6)) / 10
        precisions = np.repeat([[1.0], [100.0], [1e6]], 6, axis=1)
        found = fit_with_fixed_margins(
            prior, np.full((3, 6), 0.1), values, precisions, [np.ones(1)]
        )
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
        for place in range(3):
            rows = slice(place, place + 1)
            alone = fit_with_fixed_margins(
                prior[rows], np.full((1, 6), 0.1), values[rows], precisions[rows], [np.ones(1)]
            )
            np.testing.assert_allclose(found[rows], alone, atol=1e-6)

    @given(seeds, st.sampled_from([*SHAPES, (5, 5)]), st.floats(-2, 14), st.floats(-12, 8))
    def test_whatever_comes_in(self, seed, shape, precision, ratio):
        """Noise of any width, negative values, margins and priors of next to nothing."""
        generator = np.random.default_rng(seed)
        truth = joint(generator, shape, 0.05)
        prior = ipf(10 ** generator.uniform(-4, 0, truth.shape), margins_of(truth), 3)
        values = truth + generator.normal(size=truth.shape) * 10 ** (-precision / 2)
        ratios = 10 ** (ratio + generator.uniform(-2, 2, truth.shape))
        ratios[generator.random(truth.shape) < 0.1] = np.inf
        found = fit_with_fixed_margins(
            np.maximum(prior, 1e-12),
            ratios,
            values,
            np.full(truth.shape, 10**precision),
            margins_of(truth),
        )
        assert np.isfinite(found).all()
        assert found.min() >= 0
        for mine, wanted in zip(margins_of(found), margins_of(truth), strict=True):
            assert np.abs(mine - wanted).max() < 0.02


class TestTables:
    @given(
        st.lists(
            st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(sorted).map(tuple),
            min_size=1,
            max_size=4,
        )
    )
    def test_closure(self, workload):
        found = downward_closure(workload)
        subsets = itertools.chain.from_iterable(
            itertools.combinations(range(6), width) for width in range(1, 5)
        )
        inside = {part for part in subsets if any(set(part) <= set(w) for w in workload)}
        assert set(found) == inside
        assert len(found) == len(inside)
        assert [*map(len, found)] == sorted(map(len, found))

    def pair(self, fractions, noise, loose=0.1):
        wide, one = (
            MarginalEstimate((0, 1), fractions.shape),
            MarginalEstimate((0,), fractions.shape[:1]),
        )
        wide.precision = 1 / noise**2
        wide.prior_variance_factor, wide.unexplained_share = (
            np.full(fractions.shape, loose),
            1 - fractions,
        )
        return wide, one

    def test_plain_sums_are_unbiased(self):
        """They add up what was measured, and their noise is that of all cells."""
        generator = np.random.default_rng(0)
        truth = joint(generator, (3, 5, 2))[0]
        table = MarginalEstimate((1, 2, 4), (3, 5, 2))
        noise, squares = 0.1, []
        for _ in range(400):
            table.measured = truth + generator.normal(size=truth.shape) * noise
            table.precision = 1 / noise**2
            for columns, axes in (((1,), (1, 2)), ((2, 4), (0,))):
                target = MarginalEstimate(
                    columns, tuple(table.shape[table.columns.index(c)] for c in columns)
                )
                values, precisions = table.project_measurement(target)
                squares += ((values - truth.sum(axis=axes)) ** 2 * precisions).ravel().tolist()
        # sums over disjoint cells of one table are independent; of two tables they are not
        total, n = sum(squares), len(squares)
        assert (
            chi2.isf(1 - FALSE_ALARM, n / 13 * 3)
            < total * 3 / 13
            < chi2.isf(FALSE_ALARM, n / 13 * 3)
        )

    @pytest.mark.parametrize("noise", [0.05, 0.2])
    def test_the_matched_filter_is_least_squares(self, noise):
        """Each cell shows its part of the margin, its noise, and doubt that adds up to zero."""
        generator = np.random.default_rng(1)
        fractions = joint(generator, (2, 6), 0.3)[0]
        wide, one = self.pair(fractions, noise, loose=1e-3)
        wide.fractions = fractions
        wide.measured = fractions + generator.normal(size=(2, 6)) * noise / 10
        values, precisions = wide.project_measurement(one)
        for row in range(2):
            part = fractions[row] / fractions[row].sum()
            doubt = 1e-3 * fractions[row] * (1 - fractions[row])
            covariance = np.diag(doubt + noise**2) - np.outer(doubt, doubt) / doubt.sum()
            weights = np.linalg.solve(covariance, part)
            precision = weights @ part
            assert precision > wide.precision / 6  # or the plain sum were better
            np.testing.assert_allclose(values[row], weights @ wide.measured[row] / precision)
            np.testing.assert_allclose(precisions[row], precision)


class TestAgreement:
    """Tables are freed from margins that are less certain than what was measured of them."""

    SHIFT_VARIANCE_GRID = (3, 2, 4)

    def solved(self, seed, noise):
        generator = np.random.default_rng(seed)
        truth = joint(generator, self.SHIFT_VARIANCE_GRID, 0.5)[0]
        model = MarginalModel(np.empty((0, 3), int), self.SHIFT_VARIANCE_GRID, [(0, 1, 2)], 10_000)
        for table in model.tables.values():
            true = truth.sum(axis=tuple({0, 1, 2} - set(table.columns)))
            table.add(true + generator.normal(size=true.shape) * noise, noise**-2)
        model.fit()
        return model, truth

    @given(seeds)
    def test_freed_tables_are_those_of_the_joint_posterior(self, seed):
        """A cell is the base, its margins' error and what is its own, and was measured once."""
        generator = np.random.default_rng(seed)
        margins, own, noise = 10 ** generator.uniform(-6, -2, 3)
        wide, one = MarginalEstimate((0, 1), (2, 2)), MarginalEstimate((0,), (2,))
        wide.submarginals.append(one)
        one.fractions, one.deviation_posterior_variance = np.array([0.5, 0.5]), np.full(2, margins)
        base, lack = np.full((2, 2), 0.25), generator.normal(size=(2, 2)) / 100
        wide.values, wide.precisions = base + lack, np.full((2, 2), 1 / noise)
        wide.deviation_prior_variance = np.full((2, 2), own)
        precisions = 1 / wide.deviation_prior_variance + wide.precisions
        wide.deviation_posterior_variance = 1 / precisions
        wide.fractions = base + own / (own + noise) * lack
        freed = wide.unconstrained()
        share = np.minimum(wide.fractions / 0.5, 1) ** 2  # a part of a margin errs less
        # of two parts that add up to zero each has half of the variance of independent ones
        np.testing.assert_allclose(freed.prior, own / 2 + share * margins)
        np.testing.assert_allclose(freed.noise, noise)
        of_margins = share * margins / (freed.prior + noise)
        left = noise / (own + noise) * lack  # between the estimate and the measured value
        np.testing.assert_allclose(freed.fractions, wide.fractions + of_margins * left)
        np.testing.assert_allclose(freed.variances(), freed.prior * noise / (freed.prior + noise))

    def test_own_parts_add_up_to_zero(self):
        """Their variances are those of independent parts, conditioned on the sum of all."""
        spread = np.random.default_rng(0).gamma(0.3, size=6) + 1e-9
        table = MarginalEstimate((0,), (6,))
        table.deviation_prior_variance = table.deviation_posterior_variance = spread
        table.precisions = table.values = table.fractions = np.full(6, 1 / 6)
        sum_ = np.ones((1, 6))
        covariance = np.diag(spread)
        gain = covariance @ sum_.T @ np.linalg.inv(sum_ @ covariance @ sum_.T)
        conditioned = covariance - gain @ sum_ @ covariance
        np.testing.assert_allclose(table.unconstrained().prior, np.diag(conditioned), rtol=1e-9)

    def test_a_heavy_cell_of_equal_noise_moves_no_more_than_others(self):
        """A discrepancy is split by variance; in proportion, 90% of it went to the heavy cell."""
        means = np.array([[0.9, 0.05, 0.04, 0.02]])
        noise = np.full(4, 1e-4)
        for prior, expected in (
            (np.full(4, 1.0), means - 0.01 / 4),
            (np.array([1e-4, 1e-4, 3e-4, 1e-12]), means - 0.01 * np.array([[2, 2, 3, 0]]) / 7),
        ):
            agreed = _nearest_consistent(
                means, [UnconstrainedEstimate(means[0], prior, noise)], [np.ones((1, 1))]
            )
            np.testing.assert_allclose(agreed, expected, atol=2e-4)
        unmeasured = [UnconstrainedEstimate(means[0], prior, np.full(4, 1e12))]
        np.testing.assert_allclose(
            _nearest_consistent(means, unmeasured, [np.ones((1, 1))]), means / 1.01
        )

    @pytest.mark.parametrize("noise", [1e-4, 0.01, 0.1])
    def test_tables_agree(self, noise):
        model, _ = self.solved(0, noise)
        model.make_consistent()
        for table in model.tables.values():
            assert table.estimate.min() >= 0
            for axis, parent in enumerate(table.parents):
                np.testing.assert_allclose(
                    table.estimate.sum(axis=axis), parent.estimate, atol=1e-6
                )

    def test_what_is_certain_stays(self):
        model, _ = self.solved(1, 0.05)
        for table in model.tables.values():
            table.deviation_posterior_variance = np.full(table.shape, 1e-12)
        before = [table.estimate for table in model.tables.values()]
        model.make_consistent()
        for table, was in zip(model.tables.values(), before, strict=True):
            np.testing.assert_allclose(table.estimate, was, atol=5e-6)

    def test_a_block_that_all_priors_get_wrong_does_not_hold_a_heavy_cell_back(self):
        """Two columns exclude each other: products of margins put 1% into 100 empty cells."""
        one = np.array([0.9, *[0.01] * 10])
        truth = np.zeros((11, 11))
        truth[0], truth[:, 0], truth[0, 0] = one, one, 0.8
        noise, errors = 3e-4, []
        for seed in range(30):
            generator = np.random.default_rng(seed)
            model = MarginalModel(np.empty((0, 2), int), (11, 11), [(0, 1)], 10_000)
            for columns, table in model.tables.items():
                true = truth.sum(axis=tuple({0, 1} - set(columns)))
                table.add(true + generator.normal(size=true.shape) * noise, noise**-2)
            model.fit()
            model.make_consistent()
            errors.append(model.tables[0, 1].estimate[0, 0] - 0.8)
        assert np.mean(errors) < 3 * noise  # with independent priors alone more than 4

    def test_errors_fall(self):
        squared = np.zeros((2, 80))
        for seed in range(80):
            model, truth = self.solved(seed, 0.03)
            wide = model.tables[0, 1, 2]
            squared[0, seed] = np.square(wide.estimate - truth).sum()
            model.make_consistent()
            squared[1, seed] = np.square(wide.estimate - truth).sum()
        gain = squared[0] - squared[1]
        assert gain.mean() > norm.isf(FALSE_ALARM) * gain.std() / np.sqrt(len(gain))


class TestWorth:
    KNOWN = 2 / 5000

    def worth(self, drift, noise, n=40, seed=0):
        spread = np.full(n, 0.1)
        deviation = np.sqrt(spread * (self.KNOWN + drift) + noise)
        errors = np.random.default_rng(seed).normal(size=n) * deviation
        return effective_sample_size(errors**2, spread, noise, self.KNOWN)

    def test_without_evidence_there_is_no_drift(self):
        assert self.worth(1.0, 1e9) == 1 / self.KNOWN

    @pytest.mark.parametrize("drift", [1e-3, 0.03, 1.0])
    def test_drift_that_shows_is_found(self, drift):
        found = self.worth(drift, 1e-7, n=4000)
        assert found == pytest.approx(1 / (self.KNOWN + drift), rel=0.25)  # sizes are 1.8 apart

    def test_no_drift_is_found(self):
        assert self.worth(0, 1e-7, n=4000) > 0.9 / self.KNOWN

    def test_noise_is_not_taken_for_drift(self):
        """One noise in forty gained more than e² by some drift, and good rows were thrown away."""
        found = [self.worth(0, 1e-3, seed=seed) * self.KNOWN for seed in range(300)]
        assert min(found) > 0.1
        assert np.mean(found) > 0.95


def cells_of(base, public=None, values=None, precision=0.0):
    one = np.ones(len(base))
    return CellBatch(
        independence_estimate=base,
        public=base if public is None else public,
        unexplained_share=one,
        values=base if values is None else values,
        precisions=precision * one,
        residual_noise_share=one,
    )


class TestShrink:
    """A cell has a gamma prior about its base, public counts are Poisson, noise is normal."""

    BASE = np.repeat([0.003, 0.02, 0.1], 4000)
    SPREADS = DEVIATION_SCALES[[12, 22], 0]  # two kinds of cells

    def drawn(self, seed, worth):
        generator = np.random.default_rng(seed)
        base, kind = self.BASE, generator.integers(2, size=len(self.BASE))
        scale = self.SPREADS[kind] * np.sqrt(base)
        truth = generator.gamma(base / scale, scale)
        public = generator.poisson(worth * truth) / worth if worth else base
        return generator, truth, public

    def oracle(self, base, count, worth, values=None, noise=None):
        """Means and variances by integrals over the mixture that the cells were drawn from."""
        t = np.geomspace(1e-9, 30, 3000)[:, None]
        density = 0.0
        for spread in self.SPREADS:
            scale = spread * np.sqrt(base)
            shape = base / scale
            logs = (shape - 1) * np.log(t) - t / scale
            peak = logs.max(axis=0)
            mass = np.trapezoid(np.exp(logs - peak), t, axis=0)
            density = density + np.exp(logs - peak) / mass
        if worth:
            logs = count * np.log(t) - worth * t
            density = density * np.exp(logs - logs.max(axis=0))
        if values is not None:
            density = density * norm.pdf(values, t, noise)
        whole = np.trapezoid(density, t, axis=0)
        mean = np.trapezoid(density * t, t, axis=0) / whole
        return mean, np.trapezoid(density * (t - mean) ** 2, t, axis=0) / whole

    @pytest.mark.parametrize("worth", [100, 3000])
    def test_public_rows_alone(self, worth):
        _, truth, public = self.drawn(0, worth)
        prior, loose, ratio = shrink_to_margins(cells_of(self.BASE, public), np.array([0]), worth)
        assert np.isinf(ratio).all()
        some = slice(None, None, 40)
        mean, variance = self.oracle(self.BASE[some], worth * public[some], worth)
        lost = np.mean((prior[some] - mean) ** 2) / np.mean(variance)
        assert lost < 0.02  # of what the oracle itself does not know
        # it leaves out that the mean may be that of another component
        claimed = loose * prior
        for base in np.unique(self.BASE):
            here = base == self.BASE
            ratio = np.mean((truth - prior)[here] ** 2) / claimed[here].mean()
            assert 0.85 < ratio < 1.5

    @pytest.mark.parametrize("worth", [0, 300])
    @pytest.mark.parametrize("noise", [0.003, 0.05])
    def test_public_rows_and_noisy_values(self, worth, noise):
        generator, truth, public = self.drawn(1, worth)
        values = truth + generator.normal(size=len(truth)) * noise
        told = cells_of(self.BASE, public, values, noise**-2)
        prior, _, ratio = shrink_to_margins(told, np.array([0]), worth)
        share = prior / (
            prior + ratio
        )  # of the value: where `fit_with_fixed_margins` is level at the prior
        mean = prior + share * (values - prior)
        some = slice(None, None, 40)
        best_mean, variance = self.oracle(
            self.BASE[some], worth * public[some], worth, values[some], noise
        )
        assert np.mean((mean[some] - best_mean) ** 2) < 0.25 * variance.mean()
        alone = min(np.mean((each - truth) ** 2) for each in (self.BASE, public, values))
        assert np.mean((mean - truth) ** 2) < 1.05 * alone

    def test_where_nothing_is_known(self):
        base = np.array([0.1, 0.2, 0.0, 0.7])
        prior, loose, ratio = shrink_to_margins(cells_of(base), np.array([0, 2]), 0.0)
        np.testing.assert_allclose(prior, base, atol=1e-9)
        assert np.isinf(ratio).all()
        assert (loose > 0).all()

    def test_where_all_is_known(self):
        generator = np.random.default_rng(2)
        base = generator.dirichlet(np.ones(50))
        values = generator.dirichlet(np.ones(50))
        prior, _, ratio = shrink_to_margins(cells_of(base, base, values, 1e20), np.array([0]), 10.0)
        assert (ratio < 1e-6 * prior).all()

    def test_where_margins_tell_all(self):
        """Cells of columns with one code teach nothing, and disturb nobody."""
        generator = np.random.default_rng(3)
        base = generator.dirichlet(np.ones(60))
        public = generator.dirichlet(1 + 30 * base)
        alone = shrink_to_margins(cells_of(base, public), np.array([0]), 500.0)
        fixed = cells_of(base, base, base + 0.1, 100.0)._replace(residual_noise_share=np.zeros(60))
        both = CellBatch(*map(np.concatenate, zip(fixed, cells_of(base, public), strict=True)))
        found = shrink_to_margins(both, np.array([0, 60]), 500.0)
        assert all(np.isfinite(each[:60]).all() for each in found[:2])
        for mine, wanted in zip(found, alone, strict=True):
            np.testing.assert_allclose(mine[60:], wanted, rtol=1e-3)


def model_of(n_public, sizes, workload, seed=0):
    generator = np.random.default_rng(seed)
    public = np.column_stack([generator.binomial(size - 1, 0.3, n_public) for size in sizes])
    model = MarginalModel(public.astype(np.int64), sizes, workload, 5000)
    for table in model.tables.values():
        table.add(joint(generator, table.shape, 3)[0], 200.0)
    model.fit()
    return model


class TestPlan:
    @pytest.mark.parametrize("power", [1, 2])
    @pytest.mark.parametrize("precision", [1.0, 1e4, 1e9])
    def test_shares(self, power, precision):
        model = model_of(100, (2, 3, 4), [(0, 1), (0, 2), (1, 2)])
        shares = allocate_budget(model, precision, power)
        assert shares.shape == (len(model.tables),)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1, abs=1e-12)

    @pytest.mark.parametrize("precision", [100.0, 1e4, 1e6])
    @pytest.mark.parametrize("n_public", [0, 50])
    def test_no_plan_has_a_smaller_error(self, n_public, precision):
        """The sum of variances, among all shares of two columns and their pair."""
        workload = [(0, 1)]
        model = model_of(n_public, (2, 5), workload)
        tables = list(model.tables.values())
        noise = len(tables) / precision

        def error(shares):
            bought = precision * shares
            variances = []
            for table, own in zip(tables, bought, strict=True):
                pair = tables[2]
                told = (
                    own if table is pair else own + bought[2] * pair.information_share(table, noise)
                )
                known = table.precisions.ravel() + told
                variances.append(1 / (1 / table.prior_variance().ravel() + known))
            return np.log(np.concatenate(variances).sum())

        grid = np.array([(a, b, 60 - a - b) for a in range(61) for b in range(61 - a)], dtype=float)
        smallest = min(map(error, grid / 60))
        assert error(allocate_budget(model, precision, 1)) < smallest + 5e-3

    def test_what_is_uncertain_and_asked_for_gets_more(self):
        sizes = (4, 4, 4)
        few = model_of(3, sizes, [(0,), (1,), (0, 2)])
        shares = dict(zip(few.tables, allocate_budget(few, 1e4, 1), strict=True))
        assert shares[0, 2] > shares[1,]
        exact = model_of(3, sizes, [(0,), (1,)])
        exact.tables[0,].add(exact.tables[0,].estimate, 1e12)
        exact.fit()
        shares = allocate_budget(exact, 1e4, 1)
        assert shares[1] == pytest.approx(1)  # what is known need not be measured


def drawn(n, rng, mean=0.0, spread=1.0):
    ability = rng.normal(mean, 0.8 if mean else 1.0, n)
    rows = ability[:, None] * np.linspace(-1, 1, 5) + spread * rng.normal(size=(n, 5))
    return np.clip(np.rint(3 * rows + 8), 0, 15).astype(np.int64)


def furthest(private, public, ledger):
    """Return how many of 100,000 rows a cell of all pairs is off at most."""
    sizes, workload = (16,) * 5, list(itertools.combinations(range(5), 2))
    found = release_marginals(private, public, sizes, workload, ledger=ledger)
    return max(
        np.abs(
            1e5 * found.fractions[columns].ravel()
            - np.bincount(ravel_codes(private, columns, sizes), minlength=256)
        ).max()
        for columns in workload
    )


def test_no_cell_is_left_with_its_prior_where_noise_is_less_than_a_row():
    """Few public rows of another population: they must have the margins of what was measured."""
    rng = np.random.default_rng(0)
    private = drawn(100_000, rng)
    for seed in range(4):
        public = drawn(30, rng, 0.7, 1.3)
        assert furthest(private, public, Ledger(1000, 1e-10, seed)) < 2.5


def test_what_wide_tables_say_of_margins_is_not_far_from_their_sums():
    """Nor where a first loud look has taught what parts of a margin are, and was wrong."""
    rng = np.random.default_rng(0)
    private = drawn(100_000, rng)
    private[:, 1] = np.where(rng.random(100_000) < 0.97, 6, private[:, 1])  # a heavy value
    for seed in range(4):
        assert furthest(private, private[:0], Ledger(100, 0, seed)) < 6
