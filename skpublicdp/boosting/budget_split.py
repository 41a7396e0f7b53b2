"""How many rounds and trees, and what each may spend: rules of public numbers only."""

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
from skpublicdp.accounting.decimals import root_below
from skpublicdp.accounting.events import DRAW_RATE
from skpublicdp.ledger import Ledger

CLASS_COUNT_SHARE = Fraction(1, 50)
"""Share of the budget for the shares of the labels."""

MIN_SHIFT_SHARE, MAX_SHIFT_SHARE = Fraction(1, 100), Fraction(1, 15)
"""Share of the budget for a first look at the columns: at least and at most."""

MAX_SHIFT_NOISE = 1 / 8
"""Most standard deviation of the noise in the share of rows that are in a half of a column."""

MAX_SHIFT_FRACTION = Fraction(1, 2)
"""Most of what is left for looks and sums together that looks may take."""

MAX_ROUNDS_WITH_SHIFT_TEST = 3
"""With more rounds of sums there is no look: each corrects what public rows made of the last."""

MAX_ROUNDS = 5
MIN_HISTOGRAM_SHARE = Fraction(1, 100)
"""No release of sums has less: half of what an attempt leaves, in most rounds, is more in each."""

BALANCED = 0.45
"""If 4 p (1 - p) is as much, p being the share of a label, smooth combinations are measured."""

BALANCED_FOR_NEWTON = 0.75
"""Labels are as good as even for growth if 4 p (1 - p) is as much."""

N_BINS, N_BINS_UNBALANCED = 12, 8
"""Most cells of a column of numbers: in general, and where labels are less even than that."""

FIRST_RELEASE_SHARE = Fraction(7, 10)
ROUND_RATIO = Fraction(3, 2)
"""Each round of sums has so many times the budget of the one before, where there are several."""

LEAF_SHARE = Fraction(1, 4)
"""Share of a tree's budget for the scores of its leaves."""

MAX_TREES = 32

SIGNAL_PER_TREE = 16
"""Each of T trees with measured leaves has T times this `quality` at least, unless it is alone."""

MISMATCH = 0.3
"""Share of the public sample's own noise that a smooth model cannot explain away."""

MIN_ROWS_PER_NOISE = 700
"""Growth needs so many times as many rows as the noise of a sum over one cell of each column that
takes the whole budget."""

MAX_FIRST_NOISE = 5000
"""Most noise of the first fit before growth, in rows: beyond, it could not be drawn."""

N_PASSES = 4
"""How often growth visits each column."""

MIN_SUBSAMPLE_ROWS = 1 << 21
"""Growth needs no more rows before its last sweep, where noise is small beside what rows leave."""

GRADIENT_VARIANCE = 0.2
"""Of a row, or so, with labels that are hard to tell apart."""

TREE_SIGNAL, MIN_TREE_SIGNAL = 100.0, 8.0
"""The `quality` that a draw in growth should have, and the least that is worth its visit."""

TREE_SHARE_RANGE = Fraction(1, 100), Fraction(3, 100)
"""Share of the budget of growth for a draw: at least and at most."""


@dataclass(frozen=True)
class TreeTrial:
    """What trees after the sums may spend.

    Attributes
    ----------
    probe, rest : Fraction
        Share of the budget for a tree that tells whether trees help, and for another one or a round
        of sums after it.
    least : float
        The `quality` of one draw with all of the budget from which on it is made.
    """

    first: Fraction
    second: Fraction
    min_signal: float


TREE_TRIALS = (
    TreeTrial(Fraction(1, 10), Fraction(3, 10), 13.0),
    TreeTrial(Fraction(3, 10), Fraction(2, 5), 9.0),
)
"""A tree that is easy to find gets little, since most tables need none; others more or nothing."""


@dataclass(frozen=True)
class StageBudget:
    """What adds up: ε if pure, otherwise the μ² of Gaussian noise and the like of draws.

    Attributes
    ----------
    amount : Fraction
        How much.
    pure : bool
        Which of the two.
    """

    amount: Fraction
    pure: bool

    def fraction(self, share: Fraction) -> StageBudget:
        """Return a share of it."""
        return StageBudget(self.amount * share, self.pure)

    @property
    def event(self) -> Gaussian | Pure:
        """Noise that takes all of it."""
        return Pure(self.amount) if self.pure else Gaussian(self.amount)

    @property
    def draw(self) -> Draw:
        """One exact draw that takes all of it, where zCDP or a plan accounts for it.

        In zCDP it has ρ = ε²/8, as noise of μ² = ε²/4 has; exactly composed it costs no more.
        """
        return Draw(self.amount if self.pure else root_below(4 * self.amount))

    @property
    def draw_as_gaussian(self) -> Draw:
        """One exact draw that takes all of it, where it is accounted as if it were noise.

        A draw of ε is μ-Gaussian differentially private, μ² = (π/8) ε² (docs/proofs/moments.md).
        """
        return Draw(self.amount if self.pure else root_below(self.amount / DRAW_RATE))

    def variance(self, sensitivity: Sensitivity) -> float:
        """Return the variance of noise that takes all of it, on sums in units far below a row."""
        if self.pure:
            return 2 * (sensitivity.absolute / float(self.amount)) ** 2
        return sensitivity.squared / float(self.amount)


