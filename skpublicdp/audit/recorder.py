"""Recording and replay of mechanism calls, by a recorder between a fit and its ledger.

An estimator obtains private answers only through `Ledger`. If the same answers are replayed in the
fits of two neighbouring datasets, both fits must be identical in all other respects (Cebere, Erb,
Desfontaines, Bellet and Fitzsimons 2026, arXiv 2602.17454).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skpublicdp.accounting import Event, Gaussian, Sensitivity
from skpublicdp.privacy.ledger import Ledger, in_public_computation

LEDGER_METHODS = ("draw", "add_noise", "subset", "order", "indices", "uniform_below")
LEDGER_SAMPLERS = ("_sample_member", "_sample_noise")


@dataclass(frozen=True, eq=False)
class MechanismCall:
    """A single call of a mechanism through the ledger."""

    kind: str  # kind of the ledger method; "draw" refers to an exponential mechanism
    # the input that was computed from private rows: the family of a draw, the integers before
    # noise, or the sizes of a random choice
    exact_input: Any
    outcome: Any  # output of the mechanism
    name: str = ""  # name of the ledger entry
    event: Event | None = None  # privacy event of the ledger entry, or None if there is no entry
    # sensitivity of the input of a draw or of noise with respect to one person
    sensitivity: Any = None
    spread: Fraction | None = None  # scale of Laplace noise, or variance of Gaussian noise
    epsilon: Fraction | None = None  # privacy parameter of a draw
    bits: int = 0  # number of random bits that the call consumed
    rows_per_person: int = 1  # number of rows per person that are covered by the event
    # whether a single theorem accounts for the entire fit, in which case the draw itself is not
    # released
    secret: bool = False

    @property
    def cost(self) -> Fraction:
        """Privacy cost, computed from the call itself instead of its ledger entry.

        The cost is ε for a draw or Laplace noise, μ² for Gaussian noise, and 0 for random choices.
        """
        if self.kind == "draw":
            assert self.epsilon is not None
            return self.epsilon
        if self.kind != "noise":
            return Fraction(0)
        assert self.spread is not None
        norms = self.sensitivity
        return Fraction(norms.squared if self.gaussian else norms.absolute) / self.spread

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return isinstance(self.event, Gaussian)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute within a context."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def unless_public(original: Callable[..., Any], replacement: Callable[..., Any]) -> Any:
    """Return a replacement for a `Ledger` method, except for seeded draws from public rows.

    A seeded draw is a fixed function of its inputs. Therefore, if a private row affected one of
    these draws, the fits of neighbours would differ.
    """

    def method(self: Ledger, *args: Any, **kwargs: Any) -> Any:
        """Call the original method in a public computation, and the replacement otherwise."""
        is_public = in_public_computation() and not self.secure
        return (original if is_public else replacement)(self, *args, **kwargs)

    return method


class Recorder:
    """Context manager that records all mechanism calls, or replays given outcomes in order.

    The context manager patches all ledgers of the process and supports only a single thread.

    Parameters
    ----------
    outcomes : iterable, optional
        Outcomes to replay, from an earlier recording. By default, the mechanisms generate new
        outcomes.

    Attributes
    ----------
    calls : list of MechanismCall
        The recorded calls, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from skpublicdp.accounting import Draw
    >>> from skpublicdp.privacy.ledger import Ledger
    >>> from skpublicdp.mechanisms.families import Leaf
    >>> with Recorder([2]) as recorder:
    ...     family = Leaf(np.array([0, 1, 40]))
    ...     Ledger(1).draw(family, Draw(Fraction(1)), 1, name="a draw", proof="")
    2
    >>> [(call.kind, call.name, call.cost) for call in recorder.calls]
    [('draw', 'a draw', Fraction(1, 1))]
    """

    def __init__(self, outcomes: Iterable[Any] | None = None) -> None:
        self.calls: list[MechanismCall] = []
        self._replayed = None if outcomes is None else iter(outcomes)
        self._patches = ExitStack()
        self._pending: dict[str, Any] = {}

    @property
    def outcomes(self) -> list[Any]:
        """Outcomes of all recorded calls, in order, which another recorder can replay."""
        return [call.outcome for call in self.calls]

    def calls_of(self, kind: str) -> list[MechanismCall]:
        """Return the recorded calls of one kind, such as "draw" or "noise"."""
        return [call for call in self.calls if call.kind == kind]

    def __enter__(self) -> Any:
        for name, function in self._replacements().items():
            function = unless_public(getattr(Ledger, name), function)
            self._patches.enter_context(replaced(Ledger, name, function))
        return self

    def __exit__(self, *exception: object) -> None:
        self._patches.close()

    def _replacements(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that replace methods of `Ledger`, by name.

        `draw` and `add_noise` store the entry of the call in `_pending`. The samplers, which the
        original methods call, add the numbers and record the call.
        """
        recorder = self
        originals = {name: getattr(Ledger, name) for name in (*LEDGER_METHODS, *LEDGER_SAMPLERS)}

        def draw(
            self: Ledger, family: Any, event: Any, sensitivity: Any, *, name: str, proof: str
        ) -> Any:
            recorder._pending = {"name": name, "event": event}
            return originals["draw"](self, family, event, sensitivity, name=name, proof=proof)

        def add_noise(
            self: Ledger, table: Any, sensitivity: Any, event: Any, *, name: str, proof: str
        ) -> Any:
            person_sensitivity = self.for_person(Sensitivity(*sensitivity))
            recorder._pending = {"name": name, "event": event, "sensitivity": person_sensitivity}
            return originals["add_noise"](self, table, sensitivity, event, name=name, proof=proof)

        def sample_member(self: Ledger, family: Any, epsilon: Any, sensitivity: Any) -> Any:
            """Return the member of a draw, and record the call."""
            path = recorder.draw_member(
                family, epsilon, sensitivity, originals["_sample_member"], self
            )
            # one event accounts for the entire fit: its draws are not released
            is_secret = self._remaining is None and self._plan == self._root._plan
            recorder._pending |= {
                "sensitivity": sensitivity,
                "epsilon": epsilon,
                "rows_per_person": self.rows_per_person,
                "secret": is_secret,
            }
            recorder.record_call("draw", family, path)
            return path

        def sample_noise(self: Ledger, event: Any, spread: Any, table: Any) -> Any:
            """Return the noise of a table, and record the call."""
            spread = recorder.noise_scale(spread)
            outcome = recorder.add_noise(event, spread, table, originals["_sample_noise"], self)
            recorder._pending |= {
                "event": recorder._pending.get("event"),
                "spread": spread,
                "rows_per_person": self.rows_per_person,
            }
            recorder.record_call("noise", table.copy(), outcome)
            return outcome - table

        def sample_uniform(self: Ledger, bound: int) -> Any:
            """Return an integer below a bound, and record the call."""
            outcome = recorder.draw_uniform(bound, originals["uniform_below"], self)
            recorder.record_call("uniform", bound, outcome)
            return outcome

        def choosing(kind: str) -> Callable[..., Any]:
            """Return the replacement of `Ledger.subset`, `Ledger.order` or `Ledger.indices`."""

            def choose(self: Ledger, *sizes: int) -> Any:
                """Return the chosen positions, and record the call."""
                outcome = recorder.choose_positions(kind, sizes, originals[kind], self)
                recorder.record_call(kind, sizes, outcome)
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

    def record_call(self, kind: str, exact_input: Any, outcome: Any) -> None:
        """Record one call, with the entry that `draw` or `add_noise` stored previously."""
        entry = self._pending if kind in ("draw", "noise") else {}
        self.calls.append(MechanismCall(kind, exact_input, outcome, **entry))
        self._pending = {}

    # Hooks for subclasses. `sample` is the original, unbound method of `Ledger`, which draws a new
    # outcome; without a replay, the base class calls it.

    def draw_member(
        self, family: Any, epsilon: Any, sensitivity: Any, sample: Any, ledger: Any
    ) -> Any:
        """Return the path of the drawn member, either the next replayed path or a new draw."""
        if self._replayed is not None:
            return next(self._replayed)
        return sample(ledger, family, epsilon, sensitivity)

    def noise_scale(self, spread: Any) -> Any:
        """Return the scale (Laplace) or variance (Gaussian) used in place of the ledger's value."""
        return spread

    def add_noise(self, event: Any, spread: Any, table: Any, sample: Any, ledger: Any) -> Any:
        """Return the table with noise, either the next replayed table or a new table."""
        if self._replayed is not None:
            return next(self._replayed)
        return table + sample(ledger, event, spread, table)

    def draw_uniform(self, bound: Any, sample: Any, ledger: Any) -> Any:
        """Return an integer below a bound, either the next replayed integer or a new one."""
        return next(self._replayed) if self._replayed is not None else sample(ledger, bound)

    def choose_positions(self, kind: Any, sizes: Any, sample: Any, ledger: Any) -> Any:
        """Return the chosen positions, either the next replayed positions or a new choice."""
        return next(self._replayed) if self._replayed is not None else sample(ledger, *sizes)
