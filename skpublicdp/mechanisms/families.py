"""Families of hypotheses and their error counts, expressed as sums and products.

A family lists its members, their error counts and their prior weights, all of which are independent
of ε. A node represents an array of families of the same form; the shape of this array is called the
node's *batch shape*. Only families with batch shape ``()`` can be drawn from.

The *path* of a member is the index in a `Leaf`, the tuple of the factors' paths in a `Product`,
and the pair (option, path within the option) in a `Choice` or a `OneOf`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skpublicdp.typing import Integers

Path = Any
"""Path of a member: ``int | tuple[Path, ...]``, i.e. a recursive type, which mypy cannot narrow."""

Index = tuple[int, ...]
"""Index of a family along the leading batch axes of a node."""

Prior = Sequence[int] | Integers
"""Positive integer prior weight of each option."""


MAX_ERRORS = 2**57
"""Maximum magnitude of an error count in a `Leaf`.

The sums of a product of up to 16 leaves, and differences of these sums, then fit into int64.
"""


class Family(ABC):
    """Abstract base class for the nodes of an expression.

    The batch shape of a node is the shape of the array of families represented by the node.
    """

    @property
    @abstractmethod
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families represented by this node."""

    @abstractmethod
    def at(self, index: Index) -> Family:
        """Return the node at position `index` of the leading batch axes."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of members of each family in the batch."""

    @property
    @abstractmethod
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the minimum of the prior weights of all members."""

    @property
    def effective_size(self) -> int:
        """Sum of the prior weights divided by the smallest weight, rounded up.

        With a uniform prior, the result is the number of members. The excess error of the
        exponential mechanism is bounded in terms of the logarithm of this number.
        """
        total, minimum = self.prior_range
        return -(-total // minimum)

    @abstractmethod
    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield (path, error count, prior weight) for each member of a small family."""


@dataclass(frozen=True, eq=False)
class Leaf(Family):
    """Family given as a list of its members' error counts."""

    # (*batch, members): error count of each member. At least one member is required.
    errors: Integers

    def __post_init__(self) -> None:
        if self.errors.dtype != np.int64 or self.errors.ndim == 0 or self.errors.shape[-1] == 0:
            raise ValueError(
                "errors must be a non-empty int64 array whose last axis indexes members; got "
                f"{self.errors.dtype} of shape {self.errors.shape}."
            )
        if (
            self.errors.size
            and not -MAX_ERRORS <= self.errors.min() <= self.errors.max() <= MAX_ERRORS
        ):
            raise ValueError(
                f"errors must be at most {MAX_ERRORS} in magnitude, because differences of larger "
                "counts would overflow. Counts of rows are far smaller."
            )

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families represented by this node."""
        return self.errors.shape[:-1]

    def at(self, index: Index) -> Leaf:
        """Return the leaf at position `index` of the leading batch axes."""
        return Leaf(self.errors[index])

    @property
    def size(self) -> int:
        """Number of members of each family in the batch."""
        return int(self.errors.shape[-1])

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the minimum of the prior weights of all members."""
        return self.size, 1

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield (index, error count, 1) for each member, where 1 is the prior weight."""
        for path, errors in enumerate(self.errors.tolist()):
            yield path, errors, 1


@dataclass(frozen=True, eq=False)
class Product(Family):
    """All combinations of one member per factor; errors add up and prior weights multiply."""

    factors: Sequence[Family]  # families with the same batch shape

    def __post_init__(self) -> None:
        if len({factor.batch for factor in self.factors}) != 1:
            raise ValueError("All factors of a product must have the same batch shape.")

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families represented by this node."""
        return self.factors[0].batch

    def at(self, index: Index) -> Product:
        """Return the product at position `index` of the leading batch axes."""
        return Product([factor.at(index) for factor in self.factors])

    @property
    def size(self) -> int:
        """Number of members of each family in the batch."""
        return math.prod(factor.size for factor in self.factors)

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the minimum of the prior weights of all members."""
        totals, minima = zip(*(factor.prior_range for factor in self.factors), strict=True)
        return math.prod(totals), math.prod(minima)

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield (paths of the factors, error count, prior weight) for each combination."""
        for combination in itertools.product(*(factor.members() for factor in self.factors)):
            paths, errors, priors = zip(*combination, strict=True)
            yield paths, sum(errors), math.prod(priors)


