"""Over all neighbours of tiny data: what a release is paid for, and that no more leaves it."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.accounting import gaussian_mu_squared
from skpublicdp.metrics import (
    make_private_scorer,
    private_accuracy_score,
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
    private_scores,
)
from tests.kit import Tape
from tests.test_metrics import Decided, Predicting, Scored, numbers_of

EPSILON, DELTA = Fraction(1, 2), Fraction(1, 100_000)
SCORES, LABELS = (0.1, 0.6, float("nan")), ("no", "yes", "other", None)
ROWS = list(itertools.product(SCORES, LABELS))
N = 2

RELEASES = {
    "scores": lambda X, y, **kw: private_scores(Scored(), X, y, **kw),
    "decisions": lambda X, y, **kw: private_scores(Decided(), X - 0.5, y, **kw),
    "many classes": lambda X, y, **kw: private_scores(
        Predicting(), (X > 0.5) * 1, [{"no": "a", "yes": "b"}.get(label) for label in y], **kw
    ),
    "accuracy": lambda X, y, **kw: private_accuracy_score(y, Scored().predict(X), **kw),
    "matrix": lambda X, y, **kw: private_confusion_matrix(
        y, Scored().predict(X), labels=["no", "yes"], **kw
    ),
    "balanced accuracy": lambda X, y, **kw: private_balanced_accuracy_score(
        y, Scored().predict(X), labels=["no", "yes"], **kw
    ),
    "area": lambda X, y, **kw: private_roc_auc_score(y, X[:, 0], pos_label="yes", **kw),
    "scorer": lambda X, y, **kw: make_private_scorer("roc_auc", **kw)(Scored(), X, y),
}
ATTAINED = {"decisions", "scores", "accuracy", "matrix", "balanced accuracy", "area", "scorer"}


def arrays(rows):
    column = np.empty(len(rows), dtype=object)
    column[:] = [label for _, label in rows]
    return np.array([[score] for score, _ in rows]), column


def answers(release, rows, **settings):
    """What leaves through the ledger, and what it costs: (exact integers, spread, gaussian)."""
    X, y = arrays(rows)
    with Tape() as tape:
        release(X, y, random_state=0, **settings)
    assert {use.kind for use in tape.uses} == {"noise"}
    return [(use.answer.ravel(), use.spread, use.gaussian) for use in tape.uses]


@pytest.mark.parametrize("delta", [Fraction(0), DELTA])
@pytest.mark.parametrize("name", RELEASES)
def test_the_loss_over_all_neighbours(name, delta):
    settings = {"epsilon": EPSILON, "delta": delta}
    data_sets = itertools.combinations_with_replacement(range(len(ROWS)), N)
    known = {
        chosen: answers(RELEASES[name], [ROWS[i] for i in chosen], **settings)
        for chosen in data_sets
    }
    worst = Fraction(0)
    for chosen, released in known.items():
        for place, new in itertools.product(range(N), range(len(ROWS))):
            other = list(chosen)
            other[place] = new
            loss = Fraction(0)
            for mine, yours in zip(released, known[tuple(sorted(other))], strict=True):
                assert mine[1:] == yours[1:]
                moved = [abs(int(step)) for step in mine[0] - yours[0]]
                # e^(moved / scale) bounds each ratio of probabilities; or μ² adds up
                cost = sum(step**2 for step in moved) if mine[2] else sum(moved)
                loss += Fraction(cost) / mine[1]
            worst = max(worst, loss)
    most = gaussian_mu_squared(EPSILON, delta) if delta else EPSILON
    assert worst <= most
    if name in ATTAINED:
        assert worst > most * Fraction(999, 1000)  # and no budget is left over


@pytest.mark.parametrize("name", RELEASES)
def test_nothing_else_leaves(name):
    """With noisy numbers dictated, whatever can be seen of a release is the same for all data."""

    def seen(rows):
        made = RELEASES[name](*arrays(rows), epsilon=EPSILON, random_state=0)
        told = numbers_of(made) if hasattr(made, "metrics_") else None
        return pickle.dumps((made, told, repr(made)))

    with Tape() as tape:
        expected = seen([ROWS[0]] * N)
    for chosen in itertools.combinations_with_replacement(ROWS, N):
        with Tape(tape.outcomes):
            assert seen(chosen) == expected
