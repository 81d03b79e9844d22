"""rota: a Kafka consumer-group coordinator for tests, for operators, and as a library.

Start here:

- `Server`: a Kafka-compatible server inside this process.
- `Tls` and `Authority`: its certificates, your own or throw-away ones.
- `TokenIssuer`: a throw-away issuer of tokens for OAUTHBEARER.
- `VirtualClock`: time that a test moves by hand.
- The pytest fixtures `rota_server` and `rota_clock`, which the plugin `rota.pytest_plugin` registers.

Errors derive from `RotaError`: `ConfigError` (a setting is wrong), `NotFoundError` (a group, member, topic, partition
or node does not exist), `ServerError` (the server could not start, or has stopped), `EngineError` (the engine of a
cluster does not answer), and those of the modules below.

The rest of the package:

- `rota.protocol`: requests, answers, records and error codes as frozen classes.
- `rota.coordinator`: the coordinator as a state machine in your own time, without sockets.
- `rota.member`: the member's side of a group (`Member`); `rota.aio` runs it over asyncio.
- `rota.transactions`: the coordinator of transactions, without sockets.
- `rota.assign`: the assignors.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rota._rota import (
    ConfigError,
    EmbeddedError,
    EngineError,
    Explanation,
    InvariantViolation,
    MemoryEngine,
    NotFoundError,
    RecordError,
    RotaError,
    ServerError,
    SnapshotError,
    __version__,
)
from rota.clock import VirtualClock
from rota.cluster import EngineAccess, PeerAccess
from rota.server import Message, Server

if TYPE_CHECKING:
    from rota import assign as assign
    from rota import coordinator as coordinator
    from rota import member as member
    from rota import protocol as protocol
    from rota import transactions as transactions
    from rota.member import Member, MemberError, MemberSettings
    from rota.security import Authority, Certificate, Tls
    from rota.tokens import TokenIssuer

__all__ = [
    "Authority",
    "Certificate",
    "ConfigError",
    "EmbeddedError",
    "EngineAccess",
    "EngineError",
    "Explanation",
    "InvariantViolation",
    "Member",
    "MemberError",
    "MemberSettings",
    "MemoryEngine",
    "Message",
    "NotFoundError",
    "PeerAccess",
    "RecordError",
    "RotaError",
    "Server",
    "ServerError",
    "SnapshotError",
    "Tls",
    "TokenIssuer",
    "VirtualClock",
    "__version__",
]

# A server needs none of these: they are imported when they are first used.
LAZY_MODULES = ("assign", "coordinator", "member", "protocol", "transactions")
LAZY_NAMES = {
    "Authority": "security",
    "Certificate": "security",
    "Member": "member",
    "MemberError": "member",
    "MemberSettings": "member",
    "Tls": "security",
    "TokenIssuer": "tokens",
}


def _imported(name: str) -> Any:
    if name in LAZY_MODULES:
        return importlib.import_module(f"rota.{name}")
    if name in LAZY_NAMES:
        return getattr(importlib.import_module(f"rota.{LAZY_NAMES[name]}"), name)
    if not name.startswith("_"):
        for place in ("protocol", "coordinator"):
            module = importlib.import_module(f"rota.{place}")
            if name in module.__all__:
                import warnings

                warnings.warn(f"rota.{name} has moved to rota.{place}.{name}", DeprecationWarning, stacklevel=2)
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:
    # Type checkers have the imports above. With this function, each misspelt name would be one of rota's for them.
    __getattr__ = _imported


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *LAZY_MODULES})
