"""Planted bugs in the arithmetic of the wheel and of assignors, and checks that the certifier forgets: each makes some
claim false. `mutants.py` has the bugs of the protocol.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import z3

from rota.specs import assignors, wheel
from rota.specs.logic import Or, State, Term
from rota.specs.obligations import Result
from rota.specs.planting import Mutant, killers
from rota.specs.wheel import LEVEL_BITS, LEVELS, Bits, Word, shift

SIZES = {"Topic": 2, "Partition": 2, "Member": 2, "Load": 2}
Broken = dict[str, str]


@dataclass(frozen=True)
class ArithmeticBug:
    """A planted bug in arithmetic.

    `breaks` returns the claims that are false with it, each with an example. Given names, it leaves out other claims
    of the wheel.
    """

    name: str
    says: str
    breaks: Callable[[Collection[str] | None], Broken]


ARITHMETIC_BUGS: list[ArithmeticBug] = []


@contextmanager
def replaced(module: ModuleType, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    """Other functions in the place of a module's."""
    real = {name: getattr(module, name) for name in functions}
    vars(module).update(functions)
    try:
        yield
    finally:
        vars(module).update(real)


def refuted(results: Iterator[Result], prefix: str = "") -> Broken:
    """The claims that are false."""
    return {prefix + result.claim: result.shown for result in results if result.verdict == "refuted"}


Formulas = dict[tuple[str, int], Any]


def formulas() -> Formulas:
    """What the wheel claims, by claim and level."""
    claims = wheel.CLAIMS.items()
    return {(name, level): claim(level, wheel.words()) for name, claim in claims for level in range(LEVELS)}


proved = functools.cache(formulas)
"""Those of the wheel without a bug, if this is called without one."""


def refuted_in_wheel(only: Collection[str] | None, holds: Formulas) -> Broken:
    """The claims that are false, each at its first such level. What equals a formula that holds is not proved again."""
    broken: Broken = {}
    for (name, level), formula in formulas().items():
        claim = f"wheel: {name}"
        if claim in broken or (only is not None and claim not in only) or formula.eq(holds[name, level]):
            continue
        broken |= refuted(iter([wheel.decide(name, level, formula)]), "wheel: ")
    return broken


def in_wheel(name: str, says: str, **wrong: Callable[..., Any]) -> None:
    """Plant a bug in functions of the wheel."""

    def breaks(only: Collection[str] | None = None) -> Broken:
        holds = proved()
        with replaced(wheel, wrong):
            return refuted_in_wheel(only, holds)

    ARITHMETIC_BUGS.append(ArithmeticBug(name, says, breaks))


def in_assignors(name: str, says: str, **wrong: Callable[..., Any]) -> None:
    """Plant a bug in functions of range and round-robin."""

    def breaks(_: Collection[str] | None = None) -> Broken:
        with replaced(assignors, wrong):
            return refuted(assignors.check_arithmetic())

    ARITHMETIC_BUGS.append(ArithmeticBug(name, says, breaks))


def in_certifier(name: str, says: str, where: str, *dropped: str, then: Callable[..., None] | None = None) -> None:
    """Plant a bug in an action of the certifier."""
    mutant = Mutant(name, says, (where,), dropped, then)

    def breaks(_: Collection[str] | None = None) -> Broken:
        return {f"certifier: {claim}": shown for claim, shown in killers(assignors.certifier(), mutant, SIZES).items()}

    ARITHMETIC_BUGS.append(ArithmeticBug(name, says, breaks))


# ---- the wheel


def signed_level(_: Any, now: Word, deadline: Word) -> Word:
    """The level by signed comparisons."""

    class Signed(Bits):
        @staticmethod
        def below(a: Word, b: Word) -> Any:
            return a < b

    return _level_of(Signed, now, deadline)


def coarser_level(at: Any, now: Word, deadline: Word) -> Word:
    """A level too coarse, where there is one."""
    level = _level_of(at, now, deadline)
    return at.choose(at.below(level, at.word(LEVELS - 1)), level + at.word(1), level)


def reached_but(last: Callable[[Any, Word, int], Word], then: Callable[[Word, Word], Word]) -> Callable[..., Word]:
    """The slots that time reaches, with another answer for one of them."""

    def slots_reached(at: Any, earlier: Word, later: Word, level: int, word: Word) -> Word:
        right = _slots_reached(at, earlier, later, level, word)
        slot = last(at, later, level) & at.word(wheel.slots(level) - 1)
        mine = z3.And(
            at.right(slot, LEVEL_BITS) == word, at.right(earlier, shift(level)) != at.right(later, shift(level))
        )
        return at.choose(mine, then(right, at.left(at.word(1), slot & at.word(63))), right)

    return slots_reached


def rounds_forgotten(at: Any, earlier: Word, later: Word, level: int, word: Word) -> Word:
    """As if time had gone round the level less than once."""
    whole = at.word((wheel.slots(level) << shift(level)) - 1 & wheel.ALL)
    within = later - ((later - earlier) & ~whole)
    return _slots_reached(at, earlier, within, level, word)


_level_of, _slots_reached = wheel.level_of, wheel.slots_reached