def signal_to_noise(budget: StageBudget, n: float, log_size: float) -> float:
    """Return n ε / (2 ln|H|) of one draw that takes the whole budget, for n persons."""
    return n * float(budget.draw.epsilon) / (2 * log_size) if log_size > 0 else 0.0


MAX_EFFECT = 0.25
"""Largest sum of residuals 1[label] - p over any set of rows, as a share of the rows: p (1 - p),
where all rows with the label, and no others, are in the set."""

MIN_SIGNAL = 2.0
"""Least `quality` of a draw in which a perfect tree is as likely as all others together: with n / 2
errors less than by chance its weight is e^(ε n / 4), and that of the others is |H|."""


def effects_below_noise(budget: StageBudget, n: float, moved: Sensitivity) -> bool:
    """Indicate whether noise exceeds the strongest effect that a single column can have.

    Parameters
    ----------
    budget : StageBudget
        StageBudget of all sums.
    n : float
        Number of private rows.
    moved : Sensitivity
        Sensitivity of one count for each column.
    """
    return math.sqrt(budget.variance(moved)) > MAX_EFFECT * n


def choose_trial(signal: float) -> TreeTrial | None:
    """Choose what trees may spend by the `quality` of one draw; ``None`` means no trees."""
    return next((attempt for attempt in TREE_TRIALS if signal >= attempt.min_signal), None)


def shift_share(budget: StageBudget, n: int, sensitivity: Sensitivity) -> Fraction | None:
    """Choose the share of the budget for one count of each column.

    Parameters
    ----------
    budget : StageBudget
        All of it.
    n : int
        Number of private rows.
    sensitivity : Sensitivity
        Of all counts together.

    Returns
    -------
    Fraction or None
        What the counts need to be of use, in thousandths; ``None`` if that is too much.
    """
    if not n * sensitivity.squared:
        return None
    deviation = math.sqrt(budget.variance(sensitivity)) / (n * MAX_SHIFT_NOISE)
    needed = min(deviation if budget.pure else deviation**2, 1.0)
    share = max(Fraction(math.ceil(1000 * needed), 1000), MIN_SHIFT_SHARE)
    return share if share <= MAX_SHIFT_SHARE else None


def can_afford_boosting(budget: StageBudget, effective: float, moved: Sensitivity) -> bool:
    """Tell whether growth would learn more than a first fit that takes all.

    Parameters
    ----------
    budget : StageBudget
        All of it.
    effective : float
        How many rows with even labels would say as much.
    moved : Sensitivity
        Of one count for each column.
    """
    # noise of visits that add up their ε grows with the number of visits, not with its root
    rows = math.sqrt(2) * N_PASSES * MIN_ROWS_PER_NOISE if budget.pure else MIN_ROWS_PER_NOISE
    noise = math.sqrt(budget.variance(moved))
    return noise <= min(effective / rows, MAX_FIRST_NOISE)


def additive_share(budget: StageBudget, effective: float, m: float, moved: Sensitivity) -> Fraction:
    """Choose the share of the budget for the first fit where growth follows.

    Let noise that takes the whole budget have variance F in a sum over a cell, and private rows
    as a sample V. With a share s the first fit errs by F / s + V + U, where U = V `MISMATCH` n / m
    is for what it makes of m public rows, and visits err by F / (1 - s) + V. Their precisions add
    up to most at s = V / (2 V + U).

    Parameters
    ----------
    budget : StageBudget
        All of it.
    effective : float
        How many rows with even labels would say as much.
    m : float
        Number of public rows.
    moved : Sensitivity
        Of one count for each column.

    Returns
    -------
    Fraction
        In millionths.
    """
    least = math.sqrt(budget.variance(moved)) / MAX_FIRST_NOISE
    share = max(1 / (2 + MISMATCH * effective / m), least if budget.pure else least**2)
    return Fraction(math.ceil(1e6 * min(share, 0.5)), 10**6)


def subsample_size(noise: float, cells: int) -> int:
    """Choose how many rows all but the last sweep need: more would hardly change the scores.

    Parameters
    ----------
    noise : float
        Variance of the noise of a sum in one visit, in rows.
    cells : int
        The most cells that a column has at first.

    Returns
    -------
    int
        So many that noise adds a tenth at most to the variance that the rows themselves leave in
        a score, and no fewer than `MIN_SUBSAMPLE_ROWS`.
    """
    return max(MIN_SUBSAMPLE_ROWS, math.ceil(10 * noise * cells / GRADIENT_VARIANCE))


