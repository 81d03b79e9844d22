"""Flags over environment over file over default; what cannot be is refused with the name that was meant."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import rota
from rota._rota import user_lines
from rota.cli import app
from rota.config.lacking import INSTEAD
from rota.config.options import OPTIONS
from rota.config.sources import kafka_defaults, variable_of

ROOT = Path(__file__).resolve().parents[2]
FILE = """
[server]
nodes = 2
log_format = "json"

[kafka]
group.max.size = 10
"group.min.session.timeout.ms" = 1000
auto.create.topics.enable = false
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rota.toml"
    path.write_text(FILE)
    return path


def show(*arguments: object, **environment: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(app, ["config", "show", *map(str, arguments)], env=environment)
    return ended.exit_code, ended.stdout, ended.stderr


def told(*arguments: object, **environment: str) -> dict[str, tuple[object, str]]:
    """Value and source by name."""
    code, out, err = show("--json", *arguments, **environment)
    assert code == 0, err
    return {name: (one["value"], one["source"]) for name, one in json.loads(out).items()}


def test_without_anything_all_values_are_defaults() -> None:
    found = told()
    assert {source for _, source in found.values()} == {"default"}
    assert found.keys() == OPTIONS.keys() | kafka_defaults().keys()
    assert found["group.max.session.timeout.ms"][0] == "1800000"


def test_one_long_value_does_not_widen_the_other_lines() -> None:
    _, out, _ = show()
    wide = [line.split()[0] for line in out.splitlines() if len(line) > 80]
    assert wide == ["listener.security.protocol.map"]


def test_only_what_is_not_a_default_is_shown_if_asked_for() -> None:
    flags = ("--changed", "--nodes", 2, "--set", "group.max.size=30")
    _, out, _ = show(*flags)
    assert [line.split(maxsplit=2) for line in out.splitlines()] == [
        ["nodes", "2", "flag --nodes"],
        ["group.max.size", "30", "flag --set"],
    ]
    assert told(*flags).keys() == {"nodes", "group.max.size"}
    assert show("--changed")[1] == ""


def test_a_later_source_counts_more_and_each_value_says_where_it_is_from(file: Path) -> None:
    found = told("--config", file)
    assert found["nodes"] == (2, f"file {file}")
    assert found["group.max.size"] == ("10", f"file {file}")
    assert found["auto.create.topics.enable"] == ("false", f"file {file}")
    found = told("--config", file, ROTA_NODES="3", ROTA_GROUP_MAX_SIZE="20", ROTA_TRACE="true")
    assert found["nodes"] == (3, "environment ROTA_NODES")
    assert found["group.max.size"] == ("20", "environment ROTA_GROUP_MAX_SIZE")
    assert found["trace"] == (True, "environment ROTA_TRACE")
    assert found["group.min.session.timeout.ms"] == ("1000", f"file {file}")
    flags = ("--nodes", 1, "--set", "group.max.size=30", "--no-trace")
    found = told("--config", file, *flags, ROTA_NODES="3", ROTA_GROUP_MAX_SIZE="20", ROTA_TRACE="true")
    # The flag says what the default is: it is the flag that counts.
    assert found["nodes"] == (1, "flag --nodes")
    assert found["group.max.size"] == ("30", "flag --set")
    assert found["trace"] == (False, "flag --trace")


def test_the_file_can_be_named_by_the_environment(file: Path) -> None:
    assert told(ROTA_CONFIG=str(file))["nodes"] == (2, f"file {file}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[kafka]\ngroup.max.sizes = 1",
            "[kafka]: unknown setting `group.max.sizes`; the nearest one is `group.max.size",
        ),
        ("[server]\nlisten_on = 'x'", "[server]: unknown setting `listen_on`; the nearest one is `listen`"),
        ("[server]\ngroup.max.size = 1", "[server]: `group.max.size` belongs to the table [kafka]"),
        ("[kafka]\nlisten = 'x'", "[kafka]: `listen` belongs to the table [server]"),
        ("[server]\nfoo = 1", "[server]: unknown setting `foo`; `rota config show` and `rota settings` list them"),
        ("[kafka]\nlog.dirs = '/tmp/x'", "[kafka]: unknown setting `log.dirs`: rota has --data DIR"),
        ("[server]\nlisten = 9092", "`listen` is `9092`: give HOST:PORT in quotes"),
        ("[server]\nhttp = 9644", "`http` is `9644`: give HOST:PORT in quotes"),
        ("nodes = 1", "`nodes` stands outside of the tables [server] and [kafka]"),
        ("[server]\nnodes = 1001", "`nodes` is `1001`: give a whole number from 1 to 1000"),
        ("[server]\nnodes = true", "`nodes` is `true`: give a whole number from 1 to 1000"),
        ("[server]\nnodes = 1.5", "`nodes` is `1.5`: give a text, a whole number, true or false"),
        ("[server]\ndurability = 'none'", "`durability` is `none`: give fsync or os"),
        ("[server]\ntrace = 'yes'", "`trace` is `yes`: give true or false"),
        ("[server]\nlisten = '9092'", "listen is `9092`: write :9092 for a port of this machine only, or HOST:9092"),
        ("[kafka]\ngroup.max.size = 0", "`group.max.size` is `0`, expected a whole number from 1 to 2147483647"),
        ("[server", "Expected ']'"),
    ],
)
def test_a_file_that_cannot_be_is_refused_by_show_and_by_serve(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "rota.toml"
    path.write_text(text)
    for command in (["config", "show"], ["serve"]):
        ended = CliRunner().invoke(app, [*command, "--config", str(path)])
        assert (ended.exit_code, ended.stdout) == (2, "")
        assert says in ended.stderr
        assert str(path) in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"ROTA_GROUP_MAX_SIZ": "1"}, "setting `ROTA_GROUP_MAX_SIZ`; the nearest one is `ROTA_GROUP_MAX_SIZE`"),
        ({"ROTA_NODES": "many"}, "environment ROTA_NODES: `nodes` is `many`: give a whole number from 1 to 1000"),
        ({"ROTA_GROUP_MAX_SIZE": "0"}, "`group.max.size` is from environment ROTA_GROUP_MAX_SIZE"),
    ],
)  # fmt: skip
def test_a_variable_that_cannot_be_is_refused(environment: dict[str, str], says: str) -> None:
    code, out, err = show(**environment)
    assert (code, out) == (2, "")
    assert says in err


