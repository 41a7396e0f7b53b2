"""Private multiplicative weights: cells, exact privacy over all neighbours, the guarantee."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.accounting import Draw, Steps, plan_delta, rho_price, zcdp_rho
from skpublicdp.guarantees import (
    cover_radius,
    cuts_radius,
    n_public,
    n_query_release,
    vc_dimension,
)
from skpublicdp.query_release import (
    CustomQueries,
    HalfspaceQueries,
    IntervalQueries,
    RectangleQueries,
    StumpQueries,
    ThresholdQueries,
)
from tests.helpers import allowed_failures
from tests.internals.privacy import Ledger
from tests.internals.query_release import (
    BoxQueryCover,
    ExplicitCover,
    HalfspaceDichotomies,
    HalfspaceQueryCover,
    ProductCover,
    QuantileAxis,
    choose_points,
    geometric,
)
from tests.internals.query_release import pmw_release as pmw
from tests.kit import Recorder, enumerate_runs, exp_above, index_by_release, worst_ratio

INF = np.inf
# class, public rows
ARRANGED = {
    "thresholds": (ThresholdQueries(), np.array([[0.0], [1.0], [1.0], [3.0]])),
    "intervals": (IntervalQueries(), np.arange(4.0)[:, None]),
    "rectangles": (RectangleQueries(), np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [2.0, 0.5]])),
    "stumps": (StumpQueries(), np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])),
    "halfspaces": (HalfspaceQueries(), np.random.default_rng(0).normal(size=(14, 2))),
    "custom": (CustomQueries(lambda X: X > 0), np.array([[1.0, 2.0], [-1.0, 1.0], [-1.0, -1.0]])),
}
EACH = pytest.mark.parametrize("case", ARRANGED)


def cover_of(case):
    queries, X_public = ARRANGED[case]
    return queries, X_public, queries.build_cover(X_public)


def some_queries(queries, rng, n, width):
    """Queries of any kind, some of them empty and some with ends at public values."""
    ends = np.sort(rng.integers(-2, 9, size=(n, width, 2)) / 2, axis=2)
    match queries:
        case ThresholdQueries():
            return ends[:, :, 1]
        case IntervalQueries():
            return ends[:, 0]
        case StumpQueries():
            return np.column_stack([rng.integers(width, size=n), ends[:, 0, 0]])
        case RectangleQueries():
            return ends
    return rng.normal(size=(n, width + 1))


def on_rows(cover, query, X):
    """Whether a member of the cover holds in the cells of rows."""
    return cover.incidence_row(query)[cover.assign_cells(X)].sum(axis=1) > 0


@pytest.mark.parametrize("case", ["thresholds", "intervals", "rectangles", "stumps"])
def test_queries_agree_with_their_members_on_all_public_rows(case):
    """Algorithm 3: the cover has a member for each dichotomy of the public rows."""
    queries, X_public, cover = cover_of(case)
    Q = some_queries(queries, np.random.default_rng(0), 300, X_public.shape[1])
    holds = queries.holds(Q, X_public)
    assert len(np.unique(holds, axis=0)) >= len(X_public)
    for member, wanted in zip(queries.nearest_members(Q, cover.member_index), holds, strict=True):
        np.testing.assert_array_equal(on_rows(cover, member, X_public), wanted)
    assert cover.irreducible_error == 0


@EACH
def test_answers_are_sums_over_cells(case):
    cover = cover_of(case)[2]
    counts = np.random.default_rng(1).integers(50, size=cover.size)
    incidence = np.array([cover.incidence_row(query) for query in range(cover.n_queries)])
    np.testing.assert_array_equal(cover.answers(counts), incidence @ counts)
    assert len(np.unique(incidence, axis=1).T) == cover.size  # no cell is there twice
    weights = cover.normalize_blocks(np.log(1 + counts))
    np.testing.assert_allclose(cover.answers(weights), incidence @ weights, atol=1e-6)
    rows, weights = cover.weighted_rows(weights)
    assert len(rows) == len(weights)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("case", ["thresholds", "intervals", "rectangles"])
def test_queries_with_ends_at_cuts_are_their_members(case):
    """Definition 2: a member has one answer for all rows of a cell."""
    queries, X_public, cover = cover_of(case)
    X = np.random.default_rng(2).normal(size=(2000, X_public.shape[1])) * 3
    ends = [np.concatenate([[-INF], axis.cuts, [INF]]) for axis in cover.axes]
    for picks in itertools.product(*(itertools.combinations(many, 2) for many in ends)):
        box = np.array(picks)
        box[:, 0] = np.nextafter(box[:, 0], INF)
        Q = {"thresholds": box[:, 1:][0], "intervals": box[0], "rectangles": box}[case][None]
        if case == "thresholds" and picks[0][0] != -INF:
            continue
        (member,) = queries.nearest_members(Q, cover.member_index)
        np.testing.assert_array_equal(on_rows(cover, member, X), queries.holds(Q, X)[0])


@pytest.mark.parametrize("seed", range(3))
def test_skipped_rows_of_a_coarse_axis_are_counted(seed):
    rng = np.random.default_rng(seed)
    column = np.round(rng.normal(size=200), 1 + seed % 2)
    axis = QuantileAxis(column, 2, 7)
    assert len(axis.representatives) <= 7
    missed = []
    for t in np.unique(column):
        (place,) = axis.nearest_ranges(np.array([-INF]), np.array([t]))
        run = axis.cell_slice(place)
        assert run.start == 0
        differs = (axis.assign_cells(column) < run.stop) != (column <= t)
        missed.append(differs.mean())
    assert max(missed) == pytest.approx(axis.max_skipped_share)
    assert 0 < axis.max_skipped_share < 0.15
    np.testing.assert_array_equal(
        axis.assign_cells(axis.representatives), np.arange(len(axis.representatives))
    )


def test_weights_of_columns_are_those_of_all_their_cells():
    """Multiplicative weights on {0,1}^3, with its 8 cells listed and as a product."""
    cover = StumpQueries().build_cover(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))
    cells = np.array(list(itertools.product((0, 1), repeat=3)))
    logs, listed = np.zeros(cover.size), np.zeros(8)
    for step, query in enumerate(np.random.default_rng(0).integers(cover.n_queries, size=30)):
        row = cover.incidence_row(query)
        logs += step * row
        listed += step * row[cover.assign_cells(cells)].sum(axis=1)
    listed = np.exp(listed - listed.max())
    listed /= listed.sum()
    product = cover.normalize_blocks(logs)[cover.assign_cells(cells)].prod(axis=1)
    np.testing.assert_allclose(product, listed)
    assert cover.log_cells == pytest.approx(math.log(8))


class TestHalfspaces:
    @pytest.mark.parametrize(("bits", "n_functions"), [(1, 4), (2, 14), (3, 104), (4, 1882)])
    def test_threshold_functions(self, bits, n_functions):
        """As many as are known (Muroga 1971), though many corners of a cube share a plane."""
        points = np.array(list(itertools.product((0.0, 1.0), repeat=bits)))
        divisions = HalfspaceDichotomies(points)
        rules = divisions.halfspaces(HalfspaceQueries().holds)
        assert len(rules) == len(divisions.signs) == n_functions

    @pytest.mark.parametrize(("m", "width"), [(1, 2), (5, 1), (3, 4), (9, 2), (7, 3)])
    def test_points_in_general_position(self, m, width):
        """Cover (1965)."""
        queries = HalfspaceQueries()
        points = np.random.default_rng(m).normal(size=(m, width))
        rules = HalfspaceDichotomies(points).halfspaces(queries.holds)
        assert len(rules) == queries.growth(m, width)
        assert len(np.unique(queries.holds(rules, points), axis=0)) == len(rules)

    def test_points_on_a_line(self):
        points = np.column_stack([np.arange(4.0), 2 * np.arange(4.0)])
        divisions = HalfspaceDichotomies(points)
        assert len(divisions.halfspaces(HalfspaceQueries().holds)) == 8
        assert divisions.disagreement_bound(points) == 0
        assert divisions.disagreement_bound(points + np.array([0, 1])) == 1

    @pytest.mark.parametrize("width", [1, 2, 3])
    def test_undecided_rows(self, width):
        rng = np.random.default_rng(width)
        queries, points = HalfspaceQueries(), rng.normal(size=(6, width))
        rows = rng.normal(size=(300, width))
        bound = HalfspaceDichotomies(points).disagreement_bound(rows)
        Q = rng.normal(size=(4000, width + 1))
        keys, holds = queries.holds(Q, points), queries.holds(Q, rows)
        worst = 0.0
        for key in np.unique(keys, axis=0):
            alike = holds[(keys == key).all(axis=1)]
            worst = max(worst, (alike != alike[0]).mean(axis=1).max())
        assert 0.3 * bound < worst <= bound

    def test_chosen_points_leave_fewer_rows_undetermined(self):
        """Fewer than random points do, on rows by which they were not chosen."""
        chosen, random = [], []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            rows, others = rng.normal(size=(2, 600, 2))
            points = choose_points(rows, 24, rng)
            assert len(np.unique(points, axis=0)) == 24
            chosen.append(HalfspaceDichotomies(points).disagreement_bound(others))
            random.append(HalfspaceDichotomies(rows[:24]).disagreement_bound(others))
        assert max(chosen) < 0.35 < np.mean(random)
        assert np.mean(chosen) < 0.85 * np.mean(random)

    @pytest.mark.parametrize(
        "rows",
        [
            np.zeros((1, 2)),
            np.column_stack([np.arange(60.0), np.arange(60.0)]),
            np.array(list(itertools.product(range(5), repeat=2)), dtype=float),
            np.eye(3),
        ],
        ids=["one", "a line", "a grid", "corners"],
    )
    def test_points_of_degenerate_rows(self, rows):
        points = choose_points(rows, 12, np.random.default_rng(0))
        assert 1 <= len(points) <= 12
        cover = HalfspaceQueries().build_cover(np.concatenate([rows, rows]))
        answers = cover.answers(cover.count(rows))
        expected = HalfspaceQueries().holds(cover.member_index.cover, rows).sum(axis=1)
        np.testing.assert_array_equal(answers, expected)  # rows that are cells are exact

    def test_it_has_no_floor_as_with_20_points(self):
        X = np.random.default_rng(0).normal(size=(3000, 2))
        cover = HalfspaceQueries().build_cover(X)
        assert cover.n_queries == 2258  # all dichotomies of 48 points
        assert cover.irreducible_error < 0.2
        assert cover.radius(3000, 3, 0.025) < 0.3
        queries, members = HalfspaceQueries(), cover.member_index
        np.testing.assert_array_equal(queries.nearest_members(members.cover, members), range(2258))

    def test_the_radius_is_as_large_as_promised(self, monkeypatch):
        """The shares of the population are estimated by rows that neither half contains."""
        monkeypatch.setattr(geometric, "MAX_HALFSPACES", 120)
        queries, beta, runs, failures, ratios = HalfspaceQueries(), 0.2, 40, 0, []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            X, population = rng.normal(size=(120, 2)), rng.normal(size=(4000, 2))
            cover = queries.build_cover(X)
            rules, points = cover.member_index.cover, cover.member_index.points
            differs = (
                queries.holds(rules, population)
                != cover.incidence[:, cover.assign_cells(population)[:, 0]]
            )
            reassigned = differs.mean(axis=1).max()
            disagreement = HalfspaceDichotomies(points).disagreement_bound(population)
            radius = cover.radius(len(X), 3, beta)
            failures += reassigned + disagreement > radius
            ratios.append((reassigned + disagreement) / radius)
        assert failures <= allowed_failures(runs, beta)
        assert max(ratios) > 0.2

    def test_a_row_has_the_cell_of_the_nearest_candidate(self):
        """By itself: rows do not influence each other, and no value is refused."""
        _, _, cover = cover_of("halfspaces")
        X = np.random.default_rng(0).normal(size=(500, 2)) * 2
        X = np.concatenate([X, [[1e308, -1e308], [np.inf, 0.0], [np.nan, 1.0]]])
        together = cover.assign_cells(X)
        np.testing.assert_array_equal(together, [cover.assign_cells(row[None])[0] for row in X])
        assert together.max() < cover.size


def test_rows_of_unlisted_cells_are_assigned_to_the_nearest():
    """The cells of listed queries are unknown without rows."""
    cover = cover_of("custom")[2]
    assert cover.size == 2
    (place,) = cover.assign_cells(np.array([[1.0, -1.0]]))[:, 0]
    assert (cover.incidence[:, place] != [True, False]).sum() == 1
    assert cover.count(np.array([[1.0, -1.0], [-1.0, -9.0]])).sum() == 2
    assert cover.irreducible_error == 1  # the third public row, all there is to tell, is moved


@EACH
def test_counts_move_by_one_at_most(case):
    """All neighbours on a small domain: the sensitivity behind every draw."""
    _, X_public, cover = cover_of(case)
    width = X_public.shape[1]
    places = np.array(list(itertools.product([-5.0, 0.4, 1.0, 9.0], repeat=width)))
    counts = np.array([count(cover, place[None]) for place in places])
    assert counts.min() == 0
    assert counts.max() == 1
    np.testing.assert_array_equal(count(cover, places), counts.sum(axis=0))


def count(cover, X):
    return cover.answers(cover.count(X))


CORNERS = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
WIDTHS = {BoxQueryCover: 1, ProductCover: 2, ExplicitCover: 2, HalfspaceQueryCover: 2}
SMALL = {
    BoxQueryCover: ThresholdQueries().build_cover(np.array([[0.0], [1.0], [2.0]])),
    ProductCover: StumpQueries().build_cover(CORNERS),
    ExplicitCover: CustomQueries(lambda X: X > 0.5).build_cover(CORNERS),
    HalfspaceQueryCover: HalfspaceQueries().build_cover(CORNERS[[0, 1, 0, 1]]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("kind", SMALL)
def test_exact_privacy_over_all_neighbours(kind, epsilon):
    """Two rounds, two rows: P <= e^ε P' for every transcript and neighbour."""
    cover, width = SMALL[kind], WIDTHS[kind]
    values = list(itertools.product((-1.0, 0.6, 7.0), repeat=width))[:: 1 if width == 1 else 2]
    plan, released = pmw.RoundPlan(2, epsilon / 2, 0.7, 1.0), {}
    for rows in itertools.combinations_with_replacement(range(len(values)), 2):
        counts = count(cover, np.array([values[row] for row in rows]))
        runs = enumerate_runs(
            lambda counts=counts: pmw.run_pmw(counts, 2, cover, plan, Ledger(epsilon, 0, 0))
        )
        assert len(runs) == (2 * len(counts)) ** 2
        released[rows] = index_by_release(runs)
    ratios = [
        worst_ratio(released[rows], released[other], epsilon)
        for rows, other in itertools.permutations(released, 2)
        if set(rows) & set(other)
    ]
    assert max(ratios) <= 1
    assert max(ratios) > exp_above(-epsilon / 2)  # half of ε is really lost


