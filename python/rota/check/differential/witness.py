"""A run as a transcript, to be dropped into python/rota/conform/vectors.

The effects are the model's: `python -m tests.protocol.transcripts FILE` then says what the core does
instead. What a transcript cannot say stands in it as a comment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rota import model
from rota.check.differential.steps import Ask, DeleteTopics, End, Pass, Step
from rota.transcript.cast import Cast, StepError
from rota.transcript.model_subject import ModelSubject
from rota.transcript.player import Player
from rota.transcript.text import Step as Line


def transcript(
    config: Mapping[str, int | str], steps: Sequence[Step], title: str = "what core and model disagree on"
) -> str:
    """The text of a transcript whose only section plays these steps."""
    settings = " ".join(f"{name}={value}" for name, value in config.items())
    lines = [f"# {title}", "rows", "doc", *([f"config {settings}"] if settings else []), "---", f"--- later: {title}"]
    writer = _Writer(ModelSubject({name: str(value) for name, value in config.items()}))
    for step in steps:
        lines += writer.write(step)
    return "\n".join(lines) + "\n"


class _Writer:
    """Plays what it writes, so that the expected effects and the names of ids come out as the runner has them."""

    def __init__(self, subject: ModelSubject) -> None:
        self.player = Player(subject, loading=False)
        self.ids: dict[int, str] = {}

    def write(self, step: Step) -> list[str]:
        texts = self._texts(step)
        if texts is None:
            return [f"# {step}"]
        lines: list[str] = []
        for text in texts:
            known = len(self.player.cast.names)
            try:
                effects = self.player.play(Line(0, text))
            except StepError as error:
                return [*lines, f"# {text}: {error}"]
            if isinstance(step, Ask) and len(self.player.cast.names) > known:
                self.ids[step.ticket] = list(self.player.cast.names)[-1]
            lines += [text, *(f"  {effect}" for effect in effects)]
        return lines

    def _texts(self, step: Step) -> list[str] | None:
        if isinstance(step, Ask):
            return [f"{self._connection(step.actor)} {self._request(step.request)}"]
        if isinstance(step, Pass):
            return [f"+{step.span_ms}ms"] if step.stops else None
        if isinstance(step, DeleteTopics):
            return [f"forget {' '.join(step.topics)}"]
        if isinstance(step, End) and step.index in (0, -1):
            if not self.player.in_flight:
                return []
            word = "stored" if step.error is None else f"refused {step.error}"
            return [word + (" newest" if step.index else "")]
        return None

    def _connection(self, actor: str) -> str:
        """One that waits for nothing."""
        while any(waiting == actor for waiting, _ in self.player.tickets.values()):
            actor += "'"
        return actor

    def _request(self, request: model.Request) -> str:
        words = WRITERS[type(request).__name__](self, request)
        group_id = getattr(request, "group_id", "g")
        words += [] if group_id == "g" else [f"group={_nullable(group_id)}"]
        return " ".join([type(request).__name__, *words])

    def name(self, member_id: str) -> str:
        """An id as transcripts write it."""
        if not member_id.startswith("@"):
            return member_id or '""'
        return _shown(self.player.cast, self.ids.get(int(member_id[1:]), member_id))

    def join(self, request: model.JoinGroup) -> list[str]:
        offered = ",".join(f"{name}:{metadata.decode('ascii', 'replace')}" for name, metadata in request.protocols)
        return [
            f"id={self.name(request.member_id)}",
            *([] if request.instance_id is None else [f"instance={_nullable(request.instance_id)}"]),
            f"protocols={offered or 'none'}",
            *([] if request.protocol_type == "consumer" else [f"type={_nullable(request.protocol_type)}"]),
            f"session={request.session_timeout_ms}ms",
            f"rebalance={request.rebalance_timeout_ms}ms",
            f"v={request.version}",
        ]

    def sync(self, request: model.SyncGroup) -> list[str]:
        plan = ",".join(f"{self.name(member_id)}:{part.decode()}" for member_id, part in request.assignments)
        return [
            *self.identity(request),
            f"type={_nullable(request.protocol_type)}",
            f"name={_nullable(request.protocol_name)}",
            *([f"plan={plan}"] if plan else []),
            f"v={request.version}",
        ]

    def identity(self, request: model.SyncGroup | model.Heartbeat | model.OffsetCommit) -> list[str]:
        instance = [] if request.instance_id is None else [f"instance={_nullable(request.instance_id)}"]
        return [f"id={self.name(request.member_id)}", f"generation={request.generation}", *instance]

    def leave(self, request: model.LeaveGroup) -> list[str]:
        members = [self.name(one) + ("" if two is None else f"/{two}") for one, two in request.members]
        return [f"members={','.join(members) or 'none'}", f"v={request.version}"]

    def commit(self, request: model.OffsetCommit) -> list[str]:
        places = [
            f"{topic}/{index}={offset}@{epoch}:{'null' if text is None else text}"
            for topic, index, offset, epoch, text in request.offsets
        ]
        keep = [] if request.retention_time_ms is None else [f"retention={request.retention_time_ms}ms"]
        return [*places, *self.identity(request), *keep, f"v={request.version}"]

    def fetch(self, request: model.OffsetFetch) -> list[str]:
        places = ["all"] if request.partitions is None else [f"{topic}/{index}" for topic, index in request.partitions]
        return [*(["stable"] if request.require_stable else []), *places]


WRITERS: dict[str, Callable[[_Writer, Any], list[str]]] = {
    "JoinGroup": _Writer.join,
    "SyncGroup": _Writer.sync,
    "Heartbeat": _Writer.identity,
    "LeaveGroup": _Writer.leave,
    "OffsetCommit": _Writer.commit,
    "OffsetFetch": _Writer.fetch,
    "DescribeGroup": lambda _, request: [f"v={request.version}"],
    "ListGroups": lambda _, request: [
        *([f"states={','.join(state.replace(' ', '_') for state in request.states)}"] if request.states else []),
        *([f"types={','.join(request.types)}"] if request.types else []),
    ],
    "DeleteGroup": lambda _writer, _request: [],
    "OffsetDelete": lambda _, request: [f"{topic}/{index}" for topic, index in request.partitions],
}


def _nullable(text: str | None) -> str:
    return "null" if text is None else text or '""'


def _shown(cast: Cast, member_id: str) -> str:
    return cast.names.get(member_id, member_id)
