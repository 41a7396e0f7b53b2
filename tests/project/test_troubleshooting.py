"""The page of troubleshooting has an entry for each error and warning, and for nothing else.

Messages are read off the source: what is given to an exception or a warning, with "…" for what is
filled in. An entry quotes the beginning of one. All of them are listed in tests/messages.txt, the
only place that pins their wording, wherever in the package they are. After a change of a message,
look at its entry, and write the list anew: ``python -m tests.project.test_troubleshooting``.
"""

import ast
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import skpublicdp
from skpublicdp import SemiPrivateClassifier, exceptions

PACKAGE = Path(skpublicdp.__file__).parent
PAGE = PACKAGE.parent / "docs" / "user_guide" / "troubleshooting.md"
LISTED = PACKAGE.parent / "tests" / "messages.txt"
GAP = "…"

# what only code of one's own around the inside, or a fault of the package, can meet: the
# section "Faults of the package" is the entry of all of them
FAULTS = {"AssertionError", "TooManyOutcomesError", "IncomparableError"}
INSIDE = {
    "accounting/cap.py",
    "accounting/plans.py",
    "audit/sensitivity.py",
    "audit/event_loss.py",
    "label_boost/labelings.py",
    "mechanisms/families.py",
    "mechanisms/exponential.py",
    "model_selection/family.py",
}
# two hand on a message that was made elsewhere, three are caught before anybody sees them
SILENT = {
    ("base_learner.py", GAP),
    ("exceptions.py", GAP),
    ("data/value_conversion.py", "complex"),
    ("data/value_conversion.py", "no date"),
    ("data/dates.py", "the column has no time zone"),
}


MORE = "(larger|higher|raise|increase|double)"
PRICE = "(ε|δ|epsilon|delta|cap|budget)"


class Source:
    """The texts, functions and imports of one module."""

    def __init__(self, code):
        self.tree = ast.parse(code)
        self.texts, self.functions, self.imports = {}, {}, {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp):
                    self.texts.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = node.module, alias.name


@cache
def sources():
    """Return all modules of the package by name, read when the first test asks for them."""
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): Source(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def said(node, source, depth=0):
    """Return all that an expression may say, with gaps where that is not in the source."""
    if depth > 6:
        return [GAP]
    deeper = depth + 1
    if isinstance(node, ast.Constant):
        return [node.value if isinstance(node.value, str) else GAP]
    if isinstance(node, ast.FormattedValue):
        return said(node.value, source, deeper)
    if isinstance(node, ast.IfExp):
        return said(node.body, source, deeper) + said(node.orelse, source, deeper)
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    ):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node.left, node.right]
        return ["".join(chosen) for chosen in product(*(said(p, source, deeper) for p in parts))]
    if isinstance(node, ast.Name):
        home, name = found_at(node.id, source)
        texts = [text for value in home.texts.get(name, []) for text in said(value, home, deeper)]
        return texts or [GAP]
    if isinstance(node, ast.Call):
        return returned(node, source, deeper)
    return [GAP]


def found_at(name, source):
    """Return the module where an imported name is at home, and its name there."""
    module, original = source.imports.get(name, ("", name))
    return sources().get(module, source), original


def returned(call, source, depth):
    """Return what a function that makes a message may return."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "format":
        return [re.sub(r"{[^}]*}", GAP, text) for text in said(call.func.value, source, depth)]
    home, name = found_at(name, source)
    if name not in home.functions:  # a method of another module, if only one has such a one
        others = [other for other in sources().values() if name in other.functions]
        home = others[0] if len(others) == 1 else home
    within = ast.walk(home.functions[name]) if name in home.functions else ()
    values = [part.value for part in within if isinstance(part, ast.Return) and part.value]
    return [text for value in values for text in said(value, home, depth)] or [GAP]


def plain(text):
    """Return a message in one line, with one gap where several meet."""
    return re.sub(r"(…\s*)+…", GAP, re.sub(r"\s+", " ", text)).strip()


def messages(source):
    """Return (class or function called, line, message) of each error and warning that is made."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and node.args:
            maker = ast.unparse(node.func)
            if maker.endswith("Error") or maker in ("type(error)", "warn", "warnings.warn"):
                texts = said(node.args[0], source)
                found += [(maker, node.lineno, plain(text)) for text in dict.fromkeys(texts)]
    return found


@cache
def all_messages():
    """Return (file, line, message) of those that somebody who uses the package may meet."""
    found = []
    for name, source in sources().items():
        file = name.removeprefix("skpublicdp.").replace(".", "/") + ".py"
        for maker, line, text in messages(source):
            if maker not in FAULTS and file not in INSIDE and (file, text) not in SILENT:
                found.append((file, line, text))
    return found


