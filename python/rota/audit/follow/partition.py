"""One partition of a log, row after row: requests, answers, and what became durable."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rota.audit.checks import PATIENCE_MS, SLACK_MS
from rota.audit.follow.answers import Answered, Ask, Told
from rota.audit.follow.finding import KEPT_GENERATIONS, Finding, Seen, latest
from rota.audit.follow.records import Recorded, versions

NONE = "NONE"
RECORD_KINDS = frozenset({"group", "member", "assigned", "subscribed", "offset"})
# What tells of members of the classic protocol.
OF_MEMBERS = frozenset({"held", "plan", "leaver", "timer"})
# A SyncGroup or a JoinGroup that is answered at once has an answer with more than an error in it.
SAYS_MORE = frozenset({"JoinGroup", "SyncGroup"})
ACCEPTED = frozenset({"OffsetCommit", "SyncGroup"})
ACCEPTED_AT_ONCE = frozenset({"Heartbeat", "OffsetCommit"})
KEPT_TICKETS = 1_000
TICK_MS, KEPT_TICKS = SLACK_MS // 10, 32
# One entry with a time of its own is no reason to say that all others are late.
KEPT_TIMES = 8


@dataclass
class Append:
    """Records in flight, and members that were answered too early."""

    offset: int
    group: str | None
    rows: list[Seen] = field(default_factory=list)
    told_offset: int | None = None
    told: list[str] = field(default_factory=list)
    generation: int | None = None
    """Of the group's record in it, if that has members."""
    of_newer: list[str] = field(default_factory=list)
    """Groups in it that had a record of the newer protocol before it began."""


@dataclass
class Incarnation:
    """A coordinator between its beginning and its end."""

    number: int = 0
    began: bool = False
    first_offset: int = 0
    is_loaded: bool = False
    unloaded_offset: int | None = None
    has_gaps: bool = False
    delay_ms: int = 0
    last_offset: int = 0
    last_at_ms: int | None = None
    last_mono_ms: int = 0
    recent: list[int] = field(default_factory=list)
    """The times of the last entries, monotonic milliseconds."""
    ticks: list[int] = field(default_factory=list)
    """When there were entries lately, monotonic milliseconds."""

    def tick(self, mono_ms: int) -> None:
        """There is an entry."""
        self.recent = [*self.recent, mono_ms][-KEPT_TIMES:]
        if not self.ticks or abs(mono_ms - self.ticks[-1]) >= TICK_MS:
            self.ticks = [*self.ticks, mono_ms][-KEPT_TICKS:]

    def lived_ms(self, mono_ms: int) -> int | None:
        """The last entry that is so much older that a deadline before it has passed."""
        return max((tick for tick in self.ticks if tick <= mono_ms - SLACK_MS), default=None)


@dataclass
class Group:
    """All that is remembered of a group."""

    recorded: Recorded = field(default_factory=Recorded)
    answered: Answered = field(default_factory=Answered)
    is_newer: bool = False
    """Whether there was a record of the newer protocol. From then on only the promises of both protocols hold: its
    classic members have epochs for generations, and no leader."""


