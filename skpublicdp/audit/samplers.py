"""What everything rests on: draws, noise, random bits and budgets, checked one by one.

The probabilities that samples are compared with are formulas of this module, not of `mechanisms`.
Samples are seeded, so that a check fails always or never; each has a false-alarm rate of 1e-6.
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

from skpublicdp.accounting import Draw, Event, Gaussian, Pure, Sensitivity, Steps, basic_price
from skpublicdp.audit.event_loss import smallest_losses
from skpublicdp.audit.recorder import replaced
from skpublicdp.audit.sensitivity import log_partition_function, member_errors
from skpublicdp.audit.verification import SAMPLES, Verification
from skpublicdp.exceptions import PrivacyBudgetError, SeededRandomnessWarning
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Product
from skpublicdp.mechanisms.randomness import random_bits
from skpublicdp.privacy.budget import PrivacyBudget
from skpublicdp.privacy.ledger import Ledger

FALSE_ALARM = 1e-6
MANY = 20_000
ALL_DRAWS = 1000
PLENTY = 10**9

NO = Fraction(0)
DELTA = Fraction(1, 10**5)
SMALL = DELTA / 30
UNIT = Sensitivity(1, 1)
SAID: dict[str, Any] = {"name": "a check", "proof": "audit"}

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
        Each returns a Verification, whose `findings` say what is wrong.
    """
    checks: dict[str, Callable[[], Iterator[str]]] = {
        "exact draws": _draws,
        "discrete Laplace noise": partial(_noise, Pure),
        "rounded Gaussian noise": partial(_noise, Gaussian),
        "random choices": _choices,
        "random bits": _bits,
        "budgets": _budgets,
    }
    return {name: partial(_checked, name, check) for name, check in checks.items()}


def _checked(name: str, check: Callable[[], Iterator[str]]) -> Verification:
    found = tuple(dict.fromkeys(check()))
    return Verification(name, 0.0, 0.0, 0.0, 0.0, SAMPLES, 0, 0, 0, (), found)


