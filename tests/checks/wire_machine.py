"""A running server and the model, event by event: frames through TCP, time on a clock that only the run moves.

Requests come from `generators`. Whatever the model says is answered must come, byte for byte, on the connection that
asked; nothing else may. Ids are the server's: the model has its own, and the two are paired as they become known.
"""

from __future__ import annotations

import select
import socket
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import rota
from rota import model
from rota.check.differential.generators import CONFIGS, MAKERS, Maker
from rota.check.differential.lockstep import Difference
from rota.check.differential.steps import Ask, End, Pass, Step, resolved, with_ids
from rota.model import State
from tests.checks import wire_frames
from tests.checks.machine import Drawn
from tests.journaled import check_journal

ANSWER_WITHIN_S = 10.0
TOPICS = {"t": 10, "u": 10, "v": 10}
UUID_LENGTH = 36
# The coordinator has it, but a server goes by the default.
NOT_OF_A_SERVER = {"group.max.pending.members"}
APPEND_ERRORS = ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT", "MESSAGE_TOO_LARGE")
# A server loads its own log, and topics are deleted by other requests.
LEFT_OUT = {Maker.catastrophe, Maker.end_well, Maker.end_badly}


class Line:
    """One connection with at most one request on it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, ANSWER_WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def send(self, what: wire_frames.Asked, client_id: str) -> None:
        self.correlation_id += 1
        self.socket.sendall(wire_frames.frame(what, self.correlation_id, client_id))

    def receive(self) -> bytes:
        """The next frame, without its length; TimeoutError if none comes."""
        (length,) = struct.unpack(">i", self._take(4))
        return self._take(length)

    def _take(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server closed a connection")
            data += more
        return bytes(data)


@dataclass
class Waiting:
    """A request that has not been answered."""

    line: Line
    asked: wire_frames.Asked


class Wire:
    """A server and the model after the same events. For `Maker` it is what `Lockstep` is."""

    def __init__(self, config: Mapping[str, int]) -> None:
        config = {name: value for name, value in config.items() if name not in NOT_OF_A_SERVER}
        self.clock = rota.VirtualClock()
        self.directory = tempfile.TemporaryDirectory(prefix="rota-journal-")
        journal = Path(self.directory.name)
        settings = {"offsets.topic.num.partitions": 1, **config}
        self.server = rota.Server(settings=settings, clock=self.clock, journal=journal)
        for name, partitions in TOPICS.items():
            self.server.create_topic(name, partitions)
        self.address = (self.server.host, self.server.port)
        modelled = {name.replace(".", "_"): value for name, value in config.items()}
        self.state: State = model.step(model.State(model.Config(**modelled)), 0, model.Loaded())[0]  # type: ignore[arg-type]
        self.now_ms = 0
        self.minted: dict[int, str] = {}
        self.in_flight: list[model.Append] = []
        self.real: dict[str, str] = {}
        self.waiting: dict[int, Waiting] = {}
        self.idle: list[Line] = []
        self.control = Line(self.address)
        self.holding = False
        self.failing: deque[str] = deque()
        self.answered = 0

    # ---- steps

    def play(self, step: Step) -> None:
        """One step to both. Raises Difference, with every complaint."""
        match step:
            case Ask():
                self._ask(step)
            case Pass():
                self._pass(step.span_ms)
            case End():
                self.release()
            case _:
                pass

    def hold(self) -> None:
        """From now on the log stores nothing, unless an append is to fail."""
        if not self.failing and not self.holding:
            self.server.hold_appends()
            self.holding = True

    def release(self) -> None:
        """The log stores what it held."""
        if self.holding:
            self.holding = False
            self.server.release_appends()
            held, self.in_flight = self.in_flight, []
            self._both([model.Appended(append.append_id) for append in held])

    def fail(self, error: str) -> None:
        """The next append fails."""
        if not self.holding and not self.failing:
            self.server.fail_appends(error, 1)
            self.failing.append(error)

    def _ask(self, step: Ask) -> None:
        request = wire_frames.carried(resolved(step.request, self.minted))
        line = self.idle.pop() if self.idle else Line(self.address)
        what = wire_frames.asked(with_ids(request, self._real), step.ticket)
        self.waiting[step.ticket] = Waiting(line, what)
        line.send(what, step.actor)
        uuid = f"{step.ticket:0{UUID_LENGTH}}"
        if isinstance(request, model.JoinGroup):
            request = replace(request, client_id=step.actor)
            if not request.member_id:
                prefix = step.actor if request.instance_id is None else request.instance_id
                self.minted[step.ticket] = f"{prefix}-{uuid}"
        self._both([model.Submit(step.ticket, request, uuid)])

    def _pass(self, span_ms: int) -> None:
        target_ms = self.now_ms + span_ms
        self._advance(span_ms)
        effects: list[model.Effect] = []
        while (at_ms := model.next_deadline(self.state)) is not None and at_ms <= target_ms:
            self.now_ms = at_ms
            effects += self._step_model([])
        self.now_ms = target_ms
        self._compare(effects)

    def _advance(self, span_ms: int) -> None:
        """A connection keeps no member: a silent member expires."""
        members = [member_id for group in self.server.groups() for member_id in self.server.members(group)]
        self.clock.advance(span_ms, expire=members)

    def _real(self, member_id: str) -> str:
        return self.real.get(member_id, member_id)

    # ---- both

    def _both(self, events: Iterable[model.Event]) -> None:
        self._compare(self._step_model(events))

    def _step_model(self, events: Iterable[model.Event]) -> list[model.Effect]:
        """The model after these, after the ends of appends that are not held, and after what is due at once."""
        todo, answers = deque(events), list[model.Effect]()
        while todo or self._is_due():
            if not todo:
                todo.append(model.Advance())
            self.state, effects = model.step(self.state, self.now_ms, todo.popleft())
            for effect in effects:
                if not isinstance(effect, model.Append):
                    answers.append(effect)
                elif self.holding:
                    self.in_flight.append(effect)
                else:
                    error = self.failing.popleft() if self.failing else None
                    todo.append(model.Appended(effect.append_id, error))
        return answers

    def _is_due(self) -> bool:
        at_ms = model.next_deadline(self.state)
        return at_ms is not None and at_ms <= self.now_ms

    def _compare(self, answers: list[model.Effect]) -> None:
        self._settle()
        found: list[str] = []
        for group_id, group in sorted(self.state.groups.items()):
            found += self._pair(group_id, [member.member_id for member in group.members])
        for answer in answers:
            assert not isinstance(answer, model.Append)
            found += self._receive(answer)
        late, _, _ = select.select([waiting.line.socket for waiting in self.waiting.values()], [], [], 0)
        for ticket, waiting in self.waiting.items():
            if waiting.line.socket in late:
                told = wire_frames.decoded(waiting.asked, waiting.line.receive())
                found.append(f"ticket {ticket} waits, but the server answers {told}")
        if found:
            raise Difference("\n".join([f"at {self.now_ms} ms:", *found]))

    def _settle(self) -> None:
        """Everything sent was handled: the first answer shows that it was noticed, the second that it was done. What is
        due at once fires by itself, but not at once.
        """
        nothing = wire_frames.asked(model.Heartbeat("nothing", "nobody", 0), 0)
        for _ in range(2):
            self.control.send(nothing, "control")
            self.control.receive()
        self._advance(0)

    def _pair(self, group_id: str, members: list[str]) -> list[str]:
        """Members stand in joining order in both."""
        real = list(self.server.members(group_id)) if group_id in self.server.groups() else []
        if len(real) != len(members):
            return [f"{group_id!r} has members {real}, in the model {members}"]
        return [line for pair in zip(members, real, strict=True) for line in self._bind(*pair)]

    def _bind(self, member_id: str, real: str) -> list[str]:
        """The model's id and the server's are the same member's; a new one must begin alike and be new."""
        if member_id in self.real or real in self.real.values() or not real or not member_id:
            return [] if self._real(member_id) == real else [f"{real} stands for {member_id} = {self._real(member_id)}"]
        if real[:-UUID_LENGTH] != member_id[:-UUID_LENGTH]:
            return [f"{real} is no id for {member_id}"]
        self.real[member_id] = real
        return []

    def _receive(self, answer: model.Answer) -> list[str]:
        waiting = self.waiting.pop(answer.ticket)
        try:
            payload = waiting.line.receive()
        except TimeoutError:
            return [f"no answer comes where the model says {answer}"]
        self.idle.append(waiting.line)
        self.answered += 1
        told = wire_frames.decoded(waiting.asked, payload)
        found = self._bind(answer.member_id, told.member_id) if isinstance(answer, model.JoinAnswer) else []
        expected = wire_frames.answer_payload(self._named(answer), waiting.asked, waiting.line.correlation_id)
        if payload != expected:
            found.append(f"server {told}\n model {wire_frames.decoded(waiting.asked, expected)}\n for {waiting.asked}")
        return found

    def _named(self, answer: Any) -> Any:
        """The answer with the server's ids."""
        told = [name for name in ("member_id", "leader") if hasattr(answer, name)]
        names: dict[str, Any] = {name: self._real(getattr(answer, name)) for name in told}
        if hasattr(answer, "members"):
            names["members"] = tuple(replace(each, member_id=self._real(each.member_id)) for each in answer.members)
        return replace(answer, **names)

    def finish(self) -> None:
        """No request waits forever, even if the log stores nothing any more."""
        self.release()
        self._pass(3_600_000)
        self._pass(3_600_000)
        if self.waiting:
            raise Difference(f"nothing ever answers {sorted(self.waiting)}")

    def close(self) -> None:
        """Stop the server, hang up, fold its journal."""
        self.server.stop()
        for line in [self.control, *self.idle, *(waiting.line for waiting in self.waiting.values())]:
            line.socket.close()
        check_journal(self.server, Path(self.directory.name))
        self.directory.cleanup()


