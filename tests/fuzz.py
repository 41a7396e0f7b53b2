"""Random sessions with every public estimator: valid and invalid rows and parameters."""

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
"""Words of errors of other libraries."""

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
"""Valid values, and values that some or all estimators refuse."""


@st.composite
def tables(draw, secret=False):
    """Draw rows in any container: mostly numbers, sometimes a mixture of any values."""
    n = draw(st.integers(0, 12))
    values = draw(st.sampled_from([st.floats(-100, 100, width=32)] * 3 + [NUMBERS, VALUES]))
    columns = {name: draw(st.lists(values, min_size=n, max_size=n)) for name in ("age", "hours")}
    if secret and n:
        columns["hours"][0] = SECRET
    if draw(st.booleans()):
        columns = dict(reversed(columns.items()))
    container = draw(st.sampled_from(list(CONTAINERS)))
    with warnings.catch_warnings(action="ignore"):
        try:
            return CONTAINERS[container](columns)
        except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
            return pd.DataFrame(columns, dtype=object)


LABELS = st.sampled_from([st.integers(0, 1)] * 3 + [st.integers(-1, 2), VALUES])


class Session(RuleBasedStateMachine):
    """Session of one user with one budget and one estimator."""

    @initialize(kind=st.sampled_from(sorted(LEARNERS)))
    def begin(self, kind):
        self.budget = PrivacyBudget(CAP, 0.01, for_tests=True)
        self.kind, self.learner = kind, LEARNERS[kind]
        self.estimator, self.fitted = self.learner.make(), False
        self.valid_values = {}  # of the parameters that are set to invalid values
        self.set_valid_names({"budget": self.budget, "random_state": 0, "epsilon": 0.1})

    def set_valid_names(self, values):
        """Set the parameters that the estimator has."""
        names = self.estimator.get_params()
        self.estimator.set_params(
            **{name: value for name, value in values.items() if name in names}
        )

    @rule(data=st.data(), name=st.sampled_from(sorted(PARAMETERS)), invalid=st.booleans())
    def set_parameter(self, data, name, invalid):
        parameters = self.estimator.get_params()
        if name in parameters and invalid:
            self.valid_values.setdefault(name, parameters[name])
        self.set_valid_names({name: data.draw(st.sampled_from(PARAMETERS[name][invalid]))})

    @rule(data=st.data(), X=tables(secret=True), X_public=st.none() | tables())
    def fit(self, data, X, X_public):
        n = len(X)
        arguments = {
            "X": X,
            "y": data.draw(LABELS.flatmap(lambda label: st.lists(label, min_size=n, max_size=n))),
        }
        if X_public is not None:
            arguments["X_public"] = X_public
        elif data.draw(st.booleans()):
            arguments["is_public"] = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        if self.estimator.get_params().get("max_rows_per_group"):
            arguments["groups"] = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        arguments = {name: arguments[name] for name in arguments if name in self.learner.takes}
        before, n_entries = dict(vars(self.estimator)), len(self.budget.ledger)
        error = self.refusal(lambda: self.estimator.fit(**arguments))
        if error is not None:
            assert vars(self.estimator).keys() == before.keys()
            assert all(vars(self.estimator)[name] is value for name, value in before.items())
            assert len(self.budget.ledger) == n_entries
            self.estimator.set_params(**self.valid_values)
            self.valid_values = {}
            return
        self.fitted = True
        parameters = self.estimator.get_params()
        if "budget" in parameters and self.kind != "search":
            receipt = self.estimator.privacy_
            assert len(self.budget.ledger) == n_entries + (receipt.epsilon > 0)
            epsilon = Fraction(str(parameters["epsilon"]))
            assert receipt.epsilon <= epsilon * (1 + Fraction(1, 10**9))

    @precondition(lambda self: self.fitted)
    @rule(rows=tables(secret=True))
    def predict(self, rows):
        estimator = self.estimator
        method = getattr(estimator, "predict", None) or getattr(estimator, "transform", None)
        if method is None or self.kind == "release":
            return
        outputs = []
        error = self.refusal(lambda: outputs.append(method(rows)))
        if error is None and is_classifier(estimator):
            assert len(outputs[0]) == len(rows)
            assert set(outputs[0]) <= set(estimator.classes_)

    @precondition(lambda self: self.fitted)
    @rule(function=st.sampled_from([pickle.dumps, copy.deepcopy, repr, clone]))
    def copy_estimator(self, function):
        result = function(self.estimator)
        if function is pickle.dumps:
            result = pickle.loads(result)
        if function in (pickle.dumps, copy.deepcopy):
            assert vars(result).keys() == vars(self.estimator).keys()
            self.estimator = result
        if function is clone:
            assert vars(result).keys() == result.get_params(deep=False).keys()

    @precondition(lambda self: self.fitted and is_classifier(self.estimator))
    @rule(data=st.data(), rows=tables(secret=True), epsilon=st.sampled_from([0.01, 1, 0, "1", 30]))
    def score(self, data, rows, epsilon):
        n, n_entries = len(rows), len(self.budget.ledger)
        y = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
        error = self.refusal(
            lambda: private_scores(
                self.estimator, rows, y, epsilon=epsilon, budget=self.budget, random_state=0
            )
        )
        assert len(self.budget.ledger) == n_entries + (error is None)

    @invariant()
    def the_cap_holds(self):
        if hasattr(self, "budget"):
            assert self.budget.spent().epsilon <= CAP

    def refusal(self, call):
        """Call a function and return its error, or None; check all messages for private values."""
        with warnings.catch_warnings(record=True, action="always") as records:
            try:
                call()
                error = None
            except REFUSALS as refused:
                error = refused
        messages = [str(record.message) for record in records]
        if error is not None:
            messages.append(str(error))
        for message in messages:
            assert not INTERNALS.search(message), message
            assert not any(secret in message for secret in SECRETS), message
        if error is not None and not isinstance(error, PrivacyBudgetError):
            assert re.fullmatch(r"[^\n]{15,700}", str(error)), str(error)
        return error
