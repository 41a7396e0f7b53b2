"""Measure speed and accuracy of the larger classes: halfspaces, trees of depth 3 and unions.

``python benchmarks/bench_hypotheses.py --data-dir DIR`` adds the census tables in DIR. Speed is
compared with dense NumPy code, measured alternately in the same run. As in `bench_core`, there is
no verdict for a slowed reference. ``--datasets`` without names measures only speed.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bench_core import in_turns, seconds
from datasets import available, encoder, load
from report import line, print_lines, print_table, save_table
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skpublicdp import PublicFit, SemiPrivateClassifier
from skpublicdp.hypotheses import DecisionTrees, Halfspaces, PublicSample, Union
from skpublicdp.hypotheses.base import tabulate

ROWS = 1_000_000
POINTS = {2: 1000, 3: 60}  # public points, by dimension
DENSE_ROWS, DENSE_PLANES = 1 << 16, 1 << 14  # dense numpy's cost per pair is the same on more
CHUNK_ROWS, CHUNK_PLANES = 1 << 14, 1 << 7  # the fastest of those tried
REPEATS = 3
SEEDS = 5
PUBLIC = 300
TREES, DEEP, HALFSPACES, UNION = "depth-2 trees", "depth-3 trees", "halfspaces", "union"
EPSILONS = (0.1, 1.0)
SMALL, DRAWS = 10_000, 4
"""Number of repetitions of each fit with few rows, where one draw shifts a mean by half a point."""
CLOSE, CLOSE_DRAWS = ("CPS1988", 0.1), 12
"""Larger number of draws whose mean is compared with a nearby target."""


def trees():
    """Fit trees of depth 3. The process must not have used more memory before."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, 4))
    y = (X[:, 0] * X[:, 1] * X[:, 2] > 0).astype(int)
    # 15 splits of each of the four features
    clf = SemiPrivateClassifier(DecisionTrees(max_depth=3), alpha=1 / 16)
    elapsed = seconds(lambda: clf.fit(X, y, X_public=generator.normal(size=(400, 4))))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_gb = peak * (1 if sys.platform == "darwin" else 1024) / 1e9
    fit = f"fit of {clf.cover_size_:.2g} trees of depth 3 on 1e6 rows"
    yield line(fit, elapsed, 60, "s")
    yield line(f"{fit}, peak memory of the process", peak_gb, 2, "GB")


