"""Checks of hypothesis classes that users write, on public rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from skpublicdp.hypotheses.base import (
    Cover,
    Hypothesis,
    HypothesisClass,
    PublicSample,
    is_of_package,
)
from skpublicdp.mechanisms.families import Choice, Family, Leaf, OneOf, Path, Product
from skpublicdp.typing import Codes, Floats, Integers

MAX_CHECKED_ROWS, MAX_CHECKED_RULES = 100, 1000
"""Maximum number of public rows and of rules of a cover that a fit checks, to limit the time."""

N_SINGLE_ROWS = 8
"""Number of rows that are also tabulated one at a time."""

MANY_ROWS = 5000
"""Number of rows in the largest batch of `check_hypothesis_class`, as in a fit with many rows."""

EXAMPLE_ROWS, EXAMPLE_COLUMNS = 60, 4
"""Shape of the rows of `check_hypothesis_class` if the user passes none."""


def check_hypothesis_class(
    hypotheses: HypothesisClass,
    X: ArrayLike | None = None,
    *,
    classes: Sequence[Any] = (0, 1),
    alpha: float = 0.05,
    beta: float = 0.05,
) -> None:
    """Check that a hypothesis class satisfies the contract on which privacy depends.

    The class builds a cover from example rows, and the cover is checked on these rows, on rows far
    beyond their range and on large batches. The checks are:

    - settings are ``__init__`` parameters, so that `clone` copies the class;
    - `build_cover` returns a `Cover`, whose `size` is the number of its members;
    - each rule is a `Hypothesis` whose `predict` returns codes (positions in ``public.classes``)
      for any row of finite numbers and does not change the rows;
    - tables are int64 arrays, and the table of some rows is the sum of the tables of these rows one
      at a time: a row's contribution does not depend on other rows;
    - the error count of each rule in `Cover.family` is the weight of the rows that the rule
      mislabels, so one row of weight 1 changes it by at most 1;
    - covers that `Cover.refine` returns satisfy the same.

    `fit` runs the same checks, except those of rows far away and of large batches, for each class
    that is not part of this package. Like all tests, they can find violations, but cannot prove
    that there are none.

    Parameters
    ----------
    hypotheses : HypothesisClass
        Instance of the class.
    X : array-like of float, shape (m, n_features), optional
        Example rows, which must be public. By default, 60 rows with 4 standard normal columns.
    classes : sequence, default=(0, 1)
        Sorted labels.
    alpha, beta : float, default=0.05
        Arguments of `build_cover`.

    Raises
    ------
    TypeError
        If the cover, a rule or a table has the wrong type.
    ValueError
        If another check fails. The message names the check and the remedy. Errors of the class
        itself are passed on.

    See Also
    --------
    HypothesisClass : Base class of hypothesis classes.
    skpublicdp.model_selection.check_pipeline : Checks the steps of a pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> from skpublicdp.hypotheses import (
    ...     Hypothesis, HypothesisClass, ListedCover, check_hypothesis_class)
    >>> class Above(Hypothesis):
    ...     def __init__(self, cut):
    ...         self.cut = cut
    ...
    ...     def predict(self, X):
    ...         return (X[:, 0] > np.median(X[:, 0]) + self.cut).astype(np.intp)
    ...
    ...     def rule(self):
    ...         return f"predict 1 above {self.cut}"
    >>> class Cuts(HypothesisClass):
    ...     def build_cover(self, public, *, alpha, beta):
    ...         return ListedCover([Above(cut) for cut in (-1.0, 0.0, 1.0)])
    >>> check_hypothesis_class(Cuts())
    Traceback (most recent call last):
        ...
    ValueError: The table of a cover must be the sum of what its rows contribute one at a time...
    """
    if isinstance(hypotheses, type) or not isinstance(hypotheses, HypothesisClass):
        raise TypeError(
            "hypotheses must be an instance of a subclass of HypothesisClass; got "
            f"{hypotheses!r}. Pass an instance, such as MyClass()."
        )
    hypotheses = clone(hypotheses)  # fails if settings are no parameters of __init__
    if X is None:
        X = np.random.default_rng(0).normal(size=(EXAMPLE_ROWS, EXAMPLE_COLUMNS))
    rows = np.array(X, dtype=np.float64)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise ValueError(
            "X must be a non-empty table of finite numbers, shape (m, n_features); got shape "
            f"{rows.shape}. Pass public rows without missing values."
        )
    names = tuple(f"x{column}" for column in range(rows.shape[1]))
    public = PublicSample(rows, np.array(classes), names)
    cover = hypotheses.build_cover(public, alpha=alpha, beta=beta)
    name, n_classes = type(hypotheses).__name__, len(public.classes)
    width = np.ptp(rows, axis=0)
    far = [rows.min(axis=0) - 1e6 * (width + 1), rows.max(axis=0) + 1e6 * (width + 1)]
    many = np.resize(rows, (MANY_ROWS, rows.shape[1]))
    for examples in (_example_rows(rows, len(rows)), np.vstack([rows[:2], *far]), many):
        check_cover(cover, examples, n_classes, name)
    no_rows = cover.tabulate(rows[:0], np.zeros(0, np.intp), np.zeros(0, np.int64))
    one_row = cover.tabulate(rows[:1], np.zeros(1, np.intp), np.zeros(1, np.int64))
    if not np.array_equal(no_rows, one_row):
        raise ValueError(
            f"tabulate of a cover must return the same table for no row and for a row of weight 0, "
            f"but that of {name} does not. Multiply what a row contributes by its weight."
        )


def check_built_covers(hypothesis_class: type[HypothesisClass]) -> None:
    """Let a class from outside the package check each cover that its `build_cover` returns.

    All uses of the class are thereby checked, for example as a member of `Union`.
    """
    build_cover: Callable[..., Any] = hypothesis_class.build_cover
    is_abstract = getattr(build_cover, "__isabstractmethod__", False)
    checks_already = getattr(build_cover, "checks_cover", False)  # inherited
    if is_of_package(hypothesis_class) or is_abstract or checks_already:
        return

    @wraps(build_cover)
    def build_checked_cover(
        self: HypothesisClass, public: PublicSample, *args: Any, **settings: Any
    ) -> Cover:
        cover: Cover = build_cover(self, public, *args, **settings)
        rows = _example_rows(public.X, MAX_CHECKED_ROWS)
        check_cover(cover, rows, len(public.classes), type(self).__name__)
        return cover

    build_checked_cover.checks_cover = True  # type: ignore[attr-defined]
    hypothesis_class.build_cover = build_checked_cover  # type: ignore[method-assign]


def check_cover(
    cover: Any, rows: Floats, n_classes: int, name: str, *, with_refinement: bool = True
) -> None:
    """Raise an error unless a cover satisfies the contract on public rows.

    Parameters
    ----------
    cover : object
        Return value of a method `build_cover` or `refine`.
    rows : ndarray of float64, shape (m, n_features)
        Public rows.
    n_classes : int
        Number of labels.
    name : str
        Name of the hypothesis class, for messages.
    with_refinement : bool
        Whether to check a refined cover, too.
    """
    _check_cover_type(cover, name)
    codes = np.arange(len(rows)) % n_classes
    weights = 1 + np.arange(len(rows)) // n_classes % 3
    # a bad prediction can make counting fail in a way that is hard to read
    for rule in getattr(cover, "hypotheses", ())[:MAX_CHECKED_RULES]:
        _check_predictions(rule, rows, n_classes)
    table = _check_tables(cover, rows, codes.astype(np.intp), weights.astype(np.int64), name)
    family = cover.family(table)
    if not isinstance(family, Family) or family.batch or family.size != cover.size:
        size = f" of size {family.size}" if isinstance(family, Family) else ""
        raise ValueError(
            f"The family of a cover must be a single Family with `size` members, here {cover.size}"
            f"; the cover of {name} returned a {type(family).__name__}{size}. Let `size` count the "
            "members, including duplicates."
        )
    for path, errors in _example_members(family):
        rule = cover.hypothesis(path)
        _check_rule(rule, name)
        predicted = _check_predictions(rule, rows, n_classes)
        mislabelled = int(weights[predicted != codes].sum())
        if errors != mislabelled:
            raise ValueError(
                "The error counts of a family must be those of its rules, but the rule at path "
                f"{path} of {name} mislabels public rows of weight {mislabelled}, and its error "
                f"count is {errors}. Compute both from the same predictions."
            )
    if with_refinement and cover.rounds != 1:
        _check_refinement(cover, table, rows, n_classes, name)


def _check_refinement(
    cover: Cover, table: Integers, rows: Floats, n_classes: int, name: str
) -> None:
    """Check the cover around one of the members that have finer covers."""
    refinable = cover.refinable_members
    if refinable is not cover:
        check_cover(refinable, rows, n_classes, name=name, with_refinement=False)
        no_labels = np.zeros(0, np.intp)
        no_weights = np.zeros(0, np.int64)
        table = refinable.tabulate(rows[:0], no_labels, no_weights)
    path, _ = next(_example_members(refinable.family(table)))
    released = refinable.hypothesis(path)
    finer = cover.refine(released, 1)
    check_cover(finer, rows, n_classes, name=name, with_refinement=False)


def _check_cover_type(cover: Any, name: str) -> None:
    """Raise an error unless an object is a cover with a size, and lists only hypotheses."""
    if not isinstance(cover, Cover):
        raise TypeError(
            f"build_cover and refine must return a Cover, but {name} returned a "
            f"{type(cover).__name__}. Wrap a list of rules in ListedCover."
        )
    for rule in getattr(cover, "hypotheses", ()):
        _check_rule(rule, name)
    size = cover.size
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
        raise ValueError(
            f"The size of a cover must be a positive integer; the cover of {name} has size "
            f"{size!r}. Return at least one rule."
        )


def _check_rule(rule: Any, name: str) -> None:
    """Raise TypeError unless a member of a cover is a hypothesis that can be printed."""
    if not isinstance(rule, Hypothesis):
        raise TypeError(
            f"The rules of a cover must be instances of Hypothesis; the cover of {name} contains a "
            f"{type(rule).__name__}. Write a subclass of Hypothesis, or use FiniteClass for fitted "
            "classifiers."
        )
    text = rule.rule()
    if not isinstance(text, str):
        raise TypeError(
            f"rule() of a hypothesis must return a string; that of {type(rule).__name__} returned "
            f"a {type(text).__name__}."
        )


def _check_predictions(rule: Hypothesis, rows: Floats, n_classes: int) -> Codes:
    """Return the codes that a rule predicts for public rows, or raise an error."""
    copied = rows.copy()
    predicted: Any = rule.predict(copied)
    name = type(rule).__name__
    if not isinstance(predicted, np.ndarray) or predicted.dtype.kind not in "iu":
        raise TypeError(
            "predict of a hypothesis must return an integer array of codes, which are positions in "
            f"public.classes; that of {name} returned {_type_of(predicted)}. Return, for example, "
            "(X[:, 0] > cut).astype(np.intp)."
        )
    if predicted.shape != (len(rows),):
        raise ValueError(
            f"predict of a hypothesis must return one code per row, shape ({len(rows)},); that of "
            f"{name} returned shape {predicted.shape}."
        )
    if predicted.min(initial=0) < 0 or predicted.max(initial=0) >= n_classes:
        raise ValueError(
            "predict of a hypothesis must return codes, which are positions in public.classes, "
            f"from 0 to {n_classes - 1} for any row of finite numbers; that of {name} returned "
            f"{np.unique(predicted)[:10].tolist()} for public rows and rows beyond their range."
        )
    if not np.array_equal(copied, rows):
        raise ValueError(
            f"predict of a hypothesis must not change the rows, but that of {name} does. Work on a "
            "copy."
        )
    return predicted.astype(np.intp)


def _check_tables(
    cover: Cover, rows: Floats, codes: Codes, weights: Integers, name: str
) -> Integers:
    """Return the table of public rows, or raise an error if it is not additive and row-local."""

    def tabulate(positions: Any) -> Integers:
        batch = rows[positions].copy()
        table: Any = cover.tabulate(batch, codes[positions], weights[positions])
        if not isinstance(table, np.ndarray) or table.dtype != np.int64:
            raise TypeError(
                f"tabulate of a cover must return an int64 array; that of {name} returned "
                f"{_type_of(table)}. Count rows with integers."
            )
        if not np.array_equal(batch, rows[positions]):
            raise ValueError(
                f"tabulate of a cover must not change the rows, but that of {name} does. Work on a "
                "copy."
            )
        return table

    everything = np.arange(len(rows))
    table = tabulate(everything)
    singles = np.unique(np.linspace(0, len(rows) - 1, N_SINGLE_ROWS).astype(np.intp))
    others = np.setdiff1d(everything, singles)
    partitions = [
        [everything[::-1]],  # the same rows again, in another order
        [everything[::2], everything[1::2]],
        [others, *singles[:, None]],
    ]
    for parts in partitions:
        tables = [tabulate(part) for part in parts]
        shapes = {part.shape for part in (table, *tables)}
        if len(shapes) > 1:
            raise ValueError(
                "The shape of a table must depend on the cover alone, but tabulate of "
                f"{name} returned the shapes {sorted(shapes)} for different public rows. Count "
                "into an array whose shape is fixed in build_cover."
            )
        if not np.array_equal(table, sum(tables)):
            raise ValueError(
                "The table of a cover must be the sum of what its rows contribute one at a time, "
                f"but for public rows, the table of {name} is not. Privacy does not hold if "
                "predict or tabulate uses other rows, such as their median, rank, number or order, "
                "or random numbers. Compute such statistics from public.X in build_cover."
            )
    return table


def _type_of(result: Any) -> str:
    """Return the type of a result as it appears in messages."""
    if isinstance(result, np.ndarray):
        return "text" if result.dtype.kind in "UT" else f"an array of {result.dtype}"
    return f"a {type(result).__name__}"


def _example_rows(X: Floats, max_rows: int) -> Floats:
    """Return public rows at evenly spaced positions, and two rows beyond their range."""
    positions = np.linspace(0, len(X) - 1, max_rows).astype(np.intp)
    evenly_spaced = X[np.unique(positions)]
    low = X.min(axis=0)
    high = X.max(axis=0)
    with np.errstate(over="ignore"):
        column_range = np.where(high > low, high - low, 1)
        below = low - column_range
        above = high + column_range
    beyond = np.clip([below, above], -1e300, 1e300)
    return np.vstack([evenly_spaced, beyond])


def _example_members(family: Family) -> Iterator[tuple[Path, int]]:
    """Yield (path, error count) of the members of a family, of which few are drawn if many."""
    if family.size <= MAX_CHECKED_RULES:
        yield from ((path, errors) for path, errors, _ in family.members())
        return
    rng = np.random.default_rng(0)
    for _ in range(MAX_CHECKED_RULES // 10):
        yield _random_member(family, rng)


def _random_member(family: Family, rng: np.random.Generator) -> tuple[Path, int]:
    """Return (path, error count) of a random member of a family."""
    if isinstance(family, Leaf):
        path = int(rng.integers(family.size))
        return path, int(family.errors[path])
    if isinstance(family, Product):
        paths, errors = zip(
            *(_random_member(factor, rng) for factor in family.factors), strict=True
        )
        return paths, sum(errors)
    if isinstance(family, Choice):
        option = int(rng.integers(family.options.batch[-1]))
        path, n_errors = _random_member(family.options.at((option,)), rng)
        return (option, path), n_errors
    if isinstance(family, OneOf):
        option = int(rng.integers(len(family.options)))
        path, n_errors = _random_member(family.options[option], rng)
        return (option, path), n_errors
    # a family of the user: members can only be listed
    first_members = list(itertools.islice(family.members(), MAX_CHECKED_RULES // 10))
    path, n_errors, _ = first_members[int(rng.integers(len(first_members)))]
    return path, n_errors
