"""The HTTP side itself: health, what it refuses, and what it never does."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import rota
from rota.http import listen, reading
from rota.http.listener import CONNECTIONS_MAX

from .asking import SETTINGS, WITHIN_S, ask, shown, until


@pytest.fixture(scope="module")
def server() -> rota.Server:  # type: ignore[misc]
    with rota.Server(settings=SETTINGS, http="127.0.0.1:0") as server:
        yield server


def answers(address: str, request: bytes) -> bytes:
    """All that comes until the server closes the connection."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WITHIN_S) as client:
        client.sendall(request)
        return client.makefile("rb").read()


def test_nothing_is_shown_unless_it_is_asked_for() -> None:
    with rota.Server() as server:
        assert server.http_address is None


def test_an_address_without_a_host_is_on_this_machine_only() -> None:
    with rota.Server(http=":0") as server:
        assert server.http_address is not None
        assert server.http_address.startswith("127.0.0.1:")


def test_a_server_that_serves_is_alive_and_ready(server: rota.Server) -> None:
    assert shown(server, "/healthz", "healthz") == {
        "status": "ok",
        "connections": 0,
        "waiting_requests": 0,
        "reload_errors": [],
    }
    assert shown(server, "/readyz", "readyz")["status"] == "ready"


def test_a_server_whose_partition_is_loading_is_alive_but_not_ready() -> None:
    with rota.Server(nodes=2, http=":0") as server:
        server.hold_loads()
        server.move_partition(7, 3 - server.owner(7))
        told = shown(server, "/readyz", "readyz", 503)
        assert (told["status"], told["loading_partitions"]) == ("not ready", [7])
        assert shown(server, "/healthz", "healthz")["status"] == "ok"
        server.release_loads()
        assert shown(server, "/readyz", "readyz")["loading_partitions"] == []


def test_a_server_that_is_starting_says_so() -> None:
    listener = listen(":0")
    try:
        for path, status, body in (
            ("/healthz", 200, {"status": "starting"}),
            ("/readyz", 503, {"error": "Starting", "message": "the server is starting: try again"}),
        ):
            head, _, told = answers(listener.address, f"GET {path} HTTP/1.0\r\n\r\n".encode()).partition(b"\r\n\r\n")
            assert head.split()[1] == str(status).encode()
            assert json.loads(told) == body
    finally:
        listener.close()


def ask_again(kept: http.client.HTTPConnection) -> None:
    """Ask on a connection that was used before."""
    kept.request("GET", "/healthz")
    kept.getresponse()


def test_a_stopped_server_answers_no_more() -> None:
    server = rota.Server(http=":0")
    address = server.http_address
    assert address is not None
    host, _, port = address.rpartition(":")
    kept = http.client.HTTPConnection(address, timeout=WITHIN_S)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read()
    server.stop()
    with pytest.raises(OSError, match=r"(?i)closed|reset|pipe"):
        ask_again(kept)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=WITHIN_S)


@pytest.mark.parametrize(
    ("path", "status", "name"),
    [
        ("/nothing", 404, "NoSuchPath"),
        ("/groups/", 404, "NoSuchGroup"),
        ("/groups/%ff", 400, "BadTarget"),
        ("/groups?limit=0", 400, "BadParameter"),
        ("/groups?limit=%D9%A3", 400, "BadParameter"),
        ("/groups?limit=10001", 400, "BadParameter"),
        ("/groups?limit=", 400, "BadParameter"),
        ("/groups?limit=0000000019999999", 400, "BadParameter"),
        ("/groups?limit=1" + "9" * 5_000, 400, "BadParameter"),
        ("/groups?limt=1", 400, "BadParameter"),
        ("/groups?limit=1&limt", 400, "BadParameter"),
        ("/groups/orders?limit=1", 400, "BadParameter"),
        ("/metrics?name=rota_up", 400, "BadParameter"),
        ("/groups?" + "&".join(f"p{at}=1" for at in range(101)), 400, "BadTarget"),
    ],
)
def test_a_request_that_cannot_be_is_refused_by_name(server: rota.Server, path: str, status: int, name: str) -> None:
    assert shown(server, path, "error", status)["error"] == name


