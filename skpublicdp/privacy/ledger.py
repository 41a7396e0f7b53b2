"""Privacy ledger of a single fit, through which an estimator releases all private answers.

Each ledger has a plan: an event that is fixed in advance and costs at most the (ε, δ) of the fit.
Every draw and every noisy release is recorded before it is sampled, and is refused if the remaining
plan does not cover its cost. If there is a budget, the first event charges the entire plan to it.
Proofs: docs/proofs/budgets.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.progress import report
from skpublicdp.accounting import (
    REPLACE_ONE,
    Approximate,
    Draw,
    Either,
    Event,
    Gaussian,
    Mechanism,
    Noise,
    PrivacyReceipt,
    Pure,
    Sensitivity,
    Steps,
    basic_price,
    exact_fraction,
    gaussian_epsilon,
    mu_squared_price,
    plan_delta,
)
from skpublicdp.accounting.cap import BudgetCap
from skpublicdp.accounting.events import NO_EVENT, remaining_plans
from skpublicdp.accounting.measurements import Measurement, noise_scale
from skpublicdp.accounting.receipts import unit_of_persons
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
from skpublicdp.privacy.budget import SEEDED_FIT, PrivacyBudget, has_seed
from skpublicdp.privacy.ticket import redeem_ticket
from skpublicdp.typing import Integers

LARGE_DELTA = 0.1
"""Largest product δ · n_private for which no warning is issued."""

LARGE_EPSILON = 10
"""Largest ε of a pure guarantee for which no warning is issued.

