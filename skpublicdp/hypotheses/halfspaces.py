"""Halfspaces, with exact covers in up to three dimensions and covers along directions in any."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import growth_function
from skpublicdp.hypotheses.base import (
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
    check_binary,
    check_count,
)
from skpublicdp.hypotheses.directions import directions_around, draw_directions
from skpublicdp.hypotheses.magnitudes import check_magnitudes
from skpublicdp.hypotheses.pivots import RotatingHyperplanes
from skpublicdp.hypotheses.sweeps import ParallelHyperplanes, Sweeps, point_words
from skpublicdp.mechanisms.families import Family, Leaf, Path
from skpublicdp.typing import Codes, Floats, Integers, Mask

MAX_EXACT_POINTS = {1: 1000, 2: 1000, 3: 60}
"""Maximum number of distinct public points of an automatic exact cover, by number of features."""

MAX_EXACT_MEMBERS = 1 << 24
"""Maximum number of members of an exact cover, including duplicates."""


class Halfspace(Hypothesis):
    """Rule that predicts the second label on one side of a hyperplane and the first on the other.

    Parameters
    ----------
    sweep : Sweeps
        A single sweep that computes the codes of rows.
    positive : ndarray of bool, shape (n_codes,)
        For each code, whether rows with this code are predicted to have the second label.
    normal : ndarray of float64, shape (n_features,)
        Normal that points to the positive side; it is zero for a constant.
    offset : float
        The hyperplane is ``normal @ x == offset``.
    public : PublicSample
        Source of the feature and label names.

    Attributes
    ----------
    normal : ndarray of float64, shape (n_features,)
        Normal, scaled to make its largest coefficient 1 or -1.
    offset : float
        Offset at this scale. For rows that lie on the hyperplane up to rounding, the sweep
        determines the label.
    """

    def __init__(
        self,
        sweep: Sweeps,
        positive: Mask,
        normal: Floats,
        offset: float,
        public: PublicSample,
    ) -> None:
        largest = float(np.abs(normal).max()) or 1.0  # the normal of a constant is zero
        self.normal = normal / largest
        self.offset = offset / largest
        self._sweep = sweep
        self._positive = positive.astype(np.intp)
        self._names = public.feature_names
        self._labels = [str(label) for label in public.classes]

    def predict(self, X: Floats) -> Codes:
        """Return 1 for each row on the positive side and 0 for others, as in scoring."""
        return self._positive[self._sweep.codes(X.T, 0)]

    def rule(self) -> str:
        """Return the halfspace as an if/else statement; ≈ marks numbers rounded to six digits."""
        if not self.normal.any():  # a constant: the offset is -inf for the second label
            return f"predict {self._labels[int(self.offset < 0)]}"
        # the sum is printed with a positive first coefficient
        features = np.flatnonzero(self.normal)
        sign = float(np.sign(self.normal[features[0]]))
        coefficients = (sign * self.normal[features]).tolist()
        threshold = sign * self.offset + 0.0  # adding 0.0 turns -0.0 into 0.0
        # Parallel hyperplanes have exactly these coefficients, whereas the coefficients of rotating
        # hyperplanes result from rounded operations.
        is_exact = isinstance(self._sweep, ParallelHyperplanes) and all(
            float(f"{number:.6g}") == number for number in (*coefficients, threshold)
        )
        above, below = self._labels[::-1] if sign > 0 else self._labels
        score = weighted_sum(sign * self.normal, self._names)
        accuracy = "" if is_exact else " (≈)"
        return (
            f"if {score} > {threshold:.6g}{accuracy}:\n"
            f"    predict {above}\n"
            "else:\n"
            f"    predict {below}"
        )


def weighted_sum(weights: Floats, names: Sequence[str]) -> str:
    """Return a weighted sum as text with six digits, as in `2·age - income`."""
    terms: list[str] = []
    for weight, name in zip(weights.tolist(), names, strict=True):
        if weight:
            coefficient = f"{abs(weight):.6g}·".removeprefix("1·")  # 1·age is printed as age
            leading_sign, inner_sign = ("-", " - ") if weight < 0 else ("", " + ")
            terms.append(f"{inner_sign if terms else leading_sign}{coefficient}{name}")
    return "".join(terms)


class HalfspaceCover(Cover):
    """Cover that contains one halfspace for each dichotomy of the public points, and the constants.

    Parameters
    ----------
    sweeps : Sweeps
        Families of hyperplanes that include the boundaries of the halfspaces.
    points : ndarray of float64, shape (m, n_features)
        Distinct public points.
    public : PublicSample
        Source of the feature and label names.
    """

    def __init__(self, sweeps: Sweeps, points: Floats, public: PublicSample) -> None:
        self.sweeps = sweeps
        self._public = public
        # the constants label no points, or all points, positive; their identifiers come first, so
        # no other member represents these dichotomies
        all_points_id = point_words(len(points)).sum()
        constant_ids = np.array([0, all_points_id])
        member_ids = sweeps.dichotomy_ids(points).reshape(-1)
        ids = np.concatenate([constant_ids, member_ids])
        _, first = np.unique(ids, return_index=True)
        # indices into the flattened array of members: the first member of each other dichotomy
        n_constants = len(constant_ids)
        self._members = np.sort(first)[n_constants:] - n_constants

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return len(self._members) + len(self._public.classes)

    def tabulate(self, X: Floats, y: Codes, weights: Integers) -> Integers:
        """Return the weight of rows by label, sweep and code, using `Sweeps.tabulate`."""
        return self.sweeps.tabulate(X, y, weights, len(self._public.classes))

    def family(self, table: Integers) -> Family:
        """Return the error counts of all members, as an unstructured family (`Leaf`).

        A member mislabels the rows with the first label and positive codes, and the rows with the
        second label and other codes. The error count of a member is therefore the weight of the
        second label plus the sum, over its positive codes, of the excess weight of the first label
        over the second.
        """
        n_constants = len(table)  # one constant for each label
        second_label = table[1:].sum(axis=0)  # zero with a single label
        excess = table[0] - second_label
        # every sweep counts each row once, so the first sweep contains the totals
        total_second_label = second_label[0].sum()
        total_excess = excess[0].sum()
        constant_sums = [0, total_excess][:n_constants]
        member_sums = self.sweeps.sum_positive(excess).reshape(-1)
        sums = np.concatenate([constant_sums, member_sums[self._members]])
        return Leaf(total_second_label + sums.astype(np.int64))

    def hypothesis(self, path: Path) -> Halfspace:
        """Return the member with a given index; the constants come first."""
        n_constants = len(self._public.classes)
        if path < n_constants:
            return constant_halfspace(int(path), self._public)
        flat_index = int(self._members[path - n_constants])
        indices = np.unravel_index(flat_index, self.sweeps.shape)
        sweep, variant, gap, orientation = map(int, indices)
        single = self.sweeps.select(sweep)
        positive = single.positive_codes(variant, gap, orientation)
        normal, offset = single.hyperplane(0, gap)
        if orientation:
            normal, offset = -normal, -offset
        return Halfspace(single, positive, normal=normal, offset=offset, public=self._public)


class DirectionsCover(HalfspaceCover):
    """Cover of halfspaces with given normals, which can be refined around a released halfspace.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_directions, n_features)
        Directions of the normals.
    points : ndarray of float64, shape (m, n_features)
        Distinct public points.
    public : PublicSample
        Public rows, whose projections determine the thresholds, and the names.
    settings : Halfspaces
        Numbers of directions, thresholds and rounds.
    alpha : float
        Quantile spacing of the thresholds.
    """

    def __init__(
        self,
        weights: Floats,
        points: Floats,
        public: PublicSample,
        settings: Halfspaces,
        alpha: float,
    ) -> None:
        spacing = max(alpha, 1 / (settings.thresholds + 1))
        sweeps = ParallelHyperplanes.at_quantiles(
            weights, public.X, spacing, int(settings.thresholds)
        )
        super().__init__(sweeps, points, public)
        self._points = points
        self._settings = settings
        self._alpha = alpha
        # a single feature has only one direction, so its cover cannot be refined
        self.rounds = settings.rounds if (np.ptp(points, axis=0) > 0).sum() > 1 else 1

    def refine(self, hypothesis: Hypothesis, step: int) -> Cover:
        """Return a cover with new directions around a released halfspace.

        In a union, the released hypothesis may belong to another class. In this case, or if the
        hypothesis is a constant, there is no direction to refine and this cover is returned.
        """
        if self.rounds == 1 or not isinstance(hypothesis, Halfspace):
            return self
        normal = hypothesis.normal
        if not normal.any():
            return self
        n_directions = int(self._settings.directions)
        weights = directions_around(normal, self._public.X, size=n_directions, step=step)
        return DirectionsCover(
            weights, self._points, public=self._public, settings=self._settings, alpha=self._alpha
        )


class Halfspaces(HypothesisClass):
    """Halfspaces: rules that compare a weighted sum of features with a threshold.

    A rule predicts the second label above the threshold. The class supports at most two labels.

    Parameters
    ----------
    cover : {"auto", "exact", "directions"}, default="auto"
        ``"exact"``, which supports one to three features, has one halfspace for each dichotomy of
        the public points and ignores `alpha`. ``"directions"`` places thresholds at public
        quantiles along directions that depend on the public rows. ``"auto"`` is exact for at most
        1000 distinct public points with one or two features, or 60 points with three features, and
        uses directions otherwise.
    directions : int, default=1000
        Number of directions.
    thresholds : int, default=31
        Maximum number of thresholds in each direction; there are fewer if `alpha` requires a wider
        spacing.
    rounds : int or "auto", default="auto"
        Number of draws that share the privacy budget. Each draw after the first uses directions
        around the previous halfspace. Exact covers and covers of a single feature have one draw.
        ``"auto"`` chooses the number with `guarantees.n_rounds`.

    See Also
    --------
    HalfspaceIntersections : Intersections of several halfspaces.

    Notes
    -----
    There are 2 (C(m-1, 0) + ... + C(m-1, d)) dichotomies of m points in general position in d
    dimensions (Cover 1965, Theorem 1). A set with one halfspace for each dichotomy is the cover of
    Alon, Bassily and Moran (2019), Algorithm 1. The members are found by rotating lines about each
    public point, and planes about each pair of public points.

    Examples
    --------
    >>> from skpublicdp.hypotheses import Halfspaces, PublicSample
    >>> X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [3.0, 3.0]])
    >>> public = PublicSample(X, np.array(["no", "yes"]), ("age", "income"))
    >>> cover = Halfspaces().build_cover(public, alpha=0.05, beta=0.05)
    >>> cover.size  # all but two of the 16 dichotomies: no line separates the diagonals
    14
    >>> print(cover.hypothesis(3))
    if age - 0.309017·income > 0 (≈):
        predict yes
    else:
        predict no
    """

    def __init__(
        self,
        cover: str = "auto",
        directions: int = 1000,
        thresholds: int = 31,
        rounds: int | str = "auto",
    ) -> None:
        self.cover = cover
        self.directions = directions
        self.thresholds = thresholds
        self.rounds = rounds

    def build_cover(self, public: PublicSample, *, alpha: float, beta: float) -> HalfspaceCover:
        """Build the cover along directions, or with one halfspace per dichotomy of public points.

        Raises
        ------
        ValueError
            If there are more than two labels, if a parameter is invalid, or if products of public
            values overflow.
        CoverSizeError
            If an exact cover would be too large.
        """
        self._check(public)
        self._check_public_values(public.X, public.feature_names)
        points = np.unique(public.X + 0.0, axis=0)  # -0.0 becomes 0.0
        n_features = points.shape[1]
        if len(public.classes) == 1:
            return _exact_cover(_single_bin_sweep(n_features), points, public)
        is_small = len(points) <= MAX_EXACT_POINTS.get(n_features, 0)
        if self.cover == "directions" or (self.cover == "auto" and not is_small):
            weights = draw_directions(public.X, int(self.directions))
            return DirectionsCover(weights, points, public, self, alpha)
        if n_features == 1 or len(points) == 1:
            sweeps: Sweeps = ParallelHyperplanes.at_quantiles(
                np.eye(1, n_features), points, spacing=0, max_thresholds=len(points)
            )
            return _exact_cover(sweeps, points, public)
        # about m points or m^2 / 2 pairs of points, hyperplanes have at most m gaps, two
        # orientations, and one or four variants
        m = len(points)
        n_members = 2 * m**2 if n_features == 2 else 4 * m**3
        if n_members > MAX_EXACT_MEMBERS:
            raise CoverSizeError(
                f"The exact cover of {len(points)} distinct public points in {n_features} "
                f"dimensions has {n_members:.2g} halfspaces, but at most {MAX_EXACT_MEMBERS:.2g} "
                'are allowed. Pass fewer public rows or use cover="directions".'
            )
        return _exact_cover(RotatingHyperplanes(points), points, public)

    def growth(self, m: int, n_features: int) -> int:
        """Return the number of ways in which halfspaces can label m rows in general position.

        The formula is due to Cover (1965).
        """
        return 2 * growth_function(m - 1, n_features)

    def _check_public_values(self, points: Floats, feature_names: tuple[str, ...]) -> None:
        """Raise ValueError if products of public values overflow."""
        check_magnitudes(points, feature_names, "halfspaces")

    def _check(self, public: PublicSample) -> None:
        """Raise ValueError unless the parameters and the number of labels are valid."""
        check_binary(self, public)
        if self.cover not in ("auto", "exact", "directions"):
            raise ValueError(f'cover must be "auto", "exact" or "directions"; got {self.cover!r}.')
        check_count("directions", self.directions)
        check_count("thresholds", self.thresholds)
        if self.rounds != "auto":
            check_count("rounds", self.rounds)
        n_features = public.X.shape[1]
        if self.cover == "exact" and n_features > 3:
            raise ValueError(
                f'cover="exact" supports at most three features, but X has {n_features}. Use '
                'cover="directions".'
            )


def _exact_cover(sweeps: Sweeps, points: Floats, public: PublicSample) -> HalfspaceCover:
    """Return a cover that realises every dichotomy of the public points, so its radius is 0."""
    cover = HalfspaceCover(sweeps, points, public)
    cover.radius = 0.0
    return cover


def constant_halfspace(code: int, public: PublicSample) -> Halfspace:
    """Return the halfspace that predicts one label for all rows, given the label code 0 or 1."""
    single = _single_bin_sweep(public.X.shape[1])
    offset = -math.inf if code else math.inf
    return Halfspace(single, np.array([bool(code)]), single.weights[0], offset, public)


def _single_bin_sweep(n_features: int) -> ParallelHyperplanes:
    """Return a sweep that has no thresholds, only a single bin for all rows."""
    return ParallelHyperplanes(np.zeros((1, n_features)), [np.empty(0)])
