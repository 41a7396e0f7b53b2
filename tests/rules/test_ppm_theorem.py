"""The theorem on mixed populations: its family, supports at random, and what is promised."""

import functools
import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from skpublicdp import PPMHalfspaceClassifier
from skpublicdp.data import describe_columns
from skpublicdp.exceptions import CoverSizeError, TooFewRowsWarning
from skpublicdp.guarantees import n_ppm, n_ppm_paper
from skpublicdp.hypotheses import HalfspaceIntersections, Halfspaces
from tests.helpers import allowed_failures, public_sample
from tests.internals.guarantees import cone_count, ppm_guarantee, support_loss
from tests.internals.hypotheses import (
    AffineHull,
    ConeCover,
    max_pool_size,
    max_support_points,
    n_supported_halfspaces,
    tabulate,
)
from tests.internals.rules import ppm
from tests.kit import enumerate_runs, index_by_release, worst_ratio

pytestmark = pytest.mark.once

few_rows = pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.TooFewRowsWarning")
THEOREM = PPMHalfspaceClassifier(private_label=1, pool="paper", random_state=0)


def theorem_cover(points, classes=(0, 1)):
    family = HalfspaceIntersections(pool="paper")
    return family.build_cover(public_sample(points, classes), alpha=0.05, beta=0.05)


def paths(cover):
    """The members of cones, and those of a list."""
    if not isinstance(cover, ConeCover):
        return list(range(cover.size))
    spots = cover.family(tabulate(cover, np.empty((0, cover._public.X.shape[1])), [])).options[1]
    n_spots, n_members = spots.options.batch[-1], spots.options.size
    return [
        (0, 0),
        (0, 1),
        *((1, at) for at in itertools.product(range(n_spots), range(n_members))),
    ]


def errors(cover, X, y, weights=None):
    """The errors of all members, in the order of `paths`."""
    family = cover.family(tabulate(cover, X, y, weights))
    if not isinstance(cover, ConeCover):
        return family.errors
    few, spots = family.options
    return np.concatenate([few.errors, *(leaf.errors[0] for leaf in spots.options.chunks())])


def spanning(rng, m, d, size):
    """Integer points that span the space."""
    while True:
        points = np.unique(rng.integers(0, size, size=(m, d)), axis=0).astype(float)
        if np.linalg.matrix_rank(points[1:] - points[0]) == d:
            return points


