"""SemiPrivateBoostingClassifier: what goes in, what comes out, and how it gets on elsewhere."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score

from skpublicdp import PrivacyBudget, SemiPrivateBoostingClassifier
from skpublicdp.accounting import gaussian_epsilon, gaussian_mu_squared
from skpublicdp.exceptions import (
    DriftWarning,
    NoPublicDataWarning,
    PrivacyBudgetError,
    UnknownCategoriesWarning,
)
from tests.internals.boosting import MIN_ROWS_PER_LABEL_NOISE

alike = pytest.mark.filterwarnings(
    "ignore:(Only 1 public row|The public rows contain):skpublicdp.exceptions.NoPublicDataWarning"
)
may_drift = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")


def numbers(n, seed):
    """Rows of three numbers, and the log-odds of "yes"."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, 1.5 * X[:, 0] - X[:, 1] ** 2 + 0.5


def labelled(log_odds, seed=0):
    return np.where(
        np.random.default_rng(seed).random(len(log_odds)) < expit(log_odds), "yes", "no"
    )


def people(n, seed):
    """Rows of all types of columns, with missing values."""
    rng = np.random.default_rng(seed)
    age, kind = rng.normal(50, 10, n), rng.integers(0, 4, n)
    color, smoker = rng.choice(["red", "green", "blue"], n), rng.random(n) < 0.4
    y = labelled((age - 50) / 8 + 2 * (color == "red") - 2 * smoker, seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "color": np.where(rng.random(n) < 0.05, None, color),
            "kind": pd.Categorical(kind),
            "smoker": smoker,
            "visits": pd.array(np.where(rng.random(n) < 0.1, None, kind), dtype="Int64"),
            "score": pd.array(rng.normal(size=n), dtype="Float32"),
            "constant": 1.0,
        }
    )
    return frame, y


X, LOG_ODDS = numbers(4000, 0)
Y = labelled(LOG_ODDS)
PUBLIC, PUBLIC_LOG_ODDS = numbers(200, 11)
NEW, NEW_LOG_ODDS = numbers(4000, 2)
FRAME, FRAME_Y = people(3000, 0)
PUBLIC_FRAME = people(250, 1)[0]
NEW_FRAME, NEW_FRAME_Y = people(3000, 2)
CLF = SemiPrivateBoostingClassifier(random_state=0)


def fitted(
    rows=X, y=Y, *, X_public=PUBLIC, y_public=None, is_public=None, groups=None, **parameters
):
    clf = clone(CLF).set_params(**parameters)
    return clf.fit(
        rows, y, X_public=X_public, y_public=y_public, is_public=is_public, groups=groups
    )


def same(one, other):
    one, other = ({**vars(clf), "n_jobs": None} for clf in (one, other))
    return pickle.dumps(one) == pickle.dumps(other)


# What goes in


@alike
def test_columns_of_all_types():
    clf = fitted(FRAME, FRAME_Y, X_public=PUBLIC_FRAME)
    assert clf.score(NEW_FRAME, NEW_FRAME_Y) > 0.73
    assert clf.feature_names_in_.tolist() == list(FRAME.columns)
    assert [shape.name for shape in clf.shapes_] == list(FRAME.columns)
    ranked = FRAME.columns[np.argsort(-clf.feature_importances_)]
    assert set(ranked[:3]) == {"age", "color", "smoker"}
    cells = {shape.name: shape.cells for shape in clf.shapes_}
    assert cells["color"] == ("blue", "green", "red", "(other)", "(missing)")
    assert cells["smoker"] == ("False", "True", "(other)", "(missing)")
    assert cells["constant"] == ("any", "(missing)")
    assert cells["age"][-1] == "(missing)"
    scores = dict(zip(cells["color"], clf.shapes_[1].scores[0], strict=True))
    assert scores["red"] - max(scores["blue"], scores["green"]) > 1
    odd = NEW_FRAME.assign(color="never seen", age=np.nan, kind="9")
    with pytest.warns(UnknownCategoriesWarning):
        assert np.isfinite(clf.predict_proba(odd)).all()
    with pytest.warns(UnknownCategoriesWarning):
        alike = clf.decision_function(odd.assign(smoker=True, visits=1, score=0.0))
    assert len(np.unique(alike)) == 1


