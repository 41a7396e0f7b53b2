"""Budget split: budgets that add up over steps, their plan, and shares and numbers of steps.

All shares and numbers of steps are functions of public numbers and of released values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from skpublicdp.accounting import (
    Draw,
    Either,
    Event,
    Gaussian,
    Pure,
    Sensitivity,
    Steps,
    zcdp_rho,
)
from skpublicdp.accounting.events import DRAW_MU_SQUARED_RATE
from skpublicdp.accounting.rounding import root_below
from skpublicdp.privacy.ledger import Ledger

CLASS_COUNT_SHARE = Fraction(1, 50)
"""Share of the budget for the class counts, and as much for squared residuals of a regression."""

LEAF_SHARE = Fraction(1, 4)
"""Share of a tree's budget for the noisy sums of its leaves. The rest is for the draw."""

MIN_SHIFT_SHARE, MAX_SHIFT_SHARE = Fraction(1, 100), Fraction(1, 15)
"""Smallest and largest share of the budget for one test of covariate shift."""

MAX_SHIFT_NOISE = 1 / 8
"""Largest allowed noise (standard deviation) in the estimated fraction of rows in the lower half of
a column. With more noise the shift test is skipped."""

MAX_SHIFT_FRACTION = Fraction(1, 2)
"""Shift tests take at most this fraction of the budget of shift tests and histograms together."""

ROUND_SHARES = {1: (Fraction(1),), 2: (Fraction(2, 5), Fraction(3, 5))}
"""Share of the budget of histograms for each round, by the number of rounds.

The second round measures the gradients of a better model, so it has more of the budget.
"""

TWO_ROUNDS_PRECISION = 48
"""Smallest ratio of the precision of one histogram to that of the public rows for two rounds."""

MIN_HISTOGRAM_SHARE = Fraction(1, 100)
"""Lower bound of the share of any histogram, to check in advance that its noise can be drawn."""

BALANCED = 0.45
"""Smallest class balance 4 p (1 - p) at which histograms use the HDMM strategy."""

BALANCED_FOR_NEWTON = 0.75
"""Smallest class balance 4 p (1 - p) at which every row is counted as one effective row."""

N_BINS, N_BINS_UNBALANCED = 12, 8
"""Maximum number of bins of a numeric column: for balanced classes, and below `BALANCED`."""

MAX_TREES = 32
"""Maximum number of trees in a fit without histograms."""

SIGNAL_PER_TREE = 16
"""The number T of trees with noisy leaves is as large as the `signal_to_noise` of each draw, which
has 1 / T of the budget, is at least 16 T."""

MISMATCH = 0.3
"""Variance of the model misfit, relative to the sampling variance of the public rows."""

MIN_ROWS_PER_NOISE = 700
"""Smallest ratio of rows to noise for Newton boosting. The noise is the standard deviation of one
count for each column, released with the whole budget."""

CLIPPING_GAIN = 2.0
"""Assumed factor by which clipped residuals reduce the noise of a regression. Newton boosting is
then affordable with half of the rows."""

MIN_ROWS_PER_LABEL_NOISE = 15
"""Smallest number of rows, per label and unit of noise, for histograms of more than two labels.
Below it trees with noisy leaves are more accurate (ablation: "several labels, little")."""

MAX_FIRST_NOISE = 5000
"""Largest noise of the additive fit before boosting, in rows. The sampler cannot draw more."""

N_PASSES = 4
"""Number of passes of Newton boosting over all columns."""

MIN_SUBSAMPLE_ROWS = 1 << 21
"""Smallest subsample for all passes but the last, which uses all rows. With more rows the sampling
error is negligible."""

GRADIENT_VARIANCE = 0.2
"""Assumed variance of a row's gradient if the classes overlap strongly."""

TREE_SIGNAL, MIN_TREE_SIGNAL = 100.0, 8.0
"""Target and smallest `signal_to_noise` of a draw in Newton boosting."""

TREE_SHARE_RANGE = Fraction(1, 100), Fraction(3, 100)
"""Smallest and largest share of the boosting budget for the draw of one tree."""


@dataclass(frozen=True)
class TreeTrial:
    """Budget for trying an interaction tree after the histograms.

    Attributes
    ----------
    first, second : Fraction
        Share of the budget for the first tree, and for a second tree or another histogram.
    min_signal : float
        Smallest `signal_to_noise` of a draw with the whole budget at which the tree is tried.
    """

    first: Fraction
    second: Fraction
    min_signal: float


