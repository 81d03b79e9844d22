"""The timing wheel's slot arithmetic, for all 64-bit instants (docs/protocol.md §16.1).

The functions are written once, over an arithmetic: `Bits` makes Z3 formulas of them, `numpy` arrays of unsigned
64-bit integers make numbers. `tests/checks/test_spec_wheel.py` holds the numbers to the wheel in Rust, input by input.

An entry lies at a *place*: a level and a slot, chosen when it is linked. Proved is what the wheel's promises rest on:

* a place starts after the time and not after the deadline, so that time reaches it no later than the deadline;
* the slots that `advance` empties are exactly those whose start it reached, so that nothing is lost or touched early;
* places keep their start while time does not reach them;
* a deadline written lazily is not before the start of the place, so that the same holds for it;
* what is linked again lies at a finer level, so that it comes due in at most ten steps;
* of a level the first occupied slot after the time's own, going round, starts first, and no coarser level starts one
  before the next of a level, so that `next_deadline`, which takes the earliest and stops there, is never late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import z3

from rota.specs.obligations import Result, verdict_of

LEVELS, WIDE, WIDE_BITS, LEVEL_BITS, BITS = 10, 1, 10, 6, 64
ALL = (1 << BITS) - 1


def bits(level: int) -> int:
    """How many bits of an instant choose the slot: level 1 has more slots than others."""
    return WIDE_BITS if level == WIDE else LEVEL_BITS


def slots(level: int) -> int:
    """Slots of a level."""
    return 1 << bits(level)


def shift(level: int) -> int:
    """A slot of the level spans two to that many milliseconds."""
    return sum(bits(finer) for finer in range(level))


FIRST = [sum(slots(finer) for finer in range(level)) for level in range(LEVELS + 1)]  # places before those of a level

Word = Any  # a 64-bit word: a Z3 bit vector or a numpy array of uint64


class Bits:
    """Unsigned 64-bit arithmetic as Z3 formulas."""

    @staticmethod
    def word(value: int) -> Word:
        """A constant."""
        return z3.BitVecVal(value, BITS)

    @staticmethod
    def right(word: Word, by: int | Word) -> Word:
        """A logical shift to the right; by 64 or more gives 0."""
        return z3.LShR(word, by)

    @staticmethod
    def left(word: Word, by: int | Word) -> Word:
        """A shift to the left; by 64 or more gives 0."""
        return word << by

    @staticmethod
    def below(a: Word, b: Word) -> Any:
        """Unsigned a < b."""
        return z3.ULT(a, b)

    @staticmethod
    def choose(condition: Any, then: Word, otherwise: Word) -> Word:
        """One of two words."""
        return z3.If(condition, then, otherwise)


def slot_of(at: Any, instant: Word, level: int) -> Word:
    """The slot of a level that holds the instant."""
    return at.right(instant, shift(level)) & at.word(slots(level) - 1)


def level_of(at: Any, now: Word, deadline: Word) -> Word:
    """The first level whose slots reach as far as the deadline is away."""
    span = deadline - now
    level = at.word(0)
    for finer in range(1, LEVELS):
        level = at.choose(at.below(span, at.word(1 << shift(finer))), level, at.word(finer))
    return level


def before(at: Any, now: Word, level: int, slot: Word) -> Word:
    """How many slots lie between the time's own and this one, going round the level."""
    return (slot - at.right(now, shift(level)) - at.word(1)) & at.word(slots(level) - 1)


def slot_start(at: Any, now: Word, level: int, slot: Word) -> Word:
    """The first instant of a slot that is later than the time."""
    return at.left(at.right(now, shift(level)) + at.word(1) + before(at, now, level, slot), shift(level))


def next_start(at: Any, now: Word, level: int) -> Word:
    """When the next slot of a level starts, or 0 if none does any more."""
    return at.left(at.right(now, shift(level)) + at.word(1), shift(level))


def slots_from(at: Any, slot: Word, word: Word) -> Word:
    """The slots of a word of 64 that are not before the slot, as bits."""
    begin = word * at.word(BITS)
    bit = at.choose(at.below(slot, begin), at.word(0), slot - begin)
    return at.choose(at.below(bit, at.word(BITS)), at.left(at.word(ALL), bit & at.word(BITS - 1)), at.word(0))


def slots_reached(at: Any, earlier: Word, later: Word, level: int, word: Word) -> Word:
    """The slots of a word of a level whose start is reached when time moves, as bits."""
    count = at.right(later, shift(level)) - at.right(earlier, shift(level))
    first = (slot_of(at, earlier, level) + at.word(1)) & at.word(slots(level) - 1)
    last = slot_of(at, later, level)
    from_first, to_last = slots_from(at, first, word), ~slots_from(at, last + at.word(1), word)
    reached = at.choose(at.below(last, first), from_first | to_last, from_first & to_last)
    some = at.choose(at.below(count, at.word(slots(level))), reached, at.word(ALL))
    return at.choose(count == at.word(0), at.word(0), some)


