"""Released marginals: tables, sensitivity by brute force, privacy of the flow, accuracy."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.accounting import gaussian_epsilon, gaussian_mu_squared
from skpublicdp.ledger import Ledger
from skpublicdp.query_release import marginals
from skpublicdp.query_release.marginal_support import public_support
from skpublicdp.query_release.marginal_tables import (
    cells,
    check_workload,
    incidence,
    marginal_tables,
)
from skpublicdp.query_release.marginals import release_marginals
from tests.kit import Tape

SIZES = (4, 3, 5, 2)
PAIRS = tuple(itertools.combinations(range(4), 2))


def population(n_rows, seed, tilt=0.0):
    """Return tied columns; `tilt` moves the first one."""
    generator = np.random.default_rng(seed)
    first = generator.choice(4, n_rows, p=np.array([0.4, 0.3, 0.2, 0.1 + tilt]) / (1 + tilt))
    second = np.where(generator.random(n_rows) < 0.7, first % 3, generator.integers(3, size=n_rows))
    third = generator.binomial(4, 0.2 + 0.2 * second)
    fourth = (generator.random(n_rows) < 0.1 + 0.2 * first).astype(int)
    return np.stack([first, second, third, fourth], axis=1)


def release(
    private, public, workload=PAIRS, sizes=SIZES, *, epsilon=1.0, delta=None, seed=0, **parameters
):
    ledger = Ledger(epsilon, 1 / max(len(private), 2) ** 2 if delta is None else delta, seed)
    return release_marginals(private, public, sizes, workload, ledger=ledger, **parameters)


def measured(*arguments, **parameters):
    """Return the tables of each measurement: together they pay for their noise."""
    with Tape() as tape:
        release(*arguments, **parameters)
    return [list(uses) for _, uses in itertools.groupby(tape.uses, key=lambda use: use.name)]


def numbers(*arguments, **parameters):
    return [*map(len, measured(*arguments, **parameters))]


def largest_error(released, rows, workload=PAIRS):
    tables = marginal_tables(rows, workload, released.sizes)
    return max(
        np.abs(released.marginal(columns).ravel() - table / len(rows)).max()
        for columns, table in zip(workload, tables, strict=True)
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_tables_count_and_add(n_jobs, monkeypatch):
    rows = population(500, 0)
    workload = (*PAIRS, (2,), (0, 1, 3))
    tables = marginal_tables(rows, workload, SIZES, n_jobs)
    for columns, table in zip(workload, tables, strict=True):
        shape = [SIZES[c] for c in columns]
        expected = np.zeros(shape, dtype=int)
        np.add.at(expected, tuple(rows[:, c] for c in columns), 1)
        np.testing.assert_array_equal(table, expected.ravel())
    monkeypatch.setattr("skpublicdp.query_release.marginal_tables.CHUNK_ROWS", 7)
    chunked = marginal_tables(rows, workload, SIZES, n_jobs)
    halves = [marginal_tables(part, workload, SIZES) for part in (rows[:123], rows[123:])]
    for table, same, one, two in zip(tables, chunked, *halves, strict=True):
        np.testing.assert_array_equal(table, same)
        np.testing.assert_array_equal(table, one + two)


@pytest.mark.parametrize("workload", [[(0,)], [(0, 1)], [(0,), (1,), (0, 1)], [(0, 1), (1, 2)]])
def test_sensitivity_over_all_neighbours(workload):
    sizes = (2, 3, 2)
    every_row = list(itertools.product(*map(range, sizes)))
    moves = []
    for rest in [(), (every_row[0],), (every_row[3], every_row[7])]:
        for old, new in itertools.product(every_row, repeat=2):
            before, after = (
                np.concatenate(marginal_tables(np.array([*rest, row]), workload, sizes))
                for row in (old, new)
            )
            moves.append(after - before)
    assert max(np.sum(move**2) for move in moves) == 2 * len(workload)
    assert max(np.sum(np.abs(move)) for move in moves) == 2 * len(workload)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("delta", [1e-7, 0])
def test_measurements_spend_the_budget(epsilon, delta):
    groups = measured(population(3000, 0), population(300, 1), epsilon=epsilon, delta=delta)
    whole = gaussian_mu_squared(epsilon, delta) if delta else Fraction(str(epsilon))
    for tables in groups:
        unit = 256 if delta and len(groups) == 2 and tables is groups[1] else 1
        for table in tables:
            assert table.gaussian == bool(delta)
            assert table.sensitivity.squared == 2 * len(tables) * unit**2
            assert table.sensitivity.absolute == 2 * len(tables) * unit
            assert table.cost == tables[0].cost
    # the spread is rounded up to 24 binary digits
    assert whole * (1 - Fraction(1, 2**23)) < sum(tables[0].cost for tables in groups) <= whole


def test_noise_is_added_to_every_count_that_is_used():
    with Tape() as tape:
        released = release(population(3000, 0), population(300, 1))
    placed = incidence(released.support, PAIRS, SIZES)
    assert [use.outcome.size for use in tape.uses] == [*SIZES, *map(len, placed.reached)]


@pytest.mark.parametrize("delta", [None, 0])
@pytest.mark.parametrize("n_public", [0, 300])
def test_only_noisy_tables_matter(delta, n_public):
    """Other private rows with the same noisy tables give the same release, bit by bit."""
    public = population(n_public, 1)
    with Tape() as tape:
        one = release(population(3000, 0), public, delta=delta)
    with Tape(tape.outcomes) as again:
        two = release(population(3000, 5), public, delta=delta)
    assert not any(
        np.array_equal(a.answer, b.answer) for a, b in zip(tape.uses, again.uses, strict=True)
    )
    assert pickle.dumps(one) == pickle.dumps(two)


@pytest.mark.parametrize("delta", [None, 0])
@pytest.mark.parametrize("n_public", [0, 20, 500])
def test_close_to_the_private_fractions(delta, n_public):
    private = population(20_000, 0)
    released = release(private, population(n_public, 1), delta=delta)
    assert released.converged
    assert largest_error(released, private) < 0.015
    assert released.weights.min() >= 0
    assert released.weights.sum() == pytest.approx(1)


def test_drift_is_noticed_and_corrected():
    private = population(20_000, 0)
    same, drifted = population(2_000, 1), population(2_000, 1, tilt=2.0)
    assert release(private, same).effective_public_size > 1_000
    released = release(private, drifted)
    assert released.tilted
    assert released.effective_public_size < 200
    assert largest_error(released, private) < 0.01


def test_no_trust_in_noise():
    """With a tiny budget the public rows answer, and the smoothing hardly moves them."""
    private, public = population(20_000, 0), population(2_000, 1)
    released = release(private, public, epsilon=1e-4)
    tables = marginal_tables(public, PAIRS, SIZES)
    for columns, table in zip(PAIRS, tables, strict=True):
        np.testing.assert_allclose(released.marginal(columns).ravel(), table / 2_000, atol=0.01)
    assert numbers(private, public, epsilon=1e-4) == [4]  # one-ways alone


TRIPLES = tuple(itertools.combinations(range(4), 3))


@pytest.mark.parametrize(
    ("workload", "width", "parts"),
    [
        (TRIPLES, 3, TRIPLES),
        (TRIPLES, 2, PAIRS),
        ([(0, 1, 2), (0, 3), (1,)], 2, ((0, 1), (0, 2), (1, 2), (0, 3))),
        ([(0, 1, 2, 3), (0, 1)], 3, (*TRIPLES, (0, 1))),
        ([(0,), (1,)], 2, ()),
    ],
)
def test_parts_of_fewer_columns(workload, width, parts):
    assert sorted(marginals._parts(tuple(workload), width)) == sorted(parts)  # each once


@pytest.mark.parametrize("n_public", [0, 300])
def test_the_widest_marginals_that_are_not_too_loud(n_public):
    generator = np.random.default_rng(0)
    private = generator.integers(2, size=(5000, 8))
    public = generator.integers(2, size=(n_public, 8))
    workload = list(itertools.combinations(range(8), 3))
    loudness = math.sqrt(2) / (marginals.LOUDEST * 5000)  # times √(number of tables) is √μ²
    chosen = []
    for n_tables in (57, 55, 29, 27):
        # one table more or less than the budget measures well
        epsilon = gaussian_epsilon(Fraction(loudness**2 * n_tables), 1e-7)
        chosen.append(numbers(private, public, workload, (2,) * 8, epsilon=epsilon, delta=1e-7))
    assert chosen == [[8, 56], [8, 28], [8, 28], [8]]


@pytest.mark.parametrize(
    ("n_public", "loudness", "expected"),
    [
        (0, 0.029, [8, 56]),
        (100, 0.029, [8, 56]),
        (2500, 0.0079, [8, 56]),
        (2500, 0.0081, [8, 28]),
        (2500, 0.017, [8]),
        (40_000, 0.0049, [8, 56]),
        (40_000, 0.0051, [8, 28]),
    ],
)
def test_pure_privacy_keeps_to_fewer_columns(n_public, loudness, expected):
    generator = np.random.default_rng(0)
    private = generator.integers(2, size=(5000, 8))
    public = generator.integers(2, size=(n_public, 8))
    workload = list(itertools.combinations(range(8), 3))
    epsilon = 2 * 56 * math.sqrt(2) / (loudness * 5000)  # √2 · scale is the deviation
    assert numbers(private, public, workload, (2,) * 8, epsilon=epsilon, delta=0) == expected


def test_pairs_tell_most_of_triples_that_are_too_loud():
    generator = np.random.default_rng(0)
    flips = generator.random((20_000, 8)) < np.array([0.5, *[0.1] * 7])
    private = np.cumsum(flips, axis=1) % 2  # each column is nearly the one before
    workload = list(itertools.combinations(range(8), 3))
    with Tape() as tape:
        released = release(private, None, workload, (2,) * 8, epsilon=0.06, delta=1e-7)
    assert len(tape.uses) == 8 + 28
    assert largest_error(released, private, workload) < 0.1  # by one-ways alone: .28


def test_codes_no_public_row_has():
    private, public = population(20_000, 0), population(2_000, 1)
    released = release(private, public[(public[:, 0] != 0) & (public[:, 3] == 0)])
    assert largest_error(released, private) < 0.03


def test_without_public_rows_on_a_large_domain():
    generator = np.random.default_rng(0)
    private = generator.binomial(9, 0.2, size=(20_000, 8))
    sizes, workload = (10,) * 8, list(itertools.combinations(range(8), 2))
    released = release(private, None, workload, sizes)
    assert largest_error(released, private, workload) < 0.02


def test_any_marginal_of_the_weights():
    released = release(population(3000, 0), population(300, 1))
    assert released.marginal((2, 0)).shape == (5, 4)
    np.testing.assert_allclose(released.marginal((2, 0)), released.marginal((0, 2)).T)
    np.testing.assert_allclose(released.marginal((0, 1, 2)).sum((0, 2)), released.marginal((1,)))
    assert released.marginal(range(4)).sum() == pytest.approx(1)


def test_fixed_trust():
    private, public = population(20_000, 0), population(2_000, 1, tilt=2.0)
    blind, wary = (release(private, public, trust=trust) for trust in (1e9, 1.0))
    assert blind.effective_public_size == 1e9
    assert largest_error(blind, private) > 5 * largest_error(wary, private)


def test_one_column_one_code_one_row():
    released = release(np.zeros((1, 1), int), np.zeros((1, 1), int), [(0,)], (1,), delta=1e-6)
    np.testing.assert_array_equal(released.marginal((0,)), [1.0])


def test_seeded_is_repeatable_and_pickles():
    private, public = population(3000, 0), population(300, 1)
    one = release(private, public, seed=3)
    two = pickle.loads(pickle.dumps(release(private, public, seed=3, n_jobs=2)))
    np.testing.assert_array_equal(one.weights, two.weights)


def test_support_is_public_rows_and_positive():
    public = population(300, 1)
    support = public_support(public, SIZES)
    assert {*map(tuple, public)} <= {*map(tuple, support.rows)}
    assert support.prior.min() > 0
    assert support.prior.sum() == pytest.approx(1)
    assert len(np.unique(cells(support.rows, (0, 1, 2, 3), SIZES))) == len(support.rows)


def test_repeated_marginals_are_measured_once():
    assert check_workload([(1, 0), (0, 1), [2]], SIZES) == ((0, 1), (2,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": []}, "at least one marginal"),
        ({"workload": [(0, 4)]}, "distinct columns"),
        ({"workload": [(0, 0)]}, "distinct columns"),
        ({"sizes": (0, 3, 5, 2)}, "sizes must"),
        ({"sizes": (4, 3, 5, 2, 2)}, "must have shape"),
        ({"sizes": (4, 3, 5, 1)}, "codes from 0"),
        ({"private": np.empty((0, 4), int)}, "at least one row"),
        ({"private": np.ones((5, 4))}, "must hold integers"),
        ({"trust": -1}, "trust must be"),
        ({"trust": "blind"}, "trust must be"),
        ({"sizes": (10**4, 10**4, 5, 2)}, "at most 10000000"),
    ],
)
def test_bad_input(changes, message):
    arguments = {"private": population(100, 0), "public": population(10, 1)} | changes
    with pytest.raises(ValueError, match=message) as error:
        release(**arguments)
    assert "\n" not in str(error.value)


def test_noise_too_loud_for_parts_of_a_row_is_added_to_counts(monkeypatch):
    generator = np.random.default_rng(0)
    private, public = (generator.integers(2, size=(rows, 3)) for rows in (5000, 100))
    arguments = private, public, [(0, 1), (1, 2)], (2, 2, 2)
    assert measured(*arguments)[1][0].sensitivity.squared == 2 * 2 * 256**2
    monkeypatch.setattr("skpublicdp.ledger.LARGEST_SCALE", 1 << 8)
    assert measured(*arguments)[1][0].sensitivity.squared == 2 * 2


def test_trust_may_be_tiny():
    generator = np.random.default_rng(0)
    private, public = (generator.integers(2, size=(rows, 3)) for rows in (5000, 100))
    for trust in (1.0, 5e-324):
        assert numbers(private, public, [(0, 1), (1, 2)], (2, 2, 2), trust=trust) == [3, 2]