class _Weighted(Family):
    """Base class of nodes whose options have prior weights."""

    prior: Prior | None

    def weight(self, option: int) -> int:
        """Return the prior weight of an option, given its index."""
        return 1 if self.prior is None else int(self.prior[option])


@dataclass(frozen=True, eq=False)
class Choice(_Weighted):
    """Union of options of the same form, stacked along the last batch axis of a single node."""

    options: Family  # (*batch, options)
    # Positive prior weight of each option. By default, all weights are 1.
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if not self.options.batch or self.options.batch[-1] == 0:
            raise ValueError(
                "The last batch axis of a Choice's options must have length 1 or more; got batch "
                f"shape {self.options.batch}."
            )
        _check_prior(self.prior, self.options.batch[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families represented by this node."""
        return self.options.batch[:-1]

    def at(self, index: Index) -> Choice:
        """Return the choice at position `index` of the leading batch axes."""
        return Choice(self.options.at(index), self.prior)

    @property
    def size(self) -> int:
        """Number of members of each family in the batch."""
        return self.options.batch[-1] * self.options.size

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the minimum of the prior weights of all members."""
        total, minimum = self.options.prior_range
        weights = [self.weight(option) for option in range(self.options.batch[-1])]
        return total * sum(weights), minimum * min(weights)

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield ((option, path within the option), error count, prior weight) for each member."""
        for option in range(self.options.batch[-1]):
            for path, errors, prior in self.options.at((option,)).members():
                yield (option, path), errors, self.weight(option) * prior


@dataclass(frozen=True, eq=False)
class OneOf(_Weighted):
    """Union of options that are families of different forms."""

    options: Sequence[Family]  # families with the same batch shape
    # Positive prior weight of each option. By default, all weights are 1.
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if len({option.batch for option in self.options}) != 1:
            raise ValueError("All options must have the same batch shape.")
        _check_prior(self.prior, len(self.options))

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families represented by this node."""
        return self.options[0].batch

    def at(self, index: Index) -> OneOf:
        """Return the union at position `index` of the leading batch axes."""
        return OneOf([option.at(index) for option in self.options], self.prior)

    @property
    def size(self) -> int:
        """Number of members of each family in the batch."""
        return sum(option.size for option in self.options)

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the minimum of the prior weights of all members."""
        totals, minima = [], []
        for position, option in enumerate(self.options):
            weight = self.weight(position)
            total, minimum = option.prior_range
            totals.append(weight * total)
            minima.append(weight * minimum)
        return sum(totals), min(minima)

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield ((option, path within the option), error count, prior weight) for each member."""
        for index, option in enumerate(self.options):
            for path, errors, prior in option.members():
                yield (index, path), errors, self.weight(index) * prior


@dataclass(frozen=True, eq=False)
class Lazy(Family):
    """Batch of families that is built in chunks to limit memory use."""

    length: int  # number of families
    # ``build(start, stop)`` returns the families ``start:stop`` as a node with batch shape ``(stop
    # - start,)``. Repeated calls must return identical families.
    build: Callable[[int, int], Family]
    step: int  # number of families per chunk

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families represented by this node."""
        return (self.length,)

    def at(self, index: Index) -> Family:
        """Return the family at `index`, without building the other families."""
        return self.build(index[0], index[0] + 1).at((0, *index[1:]))

    def chunks(self) -> Iterator[Family]:
        """Yield the families in order, in batches of at most `step`."""
        for start in range(0, self.length, self.step):
            yield self.build(start, min(start + self.step, self.length))

    @property
    def size(self) -> int:
        """Number of members of each family."""
        return self.build(0, 1).size

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the minimum of the prior weights, which are equal for all families."""
        return self.build(0, 1).prior_range

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Raise ValueError, because a batch of families has no single list of members."""
        raise ValueError("A Lazy is a batch of families. Select one of them with at((index,)).")


def _check_prior(prior: Prior | None, n_options: int) -> None:
    """Raise ValueError unless each option has one positive integer weight."""
    if prior is None:
        return
    if isinstance(prior, np.ndarray):
        is_integer = prior.dtype.kind in "iu"
    else:
        is_integer = all(isinstance(weight, int | np.integer) for weight in prior)
    if not is_integer or len(prior) != n_options or np.min(prior) < 1:
        raise ValueError(
            f"prior must contain one positive integer for each of the {n_options} options."
        )
