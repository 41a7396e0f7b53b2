"""Budget split: shares of the steps and numbers of rounds and trees, from public numbers only."""

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
"""Share of the budget for the class balance; for a regression, also for the squared residuals."""

MIN_SHIFT_SHARE, MAX_SHIFT_SHARE = Fraction(1, 100), Fraction(1, 15)
"""Smallest and largest share of the budget for one test of covariate shift."""

MAX_SHIFT_NOISE = 1 / 8
"""Largest allowed noise (standard deviation) in the estimated fraction of rows in the lower half of
a column. With more noise the shift test is skipped."""

MAX_SHIFT_FRACTION = Fraction(1, 2)
"""Shift tests take at most this fraction of the budget of shift tests and histograms together."""

MAX_ROUNDS_WITH_SHIFT_TEST = 3
"""With more rounds of histograms the shift test is skipped: later rounds correct the first."""

MAX_ROUNDS = 5
"""Maximum number of rounds of noisy histograms in the additive fit."""

MIN_HISTOGRAM_SHARE = Fraction(1, 100)
"""Lower bound of any histogram's share, to check in advance that its noise can be drawn."""

BALANCED = 0.45
"""From this 4 p (1 - p) on classes count as balanced: histograms then use the HDMM strategy."""

BALANCED_FOR_NEWTON = 0.75
"""From this 4 p (1 - p) on, a row counts fully in the effective number of rows for boosting."""

N_BINS, N_BINS_UNBALANCED = 12, 8
"""Maximum number of bins of a numeric column: in general, and below `BALANCED`."""

FIRST_RELEASE_SHARE = Fraction(7, 10)
"""Share of the first of the two releases that a single round under Gaussian noise consists of."""

ROUND_RATIO = Fraction(3, 2)
"""Budget of a round of histograms, relative to the round before."""

LEAF_SHARE = Fraction(1, 4)
"""Share of a tree's budget for the noisy sums of its leaves; the draw has the rest."""

MAX_TREES = 32
"""Maximum number of trees in a fit of trees alone."""

SIGNAL_PER_TREE = 16
"""T > 1 trees with noisy leaves are drawn if the `signal_to_noise` of each is at least 16 T."""

MISMATCH = 0.3
"""Variance of the model misfit, relative to the sampling variance of the public rows."""

MIN_ROWS_PER_NOISE = 700
"""Newton boosting needs so many rows for each row of noise (standard deviation) in one sum of each
column that takes the whole budget."""

MAX_FIRST_NOISE = 5000
"""Largest noise of the additive fit before boosting, in rows; the sampler cannot draw larger."""

N_PASSES = 4
"""Number of passes of Newton boosting over all columns."""

MIN_SUBSAMPLE_ROWS = 1 << 21
"""All passes but the last run on a subsample of at least 2^21 rows. Beyond that, sampling error is
negligible next to the noise."""

GRADIENT_VARIANCE = 0.2
"""Assumed variance of a row's gradient if the classes overlap strongly."""

TREE_SIGNAL, MIN_TREE_SIGNAL = 100.0, 8.0
"""Target of `signal_to_noise` for a draw in Newton boosting, and the least that justifies one."""

TREE_SHARE_RANGE = Fraction(1, 100), Fraction(3, 100)
"""Smallest and largest share of the boosting budget for the draw of one tree."""


