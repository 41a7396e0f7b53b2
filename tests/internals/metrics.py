"""Internal names of metrics that tests use."""

from skpublicdp.metrics.counts import OTHER_GROUP, make_score_bins
from skpublicdp.metrics.estimates import LabelMean, balanced_accuracy_kernel, roc_auc_kernel
from skpublicdp.metrics.noisy_counts import (
    NoisyCount,
    NoisyTable,
    accuracy_share,
    merge_groups,
    nearest_nonnegative,
    release_contingency_table,
    release_n_correct,
)
from skpublicdp.metrics.operating_points import RATES
from skpublicdp.metrics.residual_metrics import (
    POWERS,
    SUM_RANGES,
    SUM_SENSITIVITY,
    SUM_UNITS,
    NoisySums,
    ResidualCounter,
    _parts,
    _sampling_variance,
    release_residual_sums,
    residual_interval,
    residual_value,
    scaled_rows,
)
from skpublicdp.metrics.score_intervals import ratio_interval, share_interval
from skpublicdp.metrics.scores import FAILURE_SHARES
