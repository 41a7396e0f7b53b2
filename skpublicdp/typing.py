"""Array types used in annotations throughout the package."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of double-precision numbers, of any shape."""

Integers = NDArray[np.int64]
"""Array of 64-bit integers such as counts, scores or draws, of any shape."""

Codes = NDArray[np.intp]
"""Array of positions such as label codes, cells or row indices, of any shape."""

Mask = NDArray[np.bool_]
"""Boolean array, of any shape."""

R = TypeVar("R")
"""Result of a function that is applied to batches of rows."""