@dataclass(frozen=True)
class TreeTrial:
    """Budget for trying an interaction tree after the histograms.

    Attributes
    ----------
    first, second : Fraction
        Share of the budget for the first tree, and for a second one or another histogram.
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
"""A small share if the signal is strong, a larger one if it is moderate; no trial if it is weak."""


@dataclass(frozen=True)
class StageBudget:
    """Amount of privacy that adds up over steps: ε for pure steps, μ² of Gaussian DP otherwise.

    Attributes
    ----------
    amount : Fraction
        ε or μ².
    pure : bool
        Whether it is ε.
    """

    amount: Fraction
    pure: bool

    def fraction(self, share: Fraction) -> StageBudget:
        """Return a fraction of the budget."""
        return StageBudget(self.amount * share, self.pure)

    @property
    def event(self) -> Gaussian | Pure:
        """Event of noise that takes the whole budget."""
        return Pure(self.amount) if self.pure else Gaussian(self.amount)

    @property
    def draw(self) -> Draw:
        """Event of one exact draw that takes the whole budget, accounted by zCDP or by a plan.

        A draw with ε has ρ = ε²/8 in zCDP, like Gaussian noise with μ² = ε²/4.
        """
        return Draw(self.amount if self.pure else root_below(4 * self.amount))

    @property
    def draw_as_gaussian(self) -> Draw:
        """Event of one exact draw that takes the whole budget, accounted as Gaussian noise.

        A draw with ε is μ-Gaussian DP for μ² = (π/8) ε² (docs/proofs/moments.md).
        """
        return Draw(self.amount if self.pure else root_below(self.amount / DRAW_MU_SQUARED_RATE))

    def variance(self, sensitivity: Sensitivity) -> float:
        """Return the variance of noise that takes the whole budget."""
        if self.pure:
            return 2 * (sensitivity.absolute / float(self.amount)) ** 2
        return sensitivity.squared / float(self.amount)


def signal_to_noise(budget: StageBudget, n: float, log_size: float) -> float:
    """Return n ε / (2 ln|H|) of one exponential mechanism over |H| trees, for n persons."""
    return n * float(budget.draw.epsilon) / (2 * log_size) if log_size > 0 else 0.0


MAX_EFFECT = 0.25
"""Largest sum of gradients over any set of rows, as a fraction of all rows: p (1 - p) at p = 1/2,
for the set of all rows with the label."""

MIN_SIGNAL = 2.0
"""Smallest `signal_to_noise` at which a perfect tree is as likely as all others together. It has
n / 2 errors less than chance, so its weight is e^(ε n / 4), and that of the others is |H|."""


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
    return next((trial for trial in TREE_TRIALS if signal >= trial.min_signal), None)


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
        The share with noise of `MAX_SHIFT_NOISE`; ``None`` if it exceeds `MAX_SHIFT_SHARE`.
    """
    if not n * sensitivity.squared:
        return None
    deviation = math.sqrt(budget.variance(sensitivity)) / (n * MAX_SHIFT_NOISE)
    needed = min(deviation if budget.pure else deviation**2, 1.0)
    share = max(Fraction(math.ceil(1000 * needed), 1000), MIN_SHIFT_SHARE)
    return share if share <= MAX_SHIFT_SHARE else None


def can_afford_boosting(budget: StageBudget, effective: float, sensitivity: Sensitivity) -> bool:
    """Indicate whether Newton boosting would learn more than an additive fit with all the budget.

    Parameters
    ----------
    budget : StageBudget
        The whole budget.
    effective : float
        Number of rows with balanced labels that carry as much information.
    sensitivity : Sensitivity
        Sensitivity of one count for each column.
    """
    # under basic composition the noise grows with the number of passes, not with its root
    rows = math.sqrt(2) * N_PASSES * MIN_ROWS_PER_NOISE if budget.pure else MIN_ROWS_PER_NOISE
    noise = math.sqrt(budget.variance(sensitivity))
    return noise <= min(effective / rows, MAX_FIRST_NOISE)


def additive_share(
    budget: StageBudget, effective: float, m: float, sensitivity: Sensitivity
) -> Fraction:
    """Return the share of the budget for the additive fit before boosting, in millionths.

    Let F be the noise variance of a sum over a bin at the whole budget, and V the sampling variance
    of the private rows. With a share s the additive fit has the variance F / s + V + U, where
    U = V `MISMATCH` n / m is for its use of m public rows. Boosting has F / (1 - s) + V. The sum of
    both precisions is largest at s = V / (2 V + U).

    Parameters
    ----------
    budget : StageBudget
        The whole budget.
    effective : float
        Number of rows with balanced labels that carry as much information.
    m : float
        Effective number of public rows.
    sensitivity : Sensitivity
        Sensitivity of one count for each column.
    """
    min_share = math.sqrt(budget.variance(sensitivity)) / MAX_FIRST_NOISE
    share = max(1 / (2 + MISMATCH * effective / m), min_share if budget.pure else min_share**2)
    return Fraction(math.ceil(1e6 * min(share, 0.5)), 10**6)


def subsample_size(noise: float, n_bins: int) -> int:
    """Return the number of rows for all passes but the last; more would hardly change the scores.

    With so many rows the noise adds at most a tenth to the sampling variance of a score.

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
        A share within `TREE_SHARE_RANGE`; ``None`` if a tree would not be found with it.
    """
    if size < 2:
        return None
    # of a draw with the whole budget; the signal of other draws is in proportion to their ε
    max_signal = persons * float(budget.draw_as_gaussian.epsilon) / (2 * math.log(size))
    power = 1 if budget.pure else 2
    min_share, max_share = TREE_SHARE_RANGE
    needed = Fraction(
        math.ceil(1000 * min((TREE_SIGNAL / max(max_signal, 1.0)) ** power, 1.0)), 1000
    )
    share = min(max(needed, min_share), max_share)
    return share if max_signal * float(share) ** (1 / power) >= MIN_TREE_SIGNAL else None