@alike
def test_log_odds_are_sums_of_bin_scores():
    clf = fitted(FRAME, FRAME_Y, X_public=PUBLIC_FRAME, method="moments")
    missing = pd.array([None], dtype="Int64")
    row = NEW_FRAME[:1].assign(age=np.nan, color="never seen", smoker=True, visits=missing, score=9)
    cells = {"age": "(missing)", "color": "(other)", "smoker": "True", "visits": "(missing)"}
    cells |= {"constant": "any", "kind": str(row["kind"].item()), "score": clf.shapes_[5].cells[-2]}
    scores = {
        shape.name: dict(zip(shape.cells, shape.scores[0], strict=True)) for shape in clf.shapes_
    }
    expected = clf.intercept_[0] + sum(scores[name][cell] for name, cell in cells.items())
    with pytest.warns(UnknownCategoriesWarning):
        assert clf.decision_function(row) == pytest.approx(expected)
    expected += scores["color"]["(missing)"] - scores["color"]["(other)"]
    assert clf.decision_function(row.assign(color=None)) == pytest.approx(expected)
    assert len({scores[name][cell] for name, cell in cells.items()}) > 5  # all cells differ


@alike
@may_drift
@pytest.mark.parametrize(
    ("epsilon", "method"), [(1, "auto"), (1, "moments"), (1, "votes"), (1000, "auto")]
)
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize(
    "public",
    [PUBLIC[:1], np.ones((30, 3)), np.full((30, 3), np.nan), np.where(PUBLIC > 2, np.inf, PUBLIC)],
    ids=["one row", "constant", "missing", "infinite"],
)
def test_poor_public_rows(epsilon, method, delta, public):
    options = {"epsilon": epsilon, "method": method, "delta": delta}
    clf = fitted(X[:500], Y[:500], X_public=public, **options)
    assert np.isfinite(clf.predict_proba([[np.nan, np.inf, 0]])).all()
    assert np.isfinite(clf.feature_importances_).all()


def test_no_public_rows():
    with pytest.warns(NoPublicDataWarning):
        clf = fitted(X_public=None)
    assert clf.drift_ is None
    assert len(clf.trees_) > 0
    assert clf.privacy_.n_public == 0
    assert clf.score(NEW, labelled(NEW_LOG_ODDS)) > 0.7
    with pytest.warns(NoPublicDataWarning):
        assert same(clf, fitted(X_public=PUBLIC[:0]))
    with pytest.warns(NoPublicDataWarning):
        bounded = fitted(100 * X, X_public=None, bounds=(-400, 400))
    assert bounded.score(100 * NEW, labelled(NEW_LOG_ODDS)) > 0.7


def test_labelled_public_rows_are_learned_from():
    public_labels = labelled(PUBLIC_LOG_ODDS)
    named = fitted(y_public=public_labels)
    rows, mask = np.vstack([X, PUBLIC]), np.arange(4200) >= 4000
    masked = fitted(rows, np.concatenate([Y, public_labels]), X_public=None, is_public=mask)
    assert same(named, masked)
    assert named.privacy_.n_private == 4000
    # a few private rows and many labels of public ones, at a tiny budget
    many, log_odds = numbers(5000, 3)
    few = {"rows": X[:20], "y": Y[:20], "X_public": many, "epsilon": 0.3, "method": "moments"}
    helped = fitted(**few, y_public=labelled(log_odds)).predict_proba(NEW)[:, 1]
    partly = np.where(np.arange(5000) < 2500, labelled(log_odds), "-1")
    partly = fitted(**few, y_public=partly).predict_proba(NEW)[:, 1]
    truth = labelled(NEW_LOG_ODDS) == "yes"
    assert roc_auc_score(truth, helped) > 0.8
    assert roc_auc_score(truth, partly) > 0.75


# What comes out


