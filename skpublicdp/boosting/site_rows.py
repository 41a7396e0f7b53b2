"""Binned rows of several sites: every site keeps its codes and margins, and answers with sums."""

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
    """Array with an entry for each row, such as the margins, of which each site holds its part."""


class SiteBinnedRows(SiteObject, FineBinnedRows):
    """Binned rows of several sites. A function of them runs at every site on its own rows.

    A task refers to these rows by their key. So a function that reads the codes, targets or margins
    of `FineBinnedRows` reads those of the site.

    Parameters
    ----------
    group : SiteGroup
        The sites.
    key : str
        Key of the binned rows at every site.
    sizes : sequence of int
        Number of rows of each site.
    fine_binner : Binner
        The fine bins.

    Attributes
    ----------
    columns : list of ndarray, shape (0,)
        One empty array for each column, since codes stay at the sites.
    """

    def __init__(
        self, group: SiteGroup, key: str, sizes: Sequence[int], fine_binner: Binner
    ) -> None:
        SiteObject.__init__(self, group, key)
        group.release_with(self)
        self.fine_binner, self.sizes, self.n = fine_binner, tuple(sizes), sum(sizes)
        self.columns = [np.empty(0, bins.dtype) for bins in fine_binner.columns]

    def take(self, indices: NDArray[np.intp]) -> SiteBinnedRows:
        """Return the rows at increasing indices. Each site gets the indices of its own rows."""
        positions = self._split(indices)
        key = self.group.keep(FineBinnedRows.take, self, positions)
        sizes = [len(own) for own in positions.values]
        return SiteBinnedRows(self.group, key, sizes, self.fine_binner)

    def with_targets(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> SiteBinnedRows:
        """Return the rows with encoded targets, which the sites encode."""
        key = self.group.keep(FineBinnedRows.with_targets, self, encode)
        return SiteBinnedRows(self.group, key, self.sizes, self.fine_binner)

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return an uninitialised array whose last axis is the rows, as a `SiteArray`."""
        shapes = PerSite([(*shape[:-1], size) for size in self.sizes])
        array = SiteArray(self.group, self.group.keep(FineBinnedRows.allocate, self, shapes, dtype))
        self.group.release_with(array)
        return array

    def sum_over_chunks(self, f: Callable[[slice], Any]) -> Any:
        """Return the sum over the sites of ``f(chunk)``, summed over the chunks of each site."""
        return self.group.add_up(FineBinnedRows.sum_over_chunks, self, f)

    def sum_over_sample(self, indices: Codes, f: Callable[[Codes], Any]) -> Any:
        """Return the sum over the sites of ``f(indices)``, for increasing indices."""
        return self.group.add_up(_call, f, self._split(indices))

    def _split(self, indices: Codes) -> PerSite:
        """Return increasing indices among all rows as indices at each site."""
        return split_positions(indices, self.sizes)


def _call(f: Callable[[Codes], Any], indices: Codes) -> Any:
    """Return ``f(indices)``: the function of a task that reads a sample of the rows."""
    return f(indices)
