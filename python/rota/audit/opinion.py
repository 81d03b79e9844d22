"""A third opinion: the Python model asked what a sample of a journal asked the coordinator.

`rota.model` shares no code with the coordinator. It begins with nothing, as an incarnation does whose partition was
empty, and is asked the first events of it; what it answers has to be what the journal has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import rota
from rota import _rota, journal, model
from rota.audit.folds import apart
from rota.audit.logs import Part

ENTRIES_A_PARTITION = 1_000
PARTITIONS_ASKED = 64

SLOT_DIGITS = 8
MINTED = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{4})[0-9a-f]{8}")
ENTROPY = re.compile(r'"entropy":([0-9]+)')
SETTINGS = frozenset(setting.name for setting in fields(model.Config))
# What these tell matters to groups of the newer protocol only.
PASSED_OVER = frozenset({"Configured", "TopicsChanged", "GroupConfigured", "PatternsLimited"})
Fields = dict[str, Any]
Answers = list[tuple[Any, ...]]


class Opinion(NamedTuple):
    """What came of one partition."""

    log: str
    partition: int
    events: int
    answers: int
    """That were compared."""
    difference: tuple[int, str, int, str] | None
    """Offset, group and wall milliseconds of the event, and what differs."""


def _commit(asked: Fields) -> model.Request:
    offsets = tuple(
        (topic["name"], at["index"], at["offset"], at["leader_epoch"], at["metadata"])
        for topic in asked.pop("topics")
        for at in topic["partitions"]
    )
    return model.OffsetCommit(offsets=offsets, **asked)


def _fetch(asked: Fields) -> model.Request:
    topics = asked["topics"]
    places = topics and tuple((topic["name"], index) for topic in topics for index in topic["partitions"])
    return model.OffsetFetch(asked["group_id"], None if topics is None else places or (), asked["require_stable"])


def _delete_offsets(asked: Fields) -> model.Request:
    places = ((topic["name"], index) for topic in asked["topics"] for index in topic["partitions"])
    return model.OffsetDelete(asked["group_id"], tuple(places))


def _join(asked: Fields) -> model.Request:
    del asked["reason"]
    protocols = tuple((each["name"], bytes.fromhex(each["metadata"])) for each in asked.pop("protocols"))
    return model.JoinGroup(protocols=protocols, **asked)


def _sync(asked: Fields) -> model.Request:
    shares = tuple((each["member_id"], bytes.fromhex(each["assignment"])) for each in asked.pop("assignments"))
    return model.SyncGroup(assignments=shares, **asked)


def _leave(asked: Fields) -> model.Request:
    members = tuple((each["member_id"], each["instance_id"]) for each in asked.pop("members"))
    return model.LeaveGroup(members=members, **asked)


REQUESTS: dict[str, Callable[[Fields], model.Request]] = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": lambda asked: model.Heartbeat(**asked),
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "DescribeGroup": lambda asked: model.DescribeGroup(asked["group_id"], asked["version"]),
    "ListGroups": lambda asked: model.ListGroups(tuple(asked["states"]), tuple(asked["types"])),
    "DeleteGroup": lambda asked: model.DeleteGroup(asked["group_id"]),
    "OffsetDelete": _delete_offsets,
}


def name_and_fields(event: Fields | str) -> tuple[str, Fields]:
    """The parts of an event."""
    return (event, {}) if isinstance(event, str) else next(iter(event.items()))


def event_of(event: Fields | str, ids: Ids) -> model.Event | None:
    """The event for the model; None: there is none, or the model does not know it."""
    name, told = name_and_fields(event)
    match name:
        case "Submitted":
            ((api, asked),) = told["request"].items()
            if api not in REQUESTS:
                return None
            return model.Submit(told["ticket"], REQUESTS[api](dict(asked)), ids.mint(told["entropy"]))
        case "Advanced":
            return model.Advance()
        case "Appended":
            return model.Appended(told["append_id"], told["result"].get("Err"))
        case "TopicsDeleted":
            return model.TopicsDeleted(tuple(told["topics"]))
        case "Loaded":
            return model.Loaded()
        case "Unloaded":
            return model.Unload()
    return None


def told_in(effects: list[Fields]) -> Answers:
    """The answers that a journal has, as far as they are compared: ticket, error, and what matters of each."""
    answers: Answers = []
    for effect in effects:
        if "Answer" not in effect:
            continue
        ticket, ((api, answer),) = effect["Answer"]["ticket"], effect["Answer"]["answer"].items()
        match api:
            case "JoinGroup":
                members = tuple(
                    (each["member_id"], each["instance_id"], each["metadata"]) for each in answer["members"]
                )
                round_ = (answer["generation"], answer["protocol_name"], answer["leader"], answer["member_id"])
                answers.append((ticket, answer["error"], *round_, members))
            case "SyncGroup":
                answers.append((ticket, answer["error"], answer["assignment"]))
            case "Heartbeat":
                answers.append((ticket, answer))
            case "OffsetCommit":
                answers.append(
                    (ticket, *sorted((topic["name"], *at) for topic in answer["topics"] for at in topic["partitions"]))
                )
            case "OffsetFetch":
                found = ((topic["name"], at["index"], at["offset"], at["error"])
                         for topic in answer["topics"] for at in topic["partitions"])  # fmt: skip
                answers.append((ticket, answer["error"], *sorted(found)))
            case "LeaveGroup":
                answers.append(
                    (ticket, answer["error"], *((each["member_id"], each["error"]) for each in answer["members"]))
                )
            case _:
                answers.append((ticket, answer["error"]))
    return sorted(answers, key=lambda answer: int(answer[0]))


def told_by(effects: tuple[model.Effect, ...]) -> Answers:
    """The model's answers in the same form."""
    answers: Answers = []
    for told in effects:
        match told:
            case model.JoinAnswer():
                members = tuple((each.member_id, each.instance_id, each.metadata.hex()) for each in told.members)
                round_ = (told.generation, told.protocol_name, told.leader, told.member_id)
                answers.append((told.ticket, told.error, *round_, members))
            case model.SyncAnswer():
                answers.append((told.ticket, told.error, told.assignment.hex()))
            case model.CommitAnswer():
                answers.append((told.ticket, *sorted((at.topic, at.partition, at.error) for at in told.partitions)))
            case model.FetchAnswer():
                found = ((at.topic, at.partition, at.offset, at.error) for at in told.partitions)
                answers.append((told.ticket, told.error, *sorted(found)))
            case model.LeaveAnswer():
                answers.append((told.ticket, told.error, *((each.member_id, each.error) for each in told.members)))
            case model.Append():
                pass
            case _:
                answers.append((told.ticket, told.error))
    return sorted(answers, key=lambda answer: int(answer[0]))


