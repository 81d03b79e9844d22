"""The facts that an explanation of the coordinator holds, and its parts as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.why import facts, words
from rota.why.sentence import why

if TYPE_CHECKING:
    from rota import _rota

NEVER_MS = 2**64 - 1
"""A deadline that does not come."""


def wait_facts(wait: _rota.Wait, now_ms: int) -> facts.Wait:
    """One wait, as of `now_ms`."""
    ends_in_ms = None if wait.until_ms == NEVER_MS else wait.until_ms - now_ms
    return {
        "what": wait.what,
        "member_id": wait.member_id,
        "ends_in_ms": ends_in_ms,
        "heartbeats": wait.heartbeats,
        "is_static": wait.is_static,
    }


def departure_facts(departure: _rota.Departure, now_ms: int) -> facts.Departure:
    """One departure, as of `now_ms`."""
    return {
        "member_id": departure.member_id,
        "how": departure.how,
        "reason": departure.reason,
        "ago_ms": now_ms - departure.at_ms,
    }


def rebalance_facts(rebalance: _rota.Rebalance, now_ms: int) -> facts.Rebalance:
    """One rebalance, as of `now_ms`."""

    def after(ended_ms: int | None) -> int | None:
        return None if ended_ms is None else ended_ms - rebalance.began_ms

    return {
        "cause": rebalance.cause,
        "member_id": rebalance.member_id,
        "reason": rebalance.reason,
        "from_generation": rebalance.from_generation,
        "to_generation": rebalance.to_generation,
        "began_ago_ms": now_ms - rebalance.began_ms,
        "joined_after_ms": after(rebalance.joined_ms),
        "settled_after_ms": after(rebalance.settled_ms),
        "departures": [departure_facts(departure, now_ms) for departure in rebalance.departures],
    }


def group_facts(explanation: _rota.Explanation) -> facts.Group:
    """What an explanation says of a group."""
    now_ms = explanation.now_ms
    return {
        "state": explanation.state,
        "generation": explanation.generation,
        "in_state_ms": now_ms - explanation.since_ms,
        "waiting": [wait_facts(wait, now_ms) for wait in explanation.waiting],
        "rebalances": [rebalance_facts(rebalance, now_ms) for rebalance in explanation.rebalances],
        "protocol": explanation.protocol,
        "target_epoch": explanation.target_epoch,
    }


def of_explanation(explanation: _rota.Explanation) -> str:
    """`str()` of an explanation."""
    return why(group_facts(explanation)).sentence


def of_wait(wait: _rota.Wait) -> str:
    """`str()` of a wait."""
    who = words.short(wait.member_id)
    if wait.heartbeats and wait.what in words.STALLS:
        return f"{words.stall(wait.what, who, is_one=True)} (until {wait.until_ms} ms)"
    return f"waiting {words.wait(wait.what, who)} (until {wait.until_ms} ms)"


def of_departure(departure: _rota.Departure) -> str:
    """`str()` of a departure."""
    return words.departure(departure.how, departure.member_id, departure.reason)


def of_rebalance(rebalance: _rota.Rebalance) -> str:
    """`str()` of a rebalance."""
    generations = f"after generation {rebalance.from_generation}"
    if rebalance.to_generation is not None:
        generations = f"generation {rebalance.from_generation} to {rebalance.to_generation}"
    text = f"{generations}: {words.cause(rebalance.cause, rebalance.member_id, rebalance.reason)}"
    if rebalance.settled_ms is not None:
        text += f" (settled after {words.seconds(rebalance.settled_ms - rebalance.began_ms)})"
    for departure in rebalance.departures:
        text += f"; {words.seconds(departure.at_ms - rebalance.began_ms)} later {of_departure(departure)}"
    return text
