"""tracing_attack: membership inference from the answers of a query release."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from skpublicdp.audit.epsilon_bounds import clopper_pearson, epsilon_lower_bound
from skpublicdp.query_release import PAPQueryRelease
from skpublicdp.typing import Floats

CellPredicate = Callable[[Any, Any], Any]
"""Function that maps queries and rows to a mask of satisfied queries, (n_queries, n_rows)."""


class TracingRates(NamedTuple):
    """Error rates of a tracing attack at a single threshold."""

    threshold: float  # rows whose score is higher than the threshold are classified as members
    fpr: float  # false positive rate: fraction of non-members that are classified as members
    tpr: float  # true positive rate: fraction of members that are classified as members
    # confidence intervals (Clopper and Pearson 1934) of the false positive rate in the population,
    # and of the true positive rate among all members of this release
    fpr_interval: tuple[float, float]
    tpr_interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class TracingAttack:
    """Membership scores of an attack, with their error rates and a lower bound on ε.

    The scores depend on private rows without noise, so they must not be published.

    Attributes
    ----------
    member_scores : ndarray of shape (n_members,)
        Scores of members. A higher score is evidence for membership.
    non_member_scores : ndarray of shape (n_non_members,)
        Scores of rows that were not used in the release.
    """

    member_scores: Floats
    non_member_scores: Floats

    @property
    def auc(self) -> float:
        """Probability that a member's score exceeds a non-member's; 1/2 means random guessing."""
        # Mann-Whitney statistic; ties count one half
        ranks = rankdata(np.concatenate([self.member_scores, self.non_member_scores]))
        n, m = len(self.member_scores), len(self.non_member_scores)
        return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))

    def roc_curve(self) -> tuple[Floats, Floats]:
        """Return the ROC curve of the attack: false and true positive rates for all thresholds.

        Returns
        -------
        fpr, tpr : ndarray of float64
            Rates of shape (n_thresholds,), from (0, 0) to (1, 1).
        """
        thresholds = np.unique(np.concatenate([self.member_scores, self.non_member_scores]))

        def rates_above(scores: Floats) -> Floats:
            """Return the sorted fractions of scores above each threshold, plus a final 1."""
            n_at_or_below = np.searchsorted(np.sort(scores), thresholds, side="right")
            return np.sort(np.append(1 - n_at_or_below / len(scores), 1.0))

        return rates_above(self.non_member_scores), rates_above(self.member_scores)

    def rates(self, fpr: float = 0.01, level: float = 0.95) -> TracingRates:
        """Return the true positive rate at a small false positive rate.

        Parameters
        ----------
        fpr : float, default=0.01
            Maximum false positive rate, in [0, 1).
        level : float, default=0.95
            Confidence level of each individual interval, in (0, 1).

        Returns
        -------
        TracingRates
            Rates at the lowest threshold whose false positive rate is at most `fpr`. Both intervals
            are exact, since the threshold is an order statistic of the non-members' scores and,
            given the release and the threshold, the members are a random sample of all members.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        if not 0 <= fpr < 1:
            raise ValueError(f"fpr must lie in [0, 1); got {fpr!r}.")
        _check_level(level)
        n_members, n_non_members = len(self.member_scores), len(self.non_member_scores)
        descending = np.sort(self.non_member_scores)[::-1]
        threshold = float(descending[math.floor(fpr * n_non_members)])
        false_positives = int(np.count_nonzero(self.non_member_scores > threshold))
        true_positives = int(np.count_nonzero(self.member_scores > threshold))
        return TracingRates(
            threshold,
            false_positives / n_non_members,
            true_positives / n_members,
            clopper_pearson(false_positives, n_non_members, level),
            clopper_pearson(true_positives, n_members, level),
        )

    def epsilon_lower(self, level: float = 0.95, *, delta: float = 0.0) -> float:
        """Return a lower confidence bound on the release's ε; 0 if the attack proves no loss.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level of the bound, in (0, 1).
        delta : float, default=0.0
            Privacy parameter δ of the release.

        Returns
        -------
        float
            With probability `level`, the release is not (ε, δ)-differentially private (replace one
            row) for any smaller ε. A single release is sufficient, see Notes.

        Raises
        ------
        ValueError
            If a parameter is out of range.

        Notes
        -----
        Each member is paired with a non-member, and the attacker guesses which of the two was used.
        Given the pairs, a fair coin toss determined the member of each pair. Given the answers and
        all earlier coin tosses, a guess about an ε-differentially private release is correct with
        probability at most e^ε / (1 + e^ε). The number of correct guesses among r guesses is
        therefore stochastically dominated by Binomial(r, e^ε / (1 + e^ε)) [1]_, and the bound
        follows as in Clopper and Pearson. The attacker may abstain: guesses are made about all
        pairs, about the half of the pairs with the largest score differences, about the
        corresponding quarter, and so on. Each of these sets of guesses receives an equal part of 1
        - `level`.

        Members and non-members must be independent rows from one population, in random order. The
        other rows of the data must not depend on which rows are members.

        References
        ----------
        .. [1] T. Steinke, M. Nasr and M. Jagielski (2023). Privacy auditing with one (1) training
           run. NeurIPS. Theorem 5.1; with δ, Theorem 5.2.
        """
        _check_level(level)
        if not 0 <= delta < 1:
            raise ValueError(f"delta must lie in [0, 1); got {delta!r}.")
        n_pairs = min(len(self.member_scores), len(self.non_member_scores))
        differences = self.member_scores[:n_pairs] - self.non_member_scores[:n_pairs]
        descending = np.sort(np.abs(differences))[::-1]
        # all pairs, half of them, a quarter and so on, down to one
        guess_counts = [n_pairs >> halvings for halvings in range(n_pairs.bit_length())]
        best_bound = 0.0
        for min_guesses in guess_counts:
            is_guessed = np.abs(differences) >= descending[min_guesses - 1]
            # a tie is counted as an incorrect guess, so the order of rows does not matter
            n_correct = int(np.count_nonzero(differences[is_guessed] > 0))
            n_guesses = int(np.count_nonzero(is_guessed))
            failure = (1 - level) / len(guess_counts)  # union bound
            bound = epsilon_lower_bound(n_correct, n_guesses, n_pairs, delta, failure)
            best_bound = max(best_bound, bound)
        return best_bound

    def plot(self, *, epsilon: float | None = None, name: str | None = None, ax: Any = None) -> Any:
        """Draw the ROC curve.

        Parameters
        ----------
        epsilon : float, default=None
            If given, the region of rates permitted by ε-differential privacy is shaded.
        name : str, default=None
            Name of the attacked release, shown in the legend.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        plotting.TracingDisplay
            The display that was created.
        """
        from skpublicdp import plotting  # matplotlib is optional

        display: Any = plotting.TracingDisplay
        return display.from_attack(self, epsilon=epsilon, name=name, ax=ax)


