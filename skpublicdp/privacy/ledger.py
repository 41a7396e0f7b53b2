"""Privacy ledger of one fit, the only way by which private answers leave an estimator.

A ledger holds a plan: an event that is fixed in advance and costs at most the (ε, δ) of the fit.
Each draw and each noisy release is recorded before it is sampled, and refused if the rest of the
plan does not cover it. With a budget, the whole plan is charged at the first of them. Proofs:
docs/proofs/budgets.md.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Mapping
from fractions import Fraction
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.accounting import (
    REPLACE_ONE,
    Approximate,
    Draw,
    Either,
    Event,
    Gaussian,
    Mechanism,
    PrivacyReceipt,
    Pure,
    Steps,
    basic_price,
    exact_fraction,
    gaussian_epsilon,
    mu_squared_price,
    plan_delta,
)
from skpublicdp.accounting.cap import BudgetCap
from skpublicdp.accounting.events import NO_EVENT, remaining_plans
from skpublicdp.accounting.measurements import Measurement, Sensitivity, noise_scale
from skpublicdp.accounting.rounding import written_above
from skpublicdp.exceptions import (
    LargeDeltaWarning,
    LargeEpsilonWarning,
    PrivacyBudgetError,
    SeededRandomnessWarning,
    warn,
)
from skpublicdp.mechanisms.discrete_laplace import LARGEST_SCALE, discrete_laplace
from skpublicdp.mechanisms.exponential import draw
from skpublicdp.mechanisms.families import Family, Path
from skpublicdp.mechanisms.randomness import RandomBits, random_bits, uniform_below
from skpublicdp.mechanisms.rounded_gaussian import rounded_gaussian
from skpublicdp.mechanisms.subsets import random_indices, random_order, random_subset
from skpublicdp.privacy.budget import USED_TICKET, PrivacyBudget
from skpublicdp.typing import Integers

LARGE_DELTA = 0.1
"""Largest δ · n_private without a warning."""

LARGE_EPSILON = 10
"""Largest ε of a pure guarantee without a warning.

