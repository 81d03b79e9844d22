"""Drives `rota.Coordinator` and `rota.model` through the same steps and compares everything after each event.

It knows nothing of the protocol: it resolves ids, keeps what the log would keep, and compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import rota
from rota import model
from tests.differential import shapes
from tests.differential.invariants import check_state, check_step
from tests.differential.steps import Ask, Crash, DeleteTopics, End, HandOver, Loaded, Pass, Step, resolved

ENTROPY_STEP = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835
UUID_LENGTH = 36


class Difference(AssertionError):
    """The core and the model disagree, or one of them with an invariant."""


class Lockstep:
    """Both coordinators, the log, and who waits for an answer."""

    def __init__(self, config: Mapping[str, int]) -> None:
        self.config = dict(config)
        self.settings = model.Config(**{name.replace(".", "_"): value for name, value in config.items()})
        self.now_ms = 0
        self.epoch = 0
        self.events = 0
        self.minted: dict[int, str] = {}
        self.known: set[str] = set()
        self.waiting: dict[int, str] = {}
        self.log: dict[tuple[int, int], tuple[model.Record, ...]] = {}
        self.in_flight: list[model.Append] = []
        self._start()
        self.play(Loaded())

    def play(self, step: Step) -> None:
        """One step. Raises `Difference`."""
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
            case DeleteTopics():
                self._both(self.core.topics_deleted(step.topics, self.now_ms), model.TopicsDeleted(step.topics))

    def _start(self) -> None:
        self.epoch += 1
        settings = {"offsets.retention.check.interval.ms": 2_147_483_647} | self.config
        self.core = rota.Coordinator(settings, epoch=self.epoch)
        self.state = model.State(self.settings)

    def _ask(self, step: Ask) -> None:
        request = resolved(step.request, self.minted)
        entropy = (step.ticket + 1) * ENTROPY_STEP % (1 << 128)
        self.waiting[step.ticket] = step.actor
        effects = self.core.submit(self.now_ms, step.ticket, shapes.request(request), entropy=entropy)
        uuid = "no id was minted"
        if isinstance(request, model.JoinGroup) and not request.member_id:
            uuid = self._learn_id(step.ticket, request.group_id or "", effects) or uuid
        self._both(effects, model.Submit(step.ticket, request, uuid))

    def _learn_id(self, ticket: int, group_id: str, effects: Iterable[rota.Effect]) -> str | None:
        """An id is the coordinator's choice: take the core's, which must be new, and let the model use its random part."""
        told = [effect.member_id for effect in effects if isinstance(effect, rota.JoinAnswer)]
        projection = self.core.project(group_id)
        if projection is not None:
            told += [member.member_id for member in projection.members]
            told += [member_id for member_id, _ in projection.pending]
        fresh = {member_id for member_id in told if member_id and member_id not in self.known}
        if len(fresh) > 1:
            raise Difference(f"one JoinGroup, and several new ids: {fresh}")
        for member_id in fresh:
            self.known.add(member_id)
            self.minted[ticket] = member_id
            return member_id[-UUID_LENGTH:]
        return None

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
            self.log[self.epoch, append.append_id] = append.records
        result = 0 if step.error is None else rota.ErrorCode[step.error]
        effects = self.core.appended(append.append_id, result, self.now_ms)
        self._both(effects, model.Appended(append.append_id, step.error))

    def _reload(self, kept: int) -> None:
        for append in self.in_flight[:kept]:
            self.log[self.epoch, append.append_id] = append.records
        self.in_flight.clear()
        self.waiting.clear()
        self._start()
        records = [record for _, batch in sorted(self.log.items()) for record in batch]
        for offset, record in enumerate(records):
            self.core.replay(shapes.effect(record), offset, 0)
            self.state, _ = model.step(self.state, 0, model.Replay(record))

    def _both(self, core_effects: list[rota.Effect], event: model.Event) -> None:
        """The model does what the core did; then everything is compared."""
        self.events += 1
        before = self.state
        self.state, effects = model.step(before, self.now_ms, event)
        found = shapes.differences("effects", core_effects, [shapes.effect(effect) for effect in effects])
        for effect in effects:
            if isinstance(effect, model.Append):
                self.in_flight.append(effect)
            elif self.waiting.pop(effect.ticket, None) is None:
                found.append(f"S18: ticket {effect.ticket} is answered, but does not wait")
        found += self._compare_states() + check_step(before, event, self.state, effects) + check_state(self.state)
        try:
            self.core.check_invariants()
        except rota.InvariantViolation as violation:
            found.append(f"core: {violation}")
        if found:
            raise Difference("\n".join([f"at {self.now_ms} ms, {event}:", *found]))

    def _compare_states(self) -> list[str]:
        found = shapes.differences("group ids", self.core.group_ids(), sorted(self.state.groups))
        for group_id, group in self.state.groups.items():
            core = self.core.project(group_id)
            found += shapes.differences(f"group {group_id!r}", core, shapes.projection(self.state, group))
        bound, exact = self.core.next_deadline(), model.next_deadline(self.state)
        if exact is not None and (bound is None or bound > exact):
            found.append(f"next_deadline: core {bound}, which is after the model's {exact}")
        return found
