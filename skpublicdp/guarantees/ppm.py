"""Sample sizes and error bounds for mixtures of private and public rows: halfspaces and boxes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, NamedTuple

from scipy.special import betainccinv

from skpublicdp.guarantees.label_boost import relative_deviation_bound
from skpublicdp.guarantees.population import (
    Promise,
    capped_guarantee,
    check_ranges,
    excess_error,
    growth_function,
    log_growth,
    smallest_integer,
    uniform_error,
)

MAX_CONE_FEATURES = 3
"""Maximum number of features with which the learner draws from cones."""

MAX_SUPPORT_POINTS = {1: 1000, 2: 320, 3: 19, 4: 7, 5: 6, 6: 7}
"""Maximum number of supporting public rows with ``pool="paper"``, by dimension of their hull.

In two and three dimensions, this number of points generates 2^26 cones. In four to six dimensions,
the limit is due to the table of all intersections. In seven or more dimensions, no number of points
is feasible."""


MIN_TAIL_PROBABILITY = 1e-290
"""Smallest tail probability, given the range of floats, for which a confidence limit is computed.
"""


def cone_count(supports: int, d: int) -> int:
    """Return the number of cones of d halfspaces through points in general position, 1 <= d <= 3.

    The number includes the empty set and the entire space. On a line, the cones are the half-lines.
    """
    s = supports  # as in the Notes of `n_ppm`; the first 2 are the empty set and the whole space
    if d == 1:
        return 2 + 2 * s
    if d == 2:
        return 2 + 2 * s * max(0, s - 1) ** 2
    return 2 + 2 * s * max(0, s - 1) ** 2 * max(0, s - 2) ** 3


def support_loss(supports: int, beta: float, d: int) -> float:
    """Return a bound on the error due to a random choice of supporting public rows.

    Notes
    -----
    The cone of Corollary 4.4 for the supports and a given halfspace is a function of k of the
    supports. In space, these are the point v nearest to the halfspace, the two points of a facet at
    v that a rotating plane meets first, one further point for an edge at v, and the two neighbours
    of this edge. Additional supports inside the cone or the halfspace do not change the cone, and
    all s - k other supports lie there. Suppose that a fixed set of k rows generates a cone that
    misses a fraction r of the other public rows. Then the remaining s - k rows contain no missed
    row with probability at most ``(1 - r)^(s - k)``. The number of sets of k rows is ``C(s, k)``
    (sample compression, Littlestone and Warmuth 1986).

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
    status_error: float = 0.0,
) -> Promise:
    """Return a bound on the excess error over the best halfspace in the mixed population.

    Parameters
    ----------
    n : int
        Number of private and public rows together, which are independent draws from the mixture.
    n_public : int
        Number of public rows among these rows.
    supports : int
        Number of randomly chosen public rows that support halfspaces.
    epsilon : float
        Privacy budget of the draw.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    d : int
        Number of features.
    cover_size : int
        Number of rules, which are all equally likely.
    n_dimensions : int
        Dimension of the affine hull of the public rows.
    cones : bool
        Whether the rules are cones instead of all intersections of at most d halfspaces.
    status_error : float, default=0.0
        Maximum probability that a row of the population is private and has the public label.
    """
    check_ranges(beta=beta, epsilon=epsilon, d=d)
    is_random_subset = supports < n_public
    # the draw, sampling of the rule, sampling of the best halfspace, and the choice of supports
    beta_share = beta / (4 if is_random_subset else 3)
    cover_error = 0.0
    if is_random_subset:
        cover_error = support_loss(supports, beta_share, max(1, n_dimensions)) * n_public / n
    draw_error = excess_error(cover_size, n, epsilon, beta_share)
    sampling_error = _sampling_error(n, d, beta_share, cones)
    reason = (
        f"With probability {1 - beta:g}, if the rows are independent draws from the mixture and "
        f"{status_assumption(status_error)}, the excess error over the best halfspace is at "
        f"most {cover_error:.2g} (halfspaces of {supports} of {n_public} public rows) + "
        f"{draw_error:.2g} (draw) + {sampling_error:.2g} (sampling)"
    )
    if status_error:
        reason += f" + {status_error:g} (status_error)"
    return capped_guarantee(cover_error + draw_error + sampling_error + status_error, reason)


