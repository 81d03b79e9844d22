"""HOST:PORT, as options of commands take it."""

from __future__ import annotations

from rota.exits import MISUSED, fail

LOOPBACK = "127.0.0.1"
KAFKA_PORT, HTTP_PORT = 9092, 9644
"""The ports of examples: of clients of Kafka, and of --http."""
LABEL_LETTERS_MAX = 63
HTTP, HTTPS = "http://", "https://"
WILDCARDS = ("0.0.0.0", "[::]")
"""Hosts that stand for all addresses of the machine."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def parsed(text: str, lowest_port: int = 1, port: int = KAFKA_PORT) -> str:
    """HOST:PORT, [HOST]:PORT for IPv6, or :PORT for this machine only; gives it with its host.

    `port` is that of the example in errors. Raises ValueError, which says what to give instead.
    """
    example = f"give HOST:PORT, such as {LOOPBACK}:{port}"
    if "://" in text:
        raise ValueError(f"leave out the scheme: {example}")
    if text.isascii() and text.isdigit():
        raise ValueError(f"write :{text} for a port of this machine only, or HOST:{text}")
    host, colon, given = text.rpartition(":")
    if not colon or not given.isascii() or not given.isdigit():
        raise ValueError(example)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"write an IPv6 host in brackets, such as [::1]:{port}")
    if not lowest_port <= int(given) <= 65_535:
        raise ValueError(f"the port is {given}, give {lowest_port} to 65535")
    if not host.startswith("[") and not _can_be_asked_for(host):
        raise ValueError(f"`{host}` is no name of a host: {example}")
    return text if host else f"{LOOPBACK}{text}"


def _can_be_asked_for(host: str) -> bool:
    """Whether the system can look a host up, or none is named; otherwise that would be no OSError, but a
    UnicodeError."""
    if host.isascii():
        return not host or all(0 < len(label) <= LABEL_LETTERS_MAX for label in host.removesuffix(".").split("."))
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def split(address: str) -> tuple[str, str]:
    """The host of HOST:PORT, of IPv6 without brackets, and the port. The address is not checked."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def joined(host: str, port: int | str) -> str:
    """HOST:PORT, with the brackets of an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address(option: str, text: str, lowest_port: int) -> str:
    """The address that an option was given, with its host; ends the command if it is none."""
    try:
        return parsed(text, lowest_port)
    except ValueError as error:
        fail(MISUSED, f"{option} is `{text}`: {error}")


def check_reachable(address: str) -> None:
    """Raise ValueError, which says what to give instead, if no client can connect to HOST:PORT."""
    host = address.rpartition(":")[0]
    if host in WILDCARDS:
        raise ValueError(
            f"clients cannot connect to {host}, which stands for all addresses: give a host name or address"
        )


def listen_parsed(text: str) -> str:
    """Like `parsed` with port 0, with a security protocol in front if one is named: PLAINTEXT://HOST:PORT.

    Raises ValueError.
    """
    if "," in text:
        raise ValueError("give one address, or use the setting `listeners`")
    protocol, separator, rest = text.partition("://")
    if not separator:
        return parsed(text, 0)
    if protocol.upper() not in SECURITY_PROTOCOLS:
        raise ValueError(
            f"`{protocol}` is no security protocol: give HOST:PORT, or one of {', '.join(SECURITY_PROTOCOLS)}"
        )
    return f"{protocol.upper()}://{parsed(rest, 0)}"


def listen_address(option: str, text: str) -> str:
    """Like `address`, for a listener."""
    try:
        return listen_parsed(text)
    except ValueError as error:
        fail(MISUSED, f"{option} is `{text}`: {error}")


def web_parsed(text: str, lowest_port: int = 1) -> str:
    """Like `parsed`, with https:// in front for TLS. Raises ValueError."""
    scheme = HTTPS if text.startswith(HTTPS) else ""
    return scheme + parsed(text.removeprefix(HTTPS).removeprefix(HTTP).removesuffix("/"), lowest_port, HTTP_PORT)


def web_address(option: str, text: str, lowest_port: int) -> str:
    """Like `address` for HTTP: https://HOST:PORT has TLS."""
    try:
        return web_parsed(text, lowest_port)
    except ValueError as error:
        fail(MISUSED, f"{option} is `{text}`: {error}")
