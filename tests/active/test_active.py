"""The active learner: exact privacy on tiny pools, what it keeps, and scikit-learn's conventions.

Privacy is checked on the learner's own code. Its random choices are replaced by each of their
outcomes in turn, and a base learner records what it is given: so the exact mixture over which the
budget is claimed is known. The worst base learner for that mixture is found by linear programming.
"""

import copy
import itertools
import math
import pickle
import re
import subprocess
import sys
from collections import defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.preprocessing import FunctionTransformer

from skpublicdp import (
    GenericLearnerClassifier,
    PPMHalfspaceClassifier,
    PrivacyBudget,
    SemiPrivateClassifier,
)
from skpublicdp.accounting import (
    REPLACE_ONE,
    Approximate,
    Pure,
    Subsampled,
    base_epsilon,
    exact_fraction,
    subsampled_epsilon,
)
from skpublicdp.active import SubsamplingActiveLearner
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.hypotheses import Thresholds
from skpublicdp.label_boost import LabelBoostClassifier
from tests import ROOT
from tests.internals.active import subsampling_plan
from tests.internals.privacy import Ledger, ticket
from tests.kit import EnumeratedRun, enumerate_runs

PROOF = ROOT / "docs" / "proofs" / "subsampling.md"


class Recorder(ClassifierMixin, BaseEstimator):
    """A semi-supervised base learner that keeps what it is given."""

    protects_all_rows = True

    def __init__(self, epsilon=1.0, delta=0.0, classes=None, random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.random_state = random_state

    def fit(self, X, y, *, is_labelled, X_public=None):
        self.X_, self.y_, self.is_labelled_, self.X_public_ = X, y, is_labelled, X_public
        self.classes_ = np.unique(y[is_labelled])
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class Supervised(Recorder):
    def fit(self, X, y):
        return super().fit(X, y, is_labelled=np.ones(len(y), dtype=bool))


class Untold(ClassifierMixin, BaseEstimator):
    """A supervised base learner that is not told the labels."""

    protects_all_rows = True

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y, *, X_public=None):
        self.X_, self.classes_ = X, np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def pool_of(t):
    """Rows that can be told apart, with two labels."""
    return np.arange(t, dtype=float)[:, None], np.arange(t) % 2


def views(learner, t, *, query=False, kind=EnumeratedRun):
    """Probability of every (labelled rows, unlabelled rows) in the order of the base learner."""
    X, y = pool_of(t)

    def run():
        fresh = clone(learner)
        if query:
            fresh.query(X)
        given = fresh.fit(X, y).estimator_
        rows = given.X_[:, 0].astype(int)
        assert (given.y_[given.is_labelled_] == y[rows[given.is_labelled_]]).all()
        assert (given.y_[~given.is_labelled_] == -1).all()
        return tuple(rows[given.is_labelled_].tolist()), tuple(rows[~given.is_labelled_].tolist())

    found = defaultdict(Fraction)
    for one in enumerate_runs(run, kind):
        found[one.result] += one.lower
    assert sum(found.values()) == 1
    return dict(found)


def as_sets(found):
    """The same where the base learner does not look at the order of rows."""
    sets = defaultdict(Fraction)
    for (labelled, unlabelled), share in found.items():
        sets[tuple(sorted(labelled)), tuple(sorted(unlabelled))] += share
    return dict(sets)


def replaced(part, old, new):
    return tuple(sorted(new if row == old else row for row in part))


@cache
def samples_and_steps(t, m, u):
    """All m labelled and u unlabelled of t + 1 rows, and which differ in one row of one kind."""
    rows = range(t + 1)
    parts = [list(itertools.combinations_with_replacement(rows, size)) for size in (m, u)]
    samples = {sample: number for number, sample in enumerate(itertools.product(*parts))}
    steps = set()
    for sample, kind in itertools.product(samples, (0, 1)):
        for position, row in itertools.product(range(len(sample[kind])), rows):
            part = sample[kind]
            moved = tuple(sorted((*part[:position], row, *part[position + 1 :])))
            steps.add((sample, (moved, sample[1]) if kind == 0 else (sample[0], moved)))
    pairs = [(samples[a], samples[b]) for a, b in steps if a != b]
    return samples, np.array(pairs)


def bounded(pairs, size, epsilon):
    """Rows of A with A p <= b for all p(a) <= e^ε p(b) + δ."""
    lines = np.repeat(np.arange(len(pairs)), 2)
    values = np.tile([1.0, -math.exp(epsilon)], len(pairs))
    return coo_array((values, (lines, pairs.ravel())), shape=(len(pairs), size))


def mixtures(found, t, row, samples):
    """Weights of the samples when row t has taken the place of `row`, and when it has not."""
    before, after = np.zeros((2, len(samples)))
    for (labelled, unlabelled), share in found.items():
        before[samples[labelled, unlabelled]] += float(share)
        moved = replaced(labelled, row, t), replaced(unlabelled, row, t)
        after[samples[moved]] += float(share)
    return before, after


def swapped(found, one, other):
    """The same samples after two rows have changed places."""
    places = {one: other, other: one}

    def moved(part):
        return tuple(sorted(places.get(row, row) for row in part))

    return {(moved(labelled), moved(unlabelled)): found[labelled, unlabelled]
            for labelled, unlabelled in found}  # fmt: skip


def unlike_rows(found, t):
    """Rows of which no two may change places without any change of the samples."""
    rows = []
    for row in range(t):
        if all(swapped(found, row, other) != found for other in rows):
            rows.append(row)
    return rows


