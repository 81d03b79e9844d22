"""`rota audit` on a server of S3: moto's, and the filesystem s3a of Hadoop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from moto.server import ThreadedMotoServer

from rota.audit.audit import Wanted, audit, of_copies
from rota.audit.command import as_json
from rota.audit.engines import local
from rota.audit.logs import parts_of

pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400), pytest.mark.java]

HADOOP, SDK = "3.5.0", "2.35.4"
# The whole SDK, which hadoop-aws asks for, has 600 MB.
PACKAGES = [
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    *(f"software.amazon.awssdk:{name}:{SDK}" for name in ("s3", "s3-transfer-manager", "sts", "apache-client")),
]
WITHOUT = "spark.jars.excludes=software.amazon.awssdk:bundle"
UNRESOLVED = "unresolved dependenc"
BUCKET = "logs"


class Store(NamedTuple):
    """A running server of S3."""

    endpoint: str
    client: Any

    def upload(self, directory: Path, prefix: str) -> str:
        """The URL of a copy of a directory."""
        for path in directory.rglob("*"):
            if path.is_file():
                self.client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(directory)}")
        return f"s3a://{BUCKET}/{prefix}"

    def names(self, prefix: str) -> list[str]:
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for one in found.get("Contents", ())]

    def audit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`rota audit` with what it needs for this server. Skips the test where Maven's packages are out of reach."""
        settings = {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.attempts.maximum": "1",
            # moto's answer of 100 ends a request of the SDK's asynchronous client.
            "fs.s3a.optimized.copy.from.local.enabled": "false",
        }
        conf = [WITHOUT, *(f"{name}={value}" for name, value in settings.items())]
        command = [sys.executable, "-m", "rota", "audit", *arguments, "--master", "local[1]"]
        command += ["--packages", ",".join(PACKAGES), *(word for text in conf for word in ("--conf", text))]
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        ended = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | keys)
        if UNRESOLVED in ended.stderr:
            pytest.skip(f"Maven's packages are out of reach: {', '.join(PACKAGES)}")
        return ended


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=endpoint, **keys)
    client.create_bucket(Bucket=BUCKET)
    yield Store(endpoint, client)
    client.close()
    server.stop()


def test_an_audit_of_a_bucket_says_the_same_as_one_of_the_directory(store: Store, planted_kafka: Path) -> None:
    url = store.upload(planted_kafka, "planted")
    ended = store.audit(url, "--json", "--output", f"s3a://{BUCKET}/tables")
    expected = of_copies(audit(Wanted([planted_kafka]), parts_of([planted_kafka]), local))
    assert ended.stdout.replace(url, str(planted_kafka)) == f"{as_json(expected)}\n", ended.stderr
    assert ended.returncode == 1
    assert {name.split("/")[1] for name in store.names("tables")} >= {"events", "generations", "verdicts"}
    assert store.names("tables/views") == []


@pytest.mark.long
def test_a_checkpoint_in_a_bucket_has_each_verdict_once(store: Store, planted_kafka: Path) -> None:
    checkpoint = f"s3a://{BUCKET}/seen"
    follow = [str(planted_kafka), "--follow", "--once", "--json", "--checkpoint", checkpoint]
    first = store.audit(*follow)
    assert first.returncode == 1, first.stderr
    lines = first.stdout.splitlines()
    kept = [
        line
        for name in store.names("seen/verdicts/")
        for line in store.client.get_object(Bucket=BUCKET, Key=name)["Body"].read().decode().splitlines()
    ]
    assert sorted(map(str, map(json.loads, lines))) == sorted(map(str, map(json.loads, kept)))
    again = store.audit(*follow)
    assert (again.returncode, again.stdout) == (0, ""), again.stderr


@pytest.mark.long
def test_a_bucket_or_a_path_that_is_not_there_is_refused(store: Store) -> None:
    ended = store.audit(f"s3a://{BUCKET}/nothing")
    assert (ended.returncode, ended.stdout) == (2, "")
    says = f"rota: `s3a://{BUCKET}/nothing`: there is no such file or directory"
    assert ended.stderr.splitlines()[-1] == says
