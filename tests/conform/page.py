"""docs/generated/conformance.md, from the recordings: one row per behaviour, one column per system and version."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from rota.conform.evidence import Difference
from rota.conform.judge import OURS, REFERENCE, Recording, Verdict, judge, load, recorded
from rota.conform.rows import Row
from rota.conform.run import catalogue, chosen
from rota.conform.said import Evidence
from tests.conform.systems import ROOT

PAGE = ROOT / "docs/generated/conformance.md"
NOTES = ROOT / "tests" / "conform" / "notes.toml"
#: Recordings of brokers that `rota conform` does not compare with.
RIVALS = ROOT / "tests" / "conform" / "rivals"
CELL_SHOWN = 72
#: Folders of rows, in the order of the page, with what they are about.
PARTS = {
    "ranges": "Advertised versions",
    "fields": "Fields of each version's answer",
    "join": "JoinGroup",
    "given": "Set-up of common groups",
    "initial": "The initial rebalance delay",
    "rebalance": "Rebalances",
    "sync": "SyncGroup",
    "heartbeat": "Heartbeats and sessions",
    "leave": "LeaveGroup",
    "statics": "Static members",
    "pending": "Pending member ids",
    "capacity": "Full groups",
    "offsets": "Offsets",
    "admin": "Describing, listing, deleting",
    "retention": "Retention",
    "gate": "Checks before the group lookup",
    "traps": "Common mistakes of implementations",
    "order": "Order on a connection",
    "time": "Deadlines",
    "malformed": "Malformed requests",
    "deletions": "DeleteRecords",
}
HEAD = """\
# Conformance

This page shows the answers of several brokers to the same sessions. `make conformance` writes it from the recordings in
`python/rota/conform/recorded` and `tests/conform/rivals`, which contain every answer of every row; do not edit it.
`rota conform` plays the sessions to any broker, and `rota conform --list` describes each row.

The comparison ignores ids, times and orders that no broker promises. *same* means the same answers as Apache Kafka
4.4.0. *D1* and *Broker APIs* name a departure of [departures.md](../departures.md), *§21* a choice that
[protocol.md](../protocol.md) leaves open. *not served* means that ApiVersions lacks an API or a version of the row,
*not reached* that an earlier answer differed, so that the system did not reach the state of the row. Any other text in
a column is the system's answer at the first step that differs. Rows with an empty cell were not played. The initial
rebalance delay was 0.4 s on systems that have this setting.

## Ask a broker

<!-- not run: takes minutes; tests/conform runs the kit on every kind of server -->
```console
$ rota conform --bootstrap-server 127.0.0.1:9092                            # about a minute
$ rota conform --bootstrap-server 127.0.0.1:9092 --only 'join/*' --json     # with every byte of what differs
$ rota conform --bootstrap-server 127.0.0.1:9092 --against 127.0.0.1:9192   # two brokers with each other
```

The kit needs one broker that leads every group, with `group.initial.rebalance.delay.ms` between 200 and 1500. It skips
rows that need other settings and lists them at the end. It shows differences with the request and the answer, decoded
and in hexadecimal. The exit code is 1 if an answer differs and no departure explains it. Groups and topics of a run are
named `conform-*`; the kit removes them at the end, also after Ctrl-C. Transactional ids with such names stay until they
expire (`transactional.id.expiration.ms`).

## How answers are compared

- Each step sends a real request on its own connection; its answer is the fields that were received. Generated parts of
  ids are left out; groups, topics and members have the names of the row.
- These fields are shown as `*` and not compared: node, cluster, controller and topic ids, hosts, ports, racks, leaders
  and replicas of partitions, `throttle_time_ms`, the settings in the answer to CreateTopics, and the text of
  `error_message` (but not whether there is one). The rows `ranges/*` compare `api_keys` of ApiVersions for the APIs
  listed there.
- Answers on different connections have no order, nor do the members of a list. The leader of a generation whose
  previous leader has left may be any member.
