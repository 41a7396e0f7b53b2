"""Methods of a fitted `PAPQueryRelease` that provide synthetic rows at no privacy cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.parameters import Seed, check_level
from skpublicdp.data.schema import Schema
from skpublicdp.data.value_messages import MAX_LISTED_COLUMNS
from skpublicdp.exceptions import SyntheticTailsWarning, warn
from skpublicdp.guarantees.growth import check_ranges
from skpublicdp.privacy.ledger import public_seed
from skpublicdp.query_release.answers import FittedRelease
from skpublicdp.query_release.fidelity import fidelity_columns
from skpublicdp.query_release.row_constraints import (
    Constraint,
    check_constraints,
    draw_accepted_rows,
    satisfies,
)
from skpublicdp.query_release.table_frames import as_frame
from skpublicdp.typing import Floats, Mask


class SyntheticRowsMixin:
    """Methods of a fitted release that draw synthetic rows, at no privacy cost."""

    random_state: Seed
    guarantee_: float | None
    _schema: Schema
    _released: FittedRelease

    def sample(
        self,
        n: int | Integral = 1,
        *,
        keep_other: bool = True,
        keep_missing: bool = True,
        constraints: Constraint | Sequence[Constraint] | None = None,
    ) -> Any:
        """Draw synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        keep_other : bool, default=True
            Whether rows may have a category that no public row has, which is called ``"(other)"``.
            In a boolean column, or a column whose type declares all categories, there are no such
            categories, so they are always replaced by values from other rows.
        keep_missing : bool, default=True
            Whether rows may have missing values. In a column of booleans that are never missing in
            public rows, missing values are always replaced by values from other rows.
        constraints : callable, or sequence of callables, default=None
            Conditions that all rows must satisfy. They must not be derived from private rows. A
            function accepts rows in the container type of `fit` and returns a boolean for each row,
            as in ``lambda rows: (rows["age"] >= 15) | (rows["job"] != "farm")``.

        Returns
        -------
        DataFrame or ndarray, shape (n, n_features)
            Rows in the container type of `X`, at no privacy cost. Columns keep the categories that
            the type of `X_public` declares, or else that of `X`, and their order. Dates are in the
            time zone of the public dates. Public values decide all other types, since a private
            value can change a type of `X`. Missing values are missing. Rows that violate a
            constraint are redrawn. The sample's tables therefore differ from the released tables
            where the release contradicts the constraints. `fidelity` measures these differences.

        Raises
        ------
        ValueError
            If a constraint is invalid, or if hardly any row satisfies the constraints.

        Warns
        -----
        SyntheticTailsWarning
            If numbers are drawn from public rows and therefore stay within the public range,
            although the bounds of the column are wider.
        """
        rows = self._draw_rows(n, keep_other, keep_missing, constraints)
        columns = self._short_columns()
        if columns:
            names = ", ".join(columns[:MAX_LISTED_COLUMNS])
            warn(
                f"Synthetic numbers in {names} are limited to the range of the public rows, "
                "although the bounds are wider. To release the tails of a column, use "
                "ThresholdQueries. To silence this warning, set the bounds to the range of the "
                "public rows.",
                SyntheticTailsWarning,
            )
        return self._schema.decode(rows)

    def fidelity(
        self,
        n: int | Integral = 10_000,
        *,
        keep_other: bool = True,
        keep_missing: bool = True,
        constraints: Constraint | Sequence[Constraint] | None = None,
        level: float | Fraction = 0.95,
    ) -> Any:
        """Compare synthetic rows with each released table and CDF.

        The rows are drawn in the same way as in `sample`. All numbers are computed from released
        and public numbers, so they may be published. They show how well such rows agree with the
        measurements, not with other properties of the private rows.

        Parameters
        ----------
        n : int, default=10000
            Number of rows to sample from, at least 1.
        keep_other, keep_missing, constraints
            As in `sample`.
        level : float, default=0.95
            Coverage of the release's intervals, in (0, 1).

        Returns
        -------
        DataFrame or dict of arrays
            One row for each released table or CDF, and no row with ``method="pmw"`` or
            ``"public"``. The result is a frame of the same library as `X`, or a dict of arrays if
            `X` was an array. The columns are:

            - ``table``: names of the columns of the table.
            - ``n_numbers``: number of cells in the table, or of levels of the CDF.
            - ``rms_difference``: root mean square difference between the synthetic rows' fractions
              and the released fractions.
            - ``largest_difference``: largest absolute difference.
            - ``release_error``: root mean square of the expected errors, due to noise and sampling,
              of the released fractions.
            - ``drawing_error``: expected root mean square difference due to the drawing of
              synthetic rows.
            - ``inside``: share of the synthetic rows' fractions that lie within the release's
              confidence intervals. For fractions that are known after `calibrate`, these are
              intervals for the drawing of rows.

        Raises
        ------
        ValueError
            As `sample`.

        See Also
        --------
        skpublicdp.plotting.FidelityDisplay : Picture of the result.

        Examples
        --------
        >>> import pandas as pd
        >>> import numpy as np
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> sex, works = rng.choice(["f", "m"], 9000), rng.random(9000) < 0.6
        >>> X = pd.DataFrame({"sex": sex, "works": works})
        >>> release = PAPQueryRelease(random_state=0).fit(X[90:], X_public=X[:90])
        >>> release.fidelity(5000)[["table", "n_numbers"]]
                table  n_numbers
        0         sex          4
        1       works          4
        2  sex, works         16
        """
        level = check_level(level)
        if isinstance(n, Integral) and n == 0:
            raise ValueError(
                "n must be at least 1, because synthetic rows are compared with the release; got 0."
            )
        rows = self._draw_rows(n, keep_other, keep_missing, constraints)
        tables = self._released.answers.compare_rows(rows, level, self._schema.names)
        return as_frame(self._released, {}, fidelity_columns(tables))

    def sample_guarantee(
        self,
        n: int | Integral,
        *,
        n_queries: int = 1,
        beta: float = 0.05,
        keep_other: bool = True,
        keep_missing: bool = True,
        constraints: Constraint | Sequence[Constraint] | None = None,
    ) -> float | None:
        """Return a bound on the errors of queries that are evaluated on synthetic rows.

        Parameters
        ----------
        n : int
            Number of rows that `sample` draws.
        n_queries : int, default=1
            Number k of queries, which must be chosen before the rows are drawn.
        beta : float, default=0.05
            Failure probability of the bound on the sampling error, in (0, 1). The total failure
            probability is at most this value plus that of `guarantee_`.
        keep_other, keep_missing, constraints
            As in `sample`.

        Returns
        -------
        float or None
            With ``method="pmw"``: ``guarantee_ + w + sqrt(ln(2 k / beta) / (2 n))``, at most 1,
            where w is the released weight of rows that `sample` rejects or changes. ``None`` if
            `guarantee_` is ``None``, or if answers come from a cover instead of weighted rows.

        References
        ----------
        Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Remark 9.
        """
        check_is_fitted(self)
        check_ranges(n=int(n), n_queries=n_queries, beta=beta)
        if self.guarantee_ is None or not self._released.answers.answers_are_of_rows:
            return None
        support = self._released.rows
        is_changed = ~self._acceptance(keep_other, keep_missing, constraints)(support.rows)
        changed_weight = float(support.weights[is_changed].sum())
        sampling = math.sqrt(math.log(2 * n_queries / beta) / (2 * int(n)))
        return min(1.0, self.guarantee_ + changed_weight + sampling)

    def _acceptance(
        self,
        keep_other: bool,
        keep_missing: bool,
        constraints: Constraint | Sequence[Constraint] | None,
    ) -> Callable[[Floats], Mask]:
        """Return a function that indicates which encoded rows `sample` may return."""
        functions = check_constraints(constraints)

        def is_accepted(rows: Floats) -> Mask:
            """Indicate which encoded rows may be returned."""
            mask = self._schema.is_possible(rows)
            mask[mask] = satisfies(functions, rows[mask], self._schema)
            if not keep_other:
                mask &= self._schema.has_known_categories(rows)
            if not keep_missing:
                mask &= self._schema.has_all_values(rows)
            return mask

        return is_accepted

    def _draw_rows(
        self,
        n: int | Integral,
        keep_other: bool,
        keep_missing: bool,
        constraints: Constraint | Sequence[Constraint] | None,
    ) -> Floats:
        """Return n encoded synthetic rows; the parameters are those of `sample`."""
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        is_accepted = self._acceptance(keep_other, keep_missing, constraints)
        seed = public_seed(self.random_state)
        generator = np.random.default_rng([seed, 1])  # use a stream independent of `fit`

        def draw(size: int) -> Floats:
            """Return encoded rows without impossible values."""
            rows = self._released.answers.sample(size, generator)
            weights = self._released.queries.weights
            if weights is not None:  # synthetic rows have equal weights
                rows[:, weights.position] = 1 - weights.offset
            return self._schema.replace_impossible(rows)

        return draw_accepted_rows(draw, is_accepted, int(n))

    def _short_columns(self) -> list[str]:
        """Return the numeric columns whose synthetic numbers stay within the public range.

        Columns whose bounds equal the public range are excluded.
        """
        if not self._released.answers.ends_with_public_rows:
            return []
        weights = self._released.queries.weights
        return [
            column.name
            for position, column in enumerate(self._schema.columns)
            if not (column.categorical or (weights is not None and position == weights.position))
            and len(column.values)
            and (column.low < column.values[0] or column.high > column.values[-1])
        ]
