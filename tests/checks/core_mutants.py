"""The mutants of the core, all asleep in one copy of its sources; the environment names the one that runs.

cargo-mutants says what they are, and which are left out (`.cargo/mutants.toml`). It would build the core once for each
of them. Here a mutant is one more branch of the code that it changes, so that one build has all of them.
`run_core_mutants.py` builds and runs it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

from tests.checks.planting import CORE
from tests.checks.tidy import ROOT

VARIABLE, REACHED = "ROTA_MUTANT", "ROTA_MUTANTS_REACHED"
NUMBERS = 1 << 14
"""So many numbers there are for mutants."""
SWITCH = f"""//! Which mutant runs: the one that the environment names.

use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{{AtomicBool, Ordering}};

static RUNS: LazyLock<u32> =
    LazyLock::new(|| std::env::var("{VARIABLE}").map_or(0, |number| number.parse().expect("a number")));
static REACHED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("{REACHED}").ok());
static NOTED: [AtomicBool; {NUMBERS}] = [const {{ AtomicBool::new(false) }}; {NUMBERS}];

/// Whether this is the mutant that runs. If the environment names a file, it gets the number of each that is asked for.
/// A test counts allocations: there are none here.
pub fn is(number: u32) -> bool {{
    if let Some(path) = &*REACHED {{
        if !NOTED[number as usize].swap(true, Ordering::Relaxed) {{
            let mut line = [0; 12];
            let mut rest = &mut line[..];
            writeln!(rest, "{{number}}").expect("a line has room for a number");
            let left = rest.len();
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the file opens");
            file.write_all(&line[..line.len() - left]).expect("the number is written");
        }}
    }}
    *RUNS == number
}}
"""
MARK = re.compile(rb"/\*([<>])(\d+)\*/")
PARSER = Parser(Language(tree_sitter_rust.language()))


@dataclass(frozen=True)
class Mutant:
    """One change, by the name that cargo-mutants gives it."""

    number: int
    name: str
    file: str
    """In `src` of the core."""
    genre: str
    start: int
    """Where what it replaces begins and ends, in bytes."""
    end: int
    replacement: str
    diff: str


def listed(told: str, texts: Mapping[str, bytes]) -> list[Mutant]:
    """The mutants of `cargo mutants --list --json`, numbered from 1. `texts` are the core's files by name in `src`."""
    mutants = []
    for number, entry in enumerate(json.loads(told), 1):
        file = str(Path(entry["file"]).relative_to(f"{CORE}/src"))
        start, end = (_offset(texts[file], entry["span"][which]) for which in ("start", "end"))
        said = entry["name"], file, entry["genre"], start, end, entry["replacement"], entry["diff"]
        mutants.append(Mutant(number, *said))
    return mutants


def _offset(text: bytes, place: dict[str, int]) -> int:
    lines = text.split(b"\n")
    before = sum(len(line) + 1 for line in lines[: place["line"] - 1])
    return before + len(lines[place["line"] - 1].decode()[: place["column"] - 1].encode())


def planted(text: bytes, mutants: Iterable[Mutant]) -> tuple[bytes, set[int]]:
    """The file with the mutants asleep in it, on the same lines. Returns the numbers of those that are."""
    planting = _Planting(text, mutants)
    return planting.text_between(0, len(text), PARSER.parse(text).root_node.children), planting.placed


def blamed(text: bytes, at: int) -> set[int]:
    """The mutants that an error at a byte of a planted file is about: the one it is in, or all of its line."""
    inside: list[int] = []
    for mark in MARK.finditer(text):
        if mark.start() > at:
            break
        if mark[1] == b"<":
            inside.append(int(mark[2]))
        else:
            inside.remove(int(mark[2]))
    if inside:
        return {inside[-1]}
    begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
    return {int(mark[2]) for mark in MARK.finditer(text, begin, end)}


