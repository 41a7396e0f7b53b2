"""A whole project on one budget
=============================

Run a search, a final fit, three releases and an accuracy within ε = 1.

The data are a simulated health check of 30,000 people. Another 400 people made their measurements
public, and a quarter of the 30,000 people is held out to evaluate the final model. All published
results together cost at most ε = 1 at δ = 1e-6.

Run it with ``python examples/project_budget.py``. It takes a few seconds and needs no network.
"""

import matplotlib
import numpy as np
import pandas as pd
from sklearn.base import clone

from skpublicdp import PAPQueryRelease, PrivacyBudget, SemiPrivateClassifier
from skpublicdp.hypotheses import DecisionTrees, Halfspaces, Stumps
from skpublicdp.metrics import private_scores
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.plotting import BudgetDisplay
from skpublicdp.query_release import MarginalQueries

matplotlib.use("Agg")  # no display is needed

DELTA = 1e-6
FEATURES = ["age", "bmi", "glucose", "smoker"]
GRID = {"hypotheses": [Stumps(), DecisionTrees(), Halfspaces()], "alpha": [0.05, 0.2]}
BOUNDS = {"age": (18, 100), "glucose": (40, 400)}
"""Limits of the columns, known without looking at the rows."""


# %%
# Simulate people.


def people(n, seed):
    """Return simulated measurements and diagnoses."""
    rng = np.random.default_rng(seed)
    age = rng.triangular(18, 45, 95, n).round()
    bmi = (rng.gamma(24, 1.05, n) + age / 40).round(1)
    glucose = (60 + rng.gamma(9, 3.6, n) + 0.25 * age + 0.6 * (bmi - 25)).round()
    smoker = (rng.random(n) < 0.28 - age / 500).astype(int)
    risk = (glucose - 112) / 9 + (bmi - 27) / 5 + (age - 55) / 20 + 0.6 * smoker
    ill = rng.random(n) < 1 / (1 + np.exp(-risk))
    table = pd.DataFrame({"age": age, "bmi": bmi, "glucose": glucose, "smoker": smoker})
    table["region"] = rng.choice(["north", "east", "south", "west"], n, p=[0.2, 0.35, 0.3, 0.15])
    return table, np.where(ill, "ill", "well")


# %%
# Pass the same budget to every fit. A fit that would exceed the budget is refused.


def learn(X, y, X_public, budget, seed):
    """Search six settings for one ε, and fit the best setting."""
    settings = {"budget": budget, "random_state": seed}
    search = SemiPrivateSearchCV(SemiPrivateClassifier(), GRID, epsilon=0.1, **settings)
    search.fit(X, y, X_public=X_public)
    final = clone(search.estimator).set_params(**search.best_params_, epsilon=0.25, **settings)
    return search, final.fit(X, y, X_public=X_public)


def release(people, public, budget, seed):
    """Release two distributions and a table of counts."""
    releases = []
    for columns in (["age"], ["glucose"], ["region", "smoker", "diagnosis"]):
        one = PAPQueryRelease(
            MarginalQueries() if len(columns) > 1 else None,
            epsilon=0.35,
            delta=DELTA,
            bounds={name: ends for name, ends in BOUNDS.items() if name in columns} or None,
            random_state=seed,
            budget=budget,
        )
        releases.append(one.fit(people[columns], X_public=public[columns]))
    return releases


# %%
# Print the requested budgets and their total. With tight composition, the total is below the sum.


def print_ledger(budget, receipts):
    """Print the request of each fit, and the largest total over all people after the fit."""
    print(f"   {'who':<23}{'whose rows':<11}{'rows':>6}{'asked ε':>9}{'asked δ':>9}{'total ε':>9}")
    asked = {receipt.entry: receipt for receipt in receipts}
    for entry, total in zip(budget.ledger, budget.history(), strict=True):
        receipt = asked[entry.number]
        print(
            f"{entry.number:<3}{entry.who:<23}{entry.group or 'everybody':<11}{entry.n_rows:>6}"
            f"{receipt.epsilon:>9.2f}{receipt.delta:>9.0e}{total.epsilon:>9.3f}"
        )
    asked_for, spent = sum(receipt.epsilon for receipt in receipts), budget.spent()
    print(f"Asked for ε = {asked_for:.2f}; spent ε = {spent.epsilon:.3f} at δ = {spent.delta:g}")


def main(n=30_000, seed=0):
    """Run the project and print the results, all of which may be published."""
    X, y = people(n, 1)
    X_public, y_public = people(400, 2)
    held_out = np.arange(n) % 4 == 0
    # seeds and for_tests make this page reproducible; leave both out for real data
    budget = PrivacyBudget(1.0, DELTA, for_tests=True)

    search, final = learn(
        X.loc[~held_out, FEATURES],
        y[~held_out],
        X_public[FEATURES],
        budget.group("learning"),
        seed,
    )
    chosen = ", ".join(f"{name} = {value}" for name, value in search.best_params_.items())
    print(f"Found among {search.n_candidates_} settings: {chosen}")
    print(final.hypothesis_)

    everybody, public = X.assign(diagnosis=y), X_public.assign(diagnosis=y_public)
    age, glucose, counts = release(everybody, public, budget, seed)
    shares = [0.25, 0.5, 0.75]
    print(f"\nQuartiles of age: {age.quantile(shares)}, of glucose: {glucose.quantile(shares)}")
    by_region = [
        counts.answer({"region": region, "diagnosis": "ill"})[0] for region in ("north", "east")
    ]
    print("Ill people in the north: {:.1%} of all, in the east: {:.1%}".format(*by_region))

    scores = private_scores(
        final,
        X.loc[held_out, FEATURES],
        y[held_out],
        epsilon=0.5,
        delta=DELTA,
        random_state=seed,
        budget=budget.group("held out"),
    )
    low, high = scores.interval("accuracy")
    print(f"Accuracy: {scores.accuracy:.3f}, with 95% between {low:.3f} and {high:.3f}\n")
    fits = (search, final, age, glucose, counts, scores)
    print_ledger(budget, [one.privacy_ for one in fits])
    BudgetDisplay.from_budget(budget)
    return budget


if __name__ == "__main__":
    main()
