"""The columns of the matrix: every request, in every version class, by everybody who could send it.

A step is a line of the transcripts' language (tests/protocol/README.md). `{leader}`, `{follower}`, `{pending}`,
`{static}`, `{replaced}` stand for the members that a state says it has; a request whose members a state lacks is left
out there. `{G}`, `{G-1}`, `{G+1}` are the state's generation and its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One request of the matrix: the API, who sends it in which way, and the step that does."""

    api: str
    identity: str
    step: str

    @property
    def name(self) -> str:
        """As the files of cells show it."""
        return f"{self.api} {self.identity}"


#: Who speaks, for the requests that carry a generation, a member id and an instance id.
SPEAKERS = {
    "leader": "{leader}'' {api} generation={G}{rest}",
    "leader, generation before": "{leader}'' {api} generation={G-1}{rest}",
    "leader, generation after": "{leader}'' {api} generation={G+1}{rest}",
    "leader, no generation": "{leader}'' {api} generation=-1{rest}",
    "leader, an instance id nobody has": "{leader}'' {api} generation={G} instance=nobody{rest}",
    "leader, its instance id": "{static}'' {api} generation={G} instance={static}{rest}",
    "leader, its instance id, generation before": "{static}'' {api} generation={G-1} instance={static}{rest}",
    "leader, the follower's instance id": "{static}'' {api} generation={G} instance={static-follower}{rest}",
    "follower": "{follower}'' {api} generation={G}{rest}",
    "follower, generation before": "{follower}'' {api} generation={G-1}{rest}",
    "follower, its instance id": "{static-follower}'' {api} generation={G} instance={static-follower}{rest}",
    "pending id": "{pending}'' {api} generation={G}{rest}",
    "pending id, no generation": "{pending}'' {api} generation=-1{rest}",
    "pending id, an instance id nobody has": "{pending}'' {api} generation={G} instance=nobody{rest}",
    "replaced id": "x {api} id={replaced} generation={G}{rest}",
    "replaced id with its instance id": "x {api} id={replaced} instance={static-follower} generation={G}{rest}",
    "replaced id with its instance id, generation before": (
        "x {api} id={replaced} instance={static-follower} generation={G-1}{rest}"
    ),
    "unknown id": "x {api} id=x-unknown generation={G}{rest}",
    "unknown id, no generation": "x {api} id=x-unknown generation=-1{rest}",
    "unknown id, an instance id nobody has": "x {api} id=x-unknown instance=nobody generation={G}{rest}",
    "unknown id, the follower's instance id": "x {api} id=x-unknown instance={static-follower} generation={G}{rest}",
    "no id": 'x {api} id="" generation={G}{rest}',
    "no id, no generation": 'x {api} id="" generation=-1{rest}',
    "no id, the follower's instance id": 'x {api} id="" instance={static-follower} generation={G}{rest}',
    "empty group id": 'x {api} group="" id="" generation=-1{rest}',
    "no group id": 'x {api} group=null id="" generation=-1{rest}',
}

SYNCS = {
    "leader, v4 without protocol fields": "{leader}'' SyncGroup v=4 generation={G} type=null name=null plan={plan}",
    "leader, v5 without protocol type": "{leader}'' SyncGroup generation={G} type=null name=range plan={plan}",
    "leader, v5 without protocol name": "{leader}'' SyncGroup generation={G} type=consumer name=null plan={plan}",
    "leader, another protocol type": "{leader}'' SyncGroup generation={G} type=connect name=range plan={plan}",
    "leader, another protocol name": "{leader}'' SyncGroup generation={G} type=consumer name=sticky plan={plan}",
    "leader, another type, generation before": (
        "{leader}'' SyncGroup generation={G-1} type=connect name=range plan={plan}"
    ),
    "leader, no assignments": "{leader}'' SyncGroup generation={G} type=consumer name=range",
    "follower, with assignments": "{follower}'' SyncGroup generation={G} type=consumer name=range plan={plan}",
    "follower, another protocol name": "{follower}'' SyncGroup generation={G} type=consumer name=sticky",
}

