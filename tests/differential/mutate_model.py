"""Changes the model a little, many times, and says which changes nobody noticed.

`python -m tests.differential.mutate_model --sample 200` plays each mutant to the transcripts and to a short seeded
differential run, and prints the survivors. Each is a hole in the tests, or says the same in other words.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import multiprocessing
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.differential import volume
from tests.transcripts import runner
from tests.transcripts.model_subject import ModelSubject
from tests.transcripts.text import parse

FOLDER = Path(__file__).parent.parent.parent / "python/rota/model"
# What holds data only has nothing to change; the assignors' model has its own tests.
SKIPPED = {"__init__", "answers", "records", "requests", "assignors"}
SECONDS_MAX = 60
RUNS, RUNS_FIRST = 200, 20
TRANSCRIPTS = [run for path in runner.transcripts() for run in runner.runs(parse(path))]
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


@dataclass(frozen=True)
class Mutant:
    """One change: module, line, what was done, and the module's changed text."""

    module: str
    line: int
    what: str
    text: str


def mutants() -> Iterator[Mutant]:
    """Every mutant of every module that has rules."""
    for path in sorted(FOLDER.glob("*.py")):
        if path.stem not in SKIPPED:
            tree = ast.parse(path.read_text())
            fields = {id(node) for each in tree.body if isinstance(each, ast.ClassDef) for node in _fields(each)}
            for index, node in enumerate(ast.walk(tree)):
                if id(node) not in fields:
                    yield from _of(path.stem, tree, index, node)


def _fields(data: ast.ClassDef) -> Iterator[ast.AST]:
    """What a class has besides methods: defaults and decorators, which transcripts and runs set otherwise."""
    for each in (*data.decorator_list, *data.body):
        if not isinstance(each, ast.FunctionDef):
            yield from ast.walk(each)


def _of(module: str, tree: ast.Module, index: int, node: ast.AST) -> Iterator[Mutant]:
    """The mutants of one place."""

    def changed(what: str, change: Any) -> Mutant:
        mutated = copy.deepcopy(tree)
        place = next(each for at, each in enumerate(ast.walk(mutated)) if at == index)
        change(place)
        return Mutant(module, getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(mutated)))

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        flipped = FLIPPED[type(node.ops[0])]
        yield changed(f"`{ast.unparse(node)}` flipped", lambda place: place.ops.__setitem__(0, flipped()))
    if isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield changed(f"`{ast.unparse(node)}` and/or", lambda place: setattr(place, "op", other()))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield changed(f"`{ast.unparse(node)}` without not", lambda place: setattr(place, "op", ast.UAdd()))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield changed(f"{node.value} plus one", lambda place: setattr(place, "value", place.value + 1))
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield changed(f"{node.value} the other way", lambda place: setattr(place, "value", not place.value))
    if isinstance(node, ast.FunctionDef):
        yield from _dropped(node, changed)


def _dropped(function: ast.FunctionDef, changed: Any) -> Iterator[Mutant]:
    """Each statement left out: an assignment to the state, or a guard."""
    for at, statement in enumerate(function.body):
        state = isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "s"
        guard = isinstance(statement, ast.If) and not statement.orelse
        if (state or guard) and len(function.body) > 1:
            text = ast.unparse(statement).split("\n")[0]
            yield changed(
                f"in {function.name} without `{text}`", lambda place, at=at: place.body.__setitem__(at, ast.Pass())
            )


def notices(mutant: Mutant) -> str:
    """Who notices, in a process of its own: the transcripts, a differential run, or nobody ("")."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS_MAX)
    try:
        _install(mutant)
        if any(volume.run(seed)[1] for seed in range(RUNS_FIRST)):
            return "differential run"
        for run in TRANSCRIPTS:
            if not runner.play(run, ModelSubject(run.config)).matches:
                return f"transcript {run.name}"
        if any(volume.run(seed)[1] for seed in range(RUNS_FIRST, RUNS)):
            return "differential run"
    except Exception as error:
        return type(error).__name__
    finally:
        signal.alarm(0)
    return ""


def _too_long(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def _install(mutant: Mutant) -> None:
    """Every function of the changed module takes the place of the real one, in each module that has it by name."""
    real = importlib.import_module(f"rota.model.{mutant.module}")
    before = dict(vars(real))
    exec(compile(mutant.text, str(FOLDER / f"{mutant.module}.py"), "exec"), vars(real))  # noqa: S102 - our own text
    for key, was in before.items():
        if isinstance(was, type):
            setattr(real, key, was)  # data keeps its classes, so that isinstance goes on to hold
    for name in [each for each in sys.modules if each.startswith("rota.model")]:
        for holder in _holders(vars(sys.modules[name])):
            for key, value in list(holder.items()):
                changed = next((new for new in before if before[new] is value and callable(value)), None)
                if changed and not isinstance(value, type):
                    holder[key] = vars(real)[changed]


def _holders(names: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    """A module's names, and its tables of functions."""
    yield names
    yield from (value for key, value in list(names.items()) if isinstance(value, dict) and not key.startswith("__"))


def main() -> int:
    """Play a sample of the mutants, or all, and print the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.mutate_model", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="how many mutants, chosen by the seed (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args()
    chosen = list(mutants())
    found = len(chosen)
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, found))
    start, survivors = time.perf_counter(), []
    with multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
        for mutant, noticed in zip(chosen, pool.imap(notices, chosen, chunksize=1), strict=True):
            if not noticed:
                survivors.append(mutant)
                print(f"{mutant.module}.py:{mutant.line}: {mutant.what}", flush=True)
    killed = len(chosen) - len(survivors)
    seconds = time.perf_counter() - start
    share = 100 * killed / len(chosen)
    print(f"{killed} of {len(chosen)} mutants noticed ({share:.1f}%); {found} in all; {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
