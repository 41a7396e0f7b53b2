"""Ties each page of proofs to the code it is about.

A page ends with a list of modules, classes and functions and a hash of each one's source. After a
change of the code, read the proof again, mend what no longer holds, and sign it:
``python -m tests.proofs docs/proofs/selection.md``.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "skpublicdp"
PAGES = sorted(path for path in (ROOT / "docs" / "proofs").glob("*.md") if path.stem != "index")
HEADING = "## Signed code"
_Named = ast.FunctionDef | ast.ClassDef
_LINE = re.compile(r"^- `(?P<name>[\w.]+)` (?P<hash>[0-9a-f]{12}|unsigned)$", re.MULTILINE)


def signatures(page: Path) -> dict[str, str]:
    """Return the signed names of a page, each with its hash.

    >>> len(signatures(ROOT / "docs/proofs/selection.md")) > 5
    True
    """
    _, found, listed = page.read_text(encoding="utf-8").partition(HEADING)
    return {match["name"]: match["hash"] for match in _LINE.finditer(listed)} if found else {}


def sign(page: Path) -> None:
    """Write the hashes of today's code into a page."""
    text = page.read_text(encoding="utf-8")
    page.write_text(_LINE.sub(lambda m: f"- `{m['name']}` {hash_of(m['name'])}", text), "utf-8")


def hash_of(name: str) -> str:
    """Return the hash of what a module, class or function does: its source without words about it.

    Comments, docstrings and empty lines may change without a new reading of the proof.
    """
    path, node = _find(name)
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for part in ast.walk(node):
        if isinstance(part, ast.Module | _Named) and ast.get_docstring(part):
            words = part.body[0]
            lines[words.lineno - 1 : words.end_lineno] = [""] * (
                words.end_lineno - words.lineno + 1
            )
    if isinstance(node, _Named):
        start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        lines = lines[start - 1 : node.end_lineno]
    kept = [line.rstrip() for line in lines if line.strip()]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


def spenders() -> list[str]:
    """Name each function that asks a ledger for a private answer; audits only listen in."""
    names = []
    for path in sorted(set(PACKAGE.rglob("*.py")) - set((PACKAGE / "audit").rglob("*.py"))):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        names += [f"{module}.{name}" for name in _spending(ast.parse(path.read_text("utf-8")), "")]
    return names


def _spending(node: ast.AST, prefix: str) -> list[str]:
    names = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _Named):
            continue
        inner = _spending(child, f"{prefix}{child.name}.")
        own = isinstance(child, ast.FunctionDef) and any(
            keyword.arg == "proof" for call in ast.walk(child) if isinstance(call, ast.Call)
            for keyword in call.keywords
        )  # fmt: skip
        names += [f"{prefix}{child.name}"] if own else inner
    return names


def _find(name: str) -> tuple[Path, ast.AST]:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        path = Path(module.__file__)
        node: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
        for part in parts[length:]:
            node = next(
                child
                for child in ast.iter_child_nodes(node)
                if isinstance(child, _Named) and child.name == part
            )
        return path, node
    raise LookupError(f"{name} is no module, class or function")


if __name__ == "__main__":
    for given in sys.argv[1:]:
        sign(Path(given))
