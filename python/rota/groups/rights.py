"""What is said where a broker refuses a user something: the right that is missing, and the ACL that gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Right(NamedTuple):
    """An operation on resources of one type, as ACLs name them."""

    operation: str
    kind: str
    """`GROUP`, `TOPIC` or `CLUSTER`."""
    names: Sequence[str]


def lacks(user: str | None, right: Right) -> str:
    """`user ben may not DESCRIBE group billing; add the ACL ALLOW User:ben * DESCRIBE GROUP LITERAL billing`.

    The ACL is as a file of `rota serve --acls` has it, and has all that `kafka-acls.sh` wants to know.
    """
    operation, kind, names = right
    who = "this user" if user is None else f"user {user}"
    acls = ", ".join(f"ALLOW User:{user or 'NAME'} * {operation} {kind} LITERAL {name}" for name in names)
    several = "" if len(names) == 1 else "s"
    return f"{who} may not {operation} {kind.lower()} {', '.join(names)}; add the ACL{several} {acls}"