TREE_TRIALS = (
    TreeTrial(Fraction(1, 10), Fraction(3, 10), 13.0),
    TreeTrial(Fraction(3, 10), Fraction(2, 5), 9.0),
)
"""A small share for a strong signal, and a larger one for a moderate signal."""


@dataclass(frozen=True)
class StageBudget:
    """Privacy budget in a unit that adds up over steps: ε for pure steps, otherwise μ² (GDP).

    Attributes
    ----------
    amount : Fraction
        ε or μ².
    pure : bool
        Whether the amount is ε.
    """

    amount: Fraction
    pure: bool

    def fraction(self, share: Fraction) -> StageBudget:
        """Return a fraction of the budget."""
        return StageBudget(self.amount * share, self.pure)

    @property
    def event(self) -> Gaussian | Pure:
        """Event of Laplace or Gaussian noise that takes the whole budget."""
        return Pure(self.amount) if self.pure else Gaussian(self.amount)

    @property
    def draw(self) -> Draw:
        """Event of one exponential mechanism that takes the whole budget, in zCDP or in a plan.

        A draw with ε has ρ = ε²/8 in zCDP, like Gaussian noise with μ² = ε²/4.
        """
        return Draw(self.amount if self.pure else root_below(4 * self.amount))

    @property
    def draw_as_gaussian(self) -> Draw:
        """Event of one exponential mechanism that takes the whole budget, as Gaussian noise.

        A draw with ε is μ-Gaussian DP for μ² = (π/8) ε² (docs/proofs/moments.md).
        """
        return Draw(self.amount if self.pure else root_below(self.amount / DRAW_MU_SQUARED_RATE))

    def variance(self, sensitivity: Sensitivity) -> float:
        """Return the variance of noise that takes the whole budget."""
        if self.pure:
            return 2 * (sensitivity.absolute / float(self.amount)) ** 2
        return sensitivity.squared / float(self.amount)


def make_stage_budget(ledger: Ledger) -> StageBudget:
    """Return the budget of all steps, for the default plan of the ledger.

    All steps that are accounted as Gaussian noise add up to one Gaussian mechanism, for any number
    and shares of steps.
    """
    match ledger.event:
        case Gaussian(mu_squared):
            return StageBudget(mu_squared, pure=False)
    return StageBudget(ledger.epsilon, pure=True)


def plan_tree_trial(
    ledger: Ledger, later_share: Fraction = Fraction(0)
) -> tuple[StageBudget, StageBudget]:
    """Register the plan of a fit in which a tree may be tried.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the fit.
    later_share : Fraction, default=0
        Share of the budget for a release after the fit.

    Returns
    -------
    StageBudget
        Budget of all steps of the fit.
    StageBudget
        Budget of the later release.
    """

    def make_plan(amount: Fraction) -> Event:
        """Return the plan of class counts, histograms and perhaps a trial, for an amount of μ²."""
        budget = StageBudget(amount, pure=False)
        fit_budget = budget.fraction(1 - later_share)
        # the released class counts determine the trial
        trials = Either(tuple(trial_event(fit_budget, trial) for trial in TREE_TRIALS))
        steps = (fit_budget.fraction(CLASS_COUNT_SHARE).event, trials)
        return Steps((*steps, budget.fraction(later_share).event) if later_share else steps)

    amount = ledger.calibrate(make_plan)
    ledger.plan(make_plan(amount))
    budget = StageBudget(amount, pure=False)
    return budget.fraction(1 - later_share), budget.fraction(later_share)


def trial_event(budget: StageBudget, trial: TreeTrial) -> Event:
    """Return the plan of histograms after the class counts, and of the trial that follows."""
    trial_share = trial.first + trial.second
    second_budget = budget.fraction(trial.second)
    second_step = Either((second_budget.event, _tree_event(second_budget)))
    with_tree = Steps((_tree_event(budget.fraction(trial.first)), second_step))
    without_tree = budget.fraction(trial_share).event
    histograms = budget.fraction(1 - CLASS_COUNT_SHARE - trial_share).event
    # the released histograms decide whether a tree is tried
    return Steps((histograms, Either((without_tree, with_tree))))


def _tree_event(budget: StageBudget) -> Event:
    """Return the plan of one tree: its draw, then the noisy sums of its leaves."""
    return Steps((budget.fraction(1 - LEAF_SHARE).draw, budget.fraction(LEAF_SHARE).event))