def is_reached(at: Any, earlier: Word, later: Word, level: int, slot: Word) -> Word:
    """The bit of a slot among those that time reaches."""
    reached = slots_reached(at, earlier, later, level, at.right(slot, LEVEL_BITS))
    return at.right(reached, slot & at.word(BITS - 1)) & at.word(1)


# ---- claims: name, English, and for each level what must hold for all words

Claim = Callable[[int, dict[str, Word]], Any]


def linked(now: Word, deadline: Word, level: int) -> Any:
    """The deadline is later than the time and belongs to the level."""
    return z3.And(z3.ULT(now, deadline), level_of(Bits, now, deadline) == level)


def belongs(now: Word, level: int, slot: Word) -> Any:
    """An entry may lie in the slot of the level: it is one, and starts again before time ends."""
    left = Bits.word(ALL >> shift(level)) - Bits.right(now, shift(level))
    return z3.And(z3.ULT(slot, slots(level)), z3.ULT(before(Bits, now, level, slot), left))


def starts_between(level: int, w: dict[str, Word]) -> Any:
    """Where an entry is linked starts after the time and not after the deadline."""
    slot = slot_of(Bits, w["deadline"], level)
    start = slot_start(Bits, w["now"], level, slot)
    return z3.Implies(
        linked(w["now"], w["deadline"], level),
        z3.And(z3.ULT(w["now"], start), z3.ULE(start, w["deadline"]), belongs(w["now"], level, slot)),
    )


