"""Compare a private search with the best fixed setting in hindsight and with a single fit.

``python benchmarks/bench_search.py --data-dir DIR`` adds the census table in DIR. Settings of one
family are searched with one draw at ε = 0.1, and kinds of classifiers with trials at ε = 1.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from datasets import available, encoder, load
from report import print_table, save_table
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.pipeline import Pipeline

from skpublicdp import PublicFit, SemiPrivateBoostingClassifier, SemiPrivateClassifier
from skpublicdp.hypotheses import DecisionTrees, Halfspaces
from skpublicdp.model_selection import SemiPrivateSearchCV

NAMES = ["adult", "TV16", "wa_churn", "HealthInsurance", "CPS1988"]
N_PUBLIC = 300
DELTA = 1e-6

FAMILY = [
    {"hypotheses": [DecisionTrees(1), DecisionTrees(2)], "alpha": [0.02, 0.05, 0.1, 0.2]},
    {"hypotheses": [DecisionTrees(3)], "alpha": [0.2]},
    {"hypotheses": [Halfspaces()], "alpha": [0.05, 0.2]},
]
KINDS = {
    "trees": SemiPrivateClassifier(),
    "halfspaces": SemiPrivateClassifier(Halfspaces()),
    "boosting": SemiPrivateBoostingClassifier(delta=DELTA),
}


def split(name, data_dir, seed):
    """Return (X, X_test, y, y_test, X_public), with 3/4 of the private rows for training."""
    rows = load(name, data_dir, N_PUBLIC, seed)
    parts = train_test_split(rows.X, rows.y, test_size=0.25, random_state=seed, stratify=rows.y)
    return *parts, rows.X_public


def measure_family(name, data_dir, seed, epsilon, draws):
    """Yield the mean accuracy over several draws, for each setting and for the search."""
    X, X_test, y, y_test, X_public = split(name, data_dir, seed)
    encode = PublicFit(encoder()).fit(X, X_public=X_public)
    X, X_test, X_public = map(encode.transform, (X, X_test, X_public))
    one = SemiPrivateClassifier(epsilon=epsilon)
    tried = {str(setting): clone(one).set_params(**setting) for setting in ParameterGrid(FAMILY)}
    tried["search"] = SemiPrivateSearchCV(SemiPrivateClassifier(), FAMILY, epsilon=epsilon)
    for method, model in tried.items():
        start = time.perf_counter()
        scores = []
        for draw in range(draws):
            model.set_params(random_state=100 * seed + draw).fit(X, y, X_public=X_public)
            scores.append(model.score(X_test, y_test))
            assert model.privacy_.epsilon == epsilon
        yield {
            **{"task": "family", "dataset": name, "rows": len(y), "seed": seed, "epsilon": epsilon},
            **{"method": method, "accuracy": np.mean(scores), "spent": model.privacy_.epsilon},
            "seconds": (time.perf_counter() - start) / draws,
        }


def measure_kinds(name, data_dir, seed, epsilon):
    """Yield the accuracy of each kind alone at ε and at ε / 1.3, and of the search at ε."""
    X, X_test, y, y_test, X_public = split(name, data_dir, seed)
    encode = PublicFit(encoder()).fit(X, X_public=X_public)
    X, X_test, X_public = map(encode.transform, (X, X_test, X_public))
    tried = {
        (kind, part): clone(learner).set_params(epsilon=epsilon * part)
        for kind, learner in KINDS.items()
        for part in (1, 1 / 1.3)
    }
    grid = [{"learn": [learner]} for learner in KINDS.values()]
    search = SemiPrivateSearchCV(
        Pipeline([("learn", SemiPrivateClassifier())]), grid, epsilon=epsilon, delta=DELTA
    )
    for (method, part), model in [*tried.items(), (("search", 1), search)]:
        start = time.perf_counter()
        model.set_params(random_state=seed).fit(X, y, X_public=X_public)
        seconds = time.perf_counter() - start
        chosen = list(KINDS)[model.best_index_] if method == "search" else ""
        yield {
            **{"task": "kinds", "dataset": name, "rows": len(y), "seed": seed, "epsilon": epsilon},
            **{"method": method, "part": part, "accuracy": model.score(X_test, y_test)},
            **{"chosen": chosen, "spent": model.privacy_.epsilon, "seconds": seconds},
        }


def family_summary(records):
    """Return one line per dataset that compares the search with the best setting in hindsight."""
    lines = []
    for name, part in records[records["task"] == "family"].groupby("dataset", sort=False):
        mean = part.groupby("method")["accuracy"].mean()
        fixed = mean.drop("search")
        lines.append(
            {
                **{"data": name, "rows": str(part["rows"].iloc[0]), "best fixed": fixed.idxmax()},
                **{"its accuracy": f"{fixed.max():.3f}", "median fixed": f"{fixed.median():.3f}"},
                **{"worst": f"{fixed.min():.3f}", "search": f"{mean['search']:.3f}"},
                "points lost": f"{100 * (fixed.max() - mean['search']):.2f}",
                "seconds": f"{part[part['method'] == 'search']['seconds'].median():.1f}",
            }
        )
    return pd.DataFrame(lines)


def kinds_summary(records):
    """Return one line per dataset that compares the search with each kind alone."""
    lines = []
    for name, part in records[records["task"] == "kinds"].groupby("dataset", sort=False):
        mean = part.groupby(["method", "part"])["accuracy"].mean()
        alone = mean.drop("search")
        best = alone.xs(1, level="part").idxmax()
        line = {"data": name, **{kind: f"{mean[kind, 1]:.3f}" for kind in KINDS}}
        line["search"] = f"{mean['search', 1]:.3f}"
        line["best at ε/1.3"] = f"{mean[best, 1 / 1.3]:.3f}"
        chosen = part.loc[part["method"] == "search", "chosen"]
        line["chosen"] = ", ".join(f"{kind} {n}" for kind, n in chosen.value_counts().items())
        line["ε spent"] = f"{part['spent'].max():g}"
        lines.append(line)
    return pd.DataFrame(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=4, help="draws per seed of the data")
    parser.add_argument("--datasets", nargs="+", help="those of the issue by default")
    parser.add_argument("--tasks", nargs="+", default=["family", "kinds"])
    options = parser.parse_args()
    at_hand = available(options.data_dir)
    names = options.datasets or [name for name in NAMES if name in at_hand]
    records = []
    for name in names:
        for seed in range(options.seeds):
            if "family" in options.tasks:
                records += measure_family(name, options.data_dir, seed, 0.1, options.draws)
            if "kinds" in options.tasks:
                records += measure_kinds(name, options.data_dir, seed, 1.0)
        print(f"{name} done", flush=True)
    records = pd.DataFrame(records)
    save_table(records, "search")
    if "family" in options.tasks:
        title = f"α × depth × class at ε = 0.1, accuracy, {options.seeds} × {options.draws} draws"
        print_table(family_summary(records), title)
    if "kinds" in options.tasks:
        print_table(kinds_summary(records), f"Kinds at ε = 1, accuracy, {options.seeds} seeds")


if __name__ == "__main__":
    main()