def status_assumption(status_error: float) -> str:
    """Return, in words, what a bound assumes about the labels of private rows."""
    if not status_error:
        return "all private rows have the private label"
    return f"at most a share {status_error:g} of them are private and have the public label"


class ErrorCounts(NamedTuple):
    """Errors of a drawn rule on rows that did not generate its family."""

    n_private: int  # number of private rows
    # number of private rows that the rule mislabels, plus discrete Laplace noise
    noisy_private_errors: int
    # scale b of the noise: the probability of z is proportional to exp(-abs(z) / b)
    noise_scale: Fraction
    n_public: int  # number of public rows
    n_held_out: int  # number of public rows that did not generate halfspaces
    held_out_errors: int  # number of held-out public rows that the rule mislabels


def evaluated_guarantee(counts: ErrorCounts, beta: float, log_rules: float) -> Promise:
    """Return a bound on a drawn rule's error in the mixed population, using counted errors.

    A bound on the error is also a bound on the excess error over the best halfspace, or over any
    other rule. The bound holds for any mechanism that determines the status of rows.

    Parameters
    ----------
    counts : ErrorCounts
        The counted errors.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    log_rules : float
        Natural logarithm of the number of rules that can be drawn, given the public rows that
        generate halfspaces.
    """
    check_ranges(beta=beta)
    beta_share = beta / 4
    max_private_errors = counts.noisy_private_errors + laplace_quantile(
        counts.noise_scale, beta_share
    )
    max_private_errors = min(max(max_private_errors, 0), counts.n_private)
    log_beta_per_rule = math.log(beta_share) - log_rules
    private_error = upper_binomial_limit(max_private_errors, counts.n_private, log_beta_per_rule)
    public_error = upper_binomial_limit(
        counts.held_out_errors, counts.n_held_out, log_beta_per_rule
    )
    n = counts.n_private + counts.n_public
    log_beta_per_side = math.log(beta_share / 2)
    max_public_share = upper_binomial_limit(counts.n_public, n, log_beta_per_side)
    max_private_share = upper_binomial_limit(counts.n_private, n, log_beta_per_side)
    # the share of public rows at which the error is largest
    is_largest = public_error > private_error
    public_share = max_public_share if is_largest else 1 - max_private_share
    error = public_share * public_error + (1 - public_share) * private_error
    reason = (
        f"With probability {1 - beta:g}, if the rows are independent draws from the mixture, the "
        f"error is at most {error:.2g}, and so is the excess error over the best halfspace: at "
        f"most {private_error:.2g} on private rows (about {max(counts.noisy_private_errors, 0)} "
        f"errors in {counts.n_private} rows, counted with noise) and {public_error:.2g} on public "
        f"rows ({counts.held_out_errors} errors in {counts.n_held_out} held-out rows)"
    )
    return capped_guarantee(error, reason)


def laplace_quantile(scale: Fraction, beta: float) -> int:
    """Return the smallest integer t >= 0 with P(Z < -t) <= beta for discrete Laplace noise Z.

    At scale b, the probability that Z is below -t is ``exp(-(t + 1) / b) / (1 + exp(-1 / b))``.
    """
    rate = 1 / float(scale)
    # log of the probability that Z < 0; it falls by the rate for each further integer
    log_negative = -rate - math.log1p(math.exp(-rate))
    return max(0, math.ceil((log_negative - math.log(beta)) / rate))


def upper_binomial_limit(successes: int, n: int, log_beta: float) -> float:
    """Return the upper Clopper-Pearson (1934) confidence limit of a binomial probability.

    Examples
    --------
    >>> round(upper_binomial_limit(0, 100, math.log(0.05)), 4)
    0.0295
    """
    if successes >= n:
        return 1.0
    beta = math.exp(log_beta)
    if beta < MIN_TAIL_PROBABILITY:
        return 1.0
    return float(betainccinv(successes + 1, n - successes, beta))


class Complexity(NamedTuple):
    """Size of a family of halfspace intersections or cones, for the bound on the sampling error."""

    # number of rows that determine a rule, denoted by k in the Notes of `n_ppm`
    compression_size: int
    # natural logarithm of the number of rules, used in the union bound for the private draw
    log_members: float
    # Natural logarithm of N in the Notes of `n_ppm`, which is the number of ways to construct a
    # rule from its k rows, including rows that span a flat of lower dimension. This number is used
    # in the union bound for sampling.
    log_reconstructions: float


