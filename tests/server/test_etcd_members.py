"""`harness/etcd_members.py`, which `make chaos` asks after each fault: a difference of members is noticed."""

from pathlib import Path

import pytest

from harness import etcd, etcd_members


def is_incomparable(addresses: list[str]) -> bool:
    (line,) = etcd_members.differing(addresses, within_s=0)
    return line.startswith("members of etcd cannot be compared: ")


@pytest.mark.skipif(not etcd.is_installed(), reason="etcd is not installed (Debian: etcd-server, etcd-client)")
def test_members_differ_if_one_has_another_value(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    with etcd.Etcd(folders[0]) as one, etcd.Etcd(folders[1]) as other:
        addresses = [f"127.0.0.1:{each.port}" for each in (one, other)]
        assert etcd_members.differing([]) == []
        for each in (one, other):
            each.put("key", b"value")
        assert etcd_members.differing(addresses) == []
        # What only one has yet is no difference.
        one.put("key", b"next")
        assert etcd_members.differing(addresses) == []
        other.put("key", b"another")
        assert [line.partition(" says ")[0] for line in etcd_members.differing(addresses)] == [
            f"members of etcd differ: {address}" for address in addresses
        ]
        one.control("compaction", "3")
        assert is_incomparable(addresses)
    assert is_incomparable(addresses[:1])
