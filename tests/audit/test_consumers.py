"""The promises of consumer groups: what breaks each is found, what only looks like it is not; and random walks of the
coordinator, whole and compacted, are clean. `AUDIT_WALKS` makes them longer.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from rota import _rota
from rota.audit.checks import CHECK_OF
from rota.audit.rows import ARROW_SCHEMA, buffers_of
from rota.check.differential.walks import WALKS
from tests.audit.consumer_logs import compacted, found_in, walked

GROUP, TOPIC = "g", f"{1:032x}"
RUNS = int(os.environ.get("AUDIT_WALKS", "150"))
Held = dict[int, int]
"""Partitions with the epochs at which they were granted."""


class Log:
    """Records of one consumer group."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.offset = 0

    def record(self, kind: str, *parts: dict[str, Any], **fields: Any) -> Log:
        head = {"kind": kind, "group": GROUP, "offset": self.offset, "at_ms": self.offset} | fields
        same = {name: head.get(name) for name in ("group", "offset", "at_ms", "member")}
        self.rows += [{"part": part} | row for part, row in enumerate([head, *(same | more for more in parts)])]
        self.offset += 1
        return self

    def missing(self, kind: str = "compacted") -> Log:
        """Offsets without a record, or one that cannot be read."""
        return self.record(kind, group=None, count=1)

    def group(self, epoch: int) -> Log:
        return self.record("consumer_group", generation=epoch)

    def target_epoch(self, epoch: int) -> Log:
        return self.record("consumer_target_epoch", generation=epoch)

    def names(self, member: str, assignor: str | None) -> Log:
        return self.record("consumer_member", member=member, protocol=assignor)

    def target(self, member: str, *indexes: int) -> Log:
        places = [{"kind": "consumer_target_partition", "topic": TOPIC, "topic_partition": at} for at in indexes]
        return self.record("consumer_target", *places, member=member)

    def holds(self, member: str, epoch: int, assigned: Held, pending: Held | None = None) -> Log:
        kinds = {"consumer_assigned": assigned, "consumer_pending": pending or {}}
        places = [
            {"kind": kind, "topic": TOPIC, "topic_partition": at, "generation": granted}
            for kind, held in kinds.items()
            for at, granted in held.items()
        ]
        return self.record("consumer_current", *places, member=member, generation=epoch)

    def gone(self, member: str) -> Log:
        for kind in ("consumer_current", "consumer_target", "consumer_member"):
            self.record(kind, member=member, note="removed")
        return self

    def ends(self) -> Log:
        self.record("consumer_target_epoch", note="removed")
        return self.record("consumer_group", note="removed")

    def computes(self, epoch: int, **targets: tuple[int, ...]) -> Log:
        """A new epoch with its target."""
        self.group(epoch)
        for member, indexes in targets.items():
            self.target(member, *indexes)
        return self.target_epoch(epoch)


class Journal(Log):
    """The same as entries of a journal, each with an append that becomes durable or not."""

    def __init__(self, *, is_durable: bool = True) -> None:
        super().__init__()
        self.is_durable = is_durable
        self.entry({"kind": "began", "group": None})
        self.entry({"kind": "loaded", "group": None})
        self.entry({"kind": "topics_changed", "group": None, "topic": "orders", "note": TOPIC, "count": 3})

    def entry(self, *rows: dict[str, Any]) -> Journal:
        same = {"offset": self.offset, "sequence": self.offset, "at_ms": self.offset, "mono_ms": self.offset}
        self.rows += [same | {"group": GROUP, "part": part} | row for part, row in enumerate(rows)]
        self.offset += 1
        return self

    def record(self, kind: str, *parts: dict[str, Any], **fields: Any) -> Log:
        append_id = self.offset
        head = {"kind": kind, "append_id": append_id} | fields
        more = [{"append_id": append_id, "member": fields.get("member")} | part for part in parts]
        self.entry({"kind": "append", "append_id": append_id, "count": 1}, head, *more)
        if self.is_durable:
            self.entry({"kind": "appended", "append_id": append_id, "error": "NONE"})
        return self

    def commits(self, epoch: int, *indexes: int, error: str = "NONE", member: str = "m") -> Journal:
        asked = {"api": "OffsetCommit", "ticket": self.offset, "member": member, "generation": epoch}
        places = [{"kind": "commit", "topic": "orders", "topic_partition": at, "committed": 5} for at in indexes]
        self.entry({"kind": "request", **asked}, *(asked | place for place in places))
        return self.entry({"kind": "answer", "error": error} | asked)