def _complexity(n_rows: int, n_features: int, cones: bool) -> Complexity:
    """Return the size of the family of rules generated by `n_rows` rows.

    The rules are either cones or intersections of at most `n_features` halfspaces. The bound uses
    sample compression (Littlestone and Warmuth 1986): a rule is a function of k rows, and the
    remaining rows are an independent test set for the rule.
    """
    if cones:
        log_members = math.log(cone_count(n_rows, n_features))
        k = n_features * (n_features + 1) // 2
        return Complexity(k, log_members, log_members + math.log(2))
    n_subsets = growth_function(n_rows, n_features)
    log_members = log_growth(2 * n_subsets, n_features)
    k = n_features * (n_features + 1)
    return Complexity(k, log_members, log_members + math.log(n_subsets))


def compression_error(n: int, complexity: Complexity, beta: float) -> float:
    """Return the bound on the sampling error of rules determined by k of the n rows.

    The first two terms apply to the drawn rule on the other n - k rows, and the last term applies
    to the best halfspace. Each of the two bounds fails with probability `beta`.
    """
    k = complexity.compression_size
    if n <= k:
        return 1.0  # no row is left as a test set
    log_failure = complexity.log_reconstructions - math.log(beta)
    uniform = math.sqrt(log_failure / (2 * (n - k)))
    return k / n + uniform + math.sqrt(-math.log(beta) / (2 * n))


def union_growth(n: int, d: int, n_halfspaces: int) -> int:
    """Return an upper bound on the number of labellings of n rows by unions of halfspaces.

    A rule predicts either label on a union of at most `n_halfspaces` halfspaces and of up to 2 d
    halfspaces that contain the rows outside the affine hull of the public rows. By Cover (1965), a
    halfspace labels n rows in at most ``2 growth_function(n - 1, d)`` ways.
    """
    n_labellings: int = (2 * growth_function(n - 1, d)) ** (n_halfspaces + 2 * d)
    return 2 * n_labellings


