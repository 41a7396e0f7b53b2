"""All that can be seen of a fitted object, as plain tuples that can be compared."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from skpublicdp.budget import PrivacyBudget

ANSWERS = ("predict", "predict_proba", "decision_function", "transform", "sample")
"""What is asked of every fitted object that can answer it."""

PLAIN = (type(None), bool, int, str, bytes, complex)


def contents(thing: Any) -> Any:
    """Return all that an object holds, as nested tuples whose first entry is a type's name.

    Parameters
    ----------
    thing : object
        Its attributes, their attributes and so on are looked at, what functions close over too.

    Returns
    -------
    tuple
        (type, value), or (type, ((name, contents), ...)).

    Examples
    --------
    >>> contents({"a": [1, 2.5]})
    ('dict', (("'a'", ('list', (('0', ('int', 1)), ('1', ('float', '0x1.4000000000000p+1'))))),))
    """
    return _Reader().read(thing)


def difference(one: Any, other: Any, path: str = "") -> str:
    """Say where two contents differ first, or nothing.

    Examples
    --------
    >>> difference(contents({"a": [1, 2]}), contents({"a": [1, 3]}))
    ".'a'.1: 2 and 3"
    """
    if one == other:
        return ""
    if one[0] != other[0]:
        return f"{path}: {one[0]} and {other[0]}"
    mine, yours = one[1], other[1]
    if not (isinstance(mine, tuple) and isinstance(yours, tuple)):
        return f"{path}: {_short(mine)} and {_short(yours)}"
    for (name, part), (also, match) in zip(mine, yours, strict=False):
        if name != also:
            return f"{path}: {name} and {also}"
        if part != match:
            return difference(part, match, f"{path}.{name}")
    return f"{path}: {len(mine)} and {len(yours)} parts"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."


class _Reader:
    """Reads an object once, however often it is held."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        self._kept: list[Any] = []  # so that no other object gets the same id

    def read(self, thing: Any) -> Any:
        kind = type(thing).__name__
        if isinstance(thing, PLAIN) and type(thing).__module__ == "builtins":
            return kind, thing
        if type(thing) is float:
            return kind, thing.hex()  # so that what is not a number is equal to itself
        if isinstance(thing, np.generic):
            return kind, thing.tobytes()
        if isinstance(thing, type | types.ModuleType | types.BuiltinFunctionType):
            return kind, str(getattr(thing, "__qualname__", thing.__name__))
        if id(thing) in self._known:
            return self._known[id(thing)]
        self._known[id(thing)] = (kind, "itself")  # held by what it holds
        self._kept.append(thing)
        self._known[id(thing)] = found = kind, self._parts(thing)
        return found

    def _parts(self, thing: Any) -> Any:
        if isinstance(thing, np.ndarray):
            values = tuple(thing.ravel().tolist()) if thing.dtype.hasobject else thing.tobytes()
            held = self._named({"values": values}) if thing.dtype.hasobject else values
            return (("of", ("str", f"{thing.dtype} {thing.shape}")), ("values", ("bytes", held)))
        if isinstance(thing, PrivacyBudget):
            return ()
        if isinstance(thing, types.FunctionType):
            inside = [cell.cell_contents for cell in thing.__closure__ or ()]
            return self._named({"name": thing.__qualname__, "of": inside, "by": thing.__defaults__})
        if isinstance(thing, types.MethodType):
            return self._named({"name": thing.__name__, "of": thing.__self__})
        parts: dict[str, Any] = {}
        if isinstance(thing, Mapping):
            parts |= {repr(name): value for name, value in thing.items()}
        elif isinstance(thing, set | frozenset):
            parts |= {str(i): value for i, value in enumerate(sorted(thing, key=repr))}
        elif isinstance(thing, list | tuple):
            parts |= {str(i): value for i, value in enumerate(thing)}
        parts |= getattr(thing, "__dict__", {})
        if not parts and not isinstance(thing, list | tuple | dict | set | frozenset):
            parts = self._reduced(thing)
        return self._named(parts)

    def _reduced(self, thing: Any) -> dict[str, Any]:
        """Return what a pickle would hold."""
        try:
            reduced = thing.__reduce_ex__(4)
        except TypeError:  # a lock or an iterator
            return {}
        if isinstance(reduced, str):
            return {"name": reduced}
        return {str(i): list(part) if i > 2 and part else part for i, part in enumerate(reduced)}

    def _named(self, parts: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        return tuple((name, self.read(value)) for name, value in parts.items())


class Sight:
    """What a fit shows: what it stores, answers, prints, warns of and fails with."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}
        self.failure: BaseException | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note warnings, errors, printed text and log records."""
        printed, records = io.StringIO(), _Records()
        root = logging.getLogger()
        root.addHandler(records)
        try:
            with (
                warnings.catch_warnings(record=True) as caught,
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
            ):
                warnings.simplefilter("always")
                try:
                    yield
                except Exception as error:
                    self.failure = error
        finally:
            root.removeHandler(records)
        self.shown["error"] = "" if self.failure is None else repr(self.failure)
        self.shown["warnings"] = [(each.category.__name__, str(each.message)) for each in caught]
        self.shown["printed"] = printed.getvalue() + "\n".join(records.texts)

    def look_at(self, fitted: Any, X: Any, look: Callable[[Any], Any] | None) -> None:
        """Note what a fitted object holds, prints as and answers."""
        html = getattr(type(fitted), "_repr_html_", None)
        own = html is not None and not getattr(html, "__module__", "sklearn").startswith("sklearn")
        printed = (repr(fitted), html(fitted) if html and own else "")
        self.shown["repr"] = [re.sub("0x[0-9a-f]+", "", each) for each in printed]  # addresses
        for name in ANSWERS:
            if callable(ask := getattr(fitted, name, None)):
                try:
                    self.shown[name] = ask(5 if name == "sample" else X)
                except Exception as error:
                    self.shown[name] = repr(error)
        if look is not None:
            self.shown["look"] = look(fitted)
        self.shown["object"] = fitted  # last: answers may leave something behind


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text."""
        self.texts.append(record.getMessage())
