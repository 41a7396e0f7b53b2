"""Compare private distribution functions of one column with those of only public or private rows.

``python benchmarks/bench_cdf.py --data-dir DIR`` adds the two census columns in DIR to the two
synthetic ones: 432 cells of column, n, ε, public rows, drift and bounds. With drift d, public rows
are drawn with weights e^(d z), where z is the normal score of their rank in the population. The
error is the maximum over the population's values, averaged over repetitions. The private
competitors use the best of nine grids for each cell, which is unknown in practice.
"""

from __future__ import annotations

import argparse
import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one fit per core: threads would only wait

import numpy as np
import pandas as pd
from report import line, print_lines, print_table, save_table
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from skpublicdp.accounting import zcdp_rho
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.cdf.release import release_cdf

COLUMNS = ("lognormal", "bimodal", "fnlwgt", "hours-per-week")
SYNTHETIC = COLUMNS[:2]
SIZES = (1_000, 10_000, 40_000)
EPSILONS = (0.1, 1.0)
PUBLIC = (100, 1_000, 5_000)
DRIFTS = (0.0, 0.2, 0.8)
LOOSE = (False, True)
GRIDS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
POPULATION = 200_000
MOST_POINTS = 4_000
LEVELS = np.linspace(0.01, 0.99, 99)


@lru_cache(maxsize=4)
def population(name, data_dir):
    """Return the sorted values of a column."""
    generator = np.random.default_rng(1)
    if name == "lognormal":
        values = np.exp(generator.normal(size=POPULATION))
    elif name == "bimodal":
        first = generator.random(POPULATION) < 0.5
        left, right = generator.normal(-3, 1, POPULATION), generator.normal(3, 0.5, POPULATION)
        values = np.where(first, left, right)
    else:
        table = pd.read_csv(data_dir / "adult_train.csv.gz", skipinitialspace=True)
        table.columns = [column.replace("_", "-").replace(".", "-") for column in table.columns]
        values = table[name].to_numpy(float)
    return np.sort(values)


def points(values):
    """Return the evaluation points and the population's fractions at these points."""
    distinct = np.unique(values)
    if len(distinct) > MOST_POINTS:
        even = np.linspace(0, len(distinct) - 1, MOST_POINTS).astype(int)
        ranks = np.linspace(0, len(values) - 1, MOST_POINTS).astype(int)
        distinct = np.unique(np.concatenate([distinct[even], values[ranks]]))
    return distinct, np.searchsorted(values, distinct, side="right") / len(values)


def draw(values, n_private, n_public, drift, generator):
    """Draw private rows from the population and public rows from a shifted population."""
    score = ndtri((np.arange(len(values)) + 0.5) / len(values))
    weights = np.exp(drift * score)
    public = generator.choice(values, n_public, p=weights / weights.sum())
    return generator.choice(values, n_private), public


def private_only(x, low, high, grid, rho, generator, at):
    """Return prefix sums of a grid by the square-root factorisation, interpolated in two ways.

    The interpolation is linear inside cells, or a step at their right ends. The floating-point
    noise is for comparison only.
    """
    edges = np.linspace(low, high, grid + 1)
    counts = np.bincount(
        np.clip(np.searchsorted(edges[1:], x), 0, grid - 1), minlength=grid
    ).astype(float)
    root = np.cumprod(np.concatenate([[1], 1 - 0.5 / np.arange(1, grid)]))
    squared = np.cumsum(root**2)
    # exact, as ours: the farthest pair of columns has the first in it
    apart = max(
        squared[d - 1] + np.square(root[d:] - root[: grid - d]).sum() for d in range(1, grid)
    )
    noise = generator.normal(size=grid) * np.sqrt(apart / (2 * rho))
    heights = (np.cumsum(counts) + np.convolve(root, noise)[:grid]) / len(x)
    heights[-1] = 1
    heights = np.concatenate([[0], np.clip(isotonic_regression(heights).x, 0, 1)])
    steps = heights[np.clip(np.searchsorted(edges, at), 0, grid)]
    return np.interp(at, edges, heights), steps


