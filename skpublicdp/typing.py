"""Array types that the annotations of the whole package share."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of double precision numbers, of any shape."""

Integers = NDArray[np.int64]
"""Array of 64-bit integers, of any shape: counts, scores and draws."""

Codes = NDArray[np.intp]
"""Array of positions, of any shape: codes of labels, cells and indices of rows."""

Mask = NDArray[np.bool_]
"""Boolean array, of any shape."""

R = TypeVar("R")
"""Result of a function that is applied to batches of rows."""