def n_rounds(effective: float, m: float, variance: float) -> int:
    """Return the number of rounds of noisy histograms, from 1 to `MAX_ROUNDS`.

    Parameters
    ----------
    effective : float
        Number of private rows times 2 (1 - Σ p²), for class shares p.
    m : float
        Effective number of public rows.
    variance : float
        Noise variance of one histogram that takes the whole budget.
    """
    if effective <= 0:
        return 1
    rounds = 1 + round(0.5 * math.log2(effective**2 / (24 * m * variance)))
    return min(max(rounds, 1), MAX_ROUNDS)


def round_shares(rounds: int, *, pure: bool) -> list[Fraction]:
    """Return the share of each round of noisy histograms, of sum 1.

    With Gaussian noise a single round is split into two releases, which together carry as much
    information. Budget for trees is then left if the first one finds the public rows unusable.
    """
    if rounds == 1:
        return [Fraction(1)] if pure else [FIRST_RELEASE_SHARE, 1 - FIRST_RELEASE_SHARE]
    weights = [ROUND_RATIO**k for k in range(rounds)]
    return [weight / sum(weights) for weight in weights]


def n_voting_trees(
    budget: StageBudget, n: float, log_size: float, share: Fraction = Fraction(1)
) -> int:
    """Return the number of voting trees for a share of the budget."""
    if not budget.pure:
        return max(1, math.floor(MAX_TREES * share))
    return min(
        max(round(math.sqrt(signal_to_noise(budget.fraction(share), n, log_size))), 1), MAX_TREES
    )


def n_measured_trees(signal: float) -> int:
    """Return the number of trees with noisy leaves; it grows with the root of the signal.

    Parameters
    ----------
    signal : float
        `signal_to_noise` of one draw that takes the whole budget.
    """
    return min(max(math.isqrt(int(signal / SIGNAL_PER_TREE)), 1), MAX_TREES)


def basic_composition_is_better(ledger: Ledger, count: int) -> bool:
    """Indicate whether `count` draws get at least as much ε by basic composition as by zCDP."""
    epsilon, delta = ledger.epsilon, ledger.delta
    return not delta or epsilon**2 >= 8 * count * zcdp_rho(epsilon, delta)


def vote_step(count: int, *, pure: bool) -> float:
    """Return half of the absolute score of a voting tree's leaves, in logits."""
    if not pure:
        return 0.1 if count == MAX_TREES else min(0.4, 3.2 / count)
    return min(0.4, 0.75 / math.sqrt(count)) if count <= 5 else min(0.3, 3 / count)


def make_stage_budget(ledger: Ledger, *, trees: bool) -> StageBudget:
    """Return the budget of all steps, and register the plan with the ledger.

    Histograms and all steps that are accounted as Gaussian noise add up to one Gaussian mechanism,
    whatever their number and shares are; that is the default plan of the ledger. Only interaction
    trees after the histograms (`trees`) need a plan with branches.
    """
    if trees:
        amount = ledger.calibrate(_with_trees)
        ledger.plan(_with_trees(amount))
        return StageBudget(amount, pure=False)
    match ledger.event:
        case Gaussian(mu_squared):
            return StageBudget(mu_squared, pure=False)
    return StageBudget(ledger.epsilon, pure=True)


def _with_trees(amount: Fraction) -> Event:
    """Return the plan of class counts, histograms and perhaps a tree trial, for an amount of μ²."""
    budget = StageBudget(amount, pure=False)
    # the released class counts decide which trial it is
    trials = Either(tuple(trial_event(budget, trial) for trial in TREE_TRIALS))
    return Steps((budget.fraction(CLASS_COUNT_SHARE).event, trials))


def trial_event(budget: StageBudget, trial: TreeTrial) -> Event:
    """Return the plan of histograms after the class counts, and of the trial that follows."""
    later = trial.first + trial.second
    after = Either((budget.fraction(trial.second).event, _tree(budget.fraction(trial.second))))
    probe = Steps((_tree(budget.fraction(trial.first)), after))
    sums = budget.fraction(1 - CLASS_COUNT_SHARE - later).event
    # whether a tree is tried is decided after the histograms
    return Steps((sums, Either((budget.fraction(later).event, probe))))


def _tree(budget: StageBudget) -> Event:
    return Steps((budget.fraction(1 - LEAF_SHARE).draw, budget.fraction(LEAF_SHARE).event))
