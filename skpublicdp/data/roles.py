"""Validate the roles of rows: masks of public rows and groups of one person."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import call_silently
from skpublicdp.exceptions import SlicedPublicDataWarning, warn

NAMES_OF_PERSONS = (
    "groups must name one person per row of X by a number or a text; got something else: give "
    "each person a number."
)


def check_mask(
    mask: ArrayLike | None, n: int, name: str = "is_public", unknown: str = "private"
) -> NDArray[np.bool_]:
    """Validate a mask: a boolean per row, False by default."""
    if mask is None:
        return np.zeros(n, dtype=bool)
    given: NDArray[Any]
    given, failure = call_silently(np.asarray, mask)
    if failure is not None:
        raise ValueError(
            f"{name} must hold one boolean per row of X, shape ({n},); got rows of several lengths."
        )
    if given.shape != (n,):
        raise ValueError(
            f"{name} must hold one boolean per row of X, shape ({n},); got shape {given.shape}."
        )
    if given.dtype == bool:
        return given
    if given.dtype.kind in "OiufT" and all(_is_yes_or_no(status) for status in given.tolist()):
        return given.astype(bool)
    raise ValueError(
        f"{name} must hold True or False (or 1 or 0) for every row, and some value is neither; a "
        f"row of unknown status is {unknown}: pass {name}.eq(1), or {name} == 1 for arrays."
    )


def check_index(X: Any, **given: Any) -> None:
    """Refuse a series of pandas whose rows are named otherwise than those of a frame.

    Whose row is public, or whose person's it is, must not be another one's status.
    """
    for name, series in given.items():
        if not (hasattr(X, "iloc") and hasattr(series, "iloc")) or len(series) != len(X):
            continue
        alike, _ = call_silently(lambda series=series: bool(series.index.equals(X.index)))
        if not alike:
            raise ValueError(
                f"{name} must have the index of X, and has another one: bring it into the order of "
                f"X by {name}.loc[X.index], or pass {name}.to_numpy() where it is in that order."
            )


def _is_yes_or_no(status: Any) -> bool:
    return isinstance(status, bool | int | float) and status in (0, 1)


def is_missing_person(person: Any) -> bool:
    """Indicate whether a group is None, NaN or another value that does not equal itself."""
    try:
        return person is None or bool(person != person)
    except TypeError:  # pandas.NA does not say
        return True


def cap_rows_per_group(
    estimator: Any, groups: Any, private: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return a mask of the private rows that count: the first `max_rows_per_group` of each person.

    Parameters
    ----------
    estimator : estimator
        Its `max_rows_per_group` says how many.
    groups : array-like, shape (n,), or None
        Whose row each is; who has which rows is public.
    private : ndarray of bool, shape (n,)
        Which rows are private.
    """
    most = estimator.max_rows_per_group
    if groups is None:
        if most is None:
            return private
        raise ValueError(
            f"max_rows_per_group={most} needs groups, whose row each row of X is; pass groups to "
            "fit, by metadata routing inside a pipeline or a search."
        )
    if most is None:
        raise ValueError(
            "groups needs max_rows_per_group, the most rows of one person that count; set it."
        )
    persons, failure = call_silently(np.asarray, groups)
    if failure is not None:
        raise ValueError(NAMES_OF_PERSONS)
    if persons.shape != private.shape:
        raise ValueError(
            f"groups must name one person per row of X, shape {private.shape}; got shape "
            f"{persons.shape}."
        )
    seen: dict[Any, int] = {}
    kept = private.copy()
    for position in np.flatnonzero(private).tolist():
        person = persons[position]
        if is_missing_person(person):
            raise ValueError("groups must name a person for every private row; one is missing.")
        if not isinstance(person, Hashable):
            raise ValueError(NAMES_OF_PERSONS)
        seen[person] = seen.get(person, 0) + 1
        kept[position] = seen[person] <= most
    return kept


def warn_if_sliced(n: int, n_public: int) -> None:
    """Warn that a cross-validation may have sliced `X_public` together with `X`."""
    if n == n_public:
        warn(
            f"X_public has exactly as many rows as X ({n}): scikit-learn's cross-validation slices "
            "every such argument with X, silently. Pass the rows in one X with an is_public mask, "
            "or an X_public of another length.",
            SlicedPublicDataWarning,
        )
