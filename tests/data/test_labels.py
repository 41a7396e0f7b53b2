"""Each fault of `y` has a sentence of its own, chosen by what everybody knows of it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from skpublicdp import (
    GenericLearnerClassifier,
    LabelBoostClassifier,
    PPMHalfspaceClassifier,
    SemiPrivateBoostingClassifier,
    SemiPrivateBoostingRegressor,
    SemiPrivateClassifier,
    SubsamplingActiveLearner,
)
from skpublicdp.data import open_rows
from skpublicdp.exceptions import AmbiguousLabelWarning
from skpublicdp.model_selection import SemiPrivateSearchCV

N = 60
rng = np.random.default_rng(0)
X, PUBLIC = rng.normal(size=(N, 2)), rng.normal(size=(30, 2))
CODES = np.arange(N) % 2
TEXT = np.where(CODES, "ill", "well")
SECRET = 8675309
LEARNERS = [
    SemiPrivateClassifier(random_state=0),
    SemiPrivateBoostingClassifier(max_rounds=1, random_state=0),
    PPMHalfspaceClassifier(max_halfspaces=20, random_state=0),
    GenericLearnerClassifier(random_state=0),
    LabelBoostClassifier(random_state=0),
]


def of_class(*learners):
    return pytest.mark.parametrize("learner", learners, ids=lambda one: type(one).__name__)


def spoilt(y, value):
    """Return labels as a list, of which the last has another value."""
    return [*y.tolist()[:-1], value]


def refusal(learner, y, **parameters):
    with pytest.raises(ValueError) as raised:
        clone(learner).set_params(**parameters).fit(X, y, X_public=PUBLIC)
    assert str(SECRET) not in str(raised.value)
    return str(raised.value)


FAULTS = {
    "missing among floats": (np.where(CODES, 1.0, np.nan), "whole numbers"),
    "missing among text": (pd.Series(TEXT).mask(CODES == 1), "text"),
    "missing in a list": (spoilt(TEXT, None), "text"),
    "continuous": (X[:, 0], "SemiPrivateBoostingRegressor"),
    "a continuous list": (X[:, 0].tolist(), "SemiPrivateBoostingRegressor"),
    "two kinds": (spoilt(TEXT, SECRET), "text"),
    "too large": (spoilt(CODES, SECRET * 2**60), "64 bits"),
    "too short": (CODES[:9], "9"),
    "two columns": (np.c_[CODES, CODES], "(60, 2)"),
    "complex numbers": (CODES * 1j, "complex"),
    "dates": (pd.Series(pd.date_range("2020", periods=N)), "dates"),
    "durations": (CODES.astype("m8[s]"), "durations"),
    "bytes": (TEXT.astype("S"), "bytes"),
    "None": (None, "y"),
}


@of_class(*LEARNERS)
@pytest.mark.parametrize(("y", "word"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_told_from_the_others(learner, y, word):
    said = refusal(learner, y)
    assert word in said
    assert "not listed" not in said  # no classes were given


SEARCH = SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.1, 0.2]}, random_state=0)
REGRESSOR = SemiPrivateBoostingRegressor(outcome_bounds=(0, 1), random_state=0)
MISSING = {
    "None": spoilt(TEXT, None),
    "NaN": spoilt(1.0 * CODES, np.nan),
    "NaN in an array": np.where(CODES, 1.0, np.nan),
    "None in a series": pd.Series(TEXT).mask(CODES == 1),
    "NA": pd.Series(CODES).mask(CODES == 1).astype("Int64"),
}


@of_class(*LEARNERS, SubsamplingActiveLearner(n_labels=20), SEARCH, REGRESSOR)
def test_missing_labels_are_named_first(learner):
    for y in MISSING.values():
        assert refusal(learner, y).startswith("y contains missing")


def test_missing_labels_of_streams_and_of_public_rows():
    frame = pd.DataFrame(X, columns=["u", "v"])
    chunks = [pa.Table.from_pandas(frame.assign(y=spoilt(TEXT, None)))] * 2
    rows, public = open_rows(lambda: iter(chunks)), frame[:9].copy()
    with pytest.raises(ValueError, match=r"^y contains missing"):
        SemiPrivateClassifier().fit(rows.drop("y"), rows["y"], X_public=public)
    labels, outcomes = [*TEXT[:29], None], [*CODES[:29], "no"]
    for learner, y, y_public in (
        (LEARNERS[0], TEXT, labels),
        (LEARNERS[1], TEXT, labels),
        (REGRESSOR, CODES, outcomes),
    ):
        with pytest.raises(ValueError, match=r"^y_public contains missing"):
            clone(learner).fit(X, y, X_public=PUBLIC, y_public=y_public)


LISTING = [one for one in LEARNERS if "classes" in one.get_params()]


@of_class(*LISTING)
def test_labels_that_are_not_listed(learner):
    said = refusal(learner, TEXT, classes=["ill"])
    assert "classes" in said
    assert "well" not in said
    # which of the faults it is, a private row decides: it is not told
    assert refusal(learner, spoilt(TEXT, None), classes=["ill", "well"]) == said
    assert refusal(learner, spoilt(TEXT, SECRET), classes=["ill", "well"]) == said


@of_class(*LISTING[:2])
def test_text_beside_numbers_by_their_types(learner):
    numbers, text = (
        refusal(learner, CODES, classes=["ill", "well"]),
        refusal(learner, TEXT, classes=[0, 1]),
    )
    assert "numbers in y" in numbers
    assert "text in y" in text
    # the type of a list is not known but by its labels
    assert "got" not in refusal(learner, TEXT.tolist(), classes=[0, 1])


@of_class(*LEARNERS[:2])
@pytest.mark.parametrize("y", [CODES, TEXT])
def test_private_rows_without_a_label_become_a_class_and_it_is_said(learner, y):
    marked = np.where(np.arange(N) < 20, y.dtype.type(-1), y)
    with pytest.warns(AmbiguousLabelWarning):
        fitted = clone(learner).fit(X, marked, X_public=PUBLIC)
    assert len(fitted.classes_) == 3
    declared = clone(learner).set_params(classes=np.unique(marked))
    assert len(declared.fit(X, marked, X_public=PUBLIC).classes_) == 3
