"""Parts of Newton boosting: losses, term posteriors, allocation and adaptive bins."""

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial import ConvexHull
from scipy.special import logsumexp

from skpublicdp.accounting import Sensitivity, gaussian_mu_squared
from tests.internals.boosting import (
    LOGISTIC,
    MARGIN_UNIT,
    MAX_GRADIENT,
    MAX_MARGIN,
    MAX_SCORE,
    MISMATCH,
    POISSON,
    PRIOR_VARIANCES,
    ROUND_SHARES,
    SPLIT_LEVELS,
    SQUARED,
    STRATEGY_UNIT,
    AdditiveModel,
    Binner,
    BinSplitter,
    ColumnBins,
    FineBinnedRows,
    HistogramStrategy,
    MultinomialLoss,
    TermPosterior,
    TrainingData,
    additive_share,
    allocation_grid,
    can_afford_boosting,
    candidate_splits,
    make_binner,
    neyman_allocation,
    piecewise_linear_guess,
    probabilities,
    refine_bins,
    refine_scores,
    refine_splits,
    smoothing_prior,
    term_posterior,
)
from tests.internals.data import TARGET_LEVELS, Column
from tests.internals.privacy import Ledger, StageBudget, noise_is_representable
from tests.kit import Recorder

# Losses: contribution of one row to its bin


def length(values, pure):
    """Return the norm of a change that the noise is calibrated to, over the last axis."""
    return np.abs(values).sum(axis=-1) if pure else (values**2).sum(axis=-1)


def most_moved(points, pure):
    """Return the largest change of the sums over all pairs of rows, in one bin or in two."""
    alone = length(points, pure).max()
    together = max(length(points - point, pure).max() for point in points)
    return max(2 * alone, together)


