"""Compare the largest cell error over many tables and the mean error with ResidualPlanner.

The tables have three columns: 64 random tables of adult's 13 attributes, the 20 tables of six
attributes, and 64 tables of ACS (MA 2019, 17 attributes) with public rows from the same state a
year before, or from Texas ("drifted"). A split draws the public rows (for adult, the rest is
private) and the workload. Both methods have δ = 1/n² and protect against replacing a row.
ResidualPlanner is measured with two accountants: zCDP ("rival"), and the μ² of our noise ("rival,
our accountant"). Errors are fractions of the private rows. --before compares with the CSV of
another version with the same splits and noise.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from bench_marginals import acs, adult, random_workload
from report import print_table, save_table
from residual_planner import plan_residuals, release_residuals

from skpublicdp.accounting import gaussian_mu_squared, zcdp_rho
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.marginals.count import marginal_tables
from skpublicdp.query_release.marginals.release import release_marginals

EPSILONS = (0.3, 1.0, 3.0, 8.0, 30.0)
N_PUBLIC = 300
SIX = [0, 2, 3, 4, 7, 12]  # age, education, marriage, occupation, sex, income
YEAR_BEFORE = ("ACS MA, whole year before", 0.1)
"""Setting that tests whether a release is worse than the public rows alone."""

KEYS = ["table", "epsilon", "public rows"]
ERRORS = ("largest", "mean L1")
RIVALS = ("rival", "rival, our accountant")

MEANS = Path(__file__).parent / "largest_error.csv"
"""Committed, for the table of docs/comparison.md, which head_to_head_page.py writes."""


class Problem(NamedTuple):
    """Rows, a workload, and the tested numbers of public rows."""

    table: str
    private: np.ndarray
    public: np.ndarray
    sizes: tuple[int, ...]
    workload: list[tuple[int, ...]]
    n_public: tuple[int, ...]
    epsilons: tuple[float, ...]


def problems(data_dir: Path, split: int, only: list[str] | None) -> Iterator[Problem]:
    """Yield the problems of a split."""
    generator = np.random.default_rng(split)
    codes, sizes = adult(data_dir)
    codes = generator.permutation(codes)
    public, private = codes[:N_PUBLIC], codes[N_PUBLIC:]
    both = (0, N_PUBLIC)
    wanted = only or ["adult13", "adult6", "acs", "drifted", "year"]
    if "adult13" in wanted:
        workload = random_workload(len(sizes), split)
        yield Problem("adult, 13 columns", private, public, sizes, workload, both, EPSILONS)
    if "adult6" in wanted:
        six = tuple(sizes[column] for column in SIX)
        workload = list(itertools.combinations(range(6), 3))
        yield Problem(
            "adult, 6 columns", private[:, SIX], public[:, SIX], six, workload, both, EPSILONS
        )
    if not {"acs", "drifted", "year"} & set(wanted):
        return
    rows, sizes = acs(data_dir)
    workload = random_workload(len(sizes), split)
    private = rows["ma", 2019]
    same, other = (generator.permutation(rows[state, 2018]) for state in ("ma", "tx"))
    if "acs" in wanted:
        yield Problem("ACS MA", private, same, sizes, workload, both, EPSILONS)
    if "drifted" in wanted:
        yield Problem("ACS MA, drifted", private, other, sizes, workload, (N_PUBLIC,), EPSILONS)
    if "year" in wanted:
        name, epsilon = YEAR_BEFORE
        yield Problem(name, private, same, sizes, workload, (len(same),), (epsilon,))


def measure(problem: Problem, noises: range, split: int) -> Iterator[dict[str, object]]:
    """Yield a record of both methods' errors for each ε, number of public rows and noise draw."""
    n, sizes, workload = len(problem.private), problem.sizes, problem.workload
    ends = np.cumsum([math.prod(sizes[column] for column in columns) for columns in workload])
    counts = np.split(marginal_tables(problem.private, workload, sizes), ends[:-1])

    def errors(tables):
        gaps = [np.abs(t.ravel() - c / n) for t, c in zip(tables, counts, strict=True)]
        return max(gap.max() for gap in gaps), float(np.mean([gap.sum() for gap in gaps]))

    plan = plan_residuals(sizes, workload)
    delta = Fraction(1, n**2)
    for epsilon, noise in itertools.product(problem.epsilons, noises):
        seed = 1000 * split + noise
        exact = Fraction(str(epsilon))
        charged = {
            "rival": 2 * float(zcdp_rho(exact, delta)),
            "rival, our accountant": float(gaussian_mu_squared(exact, delta)),
        }
        rivals = {}
        for name, mu_squared in charged.items():
            tables = release_residuals(counts, sizes, workload, plan, mu_squared, seed)
            largest, mean = errors([table / n for table in tables])
            rivals |= {f"{name}, largest": largest, f"{name}, mean L1": mean}
        for n_public in problem.n_public:
            public = problem.public[:n_public]
            start = time.perf_counter()
            release = release_marginals(
                problem.private, public, sizes, workload, ledger=Ledger(epsilon, delta, seed)
            )
            seconds = time.perf_counter() - start
            largest, mean = errors([release.marginal(columns) for columns in workload])
            record = {"table": problem.table, "split": split, "epsilon": epsilon,
                      "public rows": n_public, "noise": noise, "largest": largest,
                      "mean L1": mean, **rivals, "seconds": seconds}  # fmt: skip
            if n_public == len(problem.public):
                cells = np.split(marginal_tables(public, workload, sizes), ends[:-1])
                record["public alone, mean L1"] = errors([c / n_public for c in cells])[1]
            yield record