def worst_epsilon(found, t, epsilon):
    """The ε of the mixture under the worst ε-private base learner, for all pairs of pools.

    One outcome with probabilities p is enough, and scaled down far enough its complement is free.
    Pools of distinct rows are the worst: a base learner may ignore what tells them apart.
    """
    (labelled, unlabelled), *_ = found
    samples, pairs = samples_and_steps(t, len(labelled), len(unlabelled))
    A, worst = bounded(pairs, len(samples), epsilon), 0.0
    for row in unlike_rows(found, t):
        before, after = mixtures(found, t, row, samples)
        result = linprog(-after, A_ub=A, b_ub=np.zeros(len(pairs)), A_eq=before[None], b_eq=[1.0])
        assert result.success
        worst = max(worst, math.log(-result.fun))
    return worst


def worst_delta(found, t, epsilon, delta, whole):
    """The δ of the mixture at the ε `whole` under the worst (ε, δ)-private base learner."""
    (labelled, unlabelled), *_ = found
    samples, pairs = samples_and_steps(t, len(labelled), len(unlabelled))
    one = bounded(pairs, len(samples), epsilon)
    # the complement, 1 - p(a) <= e^ε (1 - p(b)) + δ
    two = bounded(pairs, len(samples), epsilon) * -1
    A = coo_array(np.concatenate([one.toarray(), two.toarray()]))
    b = np.repeat([delta, delta + math.exp(epsilon) - 1], len(pairs))
    worst = 0.0
    for row in unlike_rows(found, t):
        before, after = mixtures(found, t, row, samples)
        for p, q in ((before, after), (after, before)):
            result = linprog(math.exp(whole) * q - p, A_ub=A, b_ub=b, bounds=(0, 1))
            assert result.success
            worst = max(worst, -result.fun)
    return worst


def table(heading):
    """Rows of the first table under a heading of the proof, as lists of texts."""
    text = PROOF.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


SIZES = [(4, 2, 1), (5, 2, 1), (5, 3, 1), (5, 3, 2), (6, 2, 1), (6, 3, 1), (6, 3, 2)]


def learner_of(n, m, roles, **params):
    return SubsamplingActiveLearner(Recorder(), n_labels=m, n_subsample=n, roles=roles, **params)


