"""Several servers that share groups over an engine, as one of them sees them (docs/cluster.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

#: Time after which a silent server's partitions are taken over, in milliseconds.
TTL_MS = 5_000
#: Shorter ones end with every hiccup of the engine, and longer ones leave groups without an answer for too long.
TTL_MS_MIN, TTL_MS_MAX = 500, 60_000
#: What committed offsets are answered by: this server's session, or a confirmation of the engine for each request.
Reads = Literal["session", "fenced"]


class ClusterNode(NamedTuple):
    """A server of the cluster."""

    node_id: int
    #: (listener, host, port).
    addresses: list[tuple[str, str, int]]
    version: str
    #: "serving", "leaving" or "left".
    state: str
    is_alive: bool
    is_drained: bool
    #: When its process began, in milliseconds since the Unix epoch by its own clock; 0: it did not say.
    started_ms: int


class ClusterPartition(NamedTuple):
    """A partition of `__consumer_offsets`."""

    #: Which node owns it, or did last; None before the first owner.
    owner: int | None
    #: Number of the ownership.
    epoch: int
    is_held: bool
    #: Which node the plan names.
    planned: int | None
    #: Which node answers for it; None if none does.
    coordinator: int | None
    #: For how long the planned node does not hold it, in milliseconds; None: it does.
    moving_ms: int | None


class Space(NamedTuple):
    """The space of an engine, in bytes. The file counts against the quota, free pages included."""

    file_bytes: int
    live_bytes: int
    #: 0: it is not known, as with etcd before 3.6 and without `?quota=BYTES` in the URL.
    quota_bytes: int


class Cluster(NamedTuple):
    """The cluster as one server sees it."""

    #: Of this server.
    node_id: int
    engine: str
    #: What the server is: "joining", "member", "leaving", "left" or "stopped".
    standing: str
    #: Why it is not a member, or why the engine does not answer.
    reason: str | None
    #: What operators have to know of the engine although it answers, such as that a failover may lose commits.
    warning: str | None
    #: Whether the server answers for groups and knows what topics there are.
    is_ready: bool
    cluster_id: str | None
    ttl_ms: int | None
    nodes: list[ClusterNode]
    #: Of `__consumer_offsets`.
    partitions: list[ClusterPartition]
    #: Partitions whose content in the engine is damaged, with the damage.
    damaged: list[tuple[int, str]]
    #: Of the engine's fullest member; None before the first answer, and of an engine in memory.
    space: Space | None
    #: Of `__transaction_state`.
    transaction_partitions: Sequence[ClusterPartition] = ()
    #: Why this server cannot ask others about transactions, a line for each server, and what to do.
    peer_errors: Sequence[str] = ()


def described(shown: Mapping[str, Any]) -> Cluster:
    """The cluster in what the compiled half shows."""
    nodes = [ClusterNode(*node) for node in shown["nodes"]]
    kinds = ("partitions", "transaction_partitions")
    partitions = {kind: [ClusterPartition(*partition) for partition in shown[kind]] for kind in kinds}
    space = None if shown["space"] is None else Space(*shown["space"])
    return Cluster(**{**shown, "nodes": nodes, **partitions, "space": space})


AccessArguments = tuple[str | None, str | None, str | None, tuple[str, str] | None]


class EngineAccess(NamedTuple):
    """How servers and operators are allowed to use an engine (docs/cluster.md).

    Certificates and keys are paths of PEM files. `key` may be in the file of `cert`. The password is that of `user`, as
    a text or as the first line of a file.
    """

    #: CAs of the engine's certificates; needed for etcds://, and for TLS to PostgreSQL.
    ca: str | os.PathLike[str] | None = None
    #: Own certificate, if the engine asks for one.
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    user: str | None = None
    password: str | None = None
    password_file: str | os.PathLike[str] | None = None

    def __repr__(self) -> str:
        # Without the password.
        return f"EngineAccess(ca={self.ca!r}, cert={self.cert!r}, user={self.user!r})"

    def arguments(self) -> AccessArguments:
        """What the compiled half gets. Raises ValueError if something is missing, OSError of the password's file."""
        ca, cert, key = (None if path is None else os.fspath(path) for path in (self.ca, self.cert, self.key))
        return ca, cert, key, self._login()

    def _login(self) -> tuple[str, str] | None:
        if self.user is None:
            if self.password is not None or self.password_file is not None:
                raise ValueError("the engine's password has no user: give `user`, too")
            return None
        if (self.password is None) == (self.password_file is None):
            raise ValueError("the engine's user has no password, or two: give `password` or `password_file`")
        if self.password is not None:
            return self.user, self.password
        lines = Path(self.password_file or "").read_text("utf-8").splitlines()
        if not lines or not lines[0]:
            raise ValueError(f"the engine's password file `{self.password_file}` is empty: write the password into it")
        return self.user, lines[0]


