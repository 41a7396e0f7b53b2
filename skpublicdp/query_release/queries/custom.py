"""Query classes that are defined by a function of the user."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import RefusedError, call_silently
from skpublicdp.data.schema import Schema
from skpublicdp.query_release.pmw.cover import ExplicitCover, split_sample_cover
from skpublicdp.query_release.queries.base import Answers, QueryClass
from skpublicdp.typing import Floats


class CustomQueries(QueryClass):
    """Queries of one's own: a fixed list, answered by a function.

    An array of queries has shape (n_queries, 1): positions in the list.

    Parameters
    ----------
    function : callable
        Takes rows in the container they came in and returns booleans, shape (n, n_listed) or, of a
        single query, (n,). It must look at each row alone, which the receipt takes for granted. In
        frames other than those of pandas categories are text, and a missing boolean is false. Of
        what it says of private rows, nothing is heard: no warning, and one sentence if it fails.

    See Also
    --------
    MarginalQueries : Tables, which are released more accurately.

    Notes
    -----
    With ``method="auto"`` queries may be about columns that public rows lack, or that are missing
    in all of them, if the types of the columns or `bounds` declare what they may hold. The function
    is then asked about public rows with declared values in these places: all categories, numbers
    between the bounds, and a spread of combinations where there are very many. Where its answer
    depends on them, or is the same for all rows so completed, nothing is known of a query but its
    noisy count.

    Examples
    --------
    >>> import numpy as np
    >>> mine = CustomQueries(lambda X: np.column_stack([X[:, 0] > X[:, 1], X.sum(axis=1) > 3]))
    >>> mine.holds([[1], [0]], np.array([[1.0, 2.5], [1.0, 0.0]]))
    array([[ True, False],
           [False,  True]])
    """

    def __init__(self, function: Callable[[Any], ArrayLike]) -> None:
        self.function = function

    def holds(self, Q: ArrayLike, X: Floats) -> Answers:
        """Tell for which rows each query of the list holds."""
        places = self._checked(Q, X.shape[1])[:, 0]
        answers = self._all(X)
        self._check_listed(places, len(answers))
        return answers[places]

    def resolve(self, Q: Any, schema: Schema) -> NDArray[np.intp]:
        """Check queries as a user gives them."""
        places = self._checked(Q, len(schema.columns))
        self._check_listed(places, self._n_listed)
        return places

    def arrange(self, X_public: Floats) -> ExplicitCover:
        """List all queries, and the cells of public rows."""
        return split_sample_cover(self.holds, self.everything(X_public), X_public)

    def everything(self, X: Floats) -> NDArray[np.intp]:
        """Return the whole list, as queries."""
        return np.arange(len(self._all(X[:1])))[:, None]

    def check_columns(self, schema: Schema) -> None:
        """Accept all columns."""

    def bound(self, schema: Schema, X_public: Floats) -> Self:
        """Return the class as it works on rows encoded by a schema."""
        other = copy.copy(self)
        other._schema = schema
        other._n_listed = len(other.everything(X_public))
        if not other._n_listed:
            raise ValueError(
                "The function of CustomQueries must list one query at least; it returned an array "
                "without columns for public rows."
            )
        return other

    def growth(self, m: int, n_features: int) -> int:
        """Bound in how many ways the queries divide m rows: not more than are listed."""
        return min(1 << m, getattr(self, "_n_listed", 1 << m) + 1)

    def _check_listed(self, places: NDArray[np.intp], n_listed: int) -> None:
        if len(places) and not (places.min() >= 0 and places.max() < n_listed):
            raise ValueError(
                f"Queries of CustomQueries must be positions below {n_listed}, how many the "
                "function lists."
            )

    def _all(self, X: Floats) -> Answers:
        found, error = call_silently(self._answers, X)
        listed = getattr(self, "_n_listed", None)
        if error is None and found.dtype == bool and found.shape[:1] == (len(X),):
            answers: Answers = found.T
            if found.ndim == 2 and listed in (None, len(answers)):
                return answers
        if listed is not None:  # it has met the public rows, and these may be private
            raise RefusedError(
                "The function of CustomQueries must return booleans for all possible rows, one row "
                "per row of X and as many columns as for public rows; what it does with these is "
                "withheld."
            )
        if error is not None:
            raise ValueError(f"The function of CustomQueries raised {type(error).__name__}.")
        raise ValueError(
            "The function of CustomQueries must return booleans, one row per row of X; got "
            f"{found.dtype} of shape {found.shape}."
        )

    def _answers(self, X: Floats) -> Answers:
        rows = self._schema.decode_rowwise(X) if hasattr(self, "_schema") else X
        answers = np.asarray(self.function(rows))
        return answers[:, None] if answers.ndim == 1 else answers

    def _checked(self, Q: Any, n_features: int) -> NDArray[np.intp]:
        places = self._numbers(Q, (1,), "positions in the list")
        if not (places == np.floor(places)).all():
            raise ValueError("Queries of CustomQueries must be whole numbers.")
        return places.astype(np.intp)
