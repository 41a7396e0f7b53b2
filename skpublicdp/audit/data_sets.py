"""All datasets over a tiny domain, and the neighbours of each dataset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from skpublicdp.data.tables import is_frame, take_rows

PersonKinds = tuple[int, ...]
"""A dataset: the kind of the person at each position, as an index into `Domain.kinds`."""


class Domain:
    """All possible datasets of n persons over a finite set of rows.

    Parameters
    ----------
    values : array-like or frame
        All possible feature vectors of a row.
    labels : sequence or None
        All possible labels of a row, or None if there are no labels.
    n : int
        Number of persons.
    rows_per_person : int or None
        Number of rows of each person, or None if each row represents a person and there are no
        groups.
    ordered : bool
        Whether datasets with the same persons in different orders are distinct.

    Attributes
    ----------
    kinds : list of tuple of (int, int or None)
        All possible persons, each represented by the value index and the label index of every row.
    """

    def __init__(
        self, values: Any, labels: Any, n: int, rows_per_person: int | None, ordered: bool
    ) -> None:
        self.n = n
        self.ordered = ordered
        self.rows_per_person = rows_per_person
        self._values = values if is_frame(values) else np.asarray(values)
        self._labels = None if labels is None else list(labels)
        value_codes = range(len(self._values))
        label_codes = (None,) if self._labels is None else range(len(self._labels))
        rows = list(itertools.product(value_codes, label_codes))
        n_rows = rows_per_person or 1
        self.kinds = list(itertools.combinations_with_replacement(rows, n_rows))

    @property
    def size(self) -> int:
        """Number of possible datasets."""
        n_kinds = len(self.kinds)
        if self.ordered:
            return int(n_kinds**self.n)
        return math.comb(n_kinds + self.n - 1, self.n)  # combinations with repetition

    def __iter__(self) -> Iterator[PersonKinds]:
        kinds = range(len(self.kinds))
        if self.ordered:
            return itertools.product(kinds, repeat=self.n)
        return itertools.combinations_with_replacement(kinds, self.n)

    def sample(self, count: int, rng: np.random.Generator) -> list[PersonKinds]:
        """Return `count` datasets: one with unequal frequencies of kinds, then random datasets.

        If all kinds had equal frequencies, sums over rows could be 0. Steps that depend on such
        sums would then not be tested.
        """
        n_kinds = len(self.kinds)
        # quadratic quantiles: low kinds are frequent, high kinds are rare
        shares = (np.arange(self.n) / self.n) ** 2
        uneven = (n_kinds * shares).astype(int)
        persons = rng.permutation(uneven).tolist()
        data_sets = [self.canonical(tuple(persons))]
        while len(data_sets) < count:
            # few kinds at first, so rows are repeated, and more kinds in later datasets
            n_drawn = min(n_kinds, 2 + len(data_sets))
            drawn_kinds = rng.choice(n_kinds, n_drawn, replace=False)
            persons = rng.choice(drawn_kinds, self.n).tolist()
            data_sets.append(self.canonical(tuple(persons)))
        return data_sets

    def neighbours(self, data_set: PersonKinds) -> list[PersonKinds]:
        """Return all datasets with one person replaced at the same position.

        If the order is irrelevant, only the first of several identical persons is replaced.
        """
        neighbours: dict[PersonKinds, None] = {}  # an ordered set
        for position, replaced_kind in enumerate(data_set):
            is_first = data_set.index(replaced_kind) == position
            if not (self.ordered or is_first):
                continue
            before = data_set[:position]
            after = data_set[position + 1 :]
            for kind in range(len(self.kinds)):
                if kind != replaced_kind:
                    neighbours[(*before, kind, *after)] = None
        return list(neighbours)

    def canonical(self, data_set: PersonKinds) -> PersonKinds:
        """Return the dataset in the form used by iteration, sorted unless order matters."""
        return data_set if self.ordered else tuple(sorted(data_set))

    def arguments(self, data_set: PersonKinds) -> dict[str, Any]:
        """Return the arguments of `fit` for a dataset: `X`, and `y` and `groups` if present."""
        rows = [row for kind in data_set for row in self.kinds[kind]]
        positions = [position for position, _ in rows]
        arguments = {"X": _select_rows(self._values, positions)}
        if self._labels is not None:
            labels = [self._labels[code or 0] for _, code in rows]
            arguments["y"] = np.array(labels)
        if self.rows_per_person is not None:
            persons = np.arange(self.n)
            arguments["groups"] = np.repeat(persons, self.rows_per_person)
        return arguments

    def values(self) -> Any:
        """Return one row for each possible feature vector, as an array or a DataFrame."""
        return _select_rows(self._values, list(range(len(self._values))))


def _select_rows(values: Any, positions: list[int]) -> Any:
    """Return the rows at given positions of an array or a DataFrame, with a new index."""
    rows = take_rows(values, np.array(positions, dtype=np.intp))
    return rows.reset_index(drop=True) if hasattr(rows, "iloc") else rows