def entries():
    """Return the quotes of the page, and what it says of each, in order."""
    page = PAGE.read_text(encoding="utf-8").split("## From scikit-learn")[0]
    return quoted(page)


def quoted(page):
    found = re.findall(r"^((?:- `[^\n]+`\n)+)\n(.+?)(?=\n\n|\Z)", page, re.M | re.S)
    return [
        (quote, " ".join(advice.split()))
        for quotes, advice in found
        for quote in re.findall(r"^- `(.+)`$", quotes, re.M)
    ]


def begins(message, quote):
    return message.startswith(quote.rstrip(GAP + " "))


def all_texts():
    """Return the texts of all messages, sorted, one a line."""
    return "".join(f"{text}\n" for text in sorted({text for _, _, text in all_messages()}))


def test_the_wording_is_the_listed_one():
    now, listed = (set(text.splitlines()) for text in (all_texts(), LISTED.read_text("utf-8")))
    assert now == listed, "Does the page still fit? Then write tests/messages.txt anew."


def test_each_message_has_an_entry():
    quotes = [quote for quote, _ in entries()]
    lacking = [
        f"{file}:{line} {text}"
        for file, line, text in all_messages()
        if not any(begins(text, quote) for quote in quotes)
    ]
    assert not lacking, "docs/user_guide/troubleshooting.md lacks:\n" + "\n".join(lacking)


def test_each_entry_is_of_a_message():
    texts = [text for _, _, text in all_messages()]
    stale = [quote for quote, _ in entries() if not any(begins(text, quote) for text in texts)]
    assert not stale


def test_an_entry_stands_once_and_quotes_enough_to_be_told_from_others():
    quotes = [quote for quote, _ in entries()]
    assert len(set(quotes)) == len(quotes)
    assert not [quote for quote in quotes if len(re.sub(r"\W", "", quote)) < 9]


def test_each_entry_says_what_to_do_and_none_sells_privacy():
    for quote, advice in entries():
        assert "**Fix:**" in advice, quote
        fix = advice.split("**Fix:**")[-1]
        assert not re.search(rf"\b{MORE}\b[^.;]*[^\w]{PRICE}", fix), quote


def test_each_error_and_warning_with_a_name_of_its_own_is_named():
    page = PAGE.read_text(encoding="utf-8")
    names = [name for name, kind in vars(exceptions).items() if isinstance(kind, type)]
    assert len(names) > 8
    assert not [name for name in names if name not in page]


def test_messages_of_other_makers_are_as_quoted():
    page = PAGE.read_text(encoding="utf-8").split("## From scikit-learn")[1]
    quotes = [quote for quote, _ in quoted(page)]
    X, y = np.arange(12.0).reshape(4, 3), [0, 1, 0, 1]
    fitted = SemiPrivateClassifier(bounds=(0, 12), random_state=0)
    with pytest.warns(exceptions.NoPublicDataWarning):
        fitted.fit(X, y)
    heard = []
    for error, provoke in (
        (ValueError, lambda: SemiPrivateClassifier(epsilon=-1).fit(X, y)),
        (NotFittedError, lambda: SemiPrivateClassifier().predict(X)),
        (ValueError, lambda: fitted.predict(X[:, :2])),
    ):
        with pytest.raises(error) as caught:
            provoke()
        heard.append(str(caught.value))
    for quote, message in zip(quotes, heard, strict=True):
        assert re.match(".+?".join(map(re.escape, quote.split(GAP))), message)


def test_messages_are_read_off_the_source():
    source = Source(
        """
LOST = "The file {} is lost."
def _told(name):
    if name:
        return f"{name} is told"
    return "nothing is told"
def f(x, error):
    warn("odd " + ("one" if x else f"{x} two"), UserWarning)
    raise KeyError(LOST.format(x))
    return ValueError(_told(x), 1)
    raise type(error)(f"{x} {x}: {error}") from None
"""
    )
    assert sorted((maker, text) for maker, _, text in messages(source)) == [
        ("KeyError", "The file … is lost."),
        ("ValueError", "nothing is told"),
        ("ValueError", "… is told"),
        ("type(error)", "…: …"),
        ("warn", "odd one"),
        ("warn", "odd … two"),
    ]


def test_no_message_is_nothing_but_a_gap():
    assert not [place for *place, text in all_messages() if not re.search(r"\w", text)]


if __name__ == "__main__":
    LISTED.write_text(all_texts(), "utf-8")
