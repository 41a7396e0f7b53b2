"""One contract for every fault of a container: one exception, which quotes no row.

Of a message, tests look for the name of the container, file or column alone.
"""

import os
import signal
import sys
import traceback
import warnings
from itertools import chain, count

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skpublicdp import PrivacyBudget
from skpublicdp.data import open_rows
from skpublicdp.exceptions import ReadError
from tests.data import models
from tests.data.containers import (
    SPARK,
    Stream,
    arrow_table,
    batch_list,
    cut,
    dask_frame,
    dd,
    duckdb,
    pa,
    parquet_file,
    parquet_glob,
    pl,
    pq,
    spark_session,
)
from tests.data.internals import NotNumbersError, as_rows, optional_imports
from tests.data.models import FITS, FRAME, fit, fitted, unfitted

pytestmark = [
    pytest.mark.usefixtures("small_chunks"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
]
needs_spark = pytest.mark.skipif(not SPARK, reason="needs pyspark and Java")

SECRET = "73019"
N = 600


def table(start=0, stop=N):
    return pa.table({"a": np.arange(start, stop), "b": np.arange(start, stop) % 7})


PARTS = cut(table(), range(0, N + 1, 100))
EXPECTED = [N * (N - 1) // 2, sum(i % 7 for i in range(N))]


def sums(chunk):
    return np.asarray(chunk.X).sum(axis=0)


def fold(rows):
    return as_rows(rows).fold(sums)


def read(rows):
    return list(as_rows(rows).map(sums))


def spark_table():
    return spark_session().createDataFrame(table()).repartition(3)


def refusal(call, kind=ReadError, name=""):
    """What a call raises: at most two sentences with a name in them, and nothing behind them."""
    with pytest.raises(kind) as raised:
        call()
    error = raised.value
    assert type(error) is kind
    assert error.__cause__ is error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(error))
    text = str(error)
    assert text.strip("'\"").endswith(".")
    assert text.count(". ") <= 1
    assert name in text
    return text


class Panic(BaseException):
    """As polars raises it, which no `except Exception` stops."""


# Containers that fail while they are read


def failing(error, passes=0):
    """Return a function of batches that fails in the middle, after some passes without a fault."""
    begun = count()

    def batches():
        yield table(0, 300)
        if next(begun) >= passes:
            raise error(f"cannot read {SECRET}")
        yield table(300, N)

    return batches


def failing_partition():
    def part(i):
        if i == 3:
            raise RuntimeError(f"cannot read {SECRET}")
        return PARTS[i].to_pandas()

    return dd.from_map(part, range(6), meta=table(0, 0).to_pandas())


class Passes(Stream):
    """An Arrow stream that gives the tables of a function of the number of earlier passes.

    The first pass is for the schema, and the second counts rows.
    """

    def __init__(self, tables):
        self.tables, self.n_passes = tables, 0

    def __arrow_c_stream__(self, requested_schema=None):
        tables = self.tables(self.n_passes)
        first = next(tables)
        self.n_passes += 1
        batches = (batch for part in chain([first], tables) for batch in part.to_batches())
        reader = pa.RecordBatchReader.from_batches(first.schema, batches)
        return reader.__arrow_c_stream__(requested_schema)


def failing_stream():
    def tables(n):
        yield table(0, 300)
        if n > 1:
            raise RuntimeError(f"cannot read {SECRET}")
        yield table(300, N)

    return Passes(tables)


class HandedOutOnce:
    """A stream that is handed out once, as by nanoarrow."""

    def __init__(self):
        self.reader = table().to_reader()

    def __arrow_c_stream__(self, requested_schema=None):
        reader, self.reader = self.reader, None
        if reader is None:
            raise ValueError(f"released after {SECRET}")
        return reader.__arrow_c_stream__(requested_schema)


def text_as_numbers():
    """DuckDB's own message would quote the value."""
    connection = duckdb.connect()
    connection.sql("create table t as select range::text as a from range(600)")
    connection.sql(f"insert into t values ('x{SECRET}')")
    return connection.sql("select a::int as a from t")


def text_as_numbers_in_spark():
    frame = spark_table().selectExpr(f"if(a = 400, 'x{SECRET}', a) as a")
    return frame.selectExpr("cast(a as long)")


def same_iterator():
    same = iter([table(), table()])
    return lambda: same


UNREADABLE = {
    "batches": (lambda: failing(RuntimeError), "record batches"),
    "batches that panic": (lambda: failing(Panic), "record batches"),
    "partition": (failing_partition, "Dask collection"),
    "duckdb": (text_as_numbers, "DuckDB relation"),
    "stream": (failing_stream, "Arrow stream"),
    "stream that is handed out once": (HandedOutOnce, "Arrow stream"),
    "the same iterator again": (same_iterator, ""),
    "spark": pytest.param(text_as_numbers_in_spark, "Spark DataFrame", marks=needs_spark),
}


def cases(faults):
    """Return the parameters of a table of faults."""
    return [
        fault if hasattr(fault, "marks") else pytest.param(*fault, id=name)
        for name, fault in faults.items()
    ]


@pytest.mark.parametrize(("make", "kind"), cases(UNREADABLE))
def test_a_source_that_fails_in_the_middle_is_one_error(make, kind):
    for use in (fold, read):
        refusal(lambda use=use: use(make()), name=kind)
    refusal(lambda: as_rows(make()).n_rows) if make is HandedOutOnce else None


def test_labels_that_fail_in_the_middle():
    labels = failing(RuntimeError, passes=1)
    rows = as_rows(table(), lambda: (part.select(["b"]) for part in labels()))
    for n_jobs in (1, 2):
        refusal(lambda n_jobs=n_jobs: rows.fold(sums, n_jobs=n_jobs))


def test_duckdb_is_usable_after_a_failure():
    connection = duckdb.connect()
    connection.sql(f"create table t as select 'x{SECRET}' as a")
    refusal(lambda: fold(connection.sql("select a::int as a from t")))
    assert connection.sql("select 1 as one").fetchall() == [(1,)]


def test_a_file_cut_short_after_it_was_opened(tmp_path):
    rows = parquet_file([table()], tmp_path)
    assert rows.fold(sums).tolist() == EXPECTED
    (path,) = tmp_path.glob("*")
    os.truncate(path, path.stat().st_size // 2)
    refusal(lambda: rows.fold(sums), name="Parquet files")


# Functions of chunks that fail


def quoting(chunk):
    warnings.warn(f"odd value {SECRET}", UserWarning, stacklevel=1)
    raise ValueError(f"odd value {SECRET}")


def panicking(chunk):
    raise Panic(f"odd value {SECRET}")


def refusing(chunk):
    raise NotNumbersError("Column 'a' must contain numbers.")


@pytest.mark.parametrize(
    "make",
    [
        *(arrow_table, batch_list),
        pytest.param(lambda parts: dask_frame(parts), id="dask"),
        pytest.param(lambda parts: spark_table(), id="spark", marks=needs_spark),
    ],
)
def test_a_chunk_that_fails_is_one_error(make):
    rows = as_rows(make(PARTS))
    for n_jobs in (1, 2):
        text = refusal(lambda n_jobs=n_jobs: rows.fold(quoting, n_jobs=n_jobs))
        assert refusal(lambda n_jobs=n_jobs: rows.fold(panicking, n_jobs=n_jobs)) == text
        refusal(lambda n_jobs=n_jobs: rows.fold(refusing, n_jobs=n_jobs), NotNumbersError, "'a'")
    refusal(lambda: list(rows.map(refusing)), NotNumbersError, "'a'")
    assert refusal(lambda: list(rows.map(quoting))) == text
    assert rows.fold(sums).tolist() == EXPECTED


def test_the_first_failure_in_the_order_of_rows_counts():
    """Which thread is faster must not show in the message."""

    def slow_first(chunk):
        if chunk.start == 0:
            for _ in range(10**5):
                pass
        raise NotNumbersError(f"Chunk {chunk.start} is bad.")

    for _ in range(5):
        refusal(lambda: as_rows(table()).fold(slow_first, n_jobs=4), NotNumbersError, "Chunk 0 ")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_passes(n_jobs):
    def interrupted(chunk):
        raise KeyboardInterrupt

    rows = as_rows(failing(KeyboardInterrupt, passes=1))
    assert rows.n_rows == N
    for use in (lambda: as_rows(table()).fold(interrupted, n_jobs=n_jobs), lambda: fold(rows)):
        with pytest.raises(KeyboardInterrupt):
            use()


# Other columns or rows than were declared or counted


def changed(**columns):
    return pa.table({"a": np.arange(9), "b": np.arange(9)} | columns)


OTHERS = {
    "another type": changed(b=np.arange(9) / 2),
    "text": changed(b=pa.array(list("abcdefghi"))),
    "another name": changed().rename_columns(["a", "c"]),
    "one fewer": changed().select(["a"]),
    "one more": changed(c=np.arange(9)),
    "another order": changed().select(["b", "a"]),
    # types that would convert without a loss
    "whole floats": changed(b=np.arange(9.0)),
    "small integers": changed(b=np.arange(9, dtype=np.int8)),
}


def other_files(other, directory):
    return parquet_glob([table(), other], directory)


def other_partition(other, directory):
    frames = [*(part.to_pandas() for part in PARTS[:5]), other.to_pandas()]
    return dd.from_map(lambda i: frames[i], range(6), meta=table(0, 0).to_pandas())


DIFFERENT = ("text", "another name", "one fewer", "one more")
SCHEMAS = {
    # Arrow promises nothing of the order of columns in files, and pandas has types of its own
    "files": (other_files, "1.parquet", ("another type", *DIFFERENT)),
    "partitions": (other_partition, "Dask collection", DIFFERENT),
    "batches": (lambda other, directory: [table(), other], "record batches", OTHERS),
    # one more column is not read
    "stream": (
        lambda other, directory: Passes(lambda n: iter([other if n > 1 else changed()])),
        "Arrow stream",
        ("another type", *DIFFERENT[:3], "whole floats", "small integers"),
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_columns_that_change_are_refused(name, tmp_path):
    make, kind, names_of_others = SCHEMAS[name]
    for what in names_of_others:
        (tmp_path / what).mkdir()
        refusal(lambda what=what: fold(make(OTHERS[what], tmp_path / what)), name=kind)


def test_columns_that_may_change(tmp_path):
    rows = parquet_glob([table(0, 300), table(300, N).select(["b", "a"])], tmp_path)
    assert rows.fold(sums).tolist() == EXPECTED
    more = Passes(lambda n: iter([OTHERS["one more"] if n > 1 else changed()]))
    assert fold(more).tolist() == [36, 36]


def batches_of(tables):
    begun = count(-1)  # the first pass is for the schema
    return lambda: iter(tables(next(begun)))


def shrinking_partition():
    calls = []

    def part(i):
        calls.append(i)
        return PARTS[i].slice(i == 2 and calls.count(2) > 1).to_pandas()

    return dd.from_map(part, range(6), meta=table(0, 0).to_pandas())


def exhausted_stream():
    """A stream that was read to its end and has no rows from then on."""
    return Passes(lambda n: iter([table(0, N * (n < 2))]))


def in_turn(few, many):
    """Tables of which there are `few` at first and `many` from the second count on."""
    return lambda n: [table(), table(0, 9)][: few if n < 1 else many]


OTHER_ROWS = {
    "fewer batches": (lambda: batches_of(in_turn(2, 1)), "record batches"),
    "more batches": (lambda: batches_of(in_turn(1, 2)), "record batches"),
    "a shorter partition": (shrinking_partition, ""),
    "a shrinking stream": (lambda: Passes(lambda n: iter(in_turn(2, 1)(n - 1))), "Arrow stream"),
    "a growing stream": (lambda: Passes(lambda n: iter(in_turn(1, 2)(n - 1))), "Arrow stream"),
    # as of a stream that was read to its end
    "an exhausted stream": (
        lambda: Passes(lambda n: iter([table(0, N * (n < 2))])),
        "Arrow stream",
    ),
}


@pytest.mark.parametrize(("make", "kind"), cases(OTHER_ROWS))
def test_rows_that_are_not_those_that_were_counted(make, kind):
    refusal(lambda: fold(make()), name=kind)


@needs_spark
@pytest.mark.parametrize("change", ["fewer", "more"])
def test_spark_rows_that_are_not_those_that_were_counted(change, tmp_path):
    """A table whose file is written anew once rows are counted."""
    switch = str(tmp_path / "switch")

    def changing(batches):
        for batch in batches:
            if os.path.exists(switch):
                batch = batch.slice(1)
                if change == "more":
                    yield batch
            yield batch

    frame = spark_table()
    rows = as_rows(frame.mapInArrow(changing, frame.schema))
    assert rows.n_rows == N
    open(switch, "w").close()
    for use in (fold, read):
        refusal(lambda use=use: use(rows), name="Spark DataFrame")


# What cannot be opened


def cut_short(directory):
    for name in "xy":
        pq.write_table(table(), directory / f"{name}.parquet")
    os.truncate(directory / "y.parquet", 900)
    return str(directory / "*.parquet")


def nested(directory):
    (directory / "sub").mkdir()
    for path in (directory, directory / "sub"):
        pq.write_table(table(), path / "x.parquet")
    return [directory / "x.parquet", directory / "sub"]


def csv(directory):
    (directory / "people.csv").write_text(f"a\n{SECRET}\n")
    return directory / "people.csv"


def twice(directory=None):
    return [pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])]


UNOPENED = {
    "damaged file": (cut_short, ReadError, "y.parquet"),
    "damaged file alone": (lambda d: [cut_short(d)[:-9] + "y.parquet"], ReadError, ""),
    "no file": (lambda d: d / "none*.parquet", FileNotFoundError, "none*.parquet"),
    "file and directory": (nested, ValueError, ""),
    # DuckDB would guess the types of columns from private values, so they must be declared
    "csv": (csv, ReadError, "people.csv"),
    "csv of a glob": (lambda d: str(csv(d).parent / "*.csv"), ReadError, "people.csv"),
    "csv in a list": (lambda d: [csv(d)], ReadError, "people.csv"),
    "sql": (lambda d: "select * from t", ValueError, "connection"),
    "sql of a step": (lambda d: " WITH t as (select 1) select * from t", ValueError, "connection"),
    "iterator": (lambda d: iter([table()]), ValueError, "iterator"),
    "generator": (lambda d: (part for part in [table()]), ValueError, "iterator"),
    "reader": (lambda d: table().to_reader(), ValueError, "iterator"),
    "map": (lambda d: map(table, [0]), ValueError, "iterator"),
    "no batches": (lambda d: lambda: iter([]), ReadError, "batch"),
    "batches of dicts": (lambda d: lambda: iter([{"a": SECRET}]), ReadError, "dict"),
    "a number": (lambda d: lambda: 3, ReadError, "record batches"),
    "a name twice": (twice, ValueError, "'a'"),
    "a spark name twice": pytest.param(
        lambda d: spark_table().selectExpr("a", "b as a"), ValueError, "'a'", marks=needs_spark
    ),
}


@pytest.mark.parametrize(("make", "error", "name"), cases(UNOPENED))
def test_what_cannot_be_opened(make, error, name, tmp_path):
    source = make(tmp_path)
    refusal(lambda: open_rows(source), error, name)
    if name == "iterator":
        refusal(lambda: as_rows(make(tmp_path)), error, name)


def test_queries_that_cannot_be_opened():
    connection = duckdb.connect()
    refusal(lambda: open_rows("select nothing", connection=connection))
    refusal(lambda: open_rows([table()], connection=connection), TypeError, "list")


def relations():
    relation = duckdb.connect().from_arrow(table())
    return relation.project("a"), relation.project("b")


WRONG_USES = {
    "a column for the table": (
        lambda d: as_rows(parquet_file([table()], d)["a"]),
        ValueError,
        "'a'",
    ),
    "a table for the labels": (lambda d: as_rows([table()], [table()]), ValueError, "y"),
    "two relations": (lambda d: as_rows(*relations()), ValueError, "DuckDB"),
    "more labels": (lambda d: as_rows(PARTS[:1], np.zeros(N)), ValueError, f"{N}"),
    "labels of another source": (
        lambda d: as_rows(PARTS, [PARTS[0].select(["b"])]),
        ValueError,
        f"{N}",
    ),
    "floats": (
        lambda d: as_rows(table()).fold(lambda chunk: sums(chunk) / 2),
        TypeError,
        "integers",
    ),
    "positions of spark": pytest.param(
        lambda d: as_rows(spark_table()).take([0]), ValueError, "Spark", marks=needs_spark
    ),
}


@pytest.mark.parametrize(("use", "error", "name"), cases(WRONG_USES))
def test_what_rows_are_not_used_for(use, error, name, tmp_path):
    refusal(lambda: use(tmp_path), error, name)


@needs_spark
def test_names_of_spark_may_be_anything():
    frame = spark_table().selectExpr("a as `odd.name`", "b as `with``tick`")
    assert as_rows(frame).fold(sums, columns=["with`tick", "odd.name"]).tolist() == EXPECTED[::-1]


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "arrow"), ("dask", "dask")])
def test_a_missing_package_is_named(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"skpublicdp\[{extra}\]"):
        getattr(optional_imports, module)()


