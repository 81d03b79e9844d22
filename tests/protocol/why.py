"""Which line of docs/protocol.md explains a cell. `4.2(7)` is line 7 of the table in section 4.2.

The first rule that fits decides. A rule sees the request, who sends it, the state, and the answer's error (`parked` if
there is none yet), and nothing else: it says where to look, it does not compute the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """`api`, `identity`, `error` and `state` are regular expressions for the whole text."""

    section: str
    api: str
    error: str
    identity: str = ".*"
    state: str = ".*"

    def fits(self, api: str, identity: str, error: str, state: str) -> bool:
        """Whether this rule explains the cell."""
        pairs = ((self.api, api), (self.identity, identity), (self.error, error), (self.state, state))
        return all(re.fullmatch(pattern, text) for pattern, text in pairs)


LOST = ".*(instance id nobody has|pending id.*instance id).*"

RULES = [
    Rule("3", "SyncGroup", "INCONSISTENT_GROUP_PROTOCOL", ".*without protocol.*"),
    Rule("3", ".*", "INVALID_GROUP_ID|INVALID_SESSION_TIMEOUT|COORDINATOR_LOAD_IN_PROGRESS"),
    Rule("3", "Heartbeat", "NONE", state="Loading"),
    Rule("3", ".*", "NOT_COORDINATOR", state="Unloaded"),
    Rule("3", "ListGroups", "NONE", state="Unloaded"),
    # JoinGroup
    Rule("4.2(1)", "JoinGroup", "UNKNOWN_MEMBER_ID", state="None"),
    Rule("4.4", "JoinGroup", "GROUP_MAX_SIZE_REACHED"),
    Rule("4.3", "JoinGroup", "INCONSISTENT_GROUP_PROTOCOL"),
    Rule("4.6", "JoinGroup", "MEMBER_ID_REQUIRED"),
    Rule("4.2(7)", "JoinGroup", "parked|NONE", "newcomer.*"),
    Rule("9.2", "JoinGroup", "parked|NONE", "new static.*"),
    Rule("4.2(11)", "JoinGroup", "UNKNOWN_SERVER_ERROR"),
    Rule("4.2(10)", "JoinGroup", "parked|NONE", "pending id.*"),
    Rule("4.2(12)", "JoinGroup", "UNKNOWN_MEMBER_ID", LOST),
    Rule("4.2(13)", "JoinGroup", "FENCED_INSTANCE_ID"),
    Rule("4.2(14)", "JoinGroup", "UNKNOWN_MEMBER_ID"),
    Rule("9.3", "JoinGroup", "parked|NONE|REBALANCE_IN_PROGRESS", ".*restarts.*"),
    Rule("4.8", "JoinGroup", "parked|NONE", "leader.*", "Preparing.*"),
    Rule("4.2(17)", "JoinGroup", "parked|NONE", ".*changed", "Completing.*|Stable.*"),
    Rule("4.2(15)", "JoinGroup", "parked|NONE", "leader.*"),
    Rule("4.2(16)", "JoinGroup", "parked|NONE", "follower.*"),
    # SyncGroup
    Rule("6.1(2)", "SyncGroup", "UNKNOWN_MEMBER_ID", state="None|Empty.*"),
    Rule("6.1(4)", "SyncGroup", "UNKNOWN_MEMBER_ID", LOST),
    Rule("6.1(5)", "SyncGroup", "FENCED_INSTANCE_ID"),
    Rule("6.1(6)", "SyncGroup", "UNKNOWN_MEMBER_ID"),
    Rule("6.1(7)", "SyncGroup", "ILLEGAL_GENERATION"),
    Rule("6.1(8)", "SyncGroup", "INCONSISTENT_GROUP_PROTOCOL", ".*another (protocol )?type.*"),
    Rule("6.1(9)", "SyncGroup", "INCONSISTENT_GROUP_PROTOCOL", ".*another protocol name"),
    Rule("6.1(10)", "SyncGroup", "REBALANCE_IN_PROGRESS"),
    Rule("4.8", "SyncGroup", "parked", "leader.*", "Completing, being written"),
    Rule("4.8", "SyncGroup", "parked", "follower.*", "Completing, (being written|follower parked)"),
    Rule("6.3", "SyncGroup", "parked", "leader.*"),
    Rule("6.2", "SyncGroup", "parked"),
    Rule("6.1(12)", "SyncGroup", "NONE"),
    # Heartbeat
    Rule("7.1(1)", "Heartbeat", "UNKNOWN_MEMBER_ID", state="None"),
    Rule("7.1(3)", "Heartbeat", "UNKNOWN_MEMBER_ID", LOST),
    Rule("7.1(4)", "Heartbeat", "FENCED_INSTANCE_ID"),
    Rule("7.1(5)", "Heartbeat", "UNKNOWN_MEMBER_ID"),
    Rule("7.1(6)", "Heartbeat", "ILLEGAL_GENERATION"),
    Rule("7.1(7)", "Heartbeat", "REBALANCE_IN_PROGRESS"),
    Rule("7.1(8)", "Heartbeat", "NONE", state="Completing.*"),
    Rule("7.1(9)", "Heartbeat", "NONE"),
    # LeaveGroup
    Rule("8", "LeaveGroup", ".*", "administrator, nobody named"),
    Rule("8", "LeaveGroup", ".*", state="None"),
    Rule("8.1", "LeaveGroup", "UNKNOWN_MEMBER_ID|FENCED_INSTANCE_ID|NONE"),
    # OffsetCommit
    Rule("10.1 A", "OffsetCommit", ".*", "no id, no generation"),
    Rule("10.1 B", "OffsetCommit", ".*", ".*no generation"),
    Rule("10.1 C", "OffsetCommit", "GROUP_ID_NOT_FOUND|ILLEGAL_GENERATION", state="None"),
    Rule("10.1 C", "OffsetCommit", "REBALANCE_IN_PROGRESS", state="Completing.*"),
    Rule("10.1 C", "OffsetCommit", "UNKNOWN_MEMBER_ID|FENCED_INSTANCE_ID|ILLEGAL_GENERATION"),
    Rule("10.2", "OffsetCommit", ".*", ".*metadata too long.*|.*retention time"),
    Rule("10.3", "OffsetCommit", "parked"),
    # the rest
    Rule("11.1", "OffsetFetch", ".*", "everything|empty group id"),
    Rule("11.2", "OffsetFetch", ".*", "what was never committed"),
    Rule("11.3", "OffsetFetch", ".*", "a partition and stable"),
    Rule("12.1", "DescribeGroup", ".*"),
    Rule("12.2", "ListGroups", ".*"),
    Rule("12.3", "DeleteGroup", ".*"),
    Rule("12.4", "OffsetDelete", ".*"),
]


def explain(api: str, identity: str, error: str, state: str) -> str | None:
    """The section for a cell, or None if no rule fits."""
    return next((rule.section for rule in RULES if rule.fits(api, identity, error, state)), None)
