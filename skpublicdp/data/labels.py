"""Labels in any container: read one by one, compared, and encoded as class indices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array

from skpublicdp._internal.redaction import NO_CHECKS, RefusedError, call_or_raise, call_silently
from skpublicdp.data.column import MAX_EXACT_INTEGER
from skpublicdp.data.tables import (
    ANYTHING,
    BOOLEAN,
    NUMBER,
    TEXT,
    as_series,
    count_rows,
    declared_type,
    distinct_values,
    integer_values,
    replace_values,
)
from skpublicdp.data.validation import kind_of_type
from skpublicdp.exceptions import AmbiguousLabelWarning, warn
from skpublicdp.typing import Codes, Mask

UNLABELLED = -1
"""Label that marks an unlabelled public row, as in `sklearn.semi_supervised`."""


def label_column(labels: Any, *, listed: bool = False, name: str = "y") -> NDArray[Any]:
    """Convert labels to an array of text, booleans or whole numbers, shape (n,).

    Each label is read independently. A list, a series from another library or an array of dtype
    object is converted to the common type of its distinct labels.

    Parameters
    ----------
    labels : array-like, shape (n,) or (n, 1)
        Labels in any container.
    listed : bool
        Whether `classes` lists all labels, which affects only the error message.
    name : str
        Name of the labels in the error message.
    """
    # as in scikit-learn, text in a list is converted to a numpy text type, and text in an array
    # keeps dtype object
    text_dtype = object if hasattr(labels, "__array__") else str
    label_kind(labels)  # dates, for example, are refused by the name of their type
    dtype = getattr(labels, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "T":
        raise RefusedError(
            f"{name} has numpy's type StringDType, which cross-validation in scikit-learn does not "
            f"support. Pass {name}.astype(str)."
        )
    is_masked = isinstance(labels, np.ma.MaskedArray)
    dtype_kind = dtype.kind if isinstance(dtype, np.dtype) and not is_masked else "O"
    refusal = invalid_labels_error(dtype_kind, listed, name)
    if is_masked:
        labels = call_or_raise(labels.astype(object).filled, None, error=refusal)
    elif not isinstance(dtype, np.dtype):
        labels = call_or_raise(np.asarray, labels, dtype=object, error=refusal)
    labels = call_or_raise(check_array, labels, dtype=None, error=refusal, **NO_CHECKS)
    is_column_vector = labels.shape[1:] == (1,)
    if is_column_vector:
        warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
        )
        labels = labels[:, 0]
    check_flat(labels)
    return call_or_raise(_plain_labels, labels, text_dtype, error=refusal)


def label_kind(labels: Any) -> str:
    """Return TEXT or NUMBER if the declared type of labels is one of these, or else ANYTHING.

    Booleans are numbers. The type of a list or an array of dtype object is open. A RefusedError is
    raised for types that have no labels, such as dates.
    """
    refuse_types(labels, "labels, text or whole numbers")
    kind = kind_of_type(declared_type(labels))
    return NUMBER if kind == BOOLEAN else kind


def kind_of_labels(labels: Sequence[Any] | NDArray[Any]) -> str:
    """Return TEXT or NUMBER for public labels, according to their values, or else ANYTHING."""
    kinds = {TEXT if isinstance(label, str) else NUMBER for label in list(labels)}
    return kinds.pop() if len(kinds) == 1 else ANYTHING


def check_comparable(**kinds: str) -> None:
    """Raise ValueError if labels are text in one argument and numbers in another."""
    names = {kind: [n for n, k in kinds.items() if k == kind] for kind in (TEXT, NUMBER)}
    if names[TEXT] and names[NUMBER]:
        raise ValueError(
            "Labels must be all text or all numbers, since text never equals a number; got text in "
            f"{' and '.join(names[TEXT])}, and numbers in {' and '.join(names[NUMBER])}. Convert "
            "the labels to one type."
        )


def label_entries(name: str, labels: Any) -> NDArray[Any]:
    """Return the labels in any container, valid or not, as an array, shape (n,).

    Arrays of numbers or text keep their type, and other labels become objects. Errors quote no
    label.
    """
    return call_or_raise(_as_entries, labels, error=unreadable(name))


def unreadable(name: str) -> ValueError:
    """Return the error to raise if private labels or scores are not one-dimensional."""
    return ValueError(f"{name} must be a one-dimensional array or list with one entry per row.")


def _as_entries(labels: Any) -> NDArray[Any]:
    """Return the same labels as `label_entries`, but with exceptions that can quote a label."""
    labels = as_series(labels)
    has_numpy_dtype = isinstance(getattr(labels, "dtype", None), np.dtype)
    if has_numpy_dtype and not isinstance(labels, np.ma.MaskedArray):
        entries = np.asarray(labels)
        if entries.dtype.kind not in "biufU":  # neither booleans, numbers nor text
            entries = entries.astype(object)
    else:
        # numpy would infer the dtype of a list from all rows, so one row would affect other rows
        to_list = getattr(labels, "to_pylist", getattr(labels, "tolist", None))
        values = list(labels) if to_list is None else to_list()
        entries = np.empty(len(values), dtype=object)
        for row, value in enumerate(values):  # slice assignment would unpack nested lists
            entries[row] = value
    if entries.ndim == 2 and entries.shape[1] == 1:
        entries = entries[:, 0]
    if entries.ndim != 1:
        raise ValueError
    return entries


def check_flat(y: NDArray[Any]) -> None:
    """Raise ValueError unless `y` is one-dimensional."""
    if y.ndim != 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {y.shape} instead: y and y_public "
            "must contain one value per row."
        )


_SAME_KINDS = "all text or all numbers in y, y_public and classes"
"""Rule about label types, quoted in error messages."""


def invalid_labels_error(kind: str, listed: bool, name: str = "y") -> RefusedError:
    """Return the same error for all invalid labels, since private labels determine the fault.

    The kind is numpy's `dtype.kind` of the labels, and `listed` says whether `classes` lists all of
    them.
    """
    unlisted = ", labels that are not listed in classes" if listed else ""
    if kind == "f":
        faults = f"missing labels{unlisted} or continuous numbers"
        rule = "numeric labels must be whole numbers below 2**53"
    else:
        faults = f"missing labels{unlisted} or labels of mixed types"
        rule = (
            f"labels must be {_SAME_KINDS}, and numbers must be integers of up to 64 bits, or "
            "whole floats below 2**53"
        )
    if name == "y_public":
        return RefusedError(
            f"{name} contains {faults}; {rule}. Mark unlabelled rows with -1, and use "
            "SemiPrivateBoostingRegressor for continuous numbers."
        )
    return RefusedError(
        f"{name} contains {faults} (which of these is withheld, because labels are private); "
        f"{rule}. Drop unlabelled rows if the number of rows may be public, or give them a "
        "separate label, and use SemiPrivateBoostingRegressor for continuous numbers."
    )


def refuse_types(y: Any, expected: str) -> None:
    """Raise RefusedError if the declared type of labels or outcomes is invalid for them."""
    kind = kind_of_type(declared_type(y))
    if kind not in (TEXT, NUMBER, BOOLEAN, ANYTHING):
        sklearn_phrase = " Complex data not supported." if kind == "complex numbers" else ""
        raise RefusedError(
            f"Unknown label type: y and y_public must contain {expected}; got {kind}, which must "
            f"be converted.{sklearn_phrase}"
        )


def _plain_labels(labels: NDArray[Any], text_dtype: type) -> NDArray[Any]:
    """Return an array of labels of a single type, which is text, boolean or whole numbers.

    If labels are invalid, the error has no message and is replaced by the caller. `UNLABELLED` is
    ignored when the common type is determined. Text labels have the type `text_dtype`: `str`, or
    `object`.
    """
    if labels.dtype.kind == "U":
        return labels
    if labels.dtype.kind == "O":
        plain = [_plain_label(label) for label in labels.tolist()]
        label_types = {type(label) for label in plain if label != UNLABELLED}
        if len(label_types) > 1:
            raise TypeError
        if str in label_types:
            return np.array([str(label) for label in plain], dtype=text_dtype)
        is_boolean = bool in label_types and UNLABELLED not in plain
        return np.array(plain, dtype=bool) if is_boolean else integer_array(list(map(int, plain)))
    if labels.dtype.kind == "f":
        numbers = labels.astype(np.float64)
        # a larger float may be a rounded integer
        if not ((numbers % 1 == 0) & (np.abs(numbers) < MAX_EXACT_INTEGER)).all():
            raise ValueError
    elif labels.dtype.kind not in "biu":
        raise ValueError
    return labels


def integer_array(numbers: list[int]) -> NDArray[Any]:
    """Return integers as int64 or, if they are too large, as uint64; raise OverflowError else."""
    fits = all(number < 2**63 for number in numbers)
    return np.array(numbers, dtype=np.int64 if fits else np.uint64)


def _plain_label(label: Any) -> str | bool | int:
    """Convert a label to a built-in str, bool or int, or raise TypeError."""
    plain = plain_scalar(label)
    if isinstance(plain, float):
        # a larger float may be a rounded integer
        if not (plain.is_integer() and abs(plain) < MAX_EXACT_INTEGER):
            raise TypeError
        return int(plain)
    return plain


def plain_scalar(label: Any) -> str | bool | int | float:
    """Convert a label to a built-in type, since a subclass can redefine equality.

    A TypeError is raised for labels that are neither text nor booleans nor numbers.
    """
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, bool | np.bool_):
        return bool(label)
    if isinstance(label, int | np.integer):
        return int(label)
    if isinstance(label, float | np.floating):
        return float(label)
    if isinstance(label, Decimal | Fraction):
        return int(label) if label % 1 == 0 else float(label)
    raise TypeError("Labels must be text, booleans or numbers.")


def label_positions(labels: NDArray[Any], classes: Sequence[Any]) -> Codes:
    """Return the position of each label among distinct classes, or -1 for other labels.

    Numbers are compared exactly: a large integer does not equal another one that has the same
    float.
    """
    if labels.dtype.kind not in "biuf":
        position_of_class = {label: position for position, label in enumerate(classes)}
        positions = [position_of_class.get(label, -1) for label in labels.tolist()]
        return np.array(positions, dtype=np.intp)
    position_of_number: dict[Any, int] = {}
    for position, label in enumerate(classes):
        number = _convert_exactly(label, labels.dtype)
        if number is not None:
            position_of_number.setdefault(number, position)
    if not position_of_number:
        return np.full(len(labels), -1, dtype=np.intp)
    sorted_numbers = sorted(position_of_number)
    positions_by_number = np.array([position_of_number[number] for number in sorted_numbers])
    numbers = np.array(sorted_numbers, dtype=labels.dtype)
    first_not_below = np.searchsorted(numbers, labels)
    nearest = np.minimum(first_not_below, len(numbers) - 1)
    is_equal = numbers[nearest] == labels
    return np.where(is_equal, positions_by_number[nearest], -1)


def _convert_exactly(label: Any, dtype: np.dtype[Any]) -> Any:
    """Return a class as a number of a dtype, or None if no number of this dtype equals it."""
    try:
        with np.errstate(all="ignore"):
            number = dtype.type(label).item()
    except (OverflowError, ValueError):
        return None
    return number if number == label else None


def labels_equal(one: NDArray[Any], other: NDArray[Any]) -> Mask:
    """Return whether the two labels of each row are equal, where numbers are compared exactly.

    Objects that are not labels must differ from everything.
    """
    kinds = {one.dtype.kind, other.dtype.kind}
    if not kinds <= set("biuf"):
        pairs = zip(one.tolist(), other.tolist(), strict=True)
        are_equal = (left == right for left, right in pairs)
        return np.fromiter(are_equal, bool, len(one))
    is_equal = np.asarray(one == other)
    if "f" in kinds and kinds & set("iu"):  # numpy compares rounded integers
        floats = one if one.dtype.kind == "f" else other
        is_large = np.abs(floats) >= MAX_EXACT_INTEGER
        for row in np.flatnonzero(is_equal & is_large):
            exact_label = one[row].item()
            other_label = other[row].item()
            is_equal[row] = exact_label == other_label
    return is_equal


def is_unlabelled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask that is True for unlabelled rows, whose label is -1 or "-1"."""
    if labels.dtype.kind in "OUS":  # objects or text
        # np.where(mask, -1, strings) would convert -1 to text
        return np.array([label in (UNLABELLED, str(UNLABELLED)) for label in labels], dtype=bool)
    return np.asarray(labels == UNLABELLED)


