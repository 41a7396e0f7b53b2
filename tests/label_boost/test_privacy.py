"""LabelBoost: the privacy proved in docs/proofs/label_boost.md against exact probabilities.

`strongest` finds, by a linear program, the ε_A-private algorithm that tells two distributions over
relabelled data sets best apart; no bound may be below what it reaches.
"""

import dataclasses
import functools
import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from skpublicdp.accounting import subsampled_epsilon
from skpublicdp.hypotheses import Halfspaces, Rectangles, Stumps, Thresholds
from tests import ROOT
from tests.internals.data import LabelledRows
from tests.internals.label_boost import (
    LabelBoostPlan,
    RelabellingRound,
    affordable_base_budget,
    all_labelings,
    relabelling_epsilon,
    rounds_epsilon,
    rows_for_base_learner,
)
from tests.internals.mechanisms import probabilities
from tests.internals.privacy import Ledger
from tests.kit import enumerate_runs

LINE = [(0.0,), (1.0,), (2.0,)]
SLACK = 1e-6  # of the linear program
PROOF = ROOT / "docs" / "proofs" / "label_boost.md"


@functools.cache
def relabelled(S, T, epsilon, hypotheses=None, n_classes=2):
    """Exact distribution of (S∘T)^h for S = ((point, label), ...) and T = (point, ...)."""
    points = [point for point, _ in S] + list(T)
    X = np.array(points, dtype=float)
    y = np.array([label for _, label in S])
    ways = all_labelings(hypotheses or Thresholds(), X, np.arange(n_classes))
    bounds = probabilities(ways.family(y), Fraction(epsilon), 1, precision=256)
    outcomes = defaultdict(float)
    for member, (lower, _) in bounds.items():
        outcomes[tuple(zip(points, ways.labels(member).tolist(), strict=True))] += float(lower)
    return outcomes


def hamming(one, other):
    return sum(a != b for a, b in zip(one, other, strict=True))


def replacements(one, other):
    """Rows to replace between two sets of rows, in any order."""
    return len(one) - sum((Counter(one) & Counter(other)).values())


def strongest(p, q, base, distance=hamming):
    """ln of the largest P[F]/Q[F] over the events F of all `base`-private algorithms."""
    states = sorted(p.keys() | q.keys())
    distances = np.array([[distance(one, other) for other in states] for one in states])
    # P[F | one] <= e^(base·distance) P[F | other] follows from those by way of a state in between
    between = (distances[:, :, None] + distances[None] == distances[:, None]).sum(axis=1)
    pairs = np.argwhere((distances > 0) & (between == 2))  # the two ends alone
    rows = np.zeros((len(pairs), len(states)))
    for row, (i, j) in zip(rows, pairs, strict=True):
        row[i], row[j] = math.exp(-base * distances[i, j]), -1.0
    ps, qs = (np.array([d.get(state, 0.0) for state in states]) for d in (p, q))
    solved = linprog(-ps, rows, np.zeros(len(rows)), qs[None], [1.0], method="highs")
    assert solved.status == 0
    return math.log(-solved.fun)


def data_sets(points, n_labelled, n_new, n_classes=2):
    rows = list(itertools.product(points, range(n_classes)))
    for S in itertools.combinations_with_replacement(rows, n_labelled):
        for T in itertools.combinations_with_replacement(points, n_new):
            yield S, T


def replaced(S, T, points, n_classes=2):
    """Yield (which part, S', T') for all replacements of one row."""
    for i in range(len(S)):
        for row in itertools.product(points, range(n_classes)):
            if row != S[i]:
                yield "labelled", (*S[:i], row, *S[i + 1 :]), T
    for i in range(len(T)):
        for point in points:
            if point != T[i]:
                yield "new", S, (*T[:i], point, *T[i + 1 :])


CROSS = [(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0)]  # three on a line
CORNERS = [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.0, 1.0, 1.0), (0.0, 1.0, 0.0)]
SQUARE = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]


def attained(points, n_labelled, n_new, epsilon, base, hypotheses=None, n_classes=2):
    """The largest loss over all data sets and all neighbours, for either kind of row."""
    worst = {"labelled": 0.0, "new": 0.0}
    for S, T in data_sets(points, n_labelled, n_new, n_classes):
        p = relabelled(S, T, epsilon, hypotheses, n_classes)
        for part, S2, T2 in replaced(S, T, points, n_classes):
            q = relabelled(S2, T2, epsilon, hypotheses, n_classes)
            worst[part] = max(worst[part], strongest(p, q, base))
    return worst


