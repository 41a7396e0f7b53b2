"""All data sets over a tiny domain, and their neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from skpublicdp.data.tables import is_frame, pick_rows

PersonKinds = tuple[int, ...]
"""Kind of the person at each position of a data set."""


class Domain:
    """All possible persons: one row or several rows each, with or without labels.

    Parameters
    ----------
    values : array-like or frame
        What the features of a row may be.
    labels : sequence or None
        What its label may be.
    n : int
        How many persons there are.
    rows_per_person : int or None
        How many rows each has; None means rows that are nobody's.
    ordered : bool
        Whether it matters who stands where.
    """

    def __init__(
        self, values: Any, labels: Any, n: int, rows_per_person: int | None, ordered: bool
    ) -> None:
        self._values = values if is_frame(values) else np.asarray(values)
        self._labels = None if labels is None else list(labels)
        codes = (None,) if labels is None else range(len(self._labels or ()))
        rows = list(itertools.product(range(len(self._values)), codes))
        self.rows_per_person = rows_per_person
        self.kinds = list(itertools.combinations_with_replacement(rows, rows_per_person or 1))
        self.n, self.ordered = n, ordered

    @property
    def size(self) -> int:
        """Number of data sets."""
        k = len(self.kinds)
        return int(k**self.n) if self.ordered else math.comb(k + self.n - 1, self.n)

    def __iter__(self) -> Iterator[PersonKinds]:
        places = range(len(self.kinds))
        if self.ordered:
            return itertools.product(places, repeat=self.n)
        return itertools.combinations_with_replacement(places, self.n)

    def sample(self, count: int, rng: np.random.Generator) -> list[PersonKinds]:
        """Return some data sets: one with some of many kinds and many of some, and random ones.

        Where all kinds are equally frequent sums may be 0, and what follows has nothing to do.
        """
        shares = (np.arange(self.n) / self.n) ** 2
        uneven = rng.permutation((len(self.kinds) * shares).astype(int)).tolist()
        chosen = [tuple(uneven if self.ordered else sorted(uneven))]
        while len(chosen) < count:
            some = rng.choice(len(self.kinds), min(len(self.kinds), 2 + len(chosen)), replace=False)
            drawn = rng.choice(some, self.n).tolist()
            chosen.append(tuple(drawn) if self.ordered else tuple(sorted(drawn)))
        return chosen

    def neighbours(self, chosen: PersonKinds) -> list[PersonKinds]:
        """Return all data sets with one person replaced at the same position."""
        found: dict[PersonKinds, None] = {}
        for place, kind in itertools.product(range(self.n), range(len(self.kinds))):
            if kind != chosen[place] and (self.ordered or chosen.index(chosen[place]) == place):
                found[(*chosen[:place], kind, *chosen[place + 1 :])] = None
        return list(found)

    def named(self, chosen: PersonKinds) -> PersonKinds:
        """Return the sorted data set with the same persons."""
        return chosen if self.ordered else tuple(sorted(chosen))

    def arguments(self, chosen: PersonKinds) -> dict[str, Any]:
        """Return the arguments of `fit` for a data set."""
        rows = [row for kind in chosen for row in self.kinds[kind]]
        given = {"X": _taken(self._values, [value for value, _ in rows])}
        if self._labels is not None:
            given["y"] = np.array([self._labels[label or 0] for _, label in rows])
        if self.rows_per_person is not None:
            given["groups"] = np.repeat(np.arange(self.n), self.rows_per_person)
        return given

    def values(self) -> Any:
        """Return one row of each value."""
        return _taken(self._values, list(range(len(self._values))))


def _taken(values: Any, places: list[int]) -> Any:
    taken = pick_rows(values, np.array(places, dtype=np.intp))
    return taken.reset_index(drop=True) if hasattr(taken, "iloc") else taken
