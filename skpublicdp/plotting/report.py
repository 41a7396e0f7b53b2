"""report: a model card of a fitted estimator as one HTML page."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from skpublicdp import __version__
from skpublicdp._internal.html_repr import (
    describe_fitted,
    fit_notes,
    inner_estimator,
    public_settings,
    unwrap_pipeline,
)
from skpublicdp.accounting import PrivacyReceipt
from skpublicdp.plotting.cdf import CDFDisplay
from skpublicdp.plotting.marginal import MarginalDisplay
from skpublicdp.plotting.shape import ShapeDisplay
from skpublicdp.plotting.shape_selection import MAX_PANELS
from skpublicdp.plotting.style import check_matplotlib

WHERE_PROOFS_ARE = (
    f"Proof pages are in the documentation of skpublicdp {__version__}, in the section Proofs. "
    "The source archive of this version contains them in its folder docs/proofs. "
    "Neither proofs nor code have been reviewed by anyone outside the project."
)

MAX_LABELS_DRAWN = 4
"""Maximum number of labels whose pictures are drawn."""

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


def report(estimator: Any, path: str | os.PathLike[str]) -> Path:
    """Write a model card as one self-contained HTML page.

    It says what was learned, with pictures, what that cost in privacy, what is promised and what
    is not. Everything in it was released with differential privacy, is of public rows or is a
    setting; the seed, which nobody may know, is left out. What the rows are, who may use the model
    and how good it is, it cannot know: say that beside it.

    Parameters
    ----------
    estimator : estimator
        A fitted one of this package with a receipt, `privacy_`; or a pipeline or a search around
        one. The card names the steps before it, and what its receipt leaves out.
    path : str or path-like
        File to be written.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    TypeError
        If the estimator has no receipt.
    sklearn.exceptions.NotFittedError
        If it is not fitted.

    See Also
    --------
    ShapeDisplay : The pictures of boosting.

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
    given = type(estimator).__name__
    estimator, steps, searches = unwrap_pipeline(estimator)
    receipt = getattr(estimator, "privacy_", None)
    if receipt is None:
        raise TypeError(
            "report must be given a fitted estimator with a receipt, privacy_, or a pipeline or a "
            f"search with a best_estimator_ around one; got {given}."
        )
    name = escape(type(estimator).__name__)
    notes = [*fit_notes(estimator)]
    parts = [
        f"<h1>{name}</h1>",
        f"<p>A model card, written by skpublicdp {__version__}. "
        f"{receipt.n_private} private rows, {receipt.n_public} public rows; "
        f"(ε, δ) = ({receipt.epsilon:g}, {receipt.delta:g}).</p>",
        f"<p class='key'>{escape(receipt.in_words())}</p>",
        *_before(steps),
        "<h2>What was learned</h2>",
        *(_image(figure, text) for figure, text in _pictures(estimator)),
        f"<pre>{escape(describe_fitted(estimator) or SYNTHETIC_ROWS)}</pre>",
        "<h2>What it cost</h2>",
        receipt._repr_html_(),
        f"<p>{escape(WHERE_PROOFS_ARE)}</p>",
        "<h2>What is known of it</h2>",
        _table([*notes, *_certificate(estimator)]) or "<p>Nothing besides.</p>",
        "<h2>What it does not say</h2>",
        "<ul>",
        *(f"<li>{escape(line)}</li>" for line in _left_out(steps, searches)),
        *(f"<li>{escape(line)}</li>" for line in _limitations(estimator, receipt)),
        "</ul>",
        "<h2>Settings</h2>",
        _table([*public_settings(estimator)]),
    ]
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Model card: {name}</title><style>{CSS}</style></head>\n<body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )
    path = Path(path)
    path.write_text(page, encoding="utf-8")
    return path


