"""PPMHalfspaceClassifier: private halfspaces when the label determines which rows are public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, Self, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skpublicdp._internal.parameters import PROBABILITY, OptionalBudget, Seed, all_or_nothing
from skpublicdp.accounting import Draw, Event, Pure, Sensitivity, Steps, exact_fraction
from skpublicdp.data.inputs import MixedRows, read_label_status
from skpublicdp.data.public_rows import warn_no_public
from skpublicdp.data.validation import feature_names
from skpublicdp.exceptions import TooFewRowsWarning, UnprovedWarning, warn
from skpublicdp.guarantees import Promise, n_ppm
from skpublicdp.guarantees.ppm import (
    MAX_CONE_FEATURES,
    MAX_LISTED_FACES,
    ErrorCounts,
    axis_box_guarantee,
    evaluated_guarantee,
    ppm_guarantee,
)
from skpublicdp.hypotheses import Cover, HalfspaceIntersections, Hypothesis, PublicSample
from skpublicdp.hypotheses.axis_boxes import AxisBoxCover, build_axis_boxes
from skpublicdp.hypotheses.base import tabulate
from skpublicdp.hypotheses.growing_unions import (
    WHY_GROWING_IS_UNPROVED,
    GrowingUnion,
    MixedCover,
    build_growing_union,
)
from skpublicdp.hypotheses.halfspace_sets import count_dimensions
from skpublicdp.hypotheses.intersections import max_support_points
from skpublicdp.hypotheses.polytopes import Polytope
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.rules.class_weights import integer_class_weights
from skpublicdp.rules.cover_classifier import COVER_PARAMETERS, CoverClassifier
from skpublicdp.rules.cover_search import DrawnRule, Evaluation, RuleSearch
from skpublicdp.rules.population_guarantee import (
    DEPENDENT_ROWS,
    WRITTEN_FROM_DESCRIPTION,
    no_guarantee,
    warn_if_vacuous,
    why_unproved,
)
from skpublicdp.typing import Codes, Floats, Integers, Mask

DEFAULT_ALPHA = 0.05
"""Value used for `alpha` if the parameter is None."""

DEFAULT_FACES = 2
"""Maximum number of faces of an axis-aligned box if `max_intersections` is None."""

MAX_THEOREM_DIMENSIONS = 6
"""Maximum dimension of the public rows at which the theorem's family can be enumerated."""

MIN_EPSILON = 1e-9
"""Smallest ε for which a required number of rows is computed; for smaller ε, it is unprintable."""

