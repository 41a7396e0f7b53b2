"""Learn from embeddings
=====================

Fit a private logistic regression to many dense numbers, and compare it with boosting of columns.

A public model turns texts, images or records into hundreds of numbers, their *embedding*. This
example simulates an embedding of 128 numbers, in which the truth is linear and a few directions
vary much more than the others. The second table contains real images: the 64 pixels of handwritten
digits, which are odd or even. This truth is not linear. Each table has a few hundred public rows,
without and with labels.

Run it with ``python examples/embeddings.py``. It takes less than a minute and needs no network.
"""

from pathlib import Path

import matplotlib
import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import SemiPrivateBoostingClassifier, SemiPrivateLogisticRegression

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
PICTURE = Path("results", "embeddings.png")


# %%
# Make the tables. The simulated embedding mixes hidden directions, whose variance falls as in real
# embeddings. Only the leading directions affect the label.


def simulate_embedding(rng, n_rows=6000, n_columns=128):
    """Return rows with the spectrum of an embedding, and their labels."""
    deviations = np.arange(1, n_columns + 1) ** -0.5
    mixing = np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0]
    slopes = np.where(np.arange(n_columns) < 30, rng.normal(size=n_columns), 0)
    slopes *= 3 / np.linalg.norm(slopes)
    hidden = rng.normal(size=(n_rows, n_columns))
    labels = rng.random(n_rows) < expit(hidden @ slopes)
    return (hidden * deviations) @ mixing, labels.astype(int)


def make_tables(seed):
    """Return both tables: their rows, their labels, and their number of public rows."""
    pixels, digit = load_digits(return_X_y=True)
    return {
        "simulated embedding": (*simulate_embedding(np.random.default_rng(seed)), 300),
        "digits, odd or even": (pixels, digit % 2, 200),
    }


# %%
# Compare the private fits with a fit to the labelled public rows alone, which needs no privacy. Its
# penalty is chosen by cross-validation on these rows.


def fit_public_rows(X_public, y_public):
    """Return a logistic regression of the public rows."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    penalties = {"logisticregression__C": np.logspace(-3, 1, 5)}
    return GridSearchCV(model, penalties, scoring="roc_auc").fit(X_public, y_public)


def compare(X, y, n_public, epsilons, seed):
    """Return the test AUC of each private method by ε, and that of the public rows alone."""
    X_public, X, y_public, y = train_test_split(X, y, train_size=n_public, random_state=seed)
    varies = np.ptp(X_public, axis=0) > 0  # some pixels are white in all public images
    X, X_public = X[:, varies], X_public[:, varies]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    methods = {
        "linear": (SemiPrivateLogisticRegression(), None),
        "linear, labelled public rows": (SemiPrivateLogisticRegression(), y_public),
        # by default, boosting of so many numbers starts from the linear model
        "boosting of columns alone": (SemiPrivateBoostingClassifier(public_model=None), None),
    }
    areas = {}
    for name, (learner, labels) in methods.items():
        areas[name] = []
        for epsilon in epsilons:
            # a seed makes the table reproducible; leave it out for a model that you publish
            clf = clone(learner).set_params(epsilon=epsilon, random_state=seed)
            clf.fit(X, y, X_public=X_public, y_public=labels)
            areas[name].append(roc_auc_score(y_test, clf.decision_function(X_test)))
    public = fit_public_rows(X_public, y_public)
    return areas, roc_auc_score(y_test, public.decision_function(X_test))


def draw_picture(found, epsilons, out):
    """Plot the AUC against ε, with a panel for each table."""
    figure, panels = plt.subplots(
        1, len(found), figsize=(8, 3.6), sharey=True, layout="constrained"
    )
    for axes, (table, (areas, public)) in zip(panels, found.items(), strict=True):
        for (name, values), marker in zip(areas.items(), "os^", strict=True):
            axes.plot(epsilons, values, marker=marker, label=name)
        axes.axhline(public, color="0.35", linestyle="--", label="labelled public rows alone")
        axes.set(xscale="log", xlabel="ε (smaller is more private)", title=table)
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("test AUC")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


# %%
# Print the comparison. The linear model is ahead of boosting of columns alone on the embedding, but
# not on the digits. Labels of public rows help most at a small ε, where a private fit is about as
# good as a fit to these rows alone.


def main(epsilons=EPSILONS, seed=0, out=PICTURE):
    """Print the AUC of each method on both tables, and save the figure."""
    found = {}
    for name, (X, y, n_public) in make_tables(seed).items():
        print(f"Fitting {name}, {X.shape[1]} columns ...", flush=True)
        found[name] = compare(X, y, n_public, epsilons, seed)
    for table, (areas, public) in found.items():
        print(f"\nTest AUC, {table}")
        print(f"  {'ε':30}" + "".join(f"{epsilon:>7g}" for epsilon in epsilons))
        for name, values in areas.items():
            print(f"  {name:30}" + "".join(f"{value:7.3f}" for value in values))
        print(f"  {'labelled public rows alone':30}{public:7.3f}")

    draw_picture(found, epsilons, out)
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    main()
