"""Faults of a journal: each changes the entries of one group, and an audit has to find them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from rota import _rota
from rota.audit.checks import UNSETTLED_GENERATIONS

LATE_MS = 600_000
REBALANCE_IN_PROGRESS = 27
MEMBERS_MIN = 2


class Entry:
    """One entry of a journal, with its fields as JSON has them."""

    def __init__(self, at_ms: int, key: bytes, value: bytes) -> None:
        self.at_ms = at_ms
        self.key = key
        self.value = value

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Decoded."""
        read: dict[str, Any] = json.loads(_rota.journal_entry(self.value))
        return read

    @property
    def group(self) -> str:
        """What it is about; empty: no group, or several."""
        return self.key.decode(errors="replace")

    @property
    def event(self) -> str:
        """The kind of the entry's event."""
        event = self.fields["event"]
        return event if isinstance(event, str) else str(next(iter(event)))

    def request(self, api: str) -> dict[str, Any] | None:
        """The request, if it is one of these."""
        asked = self.fields["event"]
        found = asked["Submitted"]["request"] if self.event == "Submitted" else {}
        return found.get(api) if isinstance(found, dict) else None

    def answers(self, api: str) -> list[Any]:
        """The answers of this kind that it has."""
        told = [effect["Answer"]["answer"] for effect in self.fields["effects"] if "Answer" in effect]
        return [answer[api] for answer in told if api in answer]

    def joined(self) -> list[dict[str, Any]]:
        """The answers to JoinGroup that are no error."""
        return [answer for answer in self.answers("JoinGroup") if answer["error"] == "NONE"]

    def went_well(self, api: str) -> bool:
        """Whether it has an answer of this kind that is no error."""
        return any((answer["error"] if isinstance(answer, dict) else answer) == "NONE" for answer in self.answers(api))

    def edited(self, **changes: Any) -> Entry:
        """The same with something else in it."""
        return Entry(self.at_ms, self.key, _rota.edit_entry(self.value, **changes))

    def copy_after(self, before: Entry, **changes: Any) -> Entry:
        """The same again, after another entry."""
        later_ms = before.fields["mono_ms"] - self.fields["mono_ms"]
        return self.edited(later_ms=later_ms, **changes)


Entries = list[Entry]
Fault = Callable[[Entries, str], Entries | None]
"""The entries with the fault, or None if the group has no place for it."""


def numbered(entries: Entries) -> Entries:
    """Entries counted anew, incarnation by incarnation, as if nothing had been put in."""
    found, sequence = [], -1
    for entry in entries:
        sequence = 0 if entry.event == "Began" else sequence + 1
        found.append(entry if entry.fields["sequence"] == sequence else entry.edited(sequence=sequence))
    return found


def _of(entries: Entries, group: str) -> Iterator[tuple[int, Entry]]:
    return ((at, entry) for at, entry in enumerate(entries) if entry.group == group)


def _put(entries: Entries, at: int, **changes: Any) -> Entries:
    return [*entries[:at], entries[at].edited(**changes), *entries[at + 1 :]]


def _add(entries: Entries, at: int, *more: Entry) -> Entries:
    return numbered([*entries[: at + 1], *more, *entries[at + 1 :]])


def _rounds(entries: Entries, group: str) -> list[tuple[int, list[dict[str, Any]]]]:
    """Where join phases completed with two members or more, and their answers."""
    told = [(at, entry.joined()) for at, entry in _of(entries, group)]
    return [(at, joined) for at, joined in told if len(joined) >= MEMBERS_MIN]


def _follower(joined: list[dict[str, Any]]) -> str:
    return next(str(answer["member_id"]) for answer in joined if answer["member_id"] != answer["leader"])


def two_leaders(entries: Entries, group: str) -> Entries | None:
    """A follower is named leader, too."""
    for at, joined in _rounds(entries, group):
        follower = _follower(joined)
        return _put(entries, at, told=follower, leader=follower)
    return None