class TestPrivacy:
    @pytest.mark.parametrize(("t", "n", "m"), [(4, 2, 1), (4, 3, 1), (4, 3, 2), (4, 3, 3)])
    @pytest.mark.parametrize("query", [False, True])
    def test_random_roles_are_a_uniform_sequence(self, t, n, m, query):
        found = views(learner_of(n, m, "random"), t, query=query)
        sequences = itertools.permutations(range(t), n)
        share = Fraction(1, math.perm(t, n))
        assert found == {(rows[:m], rows[m:]): share for rows in sequences}

    @pytest.mark.parametrize(("t", "n", "m"), [(4, 2, 1), (4, 3, 1), (4, 3, 2)])
    @pytest.mark.parametrize("query", [False, True])
    def test_the_papers_roles_are_those_of_algorithm_4(self, t, n, m, query):
        found = as_sets(views(learner_of(n, m, "paper"), t, query=query))
        drawn = itertools.combinations(range(t), n)
        assert found == {(rows[:m], rows[m:]): Fraction(1, math.comb(t, n)) for rows in drawn}

    def test_supervised_base_learners_get_the_rows_asked_for(self):
        for roles in ("random", "paper"):
            learner = SubsamplingActiveLearner(Supervised(), n_labels=2, n_subsample=3, roles=roles)
            found = views(learner, 4)
            assert found == {(r, ()): Fraction(1, 12) for r in itertools.permutations(range(4), 2)}

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("roles", ["random", "paper"])
    @pytest.mark.parametrize(("t", "n", "m"), SIZES)
    def test_the_worst_base_learner_stays_within_the_receipt(self, t, n, m, roles):
        """And the table of the proof holds its values, at ε* = 1."""
        learner = learner_of(n, m, roles, epsilon=2.0, base_epsilon=1.0)
        spent = fitted(learner, t).privacy_
        assert spent.mechanisms[0].epsilon == 1.0
        worst = worst_epsilon(as_sets(views(learner, t)), t, 1.0)
        assert worst <= spent.epsilon + 1e-9
        if roles == "random":
            assert worst == pytest.approx(spent.epsilon, abs=1e-9)
        rows = [row for row in table("Attained") if row[:4] == [str(t), str(n), str(m), roles]]
        assert [row[4:6] for row in rows] == [[f"{spent.epsilon:.4f}", f"{worst:.4f}"]]

    @pytest.mark.parametrize("roles", ["random", "paper"])
    def test_auto_stays_within_epsilon(self, roles):
        for t, n, m in [(4, 2, 1), (6, 3, 1)]:
            learner = learner_of(n, m, roles, epsilon=0.5)
            base = fitted(learner, t).estimator_.epsilon
            worst = worst_epsilon(as_sets(views(learner, t)), t, base)
            assert base > 0.5
            assert worst <= 0.5 + 1e-9
            assert roles == "paper" or worst == pytest.approx(0.5, abs=1e-9)

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("roles", ["random", "paper"])
    @pytest.mark.parametrize(("t", "n", "m"), SIZES)
    def test_delta(self, t, n, m, roles):
        learner = learner_of(n, m, roles, epsilon=2.0, base_epsilon=1.0, delta=0.01)
        model = fitted(learner, t)
        base, receipt = model.estimator_, model.privacy_
        assert base.delta == receipt.mechanisms[0].delta > 0.01
        found = as_sets(views(learner, t))
        worst = worst_delta(found, t, 1.0, base.delta, receipt.epsilon)
        assert worst <= 0.01 + 1e-9
        assert roles == "paper" or worst == pytest.approx(0.01, abs=1e-9)
        rows = [row for row in table("Attained") if row[:4] == [str(t), str(n), str(m), roles]]
        assert [row[6:] for row in rows] == [["0.0100", f"{worst:.4f}"]]

    @pytest.mark.parametrize("roles", ["random", "paper"])
    @pytest.mark.parametrize(("t", "n", "m"), [(4, 2, 1), (4, 3, 1), (4, 3, 2)])
    def test_all_pools_of_a_tiny_domain(self, t, n, m, roles):
        """Exactly known base learners on every pool over 2 values and 2 labels, all neighbours."""
        learner = learner_of(n, m, roles, epsilon=0.4)
        base = fitted(learner, t).estimator_.epsilon
        found = as_sets(views(learner, t))
        kinds = list(itertools.product((0, 1), (0, 1)))
        for kernel in (thresholds, witness, labelled_witness):
            outcomes = [
                sum(
                    float(share)
                    * kernel([pool[i] for i in labelled], [pool[i][0] for i in others], base)
                    for (labelled, others), share in found.items()
                )
                for pool in itertools.product(kinds, repeat=t)
            ]
            logs = np.log(outcomes).reshape(*[len(kinds)] * t, -1)  # an axis for each row
            worst = max(np.ptp(logs, axis=position).max() for position in range(t))
            assert worst <= 0.4 + 1e-9
            if kernel is witness and roles == "random":
                assert worst == pytest.approx(0.4, abs=1e-9)  # attained

    def test_who_knows_the_rows_asked_for_is_held_to_the_base_budget_only(self):
        """Definition 5.3 is not Definition 5.4."""
        learner = learner_of(3, 1, "random", epsilon=0.5)
        found, base = as_sets(views(learner, 5)), fitted(learner, 5).estimator_
        given = {view: 5 * share for view, share in found.items() if view[0] == (2,)}
        assert sum(given.values()) == 1
        assert worst_epsilon(given, 5, base.epsilon) == pytest.approx(base.epsilon)
        assert f"ε = {base.epsilon:.4g}" in fitted(learner, 5).privacy_.assumptions[-1]

    @pytest.mark.parametrize("roles", ["random", "paper"])
    def test_transcript_private(self, roles):
        """Given the rows asked for, every pool is as private as was paid for."""
        learner = SubsamplingActiveLearner(
            Recorder(), n_labels=2, epsilon=0.5, roles=roles, transcript_private=True
        )
        model = fitted(learner, 4)
        assert model.estimator_.epsilon == model.privacy_.epsilon == 0.5
        found = as_sets(views(learner, 4))
        assert set(found) == {  # the whole pool
            (labelled, tuple(sorted({0, 1, 2, 3} - {*labelled}))) for labelled, _ in found
        }
        for (labelled, _), share in found.items():
            given = {view: s / share for view, s in found.items() if view[0] == labelled}
            assert worst_epsilon(given, 4, model.estimator_.epsilon) <= 0.5 + 1e-9
        assert len(model.queried_indices_) == 2
        assert "Definition 5.4" in model.privacy_.assumptions[-1]

    @pytest.mark.parametrize(
        "params",
        [{"estimator": Supervised()}, {"n_subsample": 20}, {"roles": "paper", "n_subsample": 20},
         {"base_epsilon": 0.5}, {"delta": 1e-6, "n_subsample": 20}],
    )  # fmt: skip
    def test_transcript_private_claims_nothing_from_secrecy(self, params):
        params = {"estimator": Recorder(), "n_labels": 10, "epsilon": 0.5, **params}
        model = SubsamplingActiveLearner(transcript_private=True, **params).fit(X_FEW, Y_FEW)
        assert model.estimator_.epsilon == model.privacy_.epsilon == 0.5
        assert model.estimator_.delta == model.privacy_.delta == params.get("delta", 0)
        with pytest.raises(ValueError, match=r"costs ε = 0\.6"):
            model.set_params(base_epsilon=0.6, n_subsample=10).fit(X_FEW, Y_FEW)

    def test_wrong_budgets_would_be_caught(self):
        """The checks above fail where a rate or a bound is wrong."""
        half, third = Fraction(1, 2), Fraction(1, 3)
        found = {
            roles: as_sets(views(learner_of(3, 1, roles, epsilon=0.5), 6))
            for roles in ("paper", "random")
        }

        def worst(roles, rate, accounted):
            return worst_epsilon(found[roles], 6, base_epsilon(half, rate, roles=accounted))

        assert max(worst(roles, half, roles) for roles in found) <= 0.5 + 1e-9
        assert worst("paper", half, "random") > 0.55  # the bound of random roles
        assert worst("random", third, "random") > 0.6  # the rate of other sizes

        class Same(EnumeratedRun):
            def choose_positions(self, kind, sizes, sample, ledger):
                return np.arange(sizes[-1])

        learner = learner_of(3, 1, "random", epsilon=0.5)
        always = as_sets(views(learner, 6, kind=Same))
        assert worst_epsilon(always, 6, base_epsilon(half, half)) > 0.6  # always the same rows

    @pytest.mark.parametrize("mutant", [Fraction(2, 3), Fraction(9, 10)])
    def test_the_ledger_refuses_what_a_wrong_rate_allows(self, monkeypatch, mutant):
        monkeypatch.setattr(
            subsampling_plan,
            "base_epsilon",
            lambda epsilon, rate, roles: base_epsilon(epsilon, rate * mutant, roles=roles),
        )
        monkeypatch.setattr(subsampling_plan, "basic_price", lambda event: (0, 0))
        with pytest.raises(PrivacyBudgetError, match="must not cost more"):
            learner_of(3, 1, "random", epsilon=0.5).fit(*pool_of(6))


def fitted(learner, t):
    with EnumeratedRun():
        return clone(learner).fit(*pool_of(t))


