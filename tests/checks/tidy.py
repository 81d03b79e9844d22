"""What the layout promises, as functions from text to a list of complaints. `test_tidy.py` runs them on the tree, and
each of them on a planted violation.

A complaint reads `path:line: what is wrong`. Every checker takes the path and the text, so that a test can feed it a
snippet that is in no file.
"""

import ast
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

# Not ours, or made by tools.
PRUNED = {".git", "target", "dist", "build", "node_modules", "__pycache__", "site-packages"}

# What makes an outcome depend on more than (state, now, event). A glob or a whole module that contains one of these is
# refused too: import what is needed by name.
FORBIDDEN_IN_CORE = (
    "std::time::Instant",
    "std::time::SystemTime",
    "std::thread",
    "std::net",
    "std::fs",
    "std::io",
    "std::env",
    "std::process",
    "std::os",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::mpsc",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::collections::hash_map",
    "std::collections::hash_set",
    "std::hash::RandomState",
    "hashbrown::DefaultHashBuilder",
    "rand",
    "getrandom",
    "tokio",
)
FORBIDDEN_WORDS_IN_CORE = ("Instant", "SystemTime", "RandomState", "unsafe")
# The assignors are as pure as the core, and twox-hash has the metadata hash of consumer groups without std.
CORE_DEPENDENCIES = {"serde", "postcard", "hashbrown", "slab", "regex-lite", "rota-assign", "twox-hash"}


def files(*suffixes: str, under: Iterable[str] = (".",)) -> list[Path]:
    """The project's files with one of these suffixes, sorted."""
    return sorted({path for folder in under for path in _below(folder) if path.suffix in suffixes})


@cache
def _below(folder: str) -> list[Path]:
    """The project's files in a folder. It is no part of the tests to write any."""
    found = list[Path]()
    for place, folders, names in os.walk(ROOT / folder):
        folders[:] = [name for name in folders if name not in PRUNED and (name[0] != "." or name == ".ci")]
        # In a worktree .git is a file.
        found += [path for name in names if name != ".git" and (path := Path(place, name)).is_file()]
    return found


def name_of(path: Path) -> str:
    """The path as it is written in complaints and exceptions."""
    return path.relative_to(ROOT).as_posix()


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


# ---- Rust, read just well enough

RUST_NOT_CODE = re.compile(
    r"""
      //[^\n]*
    | /\*.*?\*/
    | (?<![A-Za-z0-9_]) b? r (?P<hashes>\#*) " .*? " (?P=hashes)
    | b? " (?: \\. | [^"\\] )* "
    | b? ' (?: \\ (?: x[0-9a-fA-F]{2} | u\{[^}]*\} | . ) | [^'\\\n] ) '
    """,
    re.VERBOSE | re.DOTALL,
)


def rust_code(text: str) -> str:
    """The text with comments, strings and characters blanked out, every line in its place."""
    return RUST_NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def closing_brace(code: str, opening: int) -> int:
    """The position of the brace that closes the one at `opening`, or the end of the text."""
    depth = 0
    for position in range(opening, len(code)):
        if code[position] == "{":
            depth += 1
        elif code[position] == "}":
            depth -= 1
            if depth == 0:
                return position
    return len(code) - 1


