"""`rota cluster`: several servers that share groups over an engine, for those who operate them (docs/cluster.md)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from rota.arguments import INT32_MAX
from rota.cluster import looking, rendering, transfer
from rota.cluster.looking import SERVING, STATE_TOPIC, Image, Partition, image, moving, observed
from rota.cluster.reaching import Named, Reached, on_cluster, on_engine
from rota.exits import FAILED, MISUSED
from rota.log import OFFSETS_TOPIC

WAIT_AGAIN_S = 0.1
TIMEOUT_MS = 60_000

app = typer.Typer(
    help="Look at and change several servers that share groups over an engine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NodeNumber = Annotated[
    int, typer.Argument(metavar="NODE", min=0, max=INT32_MAX, help="The node id of a server.", show_default=False)
]
PartitionNumber = Annotated[
    int,
    typer.Argument(
        metavar="PARTITION",
        min=0,
        max=INT32_MAX,
        help="A partition of __consumer_offsets, with --transactions one of __transaction_state.",
        show_default=False,
    ),
]
Transactions = Annotated[
    bool, typer.Option("--transactions/--no-transactions", help="PARTITION is one of __transaction_state.")
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]
Timeout = Annotated[
    int, typer.Option("--timeout-ms", min=1, max=3_600_000, metavar="MS", help="Time to wait until it is done.")
]


@app.callback()
def main() -> None:
    """Look at and change several servers that share groups over an engine."""


DONE = {
    "made": "has the tables of a cluster now",
    "upgraded": "has the tables of this version now",
    "unchanged": "had the tables already",
    "not needed": "needs no preparation",
}
"""What `rota cluster init` did."""


@app.command()
@on_engine
def init(engine: Named) -> None:
    """Make the tables of a cluster in PostgreSQL, or upgrade them after an upgrade of rota.

    etcd needs none. Nothing changes if they are there. Exit code 0: servers can start. 1: a newer rota made the tables.
    2: usage error. 5: the engine did not answer.

    \b
    Examples:
      rota cluster init --engine postgres://rota@h1:5432,h2:5432/rota
      rota cluster init --config rota.toml --json
    """
    name, done = engine.prepare()
    if engine.as_json:
        typer.echo(json.dumps({"engine": name, "done": done}, indent=2))
    else:
        typer.echo(f"{name} {DONE[done]}")


@app.command()
@on_cluster
def status(cluster: Reached) -> None:
    """Show in a few lines whether a cluster is well.

    Nodes that do not beat are waited for, for a TTL. Exit code 0: every partition has an owner that lives, and nothing
    else is wrong. 1: the last lines name what is wrong. 2: usage error. 3: no cluster has this prefix. 5: the engine
    did not answer.

    \b
    Examples:
      rota cluster status --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster status --config rota.toml --json | jq .troubles
    """
    found, alive = observed(cluster.engine, cluster.tell)
    members, alarms = looking.members(cluster.engine), cluster.engine.alarms()
    kind = cluster.engine.kind
    troubles = looking.troubles(found, alive, kind, members, alarms)
    facts = rendering.cluster_facts(cluster.engine.name, found) | {
        "nodes": len(alive),
        "alive": sorted(node_id for node_id, lives in alive.items() if lives),
        "partitions": len(found.partitions),
        "owned": sum(found.owned().values()),
        "moving": [row.partition for row in found.moving()],
        kind: [rendering.member_facts(member) for member in members],
        "alarms": [alarm for _, alarm in alarms],
        "troubles": troubles,
    }
    warnings = [f"{member.address}: {error}" for member in members for error in member.errors]
    lines = [*rendering.summary(cluster.engine.name, kind, found, alive, members), *warnings, *(troubles or ["OK"])]
    cluster.show(facts, lines)
    raise typer.Exit(FAILED if troubles else 0)


@app.command()
@on_cluster
def describe(
    cluster: Reached,
    sizes: Annotated[
        bool, typer.Option("--bytes", help="Read all partitions from the engine, and show how large they are.")
    ] = False,
) -> None:
    """Show nodes, partitions with owners and epochs, and the members of the engine.

    Exit code 0: the cluster was shown. 2: usage error. 3: no cluster has this prefix. 5: the engine did not answer.

    \b
    Examples:
      rota cluster describe --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster describe --config rota.toml --bytes
      rota cluster describe --config rota.toml --json | jq '.nodes[] | select(.is_alive | not)'
    """
    found, alive = observed(cluster.engine, cluster.tell)
    members, alarms = looking.members(cluster.engine), cluster.engine.alarms()
    contents: dict[int, tuple[int, int, int]] | None = {} if sizes else None
    if contents is not None:
        for row in found.partitions:
            cluster.tell(f"reads partition {row.partition} of {len(found.partitions)}")
            contents[row.partition] = cluster.engine.content(row.partition)
    names = ("entries", "entry_bytes", "snapshot_bytes")
    facts = rendering.cluster_facts(cluster.engine.name, found) | {
        "nodes": [
            rendering.node_facts(found, node, alive[node_id])
            for node_id, node in found.nodes.items()
            if node_id in alive
        ],
        "partitions": [
            rendering.partition_facts(row)
            | ({} if contents is None else dict(zip(names, contents[row.partition], strict=True)))
            for row in found.partitions
        ],
        "transaction_partitions": [rendering.partition_facts(row) for row in found.transactions],
        cluster.engine.kind: [rendering.member_facts(member) for member in members],
        "alarms": [{"member_id": f"{member_id:x}", "alarm": alarm} for member_id, alarm in alarms],
    }
    lines = [
        f"cluster {rendering.shown(found.cluster_id)} on {cluster.engine.name}",
        f"history {found.history}, format {found.format}, TTL {found.ttl_ms} ms",
        "",
        *rendering.nodes(found, alive),
        "",
        *rendering.partitions(found.partitions, contents),
        *rendering.unserved(found),
        "",
        *rendering.members(cluster.engine.kind, members),
        *(f"etcd member {member_id:x} raised {alarm}" for member_id, alarm in alarms),
    ]
    cluster.show(facts, lines)


class Placement(NamedTuple):
    """The partitions of a topic, and those that are to move or that an operator has placed."""

    rows: list[Partition]
    moving: list[Partition]
    pinned: list[Partition]

    @staticmethod
    def of(rows: list[Partition]) -> Placement:
        """Find those of a topic's partitions."""
        return Placement(rows, moving(rows), [row for row in rows if row.pin is not None])

    def facts(self) -> dict[str, Any]:
        """Return them by kind, for --json."""
        kinds = {"moving": self.moving, "pinned": self.pinned}
        return {kind: [rendering.partition_facts(row) for row in rows] for kind, rows in kinds.items()}

    def line(self, what: str) -> str:
        """How many there are of each."""
        return f"{len(self.moving)} of {len(self.rows)} {what} move, {len(self.pinned)} are pinned"

    def table(self, *heads: str) -> list[str]:
        """Those that move or are pinned; nothing if none is."""
        shown = [row for row in self.rows if row in self.moving or row in self.pinned]
        return ["", *heads, *rendering.partitions(shown)] if shown else []


