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

RNG = np.random.default_rng(0)
N = 60
X, PUBLIC = RNG.normal(size=(N, 2)), RNG.normal(size=(30, 2))
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
quiet = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
pytestmark = quiet


def spoilt(y, value):
    y = y.tolist()
    y[-1] = value
    return y


def refusal(learner, y, **parameters):
    with pytest.raises(ValueError) as raised:
        clone(learner).set_params(**parameters).fit(X, y, X_public=PUBLIC)
    assert str(SECRET) not in str(raised.value)
    return str(raised.value)


FLOATS = "numeric labels must be whole numbers below 2**53"
KINDS = "labels must be all text or all numbers in y, y_public and classes"
FAULTS = {
    "missing among floats": (np.where(CODES, 1.0, np.nan), FLOATS),
    "missing among text": (pd.Series(TEXT).mask(CODES == 1), KINDS),
    "missing in a list": (spoilt(TEXT, None), KINDS),
    "continuous": (X[:, 0], "use SemiPrivateBoostingRegressor for continuous numbers"),
    "a continuous list": (
        X[:, 0].tolist(),
        "use SemiPrivateBoostingRegressor for continuous numbers",
    ),
    "two kinds": (spoilt(TEXT, SECRET), KINDS),
    "too large": (spoilt(CODES, SECRET * 2**60), "integers of up to 64 bits"),
    "too short": (CODES[:9], "one label per row of X; got 9 for 60 rows"),
    "two columns": (np.c_[CODES, CODES], r"array of shape (60, 2) instead"),
    "complex numbers": (CODES * 1j, "got complex numbers, which must be converted"),
    "dates": (pd.Series(pd.date_range("2020", periods=N)), "got dates, which must be converted"),
    "durations": (CODES.astype("m8[s]"), "got durations, which must be converted"),
    "bytes": (TEXT.astype("S"), "got bytes, which must be converted"),
    "None": (None, "requires y to be passed"),
}


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_sentence(learner, fault):
    y, says = FAULTS[fault]
    said = refusal(learner, y)
    assert says in said
    assert "not listed in classes" not in said  # none were given


SEARCH = SemiPrivateSearchCV(SemiPrivateClassifier(), {"alpha": [0.1, 0.2]}, random_state=0)
MISSING = {
    "None": spoilt(TEXT, None),
    "NaN": spoilt(1.0 * CODES, np.nan),
    "NaN in an array": np.where(CODES, 1.0, np.nan),
    "None in a series": pd.Series(TEXT).mask(CODES == 1),
    "NA": pd.Series(CODES).mask(CODES == 1).astype("Int64"),
}


@pytest.mark.parametrize(
    "learner",
    [*LEARNERS, SubsamplingActiveLearner(n_labels=20), SEARCH],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("y", MISSING.values(), ids=MISSING)
def test_missing_labels_are_named_first(learner, y):
    assert refusal(learner, y).startswith("y contains missing labels")


@pytest.mark.parametrize("y", MISSING.values(), ids=MISSING)
def test_missing_outcomes_are_named_first(y):
    learner = SemiPrivateBoostingRegressor(outcome_bounds=(0, 1), random_state=0)
    assert refusal(learner, y).startswith("y contains missing outcomes")


def test_missing_labels_of_streams_and_of_public_rows():
    frame = pd.DataFrame(X, columns=["u", "v"])
    chunks = [pa.Table.from_pandas(frame.assign(y=spoilt(TEXT, None)))] * 2
    rows = open_rows(lambda: iter(chunks))
    with pytest.raises(ValueError, match=r"^y contains missing labels"):
        SemiPrivateClassifier().fit(rows.drop("y"), rows["y"], X_public=frame[:9].copy())
    for learner in (LEARNERS[0], LEARNERS[1]):
        with pytest.raises(ValueError, match=r"^y_public contains missing labels"):
            learner.fit(X, TEXT, X_public=PUBLIC, y_public=[*TEXT[:29], None])
    with pytest.raises(ValueError, match=r"^y_public contains missing outcomes"):
        SemiPrivateBoostingRegressor().fit(X, CODES, X_public=PUBLIC, y_public=[*CODES[:29], "no"])


LISTING = [one for one in LEARNERS if "classes" in one.get_params()]


@pytest.mark.parametrize("learner", LISTING, ids=lambda one: type(one).__name__)
def test_labels_that_are_not_listed(learner):
    said = refusal(learner, TEXT, classes=["ill"])
    assert "labels that are not listed in classes" in said
    assert "well" not in said
    # which of the faults it is, a private row decides: it is not told
    assert refusal(learner, spoilt(TEXT, None), classes=["ill", "well"]) == said
    assert refusal(learner, spoilt(TEXT, SECRET), classes=["ill", "well"]) == said


@pytest.mark.parametrize("learner", LISTING[:2], ids=lambda one: type(one).__name__)
def test_text_beside_numbers_by_their_types(learner):
    said = refusal(learner, CODES, classes=["ill", "well"])
    assert "got text in classes, and numbers in y." in said
    said = refusal(learner, TEXT, classes=[0, 1])
    assert "got text in y, and numbers in classes." in said
    # the type of a list is not known but by its labels
    assert "got" not in refusal(learner, TEXT.tolist(), classes=[0, 1])


def test_one_label_only():
    assert "one class only. List the others" in refusal(LEARNERS[1], 0 * CODES)


@pytest.mark.parametrize("learner", LEARNERS[:2], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("y", [CODES, TEXT])
def test_private_rows_without_a_label_become_a_class_and_it_is_said(learner, y):
    marked = np.where(np.arange(N) < 20, y.dtype.type(-1), y)
    with pytest.warns(AmbiguousLabelWarning, match="y contains -1 and at least two other labels"):
        learner.fit(X, marked, X_public=PUBLIC)
    assert len(learner.classes_) == 3
    declared = type(learner)(**learner.get_params() | {"classes": np.unique(marked)})
    assert len(declared.fit(X, marked, X_public=PUBLIC).classes_) == 3


def test_minus_one_beside_one_other_label_is_a_label():
    clf = SemiPrivateClassifier(random_state=0).fit(X, 2 * CODES - 1, X_public=PUBLIC)
    assert clf.classes_.tolist() == [-1, 1]