def _sampling_error(n: int, d: int, beta: float, cones: bool) -> float:
    """Return the bound on the sampling error of the rules of `PPMHalfspaceClassifier`.

    A cone is a function of few rows (`compression_error`). An intersection is not: the normal of a
    hyperplane through fewer than d public points, or through affinely dependent ones, depends on
    all public points. Its bound is uniform over all intersections of at most d halfspaces, whose
    complements are unions.
    """
    if cones:
        return compression_error(n, _complexity(n, d, cones), beta)
    uniform = uniform_error(n, beta, union_growth(2 * n, d, d))
    return uniform + math.sqrt(-math.log(beta) / (2 * n))


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
    """Return the number of private and public rows that `PPMHalfspaceClassifier` requires.

    The number applies to ``pool="paper"`` and ``max_intersections=None``. For ``pool="axes"``, use
    `n_ppm_boxes`, or `n_ppm_growing_boxes` for more than five faces. For an automatic pool, there
    is only a bound based on counted errors (`evaluation_share`), which cannot be determined in
    advance from a number of rows.

    Parameters
    ----------
    alpha : float
        Excess population error over the best halfspace, in (0, 1).
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        Number of features (not the VC dimension, which is d + 1).
    realizable : bool, default=False
        Whether some halfspace makes no error.
    supports : "shipped", int or None, default="shipped"
        Maximum number of public rows that support halfspaces. ``"shipped"`` means the classifier's
        own number: 1000, 320, 19, 7, 6 or 7 random public rows in one to six dimensions. An integer
        sets a different number, for at most three features. ``None`` means that all public rows
        support halfspaces, which is the case in the classifier if there are at most that many
        public rows.
    public_share : float, default=1.0
        Maximum fraction of the rows that are public, in (0, 1]. The loss due to a random choice of
        supports is a fraction of the public rows, so it is proportional to this number.

    Returns
    -------
    int
        Rows needed. With ``supports=None`` and more than three features, the result is that of
        `n_ppm_paper`.

    Raises
    ------
    ValueError
        If no number of rows suffices with this number of supports. With four or more features, this
        is the case unless `public_share` is below `alpha`. With seven or more features, the
        classifier has no family of halfspaces.

    Notes
    -----
    With up to three features, the rule is drawn from the ``M(s)`` cones generated by s supports: 2
    + 2s on a line, 2 + 2s(s - 1)^2 in the plane and 2 + 2s(s - 1)^2 (s - 2)^3 in space. One of
    these cones errs on at most c n more rows than the best halfspace, where c is `public_share`
    times `support_loss` (0 if all public rows support halfspaces). The excess error of the draw is
    ``t = 2 ln(M(s) b / beta) / (epsilon n)``. A cone is determined by k = d(d + 1)/2 rows.
    Including cones of lower dimension, which occur if the supports lie in a proper flat, there are
    at most N = 2 M(n) reconstructions, each independent of the other n - k rows. With these
    numbers, and with c + t instead of t, the inequalities are those of `n_ppm_paper`. In those
    inequalities, b is 3 or 2; with random supports, it is larger by one. The shipped number of
    supports depends on the dimension of the public rows, which may be smaller than d; c + t is the
    maximum over all dimensions.

    With four or more features, the rule is drawn from intersections, which are not functions of few
    rows. With ``supports="shipped"``, the bound on the sampling error is then `uniform_error` for
    the complements of unions of 3 d halfspaces, and `realizable` makes no difference.

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
        return _min_rows(alpha, beta, epsilon, d, realizable, cones)
    if supports == "shipped":
        if d not in MAX_SUPPORT_POINTS:
            raise ValueError(
                f'supports="shipped" requires at most {max(MAX_SUPPORT_POINTS)} features, because '
                f"the learner has no family of halfspaces for more features; got {d}. For the "
                "bound in the theorem, use supports=None."
            )
        supports_by_dimension = {k: n for k, n in MAX_SUPPORT_POINTS.items() if k <= d}
    elif cones:
        supports_by_dimension = {int(d): int(supports)}
    else:
        raise ValueError(
            f'supports must be "shipped" or None for more than {MAX_CONE_FEATURES} features; got '
            f"{supports!r}."
        )
    loss = max(support_loss(n, beta / 4, k) for k, n in supports_by_dimension.items())
    if public_share * loss >= alpha:
        raise ValueError(
            f"alpha={alpha!r} cannot be reached with supports={supports!r} in {d} dimensions, "
            "however many rows there are, because random supports may add an error of "
            f"{public_share * loss:.2g}. Pass more supports or a smaller public_share."
        )
    return _min_rows(
        alpha, beta, epsilon, d, realizable, cones, supports_by_dimension, public_share
    )


def n_ppm_paper(
    alpha: float, beta: float, epsilon: float, d: int, *, realizable: bool = False
) -> int:
    """Return the number of rows that Algorithm 2 of the paper requires.

    Parameters
    ----------
    alpha, beta, epsilon, d, realizable
        See `n_ppm`.

    Returns
    -------
    int
        Rows needed. The paper only states O(·) and defers the proof; see Notes for the constants.

    Notes
    -----
    Let W = ``growth_function(n, d)`` be the number of subsets of at most d rows. The family has at
    most ``G = growth_function(2 W, d)`` members. The empirical error of one member is at most that
    of the best halfspace (Corollary 4.4), so the excess error of the draw is ``t = 2 ln(G b / beta)
    / (epsilon n)``. A member is determined by at most k = d(d + 1) rows: d for each of d halfspaces
    and, if the public rows lie in a proper affine subspace, d that span it. There are at most N = G
    W reconstructions, each independent of the other n - k rows.

    - Agnostic case, b = 3: Hoeffding's inequality is applied to the n - k rows, and once to the
      best halfspace. The error on the n - k rows exceeds the error on all n rows by at most k/n:
    - Realizable, b = 2: the error on the n - k rows is at most t n / (n - k). A Binomial(n, p)
      variable is below n t with probability at most ``exp(-n (sqrt(p) - sqrt(t))^2)``, by
      Chernoff's bound, since the relative entropy is at least the squared Hellinger distance:
      ``sqrt(t n / (n - k)) + sqrt(ln(2 N / beta) / (n - k)) <= sqrt(alpha)``. The result is the
      number for the agnostic case if that is smaller.

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
    return _min_rows(alpha, beta, epsilon, d, realizable, False)


