"""Codes of labels, and the release of one table per label: own and other rows by score.

Each row is counted once among the own rows of its label, and once among the other rows of every
other label. Since counts of own rows have a lower sensitivity, they are measured separately.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp._internal.redaction import RefusedError, call_or_raise
from skpublicdp.accounting import Noise
from skpublicdp.data.labels import (
    check_comparable,
    kind_of_labels,
    label_entries,
    label_kind,
    label_positions,
    labels_equal,
    plain_scalar,
    unreadable,
)
from skpublicdp.data.tables import count_rows
from skpublicdp.metrics.noisy_counts import (
    SCORES_PROOF,
    TABLE_SENSITIVITY,
    NoisyTable,
    adjust_to_totals,
    others_sensitivity,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats, Integers

_NUMERIC_KINDS = "biuf"
"""Kinds of NumPy dtypes for booleans, integers and floats."""

ESTIMATOR_FAILED = (
    "{method} of the estimator must return one {content} per row of X, but it failed or returned a "
    "different shape; the reason is withheld, because it may quote private rows. Try the estimator "
    "on public rows."
)


def check_lengths(**columns: Any) -> int:
    """Return the number of rows shared by all containers, or raise ValueError if they differ."""
    counts = {name: _count_entries(name, column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(
            f"All arguments must have one entry per row; got different lengths: {listed}."
        )
    return next(iter(counts.values()))


def _count_entries(name: str, column: Any) -> int:
    """Return the number of rows of a container, or raise ValueError if it is empty."""
    n = count_rows(column)
    if n is None:
        raise ValueError(
            f"{name} must be a container of rows, such as an array or a list; got an object of "
            f"type {type(column).__name__}."
        )
    if not n:
        raise ValueError(f"{name} must contain at least one row; got none.")
    return n


def public_labels(name: str, classes: Any) -> list[Any]:
    """Return public labels as distinct Python scalars, in the given order."""
    class_array = np.asarray(classes, dtype=object)
    labels = [plain_scalar(label) for label in class_array.ravel()]
    if class_array.ndim != 1 or len(set(labels)) < len(labels) or not labels:
        raise ValueError(f"{name} must be a list of one or more distinct labels; got {classes!r}.")
    return labels


def check_label_kinds(classes: list[Any] | None = None, **labels: Any) -> None:
    """Raise an error if labels can never agree, according to their declared types alone."""
    kinds = {name: label_kind(column) for name, column in labels.items()}
    if classes is not None:
        kinds["the classes"] = kind_of_labels(classes)
    check_comparable(**kinds)


def label_codes(name: str, labels: Any, classes: list[Any]) -> Codes:
    """Return the index of each label among the classes, or -1 for an unknown label."""
    return label_positions(_scalar_entries(name, labels), classes)


def unknown_as_error(codes: Codes, predicted: Codes, n_labels: int) -> tuple[Codes, Codes]:
    """Replace each unknown true label with a wrong class, so it is counted as an error.

    The wrong class follows the predicted class. An unknown prediction becomes the class after the
    true label.
    """
    predicted = np.where(predicted < 0, (codes + 1) % n_labels, predicted)
    return np.where(codes < 0, (predicted + 1) % n_labels, codes), predicted


def contingency_table(codes: Codes, bins: Codes, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return the number of rows in each cell of a table with `shape` (n_labels, n_bins)."""
    flat = np.bincount(codes * shape[1] + bins, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64)


def labels_agree(y_true: Any, y_pred: Any) -> NDArray[np.bool_]:
    """Return whether the two labels of each row are equal.

    Incomparable labels are treated as unequal.
    """
    return labels_equal(_scalar_entries("y_true", y_true), _scalar_entries("y_pred", y_pred))


def score_column(name: str, scores: Any) -> Floats:
    """Return scores as floats of shape (n,); an error message never contains a score."""
    return np.asarray(call_or_raise(_as_float_column, scores, error=unreadable(name)))


def outcome_column(name: str, outcomes: Any) -> Floats:
    """Return outcomes as floats of shape (n,). Entries that are not numbers become NaN."""
    column = label_entries(name, outcomes)
    if column.dtype.kind in _NUMERIC_KINDS:
        return column.astype(np.float64)
    entries = call_or_raise(_as_floats, column.tolist(), error=unreadable(name))
    return np.array(entries, dtype=np.float64)


