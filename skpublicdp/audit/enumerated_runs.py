"""Enumeration of all outcomes of the draws of a fit, with bounds of their probabilities."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from skpublicdp.audit.recorder import Recorder
from skpublicdp.mechanisms.exact_exp import exp_minus
from skpublicdp.mechanisms.exponential import probabilities

PRECISION = 96
"""Precision of probability bounds, in binary digits."""


class TooManyOutcomesError(ValueError):
    """Raised if there are more combinations of outcomes than allowed."""


class EnumeratedRun(Recorder):
    """Replays one combination of outcomes, with bounds of its exact probability.

    Noise is not enumerated: every noisy table is `NOISY_VALUE`, and `worst_ratio` adds the privacy
    loss of noise from the recorded exact inputs.

    Parameters
    ----------
    prefix : tuple
        Outcomes of the first calls. Later calls take their first possible outcome.

    Attributes
    ----------
    lower, upper : Fraction
        Bounds of the probability of this combination.
    result : object
        Return value of the code that was run.
    path : tuple
        Outcomes of this combination, in order.
    unexplored : list of tuple
        Prefixes of the combinations that branch off after `prefix`.
    """

    NOISY_VALUE = 100
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
        """Return the next outcome of the combination, given bounds of all probabilities."""
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
        """Return the member of this combination, if the family is small enough."""
        self._check_number(family.size)
        try:
            bounds = _cached_probabilities(pickle.dumps((family, epsilon, sensitivity)))
        except (pickle.PicklingError, AttributeError, TypeError):  # a lazy family holds functions
            bounds = probabilities(family, epsilon, sensitivity, precision=PRECISION)
        return self.next_outcome(bounds)

    def add_noise(self, event: Any, spread: Any, table: Any, sample: Any, ledger: Any) -> Any:
        """Return the same noisy table for all data sets."""
        return np.full_like(table, self.NOISY_VALUE)

    def draw_uniform(self, bound: Any, sample: Any, ledger: Any) -> Any:
        """Return the integer of this combination."""
        self._check_number(bound)
        return self.next_outcome(dict.fromkeys(range(bound), 2 * (Fraction(1, bound),)))

    def choose_positions(self, kind: Any, sizes: Any, sample: Any, ledger: Any) -> Any:
        """Return the positions of this combination: a subset, an order or a sample of indices."""
        n, k = (*sizes, sizes[0])[:2]
        self._check_number({"subset": math.comb(n, k), "order": math.factorial(n)}.get(kind, n**k))
        iterators: dict[Any, Callable[[], Any]] = {
            "subset": lambda: itertools.combinations(range(n), k),
            "order": lambda: itertools.permutations(range(n)),
            "indices": lambda: itertools.product(range(n), repeat=k),
        }
        choices = list(iterators[kind]())
        probability = Fraction(1, len(choices))
        bounds = dict.fromkeys(choices, (probability, probability))
        return np.array(self.next_outcome(bounds), np.intp)

    def _check_number(self, n_outcomes: int) -> None:
        if n_outcomes > self.MAX_OUTCOMES:
            raise TooManyOutcomesError(
                f"At most {self.MAX_OUTCOMES} outcomes of a draw can be enumerated."
            )


@lru_cache(maxsize=4096)
def _cached_probabilities(pickled: bytes) -> dict[Any, tuple[Fraction, Fraction]]:
    """Return the cached probability bounds of all members of a pickled family."""
    family, epsilon, sensitivity = pickle.loads(pickled)
    return probabilities(family, epsilon, sensitivity, precision=PRECISION)


def enumerate_runs(
    code: Callable[[], Any], kind: Callable[..., Any] = EnumeratedRun, max_runs: float = math.inf
) -> list[Any]:
    """Run code once for each combination of outcomes of its draws.

    Parameters
    ----------
    code : callable
        Fits an estimator. Its return value is stored as `result` of the run.
    kind : type
        `EnumeratedRun` or a subclass.
    max_runs : int, optional
        Maximum number of runs.

    Returns
    -------
    list of EnumeratedRun
        One for each combination. Their probabilities add up to 1.

    Raises
    ------
    TooManyOutcomesError
        If there are more combinations.
    """
    runs: list[Any] = []
    prefixes: list[tuple[Any, ...]] = [()]
    while prefixes:
        with kind(prefixes.pop()) as run:
            run.result = code()
        prefixes += run.unexplored
        runs.append(run)
        if len(runs) + len(prefixes) > max_runs:
            raise TooManyOutcomesError(
                f"There are more than {max_runs:g} combinations of outcomes."
            )
    assert 1 - Fraction(1, 10**9) < sum(run.lower for run in runs) <= 1
    return runs


def _draw_outcomes(run: EnumeratedRun) -> Any:
    return tuple(call.outcome for call in run.calls_of("draw"))


def index_by_release(
    runs: list[Any], released: Callable[[Any], Any] = _draw_outcomes
) -> dict[Any, Any]:
    """Return the runs by their released values, without noise. These values must be distinct."""
    run_of_release = {released(run): run for run in runs}
    assert len(run_of_release) == len(runs)
    return run_of_release


def worst_ratio(runs: dict[Any, Any], neighbour_runs: dict[Any, Any], epsilon: Any) -> Fraction:
    """Return an upper bound of the largest P / P' over all released values, divided by e^ε.

    Parameters
    ----------
    runs, neighbour_runs : dict
        Results of `index_by_release` for two neighbouring data sets.
    epsilon : Fraction
        Claimed privacy parameter. The claim holds if the bound is at most 1.

    Notes
    -----
    Laplace noise contributes its largest loss: exp of the L1 change of its input over its scale.
    """
    assert runs.keys() == neighbour_runs.keys()
    worst = Fraction(0)
    for name, run in runs.items():
        match, log_ratio = neighbour_runs[name], -Fraction(epsilon)
        for call, match_call in zip(run.calls_of("noise"), match.calls_of("noise"), strict=True):
            assert not call.gaussian
            assert call.spread == match_call.spread
            l1_change = int(np.abs(call.exact_input - match_call.exact_input).sum())
            log_ratio += Fraction(l1_change) / call.spread
        worst = max(worst, run.upper / match.lower * exp_above(log_ratio))
    return worst


def exp_above(x: Fraction) -> Fraction:
    """Return a tight rational upper bound of e^x."""
    if x > 0:
        return Fraction(1 << PRECISION, exp_minus(x, PRECISION)[0])
    return Fraction(exp_minus(-x, PRECISION)[1], 1 << PRECISION)
