"""The promises that a group's records show, told record after record."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.audit.checks import STORM_GENERATIONS, STORM_MS
from rota.audit.follow.finding import KEPT_GENERATIONS, KEPT_MEMBERS, Finding, Seen, digest, latest


@dataclass
class Member:
    """A member as a record has it."""

    row: Seen
    topics: set[str] = field(default_factory=set)
    """To which it subscribes; empty: the bytes say nothing."""
    places: dict[str, str] = field(default_factory=dict)
    """What it is assigned: the topic of each partition."""

    @property
    def name(self) -> str:
        """The member's id in the group's records."""
        return self.row.member or ""


class Version(NamedTuple):
    """One record of a group with all that it says."""

    row: Seen
    members: list[Member]

    def finding(self, name: str, members: list[str], witness: str, first_offset: int | None = None) -> Finding:
        """Something about this record."""
        row = self.row
        first = row.offset if first_offset is None else first_offset
        return Finding(name, row.group, row.generation, first, row.offset, row.at_ms, members, witness)


def versions(rows: list[Seen]) -> Iterator[Version]:
    """The groups' records among rows that belong together, in their order."""
    version: Version | None = None
    for row in rows:
        if row.kind == "group":
            if version is not None:
                yield version
            version = Version(row, [])
        elif version is not None and row.kind == "member":
            version.members.append(Member(row))
        elif version is not None and version.members and row.kind == "subscribed":
            version.members[-1].topics.add(row.topic or "")
        elif version is not None and version.members and row.kind == "assigned":
            version.members[-1].places[row.place] = row.topic or ""
    if version is not None:
        yield version


