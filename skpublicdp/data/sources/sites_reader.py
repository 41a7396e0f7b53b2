"""Reader for rows that remain at several sites, which receive tasks and return integer tables."""

from __future__ import annotations

import io
import itertools
import pickle
import secrets
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.sources import optional_imports
from skpublicdp.data.sources.reader import RowReader
from skpublicdp.exceptions import ReadError
from skpublicdp.typing import Codes

ROWS_KEY = "rows"
"""Key under which every site stores the reader of its own rows."""


class SiteAnswer(NamedTuple):
    """Answer that a site gives to a task."""

    tables: tuple[NDArray[np.int64], ...] = ()
    """Integer tables of the site's rows, which the coordinator adds up. The tables are not
    protected by noise. Secure aggregation can add masks to the tables, modulo 2**64, which cancel
    out in the sum."""
    facts: Any = None
    """Facts that the site declares to be public: columns and types, the number of rows, and the set
    of labels. Such facts are sent only if a task requests them."""


class AnswersTasks(Protocol):
    """Object that answers tasks, such as a site or a client of a site."""

    def answer(self, task: bytes) -> SiteAnswer:
        """Return the answer of the site to a task."""


class SiteTask(NamedTuple):
    """Task for a site: the call ``function(*args, **options)``, and how to use its result."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]
    result: str
    """Use of the result: ``"tables"`` and ``"facts"`` are sent back, whereas ``"keep"`` stores the
    result at the site."""
    key: str
    """Key under which the result is stored."""
    released_keys: tuple[str, ...]
    """Keys of stored results that are no longer needed."""


class PerSite(NamedTuple):
    """Argument of a task that has a different value for each site."""

    values: Sequence[Any]


class SiteObject:
    """Object that each site stores for its own rows. Tasks refer to the object by a key.

    Parameters
    ----------
    group : SiteGroup
        The sites.
    key : str
        Key that identifies the object at every site.
    """

    def __init__(self, group: SiteGroup, key: str) -> None:
        self.group, self.key = group, key


class SiteGroup:
    """Sites that together hold a set of rows, from the coordinator's point of view.

    Parameters
    ----------
    sites : sequence of AnswersTasks
        Sites in the order of their rows.
    """

    def __init__(self, sites: Sequence[AnswersTasks]) -> None:
        self.sites = tuple(sites)
        # the keys of two coordinators must differ
        self._keys = map(f"{secrets.token_hex(8)}-{{}}".format, itertools.count())
        self._released: list[str] = []

    def add_up(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Return the sum of a function's integer tables over all sites.

        Parameters
        ----------
        function : callable
            Function that returns an integer array, or a tuple of integer arrays.
        *args, **options
            Arguments of the function: public values, site objects, or `PerSite`.
        """
        totals: list[NDArray[np.int64]] = []
        is_tuple = False
        for answer in self._answers(function, args, options, "tables"):
            is_tuple = bool(answer.facts)
            if not totals:
                totals = [np.array(table) for table in answer.tables]
            else:
                for total, table in zip(totals, answer.tables, strict=True):
                    np.add(total, table, out=total)  # modulo 2**64
        return tuple(totals) if is_tuple else totals[0]

    def ask(self, function: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
        """Return the results of a function at each site, which must be public."""
        return [answer.facts for answer in self._answers(function, args, options, "facts")]

    def keep(self, function: Callable[..., Any], *args: Any, **options: Any) -> str:
        """Make each site store the result of a function, and return the key of the results."""
        key = next(self._keys)
        for _ in self._answers(function, args, options, "keep", key):
            pass
        return key

    def release_with(self, owner: SiteObject) -> None:
        """Make the sites delete an object once `owner`, its local proxy, is deleted."""
        weakref.finalize(owner, self._released.append, owner.key).atexit = False

    def _answers(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        options: dict[str, Any],
        result: str,
        key: str = "",
    ) -> Generator[SiteAnswer, None, None]:
        """Yield each site's answer to a task."""
        released, self._released[:] = tuple(self._released), ()
        for position, site in enumerate(self.sites):
            site_args = tuple(
                arg.values[position] if isinstance(arg, PerSite) else arg for arg in args
            )
            yield site.answer(
                encode_task(SiteTask(function, site_args, options, result, key, released))
            )


def encode_task(task: SiteTask) -> bytes:
    """Serialise a task to bytes, replacing site objects with their keys."""
    with io.BytesIO() as file:

        class TaskPickler(optional_imports.cloudpickle().Pickler):  # type: ignore[misc]
            """Pickler that replaces site objects with their keys."""

            def persistent_id(self, candidate: Any) -> str | None:
                """Return the key of a site object, or None for any other object."""
                return candidate.key if isinstance(candidate, SiteObject) else None

        TaskPickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(task)
        return file.getvalue()


class _TaskUnpickler(pickle.Unpickler):
    """Unpickler that replaces keys with the objects stored at a site."""

    def __init__(self, task: bytes, objects: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(task))
        self._objects = objects

    def persistent_load(self, key: str) -> Any:
        """Return the object that is stored under the given key."""
        if key not in self._objects:
            raise ReadError(
                "A site no longer has an object from an earlier task of this fit, probably because "
                "the site was restarted. Open the sites again and repeat the fit."
            )
        return self._objects[key]


def decode_task(task: bytes, objects: dict[str, Any]) -> SiteTask:
    """Restore a task written by `encode_task`, using the objects of one site."""
    decoded: SiteTask = _TaskUnpickler(task, objects).load()
    return decoded


def as_tables(result: Any) -> SiteAnswer:
    """Return a `SiteAnswer` with the integer tables that a task computed.

    Raise TypeError if the tables do not contain integers.
    """
    is_tuple = isinstance(result, tuple)
    tables = [np.asarray(table) for table in (result if is_tuple else (result,))]
    if any(table.dtype.kind not in "biu" for table in tables):
        raise TypeError("Sites may return only integer tables.")
    return SiteAnswer(tuple(table.astype(np.int64) for table in tables), is_tuple)


class SitesReader(SiteObject, RowReader):
    """Proxy for the readers of several sites' rows, which does not read any rows itself.

    Parameters
    ----------
    group : SiteGroup
        The sites.
    key : str
        Key of the readers stored at the sites.
    template : frame
        Empty table with all columns.
    names : tuple of str
        Names of the columns.
    sizes : sequence of int
        Number of rows of each site.
    """

    kind = "the sites"
    remedy = "read them at each site"

    def __init__(
        self,
        group: SiteGroup,
        key: str,
        template: Any,
        names: tuple[str, ...],
        sizes: Sequence[int],
    ) -> None:
        super().__init__(group, key)
        self.names, self.n_columns, self.sizes = names, len(names), tuple(sizes)
        self._template = template

    def with_rows(self, key: str, sizes: Sequence[int]) -> SitesReader:
        """Return a reader of other rows with the same columns, which sites store under a key."""
        reader = SitesReader(self.group, key, self._template, self.names or (), sizes)
        self.group.release_with(reader)
        return reader

    def split_positions(self, positions: Codes) -> PerSite:
        """Convert positions among all rows to positions at each site.

        Parameters
        ----------
        positions : ndarray of intp
            Increasing positions.
        """
        return split_positions(positions, self.sizes)

    def _count(self) -> int:
        return sum(self.sizes)

    def _empty(self) -> Any:
        return self._template

    def _read(self, columns: Sequence[int]) -> NoReturn:
        raise ReadError(
            "X can only be used in sums, because rows never leave their sites. Compute "
            "predictions, searches and scores of single rows at each site with its own rows."
        )


def split_positions(positions: Codes, sizes: Sequence[int]) -> PerSite:
    """Convert increasing positions among the rows of all sites to positions at each site."""
    starts = np.cumsum([0, *sizes])
    cuts = np.searchsorted(positions, starts)
    parts = zip(cuts[:-1], cuts[1:], starts[:-1], strict=True)
    return PerSite([positions[first:last] - start for first, last, start in parts])


def refuse_sites(*readers: RowReader) -> None:
    """Raise ValueError if either the row reader or the label reader reads rows of sites."""
    if any(isinstance(reader, SitesReader) for reader in readers):
        raise ValueError(
            "X and y must be columns of the same open_sites(...), because each site stores its own "
            "labels. Use rows.drop('y') as X and rows['y'] as y."
        )
