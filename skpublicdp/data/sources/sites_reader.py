"""Read rows that stay at several sites: tasks are sent there, and integer tables come back."""

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
"""Key under which every site holds the reader of its own rows."""


class SiteAnswer(NamedTuple):
    """Answer of a site to one task."""

    tables: tuple[NDArray[np.int64], ...] = ()
    """Integer tables of the rows of the site, which the coordinator adds up. They are not protected
    by noise. Secure aggregation may add masks to them, modulo 2**64, that cancel in the sum."""
    facts: Any = None
    """What the site declares to be public, only for the tasks that ask for it: columns and types,
    the number of rows, and the set of labels."""


class AnswersTasks(Protocol):
    """A site, or a client of one: anything that answers tasks."""

    def answer(self, task: bytes) -> SiteAnswer:
        """Return the answer of the site to a task."""


class SiteTask(NamedTuple):
    """A task for one site: ``function(*args, **options)``, and what happens with its result."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]
    result: str
    """``"tables"`` or ``"facts"``, which are sent back, or ``"keep"``: the site stores it."""
    key: str
    """Key of a stored result."""
    released_keys: tuple[str, ...]
    """Keys of stored results that are not needed any more."""


class PerSite(NamedTuple):
    """Argument of a task that differs between sites."""

    values: Sequence[Any]


class SiteObject:
    """Object that each site holds, each for its own rows. Tasks contain its key in its place.

    Parameters
    ----------
    group : SiteGroup
        The sites.
    key : str
        Key of the object at every site.
    """

    def __init__(self, group: SiteGroup, key: str) -> None:
        self.group, self.key = group, key


class SiteGroup:
    """The sites of one set of rows, as the coordinator sees them.

    Parameters
    ----------
    sites : sequence of AnswersTasks
        The sites, in the order in which their rows count.
    """

    def __init__(self, sites: Sequence[AnswersTasks]) -> None:
        self.sites = tuple(sites)
        # keys of two coordinators must differ
        self._keys = map(f"{secrets.token_hex(8)}-{{}}".format, itertools.count())
        self._released: list[str] = []

    def add_up(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Return the sum over the sites of a function that returns integer tables at each site.

        Parameters
        ----------
        function : callable
            Function that returns an integer array, or a tuple of integer arrays.
        *args, **options
            Its arguments: public values, objects of the sites, or `PerSite`.
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
        """Return what a function returns at each site, which must be public there."""
        return [answer.facts for answer in self._answers(function, args, options, "facts")]

    def keep(self, function: Callable[..., Any], *args: Any, **options: Any) -> str:
        """Let each site store what a function returns there, and return its key."""
        key = next(self._keys)
        for _ in self._answers(function, args, options, "keep", key):
            pass
        return key

    def release_with(self, owner: SiteObject) -> None:
        """Let the sites forget an object once `owner`, which stands for it here, is deleted."""
        weakref.finalize(owner, self._released.append, owner.key).atexit = False

    def _answers(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        options: dict[str, Any],
        result: str,
        key: str = "",
    ) -> Generator[SiteAnswer, None, None]:
        """Yield the answer of each site to a task."""
        released, self._released[:] = tuple(self._released), ()
        for position, site in enumerate(self.sites):
            site_args = tuple(
                arg.values[position] if isinstance(arg, PerSite) else arg for arg in args
            )
            yield site.answer(
                encode_task(SiteTask(function, site_args, options, result, key, released))
            )


def encode_task(task: SiteTask) -> bytes:
    """Return a task as bytes, with the keys of objects that the sites hold in their place."""
    with io.BytesIO() as file:

        class TaskPickler(optional_imports.cloudpickle().Pickler):  # type: ignore[misc]
            """Pickler that writes keys of objects that the sites hold."""

            def persistent_id(self, candidate: Any) -> str | None:
                """Return the key of an object of the sites, and None for other objects."""
                return candidate.key if isinstance(candidate, SiteObject) else None

        TaskPickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(task)
        return file.getvalue()


class _TaskUnpickler(pickle.Unpickler):
    """Unpickler that replaces keys by the objects that a site holds."""

    def __init__(self, task: bytes, objects: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(task))
        self._objects = objects

    def persistent_load(self, key: str) -> Any:
        """Return the object that the site holds under a key."""
        if key not in self._objects:
            raise ReadError(
                "A site must hold the objects of the earlier tasks of a fit, and does not hold "
                "one; it was restarted, so open the sites again and repeat the fit."
            )
        return self._objects[key]


def decode_task(task: bytes, objects: dict[str, Any]) -> SiteTask:
    """Return a task that `encode_task` has written, with the objects of one site."""
    decoded: SiteTask = _TaskUnpickler(task, objects).load()
    return decoded


def as_tables(result: Any) -> SiteAnswer:
    """Return the integer tables that a task has computed as an answer.

    Raises TypeError if they do not hold integers.
    """
    is_tuple = isinstance(result, tuple)
    tables = [np.asarray(table) for table in (result if is_tuple else (result,))]
    if any(table.dtype.kind not in "biu" for table in tables):
        raise TypeError("Only integer tables leave a site.")
    return SiteAnswer(tuple(table.astype(np.int64) for table in tables), is_tuple)


class SitesReader(SiteObject, RowReader):
    """Reader that stands for the rows of several sites. It reads none of them.

    Parameters
    ----------
    group : SiteGroup
        The sites.
    key : str
        Key of the readers that the sites hold.
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
        """Return a reader of other rows with the same columns, which the sites hold under a key."""
        reader = SitesReader(self.group, key, self._template, self.names or (), sizes)
        self.group.release_with(reader)
        return reader

    def split_positions(self, positions: Codes) -> PerSite:
        """Return positions among all rows as positions at each site.

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
            "Rows of sites stay where they are, so X must be used in sums only; call this at each "
            "site with its own rows (predictions, searches and scores of single rows need them)."
        )


def split_positions(positions: Codes, sizes: Sequence[int]) -> PerSite:
    """Return increasing positions among the rows of all sites as positions at each site."""
    starts = np.cumsum([0, *sizes])
    cuts = np.searchsorted(positions, starts)
    parts = zip(cuts[:-1], cuts[1:], starts[:-1], strict=True)
    return PerSite([positions[first:last] - start for first, last, start in parts])


def refuse_sites(*readers: RowReader) -> None:
    """Raise ValueError if one of two readers, of rows and of labels, reads rows of sites."""
    if any(isinstance(reader, SitesReader) for reader in readers):
        raise ValueError(
            "X and y of sites must be columns of the same open_sites(...), since every site keeps "
            "its own labels; use rows.drop('y') as X and rows['y'] as y."
        )
