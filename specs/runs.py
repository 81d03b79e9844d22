"""Runs from the initial state that show that nothing here is vacuous: every action happens in one of them."""

from __future__ import annotations

SIZES = {"Partition": 1, "Append": 6, "Epoch": 2, "Generation": 4, "Instance": 3, "Member": 4, "Protocol": 1, "Bytes": 2}

LOG, TOLD = "log takes a group record", "plan durable"
BORN = ["create group and join", LOG, "creation durable"]
FIRST_ROUND = [*BORN, "initial timer: completes"]
STABLE = [*FIRST_ROUND, "sync of the leader", LOG, TOLD]
REPLACING = [*STABLE, "replace Stable"]
PAIR = [*BORN, "join Preparing", "initial timer: completes"]
PAIR_STABLE = [*PAIR, "sync parks", "sync of the leader", LOG, TOLD]
RELOADED = ["crash", "fence", "load Stable"]

RUNS: dict[str, list[str]] = {
    "a replacement is written and told": [*REPLACING, LOG, "replacement durable", "heartbeat", "refuse: fenced"],
    "a replacement survives a crash": [*REPLACING, LOG, "replacement durable", *RELOADED, "heartbeat"],
    "a replacement fails": [*REPLACING, "log loses an append", "replacement failed", "sync in Stable"],
    "a replacement comes too late": [*REPLACING, "replacement overdue", LOG, "replacement durable late", LOG,
                                     "append ends, nobody waits"],  # fmt: skip
    "replaced again while it is written": [*REPLACING, "replace Stable", LOG, "replacement ends, replaced again"],
    "a rebalance overtakes a replacement": [*REPLACING, "leave: empties"],
    "id first": ["create group and hand out an id", "pending expires", "hand out an id", "leave Empty", LOG,
                 "creation durable", "hand out an id", "join Empty", "hand out an id", "pending expires Preparing: completes"],
    "refused first": ["create group and refuse", "join Empty", "creation overdue", LOG, "creation durable late", "join Empty"],
    "a creation fails": ["create group and join", "log loses an append", "creation failed", "refuse: unknown"],
    "held back, and let go": ["create group and join", "initial timer: holds", LOG,
                              "creation durable, held phase ends: completes", "rejoin unchanged"],  # fmt: skip
    "held back, and nobody is left": ["create group and join", "leave Preparing", "initial timer: holds", LOG,
                                      "creation durable, held phase ends: empties"],  # fmt: skip
    "the delay is extended": [*BORN, "initial timer again", "rejoin", "hand out an id", "initial timer: completes"],
    "nobody is left at the end of the delay": [*BORN, "expire Preparing: empties"],
    "a leave empties the delay": [*BORN, "leave Preparing", "initial timer: empties", "log loses an append",
                                  "emptied record failed", "emptied record written again"],  # fmt: skip
    "a join begins a rebalance": [*STABLE, "join later", "rejoin: completes"],
    "a changed member alone": [*STABLE, "rejoin changed: completes"],
    "a new member alone": [*STABLE, "leave: empties", "join Empty", "initial timer: completes"],
    "the sync timer finds nobody": [*FIRST_ROUND, "sync timer: empties"],
    "the sync timer finds one": [*PAIR, "sync parks", "sync timer", "rejoin: completes"],
    "a plan fails": [*FIRST_ROUND, "sync of the leader", "log loses an append", "plan failed", "rejoin: completes"],
    "a plan is overdue": [*FIRST_ROUND, "sync of the leader", "plan overdue", LOG, "append ends, nobody waits", "join timer: empties"],
    "members of two leave": [*PAIR_STABLE, "leave", "rejoin: completes"],
    "members of two expire": [*PAIR_STABLE, "expire", "hand out an id", "rejoin", "join timer: completes"],
    "the last one expires": [*STABLE, "expire: empties"],
    "static members are absent": [*STABLE, "hand out an id", "rejoin changed", "pending expires Preparing: completes"],
    "only an absent static member": [*PAIR_STABLE, "leave", "join timer: rearms", "expire Preparing: empties"],
    "an absent member leaves": [*PAIR_STABLE, "rejoin changed", "leave Preparing: completes"],
    "an absent member expires": [*PAIR_STABLE, "rejoin changed", "expire Preparing: completes"],
    "an absent member is refused": [*PAIR_STABLE, "rejoin changed", "refuse for room: completes"],
    "everybody absent leaves": [*STABLE, "hand out an id", "leave", "leave Preparing: empties"],
    "a pending id is the last": [*STABLE, "hand out an id", "leave", "pending expires Preparing: empties"],
    "a pending id is refused": [*STABLE, "hand out an id", "leave", "refuse for room: empties"],
    "a replacement while joining": [*STABLE, "hand out an id", "rejoin changed", "replace Preparing", "leave Preparing: completes"],
    "a replacement completes": [*PAIR_STABLE, "rejoin changed", "replace Preparing: completes"],
    "a replacement changes the vote": [*PAIR_STABLE, "replace and rebalance", "rejoin: completes"],
    "a replacement alone": [*STABLE, "replace and rebalance: completes"],
    "a pending id joins later": [*STABLE, "hand out an id", "rejoin changed", "join Preparing: completes"],
    "a member expires in the round": [*PAIR_STABLE, "rejoin changed", "hand out an id", "expire Preparing"],
    "a refusal leaves others": [*PAIR_STABLE, "rejoin changed", "hand out an id", "refuse for room"],
    "a pending id expires in between": [*STABLE, "hand out an id", "hand out an id", "rejoin changed", "pending expires Preparing"],
    "commits": [*STABLE, "commit", "log takes a commit", "commit durable", "fetch", "commit", "commit or delete overdue"],
    "offsets without members": ["simple commit", "log takes a commit", "commit durable", "crash", "fence", "load offsets only", "fetch"],
    "a deletion": [*BORN[:2], "creation durable", "leave Preparing", "initial timer: empties", LOG, "append ends, nobody waits",
                   "delete", "log takes tombstones", "delete durable", "create group and refuse"],  # fmt: skip
    "a deletion fails": ["create group and refuse", LOG, "creation durable", "delete", "log loses an append", "delete failed"],
    "hand-over": [*STABLE, "unload", "refuse: not the coordinator", "fence", "load, too many members"],
    "hand-over of an empty group": ["create group and refuse", LOG, "unload", "fence", "load Empty"],
    "hand-over of nothing": ["unload", "fence", "load nothing"],
    "refusals": [*STABLE, "refuse: generation", "hand out an id", "rejoin changed", "refuse: sync or commit while rebalancing"],
    "a parked member's session ends": [*STABLE, "hand out an id", "rejoin changed", "session of a parked member"],
    "an undurable phase by all": ["create group and refuse", "join Empty", "hand out an id", "pending expires Preparing: holds"],
    "an undurable phase by expiry": ["create group and join", "join Preparing", "expire Preparing: holds"],
}  # fmt: skip
