"""The rules of a wheel: what Hypothesis does to one, and to its model, and what must agree."""

from __future__ import annotations

from typing import Any, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import rota
from rota.purgatory_model import WheelModel

from .instants import at, jumps_ms, leads_ms, starts_ms


class AnyWheel(Protocol):
    """What the machine drives: `rota.coordinator.Wheel`, or one with a planted bug."""

    def arm(self, deadline_ms: int, payload: Any) -> int: ...
    def rearm(self, timer_id: int, deadline_ms: int) -> bool: ...
    def cancel(self, timer_id: int) -> Any | None: ...
    def deadline(self, timer_id: int) -> int | None: ...
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]: ...
    def next_deadline(self) -> int | None: ...
    def __len__(self) -> int: ...


class WheelMachine(RuleBasedStateMachine):
    """A wheel beside its model; payloads are the model's ids, so that either can name what fired."""

    def __init__(self) -> None:
        super().__init__()
        self.begin(0)

    def new_wheel(self, now_ms: int) -> AnyWheel:
        """The wheel under test."""
        return rota.coordinator.Wheel(now_ms)

    @initialize(now_ms=starts_ms)
    def begin(self, now_ms: int) -> None:
        self.wheel = self.new_wheel(now_ms)
        self.model = WheelModel(now_ms)
        self.ids: dict[int, int] = {}  # the model's id of all ever armed -> the wheel's

    def one_of(self, data: st.DataObject, ids: list[int]) -> int:
        return data.draw(st.sampled_from(ids), label="entry")

    def armed(self) -> list[int]:
        return [entry.id for entry in self.model.entries]

    def dead(self) -> list[int]:
        return [id_ for id_ in self.ids if self.model.find(id_) is None]

    @rule(lead_ms=leads_ms)
    def arm(self, lead_ms: int) -> None:
        deadline_ms = at(self.model.now_ms, lead_ms)
        name = self.model.arm(deadline_ms, None)
        self.ids[name] = self.wheel.arm(deadline_ms, name)

    @precondition(lambda self: self.armed())
    @rule(data=st.data(), lead_ms=leads_ms)
    def rearm(self, data: st.DataObject, lead_ms: int) -> None:
        name = self.one_of(data, self.armed())
        deadline_ms = at(self.model.now_ms, lead_ms)
        assert self.model.rearm(name, deadline_ms)
        assert self.wheel.rearm(self.ids[name], deadline_ms), "an armed entry was not re-armed"

    @precondition(lambda self: self.armed())
    @rule(data=st.data(), by_ms=st.integers(-3_000, 3_000))
    def nudge(self, data: st.DataObject, by_ms: int) -> None:
        name = self.one_of(data, self.armed())
        deadline_ms = at(self.model.deadline(name) or 0, by_ms)
        assert self.model.rearm(name, deadline_ms)
        assert self.wheel.rearm(self.ids[name], deadline_ms), "an armed entry was not re-armed"

    @precondition(lambda self: self.armed())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = self.one_of(data, self.armed())
        self.model.cancel(name)
        assert self.wheel.cancel(self.ids[name]) == name, "an armed entry was not cancelled"

    @precondition(lambda self: self.dead())
    @rule(data=st.data())
    def touch_the_dead(self, data: st.DataObject) -> None:
        id_ = self.ids[self.one_of(data, self.dead())]
        assert not self.wheel.rearm(id_, self.model.now_ms), "a dead entry was re-armed"
        assert self.wheel.cancel(id_) is None, "a dead entry was cancelled"
        assert self.wheel.deadline(id_) is None, "a dead entry has a deadline"

    @rule(lead_ms=st.one_of(jumps_ms, st.integers(-100, 0)))
    def advance(self, lead_ms: int) -> None:
        self.advance_to(at(self.model.now_ms, lead_ms))

    @precondition(lambda self: self.armed())
    @rule()
    def follow_next_deadline(self) -> None:
        """With `next_deadline` alone the wheel gets to its first deadline, and stops at no later time."""
        first_ms = self.model.next_deadline()
        assert first_ms is not None
        started_ms = self.model.now_ms
        stops = 12 * len(self.model.entries)
        while self.model.next_deadline() == first_ms:
            assert stops > 0, "next_deadline makes no progress"
            stops -= 1
            next_ms = self.wheel.next_deadline()
            assert next_ms is not None
            assert next_ms <= first_ms, "next_deadline is late"
            self.advance_to(next_ms)
        assert self.model.now_ms == max(first_ms, started_ms), "fired elsewhere than at its deadline"

    def advance_to(self, now_ms: int) -> None:
        fired = self.wheel.advance(now_ms)
        expected = [(self.ids[name], deadline_ms, name) for name, deadline_ms, _ in self.model.advance(now_ms)]
        assert all(deadline_ms <= self.model.now_ms for _, deadline_ms, _ in fired), "fired early"
        late = {name for _, _, name in expected} - {name for _, _, name in fired}
        assert not late, f"{sorted(late)} did not fire within their millisecond"
        assert fired == expected, "fired in another order than by deadline, then arming"

    @invariant()
    def the_deadlines_agree(self) -> None:
        assert len(self.wheel) == len(self.model)
        for entry in self.model.entries:
            assert self.wheel.deadline(self.ids[entry.id]) == entry.deadline_ms, (
                "another deadline than the last arming's"
            )

    @invariant()
    def next_deadline_is_never_late(self) -> None:
        next_ms, first_ms = self.wheel.next_deadline(), self.model.next_deadline()
        if first_ms is None:
            assert next_ms is None, "next_deadline of an empty wheel"
        else:
            assert next_ms is not None, "next_deadline is missing"
            assert next_ms <= first_ms, "next_deadline is late"
