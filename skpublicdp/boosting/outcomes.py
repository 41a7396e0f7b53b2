"""What rows are learned from: labels as codes, or outcomes as multiples of 1 / OUTCOMES."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array

from skpublicdp.boosting.scores import OUTCOMES
from skpublicdp.data.labels import encode_labels, label_column
from skpublicdp.exceptions import warn
from skpublicdp.guard import ANYTHING, guarded

Floats = NDArray[np.float64]

ENOUGH, TAIL = 200, 0.005
"""So many public outcomes or more have bounds at these quantiles, fewer beyond their ends."""


@dataclass(frozen=True, eq=False, repr=False)  # a repr would print private values
class Targets:
    """What is to be learned of rows.

    Attributes
    ----------
    private, labelled : ndarray
        Of private rows, and of public rows that have any.
    which : ndarray of bool
        Which of the given public ones these are.
    classes : ndarray or None
        The sorted labels; ``None`` for outcomes.
    bounds : tuple of float, or None
        What outcomes of 0 and 1 were.
    """

    private: NDArray[Any]
    labelled: NDArray[Any]
    which: NDArray[np.bool_]
    classes: NDArray[Any] | None = None
    bounds: tuple[float, float] | None = None


class Kind(ABC):
    """Reads `y` as one kind of thing."""

    @abstractmethod
    def column(self, y: Any) -> NDArray[Any]:
        """Return `y`, or `y_public`, of any container as a one-dimensional array."""

    @abstractmethod
    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Return what is to be learned, from parts that `column` read."""


@dataclass(frozen=True)
class Labels(Kind):
    """Labels, all of them in `classes` if these are given."""

    classes: ArrayLike | None

    def column(self, y: Any) -> NDArray[Any]:
        """Read labels."""
        return label_column(y)

    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Encode labels."""
        found = Targets(*encode_labels(private, public, self.classes))
        if found.classes is not None and len(found.classes) < 2:
            raise ValueError("y must hold at least two classes; got one class only.")
        return found


@dataclass(frozen=True)
class Outcomes(Kind):
    """Numbers, clipped to bounds; without bounds to those of public ones."""

    bounds: ArrayLike | None

    def column(self, y: Any) -> Floats:
        """Read numbers, NaN included."""
        y = guarded(check_array, y, dtype=np.float64, error=ValueError(_NUMBERS), **ANYTHING)
        if y.shape[1:] == (1,):
            warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples, ), for example using ravel().",
                DataConversionWarning,
            )
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
        column: Floats = y
        return column

    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Clip, scale and round outcomes."""
        given = np.concatenate(public)
        which = ~np.isnan(given)
        labelled = given[which]
        if not np.isfinite(private).all() or not np.isfinite(labelled).all():
            raise ValueError(_NUMBERS)
        low, high = _bounds(self.bounds, labelled)

        def scaled(outcomes: Floats) -> NDArray[np.float32]:
            shares = (np.clip(outcomes, low, high) - low) / (high - low)
            # float32 holds these exactly
            return (np.rint(OUTCOMES * np.clip(shares, 0, 1)) / OUTCOMES).astype(np.float32)

        return Targets(scaled(private), scaled(labelled), which, bounds=(low, high))


_NUMBERS = (
    "Input y contains NaN, infinity or something that is no number: outcomes must be finite; mark "
    "a public row without one by NaN."
)


def _bounds(declared: ArrayLike | None, public: Floats) -> tuple[float, float]:
    """Return the ends of the outcomes, declared or public."""
    if declared is not None:
        ends = np.asarray(declared, dtype=np.float64)
        if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
            raise ValueError("outcome_bounds must be a finite pair (low, high) with low < high.")
    elif not len(public):
        raise ValueError(
            "Outcomes need bounds that look at no private row: pass outcome_bounds=(low, high), or "
            "public rows with outcomes by y_public or under is_public."
        )
    elif len(public) >= ENOUGH:
        ends = np.quantile(public, [TAIL, 1 - TAIL])
    else:
        ends = np.array([public.min(), public.max()])
        ends += np.array([-0.1, 0.1]) * (ends[1] - ends[0])
    low, high = map(float, ends)
    if not 0 < high - low < np.inf:
        raise ValueError("The public outcomes do not tell bounds; pass outcome_bounds=(low, high).")
    return low, high
