"""Privacy of Newton boosting: sensitivities, shares of the budget, and stored values."""

import copy
import itertools
import pickle
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from skpublicdp import PrivacyBudget
from skpublicdp.accounting import gaussian_mu_squared
from skpublicdp.boosting import SemiPrivateBoostingClassifier
from skpublicdp.exceptions import PrivacyBudgetError
from tests.audit.subjects import RiskScore
from tests.boosting.test_privacy import (
    PUBLIC,
    allowed,
    cells_of,
    every_row,
    fitted,
    grid,
    moved,
    neighbours_compared,
    some_errors,
    some_models,
    some_rows,
    watched,
)
from tests.internals.accounting import DRAW_MU_SQUARED_RATE
from tests.internals.boosting import (
    LOGISTIC,
    SQUARED,
    AdditiveFit,
    BinSplitter,
    ClippedSquaredLoss,
    MultinomialLoss,
    NewtonBooster,
    budget_split,
    candidate_splits,
    encode_rows,
    newton,
    outcome_histogram,
    training_data,
    tree_cover,
)
from tests.internals.data import Dataset
from tests.internals.privacy import Ledger, StageBudget
from tests.kit import Recorder

pytestmark = [
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
]


@pytest.fixture(autouse=True)
def any_number_of_rows(monkeypatch):
    """Let tables with a few rows switch to Newton boosting, too."""
    monkeypatch.setattr(budget_split, "MIN_ROWS_PER_COLUMN", 0)


FEATURES = grid(4, 3)
NAMES = (
    "log-odds",
    "outcomes",
    "clipped outcomes",
    "three labels",
    "three labels, pure",
    "five labels",
)


def of_loss(name):
    """Return a loss, and the possible outcomes of a row."""
    match name:
        case "log-odds":
            return LOGISTIC, (0, 1)
        case "outcomes":
            return SQUARED, (0.0, 0.25, 1.0)
        case "clipped outcomes":
            return ClippedSquaredLoss(0.125), (0.0, 0.25, 0.5, 1.0)
    n_targets = 5 if name == "five labels" else 3
    return MultinomialLoss(n_targets, pure=name.endswith("pure")), range(n_targets)


def of_one_row(loss, outcomes, model, ledger):
    """Yield the booster on every table of one row."""
    codes = every_row(FEATURES, 1)[0]
    weights = np.full(codes.shape[1], 1 / codes.shape[1])
    for position, y in itertools.product(range(codes.shape[1]), outcomes):
        cells = cells_of(FEATURES, codes[:, [position]], [y], codes)
        yield NewtonBooster(model, cells, cells.margins(model), weights, 30.0, loss, ledger, 0.8)


@pytest.mark.parametrize("name", NAMES)
def test_sensitivity_of_an_update(name):
    loss, outcomes = of_loss(name)
    pure = name.endswith("pure")
    closest = 0.0
    for model in some_models(FEATURES, loss.n_targets):
        with Recorder() as recorder:
            budget = StageBudget(Fraction(1), pure)
            for grown in of_one_row(loss, outcomes, model, Ledger(1000, 0 if pure else 1e-6, 0)):
                grown.update_term(0, budget)
        answers = [call.exact_input for call in recorder.calls]
        most = max(moved(a, b, pure) for a, b in itertools.combinations(answers, 2))
        assert most <= allowed(recorder.calls[0], pure) <= recorder.calls[0].spread
        closest = max(closest, most / allowed(recorder.calls[0], pure))
    assert closest > (0.65 if loss.n_targets > 1 else 0.94)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_sensitivity_of_a_tree_draw(name, depth):
    loss, outcomes = of_loss(name)
    codes = every_row(FEATURES, 1)[0]
    labels = np.arange(max(2, loss.n_targets))
    asked = candidate_splits(FEATURES, codes)[np.array([0, 3])]
    cover = tree_cover(asked, codes, ("a", "b"), labels, depth)
    furthest = 0
    # of models with scores no margin is certain, and every residual is as long as can be
    for model in itertools.islice(some_models(FEATURES, loss.n_targets), 3):
        explained = []
        with Recorder(itertools.repeat(())) as recorder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(cover), "hypothesis", lambda self, path: None)
            for grown in of_one_row(loss, outcomes, model, Ledger(1000, 0, 0)):
                grown._draw_tree(cover, StageBudget(Fraction(1), pure=True), np.arange(1))
        for call in recorder.calls:
            # one row is in one leaf, so all there is to its trees is the label of this one
            explained += [
                member(call.exact_input, some_path(depth, [0, 1], code)) for code in labels
            ]
        explained = np.array(explained)
        spread = explained.max() - explained.min()
        assert spread <= recorder.calls[0].sensitivity
        furthest = max(furthest, spread / recorder.calls[0].sensitivity)
    assert furthest > (0.4 if name.endswith("pure") else 0.7 if loss.n_targets > 1 else 0.98)


