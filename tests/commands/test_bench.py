"""The commands, on rota and on what is no broker."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rota
from rota import exits
from rota.bench.figures import count, duration, figure, ratio, table
from rota.bench.plot import svg
from rota.bench.processes import Served
from rota.bench.serving import (
    SESSION_TIMEOUT_MAX_MS,
    SESSION_TIMEOUT_MS,
    SHARES,
    Plan,
    Result,
    Round,
    patient_ms,
)

SHORT = ("--seconds", "0.2", "--warm-up", "0.05", "--rounds", "2", "--members", "6", "--group-members", "3")
# A debug build beside other tests takes a minute for what takes seconds alone.
PATIENCE_S = 200


def bench(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rota", "bench", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def measured(*words: object) -> Any:
    done = bench(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def server() -> Iterator[rota.Server]:
    with rota.Server(settings={"group.initial.rebalance.delay.ms": 0}) as server:
        yield server


def members(server: rota.Server) -> list[int]:
    """How many each of its groups has."""
    return [len(server.members(group)) for group in server.groups()]


def test_a_server_and_the_echo_take_turns_and_no_member_is_left_behind(server: rota.Server, tmp_path: Path) -> None:
    picture = tmp_path / "took.svg"
    address = f"127.0.0.1:{server.port}"
    report = measured("serve", "--bootstrap-server", address, *SHORT, "--connections", 3, "--svg", picture)
    echo, rota_ = report["servers"]
    assert (echo["name"], rota_["name"]) == ("bare echo", address)
    for one in report["servers"]:
        assert one["answers"] > 0
        assert one["errors"] == 0
        assert len(one["per_s"]["rounds"]) == 2
        took = [one["took_s"][name]["median"] for name in SHARES]
        assert took == sorted(took)
    rounds = [mine / floor for mine, floor in zip(rota_["per_s"]["rounds"], echo["per_s"]["rounds"], strict=True)]
    assert rota_["of_the_echo"]["rounds"] == rounds
    assert echo["cpu_s_each"]["median"] >= 0
    assert rota_["cpu_s_each"] is None, "its process was not named"
    assert rota_["sent_late_s"] is None, "a closed loop is never late"
    assert members(server) == [0, 0]
    assert len(ET.parse(picture).getroot().findall("{*}polyline")) == 2


def test_its_own_server_is_measured_with_its_cpu() -> None:
    report = measured("serve", *SHORT, "--connections", 3, "--depth", 4)
    rota_ = report["servers"][1]
    assert rota_["name"] == "rota"
    assert rota_["cpu_s_each"]["median"] >= 0


def test_an_open_loop_asks_at_the_rate_that_it_was_told(server: rota.Server) -> None:
    address = f"127.0.0.1:{server.port}"
    report = measured("serve", "--bootstrap-server", address, *SHORT, "--connections", 3, "--rate", 500)
    for one in report["servers"]:
        # 0.2 s a round, and what was due in the warm-up and is answered after it.
        assert 0 < one["answers"] <= 2 * (0.25 * 500 + 1)
        late = [one["sent_late_s"][name]["median"] for name in SHARES]
        assert late == sorted(late)
        assert late[-1] > 0, "nothing is sent before it is due"


def test_the_table_names_the_load_and_everyone_in_it() -> None:
    done = bench("serve", *SHORT, "--connections", 3)
    assert done.returncode == 0, done.stderr
    title, head, *rows = done.stdout.splitlines()
    assert title.startswith("3 connections, 1 in flight on each, 6 members; closed loop; medians of 2 rounds")
    assert head.split()[-6:-1] == [*SHARES]
    assert [row[:9].rstrip() for row in rows] == ["bare echo", "rota"]


def test_heartbeats_without_sockets() -> None:
    report = measured("heartbeat", "--members", 250, "--seconds", 0.02, "--rounds", 2)
    *ways, floor = report["ways"]
    assert [one["times"] % 250 for one in ways] == [0, 0, 0]
    assert all(one["times"] > 0 and len(one["each_s"]["rounds"]) == 2 for one in (*ways, floor))
    assert "a request's bytes in" in bench("heartbeat", "--members", 250, "--seconds", 0.02).stdout


def test_a_storm_of_joins_ends_when_all_members_are_in(server: rota.Server) -> None:
    address = f"127.0.0.1:{server.port}"
    report = measured("join", "--bootstrap-server", address, "--groups", 3, "--members", 5, "--rounds", 2)
    (one,) = report["servers"]
    assert all(requests >= 3 * 5 * 2 for requests in one["requests"]["rounds"]), "each joins and syncs at least once"
    assert one["generations"]["median"] >= 1
    assert 0 < one["join_p50_s"]["median"] <= one["join_p99_s"]["median"] <= one["join_max_s"]["median"]
    assert one["elapsed_s"]["median"] >= one["join_max_s"]["median"] * 0.99, "a histogram has three digits"
    assert members(server) == [0] * 6
    assert "to Stable" in bench("join", "--members", 2, "--rounds", 1).stdout


@pytest.mark.long
def test_the_floors_of_the_machine(tmp_path: Path) -> None:
    ways = measured("floors", "--seconds", 0.01, "--dir", tmp_path)["ways"]
    assert ways[0]["what"] == "a look at the clock"
    assert ways[-1]["what"] == "4 KiB written and synced"
    assert all(one["each_s"]["median"] > 0 for one in ways)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["serve", *SHORT], ["join", "--members", "1"]])
def test_nobody_there_is_one_line_that_says_so(words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    done = bench(*words, "--bootstrap-server", f"127.0.0.1:{port}")
    assert done.returncode == exits.UNREACHABLE
    assert done.stderr == f"rota: connecting to 127.0.0.1:{port}: Connection refused (os error 111)\n"


def test_who_hangs_up_is_one_line_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        done = bench("serve", "--bootstrap-server", f"127.0.0.1:{listener.getsockname()[1]}", *SHORT)
        thread.join()
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("rota: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--bootstrap-server", "nowhere"], "--bootstrap-server is `nowhere`: give HOST:PORT"),
        (["--bootstrap-server", "127.0.0.1:1", "--pid", "1", "--pid", "2"], "--pid 2 times: give one for each"),
        (["--bootstrap-server", "127.0.0.1:1", "--pid", "0"], "--pid is `0`: there is no such process"),
        (["--bootstrap-server", "127.0.0.1:1", "--pid", "2147483647"], "--pid is `2147483647`: there is no such"),
        (["--bootstrap-server", "127.0.0.1:1", "--pid", str(2**80)], "there is no such process"),
        (["--bootstrap-server", "127.0.0.1:1", "--rate", "1e9"], "--rate is `1e9`: give a number from 1 to 100000000"),
        (["--bootstrap-server", "127.0.0.1:1", "--rate", "1e8"], "more than 100000000 heartbeats are due"),
        (["--bootstrap-server", "127.0.0.1:1", "--rate", "inf"], "--rate is `inf`: give a number from 1 to 100000000"),
        (["--bootstrap-server", "127.0.0.1:1", "--rate", "nan"], "--rate is `nan`: give a number from 1 to 100000000"),
    ],
)
def test_what_was_called_wrongly_says_how(words: list[str], says: str) -> None:
    done = bench("serve", *words)
    assert done.returncode == 2
    assert says in done.stderr


def test_ctrl_c_ends_it_and_lets_the_members_leave(server: rota.Server) -> None:
    address = f"127.0.0.1:{server.port}"
    command = [sys.executable, "-m", "rota", "bench", "serve", "--bootstrap-server", address, "--seconds", "600"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        try:
            pause = threading.Event()
            while members(server) != [16]:
                assert child.poll() is None
                pause.wait(0.01)
            child.send_signal(signal.SIGINT)
            assert child.communicate(timeout=PATIENCE_S)[1].endswith("rota: interrupted\n")
        finally:
            child.kill()
    assert child.returncode == 130


def test_members_outlast_the_turns_of_the_others() -> None:
    plan = Plan(16, 1, 16, 100, warm_up_s=1, seconds=59, rounds=3)
    assert patient_ms(1, replace(plan, warm_up_s=0, seconds=0)) == SESSION_TIMEOUT_MS
    assert patient_ms(5, plan) > 5 * 60 * 1_000
    assert patient_ms(50, plan) == SESSION_TIMEOUT_MAX_MS


def test_figures_are_written_with_what_matters_of_them() -> None:
    assert [count(value) for value in (7, 1_234, 56_789, 8_912_345, 3.21e9)] == [
        "7",
        "1,234",
        "56.8k",
        "8.91M",
        "3.21G",
    ]
    written = [duration(value) for value in (1.23e-9, 4.567e-6, 7.8e-4, 0.25, 3)]
    assert written == ["1.23 ns", "4.57 us", "780 us", "250 ms", "3 s"]
    assert [duration(9.996e-4), duration(9.994e-4), count(999_600), count(999_400)] == ["1 ms", "999 us", "1M", "999k"]
    assert ratio(figure([2, 3, 4]).over(figure([1, 1, 1]))) == "3.00x (2.00-4.00)"
    assert table(["", "x"], [["a", "10"], ["bcd", "9"]]) == "      x\na    10\nbcd   9"


def test_a_name_is_harmless_in_the_picture() -> None:
    points = [(share, 1_000_000) for share in SHARES.values()]
    result = Result(Served("<script>", "h:1", None), [Round(1, 0, 1.0, points, None)])
    assert "<script>" not in svg([result], "</text>")
