"""Logs at URLs: the command lists them; a task copies one partition to its own disk and does there what is due."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.audit import opinion
from rota.audit.engines import MODEL, Result, run, tasks_of
from rota.audit.folds import Fold
from rota.audit.hadoop import Entry, Hadoop, Site
from rota.audit.logs import JOURNAL, NOTHING_IN, PARTITION, Part, ahead_in, partitions_in, parts_of
from rota.audit.promises import Promised
from rota.journal import JOURNAL_DIRECTORY, JOURNAL_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa

BESIDE = re.compile(r"rota\.wal\..*|rota\.checkpoint|meta\.properties")
"""Names of files of a data directory that belong to all its partitions."""
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
    files: list[str]
    """What a task needs, below the root: also what lies beside the directory, such as write-ahead files."""
    size_bytes: int
    asks_model: bool
    """Whether the model is asked about it, if it is of a journal."""


def _directories(hadoop: Hadoop, url: str) -> tuple[str, list[str], list[str]]:
    """The root of a path, the directories of partitions below it, and what lies beside them."""
    if not hadoop.is_directory(url):
        raise NotADirectoryError(f"`{url}` is a file: give a data directory, a journal or the directory of a partition")
    above, _, name = url.rpartition("/")
    if PARTITION.fullmatch(name):
        return above, [name], _beside(hadoop.entries(above))
    inside = hadoop.entries(url)
    beside = _beside(inside)
    found = [one.name for one in inside if one.is_directory and PARTITION.fullmatch(one.name)]
    if any(one.name == JOURNAL_DIRECTORY and one.is_directory for one in inside):
        of_journal = hadoop.entries(f"{url}/{JOURNAL_DIRECTORY}")
        found += [f"{JOURNAL_DIRECTORY}/{one.name}" for one in of_journal if PARTITION.fullmatch(one.name)]
        beside += [f"{JOURNAL_DIRECTORY}/{name}" for name in _beside(of_journal)]
    with tempfile.TemporaryDirectory(prefix="rota-ahead-") as scratch:
        for name in beside:
            if "/" not in name:
                hadoop.fetch(f"{url}/{name}", Path(scratch, name))
        try:
            found += sorted({directory.name for directory in ahead_in(Path(scratch))} - set(found))
        except OSError as error:
            if not found:
                raise OSError(renamed(str(error), scratch, url)) from error
            # Else the tasks meet it, too.
    return url, found, beside


def _beside(inside: list[Entry]) -> list[str]:
    return [one.name for one in inside if BESIDE.fullmatch(one.name) and not one.is_directory]


def partitions_at(hadoop: Hadoop, urls: list[str]) -> list[RemotePartition]:
    """The partitions of all logs at these URLs. Raises OSError with the reason if one cannot be listed or has none."""
    found: dict[str, RemotePartition] = {}
    for url in dict.fromkeys(url.rstrip("/") for url in urls):
        root, directories, beside = _directories(hadoop, url)
        if not directories:
            raise FileNotFoundError(NOTHING_IN.format(url))
        for directory in directories:
            above, _, name = directory.rpartition("/")
            is_journal = name.startswith(JOURNAL_TOPIC)
            inside = hadoop.entries(f"{root}/{directory}") if hadoop.exists(f"{root}/{directory}") else []
            needed = [one for one in inside if not one.name.endswith(NOT_NEEDED)]
            files = [f"{directory}/{one.name}" for one in needed]
            files += [other for other in beside if other.rpartition("/")[0] == above]
            size_bytes = sum(one.size_bytes for one in needed)
            found[f"{root}/{directory}"] = RemotePartition(root, directory, files, size_bytes, is_journal)
    journals = [url for url, partition in found.items() if partition.asks_model]
    asked = set(journals[:: max(1, -(-len(journals) // opinion.PARTITIONS_ASKED))])
    return [partition._replace(asks_model=url in asked) for url, partition in found.items()]


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
        (Path(scratch) / partition.directory).mkdir(parents=True)
        troubles: dict[str, str] = {}
        with site.opened() as hadoop:
            for name in partition.files:
                target = Path(scratch, name)
                try:
                    hadoop.fetch(f"{partition.root}/{name}", target)
                except OSError as error:
                    target.unlink(missing_ok=True)
                    target.mkdir()  # which is no file that could be read
                    troubles[str(target)] = str(error)
        parts = parts_of([Path(scratch) / partition.directory])
        yield scratch, [part._replace(trouble=troubles.get(part.path, part.trouble)) for part in parts]


def results_of(partition: RemotePartition, site: Site) -> list[Result]:
    """All that is due of a partition."""
    with fetched(partition, site) as (scratch, parts):
        there = partitions_in(parts)
        tasks = [task for task in tasks_of(there) if task.kind != MODEL or partition.asks_model]
        return [renamed(run(task, there), scratch, partition.root) for task in tasks]


def in_order(found: list[list[Result]]) -> list[Result]:
    """The results of all partitions in the order of an audit of directories."""
    results = sorted((one for of_partition in found for one in of_partition), key=_order)
    # What is wrong with a write-ahead file, each partition of its directory shows.
    return [one for at, one in enumerate(results) if one.partition >= 0 or one not in results[:at]]


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
