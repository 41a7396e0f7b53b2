"""Sample sizes and error bounds of `PPMHalfspaceClassifier` (private and public mixtures)."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from skpublicdp.guarantees.certificates import excess_error
from skpublicdp.guarantees.growth import check_ranges, growth_function, log_growth, smallest_integer
from skpublicdp.guarantees.population import Promise, capped_guarantee

MAX_CONE_FEATURES = 3
"""Maximum number of features for which the learner draws from cones."""

MAX_SUPPORT_POINTS = {1: 1000, 2: 320, 3: 19, 4: 7, 5: 6, 6: 7}
"""Maximum number of public rows that support halfspaces in `PPMHalfspaceClassifier(pool="paper")`,
by the dimension of their affine hull. In two and three dimensions they generate 2^26 cones. From
four dimensions on the table of all intersections sets the limit. From seven on no number fits."""


def cone_count(supports: int, d: int) -> int:
    """Count the cones of d halfspaces that points in general position support, 1 <= d <= 3.

    With the empty set and the whole space; on a line both half-lines of each point.
    """
    s = supports
    if d == 1:
        return 2 + 2 * s
    if d == 2:
        return 2 + 2 * s * max(0, s - 1) ** 2
    return 2 + 2 * s * max(0, s - 1) ** 2 * max(0, s - 2) ** 3


def support_loss(supports: int, beta: float, d: int) -> float:
    """Bound the loss from using a random subset of the public rows as supports.

    Parameters
    ----------
    supports : int
        Public rows that support halfspaces, a uniformly random subset.
    beta : float
        Probability, in (0, 1), with which the bound may fail, over the choice of the subset.
    d : int
        Number of dimensions of the public rows, at most that of features.

    Returns
    -------
    float
        ``1 - (beta / C(s, k))^(1 / (s - k))`` for s supports and k = d(d + 1)/2, at most 1. For
        any rows and any halfspace some cone errs on the rows on which the halfspace errs, and on
        at most this share of the public rows besides.

    Notes
    -----
    The cone that Corollary 4.4 gives for the supports and a given halfspace is a function of k of
    them: the nearest to the halfspace, v; two that make a facet at v with it, the first that a
    rotating plane meets; then one more for an edge at v, and its two neighbours. Further supports
    inside the cone or the halfspace do not change the cone, and all s - k others lie there. If a
    fixed set of k generates a cone that misses a share r of the other public rows, none of the
    missed rows is among the s - k with probability at most ``(1 - r)^(s - k)``. There are
    ``C(s, k)`` sets of k rows (sample compression, Littlestone and Warmuth 1986).

    Examples
    --------
    >>> round(support_loss(320, 0.05, 2), 3)
    0.057
    """
    check_ranges(beta=beta, d=d)
    k = d * (d + 1) // 2
    if supports <= k:
        return 1.0
    return -math.expm1((math.log(beta) - math.log(math.comb(supports, k))) / (supports - k))


def ppm_guarantee(
    n: int,
    n_public: int,
    supports: int,
    epsilon: float,
    beta: float,
    d: int,
    cover_size: int,
    *,
    n_dimensions: int,
    cones: bool,
) -> Promise:
    """Bound the excess error of the drawn rule over the best halfspace in the mixed population.

    Parameters
    ----------
    n : int
        Rows, private and public together, independent draws from the mixture.
    n_public : int
        Number of public rows among them.
    supports : int
        Number of public rows, chosen at random, that support halfspaces.
    epsilon : float
        Privacy budget of the draw.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    d : int
        Number of features.
    cover_size : int
        Number of rules, all equally likely.
    n_dimensions : int
        Dimension of the affine hull of the public rows.
    cones : bool
        Whether the rules are cones instead of all intersections of at most d halfspaces.

    Returns
    -------
    Promise
        The sum of three bounds: the loss from random supports (`support_loss`), from the private
        draw, and from sampling. See the agnostic case of `n_ppm` for cones and of `n_ppm_paper`
        for intersections.
    """
    check_ranges(beta=beta, epsilon=epsilon, d=d)
    beta_share = beta / (3 + (supports < n_public))
    k, _, log_reconstructions = _complexity(n, d, cones)
    cover_error = 0.0
    if supports < n_public:
        cover_error = support_loss(supports, beta_share, max(1, n_dimensions)) * n_public / n
    draw_error = excess_error(cover_size, n, epsilon, beta_share)
    sampling_error = _sampling(n, k, log_reconstructions, beta_share)
    reason = (
        f"With probability {1 - beta:g}, if the rows are independent draws from the mixture and "
        "all private rows have the private label, the excess error over the best halfspace is at "
        f"most {cover_error:.2g} (halfspaces of {supports} of {n_public} public rows) + "
        f"{draw_error:.2g} (draw) + {sampling_error:.2g} (sampling)"
    )
    return capped_guarantee(cover_error + draw_error + sampling_error, reason)


class _Complexity(NamedTuple):
    """Size of a family of rules, as the sampling bound needs it.

    Attributes
    ----------
    compression_size : int
        Number of rows that determine a rule; k in the Notes of `n_ppm`.
    log_members : float
        Natural logarithm of the number of rules, for the union bound over the private draw.
    log_reconstructions : float
        Natural logarithm of N in the Notes of `n_ppm`: the ways to build a rule from its k rows,
        in the space or in a proper flat. For the union bound over the sample.
    """

    compression_size: int
    log_members: float
    log_reconstructions: float


def _complexity(n_rows: int, n_features: int, cones: bool) -> _Complexity:
    """Count the rules that `n_rows` rows generate: cones, or intersections of halfspaces.

    The bound is by sample compression (Littlestone and Warmuth 1986): a rule is a function of k
    rows, and the other rows are a test set that is independent of it.
    """
    if cones:
        log_members = math.log(cone_count(n_rows, n_features))
        k = n_features * (n_features + 1) // 2
        return _Complexity(k, log_members, log_members + math.log(2))
    n_subsets = growth_function(n_rows, n_features)
    log_members = log_growth(2 * n_subsets, n_features)
    k = n_features * (n_features + 1)
    return _Complexity(k, log_members, log_members + math.log(n_subsets))


def _sampling(n: int, k: int, log_reconstructions: float, beta: float) -> float:
    if n <= k:
        return 1.0
    uniform = math.sqrt((log_reconstructions - math.log(beta)) / (2 * (n - k)))
    return k / n + uniform + math.sqrt(-math.log(beta) / (2 * n))


def n_ppm(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    *,
    realizable: bool = False,
    supports: int | Literal["shipped"] | None = "shipped",
    public_share: float = 1.0,
) -> int:
    """Count the rows, private and public together, of the halfspace learner on mixed populations.

    This is for `PPMHalfspaceClassifier` with ``pool="paper"`` and ``max_intersections=None``. Of an
    automatic pool nothing is proved, and with `alpha` it warns.

    Parameters
    ----------
    alpha : float
        Excess error over the best halfspace in the population, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        Number of features (not the VC dimension, which is one more).
    realizable : bool, default=False
        Whether some halfspace makes no error.
    supports : "shipped", int or None, default="shipped"
        Maximum number of public rows that support halfspaces. ``"shipped"`` is the number of the
        classifier: 1000, 320, 19, 7, 6 or 7 random public rows in one to six dimensions. An integer
        is another number, for at most three features. ``None`` means that all public rows support
        halfspaces. The classifier does that only where no more rows are public than it takes.
    public_share : float, default=1.0
        Maximum share of the rows that are public, in (0, 1]. The loss from a random choice of
        supports is a share of the public rows, so it is in proportion to this number.

    Returns
    -------
    int
        Rows needed. With ``supports=None`` and more than three features it is `n_ppm_paper`.

    Raises
    ------
    ValueError
        If no number of rows is enough for so few supports. From four features on this holds unless
        `public_share` is below `alpha`. From seven on the classifier supports no halfspaces.

    Notes
    -----
    Up to three features the rule is drawn from ``M(s)`` cones that s supports make: 2 + 2s on a
    line, 2 + 2s(s - 1)^2 in the plane and 2 + 2s(s - 1)^2 (s - 2)^3 in space. One of them errs on
    no more rows than the best halfspace and ``c`` times n, where c is `public_share` times
    `support_loss` (0 where all public rows support). The draw loses ``t = 2 ln(M(s) b / beta) /
    (epsilon n)``. A cone is determined by k = d(d + 1)/2 rows. With those of lower dimension, where
    supports lie in a proper flat, there are at most N = 2 M(n) reconstructions, each independent of
    the other n - k rows. With these numbers and c + t for t the inequalities are those of
    `n_ppm_paper`; b is 3 and 2 there and one more with supports at random. The shipped numbers of
    supports go by the dimensions that public rows span, which may be fewer than d: c + t is the
    largest of all of them.

    References
    ----------
    Bassily, Moran and Nandi (2020), Theorem 4.6.

    Examples
    --------
    >>> n_ppm(alpha=0.1, beta=0.05, epsilon=1.0, d=2)
    23688
    >>> n_ppm(alpha=0.1, beta=0.05, epsilon=1.0, d=2, public_share=0.5)
    7594
    >>> n_ppm(alpha=0.1, beta=0.05, epsilon=1.0, d=2, supports=None)
    3988
    >>> n_ppm(alpha=0.1, beta=0.05, epsilon=1.0, d=2, supports=None, realizable=True)
    1561
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, public_share=public_share)
    if public_share > 1:
        raise ValueError(f"public_share must be at most 1; got {public_share!r}.")
    cones = d <= MAX_CONE_FEATURES
    if supports is None:
        return _least_rows(alpha, beta, epsilon, d, realizable, cones)
    if supports == "shipped":
        if d not in MAX_SUPPORT_POINTS:
            raise ValueError(
                f'supports="shipped" is for at most {max(MAX_SUPPORT_POINTS)} features: with {d} '
                "the learner supports no halfspaces; give supports=None for the theorem itself."
            )
        numbers = {k: n for k, n in MAX_SUPPORT_POINTS.items() if k <= d}
    elif cones:
        numbers = {int(d): int(supports)}
    else:
        raise ValueError(
            f'supports must be "shipped" or None for more than {MAX_CONE_FEATURES} features; got '
            f"{supports!r}."
        )
    missed = max(support_loss(n, beta / 4, k) for k, n in numbers.items())
    if public_share * missed >= alpha:
        raise ValueError(
            f"No number of rows brings the error to alpha={alpha!r} with supports={supports!r} in "
            f"{d} dimensions, which may miss {public_share * missed:.2g} of the rows; give more "
            "supports or a smaller public_share."
        )
    return _least_rows(alpha, beta, epsilon, d, realizable, cones, numbers, public_share)