class TestCones:
    @pytest.mark.parametrize(("d", "m"), [(2, 3), (2, 6), (3, 4), (3, 5)])
    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=4)
    def test_the_table_determines_the_errors_of_every_member(self, d, m, seed):
        rng = np.random.default_rng(seed)
        points = spanning(rng, m, d, 4)
        cover = theorem_cover(points)
        assert isinstance(cover, ConeCover)
        X = np.concatenate([points, rng.integers(-1, 5, size=(25, d))]).astype(float)
        y, weights = rng.integers(2, size=len(X)), rng.integers(0, 5, size=len(X))
        found, every = errors(cover, X, y, weights), paths(cover)
        assert len(found) == len(every) == cover.size
        for index in range(0, cover.size, 1 + cover.size // 40):
            rule = cover.hypothesis(every[index])
            assert found[index] == weights[rule.predict(X) != y].sum()
            if index == 0:  # the empty set has no halfspaces
                continue
            distances = X @ rule.normals.T - rule.offsets  # integers: exact up to 1e-9
            np.testing.assert_array_equal(rule.predict(X) == 1, (distances < -1e-9).any(axis=1))

    @pytest.mark.parametrize(("d", "m"), [(2, 5), (3, 5)])
    def test_members_are_among_the_papers(self, d, m):
        """At most d halfspaces, each with d independent public points on its border."""
        points = spanning(np.random.default_rng(0), m, d, 4)
        cover = theorem_cover(points)
        empty, whole, *rest = (cover.hypothesis(path) for path in paths(cover))
        assert empty.predict(points).all()
        assert not whole.predict(points).any()
        for rule in rest[::7]:
            assert 1 <= len(rule.offsets) <= d
            for normal, offset in zip(rule.normals, rule.offsets, strict=True):
                on = points[np.abs(points @ normal - offset) < 1e-9]
                assert np.linalg.matrix_rank(on[1:] - on[0]) == d - 1

    @pytest.mark.parametrize("d", [1, 2, 3])
    def test_their_number_in_general_position(self, d):
        for m in range(d + 1, d + 4):
            cover = theorem_cover(np.random.default_rng(m).normal(size=(m, d)))
            assert cover.size == cone_count(m, d)
        assert cone_count(max_support_points(d), d) <= 1 << 26
        assert d == 1 or cone_count(max_support_points(d) + 4, d) > 1 << 26

    def test_in_the_plane_only_half_planes_come_twice(self):
        """From each of the two points that support them."""
        rng = np.random.default_rng(0)
        cover = theorem_cover(rng.normal(size=(4, 2)))
        rows = 3 * rng.normal(size=(20_000, 2))
        inside = [cover.hypothesis(path).predict(rows).tobytes() for path in paths(cover)]
        assert len(set(inside)) == cover.size - 4 * 3

    @pytest.mark.parametrize("d", [1, 2, 3])
    @given(
        seed=st.integers(0, 10**6),
        n_public=st.integers(1, 6),
        n_private=st.integers(1, 14),
        size=st.integers(2, 6),
        mixed=st.booleans(),
        flat=st.booleans(),
    )
    @settings(max_examples=50)
    def test_some_member_is_as_good_as_the_best_halfspace(
        self, d, seed, n_public, n_private, size, mixed, flat
    ):
        """Corollary 4.4, on grids."""
        rng = np.random.default_rng(seed)
        public = rng.integers(0, size, size=(n_public, d)).astype(float)
        if flat:
            public[:, -1] = public[:, 0]
        X = np.concatenate([public, rng.integers(0, size, size=(n_private, d))]).astype(float)
        y = np.repeat([0, 1], [n_public, n_private])
        y[:n_public] = rng.integers(2, size=n_public) * mixed
        exact = Halfspaces("exact").build_cover(public_sample(X), alpha=0.05, beta=0.05)
        best = exact.family(tabulate(exact, X, y)).errors.min()
        assert errors(theorem_cover(public), X, y).min() <= best

    @pytest.mark.parametrize(("r", "d"), [(2, 3), (2, 5), (3, 6)])
    def test_points_in_an_affine_subspace(self, r, d):
        """The same members as in as many dimensions, and nothing off the flat."""
        rng = np.random.default_rng(0)
        points = spanning(rng, r + 2, r, 4)
        basis = rng.integers(-2, 3, size=(r, d)) + np.eye(r, d, dtype=int) * 7
        basis[:, 0] = 0 if d > r + 1 else basis[:, 0]  # a feature that tells nothing apart
        basis[0, -1] = 9
        X = rng.integers(-1, 5, size=(30, r)).astype(float)
        y = rng.integers(2, size=30)
        lifted = theorem_cover(points @ basis + 3)
        found = errors(lifted, X @ basis + 3, y)
        # where points are collinear some members come again, and which ones the first ray decides
        assert set(found) == set(errors(theorem_cover(points), X, y))
        off = X @ basis + 3 + np.linalg.svd(basis)[2][-1]
        for path in paths(lifted)[:: 1 + lifted.size // 40]:
            assert lifted.hypothesis(path).predict(off).all()

    def test_chunks_orders_and_companies_do_not_matter(self):
        rng = np.random.default_rng(0)
        cover = theorem_cover(rng.normal(size=(5, 3)))
        X, y = rng.normal(size=(9000, 3)), rng.integers(2, size=9000)
        whole = tabulate(cover, X, y)
        parts = [tabulate(cover, X[part], y[part]) for part in (slice(5000), slice(5000, None))]
        np.testing.assert_array_equal(whole, sum(parts))
        rule = cover.hypothesis(paths(cover)[777])
        predicted = rule.predict(X)
        np.testing.assert_array_equal(predicted, rule.predict(np.asfortranarray(X)))
        np.testing.assert_array_equal(predicted[::99], [rule.predict(x[None])[0] for x in X[::99]])
        huge = np.array([[1e308, -1e308, 0.0], [1.7e308] * 3, [-1e308] * 3])
        some = paths(cover)[::50]
        found = errors(cover, huge, [0, 1, 0])[::50]
        assert [(cover.hypothesis(p).predict(huge) != [0, 1, 0]).sum() for p in some] == list(found)


class TestMoreIntersections:
    @pytest.mark.parametrize("most", [4, 5])
    def test_the_table_determines_the_errors_of_every_member(self, most):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(9, 2))
        family = HalfspaceIntersections(max_intersections=most, max_halfspaces=9)
        cover = family.build_cover(public_sample(points), alpha=0.05, beta=0.05)
        size = len(cover.pool)
        assert cover.size == 2 + sum(math.comb(size, met) for met in range(1, most + 1))
        X, y, weights = rng.normal(size=(60, 2)), rng.integers(2, size=60), rng.integers(5, size=60)
        found = cover.family(tabulate(cover, X, y, weights)).errors
        met = set()
        for path in range(cover.size):
            rule = cover.hypothesis(path)
            assert found[path] == weights[rule.predict(X) != y].sum()
            met.add(len(rule.offsets))
        assert met == set(range(most + 1))

    @pytest.mark.parametrize("d", [4, 5, 6])
    def test_the_theorem_from_four_features_on(self, d):
        """Points that span the space and few more; d halfspaces are met."""
        rng = np.random.default_rng(d)
        for seed in range(3):
            points = np.random.default_rng(seed).normal(size=(max_support_points(d), d))
            normal = rng.normal(size=d)
            private = rng.normal(size=(60, d))
            cut = np.quantile(points @ normal, 0.6)
            X = np.concatenate([points, private[private @ normal > cut]])
            y = np.arange(len(X)) >= len(points)
            wrong = (points @ normal > cut).sum()
            cover = theorem_cover(points)
            assert cover.is_complete
            assert errors(cover, X, y.astype(int)).min() <= wrong

    def test_too_many_are_refused(self):
        points = np.random.default_rng(0).normal(size=(60, 2))
        public = public_sample(points)
        for settings_of in ({"max_intersections": 99}, {"pool": "paper", "max_intersections": 4}):
            with pytest.raises(CoverSizeError, match="max_intersections="):
                HalfspaceIntersections(**settings_of).build_cover(public, alpha=0.05, beta=0.05)
        with pytest.raises(CoverSizeError, match=r'got 8.*pool="auto"'):
            theorem_cover(np.random.default_rng(0).normal(size=(60, 8)))


class TestAffineHull:
    @pytest.mark.parametrize("d", [4, 5, 6, 7, 8])
    def test_public_rows_on_a_hyperplane(self, d):
        """Where private rows are all around, only the hyperplane tells them apart."""
        rng = np.random.default_rng(d)
        public = rng.normal(size=(500, d - 1)) @ rng.normal(size=(d - 1, d)) + 1
        private = rng.normal(size=(500, d)) * public.std(axis=0) + 1
        X, y = np.concatenate([public, private]), np.repeat([0, 1], 500)
        clf = PPMHalfspaceClassifier(private_label=1, max_halfspaces=200, random_state=0)
        train = np.arange(1000) % 2 == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TooFewRowsWarning)
            clf.fit(X[train], y[train])
        assert clf.score(X[~train], y[~train]) > 0.95
        assert (clf.predict(private) == 1).all()

    @pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
    def test_in_every_dimension(self, rank):
        """Points of the hull are in it, points off it are not, whatever the pool."""
        rng = np.random.default_rng(rank)
        basis = rng.normal(size=(rank, 6))
        points = rng.normal(size=(40, rank)) @ basis + 1
        more = rng.normal(size=(40, rank)) @ basis + 1
        family = HalfspaceIntersections(max_halfspaces=20)
        cover = family.build_cover(public_sample(points), alpha=0.05, beta=0.05)
        rules = [cover.hypothesis(path) for path in range(cover.size)]
        assert not rules[1].predict(np.concatenate([points, more])).any()
        off = more + np.linalg.svd(np.vstack([basis, np.zeros((1, 6))]))[2][-1] * 0.1
        for rule in rules:
            assert rule.predict(off).all()


