"""Internal names of metrics that tests use."""

from skpublicdp.metrics.estimates import balanced_accuracy_kernel, roc_auc_kernel
from skpublicdp.metrics.label_means import LabelMean
from skpublicdp.metrics.noisy_counts import (
    NoisyCount,
    NoisyTable,
    accuracy_share,
    nearest_nonnegative,
    release_contingency_table,
    release_n_correct,
)
from skpublicdp.metrics.residual_metrics import (
    _parts,
    _sampling_variance,
    residual_interval,
    residual_value,
)
from skpublicdp.metrics.residual_sums import (
    POWERS,
    SUM_RANGES,
    SUM_SENSITIVITY,
    SUM_UNITS,
    NoisySums,
    ResidualCounter,
    release_residual_sums,
    scaled_rows,
)
from skpublicdp.metrics.score_bins import make_score_bins
from skpublicdp.metrics.score_intervals import ratio_interval, share_interval
from skpublicdp.metrics.scores import FAILURE_SHARES
