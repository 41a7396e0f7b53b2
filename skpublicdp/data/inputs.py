"""Read the inputs of `fit`: separate public and private rows, build the schema, and encode y."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.labels import (
    TargetReader,
    Targets,
    check_length,
    concatenate_labels,
    distinct_targets,
    encode_labels,
    encode_targets,
    invalid_labels_error,
    is_unlabelled,
    label_column,
    require_target,
)
from skpublicdp.data.one_hot import ColumnRun, find_one_hot_runs
from skpublicdp.data.public_rows import (
    DescribedRows,
    augment_public,
    bounds_of_mark,
    public_data_assumptions,
    reference_in_place_of_public,
    without_augmentation,
)
from skpublicdp.data.roles import RowChooser, RowRoles, cap_rows_per_group, check_mask, split_roles
from skpublicdp.data.schema import (
    Schema,
    build_schema,
    column_names,
    column_position,
    frame_labels,
    parse_bounds,
)
from skpublicdp.data.streaming import RowSource, as_rows
from skpublicdp.data.tables import Table, take_rows
from skpublicdp.data.validation import as_numbers
from skpublicdp.data.value_conversion import MAX_LISTED_COLUMNS, is_missing, types_with_dates
from skpublicdp.exceptions import AmbiguousLabelWarning, TextColumnWarning, warn
from skpublicdp.typing import Codes, Floats, Mask

MIN_DISTINCT, MIN_VALUES = 10, 20
"""Minimum number of distinct dates or amounts, and of values of free text, in a warning."""

MOST = 0.9
"""Minimum share of public values that are dates or amounts, or of distinct values in free text."""

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"\s*(?:"
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}"  # 2024-01-31
    r"|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2})"  # 31/01/2024, 1.2.24
    rf"|\d{{1,2}}[ -]{_MONTH}[ ,-]+\d{{2,4}}"  # 31 January 2024
    rf"|{_MONTH} \d{{1,2}},? \d{{2,4}}"  # Jan 31, 2024
    r")(?:[T ]+\d{1,2}:\d{2}.*)?\s*",
    re.IGNORECASE,
)
"""Text that is a date, possibly with a time of day."""

_UNIT = r"(?:[$€£¥₹%]|(?:usd|eur|gbp|chf|jpy|cny|inr)\b)"
_NUMERAL = r"\d+(?:[., '’]\d+)*"
_AMOUNT = re.compile(
    rf"\s*[-+(]?\s*(?:{_UNIT}\s*[-+]?{_NUMERAL}|{_NUMERAL}\s*{_UNIT}"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d+,\d{1,2})\s*\)?\s*",
    re.IGNORECASE,
)
"""Text that is an amount of money, a percentage, or a number with separators."""


def warn_about_text(schema: Schema, public: Sequence[Table]) -> None:
    """Warn about text columns whose public values are dates, amounts, or nearly all different."""
    dates, amounts, free = [], [], []
    for position, column in enumerate(schema.columns):
        if not column.categorical or column.is_closed:
            continue
        values = [value for part in public for value in part.column(position).tolist()]
        present = [value for value in values if not is_missing(value)]
        distinct = {value for value in present if isinstance(value, str)}
        if len(distinct) < MIN_DISTINCT:
            continue
        n_wanted = MOST * len(distinct)
        if sum(_DATE.fullmatch(text) is not None for text in distinct) >= n_wanted:
            dates.append(column.name)
        elif sum(_AMOUNT.fullmatch(text) is not None for text in distinct) >= n_wanted:
            amounts.append(column.name)
        elif len(present) >= MIN_VALUES and len(distinct) >= MOST * len(present):
            free.append(column.name)
    for names, kind, function in ((dates, "dates", "datetime"), (amounts, "amounts", "numeric")):
        if names:
            warn(
                f"Column {_listed(names)} contains {kind} as text, according to its public values, "
                "so each value is a category of its own. Convert the column before the fit, for "
                f"example with pandas.to_{function}.",
                TextColumnWarning,
            )
    if free:
        warn(
            f"Nearly every public value of column {_listed(free)} occurs once, as in free text or "
            "identifiers. Little can be learned from the column, and public values are displayed "
            "as names of categories, for example by explain. Drop the column, or encode it.",
            TextColumnWarning,
        )


def _listed(names: Sequence[str]) -> str:
    """Return the first names, separated by commas."""
    return ", ".join([*names[:MAX_LISTED_COLUMNS], *["..."][: len(names) > MAX_LISTED_COLUMNS]])


def read_fit_inputs(
    estimator: Any,
    X: Any,
    y: Any = None,
    target_reader: TargetReader | None = None,
    *,
    X_public: Any = None,
    y_public: Any = None,
    is_public: Any = None,
    groups: Any = None,
    ledger: RowChooser | None = None,
    numeric: bool = False,
    nullable: bool | Collection[Any] = False,
    clamp: bool = False,
    use_reference: bool = False,
    min_public_rows: int | None = 2,
    find_one_hot: bool = False,
) -> Dataset:
    """Validate the arguments of `fit`, and return the private and public rows.

    The column schema is determined by public rows alone. Targets are encoded, and each person's
    private rows beyond `max_rows_per_group` random ones are omitted.

    Parameters
    ----------
    estimator : estimator
        Estimator that is being fitted, and whose feature names are set.
    X, y, X_public, y_public, is_public, groups
        Arguments passed to `fit`.
    ledger : Ledger, optional
        Ledger of the fit, which chooses the rows of each person. It is needed if there are groups.
    target_reader : TargetReader, optional
        Reader that reads and encodes `y`. If omitted, `y` is ignored.
    numeric : bool
        Whether text and categorical columns are rejected.
    nullable : bool or collection of str and int
        Whether numbers can be missing or infinite. A collection lists the names or positions of
        nullable columns, in addition to the columns with missing public numbers.
    clamp : bool
        Whether numbers outside the bounds are clipped to the bounds.
    use_reference : bool
        Whether a data-independent reference replaces missing public rows.
    min_public_rows : int or None
        Minimum number of public rows, below which synthetic rows are added. With ``None``, the
        public rows are never changed. The default is 2, since at least two rows are needed to show
        two values of a column.
    find_one_hot : bool
        Whether to search for runs of one-hot columns if there are enough public rows.

    Returns
    -------
    Dataset
        The private and public rows of the fit.
    """
    if target_reader is not None:
        require_target(estimator, y)
    roles = split_roles(
        estimator,
        X,
        y,
        X_public=X_public,
        is_public=is_public,
        numeric=numeric,
        streamed=True,
        groups=groups,
    )
    table, public_tables = roles.table, roles.public_tables
    bounds = with_described_bounds(
        getattr(estimator, "bounds", None), X_public, column_names(table), frame_labels(table)
    )
    if not isinstance(nullable, bool):
        nullable = _column_positions(nullable, table)
    schema = build_schema(table, public_tables, bounds=bounds, nullable=nullable, numeric=numeric)
    warn_about_text(schema, public_tables)
    roles = roles.capped(getattr(estimator, "max_rows_per_group", None), groups, ledger)
    target = encode_target(target_reader, roles, y, X_public=X_public, y_public=y_public)
    source = _open_private_rows(roles, target, schema, finite=nullable is not True)
    types = types_with_dates(table, public_tables)
    bounded = frozenset(parse_bounds(bounds, schema.names, types, schema.labels))
    encoded_tables = [schema.encode(public, clamp=clamp) for public in public_tables]
    raw_public = np.concatenate([np.empty((0, table.shape[1])), *encoded_tables])
    sample = without_augmentation(raw_public)
    runs: tuple[ColumnRun, ...] = ()
    if find_one_hot and len(raw_public) >= (min_public_rows or 0):
        runs = find_one_hot_runs(schema, raw_public, bounded)
    if public_tables and min_public_rows is not None:
        has_target = _public_target_mask(target.targets, len(raw_public))
        tables = [table, *public_tables]
        one_hot = frozenset(position for run in runs for position in range(*run))
        sample = augment_public(
            schema,
            raw_public,
            tables,
            bounded=bounded,
            has_label=has_target,
            min_rows=min_public_rows,
            one_hot=one_hot,
        )
    elif use_reference and not public_tables:
        sample = reference_in_place_of_public(schema, bounded)
    message_types = table.types
    if roles.stream is not None:
        # a missing value can change the type of a chunk, so every type is nullable in messages
        message_types = tuple(replace(type_, nullable=True) for type_ in table.types)
    return Dataset(
        schema=schema,
        X_public=sample.rows,
        is_synthetic=sample.is_synthetic,
        bounded=bounded,
        one_hot_runs=runs,
        spread_columns=sample.spread_columns,
        n_private=roles.n_private,
        n_public=len(raw_public),
        assumptions=_assumptions(schema, roles, X_public),
        _targets=target.targets,
        _raw_public=raw_public,
        _source=source,
        _positions=tuple(range(table.shape[1])),
        _encode=target.encode_chunk,
        _clamp=clamp,
        _types=message_types,
    )


def _column_positions(columns: Collection[Any], table: Table) -> frozenset[int]:
    """Return the positions of columns that the user declared as having missing numbers."""
    names, labels = column_names(table), frame_labels(table)
    positions = [column_position(column, names, labels) for column in columns]
    if None in positions:
        raise ValueError(
            "missing must list columns of X by name or position; got "
            f"{list(columns)[positions.index(None)]!r}. The columns of X are "
            f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}."
        )
    return frozenset(position for position in positions if position is not None)


class TargetEncoding(NamedTuple):
    """Encoded targets of a fit, and the encoder for targets that are read in chunks.

    All three attributes are None for an estimator without a target.
    """

    targets: Targets | None = None
    """Encoded targets of private and public rows, or only distinct labels for streamed rows."""
    y: NDArray[Any] | None = None
    """Encoded targets of all rows in memory, with 0 for uncounted rows, or None for streamed
    rows."""
    encode_chunk: Callable[[Any], NDArray[Any]] | None = None
    """Encoder for the targets of a streamed chunk, or None if the rows are in memory."""


def encode_target(
    target_reader: TargetReader | None, roles: RowRoles, y: Any, *, X_public: Any, y_public: Any
) -> TargetEncoding:
    """Return the encoded targets of private and public rows.

    The labels of `X_public` are validated before any private label is read. All labels of streamed
    rows are read once, since the classes are the distinct labels of all chunks together.
    """
    if target_reader is None:
        return TargetEncoding()
    separate = public_labels(X_public, y_public, target_reader.column)
    if roles.stream is None:
        target_reader.check_public(y, separate)
        column = target_reader.column(y)
        check_length(column, len(roles.is_public))
        public = [column[roles.is_public], *separate]
        targets = target_reader.targets(column[roles.counted], public)
        encoded = np.zeros(len(column), dtype=targets.private.dtype)
        encoded[roles.counted] = targets.private
        return TargetEncoding(targets, encoded)
    chunks = roles.stream.map_labels(lambda y: distinct_targets(target_reader, y))
    # converted to objects, since chunks can have different types
    labels = target_reader.column(np.concatenate([values.astype(object) for values in chunks]))
    distinct = target_reader.distinct(labels)  # each once, since workers receive them
    targets = target_reader.targets(distinct, separate or [distinct[:0]])
    return TargetEncoding(targets, encode_chunk=lambda y: encode_targets(target_reader, y, targets))


def _open_private_rows(
    roles: RowRoles, target: TargetEncoding, schema: Schema, *, finite: bool
) -> RowSource:
    """Return a source of chunks with the counted private rows and their targets.

    If `finite` is true, rows in memory are checked for missing and infinite numbers, so that a fit
    fails before it spends any budget. Streamed rows are checked when they are read.
    """
    if roles.stream is not None:
        return roles.stream
    assert roles.counted is not None
    source = as_rows(roles.table.native, target.y)
    if finite:
        for _ in source.map(lambda chunk: schema.check(Table(chunk.X))):
            pass  # this raises an error for invalid numbers
    return source if roles.counted.all() else source.with_mask(roles.counted)


def _public_target_mask(targets: Targets | None, n_public: int) -> Mask:
    """Return a mask of the public rows with a target, shape (n_public,).

    Separate public rows come last, and have no targets if `y_public` is missing.
    """
    has_target = np.zeros(n_public, dtype=bool)
    if targets is not None:
        has_target[: len(targets.has_target)] = targets.has_target
    return has_target


def _assumptions(schema: Schema, roles: RowRoles, X_public: Any) -> tuple[str, ...]:
    """Return the assumptions about public rows and declared categories, for the receipt.

    Categories are an assumption if the type of `X` declares them, but that of `X_public` does not.
    """
    assumptions = public_data_assumptions(X_public)
    public_types = roles.table.types if roles.separate is None else roles.separate.types
    declared = [
        column.name
        for column, type_, public_type in zip(
            schema.columns, roles.table.types, public_types, strict=True
        )
        if column.categorical
        and type_.categories
        and (roles.separate is None or not public_type.categories)
    ]
    if not declared:
        return assumptions
    return (
        *assumptions,
        f"the categories declared by the types of {', '.join(declared)} may be known",
    )


def bound_ends(bounds: Any, names: Sequence[str], labels: Sequence[Any] = ()) -> Floats:
    """Return the low and high ends of declared bounds, shape (2, n_columns), 0 without bounds."""
    ends = np.zeros((2, len(names)))
    for position, limits in parse_bounds(bounds, names, labels=labels).items():
        ends[:, position] = limits
    return ends


def bounds_of_description(X_public: Any, names: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Return the bounds that public rows from `describe_columns` declare, by name of the column."""
    if not isinstance(X_public, DescribedRows):
        return dict(bounds_of_mark(X_public) or {})
    described = names if set(names) <= set(X_public.columns) else [*X_public.columns]
    return {
        name: X_public.bounds[key]
        for name, key in zip(names, described, strict=False)
        if key in X_public.bounds
    }