def test_tree_errors_are_gradient_sums_of_leaves():
    """For any number of rows, splits and labels."""
    rng = np.random.default_rng(0)
    for name, depth in itertools.product(NAMES, (2, 3)):
        loss, outcomes = of_loss(name)
        codes = every_row(FEATURES, 1)[0][:, rng.integers(0, 12, 700)]
        public = every_row(FEATURES, 1)[0]
        y = np.resize(outcomes, 700)[rng.permutation(700)]
        *_, model = itertools.islice(some_models(FEATURES, loss.n_targets), 2)
        cells = cells_of(FEATURES, codes, y, public)
        weights = np.full(public.shape[1], 1 / public.shape[1])
        margins = cells.margins(model)
        grown = NewtonBooster(model, cells, margins, weights, 30.0, loss, Ledger(9, 0, 0), 0.8)
        labels = np.arange(max(2, loss.n_targets))
        cover = tree_cover(candidate_splits(FEATURES, public), public, ("a", "b"), labels, depth)
        chosen = rng.permutation(700)[:500]
        with Recorder() as recorder:
            tree = grown._draw_tree(cover, StageBudget(Fraction(9), pure=True), chosen)
        residuals, _ = loss.gradient_hessian(model.raw_predict(codes[:, chosen]), y[chosen])
        if loss.n_targets == 1:
            residuals = np.vstack([-residuals, residuals])
        of_row = residuals.sum(axis=0) - residuals  # for each label
        label = tree.predict(codes[:, chosen].T)
        expected = of_row[label, np.arange(500)].sum()
        assert member(recorder.calls[0].exact_input, recorder.calls[0].outcome) == expected


def some_path(depth, splits, code):
    """Return a tree that has these splits in turns and one label for all leaves."""
    if not depth:
        return code
    return splits[0], 2 * (some_path(depth - 1, splits[::-1], code),)


def member(family, path):
    """The error count of one member."""
    match type(family).__name__:
        case "Leaf":
            return int(family.errors[path])
        case "Product":
            return sum(member(*both) for both in zip(family.factors, path, strict=True))
    return member(family.options.at((path[0],)), path[1])


# Whole fits under the same outputs

GROWING = {
    "labels": {"epsilon": 100_000},
    "three labels": {"epsilon": 200_000, "n_classes": 3},
    "pure": {"epsilon": 20_000, "delta": 0},
    "pure, three labels": {"epsilon": 20_000, "delta": 0, "n_classes": 3},
    "no public rows": {"epsilon": 100_000, "public": None},
    "labelled public rows": {"epsilon": 100_000, "labelled": True},
    "public model": {"epsilon": 100_000, "public_model": RiskScore()},
    "public model, pure": {"epsilon": 20_000, "delta": 0, "public_model": RiskScore()},
    "public model, three labels": {
        "epsilon": 200_000,
        "n_classes": 3,
        "public_model": RiskScore(3),
    },
    "persons": {"epsilon": 1_000_000, "k": 2},
    "persons, pure, three labels": {"epsilon": 100_000, "k": 3, "delta": 0, "n_classes": 3},
    "one round": {"epsilon": 100_000, "max_rounds": 1},
    "drifted": {"epsilon": 100_000, "gap": 3.0},
    "moments": {"epsilon": 100_000, "method": "moments"},
    "few rounds of moments": {"epsilon": 100_000, "method": "moments", "max_rounds": 1},
    "little": {"epsilon": 1000},
}


