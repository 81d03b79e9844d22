"""Why a group is where it is: its state, what it waits for, and the chain of causes, as one sentence.

Pure functions over plain values: the same for a live server, for `/groups/{id}` and for a log that is read afterwards.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, NamedTuple

from rota.why import words
from rota.why.facts import Group, Member, Rebalance, Transaction, Wait

NAMED_MEMBERS = 3
"""How many members one phrase names."""

NAMED_TRANSACTIONS = 3
"""How many transactions one sentence names."""

LINKS = 3
"""How many causes one sentence goes back."""

OFTEN, LATELY_MS = 5, 60_000
"""So many rebalances within such a time are worth a word."""


SETTLED = ("Empty", "Stable")
CONSUMER = "consumer"
UNKNOWN_PAST = "it was loaded from the log, which does not say since when"


class Why(NamedTuple):
    """The parts of the sentence."""

    state: str
    """`PreparingRebalance for 31.0 s`."""
    waits: list[str]
    """`for consumer-3-1f0c8a2e… to rejoin, whose session ends in 14.0 s`; empty while nothing is missing."""
    because: list[str]
    """The causes, the latest first; each but the last interrupted the one that follows."""
    beside: list[str]
    """What else an operator should know: rebalances that are frequent, a member that is about to expire."""
    is_over: bool
    """Whether the latest rebalance has ended."""
    stalls: list[str]
    """The members that heartbeat and hold the group up, and when that ends."""
    is_change: bool = False
    """Whether the latest entry is a change of the group's protocol that began no rebalance."""

    def _link(self) -> str:
        if not self.is_over:
            return "it began because "
        return "last change: " if self.is_change else "last rebalance: "

    @property
    def sentence(self) -> str:
        """All of it."""
        text = self.state
        holds = [*self.stalls, *([f"waiting {', '.join(self.waits)}"] if self.waits else [])]
        if holds:
            text += f": {'; '.join(holds)}"
        if self.because:
            text += f"; {self._link()}{self.because[0]}"
            text += "".join(f", amid the rebalance that began because {cause}" for cause in self.because[1:])
        return "; ".join([text, *self.beside])


def why(group: Group) -> Why:
    """The sentence about a group."""
    group = _with_names(group)
    rebalances = group["rebalances"]
    is_over = not rebalances or rebalances[-1]["settled_after_ms"] is not None
    state = f"{group['state']} for {words.seconds(group['in_state_ms'])}"
    is_loaded = not rebalances and not group["waiting"] and group["state"] in SETTLED
    if is_loaded:
        # History is in memory: a group without any was loaded, and came to its state before that.
        state += " or longer"
    if group.get("protocol") == CONSUMER:
        state += f", {_epochs(group)}"
    elif not group["waiting"]:
        state += f", generation {group['generation']}"
    beside = [UNKNOWN_PAST] if is_loaded and group["generation"] > 0 else list(_frequent(rebalances))
    beside += map(_holds, group.get("transactions", [])[:NAMED_TRANSACTIONS])
    if is_over:
        beside += _about_to_expire(group.get("members", []))
    stalled = [wait for wait in group["waiting"] if wait.get("heartbeats") and wait["what"] in words.STALLS]
    silent = [wait for wait in group["waiting"] if wait not in stalled]
    unnamed = group.get("waits", len(group["waiting"])) - len(group["waiting"])
    if stalled and not silent:
        # Of those that are left out, the facts do not say which kind they are.
        stalls, waits = _stalls(stalled), [f"for {unnamed} more"] if unnamed else []
    else:
        stalls, waits = _stalls(stalled), _waits(group, silent, unnamed)
    return Why(state, waits, _because(rebalances), beside, is_over, stalls, _is_change(rebalances))


def _with_names(group: Group) -> Group:
    """The facts with the client ids of members whose own ids say nothing."""
    members = group.get("members", [])
    names = {one["member_id"]: words.named(one["member_id"], one.get("client_id")) for one in members}
    names = {member_id: name for member_id, name in names.items() if name != words.short(member_id)}
    if not names:
        return group

    def named(facts: Iterable[Any]) -> list[Any]:
        return [{**one, "member_id": names.get(one["member_id"], one["member_id"])} for one in facts]

    return {
        **group,
        "waiting": named(group["waiting"]),
        "members": named(members),
        "rebalances": named(group["rebalances"]),
    }


def _is_change(rebalances: list[Rebalance]) -> bool:
    """Whether the latest entry has changed the protocol of the group and nothing else."""
    return bool(rebalances) and rebalances[-1]["from_generation"] == rebalances[-1]["to_generation"]


def _epochs(group: Group) -> str:
    epoch, target_epoch = group["generation"], group.get("target_epoch")
    behind = "" if target_epoch in (None, epoch) else f" (target of epoch {target_epoch})"
    return f"epoch {epoch}{behind}"


def _because(rebalances: list[Rebalance]) -> list[str]:
    """The latest cause, and those of the rebalances that it interrupted."""
    chain: list[str] = []
    for rebalance in reversed(rebalances[-LINKS:]):
        if chain and rebalance["settled_after_ms"] is not None:
            break
        chain.append(words.cause(rebalance["cause"], rebalance["member_id"], rebalance["reason"]))
    return chain