class Ids:
    """Member ids as the model mints them: where the coordinator's names a slot, the model's has more random bits."""

    def __init__(self) -> None:
        self.minted: dict[str, str] = {}

    def mint(self, entropy: int) -> str:
        """The UUID of a request."""
        uuid = str(UUID(int=entropy, version=4))
        self.minted[uuid[:-SLOT_DIGITS]] = uuid
        return uuid

    def entry(self, value: bytes) -> Fields:
        """An entry as JSON has it, with the model's ids. Raises ValueError if it is none."""
        text = _rota.journal_entry(value)
        if (minting := ENTROPY.search(text)) is not None:
            self.mint(int(minting[1]))
        entry: Fields = json.loads(MINTED.sub(lambda found: self.minted.get(found[1], found[0]), text))
        return entry


class Asking:
    """The model beside one partition of a journal."""

    def __init__(self) -> None:
        self.ids = Ids()
        self.state: model.State | None = None
        """None: the coordinator began with a state, or got an event that the model does not know."""
        self.replay = _rota.JournalReplay()

    def begin(self, entry: Fields) -> None:
        """A coordinator began."""
        config = entry["event"]["Began"]["config"]
        self.ids, self.replay = Ids(), _rota.JournalReplay()
        self.state = model.State(model.Config(**{name: value for name, value in config.items() if name in SETTINGS}))

    def tell(self, entry: Fields) -> Answers | None:
        """One event; gives the model's answers, None if it was not asked."""
        name, _ = name_and_fields(entry["event"])
        if name in PASSED_OVER:
            return None
        event = event_of(entry["event"], self.ids)
        if event == model.Loaded():
            state = self.replay.snapshot()
            if state is None or rota.coordinator.Coordinator.restore(state).group_ids():
                event = None
        if self.state is None or event is None:
            self.state = None
            return None
        self.state, told = model.step(self.state, entry["mono_ms"], event)
        return told_by(tuple(told))


def asked(log: Path, partition: int, entries: int = ENTRIES_A_PARTITION) -> Opinion:
    """Ask the model what the first entries of a partition of a journal tell, where a coordinator began with nothing.

    Raises OSError and ValueError if they cannot be read.
    """
    found = _rota.DataLog(log).records(journal.JOURNAL_TOPIC, partition, 0, entries)
    values = [value or b"" for *_, value in found]
    opinion, asking, at = Opinion(str(log), partition, 0, 0, None), Asking(), 0
    while at < len(values):
        entry = asking.ids.entry(values[at])
        if isinstance(entry["event"], dict) and "Began" in entry["event"]:
            asking.begin(entry)
        firings = _firings(entry["event"])
        whole = [entry, *map(asking.ids.entry, values[at + 1 : at + firings])]
        for value in values[at : at + firings]:
            asking.replay.fold(value)
        offset, _, _, key, _ = found[at]
        at += firings
        if len(whole) < firings or asking.state is None or "Began" in entry["event"]:
            continue
        theirs = asking.tell(entry)
        if theirs is None:
            continue
        ours = told_in([effect for each in whole for effect in each["effects"]])
        opinion = opinion._replace(events=opinion.events + 1, answers=opinion.answers + len(ours))
        if ours != theirs:
            told, answered = apart(str(ours), str(theirs))
            said = f"entry {entry['sequence']}: the answers differ\njournal  {told}\nmodel    {answered}"
            return opinion._replace(difference=(offset, key.decode(errors="replace"), entry["wall_ms"], said))
    return opinion


def _firings(event: Fields | str) -> int:
    """How many entries an event has: an advance one for each deadline that it fired."""
    advanced = event.get("Advanced") if isinstance(event, dict) else None
    return max(1, advanced["count"]) if advanced else 1


def opinion_of(part: Part) -> Opinion:
    """The model's opinion on the beginning of the partition of a journal that has this part."""
    try:
        return asked(Path(part.log), part.partition)
    except (OSError, ValueError):
        # What cannot be read is a row of its own.
        return Opinion(part.log, part.partition, 0, 0, None)
