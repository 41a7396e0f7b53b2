"""RegressionRelease: variances, correlations and least-squares coefficients from one release."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_level,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import REPLACE_ROW
from skpublicdp.data.container import Container
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.outcomes import MIN_ROWS_FOR_QUANTILES, TAIL_PROBABILITY
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.second_moments import (
    RowCoordinates,
    SecondMoments,
    correlation_intervals,
    finest_coordinates,
    regression_intervals,
    release_second_moments,
    variance_intervals,
)


class RegressionRelease(ProgressMixin, HTMLReprMixin, VersionedMixin, BaseEstimator):
    """Private correlations and least-squares coefficients of a table, with confidence intervals.

    `fit` releases the noisy second moments of all columns once. Afterwards, correlations and the
    coefficients of any linear regression among the columns cost no further privacy. The intervals
    contain the noise and the sampling of rows. If the noise exceeds what determines a coefficient,
    its interval is infinite.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=1e-6
        Privacy budget δ in [0, 1). With δ = 0, the release satisfies pure ε-differential privacy,
        and the noise of many columns is larger.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest values of numeric columns, which must not be computed from private rows.
        Private numbers outside the bounds are moved to the nearer bound. By default, the bounds are
        the 0.005 and 0.995 quantiles of the public rows. With fewer than 200 public rows, they are
        the public range, extended on each side by the width of this range. Noise is proportional to
        the width of the bounds.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the secure generator of the operating system. Any other value makes the noise
        repeatable, which is useful for tests and papers, and is noted in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If set, persons are protected instead of rows: `fit`
        requires `groups` and uses at most `max_rows_per_group` random rows of each person.
    budget : PrivacyBudget, default=None
        Budget to which the fit is charged. If it does not suffice, `fit` raises an error before
        reading any private row.

    Attributes
    ----------
    bounds_ : dict of str to tuple
        Bounds to which each numeric column was clipped, and to which all results refer.
    privacy_ : PrivacyReceipt
        The privacy cost.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the features, if all columns of `X` have names that are strings.

    Warns
    -----
    LargeDeltaWarning
        If `delta` is not much smaller than 1 / n for n private rows.
    NoPublicDataWarning
        If there are no public rows.
    SlicedPublicDataWarning
        If `X_public` and `X` have the same number of rows, so that cross-validation would split
        both.

    See Also
    --------
    SemiPrivateLinearRegression : One regression, with the covariance of public rows. It predicts,
        and supports many columns.
    PAPQueryRelease : Tables, distributions and synthetic rows.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row. The number of private rows, the
    names and types of columns and all public rows are not protected.

    The noise grows with the number of columns, so pass only columns that are needed, for example
    ``X[["income", "age"]]``. Numbers must not be missing.

    References
    ----------
    .. [1] O. Sheffet (2017). Differentially private ordinary least squares. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skpublicdp.query_release import RegressionRelease
    >>> rng = np.random.default_rng(0)
    >>> age, sex = rng.uniform(20, 65, 20_000), rng.choice(["f", "m"], 20_000)
    >>> income = 10 + age / 2 + 4 * (sex == "m") + rng.normal(0, 5, 20_000)
    >>> X = pd.DataFrame({"income": income, "age": age, "sex": sex})
    >>> bounds = {"income": (0, 70), "age": (18, 70)}
    >>> release = RegressionRelease(bounds=bounds, random_state=0)
    >>> release = release.fit(X[200:], X_public=X[:200])
    >>> print(release.regression("income", on=["age", "sex"]).round(2))
              name  coefficient    low   high
    0  (intercept)        14.29  13.74  14.81
    1          age         0.49   0.48   0.51
    2        sex=f        -4.13  -4.38  -3.86
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "delta": DELTA,
        "bounds": ["array-like", dict, None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    __metadata_request__fit = {"X_public": True, "is_public": True, "groups": True}  # noqa: RUF012

    protects_all_rows = True
    """Every row of `X` is private unless a mask marks it as public."""

    _moments: SecondMoments

    def __init__(
        self,
        *,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 1e-6,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_public: Any = None,
        is_public: Any = None,
        groups: Any = None,
    ) -> Self:
        """Release the second moments of the columns, spending the privacy budget (ε, δ).

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows, which are private unless `is_public` marks them as public. Text, booleans and
            pandas categories are categorical, and numbers are numeric.
        y : None
            Ignored. The outcome is a column of `X`.
        X_public : array-like or DataFrame, shape (m, n_features), optional
            Separate public rows, which determine categories and default bounds. The shape of their
            residuals also lengthens intervals if residual variances are unequal.
        is_public : array-like of bool, shape (n,), optional
            Mask that marks the public rows of `X`.
        groups : array-like, shape (n,), optional
            Identifier of each row's person, used with `max_rows_per_group`.

        Returns
        -------
        self : RegressionRelease
            The fitted release.

        Raises
        ------
        ValueError
            If any parameter or input is invalid. The error message does not contain private values.
        PrivacyBudgetError
            If `budget` cannot cover the fit.
        """
        check_parameters(self)
        ledger = Ledger.from_estimator(self)
        rows = read_fit_inputs(
            self,
            X,
            X_public=X_public,
            is_public=is_public,
            groups=groups,
            ledger=ledger,
            clamp=True,
            use_reference=True,
        )
        bounds = _public_bounds(rows)
        coordinates = finest_coordinates(RowCoordinates(rows.schema, bounds), ledger)
        ledger.read(rows.n_private, rows.n_public)
        self._moments = release_second_moments(rows, coordinates, ledger)
        self.bounds_ = {}
        for position, (low, high) in bounds.items():
            offset = rows.schema.columns[position].offset
            self.bounds_[rows.schema.names[position]] = (low + offset, high + offset)
        self.privacy_ = ledger.receipt(
            unit=REPLACE_ROW,
            assumptions=(
                "the number of private rows, and the names and types of columns, are known",
                *rows.assumptions,
            ),
        )
        return self

    def regression(
        self,
        y: str | int,
        on: str | int | Sequence[str | int] | None = None,
        level: float | Fraction = 0.95,
    ) -> Any:
        """Return the coefficients of a least-squares regression, with confidence intervals.

        Parameters
        ----------
        y : str or int
            Name or position of a numeric column, or a category as ``"column=category"``. The
            outcome is then 1 for rows of this category and 0 for others.
        on : str, int, or sequence of these, default=None
            Names or positions of the regressors. ``None`` means all other columns.
        level : float, default=0.95
            Coverage of each interval over samples and noise, in (0, 1).

        Returns
        -------
        DataFrame or dict of str to ndarray
            One row for the intercept, for each numeric column, and for each category as
            ``"column=category"``. The columns are ``name``, ``coefficient``, ``low`` and ``high``.
            The most frequent category of a column is its reference and has no row. Neither have
            categories whose released count is below 5 standard deviations of the noise: their rows
            are counted with the reference. A coefficient is NaN if its interval is infinite. The
            result is a frame of the same library as `X`, and a dict if `X` is an array.

        Raises
        ------
        ValueError
            If a column does not exist, or if `y` is among the regressors.
        """
        check_is_fitted(self)
        schema, layout = self._moments.coordinates.schema, self._moments.coordinates
        if isinstance(y, str) and y in layout.names and y not in schema.names:
            target = layout.names.index(y)
            position = next(p for p, column in enumerate(layout.columns) if target in column)
        else:
            position = schema.position(y)
            target = int(layout.columns[position][0])
            if schema.columns[position].categorical:
                example = layout.names[target]
                raise ValueError(
                    f"The outcome of a regression must be a number, but column {y} is categorical. "
                    f"Pass the name of a category, such as y={example!r}."
                )
        if on is None:
            columns = [p for p in range(len(schema.columns)) if p != position]
        else:
            names = [on] if isinstance(on, str | int) else on
            columns = list(dict.fromkeys(schema.position(name) for name in names))
        if position in columns:
            raise ValueError(f"The outcome {y} must not be among the columns of `on`.")
        names, values = regression_intervals(self._moments, target, columns, check_level(level))
        return self._frame({"name": names}, values, "coefficient")

    def correlation(self, level: float | Fraction = 0.95) -> Any:
        """Return the correlations of all pairs of numeric columns, with confidence intervals.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of each interval over samples and noise, in (0, 1).

        Returns
        -------
        DataFrame or dict of str to ndarray
            One row per pair, with the columns ``first``, ``second``, ``correlation``, ``low`` and
            ``high``. The result is a frame of the same library as `X`, and a dict if `X` is an
            array.

        Raises
        ------
        ValueError
            If there are fewer than two numeric columns.
        """
        check_is_fitted(self)
        schema = self._moments.coordinates.schema
        columns = np.flatnonzero(schema.numeric)
        if len(columns) < 2:
            raise ValueError(
                f"Correlations require two numeric columns, but X has {len(columns)}. Tables of "
                "categorical columns are released by PAPQueryRelease."
            )
        values = correlation_intervals(self._moments, columns.tolist(), check_level(level))
        names = np.array(schema.names, dtype=object)[columns]
        first, second = np.triu_indices(len(columns), 1)
        pairs = {"first": names[first], "second": names[second]}
        return self._frame(pairs, values, "correlation")

    def variance(self, level: float | Fraction = 0.95) -> Any:
        """Return the variances of all numeric columns, with confidence intervals.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of each interval over samples and noise, in (0, 1).

        Returns
        -------
        DataFrame or dict of str to ndarray
            One row per numeric column, with the columns ``name``, ``variance``, ``low`` and
            ``high``. Numbers beyond the bounds count as the nearer bound. The result is a frame of
            the same library as `X`, and a dict if `X` is an array.
        """
        check_is_fitted(self)
        schema = self._moments.coordinates.schema
        columns = np.flatnonzero(schema.numeric)
        values = variance_intervals(self._moments, columns.tolist(), check_level(level))
        names = np.array(schema.names, dtype=object)[columns]
        return self._frame({"name": names}, values, "variance")

    def _frame(self, labels: dict[str, Any], values: Any, name: str) -> Any:
        """Return labels and intervals as a frame of the library of `X`, or as a dict."""
        estimates, low, high = values.T
        columns = {key: np.array(column, dtype=object) for key, column in labels.items()}
        columns |= {name: estimates, "low": low, "high": high}
        library = self._moments.coordinates.schema.container.library
        if library is None:
            return columns
        return Container(library, tuple(columns)).build(list(columns.values()))


def _public_bounds(rows: Dataset) -> dict[int, tuple[float, float]]:
    """Return the encoded bounds of the numeric columns: those declared, or public quantiles."""
    bounds = {}
    for position in np.flatnonzero(rows.schema.numeric).tolist():
        column = rows.schema.columns[position]
        if column.is_datetime:
            raise ValueError(
                f"Column {column.name} contains dates, which have no second moments. Convert the "
                "dates to numbers, for example to years, or drop the column."
            )
        low, high = column.low, column.high
        if position not in rows.bounded and rows.n_public >= MIN_ROWS_FOR_QUANTILES:
            public = rows.X_public[: rows.n_public, position]
            ends = np.quantile(public, [TAIL_PROBABILITY, 1 - TAIL_PROBABILITY]).tolist()
            if ends[0] < ends[1]:
                low, high = ends
        bounds[position] = (low, high)
    return bounds
