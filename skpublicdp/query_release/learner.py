"""Learning from a release: Lemma 17 of Bassily et al. (2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.hypotheses import Hypothesis, HypothesisClass, PublicSample
from skpublicdp.hypotheses.base import tabulate
from skpublicdp.query_release.listed import CustomQueries

MOST_RULES = 1 << 12
"""More rules are refused: each is a query."""


class ErrorQueries(CustomQueries):
    """Queries h ⊕ label: is a rule wrong about a row, whose last column is its label's code.

    An array of queries has shape (n_queries, 1): positions in the list of rules.

    Parameters
    ----------
    rules : sequence of Hypothesis
        Chosen without looking at a private row, such as the members of a cover: see `of`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp.hypotheses import Thresholds
    >>> errors = ErrorQueries.of(Thresholds(), [[0.0], [1.0]])
    >>> print(errors.rules[0])
    if x0 > 0.5:
        predict 1
    else:
        predict 0
    >>> errors.holds([[0]], np.array([[0.0, 0], [0.0, 1], [1.0, 1]]))
    array([[False,  True, False]])
    """

    def __init__(self, rules: Sequence[Hypothesis]) -> None:
        super().__init__(self._wrong)
        self.rules = rules

    @classmethod
    def of(
        cls, hypotheses: HypothesisClass, X_public: ArrayLike, *, alpha: float = 1e-9
    ) -> ErrorQueries:
        """List the members of a cover of a class of two labels, 0 and 1.

        Parameters
        ----------
        hypotheses : HypothesisClass
            The class.
        X_public : array-like of float, shape (m, n_features)
            Public rows.
        alpha : float, default=1e-9
            Radius of the cover on the public rows; by default one rule for each dichotomy.

        Returns
        -------
        ErrorQueries
            The queries.

        Raises
        ------
        CoverSizeError
            If there are more than 4096 rules.
        """
        X = np.asarray(X_public, dtype=np.float64)
        names = tuple(f"x{column}" for column in range(X.shape[1]))
        cover = hypotheses.build_cover(
            PublicSample(X, np.array([0, 1]), names), alpha=alpha, beta=alpha
        )
        if cover.size > MOST_RULES:
            raise CoverSizeError(
                f"{hypotheses!r} has {cover.size:.1e} rules on these public rows and {MOST_RULES} "
                "are allowed; raise alpha or give fewer public rows."
            )
        family = cover.family(tabulate(cover, X[:0], []))
        return cls([cover.hypothesis(path) for path, _, _ in family.members()])

    def _wrong(self, rows: ArrayLike) -> NDArray[np.bool_]:
        rows = np.asarray(rows, dtype=np.float64)
        X, codes = rows[:, :-1], rows[:, -1]
        return np.column_stack([rule.predict(X) != codes for rule in self.rules])


class Learned(NamedTuple):
    """A rule learned from a release.

    Attributes
    ----------
    rule : Hypothesis
        The rule with the least released error; ``rule.predict(X)`` returns codes of labels.
    guarantee : float or None
        If no answer of the release errs by more than its `guarantee_`, the rule errs on at most
        this share of the population more than the best one. None if the release guarantees nothing.
    """

    rule: Hypothesis
    guarantee: float | None


def learner_from_release(release: Any, queries: ErrorQueries) -> Learned:
    """Learn from any release of the errors of rules, at no cost of privacy.

    Parameters
    ----------
    release : object
        Fitted to rows with their labels' codes as the last column: ``release.answer(Q)`` estimates
        the share of them that satisfies each query, such as `PAPQueryRelease`.
    queries : ErrorQueries
        What was released.

    Returns
    -------
    Learned
        The rule with the least answer. Where all answers are within a of the truth, its error is
        within a of its answer, which is at most that of the best rule, which is within a of its
        error: at most 2a is lost. Over a class that the rules cover, the radius adds to it.

    References
    ----------
    Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Lemma 17; Beimel, Nissim and Stemmer
    (2013), Theorem 5.5.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import PAPQueryRelease
    >>> from skpublicdp.hypotheses import Thresholds
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 10, size=(5000, 1)).astype(float)
    >>> rows = np.column_stack([X, X[:, 0] > 3])
    >>> errors = ErrorQueries.of(Thresholds(), np.arange(10.0)[:, None])
    >>> release = PAPQueryRelease(errors, epsilon=1.0, random_state=0)
    >>> release = release.fit(rows, X_public=rows[:100].copy())
    >>> print(learner_from_release(release, errors).rule)
    if x0 > 3.5:
        predict 1
    else:
        predict 0
    """
    answers = np.asarray(release.answer(np.arange(len(queries.rules))[:, None]))
    known = getattr(release, "guarantee_", None)
    return Learned(
        queries.rules[int(answers.argmin())], None if known is None else min(1.0, 2 * known)
    )
