"""PublicFit: the transformer sees public rows only, in every container and in pipelines."""

import inspect
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.utils.discovery import all_estimators

from skpublicdp import PAPQueryRelease, PublicFit, SemiPrivateClassifier
from skpublicdp.exceptions import NoPublicDataWarning, SlicedPublicDataWarning

RNG = np.random.default_rng(0)
X = 50 + 10 * RNG.normal(size=(600, 3))
Y = np.where((X[:, 0] > 50) & (X[:, 1] > 47), 1, 0)
PUBLIC = 50 + 10 * RNG.normal(size=(150, 3))
FRAME = pd.DataFrame({"age": X[:, 0], "city": np.where(X[:, 1] > 47, "Oslo", "Rome")})
MASK = np.arange(600) % 4 == 0


class Recorder(TransformerMixin, BaseEstimator):
    """Remembers what it was fitted on."""

    def fit(self, X, y=None):
        self.seen_ = X, y
        return self

    def transform(self, X):
        return X


def test_only_public_rows_are_seen():
    seen, labels = PublicFit(Recorder()).fit(X, Y, is_public=MASK).transformer_.seen_
    np.testing.assert_array_equal(seen, X[MASK])
    np.testing.assert_array_equal(labels, Y[MASK])
    seen, labels = PublicFit(Recorder()).fit(X, Y, X_public=PUBLIC).transformer_.seen_
    np.testing.assert_array_equal(seen, PUBLIC)
    assert labels is None
    seen, labels = (
        PublicFit(Recorder()).fit(X, Y, X_public=PUBLIC, is_public=MASK).transformer_.seen_
    )
    np.testing.assert_array_equal(seen, np.vstack([X[MASK], PUBLIC]))
    assert labels is None


def test_private_rows_do_not_reach_the_fitted_object():
    other = np.where(MASK[:, None], X, 1e6)
    one = PublicFit().fit(X, is_public=MASK)
    two = PublicFit().fit(other, is_public=MASK)
    assert pickle.dumps(one) == pickle.dumps(two)


@pytest.mark.parametrize("private", [[2.5], ["x"], ["a very long private diagnosis"]])
def test_conversion_of_private_rows_does_not_reach_the_public_ones(private):
    mask = [True, True, False]
    for public in ([[1], [2]], [["a"], ["b"]]):
        alone = PublicFit(OrdinalEncoder()).fit([*public, public[0]], is_public=mask)
        other = PublicFit(OrdinalEncoder()).fit([*public, private], is_public=mask)
        assert pickle.dumps(alone) == pickle.dumps(other)
    text = np.array([["a"], ["b"], [str(private[0])]])
    alone = PublicFit(OneHotEncoder()).fit(text[[0, 1, 0]], is_public=mask)
    other = PublicFit(OneHotEncoder()).fit(text, is_public=mask)
    assert pickle.dumps(alone) == pickle.dumps(other)


def test_unknown_private_categories_are_not_quoted():
    encoder = PublicFit(OneHotEncoder()).fit([["a"], ["b"]], is_public=[True, True])
    with pytest.raises(ValueError, match="handle_unknown='ignore'") as caught:
        encoder.transform([["SECRET"]])
    assert "SECRET" not in str(caught.value)


def test_transforms_like_the_inner_one():
    expected = StandardScaler().fit(PUBLIC).transform(X)
    scaler = PublicFit()
    np.testing.assert_array_equal(scaler.fit_transform(X, X_public=PUBLIC), expected)
    np.testing.assert_allclose(scaler.inverse_transform(expected), X)
    assert not hasattr(PublicFit(Recorder()), "inverse_transform")
    assert scaler.get_feature_names_out().tolist() == ["x0", "x1", "x2"]