def n_ppm_paper(
    alpha: float, beta: float, epsilon: float, d: int, *, realizable: bool = False
) -> int:
    """Count the rows of Algorithm 2 of the paper, as it stands there.

    Parameters
    ----------
    alpha, beta, epsilon, d, realizable
        As for `n_ppm`.

    Returns
    -------
    int
        Rows needed. The paper has O(·) and defers the proof; see Notes for the constants.

    Notes
    -----
    Write W = ``growth_function(n, d)`` for the subsets of at most d rows. The family drawn from has
    at most ``G = growth_function(2 W, d)`` members, and one whose empirical error is no more than
    the best halfspace's (Corollary 4.4), so the draw loses ``t = 2 ln(G b / beta) / (epsilon n)``.
    A member is determined by at most k = d(d + 1) rows: d for each of d halfspaces and, where the
    public rows lie in a proper affine subspace, d that span it; there are at most N = G W
    reconstructions, each independent of the other n - k rows.

    - Agnostic, b = 3: Hoeffding on those rows, on which the error exceeds that on all n by at most
      k/n, and once for the best halfspace: ``t + k/n + sqrt(ln(3 N / beta) / (2 (n - k))) +
      sqrt(ln(3 / beta) / (2 n)) <= alpha``.
    - Realizable, b = 2: the error on the n - k rows is at most t n / (n - k), and a Binomial(n, p)
      is below n t with probability at most ``exp(-n (sqrt(p) - sqrt(t))^2)`` (Chernoff's bound, and
      relative entropy is at least the squared Hellinger distance): ``sqrt(t n / (n - k)) +
      sqrt(ln(2 N / beta) / (n - k)) <= sqrt(alpha)``; or the agnostic number if that is less.

    References
    ----------
    Bassily, Moran and Nandi (2020), Theorem 4.6.

    Examples
    --------
    >>> n_ppm_paper(alpha=0.1, beta=0.05, epsilon=1.0, d=2)
    5987
    >>> n_ppm_paper(alpha=0.1, beta=0.05, epsilon=1.0, d=2, realizable=True)
    2327
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d)
    return _least_rows(alpha, beta, epsilon, d, realizable, False)


def _least_rows(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    realizable: bool,
    cones: bool,
    supports: dict[int, int] | None = None,
    public_share: float = 1.0,
) -> int:
    """Return the least number of rows at which the bound is at most alpha.

    `supports` has the number of supporting rows for each number of dimensions that public rows may
    span; without it all public rows support halfspaces.
    """
    d = int(d)  # integers of numpy would overflow
    min_rows = _complexity(1, d, cones)[0] + 1

    def loss(n: int, beta_share: float) -> float:
        """Bound what cover and draw lose on the rows."""

        def draw(members: float) -> float:
            return 2 * (members - math.log(beta_share)) / (epsilon * n)

        if supports is None:
            return draw(_complexity(n, d, cones)[1])
        return max(
            public_share * support_loss(size, beta_share, k)
            + draw(_complexity(min(n, size), k, k <= MAX_CONE_FEATURES)[1])
            for k, size in supports.items()
        )

    def agnostic(n: int) -> bool:
        beta_share = beta / (3 if supports is None else 4)
        k, _, log_reconstructions = _complexity(n, d, cones)
        return loss(n, beta_share) + _sampling(n, k, log_reconstructions, beta_share) <= alpha

    def consistent(n: int) -> bool:
        beta_share = beta / (2 if supports is None else 3)
        k, _, log_reconstructions = _complexity(n, d, cones)
        sampling_rate = (log_reconstructions - math.log(beta_share)) / (n - k)
        return math.sqrt(loss(n, beta_share) * n / (n - k)) + math.sqrt(sampling_rate) <= math.sqrt(
            alpha
        )

    n = smallest_integer(agnostic, start=min_rows)
    return min(n, smallest_integer(consistent, start=min_rows)) if realizable else n
