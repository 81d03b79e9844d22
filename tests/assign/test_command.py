"""`rota assign`, as it is called."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rota.cli import app

GROUP: dict[str, Any] = {
    "partitions": {"orders": 12},
    "members": {"c1": ["orders"], "c2": {"topics": ["orders"], "rack": "r1"}, "c3": ["orders"]},
}


def run(group: object, *arguments: str) -> Result:
    text = group if isinstance(group, str) else json.dumps(group)
    return CliRunner().invoke(app, ["assign", "--from", "-", *arguments], input=text)


def test_two_members_more_take_what_they_must_and_no_more() -> None:
    result = run(GROUP, "--add", "2")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "member  had  has  gains  gives up  partitions",
        "c1        4    3      0         1  orders:0,3,6",
        "c2        4    3      0         1  orders:1,4,7",
        "c3        4    2      0         2  orders:2,5",
        "new-1     0    2      2         0  orders:8,10",
        "new-2     0    2      2         0  orders:9,11",
        "",
        "sticky: 2 to 3 partitions a member (5 subscribe); no plan is more even",
        "8 partitions stay, 4 move, 0 had no owner",
    ]


def test_what_a_member_that_leaves_had_goes_to_the_others(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(GROUP))
    result = CliRunner().invoke(app, ["assign", "--from", str(path), "--remove", "c3"])
    assert "c3        4    0      0         4  (left)" in result.stdout
    assert "8 partitions stay, 4 move, 0 had no owner" in result.stdout


def test_a_cooperative_group_needs_a_second_round() -> None:
    result = run(GROUP, "--add", "1", "--assignor", "cooperative_sticky")
    assert "3 wait for a second round: their owners give them up first" in result.stdout


def test_the_json_is_a_group_again() -> None:
    first = run(GROUP, "--json")
    assert first.exit_code == 0
    found = json.loads(first.stdout)
    assert found["figures"]["max_load"] == 4
    assert len(found["moves"]) == 12
    again = json.loads(run(first.stdout, "--json").stdout)
    assert again["plan"] == found["plan"]
    assert again["moves"] == []
    smaller = json.loads(run(first.stdout, "--json", "--remove", "c1").stdout)
    assert [move["from"] for move in smaller["moves"]] == ["c1"] * 4


def test_moves_are_told_from_the_newest_owner() -> None:
    members = {
        "A": {"topics": ["t"], "owned": {"t": [0, 1]}, "generation": 6},
        "B": {"topics": ["t"], "owned": {"t": [0, 2, 3]}, "generation": 5},
    }
    found = json.loads(run({"partitions": {"t": 4}, "members": members}, "--json").stdout)
    assert (found["figures"]["kept"], found["moves"]) == (4, [])


def test_a_group_that_everybody_left_has_no_plan() -> None:
    result = run({"partitions": {"t": 1}, "members": {"a": ["t"]}}, "--remove", "a")
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "a         1    0      0         1  (left)")


def test_racks_are_counted() -> None:
    group = {**GROUP, "racks": {"orders": [["r1"]] * 3 + [["r2"]] * 9}}
    assert "1 are away from their members' racks" in run(group).stdout


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("{", "it is not JSON"),
        ("[]", 'the file is "list": expected an object'),
        ("[" * 100_000, "it is nested too deep"),
        ('{"partitions": {"t": ' + "9" * 5_000 + '}, "members": {}}', "it has a number that is too long"),
        ('{"partitions": {"t": 1}, "members": {"\\ud800": ["t"]}}', "a member id is"),
        ({"partitions": {"t": 2**70}, "members": {"a": ["t"]}}, "topic `t` has 1180591620717411303424 partitions"),
        ({"partitions": {"t": 2**31 - 1}, "members": {"a": ["t"]}}, "2147483647 partitions together: by name"),
        (
            {"partitions": {"t": 1}, "members": {"a": {"topics": ["t"], "owned": {"t": [2**40]}}}},
            "a partition of member",
        ),
        (
            {"partitions": {"t": 1}, "members": {"a": {"topics": ["t"], "owned": {"t": [True]}}}},
            "`owned` of member `a`",
        ),
        ('{"partitions": {"t": 1}, "members": {"a": ["t"], "a": ["t"]}}', "`a` is there twice"),
        ({"partitions": {"t": -1}, "members": {"a": ["t"]}}, "topic `t` has -1 partitions"),
        ({"partitions": {"t": "1"}, "members": {"a": ["t"]}}, 'topic `t` is "1": expected its number of partitions'),
        ({"partitions": {"t": 1}, "members": {"a": "t"}}, 'member `a` is "t": expected its topics'),
        ({"partitions": {"t": 1}, "members": {"a": {}}}, "member `a` has no `topics`"),
        ({"partitions": {"t": 1}, "members": {"a": {"topics": ["t"], "own": []}}}, "member `a` has a field `own`"),
        ({"partitions": {"t": 1}, "members": {"a": {"topics": ["t"], "owned": [1]}}}, "`owned` of member `a` has 1"),
        ({"partitions": {"t": 1}, "members": {"a": {"topics": ["t"], "generation": -2}}}, "`generation` of member `a`"),
        ({"partitions": {"t": 1}, "members": {}, "x": 1}, "the file has a field `x`"),
        ({"partitions": {"t": 1}, "members": {"a": ["t"]}, "racks": {"t": 1}}, "`racks` of topic `t` is 1"),
        ({"partitions": {"t": 1}, "members": {"a": ["t"]}, "racks": {"u": []}}, "there are racks for topic `u`"),
        ({"partitions": {"t": 1}, "members": {"a": ["t"]}, "racks": {"t": [[], []]}}, "racks for 2 partitions but 1"),
    ],
)
def test_a_file_that_is_wrong_is_told_what_is_wrong(group: object, message: str) -> None:
    result = run(group)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_server_refuses_topics_that_it_does_not_know() -> None:
    group = {"partitions": {"t": 1}, "members": {"a": ["t", "u"]}}
    assert run(group).exit_code == 0
    result = run(group, "--assignor", "uniform")
    assert (result.exit_code, result.stderr) == (
        2,
        "rota: -: member `a` subscribes to topic `u`, which does not exist\n",
    )


def test_other_mistakes_are_told_too() -> None:
    for arguments, message in [
        (("--assignor", "best"), "there is no assignor `best`"),
        (("--remove", "c9"), "member `c9` cannot leave: it is not in the group"),
    ]:
        result = run(GROUP, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
    missing = CliRunner().invoke(app, ["assign", "--from", "nowhere.json"])
    assert missing.exit_code == 2
    assert "cannot read `nowhere.json`: No such file or directory" in missing.stderr