def _before(steps: list[tuple[str, Any]]) -> Iterator[str]:
    """Yield descriptions of the pipeline steps before the learner."""
    if steps:
        yield "<h2>Steps before it</h2>"
        yield _table([(name, describe_fitted(step) or type(step).__name__) for name, step in steps])


def _left_out(steps: list[tuple[str, Any]], searches: list[Any]) -> Iterator[str]:
    """Yield privacy costs around a learner that its receipt does not cover."""
    others = [name for name, step in steps if not hasattr(step, "transformer_")]
    if others:
        yield (
            f"The receipt does not cover the steps before: if {', '.join(others)} learned from "
            "private rows, that is not protected."
        )
    for search in searches:
        yield (
            f"The receipt does not cover {type(search).__name__}, whose other fits and whose scores"
            " may have been of the same private rows."
        )


def _table(rows: list[tuple[str, str]]) -> str:
    lines = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f"<table>{''.join(lines)}</table>" if rows else ""


def _certificate(estimator: Any) -> Iterator[tuple[str, str]]:
    certificate = getattr(estimator, "certificate_", None)
    if certificate is not None:
        yield "certificate of the draw", str(certificate)


def _limitations(estimator: Any, receipt: PrivacyReceipt) -> Iterator[str]:
    """Yield the limitations that readers should know."""
    if not receipt.secure_randomness:
        yield "The randomness was seeded: whoever knows the seed can undo the protection."
    if receipt.entry is None:
        yield (
            "The guarantee is of this fit alone. Other fits, searches and scores on the same rows "
            "add their own."
        )
    yield f"The unit of protection is: {receipt.unit}. Facts about all rows are not protected."
    for assumption in receipt.assumptions:
        yield f"It is taken for granted that {assumption}."
    if is_classifier(estimator) or is_regressor(estimator):
        yield (
            "How good the model is, is not on this card: scores on private rows are private. "
            "Measure it on public rows, or pay for a score."
        )
    if hasattr(estimator, "shapes_"):
        yield (
            "Bands are two standard deviations of what is believed, with a prior: no confidence "
            "intervals. What a column adds is no cause of anything."
        )
    if receipt.n_public:
        yield (
            "The public rows are not protected. Drift that is small, or of several columns at "
            "once, goes unseen."
        )
    yield "People who are unlike those in the rows may be served worse, and nothing here shows it."


def _pictures(estimator: Any) -> Iterator[tuple[Any, str]]:
    """Yield (figure, alternative text)."""
    inner = inner_estimator(estimator)
    if hasattr(estimator, "shapes_"):
        if estimator.pairs_ or any(shape.deviations.any() for shape in estimator.shapes_):
            labels = list(getattr(estimator, "classes_", [None, None]))
            targets = [None] if len(labels) == 2 else labels
            for target in targets if len(targets) <= MAX_LABELS_DRAWN else []:
                yield _drawn(ShapeDisplay, estimator, target=target), "What columns and pairs add"
    elif hasattr(estimator, "queries_"):
        yield from _of_release(estimator)
    elif inner is not None:
        yield from _pictures(inner)


def _of_release(release: Any) -> Iterator[tuple[Any, str]]:
    if release.n_features_in_ == 1 and release._released.only_column is not None:
        yield _drawn(CDFDisplay, release), "The released distribution function"
        return
    for column in range(min(MAX_PANELS, release.n_features_in_)):
        try:
            figure = _drawn(MarginalDisplay, release, column)
        except ValueError:  # of some queries there is no share of cells
            return
        yield figure, "Released shares of a column"


def _drawn(display: Any, *args: Any, **kwargs: Any) -> Any:
    return display.from_estimator(*args, **kwargs).figure_


def _image(figure: Any, text: str) -> str:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    file = BytesIO()
    with mpl.rc_context({"svg.hashsalt": "skpublicdp"}):  # the same page whenever it is written
        figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    data = b64encode(file.getvalue()).decode()
    return f'<p><img alt="{escape(text)}" src="data:image/svg+xml;base64,{data}"></p>'
