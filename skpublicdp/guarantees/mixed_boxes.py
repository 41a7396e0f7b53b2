"""Sample sizes and error bounds for boxes and polytopes on mixtures of private and public rows."""

from __future__ import annotations

import math

from skpublicdp.guarantees.certificates import excess_error
from skpublicdp.guarantees.growth import (
    check_ranges,
    log_growth,
    smallest_integer,
)
from skpublicdp.guarantees.population import Promise, capped_guarantee, uniform_error
from skpublicdp.guarantees.ppm import (
    Complexity,
    compression_error,
    status_assumption,
    union_growth,
)

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
    that of `n_ppm_boxes` with m faces. Proof: docs/proofs/mixtures.md. With at most five faces,
    `n_ppm_boxes` requires far fewer rows and also applies if the best box makes errors.

    References
    ----------
    C. Harshaw, M. Feldman, J. Ward and A. Karbasi (2019). Submodular maximization beyond
    non-negativity: guarantees, fast algorithms, and applications. ICML.

    Examples
    --------
    >>> n_ppm_growing_boxes(alpha=0.3, beta=0.05, epsilon=1.0, d=3, faces=6, public_share=0.5)
    99235
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
        sampling_error = compression_error(n, box_complexity(n, int(d), n_faces), beta / 2)
        return fixed_error + loss / n + sampling_error <= alpha

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
    unions of m + 2 d halfspaces. Proof: docs/proofs/mixtures.md.

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
        sampling_error = uniform_error(n, beta / 2, union_growth(2 * n, int(d), n_faces))
        return fixed_error + loss / n + sampling_error <= alpha

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
