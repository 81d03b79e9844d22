"""Asks the servers of a cluster about a group, whichever of them is its coordinator now.

The admin client of librdkafka sometimes crashes while coordinators come and go.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from rota.codec import Fields, MalformedError, apis, read_answer, write_request
from rota.demo.evidence import Partition, Snapshot
from rota.demo.witness import Observer
from rota.protocol import decode_assignment

ANSWER_WITHIN_S = 1.0
ATTEMPTS = 20
VERSIONS = {"DescribeGroups": 4, "OffsetFetch": 7}
NONE = 0


class GroupAsker:
    """Connections to the servers, one request at a time."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._addresses = list(addresses)
        self._sockets: dict[tuple[str, int], socket.socket] = {}
        self._ids = itertools.count()

    def describe(self, group: str) -> Fields | None:
        """The group as its coordinator describes it; None if no server does at present."""
        for address in list(self._addresses):
            answer = self._ask(address, "DescribeGroups", {"groups": [group], "include_authorized_operations": False})
            found: Fields | None = None if answer is None else answer["groups"][0]
            if found is not None and found["error_code"] == NONE:
                self._first(address)
                return found
        return None

    def committed(self, group: str) -> dict[Partition, int] | None:
        """The committed offsets; None if no server answers at present."""
        for address in list(self._addresses):
            wanted = {"group_id": group, "topics": None, "require_stable": False}
            answer = self._ask(address, "OffsetFetch", wanted)
            if answer is not None and answer["error_code"] == NONE:
                return {
                    Partition(topic["name"], row["partition_index"]): row["offset"]
                    for topic in answer["topics"]
                    for row in topic["partitions"]
                    if row["offset"] >= 0
                }
        return None

    def close(self) -> None:
        """Close the connections."""
        for connection in self._sockets.values():
            connection.close()
        self._sockets.clear()

    def _first(self, address: tuple[str, int]) -> None:
        self._addresses.remove(address)
        self._addresses.insert(0, address)

    def _ask(self, address: tuple[str, int], name: str, values: Mapping[str, Any]) -> Fields | None:
        api, version, number = apis()[name], VERSIONS[name], next(self._ids)
        request = write_request(api, version, number, "observer", values)
        try:
            connection = self._sockets.get(address)
            if connection is None:
                connection = self._sockets[address] = socket.create_connection(address, ANSWER_WITHIN_S)
            connection.sendall(struct.pack(">i", len(request)) + request)
            (length,) = struct.unpack(">i", self._receive(connection, 4))
            _, answer = read_answer(api, version, self._receive(connection, length))
        except (OSError, MalformedError):
            lost = self._sockets.pop(address, None)
            if lost is not None:
                lost.close()
            return None
        return answer

    @staticmethod
    def _receive(connection: socket.socket, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            more = connection.recv(count - len(received))
            if not more:
                raise ConnectionError("the server has closed the connection")
            received += more
        return bytes(received)


class ClusterObserver(Observer):
    """An observer that asks every server in turn."""

    def __init__(self, addresses: Sequence[tuple[str, int]], *arguments: Any) -> None:
        """`arguments` are those of `Observer`."""
        super().__init__(*arguments)
        self._asker = GroupAsker(addresses)
        self._reader = GroupAsker(addresses)

    def describe(self, asked_ms: float) -> Snapshot | None:
        """See `Observer.describe`."""
        found = self._asker.describe(self.group)
        if found is None:
            return None
        owners = {}
        for member in found["members"]:
            read = decode_assignment(member["assignment"]).partitions if member["assignment"] else ()
            owners[member["member_id"]] = frozenset(Partition(topic, at) for topic, several in read for at in several)
        return Snapshot(asked_ms, found["state"], owners)

    def committed(self) -> dict[Partition, int]:
        """See `Observer.committed`. Raises TimeoutError if no server answers."""
        for _ in range(ATTEMPTS):
            found = self._reader.committed(self.group)
            if found is not None:
                return found
            self.pause()
        raise TimeoutError("no server answers for the group")

    def stop(self) -> None:
        """See `Observer.stop`."""
        super().stop()
        self._asker.close()
