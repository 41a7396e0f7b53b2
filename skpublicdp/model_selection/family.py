"""One exponential mechanism over the union of the covers of all candidates."""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone

from skpublicdp.exceptions import SlicedPublicDataWarning
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, Hypothesis, PublicSample
from skpublicdp.hypotheses.base import (
    tabulate,
)
from skpublicdp.hypotheses.finite import UnionCover
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Product
from skpublicdp.model_selection.candidates import Candidate, FittedCandidate
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.preprocessing import PublicFit
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.rules.cover_search import DrawnRule, search_cover
from skpublicdp.rules.population_guarantee import FITTED_STEPS, excess_error_guarantee, no_guarantee
from skpublicdp.typing import Codes, Floats, Integers

NAME = "choice of a candidate and its rule: exponential mechanism, one exact draw"
PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/search.md"
UNEQUAL_PUBLIC_WEIGHTS = "labelled public rows weigh differently for different candidates"


class CandidateRule(Hypothesis):
    """A rule together with the index of its candidate.

    Parameters
    ----------
    candidate : int
        Index of the candidate.
    inner : Hypothesis
        The rule, on the features of the candidate.
    """

    def __init__(self, candidate: int, inner: Hypothesis) -> None:
        self.candidate = candidate
        self.inner = inner

    def predict(self, X: Floats) -> Codes:
        """Return the codes of the labels predicted for the candidate's rows."""
        return self.inner.predict(X)

    def rule(self) -> str:
        """Return the rule as text."""
        return self.inner.rule()


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class CandidateRows:
    """Transformed rows of a candidate: private ones, then labelled public ones.

    Attributes
    ----------
    X : ndarray of float64, shape (n, n_features)
        Rows.
    weights : ndarray of int64, shape (n,)
        1 for a private row, `public_weight` for a public one.
    n_private : int
        Number of private rows.
    y_public : ndarray of intp
        Label codes of the public rows.
    """

    X: Floats
    weights: Integers
    n_private: int
    y_public: Codes


