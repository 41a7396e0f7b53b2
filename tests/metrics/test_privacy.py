"""Over all neighbours of tiny data: what a release is paid for, and that no more leaves it."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.accounting import gaussian_mu_squared
from skpublicdp.data import open_rows
from skpublicdp.metrics import (
    make_private_scorer,
    private_accuracy_score,
    private_balanced_accuracy_score,
    private_confusion_matrix,
    private_roc_auc_score,
    private_scores,
)
from tests.kit import Recorder
from tests.metrics.test_metrics import Decided, Predicting, Scored, numbers_of

EPSILON, DELTA = Fraction(1, 2), Fraction(1, 100_000)
SCORES, LABELS = (0.1, 0.6, float("nan")), ("no", "yes", "other", None)
ROWS = list(itertools.product(SCORES, LABELS))
N = 2
PUBLIC = np.array([[0.05], [0.3], [0.3], [0.7], [0.9]])


class Rated:
    """Scores of three labels, which all depend on the only feature."""

    classes_ = np.array(["no", "yes", "other"])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0], X[:, 0] / 2])

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0.5).astype(int)]


class Foretold:
    """The first feature is the predicted outcome."""

    def predict(self, X):
        return X[:, 0]


def outcomes(labels):
    """Outcomes in place of labels, one of them missing and one beyond the bounds."""
    return [{"no": 0.0, "yes": 1.0, "other": 7.0}.get(label) for label in labels]


RELEASES = {
    "outcomes": lambda X, y, **kw: private_scores(
        Foretold(), X, outcomes(y), outcome_bounds=(0, 1), **kw
    ),
    "scores": lambda X, y, **kw: private_scores(Scored(), X, y, **kw),
    "scores with public bins": lambda X, y, **kw: private_scores(
        Scored(), X, y, X_public=PUBLIC, **kw
    ),
    "scores by group": lambda X, y, **kw: private_scores(
        Scored(), X, y, X_public=PUBLIC, by=X[:, 0], by_values=[0.1, 0.6], **kw
    ),
    "scores of labels by group": lambda X, y, **kw: private_scores(
        Rated(), X, y, X_public=PUBLIC, by=X[:, 0], by_values=[0.1], **kw
    ),
    "decisions": lambda X, y, **kw: private_scores(Decided(), X - 0.5, y, **kw),
    "scores of labels": lambda X, y, **kw: private_scores(Rated(), X, y, **kw),
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
ATTAINED = RELEASES.keys() - {"many classes", "outcomes"}


def arrays(rows):
    column = np.empty(len(rows), dtype=object)
    column[:] = [label for _, label in rows]
    return np.array([[score] for score, _ in rows]), column


def answers(release, rows, **settings):
    """What leaves through the ledger, and what it costs: (exact integers, spread, gaussian)."""
    X, y = arrays(rows)
    with Recorder() as recorder:
        release(X, y, random_state=0, **settings)
    assert {call.kind for call in recorder.calls} == {"noise"}
    return [(call.exact_input.ravel(), call.spread, call.gaussian) for call in recorder.calls]


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", RELEASES)
def test_nothing_else_leaves(name):
    """With noisy numbers dictated, whatever can be seen of a release is the same for all data."""

    def seen(rows):
        made = RELEASES[name](*arrays(rows), epsilon=EPSILON, random_state=0)
        told = numbers_of(made) if hasattr(made, "metrics_") else None
        return pickle.dumps((made, told, repr(made)))

    with Recorder() as recorder:
        expected = seen([ROWS[0]] * N)
    for chosen in itertools.combinations_with_replacement(ROWS, N):
        with Recorder(recorder.outcomes):
            assert seen(chosen) == expected


PERSONS = np.array([0, 0, 0, 1, 1, 1])
FEW_ROWS = [(0.1, "no"), (0.6, "no"), (0.6, "yes"), (float("nan"), None)]


class OfColumn(Scored):
    """Its score is a column of a table of arrow."""

    def predict_proba(self, X):
        return super().predict_proba(np.array(X["x"].to_pylist(), dtype=float)[:, None])

    def predict(self, X):
        return super().predict(np.array(X["x"].to_pylist(), dtype=float)[:, None])


def of_persons(X, y, **kw):
    """The third row of each person does not count."""
    return private_scores(Scored(), X, y, groups=PERSONS, max_rows_per_group=2, **kw)


def labels_of_persons(X, y, **kw):
    return private_scores(Rated(), X, y, groups=PERSONS, max_rows_per_group=2, **kw)


def outcomes_of_persons(X, y, **kw):
    return RELEASES["outcomes"](X, y, groups=PERSONS, max_rows_per_group=2, **kw)


def of_a_stream(X, y, **kw):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": X[:, 0], "y": pa.array(list(y), pa.string())})
    rows = open_rows(table.to_batches(max_chunksize=2))
    persons = {"groups": PERSONS, "max_rows_per_group": 2}
    return private_scores(OfColumn(), rows.drop("y"), rows["y"], **persons, **kw)


RELEASES_OF_PERSONS = [of_persons, labels_of_persons, outcomes_of_persons, of_a_stream]


def of_two(first, second):
    """Six rows, of which the last of each person is never counted."""
    return [*first, FEW_ROWS[0], *second, FEW_ROWS[3]]


@pytest.mark.parametrize("delta", [Fraction(0), DELTA])
@pytest.mark.parametrize("release", [of_persons, labels_of_persons, outcomes_of_persons])
@pytest.mark.usefixtures("keep_first_rows")
def test_the_loss_when_a_person_is_replaced(release, delta):
    settings = {"epsilon": EPSILON, "delta": delta}
    persons = list(itertools.combinations_with_replacement(FEW_ROWS, 2))
    worst = Fraction(0)
    for other in (persons[0], persons[4]):
        known = [answers(release, of_two(one, other), **settings) for one in persons]
        for mine, yours in itertools.product(known, repeat=2):
            loss = Fraction(0)
            for one, two in zip(mine, yours, strict=True):
                assert one[1:] == two[1:]
                moved = [abs(int(step)) for step in one[0] - two[0]]
                loss += Fraction(sum(step**2 for step in moved) if one[2] else sum(moved)) / one[1]
            worst = max(worst, loss)
    most = gaussian_mu_squared(EPSILON, delta) if delta else EPSILON
    # all ranges of sums of powers add up in the price, and no two rows differ by all of them
    least = Fraction(1, 2) if release is outcomes_of_persons else Fraction(999, 1000)
    assert most * least < worst <= most


@pytest.mark.usefixtures("keep_first_rows")
def test_rows_beyond_what_counts_of_a_person_move_nothing():
    rows = [FEW_ROWS[2]] * 6
    expected = answers(of_persons, rows, epsilon=EPSILON)
    for place, row in itertools.product((2, 5), FEW_ROWS):
        other = list(rows)
        other[place] = row
        found = answers(of_persons, other, epsilon=EPSILON)
        assert all(
            (a[0] == b[0]).all() and a[1:] == b[1:] for a, b in zip(expected, found, strict=True)
        )


@pytest.mark.usefixtures("keep_first_rows")
def test_a_stream_releases_what_rows_in_memory_do():
    """So its loss over all neighbours is the same."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        rows = [FEW_ROWS[k] for k in rng.integers(len(FEW_ROWS), size=6)]
        one, other = (answers(f, rows, epsilon=EPSILON) for f in (of_persons, of_a_stream))
        assert all((a[0] == b[0]).all() and a[1:] == b[1:] for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("release", RELEASES_OF_PERSONS)
def test_nothing_else_leaves_of_persons_and_streams(release):
    def seen(rows):
        made = release(*arrays(rows), epsilon=EPSILON, random_state=0)
        return pickle.dumps((made, numbers_of(made), repr(made)))

    rng = np.random.default_rng(1)
    with Recorder() as recorder:
        expected = seen([FEW_ROWS[0]] * 6)
    for _ in range(10):
        with Recorder(recorder.outcomes):
            assert seen([FEW_ROWS[k] for k in rng.integers(len(FEW_ROWS), size=6)]) == expected
