"""Drives the `Coordinator` and `rota.model` through the same steps and compares everything after each event.

It knows nothing of the protocol: it resolves ids, keeps what the log would keep, and compares.
"""

from __future__ import annotations

import base64
import uuid
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import rota
from rota import model
from rota.check.differential import shapes
from rota.check.differential.cells import Reached
from rota.check.differential.consumer_plans import uniform_plan
from rota.check.differential.invariants import check_state, check_step
from rota.check.differential.steps import (
    Ask,
    ChangeTopics,
    Crash,
    DeleteTopics,
    End,
    HandOver,
    Loaded,
    LoadFails,
    Pass,
    Settings,
    Step,
    resolved,
)
from rota.model.consumer.data import Metadata
from rota.model.consumer.queue import is_writing
from rota.model.consumer.records import GroupEpoch

ENTROPY_STEP = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835
UUID_LENGTH = 36
# The last digits of a classic member id name a place in memory.
SLOT_DIGITS = 8
# Every so many heartbeats come in an array.
IN_ARRAYS_EVERY = 3
# The handle of an id that is not a member.
NOBODY = 2**64 - 1


class Difference(AssertionError):  # noqa: N818 - it is what is looked for
    """The core and the model disagree, or one of them with an invariant."""


def panicked(error: BaseException) -> bool:
    """Whether the core's code panicked; the class of that has no module to import it from."""
    return type(error).__name__ == "PanicException"


def entropy_of(ticket: int) -> int:
    """The random bits that the core gets with a request."""
    return (ticket + 1) * ENTROPY_STEP % (1 << 128)


def random_id(ticket: int) -> str:
    """The id of the newer protocol that the core makes of them."""
    return base64.urlsafe_b64encode(entropy_of(ticket).to_bytes(16)).decode().rstrip("=")


def classic_id(ticket: int, prefix: str) -> str:
    """The id of the classic protocol that the core makes of them, without the digits of its slot."""
    return f"{prefix}-{uuid.UUID(int=entropy_of(ticket), version=4)}"[:-SLOT_DIGITS]


class Stepping(ABC):
    """Plays steps on the core and on the model."""

    def play(self, step: Step) -> None:
        """One step. Raises `Difference`, also where the core panics."""
        try:
            self._play(step)
        except BaseException as error:
            if not panicked(error):
                raise
            raise Difference(f"the core panicked: {error}") from None

    @abstractmethod
    def _play(self, step: Step) -> None: ...


