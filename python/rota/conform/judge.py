"""What a row's answers are worth: the same as Apache Kafka's, a departure that is known, or a divergence."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files

from rota.conform.evidence import CHOICE, Difference, compare, is_same
from rota.conform.said import FAULT, Evidence, Said

#: Whose answers count, and whose departures are explained.
REFERENCE, OURS = "kafka-4.4.0", "rota"


class Verdict(StrEnum):
    """How the answers of a row compare with the reference."""

    SAME = "same"
    EXPLAINED = "explained"
    DIFFERS = "differs"
    #: the broker closed, hung, or answered what cannot be read, where others answer
    FAILED = "failed"
    #: it has no API, or no version, that the row needs
    NOT_SERVED = "not served"
    #: it parted from others on the way to what the row is about
    NOT_REACHED = "not reached"
    #: there is no recording of Apache Kafka's answers
    NEW = "not recorded"
    LEFT_OUT = "left out"


#: What makes a run fail.
BAD = {Verdict.DIFFERS, Verdict.FAILED, Verdict.NOT_SERVED, Verdict.NOT_REACHED}


@dataclass(frozen=True)
class Recording:
    """What one system answered, row by row."""

    system: str
    version: str
    recorded: str
    rows: Mapping[str, Evidence] = field(default_factory=dict)


def load(text: str) -> Recording:
    """A file of `recorded/`. A row that is null has the answers of Apache Kafka."""
    told = json.loads(text)
    rows = {
        name: recorded(REFERENCE).rows[name] if steps is None else [Said(step, tuple(lines)) for step, lines in steps]
        for name, steps in told["rows"].items()
    }
    return Recording(told["system"], told["version"], told["recorded"], rows)


def dump(recording: Recording) -> str:
    """As a file of `recorded/`: one line per row, which is null if Apache Kafka has the same answers."""
    theirs = {} if f"{recording.system}-{recording.version}" == REFERENCE else recorded(REFERENCE).rows
    head = {name: getattr(recording, name) for name in ("system", "version", "recorded")}
    lines = [json.dumps(head, ensure_ascii=False)[:-1] + ', "rows": {']
    rows = sorted(recording.rows.items())
    for at, (name, evidence) in enumerate(rows):
        steps = None if theirs.get(name) == evidence else [[each.step, list(each.answers)] for each in evidence]
        told = json.dumps(steps, ensure_ascii=False)
        lines.append(f"{json.dumps(name, ensure_ascii=False)}: {told}{',' if at < len(rows) - 1 else ''}")
    return "\n".join([*lines, "}}"]) + "\n"


@cache
def recorded(name: str) -> Recording:
    """A recording that comes with the package; without rows if there is none."""
    file = files("rota.conform").joinpath("recorded", f"{name}.json")
    return load(file.read_text(encoding="utf-8")) if file.is_file() else Recording(name, "", "")


@cache
def explained() -> Mapping[str, str]:
    """Row -> departure of docs/departures.md, or section of docs/protocol.md that leaves the choice open."""
    table = tomllib.loads(files("rota.conform").joinpath("explained.toml").read_text(encoding="utf-8"))
    return {row: departure for departure, rows in table.items() for row in rows}


def judge(row_id: str, theirs: Evidence | None, ours: Evidence) -> tuple[Verdict, Difference | None]:
    """Compare with what Apache Kafka answered, or another broker just now."""
    if theirs is None:
        return Verdict.NEW, None
    difference = compare(theirs, ours)
    if difference is None:
        return Verdict.SAME, None
    if not difference.unexpected and not difference.missing:
        return Verdict.EXPLAINED, difference
    fault = next((each.fault for each in ours if each.fault), "")
    if fault.startswith("not served") and f"{FAULT}{fault}" in difference.unexpected:
        return Verdict.NOT_SERVED, difference
    if fault and ours[0].step != theirs[0].step:
        return Verdict.NOT_REACHED, difference
    if difference.reasons == (CHOICE,):
        return Verdict.EXPLAINED, difference
    departure = explained().get(row_id)
    if departure and is_as_rota(row_id, ours):
        reasons = (departure,)
        return Verdict.EXPLAINED, Difference(difference.step, difference.missing, difference.unexpected, reasons)
    is_fault = fault.startswith(("closed", "silent", "garbled")) and not any(each.fault for each in theirs)
    return (Verdict.FAILED if is_fault else Verdict.DIFFERS), difference


def is_as_rota(row_id: str, evidence: Evidence) -> bool:
    """Whether these are the answers that rota's departure was recorded with. An explanation explains these only."""
    own = recorded(OURS).rows.get(row_id)
    return own is not None and is_same(own, evidence)
