"""Choosing alpha
==============

A finer cover contains a better rule, but a private draw selects it less reliably.

An illness shows in one of 40 measurements, above an unknown limit. The other 39 are irrelevant. Ten
answers on a scale of 0 to 9 roughly follow the relevant measurement. `Stumps` splits one of these
50 columns. With a large `alpha` it offers few splits, none of them close to the limit. With a small
`alpha` it offers up to a hundred splits for each measurement, but only nine for each answer. The
many useless splits then make it less likely that a private draw selects a useful split. Therefore
the best `alpha` increases as ε decreases.

`GridSearchCV` tries every pair of `alpha` and ε on simulated people. Do not do this on private
rows. Such a search would spend its ε in every fit, and its scores are exact functions of the
held-out private rows. Neither the scores nor the chosen `alpha` would be private for any ε. Search
on public or synthetic rows, as in this example, and fit once on the private rows.

Run it with ``python examples/alpha_tradeoff.py``. It takes about a minute.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from skpublicdp import SemiPrivateClassifier
from skpublicdp.hypotheses import Stumps

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

ALPHAS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
EPSILONS = (0.02, 0.04, 1.0)
PICTURE = Path("results", "alpha_tradeoff.png")
N_PRIVATE, N_PUBLIC = 1500, 300
UNLABELLED = -1


# %%
# Simulate people.


def make_people(seed):
    """Return columns, diagnoses (-1 for public people) and the mask of the public people."""
    rng = np.random.default_rng(seed)
    measured = rng.random((N_PRIVATE + N_PUBLIC, 40))
    heard = measured[:, :1] + 0.03 * rng.normal(size=(len(measured), 10))
    answers = np.clip(np.floor(10 * heard), 0, 9)
    ill = (measured[:, 0] > rng.uniform(0.2, 0.8)).astype(int)
    is_public = np.arange(len(ill)) >= N_PRIVATE
    return np.hstack([measured, answers]), np.where(is_public, UNLABELLED, ill), is_public


# %%
# Run a grid search over `alpha` and ε. The mask of the public rows is sliced along with the rows.


def score(clf, X, y):
    """Return the accuracy on the labelled rows, and the two bounds that depend on alpha."""
    labelled = y != UNLABELLED  # the test folds hold public rows too
    return {
        "accuracy": clf.score(X[labelled], y[labelled]),
        "radius": clf.cover_radius_,
        "price": clf.certificate_.excess_error,
    }


def search(seeds, alphas, epsilons):
    """Return the mean scores of a grid search, each of shape (seeds, alphas, epsilons)."""
    grid = {"alpha": alphas, "epsilon": epsilons}
    found = {"accuracy": [], "radius": [], "price": []}
    for seed in range(seeds):
        X, y, is_public = make_people(seed)
        clf = SemiPrivateClassifier(Stumps(), classes=(0, 1), random_state=seed)
        # the folds are not stratified, so they do not depend on labels; the mask is sliced along
        # with the rows
        folds = KFold(3, shuffle=True, random_state=seed)
        plane = GridSearchCV(clf, grid, scoring=score, cv=folds, refit=False)
        plane.fit(X, y, is_public=is_public)
        for name, values in found.items():
            means = plane.cv_results_[f"mean_test_{name}"]
            values.append(means.reshape(len(alphas), len(epsilons)))
    return {name: np.array(values) for name, values in found.items()}


# %%
# Plot the accuracies. They peak where the two bounds meet.


def draw_picture(found, alphas, epsilons, out):
    """Plot and save the accuracies next to the two bounds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    accuracy = found["accuracy"].mean(axis=0)
    error = found["accuracy"].std(axis=0) / np.sqrt(len(found["accuracy"]))
    price = found["price"].mean(axis=0)
    for column, epsilon in enumerate(epsilons):
        color, mean, spread = f"C{column}", accuracy[:, column], error[:, column]
        left.fill_between(alphas, mean - spread, mean + spread, color=color, alpha=0.2, lw=0)
        left.plot(alphas, mean, marker="o", color=color, label=f"ε = {epsilon:g}")
        best = mean.argmax()
        left.plot(alphas[best], mean[best], "o", ms=13, mfc="none", mec=color)
        right.plot(
            alphas, price[:, column], marker="o", color=color, label=f"price, ε = {epsilon:g}"
        )
    radius = found["radius"].mean(axis=(0, 2))
    right.plot(alphas, radius, marker="s", color="0.2", label="radius of the cover, any ε")
    left.set_title(
        f"test accuracy (mean ± standard error,\n{len(found['price'])} seeds; rings: the best)"
    )
    right.set_title("bounds on the excess error: of the\ncover, and of the draw")
    right.set(yscale="log")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="α (smaller is a finer cover)")
        axes.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas])
        axes.minorticks_off()
        axes.invert_xaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=100)


def main(seeds=30, alphas=ALPHAS, epsilons=EPSILONS, out=PICTURE):
    """Print the accuracies and the two bounds, and save the figure."""
    found = search(seeds, alphas, epsilons)
    radius = found["radius"].mean(axis=(0, 2))
    accuracy, price = (found[name].mean(axis=0) for name in ("accuracy", "price"))
    print(f"Test accuracy, mean of {seeds} seeds (radius of the cover; price of the draw)")
    print("  α     radius", *(f"      ε = {epsilon:<5g}" for epsilon in epsilons))
    for row, alpha in enumerate(alphas):
        cells = zip(accuracy[row], price[row], strict=True)
        columns = (f"  {right:.3f} ({cost:.3f})" for right, cost in cells)
        print(f"  {alpha:<5g} {radius[row]:.3f} ", *columns)
    for column, epsilon in enumerate(epsilons):
        print(f"The best alpha at ε = {epsilon:g} is {alphas[accuracy[:, column].argmax()]:g}")
    draw_picture(found, alphas, epsilons, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=30, help="number of repetitions")
    main(parser.parse_args().seeds)
