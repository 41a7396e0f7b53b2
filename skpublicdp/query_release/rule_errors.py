"""Learning from a release of the errors of rules; Lemma 17 of Bassily et al. (2020) is harder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.hypotheses import Cover, Hypothesis, HypothesisClass, PublicSample
from skpublicdp.hypotheses.base import tabulate
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.rules.population_guarantee import cover_error

MAX_RULES = 1 << 12
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
        self._covered: tuple[Cover, HypothesisClass, tuple[int, ...]] | None = None

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
        if cover.size > MAX_RULES:
            raise CoverSizeError(
                f"{hypotheses!r} has {cover.size:.1e} rules on these public rows and {MAX_RULES} "
                "are allowed; raise alpha or give fewer public rows."
            )
        family = cover.family(tabulate(cover, X[:0], []))
        queries = cls([cover.hypothesis(path) for path, _, _ in family.members()])
        queries._covered = cover, hypotheses, X.shape
        return queries

    def cover_error(self, beta: float) -> float | None:
        """Bound how far any rule of the class of `of` is from the nearest listed one.

        Parameters
        ----------
        beta : float
            Probability, in (0, 1), with which the bound may fail, over the public rows.

        Returns
        -------
        float or None
            Share of the population on which the two disagree, if the public rows are independent
            draws from it. 0 for rules that were listed: these are the class. ``None`` where nothing
            is proved.
        """
        if self._covered is None:
            return 0.0
        cover, hypotheses, (m, n_features) = self._covered
        return cover_error(cover, hypotheses, n_features, 2, m, beta)

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
        this share of the population more than the best of a class. The class is that of the listed
        rules. With `beta` it is the class that `ErrorQueries.of` covered, for which the bound may
        fail with that probability more. None where nothing is proved, and at most 1.
    """

    rule: Hypothesis
    guarantee: float | None


def learner_from_release(
    release: Any, queries: ErrorQueries, *, beta: float | None = None
) -> Learned:
    """Learn from any release of the errors of rules, at no cost of privacy.

    The paper's Lemma 17 takes a release of the rules themselves, on rows without labels, and makes
    a learner of it. This is the easier half: what is released here are the errors.

    Parameters
    ----------
    release : object
        Fitted to rows with their labels' codes as the last column: ``release.answer(Q)`` estimates
        the share of them that satisfies each query, such as `PAPQueryRelease`.
    queries : ErrorQueries
        What was released.
    beta : float, optional
        Probability, in (0, 1), with which the rules may cover their class worse than `guarantee`
        takes for granted. ``None`` is for a `guarantee` over the listed rules alone.

    Returns
    -------
    Learned
        The rule with the least answer. Where all answers are within a of the truth, its error is
        within a of its answer, which is at most that of the best rule, which is within a of its
        error: at most 2a is lost. With `beta`, `ErrorQueries.cover_error` adds to it.

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
    error = getattr(release, "guarantee_", None)
    radius = 0.0 if beta is None else queries.cover_error(beta)
    guarantee = None if error is None or radius is None else min(1.0, 2 * error + radius)
    return Learned(queries.rules[int(answers.argmin())], guarantee)
