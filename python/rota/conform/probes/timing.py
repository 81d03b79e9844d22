"""Deadlines: nothing happens before its time, and it happens within a second of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from rota.codec import Fields, apis
from rota.conform.probes.talk import Talk, probe
from rota.conform.rows import Row
from rota.conform.wire import SilentError

SESSION_S = 6.0
REBALANCE_S = 3.0
#: How late a deadline may be met. Kafka's timers are exact to some milliseconds; the machine is not.
SLACK_S = 1.0
#: How early our clock may find it: a request takes time to arrive.
EARLY_S = 0.05
LOOK_S = 0.05
MEETING = (0.15, 1.5)


def rows() -> Iterator[Row]:
    """A row for each deadline."""
    slack = f"at most {SLACK_S:g} s late"
    session = {"wait_s": SESSION_S + SLACK_S, "delay_s": (0.0, 3.5)}
    yield probe(
        "time/session", f"a silent member leaves after its session timeout, {slack}", "7.3", _session, **session
    )
    yield probe(
        "time/heartbeat",
        f"a Heartbeat begins the session timeout again, {slack}",
        "7.2",
        _heartbeat,
        wait_s=2 * SESSION_S,
        delay_s=(0.0, 3.5),
    )
    yield probe(
        "time/commit", f"so does an OffsetCommit, {slack}", "7.2", _commit, needs_topics=True, wait_s=2 * SESSION_S
    )
    yield probe(
        "time/pending", f"an id that is not used is forgotten after its session timeout, {slack}", "4.6", _pending,
        **session,
    )  # fmt: skip
    deadline = {"wait_s": 2 * REBALANCE_S, "delay_s": (0.0, 3.5)}
    yield probe(
        "time/sync", f"who does not sync is removed after the rebalance timeout, {slack}", "6.5", _sync, **deadline
    )
    yield probe("time/rejoin", f"a join phase ends after the rebalance timeout, {slack}", "5.2", _rejoin, **deadline)
    yield probe(
        "time/initial-delay", "two members who join within the initial delay meet in generation 1", "5.3", _meet,
        delay_s=MEETING,
    )  # fmt: skip
    yield probe(
        "time/initial-delay-extended", "a second member prolongs the initial delay, once", "5.3", _extended,
        delay_s=MEETING,
    )  # fmt: skip


def _is_over(talk: Talk, began: float, after_s: float, look: Callable[[], bool], what: str) -> None:
    """Evidence: whether `look` becomes true `after_s` after `began`."""
    until = began + after_s + SLACK_S + 2.0
    while not look():
        if time.monotonic() > until:
            talk.show(what, f"not within {after_s + SLACK_S:g} s")
            return
        talk.pause(time.monotonic() + LOOK_S)
    took_s = time.monotonic() - began
    if took_s < after_s - EARLY_S:
        talk.show(what, f"after less than {after_s:g} s")
    elif took_s > after_s + SLACK_S:
        talk.show(what, f"after more than {after_s + SLACK_S:g} s")
    else:
        talk.show(what, f"after {after_s:g} s")


def _state(talk: Talk) -> Fields:
    version = talk.version("DescribeGroups", 5)
    group: Fields = talk.ask("x", "DescribeGroups", version, {"groups": [talk.group]})["groups"][0]
    return group


def _is_empty(talk: Talk) -> Callable[[], bool]:
    return lambda: not _state(talk)["members"]


def _session(talk: Talk) -> None:
    talk.stable("a", session_timeout_ms=int(SESSION_S * 1_000))
    _is_over(talk, time.monotonic(), SESSION_S, _is_empty(talk), "the member is gone")
    talk.show("the group", f"is {_state(talk)['state']}")


def _prolonged(talk: Talk, speak: Callable[[Fields], None], what: str) -> None:
    joined = talk.stable("a", session_timeout_ms=int(SESSION_S * 1_000))
    talk.pause(time.monotonic() + SESSION_S / 2)
    speak(joined)
    _is_over(talk, time.monotonic(), SESSION_S, _is_empty(talk), f"the member is gone after its {what}")


def _heartbeat(talk: Talk) -> None:
    version = talk.version("Heartbeat", 3)
    _prolonged(talk, lambda joined: _void(talk.ask("a", "Heartbeat", version, talk.speaking(joined))), "Heartbeat")


def _commit(talk: Talk) -> None:
    parts = [{"partition_index": 0, "offset": 5, "leader_epoch": -1, "metadata": ""}]
    topics = [{"name": talk.visit.topic("t"), "partitions": parts}]
    version = talk.version("OffsetCommit", 7)
    _prolonged(
        talk,
        lambda joined: _void(talk.ask("a", "OffsetCommit", version, talk.speaking(joined) | {"topics": topics})),
        "OffsetCommit",
    )


def _void(_answer: Fields) -> None:
    return None


def _pending(talk: Talk) -> None:
    version = talk.version("JoinGroup", 5)
    talk.stable("a", session_timeout_ms=60_000)
    told = talk.ask("b", "JoinGroup", version, talk.joining("b", session_timeout_ms=int(SESSION_S * 1_000)))
    began = time.monotonic()
    heartbeat = {"group_id": talk.group, "generation": 1, "member_id": told["member_id"]}
    early = talk.ask("b", "Heartbeat", talk.version("Heartbeat", 3), heartbeat)
    talk.show("b Heartbeat with an id that is pending", f"error {early['error_code']}")
    talk.pause(began + SESSION_S + SLACK_S)
    late = talk.ask("b", "JoinGroup", version, talk.joining("b", member_id=told["member_id"]))
    talk.show("b JoinGroup with it after that", f"error {late['error_code']}")


def _sync(talk: Talk) -> None:
    talk.join(
        "a", talk.version("JoinGroup", 5), rebalance_timeout_ms=int(REBALANCE_S * 1_000), session_timeout_ms=30_000
    )
    _is_over(talk, time.monotonic(), REBALANCE_S, _is_empty(talk), "the member that has not synced is gone")


def _rejoin(talk: Talk) -> None:
    timeouts = {"rebalance_timeout_ms": int(REBALANCE_S * 1_000), "session_timeout_ms": 30_000}
    talk.stable("a", **timeouts)
    version = talk.version("JoinGroup", 5)
    asked = talk.joining("b", **timeouts)
    told = talk.ask("b", "JoinGroup", version, asked)
    began = time.monotonic()
    talk.on("b").send(apis()["JoinGroup"], version, asked | {"member_id": told["member_id"]})
    answers: list[Fields] = []

    def look() -> bool:
        try:
            answers.append(talk.on("b").answer(LOOK_S))
        except SilentError:
            talk.visit.limits.left_s(0)
        return bool(answers)

    _is_over(talk, began, REBALANCE_S, look, "b is answered without a")
    if answers:
        talk.show("b JoinGroup", f"{len(answers[0]['members'])} member in generation {answers[0]['generation']}")


def _meet(talk: Talk) -> None:
    version = talk.version("JoinGroup", 3)
    for name in ("a", "b"):
        talk.on(name).send(apis()["JoinGroup"], version, talk.joining(name))
    told = [talk.on(name).answer(talk.patience_s) for name in ("a", "b")]
    talk.show("a JoinGroup, b JoinGroup", f"generations {sorted(each['generation'] for each in told)}")


def _extended(talk: Talk) -> None:
    version, delay_s = talk.version("JoinGroup", 3), talk.visit.broker.delay_s or 0.0
    began = time.monotonic()
    talk.on("a").send(apis()["JoinGroup"], version, talk.joining("a"))
    talk.pause(began + delay_s / 2)
    talk.on("b").send(apis()["JoinGroup"], version, talk.joining("b"))
    talk.step = "a JoinGroup, b JoinGroup"
    talk.on("a").answer(talk.patience_s)
    took = (time.monotonic() - began) / delay_s
    talk.show(talk.step, "after two delays" if took > 1.6 else "after one delay" if took > 0.8 else "before the delay")
