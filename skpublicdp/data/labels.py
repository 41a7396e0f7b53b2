"""Read labels of any container, and encode them as class indices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array

from skpublicdp._internal.redaction import NO_CHECKS, RefusedError, call_or_raise, call_silently
from skpublicdp.exceptions import AmbiguousLabelWarning, warn

UNLABELLED = -1
"""Marks a public row without a label, as in `sklearn.semi_supervised`."""


def label_column(labels: Any, *, listed: bool = False, name: str = "y") -> NDArray[Any]:
    """Return labels as a one-dimensional array of text, booleans or whole numbers.

    No label changes how another one is read. What has no type of numpy's, or that of objects, gets
    that of its set of labels. An error says whether `classes` list what there may be, and calls the
    labels by `name`.
    """
    text = object if hasattr(labels, "__array__") else str  # lists become arrays of text
    if not isinstance(getattr(labels, "dtype", None), np.dtype):
        labels = call_or_raise(np.asarray, labels, dtype=object, error=_refusal("O", listed, name))
    refuse_types(labels, "labels, text or whole numbers")
    refusal = _refusal(labels.dtype.kind, listed, name)
    labels = call_or_raise(check_array, labels, dtype=None, error=refusal, **NO_CHECKS)
    if labels.shape[1:] == (1,):
        warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
        )
        labels = labels[:, 0]
    check_flat(labels)
    plain: NDArray[Any] = call_or_raise(_plain_labels, labels, text, error=refusal)
    return plain


def check_flat(y: NDArray[Any]) -> None:
    """Refuse what is not one label per row, by its shape."""
    if y.ndim != 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {y.shape} instead: y, and y_public, "
            "must hold one value per row."
        )


_KINDS = "all text or all numbers in y, y_public and classes"


def _refusal(kind: str, listed: bool, name: str = "y") -> RefusedError:
    """Return one error for all faults of labels: which of them it is, a private label decides.

    Parameters
    ----------
    kind : str
        Kind of the declared type of the labels.
    listed : bool
        Whether `classes` lists the labels.
    name : str
        Name of the labels in the message.
    """
    unlisted = ", labels that classes does not list" if listed else ""
    if kind == "f":
        faults = f"missing labels{unlisted} or continuous numbers"
        rule = "numbers must be whole and below 2**53 to be labels"
    else:
        faults = f"missing labels{unlisted} or mixed ones"
        rule = f"labels must be {_KINDS}, the numbers whole and below 2**53"
    if name == "y_public":
        return RefusedError(
            f"{name} contains {faults}: mark rows without a label by -1, and use "
            f"SemiPrivateBoostingRegressor for continuous numbers; {rule}."
        )
    return RefusedError(
        f"{name} contains {faults}, and which is withheld, as labels are private: give rows "
        "without a label one of their own, or leave them out if the number of rows may then be "
        f"known, and use SemiPrivateBoostingRegressor for continuous numbers; {rule}."
    )


NO_LABELS = {
    **{"c": "complex numbers", "m": "durations", "M": "dates", "V": "structures"},
    "S": "bytes",
}
"""Types of which no label and no outcome is."""


def refuse_types(y: NDArray[Any], wanted: str) -> None:
    """Refuse an array by its declared type."""
    if y.dtype.kind in NO_LABELS:
        also = "; Complex data not supported" if y.dtype.kind == "c" else ""
        raise RefusedError(
            f"Unknown label type: y and y_public must hold {wanted}; got "
            f"{NO_LABELS[y.dtype.kind]}: convert them{also}."
        )


def check_length(y: Any, n: int) -> None:
    """Refuse labels that are not one for each row, by their container alone."""
    if not hasattr(y, "shape") and hasattr(y, "__array__"):
        y = np.asarray(y)
    shape = getattr(y, "shape", None)
    if isinstance(shape, tuple) and shape:
        found = f"{shape[0]}"
    elif hasattr(y, "__len__") and not isinstance(y, str | bytes | Mapping):
        found = f"{len(y)}"
    else:
        found = "no list or array of them"
    if found != str(n):
        raise ValueError(
            "X and y have inconsistent numbers of samples: y must hold one label per row of X; got "
            f"{found} for {n} rows."
        )


def _plain_labels(labels: NDArray[Any], text: type) -> NDArray[Any]:
    if labels.dtype.kind == "U":
        return labels
    if labels.dtype.kind == "O":
        plain = [_plain(label) for label in labels.tolist()]
        kinds = {type(label) for label in plain if label != UNLABELLED}
        if len(kinds) > 1:
            raise TypeError
        if str in kinds:
            return np.array([str(label) for label in plain], dtype=text)
        marked = UNLABELLED in plain
        labels = np.array(plain, dtype=bool if bool in kinds and not marked else np.int64)
    numbers = labels.astype(np.float64)
    whole = (numbers % 1 == 0) & (np.abs(numbers) < 2**53)
    if labels.dtype.kind not in "biuf" or not whole.all():
        raise ValueError
    return labels


def _plain(label: Any) -> str | bool | int:
    """Return a label as an object of its own, of a type of Python's own."""
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, bool | np.bool_):
        return bool(label)
    if isinstance(label, int | np.integer):
        return int(label)
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return int(label)
    raise TypeError


