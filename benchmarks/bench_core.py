"""Measure the speed of the two critical steps: tabulating private rows and drawing exactly.

Where possible, results are ratios of two times measured alternately in the same run, so that they
are comparable between machines. Run the benchmark on an idle machine. Other work slows the
reference more than the fit and improves the ratio, so there is no verdict for a slowed reference.
"""

from __future__ import annotations

import resource
import sys
import time
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
from report import RESULTS, line, print_lines, save_table
from threadpoolctl import threadpool_limits

from skpublicdp import SemiPrivateClassifier
from skpublicdp.hypotheses import DecisionTrees, PublicSample
from skpublicdp.hypotheses.contingency import CONTINGENCY_BLOCK_ROWS
from skpublicdp.mechanisms.exponential import draw
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.mechanisms.randomness import SecureBits

ROWS = 1_000_000
FEATURES = 11
REPEATS = 5
SIZES = (125_000, 250_000, 500_000, ROWS)


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_turns(actions, repeats=REPEATS):
    """Time every action once per round, after a warm-up round, and return one row per round."""
    for action in actions.values():
        action()
    rounds = [{name: seconds(action) for name, action in actions.items()} for _ in range(repeats)]
    return pd.DataFrame(rounds)


def is_steady(times, reference):
    """Return whether a reference is reliable, since any ratio would pass with a slowed one.

    BLAS threads that wait for a busy core are many times slower than a single thread.
    """
    rounds = times[reference, "all"]
    undisturbed = rounds.median() <= 1.2 * rounds.min()  # a median forgives the odd bad round
    return bool(undisturbed and rounds.median() <= 1.2 * times[reference, "1"].median())


def fits():
    """Compare a fit with its unavoidable matrix products, and with smaller fits."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, FEATURES))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    X_public = generator.normal(size=(400, FEATURES))
    names = tuple(f"x{column}" for column in range(FEATURES))
    sample = PublicSample(X_public, np.array([0, 1]), names)
    cover = DecisionTrees().build_cover(sample, alpha=0.05, beta=0.05)
    n_splits = len(cover.splits)

    side = (generator.random((n_splits + 1, CONTINGENCY_BLOCK_ROWS)) > 0.5).astype(np.float32)
    other = side.copy()
    blocks = -(-ROWS // CONTINGENCY_BLOCK_ROWS)
    clf = SemiPrivateClassifier()

    def fit(n_rows):
        return lambda: clf.fit(X[:n_rows], y[:n_rows], X_public=X_public)

    def products(right):
        return lambda: [side @ right.T for _ in range(blocks)]

    def on_one_thread(action):
        def limited():
            with threadpool_limits(1, user_api="blas"):
                action()

        return limited

    heavy = {
        ROWS: fit(ROWS),
        "one operand": products(side),  # BLAS does half the work when both are one array
        "two operands": products(other),
    }
    times = in_turns(
        {(name, "all"): action for name, action in heavy.items()}
        | {(name, "1"): on_one_thread(action) for name, action in heavy.items()}
        | {(n_rows, "all"): fit(n_rows) for n_rows in SIZES}
    )
    # the peak so far: the data, the products' operands and the fits
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_gb = peak * (1 if sys.platform == "darwin" else 1024) / 1e9
    print(f"{ROWS:,} rows, {n_splits} splits, {cover.size:.2g} trees")
    labels = [f"{name} (BLAS threads: {threads})" for name, threads in times.columns]
    rounds = times.set_axis(labels, axis="columns")
    print(rounds.agg(["min", "median", "max"]).T.round(3).to_string())
    save_table(rounds, "core_rounds")
    for reference in ("one operand", "two operands"):
        steady = is_steady(times, reference)
        for threads in ("all", "1"):
            ratio = (times[ROWS, threads] / times[reference, threads]).median()
            what = f"1e6-row fit / its float32 products, {reference}, BLAS threads: {threads}"
            yield line(what, ratio, 3, steady=steady)
    yield line("peak memory of the process", peak_gb, 2, "GB")
    for n_rows in SIZES[:-1]:
        ratio = (times[ROWS, "all"] / times[n_rows, "all"]).median() / (ROWS / n_rows)
        steady = is_steady(times, "one operand")
        yield line(f"time per row, 1e6 rows / {n_rows:,} rows", ratio, 1.2, steady=steady)


def draws():
    """Draw from a million listed members with various error distributions."""
    generator = np.random.default_rng(0)
    shapes = {
        "spread": generator.permutation(ROWS),
        "wide": generator.integers(0, 10**12, ROWS),
        "all equal": np.full(ROWS, 7),
        "one clear winner": np.r_[0, np.full(ROWS - 1, 500_000)],
        "binomial": generator.binomial(10_000, 0.3, ROWS),
    }
    actions = {}
    for shape, errors in shapes.items():
        leaf = Leaf(errors.astype(np.int64))
        for epsilon in (0.01, 1):
            draws_once = partial(draw, leaf, Fraction(epsilon), 1, SecureBits())
            actions[f"draw among 1e6, {shape}, ε = {epsilon}"] = draws_once
    times = in_turns(actions)
    for name, column in times.items():
        yield line(f"{name}: median", column.median(), 0.1, "s") | {"largest": column.max()}


def main():
    lines = [*fits(), *draws()]
    save_table(pd.DataFrame(lines), "core")
    print_lines(lines, f"Medians of {REPEATS} rounds")
    print(f"\nWritten: {RESULTS / 'core.csv'}")


if __name__ == "__main__":
    main()
