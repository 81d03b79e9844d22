"""README and docs run as printed: commands in one shell a page, in its order; programs and test files unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import spark
from tests.docs.pages import KEYS, PAGES, ROOT, Block, blocks, commands, difference
from tests.docs.scenes import SCENES
from tests.docs.shell import WITHIN_S, Shell

BLOCKS = {path.relative_to(ROOT).as_posix(): blocks(path) for path in PAGES}
ALL = [block for found in BLOCKS.values() for block in found]
RUNNABLE = [block for block in ALL if block.kind != "data"]
NOT_RUN = {block.name: block.directives["not run"] for block in RUNNABLE if "not run" in block.directives}
RUN_BY = {block.name: block.directives["run by"] for block in RUNNABLE if "run by" in block.directives}
RUN = [block for block in RUNNABLE if block.name not in NOT_RUN and block.name not in RUN_BY]
PROGRESS = re.compile(r"^rota: .* \(after \d+ s\)\n", re.MULTILINE)
"""What a command prints on stderr every 10 s."""
RUN_MIN = 74
"""So many blocks run. Fewer is a decision, not an accident."""
FILE = re.compile(r"# (\S+\.(?:py|toml))\n")
"""A block whose first line names a file is that file."""


def output_after(block: Block) -> str | None:
    """The text block that follows a block at once is what that prints."""
    page = BLOCKS[block.page]
    at = page.index(block) + 1
    if at == len(page) or page[at].language != "text":
        return None
    between = (ROOT / block.page).read_text(encoding="utf-8").splitlines()
    end = block.line + block.text.count("\n") + 1
    gap = between[end : page[at].line - 1]
    return page[at].text if not any(line.strip() for line in gap) else None


class Page:
    """One page, as a reader works through it."""

    def __init__(self, directory: Path, variables: Mapping[str, str]) -> None:
        self.shell = Shell(directory, variables)
        self._directory = directory
        self._scene = ExitStack()
        self._programs = 0
        self._said = self._printed = ""

    def step(self, block: Block) -> None:
        if scene := block.directives.get("scene"):
            name, *arguments = scene.split()
            self._scene.close()
            self._scene.enter_context(SCENES[name](self.shell, *arguments))
        if named := FILE.match(block.text):
            (self.shell.work / named[1]).write_text(self.shell.typed_program(block.text), encoding="utf-8")
        if block.kind == "python":
            self._python(block)
        elif block.kind != "data":
            self._type(block)

    def _type(self, block: Block) -> None:
        typed = commands(block)
        for number, (command, printed) in enumerate(typed, 1):
            code, told = self.shell.run(command)
            is_last = number == len(typed)
            wanted = int(block.directives.get("exit code", "0")) if is_last else 0
            assert code == wanted, f"{block.name}: `{command}` ends with {code}: {told}"
            expected = printed or (output_after(block) if is_last and block.kind == "shell" else None)
            if expected is not None:
                wrong = difference(expected, PROGRESS.sub("", told))
                assert wrong is None, f"{block.name}: `{command}`: {wrong}"

    def _python(self, block: Block) -> None:
        self._said = f"{self._said}\n{block.text}" if "continues" in block.directives else block.text
        program = self.shell.typed_program(self._said)
        if block.text.startswith(">>> "):
            self._transcript(block)
            return
        if named := FILE.match(block.text):
            if not named[1].startswith("test_"):
                return
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", named[1]]
            cwd = self.shell.work
        else:
            self._programs += 1
            cwd = self._directory / f"program-{self._programs}"
            cwd.mkdir()
            (cwd / "program.py").write_text(program, encoding="utf-8")
            command = [sys.executable, "program.py"]
        ended = subprocess.run(
            command,
            cwd=cwd,
            env=self.shell.environment,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert ended.returncode == 0, f"{block.name}: {ended.stdout}{ended.stderr}"
        before, self._printed = self._printed if "continues" in block.directives else "", ended.stdout
        expected = output_after(block)
        if expected is not None:
            wrong = difference(expected, ended.stdout.removeprefix(before))
            assert wrong is None, f"{block.name}: {wrong}"

    def _transcript(self, block: Block) -> None:
        """Prompts of one page are one session: they run together, at the last of them."""
        session = [other for other in BLOCKS[block.page] if other.text.startswith(">>> ")]
        if block is not session[-1]:
            return
        path = self.shell.work / "session.txt"
        path.write_text("\n".join(other.text for other in session), encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, "-m", "doctest", path.name],
            cwd=self.shell.work,
            env=self.shell.environment,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert ended.returncode == 0, f"{block.name}: {ended.stdout}{ended.stderr}"

    def close(self) -> None:
        try:
            self.shell.stop_server()
        finally:
            self._scene.close()
            self.shell.close()


@pytest.fixture
def page(name: str, tmp_path: Path) -> Iterator[Page]:
    opened = Page(tmp_path, spark.environment() if name.startswith("docs/audit") else {})
    yield opened
    opened.close()


LONG = {"docs/audit-queries.md"}
"""Pages that `make long` runs: another start of Spark, and a dozen queries."""


@pytest.mark.clients
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
        for name in sorted({block.page for block in RUN})
    ],
)
def test_a_page_runs_as_it_is_printed(name: str, page: Page) -> None:
    for block in BLOCKS[name]:
        if block in RUN or (block.kind == "data" and FILE.match(block.text)):
            page.step(block)


def test_what_is_not_run_says_why() -> None:
    assert all(len(reason) > 10 for reason in NOT_RUN.values()), NOT_RUN
    print(*(f"{name}: {reason}" for name, reason in NOT_RUN.items()), sep="\n")


def test_what_another_test_runs_is_there_and_reads_the_page() -> None:
    for name, path in RUN_BY.items():
        assert Path(name.partition(":")[0]).name in (ROOT / path).read_text(encoding="utf-8"), name


def test_most_of_the_blocks_run() -> None:
    assert len(RUN) >= RUN_MIN, f"{len(RUN)} of {len(RUNNABLE)}"


def test_every_directive_is_one_of_those_that_are_known() -> None:
    for block in ALL:
        above = (ROOT / block.page).read_text(encoding="utf-8").splitlines()[: block.line - 1]
        while above and above[-1].startswith("<!--"):
            key = above.pop().removeprefix("<!-- ").partition(":")[0]
            assert key in KEYS, f"{block.name}: {key}"


def test_a_block_without_a_language_holds_no_commands() -> None:
    for block in ALL:
        if block.language == "" and block.kind == "data":
            assert not re.search(r"^(rota|make|pip|curl) ", block.text, re.MULTILINE), (
                f"{block.name} has commands: give it the language sh"
            )


@pytest.mark.parametrize(
    ("printed", "got", "differs"),
    [
        ("Stable for 31.0 s\n", "Stable for 0.4 s\n", False),
        ("ana-1f0c8a2e… left\n", "ana-00000000… left\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", False),
        ("id <id>, <n> of them\n", "id x-1, 12 of them\n", False),
        ("waiting for ana-1f0c8a2e… to…\n", "waiting for ana-00000000… to rejoin\n", False),
        ("50 partitions, 20 batches\n", "0 partitions, 0 batches\n", True),
        ("Stable for 31.0 s\n", "Empty for 31.0 s\n", True),
        ("a\n", "", True),
        ("a\n", "a\nb\n", True),
    ],
)
def test_what_a_page_leaves_open_is_all_that_may_differ(printed: str, got: str, differs: bool) -> None:
    assert (difference(printed, got) is not None) == differs
