"""PAPQueryRelease: private release of the answers to a query class, aided by public rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    N_JOBS,
    PROBABILITY,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_level,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.redaction import NotNumbersError
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import REPLACE_ROW, Steps
from skpublicdp.accounting.receipts import receipt_with_public_columns
from skpublicdp.data.batch_predict import apply_rule
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.public_rows import public_data_assumptions
from skpublicdp.data.roles import check_mask
from skpublicdp.data.schema import Column, Schema, column_position, feature_labels
from skpublicdp.data.streaming import as_rows, is_streamed
from skpublicdp.data.tables import count_rows, is_frame
from skpublicdp.data.validation import feature_names, read_table
from skpublicdp.data.value_conversion import IMPUTATION_ADVICE, MAX_LISTED_COLUMNS
from skpublicdp.exceptions import SyntheticTailsWarning, warn
from skpublicdp.guarantees.population import check_ranges
from skpublicdp.privacy.ledger import Ledger, public_seed
from skpublicdp.query_release import combined_cells
from skpublicdp.query_release.answers import FittedRelease
from skpublicdp.query_release.calibration import calibrate_release
from skpublicdp.query_release.collapsed_tables import describe_collapsed
from skpublicdp.query_release.column_methods import ColumnMethodsMixin
from skpublicdp.query_release.contrasts import Contrast, contrast_of_queries
from skpublicdp.query_release.marginals.count import WeightColumn, warn_if_lowered
from skpublicdp.query_release.mechanisms import METHODS
from skpublicdp.query_release.methods_paragraph import describe_method
from skpublicdp.query_release.planning import default_delta
from skpublicdp.query_release.queries.base import QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.query_release.synthetic import (
    Constraint,
    check_constraints,
    draw_accepted_rows,
    fidelity_columns,
    satisfies,
)
from skpublicdp.query_release.table_frames import (
    TableOptions,
    as_frame,
    describe_all_tables,
    describe_number,
    describe_table,
)
from skpublicdp.query_release.table_rounding import check_limits, check_suppress
from skpublicdp.rules.population_guarantee import WRITTEN_FROM_DESCRIPTION, no_guarantee
from skpublicdp.typing import Floats, Mask


class PAPQueryRelease(
    ColumnMethodsMixin,
    ProgressMixin,
    HTMLReprMixin,
    VersionedMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Private estimates of the fraction of the population that satisfies each query in a class.

    `fit` spends the budget once. Afterwards, any number of queries of the class are answered with
    confidence intervals at no further privacy cost, and `sample` returns synthetic rows. Public
    rows determine which statistics are measured, and provide the prior for the noisy measurements.
    The weight of public rows is estimated from the noisy answers, so that public rows from another
    population do little harm.

    Parameters
    ----------
    queries : QueryClass, default=None
        The class of queries to answer. ``None`` means `ThresholdQueries` for a single numeric
        column and otherwise `MarginalQueries` over pairs of columns.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=None
        Privacy budget δ in [0, 1). ``None`` means 1/n² for n private rows, but at most 1e-6. With δ
        = 0, the release satisfies pure ε-differential privacy.
    method : {"auto", "pmw", "public"}, default="auto"
        ``"auto"`` measures in several rounds, where earlier rounds determine what later rounds
        measure, and computes a posterior using the public rows. ``"pmw"`` runs private
        multiplicative weights, Algorithm 3 of [1]_, which has a worst-case guarantee. ``"public"``
        answers from public rows alone and spends no budget.
    trust : "auto" or float, default="auto"
        For ``"auto"``: weight of a public row relative to a private row, above 0 and at most 1. By
        default, this weight is estimated.
    alpha : float, default=None
        For ``"pmw"``: target error, in (0, 1), that determines the number of rounds. ``None``
        selects the number of rounds with the best guarantee.
    beta : float, default=0.05
        For ``"pmw"``: failure probability of the guarantee, in (0, 1).
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest values of numeric columns, which must not be computed from private rows.
        Private numbers outside the bounds are moved to the nearer bound. By default, the bounds are
        those of the public range, extended on each side by the width of this range.
    n_jobs : int, default=None
        Number of threads used to tabulate rows. Results do not depend on this number.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the secure generator of the operating system. Any other value makes the noise
        repeatable, which is useful for tests and papers, and is noted in the receipt. The method
        `sample` also uses this parameter.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If set, persons are protected instead of rows: `fit`
        requires `groups` and uses at most `max_rows_per_group` random rows of each person.
    weights : str or int, default=None
        Name or position of a numeric column of `X` with survey weights. Tables then estimate
        weighted fractions. `bounds` must declare the maximum weight without looking at private
        rows. Weights above this maximum are lowered to it, and negative weights count as 0. Weights
        must not be missing. Weights are supported only for
        `MarginalQueries` with ``"auto"``. The weights of public rows are ignored, so all public
        rows count equally.
    budget : PrivacyBudget, default=None
        Budget to which the fit is charged. If it does not suffice, `fit` raises an error before
        reading any private row. ``method="public"`` is not charged.

    Attributes
    ----------
    queries_ : QueryClass
        The class of the answered queries.
    privacy_ : PrivacyReceipt
        The privacy cost, and the mechanisms that incurred it.
    effective_public_size_ : float
        Number of private rows that are equivalent to the public rows.
    expected_error_ : float or None
        For tables with ``"auto"``: expected root mean square error of the answers, computed from
        released and public numbers.
    guarantee_ : float or None
        For ``"pmw"``: error bound for all answers as estimates of the population's fractions. The
        bound holds with probability 1 - beta over all rows and draws if private and public rows are
        independent draws from the same population. ``None`` if no bound is proved.
    guarantee_reason_ : str
        A sentence that states the terms of the guarantee, or the reason why there is no guarantee.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the features, if all columns of `X` have names that are strings.

    Warns
    -----
    LargeDeltaWarning
        If δ is large for the number of private rows.
    NoPublicDataWarning
        If there are no public rows, in which case a data-independent reference sample is used, if
        there is a single one, or if a column is constant in them.
    TooFewRowsWarning
        If there are too few rows for a guarantee with ``"pmw"``.
    SlicedPublicDataWarning
        If `X_public` and `X` have the same number of rows, so that cross-validation would split
        both.
    UncoveredBoundsWarning
        If many weights exceed their declared maximum, according to public rows or to the released
        sum of the weights.
    UnknownCategoriesWarning
        If most values of a categorical column in the rows passed to `score` or `holds` are unknown.

    See Also
    --------
    SemiPrivateClassifier : Learns a classification rule from labelled rows.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row. The number of private rows, the
    names and types of columns and all public rows are not protected.

    References
    ----------
    .. [1] R. Bassily, A. Cheu, S. Moran, A. Nikolov, J. Ullman and Z. S. Wu (2020). Private query
       release assisted by public data. ICML. Algorithm 3, Theorem 10.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import PAPQueryRelease
    >>> rng = np.random.default_rng(0)
    >>> ages = rng.integers(18, 90, size=(20_000, 1))
    >>> release = PAPQueryRelease(epsilon=1.0, bounds=(0, 120), random_state=0)
    >>> release = release.fit(ages, X_public=rng.integers(18, 90, size=(200, 1)))
    >>> abs(release.cdf([40.0]) - (ages <= 40).mean()).item() < 0.02
    True
    >>> release.privacy_.epsilon
    1.0
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "queries": [QueryClass, None],
        "delta": [*DELTA, None],
        "method": [StrOptions({"auto", *METHODS})],
        "trust": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="right")],
        "alpha": [*PROBABILITY, None],
        "beta": PROBABILITY,
        "bounds": ["array-like", dict, None],
        "n_jobs": N_JOBS,
        "weights": [str, Integral, None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    __metadata_request__fit = {"X_public": True, "is_public": True, "groups": True}  # noqa: RUF012

    _schema: Schema
    _released: FittedRelease
    guarantee_: float | None
    expected_error_: float | None
    protects_all_rows = True
    """Every row of `X` is private unless a mask marks it as public."""

    @property
    def _unused_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that the chosen method does not use."""
        unused = () if self.method == "pmw" else ("alpha", "beta")
        return unused if self.method == "auto" else (*unused, "trust")

    def __init__(
        self,
        queries: QueryClass | None = None,
        *,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction | None = None,
        method: Literal["auto", "pmw", "public"] = "auto",
        trust: float | Literal["auto"] = "auto",
        alpha: float | None = None,
        beta: float = 0.05,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        weights: str | int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.queries = queries
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.trust = trust
        self.alpha = alpha
        self.beta = beta
        self.bounds = bounds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.weights = weights
        self.budget = budget

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_public: Any = None,
        is_public: Any = None,
        groups: Any = None,
    ) -> Self:
        """Measure the private rows and estimate the answers to all queries of the class.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows, which are private unless `is_public` marks them as public. Text, booleans and
            pandas categories are categorical, and numbers are numeric.
        y : None
            Ignored.
        X_public : array-like or DataFrame, shape (m, n_features), optional
            Separate public rows. In cross-validation, their number must differ from the number of
            rows in `X`.
        is_public : array-like of bool, shape (n,), optional
            Mask that marks the public rows of `X`. The mask is split with `X` in cross-validation.
        groups : array-like, shape (n,), optional
            Identifier of each row's person, used with `max_rows_per_group`. Ignored for public
            rows.

        Returns
        -------
        self : PAPQueryRelease
            The fitted release.

        Raises
        ------
        ValueError
            If any parameter or input is invalid. The error message does not contain private values.
        PrivacyBudgetError
            If `budget` cannot cover the fit.
        CoverSizeError
            If the cover used by ``"pmw"`` does not fit into memory.
        """
        check_parameters(self)
        self._fit(X, X_public, is_public, groups)
        # a user's filter can turn this warning into an error, which must not undo the release
        self._released.warn_of_mean_weight()
        return self

    @all_or_nothing
    def _fit(self, X: Any, X_public: Any, is_public: Any, groups: Any) -> None:
        """Fit the release, or restore all attributes after an error."""
        try:
            self._fit_attributes(X, X_public, is_public, groups)
        except NotNumbersError as error:
            error.args = (_advise_missing_cells(error, self._name_of_weights()),)
            raise

    def _fit_attributes(self, X: Any, X_public: Any, is_public: Any, groups: Any) -> None:
        """Fit the release, where an error about missing numbers has advice for any estimator."""
        ledger = _open_ledger(self, X, is_public)
        rows = read_fit_inputs(
            self,
            X,
            X_public=X_public,
            is_public=is_public,
            groups=groups,
            ledger=ledger,
            nullable=() if self.queries is None else self.queries.nullable,
            clamp=True,
            use_reference=True,
            min_public_rows=None if self.method == "public" else 2,
        )
        ledger.read(rows.n_private, rows.n_public)
        queries = self.queries
        if queries is None:
            column = rows.schema.columns[0]
            is_one_number = rows.schema.numeric.tolist() == [True] and not column.nullable
            queries = ThresholdQueries() if is_one_number else MarginalQueries(k=2)
        weighted_queries = queries
        if self.weights is not None:
            weighted_queries = self._weighted(queries, rows)
        if queries.sums and (self.method != "auto" or self.weights is not None):
            raise ValueError("sums requires method='auto' and no weights.")
        if queries.are_numbers and self.method != "auto":
            raise ValueError("CustomQueries with bounds requires method='auto'.")
        weighted_queries.check_columns(rows.schema)
        if self.method != "auto" and (queries.zeros is not None or queries.hierarchy is not None):
            raise ValueError("zeros and hierarchy of MarginalQueries require method='auto'.")
        bound_queries = weighted_queries.bind(rows.schema, rows.X_public)
        released = METHODS[self.method](self, bound_queries, rows, ledger)

        self.queries_ = queries
        self._schema = rows.schema
        self._released = released
        self.effective_public_size_ = released.effective_public_size
        guarantee = released.promise
        if guarantee.bound and public_data_assumptions(X_public):
            # the guarantee assumes a sample of the population, not rows written from a description
            guarantee = no_guarantee(WRITTEN_FROM_DESCRIPTION)
        self.guarantee_, self.guarantee_reason_ = guarantee
        self.privacy_ = ledger.receipt(
            unit=REPLACE_ROW,
            assumptions=(
                "the number of private rows, and the names and types of columns, are known",
                *queries.assumptions,
                *rows.assumptions,
            ),
        )
        self.expected_error_ = released.answers.expected_error()

    def _name_of_weights(self) -> str | None:
        """Return the name of the column of weights in error messages, or None without one."""
        labels = feature_labels(self)
        names = tuple(map(str, labels)) or feature_names(self)
        position = column_position(self.weights, names, labels)
        return None if position is None else names[position]

    def _weighted(self, queries: QueryClass, rows: Dataset) -> QueryClass:
        """Return a copy of the query class that uses the column of survey weights."""
        if not (isinstance(queries, MarginalQueries) and self.method == "auto"):
            raise ValueError("weights requires MarginalQueries and method='auto'.")
        assert self.weights is not None
        position = rows.schema.position(self.weights)
        column = rows.schema.columns[position]
        low, high = column.low + column.offset, column.high + column.offset
        is_declared = position in rows.bounded and not (column.categorical or column.is_datetime)
        if not (is_declared and 0 <= low < high < math.inf):
            raise ValueError(
                f"The weights in column {column.name} must have declared bounds that start at 0. "
                "Pass bounds={column: (0, maximum)}."
            )
        if column.nullable:
            raise ValueError(f"The weights in column {column.name} must not be missing.")
        if (column.values + column.offset < 0).any():
            raise ValueError(
                f"The weights in column {column.name} must not be negative, but a public weight "
                "is. Replicate weights with negative values are not supported."
            )
        if (column.values > column.high).any():  # public weights; encoded rows are clipped
            is_lowered = rows.X_public[: rows.n_public, position] >= column.high
            warn_if_lowered(column.name, float(is_lowered.mean()))
        if len(rows.schema.columns) == 1:
            raise ValueError("X must have at least one column in addition to the weights.")
        return queries.weighted(WeightColumn(position, high, column.offset))

    @property
    def _columns_at_fit(self) -> tuple[Column, ...]:
        """Schema entry of each column of the rows passed to `fit`."""
        return self._schema.columns

    def answer(self, Q: Any) -> NDArray[np.float64]:
        """Estimate the fraction of the population that satisfies each query.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries in the format that the query class documents.

        Returns
        -------
        ndarray of shape (n_queries,)
            Answers in [0, 1].

        Warns
        -----
        UnmeasuredWarning
            If no released table contains all columns of a query about cells. The answer is then
            estimated from other tables.
        BinnedNumberWarning
            If a number in a query about cells represents a bin that contains other numbers, too.
        """
        check_is_fitted(self)
        return combined_cells.answer(self._released, self._check_queries(Q))

    def holds(self, Q: Any, X: Any) -> NDArray[np.bool_]:
        """Evaluate queries on given rows, without using the released results.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries.
        X : array-like or DataFrame, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of bool, shape (n_queries, n)
            Whether each query holds for each row. `answer` estimates the mean of these values over
            the population.
        """
        check_is_fitted(self)
        rows = apply_rule(self, X, self._schema.encode)
        return combined_cells.holds(self._released, self._check_queries(Q), rows)

    def interval(
        self, Q: Any, level: float | Fraction = 0.95, *, simultaneous: bool = False
    ) -> NDArray[np.float64]:
        """Return confidence intervals for the population's fractions.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries, as in `answer`.
        level : float, default=0.95
            Coverage over samples and noise, in (0, 1). For cells of tables, the coverage is an
            average over cells, so individual cells may be covered less often.
        simultaneous : bool, default=False
            Whether all intervals hold jointly with probability `level`, rather than each interval
            separately. Simultaneous intervals for tables contain the intervals from the noisy
            answers alone. They therefore hold without assumptions about public rows or a model.

        Returns
        -------
        ndarray of shape (n_queries, 2)
            Lower and upper ends. The intervals account for the noise, for the sampling of rows
            (which are assumed independent), and for the estimated shift of the public rows.

        Raises
        ------
        ValueError
            If the method or the query class does not provide intervals.
        """
        check_is_fitted(self)
        queries = self._check_queries(Q)
        return combined_cells.intervals(
            self._released, queries, check_level(level), simultaneous=bool(simultaneous)
        )

    def contrast(
        self,
        a: Mapping[Any, Any],
        b: Mapping[Any, Any],
        *,
        other: Self | None = None,
        within: Any = None,
        kind: Literal["difference", "ratio"] = "difference",
        level: float | Fraction = 0.95,
    ) -> Contrast:
        """Estimate the difference or the ratio of two fractions, with a confidence interval.

        Parameters
        ----------
        a, b : dict
            Queries about cells or combined cells, as in `answer`.
        other : PAPQueryRelease, default=None
            Release that answers `b`, such as that of last year. The private rows of both releases
            must be independent samples. By default, this release answers both queries.
        within : dict or pair of dicts, default=None
            Group of rows, as a query. If given, shares of this group are compared instead of
            fractions of all rows. A pair has a group for each of the queries.
        kind : {"difference", "ratio"}, default="difference"
            ``"difference"`` is a - b and ``"ratio"`` is a / b. A rate, such as the unemployed among
            the unemployed and employed, is a ratio.
        level : float, default=0.95
            Coverage, as in `interval`.

        Returns
        -------
        Contrast
            A named tuple with the fields ``estimate``, ``low`` and ``high``. A ratio whose
            denominator may be 0 is NaN, with the interval [0, inf].

        Raises
        ------
        ValueError
            If a query is invalid, if its table was not released, or if intervals are not available.

        Notes
        -----
        The interval combines those of `interval` by the method of variance estimates recovery
        [1]_ [2]_. Within one release, the errors of both answers are correlated. Their correlation
        is that of the posterior of the cells and of the sampling of rows.

        References
        ----------
        .. [1] G. Y. Zou and A. Donner (2008). Construction of confidence limits about effect
           measures. Statistics in Medicine 27.
        .. [2] A. Donner and G. Y. Zou (2012). Closed-form confidence intervals for functions of the
           normal mean and standard deviation. Statistical Methods in Medical Research 21.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> def people(n):
        ...     region = rng.choice(["north", "south"], size=n)
        ...     smokes = rng.random(n) < np.where(region == "north", 0.3, 0.1)
        ...     return pd.DataFrame({"region": region, "smokes": np.where(smokes, "yes", "no")})
        >>> release = PAPQueryRelease(epsilon=1.0, random_state=0)
        >>> release = release.fit(people(20_000), X_public=people(300))
        >>> north, south = {"region": "north"}, {"region": "south"}
        >>> smokers = {"smokes": "yes"}
        >>> result = release.contrast(smokers, smokers, within=(north, south))
        >>> print(f"{result.estimate:.2f} [{result.low:.2f}, {result.high:.2f}]")
        0.19 [0.18, 0.20]
        """
        check_is_fitted(self)
        second = self if other is None else other
        check_is_fitted(second)
        return contrast_of_queries(
            self._released, second._released, (a, b), within, kind, check_level(level)
        )

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Answer queries in a step of a pipeline.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_queries, ...)
            Queries. The parameter is called `X` because scikit-learn's pipelines use this name.

        Returns
        -------
        ndarray of shape (n_queries, 1)
            Answers in [0, 1].
        """
        return self.answer(X)[:, None]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the name of the column that `transform` returns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str, shape (1,)
        """
        check_is_fitted(self)
        return np.array(["fraction"], dtype=object)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the negative mean absolute error of the answers on held-out rows.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Held-out rows, which are not protected: like any scikit-learn score, this score is
            computed from the rows without noise. This score must not be published.
        y : None
            Ignored.

        Returns
        -------
        float
            Negative mean absolute error over all cells of the tables in the class, or over queries
            at quantiles of these rows.
        """
        check_is_fitted(self)
        return -self._released.mean_error(apply_rule(self, X, self._schema.encode))

    def table(
        self,
        columns: str | int | Sequence[str | int],
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        counts: bool | int | Integral | str | tuple[str, int] = False,
        within: str | int | Sequence[str | int] | None = None,
        wide: bool | str = False,
        collapse: Mapping[Any, Any] | None = None,
        quality: bool | Sequence[float] = False,
        suppress: str | None = None,
    ) -> Any:
        """Return the marginal table of some columns: a fraction for each combination of values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns that occur together in a released table. Releases without
            tables, such as the default release of a single numeric column, provide a table of each
            numeric column with bins cut at round numbers.
        level, simultaneous
            Coverage of the intervals, as in `interval`.
        counts : bool, int, "whole" or ("whole", int), default=False
            Whether to add counts, i.e. fractions times the number of private rows. An integer, such
            as the size of the population, replaces the number of private rows. An integer is
            required if there are weights. With ``"whole"``, counts are whole numbers that add up to
            the number of rows and, in a table of two columns, to the whole counts of each column.
        within : str, int, or sequence of these, default=None
            Columns that define groups. The table then contains shares, i.e. the fraction of a
            group's rows in each cell. These columns may, but need not, be among `columns`.
        wide : bool or str, default=False
            Whether each category of the last column becomes a column of the result instead of a
            row. The values are the counts if `counts` is set, and otherwise the fractions or
            shares. The name of another value column, such as ``"low"``, selects that column
            instead.
        collapse : dict, default=None
            Cells that are combined, for some of the columns. Each value is a dict from new names to
            lists of categories or ranges, as in a query, such as
            ``{"region": {"coast": ["east", "west"]}}``, or increasing edges of wider bins, such as
            ``{"age": [18, 30, 65, 90]}``. All other cells stay. Intervals are those of the combined
            cells.
        quality : bool or sequence of float, default=False
            Whether to add a grade from A to E for each cell, which depends on half the length of
            the interval relative to the fraction or share: at most .1 for A, .2 for B, .3 for C and
            .5 for D. Four numbers replace these limits.
        suppress : {"B", "C", "D", "E"}, default=None
            Best grade that is not published. Cells of this grade or worse are NaN. Further cells
            are NaN, so that no suppressed cell is determined by the others together with all sums
            over one of the columns.

        Returns
        -------
        DataFrame or dict of str to ndarray
            The columns, then ``fraction`` (or ``share``) with the ends ``low`` and ``high`` of its
            interval. With `counts`, the columns ``count``, ``count_low`` and ``count_high`` are
            added. If a column of `X` in the table has such a name, an underscore is appended to the
            name of the result column, as in ``fraction_``. The result is a frame of the same
            library as `X`, and a dict if `X` is an array. For rows that are read in chunks, the
            library is the one of the chunks, for example pyarrow for Parquet files and DuckDB.

            A column has the same type in the results of all methods. If some of its cells are text,
            such as ``"(missing)"``, all of them are text. Categories whose type declares an order
            keep this order. All other categories are sorted, and numbers within strings are
            compared as numbers. ``"(other)"`` and ``"(missing)"`` come last.

        Raises
        ------
        ValueError
            If a column does not exist, no released table contains all columns, or a parameter is
            invalid.

        Notes
        -----
        Intervals refer to the population's fractions. The interval for a count is the interval for
        the corresponding fraction, multiplied by the number of rows. If a group may be empty, its
        shares are unknown and reported as NaN, with the interval [0, 1].

        A bin "a to b" of numbers contains b, and only the first bin contains a. The name of a bin
        that counts several numbers states it, as in ``">= 2"``. Numbers outside the bounds are
        counted as the nearer bound.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> def people(n):
        ...     region = rng.choice(["north", "south"], size=n)
        ...     smokes = rng.random(n) < np.where(region == "north", 0.3, 0.1)
        ...     return pd.DataFrame({"region": region, "smokes": np.where(smokes, "yes", "no")})
        >>> release = PAPQueryRelease(epsilon=1.0, random_state=0)
        >>> release = release.fit(people(20_000), X_public=people(300))
        >>> release.table("smokes", within="region")[:2].round(2)
          region smokes  share   low  high
        0  north     no   0.71  0.70  0.72
        1  north    yes   0.29  0.28  0.30
        >>> release.table("region", counts=True, wide=True).round(-2)
             north    south  (other)  (missing)
        0  10000.0  10000.0      0.0        0.0
        """
        check_is_fitted(self)
        positions = self._positions(columns)
        groups = self._positions(within)
        if groups and set(positions) <= set(groups):
            raise ValueError("columns must contain at least one column that is not also in within.")
        other_groups = [position for position in groups if position not in positions]
        positions = other_groups + positions
        options = replace(
            self._table_options(level, simultaneous, counts),
            limits=check_limits(quality),
            suppress=check_suppress(suppress),
        )
        if collapse:
            return describe_collapsed(self._released, positions, groups, options, wide, collapse)
        is_single = len(positions) == 1 and not groups
        if is_single and self._schema.numeric[positions[0]] and self._has_column_tables:
            return describe_number(self._released, positions[0], options, wide)
        return describe_table(self._released, positions, groups, options, wide)

    def tables(
        self,
        level: float | Fraction = 0.95,
        *,
        simultaneous: bool = False,
        counts: bool | int | Integral | str | tuple[str, int] = False,
    ) -> Iterator[Any]:
        """Iterate over all released tables: the tables of the workload and all of their margins.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals, as in `interval`.
        simultaneous : bool, default=False
            Whether all intervals of all tables hold jointly.
        counts : bool, int, "whole" or ("whole", int), default=False
            Whether to add counts, as in `table`.

        Yields
        ------
        DataFrame or dict of str to ndarray
            A table in the format returned by `table`. Tables of single columns come first.

        Raises
        ------
        ValueError
            If no tables were released, or if a parameter is invalid.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame(rng.choice(["no", "yes"], size=(5_000, 2)), columns=["a", "b"])
        >>> release = PAPQueryRelease(random_state=0).fit(rows[100:], X_public=rows[:100])
        >>> for table in release.tables():
        ...     print(table.columns.tolist(), len(table))
        ['a', 'fraction', 'low', 'high'] 4
        ['b', 'fraction', 'low', 'high'] 4
        ['a', 'b', 'fraction', 'low', 'high'] 16
        """
        check_is_fitted(self)
        options = self._table_options(level, simultaneous, counts)
        if self._released.queries.has_tables:
            return describe_all_tables(self._released, options)
        if self._released.only_column is None or not self._has_column_tables:
            self._released.queries.table_cells([])  # raises an error
        return iter([describe_number(self._released, 0, options, wide=False)])

    @property
    def _has_column_tables(self) -> bool:
        """Whether the release describes a single numeric column and contains no tables.

        Listed queries do not determine the distribution of a column.
        """
        queries = self._released.queries
        return not queries.has_tables and queries.statistic != "counts"

    def _table_options(
        self, level: float | Fraction, simultaneous: bool, counts: Any
    ) -> TableOptions:
        """Check the options for displaying tables, and return them."""
        n_rows: int | None = None
        whole = isinstance(counts, str | tuple)
        if counts == "whole":
            counts = True
        elif isinstance(counts, tuple) and len(counts) == 2 and counts[0] == "whole":
            counts = counts[1]
        if counts is True and self._released.queries.weights is not None:
            raise ValueError(
                "counts must be the size of the population, because the rows have weights. Pass "
                "counts=N for a population of N rows."
            )
        if counts is True:
            n_rows = self.privacy_.n_private
        elif counts is not False:
            if not isinstance(counts, Integral) or counts < 1:
                raise ValueError(
                    "counts must be a bool, a positive integer, 'whole', or a pair of 'whole' and "
                    f"a positive integer; got {counts!r}."
                )
            n_rows = int(counts)
        return TableOptions(check_level(level), bool(simultaneous), n_rows, whole)

    def describe_method(self) -> str:
        """Return a paragraph about the release for the methods section of a publication.

        All facts are released or public: the guarantee, the mechanisms, the tables, the bounds and
        bins of numbers, the errors that intervals include, and the version of the software.

        Returns
        -------
        str
            Sentences in plain text. The number of private rows is stated if the guarantee treats it
            as public.

        Examples
        --------
        >>> import numpy as np
        >>> from skpublicdp import PAPQueryRelease
        >>> ages = np.random.default_rng(0).integers(18, 90, size=(2_000, 1))
        >>> release = PAPQueryRelease(bounds=(18, 90), random_state=0)
        >>> text = release.fit(ages, X_public=ages[:100].copy()).describe_method()
        >>> print(text.partition(". N")[0])
        The results satisfy (ε, δ)-differential privacy with ε = 1 and δ = 2.5e-07
        """
        check_is_fitted(self)
        return describe_method(type(self).__name__, self._released, self.privacy_)

    def calibrate(self, totals: Mapping[Any, Any], *, from_private_rows: bool = False) -> Self:
        """Return a copy of the release whose tables agree with totals from other sources.

        The released distribution is raked to known margins, such as those from a census.
        Calibration is post-processing of released numbers and costs no privacy. In the copy, the
        methods `answer`, `table`, `cdf`, `mean` and `sample` return calibrated results.

        Parameters
        ----------
        totals : dict
            Known totals of one or more released tables. Each key is a column or a tuple of columns.
            Each value is a dict or a pandas Series that maps every cell of the table to a number of
            persons or a share. Cells are named as in `table`, with tuples for several columns. Only
            the proportions within each table matter. Cells of ``"(other)"`` and ``"(missing)"`` may
            be omitted and are then empty after calibration. Totals must be public, and must not be
            computed from private rows unless `from_private_rows` is set.
        from_private_rows : bool, default=False
            Whether the totals were counted in the private rows. In this case, *the columns of the
            totals are not protected*: their values in all private rows must be public. The receipt
            of the copy states that only the other columns are protected, and its intervals are
            about the private rows, not about a population. The release must have no weights and no
            budget.

        Returns
        -------
        PAPQueryRelease
            The calibrated copy. Its `privacy_` differs only if `from_private_rows` is set. If the
            release is itself calibrated, the totals of all calls hold.

        Raises
        ------
        ValueError
            If totals contradict each other or declared zeros, lack cells, or refer to a table that
            was not released, or if `from_private_rows` is set for a release with weights or with a
            budget.

        Notes
        -----
        Intervals are approximate. The intervals of the release are rescaled by the standard
        deviation of the linearised calibration estimator [1]_, where errors due to noise are added
        as if they were independent. `cdf_interval`, `quantile_interval` and `mean_interval` are not
        available. For a mean, weight the ends of `mean_interval` of the groups by the known shares
        of the groups instead, with ``simultaneous=True`` and before calibration. The user guide on
        query release has an example.

        References
        ----------
        .. [1] J.-C. Deville and C.-E. Särndal (1992). Calibration estimators in survey sampling.
           Journal of the American Statistical Association 87.

        Examples
        --------
        >>> import numpy as np
        >>> from skpublicdp import PAPQueryRelease
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.choice(["f", "m"], size=(9000, 2), p=[0.3, 0.7])
        >>> release = PAPQueryRelease(epsilon=1.0, random_state=0)
        >>> release = release.fit(rows, X_public=rng.choice(["f", "m"], size=(50, 2)))
        >>> calibrated = release.calibrate({0: {"f": 4_020_000, "m": 3_980_000}})
        >>> print(calibrated.table(0)["fraction"].round(4))
        [0.5025 0.4975 0.     0.    ]
        """
        check_is_fitted(self)
        if from_private_rows and self.privacy_.entry is not None:
            raise ValueError(
                "from_private_rows requires a release without a budget, because a budget protects "
                "the columns of the totals as well. Fit again with budget=None, and add the cost "
                "yourself, or calibrate to totals from another source."
            )
        if from_private_rows and self._released.queries.weights is not None:
            raise ValueError(
                "from_private_rows requires a release without weights, because totals of weights "
                "would reveal the weights of private rows. Pass totals from another source."
            )
        calibrated = copy.copy(self)
        calibrated._released = calibrate_release(self._released, totals)
        calibrated.expected_error_ = calibrated._released.answers.expected_error()
        if from_private_rows:
            keys = [key if isinstance(key, tuple) else (key,) for key in totals]
            schema = self._schema
            positions = {schema.position(column) for key in keys for column in key}
            names = [schema.names[position] for position in sorted(positions)]
            calibrated.privacy_ = receipt_with_public_columns(self.privacy_, names)
        return calibrated

    def _check_queries(self, Q: Any) -> Any:
        """Return the user's queries after checking that their columns match those seen in `fit`.

        Only queries with the same columns as rows are compared, i.e. thresholds and cells in
        arrays. All other queries are returned unchanged and are checked by `QueryClass.encode`.
        """
        if isinstance(Q, list | tuple):
            return Q
        has_names = is_frame(Q)
        queries = Q if has_names else np.asarray(Q)
        # `read_table` would warn about an array without names after a fit on a frame
        is_comparable = has_names or not hasattr(self, "feature_names_in_")
        has_columns = self.queries_.has_columns_of_rows(as_frame=has_names)
        if has_columns and queries.ndim > 1 and is_comparable:
            # column kinds may differ, since a query may contain a date as text
            return read_table(self, queries, reset=False, numeric=False, kinds=False).native
        return Q

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
            where w is the released weight of rows that `sample` rejects or changes. For stumps,
            1/4096 is added, because `sample` draws from 4096 rows. ``None`` if `guarantee_` is
            ``None``, or for halfspaces, whose answers come from a cover and not from rows.

        References
        ----------
        Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Remark 9.
        """
        check_is_fitted(self)
        check_ranges(n=int(n), n_queries=n_queries, beta=beta)
        rows_error = self._released.answers.rows_error
        if self.guarantee_ is None or rows_error is None:
            return None
        rows = self._released.rows
        is_accepted = self._acceptance(keep_other, keep_missing, constraints)
        is_changed = ~is_accepted(rows.rows)
        changed_weight = float(rows.weights[is_changed].sum())
        log_inverse = math.log(2 * n_queries / beta)
        sampling = math.sqrt(log_inverse / (2 * int(n)))
        return min(1.0, self.guarantee_ + rows_error + changed_weight + sampling)

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