- A deadline is met if nothing happens before it and an answer arrives within a second after it.
- A row that differs is played again, up to 3 times in all (`--tries`), because the machine may have been late. It
  counts as the same if one of the plays is the same. A recording is stricter: two plays in a row, of at most 6, gave
  the same answers. Only rows that wait for more than 400 s were played once.
- Rows that wait for more than 45 s are skipped unless `--longest SECONDS` allows them. Rows that need other settings
  are played on brokers with these settings. A client cannot cause failures of the log, moves of a partition, or the
  states `loading` and `unloaded`, so transcripts with these are left out.

## What is not here

{absent}
"""
#: What was not recorded, and why.
ABSENT = {
    "kfake, some rows": "its process ends at requests that it cannot parse (a nil pointer in `clientConn.read`) and at "
    "members without a common protocol (`unable to find commonly supported protocol!`), so `malformed/*`, "
    "`fields/*-next` and the cells about other protocols were not played; its initial rebalance delay is 0, so most "
    "transcripts were not played",
    "librdkafka's mock cluster, some rows": "its process ends at a null group id and where the protocols of two "
    "members do not begin with the same one (`rd_kafka_mock_cgrp_classic_elect_leader`); states of the matrix with "
    "members begin with MEMBER_ID_REQUIRED and were not played, nor were rows that need an initial rebalance delay of "
    "3 s",
    "tansu 0.6.0, some rows": "built with `cargo install tansu --version 0.6.0 --locked --features dynostore --debug` "
    "and started as `tansu broker --storage-engine memory://tansu/`. Rows were played one at a time: with 64 at "
    "a time it closed most connections. States of the matrix with members were left out because of the time they take. "
    "Its initial rebalance delay is 0, so most transcripts were not played",
}


@dataclass(frozen=True)
class Note:
    """Explains some of the rows in which a system differs from the reference."""

    system: str
    says: str
    rows: tuple[str, ...]


def recordings() -> list[Recording]:
    """The reference first, rota last."""
    rivals = (load(file.read_text("utf-8")) for file in sorted(RIVALS.glob("*.json")))
    return [recorded(REFERENCE), *rivals, recorded(OURS)]


def title(recording: Recording) -> str:
    """The heading of a column."""
    return f"{recording.system} {recording.version}"


def render() -> str:
    """The page."""
    systems = recordings()
    rows = [row for row in catalogue() if row.id in recorded(REFERENCE).rows]
    absent = "\n".join(f"- {name}: {why}." for name, why in ABSENT.items())
    lines = [HEAD.format(absent=absent), "## All rows", "", *_summary(rows, systems), *_noted(rows, systems)]
    for part, heading in PARTS.items():
        own = [row for row in rows if row.id.split("/")[0] == part]
        if own:
            lines += ["", f"## {heading}", "", *_table(own, systems)]
    cells = [row for row in rows if row.id.startswith("matrix/")]
    lines += ["", "## State x request x identity", "", *_matrix(cells, systems)]
    of_ids = [row for row in rows if row.id.startswith("transactions/")]
    lines += ["", "## Transactions: state x request x producer", "", *_matrix(of_ids, systems)]
    return "\n".join(lines).rstrip() + "\n"


def _head(systems: list[Recording], first: str) -> list[str]:
    return [f"| {first} | {' | '.join(map(title, systems))} |", "|---|" + "---|" * len(systems)]


def _verdict(row: Row, system: Recording) -> tuple[str, Difference | None]:
    evidence = system.rows.get(row.id)
    if evidence is None:
        return "", None
    verdict, difference = judge(row.id, recorded(REFERENCE).rows[row.id], evidence)
    if verdict is Verdict.EXPLAINED and difference:
        return ", ".join(difference.reasons), difference
    return verdict.value, difference


def _summary(rows: list[Row], systems: list[Recording]) -> Iterator[str]:
    yield from _head(systems, "rows")
    counts = [Counter(_kind(_verdict(row, system)[0]) for row in rows) for system in systems]
    for kind in ("played", "same", "explained", "differs", "failed", "not served", "not reached"):
        played = [sum(count.values()) - count[""] for count in counts]
        told = played if kind == "played" else [count[kind] for count in counts]
        yield f"| {kind} | {' | '.join(f'{number:,}' for number in told)} |"
    yield f"| recorded on | {' | '.join(system.recorded for system in systems)} |"


@cache
def notes() -> list[Note]:
    """The notes of tests/conform/notes.toml."""
    told = tomllib.loads(NOTES.read_text(encoding="utf-8"))["note"]
    return [Note(each["system"], each["says"], tuple(each["rows"])) for each in told]


def parted(rows: list[Row], system: Recording) -> list[Row]:
    """The rows in which a system differs from the reference and no departure explains it."""
    rows = [row for row in rows if row.id in recorded(REFERENCE).rows]
    return [row for row in rows if _kind(_verdict(row, system)[0]) in PARTED]


def _noted(rows: list[Row], systems: list[Recording]) -> Iterator[str]:
    """Explains the rows in which a system differs from the reference."""
    for system in systems:
        own = [note for note in notes() if note.system == f"{system.system}-{system.version}"]
        if not own:
            continue
        others = parted(rows, system)
        yield from (
            "",
            f"## Where {title(system)} differs from {title(systems[0])}",
            "",
            "| what | rows |",
            "|---|---|",
        )
        for note in own:
            count = len(chosen(others, note.rows))
            patterns = ", ".join(f"`{_safe(pattern)}`" for pattern in note.rows)
            yield f"| {note.says} | {count}: {patterns} |"


def _kind(verdict: str) -> str:
    return verdict if verdict in ("", *(each.value for each in Verdict)) else "explained"


def _table(rows: list[Row], systems: list[Recording]) -> Iterator[str]:
    yield from _head(systems, "row")
    for row in rows:
        reference, *others = systems
        cells = [_last(reference.rows[row.id]), *(_cell(row, system) for system in others)]
        says = "" if row.id.startswith(("ranges/", "fields/")) else f": {row.says}"
        yield f"| `{row.id}`{_safe(says)} | {' | '.join(cells)} |"


def _cell(row: Row, system: Recording) -> str:
    verdict, difference = _verdict(row, system)
    if difference is None or _kind(verdict) == "explained" or verdict in UNASKED:
        return verdict
    return _code("; ".join(difference.unexpected) or "no answer")


def _last(evidence: Evidence) -> str:
    answers = [answer for each in evidence[-1:] for answer in each.answers]
    return _code("; ".join(answers) or "no answer")


def _code(text: str) -> str:
    text = text if len(text) <= CELL_SHOWN else f"{text[:CELL_SHOWN]}..."
    return f"`{_safe(text)}`"


def _safe(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").replace("\n", " ")


def _matrix(cells: list[Row], systems: list[Recording]) -> Iterator[str]:
    """A line for each state and request; how many cells are the same, or explained, or not."""
    yield from _head(systems, "state and request")
    groups: dict[str, list[Row]] = {}
    for row in cells:
        _, state, column = row.id.split("/", 2)
        groups.setdefault(f"`{state}` {column.split()[0]}", []).append(row)
    for name, rows in groups.items():
        counts = [Counter(_verdict(row, system)[0] for row in rows) for system in systems[1:]]
        told = [", ".join(f"{n} {what}" for what, n in sorted(count.items()) if what) for count in counts]
        yield f"| {name} | {len(rows)} cells | {' | '.join(told)} |"


OTHERWISE = {Verdict.DIFFERS.value, Verdict.FAILED.value}
UNASKED = {Verdict.NOT_SERVED.value, Verdict.NOT_REACHED.value}
PARTED = {*OTHERWISE, *UNASKED}


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
