"""The message after a mistake: `wrong_use/python.txt` and `wrong_use/commands.txt`, reviewed like transcripts.

A line that begins with `>>> ` is an expression, one that begins with `$ ` a command; what follows is the error. Add
lines, then let `python -m tests.docs.wrong_use` write the answers, and read the difference.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import rota
import rota.aio
import rota.assign
import rota.control
import rota.coordinator
import rota.protocol
from rota.cli import app
from rota.conform.broker import Broker

PLACE = Path(__file__).parent / "wrong_use"
PYTHON, COMMANDS = PLACE / "python.txt", PLACE / "commands.txt"
NO_ERROR = "no error"
SETTINGS = {"group.initial.rebalance.delay.ms": 0}
TOKEN = "of-this-test"  # noqa: S105  a server of this test only


def joined(server: rota.Server) -> str:
    """The id of a member of the group `readers`, whose session does not end on a virtual clock."""
    broker = Broker((server.host, server.port))
    connection = broker.connect()
    protocols = [{"name": "range", "metadata": b""}]
    fields = {"group_id": "readers", "session_timeout_ms": 45_000, "rebalance_timeout_ms": 60_000}
    answer = connection.ask("JoinGroup", 3, fields | {"protocol_type": "consumer", "protocols": protocols})
    member_id: str = answer["member_id"]
    plan = [{"member_id": member_id, "assignment": b""}]
    speaks = {"group_id": "readers", "member_id": member_id, "generation": answer["generation"]}
    connection.ask("SyncGroup", 3, speaks | {"assignments": plan})
    connection.close()
    return member_id


@contextmanager
def python_scene() -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """The names that expressions use, and what stands for texts that change from run to run."""
    clock = rota.VirtualClock()
    with ExitStack() as stack:
        stopped = rota.Server()
        stopped.stop()
        server = stack.enter_context(rota.Server(settings=SETTINGS, clock=clock))
        server.create_topic("orders", partitions=2)
        controls = rota.control.serve(server, "127.0.0.1:0", token=TOKEN)
        stack.callback(controls.close)
        member = joined(server)
        coordinator = rota.coordinator.Coordinator()
        coordinator.loaded(0)
        names = {
            "rota": rota,
            "array": array,
            "server": server,
            "stopped": stopped,
            "clock": clock,
            "member": member,
            "address": controls.address,
            "control": rota.control.Client(controls.address, token=TOKEN),
            "coordinator": coordinator,
            "machine": rota.Member("readers"),
            "group": rota.aio.GroupMember(server.bootstrap_servers, "readers", ["orders"]),
        }
        yield names, {member: "<member>", server.bootstrap_servers: "<server>", controls.address: "<control>"}


def evaluated(expression: str, names: dict[str, Any]) -> str:
    """The error that an expression ends with."""
    try:
        if expression.startswith("await "):
            asyncio.run(_awaited(expression.removeprefix("await "), names))
        else:
            eval(expression, names)
    except Exception as error:
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else kind.__module__.removeprefix("rota._rota") + "."
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        return f"{module.removeprefix('.')}{kind.__qualname__}: {error.args[0] if error.args else error}{notes}"
    return NO_ERROR


async def _awaited(expression: str, names: dict[str, Any]) -> None:
    await eval(expression, names)


def stable(text: str, shown: dict[str, str]) -> str:
    for found, name in shown.items():
        text = text.replace(found, name)
    text = re.sub(
        r"127\.0\.0\.1:\d{4,5}",
        lambda at: at[0] if at[0].endswith((":9092", ":9644", ":99999")) else "127.0.0.1:<port>",
        text,
    )
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    # How many there are changes with every error code, property and request that is added.
    text = re.sub(r"there are \d+, such as", "there are <n>, such as", text)
    text = re.sub(r"release of rota knows format \d+", "release of rota knows format <n>", text)
    text = re.sub(r"expected a request \([^)]*\)", "expected a request (...)", text)
    text = re.sub(r"conform-[0-9a-f]{8}…", "<member>…", text)
    return re.sub(r"/[\w./-]*?wrong-use-\w+", "<here>", text)


def rewritten(text: str, mark: str, answer: Callable[[str], str]) -> str:
    """The file with the answers of now."""
    lines: list[str] = []
    is_answer = False
    for line in text.splitlines():
        if line.startswith(mark):
            lines += [line, *answer(line.removeprefix(mark)).splitlines()]
            is_answer = True
        elif not line or line.startswith("#"):
            lines.append(line)
            is_answer = False
        elif not is_answer:
            lines.append(line)
    return "\n".join(lines) + "\n"


def python_now() -> str:
    """`python.txt` with the answers of now."""
    with python_scene() as (names, shown):
        text = PYTHON.read_text(encoding="utf-8")
        return rewritten(text, ">>> ", lambda expression: stable(evaluated(expression, names), shown))


def run(command: str) -> str:
    """The exit code of a command, and what it says on stderr."""
    result = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="rota")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"TRACEBACK {type(result.exception).__name__}: {result.exception}"
    return f"[{result.exit_code}] {result.stderr.strip() or '(stdout) ' + result.stdout.strip()}"


def commands_now() -> str:
    """`commands.txt` with the answers of now."""
    with tempfile.TemporaryDirectory(prefix="wrong-use-") as here, chdir(here), ExitStack() as stack:
        clock = rota.VirtualClock()
        server = stack.enter_context(rota.Server(settings=SETTINGS, clock=clock, http="127.0.0.1:0", data="data"))
        server.create_topic("orders", partitions=2)
        member = joined(server)
        Path("text").write_text("text\n")
        Path("empty").mkdir()
        assert server.http_address is not None
        named = {"$SERVER": server.bootstrap_servers, "$HTTP": server.http_address}
        shown = {value: name for name, value in named.items()} | {member: "<member>"}

        def answer(command: str) -> str:
            for name, value in named.items():
                command = command.replace(name, value)
            return stable(run(command), shown)

        return rewritten(COMMANDS.read_text(encoding="utf-8"), "$ ", answer)


def headings(path: Path) -> dict[str, int]:
    """How many mistakes are below each heading."""
    counts: dict[str, int] = {}
    heading = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            counts[heading] = 0
        elif line.startswith((">>> ", "$ ")):
            counts[heading] += 1
    return counts


def main() -> int:
    PYTHON.write_text(python_now(), encoding="utf-8")
    COMMANDS.write_text(commands_now(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
