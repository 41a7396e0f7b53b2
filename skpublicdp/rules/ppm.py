"""PPMHalfspaceClassifier: the learner of Bassily, Moran and Nandi (2020)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    GROUP_PARAMETERS,
    N_JOBS,
    PROBABILITY,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp.accounting import Draw, exact_fraction
from skpublicdp.data.description import public_data_assumptions
from skpublicdp.data.labelled_inputs import MixedRows, read_label_status
from skpublicdp.data.reference import warn_no_public
from skpublicdp.data.validation import check_rows, feature_names
from skpublicdp.exceptions import TooFewRowsWarning, UnprovedWarning, warn
from skpublicdp.guarantees import Promise, n_ppm
from skpublicdp.guarantees.ppm import MAX_CONE_FEATURES, ppm_guarantee
from skpublicdp.hypotheses import Cover, HalfspaceIntersections, PublicSample
from skpublicdp.hypotheses.base import (
    tabulate,
)
from skpublicdp.hypotheses.cones import ConeCover
from skpublicdp.hypotheses.halfspace_sets import AffineHull
from skpublicdp.hypotheses.intersections import IntersectionCover, max_support_points
from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_search import search_cover
from skpublicdp.rules.population_guarantee import no_guarantee, warn_if_vacuous, why_no_guarantee
from skpublicdp.typing import Floats, Integers

DEFAULT_ALPHA = 0.05
"""Where `alpha` is not given."""

MAX_THEOREM_DIMENSIONS = 6
"""In more, not even rows that span the space may support the theorem's halfspaces."""

MAX_WEIGHT_DENOMINATOR = 16
"""Denominator to which large ratios of class weights are rounded, so that scores stay small."""

MAX_WEIGHT_RATIO = 1 << 30
"""Maximum ratio of the two class weights, so that sums of weights cannot overflow."""


