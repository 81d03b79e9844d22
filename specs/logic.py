"""A small language for protocols over any number of members, and the obligations that prove them.

A specification has sorts (unbounded sets), *rigid* relations and functions (fixed for ever: who has which instance id,
what a record says), state variables, actions and properties. An action is ordinary Python that reads and assigns the
variables of a state; what it does not assign is unchanged, so nobody types frame conditions. Formulas stay in the
decidable fragment as long as quantifier alternations follow the order in which the sorts were declared;
`Spec.misordered` looks at every formula that is handed to Z3.

Obligations: *initiation* (the initial state has the property), *consecution* (an action keeps it, if all invariants
held before), *satisfiability* (an action can happen under the invariants), *necessity* (without the invariant some
obligation fails). `docs/proofs.md` has a worked example.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import z3

Formula = Any  # a z3 expression or, where it is already decided, a bool
Term = Any

LIMIT_MS = 60_000


# ---- connectives: they fold what is decided, and work on plain bools as well (specs/structures.py)


def And(*parts: Formula) -> Formula:  # noqa: N802 - the names of logic, as z3 writes them
    """Conjunction."""
    if any(part is False for part in parts):
        return False
    open_parts = [part for part in parts if part is not True]
    return True if not open_parts else open_parts[0] if len(open_parts) == 1 else z3.And(*open_parts)


def Or(*parts: Formula) -> Formula:  # noqa: N802
    """Disjunction."""
    if any(part is True for part in parts):
        return True
    open_parts = [part for part in parts if part is not False]
    return False if not open_parts else open_parts[0] if len(open_parts) == 1 else z3.Or(*open_parts)


def Not(part: Formula) -> Formula:  # noqa: N802
    """Negation."""
    return (not part) if isinstance(part, bool) else z3.Not(part)


def Implies(premise: Formula, conclusion: Formula) -> Formula:  # noqa: N802
    """Implication."""
    return Or(Not(premise), conclusion) if isinstance(premise, bool) or isinstance(conclusion, bool) else z3.Implies(
        premise, conclusion
    )


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
    init: Callable[[Any], None] = lambda state: None
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
                edges |= set(_alternations(formula, True, ()))
        rank = {sort: place for place, sort in enumerate(self.sorts)}
        return sorted(f"{a} -> {b}" for a, b in edges if rank[a] >= rank[b])


def _alternations(formula: Any, positive: bool, universals: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The edges that Skolemisation of a formula, asserted or denied, makes."""
    if z3.is_quantifier(formula):
        sorts = tuple(formula.var_sort(i).name() for i in range(formula.num_vars()))
        if formula.is_forall() == positive:
            universals += sorts
        else:
            yield from itertools.product(universals, sorts)
        yield from _alternations(formula.body(), positive, universals)
        return
    children = formula.children()
    if z3.is_not(formula):
        yield from _alternations(children[0], not positive, universals)
    elif z3.is_implies(formula):
        yield from _alternations(children[0], not positive, universals)
        yield from _alternations(children[1], positive, universals)
    elif z3.is_and(formula) or z3.is_or(formula):
        for child in children:
            yield from _alternations(child, positive, universals)
    else:  # equality of formulas, if-then-else: both ways
        for child in children:
            if z3.is_bool(child) or z3.is_quantifier(child):
                yield from _alternations(child, True, universals)
                yield from _alternations(child, False, universals)


class State:
    """A symbolic state: every variable a formula over the state before. Reading gives the value, assigning replaces it."""

    def __init__(self, spec: Spec, context: Context | None = None) -> None:
        self.__dict__["spec"] = spec
        self.__dict__["context"] = context or Context(spec)
        self.__dict__["values"] = {}
        self.__dict__["required"] = []
        self.__dict__["dropped"] = ()

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

    def applied(self, name: str, args: Iterable[Term]) -> Term:
        """The value of a variable at arguments, also for those without arguments."""
        value = getattr(self, name)
        return value(*args) if self.spec.variables[name].args else value


