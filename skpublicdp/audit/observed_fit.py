"""Observed fits: mechanism calls, sources of randomness and everything that a fit reveals."""

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

import skpublicdp.privacy.ledger as ledgers
from skpublicdp.audit.enumerated_runs import EnumeratedRun, TooManyOutcomesError
from skpublicdp.audit.observe import Observation, canonical_form
from skpublicdp.audit.recorder import Recorder, replaced
from skpublicdp.mechanisms.randomness import RandomBits, SecureBits, SeededBits, random_bits
from skpublicdp.privacy.ledger import Ledger, in_public_computation

BITS_PER_WORD = 64

SOURCE_SEED = 20
"""Seed of all recorded sources of random bits, which makes verifications reproducible."""


class RecordedBits:
    """Source of reproducible random bits that counts its requests.

    Parameters
    ----------
    recorder : FitRecorder
        Recorder that counts the requests.
    secure : bool
        Whether the source replaces one of the operating system, as opposed to a seeded source.
    number : int
        Number of the source within the fit, which is part of its seed.
    """

    def __init__(self, recorder: FitRecorder, secure: bool, number: int) -> None:
        self.secure = secure
        self._recorder = recorder
        self._generator = np.random.Generator(np.random.PCG64([SOURCE_SEED, number]))

    def bits(self, count: int) -> int:
        """Return an integer that is uniform on ``range(2**count)``."""
        self._recorder.n_bits += count
        n_bytes = -(-count // 8)  # rounded up; surplus bits are shifted out
        return int.from_bytes(self._generator.bytes(n_bytes)) >> (8 * n_bytes - count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` integers that are uniform on ``range(2**64)``."""
        self._recorder.n_bits += BITS_PER_WORD * count
        return np.frombuffer(self._generator.bytes(8 * count), dtype="<u8").astype(np.uint64)

    def __deepcopy__(self, memo: object) -> RecordedBits:
        """Report copying as a fault, since copies repeat the same bits."""
        self._recorder.faults.append("the source of randomness was copied")
        return self


class FitRecorder(Recorder):
    """Recorder that also checks the source of random bits and when the budget is charged.

    Parameters
    ----------
    *args : object
        Positional arguments of the base class.
    budget : PrivacyBudget, optional
        Budget that must be charged before the first draw or noise.

    Attributes
    ----------
    n_bits : int
        Number of random bits drawn so far.
    faults : list of str
        Findings of this fit.
    states : list
        `random_state` of each source of random bits.
    """

    def __init__(self, *args: Any, budget: Any = None) -> None:
        super().__init__(*args)
        self.n_bits = 0
        self.faults: list[str] = []
        self.states: list[Any] = []
        self._budget, self._n_bits_before = budget, 0

    def __enter__(self) -> Any:
        self._globals = _global_states()
        super().__enter__()
        for source_type in (SecureBits, SeededBits):
            for name in ("bits", "words"):
                reporting = self._reporting_bypass(source_type, name)
                self._patches.enter_context(replaced(source_type, name, reporting))
        self._patches.enter_context(replaced(ledgers, "random_bits", self._source))
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if _global_states() != self._globals:
            self.faults.append("a global random generator was used")

    def _source(self, random_state: Any = None) -> RandomBits:
        """Return a source of counted random bits, which replaces the ledger's `random_bits`.

        In a public computation, a seeded ledger keeps its own source.
        """
        if in_public_computation() and random_state is not None:
            return random_bits(random_state)
        self.states.append(random_state)
        return RecordedBits(self, random_state is None, len(self.states))

    def _reporting_bypass(self, source_type: Any, name: str) -> Callable[..., Any]:
        """Return the method `name` of a random bits class, modified to report each call.

        The ledger's own source is replaced, so a call of the original class bypasses the ledger.
        """
        original = getattr(source_type, name)

        def draw_bits(bits: Any, count: int) -> Any:
            """Return the original random bits, and add a fault unless public rows require them."""
            if bits.secure or not in_public_computation():
                self.faults.append("randomness did not come from the ledger's source")
            return original(bits, count)

        return draw_bits

    def _replacements(self) -> dict[str, Callable[..., Any]]:
        """Return the base class's replacements, plus a replacement of `Ledger.seed`."""
        recorder, original = self, Ledger.seed

        def seed(self: Ledger, count: int = 31) -> int | None:
            """Return the recorded seed, and record the call."""
            value: int | None
            if recorder._replayed is not None:
                value = next(recorder._replayed)
            else:
                value = original(self, count)
            recorder.record_call("seed", count, value)
            return value

        return {**super()._replacements(), "seed": seed}

    def record_call(self, kind: str, exact_input: Any, outcome: Any) -> None:
        """Record one call with the number of random bits drawn since the previous call.

        Any draw or noise that precedes the charge to the budget is added to `faults`.
        """
        if self._budget is not None and kind in ("draw", "noise") and not self._budget.ledger:
            self.faults.append(
                f"{self._pending.get('name', 'a draw')}: drawn before it was charged"
            )
        super().record_call(kind, exact_input, outcome)
        self.calls[-1] = replace(self.calls[-1], bits=self.n_bits - self._n_bits_before)
        self._n_bits_before = self.n_bits


class NoiselessRecorder(FitRecorder):
    """Recorder that adds no noise, so later steps depend on the exact integers."""

    def add_noise(self, event: Any, spread: Any, table: Any, sample: Any, ledger: Any) -> Any:
        """Return the exact integers instead of noisy integers."""
        return table.copy()


class EnumeratedFit(FitRecorder, EnumeratedRun):
    """Fit with one enumerated combination of outcomes, including the checks of `FitRecorder`."""


def _global_states() -> tuple[object, ...]:
    """Return the states of the global random generators of NumPy and the standard library."""
    name, keys, *counters = np.random.get_state(legacy=True)  # noqa: NPY002 - other code may use it
    return name, np.asarray(keys).tobytes(), tuple(counters), random.getstate()


@dataclass(frozen=True, eq=False)
class ObservedFit:
    """Everything observable about a single fit."""

    shown: Any  # everything observable, in the form that `canonical_form` returns
    receipt: Any
    failure: BaseException | None  # exception raised by the fit

    @property
    def digest(self) -> bytes:
        """Hash of everything observable, used to find equal fits among many fits."""
        return sha256(pickle.dumps(self.shown)).digest()


def fit_once(
    make_estimator: Callable[[], Any],
    rows: dict[str, Any],
    fit_params: dict[str, Any],
    X_new: Any,
    look: Callable[[Any], Any] | None,
) -> ObservedFit:
    """Fit a new estimator once and record everything observable.

    Parameters
    ----------
    make_estimator : callable
        Function that returns a new estimator.
    rows : dict
        Arguments of `fit` that define a dataset.
    fit_params : dict
        Additional arguments of `fit`. The arguments are copied before the fit.
    X_new : array-like or data frame, shape (n_new, n_features)
        Rows that are passed to the methods of the fitted estimator.
    look : callable or None
        Function that returns further observable values of the fitted estimator.

    Raises
    ------
    TooManyOutcomesError
        If a draw has too many outcomes to enumerate. Other errors are recorded instead of raised.
    """
    observation, estimator, fit_params = Observation(), None, copy.deepcopy(fit_params)
    with observation.recording_output():
        estimator = make_estimator()
        estimator.fit(**rows, **fit_params)
        observation.record(estimator, X_new, look)
    if isinstance(observation.failure, TooManyOutcomesError):
        raise observation.failure
    observation.shown["arguments"] = fit_params  # fit could modify public rows
    return ObservedFit(
        canonical_form(observation.shown),
        getattr(estimator, "privacy_", None),
        observation.failure,
    )
