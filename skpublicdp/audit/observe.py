"""Canonical form of everything observable about a fit, used for exact comparison."""

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
from numpy.typing import NDArray

from skpublicdp.privacy.budget import PrivacyBudget

OBSERVED_METHODS = ("predict", "predict_proba", "decision_function", "transform", "sample")
"""Methods that are called on every fitted object that provides them."""

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
"""Names used in findings for parts of `Observation.shown`; all other parts are method names."""

SCALAR_TYPES = (type(None), bool, int, str, bytes, complex)

MAX_SHOWN_CHARACTERS = 60
"""Number of characters at which the text of a value is truncated in findings."""

PICKLE_PROTOCOL = 4

Form = tuple[str, Any]
"""A canonical form: (type name, value) or (type name, ((name, form), ...))."""


def canonical_form(value: Any) -> Form:
    """Return the state of an object as nested tuples that begin with a type name.

    Examples
    --------
    >>> canonical_form({"a": [1, 2.5]})
    ('dict', (("'a'", ('list', (('0', ('int', 1)), ('1', ('float', '0x1.4000000000000p+1'))))),))
    """
    return _CanonicalReader().read(value)


def describe_difference(first: Form, second: Form, path: str = "") -> str:
    """Return the path and the two values of the first difference between two forms, or "".

    Examples
    --------
    >>> describe_difference(canonical_form({"a": [1, 2]}), canonical_form({"a": [1, 3]}))
    "['a'][1]: 2 and 3"
    """
    if first == second:
        return ""
    if first[0] != second[0]:
        return f"{path} (type): {first[0]} and {second[0]}"
    first_parts, second_parts = first[1], second[1]
    if not (isinstance(first_parts, tuple) and isinstance(second_parts, tuple)):
        return f"{path}: {_readable(first)} and {_readable(second)}"
    if first[0] == "ndarray":
        return _array_difference(dict(first_parts), dict(second_parts), path)
    for (name, part), (second_name, second_part) in zip(first_parts, second_parts, strict=False):
        if name != second_name:
            return f"{path} (parts): {name} and {second_name}"
        if part != second_part:
            step = f".{name}" if name.isidentifier() else f"[{name}]"  # attribute or entry
            return describe_difference(part, second_part, path + step)
    return f"{path} (number of parts): {len(first_parts)} and {len(second_parts)}"


def first_difference(first: Form, second: Form) -> str:
    """Return a description of the first difference between two fits, in terms of the estimator.

    Examples
    --------
    >>> fits = [canonical_form({"error": "", "object": {"n_": n}}) for n in (1, 2)]
    >>> first_difference(*fits)
    "estimator['n_']: 1 and 2"
    """
    first_parts = dict(first[1])
    second_parts = dict(second[1])
    errors = [parts.get("'error'") for parts in (first_parts, second_parts)]
    if errors[0] != errors[1]:
        texts = (error[1] if error and error[1] else "no error" for error in errors)
        return f"the error of fit: {' and '.join(texts)}"
    for key, part in first_parts.items():
        if key in second_parts and part != second_parts[key]:
            name = key.strip("'")
            path = OBSERVATION_NAMES.get(name, f"estimator.{name}(X)")
            return describe_difference(part, second_parts[key], path)
    return describe_difference(first, second, "the observations")


def _array_difference(first: dict[str, Form], second: dict[str, Form], path: str) -> str:
    """Return a description of the first entry that differs between two arrays.

    If the arrays have different types or shapes, these are described instead.

    Parameters
    ----------
    first, second : dict
        Parts "type" (data type and shape) and "values" of the canonical forms of two arrays.
    """
    if first["type"] != second["type"]:
        return f"{path} (type and shape): {first['type'][1]} and {second['type'][1]}"
    values, second_values = first["values"][1], second["values"][1]
    if not isinstance(values, bytes):  # an array of objects
        return describe_difference(("tuple", values), ("tuple", second_values), path)
    dtype, _, shape = first["type"][1].partition(" ")
    try:
        entries, second_entries = (
            np.frombuffer(buffer, dtype=dtype) for buffer in (values, second_values)
        )
    except (TypeError, ValueError):  # a structured type, for instance
        return f"{path}: {_short(values)} and {_short(second_values)}"
    differs = entries != second_entries
    # equal entries with different bytes, such as 0 and -0, are reported as the first entry
    index = int(np.flatnonzero(differs)[0]) if differs.any() else 0
    entry = f", entry {index}" if shape != "()" else ""
    return f"{path}{entry}: {entries[index]} and {second_entries[index]}"


def _readable(form: Form) -> str:
    """Return the value of a canonical form as a user would write it."""
    type_name, value = form
    if type_name == "float":
        return f"{float.fromhex(value):.17g}"
    if isinstance(value, bytes) and type_name != "bytes":  # a scalar of numpy
        try:
            return str(np.frombuffer(value, dtype=type_name)[0])
        except (TypeError, ValueError):
            return _short(value)
    return _short(value)


def _short(value: Any) -> str:
    """Return the representation of a value, truncated to `MAX_SHOWN_CHARACTERS`."""
    text = repr(value)
    if len(text) < MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[: MAX_SHOWN_CHARACTERS - 3]}..."


