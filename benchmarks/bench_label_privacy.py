"""Compare classifiers if only the labels are private, and write label_privacy.csv.

``python benchmarks/bench_label_privacy.py --data-dir DIR`` takes about half an hour. For
each split of a table, a random quarter of the rows is the test set, and the noise is drawn anew.
Tables are those of head_to_head.py, of which no more than 13,000 rows are used.

* "rows": boosting that protects whole rows, with 300 unlabelled public rows
* "labels, boosting": `LabelPrivateClassifier` with boosting as its private estimator
* "labels, released": `LabelPrivateClassifier` with gradient boosting, fitted to released labels
* "no privacy": the same gradient boosting, fitted to the labels
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from head_to_head import TABLES, labelled
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

from skpublicdp import LabelPrivateClassifier, SemiPrivateBoostingClassifier

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
MAX_ROWS, SPLITS = 13_000, 3
RESULTS = Path(__file__).parent / "label_privacy.csv"


def gradient_boosting():
    """Return gradient boosting that is regularised for noisy labels."""
    encoder = make_column_transformer(
        (TargetEncoder(), make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_leaf_nodes=8,
        min_samples_leaf=50,
        l2_regularization=10,
        early_stopping=True,
        random_state=0,
    )
    return make_pipeline(encoder, trees)


def measure(name, data_dir, seed):
    """Yield the AUC of each method on one split, with its ε."""
    X, y, X_public, _ = labelled(name, data_dir, seed)
    X, y = X.iloc[:MAX_ROWS], np.asarray(y)[:MAX_ROWS]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    X, y_test = X.reset_index(drop=True), y_test == np.unique(y)[1]

    def auc(fitted):
        return roc_auc_score(y_test, fitted.decision_function(X_test))

    yield "no privacy", np.inf, auc(gradient_boosting().fit(X, y))
    for epsilon in EPSILONS:
        boosting = SemiPrivateBoostingClassifier(epsilon=epsilon, random_state=seed)
        yield "rows", epsilon, auc(boosting.fit(X, y, X_public=X_public))
        for method, estimator in (
            ("labels, boosting", SemiPrivateBoostingClassifier()),
            ("labels, released", gradient_boosting()),
        ):
            clf = LabelPrivateClassifier(estimator, epsilon=epsilon, random_state=seed)
            yield method, epsilon, auc(clf.fit(X, y))


def main():
    """Measure all tables, and write means and standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        (name, method, epsilon, auc)
        for name in TABLES
        for seed in range(SPLITS)
        for method, epsilon, auc in measure(name, arguments.data_dir, seed)
    ]
    results = pd.DataFrame(rows, columns=["table", "method", "epsilon", "auc"])
    groups = results.groupby(["table", "method", "epsilon"], sort=False)["auc"]
    summary = pd.DataFrame({"auc": groups.mean(), "se": groups.sem()}).round(4)
    summary.to_csv(RESULTS)
    print(summary.unstack("epsilon")["auc"].to_string())


if __name__ == "__main__":
    main()
