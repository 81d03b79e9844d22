"""The words of the pages. The checkers are in `words.py`; each one here also meets a planted violation."""

from pathlib import Path

import pytest

from tests.checks import words
from tests.checks.tidy import ROOT, files, name_of

PLAIN = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs", "tests")
"""Pages in plain words, with live links."""
GENERATED = ("docs/generated/conformance.md", "docs/generated/proved.md")
"""Their words are those of transcripts and specifications."""


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def pages() -> list[Path]:
    return [path for path in files(".md") if name_of(path).startswith(PLAIN)]


def report(breaches: list[str]) -> str:
    return f"{len(breaches)} breaches\n" + "\n".join(sorted(breaches))


def test_no_page_uses_a_banned_idiom() -> None:
    breaches = [
        breach
        for path in pages()
        if name_of(path) not in GENERATED
        for breach in words.breaches(name_of(path), words.prose_of_page(read(path)), words.IDIOMS)
    ]
    assert not breaches, report(breaches)


def test_each_term_has_one_spelling() -> None:
    breaches = [
        breach
        for path in pages()
        if name_of(path) not in GENERATED
        for breach in words.breaches(name_of(path), words.prose_of_page(read(path)), words.SPELLINGS)
    ]
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted",
    [
        "The client is told the address.",
        "A member of which\nnobody knows.",
        "Whoever joins first leads.",
        "This cannot be had.",
        "It lapses.",
    ],
)
def test_a_planted_idiom_is_found(planted: str) -> None:
    assert list(words.breaches("planted.md", words.prose_of_page(planted), words.IDIOMS))


@pytest.mark.parametrize("planted", ["in lock-step", "A hand-over of a partition", "after a time-out"])
def test_a_planted_spelling_is_found(planted: str) -> None:
    assert list(words.breaches("planted.md", planted, words.SPELLINGS))


def test_code_and_addresses_are_no_prose() -> None:
    text = "Run `nobody`, see [x](whoever.md).\n\n```sh\necho nobody\n```\n<!-- not run: nobody has it -->\n"
    assert not list(words.breaches("planted.md", words.prose_of_page(text), words.IDIOMS))


def test_a_breach_names_the_line_and_what_to_write() -> None:
    assert list(words.breaches("planted.md", "One.\n\nNobody leads.\n", words.IDIOMS)) == [
        "planted.md:3: `Nobody`: name who does not: no client, no member, no test"
    ]


# ---- links


def test_every_link_leads_to_a_file_and_an_anchor() -> None:
    breaches = [breach for path in pages() for breach in words.dead_links(name_of(path), read(path), ROOT)]
    assert not breaches, report(breaches)


@pytest.mark.parametrize("planted", ["[x](nowhere.md)", "[x](#nowhere)", "[x](README.md#nowhere)"])
def test_a_planted_dead_link_is_found(planted: str) -> None:
    assert list(words.dead_links("planted.md", "# A title\n" + planted, ROOT))


def test_live_links_are_left_alone() -> None:
    text = (
        "# A `title`, and more\n\n[a](#a-title-and-more) [b](docs/protocol.md) [c](https://example.org/x#y) `[d](e)`\n"
    )
    assert not list(words.dead_links("planted.md", text, ROOT))
