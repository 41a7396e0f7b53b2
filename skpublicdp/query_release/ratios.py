"""Ratios whose denominators may be 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpublicdp.typing import Floats


def ratios(numerators: Any, denominators: Any, default: float = 0.0) -> Floats:
    """Return ratios, or a default where a denominator is not positive."""
    shape = np.broadcast_shapes(np.shape(numerators), np.shape(denominators))
    is_positive = np.greater(denominators, 0)
    return np.divide(numerators, denominators, out=np.full(shape, default), where=is_positive)
