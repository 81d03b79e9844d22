"""Writes what the fuzz targets begin with into rust/fuzz/corpus: `python rust/fuzz/seeds.py`.

Requests are those of tests/wire/requests.txt; the rest is small, right, and one of each version.
"""

import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent / "tests" / "wire" / "requests.txt"


def string(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def zigzag(value: int) -> bytes:
    """A varint of less than 64."""
    return bytes([value << 1 if value >= 0 else (-value << 1) - 1])


def requests() -> list[bytes]:
    lines = SAMPLES.read_text().splitlines()
    return [bytes.fromhex(line.split()[2]) for line in lines if not line.startswith("#")]


def batches() -> list[bytes]:
    record = b"\0" + zigzag(0) + zigzag(0) + zigzag(3) + b"key" + zigzag(5) + b"value" + zigzag(0)
    records = (zigzag(len(record)) + record) * 2
    found = []
    for attributes in range(5):
        covered = struct.pack(">hiqqqhii", attributes, 1, 1_000, 1_001, 5, 0, 0, 2) + records
        found.append(struct.pack(">qiibI", 7, 9 + len(covered), 0, 2, 0) + covered)
    return found


def records() -> list[bytes]:
    offset_key = struct.pack(">h", 1) + string("group") + string("topic") + struct.pack(">i", 3)
    group_key = struct.pack(">h", 2) + string("group")
    values = {
        0: struct.pack(">q", 5) + string("m") + struct.pack(">q", 9),
        1: struct.pack(">q", 5) + string("m") + struct.pack(">qq", 9, 10),
        2: struct.pack(">q", 5) + string("m") + struct.pack(">q", 9),
        3: struct.pack(">qi", 5, 1) + string("m") + struct.pack(">q", 9),
    }
    pairs = [(offset_key, struct.pack(">h", version) + value) for version, value in values.items()]
    head = string("consumer") + struct.pack(">i", 4) + string("range") + string("m-1")
    member = string("m-1") + string("c") + string("/1.2.3.4") + struct.pack(">ii", 6, 7) + blob(b"s") + blob(b"a")
    pairs.append((group_key, struct.pack(">h", 1) + head + struct.pack(">i", 1) + member))
    pairs.append((group_key, b""))
    return [struct.pack(">H", len(key)) + key + value for key, value in pairs]


def embedded() -> list[bytes]:
    topics = struct.pack(">i", 2) + string("a") + string("b") + struct.pack(">i", -1)
    owned = struct.pack(">i", 1) + string("a") + struct.pack(">ii", 1, 0)
    tails = [b"", owned, owned + struct.pack(">i", 3), owned + struct.pack(">i", 3) + string("rack")]
    subscriptions = [struct.pack(">h", version) + topics + tail for version, tail in enumerate(tails)]
    return [*subscriptions, struct.pack(">h", 0) + owned + blob(b"user data")]


def main() -> None:
    for make in (requests, batches, records, embedded):
        folder = HERE / "corpus" / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(make()):
            (folder / f"seed-{number:03}").write_bytes(seed)


if __name__ == "__main__":
    main()