class Context:
    """The Z3 symbols of a specification, and bound variables with repeatable names. With `sizes` every sort has just so
    many elements and quantifiers are written out: that proves nothing, but finds models quickly."""

    def __init__(self, spec: Spec, sizes: Mapping[str, int] | None = None) -> None:
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
            declared = z3.Function(symbol.name, *arguments, result) if arguments else z3.Const(symbol.name, result)
            self.symbols[symbol.name] = declared
        self.invariants: dict[Property, Formula] = {}
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

    def invariant(self, prop: Property, before: State) -> Formula:
        """The invariant before the step; the same for every step, so that it is made once if that takes long."""
        if not self.sizes:
            return prop.holds(before)
        if prop not in self.invariants:
            self.invariants[prop] = prop.holds(before)
        return self.invariants[prop]

    def bound(self, sorts: str) -> list[Any]:
        """New variables, to be bound by a quantifier."""
        self.count += 1
        return [z3.Const(f"{sort[0].lower()}!{self.count}.{i}", self.sorts[sort]) for i, sort in enumerate(sorts.split())]

    def parameters(self, action: Action, at: str = "") -> list[Any]:
        """The parameters of an action: constants, or a set of elements for `Sort?`."""
        made = []
        for name, kind in action.params.items():
            word = f"{action.name}.{name}{at}"
            sort = self.sorts[kind.rstrip("?")]
            made.append(z3.Function(word, sort, z3.BoolSort()) if kind.endswith("?") else z3.Const(word, sort))
        return made


_CONTEXTS: dict[tuple[str, tuple[tuple[str, int], ...]], Context] = {}


def _context(spec: Spec, sizes: tuple[tuple[str, int], ...]) -> Context:
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


# ---- obligations


@dataclass(frozen=True)
class Result:
    """The outcome of one obligation. `verdict`: proved, framed (nothing it speaks of changed), refuted or unknown."""

    kind: str
    action: str
    property: str
    verdict: str
    seconds: float = 0.0
    shown: str = ""

    @property
    def good(self) -> bool:
        """Whether the obligation is met."""
        return self.verdict in ("proved", "framed")


@dataclass
class Step:
    """An action on an arbitrary state that has the invariants: before, after, parameters, and what is assumed."""

    spec: Spec
    action: Action
    before: State
    after: State
    params: list[Any]
    assumed: dict[str, Formula]

    @classmethod
    def of(cls, spec: Spec, action: Action, dropped: Iterable[str] = (), sizes: Mapping[str, int] | None = None) -> Step:
        """Without the requirements that have these labels."""
        before = State(spec, _context(spec, tuple((sizes or {}).items())))
        before.context.count = 0
        assumed = {f"axiom {i}": axiom(before) for i, axiom in enumerate(spec.axioms)}
        assumed |= {p.name: before.context.invariant(p, before) for p in spec.properties.values() if not p.steps}
        after, params = before.copy(), before.context.parameters(action)
        after.__dict__["dropped"] = tuple(dropped)
        action.body(after, *params)
        assumed |= {f"requirement {i}": part for i, part in enumerate(after.required)}
        return cls(spec, action, before, after, params, {name: part for name, part in assumed.items() if part is not True})

    def solver(self, without: str = "") -> Any:
        """A solver that has the assumptions, but for one."""
        solver = z3.Solver()
        solver.add(*(part for name, part in self.assumed.items() if name != without))
        return solver

    def goal(self, prop: Property) -> Formula:
        """What has to hold after the step; True if nothing that it speaks of changed."""
        if prop.steps:
            return prop.holds(self.before, self.after, self.action)
        self.before.context.count = 1_000_000  # the same names twice, so that what is unchanged looks unchanged
        earlier = prop.holds(self.before)
        self.before.context.count = 1_000_000
        later = prop.holds(self.after)
        same = not isinstance(later, bool) and not isinstance(earlier, bool) and later.eq(earlier)
        return True if same else later


def verdict_of(answer: Any, wanted: Any) -> str:
    """The verdict for Z3's answer where `wanted` meets the obligation."""
    return "proved" if answer == wanted else "unknown" if answer == z3.unknown else "refuted"


def prove(step: Step, properties: Iterable[Property], limit_ms: int = LIMIT_MS) -> Iterator[Result]:
    """Consecution of each property."""
    solver = step.solver()
    solver.set("timeout", limit_ms)
    for prop in properties:
        began = time.perf_counter()
        goal = step.goal(prop)
        if goal is True:
            yield Result("consecution", step.action.name, prop.name, "framed")
            continue
        solver.push()
        solver.add(Not(goal))
        verdict = verdict_of(solver.check(), z3.unsat)
        solver.pop()
        yield Result("consecution", step.action.name, prop.name, verdict, time.perf_counter() - began)


