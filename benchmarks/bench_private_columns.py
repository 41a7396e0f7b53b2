"""Compare estimators if labels and some columns are public, and write private_columns.csv.

``python benchmarks/bench_private_columns.py --data-dir DIR`` takes about half an hour. For
each split of a table, a random quarter of the rows is the test set, a random third of the columns
is private, and the noise is drawn anew. Tables are those of head_to_head.py, with at most 13,000
rows. All private methods have 300 public rows without labels.

* "rows": boosting that protects whole rows
* "private columns": `PrivateColumnsClassifier` with boosting
* "private columns, linear": `PrivateColumnsClassifier` with logistic regression
* "public columns": gradient boosting of the public columns alone, which costs no privacy
* "no privacy": the same gradient boosting of all columns

The tables of bench_regression.py are compared in the same way, with regressors and the test R², and
the results are written to private_columns_outcomes.csv.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from bench_label_privacy import MAX_ROWS, gradient_boosting
from bench_regression import PUBLIC
from datasets import load_outcomes, with_outcomes
from head_to_head import TABLES, labelled
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

from skpublicdp import (
    PrivateColumnsClassifier,
    PrivateColumnsRegressor,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)

EPSILONS = (0.1, 0.5, 1.0, 8.0)
SEEDS = (2, 3, 4)  # 0 and 1 were used to choose the design
HERE = Path(__file__).parent


def measure(name, data_dir, seed):
    """Yield the AUC of each method on one split, with its ε."""
    X, y, X_public, _ = labelled(name, data_dir, seed)
    X, y = X.iloc[:MAX_ROWS], np.asarray(y)[:MAX_ROWS]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    y_test = y_test == np.unique(y)[1]
    private, public = divided(X.columns, seed)

    def auc(fitted, columns=X.columns):
        return roc_auc_score(y_test, fitted.decision_function(X_test[columns]))

    yield "no privacy", np.inf, auc(gradient_boosting().fit(X, y))
    yield "public columns", np.inf, auc(gradient_boosting().fit(X[public], y), public)
    for epsilon in EPSILONS:
        settings = {"epsilon": epsilon, "random_state": seed}
        boosting = SemiPrivateBoostingClassifier(**settings)
        yield "rows", epsilon, auc(boosting.fit(X, y, X_public=X_public))
        for method, estimator in (
            ("private columns", SemiPrivateBoostingClassifier()),
            ("private columns, linear", SemiPrivateLogisticRegression()),
        ):
            clf = PrivateColumnsClassifier(estimator, private_columns=private, **settings)
            yield method, epsilon, auc(clf.fit(X, y, X_public=X_public))


def divided(columns, seed):
    """Return a random third of the columns, which is private, and the others."""
    shuffled = np.random.default_rng(seed).permutation(columns)
    private = list(shuffled[: max(1, len(shuffled) // 3)])
    return private, [column for column in columns if column not in private]


def measure_outcomes(name, data_dir, seed):
    """Yield the R² of each method on one split, with its ε."""
    rows = load_outcomes(name, data_dir, PUBLIC, seed)
    X, y = rows.X.iloc[:MAX_ROWS], np.asarray(rows.y)[:MAX_ROWS]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    private, public = divided(X.columns, seed)
    texts = make_column_selector(dtype_exclude="number")

    def trees():
        encoder = make_column_transformer(
            (TargetEncoder(target_type="continuous"), texts), remainder="passthrough"
        )
        return make_pipeline(encoder, HistGradientBoostingRegressor(random_state=0))

    def r2(fitted, columns=X.columns):
        return r2_score(y_test, fitted.predict(X_test[columns]))

    yield "no privacy", np.inf, r2(trees().fit(X, y))
    yield "public columns", np.inf, r2(trees().fit(X[public], y), public)
    for epsilon in EPSILONS:
        settings = {"epsilon": epsilon, "random_state": seed}
        boosting = SemiPrivateBoostingRegressor(outcome_bounds=rows.bounds, **settings)
        yield "rows", epsilon, r2(boosting.fit(X, y, X_public=rows.X_public))
        for method, kind in (
            ("private columns", SemiPrivateBoostingRegressor),
            ("private columns, linear", SemiPrivateLinearRegression),
        ):
            estimator = kind(outcome_bounds=rows.bounds)
            reg = PrivateColumnsRegressor(estimator, private_columns=private, **settings)
            yield method, epsilon, r2(reg.fit(X, y, X_public=rows.X_public))


def main():
    """Measure all tables, and write means and standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    names = with_outcomes(arguments.data_dir)
    for file, score, tables, measured in (
        ("private_columns.csv", "auc", TABLES, measure),
        ("private_columns_outcomes.csv", "r2", names, measure_outcomes),
    ):
        rows = [
            (name, method, epsilon, value)
            for name in tables
            for seed in SEEDS
            for method, epsilon, value in measured(name, arguments.data_dir, seed)
        ]
        results = pd.DataFrame(rows, columns=["table", "method", "epsilon", score])
        groups = results.groupby(["table", "method", "epsilon"], sort=False)[score]
        summary = pd.DataFrame({score: groups.mean(), "se": groups.sem()}).round(4)
        summary.to_csv(HERE / file)
        print(summary.unstack("epsilon")[score].to_string())


if __name__ == "__main__":
    main()
