"""Requests and answers of groups and transactions in bytes, from the table in `messages.txt`.

`rota.aio` and `rota conform` use it. It shares no code with the server's codec, so that the conformance kit does not
make the server's mistakes.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

Fields = dict[str, Any]

LINE = re.compile(r"^(?P<indent> *)(?P<words>\S.*)$")
LAST = 32_767


class MalformedError(Exception):
    """Bytes that are no message of the kind and version that they should be."""


@dataclass(frozen=True)
class Field:
    """One field: its type as written in the table, and the versions that have it."""

    name: str
    kind: str
    first: int
    last: int
    inner: tuple[Field, ...] = ()

    def is_in(self, version: int) -> bool:
        """Whether this version has the field."""
        return self.first <= version <= self.last


@dataclass
class Api:
    """One API: its key, the versions in the table, the first flexible version, and both layouts."""

    name: str
    key: int
    first: int
    last: int
    flexible_from: int
    layouts: dict[str, tuple[Field, ...]] = field(default_factory=dict)

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return version >= self.flexible_from


def versions(text: str) -> tuple[int, int]:
    """`3+`, `0-6`, `4` as the first and last version."""
    first, dash, last = text.rstrip("+").partition("-")
    return int(first), LAST if text.endswith("+") else int(last) if dash else int(first)


@cache
def apis() -> dict[str, Api]:
    """Every API of the table, by name."""
    return read(files("rota.codec").joinpath("messages.txt").read_text())


def read(text: str) -> dict[str, Api]:
    """The APIs of a table in the form of `messages.txt`, by name."""
    table: dict[str, Api] = {}
    lines = [
        (len(match["indent"]) // 2, match["words"].split())
        for match in map(LINE.match, text.splitlines())
        if match and not match["words"].startswith("#")
    ]
    api: Api | None = None
    at = 0
    while at < len(lines):
        depth, words = lines[at]
        at += 1
        if depth == 0:
            first, last = versions(words[2])
            api = Api(words[0], int(words[1]), first, last, LAST if words[3] == "none" else int(words[3]))
            table[api.name] = api
        elif api is not None:
            api.layouts[words[0]], at = _fields(lines, at, depth + 1)
    return table


def _fields(lines: list[tuple[int, list[str]]], at: int, depth: int) -> tuple[tuple[Field, ...], int]:
    found: list[Field] = []
    while at < len(lines) and lines[at][0] == depth:
        name, kind, *when = lines[at][1]
        first, last = versions(when[0]) if when else (0, LAST)
        inner, at = _fields(lines, at + 1, depth + 1)
        found.append(Field(name, kind, first, last, inner))
    return tuple(found), at


NUMBERS = {"bool": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q"}
ZEROES: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "uuid": uuid.UUID(int=0)}


def zero(kind: str) -> Any:
    """What a field that is not given is sent as: null if it may be, else 0 or nothing."""
    if kind.startswith("?"):
        return None
    return [] if kind.startswith("[]") else ZEROES.get(kind, 0)


class Writer:
    """Writes one message."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.out = bytearray()
        self.version = version
        self.flexible = flexible

    def varint(self, value: int) -> None:
        while value > 127:
            self.out.append(value & 127 | 128)
            value >>= 7
        self.out.append(value)

    def length(self, count: int | None, short: bool) -> None:
        """Of a string (`short`), of bytes or an array; None is null."""
        if self.flexible:
            self.varint(0 if count is None else count + 1)
        else:
            self.out += struct.pack(">h" if short else ">i", -1 if count is None else count)

    def value(self, kind: str, value: Any, inner: tuple[Field, ...]) -> None:
        base = kind.removeprefix("?")
        if base in NUMBERS:
            self.out += struct.pack(NUMBERS[base], value)
        elif base == "uuid":
            self.out += value.bytes
        elif base == "{}":
            self.structure(kind, value, inner)
        elif base in ("string", "bytes"):
            data = value.encode() if isinstance(value, str) else value
            self.length(None if data is None else len(data), base == "string")
            self.out += data or b""
        else:
            self.length(None if value is None else len(value), short=False)
            for each in value or ():
                if inner:
                    self.fields(inner, each)
                else:
                    self.value(base.removeprefix("[]"), each, ())

    def structure(self, kind: str, value: Mapping[str, Any] | None, inner: tuple[Field, ...]) -> None:
        """One structure; a nullable one has a byte before it."""
        if kind.startswith("?"):
            self.out += struct.pack(">b", -1 if value is None else 1)
        if value is not None:
            self.fields(inner, value)

    def fields(self, layout: tuple[Field, ...], values: Mapping[str, Any]) -> None:
        for each in layout:
            if each.is_in(self.version):
                self.value(each.kind, values.get(each.name, zero(each.kind)), each.inner)
        if self.flexible:
            self.varint(0)