class TestSupports:
    @pytest.mark.parametrize(
        ("d", "m", "s", "beta"),
        [
            (1, 12, 6, 0.2),
            (2, 11, 8, 0.5),
            *(
                pytest.param(*sizes, marks=pytest.mark.slow)
                for sizes in [(1, 12, 6, 0.5), (2, 11, 7, 0.2), (2, 11, 7, 0.5), (2, 11, 8, 0.2)]
            ),
        ],
    )
    def test_what_a_random_part_of_the_rows_loses(self, d, m, s, beta):
        """Over all subsets: the best cone errs as promised, for a given halfspace."""
        bound = support_loss(s, beta, d)
        for seed in range(2):
            rng = np.random.default_rng(seed)
            public, private = rng.normal(size=(m, d)), 3 * rng.normal(size=(60, d))
            normal = rng.normal(size=d)
            cut = np.quantile(public @ normal, 0.8)
            X = np.concatenate([public, private[private @ normal > cut]])  # not one is inside
            y = (np.arange(len(X)) >= m).astype(int)
            wrong = (public @ normal > cut).sum()
            lost = [
                errors(theorem_cover(public[list(chosen)]), X, y).min() - wrong
                for chosen in itertools.combinations(range(m), s)
            ]
            assert np.mean(np.array(lost) > bound * m) <= beta
            assert max(lost) > 0  # there is something to lose

    def test_the_share_is_what_the_union_bound_leaves(self):
        for s, beta, d in itertools.product((7, 30, 500), (0.3, 1e-3), (1, 2, 3)):
            k, share = d * (d + 1) // 2, support_loss(s, beta, d)
            assert math.comb(s, k) * (1 - share) ** (s - k) == pytest.approx(beta)
        assert support_loss(6, 0.5, 3) == 1

    @few_rows
    @pytest.mark.parametrize("d", [1, 2])
    def test_exact_privacy_with_supports_at_random(self, d, monkeypatch):
        """Over all subsets of supports and all members, for any private row in place of another."""
        monkeypatch.setattr(ppm, "max_support_points", lambda _: 3)
        public = np.array([[0.0, 0.0], [2.0, 1.0], [1.0, 3.0], [3.0, 3.0]])[:, :d]
        private = [np.array(place)[:d] for place in ((0.5, 0.5), (2.0, 1.0), (9.0, -1.0))]
        found = {}
        for index, label in itertools.product(range(3), (0, 1)):
            X = np.vstack([public, private[index][None]])
            model = clone(THEOREM).set_params(epsilon=0.7)
            mask = np.arange(5) < 4
            runs = enumerate_runs(lambda: model.fit(X, [0, 0, 1, 0, label], is_public=mask))  # noqa: B023
            found[index, label] = index_by_release(
                runs, lambda run: tuple(map(repr, [call.outcome for call in run.calls]))
            )
        for one, other in itertools.permutations(found.values(), 2):
            assert worst_ratio(one, other, Fraction(7, 10)) <= 1

    def test_supports_are_public_rows_and_the_seed_decides(self, monkeypatch):
        monkeypatch.setattr(ppm, "max_support_points", lambda _: 40)
        X, y = mixture(np.random.default_rng(0), 1200, 2, 0.5)
        models = [
            clone(THEOREM).set_params(random_state=seed, epsilon=50.0).fit(X, y)
            for seed in (0, 0, 1)
        ]
        rules = [str(model.hypothesis_) for model in models]
        assert rules[0] == rules[1] != rules[2]
        public = X[y == 0]
        for normal, offset in zip(*models[0].halfspaces_, strict=True):
            assert (np.abs(public @ normal - offset) < 1e-9).sum() >= 2


