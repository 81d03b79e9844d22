"""Whose rights count for the topics of a pattern: a session of two members with the same pattern and other rights.

`python -m tests.acls.patterns HOST:PORT` plays it to a new Kafka with StandardAuthorizer, as `record.py` says, and
writes what it does into `patterns-kafka-4.4.0.json`. It takes eleven minutes.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.acls.asking import Asker, set_acls

RECORDED = Path(__file__).parent / "patterns-kafka-4.4.0.json"
USERS = ("admin", "ana", "bob")
GROUP, PATTERN = "patterns", "pat-.*"
ACLS = [
    *(f"ALLOW User:{user} * READ GROUP LITERAL {GROUP}" for user in ("ana", "bob")),
    "ALLOW User:ana * DESCRIBE TOPIC LITERAL pat-a",
    "ALLOW User:bob * DESCRIBE TOPIC LITERAL pat-b",
]
ROUNDS, ROUND_MS = 12, 500
BETWEEN_RESOLUTIONS_MS = 11_000
BEAT_MS, REFRESH_MS = 20_000, 600_000
Pause = Callable[[int], object]


class Member:
    """A member with the pattern, which owns what its last answer assigns."""

    def __init__(self, client: Asker, name: str) -> None:
        self.client, self.name = client, name
        self.epoch = 0
        self.owned: list[dict[str, Any]] = []

    def beat(self) -> int:
        """One full heartbeat; returns its error."""
        answer = self.client.ask(
            "ConsumerGroupHeartbeat",
            1,
            {
                "group_id": GROUP,
                "member_id": self.name,
                "member_epoch": self.epoch,
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": [],
                "subscribed_topic_regex": PATTERN,
                "topic_partitions": self.owned,
            },
        )
        if answer["error_code"] == 0:
            self.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                self.owned = answer["assignment"]["topic_partitions"]
        return int(answer["error_code"])


def create(admin: Asker, *names: str) -> None:
    """Topics of one partition."""
    new = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    topics = [{"name": name, **new} for name in names]
    created = admin.ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 30_000})
    assert [topic["error_code"] for topic in created["topics"]] == [0] * len(names), created


def settled(admin: Asker, members: list[Member], pause: Pause) -> dict[str, list[str]]:
    """The topics in the members' targets, after some heartbeats."""
    for _ in range(ROUNDS):
        for member in members:
            assert member.beat() in (0, 14, 16), member.name
        pause(ROUND_MS)
    [group] = admin.ask("ConsumerGroupDescribe", 1, {"group_ids": [GROUP]})["groups"]
    return {
        member["member_id"]: sorted(part["topic_name"] for part in member["target_assignment"]["topic_partitions"])
        for member in group["members"]
    }


def played(address: tuple[str, int], passwords: dict[str, str], pause: Pause) -> dict[str, Any]:
    """What the members get, by what was before."""
    with ExitStack() as stack:
        admin, ana, bob = (stack.enter_context(Asker(address, user, passwords[user])) for user in USERS)
        create(admin, "pat-a", "pat-b")
        set_acls(admin, ACLS)
        while admin.ask("FindCoordinator", 4, {"coordinator_keys": [GROUP], "key_type": 0})["coordinators"][0][
            "error_code"
        ]:
            pause(ROUND_MS)
        first, second = Member(ana, "ana"), Member(bob, "bob")
        told = {"ana has joined": settled(admin, [first], pause)}
        told["bob has joined"] = settled(admin, [first, second], pause)
        pause(BETWEEN_RESOLUTIONS_MS)
        create(admin, "pat-c")
        pause(ROUND_MS)
        # The first heartbeat after the topic is new has the patterns resolved.
        told["bob has the pattern resolved"] = settled(admin, [second, first], pause)
        pause(BETWEEN_RESOLUTIONS_MS)
        create(admin, "pat-d")
        pause(ROUND_MS)
        told["ana has the pattern resolved"] = settled(admin, [first, second], pause)
        set_acls(admin, [*ACLS, "ALLOW User:ana * DESCRIBE TOPIC LITERAL pat-b"])
        told["ana may describe another topic"] = settled(admin, [first, second], pause)
        for _ in range(REFRESH_MS // BEAT_MS):
            pause(BEAT_MS)
            for member in (first, second):
                member.beat()
            # A broker closes a connection that is silent for ten minutes.
            admin.ask("ConsumerGroupDescribe", 1, {"group_ids": [GROUP]})
        told["ten minutes later"] = settled(admin, [first, second], pause)
    return told


def main() -> None:
    """Play the session, and write the file."""
    host, port = sys.argv[1].rsplit(":", 1)
    never = threading.Event()
    passwords = {user: f"{user}-secret" for user in USERS}
    answers = played((host, int(port)), passwords, lambda ms: never.wait(ms / 1_000))
    RECORDED.write_text(json.dumps(answers, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
