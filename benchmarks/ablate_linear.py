"""Lines of the ablation for linear models: `ablate.py --part linear` runs them."""

from __future__ import annotations

import itertools
from functools import lru_cache, partial

import bench_linear
import numpy as np
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from skpublicdp import SemiPrivateLinearRegression, SemiPrivateLogisticRegression

EPSILONS = (0.1, 1.0, 8.0)


@lru_cache
def table(name, seed):
    """Return the test, public and private rows of a table."""
    return TABLES[name](np.random.default_rng(seed))


def case(name, epsilon, labelled, seed):
    """Return the errors of one fit."""
    rows = table(name, seed % 1000)
    public = {"X_public": rows.public[0]} | ({"y_public": rows.public[1]} if labelled else {})
    X_test, y_test = rows.test
    options = {"epsilon": epsilon, "random_state": seed}
    if rows.is_regression:
        learner = SemiPrivateLinearRegression(outcome_bounds=(-4, 4), **options)
        learner.fit(*rows.private, **public)
        return {"1 - R²": 1 - r2_score(y_test, learner.predict(X_test))}
    learner = SemiPrivateLogisticRegression(**options).fit(*rows.private, **public)
    p = learner.predict_proba(X_test)[:, 1]
    return {"1 - AUC": 1 - roc_auc_score(y_test, p), "log loss": log_loss(y_test, p)}


def opposite(rng):
    """Rows whose public labels are opposite, as if they were coded in another way."""
    rows = bench_linear.independent(rng)
    X, y = rows.public
    return rows._replace(public=(X, 1 - y))


def tables(labelled, names=("embedding", "independent", "digits", "outcomes"), epsilons=EPSILONS):
    """Return a case for each table and each ε."""
    return {
        (name, epsilon, labelled): partial(case, name, epsilon, labelled)
        for name, epsilon in itertools.product(names, epsilons)
    }


TABLES = {
    "embedding": partial(bench_linear.embedding, d=128, n=5200),
    "independent": bench_linear.independent,
    "digits": bench_linear.digits,
    "outcomes": bench_linear.outcomes,
    "opposite": opposite,
}
WORKLOADS = {
    "all": lambda data_dir: tables(False) | tables(True),
    "corrected": lambda data_dir: tables(False, ("embedding", "outcomes"), (0.3, 3.0, 30.0)),
    "labelled": lambda data_dir: tables(True),
    "opposite labels": lambda data_dir: tables(True, ("opposite",), (0.1, 0.3, 1.0)),
}

LINES = [
    ("linear_fit", "LABEL_WEIGHT", "corrected", {"1": 1, "16": 16}),
    ("linear_fit", "CORRECTION_GAIN", "corrected", {"4": 4, "1000": 1000}),
    ("public_basis", "CLIPPING_QUANTILE", "all", {"0.5": 0.5, "0.95": 0.95}),
    ("coefficient_posterior", "BLOCK_SD", "all", {"0.75": 0.75, "6": 6.0}),
    ("coefficient_posterior", "WALK_SD", "all", {"0.05": 0.05, "3": 3.0}),
    ("coefficient_posterior", "PUBLIC_WEIGHT_SD", "labelled", {"1": 1.0}),
    ("coefficient_posterior", "PUBLIC_WEIGHT_SD", "opposite labels", {"0.01": 0.01}),
]
