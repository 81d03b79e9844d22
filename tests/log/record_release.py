"""Keeps what this release writes, for the tests of later releases: `python -m tests.log.record_release`.

Writes `tests/log/releases/VERSION.tar.xz` with a data directory and its journal, left by a server that was killed, a
snapshot of a coordinator, a checkpoint of `rota audit --follow`, and `expected.json`: what they must give when they are
read. Run it once for each release, before its tag; it does not replace a file. The first release is recorded anew until
it is out (`--replace`).
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

import rota
from harness import peer
from harness.raw import NONE, Member
from rota import _rota
from rota.coordinator import Coordinator
from rota.protocol import JoinGroup
from tests.clients.eventually import eventually
from tests.wire.test_describing import GROUP, SESSION, SET, alter, describe

RELEASES = Path(__file__).with_name("releases")
CLASSIC = [f"group-{number}" for number in range(3)]
NEWER = "newer"
"""A group of the newer protocol, with a setting of its own."""
GROUPS = [*CLASSIC, NEWER]
SESSION_MS = 50_000
COMMITS, MESSAGES = 30, 12
WITHIN_S = 10
TOPIC = "orders"
SETTINGS = ["offsets.topic.num.partitions=4", "offsets.topic.segment.bytes=4096", "group.initial.rebalance.delay.ms=0"]
SNAPSHOT_GROUP = "waiting"


def give(directory: Path) -> dict[str, Any]:
    """What a server makes of a data directory."""
    with rota.Server(data=directory) as server:
        committed = {group: server.committed(group) for group in GROUPS}
        return {
            "committed": {group: sorted([*place, at] for place, at in of.items()) for group, of in committed.items()},
            "members": {group: len(server.members(group)) for group in GROUPS},
            "settings": {NEWER: describe((server.host, server.port), GROUP, NEWER)[2][SESSION].value},
            "messages": [[one.partition, one.offset, (one.value or b"").decode()] for one in server.messages(TOPIC)],
        }


def play(address: tuple[str, int]) -> None:
    """A member with commits in each classic group, which does not leave."""
    for number, group in enumerate(CLASSIC):
        with Member(address, group) as member:
            for offset in range(COMMITS + number):
                request = peer.commit(group, {0: offset}, member.generation, member.member_id)
                assert peer.committed(member.connection.ask(request)) == {NONE}


def consume(address: tuple[str, int]) -> Consumer:
    """A consumer of the newer protocol with commits, which does not leave until it is closed."""
    assert alter(address, GROUP, NEWER, (SESSION, SET, str(SESSION_MS))) == [(NONE, None)]
    settings = {"group.id": NEWER, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": "{}:{}".format(*address), "enable.auto.commit": False, **settings})
    consumer.subscribe([TOPIC])
    seen = [eventually(lambda: consumer.poll(0.1), WITHIN_S, "no message") for _ in range(MESSAGES)]
    assert not any(message is None or message.error() for message in seen)
    consumer.commit(asynchronous=False)
    return consumer


def killed(directory: Path) -> None:
    """The directory of a server that was closed once, and killed the next time."""
    with rota.Server(data=directory, settings=dict(pair.split("=") for pair in SETTINGS)) as server:
        server.create_topic(TOPIC, 2)
        server.produce(TOPIC, [f"message {number}" for number in range(MESSAGES)])
    settings = [word for pair in SETTINGS for word in ("--set", pair)]
    command = [
        "-m",
        "rota",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        str(directory),
        "--journal",
        "--json",
        *settings,
    ]
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = peer.host_port(json.loads(process.stdout.readline())["listen"])
        play(address)
        consumer = consume(address)
        journal = directory / "journal"
        eventually(lambda: any(file.stat().st_size for file in journal.rglob("*.log")), WITHIN_S, "no journal")
        process.kill()
    consumer.close()


def snapshot() -> bytes:
    """Of a coordinator with a group."""
    coordinator = Coordinator()
    coordinator.loaded(0)
    request = JoinGroup(version=3, group_id=SNAPSHOT_GROUP, protocol_type="consumer", protocols=[("range", b"")])
    coordinator.submit(1, 1, request, entropy=1)
    return coordinator.snapshot()


def main() -> None:
    target = RELEASES / f"{rota.__version__}.tar.xz"
    if target.exists() and "--replace" not in sys.argv:
        sys.exit(f"{target} is there already")
    with tempfile.TemporaryDirectory(prefix="rota-record-") as folder:
        room = Path(folder) / "release"
        room.mkdir()
        killed(room / "data")
        (room / "snapshot").write_bytes(snapshot())
        (room / "follow").write_bytes(_rota.AuditFold(True, False).state())
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz") as archive:
            archive.add(room / "data", "data")
        with tarfile.open(fileobj=io.BytesIO(packed.getvalue())) as archive:
            archive.extractall(Path(folder) / "copy", filter="data")
        (room / "expected.json").write_text(json.dumps(give(Path(folder) / "copy/data"), indent=1) + "\n")
        RELEASES.mkdir(exist_ok=True)
        with tarfile.open(target, "w:xz") as archive:
            for path in sorted(room.rglob("*")):
                archive.add(path, str(path.relative_to(room)), recursive=False)
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
