"""What a mistyped command or option is answered with: the name that was meant, or nothing that misleads."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from rota import exits
from rota.cli import COMMANDS, app
from rota.misuse import MEANT, OPTIONS_MEANT

from . import conventions


def said(words: str) -> str:
    ended = CliRunner().invoke(app, words.split(), prog_name="rota")
    assert (ended.exit_code, ended.stdout) == (exits.MISUSED, "")
    assert ended.stderr.count("\n") == 1
    return ended.stderr.removeprefix("rota: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("srve", "no such command `srve`: did you mean `serve`?"),
        ("gruops list", "no such command `gruops`: did you mean `groups`?"),
        ("groups desc", "no such command `desc`: did you mean `describe`?"),
        ("serve --lisen :1", "there is no option --lisen: did you mean --listen?"),
        ("serve --no-jurnal", "there is no option --no-jurnal: did you mean --no-journal?"),
        ("serve --virtual", "there is no option --virtual: did you mean --virtual-clock?"),
    ],
)
def test_a_misspelling_or_a_beginning_is_answered_with_the_name(words: str, hint: str) -> None:
    assert said(words) == hint


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("lag", "no such command `lag`: `rota groups describe GROUP` shows the offsets and the lag of a group"),
        ("topics", "no such command `topics`: create topics with any Kafka client; docs/operating.md has an example"),
        (
            "status",
            "no such command `status`: `rota top` shows all groups of a server, and `rota why GROUP` explains one",
        ),
        ("stop", "no such command `stop`: Ctrl-C or SIGTERM ends `rota serve`"),
        ("kafka-consumer-groups.sh", "no such command `kafka-consumer-groups.sh`: `rota groups` has the commands of"),
        ("serve --partitions 3", "there is no option --partitions: give --set num.partitions=N"),
        (
            "serve --topic orders:4",
            "there is no option --topic: create topics with any Kafka client; docs/operating.md has an example",
        ),
        ("why --group billing", "there is no option --group: give the value by itself, as in `rota why GROUP`"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_what_rota_has_for_it(words: str, hint: str) -> None:
    assert said(words).startswith(hint)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--verbose", "there is no option --verbose; `rota -h` lists what there is"),
        ("weather", "no such command `weather`; `rota -h` lists what there is"),
        ("groups lag", "no such command `lag`; `rota groups -h` lists what there is"),
        ("serve -x", "there is no option -x; `rota serve -h` lists what there is"),
        ("demo --only", "there is no option --only; `rota demo -h` lists what there is"),
    ],
)
def test_a_word_that_is_like_no_name_gets_no_guess(words: str, answer: str) -> None:
    assert said(words) == answer


def test_what_the_hints_name_exists_and_what_they_answer_does_not() -> None:
    assert not MEANT.keys() & COMMANDS.keys()
    by_words = dict(conventions.leaves(typer.main.get_command(app)))
    options = {name for option in conventions.options(by_words["serve"]) for name in option.opts}
    assert not OPTIONS_MEANT.keys() & options
    for hint in OPTIONS_MEANT.values():
        assert {word for word in hint.split() if word.startswith("--")} <= options
    for hint in MEANT.values():
        for command in [part.split()[1] for part in hint.split("`")[1::2] if part.startswith("rota ")]:
            assert command.startswith("-") or command in COMMANDS
