"""GenericLearnerClassifier and its sanitizer: privacy, exactly, over all data of tiny domains."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp import GenericLearnerClassifier
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.hypotheses import Stumps
from skpublicdp.sanitizers import QuantileSanitizer
from tests.helpers import assert_fits
from tests.internals.guarantees import n_levels
from tests.internals.mechanisms import Choice, Leaf, probabilities
from tests.internals.privacy import Ledger
from tests.internals.sanitizers import (
    QUANTILES_NAME,
    CandidateGrid,
    binary_columns,
    find_medians,
    median_errors,
    quantile_sanitizer,
)
from tests.kit import (
    EnumeratedRun,
    Recorder,
    enumerate_runs,
    exp_above,
    index_by_release,
    worst_ratio,
)


class ColumnDrawRun(EnumeratedRun):
    """Coins of the column draw matter only as far as they are 0 or not."""

    def draw_uniform(self, bound, sample, ledger):
        return self.next_outcome(
            {0: 2 * (Fraction(1, bound),), 1: 2 * (Fraction(bound - 1, bound),)}
        )


def released(run):
    """Only the set of the column draw is released, by the names of the following mechanisms."""
    return tuple(
        (call.name, call.outcome if call.kind == "draw" else None)
        for call in run.calls
        if call.kind != "uniform" and call.name != binary_columns.COLUMN_DRAW_NAME
    )


def every_release(fit, kind=ColumnDrawRun):
    return index_by_release(enumerate_runs(fit, kind), released)


NAMES = binary_columns.COLUMN_DRAW_NAME, binary_columns.CUT_NAME


def tiny(values, prior=None):
    values = np.asarray(values, dtype=float)
    prior = np.ones(len(values)) if prior is None else prior
    return CandidateGrid(values, np.array(prior, dtype=np.int64))


def worst_over_neighbours(outcomes, epsilon):
    """Over all pairs of data sets, given as sorted tuples of rows, that differ in one row."""
    worst = Fraction(0)
    for one, other in itertools.permutations(outcomes, 2):
        rest = list(one)
        for row in other:
            if row in rest:
                rest.remove(row)
        if len(rest) == 1:
            worst = max(worst, worst_ratio(outcomes[one], outcomes[other], epsilon))
    return worst


class TestSanitizerIsPrivate:
    """All data sets of a tiny domain, all neighbours, all that can be released."""

    @staticmethod
    def worst(
        monkeypatch, *, n, grid, levels=1, n_features=1, epsilon=1, points=None, kind=ColumnDrawRun
    ):
        monkeypatch.setattr(quantile_sanitizer, "n_levels", lambda n, epsilon: levels)
        monkeypatch.setattr(quantile_sanitizer, "candidate_grid", lambda bounds: grid)
        points = points or list(itertools.product(grid.values.tolist(), repeat=n_features))
        outcomes = {}
        for rows in itertools.combinations_with_replacement(points, n):
            sanitizer = QuantileSanitizer(epsilon=epsilon)
            outcomes[rows] = every_release(lambda s=sanitizer, r=rows: s.fit(r), kind)
        return worst_over_neighbours(outcomes, epsilon)

    # a row that moves from 4 to 0 makes 1, likely a priori, two errors better and 3 two worse
    TIGHT = tiny(range(5), [1, 10**6, 1, 1, 1])
    CASES = (
        {"n": 3, "grid": tiny(range(4)), "levels": 2},
        {"n": 4, "grid": tiny([0, 1, 5], [1, 200, 1]), "levels": 2, "epsilon": 4},
        {"n": 2, "grid": tiny(range(3)), "n_features": 2},
        {"n": 9, "grid": tiny(range(2)), "epsilon": 3},
        {"n": 2, "grid": TIGHT},
        {"n": 2, "grid": TIGHT, "n_features": 2, "points": [(0, 0), (2, 2), (4, 4)]},
    )
    TIGHT_CASES = CASES[4:]

    @pytest.mark.parametrize("case", CASES)
    def test_exactly(self, monkeypatch, case):
        worst = self.worst(monkeypatch, **case)
        assert Fraction(1, 10) < worst <= 1
        assert case["grid"] is not self.TIGHT or worst > 1 - Fraction(1, 10**5)

    @pytest.mark.parametrize(
        ("mutant", "case"),
        [
            ({"sensitivity": 1}, TIGHT_CASES[0]),
            ({"scale": Fraction(1, 2)}, TIGHT_CASES[0]),
            ({"scale": Fraction(1, 2)}, TIGHT_CASES[1]),
            ({"scale": Fraction(1, 3)}, CASES[0]),
        ],
    )
    def test_mutants_are_caught(self, monkeypatch, mutant, case):
        class Mutant(ColumnDrawRun):
            def draw_member(self, family, epsilon, sensitivity, *others):
                sensitivity = mutant.get("sensitivity", sensitivity)
                return super().draw_member(family, epsilon, sensitivity, *others)

            def noise_scale(self, spread):
                return spread * mutant.get("scale", 1)

        assert self.worst(monkeypatch, **case, kind=Mutant) > 1

    def test_a_budget_that_is_not_shared_by_features_is_caught(self, monkeypatch):
        budgets = quantile_sanitizer.split_budget_over_columns
        monkeypatch.setattr(
            quantile_sanitizer, "split_budget_over_columns", lambda *of: budgets(2 * of[0], *of[1:])
        )
        with pytest.raises(PrivacyBudgetError):
            self.worst(monkeypatch, **self.TIGHT_CASES[1])
        monkeypatch.setattr(Ledger, "_enter", lambda *_: None)
        assert self.worst(monkeypatch, **self.TIGHT_CASES[1]) > 1

    def test_medians_fall_as_their_errors_say(self):
        below = np.array([0, 2, 2, 3, 6, 7])
        prior = np.array([1, 5, 1, 2, 1])
        expected = {}
        bounds = probabilities(
            Choice(Leaf(median_errors(below)[:, None]), prior), Fraction(1), 2, precision=96
        )
        for (place, _), (lower, _) in bounds.items():
            expected[place] = float(lower)
        counts = np.zeros(5)
        for seed in range(1000):
            (cut,) = find_medians(below, prior, 1, Fraction(1), Ledger(1, random_state=seed))
            counts[cut] += 1
        assert_fits(counts, [expected[place] for place in range(5)])


class TestColumnDrawIsPrivate:
    """A draw of the many-valued columns, then medians for them and cuts for the others."""

    OTHERS = ((3,), (0, 0), (5, 2, 5), (0, 7, 1, 7))

    @staticmethod
    def played(others, epsilon=Fraction(1, 2), kind=ColumnDrawRun):
        """Return {set: (lower, upper) bound of its probability}."""

        def draw_columns():
            chosen = binary_columns.draw_many_valued_columns(
                np.array(others), epsilon, Ledger(epsilon)
            )
            return tuple(chosen.tolist())

        runs = index_by_release(enumerate_runs(draw_columns, kind), lambda run: run.result)
        return {chosen: (run.lower, run.upper) for chosen, run in runs.items()}

    @staticmethod
    def listed(others, epsilon=Fraction(1, 2)):
        """The exponential mechanism over all sets, one by one."""
        d = len(others)
        sets = list(itertools.product([False, True], repeat=d))
        left_out = [
            [q for q, inside in zip(others, one, strict=True) if not inside] for one in sets
        ]
        scores = np.array([max(counts, default=0) for counts in left_out])
        prior = [(4 * d) ** len(counts) for counts in left_out]
        family = Choice(Leaf(scores[:, None]), prior)
        bounds = probabilities(family, epsilon, 1, precision=96)
        return {sets[place]: bound for (place, _), bound in bounds.items()}

    @classmethod
    def agree(cls, others, kind=ColumnDrawRun):
        played, listed = cls.played(others, kind=kind), cls.listed(others)
        return played.keys() == listed.keys() and all(
            played[one][0] <= listed[one][1] and listed[one][0] <= played[one][1] for one in listed
        )

    @pytest.mark.parametrize("others", OTHERS)
    def test_the_set_is_one_draw_from_all_sets(self, others):
        assert self.agree(others)

    @pytest.mark.parametrize("others", OTHERS[2:])
    @pytest.mark.parametrize("mutant", ["prior", "coins", "order"])
    def test_another_draw_of_the_set_is_caught(self, monkeypatch, others, mutant):
        class Mutant(ColumnDrawRun):
            def draw_member(self, family, *others):
                if mutant == "prior":
                    family = Choice(family.options, [1] * len(family.prior))
                return super().draw_member(family, *others)

            def draw_uniform(self, bound, *others):
                return super().draw_uniform(bound - (mutant == "coins"), *others)

        if mutant == "order":
            monkeypatch.setattr(np, "argsort", lambda counts, kind: np.arange(len(counts)))
        assert not self.agree(others, Mutant)

    @pytest.mark.parametrize(("factor", "private"), [(1, True), (2, False)])
    def test_the_set_when_each_count_changes_by_one(self, factor, private):
        epsilon = Fraction(2)
        growth = exp_above(epsilon)
        worst = Fraction(0)
        for one, moves in itertools.product(
            [(0, 0), (1, 20), (5, 3)], itertools.product([-1, 0, 1], repeat=2)
        ):
            other = [max(count + move, 0) for count, move in zip(one, moves, strict=True)]
            runs = [self.played(q, factor * epsilon) for q in (one, other)]
            for mine, yours in (runs, runs[::-1]):
                worst = max([worst, *(mine[key][1] / yours[key][0] / growth for key in mine)])
        assert (Fraction(3, 4) < worst <= 1) == private

    def test_one_row_changes_the_number_of_other_values_by_at_most_one(self):
        for rows in itertools.product(range(4), repeat=5):
            count = binary_columns.count_other_values(np.array(rows, dtype=float))
            assert count == 5 - sum(sorted(map(rows.count, set(rows)))[-2:])
            for value in range(4):
                changed = np.array([value, *rows[1:]], dtype=float)
                assert abs(binary_columns.count_other_values(changed) - count) <= 1

    GRID = tiny(range(4))
    DOUBLE = tuple((value, value) for value in range(4))
    # a row that moves from 3 to 0 makes the cut at 1/2, likely a priori, better and others worse
    CASES = (
        {"n": 2, "grid": GRID},
        {"n": 2, "grid": GRID, "n_features": 2, "points": DOUBLE},
        {"n": 3, "grid": tiny(range(3)), "n_features": 2, "points": [(0, 0), (1, 2), (2, 1)]},
        {"n": 4, "grid": tiny(range(3)), "epsilon": 4},
    )

    def worst(self, monkeypatch, case, kind=ColumnDrawRun):
        monkeypatch.setattr(quantile_sanitizer, "MIN_FEATURES_FOR_COLUMN_DRAW", 1)
        monkeypatch.setattr(binary_columns, "ZERO_ONE_CUT_WEIGHT", 10**6)
        return TestSanitizerIsPrivate.worst(monkeypatch, **case, kind=kind)

    @pytest.mark.parametrize("case", CASES)
    def test_exactly(self, monkeypatch, case):
        worst = self.worst(monkeypatch, case)
        assert Fraction(1, 10) < worst <= 1
        assert case["grid"] is not self.GRID or worst > Fraction(85, 100)

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("case", CASES[:2])
    @pytest.mark.parametrize("mutant", ["cut", "count", "share"])
    def test_mutants_are_caught(self, monkeypatch, case, mutant):
        class Mutant(ColumnDrawRun):
            def draw_member(self, family, epsilon, *others):
                return super().draw_member(family, (2 if mutant == "cut" else 1) * epsilon, *others)

            def noise_scale(self, spread):
                return spread / (2 if mutant == "count" else 1)

        if mutant == "share":
            monkeypatch.setattr(Ledger, "_enter", lambda *_: None)  # it would refuse
            budgets = binary_columns.split_budget_over_columns
            monkeypatch.setattr(
                quantile_sanitizer,
                "split_budget_over_columns",
                lambda epsilon, many, columns: budgets(2 * epsilon, many, columns),
            )
        assert self.worst(monkeypatch, case, Mutant) > 1

    @pytest.mark.parametrize("n_many", range(11))
    def test_the_budget_adds_up_in_every_branch(self, n_many):
        """The cost of all draws and of all noise is ε, for every set of the column draw."""
        flags = np.arange(10) >= n_many

        class Chosen(Recorder):
            def draw_member(self, family, epsilon, sensitivity, sample, ledger):
                if self._pending["name"] == binary_columns.COLUMN_DRAW_NAME:
                    return n_many, 0  # the columns that come before this place
                return sample(ledger, family, epsilon, sensitivity)

            def draw_uniform(self, bound, sample, ledger):
                return 1

        rows = np.where(flags, np.arange(1000)[:, None] % 2, np.arange(1000.0)[:, None])
        with Chosen() as recorder:
            sanitizer = QuantileSanitizer(epsilon=1.5, random_state=0).fit(rows)
        spent = sum(call.cost for call in recorder.calls_of("noise"))
        column_draws, cuts = (
            [u for u in recorder.calls_of("draw") if u.name == name] for name in NAMES
        )
        assert (len(column_draws), len(cuts)) == (1, 10 - n_many)
        spent += sum(call.cost for call in column_draws + cuts)
        # of the draws of one level every row is in one
        medians = {
            call.event.epsilon for call in recorder.calls_of("draw") if call.name == QUANTILES_NAME
        }
        assert len(medians) == (n_many > 0)
        levels = n_levels(1000, 12 * 1.35 / (10 + 11 * n_many)) or 2
        spent += sum(n_many * levels * epsilon for epsilon in medians)
        # spreads are rounded up to 24 binary digits
        assert Fraction(3, 2) * (1 - Fraction(1, 2**23)) < spent <= Fraction(3, 2)
        listed = sum(step.epsilon for step in sanitizer.privacy_.mechanisms)
        assert listed == pytest.approx(1.5)
        assert len(sanitizer.privacy_.mechanisms) == 11


class TestLearnerIsPrivate:
    """The cover from some rows and the draw by the others, together."""

    POINTS = (0.0, 1.0, 2.0)

    def worst(self, monkeypatch, kind=ColumnDrawRun, epsilon=1):
        monkeypatch.setattr(quantile_sanitizer, "n_levels", lambda n, epsilon: 1)
        monkeypatch.setattr(quantile_sanitizer, "candidate_grid", lambda bounds: tiny(self.POINTS))
        labelled = list(itertools.product(self.POINTS, (0, 1)))
        unlabelled = [(point, -1) for point in self.POINTS]
        outcomes = {}
        for rows in itertools.product(
            itertools.combinations_with_replacement(labelled, 1),
            itertools.combinations_with_replacement(unlabelled, 2),
        ):
            rows = (*rows[0], *rows[1])
            clf = GenericLearnerClassifier(Stumps(), epsilon=epsilon, classes=[0, 1])
            features = np.array([[point] for point, _ in rows])
            marks = [label for _, label in rows]
            outcomes[rows] = every_release(lambda: clf.fit(features, marks), kind)  # noqa: B023
        return worst_over_neighbours(outcomes, epsilon)

    def test_exactly(self, monkeypatch):
        assert Fraction(1, 5) < self.worst(monkeypatch) <= 1

    def test_a_draw_that_overspends_is_caught(self, monkeypatch):
        class Mutant(ColumnDrawRun):
            def draw_member(self, family, epsilon, *others):
                return super().draw_member(
                    family, (3 if isinstance(family, Leaf) else 1) * epsilon, *others
                )

        assert self.worst(monkeypatch, Mutant) > 1

    def test_a_sanitizer_that_overspends_is_caught(self, monkeypatch):
        class Mutant(ColumnDrawRun):
            def noise_scale(self, spread):
                return spread / 3

        assert self.worst(monkeypatch, Mutant) > 1
