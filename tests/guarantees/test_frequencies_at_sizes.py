"""How often estimators with as many rows as their sizes say fail, at a failure probability of 1/2.

`N_RUNS` runs refute a rate of 3/4 with probability 0.95, and a rate of 1/2 with `FALSE_ALARM`.
Frequency tests elsewhere with fewer runs are smoke tests: they see gross errors only.
"""

import numpy as np
import pytest
from scipy.stats import binom

from skpublicdp import (
    GenericLearnerClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.guarantees import (
    n_blr_learner,
    n_finite,
    n_label_boost,
    n_ppm,
    n_ppm_boxes,
    n_private,
    n_public,
    n_query_release,
)
from skpublicdp.hypotheses import FiniteClass, Thresholds
from skpublicdp.query_release import ThresholdQueries
from skpublicdp.sanitizers import BLRSanitizer
from tests.guarantees.test_small_errors import Exceptions
from tests.helpers import FALSE_ALARM, allowed_failures
from tests.label_boost.test_base_accuracy import ACCURACY, ages, excess_of_ages

pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning"),
]

BETA, N_RUNS = 0.5, 160
LABELS = [0, 1]


def test_the_number_of_runs_has_power():
    limit = allowed_failures(N_RUNS, BETA)
    assert binom.sf(limit, N_RUNS, BETA) <= FALSE_ALARM
    assert binom.sf(limit, N_RUNS, 1.5 * BETA) >= 0.95


def one_of_many_rules(rng, seed):
    """All but one of 46 rules are just too bad."""
    alpha, domain = 0.2, np.arange(10.0)[:, None]
    rules = [Exceptions(i, j) for i in range(10) for j in range(i)]
    n = n_finite(0.99 * alpha, BETA, 1.0, 46, realizable=True)
    clf = SemiPrivateClassifier(FiniteClass([Exceptions(), *rules]), classes=LABELS)
    X = rng.choice(domain, size=n)
    clf.set_params(random_state=seed, beta=BETA, best_error=0).fit(X, np.zeros(n, int))
    return clf.predict(domain).any()


def threshold(rng, seed, realizable):
    """A threshold with one label in ten wrong, or none."""
    alpha, noise = 0.3, 0.0 if realizable else 0.1
    n = n_private(alpha, BETA, 1.0, 1, constants="tight", realizable=realizable)
    m = n_public(alpha / 2, BETA / 2, 1, constants="tight", realizable=realizable)
    cut, X = rng.random(), rng.random((n, 1))
    y = (X[:, 0] > cut) ^ (rng.random(n) < noise)
    clf = SemiPrivateClassifier(
        Thresholds(), alpha=1 / (2 * m), beta=BETA, classes=LABELS, random_state=seed
    ).fit(X, y.astype(int), X_public=rng.random((m, 1)))
    grid = (np.arange(1000.0)[:, None] + 0.5) / 1000
    return (1 - 2 * noise) * (clf.predict(grid) != (grid[:, 0] > cut)).mean() > alpha


def four_points(rng, seed):
    alpha, domain = 0.4, np.arange(4.0)[:, None]
    size = n_blr_learner(alpha, BETA, 1.0, 1, 4)
    shares = rng.dirichlet(np.full(4, 0.5))
    X = rng.choice(4, size=(size.labelled + size.unlabelled, 1), p=shares).astype(float)
    truth = np.arange(4) > rng.integers(4)
    y = truth[X[:, 0].astype(int)] ^ (rng.random(len(X)) < 0.1)
    clf = GenericLearnerClassifier(
        Thresholds(),
        alpha=1e-9,
        beta=BETA,
        sanitizer=BLRSanitizer(domain, n_points=size.n_points),
        classes=LABELS,
        random_state=seed,
    ).fit(X, y.astype(int), is_labelled=np.arange(len(X)) < size.labelled)
    return 0.8 * shares[clf.predict(domain) != truth].sum() > alpha


def label_boost(rng, seed):
    alpha = 0.4
    sizes = n_label_boost(alpha, BETA, 1.0, 1, ACCURACY, constants="tight")
    clf = ages(seed, *sizes, n_base=None, alpha=alpha / 4, beta=BETA)
    assert clf.n_rounds_ == 1
    assert clf.guarantee_ <= alpha
    return excess_of_ages(clf) > alpha


def mixture(rng, seed, pool):
    """A halfspace of the first feature with the private label, half of the rows in it."""
    alpha, d = 0.5, 2  # few rows, so few cones
    if pool == "paper":
        n = n_ppm(alpha, BETA, 1.0, d, public_share=0.5)
    else:
        n = n_ppm_boxes(alpha, BETA, 1.0, d, public_share=0.5)
    X, grid = rng.random((n, d)), rng.random((4000, d))
    cut = np.median(X[:, 0])
    clf = PPMHalfspaceClassifier(pool=pool, private_label=1, beta=BETA, random_state=seed)
    clf.fit(X, (X[:, 0] > cut).astype(int))
    return (clf.predict(grid) != (grid[:, 0] > cut)).mean() > alpha


def all_thresholds(rng, seed):
    alpha, budget = 0.5, {"epsilon": 0.9, "delta": 1e-6}
    n = n_query_release(alpha, BETA, **budget, d=1, dual=1, constants="tight")
    m = n_public(alpha / 4, BETA / 2, 1, constants="tight")
    release = PAPQueryRelease(
        ThresholdQueries(), method="pmw", alpha=alpha, beta=BETA, random_state=seed, **budget
    ).fit(rng.random((n, 1)) ** 4, X_public=rng.random((m, 1)) ** 4)
    at = np.linspace(0, 1, 200)
    return np.abs(release.cdf(at**4) - at).max() > alpha


@pytest.mark.parametrize(
    ("fails", "settings"),
    [
        (one_of_many_rules, {}),
        (threshold, {"realizable": False}),
        (threshold, {"realizable": True}),
        (four_points, {}),
        (label_boost, {}),
        (mixture, {"pool": "paper"}),
        (mixture, {"pool": "axes"}),
        (all_thresholds, {}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or "-".join(map(str, value.values())),
)
def test_failures_at_the_size(fails, settings):
    failures = sum(fails(np.random.default_rng(seed), seed, **settings) for seed in range(N_RUNS))
    assert failures <= allowed_failures(N_RUNS, BETA)
