"""What `import rota` and the commands load, and what a command says whose extra is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Modules of rota that `import rota` loads.
OF_ROTA = [
    "rota",
    "rota._rota",
    "rota.addresses",
    "rota.arguments",
    "rota.clock",
    "rota.cluster",
    "rota.controls",
    "rota.exits",
    "rota.faults",
    "rota.health",
    "rota.messages",
    "rota.server",
    "rota.server_arguments",
    "rota.trace",
]
# Modules of the standard library that it loads besides those of the interpreter's start.
OF_THE_LIBRARY_MAX = 40
# What it must not load: it takes time, or it is not installed everywhere.
NOT_LOADED = {
    "asyncio",
    "numpy",
    "typer",
    "click",
    "rich",
    "z3",
    "pyspark",
    "pyarrow",
    "pandas",
    "http",
    "json",
    "logging",
}
# Names of everything that an extra installs.
OF_EXTRAS = ["confluent_kafka", "google", "kafka", "numpy", "pandas", "prometheus_client", "pyarrow", "pyspark", "z3"]

LOADED = "import sys; before = {*sys.modules}; import rota; print(*sorted({*sys.modules} - before))"
COMMAND = f"""
import sys
for name in {OF_EXTRAS}:
    sys.modules[name] = None
from rota.__main__ import run
sys.argv[0] = "rota"
run()
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def test_import_rota_loads_little() -> None:
    loaded = run("-c", LOADED).stdout.split()
    assert [name for name in loaded if name.partition(".")[0] == "rota"] == OF_ROTA
    assert not NOT_LOADED & {name.partition(".")[0] for name in loaded}
    assert {name.partition(".")[0] for name in loaded} <= {*sys.stdlib_module_names, "rota"}
    of_the_library = [name for name in loaded if not name.startswith("rota")]
    assert len(of_the_library) <= OF_THE_LIBRARY_MAX, of_the_library


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("audit --engine spark DIR", "audit"),
        ("audit --follow DIR", "audit"),
        ("check proofs", "check"),
        ("check proofs --explain S3", "check"),
        ("demo", "demo"),
        ("groups list --bootstrap-server 127.0.0.1:1", "groups"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(words: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-0").mkdir()
    done = run("-c", COMMAND, *words.replace("DIR", str(tmp_path)).split())
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("rota: ")
    assert f"pip install '.[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "assign --help",
        "bench --help",
        "check differential --steps 50 --processes 1",
        "check simulation --help",
        "config show",
        "conform --help",
        "log --help",
        "serve --help",
        "simulate --seeds 0..1",
        "top --help",
        "why --help",
    ],
)
def test_other_commands_need_no_extra(words: str) -> None:
    done = run("-c", COMMAND, *words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_the_distribution_installs_one_package() -> None:
    """Nothing named `specs` at the top level: the specification is `rota.specs`."""
    done = run("-c", "import rota.specs, importlib.util as i; print(i.find_spec('specs'))")
    assert (done.stdout, done.stderr) == ("None\n", "")
