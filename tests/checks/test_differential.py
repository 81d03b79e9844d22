"""The core does what the model does: Hypothesis for shape and shrinking, seeded runs for volume.

`DIFFERENTIAL_EXAMPLES` and `DIFFERENTIAL_RUNS` make it longer; `make differential` is the long run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rota import model
from rota.check.differential import volume, witness
from rota.check.differential.invariants import check_state
from rota.check.differential.lockstep import Difference, Lockstep
from rota.check.differential.steps import Ask, Crash, End, Loaded, Pass, Step
from rota.model import requests
from rota.transcript import runner
from rota.transcript.core_subject import CoreSubject
from rota.transcript.model_subject import ModelSubject
from rota.transcript.text import parse
from tests.checks.machine import CoreAndModel, explored

EXAMPLES = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "160"))
RUNS = int(os.environ.get("DIFFERENTIAL_RUNS", "200"))
FIRST = 1_000
"""`rota check --quick`, which `make check-wheel` runs, walks the seeds before."""
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_core_and_model_agree_wherever_hypothesis_leads_them(part: int) -> None:
    explored(CoreAndModel, part, EXAMPLES // PARTS)


@pytest.mark.parametrize("part", range(PARTS))
def test_core_and_model_agree_on_seeded_runs(part: int) -> None:
    for seed in range(FIRST + part, FIRST + RUNS, PARTS):
        _, failure = volume.run(seed)
        if failure:
            found = volume.shorten(failure)
            pytest.fail(f"seed {seed}: {found.error}\n\n{witness.transcript(found.config, found.steps)}")


# ---- the checkers are checked


def heartbeats_that_do_not_refresh(before: model.State, after: model.State, event: model.Event) -> model.State:
    """A planted bug: a heartbeat leaves the session's deadline where it was."""
    asked = event.request if isinstance(event, model.Submit) else None
    return replace(after, timers=before.timers) if isinstance(asked, requests.Heartbeat) else after


def leaving_that_does_not_move_the_leader(before: model.State, after: model.State, event: model.Event) -> model.State:
    """A planted bug: the previous leader stays."""
    asked = event.request if isinstance(event, model.Submit) else None
    if not isinstance(asked, requests.LeaveGroup):
        return after
    groups = {
        group_id: replace(group, leader=before.groups[group_id].leader) if group.members else group
        for group_id, group in after.groups.items()
    }
    return replace(after, groups=groups)


def sessions_that_end_a_millisecond_late(_: model.State, after: model.State, event: model.Event) -> model.State:
    """A planted bug: deadlines armed by an answer are one too late."""
    if not isinstance(event, model.Appended):
        return after
    late = (replace(t, deadline_ms=t.deadline_ms + (t.kind == "Session")) for t in after.timers)
    return replace(after, timers=tuple(sorted(late)))


def pending_ids_that_are_lost(_: model.State, after: model.State, event: model.Event) -> model.State:
    """A planted bug: ids that were handed out are forgotten when another request comes."""
    if not isinstance(event, model.Submit) or isinstance(event.request, requests.JoinGroup):
        return after
    return replace(after, groups={key: replace(group, pending=()) for key, group in after.groups.items()})


def offsets_that_are_seen_too_early(before: model.State, after: model.State, event: model.Event) -> model.State:
    """A planted bug: any offset counts as newest when its append fails."""
    if not isinstance(event, model.Appended) or event.error is None:
        return after
    flying = next((each for each in before.appends if each.append_id == event.append_id), None)
    for record in flying.records if flying else ():
        if isinstance(record, model.OffsetRecord) and record.value and record.group_id in after.groups:
            group = after.groups[record.group_id]
            offsets = {**group.offsets, (record.topic, record.partition): record.value}
            after = replace(after, groups={**after.groups, group.group_id: replace(group, offsets=offsets)})
    return after