def without_test_modules(code: str) -> str:
    """Blanks out `#[cfg(test)] mod ... { ... }`."""
    for match in reversed(
        list(re.finditer(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(\w+\))?\s+)?mod\s+\w+\s*\{", code))
    ):
        end = closing_brace(code, match.end() - 1)
        code = code[: match.start()] + re.sub(r"[^\n]", " ", code[match.start() : end + 1]) + code[end + 1 :]
    return code


def rust_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, number of lines) of every function with a body."""
    code = rust_code(text)
    for match in re.finditer(r"\bfn\s+(\w+)", code):
        depth, position = 0, match.end()
        while position < len(code) and not (depth == 0 and code[position] in "{;"):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(code[position], 0)
            position += 1
        if position < len(code) and code[position] == "{":
            first = line_of(code, match.start())
            yield match[1], first, line_of(code, closing_brace(code, position)) - first + 1


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a program. Most of its nodes are parts of expressions, which have none."""
    for name in node._fields:
        held = getattr(node, name)
        if isinstance(held, list) and held and isinstance(held[0], ast.stmt | ast.excepthandler | ast.match_case):
            if isinstance(held[0], ast.stmt):
                yield held
            for inner in held:
                yield from blocks(inner)


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, number of lines) of every function."""
    for block in blocks(ast.parse(text)):
        for node in block:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def imported(tree: str, prefix: str = "") -> Iterator[str]:
    """The full paths that a use tree such as `std::{fmt, time::{Duration, Instant as I}}` brings in."""
    tree = " ".join(tree.split())
    if "{" not in tree:
        leaf = prefix + tree.split(" as ")[0].strip()
        yield leaf.removesuffix("::self")
        return
    head, rest = tree.split("{", 1)
    depth, part = 0, ""
    for letter in rest.rsplit("}", 1)[0] + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if part.strip():
                yield from imported(part, prefix + head.strip())
            part = ""
        else:
            part += letter


# ---- checkers


def core_breaches(path: str, text: str) -> list[str]:
    """What the state machine imports or names although it must depend on nothing but its input."""
    code = without_test_modules(rust_code(text))
    found = []
    for match in re.finditer(r"\buse\s+([^;]+);", code):
        for leaf in imported(match[1]):
            for forbidden in FORBIDDEN_IN_CORE:
                whole_module = forbidden.startswith(leaf.removesuffix("*").removesuffix("::") + "::")
                if leaf == forbidden or leaf.startswith(forbidden + "::") or whole_module:
                    found.append(f"{path}:{line_of(code, match.start())}: the core must not import {leaf}")
                    break
    found += [
        f"{path}:{line_of(code, match.start())}: the core must not use {match[0]}"
        for match in re.finditer(r"\b\w+(?:::\w+)+", code)
        if any((match[0] + "::").startswith(forbidden + "::") for forbidden in FORBIDDEN_IN_CORE)
    ]
    for word in FORBIDDEN_WORDS_IN_CORE:
        used = re.search(rf"\b{word}\b", code)
        if used:
            found.append(f"{path}:{line_of(code, used.start())}: the core must not use {word}")
    return found


def dependency_breaches(path: str, text: str, allowed: set[str]) -> list[str]:
    """What a Cargo.toml depends on besides what is allowed; tests may depend on more."""
    manifest = tomllib.loads(text)
    tables = [manifest, *manifest.get("target", {}).values()]
    named = {
        name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, {})
    }
    return [f"{path}:1: the core must not depend on {name}" for name in sorted(named - allowed)]


FENCE = re.compile(r"^\s*//[/!] ```.*$", re.MULTILINE)
RUST_TEST = re.compile(r"#\[(\w+::)?test\b")
NO_TESTS = ("```text", "```ignore", "```sh", "```json")


def unrun_breaches(path: str, text: str, *, is_tested: bool) -> list[str]:
    """Rust tests that `make test-rust` does not run: of a library with `test = false`, and in documentation."""
    breaches = []
    if not is_tested and RUST_TEST.search(text):
        breaches.append(f"{path}: a test, and the library's manifest has `test = false`")
    # A fence without a language that closes a block is no test.
    fences = [found[0].strip().removeprefix("///").removeprefix("//!").strip() for found in FENCE.finditer(text)]
    breaches += [f"{path}: a test in documentation" for fence in fences[::2] if fence not in NO_TESTS]
    return breaches


def unsafe_breaches(path: str, text: str) -> list[str]:
    """`unsafe` in Rust code."""
    code = rust_code(text)
    return [f"{path}:{line_of(code, match.start())}: unsafe code" for match in re.finditer(r"\bunsafe\b", code)]


def length_breaches(path: str, text: str, long_files: Iterable[str], long_functions: Iterable[str]) -> list[str]:
    """Files and functions over the limits. An exception is a path, or `path::function`."""
    found = []
    lines = len(text.splitlines())
    if lines > FILE_LINES_MAX and path not in long_files:
        found.append(f"{path}:{FILE_LINES_MAX}: a file of {lines} lines, at most {FILE_LINES_MAX}")
    functions = rust_functions(text) if path.endswith(".rs") else python_functions(text)
    for name, first, length in functions:
        if length > FUNCTION_LINES_MAX and f"{path}::{name}" not in long_functions:
            found.append(f"{path}:{first}: `{name}` has {length} lines, at most {FUNCTION_LINES_MAX}")
    return found


def python_code_lines(text: str) -> int:
    """Lines of Python that are not blank, comments, docstrings or imports."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and type(node.value.value) is str
        if isinstance(node, ast.stmt) and (is_prose or isinstance(node, ast.Import | ast.ImportFrom)):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in lines if number not in skipped and line.strip() and line.strip()[0] != "#")


