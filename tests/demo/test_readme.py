"""The README's first program runs, and prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
PROGRAM = re.compile(r"```python\n(.*?)```\n.*?```text\n(.*?)```", re.DOTALL)


@pytest.mark.clients
def test_the_first_program_prints_what_the_readme_says(tmp_path: Path) -> None:
    found = PROGRAM.search(README.read_text())
    assert found, "the README shows a python program and then what it prints"
    program, prints = found.groups()
    assert len([line for line in program.splitlines() if line.strip()]) <= 12, "a first program is about ten lines"
    path = tmp_path / "first.py"
    path.write_text(program)
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    # Times and the random part of a member id differ from run to run.
    pattern = re.sub(r"\d\\\.\d\\ s", r"\\d+\\.\\d\\ s", re.escape(prints))
    pattern = re.sub(r"[0-9a-f]{8}…", r"[0-9a-f]{8}…", pattern)
    assert re.fullmatch(pattern, ended.stdout), ended.stdout
