"""Writes docs/generated/clients.md from the tree: `python -m tests.checks.clients_page`.

The clients are those that the tests install or build, with the versions that their manifests name. The APIs are the
table of `rust/wire`.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from typing import NamedTuple

from tests.checks.tidy import ROOT

PAGE = ROOT / "docs/generated/clients.md"
NEWER_TESTS = ROOT / "tests/clients/test_newer_protocol.py"
#: The clients of the newer protocol, by their names there.
NEWER = {"LIBRDKAFKA": "librdkafka", "JAVA": "Java", "FRANZ_GO": "franz-go"}


class Tested(NamedTuple):
    """A client, and what is tested with it."""

    client: str
    language: str
    version: str
    tests: str


def of_python(name: str) -> str:
    """The lowest version that the tests accept."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [found] = [wanted for wanted in extras["test"] if re.match(rf"{name}\b", wanted)]
    return f"{found.removeprefix(name).removeprefix('>=')} or later"


def of_maven(path: str, name: str) -> str:
    pom = (ROOT / path).read_text()
    [version] = re.findall(rf"<artifactId>{name}</artifactId>\s*<version>([\d.]+)</version>", pom)
    return str(version)


def of_go(path: str) -> str:
    [version] = re.findall(r"^(?:require|\t)\s*github.com/twmb/franz-go v(\S+)", (ROOT / path).read_text(), re.M)
    return str(version)


def clients() -> list[Tested]:
    node = json.loads((ROOT / "examples/node/package.json").read_text())["devDependencies"]
    scenarios = "`tests/clients`: every scenario"
    return [
        Tested(
            "kafka-clients",
            "Java",
            of_maven("tests/clients/java/pom.xml", "kafka-clients"),
            scenarios + ", and its command-line tools",
        ),
        Tested(
            "kafka-streams",
            "Java",
            of_maven("tests/clients/streams/pom.xml", "kafka-streams"),
            "`tests/clients/test_streams.py`: `exactly_once_v2`",
        ),
        Tested("confluent-kafka (librdkafka)", "Python", of_python("confluent-kafka"), scenarios),
        Tested("kafka-python", "Python", of_python("kafka-python"), scenarios),
        Tested("aiokafka", "Python", of_python("aiokafka"), scenarios),
        Tested("franz-go", "Go", of_go("examples/go/go.mod"), "`examples/go`"),
        Tested(
            "franz-go",
            "Go",
            of_go("tests/clients/go/go.mod"),
            "`tests/clients`: the consumer protocol and transactions",
        ),
        Tested("KafkaJS", "Node", node["kafkajs"], "`examples/node`"),
        Tested("@platformatic/kafka", "Node", node["@platformatic/kafka"], "`examples/node`"),
    ]


def apis() -> list[tuple[str, str]]:
    """Each API that a server serves, with its versions."""
    table = (ROOT / "rust/wire/src/versions.rs").read_text()
    found = re.findall(r'(?:served_from: (\d+), \.\.)?api\([A-Z_]+, "(\w+)", (\d+), (\d+), \w+\)', table)
    return [
        (name, f"{served or low} to {high}" if (served or low) != high else high) for served, name, low, high in found
    ]


def scenarios() -> dict[str, set[str]]:
    """Each scenario of the newer protocol, and the clients that play it one by one; none if all play it together."""
    found: dict[str, set[str]] = {}
    for test in ast.parse(NEWER_TESTS.read_text()).body:
        marks = [ast.unparse(mark) for mark in test.decorator_list] if isinstance(test, ast.FunctionDef) else []
        for name in re.findall(r"mark\.scenario\('([^']+)'\)", " ".join(marks)):
            families = [mark for mark in marks if mark.startswith("pytest.mark.parametrize('family'")]
            alone = set(NEWER) if {"every_family", "every_member"} & set(marks) else set()
            found.setdefault(name, set()).update(alone, *(re.findall(r"\b[A-Z_]+\b", mark) for mark in families))
    return {name.partition(": ")[2]: found[name] for name in sorted(found)}


def page() -> str:
    lines = [
        "# Clients and APIs",
        "",
        "`python -m tests.checks.clients_page` writes this page.",
        "[Stability](../stability.md#kafka-clients) says what it promises.",
        "",
        "## Clients that the tests use",
        "",
        "| client | language | version | tests |",
        "|---|---|---|---|",
        *(f"| {one.client} | {one.language} | {one.version} | {one.tests} |" for one in clients()),
        "",
        "## Scenarios of the newer consumer protocol",
        "",
        "Played by `tests/clients/test_newer_protocol.py` on rota and, with `--broker HOST:PORT`, on Apache Kafka 4.4.",
        "*Mixed*: all three in one group.",
        "",
        f"| scenario | {' | '.join(NEWER.values())} |",
        f"|---|{'---|' * len(NEWER)}",
        *(
            f"| {name} | {' | '.join('yes' if each in alone else '' if alone else 'mixed' for each in NEWER)} |"
            for name, alone in scenarios().items()
        ),
        "",
        "## Versions of each API",
        "",
        "| API | versions |",
        "|---|---|",
        *(f"| {name} | {versions} |" for name, versions in apis()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