@app.command()
@on_cluster
def plan(cluster: Reached) -> None:
    """Show which partitions are to move, which are placed by an operator, and which nodes are drained.

    The node with the lowest id that lives writes the plan. Exit code 0: it was shown. 2: usage error. 3: no cluster has
    this prefix. 5: the engine did not answer.

    \b
    Examples:
      rota cluster plan --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster plan --config rota.toml --json | jq .moving
    """
    found = image(cluster.engine)
    groups, transactions = Placement.of(found.partitions), Placement.of(found.transactions)
    drained = [node.node_id for node in found.nodes.values() if node.is_drained]
    facts = groups.facts() | {"transactions": transactions.facts(), "drained": drained}
    nodes = f"drained: {', '.join(map(str, drained)) or 'no node'}"
    lines = [groups.line("partitions"), transactions.line("partitions of transactions"), nodes]
    cluster.show(facts, [*lines, *groups.table(), *transactions.table("of transactions:")])


def wait_for(
    cluster: Reached, timeout_ms: int, is_done: Callable[[Image], bool], doing: Callable[[Image], str]
) -> None:
    """Wait until the cluster is as it should be; ends the command after the timeout."""
    deadline = time.monotonic() + timeout_ms / 1000
    while not is_done(found := image(cluster.engine)):
        if time.monotonic() >= deadline:
            cluster.fail(FAILED, f"after {timeout_ms} ms {doing(found)}; `rota cluster plan` shows what is to come")
        cluster.tell(doing(found))
        time.sleep(WAIT_AGAIN_S)


