"""Google's dp-accounting composes the event of every receipt by privacy loss distributions (PLD).

dp-accounting shares no code with `skpublicdp.accounting`. Translation of the events:

* Gaussian(μ²): the Gaussian mechanism with noise multiplier 1/μ.
* Pure(ε), Approximate(ε, δ): randomised response with failures, as by its own
  `from_privacy_parameters`; no other (ε, δ)-private mechanism has a larger loss.
* Draw(ε): dp-accounting has no event for the exponential mechanism. With δ = 0, a draw is Pure(ε).
  With δ > 0, it is a draw from two outcomes with losses t and t - ε. All draws of a plan have the
  same share t/ε, and the largest result over `SHARES` counts. This is a lower bound, since t may
  vary.
* Subsampled(rate, base): it has no event for subsets of a fixed size and pure mechanisms. It is
  Poisson subsampled Laplace noise of the base's ε, whose largest loss is the same.
* Steps: composition. Either: the option that gives the largest result.

Each distribution is discretised twice: losses rounded down give a lower bound on ε, and the claim
must not be smaller. Losses rounded up give an upper bound.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
from collections import Counter
from importlib.metadata import version

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from witnesses_table import row

from skpublicdp import PAPQueryRelease, SemiPrivateBoostingClassifier
from skpublicdp.accounting import (
    Approximate,
    Draw,
    Either,
    Gaussian,
    PrivacyReceipt,
    Pure,
    Steps,
    Subsampled,
    basic_price,
)
from skpublicdp.audit.data_sets import Domain
from skpublicdp.metrics import private_accuracy_score
from skpublicdp.query_release import ThresholdQueries
from tests.audit.case import Case
from tests.audit.catalogue import catalogue
from tests.audit.subjects import PublishedScore

logging.getLogger().addFilter(lambda record: "Connect-the-Dots" not in record.getMessage())

SHARES = np.arange(1, 16) / 16
"""Tested shares t/ε of a draw's larger loss."""

STEP = 1e-4
"""Discretisation interval of losses, relative to the claimed ε if this is above 1."""

TINY_DELTA = 1e-12
"""δ at which claims with δ = 0 are compared: PLDs cut off tails of about 1e-15."""

MAX_PATHS = 64
"""Maximum number of paths through the options of a plan."""

NOT_STEPS = ("SubsamplingActiveLearner", "LabelBoostClassifier", "GenericLearnerClassifier")
"""Estimators whose mechanisms run on a secret subset, on relabelled rows, or on separate rows."""

MAX_DIRECT_EPSILON = 500
"""Above this ε, floats overflow in a function of dp-accounting."""


def rows():
    """Yield a row for each case with the larger ε of the receipt's plan and its mechanisms."""
    tool = f"dp-accounting {version('dp-accounting')}"
    for case in [*catalogue(), *usual_cases()]:
        receipt = receipt_of(case)
        claim = receipt.epsilon, receipt.delta
        bounds = [epsilons(event, *claim) for event in {receipt.event, used(case, receipt)}]
        yield row("accounting", tool, case.name, "ε", *claim, *map(max, zip(*bounds, strict=True)))