def began() -> Log:
    """One member that has all of three partitions at epoch 2."""
    return Log().computes(2, m=(0, 1, 2)).holds("m", 2, {0: 2, 1: 2, 2: 2})


def shared() -> Log:
    """A second member is to have one of them; the first one has to give it up."""
    return began().computes(3, m=(0, 1), n=(2,)).holds("n", 3, {}).holds("m", 2, {0: 2, 1: 2}, {2: 2})


def held() -> Journal:
    """A member at epoch 4 that has held partition 0 since epoch 2 and partition 1 since epoch 4."""
    log = Journal()
    log.group(4).target_epoch(4)
    log.holds("m", 4, {0: 2, 1: 4})
    return log


def promised() -> Journal:
    """A member at epoch 2, and a record on its way that brings it to epoch 3."""
    log = Journal()
    log.holds("m", 2, {0: 2})
    log.is_durable = False
    log.holds("m", 3, {0: 2, 1: 3})
    return log


class Case(NamedTuple):
    """A log, and what is found in it."""

    log: Log
    found: set[str]


CASES = {
    "one member": Case(began(), set()),
    "a partition changes hands": Case(shared().holds("m", 3, {0: 2, 1: 2}).holds("n", 3, {2: 3}), set()),
    "a partition is granted while it is pending": Case(shared().holds("n", 3, {2: 3}), {"held by two"}),
    "a partition is granted while it is assigned": Case(began().holds("n", 2, {0: 2}), {"held by two"}),
    "a partition of a member that is gone": Case(began().gone("m").holds("n", 2, {0: 2}), set()),
    "another holder, of whom a record may be missing": Case(began().missing().holds("n", 2, {0: 2}), set()),
    "another holder, of whom a record may be damaged": Case(began().missing("unreadable").holds("n", 2, {0: 2}), set()),
    "two holders after records that are missing": Case(
        began().missing().holds("n", 2, {0: 2}).holds("m", 2, {0: 2}), {"held by two"}
    ),
    "the group epoch falls": Case(began().group(4).group(3), {"epoch back"}),
    "the target epoch falls": Case(began().group(4).target_epoch(4).target_epoch(3), {"epoch back"}),
    "a group begins anew": Case(began().gone("m").ends().computes(1), set()),
    "a target is ahead of its group": Case(began().target_epoch(3), {"epoch ahead"}),
    "a member is ahead of its target": Case(began().group(3).holds("m", 3, {}), {"epoch ahead"}),
    "a member's epoch falls": Case(
        began().group(3).target_epoch(3).holds("m", 3, {}).holds("m", 2, {}), {"member epoch back"}
    ),
    "a static member goes away and comes back": Case(began().holds("m", -2, {0: 0}).holds("m", 2, {0: 0}), set()),
    "a member begins at 0": Case(began().holds("m", 0, {}).holds("m", 2, {}), set()),
    "something is granted while something is pending": Case(
        shared().holds("m", 2, {0: 2, 1: 2, 3: 3}, {2: 2}), {"granted too early"}
    ),
    "more is pending": Case(shared().holds("m", 2, {0: 2}, {1: 2, 2: 2}), set()),
    "a target has a partition twice": Case(began().computes(3, m=(0, 1), n=(1, 2)), {"target of two"}),
    "targets overlap only until their epoch is written": Case(began().target("n", 2).target("m", 0, 1), set()),
    "a target leaves a partition out": Case(began().computes(3, m=(0, 1)), {"target incomplete"}),
    "a topic is no longer in the target": Case(began().computes(3, m=()), set()),
    "an assignor of one's own leaves a partition out": Case(began().names("m", "mine").computes(3, m=(0, 1)), set()),
    "who named an assignor of one's own is gone": Case(
        began().names("n", "mine").gone("n").computes(3, m=(0, 1)), {"target incomplete"}
    ),
    "a target of which the rest is missing": Case(began().missing().computes(3, n=(1, 2)), set()),
    "a converted group's first target is its leader's": Case(
        began().gone("m").ends().record("group").computes(3, m=(0, 2), n=(2,)), set()
    ),
    "a converted group's second target": Case(
        began().gone("m").ends().record("group").computes(3, m=(0,)).computes(4, m=(0,), n=(0,)), {"target of two"}
    ),
    "a commit of the member's epoch": Case(held().commits(4, 0, 1, 2), set()),
    "a commit of an older epoch": Case(held().commits(3, 0), set()),
    "a commit of an older epoch that is refused": Case(held().commits(3, 0, 1, error="STALE_MEMBER_EPOCH"), set()),
    "a commit of an epoch before the grant": Case(held().commits(3, 0, 1), {"commit not fenced"}),
    "a commit of an older epoch for another's partition": Case(held().commits(3, 2), {"commit not fenced"}),
    "a commit of a later epoch": Case(held().commits(5, 0), {"commit not fenced"}),
    "a commit of no epoch": Case(held().commits(-1, 0), {"commit not fenced"}),
    "a commit of an unknown member": Case(held().commits(3, 0, member="n"), set()),
    "a commit of the epoch on its way": Case(promised().commits(3, 1), set()),
    "a commit of the epoch that ends": Case(promised().commits(2, 0), set()),
    "a commit beyond the epoch on its way": Case(promised().commits(4, 0), {"commit not fenced"}),
}


