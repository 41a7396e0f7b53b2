"""Rows at several sites, such as hospitals, that return tables instead of pooling their rows."""

from __future__ import annotations

import platform
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from skpublicdp._internal.redaction import call_silently
from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.reader import RowReader, is_package_error, without_traceback
from skpublicdp.data.sources.sites_reader import (
    ROWS_KEY,
    AnswersTasks,
    SiteAnswer,
    SiteGroup,
    SiteObject,
    SitesReader,
    as_tables,
    decode_task,
)
from skpublicdp.data.streaming import RowSource, open_rows
from skpublicdp.data.tables import CATEGORY, TEXT, ColumnType, Table
from skpublicdp.exceptions import ReadError
from skpublicdp.typing import Mask


class Site:
    """Rows that never leave their site, which answers tasks with integer tables.

    A `Site` object is created and called where the rows are stored. A coordinator opens several
    sites with `open_sites` and fits one model. You have to provide the network between the
    coordinator and the sites: pass to the coordinator an object whose method `answer` sends a task
    to the site and returns the site's `SiteAnswer`.

    A task is a Python object of this package, serialised with cloudpickle. Unpickling a task
    therefore executes code from the coordinator. Accept tasks only over an authenticated and
    encrypted connection, and only from a coordinator that you trust to run this package unchanged.

    Parameters
    ----------
    source : path, list of paths, or container of rows
        Rows with their labels, as in `open_rows`. All columns must have names.
    connection : duckdb.DuckDBPyConnection, optional
        Connection that runs `source` as a query.

    Raises
    ------
    ValueError
        If the columns have no names.
    ImportError, FileNotFoundError, ReadError
        As in `open_rows`.

    See Also
    --------
    open_sites : Function that opens the rows of several sites, which can then be passed to `fit`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> site = Site(pa.table({"age": [30, 40, 50], "ill": [0, 1, 1]}))
    >>> rows = open_sites([site, Site(pa.table({"age": [60], "ill": [1]}))])
    >>> rows.n_rows
    4
    """

    def __init__(self, source: Any, *, connection: Any = None) -> None:
        rows = open_rows(source, connection=connection)
        if rows.names is None:
            raise ValueError(
                "The rows of each site must have column names, and the names must be identical at "
                "all sites. Pass a data frame, an Arrow table or files instead of an array."
            )
        reader = rows._reader if rows.names == rows._reader.names else RowSubset(rows, rows.n_rows)
        self._objects: dict[str, Any] = {ROWS_KEY: reader}

    def __repr__(self) -> str:
        return "<rows of one site>"

    def answer(self, task: bytes) -> SiteAnswer:
        """Return the answer to a task of the coordinator.

        Parameters
        ----------
        task : bytes
            Task sent by a coordinator with the same version of this package.

        Returns
        -------
        SiteAnswer
            Integer tables or public facts. If the task only changes objects that the site stores
            for later tasks of the same fit, the answer is empty.

        Raises
        ------
        ReadError
            If the task cannot be answered. The original message is withheld, since it may quote a
            private value. Other errors of this package do not quote private values and are raised
            unchanged.
        """
        answer, failure = call_silently(self._answer, task)
        if failure is None:
            return answer  # type: ignore[no-any-return]
        if not is_package_error(failure):
            failure = ReadError(
                "A site failed to complete a task; its error message is withheld, because it may "
                "quote private values. Run the same versions of Python and skpublicdp at all "
                "sites, and check the types and values of the columns."
            )
        raise without_traceback(failure)

    def _answer(self, task: bytes) -> SiteAnswer:
        """Return the answer to a task. Exceptions can quote a private value."""
        function, args, options, result_kind, key, released_keys = decode_task(task, self._objects)
        for released in released_keys:
            self._objects.pop(released, None)
        result = function(*args, **options)
        if result_kind == "tables":
            return as_tables(result)
        if result_kind == "facts":
            return SiteAnswer(facts=result)
        self._objects[key] = result
        return SiteAnswer()


class _SiteDescription(NamedTuple):
    """Facts that a site declares about its rows, all of which are public."""

    versions: tuple[str, str]
    """Versions of Python (major and minor) and of this package."""
    names: tuple[str, ...]
    """Names of the columns."""
    types: tuple[ColumnType, ...]
    """Declared types of the columns."""
    empty: Any
    """Empty table with the same columns."""
    n_rows: int
    """Number of rows."""


