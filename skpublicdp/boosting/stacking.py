"""Stacking of a public and a private model, with a weight computed from two noisy sums.

The final margin is α F + β s + c, where F is the margin of the boosted model and s is the margin of
the public model, both centred. The gradient is evaluated at a mixture of both models. One sum adds
up the gradient times F, and the other adds up the gradient times s. All other quantities are
functions of public rows and released values (docs/proofs/moments.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import logsumexp

from skpublicdp.accounting import Sensitivity
from skpublicdp.boosting.additive_posterior import (
    LOG_VARIANCE_MEAN,
    PublicLabels,
    WeightedPublicRows,
    bin_prior,
    clipped_rates,
    laplace_approximation,
    prior_covariances,
)
from skpublicdp.boosting.fitted_model import FittedModel, PublicTerm
from skpublicdp.boosting.histograms import BOOSTING_PROOF
from skpublicdp.boosting.loss import Loss
from skpublicdp.boosting.model import MARGIN_UNIT, MAX_GRADIENT, gradient_scale
from skpublicdp.boosting.public_model import PublicMargins, make_folds
from skpublicdp.boosting.training_data import TrainingData
from skpublicdp.privacy.ledger import Ledger, noise_is_representable
from skpublicdp.privacy.stage_budget import StageBudget
from skpublicdp.typing import Floats, Integers

STACKING_SHARE = Fraction(1, 25)
"""Share of the budget for the two sums that determine the weight of a public model."""

SWAP_DEVIATION, SCALE_DEVIATION = 0.4, 0.2
"""Prior standard deviations of the weights: one for a shift of weight between the models, and one
for a common factor."""

OTHER_POPULATION = 0.1
"""Prior probability that the public model describes a different population and should have no
weight."""

MAX_WEIGHT = 2.0
"""Maximum weight of either model."""

MAX_GROWTH = 2.0
"""Upper bound on the factor by which disagreement between the models can increase the estimated
error of the public model."""

MIXTURES = np.linspace(0.0, 1.0, 11)
"""Candidate weights of the public model relative to a fit of the public labels. One of them is
selected using the public labels."""

SHARE_BOUNDS = (0.05, 0.95)
"""Bounds on the weight that the public labels assign to the public model."""

UNKNOWN_SHARE = 0.75
"""Prior weight of the public model relative to voting trees, whose error is unknown."""

LENGTH_QUANTILE = 0.95
"""Level of a quantile of the margin lengths on public rows. Margins are divided by this quantile
and clipped to length 1."""

MIN_LENGTH = 0.1
"""Smallest length, in logits, by which margins are divided."""

DIRECTION_UNIT = 64
"""Integer that represents a clipped margin of length 1."""

LARGEST_PRODUCT = MAX_GRADIENT * DIRECTION_UNIT
"""Bound on the contribution of one row to each sum. The gradient of a row has a length of at most
MAX_GRADIENT, and its clipped margins have a length of at most DIRECTION_UNIT."""

STACKING_SENSITIVITY = Sensitivity(4 * LARGEST_PRODUCT, 2 * (2 * LARGEST_PRODUCT) ** 2)
"""Sensitivity of the two sums. Replacing a row changes each sum by at most twice the bound on a
contribution."""


def stack_public_model(
    fitted: FittedModel, training: TrainingData, ledger: Ledger, budget: StageBudget
) -> FittedModel:
    """Combine a boosted model and a public model, using weights determined by two noisy sums.

    1. Estimate the errors of both models from public values, and compute the expected weights of
       the models.
    2. Release two sums over the private rows. Each adds up the gradient at the expected weights,
       multiplied by the margin of one of the models. If the noise is too large to be sampled, keep
       the expected weights.
    3. Compute the posterior of the weights, and return the model with the posterior mean weights.
    """
    assert training.public_margins is not None
    has_labels = training.public_labels is not None
    pair = _ModelPair.from_public_rows(fitted, training.public_margins, is_calibrated=has_labels)
    public_error = _public_error(fitted, training, pair)
    total_error = fitted.variance + public_error
    expected = fitted.variance / total_error if fitted.variance else UNKNOWN_SHARE
    weights = np.array([1 - expected, expected])
    if noise_is_representable(budget.event, ledger.for_person(STACKING_SENSITIVITY)):
        noisy_sums, variance = _noisy_sums(pair, weights, training, ledger, budget)
        weights = _weights_given_sums(
            pair, weights, noisy_sums, variance, training.rows.n, pure=not ledger.delta
        )
    return _stacked(pair, weights, public_error, training.public_margins)


@dataclass(frozen=True, eq=False)
class _ModelPair:
    """Boosted model and public model, together with their margins on the public rows."""

    fitted: FittedModel  # the boosted model
    # (2, n_targets, m): margins of the boosted model and the public model on the public rows
    of_public: Integers
    # (2, n_targets, 1): rounded weighted means of these margins, which are subtracted to centre
    # margins
    means: Integers
    # (2,): maximum lengths of a row's centred margins, in logits. Longer margins are clipped.
    lengths: Floats
    # whether the public model's mean outcome is also calibrated to public labels
    is_calibrated: bool

    @classmethod
    def from_public_rows(
        cls, fitted: FittedModel, public: PublicMargins, *, is_calibrated: bool
    ) -> _ModelPair:
        """Return the pair of models, with means and lengths computed on the public rows."""
        boosted = fitted.model.raw_predict(fitted.data.public_codes)
        of_public = np.array([boosted, public.of_public.astype(np.int64)])
        means = np.rint(of_public @ fitted.row_weights).astype(np.int64)  # (2, n_targets)
        pair = cls(
            fitted,
            of_public=of_public,
            means=means[..., None],
            lengths=np.ones(2),
            is_calibrated=is_calibrated,
        )
        lengths = []
        for directions in pair.directions(of_public):
            quantile = np.quantile(_lengths(directions), LENGTH_QUANTILE)
            lengths.append(max(float(quantile), MIN_LENGTH))
        return replace(pair, lengths=np.array(lengths))

    @property
    def loss(self) -> Loss:
        """Loss of both margins."""
        return self.fitted.loss

    def directions(self, margins: Integers) -> Floats:
        """Return the centred margins of both models in logits, shape (2, n_targets, n).

        If there are several targets, a constant is subtracted from each row's margins so that the
        margins sum to 0. The softmax does not depend on this constant.
        """
        centred: Floats = (margins - self.means) / MARGIN_UNIT
        if centred.shape[1] > 1:
            total = np.zeros(centred[:, 0].shape)
            for target in range(centred.shape[1]):  # in a fixed order
                total += centred[:, target]
            centred -= total[:, None] / centred.shape[1]
        return centred

    def clipped(self, directions: Floats) -> Floats:
        """Return directions divided by `lengths`, clipped to a length of at most 1 in each row."""
        scaled = directions / self.lengths[:, None, None]
        longest = np.array([_lengths(rows) for rows in scaled])
        return scaled / np.maximum(longest, 1.0)[:, None]

    def baseline(self, margins: Integers, weights: Floats) -> Integers:
        """Return the weighted sum of the centred margins, plus a mixture of the mean margins."""
        boosted, public = margins - self.means
        boosted_mean, public_mean = self.means
        boosted_weight, public_weight = weights
        share = self.public_share(weights)
        mixed = boosted_weight * boosted + public_weight * public
        mixed += (1 - share) * boosted_mean + share * public_mean
        return np.rint(mixed).astype(np.int64)

    def public_share(self, weights: Floats) -> float:
        """Return the public model's share of the mean outcome, given the weights of both models."""
        return float(weights[1] / weights.sum()) if self.is_calibrated and weights.any() else 0.0


