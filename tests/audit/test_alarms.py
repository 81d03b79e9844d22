"""What looks wrong and is not, and beside it what is: the fold is silent about the one, and finds the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from rota import _rota
from rota.audit.checks import CHECK_OF, VIOLATION
from rota.audit.rows import ARROW_SCHEMA, buffers_of

GROUP, INSTANCE = "payments", "i1"
SESSION_MS = 1_000


class Story:
    """Rows of a journal about one group, an entry after the other."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.offset = 0
        self.began_offset = 0
        self.appends = 0

    def entry(self, mono_ms: int, *rows: dict[str, Any]) -> Story:
        place = {"offset": self.offset, "sequence": self.offset - self.began_offset}
        base = place | {"at_ms": mono_ms, "mono_ms": mono_ms, "group": GROUP}
        self.rows += [base | {"part": part} | row for part, row in enumerate(rows)]
        self.offset += 1
        return self

    def began(self, mono_ms: int = 0) -> Story:
        self.began_offset = self.offset
        return self.entry(mono_ms, {"kind": "began", "group": None})

    def loaded(self, mono_ms: int = 0, held: int | None = None) -> Story:
        """`held`: the generation of the group, if the state has it."""
        return self.has_whole("loaded", mono_ms, held)

    def has_whole(self, kind: str, mono_ms: int, held: int | None) -> Story:
        of_group = [] if held is None else [{"kind": "state", "generation": held}]
        return self.entry(mono_ms, {"kind": kind, "group": None}, *of_group)

    def lacks(self, mono_ms: int, entries: int, held: int | None = None) -> Story:
        """The journal says that entries are missing, and goes on with a whole state."""
        self.began_offset -= entries - 1
        self.entry(mono_ms, {"kind": "gap", "group": None, "count": entries})
        return self.has_whole("snapshot", mono_ms, held)

    def was_cut(self, mono_ms: int, kind: str = "compacted", entries: int = 100, held: int | None = None) -> Story:
        """Retention removed entries before they were read, or they cannot be read. A whole state comes behind them."""
        self.rows.append({"offset": self.offset, "part": 0, "kind": kind, "count": entries})
        self.offset += entries
        return self.has_whole("snapshot", mono_ms, held)

    def advanced(self, mono_ms: int) -> Story:
        return self.entry(mono_ms, {"kind": "advanced", "group": None})

    def session_ended(self, mono_ms: int) -> Story:
        return self.entry(mono_ms, {"kind": "timer", "timer": "Session"})

    def asks_to_join(
        self, mono_ms: int, ticket: int, member: str = "", instance: str | None = None, session_ms: int = SESSION_MS
    ) -> Story:
        return self.entry(mono_ms, join(ticket, member, instance) | {"session_timeout_ms": session_ms})

    def is_told(self, mono_ms: int, ticket: int, member: str, generation: int, leads: bool = True) -> Story:
        return self.entry(mono_ms, answer(ticket, member, generation, leads), *listed(generation, *[member] * leads))

    def heartbeat(self, mono_ms: int, member: str, generation: int) -> Story:
        return self.is_well(mono_ms, "Heartbeat", member, generation)

    def is_well(self, mono_ms: int, api: str, member: str, generation: int) -> Story:
        """A request is answered NONE at once."""
        asked = {"kind": "request", "api": api, "ticket": 1_000 + self.offset, "error": "NONE"}
        return self.entry(mono_ms, asked | {"member": member, "generation": generation})

    def writes(self, mono_ms: int, generation: int | None, *members: dict[str, Any]) -> Story:
        """A group's record on its way; no generation: a tombstone."""
        append_id, self.appends = self.appends, self.appends + 1
        leader = members[0]["member"] if members else None
        record = {"kind": "group", "generation": generation, "leader": leader, "count": len(members)}
        rows = [record | ({"protocol": "range"} if members else {}), *members]
        return self.entry(
            mono_ms,
            {"kind": "append", "append_id": append_id, "count": 1},
            *({"append_id": append_id, "generation": generation} | row for row in rows),
        )

    def of_newer(self, mono_ms: int) -> Story:
        """There is a record of the newer protocol."""
        return self.entry(mono_ms, {"kind": "consumer"})

    def is_durable(self, mono_ms: int, append_id: int, *rows: dict[str, Any]) -> Story:
        return self.entry(mono_ms, {"kind": "appended", "append_id": append_id, "error": "NONE"}, *rows)

    def fails(self, mono_ms: int, append_id: int) -> Story:
        return self.entry(mono_ms, {"kind": "appended", "append_id": append_id, "error": "NOT_COORDINATOR"})