At ε = 10, an attacker who knows all other rows and considers two values of the last one equally
likely is right with probability at most 1 / (1 + e^-10) = 99.995%. A larger ε is tier 3 of
Ponomareva et al. (2023), How to DP-fy ML. The same probability is the limit for plans with δ > 0.
"""

SEEDED_FIT = (
    "{} is charged to a budget and its noise comes from a random_state (its own, that of a part of "
    "it, or one that an ensemble such as BaggingClassifier sets): whoever has or guesses the seed "
    "can remove the noise, and so can two fits with the same seed. Use random_state=None and no "
    "such ensemble; for tests without private data there is PrivacyBudget(..., for_tests=True)."
)


class _ReceiptLine(NamedTuple):
    """Line of a receipt. The lines of a sub-ledger, if there are any, replace it."""

    name: str
    event: Event
    proof: str
    sub_lines: list[_ReceiptLine]

    @property
    def shown(self) -> list[_ReceiptLine]:
        return self.sub_lines or [self]


def noise_is_representable(event: Event, sensitivity: Sensitivity) -> bool:
    """Return whether the samplers support the noise that an event pays for."""
    max_scale = LARGEST_SCALE if isinstance(event, Pure) else LARGEST_SCALE**2
    return noise_scale(event, sensitivity)[0] <= max_scale


drawable = noise_is_representable
"""Former name of `noise_is_representable`."""


def new_ticket() -> str:
    """Return a one-time token, good for one fit in this process or with one budget."""
    return f"{os.getpid()}-{secrets.token_hex(16)}"


_REDEEMED_TICKETS: set[str] = set()
_REDEMPTION_LOCK = Lock()


def redeem_ticket(ticket: str) -> None:
    """Mark a ticket as used, or raise if it was used or made in another process.

    A fit that is charged to a budget has its ticket checked by the file of the budget instead.
    """
    with _REDEMPTION_LOCK:
        if ticket in _REDEEMED_TICKETS or not ticket.startswith(f"{os.getpid()}-"):
            raise PrivacyBudgetError(USED_TICKET)
        _REDEEMED_TICKETS.add(ticket)


class Ledger:
    """Plan, spending and receipt of one fit.

    Parameters
    ----------
    epsilon, delta : number
        Guarantee of the fit, read as exact fractions.
    random_state : None, int, numpy Generator or RandomState
        Source of randomness, as in the estimators.
    budget : PrivacyBudget, optional
        Budget that the fit is charged to. A budget that cannot pay raises here, before a private
        row is read.
    event : Event, optional
        The plan. By default any (ε, 0)-differentially private event or, with δ > 0, any event of
        at most the μ² that corresponds to (ε, δ).
    who : str
        Name of the fit in the budget.
    rows_per_person : int
        Maximum number of rows of one person. Each event is priced for replacing all of them.
    ticket : str, optional
        One-time token of a fit that must not be repeated; see `new_ticket`.
    seeded_parts : bool
        Whether a base learner or sanitizer, which samples by itself, has its own seed.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot pay, or has already paid for a seeded fit.

    Warns
    -----
    SeededRandomnessWarning
        If the fit or a part of it is seeded and charged to a budget that is not for tests.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Pure
    >>> ledger = Ledger(1, random_state=0)
    >>> half = Pure(Fraction(1, 2))
    >>> counts = np.array([40, 2])
    >>> noisy = ledger.add_noise(counts, Sensitivity(2, 2), half, name="counts", proof="noise.md")
    >>> noisy.values.shape, round(noisy.variance, 1)
    ((2,), 31.8)
    >>> ledger.receipt().mechanisms[0].epsilon
    0.5
    """

    def __init__(
        self,
        epsilon: Any,
        delta: Any = 0,
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
        *,
        event: Event | None = None,
        who: str = "",
        rows_per_person: int | None = None,
        ticket: str | None = None,
        seeded_parts: bool = False,
    ) -> None:
        self.epsilon, self.delta = exact_fraction(epsilon), exact_fraction(delta)
        self.rows_per_person = rows_per_person or 1
        self.n_private = self.n_public = 0
        self._grouped = rows_per_person is not None
        self._bits: RandomBits = random_bits(random_state)
        self._budget, self._who, self._ticket = budget, who, ticket
        self._seeded = seeded_parts or not self.secure
        self._entry: int | None = None
        self._lines: list[_ReceiptLine] = []
        self._spent = self._paid = False
        self._parts: tuple[Ledger, ...] = ()
        self._remaining: Event | None = NO_EVENT
        self._cap = BudgetCap(
            self.epsilon, self.delta, "pure" if budget is None else budget.accountant
        )
        self._root, self._plan = self, event or self._cap.default_plan()
        if budget is not None:
            budget.check(self._charge(), seeded=self._seeded)
            if self._seeded and not budget.for_tests:
                warn(SEEDED_FIT.format(who or "This fit"), SeededRandomnessWarning)
        self.plan(self._plan)

    @classmethod
    def of(cls, estimator: Any, *, event: Event | None = None, **settings: Any) -> Ledger:
        """Return the ledger of a fit, with the parameters of its estimator.

        `settings` are further arguments of `Ledger`. They override those of the estimator.
        """
        parameters = {
            "epsilon": estimator.epsilon,
            "delta": getattr(estimator, "delta", 0),
            "random_state": estimator.random_state,
            "budget": estimator.budget,
            "rows_per_person": getattr(estimator, "max_rows_per_group", None),
            "seeded_parts": any(map(has_seed, estimator.get_params(deep=False).values())),
        }
        return cls(event=event, who=type(estimator).__name__, **parameters | settings)

    @property
    def secure(self) -> bool:
        """Whether the randomness comes from the operating system's secure generator."""
        return self._bits.secure

    @property
    def event(self) -> Event:
        """The plan."""
        return self._plan

    def read(self, n_private: int, n_public: int = 0) -> None:
        """Record the numbers of rows, and warn if δ is large for the number of private rows."""
        self.n_private, self.n_public = n_private, n_public
        if self.delta * n_private > LARGE_DELTA:
            warn(
                f"delta = {float(self.delta):g} is large for {n_private} private rows: it should "
                "be far below one over their number; lower delta.",
                LargeDeltaWarning,
            )

    def _warn_if_large(self) -> None:
        """Warn if an attacker may identify a row almost always under the plan of the fit."""
        advantage = math.tanh(LARGE_EPSILON / 2)  # 2 · success rate - 1, for equally likely rows
        if self.epsilon <= LARGE_EPSILON and self.delta <= LARGE_DELTA:
            return  # the guarantee alone implies it
        if plan_delta(self._plan, Fraction(0)) > advantage:
            warn(
                f"epsilon = {float(self.epsilon):g} protects almost nothing: an attacker who "
                "knows all other rows and considers two values of the last one equally likely may "
                "be right more than 99.99% of the time; lower epsilon, as about 1 is usual.",
                LargeEpsilonWarning,
            )

    def fits(self, event: Event) -> bool:
        """Return whether a plan costs at most (ε, δ), in the currency of the budget if any."""
        return self._cap.admits(event)

    def plan(self, event: Event) -> None:
        """Set the plan, which the budget is charged and the receipt reports."""
        if self._spent or self._parts:
            raise RuntimeError(
                "plan() must be called before the ledger spends anything or is split."
            )
        is_root = self._root is self
        if is_root:
            fits = self.fits(event)
        else:  # a part or a sub-ledger may plan less than it holds
            fits = self._remaining is None or any(
                True for _ in remaining_plans(self._remaining, event)
            )
        if not fits:
            raise PrivacyBudgetError(
                f"A plan must cost no more than epsilon = {float(self.epsilon):g} and delta = "
                f"{float(self.delta):g} do in the currency of the budget."
            )
        if is_root:
            self._plan = event
        if is_root or self._remaining is not None:
            self._remaining = event

    def take_option(self, option: Event) -> None:
        """Commit to one option of the plan's next `Either`, before the first event of the option.

        A choice that depended on the result of that event would cost more.
        """
        match self._remaining:
            case Either(options) if option in options:
                self._remaining = option
            case Steps((Either(options), *later)) if option in options:
                self._remaining = Steps((option, *later))
            case _:
                raise RuntimeError("option must be one of those that the plan has next.")

    def calibrate(self, make_plan: Callable[[Fraction], Event]) -> Fraction:
        """Return the largest scale at which ``make_plan(scale)`` costs at most (ε, δ).

        The cost of the plan must increase with the scale.
        """
        return self._cap.calibrate(make_plan)

    def equal_draws(self, count: int) -> Fraction:
        """Return the largest ε that each of `count` draws may have."""
        return self._cap.equal_draws(count)

    def draw(self, family: Family, event: Draw, sensitivity: int, *, name: str, proof: str) -> Path:
        """Draw a member of a family by the exponential mechanism, exactly.

        Parameters
        ----------
        family : Family
            Members with their error counts. Only the error counts may depend on private rows.
        event : Draw
            Price of the draw.
        sensitivity : int
            Largest change of an error count when one row is replaced.
        name, proof : str
            Name and reference in the receipt.

        Returns
        -------
        Path
            Path of the member in the family.
        """
        self._enter(event, name, proof)
        return self._sample_member(family, event.epsilon, sensitivity * self.rows_per_person)

    def add_noise(
        self, table: Integers, sensitivity: Sensitivity, event: Event, *, name: str, proof: str
    ) -> Measurement:
        """Add exactly sampled noise to integers: rounded Gaussian or discrete Laplace.

        Parameters
        ----------
        table : ndarray of int64
            Exact integers, of any shape.
        sensitivity : Sensitivity
            Largest change of the whole table when one row is replaced.
        event : Gaussian or Pure
            Price of the release, which also decides the kind of noise.
        name, proof : str
            Name and reference in the receipt.

        Returns
        -------
        Measurement
            Noisy integers of the same shape.
        """
        if table.dtype != np.int64:
            raise TypeError("table must be of int64, since noise is exact on integers.")
        scale, variance = noise_scale(event, self.for_person(sensitivity))
        self._enter(event, name, proof)
        noise = self._sample_noise(event, scale, table)
        return Measurement(table + noise, scale, variance)

    def for_person(self, sensitivity: Sensitivity) -> Sensitivity:
        """Return the sensitivity for replacing all rows of a person.

        In the worst case all changes add up in the same integer.
        """
        k = self.rows_per_person
        return Sensitivity(k * sensitivity.absolute, k * k * sensitivity.squared)

    def per_row(
        self, epsilon: Fraction, delta: Fraction = Fraction(0)
    ) -> tuple[Fraction, Fraction]:
        """Return the row-level (ε, δ) of a mechanism that implies the given one for persons.

        It is group privacy for `rows_per_person` rows, inverted.

        References
        ----------
        Dwork and Roth (2014), Theorem 2.2; with δ, docs/proofs/budgets.md.
        """
        k = self.rows_per_person
        if k == 1:
            return epsilon, delta
        # δ_person <= k e^ε δ_row, as e^ε bounds each of the k factors
        return epsilon / k, delta / k * Fraction(math.exp(-float(epsilon)) * (1 - 2**-40))

    def subset(self, n: int, k: int) -> NDArray[np.intp]:
        """Return k of n positions in increasing order, each set equally likely."""
        return random_subset(n, k, self._bits)

    def order(self, n: int) -> NDArray[np.intp]:
        """Return a uniformly random permutation of n positions."""
        return random_order(n, self._bits)

    def indices(self, n: int, k: int) -> NDArray[np.intp]:
        """Return k positions below n, uniform and with replacement."""
        return random_indices(n, k, self._bits)

    def uniform_below(self, bound: int) -> int:
        """Return a uniform integer below a public bound."""
        return uniform_below(bound, self._bits)

    def seed(self, count: int = 31) -> int | None:
        """Return a seed for the randomness of foreign code, or None if this one has no seed."""
        return None if self.secure else self._bits.bits(count)

    def split(self, n_parts: int) -> tuple[Ledger, ...]:
        """Return one ledger for each of `n_parts` disjoint sets of rows (parallel composition).

        Each of them holds the whole plan, and this ledger can spend nothing more. The set of each
        row and the sizes of the sets must be public.
        """
        if self._spent or self._parts:
            raise RuntimeError("split() must be called once, before the ledger spends anything.")
        parts = []
        for _ in range(n_parts):
            part = object.__new__(type(self))
            part.__dict__.update(self.__dict__, _lines=[], _parts=(), _root=self._root)
            parts.append(part)
        self._parts, self._remaining = tuple(parts), NO_EVENT
        return self._parts

    def sub_ledger(
        self, event: Event, *, name: str, proof: str, by_theorem: bool = False
    ) -> Ledger:
        """Charge a stage, base learner or sanitizer as a whole, and return a ledger for it.

        Parameters
        ----------
        event : Event
            Price of the whole stage.
        name, proof : str
            Name and reference in the receipt.
        by_theorem : bool, default=False
            Whether a theorem bounds the cost of all draws of the stage by `event`. They are not
            added up then.

        Returns
        -------
        Ledger
            Ledger with the plan `event`. Its annotations replace this line in the receipt.
        """
        sub_ledger = object.__new__(type(self))
        sub_ledger.__dict__.update(
            self.__dict__,
            _lines=[],
            _parts=(),
            _plan=event,
            _remaining=event,
            _paid=True,
            _spent=False,
        )
        if by_theorem:
            sub_ledger._remaining = None
        self._enter(event, name, proof, sub_ledger._lines)
        return sub_ledger

    def annotate(self, name: str, event: Event, proof: str) -> None:
        """Add a line to the receipt for a stage that a theorem or another line pays for."""
        self._lines.append(_ReceiptLine(name, event, proof, []))

    child, note, choose, scale = sub_ledger, annotate, take_option, calibrate
    """Former names."""

    def receipt(self, *, assumptions: tuple[str, ...] = (), secure: bool = True) -> PrivacyReceipt:
        """Return the receipt of everything that was spent.

        Parameters
        ----------
        assumptions : tuple of str
            Facts that are assumed to be public.
        secure : bool, default=True
            False if the randomness of foreign code was seeded.

        Returns
        -------
        PrivacyReceipt
            The receipt.
        """
        ledgers, spent = self._parts or (self,), self._spent
        budget = self._root._budget
        unit = REPLACE_ONE
        if self._grouped:
            unit = f"replace one person, up to {self.rows_per_person} private rows"
            assumptions += ("it may be known which rows are one person's",)
        lines = (shown for ledger in ledgers for line in ledger._lines for shown in line.shown)
        return PrivacyReceipt(
            epsilon=written_above(self.epsilon) if spent else 0.0,
            delta=written_above(self.delta) if spent else 0.0,
            unit=unit,
            n_private=self.n_private,
            n_public=self.n_public,
            mechanisms=tuple(map(self._mechanism, lines)),
            secure_randomness=self.secure and secure,
            assumptions=assumptions,
            event=self._plan if spent else NO_EVENT,
            entry=self._root._entry,
            for_tests=bool(spent and budget and budget.for_tests),
        )

    def _mechanism(self, line: _ReceiptLine) -> Mechanism:
        event = line.event
        epsilon, delta = basic_price(event)
        if isinstance(event, Gaussian):
            event_epsilon = gaussian_epsilon(event.mu_squared, self.delta)
            epsilon, delta = min(event_epsilon, float(self.epsilon)), self.delta
        return Mechanism(line.name, float(epsilon), float(delta), line.proof, event)

    def _enter(
        self, event: Event, name: str, proof: str, sub_lines: list[_ReceiptLine] | None = None
    ) -> None:
        """Record an event before it is sampled, or raise if the rest of the plan excludes it."""
        if self._remaining is None:  # a theorem pays for it
            return
        # one of the remaining plans is taken now: the δ of a plan covers no later choice of them
        remaining = list(remaining_plans(self._remaining, event))
        if not remaining:
            raise PrivacyBudgetError(f"{name}: it costs more than the plan of this fit has left.")
        root = self._root
        if not root._spent:
            root._warn_if_large()
        if root._budget is not None and root._entry is None:
            root._entry = root._budget.spend(
                self._charge(),
                who=self._who,
                n_rows=self.n_private,
                ticket=self._ticket,
                seeded=self._seeded,
            )
        elif self._ticket is not None and not root._spent:
            redeem_ticket(self._ticket)
        root._spent = self._spent = True
        self._remaining = (
            remaining[0] if len(remaining) == 1 else max(remaining, key=mu_squared_price)
        )
        if not self._paid:
            self._lines.append(
                _ReceiptLine(name, event, proof, [] if sub_lines is None else sub_lines)
            )

    def _charge(self) -> Event:
        """Return the event that the budget is charged."""
        assert self._root._budget is not None
        if self.delta and self._root._budget.accountant == "pure":
            return Approximate(self.epsilon, self.delta)
        return self._root._plan

    # the samplers, which tests and audits replace

    def _sample_member(self, family: Family, epsilon: Fraction, sensitivity: int) -> Path:
        return draw(family, epsilon, sensitivity, self._bits)

    def _sample_noise(self, event: Event, scale: Fraction, table: Integers) -> Integers:
        sampler = rounded_gaussian if isinstance(event, Gaussian) else discrete_laplace
        return sampler(scale, table.size, self._bits).reshape(table.shape)


def has_seed(parameter: Any) -> bool:
    """Indicate whether a private learner or sanitizer, or one in a list, has a `random_state`.

    A seed of another name, and one that is no parameter, cannot be seen.
    """
    if isinstance(parameter, Mapping):
        return any(map(has_seed, parameter.values()))
    if isinstance(parameter, list | tuple):
        return any(map(has_seed, parameter))
    if not hasattr(parameter, "get_params") or isinstance(parameter, type):
        return False
    parameters = parameter.get_params(deep=False)
    seeded = "epsilon" in parameters and parameters.get("random_state") is not None
    return seeded or any(map(has_seed, parameters.values()))


def public_seed(random_state: Any) -> int:
    """Return a seed for sampling that spends no privacy, such as synthetic rows."""
    return random_bits(random_state).bits(128)