in_wheel("signed level", "instants are compared as if they had a sign", level_of=signed_level)
in_wheel("level too coarse", "an entry is linked one level too high", level_of=coarser_level)
in_wheel(
    "slot of the level above",
    "the slot is taken from the bits of the next level",
    slot_of=lambda at, instant, level: at.right(instant, shift(level + 1)) & at.word(wheel.slots(level) - 1),
)
in_wheel(
    "slot without a mask",
    "the slot keeps the bits of coarser levels",
    slot_of=lambda at, instant, level: at.right(instant, shift(level)),
)
in_wheel(
    "turn forgotten",
    "a slot's start leaves out which turn of its level it is in",
    slot_start=lambda at, _, level, slot: at.left(slot, shift(level)),
)
in_wheel(
    "start of the time's slot",
    "the time's own slot starts with it, and not when the level has gone round",
    slot_start=lambda at, now, level, slot: at.left(
        at.right(now, shift(level)) + ((slot - at.right(now, shift(level))) & at.word(wheel.slots(level) - 1)),
        shift(level),
    ),
)
in_wheel(
    "slots counted from the time",
    "a slot's number is taken for how far away it is",
    slot_start=lambda at, now, level, slot: at.left(at.right(now, shift(level)) + at.word(1) + slot, shift(level)),
)
in_wheel(
    "a slot too few",
    "time stops before the last slot that it reached",
    slots_reached=reached_but(lambda at, later, level: wheel.slot_of(at, later, level), lambda bits, bit: bits & ~bit),
)
in_wheel(
    "a slot too many",
    "time empties the slot after the last that it reached",
    slots_reached=reached_but(
        lambda at, later, level: wheel.slot_of(at, later, level) + at.word(1), lambda bits, bit: bits | bit
    ),
)
in_wheel(
    "a slot looked past",
    "the next slot of a level is taken for the one after it",
    next_start=lambda at, now, level: at.left(at.right(now, shift(level)) + at.word(2), shift(level)),
)
in_wheel("rounds forgotten", "time that goes round a level empties it as if it had not", slots_reached=rounds_forgotten)
in_wheel(
    "words alike",
    "the words of a wide level are taken for its first",
    slots_from=lambda at, slot, _: at.left(at.word(wheel.ALL), slot & at.word(63)),
)


# ---- range and round-robin

in_assignors("remainder forgotten", "range starts as if no member had one more", range_start=lambda k, q, _: k * q)
in_assignors("no member has one more", "range gives the remainder to no member", range_length=lambda _k, q, _r: q)
in_assignors("everybody has one more", "range gives one more to everybody", range_length=lambda _k, q, _r: q + 1)
in_assignors(
    "remainder to the first",
    "range gives the whole remainder to the first member",
    range_start=lambda k, q, r: k * q + z3.If(k > 0, r, 0),
    range_length=lambda k, q, r: q + z3.If(k == 0, r, 0),
)
in_assignors(
    "remainder not carried on",
    "range forgets the remainder once no member has one more",
    range_start=lambda k, q, r: k * q + z3.If(k < r, k, 0),
)
in_assignors("no next round", "round-robin goes on after the last member", next_turn=lambda turn, _: turn + 1)
in_assignors(
    "a member skipped",
    "round-robin begins later rounds with the second member",
    next_turn=lambda turn, m: z3.If(turn + 1 == m, 1, turn + 1),
)
in_assignors("round not counted", "round-robin forgets that a round is over", next_full=lambda full, _turn, _m: full)
in_assignors(
    "turn counted early", "whose turn it is has a partition before", turn_load=lambda k, f, t: f + z3.If(k <= t, 1, 0)
)
in_assignors("two at a turn", "a turn gives two partitions", turn_load=lambda k, f, t: f + z3.If(k < t, 2, 0))
in_assignors(
    "asked beyond the last", "round-robin does not go back to the first", candidate=lambda turn, tried, _: turn + tried
)
in_assignors(
    "distance to the left",
    "round-robin asks backwards",
    distance=lambda turn, j, m: z3.If(turn >= j, turn - j, turn - j + m),
)
in_assignors("a round too short", "round-robin asks each member twice", distance=lambda turn, j, m: j - turn + m)


# ---- the certifier


def accepts(_: State, s: State, *__: Term) -> None:
    """It accepts here."""
    s.accepted = True


def marks_stay(b: State, s: State, *_: Term) -> None:
    """Marks of the topic before are not wiped."""
    s.put("marked", lambda now, m: Or(now, b.marked(m)))


in_certifier("marks left over", "subscribers of the topic before stay marked", "mark subscribers", then=marks_stay)
in_certifier(
    "two owners", "an entry is read although the partition has an owner", "read an entry", "no member has it yet"
)
in_certifier("lists not read", "the lists end before all were read", "end of the lists", "all lists were read")
in_certifier("unmarked member owns", "an owner may be unmarked", "look at a partition", "the owner is marked")
in_certifier(
    "no member owns",
    "a partition without owner may have subscribers",
    "look at a partition without owner",
    "no member is marked",
)
in_certifier(
    "topic cut short", "a topic ends before all its partitions were seen", "end of a topic", "all partitions were seen"
)
in_certifier("any load", "a load is not compared with the bounds", "weigh", "the load is within the bounds")
in_certifier("topics left out", "it accepts before all topics were looked at", "accept", "all topics were looked at")
in_certifier("loads left out", "it accepts before all loads were weighed", "accept", "all loads were weighed")
in_certifier("accepted at once", "it accepts at the first entry", "read an entry", then=accepts)


# ---- the composition

ARITHMETIC_BUGS.append(
    ArithmeticBug(
        "plan not certified",
        "members get assignments of a plan that was not certified",
        lambda _: refuted(assignors.check_composition(certified=False)),
    )
)
