"""Every error has a name, an exit code and one line; nothing is half done."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from kafka.errors import TopicAuthorizationFailedError
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.groups import changes, options
from rota.groups.cluster import Cluster, Committed, Partition
from rota.groups.errors import GroupsError, Kind, misused
from rota.groups.options import again
from rota.groups.plan import Step
from rota.groups.values import Goal, Target, chosen

from .conftest import SETTINGS
from .groups_scene import Scene, rota_groups

SOMEWHERE = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("describe", "g", "--all-groups"), "give groups, or --all-groups, or --regex: one of them"),
        (("describe",), "give groups, or --all-groups, or --regex: one of them"),
        (("describe", "--regex", "("), "--regex is `(`: missing ), unterminated subpattern at position 0"),
        (("describe", "g", "--members", "--state"), "--offsets, --members and --state are different views"),
        (("list", "--state", "asleep"), "--state is `asleep`: give one or more of Empty, Stable"),
        (("reset-offsets", "g", "--topic", "t"), "give one of --to-earliest, --to-latest, --to-current"),
        (
            ("reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-offset", "1"),
            "--to-earliest and --to-offset contradict each other",
        ),
        (("reset-offsets", "g", "--to-earliest"), "which partitions? give --topic or --all-topics"),
        (("reset-offsets", "g", "--from-file", "f", "--topic", "t"), "--from-file says which partitions are meant"),
        (
            ("reset-offsets", "g", "--all-topics", "--to-latest", "--dry-run", "--execute"),
            "--dry-run and --execute contradict each other",
        ),
        (
            ("reset-offsets", "g", "--all-topics", "--to-latest", "--export", "--json"),
            "--export and --json are two forms",
        ),
        (("reset-offsets", "g", "--group", "g", "--all-topics", "--to-latest"), "GROUP and --group are given both"),
        (
            ("reset-offsets", "--group", "a", "--group", "b", "--all-topics", "--to-latest"),
            "--group is given for `a` and `b`: give one group at a time",
        ),
        (("delete-offsets", "--group", "a", "--group", "b", "--topic", "t"), "--group is given for `a` and `b`"),
        (("remove-member", "g"), "give --member or --instance, one of them"),
        (("remove-member", "g", "--member", "m", "--instance", "i"), "give --member or --instance, one of them"),
        (("delete-offsets", "g", "--topic", "t", "--all-topics"), "--topic and --all-topics contradict each other"),
        (("list", "--command-property", "security.protocl=SSL"), "did you mean `security.protocol`?"),
        (("list", "--command-property", "retry.backoff.ms=soon"), "retry.backoff.ms is `soon`: give a whole number"),
        (("list", "--command-config", "/no/such/file"), "--command-config `/no/such/file`: "),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_a_broker_is_asked(
    arguments: tuple[str, ...], says: str
) -> None:
    ended = rota_groups(*arguments, *SOMEWHERE, "--json")
    told = json.loads(ended.err)
    assert (ended.code, ended.out, told["error"]) == (2, "", "misused"), ended.err
    assert says in told["message"]


def test_a_topic_that_is_named_twice_has_the_partitions_of_both() -> None:
    assert chosen(["t:1", "u:0", "t:0,1"]) == {"t": {0, 1}, "u": {0}}
    assert chosen(["t:1", "t"]) == chosen(["t", "t:1"]) == {"t": None}


WRONG_VALUES = pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--to-offset", "-1"),
        ("--to-offset", "first"),
        ("--to-offset", "99999999999999999999"),
        ("--shift-by", "1.5"),
        ("--to-datetime", "yesterday"),
        ("--by-duration", "1h"),
        ("--by-duration", "P1DT"),
        ("--by-duration", "P999999999999D"),
        ("--topic", "t:x"),
    ],
)


@WRONG_VALUES
def test_a_value_that_cannot_be_is_refused_before_a_broker_is_asked(option: str, value: str) -> None:
    scope = ("--to-latest",) if option == "--topic" else ("--all-topics",)
    ended = rota_groups("reset-offsets", "g", *scope, f"{option}={value}", *SOMEWHERE)
    assert (ended.code, ended.err.startswith(f"rota: {option} is `{value}`: give ")) == (2, True), ended.err


@WRONG_VALUES
def test_a_value_that_cannot_be_changes_nothing(own_scene: Scene, option: str, value: str) -> None:
    topic = own_scene.topic(2)
    own_scene.commit(topic, {0: 1})
    scope = ("--to-latest",) if option == "--topic" else ("--topic", topic)
    ended = own_scene.run("reset-offsets", own_scene.group, *scope, f"{option}={value}", "--execute")
    assert (ended.code, ended.err.startswith(f"rota: {option} is `{value}`: give ")) == (2, True), ended.err
    assert own_scene.committed(topic) == {0: 1}


def test_a_wrong_value_or_file_counts_before_members_do(own_scene: Scene) -> None:
    topic = own_scene.topic(1)
    own_scene.member(topic)
    for wrong in (["--to-datetime", "yesterday", "--topic", topic], ["--from-file", "/no/such/file"]):
        ended = own_scene.run("reset-offsets", own_scene.group, *wrong, "--execute")
        assert (ended.code, ended.err.startswith(f"rota: {wrong[0]}")) == (2, True), ended.err


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("missing", "No such file or directory; give a file that --plan or --undo wrote"),
        (".", "Is a directory; give a file that --plan or --undo wrote"),
        ("bytes", "it is not text; give a file that --plan or --undo wrote"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_before_a_broker_is_asked(
    file: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bytes").write_bytes(b"\xff\xfe")
    ended = rota_groups("reset-offsets", "g", "--from-file", file, "--bootstrap-server", "127.0.0.1:1")
    assert (ended.code, ended.out, ended.err) == (2, "", f"rota: --from-file is `{file}`: {says}\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--lst", "there is no option --lst: did you mean the command `rota groups list`?"),
        (
            "--plan",
            "there is no option --plan here: write it behind the command, as in `rota groups reset-offsets --plan`",
        ),
        (
            "--bootstrap-server",
            "there is no option --bootstrap-server here: write it behind the command, as in `rota groups COMMAND "
            "--bootstrap-server`; COMMAND is list, describe, reset-offsets, delete, delete-offsets, "
            "remove-member or watch",
        ),
        ("--none-such", "there is no option --none-such; `rota groups -h` lists what there is"),
    ],
)
def test_an_option_in_front_of_the_command_says_where_it_belongs(words: str, says: str) -> None:
    ended = CliRunner().invoke(app, ["groups", *words.split()], prog_name="rota")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", f"rota: {says}\n")


def test_a_command_for_later_reaches_the_same_broker_and_shows_no_secret() -> None:
    told = again("h:1", Path("of ana"), ["sasl.password=secret", "security.protocol=SSL"])
    properties = "--command-property sasl.password=... --command-property security.protocol=..."
    assert told == f" --bootstrap-server h:1 --command-config 'of ana' {properties}"


def test_a_deletion_of_several_groups_says_that_none_was_deleted(own_scene: Scene) -> None:
    topic = own_scene.topic(1)
    own_scene.commit(topic, {0: 1})
    ended = own_scene.run("delete", own_scene.group, "none-such")
    assert (ended.code, ended.err) == (3, "rota: there is no group `none-such`; none of the 2 groups was deleted\n")
    ended = own_scene.run("delete", "--regex", "none-such")
    assert (ended.code, ended.out) == (0, "no group matches --regex `none-such`: nothing was deleted\n")
    assert own_scene.run("describe", own_scene.group).code == 0


def test_a_description_of_no_group_says_so(own_scene: Scene) -> None:
    for view in ([], ["--members"], ["--state"]):
        ended = own_scene.run("describe", "--regex", "none-such", *view)
        assert (ended.code, ended.out) == (0, "no group matches --regex `none-such`\n")
    assert own_scene.run("describe", "--regex", "none-such", "--json").out == "[]\n"


def test_a_wrong_option_is_json_where_errors_are() -> None:
    for words in (["watch", "g", "--interval", "0"], ["list", "--timeout-ms", "0"], ["list", "--no-such-option"]):
        plain, as_json = rota_groups(*words), rota_groups(*words, "--json")
        assert (plain.code, as_json.code, as_json.out) == (2, 2, "")
        assert plain.err == f"rota: {json.loads(as_json.err)['message']}\n"
        assert json.loads(as_json.err)["error"] == "misused"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("GROUP_AUTHORIZATION_FAILED", "add the ACL ALLOW User:NAME * READ GROUP LITERAL {group}"),
        ("INVALID_COMMIT_OFFSET_SIZE", "refused {topic}-0, {topic}-1: InvalidCommitOffsetSize"),
    ],
)
def test_what_a_broker_refuses_is_named_and_changes_nothing(
    own_scene: Scene, server: rota.Server, error: str, says: str
) -> None:
    topic = own_scene.topic(4, 4)
    own_scene.commit(topic, {0: 1})
    server.inject_error("OffsetCommit", error, group=own_scene.group)
    ended = own_scene.run("reset-offsets", own_scene.group, "--topic", topic, "--to-latest", "--execute")
    assert ended.code == 1
    assert ended.err.endswith(f"{says.format(group=own_scene.group, topic=topic)}; nothing was changed\n"), ended
    assert own_scene.committed(topic) == {0: 1}


class RefusesOne(Cluster):
    """A cluster that takes no offset of one partition."""

    refused: Partition

    def alter(self, group: str, offsets: Mapping[Partition, Committed]) -> dict[Partition, type[Exception]]:
        taken = {at: one for at, one in offsets.items() if at != self.refused}
        codes = super().alter(group, taken) if taken else {}
        return codes | dict.fromkeys(offsets.keys() - taken.keys(), TopicAuthorizationFailedError)


def test_when_one_partition_is_refused_the_others_are_put_back(own_scene: Scene, tmp_path: Path) -> None:
    topic = own_scene.topic(4, 4, 4)
    own_scene.commit(topic, {0: 1, 1: 2})
    with RefusesOne(own_scene.bootstrap, {}, 10_000) as cluster:
        cluster.refused = topic, 1
        planned = changes.reset(cluster, own_scene.group, Goal(Target.TO_LATEST, ""), [topic], None, execute=True)
        undo = tmp_path / "undo.csv"
        changes.keep(own_scene.group, planned, None, undo)
        with pytest.raises(GroupsError, match=f"refused {topic}-1: TopicAuthorizationFailed; nothing was changed"):
            changes.apply(cluster, own_scene.group, planned, undo)
    assert own_scene.committed(topic) == {0: 1, 1: 2}
    assert not undo.exists(), "there is nothing to undo"


def test_an_offset_that_was_deleted_comes_back_when_another_partition_is_refused(own_scene: Scene) -> None:
    topic = own_scene.topic(4, 4)
    own_scene.commit(topic, {0: 1, 1: 2})
    planned = [
        Step(topic, 0, Committed(1), None, "deleted"),
        Step(topic, 1, Committed(2), Committed(4)),
    ]
    with RefusesOne(own_scene.bootstrap, {}, 10_000) as cluster:
        cluster.refused = topic, 1
        with pytest.raises(GroupsError, match=f"refused {topic}-1: TopicAuthorizationFailed; nothing was changed"):
            changes.apply(cluster, own_scene.group, planned, None)
    assert own_scene.committed(topic) == {0: 1, 1: 2}


def test_of_files_that_cannot_all_be_written_none_is_left(own_scene: Scene, tmp_path: Path) -> None:
    topic = own_scene.topic(4)
    own_scene.commit(topic, {0: 1})
    plan, undo = tmp_path / "plan.csv", tmp_path / "absent" / "undo.csv"
    files = ("--plan", plan, "--undo", undo)
    ended = own_scene.run("reset-offsets", own_scene.group, "--topic", topic, "--to-latest", *files, "--execute")
    assert (ended.code, ended.err.startswith(f"rota: --undo is `{undo}`: ")) == (2, True), ended.err
    assert ended.err.endswith("; nothing was changed\n")
    assert not plan.exists()
    assert own_scene.committed(topic) == {0: 1}


def test_a_full_disk_is_named_before_anything_is_changed(
    own_scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = own_scene.topic(4)
    own_scene.commit(topic, {0: 1})

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    undo = tmp_path / "undo.csv"
    ended = own_scene.run("delete-offsets", own_scene.group, "--topic", topic, "--undo", undo)
    assert (ended.code, undo.exists()) == (2, False)
    assert ended.err.endswith("No space left on device; nothing was changed\n")
    assert own_scene.committed(topic) == {0: 1}


@pytest.mark.parametrize(
    ("change", "arguments"),
    [
        ("alter", ("reset-offsets", "--all-topics", "--to-latest", "--execute")),
        ("delete_offsets", ("delete-offsets", "--all-topics", "--undo", "undo.csv")),
        ("delete", ("delete",)),
    ],
)
def test_a_broker_that_goes_away_before_the_change_is_named(
    change: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changed = getattr(Cluster, change)
    with rota.Server(settings=SETTINGS) as server:
        scene = Scene(server.bootstrap_servers)
        scene.commit(scene.topic(2), {0: 1})

        def too_late(*told: Any) -> Any:
            server.stop()
            return changed(*told)

        monkeypatch.setattr(Cluster, change, too_late)
        ended = scene.run(arguments[0], scene.group, *arguments[1:], "--timeout", "500")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (5, "", 1), ended.err
    assert ended.err.endswith("; whether it was done is not known: look with `describe`\n")


def test_a_watch_ends_with_an_error_when_the_broker_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with rota.Server(settings=SETTINGS) as server:
        scene = Scene(server.bootstrap_servers)
        scene.commit(scene.topic(2), {0: 1})
        monkeypatch.setattr("rota.groups.watching.pause", lambda _: server.stop())
        ended = scene.run("watch", scene.group, "--timeout", "500")
    assert ended.code == 5
    assert len(ended.out.splitlines()) == 2, "the header, and one look"
    assert len(ended.err.splitlines()) == 1


def test_watching_a_group_that_is_not_there_is_an_error(own_scene: Scene) -> None:
    ended = own_scene.run("watch", own_scene.group, "--count", "1")
    assert (ended.code, ended.out.splitlines()[1:]) == (3, [])
    assert ended.err.startswith(f"rota: there is no group `{own_scene.group}`")


def test_without_an_address_the_server_of_this_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(_self: Cluster, servers: str, _settings: object, _timeout_ms: int) -> None:
        asked.append(servers)
        raise misused("asked")

    monkeypatch.setattr(Cluster, "__init__", refuse)
    monkeypatch.delenv("ROTA_BOOTSTRAP_SERVER", raising=False)
    assert (rota_groups("list").err, asked) == ("rota: asked\n", ["127.0.0.1:9092"])


def test_an_error_with_a_name_of_a_client_moves_no_cursor(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), options.ending(as_json=False):
        raise misused("group `g\x1b[2J` has members")
    assert capfd.readouterr().err == "rota: group `g\\x1b[2J` has members\n"


def test_every_kind_of_error_has_an_exit_code_of_its_own() -> None:
    assert {kind.label: kind.exit_code for kind in Kind} == {
        "refused": 1,
        "misused": 2,
        "not_found": 3,
        "in_use": 4,
        "unreachable": 5,
    }
