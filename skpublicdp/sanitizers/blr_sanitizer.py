"""BLRSanitizer: a small data set drawn by how well it answers the queries of a class."""

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
from skpublicdp.hypotheses.base import (
    tabulate,
)
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.typing import Codes, Floats, Integers

NAME = "a data set by its answers: exponential mechanism, one exact draw"
PROOF = "Blum, Ligett and Roth (2013), Theorem 3.1; docs/proofs/generic_learner.md"

MEMBERS = 1 << 7
"""A class that labels the domain in more ways is refused: queries are pairs of them."""

EXACT = 1e-9
"""Radius asked of a cover that is to have all labelings of the domain."""


class BLRSanitizer(HTMLReprMixin, BaseEstimator):
    """The sanitizer of Blum, Ligett and Roth, for domains of few points.

    Pure ε-differentially private. Of all data sets of `n_points` rows one is drawn by the
    exponential mechanism; what counts is the largest error of its answers to the queries h ⊕ f: on
    what share of the rows do two rules of a class differ. All data sets are scored, so it is for
    domains of a dozen points: the reference of Theorem 3.3 of [2]_, with a proof for any class.

    Parameters
    ----------
    domain : array-like of float, shape (n_domain, n_features)
        All rows that are possible, known without looking at private rows. Private rows outside are
        moved into its ranges and then to the point whose farthest coordinate is nearest.
    hypotheses : HypothesisClass, default=None
        The rules h and f of two labels. ``None`` means `Thresholds()`, or the class of the
        `GenericLearnerClassifier` that it is a part of.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    n_points : int, default=None
        Number of points drawn; ``None`` takes that with the least bound of its error, see
        `guarantees.blr_error`.
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
    points_ : ndarray of float64, shape (n_points, n_features)
        The points drawn, in the order of the domain.
    privacy_ : PrivacyReceipt
        What was spent.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    See Also
    --------
    QuantileSanitizer : For any number of rows and values, one feature at a time.

    Notes
    -----
    Neighbouring data sets differ by replacing one row. The number n of rows is not protected. With
    c(q) and d(q) rows and points for which a query holds, the score is ``max |l c(q) - n d(q)|``,
    an integer; a replaced row changes it by at most the number l of points.

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
        """Spend ε on one draw.

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
        self : BLRSanitizer
            The fitted sanitizer.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        CoverSizeError
            If there are too many data sets, or the class labels the domain in too many ways.
        PrivacyBudgetError
            If `budget` cannot pay.
        """
        check_parameters(self)
        event = Draw(exact_fraction(self.epsilon))
        ledger = Ledger.of(self, event=event)
        X = check_rows(self, X, reset=True)
        X = X[cap_rows_per_group(self, groups, np.ones(len(X), dtype=bool))]
        n = len(X)
        ledger.read(n)
        domain = self._domain()
        queries = self._queries(domain)
        sizes = {"domain_size": len(domain), "n_queries": max(len(queries), 1)}
        epsilon = float(ledger.epsilon) / ledger.rows_per_person
        points = self.n_points or n_blr_points(n, epsilon, **sizes)
        if self.n_points is None and approximation_error(int(points), **sizes) >= 1 / 2:
            raise CoverSizeError(too_large(len(domain), points))
        sets = _data_sets(int(points), len(domain))

        counts = np.bincount(_nearest(X, domain), minlength=len(domain)).astype(np.int64)
        errors = _errors(counts, sets, queries, n, int(points))
        # a replaced row changes the answer to each query by at most one row of n
        place = ledger.draw(Leaf(errors), event, int(points), name=NAME, proof=PROOF)

        self.points_ = np.repeat(domain, sets[place], axis=0)
        self._sizes: dict[str, Any] = {"n": n, "epsilon": epsilon, "n_points": int(points), **sizes}
        self._independent = ledger.rows_per_person == 1
        self.privacy_ = ledger.receipt(assumptions=("the number of private rows may be known",))
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
            The points over and over, each as often as any other, up to one. It costs no privacy.
        """
        check_is_fitted(self)
        if not isinstance(n, Integral) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}.")
        return self.points_[np.arange(int(n)) % len(self.points_)]

    def cover_error(
        self, cover: Cover, hypotheses: HypothesisClass, beta: float, n_points: int
    ) -> float | None:
        """Bound how far any rule of a class is from a cover built on `sample(n_points)`.

        Parameters
        ----------
        cover : Cover
            Built on those rows, possibly with public rows besides.
        hypotheses : HypothesisClass
            What it covers.
        beta : float
            Probability with which the bound may fail.
        n_points : int
            Number of those rows.

        Returns
        -------
        float or None
            Share of the population of the private rows, if these are independent and in the domain.
            None where nothing is proved: for another class than that of the queries, or too few
            rows to hold all points.

        References
        ----------
        Beimel, Nissim and Stemmer (2015), Theorem 3.3; `guarantees.blr_error`.
        """
        check_is_fitted(self)
        drawn = len(self.points_)
        known = repr(hypotheses) == repr(self._class()) and self._independent
        missed = 0 if cover.radius == 0 else None
        if cover.cuts is not None:
            missed = cover.cuts.per_rule * cover.cuts.missed
        if not known or missed is None or n_points < drawn:
            return None
        # each point is there at least so often
        share = missed / (drawn * (n_points // drawn))
        return min(1.0, share + blr_error(beta=beta, **self._sizes))

    def _class(self) -> HypothesisClass:
        return Thresholds() if self.hypotheses is None else self.hypotheses

    def _domain(self) -> Floats:
        try:
            domain = np.asarray(self.domain, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("domain must hold numbers.") from None
        if domain.ndim != 2 or domain.shape[1:] != (self.n_features_in_,) or not len(domain):
            raise ValueError(
                f"domain must hold at least one row of {self.n_features_in_} numbers, the columns "
                f"of X; got shape {domain.shape}."
            )
        if not np.isfinite(domain).all():
            raise ValueError("domain must hold finite numbers.")
        domain = np.unique(domain + 0.0, axis=0)
        if n_multisets(int(self.n_points or 1), len(domain)) > MAX_MULTISETS:
            raise CoverSizeError(too_large(len(domain), self.n_points or 1))
        return domain

    def _queries(self, domain: Floats) -> NDArray[np.bool_]:
        """List on which points two rules of the class may differ, shape (n_queries, n_domain)."""
        names = tuple(f"x{column}" for column in range(self.n_features_in_))
        public = PublicSample(domain, np.array([0, 1]), names)
        cover = self._class().build_cover(public, alpha=EXACT, beta=EXACT)
        if cover.radius != 0:
            raise ValueError(
                f"hypotheses must have a cover with all its labelings of the domain; "
                f"{self._class()!r} has none."
            )
        if cover.size > MEMBERS**2:
            raise CoverSizeError(
                f"{self._class()!r} has {cover.size:.1e} rules on this domain and {MEMBERS**2} are "
                "allowed; give a smaller domain or class, or use QuantileSanitizer()."
            )
        family = cover.family(tabulate(cover, domain[:0], []))
        paths = (path for path, _, _ in family.members())
        labels = np.unique([cover.hypothesis(path).predict(domain) == 1 for path in paths], axis=0)
        if len(labels) > MEMBERS:
            raise CoverSizeError(
                f"{self._class()!r} labels the domain in {len(labels)} ways and {MEMBERS} are "
                "allowed; give a smaller domain or class, or use QuantileSanitizer()."
            )
        first, second = np.triu_indices(len(labels), 1)
        return np.unique(labels[first] ^ labels[second], axis=0)


def too_large(n_domain: int, n_points: int) -> str:
    """Return what is wrong with a domain."""
    return (
        f"A domain of {n_domain} points has too many data sets: {MAX_MULTISETS} are allowed and "
        f"{n_points} points are too many or too few to stand for it; give a smaller domain, or use "
        "QuantileSanitizer()."
    )


def _nearest(X: Floats, domain: Floats) -> Codes:
    """Return the place of the point nearest to each row, the first of several."""
    X = np.clip(X, domain.min(axis=0), domain.max(axis=0))  # beyond, distances would round alike
    places = np.zeros(len(X), dtype=np.intp)
    least = np.full(len(X), np.inf)
    for place, point in enumerate(domain):
        distance = np.zeros(len(X))
        for column, value in enumerate(point):
            distance = np.maximum(distance, np.abs(X[:, column] / 2 - value / 2))
        nearer = distance < least
        places[nearer], least[nearer] = place, distance[nearer]
    return places


def _data_sets(n_points: int, n_domain: int) -> Integers:
    """List all data sets of a size, as how often they have each point."""
    bars = itertools.combinations(range(n_points + n_domain - 1), n_domain - 1)
    places = np.array(list(bars), dtype=np.int64).reshape(-1, n_domain - 1)
    ends = np.pad(places, ((0, 0), (1, 1)), constant_values=-1)
    ends[:, -1] = n_points + n_domain - 1
    return np.diff(ends, axis=1) - 1


def _errors(
    counts: Integers, sets: Integers, queries: NDArray[np.bool_], n: int, n_points: int
) -> Integers:
    """Return the largest error of each data set's answers, in units of 1 / (n n_points)."""
    worst = np.zeros(len(sets), dtype=np.int64)
    for query in queries:
        answers = n * sets[:, query].sum(axis=1) - n_points * counts[query].sum()
        np.maximum(worst, np.abs(answers), out=worst)
    return worst
