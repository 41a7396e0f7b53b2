"""Canonical form of everything observable of a fit, for exact comparison."""

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

from skpublicdp.privacy.budget import PrivacyBudget

OBSERVED_METHODS = ("predict", "predict_proba", "decision_function", "transform", "sample")
"""Methods that are called on every fitted object that has them."""

OBSERVATION_NAMES = {
    "object": "estimator",
    "error": "the error of fit",
    "warnings": "the warnings of fit",
    "printed": "the text printed by fit",
    "repr": "repr(estimator)",
    "arguments": "the public arguments of fit",
    "look": "look(estimator)",
    "sample": "estimator.sample(5)",
}
"""Names of the parts of `Observation.shown` in findings; the others are methods applied to rows."""

SCALAR_TYPES = (type(None), bool, int, str, bytes, complex)


def canonical_form(thing: Any) -> Any:
    """Return the state of an object as nested tuples that begin with a type name.

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
    >>> canonical_form({"a": [1, 2.5]})
    ('dict', (("'a'", ('list', (('0', ('int', 1)), ('1', ('float', '0x1.4000000000000p+1'))))),))
    """
    return _Reader().read(thing)


def difference(one: Any, other: Any, path: str = "") -> str:
    """Return the first place where two contents differ, with both values, or nothing.

    Examples
    --------
    >>> difference(canonical_form({"a": [1, 2]}), canonical_form({"a": [1, 3]}))
    "['a'][1]: 2 and 3"
    """
    if one == other:
        return ""
    if one[0] != other[0]:
        return f"{path} (type): {one[0]} and {other[0]}"
    mine, yours = one[1], other[1]
    if not (isinstance(mine, tuple) and isinstance(yours, tuple)):
        return f"{path}: {_readable(one)} and {_readable(other)}"
    if one[0] == "ndarray":
        return _array_difference(dict(mine), dict(yours), path)
    for (name, part), (also, match) in zip(mine, yours, strict=False):
        if name != also:
            return f"{path} (parts): {name} and {also}"
        if part != match:
            return difference(part, match, path + _step(name))
    return f"{path} (number of parts): {len(mine)} and {len(yours)}"


def difference_seen(one: Any, other: Any) -> str:
    """Return where two fits differ first, as `Observation.shown` has them, in words.

    Examples
    --------
    >>> fits = [canonical_form({"error": "", "object": {"n_": n}}) for n in (1, 2)]
    >>> difference_seen(*fits)
    "estimator['n_']: 1 and 2"
    """
    seen, also_seen = dict(one[1]), dict(other[1])
    errors = [seen.get("'error'"), also_seen.get("'error'")]
    if errors[0] != errors[1]:
        texts = (error[1] if error and error[1] else "no error" for error in errors)
        return f"the error of fit: {' and '.join(texts)}"
    for name, part in seen.items():
        if name in also_seen and part != also_seen[name]:
            place = name.strip("'")
            return difference(
                part, also_seen[name], OBSERVATION_NAMES.get(place, f"estimator.{place}(X)")
            )
    return difference(one, other, "what is seen")


def _step(name: str) -> str:
    """Return the part of a path that leads to an entry of a container or to an attribute."""
    return f".{name}" if name.isidentifier() else f"[{name}]"


def _array_difference(mine: Any, yours: Any, path: str) -> str:
    """Return the first entry in which two arrays differ, or their types and shapes."""
    if mine["of"] != yours["of"]:
        return f"{path} (type and shape): {mine['of'][1]} and {yours['of'][1]}"
    values, others = mine["values"][1], yours["values"][1]
    if not isinstance(values, bytes):  # of an array of objects
        return difference(("tuple", values), ("tuple", others), path)
    dtype, _, shape = mine["of"][1].partition(" ")
    try:
        values, others = (np.frombuffer(held, dtype=dtype) for held in (values, others))
    except (TypeError, ValueError):  # a type that its name does not say
        return f"{path}: {_short(values)} and {_short(others)}"
    place = int(np.flatnonzero(values != others)[0]) if (values != others).any() else 0
    entry = f", entry {place}" if shape != "()" else ""
    return f"{path}{entry}: {values[place]} and {others[place]}"


def _readable(content: Any) -> str:
    """Return a plain value as a reader expects it."""
    kind, value = content
    if kind == "float":
        return f"{float.fromhex(value):.17g}"
    if isinstance(value, bytes) and kind != "bytes":  # a scalar of numpy
        try:
            return str(np.frombuffer(value, dtype=kind)[0])
        except (TypeError, ValueError):
            return _short(value)
    return _short(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."


class _Reader:
    """Reads each object once, however often it is referenced."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        self._kept: list[Any] = []  # so that no other object gets the same id

    def read(self, thing: Any) -> Any:
        kind = type(thing).__name__
        if isinstance(thing, SCALAR_TYPES) and type(thing).__module__ == "builtins":
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
        """Return the state that a pickle would contain."""
        try:
            reduced = thing.__reduce_ex__(4)
        except TypeError:  # a lock or an iterator
            return {}
        if isinstance(reduced, str):
            return {"name": reduced}
        return {str(i): list(part) if i > 2 and part else part for i, part in enumerate(reduced)}

    def _named(self, parts: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        return tuple((name, self.read(value)) for name, value in parts.items())


class Observation:
    """Everything a fit reveals: attributes, answers, printed text, warnings, logs and errors."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}
        self.failure: BaseException | None = None

    @contextlib.contextmanager
    def recording_output(self) -> Iterator[None]:
        """Record warnings, errors, printed text and log records."""
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

    def record(self, fitted: Any, X: Any, look: Callable[[Any], Any] | None) -> None:
        """Record the attributes, the representation and the answers of a fitted object."""
        html = getattr(type(fitted), "_repr_html_", None)
        own = html is not None and not getattr(html, "__module__", "sklearn").startswith("sklearn")
        printed = (repr(fitted), html(fitted) if html and own else "")
        self.shown["repr"] = [re.sub("0x[0-9a-f]+", "", each) for each in printed]  # addresses
        for name in OBSERVED_METHODS:
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
        """Keep the text of a record."""
        self.texts.append(record.getMessage())