UNLABELLED_PUBLIC_ROWS = "public rows without labels are not scored"
"""Reason why no bound is proved."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _MixedSearch(RuleSearch):
    """A search over intersections of halfspaces, scored on weighted private and public rows."""

    cover: MixedCover
    n_supports: int  # number of public rows that generate halfspaces
    # (n_public,): marks the public rows that are used only for scoring, so the family does not
    # depend on them
    held_out: Mask
    n_dimensions: int  # dimension of the affine hull of the public rows
    is_weighted: bool  # whether private and public rows have different weights


class PPMHalfspaceClassifier(CoverClassifier):
    """Pure ε-differentially private classifier if labels determine which rows are private.

    The classifier is intended for mixtures of a private and a public population (PPM), for example
    if people who tested positive share their data and people who tested negative do not. The two
    populations differ, but a learned rule can be nearly as accurate as the best halfspace. Public
    rows generate a finite family of halfspaces. One exact draw of the exponential mechanism selects
    an intersection of a few of these halfspaces, and rows inside it receive the public label
    (Algorithms 1 and 2 of [1]_). If the family is too large to enumerate and there are many rows,
    up to three further draws search around the drawn rule.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, interpreted as an exact fraction.
    private_label : label, default=None
        The label of the private population; ``None`` means the second label in sorted order.
    class_weight : "balanced" or dict of label to number, default=None
        Weight of an error according to the status of the row: the weight of `private_label` applies
        to private rows, and the other weight applies to public rows. ``"balanced"`` gives both
        populations the same weight. Only the ratio matters; it is represented as a fraction with
        denominator at most 16. The weights are public and cost no privacy.
    alpha : float, default=None
        Target approximation error of an automatic pool, in (0, 1); ``None`` means 0.05. Some
        halfspace of the pool disagrees with any given halfspace on at most about this fraction of
        the public rows; with ``pool="axes"``, the same holds for boxes, with at most this fraction.
        A smaller value results in more halfspaces, up to `max_halfspaces`, and a larger error of
        the draw. The value differs from the excess error of `guarantees.n_ppm`. A value other than
        None triggers a warning if no error bound is proved. If more than five halfspaces are drawn
        one at a time, `alpha` is also the weight of certain errors in the first draw, where
        ``None`` means 1 / e (`guarantees.n_ppm_growing_boxes`).
    max_intersections : int, default=None
        Maximum number of halfspaces in a rule; ``None`` means 2, or 1 for a single feature unless
        ``pool="axes"``. The theorem requires one halfspace per feature, which is the meaning of
        ``None`` with ``pool="paper"``. With ``pool="axes"``, this is the maximum number of faces of
        a box. A single draw selects up to five halfspaces together. If there are more, they are
        drawn one at a time, and ε is shared by twice as many draws plus one; either label may then
        be inside (only the public label if the public rows lie in a hyperplane), and `guarantee_`
        requires `evaluation_share`.
    pool : {"auto", "paper", "axes"}, default="auto"
        ``"axes"`` draws an axis-aligned box with few faces at public values, which has either the
        public or the private label inside. Its `guarantee_` is relative to the best box, in any
        number of columns (`guarantees.n_ppm_boxes`). The other pools draw from intersections of
        halfspaces in all directions, see `hypotheses.HalfspaceIntersections`. ``"paper"`` without
        `max_intersections` is the learner of Theorem 4.6; among the pools in all directions, only
        this setting has a `guarantee_` if `evaluation_share` is 0, unless the public rows are so
        few that a pool contains all their halfspaces. It uses all public rows, or a
        random subset of 1000, 320 or 19 rows for one, two or three features. With four or more
        features, it uses at most 7 public rows, which results in far larger errors than ``"auto"``
        and triggers a warning.
    max_halfspaces : int, default=1400
        Maximum number of halfspaces in an automatic pool, regardless of `alpha`.
    evaluation_share : float, default=0.0
        Share of ε, in [0, 1), that is spent on a noisy count of the private rows that the drawn
        rule mislabels. With a positive share, every pool has a `guarantee_`, which bounds the error
        itself. A random half of the public rows is then held out: these rows generate no halfspaces
        but are scored. A typical share is 0.1.
    status_error : float, default=0.0
        Maximum probability, in [0, 1], that a row of the population is private and has the public
        label; it is added to a `guarantee_` that does not come from `evaluation_share`. This
        assumption is not checked and does not affect the drawn rule.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail; `guarantee_` may fail with the
        same probability.
    n_jobs : int, default=None
        Number of threads that count rows; it does not affect the results.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator. Any other value makes
        the fit reproducible, for tests and papers, and the receipt states this.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `fit` then requires `groups` and uses at most
        `max_rows_per_group` private rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Privacy budget to which the fit is charged. If too little budget remains, `fit` raises an
        error before any private row is read.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        The sorted labels; there is only one if `y` contains a single label.
    hypothesis_ : Polytope
        The drawn rule; ``print`` displays it in words.
    halfspaces_ : tuple of ndarray, shapes (n_halfspaces, n_features) and (n_halfspaces,)
        Normals and offsets: a row is inside if ``normals @ x >= offsets``, in which case it
        receives the public label. With ``pool="axes"`` or more than five halfspaces, the label
        inside may be the private label, as shown by `hypothesis_`. The arrays are empty if all rows
        receive the same label.
    cover_size_ : int
        Number of hypotheses in the family used for the last draw.
    privacy_ : PrivacyReceipt
        The privacy cost of the fit.
    certificate_ : Certificate
        Bound on the excess weighted error, on the scored rows, of the drawn rule over the best rule
        in the family of the last draw. The bound does not apply to rules outside the family or to
        the population.
    guarantee_ : float or None
        Bound on the excess population error over the best halfspace, or over the best box with
        ``pool="axes"``. The bound holds with probability 1 - `beta` over the rows, the supports and
        the draw, if the rows are independent draws from the mixture. With `evaluation_share`, it
        bounds the error itself, using released counts. Otherwise, it depends only on public numbers
        and requires that all private rows have the private label, up to `status_error`. A value of
        1 is a vacuous bound; ``None`` means that no bound has been proved.
    guarantee_reason_ : str
        The terms of the bound, or the reason why no bound has been proved.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns, if all column names of `X` are strings.

    Warns
    -----
    LargeEpsilonWarning
        If `epsilon` is so large that the fit provides almost no privacy protection.
    NoPublicDataWarning
        If there are no public rows, in which case all rows receive the private label.
    UnprovedWarning
        If `guarantee_` is ``None`` although `evaluation_share`, `alpha` or ``pool="paper"`` is set.
        ``pool="axes"`` ignores `alpha` here.
    TooFewRowsWarning
        If `guarantee_` is 1, which means that no accuracy bound holds. Also if Theorem 4.6 requires
        at least four times as many rows for any bound, or if ``pool="paper"`` uses only a few of
        the public rows, as it does in four or more dimensions.

    See Also
    --------
    SemiPrivateClassifier : Learner for public rows from the population of the private rows.

    Notes
    -----
    Neighbouring datasets differ by replacing one private row with another private row. The status
    of each row (private or public) is public, and so are all public rows and their labels (Lemma
    4.1). Without a mask and without `X_public`, the label of a row determines its status. If either
    is given, the status may merely correlate with the label, or the public rows may have both
    labels. The privacy guarantee is the same in each case.

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

    _in_memory_since = "halfspaces are constructed from all rows with the public label"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "private_label": "no_validation",
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "alpha": [*PROBABILITY, None],
        "max_intersections": [Interval(Integral, 1, None, closed="left"), None],
        "pool": [StrOptions({"auto", "paper", "axes"})],
        "max_halfspaces": [Interval(Integral, 2, None, closed="left")],
        "evaluation_share": [Interval(Real, 0, 1, closed="left")],
        "status_error": [Interval(Real, 0, 1, closed="both")],
        **COVER_PARAMETERS,
    }

    # metadata of these names has only one meaning, so it is routed without a request
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    protects_all_rows = False
    """By default, all rows of one label are public, so the classifier cannot be a base learner."""

    def __init__(
        self,
        *,
        epsilon: float | Fraction = 1.0,
        private_label: Any = None,
        class_weight: Literal["balanced"] | Mapping[Any, float | Fraction] | None = None,
        alpha: float | None = None,
        max_intersections: int | None = None,
        pool: Literal["auto", "paper", "axes"] = "auto",
        max_halfspaces: int = 1400,
        evaluation_share: float | Fraction = 0.0,
        status_error: float = 0.0,
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
        self.evaluation_share = evaluation_share
        self.status_error = status_error
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
        """Select a polytope with the exponential mechanism, by errors on private and public rows.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows of both populations, or only the private rows if `X_public` contains the public
            rows.
        y : array-like, shape (n,)
            Labels of the rows; `y` and `y_public` together contain at most two distinct labels.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows. All rows of `X` are then private, except for those marked by
            `is_public`. In cross-validation, `X_public` and `X` must have different numbers of
            rows.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`. Rows without labels generate halfspaces but are not scored.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. By default, without `X_public`, these are the rows whose
            label is not `private_label`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Person identifier of each row, for `max_rows_per_group`; not read for public rows.

        Returns
        -------
        self : PPMHalfspaceClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If too little of `budget` remains.
        CoverSizeError
            If the paper's pool would be too large, or the pool of boxes would be too small.
        """
        return self._fit(
            X, y, X_public=X_public, y_public=y_public, is_public=is_public, groups=groups
        )

    def _open_ledger(self) -> Ledger:
        evaluation = self._evaluation_event()
        draw = Draw(exact_fraction(self.epsilon) - evaluation.epsilon)
        event: Event = Steps((draw, evaluation)) if evaluation.epsilon else draw
        if self.budget is not None:
            self.budget.check_protects_features()
        ledger = Ledger.from_estimator(self, event=event)
        sensitivity = ledger.for_person(Sensitivity(1, 1))
        if evaluation.epsilon and not noise_is_representable(evaluation, sensitivity):
            raise ValueError(
                f"evaluation_share={float(self.evaluation_share):g} of "
                f"epsilon={float(self.epsilon):g} is too small: the noise of the count is too "
                "large to be drawn. Pass a larger evaluation_share, or set evaluation_share=0."
            )
        return ledger

    def _evaluation_event(self) -> Pure:
        """Return the privacy cost of the noisy count of errors."""
        return Pure(exact_fraction(self.epsilon) * exact_fraction(self.evaluation_share))

    def _read(self, X: Any, y: Any, **inputs: Any) -> MixedRows:
        return read_label_status(self, X, y, private_label=self.private_label, **inputs)

    def _prepare(self, rows: MixedRows, ledger: Ledger) -> _MixedSearch:
        """Return the cover generated by the public rows, and the rows used to score its rules.

        Neighbouring datasets have the same public rows, so the sensitivity is the weight of a
        private row.
        """
        private_weight, public_weight = integer_class_weights(self.class_weight, rows)
        if not rows.n_public:
            warn_no_public("all rows are assigned the private label")
        n_labelled = len(rows.y_public)

        def weighted_table(cover: Cover) -> Integers:
            private = tabulate(cover, rows.X_private, rows.y_private, n_jobs=self.n_jobs)
            X_labelled = rows.X_public[:n_labelled]
            public = tabulate(cover, X_labelled, rows.y_public, n_jobs=self.n_jobs)
            return private_weight * private + public_weight * public

        def count_errors(rule: Hypothesis) -> int:
            return _n_errors(rule, rows.X_private, rows.y_private, rows)

        held_out = self._held_out(rows.n_public, ledger)
        X_generating = rows.X_public[~held_out]
        n_dimensions = count_dimensions(X_generating, feature_names(self))
        supports = self._supports(X_generating, n_dimensions, ledger)
        event = self._evaluation_event()
        return _MixedSearch(
            cover=self._cover(rows, supports),
            tabulate=weighted_table,
            ledger=ledger,
            scored=private_weight * rows.n_private + public_weight * n_labelled,
            sensitivity=private_weight,
            proof="Bassily, Moran and Nandi (2020), Lemma 4.1; docs/proofs/selection.md",
            evaluation=Evaluation(event, count_errors) if event.epsilon else None,
            n_supports=len(supports),
            held_out=held_out,
            n_dimensions=n_dimensions,
            is_weighted=private_weight != public_weight,
        )

    def _assumptions(self, rows: MixedRows, described: tuple[str, ...]) -> tuple[str, ...]:
        return (
            rows.known_facts,
            "halfspaces are chosen by public rows, public randomness and earlier draws",
            *described,
        )

    def _store_rule(self, rows: MixedRows, hypothesis: Hypothesis, cover: Cover) -> None:
        super()._store_rule(rows, hypothesis, cover)
        polytope = cast(Polytope, hypothesis)
        self.halfspaces_ = (polytope.normals, polytope.offsets)
        # label code by the side that the polytope predicts: inside (0) is the public label. With a
        # single label the only code is 0.
        self._codes = np.array([1 - rows.private_code, rows.private_code]) % len(rows.classes)

    def _label_codes(self, codes: Codes) -> Codes:
        return self._codes[codes]

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a binary classifier that may score poorly on small datasets."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def _held_out(self, n_public: int, ledger: Ledger) -> Mask:
        """Return a mask that is True for public rows that do not generate halfspaces.

        If there is an evaluation, these are a random half of the public rows, rounded down.
        Otherwise there are none.
        """
        held_out = np.zeros(n_public, dtype=bool)
        if self.evaluation_share:
            held_out[ledger.subset(n_public, n_public // 2)] = True
        return held_out

    def _supports(self, X_generating: Floats, n_dimensions: int, ledger: Ledger) -> Floats:
        """Return the public rows that generate halfspaces.

        These are all public rows that are not held out. For the theorem, if there are more than
        `max_support_points` such rows, a uniformly random subset replaces them.
        """
        if not (self._is_theorem() and n_dimensions):
            return X_generating
        max_supports = max_support_points(n_dimensions)  # 0 if the theorem's family is too large
        if not max_supports or len(X_generating) <= max_supports:
            return X_generating
        return X_generating[ledger.subset(len(X_generating), max_supports)]

    def _cover(self, rows: MixedRows, supports: Floats) -> MixedCover:
        """Return the family of rules: intersections of halfspaces with the public label inside.

        A rule predicts its first label inside, so the public label comes first.
        """
        order = [rows.private_code]
        if len(rows.classes) > 1:
            order = [1 - rows.private_code, rows.private_code]
        public = PublicSample(supports, rows.classes[order], feature_names(self))
        alpha = DEFAULT_ALPHA if self.alpha is None else float(self.alpha)
        n_faces = self._max_faces()
        max_halfspaces = int(self.max_halfspaces)
        if n_faces > MAX_LISTED_FACES:
            return build_growing_union(public, self.pool, n_faces, max_halfspaces, self.alpha)
        if self.pool == "axes":
            return build_axis_boxes(public, n_faces, max_halfspaces, alpha)
        family = HalfspaceIntersections(self.max_intersections, self.pool, self.max_halfspaces)
        return family.build_cover(public, alpha=alpha, beta=self.beta)

    def _max_faces(self) -> int:
        """Return the maximum number of halfspaces in a rule; the default is that of a box."""
        return DEFAULT_FACES if self.max_intersections is None else int(self.max_intersections)

    def _guarantee(
        self,
        rows: MixedRows,
        search: _MixedSearch,
        drawn: DrawnRule,
        described: bool,
        rows_per_person: int,
    ) -> Promise:
        """Return the bound on the excess error over the best halfspace.

        If there is an evaluation, the bound is computed from the counted errors. Otherwise, it is
        the bound of Theorem 4.6 or the bound for boxes; both depend only on public numbers and not
        on the draw.
        """
        if drawn.noisy_errors is not None:
            return self._evaluated_guarantee(rows, search, drawn, described)
        if reason := self._why_no_guarantee(rows, search, described):
            return no_guarantee(reason)
        n = max(rows.n_private + rows.n_public, 1)
        epsilon, status_error = float(self.epsilon), float(self.status_error)
        if self.pool == "axes":
            cover = search.cover
            return axis_box_guarantee(
                n,
                cover.missed if isinstance(cover, AxisBoxCover) else 0,
                epsilon,
                beta=self.beta,
                d=self.n_features_in_,
                faces=self._max_faces(),
                cover_size=cover.size,
                status_error=status_error,
            )
        return ppm_guarantee(
            n,
            rows.n_public,
            search.n_supports,
            epsilon=epsilon,
            beta=self.beta,
            d=self.n_features_in_,
            cover_size=search.cover.size,
            n_dimensions=search.n_dimensions,
            cones=self._is_theorem() and self.n_features_in_ <= MAX_CONE_FEATURES,
            status_error=status_error,
        )

    def _evaluated_guarantee(
        self, rows: MixedRows, search: _MixedSearch, drawn: DrawnRule, described: bool
    ) -> Promise:
        """Return the error bound computed from the released count of mislabelled private rows."""
        assert drawn.noisy_errors is not None
        if len(rows.y_public) < rows.n_public:
            return no_guarantee(UNLABELLED_PUBLIC_ROWS)
        if self.max_rows_per_group is not None:
            return no_guarantee(DEPENDENT_ROWS)
        if described:
            return no_guarantee(WRITTEN_FROM_DESCRIPTION)
        X, y = rows.X_public[search.held_out], rows.y_public[search.held_out]
        counts = ErrorCounts(
            n_private=rows.n_private,
            noisy_private_errors=int(drawn.noisy_errors.values[0]),
            noise_scale=drawn.noisy_errors.scale,
            n_public=rows.n_public,
            n_held_out=len(X),
            held_out_errors=_n_errors(drawn.hypothesis, X, y, rows),
        )
        n_rules = search.cover.n_final_rules(drawn.n_draws)
        return evaluated_guarantee(counts, self.beta, math.log(n_rules))

    def _why_no_guarantee(self, rows: MixedRows, search: _MixedSearch, described: bool) -> str:
        """Return the reason why Theorem 4.6 does not apply, or "" if it does."""
        if isinstance(search.cover, GrowingUnion):
            return WHY_GROWING_IS_UNPROVED
        if not search.cover.is_complete:
            if not max_support_points(search.n_dimensions):
                return (
                    f"in {search.n_dimensions} dimensions, Theorem 4.6 requires too many "
                    "halfspaces; evaluation_share gives a bound from a noisy error count"
                )
            return (
                'the halfspaces are not those of Theorem 4.6, which requires pool="paper" and '
                "max_intersections=None; evaluation_share gives a bound from a noisy error count"
            )
        if search.is_weighted:
            return "with class_weight, the learner minimises a weighted error"
        if len(rows.y_public) < rows.n_public:
            return UNLABELLED_PUBLIC_ROWS
        # also for one private row per person: all public rows of a person are used
        if self.max_rows_per_group is not None:
            return DEPENDENT_ROWS
        return WRITTEN_FROM_DESCRIPTION if described else ""

    def _warn_if_weak(self, guarantee: Promise, rows: MixedRows, search: _MixedSearch) -> None:
        """Warn if the bound is missing or vacuous, or if random supports make it large.

        The warning texts depend only on public numbers.
        """
        n, epsilon = rows.n_private + rows.n_public, max(float(self.epsilon), MIN_EPSILON)
        is_subset = self._is_theorem() and search.n_supports < rows.n_public
        if is_subset and search.n_dimensions > MAX_CONE_FEATURES:
            warn(
                f'pool="paper" constructs halfspaces from only {search.n_supports} of '
                f"{rows.n_public} public rows in {search.n_dimensions} dimensions, which may add "
                f'an error of {rows.n_public / n:.2g}. pool="auto" uses all public rows; it has no '
                "guarantee_, but its error is much smaller in practice.",
                TooFewRowsWarning,
            )
        else:
            warn_if_vacuous(guarantee, rows.n_private, rows.n_public, epsilon)
        if guarantee.bound is not None:
            return
        if self.evaluation_share:
            warn(
                f"evaluation_share={float(self.evaluation_share):g} gives no error bound here, so "
                f"guarantee_ is None: {why_unproved(guarantee)}. Set evaluation_share=0 to spend "
                "the entire privacy budget on the rule.",
                UnprovedWarning,
            )
            return
        if self.pool == "axes":
            return
        if self.pool == "paper" or self.alpha is not None:
            self._warn_unproved(why_unproved(guarantee))
            return
        min_rows = n_ppm(0.5, self.beta, epsilon, self.n_features_in_, supports=None)
        if 4 * n < min_rows:
            warn(
                f"Theorem 4.6 gives no error bound for {n} rows with {self.n_features_in_} "
                f"features at ε = {float(self.epsilon):g}: even an excess error of 1/2 requires "
                f"{min_rows} rows.",
                TooFewRowsWarning,
            )

    def _warn_unproved(self, reason: str) -> None:
        """Warn that the settings request the error bound of Theorem 4.6, which does not apply."""
        is_paper = self.pool == "paper"
        setting = 'pool="paper"' if is_paper else f"alpha={self.alpha:g}"
        alternative = "" if is_paper else ", or leave alpha at None and set max_halfspaces"
        warn(
            f"Theorem 4.6 gives no error bound for {setting} here, so guarantee_ is None: "
            f'{reason}. Use pool="paper" without other settings and with public rows of at most '
            f"{MAX_THEOREM_DIMENSIONS} dimensions{alternative}.",
            UnprovedWarning,
        )

    def _is_theorem(self) -> bool:
        """Return whether `pool` and `max_intersections` have the values required by Theorem 4.6."""
        return self.pool == "paper" and self.max_intersections is None


def _n_errors(rule: Hypothesis, X: Floats, y: Codes, rows: MixedRows) -> int:
    """Return the number of rows that a rule mislabels.

    The public label has code 0 and the private label has code 1. If there is a single label, all
    rules predict it.
    """
    n_classes = len(rows.classes)
    return int(np.count_nonzero(rule.predict(X) % n_classes != y % n_classes))