def different_answers(entries: Entries, group: str) -> Entries | None:
    """A follower gets another protocol."""
    for at, joined in _rounds(entries, group):
        return _put(entries, at, told=_follower(joined), protocol="another")
    return None


def list_is_not_the_group(entries: Entries, group: str) -> Entries | None:
    """The leader's list lacks a member."""
    for at, joined in _rounds(entries, group):
        return _put(entries, at, unlisted=_follower(joined))
    return None


def generation_told_back(entries: Entries, group: str) -> Entries | None:
    """A later round is answered with an earlier generation."""
    newest = 0
    for at, entry in _of(entries, group):
        for answer in entry.joined():
            if answer["generation"] > newest >= 2:
                return _put(entries, at, generation=1)
            newest = max(newest, answer["generation"])
    return None


def not_relayed(entries: Entries, group: str) -> Entries | None:
    """A member gets bytes that the leader did not give for it."""
    for at, entry in _of(entries, group):
        if any(answer["error"] == "NONE" and answer["assignment"] for answer in entry.answers("SyncGroup")):
            return _put(entries, at, assignment=b"something else")
    return None


def told_before_durable(entries: Entries, group: str) -> Entries | None:
    """An assignment is answered while its record is in flight."""
    for at, entry in _of(entries, group):
        if entry.event == "Appended" and any(answer["error"] == "NONE" for answer in entry.answers("SyncGroup")):
            early = entry.edited(append_id=10**9)
            return numbered([*entries[:at], early, entry.edited(without_answers=True), *entries[at + 1 :]])
    return None


