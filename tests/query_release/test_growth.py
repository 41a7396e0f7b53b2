"""One column: more rows or budget never make the release worse, and it ends at the noise.

The short form of a table over n·ε from 10 to 10^8.
"""

import numpy as np
import pytest
from scipy.special import ndtri

from tests.internals.privacy import Ledger
from tests.internals.query_release import release_cdf

pytestmark = pytest.mark.once

N = 100_000
SEEDS = 3
BUDGETS = 10.0 ** np.array([1, 2, 4, 6, 8])


def column(name):
    generator = np.random.default_rng(5)
    if name == "ages":
        return np.clip(np.rint(18 + generator.gamma(2.2, 13, N)), 18, 89), (0, 120)
    if name == "lognormal":
        return np.exp(generator.normal(10, 1, N)), (-1e6, 1e8)
    u = generator.random(N)
    spent = np.round(generator.gamma(2, 30, N), 2)
    return np.where(u < 0.4, 0, np.where(u < 0.7, 40, spent)), (0, 1000)


def public_rows(x, m, drifted, generator):
    if not drifted:
        return generator.choice(x, m)
    # rows move up, and none has the value 40
    weights = np.exp(0.8 * ndtri((np.arange(N) + 0.5) / N)) * (x != 40)
    return generator.choice(x, m, p=weights / weights.sum())


@pytest.mark.parametrize(
    ("name", "m", "drifted"),
    [
        pytest.param("ages", 0, False, marks=pytest.mark.slow),
        ("ages", 30, True),
        pytest.param("ages", 3000, False, marks=pytest.mark.slow),
        pytest.param("atoms", 30, True, marks=pytest.mark.slow),
        pytest.param("atoms", 3000, True, marks=pytest.mark.slow),
        pytest.param("lognormal", 0, False, marks=pytest.mark.slow),
    ],
)
def test_error_falls_to_the_noise(name, m, drifted):
    x, bounds = column(name)
    x = np.sort(x)
    at = np.unique(np.concatenate([x[::20], np.nextafter(x[::20], -np.inf)]))
    truth = np.searchsorted(x, at, side="right") / N
    errors = np.empty((SEEDS, len(BUDGETS), 2))
    for seed in range(SEEDS):
        public = public_rows(x, m, drifted, np.random.default_rng([seed, m]))
        for i, budget in enumerate(BUDGETS):
            ledger = Ledger(budget / N, 1 / N**2, seed)
            found = release_cdf(x, public, bounds=bounds, ledger=ledger)
            wrong = np.abs(found.cdf(at) - truth)
            errors[seed, i] = wrong.max(), wrong.mean()
    mean = errors.mean(axis=0)
    # a rise counts if seeds do not explain it: they have the same public rows at all budgets
    rise = np.diff(errors, axis=1) - 0.05 * errors[:, :-1]
    assert np.all(rise.mean(axis=0) <= 3 * rise.std(axis=0, ddof=1) / np.sqrt(SEEDS) + 1e-4)
    assert mean[BUDGETS == 1e4, 0] < 0.03
    assert mean[BUDGETS == 1e6, 0] < 1e-3
    # the rows err by .0016 themselves, so that public rows still have a say
    assert mean[BUDGETS == 1e8, 0] < (6e-4 if m and not drifted else 3e-4)