class Killer:
    """Kills the process of Spark that it works in, as often as it is told."""

    def __init__(self, directory, times):
        self.directory, self.times = str(directory), times

    def __call__(self, chunk):
        deaths = len(os.listdir(self.directory))
        if 300 in chunk.X["a"].to_pylist() and deaths < self.times:
            open(os.path.join(self.directory, str(deaths)), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return sums(chunk)


@needs_spark
def test_a_spark_worker_killed_in_the_middle_counts_no_row_twice(tmp_path):
    rows = as_rows(spark_table())
    assert rows.fold(Killer(tmp_path, 1)).tolist() == EXPECTED
    assert len(os.listdir(tmp_path)) == 1
    parts = list(rows.map(Killer(tmp_path, 2)))
    assert len(os.listdir(tmp_path)) == 2
    assert np.sum(parts, axis=0).tolist() == EXPECTED
    refusal(lambda: rows.fold(Killer(tmp_path, 99)), name="Spark DataFrame")
    assert rows.fold(sums).tolist() == EXPECTED


# Fits


def raises(batch):
    raise OSError(f"cannot read {batch['pay'][0]}")


def other_type(batch):
    return batch.set_column(5, "known", batch["known"].cast(pa.string()))


def lacks_a_column(batch):
    return batch.drop_columns("known")


def shorter(batch):
    return batch.slice(1)


class Faulty:
    """Record batches of which one pass breaks in the middle."""

    def __init__(self, breaks_in=None, how=None):
        self.breaks_in, self.how = breaks_in, how
        self.passes = 0

    def __call__(self):
        self.passes += 1
        for number, batch in enumerate(models.TABLE.to_batches(150)):
            is_broken = self.passes == self.breaks_in and number == 3
            yield self.how(batch) if is_broken else batch


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((name, raises) for name in FITS),
        *((name, how) for name in ("boosting", "pairs") for how in (other_type, lacks_a_column)),
        *((name, shorter) for name in ("boosting", "pairs")),
    ],
)
def test_a_fault_in_any_pass_is_one_error_and_at_most_one_charge(name, how):
    usual, opened = Faulty(), Faulty()
    fitted(name, open_rows(usual))
    open_rows(opened).n_rows  # noqa: B018 - what is counted is counted once, here
    charges = []
    for breaks_in in range(opened.passes + 1, usual.passes + 1):
        budget = PrivacyBudget(10, 1e-3, for_tests=True)
        model, rows = unfitted(name, budget=budget), open_rows(Faulty(breaks_in, how))
        text = refusal(lambda model=model, rows=rows: fit(model, name, rows))
        assert not any(char.isdigit() for char in text)
        assert not [of for of in vars(model) if of.endswith("_") or of.startswith("_")]
        charges.append(len(budget.ledger))
    # labels first, if there are any, then all columns once before anything is spent
    n_free = 1 + (FITS[name][2] is not None)
    assert charges[:n_free] == [0] * n_free
    assert set(charges) <= {0, 1}


