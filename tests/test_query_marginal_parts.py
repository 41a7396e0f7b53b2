"""Parted tables: sensitivity by brute force, additivity, no bias, and who does not part."""

import itertools

import numpy as np
import pytest

from skpublicdp.ledger import Ledger
from skpublicdp.query_release import marginal_parts, marginals
from skpublicdp.query_release.marginal_fit import Explained
from skpublicdp.query_release.marginal_parts import (
    MOST_WORTH,
    UNIT,
    parted_incidence,
    parted_tables,
    row_parts,
    worth_of_cells,
)
from skpublicdp.query_release.marginal_tables import incidence, marginal_tables
from skpublicdp.query_release.marginals import release_marginals
from tests.kit import Tape

SIZES = (2, 3, 2)
EVERY_ROW = np.array(list(itertools.product(*map(range, SIZES))))
PAIRS = ((0, 1), (0, 2), (1, 2))


def rows_of(n_rows, seed):
    generator = np.random.default_rng(seed)
    first = generator.choice(2, n_rows, p=[0.9, 0.1])
    return np.stack([first, generator.binomial(2, 0.2 + 0.3 * first), 1 - first], axis=1)


def worths(kind, workload, placed, generator):
    size = placed.matrix.shape[0]
    if kind == "equal":
        return np.full(size, 3)
    if kind == "any":
        return generator.integers(1, MOST_WORTH + 1, size)
    if kind == "far apart":
        return np.where(generator.random(size) < 0.5, 1, MOST_WORTH)
    return worth_of_cells(placed, workload, np.full(placed.matrix.shape[1], 0.1), 0.01)


@pytest.mark.parametrize("support", [EVERY_ROW, EVERY_ROW[[0, 3, 7, 8]]])
@pytest.mark.parametrize("kind", ["equal", "any", "far apart", "rule"])
@pytest.mark.parametrize("workload", [PAIRS, ((0, 1),), ((0, 1, 2), (1, 2))])
def test_sensitivity_over_all_neighbours(workload, kind, support):
    placed = incidence(support, workload, SIZES)
    generator = np.random.default_rng(0)
    bound = len(workload) * UNIT**2
    longest = 0
    for _ in range(1 if kind in ("equal", "rule") else 20):
        worth = worths(kind, workload, placed, generator)
        added = [
            np.concatenate(parted_tables(row[None], workload, SIZES, placed, worth))
            for row in EVERY_ROW
        ]
        assert min(part.min() for part in added) >= 0
        assert max(np.sum(part**2) for part in added) <= bound
        for old, new in itertools.product(added, repeat=2):
            longest = max(longest, np.sum((old - new) ** 2))
            assert np.sum(np.abs(old - new)) <= 2 * len(workload) * UNIT
        assert longest <= 2 * bound
        rest = EVERY_ROW[[0, 5, 5]]
        common = np.concatenate(parted_tables(rest, workload, SIZES, placed, worth))
        for row, part in zip(EVERY_ROW, added, strict=True):
            whole = parted_tables(np.array([*rest, row]), workload, SIZES, placed, worth)
            np.testing.assert_array_equal(np.concatenate(whole), common + part)
    assert longest > 0.98 * 2 * bound  # nothing much is left unused


def test_parts_never_exceed_their_share():
    """The floor keeps the bound for any worths, in integers of any length."""
    generator = np.random.default_rng(0)
    for n_marginals in (1, 2, 3, 7, 64, 5000):
        worth = generator.integers(1, MOST_WORTH + 1, (200, n_marginals))
        worth[:100] = np.where(generator.random((100, n_marginals)) < 0.5, 1, MOST_WORTH)
        worth[0] = 1
        total = worth.sum(axis=1)
        parts = [row_parts(worth[:, each], total, n_marginals) for each in range(n_marginals)]
        squares = np.sum(np.array(parts, dtype=np.int64) ** 2, axis=0)
        assert squares.max() == n_marginals * UNIT**2  # equal worths leave nothing unused
        assert squares[0] == squares.max()
    assert row_parts(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 3) == [0]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_parted_tables_add(n_jobs, monkeypatch):
    rows = rows_of(500, 0)
    placed = incidence(rows_of(60, 1), PAIRS, SIZES)
    worth = np.random.default_rng(0).integers(1, MOST_WORTH, placed.matrix.shape[0])
    tables = parted_tables(rows, PAIRS, SIZES, placed, worth, n_jobs)
    halves = [parted_tables(part, PAIRS, SIZES, placed, worth) for part in (rows[:123], rows[123:])]
    monkeypatch.setattr(marginal_parts, "CHUNK_ROWS", 7)
    chunked = parted_tables(rows, PAIRS, SIZES, placed, worth, n_jobs)
    for table, same, one, two in zip(tables, chunked, *halves, strict=True):
        assert table.dtype == np.int64
        np.testing.assert_array_equal(table, same)
        np.testing.assert_array_equal(table, one + two)


