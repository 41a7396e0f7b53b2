"""LabelBoost with the paper's own constants, at the least sizes for which it does a round.

    python benchmarks/bench_label_boost_paper.py

Prints, in Markdown, the schedule, the time and the peak memory of one fit on thresholds.
"""

from __future__ import annotations

import argparse
import resource
import time
from fractions import Fraction

import numpy as np

from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.guarantees.growth import least
from skpublicdp.label_boost import LabelBoostClassifier
from skpublicdp.label_boost.schedules import FINAL_SHRINK, paper_plan

ALPHA, BETA = 0.99, 0.05


def labelled_rows(n_base: int) -> int:
    """Return the labelled rows that the schedule needs."""

    def enough(m: int) -> bool:
        try:
            plan(m, n_base)
        except ValueError:
            return False
        return True

    return least(enough)


def plan(n_labelled: int, n_base: int):
    return paper_plan(
        n_labelled,
        90_000 * n_base,
        epsilon=Fraction(1),
        delta=Fraction(0),
        alpha=ALPHA,
        beta=BETA,
        n_base=n_base,
        vc=1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-base", type=int, default=None, help="by default the least one")
    n_base = parser.parse_args().n_base
    if n_base is None:
        # below it the labelled rows are enough for the base learner as they are
        n_base = least(lambda n: labelled_rows(n) < FINAL_SHRINK * n)
    n_labelled = labelled_rows(n_base)
    schedule = plan(n_labelled, n_base)
    n = n_labelled + 90_000 * n_base
    rng = np.random.default_rng(0)
    X = rng.random((n, 1))
    y = np.full(n, -1, dtype=np.int8)
    y[:n_labelled] = X[:n_labelled, 0] > 0.37

    clf = LabelBoostClassifier(
        alpha=ALPHA, beta=BETA, n_base=n_base, constants="paper", classes=[0, 1], bounds=(0, 1)
    )
    start = time.perf_counter()
    clf.fit(X, y)
    seconds = time.perf_counter() - start
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    test = rng.random((100_000, 1))
    assert clf.n_rounds_ == len(schedule.rounds) >= 1
    assert clf.estimator_.privacy_.n_private == schedule.base_rows

    print("| n_base | labelled | unlabelled | rounds | base rows | seconds | GiB | accuracy |")
    print("|-:|-:|-:|-:|-:|-:|-:|-:|")
    print(
        f"| {n_base} | {n_labelled:,} | {90_000 * n_base:,} | {clf.n_rounds_} "
        f"| {schedule.base_rows} | {seconds:.1f} | {gigabytes:.2f} "
        f"| {clf.score(test, test[:, 0] > 0.37):.3f} |"
    )
    for step in schedule.rounds:
        print(f"\n{step}")


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", NoPublicDataWarning)
    main()