def test_frames_in_and_out():
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["city"]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    public = PublicFit(encoder).set_output(transform="pandas")
    out = public.fit_transform(FRAME, is_public=MASK)
    assert list(out.columns) == ["city_Oslo", "city_Rome", "age"]
    assert out.index.equals(FRAME.index)
    assert public.feature_names_in_.tolist() == ["age", "city"]
    stacked = PublicFit(Recorder()).fit(FRAME, is_public=MASK, X_public=FRAME[:100].copy())
    assert stacked.transformer_.seen_[0].shape == (150 + 100, 2)
    turned = public.transform(FRAME[["city", "age"]])
    assert turned.equals(out)
    with pytest.raises(ValueError, match="city"):
        public.transform(FRAME[["age"]])


def test_sparse_rows():
    rows = sparse.csr_matrix(X)
    out = PublicFit(MaxAbsScaler()).fit_transform(
        rows, is_public=MASK, X_public=sparse.csr_matrix(PUBLIC)
    )
    assert sparse.issparse(out)
    expected = MaxAbsScaler().fit(np.vstack([X[MASK], PUBLIC])).transform(X)
    np.testing.assert_allclose(out.toarray(), expected)


def test_supervised_transformers_get_public_labels():
    selected = PublicFit(SelectKBest(k=1)).fit(X, Y, is_public=MASK)
    assert selected.transform(X).shape == (600, 1)


def test_no_public_rows():
    with pytest.warns(NoPublicDataWarning, match="standard-normal"):
        scaled = PublicFit().fit_transform(X)
    np.testing.assert_allclose(scaled, X, rtol=0.02)
    with pytest.warns(NoPublicDataWarning):
        framed = PublicFit().set_output(transform="pandas").fit_transform(FRAME[["age"]])
    assert list(framed.columns) == ["age"]
    with pytest.warns(NoPublicDataWarning), pytest.raises(ValueError, match="X_public"):
        PublicFit(OneHotEncoder()).fit(FRAME)


def test_a_release_of_rows_with_missing_numbers():
    """What the error advises is done."""
    rows = np.random.default_rng(0).normal(size=(600, 2))
    rows[::7, 0] = np.nan
    public, release = rows[:90].copy(), PAPQueryRelease(random_state=0)
    with pytest.raises(ValueError, match=r"PublicFit\(SimpleImputer\(\)\)"):
        release.fit(rows[90:], X_public=public[1:7].copy())
    steps = PublicFit(SimpleImputer()).fit(rows[90:], X_public=public)
    release.fit(steps.transform(rows[90:]), X_public=steps.transform(public))
    assert np.isfinite(release.sample(50)).all()


def pipeline(**parameters):
    return Pipeline(
        [
            ("scale", PublicFit(MinMaxScaler())),
            ("learn", SemiPrivateClassifier(random_state=0, **parameters)),
        ],
        transform_input=["X_public"],
    )


class TestRouting:
    """Public rows travel through pipelines and searches without being asked for."""

    @pytest.fixture(autouse=True)
    def _routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    def test_pipeline_transforms_the_public_rows_on_the_way(self):
        fitted = pipeline().fit(X, Y, X_public=PUBLIC)
        scaler = MinMaxScaler().fit(PUBLIC)
        by_hand = SemiPrivateClassifier(random_state=0).fit(
            scaler.transform(X), Y, X_public=scaler.transform(PUBLIC)
        )
        assert str(fitted[-1].hypothesis_) == str(by_hand.hypothesis_)
        assert fitted[-1].privacy_.n_public == 150

    def test_without_transform_input_later_steps_get_raw_rows(self):
        """The trap of the manual, kept here so that a change of scikit-learn shows."""
        raw = pipeline()
        raw.set_params(transform_input=None)
        fitted = raw.fit(X, Y, X_public=PUBLIC)
        assert fitted[-1].hypothesis_.splits.thresholds.max() > 2

    def test_the_trap_of_equal_lengths(self):
        with pytest.warns(SlicedPublicDataWarning, match=r"\(400\)"):
            cross_val_score(pipeline(), X, Y, cv=3, params={"X_public": X + 1})


def diamonds(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"cut": rng.choice(["Ideal", "Good"], n), "carat": rng.normal(size=n)})


def fail(X):
    raise RuntimeError("its own words")


