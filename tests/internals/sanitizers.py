"""Internal names of sanitizers that tests use."""

from skpublicdp.sanitizers import binary_columns, blr_sanitizer, quantile_sanitizer
from skpublicdp.sanitizers.binary_columns import COLUMN_DRAW_NAME, draw_many_valued_columns
from skpublicdp.sanitizers.blr_sanitizer import _max_query_errors, _multisets
from skpublicdp.sanitizers.quantiles import (
    QUANTILES_NAME,
    CandidateGrid,
    candidate_grid,
    find_medians,
    median_errors,
    release_column,
)
