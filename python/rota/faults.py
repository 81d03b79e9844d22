"""Faults that a test injects into a server: errors, paused members, a failing log or network, transactions, nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.arguments import node_id, optional_text, text, whole
from rota.controls import Fault, Injection, Outage, Pause

if TYPE_CHECKING:
    from rota import _rota

__all__ = ["Faults"]

WITHOUT_GROUP = frozenset({"Fetch", "ListGroups", "Metadata", "Produce"})
"""The APIs whose requests name no group."""

FENCED_WITHIN_S = 10.0
POLL_S = 0.01

AN_API = "give Kafka's name of an API, such as 'OffsetCommit'"
AN_ERROR = "give Kafka's name of an error, such as 'NOT_COORDINATOR'"


class Faults:
    """The faults of one server, as `Server.faults`. `reset` ends all of them.

    `api` is the Kafka name of an API, such as "OffsetCommit". `error` is the Kafka name of an error, such as
    "NOT_COORDINATOR". `node` is the id of a node; without it a fault concerns every node.
    """

    _inner: _rota.Server

    def __init__(self, inner: _rota.Server) -> None:
        self._inner = inner

    def reset(self) -> None:
        """End every fault: pauses, injected errors, faults of log and network, held markers and loads, stopped nodes.

        Topics, messages, groups and the clock stay.
        """
        self._inner.reset()

    # ---- requests and members

    def inject_error(self, api: str, error: str, times: int = 1, group: str | None = None) -> Injection:
        """Answer the next `times` requests of an API with an error. The coordinator does not see these requests.

        `api` is Fetch, FindCoordinator, Metadata, Produce, or one about groups: ConsumerGroupDescribe,
        ConsumerGroupHeartbeat, DeleteGroups, DescribeGroups, Heartbeat, JoinGroup, LeaveGroup, ListGroups,
        OffsetCommit, OffsetDelete, OffsetFetch or SyncGroup. The error goes where the answer, in the version of the
        request, has a field for it. With `group`, only requests about that group are answered so.
        Injections that match the same requests are used up one after the other. A request that Kafka refuses before
        the coordinator sees it, such as a commit to unknown topics, does not use up an injection.

        Raises ValueError for an unknown name, with the nearest known one, if `times` is not 1 to 2,147,483,647, or if
        `group` is given with an API whose requests name no group: Fetch, ListGroups, Metadata or Produce.
        """
        text(api, "api", AN_API), text(error, "error", AN_ERROR)
        if group is not None and api in WITHOUT_GROUP:
            raise ValueError(f"group is {group!r}: {api} names no group, leave out group")
        number = self._inner.inject_error(api, error, whole(times, "times", 1), optional_text(group, "group"))
        return Injection(self._inner, number)

    def injected(self) -> int:
        """The number of requests that all injections have answered."""
        return self._inner.injected()

    def pause(self, member: str, group: str | None = None) -> Pause:
        """Stop reading a member's requests and stop answering them, as if its client were frozen.

        `member` is a member id; with `group` it may also be a `group.instance.id`. The pause stops every connection
        that carries the member's group requests, including new ones. A client that fetches over another connection
        continues to fetch. The session of a paused member expires as that of any silent member; on a virtual clock
        that takes `advance`.

        The pause lasts until `resume` of the returned object, or until the end of its `with` block. A member with
        several pauses resumes when all have ended:

        >>> with server.faults.pause(consumer.memberid()):
        ...     clock.advance(45_000)

        Raises NotFoundError if there is no such member.
        """
        return Pause(self._inner, *self._inner.pause(text(member, "member"), optional_text(group, "group")))

    # ---- the log

    def hold_appends(self) -> None:
        """Make no append to the log of groups durable until `release_appends`: requests that need one wait.

        This and the other faults of the log concern `__consumer_offsets`, not the messages of topics.
        """
        self._inner.hold_appends()

    def release_appends(self) -> int:
        """Make held appends durable, in order, and hold no more. Returns their number."""
        return self._inner.release_appends()

    def fail_appends(self, error: str, times: int = 1) -> None:
        """Fail the next `times` appends to the log of groups with a Kafka error, such as "NOT_ENOUGH_REPLICAS".

        Produce of messages does not fail: `inject_error("Produce", ...)` makes it.

        Raises ValueError for an unknown error, or if `times` is not 1 to 2,147,483,647.
        """
        self._inner.fail_appends(text(error, "error", AN_ERROR), whole(times, "times", 1))

    def lose_append_answers(self, error: str, times: int = 1) -> None:
        """Store the next `times` appends, and report each as failed with a Kafka error.

        A commit then fails, and a later start or a move to another node finds it. Raises as `fail_appends`.
        """
        self._inner.lose_append_answers(text(error, "error", AN_ERROR), whole(times, "times", 1))

    def duplicate_appends(self, times: int = 1) -> None:
        """Store each of the next `times` appends twice, as when a retry repeats a write that had succeeded.

        The request gets the answer to the first write. Raises ValueError if `times` is not 1 to 2,147,483,647.
        """
        self._inner.duplicate_appends(whole(times, "times", 1))

    def fence_appends(self, times: int = 1) -> None:
        """Fence each of the next `times` appends: a newer epoch of the partition begins before the append arrives.

        The append is not stored. Requests for the partition get NOT_COORDINATOR until `server.move_partition` gives it
        to a node, which may be the same one. Raises as `duplicate_appends`.
        """
        self._inner.fence_appends(whole(times, "times", 1))

    def hold_opens(self) -> None:
        """Keep the log of each partition that moves from opening until `release_opens`, as if it were far away.

        Clients get COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._inner.hold_opens()

    def release_opens(self) -> int:
        """Open the held logs, and hold no more. Returns their number, when their partitions are loaded."""
        return self._inner.release_opens()

    def delay_appends(self, ms: int) -> None:
        """Complete each append to the log of groups `ms` milliseconds after it was made, on the server's clock.

        0 ends the delay. Messages of topics are not delayed.

        After `offsets.commit.timeout.ms` a commit fails all the same. Appends complete in order: later appends of a
        partition wait for earlier, delayed ones. Raises ValueError if `ms` is not 0 to 2,147,483,647.
        """
        self._inner.delay_appends(whole(ms, "ms"))

    # ---- transactions

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, as when its time is over.

        Returns when that is decided; readers see it when its markers are written. The producer can go on as after a
        timeout: with the second protocol it begins anew by itself, with the first it is fenced.

        Raises NotFoundError if there is no such id, and RotaError if no transaction of it is open.
        """
        self._inner.abort_transaction(text(transactional_id, "transactional_id"))

    def fence_producer(self, transactional_id: str) -> None:
        """Fence the producer of an id, as another producer with the same id does when it begins.

        An open transaction is aborted first. Returns when a producer that begins would be ready.

        Raises NotFoundError if there is no such id, and TimeoutError if a transaction of it is not ended within 10
        seconds, as when markers are held.
        """
        text(transactional_id, "transactional_id")
        until = time.monotonic() + FENCED_WITHIN_S
        while not self._inner.fence_producer(transactional_id):
            if time.monotonic() > until:
                raise TimeoutError(
                    f"a transaction of {transactional_id!r} has been ending for {FENCED_WITHIN_S:g} s: call "
                    "release_markers() if markers are held"
                )
            time.sleep(POLL_S)

    def hold_markers(self) -> None:
        """Keep the markers that end transactions from their partitions until `release_markers`.

        A transaction can be committed or aborted meanwhile, but its end is not visible: readers of committed messages
        wait in front of it, and offsets of a group stay pending.
        """
        self._inner.hold_markers()

    def release_markers(self) -> int:
        """Write the held markers, and hold no more. Returns their number."""
        return self._inner.release_markers()

    # ---- the network

    def delay_answers(self, ms: int, api: str | None = None, node: int | None = None) -> Fault:
        """Send answers `ms` milliseconds late, of all APIs or of `api`.

        Requests are handled at once. Later answers on the same connection wait, too. The delay is in real time, also
        on a virtual clock. It lasts until `end` of the returned object, or until the end of its `with` block, which
        send the delayed answers.

        Raises ValueError for an unknown API, with the nearest known one, or if `ms` is not 0 to 2,147,483,647, and
        NotFoundError if there is no such node.
        """
        return Fault(self._inner, self._inner.delay_answers(whole(ms, "ms"), _optional_api(api), _optional_node(node)))

    def drop_answers(self, api: str | None = None, times: int = 1, node: int | None = None) -> Fault:
        """Handle the next `times` requests, and close their connections instead of answering.

        A client then cannot know whether its commit was stored. Raises as `delay_answers`.
        """
        return Fault(
            self._inner, self._inner.drop_answers(_optional_api(api), whole(times, "times", 1), _optional_node(node))
        )

    def drop_connections(self, node: int | None = None) -> int:
        """Close every open connection without an answer, and return their number. Clients can reconnect at once.

        Raises NotFoundError if there is no such node.
        """
        return self._inner.drop_connections(_optional_node(node))

    # ---- nodes

    def stop_node(self, node: int) -> Outage:
        """Stop a node: it closes its port and its connections, and its groups are unavailable.

        The other nodes leave it out of their metadata, answer COORDINATOR_NOT_AVAILABLE for its groups and
        LEADER_NOT_AVAILABLE for its partitions. `Server.move_partition` moves its groups to another node. A second call
        does nothing. The node is down until `start_node`, `end` of the returned object, or the end of its `with` block:

        >>> with server.faults.stop_node(2):
        ...     consumer.poll(1)

        Raises NotFoundError if there is no such node.
        """
        self._inner.stop_node(node_id(node))
        return Outage(self._inner, node)

    def start_node(self, node: int) -> None:
        """Start a stopped node on its port, with the groups that its log has. Their sessions begin anew.

        Raises NotFoundError if there is no such node, and OSError if another program has taken its port.
        """
        self._inner.start_node(node_id(node))

    def down_nodes(self) -> list[int]:
        """The ids of the nodes that are stopped."""
        return self._inner.down_nodes()

    def hold_loads(self) -> None:
        """Keep each partition that moves in the loading state until `release_loads`.

        Clients get COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._inner.hold_loads()

    def release_loads(self) -> int:
        """Load the held partitions, and hold no more. Returns their number."""
        return self._inner.release_loads()


def _optional_api(api: str | None) -> str | None:
    return None if api is None else text(api, "api", AN_API)


def _optional_node(node: int | None) -> int | None:
    return None if node is None else node_id(node)
