"""PPMHalfspaceClassifier: private halfspaces if the label decides which rows are public."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Integral
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
from skpublicdp.guarantees import Promise
from skpublicdp.guarantees.ppm import MAX_CONE_FEATURES, ppm_guarantee
from skpublicdp.hypotheses import Cover, HalfspaceIntersections, PublicSample
from skpublicdp.hypotheses.base import tabulate
from skpublicdp.hypotheses.cones import ConeCover
from skpublicdp.hypotheses.halfspace_sets import AffineHull
from skpublicdp.hypotheses.intersections import IntersectionCover, max_support_points
from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.class_weights import integer_class_weights
from skpublicdp.rules.cover_search import search_cover
from skpublicdp.rules.population_guarantee import no_guarantee, why_no_guarantee
from skpublicdp.rules.theorem_warnings import warn_if_weak
from skpublicdp.typing import Floats, Integers

DEFAULT_ALPHA = 0.05
"""Value of `alpha` if it is None."""


class PPMHalfspaceClassifier(HTMLReprMixin, ClassifierMixin, BaseEstimator):
    """Pure ε-differentially private halfspaces for data in which the label decides about privacy.

    For mixtures of a private and a public population (PPM), for example if people who tested
    positive share their data and people who tested negative do not. The two populations differ, but
    a learned rule can be nearly as accurate as the best halfspace. Public rows generate a finite
    family of halfspaces. One exact draw of the exponential mechanism selects an intersection of a
    few of them, whose inside gets the public label (Algorithms 1 and 2 of [1]_). If the family is
    too large to enumerate and there are many rows, one to three further draws search around the
    drawn rule.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    private_label : label, default=None
        The label of the private population; ``None`` means the second one in sorted order.
    class_weight : "balanced" or dict of label to number, default=None
        Weight of an error, by the status of the row: the weight of `private_label` is for private
        rows, the other one for public rows. ``"balanced"`` gives both populations the same weight.
        Only the ratio matters, as a fraction of denominator up to 16. A public weight costs no
        privacy.
    alpha : float, default=None
        Target of approximation of an automatic pool, in (0, 1), ``None`` for 0.05: some halfspace
        of it disagrees with any given one on at most about this share of the public rows. A smaller
        value gives more halfspaces, up to `max_halfspaces`, and a larger error of the draw. It is
        not the excess error of `guarantees.n_ppm`; a value other than None gives a warning that no
        error bound is proved.
    max_intersections : int, default=None
        Maximum number of halfspaces in an intersection; ``None`` means 2, or 1 for a single
        feature. The theorem needs one for each feature, which ``None`` means with ``pool="paper"``.
    pool : {"auto", "paper"}, default="auto"
        How the halfspaces are generated, see `hypotheses.HalfspaceIntersections`. ``"paper"``
        without `max_intersections` is the learner of Theorem 4.6, and the only one with a
        `guarantee_`. It uses all public rows, or 1000, 320 or 19 random ones for one, two or three
        features. From four features on it uses 7 or fewer, with far larger errors than ``"auto"``,
        so it warns.
    max_halfspaces : int, default=1400
        Maximum number of halfspaces of an automatic pool, for any `alpha`.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail, and with which `guarantee_` may.
    n_jobs : int, default=None
        Number of threads that count rows; results do not depend on it.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Any other value makes the fit
        repeatable, for tests and papers; the receipt then says so.
    max_rows_per_group : int, default=None
        Protects persons instead of rows. `fit` then needs `groups` and uses at most this number of
        private rows of each person, the first ones.
    budget : PrivacyBudget, default=None
        Budget that the fit is charged to. If it does not suffice, `fit` raises before a private row
        is read.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        The sorted labels; a single one if `y` has only one.
    hypothesis_ : Polytope
        The drawn rule; ``print`` shows it in words.
    halfspaces_ : tuple of ndarray, shapes (n_halfspaces, n_features) and (n_halfspaces,)
        Normals and offsets: a row has the public label if ``normals @ x >= offsets``. Empty if all
        rows get the same label.
    cover_size_ : int
        Number of hypotheses in the family of the last draw.
    privacy_ : PrivacyReceipt
        The privacy cost of the fit.
    certificate_ : Certificate
        Bound on the excess weighted error of the drawn rule over the best of the family of the last
        draw, on the scored rows. It does not cover rules outside the family, nor the population.
    guarantee_ : float or None
        Bound on the excess error in the population over the best halfspace, with probability 1 -
        `beta` over rows, supports and draw, if the rows are independent draws from the mixture and
        all private ones have the private label. It depends on public numbers only. At 1 it is no
        restriction; ``None`` if no bound is proved.
    guarantee_reason_ : str
        The terms of the bound, or the reason why no bound is proved.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns, if `X` has string column names.

    Warns
    -----
    NoPublicDataWarning
        If there are no public rows, so that all rows get the private label.
    UnprovedWarning
        If `alpha` or ``pool="paper"`` is set, but `guarantee_` is ``None``.
    TooFewRowsWarning
        If `guarantee_` is 1. Also if Theorem 4.6 needs at least four times as many rows for any
        bound, and if ``pool="paper"`` uses only a few of the public rows, as from four dimensions
        on.

    See Also
    --------
    SemiPrivateClassifier : For public rows of the same population as the private ones.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row by another private one. It is public
    which rows are private, and so is every public row with its label (Lemma 4.1). Without a mask
    and `X_public`, the label of a row decides its status. With them the status may only correlate
    with the label, or the public rows may have both labels. The privacy is the same.

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

    # metadata of these names has only one meaning, so it is routed without a request
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    protects_all_rows = False
    """By default the rows of one label are public, so the classifier must not be a base learner."""

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
        """Draw a rule by its errors on both populations.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows of both populations, or only the private rows if `X_public` has the public ones.
        y : array-like, shape (n,)
            Their labels, at most two together with the labels in `y_public`.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows. All of `X` is then private, except for the rows that `is_public`
            marks. In cross-validation it must not have as many rows as `X`.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`. Rows without labels generate halfspaces and are not scored.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. By default, without `X_public`, these are the rows whose
            label is not `private_label`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Person of each row, for `max_rows_per_group`; not read for public rows.

        Returns
        -------
        self : PPMHalfspaceClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message quotes no private value.
        PrivacyBudgetError
            If `budget` does not suffice.
        CoverSizeError
            If the paper's pool would be too large.
        """
        check_parameters(self)
        ledger = Ledger.from_estimator(self, event=Draw(exact_fraction(self.epsilon)))
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
        private_weight, public_weight = integer_class_weights(self.class_weight, rows)
        if not len(rows.X_public):
            warn_no_public("all rows get the private label")
        n_private, n_public, n_labelled = map(len, (rows.X_private, rows.X_public, rows.y_public))
        X_labelled = rows.X_public[:n_labelled]
        n_dimensions = len(AffineHull(rows.X_public).axes) if n_public else 0
        supports = self._supports(rows.X_public, n_dimensions, ledger)
        first_cover = self._cover(rows, supports)
        is_weighted = private_weight != public_weight
        why = self._why_no_guarantee(rows, is_weighted, first_cover, n_dimensions, X_public)
        if why:
            guarantee = no_guarantee(why)
        else:
            guarantee = self._guarantee(rows, first_cover, supports, n_dimensions)
        warn_if_weak(
            guarantee,
            why,
            pool=self.pool,
            alpha=self.alpha,
            beta=self.beta,
            epsilon=float(self.epsilon),
            n_features=self.n_features_in_,
            n_private=n_private,
            n_public=n_public,
            n_supports=len(supports),
            n_dimensions=n_dimensions,
        )

        def weighted_table(cover: Cover) -> Integers:
            private = tabulate(cover, rows.X_private, rows.y_private, n_jobs=self.n_jobs)
            public = tabulate(cover, X_labelled, rows.y_public, n_jobs=self.n_jobs)
            return private_weight * private + public_weight * public

        drawn = search_cover(
            first_cover,
            weighted_table,
            ledger,
            sensitivity=private_weight,  # public rows do not change between neighbours
            scored=private_weight * n_private + public_weight * n_labelled,
            beta=self.beta,
            proof="Bassily, Moran and Nandi (2020), Lemma 4.1; docs/proofs/selection.md",
        )

        self.classes_ = rows.classes
        self.hypothesis_ = cast(Polytope, drawn.hypothesis)
        self.halfspaces_ = (self.hypothesis_.normals, self.hypothesis_.offsets)
        self.cover_size_ = drawn.cover.size
        # label code by the side that the polytope predicts: inside (0) is the public label. With a
        # single label the only code is 0.
        self._codes = np.array([1 - rows.private_code, rows.private_code]) % len(rows.classes)
        self.privacy_ = ledger.receipt(
            assumptions=(
                "which rows are private, and the set of labels in y, may be known",
                "halfspaces are chosen by public rows, public randomness and earlier draws",
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
        sides = self.hypothesis_.predict(check_rows(self, X, reset=False))
        labels: NDArray[Any] = self.classes_[self._codes[sides]]
        return labels

    def __sklearn_tags__(self) -> Any:
        """Return tags of a binary classifier that may score poorly on small data."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def _supports(self, X_public: Floats, n_dimensions: int, ledger: Ledger) -> Floats:
        """Return the public rows that generate halfspaces.

        These are all public rows. For the theorem, a uniformly random subset replaces them if they
        are more than `max_support_points`.
        """
        if not (self._is_theorem() and n_dimensions):
            return X_public
        max_supports = max_support_points(n_dimensions)  # 0 if the theorem's family is too large
        if not max_supports or len(X_public) <= max_supports:
            return X_public
        return X_public[ledger.subset(len(X_public), max_supports)]

    def _cover(self, rows: MixedRows, supports: Floats) -> IntersectionCover | ConeCover:
        """Return the family of rules: intersections of halfspaces with the public label inside.

        The rules predict the first of their labels inside, so the public label comes first.
        """
        order = [rows.private_code]
        if len(rows.classes) > 1:
            order = [1 - rows.private_code, rows.private_code]
        public = PublicSample(supports, rows.classes[order], feature_names(self))
        family = HalfspaceIntersections(self.max_intersections, self.pool, self.max_halfspaces)
        alpha = DEFAULT_ALPHA if self.alpha is None else float(self.alpha)
        return family.build_cover(public, alpha=alpha, beta=self.beta)

    def _why_no_guarantee(
        self,
        rows: MixedRows,
        is_weighted: bool,
        cover: IntersectionCover | ConeCover,
        n_dimensions: int,
        X_public: Any,
    ) -> str:
        """Return the reason why Theorem 4.6 does not apply, or "" if it does.

        It depends on public numbers only.
        """
        if not cover.is_complete:
            if not max_support_points(n_dimensions):
                return f"the halfspaces of Theorem 4.6 are too many in {n_dimensions} dimensions"
            return (
                "the halfspaces are not the family of Theorem 4.6, which needs "
                'pool="paper" and max_intersections=None'
            )
        if is_weighted:
            return "class_weight makes the learner minimise a weighted error"
        if len(rows.y_public) < len(rows.X_public):
            return "public rows without labels are not scored"
        # Also for one private row per person: all public rows of a person are used.
        return why_no_guarantee(X_public, several=self.max_rows_per_group is not None)

    def _guarantee(
        self,
        rows: MixedRows,
        cover: IntersectionCover | ConeCover,
        supports: Floats,
        n_dimensions: int,
    ) -> Promise:
        """Return the bound of Theorem 4.6 on the excess error over the best halfspace."""
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
        """Return whether `pool` and `max_intersections` have the values of Theorem 4.6."""
        return self.pool == "paper" and self.max_intersections is None
