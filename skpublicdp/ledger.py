"""One fit's spending: private answers leave through here and nowhere else.

A ledger holds a plan, an event that is fixed in advance and that the fit's (ε, δ) covers. Each
draw and each noise is written down before it is drawn, and refused where the plan does not cover
it. With a budget the whole plan is charged to it at the first of them. The proofs are in
docs/proofs/budgets.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
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
from skpublicdp.accounting.capacity import Capacity
from skpublicdp.accounting.decimals import written_above
from skpublicdp.accounting.events import NOTHING, remainders
from skpublicdp.accounting.measurements import Integers, Measurement, Sensitivity, noise_of
from skpublicdp.budget import PrivacyBudget
from skpublicdp.exceptions import (
    LargeDeltaWarning,
    LargeEpsilonWarning,
    PrivacyBudgetError,
    SeededRandomnessWarning,
    warn,
)
from skpublicdp.mechanisms.families import Family, Path
from skpublicdp.mechanisms.noise import LARGEST_SCALE, discrete_laplace
from skpublicdp.mechanisms.randomness import RandomBits, random_bits, uniform_below
from skpublicdp.mechanisms.rounded_gaussian import rounded_gaussian
from skpublicdp.mechanisms.selection import draw
from skpublicdp.mechanisms.subsets import random_indices, random_order, random_subset
from skpublicdp.tickets import redeem

LARGE_DELTA = 0.1
"""δ times the number of rows beyond which a warning is given."""

LARGE_EPSILON = 10
"""Largest ε of a pure guarantee without a warning. An attacker who knows all other rows can there
tell two equally likely ones apart in 1 / (1 + e^-10) = 99.995% of the cases. Beyond it a guarantee
means little (Ponomareva et al. 2023, How to DP-fy ML, tier 3). That rate bounds other plans."""

SEEDED = (
    "{} is charged to a budget and its noise comes from a random_state (its own, that of a part of "
    "it, or one that an ensemble such as BaggingClassifier sets): whoever has or guesses the seed "
    "can remove the noise, and so can two fits with the same seed. Use random_state=None and no "
    "such ensemble; for tests without private data there is PrivacyBudget(..., for_tests=True)."
)


class _Line(NamedTuple):
    """A line of a receipt; what a child noted stands in its place."""

    name: str
    event: Event
    proof: str
    inside: list[_Line]

    @property
    def listed(self) -> list[_Line]:
        return self.inside or [self]


def drawable(event: Event, sensitivity: Sensitivity) -> bool:
    """Tell whether the noise that an event pays for is within what can be drawn."""
    most = LARGEST_SCALE if isinstance(event, Pure) else LARGEST_SCALE**2
    return noise_of(event, sensitivity)[0] <= most


class Ledger:
    """What one fit may spend, has spent, and says of it.

    Parameters
    ----------
    epsilon, delta : number
        What the fit promises, read as exact fractions.
    random_state : None, int, numpy Generator or RandomState
        As in the estimators.
    budget : PrivacyBudget, optional
        What the fit is charged to. If it cannot pay, that is said here, before a row is read.
    event : Event, optional
        The plan. By default anything (ε, 0)-differentially private, or of the μ² that (ε, δ) has.
    who : str
        Name of the fit in the budget.
    rows_per_person : int
        How many rows one person may have. Each event is priced for replacing them all at once.
    ticket : str, optional
        Good for one fit; see `new_ticket`.
    seeded_parts : bool
        Whether a base learner or a sanitizer, which draws for itself, has a seed of its own.

    Raises
    ------
    PrivacyBudgetError
        If the budget cannot pay, or has paid for another seeded fit.

    Warns
    -----
    SeededRandomnessWarning
        If there is a budget that is not for tests, and the fit or a part of it is seeded.

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
        self._lines: list[_Line] = []
        self._spent = self._paid = False
        self._parts: tuple[Ledger, ...] = ()
        self._left: Event | None = NOTHING
        self._capacity = Capacity(
            self.epsilon, self.delta, "pure" if budget is None else budget.accountant
        )
        self._root, self._plan = self, event or self._capacity.anything()
        if budget is not None:
            budget.check(self._charge(), seeded=self._seeded)
            if self._seeded and not budget.for_tests:
                warn(SEEDED.format(who or "This fit"), SeededRandomnessWarning)
        self.plan(self._plan)

    @classmethod
    def of(cls, estimator: Any, *, event: Event | None = None, **settings: Any) -> Ledger:
        """Open the ledger of a fit by the parameters of its estimator.

        `settings` are other arguments of `Ledger`, in place of what the estimator says.
        """
        known = {
            "epsilon": estimator.epsilon,
            "delta": getattr(estimator, "delta", 0),
            "random_state": estimator.random_state,
            "budget": estimator.budget,
            "rows_per_person": getattr(estimator, "max_rows_per_group", None),
            "seeded_parts": any(map(has_seed, estimator.get_params(deep=False).values())),
        }
        return cls(event=event, who=type(estimator).__name__, **known | settings)

    @property
    def secure(self) -> bool:
        """Whether the randomness is the operating system's."""
        return self._bits.secure

    @property
    def event(self) -> Event:
        """The plan."""
        return self._plan

    def read(self, n_private: int, n_public: int = 0) -> None:
        """Note how many rows there are, and warn where δ is large for that number."""
        self.n_private, self.n_public = n_private, n_public
        if self.delta * n_private > LARGE_DELTA:
            warn(
                f"delta = {float(self.delta):g} is large for {n_private} private rows: it should "
                "be far below one over their number; lower delta.",
                LargeDeltaWarning,
            )

    def _warn_if_large(self) -> None:
        """Warn where the plan of the fit lets an attacker identify a row almost always."""
        advantage = math.tanh(LARGE_EPSILON / 2)  # 2 · accuracy - 1, at even odds
        if self.epsilon <= LARGE_EPSILON and self.delta <= LARGE_DELTA:
            return  # the promise alone is strong enough
        if plan_delta(self._plan, Fraction(0)) > advantage:
            warn(
                f"epsilon = {float(self.epsilon):g} protects almost nothing: an attacker who "
                "knows all other rows and considers two values of the last one equally likely may "
                "be right more than 99.99% of the time; lower epsilon, as about 1 is usual.",
                LargeEpsilonWarning,
            )

    def fits(self, event: Event) -> bool:
        """Tell whether (ε, δ), in the currency of the budget if there is one, covers a plan."""
        return self._capacity.covers(event)

    def plan(self, event: Event) -> None:
        """Hold a plan from now on; it is what the budget is charged and the receipt says."""
        if self._spent or self._parts:
            raise RuntimeError("A plan is made before anything is spent.")
        whole = self._root is self
        if whole:
            fits = self.fits(event)
        else:  # a part or a child may promise less than it holds
            fits = self._left is None or any(True for _ in remainders(self._left, event))
        if not fits:
            raise PrivacyBudgetError(
                f"A plan must cost no more than epsilon = {float(self.epsilon):g} and delta = "
                f"{float(self.delta):g} do in the currency of the budget."
            )
        if whole:
            self._plan = event
        if whole or self._left is not None:
            self._left = event

    def choose(self, option: Event) -> None:
        """Take one of the options that the plan has now, before the first event of it.

        An option that is chosen later, by what its first event released, would cost more.
        """
        match self._left:
            case Either(options) if option in options:
                self._left = option
            case Steps((Either(options), *later)) if option in options:
                self._left = Steps((option, *later))
            case _:
                raise RuntimeError("Only an option that the plan has next can be chosen.")

    def scale(self, make_plan: Callable[[Fraction], Event]) -> Fraction:
        """Return the largest scale at which a plan fits; it costs more at a larger scale."""
        return self._capacity.scale(make_plan)

    def equal_draws(self, count: int) -> Fraction:
        """Return the largest ε that each of some draws may have."""
        return self._capacity.equal_draws(count)

    def draw(self, family: Family, event: Draw, sensitivity: int, *, name: str, proof: str) -> Path:
        """Draw a member of a family by the exponential mechanism, exactly.

        Parameters
        ----------
        family : Family
            Members with their error counts; less these, it depends on public things alone.
        event : Draw
            What it costs.
        sensitivity : int
            The most that replacing one row changes any error count.
        name, proof : str
            For the receipt.

        Returns
        -------
        Path
            Name of the member.
        """
        self._enter(event, name, proof)
        return self._sample_member(family, event.epsilon, sensitivity * self.rows_per_person)

    def add_noise(
        self, table: Integers, sensitivity: Sensitivity, event: Event, *, name: str, proof: str
    ) -> Measurement:
        """Add exact noise to integers.

        Parameters
        ----------
        table : ndarray of int64
            Exact integers.
        sensitivity : Sensitivity
            The most that replacing one row changes them.
        event : Gaussian or Pure
            What it costs, and the kind of noise.
        name, proof : str
            For the receipt.

        Returns
        -------
        Measurement
            Noisy integers of the same shape.
        """
        if table.dtype != np.int64:
            raise TypeError("Noise is exact on integers: table must be of int64.")
        spread, variance = noise_of(event, self.for_person(sensitivity))
        self._enter(event, name, proof)
        noise = self._sample_noise(event, spread, table)
        return Measurement(table + noise, spread, variance)

    def for_person(self, sensitivity: Sensitivity) -> Sensitivity:
        """Return the sensitivity for all rows of a person: moves add up, at worst in one place."""
        k = self.rows_per_person
        return Sensitivity(k * sensitivity.absolute, k * k * sensitivity.squared)

    def per_row(
        self, epsilon: Fraction, delta: Fraction = Fraction(0)
    ) -> tuple[Fraction, Fraction]:
        """Return the (ε, δ) for one row with which somebody's mechanism has them for a person.

        References
        ----------
        Dwork and Roth (2014), Theorem 2.2; with δ, docs/proofs/budgets.md.
        """
        k = self.rows_per_person
        if k == 1:
            return epsilon, delta
        # e^ε is at least each of the k factors
        return epsilon / k, delta / k * Fraction(math.exp(-float(epsilon)) * (1 - 2**-40))

    def subset(self, n: int, k: int) -> NDArray[np.intp]:
        """Draw k of n positions, each set equally likely; increasing."""
        return random_subset(n, k, self._bits)

    def order(self, n: int) -> NDArray[np.intp]:
        """Draw an order of n positions, each equally likely."""
        return random_order(n, self._bits)

    def indices(self, n: int, k: int) -> NDArray[np.intp]:
        """Draw k of n positions with replacement."""
        return random_indices(n, k, self._bits)

    def uniform_below(self, bound: int) -> int:
        """Draw an integer below a bound that private rows do not decide."""
        return uniform_below(bound, self._bits)

    def seed(self, count: int = 31) -> int | None:
        """Return a seed for somebody else's randomness, or None where ours is secure."""
        return None if self.secure else self._bits.bits(count)

    def split(self, n_parts: int) -> tuple[Ledger, ...]:
        """Part the fit by disjoint rows: each part holds the whole plan, and this one nothing more.

        Which row is in which part, and how many are, must be public.
        """
        if self._spent or self._parts:
            raise RuntimeError("A ledger is split before anything is spent, and once.")
        parts = []
        for _ in range(n_parts):
            part = object.__new__(type(self))
            part.__dict__.update(self.__dict__, _lines=[], _parts=(), _root=self._root)
            parts.append(part)
        self._parts, self._left = tuple(parts), NOTHING
        return self._parts

    def child(self, event: Event, *, name: str, proof: str, by_theorem: bool = False) -> Ledger:
        """Pay for what a stage, a base learner or a sanitizer does as a whole.

        Parameters
        ----------
        event : Event
            What all of it costs.
        name, proof : str
            For the receipt.
        by_theorem : bool, default=False
            Whether a theorem says that all draws in it cost no more than `event`, so that they are
            not added up.

        Returns
        -------
        Ledger
            It holds `event`. What it notes stands in the receipt in place of the line here.
        """
        paid = object.__new__(type(self))
        paid.__dict__.update(
            self.__dict__, _lines=[], _parts=(), _plan=event, _left=event, _paid=True, _spent=False
        )
        if by_theorem:
            paid._left = None
        self._enter(event, name, proof, paid._lines)
        return paid

    def note(self, name: str, event: Event, proof: str) -> None:
        """Mention a stage that a theorem or another line pays for."""
        self._lines.append(_Line(name, event, proof, []))

    def receipt(self, *, assumptions: tuple[str, ...] = (), secure: bool = True) -> PrivacyReceipt:
        """Write down what was spent.

        Parameters
        ----------
        assumptions : tuple of str
            What is taken to be public.
        secure : bool, default=True
            Whether no randomness of others was seeded.

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
        lines = (line for ledger in ledgers for whole in ledger._lines for line in whole.listed)
        return PrivacyReceipt(
            epsilon=written_above(self.epsilon) if spent else 0.0,
            delta=written_above(self.delta) if spent else 0.0,
            unit=unit,
            n_private=self.n_private,
            n_public=self.n_public,
            mechanisms=tuple(map(self._mechanism, lines)),
            secure_randomness=self.secure and secure,
            assumptions=assumptions,
            event=self._plan if spent else NOTHING,
            entry=self._root._entry,
            for_tests=bool(spent and budget and budget.for_tests),
        )

    def _mechanism(self, line: _Line) -> Mechanism:
        event = line.event
        epsilon, delta = basic_price(event)
        if isinstance(event, Gaussian):
            alone = gaussian_epsilon(event.mu_squared, self.delta)
            epsilon, delta = min(alone, float(self.epsilon)), self.delta
        return Mechanism(line.name, float(epsilon), float(delta), line.proof, event)

    def _enter(
        self, event: Event, name: str, proof: str, inside: list[_Line] | None = None
    ) -> None:
        """Write an entry, and refuse what the plan does not cover."""
        if self._left is None:  # paid for by a theorem
            return
        # one way to go on, from here on: a plan's δ does not allow a choice between several later
        found = list(remainders(self._left, event))
        if not found:
            raise PrivacyBudgetError(
                f"{name}: more was asked for than the ledger of this fit still holds."
            )
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
            redeem(self._ticket)
        root._spent = self._spent = True
        self._left = found[0] if len(found) == 1 else max(found, key=mu_squared_price)
        if not self._paid:
            self._lines.append(_Line(name, event, proof, [] if inside is None else inside))

    def _charge(self) -> Event:
        """Return what the budget is charged."""
        assert self._root._budget is not None
        if self.delta and self._root._budget.accountant == "pure":
            return Approximate(self.epsilon, self.delta)
        return self._root._plan

    # what the tests dictate

    def _sample_member(self, family: Family, epsilon: Fraction, sensitivity: int) -> Path:
        return draw(family, epsilon, sensitivity, self._bits)

    def _sample_noise(self, event: Event, spread: Fraction, table: Integers) -> Integers:
        sampler = rounded_gaussian if isinstance(event, Gaussian) else discrete_laplace
        return sampler(spread, table.size, self._bits).reshape(table.shape)


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
    """Return a seed for randomness that spends nothing, such as synthetic rows."""
    return random_bits(random_state).bits(128)
