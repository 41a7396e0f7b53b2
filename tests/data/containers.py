"""The list of containers of rows: each makes what `fit` takes from the same parts of a table."""

import importlib.util
import os
import shutil
import sys
from functools import cache, partial
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


def cut(table, cuts):
    """Return the parts of a table between consecutive positions."""
    return [table.slice(start, stop - start) for start, stop in pairwise(cuts)]


def pick(rows, names):
    """Return some columns of any container."""
    return rows.select(names) if isinstance(rows, pa.Table) else rows[names]


def numbers(table):
    """Return any table as an array."""
    if isinstance(table, pa.Table | pl.DataFrame):
        table = table.to_pandas()
    return np.asarray(table)


# Containers: functions of the parts of a table and of a directory


def pandas_frame(parts, directory=None):
    return pa.concat_tables(parts).to_pandas()


def polars_frame(parts, directory=None):
    return pl.from_arrow(pa.concat_tables(parts))


def arrow_table(parts, directory=None):
    return pa.concat_tables(parts)


def written(parts, directory):
    """Write one Parquet file for each part."""
    for i, part in enumerate(parts):
        pq.write_table(part, directory / f"{i}.parquet", row_group_size=90)
    return [directory / f"{i}.parquet" for i in range(len(parts))]


def parquet_file(parts, directory):
    return open_rows(*written([pa.concat_tables(parts)], directory))


def parquet_glob(parts, directory):
    written(parts, directory)
    return open_rows(str(directory / "*.parquet"))


def parquet_list(parts, directory):
    return open_rows(written(parts, directory))


def dataset(parts, directory):
    written(parts, directory)
    return open_rows(ds.dataset(directory))


def feather(parts, directory):
    sizes = {"max_rows_per_file": 120, "max_rows_per_group": 120}
    ds.write_dataset(pa.concat_tables(parts), directory, format="feather", **sizes)
    return open_rows(ds.dataset(directory, format="feather"))


def batch_list(parts, directory=None):
    return open_rows([batch for part in parts for batch in part.to_batches(50)])


def batch_function(parts, directory=None):
    return open_rows(lambda: iter(parts))


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


def arrow_stream(parts, directory=None):
    return open_rows(Stream(parts))


def engine_table(parts, directory=None):
    return open_rows(EngineTable(parts))


def duckdb_relation(parts, directory=None):
    return open_rows(duckdb.connect().from_arrow(pa.concat_tables(parts)))


def duckdb_sql(parts, directory=None):
    connection = duckdb.connect().register("t", pa.concat_tables(parts))
    return open_rows("select * from t", connection=connection)


def polars_lazy(parts, directory=None):
    return open_rows(polars_frame(parts).lazy())


def dask_frame(parts, directory=None):
    # a function of the number alone, so that Dask does not look into the parts
    meta = parts[0].slice(0, 0).to_pandas()
    return dd.from_map(lambda i: parts[i].to_pandas(), range(len(parts)), meta=meta)


def dask_opened(parts, directory=None):
    return open_rows(dask_frame(parts))


def ibis_table(backend, parts, directory=None):
    """Return a table of ibis in a new database of an engine."""
    import ibis

    connection = getattr(ibis, backend).connect()
    return open_rows(connection.create_table("people", pa.concat_tables(parts)))


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


def spark_union(parts):
    """Return a DataFrame of Spark with at least one partition for each part that has rows."""
    frames = [spark_session().createDataFrame(part) for part in parts if part.num_rows]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def spark_frame(parts, directory=None):
    return open_rows(spark_union(parts).repartition(3))


IN_MEMORY = {"pandas_frame", "polars_frame", "arrow_table"}
CONTAINERS = {
    make.__name__: make
    for make in (
        *(pandas_frame, polars_frame, arrow_table, parquet_file, parquet_glob, parquet_list),
        *(dataset, feather, batch_list, batch_function, arrow_stream, engine_table),
        *(duckdb_relation, duckdb_sql, polars_lazy, dask_frame, dask_opened),
        *([spark_frame] if SPARK else []),
    )
} | {f"ibis_{backend}": partial(ibis_table, backend) for backend in IBIS_BACKENDS}


