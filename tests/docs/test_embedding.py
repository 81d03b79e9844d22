"""Every program of docs/embedding.md runs as it stands, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n((?!# test_).*?)^```\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
TESTS = re.findall(r"^```python\n(# test_\S+\.py\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
NAMES = ("coordinator", "server", "asyncio")


def test_no_program_of_the_page_is_left_out() -> None:
    assert (len(PROGRAMS), len(TESTS)) == (len(NAMES), 1)
    assert PAGE.count("```python\n") == len(PROGRAMS) + len(TESTS)


@pytest.mark.clients
@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    program, prints = PROGRAMS[NAMES.index(name)]
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, prints), ended.stderr


@pytest.mark.clients
def test_the_test_file_passes_as_it_stands(pytester: pytest.Pytester) -> None:
    (pytester.path / "test_embedded.py").write_text(TESTS[0], encoding="utf-8")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(passed=3)
