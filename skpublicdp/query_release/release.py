"""PAPQueryRelease: private answers to whole classes of queries, helped by public rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpublicdp.card import ShowsCard
from skpublicdp.data.columns import Column
from skpublicdp.data.description import assumed_of
from skpublicdp.data.door import read
from skpublicdp.data.frames import is_frame
from skpublicdp.data.reading import read_table
from skpublicdp.ledger import public_seed
from skpublicdp.parameters import (
    DELTA,
    FIT,
    N_JOBS,
    PROBABILITY,
    ROWS,
    Budget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp.promise import DESCRIBED, nothing
from skpublicdp.query_release.line import LineRelease
from skpublicdp.query_release.listed import CustomQueries, MarginalQueries
from skpublicdp.query_release.methods import METHODS
from skpublicdp.query_release.queries import QueryClass, ThresholdQueries
from skpublicdp.query_release.spending import open_ledger
from skpublicdp.query_release.weighted import WeightedRows

MEAN_POINTS = 10_000
"""Quantiles that a mean is taken over."""


class PAPQueryRelease(ShowsCard, TransformerMixin, BaseEstimator):
    """Private estimates of the fraction of the population that satisfies each query of a class.

    `fit` spends the budget once. After it, any number of queries of the class are answered for
    free, with intervals, and `sample` gives synthetic rows. Public rows choose what is measured and
    are the prior of the noisy measurements; how far they are trusted is estimated from the noisy
    answers, so that public rows of another population do little harm.

    Parameters
    ----------
    queries : QueryClass, default=None
        What is to be answered. ``None`` means `ThresholdQueries` for one numeric column and
        `MarginalQueries` of pairs of columns otherwise.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    delta : float, default=None
        Privacy budget δ in [0, 1); ``None`` means 1/n², with n private rows, but no more than 1e-6,
        and 0 a pure ε-differentially private release.
    method : {"auto", "pmw", "public"}, default="auto"
        ``"auto"`` measures, looks, measures again, and weighs that against the public rows.
        ``"pmw"`` is the algorithm of [1]_, with a guarantee for worst cases. ``"public"``
        looks at public rows only and spends nothing.
    trust : "auto" or float, default="auto"
        Of ``"auto"``: how much of a private row a public row is worth, above 0 and at most 1;
        estimated by default.
    alpha : float, default=None
        Of ``"pmw"``: an error, in (0, 1), that is enough; ``None`` plays the number of rounds with
        the best guarantee.
    beta : float, default=0.05
        Of ``"pmw"``: probability, in (0, 1), with which the guarantee may fail.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest value of numeric columns, known without looking at private rows; private
        numbers outside are moved to the nearer one. By default the public range, widened by itself
        on each side.
    n_jobs : int, default=None
        Number of threads that tabulate rows; results do not depend on it.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers; the receipt then says so. `sample` uses it, too.
    max_rows_per_group : int, default=None
        Protects persons instead of rows: `fit` then takes `groups`, and no more than the first so
        many rows of a person count.
    budget : PrivacyBudget, default=None
        What the fit is charged to; one that cannot pay refuses before a private row is read.
        ``method="public"`` is not charged.

    Attributes
    ----------
    queries_ : QueryClass
        What is answered.
    privacy_ : PrivacyReceipt
        What was spent.
    effective_public_size_ : float
        How many private-like records the public rows turned out to be worth.
    expected_error_ : float or None
        Of ``"auto"`` tables: the root mean square error that is to be expected of the answers, by
        released and public numbers.
    guarantee_ : float or None
        Of ``"pmw"``: with probability 1 - beta over all rows and draws, no answer errs by more than
        this in the population, if private and public rows are independent and of one population.
        ``None`` where nothing is proved.
    guarantee_reason_ : str
        What the guarantee is made of, or why there is none, in one sentence.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    LargeDeltaWarning
        If δ is large for the number of private rows.
    NoPublicDataWarning
        If there are no public rows: a reference that looks at no data stands in.
    TooFewRowsWarning
        If ``"pmw"`` guarantees nothing for as few rows.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, so that cross-validation would cut it.

    See Also
    --------
    SemiPrivateClassifier : Learns a rule from labelled rows.

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
        **FIT,
        **ROWS,
    }

    __metadata_request__fit = {"X_public": True, "is_public": True, "groups": True}  # noqa: RUF012

    protects_all_rows = True
    """Every row of `X` is private unless a mask says otherwise."""

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
        budget: Budget = None,
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
        """Measure the private rows, once.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows, all private unless `is_public` says otherwise. Text, booleans and pandas
            categories are categorical, numbers are numeric.
        y : None
            Ignored.
        X_public : array-like or DataFrame, shape (m, n_features), optional
            Separate public rows. In cross-validation it must not have as many rows as `X`.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Whose row each is, for `max_rows_per_group`; not looked at for public rows.

        Returns
        -------
        self : PAPQueryRelease
            The fitted release.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        PrivacyBudgetError
            If `budget` cannot pay.
        CoverSizeError
            If the cells of ``"pmw"`` would not fit in memory.
        """
        check_parameters(self)
        ledger = open_ledger(self, X, is_public)
        rows = read(
            self,
            X,
            X_public=X_public,
            is_public=is_public,
            groups=groups,
            clamp=True,
            stand_in=True,
        )
        ledger.read(rows.n_private, rows.n_public)
        queries = self.queries
        if queries is None:
            one = len(rows.schema.columns) == 1 and rows.schema.numeric.all()
            queries = ThresholdQueries() if one else MarginalQueries(k=2)
        released = METHODS[self.method](self, queries, rows, ledger)

        self.queries_ = queries
        self._schema = rows.schema
        self._released = released
        self.effective_public_size_ = released.effective_public_size
        described = assumed_of(X_public)
        promise = nothing(DESCRIBED) if described and released.promise.bound else released.promise
        self.guarantee_, self.guarantee_reason_ = promise
        assumptions = ["the number of private rows, and the names and types of columns, are known"]
        if isinstance(queries, CustomQueries):
            assumptions.append("the function of CustomQueries looks at each row alone")
        self.privacy_ = ledger.receipt(assumptions=(*assumptions, *rows.assumptions))
        self.expected_error_ = released.expected_error
        return self

    def answer(self, Q: Any) -> NDArray[np.float64]:
        """Estimate the fraction of the population that satisfies each query.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries in the encoding of the class, see its documentation.

        Returns
        -------
        ndarray of shape (n_queries,)
            Answers in [0, 1].

        Warns
        -----
        UnmeasuredWarning
            If a question about cells is about columns that no released table has together, so that
            the answer is what the other tables make likely.
        """
        check_is_fitted(self)
        return self._released.answer(self._checked(Q))

    def interval(
        self, Q: Any, level: float | Fraction = 0.95, *, simultaneous: bool = False
    ) -> NDArray[np.float64]:
        """Say within which bounds the population's fractions should lie.

        Parameters
        ----------
        Q : array-like, DataFrame, dict or list of dict
            Queries in the encoding of the class.
        level : float, default=0.95
            How often the intervals should hold, in (0, 1), over samples and noise.
        simultaneous : bool, default=False
            Whether all of these should hold together, or each by itself. Those of tables then rest
            on the noisy answers alone, so that nothing about public rows or a model is assumed.

        Returns
        -------
        ndarray of shape (n_queries, 2)
            Low and high. They cover the noise, the sampling of rows, which are taken to be
            independent, and what the public rows were found to be wrong by.

        Raises
        ------
        ValueError
            Where there are no honest ones.
        """
        check_is_fitted(self)
        if not (isinstance(level, Real) and 0 < level < 1):
            raise ValueError(f"level must be in (0, 1); got {level!r}.")
        return self._released.interval(self._checked(Q), float(level), bool(simultaneous))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Answer queries, for pipelines.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_queries, ...)
            Queries, not rows; the name is scikit-learn's.

        Returns
        -------
        ndarray of shape (n_queries, 1)
            Answers in [0, 1].
        """
        return self.answer(X)[:, None]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name what `transform` returns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            One name.
        """
        check_is_fitted(self)
        return np.array(["fraction"], dtype=object)

    def score(self, X: Any, y: Any = None) -> float:
        """Compare the answers with rows, which are not protected by it.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows, such as a part kept aside. The score depends on them without noise, as all scores
            of scikit-learn do: do not publish it.
        y : None
            Ignored.

        Returns
        -------
        float
            Minus the mean error of the answers to the queries of the class: to all cells of its
            tables, or to the queries that tell these rows apart.
        """
        check_is_fitted(self)
        table = read_table(self, X, reset=False, numeric=False)
        return -self._released.mean_error(self._schema.encode(table))

    def table(self, columns: str | int | Sequence[str | int]) -> Any:
        """Return a table of the population: a fraction for each combination of values.

        Parameters
        ----------
        columns : str, int, or sequence of these
            Names or positions of columns that a released table has together.

        Returns
        -------
        DataFrame or dict of str to ndarray
            A column for each attribute, then ``fraction``, ``low`` and ``high`` (95% intervals,
            each by itself). A frame if `X` was one.

        Raises
        ------
        ValueError
            If there are no such columns, or no released table has them together.
        """
        check_is_fitted(self)
        columns = [columns] if isinstance(columns, str | int | Integral) else list(columns)
        return self._released.describe_table([self._schema.position(c) for c in columns])

    def sample(self, n: int | Integral = 1) -> Any:
        """Draw synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.

        Returns
        -------
        DataFrame or ndarray, shape (n, n_features)
            Rows in the container that `X` came in. It costs no privacy.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        seed = public_seed(self.random_state)
        generator = np.random.default_rng([seed, 1])  # apart from the noise of `fit`
        return self._schema.decode(self._released.sample(int(n), generator))

    def cdf(self, x: ArrayLike, column: str | int | None = None) -> NDArray[np.float64]:
        """Estimate the fraction at or below each number.

        Parameters
        ----------
        x : array-like of float or of dates
            Numbers.
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        ndarray of the shape of x
            Fractions, increasing with x.
        """
        line, described = self._line(column)
        return line.cdf(described.numbers(x))

    def quantile(self, p: ArrayLike, column: str | int | None = None) -> NDArray[Any]:
        """Estimate quantiles.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        ndarray of the shape of p
            Numbers or dates, increasing with p.
        """
        line, described = self._line(column)
        return described.written(line.quantile(_fractions(p)))

    def quantile_interval(self, p: ArrayLike, column: str | int | None = None) -> NDArray[Any]:
        """Say within which numbers the population's quantiles should lie, 95 times out of 100.

        Parameters
        ----------
        p : array-like of float
            Fractions in [0, 1].
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        ndarray of the shape of p and (2,)
            Low and high.

        Raises
        ------
        ValueError
            Where the column was not released by itself, as it is for thresholds, intervals, stumps,
            boxes and halfspaces with ``method="auto"``.
        """
        line, described = self._line(column)
        if not isinstance(line, LineRelease):
            raise ValueError(
                "There are quantile intervals for columns that were released by themselves, as "
                'they are for ThresholdQueries and StumpQueries with method="auto".'
            )
        return described.written(line.quantile_interval(_fractions(p)))

    def histogram(self, edges: ArrayLike, column: str | int | None = None) -> NDArray[np.float64]:
        """Estimate the fraction between edges.

        Parameters
        ----------
        edges : array-like of float, shape (n_bins + 1,)
            Increasing; a bin holds its right edge and not its left one.
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        ndarray of shape (n_bins,)
            Fractions.
        """
        edges = np.asarray(edges)
        if edges.ndim != 1 or len(edges) < 2 or not (edges[1:] > edges[:-1]).all():
            raise ValueError("edges must be two or more increasing numbers.")
        return np.diff(self.cdf(edges, column))

    def mean(self, column: str | int | None = None) -> Any:
        """Estimate the mean.

        Parameters
        ----------
        column : str or int, default=None
            Name or position of a numeric column; not needed if there is one.

        Returns
        -------
        float, or a datetime
            The mean, numbers outside the bounds being moved to the nearer one.
        """
        line, described = self._line(column)
        numbers = line.quantile((np.arange(MEAN_POINTS) + 0.5) / MEAN_POINTS)
        return described.written(np.array(numbers.mean())).item()

    def _line(self, column: str | int | None) -> tuple[LineRelease | WeightedRows, Column]:
        check_is_fitted(self)
        numeric = np.flatnonzero(self._schema.numeric)
        if column is None and len(self._schema.columns) > 1:
            raise ValueError(
                "cdf, quantile, histogram and mean are about one numeric column; name it."
            )
        position = 0 if column is None else self._schema.position(column)
        if position not in numeric:
            name = self._schema.names[position]
            raise ValueError(f"Column {name} is categorical; only numbers have an order.")
        return self._released.column(position), self._schema.columns[position]

    def _checked(self, Q: Any) -> Any:
        """Check the columns of queries that look like rows."""
        if isinstance(Q, list | tuple):
            return Q
        frame = is_frame(Q)
        # a frame of questions about cells may leave columns out
        like_rows = ThresholdQueries if frame else ThresholdQueries | MarginalQueries
        array = Q if frame else np.asarray(Q)
        # numbers without names are no rows of a frame
        named = frame or not hasattr(self, "feature_names_in_")
        if isinstance(self.queries_, like_rows) and array.ndim > 1 and named:
            return read_table(self, array, reset=False, numeric=False).native
        return Q


def _fractions(p: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p must lie in [0, 1].")
    return p
