"""Persons with several rows: which of their private rows count, chosen at random."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.streaming import RowSource, as_rows, is_streamed
from skpublicdp.exceptions import OmittedRowsWarning, warn
from skpublicdp.typing import Codes, Mask

INVALID_GROUPS = (
    "groups must identify the person of each row of X by a number or a string; got another type. "
    "Assign a number to each person."
)


def is_missing_person(person: Any) -> bool:
    """Indicate whether an entry of `groups` is missing: None, NaN or pandas' NA."""
    try:
        return person is None or bool(person != person)  # NaN is not equal to itself
    except TypeError:  # pandas.NA has no truth value
        return True


class RowChooser(Protocol):
    """Ledger of a fit, as far as the choice among a person's rows is concerned."""

    n_omitted: int
    """Number of private rows that are left out, for the receipt."""

    def order(self, n: int) -> Codes:
        """Return a uniformly random permutation of n positions."""


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print who the persons are
class PersonRows:
    """Private rows with their persons, of which at most `max_rows` per person are kept.

    Persons are public. The kept rows depend on who shares which rows, and on random ranks, but not
    on any value of a private row. Neighbouring data sets therefore keep the same positions.
    """

    max_rows: int  # maximum number of rows per person
    # (n,): number of the row's person, from 0 to n_persons - 1; -1 for public rows
    person_of_row: Codes
    sizes: Codes  # (n_persons,): number of private rows of each person

    @classmethod
    def read(cls, max_rows: int, groups: Any, private: Mask) -> PersonRows:
        """Validate the persons of the private rows, and number them."""
        identifiers, failure = call_silently(np.asarray, groups)
        if failure is not None:
            raise ValueError(INVALID_GROUPS)
        if identifiers.shape != private.shape:
            raise ValueError(
                f"groups must identify one person per row of X, shape {private.shape}; got shape "
                f"{identifiers.shape}."
            )
        person_of_row = np.full(len(private), -1, dtype=np.intp)
        person_of_row[private] = _number_persons(identifiers[private])
        return cls(max_rows, person_of_row, np.bincount(person_of_row[private]))

    @property
    def n_rows(self) -> int:
        """Number of private rows."""
        return int(self.sizes.sum())

    @property
    def n_omitted(self) -> int:
        """Number of private rows that are left out."""
        return int(np.maximum(self.sizes - self.max_rows, 0).sum())

    @cached_property
    def crowded(self) -> Codes:
        """Increasing positions of the rows of persons with more than `max_rows` rows."""
        is_crowded = np.append(
            self.sizes > self.max_rows, False
        )  # the last entry is for public rows
        return np.flatnonzero(is_crowded[self.person_of_row])

    def choose(self, ledger: RowChooser) -> Mask:
        """Return a mask of the kept rows, after reporting the number of omitted rows."""
        ledger.n_omitted = self.n_omitted
        if self.n_omitted:
            # all of these numbers are public
            warn(
                f"{self.n_omitted} of {self.n_rows} private rows were left out because "
                f"max_rows_per_group={self.max_rows}, chosen at random from groups of up to "
                f"{self.sizes.max()} rows. Results describe the kept rows, in which large groups "
                "are under-represented.",
                OmittedRowsWarning,
            )
        return self.keep(random_ranks(len(self.crowded), ledger))

    def keep(self, ranks: Codes) -> Mask:
        """Return a mask of the kept rows, shape (n,).

        `ranks` are distinct numbers, one for each crowded row. Each person keeps the rows with the
        smallest ranks.
        """
        persons = self.person_of_row[self.crowded]
        by_person = np.lexsort((ranks, persons))
        is_first = np.diff(persons[by_person], prepend=-1) > 0
        positions = np.arange(len(ranks))
        first_of_person = np.maximum.accumulate(np.where(is_first, positions, 0))
        n_kept_before = positions - first_of_person
        dropped = by_person[n_kept_before >= self.max_rows]
        is_kept = self.person_of_row >= 0
        is_kept[self.crowded[dropped]] = False
        return is_kept


def _number_persons(identifiers: NDArray[Any]) -> Codes:
    """Return a number for each row, which is the same for rows of the same person."""
    if identifiers.dtype.kind in "iuf" and not np.isnan(identifiers).any():
        return np.unique(identifiers, return_inverse=True)[1].astype(np.intp)
    number_of_person: dict[Any, int] = {}
    numbers = np.empty(len(identifiers), dtype=np.intp)
    for position, person in enumerate(identifiers):
        if is_missing_person(person):
            raise ValueError(
                "groups must identify a person for every private row, but at least one is missing."
            )
        if not isinstance(person, Hashable):
            raise ValueError(INVALID_GROUPS)
        numbers[position] = number_of_person.setdefault(person, len(number_of_person))
    return numbers


def random_ranks(n: int, ledger: RowChooser) -> Codes:
    """Return a random permutation, for which no random bits are drawn if there is no choice."""
    return ledger.order(n) if n else np.zeros(0, dtype=np.intp)


def cap_rows_per_group(
    max_rows: int | None, groups: Any, private: Mask, ledger: RowChooser | None = None
) -> Mask:
    """Return a mask of the private rows that count: at most `max_rows` random rows per person."""
    persons = read_person_rows(max_rows, groups, private)
    if persons is None:
        return private
    assert ledger is not None
    return persons.choose(ledger)


def read_person_rows(max_rows: int | None, groups: Any, private: Mask) -> PersonRows | None:
    """Return the private rows with their persons, or None if single rows are protected."""
    if groups is None:
        if max_rows is None:
            return None
        raise ValueError(
            f"max_rows_per_group={max_rows} is set, but groups was not passed. Pass groups, the "
            "person of each row of X, to fit, with metadata routing inside a pipeline or a search."
        )
    if max_rows is None:
        raise ValueError(
            "groups was passed, but max_rows_per_group is not set. Set it to the maximum number of "
            "rows that are used per person."
        )
    return PersonRows.read(max_rows, groups, private)


def read_persons(stream: RowSource, groups: Any) -> Any:
    """Return the persons of streamed rows as an array. `groups` can be a streamed column."""
    if not is_streamed(groups):
        return groups
    stream.check_ordered("Groups")
    return np.concatenate(list(as_rows(stream, groups).map_labels(np.asarray)))