def mixture(rng, n, d, public_share, noise=0.0):
    """Rows on both sides of a hyperplane, the public ones next to it; label 1 is private."""
    y = (rng.random(n) >= public_share).astype(int)
    X = rng.normal(size=(n, d))
    X[:, 0] = np.where(y == 1, 1, -1) * np.abs(X[:, 0])
    return np.round(X, 3), np.where(rng.random(n) < noise, 1 - y, y)


class TestGuarantee:
    def test_it_adds_up_and_is_of_public_numbers(self):
        X, y = mixture(np.random.default_rng(0), 3000, 2, 0.05)
        clf = clone(THEOREM).fit(X, y)
        other = clone(THEOREM).fit(np.where(y[:, None] == 1, X[::-1], X), y)
        assert (clf.guarantee_, clf.guarantee_reason_) == (
            other.guarantee_,
            other.guarantee_reason_,
        )
        n_public = (y == 0).sum()
        assert f"halfspaces of {n_public} of {n_public} public rows" in clf.guarantee_reason_
        n, size, part = len(y), clf.cover_size_, 0.05 / 3
        every = math.sqrt(math.log(2 * cone_count(n, 2) / part) / (2 * (n - 3)))
        best = math.sqrt(math.log(1 / part) / (2 * n))
        draw = 2 * math.log(size / part) / n
        assert clf.guarantee_ == pytest.approx(draw + 3 / n + every + best)

    def test_supports_at_random_are_paid_for(self, monkeypatch):
        X, y = mixture(np.random.default_rng(0), 3000, 2, 0.05)
        whole = clone(THEOREM).fit(X, y)
        monkeypatch.setattr(ppm, "max_support_points", lambda _: 40)
        part = clone(THEOREM).fit(X, y)
        assert part.guarantee_ > whole.guarantee_
        n_public = (y == 0).sum()
        lost = support_loss(40, 0.05 / 4, 2) * n_public / 3000
        promised = ppm_guarantee(
            3000, n_public, 40, 1.0, 0.05, 2, part.cover_size_, n_dimensions=2, cones=True
        )
        assert (part.guarantee_, part.guarantee_reason_) == promised
        all_support = ppm_guarantee(
            3000, n_public, n_public, 1.0, 0.05 * 3 / 4, 2, part.cover_size_,
            n_dimensions=2, cones=True,
        )  # fmt: skip
        assert promised.bound - all_support.bound == pytest.approx(lost)
        assert f"at most {lost:.2g} (halfspaces of 40 of {n_public}" in part.guarantee_reason_

    @few_rows
    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.UnprovedWarning")
    def test_where_nothing_is_proved_it_says_why(self):
        X, y = mixture(np.random.default_rng(0), 400, 2, 0.1)
        mask = y == 0
        for settings_of, rows, word in [
            ({"pool": "auto", "max_halfspaces": 50}, {}, 'pool="paper"'),
            ({"max_intersections": 1}, {}, "max_intersections=None"),
            ({"class_weight": {0: 2}}, {}, "weighted error"),
            ({"max_rows_per_group": 2}, {"groups": np.arange(400) // 3}, "a person may"),
            ({}, {"X_public": X[mask].copy()}, "without labels"),
        ]:
            model = clone(THEOREM).set_params(**settings_of)
            clf = (
                model.fit(X[~mask], y[~mask], **rows)
                if "X_public" in rows
                else model.fit(X, y, **rows)
            )
            assert clf.guarantee_ is None, settings_of
            assert word in clf.guarantee_reason_
        many = PPMHalfspaceClassifier(private_label=1, max_halfspaces=20).fit(np.hstack([X] * 4), y)
        assert "not those of Theorem 4.6, which requires" in many.guarantee_reason_  # a plane
        wide = np.random.default_rng(0).normal(size=(400, 8))
        many = PPMHalfspaceClassifier(private_label=1, max_halfspaces=20).fit(wide, y)
        assert "in 8 dimensions, Theorem 4.6 requires too many" in many.guarantee_reason_
        described = describe_columns({"a": (-3, 3), "b": (-3, 3)}, size=40)
        frame = pd.DataFrame(X[~mask], columns=["a", "b"])
        written = clone(THEOREM).fit(frame, y[~mask], X_public=described, y_public=np.zeros(40))
        assert "created from a description" in written.guarantee_reason_
        apart = clone(THEOREM).fit(X[~mask], y[~mask], X_public=X[mask], y_public=y[mask])
        assert apart.guarantee_ == clone(THEOREM).fit(X, y).guarantee_

    @few_rows
    def test_a_complete_automatic_pool_is_the_papers(self):
        X, y = mixture(np.random.default_rng(0), 4000, 2, 0.005)
        clf = PPMHalfspaceClassifier(private_label=1, random_state=0).fit(X, y)
        cones = clone(THEOREM).fit(X, y)
        assert cones.guarantee_ < clf.guarantee_ < 0.2
        one = PPMHalfspaceClassifier(private_label=1, max_intersections=1).fit(X, y)
        assert one.guarantee_ is None

    def test_it_says_where_it_promises_nothing(self):
        X, y = mixture(np.random.default_rng(0), 60, 3, 0.5)
        said = f"{y.sum()} private and {60 - y.sum()} public"
        with pytest.warns(TooFewRowsWarning, match=said) as caught:
            clf = clone(THEOREM).fit(X, y)
        assert len(caught) == 1
        assert clf.guarantee_ == 1
        assert clf.guarantee_reason_.endswith("this bound is vacuous.")

    @few_rows
    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_of_one_label_or_no_public_row(self):
        X, y = mixture(np.random.default_rng(0), 300, 2, 0.0)
        for clf in (clone(THEOREM).fit(X, y), clone(THEOREM).fit(X, y, is_public=y == 0)):
            assert clf.cover_size_ == 1
            assert 0 < clf.guarantee_ < 0.5


class TestSizes:
    def test_fewer_supports_take_more_rows(self):
        sizes = [n_ppm(0.2, 0.05, 1.0, 2, supports=s) for s in (150, 300, 1000)]
        assert sizes == sorted(sizes, reverse=True)
        whole = n_ppm(0.2, 0.05, 1.0, 2, supports=None)
        assert whole < n_ppm(0.2, 0.05, 1.0, 2, supports=10**6) * 1.1

    @pytest.mark.parametrize("realizable", [False, True])
    def test_the_shipped_learner_is_counted_unless_asked_otherwise(self, realizable):
        for d, supports in ((1, 1000), (2, 320)):
            settings = {"realizable": realizable}
            shipped = n_ppm(0.1, 0.05, 1.0, d, **settings)
            assert shipped == n_ppm(0.1, 0.05, 1.0, d, supports=supports, **settings)
            assert shipped > 1.2 * n_ppm(0.1, 0.05, 1.0, d, supports=None, **settings)
        with pytest.raises(ValueError, match="public_share"):
            n_ppm(0.1, 0.05, 1.0, 3, realizable=realizable)

    @pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
    @pytest.mark.parametrize("realizable", [False, True])
    def test_the_shipped_size_is_monotone(self, d, realizable):
        """In the share of public rows, α, β and ε; and a rare enough public row makes it finite."""
        usual = {"alpha": 0.2, "beta": 0.05, "epsilon": 1.0, "public_share": 0.1}
        wider = {"alpha": 0.3, "beta": 0.2, "epsilon": 2.0, "public_share": 0.05}
        size = n_ppm(d=d, realizable=realizable, **usual)
        for name, value in wider.items():
            assert n_ppm(d=d, realizable=realizable, **{**usual, name: value}) <= size

    @pytest.mark.parametrize("d", [4, 5, 6, 7])
    def test_supports_are_as_many_as_fit(self, d):
        """From four dimensions on the table of all intersections is the limit."""
        fits = [
            m for m in range(d + 1, 3 * d) if n_supported_halfspaces(m, d, d) <= max_pool_size(d)
        ]
        assert max_support_points(d) == max(fits, default=0)

    def test_a_hyperplane_through_few_points_depends_on_the_others(self):
        """So its sampling term cannot count the points on it: it is uniform over all halfspaces."""
        points = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0], [2.0, 3.0]])
        moved = points.copy()
        moved[3] = [3.0, -1.0]
        alone, pairs = (
            [AffineHull(rows).supported_halfspaces(np.array([subset])) for rows in (points, moved)]
            for subset in ([0], [0, 1])
        )
        assert not np.allclose(alone[0].normals, alone[1].normals)
        np.testing.assert_allclose(pairs[0].normals, pairs[1].normals, atol=1e-12)
        cones, intersections = (
            ppm_guarantee(5000, 30, 30, 1.0, 0.05, 2, 1000, n_dimensions=2, cones=cones).bound
            for cones in (True, False)
        )
        assert cones < intersections < 1

    def test_too_few_supports_are_refused(self):
        with pytest.raises(ValueError, match="supports=30"):
            n_ppm(0.1, 0.05, 1.0, 2, supports=30)
        with pytest.raises(ValueError, match="supports must"):
            n_ppm(0.1, 0.05, 1.0, 4, supports=30)

    @pytest.mark.parametrize("d", [1, 2, 3, 4, 9])
    def test_cones_need_fewer_rows_than_the_paper(self, d):
        for realizable in (False, True):
            ours, theirs = (
                size(0.1, 0.05, 1.0, d, realizable=realizable)
                for size in (functools.partial(n_ppm, supports=None), n_ppm_paper)
            )
            assert ours < theirs if d <= 3 else ours == theirs

    def test_the_guarantee_at_that_size_is_alpha(self, monkeypatch):
        """The two are one bound, where nearly all rows are public and support."""
        n = n_ppm(0.3, 0.05, 1.0, 1)
        X, y = mixture(np.random.default_rng(0), n, 1, 0.9)
        assert clone(THEOREM).fit(X, y).guarantee_ <= 0.3
        monkeypatch.setattr(ppm, "max_support_points", lambda _: 100)
        with_supports = n_ppm(0.3, 0.05, 1.0, 2, supports=100)
        X, y = mixture(np.random.default_rng(0), with_supports, 2, 0.6)
        assert 0.2 < clone(THEOREM).fit(X, y).guarantee_ <= 0.3

    @pytest.mark.parametrize(
        ("alpha", "d", "share"), [(0.3, 1, 1.0), (0.3, 2, 1.0), (0.3, 2, 0.2), (0.6, 3, 0.5)]
    )
    def test_a_fit_at_the_shipped_size_promises_alpha(self, alpha, d, share):
        n = n_ppm(alpha, 0.05, 1.0, d, public_share=share)
        X, y = mixture(np.random.default_rng(0), n, d, 1.0)
        y[: max(1, n - int(share * n))] = 1  # at most the share is public
        for n_dimensions in range(1, d + 1):  # in flats, too
            X[:, n_dimensions:] = 0.0
            assert clone(THEOREM).fit(X, y).guarantee_ <= alpha


