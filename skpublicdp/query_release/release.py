"""PAPQueryRelease: private answers to whole classes of queries, helped by public rows."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
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
from skpublicdp.data.description import public_data_assumptions
from skpublicdp.data.fit_inputs import read_fit_inputs
from skpublicdp.query_release.completion import add_missing_columns
from skpublicdp.query_release.fitted_methods import FittedReleaseMixin
from skpublicdp.query_release.method_choice import METHODS
from skpublicdp.query_release.queries.base import QueryClass, ThresholdQueries
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.query_release.queries.marginal import MarginalQueries
from skpublicdp.query_release.spending import open_ledger
from skpublicdp.rules.population_guarantee import WRITTEN_FROM_DESCRIPTION, no_guarantee


class PAPQueryRelease(FittedReleaseMixin):
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
    UnknownCategoriesWarning
        If a categorical column that `score` or `holds` is given later has mostly unknown values.

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
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
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
            Separate public rows. In cross-validation it must not have as many rows as `X`. For
            `CustomQueries` and ``method="auto"``, without `is_public`, a frame may lack columns of
            which the type or `bounds` declare what they may hold.
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
        options: dict[str, Any] = {}
        if isinstance(self.queries, CustomQueries) and self.method == "auto" and is_public is None:
            X_public, options["missing_columns"] = add_missing_columns(X, X_public, self.bounds)
        rows = read_fit_inputs(
            self,
            X,
            X_public=X_public,
            is_public=is_public,
            groups=groups,
            clamp=True,
            use_reference=True,
            min_public_rows=None if self.method == "public" else 2,
        )
        ledger.read(rows.n_private, rows.n_public)
        queries = self.queries
        if queries is None:
            is_one_number = len(rows.schema.columns) == 1 and rows.schema.numeric.all()
            queries = ThresholdQueries() if is_one_number else MarginalQueries(k=2)
        released = METHODS[self.method](self, queries, rows, ledger, **options)

        self.queries_ = queries
        self._schema = rows.schema
        self._released = released
        self.effective_public_size_ = released.effective_public_size
        promise = released.promise
        if promise.bound and public_data_assumptions(X_public):
            promise = no_guarantee(WRITTEN_FROM_DESCRIPTION)
        self.guarantee_, self.guarantee_reason_ = promise
        assumptions = ["the number of private rows, and the names and types of columns, are known"]
        if isinstance(queries, CustomQueries):
            assumptions.append("the function of CustomQueries looks at each row alone")
        self.privacy_ = ledger.receipt(assumptions=(*assumptions, *rows.assumptions))
        self.expected_error_ = released.expected_error
        return self
