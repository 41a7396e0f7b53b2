"""Record and replay of mechanism calls: a recorder between a fit and its ledger.

Private answers leave an estimator through `Ledger` alone. So if these answers are replayed, the
fits of neighbouring data sets must agree in everything else (Cebere, Erb, Desfontaines, Bellet and
Fitzsimons 2026, arXiv 2602.17454).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skpublicdp.accounting import Event, Gaussian, Sensitivity
from skpublicdp.privacy.ledger import Ledger

LEDGER_METHODS = ("draw", "add_noise", "subset", "order", "indices", "uniform_below")
LEDGER_SAMPLERS = ("_sample_member", "_sample_noise")


@dataclass(frozen=True, eq=False)
class MechanismCall:
    """One call of a mechanism through the ledger.

    `kind` is "draw", "noise", "subset", "order", "indices", "uniform" or "seed". `answer` is the
    exact input (a family, integers, or the sizes of a random choice), `outcome` the output. A
    missing event means that nothing was paid. The event covers `rows_per_person` rows of a person.
    A draw is `secret` if one theorem pays for the whole fit, so that the draw is not released.
    """

    kind: str
    answer: Any
    outcome: Any
    name: str = ""
    event: Event | None = None
    sensitivity: Any = None
    spread: Fraction | None = None
    epsilon: Fraction | None = None
    bits: int = 0
    rows_per_person: int = 1
    secret: bool = False

    @property
    def cost(self) -> Fraction:
        """ε of a draw or of Laplace noise, μ² of Gaussian noise, computed from the call; else 0."""
        if self.kind == "draw":
            assert self.epsilon is not None
            return self.epsilon
        if self.kind != "noise":
            return Fraction(0)
        assert self.spread is not None
        moved = self.sensitivity
        return Fraction(moved.squared if self.gaussian else moved.absolute) / self.spread

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return isinstance(self.event, Gaussian)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute within a context."""
    true = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, true)


class Recorder:
    """Context that records all mechanism calls, or replays given outcomes in order.

    It patches all ledgers of the process, for a single thread.

    Parameters
    ----------
    outcomes : iterable, optional
        Outcomes to replay, as recorded before.

    Attributes
    ----------
    uses : list of Use
        The recorded calls, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Draw
    >>> from skpublicdp.privacy.ledger import Ledger
    >>> from skpublicdp.mechanisms.families import Leaf
    >>> with Recorder([2]) as tape:
    ...     family = Leaf(np.array([0, 1, 40]))
    ...     Ledger(1).draw(family, Draw(Fraction(1)), 1, name="a draw", proof="")
    2
    >>> [(use.kind, use.name, use.cost) for use in tape.uses]
    [('draw', 'a draw', Fraction(1, 1))]
    """

    def __init__(self, outcomes: Iterable[Any] | None = None) -> None:
        self.uses: list[MechanismCall] = []
        self._dictated = None if outcomes is None else iter(outcomes)
        self._patches = ExitStack()
        self._asked: dict[str, Any] = {}

    @property
    def outcomes(self) -> list[Any]:
        """Outcomes of the calls, in order."""
        return [use.outcome for use in self.uses]

    def uses_of(self, kind: str) -> list[MechanismCall]:
        """Return the calls of one kind."""
        return [use for use in self.uses if use.kind == kind]

    def __enter__(self) -> Any:
        for name, function in self._replacements().items():
            self._patches.enter_context(replaced(Ledger, name, function))
        return self

    def __exit__(self, *exception: object) -> None:
        self._patches.close()

    def _replacements(self) -> dict[str, Callable[..., Any]]:
        tape = self
        true = {name: getattr(Ledger, name) for name in (*LEDGER_METHODS, *LEDGER_SAMPLERS)}

        def draw(
            self: Ledger, family: Any, event: Any, sensitivity: Any, *, name: str, proof: str
        ) -> Any:
            tape._asked = {"name": name, "event": event}
            return true["draw"](self, family, event, sensitivity, name=name, proof=proof)

        def add_noise(
            self: Ledger, table: Any, sensitivity: Any, event: Any, *, name: str, proof: str
        ) -> Any:
            moved = self.for_person(Sensitivity(*sensitivity))
            tape._asked = {"name": name, "event": event, "sensitivity": moved}
            return true["add_noise"](self, table, sensitivity, event, name=name, proof=proof)

        def sample_member(self: Ledger, family: Any, epsilon: Any, sensitivity: Any) -> Any:
            path = tape.member(family, epsilon, sensitivity, true["_sample_member"], self)
            tape._asked |= {"sensitivity": sensitivity, "epsilon": epsilon}
            # one event pays for the whole fit: its draws are not released
            whole = self._remaining is None and self._plan == self._root._plan
            tape._asked |= {"rows_per_person": self.rows_per_person, "secret": whole}
            tape.note("draw", family, path)
            return path

        def sample_noise(self: Ledger, event: Any, spread: Any, table: Any) -> Any:
            spread = tape.spread(spread)
            outcome = tape.noisy(event, spread, table, true["_sample_noise"], self)
            tape._asked |= {"event": tape._asked.get("event"), "spread": spread}
            tape._asked["rows_per_person"] = self.rows_per_person
            tape.note("noise", table.copy(), outcome)
            return outcome - table

        def sample_uniform(self: Ledger, bound: int) -> Any:
            outcome = tape.uniform(bound, true["uniform_below"], self)
            tape.note("uniform", bound, outcome)
            return outcome

        def choosing(kind: str) -> Callable[..., Any]:
            def choose(self: Ledger, *sizes: int) -> Any:
                outcome = tape.choice(kind, sizes, true[kind], self)
                tape.note(kind, sizes, outcome)
                return outcome

            return choose

        return {
            "draw": draw,
            "add_noise": add_noise,
            "_sample_member": sample_member,
            "_sample_noise": sample_noise,
            "uniform_below": sample_uniform,
            **{kind: choosing(kind) for kind in ("subset", "order", "indices")},
        }

    def note(self, kind: str, answer: Any, outcome: Any) -> None:
        """Record one call."""
        asked = self._asked if kind in ("draw", "noise") else {}
        self.uses.append(MechanismCall(kind, answer, outcome, **asked))
        self._asked = {}

    # hooks for subclasses

    def member(self, family: Any, epsilon: Any, sensitivity: Any, sample: Any, ledger: Any) -> Any:
        """Return the drawn member."""
        if self._dictated is not None:
            return next(self._dictated)
        return sample(ledger, family, epsilon, sensitivity)

    def spread(self, spread: Any) -> Any:
        """Return the scale of the noise."""
        return spread

    def noisy(self, event: Any, spread: Any, table: Any, sample: Any, ledger: Any) -> Any:
        """Return the table with noise."""
        if self._dictated is not None:
            return next(self._dictated)
        return table + sample(ledger, event, spread, table)

    def uniform(self, bound: Any, sample: Any, ledger: Any) -> Any:
        """Return an integer below a bound."""
        return next(self._dictated) if self._dictated is not None else sample(ledger, bound)

    def choice(self, kind: Any, sizes: Any, sample: Any, ledger: Any) -> Any:
        """Return the chosen positions."""
        return next(self._dictated) if self._dictated is not None else sample(ledger, *sizes)
