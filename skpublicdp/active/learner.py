"""`SubsamplingActiveLearner`: Algorithm 4 (SubSampling) of Beimel, Nissim and Stemmer (2015)."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import has_fit_parameter

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    EPSILON,
    GROUP_PARAMETERS,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import Event, exact_fraction
from skpublicdp.accounting.amplification import SUBSAMPLING_PROOF
from skpublicdp.active.subsampling_plan import (
    SubsamplingPlan,
    make_plan,
    receipt_assumptions,
)
from skpublicdp.base_learner import (
    BaseDelegatingClassifier,
    add_row_per_label,
    check_base,
    check_classes,
    epsilon_delta,
    fit_base,
    is_repeatable,
    mechanism_event,
)
from skpublicdp.data.binning import column_medians
from skpublicdp.data.inputs import bounds_of_description, public_labels
from skpublicdp.data.labels import (
    check_length,
    encode_labels,
    is_unlabelled,
    label_column,
    require_target,
)
from skpublicdp.data.public_rows import is_described, mark_described, public_data_assumptions
from skpublicdp.data.roles import read_person_rows, split_roles
from skpublicdp.data.tables import count_rows, take_rows
from skpublicdp.data.validation import as_numbers, check_rows, feature_names
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses.base import check_public_values
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.ticket import new_ticket
from skpublicdp.rules.population_guarantee import (
    ADDED_ROWS,
    base_learner_guarantee,
    no_guarantee,
    warn_if_vacuous,
    why_no_guarantee,
)
from skpublicdp.rules.semi_private import SemiPrivateClassifier
from skpublicdp.typing import Codes, Floats, Mask


class SubsamplingActiveLearner(
    ProgressMixin,
    HTMLReprMixin,
    VersionedMixin,
    BaseDelegatingClassifier,
    ClassifierMixin,
    BaseEstimator,
):
    """Private active learner that queries a few labels in a large pool of private rows.

    `query` draws the rows that are to be labelled. `fit` accepts their labels and fits a private
    base learner to a secret random subset of the pool. Subsampling amplifies privacy, so the base
    learner can use a larger ε than `epsilon`. A larger pool reduces the number of labels that are
    needed. This is Algorithm 4 (SubSampling) of [1]_, with a tighter version of Claim 5.7.

    Parameters
    ----------
    estimator : classifier, default=None
        Base learner: a private classifier with a parameter `epsilon` that declares that it protects
        all of its rows, see Notes. ``None`` means `SemiPrivateClassifier()`. A base learner whose
        `fit` has a parameter `is_labelled` is semi-supervised. This base learner also receives
        unlabelled rows, with label -1, and the corresponding mask. All other base learners receive
        only the queried rows.
    n_labels : int, default=100
        Number of labels to query. From a smaller pool, all rows are queried.
    epsilon, delta : float, default=1.0 and 0.0
        Privacy budget of one `query` and `fit`: ε > 0, interpreted as an exact fraction, and δ in
        [0, 1).
    base_epsilon : float or "auto", default="auto"
        Privacy budget ε of the base learner. ``"auto"`` selects the largest ε that `epsilon`
        permits on the subset.
    n_subsample : int, default=None
        Number of rows, labelled or not, for a semi-supervised base learner. The default is the
        largest number that permits `base_epsilon`, but at least the number of labels. With
        ``"auto"``, the number must permit an ε of at least 1, or at least `epsilon` if that is
        larger. Other base learners receive the queried rows.
    roles : {"random", "paper"}, default="random"
        Which rows of the subset are queried: rows chosen uniformly at random or, as in the paper,
        the first rows in the order of the pool, which gives less amplification.
    transcript_private : bool, default=False
        Whether the guarantee must hold against attackers who know the queried rows. In this case,
        the base learner has the same ε as `epsilon` and by default receives all unlabelled rows.
    classes : array-like, default=None
        All possible labels. By default, the labels that occur in `y`, among the rows that `fit`
        reads. The set of these labels is then assumed to be public knowledge.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator. Any other value makes
        the fit reproducible, for tests and papers, and the receipt states this.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `query` and `fit` then require `groups` and use
        at most `max_rows_per_group` random rows of each person. The ε of a single row is ε divided
        by this number.
    budget : PrivacyBudget, default=None
        Privacy budget to which `fit` is charged. If too little budget remains, an error is raised
        before any private row is read and before labels are queried. The base learner must not have
        its own budget.

    Attributes
    ----------
    estimator_ : classifier
        The fitted base learner.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    queried_indices_ : ndarray of int
        Indices of the rows to be labelled, in increasing order. The indices are secret, and `fit`
        deletes them, unless `transcript_private` is set.
    guarantee_ : float or None
        Bound on the excess error of `estimator_`, if available. The bound applies to the population
        of the pool, since a random subset of independent rows consists of independent rows. The
        bound fails with at most the probability `beta` of the base learner. ``None`` if no bound
        has been proved.
    guarantee_reason_ : str
        One sentence that states the terms of the bound, or the reason why there is no bound.
    privacy_ : PrivacyReceipt
        The privacy receipt, which states the applicable definition of privacy for active learners.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns, if all column names of `X` are strings.

    Warns
    -----
    LargeEpsilonWarning
        If `epsilon` is so large that the fit provides almost no privacy protection.
    TooFewRowsWarning
        If `guarantee_` is 1, which means that no accuracy bound holds.

    See Also
    --------
    SemiPrivateClassifier : The default base learner.
    skpublicdp.guarantees.n_subsampling : Pool size required for the base learner's budget.

    Notes
    -----
    Neighbouring datasets differ by replacing the features and label of one row of the pool, where
    every row is considered to have a label (Definition 5.3 of [1]_). The size of the pool and the
    number of labels are not protected. Between `query` and `fit`, the object contains the queried
    rows and must be kept secret. After `fit`, only `estimator_` depends on private rows.

    A query can be used for one fit only, since fits on the same secret subset lose more privacy
    than the sum of their ε. Of an object and its copies, only one can be fitted, and only once.
    Without a `budget`, whose file records the fit, the object cannot be copied or pickled between
    `query` and `fit`.

    The default number of rows is the number in Theorem 5.8: with ε = 1 for the base learner, the
    number of labels does not depend on `epsilon`. With fewer rows, the ε of the base learner grows
    only logarithmically. With more rows, less of the privacy budget is left for the scarce labelled
    rows.

    The base learner receives its rows in random order, with labelled rows first, so it can be
    private for either sequences or sets of rows. The base learner must be private for all possible
    rows: it must not fail for some rows, and must not treat some rows as public. A class declares
    this property by ``protects_all_rows = True``. A base learner with a parameter `classes`
    receives the set of labels. Other base learners receive one additional row per label, at the
    median of `X_public` or at zero.

    References
    ----------
    .. [1] A. Beimel, K. Nissim and U. Stemmer (2015). Learning privately with labeled and
       unlabeled examples. SODA. Definitions 5.3 and 5.4, Theorems 5.5 and 5.8, Claim 5.7.
    .. [2] B. Balle, G. Barthe and M. Gaboardi (2018). Privacy amplification by subsampling.
       NeurIPS. Theorem 9.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.active import SubsamplingActiveLearner
    >>> from skpublicdp.hypotheses import Thresholds
    >>> rng = np.random.default_rng(0)
    >>> pool = rng.normal(size=(20_000, 1))
    >>> learner = SubsamplingActiveLearner(
    ...     SemiPrivateClassifier(Thresholds()), n_labels=100, epsilon=0.1, random_state=0
    ... )
    >>> queried = learner.query(pool)
    >>> y = np.full(len(pool), -1)
    >>> y[queried] = pool[queried, 0] > 0.5  # somebody labels these rows
    >>> learner = learner.fit(pool, y, X_public=rng.normal(size=(300, 1)))
    >>> learner.score(pool, pool[:, 0] > 0.5) > 0.9
    True
    >>> learner.privacy_.epsilon, round(learner.privacy_.mechanisms[0].epsilon, 2)
    (0.1, 3.09)
    """

    _in_memory_since = "it draws rows by position"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_labels": [Interval(Integral, 1, None, closed="left")],
        "delta": DELTA,
        "base_epsilon": [StrOptions({"auto"}), *EPSILON],
        "n_subsample": [Interval(Integral, 1, None, closed="left"), None],
        "roles": [StrOptions({"random", "paper"})],
        "transcript_private": ["boolean"],
        "classes": ["array-like", None],
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    # metadata routing passes these without a request, since they have no other use
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "groups": True,
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_labels: int = 100,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 0.0,
        base_epsilon: float | Fraction | Literal["auto"] = "auto",
        n_subsample: int | None = None,
        roles: Literal["random", "paper"] = "random",
        transcript_private: bool = False,
        classes: ArrayLike | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.n_labels = n_labels
        self.epsilon = epsilon
        self.delta = delta
        self.base_epsilon = base_epsilon
        self.n_subsample = n_subsample
        self.roles = roles
        self.transcript_private = transcript_private
        self.classes = classes
        self.random_state = random_state
        self.max_rows_per_group = max_rows_per_group
        self.budget = budget

    @all_or_nothing
    def query(self, X: Any, y: Any = None, *, groups: Any = None) -> Codes:
        """Draw random rows of the pool, which are to be labelled.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            The pool. The draw depends only on the size of the pool.
        y : Ignored
            This parameter is not used and is present by convention.
        groups : array-like, shape (n,), optional
            Person identifier of each row, for `max_rows_per_group`.

        Returns
        -------
        ndarray of int, shape (n_labels,)
            Positions in `X`, in increasing order. The positions are secret unless
            `transcript_private` is set.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If `budget` cannot cover the fit.
        """
        check_parameters(self)
        plan, persons, is_counted, ledger = self._open_ledger(X, groups)
        check_rows(self, X, reset=True)
        counted_rows = np.flatnonzero(is_counted)
        self.queried_indices_ = counted_rows[plan.draw_queries(ledger)]
        self._pending = PendingQuery(plan, persons, self.budget, is_counted, new_ticket())
        return self.queried_indices_.copy()

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, X_public: Any = None, y_public: Any = None, groups: Any = None
    ) -> Self:
        """Fit the base learner to a secret subset with the queried labels.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            The pool of private rows, in the same order as in `query`.
        y : array-like, shape (n,)
            Labels of the queried rows; all other rows have an arbitrary value, such as -1. If
            `query` was not called, `fit` draws the rows itself. In this case, `y` must contain the
            labels of all rows, but only the labels of the drawn rows are used.
        X_public : array-like of float, shape (m, n_features), optional
            Public rows, for a base learner that uses public rows.
        y_public : array-like, shape (m,), optional
            Labels of the public rows, for a base learner that uses public labels.
        groups : array-like, shape (n,), optional
            Person identifier of each row; must be the same as in `query`.

        Returns
        -------
        self : SubsamplingActiveLearner
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is invalid. The message contains no private value.
        PrivacyBudgetError
            If `budget` cannot cover the fit, or if a copy of this object was already fitted to the
            same query.
        """
        check_parameters(self)
        require_target(self, y)
        pending = getattr(self, "_pending", None)
        plan, persons, is_counted, ledger = self._open_ledger(X, groups, pending)
        roles = split_roles(self, X, X_public=X_public, numeric=True, groups=groups)
        public = roles.separate_numbers()
        if is_described(X_public):
            names = feature_names(self)
            bounds = bounds_of_description(X_public, names)
            # the base learner receives arrays, whose columns have other names
            by_position = {f"x{names.index(name)}": pair for name, pair in bounds.items()}
            public = mark_described(public, by_position)
        base = self._base_learner()
        # the base learner builds its cover after the draw
        check_public_values(getattr(base, "hypotheses", None), [public], feature_names(self))
        public_label_columns = public_labels(X_public, y_public, label_column)
        X = as_numbers(roles.table)
        check_length(y, len(X))
        pool = np.flatnonzero(is_counted)
        queried = self._draw_queries(plan, persons, is_counted, pending, ledger)
        labels, classes = self._read_labels(y, pool, queried, pending)
        # raises if the label of a public row is not one of the classes
        encode_labels(classes, [*public_label_columns, classes[:0]], classes)
        check_classes(base, classes)
        subset = draw_subset(plan, X, pool, queried=queried, labels=labels, ledger=ledger)
        ledger.read(plan.n_pool, len(public))
        rows = f"{plan.n_drawn} rows drawn from {plan.n_pool}, {plan.n_queried} labelled"
        stage = f"{type(base).__name__} on {rows}"
        sub_ledger = ledger.sub_ledger(
            ledger.event, name=stage, proof=SUBSAMPLING_PROOF, by_theorem=True
        )
        sub_ledger.annotate(stage, plan.base, SUBSAMPLING_PROOF)
        fitted = fit_to_subset(
            base,
            plan.base,
            subset,
            classes=classes,
            X_public=public,
            y_public=y_public,
            seed=ledger.seed(),
        )
        self.guarantee_, self.guarantee_reason_ = guarantee = _guarantee(fitted, X_public, ledger)
        warn_if_vacuous(guarantee, ledger.n_private, ledger.n_public, float(self.epsilon))
        self.estimator_, self.classes_ = fitted, classes
        assumptions = receipt_assumptions(self, plan, queried=pending is not None)
        self.privacy_ = ledger.receipt(
            assumptions=(*assumptions, *public_data_assumptions(X_public)),
            secure=not is_repeatable(fitted),
        )
        # the amplified ε only holds while the queried rows are secret
        self.__dict__.pop("_pending", None)
        self.__dict__.pop("queried_indices_", None)
        if self.transcript_private:
            self.queried_indices_ = pool[queried]
        return self

    def __getstate__(self) -> Any:
        """Return the state, or raise an error if a query is pending and there is no budget.

        A budget's file ensures that only one copy of a query is fitted.
        """
        if hasattr(self, "_pending") and self.budget is None:
            raise PrivacyBudgetError(
                "This object cannot be copied or pickled between query and fit, because each query "
                "is valid for one fit only. Call fit before you copy the object, or set budget to "
                "a PrivacyBudget with a path before you call query, so that the budget file "
                "records which copy was fitted."
            )
        return super().__getstate__()

    def _base_learner(self) -> Any:
        """Return the unfitted base learner; the default is a `SemiPrivateClassifier`."""
        return SemiPrivateClassifier() if self.estimator is None else self.estimator

    def _open_ledger(
        self, X: Any, groups: Any, pending: PendingQuery | None = None
    ) -> tuple[SubsamplingPlan, bytes, Mask, Ledger]:
        """Return the plan of a query and its fit, persons, a mask of the pool, and a ledger.

        No private value is read. With `max_rows_per_group`, the pool contains at most that number
        of random rows of each person. A fit has the pool of its query.
        """
        base, k = self._base_learner(), self.max_rows_per_group or 1
        check_base(base)
        # at least one row, since check_rows has the message for an empty X
        is_counted = np.ones(count_rows(X) or 1, dtype=bool)
        persons = read_person_rows(self.max_rows_per_group, groups, is_counted)
        n_pool = len(is_counted) if persons is None else persons.n_rows - persons.n_omitted
        epsilon, delta = exact_fraction(self.epsilon), exact_fraction(self.delta)
        epsilon_row, delta_row = Ledger(1, rows_per_person=k).per_row(epsilon, delta)
        plan = make_plan(
            n_pool,
            n_labels=self.n_labels,
            epsilon=epsilon_row,
            delta=exact_fraction(delta_row),
            base=None if self.base_epsilon == "auto" else exact_fraction(self.base_epsilon),
            n_subsample=self.n_subsample,
            roles=self.roles,
            transcript_private=self.transcript_private,
            semi_supervised=has_fit_parameter(base, "is_labelled"),
        )
        total_epsilon = k * plan.epsilon
        # amplification is proved for single rows; for people, only the (ε, δ) of group privacy
        # holds
        event = plan.event if k == 1 else mechanism_event(total_epsilon, delta)
        ticket = None if pending is None else pending.ticket
        ledger = Ledger.from_estimator(self, epsilon=total_epsilon, event=event, ticket=ticket)
        if persons is None:
            return plan, b"", is_counted, ledger
        is_counted = persons.choose(ledger)
        if pending is not None:
            is_counted = pending.is_counted
        return plan, persons.person_of_row.tobytes(), is_counted, ledger

    def _draw_queries(
        self,
        plan: SubsamplingPlan,
        persons: bytes,
        is_counted: Mask,
        pending: PendingQuery | None,
        ledger: Ledger,
    ) -> Codes:
        """Return the queried rows, as increasing positions in the pool.

        Rows are drawn again even if `query` has already drawn them. With a seed, the two draws are
        identical, and later draws then use different random numbers.
        """
        drawn = plan.draw_queries(ledger)
        if pending is None:
            return drawn
        if pending[:3] != (plan, persons, self.budget):
            raise ValueError(
                "fit must be called with the same rows, groups and parameters as query, which was "
                f"called with {pending.plan.n_pool} rows; got {plan.n_pool} rows, and the groups "
                "or parameters may also differ. Call query again."
            )
        return np.searchsorted(np.flatnonzero(is_counted), self.queried_indices_)

    def _read_labels(
        self, y: Any, pool: Codes, queried: Codes, pending: PendingQuery | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labels of the queried rows, and the classes.

        After a `query`, labels of other rows are not read, since even their type could affect the
        result. Without a `query`, all rows of the pool must have a label.
        """
        if pending is None:
            column, positions = label_column(y)[pool], queried
        else:
            column, positions = label_column(take_rows(y, pool[queried])), np.arange(len(queried))
        codes, _, _, classes = encode_labels(column, [column[:0]], self.classes)
        # besides two other labels, -1 marks an unlabelled row, as in the other learners
        if self.classes is None and len(classes) != 2 and is_unlabelled(classes).any():
            raise ValueError(
                "y must contain a label for every row selected by query, or for every row if query "
                "was not called. If -1 is a label rather than a mark for unlabelled rows, list it "
                "in classes."
            )
        return classes[codes[positions]], classes


