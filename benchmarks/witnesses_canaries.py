"""Compute lower bounds on ε from canary scores with jax-privacy's `CanaryScoreAuditor`.

* Many runs: each estimator is fitted `N_RUNS` times to each of two neighbouring datasets. The
  score is the privacy loss of all released values between these two datasets, which is the most
  powerful score. Estimators with secret random roles are scored by a prediction instead.
* One run: `N_CANARIES` rows are canaries whose labels are fair coin flips. The labels are guessed
  from one fit. Neighbours that differ by replacing one row differ in one coin, so the theorems of
  Steinke et al. (2023) and Mahloujifar et al. (2024) hold with the claimed ε.

The auditor's `epsilon_from_gdp` is left out: it uses the absolute value of a negative bound on μ
(version 2.0.0), so it reports a large ε for two samples from the same distribution.

The auditor's bounds hold simultaneously with 95% confidence, because each bound uses 5% divided by
their number. If the attack finds little, the claim may still be exact. `other` is the same attack
on the same estimator with ε = `LARGE_EPSILON`, which protects nothing.
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import pandas as pd
from jax_privacy.auditing import CanaryScoreAuditor
from witnesses_table import row

from skpublicdp import PAPQueryRelease, SemiPrivateBoostingClassifier
from skpublicdp.audit.binomial import _fit_with_loss
from skpublicdp.audit.data_sets import Domain
from skpublicdp.query_release import MarginalQueries
from tests.audit.catalogue import catalogue

TOOL = f"jax-privacy {version('jax-privacy')}"
N_RUNS = 250
N_PILOT = 10
N_PAIRS = 12
N_CANARIES = 2000
LARGE_EPSILON = 1000

AUDITED = (
    "SemiPrivateClassifier, thresholds",
    "PPMHalfspaceClassifier",
    "SemiPrivateBoostingClassifier",
    "SemiPrivateBoostingClassifier, pure",
    "SemiPrivateBoostingClassifier, votes, Gaussian",
    "SemiPrivateBoostingRegressor",
    "GenericLearnerClassifier, few rows",
    "BLRSanitizer",
    "PAPQueryRelease, thresholds",
    "PAPQueryRelease, thresholds, pmw with δ",
    "private_scores",
    "private_roc_auc_score, pure",
    "private_confusion_matrix, pure",
)  # fmt: skip
"""Cases of the audit, with at least one for each mechanism."""

SECRET_ROLES = ("SubsamplingActiveLearner", "LabelBoostClassifier, no round")
"""Cases scored by a prediction."""

N_BOUNDS = len(AUDITED) + len(SECRET_ROLES) + 8
"""Number of rows for the Bonferroni correction, eight of them from one-run audits."""

SIGNIFICANCE = 0.05 / N_BOUNDS


def rows():
    cases = {case.name: case for case in catalogue()}
    for name in (*AUDITED, *SECRET_ROLES):
        yield from many_runs(cases[name])
    yield from one_run("PAPQueryRelease, 2,000 canaries", release_scores)
    yield from one_run("SemiPrivateBoostingClassifier, 2,000 canaries", boosting_scores)


def many_runs(case):
    """Yield the rows of a case, scored by the privacy loss of its released values."""
    domain = Domain(case.domain, case.labels, case.n, case.rows_per_person, False)
    sides = worst_pair(case, domain)
    rng = np.random.default_rng(7)
    scores = np.empty((2, N_RUNS))
    for run in range(N_RUNS):
        for side in (0, 1):
            receipt, loss = scored(case, sides, side, rng)
            scores[side, run] = loss
    auditor = CanaryScoreAuditor(*scores)
    epsilon, delta = float(receipt.epsilon), float(receipt.delta)
    found = auditor.epsilon_clopper_pearson(SIGNIFICANCE, delta, one_sided=False)
    yield row("canaries", TOOL, case.name, "Clopper-Pearson", epsilon, delta, found)


def worst_pair(case, domain):
    """Return the `fit` arguments of the pair of neighbours with the largest mean loss."""
    rng = np.random.default_rng(3)
    pairs = []
    for data_set in domain.sample(N_PAIRS, rng):
        neighbours = domain.neighbours(data_set)
        neighbour = neighbours[rng.integers(len(neighbours))]
        sides = [domain.arguments(one) | case.fit_params for one in (data_set, neighbour)]
        try:
            losses = [scored(case, sides, 0, rng)[1] for _ in range(N_PILOT)]
        except ValueError:  # a data set that cannot be fitted
            continue
        pairs.append((float(np.mean(losses)), sides))
    return max(pairs, key=lambda pair: pair[0])[1]


def scored(case, sides, side, rng):
    """Return the receipt and the score of one fit to one dataset of a pair."""

    def make():
        estimator = case.make()
        if hasattr(estimator, "settings"):  # `PublishedScore` of the audit
            estimator.settings["random_state"] = rng
        else:
            estimator.random_state = rng
        return estimator

    if case.name in SECRET_ROLES:
        fitted = make().fit(**sides[side])
        return fitted.privacy_, float(fitted.predict(case.domain[-1:])[0])
    fitted, loss = _fit_with_loss(make, sides[side], sides[1 - side])
    return fitted.privacy_, loss if side == 0 else -loss


def one_run(name, scores_of):
    """Yield rows with the bounds from one fit in which canary labels are fair coin flips."""
    coins = np.random.default_rng(11).integers(0, 2, N_CANARIES)
    for epsilon in (4.0, 8.0):
        auditors = []
        for used_epsilon in (epsilon, LARGE_EPSILON):
            scores = scores_of(coins, used_epsilon)
            auditors.append(CanaryScoreAuditor(scores[coins == 1], scores[coins == 0]))
        for measure in ("epsilon_one_run", "epsilon_one_run_fdp"):
            found, other = (getattr(a, measure)(SIGNIFICANCE, 1e-6) for a in auditors)
            title = {"epsilon_one_run": "one run", "epsilon_one_run_fdp": "one run, f-DP"}[measure]
            yield row("canaries", TOOL, name, title, epsilon, 1e-6, found, other)


def release_scores(coins, epsilon):
    """Return the released difference of both cells of each canary, which has its own category."""
    names = [f"c{i}" for i in range(len(coins))]
    rows = pd.DataFrame({"canary": names, "label": np.where(coins, "yes", "no")})
    labels = np.repeat(["yes", "no"], len(names))
    public = pd.DataFrame({"canary": names * 2, "label": labels})
    release = PAPQueryRelease(
        MarginalQueries(workload=[("canary", "label")]), epsilon=epsilon, delta=1e-6, random_state=5
    )
    table = release.fit(rows, X_public=public).table(["canary", "label"])
    wide = table.set_index(["canary", "label"]).iloc[:, 0].unstack().loc[names]
    return (wide["yes"] - wide["no"]).to_numpy()


def boosting_scores(coins, epsilon):
    """Return the margin of each canary, which has a unique value in one column."""
    X = np.arange(len(coins), dtype=float)[:, None]
    model = SemiPrivateBoostingClassifier(
        epsilon=epsilon, delta=1e-6, classes=(0, 1), random_state=5
    ).fit(X, coins, X_public=X.copy())
    return model.decision_function(X)
