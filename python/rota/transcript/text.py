"""The text of a transcript: header, sections, steps, and the effects expected of each step.

Steps stand at the left margin, their effects are indented below them. The repository's
tests/protocol/README.md shows the whole format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

EFFECT_INDENT = "  "
SECTION = re.compile(r"^---(?: (?P<kind>failed|later)(?:: (?P<title>.+))?)?$")
HEADER_KEYS = ("rows", "doc", "config", "given", "start", "append")


class TranscriptError(Exception):
    """The text of a transcript is not well-formed; the message begins with file and line."""


@dataclass
class Step:
    """One line at the left margin and what is expected of it."""

    line: int
    text: str
    probe: bool = False
    effects: list[str] = field(default_factory=list)
    #: comments and blank lines between this step's effects and the next step, kept by a rewrite
    trailer: list[str] = field(default_factory=list)

    @property
    def logs(self) -> list[str]:
        """The expected appends."""
        return [effect for effect in self.effects if effect.startswith("log ")]


@dataclass
class Section:
    """A run of steps. `kind` is `main`, `failed` (an append fails) or `later` (something else comes between)."""

    kind: str
    title: str
    line: int
    heading: str
    leader: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def label(self) -> str:
        """How a report names it."""
        return f"{self.kind}: {self.title}" if self.title else self.kind


@dataclass
class Transcript:
    """One file."""

    path: Path
    header: list[str]
    rows: list[str]
    doc: list[str]
    config: dict[str, str]
    given: str | None
    loading: bool
    #: whether every append is stored as soon as it is made, without steps that say so
    at_once: bool
    sections: list[Section]

    @property
    def main(self) -> Section:
        """The section that runs with every append answered at once, and again with the probes in between."""
        return self.sections[0]

    def render(self) -> str:
        """The text again; parsing it gives the same transcript."""
        lines = list(self.header)
        for section in self.sections:
            lines.append(section.heading)
            lines += section.leader
            for step in section.steps:
                lines.append(("~ " if step.probe else "") + step.text)
                lines += [EFFECT_INDENT + effect for effect in step.effects]
                lines += step.trailer
        return "\n".join(lines) + "\n"


def parse(path: Path) -> Transcript:
    """Read a transcript; raises `TranscriptError`."""
    transcript = Transcript(path, [], [], [], {}, None, False, False, [])
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        line = raw.rstrip()
        heading = SECTION.match(line)
        if heading:
            _open_section(transcript, heading, number, line)
        elif not transcript.sections:
            _header_line(transcript, line, number)
        else:
            _body_line(transcript, line, number)
    if not transcript.sections:
        raise TranscriptError(f"{path}: no `---` line: a transcript has a header and at least one section")
    if not transcript.at_once:
        _check_answered_appends(transcript)
    return transcript


def _open_section(transcript: Transcript, heading: re.Match[str], number: int, line: str) -> None:
    kind = heading["kind"] or "main"
    if (kind == "main") != (not transcript.sections):
        raise TranscriptError(f"{transcript.path}:{number}: the first section is `---`, later ones name their kind")
    transcript.sections.append(Section(kind, heading["title"] or "", number, line))


def _header_line(transcript: Transcript, line: str, number: int) -> None:
    transcript.header.append(line)
    if not line or line.startswith("#"):
        return
    key, _, rest = line.partition(" ")
    if key == "rows":
        transcript.rows += rest.split()
    elif key == "doc":
        transcript.doc += rest.split()
    elif key == "config":
        transcript.config |= dict(pair.split("=", 1) for pair in rest.split())
    elif key == "given":
        transcript.given = rest
    elif key == "start" and rest == "loading":
        transcript.loading = True
    elif key == "append" and rest == "at once":
        transcript.at_once = True
    else:
        expected = ", ".join(HEADER_KEYS)
        raise TranscriptError(f"{transcript.path}:{number}: `{line}` is no header line (expected one of {expected})")


def _body_line(transcript: Transcript, line: str, number: int) -> None:
    section = transcript.sections[-1]
    steps = section.steps
    if not line or line.startswith("#"):
        (steps[-1].trailer if steps else section.leader).append(line)
    elif line.startswith(EFFECT_INDENT):
        if not steps or steps[-1].trailer:
            raise TranscriptError(f"{transcript.path}:{number}: an effect must stand right below its step")
        steps[-1].effects.append(line.strip())
    elif line.startswith("~ "):
        if section.kind == "failed":
            raise TranscriptError(f"{transcript.path}:{number}: a failed section is played as it is, without probes")
        steps.append(Step(number, line[2:].strip(), probe=True))
    else:
        steps.append(Step(number, line))


def _check_answered_appends(transcript: Transcript) -> None:
    """In the main section every append is probed, then stored; each kind of append fails in some failed section."""
    steps = transcript.main.steps
    kinds: dict[str, int] = {}
    for index, step in enumerate(steps):
        if not step.logs:
            continue
        kinds.setdefault(step.logs[0].split()[1], step.line)
        after = steps[index + 1 :]
        probes = [later for later in after if later.probe]
        following = next((later for later in after if not later.probe), None)
        if following is None or following.text != "stored":
            raise TranscriptError(f"{transcript.path}:{step.line}: the append is not followed by `stored`")
        if not probes or after[0] is not probes[0]:
            raise TranscriptError(f"{transcript.path}:{step.line}: no `~` probe between the append and `stored`")
    for kind, line in kinds.items():
        if not _is_refused_somewhere(transcript, kind):
            raise TranscriptError(f"{transcript.path}:{line}: no failed section refuses an append of kind `{kind}`")


def _is_refused_somewhere(transcript: Transcript, kind: str) -> bool:
    for section in transcript.sections:
        waiting: list[str] = []
        for step in section.steps:
            waiting += [log.split()[1] for log in step.logs]
            if step.text.startswith("stored") and waiting:
                waiting.pop(0)
            elif section.kind == "failed" and step.text.startswith(("refused", "+")) and kind in waiting:
                return True
    return False