def join(ticket: int, member: str = "", instance: str | None = None, error: str | None = None) -> dict[str, Any]:
    asked = {"kind": "request", "api": "JoinGroup", "ticket": ticket, "member": member, "instance": instance}
    return asked | {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS, "error": error}


def answer(
    ticket: int, member: str, generation: int, leads: bool = True, error: str = "NONE", leader: str | None = None
) -> dict[str, Any]:
    told = {"kind": "answer", "api": "JoinGroup", "ticket": ticket, "member": member, "generation": generation}
    return told | {"error": error, "protocol": "range", "leader": member if leads else leader}


def listed(generation: int, *members: str) -> list[dict[str, Any]]:
    return [{"kind": "listed", "generation": generation, "member": member} for member in members]


def member(name: str, instance: str | None = None) -> dict[str, Any]:
    timeouts = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS}
    return {"kind": "member", "member": name, "instance": instance, "payload": b"plan"} | timeouts


def owner(name: str, subscribed: str, assigned: str) -> list[dict[str, Any]]:
    """A static member, to what it subscribes and what it has."""
    same = {"member": name, "instance": INSTANCE}
    place = {"kind": "assigned", "topic": assigned, "topic_partition": 0}
    return [member(name, INSTANCE), same | {"kind": "subscribed", "topic": subscribed}, same | place]


def started() -> Story:
    """A coordinator that is there, and a static member that is answered at 0 ms in generation 1."""
    return Story().began().loaded().asks_to_join(0, 1, "", INSTANCE).is_told(0, 1, "old", 1)


def replaced(ends_ms: int) -> Story:
    """A new member joins at 500 ms and is answered at 510 ms."""
    story = started().asks_to_join(500, 2, "", INSTANCE)
    return story.entry(510, answer(2, "new", 1), *listed(1, "new")).session_ended(ends_ms)


def joined_again(ends_ms: int, generation: int) -> Story:
    """A member joins once more and is answered at once."""
    told = [join(2, "old", INSTANCE, "NONE"), answer(2, "old", generation), *listed(generation, "old")]
    return started().entry(500, *told).session_ended(ends_ms)


def lengthened(ends_ms: int) -> Story:
    """A phase gives a member a session of 3 s in place of 1 s; its successor asks at 500 ms."""
    story = started().asks_to_join(100, 2, "old", INSTANCE, 3 * SESSION_MS).is_told(100, 2, "old", 2)
    story.asks_to_join(500, 3, "", INSTANCE, 3 * SESSION_MS)
    return story.entry(510, answer(3, "new", 2), *listed(2, "new")).session_ended(ends_ms)


def loading(is_before: bool, api: str = "Heartbeat") -> Story:
    """A member that is not listed any more asks the next coordinator."""
    story = started().asks_to_join(10, 2, "next").is_told(10, 2, "next", 2).began(20)
    return story.is_well(30, api, "old", 1).loaded(40) if is_before else story.loaded(30).is_well(40, api, "old", 1)


def commits_of_departed(generation: int) -> Story:
    """A member that is not listed any more commits."""
    story = started().asks_to_join(10, 2, "next").is_told(10, 2, "next", 2)
    return story.is_well(30, "OffsetCommit", "old", generation)


def taken_back(error: str, is_loaded: bool = False) -> Story:
    """A newcomer's record becomes durable, maybe the next coordinator loads it, and then the old member is back."""
    story = Story().began().loaded().writes(0, 1, member("old", INSTANCE)).is_durable(0, 0)
    story.asks_to_join(10, 1, "", INSTANCE).writes(10, 1, member("new", INSTANCE))
    story.is_durable(20, 1, answer(1, "new" if error == "NONE" else "", 1, leads=error == "NONE", error=error))
    if is_loaded:
        held = member("new", INSTANCE) | {"kind": "held", "generation": 1, "note": "loaded"}
        story.began(25).entry(25, {"kind": "loaded", "group": None}, held)
    return story.writes(30, 1, member("old", INSTANCE)).is_durable(30, 2)


def resubscribed(generation: int) -> Story:
    """A static member is back with another subscription; the record after it has this generation."""
    story = Story().began().loaded().writes(0, 0).is_durable(0, 0)
    story.writes(10, 1, *owner("old", "orders", "orders")).is_durable(10, 1)
    return story.writes(20, generation, *owner("new", "stock", "orders")).is_durable(20, 2)


