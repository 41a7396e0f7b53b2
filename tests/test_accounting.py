"""Receipts and guarantees."""

from fractions import Fraction

import numpy as np
import pytest

from skpublicdp.accounting import Mechanism, PrivacyReceipt, exact_fraction
from skpublicdp.guarantees import Certificate, excess_error
from skpublicdp.mechanisms.families import Leaf
from skpublicdp.mechanisms.randomness import SeededBits
from skpublicdp.mechanisms.selection import draw, probabilities


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, Fraction(1)),
        (0.1, Fraction(0.1)),
        (np.float32(0.5), Fraction(1, 2)),
        (np.int64(3), Fraction(3)),
        (10**30, Fraction(10**30)),
    ],
)
def test_budgets_are_read_exactly(value, expected):
    fraction = exact_fraction(value)
    assert fraction == expected
    assert type(fraction.numerator) is int


def test_receipts_are_frozen_values():
    receipt = PrivacyReceipt(
        1.0, 0.0, "unit", 5, 3, (Mechanism("draw", 1.0, 0.0, "theorem"),), True
    )
    assert receipt == PrivacyReceipt(**{**vars(receipt)})
    assert "secure generator" in repr(receipt)
    with pytest.raises(AttributeError):
        receipt.delta = 1.0


def test_excess_error_holds_as_often_as_it_says():
    """On the exact probabilities: the mass above the bound is at most beta."""
    rng = np.random.default_rng(0)
    n, beta = 200, 0.1
    for epsilon in (0.1, 1.0):
        for errors in (np.arange(n), np.r_[0, np.full(300, 40)], rng.integers(0, n, 500)):
            slack = excess_error(len(errors), n, epsilon, beta)
            bounds = probabilities(Leaf(errors.astype(np.int64)), exact_fraction(epsilon), 1)
            mass = [upper for _, upper in bounds.values()]
            above = errors > errors.min() + slack * n
            assert sum(np.array(mass)[above]) <= beta


def test_excess_error_is_monotone_and_scales():
    base = excess_error(10**6, 1000, 1.0, 0.05)
    assert excess_error(10**7, 1000, 1.0, 0.05) > base
    assert excess_error(10**6, 2000, 1.0, 0.05) == pytest.approx(base / 2)
    assert excess_error(10**6, 1000, 2.0, 0.05) == pytest.approx(base / 2)
    assert excess_error(10**6, 1000, 1.0, 0.05, sensitivity=3) == pytest.approx(3 * base)
    assert excess_error(10**6, 1000, 1.0, 0.5) < base
    assert excess_error(10**400, 1000, 1.0, 0.05) < 2  # beyond the range of floats


def test_certificate_reads_well():
    assert str(Certificate(0.0123, 0.95, 10)) == (
        "error on the scored rows within 0.0123 of the best in the cover, with probability 0.95"
    )


def test_a_draw_is_not_free_of_epsilon():
    """A sanity check of the direction: more budget, better draws."""
    errors = np.arange(100, dtype=np.int64)
    means = [
        np.mean([draw(Leaf(errors), Fraction(e), 1, SeededBits(s)) for s in range(200)])
        for e in (0.01, 0.1, 1.0)
    ]
    assert means[0] > means[1] > means[2]
