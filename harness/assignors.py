"""The Java program that runs Kafka's own assignors."""

from __future__ import annotations

from harness.builds import ROOT
from harness.java import built

PROJECT = ROOT / "tests" / "assign" / "java"
JAVA_FLAGS = ("-Xss16m", "-XX:+UseSerialGC")


def command(*arguments: str, flags: tuple[str, ...] = JAVA_FLAGS) -> list[str]:
    """How to run the program; it is built before, if its sources have changed."""
    jars = built(PROJECT, "assignors-java")
    return ["java", *flags, "-cp", f"{jars}/assignors.jar:{jars}/lib/*", "rota.assignors.Main", *arguments]
