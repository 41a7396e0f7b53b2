"""Measure the benefit of LabelBoost and GenericLearner with few labels among many private rows.

``python benchmarks/bench_labels.py --data-dir DIR`` adds the census tables in DIR. All training
rows are completely private. 300 public rows without labels are used for encoding and scaling, and
the feature bounds are assumed to be known, for example from a codebook.
"""

from __future__ import annotations

import argparse
import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bench_core import seconds
from datasets import available, encoder, load
from report import line, print_lines, print_table, save_table
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PublicFit,
    SemiPrivateClassifier,
)
from skpublicdp.exceptions import NoPublicDataWarning

DATASETS = ("adult", "TV16", "CPS1988")
LABELS = (500, 1000, 2000)
PUBLIC = 300
SEEDS = 5
EPSILON = 1.0
TOO_WIDE = 100
TREE, REGRESSION = "tree", "regression"
ALONE, BOOST, RELEASED = "labelled rows only", "LabelBoost", "labeller released"
GENERIC, EXACT, GRID = "GenericLearner*", "exact quantiles", "even grid*"
ALL = "all labels"
METHODS = [ALONE, BOOST, RELEASED, GENERIC, EXACT, GRID, ALL]


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """L2-regularised logistic regression by objective perturbation, with rows clipped to length 1.

    This baseline uses plain floating point and is not for release (Chaudhuri, Monteleoni and
    Sarwate 2011, Algorithm 2).
    """

    protects_all_rows = True

    def __init__(self, epsilon=1.0, strength=0.01, random_state=None):
        self.epsilon = epsilon
        self.strength = strength
        self.random_state = random_state

    def fit(self, X, y):
        """Minimise the logistic loss plus a random linear term."""
        self.classes_ = np.unique(y)
        Z, sign = self._rows(X), np.where(y == self.classes_[-1], 1.0, -1.0)
        n, strength, curvature = len(Z), self.strength, 0.25
        left = self.epsilon - 2 * np.log1p(curvature / (n * strength))
        if left <= 0:
            left = self.epsilon / 2
            strength = curvature / (n * np.expm1(self.epsilon / 4))
        generator = np.random.default_rng(self.random_state)
        noise = generator.normal(size=Z.shape[1])
        noise *= generator.gamma(len(noise), 2 / left) / np.linalg.norm(noise)

        def objective(w):
            margin = sign * (Z @ w)
            value = np.logaddexp(0, -margin).mean() + strength / 2 * w @ w + noise @ w / n
            return value, -(sign * expit(-margin)) @ Z / n + strength * w + noise / n

        self.coef_ = minimize(objective, np.zeros(Z.shape[1]), jac=True, method="L-BFGS-B").x
        return self

    def predict(self, X):
        """Predict labels."""
        return self.classes_[np.where(self._rows(X) @ self.coef_ > 0, -1, 0)]

    def _rows(self, X):
        Z = np.column_stack([X, np.ones(len(X))]) / np.sqrt(X.shape[1] + 1)
        return Z / np.maximum(1, np.linalg.norm(Z, axis=1, keepdims=True))


def learners(n_labels, X, y, seed):
    """Yield (base learner, method, fit), using only the labels of the first rows."""
    told = np.arange(len(X)) < n_labels
    marked = np.where(told, y, -1)
    low, high = X.min(axis=0), X.max(axis=0)
    high = np.where(low < high, high, low + 1)
    bounds = np.column_stack([low, high])
    wide = bounds.mean(axis=1, keepdims=True) + TOO_WIDE * (np.diff(bounds) / 2) * [-1, 1]

    def tree(**params):
        return SemiPrivateClassifier(epsilon=EPSILON, random_state=seed, **params)

    yield TREE, ALONE, partial(tree(bounds=bounds).fit, X[told], y[told])
    yield TREE, GRID, partial(tree(bounds=wide).fit, X[told], y[told])
    # not private: the cover is taken from the private rows as they are
    yield TREE, EXACT, partial(tree().fit, X[told], y[told], X_public=X[~told])
    generic = GenericLearnerClassifier(epsilon=EPSILON, bounds=wide, random_state=seed)
    yield TREE, GENERIC, partial(generic.fit, X, marked, is_labelled=told)
    regression = PrivateLogisticRegression(EPSILON, random_state=seed)
    yield REGRESSION, ALONE, partial(regression.fit, X[told], y[told])
    for base, estimator in ((TREE, None), (REGRESSION, PrivateLogisticRegression())):
        for method in (BOOST, RELEASED):
            boost = LabelBoostClassifier(
                estimator,
                epsilon=EPSILON,
                bounds=bounds,
                release_labeler=method == RELEASED,
                random_state=seed,
            )
            yield base, method, partial(boost.fit, X, marked, is_labelled=told)
    if n_labels == LABELS[0]:  # the same whatever their number is
        yield TREE, ALL, partial(tree(bounds=bounds).fit, X, y)
        regression = PrivateLogisticRegression(EPSILON, random_state=seed)
        yield REGRESSION, ALL, partial(regression.fit, X, y)


