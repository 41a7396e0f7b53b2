"""QuantileSanitizer, which draws synthetic rows from private quantiles of each feature."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
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
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import Pure, exact_fraction
from skpublicdp.data.public_rows import reference_sample
from skpublicdp.data.roles import cap_rows_per_group
from skpublicdp.data.schema import feature_labels, parse_bounds
from skpublicdp.data.validation import check_rows, feature_names
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.guarantees import quantile_error
from skpublicdp.guarantees.sanitizer_bounds import MIN_LEVELS, n_levels
from skpublicdp.hypotheses import Cover, HypothesisClass
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.sanitizers.binary_columns import (
    COLUMN_DRAW_SHARE,
    MIN_FEATURES_FOR_COLUMN_DRAW,
    count_other_values,
    draw_many_valued_columns,
    release_cut,
    split_budget_over_columns,
)
from skpublicdp.sanitizers.quantiles import QuantileColumn, candidate_grid, release_column
from skpublicdp.typing import Floats


class QuantileSanitizer(HTMLReprMixin, VersionedMixin, BaseEstimator):
    """Synthetic rows that follow the private quantiles of each feature.

    Pure ε-differentially private. Each feature is split at a private median, then both parts are
    split at their private medians, and so on [1]_. Finally, the rows between the medians are
    counted with noise. With eight or more features, a private draw first identifies the features
    with more than two common values. These features receive most of the budget, and every other
    feature is split only once. Dependences between features are not estimated.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lower and upper bounds of the features, chosen without using private rows. Private numbers
        outside the bounds are clipped. The bounds may be much wider than necessary. ``None``
        searches for quantiles among decimal numbers of all magnitudes from 1e-9 to 2.5e12 and both
        signs.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Any other value makes fits
        repeatable, which is useful for tests and papers, and is noted in the receipt.
    max_rows_per_group : int, default=None
        Maximum number of rows per person. If set, persons are protected instead of rows: `fit`
        requires `groups` and uses at most `max_rows_per_group` random rows of each person.
    budget : PrivacyBudget, default=None
        Budget to which the fit is charged. If it cannot cover the fit, an error is raised before
        any private row is read.

    Attributes
    ----------
    columns_ : list of QuantileColumn
        Released distribution of each feature. The list is empty if there were too few rows for a
        release.
    privacy_ : PrivacyReceipt
        Receipt for the privacy budget that was spent.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the features, if `X` has string column names.

    Warns
    -----
    NoPublicDataWarning
        If there are too few rows for `epsilon`, in which case the rows are not used.

    See Also
    --------
    PAPQueryRelease : Releases several features jointly.

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

    _in_memory_since = "quantiles are searched for in sorted columns"  # reason in an error message

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
        """Release the quantiles of all features, spending the privacy budget ε.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Private rows.
        y : None
            Ignored.
        groups : array-like, shape (n,), optional
            Identifier of each row's person, used with `max_rows_per_group`.

        Returns
        -------
        self : QuantileSanitizer
            The fitted sanitizer.

        Raises
        ------
        ValueError
            If any parameter or input is invalid. Error messages do not contain private values.
        PrivacyBudgetError
            If `budget` cannot cover the fit.
        """
        check_parameters(self)
        epsilon = exact_fraction(self.epsilon)
        ledger = Ledger.from_estimator(self, event=Pure(epsilon))
        X = check_rows(self, X, reset=True)
        is_private = np.ones(len(X), dtype=bool)
        X = X[cap_rows_per_group(self.max_rows_per_group, groups, is_private, ledger)]
        n, n_features = X.shape
        ledger.read(n)
        limits = self._limits()
        if n_levels(n, float(epsilon / n_features) / ledger.rows_per_person):
            self.columns_ = _release_columns(X, limits, epsilon, ledger)
        else:
            self.columns_ = []
            warn(
                f"{n} rows with {n_features} features are too few to estimate quantiles at epsilon "
                f"= {float(self.epsilon):g}, so a data-independent reference is used instead.",
                NoPublicDataWarning,
            )
        self._n_rows, self._epsilon = n, float(epsilon)
        self._independent = ledger.rows_per_person == 1
        self.privacy_ = ledger.receipt(assumptions=("the number of private rows may be known",))
        return self

    def cover_error(
        self, cover: Cover, hypotheses: HypothesisClass, beta: float, n_points: int
    ) -> float | None:
        """Bound the distance of every rule in a class from a cover built on `sample(n_points)`.

        Parameters
        ----------
        cover : Cover
            Cover built on the synthetic rows, possibly together with public rows.
        hypotheses : HypothesisClass
            This parameter is ignored, because the cover contains the cuts of its rules.
        beta : float
            Failure probability of the bound.
        n_points : int
            Number of synthetic rows.

        Returns
        -------
        float or None
            Bound on the disagreement, as a fraction of the population of the private rows. The
            bound assumes that the private rows are independent and that their values are among the
            candidates. The result is None if no bound is proved, which is the case for rules that
            do not cut single columns and for eight or more features.

        References
        ----------
        docs/proofs/generic_learner.md, "The cover of synthetic points", and
        `guarantees.quantile_error`.
        """
        check_is_fitted(self)
        cuts = cover.cuts
        has_column_draw = self.n_features_in_ >= MIN_FEATURES_FOR_COLUMN_DRAW
        if cuts is None or cuts.merged or not self._independent or has_column_draw:
            return None
        priors = [candidate_grid(limit).prior for limit in self._limits()]
        odds = [float(prior.sum() / prior.min()) for prior in priors]
        error = quantile_error(self._n_rows, beta, self._epsilon, max(odds), self.n_features_in_)
        # at most `cuts.missed` synthetic rows lie between a rule's cut and the nearest cut of the
        # cover
        missed_share = cuts.missed / n_points
        error_per_cut = missed_share + 2 * (error + 1 / n_points)
        return min(1.0, cuts.per_rule * error_per_cut)

    def _limits(self) -> list[tuple[float, float] | None]:
        """Return the lower and upper bounds of each column, or None for a column without bounds."""
        limits = parse_bounds(self.bounds, feature_names(self), labels=feature_labels(self))
        return [limits.get(column) for column in range(self.n_features_in_)]

    def sample(self, n: int | Integral = 1) -> Floats:
        """Return synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.

        Returns
        -------
        ndarray of float64, shape (n, n_features)
            A Latin hypercube sample. Each column contains n evenly spaced quantiles in a shuffled
            order, which is the same in every call. Sampling costs no privacy.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        if not self.columns_:
            limits = parse_bounds(self.bounds, feature_names(self), labels=feature_labels(self))
            return reference_sample(self.n_features_in_, limits, int(n))
        fractions = reference_sample(self.n_features_in_, (0, 1), int(n))
        return np.column_stack(
            [
                column.quantile(column_fractions)
                for column, column_fractions in zip(self.columns_, fractions.T, strict=True)
            ]
        )


def _release_columns(
    X: Floats,
    limits: list[tuple[float, float] | None],
    epsilon: Fraction,
    ledger: Ledger,
) -> list[QuantileColumn]:
    """Release the distribution of each column of the private rows."""
    n, n_features = X.shape
    is_many_valued = np.ones(n_features, dtype=bool)
    if n_features >= MIN_FEATURES_FOR_COLUMN_DRAW:
        other_counts = np.array([count_other_values(column) for column in X.T])
        draw_budget = epsilon * COLUMN_DRAW_SHARE
        is_many_valued = draw_many_valued_columns(other_counts, draw_budget, ledger)
        epsilon -= draw_budget
    # the budgets of all columns add up to epsilon, regardless of the drawn columns
    n_many_valued = int(is_many_valued.sum())
    binary_epsilon, many_valued_epsilon = split_budget_over_columns(
        epsilon, n_many_valued, n_features
    )
    # n_levels may be 0 if the budget per column is smaller than `fit` checked
    epsilon_per_row = float(many_valued_epsilon) / ledger.rows_per_person
    levels = n_levels(n, epsilon_per_row) or MIN_LEVELS
    columns = []
    for i, column in enumerate(X.T):
        grid = candidate_grid(limits[i])
        if is_many_valued[i]:
            released = release_column(
                column, grid, levels=levels, epsilon=many_valued_epsilon, ledger=ledger
            )
        else:
            released = release_cut(column, grid, epsilon=binary_epsilon, ledger=ledger)
        columns.append(released)
    return columns
