"""`rota serve` and `rota settings` as processes: first line, exit codes, one-line errors."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import rota
from rota.reporting import Report
from rota.serve.ending import Ending

ROTA = [sys.executable, "-m", "rota"]
WITHIN_S = 30


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ROTA, *arguments], capture_output=True, text=True, timeout=WITHIN_S, stdin=subprocess.DEVNULL, check=False
    )


@contextmanager
def serving(*arguments: str, listen: str | None = "127.0.0.1:0") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process that has said it is ready, and its first line."""
    process = subprocess.Popen(
        [*ROTA, "serve", *(() if listen is None else ("--listen", listen)), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().rstrip("\n")
    finally:
        process.kill()
        process.communicate()


def port_in(first_line: str, host: str = "127.0.0.1") -> int:
    address = rf"{re.escape(host)}:(\d+)"
    found = re.fullmatch(
        rf"rota {re.escape(rota.__version__)} ready on {address} \(in memory: nothing survives a restart\)",
        first_line,
    )
    assert found, first_line
    return int(found[1])


def test_the_first_line_says_where_a_client_can_connect() -> None:
    with serving() as (_, first_line):
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port_in(first_line)}"})
        assert len(admin.list_topics(timeout=WITHIN_S).brokers) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_cleanly(number: signal.Signals) -> None:
    with serving() as (process, first_line):
        port = port_in(first_line)
        process.send_signal(number)
        _, errors = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0
        assert errors == ""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)


def test_clients_are_told_the_advertised_address() -> None:
    with socket.socket() as spare, serving("--advertise", "localhost:9") as (process, first_line):
        spare.bind(("127.0.0.1", 0))
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port_in(first_line)}", "log_level": 0})
        broker = next(iter(admin.list_topics(timeout=WITHIN_S).brokers.values()))
        assert f"{broker.host}:{broker.port}" == "localhost:9"
        assert process.stdout is not None
        assert process.stdout.readline() == "advertised to clients: localhost:9\n"


def test_a_server_on_all_addresses_says_what_clients_are_given_and_how_to_change_it() -> None:
    with serving("--listen", "PLAINTEXT://0.0.0.0:0") as (process, first_line):
        assert process.stderr is not None
        told = process.stderr.readline()
        assert port_in(first_line, "0.0.0.0") > 0
    assert told == (
        "rota: --listen is 0.0.0.0 and --advertise is not given: each client is sent to the address it connected to. "
        "Behind NAT or a port mapping, give --advertise HOST:PORT\n"
    )
    with serving() as (process, _):
        process.terminate()
        assert process.communicate(timeout=WITHIN_S)[1] == ""


@pytest.mark.parametrize("with_users", [False, True])
def test_an_address_without_encryption_that_others_reach_has_to_be_asked_for_by_name(
    with_users: bool, tmp_path: Path
) -> None:
    more = ["--users", str(users_file(tmp_path))] if with_users else []
    name = "SASL_PLAINTEXT" if with_users else "PLAINTEXT"
    refused = run("serve", "--listen", "0.0.0.0:0", *more)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "rota: others reach 0.0.0.0:0, and connections to it are not encrypted: give --tls-cert, or ask for it by "
        f"name: --listen {name}://0.0.0.0:0\n"
    )
    listen = ["--listen", f"{name}://0.0.0.0:0", "--advertise", "localhost:9"]
    for named in (listen, ["--set", f"listeners={name}://0.0.0.0:0"]):
        with serving(*named, *more, listen=None) as (process, first_line):
            assert first_line.startswith(f"rota {rota.__version__} ready on 0.0.0.0:")
            process.terminate()
            assert process.communicate(timeout=WITHIN_S)[1] == ""


def users_file(directory: Path) -> Path:
    path = directory / "users"
    added = subprocess.run([*ROTA, "user", "add", str(path), "ana"], input="secret\n", text=True, check=False)
    assert added.returncode == 0
    return path


