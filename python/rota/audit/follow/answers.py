"""The promises that only a journal shows: answers, and what they allow a member."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.audit.checks import PATIENCE_MS, SLACK_MS, UNSETTLED_GENERATIONS
from rota.audit.follow.finding import KEPT_GENERATIONS, KEPT_MEMBERS, Finding, Seen, digest, latest


@dataclass
class Ask:
    """A request that waits for its answer, and what was known when it came."""

    offset: int
    mono_ms: int
    group: str
    api: str
    member: str
    instance: str | None
    generation: int | None
    session_timeout_ms: int | None
    newer: list[int] | None = None
    """A newer generation that was answered before, and where."""
    gone: list[str | int] | None = None
    """How and where its member had gone."""
    foreign: list[list[str]] = field(default_factory=list)
    """The partitions that it commits and that are another member's, and whose."""


class Told(NamedTuple):
    """An answer to a JoinGroup that is no error."""

    row: Seen
    ask: Ask

    @property
    def member(self) -> str:
        """The member that got the answer."""
        return self.row.member or ""

    @property
    def who(self) -> str:
        """Of a static member that stays the same."""
        return self.ask.instance or self.member


@dataclass
class Answered:
    """What is kept of the answers to a group's members, as JSON values."""

    life: str = ""
    """The coordinator's incarnation and the group's life in it."""
    beginnings: int = 0
    """Records that a life begins or ends with."""
    greatest: list[int] | None = None
    """The greatest generation answered in this life, and where."""
    newest: int = -1
    """The greatest generation answered or loaded in this life."""
    leads: dict[str, list[str]] = field(default_factory=dict)
    """Generation: the member named leader of it."""
    plans: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Generation, member: what it was given."""
    durable: dict[str, bool] = field(default_factory=dict)
    """Generations with members that have been in the log."""
    holders: dict[str, str] = field(default_factory=dict)
    """Instance: the member answered last."""
    welcome: dict[str, bool] = field(default_factory=dict)
    """Static members that got a successful answer, or that a coordinator loaded."""
    shortest: dict[str, int] = field(default_factory=dict)
    """Instance or member: the shortest session timeout since it was last known for certain."""
    listed: list[str] | None = None
    gone: dict[str, list[str | int]] = field(default_factory=dict)
    """Members: how they went, and where. What a state has is not gone."""
    sessions: dict[str, list[int | None]] = field(default_factory=dict)
    """Members: session timeout, when and where they were last heard of."""
    heard: dict[str, list[int]] = field(default_factory=dict)
    """Members: when and where they were last asking or told something, and how much of theirs is parked."""
    timeouts: dict[str, int] = field(default_factory=dict)
    """Members: their session timeouts."""
    wait_ms: int = 0
    """What a member may be waited for at most."""
    unsettled: list[list[int]] = field(default_factory=list)
    """The last rounds without an answered assignment: generation, offset."""
    rounds: list[int] = field(default_factory=list)

    def may_wait(self, *timeouts_ms: int | None) -> None:
        """Timeouts of a member."""
        self.wait_ms = max(self.wait_ms, *(timeout_ms or 0 for timeout_ms in timeouts_ms))

    def in_life(self, incarnation: int) -> None:
        """Drop the answers of another life."""
        if self.life != (now := f"{incarnation}.{self.beginnings}"):
            self.life, self.greatest, self.newest = now, None, -1
            self.leads, self.rounds, self.unsettled = {}, [], []

    # ---- what is asked

    def asked(self, ask: Ask) -> None:
        """A request came: note what is known now."""
        if self.greatest is not None and ask.generation is not None and 0 <= ask.generation < self.greatest[0]:
            ask.newer = self.greatest
        ask.gone = self.gone.get(ask.member)

    def planned(self, generation: int | None, member: str, payload: bytes | None) -> None:
        """A leader's share for a member, or what the group's record or state has for it."""
        of_member = self.plans.setdefault(str(generation), {}).setdefault(member, [])
        if (share := digest(payload)) not in of_member:
            of_member.append(share)
        self.plans = latest(self.plans, KEPT_GENERATIONS)

    # ---- members that go

    def went(self, member: str, how: str, offset: int) -> None:
        """A member left, was replaced, or is not listed any more."""
        known = self.gone.get(member)
        if known is None or (how == "replaced" and known[0] != "replaced"):
            self.gone[member] = [how, offset]
            self.gone = latest(self.gone, KEPT_MEMBERS)
        self.sessions.pop(member, None)

    def held(self, row: Seen) -> None:
        """A whole state has this member."""
        member = row.member or ""
        self.gone.pop(member, None)
        self.may_wait(row.session_timeout_ms, row.rebalance_timeout_ms)
        self.planned(row.generation, member, row.payload)
        self.hears(row, member, 0, row.session_timeout_ms)
        self.newest = max(self.newest, row.generation or 0)
        self._shortest(row.instance or member, row.session_timeout_ms, is_certain=True)
        is_heard = row.note == "loaded"
        if is_heard and row.instance is not None:
            self._welcomes(member)
        self._arm(member, row.session_timeout_ms, row.mono_ms if is_heard else None, row.offset if is_heard else None)

    def _welcomes(self, member: str) -> None:
        self.welcome = latest(self.welcome | {member: True}, KEPT_MEMBERS)

    def _shortest(self, who: str, session_ms: int | None, is_certain: bool) -> int | None:
        before_ms = self.shortest.pop(who, None)
        known = [known_ms for known_ms in (None if is_certain else before_ms, session_ms) if known_ms is not None]
        self.shortest = latest(self.shortest | ({who: min(known)} if known else {}), KEPT_MEMBERS)
        return min(known, default=None)

    def _arm(self, member: str, session_ms: int | None, mono_ms: int | None, offset: int | None) -> None:
        if member in self.gone:
            return
        before = self.sessions.get(member, [None, None, None])
        now = [
            before[0] if session_ms is None else session_ms,
            *((before[1:]) if mono_ms is None else (mono_ms, offset)),
        ]
        self.sessions[member] = now

    # ---- members that are silent

    def hears(self, row: Seen, member: str, parked: int = 0, session_ms: int | None = None) -> list[int] | None:
        """A member sends a request or gets an answer. Returns when and where the previous one was, unless it is
        parked."""
        before = self.heard.pop(member, None)
        now_parked = parked + (0 if before is None else before[2])
        self.heard[member] = [row.mono_ms or 0, row.offset, now_parked]
        self.heard = latest(self.heard, KEPT_MEMBERS)
        if session_ms is not None:
            self.timeouts.pop(member, None)
            self.timeouts = latest(self.timeouts | {member: session_ms}, KEPT_MEMBERS)
        return before if now_parked <= 0 else None

    def of_silence(self, row: Seen, before: list[int] | None, lived_ms: int | None) -> Iterator[Finding]:
        """A Heartbeat is answered NONE; `lived_ms`: when the coordinator was there a second ago or before."""
        session_ms = self.timeouts.get(row.member or "")
        if before is None or session_ms is None or lived_ms is None:
            return
        silent_ms = (row.mono_ms or 0) - before[0]
        if silent_ms > session_ms + SLACK_MS and lived_ms >= before[0] + session_ms:
            witness = f"silent for {silent_ms} ms, its session ends after {session_ms}"
            yield _finding("silent and still there", row, [row.member or ""], witness, before[1])

    # ---- answers

    def of_joins(self, joined: list[Told], listed: list[str] | None) -> Iterator[Finding]:
        """The JoinGroups that one entry answers, and the list that its leader gets."""
        if joined:
            yield from self._of_round(joined)
        if listed is not None and joined:
            for told in joined:
                if told.member not in listed:
                    yield _finding("list is not the group", told.row, [told.member], f"{told.member} is not listed")
            for member in sorted(set(self.listed or ()) - set(listed)):
                self.went(member, "not listed", joined[0].row.offset)
            self.listed = sorted(set(listed))

    def _of_round(self, joined: list[Told]) -> Iterator[Finding]:
        counts = [
            len({getattr(told.row, name) for told in joined} - {None}) for name in ("generation", "protocol", "leader")
        ]
        if max(counts) > 1:
            members = sorted({told.member for told in joined})
            witness = "{} generations, {} protocols, {} leaders".format(*counts)
            newest_row = max((told.row for told in joined), key=lambda row: row.generation or 0)
            yield _finding("different answers", newest_row, members, witness)
        newest = self.newest
        for told in joined:
            yield from self._of_join(told, begins=(told.row.generation or 0) > newest)

    def _of_join(self, told: Told, begins: bool) -> Iterator[Finding]:
        """`begins`: the answer has a generation that no member knew."""
        row, generation = told.row, told.row.generation or 0
        if self.greatest is not None and generation < self.greatest[0]:
            witness = f"generation {generation} after {self.greatest[0]}"
            yield _finding("generation told back", row, [told.member], witness, self.greatest[1])
        if self.greatest is None or generation > self.greatest[0]:
            self.greatest = [generation, row.offset]
        if row.leader == row.member:
            leaders = self.leads.setdefault(str(generation), [])
            if told.who not in leaders:
                leaders.append(told.who)
                if len(leaders) == 2:
                    yield _finding("two leaders", row, sorted(leaders), "2 leaders")
            self.leads = latest(self.leads, KEPT_GENERATIONS)
        if told.ask.instance is not None:
            before = self.holders.get(told.ask.instance)
            if before is not None and before != told.member:
                self.went(before, "replaced", row.offset)
            self.holders[told.ask.instance] = told.member
            self._welcomes(told.member)
        self.hears(row, told.member, 0, told.ask.session_timeout_ms)
        self.newest = max(self.newest, generation)
        self._arm_told(told, begins)
        yield from self._of_settling(row)

    def _arm_told(self, told: Told, begins: bool) -> None:
        """A completed join phase arms the session (docs/protocol.md §7.2): its generation is new. An answer with a
        known one changes nothing; a static replacement has its predecessor's session, from its request on."""
        row, ask = told.row, told.ask
        shortest_ms = self._shortest(told.who, ask.session_timeout_ms, is_certain=begins)
        if begins:
            self._arm(told.member, ask.session_timeout_ms, row.mono_ms, row.offset)
        elif not ask.member:
            self._arm(told.member, shortest_ms, ask.mono_ms, ask.offset)
        else:
            self._arm(told.member, shortest_ms, None, None)

    def _of_settling(self, row: Seen) -> Iterator[Finding]:
        generation = row.generation or 0
        if generation in self.rounds:
            return
        self.rounds = [*self.rounds, generation][-KEPT_GENERATIONS:]
        if len(self.unsettled) == UNSETTLED_GENERATIONS:
            first, last = self.unsettled[0], self.unsettled[-1]
            witness = f"{len(self.unsettled)} generations"
            yield Finding("never settles", row.group, last[0], first[1], last[1], row.at_ms, [], witness)
        self.unsettled = [*self.unsettled, [generation, row.offset]][-UNSETTLED_GENERATIONS - 1 :]

    def of_sync(self, row: Seen, ask: Ask) -> Iterator[Finding]:
        """A SyncGroup was answered without an error."""
        if any(generation == ask.generation for generation, _ in self.unsettled):
            self.unsettled = [known for known in self.unsettled if known[0] > (ask.generation or 0)]
        plan = self.plans.get(str(ask.generation), {})
        given = digest(row.payload)
        if not given or not plan:
            return
        own = plan.get(ask.member)
        if not any(given in shares for shares in plan.values()) or (own is not None and given not in own):
            told = (row.payload or b"").hex().upper()[:64]
            of_generation = row._replace(generation=ask.generation)
            yield _finding("not relayed", of_generation, [ask.member], f"told {told}")

    def of_acceptance(self, row: Seen, ask: Ask) -> Iterator[Finding]:
        """A Heartbeat, SyncGroup or OffsetCommit of a member was answered NONE."""
        at = row._replace(offset=ask.offset, generation=ask.generation)
        if ask.api == "Heartbeat":
            self._arm_known(ask.member, ask.mono_ms, ask.offset)
        if ask.gone is not None:
            how, offset = str(ask.gone[0]), int(ask.gone[1])
            name = "commit of a departed member" if ask.api == "OffsetCommit" else "answer to a departed member"
            name = "replaced and not fenced" if how == "replaced" else name
            yield _finding(name, at, [ask.member], f"{how} at offset {offset}", offset)
        if ask.api == "OffsetCommit" and ask.newer is not None:
            witness = f"generation {ask.generation} after {ask.newer[0]}"
            yield _finding("commit of an old generation", at, [ask.member], witness, ask.newer[1])
        for place, owner in ask.foreign if ask.api == "OffsetCommit" else ():
            yield _finding("zombie commit", at, sorted({ask.member, owner}), f"{place} of {owner}")

    def _arm_known(self, member: str, mono_ms: int, offset: int) -> None:
        if member in self.sessions:
            self._arm(member, None, mono_ms, offset)

    def late(self, row: Seen, ask: Ask, delay_ms: int, lived_ms: int | None) -> Iterator[Finding]:
        """A parked request was answered; `lived_ms`: when the coordinator was there a second ago or before. A process
        that stands still does not see the time."""
        waited_ms, limit_ms = (row.mono_ms or 0) - ask.mono_ms, max(self.wait_ms, delay_ms)
        was_told = lived_ms is not None and lived_ms >= ask.mono_ms + limit_ms
        if waited_ms > limit_ms + (SLACK_MS if was_told else PATIENCE_MS):
            members, witness = [ask.member], f"{ask.api} waited {waited_ms} ms"
            yield _finding("late phase" if ask.api == "JoinGroup" else "late sync", row, members, witness, ask.offset)

    def of_expiry(self, row: Seen) -> Iterator[Finding]:
        """A session ended."""
        left = [
            -1 if armed_ms is None or session_ms is None else armed_ms + session_ms - (row.mono_ms or 0)
            for session_ms, armed_ms, _ in self.sessions.values()
        ]
        if left and min(left) > 0:
            offsets = [offset for _, _, offset in self.sessions.values() if offset is not None]
            witness = f"the next session ends in {min(left)} ms"
            yield _finding("early expiry", row, sorted(self.sessions), witness, max(offsets))


def _finding(name: str, row: Seen, members: list[str], witness: str, first_offset: int | None = None) -> Finding:
    first = row.offset if first_offset is None else first_offset
    return Finding(name, row.group, row.generation, first, row.offset, row.at_ms, members, witness)
