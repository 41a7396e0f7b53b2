"""Sources of bits."""

import numpy as np
import pytest

from tests.helpers import assert_fits
from tests.internals.mechanisms import SecureBits, random_bits, uniform_below


@pytest.mark.parametrize("make", [lambda: 3, lambda: np.int64(3), lambda: np.random.default_rng(3)])
def test_seeded_bits_repeat_and_are_not_secure(make):
    first, second = random_bits(make()), random_bits(make())
    assert not first.secure
    assert [first.bits(k) for k in range(1, 99)] == [second.bits(k) for k in range(1, 99)]


def test_operating_system_by_default():
    bits = random_bits()
    assert isinstance(bits, SecureBits)
    assert bits.secure
    assert bits.bits(256) != bits.bits(256)


def test_generator_state_is_independent_of_how_much_is_drawn():
    one, other = np.random.default_rng(0), np.random.default_rng(0)
    random_bits(one).bits(10_000)
    random_bits(other)
    assert one.random() == other.random()


@pytest.mark.parametrize("bits", [random_bits(), random_bits(0)])
def test_words_are_64_fair_bits(bits):
    assert bits.words(0).shape == (0,)
    words = bits.words(4096)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == 4096
    for position in range(64):
        ones = int((words >> np.uint64(position) & np.uint64(1)).sum())
        assert_fits([ones, 4096 - ones], [0.5, 0.5])


def test_words_are_the_same_on_every_machine():
    assert random_bits(3).words(2).tolist() == [1579948266424812280, 4368382809143759861]


@pytest.mark.parametrize("bad", [-1, 1.5, "0", np.float64(2)])
def test_other_states_are_refused(bad):
    with pytest.raises(ValueError, match="random_state must be"):
        random_bits(bad)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 1000])
def test_bits_stay_in_range(count):
    bits = random_bits(0)
    values = [bits.bits(count) for _ in range(200)]
    assert min(values) >= 0
    assert max(values) < 2**count
    assert max(values).bit_length() >= count - 10  # the top bits are used


def test_uniform_below_is_uniform():
    bits = random_bits(0)
    counts = np.bincount([uniform_below(5, bits) for _ in range(20_000)], minlength=5)
    assert_fits(counts, np.full(5, 0.2))


def test_uniform_below_one_needs_no_bits():
    assert uniform_below(1, random_bits(0)) == 0