class PPMHalfspaceClassifier(HTMLReprMixin, ClassifierMixin, BaseEstimator):
    """Pure ε-differentially private halfspaces, where privacy goes with the label.

    For mixtures of a private and a public population (PPM): people who tested positive share their
    data, people who tested negative do not. The two populations differ, yet a rule that errs hardly
    more than the best halfspace can be learned. Public rows support a finite family of halfspaces;
    one exact draw of the exponential mechanism picks an intersection of few of them, whose inside
    gets the public label (Algorithms 1 and 2 of [1]_). Where the family is too large to list all of
    it and rows are many, one to three more draws look for a better one around it.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    private_label : label, default=None
        The label of the private population; ``None`` means the second one in sorted order.
    class_weight : "balanced" or dict of label to number, default=None
        Weight of an error, by the status of the row: the weight of `private_label` is that of
        private rows, the other one that of public rows. ``"balanced"`` gives both populations the
        same weight. Only the ratio counts, as a fraction of denominator up to 16. A public weight
        costs no privacy.
    alpha : float, default=None
        Target of approximation of an automatic pool, in (0, 1), ``None`` for 0.05: some halfspace
        of it disagrees with any given one on at most about this share of the public rows. A smaller
        value takes more halfspaces, up to `max_halfspaces`, and pays more for its choice. It is not
        the excess error of `guarantees.n_ppm`, so who sets it is told that nothing is proved.
    max_intersections : int, default=None
        The most halfspaces that are met; ``None`` means 2, or 1 for a single feature. The theorem
        needs one for each feature, and ``None`` means that with ``pool="paper"``.
    pool : {"auto", "paper"}, default="auto"
        Where the halfspaces come from, see `hypotheses.HalfspaceIntersections`. ``"paper"`` without
        `max_intersections` is the learner of Theorem 4.6. It takes all public rows, or 1000, 320 or
        19 of them at random for one, two or three features. From four features on it takes 7 or
        fewer and errs far more than ``"auto"``, so it warns. Only with it there is a `guarantee_`.
    max_halfspaces : int, default=1400
        The most halfspaces of an automatic pool, whatever `alpha` asks for.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail, and with which `guarantee_` may.
    n_jobs : int, default=None
        Number of threads that tabulate rows; results do not depend on it.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers; the receipt then says so.
    max_rows_per_group : int, default=None
        Protects persons instead of rows: `fit` then takes `groups`, and no more than the first so
        many private rows of a person count.
    budget : PrivacyBudget, default=None
        What the fit is charged to; one that cannot pay refuses before a private row is read.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        The sorted labels; one where `y` has only one.
    hypothesis_ : Polytope
        The drawn rule; ``print`` shows it in words.
    halfspaces_ : tuple of ndarray, shapes (n_halfspaces, n_features) and (n_halfspaces,)
        Normals and offsets: a row has the public label where ``normals @ x >= offsets``. Empty
        where all rows get the same label.
    cover_size_ : int
        Number of hypotheses it was drawn from, in the last draw.
    privacy_ : PrivacyReceipt
        What was spent.
    certificate_ : Certificate
        How far the weighted error of the drawn rule may be from the best in the family of the last
        draw. It is of that draw and of the scored rows only: not of rules outside of the family,
        nor of the population.
    guarantee_ : float or None
        With probability 1 - `beta` over rows, supports and draw, the error in the population is at
        most this much above that of the best halfspace, if the rows are independent draws from the
        mixture and all private ones have the private label. From public numbers only. At 1 it
        promises nothing; ``None`` where nothing is proved.
    guarantee_reason_ : str
        What it adds up from, or why nothing is proved.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    NoPublicDataWarning
        If there are no public rows: all rows then get the private label.
    UnprovedWarning
        If `alpha` or ``pool="paper"`` asks for a promise and `guarantee_` is ``None``.
    TooFewRowsWarning
        If `guarantee_` is 1; or, where it is ``None`` and nobody asked, if Theorem 4.6 needs four
        times as many rows for any promise at all; or if ``pool="paper"`` uses a few of the public
        rows only, as it does from four dimensions on.

    See Also
    --------
    SemiPrivateClassifier : For public rows of the same population as the private ones.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row by another private one. Which rows
    are private is public, and so is every public row with its label (Lemma 4.1). Where nothing else
    says which rows are public, a row's label decides its status. With a mask or `X_public` the
    status may merely go along with the label, or the public rows may have both labels: the privacy
    is the same.

    References
    ----------
    .. [1] R. Bassily, S. Moran and A. Nandi (2020). Learning from mixtures of private and public
       populations. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import PPMHalfspaceClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = np.where(X @ [1, 2] > 1, "positive", "negative")  # those who tested positive share
    >>> clf = PPMHalfspaceClassifier(private_label="negative", random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.95
    True
    >>> clf.privacy_.n_private, clf.privacy_.n_public
    (2685, 1315)
    """

    _in_memory_since = "halfspaces are made of all rows of the public label"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "private_label": "no_validation",
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "alpha": [*PROBABILITY, None],
        "max_intersections": [Interval(Integral, 1, None, closed="left"), None],
        "pool": [StrOptions({"auto", "paper"})],
        "max_halfspaces": [Interval(Integral, 2, None, closed="left")],
        "beta": PROBABILITY,
        "n_jobs": N_JOBS,
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    # routed without being asked for
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    protects_all_rows = False
    """By default the rows of one label are public: it must not be given private ones of both."""

    def __init__(
        self,
        *,
        epsilon: float | Fraction = 1.0,
        private_label: Any = None,
        class_weight: Literal["balanced"] | Mapping[Any, float | Fraction] | None = None,
        alpha: float | None = None,
        max_intersections: int | None = None,
        pool: Literal["auto", "paper"] = "auto",
        max_halfspaces: int = 1400,
        beta: float = 0.05,
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.epsilon = epsilon
        self.private_label = private_label
        self.class_weight = class_weight
        self.alpha = alpha
        self.max_intersections = max_intersections
        self.pool = pool
        self.max_halfspaces = max_halfspaces
        self.beta = beta
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        y_public: Any = None,
        is_public: Any = None,
        groups: Any = None,
    ) -> Self:
        """Spend ε on one draw, or on a few that share it.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows of both populations, or the private ones where `X_public` holds the others.
        y : array-like, shape (n,)
            Their labels, at most two together with those of `y_public`.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows. All of `X` is then private unless `is_public` says otherwise. In
            cross-validation it must not have as many rows as `X`.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`. Rows without labels choose halfspaces and count nowhere else.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. Without it and without `X_public` these are the rows whose
            label is not `private_label`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Whose row each is, for `max_rows_per_group`; not looked at for public rows.

        Returns
        -------
        self : PPMHalfspaceClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        PrivacyBudgetError
            If `budget` cannot pay.
        CoverSizeError
            If the paper's pool would be too large.
        """
        check_parameters(self)
        ledger = Ledger.of(self, event=Draw(exact_fraction(self.epsilon)))
        rows = read_label_status(
            self,
            X,
            y,
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
            private_label=self.private_label,
        )
        ledger.read(len(rows.X_private), len(rows.X_public))
        weights = integer_class_weights(self.class_weight, rows)
        if not len(rows.X_public):
            warn_no_public("all rows get the private label")
        n_labelled = len(rows.y_public)
        parts = [(rows.X_private, rows.y_private), (rows.X_public[:n_labelled], rows.y_public)]
        scored = weights[0] * len(rows.X_private) + weights[1] * n_labelled
        n_dimensions = len(AffineHull(rows.X_public).axes) if len(rows.X_public) else 0
        supports = self._supports(rows.X_public, n_dimensions, ledger)
        first = self._cover(rows, supports)
        doubt = self._doubt(rows, weights, first, n_dimensions, X_public)
        guarantee = (
            no_guarantee(doubt) if doubt else self._promise(rows, first, supports, n_dimensions)
        )
        numbers = len(rows.X_private), len(rows.X_public), len(supports)
        self._warn(guarantee, doubt, *numbers, n_dimensions)

        def table(cover: Cover) -> Integers:
            private, public = (tabulate(cover, *part, n_jobs=self.n_jobs) for part in parts)
            return weights[0] * private + weights[1] * public

        drawn = search_cover(
            first,
            table,
            ledger,
            sensitivity=weights[0],  # public rows do not change between neighbours
            scored=scored,
            beta=self.beta,
            proof="Bassily, Moran and Nandi (2020), Lemma 4.1; docs/proofs/selection.md",
        )

        self.classes_ = rows.classes
        self.hypothesis_ = cast(Polytope, drawn.hypothesis)
        self.halfspaces_ = (self.hypothesis_.normals, self.hypothesis_.offsets)
        self.cover_size_ = drawn.cover.size
        self._codes = np.array([1 - rows.private_code, rows.private_code]) % len(rows.classes)
        self.privacy_ = ledger.receipt(
            assumptions=(
                "it may be known which rows are private, and the set of labels in y",
                "halfspaces are chosen by public rows, public randomness and what was drawn before",
                *public_data_assumptions(X_public),
            )
        )
        self.certificate_ = drawn.certificate
        self.guarantee_, self.guarantee_reason_ = guarantee
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n,)
            A label of `classes_` for each row.
        """
        check_is_fitted(self)
        inside_out = self.hypothesis_.predict(check_rows(self, X, reset=False))
        labels: NDArray[Any] = self.classes_[self._codes[inside_out]]
        return labels

    def __sklearn_tags__(self) -> Any:
        """Say that two labels are the most, and that few rows are not enough to learn from."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def _supports(self, X_public: Floats, n_dimensions: int, ledger: Ledger) -> Floats:
        """Return the public rows that support halfspaces, a random part where they are too many."""
        most = max_support_points(n_dimensions) if self._is_theorem() and n_dimensions else 0
        if not most or len(X_public) <= most:
            return X_public
        return X_public[ledger.subset(len(X_public), most)]

    def _cover(self, rows: MixedRows, supports: Floats) -> IntersectionCover | ConeCover:
        """Build the family; its first label, inside, is the public one."""
        order = [1 - rows.private_code, rows.private_code][-len(rows.classes) :]
        public = PublicSample(supports, rows.classes[order], feature_names(self))
        family = HalfspaceIntersections(self.max_intersections, self.pool, self.max_halfspaces)
        alpha = DEFAULT_ALPHA if self.alpha is None else float(self.alpha)
        return family.build_cover(public, alpha=alpha, beta=self.beta)

    def _doubt(
        self,
        rows: MixedRows,
        weights: tuple[int, int],
        cover: IntersectionCover | ConeCover,
        n_dimensions: int,
        X_public: Any,
    ) -> str:
        """Return what is in the way of any promise, from public numbers only."""
        if not cover.whole:
            if not max_support_points(n_dimensions):
                return f"the halfspaces of Theorem 4.6 are too many in {n_dimensions} dimensions"
            return (
                "the halfspaces are not those of Theorem 4.6, as they are with "
                'pool="paper" and max_intersections=None'
            )
        if weights[0] != weights[1]:
            return "a weighted error is minimised"
        if len(rows.y_public) < len(rows.X_public):
            return "public rows without labels are not scored"
        # also with one row of a person: of those that are public all count
        return why_no_guarantee(X_public, several=self.max_rows_per_group is not None)

    def _promise(
        self,
        rows: MixedRows,
        cover: IntersectionCover | ConeCover,
        supports: Floats,
        n_dimensions: int,
    ) -> Promise:
        n_public, n_features = rows.X_public.shape
        return ppm_guarantee(
            max(len(rows.X_private) + n_public, 1),
            n_public,
            len(supports),
            float(self.epsilon),
            self.beta,
            n_features,
            cover.size,
            n_dimensions=n_dimensions,
            cones=self._is_theorem() and n_features <= MAX_CONE_FEATURES,
        )

    def _is_theorem(self) -> bool:
        return self.pool == "paper" and self.max_intersections is None

    def _warn(
        self,
        guarantee: Promise,
        doubt: str,
        n_private: int,
        n_public: int,
        n_supports: int,
        n_dimensions: int,
    ) -> None:
        """Warn where nothing or too little is promised, by public numbers."""
        # a smaller ε takes more rows than anybody has, and numbers too long to print
        epsilon, n = max(float(self.epsilon), 1e-9), n_private + n_public
        if n_supports < n_public and n_dimensions > MAX_CONE_FEATURES:
            warn(
                f'pool="paper" makes halfspaces of {n_supports} of {n_public} public rows in '
                f"{n_dimensions} dimensions, which may cost an error of {n_public / n:.2g}. "
                'pool="auto" uses all of them: it has no guarantee_ and errs far less in practice.',
                TooFewRowsWarning,
            )
        else:
            warn_if_vacuous(guarantee, n_private, n_public, epsilon)
        if not doubt:
            return
        if self.pool == "paper" or self.alpha is not None:
            paper = self.pool == "paper"
            asked = 'pool="paper"' if paper else f"alpha={self.alpha:g}"
            other = ", or leave alpha at None and set max_halfspaces"
            warn(
                f"{asked} gets no promise of Theorem 4.6 here, guarantee_ is None: {doubt}; take "
                f'pool="paper" with no other settings, on public rows of at most '
                f"{MAX_THEOREM_DIMENSIONS} dimensions{'' if paper else other}.",
                UnprovedWarning,
            )
        elif 4 * n < (needed := n_ppm(0.5, self.beta, epsilon, self.n_features_in_, supports=None)):
            warn(
                f"Theorem 4.6 promises nothing for {n} rows of {self.n_features_in_} features at "
                f"ε = {float(self.epsilon):g}: an excess error of 1/2 takes {needed} rows.",
                TooFewRowsWarning,
            )


