"""Reconciliation: how a member comes to its target (§6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rota.model.consumer.data import NOTHING, STABLE, UNRELEASED, UNREVOKED, Held, Member, Partition
from rota.model.values import replace


@dataclass(frozen=True)
class Inputs:
    """What the table looks at beside the member: T, what the request reports as owned (None: nothing is reported),
    whether the subscription changed in this request, the topic ids that the member is subscribed to now, and what
    other members hold.
    """

    target_epoch: int
    owned: frozenset[Partition] | None
    has_changed: bool
    topic_ids: frozenset[int]
    busy: frozenset[Partition]

    def acknowledges(self, revoked: Iterable[Partition]) -> bool:
        """acked(X): a report without any of these partitions (§6)."""
        return self.owned is not None and not self.owned & set(revoked)


def reconcile(member: Member, given: Inputs) -> Member:
    """One row of the table (§6.1)."""
    if member.state == STABLE and member.epoch == given.target_epoch:
        return _cut(member, given) if given.has_changed else member
    if member.state == UNREVOKED and not given.acknowledges(member.revoking):
        return _cut(member, given) if given.has_changed else member
    return _compute(member, given)


def _cut(member: Member, given: Inputs) -> Member:
    """Topics that the member is no longer subscribed to (§6.2)."""
    kept = _only(member.assigned, lambda partition: partition[0] in given.topic_ids)
    if kept == member.assigned:
        return member
    revoking = {**member.revoking, **_only(member.assigned, lambda partition: partition not in kept)}
    member = replace(member, previous=member.epoch, assigned=kept)
    if given.acknowledges(revoking):
        return replace(member, state=STABLE, revoking=NOTHING)
    return replace(member, state=UNREVOKED, revoking=revoking)


def _compute(member: Member, given: Inputs) -> Member:
    """The next step to the target (§6.3)."""
    target = frozenset(p for p in member.target or () if p[0] in given.topic_ids)
    kept = _only(member.assigned, lambda partition: partition in target)
    revoking = _only(member.assigned, lambda partition: partition not in target)
    if revoking and not given.acknowledges(revoking):
        return replace(member, state=UNREVOKED, previous=member.epoch, assigned=kept, revoking=revoking)
    wanted = target - set(kept)
    granted = dict.fromkeys(sorted(wanted - given.busy), given.target_epoch)
    return replace(
        member,
        state=UNRELEASED if wanted & given.busy else STABLE,
        previous=member.epoch,
        epoch=given.target_epoch,
        assigned={**kept, **granted},
        revoking=NOTHING,
    )


def _only(held: Held, keep: Callable[[Partition], bool]) -> Held:
    return {partition: epoch for partition, epoch in held.items() if keep(partition)}
