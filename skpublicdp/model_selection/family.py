"""Candidates that are one family: one exact draw picks the candidate and its rule."""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone

from skpublicdp.cover_search import DrawnRule, search_cover
from skpublicdp.exceptions import SlicedPublicDataWarning
from skpublicdp.guarantees import Promise
from skpublicdp.hypotheses import Cover, Hypothesis, PublicSample
from skpublicdp.hypotheses.base import (
    tabulate,
)
from skpublicdp.hypotheses.finite import UnionCover
from skpublicdp.ledger import Ledger
from skpublicdp.mechanisms.families import Choice, Family, Lazy, Leaf, OneOf, Path, Product
from skpublicdp.model_selection.candidates import Candidate, Fit
from skpublicdp.model_selection.search_rows import SearchRows
from skpublicdp.population_guarantee import FITTED_STEPS, excess_error_guarantee, no_guarantee
from skpublicdp.preprocessing import PublicFit
from skpublicdp.typing import Codes, Floats, Integers

NAME = "choice of a candidate and its rule: exponential mechanism, one exact draw"
PROOF = "McSherry and Talwar (2007), Theorem 6; docs/proofs/search.md"
UNLIKE = "labelled public rows weigh differently for different candidates"


class Chosen(Hypothesis):
    """A rule, and which candidate it is of.

    Parameters
    ----------
    candidate : int
        Its position.
    inner : Hypothesis
        The rule, on the features of that candidate.
    """

    def __init__(self, candidate: int, inner: Hypothesis) -> None:
        self.candidate = candidate
        self.inner = inner

    def predict(self, X: Floats) -> Codes:
        """Return the code of the predicted label of rows as the candidate sees them."""
        return self.inner.predict(X)

    def rule(self) -> str:
        """Return the rule in words."""
        return self.inner.rule()


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private rows
class Scored:
    """Rows as a candidate sees them: private ones, then labelled public ones.

    Attributes
    ----------
    X : ndarray of float64, shape (n, n_features)
        Rows.
    weights : ndarray of int64, shape (n,)
        1 for a private row, `public_weight` for a public one.
    n_private : int
        How many are private.
    y_public : ndarray of intp
        Codes of the labels of the others.
    """

    X: Floats
    weights: Integers
    n_private: int
    y_public: Codes


