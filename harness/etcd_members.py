"""Whether the members of an etcd have the same content, as its own check of corruption asks."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from typing import Any

LOOKS_AGAIN_S = 0.2


def _asked(addresses: Sequence[str], *words: str) -> dict[str, dict[str, Any]]:
    """What `etcdctl endpoint` says of each member that answers."""
    command = ["etcdctl", "endpoint", *words, "--endpoints", ",".join(addresses), "--write-out", "json"]
    command += ["--command-timeout", "5s"]
    environment = os.environ | {"ETCDCTL_API": "3"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    found: list[dict[str, Any]] = json.loads(ended.stdout or "[]")
    return {each["Endpoint"]: each for each in found}


def _hashes(addresses: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """What all members say of one revision. None if one does not answer, or has compacted more than another, as a hash
    leaves out what is compacted.
    """
    revisions = {at: each["Status"]["header"]["revision"] for at, each in _asked(addresses, "status").items()}
    if len(revisions) < len(addresses):
        return None
    common = str(min(revisions.values()))
    said = {at: each["HashKV"] for at, each in _asked(addresses, "hashkv", "--rev", common).items()}
    is_comparable = len(said) == len(addresses) and len({each["compact_revision"] for each in said.values()}) == 1
    return said if is_comparable else None


def differing(addresses: Sequence[str], within_s: float = 60.0) -> list[str]:
    """One line for each member if they differ at a revision that all have, or one line if that cannot be found out."""
    if not addresses:
        return []
    deadline = time.monotonic() + within_s
    while (said := _hashes(addresses)) is None:
        if time.monotonic() > deadline:
            return ["members of etcd cannot be compared: not all of them answer, or their compactions differ"]
        time.sleep(LOOKS_AGAIN_S)
    if len({each["hash"] for each in said.values()}) == 1:
        return []
    return [f"members of etcd differ: {address} says {each}" for address, each in said.items()]
