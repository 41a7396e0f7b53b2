"""Random sessions with every public estimator: odd rows and odd parameters in any order."""

from __future__ import annotations

import copy
import datetime
import pickle
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.base import clone, is_classifier

from skpublicdp import PrivacyBudget
from skpublicdp.exceptions import PrivacyBudgetError
from skpublicdp.metrics import private_scores
from tests.garbage import LEARNERS, SECRET, SECRET_TEXT, SECRETS

CAP = 3
REFUSALS = (TypeError, ValueError, RuntimeError)
INTERNALS = re.compile(
    r"joblib|narwhals|ufunc|has no attr|not subscriptable|index out|array element|<class"
    r"|inhomog|object of type|unhashable|unsupported operand|not iterable|unpack|broadcast",
    re.IGNORECASE,
)
"""Words of those who work underneath."""

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e308, 5e-324, SECRET]),
    st.floats(-100, 100, width=32),
)
VALUES = st.one_of(
    NUMBERS,
    st.sampled_from(
        [None, True, 2**60, "a", SECRET_TEXT, "", datetime.date(2020, 1, 2), Fraction(1, 3), 1j]
    ),
)
CONTAINERS = {
    "lists": lambda columns: [list(row) for row in zip(*columns.values(), strict=True)],
    "array": lambda columns: np.array(list(zip(*columns.values(), strict=True))),
    "objects": lambda columns: pd.DataFrame(columns, dtype=object).to_numpy(),
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "arrow": pa.table,
}
PARAMETERS = {
    "epsilon": ([1e-9, 0.1, 1, Fraction(1, 7)], [30.0, 0, -1, np.nan, np.inf, "1", None]),
    "delta": ([0.0, 1e-9], [0.1, 1, -0.1, np.nan, None, "auto"]),
    "random_state": ([0, 1, None, np.random.RandomState(0)], [-1, "seed"]),
    "alpha": ([0.01, 0.3], ["auto", 0, 2, np.nan, None]),
    "beta": ([0.05], [0, 1, np.nan]),
    "n_jobs": ([None, 1], [0, 1.5]),
    "max_rows_per_group": ([None, 1, 3], [0, "2"]),
    "public_weight": ([1, 3], [0, -1, 0.5, "auto", None]),
    "method": (["auto"], ["moments", "votes", "pmw", "public", "none", None]),
    "max_rounds": ([1, 3], [0, None]),
}
"""What most estimators take, and what some or all refuse."""


@st.composite
def tables(draw, secret=False):
    """Rows in any container: mostly numbers, sometimes a mixture of anything."""
    n = draw(st.integers(0, 12))
    values = draw(st.sampled_from([st.floats(-100, 100, width=32)] * 3 + [NUMBERS, VALUES]))
    made = {name: draw(st.lists(values, min_size=n, max_size=n)) for name in ("age", "hours")}
    if secret and n:
        made["hours"][0] = SECRET
    if draw(st.booleans()):
        made = dict(reversed(made.items()))
    container = draw(st.sampled_from(list(CONTAINERS)))
    with warnings.catch_warnings(action="ignore"):
        try:
            return CONTAINERS[container](made)
        except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
            return pd.DataFrame(made, dtype=object)


LABELS = st.sampled_from([st.integers(0, 1)] * 3 + [st.integers(-1, 2), VALUES])


def size_of(table):
    return len(table)


