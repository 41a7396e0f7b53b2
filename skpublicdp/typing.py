"""Array types used in annotations throughout the package."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of double precision numbers with any shape."""

Integers = NDArray[np.int64]
"""Array of 64-bit integers (counts, scores, draws) with any shape."""

Codes = NDArray[np.intp]
"""Array of positions (label codes, cells, row indices) with any shape."""

Mask = NDArray[np.bool_]
"""Boolean array with any shape."""

R = TypeVar("R")
"""Result of a function applied to batches of rows."""
