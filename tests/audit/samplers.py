"""Statistical checks of the samplers of draws, noise and random bits, and checks of budgets.

The distributions that samples are compared with are formulas of this module, independent of
`mechanisms`. Samples are seeded, so that a check fails always or never. Each test has a false alarm
rate of 1e-6.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import pickle
import secrets
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from sklearn.base import clone

from skpublicdp import PrivacyBudget
from skpublicdp.accounting import Draw, Event, Gaussian, Pure, Sensitivity, Steps, basic_price
from skpublicdp.audit import Verification
from skpublicdp.exceptions import PrivacyBudgetError, SeededRandomnessWarning
from tests.internals.audit import (
    SAMPLES,
    log_partition_function,
    member_errors,
    replaced,
    smallest_losses,
)
from tests.internals.mechanisms import Choice, Family, Lazy, Leaf, OneOf, Product, random_bits
from tests.internals.privacy import Ledger

FALSE_ALARM_RATE = 1e-6
"""False alarm rate of each statistical test."""

N_SAMPLES = 20_000
"""Number of samples of noise and of random words."""

N_DRAWS = 1000
"""Number of draws from each family, and of random choices of each kind."""

UNLIMITED_EPSILON = 10**9
"""ε of ledgers that are never exhausted."""

MIN_EXPECTED_COUNT = 5
"""Smallest expected count of an outcome for which the chi-square approximation is accurate."""

NO_DELTA = Fraction(0)
BUDGET_DELTA = Fraction(1, 10**5)
FIT_DELTA = BUDGET_DELTA / 30
UNIT_SENSITIVITY = Sensitivity(1, 1)
ENTRY: dict[str, Any] = {"name": "a check", "proof": "audit"}

FAMILIES: tuple[Family, ...] = (
    Leaf(np.array([0, 1, 1, 4, 40])),
    Choice(Leaf(np.array([[0, 3], [2, 2], [1, 9]])), prior=(1, 5, 2)),
    Product([Leaf(np.array([0, 2])), Leaf(np.array([1, 0, 3]))]),
    OneOf([Leaf(np.array([1, 2])), Choice(Leaf(np.array([[0], [3]])))], prior=(3, 1)),
    Choice(Lazy(4, lambda a, b: Leaf(np.arange(3 * a, 3 * b).reshape(-1, 3) % 5), 2)),
)


def sampler_checks() -> dict[str, Callable[[], Verification]]:
    """Return the checks of draws, noise, random choices, sources of randomness and budgets.

    Returns
    -------
    dict of str to callable
        Each returns a Verification without ε: a violation is one of its `findings`.
    """
    checks: dict[str, Callable[[], Iterator[str]]] = {
        "exact draws": _check_draws,
        "discrete Laplace noise": partial(_check_noise, Pure),
        "rounded Gaussian noise": partial(_check_noise, Gaussian),
        "random choices": _check_choices,
        "random bits": _check_random_bits,
        "budgets": _check_budgets,
    }
    return {name: partial(_verification, name, check) for name, check in checks.items()}


def _verification(name: str, check: Callable[[], Iterator[str]]) -> Verification:
    """Return the verification that runs a check: its distinct findings, without any ε."""
    findings = tuple(dict.fromkeys(check()))
    return Verification(name, 0.0, 0.0, 0.0, 0.0, SAMPLES, 0, 0, 0, (), findings)


def passes_chi_square(counts: Any, probabilities: Any) -> bool:
    """Return whether counts pass a chi-square test for a distribution.

    Parameters
    ----------
    counts : array-like of int, shape (n_outcomes,)
        Number of samples of each outcome.
    probabilities : array-like of float, shape (n_outcomes,)
        Probability of each outcome. Outcomes with an expected count below `MIN_EXPECTED_COUNT` are
        pooled.
    """
    counts, expected = np.asarray(counts, dtype=float), np.asarray(probabilities, dtype=float)
    expected = expected * counts.sum()
    is_common = expected >= MIN_EXPECTED_COUNT
    observed = np.append(counts[is_common], counts[~is_common].sum())
    expected = np.append(expected[is_common], max(expected[~is_common].sum(), 0.0))
    is_possible = expected > 1e-9
    if observed[~is_possible].sum():
        return False
    squared_errors = (observed[is_possible] - expected[is_possible]) ** 2
    statistic = (squared_errors / expected[is_possible]).sum()
    degrees_of_freedom = max(is_possible.sum() - 1, 1)
    return bool(statistic < chi2.isf(FALSE_ALARM_RATE, degrees_of_freedom))


def _check_draws() -> Iterator[str]:
    """Yield a finding for each family whose draws do not follow the exponential mechanism."""
    for seed, family in enumerate(FAMILIES):
        for epsilon, sensitivity in ((Fraction(1, 2), 1), (Fraction(5, 2), 2)):
            rate = float(epsilon) / (2 * sensitivity)
            ledger = Ledger(UNLIMITED_EPSILON, random_state=seed)
            counts: dict[Any, int] = {path: 0 for path, _, _ in family.members()}
            for _ in range(N_DRAWS):
                counts[ledger.draw(family, Draw(epsilon), sensitivity, **ENTRY)] += 1
            log_prior = [math.log(prior) for _, _, prior in family.members()]
            errors = np.array([member_errors(family, path) for path in counts])
            probabilities = np.exp(log_prior - rate * errors - log_partition_function(family, rate))
            if not passes_chi_square(list(counts.values()), probabilities):
                family_type = type(family).__name__
                yield f"draws from a {family_type} do not follow the exponential mechanism"


def _check_noise(event_type: type[Pure | Gaussian]) -> Iterator[str]:
    """Yield findings about the distribution, the independence and the addition of noise.

    Parameters
    ----------
    event_type : {Pure, Gaussian}
        `Pure` for discrete Laplace noise, `Gaussian` for rounded Gaussian noise.
    """
    delta = Fraction(event_type is Gaussian, 2)
    for spread in (Fraction(1, 3), Fraction(2), Fraction(35)):
        yield from _check_noise_distribution(event_type, delta, spread)
    # an event of small ε or μ² has noise of scale 2^20
    tiny_event = event_type(Fraction(1, 1 << (40 if event_type is Gaussian else 20)))
    ledger = Ledger(UNLIMITED_EPSILON, delta, random_state=2)
    zeros = np.zeros(N_SAMPLES, dtype=np.int64)
    noisy = ledger.add_noise(zeros, UNIT_SENSITIVITY, tiny_event, **ENTRY).values
    last_four_bits = noisy & 15
    if not passes_chi_square(np.bincount(last_four_bits, minlength=16), np.full(16, 1 / 16)):
        yield "the last binary digits of large noise are not uniform"
    zeros = np.zeros((2, 9), dtype=np.int64)
    table = ledger.add_noise(zeros, UNIT_SENSITIVITY, tiny_event, **ENTRY).values
    if len(np.unique(table)) < table.size:  # the 18 values rarely coincide by chance
        yield "the noise of the rows of a table is not independent"
    exact = np.arange(12, dtype=np.int64).reshape(3, 4) * 10**6
    noisy = ledger.add_noise(exact, UNIT_SENSITIVITY, event_type(Fraction(1, 4)), **ENTRY).values
    if noisy.shape != exact.shape or np.abs(noisy - exact).max() > 1000:
        yield "the noise is not added to the exact integers"
    if (noisy == exact).all():
        yield "no noise is added"


def _check_noise_distribution(
    event_type: type[Pure | Gaussian], delta: Fraction, spread: Fraction
) -> Iterator[str]:
    """Yield findings about the distribution and the independence of noise of one scale.

    Parameters
    ----------
    event_type : {Pure, Gaussian}
        `Pure` for discrete Laplace noise, `Gaussian` for rounded Gaussian noise.
    delta : Fraction
        δ of the ledger.
    spread : Fraction
        Scale of Laplace noise, or variance of Gaussian noise.
    """
    event = event_type(1 / spread)
    ledger = Ledger(UNLIMITED_EPSILON, delta, random_state=1)
    zeros = np.zeros(N_SAMPLES, dtype=np.int64)
    first, second = (
        ledger.add_noise(zeros, UNIT_SENSITIVITY, event, **ENTRY).values for _ in range(2)
    )
    # 12 scales on either side, beyond which a sample is improbable
    max_noise = int(12 * (math.sqrt(spread) if event_type is Gaussian else spread)) + 12
    integers = np.arange(-max_noise, max_noise + 1)
    if event_type is Gaussian:
        edges = np.append(integers, max_noise + 1) - 0.5
        probabilities = np.diff(ndtr(edges / math.sqrt(spread)))
    else:
        normalization = math.tanh(1 / (2 * float(spread)))
        probabilities = normalization * np.exp(-np.abs(integers) / float(spread))
    clipped = np.clip(first, -max_noise, max_noise)
    counts = np.bincount(clipped + max_noise, minlength=len(integers))
    if not passes_chi_square(counts, probabilities):
        yield f"noise of spread {spread} does not follow its distribution"
    if spread > 1:  # with little noise most samples are 0
        successive = first[1:], first[:-1]
        magnitudes = np.abs(first), np.abs(second)
        for a, b in (successive, (first, second), magnitudes):
            correlation = np.corrcoef(a, b)[0, 1]
            if abs(correlation) * math.sqrt(len(a)) > 6:  # six standard errors
                yield f"noise of spread {spread} is not independent"


def _check_choices() -> Iterator[str]:
    """Yield a finding for each kind of random choice (subset, order, ...) that is not uniform."""
    ledger = Ledger(1, random_state=3)
    choices: dict[str, tuple[Callable[[], Any], list[Any]]] = {
        "subsets": (lambda: ledger.subset(5, 2), list(itertools.combinations(range(5), 2))),
        "orders": (lambda: ledger.order(3), list(itertools.permutations(range(3)))),
        "positions": (lambda: ledger.indices(3, 2), list(itertools.product(range(3), repeat=2))),
        "integers": (lambda: [ledger.uniform_below(5)], [(value,) for value in range(5)]),
    }
    for name, (choose, outcomes) in choices.items():
        counts = dict.fromkeys(outcomes, 0)
        for _ in range(N_DRAWS):
            outcome = tuple(int(value) for value in choose())
            if outcome not in counts:
                yield f"{name}: an outcome is invalid"
                break
            counts[outcome] += 1
        if not passes_chi_square(list(counts.values()), np.full(len(outcomes), 1 / len(outcomes))):
            yield f"{name} are not equally likely"


def _check_random_bits() -> Iterator[str]:
    """Yield findings about the origin, the fairness and the declared security of random bits."""
    requested_bits: list[int] = []
    original_token_bytes, original_randbits = secrets.token_bytes, secrets.randbits

    def token_bytes(count: int) -> bytes:
        requested_bits.append(8 * count)
        return original_token_bytes(count)

    def randbits(count: int) -> int:
        requested_bits.append(count)
        return original_randbits(count)

    with replaced(secrets, "token_bytes", token_bytes), replaced(secrets, "randbits", randbits):
        source = random_bits(None)
        words = source.words(N_SAMPLES)
        numbers = [source.bits(20) for _ in range(500)]
        ledger = Ledger(1)
        ledger.uniform_below(1 << 40)
    if sum(requested_bits) < 64 * N_SAMPLES + 20 * 500 + 40:
        yield "random bits do not come from the operating system"
    if not (source.secure and ledger.secure):
        yield "randomness of the operating system is not declared secure"
    for values, width in ((words, 64), (np.array(numbers, dtype=np.uint64), 20)):  # width in bits
        n_ones = sum(
            int(((values >> np.uint64(digit)) & np.uint64(1)).sum()) for digit in range(width)
        )
        n_bits = width * len(values)
        if abs(n_ones - n_bits / 2) > 3.5 * math.sqrt(n_bits):  # 7 standard deviations
            yield "random bits are not fair"
    for state in (5, np.random.default_rng(5), np.random.RandomState(5)):
        if random_bits(state).secure or Ledger(1, random_state=state).secure:
            yield "seeded randomness is declared secure"
    parts = Ledger(UNLIMITED_EPSILON, random_state=4).split(2)
    ledgers = [*parts, parts[0].sub_ledger(Pure(Fraction(1)), **ENTRY)]
    if len({ledger.uniform_below(1 << 60) for ledger in ledgers}) < 3:
        yield "parts of a ledger share their randomness"


def _check_budgets() -> Iterator[str]:
    """Yield findings about accountants, about budgets of groups, and about repeated noise."""
    draws_and_noise: list[tuple[Event | None, Fraction]]
    draws_and_noise = [(Draw(Fraction(1, 5)), NO_DELTA), (None, FIT_DELTA)] * 30
    laplace_then_gaussian: list[tuple[Event | None, Fraction]]
    laplace_then_gaussian = [(Pure(Fraction(1, 4)), NO_DELTA)] * 12 + [(None, FIT_DELTA)] * 20
    for accountant in ("pure", "auto", "gdp", "zcdp"):
        for fits in (draws_and_noise, laplace_then_gaussian):
            yield from _check_accountant(accountant, fits)
    yield from _check_group_budgets()
    yield from _check_repeated_noise()


def _check_accountant(accountant: str, fits: list[tuple[Event | None, Fraction]]) -> Iterator[str]:
    """Yield findings about a budget to which fits are charged until it refuses one.

    Parameters
    ----------
    accountant : str
        Accountant of the budget.
    fits : list of (Event or None, Fraction)
        Event and δ of each fit; None for Gaussian noise.
    """
    budget = PrivacyBudget(2, BUDGET_DELTA, accountant=accountant, for_tests=True)
    charged: list[Event] = []
    copy_functions = (
        lambda budget: budget,
        copy.deepcopy,
        clone,
        lambda budget: pickle.loads(pickle.dumps(budget)),
    )
    for number, (event, delta) in enumerate(fits):
        # a copy of a budget shares its ledger
        budget_copy = copy_functions[number % len(copy_functions)](budget)
        with contextlib.suppress(PrivacyBudgetError):
            charged.append(_spend(budget_copy, event, delta, number))
    if len(charged) != len(budget.ledger):
        yield f"{accountant}: a fit has no entry in the ledger of its budget"
    for losses in smallest_losses(Steps(tuple(charged)), pure=False):
        if losses.delta(2.0) > float(BUDGET_DELTA) * 1.02:  # 2% for the grid of `PrivacyLosses`
            yield f"{accountant}: the admitted fits cost more than the budget"
    if len(charged) < 5:
        yield f"{accountant}: the budget is exhausted after fewer than five fits"
    if budget.spent().epsilon > 2 or budget.spent().delta > float(BUDGET_DELTA):
        yield f"{accountant}: the spent budget exceeds the budget"


def _check_group_budgets() -> Iterator[str]:
    """Yield findings about budgets of groups.

    A fit on all people is charged to every group, and a fit on one group to this group only.
    """
    budget = PrivacyBudget(1, for_tests=True)
    # each charge costs half of the budget
    charges = (
        (budget, True),
        (budget.group("a"), True),
        (budget.group("a"), False),
        (budget.group("b"), True),
        (budget, False),
    )
    for group_budget, is_admissible in charges:
        try:
            _spend(group_budget, Pure(Fraction(1, 2)), NO_DELTA, 0)
        except PrivacyBudgetError:
            if is_admissible:
                yield "a group is refused budget that is left"
        else:
            if not is_admissible:
                yield "a group spends more than the budget that is left"


def _check_repeated_noise() -> Iterator[str]:
    """Yield a finding if fits on two groups of a budget may have the same seed."""
    budget = PrivacyBudget(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRandomnessWarning)
            for group_budget in (budget.group("a"), budget.group("b")):
                _spend(group_budget, Pure(Fraction(1, 4)), NO_DELTA, 0)
    except PrivacyBudgetError:
        return
    yield "two fits of a budget may have the same noise"


def _spend(budget: PrivacyBudget, event: Event | None, delta: Fraction, seed: int) -> Event:
    """Charge an event to a budget by a small fit, and return the event.

    Without an event, the fit adds Gaussian noise with ε = 1/3.
    """
    epsilon = Fraction(1, 3) if event is None else basic_price(event)[0]
    ledger = Ledger(epsilon, delta, seed, budget)
    event = event or ledger.event
    if isinstance(event, Draw):
        ledger.plan(event)
        ledger.draw(FAMILIES[0], event, 1, **ENTRY)
    else:
        ledger.add_noise(np.zeros(2, dtype=np.int64), UNIT_SENSITIVITY, event, **ENTRY)
    return event
