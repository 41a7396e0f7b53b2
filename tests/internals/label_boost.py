"""Internal names of label_boost that tests use."""

from skpublicdp.label_boost.guarantee import _is_subclass, label_boost_guarantee
from skpublicdp.label_boost.labelings import GridLabelings, HalfplaneLabelings
from skpublicdp.label_boost.plan import (
    LabelBoostPlan,
    RelabellingRound,
    affordable_base_budget,
    choose_plan,
    relabelling_epsilon,
    rounds_epsilon,
    tight_plan,
)
from skpublicdp.label_boost.relabelling import (
    all_labelings,
    check_relabelling,
    log_n_labelings,
    max_relabelled_rows,
    relabel,
)
from skpublicdp.label_boost.rounds import record_stages, rows_for_base_learner
