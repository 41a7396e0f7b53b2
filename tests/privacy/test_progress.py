"""Progress of fits: what the logger and scikit-learn's callbacks receive."""

import io
import logging
import subprocess
import sys

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skpublicdp import (
    PAPQueryRelease,
    PrivacyBudget,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
    SemiPrivateLogisticRegression,
)

pytestmark = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.DriftWarning")

RNG = np.random.default_rng(0)
X, X_PUBLIC = RNG.normal(size=(400, 3)), RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)

ESTIMATORS = [
    SemiPrivateBoostingClassifier(epsilon=1, delta=1e-6, random_state=0),
    SemiPrivateLogisticRegression(epsilon=1, delta=1e-6, random_state=0),
    PAPQueryRelease(epsilon=1, random_state=0),
]


@pytest.fixture
def log():
    """The text that the logger of the package writes."""
    text = io.StringIO()
    handler, logger = logging.StreamHandler(text), logging.getLogger("skpublicdp")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield text
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


class Tasks:
    """A scikit-learn callback that writes down which tasks begin and end."""

    def __init__(self):
        self.events, self.shown = [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.events.append(("begin", context.task_name))
        self.shown += [X, y, metadata]

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        self.shown += [X, y, fitted_estimator]

    def teardown(self, estimator, context):
        self.events.append("teardown")


def test_nothing_is_printed_without_a_configuration():
    code = (
        "import numpy as np; from skpublicdp import SemiPrivateClassifier as C\n"
        "X = np.arange(40.).reshape(-1, 1)\n"
        "C(epsilon=1, hypotheses=None).fit(X[::2], X[::2, 0] > 20, X_public=X[1::2])"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "")


def test_log_of_a_fit(log):
    budget = PrivacyBudget(2, 1e-5, for_tests=True)
    model = SemiPrivateLogisticRegression(epsilon=1, delta=1e-6, budget=budget, random_state=0)
    model.fit(X, Y, X_public=X_PUBLIC)
    lines = log.getvalue().splitlines()
    assert all(line.startswith("SemiPrivateLogisticRegression: ") for line in lines)
    events = [line.split(": ", 1)[1] for line in lines]
    assert events[:3] == [
        "fit starts",
        "pass 1 over the rows",
        "epsilon = 1 and delta = 1e-06 charged as entry 1 of the budget",
    ]
    assert events[-1] == "fit ends"
    costs = [event for event in events if event.endswith("on its own")]
    assert costs == [
        f"{mechanism.name}, epsilon = {mechanism.epsilon:.3g} on its own"
        for mechanism in model.privacy_.mechanisms
    ]
    assert f"pass {len(costs)} over the rows" in events


def test_log_of_a_fit_that_fails(log):
    with pytest.raises(ValueError, match="requires y"):
        SemiPrivateBoostingClassifier(epsilon=1, delta=1e-6).fit(X, None, X_public=X_PUBLIC)
    assert log.getvalue() == "SemiPrivateBoostingClassifier: fit starts\n"


class TestCallbacks:
    @pytest.fixture(autouse=True)
    def _needs_callbacks(self):
        pytest.importorskip("sklearn.callback")

    @pytest.mark.parametrize(
        "estimator",
        [*ESTIMATORS, SemiPrivateClassifier(epsilon=1)],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_tasks_are_those_of_the_log(self, estimator, log):
        tasks = Tasks()
        fitted = clone(estimator).set_callbacks(tasks).fit(X, Y, X_public=X_PUBLIC)
        assert tasks.events[:2] == ["setup", ("begin", "fit")]
        assert tasks.events[-2:] == [("end", "fit"), "teardown"]
        begun = [event[1] for event in tasks.events if event[0] == "begin"]
        ended = [event[1] for event in tasks.events if event[0] == "end"]
        assert sorted(begun) == sorted(ended)
        events = [line.split(": ", 1)[1] for line in log.getvalue().splitlines()]
        assert events == ["fit starts", *begun[1:], "fit ends"]
        assert tasks.shown == [None] * len(tasks.shown)  # no rows, labels or models
        assert not [name for name in vars(fitted) if "callback" in name and "_skl_" not in name]

    def test_fits_without_callbacks_do_not_depend_on_them(self, monkeypatch):
        """The interface is experimental: a later version of scikit-learn may change it."""
        monkeypatch.setattr(SemiPrivateClassifier, "_init_callback_context", None)
        model = SemiPrivateClassifier(epsilon=1, random_state=0)
        assert model.fit(X, Y, X_public=X_PUBLIC).privacy_.epsilon == 1
        with pytest.raises(TypeError):
            model.set_callbacks(Tasks()).fit(X, Y, X_public=X_PUBLIC)
        assert clone(model)._skl_callbacks

    def test_a_fit_that_fails_is_torn_down(self):
        tasks = Tasks()
        model = SemiPrivateClassifier(epsilon=1).set_callbacks(tasks)
        for _ in range(2):
            with pytest.raises(ValueError, match="requires y"):
                model.fit(X, None, X_public=X_PUBLIC)
        assert tasks.events == ["setup", ("begin", "fit"), "teardown"] * 2
        assert set(vars(model)) == {*model.get_params(), "_skl_callbacks"}

    def test_a_pipeline_passes_them_on(self):
        tasks = Tasks()
        tasks.max_propagation_depth = 1
        model = make_pipeline(PublicFit(), SemiPrivateLogisticRegression(epsilon=1, delta=1e-6))
        mask = np.arange(len(X)) < 60
        with config_context(enable_metadata_routing=True):
            model.set_callbacks(tasks).fit(X, Y, is_public=mask)
        assert ("begin", "pass 1 over the rows") in tasks.events
