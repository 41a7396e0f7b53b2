"""Privacy attacks, and what stops them
====================================

Run a tracing attack on exact and private answers, and show two limits of every private learner.

1. Many exact answers reveal whose rows they were computed from. The same answers
   released with ε = 1 do not.
2. With fewer public rows than about 1/α, no private learner finds a threshold to within α.
3. A learner that queries a few well-chosen labels reveals rows through its queries.

Run it with ``python examples/attack_and_defence.py``. It takes seconds and needs no network.
"""

import argparse
import math
import warnings
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np

from skpublicdp import PAPQueryRelease, SemiPrivateClassifier
from skpublicdp.audit import reduce_public_data, tracing_attack
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.guarantees import n_active_lower, n_public_lower
from skpublicdp.hypotheses import Thresholds
from skpublicdp.query_release import MarginalQueries

matplotlib.use("Agg")  # draws into a file: no display is needed
import matplotlib.pyplot as plt

# the example uses too few public rows on purpose
warnings.simplefilter("ignore", NoPublicDataWarning)

N_COLUMNS, N_PRIVATE, N_PUBLIC, N_REFERENCE = 50, 100, 50, 3000
ALPHAS = (0.01, 0.003, 0.001)
PUBLIC_TIMES_ALPHA = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LABELS = (2, 4, 8, 16, 32, 64, 128)
BETA = 0.05
PICTURE = Path("results", "attack_and_defence.png")

# %%
# Simulate people's yes-or-no answers. The queries cover all pairs of questions: how many people say
# yes to both?

PAIRS = np.array(list(combinations(range(N_COLUMNS), 2)))


def make_people(n, shares, rng):
    """Return independent answers, each question with its own probability of yes."""
    return (rng.random((n, len(shares))) < shares).astype(float)


def conjunctions():
    """Return the questions in the format of `MarginalQueries`."""
    queries = np.full((len(PAIRS), N_COLUMNS), None, dtype=object)
    for column in PAIRS.T:
        queries[np.arange(len(PAIRS)), column] = 1.0
    return queries


# %%
# The attacker knows the answers, a sample of the same population, and one person's row. Was this
# person among the private rows?