def measure(name, data_dir, seed):
    """Yield one record per number of labels and method, with test accuracy and time in seconds."""
    rows = load(name, data_dir, PUBLIC, seed)
    X, X_test, y, y_test = train_test_split(
        rows.X, rows.y, test_size=0.25, random_state=seed, stratify=rows.y
    )
    scaled = make_pipeline(encoder(), StandardScaler())
    public_fit = PublicFit(scaled).fit(X, X_public=rows.X_public)
    X, X_test = (np.asarray(public_fit.transform(part)) for part in (X, X_test))
    for n_labels in LABELS:
        for base, method, fit in learners(n_labels, X, y, seed):
            elapsed = seconds(fit)
            record = {"dataset": name, "seed": seed, "labels": n_labels, "base": base}
            accuracy = fit.func.__self__.score(X_test, y_test)
            yield record | {"method": method, "accuracy": accuracy, "seconds": elapsed}


def summary(records):
    """Return one printable line per dataset, base learner and number of labels."""
    by_method = records.groupby(["dataset", "base", "labels", "method"], sort=False)["accuracy"]
    texts = by_method.mean().map("{:.3f}".format) + "±" + by_method.std(ddof=0).map("{:.3f}".format)
    table = texts.unstack()
    of_group = table.groupby(["dataset", "base"], sort=False)
    table[ALL] = of_group[ALL].transform("first")
    return table.reindex(columns=METHODS).fillna("").reset_index()


def targets(records):
    """Compare the means over the seeds with the results of the prototype."""
    means = records.groupby(["dataset", "base", "labels", "method"])["accuracy"].mean()
    for name in records["dataset"].unique():
        for n_labels in LABELS:
            first = name == "TV16" and n_labels == LABELS[0]
            what = f"{name}, {n_labels} labels, private logistic regression"
            of = means[name, REGRESSION, n_labels]
            yield line(f"{what}: {ALONE}", of[ALONE])
            yield line(f"{what}: {BOOST}", of[BOOST], 0.76 if first else None, at_least=True)
            yield line(f"{what}: {RELEASED}", of[RELEASED], 0.84 if first else None, at_least=True)
            of = means[name, TREE, n_labels]
            what = f"{name}, {n_labels} labels: {GENERIC} - {EXACT}"
            yield line(what, 100 * (of[GENERIC] - of[EXACT]), -1, "points", at_least=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SKPUBLICDP_DATA"))
    parser.add_argument("--datasets", nargs="*", help="all at hand by default")
    options = parser.parse_args()
    names = [name for name in DATASETS if name in available(options.data_dir)]
    unknown = set(options.datasets or []) - set(names)
    if unknown:
        parser.error(f"not at hand: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    warnings.simplefilter("ignore", NoPublicDataWarning)  # there are none on purpose
    records = pd.DataFrame(
        record
        for name in options.datasets or names
        for seed in range(SEEDS)
        for record in measure(name, options.data_dir, seed)
    )
    save_table(records, "labels_accuracy")
    title = (
        f"Test accuracy at ε = {EPSILON:g}, mean±std of {SEEDS} seeds; * bounds {TOO_WIDE} times"
    )
    print_table(summary(records), f"{title} too wide")
    times = records.groupby(["base", "method"], sort=False)["seconds"].max()
    print_table(
        times.map("{:.1f}".format).unstack().fillna("").reset_index(), "Longest fit, seconds"
    )
    lines = [*targets(records)]
    print_lines(lines, f"Means of {SEEDS} seeds")
    save_table(pd.DataFrame(lines), "labels")


if __name__ == "__main__":
    main()
