"""`rota groups` beside kafka-consumer-groups: the same numbers, the same plans, files that both read."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy import ROOT

from .scene import LATE, Scene

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("kafka-tools")]

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TARGETS = (("--to-datetime", "late"), ("--shift-by", "-2"), ("--to-offset", "5"))


def said(scene: Scene, *options: object) -> list[str]:
    """The lines of Kafka's tool."""
    command = [
        sys.executable,
        ROOT / "benches/kafka/kafka",
        "tool",
        TOOL,
        "--bootstrap-server",
        scene.bootstrap,
        *options,
    ]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


def kafkas(scene: Scene, *options: object) -> list[list[str]]:
    """What Kafka's tool says, as words, without its warnings and its header."""
    lines = [line.split() for line in said(scene, *options)]
    return [words for words in lines if words and words[0] == scene.group]


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


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[0])
def test_plans_are_the_same_and_each_reads_the_others(scene: Scene, tmp_path: Path, target: tuple[str, str]) -> None:
    topic = scene.topic(6, 4)
    scene.commit(topic, {0: 3, 1: 1})
    value = LATE if target[1] == "late" else target[1]
    scope = ("--group", scene.group, "--topic", topic, target[0], value, "--export")
    # It puts long names in quotation marks.
    theirs = sorted(cells for cells in csv.reader(said(scene, "--reset-offsets", *scope)) if cells[:1] == [topic])
    mine = scene.run("reset-offsets", *scope).out
    assert theirs == [line.split(",") for line in mine.splitlines()]
    plan = tmp_path / "plan.csv"
    plan.write_text(mine)
    kafkas(scene, "--reset-offsets", "--group", scene.group, "--from-file", plan, "--execute")
    assert scene.committed(topic) == {int(index): int(offset) for _, index, offset in theirs}
