"""The files of a data directory beside its segments, as import reads and export writes them."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import struct
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rota.conform.batches import CONTROL, TRANSACTIONAL, crc32c

if TYPE_CHECKING:
    from rota import _rota

META = "meta.properties"
MARKER = "rota.version"
TOPICS = "rota.topics"
NODE = "rota.node"
HEAD = "rota.topics 1\n"
EPOCHS = "leader-epoch-checkpoint"
NOT_IN_ENGINE = {"rota.groups": "the settings of groups", "rota.acls": "ACLs", "rota.users": "users"}
"""Files that each server of a cluster has by itself."""


def properties(directory: Path) -> dict[str, str]:
    """The lines of `meta.properties`; {} without one."""
    try:
        lines = (directory / META).read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def of_one_server(directory: Path) -> str | None:
    """The cluster id of a directory that a server without engine wrote groups or messages into; None: it is not one."""
    meta = properties(directory)
    if MARKER not in meta or (directory / NODE).exists():
        return None
    has_partitions = any(path.is_dir() for path in directory.glob("*-[0-9]*"))
    return meta.get("cluster.id", "") if has_partitions else None


def groups_sum(directory: Path, log: _rota.DataLog, topics: Iterable[str]) -> str:
    """A checksum of the ends and epochs of the partitions of these topics. A server that commits there changes it."""
    found = hashlib.sha256()
    for topic, number, _, end in log.partitions():
        if topic in topics:
            epochs = directory / f"{topic}-{number}" / EPOCHS
            found.update(f"{topic} {number} {end}\n".encode())
            found.update(epochs.read_bytes() if epochs.exists() else b"")
    return found.hexdigest()


def summed(text: str) -> str:
    """A file's text with the line of its checksum."""
    return f"{text}crc32c {crc32c(text.encode()):08x}\n"


def entries(text: str) -> str:
    """The lines of a table of topics. Raises ValueError if it is damaged, or of another format."""
    body = text[: text.rfind("crc32c ")]
    if summed(body) != text:
        raise ValueError(f"`{TOPICS}` is damaged: restore it from a copy")
    if not body.startswith(HEAD):
        raise ValueError(f"`{TOPICS}` has a format that this release does not know: {body.splitlines()[0]}")
    return body.removeprefix(HEAD)


def split(text: str, leaders: list[int]) -> dict[str, bytes]:
    """Each topic of a table as a table of its own, with these nodes as leaders by turns."""
    topics: dict[str, str] = {}
    name = ""
    for line in entries(text).splitlines(keepends=True):
        if line.startswith("topic "):
            head, topic_id, name, of = line.split()
            turn = len(topics)
            chosen = [leaders[(turn + at) % len(leaders)] for at in range(of.count(",") + 1)]
            line = f"{head} {topic_id} {name} {','.join(map(str, chosen))}\n"
        topics[name] = topics.get(name, "") + line
    return {name: summed(HEAD + lines).encode() for name, lines in topics.items()}


def table(topics: list[bytes]) -> str:
    """One table of all topics."""
    return summed(HEAD + "".join(entries(topic.decode()) for topic in topics))


@contextmanager
def beside(directory: Path) -> Iterator[Path]:
    """A new directory next to a path, which takes its place at the end, durably, and is removed after an error."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield scratch
        for at in (scratch, directory.parent):
            _sync(at)
        if directory.exists():
            directory.rmdir()
        scratch.rename(directory)
        _sync(directory.parent)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _sync(directory: Path) -> None:
    if os.name == "posix":
        at = os.open(directory, os.O_RDONLY)
        os.fsync(at)
        os.close(at)


def write(path: Path, content: bytes) -> None:
    """Write a file durably."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def without_unknown(batches: bytes, known: Collection[int]) -> bytes:
    """Batches without those of open transactions, unless a coordinator knows their producers: no marker would come."""
    found: list[bytes] = []
    undecided: dict[int, list[int]] = {}
    at = 0
    while at < len(batches):
        (length,) = struct.unpack_from(">i", batches, at + 8)
        (attributes,) = struct.unpack_from(">h", batches, at + 21)
        (producer_id,) = struct.unpack_from(">q", batches, at + 43)
        if attributes & CONTROL:
            undecided.pop(producer_id, None)
        elif attributes & TRANSACTIONAL:
            undecided.setdefault(producer_id, []).append(len(found))
        found.append(batches[at : at + 12 + length])
        at += 12 + length
    unknown = {number for of, numbers in undecided.items() if of not in known for number in numbers}
    return b"".join(batch for number, batch in enumerate(found) if number not in unknown) if unknown else batches


def write_topic(directory: Path, topic: str, partitions: list[tuple[bytes, list[tuple[int, int]]]]) -> None:
    """Write the partitions of a topic, one segment each, with epochs and their first offsets."""
    topic_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    for number, (batches, epochs) in enumerate(partitions):
        folder = directory / f"{topic}-{number}"
        folder.mkdir()
        first = int.from_bytes(batches[:8], "big")
        write(folder / f"{first:020}.log", batches)
        write(folder / "partition.metadata", f"version: 0\ntopic_id: {topic_id}".encode())
        rows = "".join(f"{epoch} {first}\n" for epoch, first in epochs)
        write(folder / EPOCHS, f"0\n{len(epochs)}\n{rows}".encode())
        _sync(folder)
