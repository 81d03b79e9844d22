"""Every control as one row: its name, what it takes and gives, and what it does."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rota.control.values import (
    COUNT,
    NEW_OFFSET,
    OFFSET,
    POSITIVE,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TEXTS_OR_NULLS,
    TIME_MS,
    TRUTH,
    Json,
    Param,
    described,
    listed,
    one_of,
    optional,
    shaped,
)

if TYPE_CHECKING:
    from rota.control.subject import Controlled

GET, POST = "GET", "POST"
PREFIX = "/control/"

BODY_BYTES_MAX = 64 << 20
"""Bytes of one request body."""


class RefusedError(Exception):
    """A control that cannot be carried out as things are."""


class Control(NamedTuple):
    """One control."""

    name: str
    method: str
    doc: str
    params: tuple[Param, ...]
    result: dict[str, Json]
    """The fields of the answer."""
    run: Callable[..., Json | None]
    """Takes the controlled server and the parameters; gives the answer, None for one without fields."""
    waits: bool = False
    """Whether other controls go on while it runs."""

    @property
    def path(self) -> str:
        """Where it is."""
        return PREFIX + self.name


GROUP = Param("group", TEXT, "A group id.")
TOPIC = Param("topic", TEXT, "The name of a topic.")
MEMBER = Param("member", TEXT, "A member id; with `group` it may also be a `group.instance.id`.")
ITS_GROUP = Param("group", optional(TEXT), "The member's group, where `member` is a `group.instance.id`.", None)
TRANSACTIONAL_ID = Param("transactional_id", TEXT, "A transactional id.")
NODE = Param("node", POSITIVE, "The id of a node.")
ANY_NODE = Param("node", optional(POSITIVE), "The id of a node; null is every node.", None)
TIMES = Param("times", POSITIVE, "How many of them.", 1)
ERROR = Param("error", TEXT, "The name of a Kafka error, such as `NOT_COORDINATOR`.")
API = Param("api", TEXT, "The Kafka name of an API, such as `OffsetCommit`.")
ANY_API = Param("api", optional(TEXT), "The Kafka name of an API, such as `OffsetCommit`; null is every API.", None)
ENCODING = Param(
    "encoding",
    one_of("utf-8", "base64"),
    "How keys, values and values of headers are written: as text, or their bytes in base64.",
    "utf-8",
)
HEADERS = listed(shaped(name={"type": "string"}, value=TEXT_OR_NULL))
ID = {"id": described(COUNT, "Ends the control, with `end`.")}


def advance(subject: Controlled, ms: int, expire: list[str]) -> Json:
    """Move the virtual clock."""
    clock = subject.server.clock
    if clock is None:
        raise RefusedError("the server runs on the machine's clock: start it with --virtual-clock")
    clock.advance(ms, expire)
    return now(subject)


def now(subject: Controlled) -> Json:
    """The clock."""
    clock = subject.server.clock
    return {"is_virtual": clock is not None, "now_ms": None if clock is None else clock.now_ms}


def wait_until_stable(subject: Controlled, group: str, members: int | None, timeout_ms: int) -> Json:
    """Wait for a group."""
    found = subject.server.wait_until_stable(group, members, timeout_ms / 1_000)
    return {"group": group, "state": found.state, "generation": found.generation, "why": str(found)}


def produce(
    subject: Controlled,
    topic: str,
    values: list[str | None],
    keys: list[str | None] | None,
    headers: list[list[Json]] | None,
    partition: int,
    encoding: str,
) -> Json:
    """Append messages."""
    written = [_bytes("values", value, encoding) for value in values]
    named = None if keys is None else [_bytes("keys", key, encoding) for key in keys]
    headed = None
    if headers is not None:
        headed = [[(one["name"], _bytes("headers", one["value"], encoding)) for one in each] for each in headers]
    return {"offsets": subject.server.produce(topic, written, keys=named, headers=headed, partition=partition)}


def messages(subject: Controlled, topic: str, encoding: str) -> Json:
    """The messages of a topic."""
    return {
        "messages": [
            {
                "partition": message.partition,
                "offset": message.offset,
                "timestamp_ms": message.timestamp_ms,
                "key": _text(message.key, encoding),
                "value": _text(message.value, encoding),
                "headers": [{"name": name, "value": _text(value, encoding)} for name, value in message.headers],
            }
            for message in subject.server.messages(topic)
        ]
    }


def committed(subject: Controlled, group: str) -> Json:
    """The committed offsets of a group."""
    offsets = sorted(subject.server.committed(group).items())
    return {"offsets": [{"topic": topic, "partition": at, "offset": offset} for (topic, at), offset in offsets]}


def commit(subject: Controlled, group: str, offsets: list[Json]) -> None:
    """Commit offsets of a group without members."""
    given = {(one["topic"], one["partition"]): one["offset"] for one in offsets}
    if len(given) < len(offsets):
        raise ValueError("offsets has a partition twice: give one offset for each partition")
    subject.server.commit(group, given)


def transactions(subject: Controlled) -> Json:
    """The transactional ids."""
    return {
        "transactions": [
            {
                "transactional_id": name,
                "state": told.state,
                "producer_id": told.producer_id,
                "producer_epoch": told.producer_epoch,
                "partitions": [{"topic": topic, "partition": at} for topic, at in told.participants],
            }
            for name, told in subject.server.transactions().items()
        ]
    }


def members(subject: Controlled, group: str) -> Json:
    """The members of a group."""
    found = subject.server.members(group).items()
    return {"members": [{"member_id": member, "instance_id": instance} for member, instance in found]}


def partition_of(subject: Controlled, group: str) -> Json:
    """Where a group is."""
    partition = subject.server.partition_of(group)
    return {"partition": partition, "node": subject.server.owner(partition)}


def pause(subject: Controlled, member: str, group: str | None) -> Json:
    """Pause a member."""
    paused = subject.server.faults.pause(member, group)
    return subject.keep("pause", paused.resume, None) | {"group": paused.group, "member_id": paused.member_id}


def inject_error(subject: Controlled, api: str, error: str, times: int, group: str | None) -> Json:
    """Answer requests with an error."""
    injection = subject.server.faults.inject_error(api, error, times, group)
    return subject.keep("inject_error", injection.cancel, lambda: (injection.count, injection.left))


def end(subject: Controlled, **fields: int) -> None:
    """End a control that lasts."""
    subject.end(fields["id"])


def delay_answers(subject: Controlled, ms: int, api: str | None, node: int | None) -> Json:
    """Send answers late."""
    fault = subject.server.faults.delay_answers(ms, api, node)
    return subject.keep("delay_answers", fault.end, lambda: (fault.count, fault.left))


def drop_answers(subject: Controlled, api: str | None, times: int, node: int | None) -> Json:
    """Lose answers."""
    fault = subject.server.faults.drop_answers(api, times, node)
    return subject.keep("drop_answers", fault.end, lambda: (fault.count, fault.left))


def stop_node(subject: Controlled, node: int) -> None:
    """Take a node down."""
    subject.server.faults.stop_node(node)


def nodes(subject: Controlled) -> Json:
    """The nodes."""
    down = subject.server.faults.down_nodes()
    found = subject.server.nodes().items()
    return {"nodes": [{"node": node, "address": address, "is_up": node not in down} for node, address in found]}


def _bytes(field: str, text: str | None, encoding: str) -> bytes | None:
    if text is None or encoding == "utf-8":
        return None if text is None else text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"{field} has {text[:80]!r} in it: expected base64 ({error})") from None


def _text(data: bytes | None, encoding: str) -> str | None:
    if data is None:
        return None
    if encoding == "base64":
        return base64.b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RefusedError("a message of the topic is not UTF-8: ask with encoding=base64") from None


TABLE: tuple[Control, ...] = (
    Control(
        "clock",
        GET,
        "The server's clock.",
        (),
        CLOCK := {
            "is_virtual": TRUTH,
            "now_ms": described(optional(TIME_MS), "Milliseconds since the start; null on the machine's clock."),
        },
        now,
    ),
    Control(
        "advance",
        POST,
        "Move the virtual clock: every deadline on the way fires in order. A member whose client "
        "is connected keeps its session, unless it is in `expire`.",
        (
            Param("ms", TIME_MS, "How far, in milliseconds."),
            Param("expire", TEXTS, "Member ids whose sessions end although their clients are connected.", []),
        ),
        CLOCK,
        advance,
    ),
    Control(
        "create_topic",
        POST,
        "Create a topic.",
        (TOPIC, Param("partitions", POSITIVE, "How many.", 1)),
        {},
        lambda s, topic, partitions: s.server.create_topic(topic, partitions),
    ),
    Control(
        "add_partitions",
        POST,
        "Add partitions to a topic.",
        (TOPIC, Param("count", POSITIVE, "How many more.")),
        {"partitions": described(POSITIVE, "How many the topic has then.")},
        lambda s, topic, count: {"partitions": s.server.add_partitions(topic, count)},
    ),
    Control(
        "topics",
        GET,
        "The topics, without `__consumer_offsets`.",
        (),
        {"topics": listed(shaped(topic=TEXT, partitions=described(POSITIVE, "How many the topic has.")))},
        lambda s: {"topics": [{"topic": name, "partitions": count} for name, count in s.server.topics().items()]},
    ),
    Control(
        "delete_topic",
        POST,
        "Delete a topic with its messages and committed offsets.",
        (TOPIC,),
        {},
        lambda s, topic: s.server.delete_topic(topic),
    ),
    Control(
        "produce",
        POST,
        "Append messages to one partition of a topic.",
        (
            TOPIC,
            Param("values", TEXTS_OR_NULLS, "One message each; null is a null value."),
            Param("keys", optional(TEXTS_OR_NULLS), "A key for each value; without it all keys are null.", None),
            Param("headers", optional(listed(HEADERS)), "The headers of each value; without it there are none.", None),
            Param("partition", COUNT, "The partition.", 0),
            ENCODING,
        ),
        {"offsets": listed(OFFSET)},
        produce,
    ),
    Control(
        "messages",
        GET,
        "Every message of a topic, by partition and offset.",
        (TOPIC, ENCODING),
        {
            "messages": listed(
                shaped(
                    partition=COUNT,
                    offset=OFFSET,
                    timestamp_ms=described({"type": "integer"}, "Milliseconds since the Unix epoch."),
                    key=TEXT_OR_NULL,
                    value=TEXT_OR_NULL,
                    headers=HEADERS,
                )
            ),
        },
        messages,
    ),
    Control("groups", GET, "The ids of all groups.", (), {"groups": TEXTS}, lambda s: {"groups": s.server.groups()}),
    Control(
        "members",
        GET,
        "The members of a group in joining order.",
        (GROUP,),
        {
            "members": listed(shaped(member_id=TEXT, instance_id=described(TEXT_OR_NULL, "Its `group.instance.id`."))),
        },
        members,
    ),
    Control(
        "committed",
        GET,
        "The offsets that a group has committed.",
        (GROUP,),
        {
            "offsets": listed(shaped(topic=TEXT, partition=COUNT, offset=OFFSET)),
        },
        committed,
    ),
    Control(
        "commit",
        POST,
        "Commit offsets of a group without members, as an admin client does. A group that does not exist is created.",
        (
            GROUP,
            Param("offsets", listed(shaped(topic=TEXT, partition=COUNT, offset=NEW_OFFSET)), "One for each partition."),
        ),
        {},
        commit,
    ),
    Control(
        "wait_until_stable",
        POST,
        "Wait until a group is Stable, with so many members; with 0 until it is Empty.",
        (
            GROUP,
            Param("members", optional(COUNT), "How many members it should have; null is any number.", None),
            Param("timeout_ms", COUNT, "How long to wait, in milliseconds of the machine's clock.", 30_000),
        ),
        {
            "group": TEXT,
            "state": TEXT,
            "generation": {"type": "integer"},
            "why": described(TEXT, "What the group is doing, as `rota why` says it."),
        },
        wait_until_stable,
        waits=True,
    ),
    Control(
        "expire",
        POST,
        "End the session of a member now.",
        (MEMBER, ITS_GROUP),
        {},
        lambda s, member, group: s.server.expire(member, group),
    ),
    Control(
        "rebalance", POST, "Begin a rebalance of a group.", (GROUP,), {}, lambda s, group: s.server.rebalance(group)
    ),
    Control(
        "pause",
        POST,
        "Stop listening to a member and answering it, until `end`.",
        (MEMBER, ITS_GROUP),
        {**ID, "group": TEXT, "member_id": TEXT},
        pause,
    ),
    Control(
        "inject_error",
        POST,
        "Answer the next requests of an API with an error. The coordinator never sees them.",
        (API, ERROR, TIMES, Param("group", optional(TEXT), "Only requests about this group; null is any.", None)),
        ID,
        inject_error,
    ),
    Control(
        "hold_appends",
        POST,
        "Let no append to `__consumer_offsets` end until `release_appends`.",
        (),
        {},
        lambda s: s.server.faults.hold_appends(),
    ),
    Control(
        "release_appends",
        POST,
        "End the appends that were held, in order, and hold no more.",
        (),
        {"released": described(COUNT, "How many those were.")},
        lambda s: {"released": s.server.faults.release_appends()},
    ),
    Control(
        "fail_appends",
        POST,
        "Let the next appends to `__consumer_offsets` fail.",
        (ERROR, TIMES),
        {},
        lambda s, error, times: s.server.faults.fail_appends(error, times),
    ),
    Control(
        "lose_append_answers",
        POST,
        "Store the next appends to `__consumer_offsets`, and report them as failed.",
        (ERROR, TIMES),
        {},
        lambda s, error, times: s.server.faults.lose_append_answers(error, times),
    ),
    Control(
        "duplicate_appends",
        POST,
        "Store each of the next appends to `__consumer_offsets` twice.",
        (TIMES,),
        {},
        lambda s, times: s.server.faults.duplicate_appends(times),
    ),
    Control(
        "fence_appends",
        POST,
        "Fence the next appends to `__consumer_offsets`: their partitions refuse requests until they are moved.",
        (TIMES,),
        {},
        lambda s, times: s.server.faults.fence_appends(times),
    ),
    Control(
        "hold_opens",
        POST,
        "Keep the logs of partitions that are moved from opening until `release_opens`.",
        (),
        {},
        lambda s: s.server.faults.hold_opens(),
    ),
    Control(
        "release_opens",
        POST,
        "Open the logs that were held, and hold no more.",
        (),
        {"released": described(COUNT, "How many those were.")},
        lambda s: {"released": s.server.faults.release_opens()},
    ),
    Control(
        "delay_appends",
        POST,
        "Let appends to `__consumer_offsets` take so long, on the server's clock.",
        (Param("ms", COUNT, "Milliseconds; 0 ends the delay."),),
        {},
        lambda s, ms: s.server.faults.delay_appends(ms),
    ),
    Control(
        "transactions",
        GET,
        "The transactional ids of the server, by id.",
        (),
        {
            "transactions": listed(
                {
                    "transactional_id": TEXT,
                    "state": described(TEXT, "Kafka's name, such as `Ongoing` or `CompleteAbort`."),
                    "producer_id": COUNT,
                    "producer_epoch": COUNT,
                    "partitions": listed({"topic": TEXT, "partition": COUNT}),
                }
            )
        },
        transactions,
    ),
    Control(
        "abort_transaction",
        POST,
        "Abort the open transaction of an id, as when its time is over.",
        (TRANSACTIONAL_ID,),
        {},
        lambda s, transactional_id: s.server.faults.abort_transaction(transactional_id),
    ),
    Control(
        "fence_producer",
        POST,
        "Fence the producer of an id, as another producer with its id does. An open transaction is aborted first.",
        (TRANSACTIONAL_ID,),
        {},
        lambda s, transactional_id: s.server.faults.fence_producer(transactional_id),
    ),
    Control(
        "hold_markers",
        POST,
        "Keep the markers that end transactions from their partitions until `release_markers`.",
        (),
        {},
        lambda s: s.server.faults.hold_markers(),
    ),
    Control(
        "release_markers",
        POST,
        "Write the markers that were held, and hold no more.",
        (),
        {"released": described(COUNT, "How many those were.")},
        lambda s: {"released": s.server.faults.release_markers()},
    ),
    Control(
        "nodes",
        GET,
        "The nodes of the server.",
        (),
        {"nodes": listed(shaped(node=POSITIVE, address=described(TEXT, "HOST:PORT"), is_up=TRUTH))},
        nodes,
    ),
    Control(
        "partition_of",
        GET,
        "The partition of `__consumer_offsets` that a group is in, and its coordinator.",
        (GROUP,),
        {"partition": COUNT, "node": POSITIVE},
        partition_of,
    ),
    Control(
        "move_partition",
        POST,
        "Hand a partition of `__consumer_offsets` to another node.",
        (Param("partition", COUNT, "The partition, as `partition_of` gives it."), NODE),
        {},
        lambda s, partition, node: s.server.move_partition(partition, node),
    ),
    Control(
        "hold_loads",
        POST,
        "Let partitions that are moved stay loading until `release_loads`.",
        (),
        {},
        lambda s: s.server.faults.hold_loads(),
    ),
    Control(
        "release_loads",
        POST,
        "Load the partitions that were held, and hold no more.",
        (),
        {"released": described(COUNT, "How many those were.")},
        lambda s: {"released": s.server.faults.release_loads()},
    ),
    Control(
        "delay_answers",
        POST,
        "Send answers late, in real time, until `end`. Requests are carried out at once.",
        (Param("ms", COUNT, "How late, in milliseconds."), ANY_API, ANY_NODE),
        ID,
        delay_answers,
    ),
    Control(
        "drop_answers",
        POST,
        "Carry out the next requests, and close their connections instead of answering.",
        (ANY_API, TIMES, ANY_NODE),
        ID,
        drop_answers,
    ),
    Control(
        "drop_connections",
        POST,
        "Close connections without answering.",
        (ANY_NODE,),
        {"dropped": described(COUNT, "How many those were.")},
        lambda s, node: {"dropped": s.server.faults.drop_connections(node)},
    ),
    Control("stop_node", POST, "Take a node down until `start_node`.", (NODE,), {}, stop_node),
    Control(
        "start_node",
        POST,
        "Bring a node that is down back on its port.",
        (NODE,),
        {},
        lambda s, node: s.server.faults.start_node(node),
    ),
    Control(
        "active",
        GET,
        "The controls that last until `end`, and how often each has taken effect.",
        (),
        {
            "controls": listed(
                shaped(
                    id=COUNT,
                    control=TEXT,
                    count=described(optional(COUNT), "How many requests it has affected; null if that is not counted."),
                    left=described(optional(COUNT), "How many it is still to affect; null if that is not limited."),
                )
            ),
        },
        lambda s: {"controls": s.list_active()},
    ),
    Control("end", POST, "End a control.", (Param("id", COUNT, "As the control gave it."),), {}, end),
    Control(
        "reset",
        POST,
        "End everything that a test has asked for: pauses, injected errors, faults of log and "
        "network. Topics, messages, groups and the time stay.",
        (),
        {},
        lambda s: s.reset(),
    ),
)

BY_PATH = {control.path: control for control in TABLE}
BY_NAME = {control.name: control for control in TABLE}
