"""The displays show what was released, and only points and rows that they are given."""

import math

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease, PPMHalfspaceClassifier
from skpublicdp.exceptions import NoPublicDataWarning
from skpublicdp.hypotheses import HalfspaceIntersections, PublicSample
from skpublicdp.plotting import CDFDisplay, FidelityDisplay, MarginalDisplay, PolytopeDisplay
from skpublicdp.query_release import MarginalQueries

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


@pytest.mark.parametrize("settings", [{"pool": "axes"}, {"max_intersections": 6}])
@pytest.mark.parametrize("inside", ["positive", "negative"])
def test_shades_rules_with_either_label_inside(inside, settings):
    outside = {"positive": "negative", "negative": "positive"}[inside]
    y = np.where((X[:, 0] > -0.5) & (X[:, 1] < 0.5), inside, outside)
    clf = PPMHalfspaceClassifier(private_label="negative", random_state=0, **settings).fit(X, y)
    display = PolytopeDisplay.from_estimator(clf, limits=LIMITS)
    grid = RNG.uniform(*LIMITS.T, size=(5000, 2))
    shaded = matplotlib.path.Path(display.region_.get_xy()).contains_points(grid)
    assert (shaded == (clf.predict(grid) == inside)).all()
    assert 0 < shaded.sum() < len(grid)
    assert display.region_.get_label() == f"predict {inside}"


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


HOURS = RNG.choice([20, 38, 40, 45, 60], p=[0.2, 0.1, 0.5, 0.1, 0.1], size=(6000, 1))
HOURS_PUBLIC = HOURS[:200]
PEOPLE = pd.DataFrame(
    {
        "job": RNG.choice(["farm", "shop", None], p=[0.6, 0.3, 0.1], size=5000),
        "age": RNG.integers(18, 90, size=5000),
        "wage": RNG.exponential(size=5000),
    }
)


def release_of(X, X_public, **parameters):
    return PAPQueryRelease(random_state=0, **parameters).fit(X, X_public=X_public)


@pytest.fixture(scope="module")
def hours():
    return release_of(HOURS[200:], HOURS_PUBLIC, bounds=(0, 168))


@pytest.fixture(scope="module")
def people():
    return release_of(PEOPLE[300:], PEOPLE[:300])


def test_cdf_shows_what_is_released(hours):
    display = CDFDisplay.from_estimator(hours, HOURS_PUBLIC)
    x, heights = display.line_.get_data()
    np.testing.assert_array_equal(heights, hours.cdf(x))
    np.testing.assert_array_equal(display.band, hours.interval(x[:, None]))
    assert 0 <= display.band.min() <= display.band.max() <= 1
    at_most = (x >= HOURS_PUBLIC).mean(axis=0)
    np.testing.assert_allclose(display.public_line_.get_ydata(), at_most)
    for value in (20, 40, 60):  # a jump takes the least step to the right that there is
        assert np.isin([value, np.nextafter(value, 0)], x).all()
    assert display.line_.get_label() == "released, ε = 1"
    assert display.public_line_.get_label() == "200 public rows"
    assert display.ax_.get_xlabel() == "x0"


@pytest.mark.filterwarnings("ignore:(The public rows contain|Only 1 public row)")
def test_cdf_without_public_rows_or_band(hours):
    display = CDFDisplay.from_estimator(hours, limits=(10, 50))
    assert display.public_line_ is None
    assert display.band_ is not None
    assert display.ax_.get_xlim() == (10, 50)
    counted = release_of(HOURS[200:], HOURS_PUBLIC, method="public")
    display = CDFDisplay.from_estimator(counted, HOURS_PUBLIC)
    assert display.band_ is None
    assert display.line_.get_label() == "released, no private rows used"
    np.testing.assert_allclose(display.released, display.public)
    constant = release_of(np.ones((50, 1)), np.ones((5, 1)), method="public")
    assert CDFDisplay.from_estimator(constant).ax_.get_xlim() == (0, 2)


def test_cdf_of_a_column_of_tables(people):
    public = PEOPLE[:300]
    display = CDFDisplay.from_estimator(people, public, column="age")
    np.testing.assert_array_equal(display.released, people.cdf(display.x, "age"))
    np.testing.assert_array_equal(display.band, people.cdf_interval(display.x, "age"))
    at_most = (display.x >= public["age"].to_numpy()[:, None]).mean(axis=0)
    np.testing.assert_allclose(display.public, at_most)
    assert display.ax_.get_xlabel() == "age"
    position = people.feature_names_in_.tolist().index("age")
    assert CDFDisplay.from_estimator(people, column=position).public_line_ is None
    missing = public.assign(age=public["age"].where(public["age"] > 30))
    queries = MarginalQueries(missing=["age"])
    release = release_of(PEOPLE[300:], missing, queries=queries)
    display = CDFDisplay.from_estimator(release, missing, column="age")
    assert display.n_public == missing["age"].notna().sum()
    assert display.public[-1] == 1


def test_marginal_shows_what_is_released(people):
    public = PEOPLE[:300]
    display = MarginalDisplay.from_estimator(people, "job", public)
    assert display.labels == ["farm", "shop", "(other)", "(missing)"]
    asked = pd.DataFrame({"job": display.labels, "age": None, "wage": None})
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], people.answer(asked))
    widths = [bar.get_width() for bar in display.public_bars_]
    np.testing.assert_allclose(widths[:2], [(public.job == job).mean() for job in ("farm", "shop")])
    assert display.public.sum() == pytest.approx(1)
    assert display.ax_.get_ylabel() == "job"
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == display.labels


@pytest.mark.parametrize("column", ["age", "wage", 1])
def test_marginal_bins_are_those_of_the_release(people, column):
    display = MarginalDisplay.from_estimator(people, column, PEOPLE[:300])
    assert len(display.labels) == 16
    assert display.released.sum() == pytest.approx(1)
    name = people.feature_names_in_[column] if column == 1 else column
    asked = pd.DataFrame(dict.fromkeys(PEOPLE), index=range(300), dtype=object)
    asked[name] = PEOPLE[name][:300].to_numpy()
    answers = people.answer(asked)
    assert all(np.isclose(answers, share).any() for share in display.released)
    assert MarginalDisplay.from_estimator(people, column).public_bars_ is None


def test_fidelity_shows_each_table():
    rows = RNG.integers(3, size=(2000, 3)).astype(str)
    people = pd.DataFrame(rows, columns=["a", "b", "c"])
    release = PAPQueryRelease(random_state=0).fit(people[100:], X_public=people[:100].copy())
    frame = release.fidelity(500)
    display = FidelityDisplay.from_frame(frame, color="black")
    points = np.asarray(display.points_.get_offsets())
    expected = list(map(math.hypot, frame["release_error"], frame["drawing_error"]))
    np.testing.assert_allclose(points[:, 0], expected)
    np.testing.assert_allclose(points[:, 1], frame["rms_difference"])
    low, high = display.ax_.get_xlim()
    assert low < points.min()
    assert points.max() < high
    public = PAPQueryRelease(method="public").fit(people[100:], X_public=people[:100].copy())
    with pytest.raises(ValueError, match="no measured tables"):
        FidelityDisplay.from_frame(public.fidelity(500))
