"""The newer protocol on model and core: its transcripts, and the sessions recorded from Apache Kafka 4.4.0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rota.conform.said import Said
from rota.transcript import runner
from rota.transcript.model_subject import ModelSubject
from rota.transcript.text import parse
from tests.conform.consumer_kafka import PLAYERS, Session, differences, explained, recorded, sessions

PATHS = runner.consumer_transcripts()
SESSIONS = {session.name: session for session in sessions()}
ROWS = recorded().rows


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_model_does_what_the_transcript_says(path: Path) -> None:
    (run,) = runner.runs(parse(path))
    outcome = runner.play(run, ModelSubject(run.config))
    assert outcome.matches, "\n" + runner.report(run, outcome)


def test_every_session_is_recorded() -> None:
    assert set(ROWS) == set(SESSIONS)


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("state", sorted({name.partition("/")[0] for name in SESSIONS}))
def test_model_and_core_answer_as_kafka_does(state: str, player: str) -> None:
    found = [
        line
        for name, session in SESSIONS.items()
        if name.partition("/")[0] == state
        for line in differences(session, ROWS[name], player)
    ]
    assert found == []


@pytest.mark.parametrize(("player", "name"), [(p, name) for p in PLAYERS for name in sorted(explained(p))])
def test_what_is_explained_does_differ(player: str, name: str) -> None:
    assert PLAYERS[player](SESSIONS[name]) != ROWS[name]


@pytest.mark.parametrize("player", PLAYERS)
def test_an_answer_that_differs_is_found(player: str) -> None:
    session: Session = SESSIONS["V03-three-members"]
    told = ROWS[session.name]
    for at, each in enumerate(told):
        if each.answers:
            planted = [*told[:at], Said(each.step, ("m1< NONE epoch=77",)), *told[at + 1 :]]
            assert differences(session, planted, player)
    other = replace(session, steps=session.steps[:-1])
    assert differences(other, told, player)