def _min_rows(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    realizable: bool,
    cones: bool,
    supports_by_dimension: dict[int, int] | None = None,
    public_share: float = 1.0,
) -> int:
    """Return the smallest number of rows for which the `n_ppm` error bound is at most alpha.

    Parameters
    ----------
    alpha, beta, epsilon, d, realizable, public_share
        See `n_ppm`.
    cones : bool
        Whether the rules are cones rather than intersections of at most d halfspaces.
    supports_by_dimension : dict of int to int, optional
        Number of random public rows that support halfspaces, for each possible dimension of the
        affine hull of the public rows. By default, all public rows support halfspaces.
    """
    d = int(d)  # integers of numpy would overflow
    min_rows = _complexity(1, d, cones).compression_size + 1

    def cover_and_draw_error(n: int, beta_share: float) -> float:
        def draw_error(log_members: float) -> float:
            return 2 * (log_members - math.log(beta_share)) / (epsilon * n)

        if supports_by_dimension is None:
            return draw_error(_complexity(n, d, cones).log_members)
        # the dimension of the public rows is not known beforehand, so the maximum counts
        errors = []
        for dimension, n_supports in supports_by_dimension.items():
            family = _complexity(min(n, n_supports), dimension, dimension <= MAX_CONE_FEATURES)
            cover_error = public_share * support_loss(n_supports, beta_share, dimension)
            errors.append(cover_error + draw_error(family.log_members))
        return max(errors)

    # the events between which beta is divided: the choice of supports, if they are random, and ...
    n_cover_events = 0 if supports_by_dimension is None else 1

    # the rules of the theorem and cones are functions of few rows
    few_rows = cones or supports_by_dimension is None

    def is_enough_agnostic(n: int) -> bool:
        beta_share = beta / (3 + n_cover_events)  # ... the draw, and two for sampling
        if few_rows:
            sampling_error = compression_error(n, _complexity(n, d, cones), beta_share)
        else:
            sampling_error = _sampling_error(n, d, beta_share, cones)
        return cover_and_draw_error(n, beta_share) + sampling_error <= alpha

    def is_enough_realizable(n: int) -> bool:
        beta_share = beta / (2 + n_cover_events)  # ... the draw, and one for sampling
        k, _, log_reconstructions = _complexity(n, d, cones)
        sampling_rate = (log_reconstructions - math.log(beta_share)) / (n - k)
        empirical_error = cover_and_draw_error(n, beta_share) * n / (n - k)
        return math.sqrt(empirical_error) + math.sqrt(sampling_rate) <= math.sqrt(alpha)

    n = smallest_integer(is_enough_agnostic, start=min_rows)
    if realizable and few_rows:
        n = min(n, smallest_integer(is_enough_realizable, start=min_rows))
    return n


MAX_AXIS_HALFSPACES = {1: 1400, 2: 1400, 3: 404, 4: 88, 5: 34}
"""Default number of halfspaces in `PPMHalfspaceClassifier(pool="axes")`, by number of faces."""

DEFAULT_BOX_ALPHA = 0.05
"""Default fraction of the public rows on which a box may disagree with the nearest member."""


MAX_GROWING_HALFSPACES = 5788
"""Size of the largest pool from which `PPMHalfspaceClassifier` draws one halfspace at a time."""

WEIGHT_UNIT = 1 << 20
"""Weights of errors in early draws are integer multiples of 1 / WEIGHT_UNIT."""

MAX_LISTED_FACES = max(MAX_AXIS_HALFSPACES)
"""Maximum number of faces for which `PPMHalfspaceClassifier` enumerates all rules."""


def box_complexity(n_rows: int, n_features: int, faces: int) -> Complexity:
    """Return the size of the family of boxes with faces at values of `n_rows` rows.

    A face is determined by a row, a column and one of two sides, and either label can be inside.
    """
    log_boxes = math.log(2) + log_growth(2 * n_features * n_rows, faces)
    return Complexity(faces, log_boxes, log_boxes)


