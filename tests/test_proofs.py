import pytest

from tests.proofs import PAGES, ROOT, hash_of, sign, signatures, spenders

pytestmark = pytest.mark.once


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_is_what_the_proof_was_read_for(page):
    signed = signatures(page)
    assert signed, f"{page.name} must list the functions that it proves"
    stale = [name for name, known in signed.items() if hash_of(name) != known]
    assert not stale, (
        f"{', '.join(stale)} changed: read docs/proofs/{page.name} again, mend it, then sign it by "
        f"python -m tests.proofs docs/proofs/{page.name}"
    )


def test_every_private_answer_has_a_signed_proof():
    signed = {name for page in PAGES for name in signatures(page)}
    without = [
        name
        for name in spenders()
        if not any(name == one or name.startswith(f"{one}.") for one in signed)
    ]
    assert without == []


def test_spenders_are_found():
    assert "skpublicdp.rules.cover_search.search_cover" in spenders()


def written(path, body):
    path.write_text(body, encoding="utf-8")
    return path


BEFORE = '''from functools import cache, lru_cache

@cache
def noisy(x):
    """Words."""
    return x + 1  # why
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def hash_in(name, body):
        written(tmp_path / f"{name}.py", body)
        return hash_of(f"{name}.noisy")

    return hash_in


def test_words_may_change_and_code_may_not(module):
    before = module("code_before", BEFORE)
    assert module("code_words", BEFORE.replace("Words", "Others").replace("# why", "")) == before
    assert module("code_moved", "\n\nelse_where = 1\n" + BEFORE) == before
    for changed in (("x + 1", "x + 2"), ("@cache", "@lru_cache"), ("noisy(x)", "noisy(x, y)")):
        assert module(f"code_{abs(hash(changed))}", BEFORE.replace(*changed)) != before


def test_signing_writes_what_is_read(tmp_path):
    name = "skpublicdp.rules.cover_search.search_cover"
    page = written(tmp_path / "page.md", f"# A page\n\n## Signed code\n\n- `{name}` unsigned\n")
    sign(page)
    assert signatures(page) == {name: hash_of(name)}


def test_the_command_is_documented():
    assert "tests.proofs" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
