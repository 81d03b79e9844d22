"""The coordinator of transactions does what its model does: Hypothesis for shape and shrinking, seeded runs for volume.
`DIFFERENTIAL_EXAMPLES` and `DIFFERENTIAL_RUNS` make it longer.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rota
from rota.check.differential import engine, recording, volume
from rota.check.differential.cells import Reached
from rota.check.differential.consumer_bytes import Malformed
from rota.check.differential.transaction_bytes import decoded
from rota.check.differential.transaction_lockstep import CODES
from rota.check.differential.walks import TRANSACTIONS
from rota.check.engines import Effort
from rota.cli import app
from rota.model import transactions as model
from tests.checks.machine import TransactionCoreAndModel, explored

EXAMPLES = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "40"))
RUNS = int(os.environ.get("DIFFERENTIAL_RUNS", "360"))
STATES = {"unknown", "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}
KINDS = {"init", "add 1", "add 2", "commit 1", "commit 2", "abort 1", "abort 2"}
REAL = rota.transactions.TransactionCoordinator
#: Runs that never differed show a wrong coordinator within so many.
SEEDS_OF_A_BUG = 40


def test_core_and_model_agree_wherever_hypothesis_leads_them() -> None:
    explored(TransactionCoreAndModel, 0, EXAMPLES)


def test_core_and_model_agree_on_seeded_runs_which_reach_every_request_in_every_state() -> None:
    reached = Reached("transactions")
    for seed in range(RUNS):
        _, failure = volume.run(seed, walk=TRANSACTIONS, reached=reached)
        if failure:
            found = volume.shorten(failure)
            pytest.fail(f"seed {seed}: {found.error}\n\n{recording.text(found)}")
    assert reached.unseen == []
    assert {cell[:2] for cell in reached.cells} == {(state, kind) for state in STATES for kind in KINDS}
    relations = {"none", "current", "epoch before", "stale", "ahead", "previous id", "other id"}
    assert {cell[2] for cell in reached.cells} == relations
    assert {cell[3] for cell in reached.cells} == {"in flight", "idle"}
    refused = {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "TRANSACTIONAL_ID_NOT_FOUND"}
    assert {cell[4] for cell in reached.cells} == CODES.keys() - refused | {"parked"}


# ---- the checker is checked


class Wrong:
    """The real coordinator, but its effects go through `change`."""

    def __init__(self, change: Any, **settings: Any) -> None:
        self.real, self.change = REAL(**settings), change

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.real, name)

        def call(*given: Any, **named: Any) -> Any:
            found = real(*given, **named)
            is_effects = name not in ("transactions", "violations", "list_ids")
            return [self.change(each) for each in found] if is_effects and isinstance(found, list) else found

        return call


def confirm_everything(effect: Any) -> Any:
    """A planted bug: a request at the wrong time is confirmed."""
    is_refused = isinstance(effect, rota.transactions.TransactionAnswer) and effect.error == CODES[model.INVALID_STATE]
    return rota.transactions.TransactionAnswer(effect.ticket, 0) if is_refused else effect


def commit_everything(effect: Any) -> Any:
    """A planted bug: every marker commits."""
    if not isinstance(effect, rota.transactions.TransactionMarker):
        return effect
    fields = {name: getattr(effect, name) for name in effect.__match_args__}
    return rota.transactions.TransactionMarker(**fields | {"is_commit": True})


@pytest.mark.parametrize("change", [confirm_everything, commit_everything])
def test_a_planted_bug_is_found_and_its_run_can_be_played_again(
    change: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(rota.transactions, "TransactionCoordinator", partial(Wrong, change))
        asked = Effort(steps=60 * SEEDS_OF_A_BUG, processes=1, protocol="transactions")
        report = engine.run(asked, lambda *_: None)
        assert (report.engine, report.ok) == ("differential/transactions", False)
        path = tmp_path / "run.txt"
        path.write_text(report.failures[0].partition("\n\n")[2])
        again = CliRunner().invoke(app, ["check", "differential", "--replay", str(path)])
        assert (again.exit_code, "FAILED" in again.stdout) == (1, True)
    held = CliRunner().invoke(app, ["check", "differential", "--replay", str(path)])
    assert held.exit_code == 0
    assert 0 < len(recording.read(path.read_text())[1]) <= 8


# ---- vectors


COMPLETE_ABORT = bytes.fromhex(
    "0001 000000000000029e 0001 0000ea60 05 01 000001a2043b25d5 000001a2043b25cc 02 00 08 000000000000029e 02 02 0002"
)
ONGOING_LEVEL_0 = bytes.fromhex(
    "0000 0000000000000004 0000 0000ea60 01 00000001 0001 74 00000001 00000000 000001a2043e0806 000001a2043e0806"
)


def test_records_of_kafka_are_read_as_the_model_has_them() -> None:
    """Recorded from Kafka 4.4.0."""
    start_ms, end_ms = 0x1A2043B25CC, 0x1A2043B25D5
    complete = model.Transaction("CompleteAbort", (670, 1), 60_000, frozenset(), start_ms, end_ms, 670, -1, 2)
    assert decoded(COMPLETE_ABORT) == (1, complete)
    time_ms = 0x1A2043E0806
    ongoing = model.Transaction("Ongoing", (4, 0), 60_000, frozenset({("t", 0)}), time_ms, time_ms)
    assert decoded(ONGOING_LEVEL_0) == (0, ongoing)


@pytest.mark.parametrize("value", [b"\x00\x02", COMPLETE_ABORT[:-1], COMPLETE_ABORT + b"\x00"])
def test_bytes_that_are_no_record_are_refused(value: bytes) -> None:
    with pytest.raises(Malformed):
        decoded(value)


def test_sessions_of_kafka_are_those_of_the_model() -> None:
    """Recorded from Kafka 4.4.0: an end by the second protocol, its repetitions, and the next one."""
    s, _ = model.loaded(model.State(), 0)
    ticket = 0

    def ask(request: model.Request) -> tuple[str, model.Producer]:
        """The answer, after all appends and markers."""
        nonlocal s, ticket
        ticket += 1
        s, effects = model.submit(s, 0, ticket, request)
        answers, todo = [], list(effects)
        while todo:
            effect = todo.pop(0)
            more: tuple[model.Effect, ...] = ()
            match effect:
                case model.Answer():
                    answers.append(effect)
                case model.Append():
                    s, more = model.appended(s, 0, effect.append_id)
                case model.SendMarker():
                    s, more = model.marked(s, 0, effect.transactional_id, effect.marker_id, "written")
            todo += more
        (answer,) = answers
        return answer.error, answer.producer

    assert ask(model.InitProducerId("x", spare_id=7)) == ("NONE", (7, 0))
    assert ask(model.AddParticipants("x", (7, 0), (("t", 0),), 2)) == ("NONE", model.NO_PRODUCER)
    end = [model.EndTransaction("x", (7, 0), commits, 2) for commits in (True, False)]
    assert ask(end[0]) == ("NONE", (7, 1))
    assert [ask(end[0]), ask(end[1])] == [("NONE", (7, 1)), ("INVALID_TXN_STATE", model.NO_PRODUCER)]
    now = [model.EndTransaction("x", (7, 1), commits, 2) for commits in (True, False)]
    assert [ask(now[0]), ask(now[1])] == [("INVALID_TXN_STATE", model.NO_PRODUCER), ("NONE", (7, 2))]
    assert ask(end[0]) == ("PRODUCER_FENCED", model.NO_PRODUCER)
    assert [ask(now[1]), ask(now[0])] == [("NONE", (7, 2)), ("INVALID_TXN_STATE", model.NO_PRODUCER)]
    assert ask(model.AddParticipants("x", (7, 2), (("t", 0),), 2)) == ("NONE", model.NO_PRODUCER)
    assert ask(model.InitProducerId("x")) == ("CONCURRENT_TRANSACTIONS", model.NO_PRODUCER)
    assert ask(model.InitProducerId("x")) == ("NONE", (7, 4))
