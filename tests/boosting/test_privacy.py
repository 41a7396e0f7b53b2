"""Boosting: what one row moves, what noise and draws cost, and that nothing else tells of rows.

A recorder stands between a fit and its ledger. It records the exact inputs of noise and draws, and
can replay their outcomes. So the fits of neighbouring data sets are compared under equal outcomes.
"""

import itertools
import pickle
import warnings
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skpublicdp import PrivacyBudget, SemiPrivateBoostingClassifier
from skpublicdp.accounting import (
    Draw,
    Either,
    Gaussian,
    Pure,
    Steps,
    gaussian_mu_squared,
    mu_squared_price,
    plan_delta,
    rho_price,
    zcdp_rho,
)
from tests.audit.subjects import RiskScore
from tests.helpers import assert_private
from tests.internals.boosting import (
    MARGIN_UNIT,
    MAX_GRADIENT,
    MAX_MARGIN,
    MAX_ROW_WEIGHT,
    STRATEGY_UNIT,
    AdditiveFit,
    AdditiveModel,
    BinnedData,
    Binner,
    ColumnBins,
    FineBinnedRows,
    HistogramStrategy,
    PrivateTreeBooster,
    ShiftEstimate,
    WarmStart,
    WeightedPublicRows,
    binned,
    boosting_weights,
    candidate_splits,
    covariate_shift,
    gradient_histogram,
    identity_strategy,
    leaf_gradients,
    measure,
    null_model,
    optimised_strategy,
    outcome_histogram,
    prior_covariances,
    scaled_gradients,
    tree_cover,
)
from tests.internals.data import Column
from tests.internals.mechanisms import probabilities
from tests.internals.privacy import Ledger
from tests.kit import Recorder

WEIGHING = "noisy sums that weigh the public model"

pytestmark = [
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning"),
    pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning"),
]


# Rows are points of tiny grids: every row there can be


def grid(*sizes):
    """Numeric columns of given numbers of cells, the last of each for missing values."""
    features = []
    for position, size in enumerate(sizes):
        cuts = np.arange(size - 2) + 0.5
        column = Column(f"x{position}", np.arange(size - 1.0), categorical=False)
        features.append(ColumnBins(column, cuts, size, np.empty(0, dtype=np.int16)))
    return Binner(tuple(features))


def cells_of(features, codes, y, public=None):
    """Rows as cells that are not cut any further."""
    public = codes if public is None else public
    parts = []
    for lines, of in ((codes, np.asarray(y)), (public, np.zeros(public.shape[1]))):
        rows = FineBinnedRows(features, lines.shape[1], of.dtype)
        rows.columns[:], rows.y[:] = [line.astype(np.uint8) for line in lines], of
        parts.append(rows)
    return BinnedData(features, *parts)


def every_row(features, n_classes):
    rows = list(itertools.product(*map(range, features.sizes), range(n_classes)))
    codes = np.array([row[:-1] for row in rows], dtype=np.int16).T
    return codes, np.array([row[-1] for row in rows])


def some_tree(features, n_classes, seed):
    codes = every_row(features, 1)[0]
    classes = np.arange(n_classes)
    cover = tree_cover(candidate_splits(features, codes), codes, features.names, classes, depth=2)
    draw = np.random.default_rng(seed).integers
    sides = [(int(draw(len(cover.splits))), tuple(draw(n_classes, size=2))) for _ in range(2)]
    return cover.hypothesis((0, tuple(sides)))


def some_models(features, n_targets):
    """The first model; random ones, some certain of a label; one with a tree."""
    yield null_model(features.offsets, n_targets)
    generator = np.random.default_rng(0)
    for size in (1, 5, 40):
        scores = np.rint(
            generator.normal(0, size * MARGIN_UNIT, (n_targets, features.offsets[-1] + 1))
        )
        model = AdditiveModel(scores[:, 1:].astype(int), scores[:, 0].astype(int), features.offsets)
        yield model
    leaf_scores = generator.integers(-MAX_MARGIN, MAX_MARGIN, (n_targets, 4))
    yield model.with_tree(some_tree(features, max(2, n_targets), 0), leaf_scores)