def stood_still(*told_ms: int, until_ms: int = 5_000) -> Story:
    """A JoinGroup is answered after the latest time; the coordinator got the time at these."""
    story = Story().began().loaded().asks_to_join(0, 1, "slow")
    for at_ms in told_ms:
        story.advanced(at_ms)
    return story.is_told(until_ms, 1, "slow", 1)


def begun_anew(is_anew: bool) -> Story:
    """Two members lead generation 1: of one group, or of two that had its id one after the other."""
    story = Story().began().loaded().writes(0, 0).asks_to_join(0, 1, "one").is_told(0, 1, "one", 1)
    story = story.writes(10, 0) if is_anew else story
    return story.asks_to_join(20, 2, "two").is_told(20, 2, "two", 1)


def named_again(name: str) -> Story:
    """A static member leads, and then one that names no instance leads the same generation."""
    return started().asks_to_join(10, 2, name).is_told(10, 2, name, 1)


def begun_again(*ends: bool) -> Story:
    """Generation 1 has two leaders, one before and one after records that end so: a tombstone, if there are two of
    them, and one of a group that begins."""
    story = Story().began().loaded().writes(0, 0).is_durable(0, 0).asks_to_join(0, 1, "one").is_told(0, 1, "one", 1)
    story.writes(5, 1, member("one")).is_durable(5, 1)
    for append_id, (generation, is_durable) in enumerate(zip((None, 0)[-len(ends) :], ends, strict=True), 2):
        story.writes(10, generation)
        story = story.is_durable(10, append_id) if is_durable else story.fails(10, append_id)
    return story.asks_to_join(20, 2, "two").is_told(20, 2, "two", 1)


def done_late() -> Story:
    """Two members own a partition in a record whose append ends after that of the next one."""
    place = {"kind": "assigned", "topic": "orders", "topic_partition": 0}
    both = [row for name in ("one", "two") for row in (member(name), place | {"member": name})]
    story = Story().began().loaded().writes(0, 1, *both).writes(0, 2, member("one"))
    return story.is_durable(10, 1).is_durable(10, 0)


def converted_meanwhile(is_before: bool) -> Story:
    """Two members own a partition in a record, and the group is converted before or after its append begins."""
    place = {"kind": "assigned", "topic": "orders", "topic_partition": 0}
    both = [row for name in ("one", "two") for row in (member(name), place | {"member": name})]
    story = Story().began().loaded()
    story = story.of_newer(0).writes(5, 1, *both) if is_before else story.writes(0, 1, *both).of_newer(5)
    return story.is_durable(10, 0)


def two_records(*ends: int, generations: tuple[int, int] = (1, 2)) -> Story:
    """Two records, and in which order they are done."""
    story = Story().began().loaded()
    for generation in generations:
        story.writes(0, generation, member("one"))
    for append_id in ends:
        story.is_durable(10, append_id)
    return story


def without_a_leader(*, was_classic: bool) -> Story:
    """The record of a group has members and no leader, as that of a former consumer group may (D24)."""
    story = Story().began().loaded()
    if was_classic:
        story.writes(0, 1, member("one")).is_durable(0, 0)
    story.writes(10, 2, member("one"))
    story.rows = [row | {"leader": None} if row.get("generation") == 2 else row for row in story.rows]
    return story.is_durable(10, story.appends - 1)


def begun_unseen(behind: str, held: int | None, *generations: int) -> Story:
    """A group is in generation 5, and behind entries that the journal has not, or a start, it has these."""
    story = Story().began().loaded().writes(0, 5, member("one")).is_durable(0, 0)
    if behind == "start":
        story.began(10).loaded(10, held)
    elif behind == "gap":
        story.lacks(10, 7, held)
    else:
        story.was_cut(10, behind, held=held)
    for append_id, generation in enumerate(generations, 1):
        story.writes(20, generation, member(f"member of {generation}")).is_durable(20, append_id)
    return story


def under_way(behind: str) -> Story:
    """A request is asked and a record is written, and the journal has no more about them."""
    story = Story().began().loaded().asks_to_join(0, 1, "one").writes(0, 3, member("one"))
    story.was_cut(70_000, behind)
    return story.asks_to_join(70_010, 2, "two").is_told(70_020, 2, "two", 1).heartbeat(70_030, "two", 1)


