"""One-hot columns: which runs are folded, and which category a row has."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.internals import (
    MAX_CHANCE,
    MISSING,
    NONE,
    OTHER,
    Column,
    OneHotColumn,
    Table,
    build_schema,
    find_one_hot_runs,
    fold_rows,
    folded_schema,
    indicator_states,
    one_hot,
    source_columns,
)


def schema_and_rows(public, bounds=None):
    """Return the schema of a table, its encoded rows, and the positions with bounds."""
    table = Table(public)
    schema = build_schema(table, [table], bounds=bounds, nullable=True)
    bounded = range(table.shape[1]) if bounds else ()
    return schema, schema.encode(table, clamp=False), bounded


def runs_of(public, bounds=None):
    return [tuple(run) for run in find_one_hot_runs(*schema_and_rows(public, bounds))]


def folded_of(public):
    schema, rows, bounded = schema_and_rows(public)
    return folded_schema(schema, rows, find_one_hot_runs(schema, rows, bounded))


def one_hot_of(codes, n_categories):
    return (np.asarray(codes)[:, None] == np.arange(n_categories)).astype(float)


RNG = np.random.default_rng(0)
JOB, KIN = RNG.integers(0, 4, 100), RNG.integers(0, 3, 100)


def test_each_run_is_one_variable():
    age = RNG.normal(size=(100, 1))
    table = np.hstack([age, one_hot_of(JOB, 4), one_hot_of(KIN, 3), age])
    assert runs_of(table) == [(1, 5), (5, 8)]
    # without the first category of each variable
    assert runs_of(np.hstack([one_hot_of(JOB, 4)[:, 1:], one_hot_of(KIN, 3)[:, 1:]])) == [
        (0, 3),
        (3, 5),
    ]


def test_few_columns_remain_although_a_flag_comes_first():
    """The flag excludes the first job by chance, and the jobs exclude each other."""
    jobs = one_hot_of(np.repeat([0, 1, 2, 3], [2, 38, 30, 30]), 4)
    flag = (np.arange(100) % 2 == 1) & (JOB >= 0) & (np.arange(100) > 1)
    assert runs_of(np.column_stack([flag.astype(float), jobs])) == [(1, 5)]


def test_columns_that_are_other_numbers_are_not_folded():
    jobs = one_hot_of(JOB, 4)
    assert runs_of(jobs) == [(0, 4)]
    assert runs_of(2 * jobs) == []
    missing = jobs.copy()
    missing[0, 0] = np.nan
    assert runs_of(missing) == [(1, 4)]
    assert runs_of(jobs, bounds=(0, 1)) == [(0, 4)]
    assert runs_of(jobs, bounds=(0, 5)) == []
    twice = jobs.copy()
    twice[0] = 1, 1, 0, 0
    assert (0, 4) not in runs_of(twice)


def test_text_and_booleans():
    frame = pd.DataFrame(one_hot_of(JOB, 4).astype(bool), columns=[f"job_{i}" for i in range(4)])
    assert runs_of(frame) == [(0, 4)]
    assert runs_of(frame.astype("uint8")) == [(0, 4)]
    assert runs_of(frame.astype(int).astype(str)) == []


def chance_of_disjoint(counts, m):
    """Return the fraction of all placements of ones in which no row has two."""
    subsets = [list(itertools.combinations(range(m), count)) for count in counts]
    placements = list(itertools.product(*subsets))
    disjoint = sum(len({*itertools.chain(*rows)}) == sum(counts) for rows in placements)
    return disjoint / len(placements)


@pytest.mark.parametrize("counts", [(1, 1), (3, 3), (2, 2, 2), (1, 2, 3), (4, 0, 2)])
def test_evidence_is_the_chance_of_disjoint_ones(monkeypatch, counts):
    ends = np.cumsum([0, *counts])
    rows = [(np.arange(6) >= a) & (np.arange(6) < b) for a, b in itertools.pairwise(ends.tolist())]
    bits = [int.from_bytes(np.packbits(row).tobytes()) for row in rows]
    chance = chance_of_disjoint(counts, 6)
    for factor, found in ((1 + 1e-9, True), (1 - 1e-9, False)):
        monkeypatch.setattr(one_hot, "MAX_CHANCE", chance * factor)
        assert (len(counts) in one_hot._stops_of_runs(bits, 6)) == found


def test_rare_columns_are_seldom_folded_by_accident():
    """Independent flags are folded in at most `MAX_CHANCE` of all tables of 30 public rows."""
    n_tables, folded = 800, 0
    for rate in (0.03, 0.1, 0.3):
        flags = np.random.default_rng(1).random((n_tables, 30, 4)) < rate
        folded += sum(bool(runs_of(table.astype(float))) for table in flags)
    # six pairs, four triples and so on: at most six runs of each table are tried
    most = 3 * n_tables * 6 * MAX_CHANCE
    assert folded <= most + 5 * math.sqrt(most)  # false alarms at 1e-6


def test_thirty_rows_show_one_variable_but_not_rare_flags():
    assert runs_of(one_hot_of(np.arange(30) % 3, 3)) == [(0, 3)]
    rare = np.zeros((30, 5))
    rare[range(5), range(5)] = 1
    assert runs_of(rare) == []


def test_columns_without_public_ones_join_a_run_but_not_each_other():
    jobs = one_hot_of(JOB, 6)  # two of them in no public row
    assert runs_of(jobs) == [(0, 6)]
    assert runs_of(np.zeros((100, 5))) == []
    folded = folded_of(jobs).columns[0]
    assert folded.values.tolist() == ["x0", "x1", "x2", "x3", NONE]
    assert folded.category_codes == (0, 1, 2, 3, 5, 5)


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (["job_a", "job_b", "job_c"], "job"),
        (["my job=a x", "my job=a y", "my job=b"], "my job"),
        (["smoker", "sailor"], "smoker, sailor"),
        (["x0", "x1", "x2", "x3", "x4"], "x0, x1, ..., x4"),
    ],
)
def test_names(names, name):
    public = pd.DataFrame(one_hot_of(np.arange(60) % len(names), len(names)), columns=names)
    (column,) = folded_of(public).columns
    assert column.name == name
    assert [source.name for source in source_columns([column])] == names


def test_a_name_of_another_column_is_not_used_twice():
    public = pd.DataFrame(one_hot_of(np.arange(60) % 3, 3), columns=["job_a", "job_b", "job_c"])
    columns = folded_of(public.assign(job=RNG.normal(size=60))).columns
    assert [column.name for column in columns] == ["job_a, job_b, job_c", "job"]


def category_of(row, seen):
    """Return the category of one row, by the words of the class."""
    if None in row:
        return MISSING
    seen_ones = [i for i in range(len(row)) if row[i] and seen[i]]
    if len(seen_ones) == 1:
        return f"x{seen_ones[0]}"
    return OTHER if seen_ones or any(row) else NONE


@pytest.mark.parametrize("booleans", [False, True])
@pytest.mark.parametrize("seen", [(True,) * 3, (True, False, True), (False, True, False)])
def test_every_row_has_one_category(seen, booleans):
    rows = list(itertools.product([0, 1, None], repeat=3))
    values = [np.array(column, dtype=object) for column in zip(*rows, strict=True)]
    if booleans:
        values = [np.array([None if v is None else bool(v) for v in c], object) for c in values]
    else:
        values = [column.astype(float) for column in values]
    domain = np.array([False, True], dtype=object) if booleans else np.array([0.0, 1.0])
    members = tuple(Column(f"x{i}", domain, booleans, nullable=True) for i in range(3))
    names = tuple(column.name for column in members)
    column = one_hot._one_hot_column(members, seen, names)
    codes = column.fold([*map(indicator_states, members, values)])
    assert [column.names[code] for code in codes] == [category_of(row, seen) for row in rows]


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(2, 9))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_category_of_a_row_depends_on_this_row_alone(seed, n, size):
    generator = np.random.default_rng(seed)
    members = tuple(
        Column(f"x{i}", np.array([0.0, 1.0]), False, nullable=True) for i in range(size)
    )
    names = tuple(column.name for column in members)
    seen = generator.random(size) < 0.8
    seen[0] = True
    columns = (one_hot._one_hot_column(members, seen, names),)
    rows = generator.choice([0.0, 1.0, 1.0, -3.0, 7.0, 0.3, np.inf, np.nan], (n, size))
    alone = np.concatenate([fold_rows(columns, row[None]) for row in rows])
    np.testing.assert_array_equal(fold_rows(columns, rows), alone)


def test_rows_of_the_table_and_of_the_fold():
    table = np.hstack([RNG.normal(size=(100, 1)), one_hot_of(JOB, 4), one_hot_of(KIN, 3)])
    schema, rows, _ = schema_and_rows(table)
    folded = folded_of(table)
    assert [type(column) is OneHotColumn for column in folded.columns] == [False, True, True]
    encoded = fold_rows(folded.columns, rows)
    np.testing.assert_array_equal(encoded, np.column_stack([table[:, 0], JOB, KIN]))
    sources = source_columns(folded.columns)
    assert [column.name for column in sources] == [*schema.names]
