"""Compare sample sizes from the papers, our constants, lower bounds and simulations.

``python benchmarks/sample_sizes.py`` runs simulations for a few minutes and writes sample_sizes.csv
in this folder. ``--functions`` updates only the figures of the functions. Both write the plot and
the tables of docs/user_guide/sample_sizes.md from the CSV.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from report import save_picture
from sample_size_simulations import (
    BETA,
    DELTA,
    EPSILON,
    N_COLUMNS,
    N_RULES,
    RELEASE_EPSILON,
    finite_failures,
    generic_failures,
    mixture_failures,
    private_failures,
    public_failures,
    release_failures,
    stump_failures,
)

from skpublicdp.guarantees import (
    SampleSize,
    growth_function,
    n_active_lower,
    n_blr_learner,
    n_finite,
    n_generic_learner,
    n_label_boost,
    n_labelled_lower,
    n_ppm,
    n_ppm_boxes,
    n_ppm_growing_boxes,
    n_ppm_growing_unions,
    n_ppm_paper,
    n_private,
    n_public,
    n_public_lower,
    n_quantile_learner,
    n_query_release,
    n_query_release_lower,
    n_release_learner,
    n_stumps,
)

SIZES = Path(__file__).parent / "sample_sizes.csv"
PAGE = Path(__file__).parents[1] / "docs" / "user_guide" / "sample_sizes.md"
PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "sample_sizes.png"

COLUMNS_BETA = 0.001  # the lower bound is for small β
ACTIVE_EPSILON = 0.1
DOMAIN = 2**64  # numbers of 64 bits
N_POINTS = 4  # of a tiny domain
TABLE_ALPHAS = (0.4, 0.1)
ALPHAS = (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
SIMULATED_ALPHAS = (0.2, 0.1)
STEP = 2**0.5  # between the sizes that are simulated
N_STEPS = 16
MIN_ROWS = 20


class Size(NamedTuple):
    """Line of the tables.

    Attributes
    ----------
    learner, rows : str
        Learning or release task, and the kind of rows counted.
    functions : dict of str to callable
        Number of rows for an alpha, by "paper", "ours", "realizable" and "lower bound". A function
        raises ValueError if no number is enough.
    failures : callable or None
        Fraction of runs that failed, for a number of rows, an alpha and a seed, in the worst of the
        simulated populations.
    """

    learner: str
    rows: str
    functions: dict[str, Callable[[float], float]]
    failures: Callable[[int, float, int], float] | None = None


def label_boost_base(alpha: float) -> int:
    """Return the number of rows of a base learner that draws one of 1,001 public thresholds."""
    return n_finite(alpha / 4, BETA / 2, 1.0, growth_function(1000, 1))


def label_boost(alpha: float, **settings) -> SampleSize:
    """Return the numbers of rows of LabelBoost for thresholds."""
    return n_label_boost(alpha, BETA, EPSILON, 1, label_boost_base(alpha), **settings)


def release_learner_public(alpha: float) -> int:
    """Return the number of public rows of the learner from releases, if some number is enough."""
    n_release_learner(alpha, BETA, EPSILON, DELTA, 1, 1)  # raises ValueError otherwise
    return n_public(0.23 * alpha / 4, BETA / 8, 1, constants="tight")


LINES = (
    Size(
        f"one of {N_RULES:,} public rules",
        "private",
        {
            "ours": lambda alpha: n_finite(alpha, BETA, EPSILON, N_RULES),
            "realizable": lambda alpha: n_finite(alpha, BETA, EPSILON, N_RULES, realizable=True),
        },
        finite_failures,
    ),
    Size(
        "semi-private, thresholds",
        "private",
        {
            "paper": lambda alpha: n_private(alpha, BETA, EPSILON, 1),
            "ours": lambda alpha: n_private(alpha, BETA, EPSILON, 1, constants="tight"),
            "realizable": lambda alpha: n_private(
                alpha, BETA, EPSILON, 1, constants="tight", realizable=True
            ),
        },
        private_failures,
    ),
    Size(
        "semi-private, thresholds",
        "public",
        {
            "paper": lambda alpha: n_public(alpha / 2, BETA / 2, 1),
            "ours": lambda alpha: n_public(alpha / 2, BETA / 2, 1, constants="tight"),
            "realizable": lambda alpha: n_public(
                alpha / 2, BETA / 2, 1, constants="tight", realizable=True
            ),
            "lower bound": lambda alpha: n_public_lower(alpha, BETA),
        },
        public_failures,
    ),
    Size(
        "GenericLearner, thresholds",
        "labelled",
        {
            "paper": lambda alpha: n_generic_learner(alpha, BETA, EPSILON, 1, DOMAIN).labelled,
            "ours": lambda alpha: n_quantile_learner(alpha, BETA, EPSILON).labelled,
        },
        lambda n, alpha, seed: generic_failures(
            n, n_quantile_learner(alpha, BETA, EPSILON).unlabelled, alpha, seed
        ),
    ),
    Size(
        "GenericLearner, thresholds",
        "unlabelled",
        {
            "paper": lambda alpha: n_generic_learner(alpha, BETA, EPSILON, 1, DOMAIN).unlabelled,
            "ours": lambda alpha: n_quantile_learner(alpha, BETA, EPSILON).unlabelled,
        },
        lambda n, alpha, seed: generic_failures(
            n_quantile_learner(alpha, BETA, EPSILON).labelled, n, alpha, seed
        ),
    ),
    Size(
        f"GenericLearner with BLRSanitizer, {N_POINTS} points",
        "labelled",
        {
            "paper": lambda alpha: n_generic_learner(alpha, BETA, EPSILON, 1, N_POINTS).labelled,
            "ours": lambda alpha: n_blr_learner(alpha, BETA, EPSILON, 1, N_POINTS).labelled,
        },
    ),
    Size(
        f"GenericLearner with BLRSanitizer, {N_POINTS} points",
        "unlabelled",
        {
            "paper": lambda alpha: n_generic_learner(alpha, BETA, EPSILON, 1, N_POINTS).unlabelled,
            "ours": lambda alpha: n_blr_learner(alpha, BETA, EPSILON, 1, N_POINTS).unlabelled,
        },
    ),
    Size(
        "LabelBoost, 1,001 public thresholds",
        "labelled",
        {
            "paper": lambda alpha: label_boost(alpha).labelled,
            "ours": lambda alpha: label_boost(alpha, constants="tight").labelled,
            "realizable": lambda alpha: (
                label_boost(alpha, constants="tight", realizable=True).labelled
            ),
        },
    ),
    Size(
        "LabelBoost, 1,001 public thresholds",
        "unlabelled",
        {
            "paper": lambda alpha: label_boost(alpha).unlabelled,
            "ours": lambda alpha: label_boost(alpha, constants="tight").unlabelled,
            "realizable": lambda alpha: (
                label_boost(alpha, constants="tight", realizable=True).unlabelled
            ),
        },
    ),
    Size(
        f"active at ε = {ACTIVE_EPSILON:g}, thresholds",
        "labels",
        {
            # a subsample at ε = 1 around the semi-private learner
            "ours": lambda alpha: n_private(alpha, BETA, 1.0, 1, constants="tight"),
            "lower bound": lambda alpha: n_active_lower(alpha, BETA, ACTIVE_EPSILON),
        },
    ),
    Size(
        "mixtures, halfspaces of the plane",
        "all",
        {
            "paper": lambda alpha: n_ppm_paper(alpha, BETA, EPSILON, 2),
            "ours": lambda alpha: n_ppm(alpha, BETA, EPSILON, 2, public_share=0.5),
            "realizable": lambda alpha: n_ppm(
                alpha, BETA, EPSILON, 2, public_share=0.5, realizable=True
            ),
            "lower bound": lambda alpha: n_labelled_lower(alpha, BETA, 3),
        },
        mixture_failures,
    ),
    Size(
        "mixtures, boxes with 2 faces in 10 columns",
        "all",
        {
            "ours": lambda alpha: n_ppm_boxes(alpha, BETA, EPSILON, 10, public_share=0.5),
            "lower bound": lambda alpha: n_labelled_lower(alpha, BETA, 3),
        },
    ),
    Size(
        "mixtures, boxes with 6 faces in 3 columns",
        "all",
        {
            "realizable": lambda alpha: n_ppm_growing_boxes(
                alpha, BETA, EPSILON, 3, faces=6, public_share=0.5
            ),
            "lower bound": lambda alpha: n_labelled_lower(alpha, BETA, 6),
        },
    ),
    Size(
        "mixtures, unions of 2 halfspaces of the plane",
        "all",
        {
            "realizable": lambda alpha: n_ppm_growing_unions(alpha, BETA, EPSILON, 2, halfspaces=2),
            "lower bound": lambda alpha: n_labelled_lower(alpha, BETA, 3),
        },
    ),
    Size(
        "release, all thresholds",
        "private",
        {
            "paper": lambda alpha: n_query_release(alpha, BETA, RELEASE_EPSILON, DELTA, 1, 1),
            "ours": lambda alpha: n_query_release(
                alpha, BETA, RELEASE_EPSILON, DELTA, 1, 1, constants="tight"
            ),
        },
        release_failures,
    ),
    Size(
        "release, all thresholds",
        "public",
        {
            "paper": lambda alpha: n_public(alpha / 2, BETA / 2, 1),
            "ours": lambda alpha: n_public(alpha / 4, BETA / 2, 1, constants="tight"),
            "lower bound": lambda alpha: n_public_lower(alpha, BETA, release=True),
        },
    ),
    Size(
        "learner from two releases, thresholds",
        "private",
        {"ours": lambda alpha: n_release_learner(alpha, BETA, EPSILON, DELTA, 1, 1)},
    ),
    Size(
        "learner from two releases, thresholds",
        "public",
        {
            "ours": release_learner_public,
            "lower bound": lambda alpha: n_public_lower(alpha, BETA),
        },
    ),
    Size(
        f"release, shares of {N_COLUMNS:,} columns",
        "private",
        {
            "ours": lambda alpha: n_stumps(alpha, COLUMNS_BETA, EPSILON, DELTA, N_COLUMNS),
            "lower bound": lambda alpha: n_query_release_lower(
                alpha, COLUMNS_BETA, EPSILON, N_COLUMNS, 0, delta=DELTA
            ),
        },
        stump_failures,
    ),
)


def function_sizes() -> Iterator[dict[str, object]]:
    """Yield a record for each function of each line and each alpha."""
    for line in LINES:
        for kind, function in line.functions.items():
            for alpha in ALPHAS:
                try:
                    size = function(alpha)
                except ValueError:  # no number of rows is enough
                    continue
                if size:  # a lower bound of 0 says nothing
                    yield {**_key(line), "kind": kind, "alpha": alpha, "size": int(size)}


def simulated_sizes(first_seed: int) -> Iterator[dict[str, object]]:
    """Yield a record with the number of rows above which few runs fail, for each line and alpha."""
    for line in LINES:
        for alpha in SIMULATED_ALPHAS:
            if line.failures is None:
                continue
            try:
                start = line.functions["ours"](alpha)
            except ValueError:
                continue
            size = smallest_size(line.failures, start, alpha, first_seed)
            print(f"{line.learner} ({line.rows}), {alpha = :g}: {start} -> {size}", flush=True)
            yield {**_key(line), "kind": "simulation", "alpha": alpha, "size": size}


def smallest_size(failures, start: int, alpha: float, seed: int) -> int:
    """Return the smallest of start, start / STEP, ... with few failures, by bisection."""
    sizes = [max(MIN_ROWS, math.ceil(start / STEP**step)) for step in range(N_STEPS)]
    enough, few = 0, N_STEPS
    while few - enough > 1:
        middle = (enough + few) // 2
        if failures(sizes[middle], alpha, seed + middle) <= BETA:
            enough = middle
        else:
            few = middle
    return sizes[enough]


def _key(line: Size) -> dict[str, object]:
    return {"learner": line.learner, "rows": line.rows}


KINDS = ("paper", "ours", "realizable", "lower bound", "simulation")


def written(size: float) -> str:
    """Return a number of rows in the format of the page."""
    if pd.isna(size):
        return ""
    return f"{size:.1e}" if size >= 1e7 else f"{int(size):,}"


def page_table(table: pd.DataFrame, alpha: float) -> str:
    """Return the Markdown table for one alpha."""
    wide = table[table["alpha"] == alpha].pivot_table(
        "size", ["learner", "rows"], "kind", sort=False
    )
    wide = wide.reindex(columns=KINDS)
    lines = [
        "| learner or release | rows | " + " | ".join(KINDS) + " |",
        "|---|---|" + "---:|" * len(KINDS),
    ]
    for (learner, rows), sizes in wide.iterrows():
        lines.append(f"| {learner} | {rows} | " + " | ".join(map(written, sizes)) + " |")
    return "\n".join(lines)


def with_tables(page: str, table: pd.DataFrame) -> str:
    """Return the page with its tables updated from the CSV."""
    for alpha in TABLE_ALPHAS:
        begin, end = f"<!-- sizes {alpha:g} -->\n", "<!-- end -->"
        head, rest = page.split(begin)
        page = head + begin + page_table(table, alpha) + "\n" + rest[rest.index(end) :]
    return page


PANELS = (
    ("semi-private, thresholds", "private"),
    ("semi-private, thresholds", "public"),
    ("mixtures, halfspaces of the plane", "all"),
    ("LabelBoost, 1,001 public thresholds", "labelled"),
    ("release, all thresholds", "private"),
    (f"release, shares of {N_COLUMNS:,} columns", "private"),
)
STYLES = {
    "paper": {"color": "#9a9a9a"},
    "ours": {"color": "#1f5fa8", "linewidth": 2.2},
    "realizable": {"color": "#1f5fa8", "linestyle": "--"},
    "lower bound": {"color": "#b5482f"},
    "simulation": {"color": "black", "marker": "o", "linestyle": "none"},
}


def draw(table: pd.DataFrame):
    """Return the figure of rows against alpha, with a panel for each learner."""
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), sharex=True, layout="constrained")
    for axis, (learner, rows) in zip(axes.flat, PANELS, strict=True):
        panel = table[(table["learner"] == learner) & (table["rows"] == rows)]
        for kind, sizes in panel.groupby("kind", sort=False):
            axis.loglog(sizes["alpha"], sizes["size"], label=kind, **STYLES[kind])
        axis.set_title(f"{learner}: {rows} rows", fontsize=9)
        axis.grid(alpha=0.25)
        axis.invert_xaxis() if axis is axes.flat[0] else None
    for axis in axes[1]:
        axis.set_xlabel("α, the largest excess error")
    for axis in axes[:, 0]:
        axis.set_ylabel("rows")
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    labels = [kind for kind in KINDS if kind in handles]
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
    )
    return figure


def main() -> None:
    """Write the CSV, the figure and the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", action="store_true", help="do not simulate again")
    parser.add_argument("--first-seed", type=int, default=70_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records = pd.DataFrame(function_sizes())
    if options.functions:
        earlier = pd.read_csv(SIZES)
        simulated = earlier[earlier["kind"] == "simulation"]
    else:
        simulated = pd.DataFrame(simulated_sizes(options.first_seed))
    table = pd.concat([records, simulated], ignore_index=True)
    table.to_csv(SIZES, index=False)
    figure = draw(table)
    save_picture(figure, "sample_sizes")
    figure.savefig(PICTURE, dpi=110)
    if PAGE.exists():
        PAGE.write_text(with_tables(PAGE.read_text("utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main()
