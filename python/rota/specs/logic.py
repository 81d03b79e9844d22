"""A small language for protocols over any number of members, and the obligations that prove them.

A specification has sorts (unbounded sets), *rigid* relations and functions (fixed for ever: who has which instance id,
what a record says), state variables, actions and properties. An action is ordinary Python that reads and assigns the
variables of a state; what it does not assign is unchanged, so frame conditions are not written. Formulas stay in the
decidable fragment as long as quantifier alternations follow the order in which the sorts were declared;
`Spec.misordered` looks at every formula that is handed to Z3.

`obligations.py` has what is proved of a specification; `docs/proofs.md` has a worked example.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from operator import and_, or_
from typing import Any

import z3

Formula = Any  # a z3 expression or, where it is already decided, a bool
Term = Any


# ---- connectives: they fold what is decided, and work on plain bools (structures.py) and on arrays of bools


def And(*parts: Formula) -> Formula:  # noqa: N802 - the names of logic, as z3 writes them
    """Conjunction."""
    if any(part is False for part in parts):
        return False
    open_parts = [part for part in parts if part is not True]
    return True if not open_parts else _joined(z3.And, and_, open_parts)


def Or(*parts: Formula) -> Formula:  # noqa: N802
    """Disjunction."""
    if any(part is True for part in parts):
        return True
    open_parts = [part for part in parts if part is not False]
    return False if not open_parts else _joined(z3.Or, or_, open_parts)


def _joined(formula: Callable[..., Formula], of_arrays: Callable[[Any, Any], Any], parts: list[Formula]) -> Formula:
    if len(parts) == 1:
        return parts[0]
    return formula(*parts) if z3.is_expr(parts[0]) else reduce(of_arrays, parts)


def Not(part: Formula) -> Formula:  # noqa: N802
    """Negation."""
    return (not part) if isinstance(part, bool) else z3.Not(part) if z3.is_expr(part) else ~part


def Implies(premise: Formula, conclusion: Formula) -> Formula:  # noqa: N802
    """Implication."""
    if z3.is_expr(premise) and z3.is_expr(conclusion):
        return z3.Implies(premise, conclusion)
    return Or(Not(premise), conclusion)


def Iff(left: Formula, right: Formula) -> Formula:  # noqa: N802
    """Equivalence."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, bool):
            return other if one else Not(other)
    return left == right


