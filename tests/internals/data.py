"""Internal names of data that tests use."""

from skpublicdp.data import binning, persons, roles, streaming
from skpublicdp.data.binning import (
    column_medians,
    count_below,
    cut_points,
    fine_edges,
    midpoint,
    snap_to_edges,
)
from skpublicdp.data.bounds import parse_bounds
from skpublicdp.data.column import Column, natural_key
from skpublicdp.data.container import Container
from skpublicdp.data.dataset import Dataset
from skpublicdp.data.fit_inputs import read_fit_inputs
from skpublicdp.data.labelled_inputs import LabelledRows, read_partially_labelled
from skpublicdp.data.labels import label_positions, labels_equal
from skpublicdp.data.one_hot import NONE
from skpublicdp.data.persons import PersonRows
from skpublicdp.data.public_rows import DESCRIBED, reference_sample
from skpublicdp.data.schema import MISSING, OTHER, Schema, build_schema
from skpublicdp.data.tables import Table, take_rows
