"""Finite structures in plain Python: the same actions and properties as in Z3, computed instead of proved.

A structure gives every symbol a table over elements that may be any Python values. An action either accepts a structure
and its parameters, and gives the next one, or a requirement fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rota.specs.logic import Action, Spec, State

Element = Any


class Rejected(Exception):  # noqa: N818 - it is an outcome, not an error
    """A requirement of the action does not hold."""


class _Finite:
    """What bodies ask a context for: there are sizes, so that quantifiers are written out."""

    sizes = True


class _Table:
    """A symbol's value: what it is at some arguments, and everywhere else."""

    def __init__(self, cells: Mapping[tuple[Element, ...], Element], default: Element) -> None:
        self.cells, self.default = cells, default

    def __call__(self, *args: Element) -> Element:
        return self.cells.get(args, self.default)


class Structure(State):
    """A state whose symbols have tables. `rigid` has those of the rigid symbols, or functions."""

    def __init__(self, spec: Spec, rigid: Mapping[str, Any], defaults: Mapping[str, Element]) -> None:
        super().__init__(spec, _Finite())  # type: ignore[arg-type]
        self.__dict__["rigid"] = dict(rigid)
        self.__dict__["tables"] = {}
        self.__dict__["defaults"] = dict(defaults)
        self.__dict__["domains"] = dict.fromkeys(spec.sorts, ())
        self.__dict__["domains"]["Bool"] = (False, True)
        for name, symbol in spec.variables.items():
            self.values[name] = self._table(name, {}) if symbol.args else defaults.get(name)
        for name, symbol in spec.rigid.items():
            if symbol.args and name not in rigid:
                self.rigid[name] = {}

    def copy(self) -> Structure:
        """The same structure, to be changed."""
        twin = Structure.__new__(Structure)
        twin.__dict__.update(self.__dict__)
        twin.__dict__["values"] = dict(self.values)
        twin.__dict__["rigid"] = dict(self.rigid)
        twin.__dict__["tables"] = dict(self.tables)
        twin.__dict__["domains"] = dict(self.domains)
        return twin

    def know(self, sort: str, elements: Iterable[Element]) -> None:
        """Elements that there are from now on."""
        here = self.domains[sort]
        self.domains[sort] = (*here, *(each for each in dict.fromkeys(elements) if each not in here))

    def say(self, name: str, *args: Element, value: Element = True) -> None:
        """What a rigid symbol says of elements that were not used before."""
        self.rigid[name] = {**self.rigid[name], args: value}

    def _table(self, name: str, table: Mapping[tuple[Element, ...], Element]) -> _Table:
        return _Table(table, self._default(name))

    def _rigid_table(self, name: str, cells: Mapping[tuple[Element, ...], Element]) -> _Table:
        """The table of a rigid symbol, kept until it has other cells."""
        table: _Table | None = self.tables.get(name)
        if table is None or table.cells is not cells:
            table = self.tables[name] = self._table(name, cells)
        return table

    def _default(self, name: str) -> Element:
        symbol = self.spec.variables.get(name) or self.spec.rigid[name]
        return False if symbol.result == "Bool" else self.defaults.get(name)

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.rigid:
            known = self.rigid[name]
            return self._rigid_table(name, known) if isinstance(known, dict) else known
        if any(name in words for words in self.spec.enums.values()):
            return name
        raise AttributeError(f"{self.spec.name} has no `{name}`")

    def __setattr__(self, name: str, value: Any) -> None:
        symbol = self.spec.variables[name]
        if symbol.args:
            default = self._default(name)
            cells = ((args, value(*args)) for args in self.tuples(symbol.args))
            self.values[name] = self._table(name, {args: cell for args, cell in cells if cell != default})
        else:
            self.values[name] = value

    def add(self, name: str, *args: Element) -> None:
        """Put one tuple into a relation: as any state does it, without a look at the other tuples."""
        old = getattr(self, name)
        if not isinstance(old, _Table):
            super().add(name, *args)
        elif self._has(name, args):
            self.values[name] = self._table(name, {**old.cells, args: True})

    def drop(self, name: str, *args: Element) -> None:
        """Take one tuple out of a relation: as any state does it, without a look at the other tuples."""
        old = getattr(self, name)
        if not isinstance(old, _Table):
            super().drop(name, *args)
        elif args in old.cells:
            self.values[name] = self._table(name, {at: cell for at, cell in old.cells.items() if at != args})

    def clear(self, *names: str) -> None:
        """Empty relations; flags become false."""
        for name in names:
            self.values[name] = self._table(name, {}) if self.spec.variables[name].args else False

    def _has(self, name: str, args: tuple[Element, ...]) -> bool:
        """Whether these are elements that there are."""
        sorts = self.spec.variables[name].args
        return all(at in self.domains[sort] for sort, at in zip(sorts, args, strict=True))

    def tuples(self, sorts: Iterable[str]) -> Iterable[tuple[Element, ...]]:
        """All tuples of elements of these sorts."""
        return itertools.product(*(self.domains[sort] for sort in sorts))

    def relation(self, name: str) -> set[tuple[Element, ...]]:
        """The tuples that are in a relation."""
        return {args for args, cell in getattr(self, name).cells.items() if cell}

    def require(self, condition: Any, label: str = "") -> None:
        """The action is rejected if this does not hold."""
        if condition is not True:
            raise Rejected(label)

    def all(self, sorts: str, formula: Callable[..., Any]) -> bool:
        """For all elements of these sorts."""
        return all(formula(*at) for at in self.tuples(sorts.split()))

    def some(self, sorts: str, formula: Callable[..., Any]) -> bool:
        """For some elements of these sorts."""
        return any(formula(*at) for at in self.tuples(sorts.split()))

    def fix(self, name: str, key: Element, content: Any) -> None:
        """What a rigid symbol says about `key`, which has not been used before."""
        symbol = self.spec.rigid[name]
        if len(symbol.args) == 1:
            self.say(name, key, value=content)
            return
        cells = {(key, *rest): content(*rest) for rest in self.tuples(symbol.args[1:])}
        self.rigid[name] = {**self.rigid[name], **cells}


def take(before: Structure, action: Action, params: Mapping[str, Element]) -> Structure:
    """The structure after an action; raises `Rejected`. It needs all its parameters."""
    after = before.copy()
    action.body(after, *(params[name] for name in action.params))
    return after
