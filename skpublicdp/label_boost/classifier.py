"""LabelBoostClassifier: a private learner for few labelled and many unlabelled rows."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import HasMethods, Interval

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    PROBABILITY,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import Pure, exact_fraction
from skpublicdp.base_learner import (
    BaseDelegatingClassifier,
    check_base,
    check_classes,
    epsilon_delta,
    fit_base,
    is_repeatable,
    mechanism_event,
)
from skpublicdp.data.inputs import (
    LabelledRows,
    bound_ends,
    read_partially_labelled,
    with_described_bounds,
)
from skpublicdp.data.public_rows import is_described, mark_described, public_data_assumptions
from skpublicdp.data.schema import bounds_by_position, feature_labels
from skpublicdp.data.validation import feature_names
from skpublicdp.guarantees import BaseAccuracy
from skpublicdp.hypotheses import HypothesisClass, Stumps, Thresholds
from skpublicdp.hypotheses.base import check_public_values
from skpublicdp.label_boost.guarantee import (
    evaluated_accuracy,
    label_boost_guarantee,
    released_labeler_guarantee,
)
from skpublicdp.label_boost.plan import LabelBoostPlan, choose_plan
from skpublicdp.label_boost.relabelling import RELABELLING_PROOF, check_relabelling, log_n_labelings
from skpublicdp.label_boost.rounds import (
    BASE_PROOF,
    LABELER_STAGE,
    RowsForBase,
    base_stage_name,
    public_centre,
    receipt_assumptions,
    record_stages,
    rows_for_base_learner,
)
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_classifier import class_or_default
from skpublicdp.rules.cover_search import DRAW_PROOF
from skpublicdp.rules.population_guarantee import no_guarantee, warn_if_vacuous, why_no_guarantee
from skpublicdp.rules.semi_private import SemiPrivateClassifier
from skpublicdp.typing import Floats


class LabelBoostClassifier(
    ProgressMixin,
    HTMLReprMixin,
    VersionedMixin,
    BaseDelegatingClassifier,
    ClassifierMixin,
    BaseEstimator,
):
    """Private classifier for few labelled and many unlabelled rows, all of which are private.

    LabelBoost generates labels for a private learner that requires more labelled rows than are
    available. A rule is drawn from all labellings of a few labelled and many unlabelled rows. The
    rule assigns new labels to these rows, and the base learner is fitted to the relabelled rows.
    This rule depends on private rows and is never released. Random subsampling compensates for the
    privacy cost of the rule (Algorithms 2 and 3 of [1]_).

    Parameters
    ----------
    estimator : classifier, default=None
        Base learner: a differentially private classifier with a parameter `epsilon`, and optionally
        `delta`, which are set to the base learner's share of the privacy budget. The base learner
        must protect all rows passed to its `fit` and declare this, see Notes. ``None`` means
        `SemiPrivateClassifier`, which requires few rows and therefore gains the least.
    hypotheses : HypothesisClass, default=None
        Class of the rules used to relabel the rows: `Thresholds`, `Stumps`, `Intervals`,
        `Rectangles` or `Halfspaces` on one or two columns, `Rectangles` on three columns with at
        most 2^23 boxes between `cuts`, or `FiniteClass`. Other classes are rejected, see Notes.
        ``None`` means `Thresholds` for one feature and two labels, and `Stumps` otherwise. With
        `release_labeler`, any class is accepted, and the default is `DecisionTrees`.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of one `fit`, interpreted as an exact fraction.
    delta : float, default=0.0
        Privacy budget δ of one `fit`, in [0, 1), for base learners with a parameter `delta`.
    alpha : float, default=0.1
        Target error, in (0, 1): the error that the base learner may have with `n_base` rows. The
        value is also the `alpha` of the default base learner and of a released labeller: some rule
        of the cover disagrees with the best rule of the class on at most approximately this
        fraction of the public rows.
    beta : float, default=0.05
        Probability, in (0, 1), with which the error may exceed the bound.
    release_labeler : bool, default=False
        Whether to use the parallel variant. A rule from a public cover is drawn with the entire
        `epsilon`, using its errors on the labelled rows, and stored as `labeler_`. This rule labels
        the other rows, to which the base learner is fitted, again with the entire `epsilon`. The
        two sets of rows do not overlap.
    classes : array-like, default=None
        All possible labels. By default, the labels that occur in `y`; the set of these labels is
        then assumed to be public knowledge.
    bounds : array-like of shape (2,) or (n_features, 2), or dict of column to pair, default=None
        Lower and upper bounds of the features, from public knowledge. A released labeller and the
        default base learner use the bounds if there are no or few public rows, and for columns
        that are constant in them. Added rows lie at the centre of the bounds.
    n_base : int, default=None
        Number of rows with which the base learner, at ε = 1, has an error of at most `alpha`. A
        larger number assigns more rows and a smaller privacy budget to the base learner, and fewer
        rows to the relabelling. ``None`` means ``base_accuracy.n_rows(alpha, beta / 4)``, or
        ``guarantees.n_private(alpha, beta, 1, d=1)`` if there is no `base_accuracy`.
    base_accuracy : guarantees.BaseAccuracy, default=None
        Declared accuracy of the base learner on rows labelled by a rule of `hypotheses`.
        `guarantee_` relies on this assumption, for any base learner and two labels. The declaration
        must be valid for the δ of this learner and for larger δ. Rows are then relabelled even if
        the labelled rows alone might suffice, since their labels need not follow a rule. ``None``
        means that `guarantee_` is only available for a `SemiPrivateClassifier`.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator and does not set the
        `random_state` of the base learner. Any other value makes the fit reproducible, for tests
        and papers, and the receipt states this.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `fit` then requires `groups` and uses at most
        `max_rows_per_group` random rows of each person. If a person has labelled rows, only
        these rows are used. Each row is protected with ε / `max_rows_per_group`.
    budget : PrivacyBudget, default=None
        Privacy budget to which the fit is charged. If too little budget remains, `fit` raises an
        error before any private row is read. The base learner must not have its own budget.

    Attributes
    ----------
    estimator_ : classifier
        The fitted base learner.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    n_rounds_ : int
        Number of rounds that relabelled rows.
    guarantee_ : float or None
        Bound on the excess population error, with probability 1 - beta over all rows and draws, if
        rows are independent draws from one population. The bound is relative to the best rule of
        `hypotheses`, or of the base learner's class if `n_rounds_` is 0. The bound is available if
        the base learner is a `SemiPrivateClassifier` whose class includes `hypotheses`, such as a
        `FiniteClass` of the same models, or if `base_accuracy` is given and rows were relabelled.
        ``None`` if no bound has been proved.
    guarantee_reason_ : str
        The terms of the bound, or the reason why no bound has been proved.
    privacy_ : PrivacyReceipt
        The privacy cost of the base learner, and the combined cost of each round and all later
        steps.
    labeler_ : SemiPrivateClassifier
        The classifier that assigned labels to the unlabelled rows. Only available with
        `release_labeler`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns, if all column names of `X` are strings.

    Warns
    -----
    LargeEpsilonWarning
        If `epsilon` is so large that the fit provides almost no privacy protection.
    NoPublicDataWarning
        If the base learner or the labeller uses public rows and there are none.
    AmbiguousLabelWarning
        If -1 could be either a label or the marker of an unlabelled row.
    TooFewRowsWarning
        If `guarantee_` is 1, which means that no accuracy bound holds.

    See Also
    --------
    SemiPrivateClassifier : Learns only from labelled and public rows.

    Notes
    -----
    The number of rounds, the sizes and the budgets are those with the smallest error bound. No rows
    are relabelled if the labelled rows alone have the smallest bound.

    Neighbouring datasets differ by replacing the features and label of one row. The positions and
    the number of labelled rows are public. All sizes, the number of rounds and all budgets depend
    only on public numbers.

    The privacy proof requires that each labelling of the private rows is listed exactly once. The
    proof also requires that an additional row extends a labelling in at most as many ways as there
    are labels. A decision tree combines several splits at private rows, so one additional row can
    extend a labelling in many ways.

    The base learner must be private for all possible rows. The base learner must not fail for some
    rows, and must not treat some rows as public. A class declares this property by
    ``protects_all_rows = True``. After relabelling, all rows may have the same label. A base
    learner with a parameter `classes` receives the set of labels. For any other base learner, one
    additional row per label is added at the centre of `bounds`, at the median of `X_public` or at
    zero. The base learner receives the rows in random order.

    References
    ----------
    .. [1] A. Beimel, K. Nissim and U. Stemmer (2015). Learning privately with labeled and unlabeled
       examples. SODA. Lemmas 4.1 and 4.6, Theorems 4.13, 4.14 and 4.16.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import LabelBoostClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40_000, 2))
    >>> y = (X[:, 0] > 0.3).astype(int)
    >>> y[1000:] = -1  # no label
    >>> clf = LabelBoostClassifier(epsilon=1.0, n_base=100_000, random_state=0)
    >>> clf.fit(X, y, X_public=rng.normal(size=(300, 2))).n_rounds_
    1
    >>> clf.score(X, X[:, 0] > 0.3) > 0.9
    True
    >>> clf.privacy_.epsilon
    1.0
    """

    _in_memory_since = "each round draws rows by position and relabels them"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"]), None],
        "hypotheses": [HypothesisClass, None],
        "delta": DELTA,
        "alpha": PROBABILITY,
        "beta": PROBABILITY,
        "release_labeler": ["boolean"],
        "classes": ["array-like", None],
        "bounds": ["array-like", dict, None],
        "n_base": [Interval(Integral, 1, None, closed="left"), None],
        "base_accuracy": [BaseAccuracy, None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    # metadata with these names has only one meaning, so it is routed without a request
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "is_public": True,
        "is_labelled": True,
        "groups": True,
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        hypotheses: HypothesisClass | None = None,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 0.0,
        alpha: float = 0.1,
        beta: float = 0.05,
        release_labeler: bool = False,
        classes: ArrayLike | None = None,
        bounds: ArrayLike | dict[Any, Any] | None = None,
        n_base: int | None = None,
        base_accuracy: BaseAccuracy | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.hypotheses = hypotheses
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.beta = beta
        self.release_labeler = release_labeler
        self.classes = classes
        self.bounds = bounds
        self.n_base = n_base
        self.base_accuracy = base_accuracy
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
        """Relabel rows and fit the base learner to the relabelled rows.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            Rows, all private except for those marked by `is_public`.
        y : array-like, shape (n,)
            Labels, with -1 (or ``"-1"`` among string labels) for unlabelled rows. Labels of public
            rows are not read. The value -1 is a label if `classes` contains it, or if `y` contains
            at most one other value.
        X_public : array-like of float, shape (m, n_features), optional
            Separate public rows, for the cover of a released labeller and for base learners whose
            `fit` has this parameter. In cross-validation, `X_public` and `X` must have different
            numbers of rows.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`, which are used in the same way as `X_public`. The mask is
            safe to use in cross-validation.
        is_labelled : array-like of bool, shape (n,), optional
            Marks the labelled rows; `y` is not read for other rows.
        groups : array-like, shape (n,), optional
            Person identifier of each row, for `max_rows_per_group`.

        Returns
        -------
        self : LabelBoostClassifier
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If too little of `budget` remains.
        """
        check_parameters(self)
        check_base(self._base_learner())
        ledger = self._open_ledger()
        rows = read_partially_labelled(
            self,
            X,
            y,
            is_labelled=is_labelled,
            X_public=X_public,
            is_public=is_public,
            groups=groups,
            ledger=ledger,
            classes=self.classes,
        )
        public = rows.X_public if rows.n_public else None
        if is_described(X_public):
            public = mark_described(public)
        names, labels = feature_names(self), feature_labels(self)
        bounds = with_described_bounds(self.bounds, X_public, names, labels)
        bounds = bounds_by_position(bounds, names, labels)  # base learners see no names
        base = self._base_learner(bounds)
        check_classes(base, rows.classes)
        for hypotheses in (getattr(base, "hypotheses", None), self.hypotheses):
            check_public_values(hypotheses, [public, bound_ends(bounds, names)], names)
        ledger.read(rows.n_private, rows.n_public)
        labeler_seed, base_seed = ledger.seed(), ledger.seed()
        if self.release_labeler:
            labelled = self._label_by_released_rule(
                rows, base, public, bounds=bounds, seed=labeler_seed, ledger=ledger
            )
        else:
            labelled = self._relabel_in_rounds(rows, base, ledger)
        centre = public_centre(self, public, bounds)
        labelled = labelled.with_every_label(base, rows.classes, centre)
        fitted = fit_base(
            base,
            labelled.epsilon,
            labelled.X,
            labelled.y,
            delta=labelled.delta,
            random_state=base_seed,
            classes=rows.classes,
            X_public=public,
        )
        self._store(labelled, fitted, rows.classes, ledger, X_public)
        return self

    def _base_learner(self, bounds: Any = None) -> Any:
        """Return `estimator`, or if it is None, an unfitted `SemiPrivateClassifier` with bounds."""
        if self.estimator is None:
            beta = float(self.beta) / 2  # the other half is for the relabelling
            return SemiPrivateClassifier(alpha=self.alpha, beta=beta, bounds=bounds)
        return self.estimator

    def _open_ledger(self) -> Ledger:
        """Return a new privacy ledger with the budget ε and δ of the fit."""
        event = mechanism_event(exact_fraction(self.epsilon), exact_fraction(self.delta))
        return Ledger.from_estimator(self, event=event)

    def _relabel_in_rounds(self, rows: LabelledRows, base: Any, ledger: Ledger) -> RowsForBase:
        """Plan the rounds using public numbers, and return the rows labelled in these rounds.

        A theorem bounds the total privacy cost of the rounds and the base learner for one row.
        """
        n_features, classes = self.n_features_in_, rows.classes
        plan, hypotheses = self._plan(rows, ledger)
        accuracy = self.base_accuracy
        if plan.rounds:
            accuracy = evaluated_accuracy(
                accuracy,
                plan.base_rows,
                plan.base_epsilon,
                float(self.beta) / 2,
                n_classes=len(classes),
            )
        rounds_ledger = ledger.sub_ledger(
            ledger.event, name="LabelBoost", proof=RELABELLING_PROOF, by_theorem=True
        )
        rounds_ledger.rows_per_person = 1
        record_stages(rounds_ledger, plan, len(classes), base)
        X, codes = rows_for_base_learner(plan, hypotheses, rows, rounds_ledger)
        return RowsForBase(
            X=X,
            y=classes[codes],
            epsilon=plan.base_epsilon,
            delta=plan.base_delta,
            # the set of labels in y is public, so the original labels include all of `classes_`
            may_lack_labels=bool(plan.rounds) or self.classes is not None,
            n_rounds=len(plan.rounds),
            labeler=None,
            guarantee=lambda fitted, n_base: label_boost_guarantee(
                plan,
                hypotheses,
                fitted,
                beta=float(self.beta),
                n_base=n_base,
                log_n_labelings=lambda n: log_n_labelings(hypotheses, n, n_features, len(classes)),
                base_accuracy=accuracy,
                n_classes=len(classes),
            ),
        )

    def _plan(self, rows: LabelledRows, ledger: Ledger) -> tuple[LabelBoostPlan, HypothesisClass]:
        """Return the sizes and budgets of the rounds, and the class used for relabelling.

        The plan and the class depend only on public numbers.
        """
        n_features, n_classes = self.n_features_in_, len(rows.classes)
        hypotheses = self.hypotheses
        if hypotheses is None:
            hypotheses = Thresholds() if n_features == 1 and n_classes <= 2 else Stumps()
        check_relabelling(hypotheses, n_features, rows.classes)
        epsilon, delta = map(exact_fraction, ledger.per_row(ledger.epsilon, ledger.delta))
        plan = choose_plan(
            hypotheses,
            n_features,
            n_classes,
            n_labelled=len(rows.X_labelled),
            n_unlabelled=len(rows.X_unlabelled),
            epsilon=epsilon,
            delta=delta,
            alpha=float(self.alpha),
            beta=float(self.beta),
            n_base=self._n_base(),
            # without a round, the declared accuracy would not apply
            must_relabel=self.base_accuracy is not None and n_classes <= 2,
        )
        return plan, hypotheses

    def _n_base(self) -> int | None:
        """Return `n_base`, or the number of rows that follows from a declared accuracy."""
        if self.n_base is not None or self.base_accuracy is None:
            return self.n_base
        return self.base_accuracy.n_rows(float(self.alpha), float(self.beta) / 4)

    def _label_by_released_rule(
        self,
        rows: LabelledRows,
        base: Any,
        X_public: Floats | None,
        bounds: Any,
        seed: int | None,
        ledger: Ledger,
    ) -> RowsForBase:
        """Fit a labeller to the labelled rows, and return the other rows with its labels.

        Labeller and base learner use disjoint rows, so each can spend the entire budget (parallel
        composition).
        """
        if not len(rows.X_unlabelled):
            raise ValueError("release_labeler=True requires unlabelled rows for the base learner.")
        epsilon, delta = epsilon_delta(
            mechanism_event(*map(exact_fraction, ledger.per_row(ledger.epsilon, ledger.delta)))
        )
        n_rows = len(rows.X_unlabelled)
        accuracy = evaluated_accuracy(
            self.base_accuracy,
            n_rows,
            epsilon,
            float(self.beta) / 2,
            n_classes=len(rows.classes),
        )
        labelled_ledger, base_ledger = ledger.split(2)
        labelled_ledger.sub_ledger(Pure(ledger.epsilon), name=LABELER_STAGE, proof=DRAW_PROOF)
        labeler = fit_base(
            SemiPrivateClassifier(
                class_or_default(self.hypotheses),
                alpha=self.alpha,
                beta=float(self.beta) / 2,
                classes=rows.classes,
                bounds=bounds,
            ),
            epsilon,
            rows.X_labelled,
            rows.classes[rows.y_labelled],
            random_state=seed,
            X_public=X_public,
        )
        base_ledger.sub_ledger(ledger.event, name=base_stage_name(base), proof=BASE_PROOF)
        return RowsForBase(
            X=rows.X_unlabelled,
            y=labeler.predict(rows.X_unlabelled),
            epsilon=epsilon,
            delta=delta,
            may_lack_labels=True,
            n_rounds=1,
            labeler=labeler,
            guarantee=lambda fitted, n_base: released_labeler_guarantee(
                labeler,
                fitted,
                beta=float(self.beta),
                n_base=n_base,
                n_rows=n_rows,
                base_accuracy=accuracy,
            ),
        )

    def _store(
        self,
        labelled: RowsForBase,
        fitted: Any,
        classes: NDArray[Any],
        ledger: Ledger,
        X_public: Any,
    ) -> None:
        """Set the fitted attributes, namely the base learner, its guarantee and the receipt."""
        reason = why_no_guarantee(X_public, several=ledger.rows_per_person > 1)
        guarantee = no_guarantee(reason) if reason else labelled.guarantee(fitted, len(labelled.X))
        self.guarantee_, self.guarantee_reason_ = guarantee
        warn_if_vacuous(guarantee, ledger.n_private, ledger.n_public, float(self.epsilon))
        self.estimator_ = fitted
        self.classes_ = classes
        self.n_rounds_ = labelled.n_rounds
        self.__dict__.pop("labeler_", None)  # of an earlier fit
        if labelled.labeler is not None:
            self.labeler_ = labelled.labeler
        self.privacy_ = ledger.receipt(
            assumptions=(*receipt_assumptions(self), *public_data_assumptions(X_public)),
            secure=not is_repeatable(fitted),
        )