def test_a_failed_fit_leaves_the_fitted_model():
    model, public = fitted("trees", FRAME), models.PUBLIC[["known"]]
    before, rows = dict(vars(model)), open_rows(Faulty(4, raises))
    refusal(lambda: model.fit(rows[["known"]], rows["income"], X_public=public))
    assert vars(model) == before


def as_age(table):
    """Return only the columns that are renamed, so that text has the name of a number."""
    return table.select(["job", "known", "income"]).rename_columns(["age", "known", "income"])


@pytest.mark.parametrize("make", [parquet_glob, dask_frame])
def test_a_value_that_will_not_do_is_found_before_anything_is_spent(make, tmp_path):
    rows = make([*map(as_age, models.PARTS)], tmp_path)
    budget = PrivacyBudget(1, for_tests=True)
    model = unfitted("trees", budget=budget)
    public = models.PUBLIC[["years", "known"]].set_axis(["age", "known"], axis=1)
    text = refusal(
        lambda: model.fit(rows[["age", "known"]], rows["income"], X_public=public),
        NotNumbersError,
        "age",
    )
    assert "clerk" not in text
    assert len(budget.ledger) == 0
    assert not [of for of in vars(model) if of.endswith("_")]


def test_files_that_change_between_passes(tmp_path):
    budget = PrivacyBudget(10, 1e-3, for_tests=True)
    rows, (path, *_) = parquet_glob(models.PARTS, tmp_path), sorted(tmp_path.glob("*"))
    rows.n_rows  # noqa: B018
    part = models.PARTS[0]
    pq.write_table(part.set_column(5, "known", part["known"].cast(pa.float32())), path)
    for name in ("cdf", "trees"):
        refusal(lambda name=name: fitted(name, rows, budget=budget))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    model = unfitted("trees", budget=budget)
    refusal(lambda: fit(model, "trees", rows), name="Parquet files")
    assert len(budget.ledger) == 0
    with pytest.raises(NotFittedError):
        model.predict(rows[models.NUMBERS])


def test_groups_need_an_order():
    rows = open_rows(pl.from_arrow(models.TABLE).lazy().sort("age"))
    with pytest.raises(ValueError, match="Groups"):
        fit(unfitted("trees", max_rows_per_group=1), "trees", rows, groups=np.arange(models.N))