@pytest.mark.parametrize("method", ["auto", "moments", "votes"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_decisions_probabilities_and_labels_agree(method, delta):
    clf = fitted(method=method, delta=delta)
    decision, proba = clf.decision_function(NEW), clf.predict_proba(NEW)
    assert clf.classes_.tolist() == ["no", "yes"]
    assert decision.shape == (4000,)
    np.testing.assert_allclose(proba[:, 1], expit(decision), rtol=1e-9)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.predict(NEW), clf.classes_[(decision > 0).astype(int)])
    assert roc_auc_score(labelled(NEW_LOG_ODDS), proba[:, 1]) > 0.78
    # the model is what is shown of it
    margins = np.full(1, clf.intercept_)
    for shape, value in zip(clf.shapes_, NEW[0], strict=True):
        margins += shape.scores[0, np.searchsorted(shape.cuts, value)]
    steps = {round(float(s), 9) for tree in clf.trees_ for s in tree.scores[0]}
    if len(clf.trees_) == 0:
        assert margins[0] == pytest.approx(decision[0])
    elif method == "votes":
        assert steps == {-max(steps), max(steps)}


@may_drift
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_three_labels(delta):
    y = np.digitize(X[:, 0] + 0.3 * X[:, 2], [-0.5, 0.5])
    clf = fitted(y=y, delta=delta)
    decision, proba = clf.decision_function(NEW), clf.predict_proba(NEW)
    assert decision.shape == proba.shape == (4000, 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(decision.argmax(axis=1), clf.predict(NEW))
    assert clf.score(NEW, np.digitize(NEW[:, 0] + 0.3 * NEW[:, 2], [-0.5, 0.5])) > 0.8
    assert clf.intercept_.shape == (3,)
    assert clf.shapes_[0].scores.shape == (3, len(clf.shapes_[0].cells))
    votes = fitted(y=y, method="votes", delta=delta)
    assert votes.score(NEW, np.digitize(NEW[:, 0], [-0.5, 0.5])) > 0.7


THREE = np.digitize(X[:, 0], [-0.5, 0.5])
NEW_THREE = np.digitize(NEW[:, 0], [-0.5, 0.5])


@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
@pytest.mark.parametrize("parameters", [{"X_public": None, "bounds": (-4, 4)}, {"delta": 0}])
def test_three_labels_and_little_budget(parameters):
    """Trees alone, the leaves of which are measured: sums would be too loud, and votes were."""
    clf = fitted(y=THREE, epsilon=0.1, **parameters)
    names = [spent.name for spent in clf.privacy_.mechanisms]
    draw, sums = "exponential mechanism, exact draw of a tree", "noisy gradient sums of its "
    assert names == [draw, sums + "leaves"] * len(clf.trees_)
    assert clf.score(NEW, NEW_THREE) > 0.87
    assert min(tree.deviations.min() for tree in clf.trees_) > 0
    assert max(shape.deviations.max() for shape in clf.shapes_) == 0


@pytest.mark.one_in(2)
@may_drift
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
@pytest.mark.parametrize("k", [None, 2])
def test_more_labels_need_more_rows_for_histograms(k):
    """Trees alone below 15 rows per label and unit of noise, unless public rows have labels."""
    n, delta = 1200, Fraction(1, 10**6)
    groups = None if k is None else np.arange(n) // k

    def uses_histograms(epsilon, n_labels, *, labelled=False, **settings):
        clf = SemiPrivateBoostingClassifier(
            epsilon=epsilon, classes=range(n_labels), max_rows_per_group=k, random_state=0,
            **settings,
        )  # fmt: skip
        y_public = np.arange(len(PUBLIC)) % n_labels if labelled else None
        clf.fit(X[:n], np.arange(n) % n_labels, X_public=PUBLIC, y_public=y_public, groups=groups)
        return any("histogram" in step.name for step in clf.privacy_.mechanisms)

    for n_labels in (3, 8):
        # one count for each column has noise of the standard deviation k sqrt(n_columns) / mu
        mu = MIN_ROWS_PER_LABEL_NOISE * n_labels * (k or 1) * np.sqrt(X.shape[1]) / n
        little, more = (gaussian_epsilon(Fraction(f * mu) ** 2, delta) for f in (0.98, 1.02))
        assert not uses_histograms(little, n_labels)
        assert uses_histograms(more, n_labels)
        assert uses_histograms(little, n_labels, labelled=True)
        assert uses_histograms(little, n_labels, method="moments")
        assert uses_histograms(little, 2)


def test_trees_for_three_labels_see_drift():
    """So that more budget costs no accuracy where public rows are of another population."""
    rng = np.random.default_rng(5)

    def law(rows):
        noisy = rows[:, :2] + 0.5 * rng.normal(size=(len(rows), 2))
        return (noisy > [0, 0.5]).sum(axis=1)

    y, new = law(X), law(NEW)
    for epsilon in (2, 4):
        with pytest.warns(DriftWarning):
            clf = fitted(
                X_public=PUBLIC + np.array([1, 1, 0]),
                **{"y": y, "epsilon": epsilon, "delta": 0, "method": "votes", "random_state": 1},
            )
        assert clf.drift_ > 5
        assert clf.score(NEW, new) > 0.73
        rates = clf.predict_proba(NEW).mean(axis=0)  # of weighed rows, not of public ones
        assert np.abs(rates - np.bincount(new) / len(new)).sum() < 0.04
    found = []
    for y_public in (None, np.arange(len(PUBLIC)) % 3):
        with pytest.warns(DriftWarning):  # no weights make these alike, and labels say nothing
            clf = fitted(
                X_public=PUBLIC + 2, y_public=y_public,
                **{"y": y, "epsilon": 8, "delta": 0, "method": "votes"},
            )  # fmt: skip
        found.append(clf.decision_function(NEW))
    np.testing.assert_array_equal(*found)


@may_drift
def test_trees_split_at_the_bins_of_reweighted_rows():
    parameters = {"y": THREE, "epsilon": 0.3, "delta": 0, "method": "votes", "random_state": 4}
    clf = fitted(X_public=PUBLIC + np.array([1, 1, 0]), **parameters)
    assert clf.drift_ > 5
    assert clf.score(NEW, NEW_THREE) > 0.9


@may_drift
@pytest.mark.parametrize("accountant", ["auto", "gdp", "zcdp", "pure"])
def test_trees_for_three_labels_fit_into_any_budget(accountant):
    budget = PrivacyBudget(1, 1e-6, accountant=accountant, for_tests=True)
    clf = fitted(y=THREE, method="votes", epsilon=Fraction(1), budget=budget)
    assert 0.9 < budget.spent().epsilon <= 1
    assert clf.score(NEW, NEW_THREE) > 0.87
    assert len(fitted(y=THREE, method="votes", max_rounds=2).trees_) == 2
    with pytest.raises(ValueError, match="leaf sums"):
        fitted(
            y=THREE,
            method="votes",
            epsilon=1e-9,
            budget=(small := PrivacyBudget(1, 1e-6, for_tests=True)),
        )
    assert small.ledger == []


@pytest.mark.parametrize(
    ("epsilon", "excess", "reliability"), [(0.5, 0.025, 0.07), (5, 0.02, 0.04)]
)
def test_probabilities_are_calibrated(epsilon, excess, reliability):
    rows, log_odds = numbers(20_000, 3)
    clf = fitted(rows, labelled(log_odds, 1), epsilon=epsilon)
    found, truth = clf.predict_proba(NEW)[:, 1], expit(NEW_LOG_ODDS)
    # expectations over the labels, so no chance is left in them
    loss = -(truth * np.log(found) + (1 - truth) * np.log(1 - found)).mean()
    best = -(truth * np.log(truth) + (1 - truth) * np.log(1 - truth)).mean()
    assert loss < best + excess
    assert log_loss(labelled(NEW_LOG_ODDS), found) == pytest.approx(loss, abs=0.03)
    for part in np.array_split(np.argsort(found), 8):
        assert abs(found[part].mean() - truth[part].mean()) < reliability


def test_an_interaction_is_found_by_trees():
    y = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0), "yes", "no")
    truth = np.where((NEW[:, 0] > 0) ^ (NEW[:, 1] > 0), "yes", "no")
    scores = {m: fitted(y=y, epsilon=4, method=m).score(NEW, truth) for m in ("auto", "moments")}
    assert scores["auto"] > 0.85 > 0.6 > scores["moments"]
    trees = fitted(y=y, epsilon=4).trees_
    assert "x0" in trees[0].rule
    assert "x1" in trees[0].rule
    assert trees[0].scores.shape == (1, 4)
    assert np.ptp(trees[0].scores) > 1


