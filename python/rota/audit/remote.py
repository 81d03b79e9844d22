"""Logs at URLs: the command lists them; a task copies one partition to its own disk and does there what is due."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.audit import opinion
from rota.audit.engines import MODEL, Result, run, tasks_of
from rota.audit.folds import Fold
from rota.audit.hadoop import Entry, Hadoop, Site, trimmed
from rota.audit.logs import (
    JOURNAL,
    NOTHING_IN,
    OFFSETS,
    OFFSETS_TOPIC,
    PARTITION,
    SEGMENT,
    SOURCES,
    Ahead,
    Part,
    ahead_in,
    partitions_in,
    parts_of,
    unreadable_part,
)
from rota.audit.promises import Promised
from rota.journal import JOURNAL_DIRECTORY, JOURNAL_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa

AHEAD = re.compile(r"rota\.wal\..*")
"""Names of the files of a data directory that have records of all its partitions."""
OF_MODEL = re.compile(r"rota\.wal\..*|rota\.checkpoint|meta\.properties")
"""Names of the files beside a journal that the model reads."""
NOT_NEEDED = (".index", ".timeindex")
BYTES_A_RECORD = 100
"""About, for settings that depend on the number of records."""
KINDS = [Promised, Fold, opinion.Opinion]


class RemotePartition(NamedTuple):
    """A partition of a log at a URL."""

    root: str
    """URL of the data directory, the journal, or what a directory of a partition lies in."""
    directory: str
    """Of the partition, below the root."""
    size_bytes: int
    """Of its segments, when the command listed them."""
    asks_model: bool
    """Whether the model is asked about it, if it is of a journal."""


def _directories(hadoop: Hadoop, url: str) -> tuple[str, list[str]]:
    """The root of a path, and the directories of partitions below it."""
    if not hadoop.is_directory(url):
        raise NotADirectoryError(f"`{url}` is a file: give a data directory, a journal or the directory of a partition")
    above, _, name = url.rpartition("/")
    if PARTITION.fullmatch(name):
        return above, [name]
    inside = hadoop.entries(url)
    found = [one.name for one in inside if one.is_directory and PARTITION.fullmatch(one.name)]
    with tempfile.TemporaryDirectory(prefix="rota-ahead-") as scratch:
        ahead, trouble = _ahead_at(hadoop, url, Path(scratch))
    found += sorted({directory.name for directory in ahead} - set(found))
    if any(one.name == JOURNAL_DIRECTORY and one.is_directory for one in inside):
        of_journal = hadoop.entries(f"{url}/{JOURNAL_DIRECTORY}")
        journals = [f"{JOURNAL_DIRECTORY}/{one.name}" for one in of_journal if PARTITION.fullmatch(one.name)]
        # The task of a partition beside the write-ahead files says what is wrong with them.
        found += [f"{OFFSETS_TOPIC}-0", *journals] if trouble and journals and not found else journals
    if trouble and not found:
        raise OSError(renamed(trouble, scratch, url))
    return url, found


def _ahead_at(hadoop: Hadoop, url: str, place: Path) -> tuple[Ahead, str | None]:
    """What the write-ahead files of a data directory have, and why they cannot be read. Copies that can be are left."""
    said = None
    while True:
        try:
            for name in [one.name for one in hadoop.entries(url) if AHEAD.fullmatch(one.name)]:
                with suppress(FileNotFoundError):  # segments have what it had
                    hadoop.fetch(f"{url}/{name}", place / name)
        except OSError as error:
            return _without(place, error)
        try:
            return ahead_in(place), None
        except OSError as error:
            # A frame that was written while the file was copied looks like damage once, real damage every time.
            if str(error) == said:
                return _without(place, error)
            said = str(error)


def _without(place: Path, error: OSError) -> tuple[Ahead, str]:
    for copy in place.iterdir():
        if AHEAD.fullmatch(copy.name):
            copy.unlink()
    return {}, str(error)


def _segment_bytes(inside: list[Entry]) -> int:
    return sum(one.size_bytes for one in inside if SEGMENT.fullmatch(one.name))


def partitions_at(hadoop: Hadoop, urls: list[str]) -> list[RemotePartition]:
    """The partitions of all logs at these URLs. Raises OSError with the reason if one cannot be listed or has none."""
    found: dict[str, RemotePartition] = {}
    for url in dict.fromkeys(map(trimmed, urls)):
        root, directories = _directories(hadoop, url)
        if not directories:
            raise FileNotFoundError(NOTHING_IN.format(url))
        for directory in directories:
            place = f"{root}/{directory}"
            inside: list[Entry] = []
            with suppress(OSError):  # its task says why
                inside = hadoop.entries(place)
            is_journal = directory.rpartition("/")[2].startswith(JOURNAL_TOPIC)
            found[place] = RemotePartition(root, directory, _segment_bytes(inside), is_journal)
    journals = sorted((url for url, partition in found.items() if partition.asks_model), key=_numbered)
    asked = set(journals[:: max(1, -(-len(journals) // opinion.PARTITIONS_ASKED))])
    return [partition._replace(asks_model=url in asked) for url, partition in found.items()]


def _numbered(url: str) -> tuple[str, int]:
    """The order of partitions, which is that of an audit of directories."""
    name, _, number = url.rpartition("-")
    return name, int(number)


def _scratch() -> str | None:
    """A directory of the worker with room for large files; None: the one for temporary files."""
    given = os.environ.get("LOCAL_DIRS") or os.environ.get("SPARK_LOCAL_DIRS")
    first = None if given is None else given.split(",")[0]
    return first if first is not None and Path(first).is_dir() else None


def renamed(value: Any, old: str, new: str) -> Any:
    """A value, and all in it, with another beginning of paths."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, dict):
        return {key: renamed(one, old, new) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, old, new) for one in value]
    if isinstance(value, tuple):
        parts = (renamed(one, old, new) for one in value)
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return value


