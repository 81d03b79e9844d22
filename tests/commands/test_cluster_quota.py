"""How `rota cluster` shows the quota of an engine."""

from __future__ import annotations

import pytest

from rota.cluster import rendering
from rota.cluster.looking import Image, Member, troubles

OLD = Member("h2:2379", None, 2, "3.4.23", True, 7 << 30, 1 << 20)
NEW = OLD._replace(version="3.6.4", quota_bytes=8 << 30)
SILENT = Member("h1:2379", "refused")
IMAGE = Image("h", 1, 1, "c", 1_500, {}, [], {}, [])


@pytest.mark.parametrize(
    ("kind", "member", "quota"),
    [("etcd", OLD, "unknown"), ("etcd", NEW, "8.0 GiB"), ("postgresql", OLD, "-")],
)
def test_a_quota_that_etcd_does_not_say_is_shown_as_unknown(kind: str, member: Member, quota: str) -> None:
    summary = list(rendering.summary("e", kind, IMAGE, {}, [SILENT, member]))
    rows = list(rendering.members(kind, [SILENT, member]))
    assert rows[2].split("  ")[-1] == quota
    assert [told[-1] == rendering.QUOTA_UNKNOWN for told in (summary, rows)] == [quota == "unknown"] * 2


@pytest.mark.parametrize(("member", "is_full"), [(OLD, False), (NEW, True)])
def test_an_unknown_quota_is_not_used_up(member: Member, is_full: bool) -> None:
    told = [line for line in troubles(IMAGE, {}, "etcd", [member], []) if "of its quota" in line]
    assert told == ["etcd h2:2379 uses 88% of its quota: run `rota cluster mend`"] * is_full
