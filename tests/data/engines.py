"""Tables of engines that only `make engines` installs, for the contract suites of rows."""

import importlib.util
import os
import shutil
import sys
from functools import cache

IBIS_BACKENDS = ["polars", "sqlite", "duckdb"] if importlib.util.find_spec("ibis") else []
"""Engines behind ibis; DuckDB of a version that ibis reads."""


def ibis_table(backend, table):
    """Return a pyarrow table as one of ibis, in a new database of an engine."""
    import ibis

    return getattr(ibis, backend).connect().create_table("people", table)


SPARK = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None


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


def spark_frame(tables):
    """Return tables of pyarrow as one DataFrame of Spark, with at least a partition for each."""
    frames = [spark_session().createDataFrame(table) for table in tables if table.num_rows]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def named(make, name, *args):
    """Return a function of a directory that calls make(*args, directory), under a name."""

    def call(directory=None):
        return make(*args, directory)

    call.__name__ = name
    return call
