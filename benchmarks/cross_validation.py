"""Compute the cross-validated accuracy on a grid of ε and α with scikit-learn's own tools.

The results describe the method, on data that need no privacy. Every fit of a search spends its own
ε and every score accesses private rows again, so a search on private rows would cost at least the
sum of its fits.

``python benchmarks/cross_validation.py --dataset wa_churn``
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd
from datasets import available, encoder, load
from report import print_table, save_picture, save_table
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline

from skpublicdp import PublicFit, SemiPrivateClassifier

EPSILONS = [0.05, 0.1, 0.5, 1.0]
ALPHAS = [0.01, 0.02, 0.05, 0.1, 0.2]
N_PUBLIC = 300


def make_pipeline():
    """Return a pipeline that encodes with public rows and learns; both steps get `X_public`."""
    # no seed: a fixed one would be cloned into every fold, and all folds would share their luck
    steps = [("encode", PublicFit(encoder())), ("learn", SemiPrivateClassifier())]
    return Pipeline(steps, transform_input=["X_public"])


def search(rows):
    """Return the fitted search over the grid."""
    grid = {"learn__epsilon": EPSILONS, "learn__alpha": ALPHAS}
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
    # a refit would be one more fit to pay for, and nothing here uses it
    plane = GridSearchCV(make_pipeline(), grid, cv=folds, refit=False)
    return plane.fit(rows.X, rows.y, X_public=rows.X_public)


def fresh_score(rows, parameters):
    """Return the accuracies of one grid point on other folds."""
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=1)
    pipeline = make_pipeline().set_params(**parameters)
    return cross_val_score(pipeline, rows.X, rows.y, cv=folds, params={"X_public": rows.X_public})


def draw(plane, dataset, majority):
    """Plot and save the grid as a heat map."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
    image = axes.imshow(plane, cmap="viridis", aspect="auto", origin="lower")
    middle = (plane.to_numpy().min() + plane.to_numpy().max()) / 2
    for (row, column), accuracy in np.ndenumerate(plane.to_numpy()):
        color = "white" if accuracy < middle else "black"
        axes.text(column, row, f"{accuracy:.3f}", ha="center", va="center", color=color)
    axes.set_xticks(range(len(plane.columns)), [f"{epsilon:g}" for epsilon in plane.columns])
    axes.set_yticks(range(len(plane.index)), [f"{alpha:g}" for alpha in plane.index])
    axes.set(xlabel="ε (smaller is more private)", ylabel="α (smaller is a finer cover)")
    axes.set_title(f"{dataset}: cross-validated accuracy\n(majority class {majority:.3f})")
    figure.colorbar(image, label="mean accuracy")
    save_picture(figure, f"cross_validation_{dataset}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--dataset", default="wa_churn")
    options = parser.parse_args()
    names = available(options.data_dir)
    if options.dataset not in names:
        parser.error(f"not at hand: {options.dataset}; there are {', '.join(names)}")
    rows = load(options.dataset, options.data_dir, N_PUBLIC, seed=0)
    with config_context(enable_metadata_routing=True):
        searched = search(rows)
        fresh = fresh_score(rows, searched.best_params_)

    results = pd.DataFrame(searched.cv_results_)
    plane = pd.DataFrame(
        {
            "alpha": results["param_learn__alpha"].astype(float),
            "epsilon": results["param_learn__epsilon"].astype(float),
            "mean": results["mean_test_score"],
            "std": results["std_test_score"],
            "fit_seconds": results["mean_fit_time"],
        }
    )
    save_table(plane, f"cross_validation_{options.dataset}")
    cells = plane[["mean", "std"]].map("{:.3f}".format)
    texts = plane.assign(text=cells["mean"] + "±" + cells["std"])
    texts = texts.pivot(index="alpha", columns="epsilon", values="text")
    texts.columns = [f"ε = {epsilon:g}" for epsilon in texts.columns]
    texts.insert(0, "α", [f"{alpha:g}" for alpha in texts.index])
    print_table(texts, f"{options.dataset}: accuracy over folds, mean±std")
    best = searched.best_params_
    print(
        f"\nThe best, ε = {best['learn__epsilon']:g} and α = {best['learn__alpha']:g}, on fresh "
        f"folds: {fresh.mean():.3f}±{fresh.std():.3f}"
    )
    spent = searched.n_splits_ * plane["epsilon"].sum()
    print(
        "These numbers describe the method: each fit spends its own ε. On private rows this\n"
        f"search would cost the sum, ε = {spent:g} for its fits alone, before any score is told."
    )
    majority = max(rows.y.mean(), 1 - rows.y.mean())
    draw(plane.pivot(index="alpha", columns="epsilon", values="mean"), options.dataset, majority)


if __name__ == "__main__":
    main()