def has_a_level(level: int, w: dict[str, Word]) -> Any:
    """Every deadline has a level, its slot is a bit of the level's words, and place numbers name level and slot."""
    slot = slot_of(Bits, w["deadline"], level)
    place = Bits.word(FIRST[level]) + slot
    above = Bits.word(2) + z3.UDiv(place - Bits.word(FIRST[2]), Bits.word(BITS))
    found = z3.If(z3.ULT(place, FIRST[1]), Bits.word(0), z3.If(z3.ULT(place, FIRST[2]), Bits.word(1), above))
    return z3.And(
        z3.ULT(level_of(Bits, w["now"], w["deadline"]), LEVELS),
        z3.ULT(slot, slots(level)),
        found == level,
        z3.UDiv(place, Bits.word(BITS)) == Bits.word(FIRST[level] // BITS) + z3.UDiv(slot, Bits.word(BITS)),
        z3.URem(place, Bits.word(BITS)) == z3.URem(slot, Bits.word(BITS)),
        z3.ULT(place, FIRST[LEVELS]),
    )


def first_to_reach(level: int, w: dict[str, Word]) -> Any:
    """A deadline's level is the finest that goes round once at most until then; its slot is not the time's own."""
    now, deadline = w["now"], w["deadline"]
    away = Bits.right(deadline, shift(level)) - Bits.right(now, shift(level))
    return z3.Implies(
        linked(now, deadline, level),
        z3.And(
            away == before(Bits, now, level, slot_of(Bits, deadline, level)) + 1,
            z3.ULE(1, away),
            z3.ULE(away, slots(level)),
            *(z3.UGE(deadline - now, 1 << shift(finer + 1)) for finer in range(level)),
        ),
    )


def reached_exactly(level: int, w: dict[str, Word]) -> Any:
    """`advance` empties an occupied slot if, and only if, it reached the slot's start: nothing is lost or early."""
    start = slot_start(Bits, w["now"], level, w["slot"])
    bit = is_reached(Bits, w["now"], w["later"], level, w["slot"])
    return z3.Implies(
        z3.And(z3.ULE(w["now"], w["later"]), belongs(w["now"], level, w["slot"])),
        (bit == 1) == z3.ULE(start, w["later"]),
    )


def places_keep(level: int, w: dict[str, Word]) -> Any:
    """A slot that time has not reached keeps its start and its occupants, deadlines written lazily included."""
    start = slot_start(Bits, w["now"], level, w["slot"])
    return z3.Implies(
        z3.And(
            z3.ULE(w["now"], w["later"]),
            z3.ULT(w["later"], start),
            belongs(w["now"], level, w["slot"]),
            z3.ULE(start, w["deadline"]),
        ),
        z3.And(
            slot_start(Bits, w["later"], level, w["slot"]) == start,
            belongs(w["later"], level, w["slot"]),
            z3.ULT(w["later"], w["deadline"]),
        ),
    )


def lazily_rearmed(level: int, w: dict[str, Word]) -> Any:
    """An entry whose deadline was only written is reached by then, and is not due before it: it is linked anew."""
    start = slot_start(Bits, w["now"], level, w["slot"])
    anew = level_of(Bits, w["later"], w["deadline"])
    return z3.Implies(
        z3.And(
            belongs(w["now"], level, w["slot"]),
            z3.ULE(start, w["deadline"]),
            z3.ULE(w["now"], w["later"]),
            z3.ULT(w["later"], w["deadline"]),
            z3.ULE(start, w["later"]),
        ),
        z3.And(
            z3.ULT(anew, LEVELS),
            *(
                z3.Implies(
                    anew == finer,
                    z3.And(
                        z3.ULT(w["later"], slot_start(Bits, w["later"], finer, slot_of(Bits, w["deadline"], finer))),
                        z3.ULE(slot_start(Bits, w["later"], finer, slot_of(Bits, w["deadline"], finer)), w["deadline"]),
                    ),
                )
                for finer in range(LEVELS)
            ),
        ),
    )


def cascades_descend(level: int, w: dict[str, Word]) -> Any:
    """An entry that its slot's start did not make due goes to a finer level."""
    start = slot_start(Bits, w["now"], level, slot_of(Bits, w["deadline"], level))
    return z3.Implies(
        z3.And(linked(w["now"], w["deadline"], level), z3.ULE(start, w["later"]), z3.ULT(w["later"], w["deadline"])),
        z3.ULT(level_of(Bits, w["later"], w["deadline"]), level) if level else z3.BoolVal(False),
    )


def first_starts_first(level: int, w: dict[str, Word]) -> Any:
    """Going round, the first occupied slot of a level starts first: `next_deadline` is at or before every deadline."""
    slot, other = w["slot"], w["other"]
    start = slot_start(Bits, w["now"], level, slot)
    following = (slot_of(Bits, w["now"], level) + 1) & (slots(level) - 1)
    found_first = z3.If(
        z3.ULE(following, slot),
        z3.Or(z3.ULE(slot, other), z3.ULT(other, following)),
        z3.And(z3.ULE(slot, other), z3.ULT(other, following)),
    )
    return z3.Implies(
        z3.And(belongs(w["now"], level, slot), belongs(w["now"], level, other), found_first),
        z3.And(z3.ULT(w["now"], start), z3.ULE(start, slot_start(Bits, w["now"], level, other))),
    )


def coarser_starts_later(level: int, w: dict[str, Word]) -> Any:
    """No slot of a level or a coarser one starts before the level's next: there `next_deadline` may stop looking."""
    return z3.And(
        *(
            z3.Implies(
                belongs(w["now"], coarser, w["slot"]),
                z3.ULE(next_start(Bits, w["now"], level), slot_start(Bits, w["now"], coarser, w["slot"])),
            )
            for coarser in range(level, LEVELS)
        )
    )


def order_kept(level: int, w: dict[str, Word]) -> Any:
    """When the later of two entries is due, `advance` has emptied the slot of the earlier: none overtakes another."""
    bit = is_reached(Bits, w["now"], w["later"], level, slot_of(Bits, w["deadline"], level))
    return z3.Implies(
        z3.And(
            linked(w["now"], w["deadline"], level), z3.ULE(w["deadline"], w["other"]), z3.ULE(w["other"], w["later"])
        ),
        bit == 1,
    )


CLAIMS: dict[str, Claim] = {
    "levels and places": has_a_level,
    "first to reach": first_to_reach,
    "linked in time": starts_between,
    "reached exactly": reached_exactly,
    "places keep": places_keep,
    "lazy re-arming": lazily_rearmed,
    "cascades descend": cascades_descend,
    "order kept": order_kept,
    "next_deadline never late": first_starts_first,
    "coarser starts later": coarser_starts_later,
}


def words() -> dict[str, Word]:
    """The variables of claims."""
    return {name: z3.BitVec(name, BITS) for name in ("now", "later", "deadline", "slot", "other")}


def check(claims: dict[str, Claim] = CLAIMS, limit_ms: int = 60_000) -> Iterator[Result]:
    """One obligation for each claim and level."""
    for name, claim in claims.items():
        for level in range(LEVELS):
            yield decide(name, level, claim(level, words()), limit_ms)


def decide(name: str, level: int, formula: Any, limit_ms: int = 60_000) -> Result:
    """Whether a claim holds at a level for all words."""
    began = time.perf_counter()
    solver = z3.SolverFor("QF_BV")
    solver.set("timeout", limit_ms)
    solver.add(z3.Not(formula))
    answer = solver.check()
    shown = ""
    if answer == z3.sat:
        model = solver.model()
        shown = ", ".join(f"{key}={model.eval(word, True)}" for key, word in words().items()) + f", level={level}"
    return Result("wheel", f"level {level}", name, verdict_of(answer, z3.unsat), time.perf_counter() - began, shown)
