"""Private multiplicative weights on the cells of a public cover.

That it is private is proved in docs/proofs/multiplicative_weights.md, how much it errs in
`plan_rounds`.

The distinguisher is the exponential mechanism, drawn exactly: each round it picks the query, with a
sign, on which the current weights err most, and the weights move towards it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skpublicdp.accounting import Draw, Gaussian, Pure, Sensitivity, Steps, zcdp_rho
from skpublicdp.ledger import Ledger
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.query_release.queries import QueryClass, check_cover_size
from skpublicdp.query_release.spending import Noise, noise_on

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Rows = NDArray[np.float64]

MOST_ROUNDS = 2048
"""More rounds would take minutes, for a bound that hardly improves."""

REPLAYS = 50
"""How often MWEM goes through all it has measured, after each measurement."""

WORST = "worst query, by an exact draw of the exponential mechanism"
PROOF = "docs/proofs/multiplicative_weights.md"


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The cells that a cover cuts the rows into, with one public representative each.

    Attributes
    ----------
    queries : QueryClass
        The class.
    cover : ndarray
        One query for each division of the public points.
    points : ndarray of shape (m, n_features)
        Those public points, distinct.
    cells : ndarray of shape (n_cells, n_features)
        The representatives.
    incidence : ndarray of bool, shape (n_queries, n_cells)
        Which queries hold in which cells.
    """

    queries: QueryClass
    cover: NDArray[Any]
    points: Rows
    cells: Rows
    incidence: NDArray[np.bool_]

    def locate(self, X: Rows) -> NDArray[np.intp]:
        """Return the cell of each row; each row on its own.

        Where the list of cells is not complete, a row of another cell is moved to the one whose
        queries differ least.
        """
        places = {key: place for place, key in enumerate(_columns(self.incidence))}
        found = np.empty(len(X), dtype=np.intp)
        nearest: dict[bytes, int] = {}
        step = max(1, (1 << 24) // max(1, len(self.cover)))
        for start in range(0, len(X), step):
            holds = self.queries.holds(self.cover, X[start : start + step])
            for row, key in enumerate(_columns(holds)):
                place = places.get(key, nearest.get(key))
                if place is None:
                    differing = (self.incidence != holds[:, row : row + 1]).sum(axis=0)
                    place = nearest[key] = int(differing.argmin())
                found[start + row] = place
        return found

    def tally(self, X: Rows) -> Counts:
        """Count the rows in each cell: additive, and one row moves one count."""
        return np.bincount(self.locate(X), minlength=len(self.cells)).astype(np.int64)


def arrange(queries: QueryClass, X_public: Rows, n_points: int) -> Arrangement:
    """Build the cover and its representative domain (Algorithm 3, steps 1 to 4).

    Parameters
    ----------
    queries : QueryClass
        The class.
    X_public : ndarray of float64, shape (m, n_features)
        Public rows, at least one.
    n_points : int
        At most so many distinct ones are used, drawn by fixed randomness.
    """
    points = np.unique(X_public, axis=0)
    if len(points) > n_points:
        # from the rows with their repetitions, so that frequent ones are in
        order = np.random.default_rng(0).permutation(len(X_public))
        _, first = np.unique(X_public[order], axis=0, return_index=True)
        points = np.unique(X_public[order][np.sort(first)[:n_points]], axis=0)
    cover = queries.cover(points)
    candidates = queries.representatives(cover, points)
    check_cover_size(queries, len(cover) * len(candidates), 1 << 30, "answers on cells")
    incidence = queries.holds(cover, candidates)
    first_of: dict[bytes, int] = {}
    for place, key in enumerate(_columns(incidence)):
        first_of.setdefault(key, place)
    kept = list(first_of.values())
    return Arrangement(queries, cover, points, candidates[kept], incidence[:, kept])


def _columns(holds: NDArray[np.bool_]) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(holds.T, axis=1)]