def test_more_budget_helps():
    auc = [
        roc_auc_score(labelled(NEW_LOG_ODDS), fitted(epsilon=e).decision_function(NEW))
        for e in (0.02, 0.3, 5)
    ]
    assert auc[0] < auc[1] < auc[2]


def test_parameters_of_rounds_and_votes():
    def stages(**parameters):
        return [m.name for m in fitted(epsilon=8, **parameters).privacy_.mechanisms]

    sums = "noisy gradient histogram"
    assert stages(method="moments").count(sums) == 2
    assert stages(method="moments", max_rounds=1).count(sums) == 1
    voting = fitted(method="votes", max_rounds=3, learning_rate=0.5)
    assert len(voting.trees_) == len(voting.privacy_.mechanisms) == 3
    assert {abs(s) for tree in voting.trees_ for s in tree.scores.ravel()} == {1.0}


@alike
def test_private_values_stay_out_of_what_is_stored():
    frame = FRAME.copy()
    frame.loc[3, "color"], frame.loc[4, "age"] = "a secret", 123.456789
    stored = pickle.dumps(fitted(frame, FRAME_Y, X_public=PUBLIC_FRAME))
    assert b"a secret" not in stored
    assert np.float64(123.456789).tobytes() not in stored
    assert b"green" in stored


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"method": "moments", "epsilon": 0.1}, {"noisy counts", "noisy gradient"}),
        ({"method": "moments", "epsilon": 0.1, "delta": 0}, {"noisy gradient"}),
        ({"method": "votes"}, {"exponential"}),
        ({"epsilon": 5}, {"noisy counts", "noisy gradient", "exponential"}),
    ],
)
def test_receipts_list_every_stage(parameters, expected):
    receipt = fitted(**parameters).privacy_
    assert {s for s in expected for m in receipt.mechanisms if m.name.startswith(s)} == expected
    assert (receipt.epsilon, receipt.delta) == (
        parameters.get("epsilon", 1.0),
        parameters.get("delta", 1e-6),
    )
    assert (receipt.n_private, receipt.n_public) == (4000, 200)
    assert all(0 < m.epsilon <= receipt.epsilon for m in receipt.mechanisms)
    assert "set of labels" in repr(receipt)
    assert "set of labels" not in repr(fitted(classes=["no", "yes"], **parameters).privacy_)
    if receipt.delta == 0:
        assert sum(m.epsilon for m in receipt.mechanisms) == pytest.approx(receipt.epsilon)


