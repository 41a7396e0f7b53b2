"""SubsamplingActiveLearner: Algorithm SubSampling of Beimel, Nissim and Stemmer (2015)."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, Self

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
from skpublicdp.accounting import exact_fraction
from skpublicdp.active.subsampling_plan import (
    SUBSAMPLING_PROOF,
    SubsamplingPlan,
    make_plan,
    receipt_assumptions,
    stage_name,
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
    n_rows,
)
from skpublicdp.data.description import public_data_assumptions
from skpublicdp.data.fit_inputs import public_labels
from skpublicdp.data.labelled_inputs import read_public_numbers
from skpublicdp.data.labels import check_length, encode_labels, is_unlabelled, label_column
from skpublicdp.data.roles import cap_rows_per_group
from skpublicdp.data.tables import take_rows
from skpublicdp.data.validation import as_numbers, check_rows, read_table
from skpublicdp.exceptions import PrivacyBudgetError
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
from skpublicdp.typing import Codes, Floats


class SubsamplingActiveLearner(
    HTMLReprMixin, BaseDelegatingClassifier, ClassifierMixin, BaseEstimator
):
    """Private classifier that asks for a few labels in a large pool of private rows.

    `query` draws the rows whose labels are wanted, `fit` takes the labels and runs a private base
    learner on a secret random part of the pool. Because nobody knows who is in that part, the base
    learner may use a larger budget than `epsilon`: the larger the pool, the fewer labels are
    needed. This is Algorithm 4 (SubSampling) of [1]_; Claim 5.7 there, sharpened, is its privacy.

    Parameters
    ----------
    estimator : classifier, default=None
        Base learner: any private classifier with a parameter `epsilon` that protects all rows it is
        given and says so, see Notes; ``None`` means `SemiPrivateClassifier()`. If its `fit` takes
        `is_labelled` it is semi-supervised and gets unlabelled rows too, marked by -1 and by that
        mask. Any other one gets the rows asked for.
    n_labels : int, default=100
        How many labels to ask for; the whole pool where it is smaller.
    epsilon, delta : float, default=1.0 and 0.0
        Privacy budget of one `query` and `fit`: ε > 0, read as an exact fraction, and δ in [0, 1).
    base_epsilon : float or "auto", default="auto"
        Budget of the base learner. ``"auto"`` is the largest one allowed on the rows it gets.
    n_subsample : int, default=None
        How many rows, labelled or not, a semi-supervised base learner gets; all where the pool is
        smaller. By default as many as allow the base learner `base_epsilon`, or with ``"auto"`` an
        ε of 1 (of `epsilon` where that is more), but not fewer than are labelled. Other base
        learners get the rows asked for.
    roles : {"random", "paper"}, default="random"
        Which of those rows are asked for: a uniform choice, or as in the paper those that come
        first in the pool, at a higher price.
    transcript_private : bool, default=False
        Whether the guarantee has to hold against those who know which rows were asked for. The
        base learner then gets `epsilon` and no more, and by default all unlabelled rows.
    classes : array-like, default=None
        All possible labels. By default those that occur in `y` where it is read, whose set is then
        taken to be public knowledge.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers; the receipt then says so.
    max_rows_per_group : int, default=None
        Protects persons instead of rows: `query` and `fit` then take `groups`, and no more than the
        first so many rows of a person count. What each row may lose is then ε divided by this
        number.
    budget : PrivacyBudget, default=None
        What the fit is charged to; one that cannot pay refuses before a private row is read, and
        before labels are asked for. The base learner must have none of its own.

    Attributes
    ----------
    estimator_ : classifier
        The fitted base learner.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    queried_indices_ : ndarray of int
        Rows to be labelled, increasing. `fit` deletes it: who is told it must be trusted like the
        owner of the pool. With `transcript_private` it stays.
    guarantee_ : float or None
        That of `estimator_`, if it has one: its rows are drawn from the pool, as independent of
        each other as the pool's are. It fails with the probability `beta` of the base learner.
        ``None`` where nothing is proved.
    guarantee_reason_ : str
        What the guarantee is made of, or why there is none, in one sentence.
    privacy_ : PrivacyReceipt
        What was spent, and which definition of an active learner's privacy holds.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    Warns
    -----
    TooFewRowsWarning
        If `guarantee_` is 1: nothing is promised for so few rows.

    See Also
    --------
    SemiPrivateClassifier : The default base learner.
    skpublicdp.guarantees.n_subsampling : Pool size that a base learner's budget needs.

    Notes
    -----
    Neighbouring data sets differ by replacing one row of the pool, features and label, where every
    row is thought to have a label (Definition 5.3 of [1]_). The size of the pool and the number of
    labels are not protected. Between `query` and `fit` the object holds the rows asked for and is
    itself a secret; afterwards nothing that depends on private rows is stored save `estimator_`.

    A query is good for one fit: fits that share their secret lose more than the sum of their ε. So
    of an object and its copies one can be fitted, once, and without a `budget`, whose file knows
    that, none can be copied or pickled between `query` and `fit`.

    The default number of rows is that of Theorem 5.8: at ε = 1 for the base learner the number of
    labels it needs is free of `epsilon`. Fewer rows allow the base learner more, by the logarithm
    only, and more rows take from the labelled ones, which are the scarce ones. A base learner that
    has no use for unlabelled rows is best served by the rows asked for and nothing else.

    The rows are handed over in a random order, labelled ones first, so a base learner may be
    private over sequences of rows or over sets of them. It must be private whatever the rows are:
    it may not fail for some of them, and not take some of them as public. A class declares that by
    ``protects_all_rows = True``. One with a parameter `classes` is told the labels; another one
    gets one more row for each label, all at the median of `X_public` or at zero.

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
    >>> asked = learner.query(pool)
    >>> y = np.full(len(pool), -1)
    >>> y[asked] = pool[asked, 0] > 0.5  # somebody labels these rows
    >>> learner = learner.fit(pool, y, X_public=rng.normal(size=(300, 1)))
    >>> learner.score(pool, pool[:, 0] > 0.5) > 0.9
    True
    >>> learner.privacy_.epsilon, round(learner.privacy_.mechanisms[0].epsilon, 2)
    (0.1, 3.09)
    """

    _in_memory_since = "it draws rows by their positions"

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

    # routed without being asked for: there is nothing else they could be meant for
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
        """Draw the rows whose labels are wanted.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            The pool. Nothing but its size decides.
        y : Ignored
            Not used; here by convention.
        groups : array-like, shape (n,), optional
            Whose row each is, for `max_rows_per_group`.

        Returns
        -------
        ndarray of int, shape (n_labels,)
            Positions in `X`, increasing; a secret unless `transcript_private`.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        PrivacyBudgetError
            If `budget` cannot pay for the fit.
        """
        check_parameters(self)
        plan, kept, ledger = self._open(X, groups)
        check_rows(self, X, reset=True)
        self.queried_indices_ = np.flatnonzero(kept)[plan.draw_queries(ledger)]
        self._pending = (plan, kept.tobytes(), self.budget)
        self._ticket = new_ticket()
        return self.queried_indices_.copy()

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, X_public: Any = None, y_public: Any = None, groups: Any = None
    ) -> Self:
        """Learn from the labels that `query` asked for.

        Parameters
        ----------
        X : array-like of float, shape (n, n_features)
            The pool, all private, in the order that `query` had it.
        y : array-like, shape (n,)
            Labels of the rows asked for; any value, such as -1, elsewhere. Without `query`, which
            `fit` then does itself, the labels of all rows: those not asked for are not used.
        X_public : array-like of float, shape (m, n_features), optional
            Public rows, handed on to a base learner that takes them.
        y_public : array-like, shape (m,), optional
            Their labels, likewise.
        groups : array-like, shape (n,), optional
            Whose row each is, as `query` had it.

        Returns
        -------
        self : SubsamplingActiveLearner
            The fitted classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described; no private value is quoted.
        PrivacyBudgetError
            If `budget` cannot pay, or this object or a copy of it has been fitted to these labels.
        """
        check_parameters(self)
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        pending = getattr(self, "_pending", None)
        ticket = None if pending is None else self._ticket
        plan, kept, ledger = self._open(X, groups, ticket)
        table = read_table(self, X, reset=True, numeric=True)
        X_public_checked = read_public_numbers(self, table, X_public)
        public = X_public_checked if len(X_public_checked) else None
        X = as_numbers(table)
        check_length(y, len(X))
        public_label_columns = public_labels(X_public, y_public, label_column)
        # drawn anyhow: with a seed, the same rows as in query, and what follows does not repeat it
        queried, pool = plan.draw_queries(ledger), np.flatnonzero(kept)
        if pending is not None:
            if pending != (plan, kept.tobytes(), self.budget):
                raise ValueError(
                    f"fit must get the {pending[0].n_pool} rows, the groups and the parameters "
                    f"that query had; got {plan.n_pool} rows and perhaps other parameters: call "
                    "query again."
                )
            queried = np.searchsorted(pool, self.queried_indices_)
            # a label that was not asked for must not even choose the type of the others
            codes, classes = self._read_labels(label_column(take_rows(y, pool[queried])))
        else:
            codes, classes = self._read_labels(label_column(y)[kept])
            codes = codes[queried]

        encode_labels(classes, [*public_label_columns, classes[:0]], classes)
        base = self._base()
        check_classes(base, classes)
        unlabelled = np.delete(np.arange(plan.n_pool), queried)[
            plan.draw_unlabelled(queried, ledger)
        ]
        order, unlabelled = ledger.order(len(queried)), unlabelled[ledger.order(len(unlabelled))]
        rows = X[pool[queried[order]]], classes[codes[order]], X[pool[unlabelled]]
        ledger.read(plan.n_pool, 0 if public is None else len(public))
        stage = stage_name(plan, base)
        child = ledger.sub_ledger(
            ledger.event, name=stage, proof=SUBSAMPLING_PROOF, by_theorem=True
        )
        child.annotate(stage, plan.base, SUBSAMPLING_PROOF)
        fitted = self._fit_base(plan, rows, classes, public, y_public, ledger.seed())
        reason = why_no_guarantee(X_public, several=ledger.rows_per_person > 1)
        if not reason and "classes" not in fitted.get_params(deep=False):
            reason = ADDED_ROWS
        # rows drawn anyhow from independent ones are independent
        guarantee = no_guarantee(reason) if reason else base_learner_guarantee(fitted)
        self.guarantee_, self.guarantee_reason_ = guarantee
        warn_if_vacuous(guarantee, ledger.n_private, ledger.n_public, float(self.epsilon))
        self.estimator_ = fitted
        self.classes_ = classes
        self.privacy_ = ledger.receipt(
            assumptions=(
                *receipt_assumptions(self, plan, queried=pending is not None),
                *public_data_assumptions(X_public),
            ),
            secure=not is_repeatable(self.estimator_),
        )
        # with the rows asked for in sight, the smaller epsilon would not hold
        for name in ("_pending", "_ticket", "queried_indices_"):
            self.__dict__.pop(name, None)
        if self.transcript_private:
            self.queried_indices_ = pool[queried]
        return self

    def __getstate__(self) -> Any:
        """Let a query travel only where it is known that it is good for one fit."""
        if hasattr(self, "_pending") and self.budget is None:
            raise PrivacyBudgetError(
                "A query is good for one fit, so between query and fit this object can be copied "
                "or pickled only with a budget, whose file knows if a copy has been fitted; set "
                "budget to a PrivacyBudget with a path before query, or fit first."
            )
        return super().__getstate__()

    def _base(self) -> Any:
        return SemiPrivateClassifier() if self.estimator is None else self.estimator

    def _open(
        self, X: Any, groups: Any, ticket: str | None = None
    ) -> tuple[SubsamplingPlan, NDArray[np.bool_], Ledger]:
        """Return sizes and budgets, which rows count, and the ledger; no row is looked at."""
        base, k = self._base(), self.max_rows_per_group or 1
        check_base(base)
        # check_rows has a word for those that hold no row
        kept = cap_rows_per_group(self, groups, np.ones(max(n_rows(X), 1), dtype=bool))
        epsilon, delta = exact_fraction(self.epsilon), exact_fraction(self.delta)
        epsilon_row, delta_row = Ledger(1, rows_per_person=k).per_row(epsilon, delta)
        plan = make_plan(
            int(kept.sum()),
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
        event = (
            plan.event if k == 1 else mechanism_event(total_epsilon, delta)
        )  # the theorem is about one row
        return plan, kept, Ledger.of(self, epsilon=total_epsilon, event=event, ticket=ticket)

    def _read_labels(self, y: NDArray[Any]) -> tuple[Codes, NDArray[Any]]:
        """Return (codes, classes) of rows that all have a label."""
        codes, _, _, classes = encode_labels(y, [y[:0]], self.classes)
        # -1 among more labels than two is the mark of a row without one, as in the other learners
        if self.classes is None and len(classes) != 2 and is_unlabelled(classes).any():
            raise ValueError(
                "y must hold a label in every row that query asked for, or in all rows without "
                "query; list -1 in classes if it is a label."
            )
        return codes, classes

    def _fit_base(
        self,
        plan: SubsamplingPlan,
        rows: tuple[Floats, NDArray[Any], Floats],
        classes: NDArray[Any],
        public: Floats | None,
        y_public: Any,
        seed: int | None,
    ) -> Any:
        X, y, X_other = rows
        base, (epsilon, delta) = self._base(), epsilon_delta(plan.base)
        centre = np.zeros(X.shape[1]) if public is None else np.median(public, axis=0)
        X, y = add_row_per_label(base, X, y, classes, centre)
        return fit_base(
            base,
            epsilon,
            np.vstack([X, X_other]),
            np.concatenate([y, _marks(len(X_other), classes)]),
            delta=delta,
            random_state=seed,
            classes=classes,
            is_labelled=np.arange(len(X) + len(X_other)) < len(X),
            X_public=public,
            y_public=y_public,
        )


def _marks(n: int, classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels of the kind of `classes` for rows without one; no base learner reads them."""
    mark = {"b": False, "U": "-1", "O": "-1"}.get(classes.dtype.kind, -1)
    return np.full(n, mark, dtype=object if classes.dtype.kind == "O" else None)
