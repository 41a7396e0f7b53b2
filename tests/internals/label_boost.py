"""Internal names of label_boost that tests use."""

from skpublicdp.label_boost.guarantee import _is_subclass, label_boost_guarantee
from skpublicdp.label_boost.labelings import GridLabelings
from skpublicdp.label_boost.labelings_2d import HalfplaneLabelings
from skpublicdp.label_boost.plan_search import tight_plan
from skpublicdp.label_boost.privacy_plan import (
    LabelBoostPlan,
    RelabellingRound,
    affordable_base_budget,
    relabelling_epsilon,
    rounds_epsilon,
)
from skpublicdp.label_boost.procedure import record_stages, rows_for_base_learner
from skpublicdp.label_boost.relabelling import (
    all_labelings,
    check_relabelling,
    log_n_labelings,
    max_relabelled_rows,
    relabel,
)