def paid(uses):
    """Return the spent budget: the sum of ε with Laplace noise, else of μ²."""
    pure = {not call.gaussian for call in uses if call.kind == "noise"}
    assert len(pure) == 1
    if pure == {True}:
        return sum(call.cost for call in uses)
    return sum(
        DRAW_MU_SQUARED_RATE * call.cost**2 if call.kind == "draw" else call.cost for call in uses
    )


def held(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    return gaussian_mu_squared(epsilon, delta) if delta else epsilon


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", GROWING)
def test_a_replaced_row_changes_newton_boosting_only_within_the_sensitivity(name):
    options = GROWING[name]
    trees = []

    def watch(*args, **kwargs):
        """Record the values that decisions depend on as well."""
        with pytest.MonkeyPatch.context() as patch:
            steps, ended = [], []
            for kind, method in ((NewtonBooster, "update_term"), (BinSplitter, "split")):
                noted(patch, kind, method, steps)
            patch.setattr(
                NewtonBooster, "model", property(lambda self: ended.append(self) or true(self))
            )
            clf, seen = watched(*args, **kwargs)
        grown = ended[-1]  # the model is also read where a last pass begins
        # margins that private rows have are those of the model
        codes = grown.data.codes(slice(None))
        if clf._public_term is None:
            np.testing.assert_array_equal(grown.margins, clf._model.raw_predict(codes))
        X = np.concatenate(encoded)
        encoded.clear()
        np.testing.assert_array_equal(codes, grown.data.binner.encoded_codes(X))
        trees.append([len(tree.scores[0]) for tree in clf.trees_])
        return clf, seen + pickle.dumps(steps)

    true = NewtonBooster.model.fget
    encoded = []

    def noting(grid, dtype, X, y):
        encoded.append(X)
        return encode_rows(grid, dtype, X, y)

    def noting_private(self, *args):
        encoded.append(self.to_arrays()[0])
        return codes(self, *args)

    codes = Dataset.codes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dataset, "codes", noting_private)
        patch.setattr(training_data, "encode_rows", noting)
        clf, uses = neighbours_compared(watch=watch, **options)
    names = Counter(call.name for call in uses)
    assert names["noisy gradient and hessian histogram"] >= 2
    if name != "little":
        assert names["noisy gradient and hessian histogram of half bins"] == 6
    assert (set(trees[0]) >= {4, 8}) == (options.get("method") != "moments")
    whole, spent = held(options["epsilon"], options.get("delta", 1e-6)), paid(uses)
    assert whole * (1 - Fraction(1, 10**6)) < spent <= whole
    assert clf.privacy_.epsilon == options["epsilon"]


def noted(patch, kind, method, steps):
    """Record the arguments of a method."""
    true = getattr(kind, method)

    def noting(self, *args):
        steps.append((method, [arg for arg in args if isinstance(arg, int | StageBudget)]))
        return true(self, *args)

    patch.setattr(kind, method, noting)


def test_private_rows_are_not_kept():
    """Neither their bins nor their margins: no stored array is as long as the table."""
    X, y = some_rows(1, 157)
    clf = fitted(X, y, epsilon=50_000)
    todo, seen, sizes = [vars(clf)], set(), []
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            sizes.append(thing.shape)
            todo += [thing.base] if thing.base is not None else []
            todo += list(thing.flat) if thing.dtype == object else []
        elif isinstance(thing, dict):
            todo += thing.values()
        elif isinstance(thing, list | tuple | set):
            todo += thing
        elif hasattr(thing, "__dict__"):
            todo.append(vars(thing))
    assert len(sizes) > 20
    assert not any(157 in shape for shape in sizes)


# Every branch that released numbers may lead to, whether or not they ever do


