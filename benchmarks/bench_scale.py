"""Measure time and memory of fits that stream tables larger than memory from Parquet.

Each measurement runs in a separate process, which reports the increase of its anonymous memory
during the fit. For comparison, a database computes one count per group of each column of the same
file. Files contain simulated rows, and are written in chunks to a temporary directory and then
deleted. Run the benchmark on an idle machine, because all times are wall-clock times.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from report import line, print_lines, print_table, save_picture, save_table

from skpublicdp import (
    PAPQueryRelease,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.data import open_rows
from skpublicdp.query_release import MarginalQueries, ThresholdQueries

SIZES = (1_000_000, 10_000_000, 100_000_000)
PIECE = 1 << 20
BYTES_PER_ROW = 40
"""Upper bound on the file size per row."""

MOST_DISK = 16e9
PUBLIC_ROWS = 2000
EPSILON, DELTA = 1.0, 1e-9
CORES = os.cpu_count() or 1
DASK_ROWS, TURNS = 64 * PIECE, 5  # as many whole row groups for each worker
MEGABYTE = 1e6
PROCESSES = "processes of their own"
DATABASE = "DuckDB, counts of each column"

JOBS = [f"job {code}" for code in range(12)]
TOWNS = [f"town {code}" for code in range(40)]
TEXTS = ["job", "town"]


def people(generator, n):
    """Draw rows of ten columns: numbers, small integers, strings, and a label that uses all."""
    age = generator.integers(17, 91, n).astype(np.int8)
    hours = generator.integers(1, 100, n).astype(np.int16)
    children = np.minimum(generator.geometric(0.5, n) - 1, 9).astype(np.int8)
    income = np.exp(generator.normal(size=n, scale=0.8)).round(2).astype(np.float32)
    wealth = generator.normal(size=n).round(2).astype(np.float32)
    height = generator.normal(size=n).round(3)
    luck = generator.random(n).round(3)
    job = generator.integers(0, len(JOBS), n).astype(np.int8)
    town = np.minimum(generator.geometric(0.08, n) - 1, len(TOWNS) - 1).astype(np.int8)
    of_job = np.random.default_rng(7).normal(size=len(JOBS), scale=0.6)
    logit = np.sin(age / 12) + 0.02 * (hours - 50) * (1 - 2 * (children > 1)) + of_job[job]
    logit += 0.8 * np.log(income + 0.01) * (wealth > 0) + 0.5 * height * (town % 2)
    label = (generator.random(n) < 1 / (1 + np.exp(0.3 * height**2 - logit))).astype(np.int8)
    numbers = {"age": age, "hours": hours, "children": children, "income": income}
    numbers |= {"wealth": wealth, "height": height, "luck": luck}
    texts = {
        "job": pa.DictionaryArray.from_arrays(pa.array(job), pa.array(JOBS)),
        "town": pa.DictionaryArray.from_arrays(pa.array(town), pa.array(TOWNS)).cast(pa.string()),
    }
    return pa.table(numbers | texts | {"label": label})


def write(path, n):
    """Write a file in chunks."""
    generator = np.random.default_rng(0)
    with pq.ParquetWriter(path, people(generator, 1).schema) as writer:
        for start in range(0, n, PIECE):
            writer.write_table(people(generator, min(PIECE, n - start)))


def public_rows():
    """Return rows from the same distribution as a data frame."""
    frame = people(np.random.default_rng(99), PUBLIC_ROWS).to_pandas()
    return frame.astype(dict.fromkeys(TEXTS, str))


def trees(rows, jobs):
    X_public = public_rows().drop(columns=["label", *TEXTS])
    clf = SemiPrivateClassifier(epsilon=EPSILON, random_state=0, n_jobs=jobs)
    clf.fit(rows.drop("label", *TEXTS), rows["label"], X_public=X_public)


def boosting(rows, jobs):
    clf = SemiPrivateBoostingClassifier(epsilon=EPSILON, delta=DELTA, random_state=0, n_jobs=jobs)
    clf.fit(rows.drop("label"), rows["label"], X_public=public_rows().drop(columns="label"))


def pairs(rows, jobs):
    release = PAPQueryRelease(
        MarginalQueries(2), epsilon=EPSILON, delta=DELTA, random_state=0, n_jobs=jobs
    )
    release.fit(rows, X_public=public_rows())


def cdf(rows, jobs):
    release = PAPQueryRelease(
        ThresholdQueries(), epsilon=EPSILON, delta=DELTA, random_state=0, n_jobs=jobs
    )
    release.fit(rows[["income"]], X_public=public_rows()[["income"]])


FITS = {"depth-2 trees": trees, "boosting": boosting, "all pairs": pairs, "one CDF": cdf}


def fit(name, path):
    FITS[name](open_rows(path), CORES)


def database(path):
    """Count the rows in each group of each column, one column at a time."""
    import duckdb

    connection = duckdb.connect(config={"threads": CORES})
    for column in people(np.random.default_rng(0), 1).column_names:
        connection.execute(f"SELECT {column}, count(*) FROM '{path}' GROUP BY 1").fetchall()


def mapped(path):
    """Fit an existing memory map of ten float32 columns."""
    X = np.memmap(path, dtype=np.float32, mode="r").reshape(-1, 10)
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int8)
    generator = np.random.default_rng(9)
    clf = SemiPrivateBoostingClassifier(epsilon=EPSILON, delta=DELTA, random_state=0, n_jobs=CORES)
    clf.fit(X, y, X_public=generator.normal(size=(PUBLIC_ROWS, 10)))


def on_dask(path):
    """Fit depth-2 trees and release all pairs, alternating between one and two workers.

    Each turn uses a new cluster, because an idle cluster takes a twentieth of a core.
    """
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    def with_trees(frame):
        clf = SemiPrivateClassifier(epsilon=EPSILON, random_state=0)
        clf.fit(frame[names], frame["label"], X_public=public)

    def with_pairs(frame):
        release = PAPQueryRelease(MarginalQueries(2), epsilon=EPSILON, delta=DELTA, random_state=0)
        release.fit(frame[names], X_public=public)

    frame, public = dd.read_parquet(path, split_row_groups=1), public_rows()
    names = [name for name in public if name not in {"label", *TEXTS}]
    public = public[names]

    def seconds(workers):
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster):
            with_trees(frame.partitions[: 2 * workers])  # wakes the workers
            for name, action in (("depth-2 trees", with_trees), ("all pairs", with_pairs)):
                start = time.perf_counter()
                action(frame)
                yield (name, workers), time.perf_counter() - start

    return [dict([*seconds(1), *seconds(2)]) for _ in range(TURNS)]


def anonymous():
    """Return the anonymous memory of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])