def _lengths(directions: Floats) -> Floats:
    """Return the Euclidean norm of each row's margins, shape (n,)."""
    squares = np.zeros(directions.shape[1])
    for values in directions:  # in a fixed order, independent of the row's position
        squares += values**2
    return np.sqrt(squares)


def _noisy_sums(
    pair: _ModelPair, weights: Floats, training: TrainingData, ledger: Ledger, budget: StageBudget
) -> tuple[Floats, float]:
    """Release the sums of gradient times clipped margin for both models, for given weights.

    Returns
    -------
    ndarray of float64, shape (2,)
        The noisy sums, in units of the gradient.
    float
        Noise variance of the sums.
    """
    rows = training.rows
    data = replace(pair.fitted.data, rows=rows)  # all rows, even if the fit used a sample

    def sum_chunk(chunk: slice) -> Integers:
        """Return both sums over one chunk of rows, shape (2,)."""
        codes = data.codes(chunk)
        y = rows.y[chunk]
        boosted = pair.fitted.model.raw_predict(codes)
        margins = np.array([boosted, rows.public_margins[:, chunk].astype(np.int64)])
        baseline = pair.baseline(margins, weights)
        gradients, _ = pair.loss.gradient_hessian(baseline, y)  # (n_targets, k)
        directions = pair.directions(margins)
        clipped = pair.clipped(directions)  # (2, n_targets, k)
        n_rows = len(gradients[0])
        products = np.zeros((2, n_rows))
        for target, gradient in enumerate(gradients):
            products += DIRECTION_UNIT * gradient * clipped[:, target]
        integers = np.rint(products).astype(np.int64)
        return integers.sum(axis=1)

    measured = ledger.add_noise(
        rows.sum_over_chunks(sum_chunk),
        STACKING_SENSITIVITY,
        budget.event,
        name="noisy sums that weigh the public model",
        proof=BOOSTING_PROOF,
    )
    unit = 2 * LARGEST_PRODUCT
    return measured.values / unit, measured.variance / unit**2


