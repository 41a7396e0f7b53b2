"""Compare classifiers if labels and some columns are public, and write private_columns.csv.

``python benchmarks/bench_private_columns.py --data-dir DIR`` takes about a quarter of an hour. For
each split of a table, a random quarter of the rows is the test set, a random third of the columns
is private, and the noise is drawn anew. Tables are those of head_to_head.py, of which no more than
13,000 rows are used. All private methods have 300 public rows without labels.

* "rows": boosting that protects whole rows
* "private columns": `PrivateColumnsClassifier` with boosting
* "private columns, linear": `PrivateColumnsClassifier` with logistic regression
* "public columns": gradient boosting of the public columns alone, which costs no privacy
* "no privacy": the same gradient boosting of all columns
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from bench_label_privacy import MAX_ROWS, gradient_boosting
from head_to_head import TABLES, labelled
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skpublicdp import (
    PrivateColumnsClassifier,
    SemiPrivateBoostingClassifier,
    SemiPrivateLogisticRegression,
)

EPSILONS = (0.1, 0.5, 1.0, 8.0)
SEEDS = (2, 3, 4)  # 0 and 1 were used to choose the design
RESULTS = Path(__file__).parent / "private_columns.csv"


def measure(name, data_dir, seed):
    """Yield the AUC of each method on one split, with its ε."""
    X, y, X_public, _ = labelled(name, data_dir, seed)
    X, y = X.iloc[:MAX_ROWS], np.asarray(y)[:MAX_ROWS]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    y_test = y_test == np.unique(y)[1]
    columns = np.random.default_rng(seed).permutation(X.columns)
    private = list(columns[: max(1, len(columns) // 3)])
    public = [column for column in X.columns if column not in private]

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


def main():
    """Measure all tables, and write means and standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        (name, method, epsilon, auc)
        for name in TABLES
        for seed in SEEDS
        for method, epsilon, auc in measure(name, arguments.data_dir, seed)
    ]
    results = pd.DataFrame(rows, columns=["table", "method", "epsilon", "auc"])
    groups = results.groupby(["table", "method", "epsilon"], sort=False)["auc"]
    summary = pd.DataFrame({"auc": groups.mean(), "se": groups.sem()}).round(4)
    summary.to_csv(RESULTS)
    print(summary.unstack("epsilon")["auc"].to_string())


if __name__ == "__main__":
    main()
