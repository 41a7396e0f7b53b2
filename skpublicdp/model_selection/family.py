"""A single draw with the exponential mechanism from the rules of all candidates of a search.

A cover is a finite set of rules that approximates a hypothesis class. Each candidate has its own
cover. The draw is made from the union of the covers, so it selects a candidate and its rule
together (docs/proofs/search.md).
"""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone

from skpublicdp.exceptions import SlicedPublicDataWarning
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, Hypothesis, PublicSample
from skpublicdp.hypotheses.base import tabulate
from skpublicdp.hypotheses.finite import UnionCover
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Product
from skpublicdp.model_selection.candidates import Candidate, FittedCandidate
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.preprocessing import PublicFit
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_search import DrawnRule, RuleSearch, search_cover
from skpublicdp.rules.population_guarantee import FITTED_STEPS, excess_error_guarantee, no_guarantee
from skpublicdp.typing import Codes, Floats, Integers

FAMILY_DRAW_NAME = "choice of a candidate and its rule: exponential mechanism, one exact draw"
FAMILY_DRAW_PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/search.md"
"""Receipt entry that contains the name and the proof of the draw."""

UNEQUAL_PUBLIC_WEIGHTS = "candidates have different total weights of labelled public rows"
"""Reason given in `guarantee_reason_` if there is no accuracy guarantee."""

SMOOTHNESS_IN_SEARCH = "a candidate declares smoothness, for which a search has no bound"
"""Reason given if public and private rows come from different populations."""


class CandidateRule(Hypothesis):
    """A classification rule of one candidate, which operates on that candidate's features.

    Parameters
    ----------
    candidate : int
        Index of the candidate.
    inner : Hypothesis
        The rule on the candidate's features.
    """

    def __init__(self, candidate: int, inner: Hypothesis) -> None:
        self.candidate = candidate
        self.inner = inner

    def predict(self, X: Floats) -> Codes:
        """Return the predicted label codes of rows, given the candidate's features."""
        return self.inner.predict(X)

    def rule(self) -> str:
        """Return the rule as text."""
        return self.inner.rule()


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class CandidateRows:
    """The rows on which a candidate's rules are scored: private rows, then labelled public rows."""

    X: Floats  # (n, n_features): features after the candidate's steps
    # (n,): weight of each row: 1 for a private row and `public_weight` for a public row
    weights: Integers
    n_private: int  # number of private rows
    y_public: Codes  # label codes of the public rows


class CandidateCover(Cover):
    """The cover of one candidate, used as a member of the union of all candidates' covers.

    Different candidates have different features for the same row. The covers of a union therefore
    receive row indices instead of features, and each cover looks up its own features.

    Parameters
    ----------
    cover : Cover
        Finite set of rules on the candidate's features.
    candidate : int
        Index of the candidate.
    scored : CandidateRows
        The rows on which rules are scored, with the candidate's features.
    rate : float, optional
        ε / 2. If given, the effect of public rows on the candidate's total probability is removed;
        see `_score_offset`. By default, this effect is kept.
    """

    def __init__(
        self, cover: Cover, candidate: int, scored: CandidateRows, rate: float | None = None
    ) -> None:
        self.cover = cover
        self.candidate = candidate
        self.scored = scored
        self.rounds = cover.rounds
        self.radius = cover.radius
        self._rate = rate
        self.score_offset = 0 if rate is None else self._score_offset(rate)

    def _score_offset(self, rate: float) -> int:
        """Return by how much public rows decrease the log normaliser, in units of one error.

        Subtracted from all error counts of the candidate, the offset lets public rows change only
        the odds between its own rules, up to a factor e^rate since it is rounded down.
        """
        public_rows = slice(self.scored.n_private, None)
        X, weights = self.scored.X[public_rows], self.scored.weights[public_rows]
        family = self.cover.family(tabulate(self.cover, X, self.scored.y_public, weights))
        log_prior_mass = math.log(family.prior_range[0])  # the log normaliser without errors
        return math.floor((log_prior_mass - float(log_normalizer(family, rate))) / rate)

    @property
    def refinable_members(self) -> Cover:
        """The coarse cover, which is searched before it is refined around a drawn rule."""
        return self._with_cover(self.cover.refinable_members)

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a finer cover around a rule of this candidate; for other rules, this cover."""
        if not isinstance(hypothesis, CandidateRule) or hypothesis.candidate != self.candidate:
            return self
        return self._with_cover(self.cover.refine(hypothesis.inner, step))

    def _with_cover(self, cover: Cover) -> CandidateCover:
        """Return a copy of this object with another cover of the same candidate."""
        if cover is self.cover:
            return self
        return CandidateCover(cover, self.candidate, self.scored, self._rate)

    @property
    def size(self) -> int:
        """Number of rules in the cover."""
        return self.cover.size

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the additive table (sums over rows) from which `family` computes error counts.

        X has shape (n_rows, 1) and contains row indices.
        """
        rows = X[:, 0].astype(np.intp)
        return self.cover.tabulate(self.scored.X[rows], y, weights * self.scored.weights[rows])

    def family(self, table: Integers) -> Family:
        """Return the rules and their error counts, reduced by the score offset."""
        family = self.cover.family(table)
        if not self.score_offset:
            return family
        # errors of a product add up, so a leaf with one member adds a constant
        return Product([family, Leaf(np.array([-self.score_offset], dtype=np.int64))])

    def hypothesis(self, path: Path) -> CandidateRule:
        """Return the rule at a given path, as a rule of this candidate."""
        # with an offset, the path is the path of a product: (path in the cover, 0)
        cover_path = path[0] if self.score_offset else path
        return CandidateRule(self.candidate, self.cover.hypothesis(cover_path))


