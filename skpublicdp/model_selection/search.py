"""`SemiPrivateSearchCV`: hyperparameter search with one ε for the search and the final fit."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval

from skpublicdp._internal.html_repr import HTMLReprMixin
from skpublicdp._internal.parameters import (
    DELTA,
    GROUP_PARAMETERS,
    N_JOBS,
    SPENDING_PARAMETERS,
    OptionalBudget,
    Seed,
    all_or_nothing,
    check_parameters,
)
from skpublicdp.accounting import Draw, exact_fraction
from skpublicdp.base_learner import DelegatingClassifier, is_repeatable, mechanism_event
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses.base import assumptions_of_class
from skpublicdp.model_selection.candidates import Candidate, FittedCandidate, make_candidates
from skpublicdp.model_selection.checks import UNDECLARED_PROTECTION, coupling_line, unprotected_line
from skpublicdp.model_selection.family import CandidateFamily
from skpublicdp.model_selection.kind_choice import SingleCandidate, fit_chosen_kind
from skpublicdp.model_selection.public_screening import screen_candidates
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_classifier import may_be_known
from skpublicdp.rules.population_guarantee import (
    NO_THEOREM,
    PRIOR_SELECTION,
    no_guarantee,
    warn_if_vacuous,
)


class SemiPrivateSearchCV(HTMLReprMixin, DelegatingClassifier, ClassifierMixin, BaseEstimator):
    """Hyperparameter search over private classifiers, with one (ε, δ) in total.

    Candidates that are settings of `SemiPrivateClassifier` (`alpha`, `hypotheses`,
    `public_weight`, `PublicFit` steps before it) are one family: a single exact draw chooses the
    setting *and* its rule. Each other candidate, such as a setting of boosting, is a kind of its
    own. With several kinds, each is fitted in a trial with a share of ε. One kind is drawn by the
    errors of the trials, and is fitted with the rest of ε. Candidates that labelled public rows
    exclude are not tried. If a single candidate remains, the choice costs no ε.

    Parameters
    ----------
    estimator : classifier or Pipeline
        A private classifier of this package, or one that may be a base learner, or a pipeline
        that ends with one. The steps before it must be `PublicFit`, or need no fit.
    param_grid : dict or list of dict
        Settings to try, as in `GridSearchCV`. Parameters of the search itself, such as `epsilon`,
        are not allowed.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of the whole `fit`, read as an exact fraction.
    delta : float, default=0.0
        δ of the whole `fit`. Candidates with a `delta` need it. A single draw does not use it.
    selection_share : float, default=0.23
        Share of ε and δ, in (0, 1), for trials of several kinds and their choice. The search then
        costs 1.3 times the ε of the final fit. A single draw needs no share.
    cv : int, default=5
        Number of folds in which candidates are first compared on the labelled public rows.
    classes : array-like, default=None
        All possible labels. By default the labels that occur in `y` and among the public labels;
        their set is then assumed to be public.
    n_jobs : int, default=None
        Number of workers for public trials, and of threads that count rows. Results do not depend
        on it.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` draws from the operating system's secure generator. Anything else is repeatable,
        for tests and papers, and the receipt states it.
    max_rows_per_group : int, default=None
        Protects persons instead of rows. `fit` then takes `groups` and uses at most so many rows
        of each person.
    budget : PrivacyBudget, default=None
        Budget to charge, once. A budget that cannot pay raises before a private row is read.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting.
    best_index_ : int
        Its index in ``cv_results_["params"]``.
    best_estimator_ : classifier or Pipeline
        The chosen candidate, fitted to all rows. Its receipt is the receipt of the search.
    chosen_by_ : {"only candidate", "public rows", "one draw", "trials"}
        What decided the choice. After "trials" one draw may have chosen among settings of one kind.
    n_candidates_ : int
        Number of settings.
    cv_results_ : dict
        The settings, ``params`` and one masked column for each parameter. It holds no scores,
        since a score would be a further private answer.
    guarantee_ : float or None
        After a single draw, a bound on the excess error in the population over the best rule of
        all candidates, as in `SemiPrivateClassifier`. The chosen candidate has the same bound.
        ``None`` if nothing is proved.
    guarantee_reason_ : str
        Terms of the bound, or the reason why there is none, in one sentence.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    privacy_ : PrivacyReceipt
        Receipt of the whole search.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Their names, where `X` has string column names.

    See Also
    --------
    PublicKFold : Folds for scikit-learn's own searches, which are not private.
    check_pipeline : Lists the steps of a pipeline that see private rows.

    Notes
    -----
    Neighbouring data sets differ by replacing one private row, features and label. The number of
    private rows, the set of labels, the types of the columns and all public rows are not
    protected. The proof is docs/proofs/search.md.

    References
    ----------
    .. [1] F. McSherry and K. Talwar (2007). Mechanism design via differential privacy. FOCS.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.hypotheses import DecisionTrees, Halfspaces
    >>> from skpublicdp.model_selection import SemiPrivateSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> grid = {"hypotheses": [DecisionTrees(), Halfspaces()], "alpha": [0.05, 0.2]}
    >>> search = SemiPrivateSearchCV(SemiPrivateClassifier(), grid, epsilon=1.0, random_state=0)
    >>> search = search.fit(X, y, X_public=rng.normal(size=(200, 2)))
    >>> search.best_params_["hypotheses"], search.privacy_.epsilon
    (Halfspaces(), 1.0)
    """

    _in_memory_since = "candidates are tried on random parts of them"

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's convention
        "estimator": [HasMethods(["fit", "predict"])],
        "param_grid": [dict, list],
        "delta": DELTA,
        "selection_share": [Interval(Real, 0, 1, closed="neither")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "classes": ["array-like", None],
        "n_jobs": N_JOBS,
        **SPENDING_PARAMETERS,
        **GROUP_PARAMETERS,
    }

    # metadata routing passes public rows without a request, since they have no other use
    __metadata_request__fit = {  # noqa: RUF012
        "X_public": True,
        "y_public": True,
        "is_public": True,
        "groups": True,
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: dict[str, Any] | list[dict[str, Any]],
        *,
        epsilon: float | Fraction = 1.0,
        delta: float | Fraction = 0.0,
        selection_share: float = 0.23,
        cv: int = 5,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        max_rows_per_group: int | None = None,
        budget: OptionalBudget = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.selection_share = selection_share
        self.cv = cv
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
        y_public: Any = None,
        is_public: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose a setting and fit it, with (ε, δ) in total.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows, all private unless `is_public` says otherwise.
        y : array-like, shape (n,)
            Labels. Under the mask, -1 (or ``"-1"`` among text labels) means unlabelled, unless -1
            is a label of some private row or one of `classes`.
        X_public : array-like or DataFrame, shape (m, n_features), optional
            Separate public rows. In cross-validation it must not have as many rows as `X`.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, -1 as above; without it `X_public` has no labels.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. Safe in cross-validation.
        groups : array-like, shape (n,), optional
            Person of each row, for `max_rows_per_group`. Ignored for public rows.

        Returns
        -------
        self : SemiPrivateSearchCV
            The fitted search.

        Raises
        ------
        ValueError
            If a parameter, a candidate or an input is invalid. No private value is quoted.
        PrivacyBudgetError
            If `budget` cannot cover the search.
        """
        check_parameters(self)
        candidates = make_candidates(self.estimator, self.param_grid)
        ledger = self._open_ledger(candidates)
        rows = SearchRows(
            self,
            X,
            y,
            X_public=X_public,
            y_public=y_public,
            is_public=is_public,
            groups=groups,
        )
        for candidate in {candidate.features: candidate for candidate in candidates}.values():
            rows.check_steps(candidate)
        ledger.read(len(rows), rows.n_public)
        candidates = [
            candidate.with_learner(classes=rows.classes, epsilon=self.epsilon)
            if candidate.is_semi_private
            else candidate
            for candidate in candidates
        ]
        positions, chosen_by = self._screen(candidates, rows)
        fitted = self._choose_and_fit(candidates, positions, rows, ledger)
        chosen, learner = candidates[fitted.position], fitted.learner
        self._state_what_holds(chosen, learner, candidates, positions, chosen_by, ledger)
        self.best_index_ = fitted.position
        self.best_params_ = chosen.params
        self.best_estimator_: Any = chosen.assemble(rows.features(chosen).steps, learner)
        self.chosen_by_ = chosen_by
        self.n_candidates_ = len(candidates)
        self.cv_results_ = _results_without_scores([candidate.params for candidate in candidates])
        self.classes_ = rows.classes
        return self

    def _state_what_holds(
        self,
        chosen: Candidate,
        learner: Any,
        candidates: list[Candidate],
        positions: list[int],
        chosen_by: str,
        ledger: Ledger,
    ) -> None:
        """Set the receipt and the guarantee, of the search and of the learner that it fitted.

        The learner's own receipt would omit the choice. Its own bound assumes that its class was
        fixed in advance.
        """
        # a learner that is not semi-private sampled its own noise
        samples_by_seed = not chosen.is_semi_private and is_repeatable(learner)
        self.privacy_ = ledger.receipt(
            assumptions=self._assumptions(candidates), secure=not samples_by_seed
        )
        if hasattr(learner, "privacy_") or chosen.is_semi_private:
            learner.privacy_ = self.privacy_
        was_selected = chosen_by == "trials" or len(positions) < len(candidates)
        guarantee = no_guarantee(PRIOR_SELECTION) if was_selected else _guarantee(learner)
        self.guarantee_, self.guarantee_reason_ = guarantee
        if chosen.is_semi_private:  # other learners have warned already
            warn_if_vacuous(guarantee, ledger.n_private, ledger.n_public, float(self.epsilon))
        if hasattr(learner, "guarantee_"):
            learner.guarantee_, learner.guarantee_reason_ = guarantee

    def _inner_estimator(self) -> Any:
        """Return the estimator that methods are delegated to: the chosen one after `fit`."""
        return getattr(self, "best_estimator_", None) or self.estimator

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags, with the input and classifier tags of `estimator`."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.classifier_tags = inner.input_tags, inner.classifier_tags
        return tags

    def _open_ledger(self, candidates: list[Candidate]) -> Ledger:
        """Return a ledger for (ε, δ). Its plan is one draw if that chooses among all candidates."""
        epsilon, delta = exact_fraction(self.epsilon), exact_fraction(self.delta)
        if all(candidate.is_semi_private for candidate in candidates):
            return Ledger.from_estimator(self, delta=0, event=Draw(epsilon))
        return Ledger.from_estimator(self, event=mechanism_event(epsilon, delta))

    def _screen(self, candidates: list[Candidate], rows: SearchRows) -> tuple[list[int], str]:
        """Return the indices of the candidates left by public screening, and `chosen_by_`."""
        if len(candidates) == 1:
            return [0], "only candidate"
        remaining = screen_candidates(
            candidates,
            rows,
            float(self.epsilon),
            float(self.delta),
            cv=int(self.cv),
            n_jobs=self.n_jobs,
        )
        if len(remaining) == 1:
            return remaining, "public rows"
        all_semi_private = all(candidates[index].is_semi_private for index in remaining)
        return remaining, "one draw" if all_semi_private else "trials"

    def _choose_and_fit(
        self, candidates: list[Candidate], positions: list[int], rows: SearchRows, ledger: Ledger
    ) -> FittedCandidate:
        """Choose privately among the candidates with the given indices, and fit the chosen one."""
        family_positions = [index for index in positions if candidates[index].is_semi_private]
        kinds: list[CandidateFamily | SingleCandidate] = [
            SingleCandidate(index, candidates[index], rows)
            for index in positions
            if index not in family_positions
        ]
        if family_positions:
            family = [candidates[index] for index in family_positions]
            candidate_family = CandidateFamily(family_positions, family, rows, self.n_jobs)
            if len(family_positions) == len(positions):  # one draw chooses, without trials
                return candidate_family.fit(ledger)
            kinds.insert(0, candidate_family)
        return fit_chosen_kind(kinds, rows, ledger, self.selection_share)

    def _assumptions(self, candidates: list[Candidate]) -> tuple[str, ...]:
        """Return what the guarantee assumes, for the receipt.

        These are facts that may be known to everybody, promises of learners about their own (ε, δ),
        assumptions of the hypothesis classes, steps that must work on each row alone, and learners
        without a declaration of what they protect.
        """
        assumptions = [may_be_known("the number of private rows", self.classes)]
        if not all(candidate.is_semi_private for candidate in candidates):
            assumptions.append(
                "each candidate satisfies the (ε, δ) of its budget for all possible rows"
            )
        estimators = [
            candidate.learner if candidate.pipeline is None else candidate.pipeline
            for candidate in candidates
        ]
        class_assumptions = dict.fromkeys(
            line
            for candidate in candidates
            for line in assumptions_of_class(getattr(candidate.learner, "hypotheses", None))
        )
        return (
            *assumptions,
            *class_assumptions,
            *coupling_line(estimators),
            *unprotected_line(estimators, UNDECLARED_PROTECTION),
        )


def _guarantee(learner: Any) -> Promise:
    """Return the bound on the excess error that a fitted learner has of its own."""
    bound = getattr(learner, "guarantee_", None)
    return Promise(bound, getattr(learner, "guarantee_reason_", no_guarantee(NO_THEOREM).reason))


def _results_without_scores(params: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a dict like `GridSearchCV.cv_results_`, without scores, from a list of settings."""
    results: dict[str, Any] = {"params": params}
    for name in sorted({name for setting in params for name in setting}):
        # numpy.empty could expose private values in uninitialised memory
        column = np.ma.MaskedArray(np.full(len(params), None), mask=True, dtype=object)
        for index, setting in enumerate(params):
            if name in setting:
                column[index] = setting[name]
        results[f"param_{name}"] = column
    return results
