"""Compares the decisions of rota's authorizer with those of Kafka's StandardAuthorizer: `make kafka-acls`."""

from __future__ import annotations

import argparse
import subprocess
import sys

from harness.builds import ROOT
from harness.java import built

PROJECT = ROOT / "tests" / "acls" / "java"


def main() -> int:
    """Run both, and print what differs. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=100_000, help="decisions to compare (default: 100,000)")
    decisions: int = parser.parse_args().decisions
    jars = built(PROJECT, "acls-java")
    cases = ["cargo", "run", "-q", "-p", "rota-security", "--example", "acl_cases", str(decisions)]
    java = ["java", "-XX:+UseSerialGC", "-cp", f"{jars}/acls.jar:{jars}/lib/*", "rota.acls.Main"]
    with subprocess.Popen(cases, cwd=ROOT, stdout=subprocess.PIPE) as written:
        compared = subprocess.run(java, stdin=written.stdout, check=False)
    return compared.returncode or written.returncode


if __name__ == "__main__":
    sys.exit(main())
