"""The timing wheel's slot arithmetic, for all 64-bit instants (docs/protocol.md §16.1).

The four functions are written once, over an arithmetic: `Bits` makes Z3 formulas of them, `numpy` arrays of unsigned
64-bit integers make numbers. `tests/specs/test_wheel.py` holds the numbers to the wheel in Rust, input by input.

An entry lies at a *place*: a level and a slot, chosen when it is linked. Proved is what the wheel's promises rest on:

* a place starts after the time and not after the deadline, so that time reaches it no later than the deadline;
* the slots that `advance` empties are exactly those whose start it reached, so that nothing is lost or touched early;
* places keep their start while time does not reach them;
* a deadline written lazily is not before the start of the place, so that the same holds for it;
* what is linked again lies at a finer level, so that it comes due in at most eleven steps;
* the first slot of the finest occupied level starts first, so that `next_deadline` is never late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import z3

from specs.obligations import Result, verdict_of

LEVELS, SLOTS, LEVEL_BITS, BITS = 11, 64, 6, 64
ALL = (1 << BITS) - 1

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
    return at.right(instant, level * LEVEL_BITS) & at.word(SLOTS - 1)


def level_of(at: Any, now: Word, deadline: Word) -> Word:
    """The level of the highest bit in which the deadline differs from the time."""
    differing = (now ^ deadline) | at.word(1)
    level = at.word(0)
    for finer in range(1, LEVELS):
        level = at.choose(at.below(differing, at.word(1 << (finer * LEVEL_BITS))), level, at.word(finer))
    return level


def slot_start(at: Any, now: Word, level: int, slot: Word) -> Word:
    """The first instant of a slot in the turn of its level that holds the time."""
    above = (ALL << ((level + 1) * LEVEL_BITS)) & ALL if (level + 1) * LEVEL_BITS < BITS else 0
    return (now & at.word(above)) | at.left(slot, level * LEVEL_BITS)


def slots_reached(at: Any, earlier: Word, later: Word, level: int) -> Word:
    """The slots of a level whose start is reached when time moves, as bits."""
    highest = level_of(at, earlier, later)
    last = slot_of(at, later, level)
    mine = at.right(at.word(ALL), at.word(SLOTS - 1) - last)
    reached = at.choose(at.below(at.word(level), highest), at.word(ALL), at.choose(highest == level, mine, at.word(0)))
    return at.choose(earlier == later, at.word(0), reached)


# ---- claims: name, English, and for each level what must hold for all words

Claim = Callable[[int, dict[str, Word]], Any]


def linked(now: Word, deadline: Word, level: int) -> Any:
    """The deadline is later than the time and belongs to the level."""
    return z3.And(z3.ULT(now, deadline), level_of(Bits, now, deadline) == level)


def belongs(now: Word, level: int, slot: Word) -> Any:
    """An entry may lie in the slot of the level: the slot starts later than the time."""
    return z3.And(
        z3.ULT(slot, SLOTS),
        z3.ULT(slot_of(Bits, now, level), slot),
        slot_of(Bits, slot_start(Bits, now, level, slot), level) == slot,
    )


def starts_between(level: int, w: dict[str, Word]) -> Any:
    """Where an entry is linked starts after the time and not after the deadline."""
    slot = slot_of(Bits, w["deadline"], level)
    start = slot_start(Bits, w["now"], level, slot)
    return z3.Implies(
        linked(w["now"], w["deadline"], level),
        z3.And(z3.ULT(w["now"], start), z3.ULE(start, w["deadline"]), belongs(w["now"], level, slot)),
    )


def has_a_level(level: int, w: dict[str, Word]) -> Any:
    """Every deadline has a level, its slot is a bit of the level's word, and place numbers name level and slot."""
    slot = slot_of(Bits, w["deadline"], level)
    place = Bits.word(level * SLOTS) + slot
    return z3.And(
        z3.ULT(level_of(Bits, w["now"], w["deadline"]), LEVELS),
        z3.ULT(slot, SLOTS),
        z3.UDiv(place, Bits.word(SLOTS)) == level,
        z3.URem(place, Bits.word(SLOTS)) == slot,
        z3.ULT(place, LEVELS * SLOTS),
    )


def highest_bit(level: int, w: dict[str, Word]) -> Any:
    """The level is that of the highest differing bit: they differ in it and agree above."""
    now, deadline = w["now"], w["deadline"]
    return z3.Implies(
        linked(now, deadline, level),
        z3.And(
            slot_of(Bits, now, level) != slot_of(Bits, deadline, level),
            *(slot_of(Bits, now, above) == slot_of(Bits, deadline, above) for above in range(level + 1, LEVELS)),
        ),
    )


def reached_exactly(level: int, w: dict[str, Word]) -> Any:
    """`advance` empties an occupied slot if, and only if, it reached the slot's start: nothing is lost or early."""
    start = slot_start(Bits, w["now"], level, w["slot"])
    bit = z3.LShR(slots_reached(Bits, w["now"], w["later"], level), w["slot"]) & 1
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


def finest_first(level: int, w: dict[str, Word]) -> Any:
    """The lowest slot of the finest occupied level starts first: `next_deadline` is at or before every deadline."""
    start = slot_start(Bits, w["now"], level, w["slot"])
    here = z3.And(belongs(w["now"], level, w["slot"]))
    others = [
        z3.Implies(
            z3.And(
                belongs(w["now"], coarser, w["other"]), *([z3.ULE(w["slot"], w["other"])] if coarser == level else [])
            ),
            z3.ULE(start, slot_start(Bits, w["now"], coarser, w["other"])),
        )
        for coarser in range(level, LEVELS)
    ]
    return z3.Implies(here, z3.And(z3.ULT(w["now"], start), *others))


def order_kept(level: int, w: dict[str, Word]) -> Any:
    """When the later of two entries is due, `advance` has emptied the slot of the earlier: none overtakes another."""
    bit = z3.LShR(slots_reached(Bits, w["now"], w["later"], level), slot_of(Bits, w["deadline"], level)) & 1
    return z3.Implies(
        z3.And(
            linked(w["now"], w["deadline"], level), z3.ULE(w["deadline"], w["other"]), z3.ULE(w["other"], w["later"])
        ),
        bit == 1,
    )


CLAIMS: dict[str, Claim] = {
    "levels and places": has_a_level,
    "highest bit": highest_bit,
    "linked in time": starts_between,
    "reached exactly": reached_exactly,
    "places keep": places_keep,
    "lazy re-arming": lazily_rearmed,
    "cascades descend": cascades_descend,
    "order kept": order_kept,
    "next_deadline never late": finest_first,
}


def words() -> dict[str, Word]:
    """The variables of claims."""
    return {name: z3.BitVec(name, BITS) for name in ("now", "later", "deadline", "slot", "other")}


def check(claims: dict[str, Claim] = CLAIMS, limit_ms: int = 60_000) -> Iterator[Result]:
    """One obligation for each claim and level."""
    for name, claim in claims.items():
        for level in range(LEVELS):
            began = time.perf_counter()
            solver = z3.SolverFor("QF_BV")
            solver.set("timeout", limit_ms)
            given = words()
            solver.add(z3.Not(claim(level, given)))
            answer = solver.check()
            shown = ""
            if answer == z3.sat:
                model = solver.model()
                shown = ", ".join(f"{key}={model.eval(word, True)}" for key, word in given.items()) + f", level={level}"
            yield Result(
                "wheel", f"level {level}", name, verdict_of(answer, z3.unsat), time.perf_counter() - began, shown
            )
