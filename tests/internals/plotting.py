"""Internal names of plotting that tests use."""

from skpublicdp.plotting.shape_display import find_limits
from skpublicdp.plotting.shape_selection import find_shapes
