"""Persons with several rows: privacy of all their rows at once, and how `groups` gets to `fit`."""

import copy
import dataclasses
import itertools
import math
import pickle
import warnings
from collections import Counter
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import chi2
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpublicdp import (
    GenericLearnerClassifier,
    PAPQueryRelease,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    PrivateSelectionClassifier,
    PrivateVotesClassifier,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import PrivacyReceipt, exact_fraction
from skpublicdp.exceptions import OmittedRowsWarning
from skpublicdp.hypotheses import Stumps
from skpublicdp.sanitizers import QuantileSanitizer
from tests.internals.audit import replaced
from tests.internals.data import PersonRows, read_partially_labelled
from tests.internals.privacy import Ledger
from tests.internals.sanitizers import CandidateGrid, quantile_sanitizer
from tests.kit import EnumeratedRun, Recorder, enumerate_runs, index_by_release, worst_ratio

few_rows = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
no_public = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")


class ForOneRow(EnumeratedRun):
    """Draws and noise as if a person had one row: a mutant."""

    K = 2

    def draw_member(self, family, epsilon, sensitivity, *others):
        return super().draw_member(family, epsilon, sensitivity // self.K, *others)

    def noise_scale(self, spread):
        return spread / self.K


def released(run):
    """What is drawn, and which rows are kept: the choice is public."""
    return tuple(
        (call.name, call.outcome if call.kind != "order" else tuple(call.outcome.tolist()))
        if call.kind in ("draw", "order")
        else (call.name, None)
        for call in run.calls
    )


def worst(fit, persons, epsilon=Fraction(1), kind=EnumeratedRun):
    """The largest ratio, relative to e^ε, over all ways to replace all rows of one person.

    A mutant is looked at on a third of them: one pair that it tells apart convicts it.

    Parameters
    ----------
    fit : callable
        Takes one entry of each list of `persons`.
    persons : list of lists
        All that the rows of each person may be.
    """
    if kind is not EnumeratedRun:
        persons = [persons[0][::3] + persons[0][-1:], *persons[1:]]
    outcomes = {}
    for rows in itertools.product(*persons):
        outcomes[rows] = index_by_release(enumerate_runs(lambda: fit(*rows), kind), released)  # noqa: B023
    return max(
        worst_ratio(outcomes[one], outcomes[other], epsilon)
        for one, other in itertools.permutations(outcomes, 2)
        if sum(mine != yours for mine, yours in zip(one, other, strict=True)) == 1
    )


def pairs(rows):
    """Three rows of a person, of which two count: the third is another one for each pair."""
    found = list(itertools.combinations_with_replacement(rows, 2))
    return [(*pair, rows[place % len(rows)]) for place, pair in enumerate(found)]


class TestExactly:
    """A has three rows, of which any two count; B has one, or two."""

    ROWS = tuple(itertools.product((0.0, 1.0, 2.0), (0, 1)))
    GROUPS = ("A", "B", "A", "A")

    def semi_private(self, a, b):
        rows = (a[0], b, *a[1:])
        clf = SemiPrivateClassifier(Stumps(), classes=[0, 1], max_rows_per_group=2)
        public = np.array([[0.5], [1.5], [1.5]])
        x, y = np.array([[x] for x, _ in rows]), [label for _, label in rows]
        clf.fit(x, y, X_public=public, groups=self.GROUPS)
        assert clf.privacy_.n_private == 3

    @pytest.mark.filterwarnings("ignore:Only . public")
    @pytest.mark.parametrize(("kind", "private"), [(EnumeratedRun, True), (ForOneRow, False)])
    def test_semi_private(self, kind, private):
        found = worst(self.semi_private, [pairs(self.ROWS), self.ROWS[:2]], kind=kind)
        assert (found <= 1) == private
        assert found > Fraction(3, 5)

    def mixed(self, a, b):
        rows = [*a, b]
        public = [(0.0, 0), (1.0, 0), (2.0, 1)]
        x, y = zip(*rows, *public, strict=True)
        clf = PPMHalfspaceClassifier(private_label=1, class_weight={1: 2}, max_rows_per_group=2)
        # whose the public rows are is of no matter
        groups = ["A", "A", "A", "B", "A", None, "A"]
        clf.fit(np.array(x)[:, None], y, is_public=np.arange(7) > 3, groups=groups)
        assert (clf.privacy_.n_private, clf.privacy_.n_public) == (3, 3)

    @few_rows
    @pytest.mark.usefixtures("keep_first_rows")  # enumerating the choices as well takes long
    @pytest.mark.parametrize(("kind", "private"), [(EnumeratedRun, True), (ForOneRow, False)])
    def test_mixed_populations(self, kind, private):
        found = worst(self.mixed, [pairs(self.ROWS), self.ROWS[:2]], kind=kind)
        assert (found <= 1) == private
        assert found > Fraction(3, 5)

    @staticmethod
    def tiny(monkeypatch, prior=(1, 1, 1, 1, 1)):
        grid = CandidateGrid(np.arange(5.0), np.array(prior, dtype=np.int64))
        monkeypatch.setattr(quantile_sanitizer, "candidate_grid", lambda bounds: grid)
        monkeypatch.setattr(quantile_sanitizer, "n_levels", lambda n, epsilon: 1)

    @pytest.mark.parametrize(("kind", "private"), [(EnumeratedRun, True), (ForOneRow, False)])
    def test_quantiles(self, kind, private, monkeypatch):
        self.tiny(monkeypatch, prior=(1, 10**6, 1, 1, 1))

        def fit(a, b):
            sanitizer = QuantileSanitizer(max_rows_per_group=2)
            sanitizer.fit(np.array([[a[0]], [b], *([x] for x in a[1:])]), groups=self.GROUPS)
            assert sanitizer.privacy_.n_private == 3

        found = worst(fit, [pairs([0.0, 2.0, 4.0]), [2.0, 4.0]], kind=kind)
        assert (found <= 1) == private
        assert found > Fraction(3, 4)

    # labelled: C once, A twice; of A the unlabelled rows do not count
    WHO = ("A", "A", "C", "A", "B", "B", "A")
    LABELLED = np.arange(7) < 3

    def generic(self, a, b):
        rows = [*a[:2], (1.0, 0), (a[2][0], 0), *((x, 0) for x in b), (a[0][0], 1)]
        clf = GenericLearnerClassifier(Stumps(), classes=[0, 1], max_rows_per_group=2)
        x, y = np.array([[x] for x, _ in rows]), [label for _, label in rows]
        clf.fit(x, y, is_labelled=self.LABELLED, groups=self.WHO)
        assert clf.privacy_.n_private == 5

    @pytest.mark.parametrize(("kind", "private"), [(EnumeratedRun, True), (ForOneRow, False)])
    def test_persons_with_labelled_and_unlabelled_rows(self, kind, private, monkeypatch):
        self.tiny(monkeypatch)
        labelled = pairs([(0.0, 0), (2.0, 1), (4.0, 1)])
        found = worst(self.generic, [labelled, [(0.0, 0.0), (2.0, 4.0), (4.0, 4.0)]], kind=kind)
        assert (found <= 1) == private
        assert found > Fraction(1, 2)

    @no_public
    def test_a_sanitizer_of_others_has_its_share_of_epsilon(self):
        """Of (ε, δ) for a person one row has (ε / k, δ e^-ε / k)."""
        seen = []

        class Own(BaseEstimator):
            def __init__(self, epsilon=1.0, delta=0.0):
                self.epsilon, self.delta = epsilon, delta

            def fit(self, X):
                seen.append((self.epsilon, self.delta, len(X)))
                return self

            def sample(self, n):
                return np.linspace(0, 4, n)[:, None]

        for k, delta in ((1, 0.0), (3, 0.0), (3, 1e-6)):
            clf = GenericLearnerClassifier(
                Stumps(), epsilon=0.9, sanitizer=Own(delta=delta), max_rows_per_group=k
            )
            y, groups = [0, 1, *[-1] * 8], [1, 2, *[3] * 4, *[4] * 4]
            receipt = clf.fit(np.arange(10.0)[:, None], y, groups=groups).privacy_
            assert (receipt.epsilon, receipt.delta) == (0.9, delta)
            assert receipt.unit == f"replace one person, up to {k} private rows"
            epsilon, failure, n = seen.pop()
            assert exact_fraction(epsilon) == Fraction(9, 10) / k
            assert n == 2 * k
            assert failure == pytest.approx(delta * np.exp(-0.9) / 3, rel=1e-9)


RNG = np.random.default_rng(0)
N = 600
X = RNG.normal(size=(N, 2))
Y = (X[:, 0] > 0).astype(int)
GROUPS = RNG.integers(0, 150, size=N)
PUBLIC = RNG.normal(size=(50, 2))
MASK = np.arange(N) % 4 == 0
ESTIMATORS = [
    SemiPrivateClassifier(random_state=0),
    PPMHalfspaceClassifier(max_halfspaces=50, random_state=0),
    PrivateSelectionClassifier(n_candidates=4, random_state=0),
    PrivateVotesClassifier(n_blocks=20, random_state=0),
    GenericLearnerClassifier(random_state=0),
    QuantileSanitizer(random_state=0),
    SemiPrivateBoostingClassifier(random_state=0),
    SemiPrivateBoostingRegressor(outcome_bounds=(0, 1), random_state=0),
    PAPQueryRelease(random_state=0),
]


@contextmanager
def kept_rows():
    """Collect the masks of kept rows."""
    masks, keep = [], PersonRows.keep

    def noted(persons, ranks):
        masks.append(keep(persons, ranks))
        return masks[-1]

    with replaced(PersonRows, "keep", noted):
        yield masks


def pickled(fitted):
    """Return the pickle of an estimator whose receipt mentions no omitted rows."""
    fitted = copy.copy(fitted)
    fitted.privacy_ = dataclasses.replace(fitted.privacy_, n_omitted=0)
    return pickle.dumps(fitted)


def counted(groups, k=2):
    """How many rows count."""
    return int(np.minimum(pd.Series(groups).value_counts(), k).sum())


class TestRows:
    @no_public
    @few_rows
    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
    def test_random_rows_of_each_person_count(self, estimator):
        limited = clone(estimator).set_params(max_rows_per_group=2)
        person = pd.Series(GROUPS)
        private = Y == 1 if "PPM" in type(estimator).__name__ else np.ones(N, dtype=bool)
        with Recorder() as recorder, kept_rows() as masks:
            limited.fit(X, Y, groups=GROUPS)
        (mask,) = masks
        sizes, kept_sizes = (person[rows].value_counts() for rows in (private, mask))
        assert kept_sizes.equals(sizes.clip(upper=2)[kept_sizes.index])
        assert not mask[~private].any()
        kept = mask | ~private
        choice, *outcomes = recorder.outcomes
        with Recorder(outcomes):
            alone = clone(limited).fit(X[kept], Y[kept], groups=GROUPS[kept])
        assert limited.privacy_.n_omitted == private.sum() - mask.sum()
        assert pickled(limited) == pickled(alone)
        unit = limited.privacy_.unit
        assert unit.startswith("replace one person, up to 2 private rows")
        assert ("labels are not protected" in unit) == ("PPM" in type(estimator).__name__)
        assert limited.privacy_.n_private == mask.sum()
        # names are of no matter, nor is their kind
        for names in (person.map("{:05d}".format), person.astype("category"), person - 0.5):
            with kept_rows() as other_masks, Recorder([choice, *outcomes]):
                again = clone(limited).fit(X, Y, groups=names)
            assert (other_masks[0] == mask).all()
            assert pickle.dumps(again) == pickle.dumps(limited)

    @no_public
    @few_rows
    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
    def test_values_do_not_decide_which_rows_are_kept(self, estimator):
        """Neighbours keep the same positions, even if every value is another one."""
        masks = []
        for values in (X, -X[::-1], np.zeros_like(X)):
            with kept_rows() as seen:
                clone(estimator).set_params(max_rows_per_group=2).fit(values, Y, groups=GROUPS)
            masks += seen
        assert all((mask == masks[0]).all() for mask in masks)

    def test_each_fit_keeps_other_rows(self):
        fits = [SemiPrivateClassifier(Stumps(), max_rows_per_group=2) for _ in range(3)]
        with kept_rows() as masks:
            for clf in fits:
                clf.fit(X, Y, X_public=PUBLIC, groups=GROUPS)
        assert len({mask.tobytes() for mask in masks}) == 3

    def test_all_sets_of_a_persons_rows_are_equally_likely(self):
        """Of 20 rows, 3 count: 1140 sets, in 40,000 choices of ten persons at once."""
        groups, ledger = np.arange(200) % 10, Ledger(1, random_state=0, rows_per_person=3)
        persons = PersonRows.read(3, groups, np.ones(200, dtype=bool))
        counts = Counter()
        for _ in range(4000):
            mask = persons.choose(ledger)
            counts.update(tuple(np.flatnonzero(mask[who::10])) for who in range(10))
        expected = 40_000 / math.comb(20, 3)
        assert all(len(kept) == 3 for kept in counts)
        statistic = sum((count - expected) ** 2 / expected for count in counts.values())
        statistic += expected * (math.comb(20, 3) - len(counts))
        assert 1e-6 < chi2.sf(statistic, math.comb(20, 3) - 1) < 1 - 1e-6

    def test_weights_of_kept_rows_add_up_to_all_rows_on_average(self):
        """Over all orders of the rows, exactly."""
        groups = np.array([0, 1, 0, 2, 0, 2, 3, 2, 2])  # three, one, four and one row
        values = np.array([1, 10, 100, 7, 3, 2, 50, 11, 5])
        persons = PersonRows.read(2, groups, np.ones(9, dtype=bool))
        assert persons.n_omitted == 3
        weights = np.maximum(np.bincount(groups)[groups], 2)  # twice size / 2
        orders = itertools.permutations(range(len(persons.crowded)))
        sums = [(weights * values)[persons.keep(np.array(order))].sum() for order in orders]
        assert sum(sums) == 2 * len(sums) * values.sum()

    def test_no_choice_is_drawn_if_all_rows_count(self):
        clf = SemiPrivateClassifier(Stumps(), max_rows_per_group=2)
        groups = np.arange(N) // 2
        with Recorder() as recorder, warnings.catch_warnings():
            warnings.simplefilter("error")
            clf.fit(X, Y, X_public=PUBLIC, groups=groups)
        assert {call.kind for call in recorder.calls} == {"draw"}
        assert clf.privacy_.n_omitted == 0
        assert "left out" not in repr(clf.privacy_)

    def test_rows_left_out_are_reported(self):
        clf = SemiPrivateClassifier(Stumps(), max_rows_per_group=2)
        groups = np.arange(N) // 3
        with pytest.warns(OmittedRowsWarning, match="^200 of 600 private rows were left out"):
            clf.fit(X, Y, X_public=PUBLIC, groups=groups)
        receipt = clf.privacy_
        assert (receipt.n_private, receipt.n_omitted) == (400, 200)
        text = "400 private, 50 public; 200 private rows were left out by max_rows_per_group"
        assert text in repr(receipt)
        assert PrivacyReceipt.from_dict(receipt.to_dict()) == receipt
        assert "rows that were left out (200)" in str(receipt.to_registry())

    @pytest.mark.usefixtures("keep_first_rows")
    def test_of_a_person_with_labels_these_count_alone(self):
        who = ["A", "B", "A", "A", "C", "B", "A", "B"]
        labelled = np.isin(np.arange(8), [2, 3, 4, 6])  # of A three, and one of C
        learner = GenericLearnerClassifier(max_rows_per_group=2)
        ledger = Ledger(1, rows_per_person=2)
        rows = read_partially_labelled(
            *(learner, np.arange(8)[:, None], np.arange(8)),
            is_labelled=labelled,
            groups=who,
            ledger=ledger,
        )
        assert rows.X_labelled[:, 0].tolist() == [2, 3, 4]
        assert rows.classes[rows.y_labelled].tolist() == [2, 3, 4]
        assert rows.X_unlabelled[:, 0].tolist() == [1, 5]
        assert ledger.n_omitted == 2

    def test_more_rows_per_person_cost_accuracy_and_not_privacy(self):
        certificates = []
        for k in (None, 1, 4):
            given = {} if k is None else {"groups": np.arange(N)}
            clf = SemiPrivateClassifier(max_rows_per_group=k, random_state=0)
            clf.fit(X, Y, X_public=PUBLIC, **given)
            assert clf.privacy_.epsilon == 1.0
            certificates.append(clf.certificate_.excess_error)
        assert certificates[1] == certificates[0]
        assert certificates[2] == pytest.approx(4 * certificates[0])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


CLF = SemiPrivateClassifier(max_rows_per_group=2, random_state=0)


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.OmittedRowsWarning")
@pytest.mark.filterwarnings("error")
class TestRouting:
    """Nothing has to be requested: there is nothing else that groups could be meant for."""

    def test_in_a_pipeline(self, routing):
        pipe = make_pipeline(StandardScaler(), CLF)
        with Recorder() as recorder:
            pipe.fit(X, Y, groups=GROUPS, is_public=MASK)
        assert {call.sensitivity for call in recorder.calls_of("draw")} == {2}
        assert pipe[-1].privacy_.n_private == counted(GROUPS[~MASK])

    def test_in_a_pipeline_without_routing(self):
        pipe = make_pipeline(StandardScaler(), CLF)
        step = "semiprivateclassifier__"
        pipe.fit(X, Y, **{f"{step}groups": GROUPS, f"{step}is_public": MASK})
        assert pipe[-1].privacy_.n_private == counted(GROUPS[~MASK])
        with pytest.raises(ValueError, match="max_rows_per_group=2"):
            pipe.fit(X, Y)

    @pytest.mark.parametrize("estimator", [CLF, make_pipeline(StandardScaler(), CLF)])
    @pytest.mark.parametrize("cv", [KFold(3), GroupKFold(3)])
    def test_cross_validation_slices_them(self, routing, estimator, cv):
        params = {"groups": GROUPS, "is_public": MASK}
        scores = cross_validate(
            estimator, X, Y, cv=cv, params=params, return_estimator=True, return_indices=True
        )
        self.check(scores["estimator"], scores["indices"]["train"])

    @pytest.mark.parametrize("cv", [KFold(3), GroupKFold(3)])
    def test_cross_validation_without_routing(self, cv):
        # scikit-learn has two places then: one is for the splitter, the other for fit
        scores = cross_validate(
            CLF,
            *(X, Y),
            groups=GROUPS if isinstance(cv, GroupKFold) else None,
            cv=cv,
            params={"groups": GROUPS, "is_public": MASK},
            return_estimator=True,
            return_indices=True,
        )
        self.check(scores["estimator"], scores["indices"]["train"])

    def check(self, fitted, parts):
        assert len(fitted) == 3
        for model, part in zip(fitted, parts, strict=True):
            receipt = getattr(model, "privacy_", None) or model[-1].privacy_
            private = part[~MASK[part]]
            assert receipt.n_private == counted(GROUPS[private])
            assert receipt.unit == "replace one person, up to 2 private rows"

    def test_grid_search(self, routing):
        budget = PrivacyBudget(10, for_tests=True)
        search = GridSearchCV(
            clone(CLF).set_params(budget=budget), {"epsilon": [0.5, 1.0]}, cv=GroupKFold(3)
        )
        search.fit(X, Y, groups=GROUPS, is_public=MASK)
        assert budget.spent().epsilon == 3 * 1.5 + search.best_params_["epsilon"]
        rows = [entry.n_rows for entry in budget.ledger]
        assert rows[-1] == counted(GROUPS[~MASK])
        # every person is in two of three training parts
        assert sum(rows[:3]) == 2 * rows[-1]
        assert rows[:3] == rows[3:6]

    def test_missing_in_a_search(self, routing):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match="max_rows_per_group=2"):
                GridSearchCV(CLF, {"epsilon": [1.0]}, error_score="raise").fit(X, Y)
