"""The one list of containers of rows, each made of the same parts of a table."""

import importlib.util
import os
import shutil
import signal
import sys
from functools import cache, partial
from glob import glob
from itertools import pairwise

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")
duckdb = pytest.importorskip("duckdb")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from skpublicdp.data import open_rows  # noqa: E402

IBIS_BACKENDS = ["polars", "sqlite", "duckdb"] if importlib.util.find_spec("ibis") else []
"""Engines behind ibis, which only `make engines` installs, with a DuckDB that ibis reads."""
SPARK = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
needs_spark = pytest.mark.skipif(not SPARK, reason="needs pyspark and Java")


def cut(table, cuts):
    """Return the parts of a table between consecutive positions."""
    return [table.slice(start, stop - start) for start, stop in pairwise(cuts)]


def pick(rows, names):
    """Return some columns of any container."""
    return rows.select(names) if isinstance(rows, pa.Table) else rows[names]


def numbers(table):
    """Return any table as an array."""
    return np.asarray(table.to_pandas() if isinstance(table, pa.Table | pl.DataFrame) else table)


def whole_numbers(n):
    """Integers that float64 holds, one of them another in every row, and a label."""
    rng = np.random.default_rng(0)
    age, hours, pay = rng.integers(-5, 90, n), rng.integers(-5, 90, n), rng.permutation(n)
    label = (age + rng.integers(0, 40, n) > 50) * 1
    return pa.table({"age": age, "hours": hours, "pay": pay, "label": label})


N = 400
TABLE = whole_numbers(N)
NAMES, DATA = tuple(TABLE.column_names), numbers(TABLE)
PARTS = cut(TABLE, (0, 0, 50, 51, 240, 240, N))
"""Parts of the table, of which two have no rows and one has a single row."""


def whole(parts):
    return pa.concat_tables(parts)


def parquet(parts, directory, pattern="*.parquet"):
    """Write one Parquet file for each part, and return a pattern of their paths."""
    for i, part in enumerate(parts):
        pq.write_table(part, directory / f"{i}.parquet", row_group_size=90)
    return f"{directory}/{pattern}"


def dataset(parts, directory, file_format="parquet"):
    sizes = {"max_rows_per_file": 120, "max_rows_per_group": 120}
    ds.write_dataset(whole(parts), directory, format=file_format, **sizes)
    return ds.dataset(directory, format=file_format)


class Stream:
    """A table with the PyCapsule interface of Arrow, of which each call is a new stream."""

    def __init__(self, parts):
        self.parts = parts

    def batches(self):
        return [batch for part in self.parts for batch in part.to_batches(90)]

    def __arrow_c_stream__(self, requested_schema=None):
        reader = pa.RecordBatchReader.from_batches(self.parts[0].schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)


class EngineTable(Stream):
    """A table with the method of ibis, in another order on each pass; its stream is too large."""

    def __init__(self, parts):
        super().__init__(parts)
        self.rng = np.random.default_rng(0)

    def __arrow_c_stream__(self, requested_schema=None):
        raise MemoryError

    def to_pyarrow_batches(self):
        batches = self.batches()
        self.rng.shuffle(batches)
        return pa.RecordBatchReader.from_batches(self.parts[0].schema, batches)


def relation(parts):
    return duckdb.connect().from_arrow(whole(parts))


def dask_frame(parts):
    meta = parts[0].slice(0, 0).to_pandas()
    return dd.from_map(lambda i: parts[i].to_pandas(), range(len(parts)), meta=meta)


def ibis_table(backend, parts, directory=None):
    """Return a table of ibis in a new database of an engine."""
    import ibis

    return open_rows(getattr(ibis, backend).connect().create_table("people", whole(parts)))