def watched(results, action, args):
    """Run a function, and put its time in seconds and increase in anonymous memory into a queue."""
    warnings.simplefilter("ignore")
    start, highest, ended = anonymous(), [0], threading.Event()

    def look():
        while not ended.wait(0.01):
            highest[0] = max(highest[0], anonymous())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    begun, spent = time.perf_counter(), time.process_time()
    found = action(*args)
    seconds, spent = time.perf_counter() - begun, time.process_time() - spent
    ended.set()
    watcher.join()
    results.put((seconds, spent, (highest[0] - start) / MEGABYTE, found))


def measure(action, *args):
    """Run a function in a separate process."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=watched, args=(results, action, args))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{action.__name__} failed.")
    return results.get()


def at_size(n, directory):
    """Run all measurements on one file."""
    path = str(directory / f"{n}.parquet")
    write(path, n)
    gigabytes = os.path.getsize(path) / 1e9
    measure(database, path)  # the file is in the cache from now on
    seconds, spent, memory, _ = measure(database, path)
    rows = [(DATABASE, n, seconds, spent, memory, 1.0)]
    for name in FITS:
        took, spent, memory, _ = measure(fit, name, path)
        rows.append((name, n, took, spent, memory, took / seconds))
        print(
            f"{name}, {n:,} rows: {took:.1f} s ({spent:.1f} s of processors), {memory:.0f} MB; "
            f"DuckDB {seconds:.2f} s",
            flush=True,
        )
    os.remove(path)
    names = ["what", "rows", "seconds", "cpu_seconds", "anonymous_mb", "of_duckdb"]
    return pd.DataFrame(rows, columns=names).assign(file_gb=gigabytes)


def alone(path, turns):
    """Fit depth-2 trees with one thread whenever this process has its turn."""
    trees(open_rows(path), 1)
    for all_set in turns:
        all_set.wait()
        trees(open_rows(path), 1)
        all_set.wait()


def side_by_side(path):
    """Return fit times in seconds, alternating between one process and two parallel processes."""
    context = multiprocessing.get_context("spawn")
    by_one = [context.Barrier(2) for _ in range(TURNS)]
    by_two = [context.Barrier(3) for _ in range(TURNS)]
    orders = [[b for pair in zip(by_one, by_two, strict=True) for b in pair], by_two]
    processes = [context.Process(target=alone, args=(path, turns)) for turns in orders]
    for process in processes:
        process.start()

    def seconds(all_set):
        all_set.wait()
        start = time.perf_counter()
        all_set.wait()
        return time.perf_counter() - start

    found = [(seconds(one), seconds(two)) for one, two in zip(by_one, by_two, strict=True)]
    for process in processes:
        process.join()
    return np.array(found)


def in_turns(path):
    """Return the speedup of two workers, and of two independent processes."""
    seconds = pd.DataFrame(measure(on_dask, path)[-1])
    one, two = side_by_side(path).T
    seconds[PROCESSES, 1], seconds[PROCESSES, 2] = one, two / 2
    seconds.columns = pd.MultiIndex.from_tuples(seconds.columns)
    print(seconds.round(2).to_string(), flush=True)
    ratios = seconds.xs(1, axis=1, level=1) / seconds.xs(2, axis=1, level=1)
    return pd.DataFrame({"mean": ratios.mean(), "error": ratios.sem()})


def in_memory(n, directory):
    """Fit a memory map of n rows."""
    path = directory / "mapped"
    table = np.memmap(path, dtype=np.float32, mode="w+", shape=(n, 10))
    generator = np.random.default_rng(0)
    for start in range(0, n, PIECE):
        part = table[start : start + PIECE]
        part[:] = generator.normal(size=part.shape)
    table.flush()
    del table
    found = measure(mapped, str(path))
    os.remove(path)
    return found


def lines_of(table, workers, memory_map, n_mapped):
    """Compare the figures with their targets."""
    sizes = sorted(table["rows"].unique())
    largest = table[table["rows"] == sizes[-1]].set_index("what")
    for name in [*FITS][:3]:
        yield line(f"{name}: anonymous memory", largest.loc[name, "anonymous_mb"], 600, "MB")
        yield line(f"{name}: time beside DuckDB's", largest.loc[name, "of_duckdb"], 10, "times")
        spent = largest["cpu_seconds"]
        ratio = spent[name] / spent[DATABASE]
        yield line(f"{name}: time of processors beside DuckDB's", ratio, unit="times")
    for name in FITS:
        mine = table[table["what"] == name].set_index("rows")["seconds"]
        growth = (mine[sizes[-1]] / sizes[-1]) / (mine[sizes[0]] / sizes[0])
        yield line(f"{name}: time per row, {sizes[-1]:,} / {sizes[0]:,} rows", growth, 1.2)
    most = 2 * 10 * n_mapped / MEGABYTE + 500
    what = f"boosting in memory, {n_mapped:,} × 10 float32: anonymous memory"
    yield line(what, memory_map[2], most, "MB")
    for name, (mean, error) in workers.iterrows():
        apart = name == PROCESSES
        what = f"{name}: 2 at once against 1" if apart else f"{name}: 2 Dask workers against 1"
        what += f", {mean:.2f} less its standard error"
        yield line(what, mean - error, None if apart else 1.7, "times", at_least=True)


def picture(table):
    """Plot the time per row and the memory against the number of rows."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, part in table.groupby("what", sort=False):
        style = {} if name in FITS else {"color": "0.5", "linestyle": "--"}
        rows = part["rows"]
        axes[0].plot(rows, 1e6 * part["seconds"] / rows, marker="o", label=name, **style)
        if name in FITS:
            axes[1].plot(rows, part["anonymous_mb"], marker="o")
    axes[0].set(xscale="log", yscale="log", xlabel="rows", ylabel="microseconds per row")
    axes[1].set(xscale="log", xlabel="rows", ylabel="anonymous memory, MB", ylim=(0, 700))
    axes[1].axhline(600, color="0.5", linestyle=":")
    axes[0].legend(fontsize=8)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES, help="numbers of rows")
    parser.add_argument("--dask-rows", type=float, default=DASK_ROWS)
    parser.add_argument("--mapped-rows", type=float, default=10_000_000)
    parser.add_argument("--directory", help="where temporary files go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        room = min(MOST_DISK, 0.8 * shutil.disk_usage(directory).free)
        parts = []
        for n in sorted(map(int, options.sizes)):
            # the file, and what fits put beside it
            if n * 2 * BYTES_PER_ROW > room:
                print(f"{n:,} rows are left out: they need more disk than there is.")
                continue
            parts.append(at_size(n, directory))
        table = pd.concat(parts)
        path = str(directory / "dask.parquet")
        write(path, int(options.dask_rows))
        workers = in_turns(path)
        os.remove(path)
        n_mapped = int(options.mapped_rows)
        memory_map = in_memory(n_mapped, directory)
    save_table(table, "scale")
    lines = list(lines_of(table, workers, memory_map, n_mapped))
    save_table(pd.DataFrame(lines), "scale_lines")
    print_table(table.round(3).astype(str), f"ε = {EPSILON:g}, {CORES} cores")
    print_lines(lines, "Figures")
    save_picture(picture(table), "scale")


if __name__ == "__main__":
    main()
