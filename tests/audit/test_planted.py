"""Every kind of fault is found where it was planted, and nothing is found where none was; both auditors agree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import Row, SparkSession
from typer.testing import CliRunner

from rota import _rota
from rota.audit import report
from rota.audit.audit import Audit
from rota.audit.checks import OF_PARTITIONS
from rota.audit.plant import journal, records
from rota.audit.plant.copying import MANIFEST, Planted
from rota.cli import app
from tests.audit.conftest import NEWER_KIND

# One worker has the one Spark session; the first test waits for the audit of all logs.
pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

# What of a browser the script of a report uses.
DOCUMENT = """
const given = JSON.parse(process.argv[1]);
const elements = given.names.map(([group, isListed]) => ({dataset: {group}, isListed, hidden: false}));
const parts = {input: {value: "", addEventListener: (_, act) => { parts.act = act; }}, output: {}};
const paragraph = {hidden: true, querySelector: (name) => parts[name]};
const document = {
  getElementById: (id) => ({search: paragraph})[id],
  querySelectorAll: (which) => ({"[data-group]": elements, "tr.group": elements.filter((one) => one.isListed)})[which],
};
"""
TYPED = """
parts.input.value = given.wanted;
parts.act();
const shown = elements.map((one) => !one.hidden);
console.log(JSON.stringify({shown, field: !paragraph.hidden, count: parts.output.textContent}));
"""

KINDS = [*records.FAULTS, *journal.FAULTS]


def planted_in(directory: Path) -> list[Planted]:
    return [Planted(**fault) for fault in json.loads((directory / MANIFEST).read_text())]


@pytest.fixture(scope="module")
def faults(planted: Path) -> list[Planted]:
    return planted_in(planted)


def test_there_are_at_least_twenty_kinds_and_each_has_its_own_group(faults: list[Planted]) -> None:
    assert [fault.kind for fault in faults] == KINDS
    assert len(KINDS) >= 20
    assert len({(fault.source, fault.group) for fault in faults}) == len(faults)


def names_in(found: Audit, directory: Path, fault: Planted) -> set[str]:
    return {
        verdict.name
        for verdict in found.verdicts
        if Path(verdict.log).is_relative_to(directory)
        and (verdict.source, verdict.partition, verdict.group) == (fault.source, fault.partition, fault.group)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_fault_is_found(kind: str, faults: list[Planted], found: Audit, planted: Path) -> None:
    (fault,) = [fault for fault in faults if fault.kind == kind]
    assert fault.name in names_in(found, planted, fault)


def test_a_generation_goes_back_in_the_life_of_a_group_that_was_deleted_afterwards() -> None:
    one, two = (_rota.GroupRecord("payments", _rota.GroupValue("consumer", generation)) for generation in (1, 2))
    log = [records.Stored(0, record.key_bytes(), record.value_bytes()) for record in (one, two)]
    deleted = log[0]._replace(value=None)
    assert records.generation_back([*log, deleted], "payments") == [*log, log[0], deleted]


def test_faults_in_a_log_of_kafka_are_found(found: Audit, planted_kafka: Path) -> None:
    of_kafka = planted_in(planted_kafka)
    assert {fault.kind for fault in of_kafka} >= {NEWER_KIND, "two owners", "resurrected"}
    missed = [fault for fault in of_kafka if fault.name not in names_in(found, planted_kafka, fault)]
    assert missed == []


def test_groups_without_a_fault_raise_no_alarm(faults: list[Planted], found: Audit, lives: Path, planted: Path) -> None:
    assert [verdict for verdict in found.verdicts if verdict.log in {str(lives), str(lives / "journal")}] == []
    of_group = {(fault.source, fault.group) for fault in faults}
    # The replay does not know which group it is about, and the place of an entry is that of its neighbour, too.
    elsewhere = OF_PARTITIONS
    of_copy = [verdict for verdict in found.verdicts if Path(verdict.log).is_relative_to(planted)]
    others = [verdict for verdict in of_copy if (verdict.source, verdict.group) not in of_group]
    assert [verdict for verdict in others if verdict.name not in elsewhere] == []


def test_the_replay_differs_wherever_a_query_finds_something_in_a_journal(
    faults: list[Planted], found: Audit, planted: Path
) -> None:
    differing = {fold.partition for fold in found.folds if fold.differences and Path(fold.log).is_relative_to(planted)}
    assert differing == {fault.partition for fault in faults if fault.source == "journal"}
    assert not [fold for fold in found.folds if fold.differences and not Path(fold.log).is_relative_to(planted)]


def test_the_model_differs_where_a_fault_is_among_what_it_is_asked(found: Audit, planted: Path) -> None:
    asked = {
        opinion.partition: opinion.difference for opinion in found.opinions if opinion.log == str(planted / "journal")
    }
    faulty = {verdict.partition for verdict in found.verdicts if verdict.name == "model"}
    assert faulty == {partition for partition, difference in asked.items() if difference}
    assert len(faulty) > 1


def test_a_verdict_says_where_to_look(found: Audit, planted: Path) -> None:
    owners = next(each for each in found.verdicts if (each.name, each.log) == ("two owners", str(planted)))
    assert (owners.id, len(owners.members), owners.witness.startswith("orders-")) == ("S12", 2, True)
    where = f"--source offsets --partition {owners.partition} --group {owners.group}"
    offsets = f"--from-offset {owners.first_offset} --to-offset {owners.last_offset}"
    assert owners.reproduce == f"rota log dump {planted} {where} {offsets}"
    ended = CliRunner().invoke(app, owners.reproduce.replace('"', "").split()[1:])
    (line,) = ended.stdout.splitlines()
    assert line.startswith(f"{owners.partition}:{owners.last_offset} group {owners.group}")


def test_what_was_planted_is_told_as_json(lives: Path, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["plant", str(lives), str(tmp_path / "planted"), "--json"])
    told = json.loads(ended.stdout)
    assert ended.exit_code == 0
    assert {"kind", "source", "partition", "group"} <= told["planted"][0].keys()
    assert ended.stderr == (f"rota: no group has room for: {', '.join(told['no_room'])}\n" if told["no_room"] else "")


def test_a_directory_that_is_there_is_not_written_into(lives: Path) -> None:
    ended = CliRunner().invoke(app, ["plant", str(lives), str(lives)])
    assert (ended.exit_code, ended.stderr) == (2, f"rota: `{lives}` exists already: give a directory that does not\n")


def test_the_tables_tell_the_life_of_a_group(found: Audit, spark: SparkSession, tables: Path, lives: Path) -> None:
    assert found.rows > 0
    of_group = {"log": str(lives), "name": "group-0-0"}

    def rows(table: str, order: str) -> list[Row]:
        spark.read.parquet(str(tables / table)).createOrReplaceTempView("table")
        return spark.sql(
            f"SELECT * FROM table WHERE source = 'offsets' AND log = :log AND `group` = :name ORDER BY {order}",
            args=of_group,
        ).collect()

    generations = rows("generations", "offset")
    sizes = [(row.generation, len(row.members)) for row in generations]
    assert sizes == [(0, 0), (1, 1), (2, 2), (2, 2), (3, 1), (4, 2), (5, 1), (6, 0)]
    assert [(len(row.joined), len(row.gone)) for row in generations[2:5]] == [(1, 0), (1, 1), (0, 1)]
    assert {row.instance for row in rows("membership", "first_ms")} == {None, "i1"}
    assert [row.cause for row in generations] == [
        None, "MemberJoined", "MemberJoined", "MemberJoined", "MemberLeft", "MemberJoined", "SessionExpired",
        "MemberLeft",
    ]  # fmt: skip
    owned = rows("ownership", "from_ms, topic_partition")
    assert [row.topic_partition for row in owned if row.generation == 1] == [0, 1, 2, 3]
    assert all(row.to_ms >= row.from_ms for row in owned)
    assert [(row.topic_partition, row.committed) for row in rows("commits", "offset")] == [(0, 5), (0, 7)]


def test_the_lag_is_known_where_messages_lie_beside_the_groups(
    found: Audit, spark: SparkSession, tables: Path, kafka: Path
) -> None:
    assert found.rows > 0
    lags = [row for row in spark.read.parquet(str(tables / "lag")).collect() if row.log == str(kafka)]
    assert lags
    assert all(row.lag == row.end_offset - row.committed and row.end_offset > 0 for row in lags)


def test_the_report_draws_the_last_of_many_generations(spark: SparkSession) -> None:
    """Of 10,000; a plot has room for 2,000 bars. The views are those of a session of its own."""
    apart = spark.newSession()
    named = "'offsets' AS source, 'data' AS log, 'orders' AS `group`"
    of_group = f"{named}, id AS offset, CAST(id AS INT) AS generation, id * 1000 AS from_ms, (id + 1) * 1000 AS to_ms"
    none = "CAST(NULL AS STRING)"
    views = {
        "rows": f"SELECT {named}",
        "generations": f"""SELECT {of_group}, 'a' AS leader, 'range' AS protocol, array('a') AS members,
          array('a') AS joined, array() AS gone, {none} AS cause, {none} AS cause_member, {none} AS cause_reason
          FROM range(10000)""",
        "ownership": f"SELECT {of_group}, 'a' AS member, 'events' AS topic, 0 AS topic_partition FROM range(10000)",
        "lag": f"SELECT {named}, 'events' AS topic, 0 AS topic_partition WHERE false",
    }
    for name, sql in views.items():
        apart.sql(sql).createOrReplaceTempView(name)
    page = "".join(report._groups(apart, Audit()))
    for drawn in ("<title>generation {} at", "<title>a, generation {}, from"):
        assert [drawn.format(number) in page for number in (7_999, 8_000, 9_999)] == [False, True, True]
    assert page.count("<title>") == 2 * report.BARS_SHOWN
    # The plot begins with the first that it shows.
    assert "1970-01-01 02:13:20.000</text>" in page


def test_the_report_is_one_file_with_plots_and_verdicts(found: Audit, spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    report.write(spark, found, target)
    page = target.read_text()
    assert page.count("<svg") >= 2 * 10
    assert all(f"<td>{verdict.name}</td>" in page for verdict in found.verdicts)
    assert "who owned which partition" in page
    assert not re.search(r"http|src=|@import|url\(", page)
    parsed = ElementTree.fromstring(re.sub("<!doctype html>|<meta[^>]*>", "", page))
    groups = [one for one in parsed.iter() if "data-group" in one.attrib]
    listed = [one.attrib["data-group"] for one in groups if one.get("class") == "group"]
    assert {"payments", "group-0-0", "newer-0-0"} <= set(listed)
    assert {one.tag for one in groups} == {"tr", "section"}
    blamed = {verdict.group for verdict in found.verdicts if verdict.group}
    assert blamed <= {one.attrib["data-group"] for one in groups if one.get("class") == "violation"} | set(listed)
    # Without scripts all of them are there, and no field.
    assert [one.get("id") for one in parsed.iter() if "hidden" in one.attrib] == ["search"]
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node to run the script of the report")
    script = parsed.find(".//script")
    assert script is not None
    names = [(one.attrib["data-group"], one.get("class") == "group") for one in groups]
    for wanted in ("", " GROUP-0 "):
        expected = {name for name, _ in names if wanted.strip().lower() in name}
        given = json.dumps({"names": names, "wanted": wanted})
        ended = subprocess.run([node, "-e", f"{DOCUMENT}{script.text}{TYPED}", given], capture_output=True, check=True)
        told = json.loads(ended.stdout)
        shown = [name in expected for name, _ in names]
        assert told["shown"] == shown, wanted
        counted = sum(name in expected for name in listed)
        assert (told["field"], told["count"]) == (True, f"{counted} of {len(listed)}")
