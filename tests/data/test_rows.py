"""One contract for every source of rows: the same bits as the array, for every partition."""

import mmap
import os
import pickle
import stat
from collections import UserDict
from itertools import pairwise
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpublicdp.data import streaming
from skpublicdp.data.scratch import scratch_array
from skpublicdp.data.sources.spark_reader import SparkReader
from skpublicdp.data.streaming import Chunk, as_rows, is_streamed, open_rows
from skpublicdp.hypotheses import DecisionTrees, PublicSample
from tests.data.engines import IBIS_BACKENDS, SPARK, ibis_table, named, spark_frame, spark_session

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
duckdb = pytest.importorskip("duckdb")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N = 1000
NAMES = ("age", "hours", "pay", "label")
CUTS = (0, 0, 130, 131, 600, 600, 1000)
"""Where partitions begin; two have no rows."""


def values():
    """Integers that float64 holds and a label; one column differs in every row."""
    rng = np.random.default_rng(0)
    X = rng.integers(-5, 90, size=(N, 4))
    X[:, 2] = rng.permutation(N)
    X[:, 3] = X[:, 0] + rng.integers(0, 40, size=N) > 50
    return X


DATA = values()


def arrow(rows=slice(None)):
    return pa.table(dict(zip(NAMES, DATA[rows].T, strict=True)))


