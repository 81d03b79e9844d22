"""How long it takes until a server gives its first answer: `python benches/startup.py [--json]`.

Two figures, each from ten runs after one that is not counted: a process from its start (`rota serve`), and a server
inside this process (`rota.Server`). The floor beside them is the start of a Python interpreter that does nothing.
"""

import json
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable

import rota

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


def timed(run: Callable[[], None]) -> dict[str, float]:
    """Milliseconds: minimum, median, maximum. The end of the server is in them, too."""
    times_ms = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        run()
        times_ms.append((time.perf_counter() - began) * 1_000)
    counted = times_ms[1:]
    return {"min": min(counted), "median": statistics.median(counted), "max": max(counted)}


def main() -> None:
    figures = {"rota serve": timed(serve), "rota.Server": timed(in_process), "python -c pass": timed(floor)}
    if "--json" in sys.argv[1:]:
        print(json.dumps({"runs": RUNS, "unit": "ms", "figures": figures}))
        return
    print(f"from start to first answer and end, ms, {RUNS} runs: minimum / median / maximum")
    for name, figure in figures.items():
        print(f"  {name:<15} {figure['min']:8.2f} / {figure['median']:8.2f} / {figure['max']:8.2f}")


if __name__ == "__main__":
    main()