def test_variables_that_are_somebody_elses_are_left_alone() -> None:
    """A Kubernetes service called `rota` puts these into every pod."""
    found = told(ROTA_PORT="tcp://10.0.0.1:9092", ROTA_SERVICE_HOST="10.0.0.1", ROTA_DATA="")
    assert {source for _, source in found.values()} == {"default"}


def test_settings_that_contradict_each_other_are_refused_with_the_source_of_both(tmp_path: Path) -> None:
    path = tmp_path / "rota.toml"
    path.write_text("[kafka]\ngroup.min.session.timeout.ms = 30000\n")
    code, _, err = show("--config", path, ROTA_GROUP_MAX_SESSION_TIMEOUT_MS="3")
    assert code == 2
    assert f"`group.min.session.timeout.ms` is from file {path}" in err
    assert "`group.max.session.timeout.ms` is from environment ROTA_GROUP_MAX_SESSION_TIMEOUT_MS" in err


def test_a_setting_that_another_option_has_to_go_with_is_refused_in_one_line() -> None:
    code, out, err = show("--set", "super.users=User:admin")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "super.users" in err


def test_the_file_that_is_packaged_is_one_that_a_server_takes() -> None:
    assert told("--config", ROOT / "packaging/rota.toml")["data"][0] == "/var/lib/rota"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("log.dirs", ": rota has --data DIR; "),
        ("broker.id", ": rota numbers its nodes from 1; a server of a cluster has --node-id N; "),
        ("default.replication.factor", ": rota does not replicate partitions; "),
        ("cleanup.policy", ": it is a setting of topics, and rota does not compact them; "),
        ("group.max.sise", "; the nearest one is `group.max.size`; "),
        ("offsets.keep.minutes", "; the nearest one is `offsets.retention.minutes`; "),
        (
            "log.cleaner.threads",
            "; the nearest are `log.retention.bytes`, `log.retention.check.interval.ms`, `log.retention.ms`; ",
        ),
    ],
)
def test_an_unknown_setting_is_answered_with_what_rota_has_instead(name: str, says: str) -> None:
    code, out, err = show("--set", f"{name}=1")
    assert (code, out) == (2, "")
    assert err == f"rota: unknown setting `{name}`{says}`rota settings` lists the settings\n"