class PendingQuery(NamedTuple):
    """A query whose labels have not yet been used by a fit."""

    plan: SubsamplingPlan  # sizes and budgets of the query and its fit
    persons: bytes  # number of each row's person, or no bytes if single rows are protected
    budget: OptionalBudget  # privacy budget object of the learner
    is_counted: Mask  # mask of the rows of `X` that belong to the pool
    ticket: str  # one-time token of the fit


class Subset(NamedTuple):
    """A random subset of the pool, in random order."""

    X_labelled: Floats  # (n_queried, n_features): features of the queried rows
    y: NDArray[Any]  # (n_queried,): labels of the queried rows
    # (n_drawn - n_queried, n_features): features of the drawn rows that were not queried
    X_unlabelled: Floats


def draw_subset(
    plan: SubsamplingPlan,
    X: Floats,  # (n, n_features)
    pool: Codes,  # (n_pool,)
    queried: Codes,  # (n_queried,)
    labels: NDArray[Any],  # (n_queried,)
    ledger: Ledger,
) -> Subset:
    """Return the queried rows with their labels, and random unlabelled rows, in random order."""
    not_queried = np.delete(np.arange(plan.n_pool), queried)
    unlabelled = not_queried[plan.draw_unlabelled(queried, ledger)]
    order, order_unlabelled = ledger.order(len(queried)), ledger.order(len(unlabelled))
    return Subset(X[pool[queried[order]]], labels[order], X[pool[unlabelled[order_unlabelled]]])


