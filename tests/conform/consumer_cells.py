"""State x request x identity x epoch x owned partitions for the newer protocol: one session per cell.

A session brings a group of m1 and m2 (or a1 and b1 with instance ids) into a state, asks one request, and looks at the
group; then m1 asks once more, so that what the request left behind shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TOPICS = "topics foo:6 bar:3 one:1"
BEGIN = (TOPICS, "settings consumer.assignment.interval.ms=0")
AT_INTERVALS = (TOPICS,)
JOINED = ("m1 beat join foo", "m2 beat join foo")
REVOKING = (*JOINED, "m1 beat")
SETTLED = (*REVOKING, "m1 beat owns=foo:0-2", "m2 beat")
STATIC = (
    "m1 beat join foo instance=i1",
    "m2 beat join foo instance=i2",
    "m1 beat instance=i1",
    "m1 beat owns=foo:0-2 instance=i1",
    "m2 beat instance=i2",
)


JOINS = {"same": "foo", "other": "bar", "none": "none", "both": "bar,foo", "range": "foo assignor=range"}


@dataclass(frozen=True)
class State:
    """How a state is reached, m1's epoch and previous epoch in it, and what m1 holds."""

    name: str
    steps: tuple[str, ...]
    epoch: int
    previous: int
    owns: str
    instance: str = ""


STATES = (
    State("absent", BEGIN, 0, 0, "none"),
    State("empty", (*BEGIN, "m1 beat join foo", "m1 beat epoch=-1"), 2, 0, "none"),
    State("alone", (*BEGIN, "m1 beat join foo"), 2, 0, "foo:0-5"),
    State("unaware", (*BEGIN, *JOINED), 2, 0, "foo:0-5"),
    State("revoking", (*BEGIN, *REVOKING), 2, 2, "foo:0-2"),
    State("stable", (*BEGIN, *SETTLED), 3, 2, "foo:0-2"),
    State("behind", (*BEGIN, *SETTLED, "m3 beat join foo,bar"), 3, 2, "foo:0-2"),
    State("waiting", (*BEGIN, "m2 beat join foo", "m1 beat join foo"), 3, 0, "none"),
    State("waiting-again", (*BEGIN, "m2 beat join foo", "m1 beat join foo", "m1 beat"), 3, 3, "none"),
    State("assigning", (*AT_INTERVALS, "m1 beat join foo", "m2 beat join foo"), 2, 0, "foo:0-5"),
    State("left-behind", (*BEGIN, *SETTLED, "m2 beat epoch=-1"), 3, 2, "foo:0-2"),
    State("nothing", (*BEGIN, "m1 beat join none"), 1, 0, "none"),
    State("static", (*BEGIN, *STATIC), 3, 2, "foo:0-2", " instance=i1"),
    State("away", (*BEGIN, *STATIC, "m1 beat epoch=-2 instance=i1"), -2, 2, "foo:0-2", " instance=i1"),
    State(
        "away-while-revoking", (*BEGIN, *STATIC[:3], "m1 beat epoch=-2 instance=i1"), -2, 2, "foo:0-2", " instance=i1"
    ),
    State(
        "replaced",
        (*BEGIN, *STATIC, "m1 beat epoch=-2 instance=i1", "m3 beat join foo instance=i1"),
        3,
        2,
        "foo:0-2",
        " instance=i1",
    ),
)


def owned(state: State) -> dict[str, str]:
    """Reports: none, empty, what m1 holds, less, more, and a topic of another group."""
    found = {"null": "null", "empty": "none", "more": "foo:0-5,bar:0-2", "foreign": "bar:0"}
    return found if state.owns == "none" else found | {"exact": state.owns, "less": "foo:0"}


def epochs(state: State) -> dict[str, int]:
    """Epochs by what they are to m1, each number once."""
    named = {
        "current": state.epoch,
        "previous": state.previous,
        "ahead": state.epoch + 1,
        "stale": state.previous - 1,
        "far": 9,
    }
    found: dict[str, int] = {}
    for name, epoch in named.items():
        if epoch > 0 and epoch not in found.values():
            found[name] = epoch
    return found


def requests(state: State) -> Iterator[tuple[str, str]]:
    """Name and step of every request in a state."""
    instance = state.instance
    for epoch_name, epoch in epochs(state).items():
        for owned_name, owns in owned(state).items():
            yield f"beat-{epoch_name}-{owned_name}", f"m1 beat epoch={epoch} owns={owns}{instance}"
        yield f"beat-{epoch_name}-drops", f"m1 beat epoch={epoch} names=none{instance}"
        yield f"beat-{epoch_name}-changes", f"m1 beat epoch={epoch} names=bar{instance}"
        full = f"names=foo rebalance=60000ms owns={state.owns}"
        yield f"beat-{epoch_name}-full", f"m1 beat epoch={epoch} {full}{instance}"
        yield f"beat-{epoch_name}-stranger", f"x beat epoch={epoch} owns=none{instance}"
        yield f"commit-{epoch_name}-own", f"m1 OffsetCommit id=m1 generation={epoch} foo/0=1"
        yield f"commit-{epoch_name}-others", f"m1 OffsetCommit id=m1 generation={epoch} foo/0=1 foo/5=1"
        yield f"commit-{epoch_name}-stranger", f"x OffsetCommit id=x generation={epoch} foo/0=1"
        yield f"fetch-{epoch_name}", f"m1 OffsetFetch id=m1 epoch={epoch} foo/0"
        yield f"fetch-{epoch_name}-stranger", f"x OffsetFetch id=x epoch={epoch} foo/0"
    if state.epoch == -2:
        yield "commit-away", "m1 OffsetCommit id=m1 generation=-2 foo/0=1"
        yield "fetch-away", "m1 OffsetFetch id=m1 epoch=-2 foo/0"
    for name, words in JOINS.items():
        yield f"join-{name}", f"m1 beat join {words}{instance}"
        yield f"join-{name}-stranger", f"x beat join {words}{instance}"
    yield "join-becomes-static", "m1 beat join foo instance=i7"
    yield "leave", f"m1 beat epoch=-1{instance}"
    yield "leave-stranger", f"x beat epoch=-1{instance}"
    yield "leave-unknown-instance", "m1 beat epoch=-1 instance=i7"
    yield "leave-other-member", "m2 beat epoch=-1"
    yield "away", f"m1 beat epoch=-2{instance or ' instance=i7'}"
    yield "away-stranger", f"x beat epoch=-2{instance or ' instance=i7'}"
    yield "commit-from-outside", 'x OffsetCommit id="" generation=-1 foo/0=1'
    yield "commit-member-outside", "m1 OffsetCommit id=m1 generation=-1 foo/0=1"
    yield "commit-old-version", f"m1 OffsetCommit id=m1 generation={max(state.epoch, 0)} foo/0=1 v=8"
    yield "fetch-from-outside", "x OffsetFetch foo/0"


@dataclass(frozen=True)
class Cell:
    """One session."""

    name: str
    steps: tuple[str, ...]


def cells() -> Iterator[Cell]:
    """Every cell, by state."""
    for state in STATES:
        for name, step in requests(state):
            after = ("d look", f"m1 beat epoch={max(state.epoch, 1)}{state.instance}", "m2 beat epoch=3", "d look")
            yield Cell(f"{state.name}/{name}", (*state.steps, step, *after))
