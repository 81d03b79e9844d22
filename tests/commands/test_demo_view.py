"""What a viewer of the demo gets to see: lines, JSON, a picture, and one verdict."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from rota.demo.cast import Actor, Cast
from rota.demo.evidence import Evidence, Ownership, Partition, Snapshot
from rota.demo.stage import News, Result, Settings, Stage
from rota.demo.view import JsonView, LiveView, PlainView, view

GOOD = Result([], {"ok": True, "generations": [1, 2], "partitions": 12, "commits_acknowledged": 7})
BAD = Result(["orders-1 had no owner", "lost commit: ..."], {"ok": False})


def a_stage() -> Stage:
    """As much of a stage as a view looks at: one consumer, which only the test sees."""
    evidence = Evidence(snapshots=[Snapshot(1, "Stable", {})])
    shown = Cast({}, {"x-orders": "orders", "x-payments": "payments"}, evidence, lambda _who, _text: None)
    process = cast("subprocess.Popen[str]", None)
    owned = frozenset(Partition("x-orders", index) for index in (0, 1, 2, 5)) | {Partition("x-payments", 3)}
    ana = Actor("ana", process, frozenset(shown.short), "member", owned, commits=41, generation=3)
    shown.actors = {"ana": ana, "ben": Actor("ben", process, frozenset(["x-orders"]), "killed")}
    values: dict[str, Any] = {
        "cast": shown,
        "group": "roster",
        "step": "ben is killed",
        "elapsed_s": 12.0,
        "settings": Settings(),
        "snapshot": evidence.snapshots[-1],
        "explanation": None,
        "doing": "server 2 paused",
        "news": deque([News(1.25, "ana", "assigned: owns orders 0-2 5")]),
    }
    return cast("Stage", SimpleNamespace(**values))


def test_plain_lines_have_the_time_who_and_what_and_end_with_the_verdict() -> None:
    out = io.StringIO()
    with view(False, out) as plain:
        assert isinstance(plain, PlainView)
        plain.look(a_stage())
        plain.end(GOOD)
    first, last = out.getvalue().splitlines()
    assert first == "   1.2 s  ana     assigned: owns orders 0-2 5"
    assert last.startswith("OK: 2 generations, none with two owners for a partition; all 12 partitions owned")


def test_a_failed_run_says_everything_that_went_wrong() -> None:
    out = io.StringIO()
    PlainView(out).end(BAD)
    assert out.getvalue().splitlines() == [
        "FAILED, 2 things went wrong:",
        "  orders-1 had no owner",
        "  lost commit: ...",
    ]


def test_every_json_line_is_an_object_and_the_last_is_the_summary() -> None:
    out = io.StringIO()
    with view(True, out) as lines:
        assert isinstance(lines, JsonView)
        lines.look(a_stage())
        lines.end(GOOD)
    first, last = map(json.loads, out.getvalue().splitlines())
    assert first == {"at_s": 1.25, "who": "ana", "text": "assigned: owns orders 0-2 5"}
    assert last == GOOD.summary


def test_json_lines_are_written_as_people_read_them() -> None:
    out = io.StringIO()
    JsonView(out).show(News(1.0, "rota", "rebalance generation 1 to 2: ana-1f0c8a2e… joined"))
    assert "ana-1f0c8a2e… joined" in out.getvalue()


def test_the_live_picture_shows_each_member_with_what_it_owns() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140)
    live = LiveView(console)
    stage = a_stage()
    live.look(stage)
    with console.capture() as captured:
        console.print(live.draw(stage))
    picture = captured.get()
    assert "group roster: Stable · ben is killed · 12 s of 30" in picture
    ana = next(line for line in picture.splitlines() if "member" in line and "ana" in line)
    for cell in ("orders, payments", "orders 0-2 5, payments 3", "3", "41"):
        assert cell in ana
    assert any("ben" in line and "killed" in line and "nothing" in line for line in picture.splitlines())
    assert "assigned: owns orders 0-2 5" in picture
    assert "server 2 paused" in picture


def test_a_line_that_the_kill_cut_short_is_not_evidence() -> None:
    evidence = Evidence()
    shown = Cast({}, {"orders": "orders"}, evidence, lambda _who, _text: None)
    whole = json.dumps({"kind": "assigned", "at_ms": 1.0, "owned": [["orders", 0]], "generation": 1})
    process = subprocess.Popen(
        [sys.executable, "-c", f"print({whole!r}); print({whole[:20]!r}, end='')"], stdout=subprocess.PIPE, text=True
    )
    shown._listen(Actor("ana", process, frozenset(["orders"])))
    process.communicate()
    assert evidence.ownerships == [Ownership("ana", 1.0, frozenset([Partition("orders", 0)]), 1)]


@pytest.mark.parametrize("ends_with", [0, 3])
def test_a_consumer_that_ends_by_itself_is_an_accident(ends_with: int) -> None:
    shown = Cast({}, {}, Evidence(), lambda _who, _text: None)
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({ends_with})"], text=True)
    process.wait()
    shown.actors["ana"] = Actor("ana", process, frozenset(), complaints=["Trace", "it broke"])
    assert shown.accidents() == [f"ana's process ended by itself with code {ends_with}: it broke"]