def fit_to_subset(
    base: Any,
    event: Event,
    subset: Subset,
    classes: NDArray[Any],
    X_public: Floats,
    y_public: Any,
    seed: int | None,
) -> Any:
    """Return a copy of the base learner fitted to a subset of the pool, labelled rows first.

    Parameters
    ----------
    base : classifier
        The unfitted base learner.
    event : Event
        Privacy budget of the base learner.
    subset : Subset
        Labelled and unlabelled rows.
    classes : ndarray of shape (n_classes,)
        All labels.
    X_public : ndarray of float64, shape (n_public, n_features)
        Public rows; the array may be empty.
    y_public : array-like or None
        Labels of the public rows, as passed to `fit`.
    seed : int or None
        Seed of the base learner.
    """
    epsilon, delta = epsilon_delta(event)
    n_features = X_public.shape[1]
    centre = column_medians(X_public) if len(X_public) else np.zeros(n_features)
    X, y = add_row_per_label(base, subset.X_labelled, subset.y, classes, centre)
    n_unlabelled = len(subset.X_unlabelled)
    # base learners receive the mask `is_labelled` and ignore the labels of the other rows, which
    # have the dtype of `classes`: boolean, text, object or numeric; uint64 beside int64 would
    # become float64
    kind = classes.dtype.kind
    placeholder = {"b": False, "U": "-1", "O": "-1", "u": 0}.get(kind, -1)
    dtype = classes.dtype if kind in "Ou" else None
    y_unlabelled = np.full(n_unlabelled, placeholder, dtype=dtype)
    return fit_base(
        base,
        epsilon,
        np.vstack([X, subset.X_unlabelled]),
        np.concatenate([y, y_unlabelled]),
        delta=delta,
        random_state=seed,
        classes=classes,
        is_labelled=np.arange(len(X) + n_unlabelled) < len(X),
        X_public=X_public if len(X_public) else None,
        y_public=y_public,
    )


def _guarantee(fitted: Any, X_public: Any, ledger: Ledger) -> Promise:
    """Return the bound on a base learner's excess error, or the reason why there is none.

    A subset of independent rows that is drawn independently of the rows consists of independent
    rows.
    """
    reason = why_no_guarantee(X_public, several=ledger.rows_per_person > 1)
    if not reason and "classes" not in fitted.get_params(deep=False):
        reason = ADDED_ROWS
    return no_guarantee(reason) if reason else base_learner_guarantee(fitted)
