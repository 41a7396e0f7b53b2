"""Accuracy of linear models on embeddings, against fits without privacy.

``python benchmarks/bench_linear.py --embeddings DIRECTORY > benchmarks/linear.csv`` prints one line
per table, ε and kind of public rows: the mean AUC (R² for outcomes, accuracy for ten labels) over
five seeds with its standard error, the largest number of corrections, and the seconds of a fit. The
directory has the files of ``embed_sentences.py``. Without it, the tables of sentences are left out.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score, roc_auc_score

from skpublicdp import SemiPrivateLinearRegression, SemiPrivateLogisticRegression

EPSILONS = (0.1, 0.3, 1, 3, 8, 30)
SEEDS = range(5)
PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 1.0)


class Split(NamedTuple):
    """Test, public and private rows of one table."""

    test: tuple[Any, Any]
    public: tuple[Any, Any]
    private: tuple[Any, Any]
    is_regression: bool = False


def split(X: Any, y: Any, n_test: int, n_public: int, is_regression: bool = False) -> Split:
    """Return the first rows as test rows, the next as public rows and the rest as private rows."""
    ends = (0, n_test, n_test + n_public, len(y))
    parts = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]
    return Split(*parts, is_regression)


def embedding(rng: np.random.Generator, d: int = 256, n: int = 9600) -> Split:
    """Rows with the spectrum of an embedding, and a logistic truth in the 60 leading directions."""
    spectrum = np.arange(1, d + 1) ** -0.5
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    hidden = rng.normal(size=(n, d))
    truth = np.zeros(d)
    truth[:60] = rng.normal(size=60)
    truth *= 3 / np.linalg.norm(truth)
    y = rng.random(n) < 1 / (1 + np.exp(-hidden @ truth))
    return split((hidden * spectrum) @ rotation, y.astype(int), n // 4, 300)


def independent(rng: np.random.Generator, d: int = 50, n: int = 4600) -> Split:
    """Independent normal columns, and a logistic truth."""
    X, truth = rng.normal(size=(n, d)), rng.normal(size=d)
    truth *= 2 / np.linalg.norm(truth)
    y = rng.random(n) < 1 / (1 + np.exp(-X @ truth))
    return split(X, y.astype(int), n // 4, 300)


def digits(rng: np.random.Generator) -> Split:
    """Odd against even digits."""
    X, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    return split(X[order], y[order] % 2, 450, 200)


def ten_digits(rng: np.random.Generator) -> Split:
    """Digits with ten labels."""
    X, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    return split(X[order], y[order], 450, 200)


def outcomes(rng: np.random.Generator, d: int = 50, n: int = 4600) -> Split:
    """Independent normal columns, and a linear truth that explains half of the variance."""
    X, truth = rng.normal(size=(n, d)), rng.normal(size=d)
    y = X @ (truth / np.linalg.norm(truth)) + rng.normal(size=n)
    return split(X, y, n // 4, 300, is_regression=True)


def sentences(path: Path, rng: np.random.Generator) -> Split:
    """Embedded sentences, and whether their mean rating is positive."""
    table = np.load(path)
    order = rng.permutation(len(table["y"]))
    n_test = len(order) // 5
    n_public = 500 if len(order) > 5000 else 300
    return split(table["X"][order], table["y"][order], n_test, n_public)


TEXTS = ("sentences", "reviews")
TABLES = {
    "embedding": embedding,
    "independent": independent,
    "digits": digits,
    "digits, ten labels": ten_digits,
    "outcomes": outcomes,
}


def best_without_privacy(table: Split, rows: tuple[Any, Any]) -> float:
    """Return the score of the best penalty, chosen on the test rows, for standardised columns."""
    scale = table.public[0].std(axis=0)
    scale[scale == 0] = np.inf
    X, test = rows[0] / scale, table.test[0] / scale
    if table.is_regression:
        fitted = RidgeCV(np.logspace(-2, 4, 20)).fit(X, rows[1])
        return float(r2_score(table.test[1], fitted.predict(test)))
    scores = []
    for penalty in PENALTIES:
        fitted = LogisticRegression(C=penalty, max_iter=2000).fit(X, rows[1])
        scores.append(score_of_labels(fitted, test, table.test[1]))
    return max(scores)


def score_of_labels(learner: Any, X: Any, y: Any) -> float:
    """Return the AUC for two labels, and the accuracy for more."""
    if len(learner.classes_) > 2:
        return float(learner.score(X, y))
    return float(roc_auc_score(y, learner.decision_function(X)))


def private_score(table: Split, epsilon: float, seed: int, labelled: bool) -> tuple[float, int]:
    """Return the score of a private fit, and its number of corrections."""
    options = {"X_public": table.public[0]}
    if labelled:
        options["y_public"] = table.public[1]
    X_test, y_test = table.test
    if table.is_regression:
        learner = SemiPrivateLinearRegression(
            epsilon=epsilon, outcome_bounds=(-4, 4), random_state=seed
        ).fit(*table.private, **options)
        return float(r2_score(y_test, learner.predict(X_test))), learner.n_corrections_
    learner = SemiPrivateLogisticRegression(epsilon=epsilon, random_state=seed)
    learner.fit(*table.private, **options)
    return score_of_labels(learner, X_test, y_test), learner.n_corrections_


def write_row(*cells: Any) -> None:
    """Print one line of the table."""
    csv.writer(sys.stdout, lineterminator="\n").writerow(cells)
    sys.stdout.flush()


def summary(scores: list[float]) -> tuple[str, str]:
    """Return the mean and its standard error."""
    error = np.std(scores, ddof=1) / np.sqrt(len(scores))
    return f"{np.mean(scores):.3f}", f"{error:.3f}"


def parse_tables(description: str | None) -> dict[str, list[Split]]:
    """Return the tables that are named on the command line, or all, one for each seed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("tables", nargs="*", help="names of tables, all by default")
    parser.add_argument("--embeddings", type=Path, help="directory of embedded sentences")
    options = parser.parse_args()
    makers = dict(TABLES)
    if options.embeddings:
        makers |= {name: partial(sentences, options.embeddings / f"{name}.npz") for name in TEXTS}
    return {
        name: [makers[name](np.random.default_rng(seed)) for seed in SEEDS]
        for name in options.tables or makers
    }


def main() -> None:
    """Print the scores of all tables, or of those that are named."""
    warnings.simplefilter("ignore")
    all_tables = parse_tables(__doc__)
    write_row("table", "fit", "epsilon", "score", "standard error", "corrections", "seconds")
    for name, tables in all_tables.items():
        for rows in ("private", "public"):
            scores = [best_without_privacy(table, getattr(table, rows)) for table in tables]
            write_row(name, f"{rows} rows without privacy", "", *summary(scores), "", "")
        for labelled in (False, True):
            kind = "labelled" if labelled else "unlabelled"
            for epsilon in EPSILONS:
                start = time.perf_counter()
                results = [
                    private_score(table, epsilon, seed, labelled)
                    for seed, table in zip(SEEDS, tables, strict=True)
                ]
                seconds = (time.perf_counter() - start) / len(tables)
                scores, corrections = map(list, zip(*results, strict=True))
                fit = f"private, {kind} public rows"
                write_row(name, fit, epsilon, *summary(scores), max(corrections), f"{seconds:.2f}")


if __name__ == "__main__":
    main()