def tracing_attack(
    release: Any,
    Q: Any,
    *,
    members: Any,
    non_members: Any,
    reference: Any,
    holds: CellPredicate | None = None,
) -> TracingAttack:
    """Infer, from the answers to many queries, which rows were used to compute the answers.

    The attacker knows the answers, the row of a person, and reference rows from the population. The
    score of this row measures how far the answers deviate from the population in the direction of
    the row, relative to the covariance of rows. If there are enough accurate answers, members
    usually have higher scores. Theorem 14 of [1]_ shows for every release that is too accurate for
    its number of rows that some population and some attacker exist for which this is so. The
    success of this attack is measured, not proved. With differentially private answers, every
    attack is limited by ε, regardless of the number of queries.

    Parameters
    ----------
    release : PAPQueryRelease, callable or array-like of shape (n_queries,)
        A fitted release, a function from `Q` to answers in [0, 1], or the answers.
    Q : array-like, DataFrame, dict or list of dict
        The queries that were answered.
    members : array-like or DataFrame, shape (n_members, n_features)
        Private rows from which the answers were computed, or a random sample of these rows.
    non_members : array-like or DataFrame, shape (n_non_members, n_features)
        Rows from the same population that were not used in the release.
    reference : array-like or DataFrame, shape (n_reference, n_features)
        At least two additional rows from the population. A larger number of rows makes the attack
        more accurate.
    holds : callable, default=None
        Function that accepts `Q` and rows and returns which queries hold for which rows, shape
        (n_queries, n_rows). The default is the method `holds` of a fitted release.

    Returns
    -------
    TracingAttack
        The scores, with a ROC curve and a lower bound on ε.

    Raises
    ------
    ValueError
        If `holds` is needed and missing, if shapes do not match, or if there are too few rows.

    See Also
    --------
    skpublicdp.guarantees.n_query_release_lower : Number of rows required for accurate private
    answers.

    Notes
    -----
    Let q denote the released answers and y the answers of a single row. Over the reference rows, y
    has mean μ and covariance C. The score is ``(y - μ) · C^-1 (q - μ)``, the most powerful linear
    score. If the answers of a row are independent with equal variances, the score is the inner
    product of Dwork et al. [2]_. C is estimated with shrinkage towards a multiple of the identity
    [3]_.

    References
    ----------
    .. [1] R. Bassily, A. Cheu, S. Moran, A. Nikolov, J. Ullman and Z. S. Wu (2020). Private query
       release assisted by public data. ICML. Theorems 13 and 14.
    .. [2] C. Dwork, A. Smith, T. Steinke, J. Ullman and S. Vadhan (2015). Robust traceability from
       trace amounts. FOCS. Theorem 17.
    .. [3] O. Ledoit and M. Wolf (2004). A well-conditioned estimator for large-dimensional
       covariance matrices. Journal of Multivariate Analysis 88.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp.audit import tracing_attack
    >>> rng = np.random.default_rng(0)
    >>> probabilities = rng.random(1000)
    >>> def people(n):
    ...     return (rng.random((n, 1000)) < probabilities).astype(float)
    >>> private, non_members, reference = people(100), people(100), people(1000)
    >>> def is_one(columns, X):
    ...     return X.T[columns] == 1
    >>> def exact(columns):
    ...     return private.mean(axis=0)[columns]
    >>> attack = tracing_attack(
    ...     exact,
    ...     np.arange(1000),
    ...     members=private,
    ...     non_members=non_members,
    ...     reference=reference,
    ...     holds=is_one,
    ... )
    >>> attack.auc > 0.95, attack.epsilon_lower() > 1
    (True, True)
    """
    if holds is None:
        if not isinstance(release, PAPQueryRelease):
            raise ValueError(
                "holds must be given unless release is a fitted PAPQueryRelease; got "
                f"{type(release).__name__}."
            )
        holds = release.holds
    answers = _released_answers(release, Q)
    tables = {"reference": reference, "members": members, "non_members": non_members}
    row_answers = {name: np.asarray(holds(Q, X), dtype=np.float64).T for name, X in tables.items()}
    for name, table in row_answers.items():
        if table.ndim != 2 or table.shape[1] != len(answers):
            raise ValueError(
                f"holds must return an array of shape ({len(answers)}, n_rows), with one entry per "
                f"query and row; for {name}, it returned shape {table.T.shape}."
            )
    reference_answers, member_answers, non_member_answers = row_answers.values()
    n_reference, n_members, n_non_members = (len(table) for table in row_answers.values())
    if n_reference < 2 or not n_members or not n_non_members:
        raise ValueError(
            "An attack requires at least two reference rows, one member and one non-member; got "
            f"{n_reference}, {n_members} and {n_non_members}."
        )
    mean = reference_answers.mean(axis=0)
    direction = _solve_shrunk_covariance(reference_answers - mean, answers - mean)
    return TracingAttack(
        (member_answers - mean) @ direction, (non_member_answers - mean) @ direction
    )