@app.command()
@on_cluster
def move(
    cluster: Reached,
    partition: PartitionNumber,
    node: NodeNumber,
    transactions: Transactions = False,
    wait: Wait = True,
    timeout_ms: Timeout = TIMEOUT_MS,
) -> None:
    """Give a partition to a node, and keep it there while the node lives.

    The node coordinates its groups then, with --transactions its transactional ids. `rota cluster unpin` lets the
    planner place it again. Exit code 0: the node has it. 1: the node is silent or drained, or does not have it in time.
    2: usage error. 3: no such node, partition or cluster. 5: the engine did not answer.

    \b
    Examples:
      rota cluster move 7 3 --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster move 7 3 --transactions --config rota.toml
      rota cluster move 7 3 --config rota.toml --no-wait
    """
    _, alive = observed(cluster.engine, cluster.tell, only=node)
    what = named(partition, transactions)
    if alive.get(node) is False:
        cluster.fail(FAILED, f"node {node} is silent and cannot take {what}: start it first")
    cluster.engine.pin(partition, node, transactions)

    def is_there(found: Image) -> bool:
        row = (found.transactions if transactions else found.partitions)[partition]
        return row.is_held and row.owner == node

    if wait:
        wait_for(cluster, timeout_ms, is_there, lambda _: f"{what} is not with node {node} yet")
    facts = {"topic": topic_of(transactions), "partition": partition, "node": node, "is_done": wait}
    cluster.show(facts, [f"node {node} {'has' if wait else 'will have'} {what}"])


def topic_of(transactions: bool) -> str:
    """The topic of a partition."""
    return STATE_TOPIC if transactions else OFFSETS_TOPIC


def named(partition: int, transactions: bool) -> str:
    """A partition in a sentence."""
    return f"partition {partition} of {topic_of(transactions)}"


@app.command()
@on_cluster
def unpin(cluster: Reached, partition: PartitionNumber, transactions: Transactions = False) -> None:
    """Let the planner place a partition that was moved to a node.

    Exit code 0: it may move. 2: usage error. 3: no such partition or cluster. 5: the engine did not answer.

    \b
    Examples:
      rota cluster unpin 7 --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster unpin 7 --transactions --config rota.toml
    """
    has_changed = cluster.engine.unpin(partition, transactions)
    line = f"{named(partition, transactions)} {'may move' if has_changed else 'was not pinned'}"
    cluster.show({"topic": topic_of(transactions), "partition": partition, "has_changed": has_changed}, [line])


@app.command()
@on_cluster
def drain(cluster: Reached, node: NodeNumber, wait: Wait = True, timeout_ms: Timeout = TIMEOUT_MS) -> None:
    """Move all partitions of a node to other nodes, and give it no new ones.

    The node goes on to answer for the topics that it leads. Exit code 0: it owns nothing. 1: no other node could take
    its partitions, or did not in time. 2: usage error. 3: no such node or cluster. 5: the engine did not answer.

    \b
    Examples:
      rota cluster drain 3 --engine etcd://h1:2379,h2:2379,h3:2379/rota
      rota cluster drain 3 --config rota.toml --json
    """
    found, alive = observed(cluster.engine, cluster.tell)

    def takes(other: int) -> bool:
        row = found.nodes[other]
        return other != node and alive.get(other, False) and row.state == SERVING and not row.is_drained

    if node in found.nodes and not any(map(takes, found.nodes)):
        cluster.fail(
            FAILED, f"node {node} cannot be drained: no other node that lives takes partitions; start one first"
        )
    cluster.engine.drain(node)
    if wait:
        wait_for(
            cluster,
            timeout_ms,
            lambda now: now.held(node) == 0,
            lambda now: f"node {node} still owns {now.held(node)} partitions",
        )
    line = f"node {node} owns nothing" if wait else f"node {node} is being drained"
    cluster.show({"node": node, "is_done": wait}, [line])


@app.command()
@on_cluster
def undrain(cluster: Reached, node: NodeNumber) -> None:
    """Let a node that was drained own partitions again.

    Exit code 0: the planner gives it partitions. 2: usage error. 3: no such node or cluster. 5: the engine did not
    answer.

    \b
    Examples:
      rota cluster undrain 3 --engine etcd://h1:2379,h2:2379,h3:2379/rota
    """
    has_changed = cluster.engine.undrain(node)
    line = f"node {node} gets partitions again" if has_changed else f"node {node} was not drained"
    cluster.show({"node": node, "has_changed": has_changed}, [line])