# Drift and warnings


@alike
def test_drift_is_about_one_unless_rows_are_unlike():
    found = [fitted(X_public=numbers(200, seed)[0]).drift_ for seed in range(100, 108)]
    assert 0.6 < np.median(found) < 1.4
    assert max(found) < 1.6
    assert 0.4 < fitted(FRAME, FRAME_Y, X_public=PUBLIC_FRAME).drift_ < 1.6
    assert 0.3 < fitted(delta=0).drift_ < 2
    with pytest.warns(DriftWarning, match=r"drift_ is \d+\.\d"):
        far = fitted(X_public=PUBLIC + 2)
    assert far.drift_ > 5
    assert far.score(NEW, labelled(NEW_LOG_ODDS)) > 0.65
    with pytest.warns(DriftWarning):
        tilted = fitted(X_public=PUBLIC * [2, 1, 1], method="moments")
    assert 1.6 < tilted.drift_ < 5
    assert tilted.score(NEW, labelled(NEW_LOG_ODDS)) > 0.72


def events(clf):
    return [(m.name, m.event) for m in clf.privacy_.mechanisms]


def test_moments_draw_no_tree_however_unlike_the_public_rows_are():
    """What trees would have had goes to more rounds of sums: nothing is left unspent."""
    with pytest.warns(DriftWarning):
        far = fitted(X_public=PUBLIC + 2, method="moments")
    assert far.drift_ > 5
    assert far.trees_ == ()
    assert sum(event.mu_squared for _, event in events(far)) == far.privacy_.event.mu_squared
    assert far.score(NEW, labelled(NEW_LOG_ODDS)) > 0.6
    with pytest.warns(NoPublicDataWarning):  # a reference stands in for the public rows
        alone = fitted(X_public=None, method="moments")
    assert alone.trees_ == ()
    assert alone.score(NEW, labelled(NEW_LOG_ODDS)) > 0.7


def test_the_warning_of_drift_points_at_the_caller():
    with pytest.warns(DriftWarning) as caught:
        CLF.fit(X, Y, X_public=PUBLIC + 2)
    assert [w.filename for w in caught if w.category is DriftWarning] == [__file__]


# In scikit-learn


# What is spent


@may_drift
@pytest.mark.parametrize("accountant", ["auto", "gdp", "zcdp", "pure"])
@pytest.mark.parametrize("method", ["auto", "moments", "votes"])
def test_a_budget_of_one_fit_holds_one_fit(accountant, method):
    budget = PrivacyBudget(1, 1e-6, accountant=accountant, for_tests=True)
    clf = fitted(method=method, epsilon=Fraction(1), budget=budget)
    assert clf.privacy_.entry == 1
    assert 0.9 < budget.spent().epsilon <= 1
    assert budget.spent().delta == 1e-6
    assert [entry.n_rows for entry in budget.ledger] == [4000]
    if accountant != "pure":  # which knows of (ε, δ) alone
        assert budget.ledger[0].event == clf.privacy_.event
    with pytest.raises(PrivacyBudgetError, match="is left of"):
        clf.fit("no rows at all", None)
    assert len(budget.ledger) == 1
    assert clf.score(NEW, labelled(NEW_LOG_ODDS)) > 0.7