# Built from pieces, so that this file does not contain what it forbids.
MACHINE_PATTERNS = {
    "a path of one machine": rf"(?<![\w.~-])/(?:{'|'.join(('work', 'root', 'home'))})/",
    "a path outside the project": r"\.\./" + "shared" + r"\b",
    "a host that only some machines reach": r"https?://[^/\s\"'<>]*\b(?:registry|mirror|proxy|nexus|artifactory|internal)\b",
    "a bare address": r"https?://(?!127\.|0\.0\.0\.0)\d+\.\d+\.\d+\.\d+",
}
UNFINISHED = re.compile(
    "|".join([r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bto" + r"do!", r"\bunimple" + r"mented!", r"\bdb" + r"g!\s*\("])
)
SLEEPING = re.compile(r"\btime\.sle" + r"ep\(|from time import [^\n]*\bsle" + r"ep\b|\bthread::sle" + r"ep\b")


def machine_breaches(path: str, text: str) -> list[str]:
    """Words that mean something on one machine only."""
    return [
        f"{path}:{line_of(text, match.start())}: {what}: {match[0]}"
        for what, pattern in MACHINE_PATTERNS.items()
        for match in re.finditer(pattern, text)
    ]


def unfinished_breaches(path: str, text: str) -> list[str]:
    """Marks of unfinished work."""
    return [f"{path}:{line_of(text, match.start())}: {match[0]}" for match in UNFINISHED.finditer(text)]


def sleep_breaches(path: str, text: str) -> list[str]:
    """Sleeping where a condition should be waited for."""
    return [f"{path}:{line_of(text, match.start())}: {match[0]}" for match in SLEEPING.finditer(text)]


# ---- references


def sections_of(page: str) -> set[str]:
    """The numbers of a page's headings."""
    return set(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\b", page, re.MULTILINE))


@dataclass
class Known:
    """What may be cited: the sections of pages (by path), and the ids of departures, rows and invariants."""

    sections: dict[str, set[str]]
    departures: set[str] = field(default_factory=set)
    rows: set[str] = field(default_factory=set)
    invariants: set[str] = field(default_factory=set)


#: Where a bare section is one of another page than docs/protocol.md.
PAGES_OF_SECTIONS = {
    "python/rota/model/consumer/": "docs/consumer-protocol.md",
    "python/rota/model/transactions.py": "docs/transactions.md",
    "python/rota/specs/consumer/": "docs/consumer-protocol.md",
    "python/rota/specs/transactions/": "docs/transactions.md",
    "rust/engine/": "docs/engine-protocol.md",
    "rust/cluster/": "docs/engine-protocol.md",
    "rust/etcd/": "docs/engine-protocol.md",
    "rust/postgres/": "docs/engine-protocol.md",
    "docs/engine-protocol.md": "docs/engine-protocol.md",
    "rust/txn/": "docs/transactions.md",
    "docs/transactions.md": "docs/transactions.md",
}


def citation_breaches(path: str, text: str, known: Known) -> list[str]:
    """Citations of sections, departures, rows and invariants that do not exist. A bare section is one of
    docs/protocol.md, or of the page that the folder is about; rows X.. are made up by tests."""
    found = []
    own = next((page for folder, page in PAGES_OF_SECTIONS.items() if path.startswith(folder)), "docs/protocol.md")
    for match in re.finditer(r"(?:\b([\w./-]+\.md)[\s/!#*`]+)?§\s?(\d+(?:\.\d+)*)", text):
        page = match[1] or own
        if page not in known.sections:
            page = next((name for name in known.sections if name.endswith("/" + page)), page)
        if match[2] not in known.sections.get(page, set()):
            found.append(f"{path}:{line_of(text, match.start())}: {page} has no section {match[2]}")
    for pattern, ids, what in (
        (r"\b[Dd]eparture (D\d+)\b", known.departures, "departure"),
        (r"\b[Rr]ows? ([A-Z]\d\d)\b", known.rows, "row"),
        (r"\bINVARIANT: ([SL]\d+)\b", known.invariants, "invariant"),
    ):
        found += [
            f"{path}:{line_of(text, match.start())}: there is no {what} {match[1]}"
            for match in re.finditer(pattern, text)
            if match[1] not in ids and not match[1].startswith("X")
        ]
    return found


MAPPED_ONE_BY_ONE = ("rust", "python/rota", "tests")
MAP_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def mapped_folders(root: Path) -> set[str]:
    """The folders that the map lists: those at the top; of `rust`, `python/rota` and `tests` the folders in them."""

    def holds_a_file(folder: Path) -> bool:
        return any(path.is_file() and PRUNED.isdisjoint(path.parts) for path in folder.rglob("*"))

    def inside(folder: str) -> set[str]:
        entries = [entry for entry in (root / folder).iterdir() if entry.is_dir() and entry.name not in PRUNED]
        return {entry.relative_to(root).as_posix() for entry in entries if holds_a_file(entry)}

    top = {name for name in inside(".") if not name.startswith(".") or name in (".cargo", ".ci", ".github")}
    return (top - {"rust", "python", "tests"} | {"python/rota"}).union(*map(inside, MAPPED_ONE_BY_ONE))


def map_breaches(path: str, section: str, folders: set[str]) -> list[str]:
    """Folders without a row in the map, rows without a folder, and folders with two rows."""
    rows = MAP_ROW.findall(section)
    return (
        [f"{path}:1: no row for the folder {name}" for name in sorted(folders - set(rows))]
        + [f"{path}:1: no such folder: {name}" for name in sorted(set(rows) - folders)]
        + [f"{path}:1: two rows for {name}" for name in sorted({row for row in rows if rows.count(row) > 1})]
    )


MADE_BY_TOOLS = {"target", "dist", "build", ".venv"}


def reference_breaches(path: str, text: str, root: Path) -> list[str]:
    """Links and paths in a page that lead to no file. Paths count from the page's folder or from the root."""
    top = {entry.name for entry in root.iterdir()}
    found = []
    for match in re.finditer(r"\]\(([^)\s#]+)[^)]*\)|(?<!`)`([^`\s]+)`(?!`)", text):
        link, quoted = match[1], match[2]
        if link is None:
            target = quoted.split("::")[0].rstrip(".,;:")
            first = target.split("/")[0]
            looks_like_a_file = re.search(r"\.[a-z]{1,5}$", target) or first in top
            if "/" not in target or not looks_like_a_file or re.search(r"^[/~$<-]|[<>{}$=@:]|\b[A-Z]{3,}/", target):
                continue
            if first in MADE_BY_TOOLS:
                continue
        else:
            target = link
            if re.match(r"[a-z]+:", target):
                continue
        bases = [(root / path).parent, root]
        if not any((base / target).exists() or ("*" in target and any(base.glob(target))) for base in bases):
            found.append(f"{path}:{line_of(text, match.start())}: no such file: {target}")
    return found