JOINS = {
    "newcomer v0": 'x JoinGroup v=0 id=""',
    "newcomer v1": 'x JoinGroup v=1 id=""',
    "newcomer v3": 'x JoinGroup v=3 id=""',
    "newcomer v4": 'x JoinGroup v=4 id=""',
    "newcomer v9": 'x JoinGroup v=9 id=""',
    "newcomer, another protocol type": 'x JoinGroup v=3 id="" type=connect',
    "newcomer, no protocol type": 'x JoinGroup v=3 id="" type=""',
    "newcomer, no common protocol": 'x JoinGroup v=3 id="" protocols=other:S',
    "newcomer, no protocols": 'x JoinGroup v=3 id="" protocols=none',
    "newcomer v9, no common protocol": 'x JoinGroup v=9 id="" protocols=other:S',
    "newcomer, session timeout too short": 'x JoinGroup v=9 id="" session=5999ms',
    "newcomer, session timeout too long": 'x JoinGroup v=9 id="" session=1800001ms',
    "newcomer, empty group id": 'x JoinGroup v=9 group="" id=""',
    "newcomer, no group id": 'x JoinGroup v=9 group=null id=""',
    "new static v5": 'x JoinGroup v=5 id="" instance=x',
    "new static v9": 'x JoinGroup v=9 id="" instance=x',
    "unknown id": "x JoinGroup v=9 id=x-unknown",
    "unknown id v3": "x JoinGroup v=3 id=x-unknown",
    "unknown id, an instance id nobody has": "x JoinGroup v=9 id=x-unknown instance=nobody",
    "unknown id, the follower's instance id": "x JoinGroup v=9 id=x-unknown instance={static-follower}",
    "pending id": "{pending}'' JoinGroup v=9",
    "pending id, no common protocol": "{pending}'' JoinGroup v=9 protocols=other:S",
    "pending id, an instance id": "{pending}'' JoinGroup v=9 instance=nobody",
    "leader, nothing changed v3": "{leader}'' JoinGroup v=3",
    "leader, nothing changed v9": "{leader}'' JoinGroup v=9",
    "leader, changed": "{leader}'' JoinGroup v=9 protocols=range:changed",
    "leader, no common protocol": "{leader}'' JoinGroup v=9 protocols=other:S",
    "leader, another protocol type": "{leader}'' JoinGroup v=9 type=connect",
    "leader, an instance id nobody has": "{leader}'' JoinGroup v=9 instance=nobody",
    "leader, its instance id": "{static}'' JoinGroup v=9 instance={static}",
    "leader, the follower's instance id": "{static}'' JoinGroup v=9 instance={static-follower}",
    "follower, nothing changed v3": "{follower}'' JoinGroup v=3",
    "follower, nothing changed v9": "{follower}'' JoinGroup v=9",
    "follower, changed": "{follower}'' JoinGroup v=9 protocols=range:changed",
    "follower, its instance id": "{static-follower}'' JoinGroup v=9 instance={static-follower}",
    "leader restarts v5": "{static}'' JoinGroup v=5 id=\"\" instance={static}",
    "leader restarts v9": "{static}'' JoinGroup v=9 id=\"\" instance={static}",
    "follower restarts v5": "{static-follower}'' JoinGroup v=5 id=\"\" instance={static-follower}",
    "follower restarts v9": "{static-follower}'' JoinGroup v=9 id=\"\" instance={static-follower}",
    "follower restarts, changed": (
        "{static-follower}'' JoinGroup v=9 id=\"\" instance={static-follower} protocols=range:changed"
    ),
    "follower restarts, no common protocol": (
        "{static-follower}'' JoinGroup v=9 id=\"\" instance={static-follower} protocols=other:S"
    ),
    "replaced id": "x JoinGroup v=9 id={replaced}",
    "replaced id with its instance id": "x JoinGroup v=9 id={replaced} instance={static-follower}",
}

