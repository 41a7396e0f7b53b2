"""One fit under watch: what it asked of ledgers, where its randomness came from, what it shows."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

import skpublicdp.ledger as ledgers
from skpublicdp.audit.observe import Sight, contents
from skpublicdp.audit.recorder import Tape, replaced
from skpublicdp.audit.runs import Run, TooManyWaysError
from skpublicdp.ledger import Ledger
from skpublicdp.mechanisms.randomness import SecureBits, SeededBits

WORD = 64


class WatchedBits:
    """Repeatable bits, of which it is known who asked for them."""

    def __init__(self, watching: Watching, secure: bool, number: int) -> None:
        self.secure = secure
        self._watching = watching
        self._generator = np.random.Generator(np.random.PCG64([20, number]))

    def bits(self, count: int) -> int:
        """Return an integer uniform on ``range(2**count)``."""
        self._watching.n_bits += count
        n_bytes = -(-count // 8)
        return int.from_bytes(self._generator.bytes(n_bytes)) >> (8 * n_bytes - count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return that many integers uniform on ``range(2**64)``."""
        self._watching.n_bits += WORD * count
        return np.frombuffer(self._generator.bytes(8 * count), dtype="<u8").astype(np.uint64)

    def __deepcopy__(self, memo: object) -> WatchedBits:
        """Tell of it: copies give the same bits again."""
        self._watching.faults.append("the source of randomness was copied")
        return self


class Watching(Tape):
    """A tape that also knows where random bits come from, and when a budget is charged."""

    def __init__(self, *args: Any, budget: Any = None) -> None:
        super().__init__(*args)
        self.n_bits = 0
        self.faults: list[str] = []
        self.states: list[Any] = []
        self._budget, self._seen = budget, 0

    def __enter__(self) -> Any:
        self._globals = _global_states()
        super().__enter__()
        for kind in (SecureBits, SeededBits):
            for name in ("bits", "words"):
                self._patches.enter_context(replaced(kind, name, self._stray(kind, name)))
        self._patches.enter_context(replaced(ledgers, "random_bits", self._source))
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if _global_states() != self._globals:
            self.faults.append("a global random generator was used")

    def _source(self, random_state: Any = None) -> WatchedBits:
        self.states.append(random_state)
        return WatchedBits(self, random_state is None, len(self.states))

    def _stray(self, kind: Any, name: str) -> Callable[..., Any]:
        true = getattr(kind, name)

        def ask(bits: Any, count: int) -> Any:
            self.faults.append("randomness did not come from the ledger's source")
            return true(bits, count)

        return ask

    def _replacements(self) -> dict[str, Callable[..., Any]]:
        tape, true = self, Ledger.seed

        def seed(self: Ledger, count: int = 31) -> int | None:
            value = next(tape._dictated) if tape._dictated is not None else true(self, count)
            tape.note("seed", count, value)
            return value

        return {**super()._replacements(), "seed": seed}

    def note(self, kind: str, answer: Any, outcome: Any) -> None:
        """Write down one use, with the bits it took."""
        if self._budget is not None and kind in ("draw", "noise") and not self._budget.ledger:
            self.faults.append(f"{self._asked.get('name', 'a draw')}: drawn before it was charged")
        super().note(kind, answer, outcome)
        self.uses[-1] = replace(self.uses[-1], bits=self.n_bits - self._seen)
        self._seen = self.n_bits


class Noiseless(Watching):
    """Noise is left away: what follows then depends on the rows as much as it ever can."""

    def noisy(self, event: Any, spread: Any, table: Any, sample: Any, ledger: Any) -> Any:
        """Return the exact integers."""
        return table.copy()


class WatchedRun(Watching, Run):
    """One way in which draws can fall out, under watch."""


def _global_states() -> tuple[object, ...]:
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - others may use it
    return name, np.asarray(keys).tobytes(), tuple(rest), random.getstate()


@dataclass(frozen=True, eq=False)
class Attempt:
    """One fit, seen from outside.

    Attributes
    ----------
    shown : tuple
        All that can be seen, see `contents`.
    receipt : PrivacyReceipt or None
        What it says was spent.
    failure : Exception or None
        What it failed with.
    """

    shown: Any
    receipt: Any
    failure: BaseException | None

    @property
    def digest(self) -> bytes:
        """Tell what is shown from everything else."""
        return sha256(pickle.dumps(self.shown)).digest()


def fit_once(
    make_estimator: Callable[[], Any],
    rows: dict[str, Any],
    given: dict[str, Any],
    X_new: Any,
    look: Callable[[Any], Any] | None,
) -> Attempt:
    """Fit once, and look at all there is to be seen."""
    sight, estimator, given = Sight(), None, copy.deepcopy(given)
    with sight.watching():
        estimator = make_estimator()
        estimator.fit(**rows, **given)
        sight.look_at(estimator, X_new, look)
    if isinstance(sight.failure, TooManyWaysError):
        raise sight.failure
    sight.shown["arguments"] = given  # public rows could be written to as well
    return Attempt(contents(sight.shown), getattr(estimator, "privacy_", None), sight.failure)
