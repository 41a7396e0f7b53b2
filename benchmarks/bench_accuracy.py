"""Compare the test accuracy of private depth-2 trees with two non-private baselines on real tables.

``python benchmarks/bench_accuracy.py --data-dir DIR`` adds the census tables in DIR.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import pandas as pd
from datasets import available, encoder, load
from report import print_table, save_picture, save_table
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import PublicFit, SemiPrivateClassifier

PRIVATE, OPEN, MAJORITY = "private tree", "logistic regression", "majority class"


def measure(name, data_dir, n_public, seed, epsilons):
    """Yield one record per method and ε, with test accuracy and fit time in seconds."""
    rows = load(name, data_dir, n_public, seed)
    X, X_test, y, y_test = train_test_split(
        rows.X, rows.y, test_size=0.25, random_state=seed, stratify=rows.y
    )
    yardsticks = {
        # without privacy nothing keeps the encoder from looking at all rows
        OPEN: make_pipeline(encoder(), StandardScaler(), LogisticRegression(max_iter=1000)),
        MAJORITY: DummyClassifier(),
    }
    record = {"dataset": name, "private_rows": len(X), "seed": seed}
    for method, model in yardsticks.items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        accuracy = model.score(X_test, y_test)
        yield record | {"method": method, "accuracy": accuracy, "seconds": seconds}
    public_fit = PublicFit(encoder()).fit(X, X_public=rows.X_public)
    X, X_public, X_test = map(public_fit.transform, (X, rows.X_public, X_test))
    for epsilon in epsilons:
        clf = SemiPrivateClassifier(epsilon=epsilon, random_state=seed)
        start = time.perf_counter()
        clf.fit(X, y, X_public=X_public)
        seconds = time.perf_counter() - start
        accuracy = clf.score(X_test, y_test)
        outcome = {"method": PRIVATE, "epsilon": epsilon, "accuracy": accuracy, "seconds": seconds}
        yield record | outcome


def summary(records):
    """Return one printable line per dataset."""
    lines = []
    for name, part in records.groupby("dataset", sort=False):
        tree = part[part["method"] == PRIVATE]
        line = {"data": name, "private rows": str(part["private_rows"].iloc[0])}
        line[MAJORITY] = _mean_std(part[part["method"] == MAJORITY])
        for epsilon, column in tree.groupby("epsilon"):
            line[f"ε = {epsilon:g}"] = _mean_std(column)
        line[OPEN] = _mean_std(part[part["method"] == OPEN])
        line["fit seconds"] = f"{tree['seconds'].median():.2f}"
        lines.append(line)
    return pd.DataFrame(lines)


def _mean_std(part):
    return f"{part['accuracy'].mean():.3f}±{part['accuracy'].std(ddof=0):.3f}"


def draw(records):
    """Plot and save accuracy against ε, with one panel per dataset."""
    import matplotlib.pyplot as plt

    names = records["dataset"].unique()
    columns = min(5, len(names))
    figure, axes = plt.subplots(
        -(-len(names) // columns),
        columns,
        figsize=(2.9 * columns, 2.7 * -(-len(names) // columns) + 0.4),
        layout="constrained",
        squeeze=False,
    )
    for panel in axes.flat[len(names) :]:
        panel.set_visible(False)
    for panel, name in zip(axes.flat, names, strict=False):
        part = records[records["dataset"] == name]
        groups = part[part["method"] == PRIVATE].groupby("epsilon")["accuracy"]
        mean, spread = groups.mean(), groups.std(ddof=0)
        panel.fill_between(mean.index, mean - spread, mean + spread, color="C0", alpha=0.25)
        panel.plot(mean.index, mean, marker="o", markersize=4, color="C0", label=PRIVATE)
        for method, style in ((OPEN, "--"), (MAJORITY, ":")):
            level = part.loc[part["method"] == method, "accuracy"].mean()
            panel.axhline(level, color="0.35", linestyle=style, linewidth=1, label=method)
        panel.set_xscale("log")
        ends = sorted({mean.index[0], mean.index[len(mean) // 2], mean.index[-1]})
        panel.set_xticks(ends, [f"{epsilon:g}" for epsilon in ends])
        panel.minorticks_off()
        panel.set_title(name, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("ε (smaller is more private)", fontsize=10)
    figure.supylabel("test accuracy (mean ± std)", fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    save_picture(figure, "accuracy")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--public", type=int, default=300, help="number of public rows")
    parser.add_argument("--datasets", nargs="+", help="all at hand by default")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.01, 0.05, 0.1, 0.5, 1.0])
    options = parser.parse_args()
    names = available(options.data_dir)
    unknown = set(options.datasets or []) - set(names)
    if unknown:
        parser.error(f"not at hand: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    records = pd.DataFrame(
        record
        for name in options.datasets or names
        for seed in range(options.seeds)
        for record in measure(name, options.data_dir, options.public, seed, options.epsilons)
    )
    save_table(records, "accuracy")
    title = f"Test accuracy, mean±std of {options.seeds} seeds, {options.public} public rows"
    print_table(summary(records), title)
    draw(records)


if __name__ == "__main__":
    main()
