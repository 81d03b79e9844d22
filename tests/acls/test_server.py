"""ACLs of a running server: principals, changes, the data directory, the log of denials, heartbeats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from tests.acls.asking import EVERY, Asker, acl_fields
from tests.refusals import wait_for_refusal

PASSWORDS = {"admin": "a", "ana": "b"}
SETTINGS: dict[str, str | int] = {
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1,
}
READ = "ALLOW User:ana * READ GROUP LITERAL g"
NONE, TOPIC_REFUSED, GROUP_REFUSED, INVALID_REQUEST, DISABLED = 0, 29, 30, 42, 54


def serving(**options: Any) -> rota.Server:
    return rota.Server(**({"sasl": "PLAIN", "users": PASSWORDS, "acls": [READ], "settings": SETTINGS} | options))


@pytest.fixture
def server() -> Iterator[rota.Server]:
    with serving() as server:
        yield server
        assert server.panics == 0


def asker(server: rota.Server, user: str, node: int = 1) -> Asker:
    host, port = server.nodes()[node].rsplit(":", 1)
    return Asker((host, int(port)), user, PASSWORDS[user])


def join(client: Asker, group: str = "g") -> dict[str, Any]:
    """Make a group of one member, and return what its heartbeats say."""
    protocols = [{"name": "range", "metadata": b""}]
    member = {"group_id": group, "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocols": protocols}
    joined = client.ask("JoinGroup", 3, member | {"protocol_type": "consumer", "member_id": ""})
    assert joined["error_code"] == NONE, joined
    identity = {"group_id": group, "generation": joined["generation"], "member_id": joined["member_id"]}
    assert client.ask("SyncGroup", 2, identity)["error_code"] == NONE
    return identity


def beat(client: Asker, identity: dict[str, Any], version: int = 3) -> int:
    answer: int = client.ask("Heartbeat", version, identity)["error_code"]
    return answer


def test_a_heartbeat_is_refused_as_soon_as_the_acls_change(server: rota.Server) -> None:
    with asker(server, "ana") as ana:
        identity = join(ana)
        for _ in range(3):
            assert beat(ana, identity) == NONE
            server.set_acls([READ, "DENY User:ana * READ GROUP PREFIXED g"])
            assert [beat(ana, identity) for _ in range(3)] == [GROUP_REFUSED] * 3
            server.set_acls([READ])
            assert [beat(ana, identity) for _ in range(3)] == [NONE] * 3


def test_a_verdict_about_one_group_is_none_about_another(server: rota.Server) -> None:
    with asker(server, "ana") as ana, asker(server, "admin") as admin:
        own, others = join(ana), join(admin, "other")
        # The other group's member is real, but ana may not speak for it.
        assert [beat(ana, identity) for identity in (own, others, own, others)] == [NONE, GROUP_REFUSED] * 2
        assert [beat(admin, identity) for identity in (own, others)] == [NONE, NONE]


def test_a_change_by_one_node_counts_at_every_node() -> None:
    with serving(nodes=2, acls=[]) as server, asker(server, "admin", 2) as admin:
        host, port = server.nodes()[1].rsplit(":", 1)
        with Asker((host, int(port)), "ana", PASSWORDS["ana"]) as ana:
            find = ("FindCoordinator", 3, {"key": "g", "key_type": 0})
            assert ana.ask(*find)["error_code"] == GROUP_REFUSED
            created = admin.ask("CreateAcls", 3, {"creations": [acl_fields(READ)]})
            assert created["results"] == [{"error_code": NONE, "error_message": ""}]
            assert ana.ask(*find)["error_code"] == NONE
            assert server.acls() == [READ]
            deleted = admin.ask("DeleteAcls", 3, {"filters": [EVERY]})["filter_results"]
            assert [len(result["matching_acls"]) for result in deleted] == [1]
            assert ana.ask(*find)["error_code"] == GROUP_REFUSED


def test_acls_outlive_the_server_in_its_data_directory(tmp_path: Path) -> None:
    other = "DENY User:CN=a%20b * ALL TOPIC PREFIXED %25"
    with serving(data=tmp_path / "data") as server:
        server.set_acls([*server.acls(), other])
    with serving(data=tmp_path / "data", acls=[]) as server:
        assert sorted(server.acls()) == sorted([READ, other])
        server.set_acls([])
    with serving(data=tmp_path / "data") as server:
        assert server.acls() == [], "an empty set is one, too"


def test_a_damaged_file_of_acls_ends_the_start(tmp_path: Path) -> None:
    with serving(data=tmp_path / "data"):
        pass
    file = tmp_path / "data" / "rota.acls"
    file.write_text(file.read_text().replace("ana", "bob"))
    with pytest.raises(OSError, match=r"rota\.acls.*its checksum is wrong"):
        serving(data=tmp_path / "data")


def test_denials_are_logged_in_kafkas_words_and_not_often(server: rota.Server) -> None:
    with asker(server, "ana") as ana:
        for _ in range(5):
            ana.ask("Metadata", 9, {"topics": [{"name": "no"}]})
    assert server.denied_requests() == [
        "Principal = User:ana is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = Topic:LITERAL:no for"
        " request = Metadata with resourceRefCount = 1 based on rule DefaultDeny"
    ]
    assert server.denied_requests() == []
    server.set_acls(["DENY User:* * ALL TOPIC PREFIXED n"])
    with asker(server, "ana") as ana:
        ana.ask("Metadata", 9, {"topics": [{"name": "no"}]})
        # To look at all topics, or for bits of operations, is not to ask for one.
        ana.ask("Metadata", 9, {"topics": None, "include_topic_authorized_operations": True})
    (line,) = server.denied_requests()
    assert line.endswith(
        "based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=n, patternType=PREFIXED, "
        "principal=User:*, host=*, operation=ALL, permissionType=DENY])"
    )


@pytest.mark.parametrize(("rights", "bits"), [(["IDEMPOTENT_WRITE"], 0), (["IDEMPOTENT_WRITE", "DESCRIBE"], 4352)])
def test_what_a_client_may_do_on_the_cluster_is_told_to_those_who_may_describe_it(
    server: rota.Server, rights: list[str], bits: int
) -> None:
    server.set_acls([f"ALLOW User:ana * {right} CLUSTER LITERAL kafka-cluster" for right in rights])
    with asker(server, "ana") as ana:
        told = ana.ask("DescribeCluster", 0, {"include_cluster_authorized_operations": True})
        assert told["cluster_authorized_operations"] == bits
        told = ana.ask("Metadata", 9, {"topics": [], "include_cluster_authorized_operations": True})
        assert told["cluster_authorized_operations"] == bits


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "User:CN=ana"),
        ("RULE:^CN=(.*)$/$1/U", "User:ANA"),
        ("RULE:^CN=bob$/x/,DEFAULT", "User:CN=ana"),
    ],
)
def test_a_certificate_names_its_principal(rules: str, principal: str) -> None:
    from confluent_kafka.admin import AdminClient

    authority = rota.Authority()
    settings = {"ssl.principal.mapping.rules": rules}
    with rota.Server(tls=authority.tls(client_auth="required"), acls=[], settings=settings) as server:
        server.create_topic("t")
        admin = AdminClient(server.client_config("librdkafka", authority.issue(name="ana")))
        assert admin.list_topics(timeout=60).topics == {}
        server.set_acls([f"ALLOW {principal} * DESCRIBE TOPIC LITERAL t"])
        assert list(admin.list_topics(timeout=60).topics) == ["t"]


def with_sasl_beside_tls(authority: rota.Authority, **options: Any) -> rota.Server:
    """A server that asks for certificates at its first listener, TLS, and for passwords at another one."""
    settings = {
        "listeners": "TLS://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "TLS:SSL,OUT:SASL_SSL",
    }
    tls = authority.tls(client_auth="required")
    settings |= options.pop("settings", {})
    return rota.Server(tls=tls, sasl="PLAIN", users=PASSWORDS, settings=settings, **options)


def test_a_certificate_names_its_principal_beside_a_listener_with_sasl() -> None:
    from confluent_kafka.admin import AdminClient

    authority = rota.Authority()
    rules = ["ALLOW User:* * DESCRIBE TOPIC PREFIXED p", "DENY User:CN=eve * ALL TOPIC LITERAL pay"]
    with with_sasl_beside_tls(authority, acls=rules) as server:
        server.create_topic("pay")
        for name, sees in (("ana", ["pay"]), ("eve", [])):
            admin = AdminClient(server.client_config("librdkafka", authority.issue(name=name), listener="TLS"))
            assert list(admin.list_topics(timeout=60).topics) == sees
        config = server.client_config("librdkafka", authority.issue(name="eve"), listener="OUT", user="ana")
        assert list(AdminClient(config).list_topics(timeout=60).topics) == ["pay"], "with SASL the user counts"


def test_a_client_without_certificate_and_user_is_anonymous() -> None:
    from confluent_kafka.admin import AdminClient

    with rota.Server(acls=["ALLOW User:ANONYMOUS * DESCRIBE TOPIC LITERAL t"]) as server:
        server.create_topic("t")
        server.create_topic("other")
        admin = AdminClient(server.client_config("librdkafka"))
        assert list(admin.list_topics(timeout=60).topics) == ["t"]


def test_a_certificate_that_no_rule_maps_is_refused() -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    authority = rota.Authority()
    settings = {"ssl.principal.mapping.rules": "RULE:^CN=bob$/x/"}
    for server in (
        rota.Server(tls=authority.tls(client_auth="required"), settings=settings),
        with_sasl_beside_tls(authority, settings=settings),
    ):
        with server:
            admin = AdminClient(server.client_config("librdkafka", authority.issue(name="ana")))
            with pytest.raises(KafkaException):
                admin.list_topics(timeout=2)
            wait_for_refusal(server, "no rule of ssl.principal.mapping.rules matches")


def test_a_topic_that_a_request_names_twice_is_answered_once_whatever_the_rights(server: rota.Server) -> None:
    topic = {"name": "no", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    created = {"topics": [topic, topic], "timeout_ms": 1_000, "validate_only": False}
    grown = {
        "topics": [{"name": "no", "count": 2, "assignments": None}] * 2,
        "timeout_ms": 1_000,
        "validate_only": False,
    }
    with asker(server, "ana") as ana:
        answer = ana.ask("CreateTopics", 5, created)
        assert [topic["error_code"] for topic in answer["topics"]] == [INVALID_REQUEST]
        assert [topic["error_code"] for topic in ana.ask("CreatePartitions", 2, grown)["results"]] == [INVALID_REQUEST]
        asked = {"topics": [{"name": "no"}] * 2, "allow_auto_topic_creation": False}
        assert [topic["error_code"] for topic in ana.ask("Metadata", 4, asked)["topics"]] == [TOPIC_REFUSED]


def test_without_an_authorizer_there_are_no_acls() -> None:
    with serving(acls=None, settings={}) as server, asker(server, "ana") as ana:
        for api, fields in (("DescribeAcls", EVERY), ("CreateAcls", {"creations": [acl_fields(READ)]})):
            answer = ana.ask(api, 3, fields)
            assert answer.get("error_code", answer.get("results", [answer])[0].get("error_code")) == DISABLED
        assert not server.has_acls
        with pytest.raises(ValueError, match="has no authorizer"):
            server.acls()
        with pytest.raises(ValueError, match="has no authorizer"):
            server.set_acls([])


def test_resources_without_acls_can_be_open_to_everyone() -> None:
    settings = {"allow.everyone.if.no.acl.found": True}
    with (
        serving(settings=settings, acls=["ALLOW User:bob * READ GROUP LITERAL g"]) as server,
        asker(server, "ana") as ana,
    ):
        found = [ana.ask("FindCoordinator", 3, {"key": key, "key_type": 0})["error_code"] for key in ("g", "h")]
        assert found == [GROUP_REFUSED, NONE]


@pytest.mark.parametrize(
    ("acls", "says"),
    [
        (["ALLOW User:ana"], "line 1: expected `PERMISSION PRINCIPAL HOST OPERATION TYPE PATTERN NAME`"),
        ([READ, "ALLOW ana * READ GROUP LITERAL g"], "line 2: Could not parse principal from `ana`"),
    ],
)
def test_a_malformed_acl_is_refused_with_its_line(acls: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        serving(acls=acls)
    with serving() as server:
        with pytest.raises(ValueError, match=re.escape(says)):
            server.set_acls(acls)
        assert server.acls() == [READ]


def test_the_acls_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "acls"
    file.write_text(f"# whom we know\n\n{READ}\n")
    with serving(acls=file) as server:
        assert server.acls() == [READ]