def test_what_rota_has_instead_exists_and_the_settings_do_not() -> None:
    commands: Any = get_command(app)
    options = {name for parameter in commands.commands["serve"].params for name in parameter.opts}
    assert not INSTEAD.keys() & kafka_defaults().keys()
    for said in INSTEAD.values():
        assert {word for word in said.replace(";", "").split() if word.startswith("--")} <= options
        assert set(re.findall(r"`([^`]+)`", said)) <= kafka_defaults().keys()


def test_a_file_of_kafkas_broker_is_answered_with_how_to_write_it(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=0\nlisteners=PLAINTEXT://:9092\n")
    code, out, err = show("--config", path)
    reason = "rota reads TOML: put the settings into its table [kafka], texts in quotes (docs/operating.md)"
    assert (code, out, err) == (2, "", f"rota: file {path}: {reason}\n")


def test_several_addresses_of_listen_are_answered_with_the_setting_for_them() -> None:
    for given in ("localhost:9392,localhost:9393", "PLAINTEXT://:9392,PLAINTEXT://:9393"):
        code, out, err = show("--listen", given)
        says = f"rota: --listen is `{given}`: give one address, or use the setting `listeners`\n"
        assert (code, out, err) == (2, "", says)


def test_no_two_names_are_the_same_variable() -> None:
    names = [*OPTIONS, *kafka_defaults()]
    assert len({variable_of(name) for name in names}) == len(names)


def test_every_option_of_serve_can_be_configured_or_is_known_not_to_be() -> None:
    commands: Any = get_command(app)
    not_configured = {"pairs", "config", "as_json", "_version"}
    assert {parameter.name for parameter in commands.commands["serve"].params} - not_configured == OPTIONS.keys()


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory has `both.pem`, a certificate with its key, and `users`."""
    monkeypatch.chdir(tmp_path)
    issued = rota.Authority().issue("localhost", "127.0.0.1")
    Path("both.pem").write_text(issued.certificate + issued.key)
    Path("users").write_text("\n".join(user_lines("ana", "secret")) + "\n")


TWO = "listener.security.protocol.map=A:PLAINTEXT,B:SASL_SSL"
SECURED = "--tls-cert both.pem --users users"
KEYS = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(
    "words",
    [
        "--tls-cert nope.pem",
        "--tls-cert users",
        "--tls-cert both.pem --set ssl.keystore.location=both.pem",
        "--set ssl.principal.mapping.rules=FOO",
        "--users nope",
        "--sasl PLAIN",
        "--users users --sasl NOPE",
        "--users users --sasl PLAIN --listen SASL_PLAINTEXT://0.0.0.0:PORT",
        "--sasl OAUTHBEARER",
        f"--sasl OAUTHBEARER --set {KEYS}=nowhere",
        f"--sasl OAUTHBEARER --set {KEYS}=https://127.0.0.1:1/keys --jwks-ca users",
        "--acls nope",
        "--set super.users=User:admin",
        "--set authorizer.class.name=mine",
        "--listen 0.0.0.0:PORT",
        "--listen PLAINTEXT://0.0.0.0:PORT --advertise 0.0.0.0:PORT",
        "--advertise [::]:PORT",
        "--listen :65535 --nodes 2",
        "--set listeners=A://127.0.0.1:65535 --set listener.security.protocol.map=A:PLAINTEXT --nodes 2",
        "--set listeners=A://127.0.0.1:PORT",
        f"--set listeners=A://127.0.0.1:PORT,B://127.0.0.1:PORT --set {TWO} {SECURED}",
        f"--set listeners=A://127.0.0.1:PORT --set {TWO} {SECURED}",
        "--set inter.broker.listener.name=OTHER",
        "--http 0.0.0.0:PORT",
        "--http https://:PORT",
        "--control 0.0.0.0:PORT",
        "--control 0.0.0.0:PORT --set group.max.size=0",
        "--http-token x",
        "--control-token x",
        "--http :PORT --control-token x",
        "--virtual-clock",
        "--journal",
        "--data users",
        "--data missing/data",
        "--engine foo --node-id 1",
        "--engine etcd://127.0.0.1:1/rota --node-id 1 --nodes 2",
        "--engine etcd://127.0.0.1:1/rota --node-id 1 --peer-user ana",
        "--set group.max.size=0",
        "--durability os",
        "--take-over",
        "--ttl-ms 1000",
        "--journal-retention-ms 1000",
        "--data data --journal-retention-bytes 1000",
    ],
)
def test_show_refuses_what_serve_refuses_in_the_same_words(words: str) -> None:
    words = words.replace("PORT", "19092")
    shown, served = (
        CliRunner().invoke(app, [*command.split(), *words.split()]) for command in ("config show", "serve")
    )
    assert (shown.exit_code, shown.stdout, shown.stderr) == (2, "", served.stderr)
    assert served.exit_code == 2
    assert len(served.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words", ["--listen PLAINTEXT://nosuch.invalid:9092", "--set listeners=PLAINTEXT://nosuch.invalid:9092"]
)
def test_show_refuses_a_host_that_is_not_known(words: str) -> None:
    shown, served = (
        CliRunner().invoke(app, [*command.split(), *words.split()]) for command in ("config show", "serve")
    )
    assert (shown.exit_code, shown.stdout, shown.stderr) == (1, "", served.stderr)
    assert served.exit_code == 1


def test_a_token_of_a_file_needs_its_listener_and_one_of_the_environment_does_not(tmp_path: Path) -> None:
    for name, listener in (("http_token", "http"), ("control_token", "control")):
        file = tmp_path / f"{name}.toml"
        file.write_text(f'[server]\n{name} = "x"\n')
        code, out, err = show("--config", file)
        says = f"rota: file {file}: {name} needs --{listener}: give the address to serve, too\n"
        assert (code, out, err) == (2, "", says)
        assert told(**{variable_of(name): "x"})[name] == ("(hidden)", f"environment {variable_of(name)}")


@pytest.mark.parametrize(
    ("words", "one", "other", "port"),
    [
        ("--listen 127.0.0.1:9392 --http :9392", "--listen is `127.0.0.1:9392`", "--http is `:9392`", 9392),
        ("--listen :0 --control :9645 --http :9645", "--http is `:9645`", "--control is `:9645`", 9645),
        ("--listen :9390 --nodes 3 --http localhost:9392", "--listen is `:9390`", "--http is `localhost:9392`", 9392),
        (
            "--listen PLAINTEXT://0.0.0.0:9392 --control http://127.0.0.1:9392",
            "--listen is `PLAINTEXT://0.0.0.0:9392`",
            "--control is `http://127.0.0.1:9392`",
            9392,
        ),
        (
            "--set listeners=PLAINTEXT://:9392 --http 127.0.0.1:9392",
            "`listeners` has `:9392`",
            "--http is `127.0.0.1:9392`",
            9392,
        ),
        (
            "--listen PLAINTEXT://[::]:9392 --http :9392",
            "--listen is `PLAINTEXT://[::]:9392`",
            "--http is `:9392`",
            9392,
        ),
    ],
)
def test_one_port_is_not_given_to_two_options(words: str, one: str, other: str, port: int) -> None:
    for command in ("config show", "serve"):
        ended = CliRunner().invoke(app, [*command.split(), *words.split()])
        said = f"rota: {one}, and {other}: both would take port {port}, give each a port of its own\n"
        assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", said)


@pytest.mark.parametrize(
    "words",
    [
        "--listen :0 --http :0 --control :0",
        "--listen 127.0.0.1:9392 --http 127.0.0.2:9392",
        "--listen 127.0.0.1:9392 --http [::1]:9392",
        "--listen :9390 --nodes 2 --http :9392",
    ],
)
def test_ports_that_differ_or_are_on_other_addresses_are_no_mistake(words: str) -> None:
    code, _, err = show(*words.split())
    assert (code, err) == (0, "")


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(
    "words",
    [
        "--listen 0.0.0.0:PORT --advertise kafka.test:9093 --tls-cert both.pem",
        f"--set listeners=A://127.0.0.1:PORT,B://0.0.0.0:0 --set {TWO} {SECURED}",
        "--http :PORT --virtual-clock --control :0",
        "--control :PORT",
        "--set ssl.keystore.location=both.pem --set listeners=PLAINTEXT://:PORT --http https://127.0.0.1:0",
        f"--sasl OAUTHBEARER --set {KEYS}=http://127.0.0.1:PORT/keys",
        "--engine etcd://127.0.0.1:PORT/rota --node-id 1 --data data",
        "--data data --journal-dir journal --nodes 3",
    ],
)
def test_show_opens_nothing(words: str, tmp_path: Path) -> None:
    """Addresses, the engine and the directories may be in use, as beside a server that runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        taken.settimeout(0.2)
        found = told(*words.replace("PORT", str(taken.getsockname()[1])).split())
        with pytest.raises(TimeoutError):
            taken.accept()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.pem", "users"]
    assert found["group.max.size"] == ("2147483647", "default")


@pytest.mark.usefixtures("secrets")
def test_show_prints_listeners_as_they_are_given_and_hides_keys() -> None:
    listeners, key = "A://127.0.0.1:0,B://0.0.0.0:9093", Path("both.pem").read_text()
    settings = {"listeners": listeners, "ssl.keystore.key": key, "ssl.keystore.certificate.chain": key}
    pairs = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    found = told(*pairs, "--set", TWO, "--users", "users")
    assert found["listeners"] == (listeners, "flag --set")
    assert found["ssl.keystore.key"] == ("(hidden)", "flag --set")


def test_show_reads_the_configuration_of_a_server_that_runs(tmp_path: Path) -> None:
    with rota.Server(data=tmp_path / "data", http=":0") as server:
        words = ("--listen", f":{server.port}", "--data", tmp_path / "data", "--http", server.http_address)
        assert told(*words)["listen"] == (f":{server.port}", "flag --listen")


@pytest.mark.parametrize("retention", ["", "journal_retention_ms = 1000"])
def test_a_flag_turns_off_a_journal_of_the_file_or_the_environment(tmp_path: Path, retention: str) -> None:
    file = tmp_path / "rota.toml"
    file.write_text(f"[server]\njournal_dir = {json.dumps(str(tmp_path / 'journal'))}\n{retention}\n")
    on, off = told("--config", file), told("--config", file, "--no-journal")
    assert on["journal_dir"] == (str(tmp_path / "journal"), f"file {file}")
    assert (off["journal_dir"], off["journal"]) == ((None, "default"), (False, "flag --journal"))
    assert told("--no-journal", ROTA_JOURNAL_DIR=str(tmp_path / "journal"))["journal_dir"] == (None, "default")
    given = told("--journal-dir", tmp_path, ROTA_JOURNAL="false")
    assert given["journal_dir"] == (str(tmp_path), "flag --journal-dir")


def test_two_flags_about_the_journal_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    says = "rota: --no-journal and --journal-dir contradict each other: give one of them\n"
    assert show("--no-journal", "--journal-dir", tmp_path) == (2, "", says)


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rota.toml"
    file.write_text(f"a = {'[' * 100_000}")
    code, _, says = show("--config", file)
    assert (code, says.count("\n")) == (2, 1)
    assert says.startswith(f"rota: file {file}: not a TOML file: "), says