def with_described_bounds(
    bounds: Any, X_public: Any, names: Sequence[str], labels: Sequence[Any] = ()
) -> Any:
    """Return the parameter `bounds` of a fit, completed by the bounds of described public rows.

    The parameter has precedence. Bounds of all columns are returned unchanged.
    """
    described = bounds_of_description(X_public, names)
    if not described or not (bounds is None or isinstance(bounds, Mapping)):
        return bounds
    given = {column_position(column, names, labels) for column in bounds or ()}
    completed = dict(bounds or {})
    for name, pair in described.items():
        if column_position(name, names, labels) not in given:
            completed[name] = pair
    return completed


def public_labels(
    X_public: Any, y_public: Any, column: Callable[..., NDArray[Any]]
) -> list[NDArray[Any]]:
    """Return the labels of `X_public` as a list of one array, or an empty list.

    Parameters
    ----------
    X_public, y_public
        Arguments of `fit`. Without `y_public`, the list is empty.
    column : callable
        Function that reads labels from any container, like `TargetReader.column`.
    """
    if y_public is None:
        return []
    if X_public is None:
        raise ValueError(
            "y_public was passed without X_public. Pass the rows that belong to these labels as "
            "X_public."
        )
    labels = column(y_public, name="y_public")
    if len(labels) != np.shape(X_public)[0]:
        raise ValueError(
            "y_public must contain one label per row of X_public; "
            f"got {len(labels)} labels for {np.shape(X_public)[0]} rows."
        )
    return [labels]


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class LabelledRows:
    """Validated partially labelled rows. The set of labelled rows is public information."""

    X_labelled: Floats  # private rows that have a label
    y_labelled: Codes  # codes of their labels
    X_unlabelled: Floats  # private rows that have no label
    labelled: Mask  # mask of the labelled rows among the counted private rows, in the order of `X`
    classes: NDArray[Any]  # the sorted labels
    X_public: Floats  # public rows of `X`, followed by the separate public rows

    @property
    def n_private(self) -> int:
        """Number of counted private rows."""
        return len(self.labelled)

    @property
    def n_public(self) -> int:
        """Number of public rows."""
        return len(self.X_public)