def dictated(even, unlike, gains, worth, *, n_classes=2, n=150, **parameters):
    """Return the releases of a fit whose decisions are forced."""
    X, y = some_rows(5, n, n_classes)
    learn, class_balance, update_term = (
        AdditiveFit.update,
        outcome_histogram.noisy_class_balance,
        NewtonBooster.update_term,
    )
    explained = itertools.cycle(gains)

    def learned(self, noisy):
        learn(self, noisy)
        self.drift, self.drifted = (9.0, True) if unlike else (1.0, False)

    def updated(self, term, budget):
        found = copy.copy(update_term(self, term, budget))
        found.gain = next(explained)
        return found

    with pytest.MonkeyPatch.context() as patch, Recorder() as recorder:
        patch.setattr(AdditiveFit, "update", learned)
        patch.setattr(
            outcome_histogram,
            "noisy_class_balance",
            lambda *args: (class_balance(*args), even)[1],
        )
        patch.setattr(NewtonBooster, "update_term", updated)
        if worth is not None:
            patch.setattr(BinSplitter, "is_affordable", lambda *args: worth)
        fitted(X, y, n_classes=n_classes, **{"public": PUBLIC[:25], **parameters})
    return recorder.calls


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 400},
        {"epsilon": 400, "n_classes": 3, "delta": 1e-9},
        {"epsilon": 900, "delta": 0},
        {"epsilon": 400, "method": "moments"},
        {"epsilon": 2000, "k": 3},
        {"epsilon": 400, "public": None},
        {"epsilon": 400, "max_rounds": 1},
    ],
)
def test_shares_of_newton_boosting_add_up_on_every_path(parameters):
    whole = held(parameters["epsilon"], parameters.get("delta", 1e-6))
    n_draws, lengths = set(), set()
    paths = itertools.product(
        (1.0, 0.5, 0.02), (True, False), ((0,), (9,), (9, 9, 0)), (True, False)
    )
    for path in paths:
        uses = dictated(*path, **parameters)
        spent = paid(uses)
        assert spent <= whole
        assert spent > whole * (1 - Fraction(1, 10**6))  # and nothing is left over
        n_draws.add(sum(call.kind == "draw" for call in uses))
        lengths.add(len(uses))
    if parameters.get("method") == "moments":  # passes only, with and without the shift test
        assert n_draws == {0}
        assert len(lengths) >= 3
    else:
        assert len(lengths) > 5
        assert len(n_draws) > 2
        assert max(n_draws) >= 6


@pytest.mark.parametrize("accountant", ["auto", "pure", "zcdp", "gdp"])
def test_a_budget_is_charged_at_least_the_spent_amount(accountant):
    budget = PrivacyBudget(100_000, 1e-3, accountant=accountant, for_tests=True)
    for path in ((1.0, False, (0,), True), (0.5, True, (9,), False)):
        uses = dictated(*path, epsilon=400, budget=budget)
        charged = budget.ledger[-1].event
        if accountant != "pure":
            assert paid(uses) <= charged.mu_squared
            assert sum(call.kind == "draw" for call in uses) > 1
    assert len(budget.ledger) == 2
    assert budget.spent().epsilon <= 800


def test_the_ledger_refuses_shares_above_the_plan(monkeypatch):
    """Shares that add up to more than the whole end in an error, not in a release."""
    split = BinSplitter.split

    def split_for_less_than_nothing(self, margins):
        data = split(self, margins)
        monkeypatch.setattr(newton, "BIN_SPLIT_SHARE", Fraction(-1, 2))
        return data

    monkeypatch.setattr(BinSplitter, "split", split_for_less_than_nothing)
    message = "costs more than"
    with pytest.raises(PrivacyBudgetError, match=message):
        fitted(*some_rows(1), epsilon=100_000)


def test_allocations_whose_noise_cannot_be_drawn_are_skipped(monkeypatch):
    """If parts of an equal share are too small to be drawn, terms get whole shares or none."""
    found, shares = [], NewtonBooster._allocate
    monkeypatch.setattr(newton, "noise_is_representable", lambda *args: False)
    monkeypatch.setattr(
        NewtonBooster, "_allocate", lambda *args: found.append(shares(*args)) or found[-1]
    )
    fitted(*some_rows(1, 150), epsilon=400)
    assert found
    for each in found:
        assert sum(each) == 1
        assert all((share * len(each)).denominator == 1 for share in each)


