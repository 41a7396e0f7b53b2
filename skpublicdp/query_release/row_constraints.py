"""Constraints on synthetic rows: functions of rows, which are enforced by rejection sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from skpublicdp.data.schema import Schema
from skpublicdp.typing import Floats, Mask

Constraint = Callable[[Any], Any]
"""A function from rows, in the container type of `fit`, to one boolean for each row."""


def check_constraints(constraints: Any) -> tuple[Constraint, ...]:
    """Return the user's constraints as a tuple, given None, a single function or a sequence."""
    if constraints is None:
        constraints = ()
    elif not isinstance(constraints, list | tuple):
        constraints = (constraints,)
    for constraint in constraints:
        if not callable(constraint):
            raise ValueError(
                "constraints must be functions of rows that return one boolean for each row; got "
                f"{type(constraint).__name__}."
            )
    return tuple(constraints)


def satisfies(constraints: Sequence[Constraint], rows: Floats, schema: Schema) -> Mask:
    """Indicate whether each encoded row satisfies all constraints, shape (n,)."""
    n = len(rows)
    holds = np.ones(n, dtype=bool)
    if not n:
        return holds
    for constraint in constraints:
        mask = np.asarray(constraint(schema.decode(rows)))
        if mask.shape != (n,) or mask.dtype != bool:
            raise ValueError(
                f"A function in constraints must return one boolean for each of {n} rows; got "
                f"{mask.dtype} of shape {mask.shape}."
            )
        holds &= mask
    return holds


MIN_ACCEPTANCE_RATE, MIN_DRAWS = 1 / 1000, 20_000
"""Minimum share of accepted rows, and the number of draws after which this minimum is enforced."""

MAX_DRAWN_ROWS = 1_000_000
"""Maximum number of rows that are drawn at once, which limits memory use."""


def draw_accepted_rows(
    draw: Callable[[int], Floats], is_accepted: Callable[[Floats], Mask], n: int
) -> Floats:
    """Return n independent draws from the distribution of `draw`, conditional on acceptance."""
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
    return np.concatenate(accepted)[:n]
