"""How often intervals hold: exactly where they can be enumerated, by simulation elsewhere."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from skpublicdp.accounting import (
    Gaussian,
    Measurement,
    Pure,
    Sensitivity,
    gaussian_mu_squared,
    noise_scale,
)
from skpublicdp.metrics import private_accuracy_score, private_roc_auc_score, private_scores
from tests.helpers import FALSE_ALARM
from tests.internals.metrics import (
    FAILURE_SHARES,
    NoisyCount,
    accuracy_share,
    make_score_bins,
    release_contingency_table,
    release_n_correct,
    roc_auc_kernel,
    share_interval,
)
from tests.metrics.test_metrics import Scored, Silent

pytestmark = pytest.mark.once


def noise_probabilities(event):
    """Integers with their probabilities under the noise of a count."""
    spread, variance = noise_scale(event, Sensitivity(1, 1))
    reach = int(20 * variance**0.5) + 12
    at = np.arange(-reach, reach + 1)
    if isinstance(event, Pure):
        ratio = np.exp(-1 / float(spread))
        shares = (1 - ratio) / (1 + ratio) * ratio ** np.abs(at)
    else:
        sigma = float(spread) ** 0.5
        shares = norm.cdf((at + 0.5) / sigma) - norm.cdf((at - 0.5) / sigma)
    return at, shares


@pytest.mark.one_in(2)
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
    at, shares = noise_probabilities(event)
    outcomes = np.convolve(binom.pmf(np.arange(n + 1), n, share), shares)
    values = np.arange(at[0], at[0] + len(outcomes))
    covered = 0.0
    for value in np.unique(np.clip(values[outcomes > 1e-10], 0, n)):
        low, high = ends_of(value, n, event, 0.05)
        if low <= share <= high:
            covered += outcomes[np.clip(values, 0, n) == value].sum()
    assert 0.95 - 1e-6 <= covered < 0.985


def ends_of(value, n, event, failure):
    """The interval of the accuracy for a noisy number of correct predictions."""
    noise = Measurement(np.array([value]), *noise_scale(event, Sensitivity(1, 1)))
    count = NoisyCount(int(value), n, noise, event)
    return share_interval(count, failure)


def values_that_hold(n, share, event, failure):
    """The least and the largest number of correct predictions whose interval has the share."""

    def first(found, below, above):
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (below, middle) if found(middle) else (middle, above)
        return above

    middle = round(n * share)
    low = first(lambda value: ends_of(value, n, event, failure)[1] >= share, -1, middle)
    return low, first(lambda value: ends_of(value, n, event, failure)[0] > share, middle, n + 1) - 1


def exact_coverage(n, share, epsilon, failure):
    """How often the interval of the accuracy holds."""
    event = Pure(epsilon)
    ratio = np.exp(-1 / float(noise_scale(event, Sensitivity(1, 1))[0]))
    low, high = values_that_hold(n, share, event, failure)
    right = np.arange(n + 1)
    missed = 0.0
    # numbers beyond 0 and n are moved there
    if low > 0:
        missed += tail_below(low - 1 - right, ratio) @ binom.pmf(right, n, share)
    if high < n:
        missed += tail_below(right - high - 1, ratio) @ binom.pmf(right, n, share)
    return 1 - missed


def tail_below(value, ratio):
    """P(discrete Laplace noise <= value)."""
    beyond = ratio ** np.maximum(value + 1, -value) / (1 + ratio)
    return np.where(value >= 0, 1 - beyond, beyond)


def check_accuracy(n, shares, failures):
    budgets = (Fraction(1, 20), Fraction(1, 5), Fraction(1), Fraction(10))
    for epsilon, share, failure in itertools.product(budgets, shares, failures):
        covered = exact_coverage(n, share, epsilon, failure)
        assert 1 - failure - 1e-6 <= covered <= 0.99, (epsilon, share, failure)


def test_accuracy_is_covered_by_94_to_99_of_100():
    """By enumeration: never less often than is said, though nearly nothing be known."""
    check_accuracy(200, (0.5, 0.97, 0.995), (0.05,))


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 1040, 20_000, 100_000])
def test_accuracy_is_covered_at_every_scale(n):
    check_accuracy(n, (0.5, 0.82, 0.97, 0.995), (0.05, 0.03))


def test_the_accuracy_of_1040_rows_is_known_to_four_hundredths():
    rng = np.random.default_rng(0)
    for share in (0.5, 0.7, 0.82):
        X = (rng.permutation(1040) < share * 1040)[:, None] * 0.8 + 0.1
        y = np.full(1040, "yes")
        with Silent():
            low, high = private_scores(Scored(), X, y, epsilon=0.2).interval("accuracy")
            alone = private_accuracy_score(y, Scored().predict(X), epsilon=0.2).interval
        assert alone[1] - alone[0] < high - low <= 0.08


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

    def law(self, bins):
        """How often a row has each label and cell."""
        if self.steps is None:
            ends = np.concatenate([[0], bins.edges, [1]])
            at = np.arange(bins.n_bins)
        else:
            ends = np.clip((np.arange(self.steps + 2) - 0.5) / self.steps, 0, 1)
            at = np.searchsorted(bins.edges, np.arange(self.steps + 1) / self.steps)
        found = np.zeros((2, bins.n_bins))
        for label, shape, rate in (
            (0, self.negative, 1 - self.rate),
            (1, self.positive, self.rate),
        ):
            np.add.at(found[label], at, rate * np.diff(beta.cdf(ends, *shape)))
        return found

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


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.ImplausibleScoreWarning")
@pytest.mark.parametrize(
    ("world", "n", "epsilon"),
    [
        ("typical", 1000, 1.0),
        pytest.param("few values", 1000, 0.5, marks=pytest.mark.slow),
        ("one class", 200, 1.0),
    ],
)
def test_coverage_of_a_release(world, n, epsilon):
    repeats = 40
    for name, covered in count_covered(WORLDS[world], n, epsilon, repeats).items():
        assert covered >= binom.ppf(FALSE_ALARM, repeats, 0.94), name


def drawn_tables(world, n, epsilon, delta, repeats, release):
    """Noisy tables and numbers of correct predictions as a release has them, noise from numpy."""
    rng = np.random.default_rng(n)
    event = Gaussian(gaussian_mu_squared(epsilon, delta)) if delta else Pure(epsilon)
    share = accuracy_share(event, n) if release else Fraction(0)
    bins = make_score_bins(event.scaled(1 - share), n, "predict_proba", 0.5)
    law = world.law(bins)
    right = np.stack(
        [
            np.arange(bins.n_bins) < bins.first_positive,
            np.arange(bins.n_bins) >= bins.first_positive,
        ]
    )
    for _ in range(repeats):
        ledger = Quick(rng)
        table, count = rng.multinomial(n, law.ravel()).reshape(law.shape), None
        if release:
            total = np.array([table[right].sum()])
            count = release_n_correct(total, n, event.scaled(share), ledger)
        settings = (right, count) if release else (None, None)
        right_in_all = count.value if release else 0
        yield (
            release_contingency_table(table, n, event.scaled(1 - share), ledger, *settings),
            right_in_all,
        )


class Quick:
    """A ledger whose noise has the right law and is no secret."""

    def __init__(self, rng):
        self.rng = rng

    def add_noise(self, table, sensitivity, event, **_):
        spread, variance = noise_scale(event, sensitivity)
        if isinstance(event, Pure):
            stop = -np.expm1(-1 / float(spread))
            one, other = self.rng.geometric(stop, (2, *table.shape))
            return Measurement(table + one - other, spread, variance)
        noise = np.rint(self.rng.normal(size=table.shape) * float(spread) ** 0.5)
        return Measurement(table + noise.astype(np.int64), spread, variance)


def check_area(world, n, epsilon, delta=0.0, repeats=1400):
    """At 95%: 94 to 99 of 100, up to false alarms, unless more than half of [0, 1] is left.

    Alone, and of a release together with the accuracy, for intervals of a release hold all at once.
    """
    epsilon, delta = Fraction(str(epsilon)), Fraction(str(delta))
    for release in (False, True):
        failure, covered, width, held = 0.05, 0, 0.0, (-np.inf, np.inf)
        event = Gaussian(gaussian_mu_squared(epsilon, delta)) if delta else Pure(epsilon)
        if release:
            event = event.scaled(accuracy_share(event, n))
            held = values_that_hold(n, world.accuracy, event, failure * FAILURE_SHARES["accuracy"])
            failure *= FAILURE_SHARES["roc_auc"]
        for table, right in drawn_tables(world, n, epsilon, delta, repeats, release):
            low, high = roc_auc_kernel(table.counts.shape[1]).interval(table, failure)
            width += (high - low) / repeats
            covered += low <= world.roc_auc <= high and held[0] <= np.clip(right, 0, n) <= held[1]
        assert covered >= binom.ppf(FALSE_ALARM, repeats, 0.94)
        if width <= 0.5:
            assert covered <= binom.isf(FALSE_ALARM, repeats, 0.99)


@pytest.mark.parametrize(
    ("world", "n", "epsilon"),
    [
        ("typical", 200, 1.0)  # the others are among those of every scale
    ],
)
def test_coverage_of_the_area(world, n, epsilon):
    check_area(WORLDS[world], n, epsilon)


SCALES = [
    *itertools.product((200, 2000, 20_000, 100_000), (0.05, 0.2, 1.0, 10.0), (0.0,)),
    *itertools.product((2000, 20_000), (0.2, 1.0), (1e-6,)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "delta"), SCALES)
@pytest.mark.parametrize("world", WORLDS)
def test_coverage_of_the_area_at_every_scale(world, n, epsilon, delta):
    check_area(WORLDS[world], n, epsilon, delta, repeats=2000)
