"""The runner notices what it must notice, shown on a small subject with planted faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rota.transcript import runner
from rota.transcript.cast import StepError
from rota.transcript.subject import Answer, Effect, Request
from rota.transcript.text import TranscriptError, parse
from tests.protocol.fake import FakeSubject

GOOD = """\
# a joins after the log and 3 s
rows X01
---
a JoinGroup
  log group g tombstone
~ b Heartbeat id=x generation=1
  b< NONE
stored

# not a moment earlier
+2999ms
+1ms
  a< NONE generation=1 protocol=consumer/range leader=$a member=$a members=$a:Sa
explain
  Stable generation=1 since 3s
--- failed
a JoinGroup
  log group g tombstone
refused
  a< NOT_COORDINATOR member=""
"""


def outcomes(tmp_path: Path, text: str, subject: Callable[[], FakeSubject] = FakeSubject) -> list[runner.Outcome]:
    path = tmp_path / "sample.txt"
    path.write_text(text)
    return [runner.play(run, subject()) for run in runner.runs(parse(path))]


def first_report(tmp_path: Path, text: str, subject: Callable[[], FakeSubject] = FakeSubject) -> str:
    path = tmp_path / "sample.txt"
    path.write_text(text)
    for run in runner.runs(parse(path)):
        outcome = runner.play(run, subject())
        if not outcome.matches:
            return runner.report(run, outcome)
    return ""


def test_a_right_transcript_passes_in_every_mode(tmp_path: Path) -> None:
    assert [outcome.matches for outcome in outcomes(tmp_path, GOOD)] == [True, True, True]


def test_the_probe_is_played_only_between_an_append_and_its_late_end(tmp_path: Path) -> None:
    now, later, _failed = outcomes(tmp_path, GOOD)
    assert [step.text for step, _ in later.steps if step.probe] == ["b Heartbeat id=x generation=1"]
    assert not [step for step, _ in now.steps if step.probe]


def test_a_wrong_expectation_fails_and_the_report_shows_both_lines(tmp_path: Path) -> None:
    shown = first_report(tmp_path, GOOD.replace("generation=1 protocol", "generation=2 protocol"))
    assert "line 12: +1ms\n  - a< NONE generation=2" in shown
    assert "\n  + a< NONE generation=1" in shown


def test_an_expected_effect_that_is_missing_fails(tmp_path: Path) -> None:
    shown = first_report(tmp_path, GOOD.replace("stored\n\n", "stored\n  a< NONE\n\n"))
    assert "  - a< NONE" in shown


def test_an_effect_that_nobody_listed_fails(tmp_path: Path) -> None:
    shown = first_report(tmp_path, GOOD.replace('refused\n  a< NOT_COORDINATOR member=""', "refused"))
    assert '  + a< NOT_COORDINATOR member=""' in shown


def test_an_effect_at_another_moment_fails(tmp_path: Path) -> None:
    shown = first_report(tmp_path, GOOD.replace("+2999ms\n+1ms", "+2998ms\n+2ms"))
    assert shown == ""
    shown = first_report(tmp_path, GOOD.replace("+1ms", "+10ms"))
    assert "+ @1ms a< NONE" in shown


def test_a_dropped_answer_is_noticed(tmp_path: Path) -> None:
    class Dropping(FakeSubject):
        def advance(self, now_ms: int) -> list[Effect]:
            return super().advance(now_ms)[1:]

    assert "- a< NONE generation=1" in first_report(tmp_path, GOOD, Dropping)


def test_a_doubled_answer_is_noticed(tmp_path: Path) -> None:
    class Doubling(FakeSubject):
        def submit(self, now_ms: int, ticket: int, request: Request, entropy: int) -> list[Effect]:
            effects = super().submit(now_ms, ticket, request, entropy)
            return effects * 2 if isinstance(effects[0], Answer) else effects

    assert "answered a second time (S18)" in first_report(tmp_path, GOOD, Doubling)


def test_a_request_that_is_lost_even_by_unloading_is_noticed(tmp_path: Path) -> None:
    class Forgetting(FakeSubject):
        def unload(self, _now_ms: int) -> list[Effect]:
            return []

    parked = GOOD.split("\n# not a moment")[0] + "\n--- failed" + GOOD.split("--- failed")[1]
    assert first_report(tmp_path, parked) == ""
    assert "never answered, even by unloading (S18): a (JoinGroup)" in first_report(tmp_path, parked, Forgetting)


def test_a_deadline_that_never_moves_is_noticed(tmp_path: Path) -> None:
    class Stuck(FakeSubject):
        def next_deadline(self) -> int | None:
            return 5

    assert "next_deadline stays at 5 ms" in first_report(tmp_path, GOOD, Stuck)


def test_a_broken_invariant_is_reported_at_its_step(tmp_path: Path) -> None:
    class Broken(FakeSubject):
        def check_invariants(self) -> None:
            assert not self.waiting, "S19 timer-shape"

    assert "sample.txt:8: `stored`: AssertionError: S19 timer-shape" in first_report(tmp_path, GOOD, Broken)


def test_rewriting_a_right_transcript_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sample.txt"
    path.write_text(GOOD)
    assert not runner.rewrite(path, lambda _config: FakeSubject())
    assert path.read_text() == GOOD


def test_rewriting_brings_every_expectation_back_and_keeps_comments(tmp_path: Path) -> None:
    path = tmp_path / "sample.txt"
    stripped = "\n".join(line for line in GOOD.splitlines() if not line.startswith("  ") or "log" in line) + "\n"
    path.write_text(stripped)
    assert runner.rewrite(path, lambda _config: FakeSubject())
    assert path.read_text() == GOOD


def test_a_connection_that_waits_cannot_send(tmp_path: Path) -> None:
    assert "connection a still waits" in first_report(tmp_path, GOOD.replace("+2999ms", "a Heartbeat generation=1"))


@pytest.mark.parametrize(
    ("change", "to", "complaint"),
    [
        ("stored\n", "", "not followed by `stored`"),
        ("~ b Heartbeat id=x generation=1\n  b< NONE\n", "", "no `~` probe"),
        ("refused", "stored", "no failed section refuses"),
        ("rows X01", "row X01", "is no header line"),
        ("---\na", "a", "no `---` line|is no header line"),
        ("--- failed", "--- broken", "is no step|not followed|no failed section"),
    ],
)
def test_a_transcript_that_skips_a_mode_is_refused(tmp_path: Path, change: str, to: str, complaint: str) -> None:
    path = tmp_path / "sample.txt"
    path.write_text(GOOD.replace(change, to, 1))
    with pytest.raises(TranscriptError, match=complaint):
        parse(path)


@pytest.mark.parametrize("line", ["a Jion", "a Heartbeat id=$zz", "stored", "member x sessoin=3s", "+3 a"])
def test_a_step_that_makes_no_sense_is_reported_with_its_line(tmp_path: Path, line: str) -> None:
    shown = first_report(tmp_path, GOOD.replace("explain\n", f"{line}\nexplain\n"))
    assert f"sample.txt:14: `{line}`: {StepError.__name__}" in shown
