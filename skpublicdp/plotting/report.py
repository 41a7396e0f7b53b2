"""report: a model card or release card for a fitted estimator, as a single HTML page.

The headings follow the topics of NIST SP 800-226, in their original order.
"""

from __future__ import annotations

import math
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from skpublicdp import __version__
from skpublicdp._internal.html import named_table
from skpublicdp._internal.html_repr import (
    describe_fitted,
    fit_notes,
    inner_estimator,
    public_settings,
    unwrap_pipeline,
)
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.accounting.registry import implementation_note
from skpublicdp.data.schema import Column
from skpublicdp.metrics import PrivateScores
from skpublicdp.metrics.operating_points import RATES
from skpublicdp.metrics.residual_metrics import RESIDUAL_METRICS
from skpublicdp.plotting.display import check_matplotlib
from skpublicdp.plotting.release_displays import CDFDisplay, MarginalDisplay
from skpublicdp.plotting.shape_display import MAX_PANELS, ShapeDisplay

PROOFS_NOTE = (
    f"Proof pages are in the documentation of skpublicdp {__version__}, in the section Proofs. "
    "The source archive of this version contains them in its folder docs/proofs. "
    "Neither proofs nor code have been reviewed by anyone outside the project."
)

ACCESS_NOTE = (
    "To be written by the curator: where the private rows are kept, who may read them, and who "
    "could run further fits."
)

COLLECTION_NOTE = (
    "To be written by the curator: who collected the rows and for which purpose, and who else has "
    "them. Differential privacy does not protect rows before the fit."
)

MAX_LISTED_TABLES, MAX_LISTED_CELLS = 60, 20
"""Maximum numbers of tables, and of cells of a column, that the card of a release lists."""

MAX_LABELS_DRAWN = 4
"""Maximum number of labels for which shape functions are drawn."""

SYNTHETIC_ROWS = "Synthetic rows; sample() returns them."