def encode_labels(
    private: NDArray[Any], public: list[NDArray[Any]], classes: ArrayLike | None
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_], NDArray[Any]]:
    """Return (private codes, public codes, which given public labels are labels, classes).

    All labels are read by `label_column` before.
    """
    declared = None if classes is None else _declared(classes)
    # an array of marks alone does not decide whether labels are text or numbers
    marks = [is_unlabelled(labels) for labels in public]
    if is_unlabelled(private if declared is None else declared).any():
        marks = [np.zeros(len(mark), dtype=bool) for mark in marks]
    given = [labels[~mark] for labels, mark in zip(public, marks, strict=True) if not mark.all()]
    parts = [private, *given] if declared is None else [declared, private, *given]
    refusal = _refusal(private.dtype.kind, declared is not None)
    if len({part.dtype.kind in "OU" for part in parts}) > 1:
        raise refusal
    together = np.concatenate([private, *given])
    known = np.unique(together if declared is None else declared)
    if known.dtype.kind == "U":
        known = np.array(known.tolist())  # as wide as its labels, not as what else was in the array
    codes = np.minimum(np.searchsorted(known, together), len(known) - 1)
    if not (known[codes] == together).all():
        raise refusal
    return codes[: len(private)], codes[len(private) :], ~np.concatenate(marks), known


def _declared(classes: Any) -> NDArray[Any]:
    found, failure = call_silently(label_column, classes)
    if failure is not None or not len(found):
        raise ValueError(
            "classes must list the labels there may be, at least one, all text or all whole "
            "numbers, in one dimension."
        )
    labels: NDArray[Any] = found
    return labels


def _check_kinds(y: Any, classes: Any) -> None:
    """Refuse text beside numbers by the type that `y` was declared to be."""
    kind = str(getattr(getattr(y, "dtype", None), "kind", "O"))
    if classes is None or kind not in "Ubiuf":
        return
    ours, theirs = kind == "U", _declared(classes).dtype.kind in "OU"
    if ours != theirs:
        got = [("numbers", "text")[is_text] for is_text in (ours, theirs)]
        raise ValueError(
            f"Labels must be {_KINDS}; got {got[0]} in y or y_public, and {got[1]} in classes."
        )


