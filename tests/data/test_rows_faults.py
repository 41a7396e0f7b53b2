"""What goes wrong while rows are read: the same table, or one sentence that quotes no row."""

import os
import signal
import sys
import traceback
import warnings
from itertools import chain, count

import numpy as np
import pytest

from skpublicdp._internal.redaction import NotNumbersError
from skpublicdp.data import streaming
from skpublicdp.data.sources import optional_imports
from skpublicdp.data.streaming import as_rows, open_rows
from skpublicdp.exceptions import ReadError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
duckdb = pytest.importorskip("duckdb")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")

SECRET = "73019"
N = 600


def table(start=0, stop=N):
    return pa.table({"a": np.arange(start, stop), "b": np.arange(start, stop) % 7})


def one_part(i):
    return table(100 * i, 100 * i + 100).to_pandas()


def dask_parts(make=one_part):
    return dd.from_map(make, range(6), meta=table(0, 0).to_pandas())


def sums(chunk):
    return np.asarray(chunk.X).sum(axis=0)


EXPECTED = [N * (N - 1) // 2, sum(i % 7 for i in range(N))]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(streaming, "rows_per_chunk", lambda columns: 64)
    monkeypatch.setattr(streaming, "MIN_CHUNK_ROWS", 16)


def refusal(call, kind=ReadError):
    """What a call raises: at most two sentences, with nothing behind them."""
    with pytest.raises(kind) as raised:
        call()
    error = raised.value
    assert type(error) is kind
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(error))
    text = str(error)
    assert text.endswith(".")
    assert text.count(". ") <= 1
    return text


