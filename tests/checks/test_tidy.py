"""The layout keeps its promises. The checkers are in `tidy.py`; each one here also meets a planted violation."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.checks import tidy
from tests.checks.tidy import ROOT, files, name_of

CODE = (".rs", ".py", ".pyi", ".java", ".sh", ".toml", ".yml", ".yaml")
TEXT = (*CODE, ".md", ".txt", ".json", ".lock", ".xml", ".cfg", "")

# Each exception has its reason, and stops being allowed when it is no longer needed.
LONG_FILES: dict[str, str] = {
    "python/rota/_rota.pyi": "a compiled module has one stub, and this one is its documentation",
}
LONG_FUNCTIONS: dict[str, str] = {}
SLEEPERS: dict[str, str] = {
    "python/rota/demo/witness.py": "asks a broker again to delete a group whose killed member's session must end first",
    "python/rota/demo/fleet.py": "asks etcd again until a server owns every partition, with a deadline",
    "python/rota/faults.py": "asks a coordinator again until a transaction has ended, with a deadline",
    "python/rota/waiting.py": "looks again until a server has joined its cluster, with a deadline",
    "python/rota/cluster/command.py": "asks etcd again until a change is done, with a deadline",
    "python/rota/cluster/looking.py": "asks etcd again until a node has beaten, for a TTL at most",
    "harness/etcd.py": "asks etcd again until it answers, with a deadline",
    "harness/etcd_members.py": "asks members of etcd again until all answer with the same compaction, with a deadline",
    "harness/postgres.py": "asks PostgreSQL again until it answers, with a deadline",
    "rust/bench/src/crowd.rs": "asks any broker again until a group has settled, with a deadline: brokers report none",
    "tests/server/chaos.py": "a fault lasts for a part of a TTL or for several, under load",
    "tests/server/test_cluster_transactions.py": "a process is paused or gone for several TTLs, under load",
    "tests/clients/eventually.py": "the one place that looks again and again until a condition holds, with a deadline",
}


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def report(breaches: list[str]) -> str:
    return f"{len(breaches)} breaches\n" + "\n".join(sorted(breaches))


def known() -> tidy.Known:
    departures = read(ROOT / "docs/departures.md")
    rows = tomllib.loads(read(ROOT / "docs/rows.toml"))
    vocabulary = tomllib.loads(read(ROOT / "python/rota/specs/vocabulary.toml"))
    return tidy.Known(
        sections={name_of(page): tidy.sections_of(read(page)) for page in files(".md")},
        departures=set(re.findall(r"^## (D\d+) ", departures, re.MULTILINE)),
        rows={row for table in rows.values() for row in table},
        invariants={invariant["id"] for invariant in vocabulary["invariants"]},
    )


# ---- the core


def test_the_core_imports_nothing_that_it_must_not() -> None:
    pure = ("core", "assign", "engine", "member", "txn")
    sources = files(".rs", under=[f"rust/{crate}/src" for crate in pure])
    assert sources
    breaches = [breach for path in sources for breach in tidy.core_breaches(name_of(path), read(path))]
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted",
    [
        "use std::time::Instant;",
        "use std::{fmt, time::{Duration, SystemTime as Clock}};",
        "use std::collections::{BTreeMap, HashMap};",
        "use std::collections::*;",
        "use std::time;",
        "use std::sync::{self, Arc};",
        "use rand::Rng;",
        "fn now() -> u64 { std::thread::yield_now(); 0 }",
        "fn read() { let _ = std::fs::read(name); }",
        "fn f() { unsafe { g() } }",
        "type Index = hashbrown::HashMap<u8, u8, std::hash::RandomState>;",
    ],
)
def test_a_planted_import_in_the_core_is_found(planted: str) -> None:
    assert tidy.core_breaches("planted.rs", "//! A page.\n" + planted)


@pytest.mark.parametrize(
    "harmless",
    [
        "use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};",
        "// std::thread is not used, and nothing is unsafe here",
        'const WORD: &str = "std::fs and unsafe";',
        "#![forbid(unsafe_code)]",
        "#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}",
    ],
)
def test_harmless_code_in_the_core_is_left_alone(harmless: str) -> None:
    assert not tidy.core_breaches("planted.rs", harmless)


def test_the_core_forbids_unsafe_code_and_depends_on_little() -> None:
    assert "#![forbid(unsafe_code)]" in read(ROOT / "rust/core/src/lib.rs")
    manifest = ROOT / "rust/core/Cargo.toml"
    breaches = tidy.dependency_breaches(name_of(manifest), read(manifest), tidy.CORE_DEPENDENCIES)
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted",
    [
        '[dependencies]\nserde = "1"\nrand = "1"',
        '[build-dependencies]\ncc = "1"',
        '[target."cfg(unix)".dependencies]\nlibc = "1"',
    ],
)
def test_a_planted_dependency_of_the_core_is_found(planted: str) -> None:
    assert tidy.dependency_breaches("Cargo.toml", planted, tidy.CORE_DEPENDENCIES)


def test_every_test_in_rust_is_run() -> None:
    manifests = [path for path in files(".toml", under=["rust", "benches"]) if path.name == "Cargo.toml"]
    assert manifests
    breaches: list[str] = []
    for manifest in manifests:
        is_tested = tomllib.loads(read(manifest)).get("lib", {}).get("test", True)
        for path in files(".rs", under=[f"{name_of(manifest.parent)}/src"]):
            breaches += tidy.unrun_breaches(name_of(path), read(path), is_tested=is_tested)
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    ("planted", "is_tested", "breaches"),
    [
        ("#[test]\nfn holds() {}", False, 1),
        ("#[tokio::test(start_paused = true)]\nasync fn holds() {}", False, 1),
        ("#[test]\nfn holds() {}", True, 0),
        ("/// ```\n/// assert!(true);\n/// ```\nfn f() {}", True, 1),
        ("    //! ```rust\n    //! assert!(true);\n    //! ```", True, 1),
        ("//! ```text\n//! a | b\n//! ```", True, 0),
    ],
)
def test_a_test_that_is_not_run_is_found(planted: str, is_tested: bool, breaches: int) -> None:
    assert len(tidy.unrun_breaches("planted.rs", planted, is_tested=is_tested)) == breaches


# ---- Python


FROM_TESTS = re.compile(r"^\s*(?:from|import) tests\b", re.MULTILINE)


def test_what_tests_and_benchmarks_share_is_in_harness() -> None:
    sources = files(".py", under=["benches", "harness", "python"])
    assert sources
    assert not [name_of(path) for path in sources if FROM_TESTS.search(read(path))]


@pytest.mark.parametrize(
    "planted", ["import tests.clients\n", "from tests.wire import bystander\n", "    from tests import log"]
)
def test_an_import_of_tests_is_found(planted: str) -> None:
    assert FROM_TESTS.search(planted)


# ---- unsafe code


def test_only_the_binding_may_be_unsafe() -> None:
    sources = [path for path in files(".rs", under=["rust"]) if "rust/python/" not in name_of(path)]
    breaches = [breach for path in sources for breach in tidy.unsafe_breaches(name_of(path), read(path))]
    assert not breaches, report(breaches)


def test_every_other_crate_inherits_the_lints_that_forbid_it() -> None:
    workspace = tomllib.loads(read(ROOT / "Cargo.toml"))
    assert workspace["workspace"]["lints"]["rust"]["unsafe_code"] == "forbid"
    for member in workspace["workspace"]["members"]:
        if member != "rust/python":
            manifest = tomllib.loads(read(ROOT / member / "Cargo.toml"))
            assert manifest.get("lints", {}).get("workspace") is True, member


def test_planted_unsafe_code_is_found() -> None:
    assert tidy.unsafe_breaches("planted.rs", "fn f() {\n    unsafe { g() }\n}") == ["planted.rs:2: unsafe code"]
    assert not tidy.unsafe_breaches("planted.rs", '#![forbid(unsafe_code)] // unsafe\nconst W: &str = r#"unsafe"#;')


# ---- lengths


def measured() -> list[Path]:
    return files(".rs", ".py", ".pyi")


def test_files_and_functions_are_short() -> None:
    breaches = [
        breach
        for path in measured()
        for breach in tidy.length_breaches(name_of(path), read(path), LONG_FILES, LONG_FUNCTIONS)
    ]
    assert not breaches, report(breaches)


def test_no_exception_for_length_outlives_its_need() -> None:
    for exception in [*LONG_FILES, *LONG_FUNCTIONS]:
        path, _, function = exception.partition("::")
        needed = " ".join(tidy.length_breaches(path, read(tidy.ROOT / path), (), ()))
        assert path in needed, exception
        assert function in needed, exception


def test_a_planted_long_file_is_found() -> None:
    text = "x = 1\n" * (tidy.FILE_LINES_MAX + 1)
    assert tidy.length_breaches("planted.py", text, (), ())
    assert not tidy.length_breaches("planted.py", text, ("planted.py",), ())
    assert not tidy.length_breaches("planted.py", "x = 1\n" * tidy.FILE_LINES_MAX, (), ())


@pytest.mark.parametrize(
    ("path", "head", "line", "tail"),
    [
        ("planted.py", "def long() -> None:\n", "    x = 1\n", ""),
        ("planted.py", "class C:\n    async def long(self) -> None:\n", "        x = 1\n", ""),
        ("planted.rs", "fn long<'a>(x: [u8; 4], c: char) -> u8 {\n", "    if c == '{' { f(\"}\"); } // }\n", "}\n"),
        ("planted.rs", "fn long()\nwhere\n    T: U,\n{\n", '    f(r#"}"#);\n', "}\n"),
    ],
)
def test_a_planted_long_function_is_found(path: str, head: str, line: str, tail: str) -> None:
    breaches = tidy.length_breaches(path, head + line * tidy.FUNCTION_LINES_MAX + tail, (), ())
    assert len(breaches) == 1, breaches
    assert "`long`" in breaches[0]
    short = head + line * (tidy.FUNCTION_LINES_MAX - 5) + tail + ("fn other() {\n}\n" if path.endswith(".rs") else "")
    assert not tidy.length_breaches(path, short, (), ())


def is_newer(path: Path) -> bool:
    """Whether this is the model of the newer protocol."""
    return "consumer" in path.relative_to(tidy.ROOT).parts


def test_the_model_can_be_read_in_an_hour() -> None:
    """Rules with the state that they move; apart from them what only declares messages. The assignors' model is another
    one, and so are consumer groups with conversion, apart from their data and records, and transactions."""
    paths = {path: tidy.python_code_lines(read(path)) for path in files(".py", under=["python/rota/model"])}
    others = ("assignors", "transactions", "values")
    lines = {path.stem: count for path, count in paths.items() if path.stem not in others and not is_newer(path)}
    messages = sum(lines[name] for name in ("__init__", "answers", "records", "requests"))
    assert sum(lines.values()) - messages <= 1_220
    assert messages <= 365
    newer = {path.stem: count for path, count in paths.items() if is_newer(path)}
    declared = sum(newer[name] for name in ("data", "records", "embedded"))
    assert sum(newer.values()) - declared <= 900
    assert declared <= 310
    assert next(count for path, count in paths.items() if path.stem == "transactions") <= 360


def test_only_code_counts_as_code() -> None:
    assert tidy.python_code_lines('"""A page."""\n\nimport os\n\n# why\nx = (\n    1\n)\n') == 3


# ---- words


def test_nothing_names_this_machine() -> None:
    breaches = [breach for path in files(*TEXT) for breach in tidy.machine_breaches(name_of(path), read(path))]
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted",
    ["see /" + "root/notes", "open('/" + "home/me/x')", "../" + "shared/x.md", "https://my-" + "mirror.example/simple"],
)
def test_a_planted_machine_word_is_found(planted: str) -> None:
    assert tidy.machine_breaches("planted.md", planted)


def test_ordinary_addresses_are_left_alone() -> None:
    text = "https://github.com/x/home/y http://127.0.0.1:8080/ registry+https://github.com/rust-lang src/work/x ~/home/"
    assert not tidy.machine_breaches("planted.md", text)


def test_no_work_is_left_unfinished() -> None:
    breaches = [breach for path in files(*CODE) for breach in tidy.unfinished_breaches(name_of(path), read(path))]
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted", ["# TO" + "DO: x", "// FIX" + "ME", "to" + "do!()", "unimple" + "mented!()", "db" + "g!(x)"]
)
def test_planted_unfinished_work_is_found(planted: str) -> None:
    assert tidy.unfinished_breaches("planted.rs", planted)


def sleepers() -> dict[str, list[str]]:
    found = {name_of(path): tidy.sleep_breaches(name_of(path), read(path)) for path in files(".py", ".rs")}
    return {path: breaches for path, breaches in found.items() if breaches}


def test_nothing_sleeps_instead_of_waiting_for_a_condition() -> None:
    breaches = [breach for path, found in sleepers().items() if path not in SLEEPERS for breach in found]
    assert not breaches, report(breaches)
    assert not set(SLEEPERS) - set(sleepers()), "these need no exception any more"


@pytest.mark.parametrize("planted", ["time.sle" + "ep(1)", "from time import sle" + "ep", "std::thread::sle" + "ep(d)"])
def test_a_planted_sleep_is_found(planted: str) -> None:
    assert tidy.sleep_breaches("planted.py", planted)


# ---- references


def test_every_citation_is_of_something_that_exists() -> None:
    citable = known()
    cited = files(".rs", ".py", ".pyi", ".toml", ".txt", ".md", under=["rust", "python", "tests"])
    breaches = [breach for path in cited for breach in tidy.citation_breaches(name_of(path), read(path), citable)]
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted",
    [
        "//! Joins (docs/protocol.md §" + "4.99).",
        "// the rule of §" + "99",
        "# docs/nowhere.md §" + "1",
        "// departure " + "D99",
        "# row " + "Q77",
        "// INVARIANT: " + "S99, always",
    ],
)
def test_a_planted_citation_is_found(planted: str) -> None:
    assert tidy.citation_breaches("planted.rs", planted, known())


def test_a_right_citation_is_left_alone() -> None:
    text = "docs/protocol.md §4.10, §5; limits.md;\n//! §2; departure D9; row J24; INVARIANT: S26, durable before told"
    assert not tidy.citation_breaches("planted.rs", text, known())


def test_every_file_that_a_page_names_exists() -> None:
    breaches = [breach for path in files(".md") for breach in tidy.reference_breaches(name_of(path), read(path), ROOT)]
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    "planted", ["[x](nowhere.md)", "see `rust/core/src/nowhere.rs`", "in `tests/nowhere/*.txt`", "`docs/nowhere/`"]
)
def test_a_planted_dead_reference_is_found(planted: str) -> None:
    assert tidy.reference_breaches("docs/planted.md", planted, ROOT)


def test_live_references_and_other_words_are_left_alone() -> None:
    text = "[x](protocol.md#4) `docs/protocol.md` [y](https://kafka.apache.org/x.md) `DIR/a/0.log` `/127.0.0.1` `a/b`"
    assert not tidy.reference_breaches("docs/planted.md", text, ROOT)


# ---- the map


def the_map() -> str:
    return read(ROOT / "CONTRIBUTING.md").split("## Where things are")[1].split("\n## ")[0]


def test_the_map_lists_every_folder() -> None:
    breaches = tidy.map_breaches("CONTRIBUTING.md", the_map(), tidy.mapped_folders(ROOT))
    assert not breaches, report(breaches)


@pytest.mark.parametrize(
    ("section", "breach"),
    [
        ("| `rust/a` | x |", "no row for the folder tests/b"),
        ("| `rust/a` | x |\n| `tests/b` | x |\n| `rust/c` | x |", "no such folder: rust/c"),
        ("| `rust/a` | x |\n| `tests/b` | x |\n| `rust/a` | x |", "two rows for rust/a"),
    ],
)
def test_a_planted_error_in_the_map_is_found(section: str, breach: str) -> None:
    assert tidy.map_breaches("planted.md", section, {"rust/a", "tests/b"}) == [f"planted.md:1: {breach}"]
