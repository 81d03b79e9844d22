"""`rota simulate --journal`: a journal like that of a server, of worlds."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rota import _rota, journal, simulate
from rota.cli import app
from rota.simulate.journal import Journal

runner = CliRunner()
WORLDS = 12


def entries(directory: Path) -> list[journal.Line]:
    log = _rota.DataLog(directory)
    return [line for partition in journal.partitions(log) for line in journal.entries(log, partition)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("worlds") / "journal"
    result = runner.invoke(app, ["simulate", "--seeds", f"0..{WORLDS}", "--journal", str(directory)])
    assert result.exit_code == 0, result.output
    return directory


def test_a_journal_of_worlds_replays_without_a_difference(written: Path) -> None:
    found = journal.replay(written)
    assert all(part.is_well for part in found), found
    assert sum(part.compared for part in found) > WORLDS * 500
    assert sum(part.missing + part.unchecked for part in found) == 0


def test_every_group_of_every_world_is_in_it_under_a_name_of_its_own(written: Path) -> None:
    worlds = {line.group.partition("-")[0] for line in entries(written) if line.group}
    assert worlds == {f"w{seed}" for seed in range(WORLDS)}


def test_worlds_come_one_after_the_other_in_time(written: Path) -> None:
    log = _rota.DataLog(written)
    for partition in journal.partitions(log):
        times = [row[1] for row in log.records(journal.JOURNAL_TOPIC, partition, 0, 1_000_000)]
        assert times == sorted(times)


def test_the_same_seeds_give_the_same_entries(written: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "again") as again:
        *_, total = again.worlds(0, WORLDS)
    assert again.entries == len(entries(written))
    assert entries(tmp_path / "again") == entries(written)
    *_, without = simulate.worlds(0, WORLDS)
    assert total == without, "writing changes nothing"


def test_one_world_leaves_a_journal_too(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", "--seed", "3", "--journal", str(tmp_path / "one")])
    assert result.exit_code == 0, result.output
    assert all(part.is_well for part in journal.replay(tmp_path / "one"))


def test_a_directory_that_has_a_journal_is_left_alone(written: Path) -> None:
    before = entries(written)
    result = runner.invoke(app, ["simulate", "--seeds", "0..2", "--journal", str(written)])
    assert result.exit_code == 2
    assert f"--journal is `{written}`, which exists: give a new directory" in result.stderr
    assert entries(written) == before


@pytest.mark.parametrize("option", [["--minimise", "--seed", "3"], ["--plan", "fleet.toml"]])
def test_a_journal_goes_with_worlds_only(option: list[str], tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", *option, "--journal", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert not (tmp_path / "none").exists()
