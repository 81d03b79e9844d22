"""Your own assignors: anything with `assign` and `on_assignment`, held to the certifier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rota._rota import Certificate, InputError, PlanError, encode_cooperative_sticky_user_data, encode_sticky_user_data
from rota.arguments import text
from rota.assign.functions import Members, Partition, Partitions, Plan, assign, certify

CLIENTS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The built-in assignors that members of a classic group can name."""


class Assignor(Protocol):
    """What a group's leader and members need of an assignor."""

    @property
    def name(self) -> str:
        """Name in JoinGroup. All members of a group must support it."""

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they own while they join. Then a plan must not give one what another one claims."""

    def assign(self, members: Members, partitions: Partitions) -> Mapping[str, Sequence[Partition]]:
        """Assign partitions to members, as the leader. A member without an entry gets nothing."""

    def on_assignment(self, assigned: Sequence[Partition], generation: int) -> None:
        """Handle this member's assignment in a generation."""


def check_assignor(assignor: object, what: str) -> None:
    """Raise InputError for what is no assignor, such as the name of one."""
    has_name = isinstance(getattr(assignor, "name", None), str)
    if not (has_name and callable(getattr(assignor, "assign", None))):
        wanted = "give an object with `name`, `cooperative`, `assign` and `on_assignment`"
        raise InputError(f"{what} is {assignor!r}: {wanted}, such as rota.assign.BuiltIn")


def run(assignor: Assignor, members: Members, partitions: Partitions) -> tuple[Plan, Certificate]:
    """Run an assignor and certify its plan. The result has an entry for each member.

    Raises PlanError if the plan is not complete, not disjoint, not subscribed to, or, of a cooperative assignor, gives
    away what another member still claims; the message begins with the assignor's name.
    """
    check_assignor(assignor, "the assignor")
    plan = assignor.assign(members, partitions)
    try:
        certificate = certify(members, partitions, plan, cooperative=assignor.cooperative)
    except (InputError, PlanError) as error:
        raise type(error)(f"{assignor.name}: {error}") from error
    return {member: list(plan.get(member, ())) for member in members}, certificate


@dataclass
class BuiltIn:
    """A built-in assignor as an `Assignor`; the sticky ones remember what they need for the next round."""

    name: str
    """On the wire: `range`, `roundrobin`, `sticky` or `cooperative-sticky`."""
    _assigned: list[Partition] | None = field(default=None, init=False)
    _generation: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        """Take underscores for hyphens, and refuse what is not one of the four. Raises InputError."""
        self.name = text(self.name, "name").replace("_", "-")
        if self.name not in CLIENTS:
            raise InputError(f"no client has an assignor `{self.name}`: choose one of {', '.join(CLIENTS)}")

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they own while they join."""
        return self.name == "cooperative-sticky"

    def assign(self, members: Members, partitions: Partitions) -> Plan:
        """Assign partitions to members."""
        return assign(self.name, members, partitions)

    def on_assignment(self, assigned: Sequence[Partition], generation: int) -> None:
        """Remember the assignment of this member."""
        self._assigned, self._generation = sorted(assigned), generation

    def user_data(self) -> bytes | None:
        """User data of the next subscription."""
        if self.name == "cooperative-sticky":
            return encode_cooperative_sticky_user_data(self._generation)
        if self.name != "sticky" or self._assigned is None:
            return None
        by_topic: dict[str, list[int]] = {}
        for topic, index in self._assigned:
            by_topic.setdefault(topic, []).append(index)
        return encode_sticky_user_data(list(by_topic.items()), self._generation)
