"""Internal names of boosting that tests use."""

from skpublicdp.boosting import (
    additive_fit,
    additive_posterior,
    bin_splits,
    binned,
    binner,
    budget_split,
    covariate_shift,
    newton,
    outcome_histogram,
    stacking,
    term_posterior,
    training_data,
)
from skpublicdp.boosting import histograms as noisy_histograms
from skpublicdp.boosting import public_model as public_models
from skpublicdp.boosting.additive_fit import MAX_TREE_COLUMNS, AdditiveFit, fit_additive
from skpublicdp.boosting.additive_posterior import (
    GaussianPosterior,
    NoisyStatistic,
    PublicLabels,
    WarmStart,
    WeightedPublicRows,
    evidence_weights,
    fit_prior_variances,
    gauss_newton_update,
    laplace_approximation,
    mix_gaussians,
    mix_models,
    prior_covariances,
    warm_starts,
)
from skpublicdp.boosting.bin_splits import (
    BinSplits,
    apply_tree,
    candidate_splits,
    refine_splits,
    tree_cover,
)
from skpublicdp.boosting.binned import BinnedData, FineBinnedRows, encode_rows
from skpublicdp.boosting.binner import (
    Binner,
    ColumnBins,
    _categorical_bins,
    make_binner,
    n_removable_rows,
    refine_bins,
    refine_scores,
)
from skpublicdp.boosting.budget_split import (
    CLASS_COUNT_SHARE,
    LEAF_SHARE,
    MAX_SHIFT_FRACTION,
    MAX_SHIFT_NOISE,
    MAX_SHIFT_SHARE,
    MAX_TREES,
    MIN_HISTOGRAM_SHARE,
    MIN_ROWS_PER_LABEL_NOISE,
    MIN_SHIFT_SHARE,
    MISMATCH,
    ROUND_SHARES,
    TREE_TRIALS,
    additive_share,
    basic_composition_is_better,
    can_afford_boosting,
    choose_trial,
    n_histogram_rounds,
    n_measured_trees,
    n_voting_trees,
    plan_tree_trial,
    shift_share,
    signal_to_noise,
    vote_step,
)
from skpublicdp.boosting.covariate_shift import (
    FALSE_ALARM_RATE,
    MIN_KEPT_FRACTION,
    MIN_SHIFT_EVIDENCE,
    TILT_VARIANCES,
    ShiftEstimate,
    calibrate_weights,
    estimate_shift,
    expected_bin_shares,
    flattened_weights,
    histogram_drift,
    median_split_indicators,
    noisy_shift,
    normal_scores,
    overlapping_columns,
    shift_features,
)
from skpublicdp.boosting.explain import N_TERMS_SHOWN, Shape, merge_bins, range_text
from skpublicdp.boosting.histograms import (
    STRATEGY_UNIT,
    HistogramStrategy,
    gradient_histogram,
    identity_strategy,
    measure,
    optimised_strategy,
)
from skpublicdp.boosting.loss import (
    LOGISTIC,
    POISSON,
    SQUARED,
    ClippedSquaredLoss,
    MultinomialLoss,
    OutcomeRange,
    sum_packed,
)
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    MAX_MARGIN,
    AdditiveModel,
    boosting_weights,
    null_model,
    probabilities,
    scaled_gradients,
)
from skpublicdp.boosting.monotone import (
    isotonic_projection,
    monotone_leaf_projection,
    project_monotone,
    validate_monotonic_cst,
)
from skpublicdp.boosting.newton import SPLIT_LEVELS, BinSplitter, NewtonBooster
from skpublicdp.boosting.outcome_histogram import (
    RESIDUAL_EDGES,
    residual_fractions,
    residual_quantiles,
)
from skpublicdp.boosting.private_trees import (
    MAX_ROW_WEIGHT,
    PrivateTreeBooster,
    _leaf_posterior,
    _plan_equal_draws,
    leaf_gradients,
)
from skpublicdp.boosting.public_covariance import (
    VARIANCE_TOLERANCE,
    index_of_blocks,
    make_factor_basis,
    second_moment,
    shares_retained,
    shrunk_moment,
)
from skpublicdp.boosting.term_posterior import (
    MAX_SCORE,
    PRIOR_VARIANCES,
    TermPosterior,
    allocation_grid,
    neyman_allocation,
    piecewise_linear_guess,
    smoothing_prior,
)
from skpublicdp.boosting.training_data import TrainingData, read_training_data
