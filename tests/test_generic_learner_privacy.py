"""GenericLearnerClassifier and its sanitizer: privacy, exactly, over all data of tiny domains."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from skpublicdp import rounds
from skpublicdp.generic_learner import GenericLearnerClassifier
from skpublicdp.hypotheses import Stumps
from skpublicdp.mechanisms.families import Choice, Leaf
from skpublicdp.mechanisms.powers import exp_minus
from skpublicdp.mechanisms.randomness import SeededBits
from skpublicdp.mechanisms.selection import probabilities
from skpublicdp.sanitizers import QuantileSanitizer, first_look, quantile_sanitizer, quantiles
from skpublicdp.sanitizers.candidates import Candidates
from skpublicdp.sanitizers.quantiles import find_medians, median_errors
from tests.helpers import assert_fits


class Tape:
    """Plays one way in which draws can fall out, with bounds of its exact probability."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.taken = []
        self.left = []  # the ways not taken
        self.lower = self.upper = Fraction(1)
        self.cuts = []
        self.parts = []
        self.scales = []
        self.released = []

    def draw(self, family, epsilon, sensitivity, bits):
        return self.play(listed(*spelled(family), epsilon, sensitivity))

    def play(self, bounds):
        place = len(self.taken)
        if place < len(self.prefix):
            path = self.prefix[place]
        else:
            path, *others = bounds
            self.left += [(*self.taken, other) for other in others]
        lower, upper = bounds[path]
        self.lower *= lower
        self.upper *= upper
        self.taken.append(path)
        self.released.append(path)
        return path

    def coin(self, bound, bits):
        return self.play({0: 2 * (Fraction(1, bound),), 1: 2 * (Fraction(bound - 1, bound),)})

    def look(self, others, epsilon, bits, draw_columns=first_look.draw_columns):
        """What is released of the first look is the set, however it was drawn."""
        before = len(self.released)
        many = draw_columns(others, epsilon, bits)
        self.released[before:] = [tuple(many.tolist())]
        return many

    def noise(self, scale, size, bits):
        self.scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    def arrange(self, values, cuts, noisy, scale, arrange=quantiles.arrange):
        """Keep the true masses aside and release the same ones for all data."""
        self.cuts.append(tuple(cuts.tolist()))
        self.parts.append(noisy)
        return arrange(values, cuts, np.full(len(noisy), 100), 1.0)

    def two_sided(self, lower, upper, below, n, scale, two_sided=first_look.two_sided):
        self.parts.append(np.array([below]))
        return two_sided(lower, upper, 50, 100, 1.0)


def spelled(family):
    match family:
        case Choice(Leaf(errors), prior):
            return errors[:, 0].tobytes(), tuple(int(weight) for weight in prior)
        case Leaf(errors):
            return errors.tobytes(), None


@cache
def listed(errors, prior, epsilon, sensitivity):
    errors = np.frombuffer(errors, dtype=np.int64)
    family = Leaf(errors)
    if prior is not None:
        family = Choice(Leaf(errors[:, None]), list(prior))
    return probabilities(family, epsilon, sensitivity, precision=96)


def every_run(run, monkeypatch, tape=Tape):
    """Run code once for each way its draws can fall out: {what is released: Tape}."""
    outcomes = {}
    prefixes = [()]
    while prefixes:
        played = tape(prefixes.pop())
        with monkeypatch.context() as patch:
            patch.setattr(quantiles, "draw", played.draw)
            patch.setattr(quantiles, "discrete_laplace", played.noise)
            patch.setattr(quantiles, "arrange", played.arrange)
            patch.setattr(rounds, "draw", played.draw)
            patch.setattr(first_look, "draw", played.draw)
            patch.setattr(first_look, "uniform_below", played.coin)
            patch.setattr(first_look, "discrete_laplace", played.noise)
            patch.setattr(first_look, "two_sided", played.two_sided)
            patch.setattr(quantile_sanitizer, "draw_columns", played.look)
            run()
        prefixes += played.left
        assert tuple(played.released) not in outcomes
        outcomes[tuple(played.released)] = played
    assert sum(played.lower for played in outcomes.values()) > 1 - Fraction(1, 10**9)
    return outcomes


def worst_ratio(one, other, epsilon):
    """The largest P / P' over what is released, masses included, relative to e^ε; an upper bound.

    Of the noise only the scale is taken: the masses for which the ratio is largest contribute
    exp(change / scale), whatever the cuts.
    """
    assert one.keys() == other.keys()
    worst = Fraction(0)
    for outcome, played in one.items():
        match = other[outcome]
        spent = Fraction(-epsilon)
        for mine, yours, scale in zip(played.parts, match.parts, played.scales, strict=True):
            spent += Fraction(int(np.abs(mine - yours).sum())) / scale
        ratio = played.upper / match.lower
        if spent > 0:
            ratio *= Fraction(1 << 96, exp_minus(spent, 96)[0])
        else:
            ratio *= Fraction(exp_minus(-spent, 96)[1], 1 << 96)
        worst = max(worst, ratio)
    return worst