def exponential(errors, epsilon):
    """Outcome probabilities of the exponential mechanism for counts of sensitivity 1."""
    weights = np.exp(-epsilon * np.asarray(errors, dtype=float) / 2)
    return weights / weights.sum()


def thresholds(labelled, unlabelled, epsilon):
    """Errors of 3 thresholds and their opposites; unlabelled rows break ties."""
    rules = [(cut, sign) for cut in (0, 1, 2) for sign in (0, 1)]
    return exponential(
        [
            sum((x >= cut) != (label == sign) for x, label in labelled)
            + sum(x >= cut for x in unlabelled)
            for cut, sign in rules
        ],
        epsilon,
    )


def witness(labelled, unlabelled, epsilon):
    """Whether somebody has the value 1, in the order of most telling."""
    seen = 1 in unlabelled or any(x == 1 for x, _ in labelled)
    tell = 1 / (1 + math.exp(epsilon))
    # a rare outcome: e^ε times as likely where it is true
    return np.array([1e-6 * (1 - tell if seen else tell), 1 - 1e-6])


def labelled_witness(labelled, unlabelled, epsilon):
    return witness([row for row in labelled if row == (1, 1)], [], epsilon)


class TestRoles:
    def test_the_rows_asked_for_are_uniform(self):
        """Each subset is one outcome of one draw, whose uniformity has a test of its own."""
        X, _ = pool_of(5)
        learner = SubsamplingActiveLearner(n_labels=2)
        runs = enumerate_runs(lambda: tuple(learner.query(X).tolist()))
        assert {run.result for run in runs} == {*itertools.combinations(range(5), 2)}
        assert [(run.lower, run.upper) for run in runs] == [(Fraction(1, 10),) * 2] * 10

    def test_query_looks_at_the_size_only(self):
        learner = SubsamplingActiveLearner(n_labels=5, random_state=3)
        rng = np.random.default_rng(0)
        first, second = (learner.query(rng.normal(size=(50, 2))) for _ in range(2))
        assert (first == second).all()
        assert (np.diff(first) > 0).all()

    def test_fit_alone_asks_as_query_does(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 1)), rng.integers(0, 2, 60)
        for roles in ("random", "paper"):
            learner = learner_of(20, 8, roles, random_state=5)
            asked = learner.query(X)
            told = np.full(60, -1)
            told[asked] = y[asked]
            both, alone = learner.fit(X, told).estimator_, clone(learner).fit(X, y).estimator_
            assert (both.X_ == alone.X_).all()
            assert (both.y_ == alone.y_).all()
            assert both.random_state == alone.random_state is not None

    def test_a_seed_does_not_draw_the_rest_like_the_rows_asked_for(self):
        X = np.arange(60.0)[:, None]
        learner = learner_of(20, 8, "random", random_state=5)
        asked = learner.query(X)
        given = learner.fit(X, np.arange(60) % 2).estimator_
        rest = np.sort(given.X_[~given.is_labelled_][:, 0])
        others = np.delete(np.arange(60), asked)
        again = others[Ledger(1, random_state=5).subset(52, 12)]
        assert set(rest) != set(again)

    @pytest.mark.parametrize(
        ("params", "asked", "drawn", "base"),
        [
            # ε* = 1 where the pool allows more rows than are labelled (Theorem 5.8)
            ({"epsilon": 0.1}, 100, 612, 1.0),
            ({"epsilon": 0.1, "roles": "paper"}, 100, 234, 1.0),
            ({"epsilon": 1.0}, 100, 10_000, 1.0),
            ({"epsilon": 2.0}, 100, 10_000, 2.0),
            ({"epsilon": 0.1, "n_labels": 2000}, 2000, 2000, 0.4226),
            ({"epsilon": 0.1, "n_labels": 20_000}, 10_000, 10_000, 0.1),
            ({"epsilon": 0.1, "n_subsample": 300}, 100, 300, 1.5062),
            ({"epsilon": 0.1, "n_subsample": 30_000}, 100, 10_000, 0.1),
            ({"epsilon": 0.1, "base_epsilon": 0.5}, 100, 1621, 0.5),
            ({"epsilon": 0.1, "base_epsilon": 0.05}, 100, 10_000, 0.05),
            ({"epsilon": 0.1, "transcript_private": True}, 100, 10_000, 0.1),
        ],
    )
    def test_sizes(self, params, asked, drawn, base):
        X = np.zeros((10_000, 1))
        learner = SubsamplingActiveLearner(Recorder(), **params).fit(X, np.arange(10_000) % 2)
        given, receipt = learner.estimator_, learner.privacy_
        assert len(given.X_) == drawn
        assert given.is_labelled_.sum() == asked
        assert given.epsilon == pytest.approx(base, rel=2e-3)
        assert receipt.epsilon <= params["epsilon"]
        if "base_epsilon" not in params:
            assert receipt.epsilon == params["epsilon"]
        assert receipt.mechanisms[0].name == f"Recorder on {drawn} rows drawn from 10000, " + (
            f"{asked} labelled"
        )

    def test_a_given_budget_states_what_it_costs(self):
        X, y = np.zeros((1000, 1)), np.arange(1000) % 2
        learner = SubsamplingActiveLearner(Supervised(), n_labels=50, base_epsilon=1.0).fit(X, y)
        assert learner.privacy_.epsilon == subsampled_epsilon(1, Fraction(1, 20))
        learner.set_params(epsilon=0.05)
        with pytest.raises(ValueError, match=r"costs ε = 0\.08242"):
            learner.fit(X, y)


X_FEW = np.linspace(0, 1, 40)[:, None]
Y_FEW = (X_FEW[:, 0] > 0.5).astype(int)


