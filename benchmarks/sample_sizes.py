"""Sample sizes: by the papers' constants, by ours, by the lower bounds, and enough in simulation.

``python benchmarks/sample_sizes.py`` simulates (some minutes) and writes sample_sizes.csv beside
this script; ``--functions`` replaces the figures of the functions only. Both write the picture and
the tables of docs/user_guide/sample_sizes.md from the CSV.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from report import save_picture
from sklearn.base import BaseEstimator, ClassifierMixin

from skpublicdp import (
    GenericLearnerClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import Gaussian, Sensitivity, gaussian_mu_squared
from skpublicdp.guarantees import (
    growth_function,
    n_active_lower,
    n_finite,
    n_generic_learner,
    n_label_boost,
    n_ppm,
    n_ppm_paper,
    n_private,
    n_public,
    n_public_lower,
    n_quantile_learner,
    n_query_release,
    n_query_release_lower,
    n_stumps,
)
from skpublicdp.hypotheses import FiniteClass, Thresholds
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release import ThresholdQueries

SIZES = Path(__file__).parent / "sample_sizes.csv"
PAGE = Path(__file__).parents[1] / "docs" / "user_guide" / "sample_sizes.md"
PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "sample_sizes.png"

BETA = 0.05
EPSILON = 1.0
RELEASE_EPSILON, DELTA = 0.5, 1e-6  # Lemma 7 is for ε below 1
N_RULES = 1000
N_COLUMNS = 10_000
COLUMNS_BETA = 0.001  # the lower bound is for small β
ACTIVE_EPSILON = 0.1
DOMAIN = 2**64  # numbers of 64 bits
ALPHAS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
SIMULATED_ALPHAS = (0.2, 0.1)
N_RUNS = 40
STEP = 2**0.5  # between the sizes that are simulated
N_STEPS = 16
MIN_ROWS = 20
LABELS = (False, True)


class Size(NamedTuple):
    """One line of the tables.

    Attributes
    ----------
    learner, rows : str
        What is learned or released, and which rows are counted.
    functions : dict of str to callable
        Number of rows for an alpha, by "paper", "ours", "realizable" and "lower bound". A function
        raises ValueError where no number is enough.
    failures : callable or None
        Fraction of runs that failed, for a number of rows, an alpha and a seed, in the worst of the
        simulated populations.
    """

    learner: str
    rows: str
    functions: dict[str, Callable[[float], float]]
    failures: Callable[[int, float, int], float] | None = None


# Populations of one number, uniform on [0, 1]. The error of a threshold t is known exactly: each
# population labels x by the threshold 1/2 and flips the label with a constant probability.

FLIPS = (0.0, 0.25, 0.4)


def threshold_rows(n: int, flip: float, rng: np.random.Generator):
    """Return n rows of one uniform number with their noisy labels."""
    x = rng.random(n)
    return x[:, None], (x > 0.5) ^ (rng.random(n) < flip)


def threshold_excess(model, flip: float) -> float:
    """Return the excess error in the population of a model that is a threshold or constant."""
    grid = (np.arange(4000) + 0.5) / 4000
    wrong = np.mean(model.predict(grid[:, None]).astype(bool) != (grid > 0.5))
    return float(wrong * (1 - 2 * flip))


def worst(failed: Callable[[float, np.random.Generator], bool], cases, seed: int) -> float:
    """Return the largest fraction of failures in N_RUNS runs, over the cases."""
    fractions = []
    for index, case in enumerate(cases):
        rng = np.random.default_rng([seed, index])
        fractions.append(np.mean([failed(case, rng) for _ in range(N_RUNS)]))
    return float(max(fractions))


class Column(ClassifierMixin, BaseEstimator):
    """A fitted rule that predicts the value of one binary column."""

    def __init__(self, column: int) -> None:
        self.column = column

    def fit(self, X, y=None):
        """Learn nothing."""
        self.classes_ = np.array([False, True])
        return self

    def predict(self, X):
        """Return the column as booleans."""
        return np.asarray(X)[:, self.column] > 0.5


RULES = FiniteClass([Column(column).fit(None) for column in range(N_RULES)])


def finite_failures(n: int, alpha: float, seed: int) -> float:
    """One column agrees with the label a little more than alpha oftener than the fair coins."""

    def failed(_, rng):
        X = rng.integers(2, size=(n, N_RULES))
        best = rng.integers(N_RULES)
        y = X[:, best].astype(bool) ^ (rng.random(n) < 0.5 - 1.01 * alpha)
        learner = SemiPrivateClassifier(
            RULES, epsilon=EPSILON, classes=LABELS, random_state=draw_seed(rng)
        )
        one_row = np.zeros((1, N_RULES))
        return learner.fit(X, y, X_public=one_row).hypothesis_.model.column != best

    return worst(failed, [None], seed)


def semi_private_failures(n: int, m: int, alpha: float, seed: int) -> float:
    """Thresholds with n private and m public rows, and a member for each dichotomy."""

    def failed(flip, rng):
        learner = SemiPrivateClassifier(
            Thresholds(),
            epsilon=EPSILON,
            alpha=0.5 / m,
            classes=LABELS,
            random_state=draw_seed(rng),
        )
        X, y = threshold_rows(n, flip, rng)
        learner.fit(X, y, X_public=rng.random((m, 1)))
        return threshold_excess(learner, flip) > alpha

    return worst(failed, FLIPS, seed)


def private_failures(n: int, alpha: float, seed: int) -> float:
    """Private rows, beside as many public ones as the theorem takes."""
    return semi_private_failures(
        n, n_public(alpha / 2, BETA / 2, 1, constants="tight"), alpha, seed
    )


def public_failures(m: int, alpha: float, seed: int) -> float:
    """Public rows, beside as many private ones as the theorem takes."""
    return semi_private_failures(
        n_private(alpha, BETA, EPSILON, 1, constants="tight"), m, alpha, seed
    )


def generic_failures(labelled: int, unlabelled: int, alpha: float, seed: int) -> float:
    """Thresholds without public rows, by the generic learner."""

    def failed(flip, rng):
        X, y = threshold_rows(labelled + unlabelled, flip, rng)
        learner = GenericLearnerClassifier(
            Thresholds(),
            epsilon=EPSILON,
            alpha=0.01,
            classes=LABELS,
            random_state=draw_seed(rng),
        )
        known = np.arange(len(X)) < labelled
        learner.fit(X, y, is_labelled=known)
        return threshold_excess(learner, flip) > alpha

    return worst(failed, FLIPS, seed)


def release_failures(n: int, alpha: float, seed: int) -> float:
    """All thresholds of one number, by multiplicative weights on a cover."""
    m = n_public(alpha / 4, BETA / 2, 1, constants="tight")

    def failed(atoms, rng):
        def numbers(size):
            if atoms:  # two values: the answer between them has the largest sampling error
                return rng.integers(2, size=(size, 1)).astype(float)
            return rng.random((size, 1))

        release = PAPQueryRelease(
            ThresholdQueries(),
            epsilon=RELEASE_EPSILON,
            delta=DELTA,
            method="pmw",
            alpha=alpha,
            random_state=draw_seed(rng),
        )
        release.fit(numbers(n), X_public=numbers(m))
        at = np.array([0.5]) if atoms else np.arange(1, 200) / 200
        truth = np.array([0.5]) if atoms else at
        return np.abs(release.cdf(at) - truth).max() > alpha

    return worst(failed, (False, True), seed)


def stump_failures(n: int, alpha: float, seed: int) -> float:
    """Noisy counts of fair coins."""
    event = Gaussian(gaussian_mu_squared(Fraction(1), Fraction(DELTA)))

    def failed(_, rng):
        counts = rng.binomial(n, 0.5, size=N_COLUMNS)
        ledger = Ledger(1, Fraction(DELTA), random_state=draw_seed(rng))
        noisy = ledger.add_noise(
            counts, Sensitivity(N_COLUMNS, N_COLUMNS), event, name="counts", proof="noise"
        )
        return np.abs(noisy.values / n - 0.5).max() > alpha

    return worst(failed, [None], seed)


def mixture_failures(n: int, alpha: float, seed: int) -> float:
    """Halfspaces of the plane, half of the rows public: rows of label 0, with all flips private."""
    grid = np.random.default_rng(1).normal(size=(20_000, 2))

    def failed(flip, rng):
        X = rng.normal(size=(n, 2))
        normal = rng.normal(size=2)
        label = (X @ normal > 0) ^ ((rng.random(n) < flip) & (X @ normal > 0))
        learner = PPMHalfspaceClassifier(
            epsilon=EPSILON, pool="paper", private_label=True, random_state=draw_seed(rng)
        )
        learner.fit(X, label, is_public=~label)
        positive = grid @ normal > 0
        predicted = learner.predict(grid).astype(bool)
        # rows on the positive side have label 1 with probability 1 - flip
        excess = np.mean(predicted & ~positive) + (1 - 2 * flip) * np.mean(~predicted & positive)
        return excess > alpha

    return worst(failed, (0.0, 0.25), seed)


def draw_seed(rng: np.random.Generator) -> int:
    """Return a seed for one fit."""
    return int(rng.integers(2**31))


def label_boost_base(alpha: float) -> int:
    """Return the rows of a base learner that draws one of the thresholds of public rows."""
    return n_finite(alpha / 4, BETA / 2, 1.0, growth_function(1000, 1))


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
        "LabelBoost, thresholds",
        "labelled",
        {
            "paper": lambda alpha: (
                n_label_boost(alpha, BETA, EPSILON, 1, label_boost_base(alpha)).labelled
            ),
            "ours": lambda alpha: (
                n_label_boost(
                    alpha, BETA, EPSILON, 1, label_boost_base(alpha), constants="tight"
                ).labelled
            ),
            "realizable": lambda alpha: (
                n_label_boost(
                    alpha,
                    BETA,
                    EPSILON,
                    1,
                    label_boost_base(alpha),
                    constants="tight",
                    realizable=True,
                ).labelled
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
            "ours": lambda alpha: n_ppm(alpha, BETA, EPSILON, 2, supports=None),
            "realizable": lambda alpha: n_ppm(
                alpha, BETA, EPSILON, 2, supports=None, realizable=True
            ),
        },
        mixture_failures,
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
    """Yield a record for each simulated line and alpha: the rows from which on few runs fail."""
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
    """Return a number of rows as the page writes it."""
    if pd.isna(size):
        return ""
    return f"{size:.1e}" if size >= 1e7 else f"{int(size):,}"


def page_table(table: pd.DataFrame, alpha: float) -> str:
    """Return the markdown table of one alpha."""
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
    """Return the page with its tables replaced by those of the CSV."""
    for alpha in (0.1, 0.001):
        begin, end = f"<!-- sizes {alpha:g} -->\n", "<!-- end -->"
        head, rest = page.split(begin)
        page = head + begin + page_table(table, alpha) + "\n" + rest[rest.index(end) :]
    return page


PANELS = (
    ("semi-private, thresholds", "private"),
    ("semi-private, thresholds", "public"),
    ("mixtures, halfspaces of the plane", "all"),
    ("LabelBoost, thresholds", "labelled"),
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
    """Return the figure: rows against alpha, a panel for each learner."""
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
    """Write the CSV, the picture and the tables of the page."""
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
