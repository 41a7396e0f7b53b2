"""BLRSanitizer: privacy over all data sets of tiny domains, and Theorem 3.3 with its own sizes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp import GenericLearnerClassifier
from skpublicdp.exceptions import CoverSizeError
from skpublicdp.guarantees import blr_error, n_blr_learner
from skpublicdp.hypotheses import Halfspaces, Intervals, Stumps, Thresholds
from skpublicdp.sanitizers import BLRSanitizer
from tests.internals.guarantees import approximation_error, n_multisets
from tests.internals.sanitizers import _max_query_errors, _multisets
from tests.kit import EnumeratedRun, Recorder, enumerate_runs, index_by_release, worst_ratio
from tests.rules.test_promises import assert_failures_allowed, label

LINE = np.arange(4.0)[:, None]
SQUARE = np.array(list(itertools.product(range(2), repeat=2)), dtype=float)


def worst(domain, hypotheses, *, n, epsilon, n_points, kind=EnumeratedRun):
    outcomes = {}
    for rows in itertools.combinations_with_replacement(range(len(domain)), n):
        sanitizer = BLRSanitizer(domain, hypotheses, epsilon=epsilon, n_points=n_points)
        data = domain[list(rows)]
        outcomes[rows] = index_by_release(
            enumerate_runs(lambda s=sanitizer, X=data: s.fit(X), kind)
        )
    found = Fraction(0)
    for one, other in itertools.permutations(outcomes, 2):
        moved = np.abs(
            np.subtract(*(np.bincount(rows, minlength=len(domain)) for rows in (one, other)))
        ).sum()
        if moved == 2:
            found = max(found, worst_ratio(outcomes[one], outcomes[other], epsilon))
    return found


CASES = [
    (LINE, Thresholds(), {"n": 3, "epsilon": 1, "n_points": 2}),
    (LINE[:3], Intervals(), {"n": 4, "epsilon": 2, "n_points": 3}),
    (SQUARE, Halfspaces(), {"n": 2, "epsilon": 1, "n_points": 2}),
]


@pytest.mark.parametrize(("domain", "hypotheses", "case"), CASES, ids=repr)
def test_privacy_loss_is_at_most_epsilon_and_close_to_it(domain, hypotheses, case):
    found = worst(domain, hypotheses, **case)
    assert math.exp(-case["epsilon"] / 2) < found <= 1


@pytest.mark.parametrize(("domain", "hypotheses", "case"), CASES, ids=repr)
def test_a_draw_of_sensitivity_one_is_caught(domain, hypotheses, case):
    class Mutant(EnumeratedRun):
        def draw_member(self, family, epsilon, sensitivity, *others):
            return super().draw_member(family, epsilon, 1, *others)

    assert worst(domain, hypotheses, **case, kind=Mutant) > 1


def test_all_data_sets_are_listed_with_their_errors():
    n_points, rows = 3, np.array([0, 0, 1, 3, 3, 3, 2])
    sets = _multisets(n_points, 4)
    listed = {tuple(np.repeat(range(4), counts)) for counts in sets}
    assert listed == set(itertools.combinations_with_replacement(range(4), n_points))
    assert len(sets) == len(listed) == n_multisets(n_points, 4)
    with Recorder() as recorder:
        BLRSanitizer(LINE, Thresholds(), n_points=n_points, random_state=0).fit(LINE[rows])
    (call,) = recorder.calls
    rules = [np.arange(4) > cut for cut in np.arange(5) - 0.5]
    for counts, error in zip(sets, call.exact_input.errors, strict=True):
        points = np.repeat(range(4), counts)
        expected = max(
            abs(np.mean((h != f)[rows]) - np.mean((h != f)[points]))
            for h, f in itertools.combinations(rules, 2)
        )
        assert error == pytest.approx(expected * len(rows) * n_points)
        assert call.sensitivity == n_points


@pytest.mark.parametrize("n_points", [1, 2, 3, 6])
def test_some_data_set_has_the_bounded_error(n_points):
    """All data sets of seven rows over four points, all queries."""
    queries = np.array(list(itertools.product([False, True], repeat=4)))
    sets = _multisets(n_points, 4)
    promised = approximation_error(n_points, 4, len(queries))
    worst_best = max(
        _max_query_errors(counts, sets, queries, 7, n_points).min() / (7 * n_points)
        for counts in _multisets(7, 4)
    )
    assert promised / 4 < worst_best <= promised


def test_errors_in_the_population_are_within_the_bound():
    n, beta, trials, n_points = 800, 0.2, 40, 8
    rng = np.random.default_rng(0)
    rules = [np.arange(4) > cut for cut in np.arange(5) - 0.5]
    queries = np.unique([h ^ f for h, f in itertools.combinations(rules, 2)], axis=0)
    size = {"n_points": n_points, "domain_size": 4, "n_queries": len(queries)}
    promised = blr_error(n, beta, 1.0, **size)
    assert promised < 0.35
    failures = 0
    for trial in range(trials):
        shares = rng.dirichlet(np.full(4, 0.5))
        rows = LINE[rng.choice(4, size=n, p=shares)]
        sanitizer = BLRSanitizer(LINE, Thresholds(), n_points=n_points, random_state=trial)
        points = sanitizer.fit(rows).points_[:, 0].astype(int)
        drawn = np.bincount(points, minlength=4) / n_points
        failures += np.abs(queries @ (drawn - shares)).max() > promised
    assert_failures_allowed(failures, trials, beta)


@pytest.mark.parametrize(
    ("hypotheses", "d"), [(Thresholds(), 1), (Stumps(), 2), (Intervals(), 2)], ids=repr
)
def test_theorem_3_3_at_its_own_sample_size(hypotheses, d):
    """The generic learner with the sanitizer that the theorem is about.

    A smoke test, which sees gross errors only.
    """
    alpha, beta, epsilon, trials = 0.5, 0.2, 1.0, 12
    domain = np.arange(6.0)[:, None]
    size = n_blr_learner(alpha, beta, epsilon, d, len(domain))
    sanitizer = BLRSanitizer(domain, n_points=size.n_points)
    clf = GenericLearnerClassifier(
        hypotheses, epsilon=epsilon, alpha=1e-9, beta=beta, sanitizer=sanitizer, classes=[0, 1]
    )
    rng = np.random.default_rng(0)
    labelled = np.arange(size.labelled + size.unlabelled) < size.labelled
    whole = [np.arange(6) > cut for cut in np.arange(7) - 0.5]
    failures = 0
    for trial in range(trials):
        shares = rng.dirichlet(np.full(6, 0.5))
        truth = whole[rng.integers(7)].astype(int)
        cells = rng.choice(6, size=len(labelled), p=shares)
        y = label(truth[cells], 0.1, rng)
        clf.set_params(random_state=trial).fit(domain[cells], y, is_labelled=labelled)
        assert clf.guarantee_ <= alpha
        failures += 0.8 * shares[clf.predict(domain) != truth].sum() > clf.guarantee_
    assert_failures_allowed(failures, trials, beta)


def test_another_class_has_no_bound():
    rng = np.random.default_rng(0)
    rows, y = rng.choice(LINE[:, 0], size=(2000, 1)), rng.integers(0, 2, size=2000)
    marks = np.arange(2000) < 500
    for own, promised in ((None, True), (Intervals(), True), (Thresholds(), False)):
        sanitizer = BLRSanitizer(LINE, own)
        clf = GenericLearnerClassifier(Intervals(), sanitizer=sanitizer, random_state=0)
        clf.fit(rows, y, is_labelled=marks)
        assert (clf.guarantee_ is not None) == promised
        assert any("a data set by its answers" in one.name for one in clf.privacy_.mechanisms)
        assert clf.privacy_.epsilon == 1


def test_sampled_rows_repeat_the_points():
    sanitizer = BLRSanitizer(LINE, n_points=3, epsilon=200, random_state=0)
    sanitizer.fit([[-50.0], [0.4], [2.6]])  # moved to 0, 0 and 3
    np.testing.assert_array_equal(sanitizer.points_[:, 0], [0, 0, 3])
    np.testing.assert_array_equal(sanitizer.sample(7)[:, 0], [0, 0, 3, 0, 0, 3, 0])
    assert sanitizer.sample(0).shape == (0, 1)
    with pytest.raises(ValueError, match="non-negative integer"):
        sanitizer.sample(-1)
    extreme = BLRSanitizer(LINE, n_points=1, epsilon=200, random_state=0)
    assert extreme.fit([[1e308], [-1e308], [1.7e308]]).points_ == 3


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"domain": np.arange(40.0)[:, None]}, CoverSizeError, "of 40 points"),
        ({"domain": LINE, "n_points": 200}, CoverSizeError, "200 synthetic rows"),
        ({"domain": [[0.0, 1.0]]}, ValueError, r"got shape \(1, 2\)"),
        ({"domain": [["low"]]}, ValueError, "contain numbers"),
        ({"domain": [[np.inf]]}, ValueError, "finite numbers"),
        (
            {"domain": LINE, "hypotheses": Halfspaces(cover="directions", thresholds=1)},
            ValueError,
            "every labelling",
        ),
    ],
)
def test_refusals_are_one_sentence(settings, kind, message):
    with pytest.raises(kind, match=message) as caught:
        BLRSanitizer(**settings).fit(np.full((50, 1), 2.0))
    assert "\n" not in str(caught.value)
    assert "2.0" not in str(caught.value)


def test_a_class_of_too_many_rules_is_refused():
    grid = np.array(list(itertools.product(range(3), repeat=2)), dtype=float)
    with pytest.raises(CoverSizeError, match="at most 128"):
        BLRSanitizer(np.append(grid, grid**2 + 0.5, axis=0), Halfspaces(), n_points=2).fit(grid)
    with pytest.raises(ValueError, match="domain of 100"):
        n_blr_learner(0.1, 0.05, 1.0, 1, 100)


def test_the_receipt_names_a_class_from_outside_the_package():
    class Mine(Thresholds):
        pass

    for hypotheses, listed in ((Mine(), True), (Thresholds(), False)):
        fitted = BLRSanitizer(LINE, hypotheses, epsilon=1, n_points=2).fit(LINE)
        assert ("the cover of Mine" in " ".join(fitted.privacy_.assumptions)) == listed
