"""Measure the error against n·ε: more rows or budget must never make an answer worse.

The benchmark covers query release for every class of queries, with {0, 30, 300, 3000} public rows
from the same or another population. Rows are simulated, so that n·ε can range from 10 to 10^8,
first by increasing the number of rows up to 10^5 and then by increasing ε. A point is the mean over
seeds. It may exceed the previous point by 5% and two standard errors.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from skpublicdp import PAPQueryRelease
from skpublicdp.data.validation import read_table
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)

POINTS = 10.0 ** np.arange(1, 9)
MOST_ROWS = 100_000
PUBLIC = (0, 30, 300, 3000)
KINDS = ("same", "drifted")


def population(n, seed, drifted, n_columns=5):
    """Draw mixed integer and continuous columns that depend on each other."""
    generator = np.random.default_rng(seed)
    ability = generator.normal(0.7 if drifted else 0.0, 0.8 if drifted else 1.0, n)
    noise = generator.normal(size=(n, n_columns))
    weights = np.linspace(-1, 1, n_columns)
    columns = ability[:, None] * weights + noise * (1.3 if drifted else 1.0)
    columns[:, 0] = np.round(40 + 12 * columns[:, 0])  # like ages
    columns[:, 1] = np.where(ability > 0.5, 0.0, np.exp(columns[:, 1]).round(2))  # a heavy value
    return columns


def conjunctions(X):
    """Return 60 custom queries about two columns each."""
    X = np.asarray(X, dtype=np.float64)
    low = np.array([40, 1, 0, 0, 0])[: X.shape[1]] < X
    pairs = itertools.combinations(range(X.shape[1]), 2)
    asked = [
        low[:, i] & (low[:, j] ^ flip) ^ other
        for i, j in pairs
        for flip in (False, True)
        for other in (False, True)
    ]
    return np.column_stack(asked)


CLASSES = {
    "thresholds": (ThresholdQueries(), 1, {}),
    "intervals": (IntervalQueries(), 1, {}),
    "pairs": (MarginalQueries(k=2), 5, {}),
    "triples": (MarginalQueries(k=3, bins=8), 5, {}),
    "pairs, pure": (MarginalQueries(k=2), 5, {"delta": 0}),
    "stumps": (StumpQueries(), 5, {}),
    "boxes": (RectangleQueries(), 3, {}),
    "halfspaces": (HalfspaceQueries(), 3, {}),
    "custom": (CustomQueries(conjunctions), 5, {}),
}


def errors(release, X):
    """Return the errors of a release for some of its queries."""
    bound = release._released.queries
    rows = release._schema.encode(read_table(release, X, reset=False, numeric=True))
    asked = bound.holdout_queries(rows)
    return np.abs(
        release._released.answers.answer(asked)
        - bound.weighted_mean(asked, rows, np.full(len(X), 1 / len(X)))
    )


def error(name, n_epsilon, n_public, kind, seed):
    """Return the maximum and mean error of a release, and its time in seconds."""
    queries, n_columns, settings = CLASSES[name]
    n = int(min(max(n_epsilon, 500), MOST_ROWS))
    X = population(n, seed, False)[:, :n_columns]
    public = population(n_public, 1000 + seed, kind == "drifted")[:, :n_columns]
    start = time.perf_counter()
    release = PAPQueryRelease(
        queries, epsilon=n_epsilon / n, bounds=(-100, 150), random_state=seed, **settings
    ).fit(X, X_public=public if n_public else None)
    seconds = time.perf_counter() - start
    gaps = errors(release, X)
    return gaps.max(), gaps.mean(), seconds


def curve(name, n_public, kind, seeds, points=POINTS):
    """Return a data frame with the errors at each point."""
    records = []
    for n_epsilon in points:
        found = np.array([error(name, n_epsilon, n_public, kind, seed) for seed in range(seeds)])
        spread = found.std(axis=0, ddof=1) / np.sqrt(seeds)
        records.append(
            {
                "class": name, "public": n_public, "kind": kind, "n·ε": n_epsilon,
                "max": found[:, 0].mean(), "mean": found[:, 1].mean(),
                "max ±": spread[0], "mean ±": spread[1], "seconds": found[:, 2].mean(),
            }
        )  # fmt: skip
    return pd.DataFrame(records)


def rises(frame, by):
    """Count the steps at which an error rises by more than 5% and two standard errors."""
    before, after = frame[by].to_numpy()[:-1], frame[by].to_numpy()[1:]
    spread = np.hypot(frame[f"{by} ±"].to_numpy()[:-1], frame[f"{by} ±"].to_numpy()[1:])
    return int((after > 1.05 * before + 2 * spread).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(CLASSES), default=list(CLASSES))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    frames = []
    for name in arguments.only:
        for n_public, kind in itertools.product(PUBLIC, KINDS):
            if not n_public and kind == "drifted":
                continue
            frame = curve(name, n_public, kind, arguments.seeds)
            frames.append(frame)
            shown = " ".join(
                f"{a:.4f}/{b:.4f}" for a, b in zip(frame["max"], frame["mean"], strict=True)
            )
            print(
                f"{name:12s} {n_public:5d} {kind:8s} {shown}  rises {rises(frame, 'max')} / "
                f"{rises(frame, 'mean')}, {frame['seconds'].max():.1f} s",
                flush=True,
            )
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    pd.concat(frames).to_csv(results / "growth.csv", index=False)


if __name__ == "__main__":
    main()