def read_partially_labelled(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    is_labelled: ArrayLike | None = None,
    X_public: Any = None,
    is_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    ledger: RowChooser | None = None,
    classes: ArrayLike | None = None,
) -> LabelledRows:
    """Validate the arguments of `fit`, and return the labelled, unlabelled and public rows.

    Labels of public rows are never read.

    Parameters
    ----------
    estimator : estimator
        Estimator to fit, whose feature names are set.
    X, y, X_public, is_public, groups
        Arguments passed to `fit`.
    ledger : Ledger, optional
        Ledger of the fit, which chooses the rows of each person. It is needed if there are groups.
    is_labelled : array-like of bool, shape (n,), optional
        Mask of the labelled rows. The other entries of `y` are not read. Without a mask, -1 (or
        ``"-1"`` for text labels) marks an unlabelled row, unless -1 is itself a label.
    classes : array-like, optional
        All possible labels. If omitted, -1 is a label if `y` has exactly one other value.
    """
    require_target(estimator, y)
    roles = split_roles(
        estimator,
        X,
        X_public=X_public,
        is_public=is_public,
        numeric=True,
        is_labelled=is_labelled,
        groups=groups,
    )
    separate_public = roles.separate_numbers()
    X, public = as_numbers(roles.table), roles.is_public
    labelled, y_labelled = _read_labels(y, public, is_labelled, classes)
    if not labelled.any():
        raise ValueError(
            "y must contain at least one label, but every row is marked as unlabelled."
        )
    may_count = ~public  # counted private rows, up to `max_rows_per_group` for each person
    persons, failure = call_silently(np.asarray, groups)
    if failure is None and persons.shape == public.shape:
        # no person has both labelled and unlabelled rows, so each set can spend the entire budget
        may_count &= labelled | ~np.isin(persons, persons[labelled])
    counted = cap_rows_per_group(estimator.max_rows_per_group, groups, may_count, ledger)
    label_codes = encode_labels(y_labelled[counted[labelled]], [y_labelled[:0]], classes)
    return LabelledRows(
        X_labelled=X[counted & labelled],
        y_labelled=label_codes.private,
        X_unlabelled=X[counted & ~labelled],
        labelled=labelled[counted],
        classes=label_codes.classes,
        X_public=np.concatenate([X[public], separate_public]),
    )


