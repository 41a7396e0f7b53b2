"""Constraints on synthetic rows: condition strings and user-defined functions.

Conditions are expressions in a small subset of Python's grammar. Conditions are compiled to
functions of columns; no string is ever executed as code.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skpublicdp.data.schema import Column, Schema
from skpublicdp.query_release.queries.marginal import check_categories
from skpublicdp.typing import Floats, Mask

Constraint = str | Callable[[Any], Any]
"""A condition such as ``"age >= 15 where employed"``, or a function from rows to a mask."""

ColumnFunction = Callable[[Mapping[str, NDArray[Any]]], Any]
"""Function that maps columns by name to an array with one value per row, or to a constant."""

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda values, options: np.isin(values, options),
    ast.NotIn: lambda values, options: ~np.isin(values, options),
}

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

SYNTAX = (
    "A condition can compare columns, numbers and strings with ==, !=, <, <=, >, >=, `in` and `not "
    'in`, and can contain +, -, *, /, `and`, `or` and `not`, for example "age >= 15 where job == '
    "'farm'\". For any other condition, pass a function of rows"
)


class RowConstraints:
    """Set of conditions that each row must satisfy.

    Parameters
    ----------
    constraints : sequence of str or callable
        The conditions, given as in `PAPQueryRelease.sample`.
    schema : Schema
        The columns.

    Raises
    ------
    ValueError
        If a condition string is invalid.
    """

    def __init__(self, constraints: Sequence[Constraint], schema: Schema) -> None:
        self._schema = schema
        self._functions = [each for each in constraints if not isinstance(each, str)]
        self._conditions = [_compile(each, schema) for each in constraints if isinstance(each, str)]

    def hold(self, rows: Floats) -> Mask:
        """Indicate whether each encoded row satisfies all conditions, shape (n,)."""
        n = len(rows)
        holds = np.ones(n, dtype=bool)
        if not n or not (self._functions or self._conditions):
            return holds
        decoded = self._schema.decoded_columns(rows)
        columns = dict(zip(self._schema.names, decoded, strict=True))
        for condition in self._conditions:
            holds &= condition(columns)
        for function in self._functions:
            mask = np.asarray(function(self._schema.decode(rows)))
            if mask.shape != (n,) or mask.dtype != bool:
                raise ValueError(
                    f"A function in constraints must return one boolean for each of {n} rows; got "
                    f"{mask.dtype} of shape {mask.shape}."
                )
            holds &= mask
        return holds


def check_constraints(constraints: Any, schema: Schema) -> RowConstraints:
    """Return the user's constraints as a list, given None, a single constraint or a sequence."""
    if constraints is None:
        constraints = ()
    elif not isinstance(constraints, list | tuple):
        constraints = (constraints,)
    for constraint in constraints:
        if not (isinstance(constraint, str) or callable(constraint)):
            raise ValueError(
                "constraints must be condition strings or functions of rows; got "
                f"{type(constraint).__name__}."
            )
    return RowConstraints(tuple(constraints), schema)


def _compile(text: str, schema: Schema) -> ColumnFunction:
    """Compile a condition "A" or "A where B" to a function; the latter means "A or not B"."""
    compiler = _ConditionCompiler(text, schema)
    conclusion, separator, premise = text.partition(" where ")
    holds = compiler.compile_text(conclusion)
    if not separator:
        return holds
    applies = compiler.compile_text(premise)
    return lambda columns: holds(columns) | ~applies(columns)


