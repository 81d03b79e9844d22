"""What a leader plans by: your own assignor, behind the notice that asks for a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from rota.assign import Assignor, encode_plan, read_members, run
from rota.member import Partition, Plan


class Planner(Protocol):
    """What a group member needs of whoever plans."""

    @property
    def name(self) -> str:
        """In JoinGroup."""

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they own while they join."""

    def plan(self, plan: Plan) -> Mapping[str, bytes]:
        """An embedded assignment for every member."""

    def on_assignment(self, partitions: Sequence[Partition], generation: int, user_data: bytes | None) -> None:
        """What this member got."""

    def user_data(self) -> bytes | None:
        """What this member says about itself at its next join."""


@runtime_checkable
class Remembers(Protocol):
    """An assignor that puts bytes of its own into the subscription."""

    def user_data(self) -> bytes | None:
        """Those bytes."""


class ByAssignor:
    """A planner from an assignor. Its plan is certified before it is handed in."""

    def __init__(self, assignor: Assignor) -> None:
        self.assignor = assignor
        self.name = assignor.name
        self.cooperative = assignor.cooperative

    def plan(self, plan: Plan) -> Mapping[str, bytes]:
        """Asks the assignor; a `PlanError` says what is wrong with its plan."""
        metadata = {member.member_id: member.metadata for member in plan.members}
        members = read_members(metadata, {member.member_id: member.instance_id for member in plan.members})
        shares, _ = run(self.assignor, members, plan.topics)
        return encode_plan(shares)

    def on_assignment(self, partitions: Sequence[Partition], generation: int, user_data: bytes | None) -> None:  # noqa: ARG002  an assignor of this kind has none
        """Tells the assignor."""
        self.assignor.on_assignment(partitions, generation)

    def user_data(self) -> bytes | None:
        """The assignor's, if it has any."""
        return self.assignor.user_data() if isinstance(self.assignor, Remembers) else None