def test_an_unknown_parameter_is_refused_with_those_that_there_are(server: rota.Server) -> None:
    refused = shown(server, "/groups?limt=1", "error", 400)
    assert refused["message"] == "/groups has no parameter `limt`: give limit or after"
    refused = shown(server, "/groups/orders?limit=1", "error", 400)
    assert refused["message"] == "/groups/orders has no parameter `limit`: leave it out"
    for path in ("/healthz", "/readyz", "/"):
        assert ask(server, f"{path}?now=1")[0] == 200, "proxies and browsers add theirs"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.parametrize("path", ["/groups", "/groups/orders", "/", "/metrics"])
def test_nothing_can_be_changed(server: rota.Server, method: str, path: str) -> None:
    status, headers, body = ask(server, path, method)
    assert (status, headers["Allow"], headers["Content-Type"]) == (405, "GET, HEAD", "application/json")
    message = f"{path} takes GET, not {method}: nothing can be changed here"
    assert json.loads(body) == {"error": "WrongMethod", "message": message}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_control_is_said_to_be_at_another_address(server: rota.Server, method: str) -> None:
    status, _, body = ask(server, "/control/expire", method)
    assert (status, json.loads(body)["error"]) == (404, "NoSuchPath")
    assert "the controls have an address of their own: that of `rota serve --control" in json.loads(body)["message"]


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        (b"\x00\x01\r\n\r\n", 400, "Bad request syntax"),
        (b"GET / HTTP/9.9\r\n\r\n", 505, "Invalid HTTP version"),
        (b"GET / HTTP\r\n\r\n", 400, "Bad request version"),
        (b"GET / HTTP/1.1\r\n" + (b"x: " + b"y" * 16_000 + b"\r\n") * 5 + b"\r\n", 431, "Too many headers"),
        (b"GET /" + b"x" * 65_536 + b" HTTP/1.1\r\n\r\n", 414, "Too Long"),
    ],
)
def test_what_is_no_http_gets_an_error_in_json(server: rota.Server, request_: bytes, status: int, says: str) -> None:
    assert server.http_address is not None
    head, _, body = answers(server.http_address, request_).partition(b"\r\n\r\n")
    told = json.loads(body)
    assert (told["error"], says in told["message"]) == ("BadRequest", True), told
    assert head.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    "header", ["Content-Length: 43", "Transfer-Encoding: chunked", "Content-Length: 0\r\nContent-Length: 43"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_body_of_a_get_is_no_request(server: rota.Server, method: str, header: str) -> None:
    assert server.http_address is not None
    told = answers(
        server.http_address, f"{method} /healthz HTTP/1.1\r\n{header}\r\n\r\nGET /schema HTTP/1.1\r\n\r\n".encode()
    )
    assert told.count(b"HTTP/1.1 ") == 1
    assert b"\r\nConnection: close\r\n" in told


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_target_that_cannot_be_read_is_at_no_path(
    server: rota.Server, method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert server.http_address is not None
    told = answers(server.http_address, f"{method} http://[ HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
    assert told.split()[1] in (b"400", b"404")
    assert capfd.readouterr().err == ""


def test_a_head_has_to_be_here_in_time(server: rota.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HEAD_SECONDS", 0.2)
    assert server.http_address is not None
    # The first answer says that the second head has its own time. The rest of that never comes.
    told = answers(server.http_address, b"GET /healthz HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n")
    assert told.count(b"HTTP/1.1 200 ") == 1


def test_a_body_has_no_head_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.sendall(b"POST / HTTP/1.1\r\n")
        requests = reading.Requests(reader)
        requests.begin()
        assert requests.readline() == b"POST / HTTP/1.1\r\n"
        monkeypatch.setattr("rota.http.reading.time.monotonic", lambda: float("inf"))
        with pytest.raises(TimeoutError, match="longer than 10 s"):
            requests.readline()
        requests.end_head()
        writer.sendall(b"body")
        assert requests.read(4) == b"body"


def test_a_thread_that_cannot_start_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with rota.Server(http=":0") as server:
        assert server.http_address is not None
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_thread)
            for _ in range(CONNECTIONS_MAX + 1):
                assert answers(server.http_address, b"") == b""
        assert ask(server, "/healthz")[0] == 200
    assert capsys.readouterr().err.count("an HTTP connection is closed: can't start new thread") == CONNECTIONS_MAX + 1


WITHOUT_FILES = """
import resource, socket, threading, time
from rota.http import listen, reading
listener = listen(":0")
host, _, port = listener.address.rpartition(":")
client = socket.socket()
resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, 4096))
client.connect((host, int(port)))
before = time.process_time()
threading.Event().wait(1)
used = time.process_time() - before
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
client.sendall(b"GET /healthz HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n")
print(client.makefile("rb").readline(), used)
"""


def test_a_listener_without_files_waits_for_one() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_FILES], capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    answer, _, used = ended.stdout.rpartition(" ")
    assert answer == "b'HTTP/1.1 200 OK\\r\\n'", ended
    # It tries twenty times, where it tried without end.
    assert float(used) < 0.5


def test_head_has_the_headers_of_get_and_no_body(server: rota.Server) -> None:
    status, headers, body = ask(server, "/schema", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) == len(ask(server, "/schema")[2])


def test_every_answer_forbids_a_browser_to_load_or_guess_anything(server: rota.Server) -> None:
    for path in ("/groups", "/nothing"):
        headers = ask(server, path)[1]
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "localhost.evil.test"])
def test_a_name_that_is_not_this_machines_is_refused_on_loopback(server: rota.Server, host: str) -> None:
    status, _, body = ask(server, "/groups", Host=host)
    assert (status, json.loads(body)["error"]) == (421, "WrongHost")


