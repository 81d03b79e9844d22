"""The words of the pages and programs. The checkers are in `words.py`; each also meets a planted violation."""

from pathlib import Path

import pytest

from tests.checks import words
from tests.checks.tidy import ROOT, files, name_of

PLAIN = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs", "tests")
"""Pages in plain words, with live links."""
ROW_NAMES = "python/rota/conform/columns.py"
"""Its strings are names of rows, which recordings of other brokers have as keys."""
WORD_LISTS = ("tests/checks/words.py", "tests/checks/test_words.py")
"""They have the banned idioms themselves."""


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
        for breach in words.breaches(name_of(path), words.prose_of_page(read(path)), words.IDIOMS)
    ]
    assert not breaches, report(breaches)


def test_each_term_has_one_spelling() -> None:
    breaches = [
        breach
        for path in pages()
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


# ---- programs


def programs() -> list[Path]:
    return [path for path in files(".py", ".pyi") if name_of(path) not in WORD_LISTS]


def test_no_program_uses_a_banned_idiom_or_a_fragment_as_a_docstring() -> None:
    breaches = [
        breach
        for path in programs()
        for breach in words.python_breaches(
            name_of(path),
            read(path),
            with_messages=name_of(path).startswith("python/") and name_of(path) != ROW_NAMES,
        )
    ]
    assert not breaches, report(breaches)


def test_sentences_of_help_are_short() -> None:
    breaches = [breach for path in programs() for breach in words.help_breaches(name_of(path), read(path))]
    assert not breaches, report(breaches)


def test_no_comment_or_message_of_a_crate_uses_a_banned_idiom() -> None:
    breaches = [
        breach for path in files(".rs", under=["rust"]) for breach in words.rust_breaches(name_of(path), read(path))
    ]
    assert not breaches, report(breaches)


def test_the_page_uses_no_banned_idiom() -> None:
    breaches = [
        breach
        for path in files(".js", ".html", ".css", under=["python/rota"])
        for breach in words.breaches(name_of(path), read(path), words.IDIOMS)
    ]
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted",
    [
        '"""Whoever joins first leads."""\n',
        "# The client is told\n# of nothing.\n",
        'class A:\n    x: int\n    """Its id."""\n',
        'def f():\n    """Of a column."""\n',
        'raise ValueError("rota_server cannot be had")\n',
        'raise ValueError(f"nobody got partition {number}")\n',
        "x = 1  # in lock-step\n",
    ],
)
def test_a_planted_breach_in_python_is_found(planted: str) -> None:
    assert list(words.python_breaches("planted.py", planted, with_messages=True))


@pytest.mark.parametrize(
    "sound",
    [
        'x = "nobody"\n',
        "# `nobody` is a name\n",
        '"""Its id is the one that the coordinator generated."""\n',
        "nobody = 1\n",
    ],
)
def test_names_and_whole_sentences_are_left_alone(sound: str) -> None:
    assert not list(words.python_breaches("sound.py", sound, with_messages=True))


def test_a_phrase_over_two_comment_lines_is_found_on_its_line() -> None:
    source = "x = 1\n\n# The client is\n# told of it.\n"
    assert [breach.split(": ")[0] for breach in words.python_breaches("p.py", source, with_messages=False)] == [
        "p.py:3", "p.py:4",
    ]  # fmt: skip


def test_a_planted_long_sentence_of_help_is_found() -> None:
    long = " ".join(["word"] * (words.HELP_WORDS_MAX + 1))
    assert list(words.help_breaches("planted.py", f'Option(help="Short. {long}.")\n'))
    assert not list(words.help_breaches("planted.py", f'Option(help="Short. {long[5:]}.")\n'))


@pytest.mark.parametrize(
    "planted",
    [
        "/// Whoever asks\nfn f() {}\n",
        "//! What comes\n//! of it.\n",
        "    // nobody waits\n",
        'f("a member was told {x}")\n',
    ],
)
def test_a_planted_breach_in_rust_is_found(planted: str) -> None:
    assert list(words.rust_breaches("planted.rs", planted))


def test_rust_code_is_no_prose() -> None:
    assert not list(words.rust_breaches("sound.rs", 'let nobody = ("nobody", "a {whom}"); // `nobody` is a name\n'))


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
