"""The coordinator of one partition of `__consumer_offsets` as a state machine in your own time.

`Coordinator` reads no clock and opens no file. It takes requests (`rota.protocol`) and times, and returns answers and
records to append. `Explanation` and `Projection` show the state of a group. `Wheel` and `Purgatory` are the timing
wheel and the purgatory that the coordinator uses.
"""

from rota._rota import (
    Append,
    ConsumerMemberView,
    ConsumerView,
    Coordinator,
    Departure,
    Effect,
    Explanation,
    InvariantViolation,
    ProjectedMember,
    Projection,
    Purgatory,
    Rebalance,
    SnapshotError,
    Wait,
    Wheel,
)

__all__ = [
    "Append",
    "ConsumerMemberView",
    "ConsumerView",
    "Coordinator",
    "Departure",
    "Effect",
    "Explanation",
    "InvariantViolation",
    "ProjectedMember",
    "Projection",
    "Purgatory",
    "Rebalance",
    "SnapshotError",
    "Wait",
    "Wheel",
]