def tiny(values, prior=None):
    values = np.asarray(values, dtype=float)
    prior = np.ones(len(values)) if prior is None else prior
    return Candidates(values, np.array(prior, dtype=np.int64))


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
    def worst(monkeypatch, *, n, grid, levels=1, n_features=1, epsilon=1, points=None, tape=Tape):
        monkeypatch.setattr(quantile_sanitizer, "n_levels", lambda n, epsilon: levels)
        monkeypatch.setattr(quantile_sanitizer, "candidates", lambda bounds: grid)
        points = points or list(itertools.product(grid.values.tolist(), repeat=n_features))
        outcomes = {}
        for rows in itertools.combinations_with_replacement(points, n):
            sanitizer = QuantileSanitizer(epsilon=epsilon)
            outcomes[rows] = every_run(lambda s=sanitizer, r=rows: s.fit(r), monkeypatch, tape)
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
        class Mutant(Tape):
            def draw(self, family, epsilon, sensitivity, bits):
                return super().draw(family, epsilon, mutant.get("sensitivity", sensitivity), bits)

            def noise(self, scale, size, bits):
                return super().noise(scale * mutant.get("scale", 1), size, bits)

        assert self.worst(monkeypatch, **case, tape=Mutant) > 1

    def test_a_budget_that_is_not_shared_by_features_is_caught(self, monkeypatch):
        monkeypatch.setattr(quantile_sanitizer, "exact_fraction", lambda value: 2 * Fraction(value))
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
            (cut,) = find_medians(below, prior, 1, Fraction(1), SeededBits(seed))
            counts[cut] += 1
        assert_fits(counts, [expected[place] for place in range(5)])


