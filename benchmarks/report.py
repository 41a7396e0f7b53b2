"""Tables of the benchmarks: printed and kept in benchmarks/results."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")  # draws into files: no display is needed

RESULTS = Path(__file__).parent / "results"


def save_table(frame: pd.DataFrame, name: str) -> None:
    """Write the numbers as they are."""
    RESULTS.mkdir(exist_ok=True)
    frame.to_csv(RESULTS / f"{name}.csv", index=False)


def save_picture(figure, name: str) -> None:
    """Write a figure and say where."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.png"
    figure.savefig(path, dpi=130)
    print(f"\nWritten: {path.with_suffix('.csv')} and {path.name}")


def print_table(frame: pd.DataFrame, title: str) -> None:
    """Print a table whose cells are texts already."""
    print(f"\n{title}\n{frame.to_string(index=False)}", flush=True)