def run_cell(name, n_private, epsilon, n_public, drift, loose, *, repetitions, data_dir, pure):
    """Return one record with errors and coverage in one cell of the grid."""
    values = population(name, data_dir)
    at, truth = points(values)
    low, high = values[[0, -1]]
    if loose:
        spare = 49.5 * (high - low)
        low, high = low - spare, high + spare
    delta = Fraction(1, n_private**2)
    rho = float(zcdp_rho(Fraction(epsilon), delta))
    middle = np.minimum(np.searchsorted(truth, LEVELS), len(at) - 1)
    rows = []
    for repetition in range(repetitions):
        seed = [COLUMNS.index(name), n_private, int(100 * epsilon), n_public, int(100 * drift)]
        generator = np.random.default_rng([*seed, loose, repetition])
        x, x_public = draw(values, n_private, n_public, drift, generator)
        ledger = Ledger(epsilon, 0 if pure else delta, repetition)
        release = release_cdf(x, x_public, bounds=(low, high), ledger=ledger)
        wrong = np.abs(release.cdf(at) - truth)
        covered = (wrong[middle] <= release.half_width(at[middle])).mean()
        public = np.searchsorted(np.sort(x_public), at, side="right") / n_public
        private = [
            np.abs(answer - truth).max()
            for grid in GRIDS
            for answer in private_only(x, low, high, grid, rho, generator, at)
        ]
        rows.append([covered, wrong.max(), np.abs(public - truth).max(), *private])
    covered, ours, public, *private = np.mean(rows, axis=0)
    best = min(private)
    return {
        "column": name,
        "n": n_private,
        "epsilon": epsilon,
        "public_rows": n_public,
        "drift": drift,
        "bounds": "100x" if loose else "tight",
        "ours": ours,
        "public_only": public,
        "private_only": best,
        "best_grid": GRIDS[int(np.argmin(private)) // 2],
        "ratio": ours / min(public, best),
        "coverage": covered,
    }


def summary(table):
    """Compare the whole grid with the targets."""
    ratio = table["ratio"]
    lines = [
        line("cells within 1.1 x the best", (ratio <= 1.1).mean(), 0.75, at_least=True),
        line("worst ratio", ratio.max(), 2),
        line("median ratio", ratio.median()),
        line("90% of the ratios are below", ratio.quantile(0.9)),
    ]
    informed = table[table["n"] * table["epsilon"] >= 1000]
    for drift, part in informed.groupby("drift"):
        what = f"coverage at nominal .95, nε ≥ 1000, drift {drift:g}"
        lines.append(line(what, part["coverage"].mean(), 0.9, at_least=True))
    if len(informed):
        lines.append(line("  in the worst cell", informed["coverage"].min()))
        lines.append(line("  cells below .90", (informed["coverage"] < 0.9).mean(), unit="share"))
    lines.append(line("coverage, all other cells", _rest(table)["coverage"].mean()))
    print_lines(lines, "One column: largest error of the distribution function")
    for key in ("column", "drift", "bounds", "public_rows"):
        within = table.groupby(key)["ratio"].agg(
            within=lambda r: f"{(r <= 1.1).mean():.2f}",
            median=lambda r: f"{r.median():.3f}",
            worst=lambda r: f"{r.max():.3f}",
        )
        print_table(within.reset_index(), f"Ratios by {key}")
    worst = table.sort_values("ratio").tail(12).round(4).astype(str)
    print_table(worst, "The worst cells")


def _rest(table):
    return table[table["n"] * table["epsilon"] < 1000]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--every", type=int, default=1, help="take each such cell of the grid only")
    parser.add_argument("--pure", action="store_true", help="release with δ = 0; rivals keep δ")
    arguments = parser.parse_args()
    columns = COLUMNS if arguments.data_dir else SYNTHETIC
    cells = list(itertools.product(columns, SIZES, EPSILONS, PUBLIC, DRIFTS, LOOSE))
    options = {
        "repetitions": arguments.repetitions,
        "data_dir": arguments.data_dir,
        "pure": arguments.pure,
    }
    with ProcessPoolExecutor(arguments.jobs) as executor:
        futures = [
            executor.submit(run_cell, *cell, **options) for cell in cells[:: arguments.every]
        ]
        table = pd.DataFrame([future.result() for future in futures])
    save_table(table, "cdf_pure" if arguments.pure else "cdf")
    summary(table)


if __name__ == "__main__":
    main()
