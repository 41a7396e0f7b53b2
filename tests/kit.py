"""A tape between fits and their randomness: it notes what ledgers are asked, and may dictate.

What depends on private rows leaves an estimator through `Ledger` alone. So if what leaves it is
dictated, the fits of neighbouring data sets must be equal in all else.
"""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from skpublicdp.accounting import Event, Gaussian, Sensitivity
from skpublicdp.ledger import Ledger
from skpublicdp.mechanisms.powers import exp_minus
from skpublicdp.mechanisms.selection import probabilities


@dataclass(frozen=True, eq=False)
class Use:
    """One thing that a ledger was asked for.

    kind is "draw", "noise", "subset", "order", "indices" or "uniform"; `answer` is what the private
    rows say (a family, or exact integers; sizes for random choices), `outcome` what came out.
    """

    kind: str
    answer: Any
    outcome: Any
    name: str = ""
    event: Event | None = None
    sensitivity: Any = None
    spread: Fraction | None = None
    epsilon: Fraction | None = None

    @property
    def cost(self):
        """ε of a draw and of Laplace noise, μ² of Gaussian noise, from what was done; else none."""
        if self.kind == "draw":
            return self.epsilon
        if self.kind != "noise":
            return Fraction(0)
        moved = self.sensitivity
        return Fraction(moved.squared if self.gaussian else moved.absolute) / self.spread

    @property
    def gaussian(self):
        return isinstance(self.event, Gaussian)


class Tape:
    """Notes all that is drawn in its context; with outcomes, these come out instead, in order.

    >>> with Tape() as tape:
    ...     pass
    >>> tape.uses
    []
    """

    def __init__(self, outcomes=None):
        self.uses = []
        self._dictated = None if outcomes is None else iter(outcomes)
        self._patches = []
        self._asked = {}

    @property
    def outcomes(self):
        return [use.outcome for use in self.uses]

    def uses_of(self, kind):
        return [use for use in self.uses if use.kind == kind]

    def __enter__(self):
        tape = self
        true = {name: getattr(Ledger, name) for name in (*VERBS, "_sample_member", "_sample_noise")}

        def draw(self, family, event, sensitivity, *, name, proof):
            tape._asked = {"name": name, "event": event}
            return true["draw"](self, family, event, sensitivity, name=name, proof=proof)

        def add_noise(self, table, sensitivity, event, *, name, proof):
            moved = self.for_person(Sensitivity(*sensitivity))
            tape._asked = {"name": name, "event": event, "sensitivity": moved}
            return true["add_noise"](self, table, sensitivity, event, name=name, proof=proof)

        def sample_member(self, family, epsilon, sensitivity):
            path = tape.member(family, epsilon, sensitivity, true["_sample_member"], self)
            tape._asked |= {"sensitivity": sensitivity, "epsilon": epsilon}
            tape.note("draw", family, path)
            return path

        def sample_noise(self, event, spread, table):
            assert table.dtype == np.int64
            spread = tape.spread(spread)
            outcome = tape.noisy(event, spread, table, true["_sample_noise"], self)
            tape._asked["spread"] = spread
            tape.note("noise", table.copy(), outcome)
            return outcome - table

        def sample_uniform(self, bound):
            outcome = tape.uniform(bound, true["uniform_below"], self)
            tape.note("uniform", bound, outcome)
            return outcome

        def choosing(kind, name):
            def choose(self, *sizes):
                outcome = tape.choice(kind, sizes, true[name], self)
                tape.note(kind, sizes, outcome)
                return outcome

            return choose

        replaced = {
            "draw": draw,
            "add_noise": add_noise,
            "_sample_member": sample_member,
            "_sample_noise": sample_noise,
            "uniform_below": sample_uniform,
            "subset": choosing("subset", "subset"),
            "order": choosing("order", "order"),
            "indices": choosing("indices", "indices"),
        }
        for name, function in replaced.items():
            patch = mock.patch.object(Ledger, name, function)
            patch.start()
            self._patches.append(patch)
        return self

    def __exit__(self, *exception):
        for patch in reversed(self._patches):
            patch.stop()
        self._patches.clear()

    def note(self, kind, answer, outcome):
        asked = self._asked if kind in ("draw", "noise") else {}
        self.uses.append(Use(kind, answer, outcome, **asked))
        self._asked = {}

    # what a subclass may change

    def member(self, family, epsilon, sensitivity, sample, ledger):
        if self._dictated is not None:
            return next(self._dictated)
        return sample(ledger, family, epsilon, sensitivity)

    def spread(self, spread):
        return spread

    def noisy(self, event, spread, table, sample, ledger):
        if self._dictated is not None:
            return next(self._dictated)
        return table + sample(ledger, event, spread, table)

    def uniform(self, bound, sample, ledger):
        return next(self._dictated) if self._dictated is not None else sample(ledger, bound)

    def choice(self, kind, sizes, sample, ledger):
        return next(self._dictated) if self._dictated is not None else sample(ledger, *sizes)


