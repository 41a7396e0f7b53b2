"""Queries for the errors of classification rules, and a learner that uses their answers.

The learner is the easier half of Lemma 17 of Bassily et al. (2020), which releases the rules on
rows without labels.
"""

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
"""Maximum number of rules, and hence of queries, in `ErrorQueries.of`."""


class ErrorQueries(CustomQueries):
    """Queries h ⊕ label, which hold if the prediction of a rule h differs from the label.

    An array of queries has shape (n_queries, 1) and contains positions in the list of rules.

    Parameters
    ----------
    rules : sequence of Hypothesis
        Rules chosen independently of private rows, for example the members of a cover (see `of`).

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
        super().__init__(self._evaluate_errors)
        self.rules = rules
        self._source: _CoverSource | None = None

    @classmethod
    def of(
        cls, hypotheses: HypothesisClass, X_public: ArrayLike, *, alpha: float = 1e-9
    ) -> ErrorQueries:
        """Return the queries for the members of a cover of a class with labels 0 and 1.

        Parameters
        ----------
        hypotheses : HypothesisClass
            The class to cover.
        X_public : array-like of float, shape (m, n_features)
            Public rows.
        alpha : float, default=1e-9
            Radius of the cover on the public rows. By default the cover has one rule per dichotomy.

        Returns
        -------
        ErrorQueries
            One query for each rule of the cover.

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
                f"{hypotheses!r} has {cover.size:.1e} rules on these public rows, but at most "
                f"{MAX_RULES} are allowed. Pass a larger alpha or fewer public rows."
            )
        no_rows = X[:0]  # only the list of members is needed, not their errors
        family = cover.family(tabulate(cover, no_rows, []))
        queries = cls([cover.hypothesis(path) for path, _, _ in family.members()])
        m, n_features = X.shape
        queries._source = _CoverSource(cover, hypotheses, m, n_features)
        return queries

    def cover_error(self, beta: float) -> float | None:
        """Return the radius of the listed rules, regarded as a cover of the class passed to `of`.

        Parameters
        ----------
        beta : float
            Failure probability of the bound over the public rows, in (0, 1).

        Returns
        -------
        float or None
            Upper bound on the fraction of the population on which a rule of the class differs from
            the nearest listed rule, if the public rows are independent draws from the population.
            The bound is 0 if the rules were passed as a list, since the class then consists of
            these rules. ``None`` if no bound is proved.
        """
        if self._source is None:  # the rules were passed as a list
            return 0.0
        cover, hypotheses, m, n_features = self._source
        return cover_error(cover, hypotheses, n_features, n_classes=2, m=m, beta=beta)

    def _evaluate_errors(self, rows: ArrayLike) -> NDArray[np.bool_]:
        """Indicate whether each rule errs on each row, shape (n, n_rules).

        The last column of `rows` contains the label code, and all other columns contain features.
        """
        rows = np.asarray(rows, dtype=np.float64)
        X, label_codes = rows[:, :-1], rows[:, -1]
        return np.column_stack([rule.predict(X) != label_codes for rule in self.rules])


class _CoverSource(NamedTuple):
    """Parameters of a cover whose members are the rules of `ErrorQueries`."""

    cover: Cover
    hypotheses: HypothesisClass  # the class covered by these rules
    # shape of the public rows from which the cover was built
    m: int
    n_features: int


class LearnedRule(NamedTuple):
    """A rule that was learned from a release.

    Attributes
    ----------
    rule : Hypothesis
        The rule with the smallest released error. ``rule.predict(X)`` returns label codes.
    guarantee : float or None
        Bound on the rule's excess error in the population over the best rule of a class, at most 1.
        The bound holds if no answer of the release errs by more than the release's `guarantee_`.
        The class consists of the listed rules. If `beta` is given, it is the class covered by
        `ErrorQueries.of`, and the bound may fail with this additional probability. ``None`` if no
        bound is proved.
    """

    rule: Hypothesis
    guarantee: float | None


def learner_from_release(
    release: Any, queries: ErrorQueries, *, beta: float | None = None
) -> LearnedRule:
    """Return the rule with the smallest released error, at no privacy cost.

    Lemma 17 of the paper learns from a release of the rules themselves, on rows without labels.
    This function implements the easier half of the lemma, since the release contains the errors of
    the rules.

    Parameters
    ----------
    release : object
        A release, for example `PAPQueryRelease`, fitted to rows whose last column is the label
        code. ``release.answer(Q)`` estimates the fraction of rows that satisfies each query.
    queries : ErrorQueries
        The queries answered by the release.
    beta : float, optional
        Probability, in (0, 1), that the radius of the cover exceeds the value assumed by
        `guarantee`. ``None`` returns a `guarantee` relative to the listed rules alone.

    Returns
    -------
    LearnedRule
        The rule and its guarantee. Suppose that all answers are within a of the true errors. Then
        the error of the returned rule exceeds its answer by at most a. The rule's answer is at most
        the answer of the best rule, which exceeds the best rule's error by at most a. Therefore the
        excess error is at most 2a. With `beta`, `ErrorQueries.cover_error` is added.

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
    all_positions = np.arange(len(queries.rules))[:, None]
    errors = np.asarray(release.answer(all_positions))
    max_deviation = getattr(release, "guarantee_", None)  # of an answer from the true error
    radius = 0.0 if beta is None else queries.cover_error(beta)
    guarantee = None
    if max_deviation is not None and radius is not None:
        guarantee = min(1.0, 2 * max_deviation + radius)
    return LearnedRule(queries.rules[int(errors.argmin())], guarantee)
