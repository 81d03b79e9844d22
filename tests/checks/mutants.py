"""The mutants of the model: one small change each, and how a process comes to run one.

A mutant is imported: in a process that has not imported the model yet, a loader gives the changed text for the one
module. So whatever the other modules take from it, by name or in tables, is the mutant's.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

FOLDER = Path(__file__).parent.parent.parent / "python/rota/model"
# What holds data only has nothing to change; the assignors' model has its own tests.
SKIPPED = {"__init__", "answers", "records", "requests", "assignors"}
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
Change = Callable[[ast.AST], None]
Way = tuple[int, ...]


@dataclass(frozen=True)
class Mutant:
    """One change: module, function ("" outside of one), line, what was done, and where: the index of the node and which
    of its changes, or None for the function that raises. `written` is a text of the module that is no change.
    """

    module: str
    function: str
    line: int
    what: str
    index: int
    change: int | None
    written: str = ""

    @property
    def text(self) -> str:
        """The module's changed text. It is made when it is asked for: most mutants are only counted."""
        if self.written:
            return self.written
        tree = ast.parse((FOLDER / f"{self.module}.py").read_text())
        place = next(each for at, each in enumerate(ast.walk(tree)) if at == self.index)
        to = _raise if self.change is None else [change for _, change in _changes(place, "")][self.change]
        to(place)
        return ast.unparse(ast.fix_missing_locations(tree))

    @property
    def name(self) -> str:
        """What tells it from the others, and does not depend on lines."""
        return f"{self.module}.{self.function}: {self.what}"


def modules() -> list[Path]:
    """The modules that have rules."""
    return [path for path in sorted(FOLDER.glob("*.py")) if path.stem not in SKIPPED]


@cache
def mutants() -> list[Mutant]:
    """Every mutant of every module that has rules. The second of a name is called `... (2)`."""
    found, names = [], Counter[str]()
    for mutant in (mutant for path in modules() for mutant in _of_module(path.stem, ast.parse(path.read_text()))):
        names[mutant.name] += 1
        count = names[mutant.name]
        found.append(mutant if count == 1 else replace(mutant, what=f"{mutant.what} ({count})"))
    return found


@cache
def raising() -> list[Mutant]:
    """For each function the mutant that cannot be called."""
    return [
        Mutant(path.stem, name, node.lineno, "raises", index, None)
        for path in modules()
        for tree in [ast.parse(path.read_text())]
        for index, node, name, _ in _places(tree)
        if isinstance(node, ast.FunctionDef)
    ]


def _raise(place: ast.AST) -> None:
    assert isinstance(place, ast.FunctionDef)
    place.body = ast.parse("raise AssertionError('called')").body


def _places(tree: ast.Module) -> Iterator[tuple[int, ast.AST, str, str]]:
    """Every node: its index, itself, its function's name, and the first line of its statement. A class's fields and
    decorators are left out: transcripts and runs set them otherwise.
    """
    indexes = {id(node): index for index, node in enumerate(ast.walk(tree))}

    def walk(node: ast.AST, function: str, statement: str) -> Iterator[tuple[int, ast.AST, str, str]]:
        if isinstance(node, ast.stmt):
            statement = ast.unparse(node).split("\n")[0]
        if isinstance(node, ast.FunctionDef):
            function = node.name
        yield indexes[id(node)], node, function, statement
        for child in ast.iter_child_nodes(node):
            if not isinstance(node, ast.ClassDef) or isinstance(child, ast.FunctionDef):
                yield from walk(child, function, statement)

    yield from walk(tree, "", "")


def _of_module(module: str, tree: ast.Module) -> Iterator[Mutant]:
    for index, node, function, statement in _places(tree):
        for change, (what, _) in enumerate(_changes(node, statement)):
            yield Mutant(module, function, getattr(node, "lineno", 0), what, index, change)


def _changes(node: ast.AST, statement: str) -> Iterator[tuple[str, Change]]:
    """What can be done to one node."""

    def put(name: str, value: object) -> Change:
        return lambda place: setattr(place, name, value)

    match node:
        case ast.Compare(ops=[op]):
            yield f"`{ast.unparse(node)}` flipped", put("ops", [FLIPPED[type(op)]()])
        case ast.BoolOp():
            other = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield f"`{ast.unparse(node)}` and/or", put("op", other())
        case ast.UnaryOp(op=ast.Not()):
            yield f"`{ast.unparse(node)}` the other way", _double
        case ast.Constant(value=bool(value)):
            yield f"{value} the other way in `{statement}`", put("value", not value)
        case ast.Constant(value=int(number)):
            yield f"{number} plus one in `{statement}`", put("value", number + 1)
        case ast.FunctionDef():
            yield from _dropped(node)


def _double(place: ast.AST) -> None:
    """`not x` becomes `not not x`."""
    assert isinstance(place, ast.UnaryOp)
    place.operand = ast.UnaryOp(ast.Not(), place.operand)


def _dropped(function: ast.FunctionDef) -> Iterator[tuple[str, Change]]:
    """Each statement left out: an assignment to the state, or a guard."""
    for path, statement in _statements(function.body):
        state = isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "s"
        guard = isinstance(statement, ast.If) and not statement.orelse
        if (state or guard) and len(function.body) > 1:
            yield f"without `{ast.unparse(statement).split(chr(10))[0]}`", partial(_drop, path=path)


def _statements(body: Sequence[ast.stmt], above: Way = ()) -> Iterator[tuple[Way, ast.stmt]]:
    """The statements of a body and of the bodies in it, each with the way to it."""
    for at, statement in enumerate(body):
        yield (*above, at), statement
        if isinstance(statement, ast.If | ast.For | ast.While):
            yield from _statements(statement.body, (*above, at))


def _drop(function: ast.AST, path: Way) -> None:
    block = function
    for at in path[:-1]:
        block = block.body[at]  # type: ignore[attr-defined]  # _statements went this way
    block.body[path[-1]] = ast.Pass()  # type: ignore[attr-defined]


class _Loader(SourceFileLoader):
    """Gives another text than the file's, and takes no compiled one."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.get_filename(fullname), "exec")


class _Finder:
    def __init__(self, mutant: Mutant) -> None:
        self.name, self.mutant = f"rota.model.{mutant.module}", mutant

    def find_spec(self, name: str, _path: object = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        path = str(FOLDER / f"{self.mutant.module}.py")
        return importlib.util.spec_from_file_location(name, path, loader=_Loader(name, path, self.mutant.text))


def install(mutant: Mutant) -> None:
    """From now on this process imports the mutant. It must not have imported the model before."""
    early = [name for name in sys.modules if name.startswith("rota.model")]
    if early:
        raise RuntimeError(f"the model was imported before the mutant was installed: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder(mutant))
