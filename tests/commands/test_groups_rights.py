"""A user without rights learns which one is missing, and which ACL gives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota.groups.rights import Right, lacks

from .groups_scene import Ended, rota_groups

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
GIVEN = "ALLOW User:ben * {} GROUP LITERAL shipping"


@pytest.fixture(scope="module")
def guarded() -> Iterator[rota.Server]:
    """A server on which ben may do nothing."""
    acls = [f"ALLOW User:ana * ALL {kind}" for kind in ("GROUP LITERAL *", "TOPIC LITERAL *")]
    with rota.Server(sasl="PLAIN", users={"ana": "secret", "ben": "secret"}, acls=acls) as server:
        server.create_topic("orders")
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The properties of ben."""
    path = tmp_path / "ben.properties"
    login = f'sasl.jaas.config={LOGIN} username="ben" password="secret";'
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}\n")
    return path


def asked(server: rota.Server, file: Path, *arguments: str) -> Ended:
    return rota_groups(*arguments, "--bootstrap-server", server.bootstrap_servers, "--command-config", file)


@pytest.mark.parametrize(
    "arguments",
    [
        ("describe", "shipping"),
        ("delete", "shipping"),
        ("reset-offsets", "shipping", "--topic", "orders", "--to-latest"),
        ("remove-member", "shipping", "--member", "m"),
    ],
)
def test_a_group_that_an_acl_hides_is_refused_with_the_acl_that_shows_it(
    guarded: rota.Server, file: Path, arguments: tuple[str, ...]
) -> None:
    ended = asked(guarded, file, *arguments)
    says = f"rota: user ben may not DESCRIBE group shipping; add the ACL {GIVEN.format('DESCRIBE')}\n"
    assert (ended.code, ended.out, ended.err) == (1, "", says)


def test_with_the_acl_that_was_named_the_next_right_is_asked_for(guarded: rota.Server, file: Path) -> None:
    before = guarded.acls()
    rights = [GIVEN.format("DESCRIBE"), "ALLOW User:ben * DESCRIBE TOPIC LITERAL orders"]
    guarded.set_acls([*before, *rights])
    try:
        reset = ("reset-offsets", "shipping", "--topic", "orders", "--to-latest", "--create")
        assert asked(guarded, file, *reset).code == 0
        ended = asked(guarded, file, *reset, "--execute")
        guarded.set_acls([*before, *rights, GIVEN.format("READ")])
        of_topic = asked(guarded, file, *reset, "--execute")
        guarded.set_acls([*before, *rights, GIVEN.format("READ"), "ALLOW User:ben * READ TOPIC LITERAL orders"])
        assert asked(guarded, file, *reset, "--execute").code == 0
        undo = file.with_name("undo.csv")
        deleted = [
            asked(guarded, file, "delete", "shipping"),
            asked(guarded, file, "delete-offsets", "shipping", "--all-topics", "--undo", str(undo)),
        ]
    finally:
        guarded.set_acls(before)
    assert (ended.code, GIVEN.format("READ") in ended.err, "nothing was changed" in ended.err) == (1, True, True), ended
    assert "add the ACL ALLOW User:ben * READ TOPIC LITERAL orders; nothing was changed" in of_topic.err, of_topic
    for one in deleted:
        assert (one.code, GIVEN.format("DELETE") in one.err) == (1, True), one
    assert not undo.exists()


def test_a_list_without_groups_says_that_rights_may_be_missing(guarded: rota.Server, file: Path) -> None:
    ended = asked(guarded, file, "list")
    assert (ended.code, len(ended.out.splitlines())) == (0, 1)
    assert ended.err.startswith("rota: no group is visible: there is none, or this user lacks DESCRIBE")
    assert asked(guarded, file, "list", "--regex", "ship").err == "rota: no group matches these options\n"
    assert asked(guarded, file, "list", "--json").err == ""


def test_of_a_user_without_a_name_the_acl_has_a_place_for_it() -> None:
    told = lacks(None, Right("READ", "GROUP", ["a", "b"]))
    acls = "ALLOW User:NAME * READ GROUP LITERAL a, ALLOW User:NAME * READ GROUP LITERAL b"
    assert told == f"this user may not READ group a, b; add the ACLs {acls}"
