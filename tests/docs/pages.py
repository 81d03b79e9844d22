"""Pages as blocks, and what a page may leave open in what it prints.

A fenced block is a step of its page. HTML comments on the lines above it say what the reader does not see:

    <!-- not run: REASON -->      it is not run, and why
    <!-- run by: TEST FILE -->    another test runs it
    <!-- scene: NAME -->          what there is before it (`tests/docs/scenes.py`)
    <!-- exit code: N -->         how its last command ends, if not with 0
    <!-- continues: WHAT -->      a Python program that goes on from the programs above it
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

KEYS = ("not run", "run by", "scene", "exit code", "continues")
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DIRECTIVE = re.compile(rf"<!-- ({'|'.join(KEYS)}): *(.*?) *-->")
PROMPT = "$ "

#: What differs from run to run, as pages print it: an example, or a placeholder.
OPEN = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), r"[0-9a-f-]{36}"),
    (re.compile(r"[0-9a-f]{8}…"), r"[0-9a-f]{8}(?:…|-[0-9a-f-]{27})"),
    (
        re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"),
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)",
    ),
    (re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), r"\d\d:\d\d:\d\d\.\d{3}"),
    (re.compile(r"\d[\d,]*(\.\d+)? ?(ms|s|MB|KiB|MiB)\b"), r"\d[\d,]*(\.\d+)? ?(ms|s|MB|KiB|MiB)"),
    (re.compile(r"127\.0\.0\.1:\d+"), r"127\.0\.0\.1:\d+"),
    (re.compile(r"<id>"), r"\S+"),
    (re.compile(r"<time>"), r"[\d:.TZ+-]+"),
    (re.compile(r"<n>"), r"\d[\d,]*(\.\d+)?"),
    (re.compile(r"<version>"), r"\d+\.\d+\.\d+\S*"),
    (re.compile(r" {2,}"), r" {1,}"),
    (re.compile(r"…(?=[ ]*$)"), r".*"),
]


class Block(NamedTuple):
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    directives: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def kind(self) -> str:
        """`shell`, `session` (commands with what they print), `python`, or `data`."""
        language = self.language
        if language == "sh":
            return "shell"
        if language == "python":
            return "python"
        if language in ("console", "") and self.text.startswith(PROMPT):
            return "session"
        return "data"


def blocks(path: Path) -> list[Block]:
    """The blocks of a page, in its order."""
    text = path.read_text(encoding="utf-8")
    page = path.relative_to(ROOT).as_posix()
    found, last = [], 0
    for fence in FENCE.finditer(text):
        above = text[last : fence.start()]
        comments = re.search(r"(?:^<!--.*-->\n)*\Z", above, re.MULTILINE)
        directives = dict(DIRECTIVE.findall(comments[0])) if comments else {}
        found.append(Block(page, text[: fence.start()].count("\n") + 1, fence[1].strip(), fence[2], directives))
        last = fence.end()
    return found


def commands(block: Block) -> list[tuple[str, str | None]]:
    """The commands of a block, each with what the page says that it prints, None where it does not say."""
    if block.kind == "shell":
        return [(line, None) for line in _joined(block.text.splitlines()) if not line.lstrip().startswith("#")]
    told: list[tuple[str, str | None]] = []
    for part in re.split(rf"^{re.escape(PROMPT)}", block.text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        told.append((command, printed or None))
    return told


def _joined(lines: list[str]) -> list[str]:
    """Lines that a backslash continues are one command."""
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [line for line in text.splitlines() if line.strip()]


def pattern(printed: str) -> str:
    """What a page prints, as a pattern. A line `...` stands for any lines."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "..." else _line(line) + r"[ ]*\n" for line in printed.rstrip("\n").split("\n")
    ]
    return "".join(lines) + r"\n*"


def _line(line: str) -> str:
    out, at = [], 0
    while at < len(line):
        found = [(match, put) for of, put in OPEN if (match := of.match(line, at))]
        if found:
            match, put = found[0]
            out.append(put)
            at = match.end()
        else:
            out.append(re.escape(line[at]))
            at += 1
    return "".join(out)


def difference(printed: str, got: str) -> str | None:
    """How the output differs from what the page prints; None if it does not."""
    if re.fullmatch(pattern(printed), got if got.endswith("\n") else got + "\n"):
        return None
    return f"the page prints\n{printed}\nbut the output is\n{got}"