@dataclass(frozen=True)
class _ConditionCompiler:
    """Compiler for the expressions of one condition.

    Attributes
    ----------
    text : str
        The condition, as quoted in error messages.
    schema : Schema
        Schema of the columns to which names in the condition refer.
    """

    text: str
    schema: Schema

    def compile_text(self, expression: str) -> ColumnFunction:
        """Compile one expression of the condition to a function that returns a mask."""
        try:
            tree = ast.parse(expression.strip(), mode="eval").body
        except SyntaxError:
            raise self._syntax_error() from None
        return self._compile_mask(tree)

    def _compile_mask(self, node: ast.expr) -> ColumnFunction:
        """Compile a node that is used as a truth value."""
        if isinstance(node, ast.Name):
            column = self.schema.columns[self.schema.position(node.id)]
            if column.categorical and set(map(type, column.values.tolist())) - {bool}:
                raise ValueError(
                    f"Column {column.name} contains categories, so it cannot be used as a truth "
                    f"value in {self.text!r}. Compare the column with a category."
                )
        function = self.compile(node)
        # `OTHER` and `MISSING` in a boolean column count as false
        return lambda columns: np.asarray(np.asarray(function(columns)) == True)  # noqa: E712

    def _syntax_error(self) -> ValueError:
        """Return the error for a condition outside the grammar."""
        return ValueError(f"{SYNTAX}; got {self.text!r}.")

    def compile(self, node: ast.expr) -> ColumnFunction:
        """Compile a node of the syntax tree to a function of columns."""
        match node:
            case ast.BoolOp(op, values):
                parts = [self._compile_mask(value) for value in values]
                combine = operator.and_ if isinstance(op, ast.And) else operator.or_
                return lambda columns: reduce(combine, [part(columns) for part in parts])
            case ast.UnaryOp(ast.Not(), operand):
                mask = self._compile_mask(operand)
                return lambda columns: ~mask(columns)
            case ast.UnaryOp(ast.USub(), operand):
                inner = self.compile(operand)
                return lambda columns: -inner(columns)
            case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
                first, second, apply = self.compile(left), self.compile(right), ARITHMETIC[type(op)]
                return lambda columns: apply(first(columns), second(columns))
            case ast.Compare(left, ops, comparators):
                return self._compile_comparison([left, *comparators], ops)
            case ast.Name(name):
                position = self.schema.position(name)
                key = self.schema.names[position]
                return lambda columns: columns[key]
            case ast.Constant(value) if isinstance(value, int | float | str):
                return lambda columns: value
            case ast.Tuple(elements) | ast.List(elements):
                constants = [self.compile(element)({}) for element in elements]
                return lambda columns: constants
        raise self._syntax_error()

    def _compile_comparison(
        self, operands: list[ast.expr], ops: Sequence[ast.cmpop]
    ) -> ColumnFunction:
        """Compile a chain of comparisons such as 0 < age <= 15."""
        if not all(type(op) in COMPARISONS for op in ops):
            raise self._syntax_error()
        column = next(
            (
                self.schema.columns[self.schema.position(operand.id)]
                for operand in operands
                if isinstance(operand, ast.Name)
            ),
            None,
        )
        functions = [self._operand(operand, column) for operand in operands]

        def compare(columns: Mapping[str, NDArray[Any]]) -> Mask:
            """Indicate whether all comparisons of neighbouring operands are true."""
            values = [function(columns) for function in functions]
            holds: Any = True
            for op, left, right in zip(ops, values[:-1], values[1:], strict=True):
                holds = holds & _compare(COMPARISONS[type(op)], left, right, self.text)
            return np.asarray(holds)

        return compare

    def _operand(self, node: ast.expr, column: Column | None) -> ColumnFunction:
        """Compile an operand; constants must be values of the column they are compared with."""
        function = self.compile(node)
        if column is None or not isinstance(node, ast.Constant | ast.Tuple | ast.List):
            return function
        constants: Any = function({})
        if column.categorical:
            values = constants if isinstance(constants, list) else [constants]
            check_categories(np.array(values, dtype=object), column)
        elif column.is_datetime:
            dates = column.dates_from_user(constants)
            return lambda columns: dates
        return function


def _compare(compare: Callable[[Any, Any], Any], left: Any, right: Any, text: str) -> Any:
    """Return the result of a comparison, or raise a ValueError if the types are incomparable."""
    try:
        return compare(left, right)
    except TypeError:
        raise ValueError(
            f"The condition {text!r} compares values of different types, such as a number and a "
            "string."
        ) from None


MIN_ACCEPTANCE_RATE, MIN_DRAWS = 1 / 1000, 20_000
"""Minimum share of accepted rows, and the number of draws after which this minimum is enforced."""


class AcceptedRows(NamedTuple):
    """Synthetic rows that satisfy the constraints.

    Attributes
    ----------
    rows : ndarray of float64, shape (n, n_features)
        Encoded rows.
    acceptance_rate : float
        Share of the drawn rows that satisfied the constraints.
    """

    rows: Floats
    acceptance_rate: float


def draw_accepted_rows(
    draw: Callable[[int], Floats], is_accepted: Callable[[Floats], Mask], n: int
) -> AcceptedRows:
    """Draw rows by rejection sampling until n of them are accepted.

    The rows are independent draws from the distribution of `draw`, conditional on acceptance.

    Parameters
    ----------
    draw : callable
        Function that returns a given number of independent encoded rows.
    is_accepted : callable
        Function that returns a mask of encoded rows.
    n : int
        Number of rows.
    """
    rows = draw(n)
    accepted = [rows[is_accepted(rows)]]
    n_drawn, n_accepted = n, len(accepted[0])
    while n_accepted < n:
        if n_drawn >= MIN_DRAWS and n_accepted < MIN_ACCEPTANCE_RATE * n_drawn:
            raise ValueError(
                f"Only {n_accepted} of {n_drawn} synthetic rows satisfy the constraints, because "
                "the constraints contradict the release. Relax the constraints."
            )
        rate = max(n_accepted / n_drawn, MIN_ACCEPTANCE_RATE)
        n_more = math.ceil((n - n_accepted) / rate) + 10
        rows = draw(min(n_more, MAX_DRAWN_ROWS))
        accepted.append(rows[is_accepted(rows)])
        n_drawn, n_accepted = n_drawn + len(rows), n_accepted + len(accepted[-1])
    return AcceptedRows(np.concatenate(accepted)[:n], n_accepted / n_drawn if n else 1.0)


MAX_DRAWN_ROWS = 1_000_000
"""Maximum number of rows that are drawn at once, which limits memory use."""