def log_normalizer(family: Family, rate: float) -> Floats:
    """Return ln Σ prior · exp(-rate · errors), the log normaliser of the exponential mechanism.

    The value is computed in floats, and only for families of public rows. No exact probability is
    computed from this value.

    Parameters
    ----------
    family : Family
        Members with prior masses and error counts.
    rate : float
        ε / 2.
    """
    if isinstance(family, Leaf):
        log_mass = logsumexp(-rate * family.errors, axis=-1)
    elif isinstance(family, Product):
        log_mass = sum(log_normalizer(factor, rate) for factor in family.factors)
    elif isinstance(family, Lazy):
        log_mass = np.concatenate([log_normalizer(chunk, rate) for chunk in family.chunks()])
    else:
        if not isinstance(family, Choice | OneOf):
            raise TypeError(f"family must be a Family; got a {type(family).__name__}.")
        if isinstance(family, Choice):
            log_masses = log_normalizer(family.options, rate)
        else:
            log_masses = np.stack(
                [log_normalizer(option, rate) for option in family.options], axis=-1
            )
        log_prior = [math.log(family.weight(option)) for option in range(log_masses.shape[-1])]
        log_mass = logsumexp(log_masses + log_prior, axis=-1)
    return np.asarray(log_mass, dtype=np.float64)


class _PreparedCandidate(NamedTuple):
    """A candidate whose inputs were read and whose cover was built, without spending ε."""

    learner: Any  # unfitted learner that has already read its inputs
    dataset: Any
    cover: Cover  # cover of the learner's hypothesis class, built from public rows
    scored: CandidateRows  # the rows on which rules are scored

    @property
    def public_weight(self) -> int:
        """Total weight of the labelled public rows."""
        return int(self.scored.weights[self.scored.n_private :].sum())