def _weights_given_sums(
    pair: _ModelPair,
    expected: Floats,  # (2,)
    noisy_sums: Floats,  # (2,)
    noise_variance: float,
    n: int,
    *,
    pure: bool,
) -> Floats:
    """Return the posterior mean of both weights, given the noisy sums at the expected weights.

    The prior is a normal distribution centred at the expected weights, mixed with the weights 1 and
    0 for the case that the public model describes another population. The sums are approximately
    normal and, to first order, linear in the weights.
    """
    loss = pair.loss
    baseline = pair.baseline(pair.of_public, expected)
    directions = pair.directions(pair.of_public)
    clipped = pair.clipped(directions)
    scale = gradient_scale(loss.mean(baseline), pure)
    row_weights = n * pair.fitted.row_weights
    # the sums are hessian @ (weights - expected) + N(0, covariance)
    changes = np.array([loss.mean_change(baseline, one) for one in directions])
    spreads = np.array([loss.outcome_covariance(baseline, one) for one in clipped])
    gradient_weights = row_weights * scale  # (m,)
    square_weights = row_weights * scale**2
    hessian = np.einsum("jti,kti,i->jk", clipped, changes, gradient_weights)
    covariance = np.einsum("jti,kti,i->jk", clipped, spreads, square_weights)
    covariance += noise_variance * np.eye(2)

    # with the probability 1 - OTHER_POPULATION: weights ~ N(expected, prior)
    swap = np.array([-1.0, 1.0])
    swap_covariance = SWAP_DEVIATION**2 * np.outer(swap, swap)
    scale_covariance = SCALE_DEVIATION**2 * np.outer(expected, expected)
    prior = swap_covariance + scale_covariance
    marginal = hessian @ prior @ hessian.T + covariance
    solved_sums = np.linalg.solve(marginal, noisy_sums)
    posterior_mean = expected + prior @ hessian.T @ solved_sums
    log_evidence = _log_normal(noisy_sums, marginal) + np.log(1 - OTHER_POPULATION)

    # with the probability OTHER_POPULATION: the boosted model alone
    boosted_alone = np.array([1.0, 0.0])
    change = boosted_alone - expected
    residuals = noisy_sums - hessian @ change
    log_evidence_alone = _log_normal(residuals, covariance) + np.log(OTHER_POPULATION)

    log_evidences = np.array([log_evidence, log_evidence_alone])
    probabilities = np.exp(log_evidences - logsumexp(log_evidences))
    means = np.array([posterior_mean, boosted_alone])
    mixed = probabilities @ means
    return np.clip(mixed, 0.0, MAX_WEIGHT)


def _log_normal(deviation: Floats, covariance: Floats) -> float:
    """Return the log density of a normal distribution, up to an additive constant."""
    _, log_determinant = np.linalg.slogdet(covariance)
    return -float(deviation @ np.linalg.solve(covariance, deviation) + log_determinant) / 2


def _public_error(fitted: FittedModel, training: TrainingData, pair: _ModelPair) -> float:
    """Estimate the squared error of the public model's margins, in squared logits.

    Without public labels, the estimate is the squared distance D between the two models. If there
    are public labels, they are used to select a weight p of the public model relative to a binned
    fit of the same labels. If the errors of these two models are independent, p = V / (V + error),
    where V is the variance of the fit, and V + error is the squared distance between the models.
    For classification, V is known. For regression, the squared distance is used instead, since the
    logistic likelihood of the fit overstates the variance. The estimate is increased if the boosted
    model, which is based on more data, is farther from the public model than this fit is.
    """
    boosted, public = pair.directions(pair.of_public)
    distance = float((((boosted - public) ** 2).sum(axis=0)) @ fitted.row_weights)
    if training.public_labels is None:
        return distance
    comparison = _compare_on_labels(training, training.public_labels, pair)
    share, variance, distance_of_fit = comparison
    growth = float(np.clip(distance / max(distance_of_fit, 1e-9), 1.0, MAX_GROWTH))
    if not pair.loss.has_labels:
        return (1 - share) * distance_of_fit * growth
    return variance * (1 - share) / share * growth


