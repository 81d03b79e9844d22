"""What CI systems, Prometheus and people at a terminal get of an audit."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from rota import _rota
from rota.audit import engines, machines
from rota.audit.audit import Audit, Unreadable
from rota.audit.checks import CHECK_OF
from rota.audit.engines import Rate, Task, local
from rota.audit.folds import Cause, Fold
from rota.audit.logs import Part
from rota.audit.verdict import Verdict
from rota.cli import app

OBSERVED = "offset went back"


def verdict(name: str, **changed: object) -> Verdict:
    check = CHECK_OF[name]
    place = (check.severity, "offsets", "data", 3, "orders", 7, 10, 12, 1_000)
    return Verdict(check.id, name, *place, ["a"], "orders-0\norders-1", "rota log dump data")._replace(**changed)  # type: ignore[arg-type]


def committed(*offsets: int) -> list[tuple[int, bytes, bytes | None]]:
    """Records of committed offsets of one partition."""
    records = [_rota.OffsetRecord("orders", "events", 0, _rota.OffsetValue(offset)) for offset in offsets]
    return [(1_000 + at, record.key_bytes(), record.value_bytes()) for at, record in enumerate(records)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with one observation."""
    partition = tmp_path / "data" / "__consumer_offsets-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").write_bytes(_rota.write_batch(0, committed(5, 4)))
    return tmp_path / "data"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.mark.parametrize(("level", "exit_code"), [("violation", 0), ("observation", 1), ("nothing", 0)])
def test_an_observation_fails_only_if_asked(data: Path, level: str, exit_code: int) -> None:
    ended = run(data, "--fail-on", level)
    assert (ended.exit_code, "observation - offset went back: group orders" in ended.stdout) == (exit_code, True)


