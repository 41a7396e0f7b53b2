"""Binned rows of several sites, where each site stores its own codes and returns only sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skpublicdp.boosting.binned import FineBinnedRows
from skpublicdp.boosting.binner import Binner
from skpublicdp.data.sources.sites_reader import PerSite, SiteGroup, SiteObject, split_positions
from skpublicdp.typing import Codes


class SiteArray(SiteObject):
    """Array with one entry per row, such as a margin, that is distributed over the sites."""


class SiteBinnedRows(SiteObject, FineBinnedRows):
    """Binned rows of several sites, where each site evaluates functions on its own rows.

    Tasks refer to the rows by a key. A function that reads the codes, targets or margins of
    `FineBinnedRows` therefore reads the values stored at the site.

    Parameters
    ----------
    group : SiteGroup
        The sites.
    key : str
        Key that identifies the binned rows at every site.
    sizes : sequence of int
        Number of rows of each site.
    fine_binner : Binner
        The fine bins.

    Attributes
    ----------
    columns : list of ndarray, shape (0,)
        Empty array for each column, since the codes remain at the sites.
    """

    def __init__(
        self, group: SiteGroup, key: str, sizes: Sequence[int], fine_binner: Binner
    ) -> None:
        SiteObject.__init__(self, group, key)
        group.release_with(self)
        self.fine_binner, self.sizes, self.n = fine_binner, tuple(sizes), sum(sizes)
        self.columns = [np.empty(0, bins.dtype) for bins in fine_binner.columns]

    def take(self, indices: NDArray[np.intp]) -> SiteBinnedRows:
        """Return the rows with given increasing indices, which are divided among the sites."""
        positions = self._split(indices)
        key = self.group.keep(FineBinnedRows.take, self, positions)
        sizes = [len(own) for own in positions.values]
        return SiteBinnedRows(self.group, key, sizes, self.fine_binner)

    def with_targets(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> SiteBinnedRows:
        """Return the same rows, with targets that are encoded at the sites."""
        key = self.group.keep(FineBinnedRows.with_targets, self, encode)
        return SiteBinnedRows(self.group, key, self.sizes, self.fine_binner)

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return an uninitialised `SiteArray` whose last axis corresponds to the rows."""
        shapes = PerSite([(*shape[:-1], size) for size in self.sizes])
        array = SiteArray(self.group, self.group.keep(FineBinnedRows.allocate, self, shapes, dtype))
        self.group.release_with(array)
        return array

    def sum_over_chunks(self, f: Callable[[slice], Any]) -> Any:
        """Return the sum of ``f(chunk)`` over all chunks of all sites."""
        return self.group.add_up(FineBinnedRows.sum_over_chunks, self, f)

    def sum_over_sample(self, indices: Codes, f: Callable[[Codes], Any]) -> Any:
        """Return the sum of ``f(indices)`` over all sites, for increasing indices."""
        return self.group.add_up(_call, f, self._split(indices))

    def _split(self, indices: Codes) -> PerSite:
        """Split increasing indices of rows from all sites into the indices at each site."""
        return split_positions(indices, self.sizes)


def _call(f: Callable[[Codes], Any], indices: Codes) -> Any:
    """Return ``f(indices)``. It is used as the task function that reads a sample of the rows."""
    return f(indices)
