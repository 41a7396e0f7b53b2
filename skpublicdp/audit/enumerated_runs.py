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

    Of noise the outcome is dictated, and the exact integers are kept: see `worst_ratio`.
    """

    NOISY = 100
    MOST = 50_000
    """Options of a single draw or choice that may be listed."""

    def __init__(self, prefix: tuple[Any, ...] = ()) -> None:
        super().__init__()
        self.lower = self.upper = Fraction(1)
        self.result: Any = None  # what the code returned
        self.left: list[tuple[Any, ...]] = []  # the ways not taken
        self.taken: tuple[Any, ...] = ()  # which ways were
        self._prefix = prefix

    def play(self, bounds: dict[Any, tuple[Fraction, Fraction]]) -> Any:
        """Return the next outcome of the combination, given bounds of all probabilities."""
        place = len(self.taken)
        if place < len(self._prefix):
            outcome = self._prefix[place]
        else:
            outcome, *others = bounds
            self.left += [(*self.taken, other) for other in others]
        lower, upper = bounds[outcome]
        self.lower *= lower
        self.upper *= upper
        self.taken = (*self.taken, outcome)
        return outcome

    def draw_member(
        self, family: Any, epsilon: Any, sensitivity: Any, sample: Any, ledger: Any
    ) -> Any:
        """Take one member, if there are few enough."""
        self._limit(family.size)
        try:
            bounds = _listed(pickle.dumps((family, epsilon, sensitivity)))
        except (pickle.PicklingError, AttributeError, TypeError):  # a lazy family holds functions
            bounds = probabilities(family, epsilon, sensitivity, precision=PRECISION)
        return self.play(bounds)

    def add_noise(self, event: Any, spread: Any, table: Any, sample: Any, ledger: Any) -> Any:
        """Return the same noisy table for all rows."""
        return np.full_like(table, self.NOISY)

    def draw_uniform(self, bound: Any, sample: Any, ledger: Any) -> Any:
        """Take one integer."""
        self._limit(bound)
        return self.play(dict.fromkeys(range(bound), 2 * (Fraction(1, bound),)))

    def choose_positions(self, kind: Any, sizes: Any, sample: Any, ledger: Any) -> Any:
        """Take one choice of positions."""
        n, k = (*sizes, sizes[0])[:2]
        self._limit({"subset": math.comb(n, k), "order": math.factorial(n)}.get(kind, n**k))
        ways: dict[Any, Callable[[], Any]] = {
            "subset": lambda: itertools.combinations(range(n), k),
            "order": lambda: itertools.permutations(range(n)),
            "indices": lambda: itertools.product(range(n), repeat=k),
        }
        listed = list(ways[kind]())
        return np.array(self.play(dict.fromkeys(listed, 2 * (Fraction(1, len(listed)),))), np.intp)

    def _limit(self, ways: int) -> None:
        if ways > self.MOST:
            raise TooManyOutcomesError(f"No more than {self.MOST} outcomes can be listed.")


@lru_cache(maxsize=4096)
def _listed(pickled: bytes) -> dict[Any, tuple[Fraction, Fraction]]:
    """Return the cached probability bounds of all members of a pickled family."""
    family, epsilon, sensitivity = pickle.loads(pickled)
    return probabilities(family, epsilon, sensitivity, precision=PRECISION)


def enumerate_runs(
    code: Callable[[], Any], kind: Callable[..., Any] = EnumeratedRun, most: float = math.inf
) -> list[Any]:
    """Run code once for each combination of outcomes of its draws.

    Parameters
    ----------
    code : callable
        Fits; what it returns is kept as `result`.
    kind : type
        `EnumeratedRun` or a subclass.
    most : int, optional
        How many runs there may be.

    Returns
    -------
    list of EnumeratedRun
        Whose probabilities add up to 1.

    Raises
    ------
    TooManyWaysError
        If there are more.
    """
    runs: list[Any] = []
    prefixes: list[tuple[Any, ...]] = [()]
    while prefixes:
        with kind(prefixes.pop()) as run:
            run.result = code()
        prefixes += run.left
        runs.append(run)
        if len(runs) + len(prefixes) > most:
            raise TooManyOutcomesError(f"There are more than {most:g} ways.")
    assert 1 - Fraction(1, 10**9) < sum(run.lower for run in runs) <= 1
    return runs


def _of_draws(run: EnumeratedRun) -> Any:
    return tuple(call.outcome for call in run.calls_of("draw"))


def index_by_release(runs: list[Any], released: Callable[[Any], Any] = _of_draws) -> dict[Any, Any]:
    """Index runs by what they release, without noise. No two runs may release the same."""
    named = {released(run): run for run in runs}
    assert len(named) == len(runs)
    return named


def worst_ratio(one: dict[Any, Any], other: dict[Any, Any], epsilon: Any) -> Fraction:
    """Bound the largest P / P' over what is released, relative to e^ε.

    Parameters
    ----------
    one, other : dict
        Of `index_by_release`, for neighbouring data sets.
    epsilon : Fraction
        Relative to it.

    Notes
    -----
    Laplace noise contributes the most that it can: exp of the change over the scale.
    """
    assert one.keys() == other.keys()
    worst = Fraction(0)
    for name, run in one.items():
        match, lost = other[name], -Fraction(epsilon)
        for mine, yours in zip(run.calls_of("noise"), match.calls_of("noise"), strict=True):
            assert not mine.gaussian
            assert mine.spread == yours.spread
            lost += Fraction(int(np.abs(mine.exact_input - yours.exact_input).sum())) / mine.spread
        worst = max(worst, run.upper / match.lower * exp_above(lost))
    return worst


def exp_above(x: Fraction) -> Fraction:
    """Return a tight rational upper bound of e^x."""
    if x > 0:
        return Fraction(1 << PRECISION, exp_minus(x, PRECISION)[0])
    return Fraction(exp_minus(-x, PRECISION)[1], 1 << PRECISION)