def of_one_target(loss):
    """Return gradient and hessian of every margin with every label, or with some outcomes."""
    step = 1 if loss is LOGISTIC else 16
    margins = np.append(np.arange(-MAX_MARGIN, MAX_MARGIN + 1, step), [-(10**9), 10**9])[None]
    outcomes = (0, 1) if loss is LOGISTIC else np.arange(0, TARGET_LEVELS + 1, 64) / TARGET_LEVELS
    parts = [loss.gradient_hessian(margins, np.full(margins.shape[1], y)) for y in outcomes]
    points = np.unique(np.hstack([np.vstack(part) for part in parts]).T, axis=0)
    return points[ConvexHull(points).vertices]  # lengths are convex: corners are farthest apart


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize(
    ("loss", "least_slope"),
    [
        (LOGISTIC, 0),
        (SQUARED, MAX_GRADIENT // 4),
        (POISSON, 0),
        *((POISSON.clipped(dispersion), 0) for dispersion in (0.3, 0.02, 1e-5)),
    ],
)
def test_loss_sensitivity_for_one_target(loss, least_slope, pure):
    points = of_one_target(loss)
    assert np.abs(points[:, 0]).max() == MAX_GRADIENT
    assert (points[:, 1].min(), points[:, 1].max()) == (least_slope, MAX_GRADIENT // 2)
    bound = loss.sensitivity.absolute if pure else loss.sensitivity.squared
    most = most_moved(points, pure)
    assert most <= bound
    assert most == bound or (loss is SQUARED and not pure and most > 0.95 * bound)


def some_margins(n_targets, n=4000, seed=0):
    """Margins of all sizes; labels are more often than not the unlikeliest ones."""
    rng = np.random.default_rng(seed)
    margins = MARGIN_UNIT * rng.normal(size=(n_targets, n)) * rng.choice([0, 0.1, 1, 4, 40], n)
    margins[:, 1] = 10**9 * rng.choice([-1, 1], n_targets)
    margins[: n_targets // 2, 2] = 10**9
    margins = np.rint(margins).astype(np.int32)
    y = np.where(rng.random(n) < 0.7, margins.argmin(axis=0), rng.integers(n_targets, size=n))
    return margins, y


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("n_targets", [3, 4, 12])
def test_loss_sensitivity_for_several_targets(n_targets, pure):
    loss = MultinomialLoss(n_targets, pure=pure)
    residuals, slopes = loss.gradient_hessian(*some_margins(n_targets))
    longest = length(residuals.T, pure)
    assert longest.max() <= (MAX_GRADIENT if pure else MAX_GRADIENT**2)
    assert slopes.min() >= 0
    assert length(slopes.T, pure).max() <= (MAX_GRADIENT // 2 if pure else (MAX_GRADIENT // 2) ** 2)
    # a tree counts the residuals of the other targets for a label: its own, and a remainder
    assert np.abs(residuals.sum(axis=0)).max() <= n_targets
    bound = loss.sensitivity.absolute if pure else loss.sensitivity.squared
    most = most_moved(np.vstack([residuals, slopes]).T, pure)
    assert (0.95 if pure else 0.85) * bound < most <= bound


CORNERS = st.sampled_from([-(2**31), -MAX_MARGIN, -1, 0, 1, MARGIN_UNIT, MAX_MARGIN, 2**31 - 1])


@given(
    st.integers(3, 6).flatmap(
        lambda size: arrays(
            np.int32, (size, 2), elements=st.one_of(CORNERS, st.integers(-9000, 9000))
        )
    ),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_largest_distance_of_two_rows_of_several_labels(margins, one, other, pure):
    loss = MultinomialLoss(len(margins), pure=pure)
    points = np.vstack(loss.gradient_hessian(margins, np.array([one, other]))).T
    assert most_moved(points, pure) <= (
        loss.sensitivity.absolute if pure else loss.sensitivity.squared
    )


def losses():
    for pure in (True, False):
        yield MultinomialLoss(3, pure=pure)
    yield from (LOGISTIC, SQUARED, POISSON)


@pytest.mark.parametrize("loss", losses())
def test_gradients_depend_on_the_row_alone(loss):
    """Whatever rows there are besides, in whatever order."""
    margins, y = some_margins(loss.n_targets, n=301)
    margins = margins.astype(np.int32)
    y = y if loss.has_labels else np.resize([0, 1, 0.3], len(y))
    y = y % 2 if loss is LOGISTIC else y
    whole = loss.gradient_hessian(margins, y)
    order = np.random.default_rng(1).permutation(len(y))
    for row in (slice(0, 1), slice(17, 18), slice(2, 9), slice(None, None, 7), order):
        for found, expected in zip(
            loss.gradient_hessian(margins[:, row], y[row]), whole, strict=True
        ):
            np.testing.assert_array_equal(found, expected[:, row])
            np.testing.assert_array_equal(found, np.rint(found))  # integers
    none, slopes = loss.gradient_hessian(margins)
    assert not none.any()
    np.testing.assert_array_equal(slopes, whole[1])


@pytest.mark.parametrize("loss", losses())
def test_hessians_are_derivatives_of_gradients(loss):
    targets = loss.n_targets
    margins, _ = some_margins(targets, n=500, seed=3)
    # a line is cut off at 2 units, and an exponential at log 2
    margins = np.clip(margins, -1900, 600 if loss is POISSON else 1900).astype(np.int64)
    y = np.zeros(500, dtype=np.intp)
    step = MARGIN_UNIT // 32
    for target in range(targets):
        moved = margins.copy()
        moved[target] += step
        change = (loss.mean(moved) - loss.mean(margins))[target] / step * MARGIN_UNIT
        residuals, slopes = loss.gradient_hessian(margins, y)
        outcome = y == target if targets > 1 else y
        scale = residuals[target] / (outcome - loss.mean(margins)[target])
        np.testing.assert_allclose(loss.hessian_unit * slopes[target], scale * change, atol=6)


def test_logistic_models_are_converted_to_the_softmax():
    """Means of public rows stay what they were, summed to 1 if there are several."""
    rng = np.random.default_rng(0)
    features = numeric(6, 4)
    codes = np.array([rng.integers(0, size, 50) for size in features.sizes], dtype=np.int16)
    weights = rng.dirichlet(np.ones(50))
    for loss in losses():
        scores = rng.normal(0, 0.5 * MARGIN_UNIT, (loss.n_targets, features.offsets[-1]))
        model = AdditiveModel(
            np.rint(scores).astype(int), np.full(loss.n_targets, 300), features.offsets
        )
        rates = probabilities(model.raw_predict(codes)) @ weights
        rates /= rates.sum() if loss.n_targets > 1 else 1
        found = loss.from_logistic(model, codes, weights)
        np.testing.assert_allclose(loss.mean(found.raw_predict(codes)) @ weights, rates, atol=2e-3)
        assert found.scores.dtype == np.int64


# Term posteriors


class Naive:
    """A term posterior, computed with full matrices as in textbooks."""

    def __init__(self, kernel, scores, guess, public_rows, stretch):
        self.kernel, self.scores, self.first, self.guess = kernel, scores, scores, guess
        self.public_rows, self.stretch = public_rows, stretch
        self.seen = []

    def update(self, sums, slopes, variance, expected, sampling):
        # residuals of earlier visits, less what was explained since, and slopes; by precision
        self.seen.append([np.array(sums), np.array(slopes), 1 / variance, np.zeros_like(sums)])
        weights = np.array([w for *_, w, _ in self.seen])
        left = sum(w * (s - e) for w, (s, _, _, e) in zip(weights, self.seen, strict=True))
        left /= weights.sum()
        known = sum(w * q for w, (_, q, _, _) in zip(weights, self.seen, strict=True))
        guess = (self.public_rows + 0.3) / expected**2
        H = (guess * expected + known) / (guess + weights.sum())
        H = self.stretch * np.maximum(H, 0.02 * expected + 0.05)
        found = self.average(left + H * self.scores, H, 1 / weights.sum() + sampling * H)
        moved = np.clip(found, -MAX_SCORE, MAX_SCORE)
        for visit in self.seen:
            visit[3] = visit[3] + H * (moved - self.scores)
        self.scores = moved

    def average(self, z, H, noise):
        """Average posteriors over all priors; z = H scores + noise of each target."""
        centers = [self.first] if self.first.any() else []
        centers += [self.guess] if (self.guess != self.first).any() else []
        centers += [0 * self.first]
        found = []
        K = self.kernel
        for center, scale in itertools.product(centers, PRIOR_VARIANCES):
            evidence, means, covariances = 0.0, [], []
            for t in range(len(z)):
                S = scale * np.outer(H[t], H[t]) * K + np.diag(noise[t])
                away = z[t] - H[t] * center[t]
                gain = scale * K @ np.diag(H[t]) @ np.linalg.inv(S)
                evidence -= (away @ np.linalg.solve(S, away) + np.linalg.slogdet(S)[1]) / 2
                means.append(center[t] + gain @ away)
                covariances.append(scale * K - gain @ np.diag(H[t]) @ (scale * K))
            found.append((evidence, np.array(means), np.array(covariances)))
        none = -((z**2 / noise).sum() + np.log(noise).sum()) / 2
        self.H = H
        evidences = np.array([evidence for evidence, *_ in found])
        self.gain = logsumexp(evidences) - np.log(len(evidences)) - none
        shares = np.exp(evidences - logsumexp([*evidences, none]))
        self.covariance = sum(s * c for s, (_, _, c) in zip(shares, found, strict=True))
        mean = sum(s * m for s, (_, m, _) in zip(shares, found, strict=True))
        # no scores at all are a mean of 0
        around = [m - mean for _, m, _ in found] + [-mean]
        for share, away in zip([*shares, 1 - shares.sum()], around, strict=True):
            self.covariance = self.covariance + share * away[:, :, None] * away[:, None]
        scales = np.tile(PRIOR_VARIANCES, len(centers))
        self.scales = list(zip(shares, scales, strict=False))
        return mean

    def risk(self, precision, sampling):
        """Return half of tr H C after one more update of this precision."""
        known, risk = precision + sum(weight for *_, weight, _ in self.seen), 0.0
        for share, scale in self.scales:
            for H in self.H:
                sure = np.diag(H**2 / (1 / known + sampling * H))
                risk += (
                    share * H @ np.diag(np.linalg.inv(np.linalg.inv(scale * self.kernel) + sure))
                )
        return risk / 2


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("number", [True, False])
@pytest.mark.parametrize("guessed", [True, False])
def test_term_posterior_equals_a_mixture_by_evidence(targets, begun, number, guessed):
    rng = np.random.default_rng(7)
    kernel = smoothing_prior(np.array([0.1, 0.5, 0.8])) if number else np.eye(4)
    scores = begun * rng.normal(0, 0.4, (targets, 4))
    guess = scores + begun * guessed * rng.normal(0, 0.4, (targets, 4))
    public_rows = np.array([30.0, 12.0, 4.0, 0.0])
    block = TermPosterior(kernel, scores, guess, public_rows, 1.2)
    naive = Naive(kernel, scores, guess, public_rows, 1.2)
    for variance in (30.0, 9.0, 100.0):
        expected = rng.uniform(5, 60, (targets, 4))
        sums, slopes = rng.normal(0, 25, (targets, 4)), expected * rng.uniform(0.5, 1.5, 4)
        for learner in (block, naive):
            learner.update(sums, slopes, variance, expected, 0.8)
        np.testing.assert_allclose(
            block.expected_loss(np.array([0.0, 0.02, 3.0])),
            [naive.risk(p, 0.8) for p in (0, 0.02, 3.0)],
        )
        np.testing.assert_allclose(block.scores, naive.scores, rtol=1e-8)
        np.testing.assert_allclose(block.covariance, naive.covariance, atol=1e-9)
        assert block.gain == pytest.approx(naive.gain, rel=1e-8)


@pytest.mark.parametrize("public_rows", [np.full(12, 20.0), np.arange(1.0, 13.0)])
def test_errors_of_initial_scores_are_as_large_as_their_posterior_variance(public_rows):
    """Sums that agree with the initial scores do not make these scores exact."""
    kernel, scores = smoothing_prior((np.arange(11) + 0.5) / 11), np.linspace(-1, 1, 12)[None]
    expected, errors = np.full((1, 12), 50.0), []
    for start_variance in (None, 1e-3, 1e-2, 1e-1):
        block = TermPosterior(kernel, scores, scores, public_rows, 1.0, start_variance)
        block.update(np.zeros((1, 12)), expected, 400.0, expected, 0.8)
        shares = public_rows / public_rows.sum()
        centring = np.eye(12) - shares
        error = shares @ np.diag(centring @ block.error_covariance[0] @ centring.T)
        errors.append(error)
        if start_variance is None:
            np.testing.assert_array_equal(block.error_covariance, block.covariance)
            first = block.scores
        np.testing.assert_array_equal(block.scores, first)  # estimates do not change
    assert errors[1] < errors[2] < errors[3]
    assert errors[3] > 1.5 * errors[0]
    # the sums alone have a variance of (400 + 40) / 50² in each bin
    assert errors[3] < 440 / 2500


def test_errors_are_the_posterior_covariance_if_all_variances_are_equally_likely(monkeypatch):
    monkeypatch.setattr(term_posterior, "START_LOG_VARIANCE_SD", 1e6)
    rng = np.random.default_rng(3)
    kernel, scores = smoothing_prior(np.array([0.1, 0.5, 0.8])), rng.normal(0, 0.4, (2, 4))
    public_rows, expected = np.array([30.0, 12.0, 4.0, 1.0]), rng.uniform(5, 60, (2, 4))
    block = TermPosterior(kernel, scores, scores + 0.1, public_rows, 1.2, 0.05)
    block.update(rng.normal(0, 25, (2, 4)), expected, 30.0, expected, 0.8)
    np.testing.assert_allclose(block.error_covariance, block.covariance, rtol=1e-6, atol=1e-9)


def test_sums_of_pure_noise_give_scores_near_zero():
    rng = np.random.default_rng(0)
    expected, public_rows = np.full((1, 12), 200.0), np.full(12, 20.0)
    largest, gains = [], []
    for _ in range(50):
        block = TermPosterior(np.eye(12), np.zeros((1, 12)), np.zeros((1, 12)), public_rows, 1.0)
        noise = rng.normal(size=(2, 1, 12))
        sums = noise[0] * np.sqrt(400 + 0.8 * expected)
        block.update(sums, expected + 20 * noise[1], 400.0, expected, 0.8)
        largest.append(np.abs(block.scores).max())
        gains.append(block.gain)
    assert np.median(largest) < 0.03  # the sums alone say about 0.2
    assert np.median(gains) < 0
    block.update(np.linspace(-900, 900, 12)[None], expected, 400.0, expected, 0.8)
    assert block.gain > 10
    assert np.abs(block.scores).max() > 1


@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(-3, 3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_piecewise_linear_guess_recovers_a_line(seed, n_steps, slope):
    rng = np.random.default_rng(seed)
    step = np.repeat(np.arange(n_steps), rng.integers(1, 6, n_steps))
    ranks = np.cumsum(rng.uniform(0.01, 1, len(step)))
    middles = np.array([ranks[step == k].mean() for k in range(n_steps)])
    line = 0.3 + (slope or 1.0) * ranks
    steps = (0.3 + (slope or 1.0) * middles)[step]
    np.testing.assert_allclose(piecewise_linear_guess(steps, ranks), line, atol=1e-9)
    same = np.full(len(step), 0.3)
    assert piecewise_linear_guess(same, ranks).tolist() == same.tolist()


def test_scores_of_a_single_label_are_bounded():
    block = TermPosterior(np.eye(2)[None], np.zeros((1, 2)), np.zeros((1, 2)), np.full(2, 9.0), 1.0)
    for _ in range(30):
        slopes = np.full((1, 2), 50.0)
        block.update(np.array([[500.0, -500.0]]), slopes, 1.0, slopes, 0.8)
    np.testing.assert_allclose(block.scores, [[MAX_SCORE, -MAX_SCORE]])


# Shares of blocks


@settings(max_examples=60)
@given(st.integers(1, 3), st.randoms(use_true_random=False))
def test_neyman_allocation_is_optimal(size, random):
    """Of all that could be given in units, for risks that are convex and fall."""
    units = allocation_grid(size)
    whole = int(units[-1])
    # slopes that rise to 0 or, sometimes, are 0 from the start
    slopes = [
        sorted(random.choice([0, -random.random() / u]) for u in units[1:]) for _ in range(size)
    ]
    risks = np.array([np.append(0, np.cumsum(line * np.diff(units))) for line in slopes])
    shares = neyman_allocation(risks, units)
    assert sum(shares) == 1

    def risk(given):
        return sum(np.interp(u, units, line) for u, line in zip(given, risks, strict=True))

    others = itertools.product(range(whole + 1), repeat=size - 1)
    least = min(risk((*o, whole - sum(o))) for o in others if sum(o) <= whole)
    assert risk([float(whole * share) for share in shares]) == pytest.approx(least, abs=1e-9)


def test_allocations_are_zero_or_representable():
    units = allocation_grid(40, 8)
    risks = np.array([np.exp(-units / (10 + 30 * k)) for k in range(40)])
    shares = neyman_allocation(risks * np.geomspace(1e-6, 1, 40)[:, None], units)
    assert min(shares) == 0
    assert min(share for share in shares if share) >= Fraction(1, 8 * 40)


# Cells that are cut further


def numeric(*n_cuts, seed=0):
    rng = np.random.default_rng(seed)
    features = []
    for position, size in enumerate(n_cuts):
        column = Column(f"x{position}", np.arange(3.0), categorical=False)
        cuts = np.sort(rng.normal(size=size))
        features.append(ColumnBins(column, cuts, size + 2, np.empty(0, dtype=np.int16)))
    return Binner(tuple(features))


def category():
    own = np.array([2, 0, 1, 2, 3], dtype=np.int16)
    column = Column("kind", np.array(["a", "b", "c"]), categorical=True)
    return ColumnBins(column, np.empty(0), 4, own)


def encoded_rows(n, seed=0, *, missing=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1, 1, 0]
    X[:, 2] = rng.integers(0, 5, n)
    X[rng.random(n) < missing, 1] = np.nan
    X[0, :2] = np.inf, -np.inf
    return X


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_refined_scores_and_splits_are_equivalent(seed, halved):
    rng = np.random.default_rng(seed)
    coarse = Binner((*numeric(*rng.integers(0, 6, 2), seed=seed).columns, category()))
    public, X = encoded_rows(40, seed), encoded_rows(200, seed + 1)
    finer = refine_bins(coarse, public, np.full(40, 1 / 40))
    if halved:
        features = []
        for feature in finer.columns:
            cuts = np.union1d(feature.cuts, rng.normal(size=3))
            if feature.column.categorical:
                cuts = feature.cuts
            size = feature.size + len(cuts) - len(feature.cuts)
            features.append(ColumnBins(feature.column, cuts, size, feature.bin_of_category))
        finer = Binner(tuple(features))
    old, new = coarse.encoded_codes(X), finer.encoded_codes(X)
    scores = rng.integers(-99, 99, (2, coarse.offsets[-1]))
    found = refine_scores(scores, coarse, finer)
    for position in range(3):
        np.testing.assert_array_equal(
            scores[:, coarse.offsets[position] + old[position]],
            found[:, finer.offsets[position] + new[position]],
        )
    asked = candidate_splits(coarse, coarse.encoded_codes(public))
    same = refine_splits(asked, coarse, finer)
    np.testing.assert_array_equal(asked.indicators(old.T), same.indicators(new.T))
    names = ("x0", "x1", "kind")
    assert [asked.describe(i, names) for i in range(len(asked))] == [
        same.describe(i, names) for i in range(len(same))
    ]


def halving(X, y, public, ledger, budget):
    """The splitter, and cells to begin with."""
    columns = tuple(Column(f"x{k}", np.arange(3.0), categorical=False) for k in range(X.shape[1]))
    schema = SimpleNamespace(columns=columns)
    grid = make_binner(schema, public, None)
    coded = FineBinnedRows.from_encoded(grid, [(X, y)], len(X), np.uint8)
    rows = TrainingData(schema, coded, public, len(X), len(public), np.arange(2), LOGISTIC)
    return BinSplitter(rows, rows.bin(4), LOGISTIC, ledger, budget, 0.8)


def cells_are(cells, X, public):
    """Whether all rows are in the cells that their values are in."""
    for rows, codes in ((X, cells.codes(slice(None))), (public, cells.public_codes)):
        np.testing.assert_array_equal(codes, cells.binner.encoded_codes(rows))


def test_bins_are_split_where_halves_differ():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(20_000, 3)), rng.normal(size=(300, 3))
    X[rng.random(20_000) < 0.1, 1] = np.nan
    public[:, 2] = rng.integers(0, 3, 300)  # numbers of few values are left alone
    y = (np.abs(X[:, 0] - 0.3) < 0.15).astype(int)
    halves = halving(X, y, public, Ledger(30, 1e-6, 0), StageBudget(Fraction(100), pure=False))
    before = halves.data
    assert halves.is_affordable(20_000)
    assert not halves.is_affordable(20)
    with Recorder() as recorder:
        after = halves.split(np.zeros((1, 20_000), dtype=np.int32))
    assert len(recorder.calls) == SPLIT_LEVELS
    cells_are(after, X, public)
    cuts = [feature.cuts for feature in after.binner.columns]
    for found, old in zip(cuts, before.binner.columns, strict=True):
        assert np.isin(old.cuts, found).all()
    assert min(abs(cuts[0] - 0.15).min(), abs(cuts[0] - 0.45).min()) < 0.03  # where the law jumps
    assert len(cuts[0]) > len(before.binner.columns[0].cuts) + 4
    assert len(cuts[1]) <= len(before.binner.columns[1].cuts) + 4  # nothing is there
    np.testing.assert_array_equal(cuts[2], before.binner.columns[2].cuts)


def test_half_bin_sums_equal_sums_over_rows():
    rng = np.random.default_rng(1)
    X, public = rng.normal(size=(5000, 2)), rng.normal(size=(40, 2))
    X[:5, 0] = np.nan
    y, margins = rng.integers(0, 2, 5000), rng.integers(-3000, 3000, (1, 5000))
    halves = halving(X, y, public, Ledger(30, 1e-6, 0), StageBudget(Fraction(1), pure=False))
    cells = halves.data
    between, cuts = halves._candidate_cuts, []

    def noted(*args):
        cuts.append(between(*args))
        return cuts[-1]

    halves._candidate_cuts = noted
    with Recorder() as recorder:
        found = halves.split(margins)
    assert found.binner.sizes != cells.binner.sizes  # small noise cuts here and there
    total = np.vstack([part.sum(axis=1) for part in LOGISTIC.gradient_hessian(margins, y)])
    for call in recorder.calls:
        # every column holds all rows once
        np.testing.assert_array_equal(call.exact_input.sum(axis=1), 2 * total[:, 0])
        assert call.sensitivity.squared == 2 * LOGISTIC.sensitivity.squared
    first = recorder.calls[0].exact_input[:, : 2 * cells.binner.sizes[0]]
    residuals = LOGISTIC.gradient_hessian(margins, y)[0][0]
    line, size = cells.codes(slice(None))[0], cells.binner.sizes[0]
    above = X[:, 0] > np.append(cuts[0], np.inf)[line]
    expected = [np.bincount(line, residuals * side, minlength=size) for side in (~above, above)]
    np.testing.assert_array_equal(first[0].reshape(-1, 2), np.array(expected).T)


def test_noise_of_the_additive_fit_is_representable_for_any_number_of_rows():
    least = min(ROUND_SHARES[2])
    cells = HistogramStrategy(
        (STRATEGY_UNIT * np.eye(9, dtype=int),) * 20, (True,) * 20, STRATEGY_UNIT, MAX_GRADIENT
    )
    grown = 0
    for n, epsilon, m in itertools.product((10**6, 10**8, 10**11), (1e-5, 1e-3, 0.1, 10), (1, 1e6)):
        budget = StageBudget(gaussian_mu_squared(Fraction(epsilon), Fraction(1e-12)), pure=False)
        once = Sensitivity(20, 20)
        if can_afford_boosting(budget, n, once):
            part = budget.fraction(additive_share(budget, n, m, once) * least)
            assert noise_is_representable(part.event, cells.sensitivity(counts=True))
            grown += 1
    assert grown >= 12


@pytest.mark.parametrize(("n", "m"), [(1_000, 300), (30_000, 300), (30_000, 30_000), (10**6, 30)])
def test_additive_share_maximises_the_sum_of_precisions(n, m):
    noise, rows = 9.0, n / 60  # variances, of which the share is to depend on the rows' alone

    def precision(share):
        first = noise / share + rows * (1 + MISMATCH * n / m)
        return 1 / first + 1 / (noise / (1 - share) + rows)

    budget = StageBudget(Fraction(1), pure=False)
    share = float(additive_share(budget, n, m, Sensitivity(9, 9)))
    assert all(precision(share) >= precision(other) for other in (0.9 * share, 1.1 * share))


@pytest.mark.parametrize("ends", [(-np.inf, np.inf), (-1.7e308, 1.7e308)])
def test_infinite_public_values_leave_every_row_in_a_bin(ends):
    """A cell whose middle is no number stays whole, whatever noise says of its halves."""
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(300, 2)), rng.normal(size=(60, 2))
    public[:20], public[40:] = ends
    X[:9, 0], X[9:20, 1] = np.nan, np.inf
    budget = StageBudget(Fraction(1, 100), pure=False)
    for seed in range(20):
        ledger = Ledger(30, 1e-6, seed)
        halves = halving(X, rng.integers(0, 2, 300), public, ledger, budget)
        found = halves.split(np.zeros((1, 300), dtype=np.int32))
        cells_are(found, X, public)
        assert (found.codes(slice(None)).max(axis=1) < found.binner.sizes).all()
        assert all(np.isfinite(f.cuts[1:-1]).all() for f in found.binner.columns)