class TestFit:
    def asked(self, **params):
        learner = SubsamplingActiveLearner(Recorder(), n_labels=10, random_state=0, **params)
        return learner, learner.query(X_FEW)

    @pytest.mark.parametrize("fill", [-1.0, np.nan, 7.0])
    def test_other_labels_are_not_read(self, fill):
        learner, asked = self.asked()
        y = np.full(40, fill)
        y[asked] = Y_FEW[asked]
        given = learner.fit(X_FEW, y).estimator_
        assert learner.classes_.tolist() == [0, 1]
        rows = given.X_[given.is_labelled_][:, 0]
        assert (np.sort(rows) == X_FEW[asked, 0]).all()
        assert (given.y_[given.is_labelled_] == (rows > 0.5)).all()

    def test_marks_among_text(self):
        learner, asked = self.asked()
        y = np.full(40, -1, dtype=object)
        y[asked] = np.array(["no", "yes"])[Y_FEW[asked]]
        assert learner.fit(X_FEW, y).classes_.tolist() == ["no", "yes"]

    @pytest.mark.parametrize("fill", [2.5, "a private text", None, 7])
    def test_labels_not_asked_for_choose_no_type(self, fill):
        learner, asked = self.asked()
        y = [fill] * 40
        for row in asked:
            y[row] = int(Y_FEW[row])
        model = learner.fit(X_FEW, y)
        assert model.classes_.dtype == model.estimator_.y_.dtype == int

    def test_labels_not_asked_for_leave_no_width(self):
        """Nor do they choose the room that the others take, which a pickle would tell."""
        names, models = np.array(["no", "yes"])[Y_FEW], []
        for width, fill in ((3, "-1"), (40, "a private text")):
            learner, asked = self.asked()
            y = np.full(40, fill, dtype=f"<U{width}")
            y[asked] = names[asked]
            models.append([learner.fit(X_FEW, y), clone(learner).fit(X_FEW, names.astype(y.dtype))])
        for narrow, wide in zip(*models, strict=True):
            assert narrow.classes_.dtype == wide.classes_.dtype == "<U3"
            assert pickle.dumps(narrow) == pickle.dumps(wide)

    def test_every_row_asked_for_needs_a_label(self):
        learner, asked = self.asked()
        y = np.full(40, -1)
        message = "selected by query"
        with pytest.raises(ValueError, match=message):
            learner.fit(X_FEW, y)
        y[asked] = Y_FEW[asked]
        y[asked[0]] = -1
        for model in (learner, clone(learner)):
            with pytest.raises(ValueError, match=message):
                model.fit(X_FEW, y)
        learner.classes = [0, 1]
        with pytest.raises(ValueError, match="missing labels"):
            learner.fit(X_FEW, y)
        y[asked] = Y_FEW[asked]
        assert learner.fit(X_FEW, y).classes_.tolist() == [0, 1]  # nothing was lost by failing

    def test_the_pool_and_the_parameters_are_those_of_query(self):
        learner, _ = self.asked()
        with pytest.raises(ValueError, match="called with 40"):
            learner.fit(X_FEW[:-1], Y_FEW[:-1])
        learner.set_params(n_labels=5)
        with pytest.raises(ValueError, match="Call query again"):
            learner.fit(X_FEW, Y_FEW)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"estimator": FunctionTransformer()}, "'estimator' parameter"),
            ({"n_labels": 0}, "'n_labels' parameter"),
            ({"roles": "all"}, "'roles' parameter"),
            ({"base_epsilon": "all"}, "'base_epsilon' parameter"),
            ({"n_subsample": 5}, "n_subsample must"),
            ({"delta": 0.3}, "delta must be below"),
        ],
    )
    def test_parameters_are_checked_by_query_and_by_fit(self, params, message):
        params = {"estimator": Recorder(), "n_labels": 10, "epsilon": 0.1, **params}
        learner = SubsamplingActiveLearner(**params)
        for call in (lambda: learner.query(X_FEW), lambda: learner.fit(X_FEW, Y_FEW)):
            with pytest.raises(ValueError, match=message):
                call()

    @pytest.mark.parametrize("public", [None, [[0.25], [0.5], [0.75]]])
    def test_every_label_is_known_to_a_base_learner_that_cannot_be_told(self, public):
        """Which labels were drawn is not what it may tell: one more row for each."""
        y = Y_FEW.copy()
        y[0] = 2  # a label that is hardly ever drawn
        learner = SubsamplingActiveLearner(Untold(), n_labels=5, random_state=2)
        model = learner.fit(X_FEW, y, X_public=public)
        assert model.estimator_.classes_.tolist() == [0, 1, 2]
        assert len(model.estimator_.X_) == 5 + 3
        assert (model.estimator_.X_[5:] == (0 if public is None else 0.5)).all()
        asked = learner.query(X_FEW)
        assert 0 not in asked
        # with query, the labels are those that were given: it can only miss declared ones
        assert learner.fit(X_FEW, y).estimator_.classes_.tolist() == [0, 1]

    def test_what_the_base_learner_can_do(self):
        model = SubsamplingActiveLearner(Untold(), n_labels=5).fit(X_FEW, Y_FEW)
        assert model.predict_proba(X_FEW).shape == (40, 2)
        assert not hasattr(model, "decision_function")
        assert not hasattr(SubsamplingActiveLearner(Recorder()), "predict_proba")

    def test_public_rows_are_handed_on(self):
        learner, _ = self.asked()
        public = np.linspace(0, 1, 7)[:, None]
        learner.fit(X_FEW, Y_FEW, X_public=public)
        assert (learner.estimator_.X_public_ == public).all()
        assert learner.privacy_.n_public == 7

    def test_the_receipt(self):
        receipt = SubsamplingActiveLearner(Recorder(), n_labels=10).fit(X_FEW, Y_FEW).privacy_
        assert (receipt.epsilon, receipt.delta, receipt.unit) == (1.0, 0.0, REPLACE_ONE)
        assert receipt.n_private == 40
        assert receipt.secure_randomness
        assert "the set of labels in y may be known" in receipt.assumptions
        assert "Definition 5.3" in receipt.assumptions[-1]
        declared = SubsamplingActiveLearner(Recorder(), n_labels=10, classes=[0, 1])
        assert not any(
            "set of labels" in a for a in declared.fit(X_FEW, Y_FEW).privacy_.assumptions
        )
        for seeded in ({"random_state": 0}, {"estimator": Recorder(random_state=0)}):
            model = SubsamplingActiveLearner(**{"estimator": Recorder(), **seeded})
            assert not model.fit(X_FEW, Y_FEW).privacy_.secure_randomness