def strategies(features, pure):
    codes = every_row(features, 1)[0]
    X = features.indicators(codes)
    yield identity_strategy(features, X, pure=pure)
    yield identity_strategy(
        features, features.indicators(codes[:, codes.max(axis=0) < 2]), pure=pure
    )
    design = WeightedPublicRows(X, np.full(len(X), 1 / len(X)), 1000)
    prior = prior_covariances(features, design)
    yield optimised_strategy(features, design.weights @ X, prior, 10.0, 250.0, 300.0)
    generator = np.random.default_rng(1)
    blocks = tuple(
        generator.integers(-STRATEGY_UNIT, STRATEGY_UNIT, (3, size)) for size in features.sizes
    )
    yield HistogramStrategy(blocks, (False,) * len(blocks), 7, MAX_GRADIENT)


def moved(one, other, pure):
    difference = np.ravel(one) - np.ravel(other)
    return int(np.abs(difference).sum() if pure else (difference**2).sum())


def rich_ledger(rows_per_person=None):
    return Ledger(1000, 1e-6, 0, rows_per_person=rows_per_person)


def of_one(pure):
    """Noise whose spread is the sensitivity."""
    return Pure(Fraction(1)) if pure else Gaussian(Fraction(1))


def allowed(call, pure):
    return call.sensitivity.absolute if pure else call.sensitivity.squared


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("counts", [True, False])
def test_sensitivity_of_histograms(pure, n_classes, counts):
    features = grid(4, 3)
    codes, y = every_row(features, n_classes)
    targets = 1 if n_classes == 2 else n_classes
    closest = []
    for strategy in strategies(features, pure):
        most = 0
        for model in some_models(features, targets):
            with Recorder() as recorder:
                for row in range(len(y)):
                    table = gradient_histogram(
                        model, cells_of(features, codes[:, [row]], y[[row]]), pure=pure
                    )
                    measure(table, strategy, of_one(pure), rich_ledger(), counts=counts)
            spread = recorder.calls[0].spread
            answers = [call.exact_input for call in recorder.calls]
            most = max(most, *(moved(a, b, pure) for a, b in itertools.combinations(answers, 2)))
        assert most <= spread
        assert (
            allowed(recorder.calls[0], pure)
            <= spread
            <= allowed(recorder.calls[0], pure) * (1 + 2**-22)
        )
        closest.append(most / spread)
    if n_classes == 2:
        assert closest[0] == pytest.approx(1, abs=1e-6)  # attained where cells are measured
        assert min(closest) > 0.6
    else:
        assert min(closest) > 0.3


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("counts", [True, False])
def test_sensitivity_of_histograms_for_persons(pure, counts):
    """All rows of a person are replaced by any others: here two of them."""
    features = grid(3, 3)
    codes, y = every_row(features, 2)
    everybody = list(itertools.combinations_with_replacement(range(len(y)), 2))
    for cell_by_cell, strategy in zip((True, False), strategies(features, pure), strict=False):
        most = 0
        for model in itertools.islice(some_models(features, 1), 2):
            with Recorder() as recorder:
                for rows in map(list, everybody):
                    cells = cells_of(features, codes[:, rows], y[rows])
                    table = gradient_histogram(model, cells, pure=pure)
                    measure(table, strategy, of_one(pure), rich_ledger(2), counts=counts)
            answers = np.array([call.exact_input.ravel() for call in recorder.calls])
            away = answers[:, None] - answers
            most = max(most, int((np.abs(away) if pure else away**2).sum(axis=2).max()))
        assert most <= recorder.calls[0].spread
        assert not cell_by_cell or most == pytest.approx(float(recorder.calls[0].spread), rel=1e-6)


