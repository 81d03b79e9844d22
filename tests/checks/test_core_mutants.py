"""Mutants of the core that sleep in one build: each does what cargo-mutants says, and only when it is named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.checks.core_mutants import REACHED, SWITCH, VARIABLE, Mutant, blamed, planted

PROGRAM = b"""
#[derive(Clone, Debug, Default)]
struct Settings { size: i32, other: i32 }

fn operator(a: i32, b: i32) -> bool { a < b && b < 10 }
fn assigned(mut a: i32) -> i32 { a += 2; a }
fn negated(a: bool) -> bool { !a }
fn value() -> i32 {
    // What a comment says first changes nothing.
    7
}
fn several(many: i32) -> impl Iterator<Item = i32> {
    let end = many + 1;
    1..end
}
fn arms(a: i32) -> &'static str {
    match a {
        1 => "one",
        2 if a != 5 => "two",
        _ => "other",
    }
}
fn field() -> i32 { let base = Settings::default(); Settings { size: 3, ..base }.size }
fn named_field() -> i32 { let size = 4; Settings { size, ..Settings::default() }.size }

fn main() {
    let said = (operator(1, 2), assigned(1), negated(true), value(), arms(1), arms(2), field(), named_field());
    let (a, b, c, d, e, f, g, h) = said;
    println!("{a} {b} {c} {d} {e} {f} {g} {h} {}", several(2).count());
}
"""
UNCHANGED = "true 3 false 7 one two 3 4 2"


def mutant(number: int, genre: str, at: bytes, replacement: str = "", after: bytes = b"") -> Mutant:
    start = PROGRAM.index(at, PROGRAM.index(after))
    return Mutant(number, f"mutant {number}", "main.rs", genre, start, start + len(at), replacement, "")


CASES = [
    (mutant(1, "BinaryOperator", b"<", ">", b"a < b"), "false 3 false 7 one two 3 4 2"),
    (mutant(2, "BinaryOperator", b"<", "==", b"b < 10"), "false 3 false 7 one two 3 4 2"),
    (mutant(3, "BinaryOperator", b"+=", "-="), "true -1 false 7 one two 3 4 2"),
    (mutant(4, "UnaryOperator", b"!", "", b"!a }"), "true 3 true 7 one two 3 4 2"),
    (mutant(5, "FnValue", b"7", "-1", b"nothing"), "true 3 false -1 one two 3 4 2"),
    (mutant(6, "MatchArm", b"1 => "), "true 3 false 7 other two 3 4 2"),
    (mutant(7, "MatchArm", b"2 if a"), "true 3 false 7 one other 3 4 2"),
    (mutant(8, "MatchArmGuard", b"a != 5", "false"), "true 3 false 7 one other 3 4 2"),
    (mutant(9, "StructField", b"size: 3"), "true 3 false 7 one two 0 4 2"),
    (mutant(10, "BinaryOperator", b"&&", "||"), UNCHANGED),
    (mutant(11, "FnValue", b"let end", "::std::iter::empty()"), "true 3 false 7 one two 3 4 0"),
    (mutant(12, "StructField", b"size, .."), "true 3 false 7 one two 3 0 2"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutants")
    text, placed = planted(PROGRAM, [each for each, _ in CASES])
    assert placed == {each.number for each, _ in CASES}
    assert text.count(b"\n") == PROGRAM.count(b"\n"), "an error has the line of the original"
    (folder / "main.rs").write_bytes(b"#![allow(warnings)]\nmod mutated;\n" + text)
    (folder / "mutated.rs").write_text(SWITCH)
    subprocess.run(["rustc", "--edition=2024", "main.rs"], cwd=folder, check=True)
    return folder / "main"


def said(program: Path, **variables: str) -> str:
    return subprocess.run(
        [program], env=os.environ | variables, capture_output=True, text=True, check=True
    ).stdout.strip()  # fmt: skip


@pytest.mark.parametrize(("changed", "expected"), CASES, ids=lambda each: getattr(each, "genre", None))
def test_a_mutant_changes_what_it_says_and_nothing_without_its_number(
    program: Path, changed: Mutant, expected: str
) -> None:
    assert said(program) == UNCHANGED
    assert said(program, **{VARIABLE: str(changed.number)}) == expected


def test_a_program_tells_which_mutants_it_reaches(program: Path, tmp_path: Path) -> None:
    said(program, **{REACHED: str(tmp_path / "reached")})
    reached = set(map(int, (tmp_path / "reached").read_text().split()))
    assert reached == {each.number for each, _ in CASES}


def test_an_error_is_about_the_mutant_it_is_in_or_else_about_those_of_its_line() -> None:
    text, _ = planted(PROGRAM, [each for each, _ in CASES])
    assert blamed(text, text.index(b"return -1;")) == {5}
    assert blamed(text, text.index(b"fn operator")) == {1, 2, 10}
    assert blamed(text, text.index(b"fn main")) == set()