class Killer:
    """Kills the process that it works in, as often as it is told."""

    def __init__(self, directory, times):
        self.directory, self.times = directory, times

    def __call__(self, chunk):
        deaths = len(os.listdir(self.directory))
        if chunk.start == 300 and deaths < self.times:
            open(os.path.join(self.directory, str(deaths)), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return sums(chunk)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    assert as_rows(dask_parts()).fold(Killer(tmp_path, 1)).tolist() == EXPECTED
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.slow
def test_workers_that_are_killed_again_and_again_are_one_sentence(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.cluster.scheduler, "allowed_failures", 0)
    rows = as_rows(dask_parts())
    text = refusal(lambda: rows.fold(Killer(tmp_path, 9)))
    assert text.startswith("The rows of the Dask collection could not be read; try to compute it")
    assert rows.fold(sums).tolist() == EXPECTED


def test_a_file_cut_short_is_named(tmp_path):
    for name in "xy":
        pq.write_table(table(), tmp_path / f"{name}.parquet")
    os.truncate(tmp_path / "y.parquet", 900)
    text = refusal(lambda: open_rows(str(tmp_path / "*.parquet")))
    assert "y.parquet is damaged or truncated. Write it again" in text
    refusal(lambda: open_rows([tmp_path / "y.parquet"]))


def test_a_file_cut_short_after_it_was_opened(tmp_path):
    pq.write_table(table(), tmp_path / "x.parquet", row_group_size=50)
    rows = open_rows(tmp_path / "x.parquet")
    assert rows.fold(sums).tolist() == EXPECTED
    os.truncate(tmp_path / "x.parquet", os.path.getsize(tmp_path / "x.parquet") // 2)
    text = refusal(lambda: rows.fold(sums))
    assert text.startswith("The rows of the Parquet files could not be read; check that no file is")


def failing_batches():
    yield table(0, 300)
    raise RuntimeError(f"cannot read {SECRET}")


def failing_part(i):
    if i == 3:
        raise RuntimeError(f"cannot read {SECRET}")
    return one_part(i)


def text_column():
    """DuckDB's own message would quote the value."""
    connection = duckdb.connect()
    connection.sql("create table t as select range::text as a from range(600)")
    connection.sql(f"insert into t values ('x{SECRET}')")
    return connection


def test_a_source_that_fails_in_the_middle_is_one_sentence():
    with dask.config.set(scheduler="threads"):
        for broken, kind in [
            (failing_batches, "the record batches"),
            (panicking_batches, "the record batches"),
            (dask_parts(failing_part), "the Dask collection"),
            (text_column().sql("select a::int as a from t"), "the DuckDB relation"),
        ]:
            text = refusal(lambda broken=broken: as_rows(broken).fold(sums))
            assert text.startswith(f"The rows of {kind} could not be read; ")
            assert text.endswith(
                "The reader's message is withheld, because it may quote private values."
            )


def test_labels_that_fail_in_the_middle():
    def labels():
        yield table(0, 300).select(["b"])
        if next(passes) > 0:
            raise RuntimeError(SECRET)
        yield table(300, N).select(["b"])

    passes = count()
    rows = as_rows(table(), labels)
    for n_jobs in (1, 2):
        refusal(lambda n_jobs=n_jobs: rows.fold(sums, n_jobs=n_jobs))


def test_duckdb_is_usable_after_a_failure():
    connection = text_column()
    rows = as_rows(connection.sql("select a::int as a from t"))
    refusal(lambda: rows.fold(sums))
    assert connection.sql("select 1 as one").fetchall() == [(1,)]


def quoting(chunk):
    warnings.warn(f"odd value {SECRET}", UserWarning, stacklevel=1)
    if chunk.start >= 300:
        raise ValueError(f"odd value {SECRET}")
    return sums(chunk)


class Panic(BaseException):
    """As polars raises it, which no `except Exception` stops."""


def panicking(chunk):
    raise Panic(f"odd value {SECRET}")


def panicking_batches():
    yield table(0, 300)
    raise Panic(f"cannot read {SECRET}")


def refusing(chunk):
    raise NotNumbersError("Column 'a' must contain numbers.")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "make", [table, lambda: [table()], dask_parts], ids=["all", "stream", "dask"]
)
def test_a_chunk_that_fails_is_one_sentence(make, n_jobs, request):
    if make is dask_parts:
        request.getfixturevalue("cluster")
    rows = as_rows(make())
    text = refusal(lambda: rows.fold(quoting, n_jobs=n_jobs))
    assert text.startswith("A chunk of rows could not be processed; ")
    assert refusal(lambda: rows.fold(panicking, n_jobs=n_jobs)) == text
    given = refusal(lambda: list(rows.map(refusing, n_jobs=n_jobs)), NotNumbersError)
    assert given == "Column 'a' must contain numbers."
    assert rows.fold(sums, n_jobs=n_jobs).tolist() == EXPECTED


def test_the_first_failure_in_the_order_of_rows_counts():
    """Which thread is faster must not show in the message."""

    def slow_first(chunk):
        if chunk.start == 0:
            for _ in range(10**5):
                pass
        raise NotNumbersError(f"Chunk {chunk.start} is bad.")

    for _ in range(5):
        with pytest.raises(NotNumbersError, match="Chunk 0 "):
            as_rows(table()).fold(slow_first, n_jobs=4)


def changed(**columns):
    return pa.table({"a": np.arange(9), "b": np.arange(9)} | columns)


OTHERS = {
    "another type": changed(b=np.arange(9) / 2),
    "text": changed(b=pa.array(list("abcdefghi"))),
    "another name": changed().rename_columns(["a", "c"]),
    "one fewer": changed().select(["a"]),
    "one more": changed(c=np.arange(9)),
}


@pytest.mark.parametrize("other", [*OTHERS.values(), changed().select(["b", "a"])])
def test_batches_of_another_schema(other):
    text = refusal(lambda: as_rows([table(), other]).fold(sums))
    assert text.startswith("All record batches must have the columns of the first batch")


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_files_of_another_schema(other, tmp_path):
    pq.write_table(table(), tmp_path / "0.parquet")
    pq.write_table(other, tmp_path / "1.parquet")
    text = refusal(lambda: open_rows(str(tmp_path / "*.parquet")))
    assert text.startswith("All Parquet files must have the same columns and types")
    assert "1.parquet differ" in text


def test_files_may_have_their_columns_in_another_order(tmp_path):
    pq.write_table(table(0, 300), tmp_path / "0.parquet")
    pq.write_table(table(300, N).select(["b", "a"]), tmp_path / "1.parquet")
    assert open_rows(str(tmp_path / "*.parquet")).fold(sums).tolist() == EXPECTED


@pytest.mark.parametrize("name", ["text", "another name", "one fewer", "one more"])
def test_partitions_of_another_schema(name):
    def part(i):
        return OTHERS[name].to_pandas() if i == 2 else one_part(i)

    with dask.config.set(scheduler="sync"):
        rows = as_rows(dask_parts(part))
        text = refusal(lambda: rows.fold(sums))
    assert text.startswith(
        ("Every partition of a Dask collection must", "The rows of the Dask collection could")
    )


def shrinking():
    calls = count()
    return lambda: iter([table(), table(0, 9)][: 2 - (next(calls) > 1)])


def growing():
    calls = count()
    return lambda: iter([table(), table(0, 9)][: 1 + (next(calls) > 1)])


@pytest.mark.parametrize("make", [shrinking, growing])
def test_rows_that_are_not_those_that_were_counted(make):
    rows = as_rows(make())
    text = refusal(lambda: rows.fold(sums))
    assert text.startswith("The record batches must return the same rows in every pass, ")


def test_partitions_that_are_not_those_that_were_counted():
    calls = []

    def part(i):
        calls.append(i)
        return one_part(i).iloc[: 100 - (i == 2 and calls.count(2) > 1)]

    with dask.config.set(scheduler="sync"):
        text = refusal(lambda: as_rows(dask_parts(part)).fold(sums))
    assert "the length of a partition has changed" in text


@pytest.mark.parametrize(
    "once",
    [
        lambda: iter([table()]),
        lambda: (part for part in [table()]),
        lambda: table().to_reader(),
        lambda: map(table, [0]),
    ],
)
def test_what_can_be_read_only_once_is_refused(once):
    for opened in (open_rows, as_rows):
        text = refusal(lambda opened=opened: opened(once()), ValueError)
        assert text.startswith("Record batches must be passed")


def test_a_function_that_returns_the_same_iterator_again_is_refused():
    same = iter([table(), table()])
    assert "only once" in refusal(lambda: as_rows(lambda: same).fold(sums))


@pytest.mark.parametrize(
    ("batches", "match"),
    [
        (lambda: iter([]), "At least one record batch"),
        (lambda: iter([{"a": SECRET}]), "must be pyarrow.RecordBatch or pyarrow.Table; got dict"),
        (lambda: 3, "the record batches could not be read"),
    ],
)
def test_what_gives_no_batches(batches, match):
    assert match in refusal(lambda: open_rows(batches))


class Passes:
    """An Arrow stream that gives the tables of a function of the number of earlier passes."""

    def __init__(self, tables):
        self.tables, self.n_passes = tables, 0

    def __arrow_c_stream__(self, requested_schema=None):
        tables = self.tables(self.n_passes)
        first = next(tables)
        self.n_passes += 1
        batches = (batch for part in chain([first], tables) for batch in part.to_batches())
        reader = pa.RecordBatchReader.from_batches(first.schema, batches)
        return reader.__arrow_c_stream__(requested_schema)


# the first pass is for the schema, the second counts rows
@pytest.mark.parametrize(
    "tables",
    [
        lambda n: iter([table(), table(0, 9)][: 2 - (n > 1)]),
        lambda n: iter([table(), table(0, 9)][: 1 + (n > 1)]),
        lambda n: iter([table(0, N * (n < 2))]),  # as of a stream that was read to its end
    ],
    ids=["shrinking", "growing", "once"],
)
def test_streams_of_other_rows_than_were_counted(tables):
    text = refusal(lambda: as_rows(Passes(tables)).fold(sums))
    assert text.startswith("The Arrow stream must return the same rows in every pass, ")
    assert "write it to a Parquet file first" in text


class Once:
    """A stream that is handed out once, as by nanoarrow."""

    def __init__(self):
        self.reader = table().to_reader()

    def __arrow_c_stream__(self, requested_schema=None):
        reader, self.reader = self.reader, None
        if reader is None:
            raise ValueError(f"released after {SECRET}")
        return reader.__arrow_c_stream__(requested_schema)


def test_a_stream_that_is_handed_out_once_is_refused():
    for use in (lambda rows: rows.n_rows, lambda rows: rows.fold(sums)):
        rows = as_rows(Once())
        text = refusal(lambda use=use, rows=rows: use(rows))
        assert text.startswith(
            "The rows of the Arrow stream could not be read; try to read it on its own"
        )
        assert "write it to a Parquet file first" in text


@pytest.mark.parametrize(
    "other",
    [
        *(OTHERS[name] for name in ("another type", "text", "another name", "one fewer")),
        changed(b=np.arange(9.0)),  # types that would convert without a loss
        changed(b=np.arange(9, dtype=np.int8)),
    ],
)
def test_streams_of_another_schema(other):
    """One more column is not read, so it changes nothing."""
    text = refusal(
        lambda: as_rows(Passes(lambda n: iter([other if n > 1 else changed()]))).fold(sums)
    )
    assert text.startswith(
        ("Every batch of the Arrow stream must have the declared column types", "The rows of the")
    )
    more = Passes(lambda n: iter([OTHERS["one more"] if n > 1 else changed()]))
    assert as_rows(more).fold(sums).tolist() == [36, 36]


def test_a_stream_that_fails_in_the_middle_is_one_sentence():
    def tables(n):
        yield table(0, 300)
        if n > 1:
            raise RuntimeError(f"cannot read {SECRET}")
        yield table(300, N)

    text = refusal(lambda: as_rows(Passes(tables)).fold(sums))
    assert text.startswith("The rows of the Arrow stream could not be read; ")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_passes(n_jobs):
    def interrupted(chunk):
        raise KeyboardInterrupt

    def batches():
        yield table()
        if next(passes) > 0:
            raise KeyboardInterrupt

    passes = count()
    with pytest.raises(KeyboardInterrupt):
        as_rows(table()).fold(interrupted, n_jobs=n_jobs)
    rows = as_rows(batches)
    assert rows.n_rows == N
    with pytest.raises(KeyboardInterrupt):
        rows.fold(sums, n_jobs=n_jobs)


@pytest.mark.parametrize(
    ("module", "load", "extra"),
    [("pyarrow", optional_imports.pyarrow, "arrow"), ("dask", optional_imports.dask, "dask")],
)
def test_a_missing_package_is_one_sentence(module, load, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as raised:
        load()
    assert str(raised.value) == (
        f"{module} must be installed to read these rows. Run `pip install 'skpublicdp[{extra}]'`."
    )


def test_csv_files_are_read_through_duckdb(tmp_path):
    """DuckDB would guess the types of columns from private values, so they must be declared."""
    (tmp_path / "people.csv").write_text(f"a\n{SECRET}\n")
    for source in (tmp_path / "people.csv", str(tmp_path / "*.csv"), [tmp_path / "people.csv"]):
        text = refusal(lambda source=source: open_rows(source))
        assert text.startswith("A path must be that of Parquet files, but")
        assert "read_csv('people.csv', columns={" in text
        assert SECRET not in text


@pytest.mark.parametrize("sql", ["select * from t", " WITH t as (select 1) select * from t"])
def test_sql_without_a_connection(sql):
    with pytest.raises(ValueError, match=r"it is an SQL query\. Pass the DuckDB connection"):
        open_rows(sql)


def test_a_single_column_as_the_table(tmp_path):
    pq.write_table(table(), tmp_path / "x.parquet")
    rows = open_rows(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"single column of a source\. Pass rows\[\['a'\]\]"):
        as_rows(rows["a"])


def test_sources_that_are_none(tmp_path):
    text = refusal(lambda: open_rows(tmp_path / "none*.parquet"), FileNotFoundError)
    assert "No Parquet file was found at" in text
    (tmp_path / "sub").mkdir()
    pq.write_table(table(), tmp_path / "x.parquet")
    pq.write_table(table(), tmp_path / "sub" / "x.parquet")
    assert "Open the directory alone" in refusal(
        lambda: open_rows([tmp_path / "x.parquet", tmp_path / "sub"]), ValueError
    )
    connection = duckdb.connect()
    assert "try to run its query on its own" in refusal(
        lambda: open_rows("select nothing", connection=connection)
    )
    assert "a string with an SQL query" in refusal(
        lambda: open_rows([table()], connection=connection), TypeError
    )
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert "'a' occurs more than once" in refusal(lambda: as_rows([twice]), ValueError)
    assert "y must be a single column; got 2" in refusal(
        lambda: as_rows([table()], [table()]), ValueError
    )
