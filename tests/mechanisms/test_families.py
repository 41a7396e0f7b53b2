"""Families: shapes, sizes and what they refuse."""

from fractions import Fraction

import numpy as np
import pytest

from tests.internals.mechanisms import Choice, Lazy, Leaf, OneOf, Product, SeededBits, draw

BATCH = Leaf(np.arange(24).reshape(2, 3, 4))


def test_batches_and_sizes():
    side = Choice(Product([BATCH, BATCH]))
    assert side.batch == (2,)
    assert side.size == 3 * 4 * 4
    assert Choice(side).size == 2 * 48
    assert OneOf([BATCH.at((0, 0)), Choice(BATCH.at((1,)))]).size == 4 + 12
    lazy = Lazy(5, lambda start, stop: Leaf(np.zeros((stop - start, 2), dtype=np.int64)), 2)
    assert [chunk.batch for chunk in lazy.chunks()] == [(2,), (2,), (1,)]
    assert Choice(lazy).size == 10


def test_members_are_listed_once_with_their_errors():
    family = Choice(Product([BATCH.at((0,)), BATCH.at((1,))]), [1, 2, 3])
    members = list(family.members())
    assert len({path for path, _, _ in members}) == len(members) == family.size
    path, errors, prior = members[-1]
    assert path == (2, (3, 3))
    assert errors == 11 + 23
    assert prior == 3


def test_effective_size_is_that_of_the_least_likely_member():
    lazy = Lazy(2, lambda start, stop: BATCH.at((slice(start, stop), 0)), 1)
    family = OneOf(
        [Choice(Product([BATCH.at((0,)), BATCH.at((1,))]), [3, 2, 7]), Choice(lazy)], [2, 5]
    )
    priors = [prior for _, _, prior in family.members()]
    assert family.prior_range == (sum(priors), min(priors))
    assert family.effective_size == -(-sum(priors) // min(priors))
    assert Choice(BATCH.at((0,))).effective_size == 12  # equally likely: the size


@pytest.mark.parametrize(
    "make",
    [
        lambda: Leaf(np.array([], dtype=np.int64)),
        lambda: Leaf(np.array([0.5])),
        lambda: Product([BATCH, BATCH.at((0,))]),
        lambda: OneOf([BATCH, BATCH.at((0,))]),
        lambda: Choice(BATCH.at((0, 0))),
        lambda: Choice(BATCH, [1, 2]),
        lambda: Choice(BATCH, [1, 2, 0]),
        lambda: OneOf([BATCH], [0]),
        lambda: OneOf([BATCH], [1.5]),
        lambda: Lazy(2, lambda start, stop: BATCH, 1).members(),
        lambda: Choice(BATCH, np.array([1.0, 2.0, 3.0])),
    ],
)
def test_malformed_families_are_refused(make):
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize("errors", [[0, 2**62], [-(2**62), 2**62], [-(2**63), 0, 5], [2**57 + 1]])
def test_counts_whose_differences_could_overflow_are_refused(errors):
    with pytest.raises(ValueError, match="differences of larger counts would overflow"):
        Leaf(np.array(errors, dtype=np.int64))


def test_the_largest_counts_of_a_product_are_drawn_by_their_sums():
    far = Leaf(np.array([[2**57], [-(2**57)]]))  # the second option is better in each factor
    family, bits = Choice(Product([far] * 15)), SeededBits(0)
    assert {draw(family, Fraction(1, 100), 1, bits)[0] for _ in range(20)} == {1}
