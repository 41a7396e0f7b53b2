"""Ablation: compare the error with other values of each tuned number and with its default value.

A line consists of a number (or a function, for a rule that can be switched off), alternative values
and a workload. A ratio is the error with the alternative value divided by the error with the
default value, as the geometric mean over the cases of the workload: tables x epsilon x public rows,
half of them drifted. ± is one standard error over seeds, which have the same rows and the same
noise for all values. A number is justified if some ratio exceeds 1 by more than 1% and two standard
errors, which is not the case for "free" lines. Numbers that only limit floating-point range, memory
or time have no line.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import ablate_boosting
import ablate_linear
import numpy as np
import pandas as pd
from ablation import Case, Tuned, ablate
from bench_growth import conjunctions, errors, population
from bench_marginals import adult
from bench_ppm import box_rows, polytope_rows
from report import print_table, save_table

from skpublicdp import PAPQueryRelease, PPMHalfspaceClassifier
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    MarginalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from skpublicdp.query_release.cdf.cdf_posterior import DistributionShift
from skpublicdp.query_release.cdf.grid import just_below
from skpublicdp.query_release.cdf.release import release_cdf
from skpublicdp.query_release.marginals.count import ravel_codes
from skpublicdp.query_release.marginals.release import release_marginals
from skpublicdp.query_release.synthetic import synthesize

N = 10_000
EPSILONS = (0.1, 1.0)
PUBLIC = ((0, 0.0), (100, 2.0), (3000, 0.0), (3000, 1.0))
"""Rows and the strength of their drift: later rows have odds up to e^(4 drift)."""


def score(low, high, truth, level=0.95):
    """Return the mean interval score (Gneiting and Raftery 2007): width plus penalty for misses."""
    missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return float((high - low + 2 / (1 - level) * missed).mean())


# one column


@lru_cache
def column(name, data_dir):
    """Return a sorted population and its bounds."""
    generator = np.random.default_rng(5)
    if name == "lognormal":
        return np.sort(np.exp(generator.normal(10, 1, 100_000))), (-1e6, 1e8)
    if name == "planning":  # two values that many rows share, and cents
        u, spent = generator.random(100_000), np.round(generator.gamma(2, 30, 100_000), 2)
        return np.sort(np.where(u < 0.4, 0, np.where(u < 0.7, 40, spent))), (0, 1000)
    if data_dir is None:
        ages = np.rint(18 + generator.gamma(2.2, 13, 100_000))
        return np.sort(np.clip(ages, 18, 89) if name == "age" else 100 * ages**2), (0, 1e6)
    values = pd.read_csv(data_dir / "adult_train.csv.gz")[name].to_numpy(dtype=float)
    return np.sort(values), {"age": (0, 120), "fnlwgt": (0, 1e7)}[name]


def line_case(name, data_dir, epsilon, n_public, drift, pure, seed):
    values, bounds = column(name, data_dir)
    generator = np.random.default_rng([seed, n_public])
    x, public = generator.choice(values, N), drifted(values, n_public, drift, generator)
    ledger = Ledger(epsilon, 0 if pure else Fraction(1, N**2), seed)
    release = release_cdf(x, public, bounds=bounds, ledger=ledger)
    at = np.unique(np.concatenate([values[::50], just_below(values[::50])]))
    wrong = np.abs(release.cdf(at) - np.searchsorted(np.sort(x), at, side="right") / N)
    truth = np.searchsorted(values, at, side="right") / len(values)
    middle, half = release.cdf(at), release.half_width(at)
    intervals = score(middle - half, middle + half, truth)
    return {"max": wrong.max(), "mean": wrong.mean(), "interval": intervals}


def drifted(rows, n, drift, generator):
    """Draw public rows from a sorted population, with larger odds for later rows."""
    weights = np.exp(drift * np.linspace(-2, 2, len(rows)))
    return rows[generator.choice(len(rows), n, p=weights / weights.sum())]


def lines(data_dir, pure=False, epsilons=EPSILONS):
    """Return cases of one column: smooth, with frequent values, on a lattice, or long-tailed."""
    names = ("lognormal", "planning", "age", "fnlwgt")
    return {
        (name, epsilon, m, drift): partial(line_case, name, data_dir, epsilon, m, drift, pure)
        for name, epsilon, (m, drift) in itertools.product(names, epsilons, PUBLIC)
    }


# tables


@lru_cache
def coded_rows(data_dir):
    """Return a coded population and its column sizes, ordered by the probability under drift."""
    if data_dir is not None:
        codes, sizes = adult(data_dir)
    else:
        rows = population(50_000, 0, False)
        cuts = np.quantile(rows, np.linspace(0, 1, 9)[1:-1], axis=0)
        codes = np.stack([np.searchsorted(c, x) for c, x in zip(cuts.T, rows.T, strict=True)], 1)
        sizes = (8,) * codes.shape[1]
    codes, sizes = codes[:, :7], sizes[:7]
    return codes[np.argsort(codes[:, 0], kind="stable")], sizes


def tables_case(data_dir, width, epsilon, n_public, drift, pure, seed):
    codes, sizes = coded_rows(data_dir)
    generator = np.random.default_rng([seed, n_public])
    private = codes[generator.choice(len(codes), N)]
    public = drifted(codes, n_public, drift, generator)
    workload = list(itertools.combinations(range(len(sizes)), width))
    workload = [workload[i] for i in generator.permutation(len(workload))[:8]]
    ledger = Ledger(epsilon, 0 if pure else Fraction(1, N**2), seed)
    release = release_marginals(private, public, sizes, workload, ledger=ledger)
    gaps, intervals = [], []
    for columns in workload:
        found = release.fractions[columns].ravel()
        asked, every = (
            np.bincount(ravel_codes(rows, columns, sizes), minlength=len(found))
            for rows in (private, codes)
        )
        gaps.append(np.abs(found - asked / N))
        every_cell = np.unravel_index(np.arange(len(found)), release.fractions[columns].shape)
        low, high = release.intervals(columns, every_cell, 0.95).T
        intervals.append(score(low, high, every / len(codes)))
    return {
        "max": max(gap.max() for gap in gaps),
        "mean": float(np.mean([gap.sum() for gap in gaps])),
        "interval": float(np.mean(intervals)),
    }


def tables(data_dir, pure=False, epsilons=EPSILONS):
    """Return cases of eight tables with two columns and with three columns."""
    return {
        (width, epsilon, m, drift): partial(tables_case, data_dir, width, epsilon, m, drift, pure)
        for width, epsilon, (m, drift) in itertools.product((2, 3), epsilons, PUBLIC)
    }


def columns_case(epsilon, n_public, is_drifted, seed):
    """Score the intervals of a column in a release of tables, at numbers between its cuts."""
    X, public = population(N, seed, False), population(n_public, seed + 1, is_drifted)
    release = PAPQueryRelease(
        MarginalQueries(), epsilon=epsilon, bounds=(-100, 150), random_state=seed
    ).fit(X, X_public=public)
    at = np.quantile(X[:, 1], np.random.default_rng(seed).random(50))
    truth = np.searchsorted(np.sort(X[:, 1]), at, side="right") / N
    intervals = score(*release.cdf_interval(at, 1).T, truth)
    wrong = np.abs(release.cdf(at, 1) - truth)
    return {"max": wrong.max(), "mean": wrong.mean(), "interval": intervals}


def columns_of_tables(data_dir):
    """Workload of one column among all tables of two columns."""
    return {
        (epsilon, m, is_drifted): partial(columns_case, epsilon, m, is_drifted)
        for epsilon, m, is_drifted in itertools.product(EPSILONS, (100, 3000), (False, True))
    }


def rows_case(data_dir, width, epsilon, n_public, drift, seed):
    """Compare the tables of synthetic rows with the released tables."""
    codes, sizes = coded_rows(data_dir)
    generator = np.random.default_rng(seed)
    private = codes[generator.choice(len(codes), N)]
    public = drifted(codes, n_public, drift, generator)
    workload = list(itertools.combinations(range(len(sizes)), width))
    ledger = Ledger(epsilon, Fraction(1, N**2), seed)
    fractions = release_marginals(private, public, sizes, workload, ledger=ledger).fractions
    rows, weights = synthesize(fractions, workload, sizes, public, n_public)
    gaps = [
        np.bincount(ravel_codes(rows, c, sizes), weights, minlength=fractions[c].size)
        - fractions[c].ravel()
        for c in workload
    ]
    return {"max": max(abs(g).sum() for g in gaps), "mean": np.mean([abs(g).sum() for g in gaps])}


def rows_of_tables(data_dir):
    """Workload of all tables of two columns."""
    return {
        (epsilon, m, drift): partial(rows_case, data_dir, 2, epsilon, m, drift)
        for epsilon, (m, drift) in itertools.product(EPSILONS, PUBLIC)
    }


# classes of queries


def class_case(queries, n_columns, epsilon, n_public, is_drifted, settings, seed):
    X = population(N, seed, False)[:, :n_columns]
    public = population(n_public, seed + 1, is_drifted)[:, :n_columns]
    release = PAPQueryRelease(
        queries, epsilon=epsilon, bounds=(-100, 150), random_state=seed, **settings
    ).fit(X, X_public=public)
    wrong = errors(release, X)
    return {"max": wrong.max(), "mean": wrong.mean()}


def classes(data_dir, asked, **settings):
    """Return cases with mixed integer and continuous columns that depend on each other."""
    return {
        (type(queries).__name__, epsilon, m, is_drifted): partial(
            class_case, queries, n_columns, epsilon, m, is_drifted, settings
        )
        for (queries, n_columns), epsilon, m, is_drifted in itertools.product(
            asked, EPSILONS, (100, 3000), (False, True)
        )
    }


BOXES = ((RectangleQueries(), 3), (HalfspaceQueries(), 3))
PMW = ((ThresholdQueries(), 1), (RectangleQueries(), 2), (HalfspaceQueries(), 3),
       (StumpQueries(), 5), (MarginalQueries(k=2, bins=8), 3))  # fmt: skip

WORKLOADS: dict[str, Callable[[Path | None], Mapping[Any, Case]]] = {
    "line": lines,
    "line, pure": partial(lines, pure=True),
    "little": partial(lines, epsilons=(0.01, 0.03)),
    "tables": tables,
    "tables, pure": partial(tables, pure=True),
    "tables, precise": partial(tables, epsilons=(8.0, 30.0)),
    "columns": columns_of_tables,
    "rows": rows_of_tables,
    "boxes": partial(classes, asked=BOXES),
    "custom": partial(classes, asked=((CustomQueries(conjunctions), 5),)),
    "pmw": partial(classes, asked=PMW, method="pmw"),
}


def waves(number):
    """Set the number of waves and the values that depend on it."""
    return {"N_COSINES": number, "NO_SHIFT": DistributionShift(np.zeros(number + 1), 0.0, 0.0)}


COARSE = np.concatenate([[0.0], np.geomspace(1e-6, 10, 15)])
EVEN = {"even": lambda model, *_: np.full(len(model.tables), 1 / len(model.tables))}
TENTH = {"MEDIAN_SCALES": {2: 8e-4, 3: 1e-5}}
HALF, QUARTER, EIGHTH = Fraction(1, 2), Fraction(1, 4), Fraction(1, 8)

QUERY_RELEASE = (
    # the cells of a column
    Tuned("cdf.grid", "PADDING", "line", {"0.025": 0.025, "0.1": 0.1}),
    Tuned("cdf.grid", "MIN_CELL_SNR", "line", {"2": 2, "8": 8}),
    Tuned("cdf.release", "MIN_CDF_CELLS", "little", {"2": 2, "32": 32}),
    Tuned("cdf.release", "MAX_CDF_CELLS", "line", {"350": 350, "1400": 1400}),
    Tuned("cdf.release", "MAX_CDF_CELLS_LAPLACE", "line, pure", {"128": 128, "512": 512}),
    # closer looks
    Tuned("cdf.strategies", "REFINEMENT_SHARE", "line", {"1/8": EIGHTH, "1/2": HALF}),
    Tuned("cdf.strategies", "REFINEMENT_SHARE", "line, pure", {"1/8": EIGHTH, "1/2": HALF}),
    Tuned("cdf.strategies", "SHARE_PER_ROUND", "line", {"1/4": QUARTER, "3/4": 3 * QUARTER}),
    Tuned("cdf.strategies", "detection_threshold", "line", {"off": lambda *_: np.inf}),
    Tuned("cdf.strategies", "MIN_CELL_MASS", "line", {"2^-12": 2.0**-12, "2^-14": 2.0**-14}),
    # the fit of a column
    Tuned("cdf.cdf_posterior", "N_COSINES", "line", {"4": waves(4), "16": waves(16)}),
    Tuned("cdf.cdf_posterior", "MAX_SHIFT_EDGES", "line", {"60": 60, "240": 240}),
    Tuned("cdf.cdf_posterior", "TAIL_SHARE_OF_SHIFT", "line", {"0": 0.0, "0.3": 0.3, "1": 1.0}),
    Tuned("cdf.cdf_posterior", "PROFILE_LIKELIHOOD_SLACK", "line", {"0": 0.0, "4": 4.0}),
    Tuned("cdf.cdf_posterior", "N_GAUSS_NEWTON_STEPS", "line", {"2": 2, "8": 8}),
    Tuned("cdf.cdf_posterior", "MAX_TILT_STEP", "line", {"0.75": 0.75, "3": 3.0}),
    Tuned("cdf.cdf_posterior", "AIC_THRESHOLD", "little", {"0": 0.0, "1": 1.0, "4": 4.0}),
    Tuned("effective_sizes", "SHIFT_VARIANCE_GRID", "line", {"2 to a power of ten": COARSE}),
    # tables
    Tuned("effective_sizes", "SHIFT_VARIANCE_GRID", "custom", {"2 to a power of ten": COARSE}),
    Tuned(
        "marginals.shrinkage",
        "DEVIATION_SCALES",
        "tables",
        {"2 to a power of ten": COARSE[:, None]},
    ),
    Tuned(
        "marginals.release", "MAX_FIRST_ROUND_SHARE", "tables", {"1/4": QUARTER, "3/4": 3 * QUARTER}
    ),
    Tuned(
        "marginals.release",
        "MAX_FIRST_ROUND_SHARE",
        "tables, pure",
        {"1/4": QUARTER, "3/4": 3 * QUARTER},
    ),
    Tuned(
        "marginals.release",
        "MIN_FIRST_ROUND_SHARE",
        "tables, precise",
        {"1/8": EIGHTH, "1/2": HALF},
    ),
    Tuned("marginals.release", "allocate_budget", "tables", EVEN),
    Tuned(
        "marginals.shrinkage", "NO_PUBLIC_SCALE_PRIOR", "tables", {"even": np.full((30, 1), 1 / 30)}
    ),
    Tuned("marginals.shrinkage", "PRIOR_PSEUDO_CELLS", "tables", {"2.5": 2.5, "10": 10.0}),
    Tuned("marginals.shrinkage", "MIN_LOGLIK_RANGE", "tables", {"off": -1.0}),
    Tuned("marginals.table", "OUTLIER_DEVIATIONS", "tables", {"2": 2.0, "5": 5.0, "off": np.inf}),
    Tuned(
        "marginals.table", "OUTLIER_DEVIATIONS", "tables, pure", {"2": 2.0, "5": 5.0, "off": np.inf}
    ),
    Tuned(
        "marginals.marginal_model",
        "DOMINANT_SHARE",
        "tables, precise",
        {"0.3": 0.3, "0.7": 0.7, "off": 2.0},
    ),
    Tuned(
        "marginals.marginal_model", "MAX_RELATIVE_NOISE", "tables, precise", {"0.1": 0.1, "1": 1.0}
    ),
    Tuned(
        "marginals.marginal_model",
        "COMMON_PRIOR_WEIGHT",
        "tables, precise",
        {"0.01": 0.01, "0.3": 0.3},
    ),
    # intervals of tables
    Tuned("effective_sizes", "NO_SHIFT_PROBABILITY", "tables", {"0.5": 0.5}),
    Tuned("effective_sizes", "MIN_SHIFT_VARIANCE", "tables", {"0.001": 1e-3, "0.03": 0.03}),
    Tuned("marginals.intervals", "MEDIAN_SCALES", "tables", {"a tenth": TENTH}),
    Tuned("marginals.intervals", "POPULATION_DEVIATION", "tables", {"1": 1.0, "4": 4.0}),
    Tuned("marginals.intervals", "TABLE_DEVIATION", "tables", {"0.7": 0.7, "2": 2.0}),
    Tuned("marginals.intervals", "CELL_DEVIATION", "tables", {"0.7": 0.7, "2": 2.0}),
    Tuned("marginals.intervals", "NO_DEVIATIONS_PROBABILITY", "tables", {"0": 1e-12, "0.3": 0.3}),
    Tuned("marginals.intervals", "TEMPERATURE", "tables", {"1/8": 0.125, "1": 1.0}),
    Tuned("marginals.intervals", "PRIOR_SHARE", "tables, pure", {"0": 0.0, "1": 1.0}),
    Tuned(
        "marginals.noisy_fractions", "NOISE_INTERVAL_SHARE", "tables", {"1/100": 0.01, "1/2": 0.5}
    ),
    Tuned("effective_sizes", "MIN_SIZE_PROBABILITY", "columns", {"0": 0.0, "0.2": 0.2}),
    Tuned("marginals.marginal_model", "MAX_SHIFTED_SIZE", "tables", {"0.25": 0.25, "0.7": 0.7}),
    Tuned("marginals.release", "N_VARIANCE_BINS", "tables", {"12": 12, "48": 48}),
    Tuned("marginals.release", "N_GRADIENT_STEPS", "tables", {"30": 30, "600": 600}),
    # rows, and what is answered from them
    Tuned("synthetic", "N_TREE_ROWS", "boxes", {"25000": 25_000, "100000": 100_000}),
    Tuned("synthetic", "SWEEP_RANGE", "rows", {"30": (3, 30), "120": (3, 120)}),
    Tuned("synthetic", "UNDAMPED_SWEEPS", "rows", {"1": 1, "60": 60}),
    Tuned("discretize", "MIN_RELEASED_BINS", "boxes", {"2": 2, "8": 8}),
    Tuned("cdf.grid", "MIN_CELL_SNR", "boxes", {"2": 2, "8": 8}),
    # private multiplicative weights
    Tuned("queries.geometric", "MAX_HALFSPACES", "pmw", {"400": 400, "1100": 1100}),
    Tuned("pmw.cover", "MAX_CELLS", "pmw", {"2048": 2048}),
    Tuned("pmw.cover", "MAX_AXIS_CELLS", "pmw", {"512": 512, "2048": 2048}),
)


def mixture(pool, rows, d, noise, private_inside, n_faces, seed):
    """Return the error of a rule with many halfspaces on new rows of a mixture."""
    generator = np.random.default_rng(seed)
    X, inside = rows(30_000, d, generator)
    truth = (inside == private_inside).astype(int)
    y = np.where(generator.random(len(X)) < noise, 1 - truth, truth)
    clf = PPMHalfspaceClassifier(
        private_label=1, pool=pool, max_intersections=n_faces, max_halfspaces=400, random_state=seed
    ).fit(X[:20_000], y[:20_000])
    return {"error": np.mean(clf.predict(X[20_000:]) != truth[20_000:])}


def mixtures(_):
    """Return cases of boxes and polytopes, with the private label inside or outside."""
    kinds = {"box": ("axes", box_rows, 5), "polytope": ("auto", polytope_rows, 2)}
    return {
        (kind, noise, private_inside, n_faces): partial(
            mixture, *kinds[kind], noise, private_inside, n_faces
        )
        for kind, noise, private_inside, n_faces in itertools.product(
            kinds, (0.0, 0.1), (True, False), (10, 20)
        )
    }


HYPOTHESES = (
    Tuned(
        "growing_unions",
        "DEFAULT_FIRST_WEIGHT",
        "mixtures",
        {"0.05": 0.05, "0.7": 0.7, "1": 1.0},
    ),
)

PARTS = {
    "hypotheses": (HYPOTHESES, {"mixtures": mixtures}),
    "query_release": (QUERY_RELEASE, WORKLOADS),
    "boosting": (
        tuple(Tuned(m, n, w, o) for m, n, w, o in ablate_boosting.LINES),
        ablate_boosting.WORKLOADS,
    ),
    "linear": (
        tuple(Tuned(m, n, w, o) for m, n, w, o in ablate_linear.LINES),
        ablate_linear.WORKLOADS,
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--part", choices=sorted(PARTS), default="query_release")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="numbers, modules or workloads")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="four cases of each workload, two seeds"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    records = []
    lines, workloads = PARTS[arguments.part]
    if arguments.only:
        selected = set(arguments.only)
        lines = [line for line in lines if selected & {line.name, line.module, line.workload}]
    seeds = 2 if arguments.quick else arguments.seeds
    for record in ablate(
        arguments.part, lines, workloads, arguments.data_dir, seeds, quick=arguments.quick
    ):
        records.append(record)
        shown = {k: f"{v:.3f}" if isinstance(v, float) else v for k, v in record.items()}
        print(*shown.values(), flush=True)
    table = pd.DataFrame(records)
    save_table(table, f"ablate_{arguments.part}")
    texts = table.map(lambda v: f"{v:.3f}" if isinstance(v, float) else v)
    print_table(texts, f"Error with another value over error with its own: {arguments.part}")


if __name__ == "__main__":
    main()
