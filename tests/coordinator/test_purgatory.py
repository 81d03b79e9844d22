"""`rota.coordinator.Purgatory` does what a dict and a sorted list do, and this comparison can fail."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import rota
from rota.purgatory_model import PurgatoryModel

from .instants import at, jumps_ms, leads_ms, starts_ms

KEYS = ["group", "member-1", "member-2", ""]


class AnyPurgatory(Protocol):
    """What the machine drives: `rota.coordinator.Purgatory`, or one with a planted bug."""

    def watch(self, operation: Any, deadline_ms: int, keys: list[str]) -> int: ...
    def check(self, key: str) -> list[tuple[int, Any]]: ...
    def watched(self, key: str) -> int: ...
    def complete(self, operation_id: int) -> Any | None: ...
    def rearm(self, operation_id: int, deadline_ms: int) -> bool: ...
    def deadline(self, operation_id: int) -> int | None: ...
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]: ...
    def next_deadline(self) -> int | None: ...
    def __len__(self) -> int: ...


class PurgatoryMachine(RuleBasedStateMachine):
    """A purgatory beside its model; operations are the model's ids, so that either can name what expired."""

    def __init__(self) -> None:
        super().__init__()
        self.begin(0)

    def new_purgatory(self, now_ms: int) -> AnyPurgatory:
        """The purgatory under test."""
        return rota.coordinator.Purgatory(now_ms)

    @initialize(now_ms=starts_ms)
    def begin(self, now_ms: int) -> None:
        self.purgatory = self.new_purgatory(now_ms)
        self.model = PurgatoryModel(now_ms)
        self.ids: dict[int, int] = {}  # the model's id of all ever watched -> the purgatory's

    def one_of(self, data: st.DataObject, names: list[int]) -> int:
        return data.draw(st.sampled_from(names), label="operation")

    @rule(lead_ms=leads_ms, keys=st.lists(st.sampled_from(KEYS), max_size=4))
    def watch(self, lead_ms: int, keys: list[str]) -> None:
        deadline_ms = at(self.model.now_ms, lead_ms)
        name = self.model.watch(None, deadline_ms, keys)
        self.ids[name] = self.purgatory.watch(name, deadline_ms, keys)

    @rule(key=st.sampled_from(KEYS))
    def complete_what_a_check_finds(self, key: str) -> None:
        for id_, name in self.purgatory.check(key)[::2]:
            self.model.complete(name)
            assert self.purgatory.complete(id_) == name, "the first to complete gets the operation"
            assert self.purgatory.complete(id_) is None, "the second gets nothing"

    @precondition(lambda self: len(self.model) > 0)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        name = self.one_of(data, list(self.model.waiting))
        self.model.complete(name)
        assert self.purgatory.complete(self.ids[name]) == name

    @precondition(lambda self: len(self.ids) > len(self.model))
    @rule(data=st.data())
    def touch_what_is_gone(self, data: st.DataObject) -> None:
        id_ = self.ids[self.one_of(data, [name for name in self.ids if name not in self.model.waiting])]
        assert self.purgatory.complete(id_) is None
        assert not self.purgatory.rearm(id_, self.model.now_ms)
        assert self.purgatory.deadline(id_) is None

    @precondition(lambda self: len(self.model) > 0)
    @rule(data=st.data(), lead_ms=leads_ms)
    def rearm(self, data: st.DataObject, lead_ms: int) -> None:
        name = self.one_of(data, list(self.model.waiting))
        deadline_ms = at(self.model.now_ms, lead_ms)
        assert self.model.rearm(name, deadline_ms)
        assert self.purgatory.rearm(self.ids[name], deadline_ms)

    @rule(lead_ms=st.one_of(jumps_ms, st.integers(-100, 0)))
    def advance(self, lead_ms: int) -> None:
        self.advance_to(at(self.model.now_ms, lead_ms))

    @precondition(lambda self: len(self.model) > 0)
    @rule()
    def advance_to_next_deadline(self) -> None:
        next_ms = self.purgatory.next_deadline()
        assert next_ms is not None
        self.advance_to(next_ms)

    def advance_to(self, now_ms: int) -> None:
        expired = self.purgatory.advance(now_ms)
        expected = [(self.ids[name], deadline_ms, name) for name, deadline_ms, _ in self.model.advance(now_ms)]
        assert all(deadline_ms <= self.model.now_ms for _, deadline_ms, _ in expired), "expired early"
        late = {name for _, _, name in expected} - {name for _, _, name in expired}
        assert not late, f"{sorted(late)} did not expire within their millisecond"
        assert expired == expected, "expired in another order than by deadline, then arming"

    @invariant()
    def the_watches_agree(self) -> None:
        for key in KEYS:
            expected = [(self.ids[name], name) for name, _ in self.model.check(key)]
            assert self.purgatory.check(key) == expected, f"another answer to check({key!r})"
            assert self.purgatory.watched(key) == len(expected)

    @invariant()
    def the_deadlines_agree(self) -> None:
        assert len(self.purgatory) == len(self.model)
        for name in self.model.waiting:
            assert self.purgatory.deadline(self.ids[name]) == self.model.deadline(name)
        next_ms, first_ms = self.purgatory.next_deadline(), self.model.next_deadline()
        assert (next_ms is None) == (first_ms is None)
        assert (next_ms or 0) <= (first_ms or 0), "next_deadline is late"