class TestKept:
    def test_nothing_secret_is_left_after_fit(self):
        learner = SubsamplingActiveLearner(SemiPrivateClassifier(Thresholds()), n_labels=10)
        with pytest.warns(match="No public rows"):
            learner.fit(X_FEW, Y_FEW)
        public = {
            *("estimator_", "classes_", "privacy_", "n_features_in_"),
            *("guarantee_", "guarantee_reason_", "_kinds"),
        }
        assert set(vars(learner)) == {*learner.get_params(deep=False), *public}
        asked = learner.query(X_FEW)
        assert "queried_indices_" in vars(learner)
        asked[:] = 0  # a copy: what is remembered is not changed by the caller
        assert len(set(learner.queried_indices_)) == 10
        with pytest.warns(match="No public rows"):
            learner.fit(X_FEW, Y_FEW)
        assert set(vars(learner)) == {*learner.get_params(deep=False), *public}


USED = "one fit only"
COPIES = [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]


def queried(**params):
    learner = SubsamplingActiveLearner(**{"estimator": Recorder(), "n_labels": 10, **params})
    asked = learner.query(X_FEW)
    y = np.full(40, -1)
    y[asked] = Y_FEW[asked]
    return learner, y


class TestOneFit:
    """Fits that share their secret rows lose more than the sum of what their receipts say."""

    def test_what_fits_would_lose_together(self):
        """The formula of the proof, reached by two fits on the same rows; and its example."""
        learner = SubsamplingActiveLearner(Supervised(), n_labels=1)
        found, base = views(learner, 16), fitted(learner, 16).estimator_.epsilon
        seen = {labelled for labelled, _ in found if 5 in labelled}
        # an event of two witnesses of row 5, each private at the base learner's budget
        told = sum(
            float(share) * math.exp(2 * base if labelled in seen else 0)
            for (labelled, _), share in found.items()
        )
        lost = math.log(1 + (math.exp(2 * base) - 1) / 16)
        assert math.log(told) == pytest.approx(lost)
        # nothing of that budget loses more
        assert worst_epsilon(found, 16, 2 * base) == pytest.approx(lost)
        model = SubsamplingActiveLearner(Supervised(), n_labels=2).fit(*pool_of(33))
        together = math.log(1 + 2 / 33 * (math.exp(2 * model.estimator_.epsilon) - 1))
        text = PROOF.read_text().split("## A query is good for one fit\n")[1].split("\n## ")[0]
        assert (model.privacy_.epsilon, f"{together:.2f}") == (1.0, "3.97")
        assert "33 rows" in text
        assert f"{together:.2f}" in text

    @pytest.mark.parametrize("copied", COPIES)
    def test_of_copies_under_a_budget_one_is_fitted(self, copied):
        budget = PrivacyBudget(4.0)
        learner, y = queried(budget=budget)
        first, second = copied(learner), copied(learner)
        assert first.fit(X_FEW, y).privacy_.entry == 1
        for other in (second, learner, copied(learner)):
            with pytest.raises(PrivacyBudgetError, match=USED):
                other.fit(X_FEW, y)
        assert budget.spent().epsilon == pytest.approx(1.0)
        learner.query(X_FEW)
        assert learner.fit(X_FEW, Y_FEW).privacy_.entry == 2

    @pytest.mark.parametrize("copied", COPIES)
    def test_without_a_budget_a_query_does_not_travel(self, copied):
        learner, y = queried()
        with pytest.raises(PrivacyBudgetError, match="copied or pickled"):
            copied(learner)
        twin = clone(learner)
        vars(twin).update(vars(learner))
        assert copied(learner.fit(X_FEW, y)).classes_.tolist() == [0, 1]
        with pytest.raises(PrivacyBudgetError, match=USED):
            twin.fit(X_FEW, y)

    def test_nor_to_another_process(self, monkeypatch):
        learner, y = queried()
        with monkeypatch.context() as patch:  # as after a fork
            patch.setattr(ticket.os, "getpid", lambda: -1)
            with pytest.raises(PrivacyBudgetError, match=USED):
                learner.fit(X_FEW, y)
        assert learner.fit(X_FEW, y).privacy_.epsilon == 1.0

    def test_a_budget_with_a_path_takes_it_there_once(self, tmp_path):
        base = SemiPrivateClassifier(Thresholds(), bounds=(0, 1))
        budget = PrivacyBudget(2.0, path=tmp_path / "budget.sqlite")
        learner, y = queried(estimator=base, budget=budget, classes=[0, 1])
        (tmp_path / "query.pickle").write_bytes(pickle.dumps((learner, X_FEW, y)))
        code = (
            "import pickle, sys, warnings; warnings.simplefilter('ignore')\n"
            "learner, X, y = pickle.load(open(sys.argv[1], 'rb'))\n"
            "print(learner.fit(X, y).privacy_.entry)"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "query.pickle")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == "1"
        with pytest.raises(PrivacyBudgetError, match=USED):
            learner.fit(X_FEW, y)
        assert budget.spent().epsilon == pytest.approx(1.0)

    def test_the_purse_is_that_of_the_query(self):
        """Else a copy could pay elsewhere, where nobody knows that the query was used."""
        learner, y = queried(budget=PrivacyBudget(2.0))
        for budget in (None, PrivacyBudget(2.0), learner.budget.group("a")):
            other = copy.copy(learner).set_params(budget=budget)
            with pytest.raises(ValueError, match="Call query again"):
                other.fit(X_FEW, y)
        assert learner.fit(X_FEW, y).privacy_.entry == 1

    @pytest.mark.parametrize("budget", [None, PrivacyBudget(4.0)])
    def test_what_fails_before_the_base_learner_runs_has_used_nothing(self, budget):
        base = Recorder(classes=[0])
        learner, y = queried(estimator=base, budget=budget)
        with pytest.raises(ValueError, match="must list all labels"):
            learner.fit(X_FEW, y)
        learner.set_params(estimator=Recorder())
        for bad in (np.full(40, -1), y[1:]):
            with pytest.raises(ValueError):
                learner.fit(X_FEW, bad)
        assert budget is None or not budget.ledger
        assert learner.fit(X_FEW, y).privacy_.epsilon == 1.0

    @pytest.mark.parametrize("budget", [None, PrivacyBudget(4.0)])
    def test_a_base_learner_that_fails_has_used_it(self, budget):
        class Failing(Recorder):
            def fit(self, X, y, *, is_labelled):
                raise KeyError(X)

        learner, y = queried(estimator=Failing(), budget=budget)
        with pytest.raises(ValueError, match="could not be fitted"):
            learner.fit(X_FEW, y)
        with pytest.raises(PrivacyBudgetError, match=USED):
            learner.set_params(estimator=Recorder()).fit(X_FEW, y)