def usual_cases():
    """Return a score without a case, and cases with ordinary ε with many draws and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    public = {"X_public": rng.normal(size=(300, 4))}

    def accuracy(scores, y, **settings):
        return private_accuracy_score(y, scores > 0, **settings)

    return [
        Case("private_accuracy_score", lambda: PublishedScore(accuracy, epsilon=1, delta=0),
             X, 300, (False, True)),
        Case("SemiPrivateBoostingClassifier, 20,000 rows",
             lambda: SemiPrivateBoostingClassifier(classes=(0, 1)), X, 20_000, (0, 1), public),
        Case("SemiPrivateBoostingClassifier, 20,000 rows, votes",
             lambda: SemiPrivateBoostingClassifier(classes=(0, 1), method="votes"),
             X, 20_000, (0, 1), public),
        Case("PAPQueryRelease, 20,000 rows, pmw with δ",
             lambda: PAPQueryRelease(ThresholdQueries(), method="pmw", bounds=(-3, 3)),
             X[:, :1], 20_000, None, {"X_public": public["X_public"][:, :1]}),
    ]  # fmt: skip


def receipt_of(case):
    """Return the receipt of a fit to the first feasible dataset of a case.

    `PublicFit` has no private rows and no receipt: its claim is 0, and its plan is empty.
    """
    ordered = any(np.ndim(value) == 1 and len(value) == case.n for value in
                  case.fit_params.values())  # fmt: skip
    domain = Domain(case.domain, case.labels, case.n, case.rows_per_person, ordered)
    for data_set in domain.sample(20, np.random.default_rng(0)):
        try:
            fitted = case.make().fit(**domain.arguments(data_set), **case.fit_params)
        except ValueError:  # such as labels that all are the public one
            continue
        return getattr(fitted, "privacy_", None) or _no_private_rows()
    raise ValueError(f"no data set of {case.name} can be fitted")


def _no_private_rows():
    return PrivacyReceipt(0.0, 0.0, "row", 0, 0, (), True, event=Steps(()))


def used(case, receipt):
    """Return all mechanisms of a receipt as steps, or its plan if they are not sequential."""
    events = tuple(mechanism.event for mechanism in receipt.mechanisms)
    if None in events or case.name.startswith(NOT_STEPS):
        return receipt.event
    return Steps(events)


def epsilons(event, claimed, delta):
    """Return PLD lower and upper bounds on the ε of an event at a given δ."""
    step = STEP * max(1.0, claimed)
    bounds = []
    for pessimistic in (False, True):
        found = 0.0
        for path in itertools.islice(paths(event), MAX_PATHS):
            has_draws = delta and any(isinstance(part, Draw) for part in path)
            for share in SHARES if has_draws else [None]:
                parts = mechanisms(path, share, step, pessimistic)
                if parts:
                    total = functools.reduce(lambda a, b: a.compose(b), parts)
                    found = max(found, epsilon_at(total, delta or TINY_DELTA, claimed))
        bounds.append(found)
    return tuple(bounds)


def epsilon_at(losses, delta, claimed):
    """Return the ε of a PLD at a given δ.

    `get_epsilon_for_delta` of dp-accounting 0.6.0 is too large by about 1 if e^ε overflows, so a
    large ε is found by bisection of `get_delta_for_epsilon`, up to twice the claim.
    """
    if claimed < MAX_DIRECT_EPSILON:
        return losses.get_epsilon_for_delta(delta)
    low, high = 0.0, 2 * claimed
    while high - low > 1e-9 * claimed:
        middle = (low + high) / 2
        is_above = losses.get_delta_for_epsilon(middle) > delta
        low, high = (middle, high) if is_above else (low, middle)
    return high


def paths(event):
    """Yield the mechanisms of each path through an event, with their number of repetitions."""
    match event:
        case Steps(parts):
            for choice in itertools.product(*(list(paths(part)) for part in parts)):
                yield sum(choice, Counter())
        case Either(options):
            for option in dict.fromkeys(options):
                yield from paths(option)
        case _:
            yield Counter([event])


def mechanisms(path, share, step, pessimistic):
    """Return the PLDs of a path: one for all Gaussian noise, and one per other mechanism."""
    mu_squared = sum(
        count * part.mu_squared for part, count in path.items() if isinstance(part, Gaussian)
    )
    found = []
    if mu_squared:
        gaussian = pld.from_gaussian_mechanism(
            1 / math.sqrt(mu_squared),
            pessimistic_estimate=pessimistic,
            value_discretization_interval=step,
        )
        found.append(gaussian)
    for part, count in path.items():
        if not isinstance(part, Gaussian) and any(map(float, basic_price(part))):
            found.append(mechanism(part, share, step, pessimistic).self_compose(count))
    return found


def mechanism(event, share, step, pessimistic):
    """Return the PLD of one non-Gaussian event."""
    match event:
        case Draw(epsilon) if share is not None:
            high = share * float(epsilon)
            return two_losses(high, high - float(epsilon), 0.0, step, pessimistic)
        case Pure(epsilon) | Draw(epsilon):
            return two_losses(float(epsilon), -float(epsilon), 0.0, step, pessimistic)
        case Approximate(epsilon, delta):
            return two_losses(float(epsilon), -float(epsilon), float(delta), step, pessimistic)
        case Subsampled(rate, base, _):
            base_epsilon, _ = basic_price(base)
            return pld.from_laplace_mechanism(
                1 / float(base_epsilon),
                pessimistic_estimate=pessimistic,
                value_discretization_interval=step,
                sampling_prob=float(rate),
            )
    raise TypeError(f"unknown event {type(event).__name__}")


def two_losses(high, low, delta, step, pessimistic):
    """Return the PLD of a two-valued loss that is infinite with probability δ."""
    # by the mean of e^-loss, which is 1; in logarithms, so that large losses do not overflow
    total = math.log(-math.expm1(low - high))
    logs = {
        "high": math.log(-math.expm1(low)) - total,
        "low": math.log(-math.expm1(-high)) + low - total,
    }
    losses = {"high": high, "low": low}
    kept = math.log1p(-delta)
    upper = {name: logs[name] + kept for name in losses}
    lower = {name: logs[name] - losses[name] + kept for name in losses}
    if delta:
        upper["failure"] = lower["other failure"] = math.log(delta)
    return pld.from_two_probability_mass_functions(
        lower, upper, pessimistic_estimate=pessimistic, value_discretization_interval=step,
        symmetric=high == -low,
    )  # fmt: skip
