"""The display: the region is the one that predict knows, and only given points are shown."""

import sys

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PPMHalfspaceClassifier
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.hypotheses import HalfspaceIntersections, PublicSample
from skpublicdp.plotting import PolytopeDisplay, clip

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
matplotlib.use("Agg")  # draws without a display

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 2))
Y = np.where((X @ [1, 2] > 1) & (X[:, 0] > -1), "positive", "negative")
PUBLIC = Y == "positive"
LIMITS = np.array([[-3.0, 3.0], [-2.0, 2.0]])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def clf():
    table = pd.DataFrame(X, columns=["day", "age"])
    parameters = {"private_label": "negative", "max_halfspaces": 200, "random_state": 0}
    return PPMHalfspaceClassifier(**parameters).fit(table, Y)


def test_shades_what_predict_says(clf):
    display = PolytopeDisplay.from_estimator(clf, limits=LIMITS)
    grid = RNG.uniform(*LIMITS.T, size=(5000, 2))
    inside = matplotlib.path.Path(display.region_.get_xy()).contains_points(grid)
    assert (inside == (clf.predict(pd.DataFrame(grid, columns=["day", "age"])) == "positive")).all()
    assert 0 < inside.sum() < len(grid)
    assert display.region_.get_label() == "predict positive"


def test_edges_are_on_the_halfspaces(clf):
    display = PolytopeDisplay.from_estimator(clf, limits=LIMITS)
    normals, offsets = clf.halfspaces_
    assert len(display.edges_) == len(offsets) == 2
    for edge in display.edges_:
        away = np.abs(edge.get_xydata() @ normals.T - offsets)
        assert (away < 1e-9).all(axis=0).any()


def test_shows_the_points_given_and_no_other(clf):
    display = PolytopeDisplay.from_estimator(clf, X[PUBLIC], Y[PUBLIC])
    (points,) = display.points_
    np.testing.assert_array_equal(points.get_offsets(), X[PUBLIC])
    assert points.get_label() == "public: positive"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("day", "age")
    low, high = np.transpose([display.ax_.get_xlim(), display.ax_.get_ylim()])
    assert (low < X[PUBLIC].min(axis=0)).all()
    assert (high > X[PUBLIC].max(axis=0)).all()
    assert PolytopeDisplay.from_estimator(clf, limits=LIMITS).points_ == []
    (unlabelled,) = PolytopeDisplay.from_estimator(clf, X[PUBLIC]).points_
    assert unlabelled.get_label() == "public points"
    assert len(PolytopeDisplay.from_estimator(clf, X[:50], Y[:50]).points_) == 2


def test_draws_where_and_how_it_is_told(clf):
    _, ax = plt.subplots()
    styles = {"region_kwargs": {"color": "red"}, "edge_kwargs": {"linewidth": 3}}
    names = ["one", "two"]
    display = PolytopeDisplay.from_estimator(
        clf, X[:9], feature_names=names, ax=ax, point_kwargs={"s": 40}, **styles
    )
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("one", "two")
    assert display.region_.get_facecolor() == (1, 0, 0, 1)
    assert {edge.get_linewidth() for edge in display.edges_} == {3}
    assert display.points_[0].get_sizes() == 40
    again = display.plot()
    assert again is display
    assert again.ax_ is not ax


def test_plain_columns_are_numbered():
    clf = PPMHalfspaceClassifier(max_halfspaces=50, random_state=0).fit(X, Y)
    display = PolytopeDisplay.from_estimator(clf, limits=LIMITS)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x0", "x1")
    assert display.region_.get_label() == "predict negative"  # the second label is private


def test_constant_rules():
    nobody = PPMHalfspaceClassifier(random_state=0)
    with pytest.warns(NoPublicDataWarning):
        nobody.fit(X, Y, is_public=np.zeros(len(X), dtype=bool))
    display = PolytopeDisplay.from_estimator(nobody, limits=LIMITS)
    assert display.region_ is None
    assert display.edges_ == []
    everybody = PPMHalfspaceClassifier(max_halfspaces=20, random_state=0).fit(X, Y)
    public = PublicSample(X[:9], everybody.classes_, ("x0", "x1"))
    cover = HalfspaceIntersections().build_cover(public, alpha=0.5, beta=0.5)
    everybody.hypothesis_ = cover.hypothesis(1)  # the intersection of no halfspace
    everybody.halfspaces_ = everybody.hypothesis_.normals, everybody.hypothesis_.offsets
    region = PolytopeDisplay.from_estimator(everybody, limits=LIMITS).region_
    np.testing.assert_array_equal(np.ptp(region.get_xy(), axis=0), [6, 4])


def test_public_points_on_a_line():
    line = np.column_stack([np.arange(30.0), 0.1 * np.arange(30.0) + 0.7])
    rows = np.concatenate([line, RNG.uniform(0, 30, size=(300, 2))])
    labels = np.repeat([0, 1], [30, 300])
    clf = PPMHalfspaceClassifier(epsilon=100, random_state=0).fit(rows, labels)
    assert len(clf.halfspaces_[1]) >= 2
    display = PolytopeDisplay.from_estimator(clf, line)
    assert display.edges_
    ends = np.concatenate([edge.get_xydata() for edge in display.edges_])
    np.testing.assert_allclose(ends[:, 1], 0.1 * ends[:, 0] + 0.7, atol=1e-6)


def test_clip():
    square = np.array([[0.0, 1.0], [0.0, 1.0]])
    none = np.empty((0, 2)), np.empty(0)
    assert clip(*none, square).tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert len(clip(np.array([[1.0, 0.0]]), np.array([2.0]), square)) == 0
    flat = np.array([[1.0, 0.3], [-1.0, -0.3]]), np.array([0.7, -0.7])
    corners = clip(*flat, square)
    assert np.allclose(corners @ [1, 0.3], 0.7)
    assert np.ptp(corners[:, 1]) == 1


def test_says_what_is_wrong(clf):
    X_three = RNG.normal(size=(500, 3))
    three = PPMHalfspaceClassifier(max_halfspaces=20, random_state=0)
    three.fit(X_three, (X_three[:, 0] > 0).astype(int))
    with pytest.raises(ValueError, match="two features; this classifier has 3"):
        PolytopeDisplay.from_estimator(three, X_three)
    with pytest.raises(ValueError, match="Pass public points as X, or limits"):
        PolytopeDisplay.from_estimator(clf)
    with pytest.raises(ValueError, match="X must have two columns; got 3"):
        PolytopeDisplay.from_estimator(clf, X_three)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        PolytopeDisplay.from_estimator(clf, X[:5], Y[:4])
    with pytest.raises(ValueError, match="two names; got 1"):
        PolytopeDisplay.from_estimator(clf, X[:5], feature_names=["day"])
    with pytest.raises(ValueError, match="not fitted"):
        PolytopeDisplay.from_estimator(PPMHalfspaceClassifier(), X[:5])


def test_names_what_to_install(clf, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        PolytopeDisplay.from_estimator(clf, X[:5])
