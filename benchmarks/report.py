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


def line(what, value, target=None, unit="", *, at_least=False, steady=True):
    """Hold a figure against its target, if it has one; an unsteady one gets no verdict."""
    if target is None:
        bound, verdict = "", "reported"
    else:
        bound = "≥" if at_least else "≤"
        verdict = "pass" if (value >= target if at_least else value <= target) else "FAIL"
    return {
        "what": what,
        "measured": value,
        "unit": unit,
        "bound": bound,
        "target": target,
        "verdict": verdict if steady else "noisy: run again",
    }


def print_lines(lines: list[dict], title: str) -> None:
    """Print the lines that `line` makes; an extra number may be missing from some."""
    table = pd.DataFrame(lines)
    target = [
        f"{bound} {value:g}" if bound else ""
        for bound, value in zip(table.pop("bound"), table["target"], strict=True)
    ]
    texts = table.assign(target=target)
    for name in texts.select_dtypes("number"):
        texts[name] = ["" if pd.isna(value) else f"{value:.4g}" for value in texts[name]]
    print_table(texts, title)
