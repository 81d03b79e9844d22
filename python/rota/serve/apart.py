"""Whether the addresses that a server is to open can be open at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from rota.addresses import LOOPBACK
from rota.config.sources import Resolved
from rota.exits import MISUSED, fail


class Wanted(NamedTuple):
    """The ports that an option takes on a host."""

    given: str
    """The option and its value, as an error names them."""
    host: str
    ports: range

    @staticmethod
    def of(given: str, address: str, count: int = 1) -> Wanted:
        """The ports of HOST:PORT, and of as many nodes. Port 0 takes none that another one wants."""
        host, _, port = address.rpartition("://")[2].rpartition(":")
        # What is no port the server refuses.
        first = int(port) if port.isascii() and port.isdigit() else 0
        ports = range(first, first + count if first else 0)
        return Wanted(given, LOOPBACK if host == "localhost" else host or "0.0.0.0", ports)

    def common(self, other: Wanted) -> int | None:
        """A port that both take; None if there is none."""
        ports = range(max(self.ports.start, other.ports.start), min(self.ports.stop, other.ports.stop))
        return ports.start if ports and _share({self.host, other.host}) else None


def _share(hosts: set[str]) -> bool:
    """Whether these hosts have an address in common. To Linux, [::] is every address, and 0.0.0.0 each of IPv4."""
    is_all_ipv4 = "0.0.0.0" in hosts and not any(host.startswith("[") for host in hosts)
    return len(hosts) == 1 or "[::]" in hosts or is_all_ipv4


def check_apart(told: Resolved, of_clients: Sequence[Wanted], web: dict[str, str | None]) -> None:
    """End the command if --http or --control, by the name of the option, takes a port that another option takes.

    The system would say that it is in use, as if by another program. The server itself compares its listeners.
    """
    of_web = [
        Wanted.of(f"{told.called(name)} is `{told[name]}`", address)
        for name, address in web.items()
        if address is not None
    ]
    pairs = [(one, other) for one in of_clients for other in of_web]
    for one, other in [*pairs, *combinations(of_web, 2)]:
        port = one.common(other)
        if port is not None:
            what = f"{one.given}, and {other.given}: both would take port {port}, give each a port of its own"
            fail(MISUSED, told.blame(what))