@pytest.mark.once  # versions of scikit-learn and pandas word their messages differently
@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (make_column_transformer((StandardScaler(), ["caratt"])), "not columns.*'caratt'"),
        (
            make_column_transformer((OneHotEncoder(), ["cut"]), (StandardScaler(), ["caratt"])),
            "not columns.*'caratt'",
        ),
        (
            make_pipeline(FunctionTransformer(fail), StandardScaler()),
            "RuntimeError: its own words.$",
        ),
        (
            StandardScaler(),
            "could not convert string to float.*Column cut contains text: encode this column",
        ),
    ],
)
def test_the_message_of_the_transformer_comes_first(transformer, message):
    with pytest.raises(ValueError, match=f"to the public rows: .*{message}") as caught:
        PublicFit(transformer).fit(diamonds(50, 0), X_public=diamonds(30, 1))
    assert caught.value.__cause__ is not None
    assert ("Column cut" in str(caught.value)) == isinstance(transformer, StandardScaler)


@pytest.mark.parametrize("wrap", [make_pipeline, lambda inner: inner])
def test_a_wrapper_in_a_wrapper_is_refused(wrap):
    with pytest.raises(ValueError, match="must not contain another PublicFit"):
        PublicFit(wrap(PublicFit(StandardScaler()))).fit([[1.0], [2.0]], X_public=[[1.0]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_of_a_function_without_names(library):
    def double(frame):
        return frame * 2

    rows, public = diamonds(50, 0)[["carat"]], diamonds(30, 1)[["carat"]]
    if library == "polars":
        rows, public = pl.from_pandas(rows), pl.from_pandas(public)
    step = PublicFit(FunctionTransformer(double)).set_output(transform=library)
    transformed = clone(step).fit(rows, X_public=public).transform(rows)
    assert type(transformed) is type(rows)
    assert step.set_output() is step
    inner = step.fit(rows, X_public=public).transformer_
    assert inner._sklearn_output_config == {"transform": library}
    assert step.set_output(transform="default").transformer_._sklearn_output_config == {
        "transform": "default"
    }


@pytest.mark.filterwarnings("ignore")  # few rows give numerical warnings
def test_set_output_of_every_transformer():
    """Frames are those that scikit-learn's transformer returns if it is fitted to the same rows."""
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 4, (40, 3)) * 1.0, columns=[*"abc"])
    transformers = [
        make_pipeline(FunctionTransformer(np.abs), StandardScaler()),
        make_pipeline("passthrough", StandardScaler()),
        make_column_transformer((StandardScaler(), ["a"]), remainder="passthrough"),
    ]
    for _, kind in all_estimators("transformer"):
        required = inspect.Parameter.empty
        parameters = inspect.signature(kind).parameters.values()
        if all(parameter.default is not required for parameter in parameters):
            transformer = kind()
            seeded = {"random_state": 0} if "random_state" in transformer.get_params() else {}
            transformers.append(transformer.set_params(**seeded))
    n_compared = 0
    for transformer in transformers:
        try:
            expected = clone(transformer).set_output(transform="pandas").fit(table[:25])
            frame = expected.transform(table)
        except (TypeError, ValueError, AttributeError):  # text only, sparse output, labels, ...
            continue
        step = PublicFit(transformer).set_output(transform="pandas")
        result = step.fit(table, X_public=table[:25].copy()).transform(table)
        pd.testing.assert_frame_equal(result, frame)
        n_compared += 1
    assert n_compared > 40


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        (RFE(SemiPrivateClassifier(), n_features_to_select=1, importance_getter=len), "RFE"),
        (BaggingClassifier(SemiPrivateClassifier(), max_features=1), "BaggingClassifier"),
        (ClassifierChain(SemiPrivateClassifier()), "ClassifierChain"),
    ],
)
def test_selectors_that_change_x_only_are_told_to_use_a_mask(selector, name):
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(80, 3)), rng.normal(size=(30, 3))
    y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int)
    if name == "RFE":
        selector.set_params(importance_getter=lambda model: np.arange(model.n_features_in_))
    with (
        config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match=f"{name} may change the columns of X only: .*is_public"),
    ):
        selector.fit(X, y if name == "ClassifierChain" else y[:, 0], X_public=public)