def test_junit_has_a_case_for_each_check_and_fails_for_what_counts(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "audit.xml"
    assert run(data, "--junit", target).exit_code == 0
    suite = ElementTree.parse(target).getroot()
    assert suite.attrib == {"name": "rota audit", "tests": str(len(CHECK_OF) + 1), "failures": "0", "errors": "0"}
    (output,) = suite.iter("system-out")
    assert output.text == f"group orders, {data}, partition 0, offset 1: events-0: 4 after 5"
    assert run(data, "--junit", target, "--fail-on", "observation").exit_code == 1
    suite = ElementTree.parse(target).getroot()
    ((case, failure),) = [(case, failure) for case in suite for failure in case.iter("failure")]
    assert (suite.get("failures"), case.get("name"), failure.get("type")) == ("1", OBSERVED, "observation")


def test_junit_keeps_to_xml_whatever_a_name_has_in_it() -> None:
    found = Audit(verdicts=[verdict("two owners", group="a\x00<b>&\ud7ff")])
    found.unreadable = [Unreadable("data", 0, 7, "unreadable", "no\x1bbatch"), Unreadable("data", 0, 9, "torn", "")]
    suite = ElementTree.fromstring(machines.as_junit(found))
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "group a<b>&\ud7ff, data, partition 3, offset 12"
    assert failure.text == f"{CHECK_OF['two owners'].says}\norders-0\norders-1\nrota log dump data"
    assert [error.text for error in suite.iter("error")] == ["nobatch"]


class Counting(list[Verdict]):
    """Verdicts that count how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[Verdict]:
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize("fail_on", ["violation", "observation"])
def test_junit_goes_through_the_verdicts_once(fail_on: str) -> None:
    names = ["two owners", OBSERVED, "two owners", OBSERVED]
    found = Audit(verdicts=Counting(verdict(name) for name in names), fail_on=fail_on)
    machines.as_junit(found)
    assert isinstance(found.verdicts, Counting)
    assert found.verdicts.times == 1


def test_annotations_are_one_line_each() -> None:
    found = Audit(verdicts=[verdict("two owners"), verdict(OBSERVED, group="100%,a:b")])
    found.unreadable = [Unreadable("data", 0, 7, "unreadable", "no batch"), Unreadable("data", 0, 9, "torn", "half")]
    place = "data, partition 3, offset 12%0Aorders-0%0Aorders-1%0Arota log dump data"
    assert machines.as_annotations(found) == [
        f"::error title=S12 two owners::group orders, {place}",
        f"::notice title=offset went back::group 100%25,a:b, {place}",
        "::error title=unreadable::data, partition 0, offset 7: no batch",
        "::warning title=torn::data, partition 0, offset 9: half",
    ]


def test_annotations_come_before_the_summary(data: Path) -> None:
    first, *rest = run(data, "--github").stdout.splitlines()
    assert first.startswith("::notice title=offset went back::group orders, ")
    assert rest[-2] == "0 violations, 1 observation"


def test_annotations_leave_json_alone(data: Path) -> None:
    ended = run(data, "--json", "--github")
    assert [verdict["name"] for verdict in json.loads(ended.stdout)["verdicts"]] == [OBSERVED]
    assert ended.stderr.startswith("::notice title=offset went back::group orders, ")


def test_metrics_count_every_check(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "rota.prom"
    assert run(data, "--metrics", target).exit_code == 0
    lines = [line for line in target.read_text().splitlines() if not line.startswith("#")]
    values = {name: count for name, _, count in (line.rpartition(" ") for line in lines)}
    of_verdicts = {name: count for name, count in values.items() if name.startswith("rota_audit_verdicts{")}
    assert len(of_verdicts) == len(CHECK_OF)
    assert of_verdicts.pop(f'rota_audit_verdicts{{severity="observation",id="",name="{OBSERVED}"}}') == "1"
    assert set(of_verdicts.values()) == {"0"}
    assert (values["rota_audit_rows"], values["rota_audit_groups"], values["rota_audit_exit_code"]) == ("2", "1", "0")
    assert list(tmp_path.glob("rota.prom*")) == [target]


def test_metrics_go_into_a_fifo_and_through_a_link(data: Path, tmp_path: Path) -> None:
    fifo, link, target = tmp_path / "fifo", tmp_path / "link", tmp_path / "rota.prom"
    os.mkfifo(fifo)
    link.symlink_to(target)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(data, "--metrics", fifo).exit_code == 0
        assert b"rota_audit_exit_code 0\n" in os.read(reader, 1 << 16)
    finally:
        os.close(reader)
    assert fifo.is_fifo()
    assert run(data, "--metrics", link).exit_code == 0
    assert link.is_symlink()
    assert "rota_audit_exit_code 0\n" in target.read_text()


def test_metrics_on_stdout_follow_the_summary(data: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    with told.open("w") as stdout:
        command = [sys.executable, "-m", "rota", "audit", str(data), "--metrics", str(told)]
        assert subprocess.run(command, stdout=stdout, check=False).returncode == 0
    text = told.read_text()
    assert "\n0 violations, 1 observation\n" in text.partition("# HELP rota_audit_verdicts ")[0]
    assert "\nrota_audit_exit_code 0\n" in text


@pytest.mark.parametrize("option", ["--junit", "--metrics"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(data: Path, option: str) -> None:
    assert "there is no such directory" in run(data, option, data / "missing" / "file").stderr
    assert "it is a directory, give a file" in run(data, option, data).stderr


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("option", ["--junit", "--metrics"])
def test_a_full_disk_hides_no_verdict(data: Path, tmp_path: Path, option: str) -> None:
    ended = run(data, option, tmp_path / "file")
    assert (ended.exit_code, "0 violations, 1 observation\n" in ended.stdout) == (2, True)
    assert ended.stderr == f"rota: {option} is `{tmp_path / 'file'}`: No space left on device\n"


def test_a_directory_that_cannot_be_entered_is_no_finding(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_forbidden(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "exists", is_forbidden)
    ended = run(data)
    assert (ended.exit_code, ended.stderr) == (2, f"rota: `{data}` cannot be read: Permission denied\n")


@pytest.mark.parametrize("option", ["--junit", "--metrics"])
def test_a_file_of_others_is_refused_before_anything_is_read(
    data: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    ended = run(data, option, tmp_path / "file")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.endswith("`: this user may not write there, give another file\n")


def test_progress_has_the_rate_and_the_time_that_is_left() -> None:
    part = Part("journal", "data", 0, "file", 0, 40_000_000, 0, 9, 0, 9, True, True)
    tasks = [Task("promises", 0), Task("replay", 0, 0), Task("model", 0)]
    rate = Rate(tasks, [[part]], lambda _: None)
    rate.tell(part)
    assert rate.said(2.0) == "40 of 80 MB read, 20 MB a second, 2 s left"


def test_an_audit_in_this_process_keeps_no_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    cause = Cause("data", "orders", 7, 1, "MemberLeft", "a", "", 0)
    fold = Fold("data", 0, 1, 1, 1, 0, 0, 0, [], [cause], None)
    monkeypatch.setattr(engines, "run", lambda *_: fold)
    assert local([Task("replay", 0)], [[]], lambda _: None) == [fold._replace(causes=[])]


def test_what_is_interrupted_reads_no_further_part() -> None:
    part = Part("journal", "data", 0, "file", 0, 1, 0, 9, 0, 9, True, True)
    rate = Rate([Task("promises", 0)], [[part]], lambda _: None)
    rate.is_over = True
    with pytest.raises(InterruptedError):
        rate.tell(part)