class Reader:
    """Reads one message; raises `MalformedError` where it ends early or a length cannot be."""

    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.at = 0
        self.version = version
        self.flexible = flexible

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise MalformedError(f"{count} bytes wanted at {self.at}, the message has {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind: str) -> Any:
        layout = NUMBERS[kind]
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise MalformedError(f"a varint of more than 5 bytes at {self.at}")

    def length(self, short: bool) -> int | None:
        count = self.varint() - 1 if self.flexible else int(self.number("int16" if short else "int32"))
        if count < -1 or count > len(self.data):
            raise MalformedError(f"a length of {count} at {self.at}, the message has {len(self.data)} bytes")
        return None if count == -1 else count

    def value(self, kind: str, inner: tuple[Field, ...]) -> Any:
        base = kind.removeprefix("?")
        if base in NUMBERS:
            return self.number(base)
        if base == "uuid":
            return uuid.UUID(bytes=self.take(16))
        if base == "{}":
            return None if kind.startswith("?") and self.number("int8") < 0 else self.fields(inner)
        count = self.length(base == "string")
        if count is None:
            if kind.startswith("[]"):
                raise MalformedError(f"null in place of an array, before {self.at}")
            return None
        if base == "bytes":
            return self.take(count)
        if base == "string":
            return self.take(count).decode("utf-8", "surrogateescape")
        return [self.fields(inner) if inner else self.value(base.removeprefix("[]"), ()) for _ in range(count)]

    def fields(self, layout: tuple[Field, ...]) -> Fields:
        found = {each.name: self.value(each.kind, each.inner) for each in layout if each.is_in(self.version)}
        if self.flexible:
            self.skip_tags()
        return found

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def end(self) -> None:
        """Nothing may be left."""
        if self.at != len(self.data):
            raise MalformedError(f"{len(self.data) - self.at} bytes after the end of the message")


def write_request(
    api: Api, version: int, correlation_id: int, client_id: str | None, values: Mapping[str, Any]
) -> bytes:
    """A request with its header, without the length before it."""
    flexible = api.is_flexible(version)
    header = Writer(version, flexible=False)
    header.out += struct.pack(">hhi", api.key, version, correlation_id)
    header.value("?string", client_id, ())
    body = Writer(version, flexible)
    body.fields(api.layouts["request"], values)
    return bytes(header.out) + (b"\0" if flexible else b"") + bytes(body.out)


def read_answer(api: Api, version: int, frame: bytes) -> tuple[int, Fields]:
    """Correlation id and fields of an answer. ApiVersions has the old header in every version."""
    flexible = api.is_flexible(version)
    reader = Reader(frame, version, flexible)
    correlation_id = int(reader.number("int32"))
    if flexible and api.name != "ApiVersions":
        reader.skip_tags()
    found = reader.fields(api.layouts["answer"])
    reader.end()
    return correlation_id, found


def walk(layout: tuple[Field, ...], visit: Callable[[Field], None]) -> None:
    """Every field of a layout."""
    for each in layout:
        visit(each)
        walk(each.inner, visit)
