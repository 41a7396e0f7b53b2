"""The proof pages: their hashes are those of the current code, and each spending has a proof."""

import pytest

from tests.proofs import PAGES, ROOT, hash_of, sign, signatures, spending_functions

pytestmark = pytest.mark.once


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_signatures_are_those_of_the_current_code(page):
    signed = signatures(page)
    assert signed, f"{page.name} must list the functions that it proves"
    stale = [name for name, signature in signed.items() if hash_of(name) != signature]
    assert not stale, (
        f"{', '.join(stale)} changed: read docs/proofs/{page.name} again, correct it, then sign it "
        f"with python -m tests.proofs docs/proofs/{page.name}"
    )


def test_every_call_of_a_mechanism_has_a_signed_proof():
    signed = {name for page in PAGES for name in signatures(page)}
    unsigned = [
        name
        for name in spending_functions()
        if not any(name == proved or name.startswith(f"{proved}.") for proved in signed)
    ]
    assert unsigned == []


def test_spending_functions_are_found():
    assert "skpublicdp.rules.cover_search.RuleSearch.draw" in spending_functions()


def write_text(path, body):
    path.write_text(body, encoding="utf-8")
    return path


BEFORE = '''from functools import cache, lru_cache

@cache
def noisy(x):
    """Docstring."""
    return x + 1  # why
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def hash_in(name, body):
        write_text(tmp_path / f"{name}.py", body)
        return hash_of(f"{name}.noisy")

    return hash_in


def test_comments_may_change_and_code_may_not(module):
    before = module("code_before", BEFORE)
    assert (
        module("code_comments", BEFORE.replace("Docstring", "Other text").replace("# why", ""))
        == before
    )
    assert module("code_moved", "\n\nunrelated = 1\n" + BEFORE) == before
    for change in (("x + 1", "x + 2"), ("@cache", "@lru_cache"), ("noisy(x)", "noisy(x, y)")):
        assert module(f"code_{abs(hash(change))}", BEFORE.replace(*change)) != before


def test_signed_pages_have_current_hashes(tmp_path):
    name = "skpublicdp.rules.cover_search.search_cover"
    page = write_text(tmp_path / "page.md", f"# A page\n\n## Signed code\n\n- `{name}` unsigned\n")
    sign(page)
    assert signatures(page) == {name: hash_of(name)}


def test_the_command_is_documented():
    assert "tests.proofs" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
