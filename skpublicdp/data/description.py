"""Public rows written from a description of the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.column import DAY
from skpublicdp.data.reference import reference_sample
from skpublicdp.data.tables import Container

LIBRARIES = ("pandas", "polars", "pyarrow")
"""What frames of described rows may be made by."""

DESCRIBED = "the public rows were written from a description that owes nothing to the private ones"
"""What a receipt takes for granted of described rows."""


@dataclass(frozen=True, eq=False, repr=False)
class DescribedRows:
    """Rows that `describe_columns` wrote, to be passed as ``X_public``; `to_frame` shows them.

    Attributes
    ----------
    columns : dict of str to ndarray
        The values of each column.
    """

    columns: dict[str, NDArray[Any]]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(next(iter(self.columns.values()))), len(self.columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self.shape[0]} described rows of {', '.join(self.columns)}>"

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the rows as a frame, to be looked at.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, default="pandas"
            What makes the frame; it must be installed.

        Returns
        -------
        DataFrame
            The rows.
        """
        if library not in LIBRARIES:
            raise ValueError(f"library must be one of {', '.join(LIBRARIES)}; got {library!r}.")
        return Container(library, tuple(self.columns)).build(list(self.columns.values()))

    def like(self, container: Container, names: Sequence[str] | None) -> Any:
        """Return the rows in a container, as columns of these names or in their own order."""
        if names is None:
            if container.library is not None or len(container.labels) != len(self.columns):
                raise ValueError(
                    f"X_public describes {len(self.columns)} columns; name those of X to tell "
                    "which they are, or describe all of them in their order."
                )
            return container.build(list(self.columns.values()))
        lacking = [name for name in names if name not in self.columns]
        if lacking:
            raise ValueError(f"X_public must describe each column of X; {lacking[0]!r} is missing.")
        values = [self.columns[name] for name in names]
        return Container(container.library, tuple(names)).build(values)


def public_data_assumptions(X_public: Any) -> tuple[str, ...]:
    """Return what a receipt takes for granted of public rows, by how they came."""
    return (DESCRIBED,) if isinstance(X_public, DescribedRows) else ()


def describe_columns(description: Mapping[str, Any], *, size: int = 300) -> DescribedRows:
    """Write public rows from a description of the columns, where there are no real ones.

    Parameters
    ----------
    description : dict of str to description
        Of each column, by its name: ``(low, high)`` or ``(low, high, typical)`` of numbers or
        dates, where half of the values are at or below the typical one and most are near it; a
        list of categories; or a dict of category to rough share.
    size : int, default=300
        Number of rows.

    Returns
    -------
    DescribedRows
        Rows, for ``X_public``. Columns are independent of each other. It must be written from
        common knowledge: nothing in it may come from the private rows.

    Raises
    ------
    ValueError
        If a description is none of these.

    See Also
    --------
    open_rows : Rows of a file or a data base.

    Examples
    --------
    >>> from skpublicdp.data import describe_columns
    >>> rows = describe_columns(
    ...     {"age": (17, 90), "hours": (1, 99, 40), "job": ["clerk", "nurse"]}, size=4
    ... )
    >>> rows
    <4 described rows of age, hours, job>
    >>> sorted(rows.columns["age"].tolist()), sorted(rows.columns["hours"].tolist())
    ([26, 44, 63, 81], [18, 38, 44, 73])
    >>> rows.to_frame()
       age  hours    job
    0   63     73  clerk
    1   26     44  nurse
    2   44     38  clerk
    3   81     18  nurse
    """
    if not isinstance(description, Mapping) or not description:
        raise ValueError(
            "description must be a dict that describes at least one column by its name; got "
            f"{'an empty one' if isinstance(description, Mapping) else type(description).__name__}."
        )
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
        raise ValueError(f"size must be a positive whole number of rows; got {size!r}.")
    places = reference_sample(len(description), (0, 1), size)
    columns = {
        str(name): _column(str(name), of, places[:, position])
        for position, (name, of) in enumerate(description.items())
    }
    return DescribedRows(columns)


def _column(name: str, of: Any, places: NDArray[np.float64]) -> NDArray[Any]:
    if isinstance(of, tuple) and len(of) in (2, 3):
        return _numbers(name, of, places)
    if isinstance(of, list) and of:
        of = dict.fromkeys(of, 1)
    if not isinstance(of, Mapping) or not of or not all(share > 0 for share in of.values()):
        raise ValueError(
            f"Column {name} must be described by (low, high), (low, high, typical), a list of "
            f"categories or a dict of category to share; got {of!r}."
        )
    shares = np.cumsum(list(of.values())) / sum(of.values())
    values = np.empty(len(of), dtype=object)
    values[:] = list(of)
    column: NDArray[Any] = values[np.searchsorted(shares, places).clip(max=len(of) - 1)]
    return column


def _numbers(name: str, ends: tuple[Any, ...], places: NDArray[np.float64]) -> NDArray[Any]:
    dated = not all(isinstance(end, int | float | np.number) for end in ends)
    try:
        given = np.array(ends, dtype="datetime64[us]").astype(np.int64) if dated else ends
        low, high, *typical = map(float, given)
    except (TypeError, ValueError):
        raise ValueError(
            f"Column {name} must be described by numbers or dates; got {ends!r}."
        ) from None
    if not -np.inf < low < high < np.inf or not all(low <= middle <= high for middle in typical):
        raise ValueError(
            f"Column {name} must be described by finite low < high, the typical value between "
            f"them; got {ends!r}."
        )
    if typical:  # quadratic, so that most values are near the typical one
        side = 2 * places - 1
        reach = np.where(side < 0, typical[0] - low, high - typical[0])
        values = typical[0] + np.sign(side) * side**2 * reach
    else:
        values = low + places * (high - low)
    if dated:
        unit = DAY if not any(end % DAY for end in given) else 1  # days have days between them
        return (values.astype(np.int64) // unit * unit).astype("datetime64[us]")
    whole = all(isinstance(end, int | np.integer) for end in ends)
    return np.rint(values).astype(np.int64) if whole else values
