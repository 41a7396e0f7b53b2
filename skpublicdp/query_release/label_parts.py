"""Learning rules from releases of features alone: Lemma 17 of Bassily et al. (2020).

The proof is in docs/proofs/guarantees.md, "A learner from releases of features".
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpublicdp._internal.redaction import call_or_raise
from skpublicdp.data.validation import read_array
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import dichotomies_radius
from skpublicdp.guarantees.population import check_ranges
from skpublicdp.hypotheses import Cover, Hypothesis, HypothesisClass, PublicSample
from skpublicdp.hypotheses.base import tabulate
from skpublicdp.query_release.queries.custom import CustomQueries
from skpublicdp.rules.population_guarantee import cover_error
from skpublicdp.typing import Codes, Floats

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


class LabelParts(NamedTuple):
    """Three tables of features from `label_parts`, which determine the error of any rule.

    Each table has one row per data row, in the same order, so the number of rows in a table is not
    private. Replacing a data row replaces one row of each table.

    Attributes
    ----------
    negative : ndarray of float64, shape (n, n_features)
        The rows with label 0. The first filler replaces all other rows.
    positive : ndarray of float64, shape (n, n_features)
        The rows with label 1. The first filler replaces all other rows.
    labels : ndarray of float64, shape (n, n_features)
        The first filler for rows with label 0, and the second filler for rows with label 1.
    """

    negative: Floats
    positive: Floats
    labels: Floats


def label_parts(X: ArrayLike, y: ArrayLike, fillers: ArrayLike) -> LabelParts:
    """Return the feature tables whose releases define a learner.

    These tables are as sensitive as the original rows. Release each table with a separate share of
    the budget, and pass the releases to `learner_from_label_parts`. Apply this function to both
    private and public rows, all of which need labels.

    Parameters
    ----------
    X : array-like of float, shape (n, n_features)
        Features.
    y : array-like of shape (n,)
        Labels, 0 or 1.
    fillers : array-like of float, shape (2, n_features)
        Two points that do not depend on private rows, such as two public rows.

    Returns
    -------
    LabelParts
        The tables.

    Raises
    ------
    ValueError
        If the shapes do not match, if X does not contain numbers, or if a label is not 0 or 1. The
        error message does not quote any values.

    Examples
    --------
    >>> label_parts([[5.0], [6.0]], [0, 1], fillers=[[1.0], [9.0]]).positive
    array([[1.],
           [6.]])
    """
    not_binary = ValueError(
        "y must contain only the labels 0 and 1, but some label has another value. The value is "
        "withheld, because it may be private."
    )
    points: Floats = read_array(X, np.float64, ensure_all_finite=False)
    is_positive, is_binary = call_or_raise(_read_labels, y, error=not_binary)
    fillers = np.asarray(fillers, dtype=np.float64)
    if fillers.shape != (2, points.shape[1]) or is_positive.shape != points.shape[:1]:
        raise ValueError(
            "X, y and fillers must have shapes (n, n_features), (n,) and (2, n_features); got "
            f"{points.shape}, {is_positive.shape} and {fillers.shape}."
        )
    if not is_binary:
        raise not_binary
    selector = is_positive[:, None]
    return LabelParts(
        negative=np.where(selector, fillers[0], points),
        positive=np.where(selector, points, fillers[0]),
        labels=np.where(selector, fillers[1], fillers[0]),
    )


def _read_labels(y: ArrayLike) -> tuple[NDArray[np.bool_], bool]:
    """Return a mask that is True for labels equal to 1, and whether all other labels are 0."""
    labels = np.asarray(y)
    is_positive = np.asarray(labels == 1, dtype=np.bool_)
    return is_positive, bool((is_positive | np.asarray(labels == 0, dtype=np.bool_)).all())


class QueryRule(Hypothesis):
    """Rule that predicts 1 for rows that satisfy a query of a release.

    The bounds of the release, which has a method ``holds(Q, X)``, contain those of the others.
    """

    def __init__(self, release: Any, query: Any) -> None:
        self.release, self.query = release, query

    def predict(self, X: Floats) -> Codes:
        """Return 1 for rows that satisfy the query and 0 for all other rows, shape (n,)."""
        return np.asarray(self.release.holds(self.query[None], X)[0], dtype=np.intp)

    def rule(self) -> str:
        """Return the rule as text, with the query in the user's format."""
        return f"predict 1 where the query {self.query.tolist()} holds, and 0 elsewhere"


