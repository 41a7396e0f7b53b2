"""Internal names of hypotheses that tests use."""

from skpublicdp.hypotheses.axis_boxes import (
    AxisBoxCover,
    axis_pool,
    build_axis_boxes,
    increasing_subsets,
)
from skpublicdp.hypotheses.base import TABULATION_CHUNK_ROWS, check_public_values, tabulate
from skpublicdp.hypotheses.boxes import n_boxes
from skpublicdp.hypotheses.class_checks import _random_member
from skpublicdp.hypotheses.cones import ConeCover
from skpublicdp.hypotheses.contingency import contingency_table
from skpublicdp.hypotheses.directions import MAX_SPARSE_FEATURES, directions_around, draw_directions
from skpublicdp.hypotheses.growing_unions import growing_boxes, growing_polytopes
from skpublicdp.hypotheses.halfspace_sets import (
    PERTURBATIONS,
    AffineHull,
    HalfspaceSet,
    all_supported_halfspaces,
    halfspaces_near,
    n_supported_halfspaces,
    open_complements,
)
from skpublicdp.hypotheses.intersections import max_pool_size, max_support_points, unrank
from skpublicdp.hypotheses.magnitudes import MAX_MAGNITUDE, MIN_RANGE
from skpublicdp.hypotheses.pivots import RotatingHyperplanes
from skpublicdp.hypotheses.splits import Splits, public_splits, quantile_thresholds
from skpublicdp.hypotheses.sweeps import ParallelHyperplanes
from skpublicdp.hypotheses.trees import DecisionTree
