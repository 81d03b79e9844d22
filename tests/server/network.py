"""Hosts as network namespaces on one bridge, and routes between them that are cut. Needs root, and `ip` (iproute2)."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
from types import TracebackType
from typing import Self

NUMBERS = itertools.count()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@functools.cache
def is_possible() -> bool:
    """Whether namespaces can be made here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        with Network(["probe"]):
            return True
    except subprocess.CalledProcessError:
        return False


class Network:
    """Named hosts, each with an address. This process reaches all of them, at all times."""

    def __init__(self, names: list[str]) -> None:
        self._id = f"r{os.getpid() % 100_000}{next(NUMBERS) % 10}"
        self._subnet = f"10.{64 + os.getpid() % 64}.{next(NUMBERS) % 256}"
        self.addresses = {name: f"{self._subnet}.{number}" for number, name in enumerate(names, start=10)}

    def __enter__(self) -> Self:
        try:
            ip("link", "add", self._id, "type", "bridge")
            ip("addr", "add", f"{self._subnet}.1/24", "dev", self._id)
            ip("link", "set", self._id, "up")
            for number, (name, address) in enumerate(self.addresses.items()):
                space, outer = self._space(name), f"{self._id}v{number}"
                ip("netns", "add", space)
                ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
                ip("link", "set", outer, "master", self._id, "up")
                ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
                ip("-n", space, "link", "set", "eth0", "up")
                ip("-n", space, "link", "set", "lo", "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        # Deletes the interfaces that are in it.
        for name in self.addresses:
            subprocess.run(["ip", "netns", "del", self._space(name)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self._id], check=False, capture_output=True)

    def _space(self, name: str) -> str:
        return f"{self._id}-{name}"

    def command(self, name: str, command: list[str]) -> list[str]:
        """A command that runs on a host."""
        return ["ip", "netns", "exec", self._space(name), *command]

    def cut(self, sender: str, receiver: str) -> None:
        """What one host sends to another one is lost. The other direction works."""
        ip("-n", self._space(sender), "route", "add", "blackhole", f"{self.addresses[receiver]}/32")

    def heal(self, sender: str, receiver: str) -> None:
        """The end of `cut`."""
        ip("-n", self._space(sender), "route", "del", "blackhole", f"{self.addresses[receiver]}/32")
