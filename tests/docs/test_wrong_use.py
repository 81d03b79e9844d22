"""The table of wrong use: every public call and command is in it, and its answers are those of now."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest
import typer

import rota
import rota.aio
import rota.control
from rota.cli import app
from rota.faults import Faults
from tests.docs import wrong_use

EACH = 3
WITHOUT_MISTAKES = {
    # They take no argument.
    "Server.acls", "Server.check_running", "Server.cluster", "Server.denied_requests", "Server.groups", "Server.health",
    "Server.journal", "Server.kill", "Server.listeners", "Server.nodes", "Server.refused_connections", "Server.reload",
    "Server.settings", "Server.start_report", "Server.stop", "Server.topics", "Server.transactions",
    "Server.unnamed_host",
    "Coordinator.check_invariants", "Coordinator.group_ids", "Coordinator.load_failed", "Coordinator.next_deadline",
    "Coordinator.snapshot",
}  # fmt: skip


def test_the_answers_in_python_are_those_of_now() -> None:
    assert wrong_use.python_now() == wrong_use.PYTHON.read_text(encoding="utf-8")


def test_the_answers_of_the_commands_are_those_of_now() -> None:
    assert wrong_use.commands_now() == wrong_use.COMMANDS.read_text(encoding="utf-8")


def test_no_command_answers_with_a_traceback_or_more_than_one_line() -> None:
    text = wrong_use.COMMANDS.read_text(encoding="utf-8")
    assert "TRACEBACK" not in text
    answers = [line for line in text.splitlines() if line and not line.startswith(("#", "$ "))]
    assert len(answers) == text.count("\n$ ")
    assert [line for line in answers if not re.match(r"\[[1-5]\] rota: .", line)] == []


@pytest.mark.parametrize("path", [wrong_use.PYTHON, wrong_use.COMMANDS], ids=["python", "commands"])
def test_each_heading_has_three_mistakes_at_least(path: object) -> None:
    counts = wrong_use.headings(path)  # type: ignore[arg-type]
    assert {name: count for name, count in counts.items() if count < EACH} == {}


def calls_of(kind: type) -> set[str]:
    """The public methods of a class."""
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def commands() -> Iterator[str]:
    def below(path: str, command: object) -> Iterator[str]:
        for name, one in getattr(command, "commands", {"": None}).items():
            yield from [path] if one is None else below(f"{path} {name}".strip(), one)

    yield from below("", typer.main.get_command(app))


def test_every_command_is_in_the_table() -> None:
    assert set(commands()) == set(wrong_use.headings(wrong_use.COMMANDS)) - {"rota"}


def test_every_call_of_a_server_is_in_the_table() -> None:
    known = set(wrong_use.headings(wrong_use.PYTHON)) | WITHOUT_MISTAKES
    assert {f"Server.{name}" for name in calls_of(rota.Server) - calls_of(Faults)} - known == set()


def test_every_fault_is_in_the_table() -> None:
    known = set(wrong_use.headings(wrong_use.PYTHON))
    assert {f"Server.faults.{name}" for name in calls_of(Faults)} - known == set()


def test_the_former_methods_of_a_server_are_the_faults() -> None:
    assert {name for name in calls_of(Faults) if getattr(rota.Server, name) is not getattr(Faults, name)} == set()
