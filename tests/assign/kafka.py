"""Kafka's own assignors and protocol classes, in a JVM that answers a line of JSON with a line of JSON."""

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rota.model.assignors import Partition
from tests.assign.groups import Group

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JAVA_FLAGS = ("-Xss16m", "-XX:+UseSerialGC")


def build() -> Path:
    """The directory with the Java program, built by Maven if its sources changed since the last time."""
    java = HERE / "java"
    sources = [java / "pom.xml", *sorted((java / "src").rglob("*.java"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    cache = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "assignors-java"
    cache.mkdir(parents=True, exist_ok=True)
    out = cache / digest
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # every pytest-xdist worker comes by here
        if not (out / "built").exists():
            command = ["mvn", "-q", "-B", "-f", str(java / "pom.xml"), "package", f"-Dout={out}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"Kafka's assignors do not build: {done.stdout}{done.stderr}")
            (out / "built").touch()
    return out


def command(*arguments: str, flags: tuple[str, ...] = JAVA_FLAGS) -> list[str]:
    """How to run the Java program."""
    built = build()
    return ["java", *flags, "-cp", f"{built}/assignors.jar:{built}/lib/*", "rota.assignors.Main", *arguments]


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
