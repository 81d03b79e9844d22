"""Rows of logs as Arrow record batches; the rows themselves are made in Rust."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rota import _rota
from rota.audit.logs import Part, opened

TYPES = {"long": pa.int64(), "int": pa.int32(), "text": pa.string(), "bytes": pa.binary()}
SPARK_TYPES = {"long": "bigint", "int": "int", "text": "string", "bytes": "binary"}

# What all rows of a part have in common comes before what Rust reads.
PLACE = (("source", "text"), ("log", "text"), ("partition", "int"))
COLUMNS = (*PLACE, *_rota.audit_columns())
ARROW_SCHEMA = pa.schema([(name, TYPES[kind]) for name, kind in COLUMNS])
SPARK_SCHEMA = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in COLUMNS)
SPARK_FIELDS = ", ".join(f"`{name}`: {SPARK_TYPES[kind]}" for name, kind in _rota.audit_columns())
"""Of a struct with what Rust reads."""


def array_of(kind: str, rows: int, buffers: tuple[bytes, bytes, bytes]) -> pa.Array:
    """A column that Rust wrote."""
    validity, offsets, values = (pa.py_buffer(buffer) for buffer in buffers)
    if kind in {"text", "bytes"}:
        return pa.Array.from_buffers(TYPES[kind], rows, [validity, offsets, values])
    return pa.Array.from_buffers(TYPES[kind], rows, [validity, values])


def _placed(place: tuple[str, str, int], rows: int) -> list[pa.Array]:
    return [pa.repeat(pa.scalar(value, TYPES[kind]), rows) for value, (_, kind) in zip(place, PLACE, strict=True)]


def written(place: tuple[str, str, int], rows: pa.RecordBatch) -> bytes:
    """Rows of a partition without its source, log and number, as a stream of Arrow with them."""
    whole = pa.RecordBatch.from_arrays([*_placed(place, rows.num_rows), *rows.columns], schema=ARROW_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ARROW_SCHEMA) as stream:
        stream.write_batch(whole)
    return bytes(sink.getvalue())


def unreadable(part: Part, reason: str) -> pa.RecordBatch:
    """One row that says what could not be read, instead of a dead job."""
    said = {"source": part.source, "log": part.log, "partition": part.partition, "kind": "unreadable", "note": reason}
    said |= {"offset": part.first_offset, "part": 0}
    return pa.RecordBatch.from_pylist([said], schema=ARROW_SCHEMA)


def rows_of(
    part: Part,
    groups: list[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    has_entries: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of one part, chosen as by `opened`."""
    try:
        rows = opened(part, groups, since_ms, until_ms, has_entries)
    except OSError as error:
        yield unreadable(part, str(error))
        return
    yield from batches_of(part, rows)


def batches_of(part: Part, rows: _rota.AuditRows) -> Iterator[pa.RecordBatch]:
    """The rows of an open part."""
    kinds, place = [kind for _, kind in _rota.audit_columns()], (part.source, part.log, part.partition)
    while (read := rows.next_columns()) is not None:
        count, columns = read
        arrays = [array_of(kind, count, buffers) for kind, buffers in zip(kinds, columns, strict=True)]
        yield pa.RecordBatch.from_arrays([*_placed(place, count), *arrays], schema=ARROW_SCHEMA)


def buffers_of(batch: pa.RecordBatch) -> list[tuple[bytes, bytes, bytes, int]]:
    """The columns that Rust reads: validity, offsets, values, and the index of the first row in them."""
    found = []
    for name, kind in _rota.audit_columns():
        array = batch.column(name)
        buffers = [b"" if buffer is None else buffer.to_pybytes() for buffer in array.buffers()]
        validity, *rest = buffers
        offsets, values = rest if kind in {"text", "bytes"} else (b"", *rest)
        found.append((validity, offsets, values, array.offset))
    return found