def require_target(estimator: Any, y: Any) -> None:
    """Raise ValueError if the argument `y` of an estimator's `fit` is missing."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")


def check_length(y: Any, n: int) -> None:
    """Raise ValueError unless the container `y`, whose values are not read, has length `n`."""
    length = count_rows(y)
    if length != n:
        raise ValueError(
            "X and y have inconsistent numbers of samples: y must contain one label per row of X; "
            f"got {'no list or array of labels' if length is None else length} for {n} rows."
        )


class LabelCodes(NamedTuple):
    """Codes of private and public labels, which are positions in the sorted array of classes."""

    private: Codes
    """Codes of the private labels."""
    public: Codes
    """Codes of the public labels, without the entries that mark unlabelled rows."""
    has_label: Mask
    """Mask of the labelled public rows."""
    classes: NDArray[Any]
    """The sorted labels."""


def encode_labels(
    private: NDArray[Any], public: list[NDArray[Any]], classes: ArrayLike | None
) -> LabelCodes:
    """Return the codes of private and public labels and the sorted array of classes.

    A public label of -1 marks an unlabelled row, unless -1 is itself a class. Without `classes`,
    these are the labels that occur.
    """
    declared = None if classes is None else _declared_classes(classes)
    unlabelled = [is_unlabelled(labels) for labels in public]
    if is_unlabelled(private if declared is None else declared).any():
        unlabelled = [np.zeros(len(mask), dtype=bool) for mask in unlabelled]
    # a part without labels does not show whether labels are text or numbers
    public_parts = [
        labels[~mask] for labels, mask in zip(public, unlabelled, strict=True) if not mask.all()
    ]
    parts = [private, *public_parts]
    refusal = invalid_labels_error(private.dtype.kind, declared is not None)
    typed_parts = parts if declared is None else [declared, *parts]
    if len({part.dtype.kind in "OU" for part in typed_parts}) > 1:
        raise refusal
    labels = concatenate_labels(parts, refusal)
    label_set = np.unique(labels if declared is None else declared)
    if label_set.dtype.kind == "U":
        # the width of the text type must not depend on other values in the array
        label_set = np.array(label_set.tolist())
    codes = label_positions(labels, label_set.tolist())
    if (codes < 0).any():
        raise refusal
    return LabelCodes(
        codes[: len(private)], codes[len(private) :], ~np.concatenate(unlabelled), label_set
    )


def concatenate_labels(parts: list[NDArray[Any]], refusal: RefusedError) -> NDArray[Any]:
    """Concatenate arrays of labels, in a type that holds each integer exactly.

    The error `refusal` is raised if no such type exists.
    """
    is_integer = [part.dtype.kind in "iu" for part in parts]
    if any(is_integer) and np.result_type(*parts).kind == "f":
        integers = [int(label) for part in parts for label in part.tolist()]
        return call_or_raise(integer_array, integers, error=refusal)
    return np.concatenate(parts)


def _declared_classes(classes: Any) -> NDArray[Any]:
    """Return the parameter `classes` as an array of labels."""
    column, failure = call_silently(label_column, classes)
    if failure is not None or not len(column):
        raise ValueError(
            "classes must be a one-dimensional list of all possible labels, and the labels must be "
            "all text or all whole numbers. It must contain at least one label."
        )
    return column


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private values
class Targets:
    """Encoded targets of a fit, which are label codes or outcomes scaled to [0, 1]."""

    private: NDArray[Any]  # (n,): targets of the private rows
    public: NDArray[Any]  # (m_labelled,): targets of those public rows that have one
    has_target: NDArray[np.bool_]  # (m,): mask of the public rows that have a target
    classes: NDArray[Any] | None = None  # the sorted labels, or None for outcomes
    # the two outcomes that are scaled to 0 and 1, or None for labels
    bounds: tuple[float, float] | None = None


class TargetReader(ABC):
    """Reader of the target `y`, which encodes labels as codes and outcomes as numbers in [0, 1].

    For rows in memory, a fit calls `column` and `targets`. For streamed rows, a fit calls
    `distinct` for each chunk, `targets` for the distinct values in all chunks, and then `encode`
    for each chunk.
    """

    @abstractmethod
    def column(self, y: Any, name: str = "y") -> NDArray[Any]:
        """Return the argument `y` or `y_public` as an array, shape (n,)."""

    def check_public(self, y: Any, public: list[NDArray[Any]]) -> None:  # noqa: B027
        """Raise an error if the declared type of `y` does not suit the public targets."""

    @abstractmethod
    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Return the encoded targets of private rows and of public rows in several parts.

        All arrays are read by `column`.
        """

    @abstractmethod
    def distinct(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the distinct values in a chunk that must be known before chunks are encoded.

        For labels, all distinct values must be known, since the codes are positions among all
        labels. An encoder that needs no values in advance returns an empty array.
        """

    @abstractmethod
    def encode(self, y: NDArray[Any], targets: Targets) -> NDArray[Any]:
        """Return the targets of a chunk, shape (n,), with the encoding of `targets.private`."""


@dataclass(frozen=True)
class LabelReader(TargetReader):
    """Reader that encodes the labels of a classifier as class indices."""

    # All possible labels. With ``None``, the classes are the labels that occur.
    classes: ArrayLike | None
    min_classes: int = 1  # minimum number of classes

    def column(self, y: Any, name: str = "y") -> NDArray[Any]:
        """Convert labels to an array of text, booleans or whole numbers."""
        if self.classes is not None:
            declared = kind_of_labels(_declared_classes(self.classes))
            check_comparable(**{name: label_kind(y)}, classes=declared)
        return label_column(y, listed=self.classes is not None, name=name)

    def check_public(self, y: Any, public: list[NDArray[Any]]) -> None:
        """Raise an error if `y` is text and public labels are numbers, or the other way round."""
        for labels in public:
            if not is_unlabelled(labels).all():
                check_comparable(y=label_kind(y), y_public=kind_of_labels(labels.tolist()))

    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Return the class indices of private and public labels."""
        codes = encode_labels(private, public, self.classes)
        classes = codes.classes
        if len(classes) < self.min_classes:
            raise ValueError(
                "y must contain at least two classes; got one class only. List the others in the "
                "parameter classes."
            )
        if self.classes is None and len(classes) > 2 and is_unlabelled(classes).any():
            warn(
                "y contains -1 and at least two other labels, so -1 is treated as a class. Drop "
                "the rows with -1 if it marks private rows without a label, or list -1 in classes "
                "if it is a label.",
                AmbiguousLabelWarning,
            )
        return Targets(codes.private, codes.public, codes.has_label, classes)

    def distinct(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the sorted distinct labels in a chunk."""
        return np.unique(y)

    def encode(self, y: NDArray[Any], targets: Targets) -> NDArray[Any]:
        """Return the class indices of the labels of a chunk."""
        return encode_labels(y, [y[:0]], targets.classes).private


def distinct_targets(target_reader: TargetReader, y: Any) -> NDArray[Any]:
    """Return the distinct values in a chunk of `y` that must be known before encoding.

    If the container can find distinct values quickly, only these values are converted.
    """
    distinct = distinct_values(y)
    return target_reader.distinct(target_reader.column(y if distinct is None else distinct))


def encode_targets(target_reader: TargetReader, y: Any, targets: Targets) -> NDArray[Any]:
    """Return the encoded targets of a chunk of `y`.

    If the container can find distinct values quickly, each distinct label is encoded only once.
    """
    if targets.classes is not None and not len(y):
        return np.empty(0, dtype=np.intp)  # the type of an empty chunk may be invalid for labels
    if targets.classes is None:
        return target_reader.encode(target_reader.column(y), targets)
    integers = integer_values(y)
    if integers is not None:
        return _encode_integers(target_reader, integers, targets)
    distinct = distinct_values(y)
    if distinct is None:
        return target_reader.encode(target_reader.column(y), targets)
    codes = target_reader.encode(target_reader.column(distinct), targets)
    return replace_values(y, distinct, codes)


def _encode_integers(target_reader: TargetReader, y: NDArray[Any], targets: Targets) -> Codes:
    """Return the class indices of integer labels, of which there is at least one.

    If the range of the labels is shorter than the array, each distinct label is encoded once, in a
    lookup table over this range.
    """
    low = int(y.min())
    max_offset = int(y.max()) - low
    if max_offset > len(y):
        column = target_reader.column(y)
        return np.asarray(target_reader.encode(column, targets), dtype=np.intp)
    # narrow types are widened, since differences could overflow; uint64 does not fit into int64
    wide_labels = y if y.dtype.itemsize == 8 else y.astype(np.int64)
    offsets = wide_labels - wide_labels.dtype.type(low)
    offsets = offsets.astype(np.intp, copy=False)
    counts = np.bincount(offsets)
    distinct_offsets = np.flatnonzero(counts)
    # Python's integers, since neither int64 nor uint64 holds all sums
    distinct_labels = [low + offset for offset in distinct_offsets.tolist()]
    code_of_offset = np.zeros(max_offset + 1, dtype=np.intp)
    labels = np.array(distinct_labels, y.dtype)
    column = target_reader.column(labels)
    code_of_offset[distinct_offsets] = target_reader.encode(column, targets)
    return np.take(code_of_offset, offsets)