def parts():
    return [arrow(slice(*cut)) for cut in pairwise(CUTS)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 64 rows, which none of the partitions are made of."""
    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 64)
    monkeypatch.setattr(streaming, "MIN_CHUNK_ROWS", 16)


def frame():
    return pd.DataFrame(DATA, columns=NAMES)


def split(whole, label="label"):
    return whole.drop(label), whole[label]


def array(tmp_path):
    return DATA[:, :3], DATA[:, 3]


def memory_map(tmp_path):
    np.save(tmp_path / "rows.npy", DATA)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    return mapped[:, :3], mapped[:, 3]


def pandas_frame(tmp_path):
    return frame().drop(columns="label"), frame()["label"]


def polars_frame(tmp_path):
    whole = pl.from_pandas(frame())
    return whole.drop("label"), whole["label"]


def arrow_table(tmp_path):
    return arrow().drop_columns("label"), arrow()["label"]


def parquet(tmp_path):
    pq.write_table(arrow(), tmp_path / "rows.parquet", row_group_size=70)
    return split(open_rows(tmp_path / "rows.parquet"))


def parquet_files(tmp_path):
    for i, part in enumerate(parts()):
        pq.write_table(part, tmp_path / f"{i}.parquet", row_group_size=90)
    return split(open_rows(str(tmp_path / "*.parquet")))


def parquet_list(tmp_path):
    parquet_files(tmp_path)
    return split(open_rows([tmp_path / f"{i}.parquet" for i in range(len(parts()))]))


def dataset(tmp_path):
    parquet_files(tmp_path)
    opened = open_rows(ds.dataset(tmp_path))
    return opened.drop("label"), arrow()["label"]


def feather(tmp_path):
    ds.write_dataset(
        arrow(), tmp_path, format="feather", max_rows_per_file=300, max_rows_per_group=300
    )
    return split(open_rows(ds.dataset(tmp_path, format="feather")))


def batch_list(tmp_path):
    return split(open_rows([batch for part in parts() for batch in part.to_batches(50)]))


def batch_function(tmp_path):
    return split(open_rows(lambda: (part for part in parts())))


def two_sources(tmp_path):
    pq.write_table(arrow(), tmp_path / "rows.parquet", row_group_size=70)
    return open_rows(tmp_path / "rows.parquet").drop("label"), open_rows(parts())[["label"]]


def duckdb_relation(tmp_path):
    people = arrow()
    return split(open_rows(duckdb.connect().from_arrow(people)))


def duckdb_sql(tmp_path):
    frame().to_csv(tmp_path / "rows.csv", index=False)
    connection = duckdb.connect()
    return split(open_rows(f"from '{tmp_path}/rows.csv'", connection=connection))


def duckdb_and_array(tmp_path):
    connection = duckdb.connect()
    pq.write_table(arrow(), tmp_path / "rows.parquet", row_group_size=70)
    sql = f"select age, hours, pay from '{tmp_path}/rows.parquet'"
    return open_rows(sql, connection=connection), DATA[:, 3]


class Streams:
    """An engine's table with the PyCapsule interface of Arrow: each call is a new stream."""

    def __init__(self, tables):
        self.tables = tables

    def __arrow_c_stream__(self, requested_schema=None):
        return reader_of(self.tables).__arrow_c_stream__(requested_schema)


class Batches(Streams):
    """A table with the method of ibis, whose other one would hold all rows at once."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise MemoryError

    def to_pyarrow_batches(self):
        return reader_of(self.tables)


def reader_of(tables):
    batches = (batch for table in tables for batch in table.to_batches(90))
    return pa.RecordBatchReader.from_batches(tables[0].schema, batches)


def arrow_stream(tmp_path):
    return split(open_rows(Streams(parts())))


def pyarrow_batches(tmp_path):
    return split(open_rows(Batches(parts())))


def ibis_rows(backend, tmp_path):
    return split(open_rows(ibis_table(backend, arrow())))


def spark_rows(tmp_path):
    return split(open_rows(spark_frame(parts())))


def spark_files(tmp_path):
    parquet_files(tmp_path)
    return split(open_rows(spark_session().read.parquet(str(tmp_path))))


def spark_join(tmp_path):
    """A shuffle, whose partitions depend on the sizes of the columns that are read."""
    whole = spark_frame(parts())
    return split(open_rows(whole.join(whole.select("pay").distinct(), "pay").select(*NAMES)))


def lazy(tmp_path):
    return split(open_rows(pl.from_pandas(frame()).lazy()))


def lazy_join(tmp_path):
    one = pl.from_pandas(frame()).lazy()
    return split(open_rows(one.join(one.select("pay"), on="pay", maintain_order="left")))


def dask_parts():
    return dd.from_map(one_part, range(len(CUTS) - 1), meta=frame().iloc[:0])


def one_part(i):
    return parts()[i].to_pandas()


def dask_frame(tmp_path):
    ddf = dask_parts()
    return ddf.drop(columns="label"), ddf["label"]


def dask_parquet(tmp_path):
    """Dask would read several of these files at once where few columns are wanted."""
    for i, part in enumerate(parts()):
        pq.write_table(part, tmp_path / f"{i}.parquet")
    ddf = dd.read_parquet(tmp_path)
    return ddf.drop(columns="label"), ddf["label"]


def dask_columns(tmp_path):
    return split(open_rows(dask_parts()))


def dask_and_array(tmp_path):
    return dask_parts().drop(columns="label"), DATA[:, 3]


def dask_unequal(tmp_path):
    return dask_parts().drop(columns="label"), dd.from_pandas(frame(), npartitions=3)["label"]


def dask_array(tmp_path):
    whole = da.from_array(DATA, chunks=(170, 2))
    return whole[:, :3], whole[:, 3]


def dask_unknown(tmp_path):
    whole = dask_parts().values
    return whole[:, :3], whole[:, 3]


IBIS = [named(ibis_rows, f"ibis_{backend}", backend) for backend in IBIS_BACKENDS]
HERE = [
    *(array, memory_map, pandas_frame, polars_frame, arrow_table),
    *(parquet, parquet_files, parquet_list, dataset, feather, batch_list, batch_function),
    *(two_sources, duckdb_relation, duckdb_sql, duckdb_and_array, lazy, lazy_join),
    *(arrow_stream, pyarrow_batches, *IBIS),
]
DASK = [
    dask_frame,
    dask_parquet,
    dask_columns,
    dask_and_array,
    dask_unequal,
    dask_array,
    dask_unknown,
]
SPARKS = [spark_rows, spark_files, spark_join] if SPARK else []
UNORDERED = {lazy_join, arrow_stream, pyarrow_batches, *IBIS, *SPARKS}


@pytest.fixture(params=[*HERE, *DASK, *SPARKS], ids=lambda make: make.__name__)
def make(request):
    return request.param


@pytest.fixture
def labelled(make, tmp_path, request):
    if make in DASK:
        request.getfixturevalue("cluster")
    return as_rows(*make(tmp_path))


def numbers(table):
    """Any table as an array."""
    return (
        table
        if isinstance(table, np.ndarray)
        else np.asarray(table.to_pandas() if isinstance(table, pa.Table | pl.DataFrame) else table)
    )


COVER = DecisionTrees(max_depth=2).build_cover(
    PublicSample(DATA[:80, :3].astype(float), np.array([0, 1]), NAMES[:3]), alpha=0.2, beta=0.1
)


class Tables:
    """Tables of trees and counts; a class, so that Dask can send it to its workers."""

    def __init__(self, cover):
        self.cover = cover

    def __call__(self, chunk):
        X, y = numbers(chunk.X), np.asarray(chunk.y).astype(np.int64)
        trees = self.cover.tabulate(X.astype(float), y, np.ones(len(y), np.int64))
        ages = np.bincount(X[:, 0] + 5, minlength=100).astype(np.uint16)
        return trees, ages, np.bincount(y, minlength=2)


def columns_of(chunk):
    return np.column_stack([numbers(chunk.X), np.asarray(chunk.y)]), chunk.start


def whole(rows, **options):
    """Put the rows together again by their positions, which Spark does not promise."""
    found = np.zeros((rows.n_rows, rows.n_columns + 1), dtype=np.int64)
    stop = 0
    for part, start in rows.map(columns_of, **options):
        start, stop = (stop if is_spark(rows) else start), stop + len(part)
        found[start : start + len(part)] += part
    return found


def is_spark(rows):
    return isinstance(rows._reader, SparkReader)


def assert_same_rows(rows, found, expected):
    """The same rows, in the order of the array but for Spark, which promises none."""
    tables = [table.reshape(len(table), -1) for table in (found, expected)]
    if is_spark(rows):
        tables = [table[np.lexsort(table.T)] for table in tables]
    np.testing.assert_array_equal(*tables)


def test_a_fold_is_that_of_the_array(make, labelled):
    tables = Tables(COVER)
    expected = tables(Chunk(DATA[:, :3], DATA[:, 3], 0))
    for n_jobs in (1, 1) if make in DASK + SPARKS else (1, 1, 3):
        found = labelled.fold(tables, n_jobs=n_jobs)
        assert all(table.dtype == np.int64 for table in found)
        for table, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(table, right)


def test_chunks_are_all_rows_in_their_order_with_their_labels(labelled):
    assert_same_rows(labelled, whole(labelled, n_jobs=2), DATA)
    starts = [start for _, start in labelled.map(columns_of)]
    assert starts == sorted(starts) or is_spark(labelled)


def test_rows_and_their_columns_are_counted(make, labelled):
    arrays = {array, memory_map, dask_array}
    assert (labelled.n_rows, labelled.n_columns) == (N, 3)
    if make is not dask_unknown:
        assert labelled.names == (None if make in arrays else NAMES[:3])


def test_empty_rows_have_the_kinds_of_the_rows(labelled):
    empty, labels = labelled.empty(), labelled.empty_labels()
    assert empty.shape == (0, 3)
    assert len(labels) == 0
    part = next(labelled.map(same))
    assert type(part.X) is type(empty) or isinstance(part.X, np.ndarray)
    assert numbers(empty).dtype.kind == numbers(part.X).dtype.kind == "i"


def same(chunk):
    return chunk


def test_labels_are_those_of_the_array(labelled):
    labels = np.concatenate(list(labelled.map_labels(np.asarray)))
    assert_same_rows(labelled, labels, DATA[:, 3])


def test_only_the_wanted_columns_reach_the_chunk_in_the_wanted_order(labelled):
    for columns in [(2, 0), ("pay", "age"), (1,)]:
        if isinstance(columns[0], str) and labelled.names is None:
            continue
        where = [c if isinstance(c, int) else NAMES.index(c) for c in columns]
        table = np.vstack([numbers(c.X) for c in labelled.map(same, columns=columns)])
        assert_same_rows(labelled, table, DATA[:, where])


def test_rows_are_taken_by_position(make, labelled):
    positions = np.array([999, 3, 131, 3, 0, 600, 129])
    if make in UNORDERED:
        with pytest.raises(ValueError, match="Positions require rows in a fixed order"):
            labelled.take(positions)
        return
    taken = labelled.take_chunk(positions)
    found = np.column_stack([numbers(taken.X), np.asarray(taken.y)])
    np.testing.assert_array_equal(found, DATA[positions])
    np.testing.assert_array_equal(
        numbers(labelled.take(positions, columns=[2])), DATA[positions, 2:3]
    )
    assert labelled.take([]).shape == (0, 3)
    with pytest.raises(IndexError, match=f"from 0 to {N - 1}"):
        labelled.take([N])


def test_an_abandoned_pass_leaves_the_source_usable(labelled):
    passes = labelled.map(columns_of, n_jobs=2)
    next(passes)
    passes.close()
    assert_same_rows(labelled, whole(labelled), DATA)


def test_a_dropped_column_is_neither_read_nor_named(tmp_path):
    rows = as_rows(*parquet(tmp_path))
    fewer = rows.drop("hours")
    assert fewer.names == ("age", "pay")
    np.testing.assert_array_equal(whole(fewer), DATA[:, [0, 2, 3]])
    assert fewer[["pay"]].names == ("pay",)
    with pytest.raises(KeyError, match="'hours'"):
        fewer["hours"]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.integers(1, 50), st.integers(1, 4))
def test_every_partition_gives_the_same_chunks(heights, rows, n_jobs):
    bounds = np.cumsum([0, *heights])
    total = int(bounds[-1])
    batches = [arrow(slice(*cut)) for cut in pairwise(bounds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "rows_per_chunk", lambda columns: rows)
        chunks = list(as_rows(batches).map(same, n_jobs=n_jobs))
    assert [c.X.num_rows for c in chunks[:-1]] == [rows] * (len(chunks) - 1)
    assert [c.start for c in chunks] == list(range(0, max(total, 1), rows))
    np.testing.assert_array_equal(np.vstack([numbers(c.X) for c in chunks]), DATA[:total])


@pytest.mark.parametrize(
    "none",
    [
        lambda: np.empty((0, 3)),
        lambda: [arrow(slice(0, 0))],
        lambda: dask_parts().partitions[0],
        lambda: duckdb.connect().from_arrow(arrow(slice(0, 0))),
        lambda: Streams([arrow(slice(0, 0))]),
    ],
)
def test_without_rows_one_empty_chunk_gives_the_shape_of_the_table(none):
    rows = as_rows(none())
    assert rows.n_rows == 0
    np.testing.assert_array_equal(rows.fold(height), [0])


def height(chunk):
    return np.array([chunk.X.shape[0]])


def test_dask_needs_no_cluster_and_large_partitions_are_cut(monkeypatch):
    from skpublicdp.data.sources import dask_reader

    monkeypatch.setattr(dask_reader, "rows_per_chunk", lambda columns: 100)
    with dask_scheduler("threads"):
        rows = as_rows(dask_parts().drop(columns="label"), DATA[:, 3])
        np.testing.assert_array_equal(whole(rows), DATA)
        heights = list(rows.map(height))
        assert max(heights) == 100
        np.testing.assert_array_equal(rows.fold(height), [N])


def dask_scheduler(name):
    return dask.config.set(scheduler=name)


def process(chunk):
    return os.getpid()


@pytest.mark.parametrize("make_dask", [make for make in DASK if make is not dask_unequal])
def test_dask_works_where_the_rows_are(make_dask, cluster, tmp_path):
    rows = as_rows(*make_dask(tmp_path))
    assert os.getpid() not in set(rows.map(process))
    assert os.getpid() not in {*rows.fold(first_process)}


def first_process(chunk):
    """A table whose sum tells the process only if there is one chunk."""
    return np.array([os.getpid() if chunk.start == 0 else 0])


LOADED = []


def loaded(i, *shared):
    LOADED.append(i)
    return one_part(i)


def one_label(i):
    return one_part(i)["label"]


def test_each_partition_is_computed_once_in_a_pass():
    """Rows and labels together, and what several partitions are made of once, too."""
    meta = frame().iloc[:0]
    alone = dd.from_map(loaded, range(len(CUTS) - 1), meta=meta)
    common = dask.delayed(loaded, pure=False)(0)
    parts = [dask.delayed(loaded)(i, common) for i in range(len(CUTS) - 1)]
    with dask_scheduler("sync"):
        for ddf, more in ((alone, 0), (dd.from_delayed(parts, meta=meta, verify_meta=False), 1)):
            # one task for rows and labels: else Dask reads columns by themselves
            rows = as_rows(ddf.map_partitions(pd.DataFrame.copy, meta=meta))
            labelled = split(rows)
            assert labelled[0].n_rows == N
            LOADED.clear()
            np.testing.assert_array_equal(whole(as_rows(*labelled)), DATA)
            full = [i for i in range(len(CUTS) - 1) if len(one_part(i))]
            assert sorted(LOADED) == sorted(full + [0] * more)


def test_rows_and_labels_are_counted_together_and_labels_read_no_rows():
    meta = frame().iloc[:0]
    ddf = dd.from_map(loaded, range(len(CUTS) - 1), meta=meta)
    y = dd.from_map(one_label, range(len(CUTS) - 1), meta=meta["label"])
    tasks = []

    def scheduler(graph, keys, **options):
        tasks.extend(keys)
        return dask.get(graph, keys)

    LOADED.clear()
    with dask_scheduler(scheduler):
        rows = as_rows(ddf.map_partitions(pd.DataFrame.copy, meta=meta), y)
        assert rows.n_rows == rows._labels.n_rows == N
        assert len(tasks) == len(LOADED) == len(CUTS) - 1
        list(rows.map_labels(np.asarray))
        assert len(LOADED) == len(CUTS) - 1


class Graph(UserDict):
    """A graph that counts how often all its keys are asked for."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()


def test_graphs_of_many_partitions_are_walked_once():
    graph = Graph({("part", i): (one_part, i) for i in range(1000)})
    parts = [SimpleNamespace(dask=graph, key=key) for key in graph]
    graph.walks = 0
    alone = as_rows(dask_frame(None)[0])._reader._embed_graphs(parts)
    assert [part.graph for part in alone] == [{key: graph[key]} for key in graph.data]
    assert graph.walks <= 2


@pytest.mark.parametrize("make_dask", [dask_frame, dask_array])
def test_what_workers_hold_is_not_computed_anew(make_dask, cluster):
    X, y = make_dask(None)
    held = X.persist(), y.persist()
    asked, apart = (as_rows(rows)._reader._partitions([0]) for rows in (X, held[0]))
    assert isinstance(apart[0], type(dask.delayed(0)).__base__)
    # one array of which all are cut is work that they share
    assert (type(asked[0]) is type(apart[0])) == (make_dask is dask_array)
    np.testing.assert_array_equal(whole(as_rows(*held)), DATA)


def test_rows_in_memory_are_not_copied():
    X = np.asfortranarray(DATA.astype(np.float32))
    for part in as_rows(X, X[:, 3]).map(same):
        assert part.X.dtype == np.float32
        assert np.shares_memory(part.X, X)
        assert np.shares_memory(part.y, X)


def test_a_memory_map_stays_one(tmp_path):
    for part in as_rows(*memory_map(tmp_path)).map(same):
        assert isinstance(part.X, np.memmap)


def test_few_chunks_wait_at_once():
    begun = []

    def batches():
        for part in [arrow(slice(i, i + 64)) for i in range(0, 960, 64)]:
            begun.append(part)
            yield part

    rows = as_rows(batches)
    assert rows.n_rows == 960
    begun.clear()
    passes = rows.map(same, n_jobs=2)
    next(passes)
    assert len(begun) <= 4
    passes.close()


def test_streamed_containers_are_recognised(tmp_path):
    streamed = [
        *(parquet(tmp_path)[0], parquet(tmp_path)[1], ds.dataset(tmp_path), parts(), parts),
        *(duckdb.connect().from_arrow(arrow()), dask_parts(), dask_parts()["age"]),
        *(da.ones((3, 2)), pl.LazyFrame({"a": [1]}), Streams(parts()), Batches(parts())),
    ]
    assert all(map(is_streamed, streamed))
    tables = [DATA, frame(), arrow(), pl.from_pandas(frame()), [[1, 2]], None, frame()["age"]]
    assert not any(map(is_streamed, tables))


def test_stored_dictionaries_declare_nothing(tmp_path):
    """A dictionary that a file or a partition holds lists values of its rows."""
    words = pa.table({"job": pa.array(["a", "b", "a"]).dictionary_encode()})
    pq.write_table(words, tmp_path / "w.parquet")
    column = pd.Series(["a", "b", "a"], dtype="category").to_frame("job")
    unknown = dd.from_pandas(column, npartitions=1)
    unknown["job"] = unknown["job"].cat.as_unknown()
    for rows in (open_rows(tmp_path / "w.parquet"), as_rows([words])):
        (part,) = rows.map(same)
        assert rows.empty().schema.field("job").type == pa.string()
        assert part.X["job"].to_pylist() == ["a", "b", "a"]
        assert part.X.schema == rows.empty().schema
    with dask_scheduler("sync"):
        (part,) = as_rows(unknown).map(same)
    assert part.X["job"].dtype == as_rows(unknown).empty()["job"].dtype == object


def viewed(words):
    """Text as views, which old pyarrow makes but cannot convert."""
    try:
        return words.cast(pa.string_view())
    except pa.ArrowNotImplementedError:
        return words


def test_streams_have_the_types_of_their_values():
    """Dictionaries declare nothing, and the types of text are one."""
    rng = np.random.default_rng(1)
    words = pa.array(["a", "b", None, "a"])
    given = pa.table(
        {
            "coded": words.dictionary_encode(),
            "large": words.cast(pa.large_string()),
            "small": pa.array([1, None, 3, 4], pa.int8()),
            "price": pa.array([1, 2, None, 4], pa.decimal128(9, 2)),
            "yes": pa.array([True, None, False, True]),
            "day": pa.array(rng.integers(0, 9999, 4), pa.int32()).cast(pa.date32()),
            "at": pa.array(rng.integers(0, 9999, 4), pa.timestamp("us", "UTC")),
        }
    )
    given = given.add_column(1, "viewed", viewed(words))
    more = given.set_column(0, "coded", pa.array(["z"] * 4).dictionary_encode())
    for make in (Streams, Batches):
        rows = as_rows(make([given, more]))
        (part,) = rows.map(same)
        assert part.X.schema == rows.empty().schema
        assert part.X.schema.types[:3] == [pa.string()] * 3
        assert part.X.schema.types[3:] == given.schema.types[3:]
        expected = [*given.to_pylist(), *more.to_pylist()]
        assert part.X.to_pylist() == expected
        (few,) = rows.map(same, columns=["at", "coded"])
        assert few.X.to_pylist() == [{"at": r["at"], "coded": r["coded"]} for r in expected]


def test_declared_categories_stay_declared():
    known = dd.from_pandas(
        pd.DataFrame({"job": pd.Categorical(["a", "b"], ["a", "b", "c"])}), npartitions=1
    )
    assert list(as_rows(known).empty()["job"].cat.categories) == ["a", "b", "c"]
    con = duckdb.connect()
    con.sql("create table t as select 'a'::enum('a', 'b', 'c') as job")
    (part,) = as_rows(con.table("t")).map(same)
    assert part.X["job"].chunk(0).dictionary.to_pylist() == ["a", "b", "c"]


def test_duckdb_reads_what_its_columns_are_called():
    odd = pa.table({'a "b", c': [1, 2], "select": [3, 4]})
    rows = as_rows(duckdb.connect().from_arrow(odd))
    assert rows.take([1], columns=['a "b", c']).to_pydict() == {'a "b", c': [2]}


@pytest.mark.parametrize(
    "sql",
    [
        "select a.range as x from range(9) a join range(9) b on a.range = b.range",
        "select range % 3 as x, count(*) as n from range(9) group by x",
        "select range as x from range(9) order by x % 2",
        "select distinct range as x from range(9)",
        "select range as x from range(9) using sample 50%",
    ],
)
def test_queries_without_a_promised_order_have_no_positions(sql):
    rows = open_rows(sql, connection=duckdb.connect())
    assert not rows.ordered
    for use in (lambda: rows.take([0]), lambda: as_rows(rows, np.zeros(9))):
        with pytest.raises(ValueError, match="fixed order, but the DuckDB relation"):
            use()


def test_duckdb_may_be_told_to_keep_no_order():
    con = duckdb.connect()
    assert open_rows("select range as x from range(9) where range > 3", connection=con).ordered
    con.sql("set preserve_insertion_order = false")
    assert not open_rows("select range as x from range(9)", connection=con).ordered


def test_two_queries_are_not_put_side_by_side():
    relation = duckdb.connect().from_arrow(arrow())
    with pytest.raises(ValueError, match=r"Use rows = open_rows\(relation\)"):
        as_rows(relation.project("age"), relation.project("label"))


@pytest.mark.parametrize("y", [DATA[1:, 3], parts()[-1].select(["label"])])
def test_rows_and_labels_are_equally_many(y):
    with pytest.raises(ValueError, match=f"the same number of rows; got {N} and"):
        as_rows(parts(), y)


def test_folds_add_integers_alone():
    with pytest.raises(TypeError, match="integers"):
        as_rows(DATA).fold(lambda chunk: chunk.X.mean(axis=0))


def test_a_hive_directory_has_the_columns_of_its_folders(tmp_path):
    whole = arrow().append_column("year", pa.array(np.arange(N) // 500))
    ds.write_dataset(
        whole, tmp_path, format="parquet", partitioning=["year"], partitioning_flavor="hive"
    )
    rows = open_rows(tmp_path)
    assert set(rows.names) == {*NAMES, "year"}
    np.testing.assert_array_equal(
        np.sort(numbers(rows.take(range(N), columns=["pay"])), 0)[:, 0], range(N)
    )


def test_neither_shows_rows():
    rows = as_rows(DATA, DATA[:, 3])
    (part, *_) = rows.map(same)
    assert repr(rows) == "<rows of a table in memory: 4 columns>"
    assert "array" not in repr(part) + repr(rows._labels)


@pytest.mark.parametrize("limit", [0, 2**20])
def test_a_scratch_array_is_writable_zeros(limit):
    codes = scratch_array((7, 3), np.uint16, limit=limit)
    assert codes.shape == (7, 3)
    assert codes.dtype == np.uint16
    assert not codes.any()
    codes[3] = 9
    assert codes.sum() == 27
    assert isinstance(pickle.loads(pickle.dumps(codes)), np.ndarray)
    (total,) = joblib.Parallel(n_jobs=2)([joblib.delayed(np.sum)(codes)])
    assert total == 27


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="lists open files by /proc")
def test_a_large_scratch_array_has_no_name_and_one_reader(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = []

    def mapped(descriptor, size, inner=mmap.mmap):
        made.append(os.fstat(descriptor))
        return inner(descriptor, size)

    monkeypatch.setattr(mmap, "mmap", mapped)
    codes = scratch_array((100, 100), np.uint8, limit=0)
    codes[:] = 1
    (status,) = made
    assert status.st_nlink == 0
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_blocks * 512 >= codes.nbytes
    assert os.listdir(tmp_path) == []


def test_a_scratch_array_reserves_its_space_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OSError, match="Set the environment variable TMPDIR"):
        scratch_array((2**30, 2**30), np.uint8)
