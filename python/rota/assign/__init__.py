"""Partition assignors: Kafka's by name, and your own held to the same rules.

    >>> import rota.assign
    >>> rota.assign.range({"c1": ["t"], "c2": ["t"]}, {"t": 3})
    {'c1': [('t', 0), ('t', 1)], 'c2': [('t', 2)]}

`range`, `roundrobin`, `sticky` and `cooperative_sticky` are those of Kafka's clients, `uniform` and `server_range`
those of its servers. `certify` checks any plan. `FlatGroup` does the same on arrays, for large groups.
`docs/assignors.md` says what each promises.
"""

from rota._rota import (
    Certificate,
    FlatGroup,
    InputError,
    PlanError,
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)
from rota.assign.custom import Assignor, BuiltIn, run
from rota.assign.functions import (
    CONTESTED,
    NAMES,
    NOBODY,
    Members,
    Partition,
    Partitions,
    Plan,
    Subscriber,
    assign,
    certify,
    cooperative_sticky,
    encode_plan,
    range,  # noqa: A004  it is the protocol's name
    read_members,
    roundrobin,
    server_range,
    sticky,
    uniform,
)

__all__ = [
    "CONTESTED",
    "NAMES",
    "NOBODY",
    "Assignor",
    "BuiltIn",
    "Certificate",
    "FlatGroup",
    "InputError",
    "Members",
    "Partition",
    "Partitions",
    "Plan",
    "PlanError",
    "Subscriber",
    "assign",
    "certify",
    "cooperative_sticky",
    "decode_cooperative_sticky_user_data",
    "decode_sticky_user_data",
    "encode_cooperative_sticky_user_data",
    "encode_plan",
    "encode_sticky_user_data",
    "range",
    "read_members",
    "roundrobin",
    "run",
    "server_range",
    "sticky",
    "uniform",
]
