"""Time and memory of linear models: hundreds of columns, and a million rows beside boosting.

Seconds are seconds of one processor (``time.process_time``), so that other work on the machine
counts little. Memory is the peak of what Python allocates during a fit, without the private rows.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd
from bench_linear import embedding
from report import line, print_lines, save_table

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateLogisticRegression

MEGABYTE = 1e6
CHUNK = 2**22 * 8  # bytes of the private rows that are encoded at a time, at most
EPSILONS = (1, 8, 30)


def seconds(estimator, X, y, **public):
    """Return the processor time of a fit."""
    start = time.process_time()
    estimator.fit(X, y, **public)
    return time.process_time() - start


def peak(estimator, X, y, **public):
    """Return the largest memory that a fit allocates, in bytes."""
    tracemalloc.start()
    estimator.fit(X, y, **public)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def wide():
    """Yield the figures of 10,000 rows with 768 columns."""
    rows = embedding(np.random.default_rng(0), d=768, n=13_730)
    X, y = (part[:10_000] for part in rows.private)
    m = len(rows.public[1])
    for epsilon in EPSILONS:
        for labelled in (False, True):
            public = {"X_public": rows.public[0]}
            if labelled:
                public["y_public"] = rows.public[1]
            estimator = SemiPrivateLogisticRegression(epsilon=epsilon, random_state=0)
            kind = f"10,000 × 768, {m} {'labelled ' * labelled}public rows, ε = {epsilon}"
            yield line(f"{kind}: time", seconds(estimator, X, y, **public), 3, "s")
            beyond = peak(estimator, X, y, **public) - CHUNK
            yield line(f"{kind}: memory beside a chunk of rows", beyond / MEGABYTE, unit="MB")


def tall(n=1_000_000, d=20, m=500):
    """Yield the time of a million rows beside that of boosting."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + m, d))
    y = (rng.random(n + m) < 1 / (1 + np.exp(-X @ rng.normal(size=d) * 0.4))).astype(int)
    both = [
        seconds(kind(epsilon=1, random_state=0), X[m:], y[m:], X_public=X[:m])
        for kind in (SemiPrivateLogisticRegression, SemiPrivateBoostingClassifier)
    ]
    yield line(f"{n:,} × {d}: time beside boosting's", both[0] / both[1], 1.5, "times")


def main():
    warnings.simplefilter("ignore")
    lines = [*wide(), *tall()]
    save_table(pd.DataFrame(lines), "linear_scale")
    print_lines(lines, "Linear models")


if __name__ == "__main__":
    main()