At ε = 10, an attacker who knows all other rows and considers two values of the remaining row
equally likely is right with probability at most 1 / (1 + e^-10) = 99.995%. A larger ε falls into
tier 3 of Ponomareva et al. (2023), How to DP-fy ML. Plans with δ > 0 are judged by the same success
probability.
"""


def noise_is_representable(event: Event, sensitivity: Sensitivity) -> bool:
    """Indicate whether the samplers support the noise scale of a `Gaussian` or `Pure` event."""
    # the scale of Laplace noise is its parameter b, the scale of Gaussian noise is σ²
    if isinstance(event, Pure) and sensitivity.absolute > LARGEST_SCALE * event.epsilon:
        return False  # also covers an ε for which the variance would overflow
    max_scale = LARGEST_SCALE if isinstance(event, Pure) else LARGEST_SCALE**2
    return noise_scale(event, sensitivity)[0] <= max_scale


class ReceiptLine(NamedTuple):
    """An event recorded by a ledger, with the name and the reference of the mechanism."""

    name: str  # name of the mechanism
    event: Event  # the recorded event, which determines the privacy cost
    proof: str  # reference to the privacy proof
    # Lines of the sub-ledger whose cost is covered by this event. In the receipt, these lines
    # replace the line of the event.
    sub_lines: list[ReceiptLine]

    def to_mechanism(self, max_epsilon: Fraction, delta: Fraction) -> Mechanism:
        """Return the mechanism for the receipt, with the privacy cost (ε, δ) of a single use.

        Gaussian noise has a finite ε only if δ is positive. The ε is computed for the δ of the fit,
        and is at most the ε of the fit.
        """
        mechanism_epsilon, mechanism_delta = basic_price(self.event)
        if isinstance(self.event, Gaussian):
            event_epsilon = gaussian_epsilon(self.event.mu_squared, delta)
            mechanism_epsilon, mechanism_delta = min(event_epsilon, float(max_epsilon)), delta
        return Mechanism(
            self.name, float(mechanism_epsilon), float(mechanism_delta), self.proof, self.event
        )


class Ledger:
    """Ledger of one fit, which enforces the plan, samples all noise and writes the receipt.

    Parameters
    ----------
    epsilon, delta : number
        Privacy guarantee of the fit, read as exact fractions.
    random_state : None, int, numpy Generator or RandomState
        Source of randomness, as in the estimators.
    budget : PrivacyBudget, optional
        Budget to which the fit is charged. If it cannot cover the plan, an error is raised here,
        before any private row is read.
    event : Event, optional
        The plan. The default admits any ε-differentially private event if δ is 0, and otherwise any
        events whose total μ² implies (ε, δ).
    who : str
        Name of the fit, as recorded in the entries of the budget.
    rows_per_person : int
        Maximum number of rows per person. Each event is priced for replacing all of a person's
        rows.
    ticket : str, optional
        One-time token for a fit that must not be repeated; see `ticket.new_ticket`.
    seeded_parts : bool
        Whether a base learner or sanitizer that draws its own random numbers is seeded.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot cover the plan, or has already admitted a seeded fit.

    Warns
    -----
    SeededRandomnessWarning
        If the fit, or a nested estimator, is seeded and charged to a budget that is not for tests.

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
        self.n_private = self.n_public = self.n_omitted = 0
        self._grouped = rows_per_person is not None
        self._bits: RandomBits = random_bits(random_state)
        self._budget, self._who, self._ticket = budget, who, ticket
        self._seeded = seeded_parts or not self.secure
        self._entry: int | None = None
        self._lines: list[ReceiptLine] = []
        # whether an event was recorded; whether the parent's receipt line covers all events
        self._spent = self._is_prepaid = False
        self._parallel: tuple[Ledger, ...] = ()  # result of `split`
        # remaining plan; None if a theorem bounds the total cost, so that no costs are added up
        self._remaining: Event | None = NO_EVENT
        self._cap = BudgetCap(
            self.epsilon, self.delta, "pure" if budget is None else budget.accountant
        )
        self._root, self._plan = self, event or self._cap.default_plan()
        if budget is not None:
            budget.check(self._charged_event(), seeded=self._seeded)
            if self._seeded and not budget.for_tests:
                warn(SEEDED_FIT.format(who or "This fit"), SeededRandomnessWarning)
        self.plan(self._plan)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, event: Event | None = None, **settings: Any
    ) -> Ledger:
        """Return a ledger for one fit of an estimator, using the estimator's privacy parameters.

        `settings` contains further arguments of `Ledger`, which override the estimator's
        parameters.
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
        """The plan, i.e. the event that is charged to the budget."""
        return self._plan

    @property
    def noise(self) -> Noise:
        """A single noise event that spends the entire plan: Gaussian, or Laplace if δ = 0."""
        assert isinstance(self._plan, Noise)
        return self._plan

    def read(self, n_private: int, n_public: int = 0) -> None:
        """Record the numbers of rows, and warn if δ is too large for the number of private rows."""
        self.n_private, self.n_public = n_private, n_public
        warn_if_delta_is_large(self.delta, n_private)

    def fits(self, event: Event) -> bool:
        """Indicate whether a plan costs at most (ε, δ) according to the accountant in use."""
        return self._cap.admits(event)

    def plan(self, event: Event) -> None:
        """Set the plan before the first event, which will charge it to the budget.

        A sub-ledger, or a ledger made by `split`, may replace the plan assigned to it by any plan
        that costs no more.
        """
        if self._spent or self._parallel:
            raise RuntimeError(
                "plan() must be called before the ledger spends anything or is split."
            )
        is_root = self._root is self
        if is_root:
            fits = self.fits(event)
        else:  # a parallel ledger or a sub-ledger may plan less than its assigned plan
            fits = self._remaining is None or bool(list(remaining_plans(self._remaining, event)))
        if not fits:
            raise PrivacyBudgetError(
                f"A plan must not cost more than epsilon = {float(self.epsilon):g} and delta = "
                f"{float(self.delta):g}, as computed by the budget's accountant."
            )
        if is_root:
            self._plan = event
        if is_root or self._remaining is not None:
            self._remaining = event

    def take_option(self, option: Event) -> None:
        """Commit to one option of the plan's next `Either`, before the first event of the option.

        The choice must not depend on the result of that event.
        """
        match self._remaining:
            case Either(options) if option in options:
                self._remaining = option
            case Steps((Either(options), *later)) if option in options:
                self._remaining = Steps((option, *later))
            case _:
                raise RuntimeError("option must be one of the options of the plan's next Either.")

    def calibrate(self, make_plan: Callable[[Fraction], Event]) -> Fraction:
        """Return the largest scale for which ``make_plan(scale)`` costs at most (ε, δ).

        The cost of the plan must be an increasing function of the scale.
        """
        return self._cap.calibrate(make_plan)

    def equal_draws(self, count: int) -> Fraction:
        """Return the largest ε per draw for which `count` draws together cost at most (ε, δ)."""
        return self._cap.equal_draws(count)

    def draw(self, family: Family, event: Draw, sensitivity: int, *, name: str, proof: str) -> Path:
        """Draw a member exactly by the exponential mechanism, and return its path."""
        self._enter(event, name, proof)
        return self._sample_member(family, event.epsilon, sensitivity * self.rows_per_person)

    def add_noise(
        self, table: Integers, sensitivity: Sensitivity, event: Event, *, name: str, proof: str
    ) -> Measurement:
        """Release integer statistics with rounded Gaussian or discrete Laplace noise."""
        if table.dtype != np.int64:
            raise TypeError("table must have dtype int64, because noise is exact only on integers.")
        scale, variance = noise_scale(event, self.for_person(sensitivity))
        self._enter(event, name, proof)
        noise = self._sample_noise(event, scale, table)
        return Measurement(table + noise, scale, variance)

    def for_person(self, sensitivity: Sensitivity) -> Sensitivity:
        """Return the sensitivity to replacing all rows of a person.

        In the worst case, the changes due to these rows all affect the same integer and add up.
        """
        n_rows = self.rows_per_person
        return Sensitivity(n_rows * sensitivity.absolute, n_rows * n_rows * sensitivity.squared)

    def per_row(
        self, epsilon: Fraction, delta: Fraction = Fraction(0)
    ) -> tuple[Fraction, Fraction]:
        """Return a row-level (ε, δ) that implies the given person-level (ε, δ).

        References
        ----------
        Dwork and Roth (2014), Theorem 2.2; with δ, docs/proofs/budgets.md.
        """
        n_rows = self.rows_per_person
        if n_rows == 1:
            return epsilon, delta
        # δ_person <= n_rows e^ε δ_row, since e^ε bounds each of the n_rows factors. The last factor
        # covers the rounding error of exp, so that δ is rounded down
        return epsilon / n_rows, delta / n_rows * Fraction(math.exp(-float(epsilon)) * (1 - 2**-40))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A ledger cannot be pickled or copied, because it draws the noise of its process."
        )

    def subset(self, n: int, k: int) -> NDArray[np.intp]:
        """Return k of n positions in increasing order, chosen uniformly at random."""
        return random_subset(n, k, self._bits)

    def order(self, n: int) -> NDArray[np.intp]:
        """Return a uniformly random permutation of n positions."""
        return random_order(n, self._bits)

    def indices(self, n: int, k: int) -> NDArray[np.intp]:
        """Return k independent, uniform random integers below n (i.e. with replacement)."""
        return random_indices(n, k, self._bits)

    def uniform_below(self, bound: int) -> int:
        """Return a uniform random integer below a public bound."""
        return uniform_below(bound, self._bits)

    def seed(self, count: int = 31) -> int | None:
        """Return a seed of `count` bits for external samplers, or None in unseeded fits."""
        return None if self.secure else self._bits.bits(count)

    def split(self, n_parts: int) -> tuple[Ledger, ...]:
        """Split the ledger into one for each of `n_parts` disjoint sets (parallel composition).

        Each new ledger receives the entire plan, since a replaced row belongs to only one set.
        Afterwards, this ledger can no longer record events. The assignment of rows to sets and the
        sizes of the sets must be public.
        """
        if self._spent or self._parallel:
            raise RuntimeError("split() must be called once, before the ledger spends anything.")
        ledgers = []
        for _ in range(n_parts):
            ledger = object.__new__(type(self))
            ledger.__dict__.update(self.__dict__, _lines=[], _parallel=(), _root=self._root)
            ledgers.append(ledger)
        self._parallel, self._remaining = tuple(ledgers), NO_EVENT
        return self._parallel

    def sub_ledger(
        self, event: Event, *, name: str, proof: str, by_theorem: bool = False
    ) -> Ledger:
        """Charge a stage, base learner or sanitizer as a whole; return a ledger for its events."""
        sub_ledger = object.__new__(type(self))
        sub_ledger.__dict__.update(
            self.__dict__,
            _lines=[],
            _parallel=(),
            _plan=event,
            _remaining=None if by_theorem else event,
            _is_prepaid=True,
            _spent=False,
        )
        self._enter(event, name, proof, sub_ledger._lines)
        return sub_ledger

    def annotate(self, name: str, event: Event, proof: str) -> None:
        """Add a line to the receipt for a stage whose cost is already included in another line."""
        self._lines.append(ReceiptLine(name, event, proof, []))

    def receipt(
        self,
        *,
        unit: str = REPLACE_ONE,
        assumptions: tuple[str, ...] = (),
        secure: bool = True,
    ) -> PrivacyReceipt:
        """Return the receipt of the fit, with its guarantee and every event recorded so far.

        Parameters
        ----------
        unit : str, default=REPLACE_ONE
            How neighbouring datasets differ, unless all rows of each person are protected.
        assumptions : tuple of str
            Facts that the guarantee assumes to be public knowledge.
        secure : bool, default=True
            False if a base learner or sanitizer that draws its own random numbers was seeded.
        """
        ledgers, spent, root = self._parallel or (self,), self._spent, self._root
        if self._grouped:
            unit = unit_of_persons(self.rows_per_person, unit)
            assumptions += ("which rows belong to the same person is public",)
        lines = [
            displayed_line
            for ledger in ledgers
            for line in ledger._lines
            for displayed_line in line.sub_lines or [line]
        ]
        return PrivacyReceipt(
            epsilon=written_above(self.epsilon) if spent else 0.0,
            delta=written_above(self.delta) if spent else 0.0,
            unit=unit,
            n_private=self.n_private,
            n_public=self.n_public,
            n_omitted=root.n_omitted,
            mechanisms=tuple(line.to_mechanism(self.epsilon, self.delta) for line in lines),
            secure_randomness=self.secure and secure,
            assumptions=assumptions,
            event=self._plan if spent else NO_EVENT,
            entry=root._entry,
            for_tests=bool(spent and root._budget and root._budget.for_tests),
        )

    def _enter(
        self, event: Event, name: str, proof: str, sub_lines: list[ReceiptLine] | None = None
    ) -> None:
        """Record an event before it is sampled, or raise if the remaining plan excludes it.

        The first event of a fit charges its budget and redeems its ticket. A sub-ledger later
        appends its lines to the list `sub_lines`.
        """
        if self._remaining is None:  # a theorem bounds the cost of the whole stage
            return
        options = list(remaining_plans(self._remaining, event))
        if not options:
            raise PrivacyBudgetError(f"{name} costs more than what remains of this fit's plan.")
        root = self._root
        if not root._spent:
            warn_if_epsilon_is_large(root._plan, root.epsilon, root.delta)
        if root._budget is not None and root._entry is None:
            root._entry = root._budget.spend(
                self._charged_event(),
                who=self._who,
                n_rows=self.n_private,
                ticket=self._ticket,
                seeded=self._seeded,
            )
            report(
                f"epsilon = {float(root.epsilon):g} and delta = {float(root.delta):g} charged as "
                f"entry {root._entry} of the budget",
                self._who,
            )
        elif self._ticket is not None and not root._spent:
            redeem_ticket(self._ticket)
        root._spent = self._spent = True
        # The option is chosen now, since the δ of a plan does not cover a choice after the event.
        self._remaining = options[0] if len(options) == 1 else max(options, key=mu_squared_price)
        if not self._is_prepaid:
            line = ReceiptLine(name, event, proof, [] if sub_lines is None else sub_lines)
            self._lines.append(line)
            cost = line.to_mechanism(self.epsilon, self.delta)
            report(f"{name}, epsilon = {cost.epsilon:.3g} on its own", self._who)

    def _charged_event(self) -> Event:
        """Return the event that is charged to the budget.

        Under the accountant ``"pure"``, Gaussian noise has no finite cost. If δ > 0, the charged
        event is therefore the guarantee (ε, δ) of the fit.
        """
        assert self._root._budget is not None
        if self.delta and self._root._budget.accountant == "pure":
            return Approximate(self.epsilon, self.delta)
        return self._root._plan

    # Tests and audits replace the two samplers below.

    def _sample_member(self, family: Family, epsilon: Fraction, sensitivity: int) -> Path:
        """Sample the path of a member, with weights prior · exp(-ε errors / (2 sensitivity))."""
        return draw(family, epsilon, sensitivity, self._bits)

    def _sample_noise(self, event: Event, scale: Fraction, table: Integers) -> Integers:
        """Sample independent noise with the given scale for each entry of a table."""
        sampler = rounded_gaussian if isinstance(event, Gaussian) else discrete_laplace
        return sampler(scale, table.size, self._bits).reshape(table.shape)


def warn_if_delta_is_large(delta: Fraction, n_private: int) -> None:
    """Warn if δ is not far below one over the number of private rows."""
    if delta * n_private > LARGE_DELTA:
        warn(
            f"delta = {float(delta):g} is too large for {n_private} private rows, because delta "
            "should be far below 1 divided by the number of private rows. Decrease delta.",
            LargeDeltaWarning,
        )


def warn_if_epsilon_is_large(plan: Event, epsilon: Fraction, delta: Fraction) -> None:
    """Warn if a plan with this (ε, δ) would let an attacker identify a row almost surely.

    If two rows are equally likely, the best attack distinguishes them with probability (1 + δ(0)) /
    2.
    """
    max_delta_at_zero = math.tanh(LARGE_EPSILON / 2)  # 2 / (1 + e^-LARGE_EPSILON) - 1
    if epsilon <= LARGE_EPSILON and delta <= LARGE_DELTA:
        return  # the guarantee alone implies a smaller probability
    if plan_delta(plan, Fraction(0)) > max_delta_at_zero:
        warn(
            f"epsilon = {float(epsilon):g} provides almost no protection: an attacker who knows "
            "all other rows and considers two values of the remaining row equally likely may guess "
            "the correct value more than 99.99% of the time. Decrease epsilon; values around 1 are "
            "common.",
            LargeEpsilonWarning,
        )


def public_seed(random_state: Any) -> int:
    """Return a 128-bit seed for use in post-processing, such as drawing synthetic rows."""
    return random_bits(random_state).bits(128)


_IN_PUBLIC_COMPUTATION = ContextVar("_IN_PUBLIC_COMPUTATION", default=False)


@contextmanager
def public_computation() -> Iterator[None]:
    """Context manager for seeded fits on public rows only, such as trials on public folds.

    The context declares that the draws of these fits reveal nothing about private rows. It does not
    change any draw. When a fit is verified, such draws are not counted as uses of private rows.
    Since seeded draws are identical for neighbouring data sets, a wrong declaration is revealed by
    results that differ.
    """
    token = _IN_PUBLIC_COMPUTATION.set(True)
    try:
        yield
    finally:
        _IN_PUBLIC_COMPUTATION.reset(token)


def in_public_computation() -> bool:
    """Indicate whether the caller runs within a `public_computation`."""
    return _IN_PUBLIC_COMPUTATION.get()
