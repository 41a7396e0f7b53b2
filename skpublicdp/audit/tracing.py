"""tracing_attack: tell from answers who was among the rows they were computed from."""

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


class TracingRates(NamedTuple):
    """How often rows are said to be members, at one threshold.

    Attributes
    ----------
    threshold : float
        Rows with a higher score are said to be members.
    fpr : float
        Share of the non-members of whom it is said.
    tpr : float
        Share of the members of whom it is said.
    fpr_interval, tpr_interval : tuple of float
        Low and high of these shares among all of the population, and among all members of this
        release (Clopper and Pearson 1934).
    """

    threshold: float
    fpr: float
    tpr: float
    fpr_interval: tuple[float, float]
    tpr_interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class TracingAttack:
    """What an attacker makes of the answers, and what that proves of them.

    It depends on private rows without noise: do not publish it.

    Attributes
    ----------
    member_scores : ndarray of shape (n_members,)
        Higher scores speak for membership.
    non_member_scores : ndarray of shape (n_non_members,)
        Those of rows that were not used.
    """

    member_scores: Floats
    non_member_scores: Floats

    @property
    def auc(self) -> float:
        """Chance that a member's score is above a non-member's; 1/2 tells nothing."""
        ranks = rankdata(np.concatenate([self.member_scores, self.non_member_scores]))
        n, m = len(self.member_scores), len(self.non_member_scores)
        return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))

    def roc_curve(self) -> tuple[Floats, Floats]:
        """Return false and true positive rates for all thresholds.

        Returns
        -------
        fpr, tpr : ndarray of float64
            From (0, 0) to (1, 1).
        """
        cuts = np.unique(np.concatenate([self.member_scores, self.non_member_scores]))
        rates = [
            np.append(1 - np.searchsorted(np.sort(scores), cuts, side="right") / len(scores), 1.0)
            for scores in (self.non_member_scores, self.member_scores)
        ]
        return np.sort(rates[0]), np.sort(rates[1])

    def rates(self, fpr: float = 0.01, level: float = 0.95) -> TracingRates:
        """Return how many members are found where few others are taken for members.

        Parameters
        ----------
        fpr : float, default=0.01
            Share, in [0, 1), of the non-members that may be taken for members.
        level : float, default=0.95
            Of each interval by itself, in (0, 1).

        Returns
        -------
        TracingRates
            At the lowest threshold with no more false positives. Both intervals are exact: the
            threshold is an order statistic of the non-members' scores, and given the release and
            the threshold, members are a random part of all members.

        Raises
        ------
        ValueError
            If a parameter is out of its range.
        """
        if not 0 <= fpr < 1:
            raise ValueError(f"fpr must lie in [0, 1); got {fpr!r}.")
        _check_level(level)
        others = np.sort(self.non_member_scores)[::-1]
        threshold = float(others[math.floor(fpr * len(others))])
        found = [
            (int(np.count_nonzero(scores > threshold)), len(scores))
            for scores in (self.non_member_scores, self.member_scores)
        ]
        (false, n_others), (true, n_members) = found
        return TracingRates(
            threshold,
            false / n_others,
            true / n_members,
            clopper_pearson(false, n_others, level),
            clopper_pearson(true, n_members, level),
        )

    def epsilon_lower(self, level: float = 0.95, *, delta: float = 0.0) -> float:
        """Return an ε that the release exceeds, or 0 where the attack proves nothing.

        Parameters
        ----------
        level : float, default=0.95
            How often the bound must hold, in (0, 1).
        delta : float, default=0.0
            The release's δ.

        Returns
        -------
        float
            With probability `level` the release is not (ε, δ)-differentially private, one row
            replaced, for any smaller ε. One run is enough; see Notes.

        Raises
        ------
        ValueError
            If a parameter is out of its range.

        Notes
        -----
        Each member is paired with a non-member, and the attacker guesses which of the two was used.
        Given the pairs, a fair coin tossed for each decided it. Given the answers and all earlier
        coins, an ε-differentially private release leaves a guess right with probability at most
        e^ε / (1 + e^ε), so the right ones of r guesses are at most Binomial(r, e^ε / (1 + e^ε))
        [1]_; the bound is that of Clopper and Pearson. The attacker may abstain by the scores: the
        pairs whose scores differ most are taken, all of them, half, a quarter and so on, each at
        its part of 1 - `level`.

        It needs members and non-members that are independent rows of one population, in random
        order, with all else in the data the same whoever is a member.

        References
        ----------
        .. [1] T. Steinke, M. Nasr and M. Jagielski (2023). Privacy auditing with one (1) training
           run. NeurIPS. Theorem 5.1; with δ, Theorem 5.2.
        """
        _check_level(level)
        if not 0 <= delta < 1:
            raise ValueError(f"delta must lie in [0, 1); got {delta!r}.")
        pairs = min(len(self.member_scores), len(self.non_member_scores))
        differences = self.member_scores[:pairs] - self.non_member_scores[:pairs]
        ahead = np.sort(np.abs(differences))[::-1]
        taken = [pairs >> halvings for halvings in range(pairs.bit_length())]
        best = 0.0
        for wanted in taken:
            certain = np.abs(differences) >= ahead[wanted - 1]
            # of a tie, whatever order the rows came in, none is right
            right = int(np.count_nonzero(differences[certain] > 0))
            guesses = int(np.count_nonzero(certain))
            failure = (1 - level) / len(taken)
            best = max(best, epsilon_lower_bound(right, guesses, pairs, delta, failure))
        return best

    def plot(self, *, epsilon: float | None = None, name: str | None = None, ax: Any = None) -> Any:
        """Draw the ROC curve.

        Parameters
        ----------
        epsilon : float, default=None
            Shades the rates that ε-differential privacy allows.
        name : str, default=None
            What was attacked, for the legend.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        plotting.TracingDisplay
            The picture.
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
    """Try to tell from many answers who was among the private rows.

    The attacker knows the answers, the population through reference rows, and somebody's row. The
    row's score is how far the answers lean towards it, away from the population, in units in which
    all that rows differ in counts the same. Enough answers that are exact, or nearly, give members
    away (Theorems 13 and 14 of [1]_); differentially private ones do not, however many they are.

    Parameters
    ----------
    release : PAPQueryRelease, callable or array-like of shape (n_queries,)
        A fitted release, or a function from `Q` to answers in [0, 1], or the answers.
    Q : array-like, DataFrame, dict or list of dict
        Queries.
    members : array-like or DataFrame, shape (n_members, n_features)
        Private rows that the answers were computed from; all of them or a random part.
    non_members : array-like or DataFrame, shape (n_non_members, n_features)
        Rows of the same population that were not used.
    reference : array-like or DataFrame, shape (n_reference, n_features)
        Further such rows, at least two, from which the attacker learns the population. The attack
        is the better the more there are.
    holds : callable, default=None
        Takes `Q` and rows and returns which queries hold for which rows, shape (n_queries, n_rows);
        by default that of a fitted release.

    Returns
    -------
    TracingAttack
        The scores, the ROC curve and the ε that they prove to be exceeded.

    Raises
    ------
    ValueError
        If `holds` is needed and missing, shapes do not fit, or there are too few rows.

    See Also
    --------
    skpublicdp.guarantees.n_query_release_lower : Rows without which accurate answers are traceable.

    Notes
    -----
    Let y hold a row's own answers, and the reference rows' have mean μ and covariance C. The score
    is ``(y - μ) · C^-1 (q - μ)``: the inner product of Dwork et al. [2]_ where the answers of a row
    are independent and vary equally, and in general the linear score that tells members best. C is
    shrunk towards a multiple of the identity, as far as the number of reference rows demands [3]_.

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
    >>> shares = rng.random(1000)
    >>> def people(n):
    ...     return (rng.random((n, 1000)) < shares).astype(float)
    >>> private, others, reference = people(100), people(100), people(1000)
    >>> def is_one(columns, X):
    ...     return X.T[columns] == 1
    >>> def exact(columns):
    ...     return private.mean(axis=0)[columns]
    >>> attack = tracing_attack(
    ...     exact,
    ...     np.arange(1000),
    ...     members=private,
    ...     non_members=others,
    ...     reference=reference,
    ...     holds=is_one,
    ... )
    >>> attack.auc > 0.95, attack.epsilon_lower() > 1
    (True, True)
    """
    fitted = isinstance(release, PAPQueryRelease)
    if holds is None and not fitted:
        raise ValueError(
            "holds must be given unless release is a fitted PAPQueryRelease; got "
            f"{type(release).__name__}."
        )
    answers = release.answer(Q) if fitted else release(Q) if callable(release) else release
    q = np.asarray(answers, dtype=np.float64)
    if q.ndim != 1 or not np.isfinite(q).all():
        raise ValueError(
            f"Answers must be finite numbers of shape (n_queries,); got shape {q.shape}."
        )
    tables = {"reference": reference, "members": members, "non_members": non_members}
    if holds is None:
        holds = release.holds
    rows = {name: np.asarray(holds(Q, X), dtype=np.float64).T for name, X in tables.items()}
    for name, found in rows.items():
        if found.ndim != 2 or found.shape[1] != len(q):
            raise ValueError(
                f"There must be an answer of each row to each of {len(q)} queries; for {name} "
                f"holds returned shape {found.T.shape}."
            )
    known, inside, outside = rows.values()
    if len(known) < 2 or not len(inside) or not len(outside):
        raise ValueError(
            "An attack needs at least two reference rows, a member and a non-member; got "
            f"{len(known)}, {len(inside)} and {len(outside)}."
        )
    centre = known.mean(axis=0)
    towards = _whiten(known - centre, q - centre)
    return TracingAttack((inside - centre) @ towards, (outside - centre) @ towards)


def _whiten(known: Floats, v: Floats) -> Floats:
    """Return C^-1 v for the shrunk covariance C of centred rows; only n by n matrices are made."""
    n, p = known.shape
    gram = known @ known.T / n
    scale = float(np.trace(gram)) / p
    if scale == 0:  # all rows are alike: there is nothing to weigh
        return v
    squares = float((gram**2).sum())
    away = squares - p * scale**2  # of the sample covariance from the multiple of the identity
    noise = float((np.diagonal(gram) ** 2).sum()) - squares / n
    shrinkage = min(1.0, noise / away) if away > 0 else 1.0
    ridge = shrinkage * scale
    if ridge == 0:
        ridge = np.finfo(np.float64).eps * scale
    inner = (1 - shrinkage) * gram + ridge * np.eye(n)
    found: Floats = (v - (1 - shrinkage) / n * known.T @ np.linalg.solve(inner, known @ v)) / ridge
    return found


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1); got {level!r}.")
