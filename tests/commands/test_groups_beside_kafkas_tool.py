"""`rota groups` beside kafka-consumer-groups: the same numbers, the same plans, files that both read, and what the one
has changed the other sees. `--regex`, `watch` and `remove-member` have no counterpart there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from . import kafkas_tool
from .groups_scene import LATE, Scene

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("groups-beside-kafkas-tool")]

TARGETS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "5"),
    ("--shift-by", "-2"),
    ("--shift-by", "100"),
    ("--to-datetime", "late"),
    ("--by-duration", "PT1M"),
)


def said(scene: Scene, *options: object) -> list[str]:
    return kafkas_tool.said("--bootstrap-server", scene.bootstrap, *options)


def kafkas(scene: Scene, *options: object) -> list[list[str]]:
    """What Kafka's tool says of the scene's groups, as words, without its warnings and its header."""
    lines = [line.split() for line in said(scene, *options)]
    return [words for words in lines if words and words[0].startswith(scene.group)]


def ours(scene: Scene, *options: object) -> list[list[str]]:
    return [line.split() for line in scene.run("describe", "--group", scene.group, *options).out.splitlines()[1:]]


def test_describe_has_the_same_numbers_and_members(scene: Scene) -> None:
    topic = scene.topic(5, 3, 1)
    scene.commit(topic, {0: 1, 1: 3})
    scene.member(topic, client_id="ana")
    theirs = kafkas(scene, "--describe", "--group", scene.group)
    # Group, topic, partition, offset, end, lag; then the owner: ours has the lag in seconds between.
    assert [row[:6] for row in ours(scene)] == [row[:6] for row in theirs]
    assert [row[7:] for row in ours(scene)] == [row[6:] for row in theirs]
    assert len(theirs) == 3
    members = kafkas(scene, "--describe", "--group", scene.group, "--members")
    # Ours has the instance id between.
    assert [[*row[:2], *row[3:]] for row in ours(scene, "--members")] == [row[:5] for row in members]


def test_members_without_partitions_are_in_both(scene: Scene) -> None:
    topic = scene.topic(1)
    scene.pair(topic)
    members = kafkas(scene, "--describe", "--group", scene.group, "--members")
    assert sorted([*row[:2], *row[3:]] for row in ours(scene, "--members")) == sorted(row[:5] for row in members)
    # Beside the offsets Kafka's tool leaves them out.
    (theirs,) = kafkas(scene, "--describe", "--group", scene.group)
    owner, idle = ours(scene)
    assert [*owner[:6], *owner[7:]] == theirs
    assert {owner[7], idle[7]} == {row[1] for row in members}


def test_lists_by_state_and_type_and_states_are_the_same(scene: Scene) -> None:
    topic = scene.topic(2)
    scene.commit(topic, {0: 1}, group=scene.group + "-empty")
    scene.member(topic)
    for state, count in (("Stable", 1), ("Stable,Empty", 2)):
        # Group, type, state; ours has the protocol between.
        theirs = kafkas(scene, "--list", "--state", state, "--type", "classic")
        listed = scene.run("list", "--state", state, "--type", "classic", "--regex", f"^{scene.group}", "--json").json
        assert len(theirs) == count
        assert [[one["group"], one["type"].lower(), one["state"]] for one in listed] == sorted(
            [name, kind.lower(), state] for name, kind, state in theirs
        )
    [[*_, strategy, state, members]] = kafkas(scene, "--describe", "--group", scene.group, "--state")
    assert ours(scene, "--state") == [[scene.group, "classic", strategy, state, members]]


@pytest.mark.parametrize("target", TARGETS, ids=" ".join)
def test_plans_are_the_same(scene: Scene, target: tuple[str, ...]) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3, 1: 1})
    value = (LATE if word == "late" else word for word in target)
    scope = ("--group", scene.group, "--topic", topic, *value, "--export")
    # It puts long names in quotation marks.
    theirs = sorted(cells for cells in csv.reader(said(scene, "--reset-offsets", *scope)) if cells[:1] == [topic])
    assert theirs == [line.split(",") for line in scene.run("reset-offsets", *scope).out.splitlines()]
    assert len(theirs) == 2


def test_each_reads_the_others_plan(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3, 1: 1})
    scope = ("--group", scene.group, "--topic", topic, "--export")
    my_plan, their_plan = tmp_path / "mine.csv", tmp_path / "theirs.csv"
    my_plan.write_text(scene.run("reset-offsets", *scope, "--to-latest").out)
    their_lines = said(scene, "--reset-offsets", *scope, "--to-earliest")
    their_plan.write_text("".join(f"{line}\n" for line in their_lines if line.count(",") == 2))
    said(scene, "--reset-offsets", "--group", scene.group, "--from-file", my_plan, "--execute")
    assert scene.committed(topic) == {0: 6, 1: 4}
    assert scene.run("reset-offsets", "--group", scene.group, "--from-file", their_plan, "--execute").code == 0
    assert scene.committed(topic) == {0: 0, 1: 0}


def test_what_is_deleted_and_brought_back_the_other_sees(scene: Scene, tmp_path: Path) -> None:
    topic, kept = scene.topic(6, 4), scene.topic(1)
    scene.commit(topic, {0: 3, 1: 2})
    scene.commit(kept, {0: 1})
    whole = kafkas(scene, "--describe", "--group", scene.group)
    undo = tmp_path / "undo.csv"
    assert scene.run("delete-offsets", scene.group, "--topic", topic, "--undo", undo).code == 0
    assert [row[1] for row in kafkas(scene, "--describe", "--group", scene.group)] == [kept]
    assert scene.run("reset-offsets", scene.group, "--from-file", undo, "--execute").code == 0
    assert sorted(kafkas(scene, "--describe", "--group", scene.group)) == sorted(whole)
    assert scene.run("delete", scene.group).code == 0
    assert kafkas(scene, "--list") == []


def test_both_refuse_a_live_group_until_its_member_is_removed(scene: Scene) -> None:
    topic = scene.topic(3)
    scene.commit(topic, {0: 1})
    scene.member(topic, group_instance_id="pod-1")
    reset = ("--group", scene.group, "--topic", topic, "--to-latest", "--execute")
    assert any("can only be reset if the group" in line for line in said(scene, "--reset-offsets", *reset))
    assert scene.run("reset-offsets", *reset).code == 4
    assert scene.committed(topic) == {0: 1}
    [[_, member_id, *_]] = kafkas(scene, "--describe", "--group", scene.group, "--members")
    assert scene.run("remove-member", scene.group, "--instance", "pod-1", "--reason", "its host is gone").code == 0
    left = kafkas(scene, "--describe", "--group", scene.group, "--members")
    assert member_id not in [row[1] for row in left]
