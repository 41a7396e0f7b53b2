"""Unequal weights of public rows widen the intervals of numbers inside a bin."""

import numpy as np
import pandas as pd
import pytest

from skpublicdp import PAPQueryRelease
from tests.internals.query_release import WeightedRows, design_effects, synthetic


def effects(values, weights, public, cuts=(10.0,)):
    rows = WeightedRows(np.array(values, float)[:, None], np.array(weights, float))
    return design_effects(rows, np.array(public, float), np.array(cuts)).tolist()


class TestDesignEffects:
    def test_equal_weights(self):
        assert effects([1, 2, 20], [0.2, 0.2, 0.6], [1, 2, 20]) == pytest.approx([1, 1])

    def test_unequal_weights(self):
        # two rows with the weights 3 and 1: the mean square is 5, and the squared mean is 4
        assert effects([1, 2, 20], [0.6, 0.2, 0.2], [1, 2, 20]) == pytest.approx([1.25, 1])

    def test_equal_numbers_divide_their_weight(self):
        assert effects([1, 2], [0.75, 0.25], [1, 1, 1, 2, np.nan]) == pytest.approx([1, 1])

    def test_several_weighted_rows_of_a_number_count_as_one(self):
        assert effects([1, 1, 2], [0.1, 0.4, 0.5], [1, 2]) == pytest.approx([1, 1])

    def test_bins_without_weight(self):
        assert effects([1, 20], [1.0, 0.0], [1, 20]) == pytest.approx([1, 1])


def test_few_drawn_rows_of_a_rare_bin_have_unequal_numbers(monkeypatch):
    """Drawn rows receive random public numbers of their bin, so few of them weight it unequally."""
    monkeypatch.setattr(synthetic, "N_TREE_ROWS", 1000)
    generator = np.random.default_rng(0)

    def draw(n):
        money = generator.exponential(size=n) * (generator.random(n) > 0.9)
        return pd.DataFrame({"money": money, "letter": generator.choice(list("abc"), n)})

    release = PAPQueryRelease(bounds={"money": (0, 20)}, random_state=0)
    release.fit(draw(5000), X_public=draw(200))
    column = release._released.distribution(0)
    shares = column.rows_inside / column.posterior.sizes.smallest_likely
    assert shares[0] == pytest.approx(1)  # the bin of zeros
    assert shares[1:].max() < 0.95