def signal_to_noise(budget: StageBudget, n: float, log_size: float) -> float:
    """Return n ε / (2 ln|H|) of one exponential mechanism over |H| trees.

    Parameters
    ----------
    budget : StageBudget
        Budget of the draw.
    n : float
        Number of persons.
    log_size : float
        ln|H|: natural logarithm of the number of trees.
    """
    return n * float(budget.draw.epsilon) / (2 * log_size) if log_size > 0 else 0.0


MAX_EFFECT = 0.25
"""Largest sum of gradients over a set of rows, divided by the number of all rows. It is p (1 - p)
at p = 1/2, for the set of all rows with the label."""

MIN_SIGNAL = 2.0
"""Smallest `signal_to_noise` at which a perfect tree is as likely as all others together. It makes
n / 2 errors less than chance, so its weight is e^(ε n / 4). The other weights sum to |H|."""


def effects_below_noise(budget: StageBudget, n: float, sensitivity: Sensitivity) -> bool:
    """Indicate whether the noise exceeds the strongest possible effect of a column.

    Parameters
    ----------
    budget : StageBudget
        Budget of all histograms.
    n : float
        Number of private rows.
    sensitivity : Sensitivity
        Sensitivity of one count for each column.
    """
    return math.sqrt(budget.variance(sensitivity)) > MAX_EFFECT * n


def choose_trial(signal: float) -> TreeTrial | None:
    """Choose the trial by the `signal_to_noise` of one draw; ``None`` if the signal is too weak."""
    for trial in TREE_TRIALS:
        if signal >= trial.min_signal:
            return trial
    return None


def shift_share(budget: StageBudget, n: int, sensitivity: Sensitivity) -> Fraction | None:
    """Return the share of the budget for a test of covariate shift, in thousandths.

    Parameters
    ----------
    budget : StageBudget
        The whole budget.
    n : int
        Number of private rows.
    sensitivity : Sensitivity
        Sensitivity of all counts together.

    Returns
    -------
    Fraction or None
        The share at which the noise is `MAX_SHIFT_NOISE`, at least `MIN_SHIFT_SHARE`; ``None`` if
        it exceeds `MAX_SHIFT_SHARE`.
    """
    if not n * sensitivity.squared:  # no rows, or no columns with a split
        return None
    relative_noise = math.sqrt(budget.variance(sensitivity)) / (n * MAX_SHIFT_NOISE)
    # the noise is in proportion to 1 / ε, or to 1 / μ
    needed = min(relative_noise if budget.pure else relative_noise**2, 1.0)
    share = max(Fraction(math.ceil(1000 * needed), 1000), MIN_SHIFT_SHARE)
    return share if share <= MAX_SHIFT_SHARE else None


def can_afford_boosting(
    budget: StageBudget, effective_rows: float, sensitivity: Sensitivity
) -> bool:
    """Indicate whether Newton boosting would learn more than an additive fit with all the budget.

    Parameters
    ----------
    budget : StageBudget
        The whole budget.
    effective_rows : float
        Number of rows with balanced labels that carry as much information.
    sensitivity : Sensitivity
        Sensitivity of one count for each column.
    """
    min_rows_per_noise: float = MIN_ROWS_PER_NOISE
    if budget.pure:
        # under basic composition the noise grows with the number of passes, not with its root
        min_rows_per_noise = math.sqrt(2) * N_PASSES * MIN_ROWS_PER_NOISE
    noise = math.sqrt(budget.variance(sensitivity))
    return noise <= min(effective_rows / min_rows_per_noise, MAX_FIRST_NOISE)


def label_effects_below_noise(
    budget: StageBudget, n: float, n_labels: int, sensitivity: Sensitivity
) -> bool:
    """Indicate whether trees learn more about several labels than histograms of all columns.

    A histogram has as many noisy sums for each bin as there are labels, and each label has a part
    of the rows. A tree has four leaves.

    Parameters
    ----------
    budget : StageBudget
        The whole budget.
    n : float
        Number of rows.
    n_labels : int
        Number of labels.
    sensitivity : Sensitivity
        Sensitivity of one count for each column.
    """
    return n < MIN_ROWS_PER_LABEL_NOISE * n_labels * math.sqrt(budget.variance(sensitivity))


