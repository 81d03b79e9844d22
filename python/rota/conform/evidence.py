"""What a broker said in a row, in comparable form: without ids, times, and orders that no broker promises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rota.conform.said import FAULT, Said
from rota.conform.subject import ABSENT

EARLY = re.compile(r"^@\S+ ")
LEADER = re.compile(r" protocol=\S+| leader=\S+| members=\S+")
#: A member in the answer to DescribeGroups: its id, its subscription and its assignment.
DESCRIBED = re.compile(r"[^=:]+:[^:]*:")
#: docs/departures.md: answers that Kafka 4.4.0 does not give, wherever they are met.
SILENT = {
    "D1": re.compile(r"^\S+< NOT_COORDINATOR( member=\S+)?$"),
    "D2": re.compile(r"^\S+< UNKNOWN_MEMBER_ID$"),
}
#: What docs/protocol.md §21 leaves open: who leads where the old leader is gone.
CHOICE = "§21"


@dataclass(frozen=True)
class Difference:
    """The first step at which two brokers part, what only one and only the other said, and what explains it."""

    step: str
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    reasons: tuple[str, ...] = ()


def said(step: str, lines: Iterable[str]) -> Said:
    """In canonical form."""
    return Said(step, tuple(sorted(map(canonical, lines))))


def canonical(line: str) -> str:
    """Without the moment of an answer, and with members in an order of their own."""
    words = EARLY.sub("", line).split(" ")
    described = sorted(word for word in words if DESCRIBED.match(word))
    others = [word for word in words if word not in described]
    lists = [_sorted_members(word) if word.startswith("members=") else word for word in others]
    return " ".join(lists + described)


def _sorted_members(word: str) -> str:
    return "members=" + ",".join(sorted(word.removeprefix("members=").split(",")))


def compare(theirs: Sequence[Said], ours: Sequence[Said]) -> Difference | None:
    """Where `ours` says something else than `theirs`. Answers that only a departure gives explain themselves."""
    reasons: set[str] = set()
    for index in range(max(len(theirs), len(ours))):
        expected = theirs[index] if index < len(theirs) else Said("nothing more")
        actual = ours[index] if index < len(ours) else Said("nothing more")
        if expected.step != actual.step:
            return Difference(expected.step, expected.answers, actual.answers or (f"{FAULT}{actual.step}",))
        missing, unexpected = differences(expected.answers, actual.answers)
        departures = kept_silent(unexpected) if not missing else set()
        if missing or (unexpected and not departures):
            choice = (CHOICE,) if leader_chosen(missing, unexpected) else ()
            return Difference(expected.step, tuple(missing), tuple(unexpected), choice)
        reasons |= departures
    return Difference("", (), (), tuple(sorted(reasons))) if reasons else None


def is_same(one: Sequence[Said], other: Sequence[Said]) -> bool:
    """Whether two plays at the same broker agree; who leads may change where that is left open."""
    difference = compare(one, other)
    return difference is None or difference.reasons == (CHOICE,)


def differences(expected: Iterable[str], actual: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of each what the other has not; a field that the version of an answer has not may have any value."""
    missing, unexpected = list(expected), []
    for line in actual:
        match = next((other for other in missing if _agree(other, line)), None)
        if match is None:
            unexpected.append(line)
        else:
            missing.remove(match)
    return missing, unexpected


def _agree(one: str, other: str) -> bool:
    if one == other:
        return True
    if ABSENT not in one + other:
        return False
    patterns = [re.escape(line).replace(re.escape(ABSENT), "[^/ ]+") for line in (one, other)]
    return bool(re.fullmatch(patterns[0], other) or re.fullmatch(patterns[1], one))


def leader_chosen(missing: Sequence[str], unexpected: Sequence[str]) -> bool:
    """Whether only the leader differs, and therefore the receiver of the members: where the old leader is gone, Kafka
    takes anybody (docs/protocol.md §21)."""
    others = [sorted(LEADER.sub("", line) for line in lines) for lines in (missing, unexpected)]
    return others[0] == others[1]


def kept_silent(lines: Iterable[str]) -> set[str]:
    """The departures by which Kafka gives none of these answers; none if one of them should have come."""
    names = [{name for name, pattern in SILENT.items() if pattern.match(line)} for line in lines]
    return set().union(*names) if all(names) else set()
