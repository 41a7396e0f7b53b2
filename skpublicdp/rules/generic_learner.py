"""GenericLearnerClassifier: the learner of Beimel, Nissim and Stemmer (2015), Algorithm 1."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils._param_validation import HasMethods
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
from skpublicdp.accounting import Approximate, exact_fraction
from skpublicdp.accounting.events import NO_EVENT
from skpublicdp.accounting.rounding import written_below
from skpublicdp.base_learner import fit_without_leaks, mechanism_event
from skpublicdp.data.bounds import bounds_by_position, parse_bounds
from skpublicdp.data.description import public_data_assumptions
from skpublicdp.data.labelled_inputs import LabelledRows, read_partially_labelled
from skpublicdp.data.reference import reference_sample
from skpublicdp.data.validation import check_rows, feature_names
from skpublicdp.exceptions import NoPublicDataWarning, warn
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, DecisionTrees, HypothesisClass, PublicSample
from skpublicdp.hypotheses.base import (
    assumptions_of_class,
    tabulate,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_search import NAME, DrawnRule, search_cover
from skpublicdp.rules.population_guarantee import (
    DEPENDENT_ROWS,
    NO_PUBLIC_ROWS,
    UNKNOWN_COVER_RADIUS,
    WRITTEN_FROM_DESCRIPTION,
    cover_error,
    excess_error_guarantee,
    no_guarantee,
    warn_if_vacuous,
    with_class_assumptions,
)
from skpublicdp.sanitizers import QuantileSanitizer
from skpublicdp.typing import Floats


class GenericLearnerClassifier(HTMLReprMixin, ClassifierMixin, BaseEstimator):
    """Pure ε-differentially private classifier for rows that are all private and partly labelled.

    The unlabelled rows are sanitized: private synthetic points take their place, which choose a
    finite cover of a hypothesis class. One exact draw of the exponential mechanism picks its member
    by the errors on the labelled rows. No row is used by both, so each has the whole budget:
    Algorithm 1 (GenericLearner) of [1]_.

    Parameters
    ----------
    hypotheses : HypothesisClass, default=None
        Class to learn; ``None`` means `DecisionTrees(max_depth=2)`.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, read as an exact fraction.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lowest and highest value of the features, known without looking at private rows; they may be
        a hundred times too wide. ``None`` does without: see `sanitizers.QuantileSanitizer`.
    sanitizer : object, default=None
        Makes the synthetic points: has a parameter `epsilon` (set to that of the learner), `fit(X)`
        and `sample(n)`, such as `PAPQueryRelease(delta=0)`. ``None`` means
        `sanitizers.QuantileSanitizer()`; `sanitizers.BLRSanitizer` is that of the theorem, for tiny
        domains. It is cloned; its `bounds`, `hypotheses` and `random_state`, where it has them and
        they are None, become those of the learner.
    alpha : float, default=0.05
        Target of approximation, in (0, 1): some rule of the cover disagrees with the best of the
        class on at most about this share of the synthetic and public rows. For splits it is the
        spacing of the quantiles they are put at.
    beta : float, default=0.05
        Probability, in (0, 1), with which `certificate_` may fail, and with which `guarantee_` may.
    classes : array-like, default=None
        All possible labels. By default those that occur in `y`, whose set is then taken to be
        public knowledge.
    n_jobs : int, default=None
        Number of threads that tabulate rows; results do not depend on it.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers; the receipt then says so.
    max_rows_per_group : int, default=None
        Protects persons instead of rows: `fit` then takes `groups`, and no more than the first so
        many rows of a person count; of a person with labelled rows, these alone.
    budget : PrivacyBudget, default=None
        What the fit is charged to; one that cannot pay refuses before a private row is read.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    sanitized_ : ndarray of float64, shape (n_points, n_features)
        The synthetic points that the cover is from, together with public rows. They are public now.
        None where there are public rows and too few unlabelled private ones.
    hypothesis_ : Hypothesis
        The drawn rule; ``print`` shows it in words.
    cover_size_ : int
        Number of hypotheses it was drawn from, in the last round where there are several.
    cover_radius_ : float or None
        Of the synthetic points and public rows, and of no others: each member of the class
        disagrees with some member of the cover on at most this share of them. ``None`` where no
        bound is known. What it means for the population is part of `guarantee_`.
    privacy_ : PrivacyReceipt
        What was spent.
    certificate_ : Certificate
        Of the labelled rows and of the draw alone: on them the drawn rule errs little more than the
        best in the cover (of the last round).
    guarantee_ : float or None
        Of the population: with probability 1 - beta over all rows, the sanitizer and the draw, the
        drawn rule errs on at most this share more than the best of `hypotheses`, if all rows were
        drawn independently from one population and their features are among the candidates of
        `sanitizers.QuantileSanitizer` or in the domain of `sanitizers.BLRSanitizer`. ``None`` where
        nothing is proved.
    guarantee_reason_ : str
        What the guarantee is made of, or why there is none, in one sentence.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    NoPublicDataWarning
        If there are no unlabelled rows, or too few of them, and no public ones: the cover is then
        data-independent, from `bounds` or for standard-normal features.
    SlicedPublicDataWarning
        If `X_public` has as many rows as `X`, so that cross-validation would cut it.
    AmbiguousLabelWarning
        If `y` holds -1 and one other value, and nothing says what -1 is.
    TooFewRowsWarning
        If `guarantee_` is 1: nothing is promised for so few rows.

    See Also
    --------
    SemiPrivateClassifier : Takes public rows in place of unlabelled private ones.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row, features and label. Which rows are
    labelled, how many rows there are, the set of labels and all public rows are not protected.
    Nothing that depends on private rows is stored save `sanitized_` and `hypothesis_`.

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

    _in_memory_since = "the sanitizer gets all unlabelled rows as one array"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "hypotheses": [HypothesisClass, None],
        "bounds": ["array-like", dict, None],
        "sanitizer": [HasMethods(["fit", "sample", "get_params"]), None],
        "alpha": PROBABILITY,
        "beta": PROBABILITY,
        "classes": ["array-like", None],
        "n_jobs": N_JOBS,
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    # routed without being asked for: there is nothing else they could be meant for
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "is_public": True,
        "is_labelled": True,
        "groups": True,
    }

    protects_all_rows = True
    """It may be a base learner."""

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
        """Sanitize the unlabelled rows, then draw a rule by the labelled ones.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows, all private unless `is_public` says otherwise.
        y : array-like, shape (n,)
            Labels, not looked at for public rows; -1 (or ``"-1"`` among text labels) means
            unlabelled, unless it is one of `classes` or one of only two values.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows, which join the synthetic ones at no cost. In cross-validation it
            must not have as many rows as `X`.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. Safe in cross-validation.
        is_labelled : array-like of bool, shape (n,), optional
            Marks the labelled rows; `y` is not looked at elsewhere. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Whose row each is, for `max_rows_per_group`.

        Returns
        -------
        self : GenericLearnerClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        PrivacyBudgetError
            If `budget` cannot pay.
        CoverSizeError
            If the cover's table would not fit in memory.
        """
        check_parameters(self)
        sanitizer, delta = self._sanitizer()
        epsilon = exact_fraction(self.epsilon)
        ledger = Ledger.of(self, event=mechanism_event(epsilon, delta), delta=delta)
        rows = read_partially_labelled(
            self,
            X,
            y,
            is_labelled=is_labelled,
            X_public=X_public,
            is_public=is_public,
            groups=groups,
            classes=self.classes,
        )
        ledger.read(len(rows.labelled), len(rows.X_public))
        bounds = bounds_by_position(self.bounds, feature_names(self))  # the sanitizer sees no names
        hypotheses = self._class()
        unlabelled, labelled = ledger.split(2)  # no row is used by both
        sanitized, secure, looked = self._sanitize(rows, sanitizer, bounds, unlabelled)
        points = np.concatenate([sanitized, rows.X_public])
        sample = PublicSample(points, rows.classes, feature_names(self))
        cover = hypotheses.build_cover(sample, alpha=self.alpha, beta=self.beta)

        scored = len(rows.y_labelled)
        drawn = search_cover(
            cover,
            lambda cover: tabulate(cover, rows.X_labelled, rows.y_labelled, n_jobs=self.n_jobs),
            labelled,
            sensitivity=1,
            scored=scored,
            beta=self.beta,
            name=f"on the labelled rows: {NAME}",
        )

        self.classes_ = rows.classes
        self.sanitized_ = sanitized
        self.hypothesis_ = drawn.hypothesis
        self.cover_size_ = drawn.cover.size
        self.cover_radius_ = drawn.cover.radius
        labels = "" if self.classes is not None else " and the set of labels in y"
        self.privacy_ = ledger.receipt(
            assumptions=(
                f"which rows are labelled{labels} may be known",
                *public_data_assumptions(X_public),
                *assumptions_of_class(self.hypotheses),
            ),
            secure=secure,
        )
        self.certificate_ = drawn.certificate
        guarantee = self._promise(
            cover, drawn, sanitizer if looked else None, rows, X_public, ledger.rows_per_person
        )
        self.guarantee_, self.guarantee_reason_ = guarantee
        warn_if_vacuous(guarantee, len(rows.labelled), len(rows.X_public), float(epsilon))
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
        return self.classes_[self.hypothesis_.predict(check_rows(self, X, reset=False))]

    def _class(self) -> HypothesisClass:
        return DecisionTrees() if self.hypotheses is None else self.hypotheses

    def _promise(
        self,
        cover: Cover,
        drawn: DrawnRule,
        sanitizer: Any,
        rows: LabelledRows,
        X_public: Any,
        rows_per_person: int,
    ) -> Promise:
        """Say how far the drawn rule may be from the best of the class in the population."""
        hypotheses, m = self._class(), len(rows.X_public)
        n_classes = len(self.classes_)

        def near(beta: float) -> float | None:
            if sanitizer is None:
                return cover_error(cover, hypotheses, self.n_features_in_, n_classes, m, beta)
            bound = getattr(sanitizer, "cover_error", None)
            return bound and bound(cover, hypotheses, beta, len(self.sanitized_))

        if rows_per_person > 1:
            return no_guarantee(DEPENDENT_ROWS)
        if cover.cuts is None or cover.cuts.per_rule:  # else the class is its own cover
            if sanitizer is None and not m:
                return no_guarantee(NO_PUBLIC_ROWS)
            if sanitizer is None and public_data_assumptions(X_public):
                return no_guarantee(WRITTEN_FROM_DESCRIPTION)
            if sanitizer is not None and n_classes > 2 and cover.cuts is None:
                return no_guarantee(UNKNOWN_COVER_RADIUS)
        guarantee = excess_error_guarantee(
            cover, drawn, near, n=len(rows.y_labelled), beta=self.beta
        )
        return with_class_assumptions(guarantee, hypotheses) if cover.cuts is None else guarantee

    def _sanitize(
        self, rows: LabelledRows, sanitizer: Any, bounds: Any, ledger: Ledger
    ) -> tuple[Floats, bool, bool]:
        """Return synthetic points, whether their randomness is secure and if they are of rows."""
        # Theorem 3.3 asks for thousands of points or millions; past this number a cover only grows
        size = int(min(max(1000, 2 / self.alpha), 20_000))
        name = f"on the others: {type(sanitizer).__name__}"
        X, looked, secure = rows.X_unlabelled, False, True
        if len(X):
            self._settle(sanitizer, bounds, ledger)
            paid = ledger.sub_ledger(ledger.event, name=name, proof="its own documentation")
            fit_without_leaks(sanitizer, X)
            looked, secure = _checked(sanitizer, paid)
        if not looked and len(rows.X_public):
            return rows.X_public[:0], True, False
        if not looked:
            few = "Too few" if len(X) else "No"
            limits, normal = parse_bounds(bounds, feature_names(self)), "standard-normal features"
            where = "the given bounds" if len(limits) == self.n_features_in_ else normal
            warn(
                f"{few} unlabelled rows were given to be sanitized at epsilon = "
                f"{float(self.epsilon):g}, so the hypotheses come from a data-independent grid "
                f"over {where}.",
                NoPublicDataWarning,
            )
            return reference_sample(self.n_features_in_, bounds, size), True, False
        points = np.asarray(sanitizer.sample(size), dtype=np.float64)
        if points.shape[1:] != X.shape[1:] or not len(points) or not np.isfinite(points).all():
            raise ValueError("sanitizer.sample must return finite rows with the columns of X.")
        return points, secure, True

    def _sanitizer(self) -> tuple[Any, Fraction]:
        """Return a copy of the sanitizer, and its δ."""
        sanitizer = QuantileSanitizer() if self.sanitizer is None else clone(self.sanitizer)
        parameters = sanitizer.get_params(deep=False)
        if "epsilon" not in parameters:
            raise ValueError(
                "sanitizer must have a parameter epsilon, its privacy budget; "
                f"{type(sanitizer).__name__} has none."
            )
        if parameters.get("budget") is not None:
            raise ValueError("sanitizer must have no budget of its own; give it to the learner.")
        delta = exact_fraction(parameters.get("delta") or 0)
        return sanitizer, delta

    def _settle(self, sanitizer: Any, bounds: Any, ledger: Ledger) -> None:
        """Tell a sanitizer its (ε, δ), the bounds and a seed."""
        parameters = sanitizer.get_params(deep=False)
        epsilon, delta = ledger.per_row(ledger.epsilon, ledger.delta)
        given: dict[str, Any] = {"epsilon": epsilon if ledger.rows_per_person > 1 else self.epsilon}
        if "delta" in parameters:
            given["delta"] = written_below(delta)
        # bits of its own: the draw must not know its noise
        known = {
            "bounds": bounds,
            "hypotheses": self._class(),
            "random_state": ledger.seed(32),
        }
        for name, value in known.items():
            if name in parameters and parameters[name] is None:
                given[name] = value
        sanitizer.set_params(**given)


def _checked(sanitizer: Any, ledger: Ledger) -> tuple[bool, bool]:
    """Note what a fitted sanitizer spent; return whether it looked, and if it is not seeded."""
    receipt = getattr(sanitizer, "privacy_", None)
    if receipt is None:
        return True, sanitizer.get_params(deep=False).get("random_state") is None
    most = float(sanitizer.get_params(deep=False)["epsilon"])
    if receipt.epsilon > most or receipt.delta > float(ledger.delta):
        raise ValueError("sanitizer must not spend more than its parameters epsilon and delta.")
    for one in receipt.mechanisms:
        event = one.event or Approximate(exact_fraction(one.epsilon), exact_fraction(one.delta))
        ledger.annotate(f"on the others: {one.name}", event, one.reference)
    looked = bool(receipt.epsilon or receipt.delta)
    if not looked:
        ledger.annotate("on the others: not looked at", NO_EVENT, "its own receipt")
    return looked, receipt.secure_randomness
