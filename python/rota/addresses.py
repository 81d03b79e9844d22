"""HOST:PORT, as options of commands take it."""

from __future__ import annotations

from rota.exits import MISUSED, fail


def address(option: str, text: str, lowest_port: int) -> str:
    """Check HOST:PORT, or [HOST]:PORT for IPv6; gives it back as it came."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit():
        fail(MISUSED, f"{option} is `{text}`: give HOST:PORT, such as 127.0.0.1:9092")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        fail(MISUSED, f"{option} is `{text}`: write an IPv6 host in brackets, such as [::1]:9092")
    if not lowest_port <= int(port) <= 65_535:
        fail(MISUSED, f"{option} is `{text}`: the port is {port}, give {lowest_port} to 65535")
    return text
