"""Internal names of boosting that tests use."""

from skpublicdp.boosting import (
    additive_fit,
    additive_posterior,
    bin_splits,
    binned,
    binner,
    covariate_shift,
    default_public_model,
    newton_boosting,
    newton_fit,
    public_margins,
    stacking,
    strategy,
    term_posterior,
    training_data,
)
from skpublicdp.boosting.adaptive_bins import SPLIT_LEVELS, BinSplitter
from skpublicdp.boosting.additive_fit import AdditiveFit, fit_additive
from skpublicdp.boosting.additive_posterior import (
    GaussianPosterior,
    NoisyStatistic,
    WeightedPublicRows,
    fit_prior_variances,
    gauss_newton_update,
    prior_covariances,
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
    StageBudget,
    additive_share,
    basic_composition_is_better,
    can_afford_boosting,
    choose_trial,
    make_stage_budget,
    n_histogram_rounds,
    n_measured_trees,
    n_voting_trees,
    plan_tree_trial,
    shift_share,
    signal_to_noise,
    vote_step,
)
from skpublicdp.boosting.covariate_shift import (
    MIN_SHIFT_EVIDENCE,
    TILT_VARIANCES,
    ShiftEstimate,
    calibrate_weights,
    estimate_shift,
    expected_bin_shares,
    median_split_indicators,
    noisy_shift,
    normal_scores,
    shift_features,
)
from skpublicdp.boosting.drift import (
    FALSE_ALARM_RATE,
    MIN_KEPT_FRACTION,
    flattened_weights,
    histogram_drift,
    overlapping_columns,
)
from skpublicdp.boosting.explain import Shape
from skpublicdp.boosting.histograms import gradient_histogram, measure
from skpublicdp.boosting.loss import (
    LOGISTIC,
    SQUARED,
    ClippedSquaredLoss,
    MultinomialLoss,
    sum_packed,
)
from skpublicdp.boosting.model import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    MAX_MARGIN,
    TARGET_LEVELS,
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
from skpublicdp.boosting.newton_boosting import NewtonBooster
from skpublicdp.boosting.outcome_range import OutcomeRange
from skpublicdp.boosting.private_trees import (
    MAX_ROW_WEIGHT,
    PrivateTreeBooster,
    _leaf_posterior,
    _plan_equal_draws,
    leaf_gradients,
)
from skpublicdp.boosting.public_labels import (
    PublicLabels,
    WarmStart,
    evidence_weights,
    laplace_approximation,
    mix_gaussians,
    mix_models,
    warm_starts,
)
from skpublicdp.boosting.residual_histogram import (
    RESIDUAL_EDGES,
    residual_fractions,
    residual_quantiles,
)
from skpublicdp.boosting.strategy import (
    STRATEGY_UNIT,
    HistogramStrategy,
    identity_strategy,
    optimised_strategy,
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
from skpublicdp.boosting.terms import N_TERMS_SHOWN, merge_bins, range_text
from skpublicdp.boosting.training_data import TrainingData, read_training_data
