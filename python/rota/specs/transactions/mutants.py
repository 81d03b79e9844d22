"""Bugs that are planted in the specification of transactions."""

from __future__ import annotations

from rota.specs.logic import And, If, Implies, Not, Or, State, Term
from rota.specs.planting import Bugs
from rota.specs.transactions.events import _store

BUGS = Bugs()
without, also, event = BUGS.without, BUGS.also, BUGS.event

without("start beside a transaction", "a new producer does not abort the open transaction", "start", "no transaction")
without("start with any epoch", "a new producer gets an epoch that is not greater", "start", "a greater epoch")
without(
    "begin beside another", "a transaction opens while the one before is being ended", "begin", "no other transaction"
)
without("late data of the first protocol", "a client ends its transaction while data is on its way: the known hole",
        "end", "nothing on its way")  # fmt: skip
without(
    "the second protocol keeps the epoch", "an end by the second protocol keeps the epoch", "end", "the epoch rises"
)
without("an end of a decided transaction", "a transaction is decided again", "end", "open")
without("an abort keeps the epoch", "an abort by the coordinator keeps the epoch", "abort", "the epoch rises")
without("known before durable", "a decision counts before it is durable", "learn", "durable")
without("marker before the decision", "a marker is sent before the decision is known", "mark", "decided")
without("complete without markers", "the Complete state does not wait for the markers", "complete", "every marker")
without("heard before decided", "a client hears an outcome that is not decided", "hear", "decided")
without("heard whatever it asks for", "a repetition is confirmed whatever was decided", "hear", "the outcome")
without("owner numbers stay", "a new owner has the number of the one before", "crash|recover", "a greater owner")
without(
    "an older owner's marker", "a participant accepts the marker of an earlier owner", "write", "the coordinator epoch"
)
without("grant to any epoch", "a participant is added for another epoch", "grant", "the current epoch")
without("granted without asking", "a leader appends without asking", "append granted", "granted")
without("granted data at any epoch", "a partition accepts granted data after the marker", "append granted", "the epoch")
without("read above the last stable offset", "a reader sees what is not decided", "fetch", "the last stable offset")
without("read what was aborted", "a reader does not get the aborted transactions", "fetch", "the aborted transactions")


@event("first protocol at any epoch", "a partition does not compare epochs of the first protocol", b="Batch", u="Txn")
def _any_epoch(s: State, b: Term, u: Term) -> None:
    s.require(And(Not(s.second(s.txn(b))), s.open(u), s.of(u) == s.of(s.txn(b)), s.added(u, s.part(b))))
    s.require(Not(s.done(s.txn(b))))
    s.__dict__["dropped"] = ("the epoch",)
    _store(s, b)
    s.__dict__["dropped"] = ()


@event("decision forgotten", "a decision that no client and no partition has seen becomes another one", t="Txn")
def _changes_its_mind(s: State, t: Term) -> None:
    s.require(And(s.decided(t), Not(s.done(t)), Not(s.committed(t)), Not(s.aborted(t))))
    s.require(s.all("Batch", lambda b: Implies(s.txn(b) == t, Not(Or(s.closed(b), s.seen(b), s.shown(b))))))
    for name in ("commits", "logcommits"):
        s.put(name, lambda old, u: If(u == t, Not(s.logcommits(t)), old))


@also("offsets visible at once", "offsets are visible before their marker", "append *")
def _shown_at_once(_before: State, s: State, b: Term, *_: Term) -> None:
    s.put("shown", lambda old, c: Or(old, And(c == b, s.groups(s.part(b)))))


@also("offsets visible after an abort", "a marker that aborts makes offsets visible, too", "write")
def _shown_anyway(before: State, s: State, _t: Term, p: Term, _o: Term) -> None:
    s.put("shown", lambda old, b: Or(old, And(s.closed(b), Not(before.closed(b)), s.groups(p))))


@also("a failed append decides", "an append that failed takes effect", "fail")
def _decides_anyway(_before: State, s: State, t: Term) -> None:
    s.add("decided", t)
    s.drop("open", t)


@also("crash forgets participants", "a new owner does not know the participants", "crash|recover")
def _forgets_participants(before: State, s: State, who: Term, _o: Term) -> None:
    i = who if who.sort() == before.context.sorts["Id"] else before.of(who)
    s.put("added", lambda old, t, _p: And(old, Or(before.of(t) != i, before.done(t))))


@also("recover aborts", "a new owner aborts what it finds decided", "recover")
def _aborts(_before: State, s: State, t: Term, _o: Term) -> None:
    s.put("commits", lambda old, u: And(old, u != t))


@also("a marker of the wrong outcome", "a marker commits data of an aborted transaction", "write")
def _commits_anyway(before: State, s: State, _t: Term, _p: Term, _o: Term) -> None:
    s.put("kept", lambda old, b: Or(old, And(s.closed(b), Not(before.closed(b)))))


@also("a marker leaves the epoch", "a marker does not fence its data", "write")
def _leaves_epoch(before: State, s: State, _t: Term, _p: Term, _o: Term) -> None:
    s.put("head", lambda _old, p, i: before.head(p, i))
