"""References of receipts as HTML: titles and links of proof pages."""

from __future__ import annotations

import re
from html import escape

DOCUMENTATION_URL = ""
"""Address of the published documentation with a final slash; empty until it is published."""

PROOF_TITLES = {
    "generic_learner": "Learning from unlabelled private rows",
    "label_boost": "Relabelling private rows",
    "marginals": "Marginals",
    "moments": "Boosting: noisy histograms and drawn trees",
    "multiplicative_weights": "Multiplicative weights",
    "prefix_sums": "Prefix sums of one column",
    "scores": "Scores",
    "search": "A search for one ε",
    "selection": "The exact draw",
    "subsampling": "Active learning by subsampling",
}
"""Title of each page under docs/proofs that a receipt refers to."""

_PROOF_PAGE = re.compile(r"docs/proofs/(\w+)\.md")


def reference_html(reference: str) -> str:
    """Return the reference of a mechanism as HTML, with titles in place of paths of proof pages.

    Titles are links if `DOCUMENTATION_URL` is set. All other text is only escaped.

    Examples
    --------
    >>> reference_html("McSherry and Talwar (2007), Theorem 6; docs/proofs/selection.md")
    'McSherry and Talwar (2007), Theorem 6; proof page “The exact draw”'
    """
    return _PROOF_PAGE.sub(_page_html, escape(reference))


def _page_html(match: re.Match[str]) -> str:
    """Return the HTML for a matched path of a proof page: its title, linked if it is published."""
    page = match[1]
    title = escape(PROOF_TITLES.get(page, page))
    if DOCUMENTATION_URL:
        address = escape(f"{DOCUMENTATION_URL}proofs/{page}.html")
        title = f'<a href="{address}">{title}</a>'
    return f"proof page “{title}”"
