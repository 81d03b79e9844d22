"""The systemd unit and the container file: what they say is what rota takes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rota.cli import app
from rota.config.options import OPTIONS
from rota.config.sources import kafka_defaults, variable_of
from tests.checks.tidy import ROOT

UNIT = ROOT / "packaging/systemd/rota.service"
CONTAINER = ROOT / "packaging/container/Containerfile"
CONFIG = "/etc/rota/rota.toml"


def commands() -> list[list[str]]:
    """What the unit starts, as arguments of rota."""
    lines = re.findall(r"^ExecStart(?:Pre)?=/opt/rota/bin/rota (.*)$", UNIT.read_text(), re.MULTILINE)
    return [shlex.split(line.replace(CONFIG, str(ROOT / "packaging/rota.toml"))) for line in lines]


def test_what_the_unit_starts_is_a_call_that_rota_takes() -> None:
    [check, serve] = commands()
    assert serve[0] == "serve"
    for arguments in (check, ["config", "show", *serve[1:]]):
        ended = CliRunner().invoke(app, arguments)
        assert ended.exit_code == 0, ended.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "rota.service"
    # It looks whether what is started can be.
    unit.write_text(UNIT.read_text().replace("/opt/rota/bin/rota", sys.executable))
    ended = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_what_the_container_file_names_is_there() -> None:
    text = CONTAINER.read_text()
    sources = re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    named = set(re.findall(r"\bROTA_\w+", text)) - {"ROTA_CONFIG"}
    assert named <= {variable_of(name) for name in OPTIONS}
    extras = (ROOT / "pyproject.toml").read_text()
    assert [extra for extra in re.findall(r"\*\.whl\)\[([a-z,]+)\]", text) if f"\n{extra} = [" in extras] == ["http"]
    [entry], [given] = (re.findall(rf'^{word} \["(\w+)"\]$', text, re.MULTILINE) for word in ("ENTRYPOINT", "CMD"))
    assert (entry, given) == ("rota", "serve")


def test_the_ports_and_places_of_the_container_are_those_of_the_file_that_it_takes() -> None:
    text, config = CONTAINER.read_text(), (ROOT / "packaging/rota.toml").read_text()
    [port] = re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)
    [volume] = re.findall(r"^VOLUME (\S+)$", text, re.MULTILINE)
    assert f'listen = "PLAINTEXT://0.0.0.0:{port}"' in config
    [http] = re.findall(r"\bROTA_HTTP=:(\d+)", text)
    assert f"http://127.0.0.1:{http}/healthz" in text, "the health check asks there"
    assert f'data = "{volume}"' in config
    assert f"install -d -o rota -g rota -m 750 {volume}\n" in text, "it is empty, and the user's"
    assert "--no-create-home" in text, "a home has files in it, and data needs an empty directory"


def test_the_compose_file_starts_the_image_without_rights() -> None:
    compose = yaml.safe_load((ROOT / "packaging/container/compose.yaml").read_text())
    service = compose["services"]["rota"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert (ROOT / "packaging/container" / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]) == CONTAINER
    assert set(service["environment"]) <= {variable_of(name) for name in OPTIONS}
    [volume] = service["volumes"]
    assert volume.split(":")[1] in re.findall(r"^VOLUME (\S+)$", CONTAINER.read_text(), re.MULTILINE)


def test_the_recipes_of_testcontainers_use_options_that_exist() -> None:
    page = (ROOT / "docs/containers.md").read_text()
    named = set(re.findall(r"\bROTA_[A-Z_]+", page))
    assert named <= {variable_of(name) for name in (*OPTIONS, *kafka_defaults())}
    assert page.count("ready on") >= 4


CLUSTER = ROOT / "packaging/container/cluster.yaml"


def test_the_unit_of_a_clusters_node_starts_what_rota_takes() -> None:
    text = (ROOT / "packaging/systemd/rota-cluster@.service").read_text()
    lines = re.findall(r"^ExecStart(?:Pre)?=/opt/rota/bin/rota (.*)$", text, re.MULTILINE)
    config = str(ROOT / "packaging/cluster.toml")
    [check, serve] = [shlex.split(line.replace("/etc/rota/cluster.toml", config).replace("%i", "1")) for line in lines]
    for arguments in (check, ["config", "show", *serve[1:]]):
        ended = CliRunner().invoke(app, arguments)
        assert ended.exit_code == 0, ended.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("name", ["rota-cluster@.service", "etcd-rota.service"])
def test_systemd_finds_nothing_wrong_with_the_units_of_a_cluster(tmp_path: Path, name: str) -> None:
    text = (ROOT / "packaging/systemd" / name).read_text()
    unit = tmp_path / name.replace("@", "@1")
    unit.write_text(re.sub(r"/opt/rota/bin/rota|/usr/bin/etcd", sys.executable, text))
    ended = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_the_clusters_compose_file_gives_each_server_a_node_id_and_an_address_of_its_own() -> None:
    services = yaml.safe_load(CLUSTER.read_text())["services"]
    servers = {name: service for name, service in services.items() if name.startswith("rota")}
    members = sorted(services.keys() - servers.keys())
    assert (len(servers), len(members)) == (3, 3)
    names = {variable_of(name) for name in OPTIONS} | {"ROTA_CONFIG"}
    for service in servers.values():
        given = service["environment"]
        assert set(given) <= names
        assert given["ROTA_ENGINE"] == "etcd://" + ",".join(f"{name}:2379" for name in members) + "/rota"
        assert sorted(service["depends_on"]) == members
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        [published] = service["ports"]
        assert given["ROTA_ADVERTISE"] == f"localhost:{published.partition(':')[0]}"
        assert given["ROTA_LISTEN"].rpartition(":")[2] == published.partition(":")[2]
    assert len({service["environment"]["ROTA_NODE_ID"] for service in servers.values()}) == 3
    assert len({tuple(service["ports"]) for service in servers.values()}) == 3
    cluster = {services[name]["environment"]["ETCD_INITIAL_CLUSTER"] for name in members}
    assert cluster == {",".join(f"{name}=http://{name}:2380" for name in members)}