def _frequent(rebalances: list[Rebalance]) -> Iterable[str]:
    lately = sum(rebalance["began_ago_ms"] <= LATELY_MS for rebalance in rebalances)
    if lately >= OFTEN:
        yield f"{lately} rebalances began within the last {LATELY_MS // 1000} s"


ASKED = "kafka-python admin -b HOST:PORT transactions"
"""The command that shows transactions of any server."""


def _holds(transaction: Transaction) -> str:
    """`transaction pay-7, open for 41.0 s, holds back offsets of orders 3, and is aborted in 19.0 s`."""
    name, what = transaction["transactional_id"], f"holds back offsets of {words.places(transaction['partitions'])}"
    coordinator = transaction.get("coordinator")
    if coordinator is not None:
        where = f"which {coordinator} coordinates"
        asked = f"{ASKED} {'list' if name is None else f'describe --transactional-id {shlex.quote(name)}'}"
        subject = (
            f"transaction {words.printable(name)}"
            if name
            else f"a transaction of producer {transaction['producer_id']}"
        )
        return f"{subject}, {where}, {what}; `{words.printable(asked)}` shows its state"
    if name is None:
        return f"a transaction of producer {transaction['producer_id']} {what}"
    left_ms = transaction["aborted_in_ms"]
    if left_ms is None:
        end = "committed" if transaction["state"] == "PrepareCommit" else "aborted"
        return f"transaction {words.printable(name)}, which is being {end}, {what}"
    open_for = words.seconds(transaction["open_for_ms"] or 0)
    return (
        f"transaction {words.printable(name)}, open for {open_for}, {what}, and is aborted in {words.seconds(left_ms)}"
    )


def _about_to_expire(members: list[Member]) -> Iterable[str]:
    """The member that is nearest to the end of its session, once less than a third of that is left."""
    running = [(member["expires_in_ms"], member) for member in members if member["expires_in_ms"] is not None]
    left_ms, member = min(running, key=lambda entry: entry[0], default=(0, None))
    if member is not None and left_ms * 3 < member["session_timeout_ms"]:
        heard = member["heard_ago_ms"]
        silent = "" if heard is None else f", silent for {words.seconds(heard)},"
        yield f"{words.short(member['member_id'])}{silent} expires in {words.seconds(left_ms)}"


def _stalls(stalled: list[Wait]) -> list[str]:
    """A phrase for the members that heartbeat and hold the group up alike."""
    kinds: dict[tuple[str, bool], list[Wait]] = {}
    for wait in stalled:
        stays = wait["what"] == "Rejoin" and wait.get("is_static", False)
        kinds.setdefault((wait["what"], stays), []).append(wait)
    return [_stall(what, stays, run) for (what, stays), run in kinds.items()]


def _stall(what: str, stays: bool, run: list[Wait]) -> str:
    """`stays`: whether the group goes on without removing them."""
    is_one = len(run) == 1
    who = words.first([words.short(wait["member_id"]) for wait in run], NAMED_MEMBERS)
    whose = "its application is" if is_one else "their applications are"
    phrase = f"{words.stall(what, who, is_one=is_one)}: {whose} probably busy and not polling"
    ends = [wait["ends_in_ms"] for wait in run if wait["ends_in_ms"] is not None]
    if len(ends) < len(run):
        return phrase
    if stays:
        ending = f"the group goes on without {'it' if is_one else 'them'}"
    else:
        ending = "it is removed" if is_one else "they are removed"
    when = f"in {words.seconds(max(ends))}" if max(ends) > 0 else "at once"
    return f"{phrase}; {ending} {when} (rebalance timeout)"


def _waits(group: Group, silent: list[Wait], unnamed: int) -> list[str]:
    """A phrase for each kind of wait; members that are waited for alike share one. `unnamed`: how many are left out."""
    sessions = {member["member_id"]: member["expires_in_ms"] for member in group.get("members", [])}
    kinds: dict[str, list[Wait]] = {}
    for wait in silent:
        kinds.setdefault(wait["what"], []).append(wait)
    phrases = []
    for at, run in enumerate(kinds.values(), start=1):
        more = unnamed if at == len(kinds) else 0
        who = words.first([words.short(wait["member_id"]) for wait in run], NAMED_MEMBERS, more)
        phrase = words.wait(run[0]["what"], who)
        # The end of waits that are left out is not known.
        phrases.append(phrase if more else phrase + _until(run, sessions))
    return phrases


def _until(run: list[Wait], sessions: dict[str, int | None]) -> str:
    """When that ends at the latest, and whether it is a session that does."""
    ends = [wait["ends_in_ms"] for wait in run if wait["ends_in_ms"] is not None]
    if len(ends) < len(run):
        return ""
    first, last = min(ends), max(ends)
    if last <= 0:
        return " (overdue)"
    span = words.seconds(last) if first == last else f"{words.seconds(first)} to {words.seconds(last)}"
    if all(sessions.get(wait["member_id"]) == wait["ends_in_ms"] for wait in run):
        return f", whose session ends in {span}" if len(run) == 1 else f", whose sessions end in {span}"
    return f" (until {span} from now)"