def within(worst, after, epsilon, n_classes=2):
    bounds = relabelling_epsilon(Fraction(after), Fraction(epsilon), n_classes)
    return all(lost <= bound + SLACK for lost, bound in zip(worst.values(), bounds, strict=True))


EXHAUSTIVE = [
    # points, labelled rows, new rows, ε₀, ε_A, class, labels
    (LINE, 1, 1, 1.0, 0.5, Thresholds(), 2),
    (LINE, 2, 1, 0.5, 1.0, Thresholds(), 2),
    (LINE, 1, 2, 3.0, 0.25, Thresholds(), 2),
    ([(float(v),) for v in range(5)], 1, 1, 1.0, 2.0, Thresholds(), 2),
    (LINE, 1, 1, 1.0, 0.5, Stumps(), 2),
    (SQUARE, 1, 1, 2.0, 0.5, Stumps(), 2),
    (LINE, 1, 1, 1.0, 0.5, Stumps(), 3),
    (SQUARE, 1, 1, 1.0, 0.5, Rectangles(), 2),
    (LINE, 1, 1, 2.0, 0.5, Rectangles(), 2),
    (SQUARE, 1, 1, 1.0, 0.5, Rectangles(cuts=[[0.5], [0.5]]), 2),
    (LINE, 1, 1, 2.0, 0.5, Rectangles(cuts=[[0.5]]), 2),
    (CORNERS, 1, 1, 1.0, 0.5, Rectangles(cuts=[[0.5], [0.5], [0.5]]), 2),
    (SQUARE, 1, 1, 1.0, 0.5, Halfspaces(), 2),
    (CROSS, 1, 1, 2.0, 1.0, Halfspaces(), 2),
    (LINE, 1, 1, 1.0, 0.5, Halfspaces(), 2),
    pytest.param((CROSS, 1, 2, 1.0, 0.5, Rectangles(), 2), marks=pytest.mark.slow),
    pytest.param((CROSS, 1, 2, 1.0, 0.5, Halfspaces(), 2), marks=pytest.mark.slow),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", EXHAUSTIVE, ids=lambda c: f"{len(c[0])}-{c[1]}-{c[2]}-{c[-2]}")
def test_relabelling_keeps_its_bound_on_all_data_sets(case):
    points, n_labelled, n_new, epsilon, base, hypotheses, n_classes = case
    worst = attained(points, n_labelled, n_new, epsilon, base, hypotheses, n_classes)
    assert within(worst, base, epsilon, n_classes)
    assert worst["labelled"] > base <= worst["new"]  # relabelling is not free


def crafted(epsilon, part, n=60):
    """A pair that reaches the bound: nearly all mass on one labelling z', and z is looked at.

    The row at 0 parts z in two in the first data set; the row at 2 parts z' in the second.
    """
    common = (((1.0,), 0),) * n + (((3.0,), 1),) * n
    if part == "labelled":
        first, second = (*common, ((0.0,), 1)), (*common, ((2.0,), 0))
        return relabelled(first, (), epsilon), relabelled(second, (), epsilon)
    return relabelled(common, ((0.0,),), epsilon), relabelled(common, ((2.0,),), epsilon)


def told_apart(p, q, base):
    """The same as `strongest` for one algorithm: F has probability e^(-base·distance to z) / 2."""
    seen = next(
        state for state in sorted(p) if all(label == 1 for _, label in state)
    )  # z: all points above the threshold
    shared = [((0.0,), label) for label in (0, 1)]
    targets = {(*seen[:-1], row) for row in shared}

    def event(d):
        return sum(
            share * math.exp(-base * min(hamming(state, target) for target in targets))
            for state, share in d.items()
        )

    return math.log(event(p) / event(q))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("base", [1.5, 3.0])
def test_the_bound_is_reached(epsilon, base):
    for part, bound in zip(
        ("labelled", "new"), relabelling_epsilon(Fraction(base), Fraction(epsilon)), strict=True
    ):
        reached = told_apart(*crafted(epsilon, part), base)
        assert bound - 1e-5 < reached <= bound + 1e-12


def test_without_the_price_of_new_rows_the_bound_would_fail():
    """Relabelling new rows is not free: the ln 4 of docs/proofs/label_boost.md is needed."""
    reached = told_apart(*crafted(1.0, "new"), 1.5)
    assert reached > 1.5 + math.log(4) - 1e-4
    assert not within({"labelled": 0.0, "new": reached}, Fraction("1.49"), 1.0)


def test_relabelling_adds_nothing_to_delta():
    """P[F] <= e^ε Q[F] + δ with the δ of the algorithm itself, for one with δ > 0.

    It shows the label of the last row with probability δ, and randomizes it otherwise.
    """
    base, delta, epsilon = 0.5, 0.1, 1.0
    bound = math.exp(relabelling_epsilon(Fraction(1, 2), Fraction(1))[0])
    keep = math.exp(base) / (1 + math.exp(base))

    def outputs(d):
        out = defaultdict(float)
        for state, share in d.items():
            point, label = state[-1]
            out["shown", point, label] += share * delta
            out["told", label] += share * (1 - delta) * keep
            out["told", 1 - label] += share * (1 - delta) * (1 - keep)
        return out

    # the label tells of the point too, within ε = 1/2: it is all that is randomized
    for S, _ in data_sets(LINE, 2, 0):
        p = outputs(relabelled(S, (), epsilon))
        for _, S2, _ in replaced(S, (), LINE):
            q = outputs(relabelled(S2, (), epsilon))
            over = sum(max(p[o] - bound * q.get(o, 0.0), 0.0) for o in list(p))
            assert over <= delta + 1e-12


def thinned(S, T, step, epsilon):
    """Exact distribution after one round, as sets of rows."""
    out = defaultdict(float)
    olds = list(itertools.combinations(S, step.sampled_labelled))
    news = list(itertools.combinations(T, step.sampled_new))
    for old, new in itertools.product(olds, news):
        for state, share in relabelled(old, new, epsilon).items():
            out[tuple(sorted(state))] += share / (len(olds) * len(news))
    return out


ROUNDS = [
    # points, round, ε_A
    (LINE[:2], RelabellingRound(2, 2, 1, 1, Fraction(1)), 0.5),
    (LINE[:2], RelabellingRound(3, 1, 1, 1, Fraction(2)), 1.0),
    (LINE, RelabellingRound(1, 2, 1, 1, Fraction(1)), 0.5),
    pytest.param(LINE, RelabellingRound(2, 2, 1, 1, Fraction(1)), 0.5, marks=pytest.mark.slow),
    pytest.param(LINE, RelabellingRound(3, 1, 1, 1, Fraction(2)), 1.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("points", "step", "base"), ROUNDS)
def test_a_round_keeps_its_bound_on_all_data_sets(points, step, base):
    bounds = rounds_epsilon((step,), Fraction(base))[0]
    worst = {"labelled": 0.0, "new": 0.0}
    exact = {
        (S, T): thinned(S, T, step, step.epsilon)
        for S, T in data_sets(points, step.n_labelled, step.n_new)
    }
    for (S, T), p in exact.items():
        for part, S2, T2 in replaced(S, T, points):
            q = exact[tuple(sorted(S2)), tuple(sorted(T2))]
            worst[part] = max(worst[part], strongest(p, q, base, replacements))
    assert 0 < worst["labelled"] <= bounds[0] + SLACK
    assert 0 < worst["new"] <= bounds[1] + SLACK


def halves(part, row, n=30):
    """Yield (chance, S, T) for random halves of the crafted data sets' rows."""

    def common(low, high):
        return (((1.0,), 0),) * low + (((3.0,), 1),) * high

    if part == "new":
        yield 0.5, common(n, n), (row[0],)
        yield 0.5, common(n, n), ((1.0,),)
        return
    for kept in (0, 1):
        for low in range(n - kept + 1):
            high = n - kept - low
            chance = math.comb(n, low) * math.comb(n, high) / math.comb(2 * n + 1, n)
            yield chance, common(low, high) + (row,) * kept, ()


def told_apart_in_a_round(epsilon, base, part):
    """The loss of one algorithm after a round that keeps half of the rows of the crafted pair.

    Its event has probability e^(-base·d) / 2, d being the replacements to a set with a row at 0 and
    no other row labelled 0.
    """

    def event(state):
        zeros = sum(label == 0 for (point,), label in state if point != 0)
        return math.exp(-base * max(zeros, all(point != 0 for (point,), _ in state)))

    first, second = (
        sum(
            chance * share * event(state)
            for chance, S, T in halves(part, row)
            for state, share in relabelled(S, T, epsilon).items()
        )
        for row in (((0.0,), 1), ((2.0,), 0))
    )
    return math.log(first / second)


def test_wrong_rates_and_prices_would_promise_too_much():
    base, epsilon, half = Fraction(3), Fraction(1), Fraction(1, 2)
    prices = relabelling_epsilon(base, epsilon)
    for part, price in zip(("labelled", "new"), prices, strict=True):
        reached = told_apart_in_a_round(1.0, 3.0, part)
        assert subsampled_epsilon(base, half) < reached  # relabelling forgotten
        assert subsampled_epsilon(price, half / 2) < reached  # half of the rate
        assert reached <= subsampled_epsilon(price, half)


def test_rounds_follow_the_formula():
    """ln(1 + q (e^ε_A (1 + u)^2 - 1)), each kind of row at its own rate, back through rounds."""
    step = RelabellingRound(500, 9000, 113, 2000, Fraction(1, 2))
    u = math.exp(0.25)
    ((labelled, new),) = rounds_epsilon((step,), Fraction(1, 2))
    expected = math.log(1 + 113 / 500 * (math.exp(0.5) * (1 + u) ** 2 - 1))
    assert labelled == pytest.approx(expected, rel=1e-12)
    assert labelled == pytest.approx(1, abs=0.003)  # the example of the specification
    assert new == pytest.approx(math.log(1 + 2 / 9 * (4 * math.exp(0.5) - 1)), rel=1e-12)
    before = RelabellingRound(1000, 1000, 300, 200, Fraction(2))
    outer, inner = rounds_epsilon((before, step), Fraction(1, 2))
    assert inner == (labelled, new)
    grown = math.exp(labelled) * (1 + math.e) ** 2
    assert outer[0] == pytest.approx(math.log(1 + 0.3 * (grown - 1)), rel=1e-12)
    late = math.log(1 + 0.2 * (4 * math.exp(labelled) - 1))
    assert outer[1] == pytest.approx(max(late, new), rel=1e-12)
    three = relabelling_epsilon(Fraction(0), Fraction(1, 2), n_classes=3)
    assert three == pytest.approx((2 * math.log(2 + u), 2 * math.log(3)))


def after_rounds(S, T, rounds):
    """Exact distribution after some rounds, as sets of rows; each takes the next rows of T."""
    step, *later = rounds
    states = thinned(S, T[: step.n_new], step, step.epsilon)
    if not later:
        return states
    out = defaultdict(float)
    for state, share in states.items():
        for final, part in after_rounds(state, T[step.n_new :], later).items():
            out[final] += share * part
    return out


def test_two_rounds_keep_their_bound():
    rounds = RelabellingRound(2, 1, 1, 1, Fraction(1)), RelabellingRound(2, 1, 1, 1, Fraction(2))
    base = 0.5
    bounds = rounds_epsilon(rounds, Fraction(base))[0]
    points = LINE[:2]
    run = functools.cache(lambda S, T: after_rounds(S, T, rounds))
    worst = {"labelled": 0.0, "new": 0.0}
    for S in itertools.combinations_with_replacement(itertools.product(points, (0, 1)), 2):
        for T in itertools.product(points, repeat=2):  # which row is taken when matters
            p = run(S, T)
            for part, S2, T2 in replaced(S, T, points):
                q = run(tuple(sorted(S2)), T2)
                worst[part] = max(worst[part], strongest(p, q, base, replacements))
    assert worst["labelled"] <= bounds[0] + SLACK
    assert worst["new"] <= bounds[1] + SLACK


ONE, TWO = Fraction(2), Fraction(1)
PROCEDURES = [
    # rounds, and how many rows of the last one the base learner gets
    ((RelabellingRound(3, 2, 2, 1, ONE),), 3),
    ((RelabellingRound(3, 2, 1, 2, ONE),), 2),
    ((RelabellingRound(3, 1, 1, 1, ONE), RelabellingRound(2, 1, 1, 1, TWO)), 2),
    ((RelabellingRound(3, 1, 2, 1, ONE), RelabellingRound(3, 1, 1, 1, TWO)), 2),
]


@pytest.mark.parametrize(("rounds", "base_rows"), PROCEDURES)
def test_what_runs_is_what_was_proved(rounds, base_rows):
    """`rows_for_base_learner`, over all its choices, against the distribution after its rounds.

    Every sequence: no row may tell by its place which kind it was.
    """
    S = (((0.0,), 0), ((1.0,), 1), ((2.0,), 1))
    T = ((0.5,), (3.0,))
    expected = defaultdict(float)
    orders = list(itertools.permutations(T))
    for order in orders:  # which rows are new in which round
        for state, share in after_rounds(S, order, rounds).items():
            sequences = list(itertools.permutations(state, base_rows))
            for rows in sequences:
                expected[rows] += share / len(orders) / len(sequences)
    plan = LabelBoostPlan(len(S), len(T), rounds, base_rows, 0.5, 0.0)
    found = procedure(plan, S, T)
    assert found.keys() == expected.keys()
    assert all(found[rows] == pytest.approx(share) for rows, share in expected.items())


def procedure(plan, S, T):
    """Exact distribution of the sequences of rows that the base learner gets."""
    given = LabelledRows(
        np.array([point for point, _ in S]),
        np.array([label for _, label in S]),
        np.array(T),
        np.array([True] * len(S) + [False] * len(T)),
        np.arange(2),
        np.array(T)[:0],
    )

    def run():
        ledger = Ledger(1)
        whole = ledger.sub_ledger(ledger.event, name="", proof="", by_theorem=True)
        X, y = rows_for_base_learner(plan, Thresholds(), given, whole)
        return tuple(zip(map(tuple, X.tolist()), y.tolist(), strict=True))

    found = defaultdict(float)
    for one in enumerate_runs(run):
        found[one.result] += float(one.lower)
    return found


@pytest.mark.parametrize(
    ("sizes", "rounds", "message"),
    [
        # each round samples one of the two rows: together they sample both, not half of them
        (
            (3, 2),
            (RelabellingRound(3, 2, 1, 1, ONE), RelabellingRound(2, 2, 1, 1, ONE)),
            r"got \[2, 2\] of 2",
        ),
        ((3, 1), (RelabellingRound(3, 2, 1, 1, ONE),), r"got \[2\] of 1"),
        ((2, 2), (RelabellingRound(3, 2, 1, 1, ONE),), "got 3 instead of 2"),
        (
            (3, 4),
            (RelabellingRound(3, 2, 1, 1, ONE), RelabellingRound(3, 2, 1, 1, ONE)),
            "got 3 instead of 2",
        ),
    ],
)
def test_no_plan_has_smaller_rates_than_its_rounds(sizes, rounds, message):
    """The rates of the theorem are those of blocks, which must exist."""
    with pytest.raises(AssertionError, match=message):
        LabelBoostPlan(*sizes, rounds, 1, 0.5, 0.0)
    # no plan is changed to one that would be refused
    plan = LabelBoostPlan(*sizes, (), 1, 0.5, 0.0)
    with pytest.raises(AssertionError, match=message):
        dataclasses.replace(plan, rounds=rounds)


def test_rows_that_a_round_has_not_sampled_must_be_discarded():
    """If two rounds each sampled half of the remaining rows, the maximum would be exceeded."""
    loss = Fraction(2)
    each = subsampled_epsilon(loss, Fraction(1, 2))
    both = subsampled_epsilon(loss, Fraction(3, 4))
    assert (round(each, 3), round(both, 3)) == (1.434, 1.756)  # as the page says
    # a base learner that applies randomised response with ε = 2 to the value of a sampled row
    shows = math.exp(2) / (1 + math.exp(2))
    attained = math.log((0.25 * (1 - shows) + 0.75 * shows) / (1 - shows))
    assert attained == pytest.approx(both)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_what_is_left_for_the_base_learner_fits(epsilon):
    """`affordable_base_budget` is the inverse of `rounds_epsilon`, rounded against us."""
    rounds = (
        RelabellingRound(50_000, 9000, 200, 60, Fraction(1)),
        RelabellingRound(260, 50_000, 3, 500, Fraction(3, 2)),
    )
    left, delta = affordable_base_budget(Fraction(epsilon), Fraction(1, 10**6), rounds)
    spent = max(rounds_epsilon(rounds, Fraction(left))[0])
    assert left > 0
    assert epsilon - 1e-9 < spent <= epsilon + 1e-14
    # of the rows of the second round a hundredth reach the base learner, of the others fewer
    assert 1e-4 * (1 - 1e-9) < delta <= 1e-4


def test_the_table_of_the_proof():
    """The numbers printed beside the proof are those that come out."""
    lines = [line for line in PROOF.read_text().splitlines() if line.startswith("| ")]
    table = {}
    for line in lines[1:]:
        name, *numbers = [cell.strip() for cell in line.strip("| ").split("|")]
        table[name] = numbers
    for epsilon in (0.5, 1.0, 2.0):
        labelled, new = (
            told_apart(*crafted(epsilon, part), 3.0) - 3.0 for part in ("labelled", "new")
        )
        bounds = relabelling_epsilon(Fraction(0), Fraction(epsilon))
        worst = attained(LINE, 1, 1, epsilon, 0.5)
        assert table[f"{epsilon:g}"] == [
            f"{number:.4f}"
            for number in (
                bounds[0],
                labelled,
                worst["labelled"] - 0.5,
                bounds[1],
                new,
                worst["new"] - 0.5,
            )
        ]
