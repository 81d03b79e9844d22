"""Which log can decide which invariant. docs/audit.md has this table in words; a test holds the two together.

A journal has every event and every answer, so a replay decides what depends on the coordinator's state. The log of
groups has what became durable: no joins, no heartbeats, no answers, no partition counts.
"""

from __future__ import annotations

REPLAYED, QUERIED, BOTH, UNKNOWN = "replay", "query", "both", "unknown"

# id: (journal, __consumer_offsets of rota, __consumer_offsets of Kafka): who decides it there.
MATRIX: dict[str, tuple[str, str, str]] = {
    "S1": (BOTH, UNKNOWN, UNKNOWN),
    "S2": (REPLAYED, UNKNOWN, UNKNOWN),
    "S3": (BOTH, QUERIED, QUERIED),
    "S4": (BOTH, QUERIED, QUERIED),
    "S5": (REPLAYED, UNKNOWN, UNKNOWN),
    "S6": (BOTH, QUERIED, QUERIED),
    "S7": (REPLAYED, UNKNOWN, UNKNOWN),
    "S8": (REPLAYED, UNKNOWN, UNKNOWN),
    "S9": (BOTH, UNKNOWN, UNKNOWN),
    "S10": (REPLAYED, UNKNOWN, UNKNOWN),
    "S11": (BOTH, UNKNOWN, UNKNOWN),
    "S12": (QUERIED, QUERIED, QUERIED),
    "S13": (UNKNOWN, UNKNOWN, UNKNOWN),
    "S14": (BOTH, UNKNOWN, UNKNOWN),
    "S15": (BOTH, UNKNOWN, UNKNOWN),
    "S16": (BOTH, QUERIED, QUERIED),
    "S17": (BOTH, QUERIED, QUERIED),
    "S18": (BOTH, UNKNOWN, UNKNOWN),
    "S19": (REPLAYED, UNKNOWN, UNKNOWN),
    "S20": (BOTH, UNKNOWN, UNKNOWN),
    "S21": (REPLAYED, UNKNOWN, UNKNOWN),
    "S22": (REPLAYED, UNKNOWN, UNKNOWN),
    "S23": (BOTH, UNKNOWN, UNKNOWN),
    "S24": (REPLAYED, UNKNOWN, UNKNOWN),
    "S25": (REPLAYED, UNKNOWN, UNKNOWN),
    "S26": (BOTH, UNKNOWN, UNKNOWN),
    "S27": (UNKNOWN, UNKNOWN, UNKNOWN),
    "S28": (BOTH, UNKNOWN, UNKNOWN),
    "S29": (BOTH, QUERIED, QUERIED),
    "S30": (REPLAYED, UNKNOWN, UNKNOWN),
    "S31": (REPLAYED, UNKNOWN, UNKNOWN),
    "S32": (UNKNOWN, UNKNOWN, UNKNOWN),
    "S33": (BOTH, UNKNOWN, UNKNOWN),
    "S34": (BOTH, UNKNOWN, UNKNOWN),
    "L1": (BOTH, UNKNOWN, UNKNOWN),
    "L2": (BOTH, UNKNOWN, UNKNOWN),
    "L3": (BOTH, UNKNOWN, UNKNOWN),
    "L4": (REPLAYED, UNKNOWN, UNKNOWN),
    "L5": (QUERIED, UNKNOWN, UNKNOWN),
    "L6": (REPLAYED, UNKNOWN, UNKNOWN),
    "L7": (REPLAYED, UNKNOWN, UNKNOWN),
    "C1": (BOTH, QUERIED, QUERIED),
    "C2": (UNKNOWN, UNKNOWN, UNKNOWN),
    "C3": (BOTH, QUERIED, QUERIED),
    "C4": (BOTH, QUERIED, QUERIED),
    "C5": (BOTH, QUERIED, QUERIED),
    "C6": (REPLAYED, UNKNOWN, UNKNOWN),
    "C7": (BOTH, QUERIED, QUERIED),
    "C8": (REPLAYED, UNKNOWN, UNKNOWN),
    "C9": (REPLAYED, UNKNOWN, UNKNOWN),
    "C10": (REPLAYED, UNKNOWN, UNKNOWN),
    "C11": (BOTH, UNKNOWN, UNKNOWN),
    "C12": (REPLAYED, UNKNOWN, UNKNOWN),
    "C13": (REPLAYED, UNKNOWN, UNKNOWN),
    "C14": (REPLAYED, UNKNOWN, UNKNOWN),
    "C15": (REPLAYED, UNKNOWN, UNKNOWN),
    "C16": (REPLAYED, UNKNOWN, UNKNOWN),
    "C17": (REPLAYED, UNKNOWN, UNKNOWN),
    "C18": (UNKNOWN, UNKNOWN, UNKNOWN),
    "C19": (UNKNOWN, UNKNOWN, UNKNOWN),
    "C20": (UNKNOWN, UNKNOWN, UNKNOWN),
}

# What is only true of the records that compaction left: one generation after another, who was gone in between, and what
# members of the newer protocol held.
NEEDS_ALL_RECORDS = frozenset({"S4", "S17", "S29", "C1", "C3", "C4", "C5", "C7"})

# What is decided of groups of the newer consumer protocol.
OF_NEWER = frozenset(identifier for identifier in MATRIX if identifier.startswith("C"))

WHY_UNKNOWN = {
    "S12": "whether every partition has an owner: no log contains the number of partitions",
    "S13": "the tests of the assignors check it",
    "C2": "only the member's process knows what it still holds",
    "C7": "partitions that do not appear in the group's records",
    "C18": "no log contains the time of the last change",
    "C19": "no log contains the time of the last change",
    "C20": "no log contains the time of the last change",
    "S27": "only the member's process knows what it still holds",
    "S32": "no log contains the order of answers on a connection",
    "L5": "the time limit: no log contains the time of the last fault. The audit checks that a group settles",
}