@few_rows
class TestManyDimensions:
    """From four on only a few of the public rows support halfspaces."""

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("d", [4, 5])
    def test_the_papers_pool_warns(self, d):
        X, y = mixture(np.random.default_rng(0), 3000, d, 0.5)
        words = f'of {(y == 0).sum()} public rows in {d} dim(.|\n)*pool="auto"'
        with pytest.warns(TooFewRowsWarning, match=words):
            clone(THEOREM).fit(X, y)

    @pytest.mark.slow
    def test_it_does_not_where_all_public_rows_support(self):
        X, y = mixture(np.random.default_rng(0), 20_000, 4, 0.0)
        y[:7] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert clone(THEOREM).fit(X, y).guarantee_ < 1
            X, y = mixture(np.random.default_rng(0), 3000, 4, 0.5)
            X[:, 3] = 0.0  # public rows of three dimensions
            assert clone(THEOREM).fit(X, y).guarantee_ < 1

    def test_seven_dimensions_are_refused_for_what_they_are(self):
        """No number of points would be few enough."""
        X, y = mixture(np.random.default_rng(0), 200, 7, 0.5)
        with pytest.raises(CoverSizeError, match='pool="auto"'):
            clone(THEOREM).fit(X, y)


def frequency(trials, n, d, public_share, noise, excess, allowed, beta, **settings):
    """Count how often a promise fails; the best halfspace is the first feature's."""
    failures = 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        X, y = mixture(rng, n, d, public_share, noise)
        clf = clone(THEOREM).set_params(random_state=seed, beta=beta, **settings).fit(X, y)
        assert excess is not None or clf.guarantee_ < 1
        X, y = mixture(rng, 40_000, d, public_share, noise)
        failures += (clf.predict(X) != y).mean() - noise > (
            excess if excess is not None else clf.guarantee_
        )
    assert failures <= allowed_failures(trials, allowed)


