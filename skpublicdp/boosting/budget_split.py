"""Division of the privacy budget among the steps of a fit, and the number of these steps.

All budget shares and all numbers of steps depend only on public numbers and released values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from skpublicdp.accounting import Either, Event, Sensitivity, Steps, zcdp_rho
from skpublicdp.privacy.ledger import Ledger
from skpublicdp.privacy.stage_budget import StageBudget

CLASS_COUNT_SHARE = Fraction(1, 50)
"""Share of the budget for releasing the class counts, or the squared residuals of a regression."""

LEAF_SHARE = Fraction(1, 4)
"""Share of a tree's budget that is spent on noisy leaf sums. The rest is spent on drawing the
tree."""

MIN_SHIFT_SHARE, MAX_SHIFT_SHARE = Fraction(1, 100), Fraction(1, 15)
"""Smallest and largest share of the budget for a single covariate shift test."""

MAX_SHIFT_NOISE = 1 / 8
"""Maximum standard deviation of the noise in the estimated fraction of rows in the lower half of a
column. If the noise is larger, the shift test is skipped."""

MAX_SHIFT_FRACTION = Fraction(1, 2)
"""Maximum fraction of the joint budget for shift tests and histograms that the tests may spend."""

ROUND_SHARES = {1: (Fraction(1),), 2: (Fraction(2, 5), Fraction(3, 5))}
"""Shares of the histogram budget for the individual rounds, indexed by the number of rounds. The
second round has a larger share because it measures the gradients of a better model."""

TWO_ROUNDS_PRECISION = 48
"""Smallest ratio of histogram precision to public-row precision at which two rounds are used."""

MIN_HISTOGRAM_SHARE = Fraction(1, 100)
"""Lower bound on the budget share of any histogram, used to check in advance that the noise of the
histogram can be sampled."""

BALANCED = 0.45
"""Smallest class balance 4 p (1 - p) at which histograms use the HDMM strategy."""

BALANCED_FOR_NEWTON = 0.75
"""Smallest class balance 4 p (1 - p) at which each row counts as one effective row."""

N_BINS, N_BINS_UNBALANCED = 12, 8
"""Maximum number of bins of a numeric column, for a class balance above and below `BALANCED`."""

MIN_NUMERIC_COLUMNS = 40
"""Number of numeric columns from which on a linear model is fitted before boosting, and number of
columns from which on covariances between columns are shrunk (ablation: "linear stage")."""

MAX_TREES = 32
"""Maximum number of trees in a fit without histograms."""

SIGNAL_PER_TREE = 16
"""Factor that determines the number T of trees with noisy leaves. T is the largest number of trees
for which each draw, with 1 / T of the budget, has a `signal_to_noise` of at least 16 T."""

MISMATCH = 0.3
"""Variance due to model misfit, relative to the sampling variance of the public rows."""

MIN_ROWS_PER_NOISE = 700
"""Smallest ratio of the number of rows to the noise at which Newton boosting is used. The noise is
the standard deviation of the counts if one count per column is released with the entire budget."""

MIN_ROWS_PER_COLUMN = 75
"""Smallest number of private rows per column at which Newton boosting is used. With fewer rows,
trees are drawn that fit the sampling error of the rows."""

MIN_ROWS_PER_LABEL_NOISE = 15
"""Smallest number of rows per label and unit of noise at which histograms are used for more than
two labels. With fewer rows, trees with noisy leaves are more accurate (ablation: "several labels,
little")."""

MAX_FIRST_NOISE = 5000
"""Maximum noise of the additive fit before boosting, in rows. The limit is imposed by the
sampler."""

N_PASSES = 4
"""Number of passes of Newton boosting over all columns."""

MIN_SUBSAMPLE_ROWS = 1 << 21
"""Minimum size of the subsample used in all passes except the last, which uses all rows. The
sampling error of larger subsamples is negligible."""

GRADIENT_VARIANCE = 0.2
"""Assumed variance of a row's gradient if the classes overlap strongly."""

TREE_SIGNAL, MIN_TREE_SIGNAL = 100.0, 8.0
"""Target and minimum values of `signal_to_noise` for a draw in Newton boosting."""

TREE_SHARE_RANGE = Fraction(1, 100), Fraction(3, 100)
"""Smallest and largest share of the boosting budget for drawing one tree."""


@dataclass(frozen=True)
class TreeTrial:
    """Budget for trying out an interaction tree after the histograms."""

    # share of the budget for the first tree, and share for either a second tree or another
    # histogram
    first: Fraction
    second: Fraction
    # a tree is tried if a draw with the entire budget has at least this `signal_to_noise`
    min_signal: float


TREE_TRIALS = (
    TreeTrial(Fraction(1, 10), Fraction(3, 10), 13.0),
    TreeTrial(Fraction(3, 10), Fraction(2, 5), 9.0),
)
"""Possible trials: one with a small share for a strong signal, and one with a larger share for a
moderate signal."""


def plan_tree_trial(
    ledger: Ledger, later_share: Fraction = Fraction(0)
) -> tuple[StageBudget, StageBudget]:
    """Register the plan of a fit that may try out a tree.

    Return the total budget of the steps of the fit, and that of a later release, for which
    `later_share` is reserved.
    """

    def make_plan(amount: Fraction) -> Event:
        """Return the plan for class counts, histograms and an optional trial, given μ²."""
        budget = StageBudget(amount, pure=False)
        fit_budget = budget.fraction(1 - later_share)
        # the trial depends on the released class counts
        trials = Either(tuple(trial_event(fit_budget, trial) for trial in TREE_TRIALS))
        steps = (fit_budget.fraction(CLASS_COUNT_SHARE).event, trials)
        return Steps((*steps, budget.fraction(later_share).event) if later_share else steps)

    amount = ledger.calibrate(make_plan)
    ledger.plan(make_plan(amount))
    budget = StageBudget(amount, pure=False)
    return budget.fraction(1 - later_share), budget.fraction(later_share)


def trial_event(budget: StageBudget, trial: TreeTrial) -> Event:
    """Return the plan for the steps after the class counts: the histograms and the trial."""
    trial_share = trial.first + trial.second
    first_budget = budget.fraction(trial.first)
    second_budget = budget.fraction(trial.second)
    second_step = Either((second_budget.event, _tree_event(second_budget)))
    with_tree = Steps((_tree_event(first_budget), second_step))
    without_tree = budget.fraction(trial_share).event
    histogram_share = 1 - CLASS_COUNT_SHARE - trial_share
    histograms = budget.fraction(histogram_share).event
    # the released histograms determine whether a tree is tried
    return Steps((histograms, Either((without_tree, with_tree))))


def _tree_event(budget: StageBudget) -> Event:
    """Return the plan for one tree, which consists of a draw followed by noisy leaf sums."""
    return Steps((budget.fraction(1 - LEAF_SHARE).draw, budget.fraction(LEAF_SHARE).event))


def signal_to_noise(budget: StageBudget, n: float, log_size: float) -> float:
    """Return the signal n ε / (2 ln|H|) of an exponential mechanism over |H| trees."""
    return n * float(budget.draw.epsilon) / (2 * log_size) if log_size > 0 else 0.0


MAX_EFFECT = 0.25
"""Largest possible sum of gradients over a set of rows, divided by the total number of rows. The
maximum p (1 - p) with p = 1/2 is attained by the set of all rows with the label."""

MIN_SIGNAL = 2.0
"""Smallest `signal_to_noise` at which a perfect tree is as likely as all other trees together. A
perfect tree makes n / 2 fewer errors than chance, so its weight is e^(ε n / 4). The other weights
sum to |H|."""


def effects_below_noise(budget: StageBudget, n: float, sensitivity: Sensitivity) -> bool:
    """Indicate whether the noise exceeds the strongest possible effect of a column."""
    return math.sqrt(budget.variance(sensitivity)) > MAX_EFFECT * n


def choose_trial(signal: float) -> TreeTrial | None:
    """Return the trial for the `signal_to_noise` of one draw, or None if the signal is too weak."""
    for trial in TREE_TRIALS:
        if signal >= trial.min_signal:
            return trial
    return None


def shift_share(budget: StageBudget, n: int, sensitivity: Sensitivity) -> Fraction | None:
    """Return the share of the budget for a covariate shift test, rounded to thousandths."""
    if not n * sensitivity.squared:  # there are no rows, or no column has a split
        return None
    relative_noise = math.sqrt(budget.variance(sensitivity)) / (n * MAX_SHIFT_NOISE)
    # the noise is proportional to 1 / ε or to 1 / μ
    needed = min(relative_noise if budget.pure else relative_noise**2, 1.0)
    share = max(Fraction(math.ceil(1000 * needed), 1000), MIN_SHIFT_SHARE)
    return share if share <= MAX_SHIFT_SHARE else None


def can_afford_boosting(
    budget: StageBudget,
    effective_rows: float,
    sensitivity: Sensitivity,
    rows_per_column: float = math.inf,
) -> bool:
    """Indicate whether Newton boosting learns more than an additive fit with the entire budget."""
    if rows_per_column < MIN_ROWS_PER_COLUMN:
        return False
    min_rows_per_noise: float = MIN_ROWS_PER_NOISE
    if budget.pure:
        # under basic composition, the noise is proportional to the number of passes rather than its
        # square root
        min_rows_per_noise = math.sqrt(2) * N_PASSES * MIN_ROWS_PER_NOISE
    noise = math.sqrt(budget.variance(sensitivity))
    return noise <= min(effective_rows / min_rows_per_noise, MAX_FIRST_NOISE)


def label_effects_below_noise(
    budget: StageBudget, n: float, n_labels: int, sensitivity: Sensitivity
) -> bool:
    """Indicate whether trees are better suited to several labels than histograms of all columns.

    A histogram has a noisy sum for each combination of bin and label, and only a fraction of the
    rows has each label. In contrast, a tree has only four leaves.
    """
    return n < MIN_ROWS_PER_LABEL_NOISE * n_labels * math.sqrt(budget.variance(sensitivity))


def additive_share(
    budget: StageBudget, effective_rows: float, m: float, sensitivity: Sensitivity
) -> Fraction:
    """Return the share of the budget for the additive fit before boosting, rounded to millionths.

    Let F be the noise variance of a sum over a bin with the entire budget, and let V be the
    sampling variance of the private rows. If an additive fit spends the share s of the budget, its
    variance is F / s + V + U, where U = V `MISMATCH` n / m is the sampling variance of m public
    rows. The variance of boosting is F / (1 - s) + V. The sum of both precisions is maximised by s
    = V / (2 V + U).
    """
    min_share = math.sqrt(budget.variance(sensitivity)) / MAX_FIRST_NOISE
    if not budget.pure:
        min_share = min_share**2
    share = max(1 / (2 + MISMATCH * effective_rows / m), min_share)
    return Fraction(math.ceil(1e6 * min(share, 0.5)), 10**6)


def subsample_size(noise: float, n_bins: int) -> int:
    """Return the number of rows for all passes of Newton boosting except the last.

    With this number of rows, the noise variance of a score is at most one tenth of the sampling
    variance.

    Parameters
    ----------
    noise : float
        Noise variance of a sum in one update, in rows².
    n_bins : int
        Maximum number of bins of a column.
    """
    return max(MIN_SUBSAMPLE_ROWS, math.ceil(10 * noise * n_bins / GRADIENT_VARIANCE))


def tree_share(budget: StageBudget, persons: float, size: int) -> Fraction | None:
    """Return the share of the boosting budget for drawing a tree, rounded to thousandths."""
    if size < 2:
        return None
    # signal of a draw with the entire budget; the signal of every draw is proportional to its ε
    max_signal = persons * float(budget.draw_as_gaussian.epsilon) / (2 * math.log(size))
    power = 1 if budget.pure else 2  # the budget is either ε or proportional to ε²
    min_share, max_share = TREE_SHARE_RANGE
    target_share = min((TREE_SIGNAL / max(max_signal, 1.0)) ** power, 1.0)
    share = Fraction(math.ceil(1000 * target_share), 1000)
    share = min(max(share, min_share), max_share)
    return share if max_signal * float(share) ** (1 / power) >= MIN_TREE_SIGNAL else None


def n_histogram_rounds(effective_rows: float, m: float, variance: float) -> int:
    """Return the number of rounds of noisy histograms (1 or 2).

    The likelihood of the gradients is linearised around the measured model, and the public rows are
    substituted for the private rows. A second round, measured at the fitted model, is worthwhile if
    the noise is small compared with the error of this approximation.
    """
    return 2 if effective_rows**2 > TWO_ROUNDS_PRECISION * m * variance else 1


def n_voting_trees(signal: float) -> int:
    """Return the number of voting trees under basic composition: the square root of the signal."""
    return min(max(round(math.sqrt(signal)), 1), MAX_TREES)


def n_measured_trees(signal: float) -> int:
    """Return the number of trees with noisy leaves, proportional to the root of the signal."""
    return min(max(math.isqrt(int(signal / SIGNAL_PER_TREE)), 1), MAX_TREES)


def basic_composition_is_better(ledger: Ledger, count: int) -> bool:
    """Indicate whether basic composition allows `count` draws at least as large an ε as zCDP."""
    epsilon, delta = ledger.epsilon, ledger.delta
    return not delta or epsilon**2 >= 8 * count * zcdp_rho(epsilon, delta)


def vote_step(count: int, *, pure: bool) -> float:
    """Return half of the absolute score of a voting tree's leaves, in logits.

    The step size decreases with the number of trees.
    """
    if not pure and count == MAX_TREES:
        return 0.1
    if not pure:
        return min(0.4, 3.2 / count)
    if count <= 5:
        return min(0.4, 0.75 / math.sqrt(count))
    return min(0.3, 3 / count)