def test_the_lines_after_the_first_name_the_other_listeners() -> None:
    settings = [
        *("--set", "listeners=INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0"),
        *("--set", "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"),
    ]
    with serving(*settings, listen=None) as (process, first_line):
        assert port_in(first_line) > 0
        assert process.stdout is not None
        assert re.fullmatch(r"also on 127\.0\.0\.1:\d+: EXTERNAL \(PLAINTEXT\)\n", process.stdout.readline())
    with serving("--json", *settings, listen=None) as (_, first_line):
        ready = json.loads(first_line)
        assert list(ready["listeners"]) == ["INTERNAL", "EXTERNAL"]
        assert ready["listeners"]["INTERNAL"] == {"listen": ready["listen"], "security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--set", "listeners=IN://127.0.0.1:0"],
            "`listener.security.protocol.map` has no protocol for the listener IN",
        ),
        (["--set", "listeners=SSL://127.0.0.1:0"], "needs a certificate: give --tls-cert"),
        (
            ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--listen", ":0"],
            "--listen and the setting `listeners` are both given: give one of them",
        ),
        (["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--advertise", "h:1"], "give `advertised.listeners`"),
    ],
)
def test_listeners_that_cannot_be_end_the_command_before_it_listens(options: list[str], says: str) -> None:
    ended = run("serve", *options)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert says in ended.stderr


def test_the_first_line_has_the_addresses_of_all_nodes() -> None:
    with serving("--nodes", "3") as (_, first_line):
        addresses = first_line.split()[4]
        brokers = AdminClient({"bootstrap.servers": addresses.split(",")[2]}).list_topics(timeout=WITHIN_S).brokers
        assert ",".join(f"{brokers[node].host}:{brokers[node].port}" for node in (1, 2, 3)) == addresses


def test_each_node_is_advertised_on_a_port_of_its_own() -> None:
    with serving("--nodes", "2", "--advertise", "localhost:9") as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "advertised to clients: localhost:9, localhost:10\n"


def test_the_lines_after_the_first_say_where_groups_are_shown() -> None:
    with serving("--http", ":0") as (process, _):
        assert process.stdout is not None
        said = re.fullmatch(r"its groups are shown on (http://127\.0\.0\.1:\d+/)\n", process.stdout.readline())
        assert said
        with urllib.request.urlopen(f"{said[1]}groups", timeout=WITHIN_S) as answer:
            assert json.load(answer) == {"groups": [], "total": 0, "next": None}
    with serving("--http", "localhost:0", "--json") as (_, first_line):
        url = f"http://{json.loads(first_line)['http']}/healthz"
        assert json.load(urllib.request.urlopen(url, timeout=WITHIN_S))["status"] == "ok"


