"""How a finding is reported: in few lines, once, with a command that prints its records."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rota.audit.audit import Audit, Merging, Unreadable, merged, of_copies, verdict_of
from rota.audit.command import told, told_trouble
from rota.audit.folds import said_of
from rota.audit.follow.query import kept
from rota.audit.live import with_command
from rota.audit.promises import Finding
from rota.audit.verdict import Verdict

LINES_MAX, WIDTH_MAX = 10, 210


def verdict(source: str, log: str, **changed: object) -> Verdict:
    place = ("violation", source, log, 3, "g", 7, 10, 12, 1_000)
    return Verdict("S12", "two owners", *place, ["a", "b"], "orders-0", "rota log dump ...")._replace(**changed)  # type: ignore[arg-type]


def test_a_difference_is_told_from_where_the_two_sides_part() -> None:
    same = "{" + ", ".join(f'"field {number}": {number}' for number in range(200))
    said = said_of(5, "answers", same, f'{same}, "error": "NONE"}}{same}', f'{same}, "error": "FENCED"}}{same}')
    assert len(said) < 700
    head, event, journal, replayed = said.splitlines()
    assert head == "entry 5: the answers differ"
    assert event.startswith('event    {"field 0": 0')
    assert event.endswith(" …")
    assert '"error": "NONE"' in journal
    assert '"error": "FENCED"' in replayed
    assert journal.startswith("journal  … ")
    assert replayed.startswith("replayed … ")


def test_short_sides_are_told_whole() -> None:
    assert said_of(5, "digests", "Loaded", "17", "18").splitlines()[1:] == [
        "event    Loaded",
        "journal  17",
        "replayed 18",
    ]
    assert said_of(5, "state", "Loaded", "1", "12").splitlines()[2:] == ["journal  1", "replayed 12"]


def test_a_verdict_is_at_most_ten_lines() -> None:
    long = verdict("journal", "data/journal", witness="\n".join(["x" * 1_500] * 40), also="partition 3, offsets 4 to 4")
    lines = told(long).splitlines()
    assert len(lines) <= LINES_MAX
    assert max(map(len, lines)) <= WIDTH_MAX
    assert lines[0].startswith("violation S12 two owners: group g generation 7 (a, b), partition 3")
    assert lines[-2:] == ["  also in the log of groups: partition 3, offsets 4 to 4", "  rota log dump ..."]


NAMES = ["a b", "größe", "$(id)", "it's", "a\x1b[2Jb"]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_the_id_of_a_group_and_the_path_of_a_log_as_one_word(name: str) -> None:
    finding = Finding("generation back", name, 1, 0, 1, 0, [name], f"generation 1\n{name}")
    found = verdict_of("offsets", f"/data/{name}", 3, finding)
    words = shlex.split(found.reproduce)
    assert words[:4] == ["rota", "log", "dump", f"/data/{name}"]
    assert words[words.index("--group") + 1] == name
    replay = verdict_of("journal", f"/data/{name}", 3, finding._replace(name="replay"))
    assert shlex.split(replay.reproduce) == ["rota", "log", "replay", f"/data/{name}"]
    (copied,) = of_copies(Audit(verdicts=[found])).verdicts
    assert shlex.split(copied.reproduce, comments=True)[3:] == ["DIR", *words[4:]]
    of_broker = with_command(name, found)
    assert shlex.split(of_broker.reproduce)[2] == name


def test_what_clients_chose_moves_no_cursor() -> None:
    name = NAMES[-1]
    long = verdict("offsets", f"/data/{name}", group=name, members=[name], witness=f"{name}\n{name}")
    trouble = Unreadable(name, 0, 0, "unreadable", name)
    for said in (told(long), told_trouble(trouble)):
        assert "\x1b" not in said
        assert "a\\x1b[2Jb" in said


def test_what_the_journal_and_the_log_of_groups_both_show_is_one_finding() -> None:
    journal = verdict("journal", "data/journal")
    records = verdict("offsets", "data", first_offset=4, last_offset=4)
    assert merged([records, journal]) == [journal._replace(also="partition 3, offsets 4 to 4")]
    # Each counts once.
    assert merged([records, records, journal]) == [records, journal._replace(also="partition 3, offsets 4 to 4")]


def test_verdicts_that_come_one_by_one_are_merged_like_those_of_a_whole_audit() -> None:
    journal = verdict("journal", "data/journal")
    records = verdict("offsets", "data", first_offset=4, last_offset=4)
    other = verdict("offsets", "data", group="h")
    for coming in ([records, journal], [journal, records], [records, records, journal], [journal, other, records]):
        merging = Merging()
        new = [one for one in coming if merging.is_new(one)]
        assert new[0] == coming[0]
        assert len(new) == len(merged(coming))


def test_verdicts_before_a_checkpoint_count_as_told(tmp_path: Path) -> None:
    journal = verdict("journal", "data/journal")
    (tmp_path / "verdicts").mkdir()
    lines = [json.dumps(journal._asdict()), json.dumps({"log": "data", "partition": 0, "kind": "unreadable"})]
    (tmp_path / "verdicts" / "000000000001.jsonl").write_text("\n".join(lines) + "\n")
    assert list(kept(tmp_path)) == [journal]


def test_other_findings_stay_apart() -> None:
    journal = verdict("journal", "data/journal")
    for other in (
        verdict("offsets", "elsewhere"),
        verdict("offsets", "data", group="h"),
        verdict("offsets", "data", generation=8),
        verdict("offsets", "data", members=["a", "c"]),
        verdict("offsets", "data", name="generation back"),
        verdict("journal", "data/journal", last_offset=13),
    ):
        assert merged([journal, other]) == [journal, other]


def test_stderr_of_java_is_forwarded_without_its_chatter() -> None:
    script = """
import subprocess, threading
from rota.audit.quiet import without_chatter
with without_chatter():
    java = "echo WARNING: Using incubator modules: x; echo OutOfMemoryError; printf unfinished"
    process = subprocess.Popen(["sh", "-c", f"({java}) >&2"])
process.wait()
for thread in threading.enumerate():
    if thread.name == "rota-stderr":
        thread.join()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stderr == "OutOfMemoryError\nunfinished\n"
    kept = script.replace("without_chatter():", "without_chatter(is_quiet=True) as said:")
    ended = subprocess.run([sys.executable, "-c", kept], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    ended = subprocess.run([sys.executable, "-c", f"{kept}\nsaid.show()"], capture_output=True, text=True, check=True)
    assert ended.stderr == "OutOfMemoryError\nunfinished\n"
