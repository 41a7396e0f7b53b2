"""Measure the coverage of intervals for shares within groups, by share and group size.

Fits are random as in `bench_intervals.py`, with tables of two columns of HI and yrbss. Each column
of a table defines the groups once, and the share of a cell in its group is compared with the
population's share. `shares.csv` beside this script contains the figures of the guide: 200 fits with
`--first-seed 50000`.
"""

from __future__ import annotations

import argparse
import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
from bench_intervals import (
    DRIFTED,
    EPSILONS,
    LEVEL,
    N_COLUMNS,
    N_PRIVATE,
    N_PUBLIC,
    PACKAGED,
    PURE,
    coded,
    drift,
)
from report import print_table, save_table

from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.marginals.count import marginal_tables
from skpublicdp.query_release.marginals.release import release_marginals

SHARE_BANDS = (0.0, 0.01, 0.05, 0.2, 0.5, 1.0)
"""Limits of the bands of true shares; shares of 0 are left out."""

GROUP_BANDS = (0.0, 0.01, 0.05, 0.2, 1.0)
"""Limits of the bands of group sizes, as fractions of the rows."""


def random_fit(seed):
    """Return the number of correct intervals in one random fit, by band of shares and groups."""
    generator = np.random.default_rng([seed, 43])
    name = str(generator.choice(list(PACKAGED)))
    epsilon = float(generator.choice(EPSILONS))
    n, m = int(generator.choice(N_PRIVATE)), int(generator.choice(N_PUBLIC))
    pure = generator.random() < PURE
    drifted = bool(m) and generator.random() < DRIFTED
    rows, sizes = coded(name, None)
    columns = np.sort(generator.permutation(len(sizes))[:N_COLUMNS])
    rows, sizes = rows[:, columns], tuple(sizes[column] for column in columns)
    workload = list(itertools.combinations(range(len(sizes)), 2))
    private = rows[generator.integers(len(rows), size=n)]
    public = rows[
        generator.choice(len(rows), size=m, p=drift(rows, generator) if drifted else None)
    ]
    ledger = Ledger(epsilon, 0 if pure else Fraction(1, n**2), seed)
    release = release_marginals(private, public, sizes, workload, ledger=ledger)
    cells = []
    for table in workload:
        shape = [sizes[column] for column in table]
        fractions = marginal_tables(rows, [table], sizes).reshape(shape) / len(rows)
        codes = tuple(np.indices(shape).reshape(2, -1))
        for axis in (0, 1):
            group = np.broadcast_to(fractions.sum(axis=1 - axis, keepdims=True), shape).ravel()
            share = np.divide(fractions.ravel(), group, out=np.zeros(group.shape), where=group > 0)
            low, high = release.share_intervals(table, codes, (table[axis],), LEVEL).T
            cells.append([share, group, (low <= share) & (share <= high), high - low])
    share, group, held, length = map(np.concatenate, zip(*cells, strict=True))
    here = share > 0
    frame = pd.DataFrame({
        "share": pd.cut(share, SHARE_BANDS)[here], "group": pd.cut(group, GROUP_BANDS)[here],
        "held": held[here], "length": length[here],
    })  # fmt: skip
    bands = frame.groupby(["share", "group"], observed=True)
    setting = {"seed": seed, "data": name, "epsilon": epsilon, "n": n, "m": m, "pure": pure}
    counts = bands.agg(cells=("held", "size"), held=("held", "sum"), length=("length", "mean"))
    return counts.reset_index().assign(**setting, drifted=drifted)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--name", default="shares", help="of the file of results")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.fits)
    fits = pd.concat([random_fit(seed) for seed in seeds], ignore_index=True)
    save_table(fits, arguments.name)
    by_fit = fits.groupby(["share", "group", "seed"], observed=True)[["cells", "held"]].sum()
    coverage = (by_fit["held"] / by_fit["cells"]).groupby(["share", "group"], observed=True).mean()
    table = coverage.unstack().round(3).reset_index()
    save_table(table, f"{arguments.name}_summary")
    print_table(table, f"coverage at level {LEVEL}")


if __name__ == "__main__":
    main()
