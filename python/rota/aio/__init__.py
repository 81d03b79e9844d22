"""Groups over asyncio, on any Kafka broker: `GroupMember` for topics, `Roster` for anything that can be numbered."""

from rota.aio.connection import Answered, BrokerError, Connection, read_bootstrap
from rota.aio.group import Change, GroupMember
from rota.aio.roster import Roster, Shift

__all__ = [
    "Answered",
    "BrokerError",
    "Change",
    "Connection",
    "GroupMember",
    "Roster",
    "Shift",
    "read_bootstrap",
]
