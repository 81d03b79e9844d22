"""`rota cluster export` and `import`: groups, transactional ids and topics as a data directory, and back."""

from __future__ import annotations

import secrets
import struct
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from rota import _rota, interrupts
from rota.arguments import INT32_MAX
from rota.cluster import TTL_MS, TTL_MS_MAX, TTL_MS_MIN
from rota.cluster import directory as files
from rota.cluster.looking import STATE_TOPIC, Image, image
from rota.cluster.reaching import Named, Reached, end, on_cluster, on_engine
from rota.exits import FAILED, INTERRUPTED, MISUSED, no_directory
from rota.log import OFFSETS_TOPIC, RECORDS_AT_ONCE

COUNTS = {OFFSETS_TOPIC: "offsets.topic.num.partitions", STATE_TOPIC: "transaction.state.log.num.partitions"}
"""The setting of a topic's number of partitions, in the order in which the engine numbers them."""
SETTINGS, PRODUCER_IDS, TOPIC, IMPORTING = "cluster", "producer-ids", "topic/", b"importing="
"""Notes: rust/cluster/src/notes.rs."""
IMPORTED = "imported"
"""The note with the checksum of the groups of the directory that was imported. No server reads it."""
PRODUCER_IDS_FROM = 1 << 47
"""Above all ids of a server without engine, which begin at random below 2**46: rust/server/src/topics/table.rs."""
TIDY_S = 10.0


@on_cluster
def export(
    cluster: Reached,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory to make.", show_default=False)],
) -> None:
    """Write groups, transactional ids and the table of topics as a data directory, also while servers run.

    `rota serve --data DIR`, `rota log`, `rota audit` and Kafka's dump tool read it. Each partition is as the engine had
    it at one moment; what was acknowledged before the command began is there. Messages of topics are not. DIR appears
    when it is whole. Exit code 0: it is there. 1: a partition is damaged. 2: DIR is not empty, or usage error. 3: no
    cluster has this prefix. 5: the engine did not answer.

    \b
    Examples:
      rota cluster export backup --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster export backup --config rota.toml --json
    """
    interrupts.allow(TIDY_S)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        cluster.fail(MISUSED, f"`{directory}` is not empty: name a directory that is not there yet")
    if not directory.absolute().parent.is_dir():
        cluster.fail(MISUSED, f"`{directory}`: there is no directory `{directory.absolute().parent}`")
    found = image(cluster.engine)
    if found.cluster_id is None:
        cluster.fail(FAILED, "no server has begun this cluster, or an import into it was interrupted")
    try:
        rows, topics = _write(cluster, found, directory.absolute())
    except KeyboardInterrupt:
        cluster.fail(INTERRUPTED, f"interrupted; `{directory}` was not made")
    size, epochs = sum(row["bytes"] for row in rows), [row["epoch"] for row in rows]
    facts = {"directory": str(directory), "history": found.history, "topics": topics, "partitions": rows}
    lines = [
        f"`{directory}` has {len(rows)} partitions, {size} bytes, and {len(topics)} topics without messages",
        f"history {found.history}, epochs {min(epochs)} to {max(epochs)}",
    ]
    cluster.show(facts, lines)


def _write(cluster: Reached, found: Image, directory: Path) -> tuple[list[dict[str, Any]], list[str]]:
    counts = {STATE_TOPIC: len(found.transactions), OFFSETS_TOPIC: len(found.partitions)}
    rows = []
    with files.beside(directory) as scratch:
        meta = f"version=1\nnode.id=1\ncluster.id={found.cluster_id}\n{files.MARKER}=1\n"
        files.write(scratch / files.META, meta.encode())
        # First: a transaction that ends meanwhile is seen as open, and its coordinator aborts it, never as one whose
        # markers are missing. Of one that begins meanwhile no coordinator knows, so its offsets are left out.
        for topic, begin in ((STATE_TOPIC, counts[OFFSETS_TOPIC]), (OFFSETS_TOPIC, 0)):
            open_in = _open_producers(scratch) if topic == OFFSETS_TOPIC else {}
            parts = []
            for number in range(counts[topic]):
                cluster.tell(f"reads partition {number} of {counts[topic]} of {topic}")
                epoch, batches, epochs = cluster.engine.export(begin + number)
                batches = files.without_unknown(batches, open_in.get(number, set()))
                parts.append((batches, epochs))
                rows.append({"topic": topic, "partition": number, "epoch": epoch, "bytes": len(batches)})
            if any(batches for batches, _ in parts) or topic == OFFSETS_TOPIC:
                files.write_topic(scratch, topic, parts)
        notes = cluster.engine.notes()
        topics = sorted(name for name in notes if name.startswith(TOPIC))
        files.write(scratch / files.TOPICS, files.table([notes[name] for name in topics]).encode())
    return rows, [name.removeprefix(TOPIC) for name in topics]


def _open_producers(directory: Path) -> dict[int, set[int]]:
    """The producers whose transactions a coordinator of a directory will end in each partition of groups."""
    log, found = _rota.DataLog(directory), defaultdict[int, set[int]](set)
    for topic, number, offset, _ in log.partitions():
        coordinator = _rota.TransactionCoordinator()
        while rows := log.records(topic, number, offset, RECORDS_AT_ONCE):
            offset = rows[-1][0] + 1
            for *_, key, value in rows:
                # A server refuses a partition with such a record. It is for `rota log` to show.
                with suppress(_rota.RecordError):
                    coordinator.load(key, value)
        # Other states have no participants.
        for transaction in coordinator.transactions().values():
            for of, partition in transaction.participants:
                if of == OFFSETS_TOPIC:
                    found[partition].add(transaction.producer_id)
    return found


