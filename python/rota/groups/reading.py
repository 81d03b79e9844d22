"""Partitions of a topic, read to where they ended when reading began."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

POLL_MS = 500
RECORDS_AT_ONCE = 20_000

Take = Callable[[Any, list[Any], int], None]
"""Takes a partition, its records in their order, and the offset that is next."""


def read_spans(
    consumer: Any, spans: Mapping[Any, range], take: Take, still_s: float, tell: Callable[[int], None]
) -> None:
    """Read the offsets of each span, in their order. Records without a key are left out.

    `consumer` is one of kafka-python without a group, `spans` are by its TopicPartition. Ends early if nothing comes
    for `still_s` seconds. `tell` gets how many offsets have been read, after each poll.
    """
    left = [at for at, span in spans.items() if span]
    following = {at: spans[at].start for at in left}
    consumer.assign(left)
    for at in left:
        consumer.seek(at, spans[at].start)
    moved_s = time.monotonic()
    while left and time.monotonic() - moved_s < still_s:
        polled = consumer.poll(timeout_ms=POLL_MS, max_records=RECORDS_AT_ONCE)
        for at in left:
            # Markers of transactions move it, too.
            if (position := consumer.position(at)) > following[at]:
                within = [one for one in polled.get(at, []) if one.offset < spans[at].stop and one.key is not None]
                take(at, within, position)
                following[at], moved_s = position, time.monotonic()
        if over := [at for at in left if following[at] >= spans[at].stop]:
            consumer.pause(*over)
            left = [at for at in left if at not in over]
        tell(sum(position - spans[at].start for at, position in following.items()))