class CandidateCover(Cover):
    """The cover of one candidate; its rows are named by their numbers.

    Rows of all candidates are then alike, whatever features each of them sees.

    Parameters
    ----------
    cover : Cover
        The cover.
    candidate : int
        Position of the candidate.
    scored : Scored
        Its rows.
    rate : float, optional
        What an error costs, ε / 2; with it, labelled public rows are a prior: see `handicap`.
    """

    def __init__(
        self, cover: Cover, candidate: int, scored: Scored, rate: float | None = None
    ) -> None:
        self.cover = cover
        self.candidate = candidate
        self.scored = scored
        self.rounds = cover.rounds
        self.radius = cover.radius
        self._rate = rate
        self.handicap = 0 if rate is None else self._handicap(rate)

    def _handicap(self, rate: float) -> int:
        """Return the errors that the public rows add to all members, up to one.

        Taken off, weights of public rows move mass among the members of a candidate and hardly
        from one candidate to another: scores are on the scale of private rows alone.
        """
        public = slice(self.scored.n_private, None)
        X, weights = self.scored.X[public], self.scored.weights[public]
        family = self.cover.family(tabulate(self.cover, X, self.scored.y_public, weights))
        total = math.log(family.prior_range[0])
        return math.floor((total - float(log_mass(family, rate))) / rate)

    @property
    def scouts(self) -> Cover:
        """The scouts of the cover."""
        return self._like(self.cover.scouts)

    def refined(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a finer cover around a rule of this candidate."""
        if not isinstance(hypothesis, Chosen) or hypothesis.candidate != self.candidate:
            return self
        return self._like(self.cover.refined(hypothesis.inner, step))

    def _like(self, cover: Cover) -> CandidateCover:
        if cover is self.cover:
            return self
        return CandidateCover(cover, self.candidate, self.scored, self._rate)

    @property
    def size(self) -> int:
        """Number of members."""
        return self.cover.size

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the table of the rows with given numbers, shape (n, 1)."""
        rows = X[:, 0].astype(np.intp)
        return self.cover.tabulate(self.scored.X[rows], y, weights * self.scored.weights[rows])

    def family(self, table: Integers) -> Family:
        """Return the members, less the handicap."""
        family = self.cover.family(table)
        if not self.handicap:
            return family
        return Product([family, Leaf(np.array([-self.handicap], dtype=np.int64))])

    def hypothesis(self, path: Path) -> Chosen:
        """Return a rule of this candidate."""
        inner = path[0] if self.handicap else path
        return Chosen(self.candidate, self.cover.hypothesis(inner))


def log_mass(family: Family, rate: float) -> Floats:
    """Return ln Σ prior · exp(-rate · errors) of each family of a batch, in floats.

    For public families only: nothing exact hangs on it.
    """
    if isinstance(family, Leaf):
        found = logsumexp(-rate * family.errors, axis=-1)
    elif isinstance(family, Product):
        found = sum(log_mass(factor, rate) for factor in family.factors)
    elif isinstance(family, Lazy):
        found = np.concatenate([log_mass(chunk, rate) for chunk in family.chunks()])
    else:
        if not isinstance(family, Choice | OneOf):
            raise TypeError(f"{type(family).__name__} is no family.")
        if isinstance(family, Choice):
            masses = log_mass(family.options, rate)
        else:
            masses = np.stack([log_mass(option, rate) for option in family.options], axis=-1)
        prior = [math.log(family.weight(option)) for option in range(masses.shape[-1])]
        found = logsumexp(masses + prior, axis=-1)
    return np.asarray(found, dtype=np.float64)


class FamilyFit:
    """Candidates of one family, ready to be drawn from as often as there is budget.

    Parameters
    ----------
    positions : list of int
        Places of the candidates in the search.
    candidates : list of Candidate
        The candidates; their learners know the labels.
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
        self._read = [self._reading(candidate) for candidate in candidates]

    @property
    def label(self) -> str:
        """What it is, for the receipt."""
        n = len(self.candidates)
        return "SemiPrivateClassifier" + (f" ({n} candidates, one draw)" if n > 1 else "")

    def candidate(self, position: int) -> Candidate:
        """Return the candidate at a place of the search."""
        return self.candidates[self.positions.index(position)]

    def _reading(self, candidate: Candidate) -> tuple[Any, Any, Cover, Scored]:
        """Return a learner that has read the rows, what it read, its cover and scored rows."""
        learner = clone(candidate.learner)
        features = self._rows.features(candidate)
        with warnings.catch_warnings():
            # rows under a mask are separate by now, and no cross-validation has cut them
            warnings.simplefilter("ignore", SlicedPublicDataWarning)
            rows = learner._read(features.X, self._rows.y, features.X_public, self._rows.y_public)
        X_private, _ = rows.in_memory()
        X = np.concatenate([X_private, rows.X_labelled])
        counts = [len(X_private), len(rows.X_labelled)]
        weights = np.repeat(np.array([1, int(learner.public_weight)]), counts)
        scored = Scored(X, weights.astype(np.int64), len(X_private), rows.targets.labelled)
        return learner, rows, learner._cover(rows), scored

    def fit(self, ledger: Ledger) -> Fit:
        """Draw with all of a ledger's ε."""
        parts = [scored for _, _, _, scored in self._read]
        numbers = np.arange(len(parts[0].X))[:, None]
        codes = np.concatenate([self._rows.codes, parts[0].y_public])
        public = [int(one.weights[one.n_private :].sum()) for one in parts]
        alike = len(set(public)) == 1
        rate = None if alike else float(ledger.epsilon) / 2
        covers = [
            CandidateCover(cover, place, scored, rate)
            for place, (_, _, cover, scored) in enumerate(self._read)
        ]
        whole = covers[0] if len(covers) == 1 else UnionCover(covers, _nothing())
        drawn = search_cover(
            whole,
            lambda cover: tabulate(cover, numbers, codes, n_jobs=self._n_jobs),
            ledger,
            sensitivity=1,  # a replaced private row has weight 1 for every candidate
            scored=len(self._rows) + (public[0] if alike else 0),
            beta=self._beta,
            name=NAME,
            proof=PROOF,
        )
        hypothesis = drawn.hypothesis
        assert isinstance(hypothesis, Chosen)
        read, rows, _, _ = self._read[hypothesis.candidate]
        learner = copy(read)
        learner._keep(rows, hypothesis.inner, _own(drawn.cover, hypothesis.candidate), None)
        if alike:  # else the errors of candidates are not counted on the same rows
            learner.certificate_ = drawn.certificate
        kept = (
            self._promise(whole, drawn, ledger.rows_per_person) if alike else no_guarantee(UNLIKE)
        )
        learner.guarantee_, learner.guarantee_reason_ = kept
        return Fit(self.positions[hypothesis.candidate], learner)

    def _promise(self, whole: Cover, drawn: DrawnRule, rows_per_person: int) -> Promise:
        """Say how far the drawn rule may be from the best of all candidates' classes."""
        weights = set()
        for candidate, (learner, rows, cover, scored) in zip(
            self.candidates, self._read, strict=True
        ):
            doubt = learner._doubt(cover, rows, self._rows.described, rows_per_person)
            if doubt is None and any(isinstance(step, PublicFit) for _, step in candidate.steps):
                doubt = FITTED_STEPS
            if doubt is not None:
                return no_guarantee(doubt)
            weights.add(int(scored.weights[scored.n_private :].sum()))

        def near(beta: float) -> float | None:
            # all of them hold at once, whichever was drawn
            beta /= len(self._read)
            errors = [learner._near(cover, rows, beta) for learner, rows, cover, _ in self._read]
            return None if None in errors else max(errors)

        (public,) = weights
        return excess_error_guarantee(
            whole,
            drawn,
            near,
            n=len(self._rows),
            beta=self._beta,
            public_weight=public,
            n_labelled=1,
        )


def _own(cover: Cover, candidate: int) -> Cover:
    """Return the cover of one candidate, of a union or alone."""
    covers: tuple[Any, ...] = cover.covers if isinstance(cover, UnionCover) else (cover,)
    found: Cover = next(one.cover for one in covers if one.candidate == candidate)
    return found


def _nothing() -> PublicSample:
    """Return no rows of one number each."""
    return PublicSample(np.zeros((0, 1)), np.array([0]), ("row",))