def test_run_pmw_follows_the_plan():
    cover = ThresholdQueries().build_cover(np.arange(4.0)[:, None])
    ledger = Ledger(1, 1e-6, 0)
    plan = pmw.plan_rounds(1000, 5, math.log(4), ledger=ledger, beta=0.05)
    with Recorder() as recorder:
        counts = cover.answers(np.array([400, 300, 200, 100]))
        weights = pmw.run_pmw(counts, 1000, cover, plan, ledger)
    drawn = [(call.kind, call.event, call.sensitivity) for call in recorder.calls]
    assert drawn == [("draw", Draw(plan.round_epsilon), 1)] * plan.rounds
    assert ledger.event == Steps((Draw(plan.round_epsilon),) * plan.rounds)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()


class TestPlan:
    SETTINGS = 1, Fraction(1, 10**10)

    def plan(self, n, n_queries, n_cells, *, settings=SETTINGS, k=None, **parameters):
        ledger = Ledger(*settings, rows_per_person=k)
        return pmw.plan_rounds(
            n, n_queries, math.log(n_cells), ledger=ledger, beta=0.0125, **parameters
        )

    def test_alpha_means_fewer_rounds(self):
        best = self.plan(100_000, 63, 64)
        rough = self.plan(100_000, 63, 64, alpha=0.5)
        assert rough.rounds == math.ceil(math.log(64) / (2 * 0.25**2))
        assert rough.rounds < best.rounds
        assert best.error < rough.error < 0.5

    def test_it_is_no_worse_than_the_paper(self):
        """Lemma 7 as stated, for answers in [-1, 1], beside ours, for answers in [0, 1]."""
        for n in (10_000, 100_000, 1_000_000):
            plan = self.plan(n, 63, 64)
            alpha = 2 * plan.error
            log_cells = math.log(64)
            needed = 200 * math.sqrt(log_cells * math.log(2e10))
            needed *= math.log(63) + math.log(128 * log_cells / (alpha**2 * 0.025))
            assert n < needed / alpha**2

    @pytest.mark.parametrize("n", [50, 2000, 100_000])
    def test_a_round_gets_no_less_than_by_zcdp(self, n):
        plan = self.plan(n, 63, 64)
        rho = zcdp_rho(*map(Fraction, self.SETTINGS))
        assert plan.rounds * rho_price(Draw(plan.round_epsilon)) > 0.999 * rho
        assert plan_delta(Steps((Draw(plan.round_epsilon),) * plan.rounds), 1) <= 1e-10

    def test_the_loss_of_a_draw_grows_with_the_rows_of_a_person(self):
        one, three = (self.plan(30_000, 63, 64, k=k, alpha=0.9) for k in (1, 3))
        assert one.rounds == three.rounds
        learned = math.sqrt(math.log(64) / (2 * one.rounds))
        missed = one.error - learned - 1 / 30_000
        assert three.error == pytest.approx(learned + 3 * missed + 1 / 30_000)

    @pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**10)])
    def test_the_guarantee_holds(self, delta):
        """Over seeds, the largest error on the private rows is within the bound."""
        cover = ThresholdQueries().build_cover(np.arange(16.0)[:, None])
        cells = np.zeros(16, dtype=np.int64)
        cells[[2, 9]] = 15_000, 5_000  # far from uniform
        counts = cover.answers(cells)
        plan = self.plan(20_000, len(counts), 16, settings=(1, delta))
        errors = []
        for seed in range(12):
            weights = pmw.run_pmw(counts, 20_000, cover, plan, Ledger(1, delta, seed))
            errors.append(np.abs(cover.answers(weights) - counts / 20_000).max())
        assert max(errors) <= plan.error
        assert max(errors) > plan.error / 20


