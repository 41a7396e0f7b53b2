"""Enumeration of all outcomes of a fit's draws, with bounds on their probabilities."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from skpublicdp.audit.recorder import Recorder
from skpublicdp.mechanisms.exponential import probabilities

PRECISION = 96
"""Precision of the probability bounds, in binary digits."""


class TooManyOutcomesError(ValueError):
    """Raised if the number of combinations of outcomes exceeds the limit."""


class EnumeratedRun(Recorder):
    """Replay of one combination of outcomes, with bounds on its exact probability.

    Noise is not enumerated: every noisy table is filled with `NOISY_VALUE`. The privacy loss of the
    noise is determined by the recorded exact inputs.

    Parameters
    ----------
    prefix : tuple
        The outcomes of the first calls. All later calls use their first possible outcome.

    Attributes
    ----------
    lower, upper : Fraction
        Lower and upper bound on the probability of this combination.
    result : object
        Return value of the code that was run.
    path : tuple
        Outcomes of this combination, in order.
    unexplored : list of tuple
        Prefixes of those combinations that branch off after `prefix`.
    """

    NOISY_VALUE = 100
    """Value of every cell of a noisy table.

    The value is the same in all runs, which makes the runs comparable."""
    MAX_OUTCOMES = 50_000
    """Maximum number of outcomes of a single draw or choice."""

    def __init__(self, prefix: tuple[Any, ...] = ()) -> None:
        super().__init__()
        self.lower = self.upper = Fraction(1)
        self.result: Any = None
        self.path: tuple[Any, ...] = ()
        self.unexplored: list[tuple[Any, ...]] = []
        self._prefix = prefix

    def next_outcome(self, bounds: dict[Any, tuple[Fraction, Fraction]]) -> Any:
        """Move to the next outcome of the combination and return it."""
        position = len(self.path)
        if position < len(self._prefix):
            outcome = self._prefix[position]
        else:
            outcome, *alternatives = bounds
            self.unexplored += [(*self.path, alternative) for alternative in alternatives]
        lower, upper = bounds[outcome]
        self.lower *= lower
        self.upper *= upper
        self.path = (*self.path, outcome)
        return outcome

    def draw_member(
        self, family: Any, epsilon: Any, sensitivity: Any, sample: Any, ledger: Any
    ) -> Any:
        """Return the path of the member in this combination, for a sufficiently small family."""
        self._check_number(family.size)
        try:
            bounds = _cached_probabilities(pickle.dumps((family, epsilon, sensitivity)))
        except (pickle.PicklingError, AttributeError, TypeError):  # a lazy family holds functions
            bounds = probabilities(family, epsilon, sensitivity, precision=PRECISION)
        return self.next_outcome(bounds)

    def add_noise(self, event: Any, spread: Any, table: Any, sample: Any, ledger: Any) -> Any:
        """Return the same noisy table for all datasets."""
        return np.full_like(table, self.NOISY_VALUE)

    def draw_uniform(self, bound: Any, sample: Any, ledger: Any) -> Any:
        """Return this combination's integer."""
        self._check_number(bound)
        probability = Fraction(1, bound)
        return self.next_outcome(dict.fromkeys(range(bound), (probability, probability)))

    def choose_positions(self, kind: Any, sizes: Any, sample: Any, ledger: Any) -> Any:
        """Return the positions chosen in this combination.

        Parameters
        ----------
        kind : {"subset", "order", "indices"}
            Kind of the choice: k of n positions without repetition, a permutation of n positions,
            or k of n positions with repetition.
        sizes : tuple of int
            (n, k), or (n,) for a permutation.
        sample, ledger
            As in the base class; these parameters are not used.
        """
        possible: Iterable[tuple[int, ...]]
        if kind == "order":
            (n,) = sizes
            n_outcomes, possible = math.factorial(n), itertools.permutations(range(n))
        elif kind == "subset":
            n, k = sizes
            n_outcomes, possible = math.comb(n, k), itertools.combinations(range(n), k)
        else:
            n, k = sizes
            n_outcomes = n**k
            # a lazy product, since there may be too many outcomes to enumerate
            possible = itertools.product(range(n), repeat=k)
        self._check_number(n_outcomes)
        choices = list(possible)
        probability = Fraction(1, len(choices))
        bounds = dict.fromkeys(choices, (probability, probability))
        return np.array(self.next_outcome(bounds), np.intp)

    def _check_number(self, n_outcomes: int) -> None:
        """Raise TooManyOutcomesError if one call has too many outcomes to enumerate."""
        if n_outcomes > self.MAX_OUTCOMES:
            raise TooManyOutcomesError(
                f"A draw has more than {self.MAX_OUTCOMES} outcomes, which is too many to "
                "enumerate."
            )


@lru_cache(maxsize=4096)
def _cached_probabilities(pickled: bytes) -> dict[Any, tuple[Fraction, Fraction]]:
    """Return the probability bounds of all members of a draw, cached by pickled arguments."""
    family, epsilon, sensitivity = pickle.loads(pickled)
    return probabilities(family, epsilon, sensitivity, precision=PRECISION)


def enumerate_runs(
    code: Callable[[], Any],
    run_type: Callable[..., Any] = EnumeratedRun,
    max_runs: float = math.inf,
) -> list[Any]:
    """Run code once for each combination of outcomes of its draws, and return all runs.

    Parameters
    ----------
    code : callable
        Function that fits an estimator. The function's return value is stored as `result` of the
        run.
    run_type : type
        `EnumeratedRun` or a subclass.
    max_runs : int, optional
        Maximum number of runs.

    Returns
    -------
    list of EnumeratedRun
        One run for each combination. The probabilities of all runs sum to 1.

    Raises
    ------
    TooManyOutcomesError
        If there are more than `max_runs` combinations.
    """
    runs: list[Any] = []
    prefixes: list[tuple[Any, ...]] = [()]
    while prefixes:
        with run_type(prefixes.pop()) as run:
            run.result = code()
        prefixes += run.unexplored
        runs.append(run)
        if len(runs) + len(prefixes) > max_runs:
            raise TooManyOutcomesError(
                f"There are more than {max_runs:g} combinations of outcomes."
            )
    # the lower bounds on the probabilities sum to 1, up to their precision
    assert 1 - Fraction(1, 10**9) < sum(run.lower for run in runs) <= 1
    return runs
