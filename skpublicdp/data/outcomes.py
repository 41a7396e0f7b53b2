"""Numeric targets: their bounds, and their encoding as numbers between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array

from skpublicdp._internal.redaction import NO_CHECKS, RefusedError, call_or_raise
from skpublicdp.data.labels import TargetReader, Targets, check_flat, refuse_types
from skpublicdp.exceptions import warn
from skpublicdp.typing import Floats

TARGET_LEVELS = 4096
"""Number of steps between 0 and 1 in encoded outcomes, which are multiples of 1 / TARGET_LEVELS."""

MIN_ROWS_FOR_QUANTILES, TAIL_PROBABILITY = 200, 0.005
"""Minimum number of public outcomes for which the default bounds are the 0.005 and 0.995 quantiles.
With fewer public outcomes, the bounds are the range of these outcomes, extended on either side by
the fraction `RANGE_EXTENSION` of the range's length."""

NOT_OUTCOMES = (np.datetime64, np.timedelta64, bytes)
"""Types of entries of a list that are not numbers, although numpy would convert them to floats."""

RANGE_EXTENSION = 0.1
"""Fraction by which the range of few public outcomes is extended, since private outcomes can lie
outside this range."""

MIN_OUTCOME_WIDTH, MAX_OUTCOME_WIDTH = 1e-150, 1e150
"""Limits of the distance of outcome bounds, so that squares neither underflow nor overflow."""


@dataclass(frozen=True)
class RegressionTarget(TargetReader):
    """Reader of a numeric target that clips outcomes to declared or public bounds."""

    # (2,): lowest and highest outcomes. By default, the bounds are computed from the public
    # outcomes.
    bounds: ArrayLike | None

    def column(self, y: Any, name: str = "y") -> Floats:
        """Return the outcomes `y` as floats, shape (n,), where NaN marks missing outcomes."""
        refusal = RefusedError(_NOT_NUMBERS.format(name=name))
        if isinstance(y, np.ma.MaskedArray):
            y = call_or_raise(lambda: y.astype(np.float64).filled(np.nan), error=refusal)
        elif getattr(y, "dtype", None) is None:
            # numpy would infer the type of a list from all outcomes, so one would change the others
            y = call_or_raise(np.asarray, y, dtype=object, error=refusal)
            if any(isinstance(outcome, NOT_OUTCOMES) for outcome in y.ravel().tolist()):
                raise refusal
        y = call_or_raise(np.asarray, y, error=refusal)
        refuse_types(y, "outcomes, finite numbers")
        y = call_or_raise(check_array, y, dtype=np.float64, error=refusal, **NO_CHECKS)
        if y.shape[1:] == (1,):  # a single column
            warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples, ), for example using ravel().",
                DataConversionWarning,
            )
            y = y[:, 0]
        check_flat(y)
        return y

    def targets(self, private: NDArray[Any], public: list[NDArray[Any]]) -> Targets:
        """Return encoded private and public outcomes, and a mask of public rows with outcomes."""
        outcomes = np.concatenate(public)
        is_labelled = ~np.isnan(outcomes)
        labelled = outcomes[is_labelled]
        if not np.isfinite(private).all() or not np.isfinite(labelled).all():
            raise RefusedError(_NOT_NUMBERS.format(name="y"))
        bounds = _target_bounds(self.bounds, labelled)
        bounds = self.usable_bounds(bounds, labelled)
        _check_width(*bounds)
        private_levels = _to_levels(private, *bounds)
        public_levels = _to_levels(labelled, *bounds)
        return Targets(private_levels, public_levels, is_labelled, bounds=bounds)

    def distinct(self, y: Floats) -> Floats:
        """Return an empty array, since the encoding does not depend on which outcomes occur."""
        return y[:0]

    def encode(self, y: Floats, targets: Targets) -> NDArray[np.float32]:
        """Encode outcomes using the bounds in `targets`, as multiples of 1 / TARGET_LEVELS."""
        assert targets.bounds is not None
        if not np.isfinite(y).all():
            raise RefusedError(_NOT_NUMBERS.format(name="y"))
        return _to_levels(y, *targets.bounds)

    def usable_bounds(self, bounds: tuple[float, float], public: Floats) -> tuple[float, float]:
        """Return the bounds of a model, given declared bounds or those of public outcomes."""
        return bounds


def _to_levels(outcomes: Floats, low: float, high: float) -> NDArray[np.float32]:
    """Return outcomes clipped to the bounds, scaled to [0, 1] and rounded.

    The results are multiples of 1 / TARGET_LEVELS, which are exact in float32.
    """
    shares = (np.clip(outcomes, low, high) - low) / (high - low)
    # the levels are exact in float32
    levels = np.rint(TARGET_LEVELS * np.clip(shares, 0, 1))
    return (levels / TARGET_LEVELS).astype(np.float32)


_NOT_NUMBERS = (
    "{name} contains missing outcomes, infinity or non-numeric values, but outcomes must be finite "
    "numbers. Drop private rows without an outcome if the number of rows may be public, set "
    "missing outcomes of public rows to NaN, or use SemiPrivateBoostingClassifier for labels."
)


def read_outcome_bounds(bounds: Any) -> tuple[float, float]:
    """Return declared outcome bounds as a pair of floats, or raise ValueError."""
    ends = np.asarray(bounds, dtype=np.float64)
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError("outcome_bounds must be a finite pair (low, high) with low < high.")
    low, high = ends.tolist()  # Python's numbers, whose overflow causes no warning
    if not MIN_OUTCOME_WIDTH <= high - low <= MAX_OUTCOME_WIDTH:
        raise ValueError(
            f"outcome_bounds must be between {MIN_OUTCOME_WIDTH:g} and {MAX_OUTCOME_WIDTH:g} "
            f"apart; got {low:g} and {high:g}. Multiply the outcomes and their bounds by a "
            "constant."
        )
    return low, high


def _target_bounds(declared: ArrayLike | None, public: Floats) -> tuple[float, float]:
    """Return the bounds (low, high) used to clip outcomes.

    Parameters
    ----------
    declared : array-like of shape (2,), or None
        Bounds declared by the user.
    public : ndarray of float64, shape (m,)
        Public outcomes, from which the bounds are computed if none are declared.
    """
    if declared is not None:
        ends = np.array(read_outcome_bounds(declared))
    elif not len(public):
        raise ValueError(
            "Outcomes require bounds that do not depend on private rows. Pass outcome_bounds=(low, "
            "high), or provide public rows with outcomes through y_public or is_public."
        )
    elif len(public) >= MIN_ROWS_FOR_QUANTILES:
        with np.errstate(over="ignore", invalid="ignore"):
            ends = np.quantile(public, [TAIL_PROBABILITY, 1 - TAIL_PROBABILITY])
    else:
        ends = np.array([public.min(), public.max()])
        with np.errstate(over="ignore", invalid="ignore"):
            ends += np.array([-RANGE_EXTENSION, RANGE_EXTENSION]) * (ends[1] - ends[0])
    low, high = map(float, ends)
    _check_width(low, high)
    return low, high


def _check_width(low: float, high: float) -> None:
    """Raise ValueError if bounds of outcomes are too close together or too far apart."""
    if not MIN_OUTCOME_WIDTH <= high - low <= MAX_OUTCOME_WIDTH:
        raise ValueError(
            "Bounds cannot be derived from the public outcomes, because their range is zero, below "
            f"{MIN_OUTCOME_WIDTH:g} or above {MAX_OUTCOME_WIDTH:g}. Pass outcome_bounds=(low, "
            "high)."
        )