def axis_box_guarantee(
    n: int,
    missed: int,
    epsilon: float,
    beta: float,
    d: int,
    faces: int,
    cover_size: int,
    status_error: float = 0.0,
) -> Promise:
    """Return a bound on the excess error over the best box in the mixed population.

    Parameters
    ----------
    n : int
        Number of private and public rows together, which are independent draws from the mixture.
    missed : int
        Maximum number of public rows between two neighbouring values in the pool.
    epsilon : float
        Privacy budget of the draw.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    d : int
        Number of features.
    faces : int
        Maximum number of faces of a box.
    cover_size : int
        Number of rules, which are all equally likely.
    status_error : float, default=0.0
        Maximum probability that a row of the population is private and has the public label.
    """
    check_ranges(beta=beta, epsilon=epsilon, d=d)
    beta_share = beta / 3  # the draw, sampling of the rule, and sampling of the best box
    cover_error = faces * missed / n
    draw_error = excess_error(cover_size, n, epsilon, beta_share)
    sampling_error = compression_error(n, box_complexity(n, d, faces), beta_share)
    reason = (
        f"With probability {1 - beta:g}, if the rows are independent draws from the mixture and "
        f"{status_assumption(status_error)}, the excess error over the best box of {faces} faces "
        f"is at most {cover_error:.2g} (faces at public values) + {draw_error:.2g} (draw) + "
        f"{sampling_error:.2g} (sampling)"
    )
    if status_error:
        reason += f" + {status_error:g} (status_error)"
    return capped_guarantee(cover_error + draw_error + sampling_error + status_error, reason)


