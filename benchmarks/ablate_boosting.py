"""Lines of the ablation for boosting: `ablate.py --part boosting` runs them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import lru_cache, partial

import bench_linear
import numpy as np
import pandas as pd
from datasets import OUTCOMES, available, load, load_outcomes, public_labels
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateBoostingRegressor
from skpublicdp.boosting.budget_split import TreeTrial

PUBLIC = 300
LITTLE, MUCH = (0.3, 1.0), (3.0, 30.0)
TABLES = ("adult", "acs_ma", "wa_churn", "mlc_churn", "CPS1988", "HealthInsurance")
SEVERAL = {"adult": "marital_status", "wa_churn": "contract", "CPS1988": "region"}
"""Columns with more than two values that are predicted from the other columns."""


@lru_cache
def table(name, data_dir, seed):
    """Return training and test rows with labels, and public rows with their labels."""
    rows = load(name, data_dir, PUBLIC, seed)
    public = {"X_public": rows.X_public, "y_public": public_labels(rows, name, data_dir)}
    return train_test_split(rows.X, rows.y, test_size=0.25, random_state=seed), public


def case(name, data_dir, epsilon, delta, labelled, seed):
    """Return the errors of one fit."""
    (X, X_test, y, y_test), public = table(name, data_dir, seed % 1000)
    clf = SemiPrivateBoostingClassifier(epsilon=epsilon, delta=delta, random_state=seed)
    given = public if labelled else {"X_public": public["X_public"]}
    p = clf.fit(X, y, **given).predict_proba(X_test)[:, 1]
    return {"1 - AUC": 1 - roc_auc_score(y_test, p), "log loss": log_loss(y_test, p)}


def tables(data_dir, epsilons, delta=1e-6, labelled=False):
    """Return a case for each table at hand and each ε."""
    names = [name for name in TABLES if name in available(data_dir)]
    return {
        (name, epsilon): partial(case, name, data_dir, epsilon, delta, labelled)
        for name, epsilon in itertools.product(names, epsilons)
    }


def several_case(name, label, data_dir, epsilon, delta, seed):
    """Return the errors of one fit with more than two labels."""
    (X, X_test, _, _), public = table(name, data_dir, seed % 1000)
    y, y_test = X[label], X_test[label]
    clf = SemiPrivateBoostingClassifier(
        epsilon=epsilon, delta=delta, classes=np.union1d(y, y_test), random_state=seed
    )
    X, X_test, X_public = (part.drop(columns=label) for part in (X, X_test, public["X_public"]))
    p = clf.fit(X, y, X_public=X_public).predict_proba(X_test)
    return {
        "1 - accuracy": np.mean(clf.classes_[p.argmax(axis=1)] != y_test),
        "log loss": log_loss(y_test, p, labels=clf.classes_),
    }


def several(data_dir, epsilons=LITTLE, delta=0):
    """Return a case for each table at hand and each ε."""
    names = [name for name in SEVERAL if name in available(data_dir)]
    return {
        (name, epsilon): partial(several_case, name, SEVERAL[name], data_dir, epsilon, delta)
        for name, epsilon in itertools.product(names, epsilons)
    }


def one_hot_case(name, data_dir, epsilon, seed):
    """Return the errors of one fit to a table with one-hot encoded categories."""
    (X, X_test, y, y_test), public = table(name, data_dir, seed % 1000)
    parts = pd.get_dummies(pd.concat([X, X_test, public["X_public"]], keys=range(3)))
    clf = SemiPrivateBoostingClassifier(epsilon=epsilon, random_state=seed)
    p = clf.fit(parts.loc[0], y, X_public=parts.loc[2]).predict_proba(parts.loc[1])[:, 1]
    return {"1 - AUC": 1 - roc_auc_score(y_test, p), "log loss": log_loss(y_test, p)}


def one_hot(data_dir):
    """Return a case for each table at hand and each ε."""
    names = [name for name in TABLES if name in available(data_dir)]
    return {
        (name, epsilon): partial(one_hot_case, name, data_dir, epsilon)
        for name, epsilon in itertools.product(names, (0.1, 1.0))
    }


@lru_cache
def outcomes(name, seed):
    """Return training and test rows with outcomes, public rows and bounds."""
    rows = load_outcomes(name, None, PUBLIC, seed)
    return train_test_split(rows.X, rows.y, test_size=0.25, random_state=seed), rows


def outcome_case(name, epsilon, seed):
    """Return the error of one fit to numeric outcomes."""
    (X, X_test, y, y_test), rows = outcomes(name, seed % 1000)
    reg = SemiPrivateBoostingRegressor(
        epsilon=epsilon, delta=1e-6, outcome_bounds=rows.bounds, random_state=seed
    )
    return {"1 - R²": 1 - reg.fit(X, y, X_public=rows.X_public).score(X_test, y_test)}


def regression(data_dir, epsilons=LITTLE):
    """Return a case for each packaged table with numeric outcomes and each ε."""
    return {
        (name, epsilon): partial(outcome_case, name, epsilon)
        for name, epsilon in itertools.product(OUTCOMES, epsilons)
    }


def many_numbers_case(name, epsilon, seed):
    """Return the error of one fit to a table with many numbers."""
    split = bench_linear.TABLES[name](np.random.default_rng(seed % 1000))
    clf = SemiPrivateBoostingClassifier(epsilon=epsilon, random_state=seed)
    clf.fit(*split.private, X_public=split.public[0])
    X_test, y_test = split.test
    return {"1 - AUC": 1 - roc_auc_score(y_test, clf.decision_function(X_test))}


def many_numbers(data_dir):
    """Return a case for each table with many numbers and each ε."""
    return {
        (name, epsilon): partial(many_numbers_case, name, epsilon)
        for name, epsilon in itertools.product(("independent", "digits"), (0.1, 1.0, 8.0))
    }


WORKLOADS = {
    "linear stage": many_numbers,
    "regression, little": regression,
    "regression, much": partial(regression, epsilons=MUCH),
    "regression, between": partial(regression, epsilons=(2.0, 10.0)),
    "one-hot": one_hot,
    "several labels": several,
    "several labels, little": partial(several, epsilons=(0.03, 0.1), delta=1e-6),
    "little": partial(tables, epsilons=LITTLE),
    "little, public labels": partial(tables, epsilons=(0.1, 1.0), labelled=True),
    "public model": partial(tables, epsilons=(0.05, 0.3, 1.0), labelled=True),
    "much": partial(tables, epsilons=MUCH),
    "much, pure": partial(tables, epsilons=(3.0, 30.0), delta=0),
}

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
NO_TREES = {"TREE_TRIALS": (TreeTrial(Fraction(1, 10), Fraction(3, 10), np.inf),)}

# module, name, workload, other values
LINES = (
    # additive fit
    (
        "budget_split",
        "CLASS_COUNT_SHARE",
        "little",
        {"1/100": Fraction(1, 100), "1/25": Fraction(1, 25)},
    ),
    ("budget_split", "TWO_ROUNDS_PRECISION", "little", {"one round": np.inf, "12": 12, "200": 200}),
    ("budget_split", "BALANCED", "little", {"0": 0.0, "1": 1.0}),
    ("budget_split", "N_BINS", "little", {"8": 8, "18": 18}),
    ("budget_split", "N_BINS_UNBALANCED", "little", {"6": 6, "12": 12}),
    ("budget_split", "ROUND_SHARES", "little", {"half": {1: (Fraction(1),), 2: (HALF, HALF)}}),
    ("budget_split", "TREE_TRIALS", "little", {"no trees": NO_TREES}),
    ("budget_split", "LEAF_SHARE", "little", {"1/8": Fraction(1, 8), "1/2": HALF}),
    ("private_trees", "LEAF_VALUE_PRIOR", "little", {"0.4": 0.4, "1.6": 1.6}),
    ("budget_split", "MISMATCH", "little", {"0": 0.0, "1": 1.0}),
    ("covariate_shift", "FALSE_ALARM_RATE", "little", {"never": 0.0, "1/20": 0.05}),
    ("covariate_shift", "MIN_KEPT_FRACTION", "little", {"0": 1e-3, "1/4": 0.25}),
    ("covariate_shift", "MIN_SHIFT_EVIDENCE", "little", {"1": 1.0, "4": 4.0}),
    ("histograms", "PRIOR_SCALE", "little", {"0.1": 0.1, "1": 1.0}),
    ("additive_posterior", "POWER_PRIORS", "little, public labels", {"0, 1": (0.0, 1.0)}),
    ("stacking", "STACKING_SHARE", "public model", {"2/25": Fraction(2, 25)}),
    ("stacking", "SWAP_DEVIATION", "public model", {"0.2": 0.2, "0.8": 0.8}),
    ("stacking", "SCALE_DEVIATION", "public model", {"0.1": 0.1, "0.4": 0.4}),
    ("stacking", "OTHER_POPULATION", "public model", {"0.01": 0.01, "0.5": 0.5}),
    ("stacking", "MAX_GROWTH", "public model", {"1": 1.0, "4": 4.0}),
    ("stacking", "LENGTH_QUANTILE", "public model", {"0.8": 0.8, "1": 1.0}),
    ("public_model", "SLOPE_DEVIATION", "public model", {"0.1": 0.1}),
    ("public_model", "WEIGHT_DEVIATION", "public model", {"equal": 0.001, "1": 1.0}),
    ("public_model", "N_FOLDS", "public model", {"10": 10}),
    ("public_model", "MIN_PROBABILITY", "public model", {"0.05": 0.05}),
    ("binner", "MAX_CATEGORIES", "little", {"16": 16}),
    ("skpublicdp.data.one_hot", "MAX_CHANCE", "one-hot", {"no folds": -1.0, "1/2": 0.5}),
    ("budget_split", "MIN_SHIFT_SHARE", "little", {"1/50": Fraction(1, 50)}),
    ("budget_split", "MAX_SHIFT_NOISE", "little", {"1/4": 1 / 4}),
    ("covariate_shift", "MIN_EFFECTIVE_FRACTION", "little", {"0": 0.0}),
    ("budget_split", "SIGNAL_PER_TREE", "several labels", {"4": 4, "64": 64}),
    (
        "budget_split",
        "MIN_ROWS_PER_LABEL_NOISE",
        "several labels, little",
        {"never": 0, "7": 7, "30": 30},
    ),
    ("outcome_histogram", "N_OUTCOME_BINS", "regression, little", {"16": 16, "64": 64}),
    (
        "outcome_histogram",
        "MAX_COUNT_NOISE",
        "regression, little",
        {"no range": 1e-9, "1/16": 1 / 16, "1/64": 1 / 64},
    ),
    ("outcome_histogram", "MAX_OUTCOME_SHARE", "regression, little", {"1/3": Fraction(1, 3)}),
    ("outcome_histogram", "TAIL_FRACTION", "regression, little", {"0.05": 0.05}),
    ("outcome_histogram", "EXTENSION", "regression, little", {"0.1": 0.1, "0.5": 0.5}),
    (
        "linear_stage",
        "MIN_ROWS_PER_NOISE_BESIDE_LINEAR",
        "linear stage",
        {"always alone": np.inf, "30": 30},
    ),
    (
        "linear_stage",
        "LINEAR_SHARE",
        "linear stage",
        {"1/3": Fraction(1, 3), "9/10": Fraction(9, 10)},
    ),
    ("linear_stage", "MIN_ROWS_PER_COLUMN_BESIDE_LINEAR", "linear stage", {"0": 0, "30": 30}),
    ("budget_split", "MIN_NUMERIC_COLUMNS", "linear stage", {"none": 10**6}),
    # Newton boosting
    ("loss", "MAX_RESIDUAL_DEVIATIONS", "regression, much", {"1.5": 1.5, "3": 3.0, "no": 100.0}),
    ("loss", "CLIPPING_GAIN", "regression, between", {"1": 1.0, "4": 4.0}),
    ("budget_split", "MISMATCH", "much", {"0": 0.0, "1": 1.0}),
    ("budget_split", "MISMATCH", "much, pure", {"0": 0.0, "1": 1.0}),
    ("budget_split", "MIN_ROWS_PER_NOISE", "much", {"350": 350, "1400": 1400}),
    ("budget_split", "MIN_ROWS_PER_NOISE", "much, pure", {"350": 350, "1400": 1400}),
    ("budget_split", "BALANCED_FOR_NEWTON", "much", {"0.4": 0.4, "1": 1.0}),
    ("budget_split", "N_PASSES", "much", {"2": 2, "8": 8}),
    ("budget_split", "N_PASSES", "much, pure", {"2": 2, "8": 8}),
    ("term_posterior", "ALLOCATION_STEPS", "much", {"1": 1, "256": 256}),
    ("budget_split", "TREE_SIGNAL", "much", {"50": 50.0, "200": 200.0}),
    ("budget_split", "MIN_TREE_SIGNAL", "much", {"4": 4.0, "16": 16.0}),
    ("newton", "MAX_INTERACTION_TREES", "much", {"no trees": 0, "10": 10}),
    ("newton", "LAST_PASSES_SHARE", "much", {"1/8": Fraction(1, 8), "1/2": HALF}),
    (
        "newton",
        "MAX_SPLITS_OF_DEPTH",
        "much",
        {"depth 2": {"MAX_SPLITS_OF_DEPTH": {2: 600}}},
    ),
    ("term_posterior", "ROUGHNESS", "much", {"0": 0.0, "0.3": 0.3, "1": 1.0}),
    ("term_posterior", "MAX_SCORE", "much", {"3": 3.0, "12": 12.0}),
    ("binner", "MAX_FINE_BINS", "much", {"16": 16, "64": 64}),
    ("newton", "SPLIT_LEVELS", "much", {"3": 3}),
    ("newton", "BIN_SPLIT_SHARE", "much", {"4/100": Fraction(4, 100)}),
    ("budget_split", "TREE_SHARE_RANGE", "much", {"half": (Fraction(1, 200), Fraction(3, 200))}),
    ("newton", "ROWS_PER_SPLIT_NOISE", "much", {"no halves": np.inf, "750": 750}),
    ("newton", "MAX_P_VALUE", "much", {"0.002": 0.002, "0.03": 0.03}),
)
