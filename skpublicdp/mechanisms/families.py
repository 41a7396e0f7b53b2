"""Families of hypotheses with their error counts, as sum-product expressions.

A family is plain data: it knows which members there are, how many errors each makes and with
what prior weight, and nothing of ε. Every node has a *batch shape*: an array of families of the
same form. A family ready for a draw has batch shape ``()``.

A member is named by its *path*: the index in a `Leaf`; the tuple of the factors' paths in a
`Product`; the pair (option, path within it) in a `Choice` or a `OneOf`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Path = Any  # int | tuple[Path, ...]: mypy has no useful recursive form for a nested tuple
Index = tuple[int, ...]
Prior = Sequence[int] | NDArray[np.int64]


class Family(ABC):
    """Base of all nodes."""

    @property
    @abstractmethod
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families this node stands for."""

    @abstractmethod
    def at(self, index: Index) -> Family:
        """Return the node at `index` of the leading batch axes."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of members of each family in the batch."""

    @property
    @abstractmethod
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the least of the members' prior weights."""

    @property
    def effective_size(self) -> int:
        """Number of equally likely members that would make the least likely one as rare."""
        total, least = self.prior_range
        return -(-total // least)

    @abstractmethod
    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield (path, errors, prior) of every member; for families small enough to list."""


@dataclass(frozen=True, eq=False)
class Leaf(Family):
    """Members listed by their error counts.

    Parameters
    ----------
    errors : ndarray of int64, shape (*batch, members)
        Errors of each member; there must be at least one member.
    """

    errors: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.errors.dtype != np.int64 or self.errors.ndim == 0 or self.errors.shape[-1] == 0:
            raise ValueError("errors must be a non-empty int64 array with members on its last axis")

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families this node stands for."""
        return self.errors.shape[:-1]

    def at(self, index: Index) -> Leaf:
        """Return the leaf at `index` of the leading batch axes."""
        return Leaf(self.errors[index])

    @property
    def size(self) -> int:
        """Number of members."""
        return int(self.errors.shape[-1])

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the least of the members' prior weights."""
        return self.size, 1

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield (index, errors, 1)."""
        for path, errors in enumerate(self.errors.tolist()):
            yield path, errors, 1


@dataclass(frozen=True, eq=False)
class Product(Family):
    """One member of each factor, independently; errors add and priors multiply.

    Parameters
    ----------
    factors : sequence of Family
        Families of one batch shape.
    """

    factors: Sequence[Family]

    def __post_init__(self) -> None:
        if len({factor.batch for factor in self.factors}) != 1:
            raise ValueError("the factors of a product must share one batch shape")

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families this node stands for."""
        return self.factors[0].batch

    def at(self, index: Index) -> Product:
        """Return the product at `index` of the leading batch axes."""
        return Product([factor.at(index) for factor in self.factors])

    @property
    def size(self) -> int:
        """Number of members."""
        return math.prod(factor.size for factor in self.factors)

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the least of the members' prior weights."""
        totals, leasts = zip(*(factor.prior_range for factor in self.factors), strict=True)
        return math.prod(totals), math.prod(leasts)

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield (paths of the factors, errors, prior)."""
        for combination in itertools.product(*(factor.members() for factor in self.factors)):
            paths, errors, priors = zip(*combination, strict=True)
            yield paths, sum(errors), math.prod(priors)


class _Weighted(Family):
    """A choice between options with prior weights."""

    prior: Prior | None

    def weight(self, option: int) -> int:
        """Return the prior weight of an option."""
        return 1 if self.prior is None else int(self.prior[option])


@dataclass(frozen=True, eq=False)
class Choice(_Weighted):
    """One member of one option, the options lying along the last batch axis of one family.

    Parameters
    ----------
    options : Family of batch shape (*batch, options)
        The options, all of the same form.
    prior : sequence of int or int64 array, optional
        Positive prior weight of each option; all 1 by default.
    """

    options: Family
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if not self.options.batch or self.options.batch[-1] == 0:
            raise ValueError("a choice needs a last batch axis with at least one option")
        _check_prior(self.prior, self.options.batch[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families this node stands for."""
        return self.options.batch[:-1]

    def at(self, index: Index) -> Choice:
        """Return the choice at `index` of the leading batch axes."""
        return Choice(self.options.at(index), self.prior)

    @property
    def size(self) -> int:
        """Number of members."""
        return self.options.batch[-1] * self.options.size

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the least of the members' prior weights."""
        total, least = self.options.prior_range
        weights = [self.weight(option) for option in range(self.options.batch[-1])]
        return total * sum(weights), least * min(weights)

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield ((option, path within it), errors, prior)."""
        for option in range(self.options.batch[-1]):
            for path, errors, prior in self.options.at((option,)).members():
                yield (option, path), errors, self.weight(option) * prior


@dataclass(frozen=True, eq=False)
class OneOf(_Weighted):
    """One member of one option, the options being families of different forms.

    Parameters
    ----------
    options : sequence of Family
        Families of one batch shape.
    prior : sequence of int or int64 array, optional
        Positive prior weight of each option; all 1 by default.
    """

    options: Sequence[Family]
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if len({option.batch for option in self.options}) != 1:
            raise ValueError("the options must share one batch shape")
        _check_prior(self.prior, len(self.options))

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families this node stands for."""
        return self.options[0].batch

    def at(self, index: Index) -> OneOf:
        """Return the choice at `index` of the leading batch axes."""
        return OneOf([option.at(index) for option in self.options], self.prior)

    @property
    def size(self) -> int:
        """Number of members."""
        return sum(option.size for option in self.options)

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the least of the members' prior weights."""
        weighted = [
            (self.weight(index) * total, self.weight(index) * least)
            for index, (total, least) in enumerate(option.prior_range for option in self.options)
        ]
        return sum(total for total, _ in weighted), min(least for _, least in weighted)

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Yield ((option, path within it), errors, prior)."""
        for index, option in enumerate(self.options):
            for path, errors, prior in option.members():
                yield (index, path), errors, self.weight(index) * prior


@dataclass(frozen=True, eq=False)
class Lazy(Family):
    """A batch of `length` families built a few at a time, so that memory stays bounded.

    Parameters
    ----------
    length : int
        Number of families.
    build : callable
        ``build(start, stop)`` returns the families ``start:stop``, of batch shape
        ``(stop - start,)``, the same at every call.
    step : int
        How many to build at once.
    """

    length: int
    build: Callable[[int, int], Family]
    step: int

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the array of families this node stands for."""
        return (self.length,)

    def at(self, index: Index) -> Family:
        """Build the one family at `index`."""
        return self.build(index[0], index[0] + 1).at((0, *index[1:]))

    def chunks(self) -> Iterator[Family]:
        """Yield the families in order, at most `step` at a time."""
        for start in range(0, self.length, self.step):
            yield self.build(start, min(start + self.step, self.length))

    @property
    def size(self) -> int:
        """Number of members of each family."""
        return self.build(0, 1).size

    @property
    def prior_range(self) -> tuple[int, int]:
        """Return the sum and the least of the members' prior weights, the same in the batch."""
        return self.build(0, 1).prior_range

    def members(self) -> Iterator[tuple[Path, int, int]]:
        """Refuse: a batch has no one list of members."""
        raise ValueError("a Lazy is a batch of families; take one of them with at((index,)).")


def _check_prior(prior: Prior | None, options: int) -> None:
    if prior is None:
        return
    if isinstance(prior, np.ndarray):
        whole = prior.dtype.kind in "iu"
    else:
        whole = all(isinstance(weight, int | np.integer) for weight in prior)
    if not whole or len(prior) != options or np.min(prior) < 1:
        raise ValueError("prior must hold one positive integer per option")
