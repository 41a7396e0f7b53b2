"""Sample size and error bound of axis-aligned boxes on mixtures of private and public rows."""

from __future__ import annotations

import math

from skpublicdp.guarantees.certificates import excess_error
from skpublicdp.guarantees.growth import check_ranges, log_growth, smallest_integer
from skpublicdp.guarantees.population import Promise, capped_guarantee
from skpublicdp.guarantees.ppm import Complexity, compression_error, status_assumption

MAX_AXIS_HALFSPACES = {1: 1400, 2: 1400, 3: 404, 4: 88, 5: 34}
"""Default number of halfspaces of `PPMHalfspaceClassifier(pool="axes")`, by the number of faces."""

DEFAULT_BOX_ALPHA = 0.05
"""Default share of the public rows on which a box disagrees with the nearest member."""


def box_complexity(n_rows: int, n_features: int, faces: int) -> Complexity:
    """Return the size of the family of boxes whose faces are at values of `n_rows` rows.

    A face has a row, a column and one of two sides, and either label is inside.
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
    """Return the bound on the excess error over the best box in the mixed population.

    Parameters
    ----------
    n : int
        Rows, private and public together, independent draws from the mixture.
    missed : int
        Maximum number of public rows between two neighbouring values of the pool.
    epsilon : float
        Privacy budget of the draw.
    beta : float
        Probability, in (0, 1), with which the bound may fail.
    d : int
        Number of features.
    faces : int
        Maximum number of faces of a box.
    cover_size : int
        Number of rules, all equally likely.
    status_error : float, default=0.0
        Largest probability that a row of the population is private and has the public label.

    Returns
    -------
    Promise
        The sum of four bounds: for faces at public values, for private rows with the public label,
        for the private draw, and for sampling. Proof: docs/proofs/mixtures.md.
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
    """Return the number of rows that `PPMHalfspaceClassifier(pool="axes")` needs.

    Parameters
    ----------
    alpha : float
        Excess error in the population, in (0, 1), over the best axis-aligned box that has at most
        `faces` faces and either label inside.
    beta : float
        Probability, in (0, 1), with which the learner may fail.
    epsilon : float
        Privacy budget.
    d : int
        Number of features.
    faces : int, default=2
        `max_intersections` of the classifier, from 1 to 5.
    public_share : float, default=1.0
        Maximum share of the rows that are public, in (0, 1].

    Returns
    -------
    int
        Rows needed, private and public together, with the other parameters at their defaults.

    Raises
    ------
    ValueError
        If no number of rows is enough, since the values at which faces are allowed are too few for
        `alpha`, or if `faces` is out of range.

    Notes
    -----
    The pool has c values of each column, at evenly spaced ranks of the public rows, and M = 2 c d
    halfspaces. So moving the faces of a box changes it on at most ``public_share * faces / (c -
    1)`` of the rows. There are at most ``2 growth_function(M, faces)`` rules. For the draw and for
    sampling the bound is that of `n_ppm`, with k = `faces` and ``N = 2 growth_function(2 d n,
    faces)``.

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
            f"No number of rows reduces the error to alpha={alpha!r} with {faces} faces in {d} "
            f"columns, because limiting the faces to {max(cuts, 0)} values of each column may add "
            f"an error of {cover_error:.2g}. Pass fewer columns, fewer faces or a smaller "
            "public_share."
        )
    log_members = math.log(2) + log_growth(2 * cuts * int(d), faces)

    def is_enough(n: int) -> bool:
        draw_error = 2 * (log_members - math.log(beta / 3)) / (epsilon * n)
        sampling_error = compression_error(n, box_complexity(n, int(d), faces), beta / 3)
        return cover_error + draw_error + sampling_error <= alpha

    return smallest_integer(is_enough, start=faces + 1)
