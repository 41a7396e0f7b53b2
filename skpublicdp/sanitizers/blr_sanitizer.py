"""BLRSanitizer, which draws a small synthetic data set scored by its errors on a query class."""

from __future__ import annotations

import itertools
from fractions import Fraction
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
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
from skpublicdp.accounting import Draw, exact_fraction
from skpublicdp.data.roles import cap_rows_per_group
from skpublicdp.data.validation import check_rows
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import blr_error
from skpublicdp.guarantees.sanitizer_bounds import (
    MAX_MULTISETS,
    approximation_error,
    n_blr_points,
    n_multisets,
)
from skpublicdp.hypotheses import Cover, HypothesisClass, PublicSample, Thresholds
from skpublicdp.hypotheses.base import assumptions_of_class, tabulate
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats, Integers

BLR_DRAW_NAME = "a data set by its answers: exponential mechanism, one exact draw"
BLR_PROOF = "Blum, Ligett and Roth (2013), Theorem 3.1; docs/proofs/generic_learner.md"

MAX_LABELINGS = 1 << 7
"""Maximum number of labellings of the domain by the class. Each query corresponds to a pair of
labellings."""

EXACT_COVER_RADIUS = 1e-9
"""Requested radius of a cover that must contain all labellings of the domain."""


class BLRSanitizer(HTMLReprMixin, VersionedMixin, BaseEstimator):
    """Synthetic rows drawn by the mechanism of Blum, Ligett and Roth, for domains with few points.

    Pure ε-differentially private. One data set of `n_points` rows is drawn by the exponential
    mechanism. The score of a data set is the largest error of its answers to queries h ⊕ f. Each of
    these queries asks for the fraction of rows on which two rules h and f of a class differ. Since
    all data sets are scored, the domain should have at most a dozen points. Theorem 3.3 of [2]_
    uses this sanitizer and holds for any class.

    Parameters
    ----------
    domain : array-like of float, shape (n_domain, n_features)
        All possible rows, chosen without using private rows. Private rows outside the domain are
        clipped to its ranges and moved to the nearest point in the maximum norm.
    hypotheses : HypothesisClass, default=None
        Class of the binary rules h and f. ``None`` means `Thresholds()`, or the class of the
        `GenericLearnerClassifier` that uses this sanitizer.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    n_points : int, default=None
        Number of points to draw. ``None`` selects the number with the smallest error bound; see
        `guarantees.blr_error`.
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
    points_ : ndarray of float64, shape (n_points, n_features)
        The points that were drawn, in the order of the domain.
    privacy_ : PrivacyReceipt
        Receipt for the privacy budget that was spent.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the features, if `X` has string column names.

    See Also
    --------
    QuantileSanitizer : Handles any number of rows and values, one feature at a time.

    Notes
    -----
    Neighbouring data sets differ by replacing one row. The number n of rows is not protected.
    Suppose that a query q holds for c(q) of the n rows and for d(q) of the l points. The score of
    the points is the integer ``max |l c(q) - n d(q)|``. Replacing a row changes the score by at
    most l.

    References
    ----------
    .. [1] A. Blum, K. Ligett and A. Roth (2013). A learning theory approach to noninteractive
       database privacy. Journal of the ACM. Theorem 3.1.
    .. [2] A. Beimel, K. Nissim and U. Stemmer (2015). Learning privately with labeled and unlabeled
       examples. SODA. Theorems 3.3 and A.3.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp.sanitizers import BLRSanitizer
    >>> X = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=(4000, 1), p=[0.5, 0.3, 0.2])
    >>> sanitizer = BLRSanitizer([[0.0], [1.0], [2.0]], n_points=10, random_state=0).fit(X)
    >>> np.unique(sanitizer.points_, return_counts=True)[1]
    array([5, 3, 2])
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "domain": ["array-like"],
        "hypotheses": [HypothesisClass, None],
        "n_points": [Interval(Integral, 1, None, closed="left"), None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    __metadata_request__fit = {"groups": True}  # noqa: RUF012 - routed without being asked for

    def __init__(
        self,
        domain: ArrayLike,
        hypotheses: HypothesisClass | None = None,
        *,
        epsilon: float | Fraction = 1.0,
        n_points: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.domain = domain
        self.hypotheses = hypotheses
        self.epsilon = epsilon
        self.n_points = n_points
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Draw the points by the exponential mechanism, spending the privacy budget ε.

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
        self : BLRSanitizer
            The fitted sanitizer.

        Raises
        ------
        ValueError
            If any parameter or input is invalid. Error messages do not contain private values.
        CoverSizeError
            If there are too many data sets, or the class has too many labellings of the domain.
        PrivacyBudgetError
            If `budget` cannot cover the fit.
        """
        check_parameters(self)
        event = Draw(exact_fraction(self.epsilon))
        ledger = Ledger.from_estimator(self, event=event)
        X = check_rows(self, X, reset=True)
        is_private = np.ones(len(X), dtype=bool)
        X = X[cap_rows_per_group(self.max_rows_per_group, groups, is_private, ledger)]
        n = len(X)
        ledger.read(n)
        domain = self._domain()
        queries = self._queries(domain)
        sizes = {"domain_size": len(domain), "n_queries": max(len(queries), 1)}
        epsilon = float(ledger.epsilon) / ledger.rows_per_person
        points = self.n_points or n_blr_points(n, epsilon, **sizes)
        if self.n_points is None and approximation_error(int(points), **sizes) >= 1 / 2:
            raise CoverSizeError(domain_size_message(len(domain), points))
        data_sets = _multisets(int(points), len(domain))

        counts = np.bincount(_nearest_points(X, domain), minlength=len(domain)).astype(np.int64)
        errors = _max_query_errors(counts, data_sets, queries, n, int(points))
        # a replaced row changes the answer to each query by at most 1/n
        drawn = ledger.draw(Leaf(errors), event, int(points), name=BLR_DRAW_NAME, proof=BLR_PROOF)

        self.points_ = np.repeat(domain, data_sets[drawn], axis=0)
        self._sizes: dict[str, Any] = {"n": n, "epsilon": epsilon, "n_points": int(points), **sizes}
        self._independent = ledger.rows_per_person == 1
        self.privacy_ = ledger.receipt(
            assumptions=(
                "the number of private rows may be known",
                *assumptions_of_class(self.hypotheses),
            )
        )
        return self

    def sample(self, n: int | Integral = 1) -> Floats:
        """Return synthetic rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.

        Returns
        -------
        ndarray of float64, shape (n, n_features)
            The points of `points_`, repeated in a cycle, so that their numbers of copies differ by
            at most 1. Sampling costs no privacy.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        return self.points_[np.arange(int(n)) % len(self.points_)]

    def cover_error(
        self, cover: Cover, hypotheses: HypothesisClass, beta: float, n_points: int
    ) -> float | None:
        """Bound the distance of every rule in a class from a cover built on `sample(n_points)`.

        Parameters
        ----------
        cover : Cover
            Cover built on the synthetic rows, possibly together with public rows.
        hypotheses : HypothesisClass
            The class that is covered.
        beta : float
            Failure probability of the bound.
        n_points : int
            Number of synthetic rows.

        Returns
        -------
        float or None
            Bound on the disagreement, as a fraction of the population of the private rows. The
            bound assumes that the private rows are independent and lie in the domain. The result is
            None if no bound is proved, which is the case if the class differs from the query class
            or if there are fewer synthetic rows than points.

        References
        ----------
        Beimel, Nissim and Stemmer (2015), Theorem 3.3; `guarantees.blr_error`.
        """
        check_is_fitted(self)
        is_same_class = repr(hypotheses) == repr(self._class())
        max_skipped_rows = 0 if cover.radius == 0 else None
        if cover.cuts is not None:
            max_skipped_rows = cover.cuts.per_rule * cover.cuts.missed
        holds_all_points = n_points >= len(self.points_)
        if not (is_same_class and self._independent and holds_all_points):
            return None
        if max_skipped_rows is None:
            return None
        # the synthetic rows contain each point at least `n_copies` times
        n_copies = n_points // len(self.points_)
        skipped_share = max_skipped_rows / (len(self.points_) * n_copies)
        return min(1.0, skipped_share + blr_error(beta=beta, **self._sizes))

    def _class(self) -> HypothesisClass:
        """Return the hypothesis class of the queries, `Thresholds()` by default."""
        return Thresholds() if self.hypotheses is None else self.hypotheses

    def _domain(self) -> Floats:
        """Check the shape, values and size of the domain, and return the distinct points."""
        try:
            domain = np.asarray(self.domain, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("domain must contain numbers.") from None
        if domain.ndim != 2 or domain.shape[1:] != (self.n_features_in_,) or not len(domain):
            raise ValueError(
                f"domain must contain at least one row of {self.n_features_in_} numbers, one per "
                f"column of X; got shape {domain.shape}."
            )
        if not np.isfinite(domain).all():
            raise ValueError("domain must contain finite numbers.")
        domain = np.unique(domain + 0.0, axis=0)  # adding 0.0 turns -0.0 into 0.0
        if n_multisets(int(self.n_points or 1), len(domain)) > MAX_MULTISETS:
            raise CoverSizeError(domain_size_message(len(domain), self.n_points or 1))
        return domain

    def _queries(self, domain: Floats) -> NDArray[np.bool_]:
        """Return the queries as masks of the points on which two rules of the class disagree.

        Returns
        -------
        ndarray of bool, shape (n_queries, n_domain)
            One row for each distinct set of points.
        """
        names = tuple(f"x{column}" for column in range(self.n_features_in_))
        public = PublicSample(domain, np.array([0, 1]), names)
        cover = self._class().build_cover(public, alpha=EXACT_COVER_RADIUS, beta=EXACT_COVER_RADIUS)
        if cover.radius != 0:
            raise ValueError(
                "hypotheses must have a cover that contains every labelling of the domain by the "
                f"class; {self._class()!r} has no such cover."
            )
        if cover.size > MAX_LABELINGS**2:
            raise CoverSizeError(
                f"{self._class()!r} has {cover.size:.1e} rules on this domain, but at most "
                f"{MAX_LABELINGS**2} are allowed. Use a smaller domain or hypothesis class, or use "
                "QuantileSanitizer()."
            )
        # list all rules of the cover; no rows are scored, since errors are not needed
        family = cover.family(tabulate(cover, domain[:0], []))
        paths = (path for path, _, _ in family.members())
        labelings = np.unique(
            [cover.hypothesis(path).predict(domain) == 1 for path in paths], axis=0
        )
        if len(labelings) > MAX_LABELINGS:
            raise CoverSizeError(
                f"{self._class()!r} labels the domain in {len(labelings)} ways, but at most "
                f"{MAX_LABELINGS} are allowed. Use a smaller domain or hypothesis class, or use "
                "QuantileSanitizer()."
            )
        first, second = np.triu_indices(len(labelings), k=1)
        return np.unique(labelings[first] ^ labelings[second], axis=0)


def domain_size_message(n_domain: int, n_points: int) -> str:
    """Return the error message for a domain with too many possible data sets."""
    return (
        f"A domain of {n_domain} points has too many possible data sets: at most {MAX_MULTISETS} "
        f"are allowed, and {n_points} synthetic rows either exceed this limit or are too few to "
        "represent the domain. Use a smaller domain, or use QuantileSanitizer()."
    )


def _nearest_points(X: Floats, domain: Floats) -> Codes:
    """Return the index of the nearest domain point for each row, or the first one in a tie.

    Distances are measured in the maximum norm.
    """
    # far outside the domain, the distances to all points would round to the same float
    X = np.clip(X, domain.min(axis=0), domain.max(axis=0))
    nearest = np.zeros(len(X), dtype=np.intp)
    min_distance = np.full(len(X), np.inf)
    for i, point in enumerate(domain):
        # halves, since the difference of two large floats may overflow
        half_distances = np.abs(X / 2 - point / 2)  # (n, n_features)
        distance = half_distances.max(axis=1, initial=0.0)
        is_nearer = distance < min_distance
        nearest[is_nearer] = i
        min_distance[is_nearer] = distance[is_nearer]
    return nearest


def _multisets(n_points: int, n_domain: int) -> Integers:
    """Return all unordered data sets (multisets) of `n_points` points of the domain.

    The multisets are listed by "stars and bars": n_domain - 1 bars among n_points stars separate
    the copies of consecutive points.
    """
    combinations = itertools.combinations(range(n_points + n_domain - 1), n_domain - 1)
    bars = np.array(list(combinations), dtype=np.int64).reshape(-1, n_domain - 1)
    # add a bar before and after all positions, then count the stars between bars
    bars = np.pad(bars, ((0, 0), (1, 1)), constant_values=-1)
    bars[:, -1] = n_points + n_domain - 1
    return np.diff(bars, axis=1) - 1


def _max_query_errors(
    counts: Integers, data_sets: Integers, queries: NDArray[np.bool_], n: int, n_points: int
) -> Integers:
    """Return the largest query error of each data set, in units of 1 / (n * n_points)."""
    max_errors = np.zeros(len(data_sets), dtype=np.int64)
    for query in queries:
        errors = n * data_sets[:, query].sum(axis=1) - n_points * counts[query].sum()
        np.maximum(max_errors, np.abs(errors), out=max_errors)
    return max_errors
