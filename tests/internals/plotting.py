"""Internal names of plotting that tests use."""

from skpublicdp.plotting.report import NOTE_SECTIONS
from skpublicdp.plotting.shape_display import find_limits, find_shapes
