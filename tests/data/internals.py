"""All that tests of data take from inside the package: a rename changes this file alone."""
# ruff: noqa: F401

from skpublicdp._internal.redaction import NotNumbersError
from skpublicdp._internal.threads import RefCountedContext, one_blas_thread
from skpublicdp.boosting import newton
from skpublicdp.boosting.binner import ColumnBins
from skpublicdp.boosting.budget_split import N_BINS
from skpublicdp.boosting.training_data import read_training_data
from skpublicdp.data import one_hot, public_rows, streaming, tables
from skpublicdp.data.binning import LOOKUP_BLOCK, SortedEdges
from skpublicdp.data.column import Column
from skpublicdp.data.dataset import scratch_array
from skpublicdp.data.inputs import read_fit_inputs
from skpublicdp.data.labels import LabelReader
from skpublicdp.data.metadata_files import read_metadata
from skpublicdp.data.one_hot import (
    MAX_CHANCE,
    NONE,
    OneHotColumn,
    find_one_hot_runs,
    fold_rows,
    folded_schema,
    indicator_states,
    source_columns,
)
from skpublicdp.data.public_rows import (
    DESCRIBED,
    N_ADDED_ROWS,
    is_described,
    mark_described,
    reference_sample,
)
from skpublicdp.data.schema import MISSING, OTHER, build_schema
from skpublicdp.data.sources import optional_imports, worker_readers
from skpublicdp.data.sources.reader import ORDER_CHANGED
from skpublicdp.data.streaming import Chunk, as_rows, is_streamed
from skpublicdp.data.tables import Table
from skpublicdp.hypotheses import splits
from skpublicdp.query_release import synthetic