def found(log: Log, at: int = 0) -> set[str]:
    """What is found in a log that is kept and resumed behind the row `at`."""
    rows = [dict.fromkeys(ARROW_SCHEMA.names) | row for row in log.rows]
    folds = [_rota.AuditFold(isinstance(log, Journal), False) for _ in range(2)]
    names: set[str] = set()
    for fold, part in zip(folds, (rows[:at], rows[at:]), strict=True):
        if fold is folds[1]:
            fold.resume(folds[0].state())
            for name, state in folds[0].group_states():
                fold.resume_group(name, state)
        batch = pa.RecordBatch.from_pylist(part, schema=ARROW_SCHEMA)
        fold.rows(batch.num_rows, buffers_of(batch))
        names |= {found for found, *_ in fold.take()}
    return {name for name in names if CHECK_OF[name].id.startswith("C")}


@pytest.mark.parametrize("name", CASES)
def test_the_fold_knows_what_a_consumer_group_may_do(name: str) -> None:
    log, expected = CASES[name]
    ends = [at for at, row in enumerate(log.rows) if row["part"] == 0]
    assert [found(log, at) for at in ends] == [expected] * len(ends)


def test_a_fold_of_a_log_that_begins_later_knows_nothing_of_before() -> None:
    log = Log()
    log.offset = 7
    log.computes(3, n=(1, 2)).holds("n", 3, {1: 3, 2: 3}).computes(4, n=(1,))
    assert found(log) == set()


@pytest.mark.parametrize("walk", ["consumer", "conversion"])
def test_random_walks_of_the_coordinator_are_clean(walk: str) -> None:
    events = records = 0
    for seed in range(RUNS):
        log, of_run = walked(seed, WALKS[walk])
        events, records = events + of_run, records + len(log)
        for dirty in (0, len(log) // 2, len(log)):
            left = compacted(log, dirty)
            wrong = [each for each in found_in(left) if CHECK_OF[each.name].id.startswith("C")]
            assert wrong == [], f"seed {seed}, compacted up to {dirty}"
    print(f"{walk}: {events} events, {records} records")
    assert records > RUNS * 20
