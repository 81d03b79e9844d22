"""What the walk with transactions reaches: cells of state, request, producer, change in flight and answer, and the
named situations. A run of some length has to see each of them at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota.check.differential.steps import AskTransaction, End, HandOver, Loaded, Mark, Pass, Step
from rota.model import transactions as model

Cell = tuple[str, str, str, str, str]
Effects = Sequence[model.Effect]


@dataclass(frozen=True)
class Seen:
    """One step with the states around it and its effects."""

    before: model.State
    step: Step
    after: model.State
    effects: Effects


def cell_of(s: model.State, step: Step, effects: Effects) -> Cell | None:
    """The cell of a request; an answer that waits for its record is `parked`."""
    if not isinstance(step, AskTransaction) or s.phase != "Serving":
        return None
    known = s.ids.get(step.request.transactional_id)
    current = known.current if known else None
    answers = [each.error for each in effects if isinstance(each, model.Answer) and each.ticket == step.ticket]
    return (
        current.state if current else "unknown",
        kind_of(step.request),
        _relation(current, step.request.producer),
        "in flight" if known and known.in_flight else "idle",
        answers[0] if answers else "parked",
    )


def kind_of(r: model.Request) -> str:
    """The request with its protocol, and the outcome that it asks for."""
    if isinstance(r, model.InitProducerId):
        return "init"
    if isinstance(r, model.AddParticipants):
        return f"add {r.protocol}"
    return f"{'commit' if r.commits else 'abort'} {r.protocol}"


def _relation(t: model.Transaction | None, producer: model.Producer) -> str:
    if producer == model.NO_PRODUCER:
        return "none"
    if t is None or producer[0] != t.producer[0]:
        return "previous id" if t and producer[0] == t.previous_id else "other id"
    behind = t.producer[1] - producer[1]
    return {0: "current", 1: "epoch before"}.get(behind, "stale" if behind > 0 else "ahead")


# ---- situations


def _states(s: model.State) -> dict[str, model.Transaction]:
    return {name: known.current for name, known in s.ids.items() if known.current}


def _became(w: Seen, *states: str) -> list[tuple[model.Transaction | None, model.Transaction]]:
    """The transactions that came into one of these states in this step, with what they were before."""
    then = _states(w.before)
    return [
        (then.get(name), now)
        for name, now in _states(w.after).items()
        if now.state in states and (name not in then or then[name].state != now.state)
    ]


def _ended(w: Seen, *errors: str | None) -> bool:
    return isinstance(w.step, End) and w.step.error in errors


def _is_own(w: Seen) -> bool:
    """The append that ended was the coordinator's own."""
    waiting = [known.in_flight for known in w.before.ids.values() if known.in_flight]
    after = {known.in_flight.append_id for known in w.after.ids.values() if known.in_flight}
    return any(flight.ticket is None and flight.append_id not in after for flight in waiting)


def _asked(w: Seen, kind: type, error: str) -> bool:
    answers = any(isinstance(each, model.Answer) and each.error == error for each in w.effects)
    return isinstance(w.step, AskTransaction) and isinstance(w.step.request, kind) and answers


def _overflowed(w: Seen, *states: str) -> bool:
    return any(before and before.producer[0] != now.producer[0] for before, now in _became(w, *states))


def _repeated_end(w: Seen) -> bool:
    if not _asked(w, model.EndTransaction, model.NONE) or not isinstance(w.step, AskTransaction):
        return False
    return isinstance(w.step.request, model.EndTransaction) and w.step.request.protocol == 2


def _markers(w: Seen) -> bool:
    return any(isinstance(each, model.SendMarker) for each in w.effects)


def _repeated_init(w: Seen) -> bool:
    """An InitProducerId by its predecessor is granted."""
    if not isinstance(w.step, AskTransaction) or not isinstance(w.step.request, model.InitProducerId):
        return False
    current = _states(w.before).get(w.step.request.transactional_id)
    named = w.step.request.producer != model.NO_PRODUCER and any(isinstance(each, model.Append) for each in w.effects)
    return bool(current and current.state != model.ONGOING and named and w.step.request.producer != current.producer)


Sight = Callable[[Seen], bool]
SITUATIONS: dict[str, Sight] = {
    "a transaction is committed": lambda w: bool(_became(w, model.PREPARE[True])) and _ended(w, None),
    "a transaction is aborted": lambda w: bool(_became(w, model.PREPARE[False])) and _ended(w, None),
    "a transaction is complete": lambda w: bool(_became(w, *model.COMPLETE.values())),
    "a transaction's time is over": lambda w: (
        isinstance(w.step, Pass) and any(isinstance(each, model.Append) and each.record for each in w.effects)
    ),
    "a new producer aborts a transaction": lambda w: (
        _ended(w, None) and any(isinstance(e, model.Answer) and e.error == model.CONCURRENT for e in w.effects)
    ),
    "a lost answer to an end is asked for again": _repeated_end,
    "a lost answer to a start is asked for again": _repeated_init,
    "an end uses up the epochs": lambda w: _overflowed(w, *model.COMPLETE.values()),
    "a start uses up the epochs": lambda w: any(
        isinstance(each, model.Answer) and each.producer[1] == 0 for each in w.effects
    ) and _ended(w, None),
    "an abort passes the last epoch": lambda w: any(
        now.producer[1] > model.EPOCH_MAX for _, now in _became(w, model.PREPARE[False])
    ),
    "a marker fails": lambda w: isinstance(w.step, Mark) and w.step.result == "failed" and w.before != w.after,
    "a marker is sent again": lambda w: isinstance(w.step, Pass) and _markers(w),
    "a participant is gone": lambda w: isinstance(w.step, Mark) and w.step.result == "gone" and w.before != w.after,
    "a marker is fenced": lambda w: isinstance(w.step, Mark) and w.step.result == "fenced" and bool(w.effects),
    "a marker's result is late": lambda w: isinstance(w.step, Mark) and w.before == w.after,
    "an append fails": lambda w: _ended(w, "failed") and not _is_own(w),
    "an append fails, and is in the log": lambda w: _ended(w, "stored"),
    "the coordinator's own append fails": lambda w: _ended(w, "failed", "stored") and _is_own(w),
    "an append is fenced": lambda w: _ended(w, "fenced") and w.after.phase == "GivenUp" != w.before.phase,
    "an append ends twice": lambda w: _ended(w, "again"),
    "a decided transaction is loaded": lambda w: isinstance(w.step, Loaded) and _markers(w),
    "an id is forgotten": lambda w: isinstance(w.step, End) and bool(set(_states(w.before)) - set(_states(w.after))),
    "an ownership ends with requests": lambda w: isinstance(w.step, HandOver) and len(w.effects) > 1,
    "a request comes while loading": lambda w: w.before.phase == "Loading" and isinstance(w.step, AskTransaction),
    "there are too many ids": lambda w: _asked(w, model.InitProducerId, model.UNAVAILABLE),
}  # fmt: skip