@pytest.mark.parametrize(
    ("bug", "steps_max"),
    [
        (heartbeats_that_do_not_refresh, 6),
        (leaving_that_does_not_move_the_leader, 4),
        (sessions_that_end_a_millisecond_late, 6),
        (pending_ids_that_are_lost, 2),
        (offsets_that_are_seen_too_early, 6),
    ],
)
def test_a_planted_bug_is_found_and_its_witness_is_short(
    bug: Any, steps_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = model.step

    def wrong(s: model.State, now_ms: int, event: model.Event) -> tuple[model.State, tuple[model.Effect, ...]]:
        after, effects = real(s, now_ms, event)
        return bug(s, after, event), effects

    monkeypatch.setattr(model, "step", wrong)
    failures = (volume.run(seed)[1] for seed in range(400))
    shortened = [volume.shorten(failure) for failure, _ in zip(filter(None, failures), range(3), strict=False)]
    assert min(len(failure.steps) for failure in shortened) <= steps_max


def test_hypothesis_finds_a_planted_bug_and_prints_a_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    real = model.step

    def wrong(s: model.State, now_ms: int, event: model.Event) -> tuple[model.State, tuple[model.Effect, ...]]:
        after, effects = real(s, now_ms, event)
        return pending_ids_that_are_lost(s, after, event), effects

    monkeypatch.setattr(model, "step", wrong)
    with pytest.raises(Difference, match="--- later: what core and model disagree on"):
        run_state_machine_as_test(
            CoreAndModel,
            settings=settings(
                max_examples=500,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )


JOIN = model.JoinGroup("g", "", (("range", b"Sa"),), client_id="a", session_timeout_ms=10_000)
A_GROUP: list[Step] = [
    Ask(1, "a", JOIN),
    End(0, None),
    Ask(2, "a", replace(JOIN, member_id="@1")),
    Pass(3_000, True),
    Ask(3, "a", model.SyncGroup("g", "@1", 1, (("@1", b"X"),), "consumer", "range")),
    End(0, None),
    Ask(4, "a", model.Heartbeat("g", "@1", 1)),
]


def test_a_witness_can_be_played_as_a_transcript(tmp_path: Path) -> None:
    path = tmp_path / "witness.txt"
    path.write_text(witness.transcript({}, A_GROUP, "a group of one"))
    transcript = parse(path)
    assert len(transcript.sections[-1].steps) == len(A_GROUP)
    assert transcript.sections[-1].steps[-1].effects == ["a< NONE"]
    for subject in (CoreSubject, ModelSubject):
        for run in runner.runs(transcript):
            outcome = runner.play(run, subject(run.config))
            assert outcome.matches, runner.report(run, outcome)


def play(config: Mapping[str, int], steps: list[Step]) -> Lockstep:
    """Both, after these steps."""
    both = Lockstep(config)
    for step in steps:
        both.play(step)
    return both


@pytest.mark.parametrize(
    ("spoil", "invariant"),
    [
        ({"leader": None}, "S3"),
        ({"state": "Empty"}, "S6"),
        ({"protocol_name": "other"}, "S10"),
        ({"pending": ("nobody",)}, "S19"),
        ({"state": "PreparingRebalance"}, "S19"),
    ],
)
def test_every_invariant_can_fail(spoil: dict[str, Any], invariant: str) -> None:
    state = play({}, A_GROUP).state
    assert check_state(state) == []
    group = replace(state.groups["g"], **spoil)
    assert any(invariant in line for line in check_state(replace(state, groups={"g": group})))


PAIR = (replace(JOIN, client_id="a", instance_id="a"), replace(JOIN, client_id="b", instance_id="b"))
BOTH_REPLACED_AT_ONCE: list[Step] = [
    Ask(1, "a", PAIR[0]),
    End(0, None),
    Ask(2, "b", PAIR[1]),
    Pass(9_000, True),
    Ask(3, "b", model.SyncGroup("g", "@2", 1, (), "consumer", "range", "b")),
    Ask(4, "a", model.SyncGroup("g", "@1", 1, (("@1", b"X"), ("@2", b"Y")), "consumer", "range", "a")),
    End(0, None),
    Ask(5, "b'", PAIR[1]),
    Ask(6, "a'", PAIR[0]),
]


@pytest.mark.parametrize("first", ["REQUEST_TIMED_OUT", None])
@pytest.mark.parametrize("second", ["NOT_LEADER_OR_FOLLOWER", None])
def test_a_reload_gives_whom_memory_has_when_replacements_fail(first: str | None, second: str | None) -> None:
    both = play({}, [*BOTH_REPLACED_AT_ONCE, End(0, first), End(0, second)])
    while both.in_flight:
        both.play(End(0, None))
    there = [member.member_id for member in both.state.groups["g"].members]
    assert there == [both.minted[6 if second is None else 1], both.minted[5 if first is None else 2]]
    for step in (Crash(0), Loaded()):
        both.play(step)
    assert [member.member_id for member in both.state.groups["g"].members] == there


IN_A_ROW: list[Step] = [*BOTH_REPLACED_AT_ONCE[:-1], Ask(6, "b'", PAIR[1])]


@pytest.mark.parametrize(
    ("ends", "member"),
    [
        (["REQUEST_TIMED_OUT", None], 6),
        (["REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT"], 2),
        ([None, "REQUEST_TIMED_OUT"], 5),
        ([None, None], 6),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_of_replacements_in_a_row_the_newest_durable_one_is_left(
    ends: list[str | None], member: int, again: bool
) -> None:
    """With `again` both have fallen by their deadline and a third one is on its way before the log says anything."""
    both = play({}, IN_A_ROW)
    if again:
        for step in (Pass(5_000, True), Ask(7, "b'", PAIR[1])):
            both.play(step)
        ends, member = [*ends, "REQUEST_TIMED_OUT"], 2
    for end in ends:
        both.play(End(0, end))
    while both.in_flight:
        both.play(End(0, None))
    assert both.state.groups["g"].members[1].member_id == both.minted[member]
    both.play(Pass(0, True))  # compares with the log


def test_a_log_that_ends_with_somebody_else_is_noticed() -> None:
    both = play({}, [*BOTH_REPLACED_AT_ONCE, End(0, "REQUEST_TIMED_OUT"), End(0, None), End(0, None)])
    del both.log[max(both.log)]
    with pytest.raises(Difference, match="S22: 'g'"):
        both.play(Pass(0, True))
