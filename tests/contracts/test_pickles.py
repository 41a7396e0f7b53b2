"""Files of fitted estimators: formats, the version, the size, and no path of a budget."""

import copy
import inspect
import io
import pickle
import tempfile
import warnings

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import skpublicdp
from skpublicdp import (
    PAPQueryRelease,
    PrivacyBudget,
    PublicFit,
    SemiPrivateBoostingClassifier,
    SemiPrivateClassifier,
)
from skpublicdp.exceptions import InconsistentVersionWarning
from skpublicdp.model_selection import SemiPrivateSearchCV
from skpublicdp.sanitizers import BLRSanitizer
from tests.contracts.test_common import ESTIMATORS

RNG = np.random.default_rng(0)
N = 300
X, PUBLIC = RNG.normal(size=(N, 2)), RNG.normal(size=(60, 2))
Y = np.where(X[:, 0] > 0, "ill", "well")

pytestmark = pytest.mark.filterwarnings("ignore")


def fitted(estimator):
    estimator = clone(estimator)
    taken = inspect.signature(estimator.fit).parameters
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    given = {"X_public": PUBLIC} if "X_public" in taken else {}
    y = X[:, 1] if is_regressor(estimator) else Y
    needs_y = "y" in taken and taken["y"].default is not None
    return estimator.fit(X, y, **given) if needs_y else estimator.fit(X, **given)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_a_pickle_is_small(estimator):
    assert len(pickle.dumps(fitted(estimator))) < 2**16


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file, compress=3)
    file.seek(0)
    return joblib.load(file)


def trusted_types(model):
    """Return the types in a file of skops, as the FAQ says: nothing else has to be trusted."""
    skops = pytest.importorskip("skops.io")
    contains_models = any(hasattr(model, name) for name in ("public_model_", "estimator_"))
    of_public_models = {"sklearn", "functools"} if contains_models else set()
    types = skops.get_untrusted_types(data=skops.dumps(model))
    assert {name.split(".")[0] for name in types} <= {"skpublicdp", "fractions", *of_public_models}
    return types


def through_skops(model):
    skops = pytest.importorskip("skops.io")
    return skops.loads(skops.dumps(model), trusted=trusted_types(model))


def through_mlflow(model):
    mlflow = pytest.importorskip("mlflow.sklearn")
    with tempfile.TemporaryDirectory() as folder:
        mlflow.save_model(
            model,
            f"{folder}/model",
            serialization_format="skops",
            skops_trusted_types=trusted_types(model),
            pip_requirements=["skpublicdp"],  # mlflow would look for them in a process of its own
        )
        return mlflow.load_model(f"{folder}/model")


FORMATS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "joblib": through_joblib,
    "cloudpickle": lambda model: cloudpickle.loads(cloudpickle.dumps(model)),
    "skops": through_skops,
    "mlflow": through_mlflow,
    "deepcopy": copy.deepcopy,
}
FRAME = pd.DataFrame(
    {
        "kind": pd.Series(RNG.choice(["a", "b", None], N)).astype("str"),
        "level": pd.Categorical(RNG.choice(["low", "high"], N), ["low", "high"], ordered=True),
        "dose": X[:, 0],
        "day": pd.to_datetime(RNG.integers(0, 1000, N), unit="D"),
    }
)
PUBLIC_FRAME = FRAME[:60].copy()


def of_frames():
    """Return estimators that are fitted to columns of several types, in several ways."""
    release = PAPQueryRelease(random_state=0).fit(FRAME[60:], X_public=PUBLIC_FRAME)
    learner = SemiPrivateBoostingClassifier(epsilon=8.0, random_state=0)
    labels = {"X_public": PUBLIC_FRAME, "y_public": Y[:60]}
    steps = [("scale", PublicFit(StandardScaler())), ("rule", SemiPrivateClassifier(epsilon=1))]
    search = SemiPrivateSearchCV(Pipeline(steps), {"rule__alpha": [0.1, 0.2]}, random_state=0)
    return {
        "release": release,
        "calibrated release": release.calibrate({"level": {"low": 30, "high": 70}}),
        "distribution": PAPQueryRelease(random_state=0).fit(FRAME[["dose"]]),
        "boosting": clone(learner).fit(FRAME[60:], Y[60:], **labels),
        "small trees": clone(learner).set_params(epsilon=200).fit(FRAME[60:], Y[60:], **labels),
        "search over a pipeline": search.fit(X, Y, X_public=PUBLIC),
        "sanitizer": BLRSanitizer([[0.0], [1.0]], n_points=5, random_state=0).fit(X[:, :1] > 0),
    }