def _ratio(ours: pd.Series, theirs: pd.Series) -> tuple[float, float]:
    """Return a ratio of means and its standard error, with independent noise within splits."""
    ratio = ours.mean() / theirs.mean()
    relative = (ours / ours.mean() - theirs / theirs.mean()).groupby(level="split").var(ddof=1)
    return ratio, ratio * math.sqrt(relative.mean() / len(ours))


def summarise(table: pd.DataFrame, before: pd.DataFrame | None) -> pd.DataFrame:
    """Return means over splits and noise, and their ratios to the rival and the old version."""
    records = []
    if before is not None:
        before = before.set_index([*KEYS, "split", "noise"])
    for key, group in table.groupby(KEYS, sort=False):
        rows = group.set_index([*KEYS, "split", "noise"])
        record = dict(zip(KEYS, key, strict=True))
        for name in ("largest", "mean L1", "seconds"):
            record[name] = rows[name].mean()
        for name in RIVALS:
            record |= {f"{name}, {error}": rows[f"{name}, {error}"].mean() for error in ERRORS}
            ratio, error = _ratio(rows["largest"], rows[f"{name}, largest"])
            record |= {f"largest / {name}": ratio, f"{name} ±": error}
        if before is not None:
            earlier = before.loc[rows.index]
            for name in ERRORS:
                ratio, error = _ratio(rows[name], earlier[name])
                record |= {f"{name} / before": ratio, f"{name} ±": error}
        if "public alone, mean L1" in rows:
            record["public alone, mean L1"] = rows["public alone, mean L1"].mean()
            record["mean L1, error"] = rows["mean L1"].sem()
        records.append(record)
    return pd.DataFrame(records)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument(
        "--only", nargs="+", choices=["adult13", "adult6", "acs", "drifted", "year"]
    )
    parser.add_argument("--splits", type=int, nargs="+", default=[11, 12])
    parser.add_argument("--noises", type=int, default=10, help="of each split")
    parser.add_argument("--skip", type=int, default=0, help="so many noises of each split")
    parser.add_argument("--before", type=Path, help="CSV of another version")
    parser.add_argument("--name", default="largest_error", help="of the CSV")
    parser.add_argument("--keep", action="store_true", help="write the committed means")
    arguments = parser.parse_args()
    records = []
    for split in arguments.splits:
        noises = range(arguments.noises)[arguments.skip :]
        for problem in problems(arguments.data_dir, split, arguments.only):
            records += measure(problem, noises, split)
            save_table(pd.DataFrame(records), arguments.name)
    table = pd.DataFrame(records)
    before = pd.read_csv(arguments.before) if arguments.before else None
    means = summarise(table, before)
    save_table(means, f"{arguments.name}_means")
    if arguments.keep:
        means.drop(columns="seconds").round(6).to_csv(MEANS, index=False)
    print_table(means.round(5).astype(str), "Largest error of a cell, and mean L1 of a table")


if __name__ == "__main__":
    main()