LEAVES = {
    "leader v2": "{leader}'' LeaveGroup v=2",
    "leader": "{leader}'' LeaveGroup",
    "follower": "{follower}'' LeaveGroup",
    "leader twice": "{leader}'' LeaveGroup members=${leader},${leader}",
    "leader and follower": "{leader}'' LeaveGroup members=${leader},${follower}",
    "leader, an instance id nobody has": "{leader}'' LeaveGroup members=${leader}/nobody",
    "leader, the follower's instance id": "{static}'' LeaveGroup members=${static}/{static-follower}",
    "leader, its instance id": "{static}'' LeaveGroup members=${static}/{static}",
    "administrator, the follower's instance id": "x LeaveGroup members=/{static-follower}",
    "administrator, an instance id nobody has": "x LeaveGroup members=/nobody",
    "administrator, nobody named": "x LeaveGroup members=none",
    "pending id": "{pending}'' LeaveGroup",
    "pending id, an instance id nobody has": "{pending}'' LeaveGroup members=${pending}/nobody",
    "replaced id": "x LeaveGroup members={replaced}",
    "replaced id with its instance id": "x LeaveGroup members={replaced}/{static-follower}",
    "unknown id v2": "x LeaveGroup v=2 members=x-unknown",
    "unknown id": "x LeaveGroup members=x-unknown",
    "unknown id and the follower": "x LeaveGroup members=x-unknown,${follower}",
    "no id": 'x LeaveGroup members=""',
    "empty group id": 'x LeaveGroup group="" members=x-unknown',
    "no group id": "x LeaveGroup group=null members=x-unknown",
}

COMMITS = {
    "unknown id v8": "x OffsetCommit v=8 id=x-unknown generation={G} t/0=5",
    "leader v2, with a retention time": "{leader}'' OffsetCommit v=2 generation={G} retention=1s t/0=5",
    "leader, metadata too long everywhere": "{leader}'' OffsetCommit generation={G} t/0=5:m*4097",
    "leader, metadata too long": "{leader}'' OffsetCommit generation={G} t/0=5:m*4097 t/1=6",
}

OTHERS = {
    "OffsetFetch": {
        "what was never committed": "x OffsetFetch t/7",
        "everything": "x OffsetFetch all",
        "a partition and stable": "x OffsetFetch t/0 stable",
        "empty group id": 'x OffsetFetch group="" all',
        "no group id": "x OffsetFetch group=null all",
    },
    "DescribeGroup": {
        "v5": "x DescribeGroup v=5",
        "v6": "x DescribeGroup v=6",
        "empty group id": 'x DescribeGroup group=""',
        "no group id": "x DescribeGroup group=null",
    },
    "ListGroups": {
        "everything": "x ListGroups",
        "Stable": "x ListGroups states=Stable",
        "Empty": "x ListGroups states=Empty",
        "classic": "x ListGroups types=classic",
        "consumer": "x ListGroups types=consumer",
    },
    "DeleteGroup": {
        "the group": "x DeleteGroup",
        "empty group id": 'x DeleteGroup group=""',
        "no group id": "x DeleteGroup group=null",
    },
    "OffsetDelete": {
        "a partition": "x OffsetDelete t/0",
        "what was never committed": "x OffsetDelete u/7",
        "empty group id": 'x OffsetDelete group="" t/0',
        "no group id": "x OffsetDelete group=null t/0",
    },
}

#: What a request needs behind the identity.
RESTS = {"SyncGroup": " type=consumer name=range plan={plan}", "Heartbeat": "", "OffsetCommit": " t/0=5"}


def columns() -> Iterator[Column]:
    """Every column, in the order of the files."""
    for identity, step in JOINS.items():
        yield Column("JoinGroup", identity, step)
    for api, rest in RESTS.items():
        for identity, step in SPEAKERS.items():
            yield Column(api, identity, step.replace("{api}", api).replace("{rest}", rest))
        for identity, step in {"SyncGroup": SYNCS, "OffsetCommit": COMMITS}.get(api, {}).items():
            yield Column(api, identity, step)
    for identity, step in LEAVES.items():
        yield Column("LeaveGroup", identity, step)
    for api, steps in OTHERS.items():
        for identity, step in steps.items():
            yield Column(api, identity, step)
