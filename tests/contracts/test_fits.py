"""One contract for the fit of every estimator: its seed, its budget, what it keeps and warns of."""

import logging
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PrivacyBudget
from skpublicdp.exceptions import NoPublicDataWarning, SlicedPublicDataWarning
from tests.garbage import LEARNERS, X_PUBLIC, N, X, Y
from tests.kit import Recorder

PRIVATE = [kind for kind in LEARNERS if kind != "public_fit"]
WITH_PUBLIC_ROWS = [kind for kind, learner in LEARNERS.items() if "X_public" in learner.takes]
MASKED = [kind for kind in WITH_PUBLIC_ROWS if {"is_public"} <= LEARNERS[kind].takes]
MASKED.remove("ppm")  # where a label decides what is public

pytestmark = pytest.mark.filterwarnings("ignore")


def fit(kind, parameters=None, **changed):
    """Return a fitted estimator of a kind, with a seed and those of the parameters that it has."""
    learner = LEARNERS[kind]
    estimator = learner.make()
    given = {"random_state": 0, **(parameters or {})}
    valid = estimator.get_params()
    estimator.set_params(**{name: value for name, value in given.items() if name in valid})
    return estimator.fit(**learner.fit_arguments(**changed))


def learned(estimator):
    """Return the bytes of all that a fit has left in an estimator."""
    parameters = estimator.get_params(deep=False)
    return pickle.dumps({k: v for k, v in vars(estimator).items() if k not in parameters})


@pytest.mark.parametrize("kind", MASKED)
def test_marked_public_rows_are_separate_public_rows(kind):
    both = pd.concat([X, X_PUBLIC], ignore_index=True)
    mask = np.arange(len(both)) >= N
    unlabelled = np.nan if kind == "regression" else -1
    y = np.append(Y, np.full(len(X_PUBLIC), unlabelled))
    masked = fit(kind, X=both, y=y, X_public=None, is_public=mask)
    assert learned(masked) == learned(fit(kind))
    if kind != "public_fit":
        more = fit(kind, X=both, y=y, X_public=X_PUBLIC[:9], is_public=mask)
        assert more.privacy_.n_public == len(X_PUBLIC) + 9


@pytest.mark.parametrize("kind", PRIVATE)
def test_a_seed_repeats_a_fit_whatever_the_number_of_jobs(kind):
    expected = learned(fit(kind))
    for n_jobs in (None, 2):
        assert learned(fit(kind, {"n_jobs": n_jobs})) == expected
    assert not fit(kind).privacy_.secure_randomness
    assert fit(kind, {"random_state": None}).privacy_.secure_randomness


@pytest.mark.parametrize("kind", PRIVATE)
def test_a_private_row_leaves_no_trace_beside_what_is_released(kind, caplog, capsys):
    """Two data sets with the same draws and noise: the same bytes, warnings, logs and output."""
    caplog.set_level(logging.DEBUG)
    changed, labels = X.copy(), Y.copy()
    # in the middle of the others, so that no bound of a column changes
    changed.iloc[7] = changed.iloc[8] + 0.123456
    labels[7] = labels[8]
    with Recorder() as recorder:
        fit(kind)
    seen = []
    for rows, y in ((X, Y), (changed, labels)):
        with Recorder(recorder.outcomes), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            caplog.clear()
            result = learned(fit(kind, X=rows, y=y))
            seen.append((result, [str(told.message) for told in caught], caplog.text))
    assert seen[0] == seen[1]
    assert {record.name for record in caplog.records} == {"skpublicdp"}
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", WITH_PUBLIC_ROWS)
@pytest.mark.parametrize("warning", [NoPublicDataWarning, SlicedPublicDataWarning])
def test_warnings_point_at_the_caller(kind, warning):
    public = None if warning is NoPublicDataWarning else X + 1
    if kind == "ppm" and warning is NoPublicDataWarning:
        pytest.skip("one of its labels is public")
    learner = LEARNERS[kind]
    estimator = learner.make()
    with pytest.warns(warning) as caught:
        estimator.fit(**learner.fit_arguments(X_public=public))
    assert {told.filename for told in caught if told.category is warning} == {__file__}


@pytest.mark.parametrize("kind", [kind for kind in PRIVATE if kind != "sanitizer"])
def test_a_fit_is_one_entry_of_its_budget(kind):
    budget = PrivacyBudget(3, 1e-4, for_tests=True)
    receipt = fit(kind, {"budget": budget, "epsilon": Fraction(3, 4)}).privacy_
    (entry,) = budget.ledger
    assert (receipt.entry, entry.n_rows) == (1, receipt.n_private)
    assert entry.who in type(LEARNERS[kind].make()).__name__
    assert entry.event == receipt.event
    assert (receipt.epsilon, receipt.delta) == (0.75, fit(kind).privacy_.delta)
    # noise of δ in part only costs less than ε
    assert 0.5 < budget.spent().epsilon <= 0.75
