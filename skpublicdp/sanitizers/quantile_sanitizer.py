"""QuantileSanitizer: synthetic rows with the private quantiles of every feature."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp.accounting import Pure, exact_fraction
from skpublicdp.data.bounds import limits_of
from skpublicdp.data.reference import reference_sample
from skpublicdp.data.roles import cap_rows_per_group
from skpublicdp.data.validation import check_rows, feature_names
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.guarantees import quantile_error
from skpublicdp.guarantees.sanitizer_bounds import n_levels
from skpublicdp.hypotheses import Cover, HypothesisClass
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.sanitizers.candidates import candidates
from skpublicdp.sanitizers.first_look import (
    FEWEST,
    LOOKING,
    column_budgets,
    draw_columns,
    other_values,
    release_cut,
)
from skpublicdp.sanitizers.quantiles import Column, release_column


class QuantileSanitizer(HTMLReprMixin, BaseEstimator):
    """Synthetic rows whose features have, one by one, the quantiles of the private rows.

    Pure ε-differentially private. A feature is halved at a private median, the halves at theirs,
    and so on [1]_; then the rows between the medians are counted, with noise. Where there are eight
    features or more, one draw first finds those with more than two common values: they have most of
    the budget, and each other feature is cut in two once. What features have to do with each other
    is not looked at.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest value of the features, known without looking at private rows; private
        numbers outside are moved to the nearer one. They may be far too wide. ``None`` looks for
        quantiles among round numbers of every size from 1e-9 to 2.5e12 and either sign.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers; the receipt then says so.
    max_rows_per_group : int, default=None
        Protects persons instead of rows: `fit` then takes `groups`, and no more than the first so
        many rows of a person count.
    budget : PrivacyBudget, default=None
        What the fit is charged to; one that cannot pay refuses before a private row is read.

    Attributes
    ----------
    columns_ : list of Column
        What was released of each feature; empty where the rows are too few to tell anything.
    privacy_ : PrivacyReceipt
        What was spent.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    NoPublicDataWarning
        If the rows are too few for `epsilon`: they are not looked at then.

    See Also
    --------
    PAPQueryRelease : Looks at several features at a time.

    Notes
    -----
    Neighbouring data sets differ by replacing one row. The number of rows is not protected.

    References
    ----------
    .. [1] H. Kaplan, S. Schnapp and U. Stemmer (2022). Differentially private approximate
       quantiles. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp.sanitizers import QuantileSanitizer
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.lognormal(8, 1, size=5000), rng.random(5000) < 0.3])
    >>> synthetic = QuantileSanitizer(random_state=0).fit(X).sample(1000)
    >>> np.abs((synthetic > np.median(X[:, 0])).mean(axis=0)[0] - 0.5) < 0.05
    np.True_
    >>> np.unique(synthetic[:, 1])
    array([0., 1.])
    """

    _in_memory_since = "quantiles are searched for in sorted columns"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "bounds": ["array-like", dict, None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    __metadata_request__fit = {"groups": True}  # noqa: RUF012 - routed without being asked for

    def __init__(
        self,
        *,
        epsilon: float | Fraction = 1.0,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Spend ε on the quantiles of all features.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Private rows.
        y : None
            Ignored.
        groups : array-like, shape (n,), optional
            Whose row each is, for `max_rows_per_group`.

        Returns
        -------
        self : QuantileSanitizer
            The fitted sanitizer.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        PrivacyBudgetError
            If `budget` cannot pay.
        """
        check_parameters(self)
        epsilon = exact_fraction(self.epsilon)
        ledger = Ledger.of(self, event=Pure(epsilon))
        X = check_rows(self, X, reset=True)
        X = X[cap_rows_per_group(self, groups, np.ones(len(X), dtype=bool))]
        n, n_features = X.shape
        ledger.read(n)
        limits = self._limits()
        self.columns_: list[Column] = []
        if not n_levels(n, float(epsilon / n_features) / ledger.rows_per_person):
            warn(
                f"{n} rows of {n_features} features are too few to find quantiles at epsilon = "
                f"{float(self.epsilon):g}, so a data-independent reference stands in.",
                NoPublicDataWarning,
            )
        else:
            self._release(X, limits, epsilon, ledger)
        self._n_rows, self._epsilon = n, float(epsilon)
        self._independent = ledger.rows_per_person == 1
        self.privacy_ = ledger.receipt(assumptions=("the number of private rows may be known",))
        return self

    def cover_error(
        self, cover: Cover, hypotheses: HypothesisClass, beta: float, n_points: int
    ) -> float | None:
        """Bound how far any rule of a class is from a cover built on `sample(n_points)`.

        Parameters
        ----------
        cover : Cover
            Built on those points, possibly with public rows besides.
        hypotheses : HypothesisClass
            Not looked at: what the rules cut is known from the cover.
        beta : float
            Probability with which the bound may fail.
        n_points : int
            Number of points.

        Returns
        -------
        float or None
            Share of the population of the private rows, if these are independent and have numbers
            that are among the candidates. None where nothing is proved: for rules that are not made
            of cuts of single columns, or with a first look.

        References
        ----------
        docs/proofs/generic_learner.md, "What the cover inherits", and `guarantees.quantile_error`.
        """
        check_is_fitted(self)
        cuts = cover.cuts
        if cuts is None or cuts.merged or not self._independent or self.n_features_in_ >= FEWEST:
            return None
        limits = self._limits()
        odds = max(float(one.prior.sum() / one.prior.min()) for one in map(candidates, limits))
        error = quantile_error(self._n_rows, beta, self._epsilon, odds, self.n_features_in_)
        # of the points alone, as many as were missed at most are between a cut and the nearest
        return min(1.0, cuts.per_rule * (cuts.missed / n_points + 2 * (error + 1 / n_points)))

    def _limits(self) -> list[tuple[float, float] | None]:
        """Return the bounds of each column, or None."""
        limits = limits_of(self.bounds, feature_names(self))
        return [limits.get(position) for position in range(self.n_features_in_)]

    def _release(
        self,
        X: NDArray[np.float64],
        limits: list[tuple[float, float] | None],
        epsilon: Fraction,
        ledger: Ledger,
    ) -> None:
        """Release every column."""
        n, n_features = X.shape
        many = np.ones(n_features, dtype=bool)
        if n_features >= FEWEST:
            others = np.array([other_values(column) for column in X.T])
            many = draw_columns(others, epsilon * LOOKING, ledger)
            epsilon -= epsilon * LOOKING
        # whichever features were drawn, the shares add up to epsilon
        narrow, wide = column_budgets(epsilon, int(many.sum()), n_features)
        levels = n_levels(n, float(wide) / ledger.rows_per_person) or 2
        for column, limit, has_many in zip(X.T, limits, many, strict=True):
            grid = candidates(limit)
            if has_many:
                one = release_column(column, grid, levels=levels, epsilon=wide, ledger=ledger)
            else:
                one = release_cut(column, grid, epsilon=narrow, ledger=ledger)
            self.columns_.append(one)

    def sample(self, n: int | Integral = 1) -> NDArray[np.float64]:
        """Return synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.

        Returns
        -------
        ndarray of float64, shape (n, n_features)
            A Latin hypercube: each column holds n evenly spaced quantiles in a fixed shuffled
            order, the same at every call. It costs no privacy.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        if not self.columns_:
            limits = limits_of(self.bounds, feature_names(self))
            return reference_sample(self.n_features_in_, limits, int(n))
        shares = reference_sample(self.n_features_in_, (0, 1), int(n))
        columns = zip(self.columns_, shares.T, strict=True)
        return np.column_stack([column.quantile(share) for column, share in columns])