class Lockstep(Stepping):
    """Both coordinators, the log, and who waits for an answer."""

    def __init__(self, config: Mapping[str, int | str], reached: Reached | None = None) -> None:
        self.reached = reached
        self.config = dict(config)
        named = {name.replace(".", "_"): value for name, value in config.items()}
        known = {name: value for name, value in named.items() if name in model.Config.__dataclass_fields__}
        self.settings = model.Config(**known)  # type: ignore[arg-type]
        self.topics: dict[str, model.Topic] = {}
        self.names: dict[int, str] = {}
        self.own: dict[str, tuple[tuple[str, int], ...]] = {}
        self.metadata: dict[Metadata, int] = {frozenset(): 0}
        self.now_ms = 0
        self.epoch = 0
        self.events = 0
        self.minted: dict[int, str] = {}
        self.minting: dict[int, model.JoinGroup] = {}
        self.waiting: dict[int, str] = {}
        self.log: dict[tuple[int, int], tuple[model.Record, ...]] = {}
        self.cores_log: dict[tuple[int, int], Sequence[rota.protocol.Record]] = {}
        self.in_flight: list[model.Append] = []
        self.handed_over: dict[int, Sequence[rota.protocol.Record]] = {}
        self._start()
        self.play(Loaded())

    def _play(self, step: Step) -> None:
        match step:
            case Ask():
                self._ask(step)
            case Pass():
                self._pass(step)
            case End():
                self._end(step)
            case Crash():
                self._reload(step.kept)
            case HandOver():
                if self.state.phase != "Loading":
                    self._both(self.core.unload(self.now_ms), model.Unload())
                    if self.waiting:
                        raise Difference(f"S18: unloading left {self.waiting} without an answer")
                self._reload(step.kept)
            case Loaded():
                if self.state.phase == "Loading":
                    self._both(self.core.loaded(self.now_ms), model.Loaded())
            case LoadFails():
                if self.state.phase == "Loading":
                    self.core.load_failed()
                    self._both([], model.LoadFailed())
            case DeleteTopics():
                self._both(self.core.topics_deleted(step.topics, self.now_ms), model.TopicsDeleted(step.topics))
            case ChangeTopics():
                self._change_topics(step)
            case Settings():
                self.own[step.group_id] = step.settings
                self._configure(step.group_id)

    def _start(self) -> None:
        self.epoch += 1
        self.core = rota.coordinator.Coordinator(self.config, epoch=self.epoch)
        self.state = model.State(self.settings, one_append=True, uniform_plan=uniform_plan)
        if self.topics:
            self._tell_topics(self.topics.values())
        for group_id in self.own:
            self._configure(group_id)

    def _configure(self, group_id: str) -> None:
        self.core.configure_group(group_id, dict(self.own[group_id]))
        self.state, _ = model.step(self.state, self.state.now_ms, model.GroupSettings(group_id, self.own[group_id]))

    def _change_topics(self, step: ChangeTopics) -> None:
        gone = tuple(name for name in self.topics if name not in dict(step.topics))
        before, self.topics = self.topics, {}
        for name, count in step.topics:
            topic_id = before[name].topic_id if name in before else len(self.names) + 1
            self.names[topic_id] = name
            self.topics[name] = model.Topic(name, topic_id, count)
        if gone:
            deleted = self.core.topics_deleted(gone, self.now_ms)
            self.state, _ = model.step(self.state, self.now_ms, model.TopicsChanged(tuple(self.topics.values())))
            self._both(deleted, model.TopicsDeleted(gone))
        self._tell_topics([topic for name, topic in self.topics.items() if before.get(name) != topic])

    def _tell_topics(self, news: Iterable[model.Topic]) -> None:
        """These topics are new or grew."""
        told = [(topic.name, topic.topic_id, topic.partitions) for topic in news]
        effects = self.core.topics_changed(told, self.now_ms if self.state.phase == "Active" else self.core.now_ms)
        if effects:
            raise Difference(f"topics_changed has effects: {effects}")
        topics = tuple(self.topics.values())
        self.state, _ = model.step(self.state, self.state.now_ms, model.TopicsChanged(topics))

    def _ask(self, step: Ask) -> None:
        request = resolved(step.request, self.minted)
        entropy = entropy_of(step.ticket)
        self.waiting[step.ticket] = step.actor
        effects = self._beaten_in_an_array(step.ticket, request)
        if effects is None:
            effects = self.core.submit(self.now_ms, step.ticket, shapes.request(request), entropy=entropy)
        if isinstance(request, model.JoinGroup) and not request.member_id:
            self.minting[step.ticket] = request
        if isinstance(request, model.ConsumerGroupHeartbeat) and not request.member_id:
            self.minted[step.ticket] = random_id(step.ticket)
        self._both(effects, model.Submit(step.ticket, request, ""))

    def _beaten_in_an_array(self, ticket: int, request: model.Request) -> list[rota.coordinator.Effect] | None:
        """The answer to a heartbeat that came by the member's handle; None: it cannot, or is to be submitted."""
        if not isinstance(request, model.Heartbeat) or request.instance_id is not None or ticket % IN_ARRAYS_EVERY:
            return None
        handles = self.core.member_handles(request.group_id or "", [request.member_id])
        if int(handles[0]) == NOBODY:
            return None
        codes = self.core.heartbeats(self.now_ms, handles, array("i", [request.generation]))
        return [rota.protocol.HeartbeatAnswer(ticket, rota.protocol.ErrorCode(int(codes[0])))]

    def _learn_ids(self, core_effects: Iterable[rota.coordinator.Effect]) -> None:
        """Ids are the coordinator's choice: take the core's, which are made of the bits that came with the request. The
        model uses their random part.

        A JoinGroup may be handled later than it came (docs/protocol.md §12.3), so this is done at every event.
        """
        told = [effect.member_id for effect in core_effects if isinstance(effect, rota.protocol.JoinAnswer)]
        records = [record for each in core_effects for record in getattr(each, "records", ())]
        written = [record.key for record in records if isinstance(record, rota.protocol.UnknownRecord)]
        values = [record.value for record in records if isinstance(record, rota.protocol.GroupRecord)]
        stored = [member.member_id for value in values if value is not None for member in value.members]
        for ticket, request in list(self.minting.items()):
            whole = random_id(ticket)
            prefix = request.client_id if request.instance_id is None else request.instance_id
            candidates = [*told, *stored, *self._ids_in_core(request.group_id or "")]
            mine = [each for each in candidates if each[:-SLOT_DIGITS] == classic_id(ticket, prefix)]
            mine += [whole] if whole in told or any(whole.encode() in key for key in written) else []
            if mine:
                self.minted[ticket] = mine[0]
                del self.minting[ticket]

    def _ids_in_core(self, group_id: str) -> list[str]:
        projection = self.core.project(group_id)
        if projection is None:
            return []
        return [*(each.member_id for each in projection.members), *(each for each, _ in projection.pending)]

    def _uuid(self, ticket: int) -> str:
        """Of an id of the newer protocol all is random."""
        return self.minted.get(ticket, f"not minted {ticket}")[-UUID_LENGTH:]

    def _pass(self, step: Pass) -> None:
        target_ms = self.now_ms + step.span_ms
        while step.stops and (at_ms := model.next_deadline(self.state)) is not None and at_ms <= target_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self._both(self.core.advance(self.now_ms), model.Advance())
            if at_ms == self.now_ms == target_ms:
                break
        self.now_ms = target_ms
        self._both(self.core.advance(self.now_ms), model.Advance())

    def _end(self, step: End) -> None:
        if not self.in_flight or self.state.phase != "Active":
            return
        append = self.in_flight.pop(step.index % len(self.in_flight))
        if step.error is None:
            self._store(append)
        result = 0 if step.error is None else rota.protocol.ErrorCode[step.error]
        effects = self.core.appended(append.append_id, result, self.now_ms)
        self._both(effects, model.Appended(append.append_id, step.error))

    def _store(self, append: model.Append) -> None:
        self.log[self.epoch, append.append_id] = append.records
        self.cores_log[self.epoch, append.append_id] = self.handed_over[append.append_id]

    def _reload(self, kept: int) -> None:
        for append in self.in_flight[:kept]:
            self._store(append)
        self.in_flight.clear()
        self.handed_over.clear()
        self.waiting.clear()
        self.minting.clear()
        self._start()
        for offset, record in enumerate(record for _, batch in sorted(self.cores_log.items()) for record in batch):
            self.core.replay(record, offset, 0)
        for modelled in (record for _, batch in sorted(self.log.items()) for record in batch):
            self.state, _ = model.step(self.state, 0, model.Replay(modelled))

    def _both(self, core_effects: list[rota.coordinator.Effect], event: model.Event) -> None:
        """The model does what the core did; then everything is compared."""
        self.events += 1
        if self.minting:
            self._learn_ids(core_effects)
        if isinstance(event, model.Submit):
            event = replace(event, uuid=self._uuid(event.ticket))
        before = self._with_uuids()
        self.state, effects = model.step(before, self.now_ms, event)
        if self.reached is not None:
            self.reached.note(before, event, self.state, effects)
        for each in core_effects:
            if isinstance(each, rota.coordinator.Append):
                self.handed_over[each.append_id] = each.records
        found = self._compare_effects(core_effects, effects)
        for effect in effects:
            if isinstance(effect, model.Append):
                self.in_flight.append(effect)
                continue
            self.minting.pop(effect.ticket, None)
            if self.waiting.pop(effect.ticket, None) is None:
                found.append(f"S18: ticket {effect.ticket} is answered, but does not wait")
        found += self._compare_states() + check_step(before, event, self.state, effects) + check_state(self.state)
        found += self._compare_log()
        try:
            self.core.check_invariants()
        except rota.InvariantViolation as violation:
            found.append(f"core: {violation}")
        if found:
            raise Difference("\n".join([f"at {self.now_ms} ms, {event}:", *found]))

    def _compare_effects(
        self, core_effects: Sequence[rota.coordinator.Effect], effects: Sequence[model.Effect]
    ) -> list[str]:
        ours = [shapes.seen(effect) for effect in core_effects]
        theirs = [shapes.effect(effect, self.names) for effect in effects]
        for one, other in zip(ours, theirs, strict=False):
            if isinstance(one, shapes.Batch) and isinstance(other, shapes.Batch):
                for record, modelled in zip(one.records, other.records, strict=False):
                    self._learn_hash(record, modelled)
        return shapes.differences("effects", ours, [self._with_hashes(each) for each in theirs])

    def _learn_hash(self, record: Any, modelled: Any) -> None:
        """Other metadata has another hash, and the same always the same (docs/consumer-protocol.md §19.2)."""
        ours, theirs = getattr(record, "value", None), getattr(modelled, "value", None)
        if not isinstance(ours, GroupEpoch) or not isinstance(theirs, GroupEpoch):
            return
        found: Any = ours.metadata
        metadata = theirs.metadata
        if metadata not in self.metadata and found not in self.metadata.values():
            self.metadata[metadata] = found

    def _with_hashes(self, effect: Any) -> Any:
        """The model's metadata as the hash that stands for it; as it is, if that is unknown."""
        if not isinstance(effect, shapes.Batch):
            return effect
        records = []
        for record in effect.records:
            value = getattr(record, "value", None)
            if isinstance(value, GroupEpoch):
                stands: Any = self.metadata.get(value.metadata, value.metadata)
                value = replace(value, metadata=stands)
                record = replace(record, value=value)
            records.append(record)
        return replace(effect, records=tuple(records))

    def _compare_log(self) -> list[str]:
        """With nothing in flight, a reload would give a Stable group the members that it has, and its generation."""
        if self.in_flight or self.state.unwritten:
            return []
        newest = {
            record.group_id: record.value
            for _, batch in sorted(self.log.items())
            for record in batch
            if isinstance(record, model.GroupRecord)
        }
        found = []
        for group in self.state.groups.values():
            if group.state == "Stable":
                value = newest.get(group.group_id)
                there = value and (value.generation, [(each.member_id, each.assignment) for each in value.members])
                mine = (group.generation, [(each.member_id, each.assignment) for each in group.members])
                found += [] if there == mine else [f"S22: {group.group_id!r} is {mine}, and {there} in the log"]
        return found

    def _with_uuids(self) -> model.State:
        """The state with the random parts that the core chose for requests that waited until now."""
        waiters = tuple(
            replace(waiter, event=replace(waiter.event, uuid=self._uuid(waiter.event.ticket)))
            for waiter in self.state.waiters
        )
        queue = tuple(
            replace(each, what=replace(each.what, uuid=self._uuid(each.what.ticket)))
            if isinstance(each.what, model.Submit) and isinstance(each.what.request, model.JoinGroup)
            else each
            for each in self.state.queue
        )
        return replace(self.state, waiters=waiters, queue=queue) if waiters or queue else self.state

    def _compare_views(self) -> list[str]:
        """Consumer groups are described and listed; requests that would have to wait are not sent."""
        if not self.state.consumers or self.state.phase != "Active":
            return []
        asked: list[model.Request] = [
            model.ConsumerGroupDescribe(group_id)
            for group_id in self.state.consumers
            if not is_writing(self.state, group_id)
        ]
        found = []
        for request in [*asked, model.ListGroups()]:
            core = self.core.submit(self.now_ms, NOBODY, shapes.request(request), entropy=0)
            _, effects = model.step(self.state, self.now_ms, model.Submit(NOBODY, request, ""))
            modelled = [shapes.effect(effect, self.names) for effect in effects]
            found += shapes.differences(f"{type(request).__name__}", core, modelled)
        return found

    def _compare_states(self) -> list[str]:
        found = shapes.differences(
            "group ids", self.core.group_ids(), sorted({*self.state.groups, *self.state.consumers})
        )
        for group_id, group in self.state.groups.items():
            core = self.core.project(group_id)
            found += shapes.differences(f"group {group_id!r}", core, shapes.projection(self.state, group))
        found += self._compare_views()
        bound, exact = self.core.next_deadline(), model.next_deadline(self.state)
        if exact is not None and (bound is None or bound > exact):
            found.append(f"next_deadline: core {bound}, which is after the model's {exact}")
        return found