@on_engine
def import_(
    engine: Named,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory of a server that is stopped.", show_default=False)
    ],
    ttl_ms: Annotated[
        int,
        typer.Option(
            "--ttl-ms",
            metavar="MS",
            min=TTL_MS_MIN,
            max=TTL_MS_MAX,
            help="The TTL of the cluster's servers.",
        ),
    ] = TTL_MS,
    leader: Annotated[
        list[int] | None,
        typer.Option(
            "--leader",
            metavar="N",
            min=0,
            max=INT32_MAX,
            help="A node id that leads topics; may be given again (default 1).",
        ),
    ] = None,
) -> None:
    """Bring the groups, transactional ids and topics of a data directory into an engine without a cluster.

    DIR is not changed, and no server may use it. Messages, ACLs, users and settings of groups stay behind. No server
    joins before the import is whole. If it is interrupted, run it again: it begins anew. Exit code 0: servers can
    start. 1: the engine has a cluster already, or DIR is damaged or in use. 2: usage error. 5: the engine did not
    answer.

    \b
    Examples:
      rota cluster import data --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster import data --config rota.toml --leader 1 --leader 2 --leader 3
    """
    if wrong := no_directory(directory):
        raise ValueError(wrong)
    meta = files.properties(directory)
    if meta and files.MARKER not in meta:
        raise ValueError(f"`{directory}` was written by Kafka: start `rota serve --data {directory} --take-over` once")
    if (directory / files.NODE).exists():
        raise ValueError(
            f"`{directory}` has the messages of a node, whose groups are in its engine: use `export` there"
        )
    log = engine.locked(directory)
    table = directory / files.TOPICS
    try:
        # What is no text is damaged as well.
        topics = files.split(table.read_text(errors="replace"), leader or [1]) if table.exists() else {}
    except ValueError as error:
        end(FAILED, str(error), as_json=engine.as_json)
    cluster = engine.begin()
    new = {TOPIC + name: note for name, note in topics.items()}
    new[IMPORTED] = files.groups_sum(directory, log, COUNTS).encode()
    try:
        settings = _read_into(cluster, log, meta.get("cluster.id", ""), new, ttl_ms)
    except KeyboardInterrupt:
        cluster.fail(INTERRUPTED, "interrupted; no server joins before the import is whole: run it again")
    left = ["messages", *(what for name, what in files.NOT_IN_ENGINE.items() if (directory / name).exists())]
    name = cluster.engine.name
    facts = {"engine": name, "settings": settings, "topics": sorted(topics), "not_imported": left}
    needed = "".join(f"--set {name}={settings[name]} " for name in COUNTS.values() if settings[name])
    lines = [
        f"{name} has the groups of `{directory}` and {len(topics)} topics; not imported: {', '.join(left)}",
        f"start servers with {needed}--ttl-ms {ttl_ms}",
    ]
    cluster.show(facts, lines)


def _read_into(
    cluster: Reached, log: _rota.DataLog, cluster_id: str, new: dict[str, bytes], ttl_ms: int
) -> dict[str, Any]:
    """Fill the engine. `new`: notes of the directory. That of the settings comes last: servers wait for it."""
    operator, counts = cluster.engine, Counter(topic for topic, *_ in log.partitions())
    notes = operator.notes()
    before = notes.pop(SETTINGS, None)
    if (before is None and notes) or (before is not None and not before.startswith(IMPORTING)):
        cluster.fail(FAILED, f"{operator.name} has a cluster already: give another prefix, database or schema")
    marker = IMPORTING + secrets.token_hex(16).encode() + b"\n"
    operator.change_notes([(SETTINGS, before, marker)])
    now_ms, at = time.time_ns() // 1_000_000, 0
    for topic in COUNTS:
        for number in range(counts[topic]):
            cluster.tell(f"writes partition {number} of {counts[topic]} of {topic}")
            operator.restore(log, topic, number, at, now_ms, marker)
            at += 1
    # An import that was interrupted may have been of a directory with more.
    operator.empty_from(at, now_ms, marker)
    free = f"{_free_producer_id(log, counts[STATE_TOPIC])} {0:032x}"
    new = new | {PRODUCER_IDS: free.encode()}
    # An import that was interrupted may have left others.
    operator.change_notes([(name, notes.get(name), new.get(name)) for name in new | notes])
    settings = {"id": cluster_id} | {name: counts[topic] for topic, name in COUNTS.items()} | {"ttl.ms": ttl_ms}
    operator.change_notes(
        [(SETTINGS, marker, "".join(f"{name}={value}\n" for name, value in settings.items()).encode())]
    )
    return settings


def is_imported(operator: _rota.EngineOperator, directory: Path) -> bool:
    """Whether an import brought the groups of a directory as they are now. Raises OSError if it cannot be read."""
    brought = operator.notes().get(IMPORTED)
    if brought is None:
        return False
    return brought.decode() == files.groups_sum(directory, _rota.DataLog(directory), COUNTS)


def _free_producer_id(log: _rota.DataLog, partitions: int) -> int:
    """Above all ids that live producers may have.

    Of idempotent ones, whose state is in partitions of messages, only the range of their ids is known. A directory that
    was exported from a cluster may have transactional ones above it: their values begin with a version and the id.
    """
    free = PRODUCER_IDS_FROM
    for number in range(partitions):
        offset = 0
        while rows := log.records(STATE_TOPIC, number, offset, RECORDS_AT_ONCE):
            offset = rows[-1][0] + 1
            ids = [struct.unpack_from(">q", value, 2)[0] + 1 for *_, value in rows if value is not None]
            free = max(free, *ids) if ids else free
    return free
