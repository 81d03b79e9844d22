"""Kafka's own assignors and protocol classes, in a JVM that answers a line of JSON with a line of JSON."""

import json
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from harness.assignors import command
from rota.model.assignors import Partition
from tests.assign.groups import Group


class KafkaError(Exception):
    """What Kafka's classes threw."""


class Kafka:
    """The JVM; a context manager."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def ask(self, question: str, **said: Any) -> Any:
        """The answer to one question. Raises KafkaError for what Kafka's classes throw."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"question": question, **said}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise KafkaError(answer["error"])
        return answer

    def plan(self, assignor: str, group: Group) -> dict[str, list[Partition]]:
        """The plan of Kafka's class for a group."""
        answer = self.ask(
            "plan",
            assignor=assignor,
            members=[member_as_json(member, said.topics, said) for member, said in group.subscribers.items()],
            partitions=group.partitions,
            racks=group.topic_racks,
        )
        plan: Mapping[str, list[list[Any]]] = answer["plan"]
        return {member: [(topic, index) for topic, index in assigned] for member, assigned in plan.items()}


def member_as_json(member: str, topics: Any, said: Any) -> dict[str, Any]:
    """A `rota.assign.Subscriber` as the Java program reads it."""
    return {
        "id": member,
        "topics": list(topics),
        "instance_id": said.instance_id,
        "owned": [list(partition) for partition in said.owned],
        "generation": said.generation,
        "rack": said.rack,
    }