class CandidateCover(Cover):
    """The cover of one candidate, whose rows are given by their indices.

    Indices are the same for all candidates, although their features differ.

    Parameters
    ----------
    cover : Cover
        The cover.
    candidate : int
        Index of the candidate.
    scored : CandidateRows
        Rows of the candidate.
    rate : float, optional
        ε / 2. If given, labelled public rows act as a prior within the candidate only: see
        `score_offset`.
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
        """Return the public rows' contribution to the log partition function, in errors.

        It is rounded down and subtracted from all scores. So public rows move probability among
        the members of a candidate, and hardly between candidates.
        """
        public = slice(self.scored.n_private, None)
        X, weights = self.scored.X[public], self.scored.weights[public]
        family = self.cover.family(tabulate(self.cover, X, self.scored.y_public, weights))
        total = math.log(family.prior_range[0])
        return math.floor((total - float(log_partition_function(family, rate))) / rate)

    @property
    def refinable_members(self) -> Cover:
        """The coarse cover that the first draws search."""
        return self._with_cover(self.cover.refinable_members)

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a finer cover around a rule of this candidate."""
        if not isinstance(hypothesis, CandidateRule) or hypothesis.candidate != self.candidate:
            return self
        return self._with_cover(self.cover.refine(hypothesis.inner, step))

    def _with_cover(self, cover: Cover) -> CandidateCover:
        if cover is self.cover:
            return self
        return CandidateCover(cover, self.candidate, self.scored, self._rate)

    @property
    def size(self) -> int:
        """Number of members."""
        return self.cover.size

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the table of the rows with given indices; X has shape (n, 1)."""
        rows = X[:, 0].astype(np.intp)
        return self.cover.tabulate(self.scored.X[rows], y, weights * self.scored.weights[rows])

    def family(self, table: Integers) -> Family:
        """Return the family of members, with the score offset subtracted."""
        family = self.cover.family(table)
        if not self.score_offset:
            return family
        return Product([family, Leaf(np.array([-self.score_offset], dtype=np.int64))])

    def hypothesis(self, path: Path) -> CandidateRule:
        """Return the rule of a path, as a rule of this candidate."""
        inner = path[0] if self.score_offset else path
        return CandidateRule(self.candidate, self.cover.hypothesis(inner))


def log_partition_function(family: Family, rate: float) -> Floats:
    """Return the log partition function ln Σ prior · exp(-rate · errors) of each family.

    It is computed in floats, for public families only. No exact probability depends on it.
    """
    if isinstance(family, Leaf):
        log_mass = logsumexp(-rate * family.errors, axis=-1)
    elif isinstance(family, Product):
        log_mass = sum(log_partition_function(factor, rate) for factor in family.factors)
    elif isinstance(family, Lazy):
        log_mass = np.concatenate(
            [log_partition_function(chunk, rate) for chunk in family.chunks()]
        )
    else:
        if not isinstance(family, Choice | OneOf):
            raise TypeError(f"{type(family).__name__} is no family.")
        if isinstance(family, Choice):
            masses = log_partition_function(family.options, rate)
        else:
            masses = np.stack(
                [log_partition_function(option, rate) for option in family.options], axis=-1
            )
        prior = [math.log(family.weight(option)) for option in range(masses.shape[-1])]
        log_mass = logsumexp(masses + prior, axis=-1)
    return np.asarray(log_mass, dtype=np.float64)


class CandidateFamily:
    """`SemiPrivateClassifier` candidates, from whose union of covers one rule is drawn.

    Parameters
    ----------
    positions : list of int
        Indices of the candidates in the search.
    candidates : list of Candidate
        The candidates, whose learners have `classes` set.
    rows : SearchRows
        Rows.
    n_jobs : int or None
        Threads that tabulate.
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
        self._read = [self._read_candidate(candidate) for candidate in candidates]

    @property
    def label(self) -> str:
        """Name in the receipt."""
        n = len(self.candidates)
        return "SemiPrivateClassifier" + (f" ({n} candidates, one draw)" if n > 1 else "")

    def candidate(self, position: int) -> Candidate:
        """Return the candidate with an index of the search."""
        return self.candidates[self.positions.index(position)]

    def _read_candidate(self, candidate: Candidate) -> tuple[Any, Any, Cover, CandidateRows]:
        """Return (learner, its rows, its cover, its weighted rows) of a candidate."""
        learner = clone(candidate.learner)
        features = self._rows.features(candidate)
        with warnings.catch_warnings():
            # masked rows are separated by now, and cross-validation cannot have sliced them
            warnings.simplefilter("ignore", SlicedPublicDataWarning)
            rows = learner._read(
                features.X, self._rows.y, X_public=features.X_public, y_public=self._rows.y_public
            )
        X_private, _ = rows.to_arrays()
        X = np.concatenate([X_private, rows.X_labelled])
        counts = [len(X_private), len(rows.X_labelled)]
        weights = np.repeat(np.array([1, int(learner.public_weight)]), counts)
        scored = CandidateRows(X, weights.astype(np.int64), len(X_private), rows.targets.public)
        return learner, rows, learner._cover(rows), scored

    def fit(self, ledger: Ledger) -> FittedCandidate:
        """Draw a candidate and its rule with the whole ε of a ledger."""
        parts = [scored for _, _, _, scored in self._read]
        numbers = np.arange(len(parts[0].X))[:, None]
        codes = np.concatenate([self._rows.codes, parts[0].y_public])
        public_weights = [
            int(rows_of_candidate.weights[rows_of_candidate.n_private :].sum())
            for rows_of_candidate in parts
        ]
        equal_weights = len(set(public_weights)) == 1
        rate = None if equal_weights else float(ledger.epsilon) / 2
        covers = [
            CandidateCover(cover, index, scored, rate)
            for index, (_, _, cover, scored) in enumerate(self._read)
        ]
        union = covers[0] if len(covers) == 1 else UnionCover(covers, _empty_sample())
        drawn = search_cover(
            union,
            lambda cover: tabulate(cover, numbers, codes, n_jobs=self._n_jobs),
            ledger,
            sensitivity=1,  # a replaced private row has weight 1 for every candidate
            scored=len(self._rows) + (public_weights[0] if equal_weights else 0),
            beta=self._beta,
            name=NAME,
            proof=PROOF,
        )
        hypothesis = drawn.hypothesis
        assert isinstance(hypothesis, CandidateRule)
        learner_read, rows, _, _ = self._read[hypothesis.candidate]
        learner = copy(learner_read)
        learner._store_rule(
            rows, hypothesis.inner, _cover_of_candidate(drawn.cover, hypothesis.candidate), None
        )
        if equal_weights:  # else candidates are not scored on the same rows
            learner.certificate_ = drawn.certificate
        guarantee = (
            self._promise(union, drawn, ledger.rows_per_person)
            if equal_weights
            else no_guarantee(UNEQUAL_PUBLIC_WEIGHTS)
        )
        learner.guarantee_, learner.guarantee_reason_ = guarantee
        return FittedCandidate(self.positions[hypothesis.candidate], learner)

    def _promise(self, union: Cover, drawn: DrawnRule, rows_per_person: int) -> Promise:
        """Bound the excess error over the best rule of all candidates' classes."""
        public_weights = set()
        for candidate, (learner, rows, cover, scored) in zip(
            self.candidates, self._read, strict=True
        ):
            reason = learner._why_no_guarantee(cover, rows, self._rows.described, rows_per_person)
            if reason is None and any(isinstance(step, PublicFit) for _, step in candidate.steps):
                reason = FITTED_STEPS
            if reason is not None:
                return no_guarantee(reason)
            public_weights.add(int(scored.weights[scored.n_private :].sum()))

        def near(beta: float) -> float | None:
            # union bound over the candidates: all bounds hold at once
            beta /= len(self._read)
            errors = [
                learner._cover_error(cover, rows, beta) for learner, rows, cover, _ in self._read
            ]
            return None if None in errors else max(errors)

        (public_weight,) = public_weights
        return excess_error_guarantee(
            union,
            drawn,
            near,
            n=len(self._rows),
            beta=self._beta,
            public_weight=public_weight,
            n_labelled=1,
        )


def _cover_of_candidate(cover: Cover, candidate: int) -> Cover:
    """Return the cover of one candidate, from a union or a single cover."""
    covers: tuple[Any, ...] = cover.covers if isinstance(cover, UnionCover) else (cover,)
    result: Cover = next(part.cover for part in covers if part.candidate == candidate)
    return result


def _empty_sample() -> PublicSample:
    """Return a public sample of no rows with one column."""
    return PublicSample(np.zeros((0, 1)), np.array([0]), ("row",))