def _compare_on_labels(
    training: TrainingData, public_labels: PublicLabels, pair: _ModelPair
) -> tuple[float, float, float]:
    """Compare out-of-fold predictions of the public model with a binned fit of the public labels.

    Return the weight of the public model that best fits the public labels, the posterior variance
    of the fit's margins in squared logits, and the mean squared distance of the margins of both.
    """
    loss = pair.loss
    data = training.binned
    design = WeightedPublicRows.from_data(data)
    blocks = prior_covariances(data.binner, design)
    log_variances = np.full(len(blocks), LOG_VARIANCE_MEAN)
    prior = bin_prior(blocks, log_variances, intercept=0.0, X=design.X)
    rates = clipped_rates(public_labels)
    intercepts = np.log(rates / (1 - rates))  # (n_targets,)

    # out-of-fold log-odds of the binned fit, and the sum of their variances
    X, outcomes = prior.X[public_labels.rows], public_labels.outcomes
    codes = outcomes[0] if len(outcomes) == 1 else outcomes.argmax(axis=0)
    folds = make_folds(codes.astype(np.float64))
    log_odds, variance = np.empty(outcomes.shape), 0.0
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold
        is_fitted_to = ~is_held_out
        centred = X[is_held_out] - X.mean(axis=0)
        for target, intercept in enumerate(intercepts):
            mean = np.append(prior.factors.mean[:-1], intercept)
            start = replace(prior.factors, mean=mean)
            posterior = laplace_approximation(
                start, X[is_fitted_to], outcomes[target, is_fitted_to], exponent=1.0
            )
            log_odds[target, is_held_out] = posterior.margins(X[is_held_out])
            covariance = posterior.covariance[:-1, :-1]
            variance += float(((centred @ covariance) * centred).sum())
    factors = loss.logistic_rescaling(outcomes.mean(axis=1))
    variance *= float((factors**2).mean()) / len(codes)

    # distance between the centred margins of the fit and of the public model, (n_targets, k)
    fit_margins = loss.of_log_odds(log_odds)
    public_margins = pair.of_public[1][:, public_labels.rows] / MARGIN_UNIT
    differences = fit_margins - public_margins
    differences = loss.centred(differences)
    differences = differences - differences.mean(axis=1, keepdims=True)
    distance = float((differences**2).sum(axis=0).mean())

    # posterior mean of the share, for equally likely shares
    log_likelihoods = []
    for share in MIXTURES:
        mixed = (1 - share) * fit_margins + share * public_margins
        integers = np.rint(MARGIN_UNIT * mixed).astype(np.int64)
        means = loss.mean(integers)
        log_likelihoods.append(loss.log_likelihood(means, outcomes))
    posterior_of_shares = np.exp(log_likelihoods - logsumexp(log_likelihoods))
    mean_share = float(posterior_of_shares @ MIXTURES)
    return float(np.clip(mean_share, *SHARE_BOUNDS)), variance, distance


def _stacked(
    pair: _ModelPair, weights: Floats, public_error: float, public_margins: PublicMargins
) -> FittedModel:
    """Return the weighted sum of both models.

    Over the public rows, the mean outcome equals that of the boosted model. If the public model is
    calibrated to public labels, the mean outcome is a mixture of the mean outcomes of both models.
    The first weight is that of the boosted model.
    """
    fitted, (boosted_weight, public_weight) = pair.fitted, weights.tolist()

    def scale(scores: Integers) -> Integers:
        """Multiply scores by the weight of the boosted model, and round them."""
        return np.rint(boosted_weight * scores).astype(np.int64)

    model = fitted.model
    model = replace(
        model,
        scores=scale(model.scores),
        intercepts=scale(model.intercepts),
        leaf_scores=tuple(map(scale, model.leaf_scores)),
    )
    codes = fitted.data.public_codes
    term = PublicTerm(public_margins, public_weight, public_weight**2 * public_error)
    of_public_rows = term.of_margins(public_margins.of_public)
    outcomes = [fitted.loss.mean(margins) @ fitted.row_weights for margins in pair.of_public]
    share = pair.public_share(weights)
    target = (1 - share) * outcomes[0] + share * outcomes[1]
    for _ in range(5):  # Newton steps on the intercepts
        means = fitted.loss.mean(model.raw_predict(codes) + of_public_rows) @ fitted.row_weights
        difference = fitted.loss.link(target) - fitted.loss.link(means)
        change = np.rint(MARGIN_UNIT * difference).astype(np.int64)
        model = replace(model, intercepts=model.intercepts + change)
    return replace(
        fitted,
        model=model,
        covariances=[boosted_weight**2 * block for block in fitted.covariances],
        error_covariances=fitted.error_covariances
        and [boosted_weight**2 * block for block in fitted.error_covariances],
        variance=boosted_weight**2 * fitted.variance,
        public_term=term,
        boosting_weight=boosted_weight,
    )
