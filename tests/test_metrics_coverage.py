"""How often intervals hold: exactly where they can be enumerated, by simulation elsewhere."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from skpublicdp.accounting import Measurement, Pure, Sensitivity, noise_of
from skpublicdp.accounting.events import Gaussian
from skpublicdp.metrics import private_accuracy_score, private_roc_auc_score, private_scores
from skpublicdp.metrics.intervals import share_interval
from skpublicdp.metrics.table import NoisyCount
from tests.helpers import FALSE_ALARM
from tests.test_metrics import Scored


def noise_probabilities(event):
    """Integers with their probabilities under the noise of a count."""
    spread, variance = noise_of(event, Sensitivity(1, 1))
    reach = int(20 * variance**0.5) + 12
    at = np.arange(-reach, reach + 1)
    if isinstance(event, Pure):
        ratio = np.exp(-1 / float(spread))
        shares = (1 - ratio) / (1 + ratio) * ratio ** np.abs(at)
    else:
        sigma = float(spread) ** 0.5
        shares = norm.cdf((at + 0.5) / sigma) - norm.cdf((at - 0.5) / sigma)
    return spread, at, shares


@pytest.mark.parametrize(
    ("n", "share", "event"),
    [
        (40, 0.7, Pure(Fraction(1))),
        (200, 0.85, Pure(Fraction(1, 5))),
        (200, 0.95, Pure(Fraction(1))),
        (200, 0.5, Gaussian(Fraction(1, 25))),
        (60, 0.1, Gaussian(Fraction(1))),
        (150, 0.8, Pure(Fraction(10))),
    ],
)
def test_coverage_of_accuracy_by_enumeration(n, share, event):
    spread, at, shares = noise_probabilities(event)
    outcomes = np.convolve(binom.pmf(np.arange(n + 1), n, share), shares)
    values = np.arange(at[0], at[0] + len(outcomes))
    covered = 0.0
    for value in np.unique(np.clip(values, 0, n)):
        noise = Measurement(np.array([value]), spread, 1.0)
        count = NoisyCount(int(value), n, noise, isinstance(event, Pure))
        low, high = share_interval(count, 0.05)
        if low <= share <= high:
            covered += outcomes[np.clip(values, 0, n) == value].sum()
    assert 0.935 < covered < 0.975


class World:
    """Scores of both classes are beta distributed, and maybe rounded."""

    def __init__(self, rate, negative, positive, steps=None):
        self.rate, self.negative, self.positive, self.steps = rate, negative, positive, steps
        if steps is None:
            ends = np.linspace(0, 1, 100_001)
            at = (ends[1:] + ends[:-1]) / 2
        else:
            at = np.arange(steps + 1) / steps
            ends = np.clip((np.arange(steps + 2) - 0.5) / steps, 0, 1)
        p, q = (np.diff(beta.cdf(ends, *shape)) for shape in (positive, negative))
        self.roc_auc = p @ (np.cumsum(q) - q / 2)
        self.accuracy = rate * p[at > 0.5].sum() + (1 - rate) * q[at <= 0.5].sum()
        self.balanced_accuracy = (p[at > 0.5].sum() + q[at <= 0.5].sum()) / 2

    def draw(self, n, rng):
        positive = rng.random(n) < self.rate
        scores = np.where(positive, rng.beta(*self.positive, n), rng.beta(*self.negative, n))
        if self.steps:
            scores = np.rint(scores * self.steps) / self.steps
        return scores[:, None], np.where(positive, "yes", "no")


WORLDS = {
    "typical": World(0.3, (1.2, 3.5), (3, 2)),
    "random": World(0.5, (2, 2), (2, 2)),
    "few values": World(0.4, (1, 2), (2, 1), steps=4),
    "rare": World(0.03, (1, 8), (3, 3)),
    "one class": World(0.0, (1.2, 3.5), (3, 2)),
}


def count_covered(world, n, epsilon, repeats, delta=0.0):
    rng = np.random.default_rng(n)
    names = ("accuracy", "roc_auc", "balanced_accuracy")
    found = dict.fromkeys((*names, "all", "accuracy alone", "roc_auc alone"), 0)
    settings = {"epsilon": epsilon, "delta": delta, "random_state": rng}
    for _ in range(repeats):
        X, y = world.draw(n, rng)
        scores = private_scores(Scored(), X, y, **settings)
        inside = []
        for name in names:
            low, high = scores.interval(name)
            inside.append(low <= getattr(world, name) <= high)
            found[name] += inside[-1]
        found["all"] += all(inside)
        low, high = private_accuracy_score(y, Scored().predict(X), **settings).interval
        found["accuracy alone"] += low <= world.accuracy <= high
        auc = private_roc_auc_score(y, X[:, 0], pos_label="yes", **settings)
        found["roc_auc alone"] += auc.interval[0] <= world.roc_auc <= auc.interval[1]
    return found


def check_covered(found, repeats, wide=()):
    """94 to 99 of 100, up to false alarms; what knows next to nothing may cover more."""
    for name, covered in found.items():
        assert covered >= binom.ppf(FALSE_ALARM, repeats, 0.94), name
        if name in ("accuracy", "roc_auc", "accuracy alone", "roc_auc alone") and name not in wide:
            assert covered <= binom.isf(FALSE_ALARM, repeats, 0.99), name


@pytest.mark.parametrize(
    ("world", "n", "epsilon"),
    [("typical", 1000, 1.0), ("few values", 1000, 0.5), ("one class", 200, 1.0)],
)
def test_coverage(world, n, epsilon):
    repeats = 100
    check_covered(count_covered(WORLDS[world], n, epsilon, repeats), repeats)


NOTHING_KNOWN = {"roc_auc", "roc_auc alone"}
SCALES = [
    *itertools.product((200, 2000, 20_000, 100_000), (0.05, 0.2, 1.0, 10.0), (0.0,)),
    *itertools.product((2000, 20_000), (0.2, 1.0), (1e-6,)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "delta"), SCALES)
@pytest.mark.parametrize("world", WORLDS)
def test_coverage_at_every_scale(world, n, epsilon, delta):
    repeats = 500 if n < 100_000 else 150
    found = count_covered(WORLDS[world], n, epsilon, repeats, delta)
    # an interval that is cut off at 0 or 1 covers more
    lost = n * epsilon < 2000 or world in ("rare", "one class") or delta
    wide = NOTHING_KNOWN | {"accuracy", "accuracy alone"} if lost else set()
    check_covered(found, repeats, wide)