def _read_labels(
    y: Any, public: Mask, is_labelled: ArrayLike | None, classes: ArrayLike | None
) -> tuple[Mask, NDArray[Any]]:
    """Return a mask of the labelled private rows, shape (n,), and the labels of these rows."""
    n = len(public)
    if is_labelled is not None:
        labelled = check_mask(is_labelled, n, "is_labelled", "unlabelled") & ~public
        check_length(y, n)
        # an unmarked label must not even affect the common type of the labels
        marked = take_rows(y, np.flatnonzero(labelled))
        return labelled, label_column(marked, listed=classes is not None)
    if public.any():
        check_length(y, n)
        y = take_rows(y, np.flatnonzero(~public))
    y = label_column(y, listed=classes is not None)
    check_length(y, n - int(public.sum()))
    unlabelled = _unlabelled_mask(y, classes)
    labelled = np.zeros(n, dtype=bool)
    labelled[~public] = ~unlabelled
    return labelled, y[~unlabelled]


def _unlabelled_mask(y: NDArray[Any], classes: ArrayLike | None) -> Mask:
    """Return a mask of the rows whose label -1 means that they are unlabelled, shape (n,).

    Whether -1 marks an unlabelled row or is a label depends on the set of labels alone, not on the
    frequencies of the labels. The value -1 is a label if it is in `classes`, or if `y` contains at
    most one other value.
    """
    is_minus_one = is_unlabelled(y)
    if classes is not None:
        return is_minus_one & (not is_unlabelled(np.asarray(classes)).any())
    if not is_minus_one.any() or is_minus_one.all():
        return is_minus_one
    other_labels = y[~is_minus_one]
    if (other_labels != other_labels[0]).any():
        return is_minus_one
    warn(
        "y contains -1 and one other value, so -1 is treated as a label. If -1 marks unlabelled "
        "rows instead, pass classes or is_labelled.",
        AmbiguousLabelWarning,
    )
    return np.zeros(len(y), dtype=bool)


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class MixedRows:
    """Validated rows with binary labels, which can determine which of the rows are private."""

    X_private: Floats
    # indicator of the private label: 1 for rows with the private label, 0 for other rows
    y_private: Codes
    X_public: Floats  # public rows of `X`, followed by the separate public rows
    # Labels of the first public rows, encoded as in `y_private`. Separate public rows can be
    # unlabelled.
    y_public: Codes
    classes: NDArray[Any]  # the sorted labels
    private_code: int  # position of the private label in `classes`
    # whether the label of a row decides whether the row is private, so labels are not protected
    label_decides: bool

    @property
    def n_private(self) -> int:
        """Number of private rows."""
        return len(self.X_private)

    @property
    def n_public(self) -> int:
        """Number of public rows."""
        return len(self.X_public)

    @property
    def known_facts(self) -> str:
        """Facts about the rows that the receipt assumes to be public knowledge."""
        if self.label_decides:
            return "the label of every row may be known, because it decides which rows are private"
        return "which rows are private, and the set of labels in y, may be known"


