"""GenericLearnerClassifier: one private draw from a cover that is built from sanitized rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods

from skpublicdp._internal.parameters import PROBABILITY, OptionalBudget, Seed, all_or_nothing
from skpublicdp.accounting import Approximate, exact_fraction
from skpublicdp.accounting.events import NO_EVENT
from skpublicdp.accounting.rounding import written_below
from skpublicdp.base_learner import fit_without_leaks, mechanism_event
from skpublicdp.data.inputs import (
    LabelledRows,
    bound_ends,
    read_partially_labelled,
    with_described_bounds,
)
from skpublicdp.data.public_rows import reference_sample
from skpublicdp.data.schema import bounds_by_position, feature_labels, parse_bounds
from skpublicdp.data.validation import feature_names
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, Hypothesis, HypothesisClass, PublicSample
from skpublicdp.hypotheses.base import (
    assumptions_of_class,
    check_public_values,
    is_of_package,
    tabulate,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_classifier import (
    COVER_PARAMETERS,
    CoverClassifier,
    class_or_default,
    may_be_known,
    n_reference_rows,
)
from skpublicdp.rules.cover_search import DRAW_NAME, DrawnRule, RuleSearch
from skpublicdp.rules.population_guarantee import (
    DEPENDENT_ROWS,
    NO_PUBLIC_ROWS,
    UNKNOWN_COVER_RADIUS,
    WRITTEN_FROM_DESCRIPTION,
    cover_error,
    excess_error_guarantee,
    is_whole_class,
    no_guarantee,
)
from skpublicdp.sanitizers import QuantileSanitizer
from skpublicdp.typing import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class _SanitizedSearch(RuleSearch):
    """A search over a cover built from synthetic points and scored on the labelled rows."""

    synthetic: SyntheticPoints
    sanitizer: Any


class GenericLearnerClassifier(CoverClassifier):
    """Pure ε-differentially private classifier for partly labelled rows that are all private.

    A sanitizer replaces the unlabelled rows with private synthetic points, which determine a finite
    cover of a hypothesis class. One exact draw of the exponential mechanism then selects a rule of
    the cover according to its errors on the labelled rows. The two steps use disjoint rows, so each
    can spend the entire privacy budget (parallel composition). This is Algorithm 1 (GenericLearner)
    of [1]_.

    Parameters
    ----------
    hypotheses : HypothesisClass, default=None
        Hypothesis class to learn; ``None`` means `DecisionTrees(max_depth=2)`.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, interpreted as an exact fraction.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lower and upper bounds of the features, from public knowledge. The bounds can be a hundred
        times too wide. For the behaviour without bounds, see `sanitizers.QuantileSanitizer`.
    sanitizer : object, default=None
        Sanitizer that generates the synthetic points, for example `PAPQueryRelease(delta=0)`. The
        sanitizer must have methods `fit(X)`, `sample(n)` and `get_params`, and a parameter
        `epsilon`, which is set to the ε of the learner. ``None`` means
        `sanitizers.QuantileSanitizer()`. `sanitizers.BLRSanitizer` is the sanitizer assumed by the
        theorem and only suits tiny domains. The sanitizer is cloned before use. If the sanitizer's
        parameters `bounds`, `hypotheses` and `random_state` are None, they are set to the learner's
        values.
    alpha : float, default=0.05
        Target approximation error, in (0, 1): some rule of the cover disagrees with the best rule
        of the class on at most approximately this fraction of the synthetic and public rows. For
        split points, alpha is the spacing of the quantiles.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail; `guarantee_` may fail with the
        same probability.
    classes : array-like, default=None
        All possible labels. By default, the labels that occur in `y`; the set of these labels is
        then assumed to be public knowledge.
    n_jobs : int, default=None
        Number of threads that count rows; it does not affect the results.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator. Any other value makes
        the fit reproducible, for tests and papers, and the receipt states this.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `fit` then requires `groups` and uses at most
        `max_rows_per_group` random rows of each person. If a person has labelled rows, only
        labelled rows are used.
    budget : PrivacyBudget, default=None
        Privacy budget to which the fit is charged. If too little budget remains, `fit` raises an
        error before any private row is read.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    sanitized_ : ndarray of float64, shape (n_points, n_features)
        The synthetic points from which, together with the public rows, the cover is built. These
        points are differentially private and can be published. The array is empty if there are
        public rows but too few unlabelled private rows.
    hypothesis_ : Hypothesis
        The drawn rule; ``print`` displays it in words.
    cover_size_ : int
        Number of hypotheses in the cover, or in the cover of the last round if there are several
        rounds.
    cover_radius_ : float or None
        Radius of the cover on the synthetic points and public rows: every rule of the class
        disagrees with some rule of the cover on at most this fraction of these points and rows.
        ``None`` if no bound is known. `guarantee_` accounts for the radius in the population.
    privacy_ : PrivacyReceipt
        The privacy cost of the fit.
    certificate_ : Certificate
        Bound on the excess error of the drawn rule over the best rule of the cover (of the last
        round) on the labelled rows.
    guarantee_ : float or None
        Bound on the excess population error over the best rule of `hypotheses`, with probability 1
        - beta over all rows, the sanitizer and the draw. The bound assumes that all rows are
        independent draws from one population. The bound also assumes that their features are among
        the candidates of `sanitizers.QuantileSanitizer` or in the domain of
        `sanitizers.BLRSanitizer`. ``None`` if no bound has been proved.
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
        If there are no public rows and no or too few unlabelled rows. The cover is then
        data-independent: a grid over `bounds`, or over standard normal features.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, in which case cross-validation would slice it.
    AmbiguousLabelWarning
        If `y` contains -1 and one other value, in which case -1 could be a label or could mean
        "unlabelled".
    TooFewRowsWarning
        If `guarantee_` is 1, which means that no accuracy bound holds. Not given in a search or
        cross-validation of scikit-learn.

    See Also
    --------
    SemiPrivateClassifier : Uses public rows instead of unlabelled private rows.

    Notes
    -----
    Neighbouring datasets differ by replacing the features and label of one private row. The
    positions of the labelled rows, the number of rows, the set of labels and all public rows are
    not protected. Only `sanitized_` and `hypothesis_` depend on values of private rows.

    References
    ----------
    .. [1] A. Beimel, K. Nissim and U. Stemmer (2015). Learning privately with labeled and unlabeled
       examples. SODA. Algorithm 1, Theorem 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import GenericLearnerClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = 1000 * rng.lognormal(size=(20_000, 3))  # no bounds are needed
    >>> y = np.where(X[:, 0] > 1000, "yes", "no").astype(object)
    >>> y[500:] = -1
    >>> clf = GenericLearnerClassifier(epsilon=1.0, random_state=0).fit(X, y)
    >>> clf.score(X[:500], y[:500].astype(str)) > 0.9
    True
    >>> clf.privacy_.epsilon, clf.privacy_.delta
    (1.0, 0.0)
    """

    _in_memory_since = "the sanitizer requires all unlabelled rows in a single array"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "hypotheses": [HypothesisClass, None],
        "bounds": ["array-like", dict, None],
        "sanitizer": [HasMethods(["fit", "sample", "get_params"]), None],
        "alpha": PROBABILITY,
        "classes": ["array-like", None],
        **COVER_PARAMETERS,
    }

    # metadata with these names has only one meaning, so it is routed without a request
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "is_public": True,
        "is_labelled": True,
        "groups": True,
    }

    protects_all_rows = True
    """Every row of `X` is protected, so the classifier can serve as a base learner."""

    def __init__(
        self,
        hypotheses: HypothesisClass | None = None,
        *,
        epsilon: float | Fraction = 1.0,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        sanitizer: Any = None,
        alpha: float = 0.05,
        beta: float = 0.05,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.hypotheses = hypotheses
        self.epsilon = epsilon
        self.bounds = bounds
        self.sanitizer = sanitizer
        self.alpha = alpha
        self.beta = beta
        self.classes = classes
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
        is_public: Any = None,
        is_labelled: Any = None,
        groups: Any = None,
    ) -> Self:
        """Sanitize the unlabelled rows, and select a rule using its errors on the labelled rows.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows, all private except for those marked by `is_public`.
        y : array-like, shape (n,)
            Labels; not read for public rows. The value -1 (or ``"-1"`` among string labels) means
            "unlabelled", unless it is one of `classes` or one of only two values.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows, which are added to the synthetic points at no privacy cost. In
            cross-validation, `X_public` and `X` must have different numbers of rows.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. The mask is safe to use in cross-validation.
        is_labelled : array-like of bool, shape (n,), optional
            Marks the labelled rows; `y` is not read for other rows. The mask is safe to use in
            cross-validation.
        groups : array-like, shape (n,), optional
            Person identifier of each row, for `max_rows_per_group`.

        Returns
        -------
        self : GenericLearnerClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If too little of `budget` remains.
        CoverSizeError
            If the error counts of the cover would not fit in memory.
        """
        return self._fit(
            X, y, X_public=X_public, is_public=is_public, is_labelled=is_labelled, groups=groups
        )

    def _open_ledger(self) -> Ledger:
        _, delta = unfitted_sanitizer(self.sanitizer)
        event = mechanism_event(exact_fraction(self.epsilon), delta)
        return Ledger.from_estimator(self, event=event, delta=delta)

    def _read(self, X: Any, y: Any, **inputs: Any) -> LabelledRows:
        rows = read_partially_labelled(self, X, y, classes=self.classes, **inputs)
        names, labels = feature_names(self), feature_labels(self)
        bounds = with_described_bounds(self.bounds, inputs.get("X_public"), names, labels)
        self._bounds = bounds_by_position(bounds, names, labels)
        return rows

    def _prepare(self, rows: LabelledRows, ledger: Ledger) -> _SanitizedSearch:
        """Store the sanitized rows, and return their cover and the labelled rows for scoring.

        The two steps use disjoint rows, so each can spend the entire privacy budget (parallel
        composition).
        """
        names, hypotheses = feature_names(self), class_or_default(self.hypotheses)
        # the sanitizer spends budget before a cover is built
        check_public_values(hypotheses, [rows.X_public, bound_ends(self._bounds, names)], names)
        sanitizer, _ = unfitted_sanitizer(self.sanitizer)
        # the sanitizer receives arrays without column names
        bounds = self._bounds
        sanitizer_ledger, draw_ledger = ledger.split(2)
        synthetic = self._synthesise(rows, sanitizer, bounds, sanitizer_ledger)
        points = np.concatenate([synthetic.points, rows.X_public])
        sample = PublicSample(points, rows.classes, names)
        self.sanitized_ = synthetic.points
        return _SanitizedSearch(
            cover=hypotheses.build_cover(sample, alpha=self.alpha, beta=self.beta),
            tabulate=lambda cover: tabulate(
                cover, rows.X_labelled, rows.y_labelled, n_jobs=self.n_jobs
            ),
            ledger=draw_ledger,
            scored=len(rows.y_labelled),
            name=f"on the labelled rows: {DRAW_NAME}",
            synthetic=synthetic,
            sanitizer=sanitizer,
        )

    def _is_secure(self, search: _SanitizedSearch) -> bool:
        return search.synthetic.secure_randomness

    def _assumptions(self, rows: LabelledRows, described: tuple[str, ...]) -> tuple[str, ...]:
        return (
            may_be_known("which rows are labelled", self.classes),
            *described,
            *assumptions_of_class(self.hypotheses),
            *_sanitizer_assumptions(self.sanitizer),
        )

    def _store_rule(self, rows: LabelledRows, hypothesis: Hypothesis, cover: Cover) -> None:
        super()._store_rule(rows, hypothesis, cover)
        self.cover_radius_ = cover.radius

    def _guarantee(
        self,
        rows: LabelledRows,
        search: _SanitizedSearch,
        drawn: DrawnRule,
        described: bool,
        rows_per_person: int,
    ) -> Promise:
        cover, hypotheses, m = search.cover, class_or_default(self.hypotheses), rows.n_public
        # without a sanitizer, the cover does not depend on unlabelled rows
        sanitizer = search.sanitizer if search.synthetic.depends_on_rows else None
        n_classes = len(rows.classes)

        def radius_at(beta: float) -> float | None:
            if sanitizer is None:
                return cover_error(cover, hypotheses, self.n_features_in_, n_classes, m, beta)
            if not hasattr(sanitizer, "cover_error"):
                return None  # a sanitizer of the user, with no known error bound
            return sanitizer.cover_error(cover, hypotheses, beta, len(search.synthetic.points))

        if rows_per_person > 1:
            return no_guarantee(DEPENDENT_ROWS)
        if not is_whole_class(cover):
            if sanitizer is None and not m:
                return no_guarantee(NO_PUBLIC_ROWS)
            if sanitizer is None and described:
                return no_guarantee(WRITTEN_FROM_DESCRIPTION)
            if sanitizer is not None and n_classes > 2 and cover.cuts is None:
                return no_guarantee(UNKNOWN_COVER_RADIUS)
        return excess_error_guarantee(
            cover,
            drawn,
            radius_at,
            n=len(rows.y_labelled),
            beta=self.beta,
            hypotheses=hypotheses,
        )

    def _synthesise(
        self, rows: LabelledRows, sanitizer: Any, bounds: Any, ledger: Ledger
    ) -> SyntheticPoints:
        """Return synthetic points: a sample from the fitted sanitizer, or a reference sample.

        If there are too few rows for the sanitizer, a reference sample is returned, or no points if
        there are public rows.
        """
        n_points = n_reference_rows(self.alpha)
        name = f"on the unlabelled rows: {type(sanitizer).__name__}"
        X, use = rows.X_unlabelled, SanitizerUse(depends_on_rows=False, secure_randomness=True)
        if len(X):
            self._configure(sanitizer, bounds, ledger)
            entry = ledger.sub_ledger(ledger.event, name=name, proof="its own documentation")
            fit_without_leaks(sanitizer, X)
            use = record_sanitizer(sanitizer, entry)
        if use.depends_on_rows:
            points = np.asarray(sanitizer.sample(n_points), dtype=np.float64)
            if points.shape[1:] != X.shape[1:] or not len(points) or not np.isfinite(points).all():
                raise ValueError(
                    "sanitizer.sample must return rows of finite numbers in the same columns as X."
                )
            return SyntheticPoints(points, use.secure_randomness, depends_on_rows=True)
        if len(rows.X_public):  # the cover is built from them alone, so no point is added
            no_points = rows.X_public[:0]
            return SyntheticPoints(no_points, secure_randomness=True, depends_on_rows=False)
        amount = "Too few" if len(X) else "No"
        n_bounded = len(parse_bounds(bounds, feature_names(self)))
        grid = (
            "the given bounds" if n_bounded == self.n_features_in_ else "standard-normal features"
        )
        warn(
            f"{amount} unlabelled rows were given for the sanitizer at epsilon = "
            f"{float(self.epsilon):g}, so the hypotheses come from a data-independent grid over "
            f"{grid}.",
            NoPublicDataWarning,
        )
        points = reference_sample(self.n_features_in_, bounds, n_points)
        return SyntheticPoints(points, secure_randomness=True, depends_on_rows=False)

    def _configure(self, sanitizer: Any, bounds: Any, ledger: Ledger) -> None:
        """Set the budget of an unfitted sanitizer, and any parameters that the user left as None.

        These parameters are the bounds, the hypotheses and the seed, which the learner determines.
        """
        parameters = sanitizer.get_params(deep=False)
        epsilon, delta = ledger.per_row(ledger.epsilon, ledger.delta)
        settings: dict[str, Any] = {
            "epsilon": epsilon if ledger.rows_per_person > 1 else self.epsilon
        }
        if "delta" in parameters:
            settings["delta"] = written_below(delta)
        defaults = {
            "bounds": bounds,
            "hypotheses": class_or_default(self.hypotheses),
            # the sanitizer needs a separate seed, since its noise must be independent of the draw
            "random_state": ledger.seed(32),
        }
        for name, value in defaults.items():
            if name in parameters and parameters[name] is None:
                settings[name] = value
        sanitizer.set_params(**settings)


class SanitizerUse(NamedTuple):
    """Properties of a fitted sanitizer that the receipt and the guarantee of the learner state."""

    # Whether the sanitizer's sample depends on the rows. A sanitizer may ignore the rows if there
    # are too few.
    depends_on_rows: bool
    secure_randomness: bool  # whether the sanitizer used a secure generator instead of a seed


class SyntheticPoints(NamedTuple):
    """Points that replace the unlabelled rows when `GenericLearnerClassifier` builds its cover."""

    # (n_points, n_features): sample from the sanitizer or from a data-independent reference
    # distribution
    points: Floats
    secure_randomness: bool  # whether the points were generated with secure randomness
    depends_on_rows: bool  # whether the points depend on the unlabelled rows


def _sanitizer_assumptions(sanitizer: Any) -> tuple[str, ...]:
    """Return the assumption about a sanitizer that is not part of this package, or ()."""
    if sanitizer is None or is_of_package(type(sanitizer)):
        return ()
    return (f"{type(sanitizer).__name__} is private with its given budget for all possible rows",)


def unfitted_sanitizer(sanitizer: Any) -> tuple[Any, Fraction]:
    """Return an unfitted copy of a learner's parameter `sanitizer`, and its δ.

    None means a `QuantileSanitizer`. The δ is 0 if the sanitizer has no parameter `delta`.
    """
    copy = QuantileSanitizer() if sanitizer is None else clone(sanitizer)
    parameters = copy.get_params(deep=False)
    if "epsilon" not in parameters:
        raise ValueError(
            "sanitizer must have a parameter 'epsilon', which is set to its share of the privacy "
            f"budget; {type(copy).__name__} has no such parameter."
        )
    if parameters.get("budget") is not None:
        raise ValueError("sanitizer must have budget=None. Pass the budget to the learner instead.")
    return copy, exact_fraction(parameters.get("delta") or 0)


def record_sanitizer(sanitizer: Any, ledger: Ledger) -> SanitizerUse:
    """Copy the mechanisms of a fitted sanitizer into the receipt of a ledger.

    Raises ValueError if the sanitizer's own receipt exceeds its allotted ε and δ.

    A sanitizer that has no receipt is assumed to use its rows.
    """
    parameters = sanitizer.get_params(deep=False)
    receipt = getattr(sanitizer, "privacy_", None)
    if receipt is None:
        is_unseeded = parameters.get("random_state") is None
        return SanitizerUse(depends_on_rows=True, secure_randomness=is_unseeded)
    if receipt.epsilon > float(parameters["epsilon"]) or receipt.delta > float(ledger.delta):
        raise ValueError(
            "sanitizer must not spend more than the values of its parameters epsilon and delta."
        )
    for mechanism in receipt.mechanisms:
        event = mechanism.event or Approximate(
            exact_fraction(mechanism.epsilon), exact_fraction(mechanism.delta)
        )
        ledger.annotate(f"on the unlabelled rows: {mechanism.name}", event, mechanism.reference)
    depends_on_rows = bool(receipt.epsilon or receipt.delta)
    if not depends_on_rows:
        ledger.annotate("on the unlabelled rows: too few, not used", NO_EVENT, "its own receipt")
    return SanitizerUse(depends_on_rows, receipt.secure_randomness)
