"""The model's requests and answers as Kafka's bytes, by kafka-python's schemas: not by anything of ours.

An answer is encoded as the server should have, so that whole frames are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import kafka.errors
from kafka.protocol.admin import groups as admin
from kafka.protocol.consumer import group as consumer

from rota import model

ERRORS = {"NONE": 0, "UNKNOWN_SERVER_ERROR": -1} | {
    vars(each)["message"]: vars(each)["errno"]
    for each in vars(kafka.errors).values()
    if isinstance(each, type) and {"message", "errno"} <= set(vars(each))
}
SCHEMAS = {name: schema for module in (admin, consumer) for name, schema in vars(module).items()}
VERSIONS_OF_FETCH = (9, 7, 8)
VERSIONS_OF_HEARTBEAT = (4, 3)


@dataclass(frozen=True)
class Asked:
    """A request on its way: the API and version that its answer is to be read by."""

    api: str
    version: int
    request: model.Request


def version_of(request: model.Request, ticket: int) -> int:
    """The model's, or one of those that make no difference to it."""
    if isinstance(request, model.OffsetFetch):
        return VERSIONS_OF_FETCH[ticket % len(VERSIONS_OF_FETCH)]
    if isinstance(request, model.Heartbeat):
        return VERSIONS_OF_HEARTBEAT[ticket % len(VERSIONS_OF_HEARTBEAT)]
    fixed = {model.DeleteGroup: ticket % 3, model.OffsetDelete: 0, model.ListGroups: 5}
    return fixed.get(type(request), getattr(request, "version", 0))


def carried(request: model.Request) -> model.Request:
    """What is left of a request in its version: fields that came later, and a group id of null, cannot be sent."""
    if not isinstance(request, model.ListGroups):
        request = replace(request, group_id=request.group_id or "")
    match request:
        case model.JoinGroup() if request.version < 5:
            return replace(request, instance_id=None)
        case model.SyncGroup() if request.version < 5:
            instance_id = request.instance_id if request.version >= 3 else None
            return replace(request, protocol_type=None, protocol_name=None, instance_id=instance_id)
        case model.LeaveGroup() if request.version < 3:
            return replace(request, members=((request.members[0][0], None),))
        case model.OffsetCommit():
            instance_id = request.instance_id if request.version >= 7 else None
            return replace(request, instance_id=instance_id, topic_ids=())
        case model.OffsetFetch():
            return replace(request, topic_ids=())
        case model.OffsetDelete():
            # its answer has each topic once
            topics = list(dict.fromkeys(topic for topic, _ in request.partitions))
            return replace(request, partitions=tuple(sorted(request.partitions, key=lambda at: topics.index(at[0]))))
    return request


