"""One contract for every container: the rows, models and predictions of the array or the frame."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, r2_score

from skpublicdp.data import open_rows
from skpublicdp.exceptions import ReadError
from tests.data import models
from tests.data.containers import (
    CONTAINERS,
    DATA,
    IN_MEMORY,
    LABELLED,
    NAMES,
    PARTS,
    TABLE,
    UNORDERED,
    EngineTable,
    N,
    Stream,
    cut,
    da,
    dask_frame,
    dataset,
    dd,
    ds,
    duckdb,
    numbers,
    pa,
    parquet,
    pd,
    pick,
    pl,
    pq,
    relation,
    same,
    split,
)
from tests.data.internals import Chunk, as_rows, is_streamed, streaming
from tests.data.models import FITS, FRAME, bits, expected, fit, fitted, trained, unfitted

pytestmark = [
    pytest.mark.usefixtures("small_chunks"),
    # one job has no public row
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
]


@pytest.fixture(params=LABELLED)
def name(request):
    return request.param


@pytest.fixture
def rows(name, tmp_path):
    """Rows with labels, in each container."""
    return as_rows(*LABELLED[name](tmp_path))


def counts(chunk):
    """Tables of a chunk, one of them of a narrow type."""
    X, y = numbers(chunk.X), np.asarray(chunk.y).astype(np.int64)
    ages = np.bincount(X[:, 0] + 5, minlength=100).astype(np.uint16)
    return ages, np.bincount(y, minlength=2), (X * (1 + y[:, None])).sum(axis=0)


def columns_of(chunk):
    return np.column_stack([numbers(chunk.X), np.asarray(chunk.y)]), chunk.start


def put_together(rows, **options):
    """Put rows in their positions; Spark begins anew in each of its partitions."""
    found, stop = np.zeros((rows.n_rows, rows.n_columns + 1), dtype=np.int64), 0
    for part, start in rows.map(columns_of, **options):
        assert start == stop or "Spark" in repr(rows)
        start, stop = stop, stop + len(part)
        found[start:stop] = part
    assert stop == len(found)
    return found


def assert_same_rows(name, found, expected):
    """The same rows, in the order of the array where the container promises one."""
    tables = [table.reshape(len(table), -1) for table in (found, expected)]
    if name in UNORDERED:
        tables = [table[np.lexsort(table.T)] for table in tables]
    np.testing.assert_array_equal(*tables)


# Rows


def test_every_pass_has_all_rows_with_their_labels(name, rows):
    assert (rows.n_rows, rows.n_columns) == (N, 3)
    if name != "dask_unknown":
        assert rows.names == (None if name in ("array", "memory_map", "dask_array") else NAMES[:3])
    assert rows.ordered == (name not in UNORDERED)
    of_array = counts(Chunk(DATA[:, :3], DATA[:, 3], 0))
    # workers use one job
    for n_jobs in (1,) if name.startswith(("dask", "spark")) else (1, 3):
        for table, right in zip(rows.fold(counts, n_jobs=n_jobs), of_array, strict=True):
            assert table.dtype == np.int64
            np.testing.assert_array_equal(table, right)
    abandoned = rows.map(columns_of, n_jobs=2)
    next(abandoned)
    abandoned.close()
    assert_same_rows(name, put_together(rows, n_jobs=2), DATA)
    assert_same_rows(name, np.concatenate(list(rows.map_labels(np.asarray))), DATA[:, 3])


def test_only_the_wanted_columns_reach_a_chunk_in_the_wanted_order(name, rows):
    for columns in [(2, 0), *([] if rows.names is None else [("pay", "age")]), (1,)]:
        positions = [c if isinstance(c, int) else NAMES.index(c) for c in columns]
        found = np.vstack([numbers(chunk.X) for chunk in rows.map(same, columns=columns)])
        assert_same_rows(name, found, DATA[:, positions])
    empty, part = rows.empty(), next(rows.map(same))
    assert empty.shape == (0, 3)
    assert len(rows.empty_labels()) == 0
    assert type(part.X) is type(empty) or isinstance(part.X, np.ndarray)
    assert numbers(empty).dtype.kind == numbers(part.X).dtype.kind == "i"


def test_rows_are_taken_by_position(name, rows):
    positions = np.array([N - 1, 3, 51, 3, 0, 240, 49])
    if name in UNORDERED:
        with pytest.raises(ValueError, match="Positions"):
            rows.take(positions)
        return
    taken = rows.take_chunk(positions)
    found = np.column_stack([numbers(taken.X), np.asarray(taken.y)])
    np.testing.assert_array_equal(found, DATA[positions])
    np.testing.assert_array_equal(numbers(rows.take(positions, columns=[2])), DATA[positions, 2:3])
    assert rows.take([]).shape == (0, 3)
    with pytest.raises(IndexError):
        rows.take([N])


@pytest.mark.parametrize("name", ["pandas", "polars", "arrow", "batches", "dask", "duckdb", "lazy"])
def test_without_rows_one_empty_chunk_gives_the_shape_of_the_table(name):
    rows = as_rows(CONTAINERS[name]([TABLE.slice(0, 0)], None))
    assert rows.n_rows == 0
    np.testing.assert_array_equal(rows.fold(lambda chunk: np.array(chunk.X.shape)), [0, 4])


@settings(max_examples=20)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.integers(1, 50), st.integers(1, 4))
def test_every_partition_gives_the_same_chunks(heights, size, n_jobs):
    bounds = [int(bound) for bound in np.cumsum([0, *heights])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "rows_per_chunk", lambda columns: size)
        chunks = list(as_rows(cut(TABLE, bounds)).map(same, n_jobs=n_jobs))
    assert [c.X.num_rows for c in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert [c.start for c in chunks] == list(range(0, max(bounds[-1], 1), size))
    np.testing.assert_array_equal(np.vstack([numbers(c.X) for c in chunks]), DATA[: bounds[-1]])


def test_a_dropped_column_is_neither_read_nor_named(tmp_path):
    rows = as_rows(*LABELLED["parquet"](tmp_path)).drop("hours")
    assert rows.names == ("age", "pay")
    np.testing.assert_array_equal(put_together(rows), DATA[:, [0, 2, 3]])
    assert rows[["pay"]].names == ("pay",)
    with pytest.raises(KeyError, match="hours"):
        rows["hours"]


def test_rows_in_memory_are_not_copied(tmp_path):
    X = np.asfortranarray(DATA.astype(np.float32))
    for part in as_rows(X, X[:, 3]).map(same):
        assert part.X.dtype == np.float32
        assert np.shares_memory(part.X, X)
        assert np.shares_memory(part.y, X)
    for part in as_rows(*LABELLED["memory_map"](tmp_path)).map(same):
        assert isinstance(part.X, np.memmap)


def test_few_chunks_wait_at_once(monkeypatch):
    begun = []

    def batches():
        for part in cut(TABLE, range(0, N + 1, 16)):
            begun.append(part)
            yield part

    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 16)
    rows = as_rows(batches)
    assert rows.n_rows == N
    begun.clear()
    passes = rows.map(same, n_jobs=2)
    next(passes)
    assert len(begun) <= 4
    passes.close()


def test_parquet_is_not_read_ahead(tmp_path, monkeypatch):
    """Arrow itself would read up to 1 GB."""
    table = pa.table({"a": np.random.default_rng(0).normal(size=400_000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20_000)
    rows, before, most = open_rows(tmp_path / "a.parquet"), pa.total_allocated_bytes(), 0
    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 4000)
    for number, _ in enumerate(rows.map(lambda chunk: None)):
        if number % 25 == 0:
            time.sleep(0.1)
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < table.nbytes / 4


def test_streamed_containers_are_recognised(tmp_path):
    opened, ddf = open_rows(parquet(PARTS, tmp_path)), dask_frame(PARTS)
    streamed = [
        *(opened, opened["age"], ds.dataset(tmp_path), PARTS, lambda: PARTS, relation(PARTS)),
        *(ddf, ddf["age"], da.ones((3, 2)), pl.LazyFrame(), Stream(PARTS), EngineTable(PARTS)),
    ]
    assert all(map(is_streamed, streamed))
    frame = TABLE.to_pandas()
    tables = [DATA, frame, TABLE, pl.from_arrow(TABLE), [[1, 2]], None, frame["age"]]
    assert not any(map(is_streamed, tables))


def test_neither_source_nor_chunk_shows_rows():
    rows = as_rows(DATA, DATA[:, 3])
    (part, *_) = rows.map(same)
    assert repr(rows) == "<rows of a table in memory: 4 columns>"
    assert "array" not in repr(part) + repr(rows._labels)


# Types


def test_stored_dictionaries_declare_nothing(tmp_path):
    """A dictionary that a file or a partition holds lists values of its rows."""
    words = pa.table({"job": pa.array(["a", "b", "a"]).dictionary_encode()})
    for rows in (open_rows(parquet([words], tmp_path)), as_rows([words])):
        (part,) = rows.map(same)
        assert rows.empty().schema.field("job").type == pa.string()
        assert part.X["job"].to_pylist() == ["a", "b", "a"]
        assert part.X.schema == rows.empty().schema
    unknown = dd.from_pandas(words.to_pandas(), npartitions=1)
    unknown["job"] = unknown["job"].cat.as_unknown()
    (part,) = as_rows(unknown).map(same)
    assert part.X["job"].dtype == as_rows(unknown).empty()["job"].dtype == object


def test_declared_categories_stay_declared():
    declared = pd.DataFrame({"job": pd.Categorical(["a", "b"], ["a", "b", "c"])})
    empty = as_rows(dd.from_pandas(declared, npartitions=1)).empty()
    assert list(empty["job"].cat.categories) == ["a", "b", "c"]
    connection = duckdb.connect()
    connection.sql("create table t as select 'a'::enum('a', 'b', 'c') as job")
    (part,) = as_rows(connection.table("t")).map(same)
    assert part.X["job"].chunk(0).dictionary.to_pylist() == ["a", "b", "c"]


def viewed(words):
    """Text as views, which old pyarrow makes but cannot convert."""
    try:
        return words.cast(pa.string_view())
    except pa.ArrowNotImplementedError:
        return words


@pytest.mark.parametrize("make", [Stream, EngineTable])
def test_streams_have_the_types_of_their_values(make):
    """Dictionaries declare nothing, and the types of text are one."""
    words, days = pa.array(["a", "b", None, "a"]), pa.array([9000, 1, 70, 800], pa.int32())
    first = pa.table(
        {
            "coded": words.dictionary_encode(),
            "viewed": viewed(words),
            "large": words.cast(pa.large_string()),
            "small": pa.array([1, None, 3, 4], pa.int8()),
            "price": pa.array([1, 2, None, 4], pa.decimal128(9, 2)),
            "yes": pa.array([True, None, False, True]),
            "day": days.cast(pa.date32()),
            "at": pa.array([9000, 1, 70, 800], pa.timestamp("us", "UTC")),
        }
    )
    second = first.set_column(0, "coded", pa.array(["z"] * 4).dictionary_encode())
    rows = as_rows(make([first, second]))
    (part,) = rows.map(same)
    assert part.X.schema == rows.empty().schema
    assert part.X.schema.types == [pa.string()] * 3 + first.schema.types[3:]
    (few,) = rows.map(same, columns=["at", "coded"])
    for found, columns in ((part.X, first.column_names), (few.X, ["at", "coded"])):
        expected_rows = [
            row for table in (first, second) for row in table.select(columns).to_pylist()
        ]
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected_rows))


def test_text_of_files_comes_in_dictionaries_only_to_those_who_ask(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: N)
    words = [f"word {k % 7}" for k in range(N)]
    plain, coded = pa.array(words[:200]), pa.array(words[200:]).dictionary_encode()
    parts = [pa.table({"word": part, "age": np.arange(200)}) for part in (plain, coded)]
    rows = as_rows(opened := open_rows(parquet(parts, tmp_path)), opened["word"])
    (read,) = rows.map(same)
    assert read.X.schema == rows.empty().schema
    (asked,) = rows.map(same, keep_dictionaries=True)
    assert pa.types.is_dictionary(asked.X["word"].type)
    for chunk in (read, asked):  # labels are never in dictionaries
        assert chunk.y.type == pa.string()
        assert chunk.X["word"].to_pylist() == chunk.y.to_pylist() == words


def test_columns_of_duckdb_may_be_called_anything():
    odd = pa.table({'a "b", c': [1, 2], "select": [3, 4]})
    rows = as_rows(relation([odd]))
    assert rows.take([1], columns=['a "b", c']).to_pydict() == {'a "b", c': [2]}


def test_a_hive_directory_has_the_columns_of_its_folders(tmp_path):
    table = TABLE.append_column("year", pa.array(np.arange(N) // 200))
    hive = {"partitioning": ["year"], "partitioning_flavor": "hive"}
    ds.write_dataset(table, tmp_path, format="parquet", **hive)
    rows = open_rows(tmp_path)
    assert set(rows.names) == {*NAMES, "year"}
    pay = numbers(rows.take(range(N), columns=["pay"]))
    np.testing.assert_array_equal(np.sort(pay, 0)[:, 0], range(N))


def test_a_filtered_dataset_stays_filtered(tmp_path):
    rows = open_rows(dataset(models.PARTS, tmp_path).filter(ds.field("years") > 20))
    taken = models.TABLE.filter(ds.field("years") > 20)
    assert rows.n_rows == len(taken) < models.N
    assert bits("cdf", fitted("cdf", rows)) == bits("cdf", fitted("cdf", taken))


def damaged(path, kept):
    """Write ten row groups, of which only those that are kept can be read."""
    pq.write_table(TABLE, path, row_group_size=N // 10, use_dictionary=False)
    metadata, content = pq.ParquetFile(path).metadata, bytearray(path.read_bytes())
    for group in {*range(10)} - kept:
        for column in range(len(NAMES)):
            chunk = metadata.row_group(group).column(column)
            start, size = chunk.data_page_offset, chunk.total_compressed_size
            content[start : start + size] = bytes(size)
    path.write_bytes(content)


def test_rows_are_taken_from_their_row_groups_alone(tmp_path):
    damaged(tmp_path / "a.parquet", {3, 5})
    damaged(tmp_path / "b.parquet", {0})
    rows = as_rows(*split(open_rows(str(tmp_path / "*.parquet"))))
    positions = np.array([239, 120, N + 7, 159, 120])
    found = rows.take_chunk(positions)
    np.testing.assert_array_equal(numbers(found.X), DATA[positions % N, :3])
    np.testing.assert_array_equal(np.asarray(found.y), DATA[positions % N, 3])
    assert found.X.schema == rows.empty().schema
    for read in (lambda: rows.take([80]), lambda: rows.fold(counts)):
        with pytest.raises(ReadError):
            read()


# Order


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
        with pytest.raises(ValueError, match="order"):
            use()


def test_duckdb_may_be_told_to_keep_no_order():
    connection = duckdb.connect()
    sql = "select range as x from range(9) where range > 3"
    assert open_rows(sql, connection=connection).ordered
    connection.sql("set preserve_insertion_order = false")
    assert not open_rows(sql, connection=connection).ordered


PLANS = {
    "a scan": (lambda frame: frame, True),
    "filters and columns": (
        lambda frame: frame.filter(pl.col("a") > 1).with_columns(z=2 * pl.col("a")).drop("b"),
        True,
    ),
    "names of other steps": (
        lambda frame: frame.filter(pl.col("b") != "SORT\nJOIN").rename({"a": "SORT BY"}),
        None,  # either will do
    ),
    "a sort": (lambda frame: frame.sort("a"), False),
    "a join": (lambda frame: frame.join(frame, on="a"), False),
    "groups": (lambda frame: frame.group_by("a").len(), False),
    "distinct rows": (lambda frame: frame.unique(), False),
    "somebody's function": (lambda frame: frame.map_batches(lambda part: part[::-1]), False),
    "a filtered sort": (lambda frame: frame.sort("a").filter(pl.col("a") > 1), False),
}


@pytest.mark.parametrize("scan", ["memory", "parquet", "csv"])
def test_lazy_frames_have_an_order_if_no_step_may_change_it(scan, tmp_path):
    table = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    table.write_parquet(tmp_path / "t.parquet")
    table.write_csv(tmp_path / "t.csv")
    frame = {
        "memory": table.lazy(),
        "parquet": pl.scan_parquet(tmp_path / "t.parquet"),
        "csv": pl.scan_csv(tmp_path / "t.csv"),
    }[scan]
    for name, (plan, ordered) in PLANS.items():
        assert ordered in (None, open_rows(plan(frame)).ordered), name


# Models


def cases(names, *everywhere):
    """Return each container with some estimators, and one of each order with all of them."""
    return [
        (container, name)
        for container in CONTAINERS
        if container != "pandas"  # which all others are compared with
        for name in names
        if name in everywhere or container in ("parquet", "engine")
    ]


@pytest.mark.parametrize(("container", "name"), cases(FITS, "boosting", "cdf"))
def test_the_model_is_that_of_the_frame(container, name, tmp_path):
    """Also where columns of the public rows have another order."""
    rows = CONTAINERS[container](models.PARTS, tmp_path)
    assert bits(name, fitted(name, rows)) == expected(name)


METHODS = {
    "trees": ("predict",),
    "halfspaces": ("predict",),
    "boosting": ("predict", "predict_proba", "decision_function"),
    "regression": ("predict", "interval"),
    "logistic": ("predict", "predict_proba", "decision_function"),
    "linear": ("predict",),
}


@pytest.mark.parametrize(("container", "name"), cases(METHODS, "boosting"))
def test_predictions_and_scores_are_those_of_the_frame(container, name, tmp_path):
    rows = CONTAINERS[container](models.PARTS, tmp_path)
    model, (_, columns, label) = trained(name), FITS[name]
    ordered = container in IN_MEMORY or as_rows(rows).ordered
    for method in METHODS[name]:
        predict = getattr(model, method)
        if ordered:
            found = predict(pick(rows, columns[::-1]))  # columns go by their names
            np.testing.assert_array_equal(found, predict(FRAME[columns]))
        else:
            with pytest.raises(ValueError, match="order"):
                predict(pick(rows, columns))
    predicted, y = model.predict(FRAME[columns]), FRAME[label]

    def by_hand(rows):
        is_regression = name in ("regression", "linear")
        return (r2_score if is_regression else accuracy_score)(y[rows], predicted[rows])

    score = model.score(pick(rows, columns), rows[label])
    assert score == pytest.approx(by_hand(slice(None)), rel=1e-12)
    if ordered:
        weights = np.arange(models.N) % 2
        weighted = model.score(pick(rows, columns), rows[label], sample_weight=weights)
        assert weighted == pytest.approx(by_hand(slice(1, None, 2)), rel=1e-12)


def test_a_relation_is_passed_as_it_is():
    model, plain = trained("trees"), relation([models.TABLE.select(models.NUMBERS[::-1])])
    np.testing.assert_array_equal(model.predict(plain), model.predict(FRAME[models.NUMBERS]))


PERSONS = np.arange(models.N) % 150


PERSON_CASES = [("parquet", name) for name in FITS] + [("dask", "boosting"), ("dask", "cdf")]


@pytest.mark.parametrize(("container", "name"), PERSON_CASES)
def test_only_the_first_rows_of_a_person_count(container, name, tmp_path):
    model, frame_model = (unfitted(name, max_rows_per_group=1) for _ in range(2))
    fit(model, name, CONTAINERS[container](models.PARTS, tmp_path), groups=PERSONS)
    fit(frame_model, name, FRAME, groups=PERSONS)
    assert bits(name, model) == bits(name, frame_model)
    assert model.privacy_.n_private == 150


def test_persons_may_be_a_column(tmp_path):
    table = models.TABLE.append_column("person", pa.array(PERSONS))
    rows = open_rows(parquet([table], tmp_path))
    model = unfitted("trees", max_rows_per_group=1)
    fit(model, "trees", rows, groups=rows["person"])
    assert model.privacy_.n_private == 150
