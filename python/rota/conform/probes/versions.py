"""Which versions there are, and what each answer has in each of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial

from rota.codec import Api, Fields, apis, write_request
from rota.conform.probes.talk import Talk, probe
from rota.conform.rows import Row

#: The APIs of a broker by key, as Apache Kafka names them.
NAMES = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch",
    10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup", 15: "DescribeGroups",
    16: "ListGroups", 18: "ApiVersions", 19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords",
    22: "InitProducerId", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn",
    27: "WriteTxnMarkers", 28: "TxnOffsetCommit",
    32: "DescribeConfigs", 37: "CreatePartitions", 42: "DeleteGroups", 47: "OffsetDelete", 60: "DescribeCluster",
    61: "DescribeProducers", 65: "DescribeTransactions", 66: "ListTransactions",
    68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe",
}  # fmt: skip
#: The version of every API of a session but the one that a row is about. Sessions of the newer protocol are recorded
#: by themselves (`rota.conform.consumer`).
USUAL = {
    "FindCoordinator": 4, "JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "OffsetCommit": 7, "OffsetFetch": 5,
    "DescribeGroups": 5, "ListGroups": 4, "OffsetDelete": 0, "LeaveGroup": 4, "DeleteGroups": 2, "Metadata": 8,
    "ApiVersions": 3, "CreateTopics": 5, "DeleteTopics": 4,
}  # fmt: skip
FIRST_COMMIT_WITH_IDS = 10
FIRST_FETCH_WITH_GROUPS, FIRST_FETCH_WITH_IDS = 8, 10


def rows() -> Iterator[Row]:
    """A row for each API's range, for each of its versions, and for the version after the last."""
    for key, name in NAMES.items():
        yield probe(f"ranges/{name}", f"the versions of {name}", "17.3", partial(_range, key=key))
    for api in (each for each in apis().values() if each.name in USUAL):
        for version in range(api.first, api.last + 1):
            says = f"the fields of an answer to {api.name} v{version}"
            yield probe(
                f"fields/{api.name}-v{version}",
                says,
                "17.3",
                partial(_session, about=api, version=version),
                needs_topics=api.name.startswith(("Offset", "Metadata")),
            )
        says = f"{api.name} in a version that is yet to come"
        yield probe(f"fields/{api.name}-next", says, "17.3", partial(_next, api=api))


def _range(talk: Talk, key: int) -> None:
    found = talk.ask("x", "ApiVersions", 0, {})
    ranges = {each["api_key"]: f"{each['min_version']}-{each['max_version']}" for each in found["api_keys"]}
    talk.show("ApiVersions v0", ranges.get(key, "none"))


def _next(talk: Talk, api: Api) -> None:
    """The newest version's request with the number after it."""
    frame = write_request(api, api.last, 1, "x", {})
    frame = frame[:2] + struct.pack(">h", api.last + 1) + frame[4:]
    talk.step = f"{api.name} v{api.last + 1}"
    talk.on("x").send_frame(frame, f"{talk.step}, with the fields of v{api.last}")
    answer = talk.on("x").frame()
    talk.show(talk.step, f"error {struct.unpack_from('>h', answer, 4)[0]}" if len(answer) >= 6 else answer.hex())


def _session(talk: Talk, about: Api, version: int) -> None:
    """The life of a group, with one API in the version that the row is about."""

    def say(api: str, values: Fields) -> Fields:
        if api == about.name:
            answer = talk.ask("a", api, talk.exactly(api, version), values, talk.patience_s)
            if api == "ApiVersions":
                answer |= {"api_keys": "*"}
            talk.show_answer(f"{api} v{version}", answer)
            return answer
        return talk.ask("a", api, talk.version(api, USUAL[api]), values, talk.patience_s)

    if about.name in ("Metadata", "ApiVersions", "CreateTopics", "DeleteTopics", "FindCoordinator"):
        say(about.name, _of_the_broker(talk)[about.name])
        return
    joining = talk.joining("a")
    joined = say("JoinGroup", joining)
    if joined["error_code"]:
        joined = say("JoinGroup", joining | {"member_id": joined["member_id"]})
    say("SyncGroup", talk.syncing(joined))
    say("Heartbeat", talk.speaking(joined))
    if about.name.startswith("Offset"):
        say("OffsetCommit", talk.speaking(joined) | {"retention_time_ms": -1} | _committing(talk, about, version))
        say("OffsetFetch", _fetching(talk, about, version))
    if about.name == "DescribeGroups":
        say("DescribeGroups", {"groups": [talk.group]})
    if about.name == "ListGroups":
        answer = talk.ask("a", "ListGroups", talk.exactly("ListGroups", version), {})
        own = [each for each in answer["groups"] if each["group_id"] == talk.group]
        talk.show_answer(f"ListGroups v{version}", answer | {"groups": own})
    leaver = {"member_id": joined["member_id"]}
    say("LeaveGroup", {"group_id": talk.group, "members": [leaver]} | leaver)
    if about.name == "OffsetDelete":
        parts = [{"name": talk.visit.topic("t"), "partitions": [{"partition_index": 0}]}]
        say("OffsetDelete", {"group_id": talk.group, "topics": parts})
    if about.name == "DeleteGroups":
        say("DeleteGroups", {"groups_names": [talk.group]})


def _of_the_broker(talk: Talk) -> dict[str, Fields]:
    nowhere = f"{talk.visit.prefix}nowhere"
    return {
        "FindCoordinator": {"key": talk.group, "key_type": 0, "coordinator_keys": [talk.group]},
        "Metadata": {"topics": [{"name": talk.visit.topic("t")}]},
        "ApiVersions": {"client_software_name": "rota", "client_software_version": "1", "node_id": -1},
        "CreateTopics": {
            "topics": [{"name": nowhere, "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 5_000,
            "validate_only": True,
        },
        "DeleteTopics": {"topics": [{"name": nowhere}], "topic_names": [nowhere], "timeout_ms": 5_000},
    }


def _topic(talk: Talk, by_id: bool) -> Fields:
    return {"topic_id": talk.visit.topic_id("t")} if by_id else {"name": talk.visit.topic("t")}


def _committing(talk: Talk, about: Api, version: int) -> Fields:
    by_id = about.name == "OffsetCommit" and version >= FIRST_COMMIT_WITH_IDS
    parts = [{"partition_index": 0, "offset": 5, "leader_epoch": -1, "metadata": "m"}]
    return {"topics": [_topic(talk, by_id) | {"partitions": parts}]}


def _fetching(talk: Talk, about: Api, version: int) -> Fields:
    if about.name != "OffsetFetch":
        version = USUAL["OffsetFetch"]
    topics = [_topic(talk, version >= FIRST_FETCH_WITH_IDS) | {"partition_indexes": [0, 1]}]
    group = {"group_id": talk.group, "member_id": None, "member_epoch": -1, "topics": topics}
    return group | {"groups": [group]}
