"""HOST:PORT, as options of commands take it."""

from __future__ import annotations

from rota.exits import MISUSED, fail

LOOPBACK = "127.0.0.1"
HTTP, HTTPS = "http://", "https://"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def parsed(text: str, lowest_port: int = 1) -> str:
    """HOST:PORT, [HOST]:PORT for IPv6, or :PORT for this machine only; gives it with its host.

    Raises ValueError, which says what to give instead.
    """
    if "://" in text:
        raise ValueError("leave out the scheme: give HOST:PORT, such as 127.0.0.1:9092")
    if text.isascii() and text.isdigit():
        raise ValueError(f"write :{text} for a port of this machine only, or HOST:{text}")
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise ValueError("give HOST:PORT, such as 127.0.0.1:9092")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError("write an IPv6 host in brackets, such as [::1]:9092")
    if not lowest_port <= int(port) <= 65_535:
        raise ValueError(f"the port is {port}, give {lowest_port} to 65535")
    return text if host else f"{LOOPBACK}{text}"


def address(option: str, text: str, lowest_port: int) -> str:
    """The address that an option was given, with its host; ends the command if it is none."""
    try:
        return parsed(text, lowest_port)
    except ValueError as error:
        fail(MISUSED, f"{option} is `{text}`: {error}")


def listen_parsed(text: str) -> str:
    """Like `parsed` with port 0, with a security protocol in front if one is named: PLAINTEXT://HOST:PORT.

    Raises ValueError.
    """
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
    return scheme + parsed(text.removeprefix(HTTPS).removeprefix(HTTP).removesuffix("/"), lowest_port)


def web_address(option: str, text: str, lowest_port: int) -> str:
    """Like `address` for HTTP: https://HOST:PORT has TLS."""
    try:
        return web_parsed(text, lowest_port)
    except ValueError as error:
        fail(MISUSED, f"{option} is `{text}`: {error}")