def open_sites(sites: Sequence[AnswersTasks]) -> RowSource:
    """Open the rows of several sites without pooling them, so that they can be passed to `fit`.

    The rows are passed to `fit` as `X`, and are ordered by site. Each site computes integer tables
    from its own rows. The coordinator adds up these tables and draws the noise once. The fitted
    model is therefore identical, bit for bit, to a model fitted to all rows in a single table. The
    tables sent to the coordinator are exact, so the coordinator must be trusted. The page on
    disjoint sites in the user guide describes how data is protected against each party.

    Every estimator and score that accepts rows from `open_rows` also accepts these rows. The
    exceptions are predictions and `SemiPrivateSearchCV`, which need individual rows. If a person
    can have several rows, pass ``groups=rows["person"]`` as usual. All of a person's rows must be
    at the same site.

    Parameters
    ----------
    sites : sequence of Site, or of other objects with a method `answer`
        Sites whose columns agree in their names, order and types.

    Returns
    -------
    RowSource
        Rows. For a label column "ill", pass ``rows.drop("ill")`` as `X` and ``rows["ill"]`` as `y`.

    Raises
    ------
    ValueError
        If there are no sites, or if columns or versions differ between sites.
    ImportError
        If cloudpickle is missing.

    See Also
    --------
    Site : Rows of a single site.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.hypotheses import Thresholds
    >>> rng = np.random.default_rng(0)
    >>> def hospital(n):
    ...     age = rng.integers(20, 90, n)
    ...     return Site(pa.table({"age": age, "ill": (age > 60).astype(int)}))
    >>> rows = open_sites([hospital(400), hospital(150), hospital(90)])
    >>> X_public = pa.table({"age": np.arange(20, 90, 3)})
    >>> rule = SemiPrivateClassifier(Thresholds(), classes=[0, 1], random_state=0)
    >>> rule.fit(rows.drop("ill"), rows["ill"], X_public=X_public).predict(pa.table({"age": [30]}))
    array([0])
    """
    group = SiteGroup(sites)
    if not group.sites:
        raise ValueError("open_sites requires at least one site; got none.")
    descriptions = group.ask(_describe, SiteObject(group, ROWS_KEY))
    first, *others = descriptions
    for position, description in enumerate(others, start=1):
        _check_agreement(first, description, position)
    _check_versions(_versions(), first.versions, "the coordinator", "site 0")
    sizes = [description.n_rows for description in descriptions]
    # sites without rows receive no further tasks
    with_rows = [position for position, size in enumerate(sizes) if size] or [0]
    group = SiteGroup([group.sites[position] for position in with_rows])
    sizes = [sizes[position] for position in with_rows]
    return RowSource(SitesReader(group, ROWS_KEY, first.empty, first.names, sizes))


def _versions() -> tuple[str, str]:
    """Return the versions of Python (major and minor) and of this package."""
    from skpublicdp import __version__

    return ".".join(platform.python_version_tuple()[:2]), __version__


def _describe(reader: RowReader) -> _SiteDescription:
    """Return the facts that the site declares about its rows, all of which are public."""
    empty = _without_buffers(reader.empty(range(reader.n_columns)))
    assert reader.names is not None
    return _SiteDescription(_versions(), reader.names, Table(empty).types, empty, reader.n_rows)


def _without_buffers(frame: Any) -> Any:
    """Rebuild an empty frame that contains nothing except column names and types.

    An empty slice of an Arrow table would keep and pickle the buffers of the entire table.
    Moreover, a pandas frame can contain attributes, and an Arrow field can contain metadata.
    """
    if hasattr(frame, "iloc"):
        import pandas as pd

        columns = {name: pd.Series([], dtype=dtype) for name, dtype in frame.dtypes.items()}
        return pd.DataFrame(columns)
    if hasattr(frame, "combine_chunks"):
        # the metadata of the table and of its fields is excluded
        types = list(zip(frame.schema.names, frame.schema.types, strict=True))
        return optional_imports.pyarrow().schema(types).empty_table()
    import polars as pl

    # an empty categorical column can contain all categories of the process
    schema = {
        name: pl.String if dtype == pl.Categorical else dtype
        for name, dtype in frame.schema.items()
    }
    return pl.DataFrame(schema=schema)


def _check_agreement(first: _SiteDescription, other: _SiteDescription, position: int) -> None:
    """Raise ValueError if the columns, types or versions of two sites differ."""
    _check_versions(first.versions, other.versions, "site 0", f"site {position}")
    if other.names != first.names:
        raise ValueError(
            "All sites must have the same columns in the same order; site 0 has "
            f"{', '.join(first.names)}, and site {position} has {', '.join(other.names)}."
        )
    for name, type_, other_type in zip(first.names, first.types, other.types, strict=True):
        if _comparable(type_) != _comparable(other_type):
            kinds = f"{type_.kind} at site 0 and {other_type.kind} at site {position}"
            if type_.kind == other_type.kind:
                kinds = f"different declared categories at site 0 and at site {position}"
            raise ValueError(
                f"Column {name} must have the same type at all sites; got {kinds}. Convert the "
                "column at one of the sites."
            )


def _comparable(type_: ColumnType) -> tuple[Any, ...]:
    """Return the properties of a type that must be the same at all sites, except nullability."""
    kind = TEXT if type_.kind == CATEGORY and not type_.categories else type_.kind
    return kind, type_.categories, type_.ordered


def _check_versions(
    versions: tuple[str, str], other_versions: tuple[str, str], place: str, other_place: str
) -> None:
    """Raise ValueError if two hosts run different versions of Python or of this package."""
    if versions != other_versions:
        python, package = versions
        other_python, other_package = other_versions
        raise ValueError(
            f"All sites must run the same versions; {place} has Python {python} and skpublicdp "
            f"{package}, and {other_place} has Python {other_python} and skpublicdp "
            f"{other_package}."
        )


class RowSubset(RowReader):
    """Reader of selected columns, or of the rows in a mask, of a row source.

    Parameters
    ----------
    rows : RowSource
        The rows.
    n_rows : int
        Number of rows in the mask.
    """

    kind = "the rows of a site"
    remedy = "check its source"

    def __init__(self, rows: RowSource, n_rows: int) -> None:
        self._rows, self._n_rows = rows, n_rows
        self.names, self.n_columns = rows.names, rows.n_columns

    @classmethod
    def from_mask(cls, reader: RowReader, mask: Mask, *order: Any) -> RowSubset:
        """Return a reader of the rows selected by a mask, given the arguments of `with_mask`."""
        return cls(RowSource(reader).with_mask(mask, *order), int(mask.sum()))

    def _count(self) -> int:
        return self._n_rows

    def _empty(self) -> Any:
        return self._rows.empty()

    def _read(self, columns: Sequence[int]) -> Generator[Any, None, None]:
        for chunk in self._rows.map(lambda chunk: chunk, columns=columns, n_jobs=1):
            yield chunk.X
