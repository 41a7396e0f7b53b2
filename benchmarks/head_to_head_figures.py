"""Summarise the fits of head_to_head.py, and compare two runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

HERE = Path(__file__).parent
ROWS = HERE / "results" / "head_to_head_rows.csv"
AGAIN = HERE / "results" / "head_to_head_again.csv"  # of other splits
SUMMARY = HERE / "head_to_head.csv"

FREE = "public rows alone"
BOTH = ["accuracy", "auc"]
TIMED = ["seconds", "peak_mb"]  # of a machine, not of a method
MEASURES = [*BOTH, "max_error", "mean_l1", "gap", *TIMED]
KEY = ["part", "data", "method", "epsilon"]
FIGURE = [*KEY, "measure"]
ALONE = ("release", "MST", "AIM")  # come first in their process: its peak memory is theirs


def summary(rows):
    """Return the mean and standard deviation of each measure over splits and noise."""
    costs = rows["part"] == "costs"
    rows = rows.assign(peak_mb=rows["peak_mb"].where(costs | rows["method"].isin(ALONE)))
    rows = rows.assign(**{name: rows[name].mask(costs) for name in BOTH})
    long = rows.melt([*KEY, "rows"], MEASURES, "measure").dropna(subset="value")
    groups = long.groupby([*KEY, "measure"], sort=False, dropna=False)
    table = groups["value"].agg(["mean", "std", "count"])
    table.insert(0, "rows", groups["rows"].first())
    table = table.reset_index().rename(columns={"std": "sd", "count": "runs"})
    return table.assign(
        **{name: table[name].map(lambda x: float(f"{x:.4g}")) for name in ("mean", "sd")}
    )


def merged(table, measured):
    """Return a summary that is updated and extended with new measurements."""
    every = pd.concat([table, measured], ignore_index=True)
    place = every.groupby(FIGURE, sort=False, dropna=False).ngroup()
    newest = every.assign(place=place).drop_duplicates(FIGURE, keep="last")
    return newest.sort_values("place").drop(columns="place").reset_index(drop=True)


def compared(table, again):
    """Return the differences between two summaries in pooled sds, with the result of a t-test.

    The test has level 5%, so one difference in twenty is significant if only the noise differs.
    """
    both = table.merge(again, on=FIGURE, suffixes=("", "_again"))
    both = both[~both["measure"].isin(TIMED) & (both[["runs", "runs_again"]] > 1).all(axis=1)]
    runs, more = both["runs"], both["runs_again"]
    freedom = runs + more - 2
    squares = (runs - 1) * both["sd"] ** 2 + (more - 1) * both["sd_again"] ** 2
    pooled = np.sqrt(squares / freedom)
    difference = both["mean_again"] - both["mean"]
    seen = difference.abs() > stats.t.ppf(0.975, freedom) * pooled * np.sqrt(1 / runs + 1 / more)
    return both.assign(difference=difference, sds=difference.abs() / pooled, seen=seen)


def agreement(table, again):
    """Return the number of common figures of two summaries and their distance, for each method."""
    groups = compared(table, again).groupby(["part", "measure", "method"], sort=False)
    return groups.agg(
        figures=("seen", "size"),
        seen=("seen", "sum"),
        mean_difference=("difference", "mean"),
        largest_difference=("difference", lambda gaps: gaps.abs().max()),
        largest_in_sds=("sds", "max"),
    ).reset_index()
