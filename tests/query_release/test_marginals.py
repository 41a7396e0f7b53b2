"""Released marginals: tables, sensitivity by brute force, privacy of the flow, accuracy, growth."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from skpublicdp.accounting import gaussian_mu_squared
from tests.helpers import FALSE_ALARM
from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    binomial_bounds,
    check_workload,
    downward_closure,
    marginal_tables,
    ravel_codes,
    release_marginals,
    spread_weights,
    synthesize,
    synthetic,
)
from tests.kit import Recorder

SIZES = (4, 3, 5, 2)
PAIRS = tuple(itertools.combinations(range(4), 2))
TRIPLES = tuple(itertools.combinations(range(4), 3))


def truth(tilt=0.0):
    """The fractions of a population with tied columns; `tilt` moves the first one."""
    first = np.array([0.4, 0.3, 0.2, 0.1 + tilt]) / (1 + tilt)
    second = np.full((4, 3), 0.1)
    second[range(4), np.arange(4) % 3] += 0.7
    third = binom.pmf(np.arange(5), 4, 0.2 + 0.2 * np.arange(3)[:, None])
    fourth = np.column_stack([0.9 - 0.2 * np.arange(4), 0.1 + 0.2 * np.arange(4)])
    return np.einsum("a,ab,bc,ad->abcd", first, second, third, fourth)


def population(n_rows, seed, tilt=0.0):
    chances = truth(tilt)
    generator = np.random.default_rng(seed)
    drawn = generator.choice(chances.size, n_rows, p=chances.ravel() / chances.sum())
    return np.stack(np.unravel_index(drawn, SIZES), axis=1)


def margin(joint, columns):
    return joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in columns))


def release(
    private, public, workload=PAIRS, sizes=SIZES, *, epsilon=1.0, delta=None, seed=0, **parameters
):
    delta = 1 / max(len(private), 2) ** 2 if delta is None else delta
    ledger = Ledger(epsilon, delta, seed, rows_per_person=parameters.pop("rows_per_person", None))
    return release_marginals(private, public, sizes, workload, ledger=ledger, **parameters)


def errors(released, joint, workload=PAIRS):
    return np.concatenate(
        [(released.marginal(columns) - margin(joint, columns)).ravel() for columns in workload]
    )


def separate(flat, workload):
    """Part the tables that stand one after the other."""
    sizes = [np.prod([SIZES[column] for column in columns]) for columns in workload]
    return np.split(flat, np.cumsum(sizes)[:-1])


class TestTables:
    def test_they_count_and_add(self):
        rows = population(500, 0)
        workload = (*PAIRS, (2,), (0, 1, 3))
        tables = separate(marginal_tables(rows, workload, SIZES), workload)
        for columns, table in zip(workload, tables, strict=True):
            expected = np.zeros([SIZES[c] for c in columns], dtype=int)
            np.add.at(expected, tuple(rows[:, c] for c in columns), 1)
            np.testing.assert_array_equal(table, expected.ravel())
        halves = [marginal_tables(part, workload, SIZES) for part in (rows[:123], rows[123:])]
        np.testing.assert_array_equal(np.concatenate(tables), sum(halves))

    def test_repeated_ones_are_measured_once(self):
        assert check_workload([(1, 0), (0, 1), [2]], SIZES) == ((0, 1), (2,))


# privacy


TINY_SIZES = (2, 2, 2)
KINDS = list(itertools.product(*map(range, TINY_SIZES)))
TINY = np.array([KINDS[place] for place in (0, 0, 5)])
TINY_PUBLIC = np.array([KINDS[place] for place in (0, 4, 4, 7)])
TINY_WORKLOADS = {
    "ones": [(0,), (2,)],
    "pairs": [(0, 1), (0, 2), (1, 2)],
    "triple": [(0, 1, 2)],
    "mixed": [(0, 1), (2,)],
}


def neighbours(rows):
    for place, kind in itertools.product(range(len(rows)), KINDS):
        other = rows.copy()
        other[place] = kind
        yield other


@pytest.mark.parametrize("delta", [1e-6, 0])
@pytest.mark.parametrize("workload", TINY_WORKLOADS.values(), ids=TINY_WORKLOADS)
@pytest.mark.parametrize("public", [TINY[:0], TINY_PUBLIC], ids=["alone", "public"])
class TestPrivacy:
    @pytest.mark.one_in(3)
    def test_neighbours_with_the_same_noisy_tables(self, public, workload, delta):
        """They are asked for the same, for what it costs, and all else is equal byte by byte."""
        arguments = {"workload": workload, "sizes": TINY_SIZES, "epsilon": 2.0}
        with Recorder() as recorder:
            released = pickle.dumps(release(TINY, public, delta=delta, **arguments))
        moved = {call.name: np.zeros(2) for call in recorder.calls}
        for rows in neighbours(TINY):
            with Recorder(recorder.outcomes) as again:
                other = release(rows, public, delta=delta, **arguments)
            assert pickle.dumps(other) == released
            for call, same in zip(recorder.calls, again.calls, strict=True):
                assert (call.name, call.event, call.spread) == (same.name, same.event, same.spread)
                assert call.sensitivity == same.sensitivity
                change = call.exact_input - same.exact_input
                far = np.array([np.abs(change).sum(), (change**2).sum()])
                assert (far <= call.sensitivity).all()
                moved[call.name] = np.maximum(moved[call.name], far)
        # and no less would do
        assert all((far == call.sensitivity).all() for far in moved.values())

    def test_noise_costs_the_whole_budget(self, public, workload, delta):
        for epsilon in (0.01, 0.3, 2.0):
            ledger = Ledger(epsilon, delta, 0)
            with Recorder() as recorder:
                release_marginals(TINY, public, TINY_SIZES, workload, ledger=ledger)
            whole = gaussian_mu_squared(epsilon, delta) if delta else Fraction(str(epsilon))
            drawn = sum(call.cost for call in recorder.calls)
            paid = sum(
                used.event.mu_squared if delta else used.event.epsilon
                for used in ledger.receipt().mechanisms
            )
            assert all(call.gaussian == bool(delta) for call in recorder.calls)
            # spreads are rounded up to 24 binary digits, and shares down to 30
            assert whole * (1 - Fraction(1, 2**20)) < drawn <= paid <= whole

    def test_persons_have_more_noise(self, public, workload, delta):
        spreads = []
        for k in (None, 3):
            with Recorder() as recorder:
                release(
                    TINY, public, workload, TINY_SIZES, delta=delta, rows_per_person=k, trust=1.0
                )
            spreads.append({call.name: call for call in recorder.calls})
            first = recorder.calls[0]
            spreads[-1] = Fraction(first.sensitivity.squared), first.spread * first.cost
        if delta:
            assert spreads[1][0] == 9 * spreads[0][0]
            assert spreads[0][1] == 2
            assert spreads[1][1] == 18
        else:
            assert spreads[1][1] == 3 * spreads[0][1]


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 0.8, 3])
@pytest.mark.parametrize("delta", [1e-6, 0])
def test_the_first_round_has_noise_as_large_as_the_sampling_error(delta, epsilon):
    """Its share of the budget is v/n with Gaussian noise, √(v/n) with Laplace, within bounds."""
    n = 2000
    if delta:  # variance 2 T / μ² on each of T = 10 tables
        n_measured = 10
        share = float(20 / (n * gaussian_mu_squared(epsilon, delta)))
        expected = min(max(share, 0.25), 0.5)
    else:  # variance 2 (2 d / ε)² on each of d = 4 columns
        n_measured = 4
        expected = min(np.sqrt(128 / n) / epsilon, 0.5)
    with Recorder() as recorder:
        ledger = Ledger(epsilon, delta, 0)
        release_marginals(population(n, 0), population(0, 1), SIZES, PAIRS, ledger=ledger)
    costs = [float(call.cost) for call in recorder.calls]
    assert sum(costs[:n_measured]) / sum(costs) == pytest.approx(expected, rel=0.02)


# what comes out


class TestReleases:
    @pytest.mark.parametrize("workload", [PAIRS, TRIPLES, [(0, 1, 2, 3)], [(2,), (1, 3)]])
    @pytest.mark.parametrize("delta", [None, 0])
    def test_tables_are_fractions_and_agree(self, workload, delta):
        for n_public, epsilon in itertools.product((0, 30), (0.1, 100)):
            released = release(
                population(1000, 0), population(n_public, 1), workload, delta=delta, epsilon=epsilon
            )
            assert [*released.fractions] == downward_closure(workload)
            for columns, table in released.fractions.items():
                assert table.shape == tuple(SIZES[column] for column in columns)
                assert table.min() >= 0
                assert table.sum() == pytest.approx(1, abs=1e-9)
                assert np.isfinite(released.deviations[columns]).all()
                assert (released.deviations[columns] > 0).all()
                for axis in range(len(columns) if len(columns) > 1 else 0):
                    narrow = released.fractions[columns[:axis] + columns[axis + 1 :]]
                    # three noisy pairs need not go together
                    close = 1e-6 if len(columns) == 2 else 0.03
                    assert np.abs(table.sum(axis=axis) - narrow).max() < close

    def test_columns_in_any_order(self):
        released = release(population(3000, 0), population(300, 1), TRIPLES)
        assert released.marginal((2, 0)).shape == (5, 4)
        np.testing.assert_array_equal(released.marginal((2, 0)), released.marginal((0, 2)).T)
        turned = released.marginal((3, 0, 2))
        np.testing.assert_array_equal(turned.transpose(1, 2, 0), released.marginal((0, 2, 3)))

    @pytest.mark.parametrize("delta", [None, 0])
    @pytest.mark.parametrize("n_public", [0, 20, 500])
    def test_close_to_the_private_fractions(self, delta, n_public):
        private = population(20_000, 0)
        released = release(private, population(n_public, 1), delta=delta)
        assert np.abs(errors(released, truth())).max() < 0.02

    def test_drift_is_noticed(self):
        private = population(20_000, 0)
        same = release(private, population(2000, 1))
        drifted = release(private, population(2000, 1, tilt=2.0))
        assert same.effective_public_size > 1000
        assert drifted.effective_public_size < 100
        assert np.abs(errors(drifted, truth())).max() < 0.02

    def test_noise_alone_does_not_move_public_rows(self):
        public = population(2000, 1)
        released = release(population(20_000, 0), public, epsilon=1e-4)
        shares = separate(marginal_tables(public, PAIRS, SIZES), PAIRS)
        for columns, table in zip(PAIRS, shares, strict=True):
            found = released.marginal(columns).ravel()
            np.testing.assert_allclose(found, table / 2000, atol=0.02)

    def test_fixed_trust(self):
        private, public = population(20_000, 0), population(2000, 1, tilt=2.0)
        blind, wary = (release(private, public, trust=trust) for trust in (1e9, 1.0))
        few, doubted = (release(private, public, trust=t, epsilon=0.03) for t in (1e9, 1.0))
        assert blind.effective_public_size == 2000  # public rows are no more than they are
        assert wary.effective_public_size == 1
        assert np.std(errors(few, truth())) > 3 * np.std(errors(doubted, truth()))
        assert release(private[:500], public[:20], trust=5e-324).effective_public_size < 1e-6

    @pytest.mark.parametrize("sizes", [(1,), (1, 1), (1, 3), (2, 1, 3)])
    @pytest.mark.parametrize("delta", [1e-6, 0])
    def test_columns_of_one_code(self, sizes, delta):
        generator = np.random.default_rng(0)
        workload = list(itertools.combinations(range(len(sizes)), min(2, len(sizes))))
        for n_private, n_public in itertools.product((1, 500), (0, 1, 40)):
            private, public = (
                np.column_stack([generator.integers(size, size=n) for size in sizes])
                for n in (n_private, n_public)
            )
            released = release(private, public, workload, sizes, delta=delta)
            for columns, table in released.fractions.items():
                assert np.isfinite(released.deviations[columns]).all()
                if table.size == 1:
                    np.testing.assert_allclose(table, 1)


# more rows and more budget


SEEDS = 4
STEPS = [(100, 0.1), (1000, 0.1), (1000, 1.0), (1000, 10.0), (10_000, 10.0), (10_000, 1000.0)]
STEPS += [(100_000, 1000.0), (100_000, 100_000.0)]  # n ε from 10 to 10^10


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("n_public", "tilt"), [(0, 0.0), (30, 0.0), (30, 1.0), (300, 0.0), (300, 1.0)]
)
def test_more_never_hurts(n_public, tilt):
    """Errors of pairs fall with n ε, to what the sampling of rows leaves, and so to nothing."""
    curve, spread = [], []
    for n, epsilon in STEPS:
        found = []
        for seed in range(SEEDS):
            private, public = population(n, seed), population(n_public, seed + 100, tilt)
            released = release(private, public, epsilon=epsilon, delta=1e-6, seed=seed)
            found.append(np.abs(errors(released, truth())).mean())
        curve.append(np.mean(found))
        spread.append(np.std(found, ddof=1) / np.sqrt(SEEDS))
    for before, after, one, two in zip(curve, curve[1:], spread, spread[1:], strict=False):
        assert after < 1.05 * before + 5 * np.hypot(one, two)
    sampling = np.mean(
        [np.sqrt(margin(truth(), c) * (1 - margin(truth(), c))).mean() for c in PAIRS]
    ) / np.sqrt(STEPS[-1][0])
    assert curve[-1] < sampling
    assert curve[-1] < curve[0] / 10


def held(n_public, tilt, epsilon, delta=1e-6, runs=25, n=3000):
    """Shares of intervals that hold: of each cell by itself, and of all cells of a fit."""
    each, together = [], []
    for seed in range(runs):
        private, public = population(n, seed), population(n_public, seed + 1000, tilt)
        released = release(private, public, epsilon=epsilon, delta=delta, seed=seed)
        of_fit, n_cells = [], sum(margin(truth(), columns).size for columns in PAIRS)
        for columns in PAIRS:
            true = margin(truth(), columns)
            codes = tuple(np.indices(true.shape).reshape(2, -1))
            low, high = released.intervals(columns, codes, 0.95).T
            of_fit.append((low <= true.ravel()) & (true.ravel() <= high))
            one = released.measured[columns]
            low, high = binomial_bounds(
                one.values, one.variance, n, 0.025 / n_cells, gaussian=released.gaussian
            )
            together.append(((low <= true) & (true <= high)).all())
        each.append(np.concatenate(of_fit).mean())
    return np.array(each), np.reshape(together, (runs, -1)).all(axis=1)


PUBLIC = [(0, 0.0), (100, 0.0), (100, 1.0)]
IN_SHORT = {((100, 1.0), 0.02)}


@pytest.mark.parametrize(
    ("n_public", "tilt", "epsilon"),
    [
        pytest.param(*of, epsilon, marks=() if (of, epsilon) in IN_SHORT else pytest.mark.slow)
        for of, epsilon in itertools.product(PUBLIC, (0.02, 0.1, 1.0, 30.0))
    ],
)
def test_intervals_hold(n_public, tilt, epsilon):
    """Over the draw of all rows and of the noise, for cells of a population that is known."""
    each, together = held(n_public, tilt, epsilon)
    chance = norm.isf(FALSE_ALARM) * each.std(ddof=1) / np.sqrt(len(each))  # a fit is one draw
    assert each.mean() > 0.93 - chance
    assert binom.cdf(together.sum(), len(together), 0.95) > FALSE_ALARM


@pytest.mark.parametrize(
    "epsilon", [pytest.param(epsilon, marks=pytest.mark.slow) for epsilon in (0.1, 1.0, 30.0)]
)
def test_intervals_hold_together_under_laplace_noise(epsilon):
    _, together = held(100, 1.0, epsilon, delta=0.0)
    assert binom.cdf(together.sum(), len(together), 0.95) > FALSE_ALARM


# rows that have the tables


class TestRows:
    def tables(self, workload=PAIRS):
        return {columns: margin(truth(), columns) for columns in downward_closure(workload)}

    @pytest.mark.parametrize("n_public", [0, 30, 3000])
    def test_their_tables_are_the_given_ones(self, n_public):
        fractions, public = self.tables(), population(n_public, 0)
        rows, weights = synthesize(fractions, PAIRS, SIZES, public, float(n_public))
        assert weights.min() > 0
        assert weights.sum() == pytest.approx(1)
        for columns in PAIRS:
            wanted = fractions[columns].ravel()
            found = np.bincount(ravel_codes(rows, columns, SIZES), weights, minlength=len(wanted))
            assert np.abs(found - wanted).sum() < 0.02

    def test_cells_that_no_row_shows_are_reached(self, monkeypatch):
        monkeypatch.setattr(synthetic, "N_TREE_ROWS", 10)
        fractions, public = self.tables(), population(3, 0)
        rows, weights = synthesize(fractions, PAIRS, SIZES, public, 3.0)
        assert weights.min() > 0
        for columns in PAIRS:
            shown = np.unique(ravel_codes(rows, columns, SIZES))
            assert np.isin(np.flatnonzero(fractions[columns] > 1e-6), shown).all()

    def test_columns_without_a_table(self):
        fractions = self.tables([(0, 1)])
        rows, weights = synthesize(fractions, [(0, 1)], SIZES, population(0, 0), 0.0)
        assert set(rows[:, 2]) == set(range(5))
        found = np.bincount(ravel_codes(rows, (0, 1), SIZES), weights, minlength=12)
        assert np.abs(found - fractions[0, 1].ravel()).sum() < 0.02

    @pytest.mark.parametrize("size", [2, 2**40])
    def test_weight_stays_with_its_codes(self, size):
        """Whatever the codes are; those of a size of 2^40 have no number in 64 bits together."""
        generator = np.random.default_rng(0)
        few = np.array([*itertools.product([0, size - 1], repeat=3)])
        support, public = few[np.arange(20) % 8], few[generator.integers(7, size=9)]
        weights = generator.dirichlet(np.ones(20))
        others, X_public = np.arange(20.0)[:, None], np.arange(20.0, 29)[:, None]
        carrier = spread_weights(support, weights, public, X_public, others)
        codes = np.concatenate([support, public])[carrier.rows[:, 0].astype(int)]
        for code in few:
            here = carrier.weights[(codes == code).all(axis=1)]
            np.testing.assert_allclose(here, here[0])
            assert here.sum() == pytest.approx(weights[(support == code).all(axis=1)].sum())