def test_a_server_with_tls_says_so_and_what_a_client_without_it_has_to_change(tmp_path: Path) -> None:
    issued = rota.Authority().issue("localhost", "127.0.0.1")
    cert, key = tmp_path / "server.pem", tmp_path / "server.key"
    cert.write_text(issued.certificate)
    key.write_text(issued.key)
    options = ("--tls-cert", str(cert), "--tls-key", str(key), "--advertise", "kafka.example:9093")
    with serving(*options) as (process, first_line):
        found = re.search(r"ready on 127\.0\.0\.1:(\d+) with TLS \(in memory", first_line)
        assert found, first_line
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=WITHIN_S) as plaintext:
            plaintext.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while plaintext.recv(4_096):
                pass
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=WITHIN_S)
        # A client that is configured wrongly is no failure of the server.
        assert process.returncode == 0
    assert "it does not name `kafka.example`" in stderr
    assert "rota: 127.0.0.1 sent no TLS handshake to a TLS listener: set security.protocol=SSL" in stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--tls-key", "server.key"), "--tls-key needs --tls-cert"),
        (("--sasl", "PLAIN"), "--sasl needs --users"),
        (("--users", "missing"), "--users is `missing`: No such file or directory; `rota user add` writes"),
        (("--acls", "missing"), "--acls is `missing`: No such file or directory; docs/security.md"),
        (("--set", "super.users=User:admin"), "`super.users` needs `authorizer.class.name="),
        (("--set", "authorizer.class.name=a.B"), "`authorizer.class.name` is `a.B`, expected `org.apache.kafka"),
        (("--set", "ssl.principal.mapping.rules=RULE:"), "the pattern has no end"),
        (("--users", "/dev/null", "--sasl", "GSSAPI"), "no SASL mechanism `GSSAPI`"),
        (("--tls-cert", "missing.pem"), "rota: --tls-cert: cannot read `missing.pem`: No such file"),
        (("--tls-cert", "missing.pem", "--tls-key", "missing.key"), "rota: --tls-cert: cannot read `missing.pem`"),
        (("--set", "ssl.keystore.location=missing.pem"), "cannot read `missing.pem`"),
        (("--listen", "SSL://:0"), "--listen names SSL, which needs a certificate: give --tls-cert"),
        (("--listen", "SASL_PLAINTEXT://:0"), "--listen names SASL_PLAINTEXT, which needs users: give --users"),
        (("--set", "ssl.client.auth=required"), "`ssl.client.auth` and `ssl.truststore.*` need TLS"),
        (("--tls-cert", "a.pem", "--set", "ssl.keystore.location=b.pem"), "the server's certificate is given twice"),
    ],
)
def test_wrong_certificates_end_the_command_with_one_line(arguments: tuple[str, ...], says: str) -> None:
    done = run("serve", "--listen", "127.0.0.1:0", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_certificate_without_its_key_is_answered_with_the_option_for_the_key(tmp_path: Path) -> None:
    issued = rota.Authority().issue("localhost")
    cert, key = tmp_path / "server.pem", tmp_path / "server.key"
    cert.write_text(issued.certificate)
    key.write_text(rota.Authority().issue("localhost").key)
    for command in ("serve", "config show"):
        done = run(*command.split(), "--tls-cert", str(cert))
        says = f"rota: --tls-cert is `{cert}`: it has a certificate and no private key: give --tls-key FILE, too\n"
        assert (done.returncode, done.stderr) == (2, says)
    done = run("serve", "--tls-cert", str(cert), "--tls-key", str(key))
    says = f"rota: --tls-cert and --tls-key: the private key in `{key}` does not belong to the first certificate in "
    assert (done.returncode, done.stderr.startswith(says)) == (2, True)


def test_an_address_in_use_is_a_failure_and_says_which() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run("serve", "--listen", wanted)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("rota: ")
    assert wanted in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--http", "--control"])
def test_an_address_of_http_that_is_in_use_says_what_to_do(option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run("serve", "--listen", "127.0.0.1:0", option, wanted)
    what = "HTTP" if option == "--http" else "control"
    remedy = "give another port, or 0 for a free one, or stop the program that has it"
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"rota: cannot serve {what} on {wanted}: Address already in use; {remedy}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "9092"), "--listen is `9092`: write :9092 for a port of this machine only, or HOST:9092"),
        (("--listen", "localhost:http"), "--listen is `localhost:http`: give HOST:PORT, such as 127.0.0.1:9092"),
        (("--listen", "localhost:65536"), "--listen is `localhost:65536`: the port is 65536, give 0 to 65535"),
        (("--listen", "::1:9092"), "--listen is `::1:9092`: write an IPv6 host in brackets, such as [::1]:9092"),
        (("--advertise", "kafka.test:0"), "--advertise is `kafka.test:0`: the port is 0, give 1 to 65535"),
        (("--listen", "127.0.0.1:65535", "--nodes", "2"), "2 nodes need the ports from 65535 on"),
        (("--http", "foo"), "--http is `foo`: give HOST:PORT, such as 127.0.0.1:9644"),
        (
            ("--engine", "foo"),
            "--engine is `foo`, which has no scheme: give etcd://HOST:PORT,.../PREFIX (etcds://",
        ),
        (("--engine", "u:pw@h/x"), "--engine is `...`, which has no scheme: give etcd://HOST:PORT,.../PREFIX"),
        (("--engine", "http://h:1"), "--engine has the scheme `http`: give etcd://HOST:PORT,.../PREFIX (etcds://"),
        (
            ("--engine", "etcd://h:1/rota", "--node-id", "1", "--nodes", "2"),
            "--nodes is 2: a server of a cluster has one node: leave it out, and start more servers",
        ),
        (("--http", "9644"), "--http is `9644`: write :9644 for a port of this machine only, or HOST:9644"),
        (("--set", "num.partitions"), "--set is `num.partitions`: give KEY=VALUE"),
        (("--set", "num.partitions=many"), "`num.partitions` is `many`"),
        (("--set", "num.partitions=10001"), "`num.partitions` is `10001`"),
        (("--set", "num.partition=3"), "unknown setting `num.partition`; the nearest one is `num.partitions`"),
    ],
)
def test_a_wrong_call_says_what_was_wrong_and_what_to_do(arguments: tuple[str, ...], says: str) -> None:
    listen = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
    ended = run("serve", *listen, *arguments)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"rota: {says}")
    assert len(ended.stderr.splitlines()) == 1