@pytest.mark.parametrize("accountant", ["auto", "gdp"])
def test_two_fits_cost_what_their_noise_does(accountant):
    budget = PrivacyBudget(2.5, 1e-6, accountant=accountant, for_tests=True)
    for seed in range(2):
        fitted(method="moments", random_state=seed, budget=budget)
    delta = Fraction(1, 10**6)
    one = gaussian_mu_squared(Fraction(1), delta)
    # of all of δ, noise has five sixths where pure fits may come besides
    assert budget.spent().epsilon == pytest.approx(gaussian_epsilon(2 * one, delta), rel=0.01)
    assert budget.spent().epsilon < 1.5
    for seed in range(2):  # trees cost no more
        fitted(random_state=seed, budget=budget)
    assert len(budget.ledger) == 4
    assert budget.spent().epsilon <= 1.01 * gaussian_epsilon(4 * one, delta) < 2.2


def test_pure_fits_add_up():
    budget = PrivacyBudget(1, for_tests=True)
    for method in ("auto", "votes"):
        fitted(method=method, epsilon=0.5, delta=0, budget=budget)
    assert budget.spent() == (1.0, 0.0)


@pytest.mark.usefixtures("keep_first_rows")
def test_surplus_rows_of_a_person_do_not_count():
    groups = np.arange(4000) % 1000
    clf = fitted(max_rows_per_group=2, groups=groups)
    kept = fitted(X[:2000], Y[:2000], max_rows_per_group=2, groups=groups[:2000])
    kept.privacy_ = replace(kept.privacy_, n_omitted=2000)
    assert same(clf, kept)
    assert clf.privacy_.n_private == 2000
    assert clf.privacy_.unit == "replace one person, up to 2 private rows"
    labels = np.append(Y[:-1], "a label that does not count")
    assert same(clf, fitted(y=labels, max_rows_per_group=2, groups=groups))
    with pytest.raises(ValueError, match="groups was passed"):
        fitted(groups=groups)
    with pytest.raises(ValueError, match="max_rows_per_group=2"):
        fitted(max_rows_per_group=2)


def test_rules_count_persons():
    """Persons with four rows are a fourth of the evidence for the same privacy."""
    groups = np.arange(4000) // 4
    options = {"method": "votes", "delta": 0}
    votes = len(fitted(max_rows_per_group=4, groups=groups, **options).trees_)
    assert votes == len(fitted(epsilon=0.25, **options).trees_) < len(fitted(**options).trees_)

    def sums(**parameters):
        clf = fitted(method="moments", epsilon=0.7, **parameters)
        return [m.name for m in clf.privacy_.mechanisms].count("noisy gradient histogram")

    assert sums(max_rows_per_group=4, groups=groups) < sums()


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_budget_too_small_for_sums_votes(delta):
    """Noise has a largest scale; nothing is spent before it is found to be beyond."""
    clf = clone(CLF).set_params(epsilon=1e-9, delta=delta).fit(X, Y, X_public=PUBLIC)
    assert clf.trees_
    assert clf.drift_ is None
    assert {"tree" in spent.name for spent in clf.privacy_.mechanisms} == {True}
    budget = PrivacyBudget(1, 1e-6, for_tests=True)
    clf.set_params(method="moments", budget=budget)
    with pytest.raises(ValueError, match="method='votes'"):
        clf.fit(X, Y, X_public=PUBLIC)
    assert budget.ledger == []


@pytest.mark.parametrize("epsilon", [1e4, 1e6])
@pytest.mark.parametrize("parameters", [{}, {"delta": 0}, {"delta": 0, "method": "moments"}])
def test_a_budget_that_needs_hardly_any_noise(epsilon, parameters):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X[:, 0] > 0).astype(int)
    clf = SemiPrivateBoostingClassifier(epsilon=epsilon, random_state=0, **parameters)
    clf.fit(X, y, X_public=rng.normal(size=(30, 3)))
    assert clf.score(X, y) > (0.5 if "delta" in parameters else 0.9)
