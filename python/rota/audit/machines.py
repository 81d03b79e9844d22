"""An audit for machines that run it: JUnit XML, annotations of GitHub Actions, metrics of a cron job."""

from __future__ import annotations

import os
import time
from pathlib import Path
from xml.etree import ElementTree

import typer

from rota.audit.audit import FAILS_ON, Audit
from rota.audit.checks import CHECK_OF, OBSERVATION, VIOLATION
from rota.audit.logs import UNREADABLE
from rota.audit.verdict import Verdict

# Characters that XML has no way to write.
NOT_XML = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF])
ESCAPED = {"%": "%25", "\r": "%0D", "\n": "%0A"}
ESCAPED_IN_TITLE = ESCAPED | {":": "%3A", ",": "%2C"}


def _place(verdict: Verdict) -> str:
    group = "" if verdict.group is None else f"group {verdict.group}, "
    return f"{group}{verdict.log}, partition {verdict.partition}, offset {verdict.last_offset}"


def as_junit(found: Audit) -> str:
    """A test case for each check: it fails once for each verdict that `--fail-on` is about, and has the others as
    output. What could not be read is an error."""
    suite = ElementTree.Element("testsuite", name="rota audit")
    failed = 0
    by_name: dict[str, list[Verdict]] = {name: [] for name in CHECK_OF}
    for verdict in found.verdicts:
        by_name[verdict.name].append(verdict)
    fails = FAILS_ON[found.fail_on]
    for name, check in CHECK_OF.items():
        verdicts = by_name[name]
        case = ElementTree.SubElement(suite, "testcase", classname="rota audit", name=f"{check.id} {name}".strip())
        failing = [verdict for verdict in verdicts if verdict.severity in fails]
        failed += bool(failing)
        for verdict in failing:
            failure = ElementTree.SubElement(case, "failure", type=verdict.severity, message=_xml(_place(verdict)))
            failure.text = _xml("\n".join((check.says, verdict.witness, verdict.reproduce)))
        others = [f"{_place(verdict)}: {verdict.witness}" for verdict in verdicts if verdict.severity not in fails]
        if others:
            ElementTree.SubElement(case, "system-out").text = _xml("\n".join(others))
    case = ElementTree.SubElement(suite, "testcase", classname="rota audit", name="everything can be read")
    unreadable = [trouble for trouble in found.unreadable if trouble.kind == UNREADABLE]
    for each in unreadable:
        place = f"{each.log}, partition {each.partition}, offset {each.offset}"
        ElementTree.SubElement(case, "error", message=_xml(place)).text = _xml(each.reason)
    counts = {"tests": len(CHECK_OF) + 1, "failures": failed, "errors": int(bool(unreadable))}
    for name, count in counts.items():
        suite.set(name, str(count))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    return text.translate(NOT_XML)


def as_annotations(found: Audit) -> list[str]:
    """A line for each verdict, and for what could not be read, as GitHub Actions shows them beside a run."""
    levels = {VIOLATION: "error", OBSERVATION: "notice"}
    lines = [
        _annotation(levels[each.severity], f"{each.id} {each.name}".strip(),
                    f"{_place(each)}\n{each.witness}\n{each.reproduce}")
        for each in found.verdicts
    ]  # fmt: skip
    return lines + [
        _annotation("warning" if each.kind != UNREADABLE else "error", each.kind,
                    f"{each.log}, partition {each.partition}, offset {each.offset}: {each.reason}")
        for each in found.unreadable
    ]  # fmt: skip


def _annotation(level: str, title: str, text: str) -> str:
    titled = "".join(ESCAPED_IN_TITLE.get(letter, letter) for letter in title)
    return f"::{level} title={titled}::{''.join(ESCAPED.get(letter, letter) for letter in text)}"


def metrics(found: Audit, now_s: float) -> str:
    """Counts as text that Prometheus reads."""
    counts: dict[tuple[str, str, str], int] = {(check.severity, check.id, name): 0 for name, check in CHECK_OF.items()}
    for verdict in found.verdicts:
        counts[verdict.severity, verdict.id, verdict.name] += 1
    lines = [
        "# HELP rota_audit_verdicts Verdicts of the last audit.",
        "# TYPE rota_audit_verdicts gauge",
        *(
            f'rota_audit_verdicts{{severity="{severity}",id="{identifier}",name="{name}"}} {count}'
            for (severity, identifier, name), count in counts.items()
        ),
    ]
    gauges = {
        "rows": ("Rows that the last audit read.", found.rows),
        "groups": ("Groups that the last audit was about.", found.groups),
        "unreadable": ("Places that the last audit could not read.", len(found.unreadable)),
        "exit_code": ("Exit code of the last audit.", found.exit_code),
        "timestamp_seconds": ("When the last audit ended.", round(now_s)),
    }
    for name, (says, value) in gauges.items():
        lines += [f"# HELP rota_audit_{name} {says}", f"# TYPE rota_audit_{name} gauge", f"rota_audit_{name} {value}"]
    return "".join(f"{line}\n" for line in lines)


def write_junit(found: Audit, target: Path) -> None:
    """Write `as_junit` to a file."""
    target.write_text(as_junit(found), encoding="utf-8")


def write_metrics(found: Audit, target: Path) -> None:
    """Put the file in place whole, as the textfile collector wants it. A link stays, and what is no regular file, such
    as a FIFO or /dev/stdout, is written into."""
    text = metrics(found, time.time())
    if _is_stdout(target):
        typer.echo(text, nl=False)
        return
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    target = target.resolve()
    part = target.with_name(f"{target.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(target)


def _is_stdout(target: Path) -> bool:
    """Whether stdout leads to this file: a new file in its place would have the metrics only."""
    try:
        return os.path.samestat(target.stat(), os.fstat(1))
    except OSError:
        return False