class TestBudget:
    @pytest.mark.parametrize("roles", ["random", "paper"])
    def test_the_entry_is_what_happens(self, roles):
        budget = PrivacyBudget(1.0)
        learner = learner_of(20, 10, roles, epsilon=0.4, budget=budget)
        model = learner.fit(X_FEW, Y_FEW)
        (entry,) = budget.ledger
        base = Pure(exact_fraction(model.estimator_.epsilon))
        assert entry.event == model.privacy_.event == Subsampled(Fraction(1, 2), base, roles)
        assert (entry.who, entry.n_rows) == ("SubsamplingActiveLearner", 40)
        assert budget.spent().epsilon == pytest.approx(0.4)
        assert budget.spent().epsilon <= model.privacy_.epsilon == 0.4

    def test_delta(self):
        budget = PrivacyBudget(1.0, 1e-3, accountant="pure")
        learner_of(20, 10, "random", epsilon=0.4, delta=1e-4, budget=budget).fit(X_FEW, Y_FEW)
        assert budget.spent() == (0.4, 1e-4)

    def test_it_refuses_before_rows_are_read(self):
        budget = PrivacyBudget(0.5)
        learner = learner_of(20, 10, "random", budget=budget)
        unread = np.full((40, 1), np.nan)
        for call in (lambda: learner.query(unread), lambda: learner.fit(unread, Y_FEW)):
            with pytest.raises(PrivacyBudgetError, match=r"ε = 1.* ε = 0\.5"):
                call()
        learner.set_params(base_epsilon=0.5).fit(X_FEW, Y_FEW)  # asks for less
        assert 0 < budget.spent().epsilon < 0.5


WHO = np.array([0, 1, 0, 0, 1, 2])  # three rows of the first, of which two count