class ServerAndModel(RuleBasedStateMachine):
    """One rule for each way of making a step, and three for the log."""

    @initialize(config=st.sampled_from(CONFIGS))
    def start(self, config: dict[str, int]) -> None:
        """A server of its own."""
        self.wire = self.wire_with(config)
        self.choices = Drawn()
        self.maker = Maker(self.wire, self.choices)

    def wire_with(self, config: dict[str, int]) -> Wire:
        """For a subclass that plants a bug."""
        return Wire(config)

    @rule()
    def the_log_holds(self) -> None:
        """Answers wait from now on."""
        self.wire.hold()

    @rule()
    def the_log_stores(self) -> None:
        """Answers come."""
        self.wire.release()

    @rule(error=st.sampled_from(APPEND_ERRORS))
    def the_log_fails(self, error: str) -> None:
        """Once."""
        self.wire.fail(error)

    def teardown(self) -> None:
        """Whatever was found, the server ends."""
        if hasattr(self, "wire"):
            self.wire.close()


def _rule_of(maker: Callable[[Maker], Step]) -> Callable[..., None]:
    def run(self: ServerAndModel, data: st.DataObject) -> None:
        self.choices.data = data
        self.wire.play(maker(self.maker))

    run.__name__ = maker.__name__
    run.__doc__ = maker.__doc__
    return rule(data=st.data())(run)


for _maker in MAKERS:
    if _maker not in LEFT_OUT:
        setattr(ServerAndModel, _maker.__name__, _rule_of(_maker))
