"""The release: `scripts/release` on a copy of the tree, the licences, and the workflows, which cannot run here."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import rota
from tests.checks import clients_page
from tests.checks.tidy import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


@pytest.fixture(scope="module")
def release() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("release", str(ROOT / "scripts/release"))
    spec = importlib.util.spec_from_loader("release", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("Cargo.toml", "Cargo.lock", "rust/fuzz/Cargo.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n")
    return tmp_path


def versions(tree: Path) -> set[str]:
    """Those of our own crates, in the manifest and the lock files."""
    found = {tomllib.loads((tree / "Cargo.toml").read_text())["workspace"]["package"]["version"]}
    for name in ("Cargo.lock", "rust/fuzz/Cargo.lock"):
        packages = tomllib.loads((tree / name).read_text())["package"]
        found |= {one["version"] for one in packages if one["name"].startswith("rota-") and "source" not in one}
    return found


def test_a_release_sets_one_version_and_cuts_the_changelog_once(release: ModuleType, tree: Path) -> None:
    release.prepare(tree, "1.2.3-rc.1", "2026-03-01")
    release.prepare(tree, "1.2.3-rc.1", "2026-03-02")
    assert versions(tree) - {"0.0.0"} == {"1.2.3-rc.1"}
    changelog = (tree / "CHANGELOG.md").read_text()
    assert changelog == "# Changelog\n\n## [Unreleased]\n\n## [1.2.3-rc.1] - 2026-03-01\n\n### Added\n\n- A thing.\n"
    assert release.released_on(tree, "1.2.3-rc.1") == "2026-03-01"


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3; rm -rf", "1.2.3-dev"])
def test_a_version_that_is_none_changes_nothing(release: ModuleType, tree: Path, version: str) -> None:
    with pytest.raises(release.ReleaseError, match="give a version such as"):
        release.prepare(tree, version, "2026-03-01")
    assert versions(tree) == versions(ROOT)


def test_a_release_needs_something_to_release(release: ModuleType, tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [0.0.1] - 2026-01-01\n\n- Old.\n")
    with pytest.raises(release.ReleaseError, match="describe what changed"):
        release.prepare(tree, "1.2.3", "2026-03-01")


def test_the_version_is_in_one_place() -> None:
    assert rota.__version__ == tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for manifest in (ROOT / "rust").glob("*/Cargo.toml"):
        if manifest.parent.name != "fuzz":
            assert tomllib.loads(manifest.read_text())["package"]["version"] == {"workspace": True}, manifest


def test_the_licence_texts_are_those_of_the_locked_crates(release: ModuleType) -> None:
    listed = (ROOT / "LICENSES.txt").read_text().split("-" * 80)[0]
    assert [f"{one['name']} {one['version']}: {one['license']}" for one in release.crates(ROOT)] == re.findall(
        r"^\S+ \S+: .*$", listed, re.MULTILINE
    ), "run `make licences`, and commit the file"


def test_release_without_a_version_says_how_to_give_one() -> None:
    ended = subprocess.run(["make", "release"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "make release VERSION=" in ended.stderr


# ---- what is built


def packed(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    wheel = folder / name
    with zipfile.ZipFile(wheel, "w") as archive:
        for inside, held in files.items():
            archive.writestr(inside, held)
    return wheel


def compiled(folder: Path, *flags: str) -> bytes:
    """An extension module that only the C library is linked to, unless flags say otherwise."""
    source, module = folder / "module.c", folder / "module.so"
    source.write_text("#include <string.h>\nint length(const char *text) { return strlen(text); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", module, source, *flags], check=True)
    return module.read_bytes()


def test_a_wheel_that_names_a_path_of_this_machine_is_refused(release: ModuleType, tmp_path: Path) -> None:
    wheel = packed(tmp_path, "rota-1-musllinux_1_2.whl", {"rota/a.so": f"at {Path.home()}/.cargo/x.rs".encode()})
    with pytest.raises(release.ReleaseError, match=r"rota/a\.so .* a path of this machine"):
        release.check_wheel(wheel, tmp_path / "src", "musllinux_1_2")
    wheel = packed(tmp_path, "rota-2-musllinux_1_2.whl", {"rota/b.so": f"{tmp_path}/src/lib.rs".encode()})
    with pytest.raises(release.ReleaseError, match=r"rota/b\.so .* a path of this machine"):
        release.check_wheel(wheel, tmp_path / "src", "musllinux_1_2")


def test_a_wheel_that_is_compressed_has_the_same_files_and_dates(release: ModuleType, tmp_path: Path) -> None:
    files = {"rota/a.py": b"import rota\n" * 1_000, "rota/b.so": bytes(range(256)) * 40, "rota/empty.py": b""}
    wheel = packed(tmp_path, "rota-1-py3-none-any.whl", files)
    with zipfile.ZipFile(wheel) as archive:
        before = [(info.filename, info.date_time, info.external_attr) for info in archive.infolist()]
    release.compress(wheel)
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]
    with zipfile.ZipFile(wheel) as archive:
        assert [(info.filename, info.date_time, info.external_attr) for info in archive.infolist()] == before
        assert {name: archive.read(name) for name in archive.namelist()} == files
    assert wheel.stat().st_size < 2_000


def test_a_wheel_that_is_too_large_is_refused(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "WHEEL_BYTES_MAX", 100)
    wheel = packed(tmp_path, "rota-1-musllinux_1_2.whl", {"rota/a.py": b"a" * 101})
    with pytest.raises(release.ReleaseError, match="more than 100"):
        release.check_wheel(wheel, tmp_path / "src", "musllinux_1_2")


def test_ci_refuses_a_wheel_that_a_release_refuses(release: ModuleType, tmp_path: Path) -> None:
    assert release.WHEEL_BYTES_MAX == 8_000_000
    with (tmp_path / "rota-1-py3-none-any.whl").open("wb") as wheel:
        wheel.truncate(8_000_001)
    script = Path(str(release.__file__)).with_name("check-wheel")
    ended = subprocess.run([script, tmp_path], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "has 8000001 bytes, more than 8000000" in ended.stderr


@pytest.mark.skipif(shutil.which("readelf") is None or shutil.which("cc") is None, reason="needs a C compiler")
def test_a_musl_wheel_that_needs_glibc_is_refused(release: ModuleType, tmp_path: Path) -> None:
    of_glibc = packed(tmp_path, "rota-1-musllinux_1_2.whl", {"rota/a.so": compiled(tmp_path)})
    with pytest.raises(release.ReleaseError, match=r"needs libc\.so\.6, and musl is libc\.so"):
        release.check_wheel(of_glibc, tmp_path / "src", "musllinux_1_2")
    # A library of that name stands for musl.
    compiled(tmp_path, "-nostdlib", "-Wl,-soname,libc.so")
    (tmp_path / "module.so").rename(tmp_path / "libc.so")
    module = compiled(tmp_path, "-nostdlib", "-Wl,--no-as-needed", str(tmp_path / "libc.so"))
    of_musl = packed(tmp_path, "rota-2-musllinux_1_2.whl", {"rota/a.so": module})
    release.check_wheel(of_musl, tmp_path / "src", "musllinux_1_2")


def test_two_builds_that_differ_are_refused(release: ModuleType) -> None:
    release.compare({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    for other in ({"a": "1", "b": "3"}, {"a": "1"}, {"a": "1", "b": "2", "c": "3"}):
        with pytest.raises(release.ReleaseError, match=r"differs in [bc]: see"):
            release.compare({"a": "1", "b": "2"}, other)


# ---- the workflows


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())["jobs"]
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


def test_there_are_workflows() -> None:
    assert [path.stem for path in WORKFLOWS] == ["nightly", "release"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_hash(path: Path) -> None:
    used = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
    assert [line for line in used if not PINNED.fullmatch(line)] == []
    assert len(used) == sum("uses" in step for step in steps(path))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    runs = "\n".join(step.get("run", "") for step in steps(path))
    assert set(re.findall(r"\bmake ([a-z-]+)", runs)) <= targets
    for named in re.findall(r"(?<=[\s/])((?:scripts|packaging)/[\w./-]+)", runs):
        assert (ROOT / named).is_file(), named


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_only_publishing_may_write_and_nothing_needs_a_secret(path: Path) -> None:
    assert "secrets." not in path.read_text()
    assert yaml.safe_load(path.read_text())["permissions"] == {}
    for name, job in jobs(path).items():
        writes = {scope for scope, access in job.get("permissions", {}).items() if access == "write"}
        assert writes == ({"id-token", "attestations"} if name == "publish" else set())
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        # What a run has from an expression comes through the environment, not as program text.
        assert "${{" not in step.get("run", "")


def test_the_released_platforms_are_those_whose_licences_are_checked(release: ModuleType) -> None:
    built = jobs(ROOT / ".github/workflows/release.yml")
    linux = built["linux"]["strategy"]["matrix"]["target"]
    elsewhere = [one["target"] for one in built["elsewhere"]["strategy"]["matrix"]["include"]]
    assert set(linux) == set(release.COMPATIBLE)
    assert {one["target"] for one in built["try-linux"]["strategy"]["matrix"]["include"]} == set(linux)
    checked = tomllib.loads((ROOT / "deny.toml").read_text())["graph"]["targets"]
    assert sorted(checked) == sorted([*linux, *elsewhere])
    assert set(built["publish"]["needs"]) == set(built) - {"publish"}


def test_scripts_print_their_usage() -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts/release", "--help"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0
    assert "prepare" in ended.stdout


def test_the_page_of_clients_is_that_of_the_tree() -> None:
    assert clients_page.PAGE.read_text() == clients_page.page(), "run python -m tests.checks.clients_page"
    tables = dict(re.findall(r"(\w*APIS): \[Api; (\d+)\]", (ROOT / "rust/wire/src/versions.rs").read_text()))
    assert set(tables) == {"APIS", "SASL_APIS", "TRANSACTION_APIS"}
    assert len(clients_page.apis()) == sum(map(int, tables.values()))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_workflow_replaces_a_variable_of_the_makefile(path: Path) -> None:
    variables = set(re.findall(r"^(\w+) [?:]?=", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert "PYTHON" in variables
    assert not variables & set(yaml.safe_load(path.read_text()).get("env", {}))
