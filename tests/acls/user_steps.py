"""What is asked about the users of SCRAM: requests whose answers were recorded from Kafka, and are compared."""

from __future__ import annotations

from typing import Any

from tests.acls.steps import CLUSTER, STEPS, Fields, Step, allow, named
from tests.acls.tool_steps import TOOL_STEPS

SHA_256, SHA_512 = 1, 2


def deletion(name: str, mechanism: int = SHA_256) -> Fields:
    """A credential that goes."""
    return {"name": name, "mechanism": mechanism}


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4_096, **other: Any) -> Fields:
    """A credential that comes, or replaces another one."""
    length = 64 if mechanism == SHA_512 else 32
    fields = {"iterations": iterations, "salt": b"salt-of-someone!", "salted_password": b"p" * length}
    return {"name": name, "mechanism": mechanism} | fields | other


def alter(title: str, *changes: Fields, user: str = "admin", acls: tuple[str, ...] = ()) -> Step:
    """Changes of credentials: with iterations they are upsertions."""
    upsertions = [change for change in changes if "iterations" in change]
    deletions = [change for change in changes if "iterations" not in change]
    fields = {"deletions": deletions, "upsertions": upsertions}
    return Step(f"AlterUserScramCredentials, {title}", acls, "AlterUserScramCredentials", 0, fields, user=user)


def describe(
    title: str,
    *users: str,
    all_users: bool = False,
    user: str = "admin",
    acls: tuple[str, ...] = (),
    count: int | None = None,
) -> Step:
    """A question for credentials. Kafka answers it late after a change: `count` is how many there must be."""
    fields = {"users": None if all_users else named(*users)}
    title = f"DescribeUserScramCredentials, {title}"
    return Step(title, acls, "DescribeUserScramCredentials", 0, fields, user=user, count=count)


def quotas(title: str, version: int, *components: Fields, user: str = "admin", acls: tuple[str, ...] = ()) -> Step:
    """A question for quotas."""
    fields = {"components": list(components), "strict": False}
    return Step(f"DescribeClientQuotas, {title}", acls, "DescribeClientQuotas", version, fields, user=user)


ANY_USER = {"entity_type": "user", "match_type": 2, "match": None}

USER_STEPS: tuple[Step, ...] = (
    quotas("all", 0),
    quotas("of users", 1, ANY_USER),
    quotas("of a user", 1, {"entity_type": "user", "match_type": 0, "match": "ana"}),
    quotas("no rights", 1, ANY_USER, user="ana", acls=allow("DESCRIBE", *CLUSTER)),
    quotas("DESCRIBE_CONFIGS", 1, ANY_USER, user="ana", acls=allow("DESCRIBE_CONFIGS", *CLUSTER)),
    describe("nobody is there", all_users=True),
    alter("no rights", upsertion("good1"), deletion("bob"), user="ana", acls=allow("DESCRIBE", *CLUSTER)),
    describe("no rights", "good1", user="ana"),
    describe("DESCRIBE", "good1", user="ana", acls=allow("DESCRIBE", *CLUSTER)),
    alter("nothing"),
    alter("with ALTER", upsertion("good0"), user="ana", acls=allow("ALTER", *CLUSTER)),
    alter(
        "right and wrong ones",
        upsertion("good1"),
        upsertion("good2", SHA_512, 16_384),
        upsertion("few", iterations=4_095),
        upsertion("none", iterations=0),
        upsertion("many", iterations=16_385),
        upsertion(""),
        upsertion("unknown", 0),
        upsertion("newer", 3),
        upsertion("negative", -1),
        deletion("nobody"),
        deletion("nobody-newer", 3),
        deletion("nobody-unknown", 0),
    ),
    alter("an empty name goes", deletion("")),
    alter("twice with one mechanism", upsertion("twice"), upsertion("twice")),
    alter("twice with two mechanisms", upsertion("twice"), upsertion("twice", SHA_512)),
    alter("three times", upsertion("twice"), upsertion("twice", SHA_512), upsertion("twice")),
    alter("twice, once wrong", upsertion("twice", iterations=1), upsertion("twice", SHA_512)),
    alter("twice, then wrong", upsertion("twice", SHA_512), upsertion("twice", iterations=1)),
    alter("goes twice", deletion("good1"), deletion("good1")),
    alter("goes and comes", deletion("good1"), upsertion("good1")),
    alter("one goes and another comes", deletion("good1"), upsertion("good1", SHA_512)),
    alter("an unknown one goes and comes", deletion("nobody"), upsertion("nobody")),
    alter("an unknown mechanism goes and another comes", deletion("good1", 9), upsertion("good1", SHA_512)),
    alter("the other mechanism goes", deletion("good1", SHA_512)),
    alter("it changes", upsertion("good1", iterations=8_192)),
    alter("it has both", upsertion("good1", SHA_512, 4_097)),
    describe("named", "good1", "good2", "nobody", count=2),
    describe("named twice", "good1", "good2", "good1", "nobody", "nobody"),
    describe("an empty name", ""),
    describe("an empty list"),
    describe("all", all_users=True),
    alter("odd names", upsertion("a,b=c"), upsertion("a b"), upsertion("größe"), upsertion("#a")),
    alter(
        "odd lengths",
        upsertion("salt", salt=b""),
        upsertion("short", salted_password=b"p"),
        upsertion("long", salted_password=b"p" * 100),
    ),
    alter("no salted password", upsertion("empty", salted_password=b"")),
    alter("they go", deletion("good1"), deletion("good1", SHA_512), deletion("good2", SHA_512)),
    alter("they go one by one", deletion("good1"), deletion("good2", SHA_512), deletion("good0")),
    describe("gone", "good2", "good0"),
)
"""In this order: each step leaves users for the next."""

DEPARTURES: dict[str, dict[str, int]] = {
    # No client can log in with such a name.
    "AlterUserScramCredentials, odd names": {"#a": 93, "a b": 93, "a,b=c": 0, "größe": 93},
    # Without a salt two users with one password have one credential.
    "AlterUserScramCredentials, odd lengths": {"long": 0, "salt": 93, "short": 0},
    # Kafka fails with an unknown error.
    "AlterUserScramCredentials, no salted password": {"empty": 93},
}
"""Steps with other errors than Kafka's: the error of each user, and why."""

EVERY_STEP = (*STEPS, *USER_STEPS, *TOOL_STEPS)
