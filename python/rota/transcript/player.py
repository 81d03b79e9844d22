"""Plays the steps of a transcript to a subject, in virtual time (tests/protocol/README.md has the language)."""

from __future__ import annotations

from rota.transcript import render, requests
from rota.transcript.cast import Cast, StepError, duration_ms, duration_text
from rota.transcript.subject import Answer, Append, ConsumerSubject, Effect, Subject
from rota.transcript.text import Step

DEADLINES_AT_ONE_INSTANT_MAX = 100
#: Answers that tell an actor its id, generation or epoch.
LEARNED = ("JoinGroup", "ConsumerGroupHeartbeat")


class Player:
    """One run in progress."""

    def __init__(self, subject: Subject, loading: bool, at_once: bool = False) -> None:
        self.subject = subject
        self.at_once = at_once
        self.cast = Cast()
        self.now_ms = 0
        self.tickets: dict[int, tuple[str, str]] = {}
        self.answered: set[int] = set()
        self.next_ticket = 0
        self.in_flight: list[int] = []
        if not loading and self._show(subject.loaded(0)):
            raise StepError("loading an empty log has an effect")

    def play(self, step: Step) -> list[str]:
        """The effects of one step, rendered."""
        word, *rest = step.text.split()
        if word.startswith("+"):
            lines = self._pass_time(duration_ms(word[1:]))
        elif word == "member":
            requests.declare_member(self.cast, " ".join(rest))
            lines = []
        elif word in ("stored", "refused"):
            lines = self._end_append(word, rest)
        elif word == "explain" and "explain" not in self.subject.shows:
            lines = step.effects
        elif word == "explain":
            lines = render.explanation(self.cast, self.subject.explain(rest[0] if rest else "g"), self.now_ms)
        elif word == "replay":
            self.subject.replay(requests.build_record(self.cast, rest, self.now_ms))
            return []
        elif word == "loaded":
            lines = self._show(self.subject.loaded(self.now_ms))
        elif word == "forget":
            lines = self._show(self.subject.topics_deleted(rest, self.now_ms))
        elif word in ("topics", "settings", "resolve"):
            lines = self._around(word, rest)
        elif word == "unload":
            lines = self._show(self.subject.unload(self.now_ms))
            self.in_flight.clear()
        elif rest:
            lines = self._request(word, rest)
        else:
            raise StepError(f"`{word}` is no step")
        self.subject.check_invariants()
        return lines

    def _around(self, word: str, rest: list[str]) -> list[str]:
        """What happens to a consumer group from outside: `topics foo:6 bar:3`, `settings NAME=MS`, `resolve`."""
        if not isinstance(self.subject, ConsumerSubject):
            raise StepError(f"`{word}` needs a subject with consumer groups")
        if word == "resolve":
            return self._show(self.subject.resolve_patterns("g", self.now_ms))
        if word == "topics":
            topics = [(name, int(count)) for name, _, count in (pair.partition(":") for pair in rest)]
            return self._show(self.subject.topics_changed(topics, self.now_ms))
        settings = {name: int(value) for name, _, value in (pair.partition("=") for pair in rest)}
        self.subject.group_settings("g", settings, self.now_ms)
        return []

    def _request(self, connection: str, rest: list[str]) -> list[str]:
        if any(waiting == connection for waiting, _ in self.tickets.values()):
            raise StepError(f"connection {connection} still waits for an answer: use {connection}' for another one")
        request = requests.build(self.cast, connection, rest[0], rest[1:])
        self.next_ticket += 1
        self.tickets[self.next_ticket] = (connection, request.api)
        # SplitMix-like spreading: distinct, deterministic, no bit constant
        entropy = (self.next_ticket * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) % (1 << 128)
        return self._show(self.subject.submit(self.now_ms, self.next_ticket, request, entropy))

    def _end_append(self, word: str, rest: list[str]) -> list[str]:
        if not self.in_flight:
            raise StepError(f"`{word}`, but no append is in flight")
        newest = bool(rest) and rest[-1] == "newest"
        append_id = self.in_flight.pop(-1 if newest else 0)
        error = None
        if word == "refused":
            error = rest[0] if rest and rest[0] != "newest" else "NOT_LEADER_OR_FOLLOWER"
        return self._show(self.subject.appended(append_id, error, self.now_ms))

    def _pass_time(self, span_ms: int) -> list[str]:
        """Stop at every deadline on the way, as a driver with a timer would."""
        start_ms, target_ms = self.now_ms, self.now_ms + span_ms
        lines: list[str] = []
        stops = 0
        while (deadline_ms := self.subject.next_deadline()) is not None and deadline_ms <= target_ms:
            stops = stops + 1 if deadline_ms <= self.now_ms else 0
            if stops > DEADLINES_AT_ONE_INSTANT_MAX:
                raise StepError(f"next_deadline stays at {deadline_ms} ms although advance was called")
            self.now_ms = max(self.now_ms, deadline_ms)
            lines += self._advance(start_ms, target_ms)
        self.now_ms = target_ms
        return lines + self._advance(start_ms, target_ms)

    def _advance(self, start_ms: int, target_ms: int) -> list[str]:
        early = f"@{duration_text(self.now_ms - start_ms)} " if self.now_ms < target_ms else ""
        lines = [early + line for line in self._show(self.subject.advance(self.now_ms))]
        self.subject.check_invariants()
        return lines

    def _show(self, effects: list[Effect]) -> list[str]:
        """Bind the ids that the answers hand out, then render: a list may name a member before its own answer."""
        for effect in effects:
            if isinstance(effect, Answer) and effect.api in LEARNED and effect.ticket in self.tickets:
                self._learn(self.tickets[effect.ticket][0], effect)
        lines = []
        for effect in effects:
            lines.append(self._line(effect))
            if self.at_once and isinstance(effect, Append):
                lines += self._show(self.subject.appended(self.in_flight.pop(), None, self.now_ms))
        return lines

    def _learn(self, connection: str, effect: Answer) -> None:
        actor, fields = self.cast.actor(connection), effect.fields
        if effect.api == "ConsumerGroupHeartbeat":
            if fields["error"] == "NONE":
                actor.generation = fields["member_epoch"]
            return
        if fields["error"] in ("NONE", "MEMBER_ID_REQUIRED"):
            self.cast.bind(actor, fields["member_id"])
        if fields["error"] == "NONE":
            actor.generation = fields["generation"]
            actor.told = (fields["protocol_type"], fields["protocol_name"])

    def _line(self, effect: Effect) -> str:
        if isinstance(effect, Append):
            self.in_flight.append(effect.append_id)
            return render.append(self.cast, effect)
        if effect.ticket not in self.tickets:
            what = "a second time" if effect.ticket in self.answered else "without a request"
            raise StepError(f"ticket {effect.ticket} is answered {what} (S18): {effect}")
        connection, api = self.tickets.pop(effect.ticket)
        self.answered.add(effect.ticket)
        if api != effect.api:
            raise StepError(f"{connection} sent {api} and is answered with {effect.api}")
        return f"{connection}< {render.answer(self.cast, effect)}"

    def finish(self) -> None:
        """Unload: every waiting request is answered NOT_COORDINATOR, and none is left (S18)."""
        if "unload" not in self.subject.shows:
            return
        for line in self._show(self.subject.unload(self.now_ms)):
            if "NOT_COORDINATOR" not in line:
                raise StepError(f"unloading at the end gave `{line}` (expected NOT_COORDINATOR)")
        if self.tickets:
            waiting = ", ".join(f"{connection} ({api})" for connection, api in self.tickets.values())
            raise StepError(f"never answered, even by unloading (S18): {waiting}")