class CandidateFamily:
    """Candidates that are settings of `SemiPrivateClassifier` and are fitted by one exact draw.

    The draw selects one of the rules of all candidates.

    Parameters
    ----------
    positions : list of int
        Indices of the candidates in the search.
    candidates : list of Candidate
        The candidates. The parameter `classes` of each candidate's learner is set.
    rows : SearchRows
        Rows of the search.
    n_jobs : int or None
        Number of threads for the additive tables.
    """

    def __init__(
        self,
        positions: list[int],
        candidates: list[Candidate],
        rows: SearchRows,
        n_jobs: int | None,
    ) -> None:
        self.positions, self.candidates = positions, candidates
        self._rows, self._n_jobs = rows, n_jobs
        self._beta = min(candidate.learner.beta for candidate in candidates)
        self._prepared = [self._prepare(candidate) for candidate in candidates]

    @property
    def label(self) -> str:
        """Name of the family in the receipt."""
        n = len(self.candidates)
        return "SemiPrivateClassifier" + (f" ({n} candidates, one draw)" if n > 1 else "")

    def candidate(self, position: int) -> Candidate:
        """Return the candidate at a given position in the search."""
        return self.candidates[self.positions.index(position)]

    def _prepare(self, candidate: Candidate) -> _PreparedCandidate:
        """Read the inputs of a candidate and build its cover, which depends only on public rows."""
        learner = clone(candidate.learner)
        features = self._rows.features(candidate)
        with warnings.catch_warnings():
            # the search has separated the public rows, so cross-validation did not slice them
            warnings.simplefilter("ignore", SlicedPublicDataWarning)
            dataset = learner._read(
                features.X, self._rows.y, X_public=features.X_public, y_public=self._rows.y_public
            )
        X_private, _ = dataset.to_arrays()
        X = np.concatenate([X_private, dataset.X_labelled])
        counts = [len(X_private), len(dataset.X_labelled)]
        weight_of_part = np.array([1, int(learner.public_weight)], dtype=np.int64)
        weights = np.repeat(weight_of_part, counts)
        scored = CandidateRows(X, weights, len(X_private), dataset.targets.public)
        return _PreparedCandidate(learner, dataset, learner._cover(dataset), scored)

    def fit(self, ledger: Ledger) -> FittedCandidate:
        """Draw a candidate together with its rule, and spend the entire ε of a ledger."""
        search = self._search(ledger)
        drawn = search_cover(search, beta=self._beta)
        rule = drawn.hypothesis
        assert isinstance(rule, CandidateRule)
        chosen = self._prepared[rule.candidate]
        learner = copy(chosen.learner)
        union = drawn.cover
        covers: tuple[Any, ...] = union.covers if isinstance(union, UnionCover) else (union,)
        cover = next(cover.cover for cover in covers if cover.candidate == rule.candidate)
        learner._store_rule(chosen.dataset, rule.inner, cover)
        if self._has_equal_weights:  # otherwise candidates are not scored on the same rows
            learner.certificate_ = drawn.certificate
        guarantee = self._guarantee(search.cover, drawn, ledger.rows_per_person)
        learner.guarantee_, learner.guarantee_reason_ = guarantee
        return FittedCandidate(self.positions[rule.candidate], learner)

    @property
    def _has_equal_weights(self) -> bool:
        """Whether the labelled public rows of all candidates have the same total weight."""
        return len({prepared.public_weight for prepared in self._prepared}) == 1

    def _search(self, ledger: Ledger) -> RuleSearch:
        """Return the union of the candidates' covers, and the rows on which its rules are scored.

        All candidates have the same rows and labels, but different features. The rules in the union
        are therefore scored on row indices, which each candidate uses to look up its own features.
        """
        scored, public_weight = self._prepared[0].scored, self._prepared[0].public_weight
        rate: float | None = None
        if not self._has_equal_weights:
            rate, public_weight = float(ledger.epsilon) / 2, 0
        covers = [
            CandidateCover(prepared.cover, index, prepared.scored, rate)
            for index, prepared in enumerate(self._prepared)
        ]
        row_indices = np.arange(len(scored.X))[:, None]
        codes = np.concatenate([self._rows.codes, scored.y_public])
        no_rows = PublicSample(np.zeros((0, 1)), np.array([0]), ("row",))
        return RuleSearch(
            cover=covers[0] if len(covers) == 1 else UnionCover(covers, no_rows),
            # every private row has weight 1 in each candidate, so the sensitivity is 1
            tabulate=lambda cover: tabulate(cover, row_indices, codes, n_jobs=self._n_jobs),
            ledger=ledger,
            scored=len(self._rows) + public_weight,
            name=FAMILY_DRAW_NAME,
            proof=FAMILY_DRAW_PROOF,
        )

    def _guarantee(self, union: Cover, drawn: DrawnRule, rows_per_person: int) -> Promise:
        """Return a bound on the excess error over the best rule of all candidates' classes.

        If a candidate has no bound, the reason given for this candidate is returned.
        """
        if not self._has_equal_weights:
            return no_guarantee(UNEQUAL_PUBLIC_WEIGHTS)
        for candidate, prepared in zip(self.candidates, self._prepared, strict=True):
            reason = prepared.learner._why_no_guarantee(
                prepared.cover, prepared.dataset, self._rows.described, rows_per_person
            )
            if reason is None and any(isinstance(step, PublicFit) for _, step in candidate.steps):
                reason = FITTED_STEPS
            if reason is None and prepared.learner.smoothness < 1:
                reason = SMOOTHNESS_IN_SEARCH
            if reason is not None:
                return no_guarantee(reason)

        def cover_error(beta: float) -> float | None:
            """Return the maximum of all covers' error bounds, which fails with probability beta."""
            beta /= len(self._prepared)  # union bound
            errors = [
                prepared.learner._cover_error(prepared.cover, prepared.dataset, beta)
                for prepared in self._prepared
            ]
            return None if None in errors else max(errors)

        return excess_error_guarantee(
            union,
            drawn,
            cover_error,
            n=len(self._rows),
            beta=self._beta,
            public_weight=self._prepared[0].public_weight,
            n_labelled=1,
        )
