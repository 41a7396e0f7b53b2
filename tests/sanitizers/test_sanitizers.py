"""QuantileSanitizer: candidate values, private quantiles, and many columns."""

from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.sanitizers import QuantileSanitizer
from tests.internals.guarantees import n_levels
from tests.internals.privacy import Ledger
from tests.internals.sanitizers import (
    CandidateGrid,
    candidate_grid,
    draw_many_valued_columns,
    median_errors,
    release_column,
)


class TestCandidateGrid:
    @pytest.mark.parametrize(
        "bounds",
        [(0.0, 1.0), (-3e5, 4e5), (99990.0, 100010.0), (-1.7e308, 1.7e308), (0.0, 5e-324), (1, 2)],
    )
    def test_between_bounds(self, bounds):
        grid = candidate_grid(bounds)
        assert (grid.values[0], grid.values[-1]) == bounds
        assert (np.diff(grid.values) > 0).all()
        assert grid.prior.min() > 0
        assert len(grid) < 60_000
        if bounds[1] - bounds[0] > 1e-300 and np.isfinite(bounds[1] - bounds[0]):
            assert np.diff(grid.values).max() < (bounds[1] - bounds[0]) / 5000

    def test_round_numbers_are_exact(self):
        values = set(candidate_grid().values.tolist())
        assert {0.0, 1.0, -1.0, 0.1, 0.37, 2024.0, 1e9, -2.5e-7} <= values

    def test_rows_go_to_the_nearest_and_outliers_to_the_ends(self):
        grid = CandidateGrid(np.array([0.0, 1.0, 10.0]), np.ones(3, dtype=np.int64))
        places = grid.nearest(np.array([-1e300, 0.4, 0.6, 5, 6, 1e300]))
        assert places.tolist() == [0, 0, 1, 1, 2, 2]


class TestQuantiles:
    @pytest.mark.parametrize("bounds", [None, (-1e6, 1e6), (0, 1e5), (-1e12, 1e3)])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_of_a_skewed_column(self, bounds, seed):
        column = np.random.default_rng(seed).lognormal(5, 1, size=20_000)
        sanitizer = QuantileSanitizer(bounds=bounds, random_state=seed).fit(column[:, None])
        synthetic = np.sort(sanitizer.sample(1000)[:, 0])
        shares = np.searchsorted(np.sort(column), synthetic) / len(column)
        assert np.abs(shares - (np.arange(1000) + 0.5) / 1000).max() < 0.07

    @pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.97])
    @pytest.mark.parametrize("bounds", [None, (0, 1), (-50, 50)])
    def test_of_a_yes_no_column(self, share, bounds):
        column = (np.arange(10_000) < share * 10_000).astype(float)[:, None]
        synthetic = QuantileSanitizer(bounds=bounds, random_state=1).fit(column).sample(1000)
        assert set(synthetic[:, 0]) == {0.0, 1.0}
        assert abs(synthetic.mean() - share) < 0.02

    def test_of_amounts_that_are_mostly_zero(self):
        generator = np.random.default_rng(0)
        column = np.where(generator.random(20_000) < 0.8, 0, generator.lognormal(7, 1, 20_000))
        synthetic = QuantileSanitizer(random_state=0).fit(column[:, None]).sample(1000)[:, 0]
        assert abs((synthetic == 0).mean() - 0.8) < 0.02
        assert abs((synthetic > np.median(column[column > 0])).mean() - 0.1) < 0.03

    def test_outside_of_the_bounds(self):
        rows = np.linspace(-100, 100, 5000)[:, None]
        synthetic = QuantileSanitizer(bounds=(-10, 30), random_state=0).fit(rows).sample(500)
        assert (synthetic.min(), synthetic.max()) == (-10, 30)
        assert abs((synthetic == -10).mean() - 0.45) < 0.03

    @pytest.mark.parametrize("epsilon", [1e-3, 1 << 20])
    @pytest.mark.parametrize("n_features", [1, 3])
    def test_extreme_budgets(self, epsilon, n_features):
        rows = np.random.default_rng(0).normal(size=(60_000, n_features))
        synthetic = QuantileSanitizer(epsilon=epsilon, random_state=0).fit(rows).sample(100)
        assert np.isfinite(synthetic).all()
        assert synthetic.shape == (100, n_features)

    def test_median_errors(self):
        """Zero at a median, and one more number moves no error by more than 1."""
        generator = np.random.default_rng(0)
        for _ in range(50):
            counts = generator.integers(0, 4, size=6)
            numbers = np.repeat(np.arange(6), counts)
            errors = median_errors(np.append(0, np.cumsum(counts)))
            for place, error in enumerate(errors):
                low, high = (numbers < place).sum(), (numbers > place).sum()
                assert error == max(0, 2 * max(low, high) - len(numbers))
            for more in range(6):
                grown = np.append(0, np.cumsum(counts + (np.arange(6) == more)))
                assert np.abs(median_errors(grown) - errors).max() <= 1

    def test_levels_grow_with_the_rows(self):
        levels = [n_levels(n, 0.5) for n in (1, 31, 32, 10**3, 10**4, 10**5, 10**6, 10**9)]
        assert levels == [0, 0, 2, 2, 4, 6, 6, 6]

    def test_no_column_is_ever_empty(self):
        """Without any mass above the noise the cuts remain."""
        for seed in range(20):
            epsilon = Fraction(1, 100)
            ledger = Ledger(epsilon, random_state=seed)
            column = release_column(
                np.zeros(3), candidate_grid(), levels=2, epsilon=epsilon, ledger=ledger
            )
            assert column.masses.sum() == pytest.approx(1)
            assert np.isfinite(column.quantile(np.array([0.0, 0.5, 1.0]))).all()