@pytest.mark.slow
@few_rows
class TestFrequencies:
    """The theorem's learner at its own sizes: each promise as often as promised."""

    @pytest.mark.parametrize(
        ("alpha", "d", "public_share", "supports", "trials"),
        [
            (0.1, 1, 0.5, None, 40),
            (0.1, 2, 0.15, None, 12),
            (0.3, 2, 0.5, None, 12),
            (0.1, 2, 0.5, 320, 10),
            (0.3, 3, 0.02, None, 10),
            (0.75, 3, 0.5, 19, 10),
        ],
    )
    @pytest.mark.parametrize("realizable", [True, False])
    def test_sizes(self, alpha, d, public_share, supports, trials, realizable):
        """A smoke test, which sees gross errors only."""
        beta = 0.1
        n = n_ppm(alpha, beta, 1.0, d, realizable=realizable, supports=supports)
        noise = 0.0 if realizable else 0.1
        frequency(trials, n, d, public_share, noise, alpha, beta, beta)

    @pytest.mark.parametrize(("n", "d"), [(500, 1), (500, 2), (3000, 2), (3000, 3)])
    @pytest.mark.parametrize("noise", [0.0, 0.1])
    def test_guarantees(self, n, d, noise):
        """A smoke test, which sees gross errors only."""
        frequency(12, n, d, 0.3, noise, None, 0.1, 0.1)

    @pytest.mark.parametrize(
        ("n", "d", "public_share", "noise", "pool"),
        [(4000, 2, 0.004, 0.001, "auto"), (3000, 4, 0.002, 0.0, "paper"), (900, 3, 0, 0, "paper")],
    )
    @pytest.mark.filterwarnings("ignore::skpublicdp.exceptions.NoPublicDataWarning")
    def test_of_intersections_that_are_no_cones(self, n, d, public_share, noise, pool):
        """An automatic pool that is whole, more dimensions than three, and no public row.

        A smoke test, which sees gross errors only.
        """
        frequency(12, n, d, public_share, noise, None, 0.1, 0.1, pool=pool)