class TestFirstLookIsPrivate:
    """Which columns have many values, then cuts for some and medians for the others."""

    OTHERS = ((3,), (0, 0), (5, 2, 5), (0, 7, 1, 7))

    @staticmethod
    def played(others, monkeypatch, epsilon=Fraction(1, 2), tape=Tape):
        """Return {set: (lower, upper) bound of its probability}."""
        others = np.array(others)

        def run():
            quantile_sanitizer.draw_columns(others, epsilon, None)

        outcomes = every_run(run, monkeypatch, tape)
        return {chosen: (one.lower, one.upper) for (chosen,), one in outcomes.items()}

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
    def agree(cls, others, monkeypatch, **parameters):
        played, listed = cls.played(others, monkeypatch, **parameters), cls.listed(others)
        return played.keys() == listed.keys() and all(
            played[one][0] <= listed[one][1] and listed[one][0] <= played[one][1] for one in listed
        )

    @pytest.mark.parametrize("others", OTHERS)
    def test_the_set_is_one_draw_from_all_sets(self, monkeypatch, others):
        assert self.agree(others, monkeypatch)

    @pytest.mark.parametrize("others", OTHERS[2:])
    @pytest.mark.parametrize("mutant", ["prior", "coins", "order"])
    def test_another_draw_of_the_set_is_caught(self, monkeypatch, others, mutant):
        class Mutant(Tape):
            def draw(self, family, epsilon, sensitivity, bits):
                if mutant == "prior":
                    family = Choice(family.options, [1] * len(family.prior))
                return super().draw(family, epsilon, sensitivity, bits)

            def coin(self, bound, bits):
                return super().coin(bound - (mutant == "coins"), bits)

        if mutant == "order":
            monkeypatch.setattr(np, "argsort", lambda counts, kind: np.arange(len(counts)))
        assert not self.agree(others, monkeypatch, tape=Mutant)

    @pytest.mark.parametrize(("factor", "private"), [(1, True), (2, False)])
    def test_the_set_when_each_count_changes_by_one(self, monkeypatch, factor, private):
        epsilon = Fraction(2)
        growth = Fraction(1 << 96, exp_minus(epsilon, 96)[1])
        worst = Fraction(0)
        for one, moves in itertools.product(
            [(0, 0), (1, 20), (5, 3)], itertools.product([-1, 0, 1], repeat=2)
        ):
            other = [max(count + move, 0) for count, move in zip(one, moves, strict=True)]
            runs = [self.played(q, monkeypatch, factor * epsilon) for q in (one, other)]
            for mine, yours in (runs, runs[::-1]):
                worst = max([worst, *(mine[key][1] / yours[key][0] / growth for key in mine)])
        assert (Fraction(3, 4) < worst <= 1) == private

    def test_one_row_changes_the_number_of_other_values_by_at_most_one(self):
        for rows in itertools.product(range(4), repeat=5):
            count = first_look.other_values(np.array(rows, dtype=float))
            assert count == 5 - sum(sorted(map(rows.count, set(rows)))[-2:])
            for value in range(4):
                changed = np.array([value, *rows[1:]], dtype=float)
                assert abs(first_look.other_values(changed) - count) <= 1

    GRID = tiny(range(4))
    DOUBLE = tuple((value, value) for value in range(4))
    # a row that moves from 3 to 0 makes the cut at 1/2, likely a priori, better and others worse
    CASES = (
        {"n": 2, "grid": GRID},
        {"n": 2, "grid": GRID, "n_features": 2, "points": DOUBLE},
        {"n": 3, "grid": tiny(range(3)), "n_features": 2, "points": [(0, 0), (1, 2), (2, 1)]},
        {"n": 4, "grid": tiny(range(3)), "epsilon": 4},
    )

    def worst(self, monkeypatch, case, tape=Tape):
        monkeypatch.setattr(quantile_sanitizer, "FEWEST", 1)
        monkeypatch.setattr(first_look, "FLAGS", 10**6)
        return TestSanitizerIsPrivate.worst(monkeypatch, **case, tape=tape)

    @pytest.mark.parametrize("case", CASES)
    def test_exactly(self, monkeypatch, case):
        worst = self.worst(monkeypatch, case)
        assert Fraction(1, 10) < worst <= 1
        assert case["grid"] is not self.GRID or worst > Fraction(85, 100)

    @pytest.mark.parametrize("case", CASES[:2])
    @pytest.mark.parametrize("mutant", ["cut", "count", "share"])
    def test_mutants_are_caught(self, monkeypatch, case, mutant):
        class Mutant(Tape):
            def draw(self, family, epsilon, sensitivity, bits):
                factor = 2 if mutant == "cut" else 1
                return super().draw(family, factor * epsilon, sensitivity, bits)

            def noise(self, scale, size, bits):
                return super().noise(scale / (2 if mutant == "count" else 1), size, bits)

        if mutant == "share":
            budgets = first_look.column_budgets
            monkeypatch.setattr(
                quantile_sanitizer,
                "column_budgets",
                lambda epsilon, many, columns: budgets(2 * epsilon, many, columns),
            )
        assert self.worst(monkeypatch, case, Mutant) > 1

    @pytest.mark.parametrize("n_many", range(11))
    @pytest.mark.parametrize(("factor", "kept"), [(1, True), (1.01, False)])
    def test_the_budget_adds_up_in_every_branch(self, monkeypatch, n_many, factor, kept):
        """The price of all that is drawn and of all noise is ε, whatever the first look says."""
        spent = []

        def pays(epsilon):
            spent.append(Fraction(factor) * epsilon)

        def look(others, epsilon, bits):
            pays(epsilon)
            return np.arange(10) < n_many

        def many_valued(column, grid, *, levels, epsilon, bits):
            halving, counting = quantiles.split_budget(epsilon, levels)
            pays(levels * halving + counting)
            return first_look.two_sided(0.0, 1.0, 50, 100, 1.0)

        def draw(family, epsilon, sensitivity, bits):
            assert sensitivity == 1
            pays(epsilon)
            return 0, 0

        def noise(scale, size, bits):
            pays(1 / scale)
            return np.zeros(size, dtype=np.int64)

        monkeypatch.setattr(quantile_sanitizer, "draw_columns", look)
        monkeypatch.setattr(quantile_sanitizer, "release_column", many_valued)
        monkeypatch.setattr(first_look, "draw", draw)
        monkeypatch.setattr(first_look, "discrete_laplace", noise)
        rows = np.arange(10_000.0).reshape(1000, 10)
        sanitizer = QuantileSanitizer(epsilon=1.5).fit(rows)
        assert (sum(spent) == Fraction(3, 2)) == kept
        assert sanitizer.privacy_.epsilon == 1.5
        listed = sum(step.epsilon for step in sanitizer.privacy_.mechanisms)
        assert listed == pytest.approx(1.5)


class TestLearnerIsPrivate:
    """The cover from some rows and the draw by the others, together."""

    POINTS = (0.0, 1.0, 2.0)

    def worst(self, monkeypatch, tape=Tape, epsilon=1):
        monkeypatch.setattr(quantile_sanitizer, "n_levels", lambda n, epsilon: 1)
        monkeypatch.setattr(quantile_sanitizer, "candidates", lambda bounds: tiny(self.POINTS))
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
            run = every_run(lambda: clf.fit(features, marks), monkeypatch, tape)  # noqa: B023
            outcomes[rows] = run
        return worst_over_neighbours(outcomes, epsilon)

    def test_exactly(self, monkeypatch):
        assert Fraction(1, 5) < self.worst(monkeypatch) <= 1

    def test_a_draw_that_overspends_is_caught(self, monkeypatch):
        class Mutant(Tape):
            def draw(self, family, epsilon, sensitivity, bits):
                factor = 3 if isinstance(family, Leaf) else 1
                return super().draw(family, factor * epsilon, sensitivity, bits)

        assert self.worst(monkeypatch, Mutant) > 1

    def test_a_sanitizer_that_overspends_is_caught(self, monkeypatch):
        class Mutant(Tape):
            def noise(self, scale, size, bits):
                return super().noise(scale / 3, size, bits)

        assert self.worst(monkeypatch, Mutant) > 1