@dataclass(frozen=True, eq=False)
class Questions:
    """Queries on cells.

    Attributes
    ----------
    matrix : csr_matrix of shape (n_queries, n_cells)
        1 where a query holds.
    """

    matrix: sp.csr_matrix

    @classmethod
    def of(cls, queries: QueryClass, listed: NDArray[Any], cells: Rows) -> Questions:
        """Ask some queries of a class on rows, a block of them at a time."""
        step = max(1, (1 << 24) // max(1, len(cells)))
        parts = [
            sp.csr_matrix(queries.holds(listed[start : start + step], cells), dtype=np.float64)
            for start in range(0, len(listed), step)
        ]
        return cls(sp.vstack(parts).tocsr())

    def answers(self, weights: Floats) -> Floats:
        """Return the weight of the cells where each query holds."""
        return np.asarray(self.matrix @ weights)

    def row(self, query: int) -> Floats:
        """Return where one query holds, as 0 and 1."""
        return np.asarray(self.matrix[[query]].toarray()[0])


@dataclass(frozen=True)
class Plan:
    """How the rounds are played, from public numbers only.

    Attributes
    ----------
    rounds : int
        Number of rounds.
    round_epsilon : Fraction
        Budget of the exponential mechanism in each.
    rate : float
        Learning rate.
    error : float
        With probability 1 - beta no answer on the private rows errs more.
    """

    rounds: int
    round_epsilon: Fraction
    rate: float
    error: float


def plan_rounds(
    n: int,
    n_queries: int,
    n_cells: int,
    *,
    ledger: Ledger,
    beta: float,
    alpha: float | None = None,
) -> Plan:
    """Choose the number of rounds by the bound of the error.

    Parameters
    ----------
    n : int
        Private rows.
    n_queries, n_cells : int
        Size of the cover and of the representative domain.
    ledger : Ledger
        What may be spent.
    beta : float
        Probability with which the bound may fail.
    alpha : float, optional
        An error that is enough: no more rounds are played than take the weights halfway there.

    Returns
    -------
    Plan
        With T rounds of learning rate √(8 ln N / T), the average weights err by at most
        √(ln N / 2T), plus what the draws miss: (2 / ε₀) ln(2k T / β) rows each, ε₀ being the budget
        of a round, plus one row for rounding. If a person may have r rows, they miss r times as
        much.

    Notes
    -----
    KL(private ‖ weights) starts at no more than ln N. A round with a query whose answer is off by e
    in the drawn direction lowers it by at least rate·e - rate²/8 (Hoeffding's lemma). Add up, and
    divide by the number of rounds: the drawn errors are on average at most √(ln N / 2T). Each is
    the largest of its round, up to what the exponential mechanism misses (Dwork and Roth 2014,
    Corollary 3.12), and the errors of the average weights are averages of errors.

    The number is chosen by the budgets that zCDP gives to a round, which have a closed form. Those
    of the chosen number are then as large as the ledger finds them.
    """
    log_cells = math.log(max(n_cells, 2))
    epsilon = float(ledger.epsilon)
    rho = float(zcdp_rho(ledger.epsilon, ledger.delta)) if ledger.delta else 0.0

    def bound(rounds: int, budget: float) -> float:
        missed = 2 * ledger.rows_per_person / budget * math.log(2 * n_queries * rounds / beta)
        return math.sqrt(log_cells / (2 * rounds)) + (missed + 1) / n

    def roughly(rounds: int) -> float:
        return bound(rounds, max(epsilon / rounds, math.sqrt(8 * rho / rounds)))

    choices = [*range(1, 16), *(int(16 * 2 ** (i / 4)) for i in range(29))]
    best = min((rounds for rounds in choices if rounds <= MOST_ROUNDS), key=roughly)
    if alpha is not None:
        best = min(best, math.ceil(log_cells / (2 * (alpha / 2) ** 2)))
    budget = ledger.equal_draws(best)
    return Plan(best, budget, math.sqrt(8 * log_cells / best), bound(best, float(budget)))


def play(
    counts: Counts,
    n: int,
    incidence: NDArray[np.bool_],
    plan: Plan,
    ledger: Ledger,
) -> Floats:
    """Play the rounds of private multiplicative weights.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_queries,)
        Private rows for which each query holds: used in the draws alone.
    n : int
        Private rows.
    incidence : ndarray of bool, shape (n_queries, n_cells)
        Which queries hold in which cells.
    plan : Plan
        Rounds and budgets.
    ledger : Ledger
        Pays.

    Returns
    -------
    ndarray of shape (n_cells,)
        The average weights over the rounds, with sum 1.
    """
    logs = np.zeros(incidence.shape[1])
    average = np.zeros(incidence.shape[1])
    dense = incidence.astype(np.float64)
    event = Draw(plan.round_epsilon)
    ledger.plan(Steps((event,) * plan.rounds))
    for _ in range(plan.rounds):
        weights = _normalised(logs)
        average += weights / plan.rounds
        # a function of what was released before, in whole rows
        expected = np.rint(n * (dense @ weights)).astype(np.int64)
        query, below = draw_worst(counts, expected, event, ledger)
        logs += (plan.rate if below else -plan.rate) * dense[query]
    return average


def draw_worst(counts: Counts, expected: Counts, event: Draw, ledger: Ledger) -> tuple[int, bool]:
    """Draw a query with a large error, and whether the expected count is too low.

    A replaced row moves each score by at most 1.
    """
    lacking = counts - expected
    family = Leaf(np.concatenate([-lacking, lacking]))
    place = int(ledger.draw(family, event, 1, name=WORST, proof=PROOF))
    return place % len(counts), place < len(counts)


def mwem(
    counts: Counts, n: int, questions: Questions, prior: Floats, rounds: int, ledger: Ledger
) -> Floats:
    """Play MWEM from a public prior: draw the worst query, measure it, fit all that was measured.

    Parameters
    ----------
    counts, n
        As in `play`.
    questions : Questions
        What may be asked.
    prior : ndarray of shape (n_cells,)
        Positive weights with sum 1 to start from.
    rounds : int
        Number of rounds.
    ledger : Ledger
        Pays: half of it for the draws and half for Gaussian noise, or Laplace noise if δ = 0.

    Returns
    -------
    ndarray of shape (n_cells,)
        Weights with sum 1.

    References
    ----------
    Hardt, Ligett and McSherry (2012); the start at a public sample is that of Liu et al. (2021).
    """
    event, noise = round_events(rounds, ledger)
    ledger.plan(Steps((event, noise) * rounds))
    name = noise_on("its count", noise)
    logs = np.log(prior)
    held, targets = np.empty((0, len(prior))), np.empty(0)
    for _ in range(rounds):
        expected = np.rint(n * questions.answers(_normalised(logs))).astype(np.int64)
        query, _ = draw_worst(counts, expected, event, ledger)
        noisy = ledger.add_noise(counts[[query]], Sensitivity(1, 1), noise, name=name, proof=PROOF)
        held = np.concatenate([held, questions.row(query)[None]])
        targets = np.concatenate([targets, np.clip(noisy.values / n, 0, 1)])
        logs = _replay(logs, held, targets)
    return _normalised(logs)


def round_events(rounds: int, ledger: Ledger) -> tuple[Draw, Noise]:
    """Return the draw and the noise of each of some rounds of MWEM, which cost ρ or ε alike."""
    if not ledger.delta:
        half = ledger.epsilon / (2 * rounds)
        return Draw(half), Pure(half)

    def one(epsilon: Fraction) -> tuple[Draw, Noise]:
        return Draw(epsilon), Gaussian(epsilon**2 / 4)

    return one(ledger.scale(lambda epsilon: Steps(one(epsilon) * rounds)))


def _replay(logs: Floats, rows: Floats, targets: Floats) -> Floats:
    for _ in range(REPLAYS):
        for row, target in zip(rows, targets, strict=True):
            weights = _normalised(logs)
            logs = logs + row * (target - float(row @ weights))
    return logs


def mwem_rounds(n: int, n_public: int, ledger: Ledger) -> int:
    """Choose a number of rounds whose noise is about half of the public sampling error."""
    rho = float(ledger.epsilon) ** 2 / 8
    if ledger.delta:
        rho = float(zcdp_rho(ledger.epsilon, ledger.delta))
    persons = n / ledger.rows_per_person
    return int(np.clip(rho * persons**2 / (16 * max(n_public, 1)), 1, 60))


def _normalised(logs: Floats) -> Floats:
    weights: Floats = np.exp(logs - logs.max())
    weights /= weights.sum()
    return weights
