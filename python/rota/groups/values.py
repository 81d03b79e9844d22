"""What the options of `rota groups` take, read before a broker is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

from rota.arguments import INT64_MAX
from rota.groups.errors import misused

DURATION = re.compile(
    r"P(?:(?P<days>[0-9]+)D)?(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?"
    r"(?:(?P<seconds>[0-9]+(?:\.[0-9]+)?)S)?)?"
)


class Target(Enum):
    """Where offsets can be sent, by the name of the option."""

    TO_EARLIEST = "--to-earliest"
    TO_LATEST = "--to-latest"
    TO_CURRENT = "--to-current"
    TO_OFFSET = "--to-offset"
    SHIFT_BY = "--shift-by"
    TO_DATETIME = "--to-datetime"
    BY_DURATION = "--by-duration"
    FROM_FILE = "--from-file"
    FROM_GROUP = "--from-group"


class Goal(NamedTuple):
    """Where offsets are to go."""

    target: Target
    name: str = ""
    """The file of `--from-file`, or the group of `--from-group`."""
    number: int = 0
    """Of the others that take a value: an offset, a shift, or milliseconds since the Unix epoch."""


def goal(option: str, value: str) -> Goal:
    """The goal that an option names. Raises GroupsError if its value is not one that the option takes."""
    target = Target(option)
    match target:
        case Target.TO_OFFSET:
            return Goal(target, number=whole(option, value, 0))
        case Target.SHIFT_BY:
            return Goal(target, number=whole(option, value, -INT64_MAX))
        case Target.TO_DATETIME:
            return Goal(target, number=timestamp_ms(value))
        case Target.BY_DURATION:
            return Goal(target, number=ago_ms(value))
        case _:
            return Goal(target, name=value)


def timestamp_ms(text: str) -> int:
    """An ISO 8601 date and time, in UTC if it does not say, as milliseconds since the epoch; 0 for what was before."""
    try:
        found = datetime.fromisoformat(text)
        # Kafka reads a negative time as a name: -1 is the end.
        return max(0, round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise misused(f"--to-datetime is `{text}`: give a time such as 2026-03-01T13:30:00+01:00") from None


def ago_ms(text: str) -> int:
    """The time that was an ISO 8601 duration of days, hours, minutes, seconds ago, as milliseconds since the epoch."""
    match = DURATION.fullmatch(text)
    try:
        if match is not None and any(match.groupdict().values()):
            length = timedelta(**{unit: float(value) for unit, value in match.groupdict().items() if value})
            return max(0, round((datetime.now(UTC) - length).timestamp() * 1_000))
    except OverflowError:
        pass
    raise misused(f"--by-duration is `{text}`: give a duration such as P1DT6H or PT30M")


def whole(option: str, text: str, lowest: int) -> int:
    """The number that an option was given."""
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not lowest <= int(text) <= INT64_MAX:
        raise misused(f"{option} is `{text}`: give a whole number from {lowest} to {INT64_MAX}")
    return int(text)


def chosen(wanted: Iterable[str]) -> dict[str, set[int] | None]:
    """`--topic orders` and `--topic orders:0,2` as the partitions of each topic; None is all of them. A topic that is
    named more than once has the partitions of each, as in Kafka's tool.
    """
    found: dict[str, set[int] | None] = {}
    for text in wanted:
        topic, colon, indexes = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", indexes)):
            raise misused(f"--topic is `{text}`: give TOPIC or TOPIC:PARTITION,PARTITION")
        some = {int(index) for index in indexes.split(",")} if colon else None
        before = found.get(topic, set())
        found[topic] = None if some is None or before is None else before | some
    return found
