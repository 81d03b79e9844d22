"""What earlier releases wrote is read, and what a later one wrote is refused by the number of its format."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import rota
from harness import etcd, postgres
from harness.raw import NONE
from rota import _rota
from rota.conform.batches import crc32c
from rota.coordinator import Coordinator
from tests.clients.eventually import eventually
from tests.log.record_release import NEWER, RELEASES, SESSION_MS, SNAPSHOT_GROUP, TOPIC, give
from tests.log.served import has
from tests.wire.test_describing import GROUP, SESSION, SET, alter

WITHIN_S = 60.0
RELEASED = sorted(RELEASES.glob("*.tar.xz"))
LATER = "has format 2, and this release of rota knows format 1; use the release that wrote the data directory"


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rota", *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


@pytest.fixture(params=RELEASED, ids=lambda path: path.name.removesuffix(".tar.xz"))
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_the_first_release_is_kept() -> None:
    assert "0.1.0" in [path.name.removesuffix(".tar.xz") for path in RELEASED]


def test_a_data_directory_gives_what_it_gave(release: Path) -> None:
    expected: dict[str, Any] = json.loads((release / "expected.json").read_text())
    assert min(expected["members"].values()) > 0
    assert expected["settings"] == {NEWER: str(SESSION_MS)}
    assert json.loads(json.dumps(give(release / "data"))) == expected


def test_the_commands_read_a_data_directory_and_its_journal(release: Path) -> None:
    verified = run("log", "verify", release / "data")
    assert (verified.returncode, verified.stderr) == (0, "")
    replayed = run("log", "replay", release / "data", "--json")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_a_snapshot_is_restored_or_refused_by_its_number(release: Path) -> None:
    kept = (release / "snapshot").read_bytes()
    now = Coordinator()
    now.loaded(0)
    if kept[0] == now.snapshot()[0]:
        # The state that this release keeps has not changed without a new number.
        restored = Coordinator.restore(kept)
        assert restored.snapshot() == kept
        assert SNAPSHOT_GROUP in restored.group_ids()
    else:
        with pytest.raises(rota.SnapshotError, match=f"has format {kept[0]}, and .* load the coordinator from its log"):
            Coordinator.restore(kept)


def test_a_checkpoint_of_the_audit_is_read_or_refused_by_its_number(release: Path) -> None:
    # Before format 4 it was JSON.
    kept = next(path for path in (release / "follow", release / "follow.json") if path.exists()).read_bytes()
    fold = _rota.AuditFold(True, False)
    if kept[0] == fold.state()[0]:
        fold.resume(kept)
        assert fold.state() == kept
    else:
        with pytest.raises(ValueError, match="another --checkpoint directory"):
            fold.resume(kept)


# ---- a later format


def later_text(path: Path) -> None:
    """The format in the first line of a file whose last line is a checksum."""
    first, rest = path.read_text().split("\n", 1)
    body = re.sub(r" 1$", " 2", first) + "\n" + rest[: rest.rindex("crc32c ")]
    path.write_text(f"{body}crc32c {crc32c(body.encode()):08x}\n")


def later_directory(data: Path) -> None:
    meta = data / "meta.properties"
    meta.write_text(meta.read_text().replace("rota.version=1", "rota.version=2"))


def later_checkpoint(data: Path) -> None:
    later_text(data / "rota.checkpoint")


def later_write_ahead_file(data: Path) -> None:
    path = max(data.glob("rota.wal.*"))
    content = path.read_bytes()
    header = content[:7] + b"2" + content[8:28]
    path.write_bytes(header + struct.pack(">I", crc32c(header)) + content[32:])


def later_topic_table(data: Path) -> None:
    later_text(data / "rota.topics")


def later_first_offsets(data: Path) -> None:
    with rota.Server(data=data) as server:
        server.create_topic("deleted", 1)
        produced = Producer({"bootstrap.servers": server.bootstrap_servers})
        produced.produce("deleted", b"v", partition=0)
        assert produced.flush(60) == 0
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        (deleted,) = admin.delete_records([TopicPartition("deleted", 0, 1)]).values()
        assert deleted.result(60).low_watermark == 1
    later_text(data / "rota.starts")


def later_group_settings(data: Path) -> None:
    later_text(data / "rota.groups")


def later_acls(data: Path) -> None:
    with rota.Server(data=data, acls=["ALLOW User:* * ALL TOPIC LITERAL *"]):
        pass
    later_text(data / "rota.acls")


def contents(data: Path) -> dict[str, str]:
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def tables(data: Path) -> list[str]:
    return [path.read_text() for name in ("rota.topics", "rota.groups", "rota.acls") if (path := data / name).exists()]


OF_THE_LOG = [later_directory, later_checkpoint, later_write_ahead_file]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with rota.Server(data=tmp_path / "data") as server:
        server.create_topic(TOPIC)
        server.produce(TOPIC, ["one"])
        assert alter((server.host, server.port), GROUP, "g", (SESSION, SET, "50000")) == [(NONE, None)]
    return tmp_path / "data"


@pytest.mark.parametrize(
    "later", [*OF_THE_LOG, later_topic_table, later_first_offsets, later_group_settings, later_acls]
)
def test_a_server_refuses_a_later_format_by_its_number(data: Path, later: Callable[[Path], None]) -> None:
    # The log is opened before these tables are read.
    looked_at = contents if later in OF_THE_LOG else tables
    later(data)
    before = looked_at(data)
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    # The file of ACLs is read if there is an authorizer.
    others = ["--set", authorizer] if later is later_acls else []
    ended = run("serve", "--listen", "127.0.0.1:0", "--data", data, *others)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert LATER in ended.stderr
    assert looked_at(data) == before


@pytest.mark.parametrize(
    "words", [["verify"], ["dump"], ["recover"], ["recover", "--give-up"], ["repair"]], ids=" ".join
)
@pytest.mark.parametrize("later", OF_THE_LOG)
def test_no_command_touches_a_later_format(data: Path, later: Callable[[Path], None], words: list[str]) -> None:
    later(data)
    before = contents(data)
    ended = run("log", *words, data)
    assert ended.returncode not in (0, None)
    assert LATER in ended.stderr
    assert "Traceback" not in ended.stderr
    assert contents(data) == before


# ---- engines


def joined(url: str) -> None:
    """Makes a cluster: its first server writes the format."""
    assert run("cluster", "init", "--engine", url).returncode == 0
    with rota.Server(engine=url, node_id=1) as server:
        eventually(lambda: has(server, TOPIC, 1), WITHIN_S, "the server joins")


def check_refused(url: str) -> None:
    ended = run("cluster", "status", "--engine", url)
    assert ended.returncode not in (0, None)
    assert "its content has format 2, this rota writes format 1: start a newer rota" in ended.stderr


@pytest.mark.skipif(not etcd.is_installed(), reason="etcd is not installed (Debian: etcd-server, etcd-client)")
def test_a_later_format_in_etcd_is_refused_by_its_number(tmp_path: Path) -> None:
    with etcd.Etcd(tmp_path) as engine:
        joined(engine.url())
        assert engine.control("get", "--print-value-only", "/rota/v/format").strip() == "1"
        engine.control("put", "/rota/v/format", "2")
        check_refused(engine.url())


@pytest.mark.skipif(not postgres.is_installed(), reason="PostgreSQL is not installed (Debian: postgresql)")
def test_a_later_format_in_postgresql_is_refused_by_its_number() -> None:
    with postgres.Postgres() as engine:
        joined(engine.url())
        assert engine.sql("SELECT format FROM rota.meta").strip() == "1"
        engine.sql("UPDATE rota.meta SET format = 2")
        check_refused(engine.url())
