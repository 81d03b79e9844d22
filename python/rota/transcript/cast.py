"""The cast of a transcript: actors, the member ids they were given, and the generation they believe in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DURATION = re.compile(r"^(-?\d+)(ms|s|m)$")
UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000}
DEFAULT_SESSION_MS = 10_000
DEFAULT_REBALANCE_MS = 60_000
MINTED = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


class StepError(Exception):
    """A step that makes no sense; the runner adds file and line."""


def duration_ms(text: str) -> int:
    """`10s`, `250ms`, `5m` in milliseconds."""
    match = DURATION.match(text)
    if not match:
        raise StepError(f"`{text}` is no duration (expected such as 10s, 250ms, 5m)")
    return int(match[1]) * UNIT_MS[match[2]]


def duration_text(ms: int) -> str:
    """The shortest of `5m`, `10s`, `250ms` that is exact."""
    if ms % 1_000 or not ms:
        return f"{ms}ms"
    return f"{ms // 1_000}s" if ms % 60_000 or abs(ms) <= 60_000 else f"{ms // 60_000}m"


@dataclass
class Actor:
    """One client. Everything a request does not say is taken from here."""

    name: str
    protocols: list[tuple[str, bytes]]
    session_ms: int = DEFAULT_SESSION_MS
    rebalance_ms: int = DEFAULT_REBALANCE_MS
    protocol_type: str = "consumer"
    version: int = 9
    #: newest last
    ids: list[str] = field(default_factory=list)
    generation: int = -1
    told: tuple[str | None, str | None] = (None, None)

    @property
    def member_id(self) -> str:
        """The id it was given last, or ""."""
        return self.ids[-1] if self.ids else ""


class Cast:
    """All actors of one run, and the names under which member ids and generations are shown."""

    def __init__(self, *, any_ids: bool = False) -> None:
        #: whether a member id may look like anything, instead of the client id and a UUID
        self.any_ids = any_ids
        self.actors: dict[str, Actor] = {}
        self.names: dict[str, str] = {}
        self.base_generation: int | None = None

    def actor(self, connection: str) -> Actor:
        """The actor behind a connection: `a'` is another connection of `a`."""
        name = connection.rstrip("'")
        if name not in self.actors:
            self.actors[name] = Actor(name, [("range", f"S{name}".encode())])
        return self.actors[name]

    def bind(self, actor: Actor, member_id: str) -> None:
        """`actor` got an answer with its `member_id`."""
        if member_id in self.names:
            return
        if not (self.any_ids or (member_id.startswith(f"{actor.name}-") and MINTED.search(member_id))):
            raise StepError(f"`{member_id}` is no id for client `{actor.name}`: expected the client id, `-`, a UUID")
        actor.ids.append(member_id)
        count = len(actor.ids)
        self.names[member_id] = f"${actor.name}" if count == 1 else f"${actor.name}{count}"

    def rebase(self) -> None:
        """The given part is over: its newest ids get the plain names, its newest generation is called G."""
        for actor in self.actors.values():
            for age, member_id in enumerate(reversed(actor.ids)):
                self.names[member_id] = f"${actor.name}" if age == 0 else f"$old-{actor.name}{age}"
            actor.ids = actor.ids[-1:]
        self.base_generation = max((actor.generation for actor in self.actors.values()), default=-1)
        if self.base_generation < 0:
            self.base_generation = None

    def show_id(self, member_id: str | None) -> str:
        """The name of a member id, `x-?` for one that x has not received, `""` for none."""
        if not member_id:
            return '""' if member_id == "" else "-"
        minted = MINTED.search(member_id)
        untold = f"{member_id[: minted.start()]}-?" if minted else member_id
        return self.names.get(member_id, untold)

    def find_id(self, text: str) -> str:
        """`$a` or a bare actor name -> its id, `""` -> nothing, anything else unchanged."""
        if text == '""':
            return ""
        for member_id, name in self.names.items():
            if name == text:
                return member_id
        if text.startswith("$"):
            raise StepError(f"no actor got the id `{text}`")
        known = self.actors.get(text)
        return known.member_id if known and known.ids else text

    def show_generation(self, generation: int) -> str:
        """Relative to G after a given part, else the number; 0 is always a new group's."""
        if self.base_generation is None or generation <= 0:
            return str(generation)
        distance = generation - self.base_generation
        return f"G{distance:+d}" if distance else "G"

    def find_generation(self, text: str) -> int:
        """The number behind `G`, `G+1`, `7`."""
        if not text.startswith("G"):
            return int(text)
        if self.base_generation is None:
            raise StepError("there is no G without a given part")
        return self.base_generation + int(text[1:] or "0")
