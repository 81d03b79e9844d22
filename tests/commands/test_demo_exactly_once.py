"""`rota demo --exactly-once`: its verdict on planted outputs, and a run from the outside."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

import rota
from rota.cli import app
from rota.demo.exactly_once import Outcome, judge
from rota.demo.worker import PHASES

DEMO = [sys.executable, "-m", "rota", "demo", "--exactly-once"]
WITHIN_S = 240


def judged(committed: list[int], everything: int = 12, phases: tuple[str, ...] = PHASES) -> Outcome:
    outcome = Outcome(inputs=10, phases=list(phases))
    judge(outcome, committed, everything)
    return outcome


def test_every_input_once_passes() -> None:
    outcome = judged(list(range(10)))
    assert (outcome.ok, outcome.counted_once, outcome.hidden) == (True, 10, 2)


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (judged([*range(9)]), "1 inputs are never among the outputs: 9"),
        (judged([*range(10), 3]), "1 inputs are more than once among the outputs: 3"),
        (judged([*range(10), 77]), "1 outputs have no input: 77"),
        (judged([*range(10)], phases=PHASES[:3]), "no worker was killed in EndTxn"),
        (judged([*range(10)], everything=10), "nothing was shown"),
    ],
    ids=["lost", "twice", "made up", "a phase without a kill", "nothing hidden"],
)
def test_a_planted_fault_fails(outcome: Outcome, says: str) -> None:
    (failure,) = outcome.failures
    assert says in failure


@pytest.mark.clients
@pytest.mark.slow
def test_every_input_is_counted_once_although_a_worker_dies_in_each_phase() -> None:
    with rota.Server() as broker:
        there = ["--bootstrap-server", broker.bootstrap_servers]
        ended = subprocess.run([*DEMO, *there, "--json"], capture_output=True, text=True, timeout=WITHIN_S, check=False)
        topics = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics
        assert [name for name in topics if name.startswith("rota-demo-")] == [], "it leaves nothing behind"
        assert broker.groups() == []
    summary = json.loads(ended.stdout.splitlines()[-1])
    assert summary["failures"] == [], ended.stderr
    assert ended.returncode == 0
    assert (summary["counted_once"], summary["inputs"]) == (400, 400)
    assert sorted(summary["phases"]) == sorted(PHASES)
    assert summary["hidden"] > 0


def test_two_demos_at_once_are_refused() -> None:
    result = CliRunner().invoke(app, ["demo", "--exactly-once", "--cluster"])
    assert result.exit_code == 2
    assert "choose one" in result.stderr
