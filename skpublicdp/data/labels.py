"""Encode labels as class indices, and outcomes as numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import RefusedError, call_or_raise, call_silently
from skpublicdp.data.label_values import (
    check_comparable,
    integer_array,
    invalid_labels_error,
    is_unlabelled,
    kind_of_labels,
    label_column,
    label_kind,
    label_positions,
)
from skpublicdp.data.series import distinct_values, integer_values, replace_values
from skpublicdp.data.tables import count_rows
from skpublicdp.exceptions import AmbiguousLabelWarning, warn
from skpublicdp.typing import Codes, Mask


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

    A public label of -1 marks an unlabelled row, unless -1 is itself a class.

    Parameters
    ----------
    private : ndarray, shape (n,)
        Private labels, read by `label_column`.
    public : list of ndarray
        Public labels in several parts, read by `label_column`.
    classes : array-like or None
        All possible labels. With ``None``, the classes are the labels that occur.
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
        labels: NDArray[Any] = call_or_raise(integer_array, integers, error=refusal)
        return labels
    return np.concatenate(parts)


def _declared_classes(classes: Any) -> NDArray[Any]:
    """Return the parameter `classes` as an array of labels."""
    column, failure = call_silently(label_column, classes)
    if failure is not None or not len(column):
        raise ValueError(
            "classes must be a one-dimensional list of all possible labels, and the labels must be "
            "all text or all whole numbers. It must contain at least one label."
        )
    labels: NDArray[Any] = column
    return labels


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

    This function generalises `target_reader.distinct` to any container. If the container can find
    distinct values quickly, only these values are converted.
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
    low, high = int(y.min()), int(y.max())
    if high - low > len(y):
        return np.asarray(target_reader.encode(target_reader.column(y), targets), dtype=np.intp)
    # narrow types are widened, since differences could overflow; uint64 does not fit into int64
    is_64_bit = y.dtype.itemsize == 8
    offsets = y - y.dtype.type(low) if is_64_bit else y.astype(np.int64) - low
    offsets = offsets.astype(np.intp, copy=False)
    distinct_offsets = np.flatnonzero(np.bincount(offsets))
    # Python's integers, since neither int64 nor uint64 holds all sums
    distinct_labels = np.array([low + offset for offset in distinct_offsets.tolist()], y.dtype)
    code_of_offset = np.zeros(high - low + 1, dtype=np.intp)
    code_of_offset[distinct_offsets] = target_reader.encode(
        target_reader.column(distinct_labels), targets
    )
    encoded: Codes = np.take(code_of_offset, offsets)
    return encoded