@contextmanager
def fetched(partition: RemotePartition, site: Site) -> Iterator[tuple[str, list[Part]]]:
    """Where the files of a partition are for now, in place of its root, and its parts. A file that cannot be fetched is
    a part that says so."""
    with tempfile.TemporaryDirectory(prefix="rota-audit-", dir=_scratch()) as scratch:
        with site.opened() as hadoop:
            parts = _fetched(hadoop, partition, Path(scratch))
        yield scratch, parts


def _fetched(hadoop: Hadoop, partition: RemotePartition, place: Path) -> list[Part]:
    """Copy the files of a partition, those of a server that is running as well: a write-ahead file before the segments
    that are behind it, and what is there now, not when the command listed it."""
    url, directory = f"{partition.root}/{partition.directory}", place / partition.directory
    directory.mkdir(parents=True)
    match = PARTITION.fullmatch(directory.name)
    assert match is not None, directory
    source, number = SOURCES[match[1]], int(match[2])
    above, ahead, of_model = url.rpartition("/")[0], list[Part](), list[Path]()
    if source == JOURNAL:  # whose records are in no write-ahead file
        of_model = _of_model(hadoop, above, place / "model") if partition.asks_model else []
    elif (wrong := _ahead_at(hadoop, above, directory.parent)[1]) is not None:
        ahead = [unreadable_part(directory.parent / OFFSETS_TOPIC, OFFSETS, -1, wrong)]
    inside: list[Entry] = []
    try:
        inside = hadoop.entries(url)
    except FileNotFoundError as error:
        if partition.size_bytes:
            return [*ahead, unreadable_part(directory, source, number, error)]
    except OSError as error:
        return [*ahead, unreadable_part(directory, source, number, error)]
    troubles = _copied(hadoop, url, inside, directory)
    parts = parts_of([directory])
    if not parts and not troubles and (size_bytes := _segment_bytes(inside)):
        troubles[str(directory)] = f"`{url}`: nothing was read of {size_bytes} bytes"
    told = {part.path for part in parts}
    parts = [part._replace(trouble=troubles.get(part.path, part.trouble)) for part in parts]
    for copy in of_model:
        copy.rename(directory.parent / copy.name)
    others = [(Path(path), reason) for path, reason in troubles.items() if path not in told]
    return [*ahead, *parts, *(unreadable_part(path, source, number, reason) for path, reason in others)]


def _of_model(hadoop: Hadoop, url: str, place: Path) -> list[Path]:
    """Copies of what lies beside a journal. Without it the model has no opinion, as of a directory."""
    place.mkdir()
    with suppress(OSError):
        for name in [one.name for one in hadoop.entries(url) if OF_MODEL.fullmatch(one.name)]:
            hadoop.fetch(f"{url}/{name}", place / name)
    return list(place.iterdir())


def _copied(hadoop: Hadoop, url: str, inside: list[Entry], directory: Path) -> dict[str, str]:
    """Copy the files of a partition; gives why some cannot be read."""
    troubles: dict[str, str] = {}
    for name in [one.name for one in inside if not one.name.endswith(NOT_NEEDED)]:
        target = directory / name
        try:
            hadoop.fetch(f"{url}/{name}", target)
        except OSError as error:
            target.unlink(missing_ok=True)
            if isinstance(error, FileNotFoundError) and not SEGMENT.fullmatch(name):
                continue
            target.symlink_to(name)  # to itself, so that nothing can open it
            troubles[str(target)] = str(error)
    return troubles


def results_of(partition: RemotePartition, site: Site) -> list[Result]:
    """All that is due of a partition."""
    with fetched(partition, site) as (scratch, parts):
        there = partitions_in(parts)
        tasks = [task for task in tasks_of(there) if task.kind != MODEL or partition.asks_model]
        return [renamed(run(task, there), scratch, partition.root) for task in tasks]


def in_order(found: list[list[Result]]) -> list[Result]:
    """The results of all partitions in the order of an audit of directories."""
    results = sorted((one for of_partition in found for one in of_partition), key=_order)
    # What is wrong with a write-ahead file, each partition of its directory shows, with the same or another reason.
    ahead = {one.log: at for at, one in reversed([*enumerate(results)]) if one.partition < 0}
    return [one for at, one in enumerate(results) if one.partition >= 0 or ahead[one.log] == at]


def _order(result: Result) -> tuple[int, str, str, int]:
    source = result.source if isinstance(result, Promised) else JOURNAL
    return KINDS.index(type(result)), result.log, source, result.partition


def rows_at(partition: RemotePartition, site: Site) -> Iterator[pa.RecordBatch]:
    """The rows of a partition."""
    from rota.audit.rows import rows_of

    with fetched(partition, site) as (scratch, parts):
        for part in parts:
            log, trouble = renamed((part.log, part.trouble), scratch, partition.root)
            yield from rows_of(part._replace(log=log, trouble=trouble))
