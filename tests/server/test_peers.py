"""The servers of a cluster ask each other about transactions at listeners with TLS and SASL (docs/cluster.md)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka as librdkafka
import pytest

import rota
from rota.cluster import Cluster
from rota.exits import MISUSED
from tests.clients.eventually import eventually
from tests.commands.test_serve import run

pytestmark = pytest.mark.clients

PASSWORD, GUESSED = "correct-horse-battery", "staple-of-the-day"  # of servers of this test only
USERS = {"ana": "staple", "rota": PASSWORD}
PARTITIONS, TTL_MS, WITHIN_S = 4, 1_000, 60.0
SETTINGS: dict[str, str | int] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": PARTITIONS,
    "transaction.state.log.num.partitions": PARTITIONS,
    "connection.failed.authentication.delay.ms": 0,
}
ANA = [f"ALLOW User:ana * ALL {kind} LITERAL *" for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")]
OF_PEERS = "ALLOW User:rota * CLUSTER_ACTION CLUSTER LITERAL kafka-cluster"
LOGIN = rota.PeerAccess(user="rota", password=PASSWORD)
SAID = "rota: transactions wait for "


@dataclass
class Pair:
    """Two servers with one engine, and a client that trusts everyone."""

    engine: rota.MemoryEngine = field(default_factory=rota.MemoryEngine)
    servers: dict[int, rota.Server] = field(default_factory=dict)

    def start(self, node_id: int, **arguments: Any) -> rota.Server:
        settings = SETTINGS | arguments.pop("settings", {})
        server = rota.Server(settings=settings, engine=self.engine, node_id=node_id, ttl_ms=TTL_MS, **arguments)
        self.servers[node_id] = server
        return server

    def settle(self) -> None:
        """Wait until each server coordinates transactions and leads partitions of the topic."""

        def views() -> set[tuple[int | None, ...]]:
            clusters = [cluster_of(server) for server in self.servers.values()]
            return {tuple(row.coordinator for row in cluster.transaction_partitions) for cluster in clusters}

        def is_settled() -> bool:
            view, *others = views()
            return not others and set(view) == set(self.servers)

        eventually(is_settled, WITHIN_S, "each server coordinates", lambda: repr(views()))
        self.servers[1].create_topic("orders", PARTITIONS)

    def config(self, **of_client: Any) -> dict[str, Any]:
        config = self.servers[1].client_config("librdkafka", **of_client)
        return config | {"enable.ssl.certificate.verification": False, "log_level": 0}

    def transactional_id(self, node_id: int) -> str:
        """One that this server coordinates."""
        rows = cluster_of(self.servers[node_id]).transaction_partitions
        names = (f"payments-{number}" for number in itertools.count())
        owners = ((name, rows[rota._rota.partition_for(name, PARTITIONS)].coordinator) for name in names)
        return next(name for name, owner in owners if owner == node_id)

    def begin(self, coordinator: int = 2, **of_client: Any) -> librdkafka.Producer:
        """A transaction with all partitions, which must still be committed."""
        ids = {"transactional.id": self.transactional_id(coordinator)}
        producer = librdkafka.Producer(self.config(**of_client) | ids)
        producer.init_transactions(WITHIN_S)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("orders", str(partition), partition=partition)
        return producer

    @contextmanager
    def reader(self, **of_client: Any) -> Iterator[Callable[[], bool]]:
        """Whether a reader of committed records has seen all partitions."""
        group = {"group.id": "reader", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        reader = librdkafka.Consumer(self.config(**of_client) | group)
        reader.assign([librdkafka.TopicPartition("orders", partition, 0) for partition in range(PARTITIONS)])
        seen: set[bytes | None] = set()

        def has_read() -> bool:
            seen.update(message.value() for message in reader.consume(PARTITIONS, 0.2) if message.error() is None)
            return len(seen) == PARTITIONS

        try:
            yield has_read
        finally:
            reader.close()

    def shows_it(self, **of_client: Any) -> None:
        with self.reader(**of_client) as has_read:
            eventually(has_read, WITHIN_S, "a reader sees the transaction", lambda: repr(self.errors()))

    def commits(self, **of_client: Any) -> None:
        for coordinator in self.servers:
            self.begin(coordinator, **of_client).commit_transaction(WITHIN_S)
        self.shows_it(**of_client)

    def errors(self) -> list[str]:
        return [error for server in self.servers.values() for error in cluster_of(server).peer_errors]


def cluster_of(server: rota.Server) -> Cluster:
    found = server.cluster()
    assert found is not None
    return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    for server in pair.servers.values():
        server.kill()
        assert server.panics == 0


def start_two(pair: Pair, **arguments: Any) -> None:
    for node_id in (1, 2):
        pair.start(node_id, **arguments)
    pair.settle()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_transaction_spans_servers_that_have_tls_and_users_only(pair: Pair, mechanism: str) -> None:
    start_two(pair, tls=rota.Authority().tls(), users=USERS, sasl=mechanism, peer_access=LOGIN)
    pair.commits(user="ana")
    assert pair.errors() == []


def test_servers_show_each_other_their_certificates(pair: Pair) -> None:
    authority = rota.Authority()
    start_two(pair, tls=authority.tls(client_auth="required"))
    pair.commits(client=authority.issue(name="ana"))
    assert pair.errors() == []


def test_a_certificate_and_a_password_can_be_in_files_which_are_read_for_each_connection(
    pair: Pair, tmp_path: Path
) -> None:
    authority, other = rota.Authority(), rota.Authority()
    ca, cert, password = (tmp_path / name for name in ("ca.pem", "peer.pem", "password"))
    ca.write_text(authority.certificate)
    password.write_text(f"{GUESSED}\n")
    issued = other.issue(name="rota")
    cert.write_text(issued.certificate + issued.key)
    access = rota.PeerAccess(ca=ca, cert=cert, user="rota", password_file=password)
    tls = authority.tls(client_auth="required")
    start_two(pair, tls=tls, users=USERS, peer_access=access)
    producer = pair.begin(client=authority.issue(name="ana"), user="ana")
    wait_for(pair, "refuses this server's certificate", producer)
    issued = authority.issue(name="rota")
    cert.write_text(issued.certificate + issued.key)
    wait_for(pair, "refuses the user `rota`", producer)
    password.write_text(PASSWORD)
    producer.commit_transaction(WITHIN_S)
    pair.shows_it(client=authority.issue(name="ana"), user="ana")


def test_the_listener_is_the_one_that_is_named(pair: Pair) -> None:
    listeners = {
        "listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "internal",
    }
    guessed = rota.PeerAccess(user="rota", password=GUESSED)
    start_two(pair, settings=listeners, users=USERS, peer_access=guessed)
    producer = pair.begin()
    wait_for(pair, "refuses the user `rota`", producer)
    for server in pair.servers.values():
        server.set_users(USERS | {"rota": GUESSED})
    producer.commit_transaction(WITHIN_S)
    pair.shows_it()


def wait_for(pair: Pair, text: str, producer: librdkafka.Producer) -> None:
    """Waits until a server says this. Until then the transaction is not committed."""

    def said() -> list[str]:
        with pytest.raises(librdkafka.KafkaException) as refused:
            producer.commit_transaction(0.2)
        assert refused.value.args[0].code() == librdkafka.KafkaError._TIMED_OUT
        return [error for error in pair.errors() if text in error]

    eventually(said, WITHIN_S, f"a server says {text!r}", lambda: "\n".join(pair.errors()))


AUTHORITY = rota.Authority()
HERE = AUTHORITY.tls()
WRONG_TLS: dict[str, tuple[Callable[[], rota.Tls], str]] = {
    "another CA": (lambda: rota.Authority().tls(), "is not from a CA in --peer-ca"),
    "an expired certificate": (lambda: AUTHORITY.tls(expired=True), "is not valid today: renew it"),
    "another host": (lambda: AUTHORITY.tls("kafka.test"), "does not name the host that it advertises"),
}


@pytest.mark.parametrize("case", WRONG_TLS)
def test_a_server_with_a_wrong_certificate_is_not_asked_until_it_has_a_right_one(
    pair: Pair, case: str, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong, text = WRONG_TLS[case]
    pair.start(1, tls=HERE)
    pair.start(2, tls=wrong(), peer_access=rota.PeerAccess(ca=AUTHORITY.certificate))
    pair.settle()
    producer = pair.begin()
    wait_for(pair, text, producer)
    # It is asked again and again, and that is said once.
    wait_for(pair, text, producer)
    pair.servers[2].set_tls(HERE)
    producer.commit_transaction(WITHIN_S)
    pair.shows_it()
    eventually(lambda: not pair.errors(), WITHIN_S, "no error is left", lambda: repr(pair.errors()))
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith(SAID)]
    assert len(said) == 1
    assert text in said[0]


def test_a_decided_transaction_waits_for_a_server_that_cannot_be_asked(pair: Pair) -> None:
    pair.start(1, tls=HERE)
    pair.start(2, tls=AUTHORITY.tls(expired=True))
    pair.settle()
    producer = pair.begin(coordinator=1)
    producer.commit_transaction(WITHIN_S)
    eventually(pair.errors, WITHIN_S, "a server cannot be asked")
    with pair.reader() as has_read:
        assert not has_read()
        pair.servers[2].set_tls(HERE)
        eventually(has_read, WITHIN_S, "a reader sees the transaction", lambda: repr(pair.errors()))


def test_a_principal_needs_cluster_action(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    start_two(pair, tls=AUTHORITY.tls(), users=USERS, acls=ANA, peer_access=LOGIN)
    producer = pair.begin(user="ana")
    wait_for(pair, "may not ask it: allow it CLUSTER_ACTION on the cluster", producer)
    denied = [line for server in pair.servers.values() for line in server.denied_requests()]
    assert any("User:rota is Denied operation = CLUSTER_ACTION" in line for line in denied), denied
    for server in pair.servers.values():
        server.set_acls([*server.acls(), OF_PEERS])
    producer.commit_transaction(WITHIN_S)
    pair.shows_it(user="ana")
    said = Counter(line for line in capfd.readouterr().err.splitlines() if line.startswith(SAID))
    assert set(said.values()) == {1}


def test_a_super_user_needs_no_acl(pair: Pair) -> None:
    settings = {"super.users": "User:rota"}
    start_two(pair, users=USERS, acls=ANA, peer_access=LOGIN, settings=settings)
    pair.commits(user="ana")


def test_a_session_that_ends_is_begun_again(pair: Pair) -> None:
    start_two(pair, users=USERS, peer_access=LOGIN, settings={"connections.max.reauth.ms": 200})

    def has_ended() -> bool:
        # librdkafka authenticates again by itself.
        pair.commits(user="ana")
        return any("KIP-368" in line for server in pair.servers.values() for line in server.refused_connections())

    eventually(has_ended, WITHIN_S, "a session between the servers has ended")
    pair.commits(user="ana")
    assert pair.errors() == []


def test_other_servers_need_a_listener_of_the_name(pair: Pair) -> None:
    def listeners(name: str) -> dict[str, str]:
        protocols = f"CLIENTS:SASL_PLAINTEXT,{name}:PLAINTEXT"
        addresses = f"CLIENTS://127.0.0.1:0,{name}://127.0.0.1:0"
        return {"listeners": addresses, "listener.security.protocol.map": protocols}

    for node_id, name in ((1, "ONE"), (2, "TWO")):
        pair.start(node_id, users=USERS, settings=listeners(name))
    pair.settle()
    producer = pair.begin(user="ana")
    wait_for(pair, "it has no listener ", producer)
    assert all("give all servers one of this name" in error for error in pair.errors())


def test_a_cluster_without_a_way_between_its_servers_refuses_transactions_and_says_what_is_missing(
    pair: Pair, capfd: pytest.CaptureFixture[str]
) -> None:
    server = pair.start(1, users=USERS)
    eventually(lambda: cluster_of(server).is_ready, WITHIN_S, "the server has joined")
    producer = librdkafka.Producer(server.client_config("librdkafka", user="ana") | {"transactional.id": "payments"})
    with pytest.raises(librdkafka.KafkaException) as refused:
        producer.init_transactions(WITHIN_S)
    assert refused.value.args[0].code() == librdkafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "transactional ids are refused: the servers ask each other at the listener SASL_PLAINTEXT" in (
        capfd.readouterr().err
    )


ENGINE = ["--engine", "etcd://127.0.0.1:1/none", "--node-id", "1"]
MISSING = [
    (["--peer-ca", "ca.pem"], "--peer-ca needs --engine"),
    ([*ENGINE, "--set", "inter.broker.listener.name=OTHER"], "`OTHER`, which is not a listener: give one of PLAINTEXT"),
    (["--set", "inter.broker.listener.name=OTHER"], "`OTHER`, which is not a listener: give one of PLAINTEXT"),
    ([*ENGINE, "--peer-user", "rota"], "--peer-user needs --peer-password-file: give a file with the password, too"),
    ([*ENGINE, "--peer-password-file", "secret"], "--peer-password-file needs --peer-user"),
    ([*ENGINE, "--peer-key", "key.pem"], "--peer-key needs --peer-cert"),
    ([*ENGINE, "--peer-ca", "none.pem"], "leave out --peer-ca"),
    ([*ENGINE, "--users", "users", "--peer-ca", "none.pem"], "leave out --peer-ca and --peer-cert"),
    (
        [*ENGINE, "--users", "users", "--peer-user", "rota", "--peer-password-file", "none"],
        "--peer-password-file is `none`: No such file",
    ),
    (
        [*ENGINE, "--users", "users", "--set", "inter.broker.listener.name=SASL_PLAINTEXT"],
        "at the listener SASL_PLAINTEXT (SASL_PLAINTEXT): give --peer-user and --peer-password-file",
    ),
    (
        [*ENGINE, "--tls-cert", "server.pem", "--peer-ca", "none.pem"],
        "cannot read `none.pem`: No such file",
    ),
]


@pytest.mark.parametrize(("arguments", "says"), MISSING)
def test_what_is_missing_or_wrong_ends_the_command_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("users").write_text("\n".join(rota._rota.user_lines("rota", PASSWORD)) + "\n")
    issued = AUTHORITY.issue("localhost")
    Path("server.pem").write_text(issued.certificate + issued.key)
    ended = run("serve", "--listen", "127.0.0.1:0", *arguments)
    assert (ended.returncode, ended.stdout) == (MISUSED, "")
    assert says in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_arguments_that_need_an_engine_are_refused_without_one() -> None:
    for arguments in ({"peer_access": LOGIN}, {"reads": "fenced"}):
        with pytest.raises(ValueError, match="there is no engine: give `engine`, too"):
            rota.Server(**arguments)
    with pytest.raises(ValueError, match="the password for the other servers has no user"):
        rota.Server(engine=rota.MemoryEngine(), node_id=1, peer_access=rota.PeerAccess(password=PASSWORD))
    with pytest.raises(ValueError, match="has no password, or two"):
        rota.Server(engine=rota.MemoryEngine(), node_id=1, peer_access=rota.PeerAccess(user="rota"))
    assert PASSWORD not in repr(LOGIN)
