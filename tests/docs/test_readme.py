"""The README is short: a screen and a half, with a test that a reader can paste."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PROGRAM_LINES_MAX = 12
WORDS_MAX = 800


def test_the_readme_has_one_short_program() -> None:
    [program] = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert len([line for line in program.splitlines() if line.strip()]) <= PROGRAM_LINES_MAX, program


def test_the_readme_is_a_screen_and_a_half() -> None:
    assert len(README.split()) <= WORDS_MAX
