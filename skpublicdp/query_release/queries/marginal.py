"""Queries about the cells of marginal tables, and the workload of these tables."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import NotNumbersError
from skpublicdp.data.binning import Bins, bins_from_cuts, cut_points
from skpublicdp.data.dates import with_time_zone
from skpublicdp.data.schema import MISSING, Column, Schema
from skpublicdp.data.tables import Table, is_frame
from skpublicdp.data.value_conversion import is_missing
from skpublicdp.exceptions import BinnedNumberWarning, warn
from skpublicdp.query_release.cdf.released_cdf import ReleasedCDF
from skpublicdp.query_release.discretize import (
    DEFAULT_BINS,
    PublicBins,
    bin_labels,
    cuts_from_edges,
    describe_cells,
    parse_bins,
)
from skpublicdp.query_release.marginals.count import WeightColumn, combination_ids
from skpublicdp.query_release.measured_sums import read_sums
from skpublicdp.query_release.pmw.cover import (
    MAX_INCIDENCE_ENTRIES,
    ExplicitCover,
    check_cover_size,
    split_sample_cover,
)
from skpublicdp.query_release.queries.base import (
    WILDCARD,
    Answers,
    QueryClass,
    one_dimensional_message,
)
from skpublicdp.query_release.queries.combined import (
    SINGLE_VALUES,
    CombinedQuery,
    Objects,
    is_choice,
    is_range,
    read_combined,
)
from skpublicdp.typing import Floats, Integers

MAX_LISTED_CELLS = 1 << 14
"""Maximum number of cells in the full table for which the cover contains all cells. For larger
tables, it contains only the cells of public rows."""

MAX_LISTED_COLUMNS, MAX_LISTED_CATEGORIES = 5, 10
"""Maximum numbers of names that an error message lists."""


class MarginalQueries(QueryClass):
    """Queries that hold for rows in a given cell of a table over some of the columns.

    Queries are a dict from columns to values, a list of dicts, a data frame with some of the
    columns, or an array with all columns. None in an array, or a missing value in a frame, means
    any value. Categories match if they are equal, and numbers match if they are in the same bin.
    The name of a bin in a table, such as ``"> 50"``, represents this bin.

    In dicts and frames, a value may combine cells. A list or a set means any one of its values. A
    pair ``(low, high)`` or a slice means the numbers from low to high, both included, and None in
    it means no limit; a ``pandas.Interval`` is a range, too. The range must consist of entire bins.
    In a column with a declared order of categories, a range may also be given by two categories.

    ``"(other)"`` represents the categories that no public row has. ``"(missing)"`` represents a
    missing value, including missing numbers in columns where they are allowed.

    `holds` accepts codes, where -1 means any value.

    Parameters
    ----------
    k : int, default=2
        The workload consists of all marginals over k columns. If there are fewer than k columns,
        the workload is the table over all columns.
    workload : sequence of sequences of str or int, default=None
        The marginals, each given by a sequence of column names or positions, which replace the
        marginals over k columns. A single column, either among such sequences or as the only entry,
        means the marginal of this column.
    bins : int, or dict of column to int or to edges, default=16
        Number of bins of a numeric column, cut at public quantiles. If a column has at most this
        many distinct public values, each value has its own bin, which also counts the numbers
        nearest to it. The name of such a bin states it, as in ``">= 2"``. A dict maps some of the
        columns, by name or position, to a number of bins or to increasing edges. Edges must not be
        computed from private rows. A bin (a, b], or "a to b", contains its right edge, and the
        first bin contains both edges, as in ``pandas.cut(..., include_lowest=True)``. For counts,
        start the edges and the bounds at -1, so that the first bin contains 0 alone. If the bounds
        of the column extend beyond the edges, there is an additional bin below or above the edges.
    missing : sequence of str or int, default=()
        Numeric columns, by name or position, in which private numbers may be missing. Columns with
        missing numbers in public rows need not be listed. Missing numbers are counted in a separate
        cell, ``"(missing)"``. In all other numeric columns, a missing number raises an error.
    sums : dict of column to groupings, default=None
        Numeric columns whose sums are measured by group, for means and totals. A grouping is a
        column, or a tuple of columns whose categories or bins are combined, and several groupings
        are a list: ``{"income": ["region", ("region", "sex")]}``. Means and totals of all rows, and
        of fewer group columns, follow. Numbers beyond the bounds are moved to the nearer bound, and
        noise is proportional to the width of the bounds, which should therefore be close. The sums
        receive half of the budget. The table of each grouping together with the column is added to
        the workload.
    zeros : list of dicts or data frames, default=None
        Structural zeros, i.e. combinations of values that are impossible. A dict maps columns to
        a value or a list of values, and means all combinations of these values. A frame has one
        impossible combination per row. Values are those of queries, and numbers must be whole
        bins. Impossible cells of tables are not measured and have the answer 0 with the interval
        [0, 0], but their rows are part of `sums`.
        With `zeros` or `hierarchy`, ``"(other)"`` is also impossible in columns whose type
        declares all categories. Do not derive zeros from private rows.
    hierarchy : dict, default=None
        Columns whose values determine another column, such as ``{"county": "state"}``. The public
        rows show the state of each county. Otherwise, it is declared, as in
        ``{"county": ("state", {"Suffolk": "MA"})}``. Counties that are neither declared nor in
        public rows may be in any state.

    Raises
    ------
    ValueError
        In `fit`, if a parameter is invalid or edges are outside the bounds of their column.

    See Also
    --------
    RectangleQueries : Boxes in numeric columns.
    skpublicdp.plotting.MarginalDisplay : Plots a released marginal of one column.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0, 1], [0, 2], [1, 1]])
    >>> MarginalQueries().holds([[0, -1], [1, 1]], codes)
    array([[ True,  True, False],
           [False, False,  True]])

    Tables have the labels of ``pandas.cut``:

    >>> import pandas as pd
    >>> from skpublicdp import PAPQueryRelease
    >>> rng = np.random.default_rng(0)
    >>> income = pd.DataFrame({"income": rng.uniform(0, 60, size=5_000).round()})
    >>> queries = MarginalQueries(bins={"income": [0, 10, 20, 50]})
    >>> release = PAPQueryRelease(queries, bounds={"income": (0, 60)}, random_state=0)
    >>> release = release.fit(income[100:], X_public=income[:100])
    >>> release.table("income")["income"].tolist()
    ['(-0.001, 10.0]', '(10.0, 20.0]', '(20.0, 50.0]', '> 50']
    """

    has_tables = True

    def __init__(
        self,
        k: int = 2,
        workload: Sequence[Sequence[Any]] | None = None,
        bins: int | Mapping[Any, Any] = DEFAULT_BINS,
        missing: str | int | Sequence[str | int] = (),
        sums: Mapping[Any, Any] | None = None,
        zeros: Any = None,
        hierarchy: Mapping[Any, Any] | None = None,
    ) -> None:
        self.k = k
        self.workload = workload
        self.bins = bins
        self.missing = missing
        self.sums = sums
        self.zeros = zeros
        self.hierarchy = hierarchy

    @property
    def nullable(self) -> tuple[Any, ...]:
        """Columns in which numbers may be missing even if no public number is missing."""
        return (self.missing,) if isinstance(self.missing, str | int) else tuple(self.missing)

    def holds(self, Q: ArrayLike, X: NDArray[Any]) -> Answers:
        """Indicate whether each row is in each cell, shape (n_queries, n).

        `X` contains encoded rows as floats, or integer codes of bins and categories.
        """
        n_columns = X.shape[1]
        Q = self._validated(Q, n_columns)
        codes = self._to_codes(X)
        is_inside = np.ones((len(Q), len(codes)), dtype=bool)
        for column in range(n_columns):
            restricting = np.flatnonzero(Q[:, column] != WILDCARD)
            required_codes = Q[restricting, column]
            has_code = codes[:, column] == required_codes[:, None]
            is_inside[restricting] &= has_code
        return is_inside

    def weighted_mean(self, Q: NDArray[Any], X: NDArray[Any], weights: Floats) -> Floats:
        """Return the total weight of the rows in each cell, shape (n_queries,).

        All queries that restrict the same columns are answered together. Cells and rows are
        identified by their combinations of codes in these columns, and a single `bincount` returns
        the weight of each combination.
        """
        codes = self._to_codes(X)
        totals = np.zeros(len(Q))
        is_restricted = Q != WILDCARD  # (n_queries, n_columns)
        patterns, pattern_of_query = np.unique(is_restricted, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            indices = np.flatnonzero(pattern_of_query.ravel() == number)
            columns = np.flatnonzero(pattern)
            row_codes = codes[:, columns]
            query_codes = Q[np.ix_(indices, columns)]
            ids = combination_ids(np.concatenate([row_codes, query_codes]))
            id_of_row, id_of_query = np.split(ids, [len(codes)])
            n_ids = int(ids.max()) + 1
            total_of_id = np.bincount(id_of_row, weights=weights, minlength=n_ids)
            totals[indices] = total_of_id[id_of_query]
        return totals

    def tables(self, schema: Schema) -> list[tuple[int, ...]]:
        """Return the marginals of the workload, each as a tuple of increasing column positions."""
        positions = [
            position
            for position in range(len(schema.columns))
            if self.weights is None or position != self.weights.position
        ]
        with_sums = [
            tuple(sorted((column.position, *column.groups)))
            for column in read_sums(self.sums, schema)
        ]
        if self.workload is None:
            tables = list(combinations(positions, min(int(self.k), len(positions))))
            return list(dict.fromkeys([*tables, *with_sums]))
        tables = [
            tuple(map(schema.position, table)) for table in _read_workload(self.workload, schema)
        ]
        if not set().union(*tables) <= set(positions):
            raise ValueError("workload must not contain the weight column.")
        if not tables or any(len(set(table)) != len(table) or not table for table in tables):
            raise ValueError(
                "workload must be a list of tables, each with one or more distinct columns."
            )
        tables = [tuple(sorted(table)) for table in tables]
        return list(dict.fromkeys([*tables, *with_sums]))  # remove repetitions

    def build_cover(self, X_public: Floats) -> ExplicitCover:
        """Return the cover of the queries about all cells of the workload.

        The cells of the cover are the cells of the table over all columns. If there are too many
        cells, only the cells of public rows are listed.
        """
        sizes = self._bins.sizes
        queries = self.all_cells
        max_cells = min(MAX_LISTED_CELLS, MAX_INCIDENCE_ENTRIES // len(queries))
        if math.prod(sizes) > max_cells:
            return split_sample_cover(self.holds, queries, X_public)
        codes = np.indices(sizes).reshape(len(sizes), -1).T
        rows = self._bins.representatives(codes, X_public, self._schema)
        return ExplicitCover(self.holds, queries, rows)

    def dual_vc_dimension(self, n_features: int) -> int:
        """Return the bound 2 p for p columns, because cells are boxes (see `RectangleQueries`)."""
        return 2 * n_features

    def check_columns(self, schema: Schema) -> None:
        """Raise an error if a parameter is invalid. All types of columns are supported."""
        k: Any = self.k
        if not isinstance(k, Integral) or k < 1:
            advice = (
                ""
                if isinstance(k, Real)
                else (" To choose specific tables, pass them as workload.")
            )
            raise ValueError(
                "The 'k' parameter of MarginalQueries must be a positive integer. Got "
                f"{k!r} instead.{advice}"
            )
        parse_bins(self.bins, schema)
        self.tables(schema)

    def weighted(self, weights: WeightColumn) -> Self:
        """Return a copy whose tables are weighted by a column, which they then exclude."""
        weighted_queries = copy.copy(self)
        weighted_queries.weights = weights
        return weighted_queries

    def bind(self, schema: Schema, X_public: Floats) -> Self:
        """Return a copy for rows encoded by a schema, with bins of the numeric columns.

        The bins have the given edges or are cut at public values.
        """
        bound_queries = copy.copy(self)
        bound_queries._schema = schema
        bound_queries._edges, cuts = {}, {}
        for position, chosen in parse_bins(self.bins, schema).items():
            if isinstance(chosen, int):
                values = X_public[:, position]
                cuts[position] = cut_points(values[~np.isnan(values)], chosen)
            else:
                bound_queries._edges[position] = chosen
                cuts[position] = cuts_from_edges(chosen, schema.columns[position])
        bound_queries._bins = bins_from_cuts(schema, cuts)
        return bound_queries

    def growth(self, m: int, n_features: int) -> int:
        """Return an upper bound on the number of labellings of m rows by the queries.

        After `bind` is called, the bound is the number of cells in the workload, plus one for the
        labelling in which no row has label 1.
        """
        if not hasattr(self, "_bins"):
            return super().growth(m, n_features)
        return min(1 << m, self._n_cells() + 1)

    def discretizer(
        self, schema: Schema, X_public: Floats, cdfs: dict[int, ReleasedCDF], snr: float
    ) -> PublicBins:
        """Return the bins of the query class, which are cut at public values."""
        return PublicBins(schema, self._bins, self.tables(schema), X_public)

    def holdout_queries(self, X: Floats) -> NDArray[np.int64]:
        """Return all cells of the workload."""
        return self.all_cells

    def has_columns_of_rows(self, *, as_frame: bool) -> bool:
        """Return False for queries in a frame, which may omit columns, and True otherwise."""
        return not as_frame

    def table_cells(self, positions: Sequence[int]) -> tuple[NDArray[np.int64], list[list[Any]]]:
        """Return the cells of a marginal table as encoded queries, with the names of their codes.

        Parameters
        ----------
        positions : sequence of int
            Positions of the columns of the table.

        Returns
        -------
        cells : ndarray of int64, shape (n_cells, n_columns)
            Encoded queries in C order of the table. The codes of each column are in the order of
            `Column.display_order`.
        names : list of list
            For each column of the table, the category or the bin of each cell.
        """
        if not positions or len(set(positions)) < len(positions):
            raise ValueError("columns must contain one or more distinct columns.")
        orders: list[Sequence[int]] = []
        for position in positions:
            column = self._schema.columns[position]
            all_codes = range(self._bins.sizes[position])
            orders.append(column.display_order if column.categorical else all_codes)
        axes = np.meshgrid(*orders, indexing="ij")
        codes = np.stack([axis.ravel() for axis in axes], axis=1)  # (n_cells, n_positions)
        cells = np.full((len(codes), len(self._bins.sizes)), WILDCARD)
        cells[:, list(positions)] = codes
        names = []
        for position, column_codes in zip(positions, codes.T, strict=True):
            column_names = self.cell_names(position)
            names.append([column_names[code] for code in column_codes])
        return cells, names

    def cell_names(self, position: int) -> list[Any]:
        """Return the name of each code in a column: a category, a number, or a range as text."""
        column, edges = self._schema.columns[position], self.bin_edges(position)
        if edges is None:
            names = describe_cells(column, self._bins.cuts[position])
        else:
            names = bin_labels(edges, column)
        return [*names, MISSING] if self._bins.has_missing(position) else names

    def bin_cuts(self, position: int) -> Floats | None:
        """Return the cuts between the bins of a column, or None if it is categorical."""
        return self._bins.cuts[position]

    def bin_edges(self, position: int) -> Floats | None:
        """Return the user's bin edges for a column, or None if not given."""
        return self._edges.get(position)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column. The class must be bound to a schema."""
        return self._bins.sizes

    @property
    def all_cells(self) -> NDArray[np.int64]:
        """All cells of the workload as encoded queries, shape (n_cells, n_columns).

        The class must be bound to a schema (`bind`).
        """
        check_cover_size(self._n_cells())
        sizes = self._bins.sizes
        queries = []
        for table in self.tables(self._schema):
            codes = np.indices([sizes[column] for column in table])
            codes = codes.reshape(len(table), -1).T  # (n_cells, n_table_columns)
            table_queries = np.full((len(codes), len(sizes)), WILDCARD)
            table_queries[:, list(table)] = codes
            queries.append(table_queries)
        return np.concatenate(queries)

    def _n_cells(self) -> int:
        """Return the number of cells of the workload."""
        tables = self.tables(self._schema)
        return sum(math.prod(self._bins.sizes[column] for column in table) for table in tables)

    def encode(self, Q: Any, schema: Schema) -> NDArray[np.int64]:
        """Validate the user's queries and return them as codes. Requires a prior call of `bind`."""
        cells = self._read_cells(object_table(Q, schema), schema)
        self._check_no_weights(np.flatnonzero((cells != WILDCARD).any(axis=0)).tolist())
        return cells

    def _check_no_weights(self, positions: Collection[int]) -> None:
        """Raise a ValueError if queries restrict the column of weights."""
        if self.weights is not None and self.weights.position in positions:
            raise ValueError(
                "The weight column cannot be queried, because no information about it is released."
            )

    def _read_cells(self, table: Objects, schema: Schema) -> Integers:
        """Return a table of column values as codes, where None and missing values mean any."""
        names = {
            position: self.cell_names(position)
            for position, column in enumerate(schema.columns)
            if not column.categorical
        }
        return read_cells(table, schema, self._bins, WILDCARD, names)

    def combined(self, Q: Any, schema: Schema) -> list[CombinedQuery] | None:
        """Return the codes that satisfy each query, or None if all queries are about single cells.

        Columns in which all codes satisfy a query are left out.
        """
        if not (
            isinstance(Q, Mapping) or is_frame(Q) or hasattr(Q, "iloc") or _is_list_of_dicts(Q)
        ):
            return None
        table = object_table(Q, schema)
        others = [value for value in table.ravel() if not isinstance(value, SINGLE_VALUES)]
        if not any(is_choice(value) or is_range(value) for value in others):
            return None
        encode = partial(self._read_cells, schema=schema)
        queries = read_combined(
            table, schema.columns, wildcard=WILDCARD, cuts=self._bins.cuts, encode=encode
        )
        self._check_no_weights(set().union(*queries))
        sizes = self._bins.sizes
        return [
            {position: codes for position, codes in query.items() if len(codes) < sizes[position]}
            for query in queries
        ]

    def _to_codes(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the codes of bins and categories of encoded rows, shape (n, n_columns)."""
        if X.dtype.kind in "iu":  # already codes
            return X
        return self._bins.codes(X)

    def _validated(self, Q: Any, n_features: int) -> NDArray[np.int64]:
        """Validate the shape and dtype of encoded queries and return them as an array of codes."""
        codes = np.asarray(Q)
        if codes.ndim != 2 or codes.shape[1] != n_features or codes.dtype.kind not in "iu":
            raise ValueError(
                f"Cells must be integer codes of shape (n_queries, {n_features}), in which -1 "
                f"stands for any code; got {codes.dtype} of shape {codes.shape}."
            )
        return codes


def _read_workload(workload: Any, schema: Schema) -> list[tuple[Any, ...]]:
    """Return the tables of a workload, where a single column means its one-way table.

    A plain list of several columns is refused, since it could mean one joint table or several
    one-way tables.
    """
    if isinstance(workload, str | Integral):
        workload = [workload]
    entries = list(workload)
    is_column = [isinstance(entry, str | Integral) for entry in entries]
    if len(entries) > 1 and all(is_column):
        shown = [
            schema.names[schema.position(entry)] if isinstance(entry, str) else int(entry)
            for entry in entries[:2]
        ]
        first, second = map(repr, shown)
        raise ValueError(
            "workload must be a list of tables, and each table a list of columns; got columns "
            f"without a table. Pass workload=[({first}, {second})] for one table of these columns, "
            f"or workload=[({first},), ({second},)] for one table of each column."
        )
    return [
        (entry,) if single else tuple(entry)
        for entry, single in zip(entries, is_column, strict=True)
    ]


def read_cells(
    table: Objects, schema: Schema, bins: Bins, wildcard: int, names: Mapping[int, Sequence[Any]]
) -> Integers:
    """Return the user's queries about cells of tables as codes of bins and categories.

    A query has an object for each column. None or a missing value means any value, with the code
    `wildcard`. A number may be replaced by the name of its bin, which is among the column's
    `names`.
    """
    codes = np.full(table.shape, wildcard)
    for position, column in enumerate(schema.columns):
        is_restricted = np.array(
            [not is_missing(value) for value in table[:, position]], dtype=bool
        )
        values = table[is_restricted, position]
        if column.categorical:
            check_categories(values, column)
            codes[is_restricted, position] = column.encode(values)
            continue
        texts = [*map(str, names[position])]
        n_cells = Counter(texts)  # rounded names of narrow bins may be equal
        code_of_name = {text: code for code, text in enumerate(texts) if n_cells[text] == 1}
        named = [code_of_name.get(value, -1) if isinstance(value, str) else -1 for value in values]
        value_codes = np.array(named, dtype=np.int64)
        is_number = value_codes < 0
        # bins are defined for entire rows, so all other columns are set to zero
        rows = np.zeros((int(is_number.sum()), len(schema.columns)))
        # `from_user` accepts dates in more forms than `encode`, as in `cdf`
        encode = column.from_user if column.has_offset else column.encode
        try:
            rows[:, position] = encode(values[is_number])
        except NotNumbersError:
            raise ValueError(
                f"A query about column {column.name} must contain one number, neither NaN nor "
                "infinite, which selects the bin that contains it, or the name of a bin as in the "
                "table of the column. For a range of numbers, pass a pair (low, high)."
            ) from None
        value_codes[is_number] = bins.codes(rows)[:, position]
        _warn_of_wide_bins(
            rows[:, position], value_codes[is_number], names[position], column, bins.cuts[position]
        )
        codes[is_restricted, position] = value_codes
    return codes


def _warn_of_wide_bins(
    numbers: Floats, codes: Integers, names: Sequence[Any], column: Column, cuts: Floats | None
) -> None:
    """Warn if numbers in queries represent bins that contain other numbers as well."""
    assert cuts is not None
    smallest = [column.low, *(np.floor(cuts) + 1).tolist()]
    largest = [*np.floor(cuts).tolist(), column.high]
    for number, code in zip(numbers.tolist(), codes.tolist(), strict=True):
        # the last code may be that of missing numbers
        is_alone = code == len(smallest)
        if column.integral and not is_alone:
            # counts may begin at -1, so that the first bin contains 0 alone
            is_alone = largest[code] - smallest[code] <= (code == 0) and number == largest[code]
        name = names[code]
        if is_alone or (not isinstance(name, str) and name == column.to_user(np.array(number))):
            continue
        warn(
            f"The number {column.format(number)} in a query stands for the entire bin {name!r} of "
            f"column {column.name}, and the answer is about this bin. To say so, use the name of "
            "the bin or a range of bins.",
            BinnedNumberWarning,
        )
        return


def _is_list_of_dicts(Q: Any) -> bool:
    """Indicate whether queries are a list of dicts from columns to values."""
    return isinstance(Q, list | tuple) and len(Q) > 0 and all(isinstance(q, Mapping) for q in Q)


def object_table(Q: Any, schema: Schema) -> Objects:
    """Return the user's queries about cells as an object array, shape (n_queries, n_columns).

    Queries are a frame, a mapping, a list of mappings, or array-like, with a value for each column
    that a query restricts. A frame or a mapping may omit columns. None in an array, or a missing
    value in a frame, means any value. One-dimensional input is accepted if there is one column.
    """
    n_columns = len(schema.columns)
    if isinstance(Q, Mapping):  # a single query
        Q = [Q]
    if _is_list_of_dicts(Q):
        table = np.full((len(Q), n_columns), None, dtype=object)
        for number, query in enumerate(Q):
            for name, value in query.items():
                table[number, schema.position(name)] = value
        return table
    if hasattr(Q, "iloc") and Q.ndim == 1:  # a pandas series represents one query
        return object_table(dict(Q), schema)
    if is_frame(Q):
        return _frame_to_objects(Q, schema)
    return _array_to_objects(Q, schema)


def _frame_to_objects(Q: Any, schema: Schema) -> Objects:
    """Return the queries in a frame, with None for omitted columns and missing values."""
    frame = Table(Q)
    table = np.full((len(Q), len(schema.columns)), None, dtype=object)
    for number, name in enumerate(frame.labels):
        values: Any = np.ma.asarray(frame.column(number))
        time_zone = frame.types[number].time_zone
        if values.dtype.kind == "M":  # numpy converts nanoseconds to integer objects, not dates
            values = values.astype("datetime64[us]")
            # dates with a time zone are read in UTC
            values = values if time_zone is None else with_time_zone(values, "UTC")
        values = np.ma.filled(values.astype(object), None)
        table[:, schema.position(name)] = values
    return table


def _array_to_objects(Q: Any, schema: Schema) -> Objects:
    """Return queries about cells, given as an array-like, as an array of objects.

    The array must have the shape (n_queries, n_columns), or may be one-dimensional if there is a
    single column.
    """
    names, n_columns = schema.names, len(schema.columns)
    array = np.asarray(Q)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(
            "Queries of MarginalQueries must not contain NaN. In an array, use None to accept any "
            "value."
        )
    if array.dtype.kind == "M":  # numpy converts nanoseconds to integer objects, not dates
        array = array.astype("datetime64[us]")
    array = array.astype(object)
    if array.ndim == 1 and n_columns == 1:
        array = array[:, None]
    if array.ndim == 1:
        raise ValueError(one_dimensional_message("MarginalQueries", n_columns))
    if array.ndim != 2 or array.shape[1] != n_columns:
        listed_names = _join_first(names, MAX_LISTED_COLUMNS)
        raise ValueError(
            f"Queries must have shape (n_queries, {n_columns}), with one value for each of the "
            f"{n_columns} columns ({listed_names}), or None to accept any value; got shape "
            f"{array.shape}. To restrict only some columns, pass a dict from columns to values."
        )
    return array


def _join_first(texts: Sequence[str], max_texts: int) -> str:
    """Join the first `max_texts` texts with commas, and append an ellipsis if there are more."""
    ellipsis = ["..."] if len(texts) > max_texts else []
    return ", ".join([*texts[:max_texts], *ellipsis])


def check_categories(values: Objects, column: Column) -> None:
    """Raise a ValueError if a value in a query is not a category of the column."""
    categories = {*column.names, *map(str, column.names)}  # tables print categories as text
    for value in values:
        if value not in categories:
            listed_categories = _join_first(list(map(repr, column.names)), MAX_LISTED_CATEGORIES)
            raise ValueError(
                f"Column {column.name} has no category {value!r}, either in the public rows or in "
                f"its type. Its categories are {listed_categories}."
            )