def tree_share(budget: StageBudget, persons: float, size: int) -> Fraction | None:
    """Choose the share of the budget of growth for the draw of a tree.

    Parameters
    ----------
    budget : StageBudget
        All of it.
    persons : float
        How many of them, with even labels, would say as much.
    size : int
        Number of trees.

    Returns
    -------
    Fraction or None
        What the draw needs, in thousandths and within `TREE_SHARE_RANGE`; ``None`` if that is too
        little for a tree to be found.
    """
    if size < 2:
        return None
    # like noise, a draw of all the budget has this quality, and others in proportion to its ε
    best = persons * float(budget.draw_as_gaussian.epsilon) / (2 * math.log(size))
    power = 1 if budget.pure else 2
    least, most = TREE_SHARE_RANGE
    needed = Fraction(math.ceil(1000 * min((TREE_SIGNAL / max(best, 1.0)) ** power, 1.0)), 1000)
    share = min(max(needed, least), most)
    return share if best * float(share) ** (1 / power) >= MIN_TREE_SIGNAL else None


def n_rounds(effective: float, m: float, variance: float) -> int:
    """Choose how often sums are released.

    Parameters
    ----------
    effective : float
        Number of private rows, times 2 (1 - Σ p²) for shares p of the labels.
    m : float
        Number of public rows.
    variance : float
        Variance of the noise of one release that takes the whole budget.
    """
    if effective <= 0:
        return 1
    rounds = 1 + round(0.5 * math.log2(effective**2 / (24 * m * variance)))
    return min(max(rounds, 1), MAX_ROUNDS)


def round_shares(rounds: int, *, pure: bool) -> list[Fraction]:
    """Part a budget among rounds of sums.

    With Gaussian noise a single round is released in two parts, which together say as much: so
    something is left for votes if the first part shows that the public rows are of no use.
    """
    if rounds == 1:
        return [Fraction(1)] if pure else [FIRST_RELEASE_SHARE, 1 - FIRST_RELEASE_SHARE]
    weights = [ROUND_RATIO**k for k in range(rounds)]
    return [weight / sum(weights) for weight in weights]


def n_voting_trees(
    budget: StageBudget, n: float, log_size: float, share: Fraction = Fraction(1)
) -> int:
    """Choose how many trees vote with a share of the budget."""
    if not budget.pure:
        return max(1, math.floor(MAX_TREES * share))
    return min(
        max(round(math.sqrt(signal_to_noise(budget.fraction(share), n, log_size))), 1), MAX_TREES
    )


def n_measured_trees(signal: float) -> int:
    """Choose how many trees with measured leaves a budget is parted among.

    Parameters
    ----------
    found : float
        The `quality` of one draw that takes all of it.

    Returns
    -------
    int
        A multiple of its root: the more there are, the better each is found.
    """
    return min(max(math.isqrt(int(signal / SIGNAL_PER_TREE)), 1), MAX_TREES)


def basic_composition_is_better(ledger: Ledger, count: int) -> bool:
    """Tell whether so many draws get as much by adding up ε as they do by zCDP."""
    epsilon, delta = ledger.epsilon, ledger.delta
    return not delta or epsilon**2 >= 8 * count * zcdp_rho(epsilon, delta)


def vote_step(count: int, *, pure: bool) -> float:
    """Choose what a vote adds on either side of the margin."""
    if not pure:
        return 0.1 if count == MAX_TREES else min(0.4, 3.2 / count)
    return min(0.4, 0.75 / math.sqrt(count)) if count <= 5 else min(0.3, 3 / count)


def make_stage_budget(ledger: Ledger, *, trees: bool) -> StageBudget:
    """Return the budget of rounds of sums and of all that may follow them, and plan with it.

    Rounds add up to one Gaussian mechanism whatever their number and parts are, and trees that vote
    after some of them are accounted as if they were noise: the ledger's own plan. Only trees that
    are tried after the sums make it a plan with branches.
    """
    if trees:
        amount = ledger.scale(_with_trees)
        ledger.plan(_with_trees(amount))
        return StageBudget(amount, pure=False)
    match ledger.event:
        case Gaussian(mu_squared):
            return StageBudget(mu_squared, pure=False)
    return StageBudget(ledger.epsilon, pure=True)


def _with_trees(amount: Fraction) -> Event:
    """Return the plan of sums, and perhaps trees, of an amount."""
    budget = StageBudget(amount, pure=False)
    # the released numbers of labels decide which attempt it is
    attempts = Either(tuple(trial_event(budget, attempt) for attempt in TREE_TRIALS))
    return Steps((budget.fraction(CLASS_COUNT_SHARE).event, attempts))


def trial_event(budget: StageBudget, attempt: TreeTrial) -> Event:
    """Return the plan of sums after the numbers of labels, and of what follows them."""
    later = attempt.first + attempt.second
    after = Either((budget.fraction(attempt.second).event, _tree(budget.fraction(attempt.second))))
    probe = Steps((_tree(budget.fraction(attempt.first)), after))
    sums = budget.fraction(1 - CLASS_COUNT_SHARE - later).event
    # whether there is a tree may be decided late: the choice comes after the sums
    return Steps((sums, Either((budget.fraction(later).event, probe))))


def _tree(budget: StageBudget) -> Event:
    return Steps((budget.fraction(1 - LEAF_SHARE).draw, budget.fraction(LEAF_SHARE).event))