def dense_errors(X, y, normals, offsets):
    """Count the errors of halfspaces with a matrix product in chunks."""
    errors = np.zeros(len(normals), dtype=np.int64)
    for start in range(0, len(X), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        for first in range(0, len(normals), CHUNK_PLANES):
            planes = slice(first, first + CHUNK_PLANES)
            wrong = (normals[planes] @ X[rows].T > offsets[planes, None]) != y[rows]
            errors[planes] += [np.count_nonzero(of_plane) for of_plane in wrong]
    return errors


def halfspaces():
    """Tabulate rows against all hyperplanes through as many public points as dimensions.

    Members differ from these hyperplanes only in the sides of the points on the hyperplane, so both
    methods are measured per pair of row and hyperplane.
    """
    generator = np.random.default_rng(0)
    actions, pairs = {}, {}
    for d, n_points in POINTS.items():
        X, points = generator.normal(size=(ROWS, d)), generator.normal(size=(n_points, d))
        y = (X.sum(axis=1) > 0).astype(int)
        public = PublicSample(points, np.array([0, 1]), tuple("abc"[:d]))
        cover = Halfspaces(cover="exact").build_cover(public, alpha=0.05, beta=0.05)
        actions[d, "table"] = partial(tabulate, cover, X, y)
        pairs[d, "table"] = ROWS * math.comb(n_points, d)
        normals = generator.normal(size=(DENSE_PLANES, d))
        offsets = (normals * points[generator.integers(n_points, size=DENSE_PLANES)]).sum(axis=1)
        for dtype in (np.float64, np.float32):
            floats = [part.astype(dtype) for part in (X[:DENSE_ROWS], normals, offsets)]
            key = d, np.dtype(dtype).name
            actions[key] = partial(dense_errors, floats[0], y[:DENSE_ROWS], *floats[1:])
            pairs[key] = DENSE_ROWS * DENSE_PLANES
    with threadpool_limits(1, user_api="blas"):  # tables are made on one thread, too
        times = in_turns(actions, REPEATS)
    speed = pd.Series(pairs) / times
    save_table(speed.set_axis([f"{name}, d = {d}" for d, name in speed], axis=1), "halfspace_speed")
    for d, n_points in POINTS.items():
        shape = f"d = {d}, {n_points} points"
        target, least_ratio = (5e9, 20) if d == 2 else (None, None)
        table = speed[d, "table"]
        yield line(f"table: {shape}", table.median(), target, "pairs/s", at_least=True)
        for name, least in (("float64", least_ratio), ("float32", None)):
            dense = speed[d, name]
            steady = bool(dense.max() <= 1.2 * dense.median())
            yield line(f"dense numpy {name}: {shape}", dense.median(), None, "pairs/s")
            what = f"table / dense numpy {name}: {shape}"
            ratio = (table / dense).median()
            yield line(what, ratio, least, "times", at_least=True, steady=steady)


def measure(name, data_dir, seed):
    """Yield a record per class, ε and draw, with test accuracy and fit time in seconds."""
    rows = load(name, data_dir, PUBLIC, seed)
    X, X_test, y, y_test = train_test_split(
        rows.X, rows.y, test_size=0.25, random_state=seed, stratify=rows.y
    )
    public_fit = PublicFit(encoder()).fit(X, X_public=rows.X_public)
    X, X_public, X_test = map(public_fit.transform, (X, rows.X_public, X_test))
    both = Union([DecisionTrees(), Halfspaces()])
    classes = {TREES: DecisionTrees(), HALFSPACES: Halfspaces(), UNION: both}
    fits = [(*chosen, epsilon) for chosen in classes.items() for epsilon in EPSILONS]
    if name == "adult":
        fits.append((DEEP, DecisionTrees(max_depth=3), 0.5))
    for method, hypotheses, epsilon in fits:
        draws = CLOSE_DRAWS if (name, epsilon) == CLOSE else DRAWS if len(y) < SMALL else 1
        for draw in range(draws):
            clf = SemiPrivateClassifier(hypotheses, epsilon=epsilon, random_state=seed + 100 * draw)
            elapsed = seconds(partial(clf.fit, X, y, X_public=X_public))
            record = {"dataset": name, "seed": seed, "method": method, "epsilon": epsilon}
            yield record | {"accuracy": clf.score(X_test, y_test), "seconds": elapsed}


def accuracies(records):
    """Compare the means over the seeds with their targets, and the union with its members."""
    means = records.groupby(["dataset", "method", "epsilon"], sort=False)["accuracy"].mean()
    if "adult" in means:
        what = f"{DEEP} on adult, ε = 0.5"
        longest = records.loc[records["method"] == DEEP, "seconds"].max()
        yield line(f"{what}: accuracy", means["adult", DEEP, 0.5], 0.845, at_least=True)
        yield line(f"{what}: longest fit", longest, 10, "s")
    if "CPS1988" in means:
        for method, least in ((HALFSPACES, 0.72), (TREES, None)):
            what = f"{method} on CPS1988, ε = 0.1: accuracy"
            yield line(what, means["CPS1988", method, 0.1], least, at_least=True)
    for name in records["dataset"].unique():
        for epsilon in EPSILONS:
            better = max(means[name, method, epsilon] for method in (TREES, HALFSPACES))
            difference = 100 * (means[name, UNION, epsilon] - better)
            what = f"union - its better member on {name}, ε = {epsilon:g}"
            yield line(what, difference, -0.5, "points", at_least=True)


def summary(records):
    """Return one printable line per dataset and ε, with a column per class."""
    by_class = records[records["method"] != DEEP].groupby(
        ["dataset", "epsilon", "method"], sort=False
    )
    mean, spread = by_class["accuracy"].mean(), by_class["accuracy"].std(ddof=0)
    texts = mean.map("{:.3f}".format) + "±" + spread.map("{:.3f}".format)
    fit_seconds = by_class["seconds"].median().map(", {:.2f} s".format)
    return (texts + fit_seconds).unstack(sort=False).reset_index()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--datasets", nargs="*", help="all at hand by default")
    parser.add_argument("--no-speed", action="store_true", help="measure accuracy alone")
    options = parser.parse_args()
    names = available(options.data_dir)
    unknown = set(options.datasets or []) - set(names)
    if unknown:
        parser.error(f"not at hand: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    # trees come first: the peak memory of the process is then theirs
    lines = [] if options.no_speed else [*trees(), *halfspaces()]
    if lines:
        print_lines(lines, f"Speed; halfspaces: medians of {REPEATS} rounds, one thread")
    chosen = names if options.datasets is None else options.datasets
    if chosen:
        records = pd.DataFrame(
            record
            for name in chosen
            for seed in range(SEEDS)
            for record in measure(name, options.data_dir, seed)
        )
        save_table(records, "hypotheses_accuracy")
        means = f"{SEEDS} seeds and draws, {PUBLIC} public rows"
        title = f"Test accuracy, mean±std of {means}; median fit"
        print_table(summary(records), title)
        reached = [*accuracies(records)]
        print_lines(reached, f"Accuracy: means of {SEEDS} seeds and draws")
        lines += reached
    save_table(pd.DataFrame(lines), "hypotheses")


if __name__ == "__main__":
    main()
