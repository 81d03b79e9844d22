"""Groups that the audit does not check, by the keys of their records: share groups and streams groups."""

from __future__ import annotations

from rota.audit.logs import OFFSETS, Part, records_of

SHARE, STREAMS = "share group", "streams group"
# What Kafka 4.4 has: the first type of a record, and the one behind the last.
TYPES = {SHARE: range(10, 16), STREAMS: range(17, 24)}


def other_of(key: bytes) -> tuple[str, str] | None:
    """What a record is about and the id of the group; None: it is of another type or damaged."""
    about = next((name for name, types in TYPES.items() if int.from_bytes(key[:2], "big") in types), None)
    end = 4 + int.from_bytes(key[2:4], "big")
    if about is None or len(key) < end:
        return None
    try:
        return about, key[4:end].decode()
    except UnicodeDecodeError:
        return None


def others_in(parts: list[Part]) -> set[str]:
    """The ids of such groups in logs, as far as these can be read."""
    found: set[str] = set()
    for part in parts:
        if part.source == OFFSETS and part.trouble is None:
            try:
                found |= {other[1] for *_, key, _ in records_of(part) if (other := other_of(key))}
            except OSError:
                continue  # the audit says so
    return found