# Rows and labels: functions of parts with a column "label" last, all of whole numbers


def halves(make, parts, directory):
    """Return rows and labels of one container."""
    rows, names = make(parts, directory), parts[0].column_names
    return pick(rows, names[:-1]), rows["label"]


def array(parts, directory=None):
    rows = numbers(pa.concat_tables(parts))
    return rows[:, :-1], rows[:, -1]


def memory_map(parts, directory):
    np.save(directory / "rows.npy", numbers(pa.concat_tables(parts)))
    rows = np.load(directory / "rows.npy", mmap_mode="r")
    return rows[:, :-1], rows[:, -1]


def parquet_and_batches(parts, directory):
    return parquet_glob(parts, directory).drop("label"), open_rows(parts)[["label"]]


def dataset_and_column(parts, directory):
    return dataset(parts, directory).drop("label"), pa.concat_tables(parts)["label"]


def duckdb_and_array(parts, directory):
    written(parts, directory)
    columns = ", ".join(parts[0].column_names[:-1])
    sql = f"select {columns} from '{directory}/*.parquet'"
    return open_rows(sql, connection=duckdb.connect()), array(parts)[1]


def duckdb_csv(parts, directory):
    pandas_frame(parts).to_csv(directory / "rows.csv", index=False)
    rows = open_rows(f"from '{directory}/rows.csv'", connection=duckdb.connect())
    return rows.drop("label"), rows["label"]


def polars_join(parts, directory=None):
    frame = polars_frame(parts).lazy()
    rows = open_rows(frame.join(frame.select("pay"), on="pay", maintain_order="left"))
    return rows.drop("label"), rows["label"]


def dask_parquet(parts, directory):
    """Dask would read several of these files at once where few columns are wanted."""
    written(parts, directory)
    frame = dd.read_parquet(directory)
    return frame.drop(columns="label"), frame["label"]


def dask_and_array(parts, directory=None):
    return dask_frame(parts).drop(columns="label"), array(parts)[1]


def dask_unequal(parts, directory=None):
    labels = dd.from_pandas(pandas_frame(parts), npartitions=3)["label"]
    return dask_frame(parts).drop(columns="label"), labels


def dask_array(parts, directory=None):
    rows = da.from_array(numbers(pa.concat_tables(parts)), chunks=(70, 2))
    return rows[:, :-1], rows[:, -1]


def dask_unknown(parts, directory=None):
    rows = dask_frame(parts).values
    return rows[:, :-1], rows[:, -1]


def spark_files(parts, directory):
    written(parts, directory)
    rows = open_rows(spark_session().read.parquet(str(directory)))
    return rows.drop("label"), rows["label"]


def spark_join(parts, directory=None):
    """A shuffle, whose partitions depend on the sizes of the columns that are read."""
    frame = spark_union(parts)
    joined = frame.join(frame.select("pay").distinct(), "pay").select(*parts[0].column_names)
    rows = open_rows(joined)
    return rows.drop("label"), rows["label"]


LABELLED = {name: partial(halves, make) for name, make in CONTAINERS.items()} | {
    make.__name__: make
    for make in (
        *(array, memory_map, parquet_and_batches, dataset_and_column, duckdb_and_array),
        *(duckdb_csv, polars_join, dask_parquet, dask_and_array, dask_unequal, dask_array),
        *(dask_unknown, *([spark_files, spark_join] if SPARK else [])),
    )
}
UNORDERED = {
    name
    for name in LABELLED
    if name in ("arrow_stream", "engine_table", "polars_join") or name.startswith(("ibis", "spark"))
}
"""Containers that promise no order of their rows, so that positions mean nothing."""
