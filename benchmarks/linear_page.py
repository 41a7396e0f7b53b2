"""Table of linear models and simpler private models for docs/comparison.md, from committed CSVs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
OURS = {
    "ours, unlabelled": "private, unlabelled public rows",
    "ours, labelled": "private, labelled public rows",
}
RIVALS = {
    "one noisy sum": "one noisy sum, public moments",
    "objective perturbation": "objective perturbation",
    "gradient descent": "noisy gradient descent, unlabelled public rows",
    "gradient descent, labelled": "noisy gradient descent, labelled public rows",
    "AdaSSP": "AdaSSP",
}


def scores():
    """Return scores by table, fit and ε: those of our models, and of the best setting of others."""
    ours = pd.read_csv(HERE / "linear.csv")
    ours = ours[ours["fit"].isin(OURS.values())]
    rivals = pd.read_csv(HERE / "linear_rivals.csv")
    keys = ["table", "fit", "epsilon"]
    return pd.concat([table.groupby(keys)["score"].max() for table in (ours, rivals)])


def figure(value):
    """Return .833 for 0.833. Scores below -1 are not worth their digits."""
    if value < -1:
        return "below −1"
    return f"{value:.3f}".replace("0.", ".", 1).replace("-", "−")


def lines():
    """Return one line for each table and model."""
    by_fit = scores().unstack()
    for table in pd.read_csv(HERE / "linear.csv")["table"].unique():
        title = f"{table}, R²" if table == "outcomes" else table
        for model, fit in (OURS | RIVALS).items():
            if (table, fit) not in by_fit.index:
                continue
            cells = {f"ε = {epsilon:g}": figure(v) for epsilon, v in by_fit.loc[table, fit].items()}
            yield {"table": title, "model": model} | cells
            title = ""
