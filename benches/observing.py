"""What it costs that a server can be looked at: `make bench-observing`.

1. Instructions of a heartbeat, with and without what is counted for metrics and remembered as causes. The server is
   built twice, once from a copy in which the functions that count and remember do nothing, and runs below callgrind
   (`benches/heartbeats.py`).
2. CPU of a heartbeat with `--http`, scraped and shown every second, beside a server without, in turns. That is time: a
   quiet machine is wanted.

It needs valgrind. Exit code 1 if the first is more than 3 %.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benches.heartbeats import DEPTHS, built, of_a_heartbeat

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build/observing"
COPIED = ("Cargo.toml", "Cargo.lock", "rust", "benches/rust")
LEFT_OUT = shutil.ignore_patterns("target", "__pycache__", "*.so")

#: What does nothing in the copy, by file.
SILENCED = {
    "rust/server/src/base/metrics.rs": ("asked", "answered", "fired", "rebalanced"),
    "rust/core/src/rebalance.rs": ("remember_rebalance",),
    "rust/core/src/group.rs": ("rebalance_joined", "rebalance_settled"),
}
SHARE_MAX = 0.03


def silenced(text: str, function: str) -> str:
    """The text in which the only function of that name returns at once."""
    begin = rf"(?m)^ *(?:pub(?:\(crate\))? )?fn {function}\([^{{]*\{{\n"
    changed, count = re.subn(begin, lambda match: match[0] + "if true { return; }\n", text)
    if count != 1:
        raise SystemExit(f"there are {count} functions `{function}` to be silenced, not one")
    return changed


def copied() -> Path:
    """The workspace, with nothing counted and nothing remembered. Files keep their times: what is built stays so."""
    for name in COPIED:
        source, sink = ROOT / name, COPY / name
        if source.is_dir():
            shutil.copytree(source, sink, ignore=LEFT_OUT, dirs_exist_ok=True)
        else:
            sink.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, sink)
    for name, functions in SILENCED.items():
        text = (ROOT / name).read_text()
        for function in functions:
            text = silenced(text, function)
        (COPY / name).write_text(text)
        shutil.copystat(ROOT / name, COPY / name)
    return COPY


def counted() -> bool:
    """The first part."""
    with tempfile.TemporaryDirectory() as place:
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        whole = built(ROOT, target, Path(place) / "whole")
        silent = built(copied(), COPY / "target", Path(place) / "silent")
        is_small = True
        for depth in DEPTHS:
            with_them, without = of_a_heartbeat(whole, depth), of_a_heartbeat(silent, depth)
            share = with_them / without - 1
            is_small &= share <= SHARE_MAX
            print(
                f"{depth:2} in each write: {with_them:,.1f} instructions a heartbeat, {without:,.1f} with nothing "
                f"counted and no cause remembered: {share:+.2%}",
                flush=True,
            )
    return is_small


@contextmanager
def serving(*options: str) -> Iterator[tuple[dict[str, str], int]]:
    """A server: what it says of itself, and its process."""
    command = [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline()), process.pid
        finally:
            process.terminate()


@contextmanager
def looked_at(address: str, every_s: float) -> Iterator[list[int]]:
    """A client scrapes the metrics and has the page open; counts how often."""
    over, looks = threading.Event(), [0]

    def look() -> None:
        while not over.wait(every_s):
            for path in ("metrics", "groups"):
                with urllib.request.urlopen(f"http://{address}/{path}", timeout=60) as answer:
                    answer.read()
            looks[0] += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield looks
    finally:
        over.set()
        thread.join()


def timed(arguments: argparse.Namespace) -> None:
    """The second part."""
    with ExitStack() as stack:
        plain, plain_pid = stack.enter_context(serving())
        shown, shown_pid = stack.enter_context(serving("--http", ":0"))
        looks = stack.enter_context(looked_at(shown["http"], arguments.every))
        told = measured([(plain["listen"], plain_pid), (shown["listen"], shown_pid)], arguments)
    cpu_us = [1e6 * one["cpu_s_each"]["median"] for one in told["servers"]]
    print(
        f"CPU a heartbeat, {arguments.members:,} members, {arguments.rate:,} a second: {cpu_us[0]:.2f} us without "
        f"--http, {cpu_us[1]:.2f} us with it, scraped and shown every {arguments.every:g} s: "
        f"{cpu_us[1] / cpu_us[0] - 1:+.1%} ({looks[0]} looks)"
    )


def measured(servers: list[tuple[str, int]], arguments: argparse.Namespace) -> Any:
    """`rota bench serve` at both, in turns."""
    command = [sys.executable, "-m", "rota", "bench", "serve", "--json", "--rate", str(arguments.rate)]
    command += ["--connections", "16", "--members", str(arguments.members), "--seconds", str(arguments.seconds)]
    command += ["--rounds", str(arguments.rounds)]
    for address, pid in servers:
        command += ["--bootstrap-server", address, "--pid", str(pid)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ended.stdout)


def main() -> int:
    """Both parts, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m benches.observing", description=__doc__)
    parser.add_argument("parts", nargs="*", help="`counted`, `timed`; both without", default=["counted", "timed"])
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=20_000, help="heartbeats a second")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two looks")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    is_small = "counted" not in arguments.parts or counted()
    if "timed" in arguments.parts:
        timed(arguments)
    return 0 if is_small else 1


if __name__ == "__main__":
    sys.exit(main())