def read_label_status(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    is_public: ArrayLike | None = None,
    X_public: Any = None,
    y_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    ledger: RowChooser | None = None,
    private_label: Any = None,
) -> MixedRows:
    """Validate the arguments of a `fit` with binary labels, and return private and public rows.

    The mask `is_public` determines which rows are public. Without a mask, all rows are private if
    `X_public` is given. Otherwise, the rows without the private label are public.

    Parameters
    ----------
    estimator : estimator
        Estimator to fit, whose feature names are set.
    X, y, is_public, X_public, y_public, groups
        Arguments passed to `fit`.
    ledger : Ledger, optional
        Ledger of the fit, which chooses the rows of each person. It is needed if there are groups.
    private_label : label, optional
        Label whose rows are private. By default, this is the last of the sorted labels.
    """
    require_target(estimator, y)
    roles = split_roles(
        estimator,
        X,
        X_public=X_public,
        is_public=is_public,
        numeric=True,
        all_public=True,
        groups=groups,
    )
    separate_public = roles.separate_numbers()
    y_public_parts = public_labels(X_public, y_public, label_column)
    X, column = as_numbers(roles.table), label_column(y)
    check_length(column, len(X))
    separate_labels = y_public_parts[0] if y_public_parts else column[:0]
    if _is_text(column) != _is_text(separate_labels):
        raise ValueError(
            "The labels in y and y_public must be all text or all numbers. Convert y or y_public."
        )
    refusal = invalid_labels_error(column.dtype.kind, listed=False)
    all_labels = concatenate_labels([column, separate_labels], refusal)
    encoded = encode_labels(all_labels, [column[:0]], None)
    if private_label is not None and len(encoded.classes) == 1:
        # all rows have the same label, and the private label may be the missing label
        (label,) = encoded.classes.tolist()
        if label != private_label:
            declared = np.asarray([encoded.classes[0], private_label])
            encoded = encode_labels(all_labels, [column[:0]], declared)
    private_code = _private_code(encoded.classes, private_label)
    if len(encoded.classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass; use "
            "SemiPrivateClassifier instead."
        )
    is_private_label = (encoded.private[: len(X)] == private_code).astype(np.intp)
    is_private_label_separate = (encoded.private[len(X) :] == private_code).astype(np.intp)
    # with separate public rows, the label of a row in X must not make the row public
    label_decides = is_public is None and X_public is None
    public = is_private_label == 0 if label_decides else roles.is_public
    counted = cap_rows_per_group(estimator.max_rows_per_group, groups, ~public, ledger)
    return MixedRows(
        X_private=X[counted],
        y_private=is_private_label[counted],
        X_public=np.concatenate([X[public], separate_public]),
        y_public=np.concatenate([is_private_label[public], is_private_label_separate]),
        classes=encoded.classes,
        private_code=private_code,
        label_decides=label_decides,
    )


def _is_text(labels: NDArray[Any]) -> bool:
    """Indicate whether labels returned by `label_column` are text rather than numbers."""
    return labels.dtype.kind in "OU"


def _private_code(classes: NDArray[Any], private_label: Any) -> int:
    """Return the position of the private label in `classes`, which is the last one by default."""
    if private_label is None:
        return len(classes) - 1
    is_equal = [label == private_label for label in classes.tolist()]
    if not any(is_equal):
        raise ValueError(
            "private_label must be one of the two labels in y, but it is neither of them."
        )
    return is_equal.index(True)
