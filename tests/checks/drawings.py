"""The drawings of docs/architecture.md, made from the tree: `python -m tests.checks.drawings`, or `make drawings`.

`crates.svg` has the crates of the workspace and their dependencies, from their manifests. `dataflow.svg` has the layers
of the server and the crates that they call, from their imports. An arrow that follows from others is left out.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from tests.checks import modules
from tests.checks.tidy import ROOT, rust_code, without_test_modules

FOLDER = ROOT / "docs/generated"
Graph = Mapping[str, set[str]]

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 150, 44, 26, 46, 12
EVERYWHERE = "base"
"""The layer that every other layer imports: settings, clock, errors, metrics. It is not drawn."""
NOTES = {
    "server": "start, stop, orders",
    "net": "sockets, frames, event loops",
    "apis": "one request, one file",
    "node": "one thread's state",
    "faults": "injected errors, pauses",
    "client": "answers back to a client",
    "transactions": "exactly-once",
    "peers": "questions to other servers",
    "topics": "topics and messages",
    "log": "data directory",
    "rota-core": "the state machine",
    "rota-wire": "codecs and versions",
    "rota-log": "memory or disk",
    "rota-security": "TLS, SASL, users",
    "rota-engine": "shared partitions",
    "rota-cluster": "a node on an engine",
    "rota-etcd": "etcd as the engine",
    "rota-postgres": "PostgreSQL as the engine",
    "rota-contract": "what engines answer",
    "rota-txn": "transactions",
    "rota-journal": "record and replay",
    "rota-assign": "assignors",
    "rota-member": "the member's side",
    "rota-audit": "logs as rows",
    "rota-promises": "promises of logs",
    "rota-server": "sockets and threads",
    "rota-sim": "simulator, explorer",
    "rota-bench": "loads and floors",
    "rota-benches": "instruction gate",
    "rota-python": "the module rota._rota",
}


def crates() -> dict[str, set[str]]:
    """The crates of the workspace that each crate depends on, tests apart."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    manifests = [
        tomllib.loads((ROOT / member / "Cargo.toml").read_text(encoding="utf-8")) for member in workspace["members"]
    ]
    names = {manifest["package"]["name"] for manifest in manifests}
    return {manifest["package"]["name"]: names & manifest.get("dependencies", {}).keys() for manifest in manifests}


def dataflow() -> dict[str, set[str]]:
    """The layers of the server and the crates that each layer calls, without `base`."""
    sources = modules.sources("rust/server")
    layers = [layer for declared in reversed(modules.declared_layers(sources[""])) for layer in declared]
    found: dict[str, set[str]] = {layer: set() for layer in layers if layer != EVERYWHERE}
    for name, others in modules.graph(sources).items():
        found.get(name.split("::")[0], set()).update(other.split("::")[0] for other in others)
    for name, text in sources.items():
        code = without_test_modules(rust_code(text))
        found.get(name.split("::")[0], set()).update(
            f"rota-{crate}" for crate in re.findall(r"\brota_(core|wire|log|journal)\b", code)
        )
    called = {layer: others - {layer, EVERYWHERE} for layer, others in found.items()}
    return {**called, **{crate: set() for others in called.values() for crate in others if crate.startswith("rota-")}}


def reduced(graph: Graph) -> dict[str, set[str]]:
    """The graph without arrows that follow from others."""

    def reached(name: str) -> set[str]:
        return {deep for other in graph[name] for deep in {other} | reached(other)}

    return {
        name: {other for other in others if not any(other in reached(middle) for middle in others - {other})}
        for name, others in graph.items()
    }


@dataclass(eq=False)
class Place:
    """A box, or a point where an arrow passes a row."""

    name: str
    row: int
    is_box: bool
    below: list[Place] = field(default_factory=list)
    above: list[Place] = field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> int:
        return BOX_WIDTH if self.is_box else 0


def rows_of(graph: Graph) -> list[list[Place]]:
    """Rows of places, the callers on top: each arrow goes from a row to the next one."""

    def depth(name: str) -> int:
        return 1 + max((depth(other) for other in graph[name]), default=-1)

    top = max(depth(name) for name in graph)
    boxes = {name: Place(name, top - depth(name), True) for name in sorted(graph)}
    rows: list[list[Place]] = [[] for _ in range(top + 1)]
    for place in boxes.values():
        rows[place.row].append(place)
    for name in sorted(graph):
        for other in sorted(graph[name]):
            at = boxes[name]
            for row in range(at.row + 1, boxes[other].row):
                point = Place(f"{name} to {other}", row, False, above=[at])
                rows[row].append(point)
                at.below.append(point)
                at = point
            at.below.append(boxes[other])
            boxes[other].above.append(at)
    return rows


