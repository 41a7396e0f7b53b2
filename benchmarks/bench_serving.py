"""Measure the time of a prediction for one row and for 200 rows of a pandas frame.

``python benchmarks/bench_serving.py > benchmarks/serving.csv`` prints one line per model, number of
columns and number of rows, with the processor time in milliseconds and its ratio to
``HistGradientBoostingClassifier(categorical_features="from_dtype")`` on the same frame. The models
are timed in turns, and the smallest of all times is taken, so that other work disturbs it least.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from sklearn import set_config
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skpublicdp import (
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateLogisticRegression,
)

COLUMNS, ROWS = (6, 21, 61), (1, 200)
TRAINING_ROWS, PUBLIC_ROWS = 4000, 500
ROUNDS = 40


def table(n_columns, n_rows=TRAINING_ROWS):
    """Return a frame with as many floats and integers as categories, and labels."""
    rng = np.random.default_rng(0)
    frame = {}
    for number in range(n_columns):
        if number % 3 == 0:
            frame[f"float {number}"] = rng.normal(size=n_rows).round(3)
        elif number % 3 == 1:
            frame[f"integer {number}"] = rng.integers(0, 100, n_rows)
        else:
            frame[f"category {number}"] = pd.Categorical(rng.choice([*"abcdefghijkl"], n_rows))
    X = pd.DataFrame(frame)
    y = (X["float 0"] + rng.logistic(size=n_rows) > 0).astype(int)
    return X, y.to_numpy()


def scaled(learner):
    """Return a pipeline that scales the numbers, and hands a frame to the learner."""
    numbers = make_column_selector(dtype_include="number")
    scaler = make_column_transformer((StandardScaler(), numbers), remainder="passthrough")
    scaler.set_output(transform="pandas")
    if isinstance(learner, HistGradientBoostingClassifier):
        return make_pipeline(scaler, learner)
    return make_pipeline(PublicFit(scaler), learner)


def models(X, y):
    """Return the fitted models by name. The first one is the reference."""
    is_public = np.arange(len(y)) < PUBLIC_ROWS
    unlabelled = np.where(is_public, -1, y)
    reference = HistGradientBoostingClassifier(categorical_features="from_dtype")
    fitted = {"HistGradientBoosting": reference.fit(X, y)}
    boosting = SemiPrivateBoostingClassifier(random_state=0)
    private = {
        "boosting": (boosting, unlabelled),
        "boosting, labelled public rows": (SemiPrivateBoostingClassifier(random_state=0), y),
        "logistic regression": (SemiPrivateLogisticRegression(random_state=0), unlabelled),
        "pipeline with boosting": (
            scaled(SemiPrivateBoostingClassifier(random_state=0)),
            unlabelled,
        ),
    }
    for name, (learner, labels) in private.items():
        fitted[name] = learner.fit(X, labels, is_public=is_public)
    pipeline = scaled(HistGradientBoostingClassifier(categorical_features="from_dtype"))
    fitted["pipeline with HistGradientBoosting"] = pipeline.fit(X, y)
    return fitted


def milliseconds(actions, rounds=ROUNDS):
    """Return the smallest processor time of each action, timed in turns after a warm-up."""
    times = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name, action in actions.items():
            start = time.process_time()
            action()
            if number:
                times[name].append(1000 * (time.process_time() - start))
    return {name: min(measured) for name, measured in times.items()}


def lines(n_columns, rounds=ROUNDS):
    """Return the lines of the table for a number of columns."""
    X, y = table(n_columns)
    fitted = models(X, y)
    result = []
    for n_rows in ROWS:
        rows = X.iloc[:n_rows]
        calls = {name: partial(model.predict_proba, rows) for name, model in fitted.items()}
        records = rows.to_dict("records")
        calls["boosting, list of dicts"] = partial(fitted["boosting"].predict_proba, records)
        times = milliseconds(calls, rounds)
        reference = times["HistGradientBoosting"]
        result += [
            (name, n_columns, n_rows, round(value, 2), round(value / reference, 2))
            for name, value in times.items()
        ]
    return result


def main():
    set_config(enable_metadata_routing=True)
    warnings.simplefilter("ignore")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["model", "columns", "rows", "milliseconds", "ratio"])
    with threadpool_limits(1):
        for n_columns in COLUMNS:
            writer.writerows(lines(n_columns))


if __name__ == "__main__":
    main()