def possible(step: Step) -> Result:
    """Satisfiability: the action can happen; to be asked of a finite step."""
    began = time.perf_counter()
    verdict = verdict_of(step.solver().check(), z3.sat)
    return Result("satisfiability", step.action.name, "", verdict, time.perf_counter() - began)


def refute(step: Step, properties: Iterable[Property], without: str = "") -> Iterator[tuple[Property, str]]:
    """The properties that a finite step breaks, each with a counter-example to induction."""
    solver = step.solver(without)
    for prop in properties:
        goal = step.goal(prop)
        if goal is not True:
            solver.push()
            solver.add(Not(goal))
            if solver.check() == z3.sat:
                yield prop, counter_example(step, solver.model(), prop)
            solver.pop()


def runs(spec: Spec, actions: Iterable[str], sizes: Mapping[str, int]) -> list[str] | None:
    """A run of these actions from the initial state, as a list of events with their parameters; None if there is none."""
    state = State(spec, Context(spec, sizes))
    for axiom in spec.axioms:
        state.require(axiom(state))
    spec.init(state)
    taken = []
    for place, name in enumerate(actions):
        params = state.context.parameters(spec.actions[name], f"@{place}")
        spec.actions[name].body(state, *params)
        taken.append((spec.actions[name], params))
    solver = z3.Solver()
    solver.add(*(part for part in state.required if part is not True))
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    return [f"{place + 1}. {event_line(action, params, model)}" for place, (action, params) in enumerate(taken)]


def event_line(action: Action, params: list[Any], model: Any) -> str:
    """The action with its parameters."""
    given = [
        f"{name}={str(model.eval(value, model_completion=True)).partition('/')[0]}"
        for name, value in zip(action.params, params, strict=True)
        if z3.is_expr(value)
    ]
    return f"{action.name}({', '.join(given)})"


def initiation(spec: Spec, limit_ms: int = LIMIT_MS) -> Iterator[Result]:
    """The initial state has every invariant."""
    state = State(spec)
    axioms = [axiom(state) for axiom in spec.axioms]
    spec.init(state)
    for prop in spec.properties.values():
        if not prop.steps:
            began = time.perf_counter()
            solver = z3.Solver()
            solver.set("timeout", limit_ms)
            solver.add(*axioms, *state.required, Not(prop.holds(state)))
            yield Result("initiation", "init", prop.name, verdict_of(solver.check(), z3.unsat), time.perf_counter() - began)


# ---- counter-examples


def counter_example(step: Step, model: Any, prop: Property) -> str:
    """A counter-example to induction: a small table of the state, the event, and what it broke."""
    spec, context = step.spec, step.before.context
    universe = context.elements

    def read(term: Term) -> str:
        return str(term if isinstance(term, bool) else model.eval(term, model_completion=True)).partition("/")[0]

    lines = ["before, where every invariant holds   (-> what the event makes of it)"]
    for symbol in [*spec.rigid.values(), *spec.variables.values()]:
        tuples = list(itertools.product(*(universe[arg] for arg in symbol.args)))
        cells = []
        for at in tuples:
            if symbol.name in spec.rigid:
                told = read(context.symbols[symbol.name](*at) if at else context.symbols[symbol.name])
                later = told
            else:
                told, later = (read(state.applied(symbol.name, at)) for state in (step.before, step.after))
            where = " ".join(map(read, at))
            if symbol.result != "Bool" or not at:
                cells.append(f"{where}{': ' if where else ''}{told}" + (f" -> {later}" if later != told else ""))
            elif "True" in (told, later):
                cells.append({"TrueTrue": "", "FalseTrue": "+", "TrueFalse": "-"}[told + later] + f"({where})")
        if cells and cells != ["False"]:
            lines.append(f"  {symbol.name:<14} {', '.join(cells)}")
    lines += [f"event  {event_line(step.action, step.params, model)}", f"broken {prop.name}: {prop.says}"]
    return "\n".join(lines)