def integer_class_weights(
    class_weight: Literal["balanced"] | Mapping[Any, float | Fraction] | None, rows: MixedRows
) -> tuple[int, int]:
    """Return integer weights of a private and of a public row, from public numbers alone.

    Parameters
    ----------
    class_weight : "balanced" or dict or None
        As in `PPMHalfspaceClassifier`.
    rows : MixedRows
        Rows, of which only their numbers and the labels are used.

    Returns
    -------
    tuple of int
        Two integers in the ratio of the weights, or near it.

    Raises
    ------
    ValueError
        If a weight is not positive, a label is unknown, or the ratio is too large.
    """
    sizes = len(rows.y_private), len(rows.y_public)
    if class_weight is None or (class_weight == "balanced" and not all(sizes)):
        return 1, 1
    if class_weight == "balanced":
        return _small_integers(sizes[1], sizes[0])
    known = rows.classes.tolist()
    given = class_weight.values()
    positive = all(isinstance(weight, Real) and 0 < weight < np.inf for weight in given)
    if not positive or not set(class_weight) <= set(known):
        raise ValueError(
            'class_weight must be "balanced" or map labels of y to positive numbers; '
            f"got {class_weight!r}."
        )
    private, public = (
        class_weight.get(known[code % len(known)], 1)
        for code in (rows.private_code, 1 - rows.private_code)
    )
    if max(private, public) > MAX_WEIGHT_RATIO * min(private, public):
        raise ValueError(
            f"One class weight is at most 2**30 times the other; got {class_weight!r}."
        )
    return _small_integers(private, public)


def _small_integers(private: float | Fraction, public: float | Fraction) -> tuple[int, int]:
    """Return small integers in the ratio of two weights, or near it."""
    ratio = exact_fraction(max(private, public)) / exact_fraction(min(private, public))
    if ratio.numerator > MAX_WEIGHT_RATIO:  # ratios of floats have denominators up to 2**52
        ratio = ratio.limit_denominator(MAX_WEIGHT_DENOMINATOR)
    sizes = ratio.numerator, ratio.denominator
    return sizes if private > public else sizes[::-1]