def between_cuts(axis):
    """The largest share of a uniform column between a number and the nearest cut."""
    ends = np.concatenate([[0.0], axis._values, [1.0]])
    cuts = np.concatenate([[0.0], axis.cuts, [1.0]])[axis._nearest_cut]
    return max(np.abs(cuts - ends[:-1]).max(), np.abs(cuts - ends[1:]).max())


class TestRadius:
    @pytest.mark.parametrize(("m", "n_cells"), [(60, 100), (300, 20), (300, 299), (900, 7)])
    def test_it_holds_with_its_probability(self, m, n_cells):
        beta, trials, failures, shares = 0.1, 300, 0, []
        for seed in range(trials):
            axis = QuantileAxis(np.random.default_rng(seed).random(m), 1, n_cells)
            radius, worst = axis.radius(m, beta, 1), between_cuts(axis)
            failures += worst > radius
            shares.append(worst / radius)
        assert failures <= allowed_failures(trials, beta)
        assert max(shares) > 0.5

    @pytest.mark.parametrize("decimals", [0, 1, 9])
    @pytest.mark.parametrize("n_cells", [2, 7, 30, 400])
    def test_representatives_are_medians(self, decimals, n_cells):
        """Corollary 6b: rows on one side of a representative are no more than skipped rows."""
        for seed in range(30):
            column = np.round(np.random.default_rng(seed).normal(size=250), decimals)
            axis = QuantileAxis(column, 2, n_cells)
            representative = axis.representatives[axis.assign_cells(column)]
            for side in (column < representative, column > representative):
                in_cell = np.bincount(axis.assign_cells(column)[side], minlength=axis.n_cells)
                assert in_cell.max() <= axis.max_skipped_rows

    def test_all_numbers_of_skipped_rows_share_beta(self):
        """The rows decide which bound is used, so all of them hold at once."""
        c = np.arange(10**6)
        assert (1 / ((c + 1) * (c + 2))).sum() == pytest.approx(1, abs=1e-5)
        axis = QuantileAxis(np.arange(3000.0), 2, 100)
        c, m = axis.max_skipped_rows, 3000
        assert axis.max_skipped_share == pytest.approx(c / m)
        assert c > 0
        share = 0.02 / ((c + 1) * (c + 2))
        assert axis.radius(m, 0.02, 4) == cuts_radius(m, share, 2, columns=4, missed=c)

    @pytest.mark.parametrize(
        ("queries", "width", "most"),
        [
            (ThresholdQueries(), 1, 0.01),
            (IntervalQueries(), 1, 0.02),
            (StumpQueries(), 5, 0.011),
            (RectangleQueries(), 2, 0.11),
        ],
    )
    def test_cuts_are_cheaper_than_dichotomies(self, queries, width, most):
        cover = queries.build_cover(np.random.default_rng(0).normal(size=(3000, width)))
        d = vc_dimension(queries, width)
        assert cover.irreducible_error < cover.radius(3000, d, 0.025) < most
        assert 1.8 * most < cover_radius(3000, d, 0.025, cover.irreducible_error)

    def test_categories_are_all_members(self):
        axes = [QuantileAxis(np.arange(4), 0, 4), QuantileAxis(np.arange(9.0), 1, 99)]
        assert ProductCover(axes[:1]).radius(50, 1, 0.05) == 0
        assert ProductCover(axes).radius(50, 1, 0.05) == cuts_radius(50, 0.025, 1)