def test_trees_are_drawn_on_random_rows_in_any_order():
    """A sorted table and a shuffled one: with roles coupled, the same tables and the same model."""
    X, y = some_rows(5, 150)
    order = np.random.default_rng(0).permutation(150)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton, "TREE_SAMPLE_ROWS", 64)
        update_term = NewtonBooster.update_term
        patch.setattr(
            NewtonBooster,
            "update_term",
            lambda self, *args: SimpleNamespace(gain=9.0 if update_term(self, *args) else 0.0),
        )
        with Recorder() as recorder:
            fitted(X, y, epsilon=4000)
        places = np.argsort(order)
        outcomes = [
            np.sort(places[call.outcome]) if call.kind == "subset" else call.outcome
            for call in recorder.calls
        ]
        with Recorder(outcomes) as again:
            fitted(X[order], y[order], epsilon=4000)
    subsets = recorder.calls_of("subset")
    assert len(subsets) > 3
    assert len({call.outcome.tobytes() for call in subsets}) == len(subsets)
    for call, other in zip(recorder.calls, again.calls, strict=True):
        assert call.kind == other.kind
        if call.kind == "noise":
            np.testing.assert_array_equal(call.exact_input, other.exact_input)
        elif call.kind == "draw":
            for seed in range(20):
                assert some_errors(call, seed) == some_errors(other, seed)


# What it comes to


def xor(n, seed, columns=3):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, (X[:, :columns] > 0).sum(axis=1) % 2


def test_an_interaction_of_three_columns_is_detected():
    X, y = xor(20_000, 0)
    clf = SemiPrivateBoostingClassifier(epsilon=1, random_state=0).fit(
        X, y, X_public=xor(300, 1)[0]
    )
    assert clf.score(*xor(5000, 2)) > 0.88
    assert max(len(tree.scores[0]) for tree in clf.trees_) == 8


def bent(n, seed):
    """Rows of a sum of curves, and the log-odds."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, 2 * np.sin(2 * X[:, 0]) - np.abs(X[:, 1]) + 0.7 * X[:, 2] + 0.8


def loss_of(epsilon, n=6000, m=300, seeds=2, **parameters):
    """Return the excess loss on new rows."""
    new, log_odds = bent(3000, 99)
    truth, losses = 1 / (1 + np.exp(-log_odds)), []
    for seed in range(seeds):
        X, known = bent(n, seed)
        y = np.random.default_rng(seed).random(n) < 1 / (1 + np.exp(-known))
        clf = SemiPrivateBoostingClassifier(epsilon=epsilon, random_state=seed, **parameters)
        found = clf.fit(X, y, X_public=bent(m, 50 + seed)[0]).predict_proba(new)[:, 1]
        found = found.clip(1e-6, 1 - 1e-6)
        parts = [truth * np.log(truth / found), (1 - truth) * np.log((1 - truth) / (1 - found))]
        losses.append(sum(parts).mean())
    return np.mean(losses)


def test_more_budget_and_more_rows_do_not_hurt():
    by_budget = [loss_of(epsilon) for epsilon in (0.1, 1, 10, 100)]
    by_rows = [loss_of(3, n) for n in (500, 4000, 30_000)]
    for losses in (by_budget, by_rows):
        for worse, better in itertools.pairwise(losses):
            assert better < worse + 0.005
    assert by_budget[-1] < 0.02 < 0.05 < by_budget[0]
    assert by_rows[-1] < 0.015


def test_few_public_rows_and_much_budget():
    """If Newton boosting has all the budget, 30 public rows choose the bins and little else."""
    few = [loss_of(epsilon, m=30) for epsilon in (1, 10, 100)]
    assert few[2] < few[1] + 0.005
    assert few[2] < few[0]
