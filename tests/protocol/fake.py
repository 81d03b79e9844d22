"""A subject for testing the runner itself: answers JoinGroup when the log has stored, Heartbeat at once."""

# ruff: noqa: ARG002  (the interface of a subject; a fake needs little of it)
from __future__ import annotations

from typing import Any

from rota.transcript.subject import Answer, Append, Effect, Explanation, Request

JOIN_WAIT_MS = 3_000


class FakeSubject:
    """Each JoinGroup appends a record; once that is stored the join is answered after 3 s."""

    shows = frozenset({"log", "explain", "unload"})

    def __init__(self) -> None:
        self.storing: list[tuple[int, Request]] = []
        self.waiting: list[tuple[int, int, Request]] = []
        self.appends = 0

    def replay(self, record: dict[str, Any]) -> None:
        return

    def loaded(self, now_ms: int) -> list[Effect]:
        return []

    def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
        if request.api != "JoinGroup":
            return [Answer(ticket, "Heartbeat", {"error": "NONE"})]
        self.storing.append((ticket, request))
        self.appends += 1
        return [Append(self.appends - 1, [{"kind": "group", "group_id": request.fields["group_id"], "value": None}])]

    def appended(self, append_id: int, error: str | None, now_ms: int) -> list[Effect]:
        ticket, request = self.storing.pop(0)
        if error:
            return [joined(ticket, "NOT_COORDINATOR", "")]
        self.waiting.append((now_ms + JOIN_WAIT_MS, ticket, request))
        return []

    def advance(self, now_ms: int) -> list[Effect]:
        due = [entry for entry in self.waiting if entry[0] <= now_ms]
        self.waiting = [entry for entry in self.waiting if entry[0] > now_ms]
        return [
            joined(ticket, "NONE", f"{request.fields['client_id']}-00000000-0000-4000-8000-{ticket:012x}")
            for _, ticket, request in due
        ]

    def next_deadline(self) -> int | None:
        return min((deadline for deadline, _, _ in self.waiting), default=None)

    def topics_deleted(self, topics: list[str], now_ms: int) -> list[Effect]:
        return []

    def unload(self, now_ms: int) -> list[Effect]:
        tickets = [ticket for _, ticket, _ in self.waiting] + [ticket for ticket, _ in self.storing]
        self.waiting, self.storing = [], []
        return [joined(ticket, "NOT_COORDINATOR", "") for ticket in tickets]

    def explain(self, group_id: str) -> Explanation | None:
        return Explanation("Stable", 1, 0)

    def check_invariants(self) -> None:
        return


def joined(ticket: int, error: str, member_id: str) -> Answer:
    """A JoinGroup answer of a lone member, or an error."""
    good = error == "NONE"
    fields = {
        "error": error,
        "generation": 1 if good else -1,
        "protocol_type": "consumer" if good else None,
        "protocol_name": "range" if good else None,
        "leader": member_id,
        "skip_assignment": False,
        "member_id": member_id,
        "members": [(member_id, None, b"Sa")] if good else [],
    }
    return Answer(ticket, "JoinGroup", fields)
