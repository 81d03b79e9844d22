"""The time until a server gives its first answer: `python benches/startup.py [--json]`.

Figures, each from ten runs after one that is not counted: a process from its start (`rota serve`), a server inside this
process (`rota.Server`), and what the pytest fixture `rota_server` takes until the test begins and after it has ended.
The floors beside them: a Python interpreter that does nothing, a thread that does nothing, one Python call.
"""

import json
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import rota
from rota.pytest_plugin import SETTINGS

RUNS = 10
API_VERSIONS = 18


def first_answer(port: int) -> None:
    """Sends ApiVersions v0 and waits for the whole answer."""
    body = struct.pack(">hhih", API_VERSIONS, 0, 1, -1)
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (length,) = struct.unpack(">i", answers.read(4))
        assert len(answers.read(length)) == length


def serve() -> None:
    command = [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        first_answer(int(ready.split(" on ")[1].split()[0].rsplit(":", 1)[1]))
        process.terminate()


def in_process() -> None:
    with rota.Server() as server:
        first_answer(int(server.bootstrap_servers.rsplit(":", 1)[1]))


def floor() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def a_thread() -> None:
    thread = threading.Thread(target=a_call)
    thread.start()
    thread.join()


def a_call() -> None:
    pass


def fixture() -> tuple[dict[str, float], dict[str, float]]:
    """What `rota_server` does before a test and after it, in milliseconds."""
    ready_ms, ended_ms = [], []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        server = rota.Server(settings=SETTINGS)
        ready_ms.append((time.perf_counter() - began) * 1_000)
        first_answer(server.port)
        began = time.perf_counter()
        server.stop()
        ended_ms.append((time.perf_counter() - began) * 1_000)
    return summary(ready_ms), summary(ended_ms)


def timed(run: Callable[[], None]) -> dict[str, float]:
    """Milliseconds: minimum, median, maximum. The end of the server is in them, too."""
    times_ms = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        run()
        times_ms.append((time.perf_counter() - began) * 1_000)
    return summary(times_ms)


def summary(times_ms: list[float]) -> dict[str, float]:
    counted = times_ms[1:]
    return {"min": min(counted), "median": statistics.median(counted), "max": max(counted)}


def main() -> None:
    ready, ended = fixture()
    figures = {
        "rota serve": timed(serve),
        "python -c pass": timed(floor),
        "rota.Server": timed(in_process),
        "fixture, ready": ready,
        "fixture, ended": ended,
        "a thread": timed(a_thread),
        "a Python call": timed(a_call),
    }
    if "--json" in sys.argv[1:]:
        print(json.dumps({"runs": RUNS, "unit": "ms", "figures": figures}))
        return
    print(f"ms, {RUNS} runs: minimum / median / maximum")
    for name, figure in figures.items():
        print(f"  {name:<15} {figure['min']:9.4f} / {figure['median']:9.4f} / {figure['max']:9.4f}")


if __name__ == "__main__":
    main()
