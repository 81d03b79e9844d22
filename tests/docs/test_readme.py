"""The README's programs are short."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
LINES_MAX = (12, 20, 20)


def test_the_programs_of_the_readme_are_short() -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert len(programs) == len(LINES_MAX)
    for program, most in zip(programs, LINES_MAX, strict=True):
        assert len([line for line in program.splitlines() if line.strip()]) <= most, program