def attack(seed, epsilon=1.0):
    """Attack exact and released answers, and return both attacks and the errors of the answers."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0.1, 0.9, N_COLUMNS)
    private, public, others, reference = (
        make_people(n, shares, rng) for n in (N_PRIVATE, N_PUBLIC, N_PRIVATE, N_REFERENCE)
    )
    release = PAPQueryRelease(MarginalQueries(k=2), epsilon=epsilon, random_state=seed)
    release.fit(private, X_public=public)
    queries, truth = conjunctions(), shares[PAIRS].prod(axis=1)
    exact = private[:, PAIRS].prod(axis=2).mean(axis=0)
    found, errors = {}, {}
    errors["public rows alone"] = np.abs(public[:, PAIRS].prod(axis=2).mean(axis=0) - truth).mean()
    for name, answers in (("exact", exact), ("released", release.answer(queries))):
        found[name] = tracing_attack(
            answers,
            queries,
            members=private,
            non_members=others,
            reference=reference,
            holds=lambda _, rows: rows[:, PAIRS].prod(axis=2).T,
        )
        errors[name] = np.abs(answers - truth).mean()
    return found, errors


# %%
# Only rows above 1 are informative. These informative rows are a fraction 16α of all rows, so a
# rule within α of the best rule errs on at most 1/16 of them.


def zeros(n, generator):
    """Return rows without information about the threshold."""
    return np.zeros((n, 1))


def mixture(n, share, rng):
    """Return rows with a share of informative rows; all others are zeros with random labels."""
    real = rng.random(n) < share
    X = np.where(real, 1 + rng.random(n), 0.0)
    return X[:, None], np.where(real, X > 1.5, rng.random(n) < 0.5).astype(int)


def learn(seeds, alphas, times):
    """Return the mean errors on informative rows, shape (alphas, times)."""
    test = np.linspace(1, 2, 1001)[:, None]
    errors = np.empty((len(alphas), len(times), seeds))
    for (row, column, seed), _ in np.ndenumerate(errors):
        alpha, rng = alphas[row], np.random.default_rng(seed)
        X, y = mixture(math.ceil(1000 / (16 * alpha)), 16 * alpha, rng)
        m = math.ceil(times[column] / alpha)
        X_public, _ = mixture(m + 1 if m == len(X) else m, 16 * alpha, rng)
        clf = SemiPrivateClassifier(Thresholds(), classes=(0, 1), random_state=seed)
        wrong = clf.fit(X, y, X_public=X_public).predict(test) != (test[:, 0] > 1.5)
        errors[row, column, seed] = wrong.mean()
    return errors.mean(axis=2)


# %%
# Binary search always queries the label in the middle of the remaining interval. Its queries reveal
# the threshold. A learner with private queries cannot be as accurate with so few labels.


def ask(trials, labels, seed=0):
    """Return the 95% quantiles of the errors of binary search and of random labels."""
    rng = np.random.default_rng(seed)
    threshold = rng.random(trials)
    search, random = [], []
    for m in labels:
        low, high = np.zeros(trials), np.ones(trials)
        for _ in range(m):
            middle = (low + high) / 2
            low, high = np.where(threshold < middle, (low, middle), (middle, high))
        search.append(np.quantile(np.abs(threshold - (low + high) / 2), 1 - BETA))
        asked = rng.random((trials, m))
        below = np.where(asked <= threshold[:, None], asked, 0).max(axis=1)
        above = np.where(asked > threshold[:, None], asked, 1).min(axis=1)
        random.append(np.quantile(np.abs(threshold - (below + above) / 2), 1 - BETA))
    return np.array(search), np.array(random)


# %%
# Plot all three results in one figure.


def draw(found, errors, asked, alphas, times, out):
    """Plot and save the figure."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.5, 4), layout="constrained")
    found["released"].plot(epsilon=1.0, name="released, ε = 1", ax=left)
    found["exact"].plot(name="exact answers", ax=left).line_.set_color("#d55e00")
    left.set_title(f"{len(PAIRS)} answers on {N_PRIVATE} rows:\nwho is among them?")
    left.legend(loc="lower right", frameon=False)

    for alpha, error, marker in zip(alphas, errors, "os^", strict=False):
        middle.plot(times, error, marker=marker, label=f"α = {alpha:g}")
    middle.axhline(1 / 16, color="0.4", linestyle="--", linewidth=1)
    middle.annotate("within α of the best", (times[0], 1 / 16), (0, 4), textcoords="offset points")
    proved = n_public_lower(alphas[-1], BETA, pure=True) * alphas[-1]
    middle.axvline(proved, color="0.4", linestyle=":", linewidth=1)
    middle.annotate(
        "no pure private\nlearner left of\nthis (ε ≤ 0.1)",
        (proved, 0.2),
        (3, 0),
        textcoords="offset points",
        color="0.3",
    )
    middle.set(xscale="log", xlabel="public rows × α", ylabel="error on the rows that matter")
    middle.set(ylim=(0, None), title="thresholds, ε = 1:\nfew public rows, nothing learned")
    middle.legend(frameon=False)

    search, random = asked
    many = np.geomspace(LABELS[0], LABELS[-1], 50)
    bound = [math.exp(-1) * (1 - math.sqrt(BETA)) ** 2 / (2 * m) for m in many]
    right.fill_between(many, bound, 1e-6, color="#eeeeee", linewidth=0)
    right.text(40, 2e-5, "not with ε = 1 for\nwhat is asked", ha="center", color="0.3")
    right.plot(LABELS, random, marker="o", color="#0072b2", label="random labels, private")
    shown = search > 1e-6
    right.plot(
        np.array(LABELS)[shown], search[shown], marker="s", color="#d55e00", label="binary search"
    )
    right.set(xscale="log", yscale="log", ylim=(1e-6, 1), xlabel="labels", ylabel="error")
    right.set_title("a threshold from few labels:\nquestions that are private, or not")
    right.legend(frameon=False, loc="upper right")
    for axes in (middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=90)


def main(seeds=10, alphas=ALPHAS, times=PUBLIC_TIMES_ALPHA, out=PICTURE):
    """Print the result of each part, and plot all results."""
    found, errors = attack(seed=0)
    print(f"{len(PAIRS)} answers on {N_PRIVATE} private rows, members against others")
    for name, one in found.items():
        rates = one.rates(0.01)
        print(
            f"  {name:9} AUC {one.auc:.3f}, finds {rates.tpr:.0%} at {rates.fpr:.0%} false alarms, "
            f"proves ε > {one.epsilon_lower():.2f}"
        )
    told = ", ".join(f"{name} {error:.3f}" for name, error in errors.items())
    print(f"Mean error of an answer: {told}")

    rng = np.random.default_rng(0)
    X, y = mixture(5000, 1.0, rng)
    learner = SemiPrivateClassifier(Thresholds(), classes=(0, 1), random_state=0)
    hidden = reduce_public_data(learner, zeros, n_private=10**6, n_public=10, random_state=0)
    told = learner.fit(X, y, X_public=mixture(50, 1.0, rng)[0])
    print("\nAccuracy of thresholds on the real rows")
    print(f"  public rows from among them  {told.score(X, y):.3f}")
    print(f"  public rows are dummies      {hidden.fit(X, y).score(X, y):.3f}")
    alpha = alphas[-1]
    print(f"Rows without which no threshold is within {alpha:g} of the best")
    print(f"  public ones, purely private  {n_public_lower(alpha, BETA, pure=True)}")
    print(f"  labels, questions private    {n_active_lower(alpha, BETA, 1.0)}")
    print(f"  labels, binary search        {math.ceil(math.log2(1 / alpha))}")
    draw(found, learn(seeds, alphas, times), ask(2000, LABELS), alphas, times, Path(out))
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--seeds", type=int, default=10, help="number of repetitions of the thresholds"
    )
    main(parser.parse_args().seeds)
