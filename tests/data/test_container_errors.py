"""One contract for every fault of a container: one exception, which quotes no row.

Of a message, tests look for the name of the container, file or column alone.
"""

import os
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
    CONTAINERS,
    PARTS,
    SUMS,
    TABLE,
    Killer,
    N,
    Stream,
    cut,
    dd,
    duckdb,
    needs_spark,
    pa,
    parquet,
    pl,
    pq,
    relation,
    spark_frame,
    split,
    sums,
)
from tests.data.internals import NotNumbersError, as_rows, optional_imports
from tests.data.models import FITS, FRAME, fit, fitted, unfitted

pytestmark = [
    pytest.mark.usefixtures("small_chunks"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
]

SECRET = "73019"
FIRST, SECOND = cut(TABLE, (0, 250, N))
FEW = TABLE.slice(0, 9)


def fold(rows):
    return as_rows(rows).fold(heights)


def heights(chunk):
    return np.array([len(chunk.X)])


def read(rows):
    return list(as_rows(rows).map(heights))


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


class Passes:
    """Tables that a function makes of the number of earlier passes, as batches or a stream.

    The first pass is for the schema, and the second counts rows.
    """

    def __init__(self, tables):
        self.tables, self.passes = tables, count()

    def __call__(self):
        yield from self.tables(next(self.passes))


class PassesOfStream(Passes):
    def __arrow_c_stream__(self, requested_schema=None):
        tables = self()
        first = next(tables)
        batches = (batch for table in chain([first], tables) for batch in table.to_batches())
        reader = pa.RecordBatchReader.from_batches(first.schema, batches)
        return reader.__arrow_c_stream__(requested_schema)


SOURCES = {"record batches": Passes, "Arrow stream": PassesOfStream}


def fails(n_passes, error=RuntimeError):
    """Return tables that fail in the middle, after some passes without a fault."""

    def tables(n):
        yield FIRST
        if n >= n_passes:
            raise error(f"cannot read {SECRET}")
        yield SECOND

    return tables


class HandedOutOnce(Stream):
    """A stream that is handed out once, as by nanoarrow."""

    def __arrow_c_stream__(self, requested_schema=None):
        if not self.parts:
            raise ValueError(f"released after {SECRET}")
        stream, self.parts = super().__arrow_c_stream__(requested_schema), []
        return stream


def failing_partition():
    def part(i):
        if i == 3:
            raise RuntimeError(f"cannot read {SECRET}")
        return PARTS[i].to_pandas()

    return dd.from_map(part, range(6), meta=FEW.to_pandas())


def text_as_numbers():
    """DuckDB's own message would quote the value."""
    connection = duckdb.connect()
    connection.sql("create table t as select range::text as a from range(600)")
    connection.sql(f"insert into t values ('x{SECRET}')")
    return connection.sql("select a::int as a from t")


def text_as_numbers_in_spark():
    frame = spark_frame(PARTS).selectExpr(f"if(pay = 300, 'x{SECRET}', pay) as pay")
    return frame.selectExpr("cast(pay as long)")


def same_iterator():
    same = iter([TABLE, TABLE])
    return lambda: same


def cases(faults):
    """Return the parameters of a table of faults; those of Spark need it."""
    return [
        pytest.param(*fault, id=name, marks=[needs_spark] * name.startswith("spark"))
        for name, fault in faults.items()
    ]


UNREADABLE = {
    "batches": (lambda: Passes(fails(1)), "record batches"),
    "batches that panic": (lambda: Passes(fails(1, Panic)), "record batches"),
    "the same iterator": (same_iterator, ""),
    "stream": (lambda: PassesOfStream(fails(2)), "Arrow stream"),
    "stream that is handed out once": (lambda: HandedOutOnce(PARTS), "Arrow stream"),
    "partition": (failing_partition, "Dask collection"),
    "duckdb": (text_as_numbers, "DuckDB relation"),
    "spark": (text_as_numbers_in_spark, "Spark DataFrame"),
}


@pytest.mark.parametrize(("make", "kind"), cases(UNREADABLE))
def test_a_source_that_fails_in_the_middle_is_one_error(make, kind):
    for use in (fold, read):
        refusal(lambda use=use: use(make()), name=kind)


def test_labels_that_fail_in_the_middle():
    labels = Passes(fails(2))
    rows = as_rows(TABLE, lambda: (part.select(["label"]) for part in labels()))
    for n_jobs in (1, 2):
        refusal(lambda n_jobs=n_jobs: rows.fold(heights, n_jobs=n_jobs))


def test_duckdb_is_usable_after_a_failure():
    connection = duckdb.connect()
    connection.sql(f"create table t as select 'x{SECRET}' as a")
    refusal(lambda: fold(connection.sql("select a::int as a from t")))
    assert connection.sql("select 1 as one").fetchall() == [(1,)]


def test_a_file_cut_short_after_it_was_opened(tmp_path):
    rows = open_rows(parquet([TABLE], tmp_path))
    assert fold(rows) == N
    os.truncate(tmp_path / "0.parquet", (tmp_path / "0.parquet").stat().st_size // 2)
    refusal(lambda: fold(rows), name="Parquet files")


# Functions of chunks that fail


def quoting(chunk):
    warnings.warn(f"odd value {SECRET}", UserWarning, stacklevel=1)
    raise ValueError(f"odd value {SECRET}")


def panicking(chunk):
    raise Panic(f"odd value {SECRET}")


def refusing(chunk):
    raise NotNumbersError("Column 'a' must contain numbers.")


@pytest.mark.parametrize(
    "name", ["arrow", "batches", "dask", *(n for n in CONTAINERS if n == "spark")]
)
def test_a_chunk_that_fails_is_one_error(name):
    rows = as_rows(*split(CONTAINERS[name](PARTS, None)))
    for n_jobs in (1, 2):
        text = refusal(lambda n_jobs=n_jobs: rows.fold(quoting, n_jobs=n_jobs))
        assert refusal(lambda n_jobs=n_jobs: rows.fold(panicking, n_jobs=n_jobs)) == text
        refusal(lambda n_jobs=n_jobs: rows.fold(refusing, n_jobs=n_jobs), NotNumbersError, "'a'")
    refusal(lambda: list(rows.map(refusing)), NotNumbersError, "'a'")
    assert refusal(lambda: list(rows.map(quoting))) == text
    np.testing.assert_array_equal(rows.fold(sums), SUMS)


def test_the_first_failure_in_the_order_of_rows_counts():
    """Which thread is faster must not show in the message."""

    def slow_first(chunk):
        if chunk.start == 0:
            for _ in range(10**5):
                pass
        raise NotNumbersError(f"Chunk {chunk.start} is bad.")

    for _ in range(5):
        refusal(lambda: as_rows(TABLE).fold(slow_first, n_jobs=4), NotNumbersError, "Chunk 0 ")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_passes(n_jobs):
    def interrupted(chunk):
        raise KeyboardInterrupt

    rows = as_rows(Passes(fails(2, KeyboardInterrupt)))
    assert rows.n_rows == N
    with pytest.raises(KeyboardInterrupt):
        as_rows(TABLE).fold(interrupted, n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        rows.fold(heights, n_jobs=n_jobs)


# Other columns or rows than were declared or counted


def changed(**columns):
    """Return few rows in which some columns have other values."""
    return pa.table({name: FEW[name] for name in FEW.column_names} | columns)


OTHERS = {
    "another type": changed(pay=np.arange(9) / 2),
    "text": changed(pay=pa.array(list("abcdefghi"))),
    "another name": FEW.rename_columns(["age", "hours", "wage", "label"]),
    "one fewer": FEW.drop_columns("pay"),
    "one more": changed(more=np.arange(9)),
    "another order": FEW.select(FEW.column_names[::-1]),
    # types that would convert without a loss
    "whole floats": changed(pay=np.arange(9.0)),
    "small integers": changed(pay=np.arange(9, dtype=np.int8)),
}


def other_partition(other):
    frames = [TABLE.to_pandas(), other.to_pandas()]
    return dd.from_map(lambda i: frames[i], range(2), meta=frames[0][:0])


SCHEMAS = {
    # columns of files may have another order, and pandas has types of its own
    "1.parquet": (lambda other, d: open_rows(parquet([TABLE, other], d)), {"another order"}),
    "Dask collection": (
        lambda other, d: other_partition(other),
        {"another order", "another type", "whole floats", "small integers"},
    ),
    "record batches": (lambda other, d: [TABLE, other], set()),
    # columns that are not asked for may come
    "Arrow stream": (
        lambda other, d: PassesOfStream(lambda n: iter([other if n > 1 else FEW])),
        {"another order", "one more"},
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_columns_that_change_are_refused(name, tmp_path):
    make, allowed = SCHEMAS[name]
    for what in OTHERS.keys() - allowed:
        (tmp_path / what).mkdir()
        refusal(lambda what=what: fold(make(OTHERS[what], tmp_path / what)), name=name)


def test_columns_that_may_change(tmp_path):
    turned = SECOND.select(TABLE.column_names[::-1])
    rows = as_rows(*split(open_rows(parquet([FIRST, turned], tmp_path))))
    np.testing.assert_array_equal(rows.fold(sums), SUMS)
    make, _ = SCHEMAS["Arrow stream"]
    rows = as_rows(*split(open_rows(make(OTHERS["one more"], tmp_path))))
    np.testing.assert_array_equal(rows.fold(sums), as_rows(*split(FEW)).fold(sums))


PASSES = {
    "fewer": lambda n: [TABLE, FEW][: 2 - (n > 1)],
    "more": lambda n: [TABLE, FEW][: 1 + (n > 1)],
    "none": lambda n: [TABLE.slice(0, N * (n < 2))],  # as of a stream that was read to its end
}


@pytest.mark.parametrize("change", PASSES)
@pytest.mark.parametrize("kind", SOURCES)
def test_rows_that_are_not_those_that_were_counted(kind, change):
    refusal(lambda: fold(SOURCES[kind](PASSES[change])), name=kind[1:])


def test_a_partition_whose_rows_are_not_those_that_were_counted():
    calls = []

    def part(i):
        calls.append(i)
        return PARTS[i].slice(i == 3 and calls.count(3) > 1).to_pandas()

    refusal(lambda: fold(dd.from_map(part, range(6), meta=FEW.to_pandas())))


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

    frame = spark_frame(PARTS)
    rows = as_rows(frame.mapInArrow(changing, frame.schema))
    assert rows.n_rows == N
    open(switch, "w").close()
    for use in (lambda: rows.fold(heights), lambda: read(rows)):
        refusal(use, name="Spark DataFrame")


# What cannot be opened


def cut_short(directory):
    for name in "xy":
        pq.write_table(TABLE, directory / f"{name}.parquet")
    os.truncate(directory / "y.parquet", 900)
    return str(directory / "*.parquet")


def nested(directory):
    (directory / "sub").mkdir()
    for path in (directory, directory / "sub"):
        pq.write_table(TABLE, path / "x.parquet")
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
    "iterator": (lambda d: iter([TABLE]), ValueError, "iterator"),
    "generator": (lambda d: (part for part in [TABLE]), ValueError, "iterator"),
    "reader": (lambda d: TABLE.to_reader(), ValueError, "iterator"),
    "map": (lambda d: map(TABLE.slice, [0]), ValueError, "iterator"),
    "no batches": (lambda d: lambda: iter([]), ReadError, "batch"),
    "batches of dicts": (lambda d: lambda: iter([{"a": SECRET}]), ReadError, "dict"),
    "a number": (lambda d: lambda: 3, ReadError, "record batches"),
    "a name twice": (twice, ValueError, "'a'"),
    "spark names": (
        lambda d: spark_frame(PARTS).selectExpr("age as a", "pay as a"),
        ValueError,
        "'a'",
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
    refusal(lambda: open_rows([TABLE], connection=connection), TypeError, "list")


def relations():
    rows = relation(PARTS)
    return rows.project("pay"), rows.project("label")


WRONG_USES = {
    "a column for the table": (lambda d: as_rows(open_rows([TABLE])["age"]), ValueError, "'age'"),
    "a table for the labels": (lambda d: as_rows([TABLE], [TABLE]), ValueError, "y"),
    "two relations": (lambda d: as_rows(*relations()), ValueError, "DuckDB"),
    "fewer labels": (lambda d: as_rows(PARTS, np.zeros(N - 1)), ValueError, f"{N}"),
    "fewer batches": (lambda d: as_rows(PARTS, [FEW.select(["label"])]), ValueError, f"{N}"),
    "spark positions": (lambda d: as_rows(spark_frame(PARTS)).take([0]), ValueError, "Spark"),
}


@pytest.mark.parametrize(("use", "error", "name"), cases(WRONG_USES))
def test_what_rows_are_not_used_for(use, error, name, tmp_path):
    refusal(lambda: use(tmp_path), error, name)


def test_folds_add_integers_alone():
    with pytest.raises(TypeError):
        as_rows(TABLE).fold(lambda chunk: heights(chunk) / 2)


@needs_spark
def test_names_of_spark_may_be_anything():
    frame = spark_frame(PARTS).selectExpr("pay as `odd.name`", "label as `with``tick`")
    (found,) = as_rows(frame).fold(
        lambda chunk: (np.asarray(chunk.X).sum(axis=0),), columns=["with`tick", "odd.name"]
    )
    assert found.tolist() == [sum(TABLE["label"].to_pylist()), N * (N - 1) // 2]


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "arrow"), ("dask", "dask")])
def test_a_missing_package_is_named(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"\.\[{extra}\]"):
        getattr(optional_imports, module)()


@needs_spark
def test_a_spark_worker_killed_in_the_middle_counts_no_row_twice(tmp_path):
    rows = as_rows(*split(open_rows(spark_frame(PARTS).repartition(3))))
    np.testing.assert_array_equal(rows.fold(Killer(tmp_path, 1)), SUMS)
    assert len(os.listdir(tmp_path)) == 1
    np.testing.assert_array_equal(np.sum(list(rows.map(Killer(tmp_path, 2))), axis=0), SUMS)
    assert len(os.listdir(tmp_path)) == 2
    refusal(lambda: rows.fold(Killer(tmp_path, 99)), name="Spark DataFrame")
    np.testing.assert_array_equal(rows.fold(sums), SUMS)


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
        for number, batch in enumerate(models.TABLE.to_batches(70)):
            is_broken = self.passes == self.breaks_in and number == 3
            yield self.how(batch) if is_broken else batch


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((name, raises) for name in FITS),
        *(("boosting", how) for how in (other_type, lacks_a_column, shorter)),
        ("cdf", shorter),
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


@pytest.mark.parametrize("name", ["parquet", "dask"])
def test_a_value_that_will_not_do_is_found_before_anything_is_spent(name, tmp_path):
    rows = CONTAINERS[name]([*map(as_age, models.PARTS)], tmp_path)
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
    rows, path = open_rows(parquet(models.PARTS, tmp_path)), tmp_path / "0.parquet"
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