def _by_topic(entries: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    for topic, group in groupby(entries, key=lambda entry: entry[0]):
        yield topic, [entry[1:] for entry in group]


def _join(asked: model.JoinGroup, _version: int) -> Any:
    schema = consumer.JoinGroupRequest
    return {
        "protocols": [schema.JoinGroupRequestProtocol(name=name, metadata=data) for name, data in asked.protocols],
        "protocol_type": asked.protocol_type,
        "session_timeout_ms": asked.session_timeout_ms,
        "rebalance_timeout_ms": asked.rebalance_timeout_ms,
    }


def _sync(asked: model.SyncGroup, _version: int) -> Any:
    part = consumer.SyncGroupRequest.SyncGroupRequestAssignment
    return {
        "generation_id": asked.generation,
        "protocol_type": asked.protocol_type,
        "protocol_name": asked.protocol_name,
        "assignments": [part(member_id=member_id, assignment=data) for member_id, data in asked.assignments],
    }


def _leave(asked: model.LeaveGroup, version: int) -> Any:
    if version < 3:
        return {"member_id": asked.members[0][0]}
    who = consumer.LeaveGroupRequest.MemberIdentity
    return {"members": [who(member_id=member_id, group_instance_id=i, reason=None) for member_id, i in asked.members]}


def _commit(asked: model.OffsetCommit, _version: int) -> Any:
    topic = consumer.OffsetCommitRequest.OffsetCommitRequestTopic
    part = topic.OffsetCommitRequestPartition
    topics = [
        topic(
            name=name,
            partitions=[
                part(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    commit_timestamp=-1,
                    committed_metadata=metadata,
                )
                for index, offset, epoch, metadata in parts
            ],
        )
        for name, parts in _by_topic(asked.offsets)
    ]
    keep_ms = -1 if asked.retention_time_ms is None else asked.retention_time_ms
    return {"generation_id_or_member_epoch": asked.generation, "retention_time_ms": keep_ms, "topics": topics}


def _fetch(asked: model.OffsetFetch, version: int) -> Any:
    schema = consumer.OffsetFetchRequest
    groups = schema.OffsetFetchRequestGroup
    topic = schema.OffsetFetchRequestTopic if version < 8 else groups.OffsetFetchRequestTopics
    topics = None
    if asked.partitions is not None:
        topics = [
            topic(name=name, partition_indexes=[index for (index,) in parts])
            for name, parts in _by_topic(asked.partitions)
        ]
    if version < 8:
        return {"topics": topics, "require_stable": asked.require_stable}
    group = groups(group_id=asked.group_id, member_id=None, member_epoch=-1, topics=topics)
    return {"groups": [group], "require_stable": asked.require_stable}


def _delete_offsets(asked: model.OffsetDelete, _version: int) -> Any:
    topic = consumer.OffsetDeleteRequest.OffsetDeleteRequestTopic
    part = topic.OffsetDeleteRequestPartition
    return {
        "topics": [
            topic(name=name, partitions=[part(partition_index=index) for (index,) in parts])
            for name, parts in _by_topic(asked.partitions)
        ]
    }


REQUESTS: dict[type, tuple[str, Callable[[Any, int], Any]]] = {
    model.JoinGroup: ("JoinGroup", _join),
    model.SyncGroup: ("SyncGroup", _sync),
    model.Heartbeat: ("Heartbeat", lambda asked, _version: {"generation_id": asked.generation}),
    model.LeaveGroup: ("LeaveGroup", _leave),
    model.OffsetCommit: ("OffsetCommit", _commit),
    model.OffsetFetch: ("OffsetFetch", _fetch),
    model.DescribeGroup: (
        "DescribeGroups",
        lambda asked, _version: {"groups": [asked.group_id], "include_authorized_operations": False},
    ),
    model.ListGroups: (
        "ListGroups",
        lambda asked, _version: {"states_filter": list(asked.states), "types_filter": list(asked.types)},
    ),
    model.DeleteGroup: ("DeleteGroups", lambda asked, _version: {"groups_names": [asked.group_id]}),
    model.OffsetDelete: ("OffsetDelete", _delete_offsets),
}


def asked(request: model.Request, ticket: int) -> Asked:
    """A request that `carried` gave, and how its answer will come."""
    return Asked(REQUESTS[type(request)][0], version_of(request, ticket), request)


def frame(what: Asked, correlation_id: int, client_id: str) -> bytes:
    """The request with header and length."""
    fields = REQUESTS[type(what.request)][1](what.request, what.version)
    for ours, theirs in (("group_id", "group_id"), ("member_id", "member_id"), ("instance_id", "group_instance_id")):
        if hasattr(what.request, ours):
            fields.setdefault(theirs, getattr(what.request, ours))
    schema = SCHEMAS[f"{what.api}Request"]
    known = {name: value for name, value in fields.items() if name in names(schema)}
    message = schema(version=what.version, **known)
    message.with_header(correlation_id, client_id)
    return bytes(message.encode(header=True, framed=True))


def names(schema: Any) -> set[str]:
    """The fields of a message."""
    return {field.name for field in schema._struct._fields}


def decoded(what: Asked, payload: bytes) -> Any:
    """An answer without its length: header and fields."""
    return SCHEMAS[f"{what.api}Response"].decode(payload, version=what.version, header=True)


def _joined(answer: model.JoinAnswer, what: Asked) -> Any:
    one = consumer.JoinGroupResponse.JoinGroupResponseMember
    return {
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        # null came with v7
        "protocol_name": answer.protocol_name if what.version >= 7 else answer.protocol_name or "",
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [
            one(member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata)
            for each in answer.members
        ],
    }


def _synced(answer: model.SyncAnswer, _what: Asked) -> Any:
    return {name: getattr(answer, name) for name in ("protocol_type", "protocol_name", "assignment")}


def _left(answer: model.LeaveAnswer, _what: Asked) -> Any:
    one = consumer.LeaveGroupResponse.MemberResponse
    return {
        "members": [
            one(member_id=each.member_id, group_instance_id=each.instance_id, error_code=ERRORS[each.error])
            for each in answer.members
        ]
    }


def _partitions(schema: Any, answer: model.CommitAnswer | model.OffsetDeleteAnswer) -> Any:
    topic = getattr(schema, f"{schema.name}Topic")
    part = getattr(topic, f"{schema.name}Partition")
    entries = [(each.topic, each.partition, each.error) for each in answer.partitions]
    return {
        "topics": [
            topic(
                name=name, partitions=[part(partition_index=index, error_code=ERRORS[error]) for index, error in parts]
            )
            for name, parts in _by_topic(entries)
        ]
    }


def _fetched(answer: model.FetchAnswer, what: Asked) -> Any:
    schema = consumer.OffsetFetchResponse
    nested = schema.OffsetFetchResponseGroup
    topic = schema.OffsetFetchResponseTopic if what.version < 8 else nested.OffsetFetchResponseTopics
    part = topic.OffsetFetchResponsePartition if what.version < 8 else topic.OffsetFetchResponsePartitions
    entries = [(each.topic, each) for each in answer.partitions]
    topics = [
        topic(
            name=name,
            partitions=[
                part(
                    partition_index=each.partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    metadata=each.metadata,
                    error_code=ERRORS[each.error],
                )
                for (each,) in parts
            ],
        )
        for name, parts in _by_topic(entries)
    ]
    if what.version < 8:
        return {"topics": topics}
    return {"groups": [nested(group_id=answer.group_id, topics=topics, error_code=ERRORS[answer.error])]}


def _described(answer: model.DescribeAnswer, _what: Asked) -> Any:
    group = admin.DescribeGroupsResponse.DescribedGroup
    one = group.DescribedGroupMember
    members = [
        one(
            member_id=each.member_id,
            group_instance_id=each.instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            member_metadata=each.metadata,
            member_assignment=each.assignment,
        )
        for each in answer.members
    ]
    shown = group(
        error_code=ERRORS[answer.error],
        error_message=answer.error_message,
        group_id=answer.group_id,
        group_state=answer.state,
        protocol_type=answer.protocol_type,
        protocol_data=answer.protocol_name,
        members=members,
        authorized_operations=None,
    )
    return {"groups": [shown]}


def _listed(answer: model.ListAnswer, _what: Asked) -> Any:
    one = admin.ListGroupsResponse.ListedGroup
    return {
        "groups": [
            one(group_id=each.group_id, protocol_type=each.protocol_type, group_state=each.state, group_type="classic")
            for each in answer.groups
        ]
    }


def _deleted(answer: model.DeleteAnswer, _what: Asked) -> Any:
    one = admin.DeleteGroupsResponse.DeletableGroupResult
    return {"results": [one(group_id=answer.group_id, error_code=ERRORS[answer.error])]}


ANSWERS: dict[type, Callable[[Any, Asked], Any]] = {
    model.JoinAnswer: _joined,
    model.SyncAnswer: _synced,
    model.HeartbeatAnswer: lambda _answer, _what: {},
    model.LeaveAnswer: _left,
    model.CommitAnswer: lambda answer, _what: _partitions(consumer.OffsetCommitResponse, answer),
    model.FetchAnswer: _fetched,
    model.DescribeAnswer: _described,
    model.ListAnswer: _listed,
    model.DeleteAnswer: _deleted,
    model.OffsetDeleteAnswer: lambda answer, _what: _partitions(consumer.OffsetDeleteResponse, answer),
}


def answer_payload(answer: model.Answer, what: Asked, correlation_id: int) -> bytes:
    """The answer that the server should give, with its header and without its length."""
    schema = SCHEMAS[f"{what.api}Response"]
    fields = ANSWERS[type(answer)](answer, what) | {"throttle_time_ms": 0}
    if hasattr(answer, "error") and "error_code" in names(schema):
        fields["error_code"] = ERRORS[answer.error]
    message = schema(version=what.version, **fields)
    message.with_header(correlation_id)
    return bytes(message.encode(header=True))