@given(
    arrays(np.int64, st.tuples(st.integers(1, 3), st.integers(1, 4)), elements=st.integers(-5, 5)),
    st.integers(0, 3 * MAX_GRADIENT),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_sensitivity_of_one_column_is_attained(block, weight, pure, counts):
    strategy = HistogramStrategy((block,), (False,), 0, weight)
    ends = [sign * MAX_GRADIENT * target for sign in (-1, 1) for target in np.eye(2, dtype=int)]
    answers = [
        np.concatenate([np.outer(end, column).ravel(), counts * weight * column])
        for end in ends
        for column in block.T
    ]
    most = max(moved(a, b, pure) for a, b in itertools.product(answers, answers))
    bound = strategy.sensitivity(counts=counts)
    assert (bound.absolute if pure else bound.squared) == most


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("n_targets", [1, 3, 4, 12])
def test_scaled_gradients_are_at_most_a_half(pure, n_targets):
    generator = np.random.default_rng(0)
    margins = generator.integers(-MAX_MARGIN, MAX_MARGIN, (n_targets, 20_000))
    margins //= generator.integers(1, 2000, 20_000)
    margins[:, :3] = 0, 10**9, -(10**9)
    longest = 0
    for label in range(max(2, n_targets)):
        found = scaled_gradients(margins, np.full(20_000, label), pure)
        lengths = np.abs(found).sum(axis=0) if pure else np.sqrt((found**2).sum(axis=0))
        assert (lengths <= MAX_GRADIENT).all()
        longest = np.maximum(longest, lengths)
    # some label is as far as can be: noise is not for more than there is
    assert longest.min() >= MAX_GRADIENT - (1 if n_targets == 1 else n_targets)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("pure", [True, False])
def test_leaf_sums_and_weights(monkeypatch, n_classes, pure):
    features = grid(4, 3)
    codes, y = every_row(features, n_classes)
    design = WeightedPublicRows(np.eye(len(y)), np.full(len(y), 1 / len(y)), 100)
    closest, targets = 0, 1 if n_classes == 2 else n_classes
    sure = [np.zeros((targets, size, size)) for size in features.sizes]
    for seed, model in enumerate(some_models(features, targets)):
        tree = some_tree(features, n_classes, seed)
        monkeypatch.setattr(PrivateTreeBooster, "_draw_tree", lambda self, drawn, tree=tree: tree)
        with Recorder() as recorder:
            for row in range(len(y)):
                cells = cells_of(features, codes[:, [row]], y[[row]], codes)
                begin = [
                    WarmStart(one, sure) for one in (null_model(features.offsets, targets), model)
                ]
                voters = PrivateTreeBooster(begin, None, cells, rich_ledger())
                voters.add_tree_with_noisy_leaves(Draw(Fraction(1)), of_one(pure), design)
                assert (
                    voters._margins.tolist() == voters.model.raw_predict(codes[:, [row]]).tolist()
                )
        answers = [call.exact_input for call in recorder.calls]
        most = max(moved(a, b, pure) for a, b in itertools.combinations(answers, 2))
        assert most <= recorder.calls[0].spread
        closest = max(closest, most / recorder.calls[0].spread)
        weight = boosting_weights(model.raw_predict(codes), y, MAX_ROW_WEIGHT)
        assert weight.min() >= 0
        assert weight.max() <= MAX_ROW_WEIGHT
    assert closest > (0.99 if n_classes == 2 else 0.7)


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([2, 3]), st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_histograms_are_additive_over_rows(seed, n, n_classes, pure):
    generator = np.random.default_rng(seed)
    features = grid(4, 3)
    targets = 1 if n_classes == 2 else n_classes
    codes, y = every_row(features, n_classes)
    chosen = generator.integers(len(y), size=n)
    codes, y = codes[:, chosen], y[chosen]
    *_, model = some_models(features, targets)
    tree = some_tree(features, n_classes, seed)
    parts = np.array_split(np.arange(n), generator.integers(1, n + 1))

    def tables(rows, n_jobs=None):
        cells = cells_of(features, codes[:, rows], y[rows])
        cells.rows.n_jobs = n_jobs
        return [
            gradient_histogram(model, cells, pure=pure),
            leaf_gradients(tree, cells, cells.margins(model), pure=pure),
        ]

    whole = tables(np.arange(n))
    by_part = [tables(part) for part in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binned, "HISTOGRAM_CHUNK_ROWS", int(generator.integers(1, 6)))
        chunked = tables(np.arange(n), n_jobs=2)
    for table, other, *added in zip(whole, chunked, *by_part, strict=True):
        assert table.dtype == np.int64
        np.testing.assert_array_equal(table, other)
        np.testing.assert_array_equal(table, sum(added))


# Whole fits under the same outputs


def some_rows(seed, n=60, n_classes=2, gap=0.0):
    generator = np.random.default_rng(seed)
    X = np.column_stack(
        [generator.normal(gap, 1, n), generator.integers(0, 3, n), generator.normal(size=n)]
    )
    X[generator.random(n) < 0.1, 2] = np.nan
    y = (X[:, 0] + X[:, 1] + generator.normal(size=n) > 1 + gap) * (n_classes - 1)
    return X, np.where(generator.random(n) < 0.2, generator.integers(0, n_classes, n), y)


PUBLIC = some_rows(99, 30)[0][:, :2]
CONFIGURATIONS = {
    "auto": {"epsilon": 40},
    "auto, weak": {"epsilon": 1},
    "three labels": {"epsilon": 40, "n_classes": 3},
    "pure": {"epsilon": 20, "delta": 0},
    "pure, three labels": {"epsilon": 20, "delta": 0, "n_classes": 3},
    "pure, one round": {"epsilon": 0.5, "delta": 0},
    "moments": {"epsilon": 5, "method": "moments", "max_rounds": 2},
    "looked at twice": {"epsilon": 6, "gap": 1.5, "seed": 1},
    "looked at twice, pure": {"epsilon": 8, "delta": 0, "gap": 1.5, "seed": 3},
    "drifted": {"epsilon": 40, "gap": 3.0},
    "drifted, pure": {"epsilon": 40, "delta": 0, "gap": 3.0},
    "votes": {"epsilon": 2, "method": "votes", "max_rounds": 4},
    "votes, many": {"epsilon": 0.1, "delta": 1e-3, "method": "votes", "max_rounds": 32},
    "votes, pure, three labels": {"epsilon": 2, "delta": 0, "method": "votes", "n_classes": 3},
    "no public rows": {"epsilon": 3, "public": None},
    "labelled public rows": {"epsilon": 40, "labelled": True},
    "public model": {"epsilon": 3, "public_model": RiskScore()},
    "public model, weak": {"epsilon": 0.01, "public_model": RiskScore()},
    "public model, pure": {"epsilon": 3, "delta": 0, "public_model": RiskScore()},
    "public model, persons": {"epsilon": 60, "k": 3, "public_model": RiskScore()},
    "public model, three labels": {
        "epsilon": 40,
        "n_classes": 3,
        "labelled": True,
        "public_model": RiskScore(3),
    },
    "public model, pure, three labels": {
        "epsilon": 9,
        "delta": 0,
        "n_classes": 3,
        "public_model": RiskScore(3),
    },
    "public model, votes": {"epsilon": 2, "method": "votes", "public_model": RiskScore()},
    "public model, many votes": {
        "epsilon": 0.1,
        "delta": 1e-3,
        "method": "votes",
        "max_rounds": 32,
        "public_model": RiskScore(),
    },
    "public model, no public rows": {"epsilon": 3, "public": None, "public_model": RiskScore()},
    "persons": {"epsilon": 90, "k": 3},
    "persons, pure": {"epsilon": 40, "delta": 0, "k": 2, "n_classes": 3},
    "persons, votes": {"epsilon": 3, "k": 2, "method": "votes"},
    "moments, drifted": {"epsilon": 20, "method": "moments", "gap": 3.0},
}


def fitted(
    X, y, *, n_classes=2, gap=0.0, public=PUBLIC, labelled=False, seed=0, k=None, **parameters
):
    labels = np.resize(range(n_classes), len(public)) if labelled else None
    clf = SemiPrivateBoostingClassifier(
        classes=range(n_classes), random_state=seed, max_rows_per_group=k, **parameters
    )
    groups = None if k is None else persons(len(y), k)
    return clf.fit(X[:, :2], y, X_public=public, y_public=labels, groups=groups)


def persons(n, k):
    """Whose row each is: everybody has one row more than count."""
    return np.arange(n) % (n // (k + 1))


def watched(*args, **options):
    """Fit, and return all that is to be seen of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = fitted(*args, **options)
    return clf, pickle.dumps([vars(clf), [(w.category, str(w.message)) for w in caught]])


def affordable(uses, epsilon, delta):
    """Whether steps fit a budget, by what is known of them alone."""
    gaussian = {call.gaussian for call in uses if call.kind == "noise"}
    assert len(gaussian) < 2
    total = sum(call.cost for call in uses)
    if delta == 0 or (True not in gaussian and total <= epsilon):
        assert True not in gaussian
        return total <= epsilon
    assert False not in gaussian
    return plan_delta(Steps(map(happened, uses)), epsilon) <= delta * 1.01  # grids differ


def happened(call):
    """What a use of the rows cost, from the noise that was drawn."""
    return Draw(call.cost) if call.kind == "draw" else Gaussian(call.cost)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_replaced_row_moves_answers_as_paid_for_and_nothing_else(name):
    options = CONFIGURATIONS[name]
    epsilon, delta = Fraction(options["epsilon"]), Fraction(options.get("delta", 1e-6))
    one, uses = neighbours_compared(**options)
    assert affordable(uses, epsilon, delta)
    looks = [call for call in one.privacy_.mechanisms if "lower halves of columns" in call.name]
    assert len(looks) > 1 or not name.startswith("looked")
    assert not one.trees_ or options.get("method") != "moments"
    weighed = [call.name for call in one.privacy_.mechanisms].count(WEIGHING)
    assert weighed == ("public_model" in options or options.get("labelled", False))


def neighbours_compared(n=60, watch=None, **options):
    """Compare a fit with those of neighbours under the same outputs; return it and its uses."""
    n_classes, k = options.get("n_classes", 2), options.get("k")
    X, y = some_rows(1, n, n_classes, options.get("gap", 0.0))

    def neighbours():
        odd_ones = [[1e300, -np.inf, 0], [np.nan, np.nan, 0], [0, 0, 0], *some_rows(3, 5)[0]]
        for position, new in enumerate(odd_ones):
            replaced = [position] if k is None else persons(len(y), k) == position
            other_X, other_y = X.copy(), y.copy()
            other_X[replaced], other_y[replaced] = new, (y[replaced] + 1) % n_classes
            yield other_X, y if position == len(odd_ones) - 1 else other_y

    return compared(lambda X, y: (watch or watched)(X, y, **options), (X, y), neighbours())


def compared(watch, data, neighbours):
    """Check that neighbours with the same outputs leave the same, and move inputs as paid for."""
    with Recorder() as recorder:
        one, seen = watch(*data)
    generator = np.random.default_rng(2)
    for neighbour in neighbours:
        with Recorder(recorder.outcomes) as other_recorder:
            _, also_seen = watch(*neighbour)
        assert also_seen == seen
        for call, again in zip(recorder.calls, other_recorder.calls, strict=True):
            paid = (call.kind, call.event, call.sensitivity, call.spread)
            assert paid == (again.kind, again.event, again.sensitivity, again.spread)
            if call.kind == "noise":
                pure = not call.gaussian
                assert moved(call.exact_input, again.exact_input, pure) <= allowed(call, pure)
                continue
            if call.kind in ("subset", "order"):  # which rows, drawn whatever they are
                assert again.outcome.tolist() == call.outcome.tolist()
                continue
            for seed in generator.integers(1 << 30, size=20):
                moves = some_errors(call, seed) - some_errors(again, seed)
                assert abs(moves) <= call.sensitivity
    return one, recorder.calls


def some_errors(call, seed):
    """The error count of the member that a seed leads to."""
    family, errors, generator = call.exact_input, 0, np.random.default_rng(seed)
    todo = [family]
    while todo:
        family = todo.pop()
        match type(family).__name__:
            case "Leaf":
                errors += int(family.errors[generator.integers(len(family.errors))])
            case "Product":
                todo += family.factors
            case "Choice":
                todo.append(family.options.at((int(generator.integers(family.options.batch[-1])),)))
    return errors


# Every branch that released numbers may lead to, whether or not they ever do


def dictated(monkeypatch, even, looks, drift, gain, *, n_classes, **parameters):
    """Return the uses of a fit whose decisions are made as if what is released had led to them."""
    X, y = some_rows(5, 400, n_classes)
    learn, class_balance, grow = (
        AdditiveFit.update,
        outcome_histogram.noisy_class_balance,
        PrivateTreeBooster.add_tree_with_noisy_leaves,
    )
    looked = itertools.count(1)

    def compared(design, *args, expected, pure):
        bent = np.random.default_rng(0).dirichlet(np.full(len(design.X), 5.0))
        unlike = next(looked) < looks
        return ShiftEstimate(drift, bent if unlike else None, unlike)

    def learned(self, noisy):
        learn(self, noisy)
        self.drift, self.drifted = drift, drift > 1.6

    with monkeypatch.context() as patch, Recorder() as recorder:
        patch.setattr(covariate_shift, "estimate_shift", compared)
        patch.setattr(AdditiveFit, "update", learned)
        patch.setattr(
            outcome_histogram,
            "noisy_class_balance",
            lambda *args: (class_balance(*args), even)[1],
        )
        patch.setattr(
            PrivateTreeBooster, "add_tree_with_noisy_leaves", lambda *args: (grow(*args), gain)[1]
        )
        fitted(X, y, n_classes=n_classes, public=PUBLIC[:25], **parameters)
    return recorder.calls


def as_plan(paths):
    """Everything that may happen, each step deciding what follows: an adversary's plan."""
    heads = defaultdict(list)
    for path in paths:
        if path:
            heads[path[0]].append(path[1:])
    options = [Steps((head, as_plan(tails))) for head, tails in heads.items()]
    return Either(options) if options else Steps(())


def forced(monkeypatch, parameters):
    """Yield the uses of the fits that all combinations of decisions lead to."""
    decisions = itertools.product((1.0, 0.77, 0.5, 0.02), (1, 3), (1.0, 3.0), (0, 9))
    for decided in decisions:
        yield dictated(monkeypatch, *decided, **parameters)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 2, "n_classes": 2},
        {"epsilon": 8, "delta": 1e-9, "n_classes": 3},
        {"epsilon": 2, "n_classes": 2, "method": "moments"},
        {"epsilon": 2, "n_classes": 2, "delta": 0},
        {"epsilon": 2, "n_classes": 3, "delta": 0},
        {"epsilon": 5, "n_classes": 2, "k": 3},
        {"epsilon": 2, "n_classes": 2, "public_model": RiskScore()},
        {"epsilon": 2, "n_classes": 2, "delta": 0, "public_model": RiskScore()},
    ],
)
def test_no_branch_spends_more_than_the_plan(monkeypatch, parameters):
    epsilon, delta = Fraction(parameters["epsilon"]), Fraction(parameters.get("delta", 1e-6))
    paths, n_draws = set(), set()
    for uses in forced(monkeypatch, parameters):
        assert affordable(uses, epsilon, delta)
        paths.add(tuple(map(happened, uses)))
        n_draws.add(sum(call.kind == "draw" for call in uses))
    slack = 1.03  # of the grid, at each of many small steps of noise
    if not delta and parameters["n_classes"] > 2:
        assert min(n_draws) > 0  # trees alone
    elif not delta or parameters.get("method") == "moments":
        assert n_draws == {0}  # sums alone
    else:
        assert n_draws == {0, 1, 2}
        slack = 1.01
    if delta:
        cost = plan_delta(as_plan(paths), epsilon)
        assert delta * 0.9 < cost <= delta * slack


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_no_branch_costs_more_than_a_budget_is_charged(monkeypatch, accountant):
    budget = PrivacyBudget(1000, 1e-3, accountant=accountant, for_tests=True)
    epsilon, delta = Fraction(2), Fraction(1, 10**6)
    price, cap = {
        "gdp": (mu_squared_price, gaussian_mu_squared(epsilon, delta)),
        "zcdp": (rho_price, zcdp_rho(epsilon, delta)),
    }[accountant]
    fits = forced(monkeypatch, {"epsilon": 2, "n_classes": 2, "budget": budget})
    spent = [price(Steps(map(happened, uses))) for uses in fits]
    charged = [price(entry.event) for entry in budget.ledger]
    assert all(one <= other <= cap for one, other in zip(spent, charged, strict=True))
    assert max(spent) > 0.88 * cap  # the trial with two draws costs most in this currency


