"""The container image without a container engine: `scripts/container` builds it on a plain Debian, and runs it in
namespaces."""

from __future__ import annotations

import base64
import hashlib
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.checks.tidy import ROOT

# They share one image, which takes a minute to make.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400), pytest.mark.xdist_group("image")]

ADDRESS = "198.18.0.9"  # of a range for tests of networks (RFC 2544), in the container's own network
NEEDED = ("debootstrap", "unshare", "nsenter", "chroot", "mount", "ip")
CLIENT = """
import sys
from confluent_kafka import Consumer, Producer
client = {"bootstrap.servers": sys.argv[1], "log_level": 0}
producer = Producer(client)
producer.produce("orders", b"one")
assert producer.flush(30) == 0
consumer = Consumer(client | {"group.id": "shipping", "auto.offset.reset": "earliest"})
brokers = consumer.list_topics(timeout=30).brokers.values()
consumer.subscribe(["orders"])
message = consumer.poll(30)
print(*(f"{broker.host}:{broker.port}" for broker in brokers), message.value().decode())
consumer.close()
"""


@pytest.fixture(scope="module")
def container() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("container", str(ROOT / "scripts/container"))
    spec = importlib.util.spec_from_loader("container", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def wheel_of_this_tree(folder: Path) -> Path:
    """The installed package as a wheel for this machine. To build one from the sources takes minutes."""
    installed = distribution("rota")
    files = {
        str(path.relative_to(ROOT / "python")): path.read_bytes()
        for path in (ROOT / "python/rota").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"rota-{installed.version}.dist-info"
    for name in ("METADATA", "WHEEL", "entry_points.txt"):
        text = installed.read_text(name)
        assert text is not None, name
        files[f"{info}/{name}"] = text.encode()
    tag, *_ = re.findall(r"^Tag: (\S+)$", files[f"{info}/WHEEL"].decode(), re.MULTILINE)
    hashed = {name: base64.urlsafe_b64encode(hashlib.sha256(held).digest()) for name, held in files.items()}
    record = "".join(f"{name},sha256={hashed[name].rstrip(b'=').decode()},{len(files[name])}\n" for name in files)
    path = folder / f"rota-{installed.version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, held in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(name, held)
    return path


@pytest.fixture(scope="module")
def image(container: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The image of the tree under test. Skips where no base can be made."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"an image needs root and {', '.join(missing or NEEDED)}")
    namespaces = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc", "true"]
    refused = subprocess.run(namespaces, capture_output=True, text=True, check=False)
    if refused.returncode != 0:
        pytest.skip(f"this machine allows no namespaces: {refused.stderr.strip()}")
    room = tmp_path_factory.mktemp("image")
    image = container.Image(room / "base", container.CONTAINERFILE.read_text())
    wheel = wheel_of_this_tree(room)
    try:
        container.make_base(image.base)
        container.download(image, wheel)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"an image needs a Debian mirror, mounts and a registry of Python packages: {error}")
    container.build(image, wheel)
    yield image
    shutil.rmtree(image.base)


def planted(container: ModuleType, image: Any, before: str, after: str) -> Any:
    """The same image with another Containerfile."""
    text = container.CONTAINERFILE.read_text()
    assert text.count(before) == 1
    return container.Image(image.base, text.replace(before, after))


def test_it_runs_without_rights_is_healthy_and_stops(container: ModuleType, image: Any, tmp_path: Path) -> None:
    first, second, stopped = container.check(image, tmp_path / "data")
    assert "0 groups and 0 offsets loaded" in first + second
    assert "stopped with 0" in stopped


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("\nUSER rota\n", "\nUSER root\n", "it runs as 0"),
        ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "it ended with"),
        ("127.0.0.1:9644/healthz", "127.0.0.1:9645/healthz", "(?s)it is not healthy: .*refused"),
        ('CMD ["serve"]', 'CMD ["serve", "--data", "/opt/rota/data"]', "no ready line"),
    ],
)
def test_an_image_that_is_wrong_is_noticed(
    container: ModuleType,
    image: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    after: str,
    said: str,
) -> None:
    if "9645" in after:
        monkeypatch.setattr(container, "HEALTHY_WITHIN_S", 2)
    with pytest.raises(AssertionError, match=said):
        container.check(planted(container, image, before, after), tmp_path / "data")


@pytest.mark.clients
def test_clients_are_sent_to_the_address_at_which_they_reach_it(
    container: ModuleType, image: Any, tmp_path: Path
) -> None:
    container.volume(image, tmp_path / "data")
    with container.Container(image, tmp_path / "data", {"ROTA_AUTO_CREATE_TOPICS_ENABLE": "true"}) as running:
        running.healthy()
        inside = ["nsenter", f"--target={running.pid}", "--net"]
        subprocess.run([*inside, "ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
        client = [*inside, sys.executable, "-c", CLIENT, f"{ADDRESS}:9092"]
        ended = subprocess.run(client, capture_output=True, text=True, check=False, timeout=120)
        assert (ended.returncode, ended.stdout) == (0, f"{ADDRESS}:9092 one\n"), ended.stderr