def torn() -> Story:
    """A request is asked, much time passes, and a crash leaves half an entry at the end."""
    story = started().asks_to_join(10, 2, "one")
    for at_ms in range(100_000, 110_000, 1_000):
        story.advanced(at_ms)
    story.rows.append({"offset": story.offset, "part": 0, "kind": "torn"})
    return story


def told_unseen(behind: str) -> Story:
    """Generation 5 is answered, and behind what is missing generation 1, to another leader."""
    story = started().asks_to_join(5, 2, "old").is_told(5, 2, "old", 5)
    story = story.lacks(10, 7) if behind == "gap" else story.was_cut(10, behind)
    return story.asks_to_join(20, 3, "two").is_told(20, 3, "two", 1)


def told_twice() -> Story:
    """A JoinGroup is answered, and then in the name of another group."""
    story = started()
    return story.entry(10, answer(1, "old", 1) | {"group": "stock"})


def told_twice_by_consumers() -> Story:
    """The same in a consumer group."""
    story = Story().began().loaded().of_newer(0).asks_to_join(0, 1, "old").is_told(0, 1, "old", 1)
    return story.is_told(10, 1, "old", 1)


class Case(NamedTuple):
    """A story, and the violations in it."""

    story: Story
    found: set[str]


CASES = {
    "a newcomer's session is its predecessor's": Case(replaced(1_500), set()),
    "a newcomer's session ends too early": Case(replaced(1_400), {"early expiry"}),
    "a newcomer's session is what the last phase gave": Case(lengthened(3_500), set()),
    "a newcomer's session is what the last phase took": Case(lengthened(2_000), {"early expiry"}),
    "an answer of a known generation arms nothing": Case(joined_again(1_000, 1), set()),
    "an answer of a new generation arms": Case(joined_again(1_000, 2), {"early expiry"}),
    "a coordinator that loads answers NONE": Case(loading(is_before=True), set()),
    "a departed member is well": Case(loading(is_before=False), {"answer to a departed member"}),
    "a replacement is refused, and durable": Case(taken_back("COORDINATOR_NOT_AVAILABLE"), set()),
    "a departed member commits while one loads": Case(
        loading(is_before=True, api="OffsetCommit"), {"answer while loading", "commit of a departed member"}
    ),
    "a departed member commits without a generation": Case(commits_of_departed(-1), set()),
    "a departed member commits with its generation": Case(
        commits_of_departed(1), {"commit of a departed member", "commit of an old generation"}
    ),
    "a replacement is refused, durable, and loaded": Case(
        taken_back("COORDINATOR_NOT_AVAILABLE", is_loaded=True), {"replacement lost"}
    ),
    "a replacement is promised, and lost": Case(taken_back("NONE"), {"replacement lost"}),
    "another subscription in the same generation": Case(resubscribed(1), set()),
    "another subscription in the next one": Case(resubscribed(2), {"not subscribed"}),
    "a process stands still": Case(stood_still(), set()),
    "a process stands still for very long": Case(stood_still(until_ms=70_000), {"late phase"}),
    "a phase is overlooked": Case(stood_still(3_000), {"late phase"}),
    "a group begins anew": Case(begun_anew(is_anew=True), set()),
    "a group has two leaders": Case(begun_anew(is_anew=False), {"two leaders"}),
    "a leader joins again without its instance id": Case(named_again("old"), set()),
    "another one leads without an instance id": Case(named_again("other"), {"two leaders"}),
    "a group is deleted and begins anew": Case(begun_again(True, True), set()),
    "a group is deleted, which the log does not keep": Case(begun_again(False, False), set()),
    "a group is set back, which the log does not keep": Case(begun_again(False), {"two leaders"}),
    "a request is answered in the name of two groups": Case(told_twice(), {"answered twice"}),
    "a request to a consumer group is answered twice": Case(told_twice_by_consumers(), {"answered twice"}),
    "a record is on its way when its group is converted": Case(converted_meanwhile(is_before=False), {"two owners"}),
    "a record begins after its group was converted": Case(converted_meanwhile(is_before=True), set()),
    "a record that is done late has two owners": Case(done_late(), {"two owners"}),
    "a group that was a consumer group has no leader yet": Case(without_a_leader(was_classic=False), set()),
    "a classic group loses its leader": Case(without_a_leader(was_classic=True), {"leader not a member"}),
    "appends end out of order": Case(two_records(1, 0), set()),
    "a generation is written after a later one": Case(two_records(0, 1, generations=(2, 1)), {"generation back"}),
    "a request before a torn end has no answer": Case(torn(), {"never answered"}),
    "generations go back over a start that kept the group": Case(begun_unseen("start", 5, 1), {"generation back"}),
    "generations go back over a gap that kept the group": Case(begun_unseen("gap", 6, 1), {"generation back"}),
}
for behind in ("start", "gap", "compacted", "unreadable"):
    CASES |= {
        f"a group begins anew, unseen: {behind}": Case(begun_unseen(behind, None, 1), set()),
        f"a group has begun anew, unseen: {behind}": Case(begun_unseen(behind, 1, 1, 2), set()),
        f"a group that began anew, unseen, goes back: {behind}": Case(
            begun_unseen(behind, 2, 2, 1), {"generation back"}
        ),
    }