@cache
def spark_session():
    """Return a local Spark session of two threads, which repeats a task that fails.

    It is one of Spark Connect if the environment variable SPARK_API_MODE is "connect".
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    is_connect = os.environ.get("SPARK_API_MODE") == "connect"
    builder = SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.shuffle.partitions", "3")
    if is_connect:
        return builder.remote("local[2,3]").getOrCreate()
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    return builder.master("local[2,3]").getOrCreate()


def spark_frame(parts):
    """Return a DataFrame of Spark with at least one partition for each part that has rows."""
    first, *others = (spark_session().createDataFrame(part) for part in parts if part.num_rows)
    for frame in others:
        first = first.unionAll(frame)
    return first


def spark_join(parts):
    """A shuffle, whose partitions depend on the sizes of the columns that are read."""
    frame = spark_frame(parts)
    return frame.join(frame.select("pay").distinct(), "pay").select(*parts[0].column_names)


CONTAINERS = {
    "pandas": lambda parts, d: whole(parts).to_pandas(),
    "polars": lambda parts, d: pl.from_arrow(whole(parts)),
    "arrow": lambda parts, d: whole(parts),
    "parquet": lambda parts, d: open_rows(parquet(parts, d)),
    "dataset": lambda parts, d: open_rows(dataset(parts, d)),
    "batches": lambda parts, d: open_rows(lambda: iter(parts)),
    "engine": lambda parts, d: open_rows(EngineTable(parts)),
    "duckdb": lambda parts, d: open_rows(relation(parts)),
    "lazy": lambda parts, d: open_rows(pl.from_arrow(whole(parts)).lazy()),
    "dask": lambda parts, d: dask_frame(parts),
    **{f"ibis_{backend}": partial(ibis_table, backend) for backend in IBIS_BACKENDS},
    **({"spark": lambda parts, d: open_rows(spark_frame(parts).repartition(3))} if SPARK else {}),
}
"""Functions of the parts of any table, and of a directory for files."""


def split(rows, label=None):
    """Return features and labels of the whole numbers in any container."""
    if hasattr(rows, "dtype"):
        X, y = rows[:, :-1], rows[:, -1]
    else:
        X, y = pick(rows, list(NAMES[:-1])), rows[NAMES[-1]]
    return X, y if label is None else label


def mapped(directory):
    np.save(directory / "rows.npy", DATA)
    return np.load(directory / "rows.npy", mmap_mode="r")


def sql(path):
    return open_rows(f"from '{path}'", connection=duckdb.connect())


def csv(directory):
    TABLE.to_pandas().to_csv(directory / "rows.csv", index=False)
    return directory / "rows.csv"


def joined(frame):
    return frame.join(frame.select("pay"), on="pay", maintain_order="left")


BATCHES = [batch for part in PARTS for batch in part.to_batches(50)]
OTHER_FORMS = {
    "array": lambda d: split(DATA),
    "memory_map": lambda d: split(mapped(d)),
    "parquet_file": lambda d: split(open_rows(parquet([TABLE], d, "0.parquet"))),
    "parquet_list": lambda d: split(open_rows(sorted(glob(parquet(PARTS, d))))),
    "parquet_files": lambda d: split(open_rows(ds.dataset(parquet(PARTS, d, "")))),
    "feather": lambda d: split(open_rows(dataset(PARTS, d, "feather"))),
    "batch_list": lambda d: split(open_rows(BATCHES)),
    "stream": lambda d: split(open_rows(Stream(PARTS))),
    "parquet_and_batches": lambda d: split(
        open_rows(parquet(PARTS, d)), open_rows(PARTS)[["label"]]
    ),
    "dataset_and_column": lambda d: split(open_rows(dataset(PARTS, d)), TABLE["label"]),
    "duckdb_sql": lambda d: split(sql(parquet([TABLE], d))),
    "duckdb_csv": lambda d: split(sql(csv(d))),
    "duckdb_and_array": lambda d: split(sql(parquet(PARTS, d)), DATA[:, 3]),
    "lazy_join": lambda d: split(open_rows(joined(pl.from_arrow(TABLE).lazy()))),
    "dask_opened": lambda d: split(open_rows(dask_frame(PARTS))),
    # Dask would read several of these files at once where few columns are wanted
    "dask_parquet": lambda d: split(dd.read_parquet(parquet(PARTS, d))),
    "dask_and_array": lambda d: split(dask_frame(PARTS), DATA[:, 3]),
    "dask_unequal": lambda d: split(dask_frame(PARTS), dask_frame([TABLE])["label"]),
    "dask_array": lambda d: split(da.from_array(DATA, chunks=(70, 2))),
    "dask_unknown": lambda d: split(dask_frame(PARTS).values),
}
SPARK_FORMS = {
    "spark_files": lambda d: split(open_rows(spark_session().read.parquet(parquet(PARTS, d, "")))),
    "spark_join": lambda d: split(open_rows(spark_join(PARTS))),
}
LABELLED = {
    **{name: lambda d, make=make: split(make(PARTS, d)) for name, make in CONTAINERS.items()},
    **OTHER_FORMS,
    **(SPARK_FORMS if SPARK else {}),
}
"""Functions of a directory, which return features and labels of the whole numbers."""
IN_MEMORY = {"pandas", "polars", "arrow"}
UNORDERED = {"engine", "stream", "lazy_join"} | {
    name for name in LABELLED if name.startswith(("ibis", "spark"))
}
"""Containers that promise no order of their rows, so that positions mean nothing."""


def same(chunk):
    return chunk


def sums(chunk):
    """Return the sums of the columns of a chunk, and of all columns times the label."""
    X, y = numbers(chunk.X), np.asarray(chunk.y)
    return np.array([X.sum(axis=0), (X * y[:, None]).sum(axis=0)]).astype(np.int64)


SUMS = np.array([DATA[:, :3].sum(axis=0), DATA[DATA[:, 3] == 1, :3].sum(axis=0)])


class Killer:
    """Kills the process that works on one of the rows, as often as it is told."""

    def __init__(self, directory, times):
        self.directory, self.times = str(directory), times

    def __call__(self, chunk):
        deaths = len(os.listdir(self.directory))
        if 300 in np.asarray(chunk.X["pay"]) and deaths < self.times:
            open(os.path.join(self.directory, str(deaths)), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return sums(chunk)