def _released_answers(release: Any, Q: Any) -> Floats:
    """Return the validated answers to the queries `Q`, shape (n_queries,)."""
    if isinstance(release, PAPQueryRelease):
        release = release.answer(Q)
    elif callable(release):
        release = release(Q)
    answers = np.asarray(release, dtype=np.float64)
    if answers.ndim != 1 or not np.isfinite(answers).all():
        raise ValueError(
            f"Answers must be finite numbers of shape (n_queries,); got shape {answers.shape}."
        )
    return answers


def _solve_shrunk_covariance(centred: Floats, vector: Floats) -> Floats:
    """Return C^-1 v for the Ledoit-Wolf estimate C of the covariance of centred rows.

    C = (1 - s) S + s m I, where S is the sample covariance, m is its mean eigenvalue and s is the
    shrinkage. Because of the Woodbury identity, only matrices of size n_rows by n_rows are
    computed.

    Parameters
    ----------
    centred : ndarray of float64, shape (n_rows, n_queries)
        Answers of the reference rows minus their mean.
    vector : ndarray of float64, shape (n_queries,)
        The vector v in the product.
    """
    n, p = centred.shape
    gram = centred @ centred.T / n
    mean_eigenvalue = float(np.trace(gram)) / p
    if mean_eigenvalue == 0:  # all rows are equal
        return vector
    squared_norm = float((gram**2).sum())
    dispersion = squared_norm - p * mean_eigenvalue**2  # squared distance of S from m I
    squared_diagonal = float((np.diagonal(gram) ** 2).sum())
    sampling_error = squared_diagonal - squared_norm / n
    shrinkage = min(1.0, sampling_error / dispersion) if dispersion > 0 else 1.0
    # with two rows the shrinkage is 0 up to rounding, and the inverse needs some regularisation
    min_shrinkage = math.sqrt(np.finfo(np.float64).eps)
    ridge = max(shrinkage, min_shrinkage) * mean_eigenvalue
    inner = (1 - shrinkage) * gram + ridge * np.eye(n)
    projections = centred @ vector  # (n_rows,)
    solution = np.linalg.solve(inner, projections)
    correction = (1 - shrinkage) / n * centred.T @ solution
    return (vector - correction) / ridge


def _check_level(level: float) -> None:
    """Raise ValueError unless a confidence level lies between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1); got {level!r}.")