def additive_share(
    budget: StageBudget, effective_rows: float, m: float, sensitivity: Sensitivity
) -> Fraction:
    """Return the share of the budget for the additive fit before boosting, in millionths.

    Let F be the noise variance of a sum over a bin with the whole budget, and V the sampling
    variance of the private rows. With a share s, an additive fit has the variance F / s + V + U.
    Here U = V `MISMATCH` n / m is the sampling variance of m public rows. Boosting has the variance
    F / (1 - s) + V. The sum of both precisions is largest at s = V / (2 V + U).

    Parameters
    ----------
    budget : StageBudget
        The whole budget.
    effective_rows : float
        Number of rows with balanced labels that carry as much information.
    m : float
        Effective number of public rows.
    sensitivity : Sensitivity
        Sensitivity of one count for each column.
    """
    min_share = math.sqrt(budget.variance(sensitivity)) / MAX_FIRST_NOISE
    if not budget.pure:
        min_share = min_share**2
    share = max(1 / (2 + MISMATCH * effective_rows / m), min_share)
    return Fraction(math.ceil(1e6 * min(share, 0.5)), 10**6)


def subsample_size(noise: float, n_bins: int) -> int:
    """Return the number of rows for all passes of Newton boosting but the last.

    The noise variance of a score is then at most a tenth of its sampling variance.

    Parameters
    ----------
    noise : float
        Noise variance of a sum in one update, in rows².
    n_bins : int
        Maximum number of bins of a column.
    """
    return max(MIN_SUBSAMPLE_ROWS, math.ceil(10 * noise * n_bins / GRADIENT_VARIANCE))


def tree_share(budget: StageBudget, persons: float, size: int) -> Fraction | None:
    """Return the share of the boosting budget for the draw of a tree, in thousandths.

    Parameters
    ----------
    budget : StageBudget
        Budget of Newton boosting.
    persons : float
        Number of persons with balanced labels that carry as much information.
    size : int
        Number of trees to choose from.

    Returns
    -------
    Fraction or None
        A share within `TREE_SHARE_RANGE`; ``None`` if its signal is below `MIN_TREE_SIGNAL`.
    """
    if size < 2:
        return None
    # of a draw with the whole budget; the signal of other draws is in proportion to their ε
    max_signal = persons * float(budget.draw_as_gaussian.epsilon) / (2 * math.log(size))
    power = 1 if budget.pure else 2  # the budget is ε, or in proportion to ε²
    min_share, max_share = TREE_SHARE_RANGE
    target_share = min((TREE_SIGNAL / max(max_signal, 1.0)) ** power, 1.0)
    share = Fraction(math.ceil(1000 * target_share), 1000)
    share = min(max(share, min_share), max_share)
    return share if max_signal * float(share) ** (1 / power) >= MIN_TREE_SIGNAL else None


def n_histogram_rounds(effective_rows: float, m: float, variance: float) -> int:
    """Return the number of rounds of noisy histograms, 1 or 2.

    The likelihood of the gradients is linearised around the model that they are measured at, with
    the public rows in place of the private ones. A second round, at the fitted model, pays if noise
    is small beside the error of this.

    Parameters
    ----------
    effective_rows : float
        Number of private rows times 2 (1 - Σ p²), for class shares p.
    m : float
        Effective number of public rows.
    variance : float
        Noise variance of one histogram that takes the whole budget.
    """
    return 2 if effective_rows**2 > TWO_ROUNDS_PRECISION * m * variance else 1


def n_voting_trees(signal: float) -> int:
    """Return the number of voting trees under basic composition: the root of the signal.

    Parameters
    ----------
    signal : float
        `signal_to_noise` of one draw that takes the whole budget.
    """
    return min(max(round(math.sqrt(signal)), 1), MAX_TREES)


def n_measured_trees(signal: float) -> int:
    """Return the number of trees with noisy leaves, in proportion to the root of the signal.

    Parameters
    ----------
    signal : float
        `signal_to_noise` of one draw that takes the whole budget.
    """
    return min(max(math.isqrt(int(signal / SIGNAL_PER_TREE)), 1), MAX_TREES)


def basic_composition_is_better(ledger: Ledger, count: int) -> bool:
    """Indicate whether basic composition allows `count` draws at least as much ε as zCDP."""
    epsilon, delta = ledger.epsilon, ledger.delta
    return not delta or epsilon**2 >= 8 * count * zcdp_rho(epsilon, delta)


def vote_step(count: int, *, pure: bool) -> float:
    """Return half of the absolute score of a voting tree's leaves, in logits.

    The step decreases with the number of trees.

    Parameters
    ----------
    count : int
        Number of trees.
    pure : bool
        Whether the draws are accounted by basic composition, not by zCDP.
    """
    if not pure and count == MAX_TREES:
        return 0.1
    if not pure:
        return min(0.4, 3.2 / count)
    if count <= 5:
        return min(0.4, 0.75 / math.sqrt(count))
    return min(0.3, 3 / count)