@pytest.mark.parametrize("host", ["localhost:9644", "127.0.0.1", "[::1]:9644"])
def test_this_machines_names_are_taken(server: rota.Server, host: str) -> None:
    assert ask(server, "/groups", Host=host)[0] == 200


def test_so_many_connections_are_served_and_one_more_is_closed() -> None:
    with rota.Server(http=":0") as server:
        assert server.http_address is not None
        host, _, port = server.http_address.rpartition(":")
        before = threading.active_count()
        held = [socket.create_connection((host, int(port)), timeout=WITHIN_S) for _ in range(CONNECTIONS_MAX)]
        until(lambda: threading.active_count() == before + CONNECTIONS_MAX, "a thread for each connection")
        with socket.create_connection((host, int(port)), timeout=WITHIN_S) as one_more:
            head, _, body = one_more.makefile("rb").read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body) == {"error": "Busy", "message": "64 connections are open: close one, or try again"}
        for client in held:
            client.close()
        until(lambda: threading.active_count() == before, "the threads end with their connections")
        assert ask(server, "/healthz")[0] == 200


@pytest.mark.parametrize("address", ["9644", "localhost:http", "127.0.0.1:65536", "127.0.0.1:-1"])
def test_an_address_that_is_none_is_refused_and_no_server_starts(address: str) -> None:
    with pytest.raises(ValueError, match=r"give HOST:PORT or :PORT"):
        rota.Server(http=address)


def test_an_address_in_use_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = f"127.0.0.1:{taken.getsockname()[1]}"
        says = f"cannot serve HTTP on {wanted}: Address already in use; give another port, or 0 for a free one"
        with pytest.raises(OSError, match=f"^{says}"):
            rota.Server(http=wanted)
        command = [sys.executable, "-m", "rota", "serve", "--listen", "127.0.0.1:0", "--http", wanted]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"rota: {says}")


def test_a_server_that_cannot_start_leaves_no_listener(tmp_path: Path) -> None:
    with socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        port = spare.getsockname()[1]
    with pytest.raises(OSError, match="missing"):
        rota.Server(data=tmp_path / "missing" / "data", http=f"127.0.0.1:{port}")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