def If(condition: Formula, then: Term, otherwise: Term) -> Term:  # noqa: N802
    """One of two terms."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return z3.If(condition, then, otherwise)


# ---- specifications


@dataclass(frozen=True)
class Symbol:
    """A relation (`result` is `Bool`) or function over sorts; without arguments a flag or a constant."""

    name: str
    args: tuple[str, ...]
    result: str = "Bool"


@dataclass(frozen=True)
class Action:
    """One event. `body(state, *parameters)` requires and assigns; `tags` are words that properties may look at."""

    name: str
    params: dict[str, str]
    body: Callable[..., None]
    tags: frozenset[str] = frozenset()
    says: str = ""


@dataclass(frozen=True)
class Property:
    """An invariant (`holds(state)`) or, with `steps`, a property of steps (`holds(before, after, action)`)."""

    name: str
    holds: Callable[..., Formula]
    says: str = ""
    source: str = ""
    steps: bool = False
    auxiliary: bool = False


@dataclass
class Spec:
    """Sorts in their order, symbols, axioms about the rigid ones, the initial state, actions and properties."""

    name: str
    sorts: list[str] = field(default_factory=list)
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rigid: dict[str, Symbol] = field(default_factory=dict)
    variables: dict[str, Symbol] = field(default_factory=dict)
    axioms: list[Callable[[Any], Formula]] = field(default_factory=list)
    init: Callable[[Any], None] = lambda _: None
    actions: dict[str, Action] = field(default_factory=dict)
    properties: dict[str, Property] = field(default_factory=dict)

    def symbols(self, rigid: bool, declarations: str) -> None:
        """Declare symbols, one a line: `name: Sort Sort -> Result`, or `name: Sort` for a relation."""
        for line in filter(None, (text.partition("#")[0].strip() for text in declarations.splitlines())):
            names, _, kind = line.partition(":")
            args, arrow, result = kind.partition("->")
            for name in names.split(","):
                symbol = Symbol(name.strip(), tuple(args.split()), result.strip() if arrow else "Bool")
                (self.rigid if rigid else self.variables)[symbol.name] = symbol

    def act(self, name: str, body: Callable[..., None], tags: str = "", says: str = "", **params: str) -> None:
        """Add an action."""
        self.actions[name] = Action(name, params, body, frozenset(tags.split()), says or (body.__doc__ or "").strip())

    def misordered(self, formulas: Iterable[Formula]) -> list[str]:
        """Alternations `T -> S` (for every T there is an S) that go against the order of the sorts."""
        edges = {
            (arg, symbol.result)
            for symbol in [*self.rigid.values(), *self.variables.values()]
            for arg in symbol.args
            if symbol.result in self.sorts
        }
        for formula in formulas:
            if not isinstance(formula, bool):
                edges |= set(_alternations(formula, True, (), set()))
        rank = {sort: place for place, sort in enumerate(self.sorts)}
        return sorted(f"{a} -> {b}" for a, b in edges if rank[a] >= rank[b])


def _alternations(
    formula: Any, positive: bool, universals: tuple[str, ...], seen: set[tuple[Any, ...]]
) -> Iterator[tuple[str, str]]:
    """The edges that Skolemisation of a formula, asserted or denied, makes. Its parts are shared: each is seen once."""
    key = (formula.get_id(), positive, universals)
    if key in seen:
        return
    seen.add(key)
    if z3.is_quantifier(formula):
        sorts = tuple(formula.var_sort(i).name() for i in range(formula.num_vars()))
        if formula.is_forall() == positive:
            universals = tuple(dict.fromkeys((*universals, *sorts)))
        else:
            yield from itertools.product(universals, sorts)
        yield from _alternations(formula.body(), positive, universals, seen)
        return
    children = formula.children()
    if z3.is_not(formula):
        yield from _alternations(children[0], not positive, universals, seen)
    elif z3.is_implies(formula):
        yield from _alternations(children[0], not positive, universals, seen)
        yield from _alternations(children[1], positive, universals, seen)
    elif z3.is_and(formula) or z3.is_or(formula):
        for child in children:
            yield from _alternations(child, positive, universals, seen)
    else:  # equality of formulas, if-then-else: both ways
        for child in children:
            if z3.is_bool(child) or z3.is_quantifier(child):
                yield from _alternations(child, True, universals, seen)
                yield from _alternations(child, False, universals, seen)


class State:
    """A symbolic state: every variable a formula over the state before. What is assigned replaces it."""

    def __init__(self, spec: Spec, context: Context | None = None) -> None:
        self.__dict__["spec"] = spec
        self.__dict__["context"] = context or Context(spec)
        self.__dict__["values"] = {}
        self.__dict__["required"] = []
        self.__dict__["dropped"] = ()
        self.__dict__["spoil"] = None

    def copy(self) -> State:
        """The same state, to be changed."""
        twin = State(self.spec, self.context)
        twin.values.update(self.values)
        return twin

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        return self.context.value(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.spec.variables:
            raise AttributeError(f"{self.spec.name} has no variable `{name}`")
        args = self.spec.variables[name].args
        if args:  # evaluated now, so that later assignments do not change what it reads
            holes = [z3.Const(f"@{place}", self.context.sorts[arg]) for place, arg in enumerate(args)]
            body = value(*holes)
            if isinstance(body, bool):
                self.values[name] = lambda *_: body
            else:
                self.values[name] = lambda *at: z3.substitute(body, *zip(holes, at, strict=True))
            return
        self.values[name] = value

    def require(self, condition: Formula, label: str = "") -> None:
        """The action happens only if this holds (after the assignments so far). Bugs are planted by label."""
        if not label or label not in self.dropped:
            self.required.append(condition)

    def all(self, sorts: str, formula: Callable[..., Formula]) -> Formula:
        """For all elements of these sorts."""
        if self.context.sizes:
            return And(*(formula(*at) for at in self.context.tuples(sorts.split())))
        bound = self.context.bound(sorts)
        body = formula(*bound)
        return body if isinstance(body, bool) else z3.ForAll(bound, body)

    def some(self, sorts: str, formula: Callable[..., Formula]) -> Formula:
        """For some elements of these sorts."""
        if self.context.sizes:
            return Or(*(formula(*at) for at in self.context.tuples(sorts.split())))
        bound = self.context.bound(sorts)
        body = formula(*bound)
        return body if isinstance(body, bool) else z3.Exists(bound, body)

    def fix(self, name: str, key: Term, content: Callable[..., Term] | Term) -> None:
        """Require what a rigid symbol says about `key`, which has not been used before."""
        symbol = self.spec.rigid[name]
        if len(symbol.args) == 1:
            self.require(getattr(self, name)(key) == content)
        else:
            rest = " ".join(symbol.args[1:])
            same = Iff if symbol.result == "Bool" else lambda a, b: a == b
            self.require(self.all(rest, lambda *args: same(getattr(self, name)(key, *args), content(*args))))

    def put(self, name: str, change: Callable[..., Term]) -> None:
        """Assign `change(old value at the arguments, *arguments)` everywhere."""
        old = getattr(self, name)
        setattr(self, name, lambda *args: change(old(*args), *args))

    def add(self, name: str, *args: Term) -> None:
        """Put one tuple into a relation."""
        self.put(name, lambda old, *at: Or(old, And(*(a == b for a, b in zip(at, args, strict=True)))))

    def drop(self, name: str, *args: Term) -> None:
        """Take one tuple out of a relation."""
        self.put(name, lambda old, *at: And(old, Not(And(*(a == b for a, b in zip(at, args, strict=True))))))

    def clear(self, *names: str) -> None:
        """Empty relations; flags become false."""
        for name in names:
            setattr(self, name, (lambda *_: False) if self.spec.variables[name].args else False)

    def draft(self, content: Spec, at: Term) -> State:
        """What the rigid symbols that `content` declares as variables say about `at`, to be changed. Its requirements
        are those of this state.
        """
        draft = self.copy()
        for name in ("required", "dropped"):
            draft.__dict__[name] = self.__dict__[name]
        draft.__dict__["spec"] = content
        for name, symbol in content.variables.items():
            rigid = getattr(self, name)
            draft.values[name] = partial(rigid, at) if symbol.args else rigid(at)
        return draft

    def applied(self, name: str, args: Iterable[Term]) -> Term:
        """The value of a variable at arguments, also for those without arguments."""
        value = getattr(self, name)
        return value(*args) if self.spec.variables[name].args else value


class _Read(State):
    """A state that remembers which symbols were asked for."""

    def __init__(self, spec: Spec, context: Context) -> None:
        super().__init__(spec, context)
        self.__dict__["names"] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getattr__(name)


class Context:
    """The Z3 symbols of a specification, and bound variables with repeatable names. With `sizes` every sort has just so
    many elements and quantifiers are written out: that proves nothing, but finds models quickly."""

    def __init__(self, spec: Spec, sizes: Mapping[str, int] | None = None, primed: bool = False) -> None:
        self.spec = spec
        self.sizes = sizes or {}
        self.sorts: dict[str, Any] = {"Bool": z3.BoolSort()}
        self.elements: dict[str, list[Any]] = {}
        for name in spec.sorts:
            if sizes:
                words = tuple(f"{name}{i}/{sizes[name]}" for i in range(sizes[name]))
                self.sorts[name], self.elements[name] = enumeration(f"{spec.name}.{name}.{sizes[name]}", words)
            else:
                self.sorts[name] = z3.DeclareSort(name)
        self.members: dict[str, Any] = {}
        for enum, words in spec.enums.items():
            self.sorts[enum], constants = enumeration(f"{spec.name}.{enum}", words)
            self.members |= dict(zip(words, constants, strict=True))
        self.symbols: dict[str, Any] = {}
        for symbol in [*spec.rigid.values(), *spec.variables.values()]:
            result = self.sorts[symbol.result]
            arguments = [self.sorts[arg] for arg in symbol.args]
            name = symbol.name + "'" * (primed and symbol.name in spec.variables)
            declared = z3.Function(name, *arguments, result) if arguments else z3.Const(name, result)
            self.symbols[symbol.name] = declared
        self.invariants: dict[Property, Formula] = {}
        self.reads: dict[Property, frozenset[str]] = {}  # the symbols that invariants speak of
        self.count = 0

    def value(self, name: str) -> Any:
        """A symbol or a word of an enumeration."""
        try:
            return self.symbols[name] if name in self.symbols else self.members[name]
        except KeyError:
            raise AttributeError(f"{self.spec.name} has no `{name}`") from None

    def tuples(self, sorts: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """All tuples of elements of these sorts, which are finite."""
        return itertools.product(*(self.elements[sort] for sort in sorts))

    def invariant(self, prop: Property) -> Formula:
        """The invariant before a step: it is the same for every step, and made once."""
        if prop not in self.invariants:
            before = _Read(self.spec, self)
            self.invariants[prop] = prop.holds(before)
            self.reads[prop] = frozenset(before.names)
        return self.invariants[prop]

    def bound(self, sorts: str) -> list[Any]:
        """New variables, to be bound by a quantifier."""
        self.count += 1
        return [
            z3.Const(f"{sort[0].lower()}!{self.count}.{i}", self.sorts[sort]) for i, sort in enumerate(sorts.split())
        ]

    def parameters(self, action: Action, at: str = "") -> list[Any]:
        """The parameters of an action: constants, or a set of elements for `Sort?`."""
        made = []
        for name, kind in action.params.items():
            word = f"{action.name}.{name}{at}"
            sort = self.sorts[kind.rstrip("?")]
            made.append(z3.Function(word, sort, z3.BoolSort()) if kind.endswith("?") else z3.Const(word, sort))
        return made


_CONTEXTS: dict[tuple[str, tuple[tuple[str, int], ...]], Context] = {}


def context_of(spec: Spec, sizes: tuple[tuple[str, int], ...]) -> Context:
    """One context for all steps of a specification."""
    key = (spec.name, sizes)
    if key not in _CONTEXTS:
        _CONTEXTS[key] = Context(spec, dict(sizes))
    return _CONTEXTS[key]


@cache
def enumeration(name: str, words: tuple[str, ...]) -> tuple[Any, list[Any]]:
    """An enumeration and its words; Z3 wants each declared once."""
    made: tuple[Any, list[Any]] = z3.EnumSort(name, words)
    return made
