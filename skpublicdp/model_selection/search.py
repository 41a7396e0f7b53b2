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
from skpublicdp._internal.progress import ProgressMixin
from skpublicdp._internal.versions import VersionedMixin
from skpublicdp.accounting import Draw, exact_fraction
from skpublicdp.base_learner import DelegatingClassifier, is_repeatable, mechanism_event
from skpublicdp.data.public_rows import public_data_assumptions
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses.base import assumptions_of_class
from skpublicdp.model_selection.candidates import Candidate, FittedCandidate, make_candidates
from skpublicdp.model_selection.checks import UNDECLARED_PROTECTION, coupling_line, unprotected_line
from skpublicdp.model_selection.family import CandidateFamily
from skpublicdp.model_selection.kind_choice import (
    SingleCandidate,
    fit_chosen_kind,
    screen_candidates,
)
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_classifier import may_be_known
from skpublicdp.rules.population_guarantee import (
    NO_THEOREM,
    PRIOR_SELECTION,
    no_guarantee,
    warn_if_vacuous,
)


class SemiPrivateSearchCV(
    ProgressMixin,
    HTMLReprMixin,
    VersionedMixin,
    DelegatingClassifier,
    ClassifierMixin,
    BaseEstimator,
):
    """Hyperparameter search over private classifiers that costs one (ε, δ) in total.

    Candidates that are settings of `SemiPrivateClassifier` (`alpha`, `hypotheses`, `public_weight`,
    preceding `PublicFit` steps) form one family: a single exact draw chooses the setting *and* its
    rule. Every other candidate, such as a setting of boosting, is a separate kind. If there are
    several kinds, each kind is fitted in a trial with a share of ε. One kind is drawn according to
    the errors of the trials and is then fitted with the remaining ε. Candidates that labelled
    public rows exclude are not tried. If only one candidate remains, the choice costs no ε.

    Parameters
    ----------
    estimator : classifier or Pipeline
        A private classifier from this package or one that can serve as a base learner, or a
        pipeline that ends with such a classifier. The preceding steps must be `PublicFit` steps or
        steps that do not need a fit.
    param_grid : dict or list of dict
        Settings to try, in the same format as in `GridSearchCV`. Parameters of the search itself,
        such as `epsilon`, are not allowed.
    epsilon : float, default=1.0
        Privacy budget ε > 0 of the entire `fit`, interpreted as an exact fraction.
    delta : float, default=0.0
        Privacy budget δ of the entire `fit`. Candidates with a parameter `delta` use it. A single
        draw does not use δ.
    selection_share : float, default=0.23
        Share of ε and δ, in (0, 1), for the trials of several kinds and the choice among them. With
        the default, the search costs 1.3 times the ε of the final fit. A single draw does not need
        this share.
    cv : int, default=5
        Number of folds for the initial comparison of candidates on the labelled public rows.
    classes : array-like, default=None
        All possible labels. By default, the labels that occur in `y` and among the public labels;
        the set of these labels is then assumed to be public knowledge.
    n_jobs : int, default=None
        Number of workers for public trials, and number of threads that count rows. The number does
        not affect the results.
    random_state : int, numpy Generator or RandomState, default=None
        ``None`` uses the operating system's secure random number generator. Any other value makes
        the fit reproducible, for tests and papers, and the receipt states this.
    max_rows_per_group : int, default=None
        Protects people instead of individual rows. `fit` then requires `groups` and uses at most
        `max_rows_per_group` rows of each person, chosen at random.
    budget : PrivacyBudget, default=None
        Privacy budget, which is charged once per search. If too little budget remains, an error is
        raised before any private row is read.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting of the parameters.
    best_index_ : int
        Index of the chosen setting in ``cv_results_["params"]``.
    best_estimator_ : classifier or Pipeline
        The chosen candidate, fitted to all rows. The receipt of this estimator is the receipt of
        the search.
    chosen_by_ : {"only candidate", "public rows", "one draw", "trials"}
        Basis of the choice. After "trials", a single draw may have chosen among settings of one
        kind.
    n_candidates_ : int
        Number of settings.
    cv_results_ : dict
        The settings, as ``params`` and one masked column for each parameter. The dict does not
        contain scores, since each score would be a further private answer.
    guarantee_ : float or None
        After a single draw, a bound on the excess population error over the best rule of all
        candidates, as in `SemiPrivateClassifier`. The same bound applies to the chosen candidate.
        ``None`` if no bound has been proved.
    guarantee_reason_ : str
        One sentence that states the terms of the bound, or the reason why there is no bound.
    classes_ : ndarray, shape (n_classes,)
        The sorted labels.
    privacy_ : PrivacyReceipt
        Privacy receipt of the entire search.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns, if all column names of `X` are strings.

    See Also
    --------
    PublicKFold : Folds for scikit-learn's own searches, which are not private.
    check_pipeline : Lists pipeline steps that use private rows without protection.

    Notes
    -----
    Neighbouring datasets differ by replacing the features and label of one private row. The number
    of private rows, the set of labels, the types of the columns and all public rows are not
    protected. Privacy is proved in docs/proofs/search.md.

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

    _in_memory_since = "candidates are evaluated on random parts of the rows"

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
        """Choose a setting and fit it, spending (ε, δ) in total.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n, n_features)
            Rows, all private except for those marked by `is_public`.
        y : array-like, shape (n,)
            Labels. For rows marked by `is_public`, -1 (or ``"-1"`` among string labels) means
            "unlabelled", unless -1 is the label of some private row or one of `classes`.
        X_public : array-like or DataFrame, shape (m, n_features), optional
            Separate public rows. In cross-validation, `X_public` and `X` must have different
            numbers of rows.
        y_public : array-like, shape (m,), optional
            Labels of `X_public`, where -1 has the same meaning as in `y`. By default, `X_public`
            has no labels.
        is_public : array-like of bool, shape (n,), optional
            Marks the public rows of `X`. The mask is safe to use in cross-validation.
        groups : array-like, shape (n,), optional
            Person identifier of each row, for `max_rows_per_group`. The identifiers of public rows
            are ignored.

        Returns
        -------
        self : SemiPrivateSearchCV
            The fitted search.

        Raises
        ------
        ValueError
            If a parameter, a candidate or an input is invalid. The message contains no private
            value.
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
            ledger=ledger,
        )
        for candidate in {candidate.features: candidate for candidate in candidates}.values():
            rows.check_steps(candidate)
        ledger.read(len(rows), rows.n_public)
        draw_settings = {"classes": rows.classes, "epsilon": self.epsilon}
        candidates = [candidate.with_draw_settings(**draw_settings) for candidate in candidates]
        positions, chosen_by = self._screen(candidates, rows)
        fitted = self._choose_and_fit(candidates, positions, rows, ledger)
        chosen, learner = candidates[fitted.position], fitted.learner
        described = public_data_assumptions(X_public)
        self._state_what_holds(
            chosen,
            learner,
            candidates,
            positions=positions,
            chosen_by=chosen_by,
            described=described,
            ledger=ledger,
        )
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
        described: tuple[str, ...],
        ledger: Ledger,
    ) -> None:
        """Set the receipt and the guarantee of the search and of its fitted learner.

        The receipt of the learner alone would omit the choice. The learner's own bound would assume
        that its class was fixed in advance. `described` contains the assumption about public rows
        that were generated from a description.
        """
        # a learner that is not semi-private sampled its own noise
        samples_by_seed = not chosen.is_semi_private and is_repeatable(learner)
        self.privacy_ = ledger.receipt(
            assumptions=(*self._assumptions(candidates), *described),
            secure=not samples_by_seed,
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
        """Return the estimator to which methods are delegated: after `fit`, the chosen one."""
        return getattr(self, "best_estimator_", None) or self.estimator

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags, with the input and classifier tags of `estimator`."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.classifier_tags = inner.input_tags, inner.classifier_tags
        return tags

    def _open_ledger(self, candidates: list[Candidate]) -> Ledger:
        """Return a ledger for (ε, δ).

        The plan consists of a single draw if one draw chooses among all candidates.
        """
        epsilon, delta = exact_fraction(self.epsilon), exact_fraction(self.delta)
        if all(candidate.is_semi_private for candidate in candidates):
            return Ledger.from_estimator(self, delta=0, event=Draw(epsilon))
        return Ledger.from_estimator(self, event=mechanism_event(epsilon, delta))

    def _screen(self, candidates: list[Candidate], rows: SearchRows) -> tuple[list[int], str]:
        """Return the indices of the candidates left after screening, and `chosen_by_`."""
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
        """Choose privately among the candidates at given indices, and fit the chosen candidate."""
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
        """Return the assumptions of the guarantee that the receipt states.

        The assumptions include facts that may be public, promises of learners about their own (ε,
        δ), assumptions of the hypothesis classes, steps that must process each row independently,
        and learners that do not declare what they protect.
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
    """Return the excess error bound that a fitted learner itself states."""
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
