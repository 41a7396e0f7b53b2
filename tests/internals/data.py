"""Internal names of data that tests use."""

from skpublicdp.data import binning, roles, streaming
from skpublicdp.data.binning import (
    column_medians,
    count_below,
    cut_points,
    fine_edges,
    midpoint,
    snap_to_edges,
)
from skpublicdp.data.column import Column, natural_key
from skpublicdp.data.container import Container
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.inputs import LabelledRows, read_fit_inputs, read_partially_labelled
from skpublicdp.data.labels import label_positions, labels_equal
from skpublicdp.data.one_hot import NONE
from skpublicdp.data.outcomes import TARGET_LEVELS, RegressionTarget
from skpublicdp.data.public_rows import DESCRIBED, reference_sample
from skpublicdp.data.roles import PersonRows
from skpublicdp.data.schema import MISSING, OTHER, Schema, build_schema, parse_bounds
from skpublicdp.data.tables import Table, take_rows