PeerArguments = tuple[str | None, str | None, str | None, tuple[str, str | None, str | None] | None]


class PeerAccess(NamedTuple):
    """How a server shows the other servers of its cluster who it is, and knows them (docs/cluster.md).

    Certificates and keys are PEM: paths of files, or the text itself. `key` may be in the file of `cert`. All files are
    read for each connection.
    """

    #: CAs of the other servers' certificates. Default: the CAs of clients' certificates.
    ca: str | os.PathLike[str] | None = None
    #: Own certificate, if the listener of the others asks for one. Default: that of the listeners.
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    user: str | None = None
    password: str | None = None
    #: A file whose first line is the password, instead of `password`.
    password_file: str | os.PathLike[str] | None = None

    def __repr__(self) -> str:
        # Without the password, and keys that are texts.
        return f"PeerAccess(user={self.user!r})"

    def arguments(self) -> PeerArguments:
        """What the compiled half gets. Raises ValueError if something is missing."""
        paths = (self.ca, self.cert, self.key, self.password_file)
        ca, cert, key, password_file = (None if path is None else os.fspath(path) for path in paths)
        if self.user is not None:
            return ca, cert, key, (self.user, self.password, password_file)
        if self.password is not None or password_file is not None:
            raise ValueError("the password for the other servers has no user: give `user`, too")
        return ca, cert, key, None


EngineArguments = tuple[Any, int, int, bool, AccessArguments]


def arguments(
    engine: object,
    node_id: int | None,
    ttl_ms: int,
    reads: Reads,
    access: EngineAccess | None,
    peer_access: PeerAccess | None,
) -> tuple[EngineArguments | None, PeerArguments | None]:
    """What the compiled half gets of the engine, and of the way to the other servers. Raises ValueError if something is
    missing or wrong."""
    if engine is None:
        defaults: dict[str, tuple[object, object]] = {
            "node_id": (node_id, None),
            "engine_access": (access, None),
            "peer_access": (peer_access, None),
            "reads": (reads, "session"),
            "ttl_ms": (ttl_ms, TTL_MS),
        }
        for name, (value, default) in defaults.items():
            if value != default:
                raise ValueError(f"{name} is {value!r}, and there is no engine: give `engine`, too")
        return None, None
    if node_id is None:
        raise ValueError("an engine needs a node_id: give each server of the cluster a number of its own, from 0")
    if not 0 <= node_id < 2**31:
        raise ValueError(f"node_id is {node_id}: give a number from 0 to 2147483647")
    if not TTL_MS_MIN <= ttl_ms <= TTL_MS_MAX:
        raise ValueError(f"ttl_ms is {ttl_ms}: give {TTL_MS_MIN} to {TTL_MS_MAX}")
    if reads not in get_args(Reads):
        raise ValueError(f"reads is {reads!r}: give one of {', '.join(get_args(Reads))}")
    peers = None if peer_access is None else peer_access.arguments()
    return (engine, node_id, ttl_ms, reads == "fenced", (access or EngineAccess()).arguments()), peers
