"""Hypothesis classes that users write: what breaks privacy is refused on public rows."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from skpublicdp import (
    GenericLearnerClassifier,
    PrivacyBudget,
    SemiPrivateClassifier,
    SemiPrivateSearchCV,
)
from skpublicdp.hypotheses import (
    Corrections,
    Cover,
    DecisionTrees,
    Hypothesis,
    HypothesisClass,
    ListedCover,
    Thresholds,
    Union,
    check_hypothesis_class,
)
from skpublicdp.sanitizers import QuantileSanitizer
from tests.hypotheses.test_hypotheses import CLASSES
from tests.internals.hypotheses import _random_member
from tests.internals.mechanisms import Choice, Leaf, Product

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(60, 2))
X = RNG.normal(size=(300, 2))
Y = (X[:, 0] > 0.3).astype(int)


class Above(Hypothesis):
    """A valid rule."""

    def __init__(self, cut):
        self.cut = cut

    def predict(self, X):
        return (X[:, 0] > self.cut).astype(np.intp)

    def rule(self):
        return f"predict 1 above {self.cut}"


class Cuts(HypothesisClass):
    """A valid class, whose rule or cover a test replaces."""

    def __init__(self, rule=Above, wrap=ListedCover):
        self.rule = rule
        self.wrap = wrap

    def build_cover(self, public, *, alpha, beta):
        return self.wrap([self.rule(cut) for cut in np.linspace(-1, 1, 9)])


def rule_with(predict):
    return type("Own", (Above,), {"predict": predict, "__module__": __name__})


def in_place(rule, X):
    X -= rule.cut
    return (X[:, 0] > 0).astype(np.intp)


FLIP = np.random.default_rng(1)
WRONG_RULES = {
    "median": (lambda r, X: (X[:, 0] > np.median(X[:, 0]) + r.cut).astype(int), "one at a time"),
    "standardised": (lambda r, X: (X[:, 0] - X[:, 0].mean() > r.cut).astype(int), "one at a time"),
    "rank": (lambda r, X: (X[:, 0].argsort().argsort() > 9).astype(int), "one at a time"),
    "first row": (lambda r, X: (X[:, 0] > X[:1, 0].sum()).astype(int), "one at a time"),
    "number of rows": (lambda r, X: np.full(len(X), len(X) % 2), "one at a time"),
    "random": (lambda r, X: FLIP.integers(0, 2, len(X)), "one at a time"),
    "labels": (lambda r, X: np.where(X[:, 0] > r.cut, "b", "a"), "returned text"),
    "signs": (lambda r, X: np.where(X[:, 0] > r.cut, 1, -1), r"returned \[-1, 1\]"),
    "from 1": (lambda r, X: 1 + (X[:, 0] > r.cut), r"returned \[1, 2\]"),
    "booleans": (lambda r, X: X[:, 0] > r.cut, "an array of bool"),
    "floats": (lambda r, X: (X[:, 0] > r.cut) * 1.0, "an array of float64"),
    "list": (lambda r, X: [int(x > r.cut) for x in X[:, 0]], "returned a list"),
    "column": (lambda r, X: (X[:, :1] > r.cut).astype(int), "one code per row"),
    "beyond the public rows": (
        lambda r, X: np.digitize(X[:, 0], [PUBLIC[:, 0].min() - 0.1, r.cut, 9]) - 1,
        "from 0 to 1 for any row",
    ),
    "in place": (in_place, "must not change the rows"),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_a_wrong_rule_is_refused_by_fit_and_by_the_check(name):
    predict, message = WRONG_RULES[name]
    own = Cuts(rule_with(predict))
    with pytest.raises((TypeError, ValueError), match=message):
        check_hypothesis_class(own, PUBLIC)
    with pytest.raises((TypeError, ValueError), match=message):
        SemiPrivateClassifier(own).fit(X, Y, X_public=PUBLIC)


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (list, "returned a list. Wrap a list of rules in ListedCover"),
        (iter, "must return a Cover"),
        (lambda rules: None, "returned a NoneType"),
        (lambda rules: ListedCover([]), "positive integer"),
        (lambda rules: ListedCover([DecisionTreeClassifier()]), "use FiniteClass for fitted"),
    ],
)
def test_what_is_no_cover_is_refused(wrap, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SemiPrivateClassifier(Cuts(wrap=wrap)).fit(X, Y, X_public=PUBLIC)


class GridCover(Cover):
    """A cover whose table is counted by hand, with one fault at a time."""

    def __init__(self, fault):
        self.fault = fault
        self.n_cuts = 40

    @property
    def size(self):
        return self.n_cuts**2 + (self.fault == "size")

    def tabulate(self, X, y, weights):
        cuts = np.linspace(-1, 1, self.n_cuts)
        if self.fault == "rows decide cuts":
            cuts = np.quantile(X[:, 0], np.linspace(0, 1, self.n_cuts))
        if self.fault == "ignores weights":
            weights = np.ones(len(X), np.int64)
        errors = np.array([weights[(X[:, 0] > cut) != y].sum() for cut in cuts], dtype=np.int64)
        if self.fault == "floats":
            return errors / 2
        return errors[: len(X)] if self.fault == "shape" else errors

    def family(self, table):
        if self.fault == "twice":  # a row counts twice, so the sensitivity is 2
            table = 2 * table
        # 1,600 members, more than are listed by a fit: the second factor makes no errors
        return Product([Leaf(table), Leaf(np.zeros(self.n_cuts, np.int64))])

    def hypothesis(self, path):
        return Above(np.linspace(-1, 1, self.n_cuts)[path[0]])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("rows decide cuts", "one at a time"),
        ("ignores weights", "must be those of its rules"),
        ("floats", "must return an int64 array"),
        ("shape", "must depend on the cover alone"),
        ("twice", "must be those of its rules"),
        ("size", "of size 1600"),
    ],
)
def test_a_wrong_table_is_refused(fault, message):
    class Grid(HypothesisClass):
        def build_cover(self, public, *, alpha, beta):
            return GridCover(fault)

    with pytest.raises((TypeError, ValueError), match=message):
        SemiPrivateClassifier(Grid()).fit(X, Y, X_public=PUBLIC)


def test_a_valid_cover_of_many_members_passes():
    class Grid(HypothesisClass):
        def build_cover(self, public, *, alpha, beta):
            return GridCover(None)

    check_hypothesis_class(Grid())
    SemiPrivateClassifier(Grid()).fit(X, Y, X_public=PUBLIC)


def test_a_refined_cover_is_checked():
    class Refines(GridCover):
        rounds = 2

        def refine(self, hypothesis, step):
            return GridCover("twice")

    class Grid(HypothesisClass):
        def build_cover(self, public, *, alpha, beta):
            return Refines(None)

    with pytest.raises(ValueError, match="must be those of its rules"):
        SemiPrivateClassifier(Grid()).fit(X, Y, X_public=PUBLIC)


def test_the_last_of_many_rules_is_checked():
    labels = rule_with(WRONG_RULES["signs"][0])
    own = Cuts(wrap=lambda rules: ListedCover([Above(cut) for cut in range(999)] + [labels(0)]))
    with pytest.raises(ValueError, match="positions in public"):
        SemiPrivateClassifier(own).fit(X, Y, X_public=PUBLIC)


@pytest.mark.parametrize(
    "wrap", [lambda own: Union([Thresholds(), own]), lambda own: Corrections(MODEL, own)]
)
@pytest.mark.parametrize("learner", [SemiPrivateClassifier, GenericLearnerClassifier])
def test_a_class_inside_another_is_checked(wrap, learner):
    hypotheses = wrap(Cuts(rule_with(WRONG_RULES["median"][0])))
    with pytest.raises(ValueError, match="one at a time"):
        learner(hypotheses).fit(X, Y, X_public=PUBLIC)


MODEL = DecisionTreeClassifier(max_depth=1).fit(PUBLIC, PUBLIC[:, 0] > 0)


def test_a_subclass_of_a_class_of_the_package_is_checked():
    class Mine(DecisionTrees):
        def build_cover(self, public, *, alpha, beta):
            super().build_cover(public, alpha=alpha, beta=beta)
            return ListedCover([rule_with(WRONG_RULES["labels"][0])(0)])

    with pytest.raises(TypeError, match="returned text"):
        SemiPrivateClassifier(Mine()).fit(X, Y, X_public=PUBLIC)


def test_a_refused_class_costs_nothing():
    budget = PrivacyBudget(1.0)
    with pytest.raises(ValueError, match="one at a time"):
        SemiPrivateClassifier(
            Cuts(rule_with(WRONG_RULES["median"][0])), epsilon=0.5, budget=budget
        ).fit(X, Y, X_public=PUBLIC)
    assert budget.spent().epsilon == 0


def test_a_rule_that_uses_other_rows_of_large_batches_only_is_found_by_the_check():
    own = Cuts(rule_with(lambda rule, X: np.full(len(X), int(len(X) > 1000))))
    with pytest.raises(ValueError, match="one at a time"):
        check_hypothesis_class(own)


def test_a_rule_that_fails_far_away_is_found_by_the_check():
    own = Cuts(rule_with(lambda rule, X: (np.abs(X[:, 0]) > 1e4).astype(int) * 2))
    with pytest.raises(ValueError, match="from 0 to 1"):
        check_hypothesis_class(own)


@pytest.mark.parametrize(("hypotheses", "labels"), CLASSES)
def test_classes_of_the_package_pass(hypotheses, labels):
    check_hypothesis_class(hypotheses, np.abs(PUBLIC[:8]), classes=labels)


def test_the_check_wants_an_instance_and_rows():
    with pytest.raises(TypeError, match="Pass an instance"):
        check_hypothesis_class(Cuts)
    with pytest.raises(ValueError, match="non-empty table"):
        check_hypothesis_class(Cuts(), [1.0, np.nan])


def assumptions(learner):
    return " ".join(learner.fit(X, Y, X_public=PUBLIC).privacy_.assumptions)


def test_the_receipt_names_classes_from_outside_only():
    line = "the cover of Cuts depends on public rows alone"
    assert line in assumptions(SemiPrivateClassifier(Cuts()))
    assert line in assumptions(SemiPrivateClassifier(Union([Thresholds(), Cuts()])))
    assert line in assumptions(GenericLearnerClassifier(Cuts()))
    search = SemiPrivateSearchCV(SemiPrivateClassifier(Cuts()), {"alpha": [0.1, 0.2]})
    assert line in assumptions(search)
    assert "depends on public rows alone" not in assumptions(SemiPrivateClassifier(Thresholds()))


def test_the_receipt_names_sanitizers_from_outside_only():
    class Own(QuantileSanitizer):
        pass

    line = "is private with its given budget for all possible rows"
    assert f"Own {line}" in assumptions(GenericLearnerClassifier(Thresholds(), sanitizer=Own()))
    assert line not in assumptions(
        GenericLearnerClassifier(Thresholds(), sanitizer=QuantileSanitizer())
    )


def test_random_members_have_the_errors_of_their_paths():
    table = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    family = Choice(Product([Leaf(table[:, 0]), Leaf(table[:, 1])]))
    errors_of_path = {path: errors for path, errors, _ in family.members()}
    rng = np.random.default_rng(0)
    drawn = [_random_member(family, rng) for _ in range(50)]
    assert len({path for path, _ in drawn}) > 10
    assert all(errors_of_path[path] == errors for path, errors in drawn)