class _CanonicalReader:
    """Reader that computes canonical forms.

    Each object is read only once, even if there are several references to it.
    """

    def __init__(self) -> None:
        self._form_of_id: dict[int, Form] = {}
        self._references: list[Any] = []  # so that no other object gets the same id

    def read(self, value: Any) -> Form:
        """Return the canonical form of an object: its type name with its value or its parts."""
        type_name = type(value).__name__
        if isinstance(value, SCALAR_TYPES) and type(value).__module__ == "builtins":
            return type_name, value
        if type(value) is float:
            return type_name, value.hex()  # as text, since NaN is not equal to itself
        if isinstance(value, np.generic):
            return type_name, value.tobytes()
        if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
            return type_name, str(getattr(value, "__qualname__", value.__name__))
        if id(value) in self._form_of_id:
            return self._form_of_id[id(value)]
        self._form_of_id[id(value)] = (type_name, "itself")  # for an object that contains itself
        self._references.append(value)
        form = type_name, self._parts(value)
        self._form_of_id[id(value)] = form
        return form

    def _parts(self, value: Any) -> Any:
        """Return the named parts of an object: entries, attributes or its pickle state."""
        if isinstance(value, np.ndarray):
            return self._array_parts(value)
        if isinstance(value, PrivacyBudget):  # its ledger has times, which differ between fits
            return ()
        if isinstance(value, types.FunctionType):
            variables = [cell.cell_contents for cell in value.__closure__ or ()]
            return self._read_all(
                {"name": value.__qualname__, "closure": variables, "defaults": value.__defaults__}
            )
        if isinstance(value, types.MethodType):
            return self._read_all({"name": value.__name__, "object": value.__self__})
        parts: dict[str, Any] = {}
        if isinstance(value, Mapping):
            parts |= {repr(name): entry for name, entry in value.items()}
        elif isinstance(value, set | frozenset):
            parts |= {str(i): entry for i, entry in enumerate(sorted(value, key=repr))}
        elif isinstance(value, list | tuple):
            parts |= {str(i): entry for i, entry in enumerate(value)}
        parts |= getattr(value, "__dict__", {})
        if not parts and not isinstance(value, list | tuple | dict | set | frozenset):
            parts = self._pickled_state(value)
        return self._read_all(parts)

    def _array_parts(self, array: NDArray[Any]) -> tuple[tuple[str, Form], ...]:
        """Return the parts of an array: its data type and shape, and its bytes or objects."""
        content: Any = array.tobytes()
        if array.dtype.hasobject:
            content = self._read_all({"values": tuple(array.ravel().tolist())})
        dtype_and_shape = f"{array.dtype} {array.shape}"
        return (("type", ("str", dtype_and_shape)), ("values", ("bytes", content)))

    def _pickled_state(self, value: Any) -> dict[str, Any]:
        """Return the state that a pickle of the object would contain."""
        try:
            reduced = value.__reduce_ex__(PICKLE_PROTOCOL)
        except TypeError:  # a lock or an iterator
            return {}
        if isinstance(reduced, str):  # pickled by reference to a global name
            return {"name": reduced}
        # (function, arguments, state), then iterators over the entries of lists and dicts
        return {str(i): list(part) if i > 2 and part else part for i, part in enumerate(reduced)}

    def _read_all(self, parts: Mapping[str, Any]) -> tuple[tuple[str, Form], ...]:
        """Return the canonical form of each named part, in order."""
        return tuple((name, self.read(part)) for name, part in parts.items())


class Observation:
    """Everything that a fit reveals: attributes, answers, printed text, warnings, logs and errors.

    Attributes
    ----------
    shown : dict
        The observed values, indexed by the keys of `OBSERVATION_NAMES` and by method names.
    failure : BaseException or None
        Exception that the fit raised.
    """

    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}
        self.failure: BaseException | None = None

    @contextlib.contextmanager
    def recording_output(self) -> Iterator[None]:
        """Return a context manager that records warnings, errors, printed text and log records.

        An exception inside the context is stored in `failure` instead of being raised.
        """
        printed, records = io.StringIO(), _LogTexts()
        root, progress = logging.getLogger(), logging.getLogger("skpublicdp")
        root.addHandler(records)
        level = progress.level
        progress.setLevel(logging.INFO)  # the progress that a user may ask for is observable
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
            progress.setLevel(level)
        self.shown["error"] = "" if self.failure is None else repr(self.failure)
        self.shown["warnings"] = [
            (warning.category.__name__, str(warning.message)) for warning in caught
        ]
        self.shown["printed"] = printed.getvalue() + "\n".join(records.texts)

    def record(self, fitted: Any, X: Any, look: Callable[[Any], Any] | None) -> None:
        """Record the attributes, the representation and the answers of a fitted object.

        Parameters
        ----------
        fitted : object
            The fitted object to observe.
        X : array-like or data frame, shape (n_new, n_features)
            Rows that are passed to its methods.
        look : callable or None
            Function that returns further observable values of the fitted object.
        """
        html_method = getattr(type(fitted), "_repr_html_", None)
        module = getattr(html_method, "__module__", "sklearn")
        html = ""
        # scikit-learn's HTML has identifiers that are counted up from fit to fit
        if html_method is not None and not module.startswith("sklearn"):
            html = html_method(fitted)
        # memory addresses differ between fits
        self.shown["repr"] = [re.sub("0x[0-9a-f]+", "", text) for text in (repr(fitted), html)]
        for name in OBSERVED_METHODS:
            if callable(method := getattr(fitted, name, None)):
                try:
                    # `sample` takes a number of rows, all other methods take rows
                    self.shown[name] = method(5 if name == "sample" else X)
                except Exception as error:
                    self.shown[name] = repr(error)
        if look is not None:
            self.shown["look"] = look(fitted)
        self.shown["object"] = fitted  # last: methods may have changed the object


class _LogTexts(logging.Handler):
    """Logging handler that collects the texts of log records."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Append the text of a log record."""
        self.texts.append(record.getMessage())