def test_a_directory_that_cannot_be_made_is_no_wrong_call() -> None:
    """A service whose disk is full for a moment is started again."""
    ended = run("serve", "--listen", "127.0.0.1:0", "--data", "/proc/x")
    says = "--data is `/proc/x`: it cannot be made: No such file or directory; give another directory"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"rota: {says}\n")


@pytest.mark.parametrize("arguments", [("serve", "--listen", "127.0.0.1:0"), ("settings",)])
@pytest.mark.parametrize(
    ("stdout", "code", "says"),
    [
        (">&-", 2, "rota: stdout is closed: send what is not wanted to /dev/null\n"),
        (">/dev/full", 1, "rota: [Errno 28] No space left on device\n"),
    ],
)
def test_a_stdout_that_takes_nothing_is_said_in_one_line(
    arguments: tuple[str, ...], stdout: str, code: int, says: str
) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {stdout}', "sh", *ROTA, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        timeout=WITHIN_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, says)


def test_an_unknown_option_is_a_wrong_call() -> None:
    ended = run("serve", "--lisen", "127.0.0.1:0")
    assert ended.returncode == 2
    assert "--lisen" in ended.stderr


@pytest.mark.parametrize("arguments", [("--version",), ("serve", "--version")])
def test_the_version_is_the_packages(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (0, f"rota {rota.__version__}\n")


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_help_has_examples_one_a_line(command: str) -> None:
    ended = run(command, "--help")
    assert ended.returncode == 0
    assert re.search(rf"^ +rota {command} --\w", ended.stdout, re.MULTILINE)


def test_the_settings_are_kafkas_with_kafkas_defaults() -> None:
    ended = run("settings", "--json")
    assert ended.returncode == 0
    table = json.loads(ended.stdout)
    assert table["group.initial.rebalance.delay.ms"] == "3000"
    assert table["group.min.session.timeout.ms"] == "6000"
    lines = run("settings").stdout.splitlines()
    assert [line.split() for line in lines] == [[name, value or "-"] for name, value in table.items()]


def test_serving_ends_when_the_server_has_ended_by_itself() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    server = rota.Server()
    try:
        ending = Ending(Report(None))
        server.stop()
        with pytest.raises(rota.ServerError):
            ending.wait(server)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_a_hangup_has_the_users_file_read_again(tmp_path: Path) -> None:
    users = users_file(tmp_path)
    right = users.read_text()
    with serving("--users", str(users)) as (process, first_line):
        assert "with SASL" in first_line
        users.write_text("nonsense\n")
        process.send_signal(signal.SIGHUP)
        said = line_of(process)
        assert said.startswith(
            f"rota: what was in `{users}` before is still used: users file `{users}`, line 1: expected"
        )
        users.write_text(right)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        # The server may have looked at the wrong file by itself, too.
        assert set(process.communicate(timeout=WITHIN_S)[1].splitlines(keepends=True)) <= {said}
        assert process.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_files_that_were_read_again_are_an_event(tmp_path: Path) -> None:
    users = users_file(tmp_path)
    with serving("--users", str(users), "--log-format", "json") as (process, _):
        assert json.loads(line_of(process))["event"] == "ready"
        users.write_text(users.read_text() + "# changed\n")
        read = json.loads(line_of(process))
        assert (read["level"], read["event"], read["message"]) == ("info", "reload", f"read again: `{users}`")


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_a_hangup_ends_a_server_that_has_nothing_to_read_again() -> None:
    with serving() as (process, _):
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == -signal.SIGHUP
