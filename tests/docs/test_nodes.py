"""The program in docs/nodes.md runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "nodes.md").read_text(encoding="utf-8")


@pytest.mark.clients
def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    [(program, prints)] = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "moving.py"
    path.write_text(program, encoding="utf-8")
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, prints), ended.stderr