@app.command()
@on_cluster
def forget(
    cluster: Reached,
    node: NodeNumber,
    force: Annotated[bool, typer.Option("--force", help="Also if it leads topics, whose messages are lost.")] = False,
) -> None:
    """Remove a node that is gone for good from the list of nodes.

    A server that starts with its id later is a new node. Exit code 0: it is forgotten. 1: it lives, owns partitions or
    leads topics. 2: usage error. 3: no such node or cluster. 5: the engine did not answer.

    \b
    Examples:
      rota cluster forget 3 --engine etcd://h1:2379,h2:2379,h3:2379/rota
    """
    found, alive = observed(cluster.engine, cluster.tell, only=node)
    if alive.get(node):
        cluster.fail(FAILED, f"node {node} lives: stop it first, with SIGTERM")
    led = found.led(node)
    if led and not force:
        named = ", ".join(led[:3]) + (f" and {len(led) - 3} more" if len(led) > 3 else "")
        cluster.fail(
            FAILED, f"node {node} leads topics, whose messages only it has: {named}; start it, or give --force"
        )
    cluster.engine.forget(node)
    cluster.show({"node": node, "led_topics": led}, [f"node {node} is forgotten"])


@app.command()
@on_cluster
def mend(cluster: Reached) -> None:
    """Give the engine's space back.

    etcd: compact old revisions, defragment each member, the leader last, and end its alarm. A member answers nothing
    while it is defragmented, so servers go to the others. PostgreSQL: vacuum. Exit code 0: the engine takes writes. 1:
    an alarm is still there. 2: usage error. 3: no cluster has this prefix. 5: the engine did not answer.

    \b
    Examples:
      rota cluster mend --engine etcd://h1:2379,h2:2379,h3:2379/rota
    """
    steps: list[str] = []

    def tell(step: str) -> None:
        steps.append(step)
        if not cluster.as_json:
            typer.echo(step)

    cluster.engine.mend(tell)
    alarms = cluster.engine.alarms()
    members = looking.members(cluster.engine)
    facts = {
        "steps": steps,
        "alarms": [{"member_id": f"{member_id:x}", "alarm": alarm} for member_id, alarm in alarms],
        cluster.engine.kind: [rendering.member_facts(member) for member in members],
    }
    cluster.show(facts, rendering.members(cluster.engine.kind, members))
    if alarms:
        named = ", ".join(f"{alarm} of member {member_id:x}" for member_id, alarm in alarms)
        cluster.fail(FAILED, f"etcd still has an alarm: {named}; give it a larger --quota-backend-bytes, or replace it")


@app.command("accept-loss")
@on_cluster
def accept_loss(
    cluster: Reached,
    yes: Annotated[bool, typer.Option("--yes", help="Do it: there is no way back.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also while servers are members.")] = False,
) -> None:
    """Let a cluster go on after its engine lost confirmed writes, as after a restore of a backup.

    It begins a new history: servers that stopped join again with what the engine has now. Commits after the backup are
    lost. Exit code 0: a new history has begun. 1: servers are members. 2: usage error. 3: no cluster has this prefix.
    5: the engine did not answer.

    \b
    Examples:
      rota cluster accept-loss --yes --engine etcd://h1:2379,h2:2379,h3:2379/rota
    """
    if not yes:
        cluster.fail(MISUSED, "commits that the engine has lost stay lost, and there is no way back: give --yes")
    _, alive = observed(cluster.engine, cluster.tell)
    living = [str(node) for node, lives in sorted(alive.items()) if lives]
    if living and not force:
        nodes = f"node {living[0]} is a member" if len(living) == 1 else f"nodes {', '.join(living)} are members"
        cluster.fail(FAILED, f"{nodes} and would join anew: stop all servers first, with SIGTERM, or give --force")
    lost, begun = cluster.engine.accept_loss()
    cluster.show({"lost_history": lost, "history": begun}, [f"history {begun} has begun; {lost} is over"])


app.command("export")(transfer.export)
app.command("import")(transfer.import_)