def _open_ledger(estimator: Any, X: Any, is_public: Any) -> Ledger:
    """Return the ledger of a fit, using the ε and δ of the estimator.

    The default δ depends on the number of private rows, which is not protected.
    """
    if estimator.method == "public":  # no private value is used, and nothing is spent
        return Ledger.from_estimator(estimator, delta=0, event=Steps(()))
    delta = estimator.delta
    if delta is None:
        if is_streamed(X):
            n_private = as_rows(X).n_rows
        else:
            n = count_rows(X) or 0  # an invalid X raises an error when it is read
            n_private = n - int(check_mask(is_public, n).sum())
        delta = default_delta(n_private)
    return Ledger.from_estimator(estimator, delta=delta)


def _advise_missing_cells(error: NotNumbersError, weights: str | None) -> str:
    """Return the message about missing private numbers, with advice to count them in a cell.

    The message depends on the types of columns only, like the original message. Weights, in the
    column with the name `weights`, must not be missing and have no cell.
    """
    if not error.names:
        return str(error)
    names = [name for name in error.names if name != weights]
    listed = ", ".join(map(repr, names[:MAX_LISTED_COLUMNS]))
    listed += ", ..." if len(names) > MAX_LISTED_COLUMNS else ""
    advice = (
        f"To count missing numbers, pass MarginalQueries(missing=[{listed}]) as queries; for other "
        "query classes, impute with PublicFit(SimpleImputer()); declare text as text in X and "
        "X_public."
    )
    if weights in error.names:
        weights_advice = f"Weights in column {weights} must be given for all rows."
        advice = f"{weights_advice} {advice}" if names else weights_advice
    return str(error).replace(IMPUTATION_ADVICE, advice)
