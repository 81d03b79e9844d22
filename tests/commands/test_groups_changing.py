"""`reset-offsets`, `delete`, `delete-offsets` and `remove-member`: each does all of it or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.groups.cluster import Committed
from rota.groups.plan import as_undo, read_file

from .groups_scene import LATE, Scene


@pytest.mark.parametrize(
    ("option", "arrives"),
    [
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-latest",), {0: 6, 1: 4}),
        (("--to-current",), {0: 3, 1: 4}),
        (("--to-offset", "2"), {0: 2, 1: 2}),
        (("--to-offset", "5"), {0: 5, 1: 4}),
        (("--to-datetime", "late"), {0: 1, 1: 1}),
        (("--to-datetime", "1960-01-01T00:00:00"), {0: 0, 1: 0}),
        (("--by-duration", "PT1M"), {0: 6, 1: 4}),
        (("--by-duration", "P20000D"), {0: 0, 1: 0}),
    ],
)
def test_offsets_go_where_they_are_sent_and_only_with_execute(
    scene: Scene, option: tuple[str, ...], arrives: dict[int, int]
) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3})
    option = tuple(LATE if word == "late" else word for word in option)
    planned = scene.run("reset-offsets", scene.group, "--topic", topic, *option, "--json")
    assert planned.code == 0, planned.err
    assert {step["partition"]: step["after"] for step in planned.json["steps"]} == arrives
    assert [step["before"] for step in planned.json["steps"]] == [3, None]
    assert planned.json["executed"] is False
    assert scene.committed(topic) == {0: 3}
    assert scene.run("reset-offsets", scene.group, "--topic", topic, *option, "--execute").code == 0
    assert scene.committed(topic) == arrives


def test_a_shift_goes_by_messages_and_stays_within_the_partition(scene: Scene) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3, 1: 1})
    ended = scene.run("reset-offsets", scene.group, "--all-topics", "--shift-by", "-2", "--execute", "--json")
    assert scene.committed(topic) == {0: 1, 1: 0}
    assert [step["note"] for step in ended.json["steps"]] == [None, "-1 is outside of 0 to 4"]


def test_a_shift_of_nothing_is_refused(scene: Scene) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3})
    ended = scene.run("reset-offsets", scene.group, "--topic", topic, "--shift-by", "1", "--execute")
    assert (ended.code, ended.err) == (3, f"rota: there is no committed offset to shift for {topic}-1\n")
    assert scene.committed(topic) == {0: 3}


def test_another_groups_offsets_are_taken_over_by_a_group_that_is_new(scene: Scene) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3, 1: 2})
    other = scene.group + "-new"
    without = scene.run("reset-offsets", other, "--from-group", scene.group, "--execute")
    assert without.code == 3
    assert scene.run("reset-offsets", other, "--from-group", scene.group, "--create", "--execute").code == 0
    assert scene.committed(topic, other) == {0: 3, 1: 2}


def test_some_partitions_of_a_topic_are_chosen(scene: Scene) -> None:
    topic = scene.topic(6, 4, 5)
    scene.commit(topic, {0: 3, 1: 2, 2: 1})
    assert scene.run("reset-offsets", scene.group, "--topic", f"{topic}:0,2", "--to-latest", "--execute").code == 0
    assert scene.committed(topic) == {0: 6, 1: 2, 2: 5}
    ended = scene.run("reset-offsets", scene.group, "--topic", f"{topic}:0,7", "--to-latest", "--execute")
    assert (ended.code, ended.err) == (3, f"rota: there is no partition {topic}-7\n")


def test_a_plan_is_written_read_and_undone(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3, 1: 2})
    plan, undo = tmp_path / "plan.csv", tmp_path / "undo.csv"
    exported = scene.run("reset-offsets", scene.group, "--topic", topic, "--to-latest", "--export", "--plan", plan)
    assert exported.out == plan.read_text() == f"{topic},0,6\n{topic},1,4\n"
    done = scene.run("reset-offsets", scene.group, "--from-file", plan, "--undo", undo, "--execute")
    assert done.code == 0, done.err
    assert scene.committed(topic) == {0: 6, 1: 4}
    assert scene.run("reset-offsets", scene.group, "--from-file", undo, "--execute").code == 0
    assert scene.committed(topic) == {0: 3, 1: 2}
    again = scene.run("reset-offsets", scene.group, "--topic", topic, "--to-latest", "--undo", undo, "--execute")
    assert (again.code, again.err) == (
        2,
        f"rota: --undo is `{undo}`: it exists already: give another file, or remove it; nothing was changed\n",
    )
    assert scene.committed(topic) == {0: 3, 1: 2}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{topic},0,4\n{topic},1,", "the last line has no end: was the file cut short?"),
        ("{topic},0,4\n{topic},1\n", "line 2: `{topic},1` is not topic,partition,offset"),
        ("{topic},0,4\n{topic},0,5\n", "line 2: {topic}-0 is there twice"),
        ("{topic},0,-1\n", "line 1: `{topic},0,-1` is not topic,partition,offset"),
        ("{group},{topic},0,-1\n", "line 1: `{group},{topic},0,-1` is not topic,partition,offset"),
        (
            "{group},{topic},4294967296,-1,-1,\n",
            "line 1: `{group},{topic},4294967296,-1,-1,` is not topic,partition,offset",
        ),
        ("{topic},0,-4\n", "line 1: `{topic},0,-4` is not topic,partition,offset"),
        ("{topic},0,99999999999999999999\n", "line 1: `{topic},0,99999999999999999999` is not topic,partition,offset"),
        ('{topic},0,4\n"{topic}\n', "line 2: unexpected end of data"),
        ("other,{topic},0,4\n", "there are no offsets for group `{group}`: it has those of `other`"),
        ("", "there are no offsets for group `{group}`"),
    ],
)
def test_a_plan_file_that_is_not_whole_changes_nothing(own_scene: Scene, tmp_path: Path, text: str, says: str) -> None:
    topic = own_scene.topic(6, 4)
    own_scene.commit(topic, {0: 3})
    plan = tmp_path / "plan.csv"
    plan.write_text(text.format(topic=topic, group=own_scene.group))
    ended = own_scene.run("reset-offsets", own_scene.group, "--from-file", plan, "--execute")
    assert ended.err == f"rota: --from-file {plan}: {says.format(topic=topic, group=own_scene.group)}\n"
    assert ended.code == 2
    assert own_scene.committed(topic) == {0: 3}


def test_a_plan_with_a_partition_that_is_not_there_changes_nothing(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic(6)
    scene.commit(topic, {0: 3})
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,4\n{topic},9,4\n")
    ended = scene.run("reset-offsets", scene.group, "--from-file", plan, "--execute")
    assert (ended.code, ended.err) == (3, f"rota: there is no partition {topic}-9\n")
    assert scene.committed(topic) == {0: 3}


def test_a_live_group_keeps_its_offsets_and_the_reason_says_who_is_there(scene: Scene) -> None:
    topic = scene.topic(6)
    scene.commit(topic, {0: 3})
    ana = scene.member(topic, client_id="ana")
    for command in (("reset-offsets", "--topic", topic, "--to-earliest", "--execute"), ("delete",)):
        ended = scene.run(command[0], scene.group, *command[1:])
        assert ended.code == 4
        assert f"{command[0]}: group `{scene.group}` is Stable with 1 member (ana at" in ended.err
        assert ended.err.endswith("nothing was changed\n")
    assert scene.committed(topic) == {0: 3}
    scene.leave([ana])
    assert scene.run("reset-offsets", scene.group, "--topic", topic, "--to-earliest", "--execute").code == 0


def test_a_plan_is_shown_while_members_run_and_says_what_its_execution_needs(scene: Scene) -> None:
    topic = scene.topic(6)
    scene.commit(topic, {0: 3})
    reset = ("reset-offsets", scene.group, "--topic", topic, "--to-earliest")
    ana = scene.member(topic, client_id="ana")
    ended = scene.run(*reset)
    assert (ended.code, ended.err) == (0, "")
    table, _, last = ended.out.rstrip("\n").rpartition("\n\n")
    assert table.splitlines()[1].split() == [scene.group, topic, "0", "3", "0"]
    assert last.startswith("Nothing was changed: --execute needs a group without members: it is Stable with 1 member")
    scene.leave([ana])
    assert scene.run(*reset).out.endswith("\n\nNothing was changed: --execute does it.\n")
    assert scene.run(*reset, "--execute").out.endswith("\n\n1 offset was reset.\n")
    assert scene.committed(topic) == {0: 0}


def test_the_error_about_a_group_in_use_has_the_command_that_removes_a_member(scene: Scene) -> None:
    topic = scene.topic(1)
    scene.member(topic, client_id="ana")
    ended = scene.run("delete", scene.group)
    removal = f"`rota groups remove-member {scene.group} --member ID`"
    assert (ended.code, f"): stop them, or remove each with {removal}; nothing" in ended.err) == (4, True), ended.err


def test_a_new_group_needs_create_which_the_error_names(scene: Scene) -> None:
    ended = scene.run("reset-offsets", scene.group, "--topic", scene.topic(1), "--to-latest")
    assert ended.code == 3
    assert ended.err.startswith(f"rota: there is no group `{scene.group}`")
    assert ended.err.endswith(" (--create makes a new group)\n")


def test_a_client_id_in_place_of_a_member_id_is_told_as_such(scene: Scene) -> None:
    topic = scene.topic(1)
    ana = scene.member(topic, client_id="ana")
    ended = scene.run("remove-member", scene.group, "--member", "ana")
    says = f"rota: group `{scene.group}` has no member `ana`: `ana` is the client id of {ana.memberid()}\n"
    assert (ended.code, ended.err) == (3, says)


def test_groups_are_deleted_all_or_none(scene: Scene) -> None:
    topic = scene.topic(1)
    other = scene.group + "-other"
    for group in (scene.group, other):
        scene.commit(topic, {0: 1}, group=group)
    assert scene.run("delete", scene.group, "--group", scene.group + "-absent").code == 3
    assert scene.committed(topic) == {0: 1}
    assert scene.run("delete", scene.group, other, "--json").json == {"deleted": [scene.group, other]}
    assert scene.run("list", "--regex", scene.group, "--json").json == []


def test_metadata_with_any_line_end_comes_back_from_a_file(tmp_path: Path) -> None:
    offsets = {("t", 0): Committed(5, 1, "a\rb\r\nc\nd")}
    file = tmp_path / "undo.csv"
    file.write_text(as_undo("g", offsets), encoding="utf-8", newline="")
    assert read_file(file, "g") == offsets


def test_where_there_was_no_offset_none_is_left_when_it_is_undone(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic(6, 4, 5)
    scene.commit(topic, {0: 3}, metadata="by ana")
    undo, back, plan = tmp_path / "undo.csv", tmp_path / "back.csv", tmp_path / "plan.csv"
    wanted = ("--topic", f"{topic}:0,1", "--to-latest", "--undo", undo, "--execute")
    assert scene.run("reset-offsets", scene.group, *wanted).code == 0
    assert scene.committed(topic) == {0: 6, 1: 4}
    planned = scene.run("reset-offsets", scene.group, "--from-file", undo, "--plan", plan, "--json").json
    assert [(one["before"], one["after"], one["note"]) for one in planned["steps"]] == [
        (6, 3, None),
        (4, None, "deleted"),
    ]
    done = scene.run("reset-offsets", scene.group, "--from-file", plan, "--undo", back, "--execute")
    assert done.code == 0, done.err
    assert f"{topic}  1          4               -           deleted" in done.out
    assert scene.committed(topic) == {0: 3}
    again = scene.run("reset-offsets", scene.group, "--from-file", undo, "--execute")
    assert (again.code, scene.committed(topic)) == (0, {0: 3}), again.err
    assert scene.run("reset-offsets", scene.group, "--from-file", back, "--execute").code == 0
    assert scene.committed(topic) == {0: 6, 1: 4}


def test_deleted_offsets_come_back_from_the_undo_file_with_their_metadata(scene: Scene, tmp_path: Path) -> None:
    topic, kept = scene.topic(6, 4), scene.topic(1)
    scene.commit(topic, {0: 3, 1: 2}, metadata='at "noon", by ana')
    scene.commit(kept, {0: 1})
    before = scene.run("describe", scene.group, "--json").json
    undo = tmp_path / "undo.csv"
    ended = scene.run("delete-offsets", scene.group, "--topic", topic, "--undo", tmp_path / "once.csv")
    back = f"--create --execute --from-file {tmp_path / 'once.csv'} --bootstrap-server {scene.bootstrap}\n"
    assert ended.out.endswith(back), ended.out
    assert scene.run("reset-offsets", scene.group, "--from-file", tmp_path / "once.csv", "--execute").code == 0
    ended = scene.run("delete-offsets", scene.group, "--topic", topic, "--undo", undo, "--json")
    assert [one["offset"] for one in ended.json["deleted"]] == [3, 2]
    assert scene.committed(topic) == {}
    assert scene.committed(kept) == {0: 1}
    assert scene.run("reset-offsets", scene.group, "--from-file", undo, "--execute").code == 0
    told = [
        [
            [row[name] for name in ("topic", "partition", "offset", "metadata", "leader_epoch")]
            for row in group["offsets"]
        ]
        for group in (*before, *scene.run("describe", scene.group, "--json").json)
    ]
    assert told[0] == told[1]


def test_offsets_that_a_member_uses_are_not_deleted(scene: Scene, tmp_path: Path) -> None:
    topic, unused = scene.topic(6), scene.topic(1)
    for one in (topic, unused):
        scene.commit(one, {0: 1})
    scene.member(topic, client_id="ana")
    undo = tmp_path / "undo.csv"
    refused = scene.run("delete-offsets", scene.group, "--all-topics", "--undo", undo)
    assert refused.code == 4
    assert f"of group `{scene.group}` subscribes to `{topic}`; nothing was changed" in refused.err
    assert not undo.exists()
    assert scene.committed(unused) == {0: 1}
    assert scene.run("delete-offsets", scene.group, "--topic", unused, "--undo", undo).code == 0
    assert scene.committed(unused) == {}


def test_offsets_that_are_not_there_are_named(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 1})
    undo = tmp_path / "undo.csv"
    ended = scene.run("delete-offsets", scene.group, "--topic", f"{topic}:0,1", "--undo", undo)
    assert (ended.code, ended.err) == (3, f"rota: group `{scene.group}` has no committed offset for {topic}-1\n")
    assert not undo.exists()


@pytest.mark.parametrize("by", ["member", "instance"])
def test_a_member_is_removed_by_its_id_or_its_instance_id(scene: Scene, by: str) -> None:
    topic = scene.topic(1)
    settings = {"group_instance_id": "pod-1"} if by == "instance" else {}
    ana = scene.member(topic, client_id="ana", **settings)
    which = "pod-1" if by == "instance" else ana.memberid()
    wrong = scene.run("remove-member", scene.group, f"--{by}", which + "x")
    assert wrong.code == 3
    assert f"did you mean `{which}`?" in wrong.err
    ended = scene.run("remove-member", scene.group, f"--{by}", which, "--reason", "its host is gone", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["member_id"] == ana.memberid()
    [group] = scene.run("describe", scene.group, "--members", "--json").json
    assert ana.memberid() not in [member["member_id"] for member in group["members"]]
