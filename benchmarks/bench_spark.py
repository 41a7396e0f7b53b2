"""Compare fits on a local Spark with the same fits on Dask, alternating on two cores.

The file has the same distribution as in bench_scale.py, with row groups of 2^20 rows. Both engines
are started and warmed up with one fit before the measurement, so start-up time is excluded. The
benchmark runs in the environment of `make test-engines`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import dask.dataframe as dd
import pandas as pd
from bench_scale import DELTA, EPSILON, TEXTS, public_rows, write
from dask.distributed import Client, LocalCluster
from report import print_table

from skpublicdp import PAPQueryRelease, SemiPrivateBoostingClassifier, SemiPrivateClassifier
from skpublicdp.data import open_rows
from skpublicdp.query_release import MarginalQueries

TABLE = Path(__file__).parent / "spark.csv"
CORES = 2
TURNS = 2
DRIVER_MEMORY = "4g"
"""With Spark's default of 1 GB, the codes of partitions with 5 million rows were lost."""


def trees(rows):
    public = public_rows().drop(columns=["label", *TEXTS])
    clf = SemiPrivateClassifier(epsilon=EPSILON, random_state=0)
    clf.fit(rows.drop("label", *TEXTS), rows["label"], X_public=public)
    return str(clf.hypothesis_)


def boosting(rows):
    public = public_rows().drop(columns="label")
    clf = SemiPrivateBoostingClassifier(epsilon=EPSILON, delta=DELTA, random_state=0)
    clf.fit(rows.drop("label"), rows["label"], X_public=public)
    return clf.predict_proba(public).tobytes()


def pairs(rows):
    release = PAPQueryRelease(MarginalQueries(2), epsilon=EPSILON, delta=DELTA, random_state=0)
    release.fit(rows, X_public=public_rows())
    return release.table(["age", "label"])["fraction"].to_numpy().tobytes()


FITS = {"depth-2 trees": trees, "all pairs": pairs, "boosting": boosting}


def spark_session():
    """Return a local session with as many threads as there are Dask workers."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", DRIVER_MEMORY)
    return builder.config("spark.log.level", "OFF").getOrCreate()


def measure(n_rows):
    """Return the seconds of each fit on each engine, and whether all results are identical."""
    spark = spark_session()
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "rows.parquet")
        write(path, n_rows)
        options = {"n_workers": CORES, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster):
            frames = {
                "Spark": spark.read.parquet(path),
                "Dask": dd.read_parquet(path, split_row_groups=1),
            }
            measured = []
            for name, fit in FITS.items():
                for turn in range(TURNS + 1):  # the first one wakes the workers
                    results = set()
                    for engine, frame in frames.items():
                        start = time.perf_counter()
                        results.add(fit(open_rows(frame)))
                        measured.append((name, engine, turn, time.perf_counter() - start))
                    assert len(results) == 1, "the engines must give the same bits"
                    print(*measured[-2:], flush=True)
    table = pd.DataFrame(measured, columns=["fit", "engine", "turn", "seconds"])
    return table[table["turn"] > 0].assign(rows=n_rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    warnings.simplefilter("ignore")
    table = measure(parser.parse_args().rows)
    wide = table.pivot_table(index=["rows", "fit"], columns="engine", values="seconds")
    wide["ratio"] = wide["Spark"] / wide["Dask"]
    wide = wide.round(2).reset_index()
    wide.to_csv(TABLE, index=False)
    print_table(wide, f"Mean seconds of {TURNS} turns on {CORES} cores")


if __name__ == "__main__":
    main()
