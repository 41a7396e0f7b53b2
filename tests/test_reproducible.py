"""Decisions about floats do not depend on last digits, and vectors not on the sign of a library."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.internals.shared import significant, stable_floor, with_stable_signs

RELATIVE_ERROR = st.floats(-1e-12, 1e-12)


@given(st.integers(-(10**6), 10**6), st.floats(-1e-10, 1e-10))
def test_a_whole_number_with_an_error_is_that_number(number, error):
    assert stable_floor(number + error) == number


@given(st.floats(0.001, 0.999), st.integers(-1000, 1000))
def test_other_numbers_are_rounded_down(fraction, number):
    assert stable_floor(number + fraction) == number


@given(st.sampled_from([3.0, 0.1, 1 / 3, 1e-300, 7e250, -0.5]), RELATIVE_ERROR)
def test_equal_numbers_stay_equal(number, error):
    rounded, other = significant(np.array([number, number * (1 + error)]))
    assert rounded == other
    assert abs(rounded - number) <= 1e-8 * abs(number)


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.sampled_from([-1.0, 1.0]))
def test_a_vector_and_its_opposite_are_the_same(vector, sign):
    rows = np.array([vector])
    stable = with_stable_signs(rows)
    np.testing.assert_array_equal(stable, with_stable_signs(sign * rows) + 0.0)
    np.testing.assert_array_equal(np.abs(stable), np.abs(rows))


def test_a_small_first_entry_does_not_decide():
    np.testing.assert_array_equal(with_stable_signs(np.array([[1e-17, -2.0, 1.0]]))[0, 1], 2.0)