class TestSizes:
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    @pytest.mark.parametrize(
        ("queries", "width", "alpha"),
        [(ThresholdQueries(), 1, 0.1), (IntervalQueries(), 1, 0.3), (StumpQueries(), 2, 0.3)],
    )
    def test_the_guarantee_at_the_tight_size_is_alpha(self, queries, width, alpha, delta):
        d, beta, epsilon = vc_dimension(queries, width), 0.05, 1.0
        m = n_public(alpha / 4, beta / 2, d, constants="tight")
        n = n_query_release(
            alpha, beta, epsilon, delta, d, queries.dual_vc_dimension(width), constants="tight"
        )
        cover = queries.build_cover(np.random.default_rng(0).normal(size=(m, width)))
        for enough in (None, alpha / 2):  # what the release makes of its alpha
            ledger = Ledger(Fraction(epsilon), Fraction(str(delta)))
            plan = pmw.plan_rounds(
                n, cover.n_queries, cover.log_cells, ledger=ledger, beta=beta / 4, alpha=enough
            )
            sampling = math.sqrt(math.log(8 * cover.n_queries / beta) / (2 * n))
            radius = cover.radius(m, d, beta / 2)
            assert radius + sampling + plan.error <= alpha

    def test_the_tight_size_is_monotone_and_far_below_the_papers(self):
        usual = {"alpha": 0.1, "beta": 0.05, "epsilon": 0.5, "delta": 1e-6, "d": 1, "dual": 1}
        tight = n_query_release(**usual, constants="tight")
        assert 30 * tight < n_query_release(**usual)
        for name, easier in (("alpha", 0.2), ("beta", 0.2), ("epsilon", 2.0), ("delta", 1e-3)):
            assert n_query_release(**{**usual, name: easier}, constants="tight") < tight
        for name, harder in (("d", 2), ("dual", 2), ("delta", 0.0)):
            harder = {**usual, "alpha": 0.2, name: harder}
            easy = n_query_release(**{**usual, "alpha": 0.2}, constants="tight")
            assert n_query_release(**harder, constants="tight") > easy

    def test_unreachable_errors_are_refused(self):
        with pytest.raises(ValueError, match="alpha must"):
            n_query_release(0.1, 0.05, 1.0, 1e-6, 4, 4, constants="tight")
        with pytest.raises(ValueError, match="constants must"):
            n_query_release(0.1, 0.05, 0.5, 1e-6, 1, constants="own")