for behind in ("compacted", "unreadable"):
    CASES |= {f"what is under way is not seen to end: {behind}": Case(under_way(behind), set())}
for behind in ("gap", "compacted", "unreadable"):
    CASES |= {f"a group that began anew, unseen, is answered: {behind}": Case(told_unseen(behind), set())}


def violations(names: Iterable[str]) -> set[str]:
    return {name for name in names if CHECK_OF[name].severity == VIOLATION}


def found_in(rows: list[dict[str, Any]], *, is_whole: bool) -> list[str]:
    """What the fold finds in rows of a journal."""
    fold, found = _rota.AuditFold(True, is_whole), list[str]()
    # A growing log comes record by record, and between two of them only states are kept.
    for _, of_record in itertools.groupby(rows, key=lambda row: None if is_whole else row["offset"]):
        if not is_whole:
            state, groups = fold.state(), fold.group_states()
            fold = _rota.AuditFold(True, is_whole)
            fold.resume(state)
            for name, kept in groups:
                fold.resume_group(name, kept)
        named = [dict.fromkeys(ARROW_SCHEMA.names) | row for row in of_record]
        batch = pa.RecordBatch.from_pylist(named, schema=ARROW_SCHEMA)
        fold.rows(batch.num_rows, buffers_of(batch))
        found += [name for name, *_ in fold.take()]
    fold.end()
    return found + [name for name, *_ in fold.take()]


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_fold_knows_what_is_allowed(name: str, is_whole: bool) -> None:
    assert violations(found_in(CASES[name].story.rows, is_whole=is_whole)) == CASES[name].found


def test_two_answers_are_one_verdict_whatever_groups_they_name() -> None:
    rows = CASES["a request is answered in the name of two groups"].story.rows
    assert found_in(rows, is_whole=True).count("answered twice") == 1


def test_a_slice_of_a_batch_is_read_from_its_first_row() -> None:
    rows = CASES["a group has two leaders"].story.rows
    whole = [{"offset": -1, "part": 0, "kind": "offset", "group": "stock"}] * 9 + rows
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(ARROW_SCHEMA.names) | row for row in whole], schema=ARROW_SCHEMA)
    fold = _rota.AuditFold(True, True)
    fold.rows(len(rows), buffers_of(batch.slice(9)))
    assert (fold.groups(), [name for name, *_ in fold.take()]) == ([(GROUP, False)], ["two leaders"])


def test_columns_that_are_missing_or_too_short_are_refused_or_empty() -> None:
    fold = _rota.AuditFold(True, True)
    with pytest.raises(ValueError, match="too few columns"):
        fold.rows(1, [])
    fold.rows(3, [(b"", b"", b"", 0)] * len(_rota.audit_columns()))
    assert (fold.take(), fold.groups()) == ([], [])


def owners(held_at: int, places: list[int], member: str) -> list[dict[str, Any]]:
    same = {"offset": held_at, "group": GROUP, "member": member, "generation": 1}
    held = [same | {"kind": "consumer_assigned", "topic": "orders", "topic_partition": at} for at in places]
    return [row | {"part": part} for part, row in enumerate([same | {"kind": "consumer_current"}, *held])]


def test_what_one_record_shows_of_the_same_members_is_one_finding_of_ten_lines() -> None:
    rows = owners(0, list(range(12)), "one") + owners(1, list(range(12)), "two")
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(ARROW_SCHEMA.names) | row for row in rows], schema=ARROW_SCHEMA)
    fold = _rota.AuditFold(False, True)
    fold.rows(batch.num_rows, buffers_of(batch))
    ((name, *_, first, last, _, members, witness),) = fold.take()
    assert (name, first, last, members) == ("held by two", 0, 1, ["one", "two"])
    lines = witness.splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("orders-0", "... and 3 more", 10)
