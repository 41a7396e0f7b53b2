"""The search is private: exact probabilities over all neighbours, and dictated releases."""

import itertools
from fractions import Fraction
from functools import cache

import joblib
import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from skpublicdp import GenericLearnerClassifier, SemiPrivateClassifier
from skpublicdp.accounting import basic_price, exact_fraction
from skpublicdp.hypotheses import DecisionTrees, Halfspaces, Stumps, Thresholds
from skpublicdp.model_selection import SemiPrivateSearchCV
from tests.helpers import all_data_sets, as_arrays, assert_private, neighbours_of
from tests.internals.mechanisms import probabilities
from tests.kit import Recorder, enumerate_runs, index_by_release, worst_ratio

POINTS = np.array([[0.0], [1.0], [2.0]])
PUBLIC = np.array([[0.5], [1.5], [1.6]])
EPSILON = 0.7

FAMILY = [
    {"hypotheses": [Thresholds(), Stumps()], "alpha": [0.01, 0.4]},
    {"hypotheses": [Thresholds()], "public_weight": [0, 3]},
]


def family(**parameters):
    return SemiPrivateSearchCV(
        SemiPrivateClassifier(),
        FAMILY,
        epsilon=EPSILON,
        classes=[0, 1],
        random_state=0,
        **parameters,
    )


@pytest.mark.filterwarnings("ignore:(Only . public|The public rows contain)")
@pytest.mark.parametrize("y_public", [None, [0, 1, -1]], ids=["unlabelled", "labelled"])
def test_one_draw_over_all_neighbours(y_public):
    """Labelled public rows weigh differently for some candidates: a prior, up to rounding."""

    @cache
    def outcomes(chosen):
        with Recorder() as recorder:
            family().fit(*as_arrays(POINTS, chosen), X_public=PUBLIC, y_public=y_public)
        (call,) = recorder.calls_of("draw")
        assert call.epsilon == exact_fraction(EPSILON)
        return probabilities(call.exact_input, call.epsilon, call.sensitivity, precision=96)

    worst = Fraction(0)
    for chosen in all_data_sets(POINTS, 2):
        for other in neighbours_of(chosen, POINTS):
            one, two = outcomes(chosen), outcomes(other)
            assert_private(one, two, exact_fraction(EPSILON))
            worst = max(worst, *(one[path][1] / two[path][0] for path in one))
    assert worst > np.exp(0.6 * EPSILON)  # most of ε is used


def kinds(alphas=(0.01, 0.5)):
    """Two kinds of candidates: a family, and a learner that is none of it."""
    grid = [
        {"learn": [SemiPrivateClassifier(Thresholds())], "learn__alpha": alphas},
        {"learn": [GenericLearnerClassifier(Thresholds(), bounds=(0, 2), alpha=0.5)]},
    ]
    return SemiPrivateSearchCV(
        Pipeline([("learn", SemiPrivateClassifier())]),
        grid,
        epsilon=EPSILON,
        selection_share=0.4,
        classes=[0, 1],
        random_state=0,
    )


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
def test_trials_over_all_neighbours():
    """All ways in which two trials, the choice and the last fit can fall out."""
    search = kinds([0.5])

    @cache
    def runs(chosen):
        X, y = as_arrays(POINTS[:2], chosen)
        return index_by_release(
            enumerate_runs(lambda: search.fit(X, y, X_public=PUBLIC[:1]).best_index_)
        )

    worst = Fraction(0)
    chosen = ((0, 0), (1, 1))
    for place, row in itertools.product(range(2), itertools.product(range(2), (0, 1))):
        other = (*chosen[:place], row, *chosen[place + 1 :])
        worst = max(worst, worst_ratio(runs(chosen), runs(other), exact_fraction(EPSILON)))
    assert np.exp(-0.6 * EPSILON) < worst <= 1


def told(search):
    """All that a fitted search holds, and its rule in words."""
    best = search.best_estimator_
    learner = best[-1] if hasattr(best, "steps") else best
    return str(learner.hypothesis_), repr(search.privacy_), joblib.hash(vars(search))


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
@pytest.mark.parametrize("make", [family, kinds], ids=["one draw", "trials"])
def test_dictated_draws_leave_nothing_to_the_rows(make):
    X, y = np.resize(POINTS, (12, 1)), np.resize([0, 1, 1, 0], 12)
    with Recorder() as recorder:
        first = told(make().fit(X, y, X_public=PUBLIC))
    changed, labels = X.copy(), y.copy()
    changed[3], labels[3] = 1e9, 1 - labels[3]
    with Recorder(recorder.outcomes) as again:
        assert told(make().fit(changed, labels, X_public=PUBLIC)) == first
    assert [call.kind for call in again.calls] == [call.kind for call in recorder.calls]


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
def test_what_is_spent_is_what_was_asked_for():
    X, y = np.resize(POINTS, (30, 1)), np.resize([0, 1, 1, 0], 30)
    with Recorder() as recorder:
        family().fit(X, y, X_public=PUBLIC)
    (draw,) = recorder.calls_of("draw")
    assert draw.cost == exact_fraction(EPSILON)
    assert draw.sensitivity == 1
    with Recorder() as recorder:
        search = kinds().fit(X, y, X_public=PUBLIC)
    one, other, choice, last = (call.cost for call in recorder.calls_of("draw"))
    part = exact_fraction(EPSILON) * exact_fraction(0.4)
    assert one == choice == part / 3
    assert 0 <= one - other < Fraction(1, 10**12)  # told as a float that is read as no more
    assert last == exact_fraction(EPSILON) - part
    assert search.privacy_.epsilon == EPSILON
    assert sum(basic_price(line.event)[0] for line in search.privacy_.mechanisms) == (
        exact_fraction(EPSILON)
    )


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
def test_persons_are_protected_in_every_step():
    """A learner is given what comes to its share for all rows of a person."""
    X, y = np.resize(POINTS, (40, 1)), np.resize([0, 1, 1, 0], 40)
    with Recorder() as rows:
        kinds().fit(X, y, X_public=PUBLIC)
    with Recorder() as persons:
        search = kinds().set_params(max_rows_per_group=2)
        search.fit(X, y, X_public=PUBLIC, groups=np.arange(40) // 2)
    for one, two in zip(rows.calls_of("draw"), persons.calls_of("draw"), strict=True):
        halved = float(two.cost / two.sensitivity), float(one.cost) / 2
        assert halved[0] == pytest.approx(halved[1])
    assert "replace one person" in search.privacy_.unit


def test_a_large_cover_does_not_drown_a_small_one():
    """Before the rows speak each candidate is equally likely, whatever its size."""
    grid = {"hypotheses": [Stumps(), DecisionTrees(2), Halfspaces()], "alpha": [0.05, 0.4]}
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(50, 2)), rng.normal(size=(100, 2))
    search = SemiPrivateSearchCV(
        SemiPrivateClassifier(), grid, epsilon=1, classes=[0, 1], random_state=0
    )
    with Recorder() as recorder:
        search.fit(X, np.resize([0, 1], 50), X_public=public)
    family = recorder.calls_of("draw")[0].exact_input
    masses = [
        option.prior_range[0] * family.weight(place) for place, option in enumerate(family.options)
    ]
    assert len(masses) == 6
    assert max(masses) / min(masses) < 1.001
