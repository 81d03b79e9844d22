"""Groups are described and listed as each family's admin client understands them (docs/protocol.md §12)."""

from __future__ import annotations

import pytest

from .eventually import eventually
from .family import FAMILIES, Family
from .scene import SETTLE_WITHIN_S, Scene, partitions_of

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@pytest.mark.scenario("13 admin describes groups")
@every_family
def test_a_group_is_described_with_its_state_and_members_and_empty_once_they_left(scene: Scene, family: Family) -> None:
    topic = scene.topic(4)
    members = [scene.member(family, [topic], "range") for _ in range(2)]
    scene.settles(members, partitions_of(topic, 4))

    admin = scene.client(family)
    told = admin.ask("describe", group=scene.group)["result"]
    assert (told["state"].upper(), told["protocol"]) == ("STABLE", "range")
    owned = {m["client_id"]: frozenset((t, p) for t, p in m["owned"]) for m in told["members"]}
    assert owned == {member.name: member.owned for member in members}
    assert all(m["member_id"].startswith(m["client_id"] + "-") for m in told["members"]), told
    assert all(m["host"].endswith("127.0.0.1") for m in told["members"]), told

    for member in members:
        member.leave()
    told = admin.ask("describe", group=scene.group)["result"]
    assert (told["state"].upper(), told["members"]) == ("EMPTY", [])


@pytest.mark.scenario("14 admin lists groups")
@every_family
def test_a_group_is_listed_with_its_state(scene: Scene, family: Family) -> None:
    topic = scene.topic(2)
    member = scene.member(family, [topic], "range")
    scene.settles([member], partitions_of(topic, 2))
    admin = scene.client(family)

    def listed() -> dict[str, str | None]:
        return {row["group"]: row["state"] for row in admin.ask("list")["result"]}

    state = listed()[scene.group]
    if family.tells_state_in_lists:
        assert (state or "").upper() == "STABLE"
    member.leave()
    if family.tells_state_in_lists:
        eventually(
            lambda: (listed()[scene.group] or "").upper() == "EMPTY", SETTLE_WITHIN_S, "the group is listed as empty"
        )


@pytest.mark.scenario("15 admin asks for no group")
@every_family
def test_a_group_that_does_not_exist_is_dead_or_not_found(scene: Scene, family: Family) -> None:
    admin = scene.client(family)
    admin.send("describe", group=scene.group)
    reply = admin.reply()
    # DescribeGroups up to v5 describes it as Dead; from v6 it is an error of its own.
    if reply["ok"]:
        assert (reply["result"]["state"].upper(), reply["result"]["members"]) == ("DEAD", [])
    else:
        error = reply["error"]
        assert "GroupIdNotFound" in error["name"] + error["text"].replace(" ", ""), error