def fits(counts: Any, shares: Any) -> bool:
    """Tell whether counts may be samples of a distribution: a chi-square test."""
    counts, expected = np.asarray(counts, dtype=float), np.asarray(shares, dtype=float)
    expected = expected * counts.sum()
    common = expected >= 5  # the rest is pooled, as the test's approximation asks
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], max(expected[~common].sum(), 0.0))
    kept = expected > 1e-9
    if observed[~kept].sum():
        return False
    statistic = ((observed[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    return bool(statistic < chi2.isf(FALSE_ALARM, max(kept.sum() - 1, 1)))


def _draws() -> Iterator[str]:
    for number, family in enumerate(FAMILIES):
        for epsilon, sensitivity in ((Fraction(1, 2), 1), (Fraction(5, 2), 2)):
            rate = float(epsilon) / (2 * sensitivity)
            ledger = Ledger(PLENTY, random_state=number)
            counts: dict[Any, int] = {path: 0 for path, _, _ in family.members()}
            for _ in range(ALL_DRAWS):
                counts[ledger.draw(family, Draw(epsilon), sensitivity, **SAID)] += 1
            log_prior = [math.log(prior) for _, _, prior in family.members()]
            errors = np.array([member_errors(family, path) for path in counts])
            shares = np.exp(log_prior - rate * errors - log_partition_function(family, rate))
            if not fits(list(counts.values()), shares):
                yield f"members of a {type(family).__name__} are not drawn as their errors say"


def _noise(kind: type[Pure | Gaussian]) -> Iterator[str]:
    gaussian = kind is Gaussian
    delta = Fraction(gaussian, 2)
    for spread in (Fraction(1, 3), Fraction(2), Fraction(35)):
        paid = kind(1 / spread)
        ledger = Ledger(PLENTY, delta, random_state=1)
        table = np.zeros(MANY, dtype=np.int64)
        some, more = (ledger.add_noise(table, UNIT, paid, **SAID).values for _ in range(2))
        reach = int(12 * (math.sqrt(spread) if gaussian else spread)) + 12
        places = np.arange(-reach, reach + 1)
        if gaussian:
            edges = np.append(places, reach + 1) - 0.5
            shares = np.diff(ndtr(edges / math.sqrt(spread)))
        else:
            shares = math.tanh(1 / (2 * float(spread))) * np.exp(-np.abs(places) / float(spread))
        counts = np.bincount(np.clip(some, -reach, reach) + reach, minlength=len(places))
        if not fits(counts, shares):
            yield f"noise of spread {spread} is not distributed as it should be"
        if spread > 1:
            pairs = ((some[1:], some[:-1]), (some, more), (np.abs(some), np.abs(more)))
            for one, other in pairs:
                if abs(np.corrcoef(one, other)[0, 1]) * math.sqrt(len(one)) > 6:
                    yield f"noise of spread {spread} is not independent"
    wide = kind(Fraction(1, 1 << (40 if gaussian else 20)))
    ledger = Ledger(PLENTY, delta, random_state=2)
    noisy = ledger.add_noise(np.zeros(MANY, dtype=np.int64), UNIT, wide, **SAID).values
    if not fits(np.bincount(noisy & 15, minlength=16), np.full(16, 1 / 16)):
        yield "the last digits of large noise are not even"
    lines = ledger.add_noise(np.zeros((2, 9), dtype=np.int64), UNIT, wide, **SAID).values
    if len(np.unique(lines)) < lines.size:  # by chance less than once in a million times
        yield "noise on lines of a table is not independent"
    exact = np.arange(12, dtype=np.int64).reshape(3, 4) * 10**6
    noisy = ledger.add_noise(exact, UNIT, kind(Fraction(1, 4)), **SAID).values
    if noisy.shape != exact.shape or np.abs(noisy - exact).max() > 1000:
        yield "noise is not added to the integers it is for"
    if (noisy == exact).all():
        yield "no noise is added"


def _choices() -> Iterator[str]:
    ledger = Ledger(1, random_state=3)
    ways: dict[str, tuple[Callable[[], Any], list[Any]]] = {
        "subsets": (lambda: ledger.subset(5, 2), list(itertools.combinations(range(5), 2))),
        "orders": (lambda: ledger.order(3), list(itertools.permutations(range(3)))),
        "positions": (lambda: ledger.indices(3, 2), list(itertools.product(range(3), repeat=2))),
        "integers": (lambda: [ledger.uniform_below(5)], [(value,) for value in range(5)]),
    }
    for name, (choose, listed) in ways.items():
        counts = dict.fromkeys(listed, 0)
        for _ in range(ALL_DRAWS):
            chosen = tuple(int(place) for place in choose())
            if chosen not in counts:
                yield f"{name} are not what they should be"
                break
            counts[chosen] += 1
        if not fits(list(counts.values()), np.full(len(listed), 1 / len(listed))):
            yield f"{name} are not equally likely"


def _bits() -> Iterator[str]:
    asked: list[int] = []
    token, bits = secrets.token_bytes, secrets.randbits

    def token_bytes(count: int) -> bytes:
        asked.append(8 * count)
        return token(count)

    def randbits(count: int) -> int:
        asked.append(count)
        return bits(count)

    with replaced(secrets, "token_bytes", token_bytes), replaced(secrets, "randbits", randbits):
        source = random_bits(None)
        words = source.words(MANY)
        numbers = [source.bits(20) for _ in range(500)]
        ledger = Ledger(1)
        ledger.uniform_below(1 << 40)
    if sum(asked) < 64 * MANY + 20 * 500 + 40:
        yield "random bits do not come from the operating system"
    if not (source.secure and ledger.secure):
        yield "the operating system's randomness is not said to be secure"
    for values, width in ((words, 64), (np.array(numbers, dtype=np.uint64), 20)):
        ones = sum(
            int(((values >> np.uint64(place)) & np.uint64(1)).sum()) for place in range(width)
        )
        total = width * len(values)
        if abs(ones - total / 2) > 3.5 * math.sqrt(total):  # 7 standard deviations
            yield "random bits are not fair"
    for state in (5, np.random.default_rng(5), np.random.RandomState(5)):
        if random_bits(state).secure or Ledger(1, random_state=state).secure:
            yield "seeded randomness is said to be secure"
    parts = Ledger(PLENTY, random_state=4).split(2)
    drawn = [
        part.uniform_below(1 << 60)
        for part in (*parts, parts[0].sub_ledger(Pure(Fraction(1)), **SAID))
    ]
    if len(set(drawn)) < 3:
        yield "parts of a ledger share their randomness"


def _budgets() -> Iterator[str]:
    mixed: list[tuple[Event | None, Fraction]] = [(Draw(Fraction(1, 5)), NO), (None, SMALL)] * 30
    parted: list[tuple[Event | None, Fraction]]
    parted = [*[(Pure(Fraction(1, 4)), NO)] * 12, *[(None, SMALL)] * 20]
    for accountant, order in itertools.product(("pure", "auto", "gdp", "zcdp"), (mixed, parted)):
        budget = PrivacyBudget(2, DELTA, accountant=accountant, for_tests=True)
        done: list[Event] = []
        for number, (event, delta) in enumerate(order):
            copies = (lambda b: b, copy.deepcopy, clone, lambda b: pickle.loads(pickle.dumps(b)))
            with contextlib.suppress(PrivacyBudgetError):
                done.append(_fit(copies[number % 4](budget), event, delta, number))
        if len(done) != len(budget.ledger):
            yield f"{accountant}: not every fit has its entry"
        for losses in smallest_losses(Steps(tuple(done)), pure=False):
            if losses.delta(2.0) > float(DELTA) * 1.02:
                yield f"{accountant}: fits cost more than the budget"
        if len(done) < 5:
            yield f"{accountant}: nothing is left too soon"
        if budget.spent().epsilon > 2 or budget.spent().delta > float(DELTA):
            yield f"{accountant}: more is spent than there was"
    # half of it for everybody, the rest for each group
    budget = PrivacyBudget(1, for_tests=True)
    for part, allowed in ((budget, True), (budget.group("a"), True), (budget.group("a"), False),
                          (budget.group("b"), True), (budget, False)):  # fmt: skip
        try:
            _fit(part, Pure(Fraction(1, 2)), NO, 0)
        except PrivacyBudgetError:
            if allowed:
                yield "a group has less than everybody's fits leave"
        else:
            if not allowed:
                yield "a group has more than everybody's fits leave"
    budget = PrivacyBudget(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRandomnessWarning)
            for part in (budget.group("a"), budget.group("b")):
                _fit(part, Pure(Fraction(1, 4)), NO, 0)
    except PrivacyBudgetError:
        return
    yield "two fits may have the same noise"


def _fit(budget: PrivacyBudget, event: Event | None, delta: Fraction, number: int) -> Event:
    """Spend an event, or Gaussian noise of ε = 1/3, and return it."""
    epsilon = Fraction(1, 3) if event is None else basic_price(event)[0]
    ledger = Ledger(epsilon, delta, number, budget)
    event = event or ledger.event
    if isinstance(event, Draw):
        ledger.plan(event)
        ledger.draw(FAMILIES[0], event, 1, **SAID)
    else:
        ledger.add_noise(np.zeros(2, dtype=np.int64), UNIT, event, **SAID)
    return event