def _commits(entries: Entries, group: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Commits of members that were accepted: where they came, where they were answered, what was asked."""
    for at, entry in _of(entries, group):
        asked = entry.request("OffsetCommit")
        if asked is None or asked["generation"] < 0:
            continue
        ticket = entry.fields["event"]["Submitted"]["ticket"]
        for answered, later in _of(entries, group):
            told = [effect["Answer"] for effect in later.fields["effects"] if "Answer" in effect]
            if answered > at and any(answer["ticket"] == ticket for answer in told):
                topics = [topic for answer in later.answers("OffsetCommit") for topic in answer["topics"]]
                if {code for topic in topics for _, code in topic["partitions"]} == {"NONE"}:
                    yield at, answered, asked
                break


def _is_newer(entries: Entries, group: str) -> bool:
    """Whether members speak the newer protocol."""
    return any(entry.request("ConsumerGroupHeartbeat") is not None for _, entry in _of(entries, group))


def commit_of_an_old_generation(entries: Entries, group: str) -> Entries | None:
    """A commit that was accepted was one of the generation before."""
    for at, _, asked in _commits(entries, group):
        if asked["generation"] > 1 and not _is_newer(entries, group):
            return _put(entries, at, asked_generation=asked["generation"] - 1)
    return None


def commit_not_fenced(entries: Entries, group: str) -> Entries | None:
    """A commit that was accepted in a consumer group was one of a later epoch."""
    for at, _, asked in _commits(entries, group):
        if _is_newer(entries, group):
            return _put(entries, at, asked_generation=asked["generation"] + 1)
    return None


def _leaving(entries: Entries, group: str) -> Iterator[tuple[int, str]]:
    """Where members left, and who."""
    for at, entry in _of(entries, group):
        for answer in entry.answers("LeaveGroup"):
            for member in answer["members"]:
                if member["error"] == "NONE" and member["member_id"]:
                    yield at, member["member_id"]


def commit_of_a_departed_member(entries: Entries, group: str) -> Entries | None:
    """A commit that was accepted comes again after its member left, and is accepted again."""
    for left, member in _leaving(entries, group):
        for at, answered, asked in _commits(entries, group):
            if at < left and asked["member_id"] == member:
                before = entries[left]
                again = [entries[at].copy_after(before), entries[answered].copy_after(before, append_id=10**9)]
                return _add(entries, left, *again)
    return None


def _beats(entries: Entries, group: str, until: int) -> Iterator[tuple[Entry, str]]:
    """Heartbeats that were answered NONE, and their members."""
    for at, entry in _of(entries, group):
        asked = entry.request("Heartbeat")
        if at < until and asked is not None and entry.answers("Heartbeat") == ["NONE"]:
            yield entry, asked["member_id"]


def answer_to_a_departed_member(entries: Entries, group: str) -> Entries | None:
    """A heartbeat comes again after its member left, and is answered NONE."""
    for left, member in _leaving(entries, group):
        for beat, sender in _beats(entries, group, left):
            if sender == member:
                return _add(entries, left, beat.copy_after(entries[left]))
    return None


def replaced_and_not_fenced(entries: Entries, group: str) -> Entries | None:
    """A heartbeat of a replaced static member is answered NONE."""
    instances: dict[str, str] = {}
    asked_by: dict[int, str | None] = {}
    for at, entry in _of(entries, group):
        if (asked := entry.request("JoinGroup")) is not None:
            asked_by[entry.fields["event"]["Submitted"]["ticket"]] = asked["instance_id"]
        for effect in entry.fields["effects"]:
            told = effect.get("Answer", {}).get("answer", {}).get("JoinGroup")
            instance = asked_by.get(effect["Answer"]["ticket"]) if told and told["error"] == "NONE" else None
            if instance is None:
                continue
            before = instances.get(instance)
            if before is not None and before != told["member_id"]:
                for beat, sender in _beats(entries, group, at):
                    if sender == before:
                        return _add(entries, at, beat.copy_after(entry))
            instances[instance] = told["member_id"]
    return None


def answered_twice(entries: Entries, group: str) -> Entries | None:
    """An answer that came late comes twice."""
    for at, entry in _of(entries, group):
        if entry.event == "Appended" and entry.answers("SyncGroup"):
            return _put(entries, at, answers_twice=True)
    return None


def never_answered(entries: Entries, group: str) -> Entries | None:
    """A heartbeat has no answer."""
    for at, entry in _of(entries, group):
        if entry.request("Heartbeat") is not None:
            return _put(entries, at, without_answers=True)
    return None


def late_phase(entries: Entries, group: str) -> Entries | None:
    """A parked JoinGroup is answered ten minutes later."""
    for at, entry in _of(entries, group):
        if len(entry.joined()) >= MEMBERS_MIN:
            return _put(entries, at, later_ms=LATE_MS)
    return None


def late_sync(entries: Entries, group: str) -> Entries | None:
    """A parked SyncGroup is answered ten minutes later."""
    for at, entry in _of(entries, group):
        if entry.event == "Appended" and any(answer["error"] == "NONE" for answer in entry.answers("SyncGroup")):
            return _put(entries, at, later_ms=LATE_MS)
    return None


def silent_and_still_there(entries: Entries, group: str) -> Entries | None:
    """Two members are heard of again after ten and twenty minutes, and told that all is well."""
    for (first, one), (second, other) in itertools.pairwise(_beats(entries, group, len(entries))):
        if one != other:
            at = next(at for at, entry in enumerate(entries) if entry is second)
            return _add(entries, at, first.edited(later_ms=LATE_MS), second.edited(later_ms=2 * LATE_MS))
    return None


def zombie_commit(entries: Entries, group: str) -> Entries | None:
    """A commit that was accepted was one of another member of the generation."""
    for at, _, asked in _commits(entries, group):
        told = [join["member_id"] for came, joined in _rounds(entries, group) if came < at
                for join in joined if join["generation"] == asked["generation"]]  # fmt: skip
        others = [member for member in told if member != asked["member_id"]]
        if asked["member_id"] in told and others:
            return _put(entries, at, asked_by=others[0])
    return None


def never_settles(entries: Entries, group: str) -> Entries | None:
    """No member is given an assignment."""
    rounds = {joined["generation"] for _, entry in _of(entries, group) for joined in entry.joined()}
    if len(rounds) <= UNSETTLED_GENERATIONS:
        return None
    synced = {at for at, entry in _of(entries, group) if entry.answers("SyncGroup")}
    return [entry.edited(error=REBALANCE_IN_PROGRESS) if at in synced else entry for at, entry in enumerate(entries)]


def early_expiry(entries: Entries, group: str) -> Entries | None:
    """A session ends right after its member joined."""
    for at, entry in _of(entries, group):
        if entry.event == "Advanced" and entry.fields["event"]["Advanced"]["timer"] == "Session":
            armed = [other.fields["mono_ms"] for place, other in _of(entries, group) if place < at and other.joined()]
            if armed:
                return _put(entries, at, later_ms=armed[-1] + 1 - entry.fields["mono_ms"])
    return None


def _mark(entries: Entries, group: str, name: str, api: str) -> tuple[int, Entry] | None:
    """The last such mark of the group's partition behind a request of it that went well, and that request."""
    well = [(at, entry) for at, entry in _of(entries, group) if entry.went_well(api)]
    marks = [at for at, entry in enumerate(entries) if entry.event == name and well and at > well[0][0]]
    return (marks[-1], well[0][1]) if marks else None


def answer_while_loading(entries: Entries, group: str) -> Entries | None:
    """A member leaves before its coordinator has loaded; a heartbeat would be answered NONE."""
    found = _mark(entries, group, "Began", "LeaveGroup")
    return None if found is None else _add(entries, found[0], found[1].copy_after(entries[found[0]]))


def answer_after_unloading(entries: Entries, group: str) -> Entries | None:
    """A coordinator that has been unloaded answers a heartbeat with NONE."""
    found = _mark(entries, group, "Unloaded", "Heartbeat")
    return None if found is None else _add(entries, found[0], found[1].copy_after(entries[found[0]]))


def _quiet(entries: Entries, group: str) -> int | None:
    """A heartbeat of the group with an entry before and behind it in its incarnation."""
    for at, entry in _of(entries, group):
        around = entries[at - 1 : at + 2]
        if entry.request("Heartbeat") is not None and len(around) == 3 and around[2].event not in {"Began", "Gap"}:
            return at
    return None


def entry_dropped(entries: Entries, group: str) -> Entries | None:
    """An entry is missing."""
    at = _quiet(entries, group)
    return None if at is None else [*entries[:at], *entries[at + 1 :]]


def entry_repeated(entries: Entries, group: str) -> Entries | None:
    """An entry is there twice."""
    at = _quiet(entries, group)
    return None if at is None else [*entries[: at + 1], *entries[at:]]


def entries_swapped(entries: Entries, group: str) -> Entries | None:
    """Two entries have changed places."""
    at = _quiet(entries, group)
    return None if at is None else [*entries[:at], entries[at + 1], entries[at], *entries[at + 2 :]]


# What they are called. Those that leave holes in the numbers come last.
FAULTS: dict[str, Fault] = {
    "two leaders": two_leaders,
    "different answers": different_answers,
    "list is not the group": list_is_not_the_group,
    "generation told back": generation_told_back,
    "not relayed": not_relayed,
    "told before durable": told_before_durable,
    "commit of an old generation": commit_of_an_old_generation,
    "commit of a departed member": commit_of_a_departed_member,
    "commit not fenced": commit_not_fenced,
    "answer to a departed member": answer_to_a_departed_member,
    "replaced and not fenced": replaced_and_not_fenced,
    "answered twice": answered_twice,
    "never answered": never_answered,
    "late phase": late_phase,
    "late sync": late_sync,
    "silent and still there": silent_and_still_there,
    "zombie commit": zombie_commit,
    "never settles": never_settles,
    "early expiry": early_expiry,
    "answer while loading": answer_while_loading,
    "answer after unloading": answer_after_unloading,
    "entry dropped": entry_dropped,
    "entry repeated": entry_repeated,
    "entries swapped": entries_swapped,
}

# What an audit calls it, if that is something else.
NAMES = dict.fromkeys(("entry dropped", "entry repeated", "entries swapped"), "entries out of order")
