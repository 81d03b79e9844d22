"""Which modules of a Rust crate import which: circles among them, and imports against the order of layers.

Imports are `use` lines and paths that begin with `crate`, `self` or `super`, outside `#[cfg(test)]` modules. Calls of
methods are not imports: they are found through the type, whichever module has them.
"""

import re
from collections.abc import Iterator, Mapping

from tests.checks.tidy import ROOT, imported, rust_code, without_test_modules

Graph = dict[str, set[str]]

USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|self|super)(?:::\w+)+")

# What a `use` of everything in the root leads to.
EVERYTHING = "*"


def sources(crate: str) -> dict[str, str]:
    """The text of each module of the crate in this folder, without files of tests; the root has an empty name."""
    root = ROOT / crate / "src"
    found = {}
    for path in sorted(root.rglob("*.rs")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] in ("mod", "lib"):
            parts = parts[:-1]
        if parts[-1:] != ("tests",) and parts[:1] != ("bin",):
            found["::".join(parts)] = path.read_text(encoding="utf-8")
    return found


def graph(modules: Mapping[str, str]) -> Graph:
    """The modules that each module imports. What the root re-exports counts as its own module's; the root itself, which
    declares all of them, is left out. `use crate::*` imports all other modules."""
    codes = {name: without_test_modules(rust_code(text)) for name, text in modules.items()}
    exports = {
        path.rsplit("::", 1)[-1]: path
        for match in re.finditer(r"\bpub use\s+([^;]+);", codes.get("", ""))
        for path in imported(match[1])
    }
    found: Graph = {}
    for name, code in codes.items():
        if name:
            places = {_place(path, name, codes, exports) for path in _paths(code)}
            places |= codes.keys() if EVERYTHING in places else set()
            found[name] = places - {"", EVERYTHING, name}
    return found


def _paths(code: str) -> Iterator[str]:
    for match in USE.finditer(code):
        yield from imported(match[1])
    yield from PATH.findall(USE.sub("", code))


def _place(path: str, name: str, modules: Mapping[str, str], exports: Mapping[str, str]) -> str:
    """The module that a path in the module `name` leads to; "" if it is in no other module of this crate."""
    parts = path.split("::")
    base = name.split("::")
    if parts[0] == "crate":
        base = []
    while parts[0] in ("crate", "self", "super"):
        if parts.pop(0) == "super":
            base = base[:-1]
        if not parts:
            return "::".join(base)
    parts = base + parts
    if parts == [EVERYTHING]:
        return EVERYTHING
    if "::".join(parts[:1]) not in modules and parts[0] in exports:
        parts = exports[parts[0]].removeprefix("crate::").split("::")
    for length in range(len(parts), 0, -1):
        if (place := "::".join(parts[:length])) in modules:
            return place
    return ""


def without_parents(imports: Graph) -> Graph:
    """The same without imports of the modules that a module lies in: its file has methods of what is defined there."""
    return {name: {other for other in others if not name.startswith(f"{other}::")} for name, others in imports.items()}


def circles(imports: Graph) -> list[list[str]]:
    """Modules that import each other, directly or through others: each circle sorted, the largest first."""
    reached = {name: _reached(name, imports) for name in imports}
    found = {
        frozenset({name} | {other for other in reached[name] if name in reached.get(other, set())}) for name in imports
    }
    return sorted((sorted(circle) for circle in found if len(circle) > 1), key=lambda circle: (-len(circle), circle))


def _reached(name: str, imports: Graph) -> set[str]:
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        for other in imports.get(ahead.pop(), set()) - seen:
            seen.add(other)
            ahead.append(other)
    return seen


def declared_layers(root: str) -> list[list[str]]:
    """The modules that a crate's root declares, in blocks between blank lines: one layer each, the lowest first."""
    blocks = re.split(r"\n\s*\n", without_test_modules(root))
    layers = [re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", block, re.MULTILINE) for block in blocks]
    return [layer for layer in layers if layer]


def upward_imports(imports: Graph, layers: list[list[str]]) -> list[str]:
    """Imports from a higher layer than one's own, and modules that are in no layer or in two."""
    names = [name for layer in layers for name in layer]
    level = {name: at for at, layer in enumerate(layers) for name in layer}
    tops = {name.split("::")[0] for name in imports}
    everything = sorted(tops | level.keys())
    found = [f"{name} is in {names.count(name)} layers" for name in everything if names.count(name) != 1]
    for name, others in sorted(imports.items()):
        for other in sorted(others):
            top, other_top = name.split("::")[0], other.split("::")[0]
            if level.get(other_top, 0) > level.get(top, len(layers)):
                found.append(f"{name} imports {other} from a higher layer")
    return found
