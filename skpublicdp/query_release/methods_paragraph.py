"""A paragraph that describes a release in the methods section of a publication."""

from __future__ import annotations

from collections.abc import Iterator

from skpublicdp._internal.versions import package_version
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.query_release.answers import FittedRelease

KNOWN_NUMBER = "the number of private rows"
"""Beginning of the assumption of a receipt that makes the number of private rows public."""

MAX_LISTED_TABLES = 10
"""Maximum number of tables that the paragraph lists."""


def describe_method(name: str, released: FittedRelease, receipt: PrivacyReceipt) -> str:
    """Return sentences about the privacy, the measurements, the columns and the intervals."""
    return " ".join(
        [
            *_privacy(receipt),
            *_measurements(released, receipt),
            *_columns(released),
            *_intervals(released, receipt),
            f"Software: skpublicdp {package_version()}, {name}.",
        ]
    )


def _privacy(receipt: PrivacyReceipt) -> Iterator[str]:
    """Yield sentences about the guarantee."""
    if not receipt.mechanisms:
        yield "No private row was used; all results come from public rows."
        return
    if receipt.delta:
        yield (
            "The results satisfy (ε, δ)-differential privacy with "
            f"ε = {_exact(receipt.epsilon)} and δ = {_exact(receipt.delta)}."
        )
    else:
        yield f"The results satisfy ε-differential privacy with ε = {_exact(receipt.epsilon)}."
    yield f"Neighbouring data sets differ as follows: {receipt.unit}."
    is_known = any(text.startswith(KNOWN_NUMBER) for text in receipt.assumptions)
    private = f"{receipt.n_private:,} private rows" if is_known else "The private rows"
    yield f"{private} and {receipt.n_public:,} public rows, which are not protected, were used."
    if receipt.assumptions:
        yield f"The guarantee assumes that {'; '.join(receipt.assumptions)}."
    if not receipt.secure_randomness:
        yield "The random numbers were seeded: the results are for tests, not for publication."


def _measurements(released: FittedRelease, receipt: PrivacyReceipt) -> Iterator[str]:
    """Yield sentences about the mechanisms and the tables."""
    names = list(dict.fromkeys(mechanism.name for mechanism in receipt.mechanisms))
    if names:
        yield f"Mechanisms: {'; '.join(names)}."
    queries, schema = released.queries, released.schema
    if queries.has_tables:
        tables = [
            " × ".join(schema.names[position] for position in positions)
            for positions in queries.tables(schema)
        ]
        listed = "; ".join(tables[:MAX_LISTED_TABLES])
        more = f"; and {len(tables) - MAX_LISTED_TABLES} more" * (len(tables) > MAX_LISTED_TABLES)
        yield f"The tables and all of their margins: {listed}{more}."
    if queries.zeros is not None or queries.hierarchy is not None:
        yield "Impossible combinations were declared, and rows with them were not counted."
    if queries.sums:
        yield "Half of the budget was spent on sums by group."
    known = getattr(released.answers, "known", {})
    if known:
        totals = [" × ".join(schema.names[position] for position in key) for key in known]
        source = "counts in the private rows" if receipt.protects == "columns" else "known totals"
        yield f"All tables were raked to {source} of {'; '.join(totals)}."


def _columns(released: FittedRelease) -> Iterator[str]:
    """Yield sentences about the bounds and bins of numbers, and about categories and weights."""
    queries, weights = released.queries, released.queries.weights
    for position, column in enumerate(released.schema.columns):
        if weights is not None and position == weights.position:
            yield f"Rows were weighted by {column.name}, at most {weights.maximum:g}."
            continue
        if column.categorical:
            continue
        low, high = column.format(column.low), column.format(column.high)
        text = f"{column.name} was limited to {low} to {high}"
        if queries.has_tables:
            text += f" and counted in {len(queries.cell_names(position))} cells"
        yield f"{text}."
    if not released.schema.numeric.all():
        yield 'Categories that neither public rows nor types contain were counted as "(other)".'


def _intervals(released: FittedRelease, receipt: PrivacyReceipt) -> Iterator[str]:
    """Yield a sentence about the errors that intervals include."""
    if not released.answers.has_intervals:
        return
    if receipt.protects == "columns":
        yield "Intervals are about the private rows, not about a population."
        return
    yield (
        "Intervals account for the noise and for the sampling of rows, which are treated as a "
        "simple random sample; strata and clusters are not taken into account."
    )


def _exact(number: float) -> str:
    """Return a number with as many digits as it needs."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