def is_unlabelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the labels that mark an unlabelled row."""
    if labels.dtype.kind in "OUS":
        # np.where(mask, -1, strings) turns the mark into text
        return np.array([label in (UNLABELLED, str(UNLABELLED)) for label in labels], dtype=bool)
    return np.asarray(labels == UNLABELLED)


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private values
class Targets:
    """Encoded targets.

    Attributes
    ----------
    private, labelled : ndarray
        Of private rows, and of public rows that have any.
    which : ndarray of bool
        Which of the given public ones these are.
    classes : ndarray or None
        The sorted labels; ``None`` for outcomes.
    bounds : tuple of float, or None
        What outcomes of 0 and 1 were.
    """

    private: NDArray[Any]
    public: NDArray[Any]
    has_target: NDArray[np.bool_]
    classes: NDArray[Any] | None = None
    bounds: tuple[float, float] | None = None


class TargetReader(ABC):
    """Reads and encodes the target `y`: labels or numbers."""

    @abstractmethod
    def column(self, y: Any, name: str = "y") -> NDArray[Any]:
        """Return `y`, or `y_public`, of any container as a one-dimensional array."""

    @abstractmethod
    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Return encoded targets, from arrays that `column` returned."""

    @abstractmethod
    def distinct(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the distinct values of a chunk, which `targets` needs in advance."""

    @abstractmethod
    def encode(self, y: NDArray[Any], targets: Targets) -> NDArray[Any]:
        """Return a chunk as `targets` has its private part."""


@dataclass(frozen=True)
class LabelReader(TargetReader):
    """Labels, all of them in `classes` if these are given.

    Parameters
    ----------
    classes : array-like or None
        All possible labels.
    least : int
        How many there must be.
    """

    classes: ArrayLike | None
    least: int = 1

    def column(self, y: Any, name: str = "y") -> NDArray[Any]:
        """Read labels."""
        _check_kinds(y, self.classes)
        return label_column(y, listed=self.classes is not None, name=name)

    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Encode labels."""
        found = Targets(*encode_labels(private, public, self.classes))
        assert found.classes is not None
        if len(found.classes) < self.least:
            raise ValueError(
                "y must hold at least two classes; got one class only: list the others in classes."
            )
        if self.classes is None and len(found.classes) > 2 and is_unlabelled(found.classes).any():
            warn(
                "y holds -1 beside other labels, so it is learned as one: leave out private rows "
                "without a label, or list -1 in classes if it is one.",
                AmbiguousLabelWarning,
            )
        return found

    def distinct(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the set of labels."""
        return np.unique(y)

    def encode(self, y: NDArray[Any], targets: Targets) -> NDArray[Any]:
        """Return the codes of labels."""
        return encode_labels(y, [y[:0]], targets.classes)[0]


def distinct_targets(kind: TargetReader, y: Any) -> NDArray[Any]:
    """Return the distinct values of a chunk of `y`."""
    series = _countable(y)
    return kind.distinct(kind.column(y if series is None else series.unique().to_native()))


def encode_targets(kind: TargetReader, y: Any, targets: Targets) -> NDArray[Any]:
    """Return the encoded targets of a chunk of `y`."""
    if targets.classes is not None and not len(y):
        return np.empty(0, dtype=np.intp)  # no labels are of no kind
    series = None if targets.classes is None else _countable(y)
    if series is None:
        return kind.encode(kind.column(y), targets)
    if series.dtype.is_integer() and not series.null_count():
        return _codes_of_integers(kind, np.asarray(series.to_numpy()), targets)
    labels = series.unique()
    codes = kind.encode(kind.column(labels.to_native()), targets)
    listed = labels.to_list()
    found = series.replace_strict(listed, codes.tolist(), return_dtype=nw.Int64).to_numpy()
    return np.asarray(found, dtype=np.intp)


def _codes_of_integers(kind: TargetReader, y: NDArray[Any], targets: Targets) -> NDArray[np.intp]:
    low, high = int(y.min()), int(y.max())
    if high - low > len(y):
        return np.asarray(kind.encode(kind.column(y), targets), dtype=np.intp)
    places = y.astype(np.int64) - low if y.dtype.itemsize < 8 else (y - y.dtype.type(low))
    places = places.astype(np.intp, copy=False)
    occur = np.flatnonzero(np.bincount(places))
    codes = np.zeros(high - low + 1, dtype=np.intp)
    codes[occur] = kind.encode(kind.column((occur + low).astype(y.dtype)), targets)
    encoded: NDArray[np.intp] = np.take(codes, places)
    return encoded


def _countable(y: Any) -> Any:
    """Return y as a series with fast `unique`, or None."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series) or not len(series):
        return None
    quick = series.dtype in (nw.String, nw.Boolean) or series.dtype.is_integer()
    return series if quick else None
