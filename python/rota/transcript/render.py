"""From effects to the lines of a transcript. What goes without saying is left out; anything unusual is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rota
from rota.transcript import consumer
from rota.transcript.cast import DEFAULT_REBALANCE_MS, DEFAULT_SESSION_MS, Cast, duration_text
from rota.transcript.subject import Answer, Append, Explanation

Fields = dict[str, Any]


def text(data: bytes) -> str:
    """Metadata and assignments as short words; subscriptions as `[t+u]` or `[t|t:0-2]`; `-` for none."""
    if data.startswith((b"\0\0", b"\0\1")):
        subscription = rota.protocol.decode_subscription(data)
        owned = f"|{consumer.shown(subscription.owned_partitions)}" if subscription.version else ""
        return f"[{'+'.join(subscription.topics)}{owned}]"
    return data.decode("ascii", "backslashreplace") or "-"


def assigned(data: bytes) -> str:
    """An assignment: a short word, or partitions as `[t:0-2]` if it is one of the embedded protocol."""
    if not data.startswith(b"\0"):
        return text(data)
    return f"[{consumer.shown(rota.protocol.decode_assignment(data).partitions)}]"


def answer(cast: Cast, effect: Answer) -> str:
    """Everything after `a<`."""
    return ANSWERS[effect.api](cast, effect.fields)


def _protocol(fields: Fields) -> str:
    if fields["protocol_type"] is None and fields["protocol_name"] is None:
        return ""
    return f" protocol={fields['protocol_type'] or '-'}/{fields['protocol_name'] or '-'}"


def _join(cast: Cast, fields: Fields) -> str:
    line = f"{fields['error']}"
    if fields["error"] == "NONE" or fields["generation"] != -1:
        line += f" generation={cast.show_generation(fields['generation'])}"
    line += _protocol(fields)
    if fields["error"] == "NONE" or fields["leader"]:
        line += f" leader={cast.show_id(fields['leader'])}"
    line += f" member={cast.show_id(fields['member_id'])}"
    members = [
        cast.show_id(member_id) + (f"/{instance}" if instance else "") + f":{text(metadata)}"
        for member_id, instance, metadata in fields["members"]
    ]
    if members:
        line += f" members={','.join(members)}"
    return line + (" skip_assignment" if fields["skip_assignment"] else "")


def _sync(_cast: Cast, fields: Fields) -> str:
    line = f"{fields['error']}{_protocol(fields)}"
    if fields["error"] == "NONE" or fields["assignment"]:
        line += f" assignment={assigned(fields['assignment'])}"
    return line


def _heartbeat(_cast: Cast, fields: Fields) -> str:
    return str(fields["error"])


def _leave(cast: Cast, fields: Fields) -> str:
    members = [
        cast.show_id(member_id) + (f"/{instance}" if instance else "") + f":{error}"
        for member_id, instance, error in fields["members"]
    ]
    return " ".join([fields["error"], *members])


def _commit(_cast: Cast, fields: Fields) -> str:
    return " ".join(f"{topic}/{index}:{error}" for topic, parts in fields["topics"] for index, error in parts)


def offset(value: int, leader_epoch: int, metadata: str) -> str:
    """`5@3:meta`, `none`."""
    if (value, leader_epoch, metadata) == (-1, -1, ""):
        return "none"
    epoch = f"@{leader_epoch}" if leader_epoch != -1 else ""
    shown = metadata if len(metadata) <= 12 else f"{metadata[0]}*{len(metadata)}"
    return f"{value}{epoch}" + (f":{shown}" if metadata else "")


def _fetch(_cast: Cast, fields: Fields) -> str:
    parts = [
        f"{topic}/{index}={offset(value, epoch, metadata)}" + (f"!{error}" if error != "NONE" else "")
        for topic, partitions in fields["topics"]
        for index, value, epoch, metadata, error in partitions
    ]
    return " ".join([fields["error"], *parts])


def _describe(cast: Cast, fields: Fields) -> str:
    words = [fields["error"], fields["state"] or "-"]
    if fields["protocol_type"] or fields["protocol_name"]:
        words.append(f"protocol={fields['protocol_type'] or '-'}/{fields['protocol_name'] or '-'}")
    for member_id, instance, client_id, host, metadata, assignment in fields["members"]:
        unusual = "" if client_id == member_id[:-37] and host == "/127.0.0.1" else f"[{client_id}@{host}]"
        instance_text = f"/{instance}" if instance else ""
        words.append(f"{cast.show_id(member_id)}{instance_text}{unusual}:{text(metadata)}:{assigned(assignment)}")
    if fields["error_message"] is not None:
        words.append(f'"{fields["error_message"]}"')
    return " ".join(words)


def _list(_cast: Cast, fields: Fields) -> str:
    groups = [f"{group_id}({kind or '-'},{state})" for group_id, kind, state in fields["groups"]]
    return " ".join([fields["error"], *groups])


def _delete(_cast: Cast, fields: Fields) -> str:
    return str(fields["error"])


def _offset_delete(_cast: Cast, fields: Fields) -> str:
    parts = [f"{topic}/{index}:{error}" for topic, partitions in fields["topics"] for index, error in partitions]
    return " ".join([fields["error"], *parts])


ANSWERS: dict[str, Callable[[Cast, Fields], str]] = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "DescribeGroup": _describe,
    "ListGroups": _list,
    "DeleteGroup": _delete,
    "OffsetDelete": _offset_delete,
    "ConsumerGroupHeartbeat": consumer.heartbeat_answer,
    "ConsumerGroupDescribe": consumer.describe_answer,
}


def append(cast: Cast, effect: Append) -> str:
    """`log group g generation=1 ...`; several records of one batch are joined by ` + `."""
    return "log " + " + ".join(_record(cast, record) for record in effect.records)


def _record(cast: Cast, record: Fields) -> str:
    if record["kind"].startswith("consumer"):
        return consumer.record(record)
    value = record["value"]
    if record["kind"] == "offset":
        place = f"offset {record['group_id']} {record['topic']}/{record['partition']}"
        if value is None:
            return f"{place} tombstone"
        shown = f"{place}={offset(value['offset'], value['leader_epoch'], value['metadata'])}"
        if value["expire_timestamp_ms"] is not None:
            shown += f" expires=+{duration_text(value['expire_timestamp_ms'] - value['commit_timestamp_ms'])}"
        return shown
    head = f"group {record['group_id']}"
    if value is None:
        return f"{head} tombstone"
    head += f" generation={cast.show_generation(value['generation'])}"
    if value["protocol_type"] or value["protocol_name"]:
        head += f" protocol={value['protocol_type'] or '-'}/{value['protocol_name'] or '-'}"
    if value["leader"] is not None:
        head += f" leader={cast.show_id(value['leader'])}"
    members = [_stored_member(cast, member) for member in value["members"]]
    return head + (f" members={','.join(members)}" if members else " empty")


def _stored_member(cast: Cast, member: Fields) -> str:
    shown = cast.show_id(member["member_id"])
    if member["instance_id"]:
        shown += f"/{member['instance_id']}"
    if member["client_id"] != member["member_id"][:-37] or member["client_host"] != "/127.0.0.1":
        shown += f"[{member['client_id']}@{member['client_host']}]"
    shown += f":{text(member['subscription'])}:{assigned(member['assignment'])}"
    timeouts = (member["session_timeout_ms"], member["rebalance_timeout_ms"])
    if timeouts != (DEFAULT_SESSION_MS, DEFAULT_REBALANCE_MS):
        shown += f":{duration_text(timeouts[0])}/{duration_text(timeouts[1])}"
    return shown


WAITING = {
    "InitialDelay": "waiting for the initial delay, ends in {left}",
    "Rejoin": "waiting for {who} to rejoin, at most {left}",
    "Pending": "waiting for pending {who}, at most {left}",
    "LeaderSync": "waiting for the leader {who} to sync, at most {left}",
    "Sync": "waiting for {who} to sync, at most {left}",
    "Append": "waiting for the log, at most {left}",
}


def explanation(cast: Cast, told: Explanation | None, now_ms: int) -> list[str]:
    """What `why` would print, one line per fact. Why a group rebalanced is shown while it rebalances."""
    if told is None:
        return ["no such group"]
    generation = cast.show_generation(told.generation)
    lines = [f"{told.state} generation={generation} since {duration_text(now_ms - told.since_ms)}"]
    for wait in told.waiting:
        left = duration_text(wait.until_ms - now_ms)
        lines.append(WAITING[wait.what].format(who=cast.show_id(wait.member_id), left=left))
    if told.last_rebalance is not None:
        cause, member_id = told.last_rebalance
        lines.append(f"because {cause} {cast.show_id(member_id)}" if member_id else f"because {cause}")
    return lines
