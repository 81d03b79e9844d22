"""A probe's side of a conversation: it asks, and what it is answered becomes evidence."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from rota.codec import Fields
from rota.conform.broker import NotServedError, Visit
from rota.conform.rows import Known, Row
from rota.conform.said import Evidence, Said
from rota.conform.wire import Connection, WireError
from rota.transcript.cast import MINTED

SESSION_MS, REBALANCE_MS = 10_000, 60_000
#: Names of a broker that say nothing about what it does.
OF_THE_BROKER = {
    "node_id", "host", "port", "rack", "cluster_id", "controller_id", "leader_id", "replica_nodes",
    "isr_nodes", "topic_id", "throttle_time_ms", "configs",
}  # fmt: skip
#: Words of a message for people, which may be said otherwise.
FOR_PEOPLE = {"error_message"}
#: NONE, MEMBER_ID_REQUIRED
GIVES_AN_ID = (0, 79)

Plan = Callable[["Talk"], None]


class Talk:
    """One probe in progress."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.evidence: Evidence = []
        self.connections: dict[str, Connection] = {}
        #: member id -> what it is shown as
        self.ids: dict[str, str] = {}
        self.step = "at the beginning"

    def on(self, who: str) -> Connection:
        """The connection of `who`."""
        if who not in self.connections:
            self.connections[who] = self.visit.connect(who.rstrip("'"))
        return self.connections[who]

    def version(self, api: str, wanted: int) -> int:
        """The newest up to `wanted` that the broker has."""
        return self.visit.broker.newest(api, wanted)

    def exactly(self, api: str, version: int) -> int:
        """This version; what the broker does not say that it has is not asked for."""
        self.step = f"{api} v{version}"
        return self.visit.broker.exactly(api, version)

    def ask(self, who: str, api: str, version: int, values: Mapping[str, Any], within_s: float | None = None) -> Fields:
        """Send, wait, and keep nothing."""
        self.step = f"{api} v{version}"
        answer = self.on(who).ask(api, version, values, within_s)
        if api == "JoinGroup" and answer["error_code"] in GIVES_AN_ID:
            self.ids[answer["member_id"]] = f"{who}-?"
        return answer

    def show(self, step: str, *lines: str) -> None:
        """Evidence."""
        self.evidence.append(Said(step, lines))

    def show_answer(self, step: str, fields: Fields) -> None:
        """Evidence: every field of an answer."""
        self.show(step, self.shown(fields))

    def shown(self, value: Any, name: str = "") -> str:
        """Without what is the broker's own, or made up for this run."""
        if name in OF_THE_BROKER:
            return "*"
        if name in FOR_PEOPLE:
            return "null" if value is None else "*"
        match value:
            case dict():
                return "{" + " ".join(f"{key}={self.shown(each, key)}" for key, each in value.items()) + "}"
            case list():
                return "[" + ", ".join(self.shown(each, name) for each in value) + "]"
            case bytes():
                return self.named(value.decode("ascii", "backslashreplace")) or "-"
            case str():
                return f'"{self.named(value)}"'
            case uuid.UUID():
                return "*"
            case None:
                return "null"
        return str(value)

    def named(self, text: str) -> str:
        """Groups, topics and members under the names that a probe uses."""
        text = text.replace(self.visit.prefix, "")
        for short, long in self.visit.broker.topics.items():
            text = text.replace(long, short)
        for member_id, shown in self.ids.items():
            text = text.replace(member_id, shown)
        text = re.sub(MINTED.pattern.removesuffix("$"), "-?", text)
        return f"{text[:1]}*{len(text)}" if len(text) > 200 else text

    @property
    def group(self) -> str:
        """The probe's group."""
        return f"{self.visit.prefix}g"

    def join(self, who: str, version: int = 5, **values: Any) -> Fields:
        """Until `who` is in a generation; the last answer. In two steps where the version has two."""
        asked = self.joining(who, **values)
        answer = self.ask(who, "JoinGroup", version, asked, self.patience_s)
        if answer["error_code"] == 79:  # MEMBER_ID_REQUIRED
            answer = self.ask(who, "JoinGroup", version, asked | {"member_id": answer["member_id"]}, self.patience_s)
        return answer

    def joining(self, who: str, **values: Any) -> Fields:
        """A JoinGroup of `who`."""
        return {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": f"S{who}".encode()}],
        } | values

    def syncing(self, joined: Fields) -> Fields:
        """A leader's SyncGroup that gives everything to itself."""
        plan = [{"member_id": joined["member_id"], "assignment": b"X"}]
        return self.speaking(joined) | {"protocol_type": "consumer", "protocol_name": "range", "assignments": plan}

    def speaking(self, joined: Fields) -> Fields:
        """What a member says of itself in each request."""
        return {"group_id": self.group, "generation": joined["generation"], "member_id": joined["member_id"]}

    def stable(self, who: str = "a", **values: Any) -> Fields:
        """A group of one member at work; the answer to its join."""
        joined = self.join(who, self.version("JoinGroup", 5), **values)
        self.ask(who, "SyncGroup", self.version("SyncGroup", 3), self.syncing(joined))
        return joined

    @property
    def patience_s(self) -> float:
        """How long a join may take that waits for the initial delay only."""
        return self.visit.limits.answer_s + 2 * (self.visit.broker.delay_s or 0.0)

    def pause(self, until: float) -> None:
        """Let time pass, on the monotonic clock."""
        while (left := until - time.monotonic()) > 0:
            self.visit.limits.left_s(until)
            self.visit.broker.stopped.wait(min(left, 0.2))


def probe(row_id: str, says: str, section: str, plan: Plan, **needs: Any) -> Row:
    """A row of a plan."""

    def perform(visit: Visit, _known: Known) -> Evidence:
        talk = Talk(visit)
        try:
            plan(talk)
        except (WireError, NotServedError) as error:
            talk.evidence.append(visit.fault(talk.step, error))
        return talk.evidence

    return Row(row_id, says, section, perform, **needs)
