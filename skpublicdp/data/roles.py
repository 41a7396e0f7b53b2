"""Roles of rows: whether each row is private or public, and the person to whom it belongs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.public_rows import DescribedRows
from skpublicdp.data.schema import column_names
from skpublicdp.data.streaming import RowSource, as_rows, is_streamed
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    Table,
    count_rows,
    is_frame,
)
from skpublicdp.data.validation import (
    as_numbers,
    check_columns,
    check_container,
    pipeline_advice,
    read_table,
    refuse_text,
)
from skpublicdp.exceptions import OmittedRowsWarning, SlicedPublicDataWarning, warn
from skpublicdp.typing import Codes, Floats, Mask

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

        Each person keeps the crowded rows with the smallest of the distinct `ranks`.
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


SHARED_MEMORY = (
    "X_public shares memory with X, so private rows would be treated as public. Pass all rows once "
    "as X, and mark the public rows with is_public."
)


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class RowRoles:
    """Rows of a fit, separated by role and with validated columns. No private value is read."""

    table: Table  # Rows in memory. For streamed rows, an empty table with their columns.
    stream: RowSource | None  # streamed rows with their labels, or None if the rows are in memory
    is_public: Mask  # (n,): mask of the public rows of `X`
    separate: Table | None  # rows of `X_public`, or None if there are no separate public rows
    # Public rows of `X`, followed by the rows of `X_public`. Parts without rows are omitted.
    public_tables: tuple[Table, ...]
    # (n,): mask of the counted private rows. The mask is None until `capped` sets it. The mask is
    # also None if all streamed rows are counted, since a mask of very many rows would be large.
    counted: Mask | None = None

    @property
    def n_private(self) -> int:
        """Number of counted private rows."""
        return len(self.is_public) if self.counted is None else int(self.counted.sum())

    def capped(self, max_rows: int | None, groups: Any, ledger: RowChooser | None) -> RowRoles:
        """Return the roles with the mask of counted rows that `cap_rows_per_group` returns."""
        if self.stream is None:
            counted = cap_rows_per_group(max_rows, groups, ~self.is_public, ledger)
            return replace(self, counted=counted)
        if groups is None:
            cap_rows_per_group(max_rows, None, self.is_public)  # raises if groups are missing
            return self
        persons = read_persons(self.stream, groups)
        counted = cap_rows_per_group(max_rows, persons, ~self.is_public, ledger)
        return replace(
            self, counted=counted, stream=self.stream.with_mask(counted, groups, persons)
        )

    def separate_numbers(self) -> Floats:
        """Return the rows of `X_public` as floats, shape (m, n_features)."""
        if self.separate is None:
            return np.empty((0, self.table.shape[1]))
        try:
            return as_numbers(self.separate)
        except ValueError as error:
            raise type(error)(f"X_public is not usable: {error}") from None


def split_roles(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    X_public: Any = None,
    is_public: Any = None,
    numeric: bool,
    streamed: bool = False,
    all_public: bool = False,
    **aligned: Any,
) -> RowRoles:
    """Validate columns and public values, and return the private and public rows of a fit.

    The feature names of the estimator are also set.

    Parameters
    ----------
    estimator : estimator
        The estimator that is being fitted.
    X, y, X_public, is_public
        Arguments passed to `fit`. The labels `y` are read only for streamed rows.
    numeric : bool
        Whether text and categorical columns are rejected.
    streamed : bool
        Whether `X` can be streamed.
    all_public : bool
        Whether all rows of `X` can be public.
    **aligned
        Other arguments of `fit` that have one entry per row of `X`, passed by name. Only the index
        of each argument is read.
    """
    refuse_same_rows(X, X_public)
    stream = None
    if streamed and is_streamed(X):
        stream = _open_stream(X, y, is_public)
        table = check_columns(estimator, Table(stream.empty()), reset=True, numeric=numeric)
        if not stream.n_rows:
            raise ValueError("X must contain at least one private row, but it is empty.")
    else:
        table = read_table(estimator, X, reset=True, numeric=numeric)
        check_index(X, is_public=is_public, **aligned)
    n_streamed = None if stream is None else stream.n_rows
    public_mask = check_mask(is_public, table.shape[0] if n_streamed is None else n_streamed)
    if public_mask.all() and not all_public:
        raise ValueError(
            "X must contain at least one private row, but is_public marks every row as public."
        )
    marked = table.take(np.flatnonzero(public_mask)) if public_mask.any() else None
    if numeric and marked is not None:
        refuse_text(estimator, marked)
    separate = read_public(estimator, table, X_public, numeric=numeric, n_rows=n_streamed)
    public_tables = tuple(part for part in (marked, separate) if part is not None)
    return RowRoles(table, stream, public_mask, separate, public_tables)


def _open_stream(X: Any, y: Any, is_public: Any) -> RowSource:
    """Return streamed rows with their labels. All streamed rows are private."""
    if is_public is not None:
        raise ValueError(
            "is_public cannot be used if X is streamed. Pass the public rows as X_public instead."
        )
    return as_rows(X, y)


def check_mask(
    mask: ArrayLike | None, n: int, name: str = "is_public", unknown: str = "private"
) -> Mask:
    """Validate a mask argument of `fit`, and return a boolean array, shape (n,).

    If there is no mask, all entries are False.

    Parameters
    ----------
    mask : array-like, shape (n,), or None
        Booleans, or numbers 0 and 1.
    n : int
        Number of rows.
    name : str
        Name of the argument, used in error messages.
    unknown : str
        Word that the message uses for the role of rows whose status is unknown.
    """
    if mask is None:
        return np.zeros(n, dtype=bool)
    array: NDArray[Any]
    array, failure = call_silently(np.asarray, mask)
    if failure is not None:
        raise ValueError(
            f"{name} must contain one boolean per row of X, shape ({n},); got rows of different "
            "lengths."
        )
    if array.shape != (n,):
        raise ValueError(
            f"{name} must contain one boolean per row of X, shape ({n},); got shape {array.shape}."
        )
    if array.dtype == bool:
        return array
    # objects, numbers or numpy's StringDType, which can contain missing values
    if array.dtype.kind in "OiufT" and all(
        isinstance(value, bool | int | float) and value in (0, 1) for value in array.tolist()
    ):
        return array.astype(bool)
    raise ValueError(
        f"{name} must contain True or False (or 1 or 0) for every row, but at least one value is "
        f"neither. If a row's status is unknown, treat the row as {unknown}: pass {name}.eq(1), or "
        f"{name} == 1 for arrays."
    )


def check_index(X: Any, **series_by_name: Any) -> None:
    """Raise ValueError if a pandas series and the frame `X` have different indexes.

    Values are matched to rows by position, so in another order the wrong rows would be public.
    """
    for name, series in series_by_name.items():
        if not (hasattr(X, "iloc") and hasattr(series, "iloc")) or len(series) != len(X):
            continue
        is_equal, _ = call_silently(lambda series=series: bool(series.index.equals(X.index)))
        if not is_equal:
            raise ValueError(
                f"{name} must have the same index as X. Reorder it with {name}.loc[X.index], or "
                f"pass {name}.to_numpy() if it is already in the order of X."
            )


def warn_if_sliced(n: int, n_public: int) -> None:
    """Warn if `X_public` has as many rows as `X`, since cross-validation may have split both."""
    if n == n_public:
        warn(
            f"X_public has exactly as many rows as X ({n}), and scikit-learn's cross-validation "
            "silently slices arguments of that length together with X. Pass all rows in a single X "
            "with an is_public mask, or pass an X_public with a different number of rows.",
            SlicedPublicDataWarning,
        )


def read_public(
    estimator: Any,
    X: Table,
    X_public: Any,
    *,
    numeric: bool,
    n_rows: int | None = None,
) -> Table | None:
    """Return the rows of `X_public` after checking that they have the same columns as `X`.

    Parameters
    ----------
    estimator : estimator
        Estimator that stores the number and the names of the columns.
    X : Table
        Rows of the argument `X`, from which only types and memory addresses are read.
    numeric : bool
        Whether text and categorical columns are rejected.
    n_rows : int, optional
        Number of rows of a streamed `X`. If this number is given, `X` is an empty table with the
        columns of the stream.
    """
    if X_public is None:
        return None
    if not isinstance(X_public, DescribedRows):
        check_container(estimator, X_public, "X_public")
        if not count_rows(X_public):
            return None
    if isinstance(X_public, DescribedRows):
        names = getattr(estimator, "feature_names_in_", None)
        zones = [type_.time_zone for type_ in X.types]
        X_public = X_public.in_container(X.container, names, zones)
        if not X.is_frame:
            return Table(X_public)
    shape = tuple(getattr(X_public, "shape", ()))
    is_matched_by_name = hasattr(estimator, "feature_names_in_") and is_frame(X_public)
    if len(shape) == 2 and shape[1] != estimator.n_features_in_ and not is_matched_by_name:
        raise ValueError(
            f"X_public must have the same columns as X; got {shape[1]} columns, but X has "
            f"{estimator.n_features_in_}{pipeline_advice()}"
        )
    try:
        public = read_table(
            estimator, X_public, reset=False, numeric=numeric, name="X_public", kinds=False
        )
    except (TypeError, ValueError) as error:
        raise type(error)(f"X_public is not usable: {error}") from None
    if numeric:
        refuse_text(estimator, public)
    check_separate(X, public, n_rows)
    return public


def refuse_same_rows(X: Any, X_public: Any) -> None:
    """Raise ValueError if the same object is passed as both `X` and `X_public`."""
    if X_public is not None and X_public is X:
        raise ValueError(SHARED_MEMORY)


def shares_memory(X: Any, X_public: Any) -> bool:
    """Indicate whether two arrays, or two frames with as many columns, share memory."""
    if X is X_public:
        return True
    if isinstance(X, np.ndarray) and isinstance(X_public, np.ndarray):
        return np.shares_memory(X, X_public)
    if not (is_frame(X) and is_frame(X_public)):
        return False
    table, public = Table(X), Table(X_public)
    return table.shape[1] == public.shape[1] and _overlap(table, public)


def check_separate(X: Table, public: Table, n_rows: int | None = None) -> None:
    """Raise ValueError if public rows share memory with `X` or have columns of different kinds.

    If the number of public rows suggests that cross-validation has split them, a warning is issued.
    """
    if n_rows is None and _overlap(X, public):
        raise ValueError(SHARED_MEMORY)
    warn_if_sliced(X.shape[0] if n_rows is None else n_rows, public.shape[0])
    check_same_kinds(X, public)


def _overlap(X: Table, public: Table) -> bool:
    """Indicate whether two tables with the same columns share memory in some column."""
    if X.native is public.native:
        return True
    for position, (type_, public_type) in enumerate(zip(X.types, public.types, strict=True)):
        if type_.usable and type_.kind == public_type.kind:
            columns = X.column(position), public.column(position)
            # the exact test is slow, and is only needed if the memory ranges overlap
            if np.may_share_memory(*columns) and np.shares_memory(*columns):
                return True
    return False


def check_same_kinds(X: Table, public: Table) -> None:
    """Raise ValueError if the declared kinds of a column differ between `X` and `X_public`."""
    for name, type_, public_type in zip(column_names(X), X.types, public.types, strict=True):
        # text and categories are treated as one kind
        kinds = {TEXT if t.kind == CATEGORY else t.kind for t in (type_, public_type)}
        # in arrays, booleans are read as the numbers 0 and 1
        are_numbers = not X.is_frame and not public.is_frame and kinds == {NUMBER, BOOLEAN}
        if len(kinds) > 1 and ANYTHING not in kinds and not are_numbers:
            raise ValueError(
                f"Column {name} must contain values of the same type in X and X_public; got "
                f"{type_.kind} in X and {public_type.kind} in X_public. Convert one of them, for "
                "example text to dates."
            )
        if kinds == {DATE} and (type_.time_zone is None) != (public_type.time_zone is None):
            raise ValueError(
                f"Column {name} must contain dates with a time zone in both X and X_public, or in "
                "neither of them. Convert one of them."
            )