def n_ppm_boxes(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    *,
    faces: int = 2,
    public_share: float = 1.0,
) -> int:
    """Return the number of rows that `PPMHalfspaceClassifier(pool="axes")` requires.

    Parameters
    ----------
    alpha : float
        Excess population error, in (0, 1), over the best axis-aligned box that has at most `faces`
        faces and either label inside.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        Number of features.
    faces : int, default=2
        `max_intersections` of the classifier, from 1 to 5.
    public_share : float, default=1.0
        Maximum fraction of the rows that are public, in (0, 1].

    Returns
    -------
    int
        Number of private and public rows together, if all other parameters have their defaults.

    Raises
    ------
    ValueError
        If no number of rows suffices because a column has too few possible face positions for
        `alpha`, or if `faces` is out of range.

    Notes
    -----
    The pool contains c values of each column, at evenly spaced ranks of the public rows, and M = 2
    c d halfspaces. Moving the faces of a box to the pool therefore changes the box on at most
    ``public_share * faces / (c - 1)`` of the rows. There are at most ``2 growth_function(M,
    faces)`` rules. The bounds for the draw and for sampling are those of `n_ppm`, with k = `faces`
    and ``N = 2 growth_function(2 d n, faces)``.

    Examples
    --------
    >>> n_ppm_boxes(alpha=0.1, beta=0.05, epsilon=1.0, d=10, public_share=0.5)
    5623
    >>> n_ppm_boxes(alpha=0.1, beta=0.05, epsilon=1.0, d=10, faces=3, public_share=0.1)
    5742
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, public_share=public_share)
    if faces not in MAX_AXIS_HALFSPACES:
        raise ValueError(f"faces must be an integer from 1 to 5; got {faces!r}.")
    cuts = min(
        math.ceil(faces / DEFAULT_BOX_ALPHA * (1 - 1e-9)) + 1,
        MAX_AXIS_HALFSPACES[faces] // (2 * int(d)),
    )
    cover_error = public_share * faces / (cuts - 1) if cuts > 1 else 1.0
    if cover_error >= alpha:
        raise ValueError(
            f"alpha={alpha!r} cannot be reached with {faces} faces in {d} columns, however many "
            f"rows there are, because limiting the faces to {max(cuts, 0)} values of each column "
            f"may add an error of {cover_error:.2g}. Pass fewer columns, fewer faces or a smaller "
            "public_share."
        )
    log_members = math.log(2) + log_growth(2 * cuts * int(d), faces)

    def is_enough(n: int) -> bool:
        draw_error = 2 * (log_members - math.log(beta / 3)) / (epsilon * n)
        sampling_error = compression_error(n, box_complexity(n, int(d), faces), beta / 3)
        return cover_error + draw_error + sampling_error <= alpha

    return smallest_integer(is_enough, start=faces + 1)


def n_ppm_growing_boxes(
    alpha: float,
    beta: float,
    epsilon: float,
    d: int,
    *,
    faces: int,
    public_share: float = 1.0,
) -> int:
    """Return the number of rows for boxes with many faces, drawn one face at a time.

    Parameters
    ----------
    alpha : float
        Population error, in (0, 1), if some axis-aligned box with at most `faces` faces makes no
        error, with either label inside, and the label determines which rows are private.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        Number of features.
    faces : int
        Number of faces of the box that makes no error, from 1 to ``2 * d``.
    public_share : float, default=1.0
        Maximum fraction of the rows that are public, in (0, 1].

    Returns
    -------
    int
        Number of private and public rows together for `PPMHalfspaceClassifier` with
        ``pool="axes"``, ``max_intersections=max(6, math.ceil(faces * math.log(4 / alpha)))``,
        ``alpha=alpha / 4``, ``max_halfspaces=5788`` and the other parameters at their defaults.

    Raises
    ------
    ValueError
        If no number of rows suffices because a column has too few possible face positions for
        `alpha`, or if a parameter is out of range.

    Notes
    -----
    Let a = alpha / 4. The learner draws ``m = ceil(faces ln(1 / a))`` faces for each label, at
    least 6, and spends ε / (2m + 1) on each draw. The error on the rows is then at most the sum of
    a, of ``m / n`` times the error of one draw, of the error of the last draw, and of
    ``public_share * m / (c - 1)`` for faces at c values of each column. The bound for sampling is
    that of `n_ppm_boxes` with m faces, without the term for the best box, or the bound of
    ``n_ppm_paper(realizable=True)``, whichever needs fewer rows. For small alpha, the number of
    rows is of order 1/alpha. Proof: docs/proofs/mixtures.md. With at most five faces,
    `n_ppm_boxes` requires far fewer rows and also applies if the best box makes errors.

    References
    ----------
    C. Harshaw, M. Feldman, J. Ward and A. Karbasi (2019). Submodular maximization beyond
    non-negativity: guarantees, fast algorithms, and applications. ICML.

    Examples
    --------
    >>> n_ppm_growing_boxes(alpha=0.3, beta=0.05, epsilon=1.0, d=3, faces=6, public_share=0.5)
    96731
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, public_share=public_share)
    if not 1 <= faces <= 2 * d or faces != int(faces):
        raise ValueError(f"faces must be an integer from 1 to 2 * d = {2 * d}; got {faces!r}.")
    first_weight = alpha / 4
    # the learner lists all boxes of fewer faces, whose pool has fewer values of each column
    n_faces = max(MAX_LISTED_FACES + 1, math.ceil(faces * math.log(4 / alpha)))
    cuts = min(
        math.ceil(n_faces / first_weight * (1 - 1e-9)) + 1, MAX_GROWING_HALFSPACES // (2 * int(d))
    )
    cover_error = public_share * n_faces / (cuts - 1) if cuts > 1 else 1.0
    rounding_error = n_faces / WEIGHT_UNIT
    fixed_error = first_weight + cover_error + rounding_error
    if fixed_error >= alpha:
        raise ValueError(
            f"alpha={alpha!r} cannot be reached with {faces} faces in {d} columns, however many "
            f"rows there are, because limiting the faces to {max(cuts, 0)} values of each column "
            f"may add an error of {cover_error:.2g}. Pass fewer columns, fewer faces or a smaller "
            "public_share."
        )
    loss = _greedy_loss(beta / 2, epsilon, n_faces, 2 * cuts * int(d))

    def is_enough(n: int) -> bool:
        error = fixed_error + loss / n
        n_test = n - n_faces  # rows that do not determine the rule
        complexity = box_complexity(n, int(d), n_faces)
        log_failure = complexity.log_reconstructions - math.log(beta / 2)
        rate = log_failure / n_test
        uniform = n_faces / n + math.sqrt(rate / 2)
        if error + uniform <= alpha:
            return True
        test_error = error * n / n_test
        root_error = math.sqrt(test_error) + math.sqrt(rate)
        return root_error <= math.sqrt(alpha)

    return smallest_integer(is_enough, start=n_faces + 1)