class _Planting:
    """Writes one file: each node of its syntax tree as it is, or with its mutants."""

    def __init__(self, text: bytes, mutants: Iterable[Mutant]) -> None:
        self.text = text
        self.placed: set[int] = set()
        self.at: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
        for mutant in mutants:
            self.at[mutant.genre, mutant.start].append(mutant)

    def text_of(self, node: Node) -> bytes:
        match node.type:
            case "binary_expression" | "compound_assignment_expr" | "unary_expression":
                return self._operation(node)
            case "match_pattern":
                return self._arm(node)
            case "field_initializer" | "shorthand_field_initializer":
                return self._field(node)
            case "block":
                return self._body(node)
            case _:
                return self._same(node)

    def _same(self, node: Node) -> bytes:
        """The node, and what is planted within it."""
        return self.text_between(node.start_byte, node.end_byte, node.children)

    def text_between(self, start: int, end: int, children: Iterable[Node]) -> bytes:
        parts, at = [], start
        for child in children:
            parts += [self.text[at : child.start_byte], self.text_of(child)]
            at = child.end_byte
        return b"".join([*parts, self.text[at:end]])

    def _before(self, node: Node, child: Node) -> bytes:
        """What the node has before one of its children."""
        at = child.start_byte
        return self.text_between(node.start_byte, at, [each for each in node.children if each.end_byte <= at])

    def _after(self, node: Node, child: Node) -> bytes:
        at = child.end_byte
        return self.text_between(at, node.end_byte, [each for each in node.children if each.start_byte >= at])

    def _asleep(self, mutant: Mutant, becomes: bytes) -> bytes:
        self.placed.add(mutant.number)
        return b"/*<%d*/if crate::mutated::is(%d) { %s }/*>%d*/" % (
            mutant.number, mutant.number, becomes, mutant.number,
        )  # fmt: skip

    def _choice(self, variants: list[tuple[Mutant, bytes]], otherwise: bytes) -> bytes:
        asleep = b" else ".join(self._asleep(mutant, becomes) for mutant, becomes in variants)
        return b"(%s else { %s })" % (asleep, otherwise) if variants else otherwise

    def _operation(self, node: Node) -> bytes:
        whole = self._same(node)
        genre = "UnaryOperator" if node.type == "unary_expression" else "BinaryOperator"
        operator = next((child for child in node.children if (genre, child.start_byte) in self.at), None)
        if operator is None:
            return whole
        before, after = self._before(node, operator), self._after(node, operator)
        mutants = self.at[genre, operator.start_byte]
        return self._choice([(each, before + each.replacement.encode() + after) for each in mutants], whole)

    def _arm(self, node: Node) -> bytes:
        """The pattern of an arm, and its guard: an arm that is deleted is one whose guard says no."""
        guard = node.child_by_field_name("condition")
        deleted = [(each, b"false") for each in self.at.get(("MatchArm", node.start_byte), [])]
        if guard is None:
            return self._same(node) + (b" if " + self._choice(deleted, b"true") if deleted else b"")
        forced = [(each, each.replacement.encode()) for each in self.at.get(("MatchArmGuard", guard.start_byte), [])]
        return self._before(node, guard) + self._choice([*deleted, *forced], self.text_of(guard))

    def _field(self, node: Node) -> bytes:
        """A field that is deleted has the value of the base of the struct's expression."""
        deleted = self.at.get(("StructField", node.start_byte), [])
        around = node.parent.children if node.parent else []
        base = next((each for each in around if each.type == "base_field_initializer"), None)
        # `field` alone stands for `field: field`.
        name = node.child_by_field_name("field") or node.named_children[-1]
        value = node.child_by_field_name("value") or name
        if not deleted or base is None:
            return self._same(node)
        dots = len(b"..")
        of_base, field = self.text[base.start_byte + dots : base.end_byte], self.text[name.start_byte : name.end_byte]
        choice = self._choice([(each, b"(%s).%s" % (of_base, field)) for each in deleted], self.text_of(value))
        return self.text[node.start_byte : name.start_byte] + field + b": " + choice

    def _body(self, node: Node) -> bytes:
        """A function that returns something else at once, or an iterator over nothing."""
        inside = [child for child in node.children[1:-1] if "comment" not in child.type]
        if not inside or node.parent is None or node.parent.type != "function_item":
            return self._same(node)
        first, last = inside[0], inside[-1]
        mutants = self.at.get(("FnValue", first.start_byte), [])
        # Functions that return `impl Iterator` have one type for what they return: their own iterator, of length 0.
        empty = [(each, b"0") for each in mutants if each.replacement == "::std::iter::empty()"]
        possible = [each for each in mutants if "::std::iter::" not in each.replacement]
        asleep = [self._asleep(each, b"return " + each.replacement.encode() + b";") + b" " for each in possible]
        before = self.text_between(first.start_byte, last.start_byte, inside[:-1])
        value = self.text_of(last)
        if empty:
            value = b"(%s).take(%s)" % (value, self._choice(empty, b"usize::MAX"))
        after = self.text[last.end_byte : node.end_byte]
        return b"".join([self.text[node.start_byte : first.start_byte], *asleep, before, value, after])


def sources() -> dict[str, bytes]:
    """The core's files, by their name in `src`."""
    folder = ROOT / CORE / "src"
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.rs"))}


def core_with(mutants: Iterable[Mutant]) -> tuple[dict[str, bytes], set[int]]:
    """The core's files that differ with the mutants asleep in them, and the numbers of those that are."""
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    texts, numbers = sources(), set[int]()
    written: dict[str, bytes] = {}
    for file, those in by_file.items():
        written[file], placed = planted(texts[file], those)
        numbers |= placed
    library = written.get("lib.rs", texts["lib.rs"])
    written["lib.rs"] = b"#![allow(warnings)]\n" + library + b"\nmod mutated;\n"
    written["mutated.rs"] = SWITCH.encode()
    return written, numbers
