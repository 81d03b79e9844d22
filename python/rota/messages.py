"""Messages of topics, as `Server.produce` takes them and `Server.messages` returns them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from rota.arguments import message_bytes, several, text

__all__ = ["Header", "Headers", "Message", "records"]

Header = tuple[str, bytes | None]
"""Name and value; the value may be null."""

Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]
"""The headers of one message. Pairs may repeat a name."""

Record = tuple[bytes | None, bytes | None, list[Header]]


class _Fields(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since the Unix epoch."""
    key: bytes | None
    value: bytes | None


class Message(_Fields):
    """A message of a topic. As a tuple it is (partition, offset, timestamp_ms, key, value), without the headers."""

    # Earlier versions had no headers: a sixth element would end programs that unpack five.
    headers: tuple[Header, ...] = ()
    """(name, value) of each header, in their order."""

    def __new__(
        cls,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[Header] = (),
    ) -> Self:
        made = _Fields.__new__(cls, partition, offset, timestamp_ms, key, value)
        made.headers = tuple(headers)
        return made

    def __eq__(self, other: object) -> bool:
        return tuple(self) == other and self.headers == getattr(other, "headers", self.headers)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = _Fields.__hash__

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, headers={self.headers!r})"

    def _replace(self, **fields: Any) -> Self:
        return type(self)(**{**self._asdict(), "headers": self.headers, **fields})


def records(
    values: Iterable[str | bytes | None],
    keys: Iterable[str | bytes | None] | None,
    headers: Iterable[Headers] | None,
) -> list[Record]:
    """The arguments of `Server.produce` as they are stored. Raises TypeError or ValueError."""
    written = [message_bytes(value, "values") for value in several(values, "values")]
    named = [None] * len(written) if keys is None else [message_bytes(key, "keys") for key in several(keys, "keys")]
    headed = [[] for _ in written] if headers is None else [_header_list(each) for each in _each(headers)]
    for name, one, found in ("keys", "one key", named), ("headers", "the headers", headed):
        if len(found) != len(written):
            raise ValueError(f"{name} has {len(found)}, and values has {len(written)}: give {one} for each value")
    return list(zip(named, written, headed, strict=True))


_WANTED = "give for each value its headers, a list of (name, value)"


def _each(headers: Any) -> Iterable[Any]:
    if isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Iterable):
        raise TypeError(f"headers is {headers!r}: {_WANTED}")
    return headers


def _header_list(headers: Any) -> list[Header]:
    """The headers of one message."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise TypeError(f"headers has {headers!r} in it: {_WANTED}")
    found = []
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise TypeError(f"headers has {headers!r} in it: {_WANTED}")
        name, value = pair
        found.append((text(name, "the name of a header"), message_bytes(value, f"header {name!r}")))
    return found