def test_support_rows_add_what_private_rows_add():
    placed = incidence(EVERY_ROW, PAIRS, SIZES)
    worth = np.random.default_rng(0).integers(1, MOST_WORTH, placed.matrix.shape[0])
    matrix = parted_incidence(placed, worth)
    for index, row in enumerate(EVERY_ROW):
        added = np.concatenate(parted_tables(row[None], PAIRS, SIZES, placed, worth))
        np.testing.assert_array_equal(matrix[:, [index]].toarray().ravel() * UNIT, added)


def test_equal_worths_count():
    rows = rows_of(300, 0)
    placed = incidence(EVERY_ROW, PAIRS, SIZES)
    parted = parted_tables(rows, PAIRS, SIZES, placed, np.ones(placed.matrix.shape[0], int))
    for table, count in zip(parted, marginal_tables(rows, PAIRS, SIZES), strict=True):
        np.testing.assert_array_equal(table, UNIT * count)


def test_light_and_repeated_cells_are_worth_less():
    placed = incidence(EVERY_ROW, [(0, 1), (1, 2)], SIZES)
    prior = np.where(EVERY_ROW[:, 0] == 0, 0.3, 1e-3)
    prior = np.where(EVERY_ROW[:, 1] == 2, 1e-3, prior)
    prior /= prior.sum()
    loud, quiet = (
        worth_of_cells(placed, [(0, 1), (1, 2)], prior, known) / MOST_WORTH for known in (0.2, 0.0)
    )
    fractions = placed.matrix @ prior
    assert loud[fractions < 0.01].max() < 0.3 * loud[fractions > 0.2].min()
    assert quiet[fractions < 0.01].min() > quiet[fractions > 0.2].max()
    alone = worth_of_cells(incidence(EVERY_ROW, [(0, 1)], SIZES), [(0, 1)], prior, 0.2)
    np.testing.assert_allclose(alone / MOST_WORTH, np.sqrt(2) * loud[: len(alone)], atol=1e-5)


def released_answers(monkeypatch, private, public, seed, *, delta=1e-6, **parameters):
    """Return the noisy joint answers of a release, its support and the unit of what was added."""
    answers = []

    def note(prior, near, far, *others):
        answers.append(far)
        return Explained(prior, 1.0, False, True)

    monkeypatch.setattr(marginals, "explain", note)
    ledger = Ledger(1.0, delta, seed)
    with Tape() as tape:
        released = release_marginals(private, public, SIZES, PAIRS, ledger=ledger, **parameters)
    last = tape.uses[-1]
    return answers[0], released.support, last.sensitivity.squared / (2 * len(PAIRS)), last.spread


def test_noisy_sums_are_unbiased_and_spread_as_told(monkeypatch):
    private, public = rows_of(1000, 0), EVERY_ROW
    every = [
        released_answers(monkeypatch, private, public, seed, trust=50.0) for seed in range(200)
    ]
    far, support, squared_unit, sigma2 = every[0]
    assert squared_unit == UNIT**2
    place = {tuple(row): index for index, row in enumerate(support)}
    fractions = np.bincount([place[tuple(row)] for row in private], minlength=len(place)) / 1000
    gaps = np.array([each.values for each, *_ in every]) - far.matrix @ fractions
    assert np.abs(gaps.mean(axis=0)).max() < 4 * np.sqrt(far.variance / 200)
    np.testing.assert_allclose((gaps**2).mean(), far.variance, rtol=0.1)
    assert far.matrix.power(2).sum(axis=0).max() <= len(PAIRS)
    np.testing.assert_allclose(far.variance * 1000**2, float(sigma2) / UNIT**2, rtol=1e-3)


@pytest.mark.parametrize(("delta", "with_public"), [(0, True), (0, False), (1e-6, False)])
def test_pure_noise_and_no_public_rows_count(monkeypatch, delta, with_public):
    private = rows_of(2000, 0)
    far, _, squared_unit, _ = released_answers(
        monkeypatch, private, rows_of(200, 1) if with_public else None, 0, delta=delta
    )
    assert squared_unit == 1
    assert set(far.matrix.data) == {1.0}
    np.testing.assert_allclose(far.values * 2000, np.rint(far.values * 2000), atol=1e-9)


def test_doubtful_public_rows_do_not_make_cells_light(monkeypatch):
    private, public = rows_of(2000, 0), rows_of(2000, 1)
    blind, wary = (
        released_answers(monkeypatch, private, public, 0, trust=trust)[0] for trust in (1e9, 1.0)
    )
    assert blind.matrix.data.min() < 0.4  # parts, where counts would be 1
    assert wary.matrix.data.min() > 0.6
