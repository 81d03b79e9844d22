"""A rota server inside this process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from rota import _rota
from rota.addresses import joined
from rota.arguments import (
    INT32_MAX,
    committed_offsets,
    node_id,
    optional_text,
    partition_number,
    passwords,
    text,
    whole,
)
from rota.clock import VirtualClock
from rota.cluster import TTL_MS, Cluster, EngineAccess, PeerAccess, Reads, arguments, described
from rota.faults import Faults
from rota.health import Health, JournalHealth, StartReport
from rota.messages import Headers, Message, records
from rota.server_arguments import (
    LISTEN,
    access,
    acl_lines,
    addresses_in,
    check_types,
    data_arguments,
    journal_arguments,
    naming_arguments,
    settings_as_texts,
)
from rota.trace import Sink, writer

if TYPE_CHECKING:
    from rota.http.listener import Listener, Opening
    from rota.http.tls import Files
    from rota.security import Certificate, Tls
    from rota.tokens import TokenIssuer

    Setting = str | int | bool

__all__ = ["Endpoint", "Health", "JournalHealth", "Message", "Server", "StartReport"]

Durability = Literal["fsync", "os"]

KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
JOURNAL_RETENTION_BYTES = 1 << 30
JOURNAL_RETENTION_MS = 7 * 24 * 3_600_000


class Endpoint(NamedTuple):
    """A listener of a server, with Kafka's name and security protocol."""

    name: str
    security_protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    is_local: bool
    """Whether only this machine reaches it."""
    nodes: dict[int, str]
    """HOST:PORT of every node, by its id."""

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every node with commas between, as Kafka clients want it in `bootstrap.servers`."""
        return ",".join(self.nodes.values())


class Server(Faults):
    """A Kafka-compatible server: topics, and the coordinator of every group that connects.

    It listens from the moment it is made until `stop()`, or until the end of its `with` block:

    >>> with rota.Server(settings={"group.initial.rebalance.delay.ms": 0}) as server:
    ...     consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g"})

    listen     HOST:PORT to listen on; port 0 picks a free one.
    advertise  HOST:PORT advertised to clients, where it differs (containers, other hosts).
    nodes      how many brokers it presents itself as, with ids from 1; they listen on consecutive ports, or on free
               ones with port 0, and are advertised on consecutive ports.
    settings   Kafka's broker settings by their Kafka names (`rota settings` lists them), over Kafka's defaults. With
               `listeners` it listens on several addresses, with a security protocol each, instead of on `listen`.
    clock      a VirtualClock to take the coordinator's time from, instead of the machine's.
    data       a directory where topics, groups and offsets are kept, created if its parent exists; without it they are
               in memory and end with the server (docs/durability.md).
    durability "fsync": what is acknowledged survives the loss of power; "os": the end of the process only.
    http       HOST:PORT on which groups, health and metrics are shown over HTTP, or :PORT of this machine only; port 0
               picks a free one; https://HOST:PORT has TLS. Nothing is shown without it (docs/http.md). On an address
               that others reach, it needs `http_token`, or CAs of clients in `tls`, or `allow_anonymous_http`.
    take_over  whether a directory that Kafka wrote becomes rota's; otherwise it is only read.
    journal    True: every event of every coordinator is written down in the data directory; a path: there
               (docs/journal.md). `journal_retention_bytes` and `journal_retention_ms` bound each of its partitions.
    trace      a function that is called with every request and answer as a dictionary, on a thread of the server, or
               a text file that they are written to, one line each; docs/trace.md has the lines.

    tls        True: clients connect with TLS, to a throw-away certificate; a rota.Tls: your own certificate and key.
               `client_config` returns the settings of clients (docs/security.md).
    sasl       how clients authenticate: "SCRAM-SHA-512" (default with `users`), "SCRAM-SHA-256", "PLAIN",
               "OAUTHBEARER", or several.
    users      passwords by user name, or the path of a file that `rota user add` wrote. Without it clients do not
               authenticate. PLAIN beyond this machine needs TLS, or `allow_plaintext_passwords`.
    acls       who may do what, a line each, such as "ALLOW User:ana * READ TOPIC LITERAL orders", or the path of a file
               with such lines. What no line allows is denied then, except to `super.users`. A data directory keeps
               ACLs; those that it has count, and not these.
    tokens     a rota.TokenIssuer, whose tokens are accepted (OAUTHBEARER). By default that is a new one, `issuer`,
               unless `sasl.oauthbearer.jwks.endpoint.url` says where the keys of another one are. `jwks_ca` is a PEM
               file with CAs for that URL; `allow_unsecured_tokens` accepts tokens without a signature, too.

    engine     shares groups with the other servers that have this engine (docs/cluster.md): a rota.MemoryEngine, or the
               URL of another one. Each has its own `node_id`. After `ttl_ms` of silence others take its groups over.
    reads      "fenced": committed offsets are answered only after the engine has confirmed, for each request, that the
               group is still this server's. "session": while its session lasts, which trusts the rate of its clock.
    engine_access  a rota.EngineAccess: certificates, user and password for it.
    peer_access    a rota.PeerAccess: certificates, user and password for the other servers (docs/cluster.md).

    Raises rota.ConfigError for a setting that cannot be, ValueError for such an address, certificate or key, OSError if
    the address cannot be listened on or the directory not opened.
    """

    @naming_arguments
    def __init__(
        self,
        listen: str = LISTEN,
        *,
        advertise: str | None = None,
        nodes: int = 1,
        settings: Mapping[str, Setting] | None = None,
        clock: VirtualClock | None = None,
        trace: Sink | None = None,
        data: str | os.PathLike[str] | None = None,
        durability: Durability = "fsync",
        take_over: bool = False,
        journal: bool | str | os.PathLike[str] = False,
        journal_retention_bytes: int | None = JOURNAL_RETENTION_BYTES,
        journal_retention_ms: int | None = JOURNAL_RETENTION_MS,
        http: str | None = None,
        http_token: str | Sequence[str] = (),
        allow_anonymous_http: bool = False,
        tls: bool | Tls | None = None,
        sasl: str | Sequence[str] | None = None,
        users: Mapping[str, str] | str | os.PathLike[str] | None = None,
        allow_plaintext_passwords: bool = False,
        acls: Iterable[str] | os.PathLike[str] | None = None,
        tokens: TokenIssuer | None = None,
        allow_unsecured_tokens: bool = False,
        jwks_ca: str | os.PathLike[str] | None = None,
        engine: _rota.MemoryEngine | str | None = None,
        node_id: int | None = None,
        ttl_ms: int = TTL_MS,
        reads: Reads = "session",
        engine_access: EngineAccess | None = None,
        peer_access: PeerAccess | None = None,
    ) -> None:
        check_types(locals())
        written = settings_as_texts(settings, listen)
        is_open = tls is None and sasl is None and users is None and tokens is None
        of_tokens = (tokens, jwks_ca, bool(written.get(KEYS_URL)))
        hosts = (listen, advertise, *addresses_in(written))
        self._access = None if is_open else access(tls, sasl, users, of_tokens, *hosts)
        protection = (None, None) if self._access is None else self._access.arguments()
        self._settings, self._listeners, self._clock = written, list[Any](), clock
        shown = None if http is None else self._shown_on(http, http_token, allow_anonymous_http)
        self._config = _rota.ServerConfig(
            listen,
            advertise,
            written,
            None if clock is None else clock._wall_ms,
            nodes,
            data_arguments(data, durability, take_over),
            journal_arguments(journal, data is not None, journal_retention_bytes, journal_retention_ms),
            protection[0],
            protection[1],
            allow_plaintext_passwords,
            acl_lines(acls),
            None if self.issuer is None else self.issuer.jwks,
            allow_unsecured_tokens,
            (http or "").startswith("https://") or getattr(tls, "is_shared", False),
            *arguments(engine, node_id, ttl_ms, reads, engine_access, peer_access),
        )
        self._open(shown, trace)

    def _open(self, shown: Opening | None, trace: Sink | None) -> None:
        """Open what was checked: addresses, directories, the engine."""
        self._http = None if shown is None else shown.open()
        try:
            self._inner = _rota.Server(self._config, None if trace is None else writer(trace))
        except BaseException:
            if self._http is not None:
                self._http.close()
            raise
        self._fetcher = None if self._access is None else self._access.keep_keys(self._inner)
        if self._http is not None:
            self._show_on(self._http)
            # What its threads hold does not keep this object: one that is dropped without `stop` ends.
            weakref.finalize(self, self._http.close_soon).atexit = False
        if self._clock is not None:
            self._clock._drive(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        # Tools print one that could not be made, too.
        return f"<rota.Server on {self.bootstrap_servers}>" if hasattr(self, "_inner") else "<rota.Server>"

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._inner.host

    @property
    def port(self) -> int:
        """The port it listens on, its first node if it has several: the one that was picked if 0 was asked for."""
        return self._inner.port

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every node with commas between, as Kafka clients want it in `bootstrap.servers`."""
        return ",".join(self.nodes().values())

    def listeners(self) -> dict[str, Endpoint]:
        """The listeners by Kafka's name, in the order of the setting `listeners`.

        Without the setting there is one, called as its security protocol.
        """
        return {
            name: Endpoint(name, protocol, is_local, _by_id(nodes))
            for name, protocol, is_local, nodes in self._inner.listeners()
        }

    def client_config(
        self,
        family: str,
        client: Certificate | None = None,
        *,
        listener: str | None = None,
        user: str | None = None,
        password: str | None = None,
        token: str | os.PathLike[str] | None = None,
    ) -> dict[str, Any]:
        """Return the settings with which a client reaches this server: its addresses, and what TLS and SASL need.

        family  "librdkafka" or "confluent-kafka", "kafka-python", "aiokafka", or "java" (properties by name). The two
                Python clients get an `ssl.SSLContext`, the others PEM texts; no files are written.
        client  the client's certificate, where the server asks for one.
        listener  the name of the listener that the client connects to (default: the first one).
        user    the user (default: the first one of `users`), with the password that the server was given for it.
        password  another password, such as a wrong one, or that of a user of a users file.
        token   with OAUTHBEARER: a token, such as one that has expired, or the path of a file that has one (by default
                every connection gets a new token of `issuer`). Clients in Java read theirs from a file.

        >>> consumer = Consumer(server.client_config("librdkafka") | {"group.id": "g"})

        Raises ValueError for an unknown family or listener, a password that is not known, or a user, password or token
        for a listener without SASL.
        """
        from rota.security import client_config

        known = self.listeners()
        at = known.get(next(iter(known)) if listener is None else listener)
        if at is None:
            raise ValueError(f"listener is {listener!r}: give one of {', '.join(known)}")
        known_to = self._access
        ca = None if known_to is None or known_to.tls is None else known_to.tls.ca_text()
        has_sasl = at.security_protocol.startswith("SASL_")
        for argument, value in {"user": user, "password": password, "token": token}.items():
            said = "***" if argument == "password" else repr(value)
            kinds = (str, os.PathLike) if argument == "token" else str
            if value is not None and not isinstance(value, kinds):
                raise TypeError(f"{argument} is {said}: give a str")
            if value is not None and not has_sasl:
                raise ValueError(f"{argument} is {said}, and clients of listener {at.name} do not authenticate")
        login = (
            None
            if known_to is None or not has_sasl
            else known_to.login(user, password, token, lambda name: self.token(name))
        )
        has_tls = at.security_protocol.endswith("SSL")
        return client_config(family, at.bootstrap_servers, tls=has_tls, ca=ca, client=client, login=login)

    @property
    def issuer(self) -> TokenIssuer | None:
        """The issuer whose tokens are accepted; None without OAUTHBEARER, or if its keys are set."""
        return None if self._access is None else self._access.issuer

    def token(
        self, user: str | None = None, *, lifetime_s: float | None = None, claims: Mapping[str, Any] | None = None
    ) -> str:
        """Return a token of `issuer`, issued now by the server's clock. `TokenIssuer.token` has the arguments.

        Raises ValueError if the server has no issuer of its own.
        """
        if self.issuer is None:
            raise ValueError('the server has no issuer of its own: start it with sasl="OAUTHBEARER"')
        from rota.tokens import DEFAULT_USER, LIFETIME_S

        lifetime = LIFETIME_S if lifetime_s is None else lifetime_s
        now_s = self._inner.wall_ms / 1_000
        return self.issuer.token(user or DEFAULT_USER, lifetime_s=lifetime, claims=claims, now_s=now_s)

    def refused_connections(self) -> list[str]:
        """Return why connections were closed because of TLS or SASL since the last call, such as a wrong password.

        One line for each reason and 10 seconds, at most 32 lines.
        """
        return self._inner.take_refusals()

    def set_tls(self, tls: bool | Tls) -> None:
        """Replace certificate, key and CAs of clients, for new connections. `client_config` has the new CA.

        >>> server.set_tls(authority.tls(expired=True))

        Raises ValueError for a wrong file, or if the server was started without TLS.
        """
        from rota.security import tls_of

        found = tls_of(tls)
        if found is None:
            raise TypeError(f"tls is {tls!r}: give True, or a rota.Tls")
        self._inner.set_tls(*found.arguments())
        if self._access is not None:
            self._access.tls = found

    def set_users(self, users: Mapping[str, str]) -> None:
        """Replace all users by these, with their passwords, for new connections.

        Connections that exist go on until they authenticate again. Raises ValueError if users are in a file, or if the
        server was started without users.
        """
        if not isinstance(users, Mapping):
            raise TypeError(f"users is {users!r}: give passwords by user name")
        found = passwords(users)
        self._inner.set_users(found)
        if self._access is not None:
            self._access.passwords = found

    def acls(self) -> list[str]:
        """Return the ACLs, a line each, by type and name of their resources.

        Raises ValueError without an authorizer.
        """
        acls = self._inner.acls()
        if acls is None:
            raise ValueError("the server has no authorizer: start it with acls=[], or authorizer.class.name")
        return acls

    def set_acls(self, acls: Iterable[str]) -> None:
        """Replace all ACLs, as in the argument `acls`. They count for every later request.

        >>> server.set_acls([*server.acls(), "DENY User:ana * READ TOPIC LITERAL orders"])

        Raises ValueError for a malformed line, or without an authorizer; OSError if they cannot be stored.
        """
        lines = acl_lines(acls) or []
        self.acls()
        self._inner.set_acls(lines)

    def denied_requests(self) -> list[str]:
        """Return what clients were not allowed to do since the last call, in the words of Kafka's log.

        Equal lines are at least 10 seconds apart; at most 256 lines.
        """
        return self._inner.take_denials()

    @property
    def has_acls(self) -> bool:
        """Whether ACLs say what clients may do."""
        return self._inner.acls() is not None

    @property
    def has_tls(self) -> bool:
        """Whether clients connect to the first listener with TLS."""
        return self._inner.has_tls

    @property
    def has_sasl(self) -> bool:
        """Whether clients of the first listener authenticate."""
        return self._inner.has_sasl

    @property
    def reads_files(self) -> bool:
        """Whether it has files of TLS or users, which it reads again when they change."""
        return self._inner.reload_errors() is not None

    def unnamed_host(self) -> str | None:
        """An advertised host that the server's certificate does not name: clients refuse such a certificate."""
        return self._inner.unnamed_host()

    @property
    def _tls_files(self) -> Files | None:
        """Certificate, key and CAs of clients, for https://."""
        from rota.http.tls import Files

        return Files.of(None if self._access is None else self._access.tls, self._settings)

    def _shown_on(self, address: str, tokens: str | Sequence[str], is_open: bool) -> Opening:
        """The listener for HTTP. What it needs is imported by those who want it: a server starts in milliseconds."""
        from rota.http.listener import opening

        return opening(address, files=self._tls_files, tokens=tokens, is_open=is_open)

    def _show_on(self, listener: Listener) -> None:
        """Show the server over HTTP. With TLS the listener reads its certificate again when the server does."""
        inner, this = self._inner, weakref.ref(self)
        if listener.certificate is not None:
            listener.certificate.follow(
                lambda: inner.tls_reads, lambda: server._tls_files if (server := this()) else None
            )
        self._listeners.append(listener)
        listener.subject.show(inner, lambda: server.health() if (server := this()) else None)

    @property
    def http_address(self) -> str | None:
        """HOST:PORT at which it shows itself over HTTP, with TLS https://HOST:PORT; None if it does not."""
        return None if self._http is None else self._http.address

    @property
    def panics(self) -> int:
        """How many requests have made the server panic. Each is a bug in rota, has closed the connection that it came
        over and nothing else, and is reported on standard error. 0 unless you have found a bug."""
        return self._inner.panics

    def nodes(self) -> dict[int, str]:
        """HOST:PORT of every node, by its id."""
        return _by_id(self._inner.nodes())

    def partition_of(self, group: str) -> int:
        """The partition of `__consumer_offsets` that a group is in, whether or not the group is there."""
        return self._inner.partition_of(text(group, "group"))

    def owner(self, partition: int) -> int:
        """The id of the node with a partition of `__consumer_offsets`. Raises ValueError if there is none such."""
        return self._inner.owner(partition_number(partition))

    def move_partition(self, partition: int, node: int) -> None:
        """Hand a partition of `__consumer_offsets` to another node, while clients use its groups.

        The node that has it answers every parked request NOT_COORDINATOR and forgets it; what it has not made durable
        yet never will be. The other node loads what is durable, answers COORDINATOR_LOAD_IN_PROGRESS meanwhile, and
        goes on: members, generations and committed offsets are as they were. Returns when it has loaded, or at once
        after `hold_loads`. To the node that has it already, the partition is loaded anew.

        Raises ValueError if there is no such partition or node.
        """
        self._inner.move_partition(partition_number(partition), node_id(node))

    @property
    def faults(self) -> Faults:
        """The faults that a test injects. Each is also a method of the server itself, as in earlier versions."""
        return Faults(self._inner)

    @property
    def clock(self) -> VirtualClock | None:
        """The virtual clock that it was given, if any."""
        return self._clock

    def stop(self) -> None:
        """Answer every parked request, close every connection and stop listening. A second call does nothing."""
        if self._http is not None:
            self._http.close()
        if self._clock is not None:
            self._clock._release(self)
        self._inner.stop()
        if self._fetcher is not None:
            self._fetcher.join()

    def kill(self) -> None:
        """Stop without giving groups up to the other servers of the cluster, as a killed process does."""
        if self._clock is not None:
            self._clock._release(self)
        self._inner.kill()
        self.stop()

    def cluster(self) -> Cluster | None:
        """The cluster as this server sees it; None without an engine."""
        shown = self._inner.cluster()
        return None if shown is None else described(shown)

    def wait_until_ready(self, timeout: float = 30.0) -> None:
        """Wait until this server has joined its cluster and answers for groups. Without an engine it does at once.

        `timeout` is in seconds. Raises TimeoutError with the reason that `cluster()` has, and rota.ServerError if the
        server stops.
        """
        from rota.waiting import until_ready

        until_ready(self, timeout)

    def check_running(self) -> None:
        """Raise rota.ServerError if the server has been stopped, or a node of it has died."""
        self._inner.load()

    def start_report(self) -> StartReport | None:
        """What the start found in the data directory and loaded; None if everything is in memory."""
        report = self._inner.report()
        return None if report is None else StartReport(*report)

    def health(self) -> Health | None:
        """How the data directory and the files of TLS and users are; None if everything is in memory."""
        health, errors = self._inner.health(), self._inner.reload_errors()
        if health is None and errors is None:
            return None
        of_data = Health(None, [], 0, 0.0, 0, None) if health is None else Health(*health)
        of_http = [one.certificate.error for one in self._listeners if one.certificate and one.certificate.error]
        return of_data._replace(reload_errors=[*(errors or ()), *of_http])

    def reload(self) -> None:
        """Read certificate, key, CAs of clients and users file again, for new connections. Others go on.

        The server does this by itself within three seconds of a change; `health()` has the errors. Raises ValueError if
        a file is wrong; what was read before is still used then.
        """
        self._inner.reload()

    def journal(self) -> JournalHealth | None:
        """How the journal is; None if none is written."""
        journal = self._inner.journal()
        return None if journal is None else JournalHealth(*journal)

    def settings(self) -> dict[str, str]:
        """Every setting by its Kafka name, as this server runs with it."""
        return self._inner.settings()

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic. Raises rota.RotaError if it exists, or its name or partitions cannot be."""
        self._inner.create_topic(
            text(name, "name"), whole(partitions, "partitions", -INT32_MAX, wanted="give 1 or more")
        )

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic, by name, without `__consumer_offsets`."""
        return self._inner.topics()

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages and committed offsets, as a DeleteTopics request does.

        Raises rota.NotFoundError if there is no such topic, and rota.RotaError if it cannot be deleted.
        """
        self._inner.delete_topic(text(name, "name"))

    def add_partitions(self, topic: str, count: int) -> int:
        """Add `count` partitions to a topic; returns how many it has then.

        Raises rota.NotFoundError if there is no such topic, and rota.RotaError if it cannot have so many.
        """
        return self._inner.add_partitions(text(topic, "topic"), whole(count, "count", 1))

    def produce(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        *,
        keys: Iterable[str | bytes | None] | None = None,
        headers: Iterable[Headers] | None = None,
        partition: int = 0,
    ) -> list[int]:
        """Append messages to one partition of a topic, and return their offsets once they are durable.

        values   a str is written as UTF-8; None is a null value.
        keys     as many as there are values; without it every key is null.
        headers  for each value a list of (name, value), or a mapping. A header's value is as that of a message.

        >>> server.produce("orders", ["one", "two"], headers=[[("trace-id", "7")], []])

        Raises rota.NotFoundError if there is no such topic or partition, and rota.RotaError if a message is refused.
        """
        given = records(values, keys, headers)
        return self._inner.produce(text(topic, "topic"), whole(partition, "partition"), given)

    def messages(self, topic: str) -> list[Message]:
        """Every message of a topic, also of open and aborted transactions. Raises rota.NotFoundError without it."""
        return [Message(*row) for row in self._inner.messages(text(topic, "topic"))]

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by (topic, partition).

        Raises rota.NotFoundError if there is no such group.
        """
        look = self._inner.inspect_group(text(group, "group"))
        if look is None:
            self._inner.members(group)
            return {}
        return {(topic, partition): value.offset for topic, partition, value in look[1].offsets}

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets by (topic, partition) for a group without members, as an admin client does.

        A group that does not exist is created with its first offset. Raises rota.NotFoundError if there is no such
        topic or partition, and rota.RotaError if the group has members or belongs to another server. If it raises
        because appends are held or delayed, the offsets may be committed later.

        >>> server.commit("shipping", {("orders", 0): 7})
        """
        self._inner.commit(text(group, "group"), committed_offsets(offsets))

    def wait_until_stable(
        self,
        group: str,
        members: int | None = None,
        timeout: float = 30.0,
        poll: Callable[[], object] | None = None,
    ) -> _rota.Explanation:
        """Wait until a group is Stable, with that many members if `members` is given, and return what `explain` does.

        The group may not exist yet. With `members=0` it waits until the group is Empty. `timeout` is in seconds of the
        machine's clock. Give `poll` if a client of this thread joins only while it is polled, as kafka-python and any
        client in a rebalance do; it is called until the group is stable:

        >>> server.wait_until_stable("shipping", members=1, poll=lambda: consumer.poll(0.05))

        Raises TimeoutError with the reason, as `rota why` gives it. On a virtual clock it is raised as soon as only
        `clock.advance` can help, and names the milliseconds to advance: at once during an initial delay, and after a
        few seconds if the client of a missing member is gone.
        """
        # Imported here: asyncio would slow down the start of every server.
        from rota.waiting import StableWait

        return StableWait(self._inner, self._clock, group, members, timeout).until_reached(poll)

    async def wait_until_stable_async(
        self, group: str, members: int | None = None, timeout: float = 30.0
    ) -> _rota.Explanation:
        """`wait_until_stable` for asyncio: the event loop goes on meanwhile, and cancelling ends the wait."""
        from rota.waiting import StableWait

        return await StableWait(self._inner, self._clock, group, members, timeout).until_reached_async()

    def groups(self) -> list[str]:
        """The ids of all groups of this server, sorted: in a cluster, of those that it coordinates."""
        return self._inner.groups()

    def explain(self, group: str) -> _rota.Explanation:
        """What a group is doing, which members it waits for, and why it rebalanced lately. `str()` of it is a sentence.

        Raises rota.NotFoundError if there is no such group.
        """
        return self._inner.explain(text(group, "group"))

    def transactions(self) -> dict[str, _rota.Transaction]:
        """The transactional ids, sorted, each with its state, producer and partitions.

        In a cluster, of those that this server coordinates.
        """
        return dict(self._inner.transactions())

    def members(self, group: str) -> dict[str, str | None]:
        """The member ids of a group, each with its `group.instance.id` (None of a dynamic member).

        They are in joining order, and in a group of the newer protocol (KIP-848) in order of ids.

        Raises ValueError if there is no such group.
        """
        return {member_id: instance_id for _, member_id, instance_id in self._inner.members(text(group, "group"))}

    def expire(self, member: str, group: str | None = None) -> None:
        """End the session of a member now, as if its client had been silent: it is out of the group, which rebalances.

        `member` is a member id; with `group` it may also be a `group.instance.id`. The client learns it from the answer
        to its next request, UNKNOWN_MEMBER_ID.

        Raises ValueError if there is no such member, and rota.RotaError while it waits for the answer to its JoinGroup
        or SyncGroup: such a member has no session that could end (docs/protocol.md §7.2).
        """
        self._inner.expire(text(member, "member"), optional_text(group, "group"))

    def rebalance(self, group: str) -> None:
        """Begin a rebalance: the answer to its next heartbeat tells every member to rejoin, REBALANCE_IN_PROGRESS.

        A group whose members are joining already goes on as it is. Raises ValueError if there is no such group, and
        rota.RotaError if it has no members.
        """
        self._inner.rebalance(text(group, "group"))

    def _advance(self, ms: int, expire: list[str]) -> None:
        self._inner.advance(ms, expire)

    def _member_ids(self) -> set[str]:
        return set(self._inner.member_ids())


def _by_id(nodes: Iterable[tuple[int, str, int]]) -> dict[int, str]:
    return {node_id: joined(host, port) for node_id, host, port in nodes}