# Pure fits so small that every outcome's exact probability is known


class Listening(Recorder):
    """Notes what is drawn from, and how."""

    def __init__(self, outcomes=None):
        super().__init__(outcomes)
        self.drawn = []

    def draw_member(self, family, epsilon, sensitivity, sample, ledger):
        self.drawn.append((family, epsilon, sensitivity))
        return super().draw_member(family, epsilon, sensitivity, sample, ledger)


def outcomes_of(rows, points, n_trees, **options):
    """Return bounds of the probability of each sequence of trees."""
    X, y = np.array(rows)[:, :1], np.array([label for _, label in rows])
    public = np.array([*points, points[0]])[:, None]
    anything = itertools.repeat((0, ((0, (0, 0)), (0, (0, 0)))))
    found = {}

    def explore(prefix, bounds):
        if len(prefix) == n_trees:
            found[prefix] = bounds
            return
        # the outcomes so far, then any: only the next family matters
        with Listening(itertools.chain(prefix, anything)) as recorder:
            fitted(X, y, public=public, delta=0, method="votes", max_rounds=n_trees, **options)
        following = probabilities(*recorder.drawn[len(prefix)], precision=96)
        for path, (lower, upper) in following.items():
            explore((*prefix, path), (bounds[0] * lower, bounds[1] * upper))

    explore((), (Fraction(1), Fraction(1)))
    return found


