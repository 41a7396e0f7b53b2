"""Print the tables of the benchmarks and save them in benchmarks/results."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")  # draws into files: no display is needed

RESULTS = Path(__file__).parent / "results"


def save_table(frame: pd.DataFrame, name: str) -> None:
    """Write the unrounded numbers."""
    RESULTS.mkdir(exist_ok=True)
    frame.to_csv(RESULTS / f"{name}.csv", index=False)


def save_picture(figure, name: str) -> None:
    """Save a figure and print its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.png"
    figure.savefig(path, dpi=130)
    print(f"\nWritten: {path.with_suffix('.csv')} and {path.name}")


def print_table(frame: pd.DataFrame, title: str) -> None:
    """Print a table of strings."""
    print(f"\n{title}\n{frame.to_string(index=False)}", flush=True)


def line(what, value, target=None, unit="", *, at_least=False, steady=True):
    """Compare a figure with its target, if any; there is no verdict for unsteady figures."""
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
    """Print the lines returned by `line`; some of them may lack an extra number."""
    table = pd.DataFrame(lines)
    target = [
        f"{bound} {value:g}" if bound else ""
        for bound, value in zip(table.pop("bound"), table["target"], strict=True)
    ]
    texts = table.assign(target=target)
    for name in texts.select_dtypes("number"):
        texts[name] = ["" if pd.isna(value) else f"{value:.4g}" for value in texts[name]]
    print_table(texts, title)