CSS = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; overflow-wrap: break-word; }
h1 { margin-bottom: 0; font-size: clamp(1.3rem, 5vw, 2rem); }
h2 { margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
img { max-width: 100%; height: auto; }
pre { background: #f6f8fa; padding: .8rem; overflow: auto; max-height: 32rem; font-size: 13px;
  overflow-wrap: normal; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { text-align: left; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid #eee; vertical-align: top; }
.key { background: #eef5fb; border-left: 4px solid #0072b2; padding: .6rem 1rem; }
"""


NOTE_SECTIONS = ("model", "utility", "bias", "access", "collection")
"""Sections to which `report` adds notes of the user."""


def report(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    intended_use: str | None = None,
    contact: str | None = None,
    scores: PrivateScores | None = None,
    notes: Mapping[str, str] | None = None,
) -> Path:
    """Write a model card, or the release card of released answers, as a single HTML page.

    The page does not depend on any other file. The page displays the model with figures, followed
    by sections on the topics of NIST SP 800-226: privacy parameters, unit of privacy, algorithms,
    utility, bias, query model, threat model, implementation, data security and data collection. All
    content was released with differential privacy, was computed from public rows, or is a setting.
    The seed is omitted, since it must stay secret. The origin of the rows, the intended use and the
    accuracy of the model are known to the user alone, who passes them as arguments.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this package with a receipt, `privacy_`, or a pipeline or a search
        that contains such an estimator. The card lists the preceding pipeline steps and any costs
        that the receipt does not cover.
    path : str or path-like
        File to which the card is written.
    title : str, default=None
        Heading of the card. The default is the name of the class.
    intended_use, contact : str, default=None
        Purpose of the model or release, and whom to ask about it. They are texts without HTML.
    scores : PrivateScores, default=None
        Released scores of the model, by group if they were released with `by`. Their receipt is
        shown as well, since their cost adds to that of the model for rows that are in both.
    notes : dict of str, default=None
        Texts of the curator for the sections "model", "utility", "bias", "access" and "collection".
        The last two replace the requests to write them.

    Returns
    -------
    pathlib.Path
        Path of the written file.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If the estimator has no receipt, or `scores` is not a `PrivateScores`.
    ValueError
        If `notes` has an unknown section.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    See Also
    --------
    ShapeDisplay : The figures for boosting models.
    skpublicdp.accounting.PrivacyReceipt.to_registry : The receipt as an entry of a public registry.

    References
    ----------
    Near, Darais, Lefkovitz and Howarth (2025). Guidelines for evaluating differential privacy
    guarantees. NIST SP 800-226.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skpublicdp import SemiPrivateClassifier
    >>> from skpublicdp.plotting import report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> clf = SemiPrivateClassifier(random_state=0)
    >>> clf = clf.fit(X, X[:, 0] > 0, X_public=rng.normal(size=(100, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report(clf, Path(folder) / "card.html").read_text()
    >>> "<h1>SemiPrivateClassifier</h1>" in page
    True
    """
    check_matplotlib("report")
    check_is_fitted(estimator)
    argument_type = type(estimator).__name__
    estimator, steps, searches = unwrap_pipeline(estimator)
    receipt = getattr(estimator, "privacy_", None)
    if receipt is None:
        raise TypeError(
            "report requires a fitted estimator with a receipt (privacy_), or a pipeline or search "
            f"(with best_estimator_) that contains one; got {argument_type}."
        )
    notes = dict(notes or {})
    unknown = sorted(set(notes) - set(NOTE_SECTIONS))
    if unknown:
        raise ValueError(f"notes must have keys among {list(NOTE_SECTIONS)}; got {unknown}.")
    if scores is not None and not isinstance(scores, PrivateScores):
        raise TypeError(
            f"scores must be the result of private_scores; got {type(scores).__name__}."
        )
    name = escape(title or type(estimator).__name__)
    about = [("intended use", intended_use), ("contact", contact)]
    card = "Model card" if _predicts(estimator) else "Release card"
    statements = [*fit_notes(estimator)]
    if getattr(estimator, "certificate_", None) is not None:
        statements.append(("certificate of the draw", str(estimator.certificate_)))
    sections = [
        f"<h1>{name}</h1>",
        f"<p>{card}, written by skpublicdp {__version__}. "
        f"{receipt.n_private} private rows, {receipt.n_public} public rows; "
        f"(ε, δ) = ({receipt.epsilon:g}, {receipt.delta:g}).</p>",
        f"<p class='key'>{escape(receipt.in_words())}</p>",
        named_table([(label, text) for label, text in about if text]),
        *_describe_steps(steps),
        "<h2>Model</h2>" if _predicts(estimator) else "<h2>Release</h2>",
        *(_image(figure, text) for figure, text in _figures(estimator)),
        f"<pre>{escape(describe_fitted(estimator) or SYNTHETIC_ROWS)}</pre>",
        named_table(_public_structure(estimator)),
        *_as_list(_notes(notes, "model")),
        "<h2>Privacy parameters</h2>",
        named_table(_parameters(receipt)),
        receipt._lines_html("together", "scope"),
        *_as_list(_uncovered_costs(steps, searches)),
        "<h2>Unit of privacy</h2>",
        receipt._lines_html("unit", "rows", "assumes"),
        "<p>Facts about the population as a whole, such as averages, are not protected.</p>",
        "<h2>Differentially private algorithms</h2>",
        receipt._mechanisms_html(),
        f"<p>{escape(PROOFS_NOTE)}</p>",
        "<h2>Utility</h2>",
        named_table(statements) or "<p>No error bound is stated.</p>",
        *_describe_scores(scores),
        *_as_list(_utility_limits(estimator, has_scores=scores is not None)),
        *_as_list(_notes(notes, "utility")),
        "<h2>Bias</h2>",
        *_describe_groups(scores),
        *_as_list(_bias(receipt, is_tested=scores is not None and bool(scores.groups_))),
        *_as_list(_notes(notes, "bias")),
        "<h2>Query model</h2>",
        "<p>One release. Later computations on it have no additional privacy cost.</p>",
        "<h2>Threat model</h2>",
        *_as_list(_threats(receipt)),
        "<h2>Mechanism implementation</h2>",
        receipt._lines_html("randomness"),
        f"<p>{implementation_note(is_model=_predicts(estimator))}</p>",
        "<h2>Data security and access control</h2>",
        f"<p>{escape(notes.get('access', ACCESS_NOTE))}</p>",
        "<h2>Data collection exposure</h2>",
        f"<p>{escape(notes.get('collection', COLLECTION_NOTE))}</p>",
        *_as_list(_public_exposure(receipt)),
        "<h2>Settings</h2>",
        named_table([*public_settings(estimator)]),
    ]
    path = Path(path)
    page = _page(f"{card}: {name}", sections)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def _predicts(estimator: Any) -> bool:
    """Return whether an estimator is a model rather than a release of answers or rows."""
    return bool(is_classifier(estimator) or is_regressor(estimator))


def _as_list(texts: Iterator[str]) -> Iterator[str]:
    """Yield an HTML list of the given texts, or nothing if there are none."""
    items = [f"<li>{escape(text)}</li>" for text in texts]
    if items:
        yield "<ul>" + "\n".join(items) + "</ul>"


def _page(title: str, sections: list[str]) -> str:
    """Return an HTML page with a title and sections that already consist of HTML."""
    body = "\n".join(sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{CSS}</style></head>\n<body>{body}</body></html>\n"
    )


def _describe_steps(steps: list[tuple[str, Any]]) -> Iterator[str]:
    """Yield the HTML section about the pipeline steps before the learner, if there are any."""
    if steps:
        yield "<h2>Steps before the learner</h2>"
        texts = (describe_fitted(step) or type(step).__name__ for _, step in steps)
        yield named_table(zip((name for name, _ in steps), texts, strict=True))


def _public_structure(estimator: Any) -> Iterator[tuple[str, str]]:
    """Yield the tables and the columns of a release, which are settings or public."""
    released = getattr(estimator, "_released", None)
    if released is None:
        return
    queries, schema = released.queries, released.schema
    if queries.has_tables:
        tables = [
            " × ".join(schema.names[position] for position in positions)
            for positions in queries.tables(schema)
        ]
        yield "tables, with their margins", _join_first(tables, MAX_LISTED_TABLES)
    for position, column in enumerate(schema.columns):
        yield f"column {column.name}", _describe_column(queries, position, column)


def _describe_column(queries: Any, position: int, column: Column) -> str:
    """Return the kind of a column, its categories or bins, and its bounds as text."""
    survey_weights = queries.weights
    if survey_weights is not None and position == survey_weights.position:
        return f"survey weights from 0 to {survey_weights.maximum:g}"
    if column.categorical:
        names = [str(column.names[code]) for code in column.display_order]
        return f"categories: {_join_first(names, MAX_LISTED_CELLS)}"
    low, high = column.format(column.low), column.format(column.high)
    kind = "dates" if column.is_datetime else "numbers"
    text = f"{kind}; values outside the bounds {low} to {high} count as the nearer bound"
    if not queries.has_tables:
        return text
    names = list(map(str, queries.cell_names(position)))
    return f"{text}; cells: {_join_first(names, MAX_LISTED_CELLS)}"


def _join_first(texts: Iterable[str], max_texts: int) -> str:
    """Join the first texts with semicolons, and add the total number if there are more."""
    listed = [*texts]
    more = f"; ... ({len(listed)} in all)" if len(listed) > max_texts else ""
    return "; ".join(listed[:max_texts]) + more


def _uncovered_costs(steps: list[tuple[str, Any]], searches: list[Any]) -> Iterator[str]:
    """Yield sentences about uses of private rows that are not covered by the learner's receipt."""
    # `transformer_` marks a `PublicFit`, which is fitted to public rows only
    unprotected = [name for name, step in steps if not hasattr(step, "transformer_")]
    if unprotected:
        yield (
            f"The receipt does not cover the steps before the learner. If {', '.join(unprotected)} "
            "learned from private rows, they are not protected."
        )
    for search in searches:
        yield (
            f"The receipt does not cover {type(search).__name__}. Its other fits and its scores "
            "may have used the same private rows."
        )


def _parameters(receipt: PrivacyReceipt) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the privacy parameters."""
    yield "ε", f"{receipt.epsilon:g}"
    yield "δ", f"{receipt.delta:g}"
    points = math.ceil(1000 * receipt.risk) / 10  # rounded up
    persons = f"two persons with equal {receipt._public_values}"
    alternatives = {"labels": "two labels", "columns": persons}
    pair = alternatives.get(receipt.protects, "two persons")
    yield "risk", f"at most {points:.1f} percentage points over guessing between {pair}"
    for name, value in (("ρ of zCDP", receipt.rho), ("μ of GDP", receipt.mu)):
        if math.isfinite(value):
            yield name, f"{value:.4g}"


def _notes(notes: dict[str, str], section: str) -> Iterator[str]:
    """Yield the note of the user for a section, if there is one."""
    if notes.get(section):
        yield notes[section]


def _describe_scores(scores: PrivateScores | None) -> Iterator[str]:
    """Yield a table of released scores with their intervals, and their cost."""
    if scores is None:
        return
    rows = []
    for metric in ("accuracy", "balanced_accuracy", "roc_auc", "brier", *RESIDUAL_METRICS):
        if metric in scores.metrics_:
            interval = scores.interval(metric)
            rows.append(
                (metric.replace("_", " "), _with_interval(getattr(scores, metric), interval))
            )
    yield (
        f"<p>Released scores on {scores.n_rows_} private rows, with intervals that hold together "
        "with probability 0.95 for the population of these rows.</p>"
    )
    yield named_table(rows)
    receipt = scores.privacy_
    yield (
        f"<p>The scores cost (ε, δ) = ({receipt.epsilon:g}, {receipt.delta:g}), which adds up with "
        "the cost of the model for everybody whose rows are used by both.</p>"
    )


def _describe_groups(scores: PrivateScores | None) -> Iterator[str]:
    """Yield a table of the released rates of each group, if there are groups."""
    if scores is None or not scores.groups_:
        return
    heads = "".join(f"<th>{head}</th>" for head in ("group", "rows (estimate)", *RATES))
    body = []
    for group, point in scores.rates_by_group().items():
        cells = [str(group), f"{point.n_rows:.0f}"]
        cells += [_with_interval(getattr(point, rate), point.intervals[rate]) for rate in RATES]
        body.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    yield (
        f"<p>Released rates by group; {escape(repr(scores.pos_label_))} is the positive label. All "
        "intervals of this table hold together with probability 0.95.</p>"
    )
    yield f"<table><tr>{heads}</tr>{''.join(body)}</table>"


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    """Return a number and its interval as text."""
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _utility_limits(estimator: Any, *, has_scores: bool) -> Iterator[str]:
    """Yield sentences about the limitations of the card's statements on errors."""
    if _predicts(estimator) and not has_scores:
        yield (
            "The card does not state the accuracy of the model, since scores on private rows are "
            "private. Measure the accuracy on public rows, or release a private score."
        )
    if hasattr(estimator, "shapes_"):
        yield (
            "Bands are two posterior standard deviations. They are not confidence intervals. The "
            "contribution of a column is not a causal effect."
        )


def _bias(receipt: PrivacyReceipt, *, is_tested: bool) -> Iterator[str]:
    """Yield sentences about groups of people for whom the results may be less accurate."""
    if is_tested:
        yield "Results may be less accurate for other groups with few rows. This is not tested."
    else:
        yield "Results may be less accurate for groups with few rows. This is not tested."
    if receipt.n_omitted:
        n_rows = receipt.n_private + receipt.n_omitted
        yield (
            f"{receipt.n_omitted} of {n_rows} private rows were left out, because their persons "
            "have more rows than max_rows_per_group. The kept rows were chosen at random, and "
            "persons with many rows are under-represented."
        )
    if receipt.n_public:
        yield (
            "If the public rows differ slightly, or only in combinations of columns, this is not "
            "noticed."
        )


def _threats(receipt: PrivacyReceipt) -> Iterator[str]:
    """Yield sentences about trust assumptions and about what an attacker may know."""
    yield (
        "Central model: the person who ran the fit had access to all rows and is trusted. The "
        "guarantee holds against anybody who sees the result, even if they know all other rows."
    )
    if not receipt.secure_randomness:
        yield "The randomness was seeded: anybody who knows the seed can remove the noise."
    if receipt.for_tests:
        yield "The budget of this fit is for tests and provides no protection."


def _public_exposure(receipt: PrivacyReceipt) -> Iterator[str]:
    """Yield a sentence about the public rows, if there are any."""
    if receipt.n_public:
        yield (
            f"The {receipt.n_public} public rows are not protected. All names of categories are "
            "values of public rows or declared types, so texts that are displayed are public "
            "values."
        )


def _figures(estimator: Any) -> Iterator[tuple[Any, str]]:
    """Yield the figures of an estimator as pairs (figure, alternative text)."""
    inner = inner_estimator(estimator)
    if hasattr(estimator, "shapes_"):
        if estimator.pairs_ or any(shape.deviations.any() for shape in estimator.shapes_):
            labels = list(getattr(estimator, "classes_", []))
            # one figure for a regressor and for two labels
            targets = labels if len(labels) > 2 else [None]
            for target in targets if len(targets) <= MAX_LABELS_DRAWN else []:
                display = ShapeDisplay.from_estimator(estimator, target=target)
                yield display.figure_, "Contributions of columns and pairs of columns"
    elif hasattr(estimator, "queries_"):
        yield from _release_figures(estimator)
    elif inner is not None:
        yield from _figures(inner)


def _release_figures(release: Any) -> Iterator[tuple[Any, str]]:
    """Yield the released CDF of a single numeric column, or marginals of the first columns."""
    if release.n_features_in_ == 1 and release._released.only_column is not None:
        yield CDFDisplay.from_estimator(release).figure_, "Released distribution function"
        return
    for column in range(min(MAX_PANELS, release.n_features_in_)):
        try:
            figure = MarginalDisplay.from_estimator(release, column).figure_
        except ValueError:  # some classes of queries have no marginals
            return
        yield figure, "Released marginal of a column"


def _image(figure: Any, text: str) -> str:
    """Return a figure as an HTML image with an alternative text, and close the figure."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    file = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "skpublicdp"}):  # for a reproducible page
        figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    encoded = b64encode(file.getvalue()).decode()
    return f'<p><img alt="{escape(text)}" src="data:image/svg+xml;base64,{encoded}"></p>'