@pytest.mark.parametrize(("n_trees", "points"), [(1, [0.0, 1.0, 2.0]), (2, [0.0, 1.0])])
def test_exact_probabilities_of_whole_fits(n_trees, points):
    rows = list(itertools.product(points, (0, 1)))
    releases = {
        chosen: outcomes_of(chosen, points, n_trees, epsilon=1.5)
        for chosen in itertools.combinations_with_replacement(rows, 2)
    }
    assert min(map(len, releases.values())) >= 16**n_trees
    for one, other in itertools.combinations(releases, 2):
        if set(one) & set(other):
            assert_private(releases[one], releases[other], Fraction(3, 2))


@pytest.mark.usefixtures("keep_first_rows")
def test_exact_probabilities_if_a_person_is_replaced():
    """One person has two rows, of which both count, and another one has three."""
    points = [0.0, 1.0]
    rows = list(itertools.product(points, (0, 1)))
    pairs = list(itertools.combinations_with_replacement(rows, 2))
    groups = ["a", "b", "b", "a", "b"]
    furthest = 0.0
    for mine in pairs[::3]:
        releases = []
        for theirs in pairs:
            chosen = [mine[0], *theirs, mine[1], theirs[0]]  # the last row does not count
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("tests.boosting.test_privacy.persons", lambda n, k: groups)
                releases.append(outcomes_of(chosen, points, 1, epsilon=1.5, k=2))
        for one, other in itertools.combinations(releases, 2):
            assert_private(one, other, Fraction(3, 2))
            furthest = max(furthest, *(float(one[path][0] / other[path][1]) for path in one))
    assert furthest > np.exp(1.5) / 2  # and no row of two is dropped unseen