def n_ppm_growing_unions(
    alpha: float, beta: float, epsilon: float, d: int, *, halfspaces: int
) -> int:
    """Return the number of rows for a union of halfspaces in all directions, drawn one at a time.

    Parameters
    ----------
    alpha : float
        Population error, in (0, 1), if the private label is on a union of at most `halfspaces`
        halfspaces and the public label is outside it, and the label determines which rows are
        private. The region of the public label is then a polytope.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        Number of features.
    halfspaces : int
        Number of halfspaces in the union.

    Returns
    -------
    int
        Number of private and public rows together for `PPMHalfspaceClassifier` with
        ``pool="paper"``, ``max_intersections=max(6, math.ceil(halfspaces * d * math.log(4 /
        alpha)))``, ``alpha=alpha / 4`` and the other parameters at their defaults.

    Raises
    ------
    ValueError
        If a number is out of range, or if no number of rows suffices because there are too many
        draws for the precision of the weights.

    Notes
    -----
    Let a = alpha / 4. Each halfspace of the union is covered, on the private rows, by the
    complements of d halfspaces whose boundaries pass through public points. The learner draws ``m =
    ceil(halfspaces d ln(1 / a))`` halfspaces for each label, at least 6, and spends ε / (2m + 1) on
    each draw. The error on the rows is then at most the sum of a, of ``m / n`` times the error of
    one draw, and of the error of the last draw. The bound for sampling is `uniform_error` for
    unions of m + 2 d halfspaces, or a relative deviation bound, whichever needs fewer rows. For
    small alpha, the number of rows is of order 1/alpha. Proof: docs/proofs/mixtures.md.

    The learner draws from at most 5788 halfspaces, so the public rows may have at most 2894
    distinct values on a line, and 75 or 25 distinct points in two or three dimensions. With more
    points, the fit raises `CoverSizeError`, without spending any privacy budget. The number of rows
    is therefore useful for features with few values.

    References
    ----------
    R. Bassily, S. Moran and A. Nandi (2020). Learning from mixtures of private and public
    populations. NeurIPS. Corollary 4.4; for the search, C. Harshaw, M. Feldman, J. Ward and A.
    Karbasi (2019). Submodular maximization beyond non-negativity: guarantees, fast algorithms, and
    applications. ICML.

    Examples
    --------
    >>> n_ppm_growing_unions(alpha=0.3, beta=0.05, epsilon=1.0, d=2, halfspaces=2)
    54911
    """
    check_ranges(alpha=alpha, beta=beta, epsilon=epsilon, d=d, halfspaces=halfspaces)
    if int(d) != d or int(halfspaces) != halfspaces:
        raise ValueError(f"d and halfspaces must be integers; got {d!r} and {halfspaces!r}.")
    first_weight = alpha / 4
    n_faces = max(MAX_LISTED_FACES + 1, math.ceil(halfspaces * d * math.log(4 / alpha)))
    fixed_error = first_weight + n_faces / WEIGHT_UNIT
    if fixed_error >= alpha:
        raise ValueError(
            f"alpha={alpha!r} cannot be reached with {halfspaces} halfspaces in {d} columns, "
            f"however many rows there are, because rounding the weights of {n_faces} draws may add "
            f"an error of {n_faces / WEIGHT_UNIT:.2g}. Pass fewer halfspaces or fewer columns."
        )
    loss = _greedy_loss(beta / 2, epsilon, n_faces, MAX_GROWING_HALFSPACES)

    def is_enough(n: int) -> bool:
        error, growth = fixed_error + loss / n, union_growth(2 * n, int(d), n_faces)
        if error + uniform_error(n, beta / 2, growth) <= alpha:
            return True
        return relative_deviation_bound(error, n, math.log(growth), beta / 2) <= alpha

    return smallest_integer(is_enough)


def _greedy_loss(beta: float, epsilon: float, n_faces: int, pool_size: int) -> float:
    """Return a bound on the number of errors due to the draws of a search.

    The bound fails with probability `beta`. It includes the draws for one label, the rounding of
    their losses to integers, and the last draw.
    """
    n_draws = 2 * n_faces + 1
    log_beta_per_draw = math.log(beta / (n_faces + 1))
    draw_loss = 2 * n_draws * (math.log(1 + pool_size) - log_beta_per_draw) / epsilon
    last_draw_loss = 2 * n_draws * (math.log(n_draws + 1) - log_beta_per_draw) / epsilon
    return n_faces * (draw_loss + 1) + last_draw_loss
