"""Planners: a leader answers `Plan` with an assignor of the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from rota.assign import Assignor, encode_plan, read_members, run
from rota.member import Partition, Plan


class Planner(Protocol):
    """Interface between a group member and an assignor."""

    @property
    def name(self) -> str:
        """Name of the protocol in JoinGroup."""

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they own while they join."""

    def plan(self, plan: Plan) -> Mapping[str, bytes]:
        """Return an embedded assignment for each member."""

    def on_assignment(self, partitions: Sequence[Partition], generation: int, user_data: bytes | None) -> None:
        """Handle the assignment of this member."""

    def user_data(self) -> bytes | None:
        """Return the user data of the next subscription."""


@runtime_checkable
class Remembers(Protocol):
    """An assignor with user data in the subscription."""

    def user_data(self) -> bytes | None:
        """Return the user data."""


class ByAssignor:
    """A planner that runs an assignor and certifies its plan."""

    def __init__(self, assignor: Assignor) -> None:
        self.assignor = assignor
        self.name = assignor.name
        self.cooperative = assignor.cooperative

    def plan(self, plan: Plan) -> Mapping[str, bytes]:
        """Run the assignor. Raises `PlanError` if the plan breaks a rule."""
        metadata = {member.member_id: member.metadata for member in plan.members}
        members = read_members(metadata, {member.member_id: member.instance_id for member in plan.members})
        shares, _ = run(self.assignor, members, plan.topics)
        return encode_plan(shares)

    def on_assignment(self, partitions: Sequence[Partition], generation: int, user_data: bytes | None) -> None:  # noqa: ARG002  an assignor of this kind has none
        """Pass the assignment to the assignor."""
        self.assignor.on_assignment(partitions, generation)

    def user_data(self) -> bytes | None:
        """Return the assignor's user data, if it has any."""
        return self.assignor.user_data() if isinstance(self.assignor, Remembers) else None
