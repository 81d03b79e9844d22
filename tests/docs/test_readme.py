"""The README's programs run, and print what the README says they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINES_MAX = {"first": 12, "clock": 20, "coordinator": 20}


def programs() -> list[tuple[str, str]]:
    """Every python block, and the text block that follows it at once."""
    blocks = BLOCK.findall(README)
    found = []
    for (language, program), (following, prints) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "python":
            assert following == "text", f"the README does not say what this prints:\n{program}"
            found.append((program, prints))
    return found


def pattern_of(prints: str) -> str:
    """What is printed, as a pattern: times, generations and the random part of a member id differ from run to run."""
    pattern = re.sub(r"\d+\\\.\d\\ s", r"\\d+\\.\\d\\ s", re.escape(prints))
    pattern = re.sub(r"[0-9a-f]{8}…", r"[0-9a-f]{8}…", pattern)
    return re.sub(r"generation\\ \d+", r"generation\\ \\d+", pattern)


def test_every_program_is_known_here() -> None:
    assert len(programs()) == len(LINES_MAX)


@pytest.mark.clients
@pytest.mark.parametrize("name", LINES_MAX)
def test_a_program_prints_what_the_readme_says(name: str, tmp_path: Path) -> None:
    program, prints = programs()[list(LINES_MAX).index(name)]
    assert len([line for line in program.splitlines() if line.strip()]) <= LINES_MAX[name]
    path = tmp_path / f"{name}.py"
    path.write_text(program, encoding="utf-8")
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(pattern_of(prints), ended.stdout), ended.stdout


@pytest.mark.parametrize("planted", ["Empty for 0.1 s", "Stable for 0.1 s, generation x", "Stable for long"])
def test_other_output_is_not_taken_for_it(planted: str) -> None:
    pattern = pattern_of("Stable for 12.3 s, generation 1")
    assert re.fullmatch(pattern, "Stable for 0.4 s, generation 2")
    assert not re.fullmatch(pattern, planted)