class TestPersons:
    @pytest.mark.usefixtures("keep_first_rows")
    @pytest.mark.parametrize("roles", ["random", "paper"])
    @pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 2), (2, 2)])
    def test_all_pools_of_a_tiny_domain(self, roles, n, m):
        """Exactly known base learners, all neighbours that differ in all rows of a person."""
        learner = learner_of(n, m, roles, epsilon=0.4, max_rows_per_group=2)
        X, y = pool_of(len(WHO))

        def run():
            given = clone(learner).fit(X, y, groups=WHO).estimator_
            rows = given.X_[:, 0].astype(int)
            sides = rows[given.is_labelled_], rows[~given.is_labelled_]
            return given.epsilon, tuple(tuple(sorted(side.tolist())) for side in sides)

        found = defaultdict(Fraction)
        for one in enumerate_runs(run):
            base, view = one.result
            found[view] += one.lower
        assert not any(3 in {*labelled, *others} for labelled, others in found)
        kinds, counting = list(itertools.product((0, 1), (0, 1))), [0, 1, 2, 4, 5]
        for kernel in (thresholds, witness, labelled_witness):
            outcomes = []
            for values in itertools.product(kinds, repeat=len(counting)):
                pool = dict(zip(counting, values, strict=True))
                outcomes.append(
                    sum(
                        float(share)
                        * kernel([pool[i] for i in labelled], [pool[i][0] for i in others], base)
                        for (labelled, others), share in found.items()
                    )
                )
            # an axis for each row that counts: a person's rows are replaced together
            logs = np.log(outcomes).reshape(*[len(kinds)] * len(counting), -1)
            worst = max(
                np.ptp(logs, axis=tuple(np.flatnonzero(WHO[counting] == person))).max()
                for person in (0, 1, 2)
            )
            assert worst <= 0.4 + 1e-9
            assert kernel is not witness or worst > 0.25  # more than one row may lose

    @pytest.mark.usefixtures("keep_first_rows")
    @pytest.mark.parametrize("roles", ["random", "paper"])
    @pytest.mark.parametrize("delta", [0.0, 1e-4])
    def test_the_whole_is_run_at_what_a_row_may_have(self, roles, delta):
        groups = np.repeat(np.arange(20), 3)[np.random.default_rng(0).permutation(60)]
        kept = np.sort(np.concatenate([np.flatnonzero(groups == who)[:2] for who in range(20)]))
        X, y = pool_of(60)
        settings = {"random_state": 3, "n_subsample": 20}
        persons = learner_of(0, 8, roles, max_rows_per_group=2, delta=delta)
        persons.set_params(**settings)
        asked = persons.query(X, groups=groups)
        assert np.isin(asked, kept).all()
        model = persons.fit(X, y, groups=groups)
        # two rows at (ε, δ) are (2 ε, (1 + e^ε) δ)
        shared = {"epsilon": 0.5, "delta": delta / 2 * math.exp(-1) * (1 - 2**-40)}
        plain = learner_of(0, 8, roles, **shared).set_params(**settings).fit(X[kept], y[kept])
        for name in ("X_", "y_", "epsilon", "delta"):
            assert np.array_equal(*(getattr(one.estimator_, name) for one in (model, plain)))
        assert (model.privacy_.epsilon, model.privacy_.delta) == (1.0, delta)
        assert model.privacy_.event == (
            Approximate(Fraction(1), exact_fraction(delta)) if delta else Pure(Fraction(1))
        )
        assert model.privacy_.mechanisms[0].epsilon == plain.privacy_.mechanisms[0].epsilon
        assert model.privacy_.unit == "replace one person, up to 2 private rows"
        assert model.privacy_.n_private == 40
        text = "to one row, ε of the receipt applies to a person"
        assert any(text in assumption for assumption in model.privacy_.assumptions)

    def test_a_given_budget_states_what_it_costs_a_person(self):
        learner = SubsamplingActiveLearner(
            Supervised(), n_labels=10, base_epsilon=0.5, max_rows_per_group=2
        )
        model = learner.fit(X_FEW, Y_FEW, groups=np.arange(40) // 2)
        assert model.privacy_.epsilon == 2 * subsampled_epsilon(Fraction(1, 2), Fraction(1, 4))

    def test_a_fit_has_the_pool_of_its_query(self):
        """Without a seed, another choice among the rows of a person would miss queried rows."""
        groups = np.arange(40) // 4
        for _ in range(5):
            learner = learner_of(10, 8, "random", max_rows_per_group=1)
            queried = learner.query(X_FEW, groups=groups)
            assert len(set(groups[queried])) == len(queried)
            pending = learner._pending
            model = learner.fit(X_FEW, Y_FEW, groups=groups)
            assert model.privacy_.n_private == 10
            assert model.privacy_.n_omitted == 30
            positions = {tuple(row): position for position, row in enumerate(X_FEW.tolist())}
            used = [positions[tuple(row)] for row in model.estimator_.X_.tolist()]
            assert pending.is_counted[used].all()
            assert set(queried) <= set(used)

    def test_groups_are_those_of_the_query(self):
        learner, groups = learner_of(20, 10, "random", max_rows_per_group=2), np.arange(40) // 3
        learner.query(X_FEW, groups=groups)
        with pytest.raises(ValueError, match="Call query again"):
            learner.fit(X_FEW, Y_FEW, groups=groups[::-1])
        for call in (lambda: learner.query(X_FEW), lambda: learner.fit(X_FEW, Y_FEW)):
            with pytest.raises(ValueError, match="max_rows_per_group=2"):
                call()
        assert learner.fit(X_FEW, Y_FEW, groups=groups).privacy_.n_private == 27


class TestBaseLearners:
    """What `check_base` refuses is tested with LabelBoost; here, when it is."""

    def test_before_labels_are_asked_for(self):
        for base in (PPMHalfspaceClassifier(), LabelBoostClassifier(PPMHalfspaceClassifier())):
            learner = SubsamplingActiveLearner(base, n_labels=10)
            for call in (lambda: learner.query(X_FEW), lambda: learner.fit(X_FEW, Y_FEW)):  # noqa: B023
                with pytest.raises(ValueError, match="as public"):
                    call()

    def test_after_the_fit_by_its_receipt(self):
        class Claims(PPMHalfspaceClassifier):
            protects_all_rows = True

        learner = SubsamplingActiveLearner(Claims(), n_labels=10)
        with pytest.raises(ValueError, match="Claims"):
            learner.fit(X_FEW, Y_FEW)
        assert not hasattr(learner, "estimator_")


@pytest.mark.parametrize(
    "base", [GenericLearnerClassifier(bounds=(-4, 4)), LabelBoostClassifier(bounds=(-4, 4)), None]
)
@pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
def test_with_the_learners_of_this_package(base):
    X = np.random.default_rng(0).normal(size=(8000, 1))
    learner = SubsamplingActiveLearner(base, n_labels=300, epsilon=0.5, random_state=0)
    asked = learner.query(X)
    y = np.full(len(X), "-1", dtype=object)
    y[asked] = np.where(X[asked, 0] > 0.4, "yes", "no")
    learner.fit(X, y)
    drawn = 300 if base is None else 3020
    assert f"on {drawn} rows drawn from 8000, 300 labelled" in learner.privacy_.mechanisms[0].name
    assert learner.privacy_.mechanisms[0].epsilon >= 1
    assert learner.score(X, np.where(X[:, 0] > 0.4, "yes", "no")) > 0.85


def test_the_example_of_the_proof_is_of_this_code():
    """Every size of the table is tested above, and no other is listed."""
    listed = {tuple(map(int, row[:3])) for row in table("Attained")}
    assert listed == set(SIZES)
    assert re.search(r"\.7401", PROOF.read_text())
