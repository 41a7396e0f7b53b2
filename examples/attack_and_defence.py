"""An attack that works, and one that does not
===========================================

Three things that no release and no learner escapes, and what this package does about each.

1. Many exact answers give away whose rows they were computed from. The same answers released with
   ε = 1 do not.
2. With fewer public rows than about 1/α, thresholds cannot be learned privately to within α.
3. Asking for few, well chosen labels gives rows away by what is asked.

Run it with ``python examples/attack_and_defence.py``; it takes seconds and no network.
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

# too few public rows are the point here
warnings.simplefilter("ignore", NoPublicDataWarning)

N_COLUMNS, N_PRIVATE, N_PUBLIC, N_REFERENCE = 50, 100, 50, 3000
ALPHAS = (0.01, 0.003, 0.001)
PUBLIC_TIMES_ALPHA = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LABELS = (2, 4, 8, 16, 32, 64, 128)
BETA = 0.05
PICTURE = Path("results", "attack_and_defence.png")

# %%
# Yes-or-no answers of people, and all conjunctions of two: who says yes to both questions?

PAIRS = np.array(list(combinations(range(N_COLUMNS), 2)))


def make_people(n, shares, rng):
    """Return answers that are independent, each with its own share of yes."""
    return (rng.random((n, len(shares))) < shares).astype(float)


def conjunctions():
    """Return the questions as `MarginalQueries` takes them."""
    queries = np.full((len(PAIRS), N_COLUMNS), None, dtype=object)
    for column in PAIRS.T:
        queries[np.arange(len(PAIRS)), column] = 1.0
    return queries


# %%
# The attacker knows the answers, other people of the same population, and somebody's row.


def attack(seed, epsilon=1.0):
    """Attack the exact answers and released ones; return both attacks and both errors."""
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
# Real rows lie right of 1, and only they say where to cut. A share of 16 α of all rows is real, so
# whoever is within α of the best errs on at most a sixteenth of the real ones.


def zeros(n, generator):
    """Return rows of no interest."""
    return np.zeros((n, 1))


def mixture(n, share, rng):
    """Return rows of which a share is real, the others zeros with labels by chance."""
    real = rng.random(n) < share
    X = np.where(real, 1 + rng.random(n), 0.0)
    return X[:, None], np.where(real, X > 1.5, rng.random(n) < 0.5).astype(int)


def learn(seeds, alphas, times):
    """Return the mean errors on real rows, shape (alphas, times)."""
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
# Binary search asks for the label in the middle of what it does not know yet. Its questions show
# where the threshold is: no learner whose questions are private is as good with as few labels.


def ask(trials, labels, seed=0):
    """Return the errors that 95% of the trials stay below: binary search, and random labels."""
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
# All three in one picture.


def draw(found, errors, asked, alphas, times, out):
    """Save the picture."""
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
    """Print what each attack finds, and draw it."""
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
    parser.add_argument("--seeds", type=int, default=10, help="how often thresholds are learned")
    main(parser.parse_args().seeds)
