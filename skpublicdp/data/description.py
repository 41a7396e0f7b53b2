"""Synthetic public rows from a user's description of the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.column import DAY
from skpublicdp.data.reference import reference_sample
from skpublicdp.data.tables import Container
from skpublicdp.typing import Floats

LIBRARIES = ("pandas", "polars", "pyarrow")
"""Libraries of the frames that `DescribedRows.to_frame` returns."""

DESCRIBED = "the public rows were written from a description that owes nothing to the private ones"
"""Assumption about described rows, for the receipt."""


@dataclass(frozen=True, eq=False, repr=False)
class DescribedRows:
    """Rows that `describe_columns` returns, to be passed as ``X_public``.

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
        """Return the rows as a frame, for inspection.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, default="pandas"
            Library of the frame, which must be installed.

        Returns
        -------
        DataFrame
            The rows.
        """
        if library not in LIBRARIES:
            raise ValueError(f"library must be one of {', '.join(LIBRARIES)}; got {library!r}.")
        return Container(library, tuple(self.columns)).build(list(self.columns.values()))

    def in_container(self, container: Container, names: Sequence[str] | None) -> Any:
        """Return the rows in a container of the same kind as `X`.

        Parameters
        ----------
        container : Container
            Library and labels of `X`.
        names : sequence of str or None
            Names of the columns of `X`. Without names the columns keep their order.
        """
        if names is None:
            if container.library is not None or len(container.labels) != len(self.columns):
                raise ValueError(
                    f"X_public must describe the columns of X, and X has no column names; got a "
                    f"description of {len(self.columns)} columns. Name the columns of X, or "
                    "describe all of them in their order."
                )
            return container.build(list(self.columns.values()))
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise ValueError(f"X_public must describe each column of X; {missing[0]!r} is missing.")
        values = [self.columns[name] for name in names]
        return Container(container.library, tuple(names)).build(values)


def public_data_assumptions(X_public: Any) -> tuple[str, ...]:
    """Return the assumptions about public rows that a receipt states; none unless described."""
    return (DESCRIBED,) if isinstance(X_public, DescribedRows) else ()


def describe_columns(description: Mapping[str, Any], *, size: int = 300) -> DescribedRows:
    """Return synthetic public rows that follow a description of the columns.

    Use it if there are no actual public rows. The description must come from common knowledge:
    nothing in it may depend on the private rows.

    Parameters
    ----------
    description : dict of str to description
        Description of each column by its name. A tuple ``(low, high)`` of numbers or dates gives
        evenly spread values. With ``(low, high, typical)`` the median is `typical`, and most
        values are near it. A list gives equally frequent categories, and a dict maps categories
        to rough shares.
    size : int, default=300
        Number of rows.

    Returns
    -------
    DescribedRows
        Rows for ``X_public``. The columns are independent of each other.

    Raises
    ------
    ValueError
        If a description has another form.

    See Also
    --------
    open_rows : Rows of a file or a database.

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
    quantiles = reference_sample(len(description), (0, 1), size)
    columns = {
        str(name): _column_values(str(name), column, quantiles[:, position])
        for position, (name, column) in enumerate(description.items())
    }
    return DescribedRows(columns)


def _column_values(name: str, description: Any, quantiles: Floats) -> NDArray[Any]:
    """Return the values of a described column at quantile levels between 0 and 1.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    description : tuple, list or dict
        Description of the column, as in `describe_columns`.
    quantiles : ndarray, shape (n,)
        Quantile levels of the n values.
    """
    if isinstance(description, tuple) and len(description) in (2, 3):
        return _numeric_values(name, description, quantiles)
    if isinstance(description, list) and description:
        description = dict.fromkeys(description, 1)
    is_shares = isinstance(description, Mapping) and description
    if not is_shares or not all(share > 0 for share in description.values()):
        raise ValueError(
            f"Column {name} must be described by (low, high), (low, high, typical), a list of "
            f"categories or a dict of category to share; got {description!r}."
        )
    cumulative = np.cumsum(list(description.values())) / sum(description.values())
    categories = np.empty(len(description), dtype=object)
    categories[:] = list(description)
    codes = np.searchsorted(cumulative, quantiles).clip(max=len(description) - 1)
    column: NDArray[Any] = categories[codes]
    return column


def _numeric_values(name: str, description: tuple[Any, ...], quantiles: Floats) -> NDArray[Any]:
    """Return the numbers or dates of a column described by (low, high) or (low, high, typical).

    Without a typical value they are uniform. Otherwise the distance from the typical value grows
    with the square of 2q - 1 at the quantile level q, so that `typical` is the median and most
    values are near it. Parameters are as in `_column_values`.
    """
    is_date = not all(isinstance(end, int | float | np.number) for end in description)
    ends: Any = description
    try:
        if is_date:
            ends = np.array(description, dtype="datetime64[us]").astype(np.int64)
        low, high, *typical = map(float, ends)
    except (TypeError, ValueError):
        raise ValueError(
            f"Column {name} must be described by numbers or dates; got {description!r}."
        ) from None
    if not -np.inf < low < high < np.inf or not all(low <= middle <= high for middle in typical):
        raise ValueError(
            f"Column {name} must be described by finite low < high, the typical value between "
            f"them; got {description!r}."
        )
    if typical:
        (median,) = typical
        signed = 2 * quantiles - 1  # from -1 at `low` over 0 at the median to 1 at `high`
        max_distance = np.where(signed < 0, median - low, high - median)
        values = median + np.sign(signed) * signed**2 * max_distance
    else:
        values = low + quantiles * (high - low)
    if is_date:
        # between whole days all values are whole days, otherwise whole microseconds
        are_whole_days = not any(end % DAY for end in ends)
        unit = DAY if are_whole_days else 1
        return (values.astype(np.int64) // unit * unit).astype("datetime64[us]")
    is_integral = all(isinstance(end, int | np.integer) for end in description)
    return np.rint(values).astype(np.int64) if is_integral else values
