"""Measure the accuracy of the learners that make any classifier private, on two real tables.

``python -m benchmarks.bench_any_classifier`` prints the table of
docs/user_guide/your_own_classifier.md. 300 random rows are public, with and without labels.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.datasets import encoder, load, public_labels
from skpublicdp import (
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    SemiPrivateBoostingClassifier,
)

TABLES = ("CPS1988", "TV16")
CLASSIFIERS = {
    "tree": DecisionTreeClassifier(max_depth=3),
    "logistic regression": LogisticRegression(),
}
N_PRIVATE, SEEDS = 15_000, range(3)


def main(*names: str) -> None:
    """Print the mean accuracy on held-out rows for each table and learner."""
    warnings.simplefilter("ignore")
    for name in names or TABLES:
        rows = load(name, None, 300, 0)
        prepare = make_pipeline(encoder(), StandardScaler())
        public = {"X_public": prepare.fit_transform(rows.X_public)}
        labelled = {**public, "y_public": public_labels(rows, name, None)}
        scores: dict[tuple[str, str], list[float]] = {}
        for seed in SEEDS:
            X, X_test, y, y_test = train_test_split(
                prepare.transform(rows.X), rows.y, train_size=N_PRIVATE, random_state=seed
            )

            def add(classifier, learner, model, **arguments):
                """Fit a learner, and add its accuracy."""
                fitted = model.fit(X, y, **arguments)  # noqa: B023 - called at once
                accuracy = float(np.mean(fitted.predict(X_test) == y_test))  # noqa: B023
                scores.setdefault((classifier, learner), []).append(accuracy)  # noqa: B023

            for classifier, estimator in CLASSIFIERS.items():
                add(classifier, "not private", clone(estimator))
                for given, arguments in (("", public), (", public labels", labelled)):
                    selection = PrivateSelectionClassifier(estimator, random_state=seed)
                    votes = PrivateVotesClassifier(estimator, random_state=seed)
                    add(classifier, f"selection{given}", selection, **arguments)
                    add(classifier, f"votes{given}", votes, **arguments)
            boosting = SemiPrivateBoostingClassifier(random_state=seed)
            add("boosting", "", boosting, **public)
            add("boosting", "public labels", clone(boosting), **labelled)
        for key, values in scores.items():
            print(f"| {name} | {' | '.join(key)} | {np.mean(values):.3f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