VERBS = ("draw", "add_noise", "subset", "order", "indices", "uniform_below")


class Run(Tape):
    """Plays one way in which draws can fall out, with bounds of its exact probability.

    Of noise the outcome is dictated, and the exact integers are kept: see `worst_ratio`.
    """

    NOISY = 100

    def __init__(self, prefix=()):
        super().__init__()
        self.lower = self.upper = Fraction(1)
        self.result = None  # what the code returned
        self.left = []  # the ways not taken
        self._prefix, self._taken = prefix, ()

    def play(self, bounds):
        """Take one of several outcomes, whose probabilities have these bounds."""
        place = len(self._taken)
        if place < len(self._prefix):
            outcome = self._prefix[place]
        else:
            outcome, *others = bounds
            self.left += [(*self._taken, other) for other in others]
        lower, upper = bounds[outcome]
        self.lower *= lower
        self.upper *= upper
        self._taken += (outcome,)
        return outcome

    def member(self, family, epsilon, sensitivity, sample, ledger):
        asked = family, epsilon, sensitivity
        try:
            bounds = _listed(pickle.dumps(asked))
        except (pickle.PicklingError, AttributeError, TypeError):  # a lazy family holds functions
            bounds = probabilities(*asked, precision=96)
        return self.play(bounds)

    def noisy(self, event, spread, table, sample, ledger):
        return np.full_like(table, self.NOISY)

    def uniform(self, bound, sample, ledger):
        return self.play({outcome: 2 * (Fraction(1, bound),) for outcome in range(bound)})

    def choice(self, kind, sizes, sample, ledger):
        n, k = (*sizes, sizes[0])[:2]
        all_ways = {
            "subset": lambda: itertools.combinations(range(n), k),
            "order": lambda: itertools.permutations(range(n)),
            "indices": lambda: itertools.product(range(n), repeat=k),
        }
        ways = list(all_ways[kind]())
        return np.array(self.play({way: 2 * (Fraction(1, len(ways)),) for way in ways}), np.intp)


@cache
def _listed(pickled):
    """Neighbours ask for the same probabilities again and again."""
    return probabilities(*pickle.loads(pickled), precision=96)


def every_run(code, kind=Run):
    """Run code once for each way in which its draws can fall out.

    Parameters
    ----------
    code : callable
        Fits; what it returns is kept as `result`.
    kind : type
        `Run` or a subclass.

    Returns
    -------
    list of Run
        Whose probabilities add up to 1.
    """
    runs, prefixes = [], [()]
    while prefixes:
        with kind(prefixes.pop()) as run:
            run.result = code()
        prefixes += run.left
        runs.append(run)
    assert 1 - Fraction(1, 10**9) < sum(run.lower for run in runs) <= 1
    return runs


def by_release(runs, released=lambda run: tuple(use.outcome for use in run.uses_of("draw"))):
    """Name runs by what they release, noise aside; no two may release the same."""
    named = {released(run): run for run in runs}
    assert len(named) == len(runs)
    return named


def worst_ratio(one, other, epsilon):
    """The largest P / P' over what is released, relative to e^ε; an upper bound.

    Parameters
    ----------
    one, other : dict
        Of `by_release`, for neighbouring data sets.
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
        for mine, yours in zip(run.uses_of("noise"), match.uses_of("noise"), strict=True):
            assert not mine.gaussian
            assert mine.spread == yours.spread
            lost += Fraction(int(np.abs(mine.answer - yours.answer).sum())) / mine.spread
        worst = max(worst, run.upper / match.lower * exp_above(lost))
    return worst


def exp_above(x):
    """An upper bound of e^x, hardly above it."""
    if x > 0:
        return Fraction(1 << 96, exp_minus(x, 96)[0])
    return Fraction(exp_minus(-x, 96)[1], 1 << 96)
