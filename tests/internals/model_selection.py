"""Internal names of model_selection that tests use."""

from skpublicdp.model_selection import kind_choice
from skpublicdp.model_selection.family import CandidateCover, CandidateRows, log_normalizer
from skpublicdp.model_selection.kind_choice import split_budget