def test_a_purgatory_agrees_with_its_model() -> None:
    run_state_machine_as_test(
        PurgatoryMachine, settings=settings(max_examples=120, stateful_step_count=60, deadline=None)
    )


class Planted:
    """A purgatory that is right; the classes below are wrong in one way each."""

    def __init__(self, now_ms: int) -> None:
        self.purgatory = rota.coordinator.Purgatory(now_ms)

    def watch(self, operation: Any, deadline_ms: int, keys: list[str]) -> int:
        return self.purgatory.watch(operation, deadline_ms, keys)

    def check(self, key: str) -> list[tuple[int, Any]]:
        return self.purgatory.check(key)

    def watched(self, key: str) -> int:
        return self.purgatory.watched(key)

    def complete(self, operation_id: int) -> Any | None:
        return self.purgatory.complete(operation_id)

    def rearm(self, operation_id: int, deadline_ms: int) -> bool:
        return self.purgatory.rearm(operation_id, deadline_ms)

    def deadline(self, operation_id: int) -> int | None:
        return self.purgatory.deadline(operation_id)

    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        return self.purgatory.advance(now_ms)

    def next_deadline(self) -> int | None:
        return self.purgatory.next_deadline()

    def __len__(self) -> int:
        return len(self.purgatory)


class WatchesOneKey(Planted):
    def watch(self, operation: Any, deadline_ms: int, keys: list[str]) -> int:
        return self.purgatory.watch(operation, deadline_ms, keys[:1])


class ChecksInOrderOfDeadlines(Planted):
    def check(self, key: str) -> list[tuple[int, Any]]:
        return sorted(self.purgatory.check(key), key=lambda found: self.purgatory.deadline(found[0]) or 0)


class WatchesOutliveTheirOperation(Planted):
    """What expired is still counted under its keys."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self.ever: dict[str, int] = {}

    def watch(self, operation: Any, deadline_ms: int, keys: list[str]) -> int:
        for key in set(keys):
            self.ever[key] = self.ever.get(key, 0) + 1
        return self.purgatory.watch(operation, deadline_ms, keys)

    def watched(self, key: str) -> int:
        return self.ever.get(key, 0)


class ExpiresLate(Planted):
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        return self.purgatory.advance(max(now_ms - 1, 0))


@pytest.mark.parametrize(
    "planted", [WatchesOneKey, ChecksInOrderOfDeadlines, WatchesOutliveTheirOperation, ExpiresLate]
)
def test_the_comparison_catches_a_planted_bug(planted: type[Planted]) -> None:
    class PlantedMachine(PurgatoryMachine):
        def new_purgatory(self, now_ms: int) -> AnyPurgatory:
            return planted(now_ms)

    once = settings(
        max_examples=2_000,
        stateful_step_count=60,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(PlantedMachine, settings=once)


def test_only_the_first_to_complete_gets_the_operation() -> None:
    purgatory = rota.coordinator.Purgatory()
    join = purgatory.watch("join", 60_000, ["group", "member-1"])
    assert purgatory.check("group") == purgatory.check("member-1") == [(join, "join")]
    assert purgatory.complete(join) == "join"
    assert purgatory.complete(join) is None
    assert (purgatory.watched("group"), purgatory.watched("member-1"), len(purgatory)) == (0, 0, 0)
    assert purgatory.advance(60_000) == []


def test_an_expired_operation_takes_its_watches_along() -> None:
    purgatory = rota.coordinator.Purgatory(1_000)
    sync = purgatory.watch("sync", 1_005, ["group"])
    assert (purgatory.next_deadline(), purgatory.advance(1_004)) == (1_005, [])
    assert purgatory.advance(1_005) == [(sync, 1_005, "sync")]
    assert (purgatory.check("group"), purgatory.next_deadline(), purgatory.now_ms) == ([], None, 1_005)


@pytest.mark.parametrize("instant_ms", [-1, 2**64])
def test_an_instant_out_of_range_is_a_value_error_that_names_it(instant_ms: int) -> None:
    purgatory = rota.coordinator.Purgatory()
    id_ = purgatory.watch("join", 5, ["group"])
    with pytest.raises(ValueError, match=rf"`deadline_ms` must be from 0 to 2\*\*64 - 1 ms, not {instant_ms}"):
        purgatory.watch("join", instant_ms, ["group"])
    with pytest.raises(ValueError, match=rf"`deadline_ms` .* not {instant_ms}"):
        purgatory.rearm(id_, instant_ms)
    with pytest.raises(ValueError, match=rf"`now_ms` .* not {instant_ms}"):
        purgatory.advance(instant_ms)
    with pytest.raises(ValueError, match=rf"`now_ms` .* not {instant_ms}"):
        rota.coordinator.Purgatory(instant_ms)
    assert purgatory.check("group") == [(id_, "join")], "a refused call changes nothing"


@pytest.mark.parametrize("keys", ["group", [1], None])
def test_keys_that_are_no_sequence_of_strings_are_a_type_error(keys: Any) -> None:
    with pytest.raises(TypeError):
        rota.coordinator.Purgatory().watch("join", 5, keys)