def crossings(rows: list[list[Place]]) -> int:
    """How many pairs of arrows cross between neighbouring rows."""
    count = 0
    for upper, lower in itertools.pairwise(rows):
        at = {id(place): index for index, place in enumerate(lower)}
        ends = [(index, at[id(below)]) for index, place in enumerate(upper) for below in place.below]
        count += sum(a < c and b > d for a, b in ends for c, d in ends)
    return count


def arrange(rows: list[list[Place]]) -> None:
    """Order each row by where its neighbours are, keep the order with the fewest crossings, and set each `x`."""
    best = [list(row) for row in rows]
    for turn in range(24):
        downward = turn % 2 == 0
        for index in range(len(rows)) if downward else reversed(range(len(rows))):
            neighbours = rows[index - 1] if downward and index else rows[min(index + 1, len(rows) - 1)]
            at = {id(place): number for number, place in enumerate(neighbours)}

            def middle(place: Place, at: Mapping[int, int] = at, own: Iterable[Place] = tuple(rows[index])) -> float:
                ends = [at[id(end)] for end in (*place.above, *place.below) if id(end) in at]
                return sum(ends) / len(ends) if ends else float(list(own).index(place))

            rows[index].sort(key=middle)
        if crossings(rows) < crossings(best):
            best = [list(row) for row in rows]
    widest = max(_width(row) for row in best)
    for row, order in zip(rows, best, strict=True):
        row[:] = order
        x = MARGIN + (widest - _width(row)) / 2
        for place in row:
            place.x = x + place.width / 2
            x += place.width + GAP_X


def _width(row: list[Place]) -> float:
    return sum(place.width for place in row) + GAP_X * (len(row) - 1)


def svg(graph: Graph, title: str) -> str:
    """The graph as a drawing, callers on top."""
    rows = rows_of(reduced(graph))
    arrange(rows)
    width = max(_width(row) for row in rows) + 2 * MARGIN
    height = len(rows) * BOX_HEIGHT + (len(rows) - 1) * GAP_Y + 2 * MARGIN
    arrows, boxes = [], []
    for place in (place for row in rows for place in row):
        top = MARGIN + place.row * (BOX_HEIGHT + GAP_Y)
        if place.is_box:
            boxes.append(_box(place.name, place.x, top))
            arrows += [f'<path d="{_arrow(place, below)}" marker-end="url(#end)"/>' for below in place.below]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"'
            f' font-family="system-ui, sans-serif" text-anchor="middle">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path d="M0 0 8 4 0 8z" fill="#5c6f82"/></marker></defs>',
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            '<g fill="none" stroke="#5c6f82" stroke-width="1.4">',
            *arrows,
            "</g>",
            *boxes,
            "</svg>",
            "",
        ]
    )


def _arrow(place: Place, below: Place) -> str:
    """The path of an arrow from a box to the next box, by the points between."""
    x, y = place.x, MARGIN + place.row * (BOX_HEIGHT + GAP_Y) + BOX_HEIGHT
    path = f"M{x:g} {y:g}"
    while True:
        to = MARGIN + below.row * (BOX_HEIGHT + GAP_Y)
        path += f"C{x:g} {y + GAP_Y / 2:g} {below.x:g} {to - GAP_Y / 2:g} {below.x:g} {to:g}"
        if below.is_box:
            return path
        x, y = below.x, to + BOX_HEIGHT
        path += f"V{y:g}"
        [below] = below.below


def _box(name: str, x: float, top: float) -> str:
    fill = "#e8f0fe" if name.startswith("rota-") else "#eef7ee"
    return (
        f'<rect x="{x - BOX_WIDTH / 2:g}" y="{top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{fill}"'
        f' stroke="#5c6f82"/><text x="{x:g}" y="{top + 19:g}" font-size="14" font-weight="600">{escape(name)}</text>'
        f'<text x="{x:g}" y="{top + 35:g}" font-size="11" fill="#44525f">{escape(NOTES.get(name, ""))}</text>'
    )


def drawings() -> dict[Path, str]:
    """The files with their contents."""
    return {
        FOLDER / "crates.svg": svg(crates(), "The crates of rota and their dependencies"),
        FOLDER / "dataflow.svg": svg(dataflow(), "The layers of the server and the crates that they call"),
    }


if __name__ == "__main__":
    for path, text in drawings().items():
        path.write_text(text, encoding="utf-8")
