"""Logs of consumer groups for the audit: what the coordinator writes in the random walks of the lockstep."""

from __future__ import annotations

from rota import _rota
from rota.audit.promises import Finding
from rota.check.differential.lockstep import Difference, Lockstep
from rota.check.differential.steps import ChangeTopics, Loaded, Step
from rota.check.differential.volume import STEPS_OF_A_RUN, Seeded
from rota.check.differential.walks import Walk, lockstep_of

Stored = tuple[int, int, bytes, bytes | None]
"""Offset, wall milliseconds, key, value."""


def walked(seed: int, walk: Walk, length: int = STEPS_OF_A_RUN) -> tuple[list[Stored], int]:
    """The log of one run of a walk, and how many events it took. No topic loses partitions: in a cluster none does."""
    choices = Seeded(seed)
    lockstep = lockstep_of(walk.configs[choices.index(len(walk.configs))])
    assert isinstance(lockstep, Lockstep)
    maker = walk.maker(lockstep, choices)
    makers = [each for each, weight in walk.makers.items() for _ in range(weight)]
    for at in range(length):
        loading = lockstep.state.phase == "Loading" and choices.index(3) == 0
        step: Step = Loaded() if loading else makers[choices.index(len(makers))](maker)
        step = walk.opening[at] if at < len(walk.opening) else step
        if shrinks(lockstep, step):
            continue
        try:
            lockstep.play(step)
        except Difference:
            break  # its own tests say so
    records = [record for _, batch in sorted(lockstep.cores_log.items()) for record in batch]
    stored = [(at, at, record.key_bytes(), record.value_bytes()) for at, record in enumerate(records)]
    return stored, lockstep.events


def shrinks(lockstep: Lockstep, step: Step) -> bool:
    """Whether a topic would have fewer partitions than before."""
    counts = {name: topic.partitions for name, topic in lockstep.topics.items()}
    return isinstance(step, ChangeTopics) and any(count < counts.get(name, 0) for name, count in step.topics)


def compacted(log: list[Stored], dirty: int) -> list[Stored]:
    """The log as a cleaner leaves it: before the offset `dirty` the last record of each key, without tombstones."""
    last = {key: offset for offset, _, key, _ in log[:dirty]}
    return [each for each in log if each[0] >= dirty or (each[0] == last[each[2]] and each[3] is not None)]


def found_in(log: list[Stored]) -> list[Finding]:
    """What the fold finds in a log."""
    fold = _rota.AuditFold(False, True)
    count, columns = _rota.audit_decode(log, 0)
    fold.rows(count, [(*buffers, 0) for buffers in columns])
    fold.end()
    return [Finding(*found) for found in fold.take()]