def learner_from_label_parts(
    negative: Any,
    positive: Any,
    labels: Any,
    Q: ArrayLike,
    fillers: ArrayLike,
    *,
    X_public: ArrayLike | None = None,
    beta: float | None = None,
) -> LearnedRule:
    """Return the query with the smallest estimated error as a classifier, at no privacy cost.

    This function implements Lemma 17 of [1]_. The releases answer queries about features only,
    never about labels.

    Parameters
    ----------
    negative, positive, labels : object
        Releases of the same class of queries, such as `PAPQueryRelease`, fitted to the tables of
        `label_parts`. Each release has the methods ``answer(Q)`` and ``holds(Q, X)``. `labels` may
        instead be a pair (share, error) of a released fraction of rows with label 1 and a bound on
        its error, or ``None`` if all queries agree on the first filler.
    Q : array-like of shape (n_queries, ...)
        Candidate queries, one of which is chosen. They must not depend on private rows.
    fillers : array-like of float, shape (2, n_features)
        The two points that were passed to `label_parts`.
    X_public : array-like of float, shape (m, n_features), optional
        Features of public rows. For each labelling of these rows by the class, `Q` must contain a
        query. The guarantee is then relative to the best query of the class.
    beta : float, optional
        Probability, in (0, 1), that the distance between the class and `Q` exceeds the value
        assumed by the guarantee. Required with `X_public`.

    Returns
    -------
    LearnedRule
        ``rule.predict(X)`` is 1 for rows that satisfy the chosen query. The guarantee of the rule
        is ``2 (a + b) + 2 c + r`` for releases with the guarantees a, b and c, and the radius r of
        `Q` as a cover of the class, ``dichotomies_radius(m, beta, growth)``. The term 2c is 0 if
        all queries agree on the first filler, and r is 0 without `X_public`. The guarantee holds if
        the guarantees of all releases hold. Its failure probability is the sum of the failure
        probabilities of these guarantees and `beta`. The guarantee is ``None`` if a release has no
        guarantee.

    Raises
    ------
    ValueError
        If the queries in `Q` disagree on the first filler but no query distinguishes the two
        fillers, or if `X_public` is given without `beta`.

    Notes
    -----
    The paper draws rows until there are enough rows with each label, which increases the number of
    rows by a factor of order 1/(alpha^2 beta). Here, fillers keep the number of rows constant.

    References
    ----------
    .. [1] Bassily, Cheu, Moran, Nikolov, Ullman and Wu (2020), Lemma 17; Beimel, Nissim and Stemmer
       (2013), Theorem 5.5.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp import PAPQueryRelease
    >>> from skpublicdp.query_release import ThresholdQueries
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 10, size=(21_000, 1)).astype(float)
    >>> y = X[:, 0] <= 3
    >>> fillers = [[0.0], [9.0]]
    >>> private = label_parts(X[1000:], y[1000:], fillers)
    >>> public = label_parts(X[:1000], y[:1000], fillers)
    >>> negative, positive, labels = (
    ...     PAPQueryRelease(ThresholdQueries(), method="pmw", epsilon=0.3, random_state=0).fit(
    ...         rows, X_public=public_rows
    ...     )
    ...     for rows, public_rows in zip(private, public)
    ... )
    >>> Q = np.arange(-1.0, 10.0)[:, None]
    >>> learned = learner_from_label_parts(negative, positive, labels, Q, fillers)
    >>> learned.rule.query
    array([3.])
    """
    if X_public is not None and beta is None:
        raise ValueError("beta must be given if X_public is given; got None.")
    queries = np.asarray(Q)
    points = np.asarray(fillers, dtype=np.float64)
    filler = points[:1]
    # each release clips the fillers to its own bounds, like the rows of its table
    negative_filler = np.asarray(negative.holds(queries, filler))[:, 0]
    positive_filler = np.asarray(positive.holds(queries, filler))[:, 0]
    positive_answers = np.asarray(positive.answer(queries))
    scores = np.asarray(negative.answer(queries)) - positive_answers
    deviations = [_release_error(negative), _release_error(positive)]
    if _varies(negative_filler) or _varies(positive_filler):
        share, share_error = _label_share(labels, queries, points)
        scores = scores + (1 - share) * positive_filler - share * negative_filler
        deviations.append(share_error)
    best = queries[int(scores.argmin())]
    rule = QueryRule(_with_joint_bounds(positive, negative), best)
    bounds = [deviation for deviation in deviations if deviation is not None]
    if len(bounds) < len(deviations):
        return LearnedRule(rule, None)
    guarantee = 2 * sum(bounds)
    if X_public is not None and beta is not None:
        check_ranges(beta=beta)
        m, n_features = np.asarray(X_public).shape
        growth = positive.queries_.growth(2 * m, n_features)
        guarantee += dichotomies_radius(m, beta, growth)
    return LearnedRule(rule, min(1.0, guarantee))


def _release_error(release: Any) -> float | None:
    """Return the bound on the errors of all answers in a release, or None if no bound is proved."""
    return getattr(release, "guarantee_", None)


def _varies(answers: NDArray[np.bool_]) -> bool:
    """Indicate whether any two of the queries disagree at a point."""
    return bool(answers.any() and not answers.all())


def _with_joint_bounds(release: Any, other: Any) -> Any:
    """Return a copy of a release that clips rows to the union of the bounds of two releases.

    The default bounds of a release enclose the public rows of its table, i.e. the rows of one label
    and the filler. Rows of the other label may lie far outside and must not be clipped to these
    bounds.
    """
    schema, other_schema = getattr(release, "_schema", None), getattr(other, "_schema", None)
    if schema is None or other_schema is None:
        return release
    columns = tuple(
        replace(column, low=min(column.low, own.low), high=max(column.high, own.high))
        for column, own in zip(schema.columns, other_schema.columns, strict=True)
    )
    joint = copy(release)
    joint._schema = replace(schema, columns=columns)
    return joint


def _label_share(labels: Any, queries: Any, fillers: Floats) -> tuple[float, float | None]:
    """Return the released share of rows with label 1, and the bound on the error of this share."""
    if isinstance(labels, tuple):
        share, error = labels
        check_ranges(error=error)
        if not abs(share) < np.inf:
            raise ValueError(f"The share of label 1 in labels must be a number; got {share!r}.")
        return float(np.clip(share, 0, 1)), float(error)  # noise may exceed the limits
    at_fillers = None if labels is None else np.asarray(labels.holds(queries, fillers))
    if at_fillers is None or (at_fillers[:, 0] == at_fillers[:, 1]).all():
        raise ValueError(
            "Some queries in Q are true for the first filler and others are not, so their errors "
            "depend on the fraction of rows with label 1. Pass a release of the labels as labels, "
            "and choose two fillers for which some query in Q has different answers."
        )
    position = int((at_fillers[:, 0] != at_fillers[:, 1]).argmax())
    share = float(np.asarray(labels.answer(queries[position : position + 1]))[0])
    return (share if at_fillers[position, 1] else 1 - share), _release_error(labels)