def call_estimator(estimator: Any, method: str, X: Any, n: int, width: int | None = None) -> Any:
    """Return the result of applying an estimator's method to private rows.

    Warnings are suppressed, and any error is replaced with an error that contains no private value.
    The result must have shape (n,), or (n, width) if `width` is given.
    """
    content = "score for each class" if width else "value"
    error = RefusedError(ESTIMATOR_FAILED.format(method=method, content=content))
    # numpy would convert a list of numbers and strings to strings
    as_array: Any = partial(label_entries, method) if method == "predict" else np.asarray
    result = call_or_raise(lambda: as_array(getattr(estimator, method)(X)), error=error)
    if result.shape != ((n,) if width is None else (n, width)):
        raise error
    return result


def _scalar_entries(name: str, labels: Any) -> NDArray[Any]:
    """Return labels as an array of built-in scalars.

    A label without a scalar form is replaced with an object that is unequal to everything.
    """
    column = label_entries(name, labels)
    if column.dtype.kind != "O":
        return column
    scalars = np.empty(len(column), dtype=object)
    scalars[:] = call_or_raise(_comparable_scalars, column.tolist(), error=unreadable(name))
    return scalars


def _comparable_scalars(labels: list[Any]) -> list[Any]:
    """Return labels as built-in scalars, or objects that are unequal to everything."""
    scalars: list[Any] = []
    for label in labels:
        try:
            is_column = isinstance(label, list | tuple) and len(label) == 1
            scalars.append(plain_scalar(label[0] if is_column else label))
        except Exception:
            scalars.append(object())
    return scalars


def _as_floats(entries: list[Any]) -> list[float]:
    """Return each entry as a float. Entries that cannot be converted become NaN."""
    floats = []
    for entry in entries:
        try:
            floats.append(float(entry))
        except Exception:
            floats.append(np.nan)
    return floats


def _as_float_column(scores: Any) -> Floats:
    """Return scores as floats of shape (n,), with masked scores as NaN.

    Error messages may quote scores.
    """
    column = np.ma.filled(np.ma.asarray(scores, dtype=np.float64), np.nan)
    if column.ndim != 1:
        raise ValueError
    return column


def release_label_tables(
    exact: Integers, own_noise: Noise, other_noise: Noise, ledger: Ledger, confusion: NoisyTable
) -> tuple[NoisyTable, ...]:
    """Release a table for each label: its other rows and own rows by the bin of its score.

    Each table is consistent with the label's number of rows in the confusion matrix.

    Parameters
    ----------
    exact : ndarray of int64, shape (n_labels, 2, n_bins)
        Exact private counts.
    own_noise, other_noise : Gaussian or Pure
        Privacy costs of counting the own rows and the other rows, which determine the noise scales.
    confusion : NoisyTable
        The released confusion matrix.
    """
    n_labels, _, n_bins = exact.shape
    stage = f"{own_noise.noise_name} on rows of each label by its score"
    own = ledger.add_noise(
        exact[:, 1].copy(), TABLE_SENSITIVITY, own_noise, name=stage, proof=SCORES_PROOF
    )
    stage = f"{other_noise.noise_name} on rows of the other labels by the score of each label"
    sensitivity = others_sensitivity(n_labels)
    other = ledger.add_noise(
        exact[:, 0].copy(), sensitivity, other_noise, name=stage, proof=SCORES_PROOF
    )
    is_own = np.repeat([False, True], n_bins)
    totals, clipped_totals = confusion.counts.sum(1), confusion.nonnegative.sum(1)
    # indicator of the cells of each true label, (n_labels, n_labels * n_labels)
    label_weights = np.repeat(np.eye(n_labels), n_labels, axis=1)
    total_variances = confusion.covariance(label_weights, label_weights)
    tables = []
    for label in range(n_labels):
        values = np.concatenate([other.values[label], own.values[label]]).astype(np.float64)
        total, clipped_total = float(totals[label]), float(clipped_totals[label])
        counts, nonnegative = adjust_to_totals(
            values,
            (is_own, ~is_own),
            [total, confusion.n - total],
            [clipped_total, confusion.n - clipped_total],
        )
        table = NoisyTable(
            counts=counts.reshape(2, n_bins),
            nonnegative=nonnegative.reshape(2, n_bins),
            n=confusion.n,
            variance=np.array([other.variance, own.variance]),
            total_variance=float(total_variances[label]),
            groups=(is_own, ~is_own),
            event=own_noise,
            design_effect=confusion.design_effect,
        )
        tables.append(table)
    return tuple(tables)