@dataclass
class Recorded:
    """What is remembered of a group's records; all of it is what JSON knows."""

    last: list[int | None] | None = None
    """The last record: its generation and offset."""
    greatest: list[int] | None = None
    """The greatest generation of this life, and its offset."""
    plans: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Generation, instance or member: its assignments."""
    present: dict[str, str | None] = field(default_factory=dict)
    """The last record's members and their instances."""
    gone: dict[str, list[int | str | None]] = field(default_factory=dict)
    """Members that were there once: the offset without them, and who had their instance."""
    owners: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Generation, partition: whose it is."""
    committed: dict[str, list[int | None]] = field(default_factory=dict)
    """Partition: its offset, and that of the record."""
    held: dict[str, list[str]] = field(default_factory=dict)
    """Of the newer protocol: member, and its partitions."""
    storm: list[list[int]] = field(default_factory=list)
    """The last generations: generation, offset, time."""
    is_stormy: bool = False

    def may_begin(self) -> bool:
        """Whether a record of generation 0 begins a life: the log has no other generation that is alive."""
        return self.last is None or not self.last[0]

    def of_version(self, version: Version, welcome: Container[str] | None = None) -> Iterator[Finding]:
        """A group's record became durable; `welcome` has the members that got a successful answer, None: the
        log does not say whom it told what."""
        last, row = self.last, version.row
        if last is not None and last[1] is not None and row.offset < last[1]:
            # Its append ended after that of a later one.
            if row.generation is not None:
                yield from self._of_itself(version, is_first=False)
            return
        self.last = [row.generation, row.offset]
        if row.generation is None:
            self.greatest, self.plans = None, {}
        else:
            is_first = last is not None and last[0] is not None and last[0] != row.generation
            yield from self._of_itself(version, is_first)
            yield from self._of_generation(version)
        yield from self._of_members(version, welcome)

    @staticmethod
    def _of_itself(version: Version, is_first: bool) -> Iterator[Finding]:
        """`is_first`: of its generation, for certain."""
        row, members = version.row, version.members
        owners: dict[str, list[str]] = {}
        instances: dict[str, list[str]] = {}
        for member in members:
            for place in member.places:
                owners.setdefault(place, []).append(member.name)
            if member.row.instance is not None:
                instances.setdefault(member.row.instance, []).append(member.name)
            strange = sorted(place for place, topic in member.places.items() if topic not in member.topics)
            # A static member may come back with another subscription: its assignment stays as it was (§9.3).
            if member.topics and strange and (is_first or member.row.instance is None):
                yield version.finding("not subscribed", [member.name], strange[0])
        for place, owning in owners.items():
            if len(set(owning)) > 1:
                yield version.finding("two owners", sorted(set(owning)), place)
        for instance, named in instances.items():
            if len(set(named)) > 1:
                yield version.finding("instance twice", sorted(set(named)), f"instance {instance}")
        leads = any(member.name == row.leader for member in members)
        if leads != bool(row.amount) or (not row.amount and row.leader is not None):
            witness = f"leader {row.leader or 'none'} of {row.amount} members"
            yield version.finding("leader not a member", [row.leader or ""], witness)
        if row.amount and row.protocol is None:
            yield version.finding("no protocol", [], f"{row.amount} members and no protocol")

    def _of_generation(self, version: Version) -> Iterator[Finding]:
        row = version.row
        generation = row.generation or 0
        if self.greatest is not None and generation < self.greatest[0]:
            witness = f"generation {generation} after {self.greatest[0]}"
            yield version.finding("generation back", [], witness, self.greatest[1])
        if self.greatest is None or generation > self.greatest[0]:
            self.greatest = [generation, row.offset]
        plan = self.plans.setdefault(str(generation), {})
        for member in version.members:
            who = member.row.instance or member.name
            told = plan.setdefault(who, [])
            if (assigned := digest(member.row.payload)) not in told:
                told.append(assigned)
                if len(told) == 2:
                    yield version.finding("generation reused", [member.name], f"2 assignments for {who}")
        self.plans = latest(self.plans, KEPT_GENERATIONS)
        owned: dict[str, list[str]] = {}
        for member in version.members:
            for place in member.places:
                owned[place] = sorted({*owned.get(place, []), member.name})
        self.owners.pop(str(generation), None)
        self.owners = latest(self.owners | {str(generation): owned}, KEPT_GENERATIONS)

    def _of_members(self, version: Version, welcome: Container[str] | None) -> Iterator[Finding]:
        now = {member.name: member.row.instance for member in version.members}
        for member in sorted(set(now) - set(self.present)):
            if (left := self.gone.pop(member, None)) is not None:
                offset, newcomer = left
                if newcomer is not None and welcome is not None and newcomer not in welcome:
                    continue  # it was answered with the failure
                name, how = ("resurrected", "gone") if newcomer is None else ("replacement lost", "replaced")
                witness = f"{how} at offset {offset}, back at {version.row.offset}"
                yield version.finding(name, [member], witness, int(offset or 0))
        holders: dict[str | None, str] = {instance: member for member, instance in now.items() if instance is not None}
        for member, instance in self.present.items():
            if member not in now:
                self.gone[member] = [version.row.offset, holders.get(instance)]
        self.present, self.gone = now, latest(self.gone, KEPT_MEMBERS)

    def of_offset(self, row: Seen) -> Iterator[Finding]:
        """A committed offset became durable."""
        before = self.committed.get(row.place)
        if before is not None and before[1] is not None and row.offset < before[1]:
            return  # its append ended after that of a later one
        self.committed[row.place] = [row.committed, row.offset]
        if before is None or before[0] is None or row.committed is None or row.committed >= before[0]:
            return
        witness = f"{row.place}: {row.committed} after {before[0]}"
        first = row.offset if before[1] is None else before[1]
        yield Finding("offset went back", row.group, None, first, row.offset, row.at_ms, [], witness)

    def of_newer(self, rows: list[Seen]) -> Iterator[Finding]:
        """What a member of the newer protocol holds from now on."""
        row = rows[0]
        member = row.member or ""
        places = [other.place for other in rows if other.kind == "consumer_assigned"]
        self.held.pop(member, None)
        for other, held in self.held.items():
            for place in sorted(set(held) & set(places)):
                at = (row.offset, row.offset, row.at_ms)
                yield Finding("held by two", row.group, rows[-1].generation, *at, [other, member], place)
        if places:
            self.held[member] = places

    def of_round(self, row: Seen) -> Iterator[Finding]:
        """A generation came to be: a record of it, or the first answer."""
        generation, at_ms = row.generation or 0, row.at_ms or 0
        if any(generation == known for known, _, _ in self.storm):
            return
        self.storm = [*self.storm, [generation, row.offset, at_ms]][-STORM_GENERATIONS:]
        first = self.storm[0]
        if self.is_stormy or len(self.storm) < STORM_GENERATIONS or at_ms - first[2] > STORM_MS:
            return
        self.is_stormy = True
        witness = f"{generation - first[0]} generations up to {generation}"
        yield Finding("storm", row.group, generation, first[1], row.offset, row.at_ms, [], witness)
