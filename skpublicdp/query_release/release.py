"""PAPQueryRelease: private release of the answers to a query class, aided by public rows."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    N_JOBS,
    PROBABILITY,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp._internal.redaction import NotNumbersError
from skpublicdp.accounting import REPLACE_ROW
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.public_rows import public_data_assumptions
from skpublicdp.data.schema import Schema, column_position, feature_labels
from skpublicdp.data.validation import feature_names
from skpublicdp.data.value_conversion import IMPUTATION_ADVICE, MAX_LISTED_COLUMNS
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.query_release.fitted_methods import FittedReleaseMixin
from skpublicdp.query_release.marginals.weights import WeightColumn, warn_if_lowered
from skpublicdp.query_release.mechanisms import METHODS
from skpublicdp.query_release.queries.base import QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.query_release.spending import open_ledger
from skpublicdp.rules.population_guarantee import WRITTEN_FROM_DESCRIPTION, no_guarantee


class PAPQueryRelease(FittedReleaseMixin):
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
        ledger = open_ledger(self, X, is_public)
        rows = self._read_rows(X, X_public, is_public, groups, ledger)
        ledger.read(rows.n_private, rows.n_public)
        queries = _default_queries(rows.schema) if self.queries is None else self.queries
        weighted_queries = queries
        if self.weights is not None:
            weighted_queries = self._weighted(queries, rows)
        weighted_queries.check_columns(rows.schema)
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

    def _read_rows(
        self, X: Any, X_public: Any, is_public: Any, groups: Any, ledger: Ledger
    ) -> Dataset:
        """Validate the private and the public rows, and return them."""
        return read_fit_inputs(
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


def _default_queries(schema: Schema) -> QueryClass:
    """Return the query class for ``queries=None``: thresholds of one column, or pairs of columns.

    For a single numeric column with missing values, the class is a table over bins.
    """
    is_one_number = schema.numeric.tolist() == [True] and not schema.columns[0].nullable
    return ThresholdQueries() if is_one_number else MarginalQueries(k=2)
