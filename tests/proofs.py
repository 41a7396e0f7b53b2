"""Signatures of the proof pages: hashes of the code that each page is about.

A page ends with a list of modules, classes and functions, with a hash of the source of each. After
a change of the code, review the proof, correct it if necessary, and sign it again:
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

from tests import ROOT

PACKAGE = ROOT / "skpublicdp"
WITHOUT_CODE = {"index", "map"}
PAGES = sorted(
    path for path in (ROOT / "docs" / "proofs").glob("*.md") if path.stem not in WITHOUT_CODE
)
HEADING = "## Signed code"
_Definition = ast.FunctionDef | ast.ClassDef
_LINE = re.compile(r"^- `(?P<name>[\w.]+)` (?P<hash>[0-9a-f]{12}|unsigned)$", re.MULTILINE)


def signatures(page: Path) -> dict[str, str]:
    """Return the hashes of a page, by signed name.

    >>> len(signatures(ROOT / "docs/proofs/selection.md")) > 5
    True
    """
    _, heading, lines = page.read_text(encoding="utf-8").partition(HEADING)
    return {match["name"]: match["hash"] for match in _LINE.finditer(lines)} if heading else {}


def sign(page: Path) -> None:
    """Write the hashes of the current code into a page."""
    text = page.read_text(encoding="utf-8")
    page.write_text(_LINE.sub(lambda m: f"- `{m['name']}` {hash_of(m['name'])}", text), "utf-8")


def hash_of(name: str) -> str:
    """Return the hash of the source of a module, class or function.

    Comments, docstrings and empty lines are left out: they may change without a new signature.
    """
    path, node = _find(name)
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for inner in ast.walk(node):
        if isinstance(inner, ast.Module | _Definition) and ast.get_docstring(inner):
            docstring = inner.body[0]
            n_lines = docstring.end_lineno - docstring.lineno + 1
            lines[docstring.lineno - 1 : docstring.end_lineno] = [""] * n_lines
    if isinstance(node, _Definition):
        start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        lines = lines[start - 1 : node.end_lineno]
    code = [line.rstrip() for line in lines if line.strip()]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:12]


def spending_functions() -> list[str]:
    """Return the names of all functions that call mechanisms of a ledger, except in audits."""
    names = []
    for path in sorted(set(PACKAGE.rglob("*.py")) - set((PACKAGE / "audit").rglob("*.py"))):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        names += [f"{module}.{name}" for name in _spending(ast.parse(path.read_text("utf-8")), "")]
    return names


def _spending(node: ast.AST, prefix: str) -> list[str]:
    """Return the outermost functions below a node that pass `proof` to a call."""
    names = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _Definition):
            continue
        inner = _spending(child, f"{prefix}{child.name}.")
        calls = [node for node in ast.walk(child) if isinstance(node, ast.Call)]
        keywords = {keyword.arg for call in calls for keyword in call.keywords}
        is_spending = isinstance(child, ast.FunctionDef) and "proof" in keywords
        names += [f"{prefix}{child.name}"] if is_spending else inner
    return names


def _find(name: str) -> tuple[Path, ast.AST]:
    """Return the file and the syntax node of a module, class or function."""
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
                if isinstance(child, _Definition) and child.name == part
            )
        return path, node
    raise LookupError(f"{name} is not a module, class or function")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sign(Path(argument))