@dataclass
class Partition:
    """What is remembered of a partition; `group` finds what is remembered of one of its groups."""

    group: Callable[[str], Group]
    next_offset: int = 0
    """What is before it has been seen."""
    entry: list[int] | None = None
    """The last entry's number and offset."""
    incarnation: Incarnation = field(default_factory=Incarnation)
    asks: dict[str, Ask] = field(default_factory=dict)
    """Requests without an answer, by ticket."""
    answered: dict[str, list[int | bool]] = field(default_factory=dict)
    """Requests with an answer: their offsets, and whether there was a second answer."""
    appends: dict[str, Append] = field(default_factory=dict)

    def of_groups(self, rows: list[Seen]) -> Iterator[Finding]:
        """Rows of a `__consumer_offsets`, in their order."""
        for _, of_record in itertools.groupby(rows, lambda row: row.offset):
            yield from self._durable(list(of_record), None)

    def of_journal(self, rows: list[Seen]) -> Iterator[Finding]:
        """Rows of a journal, in their order, of whole entries."""
        for _, of_entry in itertools.groupby(rows, lambda row: row.offset):
            yield from self._of_entry(list(of_entry))
        yield from self.overdue(min(self.incarnation.recent, default=0))

    def _durable(self, rows: list[Seen], append: Append | None) -> Iterator[Finding]:
        """Rows of records that the log has; `append` is the journal's."""
        for row in rows:
            if row.kind == "offset" and row.group is not None:
                yield from self.group(row.group).recorded.of_offset(row)
        for row in rows:
            self._of_protocol(row)
        if rows and rows[0].kind == "consumer_current" and rows[0].group is not None:
            yield from self.group(rows[0].group).recorded.of_newer(rows)
        for version in versions(rows):
            group = self.group(version.row.group or "")
            if group.is_newer if append is None else version.row.group in append.of_newer:
                continue
            yield from group.recorded.of_version(version, None if append is None else group.answered.welcome)
            if append is not None:
                for member in version.members:
                    group.answered.planned(version.row.generation, member.name, member.row.payload)
            elif version.row.generation is not None:
                yield from group.recorded.of_round(version.row)

    def _of_protocol(self, row: Seen) -> None:
        if row.group is not None and row.kind.startswith("consumer"):
            self.group(row.group).is_newer = True

    # ---- entries

    def _of_entry(self, rows: list[Seen]) -> Iterator[Finding]:
        first = rows[0]
        if first.sequence is not None:
            yield from self._of_order(first)
        if first.kind == "began":
            yield from self._begin(first)
        now = self.incarnation
        now.last_offset, now.last_at_ms = first.offset, first.at_ms
        now.last_mono_ms = max(now.last_mono_ms, first.mono_ms or 0)
        now.tick(first.mono_ms or 0)
        told: list[Told] = []
        for row in rows:
            self._of_protocol(row)
            if row.kind in OF_MEMBERS and row.group is not None and self.group(row.group).is_newer:
                continue
            match row.kind:
                case "loaded" | "snapshot" | "unloaded" | "gap":
                    self._mark(row)
                case "held" if row.group is not None:
                    answered = self.group(row.group).answered
                    answered.in_life(now.number)
                    answered.held(row)
                case "request" if row.group is not None:
                    yield from self._of_request(row, rows)
                case "plan" if row.group is not None and row.error in {None, NONE}:
                    self.group(row.group).answered.planned(row.generation, row.member or "", row.payload)
                case "leaver" if row.group is not None and row.error == NONE and row.member:
                    self.group(row.group).answered.went(row.member, "left", row.offset)
                case "timer" if row.group is not None and row.timer == "Session":
                    yield from self.group(row.group).answered.of_expiry(row)
                case "append":
                    self._of_append(row, rows)
                case "appended":
                    yield from self._of_appended(row)
                case "answer":
                    yield from self._of_answer(row, told)
                case _:
                    pass
        yield from self._of_joins(told, rows)
        yield from self._of_end(first)

    def _of_order(self, row: Seen) -> Iterator[Finding]:
        before, self.entry = self.entry, [row.sequence or 0, row.offset]
        if row.kind == "began" or before is None:
            return
        expected = before[0] + ((row.amount or 0) if row.kind == "gap" else 1)
        if row.sequence != expected:
            witness = f"entry {row.sequence} after {before[0]}"
            at = (before[1], row.offset, row.at_ms)
            yield Finding("entries out of order", row.group, None, *at, [], witness)

    def _begin(self, row: Seen) -> Iterator[Finding]:
        yield from self.overdue(self.incarnation.last_mono_ms)
        number, delay_ms = self.incarnation.number + 1, row.rebalance_timeout_ms or 0
        self.incarnation = Incarnation(number, True, row.offset, delay_ms=delay_ms)
        self.asks, self.answered, self.appends = {}, {}, {}

    def _mark(self, row: Seen) -> None:
        match row.kind:
            case "loaded" | "snapshot":
                self.incarnation.is_loaded = True
            case "unloaded" if self.incarnation.unloaded_offset is None:
                self.incarnation.unloaded_offset = row.offset
            case "gap":
                self.incarnation.has_gaps = True

    # ---- requests and answers

    def _of_request(self, row: Seen, rows: list[Seen]) -> Iterator[Finding]:
        group = self.group(row.group or "")
        answered = group.answered
        answered.in_life(self.incarnation.number)
        if row.api == "JoinGroup":
            answered.may_wait(row.session_timeout_ms, row.rebalance_timeout_ms)
        ask = Ask(
            row.offset, row.mono_ms or 0, row.group or "", row.api or "", row.member or "", row.instance,
            row.generation, row.session_timeout_ms,
        )  # fmt: skip
        if group.is_newer:
            yield from self._of_phase(row) if row.error == NONE else ()
            self._wait_for_answer(row, ask)
            return
        answered.asked(ask)
        if row.api == "OffsetCommit" and row.member:
            owners = group.recorded.owners.get(str(row.generation), {})
            places = [other.place for other in rows if other.kind == "commit"]
            ask.foreign = [[place, owner] for place in places for owner in owners.get(place, []) if owner != row.member]
        before = answered.hears(row, row.member, int(row.api in SAYS_MORE)) if row.member else None
        is_told_blindly = row.api == "Heartbeat" and self._is_loading()
        if row.error == NONE and row.api == "Heartbeat" and not self.incarnation.has_gaps and not is_told_blindly:
            is_here = before is not None and before[1] >= self.incarnation.first_offset
            lived_ms = self.incarnation.lived_ms(row.mono_ms or 0)
            yield from answered.of_silence(row, before if is_here else None, lived_ms)
        if row.error == NONE:
            yield from self._of_phase(row)
            if row.api == "OffsetCommit" and any(other.kind == "append" for other in rows):
                at = (row.offset, row.offset, row.at_ms)
                witness = "a commit was acknowledged at once"
                yield Finding("told before durable", row.group, row.generation, *at, [row.member or ""], witness)
            if row.api in ACCEPTED_AT_ONCE and row.member and not is_told_blindly:
                yield from answered.of_acceptance(row, ask)
        self._wait_for_answer(row, ask)

    def _wait_for_answer(self, row: Seen, ask: Ask) -> None:
        if row.error is None or row.api in SAYS_MORE:
            self.answered.pop(str(row.ticket), None)
            self.asks[str(row.ticket)] = ask

    def _is_loading(self) -> bool:
        """Whether every Heartbeat is answered NONE (docs/protocol.md §3)."""
        return self.incarnation.began and not self.incarnation.is_loaded

    def _of_phase(self, row: Seen) -> Iterator[Finding]:
        """A request succeeded: the coordinator has loaded and has not been unloaded."""
        now = self.incarnation
        members = [row.member or ""]
        at = (row.offset, row.at_ms, members)
        if row.api != "Heartbeat" and self._is_loading() and not now.has_gaps:
            witness = f"{row.api} before it was loaded"
            yield Finding("answer while loading", row.group, row.generation, now.first_offset, *at, witness)
        if now.unloaded_offset is not None:
            witness = f"{row.api} after offset {now.unloaded_offset}"
            yield Finding("answer after unloading", row.group, row.generation, now.unloaded_offset, *at, witness)

    def _of_answer(self, row: Seen, told: list[Told]) -> Iterator[Finding]:
        ticket = str(row.ticket)
        ask = self.asks.pop(ticket, None)
        if ask is None:
            yield from self._of_second_answer(row, ticket)
            return
        self.answered[ticket] = [ask.offset, False]
        self.answered = latest(self.answered, KEPT_TICKETS)
        group = self.group(ask.group)
        if group.is_newer:
            return
        answered = group.answered
        if ask.member:
            answered.hears(row, ask.member, -int(row.api in SAYS_MORE))
        if row.api in SAYS_MORE:
            lived_ms = self.incarnation.lived_ms(row.mono_ms or 0)
            yield from answered.late(row._replace(group=ask.group), ask, self.incarnation.delay_ms, lived_ms)
        if row.error != NONE:
            return
        if row.api == "JoinGroup":
            told.append(Told(row, ask))
        if row.api == "SyncGroup":
            yield from answered.of_sync(row, ask)
            self._told_early(row, ask)
        if row.api in ACCEPTED and ask.member:
            yield from answered.of_acceptance(row._replace(group=ask.group), ask)

    def _of_second_answer(self, row: Seen, ticket: str) -> Iterator[Finding]:
        known = self.answered.get(ticket)
        if known is not None and not known[1]:
            known[1] = True
            first, witness = int(known[0]), f"2 answers to the {row.api} at {known[0]}"
            yield Finding("answered twice", row.group, row.generation, first, row.offset, row.at_ms, [], witness)

    def _of_joins(self, told: list[Told], rows: list[Seen]) -> Iterator[Finding]:
        listed: dict[str | None, list[str]] = {}
        for row in rows:
            if row.kind == "listed":
                listed.setdefault(row.group, []).append(row.member or "")
        for name in sorted({join.row.group or "" for join in told}):
            group = self.group(name)
            if group.is_newer:
                continue
            joined = [join for join in told if (join.row.group or "") == name]
            group.answered.in_life(self.incarnation.number)
            yield from group.answered.of_joins(joined, listed.get(name))
            yield from group.recorded.of_round(joined[0].row)

    def _of_end(self, first: Seen) -> Iterator[Finding]:
        """What has no answer now has none at all."""
        is_over = first.kind == "unloaded"
        for ticket, ask in list(self.asks.items()):
            if is_over or (ask.api == "Heartbeat" and ask.offset == first.offset):
                yield from self._unanswered(self.asks.pop(ticket))

    def overdue(self, now_ms: int) -> Iterator[Finding]:
        """Requests that have waited for too long; they are not asked about again."""
        for ticket, ask in list(self.asks.items()):
            wait_ms = max(self.group(ask.group).answered.wait_ms, self.incarnation.delay_ms, PATIENCE_MS)
            if now_ms > ask.mono_ms + wait_ms + SLACK_MS:
                yield from self._unanswered(self.asks.pop(ticket))

    def _unanswered(self, ask: Ask) -> Iterator[Finding]:
        if self.incarnation.has_gaps:
            return
        at = (ask.offset, self.incarnation.last_offset, self.incarnation.last_at_ms)
        witness = f"the {ask.api} at {ask.offset} has no answer"
        yield Finding("never answered", ask.group, ask.generation, *at, [ask.member], witness)

    # ---- appends

    def _of_append(self, row: Seen, rows: list[Seen]) -> None:
        append = Append(row.offset, row.group)
        for other in rows:
            if other.append_id != row.append_id or other.kind not in RECORD_KINDS:
                continue
            append.rows.append(other)
            group = self.group(other.group or "")
            if group.is_newer and other.group is not None and other.group not in append.of_newer:
                append.of_newer.append(other.group)
            if other.kind == "group" and not other.generation:
                group.answered.beginnings += other.generation is None or group.recorded.may_begin()
            elif other.kind == "group" and other.amount:
                append.generation = other.generation
            elif other.kind == "member":
                group.answered.may_wait(other.session_timeout_ms, other.rebalance_timeout_ms)
        self.appends[str(row.append_id)] = append

    def _of_appended(self, row: Seen) -> Iterator[Finding]:
        append = self.appends.pop(str(row.append_id), None)
        if append is None or row.error != NONE:
            return
        yield from self._durable(append.rows, append)
        if append.generation is None or append.group is None or append.group in append.of_newer:
            return
        answered = self.group(append.group).answered
        was_durable = str(append.generation) in answered.durable
        answered.durable = latest(answered.durable | {str(append.generation): True}, KEPT_GENERATIONS)
        if append.told_offset is not None and not was_durable:
            witness = f"told at {append.told_offset}, durable at {row.offset}"
            at = (append.told_offset, row.offset, row.at_ms)
            yield Finding("told before durable", append.group, append.generation, *at, append.told, witness)

    def _told_early(self, row: Seen, ask: Ask) -> None:
        for append in self.appends.values():
            if append.group == ask.group and append.generation == ask.generation:
                append.told_offset = row.offset if append.told_offset is None else append.told_offset
                append.told = sorted({*append.told, ask.member})