class TestManyColumns:
    """With eight or more columns, one draw separates binary columns from the others."""

    @staticmethod
    def table(seed=0, n=20_000, n_flags=60):
        """Flags, one of them coded by 41 and 42, an age and a gain that is mostly zero."""
        generator = np.random.default_rng(seed)
        shares = np.append(np.linspace(0.1, 0.9, n_flags - 1), 0.5)
        flags = (generator.random((n, n_flags)) < shares).astype(float)
        flags[:, -1] += 41
        age = generator.normal(40, 12, size=n).round()
        gain = np.where(generator.random(n) < 0.92, 0, generator.lognormal(8, 1, size=n))
        return np.column_stack([flags, age, gain])

    @pytest.mark.parametrize("bounds", [None, (-1e4, 1e6)])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_binary_columns_get_one_cut(self, bounds, seed):
        rows = self.table(seed)
        sanitizer = QuantileSanitizer(bounds=bounds, random_state=seed).fit(rows)
        synthetic = sanitizer.sample(1000)
        sizes = np.array([len(np.unique(column)) for column in synthetic.T])
        assert (sizes[:60] == 2).all()
        assert (sizes[60:] > 10).all()
        for column in range(59):
            low, high = np.unique(synthetic[:, column])
            assert 0 <= (low + high) / 2 < 1
            above = (synthetic[:, column] > (low + high) / 2).mean()
            assert abs(above - rows[:, column].mean()) < 0.1
        assert sum(set(column) == {0.0, 1.0} for column in synthetic[:, :59].T) > 40
        if bounds is None:
            low, high = np.unique(synthetic[:, 59])
            assert 41 <= (low + high) / 2 < 42
        gain = rows[:, 61]
        assert abs((synthetic[:, 61] > np.median(gain[gain > 0])).mean() - 0.04) < 0.03
        look, *lines = (step.name.split()[0] for step in sanitizer.privacy_.mechanisms)
        assert (look, lines[60:]) == ("which", ["medians"] * 2)
        assert lines[:60].count("cut") >= 58  # some of the others is in the set now and then
        assert sanitizer.privacy_.epsilon == 1.0
        spent = sum(step.epsilon for step in sanitizer.privacy_.mechanisms)
        assert spent == pytest.approx(1.0)

    @pytest.mark.parametrize("epsilon", [0.05, 1, 1 << 20])
    @pytest.mark.parametrize("kind", ["constant", "flags", "amounts", "mixed"])
    def test_all_kinds_of_tables(self, epsilon, kind):
        rows = np.random.default_rng(0).normal(size=(5000, 15))
        if kind == "constant":
            rows[:] = 7.0
        elif kind == "flags":
            rows = (rows > 0).astype(float)
        elif kind == "mixed":
            rows[:, ::2] = rows[:, ::2] > 1
        sanitizer = QuantileSanitizer(epsilon=epsilon, random_state=0).fit(rows)
        synthetic = sanitizer.sample(200)
        assert np.isfinite(synthetic).all()
        assert synthetic.shape == (200, 15)
        assert sanitizer.privacy_.epsilon == epsilon

    def test_a_thousand_columns(self):
        """The prior weights have thousands of digits."""
        others = np.zeros(1000, dtype=np.int64)
        others[[3, 500, 999]] = 90_000
        chosen = draw_many_valued_columns(others, Fraction(1, 2), Ledger(1, random_state=0))
        assert chosen[[3, 500, 999]].all()
        assert chosen.sum() < 6