def outputs(model, rows):
    """Return what a model says about rows, and its receipt."""
    if isinstance(model, PAPQueryRelease):
        yield model.sample(20)
        if model._released.queries.has_tables:
            yield from model.tables()
    else:
        for method in ("predict", "predict_proba", "transform"):
            if hasattr(model, method):
                yield getattr(model, method)(rows)
    yield {name: value for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    yield repr(getattr(model, "privacy_", None))


def check_alike(again, rows, expected):
    """Assert that a model read from a file has the outputs of the one that was written."""
    assert len(expected) > 1
    for one, other in zip(outputs(again, rows), expected, strict=True):
        if isinstance(other, dict):
            np.testing.assert_equal(one, other)
        elif isinstance(other, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other)
        else:
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.fixture(scope="module", params=ESTIMATORS, ids=repr)
def model(request):
    """Return a fitted model, rows and its outputs for them."""
    model = fitted(request.param)
    return model, X, [*outputs(model, X)]


@pytest.fixture(scope="module")
def models_of_frames():
    """Return fitted models, rows and their outputs for them."""
    models = of_frames()
    of_arrays = ("search over a pipeline", "sanitizer")
    rows = {name: X if name in of_arrays else FRAME for name in models}
    return [(model, rows[name], [*outputs(model, rows[name])]) for name, model in models.items()]


@pytest.mark.parametrize("file", FORMATS)
def test_every_format_holds_every_estimator(model, file):
    model, rows, expected = model
    check_alike(FORMATS[file](model), rows, expected)


@pytest.mark.parametrize("file", FORMATS)
def test_every_format_holds_columns_of_every_type(models_of_frames, file):
    for model, rows, expected in models_of_frames:
        check_alike(FORMATS[file](model), rows, expected)


def saved_by(version, model, monkeypatch):
    """Return a pickle that another version of the package wrote."""
    with monkeypatch.context() as patched:
        patched.setattr(skpublicdp, "__version__", version)
        return pickle.dumps(model)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_a_file_of_another_minor_version_is_told(estimator, monkeypatch):
    model = fitted(estimator)
    with warnings.catch_warnings(action="error", category=InconsistentVersionWarning):
        pickle.loads(pickle.dumps(model))
        pickle.loads(saved_by("0.2.7", model, monkeypatch))
        pickle.loads(saved_by("0.3.0", clone(estimator), monkeypatch))  # nothing was learned
    with pytest.warns(InconsistentVersionWarning, match=r"fitted with version 0\.3\.0") as told:
        pickle.loads(saved_by("0.3.0", model, monkeypatch))
    assert f"{type(model).__name__} was" in "".join(str(one.message) for one in told)
    without_version = pickle.dumps(model).replace(b"_skpublicdp_version", b"_other_attribute___")
    with pytest.warns(InconsistentVersionWarning, match="version 0.1 or earlier"):
        pickle.loads(without_version)


@pytest.mark.parametrize(("saved", "current"), [("0.2.0.dev0", "0.2.0"), ("0.3.0", "0.3.0.dev1")])
def test_a_file_of_a_development_version_is_told(saved, current, monkeypatch):
    model = fitted(SemiPrivateClassifier())
    file = saved_by(saved, model, monkeypatch)
    monkeypatch.setattr(skpublicdp, "__version__", current)
    with pytest.warns(InconsistentVersionWarning, match=f"{saved} of .* with version {current}"):
        pickle.loads(file)
    monkeypatch.setattr(skpublicdp, "__version__", saved)
    with warnings.catch_warnings(action="error", category=InconsistentVersionWarning):
        pickle.loads(file)


def test_the_version_is_that_of_the_fit(monkeypatch):
    old = saved_by("0.1.2", fitted(SemiPrivateClassifier()), monkeypatch)
    for copied in (lambda model: model, copy.deepcopy, FORMATS["joblib"], FORMATS["skops"]):
        with pytest.warns(InconsistentVersionWarning, match="version 0.1.2"):
            again = copied(pickle.loads(old))
        with pytest.warns(InconsistentVersionWarning, match="version 0.1.2"):
            pickle.loads(pickle.dumps(again))
    with warnings.catch_warnings(action="error", category=InconsistentVersionWarning):
        again.fit(X, Y, X_public=PUBLIC)
        pickle.loads(pickle.dumps(again))


def test_a_published_pickle_may_leave_out_the_path_of_the_budget(tmp_path):
    budget = PrivacyBudget(2, 1e-6, path=tmp_path / "secret-place.sqlite")
    model = fitted(SemiPrivateBoostingClassifier(delta=0, budget=budget))
    path = b"secret-place"
    # workers and copies charge the same file
    assert path in pickle.dumps(model)
    assert pickle.loads(pickle.dumps(model)).budget.spent() == budget.spent()
    assert "secret-place" not in model.to_json() + model.__repr__(N_CHAR_MAX=10**6)
    expected = model.predict(X)
    published = pickle.dumps(model.set_params(budget=None))
    assert path not in published
    np.testing.assert_array_equal(pickle.loads(published).predict(X), expected)
