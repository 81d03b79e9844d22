"""The gate of instructions: what it says of counts, and that a slower program does not pass."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benches import gate

ROOT = Path(__file__).resolve().parents[2]


def verdicts(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, str]:
    return {row.name: row.verdict for row in gate.compared(before, now)}


def test_a_little_more_or_less_says_nothing() -> None:
    assert verdicts({"a": 100, "b": 100}, {"a": 104.9, "b": 95.1}) == {"a": "", "b": ""}


def test_more_than_five_per_cent_more_fails_and_says_how_to_argue() -> None:
    (row,) = gate.compared({"a": 100}, {"a": 105.1})
    assert row.fails
    assert "+5.1%  MORE" in gate.table([row])
    assert "BENCH_ARGS=--update" in gate.advice([row], [])


def test_much_less_passes_and_asks_for_a_new_baseline() -> None:
    (row,) = gate.compared({"a": 100}, {"a": 90})
    assert not row.fails
    assert row.verdict == "less: update the baseline"
    assert "--update" in gate.advice([row], [])


def test_what_is_on_one_side_only_fails() -> None:
    rows = gate.compared({"gone": 1}, {"new": 1})
    assert [(row.name, row.fails) for row in rows] == [("new", True), ("gone", True)]


def test_another_toolchain_is_named() -> None:
    differing = gate.differences({"rustc": "1.90.0", "cpu": "avx2"}, {"rustc": "1.95.0", "cpu": "avx2"})
    assert differing == ["rustc 1.90.0 there, 1.95.0 here"]
    assert gate.advice(gate.compared({"a": 1}, {"a": 2}), differing).startswith("A report, no verdict")


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.toml"
    baseline.write_text(gate.written({"rustc": "1"}, {"heartbeat-bytes": 123.4}), encoding="utf-8")
    assert gate.read(baseline) == ({"rustc": "1"}, {"heartbeat-bytes": 123.4})


def test_the_baseline_has_every_workload() -> None:
    source = (ROOT / "benches/rust/src/workloads/mod.rs").read_text(encoding="utf-8")
    named = [line.split('"')[1] for line in source.splitlines() if "Workload { name:" in line]
    assert list(gate.read(gate.BASELINE)[1]) == named


PROGRAM = """
#[inline(never)]
pub fn measured(turns: u64) { for turn in 0..turns { std::hint::black_box(turn); } }

fn main() {
    if std::env::args().len() == 1 { return println!("loop\tturn"); }
    measured(TURNS);
    println!("10");
}
"""


def compiled(place: Path, turns: int) -> Path:
    """A program with one workload that says that it is ten operations."""
    source = place / f"turns_{turns}.rs"
    source.write_text(PROGRAM.replace("TURNS", str(turns)), encoding="utf-8")
    program = source.with_suffix("")
    subprocess.run(["rustc", "-O", "--crate-name", "rota_benches", "-o", program, source], check=True)
    return program


def run(program: Path, baseline: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benches.gate", "--binary", str(program), "--baseline", str(baseline), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind, which .ci/run installs")
def test_a_program_that_has_become_slower_does_not_pass(tmp_path: Path) -> None:
    baseline, before, slower = tmp_path / "baseline.toml", compiled(tmp_path, 1_000), compiled(tmp_path, 1_100)
    assert run(before, baseline, "--update").returncode == 0
    same = run(before, baseline)
    assert (same.returncode, "Within 5%" in same.stderr) == (0, True), same.stdout + same.stderr

    refused = run(slower, baseline)
    assert refused.returncode == 1
    assert "+10.0%  MORE" in refused.stdout
    assert "BENCH_ARGS=--update" in refused.stderr

    assert run(slower, baseline, "--update").returncode == 0
    faster = run(before, baseline)
    assert (faster.returncode, "less: update" in faster.stdout) == (0, True), faster.stdout

    tools, _ = gate.read(baseline)
    baseline.write_text(gate.written(tools | {"rustc": "1.0.0"}, {"loop": 1}), encoding="utf-8")
    elsewhere = run(slower, baseline)
    assert elsewhere.returncode == 0
    assert "A report, no verdict: the baseline is of another toolchain (rustc 1.0.0 there" in elsewhere.stderr

    unknown = run(slower, baseline, "no-such")
    assert unknown.returncode == 2
    assert unknown.stderr == "bench-gate: no workload is called no-such; there are loop\n"
