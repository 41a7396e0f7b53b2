"""PPMHalfspaceClassifier: what goes in, what comes out, and scikit-learn around it."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skpublicdp import PPMHalfspaceClassifier
from skpublicdp.accounting import REPLACE_FEATURES, REPLACE_ONE
from skpublicdp.exceptions import (
    CoverSizeError,
    TooFewRowsWarning,
    UnprovedWarning,
)
from skpublicdp.guarantees import n_ppm
from tests.rules.test_ppm import FAST, RNG, SHARED, N, X, Y, few_rows, fitted, no_public


class TestLabels:
    @pytest.mark.parametrize(
        ("kind", "private"),
        [(int, 1), (int, 0), (str, "1"), (bool, True), (bool, False), (float, 1.0)],
    )
    def test_kinds(self, kind, private):
        y = SHARED.astype(int).astype(kind)
        clf = fitted(y=y, private_label=private)
        assert clf.classes_.dtype.kind == np.asarray(y).dtype.kind
        assert clf.score(X, y) > 0.93
        assert clf.privacy_.n_private == (y == private).sum()

    def test_minus_one_is_a_label(self):
        y = np.where(SHARED, 1, -1)
        clf = fitted(y=y, private_label=-1)
        assert clf.score(X, y) > 0.93
        assert clf.privacy_.n_public == SHARED.sum()

    def test_the_second_label_is_private_by_default(self):
        assert fitted(private_label=None).privacy_.n_private == SHARED.sum()

    @few_rows
    @no_public
    @pytest.mark.parametrize(
        ("present", "absent"), [("a", "b"), (0, 1), (1, -1), (-1, 1), (False, True), (2.0, 1)]
    )
    def test_one_label(self, present, absent):
        rows = X[:50]
        y = np.array([present] * 50)
        alone = fitted(rows, y, private_label=None)
        assert alone.classes_.tolist() == [present]
        assert set(alone.predict(rows)) == {present}
        assert (alone.privacy_.n_private, alone.cover_size_) == (50, 1)
        assert fitted(rows, y, private_label=present).privacy_.n_private == 50
        others = fitted(rows, y, private_label=absent)  # all rows are public
        assert others.classes_.tolist() == sorted([present, absent])
        assert others.privacy_.n_private == 0
        assert (others.predict(rows) == present).mean() > 0.5
        masked = fitted(rows, y, private_label=absent, is_public=np.arange(50) < 9)
        assert masked.privacy_.n_public == 9

    @pytest.mark.parametrize(
        ("y", "private", "message"),
        [
            (Y, "maybe", "two labels in y"),
            (np.zeros(N, dtype=int), "yes", "all numbers"),
            (np.full(N, "a"), 1, "of the two labels"),
            (np.arange(N) % 3, None, "Only .*SemiPrivateC"),
            (np.arange(N) % 3, 2, "Only binary"),
            (X[:, 0], None, "continuous numbers"),
            (None, None, "requires y"),
            (Y[:-1], None, "inconsistent numbers"),
        ],
    )
    def test_unusable(self, y, private, message):
        with pytest.raises(ValueError, match=message):
            fitted(y=y, private_label=private)


def test_halfspaces_are_what_predicts():
    for settings in ({}, {"max_intersections": 1}, {"max_intersections": 3, "max_halfspaces": 60}):
        clf = fitted(**settings)
        normals, offsets = clf.halfspaces_
        distances = X @ normals.T - offsets
        clear = (np.abs(distances) > 1e-9).all(axis=1)
        inside = (distances >= 0).all(axis=1)
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(clf.predict(X[clear]) == "positive", inside[clear])
        np.testing.assert_allclose(np.abs(normals).max(axis=1), 1)


@few_rows
def test_a_flat_public_population():
    """Public rows on a line: off it everything is private."""
    line = np.column_stack([np.linspace(0, 1, 60), 0.1 + 2 * np.linspace(0, 1, 60)])
    rows = np.concatenate([line, RNG.normal(size=(300, 2)) * 2 - 5])
    clf = PPMHalfspaceClassifier(random_state=0).fit(rows, np.repeat([0, 1], [60, 300]))
    assert clf.score(rows, np.repeat([0, 1], [60, 300])) > 0.95
    assert (clf.predict(line * 1.01) == 1).all()


class TestWhatComesOut:
    def test_receipt(self):
        receipt = fitted(epsilon=0.5).privacy_
        assert (receipt.epsilon, receipt.delta, receipt.unit) == (0.5, 0.0, REPLACE_FEATURES)
        assert (receipt.n_private, receipt.n_public) == ((~SHARED).sum(), SHARED.sum())
        (mechanism,) = receipt.mechanisms
        assert mechanism.epsilon == 0.5
        assert "Lemma 4.1" in mechanism.reference
        assert "the label of every row may be known, because it decides" in repr(receipt)
        assert "seeded" in repr(receipt)
        persons = clone(FAST).set_params(max_rows_per_group=2)
        assert persons.fit(X, Y, groups=np.arange(len(X)) // 2).privacy_.unit == (
            "replace one person, up to 2 private rows (features only: labels are not protected)"
        )
        masked = fitted(is_public=SHARED).privacy_
        assert masked.unit == REPLACE_ONE
        assert "which rows are private" in repr(masked)
        assert fitted(random_state=None).privacy_.secure_randomness

    def test_certificate(self):
        clf = fitted(epsilon=0.5, beta=0.1)
        assert clf.certificate_.probability == 0.9
        assert clf.certificate_.effective_size == clf.cover_size_
        assert clf.certificate_.excess_error == pytest.approx(
            2 * (np.log(clf.cover_size_) + np.log(10)) / (0.5 * N)
        )

    def test_too_few_rows(self):
        needed = n_ppm(0.5, 0.05, 1.0, 2, supports=None)
        enough, few = -(-needed // 4), needed // 4 - 1
        with pytest.warns(TooFewRowsWarning, match=f"requires {needed} rows") as caught:
            clone(FAST).fit(X[:few], Y[:few])
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted(X[:enough], Y[:enough])

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"alpha": 0.1}, 'pool="paper" and'),
            ({"alpha": 0.1, "max_intersections": 1}, "6 dimensions"),
            ({"pool": "paper", "class_weight": {"positive": 2}}, "a weighted error"),
            ({"pool": "paper", "max_rows_per_group": 1}, "several rows"),
        ],
    )
    def test_who_asks_for_a_promise_is_told_that_there_is_none(self, settings, said):
        texts = set()
        few = slice(300)
        for rows in (X, np.where(SHARED[:, None], X, X[::-1])):  # other private rows
            groups = np.arange(300) if "max_rows_per_group" in settings else None
            model = clone(FAST).set_params(max_halfspaces=20, **settings)
            with pytest.warns(UnprovedWarning, match=said) as caught:
                assert model.fit(rows[few], Y[few], groups=groups).guarantee_ is None
            texts.update(str(warning.message) for warning in caught)
            assert [warning.filename for warning in caught] == [__file__]
        assert len(texts) == 1

    @pytest.mark.parametrize("settings", [{}, {"pool": "paper"}, {"pool": "paper", "alpha": 0.1}])
    def test_who_does_not_ask_or_gets_it_is_not(self, settings):
        rows, y = X[:400], Y[:400]
        clf = fitted(rows, y, **settings)  # warnings are errors
        assert (clf.guarantee_ is None) == (not settings)

    def test_alpha_is_a_twentieth(self):
        with pytest.warns(UnprovedWarning):
            given = fitted(X[:300], Y[:300], alpha=0.05, max_halfspaces=1400)
        assert given.cover_size_ == fitted(X[:300], Y[:300], max_halfspaces=1400).cover_size_

    def test_the_papers_pool_is_refused_where_it_is_too_large(self):
        with pytest.raises(CoverSizeError, match='pool="auto"'):
            fitted(pool="paper", max_intersections=2)