class Session(RuleBasedStateMachine):
    """One user, one budget, one estimator at a time."""

    @initialize(kind=st.sampled_from(sorted(LEARNERS)))
    def begin(self, kind):
        self.budget = PrivacyBudget(CAP, 0.01, for_tests=True)
        self.kind, self.learner = kind, LEARNERS[kind]
        self.estimator, self.fitted = self.learner.make(), False
        self.spoiled = {}
        known = self.estimator.get_params()
        self.set_all({"budget": self.budget, "random_state": 0, "epsilon": 0.1}, known)

    def set_all(self, values, known):
        self.estimator.set_params(**{name: of for name, of in values.items() if name in known})

    @rule(data=st.data(), name=st.sampled_from(sorted(PARAMETERS)), spoil=st.booleans())
    def set_parameter(self, data, name, spoil):
        known = self.estimator.get_params()
        if name in known and spoil:
            self.spoiled.setdefault(name, known[name])
        self.set_all({name: data.draw(st.sampled_from(PARAMETERS[name][spoil]))}, known)

    @rule(data=st.data(), X=tables(secret=True), aside=st.none() | tables())
    def fit(self, data, X, aside):
        n = size_of(X)
        given = {
            "X": X,
            "y": data.draw(LABELS.flatmap(lambda one: st.lists(one, min_size=n, max_size=n))),
        }
        if aside is not None:
            given["X_public"] = aside
        elif data.draw(st.booleans()):
            given["is_public"] = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        if self.estimator.get_params().get("max_rows_per_group"):
            given["groups"] = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        given = {name: of for name, of in given.items() if name in self.learner.takes}
        before, held = dict(vars(self.estimator)), len(self.budget.ledger)
        error = self.refusal(lambda: self.estimator.fit(**given))
        if error is not None:
            assert vars(self.estimator).keys() == before.keys()
            assert all(vars(self.estimator)[name] is of for name, of in before.items())
            assert len(self.budget.ledger) == held
            self.estimator.set_params(**self.spoiled)
            self.spoiled = {}
            return
        self.fitted = True
        known = self.estimator.get_params()
        if "budget" in known and self.kind != "search":
            receipt = self.estimator.privacy_
            assert len(self.budget.ledger) == held + (receipt.epsilon > 0)
            assert receipt.epsilon <= Fraction(str(known["epsilon"])) * (1 + Fraction(1, 10**9))

    @precondition(lambda self: self.fitted)
    @rule(rows=tables(secret=True))
    def predict(self, rows):
        use = getattr(self.estimator, "predict", None) or getattr(self.estimator, "transform", None)
        if use is None or self.kind == "release":
            return
        said = []
        if self.refusal(lambda: said.append(use(rows))) is None and is_classifier(self.estimator):
            assert len(said[0]) == size_of(rows)
            assert set(said[0]) <= set(self.estimator.classes_)

    @precondition(lambda self: self.fitted)
    @rule(way=st.sampled_from([pickle.dumps, copy.deepcopy, repr, clone]))
    def carry(self, way):
        found = way(self.estimator)
        if way is pickle.dumps:
            found = pickle.loads(found)
        if way in (pickle.dumps, copy.deepcopy):
            assert vars(found).keys() == vars(self.estimator).keys()
            self.estimator = found
        if way is clone:
            assert vars(found).keys() == found.get_params(deep=False).keys()

    @precondition(lambda self: self.fitted and is_classifier(self.estimator))
    @rule(data=st.data(), rows=tables(secret=True), epsilon=st.sampled_from([0.01, 1, 0, "1", 30]))
    def score(self, data, rows, epsilon):
        n, held = size_of(rows), len(self.budget.ledger)
        y = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
        error = self.refusal(
            lambda: private_scores(
                self.estimator, rows, y, epsilon=epsilon, budget=self.budget, random_state=0
            )
        )
        assert len(self.budget.ledger) == held + (error is None)

    @invariant()
    def the_cap_holds(self):
        if hasattr(self, "budget"):
            assert self.budget.spent().epsilon <= CAP

    def refusal(self, call):
        """Return what an estimator refuses with, if it does: a sentence without a private value."""
        with warnings.catch_warnings(record=True, action="always") as said:
            try:
                call()
                error = None
            except REFUSALS as refused:
                error = refused
        for words in [str(one.message) for one in said] + ([] if error is None else [str(error)]):
            assert not INTERNALS.search(words), words
            assert not any(secret in words for secret in SECRETS), words
        if error is not None and not isinstance(error, PrivacyBudgetError):
            assert re.fullmatch(r"[^\n]{15,700}", str(error)), str(error)
        return error
